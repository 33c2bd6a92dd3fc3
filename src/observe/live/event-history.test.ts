import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EventHistory, KEPT } from './event-history.ts'
import type { LiveEvent } from './live-event.ts'

const event = (id: string): LiveEvent => ({ id, topic: 'circuits', name: 'circuit', teams: null, data: '{}' })

const given = (...ids: readonly string[]): EventHistory => {
  const kept = new EventHistory()
  kept.open(0)
  for (const id of ids) kept.add(event(id), Number.parseInt(id, 10))
  return kept
}

const idsAfter = (kept: EventHistory, cursor: string): readonly string[] =>
  kept.after(cursor, 0).events.map(({ id }) => id)

test('event history: those after a cursor follow, by time and then by number', () => {
  const kept = given('5000-1-1', '5000-1-2', '6000-1-10')
  assert.deepEqual(idsAfter(kept, '5000-1-1'), ['5000-1-2', '6000-1-10'])
  assert.deepEqual(idsAfter(kept, '6000-1-9'), ['6000-1-10'])
  assert.deepEqual(idsAfter(kept, '6000-1-10'), [])
})

test('event history: those of another worker near the cursor are sent again', () => {
  const kept = given('1000-2-1', '4500-2-2', '5000-1-1')
  assert.deepEqual(idsAfter(kept, '5000-1-1'), ['4500-2-2'])
})

test('event history: an invalid cursor gives all, incomplete', () => {
  const kept = given('5000-1-1')
  for (const cursor of ['', '1', 'x-1-1', `${'9'.repeat(20)}-1-1`]) {
    const { events, isComplete } = kept.after(cursor, 0)
    assert.deepEqual([events.length, isComplete], [1, false], cursor)
  }
})

test('event history: they are complete since the first that is kept, and since `from`', () => {
  const kept = given('5000-1-1', '9000-1-2')
  assert.equal(kept.after('0-1-1', 0).isComplete, true)
  assert.equal(kept.after('5000-1-1', 5_001).isComplete, false)
  kept.add(event('70000-1-3'), 70_000)
  assert.equal(kept.after('9000-1-2', 0).isComplete, false)
  assert.equal(kept.after('9001-1-2', 0).isComplete, true)
})

test('event history: at most a number of them is kept, and nothing after `drop`', () => {
  const kept = given()
  for (let at = 0; at <= KEPT.events; at++) kept.add(event(`1000-1-${at}`), 1_000)
  assert.equal(kept.after('', 0).events.length, KEPT.events)
  kept.drop()
  assert.deepEqual([kept.areKept, kept.after('', 0).events.length], [false, 0])
})
