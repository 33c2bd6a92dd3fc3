/** One conversation over 20 turns whose turns are answered by Anthropic, Bedrock and Vertex AI, as each of them fails. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import Anthropic from '@anthropic-ai/sdk'
import { type JsonObject, list, object } from '../../src/core/json.ts'
import { invokeAnswer, invokeEvents, invokeProblem } from '../support/bedrock-invoke.ts'
import { type Act, startUpstream, type UpstreamRequest } from '../support/upstream.ts'
import { start } from './support/process.ts'

const TURNS = 20
const THINKING = 'interleaved-thinking-2025-05-14'
const SEARCH = 'tool-search-tool-2025-10-19'
const SCOPE = 'prompt-caching-scope-2026-01-05'
const CLOUDS = ['anthropic', 'bedrock', 'vertex'] as const
type Place = (typeof CLOUDS)[number]

const placeOf = ({ path }: UpstreamRequest): Place =>
  path.startsWith('/model/') ? 'bedrock' : path.includes('/publishers/') ? 'vertex' : 'anthropic'

/** Thinking with a signature, and a call; they name the turn. */
const contentOf = (turn: number, place: Place): JsonObject[] => [
  { type: 'thinking', thinking: `Turn ${turn} at ${place}.`, signature: `EqQBCkgIB${place}${turn}+/==` },
  { type: 'tool_use', id: `toolu_${place}_${turn}`, name: 'look', input: { turn } },
]

const sse = (content: readonly JsonObject[]): Act => ({
  do: 'stream',
  pieces: invokeEvents(content).map(
    ({ 'amazon-bedrock-invocationMetrics': _, ...event }) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`,
  ),
})

test('claude: one conversation at three places, with signatures, breakpoints and the betas of each', async () => {
  let turn = 0
  /** The place that answers this turn: those before it are overloaded. */
  const answering = (): Place => CLOUDS[turn % CLOUDS.length] ?? 'anthropic'
  const upstream = await startUpstream((request) => {
    if (request.method === 'GET') return { do: 'answer', status: 404, body: {} }
    const place = placeOf(request)
    if (place !== answering()) return { do: 'answer', status: 503, body: { message: 'Service unavailable.' } }
    const content = contentOf(turn, place)
    if (place === 'bedrock') return invokeProblem(request, [THINKING, SEARCH]) ?? invokeAnswer(request, content)
    return sse(content)
  })
  const gateway = await start({
    env: {
      ANTHROPIC_API_KEY: 'sk-ant-0123456789',
      ANTHROPIC_BASE_URL: upstream.url,
      BEDROCK_API_KEY: 'bedrock-0123456789',
      BEDROCK_BASE_URL: upstream.url,
      VERTEX_API_KEY: 'vertex-0123456789',
      VERTEX_BASE_URL: `${upstream.url}/v1/projects/p-1/locations/global`,
      CIRCUIT_MIN_REQUESTS: '1000',
      RETRY_BUDGET_FLOOR: '1000',
    },
    files: {
      'headgate.yaml': `
routes:
  sonnet:
    targets: [ { provider: anthropic, model: claude-sonnet-4-5 } ]
    fallback:
      - { provider: bedrock, model: "us.anthropic.claude-sonnet-4-5-20250929-v1:0" }
      - { provider: vertex, model: "claude-sonnet-4-5@20250929" }
`,
    },
  })
  const client = new Anthropic({ baseURL: gateway.url, apiKey: 'any', maxRetries: 0 })
  const cached = { type: 'ephemeral' as const }
  try {
    const messages: Anthropic.Beta.BetaMessageParam[] = [{ role: 'user', content: 'Look.' }]
    for (turn = 0; turn < TURNS; turn++) {
      const place = answering()
      const answer = await client.beta.messages
        .stream({
          model: 'sonnet',
          max_tokens: 4_000,
          thinking: { type: 'enabled', budget_tokens: 1_024 },
          system: [{ type: 'text', text: 'Be brief.', cache_control: cached }],
          tools: [{ name: 'look', input_schema: { type: 'object' }, defer_loading: true }],
          messages,
          betas: [THINKING, 'advanced-tool-use-2025-11-20', SCOPE],
        })
        .finalMessage()
      assert.deepEqual(answer.content, contentOf(turn, place), `turn ${turn}`)
      const request = upstream.requests.at(-1)
      assert.ok(request)
      assert.equal(placeOf(request), place)
      const { json, headers } = request
      // Every earlier turn is in it as it was answered, wherever that was.
      const turns = list(json.messages).filter((message) => object(message)?.role === 'assistant')
      assert.deepEqual(
        turns.map((message) => object(message)?.content),
        Array.from({ length: turn }, (_, at) => contentOf(at, CLOUDS[at % CLOUDS.length] ?? 'anthropic')),
      )
      assert.deepEqual(object(list(json.system)[0])?.cache_control, cached)
      const last = object(list(object(list(json.messages).at(-1))?.content)[0])
      assert.deepEqual(last?.cache_control, turn === 0 ? undefined : cached)
      const betas = place === 'bedrock' ? list(json.anthropic_beta).join(',') : headers['anthropic-beta']
      const expected =
        place === 'anthropic' ? `${THINKING},advanced-tool-use-2025-11-20,${SCOPE}` : `${THINKING},${SEARCH}`
      assert.equal(betas, expected)
      const [, call] = answer.content
      assert.ok(call?.type === 'tool_use')
      messages.push(
        { role: 'assistant', content: answer.content as Anthropic.Beta.BetaContentBlockParam[] },
        {
          role: 'user',
          content: [{ type: 'tool_result', tool_use_id: call.id, content: 'seen', cache_control: cached }],
        },
      )
    }
  } finally {
    await gateway.stop()
    await upstream.close()
  }
})
