import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createUserCode, nextPoll, readUserCode, refreshUse, shownUserCode, signInEnd } from './device.ts'

test('a user code has eight letters, each as likely as the others', () => {
  let next = 0
  const seen = new Map<string, number>()
  for (let n = 0; n < 300; n++)
    for (const letter of createUserCode((count) => Uint8Array.from({ length: count }, () => next++ % 256)))
      seen.set(letter, (seen.get(letter) ?? 0) + 1)
  assert.equal(seen.size, 20)
  const counts = [...seen.values()]
  assert.ok(Math.max(...counts) - Math.min(...counts) <= 12, counts.join(' '))
})

const TYPED = [
  ['WDJB-MJHT', 'WDJBMJHT'],
  ['wdjbmjht', 'WDJBMJHT'],
  [' wdjb mj-ht\n', 'WDJBMJHT'],
  ['WDJB-MJH', null],
  ['WDJB-MJHTT', null],
  ['WDJB-MJHA', null],
  ['WDJB_MJHT', null],
  ['', null],
] as const

for (const [typed, code] of TYPED)
  test(`a typed code: ${JSON.stringify(typed)}`, () => assert.equal(readUserCode(typed), code))

test('a code is shown in two halves', () => assert.equal(shownUserCode('WDJBMJHT'), 'WDJB-MJHT'))

test('a poll that comes too soon makes all later ones wait for longer', () => {
  assert.deepEqual(nextPoll({ polled: null, pause: 5_000 }, 0), { error: 'authorization_pending', pause: 5_000 })
  assert.deepEqual(nextPoll({ polled: 0, pause: 5_000 }, 4_600), { error: 'authorization_pending', pause: 5_000 })
  assert.deepEqual(nextPoll({ polled: 0, pause: 5_000 }, 1_000), { error: 'slow_down', pause: 10_000 })
  assert.deepEqual(nextPoll({ polled: 0, pause: 10_000 }, 5_000), { error: 'slow_down', pause: 15_000 })
})

test('a refresh token that was used gives the same answer for a minute, and then ends its sign-in', () => {
  assert.equal(refreshUse(null, 5), 'first')
  assert.equal(refreshUse(1_000, 61_000), 'again')
  assert.equal(refreshUse(1_000, 61_001), 'replayed')
})

test('a sign-in that cannot be checked ends 14 days after its beginning', () => {
  const day = 24 * 3_600_000
  assert.equal(signInEnd({ begun: 0, used: 3 * day, isCheckable: false }), 14 * day)
  assert.equal(signInEnd({ begun: 0, used: 3 * day, isCheckable: true }), 17 * day)
})
