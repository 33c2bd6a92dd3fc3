/** Clients name the end users of a budget `per: end_user`: those that one invents shut out only its own. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Budget } from '../../src/core/accounts.ts'
import { type BudgetCell, BudgetCounters, MAX_OWNERS } from '../../src/gateway/accounts/budget-counters.ts'
import { budgetScope } from '../../src/policy/accounts/budget-scope.ts'
import { testBudget, testClient } from '../support/accounts.ts'

const BUDGET = testBudget(1_000, { per: 'end_user', period: 'total' })
const [ATTACKER, OTHER, THIRD] = ['key_a', 'key_b', 'key_c'].map((id) => testClient({}, id))

const given = (maxOwners = 1_000, budget: Budget = BUDGET) => {
  const scopes = [budgetScope(budget)]
  const counters = new BudgetCounters(() => scopes, { maxOwners })
  /** Spends for an end user of a client; null: it is refused. */
  const spend = (client: typeof ATTACKER, user: string, cost = 1): BudgetCell | null => {
    assert.ok(client)
    const cells = counters.cellsFor(client, { endUser: user, session: null }, null, 0)
    if ('id' in cells) return null
    const [cell] = cells
    assert.ok(cell)
    cell.used += cost
    return cell
  }
  const flood = (count = 3 * maxOwners) =>
    Array.from({ length: count }, (_, at) => spend(ATTACKER, `invented ${at}`)).filter((cell) => cell === null).length
  return { counters, spend, flood }
}

test('end users invented by one client: its own new ones are refused, those of others are not', () => {
  const { spend, flood } = given()
  assert.equal(spend(OTHER, 'real', 600)?.used, 600)
  assert.ok(flood() >= 2_000)
  for (let at = 0; at < 300; at++) {
    assert.ok(spend(OTHER, `new ${at}`), `new ${at}`)
    assert.ok(spend(THIRD, `other ${at}`), `other ${at}`)
  }
  assert.equal(spend(OTHER, 'real', 1)?.used, 601, 'what was spent is kept')
  assert.equal(spend(ATTACKER, 'one more'), null)
})

test('end users invented by one client: with a soft budget only its own are counted together', () => {
  const { spend, flood } = given(1_000, { ...BUDGET, mode: 'soft' })
  flood()
  assert.equal(spend(ATTACKER, 'one more')?.owner, '*')
  assert.equal(spend(OTHER, 'real')?.owner, 'real')
})

test('end users invented by one client: after a restart they are those of no client until they are used', () => {
  const { counters, spend, flood } = given()
  const sums = Array.from({ length: 1_000 }, (_, at) => ({
    counter: `${BUDGET.id}:${at === 500 ? 'real' : `invented ${at}`}`,
    period_start: 0,
    spent: at === 500 ? 600 : 1,
  }))
  const [unrestored] = counters.unrestored()
  assert.ok(unrestored)
  counters.restore(unrestored, sums, [])
  assert.equal(spend(OTHER, 'real', 1)?.used, 601)
  for (let at = 0; at < 300; at++) assert.ok(spend(OTHER, `new ${at}`), `new ${at}`)
  flood()
  for (let at = 0; at < 100; at++) assert.ok(spend(THIRD, `third ${at}`), `third ${at}`)
  assert.equal(spend(OTHER, 'real', 1)?.used, 602)
})

test('end users invented by one client: attempts in progress keep their counters', () => {
  const { spend, flood } = given()
  const cell = spend(ATTACKER, 'in progress', 0)
  assert.ok(cell)
  cell.held = 5
  flood()
  for (let at = 0; at < 400; at++) spend(OTHER, `new ${at}`)
  assert.equal(spend(ATTACKER, 'in progress', 0), cell)
})

test('end users invented by one client: refusing one more does not look through all of them', () => {
  const { spend, flood } = given(MAX_OWNERS)
  flood(MAX_OWNERS)
  const values = Map.prototype.values
  let scans = 0
  Map.prototype.values = function (this: Map<unknown, unknown>) {
    if (this.size >= MAX_OWNERS) scans++
    return values.call(this)
  }
  try {
    for (let at = 0; at < 2_000; at++) assert.equal(spend(ATTACKER, `more ${at}`), null)
  } finally {
    Map.prototype.values = values
  }
  assert.ok(scans <= 3, `${scans} scans`)
})
