/**
 * Proves or refutes a claim about the data policy: walks what every client may reach by every name, by the code that plans
 * requests. Health only takes targets away or reorders them, so what any state can reach is the whole plan. What a request requires
 * itself only tightens, so it is left out. Conditions of targets and rules may hold.
 */
import type { Client } from '../../core/accounts.ts'
import type { Require } from '../../core/data-policy.ts'
import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import { REALTIME, RELAY_ROWS } from '../../core/relay.ts'
import { REQUEST_STYLES } from '../../core/request-styles.ts'
import { atOnce, type Steps } from '../../core/steps.ts'
import { type Candidate, modelId } from '../../core/target.ts'
import { combined, declaredFacts, lackIn, lackOf, lackText } from '../accounts/data-policy.ts'
import { allowsName, restrictionsOf } from '../accounts/key-access.ts'
import { type ModelSources, routeNamed, usableInstances } from '../routing/models.ts'
import { permittedDraft } from '../routing/permitted-draft.ts'
import { AUTO, draftPlan, type PlanDraft, type PlanInput } from '../routing/plan.ts'
import { draftEmbeddings } from '../routing/plan-embeddings.ts'
import { realtimeDraft, relayDrafts } from '../routing/plan-relay.ts'
import { withShadowTargets } from '../routing/shadow.ts'
import { byTeam, teamConfig } from '../routing/team-routes.ts'
import { type Claim, claimText } from './claim.ts'
import { NameIndex } from './name-index.ts'
import { namesAllowedBy, namesOf } from './names.ts'
import { type Principal, type PrincipalName, type PrincipalSources, principalsIn } from './principals.ts'
import { ClientReach, SuspectCollector, type Suspects } from './suspects.ts'

/** What a claim is proved for. */
export type ProofInput = PrincipalSources & { readonly sources: ModelSources }

/** A request that may reach a target which does not satisfy the claim. Plain JSON data. */
export type Counterexample = PrincipalName & {
  readonly team: string
  /** The name that it sends as `model`. */
  readonly name: string
  readonly style: string
  readonly provider: string
  readonly model: string
  /** Why the target is in the plan: `fallback: any`. */
  readonly because: string
  /** What it lacks: `region us`. */
  readonly lack: string
  /** The providers that must fail before it is tried; empty: it may be the first. */
  readonly after: readonly string[]
}

/** Plain JSON data. */
export type Proof = {
  /** In its normal form. */
  readonly claim: string
  readonly holds: boolean
  /** At most ten, the shortest ways first. */
  readonly counterexamples: readonly Counterexample[]
  /** What was walked. `classes`: of clients with the same access and requirements. */
  readonly walked: {
    readonly clients: number
    readonly classes: number
    readonly names: number
    readonly plans: number
  }
}

/** A counterexample as one line. */
export const wayText = (way: Counterexample): string => {
  const { name, style, provider, model, because, lack, after } = way
  const when = after.length === 0 ? '' : ` while ${after.join(', ')} ${after.length === 1 ? 'is' : 'are'} down`
  return `${principalText(way)} asks "${name}" (${style})${when} → ${because} → ${provider}/${model} (${lack})`
}

const principalText = ({ key, rule, person, team }: Counterexample): string => {
  if (key !== null) return `key ${key}`
  if (rule !== null) return `a token of auth.jwt rule ${rule}`
  return person === null ? 'a request without a key' : `a person of team ${team} by sso.teams[${person}]`
}

const MAX_COUNTEREXAMPLES = 10

/** Names or plans of one step, about 2 ms of work. */
const STEP = 64

/** Errors name no other names here: making their list takes long. */
const NO_NAMES = () => []

type DraftMaker = (input: PlanInput) => Outcome<PlanDraft>

/** The kinds of requests that are planned differently, with their API styles. */
const KINDS: readonly { readonly styles: readonly string[]; readonly drafting: DraftMaker }[] = [
  { styles: REQUEST_STYLES.filter((style) => style !== 'embeddings'), drafting: draftPlan },
  { styles: ['embeddings'], drafting: draftEmbeddings },
  ...RELAY_ROWS.map(([name]) => ({ styles: [name], drafting: relayDrafts[name] })),
  { styles: [REALTIME], drafting: realtimeDraft },
]

/** Every style of the walk. */
const STYLES: ReadonlySet<string> = new Set(KINDS.flatMap(({ styles }) => styles))

/** Proves a claim. Fails if it names a team, key, route or style that does not exist. */
export const prove = (input: ProofInput, claim: Claim): Outcome<Proof> => atOnce(proveSteps(input, claim))

/** The same in steps, for a process that serves meanwhile. */
export function* proveSteps(input: ProofInput, claim: Claim): Steps<Outcome<Proof>> {
  const problem = selectorProblem(input, claim)
  if (problem) return bad(fail('invalid_value', problem, { param: 'claim' }))
  return good(yield* new Walk(input, claim).result())
}

const selectorProblem = ({ sources, directory }: ProofInput, { selector }: Claim): string | null => {
  const { team, key, route, style } = selector
  const has = (records: Iterable<{ readonly id: string; readonly name: string }>, name: string) =>
    [...records].some((one) => one.id === name || one.name === name)
  if (team !== undefined && !has(directory.teams.values(), team))
    return `The claim names the team ${JSON.stringify(team)}, which does not exist.`
  if (key !== undefined && !has(directory.keys.values(), key))
    return `The claim names the key ${JSON.stringify(key)}, which does not exist.`
  if (route !== undefined && !routeNamed(sources.config, route) && !has(directory.routes.values(), route))
    return `The claim names the route ${JSON.stringify(route)}, which does not exist.`
  if (style !== undefined && !STYLES.has(style))
    return `The claim names the style ${JSON.stringify(style)}; it must be one of ${[...STYLES].join(', ')}.`
  return null
}

/** Clients that may reach the same, and one of them by name. */
type AccessClass = Principal & { count: number }

/** A target in a draft, and the instances that are tried before it. */
type Reachable = { readonly candidate: Candidate; readonly after: readonly string[] }

class Walk {
  readonly #input: ProofInput
  readonly #claim: Claim
  readonly #names: ReadonlySet<string>
  readonly #index: NameIndex
  readonly #found: Counterexample[] = []
  #plans = 0

  constructor(input: ProofInput, claim: Claim) {
    const config = withShadowTargets(input.sources.config)
    this.#input = { ...input, sources: { ...input.sources, config } }
    this.#claim = claim
    const { model } = claim.selector
    this.#names = model === undefined ? namesOf(input.sources) : new Set([model])
    this.#index = new NameIndex(this.#names)
  }

  *result(): Steps<Proof> {
    const classes = this.#classes()
    const suspects = yield* this.#suspects()
    for (const one of classes)
      if (!this.#isTightEnough(one.client) && this.#mayLeak(one.client)) yield* this.#walk(one, suspects)
    const counterexamples = this.#found
      .toSorted((a, b) => a.after.length - b.after.length)
      .slice(0, MAX_COUNTEREXAMPLES)
    return {
      claim: claimText(this.#claim),
      holds: counterexamples.length === 0,
      counterexamples,
      walked: {
        clients: classes.reduce((sum, { count }) => sum + count, 0),
        classes: classes.length,
        names: this.#names.size,
        plans: this.#plans,
      },
    }
  }

  /** The clients that the claim is about, in classes. */
  #classes(): readonly AccessClass[] {
    const { team, key } = this.#claim.selector
    const ids = new Set(
      [...this.#input.directory.keys.values()].filter((one) => key === one.id || key === one.name).map(({ id }) => id),
    )
    const classes = new Map<string, AccessClass>()
    for (const principal of principalsIn(this.#input)) {
      const { client } = principal
      if (team !== undefined && team !== client.team.id && team !== client.team.name) continue
      if (key !== undefined && (principal.key === null || !ids.has(client.id))) continue
      const own = this.#ownRoutes(client).length > 0 ? client.team.id : null
      const alike = JSON.stringify([client.access, client.require ?? null, client.defaultRoute, own])
      const known = classes.get(alike)
      if (known) known.count++
      else classes.set(alike, { ...principal, count: 1 })
    }
    return [...classes.values()]
  }

  /** Whether what is required of every request of the client implies the claim. */
  #isTightEnough({ require }: Client): boolean {
    const own = combined(this.#input.sources.config.require, require)
    const both = combined(own, this.#claim.require)
    return own !== null && both !== null && isSame(own, both)
  }

  /** Whether the client may use an instance that has facts which do not satisfy the claim, whatever the name. */
  #mayLeak(client: Client): boolean {
    const { sources } = this.#input
    const require = combined(sources.config.require, client.require)
    const rules = restrictionsOf(client)
    return usableInstances(sources.config).some(
      (instance) =>
        (!rules || allowsName(rules.providers, instance.id)) &&
        declaredFacts(instance).some(
          (facts) => lackIn(this.#claim.require, facts) !== null && (!require || lackIn(require, facts) === null),
        ),
    )
  }

  /** The names whose plan has a target that does not satisfy the claim, by kind of request. */
  *#suspects(): Steps<ReadonlyMap<DraftMaker, Suspects>> {
    const { sources } = this.#input
    const suspects = new Map<DraftMaker, Suspects>()
    for (const { drafting } of KINDS) {
      const collector = new SuspectCollector(this.#claim.require)
      // What no provider supports has no plan, whatever the name.
      const usual = this.#draftOf(drafting, AUTO)
      let looked = 0
      for (const name of usual.ok || usual.failure.kind !== 'unsupported' ? this.#names : []) {
        const found = this.#draftOf(drafting, name)
        if (found.ok) collector.add(name, found.value, routeNamed(sources.config, name)?.name)
        if (++looked % STEP === 0) yield
      }
      suspects.set(drafting, collector.suspects())
    }
    return suspects
  }

  *#walk(one: AccessClass, suspects: ReadonlyMap<DraftMaker, Suspects>): Steps<void> {
    const { client } = one
    const sources = this.#sourcesOf(client)
    const { selector } = this.#claim
    const rules = restrictionsOf(client)
    const routes = this.#ownRoutes(client).filter((name) => (selector.model ?? name) === name)
    const own = rules && selector.model === undefined ? namesAllowedBy(sources, rules) : []
    const require = combined(sources.config.require, client.require)
    const reach = new ClientReach(rules, require, this.#index)
    for (const { styles, drafting } of KINDS) {
      const style = styles.find((it) => (selector.style ?? it) === it && (!rules || allowsName(rules.styles, it)))
      if (style === undefined) continue
      const request = { client, require, style, isChat: drafting === draftPlan, names: NO_NAMES }
      const { groups = [], unnamed = [] } = suspects.get(drafting) ?? {}
      const ruled = this.#ruledRoutes
      const isReplaced = client.defaultRoute !== null || ruled.length > 1
      const names = new Set([...(isReplaced ? unnamed : []), ...own, ...routes])
      for (const group of groups) for (const name of reach.namesIn(group)) names.add(name)
      for (const name of names) {
        if (this.#found.length >= 10 * MAX_COUNTEREXAMPLES) return
        for (const route of ruled) this.#check({ ...request, model: name, ruled: () => route }, drafting, one)
        if (this.#plans % STEP === 0) yield
      }
    }
  }

  #check(
    request: Parameters<typeof permittedDraft>[1] & { readonly client: Client },
    drafting: DraftMaker,
    { key, rule, person }: PrincipalName,
  ): void {
    this.#plans++
    const sources = this.#sourcesOf(request.client)
    const permitted = permittedDraft(sources, request, (model) => drafting({ ...sources, model }))
    if (!permitted.ok) return
    const { draft } = permitted.value
    const { route } = this.#claim.selector
    if (route !== undefined && draft.route !== routeNamed(sources.config, route)?.name) return
    for (const { candidate, after } of reachableIn(draft)) {
      const lack = lackOf(this.#claim.require, candidate)
      if (!lack) continue
      const { instance, model, isShadow } = candidate
      const because = isShadow ? `the shadow of the route "${draft.route}"` : candidate.because
      this.#found.push({
        key,
        rule,
        person,
        team: request.client.team.name,
        name: request.model,
        style: request.style,
        provider: instance.id,
        model,
        because,
        lack: lackText(lack),
        after,
      })
      // One way for each name is enough.
      return
    }
  }

  /** Where rules may send a request that names no known model; null: no rule applies. */
  get #ruledRoutes(): readonly (string | null)[] {
    return [null, ...new Set((this.#input.sources.config.rules ?? []).map(({ route }) => route))]
  }

  /** The names that the team of a client has given to routes of its own. */
  #ownRoutes({ team }: Client): readonly string[] {
    return (byTeam(this.#input.directory.routes).get(team.id) ?? []).map(({ name }) => name)
  }

  /** The sources with the routes of the client's team. */
  #sourcesOf({ team }: Client): ModelSources {
    const { sources, directory } = this.#input
    return { ...sources, config: teamConfig(sources.config, directory.routes, team.id) }
  }

  #draftOf(drafting: DraftMaker, model: string): Outcome<PlanDraft> {
    return drafting({ ...this.#input.sources, model })
  }
}

/** Whether two requirements are the same. */
const isSame = (a: Require, b: Require): boolean =>
  a.retention === b.retention &&
  a.training === b.training &&
  (a.region === b.region ||
    (a.region !== null && b.region !== null && new Set(a.region).symmetricDifference(new Set(b.region)).size === 0))

/** The targets that some state of health can reach. */
export const reachableIn = ({ groups, onlyFirst, isConditional }: PlanDraft): readonly Reachable[] => {
  const places = new Map<string, Reachable>()
  const before: string[] = []
  const [first] = groups.filter(({ candidates }) => candidates.length > 0)
  // Only candidates of the provider that is first are tried; with a drawn order each of the first group may be, and with conditions
  // any.
  const isFirstFixed = first?.strategy === 'priority' && !isConditional
  const possible = isConditional ? groups.flatMap(({ candidates }) => candidates) : (first?.candidates ?? [])
  const firsts = new Set(possible.slice(0, isFirstFixed ? 1 : possible.length).map(({ instance }) => instance))
  for (const { candidates, strategy } of groups) {
    const group: string[] = []
    for (const candidate of candidates) {
      const id = modelId(candidate)
      const { isShadow = false } = candidate
      const isReached = isShadow || !onlyFirst || firsts.has(candidate.instance)
      const earlier = strategy === 'priority' ? [...before, ...group] : before
      if (isReached && !places.has(id))
        places.set(id, {
          candidate,
          after: onlyFirst || isShadow ? [] : [...new Set(earlier)].filter((one) => one !== candidate.instance.id),
        })
      // A request that does not meet the condition passes over it while it works.
      if (!candidate.when && !isShadow) group.push(candidate.instance.id)
    }
    before.push(...group)
  }
  return [...places.values()].sort((a, b) => a.after.length - b.after.length)
}
