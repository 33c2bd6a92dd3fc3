// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references to variables are under test
/** Configurations of LiteLLM's proxy, written for these tests: what each becomes, and that the loader accepts it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkImport, type ImportCase, known, sourceOf } from '../../test/support/imports.ts'
import type { Imported } from './imported.ts'
import { importLitellm } from './litellm.ts'
import { parseSource } from './source.ts'

const { reserved } = known

const imported = (text: string): Imported => importLitellm(sourceOf(text), reserved) ?? assert.fail('no model_list')

const gpt = 'model_list: [{ model_name: gpt, litellm_params: { model: openai/gpt-5 } }]'
const two = `model_list:
  - { model_name: fast, litellm_params: { model: openai/gpt-5-mini } }
  - { model_name: large, litellm_params: { model: anthropic/claude-opus-4-5 } }`

/** The condition of requests with the tag `free`. */
const FREE = { header: { 'x-litellm-tags': ['free', 'free,*', '*,free', '*, free', '*,free,*', '*, free,*'] } }

const CONFIGS: readonly ImportCase[] = [
  [
    'one model',
    gpt,
    {
      providers: { openai: { keys: ['${OPENAI_API_KEY}'], models: ['gpt-5'] } },
      routes: { gpt: { targets: ['openai/gpt-5'] } },
      fallback: 'same-model',
      unknownModel: 'reject',
      strategy: 'weighted',
    },
    ['taken model_list[0].model_name', 'taken model_list[0].litellm_params.model'],
  ],
  ['an empty list', 'model_list: []', { providers: {} }, []],
  [
    'sections without contents',
    `${gpt}\nrouter_settings: { fallbacks: [], model_group_alias: {} }\nlitellm_settings:\ngeneral_settings: {}\nenvironment_variables: {}`,
    { strategy: 'weighted' },
    ['taken router_settings.fallbacks', 'taken litellm_settings', 'taken general_settings'],
  ],
  [
    'a cache that is off',
    `${gpt}\nlitellm_settings: { cache: false, cache_params: { type: local } }`,
    { routes: { gpt: { targets: ['openai/gpt-5'] } } },
    ['taken litellm_settings.cache', 'left out litellm_settings.cache_params'],
  ],
  [
    'a model without a prefix',
    'model_list: [{ model_name: a, litellm_params: { model: gpt-4.1 } }, { model_name: b, litellm_params: { model: claude-sonnet-4-5 } }]',
    { routes: { a: { targets: ['openai/gpt-4.1'] }, b: { targets: ['anthropic/claude-sonnet-4-5'] } } },
    ['taken model_list[1].litellm_params.model'],
  ],
  [
    'a key in a variable',
    'model_list: [{ model_name: a, litellm_params: { model: groq/llama-3.3-70b-versatile, api_key: os.environ/TEAM_KEY } }]',
    { providers: { groq: { keys: ['${TEAM_KEY}'], models: ['llama-3.3-70b-versatile'] } } },
    ['taken model_list[0].litellm_params.api_key'],
  ],
  [
    'a literal key',
    'model_list: [{ model_name: a, litellm_params: { model: mistral/small, api_key: canary-0123456789 } }]',
    { providers: { mistral: { keys: ['${IMPORTED_MISTRAL_KEY_1}'], models: ['small'] } } },
    ['changed model_list[0].litellm_params.api_key'],
  ],
  [
    'two keys of one provider',
    `model_list:
  - { model_name: a, litellm_params: { model: openai/gpt-5, api_key: os.environ/ONE, weight: 1 } }
  - { model_name: a, litellm_params: { model: openai/gpt-5, api_key: os.environ/TWO, weight: 3 } }`,
    {
      providers: { openai: { keys: ['${ONE}', { value: '${TWO}', weight: 3 }], models: ['gpt-5'] } },
      routes: { a: { targets: [{ provider: 'openai', model: 'gpt-5', weight: 4 }] } },
    },
    ['taken model_list[1].litellm_params.api_key', 'taken model_list[1].litellm_params.weight'],
  ],
  [
    'two keys for different models',
    `model_list:
  - { model_name: a, litellm_params: { model: openai/gpt-5, api_key: os.environ/ONE } }
  - { model_name: b, litellm_params: { model: openai/gpt-4.1, api_key: os.environ/TWO } }`,
    { providers: { openai: { keys: ['${ONE}', '${TWO}'], models: ['gpt-5', 'gpt-4.1'] } } },
    ['changed model_list[0].litellm_params.api_key', 'changed model_list[1].litellm_params.api_key'],
  ],
  [
    'two addresses of Azure',
    `model_list:
  - { model_name: a, litellm_params: { model: azure/dep-a, api_base: "https://east.openai.azure.com/", api_key: os.environ/E, api_version: "2026-01-01" } }
  - { model_name: a, litellm_params: { model: azure/dep-b, api_base: "https://west.openai.azure.com/", api_key: os.environ/W, api_version: "2026-01-01" } }`,
    {
      providers: {
        'azure-openai': {
          baseUrl: 'https://east.openai.azure.com/',
          variables: { apiVersion: '2026-01-01' },
          keys: ['${E}'],
          models: ['dep-a'],
        },
        'azure-openai-west': {
          kind: 'azure-openai',
          baseUrl: 'https://west.openai.azure.com/',
          variables: { apiVersion: '2026-01-01' },
          keys: ['${W}'],
          models: ['dep-b'],
        },
      },
      routes: { a: { targets: ['azure-openai/dep-a', 'azure-openai-west/dep-b'] } },
    },
    ['taken model_list[0].litellm_params.api_version'],
  ],
  [
    'Azure with everything from variables',
    'model_list: [{ model_name: a, litellm_params: { model: azure/d } }]',
    { providers: { 'azure-openai': { baseUrl: '${AZURE_API_BASE}', keys: ['${AZURE_API_KEY}'], models: ['d'] } } },
    [],
  ],
  [
    'a server with the OpenAI API',
    'model_list: [{ model_name: a, litellm_params: { model: openai/qwen3, api_base: "http://10.0.0.5:8000/v1", api_key: os.environ/K } }]',
    {
      providers: {
        '10.0.0.5-8000': {
          kind: 'openai-compatible',
          baseUrl: 'http://10.0.0.5:8000/v1',
          keys: ['${K}'],
          models: ['qwen3'],
        },
      },
    },
    ['taken model_list[0].litellm_params.api_base'],
  ],
  [
    'a server without a key receives none',
    'model_list: [{ model_name: a, litellm_params: { model: openai/qwen3, api_base: "http://groq:8000/v1" } }]',
    { providers: { 'groq-8000': { kind: 'openai-compatible', baseUrl: 'http://groq:8000/v1', models: ['qwen3'] } } },
    ['changed model_list[0].litellm_params.api_base'],
  ],
  [
    'a server called like a provider',
    'model_list: [{ model_name: a, litellm_params: { model: hosted_vllm/x, api_base: "http://groq/v1" } }, { model_name: b, litellm_params: { model: openai/x, api_base: "http://groq/v1", api_key: os.environ/K } }]',
    {
      routes: { a: { targets: ['vllm/x'] }, b: { targets: ['groq-server/x'] } },
    },
    [],
  ],
  [
    'an address in a variable',
    'model_list: [{ model_name: a, litellm_params: { model: openai/x, api_base: os.environ/My__LLM_API_BASE, api_key: os.environ/K } }]',
    {
      providers: {
        'my-llm': { kind: 'openai-compatible', baseUrl: '${My__LLM_API_BASE}', keys: ['${K}'], models: ['x'] },
      },
    },
    [],
  ],
  [
    'Ollama',
    'model_list: [{ model_name: a, litellm_params: { model: ollama_chat/llama3.2 } }]',
    { providers: { ollama: { baseUrl: 'http://localhost:11434', models: ['llama3.2'] } } },
    [],
  ],
  [
    'Bedrock',
    'model_list: [{ model_name: a, litellm_params: { model: bedrock/converse/anthropic.claude-x, aws_region_name: eu-west-1, aws_access_key_id: os.environ/AWS_ACCESS_KEY_ID } }]',
    {
      providers: { bedrock: { variables: { region: 'eu-west-1' }, models: ['anthropic.claude-x'] } },
      routes: { a: { targets: ['bedrock/anthropic.claude-x'] } },
    },
    ['left out model_list[0].litellm_params.aws_access_key_id'],
  ],
  [
    'Bedrock in two regions',
    `model_list:
  - { model_name: a, litellm_params: { model: bedrock/m, aws_region_name: eu-west-1 } }
  - { model_name: a, litellm_params: { model: bedrock/m, aws_region_name: us-east-1 } }`,
    { routes: { a: { targets: ['bedrock/m', 'bedrock-us-east-1/m'] } } },
    ['taken model_list[1].litellm_params.aws_region_name'],
  ],
  [
    'Vertex',
    'model_list: [{ model_name: a, litellm_params: { model: vertex_ai/gemini-2.5-pro, vertex_project: p, vertex_location: europe-west4, vertex_credentials: os.environ/V } }]',
    {
      providers: {
        vertex: { variables: { project: 'p', location: 'europe-west4' }, models: ['gemini-2.5-pro'] },
      },
    },
    ['left out model_list[0].litellm_params.vertex_credentials'],
  ],
  [
    'another provider by custom_llm_provider',
    'model_list: [{ model_name: a, litellm_params: { model: deep/x, custom_llm_provider: deepseek } }]',
    { routes: { a: { targets: ['deepseek/deep/x'] } } },
    ['taken model_list[0].litellm_params.custom_llm_provider'],
  ],
  [
    'orders',
    `model_list:
  - { model_name: a, litellm_params: { model: openai/second, order: 2 } }
  - { model_name: a, litellm_params: { model: groq/first, order: 1 } }`,
    { routes: { a: { targets: ['groq/first'], fallback: ['openai/second'] } } },
    ['taken model_list[0].litellm_params.order'],
  ],
  [
    'rates as weights',
    `model_list:
  - { model_name: a, litellm_params: { model: openai/x, rpm: 900 } }
  - { model_name: a, litellm_params: { model: groq/x, rpm: 100 } }`,
    {
      routes: {
        a: {
          targets: [
            { provider: 'openai', model: 'x', weight: 900 },
            { provider: 'groq', model: 'x', weight: 100 },
          ],
        },
      },
    },
    ['changed model_list[0].litellm_params.rpm'],
  ],
  [
    'rates beside weights',
    'model_list: [{ model_name: a, litellm_params: { model: openai/x, rpm: 900, weight: 2 } }]',
    { routes: { a: { targets: [{ provider: 'openai', model: 'x', weight: 2 }] } } },
    ['left out model_list[0].litellm_params.rpm'],
  ],
  [
    'any model of a provider',
    'model_list: [{ model_name: "anthropic/*", litellm_params: { model: "anthropic/*" } }]',
    { providers: { anthropic: { keys: ['${ANTHROPIC_API_KEY}'] } }, unknownModel: 'reject' },
    ['taken model_list[0].model_name'],
  ],
  [
    'any model',
    'model_list: [{ model_name: "*", litellm_params: { model: "openai/*" } }]',
    { providers: { openai: { keys: ['${OPENAI_API_KEY}'] } }, unknownModel: 'route' },
    ['changed model_list[0].model_name'],
  ],
  [
    'prices',
    'model_list: [{ model_name: a, litellm_params: { model: openai/x, input_cost_per_token: 0.00000015 }, model_info: { output_cost_per_token: 6.0e-7, mode: chat } }]',
    { prices: [{ provider: 'openai', model: 'x', perMillion: { input: '0.15', output: '0.6' } }] },
    ['taken model_list[0].model_info.output_cost_per_token', 'taken model_list[0].model_info.mode'],
  ],
  [
    'a model for images',
    'model_list: [{ model_name: a, litellm_params: { model: openai/dall-e-3 }, model_info: { mode: image_generation } }]',
    { providers: {} },
    ['left out model_list[0]'],
  ],
  [
    'an unknown provider',
    'model_list: [{ model_name: a, litellm_params: { model: anthropc/x } }]',
    { providers: {} },
    ['left out model_list[0]'],
  ],
  [
    'entries that are none',
    'model_list: [7, {}, { model_name: a }, { model_name: b, litellm_params: { model: openai/ } }, { model_name: c, litellm_params: { model: openai/x, api_base: "http://u:canary@h/v1" } }]',
    { providers: {} },
    ['left out model_list[0]', 'left out model_list[1]', 'left out model_list[3]', 'left out model_list[4]'],
  ],
  [
    'named credentials',
    `model_list:
  - { model_name: a, litellm_params: { model: azure/x, litellm_credential_name: c } }
  - { model_name: b, litellm_params: { model: azure/y, litellm_credential_name: c, api_version: "2024-10-21" } }
credential_list:
  - credential_name: c
    credential_values: { api_key: os.environ/AZURE_EU, api_base: os.environ/AZURE_EU_BASE, api_version: "2024-05-01", azure_ad_token: canary }
    credential_info: { description: Europe }`,
    {
      providers: {
        'azure-openai': {
          baseUrl: '${AZURE_EU_BASE}',
          keys: ['${AZURE_EU}'],
          models: ['x'],
          variables: { apiVersion: '2024-05-01' },
        },
        'azure-openai-azure-eu-base': {
          kind: 'azure-openai',
          baseUrl: '${AZURE_EU_BASE}',
          keys: ['${AZURE_EU}'],
          models: ['y'],
          variables: { apiVersion: '2024-10-21' },
        },
      },
    },
    [
      'taken model_list[0].litellm_params.litellm_credential_name',
      'taken model_list[1].litellm_params.api_version',
      'taken credential_list[0].credential_values.api_key',
      'taken credential_list[0].credential_values.api_version',
      'left out credential_list[0].credential_values.azure_ad_token',
      'left out credential_list[0].credential_info',
    ],
  ],
  [
    'literal, unused and missing credentials',
    `model_list:
  - { model_name: a, litellm_params: { model: groq/x, litellm_credential_name: c } }
  - { model_name: b, litellm_params: { model: groq/x, litellm_credential_name: none } }
credential_list:
  - { credential_name: c, credential_values: { api_key: canary-0123456789 } }
  - { credential_name: d, credential_values: { api_key: canary-9876543210 } }
  - { credential_name: e }
  - not an entry`,
    { providers: { groq: { keys: ['${IMPORTED_GROQ_KEY_1}'], models: ['x'] } } },
    [
      'changed credential_list[0].credential_values.api_key',
      'left out model_list[1]',
      'left out credential_list[1].credential_values.api_key',
    ],
  ],
  [
    'fallbacks that are names',
    `${two}\nrouter_settings: { fallbacks: [large, missing] }`,
    {
      routes: {
        fast: { targets: ['openai/gpt-5-mini'], fallback: ['anthropic/claude-opus-4-5'] },
        large: { targets: ['anthropic/claude-opus-4-5'] },
      },
    },
    ['changed router_settings.fallbacks[0]', 'left out router_settings.fallbacks[1]'],
  ],
  [
    'parameters of requests',
    'model_list: [{ model_name: a, litellm_params: { model: openai/x, temperature: 0.2, max_tokens: 100, timeout: 30 } }]',
    {
      routes: {
        a: {
          targets: [
            {
              provider: 'openai',
              model: 'x',
              timeout: { request: 30_000 },
              default: { temperature: 0.2, maxOutputTokens: 100 },
            },
          ],
        },
      },
    },
    ['taken model_list[0].litellm_params.temperature', 'taken model_list[0].litellm_params.timeout'],
  ],
  [
    'times, attempts and cache breakpoints of deployments',
    `model_list:
  - { model_name: a, litellm_params: { model: anthropic/c, stream_timeout: 1.5, num_retries: 7, max_retries: 2, cache_control_injection_points: [{ location: message, role: system }] } }
  - { model_name: a, litellm_params: { model: openai/x, max_retries: 0, cache_control_injection_points: [{ location: message, index: -1 }] } }
  - { model_name: b, litellm_params: { model: openai/x, timeout: 0, num_retries: 1.5, temperature: 3, stop: STOP } }
  - { model_name: "groq/*", litellm_params: { model: "groq/*", timeout: 30 } }`,
    {
      routes: {
        a: {
          targets: [
            {
              provider: 'anthropic',
              model: 'c',
              timeout: { firstContent: 1_500 },
              retries: 5,
              cacheBreakpoints: 'auto',
            },
            { provider: 'openai', model: 'x', retries: 0 },
          ],
        },
        b: { targets: [{ provider: 'openai', model: 'x', default: { stop: ['STOP'] } }] },
      },
    },
    [
      'changed model_list[0].litellm_params.stream_timeout',
      'changed model_list[0].litellm_params.num_retries',
      'left out model_list[0].litellm_params.max_retries',
      'changed model_list[0].litellm_params.cache_control_injection_points',
      'left out model_list[1].litellm_params.cache_control_injection_points',
      'left out model_list[2].litellm_params.timeout',
      'left out model_list[2].litellm_params.num_retries',
      'left out model_list[2].litellm_params.temperature',
      'left out model_list[3].litellm_params.timeout',
    ],
  ],
  [
    'settings of a fallback',
    `model_list:
  - { model_name: a, litellm_params: { model: openai/x, timeout: 5 } }
  - { model_name: a, litellm_params: { model: openai/x, timeout: 60, order: 2 } }`,
    {
      routes: {
        a: {
          targets: [{ provider: 'openai', model: 'x', timeout: { request: 5_000 } }],
          fallback: [{ provider: 'openai', model: 'x', timeout: { request: 60_000 } }],
        },
      },
    },
    ['taken model_list[1].litellm_params.timeout'],
  ],
  [
    'silent models',
    `model_list:
  - { model_name: a, litellm_params: { model: openai/x, silent_model: trial } }
  - { model_name: a, litellm_params: { model: groq/y, silent_model: trial } }
  - { model_name: trial, litellm_params: { model: anthropic/z, timeout: 5, silent_model: gone } }
  - { model_name: "mistral/*", litellm_params: { model: "mistral/*", silent_model: trial } }
  - { model_name: a, litellm_params: { model: openai/v, silent_model: b } }
  - { model_name: b, litellm_params: { model: openai/w } }`,
    {
      routes: {
        a: {
          targets: ['openai/x', 'groq/y', 'openai/v'],
          shadow: {
            to: { provider: 'anthropic', model: 'z', timeout: { request: 5_000 } },
            percent: 100,
            budget: '10.00',
          },
        },
        trial: { targets: [{ provider: 'anthropic', model: 'z', timeout: { request: 5_000 } }] },
        b: { targets: ['openai/w'] },
      },
    },
    [
      'changed model_list[0].litellm_params.silent_model',
      'changed model_list[1].litellm_params.silent_model',
      'left out model_list[2].litellm_params.silent_model',
      'left out model_list[3].litellm_params.silent_model',
      'left out model_list[4].litellm_params.silent_model',
    ],
  ],
  [
    'tags, of which one is the default',
    `model_list:
  - { model_name: a, litellm_params: { model: openai/free, tags: [free] } }
  - { model_name: a, litellm_params: { model: openai/other, tags: [default] } }
  - { model_name: b, litellm_params: { model: openai/b } }
router_settings: { enable_tag_filtering: true }`,
    {
      routes: {
        a: {
          targets: [
            { provider: 'openai', model: 'free', when: FREE },
            {
              provider: 'openai',
              model: 'other',
              when: { header: { 'x-litellm-tags': FREE.header['x-litellm-tags'].map((pattern) => `!${pattern}`) } },
            },
          ],
        },
        b: { targets: ['openai/b'] },
      },
    },
    ['changed model_list[0].litellm_params.tags', 'taken router_settings.enable_tag_filtering'],
  ],
  [
    'tags that cannot be conditions, or select nothing',
    `model_list:
  - { model_name: a, litellm_params: { model: openai/x, tags: ["eu*"] } }
  - { model_name: b, litellm_params: { model: openai/y, tags: [default] } }
  - { model_name: "groq/*", litellm_params: { model: "groq/*", tags: [free] } }
router_settings: { enable_tag_filtering: true, tag_filtering_match_any: true }`,
    { routes: { a: { targets: ['openai/x'] }, b: { targets: ['openai/y'] } } },
    [
      'left out model_list[0].litellm_params.tags',
      'taken model_list[1].litellm_params.tags',
      'left out model_list[2].litellm_params.tags',
      'taken router_settings.tag_filtering_match_any',
    ],
  ],
  [
    'tags without a filter, or of which all must match',
    `model_list: [{ model_name: a, litellm_params: { model: openai/x, tags: [free] } }]
router_settings: { enable_tag_filtering: true, tag_filtering_match_any: false }`,
    { routes: { a: { targets: ['openai/x'] } } },
    ['left out model_list[0].litellm_params.tags', 'changed router_settings.tag_filtering_match_any'],
  ],
  [
    'fallbacks',
    `${two}\nlitellm_settings: { fallbacks: [{ fast: [large] }], num_retries: 2 }`,
    {
      routes: {
        fast: { targets: ['openai/gpt-5-mini'], fallback: ['anthropic/claude-opus-4-5'] },
        large: { targets: ['anthropic/claude-opus-4-5'] },
      },
      retry: { maxAttempts: 6 },
    },
    ['changed litellm_settings.fallbacks[0].fast', 'changed litellm_settings.num_retries'],
  ],
  [
    'other kinds of fallbacks',
    `${two}\nrouter_settings: { context_window_fallbacks: [{ fast: [large] }], content_policy_fallbacks: [{ fast: [large] }], default_fallbacks: [large], fallbacks: [{ fast: [gone] }] }`,
    {
      routes: {
        fast: { targets: ['openai/gpt-5-mini'], fallback: ['anthropic/claude-opus-4-5'] },
        large: { targets: ['anthropic/claude-opus-4-5'] },
      },
    },
    [
      'changed router_settings.context_window_fallbacks[0].fast',
      'left out router_settings.content_policy_fallbacks',
      'changed router_settings.default_fallbacks',
      'left out router_settings.fallbacks[0].fast',
    ],
  ],
  [
    'aliases',
    `${two}\nrouter_settings: { model_group_alias: { quick: fast, secret: { model: large, hidden: true }, gone: none } }`,
    {
      routes: {
        fast: { targets: ['openai/gpt-5-mini'] },
        large: { targets: ['anthropic/claude-opus-4-5'] },
        quick: { targets: ['openai/gpt-5-mini'] },
        secret: { targets: ['anthropic/claude-opus-4-5'] },
      },
    },
    [
      'taken router_settings.model_group_alias.quick',
      'changed router_settings.model_group_alias.secret',
      'left out router_settings.model_group_alias.gone',
    ],
  ],
  ...Object.entries({
    'simple-shuffle': 'weighted',
    'least-busy': 'priority',
    'usage-based-routing-v2': 'priority',
    'latency-based-routing': 'latency',
    'cost-based-routing': 'cost',
  }).map(
    ([name, strategy]): ImportCase => [
      `the strategy ${name}`,
      `${gpt}\nrouter_settings: { routing_strategy: ${name} }`,
      { strategy },
      [`${strategy === 'weighted' ? 'taken' : 'changed'} router_settings.routing_strategy`],
    ],
  ),
  [
    'retries, times and cooldowns',
    `${gpt}\nrouter_settings: { num_retries: 2, timeout: 30, stream_timeout: 1.5, allowed_fails: 3, cooldown_time: 5, retry_after: 1, enable_pre_call_checks: true }`,
    {
      retry: { maxAttempts: 3 },
      timeout: { request: 30_000, firstContent: 1_500 },
      circuit: { consecutiveFailures: 4, resetTimeout: 5_000 },
    },
    ['changed router_settings.timeout', 'left out router_settings.retry_after'],
  ],
  [
    'values of the wrong type',
    `${gpt}\nrouter_settings: { num_retries: many, timeout: soon, allowed_fails: -1, cooldown_time: 0, routing_strategy: best, fallbacks: none }\nlitellm_settings: { num_retries: [2], cache: 1 }\ngeneral_settings: []`,
    { providers: { openai: { keys: ['${OPENAI_API_KEY}'], models: ['gpt-5'] } } },
    ['left out router_settings.num_retries', 'left out router_settings.timeout', 'left out router_settings.fallbacks'],
  ],
  [
    'a setting in two sections',
    `${gpt}\nrouter_settings: { num_retries: 1 }\nlitellm_settings: { num_retries: 5 }`,
    { retry: { maxAttempts: 2 } },
    ['changed router_settings.num_retries', 'left out litellm_settings.num_retries'],
  ],
  [
    'the cache in memory',
    `${gpt}\nlitellm_settings: { cache: true, cache_params: { type: local, ttl: 60, namespace: n } }`,
    { routes: { gpt: { targets: ['openai/gpt-5'], cache: { ttl: 60, anyTemperature: true } } } },
    ['changed litellm_settings.cache', 'left out litellm_settings.cache_params.namespace'],
  ],
  [
    'the cache in Redis',
    `${gpt}\nlitellm_settings: { cache: true, cache_params: { type: redis, host: h, password: os.environ/P } }`,
    { routes: { gpt: { targets: ['openai/gpt-5'], cache: { anyTemperature: true } } } },
    ['changed litellm_settings.cache_params.type', 'left out litellm_settings.cache_params.password'],
  ],
  [
    'the master key',
    `${gpt}\ngeneral_settings: { master_key: os.environ/LITELLM_MASTER_KEY, database_url: os.environ/DATABASE_URL }`,
    { auth: { admin: '${LITELLM_MASTER_KEY}', required: true } },
    ['changed general_settings.master_key', 'left out general_settings.database_url'],
  ],
  [
    'a literal master key',
    `${gpt}\ngeneral_settings: { master_key: sk-canary-0123456789 }`,
    { auth: { admin: '${IMPORTED_ADMIN_1}', required: true } },
    ['changed general_settings.master_key'],
  ],
  [
    'limits and alerts of the proxy',
    `${gpt}\ngeneral_settings: { max_request_size_mb: 2, global_max_parallel_requests: 50, alerting: [slack], alerting_threshold: 300 }`,
    {
      limit: { body: 2_097_152, concurrent: 50 },
      alerts: { url: '${SLACK_WEBHOOK_URL}', format: 'slack' },
    },
    ['taken general_settings.max_request_size_mb', 'left out general_settings.alerting_threshold'],
  ],
  [
    'a budget of the proxy',
    `${gpt}\nlitellm_settings: { max_budget: 100, budget_duration: 30d }`,
    { budgets: { imported: { amount: '100.00', period: 'month' } } },
    ['taken litellm_settings.max_budget', 'changed litellm_settings.budget_duration'],
  ],
  [
    'callbacks, guardrails and further sections',
    `${gpt}\nlitellm_settings: { callbacks: [my.handler], success_callback: [langfuse], drop_params: true, set_verbose: true }\nguardrails: [{ guardrail_name: g }]\nmcp_servers: { a: { url: "http://canary@m" } }\ninclude: [more.yaml]`,
    { strategy: 'weighted' },
    [
      'left out litellm_settings.callbacks',
      'taken litellm_settings.drop_params',
      'left out guardrails',
      'left out include',
    ],
  ],
  [
    'guards with services',
    `${gpt}
guardrails:
  - guardrail_name: shield
    litellm_params:
      guardrail: generic_guardrail_api
      mode: [pre_call, post_call]
      api_base: "https://guard.example/x"
      api_key: os.environ/GUARD_KEY
      unreachable_fallback: fail_open
      additional_provider_specific_params: { threshold: 0.8 }
      default_on: true
  - guardrail_name: pii
    litellm_params:
      guardrail: presidio
      mode: pre_call
      presidio_analyzer_api_base: "http://presidio:3000"
      pii_entities_config: { EMAIL_ADDRESS: MASK, PERSON: MASK, US_SSN: BLOCK }
      default_on: true
  - guardrail_name: aws
    litellm_params: { guardrail: bedrock, mode: during_call, guardrailIdentifier: gr1abc, guardrailVersion: "3", aws_region_name: eu-west-1 }
  - guardrail_name: harm
    litellm_params: { guardrail: openai_moderation, mode: pre_call, api_key: os.environ/MODERATION_KEY, model: omni-moderation-latest }
  - guardrail_name: lakera
    litellm_params: { guardrail: lakera_v2, mode: pre_call }`,
    {
      guards: {
        shield: {
          on: ['request', 'answer'],
          action: 'mask',
          service: {
            kind: 'litellm',
            url: 'https://guard.example/x',
            headers: { 'x-api-key': '${GUARD_KEY}' },
            parameters: { threshold: 0.8 },
            onError: 'allow',
          },
        },
        pii: {
          on: ['request'],
          action: 'mask',
          service: { kind: 'presidio', url: 'http://presidio:3000', entities: ['EMAIL_ADDRESS', 'PERSON'] },
        },
        'pii-block': {
          on: ['request'],
          action: 'block',
          service: { kind: 'presidio', url: 'http://presidio:3000', entities: ['US_SSN'] },
        },
        aws: {
          on: ['request'],
          action: 'mask',
          service: { kind: 'bedrock', guardrail: 'gr1abc', version: '3', region: 'eu-west-1' },
          onlyTeams: [],
        },
        harm: {
          on: ['request'],
          action: 'block',
          service: {
            kind: 'moderation',
            model: 'omni-moderation-latest',
            headers: { authorization: 'Bearer ${MODERATION_KEY}' },
          },
          onlyTeams: [],
        },
      },
    },
    [
      'taken guardrails[0].guardrail_name',
      'taken guardrails[0].litellm_params.api_base',
      'changed guardrails[0].litellm_params.unreachable_fallback',
      'taken guardrails[1].litellm_params.pii_entities_config',
      'changed guardrails[2].litellm_params.mode',
      'taken guardrails[3].litellm_params.api_key',
      'left out guardrails[4].guardrail_name',
    ],
  ],
  [
    'variables of the file',
    'environment_variables: { USED: canary-0123456789, OTHER: canary-2 }\nmodel_list: [{ model_name: a, litellm_params: { model: groq/x, api_key: os.environ/USED } }]',
    { providers: { groq: { keys: ['${USED}'], models: ['x'] } } },
    ['changed environment_variables.USED', 'left out environment_variables.OTHER'],
  ],
  [
    'anchors and merged members',
    'base: &base { api_key: os.environ/K }\nmodel_list: [{ model_name: a, litellm_params: { <<: *base, model: groq/x } }]',
    { providers: { groq: { keys: ['${K}'], models: ['x'] } } },
    ['taken model_list[0].litellm_params.api_key', 'left out base.api_key'],
  ],
  [
    'names that are no plain words',
    'model_list: [{ model_name: "my model: 1", litellm_params: { model: openai/x } }, { model_name: __proto__, litellm_params: { model: openai/y } }, { model_name: 4.1, litellm_params: { model: openai/z } }]',
    { providers: { openai: { keys: ['${OPENAI_API_KEY}'], models: ['x', 'y'] } } },
    ['left out model_list[2]'],
  ],
  [
    'Vertex with everything from variables',
    'model_list: [{ model_name: a, litellm_params: { model: vertex_ai/gemini-2.5-flash } }]',
    {
      providers: {
        vertex: {
          variables: { project: '${VERTEXAI_PROJECT}', location: '${VERTEXAI_LOCATION}' },
          models: ['gemini-2.5-flash'],
        },
      },
    },
    [],
  ],
  [
    'text completions of OpenAI',
    'model_list: [{ model_name: a, litellm_params: { model: text-completion-openai/gpt-3.5-turbo-instruct } }]',
    { routes: { a: { targets: ['openai/gpt-3.5-turbo-instruct'] } } },
    ['taken model_list[0].litellm_params.model'],
  ],
  [
    'the address as base_url',
    'model_list: [{ model_name: a, litellm_params: { model: openai/x, base_url: "http://gpu-1:8080/v1", api_key: os.environ/K } }]',
    {
      providers: {
        'gpu-1-8080': { kind: 'openai-compatible', baseUrl: 'http://gpu-1:8080/v1', keys: ['${K}'], models: ['x'] },
      },
    },
    ['taken model_list[0].litellm_params.base_url'],
  ],
  [
    "OpenAI's own address",
    'model_list: [{ model_name: a, litellm_params: { model: openai/gpt-5, api_base: "https://eu.api.openai.com/v1" } }]',
    {
      providers: {
        openai: { baseUrl: 'https://eu.api.openai.com/v1', keys: ['${OPENAI_API_KEY}'], models: ['gpt-5'] },
      },
    },
    ['taken model_list[0].litellm_params.api_base'],
  ],
  [
    "OpenAI's responses",
    'model_list: [{ model_name: a, litellm_params: { model: openai/responses/gpt-5-pro }, model_info: { mode: responses } }]',
    { routes: { a: { targets: ['openai/gpt-5-pro'] } } },
    ['taken model_list[0].model_info.mode'],
  ],
  [
    'an embedding model',
    'model_list: [{ model_name: vectors, litellm_params: { model: text-embedding-3-small }, model_info: { mode: embedding, base_model: x } }]',
    { routes: { vectors: { targets: ['openai/text-embedding-3-small'] } } },
    ['taken model_list[0].model_info.mode', 'left out model_list[0].model_info.base_model'],
  ],
  [
    'tokens per minute as weights',
    `model_list:
  - { model_name: a, litellm_params: { model: openai/x, tpm: 30000 } }
  - { model_name: a, litellm_params: { model: mistral/x, tpm: 10000 } }`,
    {
      routes: {
        a: {
          targets: [
            { provider: 'openai', model: 'x', weight: 30_000 },
            { provider: 'mistral', model: 'x', weight: 10_000 },
          ],
        },
      },
    },
    ['changed model_list[0].litellm_params.tpm', 'changed model_list[1].litellm_params.tpm'],
  ],
  [
    'rates with a strategy that does not use them',
    `model_list: [{ model_name: a, litellm_params: { model: openai/x, rpm: 5 } }]\nrouter_settings: { routing_strategy: latency-based-routing, routing_strategy_args: { ttl: 10 } }`,
    { routes: { a: { targets: ['openai/x'] } }, strategy: 'latency' },
    ['left out model_list[0].litellm_params.rpm', 'left out router_settings.routing_strategy_args'],
  ],
  [
    'weights that are none',
    'model_list: [{ model_name: a, litellm_params: { model: openai/x, weight: 0, order: first } }]',
    { routes: { a: { targets: ['openai/x'] } } },
    ['left out model_list[0].litellm_params.weight', 'left out model_list[0].litellm_params.order'],
  ],
  [
    'prices in both places',
    'model_list: [{ model_name: a, litellm_params: { model: openai/x, output_cost_per_token: 0.000002 }, model_info: { input_cost_per_token: 1e-6, cache_read_input_token_cost: 1e-7, cache_creation_input_token_cost: 2e-6 } }]',
    {
      prices: [
        { provider: 'openai', model: 'x', perMillion: { output: '2', input: '1', cacheRead: '0.1', cacheWrite: '2' } },
      ],
    },
    [
      'taken model_list[0].litellm_params.output_cost_per_token',
      'taken model_list[0].model_info.cache_creation_input_token_cost',
    ],
  ],
  [
    'prices that are none',
    'model_list: [{ model_name: a, litellm_params: { model: openai/x, input_cost_per_token: free } }]',
    { routes: { a: { targets: ['openai/x'] } } },
    ['left out model_list[0].litellm_params.input_cost_per_token'],
  ],
  [
    'prices below and above those of headgate.yaml',
    'model_list: [{ model_name: a, litellm_params: { model: openai/x, input_cost_per_token: 1e-10, output_cost_per_token: 0.2 } }]',
    { routes: { a: { targets: ['openai/x'] } } },
    [
      'left out model_list[0].litellm_params.input_cost_per_token',
      'left out model_list[0].litellm_params.output_cost_per_token',
    ],
  ],
  [
    'access groups, tags and team settings',
    `model_list: [{ model_name: a, litellm_params: { model: openai/x, tags: [free] }, model_info: { id: m1, access_groups: [beta] } }]\nlitellm_settings: { default_team_settings: [{ team_id: t }] }\nrouter_settings: { enable_tag_filtering: true }`,
    {
      routes: {
        a: {
          targets: [
            { provider: 'openai', model: 'x', when: FREE },
            { provider: 'openai', model: 'x', when: { header: { 'x-litellm-tags': ['!*'] } } },
          ],
        },
      },
    },
    [
      'changed model_list[0].litellm_params.tags',
      'left out model_list[0].model_info.access_groups',
      'taken router_settings.enable_tag_filtering',
    ],
  ],
  [
    'retry policies',
    `${gpt}\nrouter_settings: { retry_policy: { TimeoutErrorRetries: 3 }, allowed_fails_policy: { RateLimitErrorAllowedFails: 100 }, disable_cooldowns: true }`,
    { strategy: 'weighted' },
    [
      'left out router_settings.retry_policy',
      'left out router_settings.allowed_fails_policy',
      'left out router_settings.disable_cooldowns',
    ],
  ],
  [
    'Redis and several instances',
    `${gpt}\nrouter_settings: { redis_host: os.environ/REDIS_HOST, redis_port: 6379, redis_password: os.environ/REDIS_PASSWORD }\ngeneral_settings: { use_redis_transaction_buffer: true, proxy_batch_write_at: 60 }`,
    { strategy: 'weighted' },
    ['left out router_settings.redis_host', 'left out general_settings.proxy_batch_write_at'],
  ],
  [
    'sign-in and hooks',
    `${gpt}\ngeneral_settings: { custom_auth: hooks.check, enable_oauth2_auth: true, allowed_routes: [/chat/completions] }`,
    { strategy: 'weighted' },
    [
      'left out general_settings.custom_auth',
      'left out general_settings.enable_oauth2_auth',
      'left out general_settings.allowed_routes',
    ],
  ],
  [
    'signed tokens of several issuers',
    // The example of docs.litellm.ai/docs/proxy/jwt_auth_reference, and one issuer more.
    `${gpt}
general_settings:
  master_key: os.environ/MASTER_KEY
  enable_jwt_auth: true
  litellm_jwtauth:
    user_id_upsert: true
    admin_jwt_scope: litellm-admin
    issuers:
      - { issuer: "https://keycloak.example.com/realms/my-realm", audience: litellm-proxy, user_id_jwt_field: sub, user_email_jwt_field: email, team_ids_jwt_field: realm_access.groups }
      - { issuer: "https://workloads.example.com", jwks_url: "https://workloads.example.com/.well-known/jwks.json", audience: [a, b], team_id_jwt_field: sub, team_ids_jwt_field: groups }
      - { issuer: "https://token.actions.githubusercontent.com", audience: litellm-proxy }
      - { issuer: "https://open.example.com", disable_audience_validation: true }`,
    {
      auth: {
        admin: '${MASTER_KEY}',
        required: true,
        jwt: [
          {
            name: 'keycloak-1',
            issuer: 'https://keycloak.example.com/realms/my-realm',
            audience: ['litellm-proxy'],
            subject: 'sub',
            user: 'email',
            team: { claim: '/realm_access/groups', map: {} },
          },
          {
            name: 'workloads-2',
            issuer: 'https://workloads.example.com',
            audience: ['a', 'b'],
            jwks: 'https://workloads.example.com/.well-known/jwks.json',
            team: { claim: 'sub', map: {} },
          },
        ],
      },
    },
    [
      'taken general_settings.enable_jwt_auth',
      'left out general_settings.litellm_jwtauth.user_id_upsert',
      'left out general_settings.litellm_jwtauth.admin_jwt_scope',
      'taken general_settings.litellm_jwtauth.issuers[0].user_id_jwt_field',
      'changed general_settings.litellm_jwtauth.issuers[0].user_email_jwt_field',
      'changed general_settings.litellm_jwtauth.issuers[0].team_ids_jwt_field',
      'left out general_settings.litellm_jwtauth.issuers[1].team_ids_jwt_field',
      'left out general_settings.litellm_jwtauth.issuers[2]',
      'left out general_settings.litellm_jwtauth.issuers[3]',
    ],
  ],
  [
    'signed tokens of the issuer of the environment',
    `${gpt}\ngeneral_settings: { enable_jwt_auth: true, litellm_jwtauth: { user_id_jwt_field: sub, team_id_jwt_field: client_id, team_id_default: t1, team_idd_jwt_field: x } }`,
    {
      auth: {
        jwt: [
          {
            name: 'imported',
            issuer: '${JWT_ISSUER}',
            audience: ['${JWT_AUDIENCE}'],
            jwks: '${JWT_PUBLIC_KEY_URL}',
            subject: 'sub',
            team: { claim: 'client_id', map: {} },
          },
        ],
      },
    },
    [
      'changed general_settings.enable_jwt_auth',
      'changed general_settings.litellm_jwtauth.team_id_jwt_field',
      'left out general_settings.litellm_jwtauth.team_id_default',
      'left out general_settings.litellm_jwtauth.team_idd_jwt_field',
    ],
  ],
  [
    'signed tokens that are off, and no issuer that can be used',
    `${gpt}\ngeneral_settings: { enable_jwt_auth: false, litellm_jwtauth: { user_id_jwt_field: sub } }`,
    { auth: undefined },
    ['taken general_settings.enable_jwt_auth', 'left out general_settings.litellm_jwtauth'],
  ],
  [
    'regions',
    `model_list:
  - { model_name: gpt, litellm_params: { model: azure/gpt-35-turbo, api_base: "https://eu.openai.azure.com", api_key: os.environ/EU_KEY, region_name: eu } }
  - { model_name: gpt, litellm_params: { model: openai/gpt-5, region_name: us } }
  - { model_name: gpt, litellm_params: { model: openai/gpt-5, region_name: eu } }
  - { model_name: gpt, litellm_params: { model: openai/gpt-5, region_name: mars } }`,
    {
      routes: {
        gpt: { targets: ['azure-openai/gpt-35-turbo', 'openai/gpt-5', 'openai-eu/gpt-5', 'openai-2/gpt-5'] },
      },
    },
    [
      'changed model_list[0].litellm_params.region_name',
      'changed model_list[2].litellm_params.region_name',
      'left out model_list[3].litellm_params.region_name',
    ],
  ],
  [
    'a region beside other settings',
    'model_list: [{ model_name: gpt, litellm_params: { model: openai/gpt-5, region_name: eu } }]',
    { providers: { openai: { keys: ['${OPENAI_API_KEY}'], facts: { region: 'eu' }, models: ['gpt-5'] } } },
    ['changed model_list[0].litellm_params.region_name'],
  ],
  [
    'a budget for an odd period',
    `${gpt}\nlitellm_settings: { max_budget: 10, budget_duration: 90d }`,
    { strategy: 'weighted' },
    ['left out litellm_settings.max_budget', 'left out litellm_settings.budget_duration'],
  ],
  [
    'fallbacks by a wildcard',
    `${two}\nlitellm_settings: { fallbacks: [{ "*": [large] }] }`,
    {
      routes: {
        fast: { targets: ['openai/gpt-5-mini'], fallback: ['anthropic/claude-opus-4-5'] },
        large: { targets: ['anthropic/claude-opus-4-5'] },
      },
    },
    ['changed litellm_settings.fallbacks[0].*'],
  ],
]

for (const one of CONFIGS) test(`import litellm: ${one[0]}`, () => checkImport(sourceOf(one[1]), imported(one[1]), one))

test('import litellm: a row has the line of its member', () => {
  const { rows } = imported(`# a comment\n${two}\nrouter_settings:\n\n  num_retries: 1\n`)
  assert.deepEqual(
    rows.map(({ line }) => line),
    [3, 3, 4, 4, 7],
  )
})

test('import litellm: an unknown member is named with the nearest known one', () => {
  const { rows } = imported(
    'model_list: [{ model_nmae: x, model_name: a, litellm_params: { model: openai/x, api_kee: canary } }]\nroutersettings: 1\nrouter_settings: { num_retry: 2 }',
  )
  const unknown = rows.filter(({ why }) => why.startsWith('unknown member')).map(({ member, why }) => [member, why])
  assert.deepEqual(unknown, [
    ['model_list[0].model_nmae', 'unknown member; did you mean model_name?'],
    ['model_list[0].litellm_params.api_kee', 'unknown member; did you mean api_key?'],
    ['routersettings', 'unknown member; did you mean router_settings?'],
    ['router_settings.num_retry', 'unknown member; did you mean num_retries?'],
  ])
})

test('import litellm: what has no counterpart is left out as a whole, with the reason of its family', () => {
  const { rows } = imported(`model_list:
  - model_name: a
    litellm_params: { model: openai/x, safety_settings: [{ category: c, threshold: t }], vertex_ai_credentials: canary }
    model_info: { supports_reasoning: true, health_check_timeout: 5 }
litellm_settings:
  priority_reservation: { prod: 0.9, dev: 0.1 }
  cache_params: { redis_startup_nodes: [{ host: h }] }
general_settings: { mcp_internal_ip_ranges: [10.0.0.0/8], control_plane_url: "http://x" }
policies: { p: { guardrails: { add: [g] } } }`)
  const whys = rows.filter(({ outcome }) => outcome === 'left out').map(({ member, why }) => [member, why])
  assert.deepEqual(whys, [
    ['model_list[0].litellm_params.safety_settings', 'parameters of requests are set by the client'],
    [
      'model_list[0].litellm_params.vertex_ai_credentials',
      "the machine's own credentials are used: set the variables of the cloud's SDK",
    ],
    ['model_list[0].model_info.supports_reasoning', 'capabilities and limits come from the catalogue'],
    ['model_list[0].model_info.health_check_timeout', 'there are no health checks by requests'],
    ['litellm_settings.priority_reservation', 'requests have no priorities'],
    ['litellm_settings.cache_params', 'the cache is off'],
    ['general_settings.mcp_internal_ip_ranges', 'there is no gateway for MCP servers'],
    ['general_settings.control_plane_url', 'no setting corresponds to it'],
    ['policies', 'guards are written by hand; see docs/guards.md'],
  ])
})

test('import litellm: what is no configuration is refused without a part of its text', () => {
  for (const text of [
    'a: [canary',
    'a: "canary',
    '\tcanary: 1',
    '*canary',
    '- [canary}',
    `${'['.repeat(50_000)}canary`,
  ]) {
    const parsed = parseSource(text)
    assert.equal(parsed.ok, false, text.slice(0, 20))
    assert.doesNotMatch(JSON.stringify(parsed), /canary/)
  }
  for (const text of ['', 'hello', '- a', 'model_list: 5', 'providers: {}']) {
    const parsed = parseSource(text)
    assert.ok(parsed.ok)
    assert.equal(importLitellm(parsed.source, reserved), undefined, text)
  }
})
