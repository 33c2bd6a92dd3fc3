/**
 * Cache marks cross between Anthropic's and OpenAI's formats (BerriAI/litellm#32656, #37628). Members as in OpenAI's published
 * schema and the recordings openai-chat-test-openai-chat-prompt-cache-e2e-*.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import type { ClientProtocolName, UpstreamProtocolName } from '../../core/chat.ts'
import { type Json, type JsonObject, list, object } from '../../core/json.ts'
import type { Provider } from '../../core/provider.ts'
import openai from '../../providers/openai.ts'
import openrouter from '../../providers/openrouter.ts'

const ask = async (
  style: ClientProtocolName,
  upstream: UpstreamProtocolName,
  body: JsonObject,
  cacheMarks: NonNullable<Provider['cacheMarks']> = openai.cacheMarks,
) => {
  const { send, world } = gatewayHarness(
    [{ ...instance('a', ['k1'], { speaks: [{ protocol: upstream }], cacheMarks }), models: [String(body.model)] }],
    (asked) => respondWith.error(asked, 401),
  )
  const reply = send({ ...body, model: `a/${body.model}` }, style)
  await world.advance(5_000)
  const sent: JsonObject = JSON.parse(world.calls[0]?.body ?? 'null')
  assert.ok(sent, reply.text)
  return { sent, dropped: (reply.headers['x-headgate-dropped'] ?? '').split(', ').filter((path) => path !== '') }
}

const EPHEMERAL = { type: 'ephemeral' }
const HOUR = { type: 'ephemeral', ttl: '1h' }
const EXPLICIT = { mode: 'explicit' }

/** As Claude Code sends it: marks in the system prompt, a tool result and the last message. */
const claudeCode = (model: string): JsonObject => ({
  model,
  max_tokens: 50,
  system: [{ type: 'text', text: 'Agent.', cache_control: HOUR }],
  messages: [
    { role: 'user', content: 'hi' },
    { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'f', input: {} }] },
    {
      role: 'user',
      content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: '7', cache_control: EPHEMERAL }],
    },
    { role: 'assistant', content: 'Seven.' },
    { role: 'user', content: [{ type: 'text', text: 'and?', cache_control: EPHEMERAL }] },
  ],
})

const marked = (text: string) => ({ type: 'text', text, prompt_cache_breakpoint: EXPLICIT })

for (const model of ['gpt-5.6', 'gpt-5.6-sol', 'gpt-6-astra', 'openai/gpt-5.12'])
  test(`cache marks, messages to chat, ${model}: they are breakpoints`, async () => {
    const { sent, dropped } = await ask('anthropic-messages', 'openai-chat', claudeCode(model))
    const contents = list(sent.messages).map((message) => object(message)?.content ?? null)
    assert.deepEqual(contents, [[marked('Agent.')], 'hi', null, [marked('7')], 'Seven.', [marked('and?')]])
    assert.deepEqual(dropped, ['system[0].cache_control.ttl'])
  })

for (const model of ['gpt-5.4', 'gpt-5', 'gpt-4o', 'llama-5.6'])
  test(`cache marks, messages to chat, ${model}: they are left out by name`, async () => {
    const { sent, dropped } = await ask('anthropic-messages', 'openai-chat', claudeCode(model))
    assert.doesNotMatch(JSON.stringify(sent), /cache/)
    assert.deepEqual(dropped, [
      'system[0].cache_control',
      'messages[2].content[0].cache_control',
      'messages[4].content[0].cache_control',
    ])
  })

test('cache marks, messages to responses: they are breakpoints', async () => {
  const { sent, dropped } = await ask('anthropic-messages', 'openai-responses', claudeCode('gpt-5.6'))
  const found = list(sent.input).map((item) => object(item)?.content ?? object(item)?.output ?? null)
  const input = (text: string) => [{ type: 'input_text', text, prompt_cache_breakpoint: EXPLICIT }]
  assert.deepEqual(found, [input('Agent.'), 'hi', null, input('7'), 'Seven.', input('and?')])
  assert.deepEqual(dropped, ['system[0].cache_control.ttl'])
})

const chatBody = (options?: JsonObject): JsonObject => ({
  model: 'claude-sonnet-4-5',
  ...(options && { prompt_cache_options: options }),
  messages: [
    { role: 'system', content: [marked('Agent.')] },
    { role: 'user', content: 'hi' },
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'toolu_1', type: 'function', function: { name: 'f', arguments: '{}' } }],
    },
    { role: 'tool', tool_call_id: 'toolu_1', content: [marked('7')] },
    { role: 'user', content: [marked('and?')] },
  ],
})
const responsesBody = (options?: JsonObject): JsonObject => ({
  model: 'claude-sonnet-4-5',
  ...(options && { prompt_cache_options: options }),
  input: [
    { role: 'developer', content: [{ ...marked('Agent.'), type: 'input_text' }] },
    { role: 'user', content: 'hi' },
    { type: 'function_call', call_id: 'toolu_1', name: 'f', arguments: '{}' },
    { type: 'function_call_output', call_id: 'toolu_1', output: [{ ...marked('7'), type: 'input_text' }] },
    { role: 'user', content: [{ ...marked('and?'), type: 'input_text' }] },
  ],
})

/** Replaces the marks of Claude's two formats by a letter. */
const marksIn = (body: JsonObject): string[] =>
  [...JSON.stringify(body).matchAll(/"(?:cache_control|cachePoint)":(\{[^}]*\})/g)].map(([, value = '']) => {
    const { ttl }: { ttl?: Json } = JSON.parse(value)
    return ttl === undefined ? 'mark' : `mark ${ttl}`
  })

for (const [style, bodyOf] of [
  ['openai-chat', chatBody],
  ['openai-responses', responsesBody],
] as const)
  for (const upstream of ['anthropic-messages', 'bedrock-converse'] as const) {
    const model = upstream === 'bedrock-converse' ? 'us.anthropic.claude-sonnet-4-5-20250929-v1:0' : 'claude-sonnet-4-5'
    const sentFor = (options?: JsonObject) => ask(style, upstream, { ...bodyOf(options), model })
    test(`cache marks, ${style} to ${upstream}: breakpoints are marks`, async () => {
      const { sent, dropped } = await sentFor()
      assert.deepEqual([marksIn(sent), dropped], [['mark', 'mark', 'mark'], []])
    })
    test(`cache marks, ${style} to ${upstream}: the stated lifetime of 30 minutes needs an hour`, async () => {
      const { sent, dropped } = await sentFor({ mode: 'explicit', ttl: '30m' })
      assert.deepEqual([marksIn(sent), dropped], [['mark 1h', 'mark 1h', 'mark 1h'], []])
    })
    test(`cache marks, ${style} to ${upstream}: an implicit breakpoint has no equivalent`, async () => {
      const { dropped } = await sentFor({ mode: 'implicit' })
      assert.deepEqual(dropped, ['prompt_cache_options'])
    })
  }

test('cache marks: breakpoints and options stay breakpoints from chat to responses and back', async () => {
  const options = { mode: 'explicit', ttl: '30m' }
  const responses = await ask('openai-chat', 'openai-responses', { ...chatBody(options), model: 'gpt-5.6' })
  const chat = await ask('openai-responses', 'openai-chat', { ...responsesBody(options), model: 'gpt-5.6' })
  for (const { sent, dropped } of [responses, chat]) {
    assert.equal(JSON.stringify(sent).split('"prompt_cache_breakpoint":{"mode":"explicit"}').length, 4)
    assert.deepEqual([sent.prompt_cache_options, dropped], [options, []])
  }
})

// "A maximum of 4 blocks with cache_control may be provided. Found 5." (Wei-Shaw/sub2api#176)
for (const upstream of ['anthropic-messages', 'bedrock-converse'] as const)
  test(`cache marks to ${upstream}: the first and the last three of more than four are kept`, async () => {
    const messages = Array.from({ length: 7 }, (_, index) => ({ role: 'user', content: [marked(`${index}`)] }))
    const model = upstream === 'bedrock-converse' ? 'us.anthropic.claude-sonnet-4-5-20250929-v1:0' : 'claude-sonnet-4-5'
    const { sent, dropped } = await ask('openai-chat', upstream, { model, messages })
    assert.equal(marksIn(sent).length, 4)
    assert.deepEqual(
      dropped,
      [1, 2, 3].map((index) => `messages[${index}].content[0].prompt_cache_breakpoint`),
    )
  })

test('cache marks: OpenRouter takes those of Anthropic for Claude, in chat', async () => {
  const body = { ...responsesBody(), model: 'anthropic/claude-sonnet-4.5' }
  const { sent } = await ask('openai-responses', 'openai-chat', body, openrouter.cacheMarks)
  assert.deepEqual(object(list(sent.messages)[0])?.content, [
    { type: 'text', text: 'Agent.', cache_control: { type: 'ephemeral' } },
  ])
})
