import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chunk, invokeEvents } from '../../../test/support/bedrock-invoke.ts'
import { exception, message } from '../../../test/support/event-stream.ts'
import type { Frame } from '../../core/protocol.ts'
import { awsChunks } from './aws-chunks.ts'

const read = (slices: readonly Uint8Array[]): Frame[] => {
  const reader = awsChunks.frames(1_048_576)
  return [...slices.flatMap((slice) => reader.push(slice)), ...reader.end()]
}

const events = invokeEvents([{ type: 'text', text: 'Grüße, 🦜.' }])
const wire = Buffer.concat(events.map(chunk))

test('aws chunks: each is the event in it, without the metrics of Bedrock, cut at every byte', () => {
  const expected = events.map(({ 'amazon-bedrock-invocationMetrics': _, ...event }) => ({
    event: event.type,
    data: JSON.stringify(event),
  }))
  for (let cut = 0; cut <= wire.length; cut++)
    assert.deepEqual(read([wire.subarray(0, cut), wire.subarray(cut)]), expected, `cut at ${cut}`)
})

test('aws chunks: the text of an event is unchanged', () => {
  const written =
    '{"type": "content_block_delta",\t"index":0, "delta":{"type":"text_delta","text":"\\u00e4 1.0"}, "x": 1.0}'
  assert.deepEqual(read([chunk(written)]), [{ event: 'content_block_delta', data: written }])
})

const failures = [
  [
    'an exception',
    exception('throttlingException', { message: 'Too many tokens' }),
    'throttlingException',
    'Too many tokens',
  ],
  [
    'an exception with other members',
    exception('modelStreamErrorException', {
      originalStatusCode: 424,
      originalMessage: 'x',
      message: 'The model fell over.',
    }),
    'modelStreamErrorException',
    'The model fell over.',
  ],
  [
    'an error',
    message({ ':message-type': 'error', ':error-code': 'InternalFailure', ':error-message': 'Later.' }, ''),
    'InternalFailure',
    'Later.',
  ],
] as const
for (const [what, bytes, type, words] of failures)
  for (const before of [0, 3, events.length])
    test(`aws chunks: ${what} after ${before} events is the error event of the format`, () => {
      const last = read([...events.slice(0, before).map(chunk), bytes]).at(-1)
      assert.equal(last?.event, 'error')
      assert.deepEqual(JSON.parse(last?.data ?? ''), { type: 'error', error: { type, message: words } })
    })

test('aws chunks: a wrong checksum at any byte gives no event that was not sent', () => {
  const sent = new Set(read([wire]).map(({ data }) => data))
  for (let at = 0; at < 400; at++) {
    const damaged = wire.map((byte, index) => (index === at ? byte ^ 1 : byte))
    const frames = read([damaged])
    const unknown = frames.filter(({ data, oversized }) => !sent.has(data) && !oversized)
    assert.ok(
      unknown.length <= 1 && unknown.every(({ data }) => data === '(a damaged message)'),
      `${at}: ${JSON.stringify(unknown)}`,
    )
    assert.ok(frames.length < events.length, `${at}: read to the end`)
  }
})

test('aws chunks: a chunk without readable bytes is not JSON', () => {
  const bare = (payload: string) => message({ ':event-type': 'chunk', ':message-type': 'event' }, payload)
  for (const payload of ['{}', '{"bytes":7}', '{"bytes":"*"}', 'x'])
    assert.throws(() => JSON.parse(read([bare(payload)])[0]?.data ?? '{}'), payload)
})
