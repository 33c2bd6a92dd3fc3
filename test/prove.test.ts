/**
 * `prove` against brute force: random configurations, every name of a pool, every client, every draw of the order and every
 * combination of providers that are down, by the planner of requests.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type Access,
  ANONYMOUS,
  type Client,
  type ClientKey,
  type Directory,
  FULL_ACCESS,
  NO_LIMITS,
  type Team,
} from '../src/core/accounts.ts'
import type { Config } from '../src/core/config.ts'
import { type DeclaredFacts, NO_REQUIRE, type Require } from '../src/core/data-policy.ts'
import type { Route } from '../src/core/route.ts'
import { settingsSchema } from '../src/core/settings.ts'
import type { TeamRule } from '../src/core/sign-in.ts'
import type { Candidate } from '../src/core/target.ts'
import type { TokenRule } from '../src/core/token-rule.ts'
import { planFor } from '../src/gateway/routing/planner.ts'
import { clientOf } from '../src/policy/accounts/client.ts'
import { lackOf } from '../src/policy/accounts/data-policy.ts'
import { personClient } from '../src/policy/accounts/person-client.ts'
import { checkClaims } from '../src/policy/identity/check-claims.ts'
import { tokenClient } from '../src/policy/identity/token-client.ts'
import type { Claim } from '../src/policy/prove/claim.ts'
import { type Counterexample, prove } from '../src/policy/prove/prove.ts'
import { draftEmbeddings } from '../src/policy/routing/plan-embeddings.ts'
import { payingTeam } from '../src/policy/sign-in/membership.ts'
import { gatewayHarness, instance } from './support/gateway.ts'
import { isLong } from './support/lane.ts'

const generator = (seed: number) => {
  let state = seed >>> 0
  const next = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
  const pick = <T>(list: readonly T[]): T => list[Math.floor(next() * list.length)] as T
  const some = <T>(list: readonly T[], most: number): T[] =>
    Array.from({ length: Math.floor(next() * (most + 1)) }, () => pick(list))
  return { next, pick, some, chance: (share: number) => next() < share }
}
type Random = ReturnType<typeof generator>

const IDS = ['a', 'b', 'c', 'd', 'e']
const MODELS = ['m1', 'm1-zdr', 'm2', 'm2-zdr', 'm1-2026-01-01']
const ROUTES = ['r1', 'r2', 'r3']
const POOL = ['', ...IDS.map((id) => `${id}/`)].flatMap((place) =>
  [...MODELS, 'nope', 'zz-zdr', ''].map((model) => place + model),
)
const NAMES = [...ROUTES, 'auto', 'R1', ...POOL.filter((name) => name !== '')]
const GLOBS = [
  '*',
  'a/*',
  'b/*',
  'm1*',
  '*-zdr',
  'm2',
  'r1',
  'r2',
  '!m2*',
  '!b/*',
  '!*-zdr',
  'a/m1-zdr',
  'c/m*',
  'auto',
]
const REGIONS = ['eu', 'eu-de', 'us', 'local']

const factsFrom = ({ pick, chance }: Random): DeclaredFacts => ({
  ...(chance(0.8) && { region: pick(REGIONS) }),
  ...(chance(0.7) && { retention: pick([0, 30]) }),
  ...(chance(0.5) && { training: chance(0.5) }),
})
const requireFrom = ({ pick, some, chance }: Random, share: number): Require => {
  if (!chance(share)) return NO_REQUIRE
  return {
    region: chance(0.7) ? [...new Set([pick(REGIONS), ...some(REGIONS, 1)])] : null,
    retention: chance(0.4) ? pick([0, 30]) : null,
    training: chance(0.2) ? false : null,
  }
}
const listFrom = ({ some, chance }: Random, share: number, of: readonly string[]) =>
  chance(share) ? [...new Set(some(of, 3))] : null
const accessFrom = (random: Random): Access =>
  random.chance(0.5)
    ? FULL_ACCESS
    : {
        models: listFrom(random, 0.5, GLOBS),
        routes: listFrom(random, 0.3, ['*', 'r1', '!r2']),
        providers: listFrom(random, 0.3, ['*', 'a', 'b', '!c']),
        styles: listFrom(random, 0.2, ['chat', 'messages', 'embeddings', '*']),
        ips: null,
      }

const tokenRuleFrom = (random: Random, name: string): TokenRule => ({
  name,
  keys: { issuer: 'https://issuer.example', url: null, file: null, tokenFile: null, caFile: null },
  audience: ['headgate'],
  algorithms: ['ES256'],
  require: [],
  subject: 'sub',
  team: random.chance(0.5)
    ? { kind: 'value', team: random.pick(['t1', 'none']) }
    : { kind: 'claim', claim: 'groups', map: [['a*', 't1']], fallback: random.pick([null, 'team_default']) },
  user: null,
  tags: [],
  skew: 0,
  maxAge: 86_400_000,
  access: accessFrom(random),
  limits: NO_LIMITS,
  dataPolicy: requireFrom(random, 0.4),
  defaultRoute: null,
  cache: null,
  logBodies: false,
})

const worldFrom = (random: Random) => {
  const { next, pick, some, chance } = random
  const ids = IDS.slice(0, 1 + Math.floor(next() * IDS.length))
  const instances = ids.map((id) => {
    const models = Object.fromEntries(
      some(['m1', 'm1*', '*-zdr', '*', 'm2'], 2).map((glob) => [glob, factsFrom(random)]),
    )
    return {
      ...instance(id, ['k1'], chance(0.5) ? { embeds: { protocol: 'openai-embeddings', models: ['m1'] } } : {}),
      models: [...new Set(some(MODELS, 3))],
      ...(chance(0.9) && { facts: { ...factsFrom(random), ...(chance(0.4) && { models }) } }),
    }
  })
  const targets = (most: number) =>
    some(ids, most).map((provider) => ({ provider, ...(chance(0.7) && { model: pick(MODELS) }), weight: 1 }))
  const routes = ROUTES.slice(0, Math.floor(next() * 4)).map((name): Route => {
    const require = requireFrom(random, 0.3)
    return {
      name,
      strategy: pick(['priority', 'weighted'] as const),
      targets: [{ provider: pick(ids), weight: 1 }, ...targets(2)],
      fallback: targets(1),
      ...(require !== NO_REQUIRE && { require }),
    }
  })
  const settings = settingsSchema.parse({
    strategy: pick(['priority', 'weighted']),
    fallback: pick(['any', 'same-model', 'none']),
    unknownModel: pick(['route', 'reject']),
  })
  const global = requireFrom(random, 0.2)
  const config: Config = {
    settings,
    instances,
    routes: new Map(routes.map((one) => [one.name, one])),
    ...(global !== NO_REQUIRE && { require: global }),
  }
  const shared = { status: 'active', limits: NO_LIMITS, cache: null, tags: {}, managed: 'api' } as const
  const team = (id: string): Team => ({
    ...shared,
    id,
    name: id,
    access: FULL_ACCESS,
    require: requireFrom(random, 0.5),
  })
  const teams = [team('team_default'), team('t1')]
  const keys = Array.from(
    { length: 1 + Math.floor(next() * 4) },
    (_, n): ClientKey => ({
      ...shared,
      id: `key_${n}`,
      name: `k${n}`,
      team: pick(teams).id,
      secrets: [],
      createdAt: 0,
      expiresAt: null,
      access: accessFrom(random),
      require: requireFrom(random, 0.4),
      defaultRoute: chance(0.2) && routes.length > 0 ? pick(routes).name : null,
      logBodies: false,
    }),
  )
  const directory: Directory = {
    teams: new Map(teams.map((one) => [one.id, one])),
    keys: new Map(keys.map((one) => [one.id, one])),
    budgets: new Map(),
    prices: [],
    routes: new Map(),
  }
  const tokenRules = Array.from({ length: Math.floor(next() * 2) }, (_, n): TokenRule => tokenRuleFrom(random, `j${n}`))
  const paying = some([null, 'g1', 'g2'], 3).map(
    (group): TeamRule => ({ group, provider: pick([null, 'p1', 'p2']), team: pick(['t1', 'team_default', 'none']) }),
  )
  const people = { providers: [{ name: 'p1' }, { name: 'p2' }], teams: paying }
  const keyless: Client | null = chance(0.5) ? { ...ANONYMOUS } : null
  const require = { ...requireFrom(random, 1) }
  const condition = require.region === null && require.retention === null ? { ...require, region: ['eu'] } : require
  const claim: Claim = {
    selector: pick([{}, {}, { team: 't1' }, { key: 'k0' }, { style: 'chat' }, { model: pick(NAMES) }]),
    require: condition,
  }
  return { config, directory, tokenRules, people, keyless, claim }
}
type Made = ReturnType<typeof worldFrom>

/** Enough draws for each of five targets to be the first. */
const DRAWS = 24
const { gateway: base } = gatewayHarness([], () => {})

type Asked = {
  readonly client: Client
  readonly name: string
  readonly style: string
  readonly mayFail?: (id: string) => boolean
}

/** The targets that a request reaches: for every draw of the order and every set of providers that are down. */
const reached = ({ config }: Made, { client, name, style, mayFail = () => true }: Asked): readonly Candidate[] => {
  const found = new Set<Candidate>()
  const ids = config.instances.map(({ id }) => id).filter(mayFail)
  const isDrawn =
    config.settings.strategy !== 'priority' || config.routes.values().some(({ strategy }) => strategy !== 'priority')
  for (let draw = 1; draw <= (isDrawn ? DRAWS : 1); draw++) {
    const random = generator(draw * 7_919).next
    const gateway = { ...base, lists: () => NO_LISTS, world: { ...base.world, random } }
    const drafting = style === 'embeddings' ? { drafting: draftEmbeddings } : {}
    const plan = planFor(gateway, config, {
      model: name,
      style,
      client,
      headers: () => undefined,
      members: {},
      shape: null,
      ...drafting,
    })
    if (!plan.ok) return []
    for (let down = 0; down < 2 ** ids.length; down++) {
      const isDown = (id: string) => ((down >> ids.indexOf(id)) & 1) === 1 && ids.includes(id)
      const first = plan.value.candidates.filter(({ instance }) => !isDown(instance.id))
      // Of one provider a model may fail alone.
      for (const one of first) {
        found.add(one)
        if (first[0] && one.instance !== first[0].instance) break
      }
    }
  }
  return [...found]
}
const NO_LISTS: ReadonlyMap<string, readonly string[]> = new Map()

/** A client, and who it is. */
type Someone = Pick<Counterexample, 'key' | 'rule' | 'person'> & { readonly client: Client }

const GROUPS = [[], ['g1'], ['g2'], ['g1', 'g2']]

const clientsOf = ({ directory, tokenRules, people, keyless, claim: { selector } }: Made): readonly Someone[] => {
  const none = { key: null, rule: null, person: null }
  const teamOf = (name: string) => [...directory.teams.values()].find((one) => one.id === name || one.name === name)
  const found: Someone[] = keyless ? [{ ...none, client: keyless }] : []
  for (const key of directory.keys.values()) {
    const team = directory.teams.get(key.team)
    if (team) found.push({ ...none, key: key.name, client: clientOf(key, team) })
  }
  for (const rule of tokenRules)
    for (const groups of [['other'], ['abc']]) {
      const claims = { iss: rule.keys.issuer, aud: 'headgate', iat: 0, exp: 60, sub: 's', groups }
      const checked = checkClaims(rule, claims, 1_000)
      const team = checked.ok ? teamOf(checked.identity.team) : undefined
      if (checked.ok && team)
        found.push({
          ...none,
          rule: rule.name,
          client: tokenClient(checked.identity, { id: 'jwt_a', owner: 'a' }, team),
        })
    }
  for (const provider of ['p1', 'p2'])
    for (const groups of GROUPS) {
      const team = teamOf(payingTeam(people.teams, { provider, groups }, (name) => teamOf(name)?.id) ?? '')
      const person = people.teams.findIndex(
        (one) =>
          (one.provider === null || one.provider === provider) && (one.group === null || groups.includes(one.group)),
      )
      if (team) found.push({ ...none, person, client: personClient({ id: 'usr_a', name: 'a', email: null }, team) })
    }
  return found.filter(
    ({ key, client: { team } }) =>
      (selector.key === undefined || selector.key === key) &&
      (selector.team === undefined || selector.team === team.id || selector.team === team.name),
  )
}

const violates = (made: Made, one: Candidate) => lackOf(made.claim.require, one) !== null

const leakOf = (made: Made): string | null => {
  const { selector } = made.claim
  const names = selector.model === undefined ? NAMES : [selector.model]
  const styles = selector.style === undefined ? ['chat', 'messages', 'embeddings'] : [selector.style]
  for (const { client, ...who } of clientsOf(made))
    for (const style of styles)
      for (const name of names) {
        const leak = reached(made, { client, name, style }).find((one) => violates(made, one))
        if (leak)
          return `${JSON.stringify(who)} asks ${name} (${style}) → ${leak.instance.id}/${leak.model} (${leak.because})`
      }
  return null
}

/** Whether the real planner reaches the target that a counterexample names, when only the providers before it are down. */
const isReal = (made: Made, way: Counterexample): boolean => {
  const { key, rule, person, team, name, style, provider, model, after } = way
  const someone = clientsOf(made).find(
    (one) => one.key === key && one.rule === rule && one.person === person && one.client.team.name === team,
  )
  assert.ok(someone, JSON.stringify(way))
  return reached(made, { client: someone.client, name, style, mayFail: (id) => after.includes(id) }).some(
    (one) => one.instance.id === provider && one.model === model && violates(made, one),
  )
}

test('prove: equal to brute force on random configurations', () => {
  const verdicts = { holds: 0, fails: 0 }
  for (let seed = 1; seed <= (isLong ? 100_000 : 400); seed++) {
    const made = worldFrom(generator(seed))
    const { config, claim, ...who } = made
    const proof = prove({ ...who, sources: { config, lists: NO_LISTS, catalogue: () => undefined }, now: 0 }, claim)
    if (!proof.ok) {
      assert.match(proof.failure.message, /does not exist/)
      continue
    }
    const { holds, counterexamples } = proof.value
    verdicts[holds ? 'holds' : 'fails']++
    if (holds) assert.equal(leakOf(made), null, `seed ${seed}: ${proof.value.claim} is broken`)
    for (const one of counterexamples)
      assert.ok(isReal(made, one), `seed ${seed}: accused wrongly: ${JSON.stringify(one)}`)
  }
  assert.ok(verdicts.holds > 30 && verdicts.fails > 30, JSON.stringify(verdicts))
})
