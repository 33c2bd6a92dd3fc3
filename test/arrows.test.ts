/**
 * Checks the imports of `src`: which folder may import which, that no file takes part in an import cycle, and that only
 * `src/edge`, `src/serve`, `serve.ts` and `main.ts` use the clock, randomness, the network, timers and the environment.
 */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { test } from 'node:test'

const src = join(import.meta.dirname, '..', 'src')

/** What each top-level folder may import, beside itself. */
const FOLDERS: { readonly [folder: string]: readonly string[] } = {
  core: [],
  protocols: ['core'],
  providers: ['core'],
  policy: ['core'],
  gateway: ['core', 'protocols', 'policy'],
  edge: ['core', 'protocols', 'policy', 'gateway'],
  // The process: it builds and connects the parts.
  serve: ['core', 'policy', 'gateway', 'edge'],
}

const FORMAT = ['protocols/framing', 'protocols/shared', 'protocols/errors']

/** Formats of clients, which share the readers of parts, because clients mix the formats. */
const CLIENT_FORMAT = [...FORMAT, 'protocols/client-parts']

/** What each room may import from its siblings. A room is a subfolder; the files beside it are the room `<folder>/`. */
const ROOMS: { readonly [room: string]: readonly string[] } = {
  'policy/': ['policy/retry'],
  'policy/accounts': [],
  'policy/alerts': [],
  'policy/egress': ['policy/accounts'],
  'policy/health': ['policy/retry'],
  'policy/reply': [],
  'policy/retry': [],
  'policy/routing': ['policy/accounts', 'policy/health', 'policy/retry'],

  'protocols/': [
    'protocols/anthropic-messages',
    'protocols/bedrock-converse',
    'protocols/cohere',
    'protocols/gemini',
    'protocols/mistral',
    'protocols/ollama',
    'protocols/openai-chat',
    'protocols/openai-completions',
    'protocols/openai-responses',
  ],
  'protocols/client-parts': ['protocols/shared'],
  'protocols/framing': [],
  'protocols/errors': [],
  'protocols/shared': ['protocols/errors', 'protocols/framing'],
  'protocols/anthropic-messages': CLIENT_FORMAT,
  'protocols/bedrock-converse': FORMAT,
  'protocols/cohere': FORMAT,
  'protocols/embeddings': FORMAT,
  'protocols/gemini': FORMAT,
  'protocols/ollama': FORMAT,
  'protocols/openai-chat': CLIENT_FORMAT,
  'protocols/openai-responses': CLIENT_FORMAT,
  // Both extend OpenAI's chat completions.
  'protocols/mistral': [...FORMAT, 'protocols/openai-chat'],
  'protocols/openai-completions': [...FORMAT, 'protocols/openai-chat'],

  // The types of the dependencies that every call receives.
  'gateway/': ['gateway/accounts', 'gateway/call', 'gateway/health', 'gateway/responses', 'gateway/sharing'],
  'gateway/accounts': ['gateway/call'],
  'gateway/call': ['gateway/', 'gateway/accounts'],
  'gateway/health': [],
  'gateway/upstream': ['gateway/', 'gateway/call'],
  'gateway/routing': ['gateway/', 'gateway/accounts', 'gateway/call', 'gateway/health', 'gateway/upstream'],
  'gateway/chat': [
    'gateway/',
    'gateway/accounts',
    'gateway/call',
    'gateway/health',
    'gateway/upstream',
    'gateway/routing',
    'gateway/sharing',
  ],
  'gateway/endpoints': [
    'gateway/',
    'gateway/accounts',
    'gateway/call',
    'gateway/health',
    'gateway/upstream',
    'gateway/routing',
    'gateway/sharing',
  ],
  'gateway/responses': ['gateway/', 'gateway/call', 'gateway/upstream', 'gateway/routing', 'gateway/chat'],
  'gateway/sharing': ['gateway/', 'gateway/call', 'gateway/upstream', 'gateway/endpoints'],

  'edge/net': [],
  'edge/alerts': ['edge/net'],
  'edge/catalogue': [],
  // What both engines of databases have in common. Its dialect and its migrations know which engine it is.
  'edge/sql': ['edge/postgres'],
  'edge/postgres': ['edge/sql'],
  'edge/sqlite': ['edge/sql'],
  'edge/store': ['edge/sql', 'edge/sqlite'],
  'edge/ledger': ['edge/postgres', 'edge/sql', 'edge/sqlite'],
  'edge/control': ['edge/config', 'edge/postgres', 'edge/sql', 'edge/sqlite'],
  // What is done with all schemas of Postgres.
  'edge/shared-database': ['edge/control', 'edge/ledger', 'edge/postgres', 'edge/sql', 'edge/sqlite'],
  'edge/counters': ['edge/ledger', 'edge/observe', 'edge/sqlite'],
  'edge/config': [],
  // Checks of configurations in a thread.
  'edge/checking': ['edge/catalogue', 'edge/config', 'edge/sqlite'],
  'edge/observe': ['edge/process'],
  'edge/identity': ['edge/config', 'edge/net'],
  'edge/process': ['edge/config', 'edge/sqlite'],
  'edge/upstream-http': ['edge/net', 'edge/process'],
  'edge/http/server': ['edge/net'],
  'edge/http/app': ['edge/http/server', 'edge/config', 'edge/control', 'edge/observe', 'edge/process'],
  'edge/backup': ['edge/control', 'edge/ledger', 'edge/sqlite'],
  'edge/admin': [
    'edge/alerts',
    'edge/backup',
    'edge/checking',
    'edge/config',
    'edge/connect',
    'edge/control',
    'edge/http/app',
    'edge/ledger',
    'edge/live',
    'edge/observe',
  ],
  // How clients are configured, for the command line and the dashboard.
  'edge/connect': [],
  // Configurations of other gateways.
  'edge/import': [],
  'edge/built-pages': ['edge/http/app'],
  'edge/dashboard': ['edge/built-pages', 'edge/http/app'],
  'edge/docs': ['edge/built-pages', 'edge/http/app', 'edge/sqlite'],
  'edge/live': [],
  'edge/workers': ['edge/config', 'edge/counters', 'edge/ledger', 'edge/live', 'edge/observe', 'edge/process'],
  // A process of its own, which reads what the gateway writes.
  'edge/cli': [
    'edge/backup',
    'edge/catalogue',
    'edge/config',
    'edge/connect',
    'edge/control',
    'edge/identity',
    'edge/import',
    'edge/ledger',
    'edge/observe',
    'edge/process',
    'edge/shared-database',
    'edge/sqlite',
    'edge/upstream-http',
  ],
}

/** The only package imported outside `src/edge`: the settings are defined with it. */
const PACKAGES: { readonly [file: string]: readonly string[] } = { 'core/settings.ts': ['zod'] }

/** Time, randomness and I/O are arguments everywhere else. */
const IMPURE =
  /\b(Date\.now|new Date\(\)|Math\.random|performance\.|setTimeout|setInterval|setImmediate|queueMicrotask|process\.|(?<![#.\w])fetch\(|crypto\.|Buffer\.|console\.|globalThis)/

const files = globSync('**/*.ts', { cwd: src })
  .filter((file) => !file.endsWith('.test.ts'))
  .toSorted()
const withoutComments = (text: string) => text.replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '')
const importsIn = (text: string) =>
  [...text.matchAll(/(?:\bfrom|\bimport\()\s*'([^']+)'/g)].map((match) => match[1] ?? '')

type Source = { readonly text: string; readonly local: readonly string[]; readonly packages: readonly string[] }

const sources = new Map<string, Source>(
  files.map((file) => {
    const text = withoutComments(readFileSync(join(src, file), 'utf8'))
    const found = importsIn(text)
    const isLocal = (path: string) => path.startsWith('.')
    const local = found.filter(isLocal).map((path) => relative(src, join(src, dirname(file), path)))
    return [file, { text, local, packages: found.filter((path) => !isLocal(path)) }]
  }),
)

const folderOf = (file: string): string => file.split('/')[0] ?? ''

/** `edge/http/app`, `gateway/call`, `policy/`; null where a folder has no rooms. */
const roomOf = (file: string): string | null => {
  const steps = dirname(file).split('/')
  const room = steps.slice(0, steps[1] === 'http' ? 3 : 2).join('/')
  if (steps.length > 1) return steps[0] === 'core' || steps[0] === 'providers' ? null : room
  return ['policy', 'protocols', 'gateway'].includes(room) ? `${room}/` : null
}

for (const [file, { text, local, packages }] of sources) {
  const folder = folderOf(file)
  if (!(folder in FOLDERS)) continue
  test(`arrows: ${file}`, () => {
    for (const target of local) {
      const other = folderOf(target)
      assert.ok(
        other === folder || FOLDERS[folder]?.includes(other),
        `${file} imports ${target}: ${folder} must not import ${other}`,
      )
      const [from, to] = [roomOf(file), roomOf(target)]
      if (other !== folder || from === null || to === null || from === to) continue
      assert.ok(ROOMS[from]?.includes(to), `${file} imports ${target}: ${from} must not import ${to}`)
    }
    if (folder === 'edge' || folder === 'serve') return
    for (const name of packages)
      assert.ok(
        PACKAGES[file]?.includes(name),
        `${file} imports ${name}: only src/edge and src/serve import packages and node: modules`,
      )
    const found = IMPURE.exec(text)
    assert.equal(found, null, `${file} uses ${found?.[0]}: only src/edge and src/serve may`)
  })
}

test('arrows: every folder and every room of src is listed', () => {
  const folders = new Set(files.filter((file) => file.includes('/')).map(folderOf))
  assert.deepEqual([...folders].sort(), Object.keys(FOLDERS).sort())
  const rooms = new Set(files.map(roomOf).filter((room) => room !== null))
  assert.deepEqual([...rooms].sort(), Object.keys(ROOMS).sort())
})

test('arrows: no file takes part in an import cycle, type imports included', () => {
  const done = new Set<string>()
  const cycleFrom = (file: string, path: readonly string[]): readonly string[] | null => {
    if (path.includes(file)) return [...path.slice(path.indexOf(file)), file]
    if (done.has(file)) return null
    for (const next of sources.get(file)?.local ?? []) {
      const cycle = cycleFrom(next, [...path, file])
      if (cycle) return cycle
    }
    done.add(file)
    return null
  }
  for (const file of files) assert.equal(cycleFrom(file, [])?.join(' → ') ?? null, null)
})
