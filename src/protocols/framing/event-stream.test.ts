/** Messages of Amazon's event stream, compared with Amazon's codec, and with damaged bytes. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { crc32 } from 'node:zlib'
import { EventStreamCodec } from '@smithy/eventstream-codec'
import fc from 'fast-check'
import { event, exception, message } from '../../../test/support/event-stream.ts'
import type { Frame } from '../../core/protocol.ts'
import { run } from '../../core/stage.ts'
import { eventFrames, eventStream } from './event-stream.ts'

const LIMIT = 100_000
const amazonCodec = new EventStreamCodec(
  (bytes) => new TextDecoder().decode(typeof bytes === 'string' ? Buffer.from(bytes) : bytes),
  (text) => new TextEncoder().encode(text),
)

const read = (slices: readonly Uint8Array[], limit = LIMIT): Frame[] => run(eventFrames(limit), slices)
const bytewise = (bytes: Uint8Array): Uint8Array[] => Array.from(bytes, (_, at) => bytes.subarray(at, at + 1))
const join = (...parts: readonly Uint8Array[]): Uint8Array => new Uint8Array(Buffer.concat(parts))

const text = (value: string) => ({ type: 'string' as const, value })

const DELTA = { contentBlockIndex: 0, delta: { text: 'Grüße 🦜' } }
const cases: readonly (readonly [string, Uint8Array, readonly Frame[]])[] = [
  ['empty input', new Uint8Array(), []],
  ['an event', event('contentBlockDelta', DELTA), [{ event: 'contentBlockDelta', data: JSON.stringify(DELTA) }]],
  [
    'two events',
    join(event('messageStart', { role: 'assistant' }), event('messageStop', { stopReason: 'end_turn' })),
    [
      { event: 'messageStart', data: '{"role":"assistant"}' },
      { event: 'messageStop', data: '{"stopReason":"end_turn"}' },
    ],
  ],
  [
    'an exception',
    exception('throttlingException', { message: 'slower' }),
    [{ event: 'exception:throttlingException', data: '{"message":"slower"}' }],
  ],
  [
    'an error',
    message({ ':message-type': 'error', ':error-code': 'InternalError', ':error-message': 'broken' }, ''),
    [{ event: 'error:InternalError', data: '{"message":"broken"}' }],
  ],
  ['no headers, no payload', message({}, ''), [{ data: '' }]],
  [
    'headers of every type',
    amazonCodec.encode({
      headers: {
        yes: { type: 'boolean', value: true },
        no: { type: 'boolean', value: false },
        byte: { type: 'byte', value: -3 },
        short: { type: 'short', value: 300 },
        integer: { type: 'integer', value: 70_000 },
        binary: { type: 'binary', value: new Uint8Array([1, 2, 3]) },
        time: { type: 'timestamp', value: new Date(0) },
        uuid: { type: 'uuid', value: '12345678-1234-1234-1234-123456789abc' },
        ':event-type': text('metadata'),
        ':message-type': text('event'),
      },
      body: new TextEncoder().encode('{}'),
    }),
    [{ event: 'metadata', data: '{}' }],
  ],
]

for (const [name, wire, frames] of cases)
  test(`event stream: ${name}`, () => {
    assert.deepEqual(read([wire]), frames)
    assert.deepEqual(read(bytewise(wire)), frames)
    for (let cut = 0; cut <= wire.length; cut++)
      assert.deepEqual(read([wire.subarray(0, cut), wire.subarray(cut)]), frames, `cut at ${cut}`)
  })

test('event stream: reads the output of Amazon’s codec, which reads the output of the test helpers', () =>
  fc.assert(
    fc.property(
      fc.dictionary(fc.stringMatching(/^[a-z-]{1,20}$/), fc.string({ unit: 'grapheme', maxLength: 40 })),
      fc.string({ unit: 'grapheme', maxLength: 300 }),
      fc.nat(),
      (headers, payload, place) => {
        const named = { ...headers, ':event-type': 'e', ':message-type': 'event' }
        const wire = amazonCodec.encode({
          headers: Object.fromEntries(Object.entries(named).map(([name, value]) => [name, text(value)])),
          body: new TextEncoder().encode(payload),
        })
        const cut = place % (wire.length + 1)
        assert.deepEqual(read([wire.subarray(0, cut), wire.subarray(cut)]), [{ event: 'e', data: payload }])
        const again = amazonCodec.decode(message(named, payload))
        assert.equal(new TextDecoder().decode(again.body), payload)
        assert.deepEqual(
          Object.fromEntries(Object.entries(again.headers).map(([name, header]) => [name, header.value])),
          named,
        )
      },
    ),
    { numRuns: 300 },
  ))

const isUnreadable = ({ event: name, data, oversized }: Frame): boolean => {
  if (oversized) return true
  if (name !== undefined) return false
  try {
    JSON.parse(data)
    return false
  } catch {
    return true
  }
}

test('event stream: detects every flipped bit, and ignores all later bytes', () => {
  const first = event('contentBlockDelta', DELTA)
  const second = event('messageStop', { stopReason: 'end_turn' })
  for (let bit = 0; bit < first.length * 8; bit++) {
    const damaged = Uint8Array.from(first)
    damaged[bit >> 3] = (damaged[bit >> 3] ?? 0) ^ (1 << (bit & 7))
    for (const slices of [[join(damaged, second)], bytewise(join(damaged, second))]) {
      const frames = read(slices)
      assert.ok(frames.length === 1 && frames.every(isUnreadable), `bit ${bit}: ${JSON.stringify(frames)}`)
    }
  }
})

test('event stream: an incomplete message gives no frame', () => {
  const wire = event('messageStop', { stopReason: 'end_turn' })
  for (let end = 0; end < wire.length; end++) assert.deepEqual(read([wire.subarray(0, end)]), [])
})

test('event stream: a message above the size limit is not buffered', () => {
  const wire = event('contentBlockDelta', { delta: { text: 'x'.repeat(500) } })
  assert.deepEqual(read([wire, wire], 400), [{ data: '', oversized: true }])
  assert.equal(read([wire, wire], wire.length).length, 2)
})

/** A changed message with valid checksums. */
const forged = (change: (bytes: Buffer) => void): Uint8Array => {
  const bytes = Buffer.from(message({ ab: 'cd' }, '{}'))
  change(bytes)
  bytes.writeUInt32BE(crc32(bytes.subarray(0, 8)), 8)
  bytes.writeUInt32BE(crc32(bytes.subarray(0, -4)), bytes.length - 4)
  return new Uint8Array(bytes)
}

for (const [name, wire] of [
  ['headers longer than the message', forged((bytes) => bytes.writeUInt32BE(200, 4))],
  ['headers that reach into the checksum', forged((bytes) => bytes.writeUInt32BE(10, 4))],
  ['a total length too small for a message', forged((bytes) => bytes.writeUInt32BE(15, 0))],
  ['a name longer than the headers', forged((bytes) => bytes.writeUInt8(200, 12))],
  ['a value longer than the headers', forged((bytes) => bytes.writeUInt16BE(2_000, 16))],
  ['an unknown header type', forged((bytes) => bytes.writeUInt8(17, 15))],
] as const)
  test(`event stream: ${name}`, () => {
    const frames = read([wire])
    assert.ok(frames.length === 1 && frames.every(isUnreadable), JSON.stringify(frames))
  })

test('event stream: any bytes are read without throwing', () =>
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 60 }), { maxLength: 6 }), (slices) => {
      for (const frame of read(slices)) assert.ok(isUnreadable(frame))
    }),
  ))

test('event stream: a large message in small slices is read in linear time', () => {
  // Two million pushes: copying the buffer at each of them would take hours.
  const payload = { delta: { text: 'x'.repeat(2_000_000) } }
  const frames = run(eventStream.frames(8_000_000), bytewise(event('contentBlockDelta', payload)))
  assert.deepEqual(frames, [{ event: 'contentBlockDelta', data: JSON.stringify(payload) }])
})
