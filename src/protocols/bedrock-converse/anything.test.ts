/** Whatever comes in: nothing throws, streams end in one way, and what goes out is what the published schema allows. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { event, exception, message } from '../../../test/support/event-stream.ts'
import { skip } from '../../../test/support/recordings.ts'
import { problemsOf } from '../../../test/support/schemas.ts'
import { type ChatEvent, type ChatRequest, fold, type Part } from '../../core/chat.ts'
import { isObject, type Json, type JsonObject, list, object } from '../../core/json.ts'
import { run } from '../../core/stage.ts'
import { eventFrames } from '../event-stream.ts'
import { bedrockConverse as protocol } from './index.ts'

const RUNS = { numRuns: 500 }

/** Objects that look like this format's, filled with anything. */
const WORDS =
  'output message messages content text toolUse toolUseId name input type server_tool_use toolResult status error json image document format source bytes reasoningContent reasoningText signature redactedContent citationsContent citations citation location web url title stopReason end_turn tool_use malformed_tool_use usage inputTokens outputTokens totalTokens cacheReadInputTokens metrics messageStart contentBlockStart contentBlockDelta contentBlockStop messageStop metadata contentBlockIndex start delta role assistant user throttlingException __type Message additionalModelResponseFields __proto__ constructor'.split(
    ' ',
  )
const word = fc.constantFrom(...WORDS)
// fast-check's JSON values are JSON.
const json = fc.jsonValue() as fc.Arbitrary<Json>
const { lookalike } = fc.letrec<{ lookalike: Json }>((tie) => ({
  lookalike: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    word,
    fc.string(),
    fc.double(),
    fc.constantFrom(null, true, false, 0, 1, -1),
    fc.array(tie('lookalike'), { maxLength: 4 }),
    fc.dictionary(word, tie('lookalike'), { maxKeys: 6 }),
  ) as fc.Arbitrary<Json>,
}))
const anything = fc.oneof(json, lookalike)
const objects = fc.dictionary(word, anything, { maxKeys: 6 }) as fc.Arbitrary<JsonObject>

/** Blocks of real kinds with members of every kind. */
const block = fc.oneof(
  objects,
  fc.record({ text: anything }),
  fc.record({ toolUse: objects }),
  fc.record({
    toolUse: fc.record({
      toolUseId: word,
      name: word,
      input: anything,
      type: fc.constantFrom('tool_use', 'server_tool_use'),
    }),
  }),
  fc.record({ reasoningContent: objects }),
  fc.record({ citationsContent: fc.record({ content: fc.array(objects), citations: fc.array(anything) }) }),
  fc.record({ toolResult: objects }),
) as fc.Arbitrary<JsonObject>

/** Events in sequence, blocks never inside each other, one end and nothing behind a failure. */
const inOrder = (events: readonly ChatEvent[]): void => {
  const ends = events.filter(({ type }) => type === 'failure' || type === 'finish')
  assert.ok(ends.length >= 1, 'no end')
  const failures = events.filter(({ type }) => type === 'failure').length
  assert.ok(failures <= 1)
  if (failures === 1) assert.equal(events.at(-1)?.type, 'failure')
  assert.ok(events.filter(({ type }) => type === 'finish').length <= 1)
  let open = false
  for (const { type } of events) {
    if (type === 'open') assert.equal(open, false)
    if (type === 'delta' || type === 'proof' || type === 'citation' || type === 'close') assert.equal(open, true, type)
    if (type === 'open' || type === 'close') open = type === 'open'
    if (type === 'finish') assert.equal(open, false)
  }
}

test('any answer is read without throwing', () =>
  fc.assert(
    fc.property(anything, objects, fc.array(block, { maxLength: 5 }), word, (value, members, content, stopReason) => {
      inOrder(protocol.decodeAnswer(value))
      inOrder(protocol.decodeAnswer(members))
      inOrder(protocol.decodeAnswer({ output: { message: { content } }, stopReason, usage: value }))
    }),
    RUNS,
  ))

test('any error is read without throwing', () =>
  fc.assert(
    fc.property(
      fc.option(anything),
      fc.integer({ min: 200, max: 599 }),
      fc.option(fc.string()),
      (body, status, header) => {
        assert.ok(protocol.decodeFailure(status, body ?? undefined, () => header ?? undefined).message !== '')
      },
    ),
    RUNS,
  ))

const index = fc.constantFrom<Json>(0, 0, 1, 2, null, 'x')
const piece: fc.Arbitrary<Uint8Array> = fc.oneof(
  fc.tuple(word, objects).map(([name, payload]) => event(name, payload)),
  fc
    .tuple(fc.constantFrom('contentBlockStart', 'contentBlockDelta', 'contentBlockStop'), index, block)
    .map(([name, contentBlockIndex, inner]) => event(name, { contentBlockIndex, start: inner, delta: inner })),
  fc
    .tuple(index, fc.string())
    .map(([contentBlockIndex, text]) => event('contentBlockDelta', { contentBlockIndex, delta: { text } })),
  fc
    .tuple(index, objects)
    .map(([contentBlockIndex, citation]) => event('contentBlockDelta', { contentBlockIndex, delta: { citation } })),
  index.map((contentBlockIndex) => event('contentBlockStop', { contentBlockIndex })),
  word.map((stopReason) => event('messageStop', { stopReason })),
  fc.tuple(word, objects).map(([name, payload]) => exception(name, payload)),
  fc.tuple(fc.string(), fc.string()).map(([name, payload]) => message({ ':event-type': name.slice(0, 50) }, payload)),
  fc.uint8Array({ maxLength: 30 }),
)

test('any stream is read without throwing, ends in one way, and is the same however it is cut', () =>
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 8 }), fc.array(fc.nat(2_000), { maxLength: 6 }), (pieces, places) => {
      const bytes = new Uint8Array(Buffer.concat(pieces))
      const read = (slices: readonly Uint8Array[]) => run(protocol.decodeStream(), run(eventFrames(10_000), slices))
      const events = read([bytes])
      inOrder(events)
      fold(events)
      const cuts = [
        0,
        ...places.filter((place) => place < bytes.length).toSorted((one, other) => one - other),
        bytes.length,
      ]
      const slices = cuts.slice(1).map((cut, at) => bytes.subarray(cuts[at], cut))
      assert.deepEqual(read(slices), events)
    }),
    RUNS,
  ))

// ── Requests ─────────────────────────────────────────────────────────────────────────────────────────────────────

const at = fc.constantFrom('messages[0].content[0]', 'input[1]', 'messages[2]')
const anyText = fc.oneof(fc.string(), fc.constantFrom('', ' ', '\n'))
const args = fc.dictionary(fc.string(), json, { maxKeys: 3 }).map((value) => JSON.stringify(value))
const mediaType = fc.constantFrom(
  'image/png',
  '',
  'image/tiff',
  'application/pdf',
  'text/plain',
  'text/csv',
  'video/mp4',
  'x/y',
)
const source = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('data' as const),
      mediaType: fc.constantFrom('image/png', 'application/pdf'),
      data: fc.base64String(),
    }),
  },
  fc.record({ kind: fc.constant('data' as const), mediaType, data: fc.oneof(fc.base64String(), fc.string()) }),
  fc.record({
    kind: fc.constant('url' as const),
    url: fc.oneof(fc.webUrl(), fc.string(), fc.constant('data:image/png;base64,iVBORw0KGgo=')),
  }),
  fc.record({ kind: fc.constant('id' as const), id: fc.string(), protocol: fc.constant('openai-chat' as const) }),
)
const extras = fc.array(
  fc.record({
    at: fc.constant('extra'),
    name: fc.constantFrom('cache_control', 'citations', 'context', 'other'),
    value: fc.oneof(anything, fc.record({ type: fc.constant('ephemeral'), ttl: fc.constantFrom('5m', '1h', 'x') })),
    essential: fc.oneof({ weight: 30, arbitrary: fc.constant(false) }, fc.constant(true)),
  }),
  { maxLength: 2 },
)
const part = fc.oneof(
  { weight: 8, arbitrary: fc.record({ type: fc.constant('text' as const), at, text: anyText, extras }) },
  fc.record({ type: fc.constant('text' as const), at, text: anyText, extras }),
  fc.record({ type: fc.constant('refusal' as const), at, text: anyText }),
  fc.record({ type: fc.constant('image' as const), at, source, extras }),
  fc.record({ type: fc.constant('file' as const), at, source, filename: fc.string({ maxLength: 300 }), extras }),
  fc.record({ type: fc.constant('audio' as const), at, data: fc.string(), format: fc.constantFrom('wav', 'mp3', 'x') }),
  fc.record({
    type: fc.constant('tool-call' as const),
    at,
    id: fc.string(),
    name: fc.string({ minLength: 1 }),
    arguments: fc.oneof(args, fc.string()),
  }),
  fc.record({
    type: fc.constant('reasoning' as const),
    at,
    text: fc.string(),
    proof: fc.record({
      origin: fc.constantFrom('bedrock-converse' as const, 'anthropic-messages' as const),
      value: fc.string(),
      redacted: fc.boolean(),
    }),
  }),
) as fc.Arbitrary<Part>
const content = fc.array(part, { maxLength: 4 })
const setting = <T>(value: fc.Arbitrary<T>) => fc.record({ value, at: fc.constant('setting') })
const CLOSED: Json = { type: 'object', properties: {}, additionalProperties: false }
const requests = fc.record({
  model: fc.string(),
  stream: fc.boolean(),
  messages: fc.array(
    fc.oneof(
      fc.record({
        role: fc.constant('system' as const),
        at,
        as: fc.constant('system' as const),
        content: fc.array(fc.record({ type: fc.constant('text' as const), at, text: anyText, extras })),
      }),
      fc.record({ role: fc.constant('user' as const), at, content, extras }),
      fc.record({ role: fc.constant('assistant' as const), at, content, extras }),
      fc.record({
        role: fc.constant('tool' as const),
        at,
        callId: fc.string(),
        content,
        isError: fc.boolean(),
        extras,
      }),
    ),
    { maxLength: 6 },
  ),
  tools: fc.array(
    fc.oneof(
      fc.record({
        kind: fc.constant('function' as const),
        at,
        name: fc.string({ minLength: 1 }),
        description: anyText,
        parameters: fc.oneof({ weight: 9, arbitrary: fc.constant(CLOSED) }, objects),
        strict: fc.boolean(),
        extras,
      }),
      fc.record({
        kind: fc.constant('custom' as const),
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
      metadata: setting(fc.dictionary(fc.string(), fc.oneof(fc.string(), json), { maxKeys: 3 })),
      serviceTier: setting(fc.constantFrom('auto', 'flex', 'default', 'x')),
      parallelToolCalls: setting(fc.boolean()),
      effort: setting(fc.constantFrom('none', 'minimal', 'low', 'xhigh', 'max')),
      thinkingBudget: setting(fc.integer({ min: 0, max: 50_000 })),
      reasoningSummary: setting(fc.constantFrom('auto', 'detailed')),
      toolChoice: setting(
        fc.oneof(
          fc.constantFrom({ kind: 'auto' as const }, { kind: 'none' as const }, { kind: 'required' as const }),
          fc.string({ minLength: 1 }).map((named) => ({ kind: 'tool' as const, name: named })),
        ),
      ),
      format: setting(
        fc.record({
          kind: fc.constant('schema' as const),
          name: fc.string(),
          schema: fc.oneof({ weight: 9, arbitrary: fc.constant(CLOSED) }, objects),
          description: fc.string(),
        }),
      ),
    },
    { requiredKeys: [] },
  ),
  extras: fc.array(
    fc.record({
      at,
      name: fc.oneof(word, fc.constant('thinking')),
      value: json,
      essential: fc.oneof({ weight: 30, arbitrary: fc.constant(false) }, fc.constant(true)),
    }),
    { maxLength: 2 },
  ),
}) as fc.Arbitrary<ChatRequest>

const MODELS = [
  'us.anthropic.claude-sonnet-4-5-20250929-v1:0',
  'us.anthropic.claude-sonnet-4-6',
  'us.amazon.nova-2-lite-v1:0',
  'openai.gpt-oss-120b-1:0',
  'some-model',
]

test('any request is written as the published schema allows', { skip }, () => {
  let fit = 0
  fc.assert(
    fc.property(requests, fc.constantFrom(...MODELS), (request, model) => {
      const { body, losses } = protocol.encodeRequest(request, { model })
      const turns = list(body.messages).map((turn) => object(turn) ?? {})
      for (const [place, { role, content: blocks }] of turns.entries()) {
        assert.equal(role, place % 2 === 0 ? 'user' : 'assistant')
        const made = list(blocks).filter(isObject)
        assert.ok(made.length > 0)
        for (const { text, toolUse, toolResult, document } of made) {
          assert.ok(typeof text !== 'string' || text.trim() !== '', 'a blank text')
          if (!body.toolConfig) assert.ok(!toolUse && !toolResult)
          const use = object(toolUse) ?? object(toolResult)
          if (use) assert.match(String(use.toolUseId), /^[a-zA-Z0-9_.:-]{1,64}$/)
          const name = object(toolUse)?.name
          if (name !== undefined) assert.match(String(name), /^[a-zA-Z0-9_-]{1,64}$/)
          const title = object(document)?.name
          if (title !== undefined) {
            assert.match(String(title), /^[a-zA-Z0-9()[\]-](?: ?[a-zA-Z0-9()[\]-]){0,199}$/)
            assert.ok(String(title).length <= 200)
          }
        }
        const documents = made.some(({ document }) => document !== undefined)
        if (documents) assert.ok(made.some(({ text }) => text !== undefined))
      }
      const { thinking } = object(body.additionalModelRequestFields) ?? {}
      const choice = object(object(body.toolConfig)?.toolChoice)
      if (object(thinking)?.type === 'enabled' || object(thinking)?.type === 'adaptive')
        assert.ok(!choice?.any && !choice?.tool)
      if (losses.some(({ unfit }) => unfit)) return
      fit++
      const problem = problemsOf('bedrock', 'ConverseRequest', JSON.parse(JSON.stringify(body)))
      assert.equal(problem, undefined, JSON.stringify(body))
    }),
    { numRuns: 1_500 },
  )
  assert.ok(fit > 50, `only ${fit} were fit`)
})
