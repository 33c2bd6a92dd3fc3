import assert from 'node:assert/strict'
import { test } from 'node:test'
import { instance } from '../../../test/support/gateway.ts'
import { Secret } from '../../core/secret.ts'
import { clientHeadersFor, forwardedValues } from './client-headers.ts'

const lookup = (headers: Readonly<Record<string, string>>) => (name: string) => headers[name]

test('client headers: those of the protocol need the same protocol, those of the provider do not', () => {
  const one = { ...instance('a', ['k']), forwardHeaders: ['openai-project'] }
  const headers = lookup({ 'openai-beta': 'x', 'openai-project': 'p', 'anthropic-version': '2020-01-01', cookie: 'c' })
  assert.deepEqual(clientHeadersFor(one, headers, true), { 'openai-beta': 'x', 'openai-project': 'p' })
  assert.deepEqual(clientHeadersFor(one, headers, false), { 'openai-project': 'p' })
  assert.equal(clientHeadersFor(instance('a', ['k']), headers, false), null)
})

test('client headers: the operator’s value wins, also over a header of the protocol (maximhq/bifrost#6587)', () => {
  const one = { ...instance('a', ['k']), headers: { 'anthropic-beta': new Secret('b') } }
  assert.equal(clientHeadersFor(one, lookup({ 'anthropic-beta': 'client' }), true), null)
})

test('client headers: values that a server might refuse are left out', () => {
  const one = { ...instance('a', ['k']), forwardHeaders: ['x-title'] }
  for (const value of ['', 'ü', 'x'.repeat(3_000)])
    assert.equal(clientHeadersFor(one, lookup({ 'x-title': value }), true), null)
})

test('client headers: requests that differ in one are not equal', () => {
  const conditional = { provider: 'b', weight: 1, when: { header: { 'X-D': 'gold' } } }
  const config = {
    instances: [{ ...instance('a', ['k']), forwardHeaders: ['x-b', 'x-a'] }, instance('b', ['k'])],
    routes: new Map([['fast', { name: 'fast', targets: [conditional], fallback: [] }]]),
  }
  // Only instances, routes and rules are read.
  const values = (headers: Readonly<Record<string, string>>) => forwardedValues(config as never, lookup(headers))
  assert.notDeepEqual(values({ 'x-a': '1' }), values({ 'x-a': '2' }))
  assert.notDeepEqual(values({ 'x-d': '1' }), values({ 'x-d': '2' }), 'a condition reads it')
  assert.deepEqual(values({ 'x-c': '1' }), values({ 'x-c': '2' }))
})
