import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ChatRequest, Extra, Tool } from '../../core/chat.ts'
import { fail } from '../../core/failure.ts'
import type { Json, JsonObject } from '../../core/json.ts'
import { hasEffects, mayFailOver, mayHedge } from './retry-safety.ts'

const request = (more: Partial<ChatRequest> = {}): ChatRequest => ({
  model: 'm',
  stream: false,
  messages: [],
  tools: [],
  settings: {},
  extras: [],
  ...more,
})
const extra = (name: string, value: Json): ChatRequest => {
  const one: Extra = { at: name, name, value, essential: true }
  return request({ extras: [{ at: 'x', name: 'x', value: true, essential: false }, one] })
}
const hosted = (raw: JsonObject): ChatRequest => {
  const tool: Tool = { kind: 'foreign', at: 'tools[1]', protocol: 'openai-responses', raw }
  return request({ tools: [{ kind: 'function', at: 'tools[0]', name: 'f' }, tool] })
}

const started = fail('truncated', 'cut', { status: 200 })

/** [name, request, may fail over after the upstream started, may be hedged] */
const cases: readonly (readonly [string, ChatRequest, boolean, boolean])[] = [
  ['plain text', request(), true, true],
  ['several choices', request({ settings: { choices: { value: 2, at: 'n' } } }), true, false],
  ['a function that the client runs', request({ tools: [{ kind: 'function', at: 't', name: 'mcp' }] }), true, true],
  ['a custom tool', request({ tools: [{ kind: 'custom', at: 't', name: 'f' }] }), true, true],
  ['store: true', request({ settings: { store: { value: true, at: 'store' } } }), true, false],
  ['store: false', request({ settings: { store: { value: false, at: 'store' } } }), true, true],
  ['background', extra('background', true), false, false],
  ['no background', extra('background', false), true, true],
  ['conversation', extra('conversation', 'conv_1'), false, false],
  ['conversation, an object', extra('conversation', { id: 'conv_1' }), false, false],
  ['no conversation', extra('conversation', null), true, true],
  ['another member', extra('prediction', { type: 'content' }), true, true],
  // Run by the provider without side effects: failover is safe, but hedging would pay for two runs.
  ['web search', hosted({ type: 'web_search' }), true, false],
  ['web search of the chat style', extra('web_search_options', {}), true, false],
  ['web search of xAI', extra('search_parameters', { mode: 'auto' }), true, false],
  ['plugins of OpenRouter', extra('plugins', [{ id: 'web' }]), true, false],
  ['file search', hosted({ type: 'file_search', vector_store_ids: ['vs_1'] }), true, false],
  ['image generation', hosted({ type: 'image_generation' }), true, false],
  ['fetching pages', hosted({ type: 'web_fetch_20250910', name: 'web_fetch' }), true, false],
  ['code in a new container', hosted({ type: 'code_interpreter', container: { type: 'auto' } }), true, false],
  ['Anthropic’s code execution', hosted({ type: 'code_execution_20250825', name: 'code_execution' }), true, false],
  ['a shell in a new container', hosted({ type: 'shell', environment: { type: 'container_auto' } }), true, false],
  [
    'a computer tool that the client runs',
    hosted({ type: 'computer_use_preview', environment: 'browser' }),
    true,
    false,
  ],
  ['a tool without a type', hosted({}), true, false],
  ['a type that only begins with mcp', hosted({ type: 'mcpx' }), true, false],
  ['a type that only ends with mcp', hosted({ type: 'some_mcp' }), true, false],
  // Run by the provider with side effects.
  ['an MCP server', hosted({ type: 'mcp', server_label: 'mail', server_url: 'https://x.example' }), false, false],
  ['an MCP toolset', hosted({ type: 'mcp_toolset', mcp_server_name: 'mail' }), false, false],
  [
    'MCP servers of Anthropic',
    extra('mcp_servers', [{ type: 'url', name: 'mail', url: 'https://x.example' }]),
    false,
    false,
  ],
  ['no servers', extra('mcp_servers', []), true, true],
  ['mcp_servers: null', extra('mcp_servers', null), true, true],
  ['code in an existing container', hosted({ type: 'code_interpreter', container: 'cntr_1' }), false, false],
  [
    'a shell in an existing container',
    hosted({ type: 'shell', environment: { type: 'container_reference', container_id: 'c' } }),
    false,
    false,
  ],
  ['Anthropic’s container', extra('container', 'container_1'), false, false],
  ['Anthropic’s container with skills', extra('container', { id: 'container_1', skills: [] }), false, false],
  ['a new container with skills', extra('container', { skills: [] }), true, true],
  ['no container', extra('container', null), true, true],
]
for (const [name, sent, failsOver, hedges] of cases)
  test(`retry safety: ${name}: ${failsOver ? '' : 'no '}failover after a start, ${hedges ? '' : 'no '}hedge`, () => {
    assert.equal(mayFailOver(sent, started), failsOver)
    assert.equal(hasEffects(sent), !failsOver)
    assert.equal(mayHedge(sent), hedges)
    assert.ok(mayFailOver(sent, fail('refused', 'never reached', { unsent: true })))
  })

/** Whether a request with side effects may fail over after this status. */
const proofs: readonly (readonly [status: number, proves: boolean])[] = [
  [200, false],
  [299, false],
  [300, true],
  [302, true],
  [400, true],
  [401, true],
  [404, true],
  [408, false],
  [409, true],
  [429, true],
  [499, false],
  [500, false],
  [501, true],
  [502, false],
  [503, true],
  [504, false],
  [524, false],
  [529, true],
]
for (const [status, proves] of proofs)
  test(`retry safety: ${status} ${proves ? 'proves' : 'does not prove'} that no work was started`, () =>
    assert.equal(mayFailOver(extra('background', true), fail('status', 'x', { status })), proves))

test('retry safety: a failure without a status does not prove that no work was started', () => {
  assert.equal(mayFailOver(extra('background', true), fail('timeout', 'x')), false)
  assert.equal(mayFailOver(extra('background', true), fail('reset', 'x', { unsent: false })), false)
})
