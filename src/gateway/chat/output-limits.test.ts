import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chatAnswer, gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import type { ScriptedCall } from '../../../test/support/still-world.ts'
import type { ClientProtocolName, UpstreamProtocolName } from '../../core/chat.ts'
import type { Catalogue } from '../../core/config.ts'
import openai from '../../providers/openai.ts'

const MESSAGES_ANSWER =
  '{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":1}}'
const RESPONSES_ANSWER =
  '{"id":"resp_1","object":"response","created_at":1,"status":"completed","model":"m","output":[{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"ok","annotations":[]}]}],"usage":{"input_tokens":3,"output_tokens":1,"total_tokens":4}}'

type Wire = {
  readonly protocol: UpstreamProtocolName
  readonly limitOf: (body: Record<string, unknown>) => unknown
  readonly answer: (asked: ScriptedCall) => void
}
const whole = (text: string) => (asked: ScriptedCall) => respondWith.json(asked, 200, text)
const CHAT: Wire = {
  protocol: 'openai-chat',
  limitOf: ({ max_tokens, max_completion_tokens }) => max_completion_tokens ?? max_tokens,
  answer: (asked) =>
    asked.headers.accept === 'text/event-stream'
      ? respondWith.stream(asked, chatAnswer.stream('o', 'k'))
      : respondWith.json(asked, 200, chatAnswer.whole('ok')),
}
const MESSAGES: Wire = {
  protocol: 'anthropic-messages',
  limitOf: ({ max_tokens }) => max_tokens,
  answer: whole(MESSAGES_ANSWER),
}
const RESPONSES: Wire = {
  protocol: 'openai-responses',
  limitOf: ({ max_output_tokens }) => max_output_tokens,
  answer: whole(RESPONSES_ANSWER),
}
const BEDROCK: Wire = {
  protocol: 'bedrock-converse',
  limitOf: ({ inferenceConfig }) => (inferenceConfig as { maxTokens?: number } | undefined)?.maxTokens,
  answer: whole(
    '{"output":{"message":{"role":"assistant","content":[{"text":"ok"}]}},"stopReason":"end_turn","usage":{"inputTokens":3,"outputTokens":1,"totalTokens":4}}',
  ),
}

/** A server that takes at most `most` output tokens, and refuses more with these words. */
const limited =
  ({ limitOf, answer }: Wire, most: number, refusal: (sent: number) => string, status = 400) =>
  (asked: ScriptedCall) => {
    const sent = Number(limitOf(JSON.parse(asked.body ?? '{}')) ?? 0)
    if (sent <= most) answer(asked)
    else respondWith.json(asked, status, refusal(sent))
  }

/** Requests of 32,000 output tokens, as Claude Code makes them. `at`: the client's member. */
const clients: readonly (readonly [ClientProtocolName, at: string, body: object])[] = [
  ['openai-chat', 'max_tokens', { messages: [{ role: 'user', content: 'hi' }], max_tokens: 32_000 }],
  [
    'openai-chat',
    'max_completion_tokens',
    { messages: [{ role: 'user', content: 'hi' }], max_completion_tokens: 32_000 },
  ],
  ['openai-responses', 'max_output_tokens', { input: 'hi', store: false, max_output_tokens: 32_000 }],
  ['anthropic-messages', 'max_tokens', { messages: [{ role: 'user', content: 'hi' }], max_tokens: 32_000 }],
  ['openai-completions', 'max_tokens', { prompt: 'hi', max_tokens: 32_000 }],
]

const error = (message: string, more: object = {}) =>
  JSON.stringify({ error: { message, type: 'invalid_request_error', param: null, code: null, ...more } })

/** Real refusals; `output-limit.test.ts` and `context-overflow.test.ts` have more. */
const servers: readonly (readonly [thread: string, wire: Wire, most: number, refusal: (sent: number) => string])[] = [
  [
    'OpenAI, enoch3712/ExtractThinker#346',
    CHAT,
    16_384,
    (sent) =>
      error(
        `max_tokens is too large: ${sent}. This model supports at most 16384 completion tokens, whereas you provided ${sent}.`,
        { param: 'max_tokens', code: 'invalid_value' },
      ),
  ],
  [
    'Anthropic, continuedev/continue#4225',
    MESSAGES,
    4_096,
    (sent) =>
      `{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: ${sent} > 4096, which is the maximum allowed number of output tokens for claude-3-haiku-20240307"}}`,
  ],
  [
    'Bedrock, sigoden/aichat#813',
    BEDROCK,
    4_096,
    () =>
      '{"message":"The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value that is lower than 4096."}',
  ],
  [
    'Doubao, Gitlawb/openclaude#331',
    CHAT,
    12_288,
    (sent) =>
      error(
        `The parameter \`max_completion_tokens\` specified in the request are not valid: integer above maximum value, expected a value <= 12288, but got ${sent} instead.`,
        { code: 'InvalidParameter', type: 'BadRequest', param: 'max_completion_tokens' },
      ),
  ],
  ['Groq, anomalyco/opencode#1000', CHAT, 16_384, () => error('`max_tokens` must be less than or equal to `16384`')],
  ['OpenAI, responses', RESPONSES, 8_192, () => error('Range of max_output_tokens should be [1, 8192]')],
  [
    'vLLM, vllm-project/vllm#42474',
    CHAT,
    32_768 - 3_758,
    (sent) =>
      error(
        `'max_tokens' or 'max_completion_tokens' is too large: ${sent}. This model's maximum context length is 32768 tokens and your request has 3758 input tokens (${sent} > 32768 - 3758).`,
        { type: 'BadRequestError', code: 400 },
      ),
  ],
  [
    'SGLang, older OpenAI models, Chanzhaoyu/chatgpt-web#372',
    CHAT,
    8_192 - 3_118,
    (sent) =>
      error(
        `This model's maximum context length is 8192 tokens. However, you requested ${sent + 3_118} tokens (3118 in the messages, ${sent} in the completion). Please reduce the length of the messages or completion.`,
        { param: 'messages', code: 'context_length_exceeded' },
      ),
  ],
  [
    'Claude 3, anthropics/claude-code#408',
    MESSAGES,
    20_000,
    (sent) =>
      `{"type":"error","error":{"type":"invalid_request_error","message":"input length and \`max_tokens\` exceed context limit: 184648 + ${sent} > 204648, decrease input length or \`max_tokens\` and try again"}}`,
  ],
  [
    'SGLang, Workers AI, anomalyco/models.dev#4422',
    CHAT,
    33_000 - 1_216,
    (sent) =>
      error(
        `Requested token count exceeds the model's maximum context length of 33000 tokens. You requested a total of ${sent + 1_216} tokens: 1216 tokens from the input messages and ${sent} tokens for the completion.`,
      ),
  ],
  [
    'Text Generation Inference, stanford-crfm/helm#2079',
    CHAT,
    96,
    (sent) =>
      error(
        `Input validation error: \`inputs\` tokens + \`max_new_tokens\` must be <= 4096. Given: 4000 \`inputs\` tokens and ${sent} \`max_new_tokens\``,
      ),
  ],
]

for (const [thread, wire, most, refusal] of servers)
  for (const [style, at, body] of clients)
    for (const stream of wire === CHAT ? [false, true] : [false])
      test(`output limit: ${thread}: lowered for ${style} (${at})${stream ? ', streamed' : ''}`, async () => {
        const target = instance('a', ['k1'], { speaks: [{ protocol: wire.protocol }] })
        const { send, world } = gatewayHarness([target], limited(wire, most, refusal))
        const request = { model: 'm', stream, ...body }
        const reply = send(request, style)
        await world.advance(0)
        assert.equal(reply.status, 200, reply.text)
        assert.equal(reply.headers['x-headgate-dropped'], at)
        const limits = world.calls.map(({ body = '' }) => wire.limitOf(JSON.parse(body)))
        assert.deepEqual(limits, [32_000, most])
        const smaller = send({ ...request, [at]: 64 }, style)
        await world.advance(0)
        assert.equal(smaller.status, 200, smaller.text)
        assert.equal(smaller.headers['x-headgate-dropped'], undefined)
      })

for (const at of ['OpenAI', 'vLLM'])
  test(`output limit: what ${at} states is remembered, so that the next request is sent once`, async () => {
    const [, wire, most, refusal] = servers.find(([thread]) => thread.startsWith(at)) ?? assert.fail()
    const { send, world } = gatewayHarness([instance('a')], limited(wire, most, refusal))
    const content = 'The quick brown fox jumps over the lazy dog. '.repeat(375)
    const body = { model: 'm', messages: [{ role: 'user', content }], max_tokens: 32_000 }
    for (const calls of [2, 3]) {
      const reply = send(body)
      await world.advance(0)
      assert.equal(reply.status, 200, reply.text)
      assert.equal(reply.headers['x-headgate-dropped'], 'max_tokens')
      assert.equal(world.calls.length, calls)
    }
  })

test('output limit: a prompt that does not fit is a context_length_exceeded', async () => {
  const { send, world } = gatewayHarness([instance('a')], (asked) =>
    respondWith.json(
      asked,
      400,
      error(
        "'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context length is 32768 tokens and your request has 32758 input tokens (32000 > 32768 - 32758).",
      ),
    ),
  )
  const reply = send({ model: 'm', messages: [{ role: 'user', content: 'hi' }], max_tokens: 32_000 })
  await world.advance(0)
  assert.equal(reply.json.error.code, 'context_length_exceeded', reply.text)
  assert.equal(world.calls.length, 1)
})

test('output limit: a figure that only says what is left of the window is not believed (0xku/kon#91)', async () => {
  const window = 196_608
  const { send, world } = gatewayHarness([instance('a')], (asked) => {
    const sent = Number(CHAT.limitOf(JSON.parse(asked.body ?? '{}')))
    if (sent <= 20_000) return CHAT.answer(asked)
    respondWith.json(
      asked,
      400,
      error(
        `This model's maximum context length is ${window} tokens. However, you requested ${sent} output tokens and your prompt contains at least ${window - sent + 1} input tokens, for a total of at least ${window + 1} tokens. Please reduce the length of the input prompt or the number of requested output tokens.`,
      ),
    )
  })
  const reply = send({ model: 'm', messages: [{ role: 'user', content: 'hi' }], max_tokens: 64_000 })
  await world.advance(0)
  assert.equal(reply.status, 200, reply.text)
  assert.ok(world.calls.length <= 3)
})

test('output limit: Z.ai blames the prompt and states no figures (can1357/oh-my-pi#12741)', async () => {
  const facts: Catalogue = () => ({ contextWindow: 200_000, maxOutputTokens: 131_072 })
  const refusal = () =>
    '{"type":"error","error":{"type":"invalid_request_error","code":"1261","message":"[1261][prompt is too long][...]"}}'
  const speaks = [{ protocol: MESSAGES.protocol }]
  // 73,470 tokens of prompt.
  const { send, world } = gatewayHarness(
    [instance('a', ['k1'], { speaks })],
    limited(MESSAGES, 200_000 - 73_470, refusal),
    {},
    facts,
  )
  const content = 'The quick brown fox jumps over the lazy dog. '.repeat(7_000)
  const reply = send({ model: 'm', messages: [{ role: 'user', content }], max_tokens: 131_072 }, 'anthropic-messages')
  await world.advance(0)
  assert.equal(reply.status, 200, reply.text)
  assert.equal(reply.headers['x-headgate-dropped'], 'max_tokens')
  assert.equal(world.calls.length, 2)
})

test('output limit: it is tried a few times only, then the next target is tried', async () => {
  const refuse = (asked: ScriptedCall) => respondWith.json(asked, 400, servers[4]?.[3](0) ?? '')
  const { send, world } = gatewayHarness([instance('a'), instance('b')], (asked) =>
    new URL(asked.url).host === 'b.test' ? CHAT.answer(asked) : refuse(asked),
  )
  const reply = send({ model: 'm', messages: [{ role: 'user', content: 'hi' }], max_tokens: 32_000 })
  await world.advance(0)
  assert.ok(world.calls.filter(({ url }) => new URL(url).host === 'a.test').length <= 2)
  assert.ok(reply.status !== null)
})

test('output limit: a thinking budget is lowered with it', async () => {
  const [, wire, , refusal] = servers[1] ?? assert.fail()
  const speaks = [{ protocol: wire.protocol }]
  const { send, world } = gatewayHarness([instance('a', ['k1'], { speaks })], limited(wire, 4_096, refusal))
  const thinking = { type: 'enabled', budget_tokens: 31_999 }
  const body = { model: 'm', messages: [{ role: 'user', content: 'hi' }], max_tokens: 32_000, thinking }
  const reply = send(body, 'anthropic-messages')
  await world.advance(0)
  assert.equal(reply.status, 200, reply.text)
  assert.deepEqual(JSON.parse(world.calls[1]?.body ?? '').thinking, { type: 'enabled', budget_tokens: 4_095 })
  assert.equal(reply.headers['x-headgate-dropped'], 'max_tokens, thinking.budget_tokens')
})

// ── In advance ───────────────────────────────────────────────────────────────────────────────────────────────────

const PROMPT = 'The quick brown fox jumps over the lazy dog. '.repeat(300)

for (const [style, at, body] of clients)
  test(`output limit: ${style} (${at}): lowered in advance where the model list states the window`, async () => {
    const { send, world, gateway } = gatewayHarness([instance('a')], CHAT.answer)
    gateway.health.limits.list('a', new Map([['m', { contextWindow: 32_768 }]]))
    const prompt =
      style === 'openai-responses'
        ? { input: PROMPT }
        : style === 'openai-completions'
          ? { prompt: PROMPT }
          : { messages: [{ role: 'user', content: PROMPT }] }
    const reply = send({ model: 'm', ...body, ...prompt }, style)
    await world.advance(0)
    assert.equal(reply.status, 200, reply.text)
    const sent = Number(CHAT.limitOf(JSON.parse(world.calls[0]?.body ?? '')))
    assert.ok(sent > 24_000 && sent < 32_768 - 3_000, String(sent))
    assert.equal(reply.headers['x-headgate-dropped'], at)
    // What fits is not changed.
    const smaller = send({ model: 'm', ...body, ...prompt, [at]: 1_000 }, style)
    await world.advance(0)
    assert.equal(smaller.headers['x-headgate-dropped'], undefined)
  })

const catalogue: Catalogue = () => ({ contextWindow: 200_000, maxOutputTokens: 16_384 })

test('output limit: of the catalogue, it is lowered for translated requests; the same format is tried as it is', async () => {
  for (const [style, , body] of clients) {
    const { send, world } = gatewayHarness([instance('a')], CHAT.answer, {}, catalogue)
    send({ model: 'm', ...body }, style)
    await world.advance(0)
    const sent = CHAT.limitOf(JSON.parse(world.calls[0]?.body ?? ''))
    assert.equal(sent, style === 'openai-chat' ? 32_000 : 16_384, style)
  }
})

test('output limit: an estimated prompt that leaves little room is left to the server', async () => {
  const { send, world, gateway } = gatewayHarness([instance('a')], CHAT.answer)
  gateway.health.limits.list('a', new Map([['m', { contextWindow: 4_096 }]]))
  send({ model: 'm', messages: [{ role: 'user', content: PROMPT }], max_tokens: 2_000 })
  await world.advance(0)
  assert.equal(CHAT.limitOf(JSON.parse(world.calls[0]?.body ?? '')), 2_000)
})

// ── What an account or a minute has left ────────────────────────────────────────────────────────────────────────────

const credits = (requested: number, affordable: number) =>
  JSON.stringify({
    error: {
      message: `This request requires more credits, or fewer max_tokens. You requested up to ${requested} tokens, but can only afford ${affordable}. To increase, visit https://openrouter.ai/settings/credits and upgrade to a paid account`,
      code: 402,
      metadata: { provider_name: null },
    },
    user_id: 'user_1',
  })
const groq = (limit: number, requested: number) =>
  JSON.stringify({
    error: {
      message: `Request too large for model \`openai/gpt-oss-20b\` in organization \`org_01\` service tier \`on_demand\` on tokens per minute (TPM): Limit ${limit}, Requested ${requested}, please reduce your message size and try again. Need more tokens? Upgrade to Dev Tier today at https://console.groq.com/settings/billing`,
      type: 'tokens',
      code: 'rate_limit_exceeded',
    },
  })
const tooLarge = (limit: number, requested: number) =>
  JSON.stringify({
    error: {
      message: `Request too large for gpt-4o on tokens per min (TPM): Limit ${limit}, Requested ${requested}. The input or output tokens must be reduced in order to run successfully.`,
      type: 'tokens',
      code: 'rate_limit_exceeded',
    },
  })

/** [thread, status, most output tokens, refusal of a request] */
const means: readonly (readonly [string, number, number, (sent: number) => string])[] = [
  ['OpenRouter, Gitlawb/openclaude#1125', 402, 27_342, (sent) => credits(sent, 27_342)],
  ['OpenRouter, continuedev/continue#11154', 402, 222, (sent) => credits(sent, 222)],
  ['Groq, zeeyado/koassistant.koplugin#106', 413, 8_000 - 211, (sent) => groq(8_000, sent + 211)],
  ['OpenAI, vanna-ai/vanna-flask#11', 429, 30_000 - 4_389, (sent) => tooLarge(30_000, sent + 4_389)],
]
const OPENAI_ERRORS = { quirks: { errors: openai.quirks.errors } }
for (const [thread, status, most, refusal] of means)
  for (const [style, at, body] of clients)
    for (const stream of [false, true])
      test(`output limit: ${thread}: lowered for ${style} (${at})${stream ? ', streamed' : ''}`, async () => {
        const { send, world } = gatewayHarness(
          [instance('a', ['k1'], OPENAI_ERRORS), instance('b')],
          limited(CHAT, most, refusal, status),
        )
        for (const calls of [2, 4]) {
          const reply = send({ model: 'm', stream, ...body }, style)
          await world.advance(0)
          assert.equal(reply.status, 200, reply.text)
          assert.equal(reply.headers['x-headgate-dropped'], at)
          assert.equal(reply.headers['x-headgate-provider'], 'a', 'the key does not rest')
          assert.equal(world.calls.length, calls)
        }
        assert.equal(CHAT.limitOf(JSON.parse(world.calls[1]?.body ?? '{}')), most)
      })

for (const [style, at, body] of [
  ['openai-chat', 'max_completion_tokens', { messages: [{ role: 'user', content: 'hi' }] }],
  ['openai-responses', 'max_output_tokens', { input: 'hi', store: false }],
] as const)
  test(`output limit: a request without one gets what the account can afford (${style}, can1357/oh-my-pi#9569)`, async () => {
    const { send, world } = gatewayHarness([instance('a'), instance('b')], (asked) =>
      (CHAT.limitOf(JSON.parse(asked.body ?? '{}')) ?? 65_536) === 30_104
        ? CHAT.answer(asked)
        : respondWith.json(asked, 402, credits(65_536, 30_104)),
    )
    const reply = send({ model: 'm', ...body }, style)
    await world.advance(0)
    assert.equal(reply.status, 200, reply.text)
    assert.equal(reply.headers['x-headgate-dropped'], at)
    assert.equal(reply.headers['x-headgate-provider'], 'a')
  })

/** Refusals after which the next target is tried: [name, status, bodies in order, calls of the first target] */
const without: readonly (readonly [string, number, readonly ((sent: number) => string)[], number])[] = [
  ['nothing is left (anomalyco/opencode#12219)', 402, [(sent) => credits(sent, 0)], 1],
  ['hardly anything is left', 402, [(sent) => credits(sent, 20)], 1],
  ['less is left at the second attempt', 402, [(sent) => credits(sent, 5_365), (sent) => credits(sent, 5_050)], 2],
  ['the prompt alone is above the limit', 413, [(sent) => groq(6_000, sent + 12_328)], 1],
  ['no figures', 402, [() => '{"error":{"code":402,"message":"Insufficient credits"}}'], 1],
]
for (const [name, status, bodies, calls] of without)
  test(`output limit: the next target is tried if ${name}`, async () => {
    let nth = 0
    const { send, world } = gatewayHarness([instance('a'), instance('b')], (asked) => {
      if (new URL(asked.url).host === 'b.test') return CHAT.answer(asked)
      const sent = Number(CHAT.limitOf(JSON.parse(asked.body ?? '{}')))
      respondWith.json(asked, status, (bodies[nth++] ?? bodies[0])?.(sent) ?? '')
    })
    const reply = send({ model: 'm', messages: [{ role: 'user', content: 'hi' }], max_tokens: 32_000 })
    await world.advance(0)
    assert.equal(reply.status, 200, reply.text)
    assert.equal(reply.headers['x-headgate-provider'], 'b')
    assert.equal(reply.headers['x-headgate-dropped'], undefined)
    assert.equal(nth, calls)
  })
