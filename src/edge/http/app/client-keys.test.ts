import assert from 'node:assert/strict'
import crypto from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'
import { test } from 'node:test'
import { keyRing } from './client-keys.ts'

const keys = (count: number) => Array.from({ length: count }, (_, n) => `client-key-${n}`)

const cases: readonly (readonly [string, readonly string[], string | undefined, boolean])[] = [
  ['no keys, none presented', [], undefined, false],
  ['no keys, one presented', [], 'a', false],
  ['none presented', ['a'], undefined, false],
  ['nothing presented', ['a'], '', false],
  ['the only one', ['a'], 'a', true],
  ['the last of many', keys(1_000), 'client-key-999', true],
  ['one too many', keys(1_000), 'client-key-1000', false],
  ['a prefix of a key', ['secret-key'], 'secret-ke', false],
  ['a key and one more character', ['secret-key'], 'secret-key1', false],
  ['characters beyond ASCII', ['schlüssel-🔑'], 'schlüssel-🔑', true],
  ['another Unicode normalization', ['schl\u00fcssel'], 'schlu\u0308ssel', false],
]
for (const [name, known, presented, found] of cases)
  test(`keys: ${name}`, () => assert.equal(keyRing(known)(presented) !== undefined, found))

test('keys: each has a unique ID, the same in every ring, that is no part of the key', () => {
  const ring = keyRing(keys(1_000))
  const ids = keys(1_000).map((key) => ring(key) ?? '')
  assert.equal(new Set(ids).size, 1_000)
  for (const [at, id] of ids.entries()) assert.match(id, /^[0-9a-f]{4,}$/, `key ${at}`)
  assert.equal(keyRing(['client-key-7'])('client-key-7'), ids[7]?.slice(0, 4))
})

test('keys: a look-up computes one digest and compares no key, for any number of keys', (context) => {
  const counted = (['hash', 'createHash', 'timingSafeEqual'] as const).map((name) => context.mock.method(crypto, name))
  syncBuiltinESMExports()
  try {
    const isKnown = keyRing(keys(1_000))
    for (const presented of ['client-key-0', 'client-key-999', 'a guess']) {
      for (const { mock } of counted) mock.resetCalls()
      isKnown(presented)
      assert.equal(
        counted.reduce((sum, { mock }) => sum + mock.callCount(), 0),
        1,
        presented,
      )
    }
  } finally {
    context.mock.restoreAll()
    syncBuiltinESMExports()
  }
})
