/**
 * `prove` against seeded mistakes: configurations that are sound by construction, and each with one mistake of a kind that operators
 * make. Every mistake must be found, with the provider that it lets in; no sound configuration may be accused.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type Access,
  ANONYMOUS,
  type Client,
  type ClientKey,
  DEFAULT_TEAM,
  FULL_ACCESS,
  NO_LIMITS,
  type Team,
} from '../src/core/accounts.ts'
import type { Config } from '../src/core/config.ts'
import { type DeclaredFacts, NO_REQUIRE, type Require } from '../src/core/data-policy.ts'
import type { Route } from '../src/core/route.ts'
import { settingsSchema } from '../src/core/settings.ts'
import type { TeamRule } from '../src/core/sign-in.ts'
import { parseClaim } from '../src/policy/prove/claim.ts'
import { prove } from '../src/policy/prove/prove.ts'
import { instance } from './support/gateway.ts'

const COUNT = 500
const EU: Require = { ...NO_REQUIRE, region: ['eu'], retention: 0 }
const CLAIM = 'all: region in eu; retention=0'

const generator = (seed: number) => {
  let state = seed >>> 0
  const next = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
  const upTo = (most: number) => Math.floor(next() * (most + 1))
  return { upTo, pick: <T>(list: readonly T[]): T => list[upTo(list.length - 1)] as T }
}
type Random = ReturnType<typeof generator>

type Provider = { id: string; models: string[]; facts: DeclaredFacts | undefined }
/** What a mistake changes. */
type World = {
  inside: Provider[]
  outside: Provider[]
  routes: Route[]
  teams: Team[]
  keys: ClientKey[]
  people: TeamRule[]
  keyless: Client | null
  lists: Map<string, readonly string[]>
  require: Require | null
  fallback: 'any' | 'same-model' | 'none'
  now: number
}

const shared = { status: 'active', limits: NO_LIMITS, cache: null, tags: {}, managed: 'api' } as const
const teamOf = (name: string, access: Access, require: Require): Team => ({
  ...shared,
  id: `team_${name}`,
  name,
  access,
  require,
})
const keyOf = (n: number, team: Team, more: Partial<ClientKey> = {}): ClientKey => ({
  ...shared,
  id: `key_${n}`,
  name: `k${n}`,
  team: team.id,
  secrets: [],
  createdAt: 0,
  expiresAt: null,
  access: FULL_ACCESS,
  require: NO_REQUIRE,
  defaultRoute: null,
  logBodies: false,
  ...more,
})
const target = ({ id, models }: Provider, weight = 1) => ({ provider: id, model: models[0] ?? 'm', weight })

/** How a world is kept inside: by what teams require, by their providers, or by the routes that their keys may name. */
const KEPT = ['require', 'access', 'routes'] as const
type Kept = (typeof KEPT)[number]

const soundWorld = ({ upTo, pick }: Random, kept: Kept): World => {
  const inside = Array.from({ length: 1 + upTo(2) }, (_, n): Provider => {
    const facts = {
      region: pick(['eu', 'eu-de', 'eu-fr-par']),
      retention: 0,
      ...(upTo(1) === 1 && { training: false }),
    }
    return { id: `in${n}`, models: ['m', `only-in${n}`], facts }
  })
  const outside = Array.from({ length: 1 + upTo(1) }, (_, n): Provider => {
    const facts = pick([
      { region: 'us', retention: 0 },
      { region: 'eu', retention: 30 },
      { region: 'ap-south' },
      undefined,
    ])
    return { id: `out${n}`, models: ['m', `only-out${n}`], facts }
  })
  const ids = inside.map(({ id }) => id)
  const access =
    kept === 'access'
      ? { ...FULL_ACCESS, providers: ids }
      : kept === 'routes'
        ? { ...FULL_ACCESS, routes: ['r*'] }
        : FULL_ACCESS
  const require = kept === 'require' ? EU : NO_REQUIRE
  const teams = [teamOf('default', access, require), teamOf('health', access, require)].map((one) =>
    one.name === 'default' ? { ...one, id: DEFAULT_TEAM.id } : one,
  )
  const routes = Array.from(
    { length: 1 + upTo(4) },
    (_, n): Route => ({
      name: `r${n}`,
      strategy: pick(['priority', 'weighted'] as const),
      targets: [target(pick(inside)), target(pick(inside))],
      fallback: upTo(1) === 1 ? [target(pick(inside))] : [],
    }),
  )
  return {
    inside,
    outside,
    routes,
    teams,
    keys: Array.from({ length: 1 + upTo(3) }, (_, n) => keyOf(n, pick(teams))),
    people: upTo(1) === 1 ? [{ group: 'devs', provider: null, team: 'health' }] : [],
    keyless: null,
    lists: new Map(),
    require: null,
    fallback: kept === 'routes' ? 'same-model' : pick(['any', 'none'] as const),
    now: 1_000,
  }
}

type Mistake = {
  readonly name: string
  readonly kept: readonly Kept[]
  /** Returns the provider that it lets in. */
  readonly make: (world: World, random: Random) => string
}

const openTeam = (): Team => teamOf('open', FULL_ACCESS, NO_REQUIRE)
const [firstOf, keptBy] = [<T>(list: readonly T[]): T => list[0] as T, (...kept: Kept[]) => kept]

/** A team of which some client is. */
const usedTeam = ({ teams, keys }: World): Team => teams.find(({ id }) => keys.some(({ team }) => team === id)) as Team
const changeTeam = (world: World, more: (team: Team) => Partial<Team>) => {
  const used = usedTeam(world)
  world.teams = world.teams.map((one) => (one === used ? { ...one, ...more(one) } : one))
}
const factsOf = (world: World, facts: DeclaredFacts | undefined): string => {
  const one = firstOf(world.inside)
  one.facts = facts
  return one.id
}

const MISTAKES: readonly Mistake[] = [
  {
    name: 'a team whose requirement was removed',
    kept: keptBy('require'),
    make(world) {
      changeTeam(world, () => ({ require: NO_REQUIRE }))
      return firstOf(world.outside).id
    },
  },
  {
    name: 'a requirement that forgets retention',
    kept: keptBy('require'),
    make(world) {
      changeTeam(world, () => ({ require: { ...EU, retention: null } }))
      return factsOf(world, { region: 'eu', retention: 30 })
    },
  },
  {
    name: 'a requirement with one region more',
    kept: keptBy('require'),
    make(world) {
      changeTeam(world, () => ({ require: { ...EU, region: ['eu', 'us'] } }))
      firstOf(world.outside).facts = { region: 'us', retention: 0 }
      return firstOf(world.outside).id
    },
  },
  { name: 'a provider without facts', kept: keptBy('access', 'routes'), make: (world) => routed(world, undefined) },
  {
    name: 'a fact that is missing',
    kept: keptBy('access', 'routes'),
    make: (world) => routed(world, { region: 'eu' }),
  },
  {
    name: 'a region with the same beginning',
    kept: keptBy('access', 'routes'),
    make: (world) => routed(world, { region: 'eurasia', retention: 0 }),
  },
  {
    name: 'facts of one model',
    kept: keptBy('access', 'routes'),
    make: (world) => routed(world, { region: 'eu', retention: 0, models: { 'm*': { retention: 30 } } }),
  },
  {
    name: 'an access list with one provider more',
    kept: keptBy('access'),
    make(world) {
      const { id } = firstOf(world.outside)
      changeTeam(world, ({ access }) => ({ access: { ...access, providers: [...(access.providers ?? []), id] } }))
      return id
    },
  },
  {
    name: 'a glob that matches another provider',
    kept: keptBy('access'),
    make(world) {
      changeTeam(world, ({ access }) => ({ access: { ...access, providers: ['*'] } }))
      return firstOf(world.outside).id
    },
  },
  {
    name: 'a target of a route, at its end',
    kept: keptBy('routes'),
    make(world) {
      const route = firstOf(world.routes)
      world.routes[0] = { ...route, targets: [...route.targets, target(firstOf(world.outside))] }
      return firstOf(world.outside).id
    },
  },
  {
    name: 'a weight that is nearly nothing',
    kept: keptBy('routes'),
    make(world) {
      const route = firstOf(world.routes)
      const targets = [...route.targets, target(firstOf(world.outside), 1e-6)]
      world.routes[0] = { ...route, strategy: 'weighted', targets }
      return firstOf(world.outside).id
    },
  },
  {
    name: 'a fallback of a route',
    kept: keptBy('routes'),
    make(world) {
      const route = firstOf(world.routes)
      world.routes[0] = { ...route, fallback: [target(firstOf(world.outside))] }
      return firstOf(world.outside).id
    },
  },
  {
    name: 'failover to any provider',
    kept: keptBy('routes'),
    make(world) {
      world.fallback = 'any'
      changeTeam(world, () => ({ access: FULL_ACCESS }))
      return firstOf(world.outside).id
    },
  },
  {
    name: 'a new route that the list matches too',
    kept: keptBy('routes'),
    make(world) {
      const outside = firstOf(world.outside)
      world.routes.push({ name: 'research', targets: [target(outside)], fallback: [] })
      return outside.id
    },
  },
  {
    name: 'a key of an open team',
    kept: KEPT,
    make(world) {
      const team = openTeam()
      world.teams.push(team)
      world.keys.push(keyOf(9, team))
      return firstOf(world.outside).id
    },
  },
  {
    name: 'a key of an open team that expires later',
    kept: KEPT,
    make(world, { pick }) {
      const team = openTeam()
      world.teams.push(team)
      world.keys.push(keyOf(9, team, pick([{ expiresAt: world.now + 1 }, { status: 'blocked' as const }])))
      return firstOf(world.outside).id
    },
  },
  {
    name: 'people of an open team',
    kept: KEPT,
    make(world) {
      world.teams.push(openTeam())
      world.people.push({ group: 'guests', provider: 'p', team: 'open' })
      return firstOf(world.outside).id
    },
  },
  {
    name: 'requests without a key',
    kept: KEPT,
    make(world) {
      world.keyless = ANONYMOUS
      return firstOf(world.outside).id
    },
  },
  {
    name: 'a model that only a list of the provider has',
    kept: KEPT,
    make(world) {
      const { id } = firstOf(world.outside)
      const team = openTeam()
      world.teams.push(team)
      world.keys.push(keyOf(9, team, { access: { ...FULL_ACCESS, models: ['late-*'] } }))
      world.lists.set(id, ['late-1'])
      world.fallback = 'none'
      return id
    },
  },
  {
    name: 'the default route of a key',
    kept: keptBy('routes'),
    make(world) {
      const outside = firstOf(world.outside)
      world.routes.push({ name: 'wide', targets: [target(outside)], fallback: [] })
      const team = openTeam()
      world.teams.push(team)
      const access = { ...FULL_ACCESS, models: ['auto', `${outside.id}/*`] }
      world.keys.push(keyOf(9, team, { access, defaultRoute: 'wide' }))
      return outside.id
    },
  },
]

/** A provider with these facts, to which a route leads. */
const routed = (world: World, facts: DeclaredFacts | undefined): string => {
  const id = factsOf(world, facts)
  const inside = firstOf(world.inside)
  world.routes[0] = { ...firstOf(world.routes), targets: [target(inside)], fallback: [] }
  return id
}

const proofOf = (world: World) => {
  const { teams, keys, people, keyless, lists, now, fallback } = world
  const config: Config = {
    settings: settingsSchema.parse({ fallback }),
    instances: [...world.inside, ...world.outside].map(({ id, models, facts }) => ({
      ...instance(id),
      models,
      ...(facts && { facts }),
    })),
    routes: new Map(world.routes.map((one) => [one.name, one])),
    ...(world.require && { require: world.require }),
  }
  const claim = parseClaim(CLAIM)
  assert.ok(claim.ok)
  const directory = {
    teams: new Map(teams.map((one) => [one.id, one])),
    keys: new Map(keys.map((one) => [one.id, one])),
    budgets: new Map(),
    prices: [],
    routes: new Map(),
  }
  const who = { directory, tokenRules: [], people: { providers: [{ name: 'p' }], teams: people }, keyless, now }
  const proof = prove({ ...who, sources: { config, lists, catalogue: () => undefined } }, claim.value)
  assert.ok(proof.ok)
  return proof.value
}

test(`prove: ${COUNT} sound configurations are not accused`, () => {
  for (let seed = 1; seed <= COUNT; seed++) {
    const world = soundWorld(generator(seed), KEPT[seed % KEPT.length] as Kept)
    const { holds, counterexamples } = proofOf(world)
    assert.ok(holds, `seed ${seed}: ${JSON.stringify(counterexamples[0])}`)
  }
})

test(`prove: ${COUNT} configurations with a mistake are refuted, each by the provider that it lets in`, () => {
  const made = new Map<string, number>()
  for (let seed = 1; seed <= COUNT; seed++) {
    const random = generator(seed)
    const mistake = MISTAKES[seed % MISTAKES.length] as Mistake
    const world = soundWorld(random, random.pick(mistake.kept))
    assert.ok(proofOf(world).holds, `seed ${seed} is sound before`)
    const provider = mistake.make(world, random)
    const { holds, counterexamples } = proofOf(world)
    const places = JSON.stringify(counterexamples.map((one) => `${one.name} → ${one.provider}`))
    assert.ok(!holds, `seed ${seed}: ${mistake.name} is not found`)
    assert.ok(
      counterexamples.some((one) => one.provider === provider),
      `seed ${seed}: ${mistake.name} of ${provider}: ${places}`,
    )
    made.set(mistake.name, (made.get(mistake.name) ?? 0) + 1)
  }
  assert.equal(made.size, MISTAKES.length)
})
