/**
 * Generators for property tests: JSON built from a format's own member names (which gets further into a decoder than
 * random JSON), and arbitrary requests.
 */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import type { ChatEvent, ChatRequest, Part, UpstreamProtocolName } from '../../src/core/chat.ts'
import type { Json, JsonObject } from '../../src/core/json.ts'
import type { UpstreamProtocol } from '../../src/core/protocol.ts'
import { assertEventOrder } from './event-order.ts'

// fast-check's JSON values are JSON.
export const json = fc.jsonValue() as fc.Arbitrary<Json>

/** Values and objects that resemble those of a format with these member names. */
export const lookalikes = (words: readonly string[]) => {
  const word = fc.constantFrom(...words, '__proto__', 'constructor')
  const { lookalike } = fc.letrec<{ lookalike: Json }>((tie) => ({
    lookalike: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      word,
      fc.string(),
      fc.double(),
      fc.constantFrom<Json>(null, true, false, 0, 1, -1),
      fc.array(tie('lookalike'), { maxLength: 4 }),
      fc.dictionary(word, tie('lookalike'), { maxKeys: 6 }),
    ),
  }))
  const anything = fc.oneof(json, lookalike)
  const objects: fc.Arbitrary<JsonObject> = fc.dictionary(word, anything, { maxKeys: 8 })
  return { word, anything, objects }
}

// ── Answers ──────────────────────────────────────────────────────────────────────────────────────────────────────

type AnswerShape = {
  /** Member names, and values they may have. */
  readonly names: readonly string[]
  readonly values: readonly Json[]
  /** Decodes these bodies as a stream and returns its events. */
  readonly read: (bodies: readonly Json[]) => readonly ChatEvent[]
}

type Decoder = Pick<UpstreamProtocol, 'decodeAnswer' | 'decodeFailure' | 'lenientEvents'>

/**
 * Asserts that any upstream answer, whole or streamed, decodes to an ordered, terminated list of events without an
 * exception.
 */
export const assertReadable = (
  { decodeAnswer, decodeFailure, lenientEvents: looseEvents = false }: Decoder,
  { names, values, read }: AnswerShape,
): void => {
  const member = fc.constantFrom(...names, '__proto__')
  const { value: anything } = fc.letrec<{ value: Json }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 8 },
      fc.constantFrom<Json>(null, true, false, 0, 1, -1.5, 500, '', 'x', 'ü\ud800', ...values),
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(member, tie('value'), { maxKeys: 5, noNullPrototype: true }),
    ),
  }))
  fc.assert(
    fc.property(fc.array(anything, { maxLength: 4 }), (bodies) => {
      for (const body of bodies) assertEventOrder(decodeAnswer(body), looseEvents)
      assertEventOrder(read(bodies), looseEvents)
      for (const body of bodies) assert.ok(decodeFailure(500, body, () => undefined).message)
    }),
    { numRuns: 400 },
  )
}

// ── Requests ─────────────────────────────────────────────────────────────────────────────────────────────────────

const CLOSED: Json = { type: 'object', properties: {}, additionalProperties: false }
const at = fc.constantFrom('messages[0].content[0]', 'input[1]', 'messages[2]')
const anyText = fc.oneof(fc.string(), fc.constantFrom('', ' ', '\n'))
const seldom = fc.oneof({ weight: 30, arbitrary: fc.constant(false) }, fc.constant(true))
/** The discriminant of a union. */
const is = <const T extends string>(word: T) => fc.constant(word)
const setting = <T>(value: fc.Arbitrary<T>) => fc.record({ value, at: fc.constant('setting') })

/** Arguments of a tool call, as JSON. */
export const anyArguments = fc.dictionary(fc.string(), json, { maxKeys: 3 }).map((value) => JSON.stringify(value))

const mediaTypes = ['image/png', '', 'image/tiff', 'application/pdf', 'text/plain', 'text/csv', 'video/mp4', 'x/y']

type RequestOptions = ReturnType<typeof lookalikes> & {
  /** The format under test. Its own ids and signatures occur beside those of other formats. */
  readonly origin: UpstreamProtocolName
  /** Names of additional members of a part or message. */
  readonly beside: readonly string[]
}

/** An arbitrary chat request, mostly of content that a format can carry. */
export const anyRequest = ({ word, anything, objects, origin, beside }: RequestOptions): fc.Arbitrary<ChatRequest> => {
  const extras = fc.array(
    fc.record({
      at: fc.constant('extra'),
      name: fc.constantFrom(...beside),
      value: fc.oneof(anything, fc.record({ type: is('ephemeral'), ttl: fc.constantFrom('5m', '1h', 'x') })),
      essential: seldom,
    }),
    { maxLength: 2 },
  )
  const source = fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        kind: is('data'),
        mediaType: fc.constantFrom('image/png', 'application/pdf'),
        data: fc.base64String(),
      }),
    },
    fc.record({
      kind: is('data'),
      mediaType: fc.constantFrom(...mediaTypes),
      data: fc.oneof(fc.base64String(), fc.string()),
    }),
    fc.record({
      kind: is('url'),
      url: fc.oneof(fc.webUrl(), fc.string(), fc.constant('data:image/png;base64,iVBORw0KGgo=')),
    }),
    fc.record({ kind: is('id'), id: fc.string(), protocol: fc.constantFrom('openai-chat', origin) }),
  )
  const part = fc.oneof(
    { weight: 8, arbitrary: fc.record({ type: is('text'), at, text: anyText, extras }) },
    fc.record({ type: is('refusal'), at, text: anyText }),
    fc.record({ type: is('image'), at, source, extras }),
    fc.record({ type: is('file'), at, source, filename: fc.string({ minLength: 1, maxLength: 600 }), extras }),
    fc.record({ type: is('audio'), at, data: fc.string(), format: fc.constantFrom('wav', 'mp3', 'x') }),
    fc.record({
      type: is('tool-call'),
      at,
      id: fc.string(),
      name: fc.string({ minLength: 1 }),
      arguments: fc.oneof(anyArguments, fc.string()),
    }),
    fc.record({
      type: is('reasoning'),
      at,
      text: fc.string(),
      signature: fc.record({
        origin: fc.constantFrom(origin, 'anthropic-messages', 'openai-chat'),
        value: fc.string(),
        redacted: fc.boolean(),
      }),
    }),
  ) as fc.Arbitrary<Part>
  const content = fc.array(part, { maxLength: 4 })
  const texts = fc.array(fc.record({ type: is('text'), at, text: anyText, extras }))
  const schema = fc.oneof({ weight: 9, arbitrary: fc.constant(CLOSED) }, objects)
  return fc.record({
    model: fc.string(),
    stream: fc.boolean(),
    messages: fc.array(
      fc.oneof(
        fc.record({ role: is('system'), at, as: is('system'), content: texts }),
        fc.record({ role: is('user'), at, content, extras }),
        fc.record({ role: is('assistant'), at, content, extras }),
        fc.record({ role: is('tool'), at, callId: fc.string(), content, isError: fc.boolean(), extras }),
      ),
      { maxLength: 6 },
    ),
    tools: fc.array(
      fc.oneof(
        fc.record({
          kind: is('function'),
          at,
          name: fc.string({ minLength: 1 }),
          description: anyText,
          parameters: schema,
          strict: fc.boolean(),
          extras,
        }),
        fc.record({
          kind: is('custom'),
          at,
          name: fc.string({ minLength: 1, maxLength: 300 }),
          description: fc.string(),
          format: objects,
        }),
      ),
      { maxLength: 3 },
    ),
    settings: fc.record(
      {
        maxOutputTokens: setting(fc.integer({ min: 1, max: 1_000_000 })),
        temperature: setting(fc.double({ min: -1, max: 3, noNaN: true })),
        topP: setting(fc.double({ min: 0, max: 1, noNaN: true })),
        topK: setting(fc.double({ min: 0, max: 99, noNaN: true })),
        stop: setting(fc.array(anyText)),
        user: setting(fc.string({ maxLength: 700 })),
        metadata: setting(fc.dictionary(fc.string(), fc.oneof(fc.string(), json), { maxKeys: 3 })),
        serviceTier: setting(fc.constantFrom('auto', 'flex', 'default', 'x')),
        parallelToolCalls: setting(fc.boolean()),
        effort: setting(fc.constantFrom('none', 'minimal', 'low', 'xhigh', 'max')),
        thinkingBudget: setting(fc.integer({ min: 0, max: 50_000 })),
        reasoningSummary: setting(fc.constantFrom('auto', 'detailed')),
        toolChoice: setting(
          fc.oneof(
            fc.constantFrom({ kind: 'auto' as const }, { kind: 'none' as const }, { kind: 'required' as const }),
            fc.string({ minLength: 1 }).map((name) => ({ kind: 'tool' as const, name })),
          ),
        ),
        format: setting(fc.record({ kind: is('schema'), name: fc.string(), schema, description: fc.string() })),
      },
      { requiredKeys: [] },
    ),
    extras: fc.array(fc.record({ at, name: fc.oneof(word, is('thinking')), value: json, essential: seldom }), {
      maxLength: 2,
    }),
  }) as fc.Arbitrary<ChatRequest>
}
