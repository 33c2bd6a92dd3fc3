/** The response cache on the whole request path, without sockets. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testAccounts } from '../../../test/support/accounts.ts'
import { openaiEmbeddingsCall } from '../../../test/support/embeddings-call.ts'
import {
  CapturedReply,
  chatAnswer,
  gatewayHarness,
  instance,
  respondWith,
  type SettingsInput,
} from '../../../test/support/gateway.ts'
import type { ScriptedCall } from '../../../test/support/still-world.ts'
import { ANONYMOUS, type Client, NO_LIMITS } from '../../core/accounts.ts'
import type { CacheRules } from '../../core/cache-rules.ts'
import type { ClientProtocolName } from '../../core/chat.ts'
import { fail } from '../../core/failure.ts'
import type { IncomingRequest } from '../../core/http-exchange.ts'
import type { Journal, JournalRecord } from '../../core/journal.ts'
import { summarize } from '../../core/trace-summary.ts'
import { priceBook } from '../../policy/accounts/price-book.ts'
import { protocols } from '../../protocols/index.ts'
import { serveChat } from '../chat/serve-chat.ts'
import { serveEmbeddings } from '../handlers/embeddings.ts'
import { createResponse } from '../responses/create-response.ts'
import { memoryResponseStore } from '../responses/memory-response-store.ts'

const RULES: CacheRules = { ttl: 300, scope: 'key', anyTemperature: false, tools: false, requestControl: true }

/** A client key, by default one whose answers are cached. */
const client = (id: string, rules: Partial<CacheRules> | null = {}, team = 'team_one'): Client => ({
  ...ANONYMOUS,
  id,
  owner: id,
  team: { id: team, name: team },
  cache: rules && { ...RULES, ...rules },
})
const ann = client('key_ann')

const CHAT = { model: 'a/m', temperature: 0, messages: [{ role: 'user', content: 'hello' }] }
const STREAM = { ...CHAT, stream: true }
const EMBEDS = { protocol: 'openai-embeddings', models: ['m'] } as const

type Sent = {
  readonly as?: Client
  readonly style?: ClientProtocolName | 'embeddings'
  readonly headers?: Readonly<Record<string, string>>
  readonly received?: Partial<IncomingRequest>
}

const answer = (asked: ScriptedCall) => {
  const body = JSON.parse(asked.body ?? '{}')
  if (asked.url.endsWith('/embeddings'))
    return respondWith.json(
      asked,
      200,
      '{"object":"list","model":"m","data":[{"object":"embedding","index":0,"embedding":[1]}],"usage":{"prompt_tokens":1,"total_tokens":1}}',
    )
  if (body.stream) return respondWith.stream(asked, chatAnswer.stream('good ', 'day'))
  respondWith.json(asked, 200, chatAnswer.whole('good day'))
}

const harness = (respond: (asked: ScriptedCall) => void = answer, settings: SettingsInput = {}) => {
  const made = gatewayHarness(
    [instance('a', ['k'], { embeds: EMBEDS }), instance('b', ['k'], { embeds: EMBEDS })],
    respond,
    { routes: { fast: ['a/m', 'b/m'] }, retry: { maxAttempts: 2 }, ...settings },
  )
  const { gateway, world, events } = made
  let number = 0
  const send = async (
    body: object | string,
    { as = ann, style = 'openai-chat', headers = {}, received = {} }: Sent = {},
  ) => {
    const reply = new CapturedReply()
    const request: IncomingRequest = {
      id: `req_${number++}`,
      method: 'POST',
      path: '/v1/x',
      query: '',
      headers: (name) => headers[name],
      body: { text: typeof body === 'string' ? body : JSON.stringify(body) },
      client: as,
      ...received,
    }
    reply.done =
      style === 'embeddings'
        ? serveEmbeddings(gateway, openaiEmbeddingsCall(request, reply))
        : style === 'openai-responses'
          ? createResponse(gateway, request, reply)
          : serveChat(gateway, { protocol: protocols[style], received: request, responseWriter: reply })
    for (let n = 0; n < 3; n++) await world.advance(1)
    return reply
  }
  const traces = () => events.flatMap((event) => (event.event === 'request' ? [summarize(event.trace)] : []))
  return { ...made, send, traces, calls: () => world.calls.length }
}

const cacheOf = ({ headers }: CapturedReply) => headers['x-headgate-cache']

for (const [name, body, style] of [
  ['a whole answer', CHAT, 'openai-chat'],
  ['a stream', STREAM, 'openai-chat'],
  ['a translated message', { ...CHAT, max_tokens: 9 }, 'anthropic-messages'],
  ['a translated stream', { ...STREAM, max_tokens: 9 }, 'anthropic-messages'],
  ['a response', { model: 'a/m', input: 'hello', temperature: 0, store: false }, 'openai-responses'],
  [
    'a response as a stream',
    { model: 'a/m', input: 'hello', temperature: 0, store: false, stream: true },
    'openai-responses',
  ],
  ['a text completion', { model: 'a/m', prompt: 'hello', temperature: 0 }, 'openai-completions'],
  ['embeddings', { model: 'a/m', input: 'hello' }, 'embeddings'],
] as const)
  test(`cache: ${name} is sent again with the same bytes, without a call`, async () => {
    const { send, calls, world, traces, gateway } = harness()
    const first = await send(body, { style })
    assert.equal(first.status, 200, first.text)
    assert.equal(cacheOf(first), 'miss')
    assert.equal(gateway.cache.size, 1)
    await world.advance(12_400)
    const again = await send(body, { style })
    assert.equal(calls(), 1)
    assert.equal(again.text, first.text)
    assert.equal(again.status, 200)
    assert.equal(again.ending, 'ended')
    assert.equal(cacheOf(again), 'hit; age=12')
    assert.deepEqual(
      [
        'age',
        'cache-control',
        'content-type',
        'x-request-id',
        'x-headgate-attempts',
        'x-headgate-provider',
        'x-headgate-model',
      ].map((header) => again.headers[header]),
      ['12', 'private, no-store', first.headers['content-type'], 'req_1', '0', 'a', 'm'],
    )
    assert.equal(first.headers['cache-control'], 'private, no-store')
    const [miss, hit] = traces()
    assert.deepEqual([miss?.cache, hit?.cache], ['miss', 'hit'])
    assert.deepEqual(hit?.shared, { how: 'cache', with: 'req_0' })
    assert.deepEqual(hit?.attempts, [])
    assert.deepEqual([hit?.usage, hit?.saved?.usage, hit?.saved?.provider], [undefined, miss?.usage, 'a'])
    assert.equal(miss?.saved, undefined)
  })

test('cache: a stream and a whole answer are two answers', async () => {
  const { send, calls } = harness()
  await send(CHAT)
  assert.equal(cacheOf(await send(STREAM)), 'miss')
  assert.equal(calls(), 2)
})

test('cache: off, no header is added and no key is computed', async () => {
  const { send, calls, gateway } = harness()
  Object.defineProperty(gateway.cache, 'nameOf', { value: () => assert.fail('computed a key') })
  for (const as of [client('key_ann', null), client('key_ann', { ttl: 0 })]) {
    const reply = await send(CHAT, { as, headers: { 'cache-control': 'only-if-cached' } })
    assert.equal(reply.status, 200)
    assert.deepEqual([cacheOf(reply), reply.headers['cache-control']], [undefined, undefined])
  }
  assert.equal(calls(), 2)
})

test('cache: the rules of a route apply to its requests, unless those of the key replace them', async () => {
  const { send, gateway } = harness()
  const config = gateway.config()
  const route = config.routes.get('fast')
  assert.ok(route)
  const routes = new Map([['fast', { ...route, cache: RULES }]])
  Object.assign(gateway, { config: () => ({ ...config, routes }) })
  const fast = { ...CHAT, model: 'fast' }
  assert.equal(cacheOf(await send(fast, { as: client('key_ann', null) })), 'miss')
  assert.equal(cacheOf(await send(CHAT, { as: client('key_ann', null) })), undefined)
  assert.equal(cacheOf(await send(fast, { as: client('key_ann', { ttl: 0 }) })), undefined)
  assert.equal(cacheOf(await send(fast, { as: { ...client('key_ann', null), defaultRoute: 'fast' } })), 'hit; age=0')
  const auto = { ...CHAT, model: 'auto' }
  assert.equal(cacheOf(await send(auto, { as: { ...client('key_ann', null), defaultRoute: 'fast' } })), 'hit; age=0')
})

const tenants: readonly (readonly [name: string, one: Client, other: Client, shared: boolean])[] = [
  ['two keys', ann, client('key_bob'), false],
  [
    'two keys of one team with scope team',
    client('key_ann', { scope: 'team' }),
    client('key_bob', { scope: 'team' }),
    true,
  ],
  [
    'two teams with scope team',
    client('key_ann', { scope: 'team' }),
    client('key_bob', { scope: 'team' }, 'team_two'),
    false,
  ],
  ['a key and a team of the same name', client('x', {}, 'y'), client('y', { scope: 'team' }, 'x'), false],
  ['one key', ann, client('key_ann'), true],
]
for (const [name, one, other, shared] of tenants)
  test(`cache: ${name} ${shared ? 'share an answer' : 'never share an answer'}`, async () => {
    const { send, calls } = harness()
    for (const body of [CHAT, STREAM]) await send(body, { as: one })
    for (const body of [CHAT, STREAM])
      assert.equal(cacheOf(await send(body, { as: other })), shared ? 'hit; age=0' : 'miss')
    assert.equal(calls(), shared ? 2 : 4)
  })

test('cache: another configured key with the same short ID shares nothing', async () => {
  const { send } = harness()
  await send(CHAT, { as: { ...ann, owner: 'digest of the key that was removed' } })
  assert.equal(cacheOf(await send(CHAT, { as: { ...ann, owner: 'digest of a new key' } })), 'miss')
})

test('cache: a key of the team without access to the model is refused, although the answer is stored', async () => {
  const { send } = harness()
  await send(CHAT, { as: client('key_ann', { scope: 'team' }) })
  const none = { models: ['b/*'], routes: null, providers: null, styles: null, ips: null }
  const refused = await send(CHAT, { as: { ...client('key_bob', { scope: 'team' }), access: [none] } })
  assert.equal(refused.status, 403)
})

const CONTROL: readonly (readonly [control: string, afterMiss: string, afterStored: string])[] = [
  ['no-store', 'bypass; why=no-store', 'bypass; why=no-store'],
  ['no-cache', 'miss', 'miss'],
  ['max-age=60', 'miss', 'hit; age=30'],
  ['max-age=29', 'miss', 'miss'],
  ['max-age=0', 'miss', 'miss'],
]
for (const [control, afterMiss, afterStored] of CONTROL)
  test(`cache: Cache-Control ${control}`, async () => {
    const headers = { 'cache-control': control }
    const empty = harness()
    assert.equal(cacheOf(await empty.send(CHAT, { headers })), afterMiss)
    assert.equal(empty.gateway.cache.size, control === 'no-store' ? 0 : 1)
    const { send, world } = harness()
    await send(CHAT)
    await world.advance(30_000)
    assert.equal(cacheOf(await send(CHAT, { headers })), afterStored)
    const ignoring = client('key_ann', { requestControl: false })
    assert.match(cacheOf(await send(CHAT, { headers, as: ignoring })) ?? '', /^hit/)
  })

test('cache: no-cache stores its answer in place of the earlier one', async () => {
  let count = 0
  const { send } = harness((asked) => respondWith.json(asked, 200, chatAnswer.whole(`answer ${count++}`)))
  await send(CHAT)
  const fresh = await send(CHAT, { headers: { 'cache-control': 'no-cache' } })
  const again = await send(CHAT)
  assert.match(fresh.text, /answer 1/)
  assert.equal(again.text, fresh.text)
})

test('cache: only-if-cached is answered from the cache or with 504, and never calls a model', async () => {
  const { send, calls } = harness()
  const headers = { 'cache-control': 'only-if-cached' }
  for (const body of [CHAT, { ...CHAT, temperature: 1 }]) {
    const missing = await send(body, { headers })
    assert.equal(missing.status, 504)
    assert.equal(missing.json.error.code, 'not_cached')
    assert.equal(missing.headers['x-should-retry'], 'false')
  }
  assert.equal(calls(), 0)
  await send(CHAT)
  assert.equal(cacheOf(await send(CHAT, { headers })), 'hit; age=0')
  assert.equal(calls(), 1)
})

test('cache: an answer expires, also if the rules become stricter', async () => {
  const { send, world, gateway } = harness()
  await send(CHAT)
  await world.advance(200_000)
  assert.equal(cacheOf(await send(CHAT, { as: client('key_ann', { ttl: 100 }) })), 'miss')
  await world.advance(99_000)
  assert.match(cacheOf(await send(CHAT, { as: client('key_ann', { ttl: 100 }) })) ?? '', /^hit/)
  await world.advance(400_000)
  assert.equal(gateway.cache.size, 0)
  assert.equal(world.timers(), 0)
  assert.equal(cacheOf(await send(CHAT)), 'miss')
})

const sse = (asked: ScriptedCall, ...texts: readonly string[]) => {
  asked.head(200, { 'content-type': 'text/event-stream' })
  for (const text of texts) asked.send(text)
}
const { chunk, done, role } = chatAnswer
const finished = (reason: string) => chatAnswer.whole('x').replace('"stop"', `"${reason}"`)
const toolCall = { index: 0, id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }

/** Answers that must not be stored: the poisoning cases. */
const unstored: readonly (readonly [name: string, body: object, respond: (asked: ScriptedCall) => void])[] = [
  ['an error', CHAT, (asked) => respondWith.error(asked, 400)],
  ['an error of the provider', CHAT, (asked) => respondWith.error(asked, 500)],
  ['a rate limit', CHAT, (asked) => respondWith.error(asked, 429)],
  ['an error in a whole answer', CHAT, (asked) => respondWith.json(asked, 200, '{"error":{"message":"no"}}')],
  [
    'a whole answer that is truncated',
    CHAT,
    (asked) => respondWith.json(asked, 200, chatAnswer.whole('x').slice(0, -9)),
  ],
  ['a content filter', CHAT, (asked) => respondWith.json(asked, 200, finished('content_filter'))],
  [
    'a tool call',
    CHAT,
    (asked) =>
      respondWith.json(
        asked,
        200,
        chatAnswer
          .whole('')
          .replace('"refusal":null', `"tool_calls":[${JSON.stringify(toolCall)}]`)
          .replace('"stop"', '"tool_calls"'),
      ),
  ],
  [
    'a refusal',
    CHAT,
    (asked) => respondWith.json(asked, 200, chatAnswer.whole('').replace('"refusal":null', '"refusal":"no"')),
  ],
  ['a truncated stream', STREAM, (asked) => respondWith.stream(asked, role() + chunk({ content: 'x' }))],
  [
    'a stream without its terminator',
    STREAM,
    (asked) => {
      sse(asked, role(), chunk({ content: 'x' }))
      asked.fail(fail('reset', 'x'))
    },
  ],
  [
    'an error in a stream',
    STREAM,
    (asked) => respondWith.stream(asked, `${role()}${chunk({ content: 'x' })}data: {"error":{"message":"no"}}\n\n`),
  ],
  [
    'a filtered stream',
    STREAM,
    (asked) => respondWith.stream(asked, `${role()}${chunk({ content: 'x' })}${chunk({}, 'content_filter')}${done}`),
  ],
  [
    'a streamed tool call',
    STREAM,
    (asked) =>
      respondWith.stream(asked, `${role()}${chunk({ tool_calls: [toolCall] })}${chunk({}, 'tool_calls')}${done}`),
  ],
  [
    'a streamed refusal',
    STREAM,
    (asked) => respondWith.stream(asked, `${role()}${chunk({ refusal: 'no' })}${chunk({}, 'stop')}${done}`),
  ],
  ['a whole answer above 1 MB', CHAT, (asked) => respondWith.json(asked, 200, chatAnswer.whole('x'.repeat(1_048_576)))],
  [
    'a stream above 1 MB',
    STREAM,
    (asked) => respondWith.stream(asked, chatAnswer.stream(...Array.from({ length: 20 }, () => 'x'.repeat(60_000)))),
  ],
  [
    'the answer of a fallback',
    CHAT,
    (asked) => (asked.url.includes('//a.') ? respondWith.error(asked, 503) : answer(asked)),
  ],
  [
    'the stream of a fallback',
    STREAM,
    (asked) => (asked.url.includes('//a.') ? respondWith.error(asked, 503) : answer(asked)),
  ],
]
for (const [name, body, respond] of unstored)
  test(`cache: ${name} is not stored`, async () => {
    const { send, gateway, world } = harness(respond)
    const reply = await send(body)
    for (let n = 0; n < 60; n++) await world.advance(1_000)
    await reply.done
    assert.equal(cacheOf(reply), 'miss')
    assert.equal(gateway.cache.size, 0)
    // Nothing that was kept for storing stays counted.
    assert.equal(gateway.cache.take(0), true)
    assert.equal(gateway.cache.take(16_777_216), true)
  })

test('cache: an answer from which members of the request were dropped is not stored', async () => {
  const { send, gateway } = harness()
  const reply = await send(
    { model: 'a/m', max_tokens: 9, temperature: 0, top_k: 3, messages: CHAT.messages },
    { style: 'anthropic-messages' },
  )
  assert.equal(reply.headers['x-headgate-dropped'], 'top_k')
  assert.equal(gateway.cache.size, 0)
})

test('cache: a stream whose client left is not stored', async () => {
  const { send, gateway, world } = harness((asked) => sse(asked, role(), chunk({ content: 'x' })))
  const reply = await send(STREAM)
  reply.disconnect()
  await world.advance(1)
  await reply.done
  assert.equal(gateway.cache.size, 0)
  assert.equal(gateway.cache.take(16_777_216), true)
})

test('cache: keep-alives are not part of a stored stream', async () => {
  const { send, gateway, world } = harness((asked) => {
    sse(asked, role(), chunk({ content: 'x' }))
    world.later(20_000, () => {
      asked.send(chunk({}, 'stop') + done)
      asked.end()
    })
  })
  const first = await send(STREAM)
  for (let n = 0; n < 25; n++) await world.advance(1_000)
  await first.done
  assert.match(first.text, /^: /m)
  assert.equal(gateway.cache.size, 1)
  const again = await send(STREAM)
  assert.equal(again.text, first.text.replace(/^:.*\n+/gm, ''))
})

test('cache: a hit has the cache header also if a keep-alive sends the header block of the miss', async () => {
  const { send, world } = harness((asked) => void world.later(20_000, () => answer(asked)))
  const first = await send(STREAM)
  for (let n = 0; n < 25; n++) await world.advance(1_000)
  await first.done
  assert.equal(cacheOf(first), 'miss')
  assert.equal(first.headers['cache-control'], 'private, no-store')
  const again = await send(STREAM)
  assert.doesNotMatch(again.text, /^:/m)
  assert.match(cacheOf(again) ?? '', /^hit/)
})

for (const keepDays of [0, 30])
  test(`cache: a response without store: false is not cached, if responses are kept for ${keepDays} days`, async () => {
    const { send, gateway } = harness(answer, { responses: { keepDays } })
    const turn = { model: 'a/m', input: 'hello', temperature: 0 }
    for (const body of [turn, { ...turn, store: true }, { ...turn, store: null }])
      assert.equal(cacheOf(await send(body, { style: 'openai-responses' })), 'bypass; why=store')
    assert.equal(gateway.cache.size, 0)
  })

test('cache: a turn recorded for a WebSocket connection is not cached, because it has an ID of its own', async () => {
  const { gateway, world } = harness()
  const turn = async () => {
    const reply = new CapturedReply()
    const body = { text: JSON.stringify({ model: 'a/m', input: 'hello', temperature: 0, store: false }) }
    const received = {
      id: 'req_turn',
      method: 'POST',
      path: '/v1/responses',
      query: '',
      headers: () => undefined,
      body,
      client: ann,
    }
    reply.done = createResponse(gateway, received, reply, memoryResponseStore(1_000_000))
    await world.advance(1)
    return reply
  }
  assert.equal(cacheOf(await turn()), 'bypass; why=store')
  assert.equal(cacheOf(await turn()), 'bypass; why=store')
  assert.equal(gateway.cache.size, 0)
})

const HEADERS: readonly Sent[] = [
  {},
  { headers: { 'openai-beta': 'x' } },
  { headers: { 'anthropic-beta': 'x' } },
  { received: { query: 'beta=true' } },
  { received: { path: '/v1/y' } },
]
test('cache: headers that are forwarded, the query and the path separate answers', async () => {
  const { send, calls } = harness()
  for (const sent of HEADERS) assert.equal(cacheOf(await send(CHAT, sent)), 'miss')
  assert.equal(calls(), HEADERS.length)
  for (const sent of HEADERS) assert.equal(cacheOf(await send(CHAT, sent)), 'hit; age=0')
})

test('cache: an answer is found under the target that gave it, whatever name was requested', async () => {
  const { send, calls } = harness()
  await send(CHAT)
  assert.equal(cacheOf(await send({ ...CHAT, model: 'fast' })), 'hit; age=0')
  assert.equal(cacheOf(await send({ ...CHAT, model: 'b/m' })), 'miss')
  assert.equal(calls(), 2)
})

test('cache: a request that may have cost metadata in its body is not cached', async () => {
  const { send } = harness()
  assert.equal(cacheOf(await send(CHAT, { headers: { 'x-headgate-metadata': 'body' } })), 'bypass; why=metadata')
})

test('cache: a hit counts as a request, and its saved cost is recorded', async () => {
  const { send, calls, traces } = harness()
  const limited = { ...ann, limits: [{ id: 'key_ann', limits: { ...NO_LIMITS, requestsPerMinute: 2 } }] }
  for (let n = 0; n < 2; n++) await send(CHAT, { as: limited })
  const refused = await send(CHAT, { as: limited })
  assert.equal(refused.status, 429)
  assert.equal(refused.json.error.code, 'rate_limit_exceeded')
  assert.equal(calls(), 1)
  const [, hit] = traces()
  assert.deepEqual([hit?.cache, hit?.saved?.cost, hit?.attempts], ['hit', null, []])
})

test('cache: a hit costs nothing, and the journal has what it would have cost', async () => {
  const records: JournalRecord[] = []
  const { send, traces, gateway, world } = harness()
  const prices = priceBook(() => ({ prices: { input: 10, output: 100 } }), [])
  const journal: Journal = {
    openAttempt: (record, { onJournaled }) => {
      records.push(record)
      world.later(0, () => onJournaled('accepted'))
    },
    append: (record) => {
      records.push(record)
    },
  }
  Object.assign(gateway, {
    prices: () => prices,
    accounts: testAccounts(world, { prices: () => prices, journal: () => journal }),
  })
  const first = await send(CHAT)
  const again = await send(CHAT)
  assert.equal(first.headers['x-headgate-cost'], '0.000000230')
  assert.deepEqual(
    ['x-headgate-cost', 'x-headgate-usage'].map((name) => again.headers[name]),
    ['0.000000000', 'exact'],
  )
  assert.equal(traces()[1]?.saved?.cost, 230)
  assert.deepEqual(
    records.flatMap((record) =>
      record.type === 'request_ended' ? [[record.cache, record.saved, record.provider, record.model]] : [],
    ),
    [
      ['miss', 0, 'a', 'm'],
      ['hit', 230, 'a', 'm'],
    ],
  )
})

test('cache: purge removes the answers of a team, a key or a model', async () => {
  const { send, gateway } = harness()
  const bob = client('key_bob', {}, 'team_two')
  const fill = async () => {
    for (const as of [ann, bob]) for (const model of ['a/m', 'b/m']) await send({ ...CHAT, model }, { as })
  }
  const cases = [
    [{ team: 'team_two' }, 2],
    [{ key: 'key_ann' }, 2],
    [{ key: 'key_ann', model: 'b/m' }, 1],
    [{ model: 'm' }, 4],
    [{ model: 'c/m' }, 0],
    [{ team: 'team_one', key: 'key_bob' }, 0],
    [{}, 4],
  ] as const
  for (const [selector, count] of cases) {
    await fill()
    assert.equal(gateway.cache.size, 4)
    assert.equal(gateway.cache.purge(selector), count, JSON.stringify(selector))
    assert.equal(gateway.cache.size, 4 - count)
  }
  assert.equal(gateway.cache.bytes, 0)
})
