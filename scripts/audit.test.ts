import assert from 'node:assert/strict'
import { test } from 'node:test'
import { verdict } from './audit.ts'

const CASES = [
  ['no known vulnerability', 0, '{"vulnerabilities":{},"metadata":{}}', '', 'passed', ''],
  ['every signature is valid', 0, '{"invalid":[],"missing":[]}', '', 'passed', ''],
  [
    'a known vulnerability',
    1,
    '{"vulnerabilities":{"a":{"name":"a","severity":"high","range":"<2"},"b":{"name":"b","severity":"low","range":"*"}},"metadata":{}}',
    '',
    'failed',
    'a <2 (high)',
  ],
  [
    'a package with an invalid signature',
    1,
    '{"invalid":[{"name":"a","version":"1.0.0"}],"missing":[]}',
    '',
    'failed',
    'a@1.0.0',
  ],
  [
    'a package without a signature',
    1,
    '{"invalid":[],"missing":[{"name":"b","version":"2.0.0"}]}',
    '',
    'failed',
    'b@2.0.0',
  ],
  [
    'a registry without this endpoint',
    1,
    '{"message":"405 Method Not Allowed","error":{"summary":""}}',
    'npm error audit endpoint returned an error',
    'unknown',
    '405 Method Not Allowed',
  ],
  ['no network', 1, '{"error":{"code":"ENOTFOUND","summary":"no such host"}}', '', 'unknown', 'no such host'],
  ['no npm', null, '', '', 'unknown', 'no answer'],
  ['output that is not JSON', 1, 'npm', 'npm error code E500', 'unknown', 'npm error code E500'],
] as const

for (const [name, status, stdout, stderr, result, reason] of CASES)
  test(`audit: ${name}`, () => {
    const found = verdict({ status, stdout, stderr })
    assert.equal(found.result, result)
    assert.ok(found.reason.includes(reason), found.reason)
  })
