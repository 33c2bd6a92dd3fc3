/** Internal errors, and errors in Anthropic’s format. */
import assert from 'node:assert/strict'
import { assertRefusal, CHAT, onBothServers, requestText, send, sendBytes } from '../../test/support/app-server.ts'
import { RETRY_TRIGGERS } from '../core/retry-triggers.ts'

onBothServers('http: a handler that throws is an internal error, without a stack', async ({ given }) => {
  const made = await given()
  for (const answer of [
    () => {
      throw new Error('secret detail')
    },
    async () => {
      throw new Error('secret detail')
    },
  ]) {
    made.answer = answer
    const got = await send(made.server.port, 'POST', CHAT, {}, '{}')
    assertRefusal(got, 500, 'internal_error')
    assert.doesNotMatch(got.body, /secret|stack|at /)
  }
  assert.equal(made.errors.length, 2)
  made.answer = ({ reply }) => {
    reply.writeHead(200, {})
    reply.write('half')
    throw new Error('in the middle')
  }
  const cut = await sendBytes(made.server.port, requestText('POST', CHAT, {}, '{}'))
  assert.ok(cut.endsWith('<closed>') && !cut.includes('\r\n0\r\n\r\n'), 'never a clean end')
})

onBothServers('http: an invalid response header fails the request, not the process', async ({ given }) => {
  const made = await given()
  made.answer = ({ reply }) => {
    reply.writeHead(200, { 'x-headgate-model': 'a\r\nset-cookie: b' })
    reply.end('fine')
  }
  const answer = await send(made.server.port, 'POST', CHAT, {}, '{}')
  assert.equal(answer.status, 500)
  assert.equal(answer.headers.get('set-cookie'), undefined)
  assert.equal(made.errors.length, 1)
})

const anthropicErrors: readonly (readonly [string, string, string, string, Record<string, string>, string, number])[] =
  [
    ['no key', 'authentication_error', 'POST', '/v1/messages', {}, '{}', 401],
    ['no key, counting', 'authentication_error', 'POST', '/messages/count_tokens', {}, '{}', 401],
    ['another method', 'invalid_request_error', 'GET', '/v1/messages', {}, '', 405],
    ['something below it', 'not_found_error', 'POST', '/v1/messages/batches', {}, '{}', 404],
    ['no JSON', 'invalid_request_error', 'POST', '/messages', { 'content-type': 'text/plain' }, '{}', 415],
    ['too large', 'request_too_large', 'POST', '/v1/messages', {}, `"${'x'.repeat(2_000)}"`, 413],
    ['a foreign page', 'permission_error', 'POST', '/v1/messages', { origin: 'http://evil.example' }, '{}', 403],
    ['a foreign host', 'permission_error', 'POST', '/v1/messages?beta=true', { host: 'evil.example' }, '{}', 403],
    [
      'a WebSocket',
      'invalid_request_error',
      'GET',
      '/v1/messages',
      { connection: 'upgrade', upgrade: 'websocket' },
      '',
      426,
    ],
    ['an expectation', 'invalid_request_error', 'POST', '/v1/messages', { expect: 'the-best' }, '', 417],
  ]

for (const [name, type, method, target, headers, body, status] of anthropicErrors)
  onBothServers(`http: an error on Anthropic's path has Anthropic's format: ${name}`, async ({ given }) => {
    const { server, calls } = await given({ auth: { keys: ['client-one'] }, limit: { body: 1_000 } })
    const key = status === 401 ? {} : { 'x-api-key': 'client-one' }
    const answer = await send(server.port, method, target, { ...key, ...headers }, body)
    assert.equal(answer.status, status, answer.body)
    const error = JSON.parse(answer.body)
    assert.deepEqual([error.type, error.error.type], ['error', type])
    assert.deepEqual(Object.keys(error), ['type', 'error', 'request_id'])
    assert.match(error.request_id, /^req_[a-z]+$/)
    assert.equal(answer.headers.get('request-id'), error.request_id)
    assert.equal(answer.headers.get('x-request-id'), error.request_id)
    assert.equal(answer.headers.get('x-should-retry'), 'false')
    assert.doesNotMatch(answer.body, RETRY_TRIGGERS)
    assert.equal(calls.length, 0)
  })

onBothServers(
  'http: an internal error on Anthropic’s path has its format; only there the ID is sent twice',
  async ({ given }) => {
    const setting = await given()
    setting.answer = () => {
      throw new Error('a bug')
    }
    const presented = await send(setting.server.port, 'POST', '/v1/messages', {}, '{}')
    assert.equal(presented.status, 500)
    assert.equal(JSON.parse(presented.body).error.type, 'api_error')
    assert.equal(presented.headers.get('request-id'), presented.headers.get('x-request-id'))
    for (const target of ['/v1/chat/completions', '/v1/messagesx', '/v1/models/x']) {
      const ours = await send(setting.server.port, target.includes('models') ? 'GET' : 'POST', target, {}, '')
      assert.equal(ours.headers.get('request-id'), undefined, target)
      assert.ok(JSON.parse(ours.body).error.code, target)
    }
  },
)
