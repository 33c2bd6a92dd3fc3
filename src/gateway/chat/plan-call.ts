/** Plans one chat call: parses its request, starts its turn, chooses its targets, and passes it through the list of guards. */

import type { ChatRequest } from '../../core/chat.ts'
import type { Config } from '../../core/config.ts'
import { bad, type Failure, fail, type Outcome } from '../../core/failure.ts'
import type { AnswerFollower, Guard } from '../../core/guard.ts'
import type { IncomingRequest, ResponseWriter } from '../../core/http-exchange.ts'
import type { ClientProtocol } from '../../core/protocol.ts'
import type { Plan } from '../../core/target.ts'
import { chatBypass } from '../../policy/response-cache.ts'
import { overriddenSettings } from '../../policy/routing/override.ts'
import { configFor } from '../../policy/routing/team-routes.ts'
import { chatShape } from '../../policy/routing/when.ts'
import { type Eventual, whenKnown } from '../accounts/authority.ts'
import { textDemand } from '../accounts/demand.ts'
import type { RunningCall } from '../call/call-lifecycle.ts'
import { writeAndRecordError } from '../call/recorder.ts'
import { asReceived, type ChatParsing, chatWithTexts, passGuards } from '../guards/check-request.ts'
import { guardsFor, revisionsOf } from '../guards/choose-guards.ts'
import { answerGuardsOf } from '../guards/guarded-answer.ts'
import { conversationOf, type ModelCallDeps, planFor, rememberedPlan, reportsSwitches } from '../routing/planner.ts'
import { announceRetirement } from '../routing/retirement-headers.ts'
import { statedSwitch } from '../routing/switches.ts'
import { type CacheDeps, cacheGuard } from '../sharing/cached-call.ts'
import type { InboundRequest } from '../upstream/outbound-request.ts'
import { parseInTurns } from '../upstream/parse-request.ts'
import { loopBrake } from './loop-brake.ts'
import { costGuard } from './stated-cost.ts'
import type { StoredTurn } from './turn.ts'

/** A turn of a stored conversation, and the writer that stores its answer. */
export type StartedTurn = { readonly turn: StoredTurn; readonly responseWriter: ResponseWriter }

/** One chat call of a client. */
export type ChatCall = {
  readonly protocol: ClientProtocol
  readonly received: IncomingRequest
  readonly responseWriter: ResponseWriter
  /** Makes the request a turn of a stored conversation. Absent: the protocol has no stored conversations. */
  readonly startTurn?: (inbound: InboundRequest) => Promise<Outcome<StartedTurn>>
}

/** The dependencies of chat calls. */
export type ChatDeps = ModelCallDeps &
  CacheDeps & {
    /** Follows an answer whose request is to be copied; null: it is not. Absent: no route has a shadow. */
    readonly shadow?: (call: PlannedCall) => AnswerFollower | null
  }

export type CallContext = ChatCall & RunningCall & { readonly gateway: ChatDeps }

/** A call that was parsed and has a plan. */
export type PlannedCall = CallContext & {
  readonly config: Config
  readonly plan: Plan
  /** The client's own request. */
  readonly request: ChatRequest
  /** The same, with the earlier turns of a stored conversation. */
  readonly inbound: InboundRequest
  /** What targets receive: the same, with the texts that guards have replaced. */
  readonly sent: InboundRequest
  /** The list through which the call passes, in order. */
  readonly guards: readonly Guard[]
  readonly turn: StoredTurn | undefined
  /** Under which its target is remembered; null: it is not. */
  readonly conversation: string | null
}

/**
 * Parses the request, starts its turn, plans its targets, and passes it through the list of guards. Null: the call has been
 * answered, by an error or from the cache.
 */
export const planCall = (call: CallContext): Eventual<PlannedCall | null> => {
  const { gateway, protocol, received } = call
  const config = configFor(gateway, gateway.config(), received.client)
  const parsing = parseInTurns(protocol, received, config.settings.limit, gateway.world.turn)
  return whenKnown(parsing, (parsed) => planParsed(call, config, parsed))
}

const planParsed = (
  call: CallContext,
  config: Config,
  parsed: Outcome<InboundRequest>,
): Eventual<PlannedCall | null> => {
  const { recorder, startTurn } = call
  if (!parsed.ok) {
    writeAndRecordError(call, parsed.failure, null)
    return null
  }
  const { request } = parsed.value
  const { model, stream } = request
  const { headers } = call.received
  const blocked = recorder.received({ model, stream, members: parsed.value.body, headers, request })
  if (blocked) {
    writeAndRecordError(call, blocked, null)
    return null
  }
  return startTurn
    ? startTurn(parsed.value).then((started) => planTurn(call, config, parsed.value, started))
    : planTurn(call, config, parsed.value, undefined)
}

/** `started`: the turn of a stored conversation. */
const planTurn = (
  call: CallContext,
  config: Config,
  parsed: InboundRequest,
  started: Outcome<StartedTurn> | undefined,
): Eventual<PlannedCall | null> => {
  const { gateway, protocol, received, recorder } = call
  const { request } = parsed
  if (started?.ok === false) {
    writeAndRecordError(call, started.failure, null)
    return null
  }
  const { turn, responseWriter } = started?.value ?? { turn: undefined, responseWriter: call.responseWriter }
  const { client, headers } = received
  const own = turn?.inbound ?? parsed
  const shape = chatShape(own.request)
  const { session } = recorder.account
  const wanted = { model: request.model, style: protocol.style, client, headers, members: parsed.body, shape, session }
  const made = planFor(gateway, config, wanted)
  if (!made.ok) {
    writeAndRecordError({ ...call, responseWriter }, made.failure, null)
    return null
  }
  const stated = statedSwitch(headers)
  if (!stated.ok) {
    writeAndRecordError({ ...call, responseWriter }, stated.failure, null)
    return null
  }
  const reports = reportsSwitches(config)
  const conversation = conversationOf(made.value, own, client, { session, reports })
  const plan = rememberedPlan(gateway, made.value, conversation)
  announceRetirement(gateway, plan, recorder)
  const inbound = received.query === '' ? own : { ...own, query: received.query }
  const looping = loopBrake(gateway, {
    ...{ received, config, recorder },
    request: inbound.request,
    size: inbound.source.text.length,
  })
  if (looping) {
    writeAndRecordError({ ...call, responseWriter }, looping, null)
    return null
  }
  const hasStoredTurns = turn !== undefined && turn.inbound !== parsed
  const body = hasStoredTurns ? null : received.body
  recorder.account.describe(textDemand({ request: inbound.request, members: inbound.body, body, plan }))
  recorder.account.describeSpan(inbound.request.settings)
  const drilled = config.settings.drill.shapes ? commonRoute(config, plan) : undefined
  if (drilled !== undefined) recorder.account.noteShape({ request: inbound.request, headers }, drilled)
  const planned = { ...call, responseWriter, config, plan, request, inbound, sent: inbound, turn, conversation }
  const guards = guardsOf(planned, parsed, responseWriter !== call.responseWriter)
  const hidden = refusedBy(guards, request)
  if (hidden) {
    writeAndRecordError(planned, hidden, null)
    return null
  }
  return guards.length === 0 ? { ...planned, guards } : guarded({ ...planned, guards })
}

/** The route of a plan, if it is one of the file: those of teams are not drilled. */
const commonRoute = ({ routes }: Config, { route }: Plan): string | undefined => {
  const found = route === undefined ? undefined : routes.get(route)
  return found !== undefined && found.team === undefined ? route : undefined
}

/** Probabilities of tokens have the text of an answer again, which guards that read it would have to change too. */
const refusedBy = (guards: readonly Guard[], { settings: { logprobs, topLogprobs } }: ChatRequest): Failure | null => {
  const asked = logprobs?.value === true ? logprobs : (topLogprobs?.value ?? 0) > 0 ? topLogprobs : undefined
  if (!asked || !guards.some((guard) => 'readsAnswer' in guard && guard.readsAnswer)) return null
  return fail(
    'unsupported',
    `The parameter '${asked.at}' is not available, because a guard reads the answer. Leave it out.`,
    {
      param: asked.at,
    },
  )
}

/** `isRecorded`: the answer is recorded for later turns. */
const guardsOf = (
  call: Omit<PlannedCall, 'guards'>,
  { source, body }: InboundRequest,
  isRecorded: boolean,
): readonly Guard[] => {
  const { gateway, protocol, received, config, plan, recorder, request, turn } = call
  const { style } = protocol
  const chosen = guardsFor(gateway, { received, plan, style, recorder })
  const ownBody = { source: source.text, body }
  // A turn that is stored has an ID of its own, which no other request may receive. Turns are stored by default.
  const stored = isRecorded || (request.settings.store?.value ?? turn !== undefined)
  const cache = cacheGuard(gateway, {
    received,
    config,
    plan,
    style,
    facts: protocol,
    recorder,
    reply: call,
    request: ownBody,
    revisions: revisionsOf(chosen),
    bypass: (rules) => chatBypass({ ...ownBody, request: asSentFirst(request, plan), stored }, rules),
  })
  const { statesCost } = protocol
  const isAsked = statesCost && request.stream && received.headers('x-headgate-metadata') === 'body'
  const cost = isAsked ? costGuard(statesCost, recorder.account) : null
  return cache || cost ? [...chosen, ...(cache ? [cache] : []), ...(cost ? [cost] : [])] : chosen
}

/** The request as the first target receives it. */
const asSentFirst = (request: ChatRequest, { candidates: [first] }: Plan): ChatRequest =>
  first?.override ? { ...request, settings: overriddenSettings(request.settings, first.override) } : request

/** Null: the call has been answered. */
const guarded = async (call: PlannedCall): Promise<PlannedCall | null> => {
  const { gateway, protocol, received, config, guards, inbound } = call
  const parsing = { protocol, path: received.path, limits: config.settings.limit, turn: gateway.world.turn }
  const own = await asReceived(inbound, parsing)
  const sent = await passGuards({
    guards,
    request: inbound,
    own,
    reply: call,
    change: (replace) => sentWith(call, own, { replace, parsing }),
  })
  return sent && { ...call, sent: answerGuardsOf(guards) ? { ...sent, hasGuardedAnswer: true } : sent }
}

/** What targets receive. A stored turn keeps the texts that the client knows. */
const sentWith = async (
  { turn }: PlannedCall,
  own: InboundRequest,
  { replace, parsing }: { readonly replace: ReadonlyMap<string, string>; readonly parsing: ChatParsing },
): Promise<Outcome<InboundRequest>> => {
  const sent = await chatWithTexts(own, replace, parsing)
  if (!turn || !sent.ok) return sent
  const failure = await turn.send(sent.value, (continuation) => chatWithTexts(continuation, replace, parsing))
  return failure ? bad(failure) : sent
}
