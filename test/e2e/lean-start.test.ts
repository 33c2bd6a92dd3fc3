/**
 * The modules loaded until the first answer. Each of them delays every start of every worker, so the allowed ones are
 * listed here.
 */
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { answerWith } from '../support/answers.ts'
import { openControl } from '../support/control.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { COUNTED, loadedBy } from './support/loaded.ts'
import { post, start, USUAL } from './support/process.ts'

/** Allowed packages: zod defines the settings. */
const PACKAGES = ['zod']

const SOURCES = join(import.meta.dirname, '..', '..', 'src')

/** Node modules that load slowly and that a plain start does not need, with their purpose. */
const DEAR = [
  ['internal/deps/undici/undici', 'fetch and WebSocket: an import of node:http loads them'],
  ['http2', 'no purpose'],
  ['https', 'no purpose: node:tls makes the connections'],
  ['tls', 'the first secure upstream'],
  ['sqlite', 'the first stored response'],
  ['worker_threads', 'the bookkeeper and the store: an import of node:util reads it'],
] as const

/** The project's own files that only some configurations need. */
const LATER = [
  ['transport/identity/index.ts', 'cloud credentials'],
  ['transport/client/undici-connection.ts', 'HTTP_CLIENT=undici'],
  ['config/tree.ts', 'headgate.yaml'],
  ['process/workers/worker.ts', 'WORKERS'],
  ['server/admin/index.ts', 'the admin API'],
  ['server/openapi-schemas.ts', 'GET /openapi.json'],
  ['process/workers/supervise.ts', 'WORKERS'],
  ['limits/counters-client.ts', 'redis.url'],
  ['limits/shared-limits.ts', 'redis.url'],
  ['usage/journal/journal-writer.ts', 'usage.ledger'],
  ['usage/bookkeeper/ledger-client.ts', 'usage.ledger'],
  ['usage/bodies/bodies-client.ts', 'bodies'],
  ['server/relayed-sockets.ts', 'GET /v1/realtime'],
  ['gateway/realtime/serve-realtime.ts', 'GET /v1/realtime'],
] as const

/** Without the ledger, which the first model call loads. */
const UNRECORDED = { USAGE_LEDGER: 'false' }

describe('start-up loads few modules', () => {
  let upstream: Upstream
  before(async () => {
    upstream = await startUpstream((request) => answerWith(request, { text: 'x' }))
  })
  after(() => upstream?.close())

  const loaded = async (
    env: Readonly<Record<string, string>> = {},
    files: Readonly<Record<string, string>> = {},
    key = 'none',
  ) => {
    await using gateway = await start({
      env: {
        ...USUAL,
        OPENAI_API_KEY: 'sk-0123456789',
        OPENAI_BASE_URL: `${upstream.url}/v1`,
        OPENAI_MODELS: 'm',
        ...env,
        ...COUNTED,
      },
      files,
    })
    const body = { model: 'm', messages: [{ role: 'user', content: 'x' }] }
    for (const stream of [false, true])
      assert.equal(
        (await post(`${gateway.base}/chat/completions`, { ...body, stream }, { authorization: `Bearer ${key}` }))
          .status,
        200,
      )
    return await loadedBy(gateway)
  }

  test('with a provider by environment', async () => {
    const { packages, builtins, files } = await loaded(UNRECORDED)
    assert.deepEqual(packages, PACKAGES)
    // Guards against an empty list: `net` must be there.
    assert.ok(builtins.has('net'))
    for (const [name, use] of DEAR) assert.ok(!builtins.has(name), `${name} is loaded, which is for ${use}`)
    assert.ok(files.some((url) => url.endsWith('/src/process/serve.ts')))
    for (const [name, use] of LATER) {
      assert.ok(existsSync(join(SOURCES, name)), `${name} does not exist`)
      assert.ok(!files.some((url) => url.endsWith(`/src/${name}`)), `${name} is loaded, which is for ${use}`)
    }
  })

  test('with options of start, which need no package', async () => {
    await using gateway = await start({
      args: ['start', '--port', '0', '--host', '127.0.0.1'],
      env: { ...USUAL, ...COUNTED },
    })
    const { packages, files } = await loadedBy(gateway)
    assert.deepEqual(packages, PACKAGES)
    assert.deepEqual(
      files.filter((url) => url.includes('/src/cli/')).map((url) => url.replace(/.*\//, '')),
      ['launch.ts', 'start-options.ts'],
    )
  })

  test('the first model call loads the ledger, and the event loop loads no SQLite for it', async () => {
    const { packages, builtins, files } = await loaded()
    assert.deepEqual(packages, PACKAGES)
    assert.ok(files.some((url) => url.endsWith('/usage/journal/journal-writer.ts')))
    assert.ok(!builtins.has('sqlite'))
  })

  test('a database of keys needs node:sqlite, and no package', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'headgate-keys-'))
    after(() => rmSync(folder, { recursive: true, force: true }))
    using control = await openControl(folder)
    const { secret } = await control.createKey('a')
    const { packages, builtins } = await loaded({ DATA_DIR: folder }, {}, secret)
    assert.deepEqual(packages, PACKAGES)
    assert.ok(builtins.has('sqlite'))
  })

  for (const [what, env, files, packages] of [
    ['the file needs yaml', {}, { 'headgate.yaml': 'strategy: priority\n' }, ['yaml', 'zod']],
    ["undici's client needs undici", { HTTP_CLIENT: 'undici' }, {}, ['undici', 'zod']],
  ] as const)
    test(`${what}, and no other package`, async () => {
      assert.deepEqual((await loaded(env, files)).packages, packages)
    })
})

describe('the compile cache', () => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-kept-'))
  after(() => rmSync(folder, { recursive: true, force: true }))
  const files = () =>
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
  const serves = async (env: Readonly<Record<string, string>>) => {
    await using gateway = await start({ env })
    const body = { model: 'demo/echo', messages: [{ role: 'user', content: 'x' }] }
    assert.equal((await post(`${gateway.base}/chat/completions`, body)).status, 200)
    assert.equal(await gateway.stop(), 0)
  }

  test('is written at exit, and a start with a corrupt cache still serves', async () => {
    await serves({ NODE_COMPILE_CACHE: folder })
    assert.ok(files().length > 100, `${files().length} files`)
    for (const [index, file] of files().entries()) {
      if (index % 2 === 0) truncateSync(file, 20)
      else writeFileSync(file, 'x'.repeat(4096))
    }
    await serves({ NODE_COMPILE_CACHE: folder })
  })

  for (const [what, env] of [
    ['if it cannot be written', { NODE_COMPILE_CACHE: '/dev/null/nowhere' }],
    ['if it is disabled', { NODE_DISABLE_COMPILE_CACHE: '1' }],
    ['if the process has no write permission', { NODE_OPTIONS: '--permission --allow-fs-read=*' }],
  ] as const)
    test(`${what}, the gateway still serves`, () => serves(env))
})
