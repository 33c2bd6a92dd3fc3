/**
 * Serves a session of OpenAI's Realtime API. Access, limits and budgets are settled, and the upstream is open, before the upgrade of the
 * client is answered: until then a failure is an HTTP status, and another key or provider is tried.
 */
import { type Failure, fail } from '../../core/failure.ts'
import type { IncomingRequest, SocketWriter } from '../../core/http-exchange.ts'
import { REALTIME } from '../../core/relay.ts'
import { realtimeDraft } from '../../policy/routing/plan-relay.ts'
import { plainShape } from '../../policy/routing/when.ts'
import { protocols } from '../../protocols/index.ts'
import { type OngoingAnswer, type RunningCall, runCall } from '../call/call-lifecycle.ts'
import { recordDisconnect, writeAndRecordError } from '../call/recorder.ts'
import { guardsFor } from '../guards/choose-guards.ts'
import { keyOrder, type ModelCallDeps, planFor } from '../routing/planner.ts'
import { routeContextOf } from '../routing/route-context.ts'
import { route } from '../routing/router.ts'
import { RealtimeAttempts } from './realtime-attempts.ts'
import { type RealtimeFacts, RealtimeResponse, responseDemand } from './realtime-response.ts'
import { RealtimeSession } from './realtime-session.ts'

/** An upgrade of a client. */
type RealtimeCall = { readonly received: IncomingRequest; readonly socket: SocketWriter }

/** Serves one session. Resolves when it is over. */
export const serveRealtime = (gateway: ModelCallDeps, { received, socket }: RealtimeCall): Promise<void> => {
  // Bodies are not kept: what passes is a conversation without an end.
  const { bodies: _, ...unkept } = gateway
  const protocol = protocols['openai-chat']
  return runCall({ gateway: unkept, protocol, style: REALTIME, received, responseWriter: socket }, (call) =>
    serve(unkept, { received, socket }, call),
  )
}

const serve = async (
  gateway: ModelCallDeps,
  { received, socket }: RealtimeCall,
  call: RunningCall,
  // biome-ignore lint/suspicious/noConfusingVoidType: a call that has ended returns nothing
): Promise<OngoingAnswer | void> => {
  const { cancellation, recorder } = call
  const config = gateway.config()
  const { settings } = config
  const { client, headers, query } = received
  const model = modelIn(query)
  const blocked = recorder.received({ model: model ?? '', stream: true, members: {}, headers })
  if (blocked) return writeAndRecordError(call, blocked, null)
  if (model === null) return writeAndRecordError(call, MODEL_MISSING, null)
  const plan = planFor(gateway, config, {
    model,
    style: REALTIME,
    client,
    headers,
    members: {},
    shape: plainShape(() => 0),
    drafting: realtimeDraft,
  })
  if (!plan.ok) return writeAndRecordError(call, plan.failure, null)
  const guards = guardsFor(gateway, { received, plan: plan.value, style: REALTIME, recorder })
  if (guards.length > 0 && settings.realtime.guarded === 'refuse') return writeAndRecordError(call, GUARDED, null)
  const demand = responseDemand(model, plan.value)
  recorder.account.describe(demand)

  gateway.activeCalls.startDeadline(gateway.world, cancellation, settings.timeout.request)
  const attempts = new RealtimeAttempts(gateway, { headers, settings })
  const keysOf = keyOrder(gateway, config, null)
  const context = routeContextOf({ client, plan: plan.value, config, keysOf, running: call })
  const routed = await route(gateway, context, attempts)
  if (!routed.ok)
    return cancellation.reason?.kind === 'client_gone'
      ? recordDisconnect(call, cancellation.reason)
      : writeAndRecordError(call, routed.failure, routed.availableIn)
  // The session itself costs nothing: its slot and its reservation are for its responses.
  recorder.account.describe({ ...demand, output: 'free' })
  recorder.account.settleAll('answered', undefined)
  recorder.account.admission.release()
  const session: RealtimeFacts = { received, model, plan: plan.value, target: routed.target }
  const first = new RealtimeResponse(gateway, session, 1)
  const refused = (await first.reserve()) ?? cancellation.reason
  if (refused) {
    void first.interrupt(refused)
    routed.answerStream.abort()
    routed.permit.release()
    return refused.kind === 'client_gone' ? recordDisconnect(call, refused) : writeAndRecordError(call, refused, null)
  }
  cancellation.clearDeadline()
  gateway.activeCalls.startDeadline(gateway.world, cancellation, settings.realtime.maxSession)
  const opened = new RealtimeSession({
    gateway,
    call,
    socket,
    session,
    first,
    routed,
    upstream: attempts.callTo(routed.target),
    clientWrite: settings.timeout.clientWrite,
  })
  opened.begin()
  return opened
}

/** The model of the query; Azure's clients call it `deployment`. Null: it names none. */
const modelIn = (query: string): string | null => {
  const parameters = new URLSearchParams(query)
  return parameters.get('model') || parameters.get('deployment') || null
}

const MODEL_MISSING: Failure = fail(
  'missing_parameter',
  'The query names no model. Connect to /v1/realtime?model=NAME: sessions by `call_id` and of `intent=transcription` need the model too, which decides where they go.',
  { param: 'model' },
)

const GUARDED: Failure = fail(
  'style_not_allowed',
  'Guards apply to this key, and they cannot read a session of the Realtime API. An operator can allow it by `realtime.guarded: allow`.',
)
