import type { ChatEvent } from '../../core/chat.ts'
import { type Failure, fail } from '../../core/failure.ts'
import { isObject, type Json, type JsonObject, object, text } from '../../core/json.ts'
import { survey } from '../../core/json-text.ts'
import type { AnswerContext, Frame, StreamDecoder, StreamStep, StreamWriter } from '../../core/protocol.ts'
import { DeltaTemplate, type TextOf } from '../framing/delta-template.ts'
import { EVENT_FIELD_BYTE, passFrame, writeFrame } from '../framing/sse.ts'
import { decodeUtf8, latin1Of } from '../framing/utf8.ts'
import { answerReader, malformed } from './decode-answer.ts'
import { answerWriter, failureEvents, type WireEvent } from './encode-answer.ts'
import { eventAsKept, isKept, responseAsKept } from './stored-response.ts'

/** Open Responses ends every stream with it, however the answer ended; both official SDKs take it. */
const DONE = writeFrame(undefined, '[DONE]')

const PING = ': ping\n'

/** The frames of a responses stream as the events they tell. */
export const decodeStream = (): StreamDecoder => {
  const reader = answerReader()
  const repetition = new DeltaTemplate(stepText)
  let failed = false
  const failWith = (failure: Failure): ChatEvent[] => {
    failed = true
    return [{ type: 'failure', failure }]
  }
  return {
    get over() {
      return failed || reader.over
    },
    again: (bytes, letters, from) =>
      failed || reader.over ? undefined : repetition.inBytes(bytes, letters, from, reader.readAgain),
    push(frame) {
      if (failed || reader.over) return []
      if (frame.oversized) return failWith(fail('too_large', 'The provider sent an event longer than is allowed.'))
      const { data } = frame
      if (data === '') return [{ type: 'ping' }]
      // The end, which tells nothing the last event has not told.
      if (data === '[DONE]') return []
      const again = repetition.textOf(frame)
      if (again !== undefined) return reader.readAgain(again)
      repetition.forget()
      const event = parse(data)
      if (!isObject(event)) return failWith(malformed('an event that is not a JSON object'))
      // The name of the event is said twice; sources that keep only data leave one of them out.
      const events = reader.read(event, text(event.type) ?? frame.event ?? '', data.length)
      const [only] = events
      if (events.length === 1 && only?.type === 'delta' && !only.logprobs) repetition.learn(frame, only.text)
      return events
    },
    end() {
      return failed || reader.over
        ? []
        : failWith(fail('truncated', "The provider's stream ended before its answer was complete."))
    },
  }
}

/** What a step adds to a block of which nothing is kept but what it has said: not a summary's, whose paragraphs are told apart. */
const stepText: TextOf = (event) => {
  const { type, delta } = object(event) ?? {}
  return typeof type === 'string' && STEPS.has(type) ? delta : undefined
}
const STEPS = new Set([
  'response.output_text.delta',
  'response.refusal.delta',
  'response.reasoning_text.delta',
  'response.reasoning.delta',
  'response.function_call_arguments.delta',
  'response.custom_tool_call_input.delta',
])

/** A whole answer, as its stream's last event would have told it. */
export const decodeAnswer = (body: Json): ChatEvent[] => {
  const response = object(body)
  if (!response) return [{ type: 'failure', failure: malformed('an answer that is not a JSON object') }]
  const reader = answerReader()
  if (!Array.isArray(response.output)) {
    // A failed response may have no output; an error body has none.
    if (isObject(response.error) || text(response.error)) return reader.read({ error: response.error }, 'error', 0)
    return [{ type: 'failure', failure: malformed('an answer without `output`') }]
  }
  return reader.read({ response }, 'response.completed', 0)
}

const parse = (data: string): unknown => {
  try {
    return JSON.parse(data)
  } catch {
    return undefined
  }
}

/** The number is put behind the type in the text, where it takes no copy of the event. */
const numbered = (event: WireEvent, sequence: number): string => {
  const { type } = event
  const data = JSON.stringify(event)
  const head = `{"type":"${type}"`
  // Every event is made with its type first, of plain letters; if one were not, it would only cost more.
  if (data.startsWith(head)) return writeFrame(type, `${head},"sequence_number":${sequence}${data.slice(head.length)}`)
  const { type: _, ...rest } = event
  return writeFrame(type, JSON.stringify({ type, sequence_number: sequence, ...rest }))
}

/**
 * Writes `numbered` events of which most differ from the one before in their number and their words alone: what stands
 * around those is made once for each block.
 */
class Steps {
  #last: WireEvent | null = null
  #before = ''
  #between = ''
  #behind = ''

  write(event: WireEvent, sequence: number): string {
    const { delta, logprobs } = event
    if (typeof delta !== 'string') return numbered(event, sequence)
    // With token probabilities there is more that differs.
    if (Array.isArray(logprobs) && logprobs.length > 0) {
      this.#last = null
      return numbered(event, sequence)
    }
    if (!this.#last || !isSamePlace(this.#last, event)) this.#learn(event)
    return this.#last ? this.again(delta, sequence) : numbered(event, sequence)
  }

  /** The last step is known. */
  get known(): boolean {
    return this.#last !== null
  }

  /** It once more, with other words. */
  again(words: string, sequence: number): string {
    return this.#before + sequence + this.#between + JSON.stringify(words) + this.#behind
  }

  #learn(event: WireEvent): void {
    // Within a text no quote stands without its backslash: these are the members themselves.
    const frame = numbered({ ...event, delta: '' }, 0)
    const number = frame.indexOf('"sequence_number":0,')
    const words = frame.indexOf('"delta":""')
    this.#last = number === -1 || words < number ? null : event
    this.#before = frame.slice(0, number + '"sequence_number":'.length)
    this.#between = frame.slice(number + '"sequence_number":0'.length, words + '"delta":'.length)
    this.#behind = frame.slice(words + '"delta":""'.length)
  }
}

/** Of two steps: all else but their words is the same. An event of a type always has the same members. */
const isSamePlace = (one: WireEvent, other: WireEvent): boolean =>
  one.type === other.type &&
  one.item_id === other.item_id &&
  one.output_index === other.output_index &&
  one.content_index === other.content_index &&
  one.summary_index === other.summary_index

/** Writes a responses stream from the events alone. */
export const encodeStream = (context: AnswerContext): StreamWriter => {
  const writer = answerWriter(context)
  const steps = new Steps()
  let sequence = 0
  const texts = (events: readonly WireEvent[], wasOver: boolean): string[] => {
    const out = events.map((event) => steps.write(event, sequence++))
    if (writer.over && !wasOver) out.push(DONE)
    return out
  }
  /** Of a response that has begun. */
  const goOn = (event: ChatEvent): string[] => {
    // Nearly every event says more of what was said last.
    if (event.type === 'delta' && !event.logprobs && steps.known && writer.goesOn(event.text))
      return [steps.again(event.text, sequence++)]
    const wasOver = writer.over
    return texts(writer.write(event), wasOver)
  }
  return {
    push({ events }) {
      const [only] = events
      if (writer.begun) return events.length === 1 && only ? goOn(only) : events.flatMap(goOn)
      const made = events.flatMap((event) => writer.write(event))
      // Whatever the first step tells, the response has begun with it.
      const begun = events.some(({ type }) => type !== 'ping') ? writer.begin() : []
      return texts([...begun, ...made], false)
    },
    end() {
      const wasOver = writer.over
      return texts(writer.end(), wasOver)
    },
    keepAlive() {
      if (writer.over) return ''
      // Codex's idle timer does not see comments, so once there is a response to speak of it is spoken of.
      return writer.begun ? numbered({ type: 'response.in_progress', response: writer.response() }, sequence++) : PING
    },
  }
}

const LIFECYCLE = new Set(['response.created', 'response.in_progress', 'response.queued'])
const LAST = new Set(['response.completed', 'response.incomplete', 'response.failed'])

/**
 * Forwards an upstream's own stream. Its bytes stay as they are, with these differences: `id:` lines are left out, a
 * missing event name is added, errors become ours, `[DONE]` follows the last event, and `sequence_number` counts from 0
 * without a gap, which Open Responses requires. A number is written only where the upstream's is missing or another one,
 * as it is after an event of ours.
 */
export const passStream = (context: AnswerContext): StreamWriter => {
  /** For what no upstream has said: a whole answer in place of a stream, or a failure before its first word. */
  let own: StreamWriter | undefined
  let over = false
  /** The number of the next event. */
  let sequence = 0
  /** As text: it is parsed only when an event of ours needs it. */
  let lastLifecycle: string | undefined
  let interrupted = false

  const lastResponse = (): JsonObject => object(object(parse(lastLifecycle ?? ''))?.response) ?? {}

  const pass = (frame: Frame): string => {
    if (frame.data === '') return passFrame(frame)
    const type = frame.event ?? text(object(parse(frame.data))?.type)
    const carries = type !== undefined && (LIFECYCLE.has(type) || LAST.has(type))
    const kept = carries && isKept(context) ? eventAsKept(frame.data, context) : frame.data
    if (type !== undefined && LIFECYCLE.has(type)) lastLifecycle = kept
    const data = withNumber(kept, sequence++)
    if (data !== frame.data) return writeFrame(type, data)
    const passed = passFrame(frame)
    return frame.event === undefined && type !== undefined && frame.raw !== undefined
      ? `event: ${type}\n${passed}`
      : passed
  }

  const failWith = (failure: Failure): string[] => {
    over = true
    if (lastLifecycle === undefined) {
      own ??= encodeStream(context)
      return [...own.push({ events: [{ type: 'failure', failure }] })]
    }
    const events = failureEvents(failure, lastResponse(), context, interrupted)
    return [...events.map((event) => numbered(event, sequence++)), DONE]
  }

  return {
    push(step: StreamStep) {
      if (own) return own.push(step)
      if (over) return []
      const { frame, events } = step
      const failure = events.find((event) => event.type === 'failure')
      if (failure) return failWith(failure.failure)
      if (!frame) {
        if (step.whole === undefined || lastLifecycle !== undefined) return []
        own = encodeStream(context)
        return own.push(step)
      }
      // Its own end mark comes back below, in our spelling and behind the last event only.
      if (frame.data === '[DONE]') return []
      const passed = pass(frame)
      interrupted ||= events.some(({ type }) => type === 'open' || type === 'delta')
      if (!events.some(({ type }) => type === 'finish')) return [passed]
      over = true
      return [passed, DONE]
    },
    end() {
      if (own) return own.end()
      if (over) return []
      return failWith(fail('truncated', "The provider's stream ended before its answer was complete."))
    },
    passes(bytes) {
      // Frames without their name are given it.
      if (own || over || bytes[0] !== EVENT_FIELD_BYTE) return false
      const next = nextNumber(latin1Of(bytes) ?? decodeUtf8(bytes), sequence)
      if (next === sequence) return false
      sequence = next
      interrupted = true
      return true
    },
    keepAlive() {
      if (own) return own.keepAlive()
      if (over) return ''
      if (lastLifecycle === undefined) return PING
      return numbered(
        { type: 'response.in_progress', response: { ...lastResponse(), status: 'in_progress' } },
        sequence++,
      )
    },
  }
}

export const passAnswer = (source: string, context: AnswerContext): string =>
  isKept(context) ? responseAsKept(source, context) : source

/** A key never stands like this inside a JSON string: its quotes would be escaped. */
const NUMBER = '"sequence_number":'
/** What follows a number in JSON, without white space. */
const ENDS: ReadonlySet<string> = new Set([',', '}'])

/** An object begins, or is empty. */
const BEGIN = /\{(?=[ \t\r\n]*(\}?))/

const isNumberAt = (letters: string, at: number, sequence: number): boolean => {
  const digits = String(sequence)
  return letters.startsWith(digits, at) && ENDS.has(letters.charAt(at + digits.length))
}

/**
 * The number after these events, which are alike but for text and number (`Repetition`); `sequence` itself where they are
 * not numbered from there without a gap. About 0.3 µs for an event.
 */
const nextNumber = (letters: string, sequence: number): number => {
  let next = sequence
  for (let at = letters.indexOf(NUMBER); at !== -1; at = letters.indexOf(NUMBER, at + NUMBER.length))
    if (!isNumberAt(letters, at + NUMBER.length, next++)) return sequence
  return next
}

/** The event's JSON text with this number, on one line; the text itself where it has the number already. */
const withNumber = (data: string, sequence: number): string => {
  const at = data.indexOf(NUMBER)
  if (at !== -1 && isNumberAt(data, at + NUMBER.length, sequence)) return data
  // Deeper than any event is; a deeper one has been refused by the reader or belongs to no format.
  const found = at === -1 && !data.includes('"sequence_number"') ? null : survey(data, 1_000)
  const span = found?.ok ? found.members.find(({ key }) => key === 'sequence_number') : undefined
  if (span && data.slice(span.value, span.end) === String(sequence)) return data
  const written = span
    ? `${data.slice(0, span.value)}${sequence}${data.slice(span.end)}`
    : data.replace(BEGIN, (_, end: string) => `{${NUMBER}${sequence}${end === '' ? ',' : ''}`)
  // A line break in JSON text that parses is white space.
  return written.replaceAll('\n', ' ')
}
