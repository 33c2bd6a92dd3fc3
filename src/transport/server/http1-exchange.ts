import type { HeaderLookup } from '../../core/headers.ts'
import { NAME, VALUE } from '../net/header-line.ts'
import type { ConnectionOutput } from './connection-output.ts'
import { type BodySink, type HttpExchange, NO_LISTENER, type ResponseHeaders } from './http-server.ts'
import type { PipelinedInput } from './pipelined-input.ts'
import type { ReadHead } from './request-reader.ts'
import { statusLine } from './status-line.ts'

const STOPPED = Number.POSITIVE_INFINITY

/** What an exchange needs of its connection. */
type ExchangeConnection = {
  /** The current request has been received. */
  readonly complete: boolean
  readonly input: Pick<PipelinedInput, 'pause' | 'resume'>
  readonly output: ConnectionOutput
  /** When the time of the request began, in ms of the monotonic clock; `Infinity`: it does not pass. */
  since: number
  /** The response has been written. */
  answered(exchange: Http1Exchange): void
  destroy(): void
}

/** Takes the place of the header block once a response has begun, so that its memory is free: a stream may last for minutes. */
const RELEASED: ReadHead = {
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

/** The header block of a request. A class to inherit: an object of its own would be one more for each request. */
class ReleasableHead {
  readonly method: string
  #read: ReadHead

  constructor(read: ReadHead) {
    this.method = read.method
    this.#read = read
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

  /** Frees the memory of the block. */
  protected releaseHead(): void {
    this.#read = RELEASED
  }
}

/** The parts of a request body that wait for a sink. */
class HeldBody {
  readonly #parts: Buffer[] = []
  readonly #count: (bytes: number) => void
  /** The body is complete. */
  isWhole = false

  /** `count` is called for each part with its size. */
  constructor(count: (bytes: number) => void) {
    this.#count = count
  }

  get parts(): readonly Buffer[] {
    return this.#parts
  }

  push(part: Buffer): void {
    this.#parts.push(part)
    this.#count(part.length)
  }
}

/** What ends the body of a response: its stated length, the last chunk, or the end of the connection. */
type BodyEnd = 'length' | 'chunk' | 'connection'

/** One exchange; see `HttpExchange`. */
export class Http1Exchange extends ReleasableHead implements HttpExchange {
  readonly #connection: ExchangeConnection
  #sink: BodySink | null = null
  /** Null: the body does not wait for a sink. */
  #held: HeldBody | null = null
  listener = NO_LISTENER
  writeTimeout = 0
  begun = false
  /** The response is complete on this side. */
  written = false
  /** The socket has accepted the complete response. */
  over = false
  /** The connection stays open after this response. */
  keeps: boolean
  /** The header block of a stream, until it leaves with the first part of the body. */
  #head = ''
  #bodyEnd: BodyEnd = 'length'

  constructor(connection: ExchangeConnection, read: ReadHead, keeps: boolean) {
    super(read)
    this.#connection = connection
    this.keeps = keeps
  }

  get complete(): boolean {
    return this.over || this.#connection.complete
  }

  /** Whether the connection must be reset: the body ends with the connection, so a normal close would make a part look complete. */
  get needsReset(): boolean {
    return this.#bodyEnd === 'connection' && !this.over
  }

  get unsent(): number {
    return this.over ? 0 : this.#connection.output.unsent
  }

  /** A part of the request body was received. */
  receive(part: Buffer): void {
    if (this.#sink?.isPaced) this.#connection.since = this.#held ? STOPPED : performance.now()
    if (!this.#held) return this.#sink?.push(part)
    this.#held.push(part)
  }

  /** The request body is complete. */
  received(): void {
    if (this.#held) {
      this.#held.isWhole = true
      return
    }
    const sink = this.#sink
    this.#sink = null
    sink?.end()
  }

  /** The socket has accepted the complete response. */
  sent(): void {
    this.over = true
    this.listener.finished()
  }

  sendContinue(): void {
    if (!this.complete) this.#connection.output.write('HTTP/1.1 100 Continue\r\n\r\n', '', true)
  }

  pipeBody(sink: BodySink | null): void {
    if (sink?.isPaced || this.#sink?.isPaced) this.#connection.since = performance.now()
    this.#sink = sink
    const held = this.#release()
    if (!held) return
    // The sink may refuse the body at any part.
    for (const part of held.parts) this.#sink?.push(part)
    if (held.isWhole) this.received()
  }

  holdBody(held: (bytes: number) => void): void {
    this.#held ??= new HeldBody(held)
    this.#connection.input.pause()
    if (this.#sink?.isPaced) this.#connection.since = STOPPED
  }

  /** Reads on. Returns what was held. */
  #release(): HeldBody | null {
    const held = this.#held
    this.#held = null
    if (held) this.#connection.input.resume()
    return held
  }

  closeAfter(): void {
    this.keeps = false
  }

  answer(status: number, headers: ResponseHeaders, body: string | null): void {
    this.#release()
    const bytes = body === null ? 0 : Buffer.byteLength(body)
    const length = body === null ? '' : `content-length: ${bytes}\r\n`
    const head = `${statusLine(status)}${linesOf(headers)}${length}${this.#connection.output.tail(this.keeps)}`
    this.begun = true
    const sent = body === null || this.method === 'HEAD' ? '' : body
    this.#connection.output.write(head, sent, bytes === sent.length || sent === '')
    this.written = true
    this.#connection.answered(this)
  }

  begin(status: number, headers: ResponseHeaders): void {
    this.#release()
    // HTTP/1.0 has no chunks: the end of the connection ends the body.
    const chunked = this.version === '1.1'
    if (!chunked) this.keeps = false
    const coding = chunked ? 'transfer-encoding: chunked\r\n' : ''
    this.#head = `${statusLine(status)}${linesOf(headers)}${coding}${this.#connection.output.tail(this.keeps)}`
    this.#bodyEnd = chunked ? 'chunk' : 'connection'
    this.begun = true
    this.releaseHead()
  }

  write(piece: string | Uint8Array): boolean {
    return typeof piece === 'string' ? this.#write(piece, '') : this.#writePart(piece)
  }

  end(text: string): void {
    this.#write(text, '0\r\n\r\n')
    this.written = true
    this.#connection.answered(this)
  }

  cut(): void {
    this.#connection.destroy()
  }

  #writePart(part: Uint8Array): boolean {
    const head = this.#head
    this.#head = ''
    if (this.method === 'HEAD') return this.#connection.output.write(head, '', true)
    if (this.#bodyEnd !== 'chunk') return this.#connection.output.writePart(head, part, '')
    return this.#connection.output.writePart(`${head}${part.length.toString(16)}\r\n`, part, '\r\n')
  }

  /** `close`: the last chunk (RFC 9112, section 7.1); empty before the end. */
  #write(text: string, close: string): boolean {
    const head = this.#head
    this.#head = ''
    if (this.method === 'HEAD') return this.#connection.output.write(head, '', true)
    const bytes = Buffer.byteLength(text)
    if (this.#bodyEnd !== 'chunk') return this.#connection.output.write(head, text, bytes === text.length)
    const chunk = bytes === 0 ? close : `${bytes.toString(16)}\r\n${text}\r\n${close}`
    return this.#connection.output.write(head, chunk, bytes === text.length)
  }
}

const knownNames = new Set<string>()
const MAX_KNOWN_NAMES = 256

const isName = (name: string): boolean => {
  if (knownNames.has(name)) return true
  if (!NAME.test(name)) return false
  if (knownNames.size < MAX_KNOWN_NAMES) knownNames.add(name)
  return true
}

const linesOf = (headers: ResponseHeaders): string => {
  let lines = ''
  for (const name in headers) {
    const value = headers[name] ?? ''
    // The error omits the value: it may contain upstream text.
    if (!isName(name) || !VALUE.test(value))
      throw new Error(`The response header ${JSON.stringify(name)} is not valid.`)
    lines += `${name}: ${value}\r\n`
  }
  return lines
}
