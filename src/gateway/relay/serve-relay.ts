/** Serves the endpoints that are routed and not translated (`core/relay.ts`): parse, plan, route, answer, record. */
import type { IncomingRequest, RequestBody, ResponseWriter } from '../../core/http-exchange.ts'
import { RELAYS, type RelayName, type RelayRow } from '../../core/relay.ts'
import type { Plan } from '../../core/target.ts'
import { relayDrafts } from '../../policy/routing/plan-relay.ts'
import { plainShape } from '../../policy/routing/when.ts'
import { protocols } from '../../protocols/index.ts'
import type { Eventual } from '../accounts/authority.ts'
import { relayDemand } from '../accounts/demand.ts'
import { type OngoingAnswer, type RunningCall, runCall } from '../call/call-lifecycle.ts'
import { recordDisconnect, writeAndRecordAnswer, writeAndRecordError } from '../call/recorder.ts'
import { passGuards } from '../guards/check-request.ts'
import { guardsFor } from '../guards/choose-guards.ts'
import { keyOrder, type ModelCallDeps, planFor } from '../routing/planner.ts'
import { routeContextOf } from '../routing/route-context.ts'
import { type Routed, route } from '../routing/router.ts'
import { isSentWhole, relayUsage } from './relay-answer.ts'
import { type PreparedRelay, RelayAttempts } from './relay-attempts.ts'
import { parseRelay, type RelayRequest } from './relay-request.ts'
import { RelayedStream } from './relayed-stream.ts'

/** Errors are encoded in OpenAI's format. */
const protocol = protocols['openai-chat']

/** One call of an endpoint. */
type RelayCall = {
  readonly name: RelayName
  readonly received: IncomingRequest<RequestBody>
  readonly responseWriter: ResponseWriter
}

/** Serves one call. */
export const serveRelay = (gateway: ModelCallDeps, { name, received, responseWriter }: RelayCall): Promise<void> =>
  runCall({ gateway, protocol, style: name, received, responseWriter }, (call) =>
    serve(gateway, { name, received }, call),
  )

const serve = async (
  gateway: ModelCallDeps,
  { name, received }: Pick<RelayCall, 'name' | 'received'>,
  call: RunningCall,
  // biome-ignore lint/suspicious/noConfusingVoidType: a call that has ended returns nothing
): Promise<OngoingAnswer | void> => {
  const { cancellation, recorder } = call
  const row: RelayRow = RELAYS[name]
  const config = gateway.config()
  const { settings } = config
  const parsed = await parseRelay(row, received, settings.limit, gateway.world.turn)
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
  recorder.account.describe(relayDemand({ members, model, plan: plan.value, units, ...tokens }))
  const request = await guarded(gateway, { name, received, call, plan: plan.value, parsed: parsed.value })
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
    if (routed.answerStream.whole !== null) return sendWhole(call, request, routed, contentType)
    const stream = new RelayedStream({
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
  readonly received: IncomingRequest<RequestBody>
  readonly call: RunningCall
  readonly plan: Plan
  readonly parsed: RelayRequest
}

/** What targets receive; null: the call has been answered. */
const guarded = (
  gateway: ModelCallDeps,
  { name, received, call, plan, parsed }: GuardableRelay,
): Eventual<RelayRequest | null> => {
  const guards = guardsFor(gateway, { received, plan, style: name, recorder: call.recorder })
  if (guards.length === 0) return parsed
  // The file of a form is audio.
  const row: RelayRow = RELAYS[name]
  const own = row.body === 'multipart' ? { ...parsed, media: ['AUDIO'] } : parsed
  return passGuards({ guards, request: parsed, own, reply: call, change: parsed.withTexts })
}

const sendWhole = (
  call: RunningCall,
  { tokens }: RelayRequest,
  routed: Routed<PreparedRelay>,
  contentType: string,
): void => {
  const { recorder } = call
  const { answerStream, permit } = routed
  permit.done()
  recorder.used(relayUsage(answerStream.usage(), tokens))
  recorder.answeredBy(routed)
  const headers = { ...recorder.answerHeaders(), 'content-type': contentType }
  writeAndRecordAnswer(call, answerStream.whole ?? '', { headers })
}

/** Types of answers. Any other could be run by a browser. */
const TYPE =
  /^(?:application\/(?:json|octet-stream|x-subrip)|text\/(?:plain|vtt|event-stream)|audio\/[a-z0-9.+-]{1,40})(?:\s*;\s*[a-z0-9_-]{1,20}="?[a-z0-9_.-]{1,40}"?){0,4}$/i

const mediaType = (type: string | undefined, isWhole: boolean): string => {
  if (type !== undefined && TYPE.test(type.trim())) return type.trim()
  return isWhole ? 'text/plain; charset=utf-8' : 'application/octet-stream'
}
