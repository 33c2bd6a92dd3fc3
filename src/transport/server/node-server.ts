/** An HTTP/1.1 server on `node:http`, with its strict parser and protocol limits. */
import type * as Http from 'node:http'
import type { Socket } from 'node:net'
import type { HeaderLookup } from '../../core/headers.ts'
import { joinMessage } from '../net/write-buffer.ts'
import { errorText } from './error-text.ts'
import {
  type BodySink,
  type ClientConnection,
  type HttpExchange,
  type HttpServerOptions,
  type IncomingHead,
  listenOn,
  NO_LISTENER,
  type OpenHttpServer,
  type RequestProblem,
  type ResponseHeaders,
  type ServerHandler,
  sendAndClose,
} from './http-server.ts'

// Not an `import`: that reads every export of the module; one of them is a getter, `WebSocket`, that loads a second HTTP
// client: 25 of 100 ms of a start (Node 24.21).
const { createServer, IncomingMessage } = process.getBuiltinModule('node:http')
type IncomingMessage = Http.IncomingMessage

/** Creates a server. */
export const nodeServer: OpenHttpServer = <Context>(handler: ServerHandler<Context>, options: HttpServerOptions) => {
  const { timing } = options
  const contexts = new WeakMap<Socket, Context>()

  const server = createServer({
    IncomingMessage: Incoming,
    // Other offers (h2c, a WebSocket on another path) are served as plain HTTP.
    shouldUpgradeCallback: (req) => handler.grants(headOf(req), req.headers.upgrade ?? ''),
    maxHeaderSize: options.headBytes,
    headersTimeout: timing.head,
    requestTimeout: timing.request,
    // Node's default of 30 s delays short limits.
    connectionsCheckingInterval: timing.check,
    keepAliveTimeout: timing.keepAlive,
    // The handler checks it, and responds with a body.
    requireHostHeader: false,
    noDelay: true,
  })
  // Node would drop further headers silently, so that two parsers see different requests. The handler limits them.
  server.maxHeadersCount = 0
  server.maxRequestsPerSocket = options.requestsPerSocket
  server.timeout = 0

  const serve = (req: Incoming, res: Http.ServerResponse, expects: HttpExchange['expects']) => {
    const context = contexts.get(req.socket)
    if (context) handler.serve(context, new NodeExchange(req, res, expects, options))
  }
  server.on('request', (req, res) => serve(req, res, 'nothing'))
  server.on('checkContinue', (req, res) => serve(req, res, 'continue'))
  server.on('checkExpectation', (req: Incoming, res: Http.ServerResponse) => serve(req, res, 'other'))
  server.on('upgrade', (req, stream, first) => {
    // Typed as Duplex for servers over other transports; this one listens on TCP.
    const socket = stream as Socket
    const context = contexts.get(socket)
    if (context) handler.upgrade(context, headOf(req), socket, first)
  })
  server.on('clientError', (error: NodeJS.ErrnoException, stream) => {
    // TCP, as above.
    const socket = stream as Socket
    const problem = problemOf(error.code ?? '')
    const context = contexts.get(socket)
    if (!problem || !context || !socket.writable) return void socket.destroy()
    handler.malformed(context, problem)
  })
  server.on('connection', (socket) => {
    const connection: ClientConnection = {
      address: socket.remoteAddress ?? '',
      endWith: (text) => sendAndClose(socket, text, timing.linger),
      destroy: () => void socket.destroy(),
    }
    const context = handler.connected(connection)
    contexts.set(socket, context)
    // Not the response's `close` event: a pipelined response without a socket never emits it.
    socket.once('close', () => handler.closed(context))
  })

  return {
    listen: (where) => listenOn(server, where, (error) => handler.failed(error)),
    limitConnections(count) {
      server.maxConnections = count
    },
    closeIdle: () => server.closeIdleConnections(),
    close: () => new Promise((resolve) => server.close(() => resolve())),
  }
}

/** The problem behind a parser error; null: the client has left. */
const problemOf = (code: string): RequestProblem | null => {
  if (code === 'ECONNRESET' || code === 'EPIPE' || code === 'ETIMEDOUT') return null
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return 'late'
  if (code === 'HPE_HEADER_OVERFLOW') return 'long_head'
  return code === 'HPE_CHUNK_EXTENSIONS_OVERFLOW' ? 'long_extension' : 'not_http'
}

const headOf = (req: IncomingMessage): IncomingHead => ({
  method: req.method ?? '',
  target: req.url ?? '',
  version: req.httpVersion,
  headers: lookupIn(req),
  get hosts() {
    return hostsOf(req)
  },
  lines: req.rawHeaders.length / 2,
})

const lookupIn =
  (req: IncomingMessage): HeaderLookup =>
  (name) => {
    if (!Object.hasOwn(req.headers, name)) return undefined
    const value = req.headers[name]
    return Array.isArray(value) ? value.join(', ') : value
  }

/** The values of all Host lines; `req.headers` has the first one only. */
const hostsOf = (req: IncomingMessage): readonly string[] => {
  const hosts: string[] = []
  for (let at = 0; at < req.rawHeaders.length; at += 2)
    if (req.rawHeaders[at]?.toLowerCase() === 'host') hosts.push(req.rawHeaders[at + 1] ?? '')
  return hosts
}

class NodeExchange implements HttpExchange {
  readonly #req: Incoming
  readonly #res: Http.ServerResponse
  readonly #linger: number
  readonly method: string
  readonly target: string
  readonly version: string
  readonly headers: HeaderLookup
  readonly expects: HttpExchange['expects']
  listener = NO_LISTENER
  writeTimeout = 0
  /** Chunks are encoded here, not by Node (RFC 9112, section 7.1). */
  #chunked = false
  #hasDrainListener = false

  constructor(
    req: Incoming,
    res: Http.ServerResponse,
    expects: HttpExchange['expects'],
    { timing }: HttpServerOptions,
  ) {
    this.#req = req
    this.#res = res
    this.#linger = timing.linger
    this.method = req.method ?? ''
    this.target = req.url ?? ''
    this.version = req.httpVersion
    this.headers = lookupIn(req)
    this.expects = expects
    // After a connection error `close` follows.
    res.on('error', () => {})
    res.once('finish', () => this.listener.finished())
  }

  get hosts(): readonly string[] {
    return hostsOf(this.#req)
  }

  get lines(): number {
    return this.#req.rawHeaders.length / 2
  }

  get complete(): boolean {
    return this.#req.complete
  }

  get begun(): boolean {
    return this.#res.headersSent
  }

  get unsent(): number {
    return this.#res.writableLength
  }

  sendContinue(): void {
    this.#res.writeContinue()
  }

  pipeBody(sink: BodySink | null): void {
    this.#req.pipeBody(sink)
  }

  holdBody(held: (bytes: number) => void): void {
    this.#req.holdBody(held)
  }

  closeAfter(): void {
    this.#res.shouldKeepAlive = false
  }

  answer(status: number, headers: ResponseHeaders, body: string | null): void {
    this.#req.releaseBody()
    const { socket } = this.#req
    // `res.socket` is set once the responses to earlier requests were sent.
    if (!this.#res.shouldKeepAlive && !this.complete && this.#res.socket === socket && body !== null) {
      // The rest of the body is drained, so that the client reads the response instead of a reset.
      this.#req.resume()
      sendAndClose(socket, errorText({ status, headers, body }), this.#linger)
      return
    }
    this.#res.writeHead(status, listed(headers, body === null ? [] : ['content-length', `${Buffer.byteLength(body)}`]))
    this.#res.end(body ?? '')
    if (this.unsent > 0) this.#awaitDrain()
    this.#limitWriteTime()
  }

  /**
   * Node writes a chunk in four parts; encoded here it is one. `writeHead` sets the header block, which leaves with the
   * first chunk; then `chunkedEncoding = false` stops Node from encoding chunks again. HTTP/1.0 has no chunks.
   */
  begin(status: number, headers: ResponseHeaders): void {
    this.#req.releaseBody()
    this.#chunked = this.#res.useChunkedEncodingByDefault
    this.#res.writeHead(status, listed(headers, this.#chunked ? ['transfer-encoding', 'chunked'] : []))
    if (this.#chunked) this.#res.chunkedEncoding = false
    else this.#res.once('timeout', () => this.cut())
  }

  write(piece: string | Uint8Array): boolean {
    const room = this.#res.write(this.#encoded(piece))
    if (!room) this.#awaitDrain()
    return room
  }

  #encoded(piece: string | Uint8Array): string | Uint8Array {
    if (typeof piece === 'string') return this.#chunked ? chunk(piece) : piece
    return this.#chunked ? joinMessage(`${piece.length.toString(16)}\r\n`, piece, '\r\n') : joinMessage('', piece)
  }

  end(text: string): void {
    this.#res.end(this.#chunked ? `${text === '' ? '' : chunk(text)}0\r\n\r\n` : text)
    this.#limitWriteTime()
  }

  cut(): void {
    // Without chunks the end of the connection ends the body: a reset shows that a part is missing.
    if (this.begun && !this.#chunked) this.#req.socket.resetAndDestroy()
    else this.#res.destroy()
  }

  /** Node closes the connection after this time, and restarts it while the kernel's queue shrinks. */
  #limitWriteTime(): void {
    const res = this.#res
    if (this.unsent === 0) return
    const begin = (socket: Socket) => {
      socket.setTimeout(this.writeTimeout)
      // Prepended: before Node sets its timeout for idle connections.
      res.prependOnceListener('finish', () => socket.setTimeout(0))
    }
    // A response has no socket until earlier responses have been sent.
    if (res.socket) begin(res.socket)
    else res.once('socket', begin)
  }

  #awaitDrain(): void {
    if (this.#hasDrainListener) return
    this.#hasDrainListener = true
    this.#res.on('drain', () => this.listener.drained())
  }
}

/** Names and values in turn: half the cost of an object or of `setHeader`. */
const listed = (headers: ResponseHeaders, list: string[]): string[] => {
  for (const name in headers) list.push(name, headers[name] ?? '')
  return list
}

const chunk = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`

/**
 * A request that passes its body to a sink straight from the parser. A stream in flowing mode delivers the same parts,
 * and costs a fifth of a small request's time at the edge.
 */
class Incoming extends IncomingMessage {
  #sink: BodySink | null = null
  /** The parts that wait for a sink, and null for the end; null: none do. */
  #held: (Buffer | null)[] | null = null
  #countHeld: (bytes: number) => void = () => {}

  /** Null: the body waits to be read, as in any stream. */
  pipeBody(sink: BodySink | null): void {
    this.#sink = sink
    const parts = this.#held
    if (!parts) return
    this.#held = null
    for (const part of parts) if (sink || part === null) this.push(part)
    // Node has stopped reading since `push` returned false.
    if (!this.complete) this._read(0)
  }

  holdBody(held: (bytes: number) => void): void {
    this.#held ??= []
    this.#countHeld = held
  }

  /** Without a sink, Node drops the body after the response. */
  releaseBody(): void {
    if (this.#held) this.pipeBody(null)
  }

  override push(part: Buffer | null): boolean {
    if (this.#held) {
      this.#held.push(part)
      if (part) this.#countHeld(part.length)
      return false
    }
    const sink = this.#sink
    if (!sink) return super.push(part)
    if (part !== null) {
      sink.push(part)
      return true
    }
    // Marks the stream as read to its end, so that Node releases it.
    const state = (this as unknown as ReadableInternals)._readableState
    state.ended = true
    state.endEmitted = true
    ;(this as unknown as ReadableInternals)._consumed = true
    this.#sink = null
    sink.end()
    return true
  }
}

/** What Node reads of a request after its response; not in its types. */
type ReadableInternals = { readonly _readableState: { ended: boolean; endEmitted: boolean }; _consumed: boolean }
