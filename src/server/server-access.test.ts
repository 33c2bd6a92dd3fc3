/** Access: origins, hosts, CORS and client keys; refusals reveal no key and no content. */
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { assertRefusal, CHAT, onBothServers, requestText, send, sendBytes } from '../../test/support/app-server.ts'
import { until } from '../../test/support/upstream.ts'
import { settingsSchema } from '../core/settings.ts'

onBothServers('http: keys in a path appear neither in reports nor in errors', async ({ given }, t) => {
  const unread: string[] = []
  const made = await given(
    { auth: { keys: ['q7Zr/8sT+u/Vw=='] }, limit: { bufferedMegabytes: 1 } },
    { onUnread: ({ path }) => unread.push(path) },
  )
  const { server, refused } = made
  const authorization = 'Bearer q7Zr/8sT+u/Vw=='
  const answer = await send(server.port, 'GET', '/v1/q7Zr/8sT+u/Vw==/models', { authorization })
  assertRefusal(answer, 404, 'unknown_url')
  assert.match(answer.body, /\/v1\/\[key\]\/models does not exist/)
  assert.deepEqual(
    refused.map(({ path }) => path),
    ['/v1/[key]/models'],
  )

  made.answer = ({ reply }) => {
    reply.writeHead(200, {})
    reply.end('w'.repeat(12 * 1_048_576))
  }
  const socket = connect(server.port, '127.0.0.1')
  t.after(() => socket.destroy())
  socket.on('error', () => {})
  socket.pause()
  socket.write(requestText('GET', '/v1/models/q7Zr/8sT+u/Vw==', { authorization }))
  await until('the answer is ended', () => unread.length > 0)
  assert.deepEqual(unread, ['/v1/models/[key]'])
})

for (const [name, headers, status, code] of [
  ['a page of another origin', { origin: 'https://evil.example' }, 403, 'origin_not_allowed'],
  ['a page that hides its origin', { 'sec-fetch-site': 'cross-site' }, 403, 'origin_not_allowed'],
  ['a sandboxed page', { origin: 'null' }, 403, 'origin_not_allowed'],
  ['a foreign host name', { host: 'evil.example' }, 403, 'host_not_allowed'],
] as const)
  onBothServers(`http: ${name} is refused`, async ({ given }) => {
    const { server, calls } = await given()
    const answer = await send(server.port, 'POST', CHAT, headers, '{}')
    assertRefusal(answer, status, code)
    assert.equal(answer.headers.get('access-control-allow-origin'), undefined)
    assert.equal(calls.length, 0)
  })

onBothServers('http: a listed origin gets CORS headers, in errors too; preflight needs no key', async ({ given }) => {
  const { server, calls } = await given({ cors: { origins: ['https://app.example'] }, auth: { keys: ['k'] } })
  const origin = 'https://app.example'
  const preflight = await send(server.port, 'OPTIONS', CHAT, {
    origin,
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'authorization',
  })
  assert.equal(preflight.status, 204)
  assert.equal(preflight.headers.get('access-control-allow-origin'), origin)
  assert.match(preflight.headers.get('access-control-allow-headers') ?? '', /authorization/)
  assert.ok(preflight.headers.get('x-request-id'))
  for (const [key, status] of [
    ['k', 200],
    ['wrong', 401],
  ] as const) {
    const answer = await send(server.port, 'POST', CHAT, { origin, authorization: `Bearer ${key}` }, '{}')
    assert.equal(answer.status, status)
    assert.equal(answer.headers.get('access-control-allow-origin'), origin)
    assert.match(answer.headers.get('access-control-expose-headers') ?? '', /x-request-id/)
  }
  assert.equal(calls.length, 1)
  assert.equal(
    (
      await send(server.port, 'OPTIONS', CHAT, {
        origin: 'https://evil.example',
        'access-control-request-method': 'POST',
      })
    ).status,
    403,
  )
})

const doors = { auth: { keys: ['client-one', 'client-two'], admin: 'operator' } }

for (const [name, method, target, headers, status] of [
  ['a model call without a key', 'POST', CHAT, {}, 401],
  ['a model call with a key', 'POST', CHAT, { authorization: 'Bearer client-two' }, 200],
  ['a model call with a key as Anthropic’s clients send it', 'POST', CHAT, { 'x-api-key': 'client-one' }, 200],
  ['a model call with half a key', 'POST', CHAT, { authorization: 'Bearer client-on' }, 401],
  ['a model call with the operator’s token', 'POST', CHAT, { authorization: 'Bearer operator' }, 401],
  ['the unprefixed twin without a key', 'POST', '/chat/completions', {}, 401],
  ['explaining without a key', 'POST', '/v1/route', {}, 401],
  ['the list of models without a key', 'GET', '/models', {}, 401],
  ['health', 'GET', '/health', {}, 200],
  ['the API’s description', 'GET', '/openapi.json', {}, 200],
  ['metrics from this machine', 'GET', '/metrics', {}, 200],
  ['metrics through a proxy', 'GET', '/metrics', { 'x-forwarded-for': '10.0.0.1' }, 401],
  [
    'metrics behind a proxy with the operator’s token',
    'GET',
    '/metrics',
    { via: '1.1 p', authorization: 'Bearer operator' },
    200,
  ],
  [
    'status behind a proxy with a client key',
    'GET',
    '/providers/status',
    { forwarded: 'for=1', 'x-api-key': 'client-one' },
    200,
  ],
] as const)
  onBothServers(`http: ${name} is ${status}`, async ({ given }) => {
    const { server, calls } = await given(doors)
    const answer = await send(server.port, method, target, headers, method === 'POST' ? '{}' : '')
    assert.equal(answer.status, status)
    if (status === 401) {
      assertRefusal(answer, 401, 'invalid_api_key')
      assert.equal(answer.headers.get('www-authenticate'), 'Bearer')
      assert.doesNotMatch(answer.body, /client-|operator"/)
    }
    assert.equal(calls.length, status === 200 ? 1 : 0)
  })

onBothServers('http: without configured keys, metrics are served to local requests only', async ({ given }) => {
  const { server } = await given()
  assert.equal((await send(server.port, 'GET', '/metrics')).status, 200)
  assert.equal((await send(server.port, 'GET', '/metrics', { 'x-real-ip': '10.0.0.1' })).status, 401)
})

onBothServers('http: changed keys apply from the next request', async ({ given }) => {
  const made = await given({ auth: { keys: ['old'] } })
  const status = async (key: string) => (await send(made.server.port, 'POST', CHAT, { 'x-api-key': key }, '{}')).status
  assert.deepEqual([await status('old'), await status('new')], [200, 401])
  made.settings = settingsSchema.parse({ auth: { keys: ['new'] } })
  assert.deepEqual([await status('old'), await status('new')], [401, 200])
})

onBothServers('http: a refusal is reported without the content of the request', async ({ given }) => {
  const { server, refused } = await given({ auth: { keys: ['secret-key'] } })
  await send(server.port, 'POST', CHAT, { authorization: 'Bearer wrong-key' }, '{"prompt":"private"}')
  await sendBytes(server.port, 'nonsense\r\n\r\n')
  assert.deepEqual(
    refused.map(({ status, path }) => [status, path]),
    [
      [401, CHAT],
      [400, ''],
    ],
  )
  assert.doesNotMatch(JSON.stringify(refused), /wrong-key|secret-key|private/)
})
