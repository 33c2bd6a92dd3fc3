/**
 * The seam between the wire and the house. A front speaks HTTP/1.1 with whoever connects and knows nothing of what is
 * asked; the house decides what becomes of a request and never sees a socket, but for one that is to speak WebSocket.
 */
import type { AddressInfo, ListenOptions, Server, Socket } from 'node:net'
import type { EncodedText } from '../../../core/encoded-text.ts'
import type { HeaderLookup } from '../../../core/headers.ts'

export type Headers = Readonly<Record<string, string>>

/** A connection. */
export type ClientConnection = {
  /** Of its other end. */
  readonly address: string
  /** Says last words, and closes once the other side has had time to read them. */
  bye(text: string): void
  destroy(): void
}

/** A request's head, as it was sent. */
export type RequestHead = {
  readonly method: string
  readonly target: string
  /** `1.1` or `1.0`, and what else a front lets through. */
  readonly version: string
  readonly headers: HeaderLookup
  /** Every Host line. */
  readonly hosts: readonly string[]
  /** Number of header lines. */
  readonly lines: number
}

/** A request and the way to answer it: either `answer`, or `begin`, any number of `write` and `end`; or `cut`. */
export type HttpExchange = RequestHead & {
  /** `continue`: the client holds its body back until it is told to go on. `other`: it expects what nobody does. */
  readonly expects: 'nothing' | 'continue' | 'other'
  /** All of the request has come. */
  readonly complete: boolean
  /** Its answer has. */
  readonly begun: boolean
  /** Bytes of the answer that the connection has not taken yet. */
  readonly waiting: number
  /** Who is told what becomes of the answer; to be set before anything is answered. */
  listener: ExchangeListener
  /**
   * ms; 0: for ever. A client that has taken nothing for so long (and up to twice that) of an answer that was given to
   * its end is hung up on. To be set before anything is answered.
   */
  patience: number
  /** Tells a client that waits for it to send its body. */
  proceed(): void
  /** The body goes there from now on, beginning with what has come; null: nobody wants it. */
  take(taker: BodySink | null): void
  /** The connection ends behind this answer. */
  last(): void
  /** A whole answer; null for one that has no body by its status. Throws where a header cannot be written. */
  answer(status: number, headers: Headers, body: string | null, source?: EncodedText): void
  /** Throws where a header cannot be written. The head leaves with the first of the body. */
  begin(status: number, headers: Headers): void
  /** Leaves in one write; bytes are copied, if they have to wait. False: the client reads slower than we write; `drained` tells when it has caught up. */
  write(piece: string | Uint8Array): boolean
  end(text: string): void
  /** Breaks the connection. */
  cut(): void
}

export type ExchangeListener = {
  /** All that was written and waited has been taken. */
  drained(): void
  /** All of the answer has been. Not told when the connection ends before. */
  finished(): void
}

export const NO_LISTENER: ExchangeListener = { drained() {}, finished() {} }

/** A part is the taker's to keep. */
export type BodySink = { take(part: Buffer): void; end(): void }

/** Why what came is no request: none at all, too long a head, chunk extensions beyond need, or it took too long. */
export type Problem = 'not_http' | 'long_head' | 'long_extension' | 'late'

/** `Guest`: what the house knows of a connection; a front only carries it. */
export type ServerHandler<Guest> = {
  greet(line: ClientConnection): Guest
  /** A request's head has come. Errors thrown here are told to `failed`, and the connection is cut. */
  serve(guest: Guest, exchange: HttpExchange): void
  /** Whether the protocol may be changed to this one; if not, it is a request like any. */
  grants(head: RequestHead, protocol: string): boolean
  /** It was granted; from here on the socket is the house's. `first`: what has come behind the request. */
  upgrade(guest: Guest, head: RequestHead, socket: Socket, first: Buffer): void
  broke(guest: Guest, problem: Problem): void
  /** The connection has ended. */
  left(guest: Guest): void
  failed(error: unknown): void
}

/** All in ms. */
export type ServerTiming = {
  /** For a request's head to arrive. */
  readonly head: number
  /** For all of a request to arrive. */
  readonly request: number
  /** Between two looks whether one of these is over. */
  readonly check: number
  /** An idle connection is kept. */
  readonly keepAlive: number
  /** A connection stays behind its last words. */
  readonly linger: number
}

export type HttpServerOptions = {
  readonly timing: ServerTiming
  /** Bytes of a request's head. */
  readonly headBytes: number
  readonly requestsPerSocket: number
}

export type HttpServer = {
  /** Answers the port. Rejects with Node's error when it cannot listen. */
  listen(where: ListenOptions): Promise<number>
  /** Connections beyond so many are hung up on. */
  most(connections: number): void
  /** Hangs up where nothing is asked. */
  closeIdle(): void
  /** Takes no more connections; resolves when the last one has ended. */
  close(): Promise<void>
}

export type OpenHttpServer = <Guest>(house: ServerHandler<Guest>, options: HttpServerOptions) => HttpServer

/**
 * So many connections may wait until the process accepts them, or as many as the system lets (4,096 on Linux). Node lets 511:
 * a loop busy for half a second while many come loses the rest, whose clients try again a second later or give up.
 */
const BACKLOG = 4_096

/** Answers the port; rejects with Node's error. `failed` is told of what happens to the listening socket from then on. */
export const listenOn = (server: Server, where: ListenOptions, failed: (error: unknown) => void): Promise<number> =>
  new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ ...where, backlog: BACKLOG }, () => {
      server.off('error', reject)
      // With nobody listening an error of the listening socket (no descriptors left) would end the process.
      server.on('error', failed)
      // A server on a port has an address with one.
      resolve((server.address() as AddressInfo).port)
    })
  })

/** Says the last words on a connection, and closes it only once the other side has had time to read them. */
export const closeBehind = (socket: Socket, text: string, linger: number): void => {
  const timer = setTimeout(() => socket.destroy(), linger)
  socket.once('close', () => clearTimeout(timer))
  socket.on('error', () => {})
  socket.end(text)
}
