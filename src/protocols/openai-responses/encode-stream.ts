import type { ChatEvent } from '../../core/chat.ts'
import type { AnswerContext, StreamWriter } from '../../core/protocol.ts'
import { writeFrame } from '../framing/sse.ts'
import { ResponsesAnswerWriter } from './answer-writer.ts'
import type { WireEvent } from './output-items.ts'

/** Ends every stream, also a failed one: Open Responses requires it and both official SDKs accept it. */
export const DONE = writeFrame(undefined, '[DONE]')

/** The event as a frame with its sequence number, inserted into the text after `type` to avoid copying the event. */
export const numberedFrame = (event: WireEvent, sequence: number): string => {
  const { type } = event
  const data = JSON.stringify(event)
  const head = `{"type":"${type}"`
  // Events are built with `type` first; the slow path covers any other.
  if (data.startsWith(head)) return writeFrame(type, `${head},"sequence_number":${sequence}${data.slice(head.length)}`)
  const { type: _, ...rest } = event
  return writeFrame(type, JSON.stringify({ type, sequence_number: sequence, ...rest }))
}

/**
 * Writes numbered frames. Most delta events differ from the previous one only in number and text, so the frame around
 * those two is kept as a template.
 */
class FrameWriter {
  /** The event the template was made from; null: no template. */
  #last: WireEvent | null = null
  #beforeNumber = ''
  #beforeText = ''
  #afterText = ''

  write(event: WireEvent, sequence: number): string {
    const { delta, logprobs } = event
    if (typeof delta !== 'string') return numberedFrame(event, sequence)
    // With log probabilities more than the text differs.
    if (Array.isArray(logprobs) && logprobs.length > 0) {
      this.#last = null
      return numberedFrame(event, sequence)
    }
    if (!this.#last || !isSamePlace(this.#last, event)) this.#learn(event)
    return this.#last ? this.repeat(delta, sequence) : numberedFrame(event, sequence)
  }

  /** A template exists, so `repeat` may be called. */
  get canRepeat(): boolean {
    return this.#last !== null
  }

  /** The last delta event with another text. */
  repeat(delta: string, sequence: number): string {
    return this.#beforeNumber + sequence + this.#beforeText + JSON.stringify(delta) + this.#afterText
  }

  #learn(event: WireEvent): void {
    // Quotes inside a JSON string are escaped, so these matches are members, not text.
    const frame = numberedFrame({ ...event, delta: '' }, 0)
    const number = frame.indexOf('"sequence_number":0,')
    const delta = frame.indexOf('"delta":""')
    this.#last = number === -1 || delta < number ? null : event
    this.#beforeNumber = frame.slice(0, number + '"sequence_number":'.length)
    this.#beforeText = frame.slice(number + '"sequence_number":0'.length, delta + '"delta":'.length)
    this.#afterText = frame.slice(delta + '"delta":""'.length)
  }
}

/** True if two delta events differ in their text only. Events of one type always have the same members. */
const isSamePlace = (one: WireEvent, other: WireEvent): boolean =>
  one.type === other.type &&
  one.item_id === other.item_id &&
  one.output_index === other.output_index &&
  one.content_index === other.content_index &&
  one.summary_index === other.summary_index

/** Writes a responses stream from events. */
export const encodeStream = (context: AnswerContext): StreamWriter<string> => {
  const writer = new ResponsesAnswerWriter(context)
  const frames = new FrameWriter()
  let sequence = context.begun?.events ?? 0
  const encode = (events: readonly WireEvent[], wasOver: boolean): string[] => {
    const out = events.map((event) => frames.write(event, sequence++))
    if (writer.over && !wasOver) out.push(DONE)
    return out
  }
  const pushOne = (event: ChatEvent): string[] => {
    // Nearly every event is another delta of the same block.
    if (event.type === 'delta' && !event.logprobs && frames.canRepeat && writer.appendRepeated(event.text))
      return [frames.repeat(event.text, sequence++)]
    const wasOver = writer.over
    return encode(writer.write(event), wasOver)
  }
  return {
    push({ events }) {
      const [only] = events
      if (writer.begun) return events.length === 1 && only ? pushOne(only) : events.flatMap(pushOne)
      const written = events.flatMap((event) => writer.write(event))
      // Any event but a ping begins the response.
      const begun = events.some(({ type }) => type !== 'ping') ? writer.begin() : []
      return encode([...begun, ...written], false)
    },
    end() {
      const wasOver = writer.over
      return encode(writer.end(), wasOver)
    },
    keepAlive() {
      if (writer.over) return ''
      // Codex's idle timer ignores comments. OpenAI's SDK accepts no event before `response.created`, not even `keepalive`.
      if (!writer.begun) return encode(writer.begin(), false).join('')
      return numberedFrame({ type: 'response.in_progress', response: writer.response() }, sequence++)
    },
    begun: () => (writer.begun ? { response: writer.response(), events: sequence } : null),
  }
}
