import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chooseKey, publicKeysOf } from './choose-key.ts'

const RSA = { kty: 'RSA', n: 'bg', e: 'AQAB' }
const EC = { kty: 'EC', crv: 'P-256', x: 'eA', y: 'eQ' }
const ED = { kty: 'OKP', crv: 'Ed25519', x: 'eA' }
const keysOf = (...keys: readonly object[]) => publicKeysOf(JSON.parse(JSON.stringify({ keys }))) ?? []

test('keys: only public keys for signatures are read', () => {
  const keys = keysOf(
    { ...RSA, kid: 'a', d: 'private', x5c: ['a'] },
    { kty: 'oct', kid: 'b', k: 'c2VjcmV0' },
    { ...RSA, kid: 'c', use: 'enc' },
    { ...RSA, kid: 'd', key_ops: ['sign'] },
    { ...RSA, kid: 'e', n: 7 },
    { ...RSA, kid: 'f', use: 'sig', key_ops: ['verify'] },
    { kty: 'toString', kid: 'g' },
  )
  assert.deepEqual(
    keys.map(({ kid, jwk }) => [kid, jwk]),
    [
      ['a', RSA],
      ['f', RSA],
    ],
  )
  for (const set of [undefined, null, [], {}, { keys: {} }, 'keys']) assert.equal(publicKeysOf(set), undefined)
})

const CASES = [
  ['its ID and type', [{ ...RSA, kid: 'a' }], { kid: 'a', algorithm: 'RS256' }, true],
  ['an unknown ID', [{ ...RSA, kid: 'a' }], { kid: 'b', algorithm: 'RS256' }, false],
  ['another type', [{ ...RSA, kid: 'a' }], { kid: 'a', algorithm: 'ES256' }, false],
  ['another curve', [{ ...EC, kid: 'a' }], { kid: 'a', algorithm: 'ES384' }, false],
  ['its curve', [{ ...EC, kid: 'a' }], { kid: 'a', algorithm: 'ES256' }, true],
  ['EdDSA', [{ ...ED, kid: 'a' }], { kid: 'a', algorithm: 'EdDSA' }, true],
  ['EdDSA by its newer name', [{ ...ED, kid: 'a', alg: 'Ed25519' }], { kid: 'a', algorithm: 'EdDSA' }, true],
  ['another algorithm than its own', [{ ...RSA, kid: 'a', alg: 'RS256' }], { kid: 'a', algorithm: 'PS256' }, false],
  ['no ID and one key', [RSA], { kid: undefined, algorithm: 'RS256' }, true],
  ['no ID and two keys', [RSA, EC], { kid: undefined, algorithm: 'RS256' }, false],
  [
    'an ID that two keys have',
    [
      { ...RSA, kid: 'a' },
      { ...RSA, kid: 'a' },
    ],
    { kid: 'a', algorithm: 'RS256' },
    false,
  ],
  [
    'an ID with two types of key',
    [
      { ...RSA, kid: 'a' },
      { ...EC, kid: 'a' },
    ],
    { kid: 'a', algorithm: 'ES256' },
    true,
  ],
] as const

for (const [name, keys, wanted, found] of CASES)
  test(`keys: ${name}: ${found ? 'found' : 'none'}`, () =>
    assert.equal(chooseKey(keysOf(...keys), wanted) !== undefined, found))
