/** Serves the endpoints that are routed and not translated (`core/relay.ts`): parse, plan, route, answer, record. */
import type { Config } from '../../core/config.ts'
import { good } from '../../core/failure.ts'
import type { Guard } from '../../core/guard.ts'
import { type IncomingRequest, isTextBody, type ResponseWriter } from '../../core/http-exchange.ts'
import { RELAYS, type RelayName, type RelayRow } from '../../core/relay.ts'
import type { Plan } from '../../core/target.ts'
import { bodyBypass } from '../../policy/response-cache.ts'
import { relayDrafts } from '../../policy/routing/plan-relay.ts'
import { configFor } from '../../policy/routing/team-routes.ts'
import { plainShape } from '../../policy/routing/when.ts'
import { protocols } from '../../protocols/index.ts'
import { relayDemand } from '../accounts/demand.ts'
import { type OngoingAnswer, type RunningCall, runCall } from '../call/call-lifecycle.ts'
import { recordDisconnect, writeAndRecordAnswer, writeAndRecordError } from '../call/recorder.ts'
import { passGuards } from '../guards/check-request.ts'
import { guardsFor, revisionsOf } from '../guards/choose-guards.ts'
import { complete, discard, followed, followersOf } from '../guards/followed-answer.ts'
import { answerGuardsOf } from '../guards/guarded-answer.ts'
import { keyOrder, type ModelCallDeps, planFor } from '../routing/planner.ts'
import { announceRetirement } from '../routing/retirement-headers.ts'
import { routeContextOf } from '../routing/route-context.ts'
import { type Routed, route } from '../routing/router.ts'
import { type CacheDeps, cacheGuard } from '../sharing/cached-call.ts'
import { checkWhole } from './guarded-relay.ts'
import { isSentWhole, relayUsage } from './relay-answer.ts'
import { type PreparedRelay, RelayAttempts } from './relay-attempts.ts'
import { parseRelay, type RelayBody, type RelayRequest } from './relay-request.ts'
import { RelayedStream } from './relayed-stream.ts'

/** Errors are encoded in OpenAI's format. */
const protocol = protocols['openai-chat']

type RelayDeps = ModelCallDeps & CacheDeps

/** One call of an endpoint. */
type RelayCall = {
  readonly name: RelayName
  readonly received: IncomingRequest<RelayBody>
  readonly responseWriter: ResponseWriter
}

/** Serves one call. */
export const serveRelay = (gateway: RelayDeps, { name, received, responseWriter }: RelayCall): Promise<void> =>
  runCall({ gateway, protocol, style: name, received, responseWriter }, (call) =>
    serve(gateway, { name, received }, call),
  )

const serve = async (
  gateway: RelayDeps,
  { name, received }: Pick<RelayCall, 'name' | 'received'>,
  call: RunningCall,
  // biome-ignore lint/suspicious/noConfusingVoidType: a call that has ended returns nothing
): Promise<OngoingAnswer | void> => {
  const { cancellation, recorder } = call
  const row: RelayRow = RELAYS[name]
  const config = configFor(gateway, gateway.config(), received.client)
  const { settings } = config
  const parsed = await parseRelay(row, received.body, settings.limit, gateway.world.turn)
  if (!parsed.ok) return writeAndRecordError(call, parsed.failure, null)
  const { model, body: members, tokens, units } = parsed.value
  const isWhole = isSentWhole(row, members)
  const blocked = recorder.received({ model, stream: !isWhole, members, headers: received.headers })
  if (blocked) return writeAndRecordError(call, blocked, null)
  const plan = planFor(gateway, config, {
    model,
    style: name,
    client: received.client,
    headers: received.headers,
    members,
    shape: plainShape(() => tokens.input),
    drafting: relayDrafts[name],
  })
  if (!plan.ok) return writeAndRecordError(call, plan.failure, null)
  announceRetirement(gateway, plan.value, recorder)
  recorder.account.describe(relayDemand({ members, model, plan: plan.value, units, ...tokens }))
  const planned = { name, received, call, config, plan: plan.value, parsed: parsed.value }
  const guards = guardsOf(gateway, planned)
  const request = guards.length === 0 ? parsed.value : await guarded(guards, planned)
  if (!request) return

  gateway.activeCalls.startDeadline(gateway.world, cancellation, settings.timeout.request)
  let isOngoing = false
  try {
    const attempts = new RelayAttempts(gateway, { name, row, request, received, settings, recorder })
    const { client } = received
    const keysOf = keyOrder(gateway, config, null)
    const context = routeContextOf({ client, plan: plan.value, config, keysOf, running: call })
    const routed = await route(gateway, context, attempts)
    if (cancellation.reason?.kind === 'client_gone') {
      if (routed.ok) {
        routed.answerStream.abort()
        routed.permit.release()
      }
      return recordDisconnect(call, cancellation.reason)
    }
    if (!routed.ok) return writeAndRecordError(call, routed.failure, routed.availableIn)
    const contentType = mediaType(attempts.typeOf(routed.target), attempts.isWhole)
    if (routed.answerStream.whole !== null) return await sendWhole(call, { row, routed, request, guards, contentType })
    const stream = new RelayedStream({
      row,
      guards: answerGuardsOf(guards),
      call,
      world: gateway.world,
      routed,
      contentType,
      isEvents: contentType.startsWith('text/event-stream'),
      clientWrite: settings.timeout.clientWrite,
      tokens: request.tokens,
    })
    isOngoing = true
    stream.begin()
    return stream
  } finally {
    if (!isOngoing) cancellation.clearDeadline()
  }
}

/** A call that has a plan. */
type GuardableRelay = {
  readonly name: RelayName
  readonly received: IncomingRequest<RelayBody>
  readonly call: RunningCall
  readonly config: Config
  readonly plan: Plan
  readonly parsed: RelayRequest
}

const guardsOf = (
  gateway: RelayDeps,
  { name, received, call, config, plan, parsed }: GuardableRelay,
): readonly Guard[] => {
  const { recorder } = call
  const row: RelayRow = RELAYS[name]
  const chosen = guardsFor(gateway, { received, plan, style: name, recorder })
  if (!row.isCacheable || !isTextBody(received.body)) return chosen
  const own = { source: parsed.source.text, body: parsed.body }
  const cache = cacheGuard(gateway, {
    received: { ...received, body: received.body },
    config,
    plan,
    style: name,
    facts: NO_FACTS,
    recorder,
    reply: call,
    request: own,
    revisions: revisionsOf(chosen),
    bypass: () => bodyBypass(own),
  })
  return cache ? [...chosen, cache] : chosen
}

/** Answers repeat nothing of the call that the body does not state. */
const NO_FACTS = {}

/** What targets receive; null: the call has been answered. */
const guarded = (
  guards: readonly Guard[],
  { name, call, parsed }: Pick<GuardableRelay, 'name' | 'call' | 'parsed'>,
): Promise<RelayRequest | null> => {
  const { media }: RelayRow = RELAYS[name]
  const own = media ? { ...parsed, media: [media] } : parsed
  return passGuards({ guards, request: parsed, own, reply: call, change: parsed.withTexts })
}

/** A complete answer. */
type WholeRelay = {
  readonly row: RelayRow
  readonly routed: Routed<PreparedRelay>
  readonly request: RelayRequest
  readonly guards: readonly Guard[]
  readonly contentType: string
}

const sendWhole = async (call: RunningCall, answer: WholeRelay): Promise<void> => {
  const { row, routed, request, guards, contentType } = answer
  const { recorder, cancellation } = call
  const { answerStream, permit, target } = routed
  permit.done()
  const used = relayUsage(answerStream.usage(), request.tokens)
  recorder.used(used)
  recorder.answeredBy(routed)
  const received = { whole: answerStream.whole ?? '', body: answerStream.body }
  const answerGuards = answerGuardsOf(guards)
  const checked = answerGuards ? await checkWhole(answerGuards, row, received) : good(received.whole)
  const left = cancellation.reason?.kind === 'client_gone' ? cancellation.reason : null
  if (left || !checked.ok) recorder.account.settleAll('answered', undefined)
  if (left) return recordDisconnect(call, left)
  if (!checked.ok) return writeAndRecordError(call, checked.failure, null)
  const followers = followersOf(guards, { candidate: target.candidate, stream: null })
  const text = followed(followers, checked.value, null)
  const headers = { 'content-type': contentType }
  writeAndRecordAnswer(call, text, { headers: { ...recorder.answerHeaders(), ...headers } })
  complete(followers, { headers, used, trace: recorder.trace })
  discard(followers)
}

/** Types of answers. Any other could be run by a browser. */
const TYPE =
  /^(?:application\/(?:json|octet-stream|x-subrip)|text\/(?:plain|vtt|event-stream)|audio\/[a-z0-9.+-]{1,40})(?:\s*;\s*[a-z0-9_-]{1,20}="?[a-z0-9_.-]{1,40}"?){0,4}$/i

const mediaType = (type: string | undefined, isWhole: boolean): string => {
  if (type !== undefined && TYPE.test(type.trim())) return type.trim()
  return isWhole ? 'text/plain; charset=utf-8' : 'application/octet-stream'
}
