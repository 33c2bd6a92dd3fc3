/**
 * The upstream of the built-in `demo` provider: chat completions and embeddings without a model or a network. Its responses
 * take the same path as any upstream's. Each text states that no model was called. The header `x-headgate-fault` breaks a
 * response.
 */
import { applyFault, FaultCounter, type FaultyResponse, parseFaults } from '../../suite/faults.ts'
import { type OutgoingBody, textOf, wholeBody } from '../core/encoded-text.ts'
import { fail } from '../core/failure.ts'
import { isObject, type Json, type JsonObject, list, number, object, text } from '../core/json.ts'
import type { Dial, OngoingCall, UpstreamCall, UpstreamListener, World } from '../core/world.ts'
import { schemaSample } from './schema-sample.ts'

/** Options of `demoDial`. */
export type DemoOptions = {
  readonly later?: World['later']
  readonly date?: () => number
  /** ms between pieces of a stream; for the slow model, ms between pieces and before the first. */
  readonly pace?: { readonly piece: number; readonly slowPiece: number; readonly slowStart: number }
}

const MODELS = ['echo', 'slow', 'flaky', 'down', 'tools'] as const
type Model = (typeof MODELS)[number]

const HOW_TO =
  'Set OPENAI_API_KEY, ANTHROPIC_API_KEY or the key of another provider, and restart, to get a real answer.'
/** Maximum characters of the prompt that are repeated. */
const MAX_ECHO = 200
const MAX_CHOICES = 128
/** The header of clients that names a fault. */
const FAULT_HEADER = 'x-headgate-fault'

const realLater: World['later'] = (ms, run) => {
  const timer = setTimeout(run, ms)
  return () => clearTimeout(timer)
}

/** The provider for the HTTP client, which gives it the calls to `demo:` URLs. */
export const demoUpstream = (options: DemoOptions = {}) => ({ scheme: 'demo:', dial: demoDial(options) }) as const

/** Creates the dialer for `demo:` URLs. */
export const demoDial = (options: DemoOptions = {}): Dial => {
  const later = options.later ?? realLater
  const date = options.date ?? Date.now
  const pace = options.pace ?? { piece: 15, slowPiece: 120, slowStart: 2_000 }
  let calls = 0
  let flaky = 0
  const counter = new FaultCounter()

  return (call, listener) => {
    calls++
    const response = respond(call, `chatcmpl-demo-${calls}`, Math.floor(date() / 1000), () => ++flaky % 3 === 0)
    const slow = response.model === 'slow'
    const delays = { first: slow ? pace.slowStart : 0, piece: slow ? pace.slowPiece : pace.piece }
    return play(broken(call, timed(response, delays), counter), listener, later)
  }
}

/** The response with the fault that the request names for this attempt. */
const broken = (call: UpstreamCall, response: FaultyResponse, counter: FaultCounter): FaultyResponse => {
  const requested = call.headers[FAULT_HEADER]
  if (requested === undefined) return response
  const parsed = parseFaults(requested)
  if (!parsed.ok) return timed(invalidRequest(parsed.problem), { first: 0, piece: 0 })
  const fault = counter.next(`${requested} ${call.url} ${textOf(wholeBody(call.body ?? ''))}`, parsed.faults)
  return fault ? applyFault(fault, response) : response
}

type DemoResponse = {
  readonly model?: Model
  readonly status: number
  readonly type: string
  /** The body, in the pieces in which it is sent. */
  readonly pieces: readonly string[]
}

const jsonResponse = (status: number, body: JsonObject, model?: Model): DemoResponse => ({
  ...(model && { model }),
  status,
  type: 'application/json',
  pieces: [JSON.stringify(body)],
})

type DemoError = { readonly message: string; readonly type: string; readonly code: string; readonly param?: string }

const errorResponse = (status: number, { message, type, code, param }: DemoError): DemoResponse =>
  jsonResponse(status, { error: { message: `[demo] ${message}`, type, param: param ?? null, code } })

const invalidRequest = (message: string, param?: string) =>
  errorResponse(400, {
    message,
    type: 'invalid_request_error',
    code: 'invalid_value',
    ...(param !== undefined && { param }),
  })

const respond = (call: UpstreamCall, id: string, created: number, flakyFails: () => boolean): DemoResponse => {
  const path = new URL(call.url).pathname
  if (call.method === 'GET' && path.endsWith('/models'))
    return jsonResponse(200, {
      object: 'list',
      data: MODELS.map((model) => ({ id: model, object: 'model', created, owned_by: 'demo' })),
    })
  if (call.method === 'POST' && path.endsWith('/embeddings')) return embeddingsFor(call, flakyFails)
  if (call.method !== 'POST' || !path.endsWith('/chat/completions'))
    return errorResponse(404, {
      message: `${call.method} ${path} does not exist.`,
      type: 'invalid_request_error',
      code: 'unknown_url',
    })

  const body = parseBody(call.body)
  if (!body) return invalidRequest('The body is not a JSON object.')
  const requested = text(body.model)?.replace(/^demo\//, '') ?? ''
  const model = MODELS.find((known) => known === requested)
  if (!model)
    return errorResponse(404, {
      message: `Unknown model ${requested}. The models are ${MODELS.join(', ')}.`,
      type: 'invalid_request_error',
      code: 'model_not_found',
      param: 'model',
    })
  const messages = list(body.messages)
  if (messages.length === 0) return invalidRequest('The list of messages is empty.', 'messages')
  const choices = body.n === undefined || body.n === null ? 1 : number(body.n)
  if (choices === undefined || !Number.isInteger(choices) || choices < 1 || choices > MAX_CHOICES)
    return invalidRequest(`n must be an integer from 1 to ${MAX_CHOICES}.`, 'n')
  const outage = outageOf(model, flakyFails)
  if (outage) return outage

  const toolCall = model === 'tools' ? toolCallFor(body, messages) : undefined
  const tokens = toolCall ? [] : words(`[demo] No model was called. ${echoOf(messages)}. ${HOW_TO}`)
  const maxTokens = number(body.max_completion_tokens) ?? number(body.max_tokens) ?? Number.POSITIVE_INFINITY
  const pieces = tokens.slice(0, Math.max(0, maxTokens))
  const completion: Completion = {
    id,
    created,
    model,
    choices,
    pieces,
    call: toolCall,
    finish: toolCall ? 'tool_calls' : pieces.length < tokens.length ? 'length' : 'stop',
    input: Math.max(
      1,
      messages.reduce<number>((sum, message) => sum + countWords(contentText(message)), 0),
    ),
  }
  if (body.stream !== true) return jsonResponse(200, completionBody(completion), model)
  const wantsUsage = object(body.stream_options)?.include_usage === true
  return { model, status: 200, type: 'text/event-stream; charset=utf-8', pieces: chunks(completion, wantsUsage) }
}

type DemoToolCall = { readonly name: string; readonly arguments: string }

/**
 * A call of the tool that `tool_choice` names, else of the first function, with arguments that match its schema. Undefined
 * if tools are disabled or absent, or if the last message is a tool result.
 */
const toolCallFor = (body: JsonObject, messages: readonly Json[]): DemoToolCall | undefined => {
  if (body.tool_choice === 'none' || object(messages.at(-1))?.role === 'tool') return undefined
  const functions = list(body.tools)
    .map((tool) => object(object(tool)?.function))
    .filter((candidate) => candidate !== undefined)
  const required = text(object(object(body.tool_choice)?.function)?.name)
  const chosen = functions.find(({ name }) => required === undefined || name === required)
  const name = text(chosen?.name)
  if (!chosen || name === undefined) return undefined
  const sample = schemaSample(object(chosen.parameters) ?? {})
  return { name, arguments: JSON.stringify(isObject(sample) ? sample : {}) }
}

const echoOf = (messages: readonly Json[]): string => {
  const last = messages.at(-1)
  return object(last)?.role === 'tool'
    ? `The tool returned: ${JSON.stringify(truncated(contentText(last)))}`
    : `You said: ${JSON.stringify(lastPrompt(messages))}`
}

/** Dimensions of an embedding: the default and the maximum. */
const DIMENSIONS = { default: 8, max: 4_096 }

/** Embeddings without a model: each word increments the dimension its hash selects. `down` and `flaky` fail as in chat. */
const embeddingsFor = (call: UpstreamCall, flakyFails: () => boolean): DemoResponse => {
  const body = parseBody(call.body)
  if (!body) return invalidRequest('The body is not a JSON object.')
  const model = MODELS.find((known) => known === body.model)
  const outage = model && outageOf(model, flakyFails)
  if (outage) return outage
  const length = number(body.dimensions) ?? DIMENSIONS.default
  if (!Number.isInteger(length) || length < 1 || length > DIMENSIONS.max)
    return invalidRequest(`dimensions must be an integer from 1 to ${DIMENSIONS.max}.`, 'dimensions')
  const { input } = body
  const isSingle = typeof input === 'string' || list(input).every((entry) => typeof entry === 'number')
  const pieces = (isSingle ? [input] : list(input)).map((entry) =>
    typeof entry === 'string' ? (entry.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []) : list(entry).map(String),
  )
  const tokens = pieces.reduce((sum, { length: count }) => sum + count, 0)
  return jsonResponse(
    200,
    {
      object: 'list',
      data: pieces.map((entry, index) => ({ object: 'embedding', index, embedding: vectorOf(entry, length) })),
      model: 'demo-embed',
      usage: { prompt_tokens: tokens, total_tokens: tokens },
    },
    ...(model ? [model] : []),
  )
}

/** A unit vector; zero without words. */
const vectorOf = (tokens: readonly string[], length: number): readonly number[] => {
  const counts = new Array<number>(length).fill(0)
  for (const word of tokens) {
    let hash = 2_166_136_261
    for (const char of word) hash = Math.imul(hash ^ (char.codePointAt(0) ?? 0), 16_777_619)
    const place = (hash >>> 0) % length
    counts[place] = (counts[place] ?? 0) + 1
  }
  const size = Math.hypot(...counts)
  return size === 0 ? counts : counts.map((count) => count / size)
}

/** The error response of a model that fails at this call; undefined for the others. */
const outageOf = (model: Model, flakyFails: () => boolean): DemoResponse | undefined => {
  if (model === 'down') return unavailable('The model down always fails.', model)
  if (model === 'flaky' && flakyFails()) return unavailable('The model flaky fails every third call.', model)
  return undefined
}

const unavailable = (message: string, model: Model): DemoResponse => ({
  ...errorResponse(503, { message, type: 'server_error', code: 'service_unavailable' }),
  model,
})

const parseBody = (body: OutgoingBody | undefined): JsonObject | undefined => {
  try {
    const value: unknown = JSON.parse(textOf(wholeBody(body ?? '')))
    return isObject(value) ? value : undefined
  } catch {
    // Not JSON: the caller responds with 400.
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
  return truncated(contentText(last))
}

/** Characters of a text that the demo reads: enough for its echo, however large the request is. */
const MAX_READ = 64 * 1024

/** The text as one line, truncated. */
const truncated = (content: string): string => {
  const line = content.slice(0, MAX_READ).replace(/\s+/g, ' ').trim()
  const characters = [...line]
  return characters.length > MAX_ECHO ? `${characters.slice(0, MAX_ECHO).join('')}…` : line
}

/** Words with their leading space, as an approximation of tokens. */
const words = (content: string): string[] => content.match(/\s*\S+/g) ?? []

/** The number of words; for a long text, an estimate from its beginning. */
const countWords = (content: string): number => {
  const read = content.slice(0, MAX_READ)
  return read === '' ? 0 : Math.ceil((words(read).length * content.length) / read.length)
}

type Completion = {
  readonly id: string
  readonly created: number
  readonly model: Model
  readonly choices: number
  readonly pieces: readonly string[]
  /** Replaces the text. */
  readonly call: DemoToolCall | undefined
  readonly finish: 'stop' | 'length' | 'tool_calls'
  readonly input: number
}

const usageOf = ({ input, pieces, call, choices }: Completion): JsonObject => {
  const output = (call ? words(call.arguments).length : pieces.length) * choices
  return { prompt_tokens: input, completion_tokens: output, total_tokens: input + output }
}

/** The ID of a choice's tool call. IDs are unique within a response. */
const callId = ({ id }: Completion, choice: number): string => `${id.replace('chatcmpl-', 'call_')}_${choice}`

const toolCallOf = (answer: Completion, call: DemoToolCall, choice: number): JsonObject => ({
  id: callId(answer, choice),
  type: 'function',
  function: { name: call.name, arguments: call.arguments },
})

const indices = (count: number): number[] => Array.from({ length: count }, (_, index) => index)

const completionBody = (answer: Completion): JsonObject => ({
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

const chunks = (answer: Completion, wantsUsage: boolean): string[] => {
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
  const callStart = (toolCall: DemoToolCall) => (choice: number) => ({
    tool_calls: [{ index: 0, ...toolCallOf(answer, { ...toolCall, arguments: '' }, choice) }],
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

/** ms before the header block, and between pieces. */
type Delays = { readonly first: number; readonly piece: number }

const timed = ({ status, type, pieces }: DemoResponse, delays: Delays): FaultyResponse => ({
  head: { after: delays.first, status, headers: { 'content-type': type } },
  pieces: pieces.map((data, index) => ({ after: index === 0 ? 0 : delays.piece, data })),
  end: 'complete',
})

/** Emits a response with delays: headers, pieces, end. Pauses while the listener requests it. */
const play = (response: FaultyResponse, listener: UpstreamListener, later: World['later']): OngoingCall => {
  const encoder = new TextEncoder()
  const { head, pieces, end } = response
  let at = 0
  let live = true
  let paused = false
  /** The time of the next piece has passed during a pause. */
  let due = false
  let cancel = () => {}
  const next = (ms: number) => {
    cancel = later(ms, step)
  }
  const finish = () => {
    if (end === 'open') return
    live = false
    if (end === 'complete') listener.onEnd()
    else listener.onFailure(fail('reset', '[demo] The connection was closed.'))
  }
  const step = () => {
    if (!live) return
    if (paused) {
      due = true
      return
    }
    const piece = pieces[at]
    if (piece === undefined) {
      finish()
      return
    }
    at++
    paused = !listener.onBody(typeof piece.data === 'string' ? encoder.encode(piece.data) : piece.data)
    if (live) next(pieces[at]?.after ?? 0)
  }
  cancel = later(head?.after ?? 0, () => {
    if (!head) {
      finish()
      return
    }
    listener.onHeaders(head.status, (name) => head.headers[name])
    if (!live) return
    const first = pieces[0]?.after ?? 0
    if (first === 0) step()
    else next(first)
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
