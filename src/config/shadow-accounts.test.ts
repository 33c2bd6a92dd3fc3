/** The team and the budgets of shadows beside those of the file. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { settingsSchema } from '../core/settings.ts'
import { ROUTE_ENTRY } from '../records/entities/route.ts'
import { TEAM_ENTRY } from '../records/entities/team.ts'
import { emptyFile } from './file-content.ts'
import { withDrillAccounts, withShadowAccounts } from './shadow-accounts.ts'

const route = (budget?: string | number) =>
  ROUTE_ENTRY.parse({
    targets: ['openai'],
    ...(budget !== undefined && { shadow: { to: 'openai/gpt-5', percent: 1, budget } }),
  })

test('shadow accounts: a file without shadows stays as it is', () => {
  const content = { ...emptyFile, routes: new Map([['plain', route()]]) }
  assert.equal(withShadowAccounts(content), content)
})

test('shadow accounts: a team for all, and a hard budget a day for each route, unless the file has its own', () => {
  const routes = new Map([
    ['fast', route('5.00')],
    ['claude-*', route(0.25)],
    ['plain', route()],
  ])
  const made = withShadowAccounts({ ...emptyFile, routes })
  assert.deepEqual([...made.teams.keys()], ['shadow'])
  const budgets = [...made.budgets.values()].map(({ amount, period, mode, appliesTo }) => [
    ...[amount, period, mode, appliesTo.teams],
    appliesTo.tags,
  ])
  const [fast, other] = made.budgets.keys()
  assert.equal(fast, 'shadow fast')
  assert.match(other ?? '', /^shadow claude-/)
  assert.deepEqual(budgets, [
    ['5.00', 'day', 'hard', ['shadow'], { shadow: 'fast' }],
    ['0.25', 'day', 'hard', ['shadow'], { shadow: other?.slice('shadow '.length) }],
  ])
  // Written out again, as an effective configuration is, it stays the same.
  assert.deepEqual(withShadowAccounts(made), made)
  const blocked = new Map([['shadow', TEAM_ENTRY.parse({ status: 'blocked' })]])
  assert.equal(withShadowAccounts({ ...emptyFile, routes, teams: blocked }).teams.get('shadow')?.status, 'blocked')
})

test('shadow accounts: a budget is an amount in dollars', () => {
  for (const budget of ['', 'x', '-1', -1, '1e3', '0.0000000001'])
    assert.throws(() => route(budget), { name: 'ZodError' }, String(budget))
})

test('drill accounts: a team with a hard budget a day, once a route has live checks', () => {
  const { drill } = settingsSchema.parse({ drill: { budget: 0.25 } })
  const routeWith = (live?: boolean) => ({
    ...emptyFile,
    routes: new Map([
      ['fast', ROUTE_ENTRY.parse({ targets: ['openai'], ...(live !== undefined && { drill: { live } }) })],
    ]),
  })
  assert.deepEqual(withDrillAccounts(routeWith(), drill), routeWith())
  assert.deepEqual(withDrillAccounts(routeWith(false), { ...drill, live: true }), routeWith(false))
  for (const made of [
    withDrillAccounts(routeWith(true), drill),
    withDrillAccounts(routeWith(), { ...drill, live: true }),
  ]) {
    assert.deepEqual([...made.teams.keys()], ['drill'])
    const { amount, period, mode, reserve, appliesTo } = made.budgets.get('drill') ?? assert.fail('no budget')
    assert.deepEqual([amount, period, mode, reserve, appliesTo.teams], ['0.25', 'day', 'hard', 'max', ['drill']])
    assert.deepEqual(withDrillAccounts(made, drill), made)
  }
})
