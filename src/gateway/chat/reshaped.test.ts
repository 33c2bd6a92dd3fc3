/** Bodies of one client format at the path of another: what the upstream receives, and the format of the answer. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chatAnswer, gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import type { ScriptedCall } from '../../../test/support/still-world.ts'
import type { ClientProtocolName, UpstreamProtocolName } from '../../core/chat.ts'
import { type JsonObject, parseObject } from '../../core/json.ts'
import { protocols } from '../../protocols/index.ts'
import { parseRequest } from '../upstream/parse-request.ts'

const SCHEMA = { type: 'object', properties: { path: { type: 'string' } } }
const NESTED = { type: 'function', function: { name: 'read_file', description: 'Reads.', parameters: SCHEMA } }
const FLAT = { type: 'function', name: 'read_file', description: 'Reads.', parameters: SCHEMA }
const FLAT_LOOSE = { ...FLAT, strict: false }
const OF_CLAUDE = { name: 'read_file', description: 'Reads.', input_schema: SCHEMA }
const CALL = { id: 'call_1', type: 'function', function: { name: 'read_file', arguments: '{"path":"a"}' } }
const USER = { role: 'user', content: 'hi' }
/** A turn with a call and its result, as chat completions have it. */
const CALLED = [
  USER,
  { role: 'assistant', content: null, tool_calls: [CALL] },
  { role: 'tool', tool_call_id: 'call_1', content: '42' },
]
const LIMITS = { messages: 100, parts: 100, tools: 100 }
const IMAGE = 'data:image/png;base64,iVBORw0KGgo='

type Case = {
  readonly path: ClientProtocolName
  readonly body: JsonObject
  /** What a chat upstream receives, without the members for streams. */
  readonly chat: JsonObject
  readonly dropped?: string
}

const CASES: { readonly [name: string]: Case } = {
  // Soju06/codex-lb#833, Helicone/helicone#5629, icebear0828/codex-proxy#507, 170-carry/codex-tools#54
  'Cursor sends a body of responses to chat completions': {
    path: 'openai-chat',
    body: {
      user: 'auth0|user_1',
      input: [
        { role: 'system', content: 'You are a coding agent.' },
        { role: 'user', content: [{ type: 'input_text', text: 'hi' }] },
      ],
      tools: [FLAT_LOOSE],
      tool_choice: 'auto',
      reasoning: { effort: 'high' },
      text: { verbosity: 'low' },
      store: false,
      stream_options: { include_usage: true },
    },
    chat: {
      messages: [{ role: 'system', content: 'You are a coding agent.' }, USER],
      tools: [NESTED],
      tool_choice: 'auto',
      reasoning_effort: 'high',
      user: 'auth0|user_1',
    },
    dropped: 'text.verbosity',
  },
  'a body of responses with instructions, a format and a limit': {
    path: 'openai-chat',
    body: {
      instructions: 'Be brief.',
      input: 'hi',
      max_output_tokens: 50,
      text: { format: { type: 'json_schema', name: 'n', schema: SCHEMA, strict: false } },
    },
    chat: {
      messages: [{ role: 'system', content: 'Be brief.' }, USER],
      max_completion_tokens: 50,
      response_format: { type: 'json_schema', json_schema: { name: 'n', schema: SCHEMA, strict: false } },
    },
  },
  'calls and results of responses in input': {
    path: 'openai-chat',
    body: {
      input: [
        USER,
        { type: 'function_call', call_id: 'call_1', name: 'read_file', arguments: '{"path":"a"}' },
        { type: 'function_call_output', call_id: 'call_1', output: '42' },
      ],
      tools: [FLAT_LOOSE],
    },
    chat: { messages: CALLED, tools: [NESTED] },
  },
  'the same items in messages': {
    path: 'openai-chat',
    body: {
      messages: [
        USER,
        { type: 'function_call', call_id: 'call_1', name: 'read_file', arguments: '{"path":"a"}' },
        { type: 'function_call_output', call_id: 'call_1', output: '42' },
      ],
      tools: [NESTED],
    },
    chat: { messages: CALLED, tools: [NESTED] },
  },
  'messages of chat completions in input': {
    path: 'openai-chat',
    body: { messages: [], input: CALLED, max_tokens: 9, tools: [NESTED] },
    chat: { messages: CALLED, tools: [NESTED], max_completion_tokens: 9 },
  },
  'flat tools, flat choice and parts of responses in a chat body': {
    path: 'openai-chat',
    body: {
      messages: [
        {
          role: 'user',
          content: [
            { type: 'input_text', text: 'hi' },
            { type: 'input_image', image_url: IMAGE },
          ],
        },
        { role: 'assistant', content: [{ type: 'output_text', text: 'ok' }] },
        USER,
      ],
      tools: [FLAT],
      tool_choice: { type: 'function', name: 'read_file' },
    },
    chat: {
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'hi' },
            { type: 'image_url', image_url: { url: IMAGE } },
          ],
        },
        { role: 'assistant', content: 'ok' },
        USER,
      ],
      tools: [NESTED],
      tool_choice: { type: 'function', function: { name: 'read_file' } },
    },
  },
  // automazeio/vibeproxy#411, askalf/dario#190, router-for-me/CLIProxyAPI#601
  "Cursor sends Claude's tools and blocks to chat completions": {
    path: 'openai-chat',
    body: {
      messages: [
        USER,
        {
          role: 'assistant',
          content: [
            { type: 'text', text: 'Reading.' },
            { type: 'tool_use', id: 'toolu_1', name: 'read_file', input: { path: 'a' } },
          ],
        },
        {
          role: 'user',
          content: [
            { type: 'tool_result', tool_use_id: 'toolu_1', content: [{ type: 'text', text: '42' }] },
            { type: 'text', text: 'go on' },
          ],
        },
      ],
      tools: [OF_CLAUDE],
      tool_choice: { type: 'any' },
    },
    chat: {
      messages: [
        USER,
        { role: 'assistant', content: 'Reading.', tool_calls: [{ ...CALL, id: 'toolu_1' }] },
        { role: 'tool', tool_call_id: 'toolu_1', content: '42' },
        { role: 'user', content: 'go on' },
      ],
      tools: [NESTED],
      tool_choice: 'required',
    },
  },
  'the system prompt and a picture of messages in a chat body': {
    path: 'openai-chat',
    body: {
      system: [{ type: 'text', text: 'Be brief.' }],
      messages: [
        {
          role: 'user',
          content: [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } }],
        },
      ],
      tools: [{ type: 'custom', ...OF_CLAUDE }],
      tool_choice: { type: 'auto' },
    },
    chat: {
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: [{ type: 'image_url', image_url: { url: IMAGE } }] },
      ],
      tools: [NESTED],
      tool_choice: 'auto',
    },
  },
  // maximhq/bifrost#2635, stanfordnlp/dspy#9943
  'a chat body at responses': {
    path: 'openai-responses',
    body: { messages: CALLED, tools: [NESTED], tool_choice: 'auto', max_tokens: 9, reasoning_effort: 'low' },
    chat: { messages: CALLED, tools: [NESTED], tool_choice: 'auto', max_completion_tokens: 9, reasoning_effort: 'low' },
  },
  'nested tools, nested choice and parts of chat completions at responses': {
    path: 'openai-responses',
    body: {
      input: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'hi' },
            { type: 'image_url', image_url: { url: IMAGE } },
          ],
        },
      ],
      tools: [NESTED],
      tool_choice: { type: 'function', function: { name: 'read_file' } },
    },
    chat: {
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'hi' },
            { type: 'image_url', image_url: { url: IMAGE } },
          ],
        },
      ],
      tools: [NESTED],
      tool_choice: { type: 'function', function: { name: 'read_file' } },
    },
  },
}

const upstream = (protocol: UpstreamProtocolName) => instance('a', ['k1'], { speaks: [{ protocol }] })

const exchange = async (path: ClientProtocolName, body: JsonObject, protocol: UpstreamProtocolName) => {
  const calls: ScriptedCall[] = []
  const { send, world } = gatewayHarness([upstream(protocol)], (call) => {
    calls.push(call)
    if (protocol !== 'openai-chat') respondWith.error(call, 400)
    else if (call.headers.accept === 'text/event-stream') respondWith.stream(call, chatAnswer.stream('Hel', 'lo'))
    else respondWith.json(call, 200, chatAnswer.whole('Hello'))
  })
  const reply = send({ model: 'm', ...body }, path)
  await world.advance(0)
  return { reply, sent: parseObject(calls[0]?.body ?? '') ?? {} }
}

for (const [name, { path, body, chat, dropped }] of Object.entries(CASES))
  for (const stream of [false, true])
    test(`reshaped: ${name}, ${stream ? 'streamed' : 'whole'}`, async () => {
      const { reply, sent } = await exchange(path, { ...body, stream }, 'openai-chat')
      assert.equal(reply.status, 200, reply.text)
      const { stream: _, stream_options: __, ...request } = sent
      assert.deepEqual(request, { model: 'm', ...chat })
      assert.equal(reply.headers['x-headgate-dropped'], dropped)
      if (path === 'openai-chat' && stream) assert.match(reply.text, /"object":"chat.completion.chunk"/)
      else if (path === 'openai-chat') assert.equal(reply.json.choices[0].message.content, 'Hello')
      else if (stream) assert.match(reply.text, /event: response.completed/)
      else assert.equal(reply.json.output[0].content[0].text, 'Hello')
    })

for (const [name, { path, body, chat }] of Object.entries(CASES))
  for (const protocol of ['openai-responses', 'anthropic-messages', 'gemini'] as const)
    test(`reshaped: ${name}, at ${protocol} as if it had been sent in its own shape`, async () => {
      const { sent } = await exchange(path, body, protocol)
      const own = await exchange('openai-chat', chat, protocol)
      for (const member of ['input', 'messages', 'contents', 'system', 'tools'])
        assert.deepEqual(sent[member], own.sent[member], member)
    })

test('reshaped: a body in its own shape passes unchanged', async () => {
  for (const body of [
    { messages: CALLED, tools: [NESTED], reasoning: { effort: 'low' }, plugins: [{ id: 'web' }] },
    { messages: [{ role: 'user', content: [{ type: 'video_url', video_url: { url: 'https://a.example/v' } }] }] },
  ]) {
    const { sent } = await exchange('openai-chat', body, 'openai-chat')
    assert.deepEqual(sent, { model: 'm', ...body })
  }
  const body = { input: [{ role: 'user', content: [{ type: 'input_text', text: 'hi' }] }], tools: [FLAT], unknown: 1 }
  const { sent } = await exchange('openai-responses', body, 'openai-responses')
  assert.deepEqual(sent, { model: 'm', ...body })
})

// router-for-me/CLIProxyAPI#4530: strict clients refuse a response whose tools are nested.
test("reshaped: a response repeats tools, settings and the stored choice in its own format's shape", async () => {
  const body = {
    messages: CALLED,
    tools: [NESTED],
    tool_choice: { type: 'function', function: { name: 'read_file' } },
    max_tokens: 90,
  }
  const { reply } = await exchange('openai-responses', { ...body, store: false }, 'openai-chat')
  const { tools, tool_choice, max_output_tokens, store } = reply.json
  assert.deepEqual(tools, [FLAT_LOOSE])
  assert.deepEqual([tool_choice, max_output_tokens, store], [{ type: 'function', name: 'read_file' }, 90, false])
})

test('reshaped: a stored turn keeps the items of its own format', () => {
  const body = { model: 'm', instructions: 'Be brief.', messages: CALLED, tools: [NESTED] }
  const parsed = parseRequest(
    protocols['openai-responses'],
    { body: { text: JSON.stringify(body) }, headers: () => undefined },
    LIMITS,
  )
  assert.ok(parsed.ok)
  const { input, instructions, store, messages } = parsed.value.body
  assert.deepEqual([instructions, store, messages], ['Be brief.', undefined, undefined])
  assert.deepEqual(input, [
    { type: 'message', role: 'user', content: 'hi' },
    { type: 'function_call', call_id: 'call_1', name: 'read_file', arguments: '{"path":"a"}' },
    { type: 'function_call_output', call_id: 'call_1', output: '42' },
  ])
})

test('reshaped: tools of the OpenAI formats at messages', async () => {
  for (const tool of [NESTED, FLAT]) {
    const { sent } = await exchange(
      'anthropic-messages',
      { max_tokens: 9, messages: [USER], tools: [tool] },
      'anthropic-messages',
    )
    assert.deepEqual(sent.tools, [OF_CLAUDE])
  }
})

/** Errors name the client's own member. */
const REFUSED: readonly (readonly [string, ClientProtocolName, JsonObject, string])[] = [
  ['no conversation', 'openai-chat', {}, 'messages'],
  ['no conversation', 'openai-responses', {}, 'input'],
  ['an empty input', 'openai-chat', { input: [] }, 'input'],
  ['an item of no kind', 'openai-chat', { input: [{}] }, 'input[0].role'],
  ['a flat tool without a name', 'openai-chat', { input: 'hi', tools: [{ type: 'function' }] }, 'tools[0].name'],
  ['a limit of another type', 'openai-chat', { input: 'hi', max_output_tokens: 'x' }, 'max_output_tokens'],
  ['a limit of another type', 'openai-responses', { messages: [USER], max_tokens: 'x' }, 'max_tokens'],
  [
    'a result without its call',
    'openai-chat',
    { messages: [{ role: 'user', content: [{ type: 'tool_result', content: 'x' }] }] },
    'messages[0].content[0].tool_use_id',
  ],
]
for (const [name, path, body, param] of REFUSED)
  test(`reshaped, refused at ${path}: ${name}`, async () => {
    const { reply } = await exchange(path, body, 'openai-chat')
    assert.equal(reply.status, 400)
    assert.equal(reply.json.error.param, param)
  })
