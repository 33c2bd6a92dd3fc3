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
  // It binds a port for a moment, before the server listens.
  const binding = ['runtime/free-port.ts']
  // Commands, which are processes of their own, call a gateway on a Unix socket and with a certificate.
  const commands = ['cli/gateway-fetch.ts']
  assert.deepEqual(outside(network, 'transport/server/', 'server/', 'transport/client/', ...binding, ...commands), [])
  assert.deepEqual(outside(importing(/^@opentelemetry\//), 'observe/otlp/'), [])
  // These have their own network code or sign requests; no client input reaches them.
  assert.deepEqual(outside(importing(/^(?:@aws-sdk\/|aws4fetch|google-auth-library)/), 'transport/identity/'), [])
  // The clients of shared stores. Those that carry messages between gateways run in the process, the others in threads.
  assert.deepEqual(outside(importing(/^pg(?:$|[/-])/), 'storage/sql/postgres/'), [])
  assert.deepEqual(outside(importing(/^ioredis/), 'storage/redis/'), [])
  // The command line calls a gateway. It is a process of its own: the gateway loads only the reader of its arguments.
  const calling = containing(/(?<![#.\w])(?:fetch|XMLHttpRequest|EventSource|importScripts)\s*\(|new WebSocket\(/)
  assert.deepEqual(calling, ['cli/gateway-fetch.ts', 'cli/verbs/tape.ts'])
  assert.deepEqual(outside(importing(/\/cli\//), 'cli/'), ['main.ts'])
})

test('built: no process is started and no text is evaluated', () => {
  assert.deepEqual(importing(/^(?:node:)?(?:cluster|vm|repl|inspector|wasi)/), [])
  // One place creates threads: they run files of the project and get no environment.
  const host = 'storage/thread/connect-thread.ts'
  const inThreads = /^storage\/thread\/(?:thread-entry\.mjs|serve-thread\.ts|thread-part\.ts)$/
  const usingThreads = importing(/^(?:node:)?worker_threads/).filter((file) => !inThreads.test(file))
  assert.deepEqual(usingThreads, [host])
  // The other one sets certificates that threads trust.
  const loading = containing(/getBuiltinModule\('node:(?:worker_threads|cluster|vm|repl)'/)
  assert.deepEqual(loading.toSorted(), [host, 'transport/net/authorities.ts'])
  assert.doesNotMatch(source.get('transport/net/authorities.ts') ?? '', /new Worker/)
  assert.deepEqual(containing(/new Worker\(/), [host])
  assert.match(source.get(host) ?? '', /ENTRY = new URL\('\.\/thread-entry\.mjs', import\.meta\.url\)/)
  assert.match(
    source.get(host) ?? '',
    /\{ program: program\.href, data: data\(\), compileCache: getCompileCacheDir\(\) \}/,
  )
  assert.match(source.get(host) ?? '', /new Worker\(ENTRY, \{ workerData, env: \{\}, execArgv: \[\]/)
  const connecting = importing(/\/connect-thread\.ts$/)
  const rooms = [
    'storage/cache/',
    'storage/pass/',
    'storage/responses/',
    'usage/',
    'records/store/',
    'limits/',
    'news/',
    'backup/',
    'config/checking/',
    'server/pages/docs/',
  ]
  assert.deepEqual(outside(connecting, ...rooms), [])
  for (const client of connecting) {
    assert.match(
      source.get(client) ?? '',
      /PROGRAM = new URL\('\.\/[a-z]+-thread\.(?:ts|mjs)', import\.meta\.url\)/,
      client,
    )
    assert.match(source.get(client) ?? '', /new ThreadClient(?:<[^(]+>)?\(\{\s*program: PROGRAM,/, client)
  }
  // Starts copies of itself, as many as configured, and in a clone the build of its pages, without the environment. Two commands, which
  // are processes of their own, start a gateway with the user's command, and the fault suite.
  const builder = 'server/pages/building.ts'
  assert.deepEqual(
    importing(/^(?:node:)?child_process/).toSorted(),
    ['cli/verbs/tape.ts', 'cli/verbs/torture.ts', 'process/workers/worker-process.ts', builder].toSorted(),
  )
  assert.match(source.get(builder) ?? '', /spawn\(process\.execPath, \[program, folder\], \{/)
  assert.match(source.get(builder) ?? '', /env: \{ PATH: process\.env\.PATH \?\? '' \},/)
  assert.match(source.get('process/workers/worker-process.ts') ?? '', /fork\(program, /)
  assert.deepEqual(containing(/\b(?:execFile|spawn)(?:Sync)?\(\s*['"`]|shell:/), [])
  // The compile cache, and a package loaded by name on first use.
  assert.deepEqual(importing(/^(?:node:)?module/).toSorted(), [
    'main.ts',
    'server/web-socket.ts',
    'storage/thread/connect-thread.ts',
    'storage/thread/thread-entry.mjs',
  ])
  assert.deepEqual(containing(/registerHooks|module\.register|syncBuiltin/), [])
  assert.deepEqual(containing(/(?<![.\w])eval\(|new Function\(|(?<![.\w])Function\(|process\.(?:dlopen|binding)/), [])
  // No module name is computed from input: providers are files of a folder, read at start; threads import their program.
  const computed = [...source].filter(([, text]) => /import\((?!\s*'[^']+'\s*\))/.test(text)).map(([file]) => file)
  assert.deepEqual(computed.toSorted(), ['config/catalogue/provider-files.ts', 'storage/thread/thread-entry.mjs'])
})

test('built: the parsers are strict, and certificates are verified', () => {
  assert.deepEqual(
    containing(
      /insecureHTTPParser|httpAllowHalfOpen|rejectUnauthorized:\s*false|checkServerIdentity|NODE_TLS_REJECT|uniqueHeaders|joinDuplicateHeaders/,
    ),
    // It names the variable in a warning that it has no effect.
    ['config/egress.ts'],
  )
  assert.deepEqual(outside(containing(/rejectUnauthorized:\s*true/), 'transport/client/'), [])
  assert.ok(containing(/rejectUnauthorized:\s*true/).length > 0)
})

test('built: no debugger, heap snapshot or diagnostic report', () => {
  assert.deepEqual(containing(/writeHeapSnapshot|getHeapSnapshot|process\.report|inspector|util\.debuglog/), [])
  const flags = [...source].flatMap(([file, text]) =>
    [...text.matchAll(/setFlagsFromString\(([^)]*)\)/g)].map(([, flag]) => [file, flag]),
  )
  assert.deepEqual(flags, [
    ['runtime/heap-tuning.ts', "growth ? '--semi-space-growth-factor=2' : '--semi-space-growth-factor=1'"],
    ['runtime/heap-tuning.ts', "'--no-memory-reducer-favors-memory'"],
    ['runtime/heap-tuning.ts', "'--no-maglev-destroy-on-background'"],
    ['runtime/heap-tuning.ts', "'--max-inlined-bytecode-size=800'"],
    ['runtime/heap-tuning.ts', "'--max-inlined-bytecode-size-cumulative=4000'"],
  ])
})

test('built: credentials are looked up by a digest with a secret random salt', () => {
  const keys = source.get('server/key-index.ts') ?? ''
  assert.match(keys, /const SALT = randomBytes\(32\)/)
  assert.match(keys, /hash\('sha256', SALT \+ text/)
  assert.match(
    keys,
    /findByDigest\(isSame\(presented, last\.text\) \? last\.digest : saltedDigest\(presented\), presented, last\)/,
  )
  assert.match(
    keys,
    /const known = this\.#configured\.get\(salted\) \?\? this\.#stored\.get\(this\.#found\.get\(salted\) \?\? ''\)/,
  )
  assert.match(
    source.get('server/access-rules.ts') ?? '',
    /const digest = hasTokens && isTokenText\(presented\) \? saltedDigest\(presented\) : undefined/,
  )
  // That of the connection's last credential is compared to its end, whatever differs.
  assert.match(keys, /difference \|= presented\.charCodeAt\(at\) \^ last\.charCodeAt\(at\)\s+return difference === 0/)
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
    // The variable that has this value, whose name a written configuration states.
    'config/config-yaml.ts',
    // What problems of the configuration must not repeat.
    'config/configure.ts',
    // A digest: connections are shared where it is equal.
    'config/egress.ts',
    // Moved to the thread that exports telemetry.
    'core/egress.ts',
    // Headers that the operator sets for a provider.
    'gateway/upstream/client-headers.ts',
    'gateway/upstream/outbound-request.ts',
    'gateway/upstream/redact.ts',
    'observe/alerts/webhook.ts',
    // What a tape must not contain.
    'process/tape.ts',
    'server/admin/claude/telemetry-relay.ts',
    // The client secret for issuers, and the secret of single sign-on.
    'server/admin/sign-in/issuer.ts',
    'server/sso-keys.ts',
    'tape/taped-call.ts',
    // The key of the client's certificate, and the credentials of a proxy.
    'transport/client/connect.ts',
    'transport/client/dial.ts',
    'transport/client/proxy-hop.ts',
    // Addresses, headers and secrets of services.
    'transport/guards/service-client.ts',
    'usage/bodies/body-keeper.ts',
  ])
})
