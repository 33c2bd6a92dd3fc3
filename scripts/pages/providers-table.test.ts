import assert from 'node:assert/strict'
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { loadProviders } from '../../src/config/catalogue/load-providers.ts'
import { configure } from '../../src/config/configure.ts'
import { PAGE_FILE, providersPage, README_FILE, readmeWith } from './providers-table.ts'

const providers = await loadProviders()
const readme = readFileSync(README_FILE, 'utf8')

test('docs: docs/providers.md is current; `npm run providers` updates it', () => {
  assert.equal(readFileSync(PAGE_FILE, 'utf8'), providersPage(providers))
})

test('docs: the README’s provider table is current; `npm run providers` updates it', () => {
  assert.equal(readme, readmeWith(readme, providers))
})

test('docs: a README without the table’s markers is an error', () => {
  assert.throws(() => readmeWith('# Headgate', providers), /no table of providers/)
})

// ── A new provider is one file ───────────────────────────────────────────────────────────────────────────────────

const FASTCLOUD = `import type { Provider } from '../core/provider.ts'
import { olderChat } from './quirks/request.ts'

export default {
  name: 'fastcloud',
  title: 'Fastcloud',
  order: 105,
  baseUrl: 'https://api.fastcloud.example/v1',
  speaks: [{ protocol: 'openai-chat' }],
  auth: { header: 'authorization', prefix: 'Bearer ' },
  defaultModel: 'fast-1',
  models: { path: '/models' },
  quirks: { requestBody: olderChat },
} satisfies Provider
`

test('a new OpenAI-compatible provider is one file: configured by its variable, listed in both tables, nothing else changed', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-providers-'))
  try {
    // Provider files may import only their own folder and core (test/arrows.test.ts).
    for (const part of ['core', 'providers'])
      cpSync(new URL(`../../src/${part}/`, import.meta.url), join(folder, part), { recursive: true })
    writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
    writeFileSync(join(folder, 'providers', 'fastcloud.ts'), FASTCLOUD)
    const more = await loadProviders(pathToFileURL(`${join(folder, 'providers')}/`))
    assert.deepEqual(
      [...more.keys()].filter((name) => name !== 'fastcloud'),
      [...providers.keys()],
    )

    const env = { FASTCLOUD_API_KEY: 'sk-fast' }
    const before = configure({ env, dotenv: undefined, file: undefined, providers })
    assert.ok(before.ok)
    assert.deepEqual(
      before.config.instances.map(({ id }) => id),
      ['demo'],
    )
    const after = configure({ env, dotenv: undefined, file: undefined, providers: more })
    assert.ok(after.ok)
    assert.deepEqual(
      after.config.instances.map(({ id, baseUrl, keys }) => [id, baseUrl, keys.map(({ secret }) => secret?.reveal())]),
      [['fastcloud', 'https://api.fastcloud.example/v1', ['sk-fast']]],
    )

    const added = (now: string, then: string) => {
      const old = new Set(then.split('\n'))
      return now.split('\n').filter((line) => !old.has(line) && !line.startsWith('<details>'))
    }
    assert.deepEqual(added(providersPage(more), providersPage(providers)), [
      '| `fastcloud` | Fastcloud | `FASTCLOUD_API_KEY` | chat |  | `fast-1` |  |  |',
      '| Fastcloud |  | https://api.fastcloud.example/v1 |  |',
    ])
    assert.deepEqual(added(readmeWith(readme, more), readme), [
      '| Fastcloud | `FASTCLOUD_API_KEY` | chat |  | chat, model list |',
    ])
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
