// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references to variables are under test

import assert from 'node:assert/strict'
import { createHash, createHmac } from 'node:crypto'
import { test } from 'node:test'
import { lines, load, loaded } from '../../test/support/config.ts'
import {
  type AccountRecords,
  type ClientKey,
  DEFAULT_TEAM,
  FULL_ACCESS,
  NO_ACCOUNTS,
  NO_LIMITS,
} from '../core/accounts.ts'
import { NO_REQUIRE } from '../core/data-policy.ts'
import { createKey } from '../policy/accounts/client-key.ts'
import { describeChange } from './describe.ts'
import { problemLine } from './problem.ts'

const DIGEST = `s1:${'9f'.repeat(32)}`
const generated = createKey('client', (count) => new Uint8Array(count).fill(7))
const env = { OPENAI_API_KEY: 'k', DEV_KEY: 'a-key-of-thirty-characters-xyz', PRICE: '1.25' }

const whole = `teams:
  search: { access: { models: [ "openai/*", fast ], ips: [] }, limits: { tokensPerMinute: 200000 }, tags: { cost-centre: "4711" } }
  default: { status: blocked }
keys:
  prod: { team: search, digest: "${DIGEST}", expiresAt: 2027-02-20, defaultRoute: fast }
  dev: { secret: "\${DEV_KEY}", limits: { concurrent: 5, requestsPerMinute: null }, cache: { ttl: 60 }, logBodies: true }
  moved: { id: key_abcdefghijkl, team: team_default, secrets: [ { digest: "s1:${'0a'.repeat(32)}", last4: Xq3d, until: "2026-12-01T09:30:00Z" } ] }
budgets:
  month: { amount: "2500.00", period: month, timezone: Europe/Berlin, startDay: 15, appliesTo: { teams: [ search ], keys: [ dev, key_abcdefghijkl ] }, alerts: [ 80, 100 ] }
  each-key: { amount: 0.1, period: day, per: key, mode: soft }
prices:
  - { provider: openai, model: "gpt-5*", factor: 0.85, effectiveFrom: 2026-12-01 }
  - provider: openai
    model: o5
    perMillion: { input: "\${PRICE}", output: 0.0375, cacheRead: 0, reasoning: 0.001 }
    tiers: [ { above: 200000, perMillion: { input: 2.5 } } ]
    service: { batch: 0.5 }
    perCall: { web_search: 0.01 }
routes:
  fast: { targets: [ openai/gpt-test ], cache: { scope: team } }
alerts: { url: "https://hooks.example/T0/secret", secret: whsec_1, rules: { circuitOpen: 0 } }
`

test('accounts: names of a file with 600 numbered teams, keys and budgets may contain any status', () => {
  const numbers = Array.from({ length: 600 }, (_, at) => at)
  const section = (name: string, entry: (at: number) => string) =>
    `${name}:\n${numbers.map((at) => `  n-${at}: { ${entry(at)} }\n`).join('')}`
  const yaml = [
    section('teams', () => ''),
    section('keys', (at) => `team: n-${at}, digest: "s1:${String(at).padStart(64, '0')}"`),
    section('budgets', (at) => `amount: 1, period: month, appliesTo: { keys: [ n-${at} ] }`),
    'routes: { r-429: { targets: [ p-503/m-500 ] } }\n',
    'providers: { p-503: { kind: openai-compatible, baseUrl: "https://llm.example/v1", keys: [ k ] } }\n',
  ].join('')
  const { accounts, routes, instances } = loaded({ env: {}, yaml }).config
  assert.deepEqual(
    [accounts.teams, accounts.keys, accounts.budgets].map(({ length }) => length),
    [600, 600, 600],
  )
  assert.deepEqual([instances[0]?.id, routes.has('r-429')], ['p-503', true])
})

test('accounts: teams, keys, budgets and prices of the file', () => {
  const { config, warnings } = loaded({ env, yaml: whole })
  assert.deepEqual(warnings, [])
  const { teams, keys, budgets, prices, places } = config.accounts
  const [search, byDefault] = teams
  assert.match(search?.id ?? '', /^team_[a-z]{12}$/)
  assert.deepEqual(search, {
    id: search?.id,
    name: 'search',
    status: 'active',
    managed: 'file',
    cache: null,
    access: { ...FULL_ACCESS, models: ['openai/*', 'fast'], ips: [] },
    limits: { ...NO_LIMITS, tokensPerMinute: 200_000 },
    require: NO_REQUIRE,
    loops: null,
    tags: { 'cost-centre': '4711' },
  })
  assert.deepEqual([byDefault?.id, byDefault?.status], ['team_default', 'blocked'])

  const [prod, dev, moved] = keys
  assert.deepEqual(prod, {
    id: prod?.id,
    name: 'prod',
    team: search?.id,
    status: 'active',
    managed: 'file',
    cache: null,
    logBodies: false,
    requireSession: false,
    loops: null,
    secrets: [{ digest: DIGEST, last4: '', createdAt: 0, until: null }],
    createdAt: 0,
    expiresAt: Date.UTC(2027, 1, 20),
    defaultRoute: 'fast',
    tags: {},
    access: FULL_ACCESS,
    limits: NO_LIMITS,
    require: NO_REQUIRE,
  })
  const digest = `s1:${createHash('sha256').update(env.DEV_KEY).digest('hex')}`
  assert.deepEqual(dev?.secrets, [{ digest, last4: '-xyz', createdAt: 0, until: null }])
  assert.deepEqual(dev?.cache, { ttl: 60, scope: 'key', anyTemperature: false, tools: false, requestControl: true })
  assert.deepEqual([dev?.team, dev?.logBodies, dev?.limits.concurrent], ['team_default', true, 5])
  assert.deepEqual([moved?.id, moved?.secrets[0]?.last4], ['key_abcdefghijkl', 'Xq3d'])
  assert.equal(moved?.secrets[0]?.until, Date.UTC(2026, 11, 1, 9, 30))

  const [month, each] = budgets
  assert.deepEqual(month?.appliesTo.teams, [search?.id])
  assert.deepEqual(month?.appliesTo.keys, [dev?.id, 'key_abcdefghijkl'])
  assert.deepEqual([month?.amount, month?.startDay, month?.alerts], [2_500_000_000_000, 15, [80, 100]])
  assert.deepEqual(
    [each?.amount, each?.mode, each?.per, each?.alerts, each?.timezone],
    [100_000_000, 'soft', 'key', [], 'UTC'],
  )

  assert.deepEqual(
    prices.map((rule) => rule.prices),
    [
      { factor: 0.85 },
      {
        input: 1250,
        output: 37.5,
        cacheRead: 0,
        reasoning: 1,
        tiers: [{ above: 200_000, input: 2500 }],
        service: { batch: 0.5 },
        tools: { web_search: 10_000_000 },
      },
    ],
  )
  assert.deepEqual(
    prices.map((rule) => rule.effectiveFrom),
    [Date.UTC(2026, 11, 1), 0],
  )
  assert.equal(places[prod?.id ?? ''], 'headgate.yaml:5')
  assert.equal(config.routes.get('fast')?.cache?.scope, 'team')
  assert.equal(config.alerts?.url.reveal(), 'https://hooks.example/T0/secret')
  assert.deepEqual([config.alerts?.format, config.alerts?.rules.circuitOpen], ['generic', 0])
  assert.throws(() => Object.assign(config.accounts.keys[0]?.limits ?? {}, { concurrent: 1 }), TypeError)
})

test('accounts: without these sections there are none', () => {
  const { config } = loaded({ env, yaml: 'teams:\nkeys: {}\nprices: []\n' })
  assert.deepEqual([config.accounts, config.alerts], [NO_ACCOUNTS, null])
})

test('accounts: a key has the same ID on every start, and its digest depends on the pepper', () => {
  const yaml = `keys: { a: { secret: "${generated}" } }\n`
  const [plain] = loaded({ env, yaml }).config.accounts.keys
  const [peppered] = loaded({ env: { ...env, AUTH_PEPPER: 'sixteen letters.' }, yaml }).config.accounts.keys
  assert.equal(plain?.id, peppered?.id)
  assert.equal(
    peppered?.secrets[0]?.digest,
    `h1:${createHmac('sha256', 'sixteen letters.').update(generated).digest('hex')}`,
  )
})

/** Each text is inserted below its section. The expected lines are without `headgate.yaml:`. */
const refused: readonly (readonly [name: string, yaml: string, expected: readonly RegExp[]])[] = [
  ['a team named twice', 'teams:\n  a: {}\n  a: {}\n', [/^3:3: found the duplicate name "a"/]],
  [
    'two entries with one ID',
    `keys:\n  a: { id: key_abcdefghijkl, digest: "${DIGEST}" }\n  b: { id: key_abcdefghijkl, digest: "s1:${'0a'.repeat(32)}" }\n`,
    [/^3:12: keys\.b\.id: found the ID key_abcdefghijkl, which headgate\.yaml:2 has too/],
  ],
  [
    'an ID of another kind',
    'teams: { a: { id: key_abcdefghijkl } }\n',
    [/a\.id: found "key_abc.*allowed: team_ and 12/],
  ],
  ['the ID of the default team', 'teams: { a: { id: team_default } }\n', [/for the team default, and only for it/]],
  [
    'a key in an unknown team',
    `teams: { search: {} }\nkeys: { a: { team: serch, digest: "${DIGEST}" } }\n`,
    [
      /^2:20: keys\.a\.team: found the team "serch", which does not exist; allowed: did you mean search\? the name or ID of a team: search, default$/,
    ],
  ],
  [
    'an unknown team and key of a budget',
    'budgets:\n  b: { amount: 1, period: day, appliesTo: { teams: [ default, x ], keys: [ y ] } }\n',
    [
      /^2:63: budgets\.b\.appliesTo\.teams\.1: found the team "x"/,
      /^2:76: budgets\.b\.appliesTo\.keys\.0: found the key "y", which does not exist; allowed: the name or ID of a key$/,
    ],
  ],
  [
    'an unknown default route',
    `routes: { fast: { targets: [ openai ] } }\nkeys: { a: { digest: "${DIGEST}", defaultRoute: fats } }\n`,
    [
      /defaultRoute: found the route "fats", which does not exist; allowed: did you mean fast\? the name of a route: fast$/,
    ],
  ],
  [
    'a budget without period',
    'budgets: { b: { amount: 1 } }\n',
    [/^1:15: budgets\.b\.period: found nothing; allowed: one of hour, day/],
  ],
  [
    'a budget without amount',
    'budgets: { b: { period: day } }\n',
    [/budgets\.b\.amount: found nothing; allowed: an amount in dollars/],
  ],
  ...['1e3', '-1', '12,50', '$5', '0.0000000001', '9007199.000000001', '.5'].map(
    (amount) =>
      [
        `the amount ${amount}`,
        `budgets: { b: { amount: "${amount}", period: day } }\n`,
        [
          new RegExp(
            `^1:25: budgets\\.b\\.amount: found "${amount.replace(/[$.]/g, '\\$&')}"; allowed: dollars with at most nine decimals`,
          ),
        ],
      ] as const,
  ),
  ...(
    [
      ['week', 8],
      ['week', 0],
      ['month', 29],
      ['day', 2],
    ] as const
  ).map(
    ([period, day]) =>
      [
        `day ${day} of a ${period}`,
        `budgets: { b: { amount: 1, period: ${period}, startDay: ${day} } }\n`,
        [
          period === 'day'
            ? /found "2"; allowed: no startDay for the period day$/
            : new RegExp(
                `startDay: found "${day}"; allowed: a whole number from 1 to ${period === 'week' ? 7 : 28} for a ${period}$`,
              ),
        ],
      ] as const,
  ),
  [
    'an unknown zone',
    'budgets: { b: { amount: 1, period: day, timezone: Europe/Berln } }\n',
    [/timezone: found "Europe\/Berln"; allowed: an IANA/],
  ],
  [
    'an offset as a zone',
    'budgets: { b: { amount: 1, period: day, timezone: "+01:00" } }\n',
    [/timezone: found "\+01:00"/],
  ],
  [
    'another currency',
    'budgets: { b: { amount: 1, period: day, currency: EUR } }\n',
    [/currency: found "EUR"; allowed: one of USD$/],
  ],
  [
    '17 budgets for the same requests',
    `budgets:\n${Array.from({ length: 17 }, (_, n) => `  b${n}: { amount: 1, period: day }\n`).join('')}`,
    [
      /^1:1: budgets: found 17 budgets that count the same requests of clients without a key: b0, b1, .*b16; allowed: at most 16$/,
    ],
  ],
  [
    'a price per token',
    'prices: [ { provider: openai, model: x, perMillion: { input: 0.00000125 } } ]\n',
    [
      /^1:62: prices\.0\.perMillion\.input: found "0\.00000125"; allowed: dollars per million tokens: 0, or a number from 0\.001 to 100000$/,
    ],
  ],
  [
    'a price of 0.1 nano-dollars per token',
    'prices:\n  - { provider: openai, model: x, perMillion: { output: 0.0001 } }\n',
    [/^2:57: prices\.0\.perMillion\.output: found "0\.0001"; allowed: .* 0, or a number from 0\.001 to 100000$/],
  ],
  [
    'a price above the limit',
    'prices: [ { provider: openai, model: x, perMillion: { input: 100001 } } ]\n',
    [/found "100001"/],
  ],
  [
    'a price without prices',
    'prices: [ { provider: openai, model: x } ]\n',
    [/^1:11: prices\.0: found no price; allowed: factor, perMillion/],
  ],
  [
    'a price twice',
    'prices:\n  - { provider: openai, model: x, factor: 1 }\n  - { provider: openai, model: x, factor: 2 }\n',
    [/^3:5: prices\.1\.id: found the ID prc_[a-z]{12}, which headgate\.yaml:2 has too/],
  ],
  [
    'a list as a section',
    'teams: [ a ]\nprices: { a: {} }\n',
    [/^1:8: teams: found a list/, /^2:9: prices: found a section; allowed: a list$/],
  ],
  ['a name with a line break', 'teams: { "a\\nb": {} }\n', [/found the name contains other characters/]],
  ['a name that cannot be a member', 'teams: { __proto__: {} }\n', [/found the name contains other characters/]],
  [
    'only denials',
    'teams: { a: { access: { models: [ "!x" ] } } }\n',
    [/found the list has only denials, so it allows nothing; allowed: add what is allowed, such as "\*"$/],
  ],
  [
    'an address that is not one',
    'teams: { a: { access: { ips: [ 10.0.0.0/33 ] } } }\n',
    [/^1:30: teams\.a\.access\.ips: found "10\.0\.0\.0\/33" is not an IP address/],
  ],
  ['null in a list', 'teams: { a: { access: { models: [ null ] } } }\n', [/models\.0: found nothing/]],
  [
    'an unknown member',
    'teams: { a: { acess: { models: [] } } }\n',
    [/found the unknown name "acess"; allowed: did you mean access\?/],
  ],
  [
    'an unknown member deep down',
    'budgets: { b: { amount: 1, period: day, appliesTo: { modles: [] } } }\n',
    [/did you mean models\?/],
  ],
  [
    'a limit with a unit',
    'teams: { a: { limits: { concurrent: 5k } } }\n',
    [/found "5k"; allowed: a whole number from 0 to 1000000000$/],
  ],
  ['a tag with a space', 'teams: { a: { tags: { "cost centre": x } } }\n', [/found the tag "cost centre"/]],
  [
    'a key without secret',
    'keys: { a: {} }\n',
    [/^1:9: keys\.a: found neither digest nor secret; allowed: one of digest, secret or secrets$/],
  ],
  [
    'a key with two secrets',
    `keys: { a: { digest: "${DIGEST}", secret: "${generated}" } }\n`,
    [/found more than one of digest, secret and secrets/],
  ],
  [
    'two keys with one secret',
    `keys:\n  a: { digest: "${DIGEST}" }\n  b: { digest: "${DIGEST}" }\n`,
    [/^3:3: keys\.b: found the same secret as the key "a"/],
  ],
  [
    'a digest with pepper and none set',
    `keys: { a: { digest: "h1:${'9f'.repeat(32)}" } }\n`,
    [/found a digest with pepper \(h1:\)/],
  ],
  [
    'a date that does not exist',
    `keys: { a: { digest: "${DIGEST}", expiresAt: 2026-02-30 } }\n`,
    [/expiresAt: found "2026-02-30"; allowed: a date such as/],
  ],
  [
    'a time without zone',
    `keys: { a: { digest: "${DIGEST}", expiresAt: "2026-02-03T10:00" } }\n`,
    [/expiresAt: found "2026-02-03T10:00"/],
  ],
  [
    'alerts without an address',
    'alerts: { rules: { budget: [ 80 ] } }\n',
    [/^1:9: alerts\.url: found nothing; allowed: /],
  ],
  [
    'an alert address without a scheme',
    'alerts: { url: hooks.example }\n',
    [/^1:16: alerts\.url: found a value that is not shown/],
  ],
  [
    'an alert with a unit',
    'alerts: { url: "https://a.example", rules: { circuitOpen: 60s } }\n',
    [/circuitOpen: found "60s"; allowed: a whole number from 0 to 2147483647; times are in milliseconds, write 60000$/],
  ],
]
for (const [name, yaml, expected] of refused)
  test(`accounts: ${name} is refused`, () => {
    const found = lines({ env, yaml }).map((line) => line.replace(/^headgate\.yaml:/, ''))
    assert.equal(found.length, expected.length, found.join('\n'))
    for (const [index, pattern] of expected.entries()) assert.match(found[index] ?? '', pattern)
  })

const canary = 'canary-secret-0123456789'
for (const yaml of [
  `keys: { a: ${canary} }\n`,
  `keys: [ ${canary} ]\n`,
  `keys: { a: { secret: [ ${canary} ] } }\n`,
  `keys: { a: { secret: "${canary}", digest: "${canary}" } }\n`,
  `keys: { a: { secret: "hgk_${canary}" } }\n`,
  `keys: { a: { secret: "${canary} x", team: "${canary} x" } }\n`,
  `alerts: { url: "${canary}" }\n`,
  `alerts: { url: "https://x.example", secret: { a: "${canary}" } }\n`,
  `alerts: ${canary}\n`,
])
  test(`accounts: the secret in ${JSON.stringify(yaml.replaceAll(canary, '…'))} is not shown`, () => {
    const found = lines({ env, yaml })
    assert.ok(found.length > 0)
    assert.doesNotMatch(found.join('\n'), /canary/)
  })

test('accounts: a price of a provider that is not configured is a warning with the nearest name', () => {
  const yaml = 'prices: [ { provider: opnai, model: x, factor: 2 } ]\n'
  assert.deepEqual(loaded({ env, yaml }).warnings, [
    'headgate.yaml:1:23: the price of "opnai" has no effect, because this provider is not configured; did you mean openai?',
  ])
})

for (const provider of ['*', 'open*', 'openai'])
  test(`accounts: a price of ${provider} is of a provider that is configured`, () =>
    assert.deepEqual(
      loaded({ env, yaml: `prices: [ { provider: "${provider}", model: x, factor: 2 } ]\n` }).warnings,
      [],
    ))

// ── The database beside the file ────────────────────────────────────────────────────────────────────────────────────

const stored: AccountRecords = {
  ...NO_ACCOUNTS,
  teams: [
    ...[{ id: 'team_stored', name: 'stored', status: 'active' as const, access: FULL_ACCESS, limits: NO_LIMITS }].map(
      (team) => ({ ...team, require: NO_REQUIRE, loops: null, cache: null, tags: {}, managed: 'api' as const }),
    ),
  ],
}

test('accounts: keys and budgets may name teams of the database', () => {
  const yaml = `keys:\n  a: { team: stored, digest: "${DIGEST}" }\nbudgets:\n  b: { amount: 1, period: day, appliesTo: { teams: [ team_stored ] } }\n`
  assert.deepEqual(loaded({ env, yaml, stored: () => stored }).config.accounts.keys[0]?.team, 'stored')
  assert.match(
    lines({ env, yaml }).join('\n'),
    /"stored", which does not exist.*\n.*"team_stored", which does not exist/,
  )
})

test('accounts: one name in the file and in the database is refused, with the command that resolves it', () => {
  const result = load({ env, yaml: 'teams: { stored: {} }\n', stored: () => stored })
  assert.deepEqual(result.ok ? [] : result.problems.map(problemLine), [
    'headgate.yaml:1:10: teams.stored: found the team "stored", which is in the database too (team_stored); allowed: another name; or run: headgate adopt team stored',
  ])
})

test('accounts: a record of the file with the ID of a stored one replaces it', () => {
  const id = 'team_abcdefghijkl'
  const same = { ...stored, teams: stored.teams.map((team) => ({ ...team, id })) }
  assert.deepEqual(lines({ env, yaml: `teams: { stored: { id: ${id} } }\n`, stored: () => same }), [])
  const byDefault = { ...stored, teams: stored.teams.map((team) => ({ ...team, ...DEFAULT_TEAM })) }
  assert.deepEqual(lines({ env, yaml: 'teams: { default: {} }\n', stored: () => byDefault }), [])
})

test('accounts: a secret that a key of the database has is a warning', () => {
  const key: ClientKey = {
    id: 'key_stored',
    name: 'other',
    team: 'team_stored',
    status: 'active',
    createdAt: 0,
    expiresAt: null,
    access: FULL_ACCESS,
    limits: NO_LIMITS,
    require: NO_REQUIRE,
    defaultRoute: null,
    cache: null,
    logBodies: false,
    tags: {},
    secrets: [{ digest: DIGEST, last4: '', createdAt: 0, until: null }],
    managed: 'api',
  }
  const yaml = `keys: { a: { digest: "${DIGEST}" } }\n`
  const result = load({ env, yaml, stored: () => ({ ...stored, keys: [key] }) })
  assert.ok(result.ok)
  assert.deepEqual(result.warnings, [
    'headgate.yaml:1:9: the key "a" has the same secret as the key "other" of the database (key_stored), which has no effect. Revoke that key.',
  ])
})

test('accounts: while the database cannot be read, its names are not checked', () => {
  const yaml = `keys: { a: { team: stored, digest: "${DIGEST}" } }\n`
  assert.deepEqual(lines({ env, yaml, stored: () => null }), [])
})

test('accounts: the database is read only with valid settings, and only for these sections', () => {
  const none = () => assert.fail('read')
  assert.deepEqual(lines({ env, yaml: 'circuit: { probes: 2 }\n', stored: none }), [])
  assert.deepEqual(
    lines({ env, yaml: `circuit: { probes: 0 }\nkeys: { a: { team: x, digest: "${DIGEST}" } }\n`, stored: none }),
    ['headgate.yaml:1:20: circuit.probes: found "0"; allowed: a whole number from 1 to 1000'],
  )
})

// ── Reload ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const changes = (before: string, after: string) =>
  describeChange(loaded({ env, yaml: before }).config, loaded({ env, yaml: after }).config)

test('accounts: a reload describes what changes, without digests and secrets', () => {
  assert.deepEqual(changes(whole, whole), [])
  const after = whole
    .replace('concurrent: 5', 'concurrent: 6')
    .replace(DIGEST, `s1:${'1b'.repeat(32)}`)
    .replace('factor: 0.85', 'factor: 0.9')
    .replace('T0/secret', 'T0/other')
    .replace('  each-key:', '  every-key:')
    .replace('scope: team', 'scope: key')
  const found = changes(whole, after)
  assert.deepEqual(
    found.filter((line) => !line.startsWith('prices.')),
    [
      'routes.fast: openai/gpt-test cached {"ttl":300,"scope":"team","anyTemperature":false,"tools":false,"requestControl":true} → openai/gpt-test cached {"ttl":300,"scope":"key","anyTemperature":false,"tools":false,"requestControl":true}',
      'keys.prod: changed secrets',
      'keys.dev: changed limits',
      'budgets.each-key: removed',
      'budgets.every-key: added',
      'alerts: changed',
    ],
  )
  assert.match(
    found.find((line) => line.startsWith('prices.')) ?? '',
    /^prices\.openai\/gpt-5\* \(prc_[a-z]{12}\): changed prices$/,
  )
})

test('accounts: a key that is taken out of the file is no longer configured', () => {
  const without = whole.replace(/^ {2}prod: .*\n/m, '')
  assert.deepEqual(changes(whole, without), ['keys.prod: removed'])
  assert.ok(!loaded({ env, yaml: without }).config.accounts.keys.some(({ name }) => name === 'prod'))
})
