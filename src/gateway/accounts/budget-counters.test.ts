import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testBudget } from '../../../test/support/accounts.ts'
import { budgetScope } from '../../policy/accounts/budget-scope.ts'
import { BudgetCounters } from './budget-counters.ts'

const HOUR = 3_600_000
const START = Date.UTC(2026, 10, 23)

test('budget counters: figures of a period that is no longer kept change no other period', () => {
  const budget = testBudget(1_000, { period: 'hour' })
  const scopes = [budgetScope(budget)]
  const counters = new BudgetCounters(() => scopes)
  const figures = (hour: number, spent: number) => ({
    budget: budget.id,
    owner: '',
    periodStart: START + hour * HOUR,
    spent,
    reserved: 0,
  })
  counters.show([0, 1, 2, 3].map((hour) => figures(hour, 10 + hour)))
  counters.show([figures(0, 500)])
  const spent = [1, 2, 3].map((hour) => {
    const cell = counters.cellOf(budget.id, '', START + hour * HOUR)
    return cell && 'charge' in cell && cell.used
  })
  assert.deepEqual(spent, [11, 12, 13])
})
