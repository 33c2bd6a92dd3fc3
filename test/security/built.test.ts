/**
 * Properties that hold because no code could violate them, checked in the source. Code that breaks one of them fails
 * here.
 */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const src = join(import.meta.dirname, '..', '..', 'src')
const files = globSync('**/*.{ts,mjs}', { cwd: src }).filter((file) => !file.endsWith('.test.ts'))
const source = new Map(
  files.map((file) => [file, readFileSync(join(src, file), 'utf8').replace(/\/\*[\s\S]*?\*\/|(?<!:)\/\/.*$/gm, '')]),
)
const importing = (wanted: RegExp): readonly string[] =>
  [...source].flatMap(([file, text]) =>
    [...text.matchAll(/(?:from|import\()\s*'([^']+)'/g)].some(([, name = '']) => wanted.test(name)) ? [file] : [],
  )
const containing = (wanted: RegExp): readonly string[] =>
  [...source].flatMap(([file, text]) => (wanted.test(text) ? [file] : []))
const outside = (found: readonly string[], ...folders: readonly string[]) =>
  found.filter((file) => !folders.some((folder) => file.startsWith(folder)))

test('built: only the server and the upstream client use the network', () => {
  const network = importing(/^(?:node:)?(?:net|tls|http|https|http2|dgram|dns|dns\/promises|quic|undici|ws|inspector)$/)
  assert.ok(network.length > 3)
  // A worker's supervisor binds the port before the workers listen.
  assert.deepEqual(outside(network, 'edge/http/', 'edge/upstream-http/', 'edge/workers/worker.ts'), [])
  // These have their own network code or sign requests; no client input reaches them.
  assert.deepEqual(outside(importing(/^(?:@aws-sdk\/|aws4fetch|google-auth-library)/), 'edge/identity/'), [])
  assert.deepEqual(containing(/(?<![#.\w])(?:fetch|XMLHttpRequest|EventSource|importScripts)\s*\(|new WebSocket\(/), [])
})

test('built: no process is started and no text is evaluated', () => {
  assert.deepEqual(importing(/^(?:node:)?(?:cluster|vm|repl|inspector|wasi)/), [])
  // Two worker threads with files of the project; they wait for the disk and get the folder's name and no environment.
  const clients = ['edge/ledger/client.ts', 'edge/store/client.ts']
  assert.deepEqual(outside(importing(/^(?:node:)?worker_threads/), 'edge/store/', 'edge/ledger/'), [])
  assert.deepEqual(containing(/getBuiltinModule\('node:(?:worker_threads|cluster|vm|repl)'/).toSorted(), clients)
  for (const client of clients)
    assert.match(source.get(client) ?? '', /new Worker\(THREAD, \{ workerData, env: \{\}, execArgv: \[\]/)
  // Starts copies of itself, as many as configured.
  assert.deepEqual(importing(/^(?:node:)?child_process/), ['edge/workers/worker-process.ts'])
  assert.match(source.get('edge/workers/worker-process.ts') ?? '', /fork\(program, /)
  assert.deepEqual(containing(/\b(?:execFile|spawn)(?:Sync)?\(\s*['"`]|shell:/), [])
  // The compile cache, and a package loaded by name on first use.
  assert.deepEqual(importing(/^(?:node:)?module/).toSorted(), [
    'edge/http/app/web-socket.ts',
    'edge/ledger/client.ts',
    'edge/ledger/ledger-thread.mjs',
    'edge/store/client.ts',
    'edge/store/store-thread.mjs',
    'main.ts',
  ])
  assert.deepEqual(containing(/registerHooks|module\.register|syncBuiltin/), [])
  assert.deepEqual(containing(/(?<![.\w])eval\(|new Function\(|(?<![.\w])Function\(|process\.(?:dlopen|binding)/), [])
  // No module name is computed from input, except the providers folder, read at start.
  const computed = [...source].filter(([, text]) => /import\((?!\s*'[^']+'\s*\))/.test(text)).map(([file]) => file)
  assert.deepEqual(computed, ['edge/catalogue/provider-files.ts'])
})

test('built: the parsers are strict, and certificates are verified', () => {
  assert.deepEqual(
    containing(
      /insecureHTTPParser|httpAllowHalfOpen|rejectUnauthorized:\s*false|checkServerIdentity|NODE_TLS_REJECT|uniqueHeaders|joinDuplicateHeaders/,
    ),
    [],
  )
  assert.deepEqual(outside(containing(/rejectUnauthorized:\s*true/), 'edge/upstream-http/'), [])
  assert.ok(containing(/rejectUnauthorized:\s*true/).length > 0)
})

test('built: no debugger, heap snapshot or diagnostic report', () => {
  assert.deepEqual(containing(/writeHeapSnapshot|getHeapSnapshot|process\.report|inspector|util\.debuglog/), [])
  const flags = [...source].flatMap(([file, text]) =>
    [...text.matchAll(/setFlagsFromString\(([^)]*)\)/g)].map(([, flag]) => [file, flag]),
  )
  assert.deepEqual(flags, [
    ['edge/process/heap-tuning.ts', "may ? '--semi-space-growth-factor=2' : '--semi-space-growth-factor=1'"],
  ])
})

test('built: credentials are looked up by a digest with a secret random salt', () => {
  const keys = source.get('edge/http/app/client-keys.ts') ?? ''
  assert.match(keys, /salt = randomBytes\(32\)/)
  assert.match(keys, /hash\('sha256', salt \+ value/)
  assert.match(keys, /known\.get\(salted\(presented\)\)/)
  // No other code compares client credentials with configured ones.
  const compared = [...source].filter(([, text]) => /auth\.(?:keys|admin)/.test(text)).map(([file]) => file)
  for (const file of compared)
    assert.doesNotMatch(
      source.get(file) ?? '',
      /auth\.keys\.(?:includes|indexOf|some|find)\(|===\s*settings\.auth\.admin|auth\.admin\s*===(?!\s*undefined)/,
      file,
    )
})

test('built: secrets are revealed only for authentication and redaction', () => {
  assert.deepEqual(containing(/\.reveal\(\)/).toSorted(), [
    'gateway/upstream/outbound-request.ts',
    'gateway/upstream/redact.ts',
  ])
})
