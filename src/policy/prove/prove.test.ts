import assert from 'node:assert/strict'
import { test } from 'node:test'
import { instance } from '../../../test/support/gateway.ts'
import {
  type Access,
  ANONYMOUS,
  type ClientKey,
  DEFAULT_TEAM,
  type Directory,
  FULL_ACCESS,
  NO_LIMITS,
  type Team,
} from '../../core/accounts.ts'
import type { Config } from '../../core/config.ts'
import { type DeclaredFacts, NO_REQUIRE, type Require } from '../../core/data-policy.ts'
import type { Instance } from '../../core/provider.ts'
import type { Route } from '../../core/route.ts'
import { settingsSchema } from '../../core/settings.ts'
import type { TeamRule } from '../../core/sign-in.ts'
import type { TargetCondition } from '../../core/target-condition.ts'
import { claimText, parseClaim } from './claim.ts'
import { type Counterexample, type Proof, prove, wayText } from './prove.ts'

const EU: Require = { ...NO_REQUIRE, region: ['eu'], retention: 0 }
const CLAIM = 'team=health: region in eu; retention=0'

/** A world in which the claim holds. Each mistake changes one of these. */
type Parts = {
  readonly instances: readonly Instance[]
  readonly routes: readonly Route[]
  readonly team: Partial<Team>
  readonly key: Partial<ClientKey>
  readonly more: Partial<Config>
  readonly lists: ReadonlyMap<string, readonly string[]>
  readonly people?: readonly TeamRule[]
}

const at = (id: string, models: readonly string[], facts?: DeclaredFacts): Instance => ({
  ...instance(id),
  models,
  ...(facts && { facts }),
})
const EU_FACTS = { region: 'eu-de', retention: 0 }
const route = (name: string, ...targets: readonly string[]): Route => ({
  name,
  targets: targets.map((target) => {
    const [provider = '', model] = target.split('/')
    return { provider, ...(model !== undefined && { model }), weight: 1 }
  }),
  fallback: [],
})
/** The access that keeps the key at the European provider, without a requirement. */
const ONLY_EU: Access = { ...FULL_ACCESS, providers: ['eu'] }

const BY_ACCESS: Parts = {
  instances: [at('eu', ['m'], EU_FACTS), at('us', ['m', 'n'], { region: 'us', retention: 0 })],
  routes: [route('fast', 'eu/m'), route('wide', 'us/n', 'eu/m')],
  team: {},
  key: { access: ONLY_EU },
  more: {},
  lists: new Map(),
}
const BY_REQUIRE: Parts = { ...BY_ACCESS, team: { require: { ...NO_REQUIRE, region: ['eu'], retention: 0 } }, key: {} }

const proofOf = (parts: Parts, claim = CLAIM): Proof => {
  const { instances, routes, lists, more } = parts
  const settings = settingsSchema.parse({})
  const config: Config = { settings, instances, routes: new Map(routes.map((one) => [one.name, one])), ...more }
  const shared = {
    status: 'active',
    access: FULL_ACCESS,
    limits: NO_LIMITS,
    require: NO_REQUIRE,
    cache: null,
    tags: {},
    managed: 'api',
  } as const
  const teams: readonly Team[] = [
    { ...shared, ...DEFAULT_TEAM },
    { ...shared, id: 'team_h', name: 'health', ...parts.team },
  ]
  const key: ClientKey = {
    ...shared,
    id: 'key_h',
    name: 'ci',
    team: 'team_h',
    secrets: [],
    createdAt: 0,
    expiresAt: null,
    defaultRoute: null,
    logBodies: false,
    ...parts.key,
  }
  const directory: Directory = {
    teams: new Map(teams.map((one) => [one.id, one])),
    keys: new Map([[key.id, key]]),
    budgets: new Map(),
    prices: [],
    routes: new Map(),
  }
  const parsed = parseClaim(claim)
  assert.ok(parsed.ok, claim)
  const proof = prove(
    {
      sources: { config, lists, catalogue: () => undefined },
      directory,
      keyless: ANONYMOUS,
      tokenRules: [],
      people: { providers: [{ name: 'okta' }, { name: 'google' }], teams: parts.people ?? [] },
      now: 1_000,
    },
    parsed.value,
  )
  assert.ok(proof.ok, proof.ok ? '' : proof.failure.message)
  return proof.value
}

const DEVS: TeamRule = { group: 'devs', provider: null, team: 'health' }
const EVERYONE: TeamRule = { group: null, provider: null, team: 'default' }

const SOUND: readonly (readonly [string, Parts])[] = [
  ['providers by access', BY_ACCESS],
  ['a requirement of the team', BY_REQUIRE],
  ['a requirement of the key', { ...BY_ACCESS, key: { require: EU } }],
  ['a requirement of all requests', { ...BY_ACCESS, key: {}, more: { require: EU } }],
  ['a stricter requirement', { ...BY_ACCESS, key: { require: { ...EU, region: ['eu-de'] } } }],
  ['a key that has expired', { ...BY_ACCESS, key: { expiresAt: 999 } }],
  ['a key that was revoked', { ...BY_ACCESS, key: { status: 'revoked' } }],
  ['people of a team that requires it', { ...BY_REQUIRE, people: [DEVS, EVERYONE] }],
  ['a rule for people that an earlier one precedes', { ...BY_ACCESS, people: [EVERYONE, DEVS] }],
  [
    'a rule for people of a provider that an earlier one precedes',
    {
      ...BY_ACCESS,
      people: [
        { ...EVERYONE, provider: 'okta' },
        { ...DEVS, provider: 'okta' },
      ],
    },
  ],
  [
    'a rule for people that earlier ones of all providers precede',
    { ...BY_ACCESS, people: [{ ...EVERYONE, provider: 'okta' }, { ...EVERYONE, provider: 'google' }, DEVS] },
  ],
  ['a team of people that does not exist', { ...BY_ACCESS, people: [{ ...DEVS, team: 'none' }] }],
  ['another team', { ...BY_ACCESS, key: { team: DEFAULT_TEAM.id } }],
  ['only providers that satisfy it', { ...BY_ACCESS, key: {}, instances: [at('eu', ['m'], EU_FACTS)], routes: [] }],
  [
    'only models that satisfy it',
    {
      ...BY_ACCESS,
      instances: [at('eu', ['m'], { region: 'eu', retention: 30, models: { 'm-zdr*': { retention: 0 } } })],
      routes: [],
      key: { access: { ...FULL_ACCESS, models: ['m-zdr*'] } },
    },
  ],
  [
    'a route that requires it',
    {
      ...BY_ACCESS,
      routes: [{ ...route('wide', 'us/n', 'eu/m'), require: EU }],
      key: { access: { ...FULL_ACCESS, routes: ['wide'] } },
    },
  ],
]
for (const [name, parts] of SOUND)
  test(`prove: holds: ${name}`, () => assert.deepEqual(proofOf(parts).counterexamples, []))

const MISTAKES: readonly (readonly [string, Parts, string])[] = [
  ['no access and no requirement', { ...BY_ACCESS, key: {} }, 'us'],
  ['a fact that is missing', { ...BY_ACCESS, instances: [at('eu', ['m'], { region: 'eu' })], routes: [] }, 'eu'],
  ['no facts', { ...BY_ACCESS, instances: [at('eu', ['m'])], routes: [] }, 'eu'],
  ['a wider requirement', { ...BY_REQUIRE, team: { require: { ...NO_REQUIRE, retention: 0 } } }, 'us'],
  [
    'a route in the access list',
    { ...BY_ACCESS, routes: [route('wide', 'eu/m', 'us/n')], key: { access: { ...FULL_ACCESS, models: ['wide'] } } },
    'us',
  ],
  [
    'the default route of a key',
    {
      ...BY_ACCESS,
      routes: [route('wide', 'us/n')],
      key: { defaultRoute: 'wide', access: { ...FULL_ACCESS, models: ['us/n', 'auto'] } },
    },
    'us',
  ],
  [
    'a glob with the name of the provider',
    { ...BY_ACCESS, key: { access: { ...FULL_ACCESS, models: ['eu/*', 'us/secret*'] } } },
    'us',
  ],
  [
    'a model of another provider with the same name',
    { ...BY_ACCESS, key: { access: { ...FULL_ACCESS, models: ['m'] } } },
    'us',
  ],
  [
    'a model that only a list of the provider has',
    { ...BY_ACCESS, lists: new Map([['us', ['late']]]), key: { access: { ...FULL_ACCESS, models: ['late'] } } },
    'us',
  ],
  [
    'a model that a provider may list later',
    { ...BY_ACCESS, key: { access: { ...FULL_ACCESS, models: ['*later*'] } } },
    'us',
  ],
  [
    'a model with facts of its own',
    { ...BY_ACCESS, instances: [at('eu', ['m'], { ...EU_FACTS, models: { kept: { retention: 30 } } })], routes: [] },
    'eu',
  ],
  [
    'models that both lists match',
    {
      ...BY_ACCESS,
      instances: [at('eu', ['m'], { ...EU_FACTS, models: { '*-kept': { retention: 30 } } })],
      routes: [],
      key: { access: { ...FULL_ACCESS, models: ['big-*'] } },
    },
    'eu',
  ],
  [
    'a weight that is nearly nothing',
    {
      ...BY_ACCESS,
      routes: [
        {
          ...route('wide', 'eu/m'),
          strategy: 'weighted',
          targets: [
            { provider: 'eu', model: 'm', weight: 1e6 },
            { provider: 'us', model: 'n', weight: 1e-6 },
          ],
        },
      ],
      key: { access: { ...FULL_ACCESS, routes: ['wide'] } },
    },
    'us',
  ],
  [
    'the fallback of a route',
    {
      ...BY_ACCESS,
      routes: [{ ...route('wide', 'eu/m'), fallback: [{ provider: 'us', weight: 1 }] }],
      key: { access: { ...FULL_ACCESS, routes: ['wide'] } },
    },
    'us',
  ],
  ['people of a team without a requirement', { ...BY_ACCESS, people: [DEVS] }, 'us'],
  [
    'people after a rule for those of another provider',
    { ...BY_ACCESS, people: [{ ...EVERYONE, provider: 'okta' }, DEVS] },
    'us',
  ],
  ['a key that is blocked only', { ...BY_ACCESS, key: { status: 'blocked' } }, 'us'],
  [
    'a region with a similar name',
    { ...BY_ACCESS, instances: [at('eu', ['m'], { region: 'eurasia', retention: 0 })], routes: [] },
    'eu',
  ],
]
for (const [name, parts, provider] of MISTAKES)
  test(`prove: fails: ${name}`, () => {
    const { holds, counterexamples } = proofOf(parts)
    assert.equal(holds, false)
    assert.ok(
      counterexamples.some((one) => one.provider === provider),
      JSON.stringify(counterexamples),
    )
  })

test('prove: the shortest way is first, with the providers that must fail before', () => {
  const { counterexamples } = proofOf({
    ...BY_ACCESS,
    routes: [route('wide', 'eu/m', 'us/n')],
    key: { access: { ...FULL_ACCESS, routes: ['wide'] } },
  })
  assert.deepEqual(counterexamples[0], {
    key: 'ci',
    rule: null,
    person: null,
    team: 'health',
    name: 'wide',
    style: 'chat',
    provider: 'us',
    model: 'n',
    because: 'the route "wide"',
    lack: 'region us',
    after: ['eu'],
  })
})

test('prove: the target of a shadow is reached, also without failover', () => {
  const { targets, ...wide } = route('fast', 'eu/m')
  const shadow = { target: { provider: 'us', model: 'n', weight: 1 }, percent: 1, perMinute: 1, budget: '1' }
  const settings = settingsSchema.parse({ fallback: 'none' })
  const parts = { ...BY_ACCESS, key: {}, more: { settings } }
  const name = ({ name, provider, model, because, after }: Counterexample) => [name, provider, model, because, after]
  const ways = ({ counterexamples }: Proof) => counterexamples.filter((way) => way.name === 'fast').map(name)
  assert.deepEqual(ways(proofOf({ ...parts, routes: [{ targets, ...wide }] })), [])
  assert.deepEqual(ways(proofOf({ ...parts, routes: [{ targets, ...wide, shadow }] })), [
    ['fast', 'us', 'n', 'the shadow of the route "fast"', []],
  ])
  // The access of the client holds for copies too.
  assert.deepEqual(ways(proofOf({ ...BY_ACCESS, more: { settings }, routes: [{ targets, ...wide, shadow }] })), [])
})

test('prove: a way of a person names the rule by which the team pays', () => {
  const { counterexamples } = proofOf({
    ...BY_ACCESS,
    key: { status: 'revoked' },
    people: [{ ...EVERYONE, provider: 'okta' }, DEVS],
  })
  assert.deepEqual([...new Set(counterexamples.map(({ person }) => person))], [1])
  assert.match(counterexamples.map(wayText).join(), /^a person of team health by sso\.teams\[1\] asks /)
})

for (const [text, expected] of [
  ['team=health: region in eu,local; retention=0', 'team=health: region=eu,local; retention=0'],
  ['all: training=no', 'all: training=no'],
  ['key=ci style=chat: Region in EU', 'key=ci style=chat: region=eu'],
  ['model=llama3:8b: retention=0', 'model=llama3:8b: retention=0'],
  ['', null],
  ['team=health', null],
  ['team=: retention=0', null],
  ['team=a team=b: retention=0', null],
  ['group=a: retention=0', null],
  ['all:', null],
  ['all: colour=red', null],
  [`team=${'a'.repeat(2_000)}: retention=0`, null],
] as const)
  test(`prove: the claim ${JSON.stringify(text.slice(0, 50))}`, () => {
    const claim = parseClaim(text)
    assert.equal(claim.ok ? claimText(claim.value) : null, expected)
  })

test('prove: a claim about what does not exist is refused', () => {
  for (const claim of [
    'team=nope: retention=0',
    'key=nope: retention=0',
    'route=nope: retention=0',
    'style=nope: retention=0',
  ])
    assert.throws(() => proofOf(BY_ACCESS, claim), /does not exist|must be one of/)
})

const MANY = 10_000
const manyRoutes = Array.from({ length: MANY }, (_, n) => route(`route-${n}`, n % 2 === 0 ? 'us/m' : 'eu/m'))

/** A proof for 1,000 keys and 10,000 routes, of which the odd ones lead to Europe. */
const proofOfMany = (own: (n: number) => Partial<ClientKey>, claim: string, fallback: 'any' | 'none' = 'any') => {
  const config: Config = {
    settings: settingsSchema.parse({ fallback }),
    instances: BY_ACCESS.instances,
    routes: new Map(manyRoutes.map((one) => [one.name, one])),
  }
  const common = { status: 'active', limits: NO_LIMITS, cache: null, tags: {}, managed: 'api' } as const
  const team: Team = { ...common, ...DEFAULT_TEAM, access: FULL_ACCESS, require: NO_REQUIRE }
  const keys = Array.from({ length: 1_000 }, (_, n): ClientKey => {
    const names = { id: `key_${n}`, name: `k${n}`, team: team.id, secrets: [], createdAt: 0, expiresAt: null }
    const free = { access: FULL_ACCESS, require: NO_REQUIRE, defaultRoute: null, logBodies: false }
    return { ...common, ...names, ...free, ...own(n) }
  })
  const directory: Directory = {
    teams: new Map([[team.id, team]]),
    keys: new Map(keys.map((key) => [key.id, key])),
    budgets: new Map(),
    prices: [],
    routes: new Map(),
  }
  const parsed = parseClaim(claim)
  assert.ok(parsed.ok)
  const sources = { config, lists: new Map(), catalogue: () => undefined }
  const proof = prove({ sources, directory, keyless: null, tokenRules: [], people: null, now: 0 }, parsed.value)
  assert.ok(proof.ok)
  return proof.value
}

test('prove: 1,000 keys of three kinds are three classes', () => {
  const kinds = [{ require: EU }, { access: ONLY_EU }, { access: { ...FULL_ACCESS, routes: ['route-1'] } }]
  const { walked } = proofOfMany((n) => kinds[n % kinds.length] ?? {}, 'model=route-1: region in eu; retention=0')
  assert.deepEqual([walked.clients, walked.classes], [1_000, 3])
})

/** Keys of which each has its own access, and whether they can leave Europe. */
const DISTINCT: readonly (readonly [string, (n: number) => Access, 'any' | 'none', boolean])[] = [
  ['one route each', (n) => ({ ...FULL_ACCESS, routes: [`route-${2 * n + 1}`] }), 'none', true],
  ['one route each, with failover', (n) => ({ ...FULL_ACCESS, routes: [`route-${2 * n + 1}`] }), 'any', false],
  ['one provider', (n) => ({ ...FULL_ACCESS, providers: ['eu'], models: ['*', `!m-${n}`] }), 'any', true],
  ['names that begin with a provider', (n) => ({ ...FULL_ACCESS, models: ['eu/*', `!eu/m-${n}`] }), 'any', true],
  ['all names but one provider', (n) => ({ ...FULL_ACCESS, models: ['*', '!us/*', `!eu/m-${n}`] }), 'any', true],
  ['a name of a route', (n) => ({ ...FULL_ACCESS, models: [`route-${2 * n}`, `route-${2 * n + 1}`] }), 'none', false],
]
for (const [name, access, fallback, holds] of DISTINCT)
  test(`prove: 1,000 keys and 10,000 routes without a plan for each pair: ${name}`, () => {
    const proof = proofOfMany((n) => ({ access: access(n) }), 'all: region in eu; retention=0', fallback)
    assert.equal(proof.holds, holds, JSON.stringify(proof.counterexamples[0]))
    assert.equal(proof.walked.classes, 1_000)
    // The names that its own lists add, for each kind of requests.
    assert.ok(proof.walked.plans <= 150 * 1_000, JSON.stringify(proof.walked))
  })

test('prove: a condition may hold, so its target may be reached, also while those before it work', () => {
  const parts: Parts = {
    ...BY_ACCESS,
    key: {},
    instances: [at('eu', ['m'], EU_FACTS), at('us', ['n'], { region: 'us', retention: 0 })],
    more: { settings: settingsSchema.parse({ fallback: 'none', unknownModel: 'reject' }) },
  }
  const conditional = (when: TargetCondition): Route => ({
    name: 'fast',
    targets: [
      { provider: 'eu', model: 'm', weight: 1, when },
      { provider: 'us', model: 'n', weight: 1 },
    ],
    fallback: [],
  })
  const claim = `${CLAIM.replace('team=health', 'route=fast')}`
  const { counterexamples } = proofOf({ ...parts, routes: [conditional({ tools: true })] }, claim)
  assert.deepEqual([counterexamples[0]?.provider, counterexamples[0]?.after], ['us', []])
})

test('prove: a rule may apply to a name that is not known', () => {
  const parts: Parts = {
    ...BY_ACCESS,
    instances: [at('eu', ['m'], EU_FACTS), at('us', ['other', 'n'], { region: 'us', retention: 0 })],
    routes: [route('fast', 'us/n')],
    key: { access: { ...FULL_ACCESS, models: ['eu/*', 'us/n'] } },
  }
  const claim = CLAIM.replace('team=health', 'team=health model=auto')
  assert.ok(proofOf(parts, claim).holds)
  const rules = [{ when: { media: ['image'] }, route: 'fast' }] as const
  const { counterexamples } = proofOf({ ...parts, more: { rules } }, claim)
  assert.equal(counterexamples[0]?.because, 'the route "fast"')
})

test('prove: a route whose name is a glob is walked by a name that it matches', () => {
  const routes = [route('claude-*', 'us/n')]
  const { holds, counterexamples } = proofOf({ ...BY_ACCESS, key: {}, routes }, CLAIM)
  assert.ok(!holds)
  assert.ok(
    counterexamples.some(({ because }) => because === 'the route "claude-*"'),
    JSON.stringify(counterexamples),
  )
})

test('prove: a successor is a target, whatever the time', () => {
  const eu: Instance = {
    ...at('eu', ['old'], { ...EU_FACTS, models: { new: { region: 'us', retention: 0 } } }),
    retirements: new Map([['old', { at: Number.MAX_SAFE_INTEGER, successor: 'new' }]]),
  }
  const routed = (more: Partial<Route>) =>
    proofOf(
      { ...BY_ACCESS, instances: [eu], routes: [{ ...route('fast', 'eu/old'), ...more }] },
      CLAIM.replace('team=health', 'route=fast'),
    )
  assert.equal(routed({}).holds, true)
  const [way] = routed({ onRetired: 'successor' }).counterexamples
  assert.deepEqual([way?.model, way?.because], ['new', 'the route "fast", in place of old'])
})
