/** An answer of the responses style on its way to the client, kept as it passes: before its end is told, it is written down. */
import type { Reply } from '../core/call.ts'
import { type JsonObject, object, parseObject, text } from '../core/json.ts'
import type { ResponseStatus } from '../core/stored.ts'
import { isDeeper } from '../protocols/arguments.ts'
import { textIn } from '../protocols/text.ts'

type Keep = (response: string, status: ResponseStatus) => void

export class KeepingReply implements Reply {
  readonly #reply: Reply
  readonly #keep: Keep
  #whole = false
  #done = false

  constructor(reply: Reply, keep: Keep) {
    this.#reply = reply
    this.#keep = keep
  }

  head(status: number, headers: Readonly<Record<string, string>>): void {
    this.#whole = headers['content-type'] === 'application/json'
    this.#reply.head(status, headers)
  }

  write(chunk: string): boolean {
    this.#look(chunk)
    return this.#reply.write(chunk)
  }

  /** The last event never goes on as it came. */
  writeBytes(bytes: Uint8Array): boolean {
    return this.#reply.writeBytes?.(bytes) ?? this.#reply.write(textIn(bytes))
  }

  end(chunk = ''): void {
    if (this.#whole) this.#remember(parsed(chunk))
    else this.#look(chunk)
    this.#reply.end(chunk)
  }

  cut(): void {
    this.#reply.cut()
  }

  onDrain(run: () => void): void {
    this.#reply.onDrain(run)
  }

  onGone(run: () => void): void {
    this.#reply.onGone(run)
  }

  #look(chunk: string): void {
    if (this.#done || !LAST.test(chunk)) return
    for (const event of eventsIn(chunk)) if (isLast(event)) this.#remember(object(event.response))
  }

  #remember(response: JsonObject | undefined): void {
    if (this.#done || !response) return
    this.#done = true
    const status = text(response.status)
    // An error instead of an answer is a turn that failed.
    if (response.object !== 'response') this.#keep('{}', 'failed')
    else this.#keep(JSON.stringify(response), status === 'incomplete' || status === 'failed' ? status : 'completed')
  }
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
  return value && !isDeeper(value, DEEPEST) ? value : undefined
}
