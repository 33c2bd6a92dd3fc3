/** Responses to turns over a WebSocket. */
import type { WebSocket } from 'ws'
import { type TextOrBytes, textOf } from '../core/encoded-text.ts'
import { KINDS } from '../core/failure.ts'
import type { IncomingRequest, ResponseWriter } from '../core/http-exchange.ts'
import { object, text } from '../core/json.ts'
import type { Frame } from '../core/protocol.ts'
import type { Stage } from '../core/stage.ts'
import { retryNeutral } from '../gateway/call/retry-neutral-text.ts'
import { sseFrames } from '../protocols/framing/sse.ts'
import type { Unread } from './unread-answers.ts'
import { parsedObject } from './web-socket-message.ts'

/** Unsent bytes: above `FULL` the client counts as slow, at `DRAINED` writing resumes. */
export const FULL = 64 * 1024
const DRAINED = 16 * 1024

/** Accounting of what clients have not read. */
export type UnreadAccounting = {
  /** Sets the bytes of a connection that wait; 0: none are left. */
  readonly set: (received: IncomingRequest, address: string, answer: Unread, bytes: number) => void
  /** The connection was ended to free memory. */
  readonly ended: (received: IncomingRequest, bytes: number) => void
}

/** A client connection, as the accounting of its unread bytes needs it. */
type UnreadClient = {
  readonly visitor: IncomingRequest
  readonly address: string
  /** Breaks the connection. */
  readonly terminate: () => void
}

/** Counts the bytes of sent events that a client has not read. */
export class SocketBacklog implements Unread {
  bytes = 0
  readonly #unread: UnreadAccounting
  readonly #client: UnreadClient
  #ended = false

  constructor(unread: UnreadAccounting, client: UnreadClient) {
    this.#unread = unread
    this.#client = client
  }

  set(bytes: number): void {
    if (this.#ended || bytes === this.bytes) return
    this.bytes = bytes
    const { visitor, address } = this.#client
    this.#unread.set(visitor, address, this, bytes)
  }

  endUnread(bytes: number): void {
    const { visitor, terminate } = this.#client
    this.#ended = true
    this.#unread.ended(visitor, bytes)
    terminate()
  }
}

type TurnReplyOptions = {
  readonly peer: WebSocket
  /** The `stream_id` of the turn. */
  readonly lane: string | null
  readonly backlog: SocketBacklog
  /** Runs when the turn fails. */
  readonly onFailed: () => void
}

/** Sends the event stream of a turn as messages: one per event; a comment becomes a ping. */
export class TurnReply implements ResponseWriter {
  readonly #peer: WebSocket
  readonly #lane: string | null
  readonly #backlog: SocketBacklog
  readonly #onFailed: () => void
  readonly #frames: Stage<string, Frame> = sseFrames(Number.MAX_SAFE_INTEGER)
  #status = 0
  #headers: Readonly<Record<string, string>> = {}
  #sent = false
  #over = false
  #gone = false
  full = false
  #onGone: () => void = () => {}
  #onDrain: () => void = () => {}

  constructor({ peer, lane, backlog, onFailed }: TurnReplyOptions) {
    this.#peer = peer
    this.#lane = lane
    this.#backlog = backlog
    this.#onFailed = onFailed
  }

  /** An event was sent, or can no longer be sent. */
  get begun(): boolean {
    return this.#sent || this.#over
  }

  /** The connection closed before the response was complete. */
  left(): void {
    this.#gone = true
    this.#onGone()
  }

  writeHead(status: number, headers: Readonly<Record<string, string>>): void {
    this.#status = status
    this.#headers = headers
  }

  write(piece: TextOrBytes): boolean {
    if (this.#over || this.#gone || piece.length === 0) return true
    const chunk = textOf(piece)
    // An SSE comment keeps the connection alive before the first event.
    if (chunk.startsWith(':')) this.#peer.ping()
    this.#sendFrames(this.#frames.push(chunk))
    this.full ||= this.#peer.bufferedAmount > FULL
    if (this.full) this.#backlog.set(this.#peer.bufferedAmount)
    return !this.full
  }

  end(chunk = ''): void {
    if (this.#over) return
    if (this.#status >= 400) {
      if (!this.#gone) this.#send(errorEvent({ status: this.#status, headers: this.#headers, body: chunk }, this.#lane))
      this.#onFailed()
    } else if (!this.#gone) this.#sendFrames([...this.#frames.push(chunk), ...this.#frames.end()])
    this.#over = true
    if (!this.#gone && this.#peer.bufferedAmount > FULL) this.#backlog.set(this.#peer.bufferedAmount)
  }

  abort(): void {
    if (this.#over) return
    this.#over = true
    this.#onGone = () => {}
    this.#peer.terminate()
  }

  onDrain(run: () => void): void {
    this.#onDrain = run
  }

  onDisconnect(run: () => void): void {
    this.#onGone = run
    if (this.#gone) run()
  }

  #sendFrames(frames: readonly Frame[]): void {
    const events = frames.map(({ data }) => data).filter((data) => data !== '' && data !== '[DONE]')
    const error = events.find((data) => parsedObject(data)?.type === 'error')
    if (error === undefined) {
      for (const event of events) this.#send(event)
      return
    }
    // A turn ends with one event, or the client would count a second one to the next turn: `response.failed` once the
    // response has begun, otherwise the error itself.
    const last = events.at(-1)
    if (this.#sent && last !== undefined) this.#send(last)
    else this.#send(withStatus(error))
    this.#onFailed()
  }

  #send(event: string): void {
    this.#sent = true
    this.#peer.send(inLane(event, this.#lane), () => {
      if ((!this.full && this.#backlog.bytes === 0) || this.#gone || this.#peer.bufferedAmount > DRAINED) return
      this.#backlog.set(0)
      if (!this.full) return
      this.full = false
      this.#onDrain()
    })
  }
}

type ErrorParts = {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/**
 * The error envelope (Open Responses, "WebSocket Errors"). `body` stays as written, because its text is retry-neutral; the
 * headers, such as the trail of attempts, are part of the text that clients search here.
 */
export const errorEvent = ({ status, headers, body }: ErrorParts, lane: string | null): string => {
  const { 'content-type': _, ...rest } = headers
  const shown = retryNeutral(JSON.stringify(rest), headers['x-should-retry'] !== 'false')
  return inLane(`{"type":"error","status":${status},"headers":${shown},${body.slice(1)}`, lane)
}

/** Adds the `stream_id` to an event. */
const inLane = (event: string, lane: string | null): string =>
  lane === null ? event : `${event.trimEnd().slice(0, -1)},"stream_id":${JSON.stringify(lane)}}`

/** An error event of a stream, with the HTTP status of its kind. */
const withStatus = (event: string): string => {
  const { type, error } = parsedObject(event) ?? {}
  const code = text(object(error)?.code)
  const row = Object.values(KINDS).find((kind) => kind.code === code)
  return JSON.stringify({ type: type ?? 'error', status: row?.status ?? 500, error: error ?? null })
}
