import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StoreAvailability, type StoreAvailabilityOptions } from './store-availability.ts'

const SHARED = { url: 'postgres://127.0.0.1/x', snapshot: true, migrate: 'auto' } as const

const given = (options: Partial<StoreAvailabilityOptions> = {}) => {
  const states: (string | null)[] = []
  const availability = new StoreAvailability({
    database: null,
    needsStore: () => false,
    date: () => 1_000,
    onState: (problem) => states.push(problem),
    ...options,
  })
  return { availability, states }
}

test('store availability: a file that was read, or is not needed, is available at once', () => {
  for (const content of ['read', 'absent'] as const) {
    const { availability, states } = given()
    availability.started(content)
    availability.checkMissing()
    assert.deepEqual([availability.isUnavailable, availability.isLoading], [false, false], content)
    assert.deepEqual(states, [])
  }
})

test('store availability: a file that is missing and needed is a problem until it is read', () => {
  const { availability, states } = given({ needsStore: () => true })
  availability.started('absent')
  availability.checkMissing()
  assert.deepEqual([availability.isUnavailable, availability.isLoading], [true, true])
  assert.equal(availability.problem?.since, 1_000)
  availability.read()
  availability.checkMissing()
  assert.deepEqual([availability.isUnavailable, availability.problem], [false, null])
  assert.match(states[0] ?? '', /^there is no control\.db/)
  assert.deepEqual(states.slice(1), [null])
})

test('store availability: a new installation that requires keys is ready, and refuses calls', () => {
  const { availability } = given({ needsStore: () => true, isReadyWithoutStore: () => true })
  availability.started('absent')
  assert.deepEqual([availability.isUnavailable, availability.isLoading], [true, false])
})

test('store availability: the snapshot of a shared database serves known keys before the database is read', async () => {
  const { availability } = given({ database: SHARED })
  availability.started('read')
  assert.deepEqual([availability.isUnavailable, availability.isLoading, availability.problem], [true, false, null])
  availability.read()
  await availability.loaded
  assert.equal(availability.isUnavailable, false)
})

test('store availability: a shared database without a snapshot is loading, a state that is not reported', () => {
  const { availability, states } = given({ database: SHARED })
  availability.started('unread')
  assert.deepEqual([availability.isUnavailable, availability.isLoading, states], [true, true, []])
  assert.equal(availability.problem?.reason, 'the keys have not been read so far')
})

test('store availability: a lost file is unavailable until it is found, and equal reports are one', () => {
  const { availability, states } = given()
  availability.started('read')
  availability.lost('gone', true)
  availability.lost('gone', true)
  assert.equal(availability.isUnavailable, true)
  availability.lost(null, false)
  assert.equal(availability.isUnavailable, false)
  assert.deepEqual(states, ['gone', null])
})
