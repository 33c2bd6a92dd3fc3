// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references to variables are under test
import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { lines, loaded, providers } from '../../test/support/config.ts'
import { loadConfig } from './load.ts'
import { problemLine } from './problem.ts'

const whole = `providers:
  openai:
    keys: [ "\${OPENAI_API_KEY}", { value: "\${OPENAI_API_KEY_2}", weight: 2 } ]
  east:
    kind: openai-compatible
    baseUrl: https://llm.east.example/v1
    keys: [ "\${EAST_KEY}" ]
    models: [ small-1, large-2 ]
    styles: [ chat, responses ]
  anthropic: { keys: [ plain ] }
routes:
  fast:
    strategy: weighted
    targets:
      - { provider: openai, model: gpt-5-mini, weight: 3 }
      - east/small-1
      - anthropic
    fallback: [ anthropic/claude/with/slashes ]
circuit: { resetTimeout: 60000 }
`
const env = { OPENAI_API_KEY: 'one', OPENAI_API_KEY_2: 'two', OPENAI_API_KEY_3: 'three', EAST_KEY: 'east' }

test('the file: providers, routes and settings', () => {
  const { config, sources } = loaded({ env, yaml: whole })
  assert.deepEqual(
    config.instances.map(({ id, provider, baseUrl, keys, models, speaks }) => ({
      id,
      kind: provider.name,
      baseUrl,
      keys: keys.map(({ secret, weight }) => [secret?.reveal(), weight]),
      models,
      speaks: speaks.map(({ protocol }) => protocol),
    })),
    [
      {
        id: 'openai',
        kind: 'openai',
        baseUrl: 'https://api.openai.example/v1',
        keys: [
          ['one', 1],
          ['two', 2],
          ['three', 1],
        ],
        models: [],
        speaks: ['openai-responses', 'openai-chat'],
      },
      {
        id: 'east',
        kind: 'openai-compatible',
        baseUrl: 'https://llm.east.example/v1',
        keys: [['east', 1]],
        models: ['small-1', 'large-2'],
        speaks: ['openai-chat', 'openai-responses'],
      },
      {
        id: 'anthropic',
        kind: 'anthropic',
        baseUrl: 'https://api.anthropic.example/v1',
        keys: [['plain', 1]],
        models: [],
        speaks: ['anthropic-messages'],
      },
    ],
  )
  assert.deepEqual(config.routes.get('fast'), {
    name: 'fast',
    strategy: 'weighted',
    targets: [
      { provider: 'openai', model: 'gpt-5-mini', weight: 3 },
      { provider: 'east', model: 'small-1', weight: 1 },
      { provider: 'anthropic', weight: 1 },
    ],
    fallback: [{ provider: 'anthropic', model: 'claude/with/slashes', weight: 1 }],
  })
  assert.equal(config.settings.circuit.resetTimeout, 60_000)
  assert.equal(config.settings.circuit.timeout, 30_000)
  assert.equal(sources.file, 'headgate.yaml')
})

const EAST =
  'providers: { east: { kind: openai-compatible, baseUrl: "http://file/v1", models: [a], styles: [chat], keys: [f] } }'

const joined: readonly (readonly [
  string,
  Record<string, string>,
  string,
  (config: ReturnType<typeof loaded>['config']) => unknown,
  unknown,
])[] = [
  [
    'limits of models, kept when the environment names the models',
    { VLLM_MODELS: 'big' },
    'providers: { vllm: { baseUrl: "http://h/v1", models: [small, { id: big, contextWindow: 32768, maxOutputTokens: 4096 }] } }',
    ({ instances: [vllm] }) => [vllm?.models, [...(vllm?.limits ?? [])]],
    [['big'], [['big', { contextWindow: 32768, maxOutputTokens: 4096 }]]],
  ],
  ['an empty file', {}, '', ({ instances }) => instances.map(({ id }) => id), ['demo']],
  ['only comments', {}, '# nothing\n', ({ routes }) => [...routes.keys()], ['demo/chain']],
  [
    'sections without content',
    {},
    'circuit:\nproviders:\nroutes:\nretry: { maxAttempts: }\n',
    ({ settings }) => settings.retry.maxAttempts,
    6,
  ],
  ['JSON', {}, '{"circuit": {"timeout": 7}}', ({ settings }) => settings.circuit.timeout, 7],
  [
    'hexadecimal and exponents are whole numbers in YAML',
    {},
    'circuit: { timeout: 0x10, window: 1e3 }',
    ({ settings: { circuit } }) => [circuit.timeout, circuit.window],
    [16, 1000],
  ],
  [
    'a number from a variable',
    { T: '77' },
    'circuit:\n  timeout: ${T}\n',
    ({ settings }) => settings.circuit.timeout,
    77,
  ],
  [
    'several keys from a variable, including one of the environment',
    { OPENAI_API_KEY: 'a,b', OPENAI_API_KEY_2: 'c', SPARE: 'd, e' },
    'providers: { openai: { keys: [ "${OPENAI_API_KEY}", { value: "${SPARE}", weight: 2 } ] } }',
    ({ instances: [openai] }) => openai?.keys.map(({ secret, weight }) => [secret?.reveal(), weight]),
    [
      ['a', 1],
      ['b', 1],
      ['d', 2],
      ['e', 2],
      ['c', 1],
    ],
  ],
  [
    'a list from a variable',
    { O: 'http://a, http://b' },
    'cors:\n  origins: ${O}\n',
    ({ settings }) => settings.cors.origins,
    ['http://a', 'http://b'],
  ],
  [
    'a variable inside a text',
    { R: 'eu' },
    'data:\n  dir: /x/${R}/$${R}\n',
    ({ settings }) => settings.data.dir,
    '/x/eu/${R}',
  ],
  [
    'an anchor and its alias',
    {},
    'data: { dir: &d here }\nhosts: [ *d ]\n',
    ({ settings }) => settings.hosts,
    ['here'],
  ],
  [
    'address, models and styles of the environment take precedence',
    { EAST_BASE_URL: 'http://env/v1', EAST_MODELS: 'b', EAST_STYLES: 'responses', EAST_API_KEY: 'e' },
    EAST,
    ({ instances }) =>
      instances.map(({ id, baseUrl, models, speaks, keys }) => [
        id,
        baseUrl,
        models,
        speaks,
        keys.map(({ secret }) => secret?.reveal()),
      ]),
    [['east', 'http://env/v1', ['b'], [{ protocol: 'openai-responses', stateless: true }], ['f', 'e']]],
  ],
  [
    "the file's order, then the catalogue's",
    { GROQ_API_KEY: 'g', MISTRAL_API_KEY: 'm', OPENAI_API_KEY: 'o' },
    'providers: { groq: {}, openai: {} }',
    ({ instances }) => instances.map(({ id }) => id),
    ['groq', 'openai', 'mistral'],
  ],
  [
    'PROVIDERS orders the file too',
    { PROVIDERS: 'mistral,groq', GROQ_API_KEY: 'g', MISTRAL_API_KEY: 'm', OPENAI_API_KEY: 'o' },
    'providers: { openai: {}, groq: {} }',
    ({ instances }) => instances.map(({ id }) => id),
    ['mistral', 'groq'],
  ],
  [
    'a local server without a key',
    {},
    'providers: { vllm: {}, mine: { kind: openai-compatible, baseUrl: "http://m" } }',
    ({ instances }) => instances.map(({ id, keys }) => [id, keys.map(({ secret }) => secret)]),
    [
      ['vllm', [null]],
      ['mine', [null]],
    ],
  ],
  [
    'a second instance of a known provider',
    {},
    'providers: { work: { kind: openai, keys: [k] } }',
    ({ instances }) => instances.map(({ id, provider, baseUrl }) => [id, provider.name, baseUrl]),
    [['work', 'openai', 'https://api.openai.example/v1']],
  ],
  [
    'an alias of a known provider',
    { GOOGLE_API_KEY: 'g' },
    'providers: { google: { models: [x] } }\nroutes: { r: { targets: [google/y] } }',
    ({ instances, routes }) => [instances.map(({ id, models }) => [id, models]), routes.get('r')?.targets],
    [[['gemini', ['x']]], [{ provider: 'gemini', model: 'y', weight: 1 }]],
  ],
  [
    'capitals and underscores in a name',
    {},
    'providers: { My_LLM: { kind: openai-compatible, baseUrl: "http://m" } }\nroutes: { r: { targets: [MY_LLM/x] } }',
    ({ instances, routes }) => [instances[0]?.id, routes.get('r')?.targets[0]?.provider],
    ['my-llm', 'my-llm'],
  ],
  [
    'variables',
    {},
    'providers: { azure-openai: { keys: [k], variables: { endpoint: "https://a.example", API_VERSION: "7" } } }',
    ({ instances }) => [instances[0]?.baseUrl, instances[0]?.variables.API_VERSION],
    ['https://a.example/openai', '7'],
  ],
  [
    'names of object prototype members',
    {},
    'providers: { constructor: { kind: openai-compatible, baseUrl: "http://c" } }\nroutes: { __proto__: { targets: [constructor/x] }, toString: { targets: [constructor] } }',
    ({ instances, routes }) => [instances.map(({ id }) => id), [...routes.keys()]],
    [['constructor'], ['__proto__', 'toString']],
  ],
  [
    'a route of a number',
    {},
    'providers: { vllm: {} }\nroutes: { 4.10: { targets: [vllm/x] } }',
    ({ routes }) => [...routes.keys()],
    ['4.10'],
  ],
]
for (const [name, env, yaml, look, expected] of joined)
  test(`the file: ${name}`, () => assert.deepEqual(look(loaded({ env, yaml }).config), expected))

const known = 'openai, anthropic, gemini, azure-openai, bedrock, mistral, groq, vllm, openai-compatible'
const members =
  'kind, baseUrl, keys, models, styles, aggregate, headers, forwardHeaders, proxy, ca, caOnly, clientCert, serverName, passThrough, variables, facts'

const refused: readonly (readonly [string, string, string | RegExp])[] = [
  [
    'a setting',
    'circuit:\n  timeout: 30s\n',
    'headgate.yaml:2:12: circuit.timeout: found "30s"; allowed: a whole number from 0 to 2147483647; times are in milliseconds, write 30000',
  ],
  [
    'a quoted number',
    'circuit: { timeout: "30" }',
    'headgate.yaml:1:21: circuit.timeout: found "30"; allowed: a whole number from 0 to 2147483647',
  ],
  [
    'a misspelled setting',
    'circuit:\n\n    resetTimout: 3',
    /^headgate\.yaml:3:5: circuit: found the unknown name "resetTimout"; allowed: did you mean resetTimeout\? timeout, /,
  ],
  [
    'a misspelled section',
    'provider: {}',
    /^headgate\.yaml:1:1: found the unknown name "provider"; allowed: did you mean providers\? /,
  ],
  [
    'a section that is a value',
    'circuit: 5',
    /^headgate\.yaml:1:10: circuit: found "5"; allowed: a section with timeout, /,
  ],
  ['a list at the top', '- a', /^headgate\.yaml:1:1: found a list; allowed: sections such as/],
  ['a text at the top', 'hello', /^headgate\.yaml:1:1: found "hello"; allowed: sections such as/],
  [
    'an unknown provider',
    'providers:\n  opnai: { keys: [a] }',
    `headgate.yaml:2:3: providers.opnai: found the name "opnai", which is not a known provider; allowed: did you mean openai? a known name, or kind: with one of ${known}`,
  ],
  [
    'an unknown kind',
    'providers:\n  east: { kind: opnai }',
    `headgate.yaml:2:17: providers.east: found the kind "opnai"; allowed: did you mean openai? one of ${known}`,
  ],
  [
    'a member of a provider',
    'providers:\n  openai:\n    key: canary',
    `headgate.yaml:3:5: providers.openai: found the unknown name "key"; allowed: did you mean keys? ${members}`,
  ],
  [
    'keys that are not a list',
    'providers:\n  openai:\n    keys: canary-key',
    /^headgate\.yaml:3:11: providers\.openai\.keys: found a value that is not shown, .*; allowed: a list/,
  ],
  [
    'a key of the wrong kind',
    'providers: { openai: { keys: [ [canary-key] ] } }',
    /^headgate\.yaml:1:32: providers\.openai\.keys\.0: found a value that is not shown/,
  ],
  [
    'a weight',
    'providers: { openai: { keys: [ { value: canary, weight: -1 } ] } }',
    /^headgate\.yaml:1:57: providers\.openai\.keys\.0\.weight: found a value that is not shown, .*; allowed: a number/,
  ],
  [
    'a member of a key',
    'providers: { openai: { keys: [ { value: canary, wieght: 1 } ] } }',
    'headgate.yaml:1:49: providers.openai.keys.0: found the unknown name "wieght"; allowed: did you mean weight? value, weight, cacheScope',
  ],
  [
    'a context window',
    'providers:\n  openai: { models: [{ id: a, contextWindow: 32k }] }',
    /^headgate\.yaml:2:46: providers\.openai\.models\.0\.contextWindow: found "32k"; allowed: a whole number from 1 to/,
  ],
  [
    'a misspelled limit',
    'providers:\n  openai: { models: [{ id: a, context: 32768 }] }',
    /^headgate\.yaml:2:31: providers\.openai\.models\.0: found the unknown name "context"; allowed: id, contextWindow, maxOutputTokens/,
  ],
  [
    'a provider without key or address',
    'providers:\n  openai: { models: [a] }',
    'headgate.yaml:2:3: providers.openai: found openai without key or address; allowed: a complete provider (openai has no key: set OPENAI_API_KEY)',
  ],
  [
    'a kind without its address',
    'providers:\n  x: { kind: openai-compatible, keys: [k] }',
    /^headgate\.yaml:2:3: providers\.x: found x without address; .*X_BASE_URL/,
  ],
  [
    'an address with a password',
    'providers:\n  openai: { baseUrl: "http://u:canary@h" }',
    /^headgate\.yaml:2:22: found a URL with a user name or password/,
  ],
  [
    'a style',
    'providers: { openai: { keys: [a], styles: [klingon] } }',
    /^headgate\.yaml:1:44: providers\.openai\.styles\.0: found "klingon"; allowed: one of chat, responses, messages/,
  ],
  [
    'an unknown variable of a provider',
    'providers: { openai: { keys: [a], variables: { region: x } } }',
    'headgate.yaml:1:48: providers.openai.variables: found the unknown name "region"; allowed: nothing: openai has none',
  ],
  [
    'the built-in provider',
    'providers: { demo: {} }',
    /^headgate\.yaml:1:14: providers\.demo: found the name "demo"; allowed: another name/,
  ],
  [
    'an invalid name',
    'providers: { "a/b": { kind: openai } }',
    /^headgate\.yaml:1:14: providers\.a\/b: found the name "a\/b"; allowed: a name of letters/,
  ],
  [
    '__proto__ as a provider',
    'providers: { __proto__: { kind: openai } }',
    /^headgate\.yaml:1:14: providers\.__proto__: found the name "__proto__"; allowed: a name of/,
  ],
  [
    'the same name in two spellings',
    'providers:\n  vllm: {}\n  VLLM: {}',
    /^headgate\.yaml:3:3: providers\.VLLM: found the duplicate name "VLLM"/,
  ],
  [
    'a route without targets',
    'routes:\n  fast: { targets: [] }',
    'headgate.yaml:2:20: routes.fast.targets: found an empty list; allowed: a list of values, not empty',
  ],
  [
    'an empty route',
    'routes:\n  fast:',
    /^headgate\.yaml:2:\d+: routes\.fast\.targets: found nothing; allowed: a list/,
  ],
  [
    'a route to an unknown provider',
    'providers: { vllm: {} }\nroutes:\n  fast:\n    targets: [ vlm/x ]',
    'headgate.yaml:4:16: routes.fast.targets.0: found the provider "vlm", which is not configured; allowed: did you mean vllm? vllm',
  ],
  [
    'a fallback to an unknown provider',
    'providers: { vllm: {} }\nroutes: { r: { targets: [vllm], fallback: [ { provider: unknown } ] } }',
    'headgate.yaml:2:57: routes.r.fallback.0: found the provider "unknown", which is not configured; allowed: vllm',
  ],
  [
    'a strategy',
    'routes: { r: { targets: [a], strategy: fast } }',
    'headgate.yaml:1:40: routes.r.strategy: found "fast"; allowed: one of priority, weighted, latency, cost',
  ],
  [
    'a weight of a target',
    'routes: { r: { targets: [ { provider: a, weight: heavy } ] } }',
    /^headgate\.yaml:1:50: routes\.r\.targets\.0\.weight: found "heavy"; allowed: a number/,
  ],
  [
    'a member of a target',
    'routes: { r: { targets: [ { provder: a } ] } }',
    /^headgate\.yaml:1:\d+: routes\.r\.targets\.0/,
  ],
  ['routes that are a list', 'routes: [a]', 'headgate.yaml:1:9: routes: found a list; allowed: a section of names'],
  [
    'a variable that is not set',
    'providers:\n  openai: { keys: [ "${NOT_SET}" ] }',
    'headgate.yaml:2:21: found ${NOT_SET}, which is not set; allowed: a variable that is set (also in .env)',
  ],
  [
    'a variable that is empty',
    'data: { dir: "${EMPTY}" }',
    /^headgate\.yaml:1:14: found \$\{EMPTY\}, which is not set/,
  ],
  ['a malformed reference', 'data: { dir: "${a b}" }', /^headgate\.yaml:1:14: found "\$\{a b\}"; allowed: \$\{NAME\}/],
  ['a prototype as a variable', 'data: { dir: "${constructor}" }', /found \$\{constructor\}, which is not set/],
  [
    'a variable that is not a number',
    'circuit:\n  timeout: ${WORD}',
    'headgate.yaml:2:12: circuit.timeout: found "${WORD}"; allowed: a whole number from 0 to 2147483647',
  ],
  [
    'a name given twice',
    'hosts: [a]\nhosts: [b]',
    'headgate.yaml:2:1: found the duplicate name "hosts"; allowed: each name once',
  ],
  ['a name given twice in braces', 'data: { dir: a, dir: b }', /^headgate\.yaml:1:17: found the duplicate name "dir"/],
  ['a bracket left open', 'hosts: [a', /^headgate\.yaml:1:\d+: found text that is not YAML/],
  ['tabs', 'circuit:\n\ttimeout: 1', /^headgate\.yaml:2:1: found text that is not YAML .*[Tt]ab/],
  ['two documents', 'hosts: [a]\n---\nhosts: [b]', /^headgate\.yaml:2:1: found text that is not YAML/],
  ['a tag', 'hosts: !!js/function "x"', /^headgate\.yaml:1:\d+: found text that is not YAML/],
  ['bytes', 'data: { dir: !!binary aGVsbG8= }', /^headgate\.yaml:1:\d+: found a value of an unsupported type/],
  [
    'an alias without an anchor',
    'hosts: [ *unknown ]',
    /^headgate\.yaml:1:10: found \*unknown, an alias without an anchor/,
  ],
  ['a list as a name', '? [a]\n: b', /^headgate\.yaml:1:3: found a name that is not plain text/],
]
for (const [name, yaml, expected] of refused)
  test(`the file: ${name} is refused with its location`, () => {
    const [line = '', ...more] = lines({ env: { EMPTY: '', WORD: 'often' }, yaml })
    assert.deepEqual(more, [])
    if (typeof expected === 'string') assert.equal(line, expected)
    else assert.match(line, expected)
    assert.doesNotMatch(line, /canary/)
    assert.equal(line.split('\n').length, 1)
  })

test('the file: texts that would exhaust memory or the stack are refused', () => {
  const bomb = `a: &a [${'x,'.repeat(50)}]\n${['b', 'c', 'd', 'e'].map((name, index) => `${name}: &${name} [${`*${'abcd'[index]},`.repeat(50)}]\n`).join('')}`
  const hostile = [
    bomb,
    'hosts: &a [ *a ]',
    '['.repeat(100_000),
    '- '.repeat(10_000),
    `{a: `.repeat(5000),
    `hosts: [${'a'.repeat(1_100_000)}]`,
  ]
  for (const yaml of hostile) {
    const problems = lines({ env: {}, yaml })
    assert.ok(problems.length > 0)
    assert.ok(problems.every((line) => line.length < 2000))
  }
})

test('the file: a secret in the wrong place is not repeated', () => {
  const secret = 'sk-canary-0123456789abcdef'
  const places = [
    `circuit: { timeout: ${secret} }`,
    `strategy: ${secret}`,
    `routes: { r: { targets: [${secret}/x] } }`,
    `providers: { ${secret}: {} }`,
    `providers: { x: { kind: ${secret} } }`,
    `${secret}: 1`,
    `hosts: [a]\n${secret}: 1\n${secret}: 2`,
  ]
  for (const yaml of places)
    for (const env of [{}, { ANY_API_KEY: secret }]) {
      const problems = lines({ env, yaml })
      assert.ok(problems.length > 0)
      // The setting's name in a message is a path of the file's own names, and is masked too.
      assert.doesNotMatch(problems.join('\n'), /canary/, yaml)
    }
})

test('loadConfig: finds the files of a folder, and reports those it cannot use', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'headgate-config-'))
  t.after(() => rm(folder, { recursive: true }))
  const load = async (env: Record<string, string> = {}) => {
    const result = await loadConfig({ env, folder, providers })
    return result.ok ? result : { lines: result.problems.map(problemLine) }
  }
  const settings = async (env?: Record<string, string>) => {
    const result = await load(env)
    return 'config' in result ? result : assert.fail(result.lines.join())
  }
  assert.deepEqual((await settings()).sources, { dotenv: null, file: null })

  await writeFile(join(folder, '.env'), 'CIRCUIT_TIMEOUT=1\nNAME=here\n')
  await writeFile(join(folder, 'headgate.yaml'), 'circuit: { timeout: 2, probes: 3 }\ndata: { dir: "${NAME}" }\n')
  const both = await settings()
  assert.deepEqual(both.sources, { dotenv: '.env', file: 'headgate.yaml' })
  assert.deepEqual(
    [both.config.settings.circuit.timeout, both.config.settings.circuit.probes, both.config.settings.data.dir],
    [1, 3, 'here'],
  )

  await mkdir(join(folder, 'conf'))
  await writeFile(join(folder, 'conf', 'other.yaml'), 'circuit: { timeout: 30s }\n')
  assert.deepEqual(await load({ HEADGATE_CONFIG: 'conf/other.yaml' }), {
    lines: [
      'conf/other.yaml:1:21: circuit.timeout: found "30s"; allowed: a whole number from 0 to 2147483647; times are in milliseconds, write 30000',
    ],
  })
  const absolute = join(folder, 'conf', 'other.yaml')
  assert.match(JSON.stringify(await load({ HEADGATE_CONFIG: absolute })), /other\.yaml:1:21: circuit\.timeout/)
  assert.deepEqual(await load({ HEADGATE_CONFIG: 'nowhere.yaml' }), {
    lines: [`HEADGATE_CONFIG: found "nowhere.yaml", which does not exist; allowed: the path of a file, from ${folder}`],
  })
  assert.deepEqual(await load({ HEADGATE_CONFIG: 'conf' }), {
    lines: ['conf: found a folder; allowed: a file that can be read'],
  })
  await writeFile(join(folder, 'headgate.yaml'), Buffer.from([0x68, 0xff, 0xfe]))
  assert.deepEqual(await load(), { lines: ['headgate.yaml: found bytes that are not UTF-8; allowed: a text in UTF-8'] })
  await writeFile(join(folder, 'headgate.yaml'), '#'.repeat(1_048_577))
  assert.deepEqual(await load(), { lines: ['headgate.yaml: found 1048577 bytes; allowed: at most 1048576'] })

  await rm(join(folder, 'headgate.yaml'))
  await rm(join(folder, '.env'))
  await mkdir(join(folder, '.env'))
  await writeFile(join(folder, 'headgate.yml'), '')
  assert.deepEqual((await settings()).warnings, [
    'headgate.yml is ignored: rename it to headgate.yaml, or set HEADGATE_CONFIG=headgate.yml',
  ])
})
