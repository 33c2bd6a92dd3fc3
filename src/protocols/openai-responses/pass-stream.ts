import type { TextOrBytes } from '../../core/encoded-text.ts'
import type { Failure } from '../../core/failure.ts'
import { type JsonObject, object, text } from '../../core/json.ts'
import { survey } from '../../core/json-text.ts'
import type { AnswerContext, Frame, StreamStep, StreamWriter } from '../../core/protocol.ts'
import { truncated } from '../errors/answer-failures.ts'
import { passFrame, singleFrames, writeFrame } from '../framing/sse.ts'
import { decodeUtf8, latin1Of } from '../framing/utf8.ts'
import { parseEvent } from './decode-stream.ts'
import { DONE, encodeStream, numberedFrame } from './encode-stream.ts'
import { failureEvents } from './errors.ts'
import { asSent, isKept, responseAsKept } from './stored-response.ts'
import { DONE_EVENT, eventName } from './terminal-event.ts'

const LIFECYCLE = new Set(['response.created', 'response.in_progress', 'response.queued'])
const TERMINAL = new Set(['response.completed', 'response.incomplete', 'response.failed'])

/**
 * Passes an upstream's responses stream to a client of the same format. The bytes stay unchanged, except: `id:` lines are
 * removed, missing event names are added, errors become the gateway's, `[DONE]` follows the last event, and
 * `sequence_number` counts from 0 without a gap, which Open Responses requires.
 */
export const passStream = (context: AnswerContext): StreamWriter => new PassingWriter(context)

class PassingWriter implements StreamWriter {
  readonly #context: AnswerContext
  /** Writes an answer that has no upstream stream: a complete answer, or a failure before the first event. */
  #encoder: StreamWriter | undefined
  #over = false
  /** The number of the next event. */
  #sequence = 0
  /** JSON text of the last lifecycle event; parsed only when the gateway adds an event. */
  #lastLifecycle: string | undefined
  /** Content has been sent. */
  #interrupted = false

  constructor(context: AnswerContext) {
    this.#context = context
    const { begun } = context
    if (!begun) return
    this.#sequence = begun.events
    this.#lastLifecycle = JSON.stringify({ response: begun.response })
  }

  push(step: StreamStep): readonly TextOrBytes[] {
    if (this.#encoder) return this.#encoder.push(step)
    if (this.#over) return []
    const { frame, events } = step
    const failure = events.find((event) => event.type === 'failure')
    if (failure) return this.#fail(failure.failure)
    if (!frame) {
      const hasPassed = this.#lastLifecycle !== undefined && !this.#context.begun
      if (step.whole === undefined || hasPassed) return []
      this.#encoder = encodeStream(this.#context)
      return this.#encoder.push(step)
    }
    // The end marker is written after the last event instead.
    if (frame.data === '[DONE]') return []
    const passed = this.#passesUnchanged(frame) ? [frame.raw] : singleFrames(frame).map((each) => this.#pass(each))
    this.#interrupted ||= events.some(({ type }) => type === 'open' || type === 'delta')
    if (!events.some(({ type }) => type === 'finish')) return passed
    this.#over = true
    return [...passed, DONE]
  }

  end(): readonly TextOrBytes[] {
    if (this.#encoder) return this.#encoder.end()
    if (this.#over) return []
    return this.#fail(truncated())
  }

  keepAlive(): string {
    if (this.#encoder) return this.#encoder.keepAlive()
    if (this.#over) return ''
    // The frames of an answer begin with its lifecycle.
    if (this.#lastLifecycle === undefined) return ': ping\n'
    const response = { ...this.#lastResponse(), status: 'in_progress' }
    return numberedFrame({ type: 'response.in_progress', response }, this.#sequence++)
  }

  /** Repeated events whose sequence numbers follow the numbers sent so far. */
  #passesUnchanged(frame: Frame): frame is Frame & { readonly raw: Uint8Array } {
    // Frames without an event name get one.
    if (!(frame.raw instanceof Uint8Array) || frame.event === undefined) return false
    const before = this.#sequence
    this.#sequence = nextNumber(latin1Of(frame.raw) ?? decodeUtf8(frame.raw), before)
    return this.#sequence !== before
  }

  #pass(sent: Frame): TextOrBytes {
    if (sent.data === '') return passFrame(sent)
    const sentType = sent.event ?? text(object(parseEvent(sent.data))?.type)
    const frame = sentType === DONE_EVENT ? renamedEnd(sent) : sent
    const type = frame.event ?? sentType
    const { begun } = this.#context
    if (begun && type === 'response.created') return ''
    const hasResponse = type !== undefined && (LIFECYCLE.has(type) || TERMINAL.has(type))
    const source = hasResponse ? asSent(frame.data, this.#context) : frame.data
    if (type !== undefined && LIFECYCLE.has(type)) this.#lastLifecycle = source
    const data = withNumber(source, this.#sequence++)
    if (data !== frame.data) return writeFrame(type, data)
    const passed = passFrame(frame)
    return frame.event === undefined && type !== undefined && frame.raw !== undefined
      ? `event: ${type}\n${passed}`
      : passed
  }

  #lastResponse(): JsonObject {
    return object(object(parseEvent(this.#lastLifecycle ?? ''))?.response) ?? {}
  }

  #fail(failure: Failure): readonly TextOrBytes[] {
    this.#over = true
    if (this.#lastLifecycle === undefined) {
      this.#encoder ??= encodeStream(this.#context)
      return this.#encoder.push({ events: [{ type: 'failure', failure }] })
    }
    const events = failureEvents(failure, this.#lastResponse(), this.#context, this.#interrupted)
    return [...events.map((event) => numberedFrame(event, this.#sequence++)), DONE]
  }
}

/** The last event under the name that clients wait for. */
const renamedEnd = ({ data }: Frame): Frame => {
  const name = eventName(DONE_EVENT, object(parseEvent(data)) ?? {})
  return { event: name, data: data.replace(`"${DONE_EVENT}"`, `"${name}"`) }
}

/** Passes a complete answer; a response stored by the gateway gets the gateway's id and settings. */
export const passAnswer = (source: string, context: AnswerContext): string =>
  isKept(context) ? responseAsKept(source, context) : source

/** Cannot match inside a JSON string, where quotes are escaped. */
const NUMBER = '"sequence_number":'
/** The characters that may follow a number in JSON without white space. */
const AFTER_NUMBER: ReadonlySet<string> = new Set([',', '}'])

/** The start of an object; captures its end if it is empty. */
const OBJECT_START = /\{(?=[ \t\r\n]*(\}?))/

/** Nesting limit. A deeper event has been rejected by the reader or has no known type. */
const MAX_DEPTH = 1_000

const isNumberAt = (letters: string, at: number, sequence: number): boolean => {
  const digits = String(sequence)
  return letters.startsWith(digits, at) && AFTER_NUMBER.has(letters.charAt(at + digits.length))
}

/**
 * The sequence number after these events, which differ only in text and number; `sequence` itself if their numbers do not
 * count up from there. About 0.3 µs per event.
 */
const nextNumber = (letters: string, sequence: number): number => {
  let next = sequence
  for (let at = letters.indexOf(NUMBER); at !== -1; at = letters.indexOf(NUMBER, at + NUMBER.length))
    if (!isNumberAt(letters, at + NUMBER.length, next++)) return sequence
  return next
}

/** The event's JSON text with this number, on one line. Unchanged if it already has the number. */
const withNumber = (data: string, sequence: number): string => {
  const at = data.indexOf(NUMBER)
  if (at !== -1 && isNumberAt(data, at + NUMBER.length, sequence)) return data
  const found = at === -1 && !data.includes('"sequence_number"') ? null : survey(data, MAX_DEPTH)
  const span = found?.ok ? found.members.find(({ key }) => key === 'sequence_number') : undefined
  if (span && data.slice(span.value, span.end) === String(sequence)) return data
  const written = span
    ? `${data.slice(0, span.value)}${sequence}${data.slice(span.end)}`
    : data.replace(OBJECT_START, (_, end: string) => `{${NUMBER}${sequence}${end === '' ? ',' : ''}`)
  // Line breaks in valid JSON text are white space.
  return written.replaceAll('\n', ' ')
}
