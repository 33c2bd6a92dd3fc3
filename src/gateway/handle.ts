/**
 * The path of one model call, from what the edge received to what the client is sent: read, plan, try, answer, record.
 * Each is decided elsewhere; here they meet in order.
 */
import type { Received, Reply } from '../core/call.ts'
import { fold } from '../core/chat.ts'
import type { Config } from '../core/config.ts'
import type { Fact } from '../core/exchange.ts'
import type { Failure, Outcome } from '../core/failure.ts'
import type { AnswerContext, ClientProtocol, Passing, StreamWriter } from '../core/protocol.ts'
import type { ResponseStore } from '../core/stored.ts'
import type { Candidate } from '../core/target.ts'
import type { World } from '../core/world.ts'
import { statusOf } from '../policy/verdict.ts'
import { append } from '../protocols/shared.ts'
import { askModel } from './asking.ts'
import type { Flow } from './attempt.ts'
import type { Ticket } from './board.ts'
import { ClientStream } from './client-stream.ts'
import { conduct } from './conduct.ts'
import type { ContinuedFlow } from './continue.ts'
import { firstToOpen, type Lost, type Tools, type Won } from './first-to-open.ts'
import { continuable } from './go-on.ts'
import type { Job } from './job.ts'
import { lettersOf } from './letters.ts'
import { keyOrder, planFor } from './planning.ts'
import { type Question, sameFormat } from './prepare.ts'
import { ask } from './question.ts'
import { type Recorder, refuseAndRecord } from './record.ts'
import type { Live, Stop } from './stop.ts'
import type { Turn } from './turn.ts'
import { InputCount, usedBy } from './used.ts'

export type Gateway = Tools & {
  /** The configuration now; a request keeps the one it began with. */
  readonly config: () => Config
  /** The providers' own lists of models, as last fetched, by instance. */
  readonly lists: () => ReadonlyMap<string, readonly string[]>
  /** Every request under way: how the process ends them all. */
  readonly live: Live
  /** Answers that can be asked for again. */
  readonly responses: ResponseStore
  /** Those being answered in the background, by id. */
  readonly jobs: Map<string, Job>
}

/** `begin`: makes the question a turn of a conversation, where the style has such. */
export const handle = (
  gateway: Gateway,
  protocol: ClientProtocol,
  received: Received,
  reply: Reply,
  begin?: (question: Question) => Outcome<Turn>,
): Promise<void> =>
  conduct({ gateway, protocol, style: protocol.style, received, reply }, (stop, record) =>
    serve(gateway, protocol, received, reply, stop, record, begin),
  )

const serve = async (
  gateway: Gateway,
  protocol: ClientProtocol,
  received: Received,
  client: Reply,
  stop: Stop,
  record: Recorder,
  begin?: (question: Question) => Outcome<Turn>,
): Promise<void> => {
  const { world } = gateway
  const config = gateway.config()
  const { settings } = config
  const asked = ask(protocol, received.body, received.headers)
  if (!asked.ok) return refuseAndRecord(protocol, client, record, asked.failure, null)
  const { request } = asked.value
  record.received(request.model, request.stream)
  const begun = begin?.(asked.value)
  if (begun?.ok === false) return refuseAndRecord(protocol, client, record, begun.failure, null)
  const turn = begun?.value
  const reply = turn?.keeping(client) ?? client
  const question = {
    ...(turn?.question ?? asked.value),
    query: received.query,
    ...(received.source && { raw: received.source }),
  }
  const plan = planFor(gateway, config, request.model)
  if (!plan.ok) return refuseAndRecord(protocol, reply, record, plan.failure, null)

  // Nobody waits for what is answered in the background; its silences are limited all the same.
  gateway.live.within(world, stop, turn?.kept.background ? 0 : settings.timeout.request)
  const ours = { 'x-request-id': received.id }
  const stream = request.stream ? new ClientStream(world, reply, settings, ours, stop) : null
  const ends: Ends = { stop, stream, won: null }
  const keysOf = keyOrder(gateway, config, question)
  let lasts = false
  try {
    const errand = {
      id: received.id,
      client: received.client,
      plan: plan.value,
      config,
      deadline: stop.until,
      stop,
      keysOf: turn ? (candidate: Candidate) => turn.keysFirst(candidate, keysOf(candidate)) : keysOf,
      note: (fact: Fact) => record.note(fact),
    }
    const opened = await firstToOpen(gateway, errand, askModel(gateway, { question, settings, turn }))
    if (opened.ok) ends.won = { flow: opened.flow, ticket: opened.ticket }
    const model = opened.ok ? opened.target.candidate.model : request.model
    const context = { ...contextFor(world, question, received.id, model), ...(turn && { kept: turn.kept }) }
    if (stop.reason?.kind === 'client_gone') return leave(opened, stream, reply, question, record, stop.reason)
    if (!opened.ok) {
      const failure = turn?.inItsWords(opened.failure) ?? opened.failure
      if (!stream?.begun) {
        stream?.stop()
        return refuseAndRecord(protocol, reply, record, failure, opened.soonest)
      }
      stream.refuse(protocol.encodeStream(context), failure, record.headers())
      return record.end('refused', statusOf(failure), failure)
    }
    const { flow, ticket } = opened
    record.answeredBy(opened)
    turn?.answeredBy(opened.target, opened.prepared, flow)
    if (!stream) return whole(reply, opened, question, context, record)
    const more = continuable(gateway, { errand, question, turn, record, stream }, opened)
    const writer = writerFor(question, opened, more, context)
    const poured = pour({ stream, writer, flow, ticket, more, asked: new InputCount(request), record }, ends, stop)
    lasts = true
    return poured
  } finally {
    if (!lasts) end(ends)
  }
}

/** What is to be let go of at a call's end, however it comes. */
type Ends = {
  readonly stop: Stop
  readonly stream: ClientStream | null
  won: Pick<Won, 'flow' | 'ticket'> | null
}

const end = ({ stop, stream, won }: Ends): void => {
  stop.untimed()
  stream?.stop()
  // Over long ago, save after a bug of ours.
  won?.flow.abort()
  won?.ticket.release()
}

/** An answer on its way, which may take minutes: nothing else of the question, the plan and what was sent is kept for it. */
type Pouring = {
  readonly stream: ClientStream
  readonly writer: StreamWriter
  readonly flow: Flow
  readonly ticket: Ticket
  /** The same with another who may go on with it. */
  readonly more: ContinuedFlow | null
  readonly asked: InputCount
  readonly record: Recorder
}

/**
 * A stream: the upstream's own frames if it speaks the client's format, otherwise written anew from the events, as where
 * another may go on with it, whose frames could not follow those of the first.
 */
const writerFor = (
  { protocol }: Question,
  { flow, prepared }: Won,
  more: ContinuedFlow | null,
  context: AnswerContext,
): StreamWriter => {
  const same = flow.whole === null && !more ? sameFormat(protocol, prepared.protocol) : undefined
  return same ? same.passStream(context) : protocol.encodeStream(context)
}

const pour = (pouring: Pouring, ends: Ends, stop: Stop): Promise<void> => {
  const { stream, writer, more, asked, record } = pouring
  const flow = more ?? pouring.flow
  stop.means((reason) => {
    if (reason.kind === 'client_gone') stream.left(reason)
    else flow.giveUp(reason)
  })
  record.begun = true
  const said = stream.pour(writer, flow, record.headers(), () => asked.letGo())
  // Not awaited: a function that waits keeps half a KB for it, and thousands of answers may be on their way.
  return said.then(
    (failure) => poured(pouring, ends, failure),
    (error) => {
      end(ends)
      throw error
    },
  )
}

/** All has been said, or the answer has broken off. */
const poured = ({ flow, ticket, more, asked, record }: Pouring, ends: Ends, failure: Failure | null): void => {
  try {
    const held = more?.won.ticket ?? ticket
    if (failure && failure.kind !== 'client_gone') held.failed(failure)
    else if (failure) held.release()
    else held.done()
    record.used(more?.used() ?? usedBy(flow, asked))
    const skipped = (more ?? flow).droppedEvents()
    if (skipped > 0) record.note({ type: 'dropped_events', count: skipped })
    if (!failure) return record.end('answered', 200)
    record.end(failure.kind === 'client_gone' ? 'client_gone' : 'interrupted', 200, failure)
  } finally {
    end(ends)
  }
}

/** A whole answer: nothing has been sent before all of it was here, so that it is given out at once. */
const whole = (reply: Reply, won: Won, question: Question, context: AnswerContext, record: Recorder): void => {
  const body = bodyOf(won, question, context)
  won.ticket.done()
  record.used(usedBy(won.flow, new InputCount(question.request)))
  record.begun = true
  reply.head(200, { 'content-type': 'application/json', ...record.headers() })
  const { source } = won.flow
  if (source && source.text === body) reply.end(body, source)
  else reply.end(body)
  record.end('answered', 200)
}

/** The upstream's own words if it speaks the client's format, otherwise written anew from what it said. */
const bodyOf = ({ flow, prepared }: Won, { protocol }: Question, context: AnswerContext): string => {
  const same = sameFormat(protocol, prepared.protocol)
  if (same && flow.whole !== null) return same.passAnswer?.(flow.whole, context) ?? flow.whole
  const steps: Passing[] = []
  flow.pour({
    push: (some) => {
      append(steps, some)
      return true
    },
    end: () => {},
  })
  const theirs = same?.gather(steps.flatMap(({ frame }) => frame ?? [])) ?? null
  if (theirs !== null) return same?.passAnswer?.(theirs, context) ?? theirs
  return JSON.stringify(protocol.encodeAnswer(fold(steps.flatMap(({ events }) => events)), context))
}

/** The client is gone: whatever was opened for it is let go, and it is nobody's failure. */
const leave = (
  opened: Won | Lost,
  stream: ClientStream | null,
  reply: Reply,
  { request }: Question,
  record: Recorder,
  reason: Failure,
): void => {
  if (opened.ok) {
    record.used(usedBy(opened.flow, new InputCount(request)))
    opened.flow.abort()
    opened.ticket.release()
  }
  stream?.stop()
  reply.cut()
  record.end('client_gone', statusOf(reason), reason)
}

const contextFor = (world: World, question: Question, requestId: string, model: string): AnswerContext => ({
  request: question.request,
  body: question.body,
  model,
  requestId,
  created: Math.floor(world.date() / 1000),
  id: (prefix) => `${prefix}_${lettersOf(world, 24)}`,
})
