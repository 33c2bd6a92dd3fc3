// biome-ignore-all lint/suspicious/noThenProperty: a member of Portkey's conditions
/**
 * Imported configurations at work: for each, a gateway is started with the result, and a request to each model name must
 * reach the expected upstream, path and key, with the expected model and body. `ONE` and `TWO` in a source are two upstreams.
 */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { stringify } from 'yaml'
import { type Imported, importLitellm, importOpenrouter, importPortkey } from '../../packages/import/index.ts'
import { isObject, type JsonObject } from '../../src/core/json.ts'
import { answerWith } from '../support/answers.ts'
import { known, sourceOf } from '../support/imports.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { post, start } from './support/process.ts'

const TEXT = 'Which river flows through Cologne?'
const MESSAGES = [{ role: 'user', content: TEXT }]

const CLAUDE = [{ role: 'user', content: [{ type: 'text', text: TEXT }] }]

type Reached = readonly [
  model: string,
  upstream: 'ONE' | 'TWO',
  path: string,
  sent: string,
  key: string | undefined,
  /** Members of the body, by default those of the chat API. */
  body?: JsonObject | undefined,
  /** Headers of the client. */
  headers?: Readonly<Record<string, string>>,
]
type Case = readonly [name: string, source: string | object, reached: readonly Reached[], more?: JsonObject]

/** Values of the variables that the sources refer to. */
const KEYS = { KEY_A: 'key-a', KEY_B: 'key-b', ONE_BASE: '', TWO_BASE: '' }

const CHAT = '/v1/chat/completions'
const entry = (name: string, params: string): string => `  - { model_name: ${name}, litellm_params: { ${params} } }\n`
const list = (...entries: readonly string[]): string => `model_list:\n${entries.join('')}`
const A = 'api_key: os.environ/KEY_A'
const B = 'api_key: os.environ/KEY_B'

const LITELLM: readonly Case[] = [
  [
    'a server with the OpenAI API',
    list(entry('m', `model: openai/qwen3, api_base: ONE/v1, ${A}`)),
    [['m', 'ONE', CHAT, 'qwen3', 'key-a']],
  ],
  [
    'a server without a key',
    list(entry('m', 'model: openai/qwen3, api_base: ONE/v1')),
    [['m', 'ONE', CHAT, 'qwen3', undefined]],
  ],
  [
    'an address in a variable',
    list(entry('m', `model: openai/qwen3, api_base: os.environ/TWO_BASE, ${B}`)),
    [['m', 'TWO', CHAT, 'qwen3', 'key-b']],
  ],
  [
    'the address as base_url',
    list(entry('m', `model: openai/qwen3, base_url: TWO/v1, ${B}`)),
    [['m', 'TWO', CHAT, 'qwen3', 'key-b']],
  ],
  [
    'vLLM with a name with slashes',
    list(entry('m', 'model: hosted_vllm/org/qwen3, api_base: ONE/v1')),
    [['m', 'ONE', CHAT, 'org/qwen3', undefined]],
  ],
  [
    'Anthropic',
    list(entry('m', `model: anthropic/claude-x, api_base: ONE, ${A}`)),
    [['m', 'ONE', '/v1/messages', 'claude-x', 'key-a', { messages: CLAUDE }]],
  ],
  [
    'a model of Anthropic without a prefix',
    list(entry('m', `model: claude-x, api_base: TWO, ${B}`)),
    [['m', 'TWO', '/v1/messages', 'claude-x', 'key-b', { messages: CLAUDE }]],
  ],
  [
    'Azure',
    list(entry('m', `model: azure/d1, api_base: ONE, ${A}, api_version: "2024-10-21"`)),
    [['m', 'ONE', '/openai/deployments/d1/chat/completions?api-version=2024-10-21', 'd1', 'key-a']],
  ],
  [
    'two resources of Azure',
    list(
      entry('east', `model: azure/d1, api_base: ONE, ${A}, api_version: "2024-10-21"`),
      entry('west', `model: azure/d2, api_base: TWO, ${B}, api_version: "2024-10-21"`),
    ),
    [
      ['east', 'ONE', '/openai/deployments/d1/chat/completions?api-version=2024-10-21', 'd1', 'key-a'],
      ['west', 'TWO', '/openai/deployments/d2/chat/completions?api-version=2024-10-21', 'd2', 'key-b'],
    ],
  ],
  [
    'Gemini',
    list(entry('m', `model: gemini/gemini-2.5-pro, api_base: ONE/v1beta, ${A}`)),
    [
      [
        'm',
        'ONE',
        '/v1beta/models/gemini-2.5-pro:generateContent',
        'gemini-2.5-pro',
        'key-a',
        { contents: [{ role: 'user', parts: [{ text: TEXT }] }] },
      ],
    ],
  ],
  ['Mistral', list(entry('m', `model: mistral/small, api_base: ONE/v1, ${A}`)), [['m', 'ONE', CHAT, 'small', 'key-a']]],
  [
    'Groq',
    list(entry('m', `model: groq/openai/gpt-oss-120b, api_base: TWO/openai/v1, ${B}`)),
    [['m', 'TWO', '/openai/v1/chat/completions', 'openai/gpt-oss-120b', 'key-b']],
  ],
  [
    'a provider by custom_llm_provider',
    list(entry('m', `model: deep/x, custom_llm_provider: deepseek, api_base: ONE, ${A}`)),
    [['m', 'ONE', '/chat/completions', 'deep/x', 'key-a']],
  ],
  [
    'another proxy of LiteLLM',
    list(entry('m', `model: litellm_proxy/far, api_base: ONE/v1, ${A}`)),
    [['m', 'ONE', CHAT, 'far', 'key-a']],
  ],
  [
    'several models of one server',
    list(entry('a', `model: openai/x, api_base: ONE/v1, ${A}`), entry('b', `model: openai/y, api_base: ONE/v1, ${A}`)),
    [
      ['a', 'ONE', CHAT, 'x', 'key-a'],
      ['b', 'ONE', CHAT, 'y', 'key-a'],
    ],
  ],
  [
    'an order',
    list(
      entry('m', `model: openai/second, api_base: TWO/v1, ${B}, order: 2`),
      entry('m', `model: openai/first, api_base: ONE/v1, ${A}, order: 1`),
    ),
    [['m', 'ONE', CHAT, 'first', 'key-a']],
  ],
  [
    'a fallback to another model',
    `${list(entry('down', `model: openai/gone, api_base: "http://127.0.0.1:9/v1", ${A}`), entry('up', `model: openai/y, api_base: TWO/v1, ${B}`))}litellm_settings: { fallbacks: [{ down: [up] }], num_retries: 0 }\n`,
    [
      ['down', 'TWO', CHAT, 'y', 'key-b'],
      ['up', 'TWO', CHAT, 'y', 'key-b'],
    ],
  ],
  [
    'aliases',
    `${list(entry('m', `model: openai/x, api_base: ONE/v1, ${A}`))}router_settings: { model_group_alias: { other: m, hidden: { model: m, hidden: true } } }\n`,
    [
      ['other', 'ONE', CHAT, 'x', 'key-a'],
      ['hidden', 'ONE', CHAT, 'x', 'key-a'],
    ],
  ],
  [
    'any model of a provider',
    list(entry('"groq/*"', `model: "groq/*", api_base: ONE/openai/v1, ${A}`)),
    [['groq/anything', 'ONE', '/openai/v1/chat/completions', 'anything', 'key-a']],
  ],
  [
    'names with dots, slashes and spaces',
    list(
      entry('"team/gpt 4.1"', `model: openai/x, api_base: ONE/v1, ${A}`),
      entry('qwen3:8b', `model: openai/y, api_base: TWO/v1, ${B}`),
    ),
    [
      ['team/gpt 4.1', 'ONE', CHAT, 'x', 'key-a'],
      ['qwen3:8b', 'TWO', CHAT, 'y', 'key-b'],
    ],
  ],
  [
    'tags in a header, and defaults of requests',
    `${list(
      entry('m', `model: openai/free, api_base: ONE/v1, ${A}, tags: [free], temperature: 0.5, timeout: 20`),
      entry('m', `model: openai/paid, api_base: TWO/v1, ${B}, tags: [paid]`),
      entry('m', `model: openai/rest, api_base: TWO/v1, ${B}, tags: [default]`),
      entry('n', `model: openai/tagged, api_base: ONE/v1, ${A}, tags: [beta]`),
    )}router_settings: { enable_tag_filtering: true }\n`,
    [
      ['m', 'ONE', CHAT, 'free', 'key-a', { temperature: 0.5 }, { 'x-litellm-tags': 'ci, free' }],
      ['m', 'TWO', CHAT, 'paid', 'key-b', undefined, { 'x-litellm-tags': 'paid' }],
      ['m', 'TWO', CHAT, 'rest', 'key-b', undefined, { 'x-litellm-tags': 'freer' }],
      ['m', 'TWO', CHAT, 'rest', 'key-b'],
      ['n', 'ONE', CHAT, 'tagged', 'key-a', undefined, { 'x-litellm-tags': 'beta,x' }],
      ['n', 'ONE', CHAT, 'tagged', 'key-a'],
    ],
  ],
  [
    'a key that is a literal',
    list(entry('m', 'model: openai/x, api_base: ONE/v1, api_key: literal-key-0123')),
    [['m', 'ONE', CHAT, 'x', 'literal-key-0123']],
  ],
]

/** A condition that holds for each request of these tests, after one that does not. */
const CONDITIONAL = {
  strategy: {
    mode: 'conditional',
    conditions: [
      { query: { 'params.reasoning_effort': { $in: ['high'] } }, then: 'never' },
      { query: { 'url.pathname': { $eq: '/v1/chat/completions' }, 'metadata.plan': { $ne: 'free' } }, then: 'chat' },
    ],
    default: 'never',
  },
  targets: [
    { name: 'never', provider: 'openai', api_key: 'key-a', custom_host: 'ONE/v1', override_params: { model: 'a' } },
    {
      name: 'chat',
      provider: 'openai',
      api_key: 'key-b',
      custom_host: 'TWO/v1',
      override_params: { model: 'b', temperature: 0.25 },
    },
  ],
}

const PORTKEY: readonly Case[] = [
  [
    'conditions, and parameters of a target',
    CONDITIONAL,
    [['default', 'TWO', CHAT, 'b', 'key-b', { temperature: 0.25 }]],
  ],
  [
    'a fallback after a target that is down',
    {
      strategy: { mode: 'fallback' },
      targets: [
        {
          provider: 'openai',
          api_key: 'key-a',
          custom_host: 'http://127.0.0.1:9/v1',
          override_params: { model: 'gone' },
        },
        { provider: 'anthropic', api_key: 'key-b', custom_host: 'TWO', override_params: { model: 'claude-x' } },
      ],
    },
    [['default', 'TWO', '/v1/messages', 'claude-x', 'key-b', { messages: CLAUDE }]],
  ],
  [
    'the model of the client',
    { provider: 'groq', api_key: 'key-a', custom_host: 'ONE/openai/v1' },
    [['groq/any', 'ONE', '/openai/v1/chat/completions', 'any', 'key-a']],
  ],
  [
    'routes by the name of the model',
    {
      strategy: {
        mode: 'conditional',
        conditions: [{ query: { 'params.model': { $eq: 'fast' } }, then: 'one' }],
        default: 'two',
      },
      targets: [
        { name: 'one', provider: 'groq', api_key: 'key-a', custom_host: 'ONE/v1' },
        {
          name: 'two',
          provider: 'mistral-ai',
          api_key: 'key-b',
          custom_host: 'TWO/v1',
          override_params: { model: 'large' },
        },
      ],
    },
    [
      ['fast', 'ONE', CHAT, 'fast', 'key-a'],
      ['default', 'TWO', CHAT, 'large', 'key-b'],
    ],
  ],
]

/**
 * OpenRouter's preferences and members of its own, which clients continue to send. With `zdr: true` the facts of a provider would have to
 * be declared.
 */
const PREFERENCES = { provider: { zdr: false, sort: 'price' }, session_id: 's1', transforms: ['middle-out'] }

const OPENROUTER: readonly Case[] = [
  [
    'the provider itself comes first',
    { model: 'openai/gpt-5-mini', ...PREFERENCES },
    [['openai/gpt-5-mini', 'ONE', CHAT, 'gpt-5-mini', 'key-a', { messages: MESSAGES }]],
    PREFERENCES,
  ],
  [
    'OpenRouter receives its own members',
    { model: 'gryphe/mythomax-l2-13b', ...PREFERENCES },
    [
      [
        'gryphe/mythomax-l2-13b',
        'TWO',
        '/api/v1/chat/completions',
        'gryphe/mythomax-l2-13b',
        'key-b',
        { messages: MESSAGES, ...PREFERENCES },
      ],
    ],
    PREFERENCES,
  ],
]

let upstreams: { readonly ONE: Upstream; readonly TWO: Upstream }
const upstream = () => startUpstream((request) => answerWith(request, { text: `answer of ${request.path}` }))
before(async () => {
  upstreams = { ONE: await upstream(), TWO: await upstream() }
})
after(() => Promise.all([upstreams.ONE.close(), upstreams.TWO.close()]))

const check = async (imported: Imported | undefined, [, , reached, more]: Case, env: Record<string, string>) => {
  assert.ok(imported)
  const files = { 'headgate.yaml': stringify(imported.config) }
  const variables = { ...KEYS, ONE_BASE: `${upstreams.ONE.url}/v1`, TWO_BASE: `${upstreams.TWO.url}/v1` }
  await using gateway = await start({ env: { ...variables, ...env, ...Object.fromEntries(imported.literals) }, files })
  for (const [model, name, path, sent, key, body, headers] of reached) {
    const calls = () => upstreams[name].requests.filter(({ method }) => method === 'POST')
    const count = calls().length
    const answer = await post(`${gateway.base}/chat/completions`, { model, messages: MESSAGES, ...more }, headers)
    assert.equal(answer.status, 200, `${model}: ${answer.text}`)
    assert.equal(calls().length, count + 1, `${model} reached ${name}`)
    const request = calls()[count]
    assert.ok(request)
    const credential = request.key ?? request.headers['api-key'] ?? request.headers['x-goog-api-key']
    assert.deepEqual([request.path, request.model ?? '', credential], [path, sent, key], model)
    const expected = body ?? { messages: MESSAGES }
    assert.ok(isObject(request.json))
    for (const [member, value] of Object.entries(expected)) assert.deepEqual(request.json[member], value, member)
  }
}

const located = (source: string | object): string =>
  (typeof source === 'string' ? source : JSON.stringify(source))
    .replaceAll(/\bONE\b/g, upstreams.ONE.url)
    .replaceAll(/\bTWO\b/g, upstreams.TWO.url)

for (const one of LITELLM)
  test(`imported from LiteLLM: ${one[0]}`, () =>
    check(importLitellm(sourceOf(located(one[1])), known.reserved), one, {}))

for (const one of PORTKEY)
  test(`imported from Portkey: ${one[0]}`, () =>
    check(importPortkey(sourceOf(located(one[1])), known.reserved), one, {}))

for (const one of OPENROUTER)
  test(`imported from OpenRouter: ${one[0]}`, () =>
    check(importOpenrouter(sourceOf(located(one[1])), known), one, {
      OPENAI_API_KEY: 'key-a',
      OPENAI_BASE_URL: `${upstreams.ONE.url}/v1`,
      OPENROUTER_API_KEY: 'key-b',
      OPENROUTER_BASE_URL: `${upstreams.TWO.url}/api/v1`,
    }))
