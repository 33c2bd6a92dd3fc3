import type { EncodedText } from './encoded-text.ts'
import type { HeaderLookup } from './headers.ts'

/** A request as the edge received it: bounded, whole, its path looked at once. Nobody further in sees a socket. */
export type IncomingRequest = {
  /** Ours (`req_` and letters) or the client's own, if it was sane. */
  readonly id: string
  readonly method: string
  /** The path as it was sent, without the query; never decoded twice. */
  readonly path: string
  readonly query: string
  readonly headers: HeaderLookup
  /** The body, valid UTF-8; empty when there was none. */
  readonly body: string
  /** The same, where its bytes are at hand. */
  readonly source?: EncodedText | undefined
  /** Asked from this machine, without forwarding headers. */
  readonly local: boolean
  /** Who asks: a digest of the client's key; empty where none is needed. */
  readonly client: string
  /** The id of the client's key as logs and metrics show it, never the key; empty or absent where none is configured. */
  readonly clientKey?: string
  /** Whose share of memory its answer takes: its key, else its address. */
  readonly holder?: string
}

/** Where an answer is written. `head` once, then `write` any number of times, then exactly one of `end` and `cut`. */
export type ResponseWriter = {
  writeHead(status: number, headers: Readonly<Record<string, string>>): void
  /** Leaves in one write. Answering false: the client reads slower than we write; wait for `onDrain`. */
  write(text: string): boolean
  /** The same of bytes (UTF-8), which are not kept. Absent: only text is taken. */
  writeBytes?(bytes: Uint8Array): boolean
  /** `source`: the text and its bytes, where they are at hand. */
  end(text?: string, source?: EncodedText): void
  /** Breaks the connection, so that nobody takes what was sent for complete. */
  abort(): void
  /** Calls once the client has taken what was written. One listener; a later one replaces it. */
  onDrain(run: () => void): void
  /** Calls when the client left before the end. One listener; calls at once if it has left already. */
  onDisconnect(run: () => void): void
}
