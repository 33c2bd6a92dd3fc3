/**
 * From an upstream's bytes to steps of an answer, in whichever form they come: a stream of events, one JSON body, or an
 * error. What cannot be read, or is not there, is a `failure` event like any other.
 */
import type { ChatEvent, ChatRequest } from '../../core/chat.ts'
import type { ErrorTable } from '../../core/error-table.ts'
import { type Failure, fail } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import { readJson } from '../../core/json.ts'
import type { Frame, FrameReader, StreamDecoder, StreamStep, UpstreamProtocol } from '../../core/protocol.ts'
import type { Quirks } from '../../core/provider.ts'
import type { Stage } from '../../core/stage.ts'
import { retryAfter } from '../../policy/retry/retry-after.ts'
import { applyErrorTable } from '../../protocols/errors/classify.ts'
import { frameEnd, sse } from '../../protocols/framing/sse.ts'
import { latin1Of, utf8 } from '../../protocols/framing/utf8.ts'
import { ChoicesDecoder, decodeChoices, type EditChoice, type MultipleChoices } from '../../protocols/shared/choices.ts'

/** `over`: the format's terminal event has been read, and the answer is complete before its body ends. */
export type AnswerReader = Stage<Uint8Array, StreamStep> & { readonly over?: boolean }

export type ResponseHead = { readonly status: number; readonly headers: HeaderLookup }

/** What an answer is read by. */
export type AnswerFormat = Pick<
  UpstreamProtocol,
  'decodeAnswer' | 'decodeStream' | 'decodeFailure' | 'restore' | 'framing'
>

export type AnswerContext = {
  readonly protocol: AnswerFormat
  readonly quirks: Quirks | undefined
  /** The question, if it was translated for this upstream: what that changed in the tools is undone in the answer. */
  readonly translated: ChatRequest | null
  /** The request asks for several choices. */
  readonly choices?: MultipleChoices | undefined
  /** A stream was asked for. */
  readonly stream: boolean
  /** ms since 1970, for waits given as dates. */
  readonly date: number
}

/**
 * Largest of each kind, in bytes: one event of a stream (some repeat the question, or carry an image), an answer, one that
 * is kept as its bytes beside its text, a stream, an error's body.
 */
const MOST = {
  event: 8 * 1024 * 1024,
  whole: 32 * 1024 * 1024,
  kept: 64 * 1024,
  stream: 64 * 1024 * 1024,
  error: 1024 * 1024,
}

export const readerFor = (head: ResponseHead, dialect: AnswerContext): AnswerReader => {
  const type = head.headers('content-type') ?? ''
  if (head.status < 200 || head.status >= 400) return errorReader(head, dialect)
  if (head.status >= 300)
    return refuse(
      fail('redirect', `the upstream redirects (status ${head.status}); check its base URL`, { status: head.status }),
    )
  if (type.includes('html')) return refuse(webPage(head.status))
  const { mediaType } = dialect.protocol.framing ?? sse
  if (type.includes(mediaType)) return streamReader(head, dialect)
  if (!dialect.stream) return wholeReader(head, dialect)
  // Of the other framings one begins like JSON and one is binary: there the head has to say what comes.
  if (dialect.protocol.framing) return type.includes('json') ? wholeReader(head, dialect) : streamReader(head, dialect)
  return eitherReader(head, dialect)
}

/** The first letters of an event stream: a field's name, or a comment. No JSON begins so. */
const STREAM_BEGINS = new Set([...'deir:'].map((letter) => letter.charCodeAt(0)))
const isBlank = (byte: number): boolean => byte <= 0x20

/** A stream was asked for and none is announced: an answer come whole, or a stream under another name (OpenAI's own was JSON, in 2023). */
const eitherReader = (head: ResponseHead, dialect: AnswerContext): AnswerReader => {
  let chosen: AnswerReader | undefined
  /** Bytes of blanks before the first letter. */
  let blanks = 0
  return {
    push(chunk) {
      if (chosen) return chosen.push(chunk)
      const first = chunk.find((byte) => !isBlank(byte))
      if (first === undefined) {
        blanks += chunk.length
        return blanks > MOST.whole ? tooLarge(MOST.whole) : []
      }
      chosen = STREAM_BEGINS.has(first) ? streamReader(head, dialect) : wholeReader(head, dialect)
      return chosen.push(chunk)
    },
    get over() {
      return chosen?.over === true
    },
    end: () => (chosen ?? wholeReader(head, dialect)).end(),
  }
}

const webPage = (status: number): Failure =>
  fail('not_json', 'the upstream answered with a web page instead of an answer', { status })

const refuse = (failure: Failure): AnswerReader => ({
  push: () => [{ events: [{ type: 'failure', failure }] }],
  end: () => [{ events: [{ type: 'failure', failure }] }],
})

const streamReader = (head: ResponseHead, dialect: AnswerContext): AnswerReader =>
  dialect.choices && !dialect.choices.passes
    ? new ChoicesReader(head, dialect, dialect.choices)
    : new StreamReader(head, dialect)

/** Frames that are read by themselves in the hope that one like them follows; then the rest of a read is read together. */
const TRIES = 4

/** A class, since thousands of streams may be open and say nothing: closures take three times the memory. */
class StreamReader implements AnswerReader {
  readonly #frames: FrameReader
  readonly #events: StreamDecoder
  readonly #mend: EventMapper | null
  #size = 0

  constructor(head: ResponseHead, dialect: AnswerContext) {
    this.#frames = (dialect.protocol.framing ?? sse).frames(MOST.event)
    this.#events = dialect.protocol.decodeStream()
    this.#mend = mender(head, dialect)
  }

  get over(): boolean {
    return this.#events.over === true
  }

  push(chunk: Uint8Array): readonly StreamStep[] {
    this.#size += chunk.length
    if (this.#size > MOST.stream) return tooLarge(MOST.stream)
    const read: StreamStep[] = []
    const letters = this.#events.again && latin1Of(chunk)
    let tries = 0
    for (let at = 0; at < chunk.length; ) {
      const again = letters !== undefined && this.#frames.between ? this.#events.again?.(chunk, letters, at) : undefined
      let end = again?.end ?? chunk.length
      // What follows one that has to be read may be as it is, and is looked for there.
      if (!again && letters !== undefined && tries < TRIES) end = frameEnd(chunk, at)
      const part = end - at === chunk.length ? chunk : chunk.subarray(at, end)
      if (again) read.push({ bytes: part, events: this.#mended(again.events) })
      else this.#read(this.#frames.push(part), read)
      tries = again ? 0 : tries + 1
      at = end
    }
    return read
  }

  end(): readonly StreamStep[] {
    const last: StreamStep[] = []
    this.#read(this.#frames.end(), last)
    const rest = this.#mended(this.#events.end())
    if (rest.length > 0) last.push({ events: rest })
    return last
  }

  #read(found: readonly Frame[], into: StreamStep[]): void {
    for (const frame of found) into.push({ frame, events: this.#mended(this.#events.push(frame)) })
  }

  #mended(events: readonly ChatEvent[]): readonly ChatEvent[] {
    return this.#mend ? this.#mend(events) : events
  }
}

/** A stream with several choices. */
class ChoicesReader implements AnswerReader {
  readonly #frames: FrameReader
  readonly #choices: ChoicesDecoder
  #size = 0

  constructor(head: ResponseHead, dialect: AnswerContext, choices: MultipleChoices) {
    this.#frames = (dialect.protocol.framing ?? sse).frames(MOST.event)
    this.#choices = new ChoicesDecoder(choices, choiceMender(head, dialect, choices))
  }

  get over(): boolean {
    return this.#choices.over
  }

  push(chunk: Uint8Array): readonly StreamStep[] {
    this.#size += chunk.length
    if (this.#size > MOST.stream) return tooLarge(MOST.stream)
    return this.#frames.push(chunk).map((frame) => this.#choices.push(frame))
  }

  end(): readonly StreamStep[] {
    return [...this.#frames.end().map((frame) => this.#choices.push(frame)), this.#choices.end()]
  }
}

/** What is changed in the events of each choice: restoring tools has a state of its own for each. */
const choiceMender = (head: ResponseHead, dialect: AnswerContext, { count }: MultipleChoices): EditChoice => {
  const menders = Array.from({ length: count }, () => mender(head, dialect))
  return (index, events) => menders[index]?.(events) ?? events
}

const wholeReader = (head: ResponseHead, dialect: AnswerContext): AnswerReader =>
  collecting(MOST.whole, (text, bytes) => {
    const body = readJson(text)
    if (body === undefined) return { events: [{ type: 'failure', failure: unreadable(text, head.status) }] }
    const said = { whole: text, body, ...(bytes && { source: { text, bytes } }) }
    const { choices } = dialect
    // In the client's own format a whole answer to a whole request passes as it is.
    if (choices && (dialect.stream || !choices.passes))
      return { ...said, ...decodeChoices(body, choices, choiceMender(head, dialect, choices)) }
    const events = dialect.protocol.decodeAnswer(body)
    return { ...said, events: mender(head, dialect)?.(events) ?? events }
  })

const unreadable = (text: string, status: number): Failure => {
  if (text.trimStart().startsWith('<')) return webPage(status)
  const message = text === '' ? 'the upstream answered with nothing' : 'the answer is not complete JSON'
  return fail('malformed', message, { status })
}

/**
 * Read by its format, then meant as the provider means it; the wait it asks for may be in head or body. Of one too long
 * to be an error only the beginning is looked at: that it failed is in the status.
 */
const errorReader = ({ status, headers }: ResponseHead, { quirks, protocol, date }: AnswerContext): AnswerReader => {
  const read = (text: string): StreamStep => {
    const body = readJson(text)
    const said = applyErrorTable(protocol.decodeFailure(status, body, headers), quirks?.errors, headers)
    const wait = said.retryAfter ?? retryAfter(headers, body, date)
    const failure = { ...said, status: said.status ?? status, ...(wait !== undefined && { retryAfter: wait }) }
    return { events: [{ type: 'failure', failure }] }
  }
  return collecting(MOST.error, read, read)
}

/** Keeps the body until its end and reads it then; `beyond`: what is made of one beyond the limit, by what fitted. */
const collecting = (
  most: number,
  read: (text: string, bytes: Uint8Array | null) => StreamStep,
  beyond?: (text: string) => StreamStep,
): AnswerReader => {
  const text = utf8()
  const pieces: string[] = []
  let size = 0
  /** The answer's bytes, if it comes in one piece. */
  let only: Uint8Array | null = null
  return {
    push(chunk) {
      size += chunk.length
      if (size > most) return beyond ? [beyond(pieces.join(''))] : tooLarge(most)
      only = size === chunk.length && size <= MOST.kept ? new Uint8Array(chunk) : null
      pieces.push(...text.push(chunk))
      return []
    },
    end() {
      pieces.push(...text.end())
      const whole = pieces.join('')
      return [read(whole, only && isTheSame(whole, only) ? only : null)]
    },
  }
}

/** Neither a mark was left out of the text nor anything that is no UTF-8 replaced in it. */
const isTheSame = (text: string, bytes: Uint8Array): boolean => bytes[0] !== 0xef && !text.includes('\ufffd')

const tooLarge = (most: number): StreamStep[] => [
  { events: [{ type: 'failure', failure: fail('too_large', `the upstream's answer is larger than ${most} bytes`) }] },
]

type EventMapper = (events: readonly ChatEvent[]) => readonly ChatEvent[]

/** What a provider means by its token counts and its errors, and what translating the question did to its tools. Null: nothing else than it says. */
const mender = ({ headers }: ResponseHead, { protocol, quirks, translated }: AnswerContext): EventMapper | null => {
  const restore = (translated && protocol.restore?.(translated)) || undefined
  const errors = quirks?.errors
  if (!quirks?.usage && !errors && !restore) return null
  const named = errors ? namedIn(errors, headers) : NO_HEADERS
  if (!quirks || restore || named !== NO_HEADERS) return mending(quirks?.usage, errors, named, restore)
  // Nearly always: then it is the same for every answer of this provider.
  const known = menders.get(quirks) ?? mending(quirks.usage, errors, named, undefined)
  menders.set(quirks, known)
  return known
}
const menders = new WeakMap<Quirks, EventMapper>()

/** Apart, so that of the head and the question nothing else is kept as long as the answer goes on. */
const mending = (
  usage: Quirks['usage'],
  errors: Quirks['errors'],
  headers: HeaderLookup,
  restore: Stage<ChatEvent, ChatEvent> | undefined,
): EventMapper => {
  // The one function that is kept with the answer: others are made where there is something to mend.
  return (events) => {
    // Nearly every event of a stream: nothing is made anew for it.
    if (!restore && !asksToMend(events, usage !== undefined)) return events
    const meant = events.map((event): ChatEvent => {
      if (usage && event.type === 'usage') return { type: 'usage', usage: usage(event.usage) }
      if (event.type === 'failure') return { type: 'failure', failure: applyErrorTable(event.failure, errors, headers) }
      return event
    })
    return restore ? meant.flatMap((event) => restore.push(event)) : meant
  }
}

const asksToMend = (events: readonly ChatEvent[], usage: boolean): boolean => {
  for (const { type } of events) if (type === 'failure' || (usage && type === 'usage')) return true
  return false
}

const NO_HEADERS: HeaderLookup = () => undefined

/** Of the head what rows of the table look for, which is little. */
const namedIn = ({ rows }: ErrorTable, headers: HeaderLookup): HeaderLookup => {
  const found = new Map<string, string>()
  for (const { when } of rows) {
    const value = when.header === undefined ? undefined : headers(when.header)
    if (when.header !== undefined && value !== undefined) found.set(when.header, value)
  }
  return found.size === 0 ? NO_HEADERS : (name) => found.get(name)
}
