/** What clients of one team, and viewers of it, must not reach or see of others: through the handlers and the live events. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Access, ANONYMOUS, type Client, FULL_ACCESS } from '../../src/core/accounts.ts'
import type { IncomingRequest, ResponseWriter } from '../../src/core/http-exchange.ts'
import { type JsonObject, list, object, parseObject, text } from '../../src/core/json.ts'
import type { GatewayEvent } from '../../src/core/trace.ts'
import { parseOnce } from '../../src/gateway/handlers/explain.ts'
import { LiveHub } from '../../src/observe/live/hub.ts'
import { LIVE_TOPICS } from '../../src/observe/live/live-event.ts'
import { NO_ASSUMPTION } from '../../src/policy/routing/assumption.ts'
import { handlersFor } from '../../src/server/handlers.ts'
import { handlerOf, ROUTES, type RouteName } from '../../src/server/routes.ts'
import { csvLine } from '../../src/usage/reading/export-text.ts'
import { post, start } from '../e2e/support/process.ts'
import { CapturedReply, gatewayHarness, instance, respondWith } from '../support/gateway.ts'
import type { ScriptedCall } from '../support/still-world.ts'

const BOTH = { speaks: [{ protocol: 'openai-responses' }, { protocol: 'openai-chat' }] } as const
const ANSWER = {
  id: 'resp_theirs',
  object: 'response',
  status: 'completed',
  model: 'm',
  output: [
    {
      type: 'message',
      id: 'msg_answer',
      role: 'assistant',
      status: 'completed',
      content: [{ type: 'output_text', text: 'yes', annotations: [] }],
    },
  ],
  usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
}
const answer = (call: ScriptedCall) => respondWith.json(call, 200, JSON.stringify(ANSWER))

const given = () => {
  const made = gatewayHarness([instance('up', ['k1'], BOTH)], answer, { routes: { fast: ['up/m'], other: ['up/m'] } })
  const handlers = handlersFor({
    gateway: made.gateway,
    version: '0',
    started: 0,
    uptime: () => 0,
    keyed: () => true,
    draining: () => false,
    loading: () => false,
    problems: () => [],
    metrics: () => '',
    clientPages: () => Promise.reject(new Error('not used')),
  })
  const requestOf = (route: RouteName, client: Client, body: object): IncomingRequest => {
    const { method, path } = ROUTES[route]
    const more = { id: 'req_test', query: '', headers: () => undefined, body: { text: JSON.stringify(body) } }
    return { ...more, method, path, client }
  }
  const call = async (route: RouteName, client: Client, body: object) => {
    const reply = new CapturedReply()
    await handlerOf(handlers, route)(requestOf(route, client, body), reply, '')
    await made.world.advance(1)
    return { status: reply.status, body: reply.written.join(''), json: parseObject(reply.written.join('')) ?? {} }
  }
  return { ...made, call, requestOf }
}

/** A key whose team and own access are these. */
const keyWith = (id: string, ...access: readonly Partial<Access>[]): Client => ({
  ...ANONYMOUS,
  id,
  owner: id,
  access: access.map((one) => ({ ...FULL_ACCESS, ...one })),
})

const ROUTES_ONLY: readonly (readonly [owners: string, access: readonly Partial<Access>[]])[] = [
  ['the key', [{}, { routes: ['fast'] }]],
  ['the team', [{ routes: ['fast'] }, {}]],
  ['the team, beside models of the key', [{ routes: ['fast'] }, { models: ['*'] }]],
  ['a glob', [{ routes: ['f*'] }]],
]
for (const [owners, access] of ROUTES_ONLY)
  test(`routes alone restrict a key to them: ${owners}`, async () => {
    const key = keyWith('key_a', ...access)
    const { call, world } = given()
    for (const model of ['up/m', 'm', 'up/unheard', 'UP/M', 'auto', 'fast-unheard', 'other', ' up/m'])
      for (const [route, body] of [
        ['chat', { model, messages: [{ role: 'user', content: 'hi' }] }],
        ['responses', { model, input: 'hi' }],
        ['messages', { model, max_tokens: 9, messages: [{ role: 'user', content: 'hi' }] }],
        ['explain', { model, messages: [{ role: 'user', content: 'hi' }] }],
      ] as const)
        assert.equal((await call(route, key, body)).status, 403, `${route} ${model}`)
    assert.deepEqual(world.calls, [])
    assert.equal((await call('responses', key, { model: 'fast', input: 'hi' })).status, 200)
    const { json } = await call('models', key, {})
    assert.deepEqual(
      list(json.data).map((one) => text(object(one)?.id)),
      ['fast'],
    )
  })

test('routes restrict no direct models where the same owner lists models too', async () => {
  const { call } = given()
  const key = keyWith('key_a', { routes: ['fast'], models: ['up/*', 'fast'] })
  for (const [model, status] of [
    ['up/m', 200],
    ['fast', 200],
    ['other', 403],
  ] as const)
    assert.equal((await call('responses', key, { model, input: 'hi' })).status, status, model)
})

const idsOf = (json: JsonObject) => list(json.output).map((item) => text(object(item)?.id) ?? '')

test('items of other clients are never looked up under the shared key of a provider', async () => {
  const { call, world } = given()
  const [mine, other] = [keyWith('key_a'), keyWith('key_b')]
  const first = await call('responses', mine, { model: 'up/m', input: 'secret' })
  const [id = ''] = idsOf(first.json)
  assert.notEqual(id, '')
  const sent = world.calls.length
  for (const item of [
    { type: 'item_reference', id },
    { id },
    { type: null, id },
    { type: null, role: null, id },
    { type: 'item_reference', id: 'msg_unknown' },
    { type: 'item_reference' },
    { type: 'image_generation_call', id: 'msg_unknown' },
  ]) {
    const input = [item, { role: 'user', content: 'hi' }]
    for (const [route, body] of [
      ['responses', { input }],
      ['responses', { input, background: true }],
      // Bodies of another shape, which are encoded again.
      ['responses', { messages: input }],
      ['responses', { input, max_tokens: 50 }],
      ['chat', { input }],
      ['chat', { messages: input }],
      ['compact', { input }],
      ['inputTokens', { input }],
    ] as const) {
      const answered = await call(route, other, { model: 'up/m', ...body })
      const about = `${route} ${JSON.stringify(body)} ${answered.body}`
      const isSent = world.calls
        .slice(sent)
        .some(({ body: bytes = '' }) => /item_reference|msg_answer|msg_unknown/.test(bytes))
      assert.ok(!isSent, about)
      // Another format has no images by ID: the item is left out there, and this provider does not answer in it.
      assert.match(
        String(answered.status),
        'type' in item && item.type === 'image_generation_call' ? /^[45]/ : /^4/,
        about,
      )
    }
  }
  const own = await call('responses', mine, {
    model: 'up/m',
    input: [
      { type: 'item_reference', id },
      { role: 'user', content: 'hi' },
    ],
  })
  assert.equal(own.status, 200, own.body)
})

test('an operator’s reason is not shown to clients, by POST /v1/route or the status of providers', async () => {
  const { call, gateway, requestOf } = given()
  const reason = 'incident at the bank, ask Ann'
  const body = { model: 'up/m', input: 'hi' }
  for (const key of [null, 'k1']) {
    gateway.health.cooldowns.decide([{ provider: 'up', key, until: Number.POSITIVE_INFINITY, reason }])
    for (const route of ['explain', 'responses', 'chat', 'models', 'providersStatus'] as const) {
      const shown = await call(route, keyWith('key_a'), body)
      assert.doesNotMatch(shown.body, /incident|Ann/, route)
    }
    assert.match((await call('providersStatus', ANONYMOUS, {})).body, /incident/)
    const parsed = parseOnce(gateway, { received: requestOf('explain', ANONYMOUS, body), audience: 'operator' })
    assert.match(JSON.stringify(parsed.ok && parsed.value(NO_ASSUMPTION)), /incident/)
  }
})

test('IDs of requests of other teams are not shown to viewers of one team by live events', () => {
  const hub = new LiveHub({
    date: () => 1_800_000_000_000,
    keyOf: () => undefined,
    process: undefined,
    instance: 'a',
    worker: 1,
    others: null,
  })
  const listen = (teams: readonly string[] | null) => {
    const seen = { text: '' }
    const reply: ResponseWriter = {
      writeHead() {},
      write(piece) {
        seen.text += String(piece)
        return true
      },
      end() {},
      abort() {},
      onDrain() {},
      onDisconnect() {},
    }
    const options = { topics: LIVE_TOPICS, after: null, sample: false, actor: String(teams), reply }
    hub.listen({ ...options, teams: async () => teams, budgets: async () => [] }, teams)
    return seen
  }
  const [all, team] = [listen(null), listen(['team_a'])]
  const events: readonly GatewayEvent[] = [
    { event: 'circuit', what: 'model', name: 'up m', from: 'closed', to: 'open', why: 'timeout', request: 'req_other' },
    { event: 'key', provider: 'up', key: 'k1', from: 'active', to: 'suspended', until: null, request: 'req_other' },
  ]
  for (const event of events) hub.observe(event)
  hub.close()
  assert.equal(all.text.match(/req_other/g)?.length, 2)
  assert.doesNotMatch(team.text, /req_other/)
  assert.equal(team.text.match(/^event: (?:circuit|key)$/gm)?.length, 2)
})

test('a formula in an export is text, also after blanks and in full width', () => {
  const signs = ['=', '+', '-', '@', '＝', '＋', '－', '＠', '﹦', '﹢', '﹣', '﹫', '−']
  for (const before of ['', ' ', '  ', '\t', '\n', '\u00a0', '\ufeff', '\u200b', '\u0000', '\u3000', ' \u2060 '])
    for (const sign of signs) {
      const cell = `${before}${sign}1+1`
      assert.equal(csvLine([cell]), `"'${cell}"`, JSON.stringify(cell))
    }
  assert.equal(csvLine(['a=1', '1-2', 'team a', '-0.000000001', null, 3]), 'a=1,1-2,team a,-0.000000001,,3')
})

test('other tenants: a viewer of one team sees no name of a model that a client of another team invented', async () => {
  const ADMIN = 'admin-0123456789abcdefghijk'
  await using gateway = await start({ env: { AUTH_ADMIN: ADMIN } })
  const api = (path: string, token: string, body?: object) =>
    fetch(`${gateway.url}/admin/api/v1${path}`, {
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body && { method: 'POST', body: JSON.stringify(body) }),
    })
  const made = async (path: string, body: object): Promise<JsonObject> =>
    object((await (await api(path, ADMIN, body)).json()) as JsonObject) ?? {}
  const { id } = await made('/teams', { name: 'viewed' })
  const { secret } = await made('/tokens', { name: 'v', bindings: [{ role: 'viewer', team: String(id) }] })
  const { secret: key } = await made('/keys', { name: 'k' })
  const invented = 'the-secret-project-of-the-other-team'
  await post(
    `${gateway.base}/chat/completions`,
    { model: `demo/${invented}`, messages: [{ role: 'user', content: 'x' }] },
    { authorization: `Bearer ${key}` },
  )
  for (const path of ['/providers', '/providers/demo']) {
    assert.match(await (await api(path, ADMIN)).text(), new RegExp(invented), path)
    const answer = await api(path, String(secret))
    assert.equal(answer.status, 200)
    const shown = await answer.text()
    assert.doesNotMatch(shown, new RegExp(invented), path)
    assert.match(shown, /"models":\[\{/)
  }
})
