/**
 * The data policy on every path: providers in other regions record what reaches them. Each path runs with the requirement in each
 * place that can state it, while the providers that satisfy it answer, and while all of them fail.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ANONYMOUS, type Client } from '../../src/core/accounts.ts'
import type { Config } from '../../src/core/config.ts'
import { type DeclaredFacts, NO_REQUIRE, REQUIRE_HEADER, type Require } from '../../src/core/data-policy.ts'
import { good } from '../../src/core/failure.ts'
import type { IncomingRequest } from '../../src/core/http-exchange.ts'
import type { Instance, Provider } from '../../src/core/provider.ts'
import type { Route } from '../../src/core/route.ts'
import type { Gateway } from '../../src/gateway/gateway.ts'
import { createResponse } from '../../src/gateway/responses/create-response.ts'
import { memoryResponseStore } from '../../src/gateway/responses/memory-response-store.ts'
import { runAgain } from '../../src/gateway/responses/run-again.ts'
import { Replays } from '../../src/server/admin/replay.ts'
import { handlersFor } from '../../src/server/handlers.ts'
import type { StoredBodies } from '../../src/usage/bodies/recorded-calls.ts'
import {
  CapturedReply,
  chatAnswer,
  gatewayHarness,
  instance,
  respondWith,
  type SettingsInput,
} from '../support/gateway.ts'
import type { ScriptedCall } from '../support/still-world.ts'

const EU: Require = { ...NO_REQUIRE, region: ['eu', 'local'], retention: 0 }
const HEADER = 'region=eu,local; retention=0'

const ABLE: Partial<Provider> = {
  speaks: [{ protocol: 'openai-chat' }, { protocol: 'anthropic-messages' }, { protocol: 'openai-responses' }],
  embeds: { protocol: 'openai-embeddings', models: ['m'] },
  relays: { moderations: { models: ['m'] } },
  supportsPrefill: { protocol: 'openai-chat' },
}
const placed = (id: string, facts?: DeclaredFacts): Instance => ({
  ...instance(id, ['k1', 'k2'], ABLE),
  ...(facts && { facts }),
})
const EU_DE = placed('eu', { region: 'eu-de', retention: 0, training: false })
const LOCAL = placed('local', { region: 'local', retention: 0, training: false })
const US = placed('us', { region: 'us', retention: 0, training: false })
/** What is not declared satisfies nothing. */
const SILENT = placed('silent')
const KEEPS = placed('keeps', { region: 'eu', retention: 30 })
/** One of its models is kept. */
const MIXED = placed('mixed', { region: 'eu', retention: 0, models: { 'm*': { retention: 30 } } })
const INSTANCES = [US, SILENT, KEEPS, EU_DE, MIXED, LOCAL]
const ALLOWED = new Set(['eu', 'local'])

const route = (name: string, targets: readonly string[], fallback: readonly string[] = []): Route => ({
  name,
  targets: targets.map((provider) => ({ provider, model: 'm', weight: provider === 'eu' ? 1 : 1_000 })),
  fallback: fallback.map((provider) => ({ provider, model: 'm', weight: 1 })),
})
const ROUTES = [
  route('fast', ['us', 'silent', 'eu', 'keeps']),
  { ...route('shared', ['us', 'eu', 'mixed']), strategy: 'weighted' as const },
  route('spare', ['us'], ['silent', 'eu']),
  route('far', ['us', 'silent', 'mixed']),
]

const host = ({ url }: ScriptedCall) => new URL(url).host.split('.')[0] ?? ''

const answers = (asked: ScriptedCall) => {
  if (asked.url.includes('/embeddings'))
    return respondWith.json(
      asked,
      200,
      '{"object":"list","model":"m","data":[{"object":"embedding","index":0,"embedding":[1]}]}',
    )
  if (asked.url.includes('/moderations')) return respondWith.json(asked, 200, '{"id":"x","model":"m","results":[]}')
  if (asked.url.includes('/count_tokens') || asked.url.includes('/input_tokens'))
    return respondWith.json(asked, 200, '{"input_tokens":3,"object":"response.input_tokens"}')
  if (!asked.url.includes('/chat/completions')) return respondWith.error(asked, 404, { code: 'unknown_url' })
  if (asked.headers.accept === 'text/event-stream') return respondWith.stream(asked, chatAnswer.stream('Hel', 'lo'))
  respondWith.json(asked, 200, chatAnswer.whole('Hello'))
}
/** The answer breaks off after its first content. */
const breaks = (asked: ScriptedCall) => {
  asked.head(200, { 'content-type': 'text/event-stream' })
  asked.send(chatAnswer.role() + chatAnswer.chunk({ content: 'Hel' }))
  asked.end()
}

/** Where a requirement is stated. */
const SCOPES = ['global', 'client', 'route', 'header', 'body'] as const
type Scope = (typeof SCOPES)[number]

type Sent = {
  readonly path?: string
  readonly query?: string
  readonly body: object
  readonly headers?: Record<string, string>
}

/** A gateway with the requirement in one place; null: nowhere. */
const given = (
  scope: Scope | null,
  script: (asked: ScriptedCall) => void,
  settings: SettingsInput = {},
  instances = INSTANCES,
) => {
  const made = gatewayHarness(instances, script, settings)
  const required = (at: Scope) => (scope === at ? { require: EU } : {})
  const config: Config = {
    ...made.gateway.config(),
    routes: new Map(ROUTES.map((one) => [one.name, { ...one, ...required('route') }])),
    ...required('global'),
  }
  const client: Client = { ...ANONYMOUS, id: 'key_a', owner: 'key_a', ...required('client') }
  const gateway: Gateway = { ...made.gateway, config: () => config, clientNow: () => client }
  const handlers = handlersFor({
    gateway,
    version: '0',
    started: 0,
    uptime: () => 0,
    draining: () => false,
    loading: () => false,
    keyed: () => true,
    problems: () => [],
    metrics: () => '',
    clientPages: () => assert.fail(),
  })
  let number = 0
  const received = (
    { path = '/v1/chat/completions', query = '', body, headers = {} }: Sent,
    as: Client = client,
  ): IncomingRequest => {
    const all: Record<string, string | undefined> = {
      ...headers,
      ...(scope === 'header' && { [REQUIRE_HEADER]: HEADER }),
    }
    // OpenRouter's form has no region, so the region comes from the header beside it.
    if (scope === 'body') all[REQUIRE_HEADER] = 'region=eu,local'
    const whole = scope === 'body' ? { ...body, provider: { zdr: true } } : body
    const text = JSON.stringify(whole)
    return {
      id: `req_${number++}`,
      method: 'POST',
      path,
      query,
      headers: (name) => all[name],
      body: { text },
      client: as,
    }
  }
  const send = async (name: keyof typeof handlers, sent: Sent, as?: Client): Promise<CapturedReply> => {
    const reply = new CapturedReply()
    // Bodies of all of these routes are JSON.
    const done = Promise.resolve(handlers[name](received(sent, as) as never, reply, ''))
    await made.world.advance(700_000)
    await done
    return reply
  }
  return { ...made, gateway, client, handlers, received, send }
}
type Given = ReturnType<typeof given>

const reached = ({ world }: Given) => world.calls.map(host)
const leaks = (all: Given) => reached(all).filter((id) => !ALLOWED.has(id))

const QUESTION = { messages: [{ role: 'user', content: 'hello' }] }
const chat = (model: string, more: object = {}): Sent => ({ body: { model, ...QUESTION, ...more } })

type Edge = {
  readonly name: string
  readonly settings?: SettingsInput
  /** The requirement can be stated by the route too. */
  readonly byRoute?: true
  readonly run: (all: Given) => Promise<unknown>
}

const responses = (more: object): Sent => ({ path: '/v1/responses', body: { model: 'fast', input: 'hello', ...more } })

const EDGES: readonly Edge[] = [
  { name: 'a route', byRoute: true, run: ({ send }) => send('chat', chat('fast')) },
  { name: 'a weighted route', byRoute: true, run: ({ send }) => send('chat', chat('shared')) },
  { name: 'the fallback of a route', byRoute: true, run: ({ send }) => send('chat', chat('spare')) },
  { name: 'a route in other letters', byRoute: true, run: ({ send }) => send('chat', chat(' FAST ')) },
  { name: 'a listed model', run: ({ send }) => send('chat', chat('m')) },
  { name: 'a version of a listed model', run: ({ send }) => send('chat', chat('m-2026-01-02')) },
  { name: 'auto', run: ({ send }) => send('chat', chat('auto')) },
  { name: 'an unknown model', run: ({ send }) => send('chat', chat('no-such-model')) },
  { name: 'any fallback', settings: { fallback: 'any' }, run: ({ send }) => send('chat', chat('eu/m')) },
  { name: 'a stream', byRoute: true, run: ({ send }) => send('chat', chat('fast', { stream: true })) },
  {
    name: 'the default route of a key',
    byRoute: true,
    run: ({ send, client }) => send('chat', chat('auto'), { ...client, defaultRoute: 'fast' }),
  },
  {
    name: 'a hedge',
    byRoute: true,
    settings: { hedge: { percent: 100, delay: 1 } },
    run: ({ send }) => send('chat', chat('fast', { stream: true })),
  },
  { name: 'responses', byRoute: true, run: ({ send }) => send('responses', responses({})) },
  {
    name: 'a stored turn by reference',
    byRoute: true,
    async run({ send }) {
      const first = await send('responses', responses({}))
      if (first.status !== 200) return
      return send('responses', responses({ previous_response_id: first.json.id }))
    },
  },
  {
    name: 'a reference that only a provider may know',
    run: ({ send }) => send('responses', responses({ previous_response_id: 'resp_theirs' })),
  },
  { name: 'a background run', byRoute: true, run: ({ send }) => send('responses', responses({ background: true })) },
  {
    name: 'a background run of another gateway',
    byRoute: true,
    async run({ gateway, received, world, store }) {
      const waiting = { ...gateway, responses: { ...gateway.responses, handsOver: true } }
      const reply = new CapturedReply()
      // Its own run is stopped by the first gateway's end: its jobs are forgotten.
      const done = createResponse({ ...waiting, jobs: new Map() }, received(responses({ background: true })), reply)
      await world.settle()
      await done
      if (reply.status !== 200) return
      const stored = store.memory.get(reply.json.id, 'key_a')
      if (stored?.again === undefined) return
      const ran = runAgain(waiting, { stored, again: stored.again })
      await world.advance(700_000)
      await ran
    },
  },
  {
    name: 'a turn of a WebSocket',
    byRoute: true,
    async run({ gateway, received, world }) {
      const reply = new CapturedReply()
      const turn = received(responses({ stream: true, store: false }))
      const done = createResponse(gateway, turn, reply, memoryResponseStore(1_000_000))
      await world.advance(700_000)
      await done
    },
  },
  {
    name: 'a compaction',
    byRoute: true,
    run: ({ send }) => send('compact', { ...responses({}), path: '/v1/responses/compact' }),
  },
  {
    name: 'messages',
    byRoute: true,
    run: ({ send }) => send('messages', { path: '/v1/messages', body: { model: 'fast', max_tokens: 9, ...QUESTION } }),
  },
  {
    name: 'completions',
    byRoute: true,
    run: ({ send }) => send('completions', { path: '/v1/completions', body: { model: 'fast', prompt: 'hello' } }),
  },
  {
    name: 'a count of messages',
    byRoute: true,
    run: ({ send }) => send('countTokens', { path: '/v1/messages/count_tokens', body: { model: 'fast', ...QUESTION } }),
  },
  {
    name: 'a count of input',
    byRoute: true,
    run: ({ send }) => send('inputTokens', { ...responses({}), path: '/v1/responses/input_tokens' }),
  },
  {
    name: 'embeddings',
    run: ({ send }) => send('embeddings', { path: '/v1/embeddings', body: { model: 'm', input: 'hello' } }),
  },
  {
    name: 'embeddings by a route',
    byRoute: true,
    run: ({ send }) => send('embeddings', { path: '/v1/embeddings', body: { model: 'fast', input: 'hello' } }),
  },
  {
    name: 'a relayed endpoint',
    run: ({ send }) => send('moderations', { path: '/v1/moderations', body: { model: 'm', input: 'hello' } }),
  },
  {
    name: 'a relayed endpoint without a model',
    run: ({ send }) => send('moderations', { path: '/v1/moderations', body: { input: 'hello' } }),
  },
]

for (const { name, settings, byRoute, run } of EDGES)
  for (const scope of SCOPES) {
    if (scope === 'route' && !byRoute) continue
    test(`data leaves the region: ${name}, required by ${scope}`, async () => {
      const works = given(scope, answers, settings)
      await run(works)
      assert.deepEqual(leaks(works), [])
      assert.ok(reached(works).length > 0, 'a provider that satisfies it answers')
      const fails = given(
        scope,
        (asked) => (ALLOWED.has(host(asked)) ? respondWith.error(asked, 503) : answers(asked)),
        settings,
      )
      await run(fails)
      assert.deepEqual(leaks(fails), [], 'also while all others fail')
      for (const { events } of [works, fails])
        assert.deepEqual(
          events.filter(({ event }) => event === 'policy_breach' || event === 'error'),
          [],
        )
    })
  }

test('data leaves the region: without a requirement the same paths reach the others', async () => {
  for (const { name, settings, run } of EDGES) {
    const free = given(null, answers, settings)
    await run(free)
    const failing = given(
      null,
      (asked) => (ALLOWED.has(host(asked)) ? respondWith.error(asked, 503) : answers(asked)),
      settings,
    )
    await run(failing)
    assert.ok(leaks(free).length + leaks(failing).length > 0, name)
  }
})

test('data leaves the region: a broken stream is continued by a provider that satisfies it', async () => {
  const script = (asked: ScriptedCall) => (host(asked) === 'eu' ? breaks(asked) : answers(asked))
  for (const scope of ['client', 'header'] as const) {
    const all = given(scope, script, { stream: { continue: true }, fallback: 'any' })
    const reply = await all.send('chat', chat('eu/m', { stream: true }))
    assert.deepEqual(reached(all), ['eu', 'local'], reply.text)
  }
})

test('data leaves the region: refused without an attempt, with the reason and the trail', async () => {
  const all = given('client', answers)
  for (const model of ['far', 'us/m', 'silent/m', 'mixed/m-2026-01-02']) {
    const reply = await all.send('chat', chat(model))
    assert.equal(reply.status, 403)
    assert.equal(reply.json.error.code, 'data_policy')
    assert.match(reply.json.error.message, /satisfies region=eu,local; retention=0: (us|silent|mixed)\/m/)
    assert.match(reply.headers['x-headgate-trail'] ?? '', /#k1:policy/)
    assert.equal(reply.headers['x-headgate-attempts'], '0')
  }
  assert.deepEqual(reached(all), [])
})

test('data leaves the region: the cached answer of another provider is not used', async () => {
  const all = given(null, answers)
  const cache = { ttl: 86_400, scope: 'team', anyTemperature: true, tools: false, requestControl: true } as const
  const free: Client = { ...all.client, cache }
  const strict: Client = { ...free, id: 'key_b', owner: 'key_b', require: EU }
  for (const [as, provider, hit] of [
    [free, 'us', 'miss'],
    [free, 'us', 'hit'],
    [strict, 'eu', 'miss'],
    [strict, 'eu', 'hit'],
  ] as const) {
    const reply = await all.send('chat', chat('fast'), as)
    assert.deepEqual(
      [reply.headers['x-headgate-provider'], reply.headers['x-headgate-cache']?.slice(0, 3)],
      [provider, hit.slice(0, 3)],
    )
  }
})

for (const [how, settings, headers] of [
  ['Idempotency-Key', {}, { 'idempotency-key': 'one' }],
  ['coalescing', { coalesce: true }, {}],
] as const)
  test(`data leaves the region: ${how} shares no answer with a request that requires more`, async () => {
    const all = given(null, answers, settings)
    const sent = chat('fast', { temperature: 0 })
    const [first, second] = await Promise.all([
      all.send('chat', { ...sent, headers }),
      all.send('chat', { ...sent, headers: { ...headers, [REQUIRE_HEADER]: HEADER } }),
    ])
    assert.equal(first.headers['x-headgate-provider'], 'us')
    if (second.status === 200) assert.equal(second.headers['x-headgate-provider'], 'eu')
    else assert.equal(second.json.error.code, 'idempotency_key_reused')
  })

test('data leaves the region: the list of models and the explanation show only what satisfies it', async () => {
  for (const scope of ['global', 'client', 'header'] as const) {
    const all = given(scope, answers)
    const list = await all.send('models', { path: '/v1/models', body: {} })
    assert.deepEqual(
      list.json.data.map(({ id }: { id: string }) => id),
      ['fast', 'shared', 'spare', 'eu/m', 'local/m', 'm'],
    )
    const plan = await all.send('explain', {
      path: '/v1/route',
      query: 'style=chat',
      body: { model: 'fast', ...QUESTION },
    })
    assert.deepEqual(
      plan.json.targets.map(({ provider }: { provider: string }) => provider),
      ['eu', 'local'],
    )
    const why = new Map(plan.json.skipped.map((one: { provider: string; why: string }) => [one.provider, one.why]))
    assert.equal(why.get('us'), 'policy: region us')
    assert.equal(why.get('silent'), 'policy: region not declared')
    const refused = await all.send('explain', {
      path: '/v1/route',
      query: 'style=chat',
      body: { model: 'far', ...QUESTION },
    })
    assert.equal(refused.json.error.code, 'data_policy')
  }
})

test('data leaves the region: a requirement that is not understood is refused', async () => {
  const all = given(null, answers)
  for (const [headers, body] of [
    [{ [REQUIRE_HEADER]: 'regoin=eu' }, {}],
    [{ [REQUIRE_HEADER]: '' }, {}],
    [{}, { provider: { zdr: 'yes' } }],
    [{}, { provider: { data_collection: 'no' } }],
  ] as const) {
    const reply = await all.send('chat', { ...chat('fast', body), headers })
    assert.deepEqual([reply.status, reply.json.error.code], [400, 'invalid_value'])
  }
  const models = await all.send('models', { path: '/v1/models', body: {}, headers: { [REQUIRE_HEADER]: 'x' } })
  assert.equal(models.status, 400)
  assert.deepEqual(reached(all), [])
})

test('data leaves the region: a target that a bug has added is sent nothing', async () => {
  const facts = { region: 'local', retention: 0 }
  const moved = placed('local', facts)
  const script = (asked: ScriptedCall) => {
    facts.region = 'us'
    respondWith.error(asked, 503)
  }
  const all = given('client', script, {}, [EU_DE, moved])
  const reply = await all.send('chat', chat('m'))
  assert.deepEqual([reply.status, reply.json.error.code], [500, 'internal_error'])
  assert.deepEqual(new Set(reached(all)), new Set(['eu']))
  const breach = all.events.find(({ event }) => event === 'policy_breach')
  assert.deepEqual(breach?.event === 'policy_breach' && [breach.provider, breach.lack], ['local', 'region us'])
  // Its permit was returned, so the target is not occupied.
  assert.equal(all.gateway.health.load.busy(moved), 0)
})

test('data leaves the region: a replay requires what its request required', async () => {
  for (const [require, expected] of [
    [null, ['us']],
    [HEADER, ['eu']],
  ] as const) {
    const all = given(null, answers)
    const replays = new Replays(all.handlers, () => good(all.client), assert.fail)
    const kept = { text: JSON.stringify(chat('fast').body), truncated: false, media: 0 }
    // The other members are not read.
    const bodies = { path: '/v1/chat/completions', request: kept } as unknown as StoredBodies
    const replayed = replays.prepare({ bodies, require }, {})
    assert.ok(replayed.ok)
    replays.start(replayed.value)
    await all.world.advance(0)
    assert.deepEqual(reached(all), expected)
    assert.equal(replays.prepare({ bodies, require: 'region=a,b,c,…' }, {}).ok, false)
  }
})
