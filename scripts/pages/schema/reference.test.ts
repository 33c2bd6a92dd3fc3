import assert from 'node:assert/strict'
import { globSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { parse } from 'yaml'
import { loadProviders } from '../../../src/config/catalogue/load-providers.ts'
import { configure } from '../../../src/config/configure.ts'
import { fileReader } from '../../../src/config/file-reader.ts'
import { settingRows } from '../../../src/config/rows.ts'
import { load } from '../../../test/support/config.ts'
import { configurationPage, publishedSchema, sampleEnv } from './reference.ts'

const root = new URL('../../../', import.meta.url)
const text = (path: string): Promise<string> => readFile(new URL(path, root), 'utf8')
const real = await loadProviders()

const published: readonly (readonly [string, string])[] = [
  ['headgate.schema.json', publishedSchema()],
  ['docs/configuration.md', configurationPage()],
  ['.env.example', sampleEnv(real)],
]
for (const [path, expected] of published)
  test(`${path} is up to date`, async () => {
    assert.equal(await text(path), expected, `${path} is out of date: npm run schema`)
  })

const validate = new Ajv2020({ strict: true, allowUnionTypes: true }).compile(JSON.parse(publishedSchema()))

test('the emergency switches of the HTTP stack are not in the reference', () => {
  assert.doesNotMatch(configurationPage() + sampleEnv(real), /HTTP_(?:CLIENT|SERVER)|HEAP_TUNING/)
})

test('the published schema requires nothing, and contains every setting', () => {
  assert.ok(validate({}))
  const page = configurationPage()
  for (const { name, env } of settingRows) assert.ok(page.includes(`| \`${name}\` | \`${env}\` |`), name)
})

// The editor's schema and the loader must accept the same files.
const files: readonly (readonly [string, boolean])[] = [
  ['circuit: { timeout: 1 }', true],
  ['circuit: { timeout: 30s }', false],
  ['circuit: { timeout: -1 }', false],
  ['circuit: { timeout: 2147483648 }', false],
  ['circuit: { tiemout: 1 }', false],
  ['nothing: 1', false],
  ['strategy: weighted\nfallback: none\nhosts: [a]', true],
  ['strategy: often', false],
  ['providers: { vllm: {} }', true],
  ['providers: { vllm: { keys: [a, { value: b, weight: 2 }, { value: c }] } }', true],
  ['providers: { vllm: { keys: [{ weight: 2 }] } }', false],
  ['providers: { vllm: { keys: [{ value: b, weight: 0 }] } }', false],
  ['providers: { vllm: { styles: [chat] } }', true],
  ['providers: { vllm: { styles: [] } }', false],
  ['providers: { vllm: {} }\nroutes: { r: { targets: [vllm, vllm/x, { provider: vllm }] } }', true],
  ['routes: { r: {} }', false],
  ['routes: { r: { targets: [] } }', false],
]
for (const [yaml, good] of files)
  test(`the schema and the loader agree: ${yaml.replace(/\n/g, ' ')}`, () => {
    assert.equal(validate(parse(yaml)), good)
    assert.equal(load({ env: {}, yaml }).ok, good)
  })

test('every example is valid, for the schema and the loader', async () => {
  const names = globSync('examples/*/headgate.yaml', { cwd: root })
  assert.ok(names.length >= 3)
  for (const name of names) {
    const yaml = await text(name)
    const env = Object.fromEntries(
      [...yaml.matchAll(/\$\{(\w+)\}/g)].map(([, variable]) => [variable, `key-0123456789-of-${variable}`]),
    )
    const result = configure({ env, file: { name, text: yaml, reader: fileReader }, providers: real })
    assert.ok(result.ok, result.ok ? '' : JSON.stringify(result.problems))
    assert.ok(result.config.instances.length > 0)
    const { auth, ...others } = parse(yaml)
    // `auth.keys` may be a list from one variable, which the editor's schema cannot express.
    assert.ok(validate(others), `${name}: ${JSON.stringify(validate.errors)}`)
    assert.ok(auth === undefined || typeof auth.keys === 'string')
  }
})

test('the sample .env sets nothing, and every line of it is valid', async () => {
  const { parseEnv } = await import('node:util')
  const sample = await text('.env.example')
  assert.deepEqual(parseEnv(sample), {})
  const used = sample.replace(/^#([A-Z0-9_]+=)/gm, '$1')
  assert.ok(Object.keys(parseEnv(used)).length > 60)
  const result = configure({ env: {}, dotenv: used, providers: real })
  assert.ok(result.ok, result.ok ? '' : JSON.stringify(result.problems))
})
