import assert from 'node:assert/strict'
import { test } from 'node:test'
import { stillWorld } from '../../../test/support/still-world.ts'
import { NEVER, SharedTimer, type TimerClient } from '../../core/shared-timer.ts'
import { AttemptClock } from './attempt-clock.ts'
import type { AttemptTimeout, TimeoutRules } from './attempt-timeouts.ts'

const RULES = {
  settings: { circuit: { timeout: 100 }, timeout: { firstContent: 200, idle: 50, contentIdle: 0 } },
  stream: true,
  holdbackMs: 0,
} as unknown as TimeoutRules

const given = () => {
  const timeouts: AttemptTimeout[] = []
  const clock: AttemptClock = new AttemptClock(stillWorld(), new SharedTimer<TimerClient>(), RULES, {
    onTimeout: (timeout) => {
      timeouts.push(timeout)
      clock.isOver = true
    },
  })
  return { clock, timeouts, start: clock.startedAt }
}

test('attempt clock: the timer is set to the earliest deadline, and not moved to a later one', () => {
  const { clock, start } = given()
  clock.schedule(start)
  assert.equal(clock.until, start + 100)
  clock.hasResponded = true
  clock.schedule(start)
  assert.equal(clock.until, start + 100)
  clock.hasHeaders = true
  clock.restartIdle(start + 10)
  assert.equal(clock.until, start + 60)
})

test('attempt clock: a deadline reports what has expired, once', () => {
  const { clock, timeouts, start } = given()
  clock.schedule(start)
  clock.onDeadline(start + 99)
  assert.deepEqual(timeouts, [])
  clock.onDeadline(start + 500)
  assert.deepEqual(timeouts, ['response'])
})

test('attempt clock: no timeout is checked after its release', () => {
  const { clock, start } = given()
  clock.isLingering = true
  clock.schedule(start)
  clock.release()
  assert.deepEqual([clock.isLingering, clock.place], [false, -1])
  assert.equal(given().clock.until, NEVER)
})
