/**
 * A writer that stores a response before the client receives its end. The end is held until the write to the store has
 * succeeded or failed; after a failure the response states `store: false`.
 */

import { type TextOrBytes, textOf } from '../../core/encoded-text.ts'
import type { Failure } from '../../core/failure.ts'
import type { ResponseWriter } from '../../core/http-exchange.ts'
import { type JsonObject, object, parseObject, text } from '../../core/json.ts'
import type { ResponseStatus } from '../../core/stored-response.ts'
import { writeFrame } from '../../protocols/framing/sse.ts'
import { exceedsDepth } from '../../protocols/shared/tool-arguments.ts'

/**
 * Stores a response. `body`: the response, parsed. Null: no write is pending. The promise is limited in time by the store
 * and never rejects.
 */
export type SaveResponse = (
  response: string,
  status: ResponseStatus,
  body: JsonObject,
) => Promise<Failure | null> | null

/** Forwards an answer to `responseWriter` and stores it with `save`. */
export class RecordingWriter implements ResponseWriter {
  readonly #responseWriter: ResponseWriter
  readonly #save: SaveResponse
  /** The answer is one JSON body, not a stream. */
  #isJson = false
  #done = false
  /** Text written while the write to the store is pending; null: it is not pending. */
  #held: string | null = null
  #ended = false
  #settled: Promise<void> | null = null

  constructor(responseWriter: ResponseWriter, save: SaveResponse) {
    this.#responseWriter = responseWriter
    this.#save = save
  }

  /** Resolves when the held text has been sent; null: none was held. */
  get settled(): Promise<void> | null {
    return this.#settled
  }

  writeHead(status: number, headers: Readonly<Record<string, string>>): void {
    this.#isJson = headers['content-type'] === 'application/json'
    this.#responseWriter.writeHead(status, headers)
  }

  write(piece: TextOrBytes): boolean {
    // The last event is always written as text.
    const isText = typeof piece === 'string'
    if (this.#held === null && !(isText && this.#startsSaving(piece))) return this.#responseWriter.write(piece)
    // Only the terminator follows the last event, so little is held.
    this.#held += textOf(piece)
    return true
  }

  end(chunk = ''): void {
    if (this.#held === null && !this.#startsSaving(chunk)) return this.#responseWriter.end(chunk)
    this.#held += chunk
    this.#ended = true
  }

  abort(): void {
    this.#held = null
    this.#responseWriter.abort()
  }

  onDrain(run: () => void): void {
    this.#responseWriter.onDrain(run)
  }

  onDisconnect(run: () => void): void {
    this.#responseWriter.onDisconnect(run)
  }

  /** Whether this text completes the answer and its write to the store is now pending. */
  #startsSaving(chunk: string): boolean {
    if (this.#done) return false
    const response = this.#isJson ? parsed(chunk) : FINAL_LINE.test(chunk) ? finalResponseIn(chunk) : undefined
    if (!response) return false
    this.#done = true
    const write = this.#saved(chunk, response)
    if (!write) return false
    this.#held = ''
    this.#settled = write.then((failure) => this.#release(failure === null))
    return true
  }

  #saved(chunk: string, response: JsonObject): Promise<Failure | null> | null {
    // An error in place of a response: the turn failed.
    if (response.object !== 'response') return this.#save('{}', 'failed', {})
    const status = text(response.status)
    // A JSON answer is the response itself: encoding 10 MB again takes 30 ms.
    const source = this.#isJson ? chunk : JSON.stringify(response)
    return this.#save(source, status === 'incomplete' || status === 'failed' ? status : 'completed', response)
  }

  #release(isStored: boolean): void {
    const held = this.#held
    // The answer was cut in the meantime.
    if (held === null) return
    this.#held = null
    const released = isStored ? held : this.#isJson ? notStored(held) : streamNotStored(held)
    if (this.#ended) this.#responseWriter.end(released)
    else this.#responseWriter.write(released)
  }
}

const finalResponseIn = (chunk: string): JsonObject | undefined => object(eventsIn(chunk).find(isFinal)?.response)

const notStored = (source: string): string => JSON.stringify({ ...parsed(source), store: false })

const streamNotStored = (source: string): string => source.split('\n\n').map(eventNotStored).join('\n\n')

/** One event without its blank line. The final event states that the response is not stored. */
const eventNotStored = (source: string): string => {
  const [event] = eventsIn(source)
  if (!event || !isFinal(event)) return source
  const response = { ...object(event.response), store: false }
  return writeFrame(text(event.type), JSON.stringify({ ...event, response })).trimEnd()
}

/** A cheap check before any chunk is parsed. */
const FINAL_LINE = /^event: response\.(?:completed|incomplete|failed)$/m

/** Whether the event ends the stream of a response. */
export const isFinal = ({ type }: JsonObject): boolean =>
  type === 'response.completed' || type === 'response.incomplete' || type === 'response.failed'

/** The JSON of each event in text that the gateway encoded: one `data` line an event, and no partial events. */
export const eventsIn = (chunk: string): readonly JsonObject[] =>
  chunk.split('\n').flatMap((line) => {
    const event = line.startsWith('data: ') && line !== 'data: [DONE]' ? parsed(line.slice(6)) : undefined
    return event ? [event] : []
  })

/** Nesting above that of any answer. Encoding deeper pass-through content again would overflow the stack. */
const MAX_DEPTH = 500

const parsed = (source: string): JsonObject | undefined => {
  const value = parseObject(source)
  return value && !exceedsDepth(value, MAX_DEPTH) ? value : undefined
}
