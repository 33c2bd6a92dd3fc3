/**
 * `POST /v1/route`: explains where a request would be routed, without sending it. Uses the real plan, requests and
 * health.
 */

import type { Config } from '../../core/config.ts'
import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import type { IncomingRequest } from '../../core/http-exchange.ts'
import { isList, isObject, type Json, type JsonObject, parseObject } from '../../core/json.ts'
import { formatDollars } from '../../core/money.ts'
import type { ClientProtocol } from '../../core/protocol.ts'
import type { ProviderKey } from '../../core/provider.ts'
import type { Candidate, Plan, Target } from '../../core/target.ts'
import { type Assumption, assumedConfig, assumedRefusal, NO_ASSUMPTION } from '../../policy/routing/assumption.ts'
import { canaryShare } from '../../policy/routing/canary.ts'
import { overrideText } from '../../policy/routing/override.ts'
import { explainPlan as explained } from '../../policy/routing/plan.ts'
import { draftEmbeddings } from '../../policy/routing/plan-embeddings.ts'
import { copyConfig, uncopied } from '../../policy/routing/shadow.ts'
import { chatShape, conditionText, plainShape } from '../../policy/routing/when.ts'
import { openaiShape } from '../../protocols/embeddings/openai.ts'
import { clientProtocolByStyle, recognised } from '../../protocols/index.ts'
import { type CallDemand, textDemand, tokensOfBody } from '../accounts/demand.ts'
import type { ModelCallDeps } from '../routing/planner.ts'
import { conversationOf, keyOrder, planFor, rememberedPlan, reportsSwitches } from '../routing/planner.ts'
import { explainSwitch } from '../routing/switches.ts'
import { type InboundRequest, isCompatible, prepareRequest } from '../upstream/outbound-request.ts'
import { type ParsedEmbeddings, parseEmbeddings } from '../upstream/parse-embeddings.ts'
import { parseInTurns, parseRequest } from '../upstream/parse-request.ts'
import { EMBEDDINGS, prepareEmbeddings } from './embeddings.ts'

/** The plan for a request of a client, with the present state of each candidate. */
export const explain = (gateway: ModelCallDeps, received: IncomingRequest): Outcome<JsonObject> => {
  const parsed = parseOnce(gateway, { received, audience: 'client' })
  return parsed.ok ? parsed.value(NO_ASSUMPTION) : parsed
}

/** The same for a call of a client: it counts in the client's limits as a request, and a large body is parsed in pieces. */
export const explainCall = async (gateway: ModelCallDeps, received: IncomingRequest): Promise<Outcome<JsonObject>> => {
  const account = gateway.accounts.open(received, ROUTE)
  try {
    const limited = await account.admission.enter()
    if (limited) return bad(limited)
    if (isEmbeddings(received)) {
      const blocked = account.identify({ members: parseObject(received.body.text) ?? {}, headers: received.headers })
      return blocked ? bad(blocked) : explain(gateway, received)
    }
    const style = styleOf(received)
    if (!style.ok) return style
    const { world } = gateway
    const parsed = await parseInTurns(style.value, received, gateway.config().settings.limit, world.turn)
    if (!parsed.ok) return parsed
    const blocked = account.identify({ members: parsed.value.body, headers: received.headers })
    if (blocked) return bad(blocked)
    return explainText(gateway, { received, audience: 'client' }, parsed.value, NO_ASSUMPTION)
  } finally {
    account.close()
  }
}

/** The kind of call. */
const ROUTE = 'route'

/** Who asks: only operators see the reasons that an operator has written for a decision. */
export type Asking = { readonly received: IncomingRequest; readonly audience: 'client' | 'operator' }

/** The plan of a parsed request. `model`: instead of the one that it names. */
type Explain = (assume: Assumption, model?: string) => Outcome<JsonObject>

/** Parses a request whose plan is explained several times, such as for each route. */
export const parseOnce = (gateway: ModelCallDeps, asking: Asking): Outcome<Explain> => {
  const { received } = asking
  if (isEmbeddings(received)) return parseForEmbeddings(gateway, asking)
  const style = styleOf(received)
  if (!style.ok) return style
  const protocol = style.value
  const parsed = parseRequest(protocol, received, gateway.config().settings.limit)
  if (!parsed.ok) return parsed
  const inbound = parsed.value
  return good((assume, model) => {
    const request = model === undefined ? inbound.request : { ...inbound.request, model }
    return explainText(gateway, asking, { ...inbound, request }, assume)
  })
}

const explainText = (
  gateway: ModelCallDeps,
  { received, audience }: Asking,
  inbound: InboundRequest,
  assume: Assumption,
): Outcome<JsonObject> => {
  const { protocol } = inbound
  const config = assumedConfig(gateway.config(), assume)
  const { client, headers } = received
  const wanted = {
    model: inbound.request.model,
    style: protocol.style,
    client,
    headers,
    members: inbound.body,
    shape: chatShape(inbound.request),
    isExpected: true,
  }
  const planned = planFor(gateway, config, wanted)
  if (!planned.ok) return planned
  const { request, body: members } = inbound
  const session = gateway.accounts.sessionOf(client, headers, members)
  const reports = reportsSwitches(config)
  const conversation = conversationOf(planned.value, inbound, client, { session, reports })
  const known = reports && conversation !== null ? gateway.health.sticky.caches.of(conversation) : null
  const plan = rememberedPlan(gateway, planned.value, conversation)
  const keysOf = keyOrder(gateway, config, inbound, { session, sticky: plan.sticky })
  const states = keyStates(gateway, config, assume, { candidates: plan.candidates, keysOf, audience })
  const demand = textDemand({ request, members, body: received.body, plan })
  const switched = known && {
    ...{ known, keysOf, candidates: plan.candidates },
    size: inbound.source.text.length,
    isOperator: audience === 'operator',
  }
  const detailsOf = (candidate: Candidate): JsonObject => ({
    ...(audience === 'operator' && candidate.when && { when: conditionText(candidate.when) }),
    ...(audience === 'operator' && candidate.override && { override: overrideText(candidate.override) }),
    ...canaryOf(gateway, config, { candidate, route: plan.route }),
    ...endOf(gateway, candidate),
    ...compatibility(gateway, inbound, candidate),
    ...(plan.sticky?.candidate === candidate && { cached: true }),
    ...(switched && explainSwitch(gateway, switched, candidate)),
    cost_estimate: costOf(gateway, received, demand, candidate),
    keys: states(candidate),
  })
  const shown = explained(inbound.request.model, plan, detailsOf)
  // Clients see nothing of shadows.
  const shadow = audience === 'operator' ? shadowOf(gateway, config, { wanted, plan, inbound }) : {}
  return good({ ...shown, ...shadow, style: protocol.style })
}

type ShadowedRequest = {
  readonly wanted: Parameters<typeof planFor>[2]
  readonly plan: Plan
  readonly inbound: InboundRequest
}

/** The shadow of a route, and why the request has no copy, as far as it and the target decide. */
const shadowOf = (gateway: ModelCallDeps, config: Config, { wanted, plan, inbound }: ShadowedRequest): JsonObject => {
  const route = plan.route === undefined ? undefined : config.routes.get(plan.route)
  if (!route?.shadow) return {}
  const { target, percent } = route.shadow
  const planned = planFor(gateway, copyConfig(config, route), wanted)
  const candidate = planned.ok ? planned.value.candidates.find((one) => one.isShadow) : undefined
  const leftOut = uncopied(inbound.request, inbound.source.text.length, false) ?? (candidate ? null : 'forbidden')
  const model = candidate?.model ?? target.model ?? null
  return { shadow: { provider: target.provider, model, percent, left_out: leftOut } }
}

/** Of the canary of a route: its state, and the percentage of sessions that it serves. */
const canaryOf = (
  { health }: ModelCallDeps,
  { routes }: Config,
  { candidate, route = '' }: { readonly candidate: Candidate; readonly route: string | undefined },
): JsonObject => {
  const rules = candidate.isCanary && routes.get(route)?.canary
  if (!rules) return {}
  const state = health.canaries.stateOf(route)
  return { canary: { status: state.status, share: canaryShare(rules, state) } }
}

/** When the model ends, and what replaces it. */
const endOf = ({ catalogue, health }: ModelCallDeps, candidate: Candidate): JsonObject => {
  const end = health.retirements.of(catalogue, candidate)
  if (!end) return {}
  return { retires: new Date(end.at).toISOString(), ...(end.successor !== undefined && { successor: end.successor }) }
}

/** What an attempt is estimated to cost, in US dollars; null: the price is unknown. */
const costOf = (
  { accounts, catalogue, health }: ModelCallDeps,
  received: IncomingRequest,
  demand: CallDemand,
  candidate: Candidate,
): string | null => {
  const modelMaximum = health.limits.factsOf(catalogue, candidate)?.maxOutputTokens
  const nano = accounts.estimate(received, demand, { candidate, modelMaximum })
  return nano === null ? null : formatDollars(nano)
}

const parseForEmbeddings = (gateway: ModelCallDeps, { received, audience }: Asking): Outcome<Explain> => {
  const { body, client, headers } = received
  const parsed = parseEmbeddings(openaiShape, { body }, gateway.config().settings.limit)
  if (!parsed.ok) return parsed
  const asked = parsed.value.request.model
  return good((assume, model = asked) =>
    explainEmbeddings(gateway, parsed.value, { model, client, headers, assume, audience }),
  )
}

type ExplainedEmbeddings = Pick<Asking, 'audience'> & {
  readonly model: string
  readonly client: IncomingRequest['client']
  readonly headers: IncomingRequest['headers']
  readonly assume: Assumption
}

const explainEmbeddings = (
  gateway: ModelCallDeps,
  parsed: ParsedEmbeddings,
  { model, client, headers, assume, audience }: ExplainedEmbeddings,
): Outcome<JsonObject> => {
  const config = assumedConfig(gateway.config(), assume)
  const plan = planFor(gateway, config, {
    model,
    style: EMBEDDINGS,
    client,
    headers,
    members: parsed.body,
    shape: plainShape(() => tokensOfBody(parsed.source)),
    drafting: draftEmbeddings,
    isExpected: true,
  })
  if (!plan.ok) return plan
  const keysOf = keyOrder(gateway, config, null)
  const states = keyStates(gateway, config, assume, { candidates: plan.value.candidates, keysOf, audience })
  const detailsOf = (candidate: Candidate): JsonObject => {
    const prepared = prepareEmbeddings(parsed, candidate)
    return {
      ...endOf(gateway, candidate),
      fit: prepared?.unfit.length === 0,
      style: EMBEDDINGS,
      unfit_for: prepared?.unfit ?? [],
      dropped: prepared?.dropped ?? [],
      keys: states(candidate),
    }
  }
  return good({ ...explained(model, plan.value, detailsOf), style: EMBEDDINGS })
}

type PlannedKeys = Pick<Asking, 'audience'> & {
  readonly candidates: readonly Candidate[]
  readonly keysOf: (candidate: Candidate) => Iterable<ProviderKey>
}

/**
 * The keys of a candidate, and whether each may be tried now. As for a request, those with an open circuit are the last
 * resort: if another one is ready, they may not.
 */
const keyStates = (
  { health }: ModelCallDeps,
  { settings }: Config,
  assume: Assumption,
  { candidates, keysOf, audience }: PlannedKeys,
) => {
  const isReady = (target: Target) =>
    assumedRefusal(assume, target) === null && health.peek(target, settings, 'normal') === null
  const isAnyReady = candidates.some((candidate) => [...keysOf(candidate)].some((key) => isReady({ candidate, key })))
  return (candidate: Candidate): readonly Json[] =>
    [...keysOf(candidate)].map((key): Json => {
      const assumed = assumedRefusal(assume, { candidate, key })
      if (assumed) return { id: key.id, may_be_tried: false, because: assumed, until: null }
      const refusal = health.peek({ candidate, key }, settings, isAnyReady ? 'normal' : undefined)
      return {
        id: key.id,
        may_be_tried: refusal === null,
        ...(refusal && { because: refusal.why, until: health.iso(refusal.until) }),
        ...(audience === 'operator' && refusal?.decision !== undefined && { reason: refusal.decision }),
      }
    })
}

/** The parts of the request that the candidate can and cannot carry. */
const compatibility = (
  { catalogue, health }: ModelCallDeps,
  inbound: InboundRequest,
  candidate: Candidate,
): JsonObject => {
  const lacking = new Set(health.refusals.protocolsOf(candidate.instance))
  const prepared = prepareRequest(inbound, candidate, health.limits.factsOf(catalogue, candidate), lacking)
  if (!prepared) return { fit: false, unfit_for: [], only_without: [], doubts: [] }
  return {
    fit: isCompatible(prepared),
    style: prepared.protocol.style,
    unfit_for: prepared.unfit,
    only_without: prepared.droppable,
    doubts: prepared.doubts.map((doubt) => ({ ...doubt })),
    dropped: prepared.dropped,
  }
}

/** The API style of the body: from the query, or from members that only one style has. The default is chat completions. */
const styleOf = ({ body, query, headers }: IncomingRequest): Outcome<ClientProtocol> => {
  const style = new URLSearchParams(query).get('style')
  if (style !== null) {
    const protocol = clientProtocolByStyle.get(style)
    if (protocol) return good(protocol)
    const names = [...clientProtocolByStyle.keys(), EMBEDDINGS].join(', ')
    return bad(fail('invalid_value', `Unknown \`style\` in the query. It must be one of ${names}.`, { param: 'style' }))
  }
  // A body that is not an object counts as chat, whose decoder reports the error.
  return good(recognised(parseObject(body.text) ?? {}, headers))
}

/** The input of embeddings is a list of texts or tokens; the input of a response has items. */
const isEmbeddings = ({ body, query }: IncomingRequest): boolean => {
  const style = new URLSearchParams(query).get('style')
  if (style !== null) return style === EMBEDDINGS
  const value = parseObject(body.text)
  if (value?.input === undefined) return false
  const isListed = isList(value.input) && value.input.length > 0 && !value.input.some(isObject)
  return isListed || value.encoding_format !== undefined || value.dimensions !== undefined
}
