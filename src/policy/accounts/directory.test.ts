import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type Budget,
  type ClientKey,
  DEFAULT_TEAM,
  type FileAccounts,
  FULL_ACCESS,
  NO_ACCOUNTS,
  NO_LIMITS,
  type Team,
} from '../../core/accounts.ts'
import { NO_REQUIRE } from '../../core/data-policy.ts'
import { buildDirectory, changeDirectory } from './directory.ts'

const team = (id: string, name: string, rest: Partial<Team> = {}): Team => ({
  id,
  name,
  status: 'active',
  access: FULL_ACCESS,
  limits: NO_LIMITS,
  require: NO_REQUIRE,
  cache: null,
  tags: {},
  managed: 'api',
  ...rest,
})
const key = (id: string, name: string, rest: Partial<ClientKey> = {}): ClientKey => ({
  id,
  name,
  team: DEFAULT_TEAM.id,
  status: 'active',
  createdAt: 0,
  expiresAt: null,
  access: FULL_ACCESS,
  secrets: [{ digest: `s1:${id}`, last4: 'abcd', createdAt: 0, until: null }],
  limits: NO_LIMITS,
  require: NO_REQUIRE,
  defaultRoute: null,
  cache: null,
  logBodies: false,
  tags: {},
  managed: 'api',
  ...rest,
})
const budget = (id: string, name: string, rest: Partial<Budget> = {}): Budget => ({
  id,
  name,
  amount: 1_000,
  period: 'month',
  timezone: 'UTC',
  startDay: 1,
  per: 'all',
  mode: 'hard',
  reserve: 'typical',
  onOverrun: 'finish',
  enforcement: 'fast',
  countFrom: 'creation',
  createdAt: 0,
  appliesTo: { teams: null, keys: null, tags: null, models: null, providers: null },
  alerts: [],
  managed: 'api',
  ...rest,
})
const file = (rest: Partial<FileAccounts>): FileAccounts => ({ ...NO_ACCOUNTS, ...rest })

test('directory: the default team always exists, and a configured one replaces it', () => {
  assert.equal(buildDirectory(NO_ACCOUNTS, NO_ACCOUNTS).teams.get(DEFAULT_TEAM.id)?.status, 'active')
  const blocked = team(DEFAULT_TEAM.id, DEFAULT_TEAM.name, { status: 'blocked' })
  const directory = buildDirectory(NO_ACCOUNTS, { ...NO_ACCOUNTS, teams: [blocked] })
  assert.equal(directory.teams.get(DEFAULT_TEAM.id), blocked)
  assert.equal(changeDirectory(directory, NO_ACCOUNTS, [DEFAULT_TEAM.id]).teams.get(DEFAULT_TEAM.id)?.status, 'active')
})

test('directory: the file refers to teams and keys of both sides by name or ID', () => {
  const stored = { ...NO_ACCOUNTS, teams: [team('team_s', 'search')], keys: [key('key_s', 'prod')] }
  const directory = buildDirectory(
    file({
      teams: [team('team_f', 'files')],
      keys: [
        key('key_f', 'dev', { team: 'search' }),
        key('key_g', 'g', { team: 'files' }),
        key('key_h', 'h', { team: 'team_s' }),
      ],
      budgets: [
        budget('bud_f', 'all', {
          appliesTo: { ...budget('', '').appliesTo, teams: ['files'], keys: ['prod', 'key_f'] },
        }),
      ],
    }),
    stored,
  )
  assert.deepEqual(
    ['key_f', 'key_g', 'key_h'].map((id) => directory.keys.get(id)?.team),
    ['team_s', 'team_f', 'team_s'],
  )
  assert.deepEqual(directory.budgets.get('bud_f')?.appliesTo.teams, ['team_f'])
  assert.deepEqual(directory.budgets.get('bud_f')?.appliesTo.keys, ['key_s', 'key_f'])
})

test('directory: keys of a team that no longer exists are refused', () => {
  const stored = { ...NO_ACCOUNTS, keys: [key('key_s', 's', { team: 'team_gone' })] }
  const directory = buildDirectory(NO_ACCOUNTS, stored)
  assert.equal(directory.teams.get('team_gone')?.status, 'blocked')
  const added = changeDirectory(buildDirectory(NO_ACCOUNTS, NO_ACCOUNTS), stored, [])
  assert.equal(added.teams.get('team_gone')?.status, 'blocked')
})

test('directory: a change replaces, adds and removes records, and leaves the earlier directory as it was', () => {
  const price = { id: 'prc_a', provider: 'openai', model: '*', effectiveFrom: 0, prices: {}, managed: 'api' } as const
  const stored = { ...NO_ACCOUNTS, keys: [key('key_a', 'a'), key('key_b', 'b')], prices: [price] }
  const before = buildDirectory(NO_ACCOUNTS, stored)
  const changed = { ...NO_ACCOUNTS, keys: [key('key_b', 'b2'), key('key_c', 'c')], budgets: [budget('bud_a', 'a')] }
  const next = changeDirectory(before, changed, ['key_a', 'prc_a'])
  assert.deepEqual(
    [...next.keys.values()].map(({ name }) => name),
    ['b2', 'c'],
  )
  assert.deepEqual([...next.budgets.keys()], ['bud_a'])
  assert.deepEqual(next.prices, [])
  assert.deepEqual(
    [...before.keys.values()].map(({ name }) => name),
    ['a', 'b'],
  )
  assert.deepEqual(before.prices, [price])
})

test('directory: a record of the file with the ID of a stored one replaces it, also after changes', () => {
  const stored = { ...NO_ACCOUNTS, teams: [team('team_f', 'x')] }
  const own = team('team_f', 'x', { managed: 'file', status: 'blocked' })
  const directory = buildDirectory(file({ teams: [own] }), stored)
  assert.equal(changeDirectory(directory, stored, []).teams.get('team_f'), own)
  assert.equal(changeDirectory(directory, NO_ACCOUNTS, ['team_f']).teams.get('team_f'), own)
})

test('directory: a name refers to no revoked key and to no deleted team, an ID refers to any', () => {
  const stored = {
    ...NO_ACCOUNTS,
    teams: [team('team_old', 'search', { status: 'deleted' })],
    keys: [key('key_old', 'prod', { status: 'revoked' })],
  }
  const applies = (keys: readonly string[], teams: readonly string[]) => ({ ...budget('', '').appliesTo, keys, teams })
  const { budgets } = buildDirectory(
    file({
      budgets: [
        budget('bud_names', 'n', { appliesTo: applies(['prod'], ['search']) }),
        budget('bud_all', 'a'),
        budget('bud_ids', 'i', { appliesTo: applies(['key_old'], ['team_old']) }),
      ],
    }),
    stored,
  )
  const selected = (id: string) => [budgets.get(id)?.appliesTo.keys, budgets.get(id)?.appliesTo.teams]
  assert.deepEqual(selected('bud_names'), [['prod'], ['search']])
  assert.deepEqual(selected('bud_ids'), [['key_old'], ['team_old']])
  assert.deepEqual(selected('bud_all'), [null, null])
})

test('directory: a change without budgets and prices keeps theirs, and one that removes a budget does not', () => {
  const before = buildDirectory(NO_ACCOUNTS, { ...NO_ACCOUNTS, budgets: [budget('bud_a', 'a'), budget('bud_b', 'b')] })
  const next = changeDirectory(before, { ...NO_ACCOUNTS, keys: [key('key_a', 'a')] }, [])
  assert.equal(next.budgets, before.budgets)
  assert.equal(next.prices, before.prices)
  assert.deepEqual([...changeDirectory(before, NO_ACCOUNTS, ['bud_a']).budgets.keys()], ['bud_b'])
})

test('directory: the team of the remaining keys is refused after it was removed, and the default team stays as it is', () => {
  const own = team(DEFAULT_TEAM.id, DEFAULT_TEAM.name, { tags: { a: 'b' } })
  const stored = { ...NO_ACCOUNTS, teams: [team('team_a', 'a'), own], keys: [key('key_a', 'a', { team: 'team_a' })] }
  const next = changeDirectory(buildDirectory(NO_ACCOUNTS, stored), NO_ACCOUNTS, ['team_a'])
  assert.equal(next.teams.get('team_a')?.status, 'blocked')
  assert.equal(next.teams.get(DEFAULT_TEAM.id), own)
})
