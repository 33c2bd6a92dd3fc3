/** Plans the targets of a request and the order of their keys, from the configuration and the current health. */
import type { Client } from '../../core/accounts.ts'
import type { CanaryRules } from '../../core/canary.ts'
import type { Config } from '../../core/config.ts'
import { REQUIRE_HEADER, type Require } from '../../core/data-policy.ts'
import { good, type Outcome } from '../../core/failure.ts'
import type { ChooseGuards } from '../../core/guard.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import type { JsonObject } from '../../core/json.ts'
import type { ProviderKey } from '../../core/provider.ts'
import type { Candidate, Plan } from '../../core/target.ts'
import { combined, requestRequire } from '../../policy/accounts/data-policy.ts'
import { restrictionsOf } from '../../policy/accounts/key-access.ts'
import { affinityOf } from '../../policy/routing/affinity.ts'
import { meetingDraft } from '../../policy/routing/allowed-plan.ts'
import { canaryShare, isDrawn, shownCanary, withCanary } from '../../policy/routing/canary.ts'
import { orderKeys } from '../../policy/routing/order.ts'
import { type PermittedDraft, permittedDraft } from '../../policy/routing/permitted-draft.ts'
import {
  draftPlan,
  hasFixedOrder,
  type OrderingInput,
  orderedPlan,
  type PlanDraft,
  type PlanInput,
} from '../../policy/routing/plan.ts'
import { statedPreferences } from '../../policy/routing/preferences.ts'
import { preferredDraft } from '../../policy/routing/preferred-plan.ts'
import type { ModelPlace } from '../../policy/routing/retirement.ts'
import {
  conversationName,
  hasChoice,
  LEAST_LENGTH,
  sessionRandom,
  stickyPlan,
} from '../../policy/routing/stickiness.ts'
import { configFor, type TeamRouteSource } from '../../policy/routing/team-routes.ts'
import { type RequestFacts, type RequestShape, unmet } from '../../policy/routing/when.ts'
import { LEAST_INPUT } from '../../policy/switching/warmth.ts'
import type { InboundRequest } from '../upstream/outbound-request.ts'
import type { RouterDeps } from './route-context.ts'

/** The dependencies of planning. */
export type Planner = Pick<RouterDeps, 'world' | 'health' | 'catalogue' | 'prices'> &
  TeamRouteSource & {
    /** The providers' own model lists as last fetched, by instance id. */
    readonly lists: () => ReadonlyMap<string, readonly string[]>
  }

/** The dependencies of a call that is planned and routed. */
export type ModelCallDeps = RouterDeps &
  Planner & {
    /** The current configuration. A request keeps the one it started with. */
    readonly config: () => Config
    /** Absent: there are no guards. */
    readonly guards?: ChooseGuards
  }

/** A cached plan for a model name. `plan`: present if it is the same for all requests. */
type CachedPlan = { readonly draft: PlanDraft; readonly plan: Plan | null }

/** The plans for one configuration. */
type PlanCache = {
  readonly lists: ReturnType<Planner['lists']>
  readonly catalogue: Planner['catalogue']
  /** By route name. Routes come from the configuration. */
  readonly routes: Map<string, CachedPlan>
  /** By other model names. Clients choose them. */
  readonly others: Map<string, CachedPlan>
}
type Drafting = (wanted: PlanInput) => Outcome<PlanDraft>
const cachesByConfig = new WeakMap<Config, Map<Drafting, PlanCache>>()

/** Limits of the cached names chosen by clients: number (the oldest is evicted) and characters of a name. */
const MAX_NAMES = 1_000
const MAX_NAME_LENGTH = 200

/** Maximum number of candidates in all cached plans, about 300 bytes each. Every plan has all providers as a last resort. */
const MAX_CANDIDATES = 200_000

/** A request as planning needs it. */
export type PlanRequest = RequiringRequest & {
  /** The model name as the client sent it. */
  readonly model: string
  /** The API style of the call. */
  readonly style: string
  /** What conditions of targets and rules read; null: any condition counts as met, for what is refused or shown before the request. */
  readonly shape: RequestShape | null
  /** The rules for the kind of model: chat (absent) or embeddings. */
  readonly drafting?: Drafting
  /** The order that is expected most often, to be shown, instead of one that is drawn for a request. */
  readonly isExpected?: boolean
  /** The ID of the session that the request names: its draws by weight and of a canary are those of the session. Absent or null: it names none. */
  readonly session?: string | null
}

/** What states the data policy of a request. `members`: its body. */
export type RequiringRequest = {
  readonly client: Pick<Client, 'access' | 'defaultRoute' | 'require' | 'id' | 'name' | 'team' | 'user' | 'tags'>
  readonly headers: HeaderLookup
  readonly members: JsonObject
}

/** What is required of the data of a request by all but its route. Fails if its own requirement is not valid. */
export const requireOf = (config: Config, { client, headers, members }: RequiringRequest): Outcome<Require | null> => {
  const own = requestRequire(headers(REQUIRE_HEADER), members)
  return own.ok ? good(combined(config.require, client.require, own.value)) : own
}

/** The plan for a request: the targets for its model name that its client may use, and that satisfy the data policy. */
export const planFor = (gateway: Planner, config: Config, wanted: PlanRequest): Outcome<Plan> => {
  const planned = planBy(gateway, config, wanted)
  const route = planned.ok && planned.value.route !== undefined ? config.routes.get(planned.value.route) : undefined
  return planned.ok && route?.canary ? good(drawCanary(gateway, planned.value, route.canary, wanted)) : planned
}

const drawCanary = (
  { health, world }: Planner,
  plan: Plan,
  rules: CanaryRules,
  { session = null, isExpected = false }: PlanRequest,
): Plan => {
  const { route = '' } = plan
  const share = canaryShare(rules, health.canaries.stateOf(route))
  if (isExpected) return shownCanary(plan, share)
  return withCanary(plan, session === null ? 100 * world.random() < share : isDrawn(`${route} ${session}`, share))
}

const planBy = (gateway: Planner, common: Config, wanted: PlanRequest): Outcome<Plan> => {
  const { model, style, client, shape, session, drafting = draftPlan, isExpected = false } = wanted
  const config = configFor(gateway, common, client)
  const required = requireOf(config, wanted)
  if (!required.ok) return required
  const isChat = drafting === draftPlan
  const stated =
    shape?.chat && config.settings.routing.requestMembers ? statedPreferences(wanted.members, shape.chat.extras) : null
  const moment = ({ stickiness }: PlanDraft): OrderingInput => {
    const now = momentOf(gateway)
    if (isExpected) return { ...now, random: null }
    return session && stickiness !== 'off' ? { ...now, random: sessionRandom(session) } : now
  }
  if (stated === null && required.value === null && isUnrestricted(client)) {
    const found = cachedPlan(gateway, config, model, drafting)
    if (!found.ok) return found
    const { plan, draft } = found.value
    const isRuled = config.rules !== undefined && isChat && draft.by === 'default'
    // A route may require something.
    if (!isRuled && !draft.isConditional && requireOfRoute(config, draft) === undefined)
      return good(plan && !isExpected ? plan : orderedPlan(draft, moment(draft)))
  }
  const sources = { config, lists: gateway.lists(), catalogue: gateway.catalogue }
  const facts = shape && { client, style, headers: wanted.headers, shape }
  const ruled = config.rules && facts ? () => ruledRoute(config, facts) : null
  const permittedBy = (name: string): Outcome<PermittedDraft> => {
    const request = { client, require: required.value, style, model: name, isChat, ruled }
    const permitted = permittedDraft(sources, request, (of) => draftOf(cachedPlan(gateway, config, of, drafting)))
    if (!permitted.ok || !facts) return permitted
    const met = meetingDraft(permitted.value.draft, facts, name)
    return met.ok ? good({ ...permitted.value, draft: met.value }) : met
  }
  const own = permittedBy(model)
  const preferred =
    own.ok && stated
      ? preferredDraft({
          ...{ stated, model, own: own.value, further: permittedBy },
          isRestricted: restrictionsOf(client) !== null,
          pricesOf: ({ instance, model: of }) =>
            gateway.prices().pricesOf({ instance, model: of, at: gateway.world.date() }),
        })
      : own
  if (!preferred.ok) return preferred
  const { draft, require } = preferred.value
  const plan = orderedPlan(draft, moment(draft))
  return good(require ? { ...plan, require } : plan)
}

const requireOfRoute = ({ routes }: Config, { route }: PlanDraft): Require | undefined =>
  route === undefined ? undefined : routes.get(route)?.require

/** The route of the first rule that a request meets; null: none. */
const ruledRoute = ({ rules = [] }: Config, facts: RequestFacts): string | null =>
  rules.find(({ when }) => unmet(when, facts) === null)?.route ?? null

const isUnrestricted = (client: PlanRequest['client']): boolean =>
  client.defaultRoute === null && restrictionsOf(client) === null

const draftOf = (found: Outcome<CachedPlan>): Outcome<PlanDraft> => (found.ok ? good(found.value.draft) : found)

const cachedPlan = (gateway: Planner, config: Config, model: string, drafting: Drafting): Outcome<CachedPlan> => {
  const { catalogue } = gateway
  const lists = gateway.lists()
  const { routes, others } = cacheFor(config, drafting, lists, catalogue)
  const isRoute = config.routes.has(model)
  const names = isRoute ? routes : others
  const known = names.get(model)
  if (known && !(known.draft.until !== undefined && known.draft.until <= gateway.world.date())) return good(known)
  const { world, health } = gateway
  const ends = { now: world.date(), of: (place: ModelPlace) => health.retirements.of(catalogue, place) }
  const drafted = drafting({ model, config, lists, catalogue, ends })
  if (!drafted.ok) return drafted
  const draft = drafted.value
  const made = { draft, plan: hasFixedOrder(draft) ? orderedPlan(draft, momentOf(gateway)) : null }
  const capacity = MAX_CANDIDATES / Math.max(1, config.instances.length)
  const limit = isRoute ? capacity : Math.min(MAX_NAMES, capacity)
  if (isRoute || model.length <= MAX_NAME_LENGTH) {
    names.set(model, made)
    const [oldest] = names.size > limit ? names.keys() : []
    if (oldest !== undefined) names.delete(oldest)
  }
  return good(made)
}

const momentOf = ({ prices, health, world }: Planner): OrderingInput => ({
  view: {
    latency: (candidate) => health.load.slowness(candidate),
    price: ({ instance, model }) => prices().blendedPrice({ instance, model, at: world.date() }),
  },
  random: world.random,
})

const cacheFor = (
  config: Config,
  drafting: Drafting,
  lists: PlanCache['lists'],
  catalogue: PlanCache['catalogue'],
): PlanCache => {
  const caches = cachesByConfig.get(config) ?? new Map<Drafting, PlanCache>()
  const known = caches.get(drafting)
  if (known && known.lists === lists && known.catalogue === catalogue) return known
  const fresh: PlanCache = { lists, catalogue, routes: new Map(), others: new Map() }
  cachesByConfig.set(config, caches.set(drafting, fresh))
  return fresh
}

/**
 * The name of a conversation; null: no target of it is remembered, because there is no choice or no vendor would cache its prompt.
 * Without a session it is derived from the beginning of the conversation. `reports`: switches between the targets are reported.
 */
export const conversationOf = (
  plan: Plan,
  { request, source }: InboundRequest,
  client: Pick<Client, 'id'>,
  { session, reports }: { readonly session: string | null; readonly reports: boolean },
): string | null => {
  const { length } = source.text
  const isFollowed = reports && session !== null && length >= LEAST_FOLLOWED && plan.candidates.length > 1
  return length < LEAST_LENGTH || !(isFollowed || hasChoice(plan))
    ? null
    : conversationName(client.id, session ?? affinityOf(request), request.model)
}

/** Characters below which a request has no prompt whose loss is reported. */
const LEAST_FOLLOWED = 2 * LEAST_INPUT

/** Whether switches are reported. */
export const reportsSwitches = ({ settings }: Config): boolean => settings.switch.act === 'report'

/** The plan with the target first that has the prompt in its cache. */
export const rememberedPlan = ({ health }: Pick<Planner, 'health'>, plan: Plan, conversation: string | null): Plan => {
  if (conversation === null || health.sticky.isEmpty) return plan
  const remembered = health.sticky.of(conversation)
  return remembered ? stickyPlan(plan, remembered) : plan
}

/**
 * Returns a candidate's keys in the order in which this request tries them. The order is computed on first use and is the
 * same for all attempts of the request. `inbound`: for prompt cache affinity; null: none. `session`: the ID of
 * the session that it names, whose requests go to one key.
 */
export const keyOrder = (
  { health, world }: Pick<RouterDeps, 'health' | 'world'>,
  { settings }: Config,
  inbound: InboundRequest | null,
  { session = null, sticky }: { readonly session?: string | null; readonly sticky?: Plan['sticky'] } = {},
): ((candidate: Candidate) => Iterable<ProviderKey>) => {
  let orders: Map<Candidate, Iterable<ProviderKey>> | null = null
  const requestNumber = settings.keyStrategy === 'round-robin' ? health.turn() : 0
  const affinity = inbound && settings.keyStrategy === 'sticky' ? (session ?? affinityOf(inbound.request)) : undefined
  return (candidate) => {
    const { instance } = candidate
    // Avoid work: a plan may have hundreds of candidates.
    if (instance.keys.length < 2) return instance.keys
    const known = orders?.get(candidate)
    if (known) return known
    const view = {
      inFlight: (key: ProviderKey) => health.load.inFlight(instance, key),
      totalInFlight: () => health.load.busy(instance),
      quotaLeft: (key: ProviderKey) => health.load.remainingLimit({ candidate, key }),
      requestNumber,
      ...(affinity !== undefined && { affinity }),
    }
    const usual = orderKeys(instance.keys, settings.keyStrategy, view, world.random)
    const keys = sticky?.candidate === candidate ? withFirst(usual, sticky.key, view.quotaLeft) : usual
    orders ??= new Map()
    orders.set(candidate, keys)
    return keys
  }
}

/** The keys with this one first, unless its quota is used up. */
const withFirst = (
  keys: Iterable<ProviderKey>,
  id: string,
  quotaLeft: (key: ProviderKey) => { readonly share: number } | undefined,
): Iterable<ProviderKey> => {
  const all = [...keys]
  const first = all.find((key) => key.id === id && key.weight > 0 && quotaLeft(key)?.share !== 0)
  return first ? [first, ...all.filter((key) => key !== first)] : all
}
