// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references to variables are under test
// biome-ignore-all lint/suspicious/noThenProperty: a member of Portkey's conditions
/** Configurations of Portkey's gateway, written for these tests: what each becomes, and that the loader accepts it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { checkImport, type ImportCase, known, sourceOf } from '../../test/support/imports.ts'
import { importPortkey } from './portkey.ts'

const target = (provider: string, model: string, more: object = {}) => ({
  provider,
  api_key: `canary-${provider}`,
  override_params: { model },
  ...more,
})
const openai = target('openai', 'gpt-5')
const claude = target('anthropic', 'claude-x')
const [OPENAI, ANTHROPIC] = ['${IMPORTED_OPENAI_KEY_1}', '${IMPORTED_ANTHROPIC_KEY_2}']

const PAID = { tag: { plan: ['paid'] }, user: ['!bob'] }

/** The source as an object. */
const CASES: readonly (readonly [string, object, ImportCase[2], ImportCase[3]])[] = [
  [
    'one target',
    openai,
    {
      providers: { openai: { keys: [OPENAI], models: ['gpt-5'] } },
      routes: { default: { targets: ['openai/gpt-5'] } },
      fallback: 'same-model',
      unknownModel: 'reject',
      strategy: 'priority',
    },
    ['taken provider', 'changed api_key', 'taken override_params.model'],
  ],
  [
    'one provider, with the model of the client',
    { provider: 'groq', api_key: 'canary' },
    { providers: { groq: { keys: ['${IMPORTED_GROQ_KEY_1}'] } }, routes: undefined },
    ['taken provider'],
  ],
  [
    'a provider without a key',
    { provider: 'openai', override_params: { model: 'gpt-5' } },
    { providers: { openai: { keys: ['${OPENAI_API_KEY}'], models: ['gpt-5'] } } },
    [],
  ],
  [
    'a fallback',
    { strategy: { mode: 'fallback', on_status_codes: [429] }, targets: [openai, claude] },
    { routes: { default: { targets: ['openai/gpt-5'], fallback: ['anthropic/claude-x'] } } },
    ['taken strategy.mode', 'left out strategy.on_status_codes', 'taken targets[1].override_params.model'],
  ],
  [
    'a fallback with the model of the client first',
    { strategy: { mode: 'fallback' }, targets: [{ provider: 'openai', api_key: 'canary' }, claude] },
    {
      providers: { openai: { keys: [OPENAI] }, anthropic: { keys: [ANTHROPIC], models: ['claude-x'] } },
      routes: undefined,
      fallback: 'any',
    },
    ['taken targets[1].override_params.model'],
  ],
  [
    'another model of the same provider without a route',
    { strategy: { mode: 'fallback' }, targets: [{ provider: 'openai', api_key: 'canary-openai' }, openai] },
    { providers: { openai: { keys: [OPENAI] } }, fallback: 'same-model' },
    ['left out targets[1].override_params.model'],
  ],
  [
    'shares',
    {
      strategy: { mode: 'loadbalance' },
      targets: [target('openai', 'gpt-5', { weight: 0.7 }), target('anthropic', 'claude-x', { weight: 0.3 })],
    },
    {
      strategy: 'weighted',
      routes: {
        default: {
          targets: [
            { provider: 'openai', model: 'gpt-5', weight: 0.7 },
            { provider: 'anthropic', model: 'claude-x', weight: 0.3 },
          ],
        },
      },
    },
    ['changed strategy.mode', 'taken targets[0].weight'],
  ],
  [
    'two keys of one provider',
    {
      strategy: { mode: 'loadbalance' },
      targets: [
        { provider: 'openai', api_key: 'canary-1', weight: 3 },
        { provider: 'openai', api_key: 'canary-2', weight: 1 },
      ],
    },
    { providers: { openai: { keys: [{ value: OPENAI, weight: 3 }, '${IMPORTED_OPENAI_KEY_2}'] } } },
    ['taken targets[0].weight'],
  ],
  [
    'shares without models',
    {
      strategy: { mode: 'loadbalance' },
      targets: [
        { provider: 'openai', api_key: 'canary', weight: 3 },
        { provider: 'groq', api_key: 'canary-2', weight: 1 },
      ],
    },
    { routes: undefined, strategy: 'weighted', fallback: 'any' },
    ['left out targets[0].weight'],
  ],
  [
    'a target without a share',
    { strategy: { mode: 'loadbalance' }, targets: [openai, target('groq', 'x', { weight: 0 })] },
    { routes: { default: { targets: ['openai/gpt-5'] } } },
    ['left out targets[1]'],
  ],
  [
    'shares, then a fallback',
    {
      strategy: { mode: 'fallback' },
      targets: [
        {
          strategy: { mode: 'loadbalance', on_status_codes: [500] },
          targets: [target('openai', 'gpt-5', { weight: 3 }), target('anthropic', 'claude-x', { weight: 1 })],
        },
        target('groq', 'llama'),
      ],
    },
    {
      routes: {
        default: {
          targets: [{ provider: 'openai', model: 'gpt-5', weight: 3 }, 'anthropic/claude-x'],
          fallback: ['groq/llama'],
        },
      },
    },
    ['taken targets[0].targets[0].weight', 'left out targets[0].strategy.on_status_codes'],
  ],
  [
    'fallbacks within shares',
    {
      strategy: { mode: 'loadbalance' },
      targets: [
        { weight: 9, strategy: { mode: 'fallback' }, targets: [openai, claude] },
        target('groq', 'llama', { weight: 1 }),
      ],
    },
    {
      routes: {
        default: {
          targets: [{ provider: 'openai', model: 'gpt-5', weight: 9 }, 'groq/llama'],
          fallback: ['anthropic/claude-x'],
        },
      },
    },
    ['taken targets[0].weight'],
  ],
  [
    'the strategy single',
    { strategy: { mode: 'single' }, targets: [openai, claude] },
    { routes: { default: { targets: ['openai/gpt-5'] } } },
    ['left out targets[1]'],
  ],
  [
    'routes by the name of the model',
    {
      strategy: {
        mode: 'conditional',
        conditions: [
          { query: { 'params.model': { $eq: 'fast' } }, then: 'small' },
          { query: { 'params.model': { $in: ['good', 'best'] } }, then: 'large' },
          { query: { 'metadata.plan': { $eq: 'paid' } }, then: 'paid' },
          { query: { 'params.model': 'gone' }, then: 'none' },
        ],
        default: 'small',
      },
      targets: [
        { name: 'small', ...openai },
        { name: 'large', ...claude },
        { name: 'paid', ...target('groq', 'llama') },
      ],
    },
    {
      routes: {
        fast: { targets: ['openai/gpt-5'] },
        good: { targets: ['anthropic/claude-x'] },
        best: { targets: ['anthropic/claude-x'] },
        default: {
          targets: [{ provider: 'groq', model: 'llama', when: { tag: { plan: ['paid'] } } }],
          fallback: ['openai/gpt-5'],
        },
      },
    },
    [
      'taken strategy.conditions[0]',
      'changed strategy.conditions[2]',
      'left out strategy.conditions[3]',
      'taken strategy.default',
    ],
  ],
  [
    'conditions on metadata, paths and effort',
    {
      strategy: {
        mode: 'conditional',
        conditions: [
          { query: { 'metadata.plan': { $eq: 'paid' }, 'metadata._user': { $nin: ['bob'] } }, then: 'large' },
          {
            query: { $or: [{ 'url.pathname': '/v1/messages' }, { 'params.reasoning_effort': { $in: ['high'] } }] },
            then: 'fast',
          },
          { query: { $and: [{ 'params.model': 'x' }, { 'metadata.plan': { $ne: 'free' } }] }, then: 'large' },
          { query: { 'params.max_tokens': { $gt: 100 } }, then: 'large' },
          { query: { 'metadata.plan': { $regex: '^p' } }, then: 'large' },
          { query: { $and: [{ 'metadata.plan': 'a' }, { 'metadata.plan': 'b' }] }, then: 'large' },
          { query: {}, then: 'large' },
        ],
        default: 'small',
      },
      targets: [
        { name: 'small', ...openai },
        { name: 'large', ...claude },
        { name: 'fast', ...target('groq', 'llama') },
      ],
    },
    {
      routes: {
        x: {
          targets: [{ provider: 'anthropic', model: 'claude-x', when: PAID }],
          fallback: [
            { provider: 'groq', model: 'llama', when: { style: ['messages'] } },
            { provider: 'groq', model: 'llama', when: { effort: ['high'] } },
            { provider: 'anthropic', model: 'claude-x', when: { tag: { plan: ['!free'] } } },
            'openai/gpt-5',
          ],
        },
        default: {
          targets: [{ provider: 'anthropic', model: 'claude-x', when: PAID }],
          fallback: [
            { provider: 'groq', model: 'llama', when: { style: ['messages'] } },
            { provider: 'groq', model: 'llama', when: { effort: ['high'] } },
            'openai/gpt-5',
          ],
        },
      },
    },
    [
      'changed strategy.conditions[0]',
      'changed strategy.conditions[1]',
      'changed strategy.conditions[2]',
      'left out strategy.conditions[3]',
      'left out strategy.conditions[4]',
      'left out strategy.conditions[5]',
      'left out strategy.conditions[6]',
    ],
  ],
  [
    'conditions without a route',
    {
      strategy: {
        mode: 'conditional',
        conditions: [{ query: { 'metadata.plan': 'paid' }, then: 'large' }],
        default: 'small',
      },
      targets: [
        { name: 'small', provider: 'openai', api_key: 'canary' },
        { name: 'large', ...claude },
      ],
    },
    { routes: undefined },
    ['left out strategy.conditions[0]'],
  ],
  [
    'settings of targets',
    {
      strategy: { mode: 'fallback' },
      targets: [
        {
          ...openai,
          override_params: { model: 'gpt-5', temperature: 0, max_tokens: 50, tools: [] },
          request_timeout: 9_000,
          retry: { attempts: 2, on_status_codes: [429] },
        },
        claude,
      ],
    },
    {
      routes: {
        default: {
          targets: [
            {
              provider: 'openai',
              model: 'gpt-5',
              set: { temperature: 0, maxOutputTokens: 50 },
              timeout: { request: 9_000 },
              retries: 2,
            },
          ],
          fallback: ['anthropic/claude-x'],
        },
      },
    },
    [
      'taken targets[0].override_params.temperature',
      'left out targets[0].override_params.tools',
      'taken targets[0].request_timeout',
      'changed targets[0].retry.attempts',
      'left out targets[0].retry.on_status_codes',
    ],
  ],
  [
    'virtual keys and providers at Portkey',
    {
      strategy: { mode: 'fallback' },
      targets: [
        { virtual_key: 'openai-virtual-key', override_params: { model: 'gpt-5' } },
        { provider: '@anthropic-prod', override_params: { model: 'claude-x' } },
        { override_params: { model: '@azure-east/deployed' } },
        { provider: 'groq', virtual_key: 'team', override_params: { model: 'llama' } },
        { virtual_key: 'unclear', override_params: { model: 'x' } },
      ],
    },
    {
      providers: {
        openai: { keys: ['${PORTKEY_OPENAI_VIRTUAL_KEY}'], models: ['gpt-5'] },
        anthropic: { keys: ['${PORTKEY_ANTHROPIC_PROD_KEY}'], models: ['claude-x'] },
        'azure-openai': {
          baseUrl: '${AZURE_OPENAI_BASE_URL}',
          keys: ['${PORTKEY_AZURE_EAST_KEY}'],
          models: ['deployed'],
        },
        groq: { keys: ['${PORTKEY_TEAM_KEY}'], models: ['llama'] },
      },
    },
    [
      'changed targets[0].virtual_key',
      'changed targets[1].provider',
      'changed targets[2].override_params.model',
      'changed targets[3].virtual_key',
      'left out targets[4]',
    ],
  ],
  [
    'Azure, Vertex, Bedrock and Workers AI',
    {
      strategy: { mode: 'fallback' },
      targets: [
        {
          provider: 'azure-openai',
          api_key: 'canary',
          resource_name: 'acme',
          deployment_id: 'd',
          api_version: '2026-01-01',
        },
        {
          provider: 'vertex-ai',
          vertex_project_id: 'p',
          vertex_region: 'us-east5',
          vertex_service_account_json: { a: 'canary' },
          override_params: { model: 'm' },
        },
        { provider: 'bedrock', aws_region: 'eu-west-1', aws_access_key_id: 'canary', override_params: { model: 'b' } },
        { provider: 'workers-ai', api_key: 'canary-4', workers_ai_account_id: 'a1', override_params: { model: 'w' } },
      ],
    },
    {
      providers: {
        'azure-openai': {
          baseUrl: 'https://acme.openai.azure.com',
          variables: { apiVersion: '2026-01-01' },
          keys: ['${IMPORTED_AZURE_OPENAI_KEY_1}'],
          models: ['d'],
        },
        vertex: { variables: { project: 'p', location: 'us-east5' }, models: ['m'] },
        bedrock: { variables: { region: 'eu-west-1' }, models: ['b'] },
        'workers-ai': { variables: { accountId: 'a1' }, keys: ['${IMPORTED_WORKERS_AI_KEY_2}'], models: ['w'] },
      },
    },
    [
      'taken targets[0].resource_name',
      'left out targets[1].vertex_service_account_json',
      'left out targets[2].aws_access_key_id',
    ],
  ],
  [
    'a server of its own, and members in camel case',
    {
      provider: 'openai',
      apiKey: 'canary',
      customHost: 'http://10.0.0.5:8000/v1',
      overrideParams: { model: 'qwen3', temperature: 1 },
    },
    {
      providers: {
        '10.0.0.5-8000': {
          kind: 'openai-compatible',
          baseUrl: 'http://10.0.0.5:8000/v1',
          keys: ['${IMPORTED_OPENAI_COMPATIBLE_KEY_1}'],
          models: ['qwen3'],
        },
      },
    },
    ['taken customHost', 'taken overrideParams.temperature'],
  ],
  [
    'members that targets inherit',
    {
      strategy: { mode: 'loadbalance' },
      custom_host: 'http://gpu:8000/v1',
      override_params: { model: 'qwen3', top_p: 1 },
      targets: [
        { provider: 'openai', api_key: 'canary' },
        { provider: 'openai', api_key: 'canary', override_params: { model: 'other' } },
      ],
    },
    { routes: { default: { targets: ['gpu-8000/qwen3', 'gpu-8000/other'] } } },
    ['taken custom_host', 'taken override_params.model', 'left out override_params.top_p'],
  ],
  [
    'an address with a password, unknown providers and weights',
    {
      strategy: { mode: 'fallback' },
      targets: [
        { provider: 'openai', custom_host: 'http://u:canary@h/v1' },
        target('opnai', 'x'),
        { override_params: { model: 'x' } },
        target('groq', 'x', { weight: 'much' }),
        openai,
      ],
    },
    { routes: { default: { targets: ['openai/gpt-5'] } } },
    ['left out targets[0]', 'left out targets[1]', 'left out targets[2]', 'left out targets[3]'],
  ],
  [
    'retries, times and circuits',
    {
      retry: { attempts: 2, on_status_codes: [500], use_retry_after_header: true },
      request_timeout: 10_000,
      strategy: {
        mode: 'fallback',
        cb_config: {
          failure_threshold: 3,
          cooldown_interval: 60_000,
          minimum_requests: 10,
          failure_status_codes: [500],
        },
      },
      targets: [{ ...openai, retry: { attempts: 5 }, request_timeout: 5 }, claude],
    },
    {
      retry: { maxAttempts: 6 },
      timeout: { request: 10_000 },
      circuit: { consecutiveFailures: 3, resetTimeout: 60_000, minRequests: 10 },
    },
    [
      'changed retry.attempts',
      'left out retry.on_status_codes',
      'changed request_timeout',
      'changed targets[0].retry.attempts',
      'taken targets[0].request_timeout',
      'left out strategy.cb_config.failure_status_codes',
    ],
  ],
  [
    'settings alone',
    { retry: { attempts: 3, use_retry_after_header: false } },
    { providers: {}, retry: { maxAttempts: 4 } },
    ['changed retry.attempts', 'changed retry.use_retry_after_header'],
  ],
  [
    'the cache',
    { ...openai, cache: { mode: 'simple', max_age: 60, force: 1 } },
    { routes: { default: { targets: ['openai/gpt-5'], cache: { ttl: 60, anyTemperature: true } } } },
    ['changed cache.mode', 'taken cache.max_age', 'left out cache.force'],
  ],
  [
    'the semantic cache, and none',
    {
      strategy: { mode: 'fallback' },
      targets: [{ ...openai, cache: { mode: 'simple' } }],
      cache: { mode: 'semantic', max_age: -1 },
    },
    { routes: { default: { targets: ['openai/gpt-5'], cache: { anyTemperature: true } } } },
    ['changed cache.mode', 'left out cache.max_age', 'left out targets[0].cache'],
  ],
  [
    'a cache without a route',
    { provider: 'groq', api_key: 'canary', cache: { mode: 'simple' } },
    { routes: undefined },
    ['left out cache'],
  ],
  [
    'guardrails, hooks, headers and prompts',
    {
      ...openai,
      input_guardrails: ['g1'],
      before_request_hooks: [{ id: 'h' }],
      forward_headers: ['x-a'],
      prompt_id: 'p',
      metadata: { team: 'a' },
      strict_open_ai_compliance: false,
      openai_organization: 'canary',
    },
    { routes: { default: { targets: ['openai/gpt-5'] } } },
    ['left out input_guardrails', 'left out before_request_hooks', 'left out prompt_id', 'left out metadata'],
  ],
  [
    'values of the wrong type',
    { strategy: { mode: 'best' }, targets: [openai], retry: { attempts: 'many' }, request_timeout: 'soon', cache: 7 },
    { providers: {} },
    [
      'left out targets',
      'left out strategy.mode',
      'left out retry.attempts',
      'left out request_timeout',
      'left out cache',
    ],
  ],
  [
    'targets that are no list, conditions within targets',
    {
      strategy: { mode: 'fallback' },
      targets: [
        { strategy: { mode: 'conditional' }, targets: [openai] },
        { targets: 5, strategy: { mode: 'single' } },
      ],
    },
    { providers: {} },
    ['left out targets[0].targets', 'left out targets[1].targets'],
  ],
]

for (const [name, source, expected, rows] of CASES)
  test(`import portkey: ${name}`, () => {
    const text = JSON.stringify(source, null, 2)
    const parsed = sourceOf(text)
    const result = importPortkey(parsed, known.reserved) ?? assert.fail('no configuration')
    checkImport(parsed, result, [name, text, expected, rows])
  })

test('import portkey: what is no configuration is refused', () => {
  for (const text of ['', 'hello', '[]', '{}', '{"mode": "single", "options": []}', '{"model_list": []}'])
    assert.equal(importPortkey(sourceOf(text), known.reserved), undefined, text)
})

test('import portkey: a stored prompt as a target is left out with this reason', () => {
  const source = sourceOf(
    '{ "strategy": { "mode": "loadbalance" }, "targets": [{ "prompt_id": "p1", "weight": 0.5 }] }',
  )
  const { rows } = importPortkey(source, known.reserved) ?? assert.fail('no configuration')
  assert.match(rows.find(({ member }) => member === 'targets[0]')?.why ?? '', /stored at Portkey/)
})
