/** Voyage and Jina: embeddings with OpenAI's SDK and rerank, at upstreams as strict as the vendors. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import OpenAI from 'openai'
import { type JsonObject, list } from '../../src/core/json.ts'
import { type Act, startUpstream, type Upstream, type UpstreamRequest } from '../support/upstream.ts'
import { post, type Started, start } from './support/process.ts'

const vectorOf = (input: unknown): number[] => [String(input).length, -String(input).length / 2, 0.25]
const base64 = (numbers: readonly number[]) => Buffer.from(new Float32Array(numbers).buffer).toString('base64')
const refusal = (status: number, detail: string): Act => ({ do: 'answer', status, body: { detail } })
const otherThan = (json: JsonObject, members: readonly string[]) =>
  Object.keys(json).find((name) => !members.includes(name))

const embedded = (json: JsonObject, encode: (vector: number[]) => unknown, usage: object): Act => ({
  do: 'answer',
  body: {
    object: 'list',
    data: [json.input]
      .flat()
      .map((input, index) => ({ object: 'embedding', embedding: encode(vectorOf(input)), index })),
    model: json.model ?? null,
    usage,
  },
})

/** Refuses what docs.voyageai.com/reference has not, in the words of 410979729/scope-recall-hermes#88. */
const voyage = ({ path, json }: UpstreamRequest): Act => {
  const isRerank = path === '/voyage/v1/rerank'
  const other = otherThan(
    json,
    isRerank
      ? ['model', 'query', 'documents', 'top_k', 'return_documents', 'truncation']
      : ['model', 'input', 'input_type', 'truncation', 'output_dimension', 'output_dtype', 'encoding_format'],
  )
  const wrong = other ?? (json.encoding_format === 'float' ? 'encoding_format' : undefined)
  if (wrong !== undefined)
    return refusal(
      400,
      `The request body is not valid JSON, or some arguments were not specified properly. In particular, Argument '${wrong}' is not supported by our API`,
    )
  if (!isRerank)
    return embedded(json, (vector) => (json.encoding_format === 'base64' ? base64(vector) : vector), {
      total_tokens: 9,
    })
  const data = list(json.documents).map((_, index) => ({ relevance_score: 0.5 - index / 10, index }))
  return {
    do: 'answer',
    body: {
      object: 'list',
      data: data.slice(0, Number(json.top_k ?? data.length)),
      model: json.model ?? null,
      usage: { total_tokens: 26 },
    },
  }
}

/** Refuses what api.jina.ai/openapi.json has not, in the words of QuantumNous/new-api#1941. */
const jina = ({ path, json }: UpstreamRequest): Act => {
  const isRerank = path === '/jina/v1/rerank'
  const other = otherThan(
    json,
    isRerank
      ? ['model', 'query', 'documents', 'top_n', 'return_documents']
      : ['model', 'input', 'task', 'dimensions', 'embedding_type', 'normalized', 'late_chunking', 'truncate'],
  )
  if (other !== undefined)
    return refusal(
      400,
      `Validation error: 'body -> ${json.model} -> ${other}' Extra inputs are not permitted. Field errors: : Invalid value`,
    )
  if (!isRerank) return embedded(json, (vector) => vector, { total_tokens: 9, prompt_tokens: 9 })
  const results = list(json.documents).map((text, index) => ({ index, relevance_score: 0.5, document: { text } }))
  return {
    do: 'answer',
    body: {
      model: json.model ?? null,
      usage: { total_tokens: 815, prompt_tokens: 815 },
      results: results.slice(0, Number(json.top_n ?? results.length)),
    },
  }
}

const script = (request: UpstreamRequest): Act => {
  if (request.path.startsWith('/voyage/')) return voyage(request)
  if (request.path.startsWith('/jina/')) return jina(request)
  return request.method === 'GET' ? { do: 'answer', status: 404, body: {} } : refusal(500, 'broken')
}

let upstream: Upstream
let gateway: Started
let client: OpenAI
before(async () => {
  upstream = await startUpstream(script)
  gateway = await start({
    env: {
      PROVIDERS: 'voyage,jina,house',
      VOYAGE_API_KEY: 'pa-voyage-0123456789',
      VOYAGE_BASE_URL: `${upstream.url}/voyage/v1`,
      JINA_API_KEY: 'jina_0123456789',
      JINA_BASE_URL: `${upstream.url}/jina/v1`,
      HOUSE_API_KEY: 'sk-house-0123456789',
      HOUSE_BASE_URL: `${upstream.url}/house/v1`,
      HOUSE_MODELS: 'chatty',
      CIRCUIT_CONSECUTIVE_FAILURES: '100',
    },
  })
  client = new OpenAI({ baseURL: gateway.base, apiKey: 'any', maxRetries: 0 })
})
after(async () => {
  await gateway?.stop()
  await upstream?.close()
})

const last = (): JsonObject => upstream.requests.at(-1)?.json ?? {}
const ask = (path: string, body: object) =>
  fetch(`${gateway.base}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })

for (const model of ['voyage-4', 'jina-embeddings-v3'])
  for (const encoding of [undefined, 'float', 'base64'] as const)
    test(`embeddings of ${model}: the SDK requests ${encoding ?? 'its default'}`, async () => {
      const { data, usage } = await client.embeddings.create({
        model,
        input: ['one', 'three'],
        dimensions: 256,
        ...(encoding && { encoding_format: encoding }),
      })
      const expected = ['one', 'three'].map(vectorOf)
      assert.deepEqual(
        data.map(({ embedding }) => embedding),
        encoding === 'base64' ? expected.map(base64) : expected,
      )
      assert.equal(usage.total_tokens, 9)
      const dimension = model === 'voyage-4' ? 'output_dimension' : 'dimensions'
      assert.equal(last()[dimension], 256)
    })

test('embeddings: members that the vendor lacks are named, and its own pass', async () => {
  const shared = { input: 'one', user: 'u-1', input_type: 'query', task: 'retrieval.query', truncation: true }
  const voyaged = await ask('/embeddings', { model: 'voyage-4', ...shared })
  assert.equal(voyaged.status, 200)
  assert.deepEqual(voyaged.headers.get('x-headgate-dropped')?.split(', ').toSorted(), ['task', 'user'])
  assert.deepEqual(last(), { model: 'voyage-4', input: 'one', input_type: 'query', truncation: true })
  const other = await ask('/embeddings', { model: 'voyage-4', input: 'one', input_type: 'classification' })
  assert.deepEqual([other.status, other.headers.get('x-headgate-dropped')], [200, 'input_type'])
  const jinaed = await ask('/embeddings', { model: 'jina-embeddings-v3', ...shared })
  assert.deepEqual(jinaed.headers.get('x-headgate-dropped')?.split(', ').toSorted(), [
    'input_type',
    'truncation',
    'user',
  ])
  assert.deepEqual(last(), { model: 'jina-embeddings-v3', input: 'one', task: 'retrieval.query' })
})

test('embeddings: lists of tokens are refused without a call, since both take texts only', async () => {
  const before = upstream.requests.length
  for (const model of ['voyage-4', 'jina-embeddings-v3'])
    for (const input of [[1, 2], [[1, 2]]]) {
      const answer = await ask('/embeddings', { model, input })
      assert.equal(answer.status, 400)
      assert.match(await answer.text(), /input/)
    }
  assert.equal(upstream.requests.length, before)
})

const QUERY = { query: 'a capital', documents: ['Paris', 'a bicycle'] }
for (const [model, count, provider, member] of [
  ['rerank-2.5', 'top_k', 'voyage', 'data'],
  ['jina-reranker-v3', 'top_n', 'jina', 'results'],
] as const)
  test(`rerank of ${model}: the body and the answer pass unchanged`, async () => {
    const answer = await ask('/rerank', { model, ...QUERY, [count]: 1 })
    assert.equal(answer.status, 200)
    assert.equal(answer.headers.get('x-headgate-provider'), provider)
    assert.deepEqual(last(), { model, ...QUERY, [count]: 1 })
    const body = (await answer.json()) as JsonObject
    assert.equal(list(body[member]).length, 1)
    const wrong = await ask('/rerank', { model, ...QUERY, [count === 'top_k' ? 'top_n' : 'top_k']: 1 })
    assert.equal(wrong.status, 400)
  })

const CHAT = { messages: [{ role: 'user', content: 'hello' }] }

test('chat is refused for a provider without it, and no failover reaches it', async () => {
  const from = upstream.requests.length
  for (const model of ['voyage/rerank-2.5', 'voyage/voyage-4', 'jina/jina-embeddings-v3']) {
    const { status, text } = await post(`${gateway.base}/chat/completions`, { model, ...CHAT })
    assert.equal(status, 400, text)
    assert.match(text, /cannot generate text/)
  }
  const failed = await post(`${gateway.base}/chat/completions`, { model: 'chatty', ...CHAT })
  assert.ok(failed.status >= 500, failed.text)
  const auto = await post(`${gateway.base}/messages`, { model: 'auto', max_tokens: 5, ...CHAT })
  assert.ok(auto.status >= 500, auto.text)
  const paths = upstream.requests.slice(from).map(({ path }) => path)
  assert.ok(paths.length > 0 && paths.every((path) => path.startsWith('/house/')), paths.join())
})
