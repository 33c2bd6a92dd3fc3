/**
 * An HTTP/1.1 server on `node:net`: no stream, timer or listener per request, and one write per response. Requests of a
 * connection are served one after the other; pipelined bytes wait. `node:http` can replace it by a setting, and is its
 * test oracle: every test of this folder runs on both.
 */
import { createServer, type Socket } from 'node:net'
import { dropEndListeners } from '../net/end-listeners.ts'
import { ConnectionOutput, HeaderTails } from './connection-output.ts'
import {
  type ClientConnection,
  type HttpServerOptions,
  listenOn,
  type OpenHttpServer,
  type OpenListener,
  type RequestProblem,
  type ServerHandler,
} from './http-server.ts'
import { Http1Exchange } from './http1-exchange.ts'
import { PipelinedInput } from './pipelined-input.ts'
import { type ReadHead, RequestReader, type RequestSink } from './request-reader.ts'

/** A part of a body is copied if the buffer it is a view of is larger than this many times its size. */
const MAX_BUFFER_SHARE = 4

const ignored = (): void => {}

/** Creates a server. */
export const http1Server: OpenHttpServer = <Context>(handler: ServerHandler<Context>, options: HttpServerOptions) => {
  const { timing } = options
  const connections = new Set<ServerConnection<Context>>()
  const state: ServerState<Context> = { handler, options, connections, tails: new HeaderTails(timing.keepAlive) }
  const listener: OpenListener = options.listener ?? createServer
  const server = listener({ allowHalfOpen: true, noDelay: true }, (socket, address = socket.remoteAddress ?? '') => {
    new ServerConnection(state, socket, address).begin()
    startChecking()
  })
  let lastCheck = 0
  const check = (now: number) => {
    for (const connection of connections) connection.check(now)
  }
  const checkAll = () => {
    const now = performance.now()
    const wasBlocked = now - lastCheck > 2 * timing.check
    lastCheck = now
    if (connections.size === 0) stopChecking()
    // After the event loop was blocked, bytes that arrived meanwhile are read before a request counts as late.
    else if (wasBlocked) setImmediate(check, now)
    else check(now)
  }
  let checking: NodeJS.Timeout | null = null
  /** Only while there are connections, so that an idle process does not wake up. */
  const startChecking = () => {
    if (checking) return
    lastCheck = performance.now()
    checking = setInterval(checkAll, timing.check).unref()
  }
  const stopChecking = () => {
    if (checking) clearInterval(checking)
    checking = null
  }
  const closeIdle = () => {
    for (const connection of connections) if (connection.idle) connection.destroy()
  }

  return {
    listen: (where) => listenOn(server, where, (error) => handler.failed(error)),
    limitConnections(count) {
      server.maxConnections = count
    },
    closeIdle,
    close: () =>
      new Promise((resolve) => {
        server.close(() => {
          stopChecking()
          resolve()
        })
        closeIdle()
      }),
  }
}

/** The context that the connections of a server share. */
type ServerState<Context> = {
  readonly handler: ServerHandler<Context>
  readonly options: HttpServerOptions
  readonly connections: Set<ServerConnection<Context>>
  readonly tails: HeaderTails
}

class ServerConnection<Context> implements ClientConnection, RequestSink {
  readonly address: string
  readonly #server: ServerState<Context>
  readonly #socket: Socket
  readonly input: PipelinedInput
  readonly output: ConnectionOutput
  readonly #reader: RequestReader
  readonly #context: Context
  /** The request in progress, until it is complete and answered. */
  #exchange: Http1Exchange | null = null
  #upgrade: ReadHead | null = null
  #reading = false
  #served = 0
  /** The last response was sent; received bytes are dropped until the connection closes. */
  #closing = false
  /** Start of the current phase: idle, request in progress or closing; in ms. */
  since = performance.now()

  constructor(server: ServerState<Context>, socket: Socket, address: string) {
    this.#server = server
    this.#socket = socket
    this.address = address
    this.output = new ConnectionOutput(socket, server.tails, () => this.#exchange?.listener.drained())
    this.#reader = new RequestReader(this, server.options.headBytes)
    this.#context = server.handler.connected(this)
    this.input = new PipelinedInput(socket, (bytes) => server.handler.keeps(this.#context, bytes))
    server.connections.add(this)
    // `close` follows.
    socket.on('error', ignored)
    // Emitted once; `once` would allocate a wrapper.
    socket.on('close', () => {
      server.connections.delete(this)
      server.handler.closed(this.#context)
    })
  }

  begin(): void {
    this.#socket.on('data', (part: Buffer) => this.#receive(part))
    // Node's own listener is for sockets that may not be half-open.
    dropEndListeners(this.#socket)
    this.#socket.on('end', () => this.#onEnd())
  }

  // ── Called by the handler ──────────────────────────────────────────────────────────────────────────────────────

  /** Sends the last bytes and drops further input; the client has `timing.linger` to read them. */
  endWith(text = ''): void {
    this.#closing = true
    this.since = performance.now()
    this.input.drop()
    this.#socket.resume()
    if (text === '') this.#socket.end()
    else this.#socket.end(text)
  }

  destroy(): void {
    // Over TLS the end without `close_notify` shows that a part is missing.
    if (this.#exchange?.needsReset && !('encrypted' in this.#socket)) this.#socket.resetAndDestroy()
    else this.#socket.destroy()
  }

  /** Between two requests. */
  get idle(): boolean {
    return !this.#exchange && !this.#reader.begun && !this.#closing && this.#served > 0
  }

  // ── Reading ────────────────────────────────────────────────────────────────────────────────────────────────────

  #receive(part: Buffer): void {
    if (this.#closing || this.input.isDeaf) return
    try {
      if (this.input.length > 0) this.input.push(part)
      else this.#read(part)
      if (this.#closing || this.input.report(this.#reader.kept)) return
      if (!this.#exchange) return this.#refuse('no_memory')
      this.input.deafen()
      this.#exchange.closeAfter()
    } catch (error) {
      this.#server.handler.failed(error)
      this.destroy()
    }
  }

  #read(buffer: Buffer): void {
    this.#reading = true
    let at = 0
    while (at < buffer.length && !this.#closing && !this.#socket.destroyed) {
      if (this.#reader.done) {
        this.input.push(buffer.subarray(at))
        break
      }
      if (!this.#reader.begun) this.since = performance.now()
      at = this.#reader.push(buffer, at)
      if (this.#reader.problem) this.#refuse(this.#reader.problem)
      if (this.#upgrade) {
        this.#server.connections.delete(this)
        for (const event of ['data', 'end', 'drain']) this.#socket.removeAllListeners(event)
        this.#server.handler.upgrade(this.#context, this.#upgrade, this.#socket, buffer.subarray(at))
        break
      }
      this.#nextRequest()
    }
    this.#reading = false
  }

  #onEnd(): void {
    // The client half-closed in the middle of a request.
    if (this.#reader.begun && !this.#reader.done && !this.#closing) this.#refuse('not_http')
    // A client that half-closes during a stream may never read the rest.
    else if (this.#exchange && !this.#exchange.written) this.destroy()
    else this.#socket.destroySoon()
  }

  #refuse(problem: RequestProblem): void {
    // The client would take an error for a part of the response that has begun.
    if (this.#exchange?.begun) this.destroy()
    else this.#server.handler.malformed(this.#context, problem)
  }

  head(head: ReadHead): void {
    const { handler, options } = this.#server
    if (head.upgrade !== undefined && handler.grants(head, head.upgrade)) {
      this.#upgrade = head
      return
    }
    const keeps = head.keeps && ++this.#served < options.requestsPerSocket
    this.#exchange = new Http1Exchange(this, head, keeps)
    handler.serve(this.#context, this.#exchange)
  }

  bytes(part: Buffer): void {
    // The sink may keep the part: a small view of a large buffer would keep all of the buffer in memory.
    const sparse = part.length * MAX_BUFFER_SHARE < part.buffer.byteLength
    this.#exchange?.receive(sparse ? Buffer.from(part) : part)
  }

  end(): void {
    this.#exchange?.received()
  }

  /** After a complete exchange: continues with the next request, or closes. */
  #nextRequest(): void {
    const exchange = this.#exchange
    if (!exchange?.over) return
    if (!exchange.keeps) {
      this.#exchange = null
      return this.endWith()
    }
    // The response may be complete before the request is.
    if (!this.#reader.done) return
    this.#exchange = null
    this.#reader.reset()
    this.since = performance.now()
    if (this.input.length === 0) return
    process.nextTick(() => {
      this.#receive(this.input.take())
      this.input.resume()
    })
  }

  get complete(): boolean {
    return this.#reader.done
  }

  answered(exchange: Http1Exchange): void {
    // The client has left; `close` follows.
    if (!this.#socket.writable) return
    if (this.output.unsent === 0) return this.#sent(exchange)
    // Node restarts this timer while the kernel's queue shrinks. Input restarts it too, but a client that keeps its
    // connection that way could as well read a little.
    const giveUp = () => this.destroy()
    this.#socket.setTimeout(exchange.writeTimeout, giveUp)
    this.#socket.write('', (error) => {
      if (error) return
      this.#socket.setTimeout(0, giveUp)
      this.#sent(exchange)
    })
  }

  #sent(exchange: Http1Exchange): void {
    exchange.sent()
    if (!this.#reading) this.#nextRequest()
  }

  // ── Timeouts ───────────────────────────────────────────────────────────────────────────────────────────────────

  /** Closes the connection or refuses its request when a time is over. */
  check(now: number): void {
    const { head, request, keepAlive, linger } = this.#server.options.timing
    const passed = now - this.since
    if (this.#closing) {
      if (passed >= linger) this.destroy()
    } else if (this.idle) {
      if (passed >= keepAlive) this.destroy()
    } else if (!this.#exchange) {
      if (passed >= head) this.#refuse('late')
    } else if (!this.#reader.done && passed >= request) this.#refuse('late')
  }
}
