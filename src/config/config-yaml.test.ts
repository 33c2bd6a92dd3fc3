// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references of the file are under test
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { stringify } from 'yaml'
import { load, loaded } from '../../test/support/config.ts'
import { NO_ACCOUNTS } from '../core/accounts.ts'
import type { FullConfig } from '../core/config.ts'
import { isObject } from '../core/json.ts'
import { buildDirectory } from '../policy/accounts/directory.ts'
import { configYaml } from './config-yaml.ts'
import type { SettingRow } from './definition.ts'
import { describeChange } from './describe.ts'
import type { Env } from './env.ts'
import { settingRows } from './rows.ts'

/** Writes what an environment and a file configure, and loads it with the same environment and the missing secrets. */
const roundTrip = (env: Env, yaml: string) => {
  const { config } = loaded({ env, yaml })
  const { PROVIDERS: _, ...others } = env
  const bare = load({ env: others })
  const names = buildDirectory(config.accounts, NO_ACCOUNTS)
  const { text, missing } = configYaml(config, { bare: bare.ok ? bare.config : null, env, present: yaml, names })
  const again = loaded({ env: { ...env, ...Object.fromEntries(missing) }, yaml: text })
  return { config, again: again.config, text, missing }
}

const strip = (config: FullConfig): unknown => ({
  ...config,
  instances: config.instances.map(({ provider, limits, headers, keys, egress, network, ...rest }) => ({
    ...rest,
    egress: egress?.id,
    network: network && { ...network, proxy: network.proxy?.reveal() },
    provider: provider.name,
    limits: [...(limits ?? [])].toSorted(),
    headers: Object.entries(headers ?? {}).map(([name, value]) => [name, value.reveal()]),
    keys: keys.map(({ id, weight, secret }) => [id, weight, secret?.reveal()]),
  })),
  routes: [...config.routes],
  rules: config.rules,
  network: config.network.id,
  claims: config.claims.map(({ text }) => text),
  accounts: { ...config.accounts, places: {} },
  tokenRules: config.tokenRules,
  alerts: config.alerts && {
    ...config.alerts,
    url: config.alerts.url.reveal(),
    secret: config.alerts.secret?.reveal(),
  },
  sso: config.sso && {
    ...config.sso,
    secrets: config.sso.secrets.map((one) => one.reveal()),
    providers: config.sso.providers.map((one) => ({ ...one, clientSecret: one.clientSecret?.reveal() })),
  },
  claude: config.claude && {
    ...config.claude,
    receivers: config.claude.receivers.map(({ headers, ...one }) => ({
      ...one,
      headers: Object.entries(headers).map(([name, value]) => [name, value.reveal()]),
    })),
  },
})

const assertEqual = (env: Env, yaml: string): string => {
  const { config, again, text } = roundTrip(env, yaml)
  assert.deepEqual(describeChange(config, again), [], text)
  assert.deepEqual(strip(again), strip(config), text)
  return text
}

type Tree = { readonly [name: string]: unknown }
const nested = (path: readonly string[], value: unknown): Tree => {
  const [step = '', ...rest] = path
  return { [step]: rest.length === 0 ? value : nested(rest, value) }
}
const merged = (a: Tree, b: Tree): Tree =>
  Object.fromEntries(
    [...new Set([...Object.keys(a), ...Object.keys(b)])].map((name) => [
      name,
      isObject(a[name]) && isObject(b[name]) ? merged(a[name], b[name]) : (b[name] ?? a[name]),
    ]),
  )

const model = fc.constantFrom('gpt-x', 'claude/y', 'a:b', 'yes', '1.0', '${M}'.replace('$', '$$$'))
const weight = fc.constantFrom(1, 1, 2, 0.5, 30)
const secret = fc.constantFrom(
  'sk-one-0123456789',
  'sk-two-0123456789',
  'sk-three-0123456789',
  '${OPENAI_API_KEY}',
  '${SHARED}',
)
const optional = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> => fc.option(value, { nil: undefined })

const provider = fc.record({
  baseUrl: optional(fc.constantFrom('https://llm.example/v1', 'https://api.openai.example/v1', 'http://10.0.0.1:8080')),
  keys: fc.array(fc.oneof(secret, fc.record({ value: secret, weight })), { minLength: 1, maxLength: 4 }),
  models: optional(
    fc.uniqueArray(fc.oneof(model, fc.record({ id: model, contextWindow: optional(fc.constantFrom(1000, 200_000)) })), {
      maxLength: 3,
      selector: (one) => (typeof one === 'string' ? one : one.id),
    }),
  ),
  styles: optional(fc.subarray(['chat', 'responses', 'messages'], { minLength: 1 })),
  aggregate: optional(fc.boolean()),
  headers: optional(fc.dictionary(fc.constantFrom('x-team', 'x-gate'), fc.constantFrom('red', '${SHARED}', 'a b'))),
  forwardHeaders: optional(fc.constantFrom([], ['x-trace'])),
  facts: optional(fc.constantFrom({}, { region: 'eu', models: { 'm-*': { retention: 0 } } })),
})
const IDS = ['openai', 'groq', 'openai-east', 'mistral'] as const
const condition = fc.constantFrom(
  { team: 'search', tools: false },
  { header: { 'x-tier': ['gold', '!b'] }, inputTokens: { from: 1 }, media: [], effort: ['low'] },
)
const target = fc.oneof(
  fc.tuple(fc.constantFrom(...IDS), model).map(([id, name]) => `${id}/${name}`),
  fc.constantFrom(...IDS),
  fc.record({ provider: fc.constantFrom(...IDS), model: optional(model), weight, when: optional(condition) }),
  fc.record({
    provider: fc.constantFrom(...IDS),
    set: optional(fc.constantFrom({ effort: 'low', maxOutputTokens: { max: 8 } }, { stop: ['a'] })),
    default: optional(fc.constant({ temperature: 0.2 })),
    remove: optional(fc.constant(['seed'])),
    extra: optional(fc.constant({ x: { y: [1] } })),
    timeout: optional(fc.constant({ firstByte: 5 })),
    retries: optional(fc.constantFrom(0, 2)),
    headers: optional(fc.constant({ 'X-Team': 'red' })),
    betas: optional(fc.constant({ drop: ['a-1'] })),
  }),
)
const route = fc.record({
  strategy: optional(fc.constantFrom('priority', 'weighted', 'latency', 'cost')),
  targets: fc.array(target, { minLength: 1, maxLength: 3 }),
  fallback: optional(fc.array(target, { maxLength: 3 })),
  cache: optional(fc.record({ ttl: fc.constantFrom(60, 3600), scope: fc.constantFrom('key', 'team') })),
  require: optional(fc.constantFrom({ region: ['eu'] }, { retention: 0, training: false })),
})
/** Values of a setting, by its schema. */
const valuesOf = ({ schema }: SettingRow): readonly unknown[] => {
  if (schema.enum) return schema.enum
  if (schema.type === 'boolean') return [true, false]
  const least = schema.minimum ?? schema.exclusiveMinimum
  return schema.type === 'integer' && least !== undefined ? [least + 1, least + 2] : []
}
/** Settings that are valid alone, as paths and values. */
const choices = settingRows.flatMap((row) => {
  const values = valuesOf(row).filter((value) => load({ env: {}, yaml: stringify(nested(row.path, value)) }).ok)
  return values.length === 0 || row.path[0] === 'auth' ? [] : [{ path: row.path, values }]
})
const settings = fc
  .subarray(choices, { maxLength: 6 })
  .chain((some) =>
    fc.tuple(...some.map(({ path, values }) => fc.constantFrom(...values).map((value) => ({ path, value })))),
  )
  .map((some) => {
    let root = {}
    for (const { path, value } of some) root = merged(root, nested(path, value))
    return root
  })

const file = fc.record({
  auth: optional(
    fc.record({
      keys: optional(fc.constantFrom(['client-key-0123456789'], ['${SHARED}', 'another-key-0123456789'])),
      pepper: optional(fc.constantFrom('pepper-0123456789abcdef')),
      jwt: optional(
        fc.constantFrom(
          [],
          [
            { name: 'a', issuer: 'https://a.example', audience: ['x'] },
            {
              name: 'b',
              issuer: 'b',
              audience: ['x'],
              jwksFile: 'keys.json',
              require: { sub: ['s:*', 't'] },
              team: { claim: '/a/b', map: { 'x-*': 'search' }, default: 'default' },
              user: 'email',
              tags: { sa: '/a/sa' },
              limits: { concurrent: 3 },
            },
          ],
        ),
      ),
    }),
  ),
  require: optional(fc.constant({ region: ['eu', 'us'] })),
  claims: optional(fc.constant(['all: region in eu', 'team=search: retention=0'])),
  providers: fc.record({
    openai: provider,
    groq: provider,
    'openai-east': provider.map((entry) => ({ ...entry, kind: 'openai' })),
    mistral: provider,
  }),
  rules: optional(fc.array(fc.record({ when: condition, route: fc.constant('ruled') }), { maxLength: 2 })),
  routes: fc
    .dictionary(fc.constantFrom('fast', 'smart', 'a b', 'toString', '1', '${ESC}'.replace('$', '$$')), route)
    .map((some) => ({ ...some, ruled: { targets: ['openai'] } })),
  teams: optional(fc.constant({ search: { limits: { tokensPerMinute: 5 } } })),
  keys: optional(fc.constant({ 'search-prod': { secret: 'imported-key-0123456789' } })),
  budgets: optional(fc.constant({ month: { amount: '25.00', period: 'month', alerts: [80] } })),
  alerts: optional(
    fc.record({
      url: fc.constantFrom('https://hooks.example/T0/secret', '${HOOK}'),
      secret: optional(fc.constant('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw')),
      format: optional(fc.constantFrom('generic', 'slack')),
      rules: optional(
        fc.record({ circuitOpen: optional(fc.constantFrom(0, 20_000)), budget: optional(fc.constantFrom([50], [])) }),
      ),
    }),
  ),
  sso: optional(
    fc.constant({
      publicUrl: 'https://ai.corp.example',
      secret: ['${SSO_ONE}', 'another-secret-of-forty-characters-0123'],
      providers: { okta: { issuer: 'https://corp.okta.com', clientId: 'a', clientSecret: 'client-secret-0123' } },
      roles: [{ group: 'admins', role: 'admin' }],
      teams: [{ team: 'default' }],
      session: { idle: 3_600_000 },
    }),
  ),
  claude: optional(
    fc.constant({
      enabled: true,
      loginNotice: 'Call ${ESC}'.replace('$', '$$'),
      policies: [
        { settings: { env: { A: '1', B: 'x y' }, permissions: { deny: ['Read(./.env)'] } } },
        { match: { groups: ['a'], domains: ['corp.example'] }, settings: { model: 'opus' } },
      ],
      telemetry: { forward: [{ url: 'https://otlp.corp.example', headers: { authorization: 'Bearer 0123456789' } }] },
    }),
  ),
})
const environment = fc.record(
  {
    OPENAI_API_KEY: fc.constantFrom('sk-one-0123456789', 'sk-env-0123456789', 'sk-env-0123456789,sk-two-0123456789'),
    OPENAI_MODELS: fc.constantFrom('gpt-x', 'gpt-x,gpt-y'),
    GROQ_API_KEY: fc.constantFrom('gsk-env-0123456789', 'sk-two-0123456789'),
    VLLM_BASE_URL: fc.constant('http://127.0.0.1:9/v1'),
    RETRY_MAX_ATTEMPTS: fc.constantFrom('2', '4'),
    STRATEGY: fc.constantFrom('weighted', 'latency'),
    PROVIDERS: fc.constant('groq,openai,mistral,openai-east'),
  },
  { requiredKeys: ['OPENAI_API_KEY'] },
)

test('what runs is written as a file that configures the same', () => {
  fc.assert(
    fc.property(environment, settings, file, (variables, set, content) => {
      const env = {
        ...variables,
        SHARED: 'sk-shared-0123456789',
        HOOK: 'https://hooks.example/x',
        M: 'm',
        ESC: 'e',
        SSO_ONE: 'a-secret-of-more-than-32-characters-0123',
      }
      const yaml = stringify(JSON.parse(JSON.stringify({ ...set, ...content })))
      // Some settings exclude each other.
      fc.pre(load({ env, yaml }).ok)
      assertEqual(env, yaml)
    }),
    { numRuns: Number(process.env.RUNS ?? 40), endOnFailure: true },
  )
})

test('no secret is in the text, and its variables are named', () => {
  const yaml = `auth: { keys: [ canary-client-0123456789 ], pepper: canary-pepper-0123456789 }
providers:
  openai: { keys: [ "\${MY_KEY}", { value: canary-two-0123456789, weight: 2 } ], headers: { x-gate: canary-gate } }
alerts: { url: "https://hooks.example/canary" }
routes: { fast: { strategy: weighted, targets: [ { provider: openai, model: m, weight: 9 } ], fallback: [ openai/n ] } }
`
  const { text, missing } = roundTrip({ MY_KEY: 'canary-one-0123456789' }, yaml)
  assert.doesNotMatch(text, /canary(?!Stopped:)/)
  assert.match(text, /\$\{MY_KEY\}/)
  assert.match(text, /fallback:\n +- openai\/n/)
  assert.match(text, /strategy: weighted/)
  assert.deepEqual([...missing.keys()].toSorted(), [
    'FILE_ALERTS_URL',
    'FILE_AUTH_KEYS_1',
    'FILE_AUTH_PEPPER',
    'FILE_OPENAI_2',
    'FILE_OPENAI_X_GATE',
  ])
})

test('variables of a provider, cloud identities and the demo are written too', () => {
  for (const [env, yaml] of [
    [{}, ''],
    [{ AZURE_OPENAI_API_KEY: 'k-0123456789', AZURE_OPENAI_ENDPOINT: 'https://a.example' }, ''],
    [
      {},
      'providers: { azure-openai: { keys: [k-0123456789], variables: { endpoint: "https://a.example", apiVersion: v9 } } }',
    ],
    [{ BEDROCK_REGION: 'eu-1' }, 'providers: { bedrock: { models: [ m ] } }'],
    [{}, 'providers: { b: { kind: bedrock, variables: { region: eu-1 } } }'],
    [
      {},
      'providers: { vllm: { models: [ { id: m, contextWindow: 9 } ] }, my-llm: { kind: openai-compatible, baseUrl: "http://10.0.0.1/v1", keys: [k-0123456789] } }',
    ],
    [{ OPENAI_API_KEY: 'k-0123456789', GROQ_API_KEY: 'g-0123456789' }, 'providers: { groq: {}, openai: {} }'],
    [{ OPENAI_API_KEY: 'k-0123456789' }, 'drain: { delay: 7 }\nusage: { timezone: Europe/Berlin }'],
  ] as const)
    assertEqual(env, yaml)
})
