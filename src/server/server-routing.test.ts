/** Paths, methods and upgrades: which handler receives a request, and what is refused as unknown. */
import assert from 'node:assert/strict'
import { assertRefusal, CHAT, errorOf, onBothServers, send } from '../../test/support/app-server.ts'

for (const [method, target, name, rest] of [
  ['POST', '/v1/chat/completions', 'chat', ''],
  ['POST', '/chat/completions', 'chat', ''],
  ['POST', '/chat/completions/', 'chat', ''],
  ['POST', '/v1/responses?a=b', 'responses', ''],
  ['POST', '/responses', 'responses', ''],
  ['POST', '/v1/messages?a=b', 'messages', ''],
  ['POST', '/messages', 'messages', ''],
  ['POST', '/v1/messages/count_tokens', 'countTokens', ''],
  ['POST', '/messages/count_tokens?a=b', 'countTokens', ''],
  ['POST', '/v1/responses/input_tokens', 'inputTokens', ''],
  ['POST', '/responses/input_tokens', 'inputTokens', ''],
  ['GET', '/v1/models', 'models', ''],
  ['GET', '/models', 'models', ''],
  ['GET', '/v1/models/', 'models', ''],
  ['GET', '/v1/models/gpt-5', 'model', 'gpt-5'],
  ['GET', '/models/openai%2Fgpt-5', 'model', 'openai/gpt-5'],
  ['GET', '/v1/models/openai/gpt-5', 'model', 'openai/gpt-5'],
  ['GET', '/v1/models/%C3%A9', 'model', 'é'],
  ['POST', '/v1/route', 'explain', ''],
  ['POST', '/route', 'explain', ''],
  ['GET', '/health', 'health', ''],
  ['GET', '/health/live', 'live', ''],
  ['GET', '/health/ready', 'ready', ''],
  ['GET', '/providers/status', 'providersStatus', ''],
  ['GET', '/metrics', 'metrics', ''],
  ['GET', '/openapi.json', 'openapi', ''],
] as const)
  onBothServers(`http: ${method} ${target} is ${name}`, async ({ given }) => {
    const { server, calls } = await given()
    const answer = await send(server.port, method, target, {}, method === 'POST' ? '{"model":"é"}' : '')
    assert.equal(answer.status, 200, answer.body)
    assert.equal(calls[0]?.name, name)
    assert.equal(calls[0]?.rest, rest)
    if (method === 'POST') assert.equal(calls[0]?.received.body.text, '{"model":"é"}')
    if (target.includes('?')) assert.equal(calls[0]?.received.query, 'a=b')
  })

// Clients for Azure OpenAI have these paths (cursor/cursor#1640, FBarrca/obsidian-inlineAI#12, Palm1r/QodeAssist#186).
const NO_MODEL = '{"messages":[]}'
for (const [target, name, sent, received] of [
  [
    '/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21',
    'chat',
    NO_MODEL,
    '{"model":"gpt-4o","messages":[]}',
  ],
  ['/openai/deployments/openai/gpt-5/chat/completions', 'chat', NO_MODEL, '{"model":"openai/gpt-5","messages":[]}'],
  ['/openai/deployments/my%20model/completions/', 'completions', ' { }', ' {"model":"my model" }'],
  [
    '/openai/deployments/ada/embeddings',
    'embeddings',
    '{"input":"\\"model\\""}',
    '{"model":"ada","input":"\\"model\\""}',
  ],
  ['/openai/deployments/gpt-4o/chat/completions', 'chat', '{"model":"other"}', '{"model":"other"}'],
  ['/openai/deployments/gpt-4o/chat/completions', 'chat', '{"model":null}', '{"model":"gpt-4o"}'],
  ['/openai/deployments/gpt-4o/chat/completions', 'chat', 'no JSON', 'no JSON'],
  ['/openai/v1/chat/completions', 'chat', NO_MODEL, NO_MODEL],
  ['/openai/v1/responses?api-version=preview', 'responses', NO_MODEL, NO_MODEL],
  ['/openai/responses?api-version=2025-04-01-preview', 'responses', NO_MODEL, NO_MODEL],
  ['/openai/v1/responses/input_tokens', 'inputTokens', NO_MODEL, NO_MODEL],
] as const)
  onBothServers(`http: ${target} with ${sent} is ${name}`, async ({ given }) => {
    const { server, calls } = await given({ auth: { keys: ['k'] } })
    const answer = await send(server.port, 'POST', target, { 'api-key': 'k' }, sent)
    assert.equal(answer.status, 200, answer.body)
    assert.equal(calls[0]?.name, name)
    assert.equal(calls[0]?.received.body.text, received)
    assertRefusal(await send(server.port, 'POST', target, { 'api-key': 'other' }, sent), 401, 'invalid_api_key')
  })

for (const target of [
  '/openai/metrics',
  '/openai/health',
  '/openai/admin/keys',
  '/openai/v1/admin',
  '/openai/deployments',
  '/openai/deployments//chat/completions',
  '/openai/deployments/%zz/chat/completions',
  '/openai/deployments/gpt-4o/images',
  '/openai/openai/v1/models',
])
  onBothServers(`http: ${target} is no path of a deployment`, async ({ given }) => {
    const { server, calls } = await given()
    assertRefusal(await send(server.port, 'POST', target, {}, '{}'), 404, 'unknown_url')
    assert.equal(calls.length, 0)
  })

for (const [target, near] of [
  ['/v1/chat/completion', 'POST /v1/chat/completions'],
  ['/v1/respones', 'POST /v1/responses'],
  ['/helth', 'GET /health'],
  ['/v1/error500', undefined],
  ['/', undefined],
  ['/v1/../admin', undefined],
  ['/%61dmin', undefined],
  ['/v1/chat%2Fcompletions', undefined],
  ['/v1/chat\\completions', undefined],
  ['/..%2f..%2fetc/passwd', undefined],
  ['/__proto__', undefined],
  [`/${'x'.repeat(4_000)}`, undefined],
] as const)
  onBothServers(`http: ${target.slice(0, 40)} does not exist`, async ({ given }) => {
    const { server, calls } = await given()
    const answer = await send(server.port, 'POST', target, {}, '{}')
    assertRefusal(answer, 404, 'unknown_url')
    assert.equal(answer.headers.get('x-should-retry'), 'false')
    if (near !== undefined) assert.match(String(errorOf(answer).message), new RegExp(`Did you mean ${near}\\?`))
    assert.ok(answer.body.length < 700)
    assert.equal(calls.length, 0)
  })

for (const [method, target, allow] of [
  ['GET', CHAT, 'POST, OPTIONS'],
  ['PUT', '/responses', 'POST, OPTIONS'],
  ['DELETE', '/v1/models', 'GET, HEAD, OPTIONS'],
  ['POST', '/health', 'GET, HEAD, OPTIONS'],
  ['GET', '/v1/responses/input_tokens', 'POST, OPTIONS'],
  ['PUT', '/openai/deployments/x/chat/completions', 'POST, OPTIONS'],
] as const)
  onBothServers(`http: ${method} ${target} is not allowed, ${allow} is`, async ({ given }) => {
    const { server } = await given()
    const answer = await send(server.port, method, target)
    assertRefusal(answer, 405, 'method_not_allowed')
    assert.equal(answer.headers.get('allow'), allow)
  })

onBothServers('http: HEAD is served where GET is, with the same headers', async ({ given }) => {
  const { server } = await given()
  const whole = await send(server.port, 'GET', '/v1/models')
  const head = await send(server.port, 'HEAD', '/v1/models')
  assert.equal(head.status, 200)
  assert.equal(head.body, '')
  assert.equal(head.headers.get('content-length'), whole.headers.get('content-length'))
  assert.equal((await send(server.port, 'HEAD', CHAT)).status, 405)
})

onBothServers('http: OPTIONS returns the allowed methods', async ({ given }) => {
  const { server } = await given()
  assert.equal((await send(server.port, 'OPTIONS', '/v1/models')).headers.get('allow'), 'GET, HEAD, OPTIONS')
  assert.equal((await send(server.port, 'OPTIONS', '*')).status, 204)
})

for (const target of [CHAT, '/v1/responses', '/responses'])
  onBothServers(`http: a WebSocket at ${target} is refused with 426 at once`, async ({ given }) => {
    const { server } = await given({ auth: { keys: ['k'] } })
    const upgrade = {
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': 'x',
    }
    const answer = await send(server.port, 'GET', target, upgrade)
    assertRefusal(answer, 426, 'upgrade_required')
    assert.ok(answer.closed)
    assert.equal((await send(server.port, 'GET', '/nowhere', upgrade)).status, 404)
  })

onBothServers('http: an offer of h2c is answered in HTTP/1.1', async ({ given }) => {
  const { server } = await given()
  const answer = await send(
    server.port,
    'POST',
    CHAT,
    { connection: 'Upgrade, HTTP2-Settings', upgrade: 'h2c', 'http2-settings': 'AAMAAABk' },
    '{}',
  )
  assert.equal(answer.status, 200)
})
