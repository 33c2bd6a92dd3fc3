/**
 * The upstream of the built-in `demo` provider: chat completions in the process, without a model and without a network,
 * answered over the same road as any other upstream's. It never pretends: each text says that no model was called.
 */
import { isObject, type Json, type JsonObject, list, number, object, text } from '../../core/json.ts'
import type { Dial, UpstreamCall, UpstreamListener, World } from '../../core/world.ts'
import { schemaSample } from './schema-sample.ts'

export type DemoOptions = {
  readonly later?: World['later']
  readonly date?: () => number
  /** ms between two pieces of a streamed answer, and what the slow model takes for each and before the first. */
  readonly pace?: { readonly piece: number; readonly slowPiece: number; readonly slowStart: number }
}

const MODELS = ['echo', 'slow', 'flaky', 'down', 'tools'] as const
type Model = (typeof MODELS)[number]

const HOW_TO =
  'Set OPENAI_API_KEY, ANTHROPIC_API_KEY or the key of another provider, and restart, to get a real answer.'
/** Longest piece of the prompt that is repeated. */
const LONGEST_ECHO = 200
const MOST_CHOICES = 128

const realLater: World['later'] = (ms, run) => {
  const timer = setTimeout(run, ms)
  return () => clearTimeout(timer)
}

/** Dials `demo:` URLs. */
export const demoDial = (options: DemoOptions = {}): Dial => {
  const later = options.later ?? realLater
  const date = options.date ?? Date.now
  const pace = options.pace ?? { piece: 15, slowPiece: 120, slowStart: 2_000 }
  let calls = 0
  let flaky = 0

  return (call, listener) => {
    calls++
    const made = answerTo(call, `chatcmpl-demo-${calls}`, Math.floor(date() / 1000), () => ++flaky % 3 === 0)
    const slow = made.model === 'slow'
    return play(made, listener, later, slow ? pace.slowStart : 0, slow ? pace.slowPiece : pace.piece)
  }
}

type Made = {
  readonly model?: Model
  readonly status: number
  readonly type: string
  /** What is sent, piece by piece. */
  readonly pieces: readonly string[]
}

const whole = (status: number, body: JsonObject, model?: Model): Made => ({
  ...(model && { model }),
  status,
  type: 'application/json',
  pieces: [JSON.stringify(body)],
})

const refusal = (status: number, message: string, type: string, code: string, param: string | null = null): Made =>
  whole(status, { error: { message: `[demo] ${message}`, type, param, code } })

const invalid = (message: string, param: string | null = null) =>
  refusal(400, message, 'invalid_request_error', 'invalid_value', param)

const answerTo = (call: UpstreamCall, id: string, created: number, flakyFails: () => boolean): Made => {
  const path = new URL(call.url).pathname
  if (call.method === 'GET' && path.endsWith('/models'))
    return whole(200, {
      object: 'list',
      data: MODELS.map((model) => ({ id: model, object: 'model', created, owned_by: 'demo' })),
    })
  if (call.method === 'POST' && path.endsWith('/embeddings')) return embeddingsFor(call, flakyFails)
  if (call.method !== 'POST' || !path.endsWith('/chat/completions'))
    return refusal(404, `${call.method} ${path} does not exist here.`, 'invalid_request_error', 'unknown_url')

  const body = parsed(call.body)
  if (!body) return invalid('The body is not a JSON object.')
  const asked = text(body.model)?.replace(/^demo\//, '') ?? ''
  const model = MODELS.find((known) => known === asked)
  if (!model)
    return refusal(
      404,
      `There is no model ${asked}; there are ${MODELS.join(', ')}.`,
      'invalid_request_error',
      'model_not_found',
      'model',
    )
  const messages = list(body.messages)
  if (messages.length === 0) return invalid('There are no messages.', 'messages')
  const choices = body.n === undefined || body.n === null ? 1 : number(body.n)
  if (choices === undefined || !Number.isInteger(choices) || choices < 1 || choices > MOST_CHOICES)
    return invalid(`n must be a whole number from 1 to ${MOST_CHOICES}.`, 'n')
  if (model === 'down') return unavailable('The model down always fails: that is what it is for.', model)
  if (model === 'flaky' && flakyFails()) return unavailable('The model flaky fails every third call.', model)

  const toolCall = model === 'tools' ? toolCallFor(body, messages) : undefined
  const said = toolCall ? [] : words(`[demo] No model was called. ${reactionTo(messages)}. ${HOW_TO}`)
  const most = number(body.max_completion_tokens) ?? number(body.max_tokens) ?? Number.POSITIVE_INFINITY
  const kept = said.slice(0, Math.max(0, most))
  const answer: Answer = {
    id,
    created,
    model,
    choices,
    pieces: kept,
    call: toolCall,
    finish: toolCall ? 'tool_calls' : kept.length < said.length ? 'length' : 'stop',
    input: Math.max(
      1,
      messages.reduce<number>((sum, message) => sum + countWords(contentText(message)), 0),
    ),
  }
  if (body.stream !== true) return whole(200, completion(answer), model)
  const wantsUsage = object(body.stream_options)?.include_usage === true
  return { model, status: 200, type: 'text/event-stream; charset=utf-8', pieces: chunks(answer, wantsUsage) }
}

type ToolCall = { readonly name: string; readonly arguments: string }

/**
 * A call of the tool that `tool_choice` names, else of the first function, with arguments that fit its schema. None where
 * tools are switched off or absent, or where the last message is a tool's result.
 */
const toolCallFor = (body: JsonObject, messages: readonly Json[]): ToolCall | undefined => {
  if (body.tool_choice === 'none' || object(messages.at(-1))?.role === 'tool') return undefined
  const functions = list(body.tools)
    .map((tool) => object(object(tool)?.function))
    .filter((one) => one !== undefined)
  const wanted = text(object(object(body.tool_choice)?.function)?.name)
  const chosen = functions.find(({ name }) => wanted === undefined || name === wanted)
  const name = text(chosen?.name)
  if (!chosen || name === undefined) return undefined
  const sample = schemaSample(object(chosen.parameters) ?? {})
  return { name, arguments: JSON.stringify(isObject(sample) ? sample : {}) }
}

const reactionTo = (messages: readonly Json[]): string => {
  const last = messages.at(-1)
  return object(last)?.role === 'tool'
    ? `The tool returned: ${JSON.stringify(shortened(contentText(last)))}`
    : `You said: ${JSON.stringify(lastPrompt(messages))}`
}

/** Lengths of vectors: what is made unless something else is asked for, and the most. */
const LENGTH = { usual: 8, most: 4_096 }

/** Vectors without a model: each word counts at a place its letters decide. The chat models' names are taken too, and fail as they do there. */
const embeddingsFor = (call: UpstreamCall, flakyFails: () => boolean): Made => {
  const body = parsed(call.body)
  if (!body) return invalid('The body is not a JSON object.')
  const model = MODELS.find((known) => known === body.model)
  if (model === 'down') return unavailable('The model down always fails: that is what it is for.', model)
  if (model === 'flaky' && flakyFails()) return unavailable('The model flaky fails every third call.', model)
  const length = number(body.dimensions) ?? LENGTH.usual
  if (!Number.isInteger(length) || length < 1 || length > LENGTH.most)
    return invalid(`dimensions must be a whole number from 1 to ${LENGTH.most}.`, 'dimensions')
  const { input } = body
  const isOne = typeof input === 'string' || list(input).every((entry) => typeof entry === 'number')
  const pieces = (isOne ? [input] : list(input)).map((entry) =>
    typeof entry === 'string' ? (entry.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []) : list(entry).map(String),
  )
  const tokens = pieces.reduce((sum, one) => sum + one.length, 0)
  return whole(
    200,
    {
      object: 'list',
      data: pieces.map((one, index) => ({ object: 'embedding', index, embedding: vectorOf(one, length) })),
      model: 'demo-embed',
      usage: { prompt_tokens: tokens, total_tokens: tokens },
    },
    ...(model ? [model] : []),
  )
}

/** Of length one, save where there is no word. */
const vectorOf = (said: readonly string[], length: number): readonly number[] => {
  const counts = new Array<number>(length).fill(0)
  for (const word of said) {
    let hash = 2_166_136_261
    for (const char of word) hash = Math.imul(hash ^ (char.codePointAt(0) ?? 0), 16_777_619)
    const place = (hash >>> 0) % length
    counts[place] = (counts[place] ?? 0) + 1
  }
  const size = Math.hypot(...counts)
  return size === 0 ? counts : counts.map((count) => count / size)
}

const unavailable = (message: string, model: Model): Made => ({
  ...refusal(503, message, 'server_error', 'service_unavailable'),
  model,
})

const parsed = (body: string | undefined): JsonObject | undefined => {
  try {
    const value: unknown = JSON.parse(body ?? '')
    return isObject(value) ? value : undefined
  } catch {
    // Not JSON: the caller answers 400, as any upstream would.
    return undefined
  }
}

const contentText = (message: Json | undefined): string => {
  const content = object(message)?.content
  if (typeof content === 'string') return content
  return list(content)
    .map((part) => text(object(part)?.text) ?? '')
    .join(' ')
}

const lastPrompt = (messages: readonly Json[]): string => {
  const last = messages.findLast((message) => object(message)?.role === 'user') ?? messages.at(-1)
  return shortened(contentText(last))
}

/** Characters of a text that the demo reads: enough for its echo, however large the request is. */
const MAX_READ = 64 * 1024

/** The text as one line, truncated. */
const shortened = (content: string): string => {
  const line = content.slice(0, MAX_READ).replace(/\s+/g, ' ').trim()
  const characters = [...line]
  return characters.length > LONGEST_ECHO ? `${characters.slice(0, LONGEST_ECHO).join('')}…` : line
}

/** Words with the space before them: near enough to tokens to count by. */
const words = (content: string): string[] => content.match(/\s*\S+/g) ?? []

/** The number of words; of a long text an estimate from its beginning. */
const countWords = (content: string): number => {
  const read = content.slice(0, MAX_READ)
  return read === '' ? 0 : Math.ceil((words(read).length * content.length) / read.length)
}

type Answer = {
  readonly id: string
  readonly created: number
  readonly model: Model
  readonly choices: number
  readonly pieces: readonly string[]
  /** Instead of text. */
  readonly call: ToolCall | undefined
  readonly finish: 'stop' | 'length' | 'tool_calls'
  readonly input: number
}

const usageOf = ({ input, pieces, call, choices }: Answer): JsonObject => {
  const output = (call ? words(call.arguments).length : pieces.length) * choices
  return { prompt_tokens: input, completion_tokens: output, total_tokens: input + output }
}

/** The id of a choice's call; ids are unique within an answer. */
const callId = ({ id }: Answer, choice: number): string => `${id.replace('chatcmpl-', 'call_')}_${choice}`

const toolCallOf = (answer: Answer, call: ToolCall, choice: number): JsonObject => ({
  id: callId(answer, choice),
  type: 'function',
  function: { name: call.name, arguments: call.arguments },
})

const indices = (count: number): number[] => Array.from({ length: count }, (_, index) => index)

const completion = (answer: Answer): JsonObject => ({
  id: answer.id,
  object: 'chat.completion',
  created: answer.created,
  model: answer.model,
  choices: indices(answer.choices).map((index) => ({
    index,
    message: answer.call
      ? { role: 'assistant', content: null, refusal: null, tool_calls: [toolCallOf(answer, answer.call, index)] }
      : { role: 'assistant', content: answer.pieces.join(''), refusal: null },
    logprobs: null,
    finish_reason: answer.finish,
  })),
  usage: usageOf(answer),
})

const chunks = (answer: Answer, wantsUsage: boolean): string[] => {
  const { id, created, model, call } = answer
  const chunk = (choices: Json, more: JsonObject = {}) =>
    `data: ${JSON.stringify({ id, object: 'chat.completion.chunk', created, model, choices, ...more })}\n\n`
  const forAll = (delta: (choice: number) => JsonObject, finish: string | null) =>
    indices(answer.choices)
      .map((index) =>
        chunk(
          [{ index, delta: delta(index), logprobs: null, finish_reason: finish }],
          wantsUsage ? { usage: null } : {},
        ),
      )
      .join('')
  const callStart = (called: ToolCall) => (choice: number) => ({
    tool_calls: [{ index: 0, ...toolCallOf(answer, { ...called, arguments: '' }, choice) }],
  })
  const callPieces = call
    ? [
        forAll(callStart(call), null),
        ...words(call.arguments).map((piece) =>
          forAll(() => ({ tool_calls: [{ index: 0, function: { arguments: piece } }] }), null),
        ),
      ]
    : []
  return [
    forAll(() => ({ role: 'assistant', content: call ? null : '' }), null),
    ...callPieces,
    ...answer.pieces.map((piece) => forAll(() => ({ content: piece }), null)),
    forAll(() => ({}), answer.finish),
    ...(wantsUsage ? [chunk([], { usage: usageOf(answer) })] : []),
    'data: [DONE]\n\n',
  ]
}

/** Plays an answer to a listener in time: head, pieces, end; holds still while the listener is full. */
const play = (made: Made, listener: UpstreamListener, later: World['later'], wait: number, piece: number) => {
  const encoder = new TextEncoder()
  let at = 0
  let live = true
  let paused = false
  let due = false
  const next = (ms: number) => {
    cancel = later(ms, step)
  }
  const step = () => {
    if (!live) return
    if (paused) {
      due = true
      return
    }
    const said = made.pieces[at]
    if (said === undefined) {
      live = false
      listener.end()
      return
    }
    at++
    paused = !listener.bytes(encoder.encode(said))
    if (live) next(at < made.pieces.length ? piece : 0)
  }
  let cancel = later(wait, () => {
    listener.head(made.status, headersOf(made))
    if (live) step()
  })
  return {
    abort() {
      live = false
      cancel()
    },
    resume() {
      paused = false
      if (!due) return
      due = false
      next(0)
    },
  }
}

const headersOf =
  ({ type }: Made) =>
  (name: string): string | undefined =>
    name === 'content-type' ? type : undefined
