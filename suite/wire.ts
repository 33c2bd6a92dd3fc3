/** Answers in the three styles: their events, their whole bodies, and the text that an event carries. Pure. */

export const STYLES = ['chat', 'messages', 'responses'] as const
export type Style = (typeof STYLES)[number]

export const PATHS: { readonly [style in Style]: string } = {
  chat: '/chat/completions',
  messages: '/messages',
  responses: '/responses',
}

/** A call of a tool; its arguments in the pieces in which they are sent. */
export type WireCall = { readonly id: string; readonly name: string; readonly pieces: readonly string[] }

export type Answer = {
  readonly id: string
  readonly model: string
  /** The text in the pieces in which it is sent. */
  readonly pieces: readonly string[]
  readonly calls: readonly WireCall[]
  readonly usage: { readonly input: number; readonly output: number }
  /** Of several calls: the arguments of all in turn, where the style allows it. */
  readonly interleaved?: true
}

const argumentsOf = ({ pieces }: WireCall): string => pieces.join('')

/** The pieces of calls, one call after the other or in turn. */
const inOrder = ({ calls, interleaved }: Answer): readonly { readonly index: number; readonly piece: string }[] => {
  const all = calls.flatMap(({ pieces }, index) => pieces.map((piece, at) => ({ index, piece, at })))
  return interleaved ? all.sort((a, b) => a.at - b.at || a.index - b.index) : all
}

const event = (body: { readonly type: string; readonly [member: string]: unknown }) =>
  `event: ${body.type}\ndata: ${JSON.stringify(body)}\n\n`

const chatEvents = (answer: Answer): readonly string[] => {
  const { id, model, pieces, calls, usage } = answer
  const chunk = (choices: readonly object[], more: object = {}) =>
    `data: ${JSON.stringify({ id, object: 'chat.completion.chunk', created: 1, model, choices, ...more })}\n\n`
  const delta = (content: object, finish: string | null = null) =>
    chunk([{ index: 0, delta: content, finish_reason: finish }])
  return [
    delta({ role: 'assistant', content: '' }),
    ...pieces.map((content) => delta({ content })),
    ...calls.map(({ id: callId, name }, index) =>
      delta({ tool_calls: [{ index, id: callId, type: 'function', function: { name, arguments: '' } }] }),
    ),
    ...inOrder(answer).map(({ index, piece }) => delta({ tool_calls: [{ index, function: { arguments: piece } }] })),
    delta({}, calls.length > 0 ? 'tool_calls' : 'stop'),
    chunk([], { usage: chatUsage(usage) }),
    'data: [DONE]\n\n',
  ]
}

const chatUsage = ({ input, output }: Answer['usage']) => ({
  prompt_tokens: input,
  completion_tokens: output,
  total_tokens: input + output,
})

const messagesEvents = ({ id, model, pieces, calls, usage }: Answer): readonly string[] => {
  const blocks = [
    ...(pieces.length > 0
      ? [
          {
            start: { type: 'text', text: '' },
            deltas: pieces.map((text) => ({ type: 'text_delta', text })),
          },
        ]
      : []),
    ...calls.map((call) => ({
      start: { type: 'tool_use', id: call.id, name: call.name, input: {} },
      deltas: call.pieces.map((piece) => ({ type: 'input_json_delta', partial_json: piece })),
    })),
  ]
  const message = { id, type: 'message', role: 'assistant', model, content: [], stop_reason: null, stop_sequence: null }
  return [
    event({
      type: 'message_start',
      message: { ...message, usage: { input_tokens: usage.input, output_tokens: 1 } },
    }),
    ...blocks.flatMap(({ start, deltas }, index) => [
      event({ type: 'content_block_start', index, content_block: start }),
      ...deltas.map((delta) => event({ type: 'content_block_delta', index, delta })),
      event({ type: 'content_block_stop', index }),
    ]),
    event({
      type: 'message_delta',
      delta: { stop_reason: calls.length > 0 ? 'tool_use' : 'end_turn', stop_sequence: null },
      usage: { output_tokens: usage.output },
    }),
    event({ type: 'message_stop' }),
  ]
}

const itemsOf = ({ id, pieces, calls }: Answer) => [
  ...(pieces.length > 0
    ? [
        {
          id: `msg_${id}`,
          type: 'message',
          status: 'completed',
          role: 'assistant',
          content: [{ type: 'output_text', text: pieces.join(''), annotations: [], logprobs: [] }],
        },
      ]
    : []),
  ...calls.map((call) => ({
    id: `fc_${call.id}`,
    type: 'function_call',
    status: 'completed',
    call_id: call.id,
    name: call.name,
    arguments: argumentsOf(call),
  })),
]

const responseOf = (answer: Answer, isDone: boolean) => ({
  id: `resp_${answer.id}`,
  object: 'response',
  created_at: 1,
  status: isDone ? 'completed' : 'in_progress',
  error: null,
  incomplete_details: null,
  instructions: null,
  metadata: {},
  model: answer.model,
  output: isDone ? itemsOf(answer) : [],
  parallel_tool_calls: true,
  tool_choice: 'auto',
  tools: [],
  ...(isDone && {
    usage: {
      input_tokens: answer.usage.input,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: answer.usage.output,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: answer.usage.input + answer.usage.output,
    },
  }),
})

const responsesEvents = (answer: Answer): readonly string[] => {
  const { id, pieces, calls } = answer
  let number = 0
  const next = (type: string, more: object) => event({ type, sequence_number: number++, ...more })
  const first = pieces.length > 0 ? 1 : 0
  const items = itemsOf(answer)
  const part = { type: 'output_text', text: '', annotations: [], logprobs: [] }
  const text = { item_id: `msg_${id}`, output_index: 0, content_index: 0 }
  const place = (index: number) => ({ item_id: `fc_${calls[index]?.id}`, output_index: first + index })
  return [
    next('response.created', { response: responseOf(answer, false) }),
    next('response.in_progress', { response: responseOf(answer, false) }),
    ...(first
      ? [
          next('response.output_item.added', {
            output_index: 0,
            item: { ...items[0], status: 'in_progress', content: [] },
          }),
          next('response.content_part.added', { ...text, part }),
          ...pieces.map((delta) => next('response.output_text.delta', { ...text, delta, logprobs: [] })),
          next('response.output_text.done', { ...text, text: pieces.join(''), logprobs: [] }),
          next('response.content_part.done', { ...text, part: { ...part, text: pieces.join('') } }),
          next('response.output_item.done', { output_index: 0, item: items[0] }),
        ]
      : []),
    ...calls.map((_, index) =>
      next('response.output_item.added', {
        output_index: first + index,
        item: { ...items[first + index], status: 'in_progress', arguments: '' },
      }),
    ),
    ...inOrder(answer).map(({ index, piece }) =>
      next('response.function_call_arguments.delta', { ...place(index), delta: piece }),
    ),
    ...calls.flatMap((call, index) => [
      next('response.function_call_arguments.done', { ...place(index), name: call.name, arguments: argumentsOf(call) }),
      next('response.output_item.done', { output_index: first + index, item: items[first + index] }),
    ]),
    next('response.completed', { response: responseOf(answer, true) }),
  ]
}

/** The events of a streamed answer, each with its blank line. */
export const eventsOf = (style: Style, answer: Answer): readonly string[] =>
  ({ chat: chatEvents, messages: messagesEvents, responses: responsesEvents })[style](answer)

/** The body of an answer that is not streamed. */
export const bodyOf = (style: Style, answer: Answer): object => {
  const { id, model, pieces, calls, usage } = answer
  const text = pieces.join('')
  if (style === 'responses') return responseOf(answer, true)
  if (style === 'messages')
    return {
      id,
      type: 'message',
      role: 'assistant',
      model,
      content: [
        ...(text ? [{ type: 'text', text }] : []),
        ...calls.map((call) => ({
          type: 'tool_use',
          id: call.id,
          name: call.name,
          input: JSON.parse(argumentsOf(call)),
        })),
      ],
      stop_reason: calls.length > 0 ? 'tool_use' : 'end_turn',
      stop_sequence: null,
      usage: { input_tokens: usage.input, output_tokens: usage.output },
    }
  const tools = calls.map((call) => ({
    id: call.id,
    type: 'function',
    function: { name: call.name, arguments: argumentsOf(call) },
  }))
  const message = { role: 'assistant', content: text || null, ...(tools.length > 0 && { tool_calls: tools }) }
  const choice = { index: 0, message, finish_reason: tools.length > 0 ? 'tool_calls' : 'stop' }
  return { id, object: 'chat.completion', created: 1, model, choices: [choice], usage: chatUsage(usage) }
}

/** An error body in the style. */
export const errorOf = (
  style: Style,
  { type, code, message }: { type: string; code: string; message: string },
): object =>
  style === 'messages' ? { type: 'error', error: { type, message } } : { error: { message, type, code, param: null } }

/** Text or arguments that an event adds. */
const DELTA: { readonly [style in Style]: RegExp } = {
  chat: /"(?:content|arguments)":("(?:[^"\\]|\\.)+")/,
  messages: /"(?:text|partial_json)":("(?:[^"\\]|\\.)+")\}/,
  responses: /_text\.delta.*"delta":("(?:[^"\\]|\\.)*")|arguments\.delta.*"delta":("(?:[^"\\]|\\.)*")/,
}
export const deltaOf = (style: Style, text: string): string => {
  const [, one, other] = DELTA[style].exec(text) ?? []
  const found = one ?? other
  return found === undefined ? '' : JSON.parse(found)
}

/** Whether an event ends an answer: its finish, in the words of the style. */
export const isFinish = (style: Style, text: string): boolean =>
  ({
    chat: /"finish_reason":"/,
    messages: /"type":"message_delta"/,
    responses: /"type":"response\.(?:completed|incomplete)"/,
  })[style].test(text)

/** Whether an event states an error. */
export const isErrorEvent = (text: string): boolean =>
  /^event: ?error\b|^data: ?\{"error":|"type":"response\.failed"/m.test(text)
