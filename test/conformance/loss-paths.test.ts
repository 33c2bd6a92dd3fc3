/**
 * Every path that is reported as lost exists in the client's body, exactly as the client wrote it. Each member of each
 * client style goes to every upstream format and through every provider's quirks, alone and with an unknown member added
 * to each of its objects.
 */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { loadProviders } from '../../src/config/catalogue/load-providers.ts'
import { isList, isObject, type Json, type JsonObject } from '../../src/core/json.ts'
import type { Instance, Provider } from '../../src/core/provider.ts'
import { type InboundRequest, prepareRequest } from '../../src/gateway/upstream/outbound-request.ts'
import { parseRequest } from '../../src/gateway/upstream/parse-request.ts'
import { clientProtocolByStyle, upstreamProtocols } from '../../src/protocols/index.ts'
import { defaultSettings } from '../support/settings.ts'
import { pathExists } from './request-members.ts'

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const PDF = 'JVBERi0xLjQKJcOkw7zDtsOfCg=='
const OPEN = { type: 'object', properties: { n: { type: 'integer', minimum: 1, maximum: 9 } }, required: ['n'] }
const SCHEMA = { ...OPEN, additionalProperties: false }
const FREE = { type: 'object', additionalProperties: { type: 'string' } }
const GRAMMAR = { syntax: 'regex', definition: 'a+' }
const hello = { role: 'user', content: 'hello' }
const user = (...content: readonly JsonObject[]) => [{ role: 'user', content }]

/** `all`: members of one body each; `base`: members of every body. */
type Cases = { readonly base: JsonObject; readonly all: readonly JsonObject[] }

const chatTool = (more: JsonObject = {}) => ({ type: 'function', function: { name: 'f', parameters: SCHEMA, ...more } })
const CHAT: Cases = {
  base: { model: 'm', messages: [hello] },
  all: [
    { max_completion_tokens: 5 },
    { max_tokens: 9_000, temperature: 1.7, top_p: 0.3, top_k: 5, stop: ['a', 'b', 'c', 'd'], seed: 1 },
    { presence_penalty: 0.5, frequency_penalty: 0.5, logit_bias: { 1: 2 }, logprobs: true, top_logprobs: 3 },
    { n: 2 },
    { verbosity: 'low', user: 'a@b.example', safety_identifier: 's', prompt_cache_key: 'k', service_tier: 'flex' },
    { metadata: { a: 'b' }, store: true, stream: true, stream_options: { include_usage: true } },
    { reasoning_effort: 'xhigh' },
    { reasoning: { effort: 'odd', max_tokens: 100, exclude: true } },
    { thinking: { type: 'enabled', budget_tokens: 2_000 } },
    { thinking: { type: 'disabled' } },
    { response_format: { type: 'json_object' } },
    { response_format: { type: 'json_schema', json_schema: { name: 'a', schema: SCHEMA, strict: true } } },
    { response_format: { type: 'json_schema', json_schema: { name: 'a', schema: FREE, description: 'd' } } },
    { tools: [chatTool({ strict: true })], tool_choice: 'required', parallel_tool_calls: false },
    { tools: [chatTool(), chatTool({ name: 'g' })], tool_choice: { type: 'function', function: { name: 'g' } } },
    { tools: [{ type: 'custom', custom: { name: 'c', format: { type: 'grammar', grammar: GRAMMAR } } }] },
    { tools: [{ type: 'odd_tool', odd: {} }, { type: 'web_search' }] },
    { tools: [{ googleSearch: {} }, chatTool()].slice(1), tool_choice: 'none' },
    { functions: [{ name: 'f', parameters: SCHEMA, strict: true }], function_call: 'auto' },
    { functions: [{ name: 'f' }], function_call: { name: 'f' } },
    { web_search_options: {} },
    { modalities: ['text', 'audio'], audio: { voice: 'alloy', format: 'wav' } },
    { prediction: { type: 'content', content: 'x' } },
    {
      messages: user(
        { type: 'image_url', image_url: { url: `data:image/png;base64,${PNG}`, detail: 'original' } },
        { type: 'image_url', image_url: { url: 'http://h.example/a.png', detail: 'low' } },
        { type: 'text', text: 'x', cache_control: { type: 'ephemeral', ttl: '1h' } },
      ),
    },
    {
      messages: user({ type: 'file', file: { filename: 'a_ä.pdf', file_data: `data:application/pdf;base64,${PDF}` } }),
    },
    { messages: user({ type: 'file', file: { filename: 'a.png', file_data: `data:image/png;base64,${PNG}` } }) },
    { messages: user({ type: 'file', file: { filename: 'a.txt', file_data: 'data:text/plain;base64,aGk=' } }) },
    { messages: user({ type: 'file', file: { file_id: 'file-1', filename: 'a' } }) },
    { messages: user({ type: 'input_audio', input_audio: { data: 'UklGRg==', format: 'odd' } }) },
    { messages: user({ type: 'document_url', document_url: 'https://h.example/a.pdf', odd: 1 }) },
    { messages: [{ role: 'developer', content: 'x', name: 'n' }] },
    { messages: [{ role: 'assistant', content: 'x', name: 'n' }, { role: 'system', content: 'mid' }, hello] },
    {
      messages: [
        hello,
        {
          role: 'assistant',
          content: 'x',
          refusal: 'no',
          reasoning_content: 'hm',
          audio: { id: 'audio_1' },
          tool_calls: [
            {
              id: 'call_1',
              type: 'function',
              function: { name: 'f', arguments: '{}' },
              extra_content: { google: { thought_signature: 'R0VN' } },
            },
          ],
        },
        { role: 'tool', tool_call_id: 'call_1', content: [{ type: 'text', text: 'r' }] },
      ],
    },
    {
      messages: [
        hello,
        {
          role: 'assistant',
          content: 'x',
          reasoning_details: [
            { type: 'reasoning.text', text: 'hm', signature: 'U0lH', format: 'anthropic-claude-v1', index: 0 },
            { type: 'reasoning.encrypted', data: 'U0VB', id: 'rs_1', format: 'openai-responses-v1', index: 1 },
          ],
        },
        hello,
      ],
    },
  ],
}

const responsesTool = (more: JsonObject = {}) => ({ type: 'function', name: 'f', parameters: SCHEMA, ...more })
const RESPONSES: Cases = {
  base: { model: 'm', input: 'hello' },
  all: [
    { max_output_tokens: 5, max_tool_calls: 2, instructions: 'x' },
    { temperature: 1.7, top_p: 0.3, top_logprobs: 3, presence_penalty: 1, frequency_penalty: 1 },
    { include: ['reasoning.encrypted_content', 'message.output_text.logprobs', 'web_search_call.results'] },
    { reasoning: { effort: 'xhigh', summary: 'detailed', odd: 1 } },
    { reasoning: { effort: 'odd', generate_summary: 'auto' } },
    { text: { verbosity: 'low', format: { type: 'json_object' } } },
    { text: { format: { type: 'json_schema', name: 'a', schema: SCHEMA, strict: true } } },
    { text: { format: { type: 'json_schema', name: 'a', schema: FREE, description: 'd' } } },
    { tools: [responsesTool()], tool_choice: 'required', parallel_tool_calls: false },
    { tools: [responsesTool({ strict: true, defer_loading: true })], tool_choice: { type: 'function', name: 'f' } },
    { tools: [{ type: 'custom', name: 'c', format: { type: 'grammar', ...GRAMMAR } }] },
    { tools: [{ type: 'web_search', filters: {} }] },
    { tools: [{ type: 'web_search' }], tool_choice: { type: 'web_search' } },
    { tools: [{ type: 'namespace', name: 'n', description: 'd', tools: [responsesTool()] }] },
    { metadata: { a: 'b' }, store: true, user: 'a@b.example', safety_identifier: 's', prompt_cache_key: 'k' },
    { service_tier: 'flex', truncation: 'odd', stream: true, stream_options: { include_obfuscation: true } },
    { background: true },
    { prompt: { id: 'pmpt_1' }, input: [] },
    { conversation: 'conv_1' },
    {
      input: user(
        { type: 'input_image', image_url: `data:image/png;base64,${PNG}`, detail: 'original' },
        { type: 'input_image', file_id: 'file-1', detail: 'low' },
        { type: 'input_text', text: 'x', prompt_cache_breakpoint: {} },
      ),
    },
    { input: user({ type: 'input_file', filename: 'a_ä.pdf', file_data: `data:application/pdf;base64,${PDF}` }) },
    { input: user({ type: 'input_file', filename: 'a.txt', file_data: 'data:text/plain;base64,aGk=' }) },
    { input: user({ type: 'input_file', file_url: 'https://h.example/a.pdf', filename: 'a' }) },
    { input: user({ type: 'input_audio', input_audio: { data: 'UklGRg==', format: 'odd' } }) },
    { input: [{ role: 'developer', content: 'x' }] },
    { input: [{ role: 'assistant', content: 'x' }, { role: 'system', content: 'mid' }, hello] },
    {
      input: [
        hello,
        { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 's' }], encrypted_content: 'U0VB' },
        { type: 'function_call', call_id: 'call_1', name: 'f', arguments: '{}' },
        {
          type: 'function_call_output',
          call_id: 'call_1',
          output: [{ type: 'input_image', image_url: `data:image/png;base64,${PNG}`, detail: 'low' }],
        },
        { type: 'web_search_call', id: 'ws_1', status: 'completed' },
        { type: 'item_reference', id: 'msg_1' },
        {
          type: 'message',
          role: 'assistant',
          phase: 'commentary',
          content: [
            { type: 'output_text', text: 'x', annotations: [{ type: 'url_citation' }] },
            { type: 'refusal', refusal: 'no' },
          ],
        },
      ],
    },
  ],
}

const messagesTool = (more: JsonObject = {}) => ({ name: 'f', input_schema: SCHEMA, ...more })
const MESSAGES: Cases = {
  base: { model: 'm', max_tokens: 100, messages: [hello] },
  all: [
    { temperature: 1, top_p: 0.3, top_k: 5, stop_sequences: ['a', 'b'] },
    { thinking: { type: 'enabled', budget_tokens: 2_000, display: 'summarized' }, max_tokens: 9_000 },
    { thinking: { type: 'adaptive', display: 'omitted' }, output_config: { effort: 'max' } },
    { thinking: { type: 'disabled' } },
    { output_config: { format: { type: 'json_schema', schema: SCHEMA }, task_budget: { type: 'tokens', total: 1 } } },
    { output_format: { type: 'json_schema', schema: FREE } },
    { tools: [messagesTool({ strict: true })], tool_choice: { type: 'any', disable_parallel_tool_use: true } },
    { tools: [messagesTool({ cache_control: { type: 'ephemeral' }, allowed_callers: ['x'] })] },
    { tools: [messagesTool(), messagesTool({ name: 'g' })], tool_choice: { type: 'tool', name: 'g' } },
    { tools: [{ type: 'web_search_20250305', name: 'web_search', max_uses: 2 }] },
    { tools: [{ type: 'bash_20250124', name: 'bash' }] },
    { metadata: { user_id: 'a@b.example', odd: 1 }, service_tier: 'standard_only', stream: true },
    { system: [{ type: 'text', text: 'x', cache_control: { type: 'ephemeral', ttl: '1h' } }] },
    { cache_control: { type: 'ephemeral' }, container: 'c', mcp_servers: [{ type: 'url', url: 'https://h.example' }] },
    { context_management: { edits: [] }, inference_geo: 'us', speed: 'fast' },
    {
      messages: user(
        { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } },
        { type: 'image', source: { type: 'url', url: 'http://h.example/a.png' } },
        { type: 'text', text: 'x', citations: [{ type: 'char_location' }] },
      ),
    },
    {
      messages: user({
        type: 'document',
        title: 'a_ä',
        context: 'c',
        citations: { enabled: true },
        source: { type: 'base64', media_type: 'application/pdf', data: PDF },
      }),
    },
    {
      messages: user({ type: 'document', title: 't', source: { type: 'text', media_type: 'text/plain', data: 'hi' } }),
    },
    { messages: user({ type: 'document', title: 't', source: { type: 'file', file_id: 'file-1' } }) },
    { messages: [{ role: 'assistant', content: 'x' }, hello] },
    {
      messages: [
        hello,
        {
          role: 'assistant',
          content: [
            { type: 'thinking', thinking: 'hm', signature: 'U0lH' },
            { type: 'redacted_thinking', data: 'U0VB' },
            { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: {} },
            { type: 'tool_use', id: 'toolu_1', name: 'f', input: {}, cache_control: { type: 'ephemeral' } },
          ],
        },
        {
          role: 'user',
          content: [
            { type: 'tool_result', tool_use_id: 'toolu_1', content: 'r', is_error: true, cache_control: { type: 'x' } },
          ],
        },
      ],
    },
  ],
}

const COMPLETIONS: Cases = {
  base: { model: 'm', prompt: 'hello' },
  all: [
    { max_tokens: 5, temperature: 1.7, top_p: 0.3, stop: 'a', seed: 1, logprobs: 2, user: 'u', best_of: 2 },
    { presence_penalty: 0.5, frequency_penalty: 0.5, logit_bias: { 1: 2 }, echo: true, n: 1, stream: true },
  ],
}

const STYLES: readonly (readonly [style: string, cases: Cases])[] = [
  ['chat', CHAT],
  ['responses', RESPONSES],
  ['messages', MESSAGES],
  ['completions', COMPLETIONS],
]

/** Values of the client that are carried unchanged, so their members are not checked. */
const WHOLE = new Set(['parameters', 'input_schema', 'schema', 'metadata', 'logit_bias', 'input', 'format'])

/** The body with an unknown member in every object. */
const salted = (value: Json, name = ''): Json => {
  if (isList(value)) return value.map((one) => salted(one))
  if (!isObject(value) || WHOLE.has(name)) return value
  const inner = Object.entries(value).map(([key, one]) => [key, isList(one) || isObject(one) ? salted(one, key) : one])
  return { ...Object.fromEntries(inner), unknown_member: 'x' }
}

const bodiesOf = ({ base, all }: Cases): JsonObject[] =>
  all.flatMap((one) => {
    const body = { ...base, ...one }
    return [body, salted(body) as JsonObject]
  })

const TARGETS = [
  { model: 'some-model', outputLimit: 8_192 },
  { model: 'gpt-5', outputLimit: 8_192, supportsCustomTools: true, acceptsReasoning: true },
  { model: 'claude-sonnet-4-5', outputLimit: 64_000 },
  { model: 'us.anthropic.claude-3-5-haiku-20241022-v1:0', outputLimit: 8_192 },
  { model: 'gemini-2.5-flash', outputLimit: 64_000 },
  { model: 'gemini-3-pro-preview', outputLimit: 64_000 },
  { model: 'magistral-medium-latest' },
  { model: 'command-a-03-2025' },
] as const

describe('every path reported as lost exists in the body', () => {
  for (const [style, cases] of STYLES) {
    const from = clientProtocolByStyle.get(style)
    assert.ok(from)
    for (const to of Object.values(upstreamProtocols))
      test(`${style} to ${to.style}`, () => {
        const wrong = new Set<string>()
        for (const body of bodiesOf(cases)) {
          const request = from.decodeRequest(body)
          assert.ok(request.ok, request.ok ? '' : `${JSON.stringify(body)}: ${request.failure.message}`)
          for (const target of TARGETS)
            for (const { path: at } of to.encodeRequest(request.value, target).losses)
              if (!pathExists(body, at)) wrong.add(`${at} of ${JSON.stringify(body)}`)
        }
        assert.deepEqual([...wrong], [])
      })
  }
})

const instanceOf = (provider: Provider): Instance => ({
  id: provider.name,
  provider,
  baseUrl: provider.baseUrl ?? 'http://127.0.0.1:9/v1',
  keys: [{ id: '0000', secret: null, weight: 1 }],
  models: [],
  speaks: provider.speaks,
  variables: Object.fromEntries(Object.entries(provider.variables ?? {}).map(([name, value]) => [name, value ?? 'x'])),
})

const providers = [...(await loadProviders()).values()]

/** The paths that the preparation for any target model reports. */
const reportedPaths = (request: InboundRequest, provider: Provider): readonly string[] =>
  TARGETS.flatMap(({ model }) => {
    const candidate = { instance: instanceOf(provider), model, because: '', weight: 1 }
    const outbound = prepareRequest(request, candidate, { maxOutputTokens: 8_192 })
    return outbound ? [...outbound.dropped, ...outbound.unfit, ...outbound.droppable] : []
  })

describe('every path reported for a provider exists in the body', () => {
  for (const [style, cases] of STYLES)
    test(style, () => {
      const from = clientProtocolByStyle.get(style)
      assert.ok(from)
      const wrong = new Set<string>()
      for (const body of bodiesOf(cases)) {
        const request = parseRequest(
          from,
          { body: { text: JSON.stringify(body) }, headers: () => undefined },
          defaultSettings.limit,
        )
        assert.ok(request.ok)
        for (const provider of providers)
          for (const path of reportedPaths(request.value, provider))
            if (!pathExists(body, path)) wrong.add(`${provider.name}: ${path} of ${JSON.stringify(body)}`)
      }
      assert.deepEqual([...wrong], [])
    })
})

test('deprecated functions that are carried are not reported as lost', () => {
  const body = { model: 'm', messages: [hello], functions: [{ name: 'f', parameters: SCHEMA }] }
  for (const to of Object.values(upstreamProtocols)) {
    const request = clientProtocolByStyle.get('chat')?.decodeRequest(body)
    assert.ok(request?.ok)
    const { losses } = to.encodeRequest(request.value, { model: 'some-model', outputLimit: 8_192 })
    assert.deepEqual(losses, [], to.name)
  }
})
