/**
 * The interface between an HTTP/1.1 implementation and the application. The server parses and writes bytes, independent
 * of routes. The handler determines the response and has no access to the socket, except of an upgraded connection.
 */
import type { AddressInfo, ListenOptions, Server, ServerOpts, Socket } from 'node:net'
import type { HeaderLookup } from '../../core/headers.ts'

/** Response headers by name. */
export type ResponseHeaders = Readonly<Record<string, string>>

/** A client connection. */
export type ClientConnection = {
  /** The client's IP address; empty: it is not known. */
  readonly address: string
  /** Sends a last text, and closes after the client has had time to read it. */
  endWith(text: string): void
  destroy(): void
}

/** The header block of a request, as it was sent. */
export type IncomingHead = {
  readonly method: string
  readonly target: string
  /** `1.1` or `1.0`. `node:http` also accepts other versions. */
  readonly version: string
  readonly headers: HeaderLookup
  /** The value of every Host line. */
  readonly hosts: readonly string[]
  /** Number of header lines. */
  readonly lines: number
}

/** A request and its response: either `answer`, or `begin`, any number of `write`, and `end`; or `cut`. */
export type HttpExchange = IncomingHead & {
  /** `continue`: the client sends its body after `sendContinue`. `other`: an unknown expectation. */
  readonly expects: 'nothing' | 'continue' | 'other'
  /** The whole request has been received. */
  readonly complete: boolean
  /** The response has begun. */
  readonly begun: boolean
  /** Bytes of the response that the socket has not accepted yet. */
  readonly unsent: number
  /** Receives the progress of the response; set it before the response begins. */
  listener: ExchangeListener
  /**
   * ms; 0: no limit. Once a response is complete here, a client that accepts none of it for this time (and up to twice
   * as long) is disconnected. Set it before the response begins.
   */
  writeTimeout: number
  /** Sends `100 Continue`. */
  sendContinue(): void
  /**
   * Passes the parts that follow to a sink; null drops them. Called while `serve` runs or after `holdBody`, the sink receives
   * the whole body.
   */
  pipeBody(sink: BodySink | null): void
  /**
   * Stops reading until `pipeBody` or the end of the response. At most one read is kept (64 KiB): Node
   * reads no less from a socket. `held` receives the bytes of each part; it may call `pipeBody(null)`, which drops them. A sink calls it
   * to pause a body, and `pipeBody` to go on.
   */
  holdBody(held: (bytes: number) => void): void
  /** Closes the connection after this response. */
  closeAfter(): void
  /** Sends a complete response; a null body for a status without one. Throws where a header is not valid. */
  answer(status: number, headers: ResponseHeaders, body: string | null): void
  /** Begins a stream; its header block leaves with the first part of the body. Throws where a header is not valid. */
  begin(status: number, headers: ResponseHeaders): void
  /** Sends in one write; copies bytes that have to wait. False: the client is slow; the listener's `drained` follows. */
  write(piece: string | Uint8Array): boolean
  end(text: string): void
  /** Aborts the connection. */
  cut(): void
}

/** Receives the progress of a response. */
export type ExchangeListener = {
  /** The socket has accepted all that was written. */
  drained(): void
  /** The socket has accepted the complete response. Not called when the connection ends before. */
  finished(): void
}

/** Ignores the progress of a response. */
export const NO_LISTENER: ExchangeListener = { drained() {}, finished() {} }

/**
 * Consumes a request body. The sink may keep the parts. `isPaced`: the time of the request does not pass while it is paused, and begins
 * again with each part.
 */
export type BodySink = { readonly isPaced?: true; push(part: Buffer): void; end(): void }

/**
 * Why received bytes are not a valid request. `long_extension`: chunk extensions; `late`: the request timed out; `no_memory`: there
 * is none to keep them.
 */
export type RequestProblem = 'not_http' | 'long_head' | 'long_extension' | 'late' | 'no_memory'

/** Serves connections. `Context`: the handler's state of a connection, which the server passes back. */
export type ServerHandler<Context> = {
  connected(connection: ClientConnection): Context
  /** Called for each header block. If it throws, `failed` receives the error and the connection is aborted. */
  serve(context: Context, exchange: HttpExchange): void
  /** Whether to change to this protocol; false: the request is served as plain HTTP. */
  grants(head: IncomingHead, protocol: string): boolean
  /** Takes over the socket of a granted upgrade. `first`: bytes received after the request. */
  upgrade(context: Context, head: IncomingHead, socket: Socket, first: Buffer): void
  malformed(context: Context, problem: RequestProblem): void
  /**
   * A connection keeps so many bytes that belong to no exchange: a part of a header block, or pipelined requests. `node:http` does
   * not report them. False: there is no memory for them.
   */
  keeps(context: Context, bytes: number): boolean
  /** The connection has closed. Called once, also for an upgraded one. */
  closed(context: Context): void
  failed(error: unknown): void
}

/** All in ms. */
export type ServerTiming = {
  /** To receive a header block. */
  readonly head: number
  /** To receive a whole request. */
  readonly request: number
  /** Between two checks of these times. */
  readonly check: number
  /** To keep an idle connection. */
  readonly keepAlive: number
  /** To keep a connection open after its last response, so that the client can read it. */
  readonly linger: number
}

/** Limits of a server. */
export type HttpServerOptions = {
  readonly timing: ServerTiming
  /** Bytes of a header block. */
  readonly headBytes: number
  readonly requestsPerSocket: number
  /** Accepts connections otherwise than over plain TCP. */
  readonly listener?: OpenListener | undefined
}

/**
 * Creates a server that passes on each connection once bytes of HTTP may follow. `address`: of the client, if it is not the peer;
 * empty: it has none.
 */
export type OpenListener = (options: ServerOpts, serve: (socket: Socket, address?: string) => void) => Server

/** A server. */
export type HttpServer = {
  /** Returns the port. Rejects with Node's error when it cannot listen. */
  listen(where: ListenOptions): Promise<number>
  /** Further connections are closed at once. */
  limitConnections(count: number): void
  /** Closes connections without a request. */
  closeIdle(): void
  /** Accepts no further connections; resolves when the last one has closed. */
  close(): Promise<void>
}

/** Creates a server that does not listen yet. */
export type OpenHttpServer = <Context>(handler: ServerHandler<Context>, options: HttpServerOptions) => HttpServer

/**
 * Connections the kernel queues until the process accepts them; the system's limit also applies (4,096 on Linux). Node's
 * default is 511: an event loop that is blocked for half a second then drops connections, and their clients retry late.
 */
const BACKLOG = 4_096

/** Listens and returns the port; rejects with Node's error. `failed` receives later errors of the listening socket. */
export const listenOn = (server: Server, where: ListenOptions, failed: (error: unknown) => void): Promise<number> =>
  new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ ...where, backlog: BACKLOG }, () => {
      server.off('error', reject)
      // Without a listener an error of the socket (no file descriptors left) would end the process.
      server.on('error', failed)
      // A TCP server has an address with a port.
      resolve((server.address() as AddressInfo).port)
    })
  })

/** Sends a last text and closes the connection, at the latest after `linger` ms. */
export const sendAndClose = (socket: Socket, text: string, linger: number): void => {
  const timer = setTimeout(() => socket.destroy(), linger)
  socket.once('close', () => clearTimeout(timer))
  socket.on('error', () => {})
  socket.end(text)
}
