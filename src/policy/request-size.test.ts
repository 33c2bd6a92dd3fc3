import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { JsonObject } from '../core/json.ts'
import { survey } from '../core/json-text.ts'
import { extentProblem, isShort } from './request-size.ts'

const limits = { messages: 4, parts: 6, tools: 3 }
const many = <T>(count: number, one: T): T[] => Array.from({ length: count }, () => one)
const text = { type: 'text', text: 'x' }
const user = { role: 'user', content: 'x' }
const tool = { type: 'function', name: 'f' }

const cases: readonly (readonly [name: string, body: JsonObject, problem: RegExp | null])[] = [
  ['messages at the limit', { messages: many(4, user) }, null],
  [
    'messages',
    { messages: many(5, user) },
    /5 messages in `messages`; the limit is 4 \(limit.messages, LIMIT_MESSAGES\)/,
  ],
  ['items', { input: many(5, user) }, /5 items in `input`; the limit is 4 \(limit.messages/],
  ['inputs to embed', { input: many(5, 'x') }, /5 items in `input`/],
  ['inputs as lists of tokens', { input: many(5, [1, 2]) }, /5 items in `input`/],
  ['one input of many tokens', { input: many(1_000, 7) }, null],
  ['prompts', { prompt: many(5, 'x') }, /5 prompts in `prompt`/],
  ['contents of Google', { contents: many(5, { parts: [] }) }, /5 contents in `contents`; the limit is 4/],
  ['parts of contents', { contents: [{ parts: many(7, { text: 'x' }) }] }, /limit.parts/],
  ['texts to embed in Google’s shapes', { requests: many(5, { content: {} }) }, /5 requests in `requests`/],
  ['texts to embed at Vertex AI', { instances: many(5, { content: 'x' }) }, /5 instances in `instances`/],
  ['text is one entry', { input: 'x'.repeat(1_000) }, null],
  ['parts at the limit', { messages: [{ role: 'user', content: many(6, text) }] }, null],
  [
    'parts of one message',
    { messages: [{ role: 'user', content: many(7, text) }] },
    /more than 6 content parts in `messages`; the limit is 6 \(limit.parts, LIMIT_PARTS\)/,
  ],
  ['parts of several messages', { input: many(4, { role: 'user', content: many(2, text) }) }, /limit.parts/],
  ['parts of the system prompt', { system: many(4, text), messages: [{ content: many(3, text) }] }, /limit.parts/],
  [
    'parts of a tool result',
    { messages: [{ role: 'user', content: [{ type: 'tool_result', content: many(6, text) }] }] },
    /limit.parts/,
  ],
  ['tool calls', { messages: [{ role: 'assistant', tool_calls: many(7, tool) }] }, /limit.parts/],
  ['outputs of a tool', { input: [{ type: 'function_call_output', output: many(7, text) }] }, /limit.parts/],
  ['parts of a reasoning summary', { input: [{ type: 'reasoning', summary: many(7, text) }] }, /limit.parts/],
  ['tools found by a search', { input: [{ type: 'tool_search_output', tools: many(7, tool) }] }, /limit.parts/],
  ['log probabilities are not parts', { input: [{ content: [{ ...text, logprobs: many(50, 0) }] }] }, null],
  ['tools at the limit', { tools: many(3, tool) }, null],
  ['tools', { tools: many(4, tool) }, /4 tools in `tools`; the limit is 3 \(limit.tools, LIMIT_TOOLS\)/],
  ['functions', { functions: many(4, tool) }, /4 tools in `functions`/],
  ['tools of a namespace', { tools: [{ type: 'namespace', tools: many(3, tool) }] }, /4 tools in `tools`/],
  ['values of other types', { messages: [1, null, 'x'], tools: 'x', input: {} }, null],
]

for (const [name, body, problem] of cases)
  test(`extent: ${name}`, () => {
    const found = extentProblem(body, limits)
    if (problem === null) assert.equal(found, null)
    else {
      assert.equal(found?.kind, 'invalid_value')
      assert.match(found?.message ?? '', problem)
      assert.equal(isShort(entriesOf(JSON.stringify(body)), limits), false)
    }
  })

/** The entries of all lists, as the survey of a text counts them. */
const entriesOf = (source: string): number => {
  const found = survey(source, 64)
  return found.ok ? found.entries : Number.POSITIVE_INFINITY
}

test('extent: a body with few enough entries to skip the count is within all limits', () => {
  for (const [limit, shortest] of [
    [{ messages: 4, parts: 9, tools: 9 }, '{"input":[1,1,1,1,1]}'],
    [{ messages: 9, parts: 4, tools: 9 }, '{"input":[{"output":[1,1,1,1,1]}]}'],
    [{ messages: 9, parts: 9, tools: 4 }, '{"tools":[1,1,1,1,1]}'],
  ] as const)
    assert.equal(isShort(entriesOf(shortest), limit), false)
  assert.equal(isShort(entriesOf('{"x":[],"text":"[1,2,3,4,5]"}'), { messages: 4, parts: 4, tools: 4 }), true)
})
