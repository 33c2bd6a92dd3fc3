/** How the documentation is served: paths, headers, and what is shown without a build. No browser. */
import assert from 'node:assert/strict'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { built } from './support/built.ts'
import { type Started, type StartOptions, start } from './support/process.ts'
import { verbatim } from './support/verbatim.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

describe('the documentation', () => {
  let gateway: Started
  before(async () => {
    gateway = await start()
    await built(`${gateway.url}/docs/`)
  })
  after(() => gateway?.stop())
  const get = (path: string, init: RequestInit = {}) => fetch(`${gateway.url}${path}`, { redirect: 'manual', ...init })

  test('has pages with and without their ending, their Markdown, and pictures', async () => {
    for (const [path, type, content] of [
      ['/docs/', 'text/html; charset=utf-8', /<h1 id="headgate">/],
      ['/docs/errors', 'text/html; charset=utf-8', /<tr id="model_not_found">/],
      ['/docs/errors.html', 'text/html; charset=utf-8', /<tr id="model_not_found">/],
      ['/docs/migrate/litellm', 'text/html; charset=utf-8', /href="\.\.\/style\.css"/],
      ['/docs/errors.md', 'text/plain; charset=utf-8', /^# Errors\n/],
      ['/docs/find', 'text/html; charset=utf-8', /<script type="module" src="find\.js"><\/script>/],
      ['/docs/find.js', 'text/javascript; charset=utf-8', /^const search/m],
      ['/docs/sections.json', 'application/json', /"anchor":"model_not_found"|"heading":/],
      ['/docs/style.css', 'text/css; charset=utf-8', /--accent/],
      ['/docs/images/overview.png', 'image/png', /PNG/],
      ['/llms.txt', 'text/plain; charset=utf-8', /^# Headgate\n/],
      ['/llms-full.txt', 'text/plain; charset=utf-8', /^# Headgate$/m],
    ] as const) {
      const response = await get(path)
      assert.equal(response.status, 200, path)
      assert.equal(response.headers.get('content-type'), type, path)
      assert.equal(response.headers.get('content-security-policy'), POLICY, path)
      assert.equal(response.headers.get('x-content-type-options'), 'nosniff', path)
      assert.match(await response.text(), content, path)
      const again = await get(path, { headers: { 'if-none-match': response.headers.get('etag') ?? '' } })
      assert.equal(again.status, 304, path)
    }
  })

  test('has no script, frame or address of another machine in a page, and one form', async () => {
    const html = await (await get('/docs/configuration')).text()
    assert.doesNotMatch(
      html,
      /<(?:script|iframe|object|style|base|link rel="(?!stylesheet|icon))| on\w+=|src="https?:/i,
    )
    assert.deepEqual(html.match(/<form[^>]*>/g), ['<form role="search" action="find.html">'])
  })

  test('has a row for the code of an error, to which the error leads', async () => {
    for (const [path, code] of [
      ['/v1/chat/completions', 'invalid_json'],
      ['/v1/messages', 'invalid_json'],
      ['/v1/nothing', 'unknown_url'],
    ] as const) {
      const response = await get(path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{' })
      assert.equal(response.headers.get('link'), `</docs/errors#${code}>; rel="help"`)
      assert.match(await (await get('/docs/errors')).text(), new RegExp(`<tr id="${code}">`))
    }
  })

  test('serves no other file', async () => {
    for (const path of [
      '/docs/none',
      '/docs/../package.json',
      '/docs/%2e%2e/package.json',
      '/docs/decisions/',
      '/docs//errors.html',
    ])
      assert.equal((await verbatim(gateway.url, path, {})).status === 200, false, path)
    assert.match(await (await get('/docs/none')).text(), /<h1>No such page<\/h1>.*href="\.\.\/docs\/"/)
    assert.equal((await get('/docsx')).status, 404)
    assert.equal((await get('/llms.txt/x')).status, 404)
  })

  test('is read only, and is refused under a foreign name', async () => {
    const post = await get('/docs/', { method: 'POST', body: 'x' })
    assert.equal(post.status, 405)
    assert.equal(post.headers.get('allow'), 'GET, HEAD, OPTIONS')
    const head = await get('/docs/errors', { method: 'HEAD' })
    assert.deepEqual([head.status, (await head.arrayBuffer()).byteLength], [200, 0])
    assert.equal((await verbatim(gateway.url, '/docs/', { host: 'evil.example' })).status, 403)
    const bare = await get('/docs')
    assert.deepEqual([bare.status, bare.headers.get('location')], [302, './docs/'])
  })
})

test('without the dashboard an error still leads to its row', async () => {
  await using gateway = await start({ env: { DASHBOARD_ENABLED: 'false' } })
  const response = await fetch(`${gateway.url}/v1/nothing`)
  const [, path = '', code] = /^<([^#]+)#(\w+)>; rel="help"$/.exec(response.headers.get('link') ?? '') ?? []
  const page = await built(`${gateway.url}${path}`)
  assert.equal(page.status, 200)
  assert.match(await page.text(), new RegExp(`<tr id="${code}">`))
  assert.equal((await fetch(`${gateway.url}/llms.txt`)).status, 200)
})

describe('a clone', () => {
  const clone = mkdtempSync(join(tmpdir(), 'headgate-clone-'))
  const cache = join(clone, '.cache', 'docs')
  after(() => rmSync(clone, { recursive: true, force: true }))
  before(() => {
    for (const part of [
      'bin',
      'src',
      'suite',
      'data',
      'docs',
      'package.json',
      'dashboard/site',
      'dashboard/publish.ts',
      'dashboard/src/tokens.css',
      'dashboard/package-lock.json',
    ])
      cpSync(join(ROOT, part), join(clone, part), { recursive: true })
    symlinkSync(join(ROOT, 'node_modules'), join(clone, 'node_modules'))
  })
  const begin = (options: StartOptions = {}) => start({ program: join(clone, 'bin', 'headgate.mjs'), ...options })

  test('without the package for it shows the command that installs it, and answers calls', async () => {
    await using gateway = await begin()
    const response = await built(`${gateway.url}/docs/`)
    assert.equal(response.status, 503)
    assert.match(await response.text(), /npm run setup/)
    assert.equal((await fetch(`${gateway.url}/v1/models`)).status, 200)
  })

  test('in production is built by requests of its own machine only', async () => {
    mkdirSync(join(clone, 'dashboard', 'node_modules'))
    symlinkSync(join(ROOT, 'dashboard', 'node_modules', 'marked'), join(clone, 'dashboard', 'node_modules', 'marked'))
    const env = { NODE_ENV: 'production', HOST: '127.0.0.1', OPENAI_API_KEY: 'sk-0123456789' }
    await using gateway = await begin({ env })
    const { status, body } = await verbatim(gateway.url, '/docs/', { 'x-forwarded-for': '203.0.113.7' })
    assert.equal(status, 503)
    assert.match(String(body), /npm run build:docs/)
    assert.ok(!existsSync(cache))
  })

  test('shows a change of a page, and the place of HTML in one', async () => {
    await using gateway = await begin()
    assert.equal((await built(`${gateway.url}/docs/`)).status, 200)
    const page = join(clone, 'docs', 'errors.md')
    const text = readFileSync(page, 'utf8')
    writeFileSync(page, `${text}\nA new sentence.\n`)
    await built(`${gateway.url}/docs/`)
    assert.match(await (await fetch(`${gateway.url}/docs/errors`)).text(), /A new sentence\./)
    writeFileSync(page, `${text}\n<img src=x onerror=alert(1)>\n`)
    const failed = await built(`${gateway.url}/docs/`)
    assert.equal(failed.status, 503)
    const shown = await failed.text()
    assert.match(shown, /docs\/errors\.md: HTML is not allowed/)
    assert.ok(!shown.includes('<img'))
  })
})
