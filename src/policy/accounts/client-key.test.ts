/** `KEYS=1000000 npm test -- accounts/client-key` makes that many keys; `npm test` makes a fifth of them. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { crc32 } from 'node:zlib'
import {
  createAccountId,
  createKey,
  isWellFormedKey,
  keyKindOf,
  keysIn,
  last4,
  type RandomBytes,
} from './client-key.ts'

const KEYS = Number(process.env.KEYS ?? 200_000)
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** A generator of bytes with a fixed seed (xorshift32), so that a failure can be repeated. */
const seeded = (seed: number): RandomBytes => {
  let state = seed
  return (count) =>
    Uint8Array.from({ length: count }, () => {
      state ^= state << 13
      state ^= state >>> 17
      state ^= state << 5
      return state & 0xff
    })
}

test('key: has a prefix, 32 random characters and the CRC-32 that zlib computes', () => {
  for (const [kind, prefix] of [
    ['client', 'hgk_'],
    ['admin', 'hga_'],
  ] as const) {
    const key = createKey(kind, randomBytes)
    assert.match(key, /^hg[ka]_[0-9A-Za-z]{38}$/)
    assert.ok(key.startsWith(prefix))
    const value = [...key.slice(-6)].reduce((sum, digit) => sum * 62 + BASE62.indexOf(digit), 0)
    assert.equal(value, crc32(key.slice(0, -6)))
    assert.equal(keyKindOf(key), kind)
    assert.equal(last4(key), key.slice(38))
  }
})

// The checksum was computed with Python's zlib.
test('key: a known key', () =>
  assert.equal(
    createKey('client', (count) => new Uint8Array(count)),
    `hgk_${'0'.repeat(32)}1eyrOm`,
  ))

test(`key: of ${KEYS} keys all are well-formed, and one changed character is always found`, () => {
  const random = seeded(14)
  const choose = (below: number) => {
    const [high = 0, low = 0] = random(2)
    return (high * 256 + low) % below
  }
  const changes = `${BASE62}_-`
  for (let n = 0; n < KEYS; n++) {
    const key = createKey(n % 2 ? 'client' : 'admin', random)
    if (!isWellFormedKey(key)) assert.fail(key)
    const at = choose(key.length)
    const other = changes[choose(changes.length)] ?? ''
    const changed = key.slice(0, at) + other + key.slice(at + 1)
    if (isWellFormedKey(changed) !== (changed === key)) assert.fail(`${key} ${changed}`)
  }
})

test('key: every other character at every position of a key is found', () => {
  const key = createKey('client', seeded(1))
  for (let at = 0; at < key.length; at++)
    for (let code = 0; code < 256; code++) {
      const changed = key.slice(0, at) + String.fromCharCode(code) + key.slice(at + 1)
      assert.equal(isWellFormedKey(changed), changed === key, changed)
    }
})

test('key: every exchange of two adjacent characters, omission and repetition is found', () => {
  const key = createKey('admin', seeded(2))
  for (let at = 0; at < key.length; at++) {
    const [one = '', other = ''] = key.slice(at, at + 2)
    const exchanged = key.slice(0, at) + other + one + key.slice(at + 2)
    assert.equal(isWellFormedKey(exchanged), exchanged === key, exchanged)
    assert.equal(isWellFormedKey(key.slice(0, at) + key.slice(at + 1)), false)
    assert.equal(isWellFormedKey(key.slice(0, at) + one + key.slice(at)), false)
  }
  for (const text of ['', 'hgk_', 'sk-abc', ` ${key}`, `${key}\n`, key.toUpperCase()])
    assert.equal(isWellFormedKey(text), false)
})

test('key: keys of others have no kind', () => {
  for (const text of ['', 'sk-proj-abc', 'hgk', 'HGK_x', ' hgk_x']) assert.equal(keyKindOf(text), undefined)
})

test('key: finds keys in a text, without those that have a wrong checksum', () => {
  const [one, other] = [createKey('client', seeded(3)), createKey('admin', seeded(4))]
  const wrong = `${one.slice(0, -1)}${one.endsWith('0') ? '1' : '0'}`
  assert.deepEqual(keysIn(`KEY="${one}"\n${wrong} x${other} ${other}0 Bearer ${other}, ${one}`), [one, other, one])
  assert.deepEqual(keysIn(''), [])
})

test('key: characters are equally likely', () => {
  const counts = new Map<string, number>()
  const random = seeded(5)
  for (let n = 0; n < 20_000; n++)
    for (const digit of createKey('client', random).slice(4, 36)) counts.set(digit, (counts.get(digit) ?? 0) + 1)
  const expected = (20_000 * 32) / 62
  assert.equal(counts.size, 62)
  for (const [digit, count] of counts)
    assert.ok(Math.abs(count - expected) < 0.06 * expected, `${digit}: ${count} of ${expected}`)
})

test('key: a broken source of randomness is an error, not an endless loop', () =>
  assert.throws(() => createKey('client', (count) => new Uint8Array(count).fill(255)), /randomness/))

test('key: an account ID is a prefix and 12 lower-case letters', () => {
  assert.match(createAccountId('key', randomBytes), /^key_[a-z]{12}$/)
  assert.notEqual(createAccountId('team', randomBytes), createAccountId('team', randomBytes))
})
