/** What is charged for answers whose usage has other names, other places or values that cannot be counts. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chatAnswer, gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import type { UpstreamProtocolName } from '../../core/chat.ts'
import { formatDollars } from '../../core/money.ts'
import { summarize } from '../../core/trace-summary.ts'

/** Nano-dollars per token. */
const PRICES = { input: 1_000, output: 3_000, cacheRead: 100, cacheWrite: 1_250, cacheWrite1h: 2_000 }
const catalogue = () => ({ prices: PRICES })
const QUESTION = { model: 'm', max_tokens: 90, messages: [{ role: 'user', content: 'hello' }] }
const speaking = (protocol: UpstreamProtocolName) => [instance('a', ['k1'], { speaks: [{ protocol }] })]

/** What a client of messages receives for a whole answer, and what it is charged. */
const whole = async (body: object, protocol: UpstreamProtocolName = 'openai-chat') => {
  const { send, world, events } = gatewayHarness(
    speaking(protocol),
    (asked) => respondWith.json(asked, 200, JSON.stringify(body)),
    {},
    catalogue,
  )
  const reply = send(QUESTION, protocol === 'anthropic-messages' ? 'openai-chat' : 'anthropic-messages')
  await world.advance(3_000)
  return { reply, ...recordedIn(events) }
}

/** The same for a stream. */
const streamed = async (text: string, protocol: UpstreamProtocolName = 'openai-chat') => {
  const { send, world, events } = gatewayHarness(
    speaking(protocol),
    (asked) => respondWith.stream(asked, text),
    {},
    catalogue,
  )
  const reply = send({ ...QUESTION, stream: true }, 'anthropic-messages')
  await world.advance(3_000)
  return { reply, ...recordedIn(events) }
}

const recordedIn = (events: ReturnType<typeof gatewayHarness>['events']) => {
  const line = events.find(({ event }) => event === 'request')
  assert.ok(line?.event === 'request')
  const { usage, estimated = false, cost } = summarize(line.trace)
  const { input, output, cacheRead = 0, cacheWrite = 0 } = usage ?? assert.fail('no usage')
  return { counts: [input, output, cacheRead, cacheWrite], estimated, cost }
}

const chat = (usage: unknown, content = 'ok', more: object = {}) => ({
  id: 'c',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
  ...(usage !== undefined && { usage }),
  ...more,
})
const event = (body: object) => `data: ${JSON.stringify(body)}\n\n`

const due = ([input = 0, output = 0, read = 0, write = 0]: readonly number[]) =>
  (input - read - write) * PRICES.input + output * PRICES.output + read * PRICES.cacheRead + write * PRICES.cacheWrite

// ── Names ───────────────────────────────────────────────────────────────────────────────────────────────────────────

const basic = { prompt_tokens: 10_032, completion_tokens: 5, total_tokens: 10_037 }

/** Usage objects as in the threads, and their input, output, reads and writes. */
const NAMES: readonly (readonly [name: string, usage: object, counts: readonly number[]])[] = [
  [
    'epam/ai-dial-adapter-openai#525: Alibaba, among the details',
    {
      ...basic,
      prompt_tokens_details: {
        cached_tokens: 0,
        cache_creation_input_tokens: 10_017,
        cache_creation: { ephemeral_5m_input_tokens: 10_017 },
        cache_type: 'ephemeral',
      },
    },
    [10_032, 5, 0, 10_017],
  ],
  [
    'langchain-ai/langchainjs#11194: LiteLLM, in both places',
    {
      ...basic,
      prompt_tokens_details: { cached_tokens: 0, cache_creation_tokens: 10_017 },
      cache_creation_input_tokens: 10_017,
      cache_read_input_tokens: 0,
    },
    [10_032, 5, 0, 10_017],
  ],
  [
    'Databricks, at the top alone',
    { ...basic, cache_creation_input_tokens: 17, cache_read_input_tokens: 10_000 },
    [10_032, 5, 10_000, 17],
  ],
  [
    'earendil-works/pi#8075: Moonshot',
    { prompt_tokens: 19, completion_tokens: 13, total_tokens: 32, cached_tokens: 12 },
    [19, 13, 12, 0],
  ],
  ['DeepSeek', { ...basic, prompt_cache_hit_tokens: 9_984, prompt_cache_miss_tokens: 48 }, [10_032, 5, 9_984, 0]],
  [
    "Gemini's names",
    {
      prompt_token_count: 300,
      candidates_token_count: 20,
      cached_content_token_count: 200,
      thoughts_token_count: 7,
      total_token_count: 327,
    },
    [300, 27, 200, 0],
  ],
  [
    'names of the responses API',
    { input_tokens: 300, output_tokens: 20, total_tokens: 320, input_tokens_details: { cached_tokens: 200 } },
    [300, 20, 200, 0],
  ],
  [
    'an input without its cached part, as the total shows',
    {
      prompt_tokens: 32,
      completion_tokens: 5,
      total_tokens: 10_037,
      cache_read_input_tokens: 10_000,
    },
    [10_032, 5, 10_000, 0],
  ],
]
for (const [name, usage, counts] of NAMES) {
  const [input = 0, output = 0, read = 0, write = 0] = counts
  const inMessages = {
    input_tokens: input - read - write,
    cache_creation_input_tokens: write,
    cache_read_input_tokens: read,
    output_tokens: output,
  }
  test(`usage under other names: ${name}`, async () => {
    const answer = await whole(chat(usage))
    assert.deepEqual(answer.counts, counts)
    assert.equal(answer.reply.headers['x-headgate-cost'], formatDollars(due(counts)))
    assert.equal(answer.reply.headers['x-headgate-usage'], 'exact')
    const { output_tokens_details: _, ...shown } = answer.reply.json.usage
    assert.deepEqual(shown, inMessages)

    const stream = await streamed(
      chatAnswer.chunk({ content: 'ok' }) +
        chatAnswer.chunk({}, 'stop') +
        event({ id: 'c', choices: [], usage }) +
        chatAnswer.done,
    )
    assert.deepEqual([stream.counts, stream.estimated, stream.cost], [counts, false, due(counts)])
  })
}

// ── Places ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const counted = {
  prompt_tokens: 300,
  completion_tokens: 20,
  total_tokens: 320,
  prompt_tokens_details: { cached_tokens: 200 },
}
const COUNTS = [300, 20, 200, 0]
const choice = (delta: object, finish: string | null, more: object = {}) => ({
  id: 'c',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'm',
  choices: [{ index: 0, delta, finish_reason: finish, ...more }],
})

const PLACES: readonly (readonly [name: string, chunks: readonly object[]])[] = [
  ['earendil-works/pi#2017: in the choice', [choice({ content: 'ok' }, null), choice({}, 'stop', { usage: counted })]],
  ['in `x_groq`', [choice({ content: 'ok' }, null), { ...choice({}, 'stop'), x_groq: { id: 'r', usage: counted } }]],
  ['in the only chunk', [{ ...choice({ content: 'ok' }, 'stop'), usage: counted }]],
  [
    'open-webui/open-webui#29064: cumulative, in every chunk',
    [
      { ...choice({ content: 'o' }, null), usage: { ...counted, completion_tokens: 1, total_tokens: 301 } },
      { ...choice({ content: 'k' }, null), usage: { ...counted, completion_tokens: 9, total_tokens: 309 } },
      { ...choice({}, 'stop'), usage: counted },
    ],
  ],
  [
    'openai/openai-agents-python#2126: in a chunk before the last',
    [choice({ content: 'ok' }, null), { ...choice({}, null), usage: counted }, choice({}, 'stop')],
  ],
  [
    'ggml-org/llama.cpp#15827: as timings',
    [
      choice({ content: 'ok' }, null),
      { ...choice({}, 'stop'), timings: { cache_n: 200, prompt_n: 100, prompt_ms: 30.958, predicted_n: 20 } },
    ],
  ],
  [
    'before a report of zeros',
    [
      { ...choice({ content: 'ok' }, null), usage: counted },
      { ...choice({}, 'stop'), usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 } },
    ],
  ],
  [
    'each side in a chunk of its own',
    [
      { ...choice({ content: 'ok' }, null), usage: { ...counted, completion_tokens: 0, total_tokens: 300 } },
      { ...choice({}, 'stop'), usage: { prompt_tokens: 0, completion_tokens: 20, total_tokens: 20 } },
    ],
  ],
]
for (const [name, chunks] of PLACES)
  test(`usage at another place of a stream: ${name}`, async () => {
    const { counts, estimated, cost } = await streamed(chunks.map(event).join('') + chatAnswer.done)
    assert.deepEqual([counts, estimated, cost], [COUNTS, false, due(COUNTS)])
  })

for (const [name, body] of [
  ['in the choice', { choices: [{ index: 0, message: { content: 'ok' }, finish_reason: 'stop', usage: counted }] }],
  ['in the message', { choices: [{ index: 0, message: { content: 'ok', usage: counted }, finish_reason: 'stop' }] }],
  ['in `x_groq`', { x_groq: { usage: counted } }],
] as const)
  test(`usage at another place of a whole answer: ${name}`, async () => {
    const { counts, reply } = await whole({ ...chat(undefined), ...body })
    assert.deepEqual(counts, COUNTS)
    assert.equal(reply.headers['x-headgate-cost'], formatDollars(due(COUNTS)))
  })

// ── Totals ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Recorded at Gemini's OpenAI endpoint (BerriAI/litellm#41388): thoughts are in the total alone. */
const TOTALS: readonly (readonly [name: string, usage: object, counts: readonly number[]])[] = [
  ['thoughts', { prompt_tokens: 7, completion_tokens: 12, total_tokens: 402 }, [7, 395, 0, 0]],
  ['thoughts without a text', { prompt_tokens: 35, completion_tokens: 0, total_tokens: 109 }, [35, 74, 0, 0]],
  ['the completion', { prompt_tokens: 7, total_tokens: 402 }, [7, 395, 0, 0]],
  ['the prompt', { completion_tokens: 12, total_tokens: 19 }, [7, 12, 0, 0]],
  [
    'reasoning beside the output',
    {
      prompt_tokens: 20,
      completion_tokens: 9,
      total_tokens: 330,
      completion_tokens_details: { reasoning_tokens: 301 },
    },
    [20, 310, 0, 0],
  ],
  ['a total that is too small', { prompt_tokens: 7, completion_tokens: 12, total_tokens: 3 }, [7, 12, 0, 0]],
]
for (const [name, usage, counts] of TOTALS)
  test(`usage that only the total shows: ${name}`, async () => {
    const { counts: found, reply } = await whole(chat(usage))
    assert.deepEqual(found, counts)
    assert.equal(reply.headers['x-headgate-cost'], formatDollars(due(counts)))
    assert.equal(reply.headers['x-headgate-usage'], 'exact')
  })

for (const [name, body, protocol, counts] of [
  [
    'Gemini',
    {
      candidates: [{ content: { role: 'model', parts: [{ text: 'ok' }] }, finishReason: 'STOP' }],
      usageMetadata: { promptTokenCount: 7, candidatesTokenCount: 12, totalTokenCount: 402 },
    },
    'gemini',
    [7, 395, 0, 0],
  ],
  [
    'responses',
    {
      id: 'r',
      object: 'response',
      status: 'completed',
      output: [{ type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'ok', annotations: [] }] }],
      usage: { input_tokens: 7, output_tokens: 12, total_tokens: 402 },
    },
    'openai-responses',
    [7, 395, 0, 0],
  ],
  [
    'Converse',
    {
      output: { message: { role: 'assistant', content: [{ text: 'ok' }] } },
      stopReason: 'end_turn',
      usage: { inputTokens: 7, outputTokens: 12, totalTokens: 402, cacheReadInputTokens: 100 },
    },
    'bedrock-converse',
    [107, 295, 100, 0],
  ],
  [
    'messages, of a server that includes cached tokens in the input',
    {
      type: 'message',
      role: 'assistant',
      content: [{ type: 'text', text: 'ok' }],
      stop_reason: 'end_turn',
      usage: { input_tokens: 300, output_tokens: 20, total_tokens: 320, cache_read_input_tokens: 200 },
    },
    'anthropic-messages',
    [300, 20, 200, 0],
  ],
] as const)
  test(`usage that only the total shows: ${name}`, async () => {
    const found = await whole(body, protocol)
    assert.deepEqual([found.counts, found.cost], [[...counts], due(counts)])
  })

// ── Values that cannot be counts ────────────────────────────────────────────────────────────────────────────────────

const TEXT = 'It is a pleasure to answer this. '.repeat(20)
const INVALID = [-1, 12.5, '12', 2 ** 53, 1e12, 4_294_967_295, null, true, {}, undefined]
for (const value of INVALID) {
  const shown = JSON.stringify(value) ?? 'absent'
  test(`a completion count of ${shown} is unknown, so the output is estimated`, async () => {
    const { counts, reply } = await whole(chat({ prompt_tokens: 7, completion_tokens: value }, TEXT))
    const [input, output = 0] = counts
    assert.equal(input, 7)
    assert.ok(output > 60 && output < 300, `${output}`)
    assert.equal(reply.headers['x-headgate-usage'], 'estimated')
    assert.equal(reply.headers['x-headgate-cost'], formatDollars(7 * PRICES.input + output * PRICES.output))
  })
  test(`a prompt count of ${shown} is unknown, so the input is estimated`, async () => {
    const { counts, reply } = await whole(chat({ prompt_tokens: value, completion_tokens: 9 }, TEXT))
    const [input = 0, output] = counts
    assert.ok(input > 0 && input < 60, `${input}`)
    assert.equal(output, 9)
    assert.equal(reply.headers['x-headgate-usage'], 'estimated')
    assert.ok(Number(reply.headers['x-headgate-cost']) > 0)
  })
}

const PLACEHOLDERS: readonly (readonly [name: string, usage: object, content: string])[] = [
  ['no completion for a text', { prompt_tokens: 7, completion_tokens: 0, total_tokens: 7 }, TEXT],
  ['no prompt', { prompt_tokens: 0, completion_tokens: 9, total_tokens: 9 }, TEXT],
  ['nothing at all', { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }, TEXT],
  // langchain-ai/langchain#30429: each event has its own count, so the last one says 1.
  ['one token for a page', { prompt_tokens: 713, completion_tokens: 1, total_tokens: 714 }, TEXT.repeat(3)],
]
for (const [name, usage, content] of PLACEHOLDERS)
  test(`a count that cannot be right is estimated: ${name}`, async () => {
    const { counts, reply } = await whole(chat(usage, content))
    assert.ok(counts[0] && counts[1], `${counts}`)
    assert.equal(reply.headers['x-headgate-usage'], 'estimated')
    const stream = await streamed(
      `${chatAnswer.chunk({ content })}${chatAnswer.chunk({}, 'stop')}${event({ id: 'c', choices: [], usage })}${chatAnswer.done}`,
    )
    assert.ok(stream.estimated)
    assert.deepEqual(stream.counts, counts)
  })

test('an empty answer of 0 tokens is exact', async () => {
  const { counts, reply } = await whole(
    chat({ prompt_tokens: 7, completion_tokens: 0, total_tokens: 7 }, '', {
      choices: [{ index: 0, message: { content: '' }, finish_reason: 'length' }],
    }),
  )
  assert.deepEqual(counts, [7, 0, 0, 0])
  assert.equal(reply.headers['x-headgate-usage'], 'exact')
})

test('a client of the same style receives the usage as it was sent', async () => {
  const usage = { prompt_tokens: 7, completion_tokens: -1, total_tokens: 402, cache_creation_input_tokens: '3' }
  const body = JSON.stringify(chat(usage))
  const { send, world } = gatewayHarness(
    speaking('openai-chat'),
    (asked) => respondWith.json(asked, 200, body),
    {},
    catalogue,
  )
  const reply = send(QUESTION)
  await world.advance(3_000)
  assert.equal(reply.text, body)
})

// ── Messages ────────────────────────────────────────────────────────────────────────────────────────────────────────

const messageEvent = (type: string, members: object) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...members })}\n\n`
const messages = (start: object, delta: object, stop: object = {}) =>
  messageEvent('message_start', { message: { id: 'm', role: 'assistant', content: [], usage: start } }) +
  messageEvent('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }) +
  messageEvent('content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'ok' } }) +
  messageEvent('content_block_stop', { index: 0 }) +
  messageEvent('message_delta', { delta: { stop_reason: 'end_turn' }, ...delta }) +
  messageEvent('message_stop', stop)

const cachedInput = { input_tokens: 100, cache_read_input_tokens: 200, cache_creation_input_tokens: 0 }

const MESSAGES: readonly (readonly [name: string, stream: string])[] = [
  [
    'tensorzero/tensorzero#5481: in both events',
    messages({ ...cachedInput, output_tokens: 1 }, { usage: { output_tokens: 20 } }),
  ],
  [
    'zeros of the input at the end',
    messages(
      { ...cachedInput, output_tokens: 1 },
      { usage: { input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 20 } },
    ),
  ],
  [
    'sgl-project/sglang#20678: zeros at the start',
    messages({ input_tokens: 0, output_tokens: 0 }, { usage: { ...cachedInput, output_tokens: 20 } }),
  ],
  [
    'in the delta',
    messages(
      { ...cachedInput, output_tokens: 1 },
      { delta: { stop_reason: 'end_turn', usage: { output_tokens: 20 } } },
    ),
  ],
  [
    'maximhq/bifrost#5510: the whole prompt at the start, and beside its parts at the end',
    messages(
      { input_tokens: 300, output_tokens: 0 },
      {
        usage: {
          input_tokens: 100,
          cache_read_input_tokens: 200,
          cache_creation_input_tokens: 0,
          prompt_tokens: 300,
          output_tokens: 20,
        },
      },
    ),
  ],
  [
    'in the metrics of Bedrock',
    messages(
      {},
      {},
      {
        'amazon-bedrock-invocationMetrics': {
          inputTokenCount: 100,
          outputTokenCount: 20,
          cacheReadInputTokenCount: 200,
        },
      },
    ),
  ],
]
for (const [name, stream] of MESSAGES)
  test(`usage of messages: ${name}`, async () => {
    const { counts, estimated, cost, reply } = await streamed(stream, 'anthropic-messages')
    assert.deepEqual([counts, estimated, cost], [COUNTS, false, due(COUNTS)])
    assert.equal(reply.text, stream, 'the client receives the bytes')
  })

test('usage of Converse under its older names', async () => {
  const usage = { inputTokens: 100, outputTokens: 20, totalTokens: 320, cacheReadInputTokenCount: 200 }
  const body = { output: { message: { role: 'assistant', content: [{ text: 'ok' }] } }, stopReason: 'end_turn', usage }
  const { counts, cost } = await whole(body, 'bedrock-converse')
  assert.deepEqual([counts, cost], [COUNTS, due(COUNTS)])
})
