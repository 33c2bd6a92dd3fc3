/** A client whose limits or budgets are used up is refused on every path that can spend, and no provider is called. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testAccounts, testBudget, testClient } from '../../test/support/accounts.ts'
import { EMBEDDINGS_BODIES } from '../../test/support/embeddings-call.ts'
import { CapturedReply, chatAnswer, gatewayHarness, instance, respondWith } from '../../test/support/gateway.ts'
import { ALL_RELAYS, RELAY_BODIES } from '../../test/support/relays.ts'
import type { Budget, Client } from '../core/accounts.ts'
import type { IncomingRequest } from '../core/http-exchange.ts'
import { RETRY_TRIGGERS } from '../core/retry-triggers.ts'
import { createResponse } from '../gateway/responses/create-response.ts'
import { memoryResponseStore } from '../gateway/responses/memory-response-store.ts'
import { budgetScope } from '../policy/accounts/budget-scope.ts'
import { priceBook } from '../policy/accounts/price-book.ts'
import { handlersFor } from './handlers.ts'
import { handlerOf, ROUTES, type RouteName } from './routes.ts'

const messages = [{ role: 'user', content: 'x' }]
/** The body for each route of a model; a route without one fails the test. */
const BODIES: { readonly [route in RouteName]?: object } = {
  chat: { model: 'm', messages },
  completions: { model: 'm', prompt: 'x' },
  responses: { model: 'm', input: 'x' },
  compact: { model: 'm', input: 'x' },
  inputTokens: { model: 'm', input: 'x' },
  messages: { model: 'm', max_tokens: 1, messages },
  countTokens: { model: 'm', messages },
  generateContent: { model: 'm', contents: [{ parts: [{ text: 'x' }] }] },
  streamGenerateContent: { model: 'm', contents: [{ parts: [{ text: 'x' }] }] },
  countContents: { model: 'm', contents: [{ parts: [{ text: 'x' }] }] },
  ...Object.fromEntries(Object.entries(EMBEDDINGS_BODIES).map(([route, body]) => [route, body('m', 'x')])),
  ...Object.fromEntries(Object.entries(RELAY_BODIES).map(([name, body]) => [name, body('m')])),
}
// `Object.keys` types the names as strings.
const MODEL_ROUTES = (Object.keys(ROUTES) as RouteName[]).filter((name) => ROUTES[name].model)

const EXHAUSTED = testBudget(0)
const prices = priceBook(() => ({ prices: { input: 10, output: 40 } }), [])

const setting = (budgets: readonly Budget[]) => {
  const harness = gatewayHarness(
    [instance('a', ['k'], { embeds: { protocol: 'openai-embeddings', models: ['m'] }, relays: ALL_RELAYS })],
    (asked) => respondWith.json(asked, 200, chatAnswer.whole('yes')),
  )
  const scopes = budgets.map(budgetScope)
  const accounts = testAccounts(harness.world, { budgets: () => scopes, prices: () => prices })
  const gateway = { ...harness.gateway, accounts }
  const handlers = handlersFor({
    gateway,
    version: '0',
    started: 0,
    uptime: () => 0,
    keyed: () => false,
    draining: () => false,
    loading: () => false,
    problems: () => [],
    metrics: () => '',
    clientPages: () => Promise.reject(new Error('not used')),
  })
  return { ...harness, gateway, handlers }
}

const received = (name: RouteName, client: Client, more: object = {}): IncomingRequest => ({
  id: 'req_test',
  method: 'POST',
  path: ROUTES[name].path.replace('{id}', 'm'),
  query: '',
  headers: () => undefined,
  body: { text: JSON.stringify({ ...BODIES[name], ...more }) },
  client,
})

test('exhausted clients: every route of a model has a body here', () => {
  assert.deepEqual(Object.keys(BODIES).sort(), [...MODEL_ROUTES].sort())
})

for (const name of MODEL_ROUTES) {
  test(`exhausted clients: a budget refuses ${name} with 402, unless it is free`, async () => {
    const { handlers, world } = setting([EXHAUSTED])
    const reply = new CapturedReply()
    const done = handlerOf(handlers, name)(received(name, testClient()), reply, '')
    await world.advance(1)
    await done
    assert.equal(reply.status, /^(?:countTokens|countContents|inputTokens)$/.test(name) ? 200 : 402)
    if (reply.status === 200) return
    assert.equal(world.calls.length, 0)
    assert.equal(reply.headers['x-headgate-attempts'], '0')
    assert.match(reply.headers['x-headgate-limit'] ?? '', /^budget; id=bud_test; resets=/)
    // Some clients would retry.
    assert.doesNotMatch(reply.text, RETRY_TRIGGERS)
  })

  test(`exhausted clients: a limit of requests refuses ${name} with 429`, async () => {
    const { handlers, world } = setting([])
    const reply = new CapturedReply()
    const done = handlerOf(handlers, name)(received(name, testClient({ requestsPerMinute: 0 })), reply, '')
    await world.advance(1)
    await done
    assert.equal(reply.status, 429)
    assert.equal(world.calls.length, 0)
    assert.equal(reply.headers['x-headgate-attempts'], '0')
    assert.equal(reply.headers['x-should-retry'], 'false')
  })
}

test('exhausted clients: a limit of requests counts explanations of routes', async () => {
  const { handlers, world } = setting([])
  const client = testClient({ requestsPerMinute: 2 })
  const statuses: (number | null)[] = []
  const ask = async (style: string) => {
    const reply = new CapturedReply()
    const done = handlers.explain({ ...received('chat', client), path: '/v1/route', query: style }, reply, '')
    await world.advance(1)
    await done
    statuses.push(reply.status)
  }
  for (const style of ['style=chat', '', 'style=chat']) await ask(style)
  assert.deepEqual(statuses, [200, 200, 429])
})

test('exhausted clients: a background response is refused before it is stored', async () => {
  const { handlers, world, gateway } = setting([EXHAUSTED])
  const reply = new CapturedReply()
  const done = handlers.responses(received('responses', testClient(), { background: true }), reply, '')
  await world.advance(1)
  await done
  assert.equal(reply.status, 402)
  assert.equal(gateway.jobs.size, 0)
})

test('exhausted clients: a turn over a WebSocket is refused', async () => {
  const { gateway, world } = setting([EXHAUSTED])
  const reply = new CapturedReply()
  const request = received('responses', testClient(), { stream: true })
  const done = createResponse(gateway, request, reply, memoryResponseStore(100))
  await world.advance(1)
  await done
  assert.equal(world.calls.length, 0)
  assert.match(reply.text, /"code":"budget_exceeded"/)
})
