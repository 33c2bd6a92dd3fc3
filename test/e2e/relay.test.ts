/** Endpoints that are relayed, with the official SDK. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import OpenAI from 'openai'
import { type Act, startUpstream, type Upstream, type UpstreamRequest } from '../support/upstream.ts'
import { type Started, start } from './support/process.ts'

const results = [{ flagged: true, categories: { violence: true }, category_scores: { violence: 0.9 } }]

const script = ({ method, path, key, json }: UpstreamRequest): Act => {
  if (method === 'GET') return { do: 'answer', status: 404, body: {} }
  if (key === 'sk-limited-0123456789')
    return { do: 'answer', status: 429, headers: { 'retry-after': '30' }, body: { error: { message: 'slow down' } } }
  if (path === '/v1/moderations') return { do: 'answer', body: { id: 'modr-1', model: json.model ?? null, results } }
  return { do: 'answer', status: 404, body: { error: { message: `no ${path}` } } }
}

let upstream: Upstream
let gateway: Started
let client: OpenAI
before(async () => {
  upstream = await startUpstream(script)
  gateway = await start({
    env: {
      PROVIDERS: 'openai,anthropic',
      OPENAI_API_KEY: 'sk-limited-0123456789,sk-openai-0123456789',
      OPENAI_BASE_URL: `${upstream.url}/v1`,
      ANTHROPIC_API_KEY: 'sk-ant-0123456789',
      ANTHROPIC_BASE_URL: upstream.url,
      KEY_STRATEGY: 'round-robin',
    },
  })
  client = new OpenAI({ baseURL: gateway.base, apiKey: 'any', maxRetries: 0 })
})
after(async () => {
  await gateway?.stop()
  await upstream?.close()
})

test('relay: moderations of the SDK, without a model, and by the other key after a limit', async () => {
  const trails: string[] = []
  for (const input of ['I will hurt you', 'hello']) {
    const { data, response } = await client.moderations.create({ input }).withResponse()
    assert.equal(data.model, 'omni-moderation-latest')
    assert.equal(data.results[0]?.flagged, true)
    assert.equal(response.headers.get('x-headgate-provider'), 'openai')
    trails.push(response.headers.get('x-headgate-trail') ?? '')
  }
  assert.match(trails.join(' '), /:429, openai#[0-9a-f]+:200/)
})
