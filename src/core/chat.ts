/**
 * The canonical form of chat requests and answers. Each wire format is decoded to it and encoded from it; no format is
 * converted directly to another.
 *
 * `at` is the path of each part in the client's body, so that a loss is reported by that path. Members without a
 * canonical equivalent are kept as `Extra` or `foreign`, so that an encoder that cannot express them reports a loss.
 */
import type { Failure } from './failure.ts'
import type { Json, JsonObject } from './json.ts'
import type { SummedCost } from './price-source.ts'
import type { ClientProtocolName } from './request-styles.ts'

// ── Requests ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** A decoded chat request. */
export type ChatRequest = {
  readonly model: string
  readonly stream: boolean
  readonly messages: readonly Message[]
  readonly tools: readonly Tool[]
  readonly settings: GenerationSettings
  /** The oldest turns may be omitted if the request exceeds every context window. */
  readonly mayTruncate?: boolean
  /** Top-level members without a canonical equivalent. */
  readonly extras: readonly Extra[]
  /** Parts of the body have the shape of another client format, so it is encoded for every target, never passed unchanged. */
  readonly reshaped?: true
}

/**
 * A value and its path in the client's body: `{ value: 0.2, at: 'temperature' }`. An empty path marks a default of the
 * client's format, which is never reported as a loss.
 */
export type Setting<T> = { readonly value: T; readonly at: string; readonly paths?: MemberPaths }

/**
 * Where members are in the client's body, relative to `at`: `{ detail: 'image_url.detail' }`. A member without an entry is
 * at `at` under its own name. Null: the client did not write it; its style has that default.
 */
export type MemberPaths = { readonly [member: string]: string | null }

/** Generation parameters. Each encoder has a table of those it supports; others are losses. */
export type GenerationSettings = {
  /** Maximum length of the answer in tokens, including reasoning. */
  readonly maxOutputTokens?: Setting<number>
  readonly temperature?: Setting<number>
  readonly topP?: Setting<number>
  readonly topK?: Setting<number>
  readonly stop?: Setting<readonly string[]>
  readonly seed?: Setting<Json>
  readonly presencePenalty?: Setting<number>
  readonly frequencyPenalty?: Setting<number>
  readonly logitBias?: Setting<JsonObject>
  /** Number of choices. Formats with one choice cannot serve more. */
  readonly choices?: Setting<number>
  readonly logprobs?: Setting<boolean>
  readonly topLogprobs?: Setting<number>
  readonly toolChoice?: Setting<ToolChoice>
  readonly parallelToolCalls?: Setting<boolean>
  readonly format?: Setting<OutputFormat>
  readonly effort?: Setting<Effort>
  /** Anthropic's `budget_tokens` for reasoning; 0: off. */
  readonly thinkingBudget?: Setting<number>
  /** Requested reasoning summary: `auto`, `concise` or `detailed`. */
  readonly reasoningSummary?: Setting<string>
  /** Return encrypted reasoning, for use in the next turn. */
  readonly encryptedReasoning?: Setting<boolean>
  readonly verbosity?: Setting<string>
  readonly user?: Setting<string>
  readonly promptCacheKey?: Setting<string>
  readonly serviceTier?: Setting<string>
  readonly metadata?: Setting<JsonObject>
  /** Whether the provider may store the answer. The formats have different defaults, so `false` is always sent. */
  readonly store?: Setting<boolean>
  /** Include usage in the stream. */
  readonly streamUsage?: Setting<boolean>
}
export type SettingName = keyof GenerationSettings

/** Levels of reasoning, the least first. */
export const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const
export type Effort = (typeof EFFORTS)[number]
export const isEffort = (value: unknown): value is Effort => EFFORTS.some((level) => level === value)

export type ToolChoice =
  | { readonly kind: 'auto' | 'none' | 'required' }
  | { readonly kind: 'tool'; readonly name: string }
  | { readonly kind: 'allowed'; readonly mode: 'auto' | 'required'; readonly names: readonly string[] }

export type OutputFormat =
  | { readonly kind: 'text' }
  | { readonly kind: 'json' }
  | {
      readonly kind: 'schema'
      readonly name: string
      readonly schema: Json
      readonly description?: string
      readonly strict?: boolean
    }

/**
 * A member without a canonical name. `essential`: without it the request has another meaning, so a target that cannot
 * carry it is unfit.
 */
export type Extra = {
  readonly at: string
  readonly name: string
  readonly value: Json
  readonly essential: boolean
  /** Requests tools that the provider runs and the model need not use. Omitted if no target supports it. */
  readonly optional?: true
}

export type Tool =
  | {
      readonly kind: 'function'
      readonly at: string
      readonly name: string
      readonly description?: string
      /** JSON Schema of the arguments; absent: no arguments. */
      readonly parameters?: Json
      /** The client's value, or the default of its API style (true in responses, false in chat). */
      readonly strict?: boolean
      readonly paths?: MemberPaths
      readonly extras?: readonly Extra[]
    }
  /** Free-form input instead of a schema. */
  | {
      readonly kind: 'custom'
      readonly at: string
      readonly name: string
      readonly description?: string
      readonly format?: Json
      readonly paths?: MemberPaths
    }
  /** Run by the provider, or of a kind that exists in its own format only; other formats cannot carry it. */
  | {
      readonly kind: 'foreign'
      readonly at: string
      readonly protocol: ProtocolName
      readonly raw: JsonObject
      /** The provider runs it and the model need not use it. If no target can carry it, the request may be sent without it. */
      readonly optional?: true
    }

export type Message = {
  readonly at: string
  readonly content: readonly Part[]
  readonly extras?: readonly Extra[]
} & (
  | { readonly role: 'system'; readonly as: 'system' | 'developer' }
  | { readonly role: 'user' }
  /** One turn of the model: text, reasoning and tool calls, in order. Adjacent wire messages of one turn are merged. */
  | { readonly role: 'assistant' }
  /** The result of one tool call. */
  | { readonly role: 'tool'; readonly callId: string; readonly isError?: boolean }
)

export type Part =
  | { readonly type: 'text'; readonly at: string; readonly text: string; readonly extras?: readonly Extra[] }
  | { readonly type: 'refusal'; readonly at: string; readonly text: string }
  | {
      readonly type: 'image'
      readonly at: string
      readonly source: MediaSource
      readonly detail?: string
      readonly paths?: MemberPaths
      readonly extras?: readonly Extra[]
    }
  | {
      readonly type: 'file'
      readonly at: string
      readonly source: MediaSource
      readonly filename?: string
      readonly paths?: MemberPaths
      readonly extras?: readonly Extra[]
    }
  | { readonly type: 'audio'; readonly at: string; readonly data: string; readonly format: string }
  | ({ readonly at: string } & Reasoning)
  | ({ readonly at: string } & ToolCall)
  | ForeignPart

/**
 * A content block that exists in its own format only. `instead`: the parts that other formats receive, none if it only
 * steers. `optional`: other formats cannot carry it, and it may be omitted.
 */
export type ForeignPart = {
  readonly type: 'foreign'
  readonly at: string
  readonly protocol: ProtocolName
  readonly raw: JsonObject
  readonly instead?: readonly Part[]
  readonly optional?: true
}

/** The bytes of an image or file, or a reference to them. `mediaType` may be unknown for a data URL without one. */
export type MediaSource =
  | { readonly kind: 'data'; readonly mediaType: string; readonly data: string }
  | { readonly kind: 'url'; readonly url: string }
  | { readonly kind: 'id'; readonly id: string; readonly protocol: ProtocolName }

export type ToolCall = {
  readonly type: 'tool-call'
  /** Links call and result (`call_id`, `tool_calls[].id`, `tool_use.id`). */
  readonly id: string
  readonly name: string
  /** JSON text from the model, possibly invalid, or free text for a custom tool. */
  readonly arguments: string
  readonly custom?: boolean
}

export type Reasoning = {
  readonly type: 'reasoning'
  readonly text: string
  /** A summary of the reasoning, not the reasoning itself. */
  readonly summary?: boolean
  readonly signature?: ReasoningSignature
}

/**
 * A reasoning signature or encrypted reasoning, which the next turn must return unchanged. Valid only for the format (and
 * usually the provider) in `origin`; other targets omit it.
 *
 * Gemini also signs calls and texts. Such a signature is an empty reasoning block before the call or after the text; `id`
 * is then the ID of the call.
 */
export type ReasoningSignature = {
  readonly origin: UpstreamProtocolName
  readonly value: string
  readonly redacted?: boolean
  readonly id?: string
  /** The provider instance that encrypted it. OpenAI, Azure and xAI cannot read each other's. Absent: unknown. */
  readonly issuer?: string
}

// ── Answers ──────────────────────────────────────────────────────────────────────────────────────────────────────

/**
 * An event of an answer; `fold` combines them into a whole answer. Blocks do not interleave: events between `open` and
 * `close` belong to that block. `finish` occurs once, after the last `close`; without it the answer is truncated. The last
 * `usage` counts. `failure` is the last event.
 */
export type ChatEvent =
  /** The upstream started its answer. Not content. `created`: seconds since 1970. `retires`: when the model ends, in ms. */
  | {
      readonly type: 'start'
      readonly id?: string
      readonly model?: string
      readonly created?: number
      readonly retires?: number
      readonly raw?: JsonObject
    }
  | { readonly type: 'open'; readonly block: Block }
  /** More of the open block's text (for a tool call, of its arguments). */
  | { readonly type: 'delta'; readonly text: string; readonly logprobs?: Json }
  /** A source that the open text block cites. */
  | { readonly type: 'citation'; readonly citation: Citation }
  /** Signature of the open reasoning block. */
  | { readonly type: 'signature'; readonly signature: ReasoningSignature }
  | { readonly type: 'close' }
  | { readonly type: 'usage'; readonly usage: Usage }
  | { readonly type: 'finish'; readonly finish: Finish }
  | { readonly type: 'failure'; readonly failure: Failure }
  /** A keep-alive. */
  | { readonly type: 'ping' }

export type Block =
  | { readonly type: 'text' }
  | { readonly type: 'refusal' }
  | { readonly type: 'reasoning'; readonly summary?: boolean }
  | { readonly type: 'tool-call'; readonly id: string; readonly name: string; readonly custom?: boolean }
  /**
   * A block that exists in its own format only, such as a hosted tool's call or result. Passed unchanged to that
   * format; other formats write `output`.
   */
  | { readonly type: 'foreign'; readonly protocol: ProtocolName; readonly raw: JsonObject; readonly output?: Output }

/**
 * The user-visible output in a foreign block. `kind`: `image`, `audio`, `video`, `file` or `code`. For `audio`, the
 * block's text is the transcript, if there is one. `images`: images that some other formats can carry.
 */
export type Output = { readonly kind: string; readonly images?: readonly MediaSource[] }

/** `start` and `end`: UTF-16 offsets in the block's text, if known. */
export type Citation = {
  readonly url: string
  readonly title?: string
  readonly start?: number
  readonly end?: number
  readonly raw?: Json
}

export type FinishKind =
  | 'stop'
  | 'tool-calls'
  | 'length'
  | 'content-filter'
  | 'refusal'
  | 'pause'
  | 'malformed'
  | 'error'

/** The finish reason in canonical form and as received. */
export type Finish = { readonly kind: FinishKind; readonly raw: string | null; readonly stopSequence?: string }

/** What an answer used. Parts are included in `input` and `output`: cached tokens, reasoning, audio and images. */
export type Usage = {
  readonly input: number
  readonly output: number
  readonly cacheRead?: number
  readonly cacheWrite?: number
  /** The part of `cacheWrite` that is kept for an hour. */
  readonly cacheWrite1h?: number
  readonly reasoning?: number
  /** Audio that was not read from a cache. */
  readonly audioInput?: number
  readonly imageInput?: number
  readonly videoInput?: number
  readonly audioOutput?: number
  readonly imageOutput?: number
  readonly videoOutput?: number
  /** The count that the upstream did not report, or reported as a value that cannot be one. It is 0 here. */
  readonly unknown?: 'input' | 'output'
  /** What is billed, where that is not what was counted. */
  readonly billed?: { readonly input: number; readonly output: number }
  /** Steps that the counts do not include: Claude's compaction, and its advisor, which is another model. */
  readonly further?: readonly FurtherStep[]
  /** Calls of tools that the provider ran, by name: `{ web_search: 2 }`. */
  readonly toolCalls?: { readonly [name: string]: number }
  /** What is billed where tokens are not. */
  readonly units?: UnitCount
  /** The service tier that the upstream used, in lower case: `default`, `flex`, `priority`. */
  readonly serviceTier?: string
  /** The speed of the answer, in lower case: `fast`. */
  readonly speed?: string
  /** Where the model ran, in lower case: `us`. */
  readonly region?: string
  /** The upstream's own cost in nano-dollars; may be a fraction. */
  readonly reportedCost?: number
  /** The counts are sums of several answers, and this is the sum of their costs; null: one of them is not known. */
  readonly summed?: SummedCost | null
  /** The usage object from the upstream. */
  readonly raw?: JsonObject
}

/** Names of units: seconds of audio, characters of text, images, queries of up to 100 documents, passed calls of unknown usage. */
export const UNITS = ['seconds', 'characters', 'images', 'queries', 'calls'] as const

/** An amount that is billed by its unit. */
export type UnitCount = {
  readonly unit: (typeof UNITS)[number]
  /** Null: unknown. */
  readonly count: number | null
  /** Size and quality of images, in lower case: `['1024x1024', 'high']`. */
  readonly kind?: readonly string[]
}

/** A step of an answer that is billed beside it. `model`: absent if it is that of the answer. */
export type FurtherStep = Pick<Usage, 'input' | 'output' | 'cacheRead' | 'cacheWrite' | 'cacheWrite1h'> & {
  readonly model?: string
}

/** A whole answer. */
export type ChatAnswer = {
  readonly id?: string
  readonly model?: string
  readonly created?: number
  readonly blocks: readonly AnswerBlock[]
  readonly usage?: Usage
  /** Absent: the answer was truncated. */
  readonly finish?: Finish
  readonly failure?: Failure
}

export type AnswerBlock = Block & {
  readonly text: string
  readonly citations?: readonly Citation[]
  readonly logprobs?: readonly Json[]
  readonly signature?: ReasoningSignature
}

/** Combines events into an answer. Never throws on invalid sequences; those return a partial answer without `finish`. */
export const fold = (events: Iterable<ChatEvent>): ChatAnswer => {
  let head: Pick<ChatAnswer, 'id' | 'model' | 'created'> = {}
  let tail: Pick<ChatAnswer, 'usage' | 'finish' | 'failure'> = {}
  const blocks: AnswerBlock[] = []
  let open: AnswerBlock | undefined
  const texts: string[] = []
  const shut = () => {
    if (open) blocks.push({ ...open, text: texts.join('') })
    open = undefined
    texts.length = 0
  }
  for (const event of events)
    switch (event.type) {
      case 'start': {
        const { id, model, created } = event
        head = { ...head, ...(id && { id }), ...(model && { model }), ...(created && { created }) }
        break
      }
      case 'open':
        shut()
        open = { ...event.block, text: '' }
        break
      case 'delta':
        texts.push(event.text)
        if (open && event.logprobs !== undefined)
          open = {
            ...open,
            logprobs: [
              ...(open.logprobs ?? []),
              ...(Array.isArray(event.logprobs) ? event.logprobs : [event.logprobs]),
            ],
          }
        break
      case 'citation':
        if (open) open = { ...open, citations: [...(open.citations ?? []), event.citation] }
        break
      case 'signature':
        if (open) open = { ...open, signature: event.signature }
        break
      case 'close':
        shut()
        break
      case 'usage':
        tail = { ...tail, usage: event.usage }
        break
      case 'finish':
        tail = { ...tail, finish: event.finish }
        break
      case 'failure':
        tail = { ...tail, failure: event.failure }
        break
      case 'ping':
        break
      default:
        throw new Error(`unknown event ${JSON.stringify(event satisfies never)}`)
    }
  shut()
  return { ...head, blocks, ...tail }
}

/** Converts a whole answer to events, so that one encoder serves streams and whole answers. */
export const unfold = (answer: ChatAnswer): ChatEvent[] => {
  const { id, model, created } = answer
  const events: ChatEvent[] = [
    { type: 'start', ...(id && { id }), ...(model && { model }), ...(created && { created }) },
  ]
  for (const { text, citations, logprobs, signature, ...block } of answer.blocks) {
    events.push({ type: 'open', block: block as Block })
    if (text !== '' || logprobs) events.push({ type: 'delta', text, ...(logprobs && { logprobs }) })
    for (const citation of citations ?? []) events.push({ type: 'citation', citation })
    if (signature) events.push({ type: 'signature', signature })
    events.push({ type: 'close' })
  }
  if (answer.usage) events.push({ type: 'usage', usage: answer.usage })
  if (answer.finish) events.push({ type: 'finish', finish: answer.finish })
  if (answer.failure) events.push({ type: 'failure', failure: answer.failure })
  return events
}

/**
 * Whether the event is content, after which failover is no longer possible. The start of a tool call is content, because
 * clients display it; the start of a text block or a signature is not.
 */
export const isContent = (event: ChatEvent): boolean => {
  switch (event.type) {
    case 'delta':
      return event.text !== ''
    case 'open':
      return event.block.type === 'tool-call' || event.block.type === 'foreign'
    case 'citation':
      return true
    // Whether an answer is empty is known only at its end: see the rule for empty answers.
    case 'finish':
    case 'start':
    case 'signature':
    case 'close':
    case 'usage':
    case 'failure':
    case 'ping':
      return false
    default:
      throw new Error(`unknown event ${JSON.stringify(event satisfies never)}`)
  }
}

// ── Protocol names ──────────────────────────────────────────────────────────────────────────────────────────────────

/** Client formats. */
export type { ClientProtocolName }

/** Upstream formats. */
export type UpstreamProtocolName =
  | 'openai-chat'
  | 'openai-responses'
  | 'anthropic-messages'
  | 'gemini'
  | 'bedrock-converse'
  | 'mistral'
  | 'ollama'
  | 'cohere'

export type ProtocolName = ClientProtocolName | UpstreamProtocolName
