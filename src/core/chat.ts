/**
 * The canonical form: what a client wants and what a model answers, in our words. Every wire format is decoded into
 * this and encoded from it; there is no converter from one vendor's format straight to another's.
 *
 * Two rules keep it honest. Everything carries `at`, the client's own path to it, so that a loss can be named in the
 * client's terms. And what the middle has no word for is kept as an `Extra` or a `foreign` part instead of being
 * skipped, so that an encoder which cannot carry it has to say so.
 */
import type { Failure } from './failure.ts'
import type { Json, JsonObject } from './json.ts'

// ── What is asked ────────────────────────────────────────────────────────────────────────────────────────────────

export type ChatRequest = {
  readonly model: string
  readonly stream: boolean
  readonly messages: readonly Message[]
  readonly tools: readonly Tool[]
  readonly settings: GenerationSettings
  /** Where it is too long for everybody, its oldest turns may be left out. */
  readonly mayTruncate?: boolean
  /** Members the middle has no word for, at the top level. */
  readonly extras: readonly Extra[]
}

/**
 * A value and the client's path to it: `{ value: 0.2, at: 'temperature' }`. An empty path: the client did not write it,
 * its style implies it, so it is never reported as lost.
 */
export type Setting<T> = { readonly value: T; readonly at: string; readonly paths?: MemberPaths }

/**
 * Where members are in the client's body, relative to `at`: `{ detail: 'image_url.detail' }`. A member without an entry is
 * at `at` under its own name. Null: the client did not write it; its style has that default.
 */
export type MemberPaths = { readonly [member: string]: string | null }

/** The scalar wishes. An encoder has a table with a row for each it can carry; whatever has no row is a loss. */
export type GenerationSettings = {
  /** Longest answer in tokens, hidden reasoning included. */
  readonly maxOutputTokens?: Setting<number>
  readonly temperature?: Setting<number>
  readonly topP?: Setting<number>
  readonly topK?: Setting<number>
  readonly stop?: Setting<readonly string[]>
  readonly seed?: Setting<Json>
  readonly presencePenalty?: Setting<number>
  readonly frequencyPenalty?: Setting<number>
  readonly logitBias?: Setting<JsonObject>
  /** How many answers. More than one makes single-answer formats unfit. */
  readonly choices?: Setting<number>
  readonly logprobs?: Setting<boolean>
  readonly topLogprobs?: Setting<number>
  readonly toolChoice?: Setting<ToolChoice>
  readonly parallelToolCalls?: Setting<boolean>
  readonly format?: Setting<OutputFormat>
  readonly effort?: Setting<Effort>
  /** Anthropic's older way to ask for reasoning: tokens to think with; 0 is off. */
  readonly thinkingBudget?: Setting<number>
  /** Whether and how a summary of the reasoning is wanted: `auto`, `concise`, `detailed`. */
  readonly reasoningSummary?: Setting<string>
  /** The sealed form of the reasoning is wanted back, to send again next turn. */
  readonly encryptedReasoning?: Setting<boolean>
  readonly verbosity?: Setting<string>
  readonly user?: Setting<string>
  readonly promptCacheKey?: Setting<string>
  readonly serviceTier?: Setting<string>
  readonly metadata?: Setting<JsonObject>
  /** Whether the provider may keep the answer. The formats differ in their default, so `false` is always said. */
  readonly store?: Setting<boolean>
  /** Usage is wanted as a part of the stream. */
  readonly streamUsage?: Setting<boolean>
}
export type SettingName = keyof GenerationSettings

export type Effort = 'none' | 'minimal' | 'low' | 'medium' | 'high' | 'xhigh' | 'max'

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

/** A member without a word of ours. `essential`: losing it would change what is asked, so a target that cannot carry it is unfit. */
export type Extra = {
  readonly at: string
  readonly name: string
  readonly value: Json
  readonly essential: boolean
  /** Asks for tools that the provider runs and the model need not use: left out where no target carries it. */
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
      /** The client's own wish, with its style's default filled in (true in responses, false in chat). */
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
  /** Run by the provider, or of a kind nobody else has: only its own format can carry it. */
  | {
      readonly kind: 'foreign'
      readonly at: string
      readonly protocol: ProtocolName
      readonly raw: JsonObject
      /** The provider runs it and the model need not use it: where nobody can carry it, the rest may be asked without. */
      readonly optional?: true
    }

export type Message =
  | {
      readonly role: 'system'
      readonly at: string
      readonly as: 'system' | 'developer'
      readonly content: readonly Part[]
      readonly extras?: readonly Extra[]
    }
  | {
      readonly role: 'user'
      readonly at: string
      readonly content: readonly Part[]
      readonly extras?: readonly Extra[]
    }
  /** One turn of the model: what it said, thought and called, in order. Neighbours of the wire that form one turn are one message here. */
  | {
      readonly role: 'assistant'
      readonly at: string
      readonly content: readonly Part[]
      readonly extras?: readonly Extra[]
    }
  /** What one call gave. */
  | {
      readonly role: 'tool'
      readonly at: string
      readonly callId: string
      readonly content: readonly Part[]
      readonly isError?: boolean
      readonly extras?: readonly Extra[]
    }

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
  /** A content block only its own format knows. `spare`: the trace of a tool's use, without what came of it. */
  | {
      readonly type: 'foreign'
      readonly at: string
      readonly protocol: ProtocolName
      readonly raw: JsonObject
      readonly optional?: true
    }

/** Where the bytes of an image or a file are. `mediaType` may be unknown for a data URL that does not say it. */
export type MediaSource =
  | { readonly kind: 'data'; readonly mediaType: string; readonly data: string }
  | { readonly kind: 'url'; readonly url: string }
  | { readonly kind: 'id'; readonly id: string; readonly protocol: ProtocolName }

export type ToolCall = {
  readonly type: 'tool-call'
  /** What links call and result (`call_id`, `tool_calls[].id`, `tool_use.id`). */
  readonly id: string
  readonly name: string
  /** JSON as the model wrote it, or free text for a custom tool. Kept as text: models write invalid JSON too. */
  readonly arguments: string
  readonly custom?: boolean
}

export type Reasoning = {
  readonly type: 'reasoning'
  readonly text: string
  /** A summary made for reading, not the thoughts themselves. */
  readonly summary?: boolean
  readonly signature?: ReasoningSignature
}

/**
 * The signature or sealed text that must come back byte for byte in the next turn. It means something only to the
 * format (and mostly the provider) that made it, so it carries its origin; others drop it.
 *
 * A maker that signs other parts than thoughts (Gemini: calls, texts) is told of by an empty reasoning block with the
 * proof, before a call and after a text; `id` is then the call's. So it travels like any other through every format.
 */
export type ReasoningSignature = {
  readonly origin: UpstreamProtocolName
  readonly value: string
  readonly redacted?: boolean
  readonly id?: string
}

// ── What is answered ─────────────────────────────────────────────────────────────────────────────────────────────

/**
 * One thing that happens while a model answers; a whole answer is its events folded (`fold`). Blocks never interleave:
 * between `open` and `close` everything belongs to that block. `finish` comes once, after the last `close`; an answer
 * without it was truncated. `usage` may repeat: the last one wins. After `failure` nothing follows.
 */
export type ChatEvent =
  /** Lifecycle: the upstream has begun. Not content. `created` in s since 1970. */
  | {
      readonly type: 'start'
      readonly id?: string
      readonly model?: string
      readonly created?: number
      readonly raw?: JsonObject
    }
  | { readonly type: 'open'; readonly block: Block }
  /** More of the open block's text (for a tool call, of its arguments). */
  | { readonly type: 'delta'; readonly text: string; readonly logprobs?: Json }
  /** A source the open text block cites. */
  | { readonly type: 'citation'; readonly citation: Citation }
  /** The open reasoning block's proof. */
  | { readonly type: 'signature'; readonly signature: ReasoningSignature }
  | { readonly type: 'close' }
  | { readonly type: 'usage'; readonly usage: Usage }
  | { readonly type: 'finish'; readonly finish: Finish }
  | { readonly type: 'failure'; readonly failure: Failure }
  /** The upstream still lives; nothing else. */
  | { readonly type: 'ping' }

export type Block =
  | { readonly type: 'text' }
  | { readonly type: 'refusal' }
  | { readonly type: 'reasoning'; readonly summary?: boolean }
  | { readonly type: 'tool-call'; readonly id: string; readonly name: string; readonly custom?: boolean }
  /** Something only its own format knows (a hosted tool's call or result). Carried whole to that format, elsewhere as `output` says. */
  | { readonly type: 'foreign'; readonly protocol: ProtocolName; readonly raw: JsonObject; readonly output?: Output }

/**
 * What a foreign block holds for the user. `kind` names it: `image`, `audio`, `video`, `file`, `code`. Of `audio` the
 * block's text is the transcript, where there is one. `images`: the pictures, which some other formats carry too.
 */
export type Output = { readonly kind: string; readonly images?: readonly MediaSource[] }

/** `start` and `end` in UTF-16 code units of the block's text, where known. */
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

/** Ours, and theirs beside it. */
export type Finish = { readonly kind: FinishKind; readonly raw: string | null; readonly stopSequence?: string }

/** Tokens. `input` includes what came from or went to a cache; `output` includes reasoning. */
export type Usage = {
  readonly input: number
  readonly output: number
  readonly cacheRead?: number
  readonly cacheWrite?: number
  readonly reasoning?: number
  /** The upstream's own record. */
  readonly raw?: JsonObject
}

/** A whole answer: its events folded. */
export type ChatAnswer = {
  readonly id?: string
  readonly model?: string
  readonly created?: number
  readonly blocks: readonly AnswerBlock[]
  readonly usage?: Usage
  /** Absent: the answer never ended. */
  readonly finish?: Finish
  readonly failure?: Failure
}

export type AnswerBlock = Block & {
  readonly text: string
  readonly citations?: readonly Citation[]
  readonly logprobs?: readonly Json[]
  readonly signature?: ReasoningSignature
}

/** Folds events into the answer they tell. Total: broken sequences give what can be made of them, without `finish`. */
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

/** The events a whole answer would have been, so that one encoder serves streams and whole answers. */
export const unfold = (answer: ChatAnswer): ChatEvent[] => {
  const { id, model, created } = answer
  const events: ChatEvent[] = [
    { type: 'start', ...(id && { id }), ...(model && { model }), ...(created && { created }) },
  ]
  for (const { text, citations, logprobs, signature: proof, ...block } of answer.blocks) {
    events.push({ type: 'open', block: block as Block })
    if (text !== '' || logprobs) events.push({ type: 'delta', text, ...(logprobs && { logprobs }) })
    for (const citation of citations ?? []) events.push({ type: 'citation', citation })
    if (proof) events.push({ type: 'signature', signature: proof })
    events.push({ type: 'close' })
  }
  if (answer.usage) events.push({ type: 'usage', usage: answer.usage })
  if (answer.finish) events.push({ type: 'finish', finish: answer.finish })
  if (answer.failure) events.push({ type: 'failure', failure: answer.failure })
  return events
}

/**
 * Whether this event is content: something of the answer itself, after which no other target may be tried. An opened
 * tool call is (clients show it); an opened text block or a proof alone is not.
 */
export const isContent = (event: ChatEvent): boolean => {
  switch (event.type) {
    case 'delta':
      return event.text !== ''
    case 'open':
      return event.block.type === 'tool-call' || event.block.type === 'foreign'
    case 'citation':
      return true
    // The end of an answer without content is known only at the end: see the rule for empty answers.
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

// ── The formats ──────────────────────────────────────────────────────────────────────────────────────────────────

/** The formats clients speak. */
export type ClientProtocolName = 'openai-chat' | 'openai-responses' | 'anthropic-messages' | 'openai-completions'

/** The formats providers speak. */
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
