import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openaiEmbeddingsCall } from '../../../test/support/embeddings-call.ts'
import {
  CapturedReply,
  gatewayHarness,
  instance,
  respondWith,
  type SettingsInput,
} from '../../../test/support/gateway.ts'
import type { ScriptedCall } from '../../../test/support/still-world.ts'
import { ANONYMOUS } from '../../core/accounts.ts'
import { fail } from '../../core/failure.ts'
import type { IncomingRequest } from '../../core/http-exchange.ts'
import type { Instance, Provider } from '../../core/provider.ts'
import { serveEmbeddings } from './embeddings.ts'
import { explain } from './explain.ts'

const OPENAI: Partial<Provider> = { embeds: { protocol: 'openai-embeddings', models: ['m'] } }
const GEMINI: Partial<Provider> = {
  embeds: { protocol: 'gemini-embeddings', models: ['m'] },
  auth: { header: 'x-goog-api-key' },
}
const COHERE: Partial<Provider> = { embeds: { protocol: 'cohere-embeddings', models: ['m'] } }

const first = instance('first', ['k1'], OPENAI)
const twin = instance('first', ['k1', 'k2'], OPENAI)
const second = instance('second', ['k1'], OPENAI)
const other = { ...instance('other', ['k1'], { embeds: { protocol: 'openai-embeddings', models: ['n'] } }), models: [] }
const writer = instance('writer', ['k1'])
const gemini = instance('gemini', ['k1'], GEMINI)
const cohere = instance('cohere', ['k1'], COHERE)

/** With a number that a double cannot represent, which must pass unchanged. */
const BODY = '{"model":"m", "input":["a","b"], "mine":12345678901234567890, "encoding_format":"float"}'

const received = (body: string, query = ''): IncomingRequest => ({
  id: 'req_test',
  method: 'POST',
  path: '/v1/embeddings',
  query,
  headers: () => undefined,
  body: { text: body },
  client: ANONYMOUS,
})

const asking = async (
  instances: readonly Instance[],
  script: (asked: ScriptedCall) => void,
  { settings = {}, body = BODY, ms = 700_000 }: { settings?: SettingsInput; body?: string | object; ms?: number } = {},
) => {
  const made = gatewayHarness(instances, script, settings)
  const reply = new CapturedReply()
  const done = serveEmbeddings(
    made.gateway,
    openaiEmbeddingsCall(received(typeof body === 'string' ? body : JSON.stringify(body)), reply),
  )
  await made.world.advance(ms)
  await done
  return { ...made, reply, called: made.world.calls }
}

const entry = (embedding: unknown, index: number) => ({ object: 'embedding', index, embedding })
const answer = (
  vectors: readonly unknown[] = [
    [0.5, 1],
    [0.25, 2],
  ],
) =>
  JSON.stringify({
    object: 'list',
    data: vectors.map(entry),
    model: 'really-m',
    usage: { prompt_tokens: 2, total_tokens: 2 },
    cost: 7,
  })
const good = (asked: ScriptedCall) => respondWith.json(asked, 200, answer())
const at = (asked: ScriptedCall) => new URL(asked.url).host.split('.')[0]

test('embed: the same style passes through in both directions', async () => {
  const { reply, called, events } = await asking([first], good)
  assert.equal(reply.status, 200, reply.text)
  assert.equal(reply.text, answer())
  assert.equal(called[0]?.url, 'http://first.test/v1/embeddings')
  assert.equal(called[0]?.body, BODY)
  assert.equal(called[0]?.headers.authorization, 'Bearer sk-first-k1')
  assert.equal(reply.headers['x-headgate-provider'], 'first')
  assert.equal(reply.headers['x-headgate-model'], 'm')
  assert.equal(reply.headers['x-headgate-attempts'], '1')
  assert.equal(reply.headers['x-headgate-estimated'], undefined)
  assert.equal(reply.headers['x-headgate-dropped'], undefined)
  const [line] = events.filter((item) => item.event === 'request')
  assert.deepEqual(
    line?.trace.find((fact) => fact.type === 'usage'),
    { type: 'usage', usage: { input: 2, output: 0 } },
  )
  assert.deepEqual(line?.trace[0]?.type === 'received' && [line.trace[0].style, line.trace[0].model], [
    'embeddings',
    'm',
  ])
})

test('embed: the upstream receives its own model name', async () => {
  const { called } = await asking([first], good, { body: BODY.replace('"m"', '"first/m"') })
  // Only white space between members is lost.
  assert.equal(called[0]?.body, BODY.replaceAll(', "', ',"'))
})

const FLOATS = [
  [0.5, 1],
  [0.25, 2],
]
const BASE64 = FLOATS.map((numbers) => Buffer.from(new Float32Array(numbers).buffer).toString('base64'))

for (const [wanted, given] of [
  ['float', FLOATS],
  ['float', BASE64],
  ['base64', FLOATS],
  ['base64', BASE64],
] as const)
  test(`embed: ${wanted} is requested, ${typeof given[0] === 'string' ? 'base64' : 'numbers'} received`, async () => {
    const { reply } = await asking([first], (asked) => respondWith.json(asked, 200, answer(given)), {
      body: { model: 'm', input: ['a', 'b'], encoding_format: wanted },
    })
    assert.equal(reply.status, 200, reply.text)
    assert.deepEqual(
      reply.json.data.map(({ embedding }: { embedding: unknown }) => embedding),
      wanted === 'float' ? FLOATS : BASE64,
    )
    assert.equal(reply.json.model, 'really-m')
    assert.deepEqual(reply.json.usage, { prompt_tokens: 2, total_tokens: 2 })
  })

test('embed: reorders vectors by index', async () => {
  const body = {
    object: 'list',
    data: [entry([2], 1), entry([1], 0)],
    model: 'm',
    usage: { prompt_tokens: 2, total_tokens: 2 },
  }
  const { reply } = await asking([first], (asked) => respondWith.json(asked, 200, JSON.stringify(body)))
  assert.deepEqual(reply.json.data, [entry([1], 0), entry([2], 1)])
})

test('embed: missing usage is estimated and marked, and not recorded', async () => {
  const { reply, events } = await asking([gemini], (asked) =>
    respondWith.json(asked, 200, '{"embeddings":[{"values":[1]},{"values":[2]}]}'),
  )
  assert.equal(reply.status, 200, reply.text)
  assert.equal(reply.headers['x-headgate-estimated'], 'true')
  assert.ok(reply.json.usage.prompt_tokens > 0)
  assert.deepEqual(reply.json.data, [entry([1], 0), entry([2], 1)])
  assert.equal(reply.json.model, 'm')
  const [line] = events.filter((item) => item.event === 'request')
  assert.ok(!line?.trace.some((fact) => fact.type === 'usage'))
})

test('embed: ignored dimensions are reported as dropped', async () => {
  const body = { model: 'm', input: ['a', 'b'], dimensions: 7 }
  const { reply } = await asking([first], good, { body })
  assert.equal(reply.headers['x-headgate-dropped'], 'dimensions')
  const heeded = await asking([first], good, { body: { ...body, dimensions: 2 } })
  assert.equal(heeded.reply.headers['x-headgate-dropped'], undefined)
})

// ── Other formats ────────────────────────────────────────────────────────────────────────────────────────────────

test('embed: translates to Gemini and Cohere, and reports dropped members', async () => {
  const body = {
    model: 'm',
    input: ['a', 'b'],
    user: 'u',
    dimensions: 1,
    input_type: 'query',
    encoding_format: 'base64',
  }
  const asGemini = await asking(
    [gemini],
    (asked) =>
      respondWith.json(
        asked,
        200,
        '{"embeddings":[{"values":[1]},{"values":[2]}],"usageMetadata":{"promptTokenCount":5}}',
      ),
    { body },
  )
  assert.equal(asGemini.called[0]?.url, 'http://gemini.test/v1/models/m:batchEmbedContents')
  assert.equal(asGemini.called[0]?.headers['x-goog-api-key'], 'sk-gemini-k1')
  assert.equal(JSON.parse(asGemini.called[0]?.body ?? '').requests[1].taskType, 'RETRIEVAL_QUERY')
  assert.equal(asGemini.reply.json.data[0].embedding, 'AACAPw==')
  assert.equal(asGemini.reply.json.usage.prompt_tokens, 5)
  assert.equal(asGemini.reply.headers['x-headgate-dropped'], 'user')
  assert.equal(asGemini.reply.headers['x-headgate-estimated'], undefined)

  const asCohere = await asking(
    [cohere],
    (asked) =>
      respondWith.json(asked, 200, '{"embeddings":{"float":[[1],[2]]},"meta":{"billed_units":{"input_tokens":3}}}'),
    { body },
  )
  assert.equal(asCohere.called[0]?.url, 'http://cohere.test/v1/v2/embed')
  assert.deepEqual(JSON.parse(asCohere.called[0]?.body ?? '').texts, ['a', 'b'])
  assert.equal(asCohere.reply.json.usage.prompt_tokens, 3)
})

test('embed: tokens go to a provider that accepts them; otherwise the error has a remedy', async () => {
  const body = { model: 'm', input: [[1, 2], [3]] }
  const { reply, called } = await asking([gemini, second], good, { body })
  assert.equal(reply.status, 200, reply.text)
  assert.deepEqual(called.map(at), ['second'])
  const rejected = await asking([gemini, cohere], good, { body })
  assert.equal(rejected.reply.status, 400)
  assert.equal(rejected.called.length, 0)
  assert.deepEqual(
    [rejected.reply.json.error.code, rejected.reply.json.error.param],
    ['unsupported_parameter', 'input[0]'],
  )
  assert.match(rejected.reply.json.error.message, /Send texts/)
})

// ── Failures ────────────────────────────────────────────────────────────────────────────────────────────────

const vectors =
  (...made: readonly unknown[]) =>
  (asked: ScriptedCall) =>
    respondWith.json(asked, 200, answer(made))
const failing: readonly (readonly [string, (asked: ScriptedCall) => void, trail: string])[] = [
  ['500', (asked) => respondWith.error(asked, 500), '500'],
  ['503', (asked) => respondWith.error(asked, 503), '503'],
  ['429', (asked) => respondWith.error(asked, 429), '429'],
  ['401', (asked) => respondWith.error(asked, 401), '401'],
  ['no such model', (asked) => respondWith.error(asked, 404, { code: 'model_not_found' }), '404'],
  ['refused connections', (asked) => asked.fail(fail('refused', 'connection refused')), 'refused'],
  ['silence', () => {}, 'timeout'],
  [
    'a header block without a body',
    (asked) => {
      asked.head(200, { 'content-type': 'application/json' })
    },
    'stalled',
  ],
  [
    'half an answer',
    (asked) => {
      asked.head(200, { 'content-type': 'application/json' })
      asked.send(answer().slice(0, 40))
      asked.fail(fail('reset', 'gone'))
    },
    'truncated',
  ],
  ['half an answer, ended', (asked) => respondWith.json(asked, 200, answer().slice(0, 40)), 'malformed'],
  ['a web page', (asked) => respondWith.raw(asked, 200, { 'content-type': 'text/html' }, '<html>'), 'not_json'],
  ['a stream', (asked) => respondWith.stream(asked, `data: ${answer()}\n\n`), 'malformed'],
  ['an answer of another kind', (asked) => respondWith.json(asked, 200, '{"choices":[]}'), 'malformed'],
  [
    'an error in a 200',
    (asked) => respondWith.json(asked, 200, '{"error":{"message":"x","code":"slow_down"}}'),
    'overloaded',
  ],
  ['a vector too few', vectors([1]), 'malformed'],
  ['a vector too many', vectors([1], [2], [3]), 'malformed'],
  ['vectors of two lengths', vectors([1], [1, 2]), 'malformed'],
  ['no numbers', vectors(['a'], ['b']), 'malformed'],
]
for (const [name, script, trail] of failing) {
  test(`embed: ${name}: another provider of the same model is tried`, async () => {
    const { reply, called, events } = await asking([first, other, second], (asked) =>
      at(asked) === 'first' ? script(asked) : good(asked),
    )
    assert.equal(reply.status, 200, reply.text)
    assert.deepEqual(called.map(at), ['first', 'second'])
    assert.match(reply.headers['x-headgate-trail'] ?? '', new RegExp(`^first#k1:${trail}, second#k1:200$`))
    assert.deepEqual(
      events
        .filter(({ event }) => event === 'fallback')
        .map((item) => item.event === 'fallback' && [item.from, item.to]),
      [['first#k1/m', 'second#k1/m']],
    )
  })
  test(`embed: ${name}: never another model`, async () => {
    const { reply, called } = await asking([first, other], script)
    assert.ok((reply.status ?? 0) >= 404, reply.text)
    assert.ok(called.every((asked) => at(asked) === 'first'))
    assert.equal(typeof reply.json.error.code, 'string')
  })
}

for (const [name, script] of failing.slice(2, 4))
  test(`embed: ${name}: the other key is tried`, async () => {
    let keys = 0
    const { reply, called } = await asking([twin], (asked) => (keys++ === 0 ? script(asked) : good(asked)))
    assert.equal(reply.status, 200, reply.text)
    assert.equal(new Set(called.map((asked) => asked.headers.authorization)).size, 2)
  })

test('embed: a request that every provider refuses fails with the first refusal', async () => {
  const { reply, called } = await asking([first, second], (asked) =>
    respondWith.error(asked, 400, { message: 'The input is not text, says sk-first-k1.', param: 'input' }),
  )
  assert.equal(called.length, 2)
  assert.deepEqual([reply.status, reply.json.error.param], [400, 'input'])
  assert.match(reply.json.error.message, /^The input is not text/)
  assert.doesNotMatch(reply.text, /sk-first/)
})

test('embed: five failures open the circuit; then no call is made', async () => {
  const { gateway, world } = gatewayHarness([first], (asked) => respondWith.error(asked, 500), {
    circuit: { whenAllOpen: 'fail' },
  })
  const statuses: (number | null)[] = []
  for (let turn = 0; turn < 4; turn++) {
    const reply = new CapturedReply()
    const done = serveEmbeddings(gateway, openaiEmbeddingsCall(received(BODY), reply))
    await world.advance(5_000)
    await done
    statuses.push(reply.status)
  }
  assert.equal(statuses.at(-1), 503)
  assert.ok(world.calls.length <= 6, String(world.calls.length))
})

test('embed: the request timeout ends it', async () => {
  const { reply, world } = await asking([first, second], () => {}, {
    settings: { circuit: { timeout: 0 }, timeout: { request: 10_000 } },
    ms: 11_000,
  })
  assert.equal(reply.status, 504)
  assert.ok(world.calls.every(({ aborted }) => aborted))
  assert.equal(world.timers(), 0)
})

test('embed: a client that disconnects aborts the upstream call without a failure', async () => {
  const { gateway, world, events } = gatewayHarness([first], () => {})
  const reply = new CapturedReply()
  const done = serveEmbeddings(gateway, openaiEmbeddingsCall(received(BODY), reply))
  await world.settle()
  reply.disconnect()
  await done
  assert.equal(world.calls[0]?.aborted, true)
  assert.equal(reply.ending, 'cut')
  assert.equal(world.timers(), 0)
  assert.equal(gateway.activeCalls.size, 0)
  assert.equal(gateway.health.load.inFlight(first, first.keys[0] ?? assert.fail()), 0)
  assert.ok(!events.some(({ event }) => event === 'circuit' || event === 'key'))
})

for (const [name, body, status] of [
  ['no JSON', '{', 400],
  ['nothing', '', 400],
  ['two models', '{"model":"m","model":"n","input":"x"}', 400],
  ['no input', '{"model":"m"}', 400],
  ['no texts', '{"model":"m","input":[]}', 400],
] as const)
  test(`embed: ${name} is refused`, async () => {
    const { reply, called } = await asking([first], good, { body })
    assert.equal(reply.status, status)
    assert.equal(reply.json.error.type, 'invalid_request_error')
    assert.equal(called.length, 0)
  })

// ── POST /v1/route ───────────────────────────────────────────────────────────────────────────────────────────────

for (const [name, body, query, style] of [
  ['texts in a list', { model: 'm', input: ['a'] }, '', 'embeddings'],
  ['tokens', { model: 'm', input: [1] }, '', 'embeddings'],
  ['an encoding', { model: 'm', input: 'a', encoding_format: 'float' }, '', 'embeddings'],
  ['by the query', { model: 'm', input: 'a' }, 'style=embeddings', 'embeddings'],
  ['a text alone', { model: 'm', input: 'a' }, '', 'responses'],
  ['a prompt', { model: 'm', prompt: 'a' }, '', 'completions'],
] as const)
  test(`explain: ${name} is ${style}`, () => {
    const explained = explain(
      gatewayHarness([writer, first, gemini], () => {}).gateway,
      received(JSON.stringify(body), query),
    )
    assert.ok(explained.ok, JSON.stringify(explained))
    assert.equal(explained.value.style, style)
    if (style !== 'embeddings') return
    const { targets, skipped } = JSON.parse(JSON.stringify(explained.value))
    const tokens = 'input' in body && typeof body.input[0] === 'number'
    assert.deepEqual(
      targets.map((one: { provider: string; fit: boolean }) => [one.provider, one.fit]),
      [
        ['first', true],
        ['gemini', !tokens],
      ],
    )
    assert.deepEqual(skipped, [{ provider: 'writer', model: 'm', why: 'it does not support embeddings' }])
  })

for (const [usage, input] of [
  [{ prompt_tokens: 2, total_tokens: 2 }, 2],
  [{ total_tokens: 2 }, 2],
  [{ input_tokens: 2 }, 2],
  [{ prompt_tokens: 0, total_tokens: 2 }, 2],
  [{ prompt_tokens: -1 }, undefined],
  [{ prompt_tokens: 2.5 }, undefined],
  [{ prompt_tokens: 2 ** 60 }, undefined],
] as const)
  test(`embed: usage of ${JSON.stringify(usage)}`, async () => {
    const body = JSON.stringify({ ...JSON.parse(answer()), usage })
    const { events, reply } = await asking([first], (asked) => respondWith.json(asked, 200, body))
    const [line] = events.filter((item) => item.event === 'request')
    const used = line?.trace.find((fact) => fact.type === 'usage')
    assert.equal(used?.type === 'usage' ? used.usage.input : undefined, input)
    assert.equal(reply.headers['x-headgate-estimated'], input === undefined ? 'true' : undefined)
  })
