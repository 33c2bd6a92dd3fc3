/** Hosted tools: targets that support the tool come first; if none is left, the request is sent without it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chatAnswer, gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import type { ScriptedCall } from '../../../test/support/still-world.ts'
import type { UpstreamProtocolName } from '../../core/chat.ts'

const FUNCTION = { type: 'function', name: 'f', strict: false, parameters: { type: 'object', properties: {} } }
const SEARCH = { type: 'web_search', external_web_access: false }
const SHELL = { type: 'local_shell' }

const response = JSON.stringify({
  id: 'resp_1',
  object: 'response',
  status: 'completed',
  model: 'm',
  output: [{ type: 'message', id: 'msg_1', role: 'assistant', content: [{ type: 'output_text', text: 'r says' }] }],
})
const message = JSON.stringify({
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'm',
  content: [{ type: 'text', text: 'm says' }],
  stop_reason: 'end_turn',
  usage: { input_tokens: 1, output_tokens: 1 },
})
const generated = JSON.stringify({
  candidates: [{ content: { role: 'model', parts: [{ text: 'g says' }] }, finishReason: 'STOP' }],
})
const SAYS: { readonly [host: string]: string } = {
  c: chatAnswer.whole('c says'),
  r: response,
  m: message,
  g: generated,
}
const SPEAKS: { readonly [host: string]: UpstreamProtocolName } = {
  c: 'openai-chat',
  r: 'openai-responses',
  m: 'anthropic-messages',
  g: 'gemini',
}

const hostOf = ({ url }: ScriptedCall) => new URL(url).host.split('.')[0] ?? ''
const speaker = (id: string) => instance(id, ['k1'], { speaks: [{ protocol: SPEAKS[id] ?? 'openai-chat' }] })

/** Sends the request with some upstreams down. Returns the target that answered, the dropped paths and its request. */
const ask = async (upstreams: string, down: string, body: object) => {
  const { send, world } = gatewayHarness([...upstreams].map(speaker), (asked) => {
    const host = hostOf(asked)
    if (down.includes(host)) respondWith.error(asked, 500)
    else respondWith.json(asked, 200, SAYS[host] ?? '')
  })
  const reply = send({ model: 'x', input: 'hi', ...body }, 'openai-responses')
  await world.advance(5_000)
  return {
    reply,
    by: reply.headers['x-headgate-provider'],
    attempts: reply.headers['x-headgate-attempts'],
    dropped: reply.headers['x-headgate-dropped'] ?? '',
    sent: world.calls.at(-1)?.body ?? '',
  }
}

const both = { tools: [FUNCTION, SEARCH] }
const cases: readonly (readonly [
  name: string,
  upstreams: string,
  down: string,
  body: object,
  by: string,
  attempts: string,
  dropped: string,
])[] = [
  ['a target that supports it is used, whatever its order', 'cmr', '', both, 'r', '1', ''],
  ['no target supports it: chat completions', 'c', '', { ...both, tool_choice: 'auto' }, 'c', '1', 'tools[1]'],
  ['no target supports it: messages', 'm', '', both, 'm', '1', 'tools[1]'],
  ['no target supports it: gemini', 'g', '', both, 'g', '1', 'tools[1]'],
  ['the target that supports it is down: dropped', 'cr', 'r', both, 'c', '2', 'tools[1]'],
  [
    'the trace of its use in an earlier turn goes with it',
    'c',
    '',
    {
      ...both,
      input: [
        { role: 'user', content: 'hi' },
        { type: 'web_search_call', id: 'ws_1', status: 'completed', action: { type: 'search', query: 'q' } },
        { type: 'message', role: 'assistant', content: 'found' },
        { role: 'user', content: 'and?' },
      ],
    },
    'c',
    '1',
    'tools[1], input[1]',
  ],
]
for (const [name, upstreams, down, body, by, attempts, dropped] of cases)
  test(`a hosted tool: ${name}`, async () => {
    const answer = await ask(upstreams, down, body)
    assert.equal(answer.reply.status, 200, answer.reply.text)
    assert.deepEqual([answer.by, answer.attempts], [by, attempts])
    assert.deepEqual(answer.dropped.split(', ').sort(), dropped.split(', ').sort())
    assert.equal(answer.sent.includes('web_search'), by === 'r')
    assert.match(answer.sent, /"f"/)
  })

test('a hosted tool: if no other tool is left, the tool choice is dropped too', async () => {
  const body = { tools: [SEARCH], tool_choice: 'auto', parallel_tool_calls: true }
  for (const upstream of ['c', 'm', 'g']) {
    const { reply, sent } = await ask(upstream, '', body)
    assert.equal(reply.status, 200, reply.text)
    assert.doesNotMatch(sent, /tool/i)
  }
})

const refused: readonly (readonly [string, object, string])[] = [
  ['that must be used', { ...both, tool_choice: { type: 'web_search' } }, 'tool_choice'],
  ['one of those that must be used', { ...both, tool_choice: 'required' }, 'tools[1]'],
  ['that the client runs', { tools: [SHELL, SEARCH] }, 'tools[0]'],
]
for (const [name, body, param] of refused)
  test(`a hosted tool ${name}: only targets of its format are tried`, async () => {
    const { reply, sent } = await ask('cmg', '', body)
    assert.equal(reply.status, 400)
    assert.equal(reply.json.error.code, 'unsupported_parameter')
    assert.equal(reply.json.error.param, param)
    assert.equal(sent, '')
  })

// ── The other API styles ──────────────────────────────────────────────────────────────────────────────────

const CHAT = { messages: [{ role: 'user', content: 'hi' }] }
const MESSAGES = { ...CHAT, max_tokens: 10 }
const THEIRS = { type: 'web_search_20250305', name: 'web_search' }
const styles: readonly (readonly [
  string,
  Parameters<ReturnType<typeof gatewayHarness>['send']>[1],
  object,
  string,
  object,
  object,
])[] = [
  ['chat, a tool', 'openai-chat', CHAT, 'tools[0]', { tools: [{ type: 'web_search' }] }, { tool_choice: 'required' }],
  [
    'chat, an option',
    'openai-chat',
    CHAT,
    'web_search_options',
    { web_search_options: {} },
    { tools: [{ type: 'shell' }] },
  ],
  [
    'messages, a tool',
    'anthropic-messages',
    MESSAGES,
    'tools[0]',
    { tools: [THEIRS] },
    { tool_choice: { type: 'any' } },
  ],
  [
    'messages, servers',
    'anthropic-messages',
    MESSAGES,
    'mcp_servers',
    { mcp_servers: [{ type: 'url', name: 'a', url: 'https://a.example' }] },
    { tool_choice: { type: 'any' } },
  ],
]
const asking = async (style: (typeof styles)[number][1], body: object) => {
  const { send, world } = gatewayHarness([speaker('g')], (asked) => respondWith.json(asked, 200, SAYS.g ?? ''))
  const reply = send({ model: 'x', ...body }, style)
  await world.advance(5_000)
  return reply
}
for (const [name, style, base, path, wish, must] of styles) {
  test(`a hosted tool of ${name}: dropped and reported if no target supports it`, async () => {
    const reply = await asking(style, { ...base, ...wish })
    assert.equal(reply.status, 200, reply.text)
    assert.equal(reply.headers['x-headgate-dropped'], path)
  })
  test(`a hosted tool of ${name}: never dropped if a tool is required`, async () => {
    const reply = await asking(style, { ...base, ...wish, ...must })
    assert.equal(reply.status, 400)
  })
}

test('a hosted tool of messages: its search results are dropped with it, client tools are kept', async () => {
  const trace = [
    { role: 'user', content: 'hi' },
    {
      role: 'assistant',
      content: [
        { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'q' } },
        { type: 'web_search_tool_result', tool_use_id: 'srvtoolu_1', content: [] },
        { type: 'text', text: 'found' },
      ],
    },
    { role: 'user', content: 'and?' },
  ]
  const reply = await asking('anthropic-messages', { ...MESSAGES, messages: trace, tools: [THEIRS] })
  assert.equal(reply.status, 200, reply.text)
  assert.equal(reply.headers['x-headgate-dropped'], 'messages[1].content[1], messages[1].content[0], tools[0]')
  const bash = await asking('anthropic-messages', { ...MESSAGES, tools: [{ type: 'bash_20250124', name: 'bash' }] })
  assert.equal(bash.status, 400)
})
