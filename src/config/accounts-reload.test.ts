/** Teams, keys, budgets and prices of the file beside those of the database, when the file changes. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { load } from '../../test/support/config.ts'
import {
  type AccountRecords,
  DEFAULT_TEAM,
  FULL_ACCESS,
  NO_ACCOUNTS,
  NO_LIMITS,
  type PriceRule,
} from '../core/accounts.ts'
import { NO_REQUIRE } from '../core/data-policy.ts'
import { buildDirectory } from '../policy/accounts/directory.ts'
import type { Loaded } from './configure.ts'
import { describeChange } from './describe.ts'

const hex = (byte: string) => `s1:${byte.repeat(32)}`
const KEPT = 'budgets: { kept: { amount: 7, period: month } }\n'

/** One kind of record: its section with two versions of an entry, and a record of the database. */
type Row = {
  readonly section: 'teams' | 'keys' | 'budgets' | 'prices'
  readonly yaml: (name: string, version: 1 | 2, id?: string) => string
  readonly stored: (name: string, id: string) => Partial<AccountRecords>
  readonly invalid: string
  readonly id: string
}

const shared = {
  access: FULL_ACCESS,
  limits: NO_LIMITS,
  require: NO_REQUIRE,
  cache: null,
  tags: {},
  managed: 'api',
} as const
const idPart = (id?: string) => (id === undefined ? '' : `id: ${id}, `)

const kinds: readonly Row[] = [
  {
    section: 'teams',
    yaml: (name, version, id) =>
      `teams: { ${name}: { ${idPart(id)}status: ${version === 1 ? 'active' : 'blocked'} } }\n`,
    stored: (name, id) => ({ teams: [{ id, name, status: 'active', ...shared }] }),
    invalid: 'teams: { a: { status: gone } }\n',
    id: 'team_abcdefghijkl',
  },
  {
    section: 'keys',
    yaml: (name, version, id) => `keys: { ${name}: { ${idPart(id)}digest: "${hex(version === 1 ? '1a' : '2b')}" } }\n`,
    stored: (name, id) => ({
      keys: [
        {
          id,
          name,
          team: DEFAULT_TEAM.id,
          status: 'active',
          createdAt: 0,
          expiresAt: null,
          ...shared,
          secrets: [{ digest: hex('3c'), last4: '', createdAt: 0, until: null }],
          defaultRoute: null,
          logBodies: false,
        },
      ],
    }),
    invalid: 'keys: { a: {} }\n',
    id: 'key_abcdefghijkl',
  },
  {
    section: 'budgets',
    yaml: (name, version, id) =>
      `budgets: { kept: { amount: 7, period: month }, ${name}: { ${idPart(id)}amount: ${version}, period: day } }\n`,
    stored: (name, id) => ({
      budgets: [
        {
          id,
          name,
          amount: 5,
          period: 'day',
          timezone: 'UTC',
          startDay: 1,
          per: 'all',
          mode: 'hard',
          reserve: 'typical',
          onOverrun: 'finish',
          enforcement: 'fast',
          countFrom: 'creation',
          createdAt: 0,
          alerts: [],
          managed: 'api',
          appliesTo: { teams: null, keys: null, tags: null, models: null, providers: null },
        },
      ],
    }),
    invalid: 'budgets: { a: { amount: 1 } }\n',
    id: 'bud_abcdefghijkl',
  },
  {
    section: 'prices',
    yaml: (name, version, id) => `prices: [ { ${idPart(id)}provider: openai, model: ${name}, factor: ${version} } ]\n`,
    stored: (name, id) => ({
      prices: [{ id, provider: 'openai', model: name, effectiveFrom: 0, prices: { factor: 3 }, managed: 'api' }],
    }),
    invalid: 'prices: [ { provider: openai, model: a } ]\n',
    id: 'prc_abcdefghijkl',
  },
]

type Good = Extract<Loaded, { readonly ok: true }>
type Outcome = {
  readonly before: Good
  readonly after: Loaded
  /** The ID of an entry of this name in the file. */
  readonly idIn: (loaded: Good, name: string) => string | undefined
  readonly changes: readonly string[]
}
type Action = {
  readonly name: string
  readonly before?: (row: Row) => string
  readonly after: (row: Row) => string
  readonly stored?: (row: Row) => Partial<AccountRecords>
  readonly expect: (outcome: Outcome, row: Row) => void
}

const nameOf = (record: { readonly name: string } | PriceRule) => ('name' in record ? record.name : record.model)

const good = (loaded: Loaded): Good => {
  assert.ok(loaded.ok, loaded.ok ? '' : JSON.stringify(loaded.problems))
  return loaded
}

const actions: readonly Action[] = [
  {
    name: 'unchanged',
    after: (row) => row.yaml('a', 1),
    expect: ({ before, after, idIn, changes }) => {
      assert.deepEqual(changes, [])
      assert.equal(idIn(good(after), 'a'), idIn(before, 'a'))
    },
  },
  {
    name: 'added',
    before: (row) => (row.section === 'budgets' ? KEPT : ''),
    after: (row) => row.yaml('a', 1),
    expect: ({ changes }) => {
      assert.equal(changes.length, 1)
      assert.match(changes[0] ?? '', /: added$/)
    },
  },
  {
    name: 'taken out',
    after: (row) => (row.section === 'budgets' ? KEPT : ''),
    expect: ({ after, idIn, changes }) => {
      assert.equal(idIn(good(after), 'a'), undefined)
      assert.match(changes.join('\n'), /^[^\n]*: removed$/)
    },
  },
  {
    name: 'changed',
    after: (row) => row.yaml('a', 2),
    expect: ({ before, after, idIn, changes }) => {
      assert.equal(idIn(good(after), 'a'), idIn(before, 'a'))
      assert.match(changes.join('\n'), /^[^\n]*: changed (status|secrets|amount|prices)$/)
    },
  },
  {
    name: 'renamed: it is another record',
    after: (row) => row.yaml('b', 1),
    expect: ({ before, after, idIn }) => assert.notEqual(idIn(good(after), 'b'), idIn(before, 'a')),
  },
  {
    name: 'renamed with its ID: it is the same record',
    before: (row) => row.yaml('a', 1, row.id),
    after: (row) => row.yaml('b', 1, row.id),
    expect: ({ before, after, idIn }, row) =>
      assert.deepEqual([idIn(before, 'a'), idIn(good(after), 'b')], [row.id, row.id]),
  },
  {
    name: 'beside another name of the database: both exist',
    after: (row) => row.yaml('a', 2),
    stored: (row) => row.stored('s', row.id),
    expect: ({ before, after, idIn }) => assert.equal(idIn(good(after), 'a'), idIn(before, 'a')),
  },
  {
    name: 'with a name that the database has: refused, except for prices',
    before: () => '',
    after: (row) => row.yaml('s', 1),
    stored: (row) => row.stored('s', row.id),
    expect: ({ after }, { section }) => {
      assert.equal(after.ok, section === 'prices')
      if (!after.ok) assert.match(after.problems[0]?.allowed ?? '', /headgate adopt (team|key|budget) s$/)
    },
  },
  {
    name: 'handed over to the database: it keeps its ID',
    before: (row) => row.yaml('a', 1, row.id),
    after: (row) => (row.section === 'budgets' ? KEPT : ''),
    stored: () => ({}),
    expect: ({ after }, row) => {
      const directory = buildDirectory(good(after).config.accounts, { ...NO_ACCOUNTS, ...row.stored('a', row.id) })
      const lists = [
        ...directory.teams.values(),
        ...directory.keys.values(),
        ...directory.budgets.values(),
        ...directory.prices,
      ]
      assert.deepEqual(
        lists.filter(({ id }) => id === row.id).map(({ managed }) => managed),
        ['api'],
      )
    },
  },
  {
    name: 'invalid beside a valid change: nothing is applied',
    after: (row) => `circuit: { timeout: 7 }\n${row.invalid}`,
    expect: ({ after }) => assert.equal(after.ok, false),
  },
]

for (const row of kinds)
  for (const action of actions)
    test(`accounts of the file: ${row.section}, ${action.name}`, () => {
      const stored: AccountRecords = { ...NO_ACCOUNTS, ...action.stored?.(row) }
      const read = (yaml: string, key = 'k') => load({ env: { OPENAI_API_KEY: key }, yaml, stored: () => stored })
      const before = good(read(action.before?.(row) ?? row.yaml('a', 1)))
      const after = read(action.after(row))
      const records = ({ config }: Good) => config.accounts[row.section]
      const idIn = (loaded: Good, name: string) => records(loaded).find((record) => nameOf(record) === name)?.id
      const changes = after.ok ? describeChange(before.config, after.config) : []
      action.expect({ before, after, idIn, changes }, row)
      if (!after.ok) return
      // A restart, also as another replica with its own environment, reads what a reload reads.
      assert.deepEqual(good(read(action.after(row), 'another-key')).config.accounts, after.config.accounts)
      const directory = buildDirectory(after.config.accounts, stored)
      for (const team of stored.teams) assert.equal(directory.teams.get(team.id), team)
      for (const key of stored.keys) assert.equal(directory.keys.get(key.id), key)
      for (const budget of stored.budgets) assert.equal(directory.budgets.get(budget.id), budget)
      for (const price of stored.prices) assert.ok(directory.prices.includes(price))
      // The counter of an untouched budget stays, because its ID does.
      const kept = ({ config }: Good) => config.accounts.budgets.find(({ name }) => name === 'kept')
      if (row.section === 'budgets' && kept(before)) assert.deepEqual(kept(after), kept(before))
    })
