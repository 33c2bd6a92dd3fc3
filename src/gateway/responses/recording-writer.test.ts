import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CapturedReply } from '../../../test/support/gateway.ts'
import { type Failure, fail } from '../../core/failure.ts'
import { writeFrame } from '../../protocols/framing/sse.ts'
import { eventsIn, RecordingWriter } from './recording-writer.ts'

const event = (type: string, more: object = {}) => writeFrame(type, JSON.stringify({ type, ...more }))
const body = (status: string) => ({ object: 'response', id: 'resp_1', status })
const DONE = writeFrame(undefined, '[DONE]')

type Step = readonly ['head', number, string] | readonly ['write' | 'end', string] | readonly ['cut']
const SSE = 'text/event-stream; charset=utf-8'
const JSON_TYPE = 'application/json'

const cases: readonly (readonly [string, readonly Step[], readonly (readonly [string, string])[]])[] = [
  [
    'a whole answer',
    [
      ['head', 200, JSON_TYPE],
      ['end', JSON.stringify(body('completed'))],
    ],
    [[JSON.stringify(body('completed')), 'completed']],
  ],
  [
    'an incomplete answer',
    [
      ['head', 200, JSON_TYPE],
      ['end', JSON.stringify(body('incomplete'))],
    ],
    [[JSON.stringify(body('incomplete')), 'incomplete']],
  ],
  [
    'an error',
    [
      ['head', 502, JSON_TYPE],
      ['end', '{"error":{"code":"x"}}'],
    ],
    [['{}', 'failed']],
  ],
  [
    'a body that is not JSON',
    [
      ['head', 200, JSON_TYPE],
      ['end', 'oops'],
    ],
    [],
  ],
  [
    'a stream',
    [
      ['head', 200, SSE],
      ['write', event('response.created', { response: body('in_progress') })],
      ['write', event('response.completed', { response: body('completed') })],
      ['end', DONE],
    ],
    [[JSON.stringify(body('completed')), 'completed']],
  ],
  [
    'a stream whose last events share one write',
    [
      ['head', 200, SSE],
      [
        'end',
        event('response.output_item.done') + event('response.incomplete', { response: body('incomplete') }) + DONE,
      ],
    ],
    [[JSON.stringify(body('incomplete')), 'incomplete']],
  ],
  [
    'a stream that fails',
    [
      ['head', 200, SSE],
      ['end', event('error') + event('response.failed', { response: body('failed') }) + DONE],
    ],
    [[JSON.stringify(body('failed')), 'failed']],
  ],
  [
    'a stream that mentions the final event',
    [
      ['head', 200, SSE],
      ['write', event('response.output_text.delta', { delta: '\nevent: response.completed\n' })],
      ['end', ''],
    ],
    [],
  ],
  [
    'a stream that is cut',
    [['head', 200, SSE], ['write', event('response.created', { response: body('in_progress') })], ['cut']],
    [],
  ],
  [
    'only the first final event',
    [
      ['head', 200, SSE],
      ['write', event('response.completed', { response: body('completed') })],
      ['end', event('response.failed', { response: body('failed') })],
    ],
    [[JSON.stringify(body('completed')), 'completed']],
  ],
]
for (const [name, steps, expected] of cases)
  test(`recording: ${name}`, () => {
    const kept: (readonly [string, string])[] = []
    const order: string[] = []
    const client = new CapturedReply()
    const sendEnd = client.end.bind(client)
    const written = client.write.bind(client)
    client.end = (text) => {
      if (text) order.push('sent')
      sendEnd(text)
    }
    client.write = (text) => {
      if (String(text).includes('completed')) order.push('sent')
      return written(text)
    }
    const reply = new RecordingWriter(client, (response, status) => {
      order.push('kept')
      kept.push([response, status])
      return null
    })
    for (const step of steps)
      if (step[0] === 'head') reply.writeHead(step[1], { 'content-type': step[2] })
      else if (step[0] === 'cut') reply.abort()
      else reply[step[0]](step[1])
    assert.deepEqual(kept, expected)
    // The response is stored before the client receives its end.
    if (expected.length > 0) assert.equal(order[0], 'kept')
    const said = steps.flatMap((step) => (step[0] === 'write' || step[0] === 'end' ? [step[1]] : []))
    assert.equal(client.text, said.join(''))
  })

const STORED = { ...body('completed'), store: true }
const LAST_EVENT = event('response.completed', { sequence_number: 7, response: STORED })
const failure = fail('storage', 'the disk is full')

const ends: readonly (readonly [string, string, (reply: RecordingWriter) => void, string, string])[] = [
  ['a whole answer', JSON_TYPE, (reply) => reply.end(JSON.stringify(STORED)), '', JSON.stringify(STORED)],
  [
    'a stream',
    SSE,
    (reply) => {
      reply.write(event('x'))
      assert.equal(reply.write(LAST_EVENT), true)
      reply.write(Buffer.from(': ping\n\n'))
      reply.end(DONE)
    },
    event('x'),
    `${LAST_EVENT}: ping\n\n${DONE}`,
  ],
  [
    'a stream whose last events share one write',
    SSE,
    (reply) => reply.end(event('x') + LAST_EVENT + DONE),
    '',
    event('x') + LAST_EVENT + DONE,
  ],
]
for (const [name, type, run, before, after] of ends)
  for (const stored of [true, false])
    test(`recording: the end of ${name} waits for the write, which ${stored ? 'succeeds' : 'fails'}`, async () => {
      const client = new CapturedReply()
      const write = Promise.withResolvers<Failure | null>()
      const reply = new RecordingWriter(client, () => write.promise)
      reply.writeHead(200, { 'content-type': type })
      run(reply)
      assert.deepEqual([client.text, client.ending], [before, null])
      write.resolve(stored ? null : failure)
      await reply.settled
      assert.equal(client.ending, 'ended')
      assert.equal(client.text, before + (stored ? after : after.replace('"store":true', '"store":false')))
    })

test('recording: an answer cut during its write stays cut', async () => {
  const client = new CapturedReply()
  const write = Promise.withResolvers<Failure | null>()
  const reply = new RecordingWriter(client, () => write.promise)
  reply.writeHead(200, { 'content-type': SSE })
  reply.write(LAST_EVENT)
  reply.abort()
  write.resolve(null)
  await reply.settled
  assert.deepEqual([client.text, client.ending], ['', 'cut'])
})

test('recording: forwards backpressure and disconnects', () => {
  const client = new CapturedReply()
  const reply = new RecordingWriter(client, () => null)
  let drained = 0
  let gone = 0
  reply.onDrain(() => drained++)
  reply.onDisconnect(() => gone++)
  reply.writeHead(200, { 'content-type': SSE })
  client.writable = false
  assert.equal(reply.write(event('x')), false)
  client.drain()
  client.disconnect()
  assert.deepEqual([drained, gone], [1, 1])
})

test('recording: parses the events of a text', () => {
  assert.deepEqual(eventsIn(`: ping\n${event('a')}data: [DONE]\n\ndata: 7\n\ndata: {x\n\n${event('b')}`), [
    { type: 'a' },
    { type: 'b' },
  ])
})

for (const depth of [5_000, 100_000])
  test(`recording: an answer nested ${depth} deep passes and is not stored`, () => {
    const inner = `${'['.repeat(depth)}${']'.repeat(depth)}`
    const deep = `{"type":"response.completed","response":{"object":"response","status":"completed","x":${inner}}}`
    const client = new CapturedReply()
    const kept: unknown[] = []
    const reply = new RecordingWriter(client, (response) => {
      kept.push(response)
      return null
    })
    reply.writeHead(200, { 'content-type': SSE })
    reply.end(writeFrame('response.completed', deep))
    assert.equal(client.ending, 'ended')
    assert.ok(client.text.includes(deep))
    assert.deepEqual(kept, [])
  })
