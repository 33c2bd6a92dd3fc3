/** The npm package: built, packed, unpacked, and started from the bundle with all of its parts. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, before, test } from 'node:test'
import { WebSocket } from 'ws'
import { build } from '../../scripts/build.ts'
import { answerWith } from '../support/answers.ts'
import { startUpstream, type Upstream, until } from '../support/upstream.ts'
import { COUNTED, loadedBy } from './support/loaded.ts'
import { post, run, type Started, start, USUAL } from './support/process.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const { dependencies, version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))

/** Installs as npm does: the package, with its dependencies next to it. Returns the package's folder. */
const install = async (place: string): Promise<string> => {
  await build(join(ROOT, 'dist'))
  const packed = execFileSync('npm', ['pack', '--json', '--pack-destination', place], {
    cwd: ROOT,
    encoding: 'utf8',
    timeout: 60_000,
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const [{ filename }] = JSON.parse(packed)
  const packages = join(place, 'node_modules')
  const folder = join(packages, 'headgate')
  mkdirSync(folder, { recursive: true })
  execFileSync('tar', ['-xzf', join(place, filename), '-C', folder, '--strip-components=1'], { timeout: 30_000 })
  for (const name of Object.keys(dependencies)) {
    mkdirSync(dirname(join(packages, name)), { recursive: true })
    symlinkSync(join(ROOT, 'node_modules', name), join(packages, name))
  }
  return folder
}

const place = mkdtempSync(join(tmpdir(), 'headgate-package-'))
let folder = ''
let upstream: Upstream
before(async () => {
  folder = await install(place)
  upstream = await startUpstream((request) =>
    request.method === 'GET'
      ? { do: 'answer', status: 404, body: { error: { message: 'no list' } } }
      : answerWith(request, { text: 'from afar' }),
  )
})
after(async () => {
  await upstream?.close()
  rmSync(place, { recursive: true, force: true })
})
const begin = (env: Readonly<Record<string, string>> = {}, files: Readonly<Record<string, string>> = {}) =>
  start({
    program: join(folder, 'bin', 'headgate.mjs'),
    env: { OPENAI_API_KEY: 'sk-0123456789', OPENAI_BASE_URL: `${upstream.url}/v1`, OPENAI_MODELS: 'm', ...env },
    files,
  })
const ask = (gateway: Started, more: object = {}) =>
  post(`${gateway.base}/chat/completions`, { model: 'm', messages: [{ role: 'user', content: 'x' }], ...more })

test('contains the bundle and its licences, and no sources', () => {
  const files = globSync('**/*', { cwd: folder })
  for (const file of [
    'dist/main.mjs',
    'dist/store-thread.mjs',
    'dist/ledger-thread.mjs',
    'bin/headgate.mjs',
    'data/catalogue.json',
    'LICENSE',
    'README.md',
  ])
    assert.ok(files.includes(file), file)
  assert.deepEqual(
    files.filter((file) => file.endsWith('.ts') || file.startsWith('src') || file.startsWith('test')),
    [],
  )
  const notices = readFileSync(join(folder, 'dist', 'LICENCES.txt'), 'utf8')
  const bundled = new Set(
    globSync('dist/*.mjs', { cwd: folder }).flatMap((file) =>
      [...readFileSync(join(folder, file), 'utf8').matchAll(/^\/\/ node_modules\/((?:@[^/]+\/)?[^/]+)\//gm)].map(
        (match) => match[1] ?? '',
      ),
    ),
  )
  assert.ok(bundled.has('zod'))
  for (const name of bundled)
    assert.match(notices, new RegExp(`^${name} [0-9.]+ \\(.*\\)\n\n(?:.*\n)*?.*Copyright`, 'm'))
})

test('answers whole and streamed, and serves its own pages', async () => {
  await using gateway = await begin()
  const whole = await ask(gateway)
  assert.equal(whole.status, 200)
  assert.equal(whole.json().choices[0].message.content, 'from afar')
  const streamed = await ask(gateway, { stream: true })
  assert.match(streamed.text, /"content":"from afar"|"content":"from/)
  assert.ok(streamed.text.endsWith('data: [DONE]\n\n'))
  const metrics = await (await fetch(`${gateway.url}/metrics`)).text()
  assert.match(metrics, new RegExp(`^headgate_info\\{.*version="${version.replaceAll('.', '\\.')}"`, 'm'))
  const described = JSON.parse(await (await fetch(`${gateway.url}/openapi.json`)).text())
  assert.equal(described.info.version, version)
  assert.equal(await gateway.stop(), 0)
})

test('loads one large file and no package for its first answer', async () => {
  await using gateway = await begin({ ...USUAL, ...COUNTED })
  assert.equal((await ask(gateway)).status, 200)
  const { files, packages } = await loadedBy(gateway)
  // All of it is inside a node_modules folder.
  assert.deepEqual([files, packages], [[], ['headgate']])
  const names = new Set(gateway.output().match(/[^/"]+(?=\.mjs")/g))
  assert.deepEqual([...names].sort(), ['headgate', 'main', 'serve', 'start', 'worker-count'])
})

test('reads the configuration file, and again when it changes', async () => {
  const yaml = (route: string) => `routes:\n  ${route}:\n    targets: [openai/m]\n`
  await using gateway = await begin({}, { 'headgate.yaml': yaml('first') })
  assert.equal((await ask(gateway, { model: 'first' })).status, 200)
  writeFileSync(join(gateway.folder, 'headgate.yaml'), yaml('second'))
  await gateway.line(({ event }) => event === 'config_changed')
  assert.equal((await ask(gateway, { model: 'second' })).status, 200)
})

test('rejects bad configuration with the messages of the sources', async () => {
  const env = { CIRCUIT_TIMEOUT: '30s', LOG_LEVEL: 'loud', RETRY_MAX_ATTEMPTS: '0', LOG_FORMAT: '' }
  const errorOutput = async (program?: string) => {
    const { exited, output } = await run({ env, ...(program !== undefined && { program }) })
    assert.equal(await exited, 1)
    return output()
  }
  const words = await errorOutput(join(folder, 'bin', 'headgate.mjs'))
  assert.match(words, /CIRCUIT_TIMEOUT: .*"30s"/)
  assert.equal(words, await errorOutput())
})

for (const [what, env] of [
  ["undici's client", { HTTP_CLIENT: 'undici' }],
  ["Node's server", { HTTP_SERVER: 'node' }],
  ['two workers', { WORKERS: '2' }],
] as const)
  test(`loads on demand: ${what}`, async () => {
    await using gateway = await begin(env)
    assert.equal((await ask(gateway)).json().choices[0].message.content, 'from afar')
    assert.equal(await gateway.stop(), 0)
  })

test('loads on demand: WebSockets, the database', async () => {
  await using gateway = await begin()
  const socket = new WebSocket(`${gateway.base.replace('http', 'ws')}/responses`)
  let events = ''
  socket.on('message', (data) => {
    events += data
  })
  socket.on('open', () => socket.send(JSON.stringify({ type: 'response.create', model: 'm', input: 'x', store: true })))
  await until('the turn is answered', () => events.includes('"type":"response.completed"'), 10_000)
  socket.terminate()
  const id = /"id":"(resp_\w+)"/.exec(events)?.[1]
  assert.equal((await fetch(`${gateway.base}/responses/${id}`)).status, 200)
})

test('loads on demand: cloud credentials', async () => {
  await using gateway = await begin({
    BEDROCK_REGION: 'eu-west-1',
    BEDROCK_BASE_URL: upstream.url,
    AWS_ACCESS_KEY_ID: 'AKIAIOSFODNN7EXAMPLE',
    AWS_SECRET_ACCESS_KEY: 'not-a-secret',
    PROVIDERS: 'bedrock',
  })
  await ask(gateway, { model: 'bedrock/anthropic.claude-x' })
  await until('a signed call arrived', () =>
    upstream.requests.some(({ headers }) => String(headers.authorization).startsWith('AWS4-HMAC-SHA256')),
  )
})

test('an error names a function and a source-mapped file', () => {
  const bundle = readFileSync(join(folder, 'dist', 'start.mjs'), 'utf8')
  assert.match(bundle, /^\/\/ src\/gateway\/routing\/router\.ts$/m)
  assert.match(bundle, /^const fallbackEvent = /m)
})
