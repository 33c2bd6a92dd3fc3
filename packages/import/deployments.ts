/** Providers and routes from single deployments: one model of one provider, with one key. */
import type { RowCollector } from './imported.ts'
import type { SourceMembers, SourcePath } from './source.ts'

/** A deployment, as all sources describe one. Texts are those of `headgate.yaml`. */
export type Deployment = {
  /** The name that clients send; null: no route of its own, the provider alone is configured. */
  readonly route: string | null
  readonly kind: string
  readonly baseUrl: string | undefined
  readonly variables: Readonly<Record<string, string>>
  /** Where it processes data, as the source declares it. */
  readonly region?: string
  readonly key: { readonly text: string; readonly literal: boolean; readonly path: SourcePath | null } | undefined
  /** Null: any model of the provider. */
  readonly model: string | null
  readonly weight: number
  /** Smaller comes first; targets of a larger one are fallbacks. */
  readonly order: number
  /** Further members of its target. */
  readonly settings?: SourceMembers
  /** Conditions of which one must hold: its target is written once for each. Absent: there is none. */
  readonly conditions?: readonly SourceMembers[]
}

type KeyUse = { readonly path: SourcePath | null; readonly literal: boolean; readonly weights: Set<number> }

/** A provider with all that its deployments use. */
export type ProviderDraft = {
  readonly name: string
  readonly first: Deployment
  readonly models: Set<string>
  readonly keys: Map<string, KeyUse>
  /** Keys by model. */
  readonly keysOf: Map<string, Set<string>>
  hasWildcard: boolean
}

type DraftTarget = {
  readonly provider: string
  readonly model: string
  readonly weight: number
  readonly settings: SourceMembers
}
export type RouteDraft = {
  readonly targets: readonly DraftTarget[]
  readonly fallback: readonly DraftTarget[]
  /** The target of copies of its requests. */
  readonly shadow?: DraftTarget
}

const MAX_NAME = 48

/** A valid provider name made of a text; empty if nothing of it can be used. */
const validName = (text: string): string =>
  text
    .toLowerCase()
    .replace(/[^a-z0-9.-]+/g, '-')
    .replace(/^[.-]+|[.-]+$/g, '')
    .slice(0, MAX_NAME)

const REFERENCE = /^\$\{(.+?)(?:_API_BASE|_BASE_URL|_API_URL|_ENDPOINT|_URL)?\}/

/** What distinguishes a provider from others of its kind: its region, its host, or the variable with its address. */
const labelOf = ({ kind, baseUrl, variables, region = '' }: Deployment): string => {
  const variable = REFERENCE.exec(baseUrl ?? '')?.[1]
  if (variable !== undefined) return validName(variable)
  if (baseUrl !== undefined && URL.canParse(baseUrl)) {
    const { hostname, host } = new URL(baseUrl)
    return validName(kind === 'openai-compatible' ? host : (hostname.split('.')[0] ?? ''))
  }
  return validName(variables.region ?? variables.location ?? region)
}

/** `reserved`: names that cannot be given to servers, because their variables belong to known providers. */
const nameFor = (one: Deployment, taken: ReadonlySet<string>, reserved: ReadonlySet<string>): string => {
  const generic = one.kind === 'openai-compatible'
  if (!generic && !taken.has(one.kind)) return one.kind
  const label = labelOf(one)
  const wanted = generic ? label || 'server' : `${one.kind}${label === '' ? '-2' : `-${label}`}`
  const name = reserved.has(wanted) ? `${wanted}-server` : wanted
  if (!taken.has(name)) return name
  for (let number = 2; ; number++) if (!taken.has(`${name}-${number}`)) return `${name}-${number}`
}

const identityOf = ({ kind, baseUrl, variables, region }: Deployment): string =>
  JSON.stringify([kind, baseUrl ?? null, Object.entries(variables).sort(), region ?? null])

/** Joins deployments with equal kind, address, variables and region to one provider. */
export const draftProviders = (
  deployments: readonly Deployment[],
  reserved: ReadonlySet<string>,
): ReadonlyMap<Deployment, ProviderDraft> => {
  const drafts = new Map<string, ProviderDraft>()
  const taken = new Set<string>()
  const found = new Map<Deployment, ProviderDraft>()
  for (const one of deployments) {
    const identity = identityOf(one)
    let draft = drafts.get(identity)
    if (!draft) {
      const name = nameFor(one, taken, reserved)
      taken.add(name)
      draft = { name, first: one, models: new Set(), keys: new Map(), keysOf: new Map(), hasWildcard: false }
      drafts.set(identity, draft)
    }
    if (one.model === null) draft.hasWildcard = true
    else draft.models.add(one.model)
    if (one.key) {
      const use = draft.keys.get(one.key.text) ?? { ...one.key, weights: new Set() }
      use.weights.add(one.weight)
      draft.keys.set(one.key.text, use)
      const keys = draft.keysOf.get(one.model ?? '*') ?? new Set()
      draft.keysOf.set(one.model ?? '*', keys.add(one.key.text))
    }
    found.set(one, draft)
  }
  return found
}

/** Whether each key is used for each model, as Headgate does. */
const sharesKeys = ({ keys, keysOf }: ProviderDraft): boolean =>
  [...keysOf.values()].every(({ size }) => size === keys.size)

/** Whether each key has one weight. */
const hasClearWeights = ({ keys }: ProviderDraft): boolean =>
  [...keys.values()].every(({ weights }) => weights.size === 1)

/** The provider's entry in `headgate.yaml`. */
const providerEntry = (draft: ProviderDraft): SourceMembers => {
  const { name, first, models, keys, hasWildcard } = draft
  const weighted = keys.size > 1 && hasClearWeights(draft)
  const entries = [...keys].map(([value, { weights }]) => {
    const [weight = 1] = weights
    return weighted && weight !== 1 ? { value, weight } : value
  })
  return {
    ...(name !== first.kind && { kind: first.kind }),
    ...(first.baseUrl !== undefined && { baseUrl: first.baseUrl }),
    ...(Object.keys(first.variables).length > 0 && { variables: first.variables }),
    ...(entries.length > 0 && { keys: entries }),
    ...(first.region !== undefined && { facts: { region: first.region } }),
    ...(!hasWildcard && models.size > 0 && { models: [...models] }),
  }
}

const targetKey = ({ provider, model, settings }: DraftTarget): string => JSON.stringify([provider, model, settings])

/** Joins targets of one provider and model with equal settings; their weights are added. */
const joined = (targets: readonly DraftTarget[]): readonly DraftTarget[] => {
  const found = new Map<string, DraftTarget>()
  for (const target of targets) {
    const name = targetKey(target)
    found.set(name, { ...target, weight: target.weight + (found.get(name)?.weight ?? 0) })
  }
  return [...found.values()]
}

/** The routes by name: deployments of the lowest order are targets, the others follow as fallbacks. */
export const draftRoutes = (drafts: ReadonlyMap<Deployment, ProviderDraft>): ReadonlyMap<string, RouteDraft> => {
  const groups = new Map<string, { readonly order: number; readonly target: DraftTarget }[]>()
  for (const [{ route, model, weight, order, settings = {}, conditions }, { name }] of drafts) {
    if (route === null || model === null) continue
    const group = groups.get(route) ?? []
    for (const more of conditions?.map((when) => ({ when, ...settings })) ?? [settings])
      group.push({ order, target: { provider: name, model, weight, settings: more } })
    groups.set(route, group)
  }
  const routes = [...groups].map(([name, group]): readonly [string, RouteDraft] => {
    const least = Math.min(...group.map(({ order }) => order))
    const targets = joined(group.filter(({ order }) => order === least).map(({ target }) => target))
    const later = group.filter(({ order }) => order !== least).toSorted((one, other) => one.order - other.order)
    return [name, { targets, fallback: joined(later.map(({ target }) => target)) }]
  })
  return new Map(routes)
}

/** A target as `headgate.yaml` has it. */
const targetEntry = ({ provider, model, weight, settings }: DraftTarget, weighted: boolean): unknown => {
  const more = { ...(weighted && weight !== 1 && { weight }), ...settings }
  return Object.keys(more).length > 0 ? { provider, model, ...more } : `${provider}/${model}`
}

/** Shadows of a source that states neither a share nor an amount: all requests, up to these dollars a day. */
export const SHADOW_RULES = { percent: 100, budget: '10.00' } as const

/** Adds the targets of other routes to the fallbacks of a route. */
export const withFallbacks = (route: RouteDraft, others: readonly RouteDraft[]): RouteDraft => {
  const own = new Set(route.targets.map(targetKey))
  const added = others.flatMap(({ targets, fallback }) => [...targets, ...fallback])
  const further = added.filter((target) => !own.has(targetKey(target)))
  return { ...route, fallback: joined([...route.fallback, ...further]) }
}

/** The routes as `headgate.yaml` has them. */
export const routeEntries = (
  routes: ReadonlyMap<string, RouteDraft>,
  cache: SourceMembers | undefined,
): SourceMembers =>
  Object.fromEntries(
    [...routes].map(([name, { targets, fallback, shadow }]) => [
      name,
      {
        targets: targets.map((one) => targetEntry(one, true)),
        ...(fallback.length > 0 && { fallback: fallback.map((one) => targetEntry(one, false)) }),
        ...(shadow && { shadow: { to: targetEntry(shadow, false), ...SHADOW_RULES } }),
        ...(cache && { cache }),
      },
    ]),
  )

/** The providers as `headgate.yaml` has them. */
export const providerEntries = (drafts: ReadonlyMap<Deployment, ProviderDraft>): SourceMembers =>
  Object.fromEntries([...drafts.values()].map((draft) => [draft.name, providerEntry(draft)]))

/** Rows of the keys, which depend on what else uses the provider. */
export const noteKeys = (drafts: ReadonlyMap<Deployment, ProviderDraft>, rows: RowCollector): void => {
  for (const [{ key }, draft] of drafts) {
    if (!key?.path) continue
    const differences = [
      ...(key.literal ? [`a literal key: it is now the variable ${key.text}`] : []),
      ...(sharesKeys(draft) ? [] : ['each key of the provider is used for all its models']),
      ...(draft.keys.size > 1 && !hasClearWeights(draft) ? ['keys share the load equally'] : []),
    ]
    const to = `providers.${draft.name}.keys`
    if (differences.length === 0) rows.taken(key.path, to)
    else rows.changed(key.path, to, differences.join('; '))
  }
}

const isOpenai = (base: string): boolean => URL.canParse(base) && /(?:^|\.)openai\.com$/.test(new URL(base).hostname)

/** The kind of a provider at an address: OpenAI elsewhere is a server with its API, which receives no key of OpenAI. */
export const kindAt = (kind: string, baseUrl: string | undefined): string =>
  kind === 'openai' && baseUrl !== undefined && !isOpenai(baseUrl) ? 'openai-compatible' : kind

/** Whether the loader accepts the address; one of a variable is checked when it is loaded. */
export const isAddress = (text: string): boolean => {
  if (text.startsWith('${')) return true
  if (!URL.canParse(text)) return false
  const { protocol, username, password, search, hash } = new URL(text)
  return /^https?:$/.test(protocol) && `${username}${password}${search}${hash}` === ''
}
