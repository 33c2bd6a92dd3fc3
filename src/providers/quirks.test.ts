/** Every quirk of every provider: changed and unchanged bodies, and the recordings that show the reason. */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import type { UpstreamProtocolName } from '../core/chat.ts'
import { type Json, type JsonObject, list, object } from '../core/json.ts'
import type { Provider } from '../core/provider.ts'
import { decodeUsage } from '../protocols/shared/usage-members.ts'

const providers = new Map<string, Provider>()
for (const file of readdirSync(import.meta.dirname))
  if (/^[a-z0-9-]+\.ts$/.test(file)) {
    const { default: provider }: { default: Provider } = await import(`./${file}`)
    providers.set(provider.name, provider)
  }

const chat = 'openai-chat'
const responses = 'openai-responses'
const messages = 'anthropic-messages'

/** The body as sent to this provider, and the members dropped (`!` marks essential ones). */
const sent = (name: string, body: JsonObject, model = 'm', protocol: UpstreamProtocolName = chat) => {
  const lost: string[] = []
  const quirk = providers.get(name)?.quirks?.requestBody
  const after = quirk?.(body, model, (path, unfit) => lost.push(unfit ? `!${path}` : path), protocol) ?? body
  return { body: after, lost }
}

const hello = { role: 'user', content: 'hello' } as const
const calls = {
  role: 'assistant',
  content: null,
  tool_calls: [{ id: 'abcdefghi', type: 'function', function: { name: 'f', arguments: '{}' } }],
} as const
const result = { role: 'tool', tool_call_id: 'abcdefghi', content: 'x' } as const
const plain: JsonObject = { model: 'm', messages: [hello], stream: true, temperature: 0.5 }

// ── Bodies without changes ────────────────────────────────────────────────────────────────────────────────────────

for (const [name, provider] of providers)
  for (const { protocol } of provider.speaks) {
    // Clouds have a Claude's model in the path, so every body changes.
    if (['bedrock', 'vertex'].includes(name) && protocol === messages) continue
    test(`quirks: ${name} returns a plain ${protocol} request as the same object`, () => {
      const body = protocol === responses ? { model: 'm', input: 'hello', unknown_member: 1 } : plain
      assert.equal(sent(name, body, 'm', protocol).body, body)
    })
  }

// ── Members ──────────────────────────────────────────────────────────────────────────────────────────────────────

type QuirkRow = readonly [
  what: string,
  provider: string,
  model: string,
  protocol: UpstreamProtocolName,
  from: JsonObject,
  to: JsonObject,
  lost: readonly string[],
]

const rows: readonly QuirkRow[] = [
  ['newer limit to an older server', 'ollama', 'm', chat, { max_completion_tokens: 5 }, { max_tokens: 5 }, []],
  [
    'newer limit takes precedence over the older',
    'deepseek',
    'm',
    chat,
    { max_completion_tokens: 5, max_tokens: 9 },
    { max_tokens: 5 },
    [],
  ],
  [
    'a user message after a tool result follows an assistant message, for models of Mistral',
    'vllm',
    'Mistral-Small-3.2',
    chat,
    { messages: [hello, calls, result, hello] },
    { messages: [hello, calls, result, { role: 'assistant', content: 'OK.' }, hello] },
    [],
  ],
  [
    'a user message after a tool result is not changed for other models',
    'vllm',
    'Qwen3-32B',
    chat,
    { messages: [hello, calls, result, hello] },
    { messages: [hello, calls, result, hello] },
    [],
  ],
  ['a limit of null is removed', 'vllm', 'm', chat, { max_completion_tokens: null }, {}, []],
  [
    'newer limit is unchanged where it is supported',
    'groq',
    'm',
    chat,
    { max_completion_tokens: 5 },
    { max_completion_tokens: 5 },
    [],
  ],
  [
    'newer limit to an unknown server',
    'openai-compatible',
    'm',
    chat,
    { max_completion_tokens: 5 },
    { max_tokens: 5 },
    [],
  ],
  [
    'developer',
    'vllm',
    'm',
    chat,
    { messages: [{ role: 'developer', content: 'x' }, hello] },
    { messages: [{ role: 'system', content: 'x' }, hello] },
    [],
  ],
  [
    'developer',
    'openai-compatible',
    'm',
    chat,
    { messages: [{ role: 'developer', content: 'x' }] },
    { messages: [{ role: 'system', content: 'x' }] },
    [],
  ],
  [
    'developer is unchanged for OpenAI',
    'openai',
    'gpt-4.1',
    chat,
    { messages: [{ role: 'developer', content: 'x' }] },
    { messages: [{ role: 'developer', content: 'x' }] },
    [],
  ],

  [
    'older limit to a reasoning model',
    'openai',
    'gpt-5-nano',
    chat,
    { max_tokens: 5 },
    { max_completion_tokens: 5 },
    [],
  ],
  [
    'older limit to a current model',
    'openai',
    'gpt-5.4-mini',
    chat,
    { max_tokens: 5 },
    { max_completion_tokens: 5 },
    [],
  ],
  ['older limit to an older model', 'openai', 'gpt-4o-mini', chat, { max_tokens: 5 }, { max_tokens: 5 }, []],
  [
    'both limits',
    'openai',
    'o3-mini',
    chat,
    { max_tokens: 5, max_completion_tokens: 7 },
    { max_completion_tokens: 7 },
    [],
  ],
  ['stop sequences', 'openai', 'gpt-5-mini', chat, { stop: ['4242'] }, {}, ['stop']],
  ['an empty list of stop sequences', 'openai', 'o3-mini', chat, { stop: [] }, { stop: [] }, []],
  ['stop sequences to a model that supports them', 'openai', 'gpt-4o', chat, { stop: 'x' }, { stop: 'x' }, []],
  [
    'sampling',
    'openai',
    'o4-mini',
    chat,
    { temperature: 0.2, top_p: 0.9, logprobs: true },
    {},
    ['temperature', 'top_p', 'logprobs'],
  ],
  [
    'neutral sampling',
    'openai',
    'gpt-5-nano-2025-08-07',
    chat,
    { temperature: 1, top_p: null },
    { temperature: 1, top_p: null },
    [],
  ],
  ['sampling without reasoning', 'openai', 'gpt-5.4-mini', chat, { temperature: 0.2 }, { temperature: 0.2 }, []],
  [
    'sampling with an effort',
    'openai',
    'gpt-5.4-mini',
    chat,
    { temperature: 0.2, reasoning_effort: 'low' },
    { reasoning_effort: 'low' },
    ['temperature'],
  ],
  [
    'sampling with effort none',
    'openai',
    'gpt-5.2',
    chat,
    { temperature: 0.2, reasoning_effort: 'none' },
    { temperature: 0.2, reasoning_effort: 'none' },
    [],
  ],
  [
    'sampling, responses',
    'openai',
    'gpt-5-mini',
    responses,
    { temperature: 0.2, reasoning: { effort: 'low' } },
    { reasoning: { effort: 'low' } },
    ['temperature'],
  ],
  [
    'sampling, responses, to a newer model',
    'openai',
    'gpt-5.4',
    responses,
    { top_p: 0.2, reasoning: { effort: 'low' } },
    { reasoning: { effort: 'low' } },
    ['top_p'],
  ],
  ['sampling of the chat variant', 'openai', 'gpt-5-chat-latest', chat, { temperature: 0.2 }, { temperature: 0.2 }, []],
  [
    'a model whose name begins like a reasoning model',
    'openai',
    'o3x',
    chat,
    { temperature: 0.2, max_tokens: 1 },
    { temperature: 0.2, max_tokens: 1 },
    [],
  ],
  [
    'a reasoning model with a vendor prefix',
    'github-models',
    'openai/gpt-5-mini',
    chat,
    { max_tokens: 5 },
    { max_completion_tokens: 5 },
    [],
  ],
  [
    'a deployment with the name of a reasoning model',
    'azure-openai',
    'gpt-5-mini',
    chat,
    { max_tokens: 5 },
    { max_completion_tokens: 5 },
    [],
  ],

  [
    'temperature and top_p',
    'anthropic',
    'claude-haiku-4-5',
    messages,
    { temperature: 0.2, top_p: 0.9 },
    { temperature: 0.2 },
    ['top_p'],
  ],
  ['top_p only', 'anthropic', 'claude-haiku-4-5', messages, { top_p: 0.9 }, { top_p: 0.9 }, []],
  [
    'temperature and top_p to an older model',
    'anthropic',
    'claude-3-5-haiku-20241022',
    messages,
    { temperature: 0.2, top_p: 0.9 },
    { temperature: 0.2, top_p: 0.9 },
    [],
  ],
  [
    'sampling to a newer model',
    'anthropic',
    'claude-sonnet-5-5',
    messages,
    { temperature: 0.2, top_k: 5 },
    {},
    ['temperature', 'top_k'],
  ],
  [
    'adaptive thinking and effort to an older model',
    'anthropic',
    'claude-haiku-4-5',
    messages,
    { max_tokens: 32_000, thinking: { type: 'adaptive', display: 'summarized' }, output_config: { effort: 'high' } },
    { max_tokens: 32_000, thinking: { type: 'enabled', budget_tokens: 16_384, display: 'summarized' } },
    [],
  ],
  [
    'adaptive thinking to an older model, with little room',
    'anthropic',
    'claude-sonnet-4-5',
    messages,
    { max_tokens: 8_000, thinking: { type: 'adaptive' } },
    { max_tokens: 8_000, thinking: { type: 'enabled', budget_tokens: 4_000 } },
    [],
  ],
  [
    'adaptive thinking to an older model, without room',
    'anthropic',
    'claude-sonnet-4-5',
    messages,
    { max_tokens: 1_024, thinking: { type: 'adaptive' }, output_config: { effort: 'low' } },
    { max_tokens: 1_024 },
    ['thinking', 'output_config.effort'],
  ],
  [
    'adaptive thinking and the highest effort to an older model',
    'anthropic',
    'claude-opus-4-1',
    messages,
    { max_tokens: 32_000, thinking: { type: 'adaptive' }, output_config: { effort: 'max' } },
    { max_tokens: 32_000, thinking: { type: 'enabled', budget_tokens: 24_576 } },
    ['output_config.effort'],
  ],
  [
    'adaptive thinking and a forced call to an older model',
    'anthropic',
    'claude-sonnet-4-5',
    messages,
    { max_tokens: 32_000, thinking: { type: 'adaptive' }, tool_choice: { type: 'any' } },
    { max_tokens: 32_000, tool_choice: { type: 'any' } },
    ['thinking'],
  ],
  [
    'effort and a schema to an older model with a date in its name',
    'anthropic',
    'claude-sonnet-4-5-20250929',
    messages,
    { output_config: { effort: 'high', format: { type: 'json_schema' } } },
    { output_config: { format: { type: 'json_schema' } } },
    ['output_config.effort'],
  ],
  [
    'a budget to an older model',
    'anthropic',
    'claude-haiku-4-5',
    messages,
    { thinking: { type: 'enabled', budget_tokens: 2048 } },
    { thinking: { type: 'enabled', budget_tokens: 2048 } },
    [],
  ],
  [
    'effort to a newer model',
    'anthropic',
    'claude-opus-4-6',
    messages,
    { thinking: { type: 'adaptive' }, output_config: { effort: 'high' } },
    { thinking: { type: 'adaptive' }, output_config: { effort: 'high' } },
    [],
  ],
  ['default sampling to a newer model', 'anthropic', 'claude-opus-4-8', messages, { temperature: 1 }, {}, []],

  [
    'stream options',
    'cohere',
    'm',
    chat,
    { stream_options: { include_usage: true }, user: 'u', store: false },
    {},
    ['user'],
  ],
  ['several answers', 'cohere', 'm', chat, { n: 2 }, {}, ['!n']],
  ['its own format', 'cohere', 'm', 'cohere', { model: 'm', user: 'u', n: 2 }, { model: 'm', user: 'u', n: 2 }, []],

  [
    'developer messages that deepseek treats as user messages become system messages',
    'deepseek',
    'm',
    responses,
    { input: [{ role: 'developer', content: 'x' }, hello] },
    { input: [{ role: 'system', content: 'x' }, hello] },
    [],
  ],
  [
    'settings that deepseek ignores are reported',
    'deepseek',
    'm',
    responses,
    {
      input: 'x',
      parallel_tool_calls: false,
      max_tool_calls: 2,
      truncation: 'auto',
      include: ['reasoning.encrypted_content', 'web_search_call.action.sources'],
      text: { verbosity: 'low', format: { type: 'text' } },
    },
    { input: 'x', include: ['reasoning.encrypted_content'], text: { format: { type: 'text' } } },
    ['parallel_tool_calls', 'max_tool_calls', 'truncation', 'include[1]', 'text.verbosity'],
  ],
  [
    'neutral settings stay',
    'deepseek',
    'm',
    responses,
    { input: 'x', parallel_tool_calls: true, truncation: 'disabled', max_tool_calls: null },
    { input: 'x', parallel_tool_calls: true, truncation: 'disabled', max_tool_calls: null },
    [],
  ],
  [
    'tools that deepseek would ignore',
    'deepseek',
    'm',
    responses,
    {
      tools: [
        { type: 'function', name: 'f' },
        { type: 'web_search' },
        { type: 'custom', name: 'apply_patch' },
        { type: 'custom', name: 'sql' },
        { type: 'namespace', name: 'n', tools: [] },
      ],
    },
    {
      tools: [{ type: 'function', name: 'f' }, { type: 'web_search' }, { type: 'custom', name: 'apply_patch' }],
    },
    ['!tools[3]', '!tools[4]'],
  ],
  [
    'a schema, which the responses of lmstudio do not enforce',
    'lmstudio',
    'm',
    responses,
    { text: { format: { type: 'json_schema', name: 'n', schema: {} }, verbosity: 'low' } },
    { text: { verbosity: 'low' } },
    ['!text.format'],
  ],
  [
    'a text format, which is not a schema',
    'lmstudio',
    'm',
    responses,
    { text: { format: { type: 'text' } } },
    { text: { format: { type: 'text' } } },
    [],
  ],

  [
    'sampling, responses, at Bedrock',
    'bedrock',
    'us.openai.gpt-5.5',
    responses,
    { top_p: 0.2, reasoning: { effort: 'low' } },
    { reasoning: { effort: 'low' } },
    ['top_p'],
  ],
]

for (const [what, name, model, protocol, from, to, lost] of rows)
  test(`quirks: ${name}, ${model}: ${what}`, () => {
    const before = structuredClone(from)
    const got = sent(name, from, model, protocol)
    assert.deepEqual(got.body, to)
    assert.deepEqual(got.lost, lost)
    assert.deepEqual(from, before, 'the input was mutated')
    if (lost.length === 0 && JSON.stringify(from) === JSON.stringify(to)) assert.equal(got.body, from)
    // A second pass changes and reports nothing.
    assert.deepEqual(sent(name, got.body, model, protocol), { body: to, lost: [] })
  })

/** Members that quirks read. The test gives them values of any type, since codecs do not check every member. */
const member = fc.constantFrom(
  ...[
    'messages',
    'tools',
    'tool_choice',
    'response_format',
    'json_schema',
    'role',
    'content',
    'tool_calls',
    'function',
  ],
  ...[
    'type',
    'image_url',
    'input_audio',
    'file',
    'allowed_tools',
    'stop',
    'seed',
    'n',
    'temperature',
    'reasoning_effort',
  ],
  ...[
    'prediction',
    'max_tokens',
    'max_completion_tokens',
    'reasoning',
    'metadata',
    'refusal',
    'tool_call_id',
    '__proto__',
  ],
)
const word = fc.constantFrom('user', 'assistant', 'developer', 'tool', 'function', 'text', 'file', 'json_schema', 'x')
const { value: anything } = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom<Json>(null, true, false, 0, -1, 2.5, ''),
    word,
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(member, tie('value'), { maxKeys: 6 }),
  ),
}))

test('quirks: no request quirk throws, mutates its input, or changes its own output', () => {
  const models = ['gpt-5-mini', 'gpt-5.4', 'claude-haiku-4-5', 'claude-opus-5', 'm']
  fc.assert(
    fc.property(fc.dictionary(member, anything, { maxKeys: 8 }), fc.constantFrom(...models), (body, model) => {
      const before = JSON.stringify(body)
      for (const [name, { speaks }] of providers)
        for (const { protocol } of speaks) {
          const once = sent(name, body, model, protocol)
          const twice = sent(name, once.body, model, protocol)
          // Members that make a target unfit stay in the body, which is never sent.
          const lost = twice.lost.filter((path) => !path.startsWith('!'))
          assert.deepEqual({ body: twice.body, lost }, { body: once.body, lost: [] }, `${name} ${protocol}`)
        }
      assert.equal(JSON.stringify(body), before)
    }),
    { numRuns: 300 },
  )
})

// ── Paths ────────────────────────────────────────────────────────────────────────────────────────────────────────

const paths = [
  ['the v1 API', '/chat/completions', {}, '/v1/chat/completions'],
  ['the v1 API, responses', '/responses', {}, '/v1/responses'],
  ['the v1 API, named', '/chat/completions', { API_VERSION: 'preview' }, '/v1/chat/completions?api-version=preview'],
  [
    'a dated version',
    '/chat/completions',
    { API_VERSION: '2024-10-21' },
    '/deployments/my%20gpt%2F4/chat/completions?api-version=2024-10-21',
  ],
  [
    'a dated version, responses',
    '/responses',
    { API_VERSION: '2025-04-01-preview' },
    '/responses?api-version=2025-04-01-preview',
  ],
  [
    'an invalid version',
    '/chat/completions',
    { API_VERSION: '1&x=2' },
    '/deployments/my%20gpt%2F4/chat/completions?api-version=1%26x%3D2',
  ],
] as const

for (const [what, path, variables, expected] of paths)
  test(`quirks: azure-openai: ${what} is at ${expected}`, () => {
    assert.equal(providers.get('azure-openai')?.quirks?.path?.(path, 'my gpt/4', variables), expected)
  })

// ── Lists of models ──────────────────────────────────────────────────────────────────────────────────────────────

const lists: readonly (readonly [name: string, body: Json, ids: readonly string[]])[] = [
  [
    'openai',
    {
      object: 'list',
      data: [
        { id: 'gpt-5.4-mini' },
        { id: 'text-embedding-3-small' },
        { id: 'gpt-4o-transcribe' },
        { id: 'o4-mini' },
        { id: 'tts-1' },
        { id: 'omni-moderation-latest' },
        { id: 'sora-2' },
      ],
    },
    ['gpt-5.4-mini', 'o4-mini'],
  ],
  [
    'gemini',
    {
      models: [
        { name: 'models/gemini-2.5-flash', supportedGenerationMethods: ['generateContent', 'countTokens'] },
        { name: 'models/gemini-embedding-001', supportedGenerationMethods: ['embedContent'] },
        { name: 'models/veo-3.1', supportedGenerationMethods: ['predictLongRunning'] },
        { name: 'models/gemini-2.5-flash-preview-tts', supportedGenerationMethods: ['generateContent'] },
      ],
    },
    ['gemini-2.5-flash'],
  ],
  [
    'mistral',
    {
      data: [
        { id: 'mistral-small-latest', capabilities: { completion_chat: true } },
        { id: 'mistral-embed', capabilities: { completion_chat: false } },
      ],
    },
    ['mistral-small-latest'],
  ],
  [
    'together',
    [
      { id: 'a/chat', type: 'chat' },
      { id: 'b/image', type: 'image' },
      { id: 'c/language', type: 'language' },
    ],
    ['a/chat', 'c/language'],
  ],
  [
    'openrouter',
    {
      data: [
        { id: 'a/text', architecture: { output_modalities: ['text'] } },
        { id: 'b/image', architecture: { output_modalities: ['image'] } },
        { id: 'c/unsaid' },
      ],
    },
    ['a/text', 'c/unsaid'],
  ],
  [
    'fireworks',
    {
      data: [
        { id: 'x', supports_chat: true },
        { id: 'y', supports_chat: false },
      ],
    },
    ['x'],
  ],
  ['cohere', { models: [{ name: 'command-a-03-2025', endpoints: ['chat'] }] }, ['command-a-03-2025']],
  [
    'vercel',
    {
      data: [
        { id: 'a', type: 'language' },
        { id: 'b', type: 'embedding' },
      ],
    },
    ['a'],
  ],
]

for (const [name, body, ids] of lists)
  test(`models: ${name}'s list`, () => {
    assert.deepEqual(providers.get(name)?.models?.decode?.(body), ids)
  })

test('models: an invalid list has no models', () => {
  for (const [name, { models }] of providers)
    for (const body of [null, 'x', {}, [], { data: 'x' }, { data: [null, 1, {}, { id: 5 }] }, { models: [1] }])
      assert.deepEqual(models?.decode?.(body) ?? [], [], name)
})

// ── Recordings ───────────────────────────────────────────────────────────────────────────────────────────────────

const wire = join(import.meta.dirname, '..', '..', '..', 'shared', 'wire')
const here = existsSync(wire)
if (!here && process.env.HEADGATE_CI === '1') throw new Error('the recordings are not beside the project')
const absent = here ? false : 'the recordings are not beside the project (../shared/wire)'

type Recording = {
  readonly id: string
  readonly provider: string
  readonly api: string
  readonly status: number | null
  readonly request: Json
  readonly response: Json
}

const recordings: readonly Recording[] = here
  ? readdirSync(join(wire, 'recordings'))
      .filter((file) => file.endsWith('.json') && file !== 'index.json')
      .map((file) => JSON.parse(readFileSync(join(wire, 'recordings', file), 'utf8')))
  : []
test('usage of xai: in every recorded answer the output includes hidden reasoning', { skip: absent }, () => {
  let seen = 0
  for (const { provider, api, response } of recordings) {
    const usage = object(object(response)?.usage)
    if (provider !== 'xai' || !usage || typeof usage.total_tokens !== 'number') continue
    const input = Number(usage.prompt_tokens ?? usage.input_tokens)
    assert.equal(decodeUsage(usage)?.output, usage.total_tokens - input, `${api}: ${JSON.stringify(usage)}`)
    seen++
  }
  assert.ok(seen >= 10, `${seen} answers seen`)
})

const SEALING: Readonly<Record<string, { readonly seals: readonly string[]; readonly not: readonly string[] }>> = {
  openai: {
    seals: ['o3', 'o4-mini', 'gpt-5', 'gpt-5-nano', 'gpt-5.4', 'gpt-5.6-luna', 'ft/gpt-5-mini', 'gpt-5-codex'],
    not: ['gpt-4o', 'gpt-4.1-mini', 'gpt-5-chat-latest', 'gpt-5.2-chat-latest', 'gpt-5-search-api', 'gpt-oss-120b'],
  },
  'azure-openai': { seals: ['gpt-5-mini', 'gpt-5.5'], not: ['gpt-4o', 'my-deployment'] },
  bedrock: { seals: ['openai.gpt-5.5', 'us.openai.gpt-5.6-luna'], not: ['openai.gpt-oss-120b-1:0'] },
  xai: { seals: ['grok-4', 'grok-4.3'], not: ['grok-3', 'grok-4-fast-non-reasoning'] },
}
for (const [name, { seals, not }] of Object.entries(SEALING))
  test(`encrypted reasoning: ${name} returns it for these models and refuses it for others`, () => {
    const named = (model: string): boolean => providers.get(name)?.encryptsReasoning?.test(model) === true
    assert.deepEqual(seals.filter(named), seals)
    assert.deepEqual(not.filter(named), [])
  })

test('encrypted reasoning: every recorded request that received it has such a model', { skip: absent }, () => {
  const own: ReadonlyMap<string, string> = new Map([['azure', 'azure-openai']])
  const models = recordings.flatMap(({ provider, api, status, request }) => {
    const asked = object(request)
    const granted = status === 200 && list(asked?.include).includes('reasoning.encrypted_content')
    if (api !== 'responses' || !granted || !SEALING[own.get(provider) ?? provider]) return []
    return [[own.get(provider) ?? provider, String(asked?.model)] as const]
  })
  assert.ok(models.length > 50, `${models.length} requests`)
  assert.deepEqual(
    models.filter(([name, model]) => !providers.get(name)?.encryptsReasoning?.test(model)),
    [],
  )
})

// ── Claude: a thinking block before the calls ──────────────────────────────────────────────────────────────────────

const thinking = { type: 'enabled', budget_tokens: 2048 }
const uses = (id: string) => ({ type: 'tool_use', id, name: 'f', input: {} })
const results = (id: string, ...more: readonly JsonObject[]): JsonObject => ({
  role: 'user',
  content: [{ type: 'tool_result', tool_use_id: id, content: 'x' }, ...more],
})
const thought = { type: 'thinking', thinking: 'hm', signature: 's' }
const model = (...content: readonly JsonObject[]): JsonObject => ({ role: 'assistant', content })
const begun = [hello, model(thought, uses('toolu_1')), results('toolu_1')] as const

for (const [what, conversation, lost] of [
  ['a second call in the turn, without a thinking block', [...begun, model(uses('toolu_2')), results('toolu_2')], []],
  [
    'a second call in the turn, with text beside the result',
    [hello, model(thought, uses('toolu_1')), results('toolu_1', { type: 'text', text: 'note' })].concat([
      model({ type: 'text', text: 'next' }, uses('toolu_2')),
      results('toolu_2'),
    ]),
    [],
  ],
  ['a call of another vendor in the turn', [...begun, model(uses('call_2')), results('call_2')], ['thinking']],
  [
    'a first call of a turn, without a thinking block',
    [...begun, model({ type: 'text', text: 'done' }), hello, model(uses('toolu_2')), results('toolu_2')],
    ['thinking'],
  ],
] as const satisfies readonly (readonly [string, readonly JsonObject[], readonly string[]])[])
  test(`claude: with thinking enabled, ${what}: ${lost.length > 0 ? 'thinking is disabled' : 'thinking stays'}`, () => {
    const body = { model: 'claude-sonnet-4-0', thinking, messages: conversation }
    const made = sent('anthropic', body, 'claude-sonnet-4-0', messages)
    assert.deepEqual(made.lost, lost)
    assert.deepEqual(made.body.thinking, lost.length > 0 ? undefined : thinking)
  })
