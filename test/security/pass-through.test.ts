/**
 * No call of the pass-through leaves the roots of its provider, whatever its path: escapes that proxies have fallen for, sent as bytes over a
 * socket to a running gateway, with an upstream that records each request line.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { after, before, describe, test } from 'node:test'
import { skipBrowser, startBrowser } from '../dashboard/support/chromium.ts'
import { type Started, start } from '../e2e/support/process.ts'

const KEY = 'sk-client-0123456789abcdef'
const SECRET = 'sk-upstream-abcdefghijklmnop'

/** Below `/v1/files`, unless a row begins with `!`, which is the whole target. */
const ESCAPES: readonly string[] = [
  // Dot segments, plain and escaped (BerriAI/litellm PR#26467, morcen/passage#96 and #128, Portkey-AI/gateway#1718).
  ...[
    '/../admin',
    '/./x',
    '/..',
    '/.',
    '/a/../../organization',
    '/%2e%2e/admin',
    '/%2E%2E/admin',
    '/.%2e/x',
    '/%2e./x',
  ],
  ...['/%2e', '/%2e/', '/..%2fadmin', '/..%2Fadmin', '/%2e%2e%2fadmin', '/a%2f..%2f..%2fadmin', '/..%5cadmin'],
  ...[
    '/%2e%2e%5cadmin',
    '/..\\admin',
    '/a\\..\\b',
    '\\..\\admin',
    '/%5c%5cevil',
    '/....//admin',
    '/..;/admin',
    '/;/../x',
  ],
  // Twice escaped, overlong and wide forms.
  ...[
    '/%252e%252e/admin',
    '/%25%32%65%25%32%65/x',
    '/%c0%ae%c0%ae/admin',
    '/%c0%afadmin',
    '/%e0%80%ae/x',
    '/%u002e%u002e/x',
  ],
  ...['/%ef%bc%8e%ef%bc%8e/x', '/%uff0e%uff0e/x', '/%c1%9c../x', '/%f0%80%80%ae/x'],
  // Empty segments, parameters, fragments.
  ...['//evil.example', '//', '/a//b', '/a;b=c', '/a;/../b', '/a%3b/../b', '/a%3bx', '/a#b', '/a%23b', '/a%3fb=c'],
  // Controls, blanks, bytes above ASCII.
  ...['/%00', '/a%00.json', '/%0d%0aHost:evil', '/%0a', '/%09', '/%7f', '/\u00e9', '/%e9', '/a%20%2e%2e', '/%1f'],
  // Broken escapes.
  ...['/%', '/%2', '/%zz', '/a%2', '/%%32%65'],
  // Whole targets: absolute form, authority, user names, other roots.
  ...[
    '!http://evil.example/v1/files',
    '!https://evil.example/{id}/v1/files',
    '!//evil.example/v1/files',
    '!/{id}@evil.example/v1',
  ],
  ...[
    '!/{id}',
    '!/{id}/',
    '!/{id}//v1/files',
    '!/{id}/v1/../v2',
    '!/{id}/v1x/files',
    '!/{id}/V1/files',
    '!/{id}:80/v1/files',
  ],
  ...[
    '!/{id}/%76%31/../files',
    '!/%2f{id}/v1/files',
    '!/{id}%2fv1/files',
    '!/{id}/v1%2ffiles',
    '!/x/../{id}/../v1',
    '!/{id}\\v1',
  ],
]

const PROVIDERS = [
  { id: 'openai', kind: 'openai', root: '/v1', key: 'authorization' },
  { id: 'claude', kind: 'anthropic', root: '/v1', key: 'x-api-key' },
  { id: 'gemini', kind: 'gemini', root: '/v1beta', key: 'x-goog-api-key' },
] as const

describe('pass-through', { concurrency: false }, () => {
  const seen: { readonly line: string; readonly headers: IncomingMessage['headers'] }[] = []
  let answer: (url: string) => { status: number; headers: Record<string, string>; body: string } = () => OK
  const OK = { status: 200, headers: { 'content-type': 'application/json' }, body: '{"ok":true}' }
  const upstream = createServer((req, res) => {
    // The gateway reads the lists of models at its start.
    if (!/\/models(?:\?|$)/.test(req.url ?? '')) seen.push({ line: `${req.method} ${req.url}`, headers: req.headers })
    const { status, headers, body } = answer(req.url ?? '')
    req.resume().on('end', () => res.writeHead(status, headers).end(body))
  })
  let gateway: Started
  let port = 0

  before(async () => {
    await once(upstream.listen(0, '127.0.0.1'), 'listening')
    const origin = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`
    const providers = PROVIDERS.map(
      ({ id, kind, root }) =>
        `  ${id}: { kind: ${kind}, baseUrl: "${origin}${root}", keys: ["${SECRET}"], passThrough: { isolate: none, paths: ["${root}/**", "/upload/**"], methods: [GET, HEAD, POST, PUT, DELETE] } }`,
    )
    const granted = PROVIDERS.map(({ id }) => `"${id}"`).join(', ')
    gateway = await start({
      files: {
        'headgate.yaml': `providers:
${providers.join('\n')}
teams: { a: { access: { passThrough: [${granted}] } }, b: {} }
keys:
  one: { team: a, secret: ${KEY}, access: { passThrough: [${granted}] } }
  part: { team: a, secret: sk-part-0123456789abcdef00, access: { passThrough: ["openai:/v1/files"] } }
  no-key: { team: a, secret: sk-nokey-0123456789abcdef0 }
  no-team: { team: b, secret: sk-noteam-0123456789abcdef, access: { passThrough: [${granted}] } }
`,
      },
    })
    port = Number(new URL(gateway.url).port)
  })
  after(async () => {
    await gateway?.stop()
    upstream.close()
  })

  /** Sends a request line byte for byte, and returns the response. */
  const raw = async (target: string, { method = 'GET', headers = '' } = {}): Promise<string> => {
    const socket = connect(port, '127.0.0.1')
    socket.write(
      Buffer.from(
        `${method} ${target} HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\nauthorization: Bearer ${KEY}\r\n${headers}connection: close\r\n\r\n`,
        'latin1',
      ),
    )
    let text = ''
    socket.setEncoding('latin1').on('data', (part: string) => {
      text += part
    })
    await once(socket, 'close')
    return text
  }

  for (const { id, root } of PROVIDERS)
    test(`${ESCAPES.length} escapes from the root of ${id}`, async () => {
      assert.ok(ESCAPES.length >= 60)
      for (const path of ESCAPES) {
        const target = path.startsWith('!') ? path.slice(1).replaceAll('{id}', id) : `/${id}${root}/files${path}`
        seen.length = 0
        const response = await raw(target)
        assert.match(response, /^HTTP\/1\.1 (?:400|403|404|421) /, `${target}: ${response.slice(0, 80)}`)
        assert.deepEqual(seen, [], target)
      }
      seen.length = 0
      assert.match(await raw(`/${id}${root}/files/a-b_c~d:e@f,g?x=%2e%2e%2f&y=1`), /^HTTP\/1\.1 200 /)
      assert.equal(seen[0]?.line, `GET ${root}/files/a-b_c~d:e@f,g?x=%2e%2e%2f&y=1`)
    })

  for (const { id, root, key } of PROVIDERS)
    test(`credentials and payers of clients do not reach ${id}`, async () => {
      seen.length = 0
      const canaries = [
        ...[
          'cookie',
          'openai-organization',
          'openai-project',
          'anthropic-workspace-id',
          'x-goog-user-project',
          'forwarded',
        ],
        ...[
          'x-headgate-session',
          'via',
          'x-forwarded-for',
          'proxy-authorization',
          'x-amz-security-token',
          'x-api-version',
        ],
      ]
      const headers = canaries.map((name) => `${name}: canary-value\r\n`).join('')
      const response = await raw(
        `/${id}${root}/files?key=${KEY}&after=1&access_token=canary-value&api-key=canary-value`,
        {
          headers: `${headers}openai-beta: assistants=v2\r\nanthropic-beta: files-api\r\naccept-encoding: gzip\r\n`,
        },
      )
      assert.match(response, /^HTTP\/1\.1 200 /)
      const [got] = seen
      assert.equal(got?.line, `GET ${root}/files?after=1`)
      const all = JSON.stringify(got?.headers)
      assert.ok(!all.includes('canary-value') && !all.includes(KEY), all)
      assert.ok(String(got?.headers[key]).endsWith(SECRET))
      assert.equal(got?.headers['openai-beta'], 'assistants=v2')
    })

  test('the instance, the team and the key must all allow it', async () => {
    const call = async (key: string, path: string) => {
      const response = await fetch(`${gateway.url}${path}`, { headers: { authorization: `Bearer ${key}` } })
      return [response.status, Object(await response.json()).error?.code]
    }
    seen.length = 0
    assert.deepEqual(await call('sk-nokey-0123456789abcdef0', '/openai/v1/files'), [403, 'pass_through_denied'])
    assert.deepEqual(await call('sk-noteam-0123456789abcdef', '/openai/v1/files'), [403, 'pass_through_denied'])
    assert.deepEqual(await call('sk-part-0123456789abcdef00', '/openai/v1/batches'), [403, 'pass_through_denied'])
    assert.deepEqual(await call('sk-part-0123456789abcdef00', '/openai/v1/filesx'), [403, 'pass_through_denied'])
    assert.deepEqual(await call('sk-unknown-0123456789abcdef', '/openai/v1/files'), [401, 'invalid_api_key'])
    assert.deepEqual(seen, [])
    assert.deepEqual(await call('sk-part-0123456789abcdef00', '/openai/v1/files/x'), [200, undefined])
  })

  const CASES = [
    ['its own path', '/v1/files/new?key=sk-x&a=1', '/openai/v1/files/new?a=1'],
    ['its own address', '{origin}/v1/files/new', '/openai/v1/files/new'],
    ['another host', 'https://evil.example/v1/files', null],
    ['another scheme', 'file:///etc/passwd', null],
    ['another root', '/admin', null],
    ['a dot segment', '/v1/../admin', null],
    ['an escaped one', '/v1/%2e%2e/admin', null],
    ['a user name', 'http://x@evil.example/v1/', null],
  ] as const
  for (const [name, to, expected] of CASES)
    test(`a redirect to ${name}`, async () => {
      const origin = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`
      answer = () => ({ status: 302, headers: { location: to.replace('{origin}', origin) }, body: '' })
      const response = await raw('/openai/v1/files/a')
      answer = () => OK
      if (expected === null) {
        assert.match(response, /^HTTP\/1\.1 502 /)
        assert.match(response, /redirect_refused/)
        assert.ok(!response.includes('evil.example') && !response.includes('passwd'))
      } else assert.ok(response.includes(`location: ${`http://127.0.0.1:${port}`}${expected}\r\n`), response)
    })

  test('an error that quotes the key of the gateway', async () => {
    answer = () => ({
      status: 400,
      headers: {
        'content-type': 'application/json',
        'set-cookie': 'a=b',
        server: 'x',
        'access-control-allow-origin': '*',
      },
      body: JSON.stringify({ error: { message: `bad: ${SECRET}` } }),
    })
    const refused = await raw('/openai/v1/files/a')
    answer = () => ({
      ...OK,
      status: 401,
      body: JSON.stringify({ error: { message: `Incorrect API key: ${SECRET}` } }),
    })
    const unauthorised = await raw('/claude/v1/files/a')
    answer = () => OK
    assert.match(refused, /^HTTP\/1\.1 400 /)
    assert.doesNotMatch(refused, /set-cookie|^server:|access-control/im)
    assert.match(unauthorised, /^HTTP\/1\.1 502 /)
    for (const text of [refused, unauthorised, gateway.output()]) assert.ok(!text.includes(SECRET))
  })

  test('a page that a client has uploaded runs nothing in Chromium', { skip: skipBrowser }, async () => {
    answer = () => ({
      status: 200,
      headers: { 'content-type': 'text/html', 'content-security-policy': "default-src *; script-src 'unsafe-inline'" },
      body: `<title>plain</title><script>document.title = 'ran'; fetch('/v1/models')</script><img src=x onerror="document.title='ran'">`,
    })
    const browser = await startBrowser()
    try {
      const page = await browser.newPage({ extraHTTPHeaders: { authorization: `Bearer ${KEY}` } })
      seen.length = 0
      const response = await page.goto(`${gateway.url}/openai/v1/files/a/content`)
      await page.waitForTimeout(200)
      assert.equal(await page.title(), 'plain')
      assert.equal(response?.headers()['content-security-policy'], "sandbox; default-src 'none'")
      assert.equal(response?.headers()['x-content-type-options'], 'nosniff')
      assert.deepEqual(
        seen.map(({ line }) => line),
        ['GET /v1/files/a/content'],
      )
    } finally {
      await browser.close()
      answer = () => OK
    }
  })
})
