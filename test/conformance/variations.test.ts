/** Members that another format has under another name or with other values are translated, not dropped. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { UpstreamProtocolName } from '../../src/core/chat.ts'
import type { JsonObject } from '../../src/core/json.ts'
import type { Encoded, EncodeTarget } from '../../src/core/protocol.ts'
import { clientProtocolByStyle, upstreamProtocols } from '../../src/protocols/index.ts'
import { answerContext } from '../support/builders.ts'

const hello = [{ role: 'user', content: 'hello' }]
const encoded = (style: string, to: UpstreamProtocolName, body: JsonObject, target: EncodeTarget): Encoded => {
  const base = style === 'responses' ? { input: 'hello' } : { messages: hello }
  const request = clientProtocolByStyle.get(style)?.decodeRequest({ model: 'm', ...base, ...body })
  assert.ok(request?.ok)
  return upstreamProtocols[to].encodeRequest(request.value, target)
}
const paths = ({ losses }: Encoded) => losses.map(({ path }) => path)

// ── Effort and budget ─────────────────────────────────────────────────────────────────────────────────────────────

const OLDER = [
  'claude-3-7-sonnet-20250219',
  'claude-sonnet-4-20250514',
  'claude-opus-4-1-20250805',
  'claude-sonnet-4-5',
  'claude-haiku-4-5@20251001',
]
for (const model of OLDER)
  test(`an effort becomes a thinking budget for ${model}`, () => {
    const target = { model, outputLimit: 64_000 }
    for (const [effort, budget] of [
      ['low', 2_048],
      ['medium', 8_192],
      ['high', 16_384],
    ] as const) {
      const made = encoded('chat', 'anthropic-messages', { reasoning_effort: effort }, target)
      assert.deepEqual(made.body.thinking, { type: 'enabled', budget_tokens: budget })
      assert.equal(made.body.output_config, undefined)
      assert.deepEqual(paths(made), [])
    }
    const less = encoded(
      'responses',
      'anthropic-messages',
      { reasoning: { effort: 'high' }, max_output_tokens: 4_000 },
      target,
    )
    assert.deepEqual(less.body.thinking, { type: 'enabled', budget_tokens: 2_000 })
    assert.deepEqual(paths(less), ['reasoning.effort'])
    const none = encoded('chat', 'anthropic-messages', { reasoning_effort: 'high', max_tokens: 500 }, target)
    assert.equal(none.body.thinking, undefined)
    assert.deepEqual(paths(none), ['reasoning_effort'])
    const off = encoded('chat', 'anthropic-messages', { reasoning_effort: 'none' }, target)
    assert.deepEqual(off.body.thinking, { type: 'disabled' })
  })

test('later Claude models receive the effort itself', () => {
  for (const model of ['claude-opus-4-6', 'claude-sonnet-5', 'claude-opus-4-7']) {
    const { body } = encoded('chat', 'anthropic-messages', { reasoning_effort: 'high' }, { model, outputLimit: 64_000 })
    assert.deepEqual([body.thinking, body.output_config], [{ type: 'adaptive' }, { effort: 'high' }])
  }
})

const budgets: readonly (readonly [number, string])[] = [
  [1_024, 'low'],
  [4_095, 'low'],
  [4_096, 'medium'],
  [16_383, 'medium'],
  [16_384, 'high'],
  [60_000, 'high'],
]
for (const [budget_tokens, effort] of budgets)
  test(`a budget of ${budget_tokens} becomes the effort ${effort}`, () => {
    const request = { thinking: { type: 'enabled', budget_tokens }, max_tokens: 64_000 }
    const target = { model: 'gpt-5', reasons: true }
    const chat = encoded('messages', 'openai-chat', request, target)
    assert.equal(chat.body.reasoning_effort, effort)
    assert.equal(chat.from.reasoning_effort, 'thinking.budget_tokens')
    assert.deepEqual(paths(chat), [])
    const responses = encoded('messages', 'openai-responses', request, target)
    assert.deepEqual(responses.body.reasoning, { effort })
    assert.deepEqual(paths(responses), [])
  })

test('a budget is dropped for a model without reasoning, and beside an effort', () => {
  const request = { thinking: { type: 'enabled', budget_tokens: 2_000 }, max_tokens: 64_000 }
  for (const to of ['openai-chat', 'openai-responses'] as const) {
    const plain = encoded('messages', to, request, { model: 'gpt-4o', reasons: false })
    assert.equal(plain.body.reasoning_effort ?? plain.body.reasoning, undefined)
    assert.deepEqual(paths(plain), ['thinking.budget_tokens'])
    const both = encoded(
      'messages',
      to,
      { ...request, output_config: { effort: 'high' } },
      { model: 'gpt-5', reasons: true },
    )
    assert.match(JSON.stringify(both.body), /"(?:reasoning_)?effort":"high"/)
    assert.deepEqual(paths(both), ['thinking.budget_tokens'])
  }
})

// ── JSON, documents ───────────────────────────────────────────────────────────────────────────────────────────────

test('JSON mode becomes a line of the system prompt where the format has no JSON mode', () => {
  for (const to of ['anthropic-messages', 'bedrock-converse'] as const)
    for (const [style, format] of [
      ['chat', { response_format: { type: 'json_object' } }],
      ['responses', { text: { format: { type: 'json_object' } } }],
    ] as const) {
      const target = { model: 'claude-sonnet-4-5', outputLimit: 64_000 }
      const alone = encoded(style, to, format, target)
      assert.match(JSON.stringify(alone.body.system), /JSON/)
      assert.deepEqual(paths(alone), [])
      const first =
        style === 'chat'
          ? { messages: [{ role: 'system', content: 'Be brief.' }, ...hello] }
          : { instructions: 'Be brief.' }
      const beside = encoded(style, to, { ...format, ...first }, target)
      assert.match(JSON.stringify(beside.body.system), /Be brief\..*JSON/)
      assert.doesNotMatch(JSON.stringify(encoded(style, to, first, target).body.system), /JSON/)
    }
})

test('a text document becomes a text part for a chat upstream', () => {
  const data = 'VGhlIHdvcmQgaXMga2l3aS4='
  const request: readonly (readonly [string, JsonObject])[] = [
    ['responses', { type: 'input_file', filename: 'a.txt', file_data: `data:text/plain;base64,${data}` }],
    [
      'messages',
      {
        type: 'document',
        title: 'a.txt',
        source: { type: 'text', media_type: 'text/plain', data: 'The word is kiwi.' },
      },
    ],
    ['responses', { type: 'input_file', filename: 'a.md', file_data: `data:;base64,${data}` }],
  ]
  for (const [style, part] of request) {
    const turn = [{ role: 'user', content: [part] }]
    const body = style === 'responses' ? { input: turn } : { messages: turn, max_tokens: 10 }
    const made = encoded(style, 'openai-chat', body, { model: 'm' })
    assert.match(
      JSON.stringify(made.body.messages),
      /^\[\{"role":"user","content":"a\.(?:txt|md):\\n\\nThe word is kiwi\."\}\]$/,
    )
    assert.deepEqual(paths(made), [])
  }
})

// ── Finish ────────────────────────────────────────────────────────────────────────────────────────────────────────

test('a paused turn is not reported as complete', () => {
  const answer = {
    blocks: [{ type: 'text', text: 'Searching' }],
    finish: { kind: 'pause', raw: 'pause_turn' },
  } as const
  const encodedAnswer = (style: string) =>
    JSON.stringify(clientProtocolByStyle.get(style)?.encodeAnswer(answer, answerContext()))
  assert.match(encodedAnswer('chat'), /"finish_reason":"length"/)
  assert.match(encodedAnswer('completions'), /"finish_reason":"length"/)
  assert.match(encodedAnswer('responses'), /"status":"incomplete"/)
  assert.match(encodedAnswer('messages'), /"stop_reason":"pause_turn"/)
})
