/** Random input: nothing throws, streams have one end, and the output is valid for the published schema. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { anyRequest, lookalikes } from '../../../test/support/anything.ts'
import { assertEventOrder } from '../../../test/support/event-order.ts'
import { event, exception, message } from '../../../test/support/event-stream.ts'
import { problemsIfPresent, requireSchemas } from '../../../test/support/schemas.ts'
import { fold } from '../../core/chat.ts'
import { isObject, type Json, type JsonObject, list, object } from '../../core/json.ts'
import { run } from '../../core/stage.ts'
import { eventFrames } from '../framing/event-stream.ts'
import { bedrockConverse as protocol } from './index.ts'

const RUNS = { numRuns: 500 }

/** Objects in the shape of this format with random members. */
const WORDS =
  'output message messages content text toolUse toolUseId name input type server_tool_use toolResult status error json image document format source bytes reasoningContent reasoningText signature redactedContent citationsContent citations citation location web url title stopReason end_turn tool_use malformed_tool_use usage inputTokens outputTokens totalTokens cacheReadInputTokens metrics messageStart contentBlockStart contentBlockDelta contentBlockStop messageStop metadata contentBlockIndex start delta role assistant user throttlingException __type Message additionalModelResponseFields'.split(
    ' ',
  )
const lookalike = lookalikes(WORDS)
const { word, anything, objects } = lookalike

/** Known blocks with random members. */
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

test('any answer is decoded without throwing', () =>
  fc.assert(
    fc.property(anything, objects, fc.array(block, { maxLength: 5 }), word, (value, members, content, stopReason) => {
      assertEventOrder(protocol.decodeAnswer(value), false)
      assertEventOrder(protocol.decodeAnswer(members), false)
      assertEventOrder(protocol.decodeAnswer({ output: { message: { content } }, stopReason, usage: value }), false)
    }),
    RUNS,
  ))

test('any error is decoded without throwing', () =>
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

test('any stream is decoded without throwing, has one end, and is independent of chunking', () =>
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 8 }), fc.array(fc.nat(2_000), { maxLength: 6 }), (pieces, places) => {
      const bytes = new Uint8Array(Buffer.concat(pieces))
      const read = (slices: readonly Uint8Array[]) => run(protocol.decodeStream(), run(eventFrames(10_000), slices))
      const events = read([bytes])
      assertEventOrder(events, false)
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

// ── Requests ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const beside = ['cache_control', 'citations', 'context', 'other']
const requests = anyRequest({ ...lookalike, origin: 'bedrock-converse', beside })

const MODELS = [
  'us.anthropic.claude-sonnet-4-5-20250929-v1:0',
  'us.anthropic.claude-sonnet-4-6',
  'us.amazon.nova-2-lite-v1:0',
  'openai.gpt-oss-120b-1:0',
  'some-model',
]

requireSchemas()

test('any request is encoded as valid for the published schema', () => {
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
      if (losses.some(({ essential }) => essential)) return
      fit++
      const problem = problemsIfPresent('bedrock', 'ConverseRequest', JSON.parse(JSON.stringify(body)))
      assert.equal(problem, undefined, JSON.stringify(body))
    }),
    { numRuns: 1_500 },
  )
  assert.ok(fit > 50, `only ${fit} were fit`)
})
