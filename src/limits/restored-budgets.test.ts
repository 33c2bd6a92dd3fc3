import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testBudget } from '../../test/support/accounts.ts'
import { stillWorld } from '../../test/support/still-world.ts'
import type { Budget } from '../core/accounts.ts'
import { type BudgetCell, BudgetCounters } from '../gateway/accounts/budget-counters.ts'
import { Reservations } from '../gateway/accounts/reservations.ts'
import { type BudgetScope, budgetScope } from '../policy/accounts/budget-scope.ts'
import type { LedgerSum } from '../usage/bookkeeper/ledger-store.ts'
import { RestoredBudgets } from './restored-budgets.ts'

/** The beginning of a month and of a day. */
const NOW = Date.UTC(2026, 10, 1)

/** Budgets of a process that started at `NOW`. What it spends is in the ledger at once, unless usage is not recorded. */
const given = (servesUnknown = true) => {
  let scopes: readonly BudgetScope[] = []
  const counters = new BudgetCounters(() => scopes, { servesUnknown: () => servesUnknown })
  const authority = new Reservations({ world: stillWorld() })
  const ledger = new Map<string, LedgerSum>()
  const reads: number[] = []
  const problems: string[] = []
  const retries: (() => void)[] = []
  const state = { isRecorded: true, problem: '', beforeReading: () => {}, whileReading: () => {} }
  const known = new RestoredBudgets({
    accounts: counters,
    ledger: {
      async spentSince(since) {
        reads.push(since)
        await null
        state.beforeReading()
        const sums = [...ledger.values()]
        await null
        state.whileReading()
        return state.problem === '' ? sums : state.problem
      },
    },
    isRecorded: () => state.isRecorded,
    date: () => NOW,
    later(_ms, run) {
      retries.push(run)
      return () => assert.fail('a retry is not cancelled')
    },
    onProblem: (reason, budgets) => problems.push(`${reason}: ${budgets.map(({ id }) => id).join()}`),
    onRestored: () => problems.push('restored'),
  })
  const add = (counter: string, spent: number, earlier: number) => {
    const before = ledger.get(counter)
    const sum = { counter, period_start: NOW, spent: (before?.spent ?? 0) + spent }
    ledger.set(counter, { ...sum, earlier: (before?.earlier ?? 0) + earlier, recorded: [] })
  }
  /** What an earlier process has spent. */
  const store = (counter: string, spent: number) => add(counter, spent, spent)
  const cell = (id: string): BudgetCell => {
    const found = counters.current(NOW).find((one) => one.id === id)
    assert.ok(found)
    return found
  }
  /** Begins an attempt that costs this much; returns how it ends. */
  const begin = (id: string, cost: number) => {
    const cells = { slots: [], rates: [], budgets: [cell(id)] }
    const result = authority.reserve(cells, { first: true, tokens: 0, cost })
    if (result instanceof Promise || 'refusal' in result) return assert.fail('the budget has room')
    return () => {
      authority.settle(result.reservation, { tokens: 0, cost })
      if (state.isRecorded) add(`${id}:`, cost, 0)
    }
  }
  const refusalOf = (id: string) => {
    const refusal = authority.check({ slots: [], rates: [], budgets: [cell(id)] }, { first: true, tokens: 0, cost: 1 })
    return refusal && (refusal.unavailable ? 'unknown' : 'spent')
  }
  return {
    refusalOf,
    state,
    reads,
    problems,
    store,
    begin,
    known,
    retry: async () => {
      for (const run of retries.splice(0)) run()
      await new Promise(setImmediate)
    },
    change: (...budgets: readonly Budget[]) => {
      scopes = budgets.map(budgetScope)
      return known.changed()
    },
    spend: (id: string, cost: number) => begin(id, cost)(),
    spent: (id: string) => cell(id).used,
    held: (id: string) => cell(id).held,
  }
}
const created = (id: string, createdAt: number, more: Partial<Budget> = {}) =>
  testBudget(10_000, { id, createdAt, ...more })
const FILE = created('bud_file', 0)

test('restored budgets: what was spent before the start is counted', async () => {
  const { store, change, spent } = given()
  store('bud_old:', 5)
  store('bud_file:', 7)
  await change(created('bud_old', NOW - 1), FILE)
  assert.deepEqual([spent('bud_old'), spent('bud_file')], [5, 7])
})

test('restored budgets: a budget that is created later counts only what this process counts', async () => {
  const { change, spend, spent, reads } = given()
  await change(created('bud_new', NOW + 1))
  spend('bud_new', 5)
  await change(created('bud_new', NOW + 1, { name: 'renamed' }))
  assert.deepEqual([spent('bud_new'), reads], [5, []])
})

test('restored budgets: it is counted from the ledger once its period is another', async () => {
  const { change, spend, spent } = given()
  await change(created('bud_new', NOW + 1))
  spend('bud_new', 5)
  await change(created('bud_new', NOW + 1, { period: 'day' }))
  assert.equal(spent('bud_new'), 5)
})

test('restored budgets: a budget of the file that is added again is counted from the ledger', async () => {
  const { change, store, spent } = given()
  await change()
  store('bud_file:', 5)
  await change(FILE)
  assert.equal(spent('bud_file'), 5)
})

test('restored budgets: under load, what is spent of a budget that is removed and added again counts once', async () => {
  const { state, change, begin, spend, spent, held } = given()
  await change(FILE)
  spend('bud_file', 5)
  const [endWhileRemoved, endLater] = [begin('bud_file', 20), begin('bud_file', 300)]
  await change()
  endWhileRemoved()
  state.whileReading = () => spend('bud_file', 1)
  await change(FILE)
  spend('bud_file', 1)
  assert.equal(held('bud_file'), 300)
  endLater()
  assert.equal(spent('bud_file'), 326)
})

test('restored budgets: what is spent while the ledger is read counts once, whether it is read or not', async () => {
  const { state, change, store, begin, spend, spent } = given()
  store('bud_file:', 5)
  await change()
  state.beforeReading = () => {
    endLater()
    spend('bud_file', 20)
  }
  state.whileReading = () => spend('bud_file', 300)
  const changed = change(FILE)
  const endLater = begin('bud_file', 4_000)
  await changed
  assert.equal(spent('bud_file'), 4_325)
})

test('restored budgets: a budget whose period is changed and changed back keeps what is spent', async () => {
  const { change, spend, spent } = given()
  await change(FILE)
  spend('bud_file', 5)
  await change({ ...FILE, period: 'total' })
  await change(FILE)
  assert.equal(spent('bud_file'), 5)
})

test('restored budgets: a ledger that cannot be read is read again, and what was spent meanwhile counts once', async () => {
  const { state, change, retry, store, spend, spent, problems, known } = given()
  store('bud_file:', 5)
  state.problem = 'the disk is full'
  await change(FILE)
  assert.equal(known.problem, 'the disk is full')
  spend('bud_file', 20)
  // It appears before the next attempt.
  store('bud_other:', 3)
  await change(FILE, created('bud_other', 0))
  await retry()
  assert.deepEqual(problems, ['the disk is full: bud_file'])
  state.problem = ''
  await retry()
  assert.deepEqual(problems, ['the disk is full: bud_file', 'restored'])
  assert.equal(known.problem, null)
  assert.deepEqual([spent('bud_file'), spent('bud_other')], [25, 3])
  await retry()
  assert.deepEqual([spent('bud_file'), spent('bud_other')], [25, 3])
})

test('restored budgets: what was spent before usage was recorded still counts', async () => {
  const { state, change, store, spend, spent, known } = given()
  store('bud_file:', 5)
  state.isRecorded = false
  await change(FILE)
  spend('bud_file', 20)
  state.isRecorded = true
  await known.changed()
  assert.equal(spent('bud_file'), 25)
  // Not recorded for a time, it is still counted.
  state.isRecorded = false
  await known.changed()
  spend('bud_file', 300)
  state.isRecorded = true
  await known.changed()
  assert.equal(spent('bud_file'), 325)
})

test('restored budgets: counters of a budget removed long ago are dropped, and counted from the ledger again', async () => {
  const { change, spend, spent, reads } = given()
  await change(FILE)
  spend('bud_file', 5)
  const others = Array.from({ length: 1_001 }, (_, index) => created(`bud_${index}`, NOW + 1))
  await change(...others)
  await change()
  const before = reads.length
  await change(FILE)
  assert.deepEqual([spent('bud_file'), reads.length - before], [5, 1])
})

test('restored budgets: changes while the ledger is read, which fails, add no further retries', async () => {
  const { state, change, retry, reads } = given()
  state.problem = 'the disk is full'
  await Promise.all([change(FILE), change(FILE, created('bud_b', 0)), change(FILE)])
  reads.length = 0
  for (const expected of [1, 2]) {
    await retry()
    assert.equal(reads.length, expected)
  }
})

const SPENT = 10_000

test('restored budgets: a hard budget is unknown until the ledger is read, a soft one is not refused', async () => {
  const { state, change, retry, store, refusalOf, known } = given(false)
  store('bud_file:', SPENT)
  state.problem = 'the disk is full'
  const changed = change(FILE, created('bud_soft', 0, { mode: 'soft' }))
  assert.equal(refusalOf('bud_file'), 'unknown')
  await changed
  assert.deepEqual([refusalOf('bud_file'), refusalOf('bud_soft')], ['unknown', null])
  assert.deepEqual(known.unknown(), { reason: 'the disk is full', since: NOW })
  await retry()
  assert.equal(refusalOf('bud_file'), 'unknown')
  state.problem = ''
  await retry()
  assert.deepEqual([refusalOf('bud_file'), known.unknown()], ['spent', null])
})

test('restored budgets: a ledger that is read slowly leaves a hard budget unknown, and says so', async () => {
  const { state, change, store, refusalOf, known } = given(false)
  store('bud_file:', SPENT)
  let whileReading: unknown[] = []
  state.whileReading = () => {
    whileReading = [refusalOf('bud_file'), known.unknown()]
  }
  await change(FILE)
  assert.deepEqual(whileReading, ['unknown', { reason: 'earlier usage is being read', since: NOW }])
  assert.equal(refusalOf('bud_file'), 'spent')
})

test('restored budgets: a budget that is changed or added again is unknown until the ledger is read again', async () => {
  const { change, spend, refusalOf } = given(false)
  await change(FILE)
  spend('bud_file', SPENT)
  for (const budget of [
    { ...FILE, period: 'hour' as const },
    { ...FILE, period: 'day' as const },
  ]) {
    const changed = change(budget)
    assert.equal(refusalOf('bud_file'), 'unknown', budget.period)
    await changed
    assert.equal(refusalOf('bud_file'), 'spent', budget.period)
  }
})

test('restored budgets: a budget that is created later is known at once, also while the ledger cannot be read', async () => {
  const { state, change, refusalOf } = given(false)
  state.problem = 'the disk is full'
  await change(FILE)
  const changed = change(FILE, created('bud_new', NOW + 1))
  assert.deepEqual([refusalOf('bud_file'), refusalOf('bud_new')], ['unknown', null])
  await changed
})

test('restored budgets: with budget.whenUnknown: serve they count from zero until the ledger is read', async () => {
  const { state, change, store, refusalOf, known } = given()
  store('bud_file:', SPENT)
  state.problem = 'the disk is full'
  await change(FILE)
  assert.deepEqual([refusalOf('bud_file'), known.unknown()?.reason], [null, 'the disk is full'])
})
