/** Random input: nothing throws, blocks do not interleave, and requests are valid for the published schema. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { lookalikes } from '../../../test/support/anything.ts'
import { assertEventOrder } from '../../../test/support/event-order.ts'
import { problemsOf } from '../../../test/support/schemas.ts'
import type { ChatEvent } from '../../core/chat.ts'
import type { Json, JsonObject } from '../../core/json.ts'
import { run } from '../../core/stage.ts'
import { sseFrames } from '../framing/sse.ts'
import { sharedProtocols } from '../index.ts'
import { cohere } from './index.ts'

const RUNS = { numRuns: 400 }

/** Objects in the shape of this format with random members. */
const WORDS = [
  'type',
  'role',
  'id',
  'index',
  'message',
  'content',
  'content_index',
  'text',
  'thinking',
  'tool_plan',
  'tool_calls',
  'function',
  'name',
  'arguments',
  'citations',
  'sources',
  'document',
  'tool_output',
  'start',
  'end',
  'delta',
  'finish_reason',
  'COMPLETE',
  'TOOL_CALL',
  'usage',
  'tokens',
  'input_tokens',
  'output_tokens',
  'cached_tokens',
  'logprobs',
  'error',
  'error_type',
  'message-start',
  'content-start',
  'content-delta',
  'content-end',
  'tool-plan-delta',
  'tool-call-start',
  'tool-call-delta',
  'tool-call-end',
  'citation-start',
  'citation-end',
  'message-end',
]
const { word, anything, objects } = lookalikes(WORDS)

/** Also checks that there is exactly one end. */
const assertOrderly = (events: readonly ChatEvent[]): void => {
  assertEventOrder(events, false)
  assert.equal(events.filter(({ type }) => type === 'finish' || type === 'failure').length, 1)
}

test('cohere: decodes any answer and any error without throwing', () =>
  fc.assert(
    fc.property(anything, objects, fc.integer({ min: 200, max: 599 }), (value, object, status) => {
      assertOrderly(cohere.decodeAnswer(value))
      assertOrderly(cohere.decodeAnswer({ id: 'a', message: object, finish_reason: value, usage: object }))
      assertOrderly(
        cohere.decodeAnswer({
          message: { content: [object, value], tool_calls: [object, { function: object }], citations: [object, value] },
          logprobs: [object, value],
          finish_reason: 'COMPLETE',
        }),
      )
      cohere.decodeFailure(status, value, () => undefined)
      cohere.decodeFailure(status, object, () => undefined)
    }),
    RUNS,
  ))

test('cohere: decodes any stream without throwing, with one end, in chunks of any size', () =>
  fc.assert(
    fc.property(
      fc.array(
        fc.oneof(
          fc.tuple(word, objects).map(([type, message]) => JSON.stringify({ type, delta: { message }, index: 0 })),
          fc.tuple(word, objects).map(([type, delta]) => JSON.stringify({ type, delta })),
          anything.map((value) => JSON.stringify(value)),
          fc.string(),
        ),
        { maxLength: 12 },
      ),
      fc.nat(),
      (pieces, at) => {
        const wire = pieces.map((piece) => `data: ${piece.replaceAll(/[\r\n]/g, ' ')}\n\n`).join('')
        const events = run(cohere.decodeStream(), run(sseFrames(), [wire]))
        assertOrderly(events)
        const cut = wire.length === 0 ? 0 : at % wire.length
        assert.deepEqual(run(cohere.decodeStream(), run(sseFrames(), [wire.slice(0, cut), wire.slice(cut)])), events)
      },
    ),
    RUNS,
  ))

// ── Requests ─────────────────────────────────────────────────────────────────────────────────────────────────────

const words = fc.string({ maxLength: 12 })
const part = fc.oneof(
  fc.record({ type: fc.constant('text'), text: words }),
  fc.record({
    type: fc.constant('image_url'),
    image_url: fc.record({ url: fc.constantFrom('https://a/b.png', 'data:image/png;base64,AAAA', 'file:x') }),
  }),
  fc.record({
    type: fc.constant('file'),
    file: fc.record({
      filename: words,
      file_data: fc.constantFrom('data:text/plain;base64,aGk=', 'data:application/pdf;base64,AAAA'),
    }),
  }),
)
const content = fc.oneof(words, fc.array(part, { maxLength: 3 }))
const id = fc.constantFrom('a', 'b', 'c')
const toolCall = fc.record({
  id,
  type: fc.constant('function'),
  function: fc.record({
    name: fc.constantFrom('f', 'g-h', '1', 'wéird name'),
    arguments: fc.constantFrom('', '{}', 'null', '{"a":1}', 'broken'),
  }),
})
const message = fc.oneof(
  fc.record({ role: fc.constantFrom('system', 'developer'), content: words }),
  fc.record({ role: fc.constant('user'), content }),
  fc.record(
    {
      role: fc.constant('assistant'),
      content: words,
      reasoning_content: words,
      tool_calls: fc.array(toolCall, { minLength: 1, maxLength: 2 }),
    },
    { requiredKeys: ['role', 'content'] },
  ),
  fc.record({ role: fc.constant('tool'), tool_call_id: id, content: words }),
)
const schema = fc.oneof(
  fc.constantFrom<Json>({}, { type: 'object' }, { type: 'object', properties: {} }, { anyOf: [] }),
  fc.uniqueArray(fc.constantFrom('a', 'b', 'c'), { maxLength: 3 }).map(
    (names): Json => ({
      type: 'object',
      properties: Object.fromEntries(
        names.map((name) => [name, { type: 'string', ...(name === 'c' && { minLength: 1 }) }]),
      ),
      required: names,
      additionalProperties: false,
    }),
  ),
)
const request = fc.record(
  {
    model: fc.constant('m'),
    messages: fc.array(message, { minLength: 1, maxLength: 6 }),
    stream: fc.boolean(),
    tools: fc.array(
      fc.record({
        type: fc.constant('function'),
        function: fc.record({
          name: fc.constantFrom('f', 'g-h', '9'),
          description: words,
          parameters: schema,
          strict: fc.boolean(),
        }),
      }),
      { maxLength: 3 },
    ),
    tool_choice: fc.constantFrom<Json>('auto', 'none', 'required', { type: 'function', function: { name: 'f' } }),
    temperature: fc.double({ min: 0, max: 2, noNaN: true }),
    top_p: fc.double({ min: 0, max: 1, noNaN: true }),
    top_k: fc.nat(1_000),
    max_tokens: fc.integer({ min: 1, max: 100_000 }),
    stop: fc.array(words, { maxLength: 4 }),
    seed: fc.integer(),
    presence_penalty: fc.double({ min: -2, max: 2, noNaN: true }),
    frequency_penalty: fc.double({ min: -2, max: 2, noNaN: true }),
    logprobs: fc.boolean(),
    reasoning_effort: fc.constantFrom('none', 'low', 'high'),
    response_format: fc.oneof(
      fc.constantFrom<Json>({ type: 'text' }, { type: 'json_object' }),
      schema.map((one): Json => ({ type: 'json_schema', json_schema: { name: 'n', schema: one } })),
    ),
  },
  { requiredKeys: ['model', 'messages'] },
)

const MODELS = ['command-a-03-2025', 'command-a-reasoning-08-2025', 'command-r-08-2024']

test('cohere: encodes any request as a valid body, or reports it as unfit', () =>
  fc.assert(
    fc.property(request, fc.constantFrom(...MODELS), (body, model) => {
      const decoded = sharedProtocols['openai-chat'].decodeRequest(body as JsonObject)
      if (!decoded.ok) return
      const { body: sent, losses } = cohere.encodeRequest(decoded.value, { model, outputLimit: 4_000 })
      if (losses.some(({ essential }) => essential)) return
      assert.equal(problemsOf('cohere', 'Request', sent), undefined)
    }),
    RUNS,
  ))
