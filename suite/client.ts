/** Calls a gateway as applications do, with the vendors' SDKs, and reports what the application sees. */
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import type { SystemFile } from './system.ts'
import type { Style } from './wire.ts'

export type Ask = {
  readonly style: Style
  readonly model: string
  readonly fallback: string
  readonly nonce: string
  /** Further members of the body. */
  readonly extra?: Readonly<Record<string, unknown>>
  /** The application leaves after so many pieces of text, or ms. */
  readonly leave?: { readonly pieces?: number; readonly ms: number }
  /** ms that the application takes for an event. */
  readonly slow?: number
  /** ms after which the call is a hang. */
  readonly limit: number
}

export type SeenCall = { readonly id: string; readonly name: string; readonly arguments: string }

/** What the application sees. */
export type Seen = {
  readonly how: 'ended' | 'error' | 'hang' | 'left'
  readonly text: string
  readonly calls: readonly SeenCall[]
  /** In the words of the style; empty: none was stated. */
  readonly finish: string
  readonly model: string
  readonly usage: { readonly input: number; readonly output: number } | null
  readonly status: number
  readonly error: string
  /** The error that the SDK raised has the members that the style names. */
  readonly hasShape: boolean
  readonly headers: Readonly<Record<string, string>>
  /** What the gateway sent, cut. */
  readonly transcript: string
  readonly ms: number
}

const TRANSCRIPT = 4_096
/** The key that applications send to the gateway. */
export const CLIENT_KEY = 'sk-client-71be05d4'

type Draft = { -readonly [member in keyof Seen]: Seen[member] } & {
  made: Map<string, { id: string; name: string; arguments: string }>
}

const addCall = (
  { made }: Draft,
  place: string | number | undefined,
  { id, name, text }: { [member in 'id' | 'name' | 'text']?: string | undefined },
) => {
  const call = made.get(String(place)) ?? { id: '', name: '', arguments: '' }
  made.set(String(place), {
    id: call.id || (id ?? ''),
    name: call.name || (name ?? ''),
    arguments: call.arguments + (text ?? ''),
  })
}

/** External data: the members of events that are read. */
type ChatEvent = {
  readonly model?: string
  readonly usage?: { readonly prompt_tokens: number; readonly completion_tokens: number } | null
  readonly choices?: readonly {
    readonly finish_reason?: string | null
    readonly delta?: {
      readonly content?: string | null
      readonly tool_calls?: readonly { index: number; id?: string; function?: { name?: string; arguments?: string } }[]
    }
  }[]
}
type MessagesEvent = {
  readonly index?: number
  readonly message?: { readonly model: string; readonly usage?: { readonly input_tokens?: number } }
  readonly content_block?: { readonly type: string; readonly id: string; readonly name: string }
  readonly delta?: {
    readonly type?: string
    readonly text?: string
    readonly partial_json?: string
    readonly stop_reason?: string | null
  }
  readonly usage?: { readonly input_tokens?: number; readonly output_tokens?: number }
}
type ResponsesEvent = {
  readonly type: string
  readonly message?: string
  readonly delta?: string
  readonly output_index?: number
  readonly item?: { readonly type: string; readonly call_id: string; readonly name: string }
  readonly response?: {
    readonly model?: string
    readonly status: string
    readonly error?: { readonly message?: string } | null
    readonly usage?: { readonly input_tokens: number; readonly output_tokens: number } | null
  }
}

const readChat = (draft: Draft, event: ChatEvent): void => {
  if (event.model) draft.model = event.model
  if (event.usage) draft.usage = { input: event.usage.prompt_tokens, output: event.usage.completion_tokens }
  for (const { delta, finish_reason: finish } of event.choices ?? []) {
    draft.text += delta?.content ?? ''
    for (const { index, id, function: made } of delta?.tool_calls ?? [])
      addCall(draft, index, { id, name: made?.name, text: made?.arguments })
    if (finish) draft.finish = finish
  }
}

const readMessages = (draft: Draft, event: MessagesEvent): void => {
  const { message, index, content_block: block, delta, usage } = event
  if (message) {
    draft.model = message.model
    draft.usage = { input: message.usage?.input_tokens ?? 0, output: 0 }
  }
  if (block?.type === 'tool_use') addCall(draft, index, { id: block.id, name: block.name })
  if (delta?.type === 'text_delta') draft.text += delta.text
  if (delta?.type === 'input_json_delta') addCall(draft, index, { text: delta.partial_json })
  if (delta?.stop_reason) draft.finish = delta.stop_reason
  if (usage?.output_tokens !== undefined)
    draft.usage = { input: usage.input_tokens ?? draft.usage?.input ?? 0, output: usage.output_tokens }
}

const readResponses = (draft: Draft, event: ResponsesEvent): void => {
  const { type, response, item, output_index: index, delta } = event
  if (response?.model) draft.model = response.model
  if (type === 'response.output_text.delta') draft.text += delta
  if (type === 'response.output_item.added' && item?.type === 'function_call')
    addCall(draft, index, { id: item.call_id, name: item.name })
  if (type === 'response.function_call_arguments.delta') addCall(draft, index, { text: delta })
  if (response && (type === 'response.completed' || type === 'response.incomplete')) {
    draft.finish = response.status
    if (response.usage) draft.usage = { input: response.usage.input_tokens, output: response.usage.output_tokens }
  }
  if (type === 'response.failed' || type === 'error')
    throw Object.assign(new Error(response?.error?.message ?? event.message ?? 'failed'), { isStated: true })
}

/** The stream of a style has the events that its reader takes. */
const READ: { readonly [style in Style]: (draft: Draft, event: never) => void } = {
  chat: readChat,
  messages: readMessages,
  responses: readResponses,
}

const PROMPT = (nonce: string) => `Answer with sixty numbered words. The nonce ${nonce} begins each.`

export const TOOL = {
  name: 'store',
  description: 'Stores words.',
  schema: { type: 'object', properties: { words: { type: 'string' } } },
}

/** The tool in the form of the style. */
export const toolsOf = (style: Style): readonly object[] => {
  const { name, description, schema } = TOOL
  if (style === 'messages') return [{ name, description, input_schema: schema }]
  if (style === 'responses') return [{ type: 'function', name, description, parameters: schema, strict: false }]
  return [{ type: 'function', function: { name, description, parameters: schema } }]
}

const bodyFor = ({ style, nonce, extra }: Ask, model: string): object => {
  const messages = [{ role: 'user', content: PROMPT(nonce) }]
  if (style === 'responses') return { model, input: PROMPT(nonce), stream: true, ...extra }
  if (style === 'messages') return { model, max_tokens: 4_096, messages, stream: true, ...extra }
  return { model, messages, stream: true, stream_options: { include_usage: true }, ...extra }
}

/** Keeps the first and the last of what arrives, and the status. */
const recording =
  (draft: Draft): typeof fetch =>
  async (url, init) => {
    const response = await fetch(url, init)
    draft.status = response.status
    draft.headers = Object.fromEntries(response.headers)
    if (!response.body) return response
    const decoder = new TextDecoder()
    const kept = new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        controller.enqueue(chunk)
        if (draft.transcript.length < TRANSCRIPT * 8) draft.transcript += decoder.decode(chunk.subarray(0, TRANSCRIPT))
        else draft.transcript = draft.transcript.slice(0, TRANSCRIPT) + decoder.decode(chunk).slice(-TRANSCRIPT)
      },
    })
    return new Response(response.body.pipeThrough(kept), { status: response.status, headers: response.headers })
  }

/** Opens the stream of a style. */
const open = async (
  ask: Ask,
  system: SystemFile,
  draft: Draft,
  signal: AbortSignal,
): Promise<AsyncIterable<unknown>> => {
  const { model, headers, extraBody } = system.request(ask)
  const options = { maxRetries: 0, timeout: ask.limit, fetch: recording(draft), defaultHeaders: headers }
  // The members of the body are those of the style; the types of three SDKs have nothing in common.
  const body = { ...bodyFor(ask, model), ...extraBody } as never
  if (ask.style === 'messages') {
    const client = new Anthropic({
      ...options,
      baseURL: system.baseUrl.replace(/\/v1\/?$/, ''),
      apiKey: system.apiKey ?? CLIENT_KEY,
    })
    return (await client.messages.create(body, { signal })) as unknown as AsyncIterable<unknown>
  }
  const client = new OpenAI({ ...options, baseURL: system.baseUrl, apiKey: system.apiKey ?? CLIENT_KEY })
  const stream =
    ask.style === 'responses'
      ? client.responses.create(body, { signal })
      : client.chat.completions.create(body, { signal })
  return (await stream) as unknown as AsyncIterable<unknown>
}

type ErrorBody = { readonly message?: unknown; readonly type?: unknown; readonly error?: ErrorBody }

/** What an application that catches errors sees of them. */
const readError = (draft: Draft, error: unknown, style: Style): void => {
  const raised = error as {
    readonly message?: string
    readonly status?: number
    readonly error?: ErrorBody
    readonly isStated?: true
  }
  draft.how = 'error'
  draft.error = `${(error as Error).name}: ${raised.message ?? ''}`.slice(0, 600)
  const body = style === 'messages' ? raised.error?.error : raised.error
  draft.hasShape = raised.isStated === true || (typeof body?.message === 'string' && typeof body.type === 'string')
}

/** Calls once, without retries of the SDK. Never rejects. */
export const call = async (system: SystemFile, ask: Ask): Promise<Seen> => {
  const draft: Draft = {
    how: 'ended',
    text: '',
    calls: [],
    finish: '',
    model: '',
    usage: null,
    status: 0,
    error: '',
    hasShape: false,
    headers: {},
    transcript: '',
    ms: 0,
    made: new Map(),
  }
  const begun = performance.now()
  const abort = new AbortController()
  let hung = false
  let left = false
  const stop = () => abort.abort()
  const timers = [
    setTimeout(() => {
      hung = true
      stop()
    }, ask.limit),
  ]
  if (ask.leave)
    timers.push(
      setTimeout(() => {
        left = true
        stop()
      }, ask.leave.ms),
    )
  try {
    let pieces = 0
    for await (const event of await open(ask, system, draft, abort.signal)) {
      const before = draft.text.length
      READ[ask.style](draft, event as never)
      if (draft.text.length > before) pieces++
      if (ask.leave?.pieces !== undefined && pieces >= ask.leave.pieces) {
        left = true
        stop()
        break
      }
      if (ask.slow) await new Promise((resolve) => setTimeout(resolve, ask.slow))
    }
  } catch (error) {
    readError(draft, error, ask.style)
  }
  // An SDK ends the loop of an aborted stream without an error.
  if (left) draft.how = 'left'
  else if (hung) draft.how = 'hang'
  for (const timer of timers) clearTimeout(timer)
  draft.calls = [...draft.made.values()]
  draft.ms = Math.round(performance.now() - begun)
  draft.transcript =
    draft.transcript.length > TRANSCRIPT
      ? `${draft.transcript.slice(0, TRANSCRIPT / 2)}\n…\n${draft.transcript.slice(-TRANSCRIPT / 2)}`
      : draft.transcript
  const { made: _, ...seen } = draft
  return seen
}
