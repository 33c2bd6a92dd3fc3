/** Counters of budgets while the wall clock is set forward and back by an hour, with restarts. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testBudget, testClient } from '../../../test/support/accounts.ts'
import type { Budget } from '../../core/accounts.ts'
import { budgetScope } from '../../policy/accounts/budget-scope.ts'
import { type BudgetCell, BudgetCounters } from './budget-counters.ts'

const HOUR = 3_600_000
const MINUTE = 60_000
const CHARGE = 7
const CLIENT = testClient()
const TARGET = { requested: 'm', provider: 'a', model: 'm' }

/** A generator with a fixed seed (Park and Miller), so that a failure can be repeated. */
const seeded = (seed: number) => {
  let state = seed
  return () => {
    state = (state * 48_271) % 2_147_483_647
    return state / 2_147_483_647
  }
}

/** Counters that begin with what the ledger contains, as at each start of a process. */
const started = (budget: Budget, ledger: ReadonlyMap<number, number>): BudgetCounters => {
  const scopes = [budgetScope(budget)]
  const counters = new BudgetCounters(() => scopes)
  const counter = `${budget.id}:`
  const sums = [...ledger].map(([period_start, spent]) => ({ counter, period_start, spent }))
  for (const unrestored of counters.unrestored()) counters.restore(unrestored, sums, [])
  return counters
}

const cellAt = (counters: BudgetCounters, at: number): BudgetCell => {
  const cells = counters.cellsFor(CLIENT, { endUser: null, session: null }, TARGET, at)
  const [cell] = Array.isArray(cells) ? cells : []
  assert.ok(cell)
  return cell
}

const cases: readonly (readonly [period: Budget['period'], timezone: string])[] = [
  ['hour', 'UTC'],
  ['hour', 'Australia/Lord_Howe'],
  ['day', 'UTC'],
  ['day', 'Europe/Berlin'],
  ['week', 'America/New_York'],
  ['month', 'Asia/Kolkata'],
  ['total', 'UTC'],
]
for (const [period, timezone] of cases)
  for (const restarts of [false, true])
    test(`budget: with a clock that jumps by an hour, each ${period} in ${timezone} is counted once${restarts ? ', over restarts' : ''}`, () => {
      const random = seeded(14 + timezone.length)
      const budget = testBudget(1e9, { period, timezone })
      /** What was charged, by the period to which it was charged. */
      const ledger = new Map<number, number>()
      let counters = started(budget, ledger)
      /** The last Sunday of October 2026: clocks change in Berlin and on Lord Howe Island in this month. */
      let real = Date.UTC(2026, 9, 24, 21)
      let skew = 0
      let charges = 0
      let jumps = 0
      const end = real + (period === 'month' ? 40 : 9) * 24 * HOUR
      for (; real < end; real += 1 + Math.floor(random() * 9 * MINUTE)) {
        if (random() < 0.05) {
          skew = skew === 0 ? (random() < 0.5 ? HOUR : -HOUR) : 0
          jumps++
        }
        if (restarts && random() < 0.01) counters = started(budget, ledger)
        const cell = cellAt(counters, real + skew)
        const { periodStart } = cell
        // Nothing is forgotten when the clock returns, and nothing is counted twice.
        assert.equal(cell.used, ledger.get(periodStart) ?? 0, new Date(real + skew).toISOString())
        cell.used += CHARGE
        ledger.set(periodStart, cell.used)
        charges++
      }
      assert.ok(jumps > 20)
      assert.equal(
        [...ledger.values()].reduce((sum, spent) => sum + spent, 0),
        charges * CHARGE,
      )
    })

test('budget: a jump of the clock within a period changes nothing', () => {
  const budget = testBudget(1e9, { period: 'day', timezone: 'Europe/Berlin' })
  const counters = started(budget, new Map())
  const noon = Date.UTC(2026, 10, 23, 11)
  const cell = cellAt(counters, noon)
  cell.used = 500
  for (const at of [noon - HOUR, noon + HOUR, noon]) {
    assert.equal(cellAt(counters, at), cell)
    assert.deepEqual(counters.current(at), [cell])
  }
})
