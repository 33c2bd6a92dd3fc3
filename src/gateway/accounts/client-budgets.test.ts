/** Counters that are kept for a client and target: they are those that would be selected again. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testBudget, testClient } from '../../../test/support/accounts.ts'
import type { Budget, Client } from '../../core/accounts.ts'
import { budgetScope } from '../../policy/accounts/budget-scope.ts'
import type { AccessTarget } from '../../policy/accounts/key-access.ts'
import { type BudgetCell, BudgetCounters } from './budget-counters.ts'
import { LimitCounters } from './limit-counters.ts'

const HOUR = 3_600_000
const CLIENT = testClient()
const TARGET = { requested: 'm', provider: 'a', model: 'm' }
const { appliesTo } = testBudget(0)

const given = (budgets: readonly Budget[], maxOwners?: number) => {
  let scopes = budgets.map(budgetScope)
  const counters = new BudgetCounters(() => scopes, maxOwners === undefined ? {} : { maxOwners })
  const select = (user: string | null, target: AccessTarget | null, at = 0, client: Client = CLIENT) => {
    const cells = counters.cellsFor(client, { endUser: user, session: null }, target, at)
    if ('id' in cells) throw new Error('a budget has no counter left')
    return cells
  }
  const change = (changed: readonly Budget[]) => {
    scopes = changed.map(budgetScope)
  }
  return { select, change }
}

const names = (cells: readonly BudgetCell[]) =>
  cells.map(({ id, owner, periodStart }) => `${id}:${owner}@${periodStart}`)

test('counters of a client: the same request has the same list', () => {
  const { select } = given([testBudget(1, { id: 'all' }), testBudget(1, { id: 'key', per: 'key' })])
  const cells = select(null, TARGET)
  assert.deepEqual(names(cells), ['all:@0', 'key:key_test@0'])
  assert.equal(select(null, { ...TARGET }), cells)
  assert.equal(select('u', TARGET), cells, 'no budget counts end users')
})

test('counters of a client: another target, end user or period has its own', () => {
  const ofModel = testBudget(1, { id: 'model', appliesTo: { ...appliesTo, models: ['m'] } })
  const ofProvider = testBudget(1, { id: 'provider', appliesTo: { ...appliesTo, providers: ['a'] } })
  const ofUser = testBudget(1, { id: 'user', per: 'end_user', period: 'hour' })
  const { select } = given([ofModel, ofProvider, ofUser])
  const expected: readonly (readonly [string | null, AccessTarget | null, number, readonly string[]])[] = [
    ['u', TARGET, 0, ['model:@0', 'provider:@0', 'user:u@0']],
    ['v', TARGET, 0, ['model:@0', 'provider:@0', 'user:v@0']],
    [null, TARGET, 0, ['model:@0', 'provider:@0', 'user:@0']],
    ['u', null, 0, ['user:u@0']],
    ['u', { ...TARGET, provider: 'b' }, 0, ['model:@0', 'user:u@0']],
    ['u', { ...TARGET, model: 'n' }, 0, ['model:@0', 'provider:@0', 'user:u@0']],
    ['u', { ...TARGET, model: 'n', requested: null }, 0, ['provider:@0', 'user:u@0']],
    ['u', TARGET, HOUR, ['model:@0', 'provider:@0', `user:u@${HOUR}`]],
    ['u', TARGET, HOUR - 1, ['model:@0', 'provider:@0', 'user:u@0']],
  ]
  for (const [user, target, at, cells] of [...expected, ...expected.toReversed()])
    assert.deepEqual(names(select(user, target, at)), cells)
})

test('counters of a client: each session has its own, and a request without one has none', () => {
  const counters = new BudgetCounters(
    () => [testBudget(1, { id: 'all' }), testBudget(1, { id: 'session', per: 'session' })].map(budgetScope),
    { maxOwners: 1_000 },
  )
  const scopes = [testBudget(1, { id: 'all' }), testBudget(1, { id: 'session', per: 'session' })].map(budgetScope)
  const stable = new BudgetCounters(() => scopes)
  const select = (all: BudgetCounters, session: string | null) => {
    const cells = all.cellsFor(CLIENT, { endUser: null, session }, TARGET, 0)
    return 'id' in cells ? assert.fail() : names(cells)
  }
  for (const one of [counters, stable])
    for (const session of ['a', null, 'b', 'a', null, null, 'b', 'b', 'a'])
      assert.deepEqual(select(one, session), ['all:@0', ...(session === null ? [] : [`session:${session}@0`])])
})

test('counters of a client: after a change of the budgets they are selected again', () => {
  const [one, two] = [testBudget(1, { id: 'one' }), testBudget(1, { id: 'two' })]
  const { select, change } = given([one])
  assert.deepEqual(names(select(null, TARGET)), ['one:@0'])
  change([{ ...one, amount: 2 }, two])
  assert.deepEqual(names(select(null, TARGET)), ['one:@0', 'two:@0'])
  change([])
  assert.deepEqual(names(select(null, TARGET)), [])
})

test('counters of a client: one that was dropped for another owner is not used again', () => {
  const { select } = given([testBudget(1, { per: 'key' })], 2)
  const [dropped] = select(null, TARGET)
  for (const cell of select(null, TARGET, 0, testClient({}, 'key_b'))) cell.held++
  select(null, TARGET, 0, testClient({}, 'key_c'))
  const [cell] = select(null, TARGET)
  assert.ok(dropped && cell && cell !== dropped)
})

test('counters of a client: keys of a team share its limits also after idle ones were dropped', () => {
  const limits = new LimitCounters()
  const team = (id: string) => testClient({ concurrent: 1 }, id)
  const [one, other] = [team('team'), team('team')]
  limits.cellsFor(one, 0)
  for (let at = 0; at < 20_001; at++) limits.cellsFor(team(`key ${at}`), 0)
  assert.equal(limits.cellsFor(one, 0).slots[0], limits.cellsFor(other, 0).slots[0])
})
