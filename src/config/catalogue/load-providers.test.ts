import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { styleNames } from '../definition.ts'
import { findProvider, loadProviders } from './load-providers.ts'

const providers = await loadProviders()

test('providers: are in their order, with the best-known vendors first', () => {
  assert.deepEqual([...providers.keys()].slice(0, 17), [
    'openai',
    'anthropic',
    'gemini',
    'mistral',
    'groq',
    'xai',
    'deepseek',
    'openrouter',
    'together',
    'fireworks',
    'cerebras',
    'cohere',
    'azure-openai',
    'bedrock',
    'bedrock-mantle',
    'vertex',
    'ollama',
  ])
})

const environmentName = (name: string) => name.toUpperCase().replaceAll('-', '_')
const all = [...providers.values()]

for (const provider of all) {
  const {
    name,
    title,
    aliases = [],
    baseUrl,
    address,
    speaks,
    auth,
    keyless,
    defaultModel,
    knownModels: listed,
    models,
  } = provider
  test(`provider ${name}: has all required members`, () => {
    assert.match(name, /^[a-z][a-z0-9-]*$/)
    for (const alias of aliases) assert.match(alias, /^[a-z][a-z0-9-]*$/)
    assert.ok(title.length > 1)
    assert.ok(Number.isInteger(provider.order))
    assert.ok(speaks.length > 0 || provider.embeds || provider.relays)
    const wires = [...speaks, ...(provider.alsoSpeaks ?? [])]
    for (const { protocol, path, atHost, stateless } of wires) {
      assert.ok(Object.hasOwn(styleNames, protocol))
      if (path !== undefined) assert.match(path, /^\/[^?#]*[^/?#]$/)
      if (atHost) assert.ok(path !== undefined, 'atHost needs a path')
      if (stateless) assert.equal(protocol, 'openai-responses')
    }
    assert.equal(new Set(wires.map(({ protocol }) => protocol)).size, wires.length)
    if (auth === 'none') assert.ok(provider.builtin)
    else assert.match(auth.header, /^[a-z-]+$/)
    if (baseUrl !== undefined && !provider.builtin) {
      assert.equal(new URL(baseUrl).protocol, 'https:')
      assert.ok(!baseUrl.endsWith('/'))
      assert.equal(provider.normalizeBaseUrl?.(baseUrl) ?? baseUrl, baseUrl)
    }
    // Without a fixed address the operator sets one: it is a self-hosted server or a cloud resource.
    if (baseUrl === undefined) assert.ok(keyless || address)
    if (models) assert.match(models.path, /^\//)
    if (!keyless && !models && !listed) assert.ok(provider.note, 'needs a note that its models must be listed')
    if (listed && defaultModel) assert.ok(listed.includes(defaultModel))
  })
}

test('providers: names, variable prefixes and order numbers are unique', () => {
  const names = all.flatMap(({ name, aliases = [] }) => [name, ...aliases])
  assert.equal(new Set(names.map(environmentName)).size, names.length)
  assert.equal(new Set(all.map(({ order }) => order)).size, all.length)
})

test('providers: one is built in and one is generic', () => {
  assert.deepEqual(
    all.filter(({ builtin }) => builtin).map(({ name }) => name),
    ['demo'],
  )
  assert.deepEqual(
    all.filter(({ generic }) => generic).map(({ name }) => name),
    ['openai-compatible'],
  )
})

const addresses = [
  ['anthropic', 'https://api.anthropic.com', 'https://api.anthropic.com/v1'],
  ['anthropic', 'http://127.0.0.1:9000/v1/', 'http://127.0.0.1:9000/v1'],
  ['gemini', 'http://127.0.0.1:9000/v1beta', 'http://127.0.0.1:9000/v1beta'],
  [
    'gemini',
    'https://generativelanguage.googleapis.com/v1beta/openai/',
    'https://generativelanguage.googleapis.com/v1beta',
  ],
  ['cohere', 'http://127.0.0.1:9000/v2', 'http://127.0.0.1:9000'],
  ['cohere', 'http://127.0.0.1:9000/v2/', 'http://127.0.0.1:9000'],
  ['cohere', 'http://127.0.0.1:9000', 'http://127.0.0.1:9000'],
  ['cohere', 'https://api.cohere.ai/compatibility/v1', 'https://api.cohere.ai'],
  ['ollama', 'http://127.0.0.1:11434', 'http://127.0.0.1:11434'],
  ['ollama', 'http://127.0.0.1:11434/v1/', 'http://127.0.0.1:11434'],
  ['ollama', 'http://127.0.0.1:11434/api', 'http://127.0.0.1:11434'],
  ['bedrock', 'http://127.0.0.1:9000', 'http://127.0.0.1:9000'],
  ['bedrock', 'http://127.0.0.1:9000/openai/v1', 'http://127.0.0.1:9000'],
  ['azure-openai', 'https://r.openai.azure.com', 'https://r.openai.azure.com/openai'],
  ['azure-openai', 'https://r.openai.azure.com/openai/v1/', 'https://r.openai.azure.com/openai'],
  ['azure-openai', 'http://127.0.0.1:9000/v1', 'http://127.0.0.1:9000'],
] as const

for (const [name, given, used] of addresses)
  test(`provider ${name}: ${given} is normalised to ${used}`, () => {
    const normalize = providers.get(name)?.normalizeBaseUrl
    assert.equal(normalize?.(given), used)
    // azure-openai appends a folder to a bare resource address, so it is not idempotent.
    if (name !== 'azure-openai') assert.equal(normalize?.(used), used)
  })

const composed = [
  ['azure-openai', { ENDPOINT: 'https://r.openai.azure.com/' }, 'https://r.openai.azure.com/openai'],
  ['azure-openai', {}, undefined],
  ['bedrock', { REGION: 'eu-west-1' }, 'https://bedrock-runtime.eu-west-1.amazonaws.com'],
  ['bedrock', { REGION: 'evil.example/' }, undefined],
  ['bedrock', {}, undefined],
  [
    'vertex',
    { PROJECT: 'p-1', LOCATION: 'global' },
    'https://aiplatform.googleapis.com/v1/projects/p-1/locations/global',
  ],
  [
    'vertex',
    { PROJECT: 'example.com:p-1', LOCATION: 'europe-west4' },
    'https://europe-west4-aiplatform.googleapis.com/v1/projects/example.com:p-1/locations/europe-west4',
  ],
  [
    'vertex',
    { PROJECT: 'p-1', LOCATION: 'eu' },
    'https://aiplatform.eu.rep.googleapis.com/v1/projects/p-1/locations/eu',
  ],
  ['vertex', { PROJECT: 'p-1', LOCATION: 'evil.example/' }, undefined],
  ['vertex', { PROJECT: 'p/../q', LOCATION: 'global' }, undefined],
  ['vertex', { LOCATION: 'global' }, undefined],
  ['workers-ai', { ACCOUNT_ID: '0f9a' }, 'https://api.cloudflare.com/client/v4/accounts/0f9a/ai/v1'],
  ['workers-ai', { ACCOUNT_ID: '../x' }, undefined],
] as const

for (const [name, variables, address] of composed)
  test(`provider ${name}: with ${JSON.stringify(variables)} the address is ${address}`, () => {
    assert.equal(providers.get(name)?.address?.(variables), address)
  })

const found = [
  ['openai', 'openai'],
  ['google', 'gemini'],
  ['dashscope', 'alibaba'],
  ['unknown', undefined],
  ['constructor', undefined],
] as const

for (const [name, expected] of found)
  test(`providers: ${name} is ${expected ?? 'not found'}`, () => {
    assert.equal(findProvider(providers, name)?.name, expected)
  })

const file = (name: string, more = '') =>
  `export default { name: '${name}', title: 'X', order: 1, speaks: [{ protocol: 'openai-chat' }], auth: 'none'${more} }`

const folders = [
  ['a file without a provider', { 'a.ts': 'export default 1' }, /a\.ts .* no provider as its default export/],
  ['a provider named differently from its file', { 'a.ts': file('b') }, /a\.ts .* provider name b/],
  ['an alias that is in use', { 'a.ts': file('a'), 'b.ts': file('b', ", aliases: ['a']") }, /use the name a/],
] as const

for (const [what, files, message] of folders)
  test(`providers: a folder with ${what} is refused`, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'headgate-providers-'))
    try {
      for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
      await assert.rejects(loadProviders(pathToFileURL(`${folder}/`)), message)
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

test('providers: test files are ignored', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-providers-'))
  try {
    writeFileSync(join(folder, 'a.ts'), file('a'))
    writeFileSync(join(folder, 'a.test.ts'), 'throw new Error("a test was loaded")')
    assert.deepEqual([...(await loadProviders(pathToFileURL(`${folder}/`))).keys()], ['a'])
  } finally {
    rmSync(folder, { recursive: true })
  }
})
