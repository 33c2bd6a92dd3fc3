import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openaiEmbeddingsCall } from '../../../test/support/embeddings-call.ts'
import { CapturedReply, gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import type { ScriptedCall } from '../../../test/support/still-world.ts'
import { ANONYMOUS } from '../../core/accounts.ts'
import { fail } from '../../core/failure.ts'
import type { Embeds, Instance, Provider } from '../../core/provider.ts'
import alibaba from '../../providers/alibaba.ts'
import azure from '../../providers/azure-openai.ts'
import cohere from '../../providers/cohere.ts'
import deepinfra from '../../providers/deepinfra.ts'
import gemini from '../../providers/gemini.ts'
import llamacpp from '../../providers/llamacpp.ts'
import mistral from '../../providers/mistral.ts'
import openai from '../../providers/openai.ts'
import vertex from '../../providers/vertex.ts'
import { serveEmbeddings } from './embeddings.ts'

type Body = { readonly [member: string]: unknown }

/** The texts of a request, in any format. Text n is "text n", so its vector is [n]. */
const textsOf = ({ input, texts, requests, instances }: Body): readonly string[] => {
  // Test bodies: the formats are known.
  const contents = requests as readonly { content: { parts: readonly { text: string }[] } }[] | undefined
  const predicted = instances as readonly { content: string }[] | undefined
  return (
    contents?.map(({ content }) => content.parts[0]?.text ?? '') ??
    predicted?.map(({ content }) => content) ??
    ((texts ?? input) as readonly string[])
  )
}
const numberOf = (text: string): number => Number(text.split(' ')[1])
const base64 = (number: number) => Buffer.from(new Float32Array([number]).buffer).toString('base64')

/** The answer of each format; one token for each text. */
const answerTo = (body: Body): object => {
  const texts = textsOf(body)
  const vectors = texts.map((text) => [numberOf(text)])
  if (body.requests)
    return { embeddings: vectors.map((values) => ({ values })), usageMetadata: { promptTokenCount: texts.length } }
  if (body.instances)
    return { predictions: vectors.map((values) => ({ embeddings: { values, statistics: { token_count: 1 } } })) }
  if (body.texts) return { embeddings: { float: vectors }, meta: { billed_units: { input_tokens: texts.length } } }
  const data = texts.map((text, index) => ({
    object: 'embedding',
    index,
    embedding: body.encoding_format === 'base64' ? base64(numberOf(text)) : [numberOf(text)],
  }))
  return { object: 'list', data, model: 'm-1', usage: { prompt_tokens: texts.length, total_tokens: texts.length } }
}

const parsed = ({ body = '{}' }: ScriptedCall): Body => JSON.parse(body)
const answers = (asked: ScriptedCall) => respondWith.json(asked, 200, JSON.stringify(answerTo(parsed(asked))))
const hostOf = ({ url }: ScriptedCall) => new URL(url).host.split('.')[0]

const embedder = (id: string, embeds: Embeds, more: Partial<Provider> = {}): Instance =>
  instance(id, ['k1'], { ...more, embeds: { ...embeds, models: ['m'] } })

const unknown = (id: string) => embedder(id, { protocol: 'openai-embeddings', models: [] })

const embed = async (
  instances: readonly Instance[],
  script: (asked: ScriptedCall) => void,
  { count = 250, body = {}, ms = 0 }: { count?: number; body?: object; ms?: number } = {},
) => {
  const made = gatewayHarness(instances, script)
  const input = Array.from({ length: count }, (_, number) => `text ${number}`)
  const send = async () => {
    const reply = new CapturedReply()
    const received = {
      id: 'req_test',
      method: 'POST',
      path: '/v1/embeddings',
      query: '',
      headers: () => undefined,
      body: { text: JSON.stringify({ model: 'm', input, ...body }) },
      client: ANONYMOUS,
    }
    const done = serveEmbeddings(made.gateway, openaiEmbeddingsCall(received, reply))
    await made.world.advance(ms)
    return { reply, done }
  }
  const first = await send()
  return { ...made, ...first, send, calls: made.world.calls }
}

const sizes = (calls: readonly ScriptedCall[]) => calls.map((call) => textsOf(parsed(call)).length)
const vectorsOf = (reply: CapturedReply): readonly unknown[] =>
  reply.json.data.map(({ embedding }: { embedding: unknown }) => embedding)
const numbers = (count: number) => Array.from({ length: count }, (_, number) => [number])

// ── Known limits ─────────────────────────────────────────────────────────────────────────────────────────────────

const known: readonly (readonly [Provider, model: string, count: number, calls: readonly number[]])[] = [
  [cohere, 'm', 250, [96, 96, 58]],
  [gemini, 'm', 250, [100, 100, 50]],
  [vertex, 'text-embedding-005', 300, [250, 50]],
  [vertex, 'gemini-embedding-001', 3, [1, 1, 1]],
  [openai, 'm', 2_050, [2_048, 2]],
  [azure, 'm', 2_050, [2_048, 2]],
  [mistral, 'm', 1_000, [512, 488]],
  [alibaba, 'text-embedding-v4', 12, [10, 2]],
  [alibaba, 'text-embedding-v2', 30, [25, 5]],
  [deepinfra, 'm', 1_025, [1_024, 1]],
  [llamacpp, 'm', 40, [32, 8]],
]
for (const { name, embeds } of [openai, azure])
  test(`embed: ${name} receives a digest of a user id above 64 characters, the same in each part`, async () => {
    const made = await embed([embedder('a', embeds)], answers, { count: 2_050, body: { user: 'u'.repeat(65) } })
    const users = made.calls.map((call) => parsed(call).user)
    assert.match(String(users[0]), /^[a-z0-9]{40}$/)
    assert.deepEqual(users, [users[0], users[0]])
    assert.equal(made.reply.headers['x-headgate-dropped'], 'user')
  })

for (const [{ name, embeds }, model, count, calls] of known)
  test(`batches: ${count} inputs at ${name} (${model}) are sent in ${calls.length} calls`, async () => {
    assert.ok(embeds)
    const target = { ...embedder('a', { ...embeds, models: [model] }), models: [model] }
    for (const encoding of ['float', 'base64']) {
      const made = await embed([target], answers, { count, body: { model, encoding_format: encoding } })
      const { reply } = made
      assert.equal(reply.status, 200, reply.text)
      assert.deepEqual(sizes(made.calls), calls)
      assert.deepEqual(
        vectorsOf(reply),
        encoding === 'float' ? numbers(count) : numbers(count).map(([number = 0]) => base64(number)),
      )
      assert.deepEqual(
        reply.json.data.map(({ index }: { index: number }) => index),
        numbers(count).flat(),
      )
      assert.deepEqual(reply.json.usage, { prompt_tokens: count, total_tokens: count })
      assert.equal(reply.headers['x-headgate-attempts'], '1')
      assert.equal(reply.headers['x-headgate-trail'], 'a#k1:200')
      const [line] = made.events.filter((item) => item.event === 'request')
      assert.deepEqual(
        line?.trace.filter(({ type }) => type === 'usage'),
        [{ type: 'usage', usage: { input: count, output: 0 } }],
      )
    }
  })

test('batches: as many inputs as fit are one call, passed byte for byte', async () => {
  const { calls, reply } = await embed([unknown('a')], answers, { count: 96, body: { mine: 1 } })
  assert.deepEqual(sizes(calls), [96])
  assert.equal(reply.text, JSON.stringify(answerTo(parsed(calls[0] ?? assert.fail()))))
})

test('batches: a limit of tokens divides long inputs', async () => {
  const limits = { inputs: 512, tokens: 16_384 }
  const long = Array.from({ length: 60 }, (_, number) => `text ${number} ${'lorem ipsum '.repeat(200)}`)
  const target = embedder('a', { protocol: 'openai-embeddings', models: [], limits })
  const { calls, reply } = await embed([target], answers, { body: { input: long } })
  assert.equal(reply.status, 200, reply.text)
  assert.ok(calls.length > 2 && calls.length < 8, String(calls.length))
  assert.deepEqual(vectorsOf(reply), numbers(60))
})

test('batches: unknown members and the number of calls in flight', async () => {
  const waiting: ScriptedCall[] = []
  const target = embedder('a', { protocol: 'openai-embeddings', models: [], limits: { inputs: 10 } })
  const made = await embed([target], (asked) => waiting.push(asked), {
    count: 95,
    body: { mine: 'kept', encoding_format: 'float' },
  })
  assert.equal(waiting.length, 4)
  // Answered in another order than sent.
  for (let turn = 0; turn < 10; turn++) {
    const next = waiting.pop()
    if (next) answers(next)
    await made.world.advance(0)
    assert.ok(waiting.length <= 4)
  }
  assert.equal(made.reply.status, 200, made.reply.text)
  assert.deepEqual(vectorsOf(made.reply), numbers(95))
  assert.ok(made.calls.every((call) => parsed(call).mine === 'kept'))
})

// ── Failures ─────────────────────────────────────────────────────────────────────────────────────────────────────

const failures: readonly (readonly [string, (asked: ScriptedCall) => void, string])[] = [
  ['a rate limit', (asked) => respondWith.error(asked, 429), '429'],
  ['a server error', (asked) => respondWith.error(asked, 503), '503'],
  ['a lost connection', (asked) => asked.fail(fail('reset', 'gone')), 'reset'],
  [
    'half an answer',
    (asked) => {
      asked.head(200, { 'content-type': 'application/json' })
      asked.send('{"data":[')
      asked.fail(fail('reset', 'gone'))
    },
    'truncated',
  ],
  ['an answer that is no JSON', (asked) => respondWith.json(asked, 200, '{"data":['), 'malformed'],
  ['a web page', (asked) => respondWith.raw(asked, 200, { 'content-type': 'text/html' }, '<html>'), 'not_json'],
  [
    'a vector too few',
    (asked) => respondWith.json(asked, 200, JSON.stringify(answerTo({ input: ['text 1'] }))),
    'malformed',
  ],
  [
    'an error in a 200',
    (asked) => respondWith.json(asked, 200, '{"error":{"message":"x","code":"slow_down"}}'),
    'overloaded',
  ],
]
for (const [name, script, trail] of failures)
  test(`batches: ${name} in one part: the next target receives all inputs`, async () => {
    const first = embedder('first', { protocol: 'openai-embeddings', models: [], limits: { inputs: 100 } })
    const { calls, reply, world } = await embed([first, unknown('second')], (asked) =>
      hostOf(asked) === 'first' && textsOf(parsed(asked))[0] === 'text 100' ? script(asked) : answers(asked),
    )
    assert.equal(reply.status, 200, reply.text)
    assert.deepEqual(sizes(calls.filter((call) => hostOf(call) === 'second')), [250])
    assert.equal(reply.headers['x-headgate-trail'], `first#k1:${trail}, second#k1:200`)
    assert.deepEqual(vectorsOf(reply), numbers(250))
    assert.equal(world.timers(), 0)
  })

test('batches: a failing part ends the others', async () => {
  const first = embedder('first', { protocol: 'openai-embeddings', models: [], limits: { inputs: 50 } })
  const { calls } = await embed([first, unknown('second')], (asked) => {
    if (hostOf(asked) === 'second') answers(asked)
    else if (textsOf(parsed(asked))[0] === 'text 50') respondWith.error(asked, 500)
  })
  const parts = calls.filter((call) => hostOf(call) === 'first')
  assert.equal(parts.length, 4)
  assert.deepEqual(
    parts.map(({ aborted }) => aborted),
    [true, true, true, true],
  )
})

test('batches: a client that disconnects ends all parts', async () => {
  const target = embedder('a', { protocol: 'openai-embeddings', models: [], limits: { inputs: 100 } })
  const { calls, reply, world, done } = await embed([target], () => {})
  reply.disconnect()
  await world.advance(0)
  await done
  assert.deepEqual(
    calls.map(({ aborted }) => aborted),
    [true, true, true],
  )
  assert.equal(world.timers(), 0)
})

test('batches: parts that do not answer time out together', async () => {
  const target = embedder('a', { protocol: 'openai-embeddings', models: [], limits: { inputs: 100 } })
  const { reply, calls } = await embed(
    [target, unknown('second')],
    (asked) => {
      if (hostOf(asked) === 'second') answers(asked)
    },
    { ms: 40_000 },
  )
  assert.equal(reply.status, 200, reply.text)
  assert.equal(reply.headers['x-headgate-trail'], 'a#k1:timeout, second#k1:200')
  assert.equal(calls.length, 4)
})

// ── Learned limits ───────────────────────────────────────────────────────────────────────────────────────────────

/** A server that states its limit in these words. */
const limited = (most: number, status: number, words: (sent: number) => string) => (asked: ScriptedCall) => {
  const { length } = textsOf(parsed(asked))
  if (length <= most) answers(asked)
  else respondWith.json(asked, status, words(length))
}

/** Real words; the sources are in `batch-limit.test.ts`. */
const learned: readonly (readonly [string, number, number, (sent: number) => string, readonly number[]])[] = [
  [
    'text-embeddings-inference',
    32,
    413,
    (sent) => `{"message":"batch size ${sent} > maximum allowed batch size 32","code":413,"type":"Validation"}`,
    [250, 32, 32, 32, 32, 32, 32, 32, 26],
  ],
  [
    'SiliconFlow',
    64,
    413,
    (sent) => `{"code":20042,"message":"input batch size ${sent} > maximum allowed batch size 64","data":null}`,
    [250, 64, 64, 64, 58],
  ],
  ['Jina', 200, 400, () => '{"detail":"input length is larger than the largest allowed size 200"}', [250, 200, 50]],
  [
    'a server without figures',
    130,
    400,
    () =>
      '{"object":"error","message":"Too many inputs in request, split into more batches.","type":"invalid_request_prompt","param":null,"code":"3210"}',
    [250, 125, 125],
  ],
]
for (const [name, most, status, words, calls] of learned)
  test(`batches: the limit of ${name} is learned from its refusal`, async () => {
    const made = await embed([unknown('a')], limited(most, status, words))
    assert.equal(made.reply.status, 200, made.reply.text)
    assert.deepEqual(sizes(made.calls), calls)
    assert.deepEqual(vectorsOf(made.reply), numbers(250))
    assert.deepEqual(made.reply.json.usage, { prompt_tokens: 250, total_tokens: 250 })
    // The next request is sent in parts at once.
    const { reply } = await made.send()
    assert.equal(reply.status, 200, reply.text)
    assert.deepEqual(sizes(made.calls.slice(calls.length)), calls.slice(1))
  })

test('batches: smaller parts are tried a few times only', async () => {
  const { reply, calls } = await embed([unknown('a')], (asked) =>
    respondWith.json(asked, 400, '{"message":"Too many inputs in request, split into more batches."}'),
  )
  assert.equal(reply.status, 400, reply.text)
  assert.ok(calls.length < 16, String(calls.length))
})
