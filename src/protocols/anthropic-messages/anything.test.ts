/** Whatever comes in: nothing throws, and what goes out is what the published schema allows. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { type AnswerBlock, type ChatAnswer, type ChatRequest, fold, type Part, unfold } from '../../core/chat.ts'
import type { Json, JsonObject } from '../../core/json.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import { run } from '../../core/stage.ts'
import { sseFrames } from '../sse.ts'
import { anthropicMessages as protocol } from './index.ts'

const RUNS = { numRuns: 400 }
const context: AnswerContext = {
  request: { model: 'm', stream: true, messages: [], tools: [], settings: {}, extras: [] },
  body: {},
  id: (prefix) => `${prefix}_made`,
  created: 0,
  model: 'wire-model',
}
// fast-check's JSON values are JSON.
const json = fc.jsonValue() as fc.Arbitrary<Json>

/** Objects that look like this format's, filled with anything. */
const WORDS = [
  'type',
  'role',
  'content',
  'text',
  'thinking',
  'signature',
  'source',
  'data',
  'tool_use',
  'tool_result',
  'tool_use_id',
  'id',
  'name',
  'input',
  'image',
  'document',
  'base64',
  'url',
  'user',
  'assistant',
  'system',
  'messages',
  'model',
  'max_tokens',
  'tools',
  'tool_choice',
  'auto',
  'citations',
  'message',
  'message_start',
  'message_delta',
  'message_stop',
  'content_block',
  'content_block_start',
  'content_block_delta',
  'content_block_stop',
  'delta',
  'text_delta',
  'input_json_delta',
  'thinking_delta',
  'signature_delta',
  'citations_delta',
  'partial_json',
  'usage',
  'input_tokens',
  'output_tokens',
  'stop_reason',
  'end_turn',
  'error',
  'index',
  '__proto__',
  'constructor',
]
const word = fc.constantFrom(...WORDS)
const { lookalike } = fc.letrec<{ lookalike: Json }>((tie) => ({
  lookalike: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    word,
    fc.string(),
    fc.double(),
    fc.constantFrom(null, true, false, 0, -1),
    fc.array(tie('lookalike'), { maxLength: 4 }),
    fc.dictionary(word, tie('lookalike'), { maxKeys: 6 }),
  ) as fc.Arbitrary<Json>,
}))
const anything = fc.oneof(json, lookalike)
const objects = fc.dictionary(word, anything, { maxKeys: 8 }) as fc.Arbitrary<JsonObject>

test('anything at all is read without throwing', () =>
  fc.assert(
    fc.property(anything, objects, fc.integer({ min: 200, max: 599 }), (value, object, status) => {
      protocol.decodeRequest(object)
      protocol.decodeRequest({ ...object, model: 'm', max_tokens: 1, messages: [value, object] })
      protocol.passing.adaptRequest(
        { ...object, messages: [object, { role: 'assistant', content: value }] },
        { model: 'm' },
      )
      protocol.decodeAnswer(value)
      const events = protocol.decodeAnswer({ type: 'message', content: [object], usage: value })
      protocol.encodeAnswer(fold(events), context)
      protocol.decodeFailure(status, value, () => undefined)
    }),
    RUNS,
  ))

test('any stream is read without throwing, and ends in one way', () =>
  fc.assert(
    fc.property(
      fc.array(
        fc.tuple(
          word,
          fc.oneof(
            objects.map((one) => JSON.stringify(one)),
            fc.string(),
          ),
        ),
      ),
      (frames) => {
        const events = run(
          protocol.decodeStream(),
          frames.map(([event, data]) => ({ event, data: data.replace(/\n/g, ' ') })),
        )
        const ends = events.filter(({ type }) => type === 'failure' || type === 'finish')
        assert.ok(ends.length >= 1, 'no end')
        assert.ok(events.filter(({ type }) => type === 'failure').length <= 1)
        // Blocks never interleave and deltas have one they belong to.
        let open = false
        for (const { type } of events) {
          if (type === 'open') assert.equal(open, false)
          if (type === 'delta' || type === 'proof' || type === 'citation' || type === 'close')
            assert.equal(open, true, type)
          if (type === 'open' || type === 'close') open = type === 'open'
          if (type === 'finish') assert.equal(open, false)
        }
        for (const piece of run(protocol.encodeStream(context), [{ events }]))
          assert.match(piece, /^event: \w+\ndata: [^\n]+\n\n$/)
      },
    ),
    RUNS,
  ))

// ── Answers ──────────────────────────────────────────────────────────────────────────────────────────────────────

const words = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 })
const args = fc.dictionary(fc.string(), json, { maxKeys: 3 }).map((value) => JSON.stringify(value))
const name = fc.stringMatching(/^[a-zA-Z0-9_-]{1,20}$/)
const block: fc.Arbitrary<AnswerBlock> = fc.oneof(
  words.map((text) => ({ type: 'text', text }) as const),
  fc
    .tuple(fc.string(), words)
    .map(([text, value]) => ({ type: 'reasoning', text, proof: { origin: 'anthropic-messages', value } }) as const),
  words.map(
    (value) =>
      ({ type: 'reasoning', text: '', proof: { origin: 'anthropic-messages', value, redacted: true } }) as const,
  ),
  fc.tuple(name, name, args).map(([id, called, text]) => ({ type: 'tool-call', id, name: called, text }) as const),
)
const answer: fc.Arbitrary<ChatAnswer> = fc
  .tuple(
    fc.array(block, { maxLength: 5 }),
    fc.nat(1_000),
    fc.nat(1_000),
    fc.nat(100),
    fc.nat(100),
    fc.constantFrom('length', 'pause', 'refusal', 'stop'),
  )
  .map(([blocks, input, output, cacheRead, cacheWrite, kind]) => ({
    id: 'msg_1',
    model: 'claude',
    blocks,
    usage: { input: input + cacheRead + cacheWrite, output, cacheRead, cacheWrite },
    finish: {
      kind: kind === 'stop' && blocks.some(({ type }) => type === 'tool-call') ? 'tool-calls' : kind,
      raw: null,
    } as const,
  }))

/** Calls by what they mean; neither the client's nor the provider's own words beside the kinds. */
const meaning = ({ blocks, usage, finish, ...head }: ChatAnswer) => {
  const { raw: _, ...counts } = usage ?? { raw: null }
  return {
    ...head,
    blocks: blocks.map((one) => (one.type === 'tool-call' ? { ...one, text: JSON.parse(one.text) } : one)),
    usage: counts,
    finish: finish?.kind,
  }
}

test('an answer written and read again is the same answer, whole or streamed', () =>
  fc.assert(
    fc.property(answer, (before) => {
      assert.deepEqual(meaning(fold(protocol.decodeAnswer(protocol.encodeAnswer(before, context)))), meaning(before))
      const pieces = run(protocol.encodeStream(context), [{ events: unfold(before) }])
      const events = run(protocol.decodeStream(), run(sseFrames(), [pieces.join('')]))
      assert.deepEqual(meaning(fold(events)), meaning(before))
    }),
    RUNS,
  ))

// ── Requests ─────────────────────────────────────────────────────────────────────────────────────────────────────

const at = fc.constantFrom('messages[0].content[0]', 'input[1]', 'messages[2]')
const anyText = fc.oneof(fc.string(), fc.constantFrom('', ' ', '\n'))
const part: fc.Arbitrary<Part> = fc.oneof(
  fc.record({ type: fc.constant('text' as const), at, text: anyText }),
  fc.record({ type: fc.constant('refusal' as const), at, text: anyText }),
  fc.record({
    type: fc.constant('image' as const),
    at,
    source: fc.oneof(
      fc.record({
        kind: fc.constant('data' as const),
        mediaType: fc.constantFrom('image/png', '', 'image/tiff'),
        data: fc.base64String(),
      }),
      fc.record({ kind: fc.constant('url' as const), url: fc.oneof(fc.webUrl(), fc.string()) }),
    ),
  }),
  fc.record({
    type: fc.constant('file' as const),
    at,
    source: fc.oneof(
      fc.record({
        kind: fc.constant('data' as const),
        mediaType: fc.constantFrom('application/pdf', 'text/plain', '', 'x/y'),
        data: fc.oneof(fc.base64String(), fc.string()),
      }),
      fc.record({
        kind: fc.constant('id' as const),
        id: fc.string(),
        protocol: fc.constantFrom('openai-chat' as const, 'anthropic-messages' as const),
      }),
    ),
    filename: fc.string({ minLength: 1, maxLength: 600 }),
  }),
  fc.record({ type: fc.constant('audio' as const), at, data: fc.string(), format: fc.string() }),
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
      origin: fc.constantFrom('openai-chat' as const, 'anthropic-messages' as const),
      value: fc.string(),
      redacted: fc.boolean(),
    }),
  }),
)
const content = fc.array(part, { maxLength: 4 })
const setting = <T>(value: fc.Arbitrary<T>) => fc.record({ value, at: fc.constant('setting') })
const requests = fc.record({
  model: fc.string(),
  stream: fc.boolean(),
  messages: fc.array(
    fc.oneof(
      fc.record({
        role: fc.constant('system' as const),
        at,
        as: fc.constant('system' as const),
        content: fc.array(fc.record({ type: fc.constant('text' as const), at, text: anyText })),
      }),
      fc.record({ role: fc.constant('user' as const), at, content }),
      fc.record({ role: fc.constant('assistant' as const), at, content }),
      fc.record({ role: fc.constant('tool' as const), at, callId: fc.string(), content, isError: fc.boolean() }),
    ),
    { maxLength: 6 },
  ),
  tools: fc.array(
    fc.oneof(
      fc.record({
        kind: fc.constant('function' as const),
        at,
        name: fc.string({ minLength: 1 }),
        parameters: fc.oneof(objects, fc.constant({ type: 'object', properties: {}, additionalProperties: false })),
        strict: fc.boolean(),
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
      user: setting(fc.string({ maxLength: 700 })),
      serviceTier: setting(fc.constantFrom('auto', 'flex', 'default')),
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
          schema: objects,
          description: fc.string(),
        }),
      ),
    },
    { requiredKeys: [] },
  ),
  extras: fc.array(fc.record({ at, name: word, value: json, essential: fc.boolean() }), { maxLength: 2 }),
}) as fc.Arbitrary<ChatRequest>

const published = new URL('../../../../shared/wire/anthropic.schema.json', import.meta.url)
const present = existsSync(published)

test('any request is written as the published schema allows', (t) => {
  if (!present) {
    assert.notEqual(process.env.HEADGATE_CI, '1', 'the published schema is missing')
    t.skip('needs the published schema, which is not part of the project')
    return
  }
  const ajv = new Ajv2020({ strict: true, allowUnionTypes: true, strictRequired: false, strictTypes: false })
  ajv.addSchema(JSON.parse(readFileSync(published, 'utf8')))
  const check = ajv.getSchema('urn:wire:anthropic#/$defs/BetaCreateMessageParams')
  assert.ok(check)
  let fit = 0
  fc.assert(
    fc.property(
      requests,
      fc.option(fc.integer({ min: 1, max: 64_000 }), { nil: undefined }),
      (request, outputLimit) => {
        const { body, losses } = protocol.encodeRequest(request, {
          model: 'claude',
          ...(outputLimit !== undefined && { outputLimit }),
        })
        const turns = body.messages as { role: string; content: JsonObject[] }[]
        for (const [index, { role, content: blocks }] of turns.entries()) {
          assert.equal(role, index % 2 === 0 ? 'user' : 'assistant')
          assert.ok(blocks.length > 0)
          const lastResult = blocks.findLastIndex(({ type }) => type === 'tool_result')
          assert.ok(blocks.slice(0, lastResult + 1).every(({ type }) => type === 'tool_result'))
        }
        const thinking = body.thinking as JsonObject | undefined
        if (thinking && thinking.type !== 'disabled') {
          assert.ok(body.temperature === undefined || body.temperature === 1)
          assert.ok(!['any', 'tool'].includes(String((body.tool_choice as JsonObject | undefined)?.type)))
          if (thinking.type === 'enabled') assert.ok(Number(thinking.budget_tokens) < Number(body.max_tokens))
        }
        if (losses.some(({ unfit }) => unfit)) return
        fit++
        assert.ok(
          check(JSON.parse(JSON.stringify(body))),
          `${JSON.stringify(check.errors?.slice(0, 3))}\n${JSON.stringify(body)}`,
        )
      },
    ),
    { numRuns: 1_500 },
  )
  assert.ok(fit > 5, `only ${fit} were fit`)
})
