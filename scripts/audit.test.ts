import assert from 'node:assert/strict'
import { test } from 'node:test'
import { verdict } from './audit.ts'

const CASES = [
  ['nothing known', 0, '{"vulnerabilities":{},"metadata":{}}', '', 'good', ''],
  ['every signature is good', 0, '{"invalid":[],"missing":[]}', '', 'good', ''],
  [
    'a known vulnerability',
    1,
    '{"vulnerabilities":{"a":{"name":"a","severity":"high","range":"<2"},"b":{"name":"b","severity":"low","range":"*"}},"metadata":{}}',
    '',
    'bad',
    'a <2 (high)',
  ],
  ['a package that was changed', 1, '{"invalid":[{"name":"a","version":"1.0.0"}],"missing":[]}', '', 'bad', 'a@1.0.0'],
  [
    'a package without the signature its registry gives',
    1,
    '{"invalid":[],"missing":[{"name":"b","version":"2.0.0"}]}',
    '',
    'bad',
    'b@2.0.0',
  ],
  [
    'a registry without this question',
    1,
    '{"message":"405 Method Not Allowed","error":{"summary":""}}',
    'npm error audit endpoint returned an error',
    'silent',
    '405 Method Not Allowed',
  ],
  ['no network', 1, '{"error":{"code":"ENOTFOUND","summary":"no such host"}}', '', 'silent', 'no such host'],
  ['no npm', null, '', '', 'silent', 'no answer'],
  ['something that is no JSON', 1, 'npm', 'npm error code E500', 'silent', 'npm error code E500'],
] as const

for (const [name, status, stdout, stderr, is, why] of CASES)
  test(`audit: ${name}`, () => {
    const found = verdict({ status, stdout, stderr })
    assert.equal(found.is, is)
    assert.ok(found.why.includes(why), found.why)
  })
