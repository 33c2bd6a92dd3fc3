/** Serves one chat call, from the received request to the end of its answer: parse, plan, route, answer, record. */

import { type ChatEvent, type ChatRequest, fold } from '../../core/chat.ts'
import type { Config } from '../../core/config.ts'
import type { Failure, Outcome } from '../../core/failure.ts'
import type { IncomingRequest, ResponseWriter } from '../../core/http-exchange.ts'
import type { AnswerContext, ClientProtocol, StreamStep, StreamWriter } from '../../core/protocol.ts'
import { ownTurn, PIECE } from '../../core/steps.ts'
import type { Candidate, Plan } from '../../core/target.ts'
import type { TraceEvent } from '../../core/trace.ts'
import { statusOf } from '../../policy/reply/final-error.ts'
import { type CacheableBody, chatBypass } from '../../policy/response-cache.ts'
import { singleFrames } from '../../protocols/framing/sse.ts'
import { append } from '../../protocols/shared/append.ts'
import { choicesOf } from '../../protocols/shared/choices.ts'
import { type Eventual, whenKnown } from '../accounts/authority.ts'
import { textDemand } from '../accounts/demand.ts'
import { InputCount, usageOf } from '../accounts/token-usage.ts'
import { type CallScope, type OngoingAnswer, type RunningCall, runCall } from '../call/call-lifecycle.ts'
import type { Cancellation } from '../call/cancellation.ts'
import { randomLetters } from '../call/ids.ts'
import { type Recorder, recordDisconnect, writeAndRecordAnswer, writeAndRecordError } from '../call/recorder.ts'
import type { AttemptPermit } from '../health/upstream-health.ts'
import { keyOrder, type ModelCallDeps, planFor } from '../routing/planner.ts'
import type { RouteContext } from '../routing/route-context.ts'
import { type NotRouted, type Routed, route } from '../routing/router.ts'
import {
  type AnswerStoring,
  type CacheDeps,
  type CacheUse,
  RecordedStream,
  sendCached,
  useCache,
} from '../sharing/cached-call.ts'
import type { AnswerStream } from '../upstream/attempt.ts'
import { type InboundRequest, sameFormat } from '../upstream/outbound-request.ts'
import { parseInTurns } from '../upstream/parse-request.ts'
import { chatAttempts } from './chat-call.ts'
import { ClientStream, STREAM_HEADERS, type StreamListener } from './client-stream.ts'
import type { ContinuedFlow } from './continuation.ts'
import { continuable } from './continuation-targets.ts'
import { CostWriter } from './cost-writer.ts'
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
export type ChatDeps = ModelCallDeps & CacheDeps

/** Serves a chat call. Resolves when its answer has ended; upstream and client errors are answers too. */
export const serveChat = (gateway: ChatDeps, call: ChatCall): Promise<void> => {
  const { protocol, received, responseWriter } = call
  return runCall({ gateway, protocol, style: protocol.style, received, responseWriter }, (running) =>
    serve({ ...call, ...running, gateway }),
  )
}

type CallContext = ChatCall & RunningCall & { readonly gateway: ChatDeps }

/** A call that was parsed and has a plan. */
type PlannedCall = CallContext & {
  readonly config: Config
  readonly plan: Plan
  /** The client's own request. */
  readonly request: ChatRequest
  /** The same, with the earlier turns of a stored conversation. */
  readonly inbound: InboundRequest
  readonly turn: StoredTurn | undefined
  /** The body of the client's own request. */
  readonly ownBody: CacheableBody
  /** The answer is recorded for later turns. */
  readonly isRecorded: boolean
}

// biome-ignore lint/suspicious/noConfusingVoidType: a call that has ended returns nothing
const serve = async (call: CallContext): Promise<OngoingAnswer | void> => {
  const planning = planCall(call)
  // A short request without a stored conversation is planned at once.
  const planned = planning instanceof Promise ? await planning : planning
  if (!planned) return
  const { gateway, received, responseWriter, cancellation, recorder, config, request, inbound, turn } = planned
  const cache = cacheFor(planned)
  if (cache?.hit) return sendCached(gateway, planned, cache.hit)
  if (cache?.failure) return writeAndRecordError(planned, cache.failure, null)
  const { world } = gateway
  const { settings } = config
  // No client waits for a background response; the timeouts of each attempt still apply.
  gateway.activeCalls.startDeadline(world, cancellation, turn?.storage.background ? 0 : settings.timeout.request)
  const headers = { 'x-request-id': received.id, ...cache?.headers }
  const inputCount = new InputCount(request)
  const stream = request.stream
    ? new ClientStream(gateway, {
        responseWriter,
        settings,
        headers,
        cancellation,
        opening: () => call.protocol.encodeStream(answerContextFor(planned, null, { inputCount, stream: null })),
      })
    : null
  const resources: CallResources = { cancellation, stream, routed: null, recorded: null }
  let ongoing = false
  try {
    const routeContext = routeContextFor(planned)
    const attempts = chatAttempts(gateway, {
      inbound,
      settings,
      turn,
      memoryOwner: received.memoryOwner,
      bodies: recorder.bodies,
    })
    const routed = await route(gateway, routeContext, attempts)
    if (routed.ok) resources.routed = { answerStream: routed.answerStream, permit: routed.permit }
    const large = routed.ok && !stream && lengthOf(routed.answerStream) > PIECE
    if (large) await ownTurn(world.turn, true)
    if (cancellation.reason?.kind === 'client_gone') return abandon(planned, stream, routed, cancellation.reason)
    const answerContext = answerContextFor(planned, routed.ok ? routed.target.candidate : null, { inputCount, stream })
    if (!routed.ok) return refuse(planned, stream, routed, answerContext)
    recorder.answeredBy(routed)
    turn?.answeredBy(routed.target, routed.prepared, routed.answerStream)
    // The beginning of an answer that keep-alives have begun is not in what would be stored.
    const stored = answerContext.begun ? undefined : cache?.storing
    const storing = stored?.accepts(routed.target.candidate) ? stored : null
    if (!stream) {
      const steps = stepsOnce(routed.answerStream)
      const body = bodyOf(routed, inbound, answerContext, steps)
      if (large) await ownTurn(world.turn, true)
      return sendWhole(planned, routed, body, storing && { storing, steps })
    }
    const continued = continuable(gateway, { routeContext, inbound, turn, recorder, stream }, routed)
    const direct = writerFor(inbound, routed, continued, answerContext)
    const recorded = storing && new RecordedStream(direct, storing)
    resources.recorded = recorded
    if (!turn && received.body.text.length <= COUNT_AT_ONCE) inputCount.count()
    const streaming = new StreamingCall(routed, { continued, stream, cancellation, inputCount, recorder, recorded })
    const writer = recorded ?? direct
    const { statesCost } = call.protocol
    const withCost = statesCost && received.headers('x-headgate-metadata') === 'body'
    streaming.begin(
      withCost ? new CostWriter(writer, recorder.account, { statesCost, context: answerContext }) : writer,
    )
    ongoing = true
    return streaming
  } finally {
    if (!ongoing) release(resources)
  }
}

/** Parses the request, starts its turn and plans its targets. Null: an error was sent to the client. */
const planCall = (call: CallContext): Eventual<PlannedCall | null> => {
  const { gateway, protocol, received } = call
  const config = gateway.config()
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
  const blocked = recorder.received({ model: request.model, stream: request.stream, members: parsed.value.body })
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
): PlannedCall | null => {
  const { gateway, protocol, received, recorder } = call
  const { request } = parsed
  if (started?.ok === false) {
    writeAndRecordError(call, started.failure, null)
    return null
  }
  const { turn, responseWriter } = started?.value ?? { turn: undefined, responseWriter: call.responseWriter }
  const plan = planFor(gateway, config, { model: request.model, style: protocol.style, client: received.client })
  if (!plan.ok) {
    writeAndRecordError({ ...call, responseWriter }, plan.failure, null)
    return null
  }
  const own = turn?.inbound ?? parsed
  const inbound = received.query === '' ? own : { ...own, query: received.query }
  const hasStoredTurns = turn !== undefined && turn.inbound !== parsed
  const body = hasStoredTurns ? null : received.body
  recorder.account.describe(textDemand({ request: inbound.request, members: inbound.body, body, plan: plan.value }))
  const ownBody = { source: parsed.source.text, body: parsed.body }
  const isRecorded = responseWriter !== call.responseWriter
  return { ...call, responseWriter, config, plan: plan.value, request, inbound, turn, ownBody, isRecorded }
}

/** The response cache for this call; null: it is off. */
const cacheFor = (call: PlannedCall): CacheUse | null => {
  const { gateway, protocol, received, config, plan, recorder, request, ownBody, turn } = call
  // A turn that is stored has an ID of its own, which no other request may receive. Turns are stored by default.
  const stored = call.isRecorded || (request.settings.store?.value ?? turn !== undefined)
  return useCache(gateway, {
    received,
    config,
    plan,
    style: protocol.style,
    facts: protocol,
    recorder,
    request: ownBody,
    bypass: (rules) => chatBypass({ ...ownBody, request, stored }, rules),
  })
}

const routeContextFor = ({
  gateway,
  received,
  cancellation,
  recorder,
  config,
  plan,
  inbound,
  turn,
}: PlannedCall): RouteContext => {
  const keysOf = keyOrder(gateway, config, inbound)
  return {
    id: received.id,
    client: received.client,
    plan,
    config,
    deadline: cancellation.until,
    stop: cancellation,
    keysOf: turn ? (candidate: Candidate) => turn.preferredKeys(candidate, keysOf(candidate)) : keysOf,
    account: recorder.account,
    bodies: recorder.bodies,
    note: (event: TraceEvent) => recorder.note(event),
  }
}

const answerContextFor = (
  { gateway: { world }, received, recorder, request, inbound, turn }: PlannedCall,
  candidate: Candidate | null,
  { inputCount, stream }: { readonly inputCount: InputCount; readonly stream: ClientStream | null },
): AnswerContext => ({
  begun: stream?.begun ?? undefined,
  request: inbound.request,
  body: inbound.body,
  model: candidate?.model ?? request.model,
  issuer: candidate?.instance.id,
  inputTokens: () => inputCount.tokens,
  requestId: received.id,
  created: Math.floor(world.date() / 1000),
  id: (prefix) => `${prefix}_${randomLetters(world, 24)}`,
  storage: turn?.storage,
  onLoss: (path: string) => {
    // The header block of a stream has been sent: a comment reports the member.
    if (recorder.lostOutput(path)) stream?.remark(`dropped=${path}`)
  },
})

/** Characters of a whole answer; approximate where it was received as a stream. */
const lengthOf = (answerStream: AnswerStream): number => answerStream.whole?.length ?? answerStream.output().length

/**
 * Characters of the longest request whose tokens are counted before its answer begins (3 µs). A longer request is kept
 * in memory instead, until a count is needed.
 */
const COUNT_AT_ONCE = 2_048

/** Everything that a call must release when it ends, on every path. */
type CallResources = {
  readonly cancellation: Cancellation
  readonly stream: ClientStream | null
  recorded: RecordedStream | null
  routed: Pick<Routed, 'answerStream' | 'permit'> | null
}

const release = ({ cancellation, stream, routed, recorded }: CallResources): void => {
  recorded?.discard()
  cancellation.clearDeadline()
  stream?.stop()
  // Both have ended already, except after an internal error.
  routed?.answerStream.abort()
  routed?.permit.release()
}

/** No target answered: sends the error as the response, or as an event of a stream that has begun. */
const refuse = (call: PlannedCall, stream: ClientStream | null, routed: NotRouted, context: AnswerContext): void => {
  const { protocol, recorder, turn } = call
  const failure = turn?.asClientError(routed.failure) ?? routed.failure
  if (!stream?.headersSent) {
    stream?.stop()
    return writeAndRecordError(call, failure, routed.availableIn)
  }
  stream.refuse(protocol.encodeStream(context), failure, recorder.headers())
  recorder.end('refused', statusOf(failure), failure)
}

/** The client disconnected: aborts the upstream call and counts it against no target. */
const abandon = (call: PlannedCall, stream: ClientStream | null, routed: Routed | NotRouted, reason: Failure): void => {
  if (routed.ok) {
    call.recorder.used(usageOf(routed.answerStream, new InputCount(call.inbound.request)))
    routed.answerStream.abort()
    routed.permit.release()
  }
  stream?.stop()
  recordDisconnect(call, reason)
}

/** Sends a whole answer. */
const sendWhole = (
  call: PlannedCall,
  { permit, answerStream }: Routed,
  body: string,
  cached: { readonly storing: AnswerStoring; readonly steps: () => readonly StreamStep[] } | null,
): void => {
  const { recorder } = call
  permit.done()
  const used = usageOf(answerStream, new InputCount(call.request))
  recorder.used(used)
  writeAndRecordAnswer(call, body)
  cached?.storing.storeChat({ body, headers: JSON_HEADERS, used, trace: recorder.trace }, () =>
    cached.steps().flatMap(({ events }) => events),
  )
}

const JSON_HEADERS = { 'content-type': 'application/json' }

/**
 * The writer of a stream: passes the upstream's frames through if it uses the client's format, otherwise encodes the
 * events. An answer that another target may continue is always encoded, since frames of two upstreams do not join.
 */
const writerFor = (
  { protocol }: InboundRequest,
  { answerStream, prepared }: Routed,
  continued: ContinuedFlow | null,
  context: AnswerContext,
): StreamWriter => {
  const same = answerStream.whole === null && !continued ? sameFormat(protocol, prepared.protocol) : undefined
  if (same) return same.passStream(context)
  const several = choicesOf(context.request) > 1 ? protocol.encodeChoices : undefined
  return several ? several.stream(context) : protocol.encodeStream(context)
}

type StreamingState = {
  /** The same answer with a second target that may continue it; null: it cannot be continued. */
  readonly continued: ContinuedFlow | null
  readonly stream: ClientStream
  readonly cancellation: Cancellation
  readonly inputCount: InputCount
  readonly recorder: Recorder
  /** The stream is stored in the response cache; null: it is not. */
  readonly recorded: RecordedStream | null
}

/** A stream in progress. It holds only what its end needs: thousands may be open at once. */
class StreamingCall implements StreamListener, OngoingAnswer {
  readonly #cancellation: Cancellation
  readonly #stream: ClientStream
  readonly #answerStream: AnswerStream
  readonly #permit: AttemptPermit
  readonly #continued: ContinuedFlow | null
  readonly #inputCount: InputCount
  readonly #recorder: Recorder
  readonly #recorded: RecordedStream | null
  #scope: CallScope | null = null
  /** How it ended; undefined: it is in progress. */
  #failure: Failure | null | undefined

  constructor(
    { answerStream, permit }: Routed,
    { continued, stream, cancellation, inputCount, recorder, recorded }: StreamingState,
  ) {
    this.#cancellation = cancellation
    this.#stream = stream
    this.#answerStream = answerStream
    this.#permit = permit
    this.#continued = continued
    this.#inputCount = inputCount
    this.#recorder = recorder
    this.#recorded = recorded
  }

  begin(writer: StreamWriter): void {
    const recorder = this.#recorder
    this.#cancellation.onCancel((reason) => {
      if (reason.kind !== 'client_gone') return this.#answer.failWith(reason)
      this.#continued?.clientLeft()
      this.#stream.clientLeft(reason)
    })
    recorder.responseStarted = true
    const headers = recorder.headers()
    recorder.releaseDetails()
    this.#stream.send({ writer, answerStream: this.#answer, headers, listener: this })
  }

  get #answer(): AnswerStream {
    return this.#continued ?? this.#answerStream
  }

  attach(scope: CallScope): void {
    this.#scope = scope
    if (this.#failure !== undefined) this.#conclude(scope, this.#failure)
  }

  longLived(): void {
    this.#inputCount.count()
  }

  ended(failure: Failure | null): void {
    this.#failure = failure
    const scope = this.#scope
    // Deferred: the stream that reports its end is still on the stack.
    if (scope) void Promise.resolve().then(() => this.#conclude(scope, failure))
  }

  #conclude(scope: CallScope, failure: Failure | null): void {
    try {
      this.#settle(failure)
      scope.finish()
    } catch (error) {
      scope.fail(error)
    }
  }

  #settle(failure: Failure | null): void {
    const recorder = this.#recorder
    const continued = this.#continued
    try {
      const permit = continued?.current.permit ?? this.#permit
      if (failure && failure.kind !== 'client_gone') permit.failed(failure, recorder.id)
      else if (failure) permit.release()
      else permit.done()
      const used = continued?.used() ?? usageOf(this.#answerStream, this.#inputCount)
      recorder.used(used)
      const skipped = this.#answer.droppedEvents()
      if (skipped > 0) recorder.note({ type: 'dropped_events', count: skipped })
      if (!failure) {
        this.#recorded?.store({ headers: STREAM_HEADERS, used, trace: recorder.trace })
        return recorder.end('answered', 200)
      }
      const isLeft = failure.kind === 'client_gone'
      // Its count is that of the whole answer, although the client did not receive it.
      if (isLeft && this.#answer.finished()) recorder.account.settleAll('answered', undefined)
      recorder.end(isLeft ? 'client_gone' : 'interrupted', 200, failure)
    } finally {
      const routed = { answerStream: this.#answerStream, permit: this.#permit }
      release({ cancellation: this.#cancellation, stream: this.#stream, routed, recorded: this.#recorded })
    }
  }
}

/** The body of a whole answer: the upstream's own text if it uses the client's format, otherwise encoded from its events. */
const bodyOf = (
  { answerStream, prepared }: Routed,
  { protocol }: InboundRequest,
  context: AnswerContext,
  stepsOf: () => readonly StreamStep[],
): string => {
  const same = sameFormat(protocol, prepared.protocol)
  if (same && answerStream.whole !== null)
    return same.passAnswer?.(answerStream.whole, context, answerStream.body) ?? answerStream.whole
  const steps = stepsOf()
  const frames = steps.flatMap(({ frame }) => (frame ? singleFrames(frame) : []))
  const assembled = same?.assembleAnswer(frames) ?? null
  if (assembled !== null) return same?.passAnswer?.(assembled, context) ?? assembled
  const answer = fold(steps.flatMap(({ events }) => events))
  const choices = choicesIn(steps).map((events) => ({ ...answer, ...fold(events) }))
  const encoded =
    choices.length > 0 ? protocol.encodeChoices?.whole(choices, context) : protocol.encodeAnswer(answer, context)
  return JSON.stringify(encoded)
}

/** The steps of an answer that was received whole, read on first use. */
const stepsOnce = (answerStream: AnswerStream): (() => readonly StreamStep[]) => {
  let steps: readonly StreamStep[] | undefined
  return () => {
    steps ??= stepsOf(answerStream)
    return steps
  }
}

const stepsOf = (answerStream: AnswerStream): readonly StreamStep[] => {
  const steps: StreamStep[] = []
  answerStream.pipeTo({
    push: (more) => {
      append(steps, more)
      return true
    },
    end: () => {},
  })
  return steps
}

/** The events of each choice, in the order of their indexes. Empty: the answer has one choice. */
const choicesIn = (steps: readonly StreamStep[]): readonly (readonly ChatEvent[])[] => {
  const byIndex = new Map<number, ChatEvent[]>()
  for (const { index, events } of steps.flatMap(({ choices = [] }) => choices)) {
    const known = byIndex.get(index) ?? []
    append(known, events)
    byIndex.set(index, known)
  }
  return [...byIndex].sort(([a], [b]) => a - b).map(([, events]) => events)
}
