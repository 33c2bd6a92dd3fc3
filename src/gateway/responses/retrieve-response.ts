/** What can be done with an answer that is kept: shown, told again as a stream, its input listed, cancelled, deleted. */

import { type Failure, fail, good } from '../../core/failure.ts'
import type { IncomingRequest, ResponseWriter } from '../../core/http-exchange.ts'
import { isObject, type JsonObject, list, object, parseJson, text } from '../../core/json.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import type { StoredResponse } from '../../core/stored-response.ts'
import type { Cancel } from '../../core/world.ts'
import { writeFrame } from '../../protocols/framing/sse.ts'
import { openaiResponses } from '../../protocols/openai-responses/index.ts'
import { sendError } from '../call/error-response.ts'
import { randomLetters } from '../call/ids.ts'
import type { Gateway } from '../gateway.ts'
import type { BackgroundEvent, BackgroundResponse } from './background-response.ts'
import { conversation } from './conversation.ts'
import { eventsIn } from './recording-writer.ts'

type Page = (gateway: Gateway, received: IncomingRequest, reply: ResponseWriter, id: string) => Promise<void>

/** `GET /v1/responses/{id}`: as it stands, or with `stream=true` its events behind `starting_after`, those to come too. */
export const showResponse: Page = async (gateway, received, reply, id) => {
  const query = new URLSearchParams(received.query)
  const job = jobOf(gateway, received, id)
  const found = job ? good(undefined) : await gateway.responses.get(id, received.client)
  if (!found.ok) return refuse(received, reply, found.failure)
  const stored = found.value
  if (!job && !stored) return refuse(received, reply, unknown(id))
  if (query.get('stream') !== 'true') {
    if (job) return json(reply, received, JSON.stringify(job.response))
    return json(reply, received, stored?.response ?? '')
  }
  const after = query.get('starting_after')
  if (after !== null && !/^\d{1,15}$/.test(after))
    return refuse(
      received,
      reply,
      fail('invalid_value', '`starting_after` is the sequence_number of an event: a whole number.', {
        param: 'starting_after',
      }),
    )
  const from = after === null ? -1 : Number(after)
  if (job) return sendEvents(gateway, reply, job, from, received.id)
  // Another process that keeps its answers in the same place is at it, and its events are there until it is done.
  if (stored?.status === 'queued' || stored?.status === 'in_progress')
    return refuse(
      received,
      reply,
      fail('busy', 'This response is being answered by another process, and can be told as a stream once it is done.', {
        retryAfter: 1_000,
      }),
    )
  if (stored)
    sendEvents(
      gateway,
      reply,
      { events: eventsOf(gateway, stored), over: true, watch: () => () => {} },
      from,
      received.id,
    )
}

/** `GET /v1/responses/{id}/input_items`: everything the answer was given to, the turns before it too, newest first unless `order=asc`. */
export const listInput: Page = async (gateway, received, reply, id) => {
  const found = await conversation((one) => gateway.responses.turns(one, received.client), id)
  if (!found.ok) return refuse(received, reply, found.failure)
  const earlier = found.value.turns.slice(0, -1)
  const stored = found.value.turns.at(-1)
  if (!stored) return refuse(received, reply, unknown(id))
  const query = new URLSearchParams(received.query)
  const limit = Number(query.get('limit') ?? 20)
  const order = query.get('order') ?? 'desc'
  const wrong =
    !Number.isInteger(limit) || limit < 1 || limit > 100
      ? fail('invalid_value', '`limit` is a whole number from 1 to 100.', { param: 'limit' })
      : order !== 'asc' && order !== 'desc'
        ? fail('invalid_value', '`order` is `asc` or `desc`.', { param: 'order' })
        : null
  if (wrong) return refuse(received, reply, wrong)
  const all = [...earlier.flatMap((turn) => [...inputOf(turn), ...outputOf(turn)]), ...inputOf(stored)]
  const items = order === 'asc' ? all : all.toReversed()
  const place = (name: string) => {
    const wanted = query.get(name)
    return wanted === null ? undefined : items.findIndex((item) => item.id === wanted)
  }
  const after = place('after')
  const before = place('before')
  if (after === -1 || before === -1)
    return refuse(
      received,
      reply,
      fail('invalid_value', 'There is no item of that id in the input of this response.', {
        param: after === -1 ? 'after' : 'before',
      }),
    )
  const rest = items.slice(after === undefined ? 0 : after + 1, before)
  const data = rest.slice(0, limit)
  const page: JsonObject = {
    object: 'list',
    data,
    first_id: text(data[0]?.id) ?? '',
    last_id: text(data.at(-1)?.id) ?? '',
    has_more: rest.length > data.length,
  }
  json(reply, received, JSON.stringify(page))
}

/** `POST /v1/responses/{id}/cancel`: ends one that is answered in the background; one that has ended stays as it is. */
export const cancelResponse: Page = async (gateway, received, reply, id) => {
  const job = jobOf(gateway, received, id)
  if (job) {
    await job.cancel()
    return json(reply, received, JSON.stringify(job.response))
  }
  const found = await gateway.responses.get(id, received.client)
  if (!found.ok) return refuse(received, reply, found.failure)
  const stored = found.value
  if (!stored) return refuse(received, reply, unknown(id))
  if (object(parseJson(stored.response))?.background !== true)
    return refuse(
      received,
      reply,
      fail(
        'invalid_request',
        'Only a response that is answered in the background (`background: true`) can be cancelled.',
      ),
    )
  json(reply, received, stored.response)
}

/** `DELETE /v1/responses/{id}`: what continued it cannot be continued any more. */
export const deleteResponse: Page = async (gateway, received, reply, id) => {
  const job = jobOf(gateway, received, id)
  await job?.cancel()
  const deleted = await gateway.responses.delete(id, received.client)
  if (!deleted.ok) return refuse(received, reply, deleted.failure)
  if (!deleted.value) return refuse(received, reply, unknown(id))
  if (job) gateway.jobs.delete(id)
  json(reply, received, JSON.stringify({ id, object: 'response', deleted: true }))
}

const inputOf = ({ input }: StoredResponse): readonly JsonObject[] => list(parseJson(input)).filter(isObject)
const outputOf = ({ response }: StoredResponse): readonly JsonObject[] =>
  list(object(parseJson(response))?.output).filter(isObject)

const jobOf = ({ jobs }: Gateway, { client }: IncomingRequest, id: string): BackgroundResponse | undefined => {
  const job = jobs.get(id)
  return job?.owner === client ? job : undefined
}

const unknown = (id: string): Failure =>
  fail(
    'unknown_response',
    `Response with id ${JSON.stringify(id.slice(0, 100))} not found: it was never stored, has expired, or is another client's.`,
  )

const json = (reply: ResponseWriter, { id }: IncomingRequest, body: string): void => {
  reply.head(200, { 'content-type': 'application/json', 'x-request-id': id })
  reply.end(body)
}

const refuse = ({ id }: IncomingRequest, reply: ResponseWriter, failure: Failure): void =>
  sendError({ protocol: openaiResponses, reply, requestId: id }, failure)

// ── As a stream ──────────────────────────────────────────────────────────────────────────────────────────────────

/** The events a stored answer came with, or those it would have come with. */
const eventsOf = ({ world }: Gateway, { response, events }: StoredResponse): readonly BackgroundEvent[] => {
  const said = events?.split('\n') ?? []
  const read = said.length > 0 ? said.map((line) => object(parseJson(line))) : toldAgain(world, response)
  return read.flatMap((event, at) => {
    if (!event) return []
    const number = typeof event.sequence_number === 'number' ? event.sequence_number : at
    return [{ number, type: text(event.type) ?? '', data: JSON.stringify(event) }]
  })
}

/** A response that is an answer's whole record, written as the stream that would have ended with it. */
const toldAgain = (world: Gateway['world'], source: string): readonly JsonObject[] => {
  const body = object(parseJson(source)) ?? {}
  const request = openaiResponses.decodeRequest({ model: text(body.model) ?? '', input: '' })
  if (!request.ok) return []
  const context: AnswerContext = {
    request: request.value,
    body,
    model: text(body.model) ?? '',
    created: typeof body.created_at === 'number' ? body.created_at : 0,
    id: (prefix) => `${prefix}_${randomLetters(world, 24)}`,
    kept: {
      id: text(body.id) ?? '',
      previous: text(body.previous_response_id) ?? null,
      store: body.store === true,
      background: body.background === true,
    },
  }
  const writer = openaiResponses.encodeStream(context)
  const told = [...writer.push({ events: openaiResponses.decodeAnswer(body) }), ...writer.end()]
  const events = told.flatMap(eventsIn)
  // Its last word is the record itself, with the ids it has been shown under.
  return events.map((event) => (LAST.has(text(event.type) ?? '') ? { ...event, response: body } : event))
}

const LAST = new Set(['response.completed', 'response.incomplete', 'response.failed'])

const HEAD = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache',
  'x-accel-buffering': 'no',
}

type Told = Pick<BackgroundResponse, 'events' | 'over' | 'watch'>

/** Writes the events behind a number, as fast as the client reads, until the last. */
export const sendEvents = (
  { world, config }: Pick<Gateway, 'world' | 'config'>,
  reply: ResponseWriter,
  told: Told,
  after: number,
  requestId: string,
): void => {
  reply.head(200, { ...HEAD, 'x-request-id': requestId, 'x-headgate-attempts': '0' })
  const { keepAlive, timeout } = config().settings
  const { interval } = keepAlive
  let at = 0
  let full = false
  let ended = false
  let quiet: Cancel = () => {}
  let patient: Cancel = () => {}
  const write = (text: string) => {
    if (reply.write(text)) return
    full = true
    if (timeout.clientWrite > 0)
      patient = world.later(timeout.clientWrite, () => {
        end()
        reply.cut()
      })
  }
  const rest = () => {
    quiet()
    if (interval > 0 && !ended)
      quiet = world.later(interval, () => {
        if (!full) write(': ping\n')
        rest()
      })
  }
  const end = () => {
    ended = true
    quiet()
    patient()
    leave()
  }
  const go = () => {
    while (!full && !ended && at < told.events.length) {
      const event = told.events[at++]
      if (event && event.number > after) write(writeFrame(event.type, event.data))
    }
    if (ended || full || !told.over || at < told.events.length) return rest()
    end()
    reply.end(writeFrame(undefined, '[DONE]'))
  }
  const leave = told.watch(go)
  reply.onDrain(() => {
    full = false
    patient()
    go()
  })
  reply.onGone(end)
  go()
}
