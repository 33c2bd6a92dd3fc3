/**
 * Property tests: encoding followed by decoding returns the same value. For every format of both sides: requests, and
 * answers, whole and streamed. For every upstream format: tools return with the client's names and types, and chunk
 * boundaries do not change the events of a stream.
 *
 * `comparableRequest` removes from both requests: paths (`at`, `paths`), which refer to another body; settings that
 * `encodeRequest` reports as lost (`roundTripped` lists those that must return); `streamUsage`, which every upstream
 * receives; the difference between system and developer messages, which some formats lack; and defaults (`store: false`,
 * `detail: 'auto'`, tool choice `auto`, empty lists, the `thinking: adaptive` that an effort in messages requires).
 * Generators omit what a format cannot express; `CAPABILITIES` lists that.
 *
 * Of an answer everything is compared except `raw` values, ids of the answer and of signatures, which the formats
 * generate, and `created`, which some formats lack. Missing counts return as 0.
 */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import {
  type AnswerBlock,
  type ChatAnswer,
  type ChatEvent,
  type ChatRequest,
  type Finish,
  fold,
  type GenerationSettings,
  type Message,
  type Part,
  type SettingName,
  type Tool,
  type ToolCall,
  unfold,
} from '../../src/core/chat.ts'
import { isList, isObject, type Json, type JsonObject } from '../../src/core/json.ts'
import type { AnswerContext, Protocol, UpstreamProtocol } from '../../src/core/protocol.ts'
import { run } from '../../src/core/stage.ts'
import { sse } from '../../src/protocols/framing/sse.ts'
import { sharedProtocols, upstreamProtocols } from '../../src/protocols/index.ts'
import { ACCEPTS_ALL } from '../support/accepts-all.ts'
import { answerContext, chatRequest, sequentialIds } from '../support/builders.ts'
import { evidenceOf } from '../support/exchanges.ts'
import { messagesOf, type Recording, requireRecordings } from '../support/recordings.ts'

const RUNS = { numRuns: 300 }
const TARGET = { model: 'm', outputLimit: 100_000, acceptsReasoning: true, supportsCustomTools: true, ...ACCEPTS_ALL }

// ── Capabilities of the formats ──────────────────────────────────────────────────────────────────────────────────

type Capabilities = {
  /** Custom tools, whose calls have text instead of arguments. */
  readonly customTools: boolean
  /** Refusals are distinct from text. */
  readonly refusals: boolean
  /** Tool results can be errors and have images. */
  readonly richResults: boolean
  /** Reasoning summaries are distinct from reasoning. */
  readonly summaries: boolean | 'always'
  /** Reasoning can have no signature. `in answers`: there the signature is that of the next part. */
  readonly unsignedReasoning: boolean | 'in answers'
  /** Schemas of tools are enforced for all or for none. */
  readonly strictTogether?: true
  /** The upstream's model; absent: that of `TARGET`. */
  readonly model?: string
  /** Blocks of an answer have any order and number; otherwise reasoning, one text, calls. */
  readonly anyOrder: boolean
  /** Two texts in a row are one text. */
  readonly joinsTexts?: true
  /** Media types of files other than images. */
  readonly files: readonly string[]
  readonly finishes: readonly Finish[]
  /** Settings that return, at least from some requests. */
  readonly roundTripped: readonly SettingName[]
  /** Settings that always apply, without a member for them. */
  readonly implied: readonly SettingName[]
}

const ends = (...kinds: readonly Finish['kind'][]): Finish[] => kinds.map((kind) => ({ kind, raw: null }))

const CAPABILITIES: { readonly [name in Protocol['name']]: Capabilities } = {
  'openai-chat': {
    customTools: true,
    refusals: true,
    richResults: false,
    summaries: false,
    unsignedReasoning: true,
    anyOrder: false,
    files: ['application/pdf'],
    finishes: ends('stop', 'length', 'content-filter'),
    roundTripped: [
      'effort',
      'format',
      'frequencyPenalty',
      'logitBias',
      'logprobs',
      'maxOutputTokens',
      'metadata',
      'parallelToolCalls',
      'presencePenalty',
      'promptCacheKey',
      'seed',
      'serviceTier',
      'stop',
      'store',
      'temperature',
      'toolChoice',
      'topLogprobs',
      'topP',
      'user',
      'verbosity',
    ],
    implied: [],
  },
  'openai-responses': {
    customTools: true,
    refusals: true,
    richResults: false,
    summaries: true,
    unsignedReasoning: false,
    anyOrder: true,
    files: ['application/pdf', 'text/plain'],
    finishes: ends('stop', 'length', 'content-filter'),
    roundTripped: [
      'effort',
      'format',
      'logprobs',
      'maxOutputTokens',
      'metadata',
      'parallelToolCalls',
      'promptCacheKey',
      'reasoningSummary',
      'encryptedReasoning',
      'serviceTier',
      'store',
      'temperature',
      'toolChoice',
      'topLogprobs',
      'topP',
      'user',
      'verbosity',
    ],
    implied: [],
  },
  'anthropic-messages': {
    customTools: false,
    refusals: false,
    richResults: true,
    summaries: false,
    unsignedReasoning: false,
    anyOrder: true,
    files: ['application/pdf'],
    finishes: [...ends('stop', 'length', 'refusal', 'pause'), { kind: 'stop', raw: null, stopSequence: 'END' }],
    roundTripped: [
      'effort',
      'format',
      'maxOutputTokens',
      'parallelToolCalls',
      'reasoningSummary',
      'serviceTier',
      'stop',
      'temperature',
      'toolChoice',
      'topK',
      'topP',
      'user',
    ],
    implied: ['encryptedReasoning'],
  },
  gemini: {
    model: 'gemini-3-pro',
    customTools: false,
    refusals: false,
    richResults: false,
    summaries: 'always',
    unsignedReasoning: 'in answers',
    strictTogether: true,
    anyOrder: true,
    joinsTexts: true,
    // They have no names.
    files: [],
    finishes: ends('stop', 'length'),
    roundTripped: [
      'effort',
      'format',
      'logprobs',
      'maxOutputTokens',
      // Where no tool may be called.
      'parallelToolCalls',
      'seed',
      'stop',
      'temperature',
      'toolChoice',
      'topK',
      'topLogprobs',
      'topP',
    ],
    implied: ['encryptedReasoning', 'reasoningSummary'],
  },
}

// ── Requests ─────────────────────────────────────────────────────────────────────────────────────────────────────

const at = 'x'
/** Texts that are not blank. */
const words = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 }).map((text) => `w${text}w`)
const name = fc.stringMatching(/^[a-zA-Z_][a-zA-Z0-9_]{0,20}$/)
const id = fc.stringMatching(/^call_[a-zA-Z0-9]{6,12}$/)
const base64 = fc.uint8Array({ minLength: 1, maxLength: 12 }).map((bytes) => Buffer.from(bytes).toString('base64'))
const object = fc
  .dictionary(name, fc.oneof(fc.string(), fc.integer(), fc.boolean(), fc.constant(null), fc.array(fc.integer())), {
    maxKeys: 3,
    noNullPrototype: true,
  })
  .map((value): JsonObject => value)
const schema = fc.uniqueArray(name, { minLength: 1, maxLength: 3 }).map(
  (names): JsonObject => ({
    type: 'object',
    properties: Object.fromEntries(names.map((each) => [each, { type: 'string' }])),
    required: names,
    additionalProperties: false,
  }),
)
/** An object in which each member is optional. */
const some = <T extends object>(members: { [Name in keyof T]: fc.Arbitrary<T[Name]> }) =>
  fc.record(members, { requiredKeys: [] }) as fc.Arbitrary<Partial<T>>

const text = words.map((value): Part => ({ type: 'text', at, text: value }))
const picture = fc.oneof(
  base64.map((data): Part => ({ type: 'image', at, source: { kind: 'data', mediaType: 'image/png', data } })),
  name.map((file): Part => ({ type: 'image', at, source: { kind: 'url', url: `https://h.example/${file}.png` } })),
)
const file = (types: readonly string[]) =>
  fc.tuple(fc.constantFrom(...types), base64, name).map(
    ([mediaType, data, filename]): Part => ({
      type: 'file',
      at,
      filename: `${filename}.${mediaType === 'application/pdf' ? 'pdf' : 'txt'}`,
      source: { kind: 'data', mediaType, data },
    }),
  )

const toolCall = ({ customTools }: Capabilities) =>
  fc.oneof(
    fc.tuple(id, name, object).map(
      ([callId, called, args]): ToolCall => ({
        type: 'tool-call',
        id: callId,
        name: called,
        arguments: JSON.stringify(args),
      }),
    ),
    ...(customTools
      ? [
          fc.tuple(id, name, words).map(
            ([callId, called, input]): ToolCall => ({
              type: 'tool-call',
              id: callId,
              name: called,
              arguments: input,
              custom: true,
            }),
          ),
        ]
      : []),
  )

/** Thoughts as the format's own model has them. */
const reasoning = (origin: Protocol['name'], { summaries, unsignedReasoning }: Capabilities, inAnswer = false) =>
  fc
    .tuple(
      words,
      unsignedReasoning === true || (unsignedReasoning && inAnswer) ? fc.constant(undefined) : base64,
      summaries === 'always' ? fc.constant(true) : fc.boolean(),
    )
    .map(([content, value, summed]) => ({
      type: 'reasoning' as const,
      text: content,
      ...(summaries && summed && { summary: true }),
      // Reasoning items have an id.
      ...(value !== undefined && {
        signature: { origin, value, ...(summaries === true && { id: `rs_${content.length}${value.length}` }) },
      }),
    }))

/** A user message, and optionally an answer with the results of its calls. */
const exchange = (format: Protocol['name'], capabilities: Capabilities): fc.Arbitrary<Message[]> => {
  const files = capabilities.files.length > 0 ? [file(capabilities.files)] : []
  const userContent = fc.array(fc.oneof({ weight: 3, arbitrary: text }, picture, ...files), {
    minLength: 1,
    maxLength: 3,
  })
  const turn = fc.record({
    reasoned: fc.option(reasoning(format, capabilities), { nil: undefined }),
    answered: fc.option(words, { nil: undefined }),
    refused: fc.boolean(),
    calls: fc.uniqueArray(toolCall(capabilities), { maxLength: 3, selector: (call) => call.id }),
    results: fc.array(
      fc.tuple(
        fc.oneof(
          text.map((one) => [one]),
          ...(capabilities.richResults ? [fc.tuple(text, picture)] : []),
        ),
        capabilities.richResults ? fc.boolean() : fc.constant(false),
      ),
      { minLength: 3, maxLength: 3 },
    ),
  })
  return fc.tuple(userContent, fc.option(turn, { nil: undefined })).map(([content, done]): Message[] => {
    const userMessage: Message = { role: 'user', at, content }
    if (!done) return [userMessage]
    const { reasoned, answered, refused, calls, results } = done
    const texts: Part[] =
      answered === undefined
        ? []
        : [{ type: capabilities.refusals && refused ? 'refusal' : 'text', at, text: answered }]
    // Reasoning alone is not an answer.
    if (texts.length + calls.length === 0) return [userMessage]
    const answer: Message = {
      role: 'assistant',
      at,
      content: [...(reasoned ? [{ ...reasoned, at }] : []), ...texts, ...calls.map((call) => ({ ...call, at }))],
    }
    const toolMessages = calls.map((call, index): Message => {
      const [given = [], isError = false] = results[index] ?? []
      return { role: 'tool', at, callId: call.id, content: given, ...(isError && { isError }) }
    })
    return [userMessage, answer, ...toolMessages]
  })
}

const tool = ({ customTools }: Capabilities): fc.Arbitrary<Tool> =>
  fc.oneof(
    fc
      .record({ name, description: words, parameters: schema, strict: fc.boolean() })
      .map((members): Tool => ({ kind: 'function', at, ...members })),
    ...(customTools
      ? [fc.record({ name, description: words }).map((members): Tool => ({ kind: 'custom', at, ...members }))]
      : []),
  )

const fraction = (most: number) => fc.integer({ min: 1, max: most * 100 - 1 }).map((value) => value / 100)

/** Every setting that a format may have. A format must report those that it lacks. */
const anySettings = (tools: readonly Tool[]) =>
  some<{ [Name in keyof GenerationSettings]: NonNullable<GenerationSettings[Name]>['value'] }>({
    temperature: fraction(1),
    topP: fraction(1),
    topK: fc.integer({ min: 1, max: 500 }),
    stop: fc.array(words, { minLength: 1, maxLength: 4 }),
    seed: fc.integer(),
    presencePenalty: fraction(2),
    frequencyPenalty: fraction(2),
    logitBias: fc.constant({ 50256: -100 }),
    topLogprobs: fc.integer({ min: 1, max: 20 }),
    logprobs: fc.constant(true),
    ...(tools.length > 0 && {
      toolChoice: fc.oneof(
        fc.constantFrom({ kind: 'auto' as const }, { kind: 'none' as const }, { kind: 'required' as const }),
        fc
          .constantFrom(...tools)
          .map((one) => ({ kind: 'tool' as const, name: one.kind === 'foreign' ? '' : one.name })),
      ),
      parallelToolCalls: fc.constant(false),
    }),
    format: schema.map((value) => ({
      kind: 'schema' as const,
      name: 'answer',
      schema: { title: 'answer', ...value },
      strict: true,
    })),
    effort: fc.constantFrom('low', 'medium', 'high'),
    verbosity: fc.constantFrom('low', 'high'),
    user: name,
    promptCacheKey: name,
    serviceTier: fc.constantFrom('default', 'flex'),
    metadata: fc.constant({ trace: 'abc' }),
    store: fc.constant(true),
    reasoningSummary: fc.constantFrom('auto', 'detailed'),
    encryptedReasoning: fc.constant(true),
  })

const request = (format: Protocol['name'], capabilities: Capabilities): fc.Arbitrary<ChatRequest> =>
  fc
    .record({
      system: fc.option(words, { nil: undefined }),
      exchanges: fc.array(exchange(format, capabilities), { minLength: 1, maxLength: 3 }),
      tools: fc.uniqueArray(tool(capabilities), {
        maxLength: 3,
        selector: (one) => (one.kind === 'foreign' ? '' : one.name),
      }),
      stream: fc.boolean(),
      maxOutputTokens: fc.integer({ min: 16, max: 50_000 }),
    })
    .chain((made) => anySettings(made.tools).map((values) => ({ ...made, values })))
    .map(({ system, exchanges, tools, stream, maxOutputTokens, values }): ChatRequest => {
      const front: Message[] =
        system === undefined
          ? []
          : [{ role: 'system', as: 'system', at, content: [{ type: 'text', at, text: system }] }]
      // `topLogprobs` is invalid without `logprobs`.
      const paired = values.topLogprobs === undefined ? values : { ...values, logprobs: true }
      const settings = Object.fromEntries(
        Object.entries({ ...paired, maxOutputTokens }).map(([each, value]) => [each, { value, at: each }]),
      )
      // Names and values are those of the settings.
      return {
        model: 'm',
        stream,
        messages: mergeUserMessages([...front, ...exchanges.flat()]),
        tools: capabilities.strictTogether ? tools.map((one) => ({ ...one, strict: false })) : tools,
        settings: settings as GenerationSettings,
        extras: [],
      }
    })

/** Merges adjacent user messages. */
const mergeUserMessages = (messages: readonly Message[]): Message[] => {
  const all: Message[] = []
  for (const next of messages) {
    const last = all.at(-1)
    if (last?.role === 'user' && next.role === 'user')
      all[all.length - 1] = { ...last, content: [...last.content, ...next.content] }
    else all.push(next)
  }
  return all
}

/** The compared part of a request; see above. */
const comparableRequest = (request: ChatRequest, lost: ReadonlySet<string>): Json => {
  const extras = request.extras.filter(({ name: member }) => member !== 'thinking')
  const choice = request.settings.toolChoice?.value.kind
  const idle = new Set<string>([
    'streamUsage',
    ...(request.settings.store?.value ? [] : ['store']),
    ...(choice === 'auto' ? ['toolChoice'] : []),
    // Without calls there are no parallel ones.
    ...(choice === 'none' ? ['parallelToolCalls'] : []),
  ])
  const settings = Object.entries(request.settings).flatMap(([each, { value }]) =>
    lost.has(each) || idle.has(each) ? [] : [[each, value]],
  )
  return JSON.parse(
    JSON.stringify({ ...request, extras, settings: Object.fromEntries(settings) }, (key, value) =>
      key === 'at' ||
      key === 'paths' ||
      key === 'as' ||
      (key === 'extras' && value.length === 0) ||
      (key === 'detail' && value === 'auto')
        ? undefined
        : value,
    ),
  )
}

/** The members of a request that its path has, where it has any. */
const inPath = ({ streamPath }: Protocol, { model, stream }: ChatRequest): JsonObject =>
  streamPath === undefined ? {} : { model, stream }

describe('a request, encoded and decoded', () => {
  for (const protocol of Object.values(sharedProtocols))
    test(protocol.name, () => {
      const capabilities = CAPABILITIES[protocol.name]
      const returned = new Set<string>()
      fc.assert(
        fc.property(request(protocol.name, capabilities), (generated) => {
          const { body, losses } = protocol.encodeRequest(generated, {
            ...TARGET,
            ...(capabilities.model && { model: capabilities.model }),
          })
          // Of the generated requests only settings can be lost.
          const lost = new Set<string>(losses.map(({ path }) => path))
          for (const path of lost) assert.ok(Object.hasOwn(generated.settings, path), `lost: ${path}`)
          for (const setting of capabilities.implied) lost.add(setting)
          // The default tier is none, where the format has no tiers.
          if (!capabilities.roundTripped.includes('serviceTier')) lost.add('serviceTier')
          for (const setting of Object.keys(generated.settings)) if (!lost.has(setting)) returned.add(setting)
          const again = protocol.decodeRequest(JSON.parse(JSON.stringify({ ...inPath(protocol, generated), ...body })))
          assert.ok(again.ok)
          assert.deepEqual(comparableRequest(again.value, lost), comparableRequest(generated, lost))
        }),
        RUNS,
      )
      assert.deepEqual([...returned].toSorted(), [...capabilities.roundTripped].toSorted())
    })
})

// ── Answers ──────────────────────────────────────────────────────────────────────────────────────────────────────

const answerBlock = (format: Protocol['name'], capabilities: Capabilities): fc.Arbitrary<AnswerBlock> =>
  fc.oneof(
    words.map((value): AnswerBlock => ({ type: 'text', text: value })),
    reasoning(format, capabilities, true),
    toolCall(capabilities).map(({ arguments: given, ...call }): AnswerBlock => ({ ...call, text: given })),
    ...(capabilities.refusals ? [words.map((value): AnswerBlock => ({ type: 'refusal', text: value }))] : []),
  )

const ORDER = ['reasoning', 'text', 'refusal', 'tool-call', 'foreign']
/** In the order of a format with separate members, with one block of each type except calls. */
const ordered = (blocks: readonly AnswerBlock[]): AnswerBlock[] =>
  blocks
    .filter(({ type }, index) => type === 'tool-call' || blocks.findIndex((one) => one.type === type) === index)
    .toSorted((one, other) => ORDER.indexOf(one.type) - ORDER.indexOf(other.type))

/** Without a text after a text, which would be one. */
const apart = (blocks: readonly AnswerBlock[]): AnswerBlock[] =>
  blocks.filter(({ type }, index) => type === 'tool-call' || blocks[index - 1]?.type !== type)

const answer = (format: Protocol['name'], capabilities: Capabilities): fc.Arbitrary<ChatAnswer> =>
  fc
    .record({
      blocks: fc.uniqueArray(answerBlock(format, capabilities), {
        minLength: 1,
        maxLength: 5,
        selector: (block) => (block.type === 'tool-call' ? block.id : block),
      }),
      finish: fc.constantFrom(...capabilities.finishes),
      counts: fc.record({ input: fc.nat(9_999), cacheRead: fc.nat(99), output: fc.nat(9_999), reasoning: fc.nat(99) }),
    })
    .map(({ blocks, finish, counts: { input, cacheRead, output, reasoning: reasoned } }) => {
      const content = !capabilities.anyOrder ? ordered(blocks) : capabilities.joinsTexts ? apart(blocks) : blocks
      const has = (type: AnswerBlock['type']) => content.some((block) => block.type === type)
      // The finish reason of a complete answer follows from its content.
      const natural: Finish = has('tool-call')
        ? { kind: 'tool-calls', raw: null }
        : has('refusal')
          ? { kind: 'refusal', raw: null }
          : finish
      return {
        id: 'id_1',
        model: 'm',
        created: 1_700_000_000,
        blocks: content,
        usage: { input: input + cacheRead, cacheRead, output: output + reasoned, reasoning: reasoned },
        finish: finish.kind === 'stop' ? natural : finish,
      }
    })

const context = ({ summaries }: Capabilities): AnswerContext => {
  const thoughts = summaries === 'always' ? { reasoningSummary: { value: 'auto', at } } : {}
  const settings = { streamUsage: { value: true, at }, ...thoughts }
  const request = chatRequest({ settings })
  return answerContext({ request, id: sequentialIds(), created: 1_700_000_000 })
}

/** The compared part of an answer; see above. */
const comparableAnswer = ({ blocks, usage, finish, failure, model }: ChatAnswer): Json =>
  JSON.parse(
    JSON.stringify({
      model,
      failure,
      blocks: blocks.map(({ signature, ...block }) => ({
        ...block,
        ...(signature && { signature: { origin: signature.origin, value: signature.value } }),
      })),
      usage: usage && {
        input: usage.input,
        output: usage.output,
        cacheRead: usage.cacheRead ?? 0,
        reasoning: usage.reasoning ?? 0,
      },
      finish: finish && { kind: finish.kind, stopSequence: finish.stopSequence },
    }),
  )

describe('an answer, encoded and decoded', () => {
  for (const protocol of Object.values(sharedProtocols)) {
    const capabilities = CAPABILITIES[protocol.name]
    const answers = answer(protocol.name, capabilities)
    test(`${protocol.name}, whole`, () => {
      fc.assert(
        fc.property(answers, (generated) => {
          const whole = protocol.encodeAnswer(generated, context(capabilities))
          const again = fold(protocol.decodeAnswer(JSON.parse(JSON.stringify(whole))))
          assert.deepEqual(comparableAnswer(again), comparableAnswer(generated))
        }),
        RUNS,
      )
    })
    test(`${protocol.name}, streamed`, () => {
      fc.assert(
        fc.property(answers, fc.array(fc.nat()), (generated, cuts) => {
          const pieces = run(protocol.encodeStream(context(capabilities)), [{ events: unfold(generated) }])
          const bytes = new TextEncoder().encode(pieces.join(''))
          const events = eventsOf(protocol, [bytes])
          assert.deepEqual(comparableAnswer(fold(events)), comparableAnswer(generated))
          assert.deepEqual(eventsOf(protocol, cut(bytes, cuts)), events)
        }),
        RUNS,
      )
    })
  }
})

// ── Tools ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Tool names that formats must change: with spaces, dots or other characters, or too long. */
const anyName = fc.oneof(
  name,
  words,
  fc.string({ minLength: 60, maxLength: 200 }).map((long) => `${long}_`),
)

/** The tools of a body in any format: list entries with a name. */
const toolsIn = (value: Json | undefined): JsonObject[] => {
  if (isList(value)) return value.flatMap(toolsIn)
  if (!isObject(value)) return []
  return typeof value.name === 'string' ? [value] : Object.values(value).flatMap(toolsIn)
}

describe('tools return with the client’s names and types', () => {
  for (const protocol of Object.values(upstreamProtocols))
    test(protocol.name, () => {
      fc.assert(
        fc.property(
          fc.uniqueArray(anyName, { minLength: 1, maxLength: 5 }),
          fc.array(fc.boolean(), { minLength: 5, maxLength: 5 }),
          words,
          (names, free, input) => {
            const tools = names.map(
              (each, index): Tool => ({
                kind: free[index] ? 'custom' : 'function',
                at,
                name: each,
                description: 'd',
              }),
            )
            const messages: Message[] = [{ role: 'user', at, content: [{ type: 'text', at, text: 'q' }] }]
            const original: ChatRequest = { model: 'm', stream: false, messages, tools, settings: {}, extras: [] }
            const { body } = protocol.encodeRequest(original, { model: 'm', outputLimit: 100_000 })
            const sent = toolsIn(body.tools ?? body.toolConfig)
            assert.equal(sent.length, names.length)
            assert.equal(new Set(sent.map((one) => one.name)).size, names.length)
            const events = sent.flatMap((one, index): ChatEvent[] => {
              const custom = one.type === 'custom'
              const words = free[index] ? (custom ? input : JSON.stringify({ input })) : '{}'
              return [
                {
                  type: 'open',
                  block: { type: 'tool-call', id: 'c', name: String(one.name), ...(custom && { custom }) },
                },
                { type: 'delta', text: words },
                { type: 'close' },
              ]
            })
            const stage = protocol.restore?.(original)
            const { blocks } = fold(stage ? run(stage, events) : events)
            assert.deepEqual(
              blocks.map((block) => block.type === 'tool-call' && [block.name, block.custom === true, block.text]),
              names.map((each, index) => [each, free[index], free[index] ? input : '{}']),
            )
          },
        ),
        RUNS,
      )
    })
})

// ── Chunk boundaries ─────────────────────────────────────────────────────────────────────────────────────────────

const MAX_FRAME = 1_048_576

const eventsOf = (protocol: UpstreamProtocol, pieces: Iterable<Uint8Array>): ChatEvent[] =>
  run(protocol.decodeStream(), run((protocol.framing ?? sse).frames(MAX_FRAME), pieces))

/** The bytes in pieces, split at these positions. */
const cut = (bytes: Uint8Array, positions: readonly number[]): Uint8Array[] => {
  const sorted = [0, ...positions.map((position) => position % (bytes.length + 1)), bytes.length].toSorted(
    (a, b) => a - b,
  )
  return sorted.slice(1).map((end, index) => bytes.subarray(sorted[index], end))
}

const bytesOf = (recording: Recording): Uint8Array => Buffer.concat(messagesOf(recording))

requireRecordings()

describe('a stream in random chunks', () => {
  for (const protocol of Object.values(upstreamProtocols))
    test(protocol.name, () => {
      const streams = evidenceOf(protocol.name).filter(({ chunks }) => (chunks?.length ?? 0) > 0)
      assert.ok(streams.length > 0)
      fc.assert(
        fc.property(fc.constantFrom(...streams), fc.array(fc.nat(), { maxLength: 60 }), (recording, cuts) => {
          const bytes = bytesOf(recording)
          assert.deepEqual(eventsOf(protocol, cut(bytes, cuts)), eventsOf(protocol, [bytes]), recording.id)
        }),
        { numRuns: 120 },
      )
      // The shortest stream, byte by byte.
      const [shortest] = streams.map(bytesOf).toSorted((one, other) => one.length - other.length)
      assert.ok(shortest)
      const each = Array.from(shortest, (_, index) => shortest.subarray(index, index + 1))
      assert.deepEqual(eventsOf(protocol, each), eventsOf(protocol, [shortest]))
    })
})
