/** The official Anthropic SDK for Node, with each of the three upstream formats. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import Anthropic from '@anthropic-ai/sdk'
import { isObject, list, object } from '../../src/core/json.ts'
import { answerWith } from '../support/answers.ts'
import { type Script, startUpstream, type Upstream, until } from '../support/upstream.ts'
import { post, type Started, start } from './support/process.ts'
import { CALLS, KINDS, type Kind, startThreeKinds, TEXT, type ThreeKinds } from './support/three-kinds.ts'

let kinds: ThreeKinds
let client: Anthropic
before(async () => {
  kinds = await startThreeKinds()
  client = new Anthropic({ baseURL: kinds.gateway.url, apiKey: 'any', maxRetries: 0 })
})
after(() => kinds.stop())

const ALL = Object.keys(KINDS) as Kind[]
const modelOf = (kind: Kind, model: string) => `${KINDS[kind]}/${model}`

const TOOLS: Anthropic.Tool[] = [
  {
    name: 'get_weather',
    description: 'The weather.',
    input_schema: {
      type: 'object',
      properties: { city: { type: 'string' }, days: { type: 'integer' } },
      required: ['city', 'days'],
    },
  },
]
const QUESTION: Anthropic.MessageParam[] = [{ role: 'user', content: 'What is the weather in Paris and in Tokyo?' }]
const asking = (kind: Kind, model: string) => ({
  model: modelOf(kind, model),
  max_tokens: 99,
  system: 'Be brief.',
  temperature: 0.3,
  messages: QUESTION,
})

const EXPECTED_CALLS = CALLS.map(({ id, name, arguments: text }) => ({ id, name, input: JSON.parse(text) }))
const callsIn = (content: readonly Anthropic.ContentBlock[]) =>
  content.flatMap((block) =>
    block.type === 'tool_use' ? [{ id: block.id, name: block.name, input: block.input }] : [],
  )
const textIn = (content: readonly Anthropic.ContentBlock[]) =>
  content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('')

for (const kind of ALL)
  describe(`sdk-anthropic: messages over a ${kind} upstream`, () => {
    test('an answer', async () => {
      const { data, response, request_id } = await client.messages
        .create({ ...asking(kind, 'text'), stop_sequences: kind === 'responses' ? [] : ['END'] })
        .withResponse()
      assert.equal(data.type, 'message')
      assert.equal(data.role, 'assistant')
      assert.equal(data.model, 'text')
      assert.equal(textIn(data.content), TEXT)
      assert.equal(data.stop_reason, 'end_turn')
      assert.deepEqual([data.usage.input_tokens, data.usage.output_tokens], [21, 7])
      assert.match(request_id ?? '', /^req_[a-z]+$/)
      assert.equal(response.headers.get('x-request-id'), request_id)
      assert.equal(response.headers.get('x-headgate-provider'), KINDS[kind])
      const { json } = kinds.last(kind)
      assert.equal(json.temperature, 0.3)
      assert.equal(json.max_completion_tokens ?? json.max_output_tokens ?? json.max_tokens, 99)
      assert.match(JSON.stringify(json), /Be brief\./)
    })

    test('a stream', async () => {
      const stream = await client.messages.create({ ...asking(kind, 'text'), stream: true })
      const types: string[] = []
      let receivedText = ''
      let output = 0
      for await (const event of stream) {
        if (types.at(-1) !== event.type) types.push(event.type)
        if (event.type === 'content_block_delta' && event.delta.type === 'text_delta') receivedText += event.delta.text
        if (event.type === 'message_delta') output = event.usage.output_tokens
      }
      assert.equal(receivedText, TEXT)
      assert.equal(output, 7)
      assert.deepEqual(types, [
        'message_start',
        'content_block_start',
        'content_block_delta',
        'content_block_stop',
        'message_delta',
        'message_stop',
      ])
    })

    test('parallel tool calls, whole and with the stream helper, and their results in the next turn', async () => {
      const body = { ...asking(kind, 'both'), tools: TOOLS }
      const whole = await client.messages.create(body)
      const streamed = await client.messages.stream(body).finalMessage()
      for (const answer of [whole, streamed]) {
        assert.equal(answer.stop_reason, 'tool_use')
        assert.equal(textIn(answer.content), 'Let me look.')
        assert.deepEqual(callsIn(answer.content), EXPECTED_CALLS)
      }
      const results = callsIn(streamed.content).map(({ id }) => ({
        type: 'tool_result' as const,
        tool_use_id: id,
        content: `weather of ${id}`,
      }))
      const next = await client.messages.create({
        ...asking(kind, 'text'),
        tools: TOOLS,
        messages: [...QUESTION, { role: 'assistant', content: streamed.content }, { role: 'user', content: results }],
      })
      assert.equal(textIn(next.content), TEXT)
      const sent = JSON.stringify(kinds.last(kind).json)
      for (const { id } of CALLS) {
        assert.match(sent, new RegExp(`weather of ${id}`))
        assert.ok(sent.split(`"${id}"`).length > 2, `${id} links call and result`)
      }
    })

    test('an answer truncated at its token limit', async () => {
      const whole = await client.messages.create(asking(kind, 'cut'))
      const streamed = await client.messages.stream(asking(kind, 'cut')).finalMessage()
      assert.deepEqual([whole.stop_reason, streamed.stop_reason], ['max_tokens', 'max_tokens'])
    })

    test('a stream that breaks in the middle throws', async () => {
      let receivedText = ''
      const problem = await (async () => {
        for await (const event of await client.messages.create({ ...asking(kind, 'breaks'), stream: true }))
          if (event.type === 'content_block_delta' && event.delta.type === 'text_delta')
            receivedText += event.delta.text
      })().catch((caught) => caught)
      assert.ok(receivedText.length > 0 && TEXT.repeat(3).startsWith(receivedText), receivedText)
      assert.ok(problem instanceof Anthropic.APIError, String(problem))
      assert.equal(problem.type, 'api_error')
      const helper = await client.messages
        .stream(asking(kind, 'breaks'))
        .finalMessage()
        .catch((caught) => caught)
      assert.ok(helper instanceof Anthropic.APIError, String(helper))
    })

    test('a routing explanation', async () => {
      const answer = await post(`${kinds.gateway.base}/route`, asking(kind, 'text'))
      assert.equal(answer.status, 200, answer.text)
      assert.equal(answer.json().style, 'messages')
      assert.equal(answer.json().targets[0].provider, KINDS[kind])
      assert.equal(answer.json().targets[0].fit, true)
    })

    if (kind !== 'messages')
      test('a token count is marked as an estimate', async () => {
        const before = kinds.upstreams[kind].requests.length
        const { data, response } = await client.messages
          .countTokens({ model: modelOf(kind, 'text'), messages: QUESTION })
          .withResponse()
        assert.ok(data.input_tokens > 8 && data.input_tokens < 30, String(data.input_tokens))
        assert.equal(response.headers.get('x-headgate-estimated'), 'true')
        assert.equal(kinds.upstreams[kind].requests.length, before)
      })
  })

// After the others, because a rejected key enters a cooldown.
for (const kind of ALL)
  describe(`sdk-anthropic: errors of a ${kind} upstream`, () => {
    for (const [model, status, type, error] of [
      ['bad', 400, 'invalid_request_error', Anthropic.BadRequestError],
      ['limited', 429, 'rate_limit_error', Anthropic.RateLimitError],
      ['down', 502, 'api_error', Anthropic.InternalServerError],
      ['locked', 502, 'api_error', Anthropic.InternalServerError],
    ] as const)
      for (const stream of [false, true])
        test(`the error of ${model}${stream ? ', streamed' : ''}`, async () => {
          const problem = await client.messages.create({ ...asking(kind, model), stream }).catch((caught) => caught)
          assert.ok(problem instanceof error, String(problem))
          assert.equal(problem.status, status)
          assert.equal(problem.type, type)
          assert.match(problem.requestID ?? '', /^req_[a-z]+$/)
          assert.equal(object(problem.error as never)?.request_id, problem.requestID)
        })
  })

test('sdk-anthropic: an unknown model, and the list of models', async () => {
  const listed = await client.models.list()
  assert.ok(listed.data.some(({ id }) => id.includes('text')))
  const problem = await client.messages.create({ ...asking('chat', 'text'), model: '' }).catch((caught) => caught)
  assert.ok(problem instanceof Anthropic.BadRequestError)
})

// ── Anthropic client and Anthropic upstream ──────────────────────────────────────────────────────────────────────

const THOUGHT = 'They want to know the weather.'
const SIGNATURE = 'EqQBCkYIBxgCKkA+/=='
const SHELL = { id: 'msg_1', type: 'message', role: 'assistant', model: 'm', stop_sequence: null }
const USAGE = { input_tokens: 5, output_tokens: 6 }

/** Reasons, counts tokens, or returns its text; slow if the request contains `slow`. */
const thinker: Script = (request) => {
  if (request.method === 'GET') return { do: 'answer', status: 404, body: { error: { message: 'no list' } } }
  if (request.path.includes('/count_tokens')) return { do: 'answer', body: '{"input_tokens": 4242}' }
  if (request.model !== 'thinks')
    return answerWith(request, { text: TEXT }, request.model === 'slow' ? { gap: 60 } : {})
  if (!request.stream)
    return {
      do: 'answer',
      body: {
        ...SHELL,
        content: [
          { type: 'thinking', thinking: THOUGHT, signature: SIGNATURE },
          { type: 'redacted_thinking', data: 'c2VhbGVk' },
          { type: 'text', text: TEXT },
        ],
        stop_reason: 'end_turn',
        usage: USAGE,
      },
    }
  const event = (type: string, more: object) => `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`
  const block = (index: number, content_block: object, ...deltas: readonly object[]) => [
    event('content_block_start', { index, content_block }),
    ...deltas.map((delta) => event('content_block_delta', { index, delta })),
    event('content_block_stop', { index }),
  ]
  return {
    do: 'stream',
    pieces: [
      event('message_start', { message: { ...SHELL, content: [], stop_reason: null, usage: USAGE } }),
      ...block(
        0,
        { type: 'thinking', thinking: '', signature: '' },
        { type: 'thinking_delta', thinking: THOUGHT.slice(0, 9) },
        { type: 'thinking_delta', thinking: THOUGHT.slice(9) },
        { type: 'signature_delta', signature: SIGNATURE },
      ),
      ...block(1, { type: 'redacted_thinking', data: 'c2VhbGVk' }),
      ...block(2, { type: 'text', text: '' }, { type: 'text_delta', text: TEXT }),
      event('message_delta', { delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: 6 } }),
      event('message_stop', {}),
    ],
  }
}

/** A gateway that requires a key, in front of an Anthropic upstream, for one suite. */
const anthropicStage = () => {
  let upstream: Upstream
  let gateway: Started
  let keyed: Anthropic
  before(async () => {
    upstream = await startUpstream(thinker)
    gateway = await start({
      env: {
        ANTHROPIC_API_KEY: 'sk-ant-0000000000',
        ANTHROPIC_BASE_URL: upstream.url,
        ANTHROPIC_MODELS: 'thinks',
        AUTH_KEYS: 'client-key-1',
        KEEP_ALIVE_INTERVAL: '20',
      },
    })
    keyed = new Anthropic({ baseURL: gateway.url, apiKey: 'client-key-1', maxRetries: 0 })
  })
  after(async () => {
    await gateway?.stop()
    await upstream?.close()
  })
  return {
    gateway: () => gateway,
    /** A client with the gateway's key. */
    client: () => keyed,
    /** The last model call or token count that the upstream received. */
    last: () => {
      const request = upstream.requests.findLast(({ method }) => method === 'POST')
      assert.ok(request)
      return request
    },
  }
}

describe('sdk-anthropic: an upstream with reasoning', () => {
  const { gateway, client: keyed, last } = anthropicStage()

  for (const stream of [false, true])
    test(`reasoning and its signature pass unchanged in both directions${stream ? ', streamed' : ''}`, async () => {
      const body = {
        model: 'thinks',
        max_tokens: 4_000,
        messages: QUESTION,
        thinking: { type: 'enabled' as const, budget_tokens: 1_024 },
      }
      const first = stream ? await keyed().messages.stream(body).finalMessage() : await keyed().messages.create(body)
      assert.deepEqual(
        first.content.map((block) => [
          block.type,
          block.type === 'thinking' ? block.signature : block.type === 'redacted_thinking' ? block.data : '',
        ]),
        [
          ['thinking', SIGNATURE],
          ['redacted_thinking', 'c2VhbGVk'],
          ['text', ''],
        ],
      )
      await keyed().messages.create({
        ...body,
        messages: [...QUESTION, { role: 'assistant', content: first.content }, { role: 'user', content: 'And?' }],
      })
      const [, turn] = list(last().json.messages).filter(isObject)
      assert.deepEqual(list(turn?.content).slice(0, 2), [
        { type: 'thinking', thinking: THOUGHT, signature: SIGNATURE },
        { type: 'redacted_thinking', data: 'c2VhbGVk' },
      ])
    })

  test('unknown members, beta headers and the version reach it; the client’s key does not', async () => {
    const body =
      '{"model":"auto","max_tokens":9,"wish":{"n":12345678901234567890},"messages":[{"role":"user","content":"x"}]}'
    const answer = await post(`${gateway().url}/messages?beta=true&x=y`, body, {
      'x-api-key': 'client-key-1',
      'anthropic-beta': 'context-management-2025-06-27,other-1',
      'anthropic-version': '2023-06-01',
    })
    assert.equal(answer.status, 200, answer.text)
    assert.equal(last().path, '/v1/messages?beta=true')
    assert.equal(last().body, body.replace('"auto"', '"thinks"'))
    assert.equal(last().headers['anthropic-beta'], 'context-management-2025-06-27,other-1')
    assert.equal(last().headers['anthropic-version'], '2023-06-01')
    assert.equal(last().key, 'sk-ant-0000000000')
  })

  test('a token count comes from the upstream', async () => {
    const { data, response } = await keyed()
      .messages.countTokens({ model: 'thinks', system: 'Be brief.', messages: QUESTION, tools: TOOLS })
      .withResponse()
    assert.equal(data.input_tokens, 4242)
    assert.equal(response.headers.get('x-headgate-estimated'), null)
    assert.equal(response.headers.get('x-headgate-provider'), 'anthropic')
    assert.equal(last().path, '/v1/messages/count_tokens')
    assert.equal(last().key, 'sk-ant-0000000000')
    assert.equal(last().json.max_tokens, undefined)
    await gateway().line(({ event, style }) => event === 'request' && style === 'count_tokens')
  })

  test('a wrong key and an unknown path raise the SDK’s own errors', async () => {
    const stranger = new Anthropic({ baseURL: gateway().url, apiKey: 'wrong', maxRetries: 0 })
    const refused = await stranger.messages
      .create({ model: 'm', max_tokens: 9, messages: QUESTION })
      .catch((caught) => caught)
    assert.ok(refused instanceof Anthropic.AuthenticationError, String(refused))
    assert.equal(refused.type, 'authentication_error')
    const nowhere = await keyed()
      .messages.batches.list()
      .catch((caught) => caught)
    assert.ok(nowhere instanceof Anthropic.NotFoundError, String(nowhere))
    assert.equal(nowhere.type, 'not_found_error')
  })
})

describe('sdk-anthropic: a slow upstream', () => {
  const { gateway, client: keyed, last } = anthropicStage()

  test('while the upstream is slow the client receives pings', async () => {
    const response = await fetch(`${gateway().url}/v1/messages`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-api-key': 'client-key-1' },
      body: JSON.stringify({ model: 'anthropic/slow', max_tokens: 9, stream: true, messages: QUESTION }),
    })
    const events = (await response.text()).split('\n\n')
    const begun = events.findIndex((event) => event.includes('event: message_start'))
    const isPing = (event: string) => event.startsWith('event: ping\ndata: ')
    assert.ok(begun >= 0)
    // On a busy machine pings also precede the answer.
    assert.ok(events.slice(0, begun).every(isPing), events.join('\n'))
    assert.ok(events.slice(begun).filter(isPing).length > 3, events.join('\n'))
    assert.match(events.at(-2) ?? '', /^event: message_stop/)
  })

  test('a disconnect aborts the upstream call', async () => {
    const stream = await keyed().messages.create({
      model: 'anthropic/slow',
      max_tokens: 9,
      stream: true,
      messages: QUESTION,
    })
    for await (const event of stream) if (event.type === 'content_block_delta') break
    await until('the upstream call is released', () => last().model === 'slow' && last().ended === 'aborted')
  })
})
