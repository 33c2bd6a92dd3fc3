/**
 * An HTTP/1.1 server on `node:net`: no stream, timer or listener per request, and one write per response. Requests of a
 * connection are served one after the other; pipelined bytes wait. `node:http` can replace it by a setting, and is its
 * test oracle: every test of this folder runs on both.
 */
import { createServer, type Socket } from 'node:net'
import { dropEndListeners } from '../net/end-listeners.ts'
import { joinMessage, WriteBuffer } from '../net/write-buffer.ts'
import {
  type ClientConnection,
  type HttpServerOptions,
  type IncomingHead,
  listenOn,
  type OpenHttpServer,
  type RequestProblem,
  type ServerHandler,
} from './http-server.ts'
import { Http1Exchange } from './http1-exchange.ts'
import { type ReadHead, RequestReader, type RequestSink } from './request-reader.ts'

/** Pipelined bytes kept while a request is served; above, the socket is paused. */
const MAX_PIPELINED = 64 * 1024

/** A part of a body is copied if the buffer it is a view of is larger than this many times its size. */
const MAX_BUFFER_SHARE = 4

const NOTHING = Buffer.alloc(0)

/** A client that does not read keeps one buffer: small, since most answers and chunks are. */
const writeBuffer = new WriteBuffer({ head: 4 * 1024, body: 16 * 1024 })

const ignored = (): void => {}

/** Creates a server. */
export const http1Server: OpenHttpServer = <Context>(handler: ServerHandler<Context>, options: HttpServerOptions) => {
  const { timing } = options
  const connections = new Set<ServerConnection<Context>>()
  const state: ServerState<Context> = { handler, options, connections, tails: new HeaderTails(timing.keepAlive) }
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    new ServerConnection(state, socket).begin()
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

/** The last header lines of every response: date and connection. Formatted once a second. */
class HeaderTails {
  readonly #keepAlive: string
  #second = 0
  #date = ''

  constructor(keepAlive: number) {
    this.#keepAlive = `connection: keep-alive\r\nkeep-alive: timeout=${Math.floor(keepAlive / 1000)}\r\n\r\n`
  }

  of(keeps: boolean): string {
    const now = Date.now()
    const second = Math.floor(now / 1000)
    if (second !== this.#second) {
      this.#second = second
      this.#date = `date: ${new Date(now).toUTCString()}\r\n`
    }
    return this.#date + (keeps ? this.#keepAlive : 'connection: close\r\n\r\n')
  }
}

class ServerConnection<Context> implements ClientConnection, RequestSink {
  readonly address: string
  readonly #server: ServerState<Context>
  readonly #socket: Socket
  readonly #reader: RequestReader
  readonly #context: Context
  /** The request in progress, until it is complete and answered. */
  #exchange: Http1Exchange | null = null
  #upgrade: ReadHead | null = null
  /** Pipelined bytes. */
  #pipelined: Buffer = NOTHING
  #reading = false
  #served = 0
  /** Bytes that belong to no exchange, as last reported. */
  #kept = 0
  /** There was no memory for pipelined bytes: further ones are dropped until the connection closes. */
  #isDeaf = false
  /** The last response was sent; received bytes are dropped until the connection closes. */
  #closing = false
  /** Start of the current phase: idle, request in progress or closing; in ms. */
  #since = performance.now()
  #hasDrainListener = false

  constructor(server: ServerState<Context>, socket: Socket) {
    this.#server = server
    this.#socket = socket
    this.address = socket.remoteAddress ?? ''
    this.#reader = new RequestReader(this, server.options.headBytes)
    this.#context = server.handler.connected(this)
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

  endWith(text: string): void {
    this.#close()
    this.#socket.end(text)
  }

  destroy(): void {
    if (this.#exchange?.needsReset) this.#socket.resetAndDestroy()
    else this.#socket.destroy()
  }

  /** Between two requests. */
  get idle(): boolean {
    return !this.#exchange && !this.#reader.begun && !this.#closing && this.#served > 0
  }

  // ── Reading ────────────────────────────────────────────────────────────────────────────────────────────────────

  #receive(part: Buffer): void {
    if (this.#closing || this.#isDeaf) return
    try {
      if (this.#pipelined.length > 0) this.#keepPipelined(part)
      else this.#read(part)
      this.#reportKept()
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
        this.#keepPipelined(buffer.subarray(at))
        break
      }
      if (!this.#reader.begun) this.#since = performance.now()
      at = this.#reader.push(buffer, at)
      if (this.#reader.problem) this.#refuse(this.#reader.problem)
      if (this.#upgrade) {
        this.#handOver(this.#upgrade, buffer.subarray(at))
        break
      }
      this.#nextRequest()
    }
    this.#reading = false
  }

  #keepPipelined(part: Buffer): void {
    this.#pipelined = this.#pipelined.length === 0 ? part : Buffer.concat([this.#pipelined, part])
    if (this.#pipelined.length > MAX_PIPELINED) this.#socket.pause()
  }

  /** Reports the bytes that belong to no exchange, if they changed. */
  #reportKept(): void {
    const kept = this.#pipelined.length + this.#reader.kept
    if (kept === this.#kept || this.#closing) return
    this.#kept = kept
    if (this.#server.handler.keeps(this.#context, kept)) return
    if (!this.#exchange) return this.#refuse('no_memory')
    this.#isDeaf = true
    this.#exchange.closeAfter()
    this.#dropPipelined()
  }

  #dropPipelined(): void {
    this.#pipelined = NOTHING
    if (this.#kept > 0) this.#server.handler.keeps(this.#context, 0)
    this.#kept = 0
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

  #handOver(head: IncomingHead, first: Buffer): void {
    this.#server.connections.delete(this)
    for (const event of ['data', 'end', 'drain']) this.#socket.removeAllListeners(event)
    this.#server.handler.upgrade(this.#context, head, this.#socket, first)
  }

  /** After a complete exchange: continues with the next request, or closes. */
  #nextRequest(): void {
    const exchange = this.#exchange
    if (!exchange?.over) return
    if (!exchange.keeps) {
      this.#exchange = null
      this.#close()
      this.#socket.end()
      return
    }
    // The response may be complete before the request is.
    if (!this.#reader.done) return
    this.#exchange = null
    this.#reader.reset()
    this.#since = performance.now()
    if (this.#pipelined.length > 0) process.nextTick(() => this.#readPipelined())
  }

  #readPipelined(): void {
    const pipelined = this.#pipelined
    this.#pipelined = NOTHING
    this.#receive(pipelined)
    if (this.#pipelined.length <= MAX_PIPELINED) this.#socket.resume()
  }

  /** Drops further input; the client has `timing.linger` to read the response. */
  #close(): void {
    this.#closing = true
    this.#since = performance.now()
    this.#dropPipelined()
    this.#socket.resume()
  }

  // ── Writing ────────────────────────────────────────────────────────────────────────────────────────────────────

  get unsent(): number {
    return this.#socket.writableLength
  }

  get complete(): boolean {
    return this.#reader.done
  }

  pause(): void {
    this.#socket.pause()
  }

  resume(): void {
    if (this.#pipelined.length <= MAX_PIPELINED) this.#socket.resume()
  }

  tail(keepAlive: boolean): string {
    return this.#server.tails.of(keepAlive)
  }

  write(head: string, body: string, ascii: boolean): boolean {
    const socket = this.#socket
    if (!socket.writable) return true
    if (writeBuffer.join(socket, head, body, '')) return this.#hasRoom(!socket.writableNeedDrain)
    let room: boolean
    if (ascii) room = this.#socket.write(head + body, 'latin1')
    else if (head === '' || Buffer.byteLength(head) === head.length) room = this.#socket.write(head + body)
    else {
      this.#socket.cork()
      this.#socket.write(head, 'latin1')
      room = this.#socket.write(body)
      this.#socket.uncork()
    }
    return this.#hasRoom(room)
  }

  /** `head` and `tail` are Latin-1. */
  writePart(head: string, part: Uint8Array, tail: string): boolean {
    const socket = this.#socket
    if (!socket.writable) return true
    if (writeBuffer.join(socket, head, part, tail)) return this.#hasRoom(!socket.writableNeedDrain)
    return this.#hasRoom(socket.write(joinMessage(head, part, tail)))
  }

  #hasRoom(room: boolean): boolean {
    if (!room && !this.#hasDrainListener) {
      this.#hasDrainListener = true
      this.#socket.on('drain', () => this.#exchange?.listener.drained())
    }
    return room
  }

  answered(exchange: Http1Exchange): void {
    // The client has left; `close` follows.
    if (!this.#socket.writable) return
    if (this.unsent === 0) return this.#sent(exchange)
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
    const passed = now - this.#since
    if (this.#closing) {
      if (passed >= linger) this.destroy()
    } else if (this.idle) {
      if (passed >= keepAlive) this.destroy()
    } else if (!this.#exchange) {
      if (passed >= head) this.#refuse('late')
    } else if (!this.#reader.done && passed >= request) this.#refuse('late')
  }
}
