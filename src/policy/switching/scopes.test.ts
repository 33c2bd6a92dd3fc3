import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type SessionAnswer, SessionScopes } from './scopes.ts'

const answer = (target: string, more: Partial<SessionAnswer> = {}): SessionAnswer => ({
  ...{ target, tokens: 20_000, at: 1_000, life: 300_000, isHour: false, movedFrom: null, input: 21_000, size: 80_000 },
  ...more,
})

test('scopes: a session has its last target first, with what was reported', () => {
  const scopes = new SessionScopes()
  assert.equal(scopes.of('s'), null)
  assert(scopes.isEmpty)
  scopes.note('s', answer('a'), 2_000)
  scopes.note(
    's',
    answer('b', { tokens: 22_000, at: 5_000, life: 0, isHour: true, movedFrom: 'a', input: 23_000 }),
    6_000,
  )
  assert(!scopes.isEmpty)
  assert.deepEqual(scopes.of('s'), {
    scopes: [
      { target: 'b', tokens: 22_000, at: 5_000, life: 0, isHour: true },
      { target: 'a', tokens: 20_000, at: 1_000, life: 300_000, isHour: false },
    ],
    movedFrom: 'a',
    movedAt: 6_000,
    input: 23_000,
    size: 80_000,
  })
  assert.equal(scopes.of('other'), null)
  assert.deepEqual([scopes.lastTarget('s'), scopes.lastTarget('other')], ['b', null])
})

test('scopes: of two targets at the same time the later answer is the last', () => {
  for (const [first, second] of [
    ['a', 'b'],
    ['b', 'a'],
  ] as const) {
    const scopes = new SessionScopes()
    scopes.note('s', answer('a'), 2_000)
    scopes.note('s', answer(first), 2_000)
    scopes.note('s', answer(second), 2_000)
    assert.equal(scopes.lastTarget('s'), second)
    assert.equal(scopes.of('s')?.scopes[0]?.target, second)
  }
})

test('scopes: a later use replaces the earlier one of its target, and the fifth target the least recently used', () => {
  const scopes = new SessionScopes()
  for (const [index, target] of ['a', 'b', 'c', 'd'].entries())
    scopes.note('s', answer(target, { at: 1_000 * (index + 1) }), 10_000)
  scopes.note('s', answer('a', { at: 9_000, tokens: 30_000 }), 10_000)
  scopes.note('s', answer('e', { at: 10_000 }), 11_000)
  const found = scopes.of('s')?.scopes.map(({ target, tokens }) => `${target} ${tokens}`)
  assert.deepEqual(found, ['e 20000', 'a 30000', 'd 20000', 'c 20000'])
})

test('scopes: a target without tokens is known while it is the last one, so that the return from it is seen', () => {
  const scopes = new SessionScopes()
  const found = () => scopes.of('s')?.scopes.map(({ target, tokens }) => [target, tokens])
  scopes.note('s', answer('a'), 1_000)
  scopes.note('s', answer('b', { tokens: 0, movedFrom: 'a' }), 2_000)
  const a = ['a', 20_000]
  assert.deepEqual(found(), [['b', 0], a])
  assert.deepEqual([scopes.lastTarget('s'), scopes.of('s')?.movedFrom], ['b', 'a'])
  scopes.note('s', answer('a'), 3_000)
  assert.deepEqual(found(), [a])
})

test('scopes: after a compaction the prompts of other targets do not count', () => {
  const scopes = new SessionScopes()
  scopes.note('s', answer('a', { input: 100_000, tokens: 100_000 }), 1_000)
  scopes.note('s', answer('b', { input: 100_000, tokens: 100_000, at: 2_000 }), 2_000)
  scopes.note('s', answer('b', { input: 70_000, tokens: 70_000, at: 3_000 }), 3_000)
  assert.equal(scopes.of('s')?.scopes.length, 2, 'exactly 70 % is no compaction')
  scopes.note('s', answer('b', { input: 48_999, tokens: 48_999, at: 4_000 }), 4_000)
  assert.deepEqual(
    scopes.of('s')?.scopes.map(({ target }) => target),
    ['b'],
  )
})

test('scopes: the time of a move is that of the first answer at the fallback, and ends with the return', () => {
  const scopes = new SessionScopes()
  scopes.note('s', answer('b', { movedFrom: 'a' }), 1_000)
  scopes.note('s', answer('b', { movedFrom: 'a' }), 9_000)
  assert.equal(scopes.of('s')?.movedAt, 1_000)
  scopes.note('s', answer('a'), 10_000)
  assert.equal(scopes.of('s')?.movedAt, 0)
  assert.equal(scopes.of('s')?.movedFrom, null)
  scopes.note('s', answer('b', { movedFrom: 'a' }), 12_000)
  assert.equal(scopes.of('s')?.movedAt, 12_000)
})

test('scopes: 100,000 sessions stay within 16 MB, and the least recently used of a group is evicted', () => {
  const scopes = new SessionScopes()
  const before = process.memoryUsage().arrayBuffers
  for (let index = 0; index < 100_000; index++) scopes.note(`session ${index}`, answer('a'), index)
  let known = 0
  for (let index = 0; index < 100_000; index++) if (scopes.of(`session ${index}`)) known++
  assert(known > 90_000, String(known))
  for (let index = 100_000; index < 400_000; index++) scopes.note(`session ${index}`, answer('a'), index)
  assert(process.memoryUsage().arrayBuffers - before <= 16e6)
  assert.equal(scopes.of('session 399999')?.scopes.length, 1)
  let old = 0
  for (let index = 0; index < 100_000; index++) if (scopes.of(`session ${index}`)) old++
  assert(old < 10_000, String(old))
})

test('scopes: more targets than have numbers begin again, and nothing is mistaken', () => {
  const scopes = new SessionScopes()
  for (let index = 0; index < 10_500; index++) {
    scopes.note('s', answer(`target ${index}`, { at: index * 100, movedFrom: `from ${index}` }), 1)
    assert.equal(scopes.lastTarget('s'), `target ${index}`)
    assert.equal(scopes.of('s')?.movedFrom, `from ${index}`)
  }
  assert.equal(scopes.of('s')?.scopes[0]?.target, 'target 10499')
  for (const { target, at } of scopes.of('s')?.scopes ?? []) assert.equal(target, `target ${at / 100}`)
})
