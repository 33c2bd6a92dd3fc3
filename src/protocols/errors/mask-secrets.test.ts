import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { assertLinear } from '../../../test/support/growth.ts'
import { classify } from './classify.ts'
import { maskSecrets } from './mask-secrets.ts'

const masks: readonly (readonly [text: string, shown: string])[] = [
  ['Incorrect API key provided: sk-abcd1234efgh5678.', 'Incorrect API key provided: ***5678.'],
  [
    'Incorrect API key provided: sk-ab****wxyz. See https://a.example/keys.',
    'Incorrect API key provided: ***wxyz. See https://a.example/keys.',
  ],
  ['Authorization: Bearer abcdefgh12', 'Authorization: Bearer ***gh12'],
  ['https://x.example/v1?key=AIzaSyA1234567890abcdef&alt=sse', 'https://x.example/v1?key=***cdef&alt=sse'],
  ['invalid token "0123456789abcdef0123"', 'invalid token "***0123"'],
  ['eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl', '***dXJl'],
  ['AKIAIOSFODNN7EXAMPLE is unknown', '***MPLE is unknown'],
  ['gsk_abcdefghijklmnop and xai-abcdefghijklmnop', '***mnop and ***mnop'],
  ['x-api-key: 3fa85f6457174562b3fc2c963f66afa6', 'x-api-key: ***afa6'],
  // Other texts stay readable.
  ['max_tokens provided: 100000000', 'max_tokens provided: 100000000'],
  ['The model `gpt-4o-mini-2024-07-18` does not exist', 'The model `gpt-4o-mini-2024-07-18` does not exist'],
  ['request id req_011CSHoEeqs5C35K2UUqR7Fy', 'request id req_011CSHoEeqs5C35K2UUqR7Fy'],
  ['Invalid token: unexpected', 'Invalid token: unexpected'],
  ['task-based-approach-for-all', 'task-based-approach-for-all'],
  // A scheme must directly precede the credential.
  ['bearer is abcdefgh', 'bearer is abcdefgh'],
  ['bearer:  abcdefgh', 'bearer:  ***efgh'],
  ['Basic "abcdefgh"', 'Basic "***efgh"'],
  // At least 12 characters with letters and digits, or 24 without a dot or slash.
  ['key: abcdefghijk1', 'key: ***ijk1'],
  ['key: abcdefghij1', 'key: abcdefghij1'],
  ['key: abcdefghijkl', 'key: abcdefghijkl'],
  ['key: 012345678901', 'key: 012345678901'],
  ['key: abcdefghijklmnopqrstuvwx', 'key: ***uvwx'],
  ['key: abcdefghijklmnopqrstuvw', 'key: abcdefghijklmnopqrstuvw'],
  ['key: abcdefghijkl.nopqrstuvwx', 'key: abcdefghijkl.nopqrstuvwx'],
  ['keys provided ( abcdefghij1k', 'keys provided ( ***ij1k'],
  ['key (provided: abcdefghij1k', 'key (provided: ***ij1k'],
  ['key nothing abcdefghij1k', 'key nothing abcdefghij1k'],
  ['the key provided:   abcdefghij1k', 'the key provided:   ***ij1k'],
]
for (const [text, shown] of masks)
  test(`maskSecrets: ${text}`, () => {
    assert.equal(maskSecrets(text), shown)
    assert.equal(classify(400, { message: text }).upstream?.message, shown)
  })

test('maskSecrets: masks a key at any position', () => {
  const key = 'sk-proj-Zx9Qw8Er7Ty6Ui5Op4As3Df2Gh1'
  fc.assert(
    fc.property(fc.string(), fc.string(), (before, after) => {
      fc.pre(!/[A-Za-z0-9]$/.test(before))
      assert.ok(!maskSecrets(before + key + after).includes('Zx9Qw8Er7Ty6'))
    }),
  )
})

test('maskSecrets: takes linear time', () => {
  for (const [unit, head] of [
    ['a', ''],
    ['key ', ''],
    ['sk-', ''],
    [' ', 'key'],
    ['bearer aaaaaaaa ', ''],
  ] as const)
    assertLinear(unit, 1_000_000, (size) => maskSecrets(`${head}${unit.repeat(size / unit.length)}!`))
})
