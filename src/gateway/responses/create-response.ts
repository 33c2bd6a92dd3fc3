/** `POST /v1/responses`: a turn of a stored conversation, answered at once or in the background. */

import type { ChatEvent } from '../../core/chat.ts'
import { type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import type { IncomingRequest, ResponseWriter } from '../../core/http-exchange.ts'
import { type JsonObject, object, parseObject } from '../../core/json.ts'
import { DEEPEST } from '../../core/json-text.ts'
import { readLarge } from '../../core/large-json.ts'
import { inTurns, PIECE } from '../../core/steps.ts'
import type { MemoryStore } from '../../core/stored-response.ts'
import { namedUsers } from '../../policy/accounts/blocked-users.ts'
import { protocols } from '../../protocols/index.ts'
import { pendingResponse } from '../../protocols/openai-responses/encode-answer.ts'
import { sendUntried } from '../call/error-response.ts'
import { Recorder, writeAndRecordError } from '../call/recorder.ts'
import { serveChat } from '../chat/serve-chat.ts'
import { planFor } from '../routing/planner.ts'
import type { InboundRequest } from '../upstream/outbound-request.ts'
import { parseInTurns } from '../upstream/parse-request.ts'
import type { ResponsesDeps } from './background-response.ts'
import { capacityProblem, ReplayedLetters, serveRun, startJob } from './background-run.ts'
import { type ConversationTurn, newId, type TurnDeps, type TurnOptions, turnFor } from './conversation.ts'
import { RecordingWriter } from './recording-writer.ts'
import { sendEvents } from './retrieve-response.ts'
import { mayRunAgain, storedRequest } from './run-again.ts'
import { contextOf, turnDeps } from './turn-deps.ts'

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
      recorder.received({ model: request.model, stream: request.stream, members, headers: received.headers })
    }
    writeAndRecordError({ protocol: openaiResponses, responseWriter, recorder }, failure, null)
  }
  const parsed = await parseInTurns(openaiResponses, received, deps.limits, deps.loopTurn)
  if (!parsed.ok) return refuse(parsed.failure)
  const { model } = parsed.value.request
  const { client, headers } = received
  // Earlier turns may decide about conditions: the run applies them.
  const wanted = { model, style: openaiResponses.style, client, headers, members: parsed.value.body, shape: null }
  const planned = planFor(gateway, gateway.config(), wanted)
  // Otherwise only the stored response would contain the error.
  const plan = planned.ok ? planned.value : null
  const limited = await gateway.accounts.refusal(received, openaiResponses.style, { members: parsed.value.body, plan })
  if (limited) return refuse(limited)
  const notStorable = storageProblem(deps, parsed.value)
  if (notStorable) return refuse(notStorable)
  if (!planned.ok) return refuse(planned.failure)
  const options = { id: newId(deps), background: true }
  const letters = new ReplayedLetters(deps.randomLetters)
  const started = await startedTurn({ ...deps, randomLetters: letters.replay() }, parsed.value, options)
  if (!started.ok) return refuse(started.failure)
  const full = capacityProblem(gateway)
  if (full) return refuse(full)

  const turn = started.value
  const queued = pendingResponse(contextOf(gateway.world, turn, received), 'queued')
  const inbound = parsed.value
  const isRepeatable = mayRunAgain(gateway, received, inbound)
  const run = { gateway, deps, received, inbound, options, letters, turn, queued, mayRunAgain: isRepeatable }
  const job = startJob(run)
  const again = isRepeatable ? () => storedRequest(received, letters) : undefined
  const notStored = await turn.save({ response: JSON.stringify(queued), status: 'queued', events: null, again })
  if (notStored) {
    gateway.jobs.delete(options.id)
    return refuse(notStored)
  }
  await serveRun(run, job)

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
