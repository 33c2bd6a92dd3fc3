/** What reads bytes of streams: held against other readers of the same formats, and against itself in other slices. */
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

/** Read in every slicing as it is read whole. */
const readAlike = (input: Buffer, made: () => Stage<Uint8Array, Frame>): readonly Frame[] => {
  const whole = run(made(), [input])
  for (const pieces of slicings(input)) assert.deepEqual(run(made(), pieces), whole, `${pieces.length} pieces`)
  return whole
}

// ── Server-sent events ───────────────────────────────────────────────────────────────────────────────────────────

type Event = { readonly event: string | undefined; readonly data: string }

/**
 * Where we differ on purpose, and what is done about it here:
 * - an event without data, or with empty data, is a sign of life to us and nothing to a model's client: left out on both sides;
 * - at the end an event whose lines are whole is given out without its blank line (a last `data: [DONE]`), half a line is
 *   dropped: the other reader is given the text up to its last line end, and the blank line;
 * - a text that begins with two byte order marks loses both: it is not made.
 */
const asOthers = (text: string): readonly Event[] => {
  const end = Math.max(text.lastIndexOf('\n'), text.lastIndexOf('\r')) + 1
  const events: EventSourceMessage[] = []
  const parser = createParser({ onEvent: (event) => events.push(event) })
  parser.feed(`${text.slice(0, end)}\n\n`)
  return events.filter(({ data }) => data !== '').map(({ event, data }) => ({ event: event || undefined, data }))
}

const asText = (input: Buffer): string => new TextDecoder('utf-8', { ignoreBOM: true }).decode(input)

/** What OpenAI's client throws for, or treats by its own rules: data that is no JSON, errors, its assistants' events. */
const isPlain = ({ event, data }: Event): boolean => {
  if (event === 'error' || event?.startsWith('thread.')) return false
  if (data === '[DONE]') return true
  try {
    const value: unknown = JSON.parse(data)
    return typeof value === 'object' && value !== null && !('error' in value)
  } catch {
    // No JSON.
    return false
  }
}

/** What OpenAI's own client makes of a stream, up to `[DONE]`. */
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
  holds: 'the same events in any slices, as eventsource-parser and OpenAI’s client read them',
  seeds: [...streamsOf('openai-chat'), ...streamsOf('anthropic-messages')].map((pieces) => pieces.join('')),
  made: sseText,
  async check(input) {
    const text = asText(input)
    if (text.startsWith('\ufeff\ufeff')) return
    const frames = readAlike(input, () => sse.frames(MOST))
    const events = frames
      .filter(({ data }) => data !== '')
      .map(({ event, data }): Event => ({ event: event || undefined, data }))
    assert.deepEqual(events, asOthers(text))
    // The raw text is what is passed on: read again it says the same.
    const again = run(sse.frames(MOST), [Buffer.from(frames.map(({ raw }) => raw ?? '').join(''))])
    assert.deepEqual(
      again.filter(({ data }) => data !== '').map(({ data }) => data),
      events.map(({ data }) => data),
    )
    // It keeps a mark that stands before the first field, and it reads events without data as JSON: both are left out.
    if (text.startsWith('\ufeff') || frames.some(({ data }) => data === '') || !events.every(isPlain)) return
    // A last event without its blank line is one to us and none to it.
    if (!/(?:\n\n|\r\r|\r\n\r\n)$/.test(text)) return
    const done = events.findIndex(({ data }) => data === '[DONE]')
    const wanted = events.slice(0, done === -1 ? events.length : done).map(({ data }): unknown => JSON.parse(data))
    assert.deepEqual(await asOpenai(input), wanted)
  },
}

// ── Lines of JSON ────────────────────────────────────────────────────────────────────────────────────────────────

const isJson = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch {
    // What is looked for.
    return false
  }
}

const ndjsonTarget: Target = {
  name: 'ndjson',
  holds: 'the same lines in any slices, as splitting the whole text gives them',
  seeds: streamsOf('ollama').map((pieces) => pieces.join('')),
  check(input) {
    const lines = new TextDecoder()
      .decode(input)
      .split('\n')
      .map((one) => one.trim())
    const last = lines.pop() ?? ''
    const wanted = [...lines.filter((one) => one !== ''), ...(isJson(last) ? [last] : [])]
    assert.deepEqual(
      readAlike(input, () => ndjson.frames(MOST)).map(({ data }) => data),
      wanted,
    )
  },
}

// ── Amazon's event stream ────────────────────────────────────────────────────────────────────────────────────────

const codec = new EventStreamCodec(
  (bytes) => Buffer.from(bytes as Uint8Array).toString('utf8'),
  (text) => Buffer.from(text),
)

/** Message by message with Amazon's own codec; `null`: the one at which it throws, behind which we are deaf. */
const asAmazon = (input: Buffer): readonly (Event | null)[] => {
  const found: (Event | null)[] = []
  let at = 0
  while (input.length - at >= 12) {
    const length = input.readUInt32BE(at)
    // Its own prelude is proven before its length is believed.
    if (length >= 16 && input.length - at < length) break
    try {
      const { headers, body } = codec.decode(Uint8Array.from(input.subarray(at, at + Math.max(16, length))))
      const texts = new Map(
        Object.entries(headers).flatMap(([name, { type, value }]) => (type === 'string' ? [[name, value]] : [])),
      )
      found.push({ event: texts.get(':event-type'), data: new TextDecoder().decode(body) })
    } catch {
      // Which of its reasons does not matter.
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
  holds: 'the same messages in any slices, as Amazon’s own codec reads them; nothing behind a damaged one',
  seeds: converse,
  made: fc.oneof(
    anyMessages,
    anyMessages.chain((all) => changed([all])),
  ),
  check(input) {
    const frames = readAlike(input, () => eventFrames(MOST))
    const wanted = asAmazon(input)
    const damaged = frames.findIndex(({ data, oversized }) => oversized || data === '(a damaged message)')
    const sound = damaged === -1 ? frames : frames.slice(0, damaged)
    assert.ok(damaged === -1 || damaged === frames.length - 1, 'something behind a damaged message')
    const broken = wanted.indexOf(null)
    const whole = broken === -1 ? wanted : wanted.slice(0, broken)
    // Exceptions and errors are named otherwise by us: only their place is compared.
    const named = /^(?:exception|error):/
    assert.equal(sound.length, whole.length, 'messages read')
    for (const [at, { event, data }] of sound.entries())
      if (!named.test(event ?? ''))
        assert.deepEqual(
          { event: event || undefined, data },
          { event: whole[at]?.event || undefined, data: whole[at]?.data },
        )
    if (broken !== -1) assert.ok(damaged !== -1, 'a message Amazon’s codec refuses is read')
  },
}

export const READERS: readonly Target[] = [sseTarget, ndjsonTarget, eventStreamTarget]
