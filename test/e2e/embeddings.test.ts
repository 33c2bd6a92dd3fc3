/** Embeddings with the official SDKs, from upstreams of three formats, and over failing sockets. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import OpenAI from 'openai'
import { type JsonObject, list, object, text } from '../../src/core/json.ts'
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
  if (path.endsWith(':predict'))
    return {
      do: 'answer',
      body: {
        predictions: list(json.instances).map((instance) => ({
          embeddings: { values: vectorOf(object(instance)?.content), statistics: { truncated: false, token_count: 1 } },
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
      PROVIDERS: 'openai,gemini,cohere,vertex,first,second,anthropic',
      OPENAI_API_KEY: 'sk-openai-0123456789',
      OPENAI_BASE_URL: `${upstream.url}/v1`,
      GEMINI_API_KEY: 'sk-gemini-0123456789',
      GEMINI_BASE_URL: `${upstream.url}/v1beta`,
      VERTEX_API_KEY: 'sk-vertex-0123456789',
      VERTEX_BASE_URL: `${upstream.url}/v1`,
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

/** Google's shapes: the body for these texts, and the vectors of an answer. */
const SHAPES = {
  embedContent: {
    body: ([first = '']: readonly string[], settings: object) => ({
      content: { parts: [{ text: first }] },
      ...settings,
    }),
    vectors: (answer: JsonObject) => [object(answer.embedding)?.values],
  },
  batchEmbedContents: {
    body: (texts: readonly string[], settings: object) => ({
      requests: texts.map((text) => ({ content: { parts: [{ text }] }, ...settings })),
    }),
    vectors: ({ embeddings }: JsonObject) => list(embeddings).map((entry) => object(entry)?.values),
  },
  predict: {
    body: (texts: readonly string[], settings: object) => ({
      instances: texts.map((content) => ({ content, ...settings })),
    }),
    vectors: ({ predictions }: JsonObject) =>
      list(predictions).map((entry) => object(object(entry)?.embeddings)?.values),
  },
} as const
type Shape = keyof typeof SHAPES

const callGoogle = (model: string, shape: Shape, body: object, headers: Readonly<Record<string, string>> = {}) =>
  fetch(`${gateway.url}/v1beta/models/${encodeURIComponent(model)}:${shape}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-goog-api-key': 'any', ...headers },
    body: JSON.stringify(body),
  })
const objectIn = async (response: Response): Promise<JsonObject> => object(await response.json()) ?? {}

for (const shape of Object.keys(SHAPES) as Shape[])
  for (const model of ['text-embedding-3-small', 'gemini-embedding-001', 'embed-v4.0', 'text-embedding-005'])
    test(`embeddings: ${shape} over ${model}`, async () => {
      const { body, vectors } = SHAPES[shape]
      const response = await callGoogle(model, shape, body(INPUT, { taskType: 'RETRIEVAL_QUERY', title: 'a title' }))
      const answer = await objectIn(response)
      assert.equal(response.status, 200, JSON.stringify(answer))
      assert.deepEqual(vectors(answer), shape === 'embedContent' ? VECTORS.slice(0, 1) : VECTORS)
      const sent = upstream.requests.at(-1)
      const own = sent?.path.includes(':batchEmbedContents') ? shape !== 'predict' : sent?.path.includes(':predict')
      const isSame = own === true && (shape === 'predict') === (model === 'text-embedding-005')
      // A same format has both; others name what they lose.
      const dropped = response.headers.get('x-headgate-dropped') ?? ''
      assert.equal(dropped.includes('title'), !isSame, dropped)
      assert.equal(dropped.includes('taskType'), !/gemini|embed-v4|text-embedding-005/.test(model), dropped)
      assert.equal(sent?.body.includes('a title'), isSame)
      const line = await gateway.line(
        (one) => one.event === 'request' && one.id === response.headers.get('x-request-id'),
      )
      assert.equal(line.style, 'embeddings')
      assert.ok(Number(line.input_tokens) > 0 || response.headers.get('x-headgate-estimated') === 'true')
    })

test('embeddings: the bytes of a Vertex body pass to Vertex AI, and its answer back', async () => {
  const body = { instances: [{ content: 'one', task_type: 'FACT_VERIFICATION' }], parameters: { autoTruncate: false } }
  const response = await callGoogle('vertex/text-embedding-005', 'predict', body)
  const answer = await objectIn(response)
  assert.equal(upstream.requests.at(-1)?.body, JSON.stringify(body))
  assert.deepEqual(answer.predictions, [
    { embeddings: { values: vectorOf('one'), statistics: { truncated: false, token_count: 1 } } },
  ])
  assert.equal(response.headers.get('x-headgate-dropped'), null)
})

test('embeddings: Google’s dimensions are dimensions, and a picture needs a model of Google’s format', async () => {
  const settings = { outputDimensionality: 2 }
  await callGoogle('text-embedding-3-small', 'batchEmbedContents', SHAPES.batchEmbedContents.body(INPUT, settings))
  const { json = {} } = upstream.requests.at(-1) ?? {}
  assert.deepEqual(json, { model: 'text-embedding-3-small', input: INPUT, dimensions: 2 })
  const picture = { content: { parts: [{ inlineData: { mimeType: 'image/png', data: 'AAAA' } }] } }
  const refused = await callGoogle('embed-v4.0', 'embedContent', picture)
  const error = object((await objectIn(refused)).error) ?? {}
  assert.deepEqual([refused.status, error.code, error.status], [400, 400, 'INVALID_ARGUMENT'])
  assert.match(String(error.message), /content/)
  await callGoogle('gemini-embedding-001', 'embedContent', picture)
  assert.match(upstream.requests.at(-1)?.body ?? '', /"inlineData":\{"mimeType":"image\/png","data":"AAAA"\}/)
})

test('embeddings: errors of Google’s shapes have its form', async () => {
  const bodyOf = (shape: Shape) => SHAPES[shape].body(['x'], {})
  for (const [model, status, name] of [
    ['openai/missing', 404, 'NOT_FOUND'],
    ['openai/cut', 502, 'UNAVAILABLE'],
    ['anthropic/claude', 400, 'INVALID_ARGUMENT'],
  ] as const)
    for (const shape of Object.keys(SHAPES) as Shape[]) {
      const response = await callGoogle(model, shape, bodyOf(shape))
      const error = object((await objectIn(response)).error) ?? {}
      assert.deepEqual([response.status, error.code, error.status], [status, status, name], JSON.stringify(error))
      assert.match(response.headers.get('content-type') ?? '', /^application\/json/)
    }
  const started = performance.now()
  const late = await callGoogle('openai/hangs', 'embedContent', bodyOf('embedContent'), { 'x-server-timeout': '0.3' })
  assert.deepEqual([late.status, object((await objectIn(late)).error)?.status], [504, 'DEADLINE_EXCEEDED'])
  assert.ok(performance.now() - started < 1_400)
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
