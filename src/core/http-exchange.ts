import type { Client } from './accounts.ts'
import type { EncodedText, TextOrBytes } from './encoded-text.ts'
import type { ReceivedForm } from './form.ts'
import type { HeaderLookup } from './headers.ts'
import type { StreamedBody } from './streamed-body.ts'

/**
 * The kind of a route's body: JSON in UTF-8, bytes of any type, a form with files, one of any type that is passed on as it arrives
 * (`upload` of the request), or none that is read.
 */
export type BodyKind = 'json' | 'bytes' | 'multipart' | 'stream' | 'none'

/** A body of a kind as it was received: the text of JSON, empty if there was none, a form with its parts, or else bytes. */
export type BodyOf<Kind extends BodyKind> = Kind extends 'json' | 'stream' | 'none'
  ? EncodedText
  : Kind extends 'multipart'
    ? ReceivedForm
    : Uint8Array
export type RequestBody = BodyOf<BodyKind>

/** Whether a body is the text of JSON. */
export const isTextBody = (body: RequestBody): body is EncodedText => 'text' in body

/**
 * A complete, size-limited client request. Code inside the gateway has no access to the socket. `Body`: by the kind of body of the
 * route.
 */
export type IncomingRequest<Body extends RequestBody = EncodedText> = {
  /** Request ID: the client's `x-request-id` if valid, otherwise generated (`req_…`). */
  readonly id: string
  /** The gateway's own ID, under which the request is recorded, where `id` is the client's: clients repeat theirs. */
  readonly ownId?: string | undefined
  readonly method: string
  /** The path as sent, without the query and not decoded. */
  readonly path: string
  readonly query: string
  readonly headers: HeaderLookup
  readonly body: Body
  /** The body of a route of the kind `stream`; its handler pipes or drops it. */
  readonly upload?: StreamedBody | undefined
  /** The client. Its `id` is for logs and metrics; it never contains the key. */
  readonly client: Client
  /** Whose share of memory the answer counts towards: the client's key, otherwise its address. */
  readonly memoryOwner?: string
}

/** Writes a response: `writeHead` once, `write` repeatedly, then either `end` or `abort`. */
export type ResponseWriter = {
  writeHead(status: number, headers: Readonly<Record<string, string>>): void
  /** Sent in one write. Bytes are not retained. False: backpressure; wait for `onDrain`. */
  write(piece: TextOrBytes): boolean
  end(text?: string): void
  /** Aborts the connection, so that the client detects an incomplete response. */
  abort(): void
  /** Calls `run` once when the written data has been flushed. A later listener replaces an earlier one. */
  onDrain(run: () => void): void
  /** Calls `run` if the client disconnects before the end, or immediately if it already has. One listener. */
  onDisconnect(run: () => void): void
}

/**
 * Answers the upgrade of a connection: with an error, or with 101, after which bytes pass in both directions. `writeHead(101)` sends
 * the header block at once.
 */
export type SocketWriter = ResponseWriter & {
  /** Calls `run` with all bytes that the client sends after the handshake. It may keep them. Returning false pauses until `resume`. */
  onBytes(run: (bytes: Uint8Array) => boolean): void
  resume(): void
  /** Calls `run` when the gateway begins to shut down, or immediately if it has. */
  onDraining(run: () => void): void
}
