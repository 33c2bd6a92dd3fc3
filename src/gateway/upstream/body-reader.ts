/**
 * Decodes an upstream's response: a stream of events, one JSON body, or an error. Malformed, missing or oversized content
 * becomes a `failure` event.
 */
import type { ChatEvent, ChatRequest } from '../../core/chat.ts'
import type { ErrorTable } from '../../core/error-table.ts'
import { type Failure, fail } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import { readJson } from '../../core/json.ts'
import type { Frame, StreamReader, StreamStep, UpstreamProtocol } from '../../core/protocol.ts'
import type { Quirks } from '../../core/provider.ts'
import type { Stage } from '../../core/stage.ts'
import { retryAfter } from '../../policy/retry/retry-after.ts'
import { applyErrorTable } from '../../protocols/errors/classify.ts'
import { sse } from '../../protocols/framing/sse.ts'
import { utf8 } from '../../protocols/framing/utf8.ts'
import { ChoicesDecoder, decodeChoices, type EditChoice, type MultipleChoices } from '../../protocols/shared/choices.ts'
import { readStream } from './read-stream.ts'

/**
 * Decodes a response body. `over`: the terminal event has been read, so the answer is complete before its body ends.
 * `mayBeOver`: it is complete unless more content follows.
 */
export type AnswerBodyReader = Stage<Uint8Array, StreamStep> & { readonly over?: boolean; readonly mayBeOver?: boolean }

/** The status and headers of an upstream response. */
export type ResponseHead = { readonly status: number; readonly headers: HeaderLookup }

/**
 * The parts of a protocol that decode answers. `readerOf`: reads an answer that is neither JSON nor a stream of events, or a connection
 * that has changed protocols; null: it is none of these.
 */
export type AnswerFormat = Pick<
  UpstreamProtocol,
  'decodeAnswer' | 'decodeStream' | 'decodeFailure' | 'restore' | 'framing'
> & { readonly name?: string; readonly readerOf?: (head: ResponseHead) => AnswerBodyReader | null }

/** How the answer to a request is decoded. */
export type DecodeContext = {
  readonly protocol: AnswerFormat
  readonly quirks: Quirks | undefined
  /** The request, if it was translated: changes that the translation made to tools are reverted in the answer. */
  readonly translated: ChatRequest | null
  /** The request asks for several choices. */
  readonly choices?: MultipleChoices | undefined
  /** The request asks for a stream. */
  readonly stream: boolean
  /** Unix time in ms, to interpret a Retry-After date. */
  readonly date: number
}

/** Maximum size in bytes of a JSON answer. */
export const MAX_WHOLE = 32 * 1024 * 1024

/** Maximum sizes in bytes: an event of a stream (it may contain an image), a JSON answer, a stream, an error body. */
const MAX = {
  event: 8 * 1024 * 1024,
  whole: MAX_WHOLE,
  stream: 64 * 1024 * 1024,
  error: 1024 * 1024,
}

/** The status of a connection that changes protocols. */
export const SWITCHED = 101

/** Chooses the reader by status and content type. */
export const readerFor = (head: ResponseHead, context: DecodeContext): AnswerBodyReader => {
  const type = head.headers('content-type') ?? ''
  const switched = head.status === SWITCHED ? context.protocol.readerOf?.(head) : null
  if (switched) return switched
  if (head.status < 200 || head.status >= 400) return errorReader(head, context)
  if (head.status >= 300)
    return refuse(
      fail('redirect', `the upstream redirects (status ${head.status}). Check its base URL.`, { status: head.status }),
    )
  if (type.includes('html')) return refuse(webPage(head.status))
  const own = context.protocol.readerOf?.(head)
  if (own) return own
  const { mediaType } = context.protocol.framing ?? sse
  if (type.includes(mediaType)) return streamReader(head, context)
  if (!context.stream) return jsonReader(head, context)
  // For other framings the content type decides: NDJSON begins like JSON, and the other framing is binary.
  if (context.protocol.framing) return type.includes('json') ? jsonReader(head, context) : streamReader(head, context)
  return detectingReader(head, context)
}

/** First bytes of an event stream: a field name or a comment. JSON starts with none of them. */
const STREAM_STARTS = new Set([...'deir:'].map((char) => char.charCodeAt(0)))
const isBlank = (byte: number): boolean => byte <= 0x20

/**
 * The request asks for a stream, and the content type is another. The first byte decides between a JSON body and a stream:
 * OpenAI sent streams as JSON in 2023.
 */
const detectingReader = (head: ResponseHead, context: DecodeContext): AnswerBodyReader => {
  let detected: AnswerBodyReader | undefined
  /** Number of leading whitespace bytes. */
  let blanks = 0
  return {
    push(chunk) {
      if (detected) return detected.push(chunk)
      const first = chunk.find((byte) => !isBlank(byte))
      if (first === undefined) {
        blanks += chunk.length
        return blanks > MAX.whole ? tooLarge(MAX.whole) : []
      }
      detected = STREAM_STARTS.has(first) ? streamReader(head, context) : jsonReader(head, context)
      return detected.push(chunk)
    },
    get over() {
      return detected?.over === true
    },
    get mayBeOver() {
      return detected?.mayBeOver === true
    },
    end: () => (detected ?? jsonReader(head, context)).end(),
  }
}

const webPage = (status: number): Failure =>
  fail(
    'not_json',
    'the upstream returned a web page instead of an answer: check its base URL, and proxies on the way',
    { status },
  )

const refuse = (failure: Failure): AnswerBodyReader => ({
  push: () => [{ events: [{ type: 'failure', failure }] }],
  end: () => [{ events: [{ type: 'failure', failure }] }],
})

const streamReader = (head: ResponseHead, context: DecodeContext): AnswerBodyReader =>
  context.choices && !context.choices.passes
    ? new ChoicesReader(head, context, context.choices)
    : new SingleChoiceReader(head, context)

/** Decodes a stream. A class, because closures take three times the memory and many streams may be open. */
class SingleChoiceReader implements AnswerBodyReader {
  readonly #stream: StreamReader
  readonly #mapEvents: EventMapper | null
  #size = 0

  constructor(head: ResponseHead, context: DecodeContext) {
    this.#stream = readStream(context.protocol, MAX.event)
    this.#mapEvents = eventMapper(head, context)
  }

  get over(): boolean {
    return this.#stream.done === true
  }

  get mayBeOver(): boolean {
    return this.#stream.mayBeDone === true
  }

  push(chunk: Uint8Array): readonly StreamStep[] {
    this.#size += chunk.length
    if (this.#size > MAX.stream) return tooLarge(MAX.stream)
    return this.#mapped(this.#stream.push(chunk))
  }

  end(): readonly StreamStep[] {
    return this.#mapped(this.#stream.end())
  }

  #mapped(steps: readonly StreamStep[]): readonly StreamStep[] {
    const mapEvents = this.#mapEvents
    if (!mapEvents) return steps
    return steps.map((step) => {
      const events = mapEvents(step.events)
      return events === step.events ? step : { ...step, events }
    })
  }
}

/** Decodes a stream with several choices. */
class ChoicesReader implements AnswerBodyReader {
  readonly #frames: Stage<Uint8Array, Frame>
  readonly #choices: ChoicesDecoder
  #size = 0

  constructor(head: ResponseHead, context: DecodeContext, choices: MultipleChoices) {
    this.#frames = (context.protocol.framing ?? sse).frames(MAX.event)
    this.#choices = new ChoicesDecoder(choices, choiceMapper(head, context, choices))
  }

  get over(): boolean {
    return this.#choices.over
  }

  get mayBeOver(): boolean {
    return this.#choices.mayBeOver
  }

  push(chunk: Uint8Array): readonly StreamStep[] {
    this.#size += chunk.length
    if (this.#size > MAX.stream) return tooLarge(MAX.stream)
    return this.#frames.push(chunk).map((frame) => this.#choices.push(frame))
  }

  end(): readonly StreamStep[] {
    return [...this.#frames.end().map((frame) => this.#choices.push(frame)), this.#choices.end()]
  }
}

/** One event mapper for each choice, because restoring tools has state. */
const choiceMapper = (head: ResponseHead, context: DecodeContext, { count }: MultipleChoices): EditChoice => {
  const mappers = Array.from({ length: count }, () => eventMapper(head, context))
  return (index, events) => mappers[index]?.(events) ?? events
}

const jsonReader = (head: ResponseHead, context: DecodeContext): AnswerBodyReader =>
  collecting(MAX.whole, (text) => {
    const body = readJson(text)
    if (body === undefined) return { events: [{ type: 'failure', failure: unreadable(text, head.status) }] }
    const answer = { whole: text, body }
    const { choices } = context
    // In the client's own protocol, a JSON answer to a request without streaming passes unchanged.
    if (choices && (context.stream || !choices.passes))
      return { ...answer, ...decodeChoices(body, choices, choiceMapper(head, context, choices)) }
    const events = context.protocol.decodeAnswer(body)
    return { ...answer, events: eventMapper(head, context)?.(events) ?? events }
  })

const unreadable = (text: string, status: number): Failure => {
  if (text.trimStart().startsWith('<')) return webPage(status)
  const message = text === '' ? 'the upstream sent an empty body' : 'the answer is not complete JSON'
  return fail('malformed', message, { status })
}

/**
 * Decodes an error body by the protocol, then by the provider's error table. Retry-After may be in the headers or the body.
 * Of an oversized body only the beginning is decoded, because the status already shows the failure.
 */
const errorReader = (
  { status, headers }: ResponseHead,
  { quirks, protocol, date }: DecodeContext,
): AnswerBodyReader => {
  const read = (text: string): StreamStep => {
    const body = readJson(text) ?? reasonIn(text, status, headers)
    const decoded = applyErrorTable(protocol.decodeFailure(status, body, headers), quirks?.errors, headers)
    const wait = decoded.retryAfter ?? retryAfter(headers, body, date)
    const failure = { ...decoded, status: decoded.status ?? status, ...(wait !== undefined && { retryAfter: wait }) }
    return { events: [{ type: 'failure', failure }] }
  }
  return collecting(MAX.error, read, read)
}

/** Longest plain text (characters) that is read as the reason of a failure. */
const MAX_REASON = 2_000

/**
 * The reason in a plain text: axum (TGI, mistral.rs), Go's `http.Error` (llama-swap, LocalAI) and Envoy send no JSON. Of other
 * statuses the gateway's own message says more: such servers answer 404 to an unknown path.
 */
const reasonIn = (text: string, status: number, headers: HeaderLookup): string | undefined => {
  const isReason = status === 400 || status === 422 || status === 429 || status >= 500
  const reason = text.trim()
  if (!isReason || reason === '' || reason.length > MAX_REASON) return undefined
  return headers('content-type')?.startsWith('text/plain') ? reason : undefined
}

/** Collects the body and decodes it at its end. `readTruncated`: decodes the part within the limit if the body exceeds it. */
const collecting = (
  limit: number,
  read: (text: string) => StreamStep,
  readTruncated?: (text: string) => StreamStep,
): AnswerBodyReader => {
  const text = utf8()
  const pieces: string[] = []
  let size = 0
  return {
    push(chunk) {
      size += chunk.length
      if (size > limit) return readTruncated ? [readTruncated(pieces.join(''))] : tooLarge(limit)
      pieces.push(...text.push(chunk))
      return []
    },
    end() {
      pieces.push(...text.end())
      return [read(pieces.join(''))]
    },
  }
}

const tooLarge = (limit: number): StreamStep[] => [
  { events: [{ type: 'failure', failure: fail('too_large', `the upstream's answer is larger than ${limit} bytes`) }] },
]

type EventMapper = (events: readonly ChatEvent[]) => readonly ChatEvent[]

/** Applies the provider's corrections to usage and errors, and restores translated tools. Null: nothing to change. */
const eventMapper = (
  { headers }: ResponseHead,
  { protocol, quirks, translated }: DecodeContext,
): EventMapper | null => {
  const restore = (translated && protocol.restore?.(translated)) || undefined
  const errors = quirks?.errors
  if (!quirks?.usage && !errors && !restore) return null
  const errorHeaders = errors ? headersUsedBy(errors, headers) : NO_HEADERS
  if (!quirks || restore || errorHeaders !== NO_HEADERS)
    return makeEventMapper(quirks?.usage, errors, errorHeaders, restore)
  // The usual case: the mapper is the same for all answers of this provider.
  const known = mapperByQuirks.get(quirks) ?? makeEventMapper(quirks.usage, errors, errorHeaders, undefined)
  mapperByQuirks.set(quirks, known)
  return known
}
const mapperByQuirks = new WeakMap<Quirks, EventMapper>()

/** A separate function, so that its closure keeps neither the headers nor the request in memory. */
const makeEventMapper = (
  usage: Quirks['usage'],
  errors: Quirks['errors'],
  headers: HeaderLookup,
  restore: Stage<ChatEvent, ChatEvent> | undefined,
): EventMapper => {
  return (events) => {
    // The usual case in a stream: avoid a copy.
    if (!restore && !needsMapping(events, usage !== undefined)) return events
    const mapped = events.map((event): ChatEvent => {
      if (usage && event.type === 'usage') return { type: 'usage', usage: usage(event.usage) }
      if (event.type === 'failure') return { type: 'failure', failure: applyErrorTable(event.failure, errors, headers) }
      return event
    })
    return restore ? mapped.flatMap((event) => restore.push(event)) : mapped
  }
}

const needsMapping = (events: readonly ChatEvent[], usage: boolean): boolean => {
  for (const { type } of events) if (type === 'failure' || (usage && type === 'usage')) return true
  return false
}

const NO_HEADERS: HeaderLookup = () => undefined

/** Copies the few headers that the error table uses. */
const headersUsedBy = ({ rows }: ErrorTable, headers: HeaderLookup): HeaderLookup => {
  const found = new Map<string, string>()
  for (const { when } of rows) {
    const value = when.header === undefined ? undefined : headers(when.header)
    if (when.header !== undefined && value !== undefined) found.set(when.header, value)
  }
  return found.size === 0 ? NO_HEADERS : (name) => found.get(name)
}
