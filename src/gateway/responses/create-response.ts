/** A call of the responses style: a turn of a conversation that is kept here, answered now or in the background. */

import type { ChatEvent } from '../../core/chat.ts'
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
import { keepsResponses } from '../../policy/routing/choose-protocol.ts'
import { usable } from '../../policy/routing/models.ts'
import { openaiResponses } from '../../protocols/openai-responses/index.ts'
import { failedResponse, pendingResponse } from '../../protocols/openai-responses/pending-response.ts'
import { sendUntried } from '../call/error-response.ts'
import { randomLetters } from '../call/ids.ts'
import { Recorder, writeAndRecordError } from '../call/recorder.ts'
import { serveChat } from '../chat/serve-chat.ts'
import type { Gateway } from '../gateway.ts'
import type { InboundRequest } from '../upstream/outbound-request.ts'
import { parseLargeRequest } from '../upstream/parse-request.ts'
import { BackgroundResponse } from './background-response.ts'
import { type ConversationTurn, newId, type TurnDeps, type TurnOptions, turnFor } from './conversation.ts'
import { RecordingWriter } from './recording-writer.ts'
import { sendEvents } from './retrieve-response.ts'

/** `connection`: what this connection remembers of its own turns, where there is such a thing. */
export const createResponse = (
  gateway: Gateway,
  received: IncomingRequest,
  reply: ResponseWriter,
  connection?: MemoryStore,
): Promise<void> => {
  const world = turnWorld(gateway, received, connection)
  // A search first: few requests contain these names, and `answer` parses the body anyway.
  const { body } = received
  if (!body.includes('"background"') && !(connection && body.includes('"generate"')))
    return answer(gateway, world, received, reply)
  const choose = (asked: JsonObject | undefined): Promise<void> => {
    if (asked?.background === true) return inBackground(gateway, world, received, reply)
    if (connection && asked?.generate === false) return prepareTurn(gateway, world, received, reply)
    return answer(gateway, world, received, reply)
  }
  if (body.length <= PIECE) return choose(parseObject(body))
  return inTurns(readLarge(body, DEEPEST), world.loopTurn).then((read) =>
    choose(object(read.ok ? read.value : undefined)),
  )
}

/** Resolves when the client has received the answer: its end may wait for the store after the call is over. */
const answer = (gateway: Gateway, world: TurnDeps, received: IncomingRequest, reply: ResponseWriter): Promise<void> => {
  const storing: Storing = { reply: null }
  const called = serveChat(gateway, openaiResponses, received, reply, async (question) => {
    const turn = await begin(world, question, { id: newId(world), background: false })
    if (!turn.ok) return turn
    const kept = turn.value.recordingWriter(reply)
    if (kept instanceof RecordingWriter) storing.reply = kept
    return good({ turn: turn.value, reply: kept })
  })
  return called.then(settled(storing))
}

type Storing = { reply: RecordingWriter | null }

/** A function of its own, so that an open stream keeps nothing of its request in memory. */
const settled =
  (storing: Storing): (() => Promise<void>) =>
  async () => {
    await storing.reply?.settled
  }

const begin = async (
  world: TurnDeps,
  question: InboundRequest,
  options: TurnOptions,
): Promise<Outcome<ConversationTurn>> => {
  const turn = await turnFor(world, question, options)
  const previous = question.body.previous_response_id
  // A client whose continuation failed starts again without what its connection remembers.
  if (!turn.ok && typeof previous === 'string') world.stores.connection?.delete(previous, world.owner)
  return turn
}

const turnWorld = (gateway: Gateway, { client }: IncomingRequest, connection: MemoryStore | undefined): TurnDeps => {
  const { world, responses } = gateway
  const config = gateway.config()
  const durable = config.settings.responses.keepDays > 0 ? responses : null
  return {
    stores: connection ? { durable, connection } : { durable },
    owner: client,
    limits: config.settings.limit,
    loopTurn: world.turn,
    letters: (length) => randomLetters(world, length),
    created: Math.floor(world.date() / 1000),
    othersMayKnow: usable(config).some(keepsResponses),
  }
}

/** Characters of events those under way may have said before no other is begun; beyond twice as many none says more. */
const MOST_SAID = 256 * 1024 * 1024

const saidBy = (jobs: Gateway['jobs']): number => jobs.values().reduce((sum, { size }) => sum + size, 0)

/** ms before the answer of a background job that could not be stored is written again: doubled each time, up to the longest. */
const RETRY = { first: 1_000, longest: 60_000 }
/** Attempts to store it, in about 10 minutes. */
const TRIES = 16

/**
 * Answers at once with the queued response, or with its events from the first on, and goes on without the client. The
 * road is asked for a stream, whatever the client wants: so it can be watched, and is never waited for in vain.
 */
const inBackground = async (
  gateway: Gateway,
  world: TurnDeps,
  received: IncomingRequest,
  reply: ResponseWriter,
): Promise<void> => {
  const refuse = (failure: Failure) => {
    const record = new Recorder(gateway, received, openaiResponses.style)
    writeAndRecordError({ protocol: openaiResponses, reply, record }, failure, null)
  }
  const options = { id: newId(world), background: true }
  const asked = await parseLargeRequest(openaiResponses, received, world.limits, world.loopTurn)
  if (!asked.ok) return refuse(asked.failure)
  const names = repeating(world.letters)
  const unfit = notStorable(world, asked.value)
  if (unfit) return refuse(unfit)
  const begun = await begin({ ...world, letters: names() }, asked.value, options)
  if (!begun.ok) return refuse(begun.failure)
  let turn = begun.value
  const { jobs } = gateway
  if (jobs.size >= gateway.config().settings.limit.concurrent)
    return refuse(fail('busy', 'As many responses are answered in the background as may be (limit.concurrent).'))
  if (saidBy(jobs) > MOST_SAID)
    return refuse(fail('busy', 'The responses being answered in the background take all the memory they may.'))

  const context = contextOf(gateway.world, turn, received)
  const queued = pendingResponse(context, 'queued')
  const job = new BackgroundResponse({
    owner: received.client,
    queued,
    failed: (failure) => failedResponse(context, failure),
    room: () => saidBy(jobs) <= 2 * MOST_SAID,
    keep: async (response, status, events) => {
      const source = JSON.stringify(response)
      if (status === 'in_progress') return void (await turn.keep(source, status, null))
      const all = events.map(({ data }) => data).join('\n')
      // Until it is stored the response is served from this job: the store still has it in progress.
      const store = async (tries: number, wait: number): Promise<void> => {
        if (!jobs.has(options.id)) return
        const failure = await turn.keep(source, status, all)
        if (!failure || tries === 1) jobs.delete(options.id)
        else gateway.world.later(wait, () => void store(tries - 1, Math.min(2 * wait, RETRY.longest)))
      }
      await store(TRIES, RETRY.first)
    },
  })
  jobs.set(options.id, job)
  const unkept = await turn.keep(JSON.stringify(queued), 'queued', null)
  if (unkept) {
    jobs.delete(options.id)
    return refuse(unkept)
  }
  const { background: _, stream: __, stream_options: ___, ...rest } = asked.value.body
  const streamed = { ...rest, stream: true }
  const isLarge = received.body.length > PIECE
  const body = isLarge ? (await inTurns(writeLarge(streamed), world.loopTurn)).text : JSON.stringify(streamed)
  const away: IncomingRequest = { ...received, body }
  void serveChat(gateway, openaiResponses, away, job, async (question) => {
    const again = await turnFor({ ...world, letters: names() }, question, options)
    if (!again.ok) return again
    // The turn that is answered records which target did.
    turn = again.value
    return good({ turn, reply: job })
  })

  if (asked.value.request.stream) return sendEvents(gateway, reply, job, -1, received.id)
  reply.head(200, { 'content-type': 'application/json', 'x-request-id': received.id, 'x-headgate-attempts': '0' })
  reply.end(JSON.stringify(queued))
}

/**
 * `generate: false`, OpenAI's way to send ahead on a connection what the next turn will continue (Codex does so while its
 * user still types): kept like any turn, with an empty answer, and nobody is asked.
 */
const prepareTurn = async (
  gateway: Gateway,
  world: TurnDeps,
  received: IncomingRequest,
  reply: ResponseWriter,
): Promise<void> => {
  const body = parseObject(received.body) ?? {}
  // Codex sends its instructions and tools ahead, and no question yet.
  const nothing = body.input === undefined || (Array.isArray(body.input) && body.input.length === 0)
  const source = nothing ? JSON.stringify({ ...body, input: '' }) : received.body
  const asked = await parseLargeRequest(openaiResponses, { ...received, body: source }, world.limits, world.loopTurn)
  if (!asked.ok) return sendUntried({ protocol: openaiResponses, reply, requestId: received.id }, asked.failure)
  const question = nothing ? { ...asked.value, body: { ...asked.value.body, input: [] } } : asked.value
  const begun = await begin(world, question, { id: newId(world), background: false })
  if (!begun.ok) return sendUntried({ protocol: openaiResponses, reply, requestId: received.id }, begun.failure)
  const writer = openaiResponses.encodeStream(contextOf(gateway.world, begun.value, received))
  const usage = { input: 0, output: 0 }
  const events: readonly ChatEvent[] = [
    { type: 'start' },
    { type: 'usage', usage },
    { type: 'finish', finish: { kind: 'stop', raw: null } },
  ]
  const kept = begun.value.recordingWriter(reply)
  kept.head(200, { 'content-type': 'text/event-stream; charset=utf-8', 'x-request-id': received.id })
  kept.end([...writer.push({ events }), ...writer.end()].join(''))
  if (kept instanceof RecordingWriter) await kept.settled
}

/** The same letters each time from the beginning: a question read again gives its items the ids they are listed under. */
const repeating = (letters: TurnDeps['letters']): (() => TurnDeps['letters']) => {
  const made: string[] = []
  return () => {
    let at = 0
    return (length) => {
      const found = made[at] ?? letters(length)
      made[at++] = found
      return found
    }
  }
}

/** Why a background response is refused: what is not stored cannot be retrieved later. */
const notStorable = (world: TurnDeps, { body }: InboundRequest): Failure | null => {
  const param = 'background'
  if (!world.stores.durable)
    return fail(
      'unsupported',
      'Nothing is kept here (responses.keepDays is 0), so nothing can be answered in the background.',
      { param },
    )
  if (body.store === false)
    return fail('invalid_value', '`background: true` needs the response to be stored: leave out `store: false`.', {
      param,
    })
  return null
}

const contextOf = (world: World, turn: ConversationTurn, received: IncomingRequest): AnswerContext => ({
  request: turn.question.request,
  body: turn.question.body,
  model: turn.question.request.model,
  requestId: received.id,
  created: Math.floor(world.date() / 1000),
  id: (prefix) => `${prefix}_${randomLetters(world, 24)}`,
  kept: turn.kept,
})
