import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  bodiesOf,
  completedEvent,
  createdEvent,
  END_MARK,
  failureEvent,
  framesOf,
  itemAdded,
  itemDone,
  itemEvent,
  messageItem,
  responsesContext,
  stepsOf,
  usageMember,
  wireOf,
} from '../../../test/support/responses-stream.ts'
import { object } from '../../core/json.ts'
import { run } from '../../core/stage.ts'
import { writeFrame } from '../framing/sse.ts'
import { openaiResponses as codec } from './index.ts'

const passed = (wire: string): string => run(codec.passing.passStream(responsesContext()), stepsOf(wire)).join('')

const hello = [
  createdEvent,
  itemAdded(0, messageItem()),
  itemEvent(0, 'output_text.delta', { content_index: 0, delta: 'Hi' }),
  itemDone(0, messageItem('Hi')),
  completedEvent(messageItem('Hi')),
]
const passes: readonly (readonly [string, string, string])[] = [
  ['byte for byte', wireOf(hello), wireOf(hello) + END_MARK],
  ['one end marker', wireOf(hello) + END_MARK, wireOf(hello) + END_MARK],
  ['nothing after the end', `${wireOf(hello)}data: {"type":"x"}\n\n${END_MARK}`, wireOf(hello) + END_MARK],
  [
    'comments and line ends',
    `: hi\n\n${wireOf(hello).replaceAll('\n', '\r\n')}`,
    `: hi\n\n${wireOf(hello).replaceAll('\n', '\r\n')}${END_MARK}`,
  ],
  ['no ids', wireOf(hello).replaceAll('data:', 'id: 7\ndata:'), wireOf(hello) + END_MARK],
  [
    'response.done is response.completed',
    wireOf(hello).replaceAll('response.completed', 'response.done'),
    wireOf(hello) + END_MARK,
  ],
  [
    'response.done without an event name, of an incomplete answer',
    wireOf(hello)
      .replaceAll(/event: .*\n/g, '')
      .replace('response.completed', 'response.done')
      .replace('"resp_1","status":"completed"', '"resp_1","status":"incomplete"'),
    wireOf(hello)
      .replaceAll('response.completed', 'response.incomplete')
      .replace('"resp_1","status":"completed"', '"resp_1","status":"incomplete"') + END_MARK,
  ],
  ['missing event names are added', wireOf(hello).replaceAll(/event: .*\n/g, ''), wireOf(hello) + END_MARK],
]
for (const [name, wire, expected] of passes)
  test(`responses passes: ${name}`, () => assert.equal(passed(wire), expected))

/** The same events with the numbers of `numbersOf`; undefined: no number. */
const renumbered = (numbersOf: (place: number) => number | undefined): string =>
  hello
    .map((event, place) => {
      const number = numbersOf(place)
      return writeFrame(
        event.type,
        JSON.stringify({ ...(number !== undefined && { sequence_number: number }), ...event }),
      )
    })
    .join('')
const misnumbered: readonly (readonly [string, string])[] = [
  ['without numbers', renumbered(() => undefined)],
  ['with a gap', renumbered((place) => (place < 2 ? place : place + 3))],
  ['from 1', renumbered((place) => place + 1)],
  ['with the same number twice', renumbered((place) => Math.max(0, place - 1))],
  ['with numbers on some events', renumbered((place) => (place === 2 ? undefined : place))],
  ['all with 0', renumbered(() => 0)],
]
for (const [name, wire] of misnumbered)
  test(`responses passes: events ${name} are numbered without a gap from 0`, () =>
    assert.equal(passed(wire), wireOf(hello) + END_MARK))

test('responses passes: a number is replaced without changing another byte', () => {
  const event = (number: string) =>
    `event: response.x\ndata: { "big":12345678901234567890, "item":{"sequence_number":7} ${number}}\n\n`
  const wire = (number: string, last: number) =>
    `${wireOf(hello.slice(0, 1))}${event(number)}${wireOf(hello.slice(-1)).replace('"sequence_number":0', `"sequence_number":${last}`)}`
  assert.equal(passed(wire(', "sequence_number" : 5', 9)), wire(', "sequence_number" : 1', 2) + END_MARK)
  const [, added] = framesOf(passed(wire('', 9)))
  assert.equal(JSON.parse(added?.data ?? '').sequence_number, 1)
  assert.match(added?.data ?? '', /"big":12345678901234567890/)
})

test('responses passes: an empty event is numbered too', () => {
  const [, event] = framesOf(passed(`${wireOf(hello.slice(0, 1))}event: response.x\ndata: { }\n\n`))
  assert.deepEqual(JSON.parse(event?.data ?? ''), { sequence_number: 1 })
})

test('responses passes: an event of several lines is numbered as one event', () => {
  const wire = `${wireOf(hello.slice(0, 1))}event: response.x\ndata: {"type":"response.x",\ndata: "a":1}\n\n`
  const [, event] = framesOf(passed(wire))
  assert.deepEqual(JSON.parse(event?.data ?? ''), { sequence_number: 1, type: 'response.x', a: 1 })
})

test('responses passes: an upstream error is rewritten, with the response id and the next numbers', () => {
  const wire = passed(
    wireOf([
      ...hello.slice(0, 3),
      { type: 'error', error: { code: 'server_error', message: 'x' } },
      { type: 'response.failed', response: { id: 'resp_1' } },
    ]),
  )
  const bodies = bodiesOf(wire)
  assert.ok(wire.startsWith(wireOf(hello.slice(0, 3))))
  assert.deepEqual(
    bodies.slice(3).map(({ type, sequence_number }) => [type, sequence_number]),
    [
      ['error', 3],
      ['response.failed', 4],
    ],
  )
  assert.equal(object(bodies[3]?.error)?.code, 'stream_interrupted')
  assert.deepEqual([object(bodies[4]?.response)?.id, object(bodies[4]?.response)?.status], ['resp_1', 'failed'])
  assert.ok(wire.endsWith(END_MARK))
})

test('responses passes: a truncated stream ends with an error', () => {
  const types = framesOf(passed(wireOf(hello.slice(0, 3)))).map(({ event, data }) => event ?? data)
  assert.deepEqual(types.slice(3), ['error', 'response.failed', '[DONE]'])
})

test('responses passes: a failure before the first event', () => {
  const types = framesOf(passed('')).map(({ event, data }) => event ?? data)
  assert.deepEqual(types, ['response.created', 'response.in_progress', 'error', 'response.failed', '[DONE]'])
})

test('responses passes: a stored response that a keep-alive has begun has one id and one beginning', () => {
  const context = { ...responsesContext(), storage: { id: 'resp_own', previous: null, store: true, background: false } }
  const opening = codec.encodeStream(context)
  const before = opening.keepAlive()
  const begun = opening.begun?.()
  assert.ok(begun)
  const writer = codec.passing.passStream({ ...context, begun })
  const after = [...stepsOf(wireOf(hello)).flatMap((step) => writer.push(step)), ...writer.end()].join('')
  const bodies = bodiesOf(before + after)
  assert.deepEqual(
    bodies.map(({ sequence_number }) => sequence_number),
    bodies.map((_, index) => index),
  )
  const ids = bodies.flatMap(({ response }) => (response ? [object(response)?.id] : []))
  assert.deepEqual([...new Set(ids)], ['resp_own'])
  assert.equal(bodies.filter(({ type }) => type === 'response.created').length, 1)
})

test('responses passes: keep-alives change only the numbers', () => {
  const writer = codec.passing.passStream(responsesContext())
  const steps = stepsOf(wireOf(hello))
  assert.equal(writer.keepAlive(), ': ping\n')
  const before = steps.slice(0, 2).flatMap((step) => writer.push(step))
  const alive = [writer.keepAlive(), writer.keepAlive()]
  const after = [...steps.slice(2).flatMap((step) => writer.push(step)), ...writer.end()]
  const bodies = bodiesOf([...before, ...alive, ...after].join(''))
  assert.deepEqual(
    bodies.map(({ sequence_number }) => sequence_number),
    [0, 1, 2, 3, 4, 5, 6],
  )
  assert.deepEqual([bodies[2]?.type, object(bodies[3]?.response)?.id], ['response.in_progress', 'resp_1'])
  const unnumbered = (wire: string) => wire.replaceAll(/"sequence_number":\d+/g, '')
  assert.equal(unnumbered(after.join('')), unnumbered(wireOf(hello.slice(2)) + END_MARK))
})

test('responses passes: a failure after keep-alives has the next number', () => {
  const writer = codec.passing.passStream(responsesContext())
  const [first, second] = stepsOf(wireOf(hello))
  assert.ok(first && second)
  const wire = [
    ...writer.push(first),
    writer.keepAlive(),
    writer.keepAlive(),
    ...writer.push(second),
    ...writer.push({ events: [failureEvent] }),
  ].join('')
  assert.deepEqual(
    bodiesOf(wire).map(({ sequence_number }) => sequence_number),
    [0, 1, 2, 3, 4, 5],
  )
})

test('responses passes: a number in the model text is unchanged', () => {
  const words = 'see "sequence_number":5 and \\"sequence_number\\": 6'
  const writer = codec.passing.passStream(responsesContext())
  const steps = stepsOf(
    wireOf([createdEvent, itemEvent(0, 'output_text.delta', { delta: words, nested: { sequence_number: 3 } })]),
  )
  writer.push(steps[0] ?? { events: [] })
  writer.keepAlive()
  const [body] = bodiesOf(writer.push(steps[1] ?? { events: [] }).join(''))
  assert.deepEqual([body?.sequence_number, body?.delta, body?.nested], [2, words, { sequence_number: 3 }])
})

test('responses passes: a complete answer instead of a stream is written as a stream', () => {
  const events = codec.decodeAnswer({
    id: 'resp_1',
    status: 'completed',
    output: [messageItem('Hi')],
    usage: usageMember,
  })
  const wire = run(codec.passing.passStream(responsesContext()), [{ whole: '{}', events }]).join('')
  const bodies = bodiesOf(wire)
  assert.deepEqual([bodies[0]?.type, bodies.at(-1)?.type], ['response.created', 'response.completed'])
  assert.ok(wire.endsWith(END_MARK))
})
