/**
 * A reply that stores a response before the client receives its end. The end is held until the write is confirmed or has
 * failed; after a failure it states `store: false`.
 */

import type { Failure } from '../../core/failure.ts'
import type { ResponseWriter } from '../../core/http-exchange.ts'
import { type JsonObject, object, parseObject, text } from '../../core/json.ts'
import type { ResponseStatus } from '../../core/stored-response.ts'
import { writeFrame } from '../../protocols/framing/sse.ts'
import { decodeUtf8 } from '../../protocols/framing/utf8.ts'
import { exceedsDepth } from '../../protocols/shared/tool-arguments.ts'

/** `body`: the response, parsed. Null: there is nothing to wait for. The promise is limited in time by the store and never rejects. */
type Keep = (response: string, status: ResponseStatus, body: JsonObject) => Promise<Failure | null> | null

export class RecordingWriter implements ResponseWriter {
  readonly #reply: ResponseWriter
  readonly #keep: Keep
  #whole = false
  #done = false
  /** What was written while the write to the store was in progress; null: it is not. */
  #held: string | null = null
  #ended = false
  #settled: Promise<void> | null = null

  constructor(reply: ResponseWriter, keep: Keep) {
    this.#reply = reply
    this.#keep = keep
  }

  /** Resolves when nothing is held; null: nothing was. */
  get settled(): Promise<void> | null {
    return this.#settled
  }

  head(status: number, headers: Readonly<Record<string, string>>): void {
    this.#whole = headers['content-type'] === 'application/json'
    this.#reply.head(status, headers)
  }

  write(chunk: string): boolean {
    if (this.#held === null && !this.#storing(chunk)) return this.#reply.write(chunk)
    // Only the terminator follows the last event, so little is held.
    this.#held += chunk
    return true
  }

  /** The last event is always text. */
  writeBytes(bytes: Uint8Array): boolean {
    if (this.#held !== null) return this.write(decodeUtf8(bytes))
    return this.#reply.writeBytes?.(bytes) ?? this.#reply.write(decodeUtf8(bytes))
  }

  end(chunk = ''): void {
    if (this.#held === null && !this.#storing(chunk)) return this.#reply.end(chunk)
    this.#held += chunk
    this.#ended = true
  }

  cut(): void {
    this.#held = null
    this.#reply.cut()
  }

  onDrain(run: () => void): void {
    this.#reply.onDrain(run)
  }

  onGone(run: () => void): void {
    this.#reply.onGone(run)
  }

  /** Whether this text ends the answer, and its write to the store is in progress from now on. */
  #storing(chunk: string): boolean {
    if (this.#done) return false
    const response = this.#whole ? parsed(chunk) : LAST.test(chunk) ? lastResponseIn(chunk) : undefined
    if (!response) return false
    this.#done = true
    const status = text(response.status)
    // An error in place of a response: the turn failed.
    const write =
      response.object !== 'response'
        ? this.#keep('{}', 'failed', {})
        : this.#keep(
            // A whole answer is the response itself: writing 10 MB again takes 30 ms.
            this.#whole ? chunk : JSON.stringify(response),
            status === 'incomplete' || status === 'failed' ? status : 'completed',
            response,
          )
    if (!write) return false
    this.#held = ''
    this.#settled = write.then((failure) => this.#release(failure === null))
    return true
  }

  #release(stored: boolean): void {
    const held = this.#held
    // The answer was cut meanwhile.
    if (held === null) return
    this.#held = null
    const out = stored ? held : this.#whole ? notStored(held) : held.split('\n\n').map(eventNotStored).join('\n\n')
    if (this.#ended) this.#reply.end(out)
    else this.#reply.write(out)
  }
}

const lastResponseIn = (chunk: string): JsonObject | undefined => object(eventsIn(chunk).find(isLast)?.response)

const notStored = (source: string): string => JSON.stringify({ ...parsed(source), store: false })

/** One event without its blank line: the last event states that the response is not stored. */
const eventNotStored = (source: string): string => {
  const [event] = eventsIn(source)
  if (!event || !isLast(event)) return source
  const response = { ...object(event.response), store: false }
  return writeFrame(text(event.type), JSON.stringify({ ...event, response })).trimEnd()
}

/** A quick look, at what is written anyway. */
const LAST = /^event: response\.(?:completed|incomplete|failed)$/m

const isLast = ({ type }: JsonObject): boolean =>
  type === 'response.completed' || type === 'response.incomplete' || type === 'response.failed'

/** The JSON of each event in text that we wrote: an event's data is one line, and every event is whole. */
export const eventsIn = (chunk: string): readonly JsonObject[] =>
  chunk.split('\n').flatMap((line) => {
    const event = line.startsWith('data: ') && line !== 'data: [DONE]' ? parsed(line.slice(6)) : undefined
    return event ? [event] : []
  })

/** Deeper than any answer: what an upstream nests so deep and is passed on as it came cannot be written again, the stack would overflow. */
const DEEPEST = 500

const parsed = (source: string): JsonObject | undefined => {
  const value = parseObject(source)
  return value && !exceedsDepth(value, DEEPEST) ? value : undefined
}
