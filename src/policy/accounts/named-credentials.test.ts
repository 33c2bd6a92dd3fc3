import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testBudget } from '../../../test/support/accounts.ts'
import { DEFAULT_TEAM, FULL_ACCESS, NO_ACCOUNTS, NO_LIMITS, type Team } from '../../core/accounts.ts'
import { NO_REQUIRE } from '../../core/data-policy.ts'
import { buildDirectory } from './directory.ts'
import { namesCredential } from './named-credentials.ts'

const team = (id: string, managed: Team['managed']): Team => ({
  id,
  name: id,
  status: 'active',
  access: FULL_ACCESS,
  limits: NO_LIMITS,
  require: NO_REQUIRE,
  cache: null,
  tags: {},
  managed,
})

const OPEN = {
  'no record': NO_ACCOUNTS,
  'the default team, changed by the admin API': { ...NO_ACCOUNTS, teams: [team(DEFAULT_TEAM.id, 'api')] },
}
const CLOSED = {
  'a team of the API': { ...NO_ACCOUNTS, teams: [team('team_a', 'api')] },
  'the default team of the file': { ...NO_ACCOUNTS, teams: [team(DEFAULT_TEAM.id, 'file')] },
  'a budget': { ...NO_ACCOUNTS, budgets: [testBudget(1)] },
}
for (const [name, records] of Object.entries(OPEN))
  test(`credentials: none is needed with ${name}`, () =>
    assert.equal(namesCredential(buildDirectory(NO_ACCOUNTS, records)), false))
for (const [name, records] of Object.entries(CLOSED))
  test(`credentials: one is needed with ${name}`, () =>
    assert.equal(namesCredential(buildDirectory(NO_ACCOUNTS, records)), true))
