import assert from 'node:assert/strict'
import test from 'node:test'
import {
  dayCap,
  hasQuota,
  hourOfWeek,
  isDue,
  type LiveResult,
  nextResult,
  nextRun,
  probeOutcome,
} from './live-rules.ts'

const DAY = 86_400_000
const HOUR = 3_600_000

test('live checks: a refusal names what the target refuses; limits, faults and content decisions accuse no target', () => {
  assert.deepEqual(probeOutcome(null), { verdict: 'ready' })
  for (const kind of ['invalid_request', 'incapable', 'model_missing', 'permission', 'auth', 'quota', 'tls'] as const)
    assert.deepEqual(probeOutcome(kind), { verdict: 'refused', kind })
  for (const kind of [
    'rate_limited',
    'token_rate',
    'overloaded',
    'status',
    'timeout',
    'stalled',
    'content_policy',
    'refused',
  ] as const)
    assert.deepEqual(probeOutcome(kind), { verdict: 'unsettled', kind })
  for (const kind of ['budget_exceeded', 'budget_unavailable', 'client_limit'] as const)
    assert.equal(probeOutcome(kind), 'own')
})

test('live checks: a day costs 0.1 % of the daily spend of a week, a cent at least, the setting at most', () => {
  assert.equal(dayCap('0.50', null), 10_000_000)
  assert.equal(dayCap('0.50', 7 * 1_000_000_000), 10_000_000)
  assert.equal(dayCap('0.50', 7 * 100_000_000_000), 100_000_000)
  assert.equal(dayCap('0.50', 7 * 10_000_000_000_000), 500_000_000)
  assert.equal(dayCap('0.001', null), 1_000_000)
})

test('live checks: half of the stated quota must be left', () => {
  assert.ok(hasQuota(undefined) && hasQuota({ share: 0.5 }))
  assert.ok(!hasQuota({ share: 0.49 }))
})

test('live checks: they begin in the emptiest hour of the next day, or at the time that is set', () => {
  const now = Date.UTC(2026, 10, 28, 15, 20)
  const hours = Array.from({ length: 168 }, () => 10)
  const quiet = Date.UTC(2026, 10, 29, 3)
  hours[hourOfWeek(quiet)] = 1
  assert.equal(nextRun('quiet', now, hours), quiet)
  assert.equal(nextRun('quiet', now, []), Date.UTC(2026, 10, 28, 16))
  assert.equal(nextRun('03:30', now, []), Date.UTC(2026, 10, 29, 3, 30))
  assert.equal(nextRun('15:30', now, []), Date.UTC(2026, 10, 28, 15, 30))
  assert.equal(nextRun('never', now, hours), null)
})

const at = 1_000 * DAY + 5 * HOUR
const ready: LiveResult = { verdict: 'ready', at, source: 'live', target: 'a' }
const unsettled: LiveResult = { verdict: 'unsettled', kind: 'rate_limited', at, source: 'live', target: 'a' }

test('live checks: a result is due when it is old, or the target is another', () => {
  const now = { at: at + 6 * DAY, target: 'a', days: 7 }
  assert.ok(isDue(undefined, now))
  assert.ok(!isDue(ready, now))
  assert.ok(isDue(ready, { ...now, at: at + 7 * DAY }))
  assert.ok(isDue(ready, { ...now, target: 'b' }))
})

test('live checks: without a verdict a shape is tried on two more days, and a verdict is kept', () => {
  let known = nextResult(undefined, unsettled, 7)
  assert.ok(!isDue(known, { at: at + HOUR, target: 'a', days: 7 }))
  for (const day of [1, 2]) {
    assert.ok(isDue(known, { at: at + day * DAY, target: 'a', days: 7 }), `day ${day}`)
    known = nextResult(known, { ...unsettled, at: at + day * DAY }, 7)
  }
  assert.ok(!isDue(known, { at: at + 3 * DAY, target: 'a', days: 7 }))
  assert.ok(isDue(known, { at: at + 9 * DAY, target: 'a', days: 7 }))
  assert.equal(nextResult(ready, { ...unsettled, at: at + DAY }, 7), ready)
  assert.equal(nextResult(ready, { ...unsettled, at: at + 8 * DAY }, 7).verdict, 'unsettled')
  assert.equal(nextResult(ready, { ...ready, verdict: 'refused', kind: 'auth', at: at + 1 }, 7).verdict, 'refused')
})
