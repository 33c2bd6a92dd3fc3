/**
 * SEC-04, 06, 09, 10, 11, 41: no client input chooses where the gateway connects. A recorder inside the process logs
 * what it opens; upstream requests are compared member by member.
 */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import type { Started } from '../e2e/support/process.ts'
import { callsOf, rawClient, stage } from '../e2e/support/stage.ts'
import { answerWith } from '../support/answers.ts'
import { startUpstream, type Upstream, until } from '../support/upstream.ts'
import { type Canary, KEY_FORMS, randomText } from './support/canaries.ts'
import { FORMAT_NAMES, FORMATS } from './support/formats.ts'
import type { RecordedAction } from './support/recorder.ts'
import { type Witness, witness } from './support/witness.ts'

const RECORDER = pathToFileURL(join(import.meta.dirname, 'support', 'recorder.ts')).href
const threadAt = (...path: readonly string[]) =>
  pathToFileURL(join(import.meta.dirname, '..', '..', 'src', ...path)).href
/** The bookkeeper, and the store, in which a previous response is looked for. */
const THREADS = [
  threadAt('usage', 'bookkeeper', 'ledger-thread.ts'),
  threadAt('storage', 'responses', 'store-thread.ts'),
]

const on = stage()
const canaries: Canary[] = []
let folder: string
let upstream: Upstream
let trap: Upstream
let gateway: Started
let watch: Witness
const deeds = (): readonly RecordedAction[] => {
  const file = join(folder, 'deeds')
  if (!existsSync(file)) return []
  const lines = readFileSync(file, 'utf8').trim().split('\n')
  return lines.map((line) => JSON.parse(line) as RecordedAction)
}
const key = (name: string) => {
  const value = KEY_FORMS.usual()
  canaries.push({ name, value, isKey: true })
  return value
}
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'headgate-deeds-'))
  on.keep(() => rm(folder, { recursive: true, force: true }))
  trap = await startUpstream((request) => answerWith(request, { text: 'caught' }))
  on.keep(() => trap.close())
  upstream = await on.upstream((request) => answerWith(request, { text: 'fine' }))
  gateway = await on.gateway(
    {
      fallback: 'none',
      circuit: { whenAllOpen: 'try' },
      providers: Object.fromEntries(
        FORMAT_NAMES.map((name) => {
          const { path, ...place } = FORMATS[name]
          return [name, { ...place, baseUrl: `${upstream.url}/${name}${path}`, keys: [key(name)] }]
        }),
      ),
    },
    { NODE_OPTIONS: `--import=${RECORDER}`, DEEDS: join(folder, 'deeds'), LOG_LEVEL: 'debug' },
  )
  watch = witness(gateway)
})
/** Body members that redirect other gateways. */
const steering = () => {
  const url = `${trap.url}/v1`
  return {
    api_base: url,
    api_key: 'none',
    base_url: url,
    baseUrl: url,
    baseURL: url,
    custom_host: trap.url,
    host: trap.url,
    endpoint: trap.url,
    url,
    api_type: 'open_ai',
    provider: { url, base_url: url, name: 'x', only: [url] },
    config: { provider: 'openai', custom_host: url, api_key: 'x' },
    targets: [{ provider: 'openai', custom_host: url }],
    callback_url: url,
    webhook: url,
    webhook_url: url,
    metadata: { api_base: url, callback_url: url, webhook: url },
    litellm_params: { api_base: url },
    model_list: [{ litellm_params: { api_base: url } }],
    fallbacks: [{ model: 'x', api_base: url }],
    proxy: trap.url,
    headers: { host: `127.0.0.1:${trap.port}`, authorization: 'Bearer steered' },
    extra_headers: { host: `127.0.0.1:${trap.port}`, 'x-steered': 'yes', authorization: 'Bearer steered' },
    extra_body: { api_base: url },
    extra_query: { key: 'steered' },
  }
}
const steeringHeaders = () => ({
  'x-provider': 'evil',
  'x-api-base': trap.url,
  'x-base-url': trap.url,
  'x-target-url': trap.url,
  'x-portkey-custom-host': trap.url,
  'x-portkey-config': JSON.stringify({ custom_host: trap.url }),
  'x-portkey-provider': 'openai',
  'x-original-url': '/health',
  'x-rewrite-url': '/health',
  'x-http-method-override': 'DELETE',
  'x-forwarded-host': `127.0.0.1:${trap.port}`,
  'x-forwarded-for': '10.0.0.1',
  'x-forwarded-proto': 'https',
  'x-forwarded-prefix': '/admin',
  'x-real-ip': '127.0.0.1',
  forwarded: 'for=127.0.0.1;host=evil',
  via: '1.1 evil',
  'x-priority': 'high',
  'x-headgate-provider': 'evil',
  'x-headgate-model': 'evil',
  'x-headgate-trail': 'evil',
  'x-amz-security-token': 'steered',
  'x-amz-target': 'steered',
  'x-goog-api-key': 'steered',
  'x-goog-user-project': 'steered',
  'x-api-key': 'steered',
  'api-key': 'steered',
  'openai-organization': 'steered',
  'openai-project': 'steered',
  traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  tracestate: 'a=steered',
  baggage: 'a=steered',
  cookie: 'a=steered',
  referer: trap.url,
  te: 'trailers',
  range: 'bytes=0-1',
  'if-none-match': '"x"',
  'proxy-authorization': 'Basic steered',
  'accept-encoding': 'br, gzip',
  'accept-language': 'xx',
  'user-agent': 'steered/1',
  'x-stainless-lang': 'steered',
  'x-steered': 'yes',
  expect: '',
  connection: 'keep-alive, authorization, x-api-key, anthropic-version, content-type',
  'keep-alive': 'timeout=5',
  'proxy-connection': 'keep-alive',
  authorization: 'Bearer steered',
  'anthropic-beta': 'a-beta-2026-01-01',
  'openai-beta': 'a=b',
})
const bodies = (model: string, content: unknown): readonly (readonly [string, object])[] => [
  ['/v1/chat/completions', { model, messages: [{ role: 'user', content }] }],
  ['/v1/responses', { model, store: false, input: [{ role: 'user', content }] }],
  ['/v1/messages', { model, max_tokens: 9, messages: [{ role: 'user', content }] }],
]
/** Sent over a raw socket, because fetch would not send all of these. */
const post = async (path: string, body: object, headers: Readonly<Record<string, string>>) => {
  const text = JSON.stringify(body)
  const lines = Object.entries({
    host: new URL(gateway.url).host,
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(text)),
    ...headers,
  })
  const head = lines.filter(([, value]) => value !== '').map(([name, value]) => `${name}: ${value}\r\n`)
  const client = await rawClient(gateway.url, `POST ${path} HTTP/1.1\r\n${head.join('')}\r\n${text}`)
  await until('a response', () => client.closed() || /\r\n\r\n.*\}/s.test(client.text()), 10_000)
  client.socket.destroy()
  watch.note(path, client.text())
  return client.text()
}
/** The headers that an upstream call may have. */
const SENT = new Set([
  'host',
  'connection',
  'content-type',
  'content-length',
  'accept',
  'accept-encoding',
  'user-agent',
  'authorization',
  'x-api-key',
  'x-goog-api-key',
  'anthropic-version',
  'anthropic-beta',
  'openai-beta',
])
/** Addresses that a gateway which fetched images would have to block. */
const addresses = () => [
  `http://127.0.0.1:${trap.port}/a.png`,
  `http://localhost:${trap.port}/a.png`,
  `http://0.0.0.0:${trap.port}/a.png`,
  `http://[::]:${trap.port}/a.png`,
  `http://[::1]:${trap.port}/a.png`,
  `http://[::ffff:127.0.0.1]:${trap.port}/a.png`,
  `http://2130706433:${trap.port}/a.png`,
  `http://0x7f000001:${trap.port}/a.png`,
  `http://0177.0.0.1:${trap.port}/a.png`,
  `http://127.1:${trap.port}/a.png`,
  `http://user:pass@127.0.0.1:${trap.port}/a.png`,
  `http://example.com@127.0.0.1:${trap.port}/a.png`,
  `http://127.0.0.1:${trap.port}#@example.com/a.png`,
  `HTTP://127.0.0.1:${trap.port}/a.png`,
  `//127.0.0.1:${trap.port}/a.png`,
  'http://169.254.169.254/latest/meta-data/iam/security-credentials/',
  'http://[fd00:ec2::254]/latest/meta-data/',
  'http://metadata.google.internal/computeMetadata/v1/',
  'http://100.64.0.1/a.png',
  'http://[2002:7f00:1::]/a.png',
  'http://[64:ff9b::7f00:1]/a.png',
  'http://[fec0::1]/a.png',
  'file:///etc/passwd',
  'gopher://127.0.0.1:6379/_x',
  'ftp://127.0.0.1/a',
  'jar:http://127.0.0.1!/a',
  'data:image/png;base64,iVBORw0KGgo=',
  `unix:/var/run/docker.sock:/x`,
]

for (const name of FORMAT_NAMES)
  test(`destinations: no member or header redirects it: ${name}`, async () => {
    const from = callsOf(upstream).length
    for (const [path, body] of bodies(`${name}/m`, 'hello')) {
      const text = await post(path, { ...body, ...steering() }, steeringHeaders())
      assert.match(text, /^HTTP\/1\.1 (?:200|400) /)
      // Without members that have a meaning in some formats.
      assert.match(await post(path, body, steeringHeaders()), /^HTTP\/1\.1 200 /)
    }
    const calls = callsOf(upstream).slice(from)
    assert.ok(calls.length >= 3)
    const { value } = canaries.find((one) => one.name === name) ?? { value: '' }
    for (const { headers, path, key } of calls) {
      assert.ok(path.startsWith(`/${name}/`), path)
      assert.equal(key, value)
      assert.deepEqual(
        Object.keys(headers).filter((one) => !SENT.has(one)),
        [],
      )
      assert.doesNotMatch(JSON.stringify(headers), /steered|evil|x-forwarded/)
      assert.equal(headers.host, `127.0.0.1:${upstream.port}`)
      assert.equal(headers['user-agent'], 'headgate')
    }
  })

for (const name of FORMAT_NAMES)
  test(`destinations: no URL in a request is fetched: ${name}`, async () => {
    for (const [at, url] of addresses().entries()) {
      const model = `${name}/m`
      const asks: readonly (readonly [string, object])[] = [
        [
          '/v1/chat/completions',
          {
            model,
            messages: [
              {
                role: 'user',
                content: [
                  { type: 'image_url', image_url: { url } },
                  { type: 'file', file: { file_data: url, filename: 'a.pdf' } },
                ],
              },
            ],
          },
        ],
        [
          '/v1/responses',
          {
            model,
            store: false,
            input: [
              {
                role: 'user',
                content: [
                  { type: 'input_image', image_url: url },
                  { type: 'input_file', file_url: url },
                ],
              },
            ],
            tools: [{ type: 'mcp', server_label: 'x', server_url: url }],
          },
        ],
        [
          '/v1/messages',
          {
            model,
            max_tokens: 9,
            messages: [
              {
                role: 'user',
                content: [
                  { type: 'image', source: { type: 'url', url } },
                  { type: 'document', source: { type: 'url', url } },
                ],
              },
            ],
            mcp_servers: [{ type: 'url', name: 'x', url }],
          },
        ],
      ]
      const [path, body] = asks[at % asks.length] ?? ['', {}]
      const { status } = await watch.post(path, body)
      assert.ok(status === 200 || status === 400, `${url}: ${status}`)
    }
  })

test('destinations: no URL in other calls is fetched', async () => {
  const url = `${trap.url}/x`
  const model = 'chat/m'
  await watch.post('/v1/embeddings', { model, input: url, ...steering() })
  await watch.post('/v1/completions', { model, prompt: url, ...steering() })
  await watch.post('/v1/messages/count_tokens', { model, messages: [{ role: 'user', content: url }], ...steering() })
  await watch.post('/v1/route', { model, messages: [{ role: 'user', content: url }], ...steering() })
  await watch.post('/v1/responses/input_tokens', { model, input: url, ...steering() })
  await watch.post('/v1/responses/compact', { model, input: url, ...steering() })
  const names = [
    '..',
    '.',
    '%2e%2e',
    '..%2f..%2fx',
    '../../x',
    'm:y?key=z&a=',
    'm#x',
    'm\r\nx-steered: yes',
    '\ud83d',
    '\0',
  ]
  const odd = [
    ...[url, `${url}/chat/m`, '../../etc/passwd', `x@127.0.0.1:${trap.port}/m`],
    ...FORMAT_NAMES.flatMap((name) => [...names, url].map((model) => `${name}/${model}`)),
  ]
  for (const model of odd)
    for (const [path, more] of [
      ['/v1/chat/completions', { messages: [{ role: 'user', content: 'x' }] }],
      ['/v1/embeddings', { input: 'x' }],
    ] as const) {
      const { status, text } = await watch.post(path, { model, ...more })
      assert.ok(status < 500 || status === 502, `${path} ${JSON.stringify(model)}: ${status} ${text}`)
    }
  for (const { path, headers } of callsOf(upstream)) {
    // A model name stays one path segment.
    assert.match(path, /^\/[a-z]+\//)
    assert.doesNotMatch(path, /\/\.{1,2}(?:\/|$)|key=|#|\r|\n/)
    assert.match(path, /^\/(?:bedrock\/model|gemini\/v1beta\/models|(?!bedrock|gemini)[a-z]+)\//)
    assert.equal(headers['x-steered'], undefined)
  }
})

test('destinations: upstream redirects are never followed', async () => {
  for (const status of [301, 302, 303, 307, 308]) {
    upstream.play((request) => ({
      do: 'answer',
      status: request.method === 'GET' ? 404 : status,
      headers: {
        location: `${trap.url}/steal?${request.key}`,
        refresh: `0; url=${trap.url}`,
        'alt-svc': `h2="${trap.url}"`,
        link: `<${trap.url}>; rel=preload`,
      },
    }))
    for (const [path, body] of bodies('chat/m', 'hello')) {
      const { text } = await watch.post(path, body)
      assert.doesNotMatch(text, /steal/)
    }
  }
})

test('destinations: it connected only to the configured origin, and started no process', async () => {
  assert.ok(callsOf(upstream).length > 50)
  const found = deeds()
  const connected = new Set(found.filter(({ what }) => what === 'connect').map(({ to }) => to))
  assert.deepEqual([...connected], [`127.0.0.1:${upstream.port}`])
  assert.deepEqual(
    found.filter(({ what }) => what !== 'connect'),
    THREADS.map((to) => ({ to, what: 'thread' })),
  )
  assert.equal(trap.connections(), 0)
  assert.equal(trap.requests.length, 0)
  await watch.assertClean(canaries)
})

test('destinations: the recorder detects other connections', async () => {
  // A control: a gateway configured with another upstream is recorded.
  const file = join(folder, 'control')
  const other = await on.gateway(
    { providers: { elsewhere: { baseUrl: `http://localhost:${trap.port}/v1`, keys: [`sk-${randomText()}`] } } },
    { NODE_OPTIONS: `--import=${RECORDER}`, DEEDS: file },
  )
  await witness(other).post('/v1/chat/completions', {
    model: 'elsewhere/m',
    messages: [{ role: 'user', content: 'x' }],
  })
  const seen = readFileSync(file, 'utf8')
  assert.match(seen, new RegExp(`"connect","to":"localhost:${trap.port}"`))
  assert.match(seen, /"lookup","to":"localhost"/)
})

// ── The configuration ────────────────────────────────────────────────────────────────────────────────────────────

for (const [name, baseUrl] of [
  ['a password', 'http://user:canary-password@127.0.0.1:9/v1'],
  ['a name', 'http://canary-password@127.0.0.1:9/v1'],
  ['a key in the query', 'http://127.0.0.1:9/v1?key=canary-password'],
  ['a key in the fragment', 'http://127.0.0.1:9/v1#canary-password'],
] as const)
  test(`destinations: an address with ${name} in it is rejected, and not repeated`, async () => {
    const { run } = await import('../e2e/support/process.ts')
    const { exited, output } = await run({ env: { MY_LLM_API_KEY: 'sk-0123456789abcdef', MY_LLM_BASE_URL: baseUrl } })
    assert.equal(await exited, 1)
    assert.match(output(), /MY_LLM_BASE_URL/)
    assert.doesNotMatch(output(), /canary/)
  })
