/** A history with parts of one vendor's own kind goes on at a vendor of another API style. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chatAnswer, gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import type { ClientProtocolName, UpstreamProtocolName } from '../../core/chat.ts'
import { type Json, type JsonObject, list, object } from '../../core/json.ts'

const ANSWERS: { readonly [style: string]: object } = {
  'openai-chat': {
    id: 'c',
    object: 'chat.completion',
    model: 'm',
    choices: [{ index: 0, message: { role: 'assistant', content: 'ok' }, finish_reason: 'stop' }],
  },
  'openai-responses': {
    id: 'resp_1',
    object: 'response',
    status: 'completed',
    model: 'm',
    output: [
      {
        type: 'message',
        id: 'msg_1',
        role: 'assistant',
        content: [{ type: 'output_text', text: 'ok', annotations: [] }],
      },
    ],
  },
  'anthropic-messages': {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'm',
    content: [{ type: 'text', text: 'ok' }],
    stop_reason: 'end_turn',
    usage: { input_tokens: 1, output_tokens: 1 },
  },
  gemini: { candidates: [{ content: { role: 'model', parts: [{ text: 'ok' }] }, finishReason: 'STOP' }] },
  'bedrock-converse': {
    output: { message: { role: 'assistant', content: [{ text: 'ok' }] } },
    stopReason: 'end_turn',
    usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 },
  },
}

/** Sends a request to one upstream. Returns the reply and the body that the upstream received. */
const ask = async (style: ClientProtocolName, upstream: UpstreamProtocolName, body: object, answer?: object) => {
  const { send, world } = gatewayHarness([instance('a', ['k1'], { speaks: [{ protocol: upstream }] })], (asked) =>
    respondWith.json(asked, 200, JSON.stringify(answer ?? ANSWERS[upstream])),
  )
  const reply = send(body, style)
  await world.advance(5_000)
  const sent: JsonObject = JSON.parse(world.calls.at(-1)?.body ?? 'null')
  return { reply, sent, dropped: reply.headers['x-headgate-dropped'] ?? '' }
}

const OTHERS = ['openai-chat', 'openai-responses', 'anthropic-messages', 'gemini', 'bedrock-converse'] as const

// ── Messages: blocks of Anthropic's server tools, and tool references ───────────────────────────────────────────────

const TOOL = { name: 'ToolSearch', input_schema: { type: 'object', properties: { query: { type: 'string' } } } }
const messagesWith = (...blocks: readonly object[]) => ({
  model: 'a/m',
  max_tokens: 50,
  messages: [
    { role: 'user', content: 'hi' },
    { role: 'assistant', content: [...blocks, { type: 'text', text: 'Done.' }] },
    { role: 'user', content: 'and?' },
  ],
})

const blocks: readonly (readonly [name: string, blocks: readonly object[], words: RegExp | null])[] = [
  // github.com/LeenHawk/gproxy/issues/239: "unsupported Claude tool result field or event: unsupported block"
  [
    'a code execution',
    [
      { type: 'server_tool_use', id: 'srvtoolu_1', name: 'bash_code_execution', input: { command: 'ls' } },
      {
        type: 'bash_code_execution_tool_result',
        tool_use_id: 'srvtoolu_1',
        content: { type: 'bash_code_execution_result', stdout: 'a.txt', stderr: '', return_code: 0, content: [] },
      },
    ],
    /\[bash_code_execution_tool_result: \{\\?"stdout\\?":\\?"a\.txt\\?",\\?"return_code\\?":0\}\]/,
  ],
  [
    'a remote MCP tool',
    [
      { type: 'mcp_tool_use', id: 'mcptoolu_1', name: 'echo', server_name: 'x', input: { say: 'moo' } },
      { type: 'mcp_tool_result', tool_use_id: 'mcptoolu_1', is_error: false, content: [{ type: 'text', text: 'MOO' }] },
    ],
    /MOO/,
  ],
  [
    'web search results',
    [
      { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'q' } },
      {
        type: 'web_search_tool_result',
        tool_use_id: 'srvtoolu_1',
        content: [
          { type: 'web_search_result', url: 'https://a.example', title: 'A', encrypted_content: 'Eqg', page_age: null },
        ],
      },
    ],
    null,
  ],
  // github.com/anthropics/claude-code/issues/64383: blocks of the advisor tool in the history
  [
    'an advisor',
    [
      { type: 'server_tool_use', id: 'srvtoolu_1', name: 'advisor', input: {} },
      {
        type: 'advisor_tool_result',
        tool_use_id: 'srvtoolu_1',
        content: { type: 'advisor_result', text: 'Use a map.' },
      },
    ],
    /\[advisor_tool_result: Use a map\.\]/,
  ],
  [
    'an encrypted result',
    [
      { type: 'server_tool_use', id: 'srvtoolu_1', name: 'advisor', input: {} },
      {
        type: 'advisor_tool_result',
        tool_use_id: 'srvtoolu_1',
        content: { type: 'advisor_redacted_result', encrypted_content: 'Eqg' },
      },
    ],
    null,
  ],
  ['a block of an unknown type with text', [{ type: 'daydream', text: 'A boat.' }], /\[daydream: A boat\.\]/],
  ['a block of an unknown type without content', [{ type: 'marker', id: 'x', status: 'done' }], null],
]
for (const upstream of OTHERS)
  if (upstream !== 'anthropic-messages')
    for (const [name, some, words] of blocks)
      test(`messages to ${upstream}: the history has ${name}`, async () => {
        const { reply, sent, dropped } = await ask('anthropic-messages', upstream, messagesWith(...some))
        assert.equal(reply.status, 200, reply.text)
        const text = JSON.stringify(sent)
        assert.match(text, /Done\./)
        assert.match(dropped, /messages\[1\]\.content\[0\]/)
        assert.doesNotMatch(text, /srvtoolu|mcptoolu|Eqg/)
        if (words) assert.match(text, words)
      })

test('messages to messages: the history passes unchanged', async () => {
  for (const [, some] of blocks) {
    const body = messagesWith(...some)
    const { sent, dropped } = await ask('anthropic-messages', 'anthropic-messages', body)
    assert.deepEqual([sent.messages, dropped], [body.messages, ''])
  }
})

// github.com/caozhiyuan/copilot-api/pull/162, github.com/LeenHawk/gproxy/issues/239
for (const upstream of OTHERS)
  if (upstream !== 'anthropic-messages')
    test(`messages to ${upstream}: tool references in a result are its text`, async () => {
      const found = { type: 'tool_reference', tool_name: 'mcp__x__get_weather' }
      const { reply, sent } = await ask('anthropic-messages', upstream, {
        model: 'a/m',
        max_tokens: 50,
        tools: [TOOL],
        messages: [
          { role: 'user', content: 'weather?' },
          {
            role: 'assistant',
            content: [{ type: 'tool_use', id: 'toolu_1', name: 'ToolSearch', input: { query: 'w' } }],
          },
          { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: [found] }] },
        ],
      })
      assert.equal(reply.status, 200, reply.text)
      assert.match(JSON.stringify(sent), /\[tool_reference: mcp__x__get_weather\]/)
    })

test('messages: a call made by code at Anthropic is an ordinary call elsewhere, so that its result has a call', async () => {
  const { reply, sent } = await ask('anthropic-messages', 'openai-chat', {
    model: 'a/m',
    max_tokens: 50,
    messages: [
      { role: 'user', content: 'hi' },
      {
        role: 'assistant',
        content: [
          {
            type: 'tool_use',
            id: 'toolu_1',
            name: 'f',
            input: { a: 1 },
            caller: { type: 'code_execution_20250825', tool_id: 'srvtoolu_1' },
          },
        ],
      },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: '7' }] },
    ],
  })
  assert.equal(reply.status, 200, reply.text)
  const [, call, result] = list(sent.messages).map((message) => object(message) ?? {})
  assert.equal(object(list(call?.tool_calls)[0])?.id, 'toolu_1')
  assert.deepEqual([result?.tool_call_id, result?.content], ['toolu_1', '7'])
})

test('messages: a file in a container is content that no other vendor can read, until the model has answered', async () => {
  const upload = {
    role: 'user',
    content: [
      { type: 'container_upload', file_id: 'file_1' },
      { type: 'text', text: 'sum?' },
    ],
  }
  const body = { model: 'a/m', max_tokens: 50, messages: [upload] }
  const asked = await ask('anthropic-messages', 'openai-chat', body)
  assert.equal(asked.reply.status, 400)
  assert.equal(asked.reply.json.error.type, 'invalid_request_error')
  const messages = [upload, { role: 'assistant', content: 'Seven.' }, { role: 'user', content: 'sure?' }]
  const later = await ask('anthropic-messages', 'openai-chat', { ...body, messages })
  assert.equal(later.reply.status, 200, later.reply.text)
  assert.equal(later.dropped, 'messages[0].content[0]')
})

// ── Responses: items of Codex ────────────────────────────────────────────────────────────────────────────────────────

const user = (text: string) => ({ type: 'message', role: 'user', content: [{ type: 'input_text', text }] })
const inputWith = (...items: readonly object[]) => ({
  model: 'a/m',
  store: false,
  input: [user('hi'), ...items, user('and?')],
})

const items: readonly (readonly [name: string, items: readonly object[], expected: RegExp | null, dropped: string])[] =
  [
    // github.com/openai/codex codex-rs/protocol/src/models.rs (001cb8e2): the output of its shell is a function's output.
    [
      'a call of the local shell',
      [
        {
          type: 'local_shell_call',
          call_id: 'call_1',
          status: 'completed',
          action: { type: 'exec', command: ['ls'], timeout_ms: null, working_directory: '/tmp', env: null, user: null },
        },
        { type: 'function_call_output', call_id: 'call_1', output: 'a.txt' },
      ],
      /local_shell.*ls.*a\.txt/s,
      '',
    ],
    [
      'a call of the shell with its own output',
      [
        { type: 'shell_call', id: 'sh_1', call_id: 'call_1', status: 'completed', action: { commands: ['ls'] } },
        {
          type: 'shell_call_output',
          call_id: 'call_1',
          output: [{ stdout: 'a.txt', stderr: '', outcome: { type: 'exit', exit_code: 0 } }],
        },
      ],
      /shell.*ls.*a\.txt/s,
      '',
    ],
    [
      'a patch',
      [
        {
          type: 'apply_patch_call',
          call_id: 'call_1',
          status: 'completed',
          operation: { type: 'create_file', path: 'a.txt', diff: '+hi' },
        },
        { type: 'apply_patch_call_output', call_id: 'call_1', status: 'completed', output: 'Created a.txt' },
      ],
      /apply_patch.*Created a\.txt/s,
      '',
    ],
    [
      'a snapshot of the working tree',
      [{ type: 'ghost_snapshot', ghost_commit: { id: 'a1', parent: null, preexisting_untracked_files: ['b.txt'] } }],
      null,
      'input[1]',
    ],
    ['an empty compaction marker', [{ type: 'context_compaction' }], null, 'input[1]'],
    [
      'a call of a hosted MCP tool',
      [{ type: 'mcp_call', id: 'mcp_1', name: 'echo', server_label: 'x', arguments: '{}', output: 'MOO', error: null }],
      /\[mcp_call: .*MOO.*\]/,
      'input[1]',
    ],
    [
      'a generated image',
      [
        {
          type: 'image_generation_call',
          id: 'ig_1',
          status: 'completed',
          revised_prompt: 'A red boat',
          result: 'iVBORw0KGgo'.padEnd(600, 'A'),
        },
      ],
      /\[image_generation_call: A red boat\]/,
      'input[1]',
    ],
    [
      'the tools of an MCP server',
      [{ type: 'mcp_list_tools', id: 'mcpl_1', server_label: 'x', tools: [{ name: 'echo', input_schema: {} }] }],
      null,
      'input[1]',
    ],
  ]
for (const upstream of OTHERS)
  if (upstream !== 'openai-responses')
    for (const [name, some, expected, lost] of items)
      test(`responses to ${upstream}: the history has ${name}`, async () => {
        const { reply, sent, dropped } = await ask('openai-responses', upstream, inputWith(...some))
        assert.equal(reply.status, 200, reply.text)
        if (expected) assert.match(JSON.stringify(sent), expected)
        // Models of Bedrock that are not known to cache or to think report nothing else either.
        assert.equal(dropped, lost)
      })

test('responses to responses: the history passes unchanged', async () => {
  for (const [, some] of items) {
    const body = inputWith(...some)
    const { sent, dropped } = await ask('openai-responses', 'openai-responses', body)
    assert.deepEqual([sent.input, dropped], [body.input, ''])
  }
})

for (const item of [
  { type: 'compaction', encrypted_content: 'gAAAA' },
  { type: 'compaction_summary', encrypted_content: 'gAAAA' },
  { type: 'context_compaction', encrypted_content: 'gAAAA' },
  { type: 'compaction_trigger' },
])
  test(`responses: ${item.type} needs the vendor that can read it`, async () => {
    const { reply } = await ask('openai-responses', 'openai-chat', inputWith(item))
    assert.equal(reply.status, 400)
    assert.equal(reply.json.error.param, 'input[1]')
  })

// ── Codex: tools in an item of the input ─────────────────────────────────────────────────────────────────────────────

const toolsItem = (...tools: readonly object[]) => ({ type: 'additional_tools', role: 'developer', id: 'at_1', tools })
const wait = { type: 'function', name: 'wait', strict: false, parameters: { type: 'object', properties: {} } }
const namespace = (name: string, ...tools: readonly object[]) => ({ type: 'namespace', name, description: '', tools })

const namesSent = (upstream: string, sent: JsonObject): readonly (Json | undefined)[] =>
  list(sent.tools ?? object(sent.toolConfig)?.tools).flatMap((tool) => {
    const entry = object(tool) ?? {}
    const declared = list(entry.functionDeclarations).map((inner) => object(inner)?.name)
    if (upstream === 'gemini') return declared
    return [entry.name ?? object(entry.function)?.name ?? object(entry.toolSpec)?.name]
  })

// github.com/10/chatgpt-codex-proxy/issues/9
for (const upstream of OTHERS)
  if (upstream !== 'openai-responses')
    test(`additional tools to ${upstream}: they are tools of the request`, async () => {
      const input = [toolsItem(namespace('functions', wait), { ...wait, name: 'plain' }), user('hi')]
      const { reply, sent, dropped } = await ask('openai-responses', upstream, { model: 'a/m', input })
      assert.equal(reply.status, 200, reply.text)
      assert.deepEqual(namesSent(upstream, sent), ['functions__wait', 'plain'])
      assert.equal(dropped, '')
    })

const calling = (name: string) => ({
  ...ANSWERS['openai-chat'],
  choices: [
    {
      index: 0,
      finish_reason: 'tool_calls',
      message: {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'call_1', type: 'function', function: { name, arguments: '{}' } }],
      },
    },
  ],
})

test('additional tools: a later turn carries the item again, and a choice names a member with or without its namespace', async () => {
  const item = toolsItem(namespace('collaboration', { ...wait, name: 'send' }), namespace('functions', wait))
  for (const choice of [
    { type: 'function', name: 'send' },
    { type: 'function', name: 'send', namespace: 'collaboration' },
  ]) {
    const input = [
      item,
      user('hi'),
      { type: 'function_call', call_id: 'call_0', namespace: 'functions', name: 'wait', arguments: '{}' },
      { type: 'function_call_output', call_id: 'call_0', output: 'waited' },
      item,
      user('go on'),
    ]
    const { reply, sent } = await ask(
      'openai-responses',
      'openai-chat',
      { model: 'a/m', input, tool_choice: choice },
      calling('collaboration__send'),
    )
    assert.deepEqual(namesSent('openai-chat', sent), ['collaboration__send', 'functions__wait'])
    assert.deepEqual(sent.tool_choice, { type: 'function', function: { name: 'collaboration__send' } })
    assert.match(JSON.stringify(sent.messages), /functions__wait/)
    const { name, namespace: of } = reply.json.output[0]
    assert.deepEqual([name, of], ['send', 'collaboration'])
  }
})

test('additional tools: an item without tools is left out, and in front of a responses provider it passes unchanged', async () => {
  const input = [toolsItem(), user('hi')]
  const chat = await ask('openai-responses', 'openai-chat', { model: 'a/m', input })
  assert.equal(chat.reply.status, 200, chat.reply.text)
  assert.deepEqual([chat.sent.tools, chat.dropped], [undefined, ''])
  const same = await ask('openai-responses', 'openai-responses', { model: 'a/m', input })
  assert.deepEqual(same.sent.input, input)
})

test('additional tools: streamed calls have name and namespace, also of a free-form tool', async () => {
  const exec = { type: 'custom', name: 'exec', format: { type: 'grammar', syntax: 'lark', definition: 'start: /.+/' } }
  const call = { index: 0, id: 'call_1', type: 'function', function: { name: 'functions__exec', arguments: '' } }
  const pieces = ['{"in', 'put":"ls"}'].map((text) =>
    chatAnswer.chunk({ tool_calls: [{ index: 0, function: { arguments: text } }] }),
  )
  const stream = [
    chatAnswer.role(),
    chatAnswer.chunk({ tool_calls: [call] }),
    ...pieces,
    chatAnswer.chunk({}, 'tool_calls'),
    chatAnswer.done,
  ]
  const { send, world } = gatewayHarness([instance('a')], (asked) => respondWith.stream(asked, stream.join('')))
  const input = [toolsItem(namespace('functions', exec)), user('hi')]
  const reply = send({ model: 'a/m', stream: true, input }, 'openai-responses')
  await world.advance(5_000)
  const [, item = ''] = /event: response\.output_item\.done\ndata: (.*)/.exec(reply.text) ?? []
  const { type, name, namespace: of, input: text } = object(JSON.parse(item).item) ?? {}
  assert.deepEqual([type, name, of, text], ['custom_tool_call', 'exec', 'functions', 'ls'])
})

// ── Calls without results, results without calls ────────────────────────────────────────────────────────────────────

const UNPAIRED = {
  model: 'a/m',
  input: [
    { role: 'user', content: 'hi' },
    { type: 'function_call_output', call_id: 'call_9', output: 'from another task' },
    { type: 'function_call', call_id: 'call_1', name: 'f', arguments: '{}' },
    { type: 'function_call', call_id: 'call_2', name: 'f', arguments: '{}' },
    { type: 'function_call_output', call_id: 'call_2', output: 'r2' },
    { role: 'user', content: 'and?' },
  ],
  tools: [{ type: 'function', name: 'f', parameters: { type: 'object', properties: {} } }],
}

test('a history with unpaired calls and results: messages', async () => {
  const { reply, sent, dropped } = await ask('openai-responses', 'anthropic-messages', UNPAIRED)
  assert.equal(reply.status, 200, reply.text)
  assert.equal(dropped, 'input[1], input[2]')
  const [first, second, third] = list(sent.messages).map((message) => list(object(message)?.content))
  assert.match(JSON.stringify(first), /not part of this conversation.*from another task/)
  assert.deepEqual(
    second?.map((block) => object(block)?.id),
    ['call_1', 'call_2'],
  )
  assert.deepEqual(
    third?.map((block) => object(block)?.tool_use_id),
    ['call_2', 'call_1', undefined],
  )
})

test('a history with unpaired calls and results: chat completions', async () => {
  const { sent } = await ask('openai-responses', 'openai-chat', UNPAIRED)
  assert.deepEqual(
    list(sent.messages).map((message) => [object(message)?.role, object(message)?.tool_call_id]),
    [
      ['user', undefined],
      ['user', undefined],
      ['assistant', undefined],
      ['tool', 'call_2'],
      ['tool', 'call_1'],
      ['user', undefined],
    ],
  )
})

test('a history with unpaired calls and results passes unchanged in its own style', async () => {
  const { sent } = await ask('openai-responses', 'openai-responses', UNPAIRED)
  assert.deepEqual(sent.input, UNPAIRED.input)
})
