/** Claude at Bedrock in its own format: the official SDKs as clients, InvokeModel as strict as the vendor behind the gateway. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import Anthropic from '@anthropic-ai/sdk'
import { isObject, type JsonObject, list, object } from '../../src/core/json.ts'
import { awsRefusal, chunk, invokeAnswer, invokeEvents, invokeProblem } from '../support/bedrock-invoke.ts'
import { exception } from '../support/event-stream.ts'
import type { Act, Script, UpstreamRequest } from '../support/upstream.ts'
import { post, start } from './support/process.ts'
import { CITIES, DONE, QUESTION, SYSTEM, startConversation, WAYS, weather } from './support/speakers.ts'

const KEY = 'bedrock-api-key-YWJjZGVmZ2hpamtsbW5vcA'
const SIGNATURE = 'EtkBCkgIEBABGAIqQIyk4xd3CqsRUUTwvwG0mlOurutR8EyBalCaLgrV+/=='
const CLAUDE = 'us.anthropic.claude-sonnet-4-5-20250929-v1:0'
const MODEL = `bedrock/${CLAUDE}`
const THINKING = 'interleaved-thinking-2025-05-14'
const SEARCH = 'tool-search-tool-2025-10-19'
const TAKEN = [THINKING, SEARCH, 'context-management-2025-06-27', 'context-1m-2025-08-07']

const blocksIn = ({ json }: UpstreamRequest): JsonObject[] =>
  list(json.messages).flatMap((turn) => list(object(turn)?.content).filter(isObject))

/** Thinking and two calls; after their results, a text that repeats them. */
const contentFor = (request: UpstreamRequest): JsonObject[] => {
  if (request.json.tools === undefined) return [{ type: 'text', text: 'Hello there, 🦜.' }]
  const results = blocksIn(request).filter(({ type }) => type === 'tool_result')
  if (results.length > 0)
    return [{ type: 'text', text: `It is ${results.map((result) => textIn(result.content)).join(' and ')}.` }]
  return [
    { type: 'thinking', thinking: 'I need the weather.', signature: SIGNATURE },
    ...CITIES.map((city, at) => ({ type: 'tool_use', id: `toolu_bdrk_${at}`, name: 'get_weather', input: { city } })),
  ]
}

const textIn = (content: unknown): unknown =>
  typeof content === 'string' ? content : object(list(content as never)[0])?.text

const usual: Script = (request): Act =>
  request.path.endsWith('/count-tokens')
    ? /%3A0\/count-tokens$/.test(request.path) && request.path.startsWith('/model/anthropic.')
      ? { do: 'answer', body: { inputTokens: 4_321 } }
      : awsRefusal(400, 'ValidationException', "The provided model doesn't support counting tokens.")
    : (invokeProblem(request, TAKEN) ?? invokeAnswer(request, contentFor(request)))

const { upstream, gateway, speak, lastRequest } = await startConversation(usual, MODEL, (url) => ({
  BEDROCK_API_KEY: KEY,
  BEDROCK_BASE_URL: url,
  CIRCUIT_CONSECUTIVE_FAILURES: '100',
}))
const anthropic = new Anthropic({ baseURL: gateway.url, apiKey: 'any', maxRetries: 0 })
const HELLO = { model: MODEL, max_tokens: 100, messages: [{ role: 'user' as const, content: 'Hello' }] }

for (const { style, stream, way } of WAYS)
  describe(`bedrock invoke: ${way}`, () => {
    test('an answer', async () => {
      const { text, finish, tokens, cached } = await speak[style](QUESTION, { stream, tools: false })
      assert.deepEqual([text, finish], ['Hello there, 🦜.', 'stop'])
      assert.deepEqual([...tokens, cached], [style === 'messages' ? 9 : 109, stream ? 5 : 1, 100])
      const { path, headers, json } = lastRequest()
      const wire = stream ? 'invoke-with-response-stream' : 'invoke'
      assert.equal(path, `/model/${encodeURIComponent(CLAUDE)}/${wire}`)
      assert.equal(headers.authorization, `Bearer ${KEY}`)
      assert.equal(json.anthropic_version, 'bedrock-2023-05-31')
      assert.match(JSON.stringify(json.system), new RegExp(SYSTEM))
    })

    test('parallel calls and their results: thinking is sent back with its signature', async () => {
      const first = await speak[style](QUESTION, { stream, tools: true })
      assert.deepEqual([first.finish, first.reasoning], ['calls', 'I need the weather.'])
      assert.deepEqual(
        first.calls.map(({ input }) => input),
        CITIES.map((city) => ({ city })),
      )
      const done = await first.next(weather)
      assert.equal(done.text, DONE)
      const thought = blocksIn(lastRequest()).find(({ type }) => type === 'thinking')
      assert.equal(thought?.signature, SIGNATURE)
    })
  })

test("bedrock invoke: a stream has the events' bytes, without Bedrock's metrics", async () => {
  const odd = '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\\u00e4"} , "x": 1.0}'
  const [begin, open, , ...rest] = invokeEvents([{ type: 'text', text: 'a' }])
  upstream.play(() => ({
    do: 'stream',
    headers: { 'content-type': 'application/vnd.amazon.eventstream' },
    pieces: [begin ?? '', open ?? '', odd, ...rest].map(chunk),
    slice: 5,
  }))
  try {
    const response = await fetch(`${gateway.url}/v1/messages`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ...HELLO, stream: true }),
    })
    assert.equal(response.headers.get('content-type'), 'text/event-stream; charset=utf-8')
    const wire = await response.text()
    assert.ok(wire.includes(`event: content_block_delta\ndata: ${odd}\n\n`), wire)
    assert.ok(wire.endsWith('event: message_stop\ndata: {"type":"message_stop"}\n\n'), wire)
  } finally {
    upstream.play(usual)
  }
})

// ── Betas ────────────────────────────────────────────────────────────────────────────────────────────────────────

const send = (body: object, betas?: string) =>
  post(`${gateway.url}/v1/messages`, { ...HELLO, ...body }, betas === undefined ? {} : { 'anthropic-beta': betas })

test('bedrock invoke: betas are in the body, by their names there; the others are named as dropped', async () => {
  const betas = `claude-code-20250219,${THINKING},advanced-tool-use-2025-11-20,prompt-caching-scope-2026-01-05`
  const tools = [{ name: 'f', input_schema: { type: 'object', properties: {} }, defer_loading: true }]
  const system = [{ type: 'text', text: 'a', cache_control: { type: 'ephemeral', scope: 'global' } }]
  const answer = await send({ tools, system }, betas)
  assert.equal(answer.status, 200, answer.text)
  const { json, headers } = lastRequest()
  assert.deepEqual(json.anthropic_beta, [THINKING, SEARCH])
  assert.equal(headers['anthropic-beta'], undefined)
  assert.deepEqual(json.tools, tools)
  assert.deepEqual(json.system, [{ type: 'text', text: 'a', cache_control: { type: 'ephemeral' } }])
  assert.equal(
    answer.headers.get('x-headgate-dropped'),
    'anthropic-beta.claude-code-20250219, anthropic-beta.prompt-caching-scope-2026-01-05, system[0].cache_control.scope',
  )
})

test('bedrock invoke: after a refused beta, once more with those that members need; then it is not sent', async () => {
  upstream.play((request) => invokeProblem(request, ['context-management-2025-06-27']) ?? usual(request))
  try {
    const before = upstream.requests.length
    const edits = { context_management: { edits: [{ type: 'clear_tool_uses_20250919' }] } }
    const first = await send({ ...edits, model: `${MODEL}` }, `${THINKING},context-1m-2025-08-07`)
    assert.equal(first.status, 200, first.text)
    const sent = () => upstream.requests.slice(before).map(({ json }) => json.anthropic_beta)
    const [all, needed] = [
      [THINKING, 'context-1m-2025-08-07', 'context-management-2025-06-27'],
      ['context-management-2025-06-27'],
    ]
    assert.deepEqual(sent(), [all, needed])
    assert.match(first.headers.get('x-headgate-dropped') ?? '', /anthropic-beta\.interleaved-thinking/)
    assert.equal((await send(edits, THINKING)).status, 200)
    assert.deepEqual(sent(), [all, needed, needed])
  } finally {
    upstream.play(usual)
  }
})

test("bedrock invoke: what only Anthropic's own API has needs another target", async () => {
  const before = upstream.requests.length
  const answer = await send({ inference_geo: 'us', service_tier: 'auto' })
  assert.equal(answer.status, 400, answer.text)
  assert.match(answer.text, /inference_geo/)
  assert.equal(upstream.requests.length, before)
  assert.equal((await send({ service_tier: 'auto', speed: 'standard' })).headers.get('x-headgate-dropped'), null)
})

test("bedrock invoke: models since 4.7 receive the client's version of the API, as from the official SDK", async () => {
  upstream.play((request) => invokeAnswer(request, [{ type: 'text', text: 'hi' }]))
  try {
    for (const [model, version] of [
      ['global.anthropic.claude-opus-4-7', '2026-10-21'],
      [CLAUDE, 'bedrock-2023-05-31'],
    ]) {
      await post(
        `${gateway.url}/v1/messages`,
        { ...HELLO, model: `bedrock/${model}` },
        { 'anthropic-version': '2026-10-21' },
      )
      assert.equal(lastRequest().json.anthropic_version, version)
    }
    await post(`${gateway.url}/v1/messages`, { ...HELLO, model: 'bedrock/anthropic.claude-opus-4-7' })
    assert.equal(lastRequest().json.anthropic_version, 'bedrock-2023-05-31')
  } finally {
    upstream.play(usual)
  }
})

// ── Counting ─────────────────────────────────────────────────────────────────────────────────────────────────────

test('bedrock invoke: tokens are counted by the id of the model, without betas', async () => {
  const { messages } = HELLO
  const count = await anthropic.beta.messages.countTokens({ model: MODEL, messages, betas: [THINKING] })
  assert.equal(count.input_tokens, 4_321)
  const { path, json } = lastRequest()
  assert.equal(path, `/model/${encodeURIComponent(CLAUDE.replace('us.', ''))}/count-tokens`)
  const inner = Buffer.from(String(object(object(json.input)?.invokeModel)?.body), 'base64').toString()
  assert.deepEqual(JSON.parse(inner).messages, messages)
  assert.equal(JSON.parse(inner).anthropic_version, 'bedrock-2023-05-31')
})

test('bedrock invoke: a model without a count has an estimate', async () => {
  const model = 'bedrock/anthropic.claude-opus-4-6-v1'
  const answer = await post(`${gateway.url}/v1/messages/count_tokens`, { model, messages: HELLO.messages })
  assert.equal(answer.status, 200, answer.text)
  assert.equal(answer.headers.get('x-headgate-estimated'), 'true')
})

// ── Failures ─────────────────────────────────────────────────────────────────────────────────────────────────────

const failures: readonly (readonly [what: string, act: Act, status: number, words: RegExp])[] = [
  [
    "Anthropic's error inside",
    awsRefusal(
      400,
      'ValidationException',
      '{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}',
    ),
    400,
    /prompt is too long: 210000 tokens > 200000 maximum/,
  ],
  ['no answer', stream([]), 502, /error/],
  [
    'no access',
    awsRefusal(403, 'AccessDeniedException', "You don't have access to the model with the specified model ID."),
    502,
    /access/,
  ],
  ['throttled', awsRefusal(429, 'ThrottlingException', 'Too many requests'), 429, /rate_limit_error/],
  [
    'an exception first',
    stream([exception('throttlingException', { message: 'Too many tokens' })]),
    429,
    /rate_limit_error/,
  ],
]
function stream(pieces: readonly Uint8Array[]): Act {
  return { do: 'stream', headers: { 'content-type': 'application/vnd.amazon.eventstream' }, pieces }
}
for (const [what, act, status, words] of failures)
  test(`bedrock invoke: an error before an answer: ${what}`, async () => {
    const own = await start({ env: { BEDROCK_API_KEY: KEY, BEDROCK_BASE_URL: upstream.url, RETRY_MAX_ATTEMPTS: '1' } })
    upstream.play(() => act)
    try {
      const answer = await post(`${own.url}/v1/messages`, { ...HELLO, stream: true })
      assert.equal(answer.status, status, answer.text)
      assert.match(answer.text, words)
    } finally {
      upstream.play(usual)
      await own.stop()
    }
  })

const WHOLE = invokeEvents([{ type: 'text', text: 'Hello there, my friend.' }]).map(chunk)
const damaged = WHOLE[4]?.map((byte, at) => (at === 60 ? byte ^ 4 : byte)) ?? new Uint8Array()
const breaks: readonly (readonly [what: string, pieces: readonly Uint8Array[], words: RegExp])[] = [
  [
    'an exception',
    [...WHOLE.slice(0, 4), exception('modelStreamErrorException', { message: 'The model fell over.' })],
    /The model fell over\./,
  ],
  ['a wrong checksum', [...WHOLE.slice(0, 4), damaged, ...WHOLE.slice(5)], /cannot be read|not JSON/],
  ['an end without the last event', WHOLE.slice(0, 4), /ended before it was complete/],
]
for (const [what, pieces, words] of breaks)
  test(`bedrock invoke: a stream with ${what} never ends cleanly`, async () => {
    upstream.play(() => stream(pieces))
    try {
      const answer = await post(`${gateway.url}/v1/messages`, { ...HELLO, stream: true })
      assert.equal(answer.status, 200)
      assert.match(answer.text, /event: error\n/)
      assert.match(answer.text, words)
      assert.doesNotMatch(answer.text, /message_stop/)
    } finally {
      upstream.play(usual)
    }
  })

// ── Mantle ───────────────────────────────────────────────────────────────────────────────────────────────────────

test('bedrock-mantle: Claude in its own format, with the key in its header and betas that Mantle takes', async () => {
  const own = await start({ env: { BEDROCK_MANTLE_API_KEY: KEY, BEDROCK_MANTLE_BASE_URL: upstream.url } })
  upstream.play(() => ({
    do: 'answer',
    body: {
      type: 'message',
      role: 'assistant',
      content: [{ type: 'text', text: 'hi' }],
      model: 'm',
      id: 'msg_1',
      stop_reason: 'end_turn',
      stop_sequence: null,
      usage: { input_tokens: 1, output_tokens: 1 },
    },
  }))
  try {
    const model = 'bedrock-mantle/anthropic.claude-sonnet-5'
    const betas = `files-api-2025-04-14,claude-code-20250219,advanced-tool-use-2025-11-20`
    const answer = await post(`${own.url}/v1/messages`, { ...HELLO, model }, { 'anthropic-beta': betas })
    assert.equal(answer.status, 200, answer.text)
    const { path, headers, json } = lastRequest()
    assert.equal(path, '/anthropic/v1/messages')
    assert.deepEqual([headers['x-api-key'], headers.authorization], [KEY, undefined])
    assert.equal(headers['anthropic-version'], '2023-06-01')
    assert.equal(headers['anthropic-beta'], `claude-code-20250219,${SEARCH}`)
    assert.equal(json.model, 'anthropic.claude-sonnet-5')
  } finally {
    upstream.play(usual)
    await own.stop()
  }
})

test('bedrock invoke: no log line contains the key', async () => {
  await gateway.logged()
  assert.ok(!gateway.output().includes(KEY))
})
