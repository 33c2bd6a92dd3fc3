/**
 * Upstream faults in the formats that only providers use. Each fault is defined once, on the messages of an answer; a
 * format only defines their framing, and the position of the content is found in a sound answer. Before the first
 * content another provider answers, or the client gets an error status; after it the stream ends with an error event of
 * its style. `faults.test.ts` has the faults that do not depend on the format.
 */
import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import type { UpstreamProtocolName } from '../../src/core/chat.ts'
import { isList, isObject, type Json, type JsonObject } from '../../src/core/json.ts'
import { run } from '../../src/core/stage.ts'
import { sse } from '../../src/protocols/framing/sse.ts'
import { upstreamProtocols } from '../../src/protocols/index.ts'
import { type AnswerContent, answerBody, answerWith, piecesOf } from '../support/answers.ts'
import { conversePieces, converseWhole } from '../support/converse.ts'
import { exception, message } from '../support/event-stream.ts'
import type { Act, Ending, UpstreamRequest } from '../support/upstream.ts'
import type { Started } from './support/process.ts'
import {
  eventsIn,
  isComplete,
  type ProviderInput,
  STYLES,
  type Style,
  sendChat,
  stage,
  textIn,
} from './support/stage.ts'

// Characters of one to four bytes, so that a cut may fall within one.
const TEXT = 'Hellö thère 你好 👋🏽 and so on'
const SPARE = 'the spare one'
const CALL = { id: 'call_1', name: 'weather', arguments: '{"city":"Bern"}' }
const INPUT = 4_242

// ── Formats ──────────────────────────────────────────────────────────────────────────────────────────────────────

/** A message of a stream: its name, where it has one, and its JSON. */
type Message = { readonly event?: string | undefined; readonly data: string }
type Bytes = string | Uint8Array

type Format = {
  readonly protocol: UpstreamProtocolName
  readonly kind?: string
  /** The path of a base URL. */
  readonly version: string
  readonly mediaType: string
  readonly write: (message: Message) => Bytes
  /** A keep-alive without content. */
  readonly alive: Bytes
  /** An error in a stream, and its code in the trail. */
  readonly error: Bytes
  readonly trailCode?: string
  /** A text continues without a malformed event, because events are independent. */
  readonly loose?: true
  /** The finish reason of an answer with tool calls, where there is one. */
  readonly called?: string
}

const SSE = {
  mediaType: 'text/event-stream',
  write: ({ event, data }: Message) => `${event ? `event: ${event}\n` : ''}data: ${data}\n\n`,
  alive: ': alive\n\n',
}
const GOOGLE = {
  ...SSE,
  protocol: 'gemini',
  error: 'data: {"error":{"code":500,"message":"it broke","status":"INTERNAL"}}\n\n',
  trailCode: '500',
} as const
const eventOf = (name: string, data: string): Uint8Array =>
  message({ ':event-type': name, ':content-type': 'application/json', ':message-type': 'event' }, data)

const FORMATS: { readonly [name: string]: Format } = {
  gemini: { ...GOOGLE, version: '/v1beta' },
  vertex: { ...GOOGLE, kind: 'vertex', version: '/v1' },
  bedrock: {
    protocol: 'bedrock-converse',
    version: '',
    mediaType: 'application/vnd.amazon.eventstream',
    write: ({ event = '', data }) => eventOf(event, data),
    alive: eventOf('initial-response', '{}'),
    error: exception('internalServerException', { message: 'it broke' }),
    called: 'tool_use',
  },
  mistral: {
    ...SSE,
    protocol: 'mistral',
    version: '/v1',
    error: 'data: {"error":{"message":"it broke","type":"server_error"}}\n\n',
    called: 'tool_calls',
    loose: true,
  },
  cohere: {
    ...SSE,
    protocol: 'cohere',
    version: '/v2',
    error: 'event: message-end\ndata: {"type":"message-end","delta":{"finish_reason":"ERROR","error":"it broke"}}\n\n',
    called: 'TOOL_CALL',
  },
  ollama: {
    protocol: 'ollama',
    version: '',
    mediaType: 'application/x-ndjson',
    write: ({ data }) => `${data}\n`,
    alive: '\n',
    error: '{"error":"it broke"}\n',
    called: 'tool_calls',
  },
}

// ── Sound answers to damage ──────────────────────────────────────────────────────────────────────────────────────

type Sound = {
  readonly format: Format
  readonly messages: readonly Message[]
  /** Indices of the first message with content, and of the one with the finish reason. */
  readonly first: number
  readonly last: number
  readonly body: JsonObject
}

const soundOf = (format: Format, request: UpstreamRequest, answer: AnswerContent): Sound => {
  const converse = format.protocol === 'bedrock-converse'
  const pieces: Bytes[] = converse ? conversePieces(answer) : piecesOf(request, answer)
  const frames = (upstreamProtocols[format.protocol].framing ?? sse).frames(1_048_576)
  const bytes = pieces.map((piece) => (typeof piece === 'string' ? new TextEncoder().encode(piece) : piece))
  const messages = run(frames, bytes).map(({ event, data }): Message => ({ event, data }))
  return {
    format,
    messages,
    first: messages.findIndex(({ data }) => /Hell|Bern/.test(data.replaceAll('\\"', ''))),
    last: messages.findIndex(({ data }) => /"(?:finishReason|finish_reason|stopReason|done_reason)":"/.test(data)),
    body: converse ? converseWhole(answer) : answerBody(request, answer),
  }
}

const written = ({ format }: Sound, messages: readonly (Message | Bytes)[]): Bytes[] =>
  messages.map((one) => (typeof one === 'string' || one instanceof Uint8Array ? one : format.write(one)))

/** Replaces every value that passes the test. */
const changed = (value: Json | undefined, is: (name: string, value: Json) => boolean, to: Json, name = ''): Json => {
  const whole = value ?? null
  if (is(name, whole)) return to
  if (isList(whole)) return whole.map((inner) => changed(inner, is, to))
  if (!isObject(whole)) return whole
  return Object.fromEntries(Object.entries(whole).map(([key, inner]) => [key, changed(inner, is, to, key)]))
}
const isWords = (_: string, value: Json) => typeof value === 'string' && value !== '' && TEXT.startsWith(value)
const isUsage = (_: string, value: Json) => value === INPUT
const isArguments = (name: string) => /^(?:args|arguments|input)$/.test(name)
const isReason = (name: string, value: Json) =>
  /^(?:finish_reason|stopReason|done_reason)$/.test(name) && typeof value === 'string'

const spoilt = (sound: Sound, at: number, is: Parameters<typeof changed>[1], to: Json): Message[] =>
  sound.messages.map((one, index) =>
    index === at ? { ...one, data: JSON.stringify(changed(JSON.parse(one.data), is, to)) } : one,
  )
const replaced = (sound: Sound, at: number, data: string): Message[] =>
  sound.messages.map((one, index) => (index === at ? { ...one, data } : one))
const inserted = (sound: Sound, at: number, ...more: readonly (Message | Bytes)[]): (Message | Bytes)[] => [
  ...sound.messages.slice(0, at),
  ...more,
  ...sound.messages.slice(at),
]

const streamed = (
  sound: Sound,
  messages: readonly (Message | Bytes)[],
  more: Partial<Extract<Act, { do: 'stream' }>> = {},
): Act => ({
  do: 'stream',
  pieces: written(sound, messages),
  headers: { 'content-type': sound.format.mediaType },
  ...more,
})

/** A fraction of a stream's bytes, which may end within a character. */
const bytesOf = (pieces: readonly Bytes[]): Uint8Array =>
  Buffer.concat(pieces.map((piece) => Buffer.from(piece as string)))
const broken = (piece: Bytes): Uint8Array => {
  const bytes = Uint8Array.from(Buffer.from(piece as string))
  const at = bytes.length - 1
  bytes[at] = (bytes[at] ?? 0) ^ 1
  return bytes
}

// ── Faults ───────────────────────────────────────────────────────────────────────────────────────────────────────

type Fault = {
  readonly name: string
  readonly act: (sound: Sound) => Act
  readonly only?: 'stream' | 'whole'
  /** The formats that the fault applies to; all if absent. */
  readonly of?: readonly string[]
  /** Damages a tool call, not a text. */
  readonly call?: true
  /** Megabytes in size: run one at a time, or a busy machine reads none before its timeout. */
  readonly heavy?: true
} & (
  | /** Before content: the code in the trail, and the client's error if no other target answers. */
  {
      readonly so: 'elsewhere'
      readonly trailCode: string | ((format: Format) => string)
      readonly clientError: readonly [number, string] | ((format: Format) => readonly [number, string])
    }
  /**
   * Content has been sent: a stream ends with an error event. `skips`: in formats with independent events it continues
   * without the message instead.
   */
  | { readonly so: 'interrupted'; readonly skips?: true }
  /** The answer is complete nevertheless. */
  | { readonly so: 'whole' }
)

const malformed = { so: 'elsewhere', trailCode: 'malformed', clientError: [502, 'malformed'] } as const
const truncated = { so: 'elsewhere', trailCode: 'truncated', clientError: [502, 'truncated'] } as const
const errorInStream = {
  so: 'elsewhere',
  trailCode: ({ trailCode = 'error_in_stream' }: Format) => trailCode,
  clientError: ({ trailCode }: Format) => [502, trailCode ? 'status' : 'error_in_stream'] as const,
} as const
const emptyList = ({ protocol }: Format) => (protocol === 'gemini' ? 'truncated' : 'malformed')
const timeout = { so: 'elsewhere', trailCode: 'timeout', clientError: [504, 'timeout'] } as const

const WRONG: readonly (readonly [string, Json])[] = [
  ['a number', 7],
  ['true', true],
  ['a list', [{ x: 1 }]],
  ['an object', { x: 1 }],
]
const NO_OBJECT: readonly (readonly [string, string])[] = [
  ['an empty list', '[]'],
  ['a text', '"hello"'],
  ['null', 'null'],
  ['a number', '7'],
  ['invalid JSON', '{nonsense'],
]
const ENDINGS: readonly Ending[] = ['end', 'close', 'reset']

const FAULTS: Fault[] = [
  // ── Whole answers, and other responses instead of an answer ────────────────────────────────────────────────────
  ...NO_OBJECT.map(
    ([name, body]): Fault => ({
      name: `the body is ${name}`,
      act: () => ({ do: 'answer', body }),
      ...malformed,
      // Gemini's streams may be JSON lists; this one ends before its first element.
      ...(body === '[]' && { trailCode: emptyList, clientError: (format) => [502, emptyList(format)] }),
    }),
  ),
  { name: 'an empty object', act: () => ({ do: 'answer', body: {} }), ...malformed },
  { name: 'nothing', act: () => ({ do: 'answer' }), ...malformed },
  {
    name: 'an HTML page',
    act: () => ({ do: 'answer', headers: { 'content-type': 'text/html' }, body: '<html>a page</html>' }),
    so: 'elsewhere',
    trailCode: 'not_json',
    clientError: [502, 'not_json'],
  },
  {
    name: 'an HTML page with a JSON content type',
    act: () => ({ do: 'answer', body: '<html>a page</html>' }),
    so: 'elsewhere',
    trailCode: 'not_json',
    clientError: [502, 'not_json'],
  },
  {
    name: 'an HTML page with an error status',
    act: () => ({ do: 'answer', status: 502, headers: { 'content-type': 'text/html' }, body: '<html>a page</html>' }),
    so: 'elsewhere',
    trailCode: '502',
    clientError: [502, 'status'],
  },
  {
    name: 'a status without a body',
    act: () => ({ do: 'answer', status: 503 }),
    so: 'elsewhere',
    trailCode: '503',
    clientError: [502, 'overloaded'],
  },
  {
    name: 'an error without a type',
    act: () => ({ do: 'answer', status: 500, body: '[[7]]' }),
    so: 'elsewhere',
    trailCode: '500',
    clientError: [502, 'status'],
  },
  {
    name: 'a truncated body',
    act: ({ body }) => ({ do: 'answer', body: JSON.stringify(body).slice(0, -9) }),
    ...malformed,
  },
  ...WRONG.map(
    ([name, to]): Fault => ({
      name: `the content is ${name}`,
      only: 'whole',
      act: ({ body }) => ({ do: 'answer', body: JSON.stringify(changed(body, isWords, to)) }),
      ...malformed,
    }),
  ),
  ...WRONG.slice(0, 3).map(
    ([name, to]): Fault => ({
      name: `the arguments are ${name}`,
      only: 'whole',
      call: true,
      act: ({ body }) => ({ do: 'answer', body: JSON.stringify(changed(body, isArguments, to)) }),
      ...malformed,
    }),
  ),
  {
    name: 'a body shorter than its content-length',
    only: 'whole',
    act: ({ body }) => {
      const bytes = JSON.stringify(body)
      const length = Buffer.byteLength(bytes) + 9
      const head = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n`
      return { do: 'raw', bytes: head + bytes }
    },
    ...truncated,
  },
  {
    name: 'invalid gzip',
    act: ({ body }) => ({ do: 'answer', headers: { 'content-encoding': 'gzip' }, body }),
    ...malformed,
  },
  {
    name: 'invalid token counts',
    only: 'whole',
    act: ({ body }) => ({ do: 'answer', body: JSON.stringify(changed(body, isUsage, -3)) }),
    so: 'whole',
  },
  {
    name: 'a stream instead of JSON',
    only: 'whole',
    act: (sound) => streamed(sound, sound.messages),
    so: 'whole',
  },
  { name: 'JSON instead of a stream', only: 'stream', act: ({ body }) => ({ do: 'answer', body }), so: 'whole' },

  // ── Streams, before the first content ──────────────────────────────────────────────────────────────────────────
  ...NO_OBJECT.map(
    ([name, data]): Fault => ({
      name: `the first message is ${name}`,
      only: 'stream',
      act: (sound) => streamed(sound, replaced(sound, sound.first, data)),
      ...malformed,
    }),
  ),
  ...WRONG.map(
    ([name, to]): Fault => ({
      name: `the first content is ${name}`,
      only: 'stream',
      act: (sound) => streamed(sound, spoilt(sound, sound.first, isWords, to)),
      ...malformed,
    }),
  ),
  ...ENDINGS.map(
    (ending): Fault => ({
      name: `the stream ends before its first content (${ending})`,
      only: 'stream',
      act: (sound) => streamed(sound, sound.messages.slice(0, sound.first), { gap: 3, ending }),
      ...truncated,
    }),
  ),
  {
    name: 'an error first',
    only: 'stream',
    act: (sound) => streamed(sound, [sound.format.error]),
    ...errorInStream,
  },
  {
    name: 'an error before the first content',
    only: 'stream',
    act: (sound) => streamed(sound, inserted(sound, sound.first, sound.format.error)),
    ...errorInStream,
  },
  {
    name: 'a header block and silence',
    only: 'stream',
    act: (sound) => streamed(sound, [], { ending: 'stall' }),
    ...timeout,
  },
  {
    name: 'keep-alives only',
    only: 'stream',
    act: (sound) => streamed(sound, Array<Bytes>(100).fill(sound.format.alive), { gap: 40 }),
    ...timeout,
  },
  {
    name: 'an excessively large first message',
    only: 'stream',
    act: (sound) =>
      streamed(sound, [{ event: sound.messages[0]?.event, data: `{"x":"${'x'.repeat(9 * 1024 * 1024)}"}` }]),
    heavy: true,
    so: 'elsewhere',
    trailCode: 'response_too_large',
    clientError: [502, 'response_too_large'],
  },
  {
    name: 'a wrong checksum first',
    only: 'stream',
    of: ['bedrock'],
    act: (sound) => streamed(sound, inserted(sound, sound.first, broken(sound.format.alive))),
    ...malformed,
  },
  {
    name: 'a fragment of a tool call without a start',
    only: 'stream',
    of: ['bedrock', 'cohere'],
    act: (sound) =>
      streamed(
        sound,
        inserted(
          sound,
          sound.first,
          sound.format.protocol === 'cohere'
            ? {
                event: 'tool-call-delta',
                data: '{"type":"tool-call-delta","index":0,"delta":{"message":{"tool_calls":{"function":{"arguments":"{}"}}}}}',
              }
            : { event: 'contentBlockDelta', data: '{"contentBlockIndex":0,"delta":{"toolUse":{"input":"{}"}}}' },
        ),
      ),
    ...malformed,
  },

  // ── Streams, after the first content ───────────────────────────────────────────────────────────────────────────
  ...ENDINGS.map(
    (ending): Fault => ({
      name: `the stream ends after its first content (${ending})`,
      only: 'stream',
      act: (sound) => streamed(sound, sound.messages.slice(0, sound.first + 1), { gap: 3, ending }),
      so: 'interrupted',
    }),
  ),
  {
    name: 'the stream ends before its finish reason',
    only: 'stream',
    act: (sound) => streamed(sound, sound.messages.slice(0, sound.last), { gap: 1 }),
    so: 'interrupted',
  },
  ...[0.35, 0.45, 0.55, 0.62, 0.7].map(
    (share): Fault => ({
      name: `the stream ends at ${share * 100} % of its bytes`,
      only: 'stream',
      act: (sound) => {
        const before = written(sound, sound.messages.slice(0, sound.first + 1))
        const rest = bytesOf(written(sound, sound.messages.slice(sound.first + 1, sound.last + 1)))
        return streamed(sound, [...before, rest.subarray(0, Math.floor(rest.length * share))], { gap: 3 })
      },
      so: 'interrupted',
    }),
  ),
  {
    name: 'an error after the first content',
    only: 'stream',
    act: (sound) => streamed(sound, inserted(sound, sound.first + 1, sound.format.error), { gap: 1 }),
    so: 'interrupted',
  },
  ...NO_OBJECT.map(
    ([name, data]): Fault => ({
      name: `a later message is ${name}`,
      only: 'stream',
      act: (sound) => streamed(sound, replaced(sound, sound.first + 2, data), { gap: 1 }),
      so: 'interrupted',
      skips: true,
    }),
  ),
  ...WRONG.map(
    ([name, to]): Fault => ({
      name: `later content is ${name}`,
      only: 'stream',
      act: (sound) =>
        streamed(
          sound,
          spoilt(sound, sound.first + 2, (_, value) => typeof value === 'string' && TEXT.includes(value), to),
          {
            gap: 1,
          },
        ),
      so: 'interrupted',
      skips: true,
    }),
  ),
  {
    name: 'a wrong checksum after the first content',
    only: 'stream',
    of: ['bedrock'],
    act: (sound) => streamed(sound, inserted(sound, sound.first + 1, broken(sound.format.alive)), { gap: 1 }),
    so: 'interrupted',
  },
  {
    name: 'silence after the first content',
    only: 'stream',
    act: (sound) => streamed(sound, sound.messages.slice(0, sound.first + 1), { gap: 3, ending: 'stall' }),
    so: 'interrupted',
  },

  // ── Contradictory answers ──────────────────────────────────────────────────────────────────────────────────────
  {
    name: 'a tool call finish reason without a call',
    only: 'whole',
    of: ['bedrock', 'mistral', 'cohere', 'ollama'],
    act: ({ body, format }) => ({ do: 'answer', body: JSON.stringify(changed(body, isReason, format.called ?? '')) }),
    so: 'whole',
  },
  {
    name: 'a tool call finish reason without a call',
    only: 'stream',
    of: ['bedrock', 'mistral', 'cohere', 'ollama'],
    act: (sound) => streamed(sound, spoilt(sound, sound.last, isReason, sound.format.called ?? '')),
    so: 'whole',
  },
  {
    name: 'two ends',
    only: 'stream',
    act: (sound) =>
      streamed(sound, inserted(sound, sound.last + 1, ...sound.messages.slice(sound.last, sound.last + 1))),
    so: 'whole',
  },
  {
    name: 'content after the end',
    only: 'stream',
    act: (sound) => streamed(sound, [...sound.messages, ...sound.messages.slice(sound.first, sound.first + 1)]),
    so: 'whole',
  },
  {
    name: 'an error after the end',
    only: 'stream',
    act: (sound) => streamed(sound, [...sound.messages, sound.format.error]),
    so: 'whole',
  },
  {
    name: 'the whole answer twice',
    only: 'stream',
    act: (sound) => streamed(sound, [...sound.messages, ...sound.messages]),
    so: 'whole',
  },
]

// ── Cases ────────────────────────────────────────────────────────────────────────────────────────────────────────

type Case = {
  readonly id: string
  readonly fault: Fault
  readonly name: string
  readonly format: Format
  readonly style: Style
  readonly stream: boolean
}

const CASES: readonly Case[] = FAULTS.flatMap((fault) =>
  Object.entries(FORMATS).flatMap(([name, format]) =>
    STYLES.flatMap((style) =>
      [false, true].flatMap((stream) => {
        if (fault.only && (fault.only === 'stream') !== stream) return []
        if (fault.of && !fault.of.includes(name)) return []
        return [{ fault, name, format, style, stream }]
      }),
    ),
  ),
).map((one, at) => ({ ...one, id: `c${at}` }))

const titleOf = ({ fault, name, style, stream }: Case) =>
  `${name}: ${fault.name}: ${style}${stream ? ', streamed' : ''}`

const toolsFor = (style: Style): object => {
  const schema = { name: CALL.name, description: 'says the weather', parameters: { type: 'object', properties: {} } }
  return { tools: [style === 'chat' ? { type: 'function', function: schema } : { type: 'function', ...schema }] }
}

describe('faults of formats', () => {
  const on = stage()
  let gateway: Started

  before(async () => {
    const upstream = await on.upstream((request) => {
      const [, id] = request.path.split('/')
      if (id === 'spare') return answerWith(request, { text: SPARE })
      const found = CASES.find((one) => one.id === id)
      if (!found) return { do: 'answer', status: 418 }
      const content: AnswerContent = {
        ...(found.fault.call ? { tools: [CALL] } : { text: TEXT }),
        input: INPUT,
        output: 5,
      }
      return found.fault.act(soundOf(found.format, request, content))
    })
    const placeOf = ({ id, format }: Case): ProviderInput => ({
      baseUrl: `${upstream.url}/${id}${format.version}`,
      ...(format.kind ? { kind: format.kind } : { styles: [upstreamProtocols[format.protocol].style] }),
    })
    gateway = await on.gateway({
      fallback: 'same-model',
      circuit: { timeout: 1_500, minRequests: 100, consecutiveFailures: 0 },
      retry: { maxAttempts: 2, budgetPercent: 0 },
      timeout: { connect: 5_000, firstContent: 3_000, idle: 1_500 },
      keepAlive: { interval: 0 },
      providers: {
        ...Object.fromEntries(CASES.map((one) => [one.id, placeOf(one)])),
        spare: { baseUrl: `${upstream.url}/spare/v1` },
      },
      routes: Object.fromEntries(
        CASES.flatMap(({ id }) => [
          [`${id}-alone`, { targets: [`${id}/m`] }],
          [`${id}-two`, { targets: [`${id}/m`, 'spare/m'] }],
        ]),
      ),
    })
  })

  const trailOf = (headers: Headers): string[] =>
    (headers.get('x-headgate-trail') ?? '').split(', ').map((step) => step.replace(/#[0-9a-f]{4,}:/, ':'))

  const each = (concurrency: number, cases: typeof CASES) =>
    describe(`each, ${concurrency} at a time`, { concurrency }, () => {
      for (const one of cases) {
        const { fault, style, stream, id, format } = one
        const more = fault.call ? toolsFor(style) : {}
        test(titleOf(one), { timeout: 20_000 }, async () => {
          const alone = await sendChat(gateway, { style, model: `${id}-alone`, stream, more })
          if (fault.so === 'elsewhere') {
            const trailCode = typeof fault.trailCode === 'string' ? fault.trailCode : fault.trailCode(format)
            const clientError = typeof fault.clientError === 'function' ? fault.clientError(format) : fault.clientError
            assert.deepEqual([alone.status, alone.json().error.code], [...clientError], alone.text)
            assert.equal(trailOf(alone.headers)[0], `${id}:${trailCode}`)
            const two = await sendChat(gateway, { style, model: `${id}-two`, stream, more })
            assert.equal(two.status, 200, two.text)
            assert.deepEqual(trailOf(two.headers), [`${id}:${trailCode}`, 'spare:200'])
            assert.equal(textIn(style, stream, two.text), SPARE)
            if (stream) assert.ok(isComplete(style, two.text), two.text)
            return
          }
          assert.equal(alone.status, 200, alone.text)
          const receivedText = textIn(style, stream, alone.text)
          const well = !stream || isComplete(style, alone.text)
          if (fault.so === 'whole') assert.ok(well, alone.text)
          if (fault.so === 'interrupted' && fault.skips && format.loose) {
            assert.ok(well, alone.text)
            assert.ok(receivedText.length < TEXT.length && TEXT.startsWith(receivedText.slice(0, 5)), receivedText)
            return
          }
          if (fault.so === 'interrupted') assert.ok(!well, alone.text)
          if (well) {
            assert.equal(receivedText, TEXT)
            assert.doesNotMatch(alone.text, /"finish_reason":"tool_calls"/)
            return
          }
          assert.ok(receivedText !== '' && TEXT.startsWith(receivedText), receivedText)
          assert.doesNotMatch(alone.text, /"finish_reason":"|response\.completed/)
          const error = eventsIn(alone.text).find((event) => event.error)?.error
          assert.equal(error?.code, 'stream_interrupted', alone.text)
        })
      }
    })
  each(
    24,
    CASES.filter(({ fault }) => !fault.heavy),
  )
  each(
    1,
    CASES.filter(({ fault }) => fault.heavy),
  )

  test('the gateway is alive, and logged no internal error', async () => {
    assert.equal((await fetch(`${gateway.url}/health`)).status, 200)
    const served = (await gateway.logged()).filter(({ event }) => event === 'request')
    assert.doesNotMatch(gateway.output(), /internal_error|unhandled|Unhandled|\n {4}at /)
    assert.deepEqual(
      served.filter(({ status }) => status === 500),
      [],
    )
    assert.ok(served.length >= CASES.length)
  })
})
