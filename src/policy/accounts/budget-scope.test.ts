import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Budget, BudgetSelector, Client } from '../../core/accounts.ts'
import { budgetScope, counterOwner, countsClient } from './budget-scope.ts'
import { allowsTarget } from './key-access.ts'

const client: Client = {
  id: 'key_alice',
  owner: 'key_alice',
  name: 'alice',
  team: { id: 'team_search', name: 'search' },
  user: 'alice',
  access: [],
  limits: [],
  defaultRoute: null,
  cache: null,
  tags: { app: 'search', stage: 'prod' },
}
const target = { requested: 'fast', provider: 'anthropic', model: 'claude-opus-5' }

const ALL: BudgetSelector = { teams: null, keys: null, tags: null, models: null, providers: null }
const budget: Budget = {
  id: 'bud_a',
  name: 'a',
  amount: 1,
  period: 'month',
  timezone: 'UTC',
  startDay: 1,
  appliesTo: ALL,
  per: 'all',
  mode: 'hard',
  reserve: 'typical',
  onOverrun: 'finish',
  enforcement: 'fast',
  countFrom: 'creation',
  createdAt: 0,
  alerts: [],
  managed: 'file',
}

const cases: readonly (readonly [selector: Partial<BudgetSelector>, counts: boolean])[] = [
  [{}, true],
  [{ teams: ['team_search', 'team_ads'] }, true],
  [{ teams: ['team_ads'] }, false],
  [{ teams: [] }, false],
  [{ keys: ['key_alice'] }, true],
  [{ keys: ['key_bob'] }, false],
  [{ teams: ['team_search'], keys: ['key_bob'] }, false],
  [{ tags: {} }, true],
  [{ tags: { app: 'search' } }, true],
  [{ tags: { app: 'search', stage: 'test' } }, false],
  [{ tags: { toString: 'x' } }, false],
  [{ models: ['*opus*'] }, true],
  [{ models: ['fast'] }, true],
  [{ models: ['anthropic/*'] }, true],
  [{ models: ['gpt-*'] }, false],
  [{ models: ['*', '!*opus*'] }, false],
  [{ models: [] }, false],
  [{ providers: ['anth*'] }, true],
  [{ providers: ['openai'] }, false],
  [{ providers: ['openai'], models: ['*opus*'] }, false],
]
for (const [selector, counts] of cases)
  test(`budget: ${JSON.stringify(selector)} ${counts ? 'counts' : 'does not count'} the attempt`, () => {
    const scope = budgetScope({ ...budget, appliesTo: { ...ALL, ...selector } })
    assert.equal(countsClient(scope.budget, client) && allowsTarget(scope, target), counts)
  })

const owners: readonly (readonly [per: Budget['per'], owner: string, unknown: string | null])[] = [
  ['all', '', ''],
  ['team', 'team_search', 'team_search'],
  ['key', 'key_alice', 'key_alice'],
  ['user', 'alice', ''],
  ['end_user', 'u-17', ''],
  ['session', 'ses_a', null],
]
for (const [per, owner, unknown] of owners)
  test(`budget: the counter per ${per}, with and without a user`, () => {
    assert.equal(counterOwner({ per }, client, { endUser: 'u-17', session: 'ses_a' }), owner)
    assert.equal(counterOwner({ per }, { ...client, user: null }, { endUser: null, session: null }), unknown)
  })
