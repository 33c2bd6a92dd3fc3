/** Stored and background responses by id: retrieve, replay as a stream, list input, cancel, delete. */

import { bad, type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import type { IncomingRequest, ResponseWriter } from '../../core/http-exchange.ts'
import { isObject, type JsonObject, list, object, parseJson, text } from '../../core/json.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import type { Settings } from '../../core/settings.ts'
import type { StoredResponse } from '../../core/stored-response.ts'
import type { Cancel, World } from '../../core/world.ts'
import { writeFrame } from '../../protocols/framing/sse.ts'
import { openaiResponses } from '../../protocols/openai-responses/index.ts'
import { sendError } from '../call/error-response.ts'
import { randomLetters } from '../call/ids.ts'
import { streamHeaders } from '../chat/client-writer.ts'
import type { BackgroundEvent } from './background-events.ts'
import type { BackgroundResponse, ResponsesDeps } from './background-response.ts'
import { findTurnsIn, readHistory, storedRefusal } from './conversation-history.ts'
import { FollowedResponse } from './followed-response.ts'
import { eventsIn, isFinal } from './recording-writer.ts'

type ResponseHandler = (
  gateway: ResponsesDeps,
  received: IncomingRequest,
  responseWriter: ResponseWriter,
  id: string,
) => Promise<void>

/** What the client receives: JSON, or events to stream. */
type ResponseBody = string | Pick<EventsToSend, 'source' | 'after'>

/** Reads or changes the response with this id. */
type ResponseOperation = (
  gateway: ResponsesDeps,
  received: IncomingRequest,
  id: string,
) => Promise<Outcome<ResponseBody>>

/** A handler that runs the operation and sends its result. */
const handlerOf =
  (operation: ResponseOperation): ResponseHandler =>
  async (gateway, received, responseWriter, id) => {
    const requestId = received.id
    const result = await operation(gateway, received, id)
    if (!result.ok) return sendError({ protocol: openaiResponses, responseWriter, requestId }, result.failure)
    if (typeof result.value !== 'string') return sendEvents(gateway, { responseWriter, requestId, ...result.value })
    responseWriter.writeHead(200, { 'content-type': 'application/json', 'x-request-id': requestId })
    responseWriter.end(result.value)
  }

/**
 * `GET /v1/responses/{id}`: the response in its current state. With `stream=true` its events after `starting_after`, of a
 * background response also those still to come.
 */
export const showResponse = handlerOf(async (gateway, received, id) => {
  const query = new URLSearchParams(received.query)
  const isStream = query.get('stream') === 'true'
  const refusalOf = storedRefusal(gateway, received)
  const job = jobOf(gateway, received, id)
  if (job) {
    const refused = refusalOf(job)
    if (refused) return bad(refused)
    if (!isStream) return good(JSON.stringify(job.response))
    const after = startingAfter(query)
    if (!after.ok) return after
    // Other processes know then that it must not run again, with other events.
    if (gateway.responses.handsOver) void gateway.responses.ask(id, job.owner, 'follow')
    return good({ source: job, after: after.value })
  }
  const stored = await storedOf(gateway, received, id)
  if (!stored.ok) return stored
  const { response, status } = stored.value
  const refused = refusalOf(stored.value)
  if (refused) return bad(refused)
  if (!isStream) return good(response)
  const after = startingAfter(query)
  if (!after.ok) return after
  if (status === 'queued' || status === 'in_progress') {
    const { world, responses } = gateway
    const { owner } = received.client
    const source = new FollowedResponse({ id, owner, world, responses, eventsOf: (ended) => eventsOf(gateway, ended) })
    return good({ source, after: after.value })
  }
  const events = eventsOf(gateway, stored.value)
  return good({ source: { events, hasEnded: true, watch: watchNothing }, after: after.value })
})

/** The sequence number after which the stream begins; -1: from the first event. */
const startingAfter = (query: URLSearchParams): Outcome<number> => {
  const value = query.get('starting_after')
  if (value === null) return good(-1)
  return /^\d{1,15}$/.test(value)
    ? good(Number(value))
    : invalid('starting_after', '`starting_after` must be the sequence_number of an event: a whole number.')
}

/** `watch` of a stored response, which has ended and never changes. */
const watchNothing: EventsToSend['source']['watch'] = () => () => {}

/**
 * `GET /v1/responses/{id}/input_items`: all items the answer depends on, earlier turns included, newest first unless
 * `order=asc`.
 */
export const listInput = handlerOf(async (gateway, received, id) => {
  const stores = { durable: gateway.responses, refusalOf: storedRefusal(gateway, received) }
  const history = await readHistory(findTurnsIn(stores, received.client.owner), id)
  if (!history.ok) return history
  const earlier = history.value.turns.slice(0, -1)
  const stored = history.value.turns.at(-1)
  if (!stored) return notFound(id)
  const query = new URLSearchParams(received.query)
  const limit = Number(query.get('limit') ?? 20)
  const order = query.get('order') ?? 'desc'
  if (!Number.isInteger(limit) || limit < 1 || limit > 100)
    return invalid('limit', '`limit` must be a whole number from 1 to 100.')
  if (order !== 'asc' && order !== 'desc') return invalid('order', '`order` must be `asc` or `desc`.')
  const all = [...earlier.flatMap((turn) => [...inputOf(turn), ...outputOf(turn)]), ...inputOf(stored)]
  const items = order === 'asc' ? all : all.toReversed()
  const indexOf = (name: string) => {
    const itemId = query.get(name)
    return itemId === null ? undefined : items.findIndex((item) => item.id === itemId)
  }
  const after = indexOf('after')
  const before = indexOf('before')
  if (after === -1 || before === -1)
    return invalid(after === -1 ? 'after' : 'before', 'The input of this response has no item with this id.')
  const rest = items.slice(after === undefined ? 0 : after + 1, before)
  const data = rest.slice(0, limit)
  const page: JsonObject = {
    object: 'list',
    data,
    first_id: text(data[0]?.id) ?? '',
    last_id: text(data.at(-1)?.id) ?? '',
    has_more: rest.length > data.length,
  }
  return good(JSON.stringify(page))
})

/** `POST /v1/responses/{id}/cancel`: cancels a background response. One that has ended stays as it is. */
export const cancelResponse = handlerOf(async (gateway, received, id) => {
  const job = jobOf(gateway, received, id)
  if (job) {
    await job.cancel()
    return good(JSON.stringify(job.response))
  }
  const stopped = await stopElsewhere(gateway, received, id)
  if (stopped) return bad(stopped)
  const stored = await storedOf(gateway, received, id)
  if (!stored.ok) return stored
  const { response } = stored.value
  if (object(parseJson(response))?.background !== true)
    return bad(fail('invalid_request', 'Only a background response (`background: true`) can be cancelled.'))
  return good(response)
})

/** ms between two looks at a response that another process is to stop, and their number. */
const STOP = { interval: 100, looks: 50 }

/** Asks the process that runs the response to stop it, and waits for its end. One that does not end is ended when its process is gone. */
const stopElsewhere = async (
  { responses, world }: ResponsesDeps,
  { client }: IncomingRequest,
  id: string,
): Promise<Failure | null> => {
  const asked = await responses.ask(id, client.owner, 'stop')
  if (!asked.ok) return asked.failure
  if (!asked.value) return null
  for (let looks = 0; looks < STOP.looks; looks++) {
    await new Promise<void>((resolve) => void world.later(STOP.interval, resolve))
    const found = await responses.events(id, client.owner, Number.MAX_SAFE_INTEGER)
    if (!found.ok) return found.failure
    if (!found.value.isRunning) return null
  }
  return null
}

/** `DELETE /v1/responses/{id}`: deletes a response. Turns that continued it can no longer be continued. */
export const deleteResponse = handlerOf(async (gateway, received, id) => {
  const job = jobOf(gateway, received, id)
  // Its process would show it until it learns that it is gone.
  if (job) await job.cancel()
  else await stopElsewhere(gateway, received, id)
  const deleted = await gateway.responses.delete(id, received.client.owner)
  if (!deleted.ok) return deleted
  if (!deleted.value) return notFound(id)
  if (job) gateway.jobs.delete(id)
  return good(JSON.stringify({ id, object: 'response', deleted: true }))
})

/** The stored response with this id, or a failure. */
const storedOf = async (
  { responses }: ResponsesDeps,
  { client }: IncomingRequest,
  id: string,
): Promise<Outcome<StoredResponse>> => {
  const found = await responses.get(id, client.owner)
  if (!found.ok) return found
  return found.value ? good(found.value) : notFound(id)
}

const inputOf = ({ input }: StoredResponse): readonly JsonObject[] => list(parseJson(input)).filter(isObject)
const outputOf = ({ response }: StoredResponse): readonly JsonObject[] =>
  list(object(parseJson(response))?.output).filter(isObject)

const jobOf = ({ jobs }: ResponsesDeps, { client }: IncomingRequest, id: string): BackgroundResponse | undefined => {
  const job = jobs.get(id)
  return job?.owner === client.owner ? job : undefined
}

const notFound = (id: string) =>
  bad(
    fail(
      'unknown_response',
      `Response with id ${JSON.stringify(id.slice(0, 100))} not found: it was never stored, has expired, or belongs to another client.`,
    ),
  )

const invalid = (param: string, message: string) => bad(fail('invalid_value', message, { param }))

// ── Streams ──────────────────────────────────────────────────────────────────────────────────────────────────────

/** The stored events of a response, or equivalent events if it was not a stream. */
const eventsOf = ({ world }: ResponsesDeps, { response, events }: StoredResponse): readonly BackgroundEvent[] => {
  // Empty: a background response that was cancelled before its first event.
  const values = events ? events.split('\n').map((line) => object(parseJson(line))) : replayed(world, response)
  return values.flatMap((event, at) => {
    if (!event) return []
    const number = typeof event.sequence_number === 'number' ? event.sequence_number : at
    return [{ number, type: text(event.type) ?? '', data: JSON.stringify(event) }]
  })
}

/** The events of a stream that would have ended with this response. */
const replayed = (world: World, source: string): readonly JsonObject[] => {
  const body = object(parseJson(source)) ?? {}
  const request = openaiResponses.decodeRequest({ model: text(body.model) ?? '', input: '' })
  if (!request.ok) return []
  const context: AnswerContext = {
    request: request.value,
    body,
    model: text(body.model) ?? '',
    created: typeof body.created_at === 'number' ? body.created_at : 0,
    id: idsOf(body, world),
    storage: {
      id: text(body.id) ?? '',
      previous: text(body.previous_response_id) ?? null,
      store: body.store === true,
      background: body.background === true,
    },
  }
  const writer = openaiResponses.encodeStream(context)
  const frames = [...writer.push({ events: openaiResponses.decodeAnswer(body) }), ...writer.end()]
  // The final event has the response as stored, with the ids that clients have seen.
  return frames.flatMap(eventsIn).map((event) => (isFinal(event) ? { ...event, response: body } : event))
}

/** The ids of the stored items, in order; new ones for other things. */
const idsOf = (body: JsonObject, world: World): AnswerContext['id'] => {
  const known = Map.groupBy(
    list(body.output).flatMap((item) => text(object(item)?.id) ?? []),
    kindOf,
  )
  return (prefix) => known.get(kindOf(prefix))?.shift() ?? `${prefix}_${randomLetters(world, 24)}`
}

/** The first part of an id: `msg`, `rs`, `fc`. */
const kindOf = (id: string): string => id.split('_', 1)[0] ?? ''

/** The events to send, and where. */
export type EventsToSend = {
  readonly responseWriter: ResponseWriter
  readonly source: Pick<BackgroundResponse, 'events' | 'hasEnded' | 'watch'>
  /** Events up to this sequence number are left out. */
  readonly after: number
  readonly requestId: string
}

/** Streams the events of a response, as fast as the client reads, until the response has ended. */
export const sendEvents = ({ world, config }: Pick<ResponsesDeps, 'world' | 'config'>, pending: EventsToSend): void =>
  new EventSender(world, config().settings, pending).start()

class EventSender {
  readonly #world: World
  readonly #interval: number
  readonly #writeTimeout: number
  readonly #pending: EventsToSend
  /** Index of the next event. */
  #next = 0
  #full = false
  #ended = false
  #cancelPing: Cancel = () => {}
  #cancelTimeout: Cancel = () => {}
  #unwatch: () => void = () => {}

  constructor(world: World, { keepAlive, timeout }: Settings, pending: EventsToSend) {
    this.#world = world
    this.#interval = keepAlive.interval
    this.#writeTimeout = timeout.clientWrite
    this.#pending = pending
  }

  start(): void {
    const { responseWriter, source, requestId } = this.#pending
    // This request makes no attempt itself: it reads events that another call has made or is making.
    responseWriter.writeHead(200, { ...streamHeaders({}), 'x-request-id': requestId, 'x-headgate-attempts': '0' })
    this.#unwatch = source.watch(() => this.#advance())
    responseWriter.onDrain(() => {
      this.#full = false
      this.#cancelTimeout()
      this.#advance()
    })
    responseWriter.onDisconnect(() => this.#stop())
    this.#advance()
  }

  #advance(): void {
    const { responseWriter, source, after } = this.#pending
    while (!this.#full && !this.#ended && this.#next < source.events.length) {
      const event = source.events[this.#next++]
      if (event && event.number > after) this.#write(writeFrame(event.type, event.data))
    }
    if (this.#ended || this.#full || !source.hasEnded || this.#next < source.events.length) return this.#schedulePing()
    this.#stop()
    responseWriter.end(writeFrame(undefined, '[DONE]'))
  }

  #write(text: string): void {
    const { responseWriter } = this.#pending
    if (responseWriter.write(text)) return
    this.#full = true
    if (this.#writeTimeout <= 0) return
    this.#cancelTimeout = this.#world.later(this.#writeTimeout, () => {
      this.#stop()
      responseWriter.abort()
    })
  }

  #schedulePing(): void {
    this.#cancelPing()
    if (this.#interval <= 0 || this.#ended) return
    this.#cancelPing = this.#world.later(this.#interval, () => {
      if (!this.#full) this.#write(': ping\n')
      this.#schedulePing()
    })
  }

  #stop(): void {
    this.#ended = true
    this.#cancelPing()
    this.#cancelTimeout()
    this.#unwatch()
  }
}
