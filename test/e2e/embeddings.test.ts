/** Embeddings with the official SDKs, from upstreams of three formats, and over failing sockets. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import OpenAI from 'openai'
import { list, object, text } from '../../src/core/json.ts'
import { type Act, startUpstream, type Upstream, type UpstreamRequest, until } from '../support/upstream.ts'
import { type Started, start } from './support/process.ts'
import { skipPython, testPython } from './support/python.ts'

/** A vector with the text's length and half of it, which 32-bit floats represent exactly. */
const vectorOf = (input: unknown): number[] => {
  const length = typeof input === 'string' || Array.isArray(input) ? input.length : 0
  return [length, -length / 2, 0.25]
}
const base64 = (numbers: readonly number[]) => Buffer.from(new Float32Array(numbers).buffer).toString('base64')
const INPUT = ['one', 'three']
const VECTORS = INPUT.map(vectorOf)

const script = (upstreamRequest: UpstreamRequest): Act => {
  const { json, path } = upstreamRequest
  if (upstreamRequest.method === 'GET') return { do: 'answer', status: 404, body: {} }
  if (path.endsWith(':batchEmbedContents'))
    return {
      do: 'answer',
      body: {
        embeddings: list(json.requests).map((request) => ({
          values: vectorOf(text(object(list(object(object(request)?.content)?.parts)[0])?.text)),
        })),
      },
    }
  if (path.endsWith('/v2/embed'))
    return {
      do: 'answer',
      body: {
        id: 'x',
        embeddings: { float: list(json.texts).map(vectorOf) },
        meta: { billed_units: { input_tokens: 2 } },
      },
    }
  const { input, encoding_format: encoding } = json
  const inputs = Array.isArray(input) && typeof input[0] !== 'number' ? input : [input]
  switch (upstreamRequest.model) {
    case 'missing':
      return {
        do: 'answer',
        status: 404,
        body: { error: { message: 'No such model.', type: 'invalid_request_error', code: 'model_not_found' } },
      }
    case 'hangs':
      return { do: 'hang' }
    case 'cut': {
      const whole = JSON.stringify({ object: 'list', data: inputs.map(() => vectorOf('x')) })
      return {
        do: 'stream',
        headers: { 'content-type': 'application/json' },
        pieces: [whole.slice(0, 20)],
        ending: 'close',
      }
    }
    case 'shared':
      if (upstreamRequest.key === 'sk-first-0123456789')
        return { do: 'answer', status: 500, body: { error: { message: 'no' } } }
  }
  // Some upstreams support `encoding_format`, and some return only numbers.
  const form = (numbers: number[]) =>
    encoding === 'base64' && upstreamRequest.model !== 'numbers' ? base64(numbers) : numbers
  return {
    do: 'answer',
    body: {
      object: 'list',
      data: inputs.map((one, index) => ({ object: 'embedding', index, embedding: form(vectorOf(one)) })),
      model: upstreamRequest.model ?? '',
      usage: { prompt_tokens: 2, total_tokens: 2 },
    },
  }
}

let upstream: Upstream
let gateway: Started
let client: OpenAI
before(async () => {
  upstream = await startUpstream(script)
  gateway = await start({
    env: {
      PROVIDERS: 'openai,gemini,cohere,first,second,anthropic',
      OPENAI_API_KEY: 'sk-openai-0123456789',
      OPENAI_BASE_URL: `${upstream.url}/v1`,
      GEMINI_API_KEY: 'sk-gemini-0123456789',
      GEMINI_BASE_URL: `${upstream.url}/v1beta`,
      COHERE_API_KEY: 'sk-cohere-0123456789',
      COHERE_BASE_URL: `${upstream.url}/v2`,
      ANTHROPIC_API_KEY: 'sk-ant-0123456789',
      ANTHROPIC_BASE_URL: upstream.url,
      FIRST_API_KEY: 'sk-first-0123456789',
      FIRST_BASE_URL: `${upstream.url}/v1`,
      FIRST_MODELS: 'shared,only-first',
      SECOND_API_KEY: 'sk-second-0123456789',
      SECOND_BASE_URL: `${upstream.url}/v1`,
      SECOND_MODELS: 'shared',
      CIRCUIT_TIMEOUT: '1500',
    },
  })
  client = new OpenAI({ baseURL: gateway.base, apiKey: 'any', maxRetries: 0 })
})
after(async () => {
  await gateway?.stop()
  await upstream?.close()
})

const MODELS = ['text-embedding-3-small', 'openai/numbers', 'gemini-embedding-001', 'embed-v4.0', 'shared']

for (const model of MODELS)
  describe(`embeddings of ${model}`, () => {
    for (const encodingFormat of [undefined, 'float', 'base64'] as const)
      test(`the SDK requests ${encodingFormat ?? 'its default'}`, async () => {
        const { data, response } = await client.embeddings
          .create({ model, input: INPUT, ...(encodingFormat && { encoding_format: encodingFormat }) })
          .withResponse()
        assert.deepEqual(
          data.data.map(({ embedding }) => (typeof embedding === 'string' ? embedding : [...embedding])),
          encodingFormat === 'base64' ? VECTORS.map(base64) : VECTORS,
        )
        assert.deepEqual(
          data.data.map(({ index, object: kind }) => [index, kind]),
          [
            [0, 'embedding'],
            [1, 'embedding'],
          ],
        )
        assert.ok(data.usage.prompt_tokens > 0)
        assert.equal(data.usage.prompt_tokens, data.usage.total_tokens)
        assert.equal(response.headers.get('x-headgate-estimated'), model.startsWith('gemini') ? 'true' : null)
      })
  })

test('embeddings: token input, where the upstream accepts it', async () => {
  const { data } = await client.embeddings.create({
    model: 'text-embedding-3-small',
    input: [[1, 2, 3], [4]],
    encoding_format: 'float',
  })
  assert.deepEqual(
    data.map(({ embedding }) => embedding),
    [vectorOf([1, 2, 3]), vectorOf([4])],
  )
  await assert.rejects(client.embeddings.create({ model: 'embed-v4.0', input: [[1, 2]] }), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError)
    assert.equal(error.param, 'input[0]')
    return true
  })
})

test('embeddings: failover to another provider of the same model, as the log states', async () => {
  const { response } = await client.embeddings.create({ model: 'shared', input: INPUT }).withResponse()
  assert.match(response.headers.get('x-headgate-trail') ?? '', /^(first#\w+:500, )?second#\w+:200$/)
  const line = await gateway.line((one) => one.event === 'request' && one.id === response.headers.get('x-request-id'))
  assert.deepEqual(
    [line.style, line.provider, line.upstream_model, line.input_tokens, line.output_tokens],
    ['embeddings', 'second', 'shared', 2, 0],
  )
})

test('embeddings: no failover to another model', async () => {
  for (const [model, status] of [
    ['openai/missing', 404],
    ['openai/cut', 502],
    ['openai/hangs', 504],
  ] as const)
    await assert.rejects(client.embeddings.create({ model, input: 'x' }), (error) => {
      assert.ok(error instanceof OpenAI.APIError)
      assert.equal(error.status, status, error.message)
      return true
    })
})

test('embeddings: a provider without embeddings returns an error', async () => {
  await assert.rejects(
    client.embeddings.create({ model: 'anthropic/claude', input: 'x' }),
    /does not support embeddings/,
  )
})

test('embeddings: a disconnect aborts the upstream call', async () => {
  const stop = new AbortController()
  const before = upstream.requests.length
  const upstreamRequest = client.embeddings.create({ model: 'openai/hangs', input: 'x' }, { signal: stop.signal })
  await until('the upstream receives the call', () => upstream.requests.length > before)
  stop.abort()
  await assert.rejects(upstreamRequest, OpenAI.APIUserAbortError)
  await until('the call ends', () => upstream.requests.at(-1)?.ended === 'aborted')
})

test('embeddings: also without /v1, and counted in the metrics', async () => {
  const answer = await fetch(`${gateway.url}/embeddings`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'shared', input: 'x' }),
  })
  assert.equal(answer.status, 200)
  const metrics = await (await fetch(`${gateway.url}/metrics`)).text()
  assert.match(metrics, /style="embeddings"/)
})

test('embeddings: the SDK for Python', { skip: skipPython() }, (t) => {
  const given = { base: gateway.base, models: MODELS, vectors: VECTORS, base64: VECTORS.map(base64) }
  return testPython(t, { script: 'embeddings.py', given, cases: MODELS.length * 3 })
})
