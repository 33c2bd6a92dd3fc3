import assert from 'node:assert/strict'
import { test } from 'node:test'
import { belowBase, fromRoot } from './base-path.ts'

const CASES = [
  ['/v1/models', '', '/v1/models'],
  ['/gateway/v1/models?a=/gateway', '/gateway', '/v1/models?a=/gateway'],
  ['/gateway', '/gateway', '/'],
  ['/gateway?a=1', '/gateway', '/?a=1'],
  ['/gateway/', '/gateway', '/'],
  ['/a/b/v1/models', '/a/b', '/v1/models'],
  ['*', '/gateway', '*'],
  // Not below it.
  ['/v1/models', '/gateway', null],
  ['/gateways/v1/models', '/gateway', null],
  ['/Gateway/v1/models', '/gateway', null],
  ['/%67ateway/v1/models', '/gateway', null],
  ['/gateway%2Fv1/models', '/gateway', null],
  ['/x/gateway/v1/models', '/gateway', null],
  ['/', '/gateway', null],
  // Another host for some parsers.
  ['/gateway//evil.example/v1', '/gateway', null],
  ['/gateway/\\evil.example/v1', '/gateway', null],
  // Probes.
  ['/health', '/gateway', '/health'],
  ['/health/ready?x=1', '/gateway', '/health/ready?x=1'],
  ['/gateway/health/live', '/gateway', '/health/live'],
  ['/health/providers', '/gateway', null],
  ['/healthy', '/gateway', null],
  // RFC 8414, section 3.1: the path of the issuer comes last.
  ['/.well-known/oauth-authorization-server/gateway', '/gateway', '/.well-known/oauth-authorization-server'],
  ['/gateway/.well-known/oauth-authorization-server', '/gateway', '/.well-known/oauth-authorization-server'],
  ['/.well-known/oauth-authorization-server', '/gateway', null],
] as const

for (const [target, basePath, below] of CASES)
  test(`base path: ${target} below ${basePath || 'the root'}`, () => assert.equal(belowBase(target, basePath), below))

const REDIRECTS = [
  ['/', '/dashboard/'],
  ['/gateway/', '/gateway/dashboard/'],
  ['/gateway', '/gateway/dashboard/'],
  ['/a/b?x=/', '/a/b/dashboard/'],
] as const

for (const [target, page] of REDIRECTS)
  test(`base path: the dashboard from ${target}`, () =>
    assert.equal(new URL(fromRoot(target, '/dashboard/'), `http://host${target}`).pathname, page))
