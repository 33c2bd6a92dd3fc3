/**
 * The path of one model call, from what the edge received to what the client is sent: read, plan, try, answer, record.
 * Each is decided elsewhere; here they meet in order.
 */

import { type ChatEvent, fold } from '../../core/chat.ts'
import type { Failure, Outcome } from '../../core/failure.ts'
import type { IncomingRequest, ResponseWriter } from '../../core/http-exchange.ts'
import type { AnswerContext, ClientProtocol, StreamStep, StreamWriter } from '../../core/protocol.ts'
import { ownTurn, PIECE } from '../../core/steps.ts'
import type { Candidate } from '../../core/target.ts'
import type { TraceEvent } from '../../core/trace.ts'
import type { World } from '../../core/world.ts'
import { statusOf } from '../../policy/reply/final-error.ts'
import { framesOf } from '../../protocols/framing/sse.ts'
import { append } from '../../protocols/shared/append.ts'
import { choicesOf } from '../../protocols/shared/choices.ts'
import { type CallScope, type OngoingAnswer, runCall } from '../call/call-lifecycle.ts'
import type { Cancellation } from '../call/cancellation.ts'
import { randomLetters } from '../call/ids.ts'
import { type Recorder, writeAndRecordError } from '../call/recorder.ts'
import { InputCount, usageOf } from '../call/usage.ts'
import type { Gateway } from '../gateway.ts'
import type { AttemptPermit } from '../health/upstream-health.ts'
import { keyOrder, planFor } from '../routing/planner.ts'
import { type NotRouted, type Routed, route } from '../routing/router.ts'
import type { AnswerStream } from '../upstream/attempt.ts'
import { type InboundRequest, sameFormat } from '../upstream/outbound-request.ts'
import { parseLargeRequest, parseRequest } from '../upstream/parse-request.ts'
import { chatAttempts } from './chat-call.ts'
import { ClientStream, type StreamListener } from './client-stream.ts'
import type { ContinuedFlow } from './continuation.ts'
import { continuable } from './continuation-targets.ts'
import type { Turn } from './turn.ts'

/** A turn of a conversation, and the reply that stores its answer. */
export type StartedTurn = { readonly turn: Turn; readonly reply: ResponseWriter }
type Begin = (question: InboundRequest) => Promise<Outcome<StartedTurn>>

/** `begin`: makes the question a turn of a conversation, where the style has such. */
export const serveChat = (
  gateway: Gateway,
  protocol: ClientProtocol,
  received: IncomingRequest,
  reply: ResponseWriter,
  begin?: Begin,
): Promise<void> =>
  runCall({ gateway, protocol, style: protocol.style, received, reply }, (stop, record) =>
    serve(gateway, protocol, received, reply, stop, record, begin),
  )

const serve = async (
  gateway: Gateway,
  protocol: ClientProtocol,
  received: IncomingRequest,
  client: ResponseWriter,
  stop: Cancellation,
  record: Recorder,
  begin?: Begin,
  // biome-ignore lint/suspicious/noConfusingVoidType: what does not last returns nothing
): Promise<OngoingAnswer | void> => {
  const { world } = gateway
  const config = gateway.config()
  const { settings } = config
  const asked =
    received.body.length > PIECE
      ? await parseLargeRequest(protocol, received, settings.limit, world.turn)
      : parseRequest(protocol, received.body, received.headers, settings.limit)
  if (!asked.ok) return writeAndRecordError({ protocol, reply: client, record }, asked.failure, null)
  const { request } = asked.value
  record.received(request.model, request.stream)
  const begun = begin ? await begin(asked.value) : undefined
  if (begun?.ok === false) return writeAndRecordError({ protocol, reply: client, record }, begun.failure, null)
  const { turn, reply } = begun?.value ?? { turn: undefined, reply: client }
  const question = {
    ...(turn?.question ?? asked.value),
    query: received.query,
    ...(received.source && { raw: received.source }),
  }
  const plan = planFor(gateway, config, request.model)
  if (!plan.ok) return writeAndRecordError({ protocol, reply, record }, plan.failure, null)

  // Nobody waits for what is answered in the background; its silences are limited all the same.
  gateway.activeCalls.startDeadline(world, stop, turn?.kept.background ? 0 : settings.timeout.request)
  const keysOf = keyOrder(gateway, config, question)
  const ours = { 'x-request-id': received.id }
  const stream = request.stream ? new ClientStream(gateway, reply, settings, ours, stop) : null
  const ends: Ends = { stop, stream, won: null }
  let lasts = false
  try {
    const errand = {
      id: received.id,
      client: received.client,
      clientKey: received.clientKey,
      plan: plan.value,
      config,
      deadline: stop.until,
      stop,
      keysOf: turn ? (candidate: Candidate) => turn.preferredKeys(candidate, keysOf(candidate)) : keysOf,
      note: (fact: TraceEvent) => record.note(fact),
    }
    const opened = await route(
      gateway,
      errand,
      chatAttempts(gateway, { question, settings, turn, holder: received.holder }),
    )
    if (opened.ok) ends.won = { flow: opened.flow, permit: opened.permit }
    const large = opened.ok && !stream && lengthOf(opened.flow) > PIECE
    if (large) await ownTurn(world.turn, true)
    const model = opened.ok ? opened.target.candidate.model : request.model
    const context = {
      ...contextFor(world, question, received.id, model),
      ...(turn && { kept: turn.kept }),
      lost: (path: string) => {
        // The head of a stream is out: a comment reports it.
        if (record.lostOutput(path)) stream?.remark(`dropped=${path}`)
      },
    }
    if (stop.reason?.kind === 'client_gone') return leave(opened, stream, reply, question, record, stop.reason)
    if (!opened.ok) {
      const failure = turn?.asClientError(opened.failure) ?? opened.failure
      if (!stream?.begun) {
        stream?.stop()
        return writeAndRecordError({ protocol, reply, record }, failure, opened.soonest)
      }
      stream.refuse(protocol.encodeStream(context), failure, record.headers())
      return record.end('refused', statusOf(failure), failure)
    }
    record.answeredBy(opened)
    turn?.answeredBy(opened.target, opened.prepared, opened.flow)
    if (!stream) {
      const body = bodyOf(opened, question, context)
      if (large) await ownTurn(world.turn, true)
      return whole(reply, opened, body, { request, record })
    }
    const more = continuable(gateway, { errand, question, turn, record, stream }, opened)
    const writer = writerFor(question, opened, more, context)
    const counted = new InputCount(request)
    if (!turn && received.body.length <= SOON_COUNTED) counted.count()
    const pouring = new StreamingCall(opened, more, stream, { stop, asked: counted, record })
    pouring.begin(writer)
    lasts = true
    return pouring
  } finally {
    if (!lasts) end(ends)
  }
}

/** Characters of an answer that has come whole, or about how many. */
const lengthOf = (flow: AnswerStream): number => flow.whole?.length ?? flow.output().length

/** A question of so many characters is counted (3 µs) before its answer flows, rather than kept as long as that may take. */
const SOON_COUNTED = 2_048

/** What is to be let go of at a call's end, however it comes. */
type Ends = {
  readonly stop: Cancellation
  readonly stream: ClientStream | null
  won: Pick<Routed, 'flow' | 'permit'> | null
}

const end = ({ stop, stream, won }: Ends): void => {
  stop.clearDeadline()
  stream?.stop()
  // Over long ago, save after a bug of ours.
  won?.flow.abort()
  won?.permit.release()
}

/**
 * A stream: the upstream's own frames if it speaks the client's format, otherwise written anew from the events, as where
 * another may go on with it, whose frames could not follow those of the first.
 */
const writerFor = (
  { protocol }: InboundRequest,
  { flow, prepared }: Routed,
  more: ContinuedFlow | null,
  context: AnswerContext,
): StreamWriter => {
  const same = flow.whole === null && !more ? sameFormat(protocol, prepared.protocol) : undefined
  if (same) return same.passStream(context)
  const several = choicesOf(context.request) > 1 ? protocol.encodeChoices : undefined
  return several ? several.stream(context) : protocol.encodeStream(context)
}

class StreamingCall implements StreamListener, OngoingAnswer {
  readonly #stop: Cancellation
  readonly #stream: ClientStream
  readonly #flow: AnswerStream
  readonly #ticket: AttemptPermit
  /** The same with another who may go on with it. */
  readonly #more: ContinuedFlow | null
  readonly #asked: InputCount
  readonly #record: Recorder
  #frame: CallScope | null = null
  /** How it ended; undefined: it has not. */
  #failure: Failure | null | undefined

  constructor({ flow, permit: ticket }: Routed, more: ContinuedFlow | null, stream: ClientStream, call: Served) {
    this.#stop = call.stop
    this.#stream = stream
    this.#flow = flow
    this.#ticket = ticket
    this.#more = more
    this.#asked = call.asked
    this.#record = call.record
  }

  begin(writer: StreamWriter): void {
    const record = this.#record
    this.#stop.onCancel((reason) => {
      if (reason.kind === 'client_gone') this.#stream.left(reason)
      else this.#answer.failWith(reason)
    })
    record.responseStarted = true
    const headers = record.headers()
    record.releaseDetails()
    this.#stream.pour(writer, this.#answer, headers, this)
  }

  get #answer(): AnswerStream {
    return this.#more ?? this.#flow
  }

  attach(frame: CallScope): void {
    this.#frame = frame
    if (this.#failure !== undefined) this.#conclude(frame, this.#failure)
  }

  lasts(): void {
    this.#asked.count()
  }

  ended(failure: Failure | null): void {
    this.#failure = failure
    const frame = this.#frame
    // Whoever ended it is still at work in the stream.
    if (frame) void Promise.resolve().then(() => this.#conclude(frame, failure))
  }

  #conclude(frame: CallScope, failure: Failure | null): void {
    try {
      this.#settle(failure)
      frame.finish()
    } catch (error) {
      frame.fail(error)
    }
  }

  #settle(failure: Failure | null): void {
    const record = this.#record
    const more = this.#more
    try {
      const held = more?.won.permit ?? this.#ticket
      if (failure && failure.kind !== 'client_gone') held.failed(failure)
      else if (failure) held.release()
      else held.done()
      record.used(more?.used() ?? usageOf(this.#flow, this.#asked))
      const skipped = this.#answer.droppedEvents()
      if (skipped > 0) record.note({ type: 'dropped_events', count: skipped })
      if (!failure) return record.end('answered', 200)
      record.end(failure.kind === 'client_gone' ? 'client_gone' : 'interrupted', 200, failure)
    } finally {
      end({ stop: this.#stop, stream: this.#stream, won: { flow: this.#flow, permit: this.#ticket } })
    }
  }
}

type Served = { readonly stop: Cancellation; readonly asked: InputCount; readonly record: Recorder }

/** A whole answer: nothing has been sent before all of it was here, so that it is given out at once. */
const whole = (
  reply: ResponseWriter,
  won: Routed,
  body: string,
  { request, record }: Pick<InboundRequest, 'request'> & { readonly record: Recorder },
): void => {
  won.permit.done()
  record.used(usageOf(won.flow, new InputCount(request)))
  record.responseStarted = true
  reply.head(200, { 'content-type': 'application/json', ...record.headers() })
  const { source } = won.flow
  if (source && source.text === body) reply.end(body, source)
  else reply.end(body)
  record.end('answered', 200)
}

/** The upstream's own words if it speaks the client's format, otherwise written anew from what it said. */
const bodyOf = ({ flow, prepared }: Routed, { protocol }: InboundRequest, context: AnswerContext): string => {
  const same = sameFormat(protocol, prepared.protocol)
  if (same && flow.whole !== null) return same.passAnswer?.(flow.whole, context, flow.body) ?? flow.whole
  const steps: StreamStep[] = []
  flow.pipeTo({
    push: (some) => {
      append(steps, some)
      return true
    },
    end: () => {},
  })
  const theirs = same?.assembleAnswer(steps.flatMap(framesOf)) ?? null
  if (theirs !== null) return same?.passAnswer?.(theirs, context) ?? theirs
  const answer = fold(steps.flatMap(({ events }) => events))
  const several = choicesIn(steps).map((events) => ({ ...answer, ...fold(events) }))
  const written =
    several.length > 0 ? protocol.encodeChoices?.whole(several, context) : protocol.encodeAnswer(answer, context)
  return JSON.stringify(written)
}

/** The events of each choice of several, by index. */
const choicesIn = (steps: readonly StreamStep[]): readonly (readonly ChatEvent[])[] => {
  const found = new Map<number, ChatEvent[]>()
  for (const { index, events } of steps.flatMap(({ choices = [] }) => choices)) {
    const own = found.get(index) ?? []
    append(own, events)
    found.set(index, own)
  }
  return [...found].sort(([a], [b]) => a - b).map(([, events]) => events)
}

/** The client is gone: whatever was opened for it is let go, and it is nobody's failure. */
const leave = (
  opened: Routed | NotRouted,
  stream: ClientStream | null,
  reply: ResponseWriter,
  { request }: InboundRequest,
  record: Recorder,
  reason: Failure,
): void => {
  if (opened.ok) {
    record.used(usageOf(opened.flow, new InputCount(request)))
    opened.flow.abort()
    opened.permit.release()
  }
  stream?.stop()
  reply.cut()
  record.end('client_gone', statusOf(reason), reason)
}

const contextFor = (world: World, question: InboundRequest, requestId: string, model: string): AnswerContext => ({
  request: question.request,
  body: question.body,
  model,
  requestId,
  created: Math.floor(world.date() / 1000),
  id: (prefix) => `${prefix}_${randomLetters(world, 24)}`,
})
