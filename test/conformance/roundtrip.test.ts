/**
 * What is written can be read again. For every format with both halves: a request written and read is the request, an
 * answer written and read is the answer, whole and streamed. And for every format upstreams speak: tools come back under
 * the client's names and in its kind, and a stream gives the same events whatever the cuts between its bytes are.
 *
 * A request that comes back is compared whole, save what `plain` takes away from both sides: paths (`at`, `paths`), which name
 * another body; a setting that `encodeRequest` named as lost (`returns` says which must come back all the same);
 * `streamUsage`, which is asked of every upstream; whether a system message was a developer's, which the formats do not
 * all tell apart; and what says nothing (`store: false`, `detail: 'auto'`, a free choice of tools, a list without
 * members, the `thinking: adaptive` without which messages take no effort). What a format has no place for at all is not
 * generated for it; `CARRIES` says what that is.
 *
 * Of an answer everything is compared but `raw` values, its own id and that of a proof, which the formats make, and
 * `created`, for which not all have a place. Counts nobody gave come back as 0.
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

// ── What each format has a place for ─────────────────────────────────────────────────────────────────────────────

type Carries = {
  /** Tools and calls with text in place of arguments. */
  readonly custom: boolean
  /** A refusal is told from a text. */
  readonly refusal: boolean
  /** A result is marked as an error, and holds pictures. */
  readonly result: boolean
  /** A summary is told from the thoughts. */
  readonly summary: boolean
  /** Thoughts without a proof. */
  readonly unproved: boolean
  /** The blocks of an answer come in any order and number; otherwise thoughts, one text, calls. */
  readonly anyOrder: boolean
  /** Bytes that are no picture. */
  readonly files: readonly string[]
  readonly finishes: readonly Finish[]
  /** Wishes that come back, at least from some requests. */
  readonly returns: readonly SettingName[]
  /** Wishes it always grants, without a word for them. */
  readonly grants: readonly SettingName[]
}

const ends = (...kinds: readonly Finish['kind'][]): Finish[] => kinds.map((kind) => ({ kind, raw: null }))

const CARRIES: { readonly [name in Protocol['name']]: Carries } = {
  'openai-chat': {
    custom: true,
    refusal: true,
    result: false,
    summary: false,
    unproved: true,
    anyOrder: false,
    files: ['application/pdf'],
    finishes: ends('stop', 'length', 'content-filter'),
    returns: [
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
    grants: [],
  },
  'openai-responses': {
    custom: true,
    refusal: true,
    result: false,
    summary: true,
    unproved: false,
    anyOrder: true,
    files: ['application/pdf', 'text/plain'],
    finishes: ends('stop', 'length', 'content-filter'),
    returns: [
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
    grants: [],
  },
  'anthropic-messages': {
    custom: false,
    refusal: false,
    result: true,
    summary: false,
    unproved: false,
    anyOrder: true,
    files: ['application/pdf'],
    finishes: [...ends('stop', 'length', 'refusal', 'pause'), { kind: 'stop', raw: null, stopSequence: 'END' }],
    returns: [
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
    grants: ['encryptedReasoning'],
  },
}

// ── Requests ─────────────────────────────────────────────────────────────────────────────────────────────────────

const at = 'x'
/** Words, of which none is blank. */
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
/** All members of one arbitrary, each there or not. */
const some = <T extends object>(members: { [Name in keyof T]: fc.Arbitrary<T[Name]> }) =>
  fc.record(members, { requiredKeys: [] }) as fc.Arbitrary<Partial<T>>

const text = words.map((said): Part => ({ type: 'text', at, text: said }))
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

const toolCall = ({ custom }: Carries) =>
  fc.oneof(
    fc.tuple(id, name, object).map(
      ([callId, called, args]): ToolCall => ({
        type: 'tool-call',
        id: callId,
        name: called,
        arguments: JSON.stringify(args),
      }),
    ),
    ...(custom
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
const reasoning = (origin: Protocol['name'], { summary, unproved }: Carries) =>
  fc.tuple(words, unproved ? fc.constant(undefined) : base64, fc.boolean()).map(([said, value, summed]) => ({
    type: 'reasoning' as const,
    text: said,
    ...(summary && summed && { summary: true }),
    // Where thoughts are items they have a name.
    ...(value !== undefined && {
      signature: { origin, value, ...(summary && { id: `rs_${said.length}${value.length}` }) },
    }),
  }))

/** What the user says; then what the model does; then, if it called, what came of the calls. */
const exchange = (format: Protocol['name'], carries: Carries): fc.Arbitrary<Message[]> => {
  const asked = fc.array(fc.oneof({ weight: 3, arbitrary: text }, picture, file(carries.files)), {
    minLength: 1,
    maxLength: 3,
  })
  const turn = fc.record({
    thoughts: fc.option(reasoning(format, carries), { nil: undefined }),
    said: fc.option(words, { nil: undefined }),
    refused: fc.boolean(),
    calls: fc.uniqueArray(toolCall(carries), { maxLength: 3, selector: (call) => call.id }),
    results: fc.array(
      fc.tuple(
        fc.oneof(
          text.map((one) => [one]),
          ...(carries.result ? [fc.tuple(text, picture)] : []),
        ),
        carries.result ? fc.boolean() : fc.constant(false),
      ),
      { minLength: 3, maxLength: 3 },
    ),
  })
  return fc.tuple(asked, fc.option(turn, { nil: undefined })).map(([content, done]): Message[] => {
    const question: Message = { role: 'user', at, content }
    if (!done) return [question]
    const { thoughts, said, refused, calls, results } = done
    const spoken: Part[] =
      said === undefined ? [] : [{ type: carries.refusal && refused ? 'refusal' : 'text', at, text: said }]
    // Thoughts alone are no turn.
    if (spoken.length + calls.length === 0) return [question]
    const answer: Message = {
      role: 'assistant',
      at,
      content: [...(thoughts ? [{ ...thoughts, at }] : []), ...spoken, ...calls.map((call) => ({ ...call, at }))],
    }
    const told = calls.map((call, index): Message => {
      const [given = [], isError = false] = results[index] ?? []
      return { role: 'tool', at, callId: call.id, content: given, ...(isError && { isError }) }
    })
    return [question, answer, ...told]
  })
}

const tool = ({ custom }: Carries): fc.Arbitrary<Tool> =>
  fc.oneof(
    fc
      .record({ name, description: words, parameters: schema, strict: fc.boolean() })
      .map((said): Tool => ({ kind: 'function', at, ...said })),
    ...(custom ? [fc.record({ name, description: words }).map((said): Tool => ({ kind: 'custom', at, ...said }))] : []),
  )

const fraction = (most: number) => fc.integer({ min: 1, max: most * 100 - 1 }).map((value) => value / 100)

/** Every wish a format may have a place for. Those it has none for, it has to name. */
const wishes = (tools: readonly Tool[]) =>
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

const request = (format: Protocol['name'], carries: Carries): fc.Arbitrary<ChatRequest> =>
  fc
    .record({
      system: fc.option(words, { nil: undefined }),
      exchanges: fc.array(exchange(format, carries), { minLength: 1, maxLength: 3 }),
      tools: fc.uniqueArray(tool(carries), {
        maxLength: 3,
        selector: (one) => (one.kind === 'foreign' ? '' : one.name),
      }),
      stream: fc.boolean(),
      maxOutputTokens: fc.integer({ min: 16, max: 50_000 }),
    })
    .chain((made) => wishes(made.tools).map((wished) => ({ ...made, wished })))
    .map(({ system, exchanges, tools, stream, maxOutputTokens, wished }): ChatRequest => {
      const front: Message[] =
        system === undefined
          ? []
          : [{ role: 'system', as: 'system', at, content: [{ type: 'text', at, text: system }] }]
      // Refused without its companion.
      const paired = wished.topLogprobs === undefined ? wished : { ...wished, logprobs: true }
      const settings = Object.fromEntries(
        Object.entries({ ...paired, maxOutputTokens }).map(([each, value]) => [each, { value, at: each }]),
      )
      // The names are those of the settings, and so are the values.
      return {
        model: 'm',
        stream,
        messages: merged([...front, ...exchanges.flat()]),
        tools,
        settings: settings as GenerationSettings,
        extras: [],
      }
    })

/** A question nobody answered goes on with the next one. */
const merged = (messages: readonly Message[]): Message[] => {
  const all: Message[] = []
  for (const next of messages) {
    const last = all.at(-1)
    if (last?.role === 'user' && next.role === 'user')
      all[all.length - 1] = { ...last, content: [...last.content, ...next.content] }
    else all.push(next)
  }
  return all
}

/** What is compared of a request; see above. */
const plain = (asked: ChatRequest, lost: ReadonlySet<string>): Json => {
  const extras = asked.extras.filter(({ name: member }) => member !== 'thinking')
  const choice = asked.settings.toolChoice?.value.kind
  const idle = new Set<string>([
    'streamUsage',
    ...(asked.settings.store?.value ? [] : ['store']),
    ...(choice === 'auto' ? ['toolChoice'] : []),
    // Of no calls none are made at once.
    ...(choice === 'none' ? ['parallelToolCalls'] : []),
  ])
  const settings = Object.entries(asked.settings).flatMap(([each, { value }]) =>
    lost.has(each) || idle.has(each) ? [] : [[each, value]],
  )
  return JSON.parse(
    JSON.stringify({ ...asked, extras, settings: Object.fromEntries(settings) }, (key, value) =>
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

describe('a request written and read again', () => {
  for (const protocol of Object.values(sharedProtocols))
    test(protocol.name, () => {
      const carries = CARRIES[protocol.name]
      const returned = new Set<string>()
      fc.assert(
        fc.property(request(protocol.name, carries), (asked) => {
          const { body, losses } = protocol.encodeRequest(asked, TARGET)
          // Nothing but settings may be lost of what is generated.
          const lost = new Set<string>(losses.map(({ path }) => path))
          for (const path of lost) assert.ok(Object.hasOwn(asked.settings, path), `lost: ${path}`)
          for (const wish of carries.grants) lost.add(wish)
          for (const wish of Object.keys(asked.settings)) if (!lost.has(wish)) returned.add(wish)
          const again = protocol.decodeRequest(JSON.parse(JSON.stringify(body)))
          assert.ok(again.ok)
          assert.deepEqual(plain(again.value, lost), plain(asked, lost))
        }),
        RUNS,
      )
      assert.deepEqual([...returned].toSorted(), [...carries.returns].toSorted())
    })
})

// ── Answers ──────────────────────────────────────────────────────────────────────────────────────────────────────

const answerBlock = (format: Protocol['name'], carries: Carries): fc.Arbitrary<AnswerBlock> =>
  fc.oneof(
    words.map((said): AnswerBlock => ({ type: 'text', text: said })),
    reasoning(format, carries),
    toolCall(carries).map(({ arguments: given, ...call }): AnswerBlock => ({ ...call, text: given })),
    ...(carries.refusal ? [words.map((said): AnswerBlock => ({ type: 'refusal', text: said }))] : []),
  )

const ORDER = ['reasoning', 'text', 'refusal', 'tool-call', 'foreign']
/** In the order of a format that keeps them apart, each kind but calls once. */
const ordered = (blocks: readonly AnswerBlock[]): AnswerBlock[] =>
  blocks
    .filter(({ type }, index) => type === 'tool-call' || blocks.findIndex((one) => one.type === type) === index)
    .toSorted((one, other) => ORDER.indexOf(one.type) - ORDER.indexOf(other.type))

const answer = (format: Protocol['name'], carries: Carries): fc.Arbitrary<ChatAnswer> =>
  fc
    .record({
      blocks: fc.uniqueArray(answerBlock(format, carries), {
        minLength: 1,
        maxLength: 5,
        selector: (block) => (block.type === 'tool-call' ? block.id : block),
      }),
      finish: fc.constantFrom(...carries.finishes),
      counts: fc.record({ input: fc.nat(9_999), cacheRead: fc.nat(99), output: fc.nat(9_999), reasoning: fc.nat(99) }),
    })
    .map(({ blocks, finish, counts: { input, cacheRead, output, reasoning: thought } }) => {
      const said = carries.anyOrder ? blocks : ordered(blocks)
      const has = (type: AnswerBlock['type']) => said.some((block) => block.type === type)
      // An answer that ends by itself ends as what it holds.
      const natural: Finish = has('tool-call')
        ? { kind: 'tool-calls', raw: null }
        : has('refusal')
          ? { kind: 'refusal', raw: null }
          : finish
      return {
        id: 'id_1',
        model: 'm',
        created: 1_700_000_000,
        blocks: said,
        usage: { input: input + cacheRead, cacheRead, output: output + thought, reasoning: thought },
        finish: finish.kind === 'stop' ? natural : finish,
      }
    })

const context = (): AnswerContext => {
  const request = chatRequest({ settings: { streamUsage: { value: true, at } } })
  return answerContext({ request, id: sequentialIds(), created: 1_700_000_000 })
}

/** What is compared of an answer; see above. */
const told = ({ blocks, usage, finish, failure, model }: ChatAnswer): Json =>
  JSON.parse(
    JSON.stringify({
      model,
      failure,
      blocks: blocks.map(({ signature: proof, ...block }) => ({
        ...block,
        ...(proof && { signature: { origin: proof.origin, value: proof.value } }),
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

describe('an answer written and read again', () => {
  for (const protocol of Object.values(sharedProtocols)) {
    const answers = answer(protocol.name, CARRIES[protocol.name])
    test(`${protocol.name}, whole`, () => {
      fc.assert(
        fc.property(answers, (said) => {
          const whole = protocol.encodeAnswer(said, context())
          const again = fold(protocol.decodeAnswer(JSON.parse(JSON.stringify(whole))))
          assert.deepEqual(told(again), told(said))
        }),
        RUNS,
      )
    })
    test(`${protocol.name}, streamed`, () => {
      fc.assert(
        fc.property(answers, fc.array(fc.nat()), (said, cuts) => {
          const pieces = run(protocol.encodeStream(context()), [{ events: unfold(said) }])
          const bytes = new TextEncoder().encode(pieces.join(''))
          const events = eventsOf(protocol, [bytes])
          assert.deepEqual(told(fold(events)), told(said))
          assert.deepEqual(eventsOf(protocol, cut(bytes, cuts)), events)
        }),
        RUNS,
      )
    })
  }
})

// ── Tools ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Names formats have to change: with blanks and dots, of other letters, too long. */
const anyName = fc.oneof(
  name,
  words,
  fc.string({ minLength: 60, maxLength: 200 }).map((long) => `${long}_`),
)

/** The tools of a body, wherever its format keeps them: what has a name and stands in a list. */
const toolsIn = (value: Json | undefined): JsonObject[] => {
  if (isList(value)) return value.flatMap(toolsIn)
  if (!isObject(value)) return []
  return typeof value.name === 'string' ? [value] : Object.values(value).flatMap(toolsIn)
}

describe('tools come back as the client knows them', () => {
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
            const asked: ChatRequest = { model: 'm', stream: false, messages, tools, settings: {}, extras: [] }
            const { body } = protocol.encodeRequest(asked, { model: 'm', outputLimit: 100_000 })
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
            const stage = protocol.restore?.(asked)
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

// ── Cuts ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const MOST = 1_048_576

const eventsOf = (protocol: UpstreamProtocol, pieces: Iterable<Uint8Array>): ChatEvent[] =>
  run(protocol.decodeStream(), run((protocol.framing ?? sse).frames(MOST), pieces))

/** The bytes in pieces, cut at these places. */
const cut = (bytes: Uint8Array, places: readonly number[]): Uint8Array[] => {
  const sorted = [0, ...places.map((place) => place % (bytes.length + 1)), bytes.length].toSorted((a, b) => a - b)
  return sorted.slice(1).map((end, index) => bytes.subarray(sorted[index], end))
}

const bytesOf = (recording: Recording): Uint8Array => Buffer.concat(messagesOf(recording))

requireRecordings()

describe('a stream in random pieces', () => {
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
      // Byte by byte, the shortest of them.
      const [shortest] = streams.map(bytesOf).toSorted((one, other) => one.length - other.length)
      assert.ok(shortest)
      const each = Array.from(shortest, (_, index) => shortest.subarray(index, index + 1))
      assert.deepEqual(eventsOf(protocol, each), eventsOf(protocol, [shortest]))
    })
})
