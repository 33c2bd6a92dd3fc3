/** The stream parsers, compared with other parsers of the same formats and with themselves on divided input. */
import assert from 'node:assert/strict'
import { EventStreamCodec } from '@smithy/eventstream-codec'
import { createParser, type EventSourceMessage } from 'eventsource-parser'
import fc from 'fast-check'
import { Stream } from 'openai/core/streaming'
import type { Frame } from '../../../src/core/protocol.ts'
import { run, type Stage } from '../../../src/core/stage.ts'
import { eventFrames } from '../../../src/protocols/framing/event-stream.ts'
import { ndjson } from '../../../src/protocols/framing/ndjson.ts'
import { sse } from '../../../src/protocols/framing/sse.ts'
import { changed, slicings, type Target } from '../engine.ts'
import { CONVERSE_STREAMS, converseBytes, streamsOf } from '../seeds.ts'

const MOST = 1_048_576

/** Parses the input whole, and checks that divided input gives the same frames. */
const readDivided = (input: Buffer, create: () => Stage<Uint8Array, Frame>): readonly Frame[] => {
  const whole = run(create(), [input])
  for (const pieces of slicings(input)) assert.deepEqual(run(create(), pieces), whole, `${pieces.length} pieces`)
  return whole
}

// ── Server-sent events ───────────────────────────────────────────────────────────────────────────────────────────

type Event = { readonly event: string | undefined; readonly data: string }

/**
 * The events as eventsource-parser reads them. Intended differences of our parser, and how they are excluded:
 * - it returns events without data, which count as activity: removed on both sides;
 * - at the end of the stream it returns an event with complete lines but no blank line (a last `data: [DONE]`) and drops
 *   an incomplete line: the other parser receives the text up to its last line end, and a blank line;
 * - it removes two byte order marks: such input is not tested.
 */
const asOthers = (text: string): readonly Event[] => {
  const end = Math.max(text.lastIndexOf('\n'), text.lastIndexOf('\r')) + 1
  const events: EventSourceMessage[] = []
  const parser = createParser({ onEvent: (event) => events.push(event) })
  parser.feed(`${text.slice(0, end)}\n\n`)
  return events.filter(({ data }) => data !== '').map(({ event, data }) => ({ event: event || undefined, data }))
}

const asText = (input: Buffer): string => new TextDecoder('utf-8', { ignoreBOM: true }).decode(input)

/** Whether OpenAI's client returns the event unchanged: it throws for errors and invalid JSON, and wraps assistants' events. */
const isPlain = ({ event, data }: Event): boolean => {
  if (event === 'error' || event?.startsWith('thread.')) return false
  if (data === '[DONE]') return true
  try {
    const value: unknown = JSON.parse(data)
    return typeof value === 'object' && value !== null && !('error' in value)
  } catch {
    // Invalid JSON.
    return false
  }
}

/** The events of a stream as OpenAI's client reads them, up to `[DONE]`. */
const asOpenai = async (input: Buffer): Promise<readonly unknown[]> => {
  const half = Math.floor(input.length / 2)
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of [input.subarray(0, half), input.subarray(half)])
        if (piece.length > 0) controller.enqueue(Uint8Array.from(piece))
      controller.close()
    },
  })
  const read: unknown[] = []
  for await (const item of Stream.fromSSEResponse<unknown>(new Response(body), new AbortController())) read.push(item)
  return read
}

const word = fc.constantFrom('{"a":1}', '{"b":"x y"}', '[DONE]', 'hello', ' two', '', ':', 'é😀', '{"c":[1,2]}')
const eol = fc.constantFrom('\n', '\r\n', '\r')
const line = fc.oneof(
  { weight: 5, arbitrary: fc.tuple(fc.constantFrom('data:', 'data: ', 'data'), word).map((parts) => parts.join('')) },
  fc
    .tuple(fc.constantFrom('event:', 'event: ', 'id: ', 'retry: ', ': ', 'datax: ', ' data: ', 'eventful'), word)
    .map((parts) => parts.join('')),
  { weight: 3, arbitrary: fc.constant('') },
)
const sseText = fc
  .tuple(fc.boolean(), fc.array(fc.tuple(line, eol), { maxLength: 14 }), fc.boolean(), word)
  .map(([mark, lines, half, rest]) => Buffer.from(`${mark ? '\ufeff' : ''}${lines.flat().join('')}${half ? rest : ''}`))

const sseTarget: Target = {
  name: 'sse',
  property: 'parses divided input alike, and like eventsource-parser and OpenAI’s client',
  seeds: [...streamsOf('openai-chat'), ...streamsOf('anthropic-messages')].map((pieces) => pieces.join('')),
  generated: sseText,
  async check(input) {
    const text = asText(input)
    if (text.startsWith('\ufeff\ufeff')) return
    const frames = readDivided(input, () => sse.frames(MOST))
    const events = frames
      .filter(({ data }) => data !== '')
      .map(({ event, data }): Event => ({ event: event || undefined, data }))
    assert.deepEqual(events, asOthers(text))
    // The raw text is passed through, so parsing it again must give the same events.
    const again = run(sse.frames(MOST), [Buffer.from(frames.map(({ raw }) => raw ?? '').join(''))])
    assert.deepEqual(
      again.filter(({ data }) => data !== '').map(({ data }) => data),
      events.map(({ data }) => data),
    )
    // OpenAI's client keeps a byte order mark before the first field and parses empty data as JSON: not compared.
    if (text.startsWith('\ufeff') || frames.some(({ data }) => data === '') || !events.every(isPlain)) return
    // It ignores a last event without a blank line.
    if (!/(?:\n\n|\r\r|\r\n\r\n)$/.test(text)) return
    const done = events.findIndex(({ data }) => data === '[DONE]')
    const wanted = events.slice(0, done === -1 ? events.length : done).map(({ data }): unknown => JSON.parse(data))
    assert.deepEqual(await asOpenai(input), wanted)
  },
}

// ── JSON lines ────────────────────────────────────────────────────────────────────────────────────────────────

const isJson = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch {
    // Invalid.
    return false
  }
}

const ndjsonTarget: Target = {
  name: 'ndjson',
  property: 'parses divided input alike, and like splitting the whole text into lines',
  seeds: streamsOf('ollama').map((pieces) => pieces.join('')),
  check(input) {
    const lines = new TextDecoder()
      .decode(input)
      .split('\n')
      .map((one) => one.trim())
    const last = lines.pop() ?? ''
    const wanted = [...lines.filter((one) => one !== ''), ...(isJson(last) ? [last] : [])]
    assert.deepEqual(
      readDivided(input, () => ndjson.frames(MOST)).map(({ data }) => data),
      wanted,
    )
  },
}

// ── Amazon's event stream ────────────────────────────────────────────────────────────────────────────────────────

const codec = new EventStreamCodec(
  (bytes) => Buffer.from(bytes as Uint8Array).toString('utf8'),
  (text) => Buffer.from(text),
)

/** The messages as Amazon's codec reads them; `null`: it throws, and our parser reads nothing after that. */
const asAmazon = (input: Buffer): readonly (Event | null)[] => {
  const found: (Event | null)[] = []
  let at = 0
  while (input.length - at >= 12) {
    const length = input.readUInt32BE(at)
    // The checksum of the prelude is verified before the length is used.
    if (length >= 16 && input.length - at < length) break
    try {
      const { headers, body } = codec.decode(Uint8Array.from(input.subarray(at, at + Math.max(16, length))))
      const texts = new Map(
        Object.entries(headers).flatMap(([name, { type, value }]) => (type === 'string' ? [[name, value]] : [])),
      )
      found.push({ event: texts.get(':event-type'), data: new TextDecoder().decode(body) })
    } catch {
      // The reason does not matter.
      return [...found, null]
    }
    at += length
  }
  return found
}

const converse = CONVERSE_STREAMS.map((messages) => Buffer.concat(messages.map(converseBytes)))

const headerValue = fc.oneof(
  fc.string({ maxLength: 12 }).map((value) => ({ type: 'string' as const, value })),
  fc.boolean().map((value) => ({ type: 'boolean' as const, value })),
  fc.integer({ min: -128, max: 127 }).map((value) => ({ type: 'byte' as const, value })),
  fc.integer({ min: -30_000, max: 30_000 }).map((value) => ({ type: 'short' as const, value })),
  fc.integer().map((value) => ({ type: 'integer' as const, value })),
  fc.uint8Array({ maxLength: 9 }).map((value) => ({ type: 'binary' as const, value })),
)
const anyMessage = fc
  .tuple(
    fc.dictionary(fc.constantFrom(':event-type', ':content-type', 'x', 'ünï'), headerValue, { maxKeys: 4 }),
    fc.string({ maxLength: 40 }),
  )
  .map(([headers, text]) => Buffer.from(codec.encode({ headers, body: Buffer.from(text) })))
const anyMessages = fc.array(anyMessage, { minLength: 1, maxLength: 4 }).map((all) => Buffer.concat(all))

const eventStreamTarget: Target = {
  name: 'event-stream',
  property: 'parses divided input alike, and like Amazon’s codec; returns nothing after a damaged message',
  seeds: converse,
  generated: fc.oneof(
    anyMessages,
    anyMessages.chain((all) => changed([all])),
  ),
  check(input) {
    const frames = readDivided(input, () => eventFrames(MOST))
    const wanted = asAmazon(input)
    const damaged = frames.findIndex(({ data, oversized }) => oversized || data === '(a damaged message)')
    const valid = damaged === -1 ? frames : frames.slice(0, damaged)
    assert.ok(damaged === -1 || damaged === frames.length - 1, 'a frame after a damaged message')
    const broken = wanted.indexOf(null)
    const whole = broken === -1 ? wanted : wanted.slice(0, broken)
    // Our names of exceptions and errors differ: only their position is compared.
    const named = /^(?:exception|error):/
    assert.equal(valid.length, whole.length, 'number of messages')
    for (const [at, { event, data }] of valid.entries())
      if (!named.test(event ?? ''))
        assert.deepEqual(
          { event: event || undefined, data },
          { event: whole[at]?.event || undefined, data: whole[at]?.data },
        )
    if (broken !== -1) assert.ok(damaged !== -1, 'parsed a message that Amazon’s codec rejects')
  },
}

export const READERS: readonly Target[] = [sseTarget, ndjsonTarget, eventStreamTarget]
