/** A simulated client: its request, how fast it reads, when it disconnects; and a response writer that reports calls out of order. */
import { type TextOrBytes, textOf } from '../../src/core/encoded-text.ts'
import type { ResponseWriter } from '../../src/core/http-exchange.ts'
import type { Settings } from '../../src/core/settings.ts'
import type { Trace } from '../../src/core/trace.ts'
import type { Dialed } from './dialed.ts'
import type { Poison } from './upstreams.ts'
import type { Style } from './wires.ts'

export const PROTOCOL = { chat: 'openai-chat', responses: 'openai-responses', messages: 'anthropic-messages' } as const

export type SimRequest = {
  readonly style: Style
  readonly stream: boolean
  readonly model: string
  readonly poison: Poison | null
  readonly body: string
  /** The body is not a valid request. */
  readonly broken: boolean
  readonly client: string
  /** Its `Idempotency-Key`. */
  readonly key: string | null
}

type BodyOptions = {
  readonly style: Style
  readonly model: string
  readonly stream: boolean
  /** Requests usage in the stream. */
  readonly usage: boolean
  readonly number: number
  /** Requests a temperature of 0, so that responses may be shared. */
  readonly exact?: boolean
}

/** A request body in an API style. */
export const bodyFor = ({ style, model, stream, usage, number, exact = false }: BodyOptions): string => {
  const text = `Say something. <q${number}>`
  const messages = [{ role: 'user', content: text }]
  const common = { model, stream, ...(exact && { temperature: 0 }) }
  switch (style) {
    case 'chat':
      return JSON.stringify({
        ...common,
        messages,
        ...(usage && stream && { stream_options: { include_usage: true } }),
      })
    case 'responses':
      return JSON.stringify({ ...common, input: text, store: false })
    case 'messages':
      return JSON.stringify({ ...common, max_tokens: 100, messages })
    default:
      throw new Error(`unknown style ${style satisfies never}`)
  }
}

/** A client's buffer in characters, and ms until it has read them; null: it stops reading. */
export type ReaderPace = { readonly room: number; readonly drains: number | null }

export type Call = {
  readonly number: number
  readonly request: SimRequest
  readonly at: number
  readonly settings: Settings
  readonly reply: SimReply
  readonly dials: Dialed[]
  /** The response is shared, so it continues without this client. */
  readonly shareable: boolean
  /** The configuration had no providers. */
  readonly unconfigured: boolean
  /** Attempts at a deployment that the request had tried before. */
  repeated: number
  /** When the client disconnected. */
  goneAt: number | null
  exchange: Trace | null
  /** Checks the response after its end. */
  later: (() => void) | null
  /** Number of `request` events. */
  recorded: number
  settled: boolean
}

export type Watching = {
  readonly after: (ms: number, run: () => void) => void
  readonly wrong: (what: string) => void
  readonly wrote: (text: string) => void
  readonly over: (how: 'ended' | 'cut') => void
}

export class SimReply implements ResponseWriter {
  status: number | null = null
  headers: Readonly<Record<string, string>> = {}
  over: 'ended' | 'cut' | null = null
  gone = false
  /** Content has been written. */
  content = false
  /** Its buffer is full, and nothing has been read since. */
  full = false
  /** Characters written while it was full. */
  overflow = 0
  readonly #reading: ReaderPace | null
  readonly #watching: Watching
  #pieces: string[] = []
  #unread = 0
  #drain: () => void = () => {}
  #left: () => void = () => {}

  constructor(reading: ReaderPace | null, watching: Watching) {
    this.#reading = reading
    this.#watching = watching
  }

  /** The client does not read at once. */
  get slow(): boolean {
    return this.#reading !== null
  }

  get text(): string {
    return this.#pieces.join('')
  }

  writeHead(status: number, headers: Readonly<Record<string, string>>): void {
    if (this.status !== null) this.#watching.wrong(`a second status ${status} after ${this.status}`)
    if (this.over) this.#watching.wrong('a status after the end')
    this.status = status
    this.headers = headers
  }

  write(piece: TextOrBytes): boolean {
    const text = textOf(piece)
    if (this.status === null) this.#watching.wrong('a body before the status')
    if (this.over) this.#watching.wrong(`a write after the end: ${text.slice(0, 60)}`)
    if (this.gone) return true
    this.#take(text)
    if (!this.#reading) return true
    if (this.full) this.overflow += text.length
    this.#unread += text.length
    if (this.#unread < this.#reading.room) return true
    if (!this.full && this.#reading.drains !== null) this.#watching.after(this.#reading.drains, () => this.#read())
    this.full = true
    return false
  }

  end(text?: string): void {
    if (this.status === null) this.#watching.wrong('an end before the status')
    if (this.over) this.#watching.wrong('a second end')
    if (text !== undefined && !this.gone) this.#take(text)
    this.over = 'ended'
    this.#watching.over('ended')
  }

  abort(): void {
    if (this.over) return
    this.over = 'cut'
    this.#watching.over('cut')
  }

  onDrain(run: () => void): void {
    this.#drain = run
  }

  onDisconnect(run: () => void): void {
    this.#left = run
    if (this.gone) run()
  }

  /** The client disconnects. */
  leave(): void {
    this.gone = true
    this.#left()
  }

  #take(text: string): void {
    if (text === '') return
    this.#pieces.push(text)
    if (!this.content && text.includes('ü')) this.content = true
    this.#watching.wrote(text)
  }

  #read(): void {
    if (this.over || this.gone) return
    this.full = false
    this.overflow = 0
    this.#unread = 0
    this.#drain()
  }
}
