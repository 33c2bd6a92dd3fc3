import assert from 'node:assert/strict'
import { test } from 'node:test'
import { recordingsOf, skipWithoutRecordings } from '../../../test/support/recordings.ts'
import { problemsIfPresent, requireSchemas } from '../../../test/support/schemas.ts'
import { isObject, type JsonObject, object } from '../../core/json.ts'
import { openaiResponses } from './index.ts'
import { withRequiredMembers } from './required-members.ts'
import { responseAsKept } from './stored-response.ts'

const contextOf = (body: JsonObject) => {
  const asked = openaiResponses.decodeRequest({ model: 'm', input: 'hi', ...body })
  assert.ok(asked.ok)
  return {
    request: asked.value,
    body,
    model: 'm',
    created: 1_700_000_100,
    id: (prefix: string) => `${prefix}_x`,
    storage: { id: 'resp_hgours', previous: null, store: true, background: false },
  }
}

const SPARSE = {
  id: 'resp_1',
  object: 'response',
  created_at: 1_700_000_000,
  status: 'completed',
  model: 'm',
  output: [],
}

const cases: readonly (readonly [string, JsonObject, JsonObject, JsonObject])[] = [
  [
    'absent members get their defaults',
    SPARSE,
    {},
    { error: null, usage: null, temperature: 1, service_tier: 'default' },
  ],
  [
    'settings of the request are repeated',
    SPARSE,
    { temperature: 0.5, metadata: { a: 'b' } },
    { temperature: 0.5, metadata: { a: 'b' } },
  ],
  [
    'members of the upstream are kept',
    { ...SPARSE, temperature: 0.7, top_p: 0.98 },
    { temperature: 0.5 },
    { temperature: 0.7, top_p: 0.98 },
  ],
  ['null where null is not allowed', { ...SPARSE, temperature: null, top_p: null }, {}, { temperature: 1, top_p: 1 }],
  [
    'null where null is allowed',
    { ...SPARSE, reasoning: null, instructions: null },
    {},
    { reasoning: null, instructions: null },
  ],
  ['a completed response gets a completion time', SPARSE, {}, { completed_at: 1_700_000_100 }],
  ['a response in progress has no completion time', { ...SPARSE, status: 'in_progress' }, {}, { completed_at: null }],
  [
    'usage without details',
    { ...SPARSE, usage: { input_tokens: 3, output_tokens: 4, x: 1 } },
    {},
    {
      usage: {
        input_tokens: 3,
        output_tokens: 4,
        x: 1,
        total_tokens: 7,
        input_tokens_details: { cached_tokens: 0 },
        output_tokens_details: { reasoning_tokens: 0 },
      },
    },
  ],
  [
    'a tool without its description',
    { ...SPARSE, tools: [{ type: 'function', name: 'f', parameters: {}, strict: false }, { type: 'web_search' }] },
    {},
    {
      tools: [
        { type: 'function', name: 'f', parameters: {}, strict: false, description: null },
        { type: 'web_search' },
      ],
    },
  ],
  [
    'text without its format',
    { ...SPARSE, text: { verbosity: 'low' } },
    {},
    { text: { verbosity: 'low', format: { type: 'text' } } },
  ],
]
requireSchemas()

for (const [name, response, body, expected] of cases)
  test(`responses required members: ${name}`, () => {
    const whole = withRequiredMembers(response, contextOf(body))
    assert.partialDeepStrictEqual(whole, expected)
    assert.equal(problemsIfPresent('openresponses', 'ResponseResource', { ...whole, tools: [] }), undefined)
  })

test('responses required members: the text of existing members is unchanged', () => {
  const source = '{"id":"resp_1","status":"completed","output":[{"x":12345678901234567890,"y":1.50}],"temperature":1.0}'
  const kept = responseAsKept(source, contextOf({}))
  assert.ok(kept.includes('[{"x":12345678901234567890,"y":1.50}]') && kept.includes('"temperature":1.0'), kept)
  assert.equal(JSON.parse(kept).id, 'resp_hgours')
})

/**
 * Removes values that the Open Responses schema does not describe: hosted items and tools, templated instructions, and the schema
 * of a format, which it requires to be null.
 */
const itself = (response: JsonObject): JsonObject => ({
  ...response,
  output: [],
  tools: [],
  tool_choice: 'auto',
  instructions: null,
  text: { ...object(response.text), format: { type: 'text' } },
})

test('responses required members: every recorded answer becomes valid for Open Responses', {
  skip: skipWithoutRecordings,
}, () => {
  let judged = 0
  for (const { id, response, request } of recordingsOf('responses')) {
    if (!isObject(response) || response.object !== 'response' || !isObject(request)) continue
    const kept = responseAsKept(JSON.stringify(response), contextOf({ ...object(request) }))
    assert.equal(problemsIfPresent('openresponses', 'ResponseResource', itself(JSON.parse(kept))), undefined, id)
    judged++
  }
  assert.ok(judged > 100, String(judged))
})
