/**
 * Invalid and unusual client requests. Invalid ones get a clear error in the shape of their style, and no upstream
 * call; the process stays up. Unusual but valid ones pass unchanged, byte for byte. No response or log contains
 * credentials.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { before, describe, test } from 'node:test'
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { answerWith, errorBody, failWith } from '../support/answers.ts'
import { type Upstream, type UpstreamRequest, until } from '../support/upstream.ts'
import { BELOW, type Started } from './support/process.ts'
import { bodyFor, callsOf, PATHS, rawClient, STYLES, type Style, sendChat, stage } from './support/stage.ts'

const LIMIT = 200_000

/** Parses a raw response. */
const parse = (text: string) => {
  const [head = '', ...rest] = text.split('\r\n\r\n')
  const status = Number(head.split(' ')[1])
  const headers = new Map(
    head
      .split('\r\n')
      .slice(1)
      .map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 2)]),
  )
  return { status, headers, body: rest.join('\r\n\r\n') }
}

type Sent = {
  readonly name: string
  readonly status: number
  readonly code: string
  readonly param?: string
  readonly says?: RegExp
  /** Members added to an otherwise valid request, or the whole body. */
  readonly more?: Readonly<Partial<Record<Style, object>>> | object
  readonly body?: (style: Style) => string | Buffer
  readonly method?: string
  readonly path?: string
  /** Headers added to, or replacing, the default ones. */
  readonly headers?: Readonly<Record<string, string>>
  /** Raw header lines. */
  readonly lines?: string
}

const good = (style: Style, more: object = {}) => JSON.stringify(bodyFor(style, 'good/m', false, more))
const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)
/** A valid request with additional text before its members. */
const withText = (text: string) => (style: Style) => `{${text},${good(style).slice(1)}`

const SENT: readonly Sent[] = [
  { name: 'no body', body: () => '', status: 400, code: 'invalid_json', says: /empty/ },
  { name: 'not JSON', body: () => 'model=good', status: 400, code: 'invalid_json' },
  { name: 'half a JSON', body: (style) => good(style).slice(0, -3), status: 400, code: 'invalid_json' },
  { name: 'two JSONs', body: (style) => good(style).repeat(2), status: 400, code: 'invalid_json', says: /column/ },
  { name: 'NaN', body: withText('"temperature":NaN'), status: 400, code: 'invalid_json' },
  { name: 'a list', body: () => '[]', status: 400, code: 'invalid_json', says: /object/ },
  { name: 'a text', body: () => '"hello"', status: 400, code: 'invalid_json', says: /object/ },
  { name: 'null', body: () => 'null', status: 400, code: 'invalid_json' },
  {
    name: 'invalid UTF-8',
    body: (style) => Buffer.concat([Buffer.from(good(style).slice(0, -2)), Buffer.from([0xc3, 0x28, 0x22, 0x7d])]),
    status: 400,
    code: 'invalid_json',
    says: /UTF-8/,
  },
  {
    name: 'a surrogate as bytes',
    body: (style) =>
      Buffer.from(good(style).replace('hello', '\u0001'), 'utf8').toString('latin1').includes('')
        ? Buffer.concat([
            Buffer.from(`{"x":"`),
            Buffer.from([0xed, 0xa0, 0x80]),
            Buffer.from(`",${good(style).slice(1)}`),
          ])
        : '',
    status: 400,
    code: 'invalid_json',
    says: /UTF-8/,
  },
  { name: 'no model', more: { model: undefined }, status: 400, code: 'missing_required_parameter', param: 'model' },
  { name: 'an empty model', more: { model: '' }, status: 400, code: 'missing_required_parameter', param: 'model' },
  { name: 'a numeric model', more: { model: 5 }, status: 400, code: 'invalid_value', param: 'model' },
  { name: 'a string as stream', more: { stream: 'yes' }, status: 400, code: 'invalid_value', param: 'stream' },
  {
    name: 'two models',
    body: withText('"model":"good/other"'),
    status: 400,
    code: 'invalid_value',
    param: 'model',
    says: /more than once/,
  },
  {
    name: 'two models, one written with an escape',
    body: withText('"mo\\u0064el":"good/other"'),
    status: 400,
    code: 'invalid_value',
    param: 'model',
  },
  {
    name: 'an absurd number',
    body: withText('"max_tokens":1e400'),
    status: 400,
    code: 'invalid_value',
    param: 'max_tokens',
  },
  {
    name: 'an absurd number in a nested value',
    body: withText('"metadata":{"a":[1,-1e999]}'),
    status: 400,
    code: 'invalid_value',
  },
  {
    name: 'nested too deeply',
    body: withText(`"metadata":{"a":${nested(70)}}`),
    status: 400,
    code: 'invalid_value',
    says: /64 levels/,
  },
  { name: 'nested far too deeply', body: withText(`"x":${nested(5_000)}`), status: 400, code: 'invalid_value' },
  { name: 'nested absurdly deeply', body: () => '['.repeat(90_000), status: 400, code: 'invalid_json' },
  { name: 'too large', more: { user: 'x'.repeat(LIMIT) }, status: 413, code: 'request_too_large' },
  {
    name: 'a content-length that is too large',
    headers: { 'content-length': String(LIMIT * 50) },
    status: 413,
    code: 'request_too_large',
  },
  {
    name: 'two encodings',
    headers: { 'content-encoding': 'gzip, br' },
    body: (style) => brotliCompressSync(gzipSync(good(style))),
    status: 415,
    code: 'unsupported_media_type',
    says: /zstd/,
  },
  {
    name: 'an unknown encoding',
    headers: { 'content-encoding': 'compress' },
    status: 415,
    code: 'unsupported_media_type',
  },
  {
    name: 'an encoding that the body does not have',
    headers: { 'content-encoding': 'gzip' },
    status: 400,
    code: 'invalid_request',
    says: /content-encoding/,
  },
  {
    name: 'half of a gzip',
    headers: { 'content-encoding': 'gzip' },
    body: (style) => gzipSync(good(style)).subarray(0, 60),
    status: 400,
    code: 'invalid_request',
    says: /incomplete/,
  },
  {
    name: 'too large when inflated',
    headers: { 'content-encoding': 'gzip' },
    body: (style) => gzipSync(good(style, { user: 'x'.repeat(LIMIT) })),
    status: 413,
    code: 'request_too_large',
  },
  {
    name: 'a form',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    status: 415,
    code: 'unsupported_media_type',
  },
  {
    name: 'text/plain, which a web page may send',
    headers: { 'content-type': 'text/plain' },
    status: 415,
    code: 'unsupported_media_type',
  },
  {
    name: 'another charset',
    headers: { 'content-type': 'application/json; charset=utf-16' },
    status: 415,
    code: 'unsupported_media_type',
  },
  { name: 'an unsupported method', method: 'GET', status: 405, code: 'method_not_allowed' },
  { name: 'another unsupported method', method: 'DELETE', status: 405, code: 'method_not_allowed' },
  {
    name: 'an unknown path',
    path: '/v1/chat/completionz',
    status: 404,
    code: 'unknown_url',
    says: /POST \/v1\/chat\/completions/,
  },
  { name: 'a path with ..', path: '/v1/../v1/chat/completions', status: 404, code: 'unknown_url' },
  { name: 'a path with two slashes', path: '//v1/chat/completions', status: 400, code: 'invalid_request' },
  {
    name: 'an absolute request target',
    path: 'http://127.0.0.1/v1/chat/completions',
    status: 400,
    code: 'invalid_request',
  },
  { name: 'a foreign origin', headers: { origin: 'https://evil.example' }, status: 403, code: 'origin_not_allowed' },
  { name: 'the origin null', headers: { origin: 'null' }, status: 403, code: 'origin_not_allowed' },
  {
    name: 'cross-site without an origin',
    headers: { 'sec-fetch-site': 'cross-site' },
    status: 403,
    code: 'origin_not_allowed',
  },
  { name: 'a foreign host', headers: { host: 'evil.example' }, status: 403, code: 'host_not_allowed', says: /hosts/i },
  { name: 'two hosts', lines: 'host: evil.example\r\n', status: 400, code: 'invalid_request' },
  { name: 'no host', headers: { host: '' }, status: 403, code: 'host_not_allowed' },
]

/** Errors that only one style can contain. */
const STYLED: readonly (Sent & { readonly style: Style })[] = [
  {
    style: 'chat',
    name: 'no messages',
    more: { messages: undefined },
    status: 400,
    code: 'missing_required_parameter',
    param: 'messages',
  },
  {
    style: 'chat',
    name: 'an empty list of messages',
    more: { messages: [] },
    status: 400,
    code: 'invalid_value',
    param: 'messages',
  },
  {
    style: 'chat',
    name: 'messages as a string',
    more: { messages: 'hello' },
    status: 400,
    code: 'invalid_value',
    param: 'messages',
  },
  {
    style: 'chat',
    name: 'a message as a string',
    more: { messages: ['hello'] },
    status: 400,
    code: 'invalid_value',
    param: 'messages[0]',
  },
  {
    style: 'chat',
    name: 'a message without a role',
    more: { messages: [{ content: 'x' }] },
    status: 400,
    code: 'missing_required_parameter',
    param: 'messages[0].role',
  },
  {
    style: 'chat',
    name: 'an unknown role',
    more: { messages: [{ role: 'king', content: 'x' }] },
    status: 400,
    code: 'invalid_value',
    param: 'messages[0].role',
  },
  {
    style: 'chat',
    name: 'numeric content',
    more: { messages: [{ role: 'user', content: 5 }] },
    status: 400,
    code: 'invalid_value',
    param: 'messages[0].content',
  },
  {
    style: 'chat',
    name: 'tools as an object',
    more: { tools: {} },
    status: 400,
    code: 'invalid_value',
    param: 'tools',
  },
  {
    style: 'chat',
    name: 'a temperature as a string',
    more: { temperature: 'hot' },
    status: 400,
    code: 'invalid_value',
    param: 'temperature',
  },
  {
    style: 'responses',
    name: 'numeric input',
    more: { input: 5 },
    status: 400,
    code: 'invalid_value',
    param: 'input',
  },
  {
    style: 'responses',
    name: 'an item as a string',
    more: { input: ['x'] },
    status: 400,
    code: 'invalid_value',
    param: 'input[0]',
  },
  {
    style: 'responses',
    name: 'tools as an object',
    more: { tools: {} },
    status: 400,
    code: 'invalid_value',
    param: 'tools',
  },
  {
    style: 'responses',
    name: 'a temperature as a string',
    more: { temperature: 'hot' },
    status: 400,
    code: 'invalid_value',
    param: 'temperature',
  },
]

describe('bad input: invalid requests are rejected', { concurrency: 4 }, () => {
  const on = stage()
  let gateway: Started
  let upstream: Upstream
  before(async () => {
    upstream = await on.upstream((request) => answerWith(request, { text: 'fine' }))
    gateway = await on.gateway({
      limit: { body: LIMIT },
      providers: {
        good: { baseUrl: `${upstream.url}/v1` },
        // The same requests for an upstream that needs translation.
        other: { baseUrl: `${upstream.url}/v1`, styles: ['messages'] },
      },
    })
  })

  const all = [...SENT.flatMap((sent) => STYLES.map((style) => ({ ...sent, style }))), ...STYLED]
  for (const sent of all)
    test(`${sent.name}: ${sent.style}`, async () => {
      const { style, more = {}, method = 'POST', lines = '' } = sent
      const body = Buffer.from(sent.body ? (sent.body(style) as string) : good(style, more))
      const headers = Object.entries({
        host: new URL(gateway.url).host,
        'content-type': 'application/json',
        ...(method === 'POST' && { 'content-length': String(body.length) }),
        ...sent.headers,
      })
      const head = `${method} ${BELOW}${sent.path ?? PATHS[style]} HTTP/1.1\r\n${headers.map(([name, value]) => `${name}: ${value}\r\n`).join('')}${lines}connection: close\r\n\r\n`
      const client = await rawClient(
        gateway.url,
        Buffer.concat([Buffer.from(head), method === 'POST' ? body : Buffer.alloc(0)]),
      )
      await until('a response', () => client.closed() || client.text().includes('}}'), 5_000)
      client.socket.destroy()
      const answer = parse(client.text())
      assert.equal(answer.status, sent.status, client.text())
      const { error, ...rest } = JSON.parse(answer.body)
      assert.deepEqual(Object.keys(rest), [])
      assert.deepEqual(Object.keys(error), ['message', 'type', 'code', 'param', 'request_id'])
      assert.equal(error.code, sent.code, error.message)
      assert.equal(error.param, sent.param ?? error.param)
      if (sent.says) assert.match(error.message, sent.says)
      assert.equal(error.request_id, answer.headers.get('x-request-id'))
      assert.equal(answer.headers.get('content-type'), 'application/json')
      assert.equal(answer.headers.get('x-should-retry'), 'false')
      if (sent.status === 405) assert.equal(answer.headers.get('allow'), 'POST, OPTIONS')
    })

  test('afterwards nothing was sent upstream, and the gateway still serves', async () => {
    assert.equal(callsOf(upstream).length, 0)
    for (const style of STYLES)
      assert.equal((await sendChat(gateway, { style, model: 'good/m', stream: true })).status, 200)
    assert.equal(gateway.child.exitCode, null)
    assert.deepEqual(
      (await gateway.logged()).filter(({ event, level }) => event === 'error' || level === 'error'),
      [],
    )
  })
})

// ── Unusual but valid: passed on unchanged ───────────────────────────────────────────────────────────────────────

const EXACT: readonly (readonly [string, string])[] = [
  ['an integer beyond 2^53', '"seed":9007199254740993'],
  ['an integer of 30 digits', '"x_id":123456789012345678901234567890'],
  ['a decimal with trailing zeros', '"temperature":0.70'],
  ['an exponent', '"x_e":1E+2'],
  ['minus zero', '"x_z":-0.0'],
  ['an unknown member', '"x_unknown":{"a":[1,{"b":null}],"":"empty name"}'],
  ['a duplicate of an insignificant member', '"x_twice":1,"x_twice":2'],
  ['escapes', '"x_esc":"\\u00e9\\/\\ud83d\\ude00 \\u2028"'],
  // A half of a pair is replaced: see src/gateway/upstream/lone-surrogates.test.ts.
  ['a pair of surrogates, escaped', '"x_pair":"\\ud83d\\ude00"'],
  ['prototype member names', '"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}'],
  ['white space', '"x_ws" :  [ 1 ,\n\t2 ]'],
  ['63 levels of nesting', `"x_deep":${nested(62)}`],
]

describe('bad input: unusual but valid requests pass unchanged', { concurrency: 4 }, () => {
  const on = stage()
  let gateway: Started
  let upstream: Upstream
  before(async () => {
    upstream = await on.upstream((request) => answerWith(request, { text: 'fine' }))
    gateway = await on.gateway({ unknownModel: 'reject', providers: { good: { baseUrl: `${upstream.url}/v1` } } })
  })
  for (const style of STYLES)
    for (const [name, text] of EXACT)
      test(`${name}: ${style}`, async () => {
        const mark = `${style} ${name}`
        const response = await fetch(gateway.url + PATHS[style], {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: `{${text},"user":${JSON.stringify(mark)},${good(style).slice(1)}`,
        })
        assert.equal(response.status, 200, await response.text())
        const call = callsOf(upstream).find(({ json }) => json.user === mark)
        assert.ok(call)
        assert.ok(call.body.includes(text), `${text} in ${call.body}`)
        assert.equal(JSON.parse(call.body).model, 'm')
      })
  const ENCODINGS: readonly (readonly [name: string, squeeze: (text: string) => Buffer<ArrayBuffer>])[] = [
    ['gzip', gzipSync],
    ['X-GZIP', gzipSync],
    ['deflate', deflateSync],
    ['deflate', deflateRawSync],
    ['br', brotliCompressSync],
    ['zstd', zstdCompressSync],
  ]
  for (const style of STYLES)
    for (const [at, [name, squeeze]] of ENCODINGS.entries())
      for (const length of [10, 3_000_000])
        test(`a body in ${name} (${at}) of ${length} characters: ${style}`, async () => {
          const mark = `${style} ${at} ${length}`
          const text = good(style, { user: mark, 'x-long': randomBytes(length / 2).toString('hex') })
          const response = await fetch(gateway.url + PATHS[style], {
            method: 'POST',
            headers: { 'content-type': 'application/json', 'content-encoding': name },
            body: squeeze(text),
          })
          assert.equal(response.status, 200, await response.text())
          const call = callsOf(upstream).find(({ json }) => json.user === mark)
          assert.equal(call?.body, text.replace('good/m', 'm'))
          assert.equal(call?.headers['content-encoding'], undefined)
        })
  test('a model name cannot address a prototype member', async () => {
    for (const model of ['constructor', '__proto__', 'toString', 'hasOwnProperty', '__proto__/x'])
      for (const style of STYLES) {
        const answer = await sendChat(gateway, { style, model, stream: false })
        assert.deepEqual([answer.status, answer.json().error.code], [404, 'model_not_found'], model)
      }
  })
  test('text in any script arrives unchanged', async () => {
    for (const style of STYLES) {
      const text = `naïve 東京 🦊\u2028\u0000end of ${style}`
      const content = style === 'chat' ? { messages: [{ role: 'user', content: text }] } : { input: text }
      const answer = await sendChat(gateway, { style, model: 'good/m', stream: true, more: content })
      assert.equal(answer.status, 200)
      // A list of models may be read at any time.
      const sent = callsOf(upstream).map(({ json }) => JSON.stringify(json))
      assert.ok(sent.some((json) => json?.includes(JSON.stringify(text).slice(1, -1))))
    }
  })
})

// ── No output contains credentials ───────────────────────────────────────────────────────────────────────────────

const CANARY = /canary/i
const keysOf = (name: string) => ['one', 'two'].map((which) => `sk-canary-${name}-${which}-0a1b2c3d4e5f`)

const KINDS = ['own', 'translated'] as const
/** Statuses that disable a key. Each has a provider of its own in every case. */
const DISABLING = ['402', '403', '401']
const ECHOES = STYLES.flatMap((style) =>
  KINDS.flatMap((kind) =>
    [false, true].map((stream) => ({ style, kind, stream, name: `${kind}-${style}-${stream ? 's' : 'w'}` })),
  ),
)

/** An upstream that echoes its key wherever possible. `elsewhere`: the server to which it redirects. */
const echoKey = (request: UpstreamRequest, elsewhere: string) => {
  const quoted = `You sent the key ${request.key}. Bearer ${request.key} was refused; see authorization: Bearer ${request.key}`
  const headers = {
    'x-request-id': `up-${request.number}`,
    'x-echo': request.key ?? '',
    'x-ratelimit-remaining': request.key ?? '',
    'set-cookie': `key=${request.key}`,
  }
  const model = request.model ?? ''
  const error = { type: 'invalid_request_error', message: quoted, code: 'invalid_value' }
  if (model === 'html')
    return {
      do: 'answer',
      status: 200,
      headers: { 'content-type': 'text/html', ...headers },
      body: `<html>${quoted}`,
    } as const
  if (model === 'inside') return { do: 'answer', headers, body: errorBody(request, error) } as const
  if (model === 'redirect')
    return {
      do: 'answer',
      status: 307,
      headers: { ...headers, location: `${elsewhere}/steal?${request.key}` },
    } as const
  if (model === 'fine') return answerWith(request, { text: 'fine' }, { headers })
  return failWith(request, Number(model), error, headers)
}

describe('bad input: secrets', () => {
  const on = stage()
  let gateway: Started
  let upstream: Upstream
  let other: Upstream
  const outputs: string[] = []
  before(async () => {
    upstream = await on.upstream((request) => echoKey(request, other.url))
    other = await on.upstream((request) => answerWith(request, { text: 'fine' }))
    gateway = await on.gateway(
      {
        fallback: 'none',
        auth: { keys: ['canary-client-key-0123456789'], admin: 'canary-admin-token-0123456789' },
        providers: {
          ...Object.fromEntries(
            ECHOES.flatMap(({ kind, name }) =>
              ['', ...DISABLING].map((end) => [
                name + end,
                {
                  baseUrl: `${upstream.url}/${name}${end}/v1`,
                  keys: keysOf(name + end),
                  ...(kind === 'translated' && { styles: ['messages'] }),
                },
              ]),
            ),
          ),
          other: { baseUrl: `${other.url}/v1`, keys: keysOf('other') },
        },
      },
      { LOG_LEVEL: 'debug', OPENAI_API_KEY: '' },
    )
  })

  /** Sends a request and records the response. */
  const record = async (path: string, init: RequestInit = {}) => {
    const response = await fetch(gateway.url + path, { redirect: 'manual', ...init })
    const text = await response.text()
    outputs.push(`${path} ${response.status} ${JSON.stringify([...response.headers])} ${text}`)
    return { status: response.status, text }
  }
  const authorization = { authorization: 'Bearer canary-client-key-0123456789' }

  for (const { style, kind, stream, name } of ECHOES)
    test(`an upstream that echoes its key: ${style} to ${kind}${stream ? ', streamed' : ''}`, async () => {
      const models = ['fine', '400', '404', '422', '429', '500', '503', 'html', 'inside', 'redirect'].map(
        (model) => `${name}/${model}`,
      )
      for (const model of [...models, ...DISABLING.map((end) => `${name}${end}/${end}`)])
        await record(PATHS[style], {
          method: 'POST',
          headers: {
            'content-type': 'application/json',
            ...authorization,
            cookie: 'canary-cookie=1',
            'x-forwarded-for': 'canary-forwarded',
          },
          body: JSON.stringify(bodyFor(style, model, stream)),
        })
    })
  test('other endpoints and rejected requests', async () => {
    for (const path of [
      '/health',
      '/health/live',
      '/health/ready',
      '/providers/status',
      '/metrics',
      '/openapi.json',
      '/v1/models',
      '/v1/models/own%2Fm',
      '/nowhere',
    ])
      await record(path, { headers: authorization })
    for (const style of STYLES) await record('/v1/route', { method: 'POST', headers: authorization, body: good(style) })
    await record('/v1/models', { headers: { authorization: 'Bearer canary-wrong-key' } })
    await record(PATHS.chat, { method: 'POST', headers: authorization, body: '{"model": "own/fine", "messages": [}' })
  })
  test('no response or log line contains a key, token or cookie', async () => {
    assert.ok(outputs.length > 100)
    for (const text of outputs) assert.doesNotMatch(text, CANARY)
    for (const text of outputs.filter((one) => one.startsWith('/v1/')))
      assert.doesNotMatch(text, /x-echo|set-cookie|x-ratelimit/)
    await gateway.logged()
    assert.doesNotMatch(gateway.output(), CANARY)
  })
  test('each key reached only its own provider, without the client’s credentials', () => {
    assert.ok(callsOf(upstream).length > 100, String(callsOf(upstream).length))
    for (const { headers, key, body, path } of upstream.requests) {
      assert.match(key ?? '', /^sk-canary-(own|translated)-/)
      assert.doesNotMatch(JSON.stringify(headers) + body + path, /canary-(client|cookie|forwarded|admin|other)/)
    }
    for (const { key, path } of other.requests) {
      assert.match(key ?? '', /^sk-canary-other-/)
      assert.doesNotMatch(path, /steal/)
    }
  })
})
