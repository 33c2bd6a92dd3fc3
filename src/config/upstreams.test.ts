import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lines, load, loaded } from '../../test/support/config.ts'
import type { Instance } from '../core/provider.ts'
import { keysFrom } from '../records/entities/ids.ts'
import { loadProviders } from './catalogue/load-providers.ts'
import { configure } from './configure.ts'
import { styleNames } from './definition.ts'

const secrets = ({ keys }: Instance): readonly (string | null)[] => keys.map(({ secret }) => secret?.reveal() ?? null)

/** `id kind baseUrl [keys] [models]`: an instance as one line. */
const lineOf = (instance: Instance): string =>
  [
    instance.id,
    instance.provider.name,
    instance.baseUrl,
    `[${secrets(instance).join(' ')}]`,
    `[${instance.models.join(' ')}]`,
  ].join(' ')

const OPENAI = 'https://api.openai.example/v1'

const cases: readonly (readonly [string, Record<string, string>, readonly string[]])[] = [
  ['one key', { OPENAI_API_KEY: 'a' }, [`openai openai ${OPENAI} [a] []`]],
  ['several keys by comma', { OPENAI_API_KEY: ' a, b,,a ' }, [`openai openai ${OPENAI} [a b] []`]],
  [
    'numbered keys, in order of their numbers',
    { OPENAI_API_KEY_10: 'd', OPENAI_API_KEY_2: 'b,c', OPENAI_API_KEY: 'a', OPENAI_API_KEY_0: 'no' },
    [`openai openai ${OPENAI} [a b c d] []`],
  ],
  ['a numbered key alone', { OPENAI_API_KEY_2: 'b' }, [`openai openai ${OPENAI} [b] []`]],
  [
    'an empty key is ignored',
    { OPENAI_API_KEY: ' ', GROQ_API_KEY: 'g' },
    ['groq groq https://api.groq.example/v1 [g] []'],
  ],
  [
    'a key of commas only is ignored',
    { OPENAI_API_KEY: ',,', GROQ_API_KEY: 'g' },
    ['groq groq https://api.groq.example/v1 [g] []'],
  ],
  [
    'address and models',
    { OPENAI_API_KEY: 'a', OPENAI_BASE_URL: 'http://127.0.0.1:9/v1/', OPENAI_MODELS: 'x, y,x' },
    ['openai openai http://127.0.0.1:9/v1 [a] [x y]'],
  ],
  [
    'API_BASE for the address',
    { OPENAI_API_KEY: 'a', OPENAI_API_BASE: 'http://h:9/v1' },
    ['openai openai http://h:9/v1 [a] []'],
  ],
  [
    'BASE_URL takes precedence over API_BASE',
    { OPENAI_API_KEY: 'a', OPENAI_API_BASE: 'http://old/v1', OPENAI_BASE_URL: 'http://new/v1' },
    ['openai openai http://new/v1 [a] []'],
  ],
  [
    'a provider normalises its address',
    { ANTHROPIC_API_KEY: 'a', ANTHROPIC_BASE_URL: 'http://h:9/' },
    ['anthropic anthropic http://h:9/v1 [a] []'],
  ],
  [
    'a second instance by its label',
    { OPENAI_EAST_API_KEY: 'e', OPENAI_EAST_BASE_URL: 'http://east/v1', OPENAI_EAST_MODELS: 'm', OPENAI_API_KEY: 'a' },
    [`openai openai ${OPENAI} [a] []`, 'openai-east openai http://east/v1 [e] [m]'],
  ],
  ['a label without the first instance', { OPENAI_EAST_2_API_KEY: 'e' }, [`openai-east-2 openai ${OPENAI} [e] []`]],
  [
    'a name that contains another',
    { AZURE_OPENAI_API_KEY: 'a', AZURE_OPENAI_ENDPOINT: 'https://mine.example/' },
    ['azure-openai azure-openai https://mine.example/openai [a] []'],
  ],
  [
    'a label of a name that contains another',
    { AZURE_OPENAI_EAST_API_KEY: 'a', AZURE_OPENAI_EAST_ENDPOINT: 'https://east.example' },
    ['azure-openai-east azure-openai https://east.example/openai [a] []'],
  ],
  [
    "a variable's other name",
    { AZURE_OPENAI_API_KEY: 'a', AZURE_ENDPOINT: 'https://other.example' },
    ['azure-openai azure-openai https://other.example/openai [a] []'],
  ],
  [
    'a base URL takes precedence over an address from variables',
    {
      AZURE_OPENAI_API_KEY: 'a',
      AZURE_OPENAI_ENDPOINT: 'https://mine.example',
      AZURE_OPENAI_BASE_URL: 'https://b.example/x',
    },
    ['azure-openai azure-openai https://b.example/x [a] []'],
  ],
  ['an alias', { GOOGLE_API_KEY: 'g' }, ['gemini gemini https://api.gemini.example/v1 [g] []']],
  [
    'the name takes precedence over an alias',
    { GOOGLE_API_KEY: 'g', GEMINI_API_KEY: 'own' },
    ['gemini gemini https://api.gemini.example/v1 [own] []'],
  ],
  [
    'an alias cannot have a label',
    { GOOGLE_MAPS_API_KEY: 'map', GROQ_API_KEY: 'g' },
    ['groq groq https://api.groq.example/v1 [g] []'],
  ],
  [
    'an unknown name with key and address',
    { MY_LLM_API_KEY: 'm', MY_LLM_BASE_URL: 'http://127.0.0.1:9000/v1', MY_LLM_MODELS: 'a,b' },
    ['my-llm openai-compatible http://127.0.0.1:9000/v1 [m] [a b]'],
  ],
  [
    'an unknown name with API_BASE and a numbered key',
    { MY_LLM_API_KEY_2: 'm', MY_LLM_API_BASE: 'http://h/v1' },
    ['my-llm openai-compatible http://h/v1 [m] []'],
  ],
  [
    'a key alone of an unknown name belongs to another program',
    { STRIPE_API_KEY: 's', X_BASE_URL: 'http://x', OPENAI_API_KEY: 'a' },
    [`openai openai ${OPENAI} [a] []`],
  ],
  [
    'a local server by its address alone',
    { VLLM_BASE_URL: 'http://localhost:8000/v1' },
    ['vllm vllm http://localhost:8000/v1 [] []'],
  ],
  [
    'a local server with a label',
    { VLLM_TWO_BASE_URL: 'http://localhost:8001/v1' },
    ['vllm-two vllm http://localhost:8001/v1 [] []'],
  ],
  ['a local server with a key', { VLLM_API_KEY: 'k' }, ['vllm vllm http://127.0.0.1:8000/v1 [k] []']],
  [
    "the catalogue's order, then names",
    {
      ZED_API_KEY: 'z',
      ZED_BASE_URL: 'http://z',
      ABC_API_KEY: 'a',
      ABC_BASE_URL: 'http://a',
      GROQ_API_KEY: 'g',
      OPENAI_Z_API_KEY: 'z',
      OPENAI_API_KEY: 'o',
    },
    [
      `openai openai ${OPENAI} [o] []`,
      `openai-z openai ${OPENAI} [z] []`,
      'groq groq https://api.groq.example/v1 [g] []',
      'abc openai-compatible http://a [a] []',
      'zed openai-compatible http://z [z] []',
    ],
  ],
  [
    'PROVIDERS selects providers and their order',
    { PROVIDERS: 'groq, OpenAI', OPENAI_API_KEY: 'o', GROQ_API_KEY: 'g', MISTRAL_API_KEY: 'm' },
    ['groq groq https://api.groq.example/v1 [g] []', `openai openai ${OPENAI} [o] []`],
  ],
  [
    'PROVIDERS accepts aliases',
    { PROVIDERS: 'google,my_llm', GEMINI_API_KEY: 'g', MY_LLM_API_KEY: 'm', MY_LLM_BASE_URL: 'http://m' },
    ['gemini gemini https://api.gemini.example/v1 [g] []', 'my-llm openai-compatible http://m [m] []'],
  ],
  [
    'PROVIDERS with an address and no key',
    { PROVIDERS: 'openai', OPENAI_BASE_URL: 'http://h/v1' },
    ['openai openai http://h/v1 [] []'],
  ],
  [
    'no key, but a variable that requests the cloud identity',
    { BEDROCK_REGION: 'r' },
    ['bedrock bedrock https://bedrock.r.example [] []'],
  ],
  [
    "the variable's other name belongs to another program",
    { AWS_REGION: 'r', GROQ_API_KEY: 'g' },
    ['groq groq https://api.groq.example/v1 [g] []'],
  ],
  [
    "the variable's other name, with PROVIDERS",
    { AWS_REGION: 'r', PROVIDERS: 'bedrock' },
    ['bedrock bedrock https://bedrock.r.example [] []'],
  ],
  [
    'a key takes precedence over the cloud identity',
    { BEDROCK_REGION: 'r', BEDROCK_API_KEY: 'k' },
    ['bedrock bedrock https://keys.bedrock.example [k] []'],
  ],
  [
    'the cloud identity at another address',
    { BEDROCK_REGION: 'r', BEDROCK_BASE_URL: 'http://b/x', BEDROCK_MODELS: 'm' },
    ['bedrock bedrock http://b/x [] [m]'],
  ],
  [
    'a label without a key must be in PROVIDERS',
    { BEDROCK_REGION: 'r', BEDROCK_EAST_REGION: 'e', PROVIDERS: 'bedrock-east,bedrock' },
    ['bedrock-east bedrock https://bedrock.e.example [] []', 'bedrock bedrock https://bedrock.r.example [] []'],
  ],
  [
    'a label without a key that is not in PROVIDERS is ignored',
    { BEDROCK_EAST_REGION: 'e', GROQ_API_KEY: 'g' },
    ['groq groq https://api.groq.example/v1 [g] []'],
  ],
  [
    'an empty variable is ignored',
    { BEDROCK_REGION: ' ', GROQ_API_KEY: 'g' },
    ['groq groq https://api.groq.example/v1 [g] []'],
  ],
  [
    'names of object prototype members',
    {
      CONSTRUCTOR_API_KEY: 'c',
      CONSTRUCTOR_BASE_URL: 'http://c',
      __PROTO___API_KEY: 'p',
      __PROTO___BASE_URL: 'http://p',
    },
    ['constructor openai-compatible http://c [c] []'],
  ],
]
for (const [name, env, expected] of cases)
  test(`environment: ${name}`, () => assert.deepEqual(loaded({ env }).config.instances.map(lineOf), expected))

test('styles: the requested protocols, with the paths of the provider', () => {
  const speaks = (styles: string) =>
    loaded({ env: { OPENAI_API_KEY: 'a', OPENAI_STYLES: styles } }).config.instances[0]?.speaks
  assert.deepEqual(speaks('chat'), [{ protocol: 'openai-chat', path: '/own/chat' }])
  assert.deepEqual(speaks('Messages, responses'), [
    { protocol: 'anthropic-messages' },
    { protocol: 'openai-responses' },
  ])
  assert.equal(speaks('')?.length, 2)
})

test('variables: set, by default, and missing', () => {
  const variables = (env: Record<string, string>) =>
    loaded({ env: { AZURE_OPENAI_API_KEY: 'a', AZURE_OPENAI_ENDPOINT: 'https://x.example', ...env } }).config
      .instances[0]?.variables
  assert.deepEqual(variables({}), { ENDPOINT: 'https://x.example', API_VERSION: '2026-05-01' })
  assert.deepEqual(variables({ AZURE_OPENAI_API_VERSION: 'v2' }), { ENDPOINT: 'https://x.example', API_VERSION: 'v2' })
})

const refused: readonly (readonly [Record<string, string>, string | RegExp])[] = [
  [
    { PROVIDERS: 'opnai', OPENAI_API_KEY: 'o' },
    'PROVIDERS: found "opnai"; allowed: did you mean openai? configured providers: openai',
  ],
  [{ PROVIDERS: 'groq' }, 'PROVIDERS: found "groq"; allowed: a provider with a key or an address (set GROQ_API_KEY)'],
  [{ PROVIDERS: 'demo' }, /^PROVIDERS: found "demo"/],
  [
    { PROVIDERS: 'azure-openai', AZURE_OPENAI_API_KEY: 'k' },
    /^PROVIDERS: found azure-openai without address; .*AZURE_OPENAI_BASE_URL, or AZURE_OPENAI_ENDPOINT/,
  ],
  [
    { OPENAI_API_KEY: 'a', OPENAI_BASE_URL: 'ftp://x' },
    /^OPENAI_BASE_URL: found "ftp:\/\/x"; allowed: .*http or https/,
  ],
  [{ PROVIDERS: 'bedrock' }, /^PROVIDERS: found bedrock without key or address; .*BEDROCK_BASE_URL, or BEDROCK_REGION/],
  [{ PROVIDERS: 'bedrock-east', BEDROCK_REGION: 'r' }, /^PROVIDERS: found "bedrock-east"/],
  [{ OPENAI_API_KEY: 'a', OPENAI_BASE_URL: 'localhost:11434' }, /^OPENAI_BASE_URL: found "localhost:11434"/],
  [{ OPENAI_API_KEY: 'a', OPENAI_BASE_URL: 'not a url' }, /^OPENAI_BASE_URL: found "not a url"/],
  [
    { OPENAI_API_KEY: 'a', OPENAI_API_BASE: 'http://u:canary@h/v1' },
    /^OPENAI_API_BASE: found a URL with a user name or password/,
  ],
  [{ OPENAI_API_KEY: 'a', OPENAI_BASE_URL: 'http://canary@h/v1' }, /name or password/],
  [{ OPENAI_API_KEY: 'a', OPENAI_BASE_URL: '//u:canary@h/v1' }, /^OPENAI_BASE_URL: found "\/\/…@h\/v1"/],
  [{ OPENAI_API_KEY: 'a', OPENAI_BASE_URL: 'http://h/v1?key=canary' }, /without a query or fragment/],
  [{ OPENAI_API_KEY: 'a', OPENAI_BASE_URL: 'http://h/v1#canary' }, /without a query or fragment/],
  [{ OPENAI_API_KEY: 'a', OPENAI_BASE_URL: 'http://localhost:3000/v1' }, /the address of this gateway itself/],
  [
    { OPENAI_API_KEY: 'a', OPENAI_BASE_URL: 'http://127.0.0.1:4000/v1', PORT: '4000' },
    /the address of this gateway itself/,
  ],
  [
    { OPENAI_API_KEY: 'sk-canary with space' },
    'OPENAI_API_KEY: found a key with white space or non-ASCII characters; allowed: the key exactly as issued by the provider',
  ],
  [{ OPENAI_API_KEY: 'canary\r\nx-evil: 1' }, /^OPENAI_API_KEY: found a key with white space/],
  [{ OPENAI_API_KEY: 'canary\u00e9' }, /non-ASCII/],
  [{ OPENAI_API_KEY: 'canary'.repeat(4000) }, /^OPENAI_API_KEY: found a key of 24000 characters/],
  [
    { OPENAI_API_KEY: 'a', OPENAI_STYLES: 'chat,klingon' },
    `OPENAI_STYLES: found "klingon"; allowed: a list of any of ${Object.values(styleNames).join(', ')}`,
  ],
  [{ DEMO_API_KEY: 'd', DEMO_BASE_URL: 'http://d' }, /^DEMO_API_KEY: found a provider called demo/],
]
for (const [env, expected] of refused)
  test(`environment: ${Object.keys(env).join(' ')} refused: ${String(expected).slice(0, 60)}`, () => {
    const [line = '', ...more] = lines({ env })
    assert.deepEqual(more, [])
    if (typeof expected === 'string') assert.equal(line, expected)
    else assert.match(line, expected)
    assert.doesNotMatch(line, /canary/)
  })

const warned: readonly (readonly [Record<string, string>, readonly string[]])[] = [
  [{ MISTRAL_APIKEY: 'x' }, ['MISTRAL_APIKEY is set, but is not a known variable; did you mean MISTRAL_API_KEY?']],
  [{ OPENAI_KEY: 'x' }, ['OPENAI_KEY is set, but is not a known variable; did you mean OPENAI_API_KEY?']],
  [{ OPENAI_TOKEN: 'x', OPENAI_API_KEY: 'y' }, []],
  [
    { OPENAI_API_KEY: 'y', OPENAI_BASEURL: 'http://h' },
    ['OPENAI_BASEURL is set, but is not a known variable; did you mean OPENAI_BASE_URL?'],
  ],
  [{ OPENAI_BASE_URL: 'http://h/v1' }, ['openai has no key: set OPENAI_API_KEY; the provider is not used']],
  [
    { AZURE_OPENAI_API_KEY: 'x' },
    ['azure-openai has no address: set AZURE_OPENAI_BASE_URL, or AZURE_OPENAI_ENDPOINT; the provider is not used'],
  ],
  [
    { BEDROCK_BASE_URL: 'http://b' },
    ['bedrock has no key: set BEDROCK_API_KEY or BEDROCK_REGION; the provider is not used'],
  ],
  [{ SOMEBODY_KEY: 'x', SOMEBODY_API_KEY: 'x' }, []],
]
for (const [env, expected] of warned)
  test(`environment: ${Object.keys(env).join(' ')} causes a warning`, () =>
    assert.deepEqual(loaded({ env }).warnings, expected))

const inFiles = [
  ['a region in the file', {}, 'providers: { bedrock: { variables: { region: r } } }', 'https://bedrock.r.example'],
  ['a region by its alias', { AWS_REGION: 'o' }, 'providers: { bedrock: {} }', 'https://bedrock.o.example'],
  ['an own name', {}, 'providers: { east: { kind: bedrock, variables: { region: e } } }', 'https://bedrock.e.example'],
] as const
for (const [name, env, yaml, address] of inFiles)
  test(`file: the cloud identity is used without a key: ${name}`, () => {
    const [instance] = loaded({ env, yaml }).config.instances
    assert.equal(instance?.baseUrl, address)
    assert.deepEqual(
      instance?.keys.map(({ secret }) => secret),
      [null],
    )
  })

test('file: an instance without a key and an address is refused', () => {
  assert.match(
    lines({ env: {}, yaml: 'providers: { bedrock: {} }' }).join(),
    /bedrock without key or address; .*BEDROCK_REGION/,
  )
})

test('without a provider: the demo outside production, nothing in production', () => {
  const { config } = loaded({ env: {} })
  assert.deepEqual(config.instances.map(lineOf), ['demo demo demo://echo [] []'])
  assert.deepEqual(
    [...config.routes].map(([name, { targets }]) => [name, targets.map(({ model }) => model)]),
    [['demo/chain', ['down', 'flaky', 'echo']]],
  )
  const production = loaded({ env: { NODE_ENV: 'production' } }).config
  assert.deepEqual([production.instances, production.routes.size], [[], 0])
  const real = loaded({ env: { OPENAI_API_KEY: 'a' } }).config
  assert.deepEqual([real.instances.map(({ id }) => id), real.routes.size], [['openai'], 0])
})

test('key ids: hex, stable, and unique even with equal beginnings', () => {
  const ids = (values: readonly string[]) => keysFrom(values.map((value) => ({ value, weight: 1 }))).map(({ id }) => id)
  const many = Array.from({ length: 2000 }, (_, index) => `key-${index}`)
  const found = ids(many)
  assert.equal(new Set(found).size, many.length)
  for (const id of found) assert.match(id, /^[0-9a-f]{4,}$/)
  assert.ok(found.some((id) => id.length > 4))
  assert.deepEqual(ids([...many].reverse()).reverse(), found)
  assert.deepEqual(ids(['key-7']), ids(['key-7']))
})

test('a printed configuration contains no secret', async () => {
  const { config } = loaded({ env: { OPENAI_API_KEY: 'canary-1,canary-2' } })
  const { inspect } = await import('node:util')
  assert.doesNotMatch(inspect(config, { depth: 9, showHidden: true }), /canary/)
  assert.doesNotMatch(JSON.stringify(config), /canary/)
})

test('with the real providers: a value that cannot be part of an address is named', async () => {
  const real = await loadProviders()
  const env = { VERTEX_PROJECT: 'YOUR_PROJECT', VERTEX_LOCATION: 'us-central1', PROVIDERS: 'vertex' }
  const result = configure({ env, providers: real })
  assert.ok(!result.ok)
  assert.match(
    JSON.stringify(result.problems),
    /vertex has no address: VERTEX_PROJECT or VERTEX_LOCATION has a value that cannot be part of one/,
  )
})

test('with the real providers: a key is enough, or the missing variable is reported', async () => {
  const real = await loadProviders()
  for (const provider of new Set(real.values())) {
    if (provider.builtin || provider.generic) continue
    const prefix = provider.name.toUpperCase().replaceAll('-', '_')
    const result = configure({ env: { [`${prefix}_API_KEY`]: 'k' }, providers: real })
    assert.ok(result.ok, provider.name)
    const ids = result.config.instances.map(({ id }) => id)
    if (ids.includes('demo'))
      assert.match(result.warnings.join(), new RegExp(`^${provider.name} has no address: set ${prefix}_BASE_URL`))
    else assert.deepEqual(ids, [provider.name])
    const placed = configure({
      env: { [`${prefix}_API_KEY`]: 'k', [`${prefix}_BASE_URL`]: 'http://127.0.0.1:9/v1' },
      providers: real,
    })
    assert.ok(placed.ok && placed.config.instances[0]?.baseUrl.startsWith('http://127.0.0.1:9'), provider.name)
    const labelled = configure({
      env: { [`${prefix}_EAST_API_KEY`]: 'k', [`${prefix}_EAST_BASE_URL`]: 'http://127.0.0.1:9/v1' },
      providers: real,
    })
    assert.ok(labelled.ok)
    assert.deepEqual(
      labelled.config.instances.map(({ id, provider: kind }) => [id, kind.name]),
      [[`${provider.name}-east`, provider.name]],
    )
  }
  const identities = [
    [{ BEDROCK_REGION: 'eu-west-1' }, ['bedrock']],
    [{ VERTEX_PROJECT: 'p' }, ['vertex']],
    [{ AZURE_OPENAI_ENDPOINT: 'https://r.openai.azure.com' }, ['azure-openai']],
    [{ AWS_REGION: 'eu-west-1', GOOGLE_CLOUD_PROJECT: 'p', GOOGLE_APPLICATION_CREDENTIALS: '/x' }, ['demo']],
    [{ PROVIDERS: 'vertex,bedrock', AWS_REGION: 'eu-west-1', GOOGLE_CLOUD_PROJECT: 'p' }, ['vertex', 'bedrock']],
  ] as const
  for (const [env, expected] of identities) {
    const result = configure({ env, providers: real })
    assert.ok(result.ok)
    assert.deepEqual(
      result.config.instances.map(({ id }) => id),
      expected,
    )
    assert.deepEqual(result.warnings, [])
  }
  const demo = configure({ env: {}, providers: real })
  assert.ok(demo.ok && demo.config.instances[0]?.provider.builtin)
})

test('all problems are reported at once', () => {
  const result = load({
    env: { CIRCUIT_TIMEOUT: '30s', PORT: 'x', PROVIDERS: 'unknown', OPENAI_API_KEY: 'a b' },
    yaml: 'routes: { a: { targets: [] } }\nfoo: 1\n',
  })
  assert.equal(result.ok, false)
  assert.equal(
    lines({
      env: { CIRCUIT_TIMEOUT: '30s', PORT: 'x', PROVIDERS: 'unknown' },
      yaml: 'routes: { a: { targets: [] } }\nfoo: 1\n',
    }).length,
    5,
  )
})
