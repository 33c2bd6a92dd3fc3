/**
 * A chat call that the gateway makes itself: a copy of a request, a live check. It has an account, its answer is read to its end, and
 * nothing of it reaches a client. Its health is its own, so its failures open no circuit of the requests of clients.
 */
import { type Client, FULL_ACCESS, NO_LIMITS, type Team } from '../../core/accounts.ts'
import type { ChatEvent } from '../../core/chat.ts'
import { NO_REQUIRE, type Require } from '../../core/data-policy.ts'
import type { Failure } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import type { IncomingRequest, ResponseWriter } from '../../core/http-exchange.ts'
import type { ClientProtocol, StreamStep } from '../../core/protocol.ts'
import type { Trace } from '../../core/trace.ts'
import { clientOf } from '../../policy/accounts/client.ts'
import { statusOf } from '../../policy/reply/final-error.ts'
import { textDemand } from '../accounts/demand.ts'
import { InputCount, usageOf } from '../accounts/token-usage.ts'
import { type RunningCall, runCall } from '../call/call-lifecycle.ts'
import type { ActiveCalls, Cancellation } from '../call/cancellation.ts'
import { endPermit } from '../call/settled-answer.ts'
import type { UpstreamHealth } from '../health/upstream-health.ts'
import { type CallToRoute, routeContextOf } from '../routing/route-context.ts'
import { route as routeTo } from '../routing/router.ts'
import type { AnswerStream } from '../upstream/attempt.ts'
import type { InboundRequest } from '../upstream/outbound-request.ts'
import { chatAttempts } from './chat-call.ts'
import type { ChatDeps } from './plan-call.ts'

/** `style`: the kind of call in the ledger. `within`: ms for all of it. */
export type OwnCall = Omit<CallToRoute, 'running' | 'client'> & {
  readonly protocol: ClientProtocol
  readonly style: string
  readonly received: IncomingRequest
  readonly sent: InboundRequest
  readonly within: number
  readonly onEvents: (events: readonly ChatEvent[]) => void
}

/** The parts that calls of clients do not use. */
export type OwnParts = {
  readonly gateway: ChatDeps
  readonly health: UpstreamHealth
  readonly activeCalls: ActiveCalls
  readonly bodies: NonNullable<ChatDeps['bodies']>
}

/** Makes the call. Returns what happened in it. */
export const runOwnCall = async ({ gateway, ...parts }: OwnParts, call: OwnCall): Promise<Trace> => {
  let ended: Trace = []
  const own: ChatDeps = {
    ...gateway,
    ...parts,
    emit: (event) => {
      if (event.event === 'request') ended = event.trace
      else if (event.event === 'error' || event.event === 'policy_breach') gateway.emit(event)
    },
  }
  const { protocol, style, received } = call
  await runCall({ gateway: own, protocol, style, received, responseWriter: NOWHERE }, (running) =>
    serve(own, running, call),
  )
  return ended
}

/** The client of such calls: of a team, with tags of its own, and without a key. */
export const ownClient = (
  team: Team,
  {
    name,
    tags,
    require = NO_REQUIRE,
    logBodies = false,
  }: {
    readonly name: string
    readonly tags: { readonly [name: string]: string }
    readonly require?: Require
    readonly logBodies?: boolean
  },
): Client => {
  const key = {
    id: '',
    name,
    access: FULL_ACCESS,
    limits: NO_LIMITS,
    require,
    defaultRoute: null,
    cache: null,
    logBodies,
    requireSession: false,
    loops: 'off' as const,
    tags,
  }
  return clientOf(key, team)
}

const serve = async (gateway: ChatDeps, running: RunningCall, call: OwnCall): Promise<void> => {
  const { recorder, cancellation } = running
  const { sent, config, onEvents, plan, received, within } = call
  const { request } = sent
  recorder.received({ model: request.model, stream: request.stream, members: {}, headers: NO_HEADERS })
  const { service_tier = null, speed = null, inference_geo = null } = sent.body
  const members = { service_tier, speed, inference_geo }
  recorder.account.describe(textDemand({ request, members, body: sent.source, plan }))
  gateway.activeCalls.startDeadline(gateway.world, cancellation, within)
  // No client named a tape or a test: these calls neither record nor use up an exchange of one.
  const { tape: _, ...untaped } = gateway
  const attempts = chatAttempts(untaped, { inbound: sent, settings: config.settings, bodies: recorder.bodies })
  const context = routeContextOf({ ...call, client: received.client, running })
  const routed = await routeTo(gateway, context, attempts)
  if (!routed.ok) {
    cancellation.clearDeadline()
    return recorder.end('refused', statusOf(routed.failure), routed.failure)
  }
  const { answerStream, permit } = routed
  try {
    recorder.answeredBy(routed)
    const failure = await readInto(answerStream, onEvents, cancellation)
    endPermit(permit, failure, recorder.id)
    recorder.used(usageOf(answerStream, new InputCount(request)))
    if (failure) recorder.end('interrupted', statusOf(failure), failure)
    else recorder.end('answered', 200)
  } finally {
    cancellation.clearDeadline()
    answerStream.abort()
    permit.release()
  }
}

/** Reads an answer to its end. Null: it is complete. */
const readInto = (
  answerStream: AnswerStream,
  onEvents: OwnCall['onEvents'],
  cancellation: Cancellation,
): Promise<Failure | null> =>
  new Promise((resolve) => {
    let found: Failure | null = null
    cancellation.onCancel((reason) => answerStream.failWith(reason))
    answerStream.pipeTo({
      push(steps: readonly StreamStep[]) {
        for (const { events } of steps) {
          onEvents(events)
          found ??= failureIn(events)
        }
        return true
      },
      end: (failure?: Failure) => resolve(failure ?? found),
    })
  })

const failureIn = (events: readonly ChatEvent[]): Failure | null => {
  const event = events.find(({ type }) => type === 'failure')
  return event?.type === 'failure' ? event.failure : null
}

const NO_HEADERS: HeaderLookup = () => undefined

/** No client receives it. */
const NOWHERE: ResponseWriter = {
  writeHead() {},
  write: () => true,
  end() {},
  abort() {},
  onDrain() {},
  onDisconnect() {},
}
