// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references of the file are under test

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { loaded } from '../../../test/support/config.ts'
import {
  type AccountLimits,
  type AccountRecords,
  type Budget,
  type ClientKey,
  DEFAULT_TEAM,
  type FileAccounts,
  FULL_ACCESS,
  NO_ACCOUNTS,
  NO_LIMITS,
  type PriceRule,
  type Team,
} from '../../core/accounts.ts'
import { NO_REQUIRE } from '../../core/data-policy.ts'
import { buildDirectory } from '../../policy/accounts/directory.ts'
import { accountsYaml } from './account-yaml.ts'

const read = (yaml: string): FileAccounts => loaded({ env: { OPENAI_API_KEY: 'k' }, yaml }).config.accounts

const written = (records: AccountRecords): string =>
  accountsYaml(records, buildDirectory({ ...NO_ACCOUNTS, ...records }, NO_ACCOUNTS))

const letters = (n: number) =>
  Array.from({ length: 12 }, (_, at) => String.fromCharCode(97 + ((n * 7 + at * n) % 26))).join('')
const name = fc.stringMatching(/^[a-z][a-z -]{0,8}[a-z]$/).filter((text) => text !== DEFAULT_TEAM.name)
const glob = fc.constantFrom('openai/*', '*', '!*opus*', 'a${B}', 'yes', '1', 'null', '# x', ': ')
const list = fc.option(fc.constantFrom([], ['*'], ['openai/*', '!x'], ['yes', '1.0', 'null', 'a${B}', '$${']), {
  nil: null,
})
const time = fc.option(fc.integer({ min: 1, max: 4_000_000_000_000 }), { nil: null })
const limit = fc.option(fc.integer({ min: 0, max: 1_000_000_000 }), { nil: null })
const limits: fc.Arbitrary<AccountLimits> = fc.record({
  requestsPerMinute: limit,
  tokensPerMinute: limit,
  concurrent: limit,
})
const access = fc.record({
  models: list,
  routes: list,
  providers: list,
  styles: list,
  ips: fc.constantFrom(null, [], ['10.0.0.0/8']),
  passThrough: fc.constantFrom(null, [], ['openai', 'gemini:/v1beta/interactions']),
})
const tags = fc.dictionary(
  fc.constantFrom('app', 'cost-centre', 'a.b'),
  fc.constantFrom('4711', 'yes', '', '${X}', 'ä: b'),
)
const cache = fc.option(
  fc.record({
    ttl: fc.integer({ min: 0, max: 86_400 }),
    scope: fc.constantFrom('key' as const, 'team' as const),
    anyTemperature: fc.boolean(),
    tools: fc.boolean(),
    requestControl: fc.boolean(),
  }),
  { nil: null },
)
const loops = fc.constantFrom(null, 'header' as const, 'block' as const)
const require = fc.record({
  region: fc.option(fc.uniqueArray(fc.constantFrom('eu', 'eu-de', 'local', 'no')), { nil: null }),
  retention: fc.option(fc.integer({ min: 0, max: 36_500 }), { nil: null }),
  training: fc.constantFrom(false as const, null),
})
const digest = fc.stringMatching(/^s1:[0-9a-f]{64}$/)

const teams: fc.Arbitrary<readonly Team[]> = fc.uniqueArray(name, { maxLength: 4 }).chain((names) =>
  fc.tuple(
    ...names.map((one, n) =>
      fc.record({
        id: fc.constant(`team_${letters(n + 1)}`),
        name: fc.constant(one),
        access,
        limits,
        require,
        loops,
        cache,
        tags,
        status: fc.constantFrom('active' as const, 'blocked' as const),
        managed: fc.constant('file' as const),
      }),
    ),
  ),
)

const keysOf = (of: readonly Team[]): fc.Arbitrary<readonly ClientKey[]> =>
  fc
    .tuple(fc.uniqueArray(name, { maxLength: 4 }), fc.uniqueArray(digest, { minLength: 12, maxLength: 12 }))
    .chain(([names, digests]) =>
      fc.tuple(
        ...names.map((one, n) =>
          fc.record({
            id: fc.constant(`key_${letters(n + 1)}`),
            name: fc.constant(one),
            access,
            limits,
            require,
            loops,
            cache,
            tags,
            team: fc.constantFrom(DEFAULT_TEAM.id, ...of.map(({ id }) => id)),
            status: fc.constantFrom('active' as const, 'blocked' as const),
            secrets: fc
              .array(
                fc.record({
                  last4: fc.constantFrom('', 'Xq3d', '1234'),
                  createdAt: fc.constantFrom(5, 77),
                  until: time,
                }),
                { minLength: 1, maxLength: 3 },
              )
              .map((some) => some.map((secret, at) => ({ digest: digests[n * 3 + at] ?? '', ...secret }))),
            createdAt: fc.constantFrom(0, 5, 1_700_000_000_123),
            expiresAt: time,
            defaultRoute: fc.constant(null),
            logBodies: fc.boolean(),
            requireSession: fc.boolean(),
            managed: fc.constant('file' as const),
          }),
        ),
      ),
    )

const budgetsOf = (ofTeams: readonly Team[], ofKeys: readonly ClientKey[]): fc.Arbitrary<readonly Budget[]> =>
  fc.uniqueArray(name, { maxLength: 4 }).chain((names) =>
    fc.tuple(
      ...names.map((one, n) =>
        fc.record({
          id: fc.constant(`bud_${letters(n + 1)}`),
          name: fc.constant(one),
          managed: fc.constant('file' as const),
          amount: fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER - 1_000_000_000 }),
          period: fc.constantFrom('week' as const, 'month' as const),
          startDay: fc.integer({ min: 1, max: 7 }),
          timezone: fc.constantFrom('UTC', 'Europe/Berlin'),
          appliesTo: fc.record({
            teams: fc.constantFrom(
              null,
              [],
              ofTeams.map(({ id }) => id),
            ),
            keys: fc.constantFrom(
              null,
              [],
              ofKeys.map(({ id }) => id),
            ),
            tags: fc.option(
              tags.filter((some) => Object.keys(some).length > 0),
              { nil: null },
            ),
            models: list,
            providers: list,
          }),
          per: fc.constantFrom('all' as const, 'end_user' as const),
          mode: fc.constantFrom('hard' as const, 'soft' as const),
          reserve: fc.constantFrom('typical' as const, 'max' as const),
          enforcement: fc.constantFrom('fast' as const),
          countFrom: fc.constantFrom('creation' as const, 'period' as const),
          onOverrun: fc.constantFrom('finish' as const, 'cut' as const),
          alerts: fc.constantFrom([], [80, 99.5]),
          createdAt: fc.constantFrom(0, 9),
        }),
      ),
    ),
  )

/** Prices in whole nano-dollars per million tokens. */
const price = fc.oneof(
  fc.constant(0),
  fc.integer({ min: 1_000_000, max: 100_000_000_000_000 }).map((nano) => nano / 1_000_000),
)
const prices: fc.Arbitrary<readonly PriceRule[]> = fc
  .uniqueArray(
    fc.record({
      provider: fc.constant('openai'),
      model: glob,
      effectiveFrom: fc.integer({ min: 0, max: 4_000_000_000_000 }),
      prices: fc.record({ input: price }).chain((some) =>
        fc.record(
          {
            input: fc.constant(some.input),
            reasoning: price,
            factor: fc.constantFrom(0.85, 2),
            service: fc.constant({ batch: 0.5 }),
            tiers: fc.constant([{ above: 200_000, output: some.input }]),
            tools: fc.constant({ web_search: 10_000_000 }),
          },
          { requiredKeys: ['input'] },
        ),
      ),
      managed: fc.constant('file' as const),
      id: fc.constant(''),
    }),
    { maxLength: 4, selector: ({ effectiveFrom }) => effectiveFrom },
  )
  .map((rules) => rules.map((rule, n) => ({ ...rule, id: `prc_${letters(n + 1)}` })))

test('account YAML: any records are equal after they are written and read', () =>
  fc.assert(
    fc.property(
      teams.chain((of) =>
        keysOf(of).chain((keys) =>
          fc.record({
            teams: fc.constant(of),
            keys: fc.constant(keys),
            budgets: budgetsOf(of, keys),
            prices,
            routes: fc.constant([]),
          }),
        ),
      ),
      (records) => {
        const { places, ...again } = read(written(records))
        assert.deepEqual(JSON.parse(JSON.stringify(again)), JSON.parse(JSON.stringify(records)))
      },
    ),
    { numRuns: 60 },
  ))

test('account YAML: what is usual is left out', () => {
  const yaml = `teams:
  search: {}
keys:
  a:
    team: search
    digest: s1:${'9f'.repeat(32)}
budgets:
  b:
    amount: "2500.00"
    period: month
    appliesTo:
      teams:
        - search
      models: []
prices:
  - provider: openai
    model: gpt-5*
    factor: 0.85
    perMillion:
      input: "0.0375"
`
  const { teams, keys, budgets, prices } = read(yaml)
  assert.equal(written({ teams, keys, budgets, prices, routes: [] }), yaml)
})

test('account YAML: revoked keys are left out, and two keys of one name are refused', () => {
  const key: ClientKey = {
    id: 'key_abcdefghijkl',
    name: 'a',
    team: DEFAULT_TEAM.id,
    status: 'revoked',
    createdAt: 0,
    expiresAt: null,
    secrets: [{ digest: `s1:${'9f'.repeat(32)}`, last4: '', createdAt: 0, until: null }],
    access: FULL_ACCESS,
    limits: NO_LIMITS,
    require: NO_REQUIRE,
    defaultRoute: null,
    cache: null,
    logBodies: false,
    tags: {},
    managed: 'api',
  }
  assert.equal(written({ ...NO_ACCOUNTS, keys: [key] }), '{}\n')
  const active = { ...key, status: 'active' as const }
  assert.throws(
    () => written({ ...NO_ACCOUNTS, keys: [active, { ...active, id: 'key_bbcdefghijkl' }] }),
    /Two keys are called "a"/,
  )
})
