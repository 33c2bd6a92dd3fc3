/** How the files of the dashboard are served: headers, caching, encodings, and what is shown without a build. No browser. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { built } from './support/built.ts'
import { type Started, type StartOptions, start } from './support/process.ts'
import { verbatim } from './support/verbatim.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

describe('the files of the dashboard', () => {
  let gateway: Started
  let html = ''
  before(async () => {
    gateway = await start()
    html = await (await built(`${gateway.url}/dashboard/`)).text()
  })
  after(() => gateway?.stop())
  const script = () => /src="\.\.(\/dashboard\/assets\/main-[^"]+\.js)"/.exec(html)?.[1] ?? ''

  test('have the policy, and are kept as long as they stay the same', async () => {
    const deeper = await fetch(`${gateway.url}/dashboard/requests/req_a?status=failed`)
    assert.equal(await deeper.text(), html.replaceAll('../', '../../'))
    assert.doesNotMatch(html, /(?:src|href)="\//)
    const index = await fetch(`${gateway.url}/dashboard/requests?status=failed`)
    assert.equal(await index.text(), html)
    assert.equal(index.headers.get('cache-control'), 'no-cache')
    const asset = await fetch(gateway.url + script())
    assert.equal(asset.headers.get('cache-control'), 'public, max-age=31536000, immutable')
    assert.match(asset.headers.get('content-type') ?? '', /^text\/javascript/)
    for (const { headers } of [index, asset]) {
      assert.equal(headers.get('content-security-policy'), POLICY)
      for (const [name, value] of [
        ['x-content-type-options', 'nosniff'],
        ['referrer-policy', 'no-referrer'],
        ['cross-origin-opener-policy', 'same-origin'],
        ['cross-origin-resource-policy', 'same-origin'],
      ] as const)
        assert.equal(headers.get(name), value)
      assert.match(headers.get('permissions-policy') ?? '', /camera=\(\).*clipboard-write=\(self\)/)
      const again = await fetch(`${gateway.url}/dashboard/`, {
        headers: { 'if-none-match': headers.get('etag') ?? '' },
      })
      assert.equal(again.status, headers === index.headers ? 304 : 200)
    }
  })

  test('are compressed as the client accepts', async () => {
    const get = (accepted: string) => verbatim(gateway.url, script(), { 'accept-encoding': accepted })
    const plain = await get('identity')
    assert.equal(plain.headers['content-encoding'], undefined)
    const br = await get('gzip, deflate, br')
    assert.equal(br.headers['content-encoding'], 'br')
    assert.deepEqual(brotliDecompressSync(br.body), plain.body)
    const gzip = await get('gzip, br;q=0')
    assert.equal(gzip.headers['content-encoding'], 'gzip')
    assert.deepEqual(gunzipSync(gzip.body), plain.body)
  })

  test('are read only, and an unknown file is 404', async () => {
    assert.equal((await fetch(`${gateway.url}/dashboard/assets/none.js`)).status, 404)
    assert.equal((await fetch(`${gateway.url}/dashboard/assets/..%2findex.html`)).status, 404)
    assert.equal((await fetch(`${gateway.url}/dashboards`)).status, 404)
    const post = await fetch(`${gateway.url}/dashboard/`, { method: 'POST', body: 'x' })
    assert.equal(post.status, 405)
    assert.equal(post.headers.get('allow'), 'GET, HEAD, OPTIONS')
    const head = await fetch(gateway.url + script(), { method: 'HEAD' })
    assert.equal(head.status, 200)
    assert.equal((await head.arrayBuffer()).byteLength, 0)
  })

  test('are where a browser is sent from /, and nothing else', async () => {
    const root = (headers: Record<string, string>) => verbatim(gateway.url, '/', headers)
    const browser = await root({ 'sec-fetch-mode': 'navigate' })
    assert.deepEqual([browser.status, browser.headers.location], [302, './dashboard/'])
    assert.equal((await root({})).status, 404)
    const bare = await verbatim(gateway.url, '/dashboard', {})
    assert.deepEqual([bare.status, bare.headers.location], [302, './dashboard/'])
  })

  test('are refused under a foreign name', async () => {
    const { status } = await verbatim(gateway.url, '/dashboard/', { host: 'evil.example' })
    assert.equal(status, 403)
  })
})

test('a disabled dashboard does not exist', async () => {
  await using gateway = await start({ env: { DASHBOARD_ENABLED: 'false' } })
  assert.equal((await fetch(`${gateway.url}/dashboard/`)).status, 404)
  assert.equal((await verbatim(gateway.url, '/', { 'sec-fetch-mode': 'navigate' })).status, 404)
})

describe('a clone', () => {
  const clone = mkdtempSync(join(tmpdir(), 'headgate-clone-'))
  after(() => rmSync(clone, { recursive: true, force: true }))
  before(() => {
    for (const part of ['bin', 'src', 'suite', 'data', 'package.json'])
      cpSync(join(ROOT, part), join(clone, part), { recursive: true })
    mkdirSync(join(clone, 'dashboard'))
    for (const part of [
      'src',
      'build.ts',
      'inline-words.ts',
      'publish.ts',
      'index.html',
      'package.json',
      'package-lock.json',
      'tsconfig.json',
    ])
      cpSync(join(ROOT, 'dashboard', part), join(clone, 'dashboard', part), { recursive: true })
    symlinkSync(join(ROOT, 'node_modules'), join(clone, 'node_modules'))
  })
  const begin = (options: StartOptions = {}) => start({ program: join(clone, 'bin', 'headgate.mjs'), ...options })
  const cache = join(clone, '.cache', 'dashboard')

  test('without the packages of the dashboard shows the command that installs them, and answers calls', async () => {
    await using gateway = await begin()
    const response = await built(`${gateway.url}/dashboard/`)
    assert.equal(response.status, 503)
    assert.match(await response.text(), /npm run setup/)
    assert.equal(response.headers.get('content-security-policy'), POLICY)
    assert.equal((await fetch(`${gateway.url}/v1/models`)).status, 200)
  })

  test('builds at the first visit, once, and not again at the next start', async () => {
    symlinkSync(join(ROOT, 'dashboard', 'node_modules'), join(clone, 'dashboard', 'node_modules'))
    assert.ok(!existsSync(cache))
    {
      await using gateway = await begin()
      const responses = await Promise.all([1, 2, 3].map(() => fetch(`${gateway.url}/dashboard/`)))
      for (const response of responses) assert.match(await response.text(), /being built.*http-equiv="refresh"/s)
      const done = await built(`${gateway.url}/dashboard/`)
      assert.equal(done.status, 200, await done.text())
      assert.equal(gateway.lines().filter(({ event }) => event === 'dashboard').length, 1)
      assert.equal(readdirSync(cache).length, 1)
    }
    await using gateway = await begin()
    assert.equal((await fetch(`${gateway.url}/dashboard/`)).status, 200)
  })

  test('replaces a build that is not complete', async () => {
    const [name = ''] = readdirSync(cache)
    rmSync(join(cache, name, 'index.html'))
    await using gateway = await begin()
    assert.equal((await built(`${gateway.url}/dashboard/`)).status, 200)
    assert.ok(existsSync(join(cache, name, 'index.html')))
  })

  test('is built by several processes at the same time', async () => {
    const folder = join(clone, 'built-together')
    const builds = [1, 2, 3, 4].map(
      () =>
        new Promise<string>((resolve) => {
          execFile(process.execPath, [join(clone, 'dashboard', 'build.ts'), folder], (error, _, output) =>
            resolve(error ? output || error.message : ''),
          )
        }),
    )
    assert.deepEqual(await Promise.all(builds), ['', '', '', ''])
    assert.ok(existsSync(join(folder, 'index.html')))
    assert.deepEqual(
      readdirSync(clone).filter((name) => name.startsWith('built-together.')),
      [],
    )
  })

  test('shows why a build failed, as text', async () => {
    await using gateway = await begin()
    assert.equal((await built(`${gateway.url}/dashboard/`)).status, 200)
    const main = join(clone, 'dashboard', 'src', 'main.tsx')
    const sources = readFileSync(main, 'utf8')
    // The change is seen without a restart.
    writeFileSync(main, 'const = "<b>not escaped</b>"\n')
    const response = await built(`${gateway.url}/dashboard/`)
    const text = await response.text()
    assert.match(text, /npm run build:dashboard/)
    assert.match(text, /main\.tsx/)
    assert.ok(!text.includes('<b>'))
    writeFileSync(main, `${sources}// changed\n`)
    assert.equal((await built(`${gateway.url}/dashboard/`)).status, 200)
  })

  test('in production is built by requests of its own machine only', async () => {
    rmSync(cache, { recursive: true, force: true })
    await using gateway = await begin({
      env: { NODE_ENV: 'production', HOST: '127.0.0.1', OPENAI_API_KEY: 'sk-0123456789' },
    })
    const { status, body } = await verbatim(gateway.url, '/dashboard/', { 'x-forwarded-for': '203.0.113.7' })
    assert.equal(status, 503)
    assert.match(String(body), /npm run build:dashboard/)
    assert.ok(!existsSync(cache))
  })
})
