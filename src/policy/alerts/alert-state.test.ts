import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type AlertEntries, nextAlerts, RESOLVE_AFTER, restoredEntries, storedEntries } from './alert-state.ts'
import type { AlertCondition } from './conditions.ts'

const conditionOf = (more: Partial<AlertCondition> = {}): AlertCondition => ({
  rule: 'circuitOpen',
  type: 'circuit.open',
  severity: 'critical',
  threshold: '',
  occasion: '',
  until: null,
  object: { kind: 'provider', id: 'openai', name: 'openai' },
  after: 0,
  value: null,
  limit: null,
  message: 'x',
  ...more,
})
const budgetAt = (threshold: string, until = 1_000_000): AlertCondition =>
  conditionOf({ rule: 'budget', type: 'budget.threshold', threshold, occasion: '0', until })

/** Runs steps and returns what is due at each: `80`, or `-80` when it is over. */
const run = (steps: readonly (readonly [now: number, ...conditions: AlertCondition[]])[], start?: AlertEntries) => {
  let entries = start ?? new Map()
  return steps.map(([now, ...conditions]) => {
    const next = nextAlerts(entries, conditions, now)
    entries = next.entries
    return next.due
      .map(({ condition, isResolved }) => `${isResolved ? '-' : ''}${condition.threshold || 'x'}`)
      .join(' ')
  })
}

test('alerts: a condition is due once, and once when it is over', () => {
  const holds = conditionOf()
  assert.deepEqual(run([[0, holds], [5, holds], [6], [6 + RESOLVE_AFTER - 1], [6 + RESOLVE_AFTER], [99_999]]), [
    ...['x', '', '', '', '-x', ''],
  ])
})

test('alerts: a condition that must last is due when it has lasted', () => {
  const holds = conditionOf({ after: 60 })
  assert.deepEqual(
    run([
      [0, holds],
      [59, holds],
      [60, holds],
      [61, holds],
    ]),
    ['', '', 'x', ''],
  )
})

test('alerts: a condition that ended before it was due is forgotten', () => {
  const holds = conditionOf({ after: 60 })
  assert.deepEqual(run([[0, holds], [30], [40, holds], [99, holds], [100, holds]]), ['', '', '', '', 'x'])
})

test('alerts: a condition that returns within a minute is not over', () => {
  const holds = conditionOf()
  assert.deepEqual(run([[0, holds], [10], [20, holds], [20 + RESOLVE_AFTER, holds]]), ['x', '', '', ''])
})

test('alerts: without a period, a condition is due each time it begins', () => {
  const holds = conditionOf()
  const over = 10 + RESOLVE_AFTER
  assert.deepEqual(run([[0, holds], [10], [over], [over + 1, holds]]), ['x', '', '-x', 'x'])
})

test('alerts: each threshold is due once in a period, also if it is reached again', () => {
  const over = 10 + RESOLVE_AFTER
  assert.deepEqual(
    run([[0, budgetAt('80')], [5, budgetAt('80'), budgetAt('100')], [10], [over], [over + 1, budgetAt('80')]]),
    ['80', '100', '', '-80 -100', ''],
  )
})

test('alerts: the end of the period ends the alert at once', () => {
  assert.deepEqual(run([[0, budgetAt('80', 100)], [99, budgetAt('80', 100)], [100]]), ['80', '', '-80'])
})

test('alerts: a clock that goes back by an hour repeats no alert of a period that has ended', () => {
  const hour = 3_600_000
  const holds = budgetAt('80', 10 * hour)
  const next = { ...holds, occasion: '1', until: 11 * hour }
  const steps: Parameters<typeof run>[0] = [
    [9.5 * hour, holds],
    [10.2 * hour],
    [9.2 * hour, holds],
    [9.9 * hour, holds],
    [10.3 * hour],
    [10.4 * hour, next],
    [9.4 * hour, holds],
    [10.5 * hour, next],
  ]
  assert.deepEqual(run(steps), ['80', '-80', '', '', '', '80', '', ''])
})

test('alerts: the expiry of a key is not reported as its end, but a longer validity is', () => {
  const expiry = conditionOf({ rule: 'keyExpiry', type: 'key.expiry', threshold: '7d', occasion: '500', until: 500 })
  assert.deepEqual(run([[0, expiry], [500]]), ['7d', ''])
  const later = { ...expiry, until: 500_000 }
  assert.deepEqual(run([[0, later], [10], [10 + RESOLVE_AFTER]]), ['7d', '', '-7d'])
})

test('alerts: what is stored and read again is not due again', () => {
  const before = nextAlerts(new Map(), [budgetAt('80'), conditionOf({ after: 60 })], 0)
  const stored = JSON.parse(JSON.stringify(storedEntries(before.entries)))
  assert.equal(stored.length, 1)
  assert.deepEqual(run([[5, budgetAt('80')]], restoredEntries(stored)), [''])
})

test('alerts: a change that a restart must not lose is marked, others are not', () => {
  const first = nextAlerts(new Map(), [budgetAt('80')], 0)
  assert.equal(first.changed, true)
  assert.equal(nextAlerts(first.entries, [budgetAt('80')], 5).changed, false)
  assert.equal(nextAlerts(first.entries, [], 5).changed, true)
})

test('alerts: critical ones are due first, those that clients can cause last', () => {
  const conditions = [
    conditionOf({ threshold: 'clients', object: { kind: 'budget', id: 'a', name: 'a' }, byClients: true }),
    conditionOf({ threshold: 'warning', severity: 'warning' }),
    conditionOf({ threshold: 'critical' }),
  ]
  assert.deepEqual(run([[0, ...conditions]]), ['critical warning clients'])
})

test('alerts: of too many conditions, the most urgent are kept', () => {
  const many = Array.from({ length: 5_000 }, (_, index) => conditionOf({ threshold: `c${index}`, byClients: true }))
  const { entries, due, ignored } = nextAlerts(new Map(), [...many, conditionOf({ threshold: 'real' })], 0)
  assert.equal(due[0]?.condition.threshold, 'real')
  assert.deepEqual([entries.size, ignored], [2_000, 3_001])
})
