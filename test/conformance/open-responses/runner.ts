/**
 * Runs the requests of the Open Responses compliance suite against a server and validates the answers with the published
 * schema. It is independent of the gateway's paths and formats. Streams are parsed as strictly as the suite does.
 */
import assert from 'node:assert/strict'
import { WebSocket } from 'ws'
import { isObject, type JsonObject, list, object, text } from '../../../src/core/json.ts'
import { eventsOf, problemsOf } from '../../support/schemas.ts'

/** The server under test. `base`: `http://127.0.0.1:…/v1`. */
export type Target = { readonly base: string; readonly model: string; readonly key?: string }

/** A test of the data file. */
export type Test = {
  readonly id: string
  readonly transport: string
  readonly endpoint: string
  readonly streaming: boolean
  readonly local: boolean
  readonly expectedStatuses: readonly number[]
  readonly request: JsonObject
  readonly assertions: readonly string[]
}

/** An answer: a body, or the events of a stream and the response of the last event. */
export type Answer = {
  readonly status: number
  readonly body: JsonObject
  readonly events: readonly JsonObject[]
  /** The error code of an error. */
  readonly code: string | undefined
}

const LIMIT = 30_000

export const testsOf = (file: JsonObject): readonly Test[] =>
  // The file documents the members of a test.
  list(file.tests).filter(isObject) as unknown as readonly Test[]

/** The request with the target's model in place of the placeholder MODEL. */
export const requestOf = (request: JsonObject, { model }: Target): JsonObject =>
  request.model === 'MODEL' ? { ...request, model } : request

// ── Over HTTP ────────────────────────────────────────────────────────────────────────────────────────────────────

export const post = async (target: Target, endpoint: string, request: JsonObject, stream = false): Promise<Answer> => {
  const response = await fetch(target.base + endpoint, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${target.key ?? 'any'}` },
    body: JSON.stringify(stream ? { ...request, stream: true } : request),
    signal: AbortSignal.timeout(LIMIT),
  })
  const { status } = response
  if (stream && status === 200) return { status, ...finalResponse(await eventsIn(response)) }
  const source = await response.text()
  assert.match(response.headers.get('content-type') ?? '', /^application\/json/, source)
  const body: unknown = JSON.parse(source)
  assert.ok(isObject(body), source)
  return { status, body, events: [], code: text(object(body.error)?.code) }
}

/** Reads the events of a stream. Each event must arrive in one chunk, because the suite's own parser requires it. */
const eventsIn = async (response: Response): Promise<readonly JsonObject[]> => {
  assert.match(response.headers.get('content-type') ?? '', /^text\/event-stream/)
  const events: JsonObject[] = []
  let done = false
  const decoder = new TextDecoder('utf-8', { fatal: true })
  for await (const chunk of response.body ?? []) {
    const part = decoder.decode(chunk, { stream: true })
    assert.ok(part.endsWith('\n\n'), `an event arrived in two chunks: ${part.slice(-200)}`)
    for (const block of part.split('\n\n').filter((one) => one !== '')) {
      assert.ok(!done, `data after the end: ${block}`)
      if (block === 'data: [DONE]') {
        done = true
        continue
      }
      const [, name, data] = /^event: (.+)\ndata: (.+)$/.exec(block) ?? []
      const event: unknown = JSON.parse(data ?? 'null')
      assert.ok(isObject(event), block)
      assert.equal(event.type, name, 'the type of the event differs from its name')
      events.push(event)
    }
  }
  assert.ok(done, 'the stream has no [DONE]')
  return events
}

// ── Over a WebSocket ─────────────────────────────────────────────────────────────────────────────────────────────

/** Builds the request of a turn from the answers so far. */
export type Step = (answers: readonly Answer[]) => JsonObject

/** Sends turns on one connection, each after the previous one has ended, and returns their answers. */
export const converse = async (target: Target, steps: readonly Step[]): Promise<readonly Answer[]> => {
  const socket = new WebSocket(`${target.base.replace(/^http/, 'ws')}/responses`, {
    headers: { 'content-type': 'application/json', authorization: `Bearer ${target.key ?? 'any'}` },
  })
  try {
    await new Promise((resolve, reject) => {
      socket.once('open', resolve)
      socket.once('error', reject)
    })
    const answers: Answer[] = []
    for (const step of steps) {
      const request = step(answers)
      assert.equal(problemsOf('openresponses', 'WebSocketResponseCreateEvent', request), undefined)
      answers.push(await turn(socket, request))
    }
    return answers
  } finally {
    socket.terminate()
  }
}

const turn = (socket: WebSocket, request: JsonObject): Promise<Answer> =>
  new Promise((resolve, reject) => {
    const events: JsonObject[] = []
    const finish = (run: () => void) => {
      clearTimeout(timer)
      socket.removeAllListeners('message')
      socket.removeAllListeners('close')
      run()
    }
    const timer = setTimeout(
      () => finish(() => reject(new Error(`no end within ${LIMIT} ms; so far: ${JSON.stringify(events)}`))),
      LIMIT,
    )
    socket.on('close', () => finish(() => reject(new Error('closed before the end'))))
    socket.on('message', (data, binary) => {
      const event: unknown = binary ? undefined : JSON.parse(String(data))
      if (!isObject(event)) return finish(() => reject(new Error(`not an event: ${String(data)}`)))
      events.push(event)
      if (event.type === 'error')
        finish(() =>
          resolve({ status: Number(event.status), body: event, events, code: text(object(event.error)?.code) }),
        )
      else if (LAST.has(event.type)) finish(() => resolve({ status: 200, ...finalResponse(events) }))
    })
    socket.send(JSON.stringify(request))
  })

// ── Assertions ───────────────────────────────────────────────────────────────────────────────────────────────────

const LAST: ReadonlySet<unknown> = new Set(['response.completed', 'response.failed', 'response.incomplete'])

const finalResponse = (events: readonly JsonObject[]): Omit<Answer, 'status'> => {
  const body = object(events.findLast(({ type }) => LAST.has(type))?.response) ?? {}
  return { body, events, code: text(object(body.error)?.code) }
}

export const assertValid = (definition: string, value: unknown): void =>
  assert.equal(problemsOf('openresponses', definition, value), undefined)

/** Validates every event with the schema of its type. */
export const assertValidEvents = (events: readonly JsonObject[]): void => {
  const definitions = eventsOf('openresponses')
  for (const event of events) {
    const definition =
      event.type === 'error' && 'status' in event ? 'WebSocketErrorEvent' : definitions.get(text(event.type) ?? '')
    assert.ok(definition, `unknown event: ${String(event.type)}`)
    assertValid(definition, event)
  }
}

export const itemsOf = ({ body }: Answer): readonly JsonObject[] => list(body.output).filter(isObject)

/** Asserts a valid stream with a complete response. `status`: the expected status of the response. */
export const assertStreamed = (answer: Answer, status: string | null = 'completed'): void => {
  assert.ok(answer.events.length > 0, 'no events')
  assertValidEvents(answer.events)
  assertValid('ResponseResource', answer.body)
  if (status !== null) assert.equal(answer.body.status, status)
  // Beyond the suite: sequence numbers have no gap, and the streamed items are those of the response.
  assert.deepEqual(
    answer.events.map(({ sequence_number }) => sequence_number),
    answer.events.map((_, at) => at),
  )
  assert.deepEqual(
    answer.events.filter(({ type }) => type === 'response.output_item.done').map(({ item }) => item),
    answer.body.output,
  )
}

type Check = (answer: Answer) => void

const notEmpty: Check = (answer) => assert.ok(itemsOf(answer).length > 0, 'the output is empty')
const completed: Check = ({ body }) => assert.equal(body.status, 'completed')
const hasItem =
  (type: string): Check =>
  (answer) =>
    assert.ok(
      itemsOf(answer).some((item) => item.type === type),
      `no ${type} in ${JSON.stringify(answer.body.output)}`,
    )

/** The check for each assertion of the file. An unknown assertion fails the test. */
export const CHECKS: ReadonlyMap<string, Check> = new Map<string, Check>([
  ['body matches ResponseResource', ({ body }) => assertValid('ResponseResource', body)],
  ['body matches CompactResource', ({ body }) => assertValid('CompactResource', body)],
  ['output is not empty', notEmpty],
  ['output not empty', notEmpty],
  ['status == completed', completed],
  ['status == completed on the second answer', completed],
  ['output has an item of type function_call', hasItem('function_call')],
  ['output has an item of type compaction', hasItem('compaction')],
  ['object == response.compaction', ({ body }) => assert.equal(body.object, 'response.compaction')],
  ['HTTP status 400 or 422', ({ status }) => assert.ok(status === 400 || status === 422, String(status))],
  ['at least one SSE event', ({ events }) => assert.ok(events.length > 0)],
  ['every event matches one of the 24 streaming event schemas', ({ events }) => assertValidEvents(events)],
  [
    'the last response.completed|failed|incomplete carries a response that matches ResponseResource',
    (answer) => assertStreamed(answer, null),
  ],
  ['its status == completed', completed],
  ['as streaming-response, over WebSocket, 30 s limit to a terminal event', (answer) => assertStreamed(answer)],
  ['as streaming-response without the status check', (answer) => assertStreamed(answer, null)],
  [
    'response.output_item.added with a function_call item',
    (answer) => assertFunctionCallEvent(answer, 'response.output_item.added'),
  ],
  [
    'at least one response.function_call_arguments.delta',
    ({ events }) => assert.ok(events.some(({ type }) => type === 'response.function_call_arguments.delta')),
  ],
  [
    'response.function_call_arguments.done',
    ({ events }) => assert.ok(events.some(({ type }) => type === 'response.function_call_arguments.done')),
  ],
  [
    'response.output_item.done with a function_call item',
    (answer) => assertFunctionCallEvent(answer, 'response.output_item.done'),
  ],
])

const assertFunctionCallEvent = ({ events }: Answer, type: string): void =>
  assert.ok(events.some((event) => event.type === type && object(event.item)?.type === 'function_call'))

export const assertAll = (sentences: readonly string[], answer: Answer): void => {
  for (const sentence of sentences) {
    const check = CHECKS.get(sentence)
    assert.ok(check, `unknown assertion: ${sentence}`)
    check(answer)
  }
}
