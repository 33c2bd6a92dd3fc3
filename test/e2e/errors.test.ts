/** Every error a client can get instead of an answer, in both styles: status, type, code, shape and retry headers. */
import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { answerWith, failWith } from '../support/answers.ts'
import { type Act, refusingUrl, type Upstream, type UpstreamRequest, until } from '../support/upstream.ts'
import type { Started } from './support/process.ts'
import { type Answer, bodyFor, callsOf, PATHS, STYLES, type Style, sendChat, stage } from './support/stage.ts'

/** Clients that search the raw error body for these words decide to retry. */
const ALARMING =
  /429|500|502|503|504|524|rate.?limit|too many requests|overloaded|service.?unavailable|internal.?error|server.?error|provider.?returned.?error|fetch failed|network.?error|terminated/i

/** An upstream message that contains many of these words. */
const LOUD =
  'Rate limit, server error 500 and too many requests: provider returned error, overloaded, terminated at 503'

type ExpectedError = {
  readonly status: number
  readonly type: string
  readonly code: string
  readonly param?: string | null
  readonly retry: boolean
  readonly after?: readonly [number, number]
  /** The number of attempt lines, where the error is retryable. */
  readonly attempts?: number
  readonly says?: RegExp
}

const judge = (answer: Pick<Answer, 'status' | 'headers' | 'text'>, expected: ExpectedError): void => {
  const { status, headers, text } = answer
  const { error, ...rest } = JSON.parse(text)
  assert.deepEqual([status, error.type, error.code], [expected.status, expected.type, expected.code], text)
  assert.deepEqual(Object.keys(rest), [])
  assert.deepEqual(
    Object.keys(error).filter((name) => name !== 'attempts'),
    ['message', 'type', 'code', 'param', 'request_id'],
  )
  assert.ok(typeof error.message === 'string' && error.message.length > 10)
  if (expected.says) assert.match(error.message, expected.says)
  assert.equal(error.param, expected.param ?? null)
  assert.equal(headers.get('content-type'), 'application/json')
  assert.equal(error.request_id, headers.get('x-request-id'))
  assert.match(error.request_id, /^req_[a-z]+$/)
  assert.equal(headers.get('x-should-retry'), String(expected.retry))
  const wait = headers.get('retry-after')
  if (expected.after)
    assert.ok(Number(wait) >= expected.after[0] && Number(wait) <= expected.after[1], `retry-after: ${wait}`)
  else assert.equal(wait, null)
  if (Number(wait) > 60) assert.equal(expected.retry, false)
  if (!expected.retry) {
    assert.doesNotMatch(text, ALARMING)
    assert.equal(error.attempts, undefined)
    return
  }
  assert.equal(error.attempts?.length, expected.attempts ?? 0)
  for (const line of error.attempts ?? []) {
    assert.deepEqual(Object.keys(line), ['provider', 'model', 'key', 'status', 'kind', 'ms'])
    assert.match(line.key, /^[0-9a-f]{4,}$/)
    assert.ok(line.status === null || Number.isInteger(line.status))
    assert.ok(Number.isInteger(line.ms) && line.ms >= 0)
  }
}

const own = { type: 'invalid_request_error', retry: false } as const
const failed = { type: 'upstream_error', retry: true } as const

const upstreamError =
  (status: number, type: string, headers: Readonly<Record<string, string>> = {}, code?: string) =>
  (request: UpstreamRequest) =>
    failWith(request, status, { type, message: LOUD, ...(code && { code }) }, headers)

/** The behaviour of each route's upstreams, in order, and the resulting error. */
const ROUTES: Readonly<
  Record<string, { readonly acts: readonly ((request: UpstreamRequest) => Act)[]; readonly expected: ExpectedError }>
> = {
  // An invalid request, rejected by the upstream and passed through.
  invalid: {
    acts: [upstreamError(400, 'invalid_request_error', {}, 'invalid_value')],
    expected: { ...own, status: 400, code: 'invalid_value' },
  },
  unprocessable: {
    acts: [upstreamError(422, 'invalid_request_error')],
    expected: { ...own, status: 422, code: 'invalid_request' },
  },
  toolarge: {
    acts: [upstreamError(413, 'request_too_large')],
    expected: { ...own, status: 413, code: 'request_too_large' },
  },
  toolong: {
    acts: [upstreamError(400, 'invalid_request_error', {}, 'context_length_exceeded')],
    expected: { ...own, status: 400, code: 'context_length_exceeded' },
  },
  filtered: {
    acts: [upstreamError(400, 'invalid_request_error', {}, 'content_policy_violation')],
    expected: { ...own, status: 400, code: 'content_policy_violation' },
  },
  nomodel: {
    acts: [upstreamError(404, 'not_found_error', {}, 'model_not_found')],
    expected: { ...own, status: 404, code: 'model_not_found', param: 'model' },
  },
  // Quota and rate limits.
  quota: {
    acts: [upstreamError(429, 'insufficient_quota', {}, 'insufficient_quota'), upstreamError(402, 'billing_error')],
    expected: { status: 429, type: 'insufficient_quota', code: 'insufficient_quota', retry: false, after: [890, 900] },
  },
  quotaandlimit: {
    acts: [upstreamError(402, 'billing_error'), upstreamError(429, 'rate_limit_error', { 'retry-after': '20' })],
    expected: {
      status: 429,
      type: 'rate_limit_error',
      code: 'rate_limited',
      retry: true,
      after: [19, 20],
      attempts: 2,
    },
  },
  limits: {
    acts: [
      upstreamError(429, 'rate_limit_error', { 'retry-after': '50' }),
      upstreamError(429, 'rate_limit_error', { 'retry-after': '20' }),
    ],
    expected: {
      status: 429,
      type: 'rate_limit_error',
      code: 'rate_limited',
      retry: true,
      after: [19, 20],
      attempts: 2,
    },
  },
  longlimits: {
    acts: [
      upstreamError(429, 'rate_limit_error', { 'retry-after': '600' }),
      upstreamError(429, 'rate_limit_error', { 'retry-after': '500' }),
    ],
    expected: { status: 429, type: 'rate_limit_error', code: 'rate_limited', retry: false, after: [499, 500] },
  },
  // Failing targets.
  status: {
    acts: [upstreamError(500, 'server_error'), upstreamError(502, 'server_error')],
    expected: { ...failed, status: 502, code: 'status', attempts: 2 },
  },
  mixed: {
    acts: [upstreamError(429, 'rate_limit_error', { 'retry-after': '20' }), () => ({ do: 'reset' })],
    expected: { ...failed, status: 502, code: 'reset', attempts: 2 },
  },
  mixedlimit: {
    acts: [() => ({ do: 'reset' }), upstreamError(429, 'rate_limit_error', { 'retry-after': '20' })],
    expected: { ...failed, status: 502, code: 'rate_limited', attempts: 2 },
  },
  mixedtime: {
    acts: [upstreamError(500, 'server_error'), () => ({ do: 'hang' })],
    expected: { ...failed, status: 502, code: 'timeout', attempts: 2 },
  },
  auth: {
    acts: [upstreamError(401, 'authentication_error'), upstreamError(403, 'permission_error')],
    expected: { status: 502, type: 'upstream_error', code: 'upstream_auth', retry: false },
  },
  time: {
    acts: [() => ({ do: 'hang' }), () => ({ do: 'hang' })],
    expected: { ...failed, status: 504, code: 'timeout', attempts: 2 },
  },
  busy: {
    acts: [upstreamError(529, 'overloaded_error'), upstreamError(503, 'server_error')],
    expected: { ...failed, status: 502, code: 'overloaded', attempts: 2 },
  },
}

describe('errors: upstream', { concurrency: 8 }, () => {
  const on = stage()
  let gateway: Started
  let upstream: Upstream
  const names = Object.entries(ROUTES).flatMap(([route, { acts }]) =>
    acts.flatMap((act, at) =>
      [true, false].flatMap((stream) =>
        STYLES.map((style) => ({
          route: `${route}${style}${stream ? 's' : ''}`,
          name: `${route}${style}${stream ? 's' : ''}${at}`,
          act,
        })),
      ),
    ),
  )

  before(async () => {
    upstream = await on.upstream(
      (request) => names.find(({ name }) => name === request.path.split('/')[1])?.act(request) ?? { do: 'hang' },
    )
    gateway = await on.gateway({
      fallback: 'same-model',
      circuit: { timeout: 700 },
      providers: Object.fromEntries(names.map(({ name }) => [name, { baseUrl: `${upstream.url}/${name}/v1` }])),
      routes: Object.fromEntries(
        [...new Set(names.map(({ route }) => route))].map((route) => [
          `r-${route}`,
          { targets: names.filter((one) => one.route === route).map(({ name }) => `${name}/m`) },
        ]),
      ),
    })
  })

  for (const [route, { expected }] of Object.entries(ROUTES))
    for (const style of STYLES)
      for (const stream of [false, true])
        test(`${route}: ${style}${stream ? ', streamed' : ''}`, async () => {
          const answer = await sendChat(gateway, { style, model: `r-${route}${style}${stream ? 's' : ''}`, stream })
          judge(answer, expected)
          const last = answer.headers.get('x-headgate-trail')?.split(', ').at(-1)?.split('#')[0]
          assert.equal(answer.headers.get('x-headgate-provider'), last, 'the last provider tried')
          assert.equal(answer.headers.get('x-headgate-model'), 'm')
          assert.ok(Number(answer.headers.get('x-headgate-attempts')) >= 1)
        })
})

describe('errors: of the gateway', { concurrency: 4 }, () => {
  const on = stage()
  let gateway: Started
  let upstream: Upstream
  before(async () => {
    upstream = await on.upstream((request) =>
      request.path.startsWith('/open')
        ? failWith(request, 500, { type: 'server_error', message: LOUD })
        : answerWith(request, { text: 'fine' }),
    )
    gateway = await on.gateway({
      unknownModel: 'reject',
      fallback: 'none',
      limit: { body: 20_000 },
      circuit: { minRequests: 1, firstProbe: 40_000, resetTimeout: 40_000, whenAllOpen: 'fail' },
      providers: {
        good: { baseUrl: `${upstream.url}/good/v1` },
        messages: { baseUrl: `${upstream.url}/messages/v1`, styles: ['messages'] },
        open: { baseUrl: `${upstream.url}/open/v1` },
        gone: { baseUrl: `${await refusingUrl()}/v1` },
      },
    })
  })

  const sent: readonly (readonly [
    string,
    {
      readonly body?: string | object
      readonly path?: string
      readonly method?: string
      readonly headers?: Readonly<Record<string, string>>
    },
    ExpectedError,
  ])[] = [
    [
      'not JSON',
      { body: '{"model": good}' },
      { ...own, status: 400, code: 'invalid_json', says: /unexpected "g" at line 1, column 11/ },
    ],
    [
      'JSON with a syntax error',
      { body: '{\n"model": "m",, "input": 1}' },
      { ...own, status: 400, code: 'invalid_json', says: /line 2, column 14/ },
    ],
    [
      'truncated JSON',
      { body: '{"model": ' },
      { ...own, status: 400, code: 'invalid_json', says: /ends before it is complete, at line 1, column 11/ },
    ],
    [
      'no model',
      { body: { messages: [], input: 'x' } },
      { ...own, status: 400, code: 'missing_required_parameter', param: 'model' },
    ],
    [
      'an unknown model',
      { body: { model: 'goood/m', messages: [{ role: 'user', content: 'x' }], input: 'x' } },
      { ...own, status: 404, code: 'model_not_found', param: 'model' },
    ],
    [
      'an unknown path',
      { path: '/v1/chat/completion', body: {} },
      { ...own, status: 404, code: 'unknown_url', says: /\/v1\/chat\/completions/ },
    ],
    ['a known path, another method', { method: 'PUT', body: {} }, { ...own, status: 405, code: 'method_not_allowed' }],
    [
      'too large',
      { body: { model: 'good/m', input: 'x'.repeat(30_000), messages: [] } },
      { ...own, status: 413, code: 'request_too_large', says: /limit\.body/ },
    ],
    [
      'another content type',
      { headers: { 'content-type': 'text/plain' }, body: {} },
      { ...own, status: 415, code: 'unsupported_media_type' },
    ],
    [
      'a page of another origin',
      { headers: { origin: 'https://evil.example' }, body: {} },
      { status: 403, type: 'permission_error', code: 'origin_not_allowed', retry: false },
    ],
  ]
  for (const [name, { body, path, method = 'POST', headers }, expected] of sent)
    for (const style of STYLES)
      test(`${name}: ${style}`, async () => {
        const response = await fetch(gateway.url + (path ?? PATHS[style]), {
          method,
          headers: { 'content-type': 'application/json', ...headers },
          body: typeof body === 'string' ? body : JSON.stringify(body),
        })
        judge({ status: response.status, headers: response.headers, text: await response.text() }, expected)
      })

  test('a setting that only another format supports: the error names the parameter', async () => {
    const answer = await sendChat(gateway, { style: 'chat', model: 'messages/m', stream: false, more: { n: 2 } })
    judge(answer, { ...own, status: 400, code: 'unsupported_parameter', param: 'n' })
  })

  for (const style of STYLES)
    test(`no target may be tried: ${style}`, async () => {
      await sendChat(gateway, { style, model: `open/${style}`, stream: false })
      const answer = await sendChat(gateway, { style, model: `open/${style}`, stream: true })
      judge(answer, { ...failed, status: 503, code: 'no_target_available', retry: false, after: [35, 40] })
      assert.equal(answer.headers.get('x-headgate-attempts'), '0')
    })

  test('uninvolved upstreams received no request', () => {
    assert.deepEqual(
      callsOf(upstream).map(({ path }) => path.split('/')[1]),
      // Only the two that opened a circuit. A sole failing target is not tried again once its circuit is open.
      callsOf(upstream).map(() => 'open'),
    )
  })
})

describe('errors: authentication', () => {
  const on = stage()
  let gateway: Started
  let upstream: Upstream
  const KEYS = ['client-key-one', 'client-key-two']
  before(async () => {
    upstream = await on.upstream((request) => answerWith(request, { text: 'fine' }))
    gateway = await on.gateway({ auth: { keys: KEYS }, providers: { good: { baseUrl: `${upstream.url}/v1` } } })
  })
  const expected: ExpectedError = { status: 401, type: 'authentication_error', code: 'invalid_api_key', retry: false }
  const refused: readonly (readonly [string, Readonly<Record<string, string>>])[] = [
    ['no key', {}],
    ['a wrong key', { authorization: 'Bearer client-key-on' }],
    ['an empty key', { authorization: 'Bearer ' }],
    ['another scheme', { authorization: 'Basic client-key-one' }],
    ['a wrong x-api-key', { 'x-api-key': 'client-key-one-' }],
  ]
  const missing = new Set(['no key', 'an empty key', 'another scheme'])
  for (const style of STYLES) {
    for (const [name, headers] of refused)
      test(`${name}: ${style}`, async () => {
        const answer = await sendChat(gateway, { style, model: 'm', stream: true, headers })
        judge(answer, { ...expected, says: missing.has(name) ? /^No API key\b/ : /^Unknown API key\b/ })
        assert.doesNotMatch(answer.text, /client-key/)
      })
    for (const headers of [{ authorization: `Bearer ${KEYS[0]}` }, { 'x-api-key': KEYS[1] ?? '' }])
      test(`a valid key: ${style}: ${Object.keys(headers)}`, async () => {
        assert.equal((await sendChat(gateway, { style, model: 'm', stream: false, headers })).status, 200)
      })
  }
  test('unprefixed paths and /v1/route require a key too, health does not', async () => {
    for (const path of ['/chat/completions', '/v1/route', '/route', '/responses']) {
      const response = await fetch(gateway.url + path, {
        method: 'POST',
        body: JSON.stringify(bodyFor('chat', 'm', false)),
      })
      assert.equal(response.status, 401, path)
    }
    assert.equal((await fetch(`${gateway.url}/v1/models`)).status, 401)
    assert.equal((await fetch(`${gateway.url}/health`)).status, 200)
  })
  test('only authenticated requests reached the upstream, and never with the client’s key', async () => {
    assert.equal(callsOf(upstream).length, 4)
    for (const { headers, body } of callsOf(upstream)) assert.doesNotMatch(JSON.stringify(headers) + body, /client-key/)
    await gateway.logged()
    assert.doesNotMatch(gateway.output(), /client-key/)
  })
})

describe('errors: too many at once', () => {
  const on = stage()
  let gateway: Started
  let release: () => void = () => {}
  before(async () => {
    const open = new Promise<void>((resolve) => {
      release = resolve
    })
    const upstream = await on.upstream(async (request) => {
      await open
      return answerWith(request, { text: 'fine' })
    })
    gateway = await on.gateway({
      limit: { concurrent: 3 },
      keepAlive: { interval: 0 },
      providers: { slow: { baseUrl: `${upstream.url}/v1` } },
    })
    const three = Array.from({ length: 3 }, (_, at) =>
      sendChat(gateway, { style: STYLES[at % 2] as Style, model: 'm', stream: true }),
    )
    await until('three in flight', () => callsOf(upstream).length === 3)
    on.keep(async () => {
      release()
      for (const { status } of await Promise.all(three)) assert.equal(status, 200)
    })
  })
  for (const style of STYLES)
    test(style, async () => {
      judge(await sendChat(gateway, { style, model: 'm', stream: false }), {
        status: 503,
        type: 'overloaded_error',
        code: 'overloaded',
        retry: true,
        after: [1, 1],
      })
      assert.equal((await fetch(`${gateway.url}/health`)).status, 200)
    })
})

describe('errors: no provider configured', () => {
  const on = stage()
  let gateway: Started
  before(async () => {
    gateway = await on.gateway(
      { providers: {} },
      { NODE_ENV: 'production', HOST: '127.0.0.1', DRAIN_DELAY: '0', AUTH_REQUIRED: 'false' },
    )
  })
  for (const style of STYLES)
    for (const stream of [false, true])
      test(`${style}${stream ? ', streamed' : ''}`, async () => {
        const answer = await sendChat(gateway, { style, model: 'gpt-5', stream })
        judge(answer, {
          status: 503,
          type: 'configuration_error',
          code: 'no_provider_configured',
          retry: false,
          says: /OPENAI_API_KEY/,
        })
      })
})
