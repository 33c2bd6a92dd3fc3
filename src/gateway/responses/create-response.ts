/** `POST /v1/responses`: a turn of a stored conversation, answered at once or in the background. */

import type { ChatEvent } from '../../core/chat.ts'
import type { EncodedText } from '../../core/encoded-text.ts'
import { type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import type { IncomingRequest, ResponseWriter } from '../../core/http-exchange.ts'
import { type JsonObject, object, parseObject } from '../../core/json.ts'
import { DEEPEST } from '../../core/json-text.ts'
import { readLarge } from '../../core/large-json.ts'
import { writeLarge } from '../../core/large-write.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import { inTurns, PIECE } from '../../core/steps.ts'
import type { MemoryStore } from '../../core/stored-response.ts'
import type { World } from '../../core/world.ts'
import { namedUsers } from '../../policy/accounts/blocked-users.ts'
import { storesAnswersIn } from '../../policy/routing/choose-protocol.ts'
import { usableInstances } from '../../policy/routing/models.ts'
import { protocols } from '../../protocols/index.ts'
import { failedResponse, pendingResponse } from '../../protocols/openai-responses/encode-answer.ts'
import { sendUntried } from '../call/error-response.ts'
import { randomLetters } from '../call/ids.ts'
import { Recorder, writeAndRecordError } from '../call/recorder.ts'
import { serveChat } from '../chat/serve-chat.ts'
import { planFor } from '../routing/planner.ts'
import type { InboundRequest } from '../upstream/outbound-request.ts'
import { parseInTurns } from '../upstream/parse-request.ts'
import type { ResponsesDeps } from './background-response.ts'
import { BackgroundResponse } from './background-response.ts'
import { type ConversationTurn, newId, type TurnDeps, type TurnOptions, turnFor } from './conversation.ts'
import { storedRefusal } from './conversation-history.ts'
import { RecordingWriter } from './recording-writer.ts'
import { sendEvents } from './retrieve-response.ts'

const { 'openai-responses': openaiResponses } = protocols

/**
 * Serves a request for a response. `connection`: the turns of this WebSocket connection that are not stored durably.
 * Resolves when the answer has been sent.
 */
export const createResponse = (
  gateway: ResponsesDeps,
  received: IncomingRequest,
  responseWriter: ResponseWriter,
  connection?: MemoryStore,
): Promise<void> => {
  const call: ResponseCall = { gateway, deps: turnDeps(gateway, received, connection), received, responseWriter }
  // A text search first: few requests contain these names, and the body is parsed later anyway.
  const { text: body } = received.body
  if (!body.includes('"background"') && !(connection && body.includes('"generate"'))) return answerNow(call)
  const choose = (parsed: JsonObject | undefined): Promise<void> => {
    if (parsed?.background === true) return answerInBackground(call)
    if (connection && parsed?.generate === false) return prepareTurn(call)
    return answerNow(call)
  }
  if (body.length <= PIECE) return choose(parseObject(body))
  return inTurns(readLarge(body, DEEPEST), call.deps.loopTurn).then((read) =>
    choose(object(read.ok ? read.value : undefined)),
  )
}

type ResponseCall = {
  readonly gateway: ResponsesDeps
  readonly deps: TurnDeps
  readonly received: IncomingRequest
  readonly responseWriter: ResponseWriter
}

/** Resolves when the client has received the answer: its end may wait for the store after the call is over. */
const answerNow = ({ gateway, deps, received, responseWriter }: ResponseCall): Promise<void> => {
  const pending: PendingStorage = { writer: null }
  const startTurn = async (inbound: InboundRequest) => {
    const turn = await startedTurn(deps, inbound, { id: newId(deps), background: false })
    if (!turn.ok) return turn
    const writer = turn.value.recordingWriter(responseWriter)
    if (writer instanceof RecordingWriter) pending.writer = writer
    return good({ turn: turn.value, responseWriter: writer })
  }
  return serveChat(gateway, { protocol: openaiResponses, received, responseWriter, startTurn }).then(settled(pending))
}

type PendingStorage = { writer: RecordingWriter | null }

/** A separate function, so that its closure does not keep the request of an open stream in memory. */
const settled =
  (pending: PendingStorage): (() => Promise<void>) =>
  async () => {
    await pending.writer?.settled
  }

const startedTurn = async (
  deps: TurnDeps,
  inbound: InboundRequest,
  options: TurnOptions,
): Promise<Outcome<ConversationTurn>> => {
  const turn = await turnFor(deps, inbound, options)
  const previous = inbound.body.previous_response_id
  // A client whose continuation failed starts again: the connection's record is no longer trusted.
  if (!turn.ok && typeof previous === 'string') deps.stores.connection?.delete(previous, deps.owner)
  return turn
}

/** Adds the earlier turns that a request continues. Nothing is stored. */
export const withHistoryFrom =
  (gateway: ResponsesDeps, received: IncomingRequest) =>
  async (inbound: InboundRequest): Promise<Outcome<InboundRequest>> => {
    const deps = turnDeps(gateway, received, undefined)
    const turn = await turnFor(deps, inbound, { id: newId(deps), background: false })
    return turn.ok ? good(turn.value.inbound) : turn
  }

const turnDeps = (gateway: ResponsesDeps, received: IncomingRequest, connection: MemoryStore | undefined): TurnDeps => {
  const { world, responses, health } = gateway
  const { owner } = received.client
  const config = gateway.config()
  const durable = config.settings.responses.keepDays > 0 ? responses : null
  return {
    stores: { durable, refusalOf: storedRefusal(gateway, received), ...(connection && { connection }) },
    owner,
    limits: config.settings.limit,
    loopTurn: world.turn,
    randomLetters: (length) => randomLetters(world, length),
    created: Math.floor(world.date() / 1000),
    upstreamMayStore: usableInstances(config).some((instance) => storesAnswersIn(openaiResponses, instance)),
    noteIssuer: (value, issuer) => {
      const instance = config.instances.find(({ id }) => id === issuer)
      if (instance) health.issuers.note({ origin: openaiResponses.name, value }, instance)
    },
  }
}

/**
 * Soft limit on the characters of buffered background events: above it no further background response starts. At twice
 * this, responses in progress are aborted.
 */
const MAX_BUFFERED = 256 * 1024 * 1024

const bufferedBy = (jobs: ResponsesDeps['jobs']): number => jobs.values().reduce((sum, { size }) => sum + size, 0)

/** ms before a failed write to the store is retried, doubled each time. */
const STORE_RETRY = { first: 1_000, longest: 60_000 }
/** Attempts to store a background response, within about 10 minutes. */
const STORE_ATTEMPTS = 16

/**
 * Answers at once with the queued response, or with its events as they come, and continues without the client. The
 * upstream call always streams, so that the events can be followed and the stream timeouts apply.
 */
const answerInBackground = async (call: ResponseCall): Promise<void> => {
  const { gateway, deps, received, responseWriter } = call
  const refuse = (failure: Failure) => {
    const recorder = new Recorder(gateway, received, { protocol: openaiResponses, style: openaiResponses.style })
    if (parsed.ok) {
      const { request, body: members } = parsed.value
      recorder.received({ model: request.model, stream: request.stream, members })
    }
    writeAndRecordError({ protocol: openaiResponses, responseWriter, recorder }, failure, null)
  }
  const parsed = await parseInTurns(openaiResponses, received, deps.limits, deps.loopTurn)
  if (!parsed.ok) return refuse(parsed.failure)
  const { model } = parsed.value.request
  const { client } = received
  const planned = planFor(gateway, gateway.config(), { model, style: openaiResponses.style, client })
  // Otherwise only the stored response would contain the error.
  const plan = planned.ok ? planned.value : null
  const limited = await gateway.accounts.refusal(received, openaiResponses.style, { members: parsed.value.body, plan })
  if (limited) return refuse(limited)
  const notStorable = storageProblem(deps, parsed.value)
  if (notStorable) return refuse(notStorable)
  if (!planned.ok) return refuse(planned.failure)
  const options = { id: newId(deps), background: true }
  const replay = replayedLetters(deps.randomLetters)
  const started = await startedTurn({ ...deps, randomLetters: replay() }, parsed.value, options)
  if (!started.ok) return refuse(started.failure)
  const { jobs } = gateway
  const full = capacityProblem(gateway)
  if (full) return refuse(full)

  const current = { turn: started.value }
  const context = contextOf(gateway.world, current.turn, received)
  const queued = pendingResponse(context, 'queued')
  const job = new BackgroundResponse({
    owner: received.client.owner,
    users: namedUsers(parsed.value.body),
    queued,
    failed: (failure) => failedResponse(context, failure),
    hasRoom: () => bufferedBy(jobs) <= 2 * MAX_BUFFERED,
    save: saverOf(gateway, options.id, current),
  })
  jobs.set(options.id, job)
  const notStored = await current.turn.save({ response: JSON.stringify(queued), status: 'queued', events: null })
  if (notStored) {
    jobs.delete(options.id)
    return refuse(notStored)
  }
  const body = await streamedBody(call, parsed.value)
  void serveChat(gateway, {
    protocol: openaiResponses,
    received: { ...received, body },
    responseWriter: job,
    startTurn: async (inbound) => {
      const turn = await turnFor({ ...deps, randomLetters: replay() }, inbound, options)
      if (!turn.ok) return turn
      // The later steps need this turn, not the first one: it receives the target that answers.
      current.turn = turn.value
      return good({ turn: turn.value, responseWriter: job })
    },
  })

  if (parsed.value.request.stream)
    return sendEvents(gateway, { responseWriter, source: job, after: -1, requestId: received.id })
  responseWriter.writeHead(200, {
    'content-type': 'application/json',
    'x-request-id': received.id,
    // No attempt has started yet.
    'x-headgate-attempts': '0',
  })
  responseWriter.end(JSON.stringify(queued))
}

/** Why no further background response may start; null: one may. */
const capacityProblem = ({ jobs, config }: ResponsesDeps): Failure | null => {
  const { concurrent } = config().settings.limit
  if (jobs.size >= concurrent)
    return fail('busy', `Too many background responses in progress (limit.concurrent is ${concurrent}). Retry later.`)
  if (bufferedBy(jobs) > MAX_BUFFERED)
    return fail(
      'busy',
      `Background responses in progress use too much memory (limit ${MAX_BUFFERED} characters of events). Retry later.`,
    )
  return null
}

/**
 * Stores each state of a background response. Resolves after the first attempt: a failed write of the end is retried by a
 * timer. The job is removed when its end is stored, or after the last attempt.
 */
const saverOf =
  (
    { world, jobs }: ResponsesDeps,
    id: string,
    current: { readonly turn: ConversationTurn },
  ): ConstructorParameters<typeof BackgroundResponse>[0]['save'] =>
  async (value, status, events) => {
    const response = JSON.stringify(value)
    if (status === 'in_progress') return void (await current.turn.save({ response, status, events: null }))
    const lines = events.map(({ data }) => data).join('\n')
    // Until its end is stored the response is served from the job: the store still has it in progress.
    const store = async (attempts: number, wait: number): Promise<void> => {
      if (!jobs.has(id)) return
      const failure = await current.turn.save({ response, status, events: lines })
      if (!failure || attempts === 1) jobs.delete(id)
      else world.later(wait, () => void store(attempts - 1, Math.min(2 * wait, STORE_RETRY.longest)))
    }
    await store(STORE_ATTEMPTS, STORE_RETRY.first)
  }

/** The body of a background request as a plain streaming request. */
const streamedBody = async ({ deps, received }: ResponseCall, inbound: InboundRequest): Promise<EncodedText> => {
  const { background: _, stream: __, stream_options: ___, ...rest } = inbound.body
  const streamed = { ...rest, stream: true }
  if (received.body.text.length <= PIECE) return { text: JSON.stringify(streamed) }
  return inTurns(writeLarge(streamed), deps.loopTurn)
}

/**
 * `generate: false`: OpenAI's way to send a part of the next turn in advance (Codex does so while its user types).
 * Stored like any turn, with an empty answer; no upstream is called.
 */
const prepareTurn = async ({ gateway, deps, received, responseWriter }: ResponseCall): Promise<void> => {
  const refuse = (failure: Failure) =>
    sendUntried({ protocol: openaiResponses, responseWriter, requestId: received.id }, failure)
  const body = parseObject(received.body.text) ?? {}
  // Codex sends its instructions and tools in advance, without input, which the decoder requires.
  const isEmpty = body.input === undefined || (Array.isArray(body.input) && body.input.length === 0)
  const source = isEmpty ? { text: JSON.stringify({ ...body, input: '' }) } : received.body
  const parsed = await parseInTurns(openaiResponses, { ...received, body: source }, deps.limits, deps.loopTurn)
  if (!parsed.ok) return refuse(parsed.failure)
  const blocked = gateway.accounts.blockOf(received.client, namedUsers(parsed.value.body))
  if (blocked) return refuse(blocked)
  const inbound = isEmpty ? { ...parsed.value, body: { ...parsed.value.body, input: [] } } : parsed.value
  const turn = await startedTurn(deps, inbound, { id: newId(deps), background: false })
  if (!turn.ok) return refuse(turn.failure)
  const encoder = openaiResponses.encodeStream(contextOf(gateway.world, turn.value, received))
  const events: readonly ChatEvent[] = [
    { type: 'start' },
    { type: 'usage', usage: { input: 0, output: 0 } },
    { type: 'finish', finish: { kind: 'stop', raw: null } },
  ]
  const writer = turn.value.recordingWriter(responseWriter)
  writer.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'x-request-id': received.id })
  writer.end([...encoder.push({ events }), ...encoder.end()].join(''))
  if (writer instanceof RecordingWriter) await writer.settled
}

/** Each returned function replays the same letters: a request parsed twice gives its items the same ids. */
const replayedLetters = (randomLetters: TurnDeps['randomLetters']): (() => TurnDeps['randomLetters']) => {
  const made: string[] = []
  return () => {
    let at = 0
    return (length) => {
      const letters = made[at] ?? randomLetters(length)
      made[at++] = letters
      return letters
    }
  }
}

/** Why a background response is refused; null: it can be stored, and so retrieved later. */
const storageProblem = ({ stores }: TurnDeps, { body }: InboundRequest): Failure | null => {
  const param = 'background'
  if (!stores.durable)
    return fail(
      'unsupported',
      '`background: true` needs stored responses, which this gateway has disabled (responses.keepDays is 0).',
      { param },
    )
  if (body.store === false)
    return fail('invalid_value', '`background: true` needs a stored response. Leave out `store: false`.', { param })
  return null
}

const contextOf = (world: World, turn: ConversationTurn, received: IncomingRequest): AnswerContext => ({
  request: turn.inbound.request,
  body: turn.inbound.body,
  model: turn.inbound.request.model,
  requestId: received.id,
  created: Math.floor(world.date() / 1000),
  id: (prefix) => `${prefix}_${randomLetters(world, 24)}`,
  storage: turn.storage,
})
