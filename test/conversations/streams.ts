/** Converts a whole answer into the stream that its vendor would send, for each wire format. */
import { isList, type Json, type JsonObject, list, object, text } from '../../src/core/json.ts'
import { event as converseEvent } from '../support/event-stream.ts'
import type { Wire } from './answers.ts'
import { objects } from './rule.ts'

/** Texts, or bytes where the framing is binary. */
type Pieces = readonly (string | Uint8Array)[]

const halves = (words: string): readonly string[] => {
  const middle = Math.ceil(words.length / 2)
  return [words.slice(0, middle), words.slice(middle)].filter((half) => half !== '')
}

const data = (body: JsonObject): string => `data: ${JSON.stringify(body)}\n\n`
const named = (body: JsonObject): string => `event: ${text(body.type)}\n${data(body)}`
const without = (body: JsonObject, ...members: readonly string[]): JsonObject =>
  Object.fromEntries(Object.entries(body).filter(([name]) => !members.includes(name)))

// ── Chat completions ─────────────────────────────────────────────────────────────────────────────────────────────

/** The deltas of one member of a message. A signature follows its text. */
const deltasOf = (member: string, value: Json): readonly JsonObject[] => {
  if (typeof value === 'string') return halves(value).map((half) => ({ [member]: half }))
  if (!isList(value)) return []
  switch (member) {
    case 'tool_calls':
      return objects(value).flatMap((call, index) => {
        const { name, arguments: given } = object(call.function) ?? {}
        return [
          { tool_calls: [{ index, id: call.id, type: 'function', function: { name, arguments: '' } }] },
          ...halves(text(given) ?? '').map((half) => ({ tool_calls: [{ index, function: { arguments: half } }] })),
        ]
      })
    case 'reasoning_details':
      return objects(value).flatMap((entry) => [
        { reasoning_details: [without(entry, 'signature')] },
        { reasoning_details: [without(entry, 'text')] },
      ])
    default:
      return objects(value).map((part) => ({ [member]: [part] }))
  }
}

const chat = (body: JsonObject): Pieces => {
  const choice = object(list(body.choices)[0]) ?? {}
  const chunk = (choices: Json, more: JsonObject = {}) =>
    data({ ...without(body, 'usage'), object: 'chat.completion.chunk', choices, ...more })
  const delta = (delta: JsonObject, finish: Json = null) =>
    chunk([{ index: 0, delta, logprobs: null, finish_reason: finish }])
  const members = Object.entries(without(object(choice.message) ?? {}, 'role', 'refusal'))
  // Reasoning precedes the content.
  const order = ([member]: readonly [string, unknown]) => ['content', 'tool_calls'].indexOf(member)
  return [
    delta({ role: 'assistant', content: '' }),
    ...members
      .sort((a, b) => order(a) - order(b))
      .flatMap(([member, value]) => deltasOf(member, value ?? null))
      .map((one) => delta(one)),
    delta({}, choice.finish_reason ?? null),
    chunk([], { usage: body.usage ?? null }),
    'data: [DONE]\n\n',
  ]
}

// ── Responses ────────────────────────────────────────────────────────────────────────────────────────────────────

/** The delta events of an item. */
const itemDeltas = (item: JsonObject): readonly JsonObject[] => {
  const texts = (member: 'summary' | 'content', index: 'summary_index' | 'content_index', type: string) =>
    objects(item[member]).flatMap((part, at) =>
      halves(text(part.text) ?? '').map((delta) => ({ type: `response.${type}.delta`, [index]: at, delta })),
    )
  switch (item.type) {
    case 'message':
      return texts('content', 'content_index', 'output_text')
    case 'reasoning':
      return [
        ...texts('summary', 'summary_index', 'reasoning_summary_text'),
        ...texts('content', 'content_index', 'reasoning_text'),
      ]
    default:
      return halves(text(item.arguments) ?? '').map((delta) => ({
        type: 'response.function_call_arguments.delta',
        delta,
      }))
  }
}

/** The item as first sent: empty, and with preliminary encrypted reasoning. */
const begun = (item: JsonObject): JsonObject => ({
  ...item,
  ...(item.type === 'message' && { content: [] }),
  ...(item.type === 'reasoning' && { summary: [] }),
  ...(item.type === 'reasoning' && item.content !== undefined && { content: [] }),
  ...(item.encrypted_content !== undefined && { encrypted_content: 'the signature of an unfinished item' }),
  ...(item.type === 'function_call' && { arguments: '' }),
})

const responses = (body: JsonObject): Pieces => {
  const started = { ...body, status: 'in_progress', output: [], usage: null }
  const events: readonly JsonObject[] = [
    { type: 'response.created', response: started },
    { type: 'response.in_progress', response: started },
    ...objects(body.output).flatMap((item, index) => {
      const at = { output_index: index, item_id: item.id }
      return [
        { type: 'response.output_item.added', output_index: index, item: begun(item) },
        ...itemDeltas(item).map((delta) => ({ ...delta, ...at })),
        { type: 'response.output_item.done', output_index: index, item },
      ]
    }),
    { type: 'response.completed', response: body },
  ]
  return events.map((one, sequence_number) => named({ ...one, sequence_number }))
}

// ── Messages, Converse ───────────────────────────────────────────────────────────────────────────────────────────

const messages = (body: JsonObject): Pieces => {
  const blockOf = (block: JsonObject): readonly [start: JsonObject, deltas: readonly JsonObject[]] => {
    switch (block.type) {
      case 'thinking':
        return [
          { type: 'thinking', thinking: '', signature: '' },
          [
            ...halves(text(block.thinking) ?? '').map((thinking) => ({ type: 'thinking_delta', thinking })),
            { type: 'signature_delta', signature: block.signature },
          ],
        ]
      case 'tool_use':
        return [
          { ...block, input: {} },
          halves(JSON.stringify(block.input)).map((partial_json) => ({ type: 'input_json_delta', partial_json })),
        ]
      default:
        return [
          { type: 'text', text: '' },
          halves(text(block.text) ?? '').map((words) => ({ type: 'text_delta', text: words })),
        ]
    }
  }
  return [
    named({ type: 'message_start', message: { ...body, content: [], stop_reason: null } }),
    ...objects(body.content).flatMap((block, index) => {
      const [start, deltas] = blockOf(block)
      return [
        named({ type: 'content_block_start', index, content_block: start }),
        ...deltas.map((delta) => named({ type: 'content_block_delta', index, delta })),
        named({ type: 'content_block_stop', index }),
      ]
    }),
    named({
      type: 'message_delta',
      delta: { stop_reason: body.stop_reason, stop_sequence: null },
      usage: { output_tokens: 20 },
    }),
    named({ type: 'message_stop' }),
  ]
}

const converse = ({ output, stopReason, usage, metrics }: JsonObject): Pieces => [
  converseEvent('messageStart', { role: 'assistant' }),
  ...objects(object(object(output)?.message)?.content).flatMap((block, contentBlockIndex) => {
    const delta = (piece: JsonObject) => converseEvent('contentBlockDelta', { contentBlockIndex, delta: piece })
    const stop = converseEvent('contentBlockStop', { contentBlockIndex })
    const thought = object(object(block.reasoningContent)?.reasoningText)
    const use = object(block.toolUse)
    if (thought)
      return [
        ...halves(text(thought.text) ?? '').map((words) => delta({ reasoningContent: { text: words } })),
        delta({ reasoningContent: { signature: thought.signature } }),
        stop,
      ]
    if (use)
      return [
        converseEvent('contentBlockStart', {
          contentBlockIndex,
          start: { toolUse: { toolUseId: use.toolUseId, name: use.name } },
        }),
        ...halves(JSON.stringify(use.input)).map((input) => delta({ toolUse: { input } })),
        stop,
      ]
    return [...halves(text(block.text) ?? '').map((words) => delta({ text: words })), stop]
  }),
  converseEvent('messageStop', { stopReason }),
  converseEvent('metadata', { usage, metrics }),
]

// ── The others ───────────────────────────────────────────────────────────────────────────────────────────────────

/** One chunk per part. The signature of a text is in a separate part without text. */
const gemini = (body: JsonObject): Pieces => {
  const candidate = object(list(body.candidates)[0]) ?? {}
  const parts = objects(object(candidate.content)?.parts).flatMap((part) =>
    part.text !== undefined && part.thoughtSignature !== undefined
      ? [without(part, 'thoughtSignature'), { text: '', thoughtSignature: part.thoughtSignature }]
      : [part],
  )
  return parts.map((part, at) =>
    data({
      ...body,
      candidates: [
        {
          content: { role: 'model', parts: [part] },
          index: 0,
          ...(at === parts.length - 1 && { finishReason: candidate.finishReason }),
        },
      ],
    }),
  )
}

const cohere = ({ id, message, finish_reason, usage }: JsonObject): Pieces => {
  const { content, tool_calls: calls } = object(message) ?? {}
  const parts = objects(content)
  return [
    named({ id, type: 'message-start', delta: { message: { role: 'assistant', content: [] } } }),
    ...parts.flatMap((part, index) => {
      const member = part.type === 'thinking' ? 'thinking' : 'text'
      return [
        named({ type: 'content-start', index, delta: { message: { content: { type: part.type, [member]: '' } } } }),
        ...halves(text(part[member]) ?? '').map((words) =>
          named({ type: 'content-delta', index, delta: { message: { content: { [member]: words } } } }),
        ),
        named({ type: 'content-end', index }),
      ]
    }),
    ...objects(calls).flatMap((call, at) => {
      const index = parts.length + at
      const given = object(call.function) ?? {}
      const start = { ...call, function: { ...given, arguments: '' } }
      return [
        named({ type: 'tool-call-start', index, delta: { message: { tool_calls: start } } }),
        ...halves(text(given.arguments) ?? '').map((words) =>
          named({
            type: 'tool-call-delta',
            index,
            delta: { message: { tool_calls: { function: { arguments: words } } } },
          }),
        ),
        named({ type: 'tool-call-end', index }),
      ]
    }),
    named({ type: 'message-end', delta: { finish_reason, usage } }),
  ]
}

const ollama = (body: JsonObject): Pieces => {
  const { content, thinking, tool_calls: calls } = object(body.message) ?? {}
  const head = { model: body.model, created_at: body.created_at }
  const line = (message: JsonObject) =>
    `${JSON.stringify({ ...head, message: { role: 'assistant', content: '', ...message }, done: false })}\n`
  return [
    ...halves(text(thinking) ?? '').map((words) => line({ thinking: words })),
    ...halves(text(content) ?? '').map((words) => line({ content: words })),
    ...(calls === undefined ? [] : [line({ tool_calls: calls })]),
    `${JSON.stringify({ ...body, message: { role: 'assistant', content: '' } })}\n`,
  ]
}

type Stream = { readonly mediaType: string; readonly pieces: (body: JsonObject) => Pieces }
const sse = (pieces: (body: JsonObject) => Pieces): Stream => ({ mediaType: 'text/event-stream', pieces })

export const streams: { readonly [wire in Wire]: Stream } = {
  chat: sse(chat),
  mistral: sse(chat),
  responses: sse(responses),
  messages: sse(messages),
  converse: { mediaType: 'application/vnd.amazon.eventstream', pieces: converse },
  gemini: sse(gemini),
  cohere: sse(cohere),
  ollama: { mediaType: 'application/x-ndjson', pieces: ollama },
}

/** Whether the request asks for a stream. */
export const wantsStream = (path: string, { stream }: JsonObject): boolean =>
  stream === true || /-stream$|:streamGenerateContent$/.test(path)
