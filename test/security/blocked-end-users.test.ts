/** An end user that is blocked receives nothing: on no path, by no name, and not what was answered before the block. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ANONYMOUS } from '../../src/core/accounts.ts'
import type { IncomingRequest } from '../../src/core/http-exchange.ts'
import { type JsonObject, parseObject, text } from '../../src/core/json.ts'
import { createResponse } from '../../src/gateway/responses/create-response.ts'
import { memoryResponseStore } from '../../src/gateway/responses/memory-response-store.ts'
import { blockedUserId } from '../../src/policy/accounts/blocked-users.ts'
import { handlersFor } from '../../src/server/handlers.ts'
import { handlerOf, ROUTES, type RouteName } from '../../src/server/routes.ts'
import { testAccounts } from '../support/accounts.ts'
import { CapturedReply, chatAnswer, gatewayHarness, instance, respondWith } from '../support/gateway.ts'
import type { ScriptedCall } from '../support/still-world.ts'

const EVE = 'eve 4711'
const messages = [{ role: 'user', content: 'hi' }]
const EMBEDS = { protocol: 'openai-embeddings', path: '/embeddings', models: ['m'] } as const

const answer = (call: ScriptedCall) => {
  if (call.url.endsWith('/embeddings'))
    return respondWith.json(
      call,
      200,
      '{"object":"list","model":"m","data":[{"object":"embedding","index":0,"embedding":[1]}],"usage":{"prompt_tokens":1,"total_tokens":1}}',
    )
  if (parseObject(call.body ?? '{}')?.stream) return respondWith.stream(call, chatAnswer.stream('good ', 'day'))
  respondWith.json(call, 200, chatAnswer.whole('good day'))
}

type Sent = { readonly headers?: Readonly<Record<string, string>>; readonly id?: string; readonly query?: string }

const given = () => {
  const made = gatewayHarness([instance('up', ['k1'], { embeds: EMBEDS })], answer)
  const { world } = made
  const blocked = new Map<string, number>()
  const gateway = { ...made.gateway, accounts: testAccounts(world, { blockedUsers: () => blocked }) }
  const handlers = handlersFor({
    gateway,
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
  let number = 0
  const cache = { ttl: 300, scope: 'key', requestControl: true, anyTemperature: true, tools: true } as const
  const received = (route: RouteName, body: object, { headers = {}, query = '' }: Sent = {}): IncomingRequest => ({
    id: `req_${number++}`,
    method: ROUTES[route].method,
    path: ROUTES[route].path,
    query,
    headers: (name) => headers[name],
    body: { text: JSON.stringify(body) },
    client: { ...ANONYMOUS, id: 'key_a', owner: 'key_a', cache },
  })
  const settled = async (done: Promise<void> | void, reply: CapturedReply) => {
    for (let n = 0; n < 5; n++) await world.advance(1)
    await done
    return { status: reply.status, text: reply.text }
  }
  const send = (route: RouteName, body: object, sent: Sent = {}) => {
    const reply = new CapturedReply()
    return settled(handlerOf(handlers, route)(received(route, body, sent), reply, sent.id ?? ''), reply)
  }
  const connection = memoryResponseStore(10_000)
  const turn = (body: object) => {
    const reply = new CapturedReply()
    return settled(createResponse(gateway, received('responses', { ...body, stream: true }), reply, connection), reply)
  }
  const block = (user = EVE, team: string | null = null) =>
    blocked.set(blockedUserId({ team, user }), Number.POSITIVE_INFINITY)
  return { send, turn, block, world, gateway }
}

/** Each name of an end user, in each style that has it. */
const CALLS: readonly (readonly [route: RouteName, body: object])[] = [
  ['chat', { model: 'm', messages, user: EVE }],
  ['chat', { model: 'm', messages, safety_identifier: EVE, stream: true }],
  ['chat', { model: 'm', messages, user: 'another', metadata: { user_id: EVE } }],
  ['responses', { model: 'm', input: 'hi', safety_identifier: EVE }],
  ['responses', { model: 'm', input: 'hi', user: EVE, store: false, stream: true }],
  ['responses', { model: 'm', input: 'hi', user: EVE, background: true }],
  ['compact', { model: 'm', input: 'hi', safety_identifier: EVE }],
  ['compact', { model: 'm', input: 'hi', user: EVE }],
  ['inputTokens', { model: 'm', input: 'hi', safety_identifier: EVE }],
  ['inputTokens', { model: 'm', input: 'hi', user: EVE }],
  ['messages', { model: 'm', messages, max_tokens: 9, metadata: { user_id: EVE } }],
  ['messages', { model: 'm', messages, max_tokens: 9, metadata: { user_id: EVE }, stream: true }],
  ['countTokens', { model: 'm', messages, metadata: { user_id: EVE } }],
  ['completions', { model: 'm', prompt: 'hi', user: EVE }],
  ['embeddings', { model: 'm', input: 'hi', user: EVE }],
  ['explain', { model: 'm', messages, user: EVE }],
  ['explain', { model: 'm', input: ['hi'], user: EVE }],
]

const isRefused = ({ status, text: body }: { readonly status: number | null; readonly text: string }) => {
  assert.equal(status, 403, body)
  assert.match(body, /end user of this request is blocked/)
}

for (const [route, body] of CALLS) {
  const name = `${route} ${JSON.stringify(body)}`

  test(`a blocked end user is answered nothing: a new request, ${name}`, async () => {
    const { send, block, world, gateway } = given()
    block()
    isRefused(await send(route, body))
    assert.equal(world.calls.length, 0)
    assert.equal(gateway.jobs.size, 0)
  })

  test(`a blocked end user is answered nothing: a repeated Idempotency-Key, ${name}`, async () => {
    const { send, block } = given()
    const headers = { 'idempotency-key': 'once' }
    assert.equal((await send(route, body, { headers })).status, 200)
    block()
    isRefused(await send(route, body, { headers }))
  })

  test(`a blocked end user is answered nothing: an answer from the cache, ${name}`, async () => {
    const { send, block, world } = given()
    const cacheable = { ...body, temperature: 0 }
    assert.equal((await send(route, cacheable)).status, 200)
    const calls = world.calls.length
    block()
    isRefused(await send(route, cacheable))
    isRefused(await send(route, cacheable, { headers: { 'cache-control': 'only-if-cached' } }))
    assert.equal(world.calls.length, calls)
  })
}

const TURNS: readonly (readonly [name: string, body: object])[] = [
  ['a turn', { model: 'm', input: 'hi', safety_identifier: EVE }],
  ['a turn that is not stored', { model: 'm', input: 'hi', user: EVE, store: false }],
  ['a turn sent in advance', { model: 'm', input: [], user: EVE, generate: false }],
  ['a turn sent in advance that is stored', { model: 'm', input: 'hi', metadata: { user_id: EVE }, generate: false }],
]
for (const [name, body] of TURNS)
  test(`a blocked end user is answered nothing: ${name} over a WebSocket`, async () => {
    const { turn, block, world } = given()
    assert.match((await turn(body)).text, /response\.completed/)
    const calls = world.calls.length
    block()
    const refused = await turn(body)
    assert.match(refused.text, /end user of this request is blocked/)
    assert.doesNotMatch(refused.text, /response\.(created|completed)/)
    assert.equal(world.calls.length, calls)
  })

const NAMES: readonly JsonObject[] = [{ user: EVE }, { safety_identifier: EVE }, { metadata: { user_id: EVE } }]
for (const named of NAMES)
  test(`a blocked end user is answered nothing: what is stored of its conversation, ${JSON.stringify(named)}`, async () => {
    const { send, turn, block } = given()
    const stored = await send('responses', { model: 'm', input: 'hi', ...named })
    const response = parseObject(stored.text)
    const id = text(response?.id) ?? ''
    const [item] = [...stored.text.matchAll(/"id":"(msg_[^"]+)"/g)].map(([, found]) => found ?? '')
    assert.equal((await send('response', {}, { id })).status, 200)
    block()
    isRefused(await send('response', {}, { id }))
    isRefused(await send('response', {}, { id, query: 'stream=true' }))
    isRefused(await send('responseInput', {}, { id }))
    // Its requests may leave out the name.
    isRefused(await send('responses', { model: 'm', input: 'more', previous_response_id: id }))
    isRefused(await send('responses', { model: 'm', input: [{ type: 'item_reference', id: item ?? '' }] }))
    isRefused(await send('inputTokens', { model: 'm', input: 'more', previous_response_id: id }))
    isRefused(await send('compact', { model: 'm', input: 'more', previous_response_id: id }))
    const continued = await turn({ model: 'm', input: 'more', previous_response_id: id })
    assert.match(continued.text, /end user of this request is blocked/)
    assert.equal((await send('deleteResponse', {}, { id })).status, 200, 'deleting it is not refused')
  })

test('a blocked end user is answered nothing: a background response that is in progress', async () => {
  const { send, block } = given()
  const started = await send('responses', { model: 'm', input: 'hi', user: EVE, background: true })
  const id = text(parseObject(started.text)?.id) ?? ''
  block()
  isRefused(await send('response', {}, { id }))
  isRefused(await send('response', {}, { id, query: 'stream=true' }))
})

test('a blocked end user is answered nothing: a block of a team holds for its keys only', async () => {
  const body = { model: 'm', input: 'hi', user: EVE }
  const { send, block } = given()
  const stored = await send('responses', body)
  const id = text(parseObject(stored.text)?.id) ?? ''
  block(EVE, 'team_another')
  block('eve')
  block('eve 47111')
  assert.equal((await send('responses', body)).status, 200)
  assert.equal((await send('response', {}, { id })).status, 200)
  block(EVE, ANONYMOUS.team.id)
  isRefused(await send('responses', body))
  isRefused(await send('response', {}, { id }))
})
