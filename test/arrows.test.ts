/**
 * Checks the imports of `src`: which folder and room may import which, that neither files nor rooms import each other in a
 * circle, and that the pure folders do not use the clock, randomness, the network, timers and the environment.
 */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { test } from 'node:test'

const src = join(import.meta.dirname, '..', 'src')

/** The pure folders, and what each may import beside itself. */
const INNER: { readonly [folder: string]: readonly string[] } = {
  core: [],
  protocols: ['core'],
  providers: ['core'],
  policy: ['core'],
  gateway: ['core', 'protocols', 'policy'],
}

/** Those that the rooms with I/O may import. Providers are found by their files. */
const PURE = ['core', 'protocols', 'policy', 'gateway']

const FORMAT = ['protocols/framing', 'protocols/shared', 'protocols/errors']

/** Formats of clients, which share the readers of parts, because clients mix the formats. */
const CLIENT_FORMAT = [...FORMAT, 'protocols/client-parts']

/** A format that is not listed below may import what clients' formats share. */
const FORMATS: { readonly [room: string]: readonly string[] } = Object.fromEntries(
  globSync('protocols/*/index.ts', { cwd: src })
    .map(dirname)
    .filter((room) => room !== 'protocols/embeddings')
    .map((room) => [room, CLIENT_FORMAT]),
)

/** What each room may import from its siblings. A room is a subfolder; the files beside it are the room `<folder>/`. */
const ROOMS: { readonly [room: string]: readonly string[] } = {
  'policy/': ['policy/retry'],
  'policy/accounts': [],
  'policy/alerts': [],
  'policy/claude': [],
  'policy/drill': [],
  'policy/egress': ['policy/accounts'],
  'policy/guards': ['policy/accounts'],
  'policy/health': ['policy/retry'],
  'policy/identity': ['policy/accounts'],
  'policy/pass': ['policy/accounts', 'policy/routing'],
  'policy/prove': ['policy/accounts', 'policy/routing', 'policy/identity', 'policy/sign-in'],
  'policy/reply': [],
  'policy/retry': [],
  'policy/sessions': [],
  'policy/sign-in': [],
  'policy/switching': ['policy/routing'],
  'policy/routing': ['policy/accounts', 'policy/health', 'policy/retry'],

  // The formats, each of which has a folder.
  ...FORMATS,
  'protocols/': Object.keys(FORMATS),
  'protocols/client-parts': ['protocols/shared'],
  'protocols/framing': [],
  'protocols/errors': [],
  'protocols/shared': ['protocols/errors', 'protocols/framing'],
  'protocols/bedrock-converse': FORMAT,
  'protocols/cohere': FORMAT,
  // Google's clients spell embeddings as they spell chat.
  'protocols/embeddings': [...FORMAT, 'protocols/gemini'],
  'protocols/ollama': FORMAT,
  // Both extend OpenAI's chat completions.
  'protocols/mistral': [...FORMAT, 'protocols/openai-chat'],
  'protocols/openai-completions': [...FORMAT, 'protocols/openai-chat'],

  // The dependencies of all calls in one type, for those who create them.
  'gateway/': ['gateway/chat', 'gateway/responses', 'gateway/sharing'],
  'gateway/accounts': [],
  'gateway/health': [],
  'gateway/call': ['gateway/accounts'],
  'gateway/upstream': ['gateway/accounts'],
  'gateway/guards': ['gateway/accounts', 'gateway/call', 'gateway/upstream'],
  'gateway/routing': ['gateway/accounts', 'gateway/call', 'gateway/health', 'gateway/upstream'],
  'gateway/sharing': ['gateway/accounts', 'gateway/call', 'gateway/upstream'],
  'gateway/chat': [
    'gateway/accounts',
    'gateway/call',
    'gateway/guards',
    'gateway/health',
    'gateway/upstream',
    'gateway/routing',
    'gateway/sharing',
  ],
  'gateway/drill': [
    'gateway/accounts',
    'gateway/call',
    'gateway/chat',
    'gateway/health',
    'gateway/routing',
    'gateway/upstream',
  ],
  'gateway/handlers': [
    'gateway/accounts',
    'gateway/call',
    'gateway/guards',
    'gateway/health',
    'gateway/upstream',
    'gateway/routing',
    'gateway/sharing',
  ],
  'gateway/pass': [
    'gateway/accounts',
    'gateway/call',
    'gateway/guards',
    'gateway/health',
    'gateway/routing',
    'gateway/upstream',
  ],
  'gateway/realtime': ['gateway/accounts', 'gateway/call', 'gateway/guards', 'gateway/routing', 'gateway/upstream'],
  'gateway/relay': [
    'gateway/accounts',
    'gateway/call',
    'gateway/guards',
    'gateway/routing',
    'gateway/sharing',
    'gateway/upstream',
  ],
  'gateway/shadow': [
    'gateway/accounts',
    'gateway/call',
    'gateway/chat',
    'gateway/health',
    'gateway/routing',
    'gateway/upstream',
  ],
  'gateway/responses': ['gateway/accounts', 'gateway/call', 'gateway/upstream', 'gateway/routing', 'gateway/chat'],

  // The rooms with I/O, beside the pure folders.
  'transport/net': [],
  'transport/server': ['transport/net'],
  'transport/client': ['transport/net'],
  // Services that guards ask.
  'transport/guards': ['transport/net'],
  demo: [],
  // Recorded calls.
  tape: [],
  runtime: ['storage/files'],
  'storage/sql': [],
  'storage/redis': [],
  'storage/cache': ['storage/redis', 'storage/thread'],
  'storage/files': ['storage/sql'],
  'storage/thread': ['storage/sql'],
  'storage/pass': ['storage/files', 'storage/sql', 'storage/thread'],
  'storage/responses': ['storage/files', 'storage/sql', 'storage/thread'],
  'records/entities': [],
  'records/store': ['records/entities', 'storage/files', 'storage/sql', 'storage/thread'],
  config: ['records/entities'],
  'config/catalogue': [],
  // Checks of configurations in a thread.
  'config/checking': ['config', 'config/catalogue', 'storage/thread'],
  'transport/identity': ['config', 'transport/net'],
  'usage/journal': ['storage/files', 'storage/sql'],
  'usage/columns': ['storage/files', 'storage/sql', 'usage/journal'],
  'usage/bookkeeper': [
    'observe/otlp',
    'storage/files',
    'storage/sql',
    'storage/thread',
    'usage/columns',
    'usage/journal',
  ],
  'usage/reading': [
    'storage/files',
    'storage/sql',
    'storage/thread',
    'usage/bookkeeper',
    'usage/columns',
    'usage/journal',
  ],
  'usage/export': ['transport/net'],
  'usage/bodies': ['storage/files', 'storage/sql', 'storage/thread'],
  limits: ['observe', 'storage/redis', 'storage/sql', 'storage/thread', 'usage/bookkeeper', 'usage/journal'],
  // Limits and budgets that workers and their supervisor count together.
  'limits/workers': ['limits', 'usage/bookkeeper', 'usage/journal'],
  backup: [
    'limits',
    'news',
    'records/store',
    'storage/files',
    'storage/pass',
    'storage/responses',
    'storage/sql',
    'storage/thread',
    'usage/columns',
    'usage/journal',
  ],
  observe: ['runtime'],
  // Export of telemetry, loaded in the thread of the bookkeeper.
  'observe/otlp': ['transport/client', 'transport/net', 'usage/columns', 'usage/journal'],
  'observe/live': [],
  'observe/alerts': ['transport/net'],
  // Signed tokens of clients.
  issuers: ['storage/files', 'transport/net'],
  // How clients are configured, for the command line and the dashboard.
  connect: [],
  'server/answers': ['observe/otlp', 'records/entities'],
  server: ['config', 'observe', 'records/entities', 'records/store', 'runtime', 'transport/net', 'transport/server'],
  'server/admin': [
    'backup',
    'config',
    'config/checking',
    'connect',
    'observe',
    'observe/alerts',
    'observe/live',
    'observe/otlp',
    'records/entities',
    'records/store',
    'server',
    'server/answers',
    'transport/net',
    'usage/bodies',
    'usage/bookkeeper',
    'usage/reading',
  ],
  'server/pages': ['server', 'storage/thread'],
  // A process of its own, which reads what the gateway writes.
  cli: [
    'backup',
    'config',
    'config/catalogue',
    'connect',
    'demo',
    'issuers',
    'observe',
    'observe/otlp',
    'records/entities',
    'records/store',
    'runtime',
    'server/answers',
    'storage/files',
    'storage/sql',
    'tape',
    'transport/client',
    'transport/identity',
    'transport/net',
    'usage/bodies',
    'usage/bookkeeper',
  ],
  // Messages between gateways.
  news: ['storage/redis', 'storage/sql', 'storage/thread'],
  'process/fleet': ['news', 'observe/live', 'storage/sql', 'usage/journal'],
  'process/workers': [
    'config',
    'limits',
    'limits/workers',
    'observe',
    'news',
    'observe/live',
    'process/fleet',
    'runtime',
    'transport/net',
    'usage/bookkeeper',
    'usage/journal',
  ],
  // It creates and connects the parts.
  process: [
    'config',
    'config/catalogue',
    'demo',
    'issuers',
    'limits',
    'limits/workers',
    'observe',
    'observe/alerts',
    'observe/live',
    'observe/otlp',
    'process/fleet',
    'process/workers',
    'records/entities',
    'records/store',
    'runtime',
    'server',
    'server/admin',
    'server/pages',
    'storage/cache',
    'storage/files',
    'storage/pass',
    'storage/responses',
    'storage/sql',
    'tape',
    'transport/client',
    'transport/guards',
    'transport/identity',
    'transport/net',
    'transport/server',
    'usage/bodies',
    'usage/bookkeeper',
    'usage/export',
    'usage/journal',
    'usage/reading',
  ],
}

/** Where a room uses a package of `packages`. It is no part of the gateway: its values are loaded on use, by `import()`. */
const ON_USE: { readonly [file: string]: string } = { 'cli/verbs/import.ts': '../packages/import/index.ts' }
const STATIC_IMPORT = /\b(?:import|export)\s+(?!type\s)[^'";()]*?\bfrom\s*'[./]+\/packages\//

/** The vocabulary of faults: part of the fault suite, which imports nothing of `src`, and of rooms with I/O. */
const FAULTS = '../suite/faults.ts'

/** The only package that a pure folder imports: the settings are defined with it. */
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
const isInner = (file: string): boolean => folderOf(file) in INNER

/** `server/admin`, `gateway/call`, `policy/`; null in `src` itself and where a folder has no rooms. */
const roomOf = (file: string): string | null => {
  const [folder = '', ...below] = dirname(file).split('/')
  if (folder === '.' || folder === 'core' || folder === 'providers') return null
  if (isInner(file)) return `${folder}/${below[0] ?? ''}`
  const room = [folder, ...below.slice(0, 1)].join('/')
  return room in ROOMS ? room : folder
}

for (const [file, { text, local, packages }] of sources) {
  const folder = folderOf(file)
  if (!file.includes('/')) continue
  test(`arrows: ${file}`, () => {
    const allowed = INNER[folder] ?? PURE
    assert.ok(!STATIC_IMPORT.test(text), `${file} imports a package of this repository other than by import()`)
    for (const target of local) {
      if (target === ON_USE[file] || (target === FAULTS && !isInner(file))) continue
      const other = folderOf(target)
      const [from, to] = [roomOf(file), roomOf(target)]
      const message = `${file} imports ${target}: ${from ?? folder} must not import ${to ?? other}`
      if (isInner(target) && other !== folder) assert.ok(allowed.includes(other), message)
      else if (from !== null && to !== null && from !== to) assert.ok(ROOMS[from]?.includes(to), message)
      else assert.equal(other, folder, message)
    }
    if (!isInner(file)) return
    for (const name of packages)
      assert.ok(
        PACKAGES[file]?.includes(name),
        `${file} imports ${name}: the pure folders import neither packages nor node: modules`,
      )
    const found = IMPURE.exec(text)
    assert.equal(found, null, `${file} uses ${found?.[0]}: only the rooms with I/O may`)
  })
}

/** Readers of single members of JSON. */
const UNTYPED = /import \{[^}]*\b(?:list|number|object|text)\b[^}]*\} from '[./]*core\/json\.ts'/

test('arrows: the command line reads answers by their schemas', () => {
  const untyped = [...sources].filter(([file, { text }]) => file.startsWith('cli/') && UNTYPED.test(text))
  assert.deepEqual(
    untyped.map(([file]) => file),
    [],
  )
})

test('arrows: every folder and every room of src is listed', () => {
  const folders = new Set(files.map(folderOf).filter((folder) => folder in INNER))
  assert.deepEqual([...folders].sort(), Object.keys(INNER).sort())
  const rooms = new Set(files.map(roomOf).filter((room) => room !== null))
  assert.deepEqual([...rooms].sort(), Object.keys(ROOMS).sort())
})

test('arrows: docs/architecture.md has a sentence for each room', () => {
  const page = readFileSync(join(src, '..', 'docs', 'architecture.md'), 'utf8')
  const described = [...page.matchAll(/^\| `([a-z/]+)` \| .{12,} \|$/gm)].map(([, name]) => name ?? '')
  const outer = Object.keys(ROOMS).filter((room) => !(folderOf(room) in INNER))
  assert.deepEqual(
    [...Object.keys(INNER), ...outer].filter((name) => !described.includes(name)),
    [],
  )
})

/** Files that find others by their own place. The build replaces the list of providers; programs of a clone use the catalogue. */
const BY_PLACE = ['config/catalogue/catalogue.ts', 'config/catalogue/provider-files.ts', 'main.ts']

test('arrows: only main.ts finds folders by its own place, because a bundle has others', () => {
  const upwards = /new URL\(\s*['"`]\.\.|import\.meta\.(?:dirname|filename)/
  assert.deepEqual(
    [...sources].filter(([, { text }]) => upwards.test(text)).map(([file]) => file),
    BY_PLACE,
  )
})

test('arrows: no rooms import each other in a circle', () => {
  const reaches = (from: string, to: string, seen: Set<string>): boolean =>
    (ROOMS[from] ?? []).some((next) => {
      if (next === to) return true
      if (seen.has(next)) return false
      seen.add(next)
      return reaches(next, to, seen)
    })
  const circular = Object.keys(ROOMS).filter((room) => reaches(room, room, new Set()))
  assert.deepEqual(circular, [])
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
