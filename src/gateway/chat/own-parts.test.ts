/** Servers of the same format that know the published items only: their refusals in their own words. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import type { ClientProtocolName } from '../../core/chat.ts'

const user = (content: string) => ({ role: 'user', content })
const RESPONSE = {
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
}
const MESSAGE = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'm',
  content: [{ type: 'text', text: 'ok' }],
  stop_reason: 'end_turn',
  usage: { input_tokens: 1, output_tokens: 1 },
}
const wait = { type: 'function', name: 'wait', strict: false, parameters: { type: 'object', properties: {} } }

const SEARCH = { execution: 'client', call_id: 'call_1' }

type Case = {
  readonly name: string
  readonly style: ClientProtocolName
  readonly body: object
  /** The type by which the server recognises the item. */
  readonly type: string
  readonly message: string
  readonly param?: string
  readonly kept?: RegExp
}
const cases: readonly Case[] = [
  {
    // openai/codex#24612
    name: 'a web search, at Ollama',
    style: 'openai-responses',
    body: {
      input: [
        user('news?'),
        { type: 'web_search_call', id: 'ws_1', status: 'completed', action: { type: 'search', query: 'news' } },
        { role: 'assistant', content: 'None.' },
        user('and?'),
      ],
    },
    type: 'web_search_call',
    message: 'input[1]: unknown input item type: "web_search_call"',
    kept: /None\./,
  },
  {
    // mxyhi/token_proxy#307
    name: 'additional tools of Codex',
    style: 'openai-responses',
    body: { input: [{ type: 'additional_tools', role: 'developer', tools: [wait] }, user('hi')] },
    type: 'additional_tools',
    message: "Unsupported Responses API input item type: 'additional_tools' None",
    kept: /"tools":\[\{"type":"function","name":"wait"/,
  },
  {
    // The words of openai/codex#45401, for a patch of Codex.
    name: 'a patch of Codex',
    style: 'openai-responses',
    body: {
      input: [
        user('hi'),
        {
          type: 'apply_patch_call',
          call_id: 'call_1',
          status: 'completed',
          operation: { type: 'delete_file', path: 'a' },
        },
        { type: 'apply_patch_call_output', call_id: 'call_1', status: 'completed', output: 'Deleted a' },
        user('and?'),
      ],
    },
    type: 'apply_patch_call',
    message: 'invalid_request_error: input.1: item type "apply_patch_call" is not supported',
    kept: /"type":"function_call_output","call_id":"call_1","output":"Deleted a"/,
  },
  {
    // router-for-me/CLIProxyAPI#3414
    name: 'an empty marker of Codex, where others are taken',
    style: 'openai-responses',
    body: { input: [user('hi'), { type: 'context_compaction' }, user('and?')] },
    type: 'context_compaction',
    message:
      "Invalid value: 'context_compaction'. Supported values are: 'apply_patch_call', 'compaction', and 'message'.",
    param: 'input[1]',
  },
  {
    // CommandCodeAI/command-code#893
    name: 'a tool search of Codex, named by the list only',
    style: 'openai-responses',
    body: {
      input: [
        user('hi'),
        { type: 'tool_search_call', ...SEARCH, arguments: { query: 'wait' } },
        { type: 'tool_search_output', ...SEARCH, tools: [wait] },
      ],
    },
    type: 'tool_search_call',
    message: 'Invalid input',
    param: 'input',
    kept: /"type":"function_call","call_id":"call_1","name":"tool_search"/,
  },
  {
    // caozhiyuan/copilot-api#162: a messages endpoint without tool search.
    name: 'tool references',
    style: 'anthropic-messages',
    body: {
      max_tokens: 9,
      messages: [
        user('hi'),
        { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'ToolSearch', input: {} }] },
        {
          role: 'user',
          content: [
            {
              type: 'tool_result',
              tool_use_id: 'toolu_1',
              content: [{ type: 'tool_reference', tool_name: 'get_weather' }],
            },
          ],
        },
      ],
    },
    type: 'tool_reference',
    message:
      "messages.2.content.0.tool_result.content.0: Input tag 'tool_reference' found using 'type' does not match any of the expected tags",
    kept: /\[tool_reference: get_weather\]/,
  },
]

for (const { name, style, body, type, message, param = null, kept } of cases)
  test(`own parts, ${name}: refused once, then sent in another form for ten minutes`, async () => {
    const answer = style === 'openai-responses' ? RESPONSE : MESSAGE
    const { send, world } = gatewayHarness(
      [instance('a', ['k1'], { speaks: [{ protocol: style }] } as object)],
      (asked) =>
        (asked.body ?? '').includes(`"type":"${type}"`)
          ? respondWith.error(asked, 400, { message, type: 'invalid_request_error', param })
          : respondWith.json(asked, 200, JSON.stringify(answer)),
    )
    for (const calls of [2, 3]) {
      const reply = send({ model: 'a/m', ...body }, style)
      await world.advance(5_000)
      assert.equal(reply.status, 200, reply.text)
      assert.equal(world.calls.length, calls)
      if (kept) assert.match(world.calls.at(-1)?.body ?? '', kept)
    }
    assert.ok(world.calls[0]?.body?.includes(type))
  })

test('own parts: a compaction that only its vendor can read is not left out', async () => {
  const { send, world } = gatewayHarness(
    [instance('a', ['k1'], { speaks: [{ protocol: 'openai-responses' }] })],
    (asked) => respondWith.error(asked, 400, { message: 'input.0: item type "compaction" is not supported' }),
  )
  const reply = send(
    { model: 'a/m', input: [{ type: 'compaction', encrypted_content: 'gAAAA' }, user('hi')] },
    'openai-responses',
  )
  await world.advance(5_000)
  assert.equal(reply.status, 400)
  assert.equal(world.calls.length, 1)
})
