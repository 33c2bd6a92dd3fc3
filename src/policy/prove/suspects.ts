/**
 * Names whose plans have targets that do not satisfy a claim, and which of them a client may ask for. An upper bound by its lists alone,
 * in place of a plan for each client and name; the plan decides.
 */
import type { Require } from '../../core/data-policy.ts'
import { type Candidate, modelId } from '../../core/target.ts'
import { lackOf } from '../accounts/data-policy.ts'
import { parseGlob } from '../accounts/glob.ts'
import { allowsName, allowsTarget, type KeyAccessRules } from '../accounts/key-access.ts'
import type { PlanDraft } from '../routing/plan.ts'
import type { NameIndex } from './name-index.ts'

/** Names whose plans have the same targets that do not satisfy the claim. */
export type SuspectGroup = {
  readonly leaks: readonly Candidate[]
  /** Names of routes, which lists of routes select. */
  readonly routes: Set<string>
  /** Names that are those of routes in another spelling. */
  readonly aliases: Set<string>
  readonly models: Set<string>
}

/** The suspects of one kind of request. `unnamed`: names without a meaning of their own, in whose place a key may have a route. */
export type Suspects = { readonly groups: readonly SuspectGroup[]; readonly unnamed: ReadonlySet<string> }

/** Collects suspects. */
export class SuspectCollector {
  readonly #require: Require
  readonly #groups = new Map<string, SuspectGroup>()
  readonly #unnamed = new Set<string>()

  constructor(require: Require) {
    this.#require = require
  }

  /** `name`: of the draft. `route`: the name of the route that it names, if it does. */
  add(name: string, draft: PlanDraft, route: string | undefined): void {
    if (draft.by === 'default') this.#unnamed.add(name)
    const leaks = new Map<string, Candidate>()
    for (const { candidates } of draft.groups)
      for (const one of candidates) if (lackOf(this.#require, one) !== null) leaks.set(modelId(one), one)
    if (leaks.size === 0) return
    const alike = [...leaks.keys()].sort().join('\n')
    let group = this.#groups.get(alike)
    if (!group) {
      group = { leaks: [...leaks.values()], routes: new Set(), aliases: new Set(), models: new Set() }
      this.#groups.set(alike, group)
    }
    const names = route === undefined ? group.models : route === name ? group.routes : group.aliases
    names.add(name)
  }

  suspects(): Suspects {
    return { groups: [...this.#groups.values()], unnamed: this.#unnamed }
  }
}

/** `never`: no name leads there. `named`: only a name that a list of models has. */
type Reach = 'never' | 'named' | 'always'

const ANY = parseGlob('*')

/** The suspects that a client may ask for. */
export class ClientReach {
  readonly #rules: KeyAccessRules | null
  readonly #require: Require | null
  readonly #index: NameIndex
  /** With lists of models that allow every name and deny what they deny. */
  readonly #denials: KeyAccessRules | null
  readonly #known = new Map<string, Reach>()
  #named: Set<string> | null = null
  #routes: Set<string> | null = null

  constructor(rules: KeyAccessRules | null, require: Require | null, index: NameIndex) {
    this.#rules = rules
    this.#require = require
    this.#index = index
    this.#denials = rules && { ...rules, models: rules.models.map(({ denied }) => ({ allowed: [ANY], denied })) }
  }

  /** The names of a group that may lead to one of its leaks. */
  *namesIn({ leaks, routes, aliases, models }: SuspectGroup): Generator<string> {
    const reaches = leaks.map((one) => this.#reachOf(one))
    if (reaches.every((one) => one === 'never')) return
    const isNamed = !reaches.includes('always')
    const sets = [
      this.#rules && this.#rules.routes.length > 0 ? routes.intersection(this.#allowedRoutes(this.#rules)) : routes,
      aliases,
      ...(this.#rules?.routesOnly ? [] : [models]),
    ]
    for (const names of sets) yield* isNamed ? names.intersection(this.#listedNames()) : names
  }

  #reachOf(one: Candidate): Reach {
    const id = modelId(one)
    const known = this.#known.get(id)
    if (known) return known
    const target = { requested: null, provider: one.instance.id, model: one.model }
    const reach =
      this.#require && lackOf(this.#require, one) !== null
        ? 'never'
        : !this.#rules || !this.#denials || allowsTarget(this.#rules, target)
          ? 'always'
          : allowsTarget(this.#denials, target)
            ? 'named'
            : 'never'
    this.#known.set(id, reach)
    return reach
  }

  /** The names that some list of models allows. */
  #listedNames(): Set<string> {
    this.#named ??= this.#index.matching((this.#rules?.models ?? []).flatMap(({ allowed }) => allowed))
    return this.#named
  }

  #allowedRoutes({ routes }: KeyAccessRules): Set<string> {
    if (!this.#routes) {
      const some = this.#index.matching(routes[0]?.allowed ?? [])
      for (const name of some) if (!allowsName(routes, name)) some.delete(name)
      this.#routes = some
    }
    return this.#routes
  }
}
