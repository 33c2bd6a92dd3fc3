/** Every rule of every fake vendor refuses a body that breaks it, and only that rule does. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { JsonObject } from '../../src/core/json.ts'
import type { Wire } from './answers.ts'
import type { Context } from './rule.ts'
import { VENDORS } from './vendors.ts'

const user = { role: 'user', content: 'hello' }
const image = { role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }] }
const calls = (id = 'call12345') => ({
  role: 'assistant',
  content: null,
  tool_calls: [{ id, type: 'function', function: { name: 'f', arguments: '{}' } }],
})
const result = (id = 'call12345') => ({ role: 'tool', tool_call_id: id, content: 'done' })
const chat = (...messages: readonly JsonObject[]): JsonObject => ({ model: 'm', messages })
const tools = [{ type: 'function', function: { name: 'f', parameters: { type: 'object', properties: {} } } }]
const toolWith = (parameters: JsonObject) => [
  { type: 'function', name: 'f', parameters, function: { name: 'f', parameters } },
]

const input = (...items: readonly JsonObject[]): JsonObject => ({ model: 'm', input: [user, ...items] })
const reasoning = (more: JsonObject) => ({ type: 'reasoning', id: 'rs_own', summary: [], ...more })
const reply = { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'hi' }] }
const call = { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' }
const output = { type: 'function_call_output', call_id: 'c', output: 'done' }

const claude = (...messages: readonly JsonObject[]): JsonObject => ({ model: 'm', max_tokens: 2_000, messages })
const use = (id = 'toolu_1') => ({ type: 'tool_use', id, name: 'f', input: {} })
const used = (id = 'toolu_1') => ({ type: 'tool_result', tool_use_id: id, content: 'done' })
const thinking = { type: 'enabled', budget_tokens: 1_024 }
const assistant = (...content: readonly JsonObject[]) => ({ role: 'assistant', content })
const asks = (...content: readonly JsonObject[]) => ({ role: 'user', content })

const hello = { role: 'user', content: [{ text: 'hello' }] }
const converse = (...messages: readonly JsonObject[]): JsonObject => ({ messages, toolConfig: { tools: [] } })
const toolUse = (toolUseId = 'tooluse_1') => ({ toolUse: { toolUseId, name: 'f', input: {} } })
const toolResult = (toolUseId = 'tooluse_1') => ({ toolResult: { toolUseId, content: [{ text: 'done' }] } })
const bedrockThinking = { additionalModelRequestFields: { thinking }, inferenceConfig: { maxTokens: 2_000 } }

const turn = (role: string, ...parts: readonly JsonObject[]) => ({ role, parts })
const functionCall = { functionCall: { name: 'f', args: {} } }
const functionResponse = { functionResponse: { name: 'f', response: {} } }
const signed = { ...functionCall, thoughtSignature: 'own signature' }
const contents = (...all: readonly JsonObject[]): JsonObject => ({ contents: all })

/** Bodies by rule. A rule that several vendors share has one. */
const BROKEN: { readonly [rule: string]: JsonObject } = {
  'chat.unknown-parameter': { ...chat(user), top_k: 4 },
  'chat.max-tokens': { ...chat(user), max_tokens: 5 },
  'chat.sampling-while-reasoning': { ...chat(user), temperature: 0.2, reasoning_effort: 'low' },
  'chat.tools-with-effort': { ...chat(user), tools, reasoning_effort: 'low' },
  'chat.tool-id-length': chat(user, calls('x'.repeat(41)), result('x'.repeat(41))),
  'chat.tool-message-follows-call': chat(user, calls(), user),
  'image (capability)': chat(image),
  'chat.image-type': chat({
    role: 'user',
    content: [{ type: 'image_url', image_url: { url: 'data:application/pdf;base64,JVBERi0=' } }],
  }),
  'chat.text-length': { ...chat(user), prompt_cache_key: 'k'.repeat(65) },
  'chat.stop-length': { ...chat(user), stop: ['a', 'b', 'c', 'd', 'e'] },
  'chat.function-parameters': { ...chat(user), tools: toolWith({ type: 'object' }) },
  'chat.metadata-without-store': { ...chat(user), metadata: { a: 'b' } },
  'chat.effort-of-plain-model': { ...chat(user), model: 'gpt-4o', reasoning_effort: 'low' },
  'chat.verbosity-of-plain-model': { ...chat(user), model: 'gpt-4.1', verbosity: 'low' },
  'responses.text-length': { ...input(), safety_identifier: 'u'.repeat(65) },
  'responses.function-parameters': { ...input(), tools: toolWith({}) },
  'responses.effort-of-plain-model': { ...input(), model: 'gpt-4.1', reasoning: { effort: 'low' } },
  'openrouter.user-length': { ...chat(user), user: 'u'.repeat(129) },
  'zai.user-length': { ...chat(user), user: 'u'.repeat(5) },
  'deepseek.user-id': { ...chat(user), user_id: '{"device_id":"d"}' },
  'deepseek.tool-choice': { ...chat(user), tools, tool_choice: 'required' },
  'deepseek.response-format': { ...chat(user), response_format: { type: 'json_schema', json_schema: {} } },
  'deepseek.function-parameters': { ...chat(user), tools: toolWith({}) },
  'groq.format-with-tools': { ...chat(user), tools, response_format: { type: 'json_object' } },
  'gemini.penalty': { ...contents(turn('user', { text: 'hello' })), generationConfig: { presencePenalty: 0 } },
  'moonshot.reasoning-missing': chat(user, calls(), result()),
  'moonshot.sampling': { ...chat(user), temperature: 0.7 },
  'moonshot.tool-choice': { ...chat(user), tools, tool_choice: 'required' },
  'alibaba.whole-thinking': { ...chat(user), model: 'qwen3-32b' },
  'alibaba.tool-choice': { ...chat(user), tools, tool_choice: 'required' },
  'groq.message-member': chat(user, { role: 'assistant', content: 'hi', reasoning_content: 'hm' }),
  'groq.parameter': { ...chat(user), thinking: {} },
  'cerebras.message-member': chat(user, { role: 'assistant', content: 'hi', reasoning_details: [] }),
  'cerebras.parameter': { ...chat(user), store: false },
  'deepseek.reasoning-missing': chat(user, calls(), result()),
  'deepseek.role': chat({ role: 'developer', content: 'be brief' }, user),
  'deepseek.image (capability)': {
    ...chat(image),
    input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'data:image/png;base64,AA==' }] }],
  },
  'xai.parameter': { ...chat(user), stop: ['x'] },
  'fireworks.parameter': { ...chat(user), verbosity: 'low' },
  'perplexity.alternation': chat(user, user),
  'perplexity.tools (capability)': { ...chat(user), tools },
  'vllm.alternation': chat(user, user),
  'mistral.extra': { ...chat(user), store: false },
  'mistral.tool-id': chat(user, calls('call_1234567890'), result('call_1234567890')),
  'mistral.order': chat(user, calls(), result(), user),
  'mistral.pairs': chat(user, calls()),
  'mistral.empty-assistant': chat(user, { role: 'assistant', content: '' }),
  'cohere.unknown-field': { ...chat(user), metadata: {} },
  'cohere.pairs': chat(user, calls()),
  'ollama.types': chat(user, calls()),
  'responses.unknown-parameter': { ...input(), seed: 4 },
  'responses.previous-id': { ...input(), previous_response_id: 'resp_other' },
  'responses.unknown-item-member': input({ ...reply, reasoning_content: 'hm' }),
  'responses.assistant-content': input({ role: 'assistant', content: [{ type: 'input_text', text: 'hi' }] }),
  'responses.reasoning-content': input(
    reasoning({ encrypted_content: 'own signature', content: [{ type: 'reasoning_text', text: 'hm' }] }),
    reply,
  ),
  'responses.item-id': input(reasoning({ id: 'thought_1', encrypted_content: 'own signature' }), reply),
  'responses.encrypted-content': input(reasoning({ encrypted_content: "another's" }), reply),
  'xai.encrypted-content': input(reasoning({ encrypted_content: "another's" }), reply),
  'responses.reasoning-not-found': input(reasoning({ id: 'rs_other' }), reply),
  'responses.reasoning-alone': input(reasoning({ encrypted_content: 'own signature' }), user),
  'responses.call-without-reasoning': input({ ...call, id: 'fc_own signature' }, output),
  'responses.output-follows-call': input(output),
  'responses.sampling-while-reasoning': { ...input(), temperature: 0.2, reasoning: { effort: 'low' } },
  'anthropic.extra': claude(user, assistant({ type: 'text', text: 'hi', annotations: [] }), user),
  'anthropic.media-type': claude(
    asks({ type: 'image', source: { type: 'base64', media_type: 'image/jpeg', data: 'iVBORw0KGgo=' } }),
  ),
  'anthropic.cache-marks': claude(
    asks(...Array.from({ length: 5 }, () => ({ type: 'text', text: 'a', cache_control: { type: 'ephemeral' } }))),
  ),
  'bedrock.reserved': { ...converse(hello), system: [{ text: 'x-anthropic-billing-header: cch=71fe1;' }] },
  'anthropic.max-tokens': { model: 'm', messages: [user] },
  'anthropic.tool-id': claude(user, assistant(use('functions.f:0')), asks(used('functions.f:0'))),
  'anthropic.empty': claude(user, assistant(), user),
  'claude.first-user': claude(assistant({ type: 'text', text: 'hi' }), user),
  'claude.prefill': claude(user, assistant({ type: 'text', text: 'So' })),
  'claude.tool-result-next': { ...claude(user, assistant(use()), user) },
  'claude.thinking-with': { ...claude(user), thinking, temperature: 0.2 },
  'claude.signature': claude(user, assistant({ type: 'thinking', thinking: 'hm', signature: "another's" }), user),
  'claude.thinking-first': { ...claude(user, assistant(use()), asks(used())), thinking },
  'bedrock.alternation': converse(hello, hello),
  'bedrock.blank': converse({ role: 'user', content: [{ text: ' ' }] }),
  'bedrock.tool-id': converse(hello, assistant(toolUse('a b')), asks(toolResult('a b'))),
  'bedrock.tool-config': { messages: [hello, assistant(toolUse()), asks(toolResult())] },
  'gemini.roles': contents(turn('user', { text: 'hello' }), turn('assistant', { text: 'hi' })),
  'gemini.empty-parts': contents(turn('user')),
  'gemini.schema': {
    ...contents(turn('user', { text: 'hello' })),
    tools: [{ functionDeclarations: [{ name: 'f', parameters: { type: 'object', additionalProperties: false } }] }],
  },
  'gemini.response-count': contents(
    turn('user', { text: 'hello' }),
    turn('model', signed),
    turn('user', { text: 'go on' }),
  ),
  'gemini.call-after-user': contents(
    turn('user', { text: 'hello' }),
    turn('model', { text: 'hi' }),
    turn('model', signed),
    turn('user', functionResponse),
  ),
  'gemini.signature-missing': contents(
    turn('user', { text: 'hello' }),
    turn('model', functionCall),
    turn('user', functionResponse),
  ),
  'gemini.signature-foreign': contents(
    turn('user', { text: 'hello' }),
    turn('model', { ...functionCall, thoughtSignature: "another's" }),
    turn('user', functionResponse),
  ),
}

/** Bodies of Converse for the rules that Claude has in both formats. */
const AT_BEDROCK: { readonly [rule: string]: JsonObject } = {
  'claude.first-user': converse(assistant({ text: 'hi' }), hello),
  'claude.tool-result-next': converse(hello, assistant(toolUse()), hello),
  'claude.thinking-with': { ...converse(hello), ...bedrockThinking, toolConfig: { toolChoice: { any: {} } } },
  'claude.signature': converse(
    hello,
    assistant({ reasoningContent: { reasoningText: { text: 'hm', signature: "another's" } } }),
    hello,
  ),
  'claude.thinking-first': { ...converse(hello, assistant(toolUse()), asks(toolResult())), ...bedrockThinking },
}

const context = (model: string): Context => ({
  model: model.startsWith('us.') ? model : model.replace('-4-5', '-5'),
  isOwn: (signature) => signature.endsWith('own signature'),
  isStored: () => false,
})

const bodyFor = (rule: string, wire: Wire): JsonObject | undefined =>
  (wire === 'converse' ? AT_BEDROCK[rule] : undefined) ?? BROKEN[rule]

for (const { name, model, speaks } of VENDORS)
  for (const [wire, rules] of Object.entries(speaks))
    for (const [rule, refuses] of Object.entries(rules))
      test(`rules: ${name}, ${wire}: ${rule}`, () => {
        // The keys of `speaks` are wires.
        const body = bodyFor(rule, wire as Wire)
        assert.ok(body, 'no body of this file breaks the rule')
        const refusal = refuses(body, context(model))
        assert.ok(refusal && refusal.status >= 400 && refusal.status < 500)
        const first = Object.keys(rules).find((other) => rules[other]?.(body, context(model)))
        assert.equal(first, rule)
      })

const thought = { type: 'thinking', thinking: 'hm', signature: 'own signature' }
const reasoned = { reasoningContent: { reasoningText: { text: 'hm', signature: 'own signature' } } }
for (const [name, body] of [
  [
    'anthropic',
    { ...claude(user, assistant(thought, use()), asks(used()), assistant(use('2')), asks(used('2'))), thinking },
  ],
  [
    'bedrock',
    {
      ...converse(
        hello,
        assistant(reasoned, toolUse()),
        asks(toolResult()),
        assistant(toolUse('2')),
        asks(toolResult('2')),
      ),
      ...bedrockThinking,
    },
  ],
] as const satisfies readonly (readonly [string, JsonObject])[])
  test(`rules: ${name}: a later call of a turn that began with a thinking block needs none`, () => {
    const vendor = VENDORS.find((one) => one.name === name)
    const rules = Object.values(vendor?.speaks ?? {}).flatMap((some) => Object.entries(some))
    assert.ok(vendor && rules.length > 0)
    for (const [rule, refuses] of rules) assert.equal(refuses(body, context(vendor.model)), null, rule)
  })

test('rules: every body belongs to a rule', () => {
  const all = new Set(VENDORS.flatMap(({ speaks }) => Object.values(speaks).flatMap((rules) => Object.keys(rules))))
  assert.deepEqual(
    [...Object.keys(BROKEN), ...Object.keys(AT_BEDROCK)].filter((rule) => !all.has(rule)),
    [],
  )
})
