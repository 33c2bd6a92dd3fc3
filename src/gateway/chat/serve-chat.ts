/** Serves one chat call, from the received request to the end of its answer: parse, plan, route, answer, record. */

import { type ChatEvent, fold } from '../../core/chat.ts'
import { type Failure, fail } from '../../core/failure.ts'
import type { AnswerFollower } from '../../core/guard.ts'
import { promptCacheOf } from '../../core/prompt-cache.ts'
import type { AnswerContext, StreamForm, StreamStep, StreamWriter } from '../../core/protocol.ts'
import { ownTurn, PIECE } from '../../core/steps.ts'
import type { Candidate, Target } from '../../core/target.ts'
import type { Trace } from '../../core/trace.ts'
import { statusOf } from '../../policy/reply/final-error.ts'
import { cachedFor } from '../../policy/routing/stickiness.ts'
import { LEAST_INPUT } from '../../policy/switching/warmth.ts'
import { singleFrames } from '../../protocols/framing/sse.ts'
import { append } from '../../protocols/shared/append.ts'
import { choicesOf } from '../../protocols/shared/choices.ts'
import { InputCount, type TokenUsage, usageOf } from '../accounts/token-usage.ts'
import { type OngoingAnswer, runCall } from '../call/call-lifecycle.ts'
import type { Cancellation } from '../call/cancellation.ts'
import { randomLetters } from '../call/ids.ts'
import { type Recorder, recordDisconnect, writeAndRecordAnswer, writeAndRecordError } from '../call/recorder.ts'
import { requestTimeout } from '../call/request-timeout.ts'
import { endPermit, SettledAnswer } from '../call/settled-answer.ts'
import { complete, discard, FollowedWriter, followed, followersOf, NO_FOLLOWERS } from '../guards/followed-answer.ts'
import { type AnswerGuards, answerGuardsOf, pipeThrough } from '../guards/guarded-answer.ts'
import type { AttemptPermit, UpstreamHealth } from '../health/upstream-health.ts'
import { keyOrder, reportsSwitches } from '../routing/planner.ts'
import { type RouteContext, routeContextOf } from '../routing/route-context.ts'
import { type NotRouted, type Routed, route } from '../routing/router.ts'
import { switchTo } from '../routing/switches.ts'
import type { AnswerStream } from '../upstream/attempt.ts'
import { type InboundRequest, sameFormat } from '../upstream/outbound-request.ts'
import { chatAttempts } from './chat-call.ts'
import { ClientStream, type StreamListener } from './client-stream.ts'
import { streamHeaders } from './client-writer.ts'
import type { ContinuedFlow } from './continuation.ts'
import { continuable } from './continuation-targets.ts'
import { type CallContext, type ChatCall, type ChatDeps, type PlannedCall, planCall } from './plan-call.ts'

/** Serves a chat call. Resolves when its answer has ended; upstream and client errors are answers too. */
export const serveChat = (gateway: ChatDeps, call: ChatCall): Promise<void> => {
  const { protocol, received, responseWriter } = call
  return runCall({ gateway, protocol, style: protocol.style, received, responseWriter }, (running) =>
    serve({ ...call, ...running, gateway }),
  )
}

// biome-ignore lint/suspicious/noConfusingVoidType: a call that has ended returns nothing
const serve = async (call: CallContext): Promise<OngoingAnswer | void> => {
  const planning = planCall(call)
  // A short request without a stored conversation is planned at once.
  const planned = planning instanceof Promise ? await planning : planning
  if (!planned) return
  const { gateway, received, responseWriter, cancellation, recorder, config, request, inbound, turn, guards } = planned
  const { world } = gateway
  const { settings } = config
  // No client waits for a background response; the timeouts of each attempt still apply.
  const limit = turn?.storage.background ? 0 : requestTimeout(planned.protocol, received.headers, settings)
  gateway.activeCalls.startDeadline(world, cancellation, limit)
  const inputCount = new InputCount(request)
  const stream = request.stream
    ? new ClientStream(gateway, {
        responseWriter,
        form: formOf(planned),
        settings,
        headers: recorder.earlyHeaders(),
        cancellation,
        opening: () => streamWriter(planned, answerContextFor(planned, null, { inputCount, stream: null })),
      })
    : null
  const answerGuards = answerGuardsOf(guards)
  const resources: CallResources = { cancellation, stream, routed: null, followers: NO_FOLLOWERS }
  let ongoing = false
  try {
    const routeContext = routeContextFor(planned)
    const attempts = chatAttempts(gateway, {
      inbound: planned.sent,
      settings,
      turn,
      memoryOwner: received.memoryOwner,
      bodies: recorder.bodies,
    })
    const routed = await route(gateway, routeContext, attempts)
    if (routed.ok) resources.routed = { answerStream: routed.answerStream, permit: routed.permit }
    const large = routed.ok && !stream && lengthOf(routed.answerStream) > PIECE
    if (large) await ownTurn(world.turn, true)
    const left = clientGone(cancellation)
    if (left) return abandon(planned, stream, routed, left)
    const answerContext = answerContextFor(planned, routed.ok ? routed.target.candidate : null, { inputCount, stream })
    if (!routed.ok) return refuse(planned, stream, routed, answerContext)
    recorder.answeredBy(routed)
    const { retires } = routed.answerStream.facts
    if (retires !== null) gateway.health.retirements.answered(routed.target.candidate, retires)
    turn?.answeredBy(routed.target, routed.prepared, routed.answerStream)
    noteSwitch(planned, routed)
    const answer = { candidate: routed.target.candidate, stream: stream && answerContext }
    const shown = followersOf(guards, answer)
    const shadow = gateway.shadow?.(planned) ?? null
    const followers = shadow && stream ? [...shown, shadow] : shown
    resources.followers = shadow ? [...shown, shadow] : shown
    if (!stream) {
      const checked = answerGuards?.check ? await readAnswer(routed.answerStream, answerGuards) : null
      const leftSince = clientGone(cancellation)
      if (leftSince) return abandon(planned, stream, routed, leftSince)
      const read = checked ? () => checked : readOnce(routed.answerStream, answerGuards)
      const refusal = answerGuards && read().failure
      if (refusal) return refuseAnswer(planned, routed, refusal)
      const own = bodyOf(routed, inbound, answerContext, { read, isGuarded: answerGuards !== null })
      const body = followed(followers, own, () => read().steps.flatMap(({ events }) => events))
      if (large) await ownTurn(world.turn, true)
      sendWhole(planned, routed, body, followers)
      if (shadow) showWhole(planned, shadow, read)
      return
    }
    const continued = continuable(gateway, { routeContext, inbound: planned.sent, turn, recorder, stream }, routed)
    const passes = continued === null && answerGuards === null
    const writer = writerFor(planned, routed, passes, answerContext)
    if (!turn && received.body.text.length <= COUNT_AT_ONCE) inputCount.count()
    const { mediaType } = formOf(planned)
    const streaming = new StreamingCall(routed, {
      ...{ continued, stream, cancellation, inputCount, recorder, followers },
      mediaType,
      remember: remembering(planned, routed),
    })
    streaming.begin(followers.length === 0 ? writer : new FollowedWriter(writer, followers), answerGuards)
    ongoing = true
    return streaming
  } finally {
    if (!ongoing) release(resources)
  }
}

/** Records that the session has changed its target, for the headers and the ledger. */
const noteSwitch = (
  { gateway, config, conversation, plan, inbound, recorder }: PlannedCall,
  { target }: Routed,
): void => {
  if (conversation === null || !reportsSwitches(config)) return
  const request = { conversation, plan, size: inbound.source.text.length, trace: recorder.trace }
  const switched = switchTo(gateway, request, target)
  if (switched) recorder.note({ type: 'switch', switched })
}

/** Why nothing is sent any more; null: the client waits. */
const clientGone = ({ reason }: Cancellation): Failure | null => (reason?.kind === 'client_gone' ? reason : null)

const routeContextFor = (call: PlannedCall): RouteContext => {
  const { gateway, received, config, plan, inbound, turn, recorder } = call
  const keysOf = keyOrder(gateway, config, inbound, { session: recorder.account.session, sticky: plan.sticky })
  return routeContextOf({
    client: received.client,
    plan,
    config,
    keysOf: turn ? (candidate: Candidate) => turn.preferredKeys(candidate, keysOf(candidate)) : keysOf,
    running: call,
  })
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
  followers: readonly AnswerFollower[]
  routed: Pick<Routed, 'answerStream' | 'permit'> | null
}

const release = ({ cancellation, stream, routed, followers }: CallResources): void => {
  discard(followers)
  cancellation.clearDeadline()
  stream?.stop()
  // Both have ended already, except after an internal error.
  routed?.answerStream.abort()
  routed?.permit.release()
}

/** No target answered: sends the error as the response, or as an event of a stream that has begun. */
const refuse = (call: PlannedCall, stream: ClientStream | null, routed: NotRouted, context: AnswerContext): void => {
  const { recorder, turn } = call
  const failure = turn?.asClientError(routed.failure) ?? routed.failure
  if (!stream?.headersSent) {
    stream?.stop()
    return writeAndRecordError(call, failure, routed.availableIn)
  }
  stream.refuse(streamWriter(call, context), failure, recorder.headers())
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

/** A guard refuses the answer, which has been received in full. */
const refuseAnswer = (call: PlannedCall, { permit, answerStream }: Routed, refusal: Failure): void => {
  const { recorder } = call
  permit.done()
  recorder.used(usageOf(answerStream, new InputCount(call.request)))
  recorder.account.settleAll('answered', undefined)
  writeAndRecordError(call, refusal, null)
}

type Remember = (used: TokenUsage) => void

/**
 * Remembers the target that has the prompt of the conversation in its cache after its answer; null: no conversation is remembered. It
 * holds nothing of the request.
 */
const remembering = (
  { gateway: { health }, conversation, config, inbound, recorder }: PlannedCall,
  { target }: Routed,
): Remember | null => {
  if (conversation === null) return null
  const size = inbound.source.text.length
  const reports = reportsSwitches(config)
  return (used) => rememberTarget({ health, conversation, target, size, trace: reports ? recorder.trace : null }, used)
}

type RememberedAnswer = {
  readonly health: UpstreamHealth
  readonly conversation: string
  readonly target: Target
  /** Characters of the request. */
  readonly size: number
  /** Null: switches are not reported. */
  readonly trace: Trace | null
}

const rememberTarget = (
  { health, conversation, target, size, trace }: RememberedAnswer,
  { usage, estimated }: TokenUsage,
): void => {
  const { instance, model } = target.candidate
  const ms = cachedFor(usage, promptCacheOf(instance.provider, model))
  const kept = trace
    ? { tokens: (usage.cacheRead ?? 0) + (usage.cacheWrite ?? 0), input: usage.input, size }
    : undefined
  if (ms > 0) health.sticky.note(conversation, { instance: instance.id, key: target.key.id, model }, ms, kept)
  if (!trace || estimated || usage.input < LEAST_INPUT) return
  const attempts = trace.filter((event) => event.type === 'attempt')
  const committed = trace.findLast((event) => event.type === 'committed')
  // Of hedged attempts the last one may have lost.
  const attempt = committed ? attempts[committed.attempt] : attempts.at(-1)
  if (!attempt) return
  const isMoved = trace.some((event) => event.type === 'switch' && event.switched.act !== 'returned')
  health.sticky.caches.answered(conversation, target, {
    usage,
    size,
    sent: attempt.at,
    opened: committed?.at ?? null,
    isMoved,
  })
}

/** Sends a whole answer. */
const sendWhole = (call: PlannedCall, routed: Routed, body: string, followers: readonly AnswerFollower[]): void => {
  const { recorder } = call
  const { permit, answerStream } = routed
  permit.done()
  const used = usageOf(answerStream, new InputCount(call.request))
  recorder.used(used)
  remembering(call, routed)?.(used)
  writeAndRecordAnswer(call, body)
  complete(followers, { headers: JSON_HEADERS, used, trace: recorder.trace })
}

/** Shows an answer that is no stream to the shadow of its route, after it was sent. */
const showWhole = ({ recorder }: PlannedCall, shadow: AnswerFollower, read: () => WholeSteps): void => {
  shadow.events(read().steps.flatMap(({ events }) => events))
  shadow.complete({ headers: JSON_HEADERS, used: null, trace: recorder.trace })
}

const JSON_HEADERS = { 'content-type': 'application/json' }

/**
 * The writer of a stream: passes the upstream's frames through if it uses the client's format, otherwise encodes the
 * events. An answer that another target may continue is always encoded, since frames of two upstreams do not join; one that
 * passes guards too (`passes`), since they change its events.
 */
const writerFor = (call: PlannedCall, routed: Routed, passes: boolean, context: AnswerContext): StreamWriter => {
  const { protocol } = call.inbound
  const { answerStream, prepared } = routed
  const same = answerStream.whole === null && passes ? sameFormat(protocol, prepared.protocol) : undefined
  return same ? shapedFor(call, same.passStream(context)) : streamWriter(call, context)
}

/** A writer that encodes events. */
const streamWriter = (call: PlannedCall, context: AnswerContext): StreamWriter => {
  const { protocol } = call.inbound
  const several = choicesOf(context.request) > 1 ? protocol.encodeChoices : undefined
  return shapedFor(call, several ? several.stream(context) : protocol.encodeStream(context))
}

const shapedFor = (call: PlannedCall, writer: StreamWriter): StreamWriter => formOf(call).shaped?.(writer) ?? writer

const WITH_COMMENTS: StreamForm = { comments: true }

const formOf = ({ protocol, received }: PlannedCall): StreamForm =>
  protocol.streamForm?.(received.query) ?? WITH_COMMENTS

type StreamingState = {
  /** The same answer with a second target that may continue it; null: it cannot be continued. */
  readonly continued: ContinuedFlow | null
  readonly stream: ClientStream
  readonly cancellation: Cancellation
  readonly inputCount: InputCount
  readonly recorder: Recorder
  readonly followers: readonly AnswerFollower[]
  /** Of the stream; undefined for server-sent events. */
  readonly mediaType: string | undefined
  /** Remembers the target for its conversation; null: it is not remembered. */
  readonly remember: Remember | null
}

/** A stream in progress. It holds only what its end needs: thousands may be open at once. */
class StreamingCall extends SettledAnswer implements StreamListener {
  readonly #cancellation: Cancellation
  readonly #stream: ClientStream
  readonly #answerStream: AnswerStream
  readonly #permit: AttemptPermit
  readonly #continued: ContinuedFlow | null
  readonly #inputCount: InputCount
  readonly #recorder: Recorder
  readonly #followers: readonly AnswerFollower[]
  readonly #mediaType: string | undefined
  readonly #remember: StreamingState['remember']

  constructor(
    { answerStream, permit }: Routed,
    { continued, stream, cancellation, inputCount, recorder, followers, mediaType, remember }: StreamingState,
  ) {
    super()
    this.#cancellation = cancellation
    this.#stream = stream
    this.#answerStream = answerStream
    this.#permit = permit
    this.#continued = continued
    this.#inputCount = inputCount
    this.#recorder = recorder
    this.#followers = followers
    this.#mediaType = mediaType
    this.#remember = remember
  }

  begin(writer: StreamWriter, guards: AnswerGuards | null): void {
    const recorder = this.#recorder
    this.#cancellation.onCancel((reason) => {
      if (reason.kind !== 'client_gone') return this.#answer.failWith(reason)
      this.#continued?.clientLeft()
      this.#stream.clientLeft(reason)
    })
    recorder.responseStarted = true
    const headers = recorder.successHeaders()
    recorder.releaseDetails()
    this.#stream.send({ writer, answerStream: this.#answer, guards, headers, listener: this })
  }

  get #answer(): AnswerStream {
    return this.#continued ?? this.#answerStream
  }

  longLived(): void {
    this.#inputCount.count()
  }

  protected settle(failure: Failure | null): void {
    const recorder = this.#recorder
    const continued = this.#continued
    try {
      const permit = continued?.current.permit ?? this.#permit
      endPermit(permit, failure, recorder.id)
      const used = continued?.used() ?? usageOf(this.#answerStream, this.#inputCount)
      recorder.used(used)
      const skipped = this.#answer.droppedEvents()
      if (skipped > 0) recorder.note({ type: 'dropped_events', count: skipped })
      if (!failure) {
        if (permit === this.#permit) this.#remember?.(used)
        const headers = this.#followers.length > 0 ? streamHeaders({ mediaType: this.#mediaType }) : {}
        complete(this.#followers, { headers, used, trace: recorder.trace })
        return recorder.end('answered', 200)
      }
      const isLeft = failure.kind === 'client_gone'
      // Its count is that of the whole answer, although the client did not receive it.
      if (isLeft && this.#answer.finished()) recorder.account.settleAll('answered', undefined)
      recorder.end(isLeft ? 'client_gone' : 'interrupted', 200, failure)
    } finally {
      const routed = { answerStream: this.#answerStream, permit: this.#permit }
      release({ cancellation: this.#cancellation, stream: this.#stream, routed, followers: this.#followers })
    }
  }
}

/** How the steps of a whole answer are read. */
type WholeReading = { readonly read: () => WholeSteps; readonly isGuarded: boolean }

/**
 * The body of a whole answer: the upstream's own text if it uses the client's format and passes no guards, otherwise encoded from
 * its events.
 */
const bodyOf = (
  { answerStream, prepared }: Routed,
  { protocol }: InboundRequest,
  context: AnswerContext,
  { read, isGuarded }: WholeReading,
): string => {
  const same = isGuarded ? undefined : sameFormat(protocol, prepared.protocol)
  if (same && answerStream.whole !== null)
    return same.passAnswer?.(answerStream.whole, context, answerStream.body) ?? answerStream.whole
  const { steps } = read()
  const frames = steps.flatMap(({ frame }) => (frame ? singleFrames(frame) : []))
  const assembled = same?.assembleAnswer(frames) ?? null
  if (assembled !== null) return same?.passAnswer?.(assembled, context) ?? assembled
  const answer = fold(steps.flatMap(({ events }) => events))
  const choices = choicesIn(steps).map((events) => ({ ...answer, ...fold(events) }))
  const encoded =
    choices.length > 0 ? protocol.encodeChoices?.whole(choices, context) : protocol.encodeAnswer(answer, context)
  return JSON.stringify(encoded)
}

/** The steps of an answer that was received whole, and the failure with which a guard has ended it. */
type WholeSteps = { readonly steps: readonly StreamStep[]; readonly failure: Failure | undefined }

/** Reads the answer on first use, if no guard takes its time. */
const readOnce = (answerStream: AnswerStream, guards: AnswerGuards | null): (() => WholeSteps) => {
  let known: WholeSteps | undefined
  return () => {
    if (!known)
      readInto(answerStream, guards, (read) => {
        known = read
      })
    // A sink without a check ends within `pipeTo`, since the answer is complete.
    return known ?? NOTHING_READ
  }
}

const NOTHING_READ: WholeSteps = {
  steps: [],
  failure: fail('internal', 'Internal gateway error: this answer could not be read.'),
}

/** Reads the answer after the verdicts of all guards. */
const readAnswer = (answerStream: AnswerStream, guards: AnswerGuards): Promise<WholeSteps> =>
  new Promise((resolve) => readInto(answerStream, guards, resolve))

const readInto = (answerStream: AnswerStream, guards: AnswerGuards | null, done: (read: WholeSteps) => void): void => {
  const steps: StreamStep[] = []
  pipeThrough(guards, answerStream, {
    push: (more: readonly StreamStep[]) => {
      append(steps, more)
      return true
    },
    end: (failure?: Failure) => done({ steps, failure }),
  })
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
