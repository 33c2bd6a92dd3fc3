/** Complete, valid answers of an upstream in each format, whole and streamed; and playback of recorded answers. */
import type { Json, JsonObject } from '../../src/core/json.ts'
import { object } from '../../src/core/json.ts'
import { answerConverse, isConverse } from './converse.ts'
import type { Act, UpstreamRequest } from './upstream.ts'

/** The content of an answer, independent of its format. */
export type AnswerContent = {
  readonly text?: string
  readonly tools?: readonly { readonly id: string; readonly name: string; readonly arguments: string }[]
  readonly input?: number
  readonly output?: number
  /** The answer was cut off by its token limit. */
  readonly cut?: boolean
}

/** How a stream is sent; see `Act`. */
export type Delivery = Omit<Extract<Act, { do: 'stream' }>, 'do' | 'pieces'>

type Format = 'chat' | 'responses' | 'messages' | 'gemini' | 'cohere' | 'ollama'

const formatOf = ({ path }: Pick<UpstreamRequest, 'path'>): Format => {
  const plain = path.split('?')[0] ?? ''
  if (/:(?:g|streamG)enerateContent$/.test(plain)) return 'gemini'
  if (plain.endsWith('/v2/chat')) return 'cohere'
  if (plain.endsWith('/api/chat')) return 'ollama'
  return plain.endsWith('/responses') ? 'responses' : plain.endsWith('/messages') ? 'messages' : 'chat'
}

/** Ollama streams are JSON lines and need their own content type. */
const lines = (request: UpstreamRequest): Delivery =>
  formatOf(request) === 'ollama' ? { headers: { 'content-type': 'application/x-ndjson' } } : {}

/** Answers in the format of the request, whole or streamed. */
export const answerWith = (request: UpstreamRequest, answer: AnswerContent, delivery: Delivery = {}): Act =>
  isConverse(request)
    ? answerConverse(request, answer, delivery)
    : request.stream
      ? { do: 'stream', pieces: piecesOf(request, answer), ...lines(request), ...delivery }
      : { do: 'answer', body: answerBody(request, answer), ...(delivery.headers && { headers: delivery.headers }) }

export const answerBody = (request: UpstreamRequest, answer: AnswerContent): JsonObject =>
  WHOLE[formatOf(request)](request, answer)

/** The events of a stream, each with the blank line that ends it. */
export const piecesOf = (request: UpstreamRequest, answer: AnswerContent): string[] =>
  STREAMED[formatOf(request)](request, answer)

/** An error body in the format of the request. */
export const errorBody = (
  request: UpstreamRequest,
  error: { readonly type: string; readonly message: string; readonly code?: string },
): JsonObject =>
  formatOf(request) === 'messages'
    ? { type: 'error', error: { type: error.type, message: error.message }, request_id: 'req_test' }
    : { error: { message: error.message, type: error.type, param: null, code: error.code ?? null } }

/** Fails with a status and an error body in the format of the request. */
export const failWith = (
  request: UpstreamRequest,
  status: number,
  error: Parameters<typeof errorBody>[1],
  headers: Readonly<Record<string, string>> = {},
): Act => ({ do: 'answer', status, headers, body: errorBody(request, error) })

/** The members of a recording that playback needs. */
export type Recording = {
  readonly status: number | null
  readonly stream: boolean
  readonly framing: string | null
  readonly response?: Json
  readonly chunks?: readonly string[] | null
}

/** Replays a recorded answer. */
export const replay = (recording: Recording, delivery: Delivery = {}): Act => {
  const { status, framing, chunks, response } = recording
  if (!recording.stream || !chunks)
    return {
      do: 'answer',
      status: status ?? 200,
      body: typeof response === 'string' ? response : JSON.stringify(response ?? null),
    }
  if (framing !== 'sse') throw new Error(`cannot play a recording with framing ${framing}`)
  return { do: 'stream', status: status ?? 200, pieces: chunks.map((chunk) => `${chunk}\n\n`), ...delivery }
}

const CREATED = 1_700_000_000

const counts = ({ input = 9, output = 5 }: AnswerContent) => ({ input, output })

/** Splits a text into pieces of a few characters, never within a surrogate pair. */
const split = (text: string, size = 5): string[] => {
  const characters = [...text]
  return Array.from({ length: Math.ceil(characters.length / size) }, (_, at) =>
    characters.slice(at * size, at * size + size).join(''),
  )
}

const data = (body: JsonObject): string => `data: ${JSON.stringify(body)}\n\n`
const named = (body: JsonObject & { readonly type: string }): string => `event: ${body.type}\n${data(body)}`

// ── Chat completions ─────────────────────────────────────────────────────────────────────────────────────────────

const chatUsage = (answer: AnswerContent): JsonObject => {
  const { input, output } = counts(answer)
  return { prompt_tokens: input, completion_tokens: output, total_tokens: input + output }
}

const chatFinish = ({ tools, cut }: AnswerContent): string => (cut ? 'length' : tools?.length ? 'tool_calls' : 'stop')

const chatCalls = ({ tools = [] }: AnswerContent): JsonObject[] =>
  tools.map(({ id, name, arguments: text }) => ({ id, type: 'function', function: { name, arguments: text } }))

const chatWhole = (request: UpstreamRequest, answer: AnswerContent): JsonObject => ({
  id: 'chatcmpl-test',
  object: 'chat.completion',
  created: CREATED,
  model: request.model ?? 'test',
  choices: [
    {
      index: 0,
      message: {
        role: 'assistant',
        content: answer.text ?? null,
        refusal: null,
        ...(answer.tools?.length && { tool_calls: chatCalls(answer) }),
      },
      logprobs: null,
      finish_reason: chatFinish(answer),
    },
  ],
  usage: chatUsage(answer),
})

const chatStreamed = (request: UpstreamRequest, answer: AnswerContent): string[] => {
  const wantsUsage = object(request.json.stream_options)?.include_usage === true
  const chunk = (choices: Json, more: JsonObject = {}) =>
    data({
      id: 'chatcmpl-test',
      object: 'chat.completion.chunk',
      created: CREATED,
      model: request.model ?? 'test',
      choices,
      ...(wantsUsage && { usage: null }),
      ...more,
    })
  const delta = (delta: JsonObject, finish: string | null = null) =>
    chunk([{ index: 0, delta, logprobs: null, finish_reason: finish }])
  return [
    delta({ role: 'assistant', content: '' }),
    ...split(answer.text ?? '').map((content) => delta({ content })),
    ...(answer.tools ?? []).flatMap(({ id, name, arguments: text }, index) => [
      delta({ tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] }),
      ...split(text).map((part) => delta({ tool_calls: [{ index, function: { arguments: part } }] })),
    ]),
    delta({}, chatFinish(answer)),
    ...(wantsUsage ? [chunk([], { usage: chatUsage(answer) })] : []),
    'data: [DONE]\n\n',
  ]
}

// ── Responses ────────────────────────────────────────────────────────────────────────────────────────────────────

const responseShell = (request: UpstreamRequest, status: string): JsonObject => ({
  id: 'resp_test',
  object: 'response',
  created_at: CREATED,
  status,
  error: null,
  incomplete_details: null,
  instructions: null,
  max_output_tokens: null,
  model: request.model ?? 'test',
  output: [],
  parallel_tool_calls: true,
  previous_response_id: null,
  reasoning: { effort: null, summary: null },
  store: false,
  temperature: 1,
  text: { format: { type: 'text' } },
  tool_choice: 'auto',
  tools: [],
  top_p: 1,
  truncation: 'disabled',
  usage: null,
  user: null,
  metadata: {},
})

const messageItem = (text: string, status: string): JsonObject => ({
  id: 'msg_test',
  type: 'message',
  status,
  role: 'assistant',
  content: status === 'in_progress' ? [] : [textPart(text)],
})
const textPart = (text: string): JsonObject => ({ type: 'output_text', text, annotations: [], logprobs: [] })

type Tool = NonNullable<AnswerContent['tools']>[number]
const callItem = (tool: Tool, at: number, status: string): JsonObject => ({
  id: `fc_test${at}`,
  type: 'function_call',
  status,
  call_id: tool.id,
  name: tool.name,
  arguments: status === 'in_progress' ? '' : tool.arguments,
})

const responseDone = (request: UpstreamRequest, answer: AnswerContent): JsonObject => {
  const { input, output } = counts(answer)
  return {
    ...responseShell(request, answer.cut ? 'incomplete' : 'completed'),
    ...(answer.cut && { incomplete_details: { reason: 'max_output_tokens' } }),
    output: [
      ...(answer.text === undefined ? [] : [messageItem(answer.text, answer.cut ? 'incomplete' : 'completed')]),
      ...(answer.tools ?? []).map((tool, at) => callItem(tool, at, 'completed')),
    ],
    usage: {
      input_tokens: input,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: output,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: input + output,
    },
  }
}

const responsesStreamed = (request: UpstreamRequest, answer: AnswerContent): string[] => {
  const events: (JsonObject & { type: string })[] = []
  const push = (type: string, more: JsonObject) => events.push({ type, sequence_number: events.length, ...more })
  push('response.created', { response: responseShell(request, 'in_progress') })
  push('response.in_progress', { response: responseShell(request, 'in_progress') })
  let index = 0
  if (answer.text !== undefined) {
    const at = { item_id: 'msg_test', output_index: index, content_index: 0 }
    push('response.output_item.added', { output_index: index, item: messageItem('', 'in_progress') })
    push('response.content_part.added', { ...at, part: textPart('') })
    for (const delta of split(answer.text)) push('response.output_text.delta', { ...at, delta, logprobs: [] })
    push('response.output_text.done', { ...at, text: answer.text, logprobs: [] })
    push('response.content_part.done', { ...at, part: textPart(answer.text) })
    push('response.output_item.done', {
      output_index: index,
      item: messageItem(answer.text, answer.cut ? 'incomplete' : 'completed'),
    })
    index++
  }
  for (const [number, tool] of (answer.tools ?? []).entries()) {
    const at = { item_id: `fc_test${number}`, output_index: index }
    push('response.output_item.added', { output_index: index, item: callItem(tool, number, 'in_progress') })
    for (const delta of split(tool.arguments)) push('response.function_call_arguments.delta', { ...at, delta })
    push('response.function_call_arguments.done', { ...at, name: tool.name, arguments: tool.arguments })
    push('response.output_item.done', { output_index: index, item: callItem(tool, number, 'completed') })
    index++
  }
  push(answer.cut ? 'response.incomplete' : 'response.completed', { response: responseDone(request, answer) })
  return events.map(named)
}

// ── Messages ─────────────────────────────────────────────────────────────────────────────────────────────────────

const stopReason = ({ tools, cut }: AnswerContent): string =>
  cut ? 'max_tokens' : tools?.length ? 'tool_use' : 'end_turn'

const messagesUsage = (answer: AnswerContent): JsonObject => {
  const { input, output } = counts(answer)
  return {
    input_tokens: input,
    output_tokens: output,
    cache_creation: null,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: 0,
    inference_geo: null,
    server_tool_use: null,
    service_tier: 'standard',
  }
}

const messageShell = (request: UpstreamRequest, answer: AnswerContent): JsonObject => ({
  id: 'msg_test',
  type: 'message',
  role: 'assistant',
  model: request.model ?? 'test',
  content: [],
  container: null,
  context_management: null,
  stop_reason: null,
  stop_sequence: null,
  usage: messagesUsage({ ...answer, output: 1 }),
})

const parsed = (text: string): Json => {
  // This format carries tool input as a JSON value, so tests must give valid JSON.
  const value: Json = JSON.parse(text)
  return value
}

const toolBlock = ({ id, name }: Tool, input: Json): JsonObject => ({ type: 'tool_use', id, name, input })

const messagesWhole = (request: UpstreamRequest, answer: AnswerContent): JsonObject => ({
  ...messageShell(request, answer),
  content: [
    ...(answer.text === undefined ? [] : [{ type: 'text', text: answer.text }]),
    ...(answer.tools ?? []).map((tool) => toolBlock(tool, parsed(tool.arguments))),
  ],
  stop_reason: stopReason(answer),
  usage: messagesUsage(answer),
})

const messagesStreamed = (request: UpstreamRequest, answer: AnswerContent): string[] => {
  const blocks: { readonly start: JsonObject; readonly deltas: readonly JsonObject[] }[] = [
    ...(answer.text === undefined
      ? []
      : [
          {
            start: { type: 'text', text: '' },
            deltas: split(answer.text).map((text) => ({ type: 'text_delta', text })),
          },
        ]),
    ...(answer.tools ?? []).map((tool) => ({
      start: toolBlock(tool, {}),
      deltas: ['', ...split(tool.arguments)].map((partial_json) => ({ type: 'input_json_delta', partial_json })),
    })),
  ]
  const { output } = counts(answer)
  return [
    named({ type: 'message_start', message: messageShell(request, answer) }),
    named({ type: 'ping' }),
    ...blocks.flatMap(({ start, deltas }, index) => [
      named({ type: 'content_block_start', index, content_block: start }),
      ...deltas.map((delta) => named({ type: 'content_block_delta', index, delta })),
      named({ type: 'content_block_stop', index }),
    ]),
    named({
      type: 'message_delta',
      context_management: null,
      delta: { container: null, stop_reason: stopReason(answer), stop_sequence: null },
      usage: {
        input_tokens: counts(answer).input,
        output_tokens: output,
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: 0,
        server_tool_use: null,
      },
    }),
    named({ type: 'message_stop' }),
  ]
}

// ── Gemini ───────────────────────────────────────────────────────────────────────────────────────────────────────

const geminiResponse = (
  request: UpstreamRequest,
  answer: AnswerContent,
  parts: readonly JsonObject[],
  last: boolean,
): JsonObject => {
  const { input, output } = counts(answer)
  return {
    candidates: [
      {
        content: { role: 'model', parts },
        index: 0,
        ...(last && { finishReason: answer.cut ? 'MAX_TOKENS' : 'STOP' }),
      },
    ],
    usageMetadata: {
      promptTokenCount: input,
      ...(last && { candidatesTokenCount: output }),
      totalTokenCount: input + (last ? output : 0),
    },
    modelVersion: request.model ?? 'test',
    responseId: 'gemini_test',
  }
}

const geminiCalls = (answer: AnswerContent): JsonObject[] =>
  (answer.tools ?? []).map(({ id, name, arguments: given }) => ({ functionCall: { id, name, args: parsed(given) } }))

const geminiWhole = (request: UpstreamRequest, answer: AnswerContent): JsonObject =>
  geminiResponse(
    request,
    answer,
    [...(answer.text === undefined ? [] : [{ text: answer.text }]), ...geminiCalls(answer)],
    true,
  )

const geminiStreamed = (request: UpstreamRequest, answer: AnswerContent): string[] => {
  const pieces = [
    ...split(answer.text ?? '').map((text) => geminiResponse(request, answer, [{ text }], false)),
    geminiResponse(request, answer, geminiCalls(answer), true),
  ]
  return pieces.map((piece) => `data: ${JSON.stringify(piece)}\r\n\r\n`)
}

// ── Cohere ───────────────────────────────────────────────────────────────────────────────────────────────────────

const cohereEnd = (answer: AnswerContent): JsonObject => {
  const { input, output } = counts(answer)
  const called = (answer.tools ?? []).length > 0
  return {
    finish_reason: answer.cut ? 'MAX_TOKENS' : called ? 'TOOL_CALL' : 'COMPLETE',
    usage: {
      billed_units: { input_tokens: 1, output_tokens: 1 },
      tokens: { input_tokens: input, output_tokens: output },
      cached_tokens: 0,
    },
  }
}

const cohereCall = ({ id, name, arguments: given }: NonNullable<AnswerContent['tools']>[number]): JsonObject => ({
  id,
  type: 'function',
  function: { name, arguments: given },
})

const cohereWhole = (_request: UpstreamRequest, answer: AnswerContent): JsonObject => ({
  id: 'cohere_test',
  message: {
    role: 'assistant',
    ...(answer.text !== undefined && { content: [{ type: 'text', text: answer.text }] }),
    ...(answer.tools && { tool_calls: answer.tools.map(cohereCall) }),
  },
  ...cohereEnd(answer),
})

const cohereStreamed = (_request: UpstreamRequest, answer: AnswerContent): string[] => {
  const cohereEvent = (type: string, index: number, message: JsonObject): JsonObject => ({
    type,
    index,
    delta: { message },
  })
  const content = { type: 'text', text: '' }
  return [
    { id: 'cohere_test', type: 'message-start', delta: { message: { role: 'assistant', content: [] } } },
    ...(answer.text === undefined
      ? []
      : [
          cohereEvent('content-start', 0, { content }),
          ...split(answer.text).map((text) => cohereEvent('content-delta', 0, { content: { text } })),
          { type: 'content-end', index: 0 },
        ]),
    ...(answer.tools ?? []).flatMap((tool, index) => [
      cohereEvent('tool-call-start', index, { tool_calls: cohereCall({ ...tool, arguments: '' }) }),
      ...split(tool.arguments).map((words) =>
        cohereEvent('tool-call-delta', index, { tool_calls: { function: { arguments: words } } }),
      ),
      { type: 'tool-call-end', index },
    ]),
    { type: 'message-end', delta: cohereEnd(answer) },
  ].map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
}

// ── Ollama ───────────────────────────────────────────────────────────────────────────────────────────────────────

const ollamaLine = (request: UpstreamRequest, message: JsonObject, done: boolean): JsonObject => ({
  model: request.model ?? 'test',
  created_at: '2023-11-14T22:13:20.123456Z',
  message: { role: 'assistant', content: '', ...message },
  done,
})

const ollamaCalls = ({ tools }: AnswerContent): JsonObject =>
  tools === undefined
    ? {}
    : {
        tool_calls: tools.map(({ id, name, arguments: given }) => ({
          id,
          function: { name, arguments: parsed(given) },
        })),
      }

/** Ollama reports `stop` even if the answer has tool calls. */
const ollamaEnd = (answer: AnswerContent): JsonObject => {
  const { input, output } = counts(answer)
  return { done_reason: answer.cut ? 'length' : 'stop', prompt_eval_count: input, eval_count: output }
}

const ollamaWhole = (request: UpstreamRequest, answer: AnswerContent): JsonObject => ({
  ...ollamaLine(request, { content: answer.text ?? '', ...ollamaCalls(answer) }, true),
  ...ollamaEnd(answer),
})

const ollamaStreamed = (request: UpstreamRequest, answer: AnswerContent): string[] =>
  [
    ...split(answer.text ?? '').map((content) => ollamaLine(request, { content }, false)),
    ...(answer.tools ? [ollamaLine(request, ollamaCalls(answer), false)] : []),
    { ...ollamaLine(request, {}, true), ...ollamaEnd(answer) },
  ].map((line) => `${JSON.stringify(line)}\n`)

const WHOLE: { readonly [format in Format]: (request: UpstreamRequest, answer: AnswerContent) => JsonObject } = {
  chat: chatWhole,
  responses: responseDone,
  messages: messagesWhole,
  gemini: geminiWhole,
  cohere: cohereWhole,
  ollama: ollamaWhole,
}
const STREAMED: { readonly [format in Format]: (request: UpstreamRequest, answer: AnswerContent) => string[] } = {
  chat: chatStreamed,
  responses: responsesStreamed,
  messages: messagesStreamed,
  gemini: geminiStreamed,
  cohere: cohereStreamed,
  ollama: ollamaStreamed,
}

/** Three calls of ten to the provider at `/first/` fail, so that they have a second attempt. */
export const failOften = (request: UpstreamRequest): Act =>
  request.method === 'GET'
    ? { do: 'answer', status: 404 }
    : request.path.startsWith('/first/') && Math.random() < 0.3
      ? failWith(request, 500, { type: 'x', message: 'failed' })
      : answerWith(request, { text: 'hello', input: 10, output: 5 })
