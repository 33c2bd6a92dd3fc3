/** The kinds of requests whose costs have a ceiling, with the answers of their provider. */

export type Kind = {
  readonly path: string
  readonly body: string
  /** Sent as a credential. */
  readonly key?: string
  /** The whole answer. Absent: it is a stream. */
  readonly answer?: string
  /** A chunk of the stream; each has the text `word<number> `. */
  readonly chunkOf?: (at: number) => string
  /** The last events of the stream. */
  readonly end?: readonly string[]
}

const prompt = (size: number): string =>
  'Tell me of the gates, "quoted" and plain. '.repeat(Math.ceil(size / 42)).slice(0, size)
const turns = (count: number, size: number) =>
  Array.from({ length: count }, (_, at) => ({ role: at % 2 === 0 ? 'user' : 'assistant', content: prompt(size) }))
const json = (value: unknown): string => JSON.stringify(value)

const usage = { prompt_tokens: 200, completion_tokens: 150, total_tokens: 350 }
const chatAnswer = json({
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1_800_000_000,
  model: 'm',
  choices: [
    {
      index: 0,
      message: { role: 'assistant', content: prompt(600), refusal: null },
      logprobs: null,
      finish_reason: 'stop',
    },
  ],
  usage,
})
const chunkHead = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1_800_000_000, model: 'm' }
const chatChunk = (delta: object, finish_reason: string | null = null): string =>
  `data: ${json({ ...chunkHead, choices: [{ index: 0, delta, logprobs: null, finish_reason }], usage: null })}\n\n`
const named = (event: { readonly type: string; readonly [member: string]: unknown }): string =>
  `event: ${event.type}\ndata: ${json(event)}\n\n`
const messageStart = named({
  type: 'message_start',
  message: {
    ...{ id: 'msg_1', type: 'message', role: 'assistant', model: 'claude', content: [], stop_reason: null },
    usage: { input_tokens: 200, output_tokens: 1 },
  },
})
const blockStart = named({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } })
const blockDelta = (text: string): string =>
  named({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } })
const responsesAnswer = json({
  id: 'resp_1',
  object: 'response',
  created_at: 1_800_000_000,
  status: 'completed',
  model: 'm',
  output: [
    {
      type: 'message',
      id: 'msg_1',
      status: 'completed',
      role: 'assistant',
      content: [{ type: 'output_text', text: prompt(600), annotations: [] }],
    },
  ],
  usage: { input_tokens: 200, output_tokens: 150, total_tokens: 350 },
})
const embeddingsAnswer = json({
  object: 'list',
  data: [{ object: 'embedding', index: 0, embedding: Array.from({ length: 256 }, (_, at) => at / 1000) }],
  model: 'text-embedding-3-small',
  usage: { prompt_tokens: 8, total_tokens: 8 },
})

const CHAT = '/v1/chat/completions'
const streaming = (model: string): string =>
  json({ model, messages: turns(1, 700), stream: true, stream_options: { include_usage: true } })

const KEY = 'hgk-costs-0123456789-0123456789abcdef'
const ofTeam = { amount: '900000.00', period: 'month', appliesTo: { teams: ['limited'] } }

/** A key with three limits, whose team has four budgets. Requests without a key have neither. */
export const ACCOUNTS = {
  auth: { required: false },
  teams: { limited: {} },
  keys: {
    limited: {
      team: 'limited',
      secret: KEY,
      limits: { requestsPerMinute: 1_000_000, tokensPerMinute: 1_000_000_000, concurrent: 100 },
    },
  },
  budgets: {
    month: ofTeam,
    day: { ...ofTeam, period: 'day', per: 'key', timezone: 'Europe/Berlin' },
    soft: { ...ofTeam, mode: 'soft', per: 'team' },
    hour: { ...ofTeam, period: 'hour', appliesTo: { ...ofTeam.appliesTo, models: ['openai/*'] } },
  },
}

/** By name, in the order in which they are measured. */
export const KINDS: Readonly<Record<string, Kind>> = {
  'chat, 1 KB': {
    path: CHAT,
    body: json({ model: 'm', messages: turns(1, 700), temperature: 0.7 }),
    answer: chatAnswer,
  },
  'chat, 1 KB, limits and budgets': {
    path: CHAT,
    body: json({ model: 'm', messages: turns(1, 700), temperature: 0.7 }),
    key: KEY,
    answer: chatAnswer,
  },
  'chat, 30 KB': {
    path: CHAT,
    body: json({ model: 'm', messages: turns(30, 1000), temperature: 0.7 }),
    answer: chatAnswer,
  },
  stream: {
    path: CHAT,
    body: streaming('m'),
    chunkOf: (at) => chatChunk({ content: `word${at} and some more of it` }),
    end: [chatChunk({}, 'stop'), `data: ${json({ ...chunkHead, choices: [], usage })}\n\n`, 'data: [DONE]\n\n'],
  },
  'stream, translated': {
    path: CHAT,
    body: streaming('claude'),
    chunkOf: (at) => `${at === 0 ? messageStart + blockStart : ''}${blockDelta(`word${at} and some more of it`)}`,
    end: [
      named({ type: 'content_block_stop', index: 0 }),
      named({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 150 } }),
      named({ type: 'message_stop' }),
    ],
  },
  embeddings: {
    path: '/v1/embeddings',
    body: json({ model: 'text-embedding-3-small', input: prompt(200) }),
    answer: embeddingsAnswer,
  },
  responses: {
    path: '/v1/responses',
    body: json({ model: 'm', input: prompt(700), store: false }),
    answer: responsesAnswer,
  },
}
