/**
 * HTTP/1.1 by ourselves, on `node:net`: no stream, timer or listener for a request, an answer in one write. Requests of a
 * connection are handed on one after the other; what a client sends ahead waits. `node:http` stays beside it as a switch
 * and as its oracle (every test of this folder runs on both).
 */
import { createServer, type Socket } from 'node:net'
import type { EncodedText } from '../../../core/encoded-text.ts'
import type { HeaderLookup } from '../../../core/headers.ts'
import { dropEndListeners } from '../../net/end-listeners.ts'
import { NAME, VALUE } from '../../net/header-line.ts'
import { joinMessage, WriteBuffer } from '../../net/write-buffer.ts'
import { descriptorOf, readEarly, writeDirectly, writePartDirectly } from './direct-write.ts'
import {
  type BodySink,
  type ClientConnection,
  type Headers,
  type HttpExchange,
  type HttpServerOptions,
  listenOn,
  NO_LISTENER,
  type OpenHttpServer,
  type RequestHead,
  type ServerHandler,
} from './http-server.ts'
import { type ReadHead, RequestReader, type RequestSink } from './request-reader.ts'
import { statusLine } from './status-line.ts'

/** Bytes a client may send ahead while a request of it is answered; from there on it is not read. */
const MOST_AHEAD = 64 * 1024

/** Times its own size that a part of a body may keep in memory. */
const MOST_SPREAD = 4

const NOTHING = Buffer.alloc(0)

/** For answers of up to 16 KiB, which are most. */
const sheet = new WriteBuffer({ head: 4 * 1024, body: 4 * 1024 })

const ignored = (): void => {}

export const http1Server: OpenHttpServer = (house, options) => {
  const { timing } = options
  type Guest = ReturnType<typeof house.greet>
  const connections = new Set<Connection<Guest>>()
  const shared: Shared<Guest> = { house, options, connections, tails: new Tails(timing.keepAlive) }
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) =>
    new Connection(shared, socket).begin(),
  )
  let swept = performance.now()
  const check = (now: number) => {
    for (const connection of connections) connection.check(now)
  }
  const sweep = setInterval(() => {
    const now = performance.now()
    const stoodStill = now - swept > 2 * timing.check
    swept = now
    // What has come by now is read first: it is not the clients who are late.
    if (stoodStill) setImmediate(check, now)
    else check(now)
  }, timing.check)
  sweep.unref()
  const closeIdle = () => {
    for (const connection of connections) if (connection.idle) connection.destroy()
  }

  return {
    listen: (where) =>
      listenOn(server, where, (error) => house.failed(error)).catch((error) => {
        clearInterval(sweep)
        throw error
      }),
    most(count) {
      server.maxConnections = count
    },
    closeIdle,
    close: () =>
      new Promise((resolve) => {
        server.close(() => {
          clearInterval(sweep)
          resolve()
        })
        closeIdle()
      }),
  }
}

type Shared<Guest> = {
  readonly house: ServerHandler<Guest>
  readonly options: HttpServerOptions
  readonly connections: Set<Connection<Guest>>
  readonly tails: Tails
}

/** The end of every head: the time, and what becomes of the connection. Made once a second. */
class Tails {
  readonly #keep: string
  #second = 0
  #date = ''

  constructor(keepAlive: number) {
    this.#keep = `connection: keep-alive\r\nkeep-alive: timeout=${Math.floor(keepAlive / 1000)}\r\n\r\n`
  }

  of(keeps: boolean): string {
    const now = Date.now()
    const second = Math.floor(now / 1000)
    if (second !== this.#second) {
      this.#second = second
      this.#date = `date: ${new Date(now).toUTCString()}\r\n`
    }
    return this.#date + (keeps ? this.#keep : 'connection: close\r\n\r\n')
  }
}

class Connection<Guest> implements ClientConnection, RequestSink {
  readonly address: string
  readonly #shared: Shared<Guest>
  readonly #socket: Socket
  /** Of the socket, which is destroyed before it is closed. */
  readonly #descriptor: number
  readonly #reader: RequestReader
  readonly #guest: Guest
  /** The request under way: until it is complete and answered. */
  #exchange: Http1Exchange | null = null
  #upgrade: ReadHead | null = null
  /** What has come behind it. */
  #ahead: Buffer = NOTHING
  #reading = false
  #served = 0
  /** Its last words have been said. */
  #leaving = false
  /** Since when it is idle, or the request under way or the last words have taken; in ms. */
  #since = performance.now()
  #drains = false

  constructor(shared: Shared<Guest>, socket: Socket) {
    this.#shared = shared
    this.#socket = socket
    this.#descriptor = descriptorOf(socket)
    this.address = socket.remoteAddress ?? ''
    this.#reader = new RequestReader(this, shared.options.headBytes)
    this.#guest = shared.house.greet(this)
    shared.connections.add(this)
    // Its end follows.
    socket.on('error', ignored)
    // It comes once; `once` would keep more for it.
    socket.on('close', () => {
      shared.connections.delete(this)
      shared.house.left(this.#guest)
    })
  }

  /** A turn of the event loop sooner than the stream would read it. */
  begin(): void {
    const first = readEarly(this.#descriptor)
    if (first) this.#hear(first)
    if (this.#upgrade) return
    this.#socket.on('data', (part: Buffer) => this.#hear(part))
    // Node's own is for sockets that may not stay half open.
    dropEndListeners(this.#socket)
    this.#socket.on('end', () => this.#eof())
  }

  // ── What the house wants of it ─────────────────────────────────────────────────────────────────────────────────

  bye(text: string): void {
    this.#leave()
    this.#socket.end(text)
  }

  destroy(): void {
    // An end like any other would be taken for the answer's own.
    if (this.#exchange?.isOpen) this.#socket.resetAndDestroy()
    else this.#socket.destroy()
  }

  /** Between two requests. */
  get idle(): boolean {
    return !this.#exchange && !this.#reader.begun && !this.#leaving && this.#served > 0
  }

  // ── What the client says ───────────────────────────────────────────────────────────────────────────────────────

  #hear(part: Buffer): void {
    if (this.#leaving) return
    if (this.#ahead.length > 0) return this.#wait(part)
    try {
      this.#read(part)
    } catch (error) {
      this.#shared.house.failed(error)
      this.destroy()
    }
  }

  #read(buffer: Buffer): void {
    this.#reading = true
    let at = 0
    while (at < buffer.length && !this.#leaving && !this.#socket.destroyed) {
      if (this.#reader.done) {
        this.#wait(buffer.subarray(at))
        break
      }
      if (!this.#reader.begun) this.#since = performance.now()
      at = this.#reader.push(buffer, at)
      if (this.#reader.problem) this.#broke(this.#reader.problem)
      if (this.#upgrade) {
        this.#handOver(this.#upgrade, buffer.subarray(at))
        break
      }
      this.#settle()
    }
    this.#reading = false
  }

  #wait(part: Buffer): void {
    this.#ahead = this.#ahead.length === 0 ? part : Buffer.concat([this.#ahead, part])
    if (this.#ahead.length > MOST_AHEAD) this.#socket.pause()
  }

  #eof(): void {
    // In the middle of a request nobody is there for an answer; and nobody waits for one who says no more.
    if (this.#reader.begun && !this.#reader.done && !this.#leaving) this.#broke('not_http')
    // Of half an answer it may never take what waits.
    else if (this.#exchange && !this.#exchange.whole) this.destroy()
    else this.#socket.destroySoon()
  }

  #broke(problem: NonNullable<RequestReader['problem']>): void {
    // It has its answer already, or a part of it.
    if (this.#exchange?.begun) this.destroy()
    else this.#shared.house.broke(this.#guest, problem)
  }

  head(head: ReadHead): void {
    const { house, options } = this.#shared
    if (head.upgrade !== undefined && house.grants(head, head.upgrade)) {
      this.#upgrade = head
      return
    }
    const keeps = head.keeps && ++this.#served < options.requestsPerSocket
    this.#exchange = new Http1Exchange(this, head, keeps)
    house.serve(this.#guest, this.#exchange)
  }

  bytes(part: Buffer): void {
    // It is the taker's to keep, and a few bytes of a large read, the rest of which was framing, would keep all of it.
    const spread = part.length * MOST_SPREAD < part.buffer.byteLength
    this.#exchange?.hear(spread ? Buffer.from(part) : part)
  }

  end(): void {
    this.#exchange?.heard()
  }

  #handOver(head: RequestHead, first: Buffer): void {
    this.#shared.connections.delete(this)
    for (const event of ['data', 'end', 'drain']) this.#socket.removeAllListeners(event)
    this.#shared.house.upgrade(this.#guest, head, this.#socket, first)
  }

  /** Goes on with the next request where this one is over, or ends where there is to be none. */
  #settle(): void {
    const exchange = this.#exchange
    if (!exchange?.over) return
    if (!exchange.keeps) {
      this.#exchange = null
      this.#leave()
      this.#socket.end()
      return
    }
    // Its answer may be out before all of it is in.
    if (!this.#reader.done) return
    this.#exchange = null
    this.#reader.again()
    this.#since = performance.now()
    if (this.#ahead.length > 0) process.nextTick(() => this.#goOn())
  }

  /** With what has been sent ahead. */
  #goOn(): void {
    const ahead = this.#ahead
    this.#ahead = NOTHING
    this.#hear(ahead)
    if (this.#ahead.length <= MOST_AHEAD) this.#socket.resume()
  }

  /** Nothing more is read; the other side has time to read what was said. */
  #leave(): void {
    this.#leaving = true
    this.#since = performance.now()
    this.#ahead = NOTHING
    this.#socket.resume()
  }

  // ── What it is told ────────────────────────────────────────────────────────────────────────────────────────────

  /** Bytes that the connection has not taken. */
  get waiting(): number {
    return this.#socket.writableLength
  }

  get complete(): boolean {
    return this.#reader.done
  }

  tail(keeps: boolean): string {
    return this.#shared.tails.of(keeps)
  }

  /** `ascii`: of the body. */
  write(head: string, body: string, ascii: boolean): boolean {
    if (!this.#socket.writable) return true
    let room: boolean
    if (ascii) room = this.#put(head + body)
    else if (head === '' || Buffer.byteLength(head) === head.length) room = this.#socket.write(head + body)
    else {
      this.#socket.cork()
      this.#socket.write(head, 'latin1')
      room = this.#socket.write(body)
      this.#socket.uncork()
    }
    if (!room) this.#waitForRoom()
    return room
  }

  /** Between a head and a tail (Latin-1). */
  writePart(head: string, part: Uint8Array, tail: string): boolean {
    if (!this.#socket.writable) return true
    const taken = this.#socket.writableLength > 0 ? 0 : writePartDirectly(this.#descriptor, head, part, tail)
    const whole = taken === head.length + part.length + tail.length
    const room = whole || this.#socket.write(joinMessage(head, part, tail).subarray(taken))
    if (!room) this.#waitForRoom()
    return room
  }

  #waitForRoom(): void {
    if (this.#drains) return
    this.#drains = true
    this.#socket.on('drain', () => this.#exchange?.listener.drained())
  }

  /** Answers whether there is room for more. */
  #put(text: string): boolean {
    const taken = this.#socket.writableLength > 0 ? 0 : writeDirectly(this.#descriptor, text)
    return taken === text.length || this.#socket.write(taken === 0 ? text : text.slice(taken), 'latin1')
  }

  writeBytes(head: string, body: Uint8Array): void {
    if (!this.#socket.writable) return
    if (!sheet.write(this.#socket, head, body)) this.#socket.write(joinMessage(head, body))
  }

  /** All of the answer has been written. */
  answered(exchange: Http1Exchange): void {
    // Nobody is there any more, which the connection's end tells.
    if (!this.#socket.writable) return
    if (this.waiting === 0) this.#sent(exchange)
    else {
      // Node looks at the system's queue before it says so: while that becomes shorter the time begins anew. What the
      // client sends begins it anew too, but one that wants to stay need only read a little.
      const giveUp = () => this.destroy()
      this.#socket.setTimeout(exchange.patience, giveUp)
      this.#socket.write('', (error) => {
        if (error) return
        this.#socket.setTimeout(0, giveUp)
        this.#sent(exchange)
      })
    }
  }

  #sent(exchange: Http1Exchange): void {
    exchange.sent()
    if (!this.#reading) this.#settle()
  }

  // ── Its time ───────────────────────────────────────────────────────────────────────────────────────────────────

  /** Looks whether a time is over. */
  check(now: number): void {
    const { head, request, keepAlive, linger } = this.#shared.options.timing
    const passed = now - this.#since
    if (this.#leaving) {
      if (passed >= linger) this.destroy()
    } else if (this.idle) {
      if (passed >= keepAlive) this.destroy()
    } else if (!this.#exchange) {
      if (passed >= head) this.#broke('late')
    } else if (!this.#reader.done && passed >= request) this.#broke('late')
  }
}

/** What an exchange needs of its connection. */
type Wire = Pick<
  Connection<unknown>,
  'complete' | 'waiting' | 'tail' | 'write' | 'writePart' | 'writeBytes' | 'answered' | 'destroy'
>

/** A request's head once its answer has begun, of which it may be minutes to the end: nobody asks for it any more. */
const FORGOTTEN: ReadHead = {
  method: '',
  target: '',
  version: '',
  headers: () => undefined,
  hosts: [],
  lines: 0,
  expects: 'nothing',
  keeps: false,
  upgrade: undefined,
}

class Http1Exchange implements HttpExchange {
  readonly #wire: Wire
  readonly method: string
  #read: ReadHead
  #taker: BodySink | null = null
  listener = NO_LISTENER
  patience = 0
  begun = false
  /** All of the answer has been given. */
  whole = false
  /** All of it has been sent. */
  over = false
  /** Another request may follow. */
  keeps: boolean
  /** The answer's head, until it leaves with the first of the body. */
  #head = ''
  #frames = false
  /** It ends with the connection. */
  #isOpen = false

  constructor(wire: Wire, read: ReadHead, keeps: boolean) {
    this.#wire = wire
    this.method = read.method
    this.#read = read
    this.keeps = keeps
  }

  get target(): string {
    return this.#read.target
  }

  get version(): string {
    return this.#read.version
  }

  get headers(): HeaderLookup {
    return this.#read.headers
  }

  get hosts(): readonly string[] {
    return this.#read.hosts
  }

  get lines(): number {
    return this.#read.lines
  }

  get expects(): HttpExchange['expects'] {
    return this.#read.expects
  }

  get complete(): boolean {
    return this.over || this.#wire.complete
  }

  /** Its client has no other way to see where it ends than the connection's end, and it has not come to that. */
  get isOpen(): boolean {
    return this.#isOpen && !this.over
  }

  get waiting(): number {
    return this.over ? 0 : this.#wire.waiting
  }

  hear(part: Buffer): void {
    this.#taker?.take(part)
  }

  heard(): void {
    const taker = this.#taker
    this.#taker = null
    taker?.end()
  }

  sent(): void {
    this.over = true
    this.listener.finished()
  }

  proceed(): void {
    if (!this.complete) this.#wire.write('HTTP/1.1 100 Continue\r\n\r\n', '', true)
  }

  take(taker: BodySink | null): void {
    this.#taker = taker
  }

  last(): void {
    this.keeps = false
  }

  answer(status: number, headers: Headers, body: string | null, source?: EncodedText): void {
    const bytes = body === null ? 0 : (source?.bytes.length ?? Buffer.byteLength(body))
    const length = body === null ? '' : `content-length: ${bytes}\r\n`
    const head = `${statusLine(status)}${linesOf(headers)}${length}${this.#wire.tail(this.keeps)}`
    this.begun = true
    const sent = body === null || this.method === 'HEAD' ? '' : body
    // Of a text of ASCII alone the bytes are as quickly made as copied.
    if (source && sent !== '' && bytes !== sent.length) this.#wire.writeBytes(head, source.bytes)
    else this.#wire.write(head, sent, bytes === body?.length || sent === '')
    this.whole = true
    this.#wire.answered(this)
  }

  begin(status: number, headers: Headers): void {
    // To HTTP/1.0 nobody chunks; the end of the connection is then the end of the answer.
    const frames = this.version === '1.1'
    if (!frames) this.keeps = false
    const coding = frames ? 'transfer-encoding: chunked\r\n' : ''
    this.#head = `${statusLine(status)}${linesOf(headers)}${coding}${this.#wire.tail(this.keeps)}`
    this.#frames = frames
    this.#isOpen = !frames
    this.begun = true
    this.#read = FORGOTTEN
  }

  write(piece: string | Uint8Array): boolean {
    return typeof piece === 'string' ? this.#write(piece, '') : this.#writePart(piece)
  }

  end(text: string): void {
    this.#write(text, '0\r\n\r\n')
    this.whole = true
    this.#wire.answered(this)
  }

  cut(): void {
    this.#wire.destroy()
  }

  #writePart(part: Uint8Array): boolean {
    const head = this.#head
    this.#head = ''
    if (this.method === 'HEAD') return this.#wire.write(head, '', true)
    if (!this.#frames) return this.#wire.writePart(head, part, '')
    return this.#wire.writePart(`${head}${part.length.toString(16)}\r\n`, part, '\r\n')
  }

  /** `close`: what ends chunks (RFC 9112, section 7.1). */
  #write(text: string, close: string): boolean {
    const head = this.#head
    this.#head = ''
    if (this.method === 'HEAD') return this.#wire.write(head, '', true)
    const bytes = Buffer.byteLength(text)
    if (!this.#frames) return this.#wire.write(head, text, bytes === text.length)
    const chunk = bytes === 0 ? close : `${bytes.toString(16)}\r\n${text}\r\n${close}`
    return this.#wire.write(head, chunk, bytes === text.length)
  }
}

const known = new Set<string>()
const MOST_KNOWN = 256

const isName = (name: string): boolean => {
  if (known.has(name)) return true
  if (!NAME.test(name)) return false
  if (known.size < MOST_KNOWN) known.add(name)
  return true
}

const linesOf = (headers: Headers): string => {
  let lines = ''
  for (const name in headers) {
    const value = headers[name] ?? ''
    // What it says may be somebody else's text, its name is one of a few.
    if (!isName(name) || !VALUE.test(value)) throw new Error(`The header ${JSON.stringify(name)} cannot be written.`)
    lines += `${name}: ${value}\r\n`
  }
  return lines
}
