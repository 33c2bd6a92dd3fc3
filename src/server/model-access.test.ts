/** Access lists of keys and teams on every path that can reach a model. Targets without access receive no request. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EMBEDDINGS_BODIES } from '../../test/support/embeddings-call.ts'
import { CapturedReply, chatAnswer, gatewayHarness, instance, respondWith } from '../../test/support/gateway.ts'
import { ALL_RELAYS, RELAY_BODIES, respondWithFile } from '../../test/support/relays.ts'
import type { ScriptedCall } from '../../test/support/still-world.ts'
import { type Access, type AccessList, ANONYMOUS, type Client, FULL_ACCESS } from '../core/accounts.ts'
import type { IncomingRequest } from '../core/http-exchange.ts'
import { isObject, type Json, type JsonObject, list, object, parseObject, text } from '../core/json.ts'
import { RETRY_TRIGGERS } from '../core/retry-triggers.ts'
import { createResponse } from '../gateway/responses/create-response.ts'
import { memoryResponseStore } from '../gateway/responses/memory-response-store.ts'
import { restrictionsOf } from '../policy/accounts/key-access.ts'
import { handlersFor } from './handlers.ts'
import { handlerOf, ROUTES, type RouteName } from './routes.ts'

const ABLE = { embeds: { protocol: 'openai-embeddings', models: ['m'] }, relays: ALL_RELAYS } as const

const harness = (settings: Parameters<typeof gatewayHarness>[2] = {}, respond = answer) => {
  const made = gatewayHarness([instance('a', ['k'], ABLE), instance('b', ['k'], ABLE), instance('c', ['k'])], respond, {
    routes: { fast: ['a/m', 'b/m'], other: ['c/m'], embed: ['a/m'] },
    ...settings,
  })
  const handlers = handlersFor({
    gateway: made.gateway,
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
  const call = async (route: RouteName, client: Client, body: object, more: Partial<IncomingRequest> = {}) => {
    const reply = new CapturedReply()
    await handlerOf(handlers, route)(received(route, client, body, more), reply, text((more as JsonObject).rest) ?? '')
    await made.world.advance(1)
    return { reply, json: parseObject(reply.written.join('')) ?? {} }
  }
  /** The provider instances that received a request, in order. */
  const reached = () => made.world.calls.map(({ url }) => new URL(url).hostname.split('.')[0])
  return { ...made, handlers, call, reached }
}

function answer(asked: ScriptedCall): void {
  if (respondWithFile(asked)) return
  const { pathname } = new URL(asked.url)
  if (pathname.endsWith('/embeddings'))
    return respondWith.json(
      asked,
      200,
      '{"object":"list","model":"m","data":[{"object":"embedding","index":0,"embedding":[1]}],"usage":{"prompt_tokens":1,"total_tokens":1}}',
    )
  respondWith.json(asked, 200, chatAnswer.whole('yes'))
}

function received(route: RouteName, client: Client, body: object, more: Partial<IncomingRequest>): IncomingRequest {
  const { method, path } = ROUTES[route]
  return {
    id: 'req_test',
    method,
    path: path.replace('{id}', encodeURIComponent(text((body as JsonObject).model) ?? '')),
    query: '',
    headers: () => undefined,
    body: { text: JSON.stringify(body) },
    client,
    ...more,
  }
}

/** A key without restrictions except these, as its team's or its own. */
const keyWith = (...access: readonly Partial<Access>[]): Client => ({
  ...ANONYMOUS,
  id: 'key_test',
  owner: 'key_test',
  access: access.map((one) => ({ ...FULL_ACCESS, ...one })),
})

const MESSAGES = [{ role: 'user', content: 'hi' }]
const BODIES: { readonly [route: string]: (model: string) => object } = {
  chat: (model) => ({ model, messages: MESSAGES }),
  responses: (model) => ({ model, input: 'hi' }),
  compact: (model) => ({ model, input: 'hi' }),
  inputTokens: (model) => ({ model, input: 'hi' }),
  messages: (model) => ({ model, max_tokens: 9, messages: MESSAGES }),
  countTokens: (model) => ({ model, messages: MESSAGES }),
  completions: (model) => ({ model, prompt: 'hi' }),
  generateContent: (model) => ({ model, contents: [{ parts: [{ text: 'hi' }] }] }),
  streamGenerateContent: (model) => ({ model, contents: [{ parts: [{ text: 'hi' }] }] }),
  countContents: (model) => ({ model, contents: [{ parts: [{ text: 'hi' }] }] }),
  ...Object.fromEntries(
    Object.entries(EMBEDDINGS_BODIES).map(([route, body]) => [route, (model: string) => body(model, 'hi')]),
  ),
  ...RELAY_BODIES,
}
// `Object.keys` types the names as strings.
const MODEL_ROUTES = (Object.keys(ROUTES) as RouteName[]).filter((name) => ROUTES[name].model)

const bodyOf = (route: RouteName, model: string): object => {
  const body = BODIES[route]
  if (!body) throw new Error(`no body for ${route}`)
  return body(model)
}

const assertRefused = (reply: CapturedReply, json: JsonObject, code: string, about: string) => {
  assert.equal(reply.status, 403, about)
  const error = object(json.error) ?? {}
  // Google's shape has the code of HTTP, and ours as a detail.
  if (error.code === 403) assert.equal(object(list(error.details)[0])?.reason, code, about)
  else {
    assert.equal(error.type, 'permission_error', about)
    // Anthropic's shape has no code.
    assert.equal(error.code, json.type === 'error' ? undefined : code, about)
  }
  assert.equal(reply.headers['x-should-retry'], 'false', about)
  assert.doesNotMatch(reply.written.join(''), RETRY_TRIGGERS, about)
}

/** Each list as it restricts the model `a/m`; `null`: no restriction. */
const LISTS: readonly (readonly [list: AccessList, allowed: boolean])[] = [
  [null, true],
  [[], false],
  [['a/*'], true],
  [['x*'], false],
  [['*', '!a/m'], false],
  [['*', '!M'], false],
]

for (const route of MODEL_ROUTES)
  for (const [models, allowed] of LISTS)
    for (const [owner, client] of [
      ['team', keyWith({ models }, {})],
      ['key', keyWith({}, { models })],
    ] as const)
      test(`access: ${route} ${allowed ? 'reaches' : 'refuses'} a/m with models ${JSON.stringify(models)} of the ${owner}`, async () => {
        const { call, reached } = harness()
        const { reply, json } = await call(route, client, bodyOf(route, 'a/m'))
        if (allowed) return assert.equal(reply.status, 200, reply.written.join(''))
        assertRefused(reply, json, 'model_not_allowed', route)
        assert.deepEqual(reached(), [])
      })

const dimensions: readonly (readonly [name: string, access: Partial<Access>, model: string, code: string])[] = [
  ['a provider', { providers: ['c'] }, 'a/m', 'model_not_allowed'],
  ['a route', { routes: [] }, 'fast', 'model_not_allowed'],
  ['a denied route', { routes: ['*', '!fast'] }, 'fast', 'model_not_allowed'],
  ['a route by its name as a model', { models: ['*', '!fast'] }, 'fast', 'model_not_allowed'],
  ['every API style', { styles: [] }, 'a/m', 'style_not_allowed'],
]
for (const route of MODEL_ROUTES)
  for (const [name, access, model, code] of dimensions)
    test(`access: ${route} refuses ${name} that the key may not use`, async () => {
      const { call, reached } = harness()
      const { reply, json } = await call(route, keyWith({}, access), bodyOf(route, model))
      assertRefused(reply, json, code, route)
      assert.deepEqual(reached(), [])
    })

test('access: a background response and a turn of a WebSocket are refused like any other call', async () => {
  const { call, gateway, reached } = harness()
  const client = keyWith({ models: ['b/*'] })
  const background = await call('responses', client, { model: 'a/m', input: 'hi', background: true })
  assertRefused(background.reply, background.json, 'model_not_allowed', 'background')
  assert.equal(gateway.jobs.size, 0)
  const reply = new CapturedReply()
  const turn = received('responses', client, { model: 'a/m', input: 'hi' }, {})
  await createResponse(gateway, turn, reply, memoryResponseStore(10))
  assertRefused(reply, parseObject(reply.written.join('')) ?? {}, 'model_not_allowed', 'turn')
  assert.deepEqual(reached(), [])
})

test('access: an Anthropic client receives the error in its own shape, with the nearest allowed names', async () => {
  const { call } = harness()
  const { json } = await call('messages', keyWith({ models: ['b/*'] }), bodyOf('messages', 'a/m'))
  assert.equal(json.type, 'error')
  const error = object(json.error)
  assert.equal(error?.type, 'permission_error')
  assert.match(text(error?.message) ?? '', /may not use the model "a\/m". It may use "b\/m"/)
})

const failed = (asked: ScriptedCall) => respondWith.json(asked, 500, '{"error":{"message":"no"}}')

const plans: readonly (readonly [name: string, access: Partial<Access>, model: string, reached: readonly string[]])[] =
  [
    ['all targets without lists', {}, 'fast', ['a', 'b', 'c']],
    ['only allowed targets of a route', { models: ['b/*', 'c/*'] }, 'fast', ['b', 'c']],
    ['only allowed providers', { providers: ['b'] }, 'fast', ['b']],
    ['the targets of an allowed route, but no others of `fallback: any`', { models: ['fast'] }, 'fast', ['a', 'b']],
    ['no same model at another provider', { models: ['a/*'] }, 'a/m', ['a']],
    ['no model of `fallback: any`', { models: ['m', '!c/*'] }, 'm', ['a', 'b']],
  ]
for (const [name, access, model, expected] of plans)
  test(`access: failover reaches ${name}`, async () => {
    const { call, reached, world } = harness({ retry: { maxAttempts: 20 } }, failed)
    const called = call('chat', keyWith(access), bodyOf('chat', model))
    for (let n = 0; n < 50; n++) await world.advance(1_000)
    await called
    assert.deepEqual([...new Set(reached())], expected)
  })

test('access: hedges and retries stay within the access', async () => {
  const { call, reached, world } = harness({ hedge: { percent: 100, delay: 10 } }, () => {})
  const called = call('chat', keyWith({ models: ['a/*', 'c/*'] }), bodyOf('chat', 'fast'))
  for (let n = 0; n < 800; n++) await world.advance(1_000)
  await called
  assert.ok(reached().length > 1)
  assert.equal(reached().includes('b'), false)
})

test('access: a request whose own targets are not allowed is refused, also if failover targets are', async () => {
  const { call, reached } = harness()
  const { reply } = await call('chat', keyWith({ providers: ['c'] }), bodyOf('chat', 'a/m'))
  assert.equal(reply.status, 403)
  assert.deepEqual(reached(), [])
})

const names: readonly (readonly [
  name: string,
  model: string,
  defaultRoute: string | null,
  access: Partial<Access>,
  reached: string | null,
])[] = [
  ['auto uses the default route of the gateway', 'auto', null, {}, 'a'],
  ['auto uses the default route of the key', 'auto', 'other', {}, 'c'],
  ['an unknown name uses the default route of the key', 'gpt-unheard', 'other', {}, 'c'],
  ['a known name does not', 'b/m', 'other', {}, 'b'],
  ['a default route outside the access is refused', 'auto', 'other', { models: ['a/*'] }, null],
  ['a default route outside the routes is refused', 'auto', 'other', { routes: ['fast'] }, null],
  // Otherwise any invented name that a glob matches would allow every target.
  [
    'an invented name allows nothing on the default route of the key',
    'gpt-unheard',
    'other',
    { models: ['gpt-*'] },
    null,
  ],
  ['an invented name allows nothing on the default route', 'gpt-unheard', null, { models: ['gpt-*'] }, null],
  ['the name of a route allows its targets', 'other', null, { models: ['other'] }, 'c'],
]
for (const [name, model, defaultRoute, access, target] of names)
  test(`access: ${name}`, async () => {
    const { call, reached } = harness()
    const { reply } = await call('chat', { ...keyWith(access), defaultRoute }, bodyOf('chat', model))
    assert.equal(reply.status, target === null ? 403 : 200)
    assert.deepEqual(reached(), target === null ? [] : [target])
  })

test('access: the default route of a key is not used for embeddings, whose vectors belong to one model', async () => {
  const { call, reached } = harness()
  await call('embeddings', { ...keyWith({}), defaultRoute: 'other' }, bodyOf('embeddings', 'auto'))
  assert.deepEqual(reached(), ['a'])
})

const idsOf = (page: JsonObject): readonly (string | undefined)[] =>
  list(page.data).map((entry) => text(object(entry)?.id))

test('access: the list of models has exactly the names that the key may use, and each of them is accepted', async () => {
  const cases: readonly (readonly [Partial<Access>, readonly string[]])[] = [
    [{}, ['fast', 'other', 'embed', 'a/m', 'b/m', 'c/m', 'm']],
    [{ models: [] }, []],
    [{ models: ['a/*'] }, ['fast', 'embed', 'a/m', 'm']],
    [{ models: ['fast'] }, ['fast']],
    [{ models: ['*'], routes: ['other'] }, ['other', 'a/m', 'b/m', 'c/m', 'm']],
    [{ providers: ['c'] }, ['other', 'c/m', 'm']],
    [{ models: ['*', '!m'] }, []],
  ]
  for (const [access, expected] of cases) {
    const { call } = harness()
    const { json } = await call('models', keyWith(access), {})
    assert.deepEqual(idsOf(json), expected, JSON.stringify(access))
    for (const id of expected) {
      const { reply } = await call('chat', keyWith(access), bodyOf('chat', id))
      assert.equal(reply.status, 200, `${id} with ${JSON.stringify(access)}`)
    }
  }
})

test('access: one model is shown only if the key may use it, and suggestions contain allowed names only', async () => {
  const { handlers } = harness({ unknownModel: 'reject' })
  const show = async (id: string, access: Partial<Access>) => {
    const reply = new CapturedReply()
    await handlers.model(received('model', keyWith(access), {}, { path: `/v1/models/${id}` }), reply, id)
    return { status: reply.status, body: reply.written.join('') }
  }
  assert.equal((await show('a/m', { models: ['a/*'] })).status, 200)
  const hidden = await show('b/m', { models: ['a/*'] })
  assert.equal(hidden.status, 404)
  assert.match(hidden.body, /Did you mean \\"a\/m\\"/)
  assert.doesNotMatch((await show('c/n', { models: ['a/*'] })).body, /c\/m/)
})

test('access: the error of an unknown name suggests allowed names only', async () => {
  const { call } = harness({ unknownModel: 'reject' })
  const { reply } = await call('chat', keyWith({ models: ['b/*'] }), bodyOf('chat', 'n'))
  assert.equal(reply.status, 404)
  assert.match(reply.written.join(''), /Did you mean \\"m\\"/)
  const other = await call('chat', keyWith({ models: ['fast'] }), bodyOf('chat', 'othr'))
  assert.doesNotMatch(other.reply.written.join(''), /other/)
})

test('access: POST /v1/route shows only targets that the key may use', async () => {
  const { call } = harness()
  const targetsOf = (json: JsonObject) => list(json.targets).map((one: Json) => (isObject(one) ? one.provider : null))
  const some = await call('explain', keyWith({ models: ['b/*'] }), bodyOf('chat', 'fast'))
  assert.deepEqual(targetsOf(some.json), ['b'])
  assert.doesNotMatch(some.reply.written.join(''), /"a"|"c"/)
  const none = await call('explain', keyWith({ models: ['b/*'] }), bodyOf('chat', 'a/m'))
  assertRefused(none.reply, none.json, 'model_not_allowed', 'explain')
  const embeddings = await call('explain', keyWith({ models: ['b/*'] }), bodyOf('embeddings', 'a/m'), {
    query: 'style=embeddings',
  })
  assertRefused(embeddings.reply, embeddings.json, 'model_not_allowed', 'explain')
})

test('access: a stored conversation leads to no target outside the access', async () => {
  const { call, reached } = harness()
  const first = await call('responses', keyWith({}), { model: 'a/m', input: 'hi' })
  const next = { model: 'b/m', input: 'more', previous_response_id: first.json.id ?? null }
  const second = await call('responses', keyWith({ models: ['b/*'] }), next)
  assert.equal(second.reply.status, 200, second.reply.written.join(''))
  const third = await call('responses', keyWith({ models: ['b/*'] }), { ...next, model: 'a/m' })
  assertRefused(third.reply, third.json, 'model_not_allowed', 'third')
  assert.deepEqual(reached(), ['a', 'b'])
})

test('access: a client whose lists are all null has no rules to check', () => {
  assert.equal(restrictionsOf(ANONYMOUS), null)
  assert.equal(restrictionsOf(keyWith({}, {})), null)
  const restricted = keyWith({ ips: null }, { styles: [] })
  assert.ok(restrictionsOf(restricted))
  assert.equal(restrictionsOf(restricted), restrictionsOf({ access: restricted.access }))
})
