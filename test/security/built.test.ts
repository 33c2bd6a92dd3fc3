/** What cannot happen because no code could do it: read from the source, so that whoever adds such code learns of it here. */
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

test('built: only the way in and the way upstream touch the network', () => {
  const network = importing(/^(?:node:)?(?:net|tls|http|https|http2|dgram|dns|dns\/promises|quic|undici|ws|inspector)$/)
  assert.ok(network.length > 3)
  // A seat holds its port before the first of several processes listens there.
  assert.deepEqual(outside(network, 'edge/http/', 'edge/upstream-http/', 'edge/workers/worker.ts'), [])
  // These have a network of their own, or sign for one; nothing a client says reaches them.
  assert.deepEqual(outside(importing(/^(?:@aws-sdk\/|aws4fetch|google-auth-library)/), 'edge/identity/'), [])
  assert.deepEqual(containing(/(?<![#.\w])(?:fetch|XMLHttpRequest|EventSource|importScripts)\s*\(|new WebSocket\(/), [])
})

test('built: nothing is started, and no text becomes code', () => {
  assert.deepEqual(importing(/^(?:node:)?(?:cluster|vm|repl|inspector|wasi)/), [])
  // One thread, of a file of ours: it waits for the disk, and receives the folder's name and no environment.
  assert.deepEqual(outside(importing(/^(?:node:)?worker_threads/), 'edge/store/'), [])
  assert.deepEqual(containing(/getBuiltinModule\('node:(?:worker_threads|cluster|vm|repl)'/), ['edge/store/client.ts'])
  assert.match(source.get('edge/store/client.ts') ?? '', /new Worker\(THREAD, \{ workerData, env: \{\}, execArgv: \[\]/)
  // Itself, as often as it was told to at the start.
  assert.deepEqual(importing(/^(?:node:)?child_process/), ['edge/workers/supervise.ts'])
  assert.match(source.get('edge/workers/supervise.ts') ?? '', /fork\(program, /)
  assert.deepEqual(containing(/\b(?:execFile|spawn)(?:Sync)?\(\s*['"`]|shell:/), [])
  // What was compiled before, and a package that is loaded when it is first asked for, by its name.
  assert.deepEqual(importing(/^(?:node:)?module/).toSorted(), [
    'edge/http/app/web-socket.ts',
    'edge/store/client.ts',
    'edge/store/store-thread.mjs',
    'main.ts',
  ])
  assert.deepEqual(containing(/registerHooks|module\.register|syncBuiltin/), [])
  assert.deepEqual(containing(/(?<![.\w])eval\(|new Function\(|(?<![.\w])Function\(|process\.(?:dlopen|binding)/), [])
  // A module's name is never made of what came from outside but the folder of providers, read at start.
  const computed = [...source].filter(([, text]) => /import\((?!\s*'[^']+'\s*\))/.test(text)).map(([file]) => file)
  assert.deepEqual(computed, ['edge/catalogue/provider-files.ts'])
})

test('built: the parsers are as strict as they come, and certificates are looked at', () => {
  assert.deepEqual(
    containing(
      /insecureHTTPParser|httpAllowHalfOpen|rejectUnauthorized:\s*false|checkServerIdentity|NODE_TLS_REJECT|uniqueHeaders|joinDuplicateHeaders/,
    ),
    [],
  )
  assert.deepEqual(outside(containing(/rejectUnauthorized:\s*true/), 'edge/upstream-http/'), [])
  assert.ok(containing(/rejectUnauthorized:\s*true/).length > 0)
})

test('built: nothing dumps the process: no debugger, no heap snapshot, no report', () => {
  assert.deepEqual(containing(/writeHeapSnapshot|getHeapSnapshot|process\.report|inspector|util\.debuglog/), [])
  const flags = [...source].flatMap(([file, text]) =>
    [...text.matchAll(/setFlagsFromString\(([^)]*)\)/g)].map(([, flag]) => [file, flag]),
  )
  assert.deepEqual(flags, [
    ['main.ts', "'--no-allocation-site-pretenuring'"],
    ['edge/process/heap-tuning.ts', "may ? '--semi-space-growth-factor=2' : '--semi-space-growth-factor=1'"],
  ])
})

test('built: credentials are looked up by a digest with a salt that nobody knows', () => {
  const keys = source.get('edge/http/app/client-keys.ts') ?? ''
  assert.match(keys, /salt = randomBytes\(32\)/)
  assert.match(keys, /hash\('sha256', salt \+ value/)
  assert.match(keys, /known\.get\(salted\(presented\)\)/)
  // Nobody else holds what a client presents against what is configured.
  const compared = [...source].filter(([, text]) => /auth\.(?:keys|admin)/.test(text)).map(([file]) => file)
  for (const file of compared)
    assert.doesNotMatch(
      source.get(file) ?? '',
      /auth\.keys\.(?:includes|indexOf|some|find)\(|===\s*settings\.auth\.admin|auth\.admin\s*===(?!\s*undefined)/,
      file,
    )
})

test('built: a secret is revealed only where it signs in or is taken out of what comes back', () => {
  assert.deepEqual(containing(/\.reveal\(\)/).toSorted(), [
    'gateway/upstream/outbound-request.ts',
    'gateway/upstream/redact.ts',
  ])
})
