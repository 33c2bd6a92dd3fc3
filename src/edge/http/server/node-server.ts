/** HTTP/1.1 by `node:http`, whose parser and protocol limits are kept as strict as they come. */
import type { Socket } from 'node:net'
import type { EncodedText } from '../../../core/encoded-text.ts'
import type { HeaderLookup } from '../../../core/headers.ts'
import { joinMessage } from '../../net/write-buffer.ts'
import { errorText } from './error-text.ts'
import {
  type BodySink,
  type ClientConnection,
  closeBehind,
  type Headers,
  type HttpExchange,
  type HttpServerOptions,
  listenOn,
  NO_LISTENER,
  type OpenHttpServer,
  type Problem,
  type RequestHead,
} from './http-server.ts'
import { createServer, IncomingMessage, type ServerResponse } from './node-http.ts'

export const nodeServer: OpenHttpServer = (house, options) => {
  const { timing } = options
  type Guest = ReturnType<typeof house.greet>
  const guests = new WeakMap<Socket, Guest>()

  const server = createServer({
    IncomingMessage: Incoming,
    // Every other offer to speak something else (h2c, a WebSocket elsewhere) is a request like any, and answered as such.
    shouldUpgradeCallback: (req) => house.grants(headOf(req), req.headers.upgrade ?? ''),
    maxHeaderSize: options.headBytes,
    headersTimeout: timing.head,
    requestTimeout: timing.request,
    // Node's own 30 s make short limits late.
    connectionsCheckingInterval: timing.check,
    keepAliveTimeout: timing.keepAlive,
    // The house checks it, whose refusal has a body.
    requireHostHeader: false,
    noDelay: true,
  })
  // Node drops headers beyond its count in silence, and then two readers see different requests: all are kept, and counted by the house.
  server.maxHeadersCount = 0
  server.maxRequestsPerSocket = options.requestsPerSocket
  server.timeout = 0

  const serve = (req: Incoming, res: ServerResponse, expects: HttpExchange['expects']) => {
    const guest = guests.get(req.socket)
    if (guest) house.serve(guest, new NodeExchange(req, res, expects, options))
  }
  server.on('request', (req, res) => serve(req, res, 'nothing'))
  server.on('checkContinue', (req, res) => serve(req, res, 'continue'))
  server.on('checkExpectation', (req: Incoming, res: ServerResponse) => serve(req, res, 'other'))
  server.on('upgrade', (req, stream, first) => {
    // Its type says Duplex for servers over other transports; ours listens on TCP.
    const socket = stream as Socket
    const guest = guests.get(socket)
    if (guest) house.upgrade(guest, headOf(req), socket, first)
  })
  server.on('clientError', (error: NodeJS.ErrnoException, stream) => {
    // As above.
    const socket = stream as Socket
    const problem = problemOf(error.code ?? '')
    const guest = guests.get(socket)
    if (!problem || !guest || !socket.writable) return void socket.destroy()
    house.broke(guest, problem)
  })
  server.on('connection', (socket) => {
    const line: ClientConnection = {
      address: socket.remoteAddress ?? '',
      bye: (text) => closeBehind(socket, text, timing.linger),
      destroy: () => void socket.destroy(),
    }
    const guest = house.greet(line)
    guests.set(socket, guest)
    // One listener a connection. Not the response's `close`: one that waits behind an earlier answer never has it.
    socket.once('close', () => house.left(guest))
  })

  return {
    listen: (where) => listenOn(server, where, (error) => house.failed(error)),
    most(connections) {
      server.maxConnections = connections
    },
    closeIdle: () => server.closeIdleConnections(),
    close: () => new Promise((resolve) => server.close(() => resolve())),
  }
}

/** What became of a request the parser gave up on; null: nobody is there to be told. */
const problemOf = (code: string): Problem | null => {
  if (code === 'ECONNRESET' || code === 'EPIPE' || code === 'ETIMEDOUT') return null
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return 'late'
  if (code === 'HPE_HEADER_OVERFLOW') return 'long_head'
  return code === 'HPE_CHUNK_EXTENSIONS_OVERFLOW' ? 'long_extension' : 'not_http'
}

const headOf = (req: IncomingMessage): RequestHead => ({
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

/** Node keeps the first Host line only; all of them are looked at. */
const hostsOf = (req: IncomingMessage): readonly string[] => {
  const hosts: string[] = []
  for (let at = 0; at < req.rawHeaders.length; at += 2)
    if (req.rawHeaders[at]?.toLowerCase() === 'host') hosts.push(req.rawHeaders[at + 1] ?? '')
  return hosts
}

class NodeExchange implements HttpExchange {
  readonly #req: Incoming
  readonly #res: ServerResponse
  readonly #linger: number
  readonly method: string
  readonly target: string
  readonly version: string
  readonly headers: HeaderLookup
  readonly expects: HttpExchange['expects']
  listener = NO_LISTENER
  patience = 0
  /** Chunks are framed here (RFC 9112, section 7.1). */
  #frames = false
  #drains = false

  constructor(req: Incoming, res: ServerResponse, expects: HttpExchange['expects'], { timing }: HttpServerOptions) {
    this.#req = req
    this.#res = res
    this.#linger = timing.linger
    this.method = req.method ?? ''
    this.target = req.url ?? ''
    this.version = req.httpVersion
    this.headers = lookupIn(req)
    this.expects = expects
    // An error of the connection is a client that left, which the connection's end tells.
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

  get waiting(): number {
    return this.#res.writableLength
  }

  proceed(): void {
    this.#res.writeContinue()
  }

  take(taker: BodySink | null): void {
    this.#req.takenBy(taker)
  }

  last(): void {
    this.#res.shouldKeepAlive = false
  }

  answer(status: number, headers: Headers, body: string | null, source?: EncodedText): void {
    const { socket } = this.#req
    // `res.socket` is set once the answers to earlier requests on the connection have gone out.
    if (!this.#res.shouldKeepAlive && !this.complete && this.#res.socket === socket && body !== null) {
      // Its sender gets to see the answer instead of a reset.
      this.#req.resume()
      closeBehind(socket, errorText({ status, headers, body }), this.#linger)
      return
    }
    this.#res.writeHead(
      status,
      listed(headers, body === null ? [] : ['content-length', `${source?.bytes.length ?? Buffer.byteLength(body)}`]),
    )
    this.#res.end(source?.bytes ?? body ?? '')
    if (this.waiting > 0) this.#listen()
    this.#wait()
  }

  /**
   * Node writes a chunk in four parts; framed by ourselves it is one. The head is made now and leaves with the first
   * chunk; then Node is told that nothing is chunked, so that it adds nothing. To HTTP/1.0 nobody chunks.
   */
  begin(status: number, headers: Headers): void {
    this.#frames = this.#res.useChunkedEncodingByDefault
    this.#res.writeHead(status, listed(headers, this.#frames ? ['transfer-encoding', 'chunked'] : []))
    if (this.#frames) this.#res.chunkedEncoding = false
    else this.#res.once('timeout', () => this.cut())
  }

  write(piece: string | Uint8Array): boolean {
    const room = this.#res.write(typeof piece === 'string' ? this.#framed(piece) : this.#framedBytes(piece))
    if (!room) this.#listen()
    return room
  }

  #framed(text: string): string {
    return this.#frames ? chunk(text) : text
  }

  #framedBytes(bytes: Uint8Array): Uint8Array {
    return this.#frames ? joinMessage(`${bytes.length.toString(16)}\r\n`, bytes, '\r\n') : joinMessage('', bytes)
  }

  end(text: string): void {
    this.#res.end(this.#frames ? `${text === '' ? '' : chunk(text)}0\r\n\r\n` : text)
    this.#wait()
  }

  cut(): void {
    // Where nothing else says how long it is, an end like any other would be taken for the answer's own.
    if (this.begun && !this.#frames) this.#req.socket.resetAndDestroy()
    else this.#res.destroy()
  }

  /** Node hangs up itself on a connection whose time is over; while the system's queue becomes shorter that begins anew. */
  #wait(): void {
    const res = this.#res
    if (this.waiting === 0) return
    const begin = (socket: Socket) => {
      socket.setTimeout(this.patience)
      // Before Node sets its own for an idle connection.
      res.prependOnceListener('finish', () => socket.setTimeout(0))
    }
    // The answers to earlier requests on the connection go out before it has one.
    if (res.socket) begin(res.socket)
    else res.once('socket', begin)
  }

  #listen(): void {
    if (this.#drains) return
    this.#drains = true
    this.#res.on('drain', () => this.listener.drained())
  }
}

/** Name and value in turn: Node takes such a list as it is, where an object or `setHeader` costs twice as much. */
const listed = (headers: Headers, list: string[]): string[] => {
  for (const name in headers) list.push(name, headers[name] ?? '')
  return list
}

const chunk = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`

/**
 * A request whose body can be had as the parser finds it. Node's way, a stream in flowing mode, costs a small request
 * a fifth of all it costs at the edge; what it would give is the same parts in the same order.
 */
class Incoming extends IncomingMessage {
  #taker: BodySink | null = null

  /** From now on the parts go there; null: they wait to be read, as in any stream. */
  takenBy(taker: BodySink | null): void {
    this.#taker = taker
  }

  override push(part: Buffer | null): boolean {
    const taker = this.#taker
    if (!taker) return super.push(part)
    if (part !== null) {
      taker.take(part)
      return true
    }
    // To Node the stream has been read to its end: then it holds nothing back for it, and lets go of it.
    const state = (this as unknown as Ended)._readableState
    state.ended = true
    state.endEmitted = true
    ;(this as unknown as Ended)._consumed = true
    this.#taker = null
    taker.end()
    return true
  }
}

/** What Node asks of a request when its answer is out; its types do not have them. `server.test.ts` holds all that depends on it. */
type Ended = { readonly _readableState: { ended: boolean; endEmitted: boolean }; _consumed: boolean }
