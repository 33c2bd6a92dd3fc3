/**
 * A strict parser for HTTP/1.1 requests (RFC 9112). It rejects input that two parsers could read differently. Without
 * I/O. It stops after each request; the caller then resets it and passes the remaining bytes again.
 */
import type { HeaderLookup } from '../../core/headers.ts'
import { BodyParser, type BodyProblem, bodyLengthOf } from '../net/body-parser.ts'
import { BLANK_LINE, copied, headerBlock, NAME, valueIn } from '../net/header-line.ts'
import type { HttpExchange, IncomingHead, RequestProblem } from './http-server.ts'

/** A parsed header block, and its consequences for the connection. */
export type ReadHead = IncomingHead & {
  readonly expects: HttpExchange['expects']
  /** Another request may follow on the connection. */
  readonly keeps: boolean
  /** The protocol of an upgrade request. */
  readonly upgrade: string | undefined
}

/** Receives the parts of requests, in order. */
export type RequestSink = {
  head(head: ReadHead): void
  /** The body bytes of one `push`, joined; a view of its buffer. */
  bytes(part: Buffer): void
  /** The request is complete. */
  end(): void
}

/** Maximum empty lines before a request. */
const MAX_BLANKS = 4

const CR = 13
const LF = 10

/** `start`: no byte of a request has been read. */
type ReaderState = 'start' | 'blank' | 'head' | 'body'

/** Parses the requests of one connection. */
export class RequestReader {
  readonly #sink: RequestSink
  readonly #maxHead: number
  #state: ReaderState = 'start'
  readonly #body = new BodyParser(CHUNK_RULES)
  /** The incomplete header block. */
  #partial = ''
  #blanks = 0
  #problem: RequestProblem | null = null
  /** The shape of the last header block. */
  #shape: HeaderShape | null = null

  /** `maxHead`: bytes of a header block. */
  constructor(sink: RequestSink, maxHead: number) {
    this.#sink = sink
    this.#maxHead = maxHead
  }

  /** A byte of a request was read. */
  get begun(): boolean {
    return this.#state !== 'start'
  }

  /** The request is complete; nothing is read before `reset`. */
  get done(): boolean {
    return this.#state === 'body' && this.#body.done
  }

  /** Characters of an incomplete header block. */
  get kept(): number {
    return this.#partial.length
  }

  /** The parser is in a permanent error state and reads nothing further. */
  get problem(): RequestProblem | null {
    return this.#problem
  }

  /** Prepares for the next request. */
  reset(): void {
    this.#state = 'start'
    this.#partial = ''
    this.#blanks = 0
  }

  /**
   * Parses from `at` to the end of the buffer, the end of the request or an error; returns that position. Body bytes
   * are moved within `buffer`.
   */
  push(buffer: Buffer, at: number): number {
    while (at < buffer.length && this.#state !== 'body' && !this.#problem)
      if (this.#state === 'head') at = this.#head(buffer, at)
      else at = this.#blankLine(buffer, at)
    return this.#state === 'body' && !this.#problem ? this.#readBody(buffer, at) : at
  }

  /** RFC 9112, section 2.2: empty lines before a request are ignored, up to a limit. */
  #blankLine(buffer: Buffer, at: number): number {
    if (this.#state === 'blank') {
      if (buffer[at] !== LF || ++this.#blanks > MAX_BLANKS) this.#problem = 'not_http'
      this.#state = 'start'
      return at + 1
    }
    this.#state = buffer[at] === CR ? 'blank' : 'head'
    return this.#state === 'blank' ? at + 1 : at
  }

  #readBody(buffer: Buffer, at: number): number {
    const body = this.#body
    const next = body.read(buffer, at, buffer.length)
    if (body.problem) this.#problem = BODY_PROBLEMS[body.problem]
    else {
      const payload = body.payloadIn(buffer)
      if (payload) this.#sink.bytes(payload)
      if (body.done) this.#sink.end()
    }
    return next
  }

  /** Reads the header block from `at`; returns where the next bytes begin. */
  #head(buffer: Buffer, at: number): number {
    const before = this.#partial.length
    const text = headerBlock(this.#partial, buffer, at, this.#maxHead)
    const isWhole = text.endsWith(BLANK_LINE)
    // Wrong line ends are refused at once, not after the limit of the header block.
    INVALID.lastIndex = Math.max(0, before - 1)
    if ((isWhole ? !VALID.test(text) : INVALID.test(text)) || !BEGINS.test(text)) this.#problem = 'not_http'
    else if (text.length > this.#maxHead) this.#problem = 'long_head'
    else if (!isWhole) this.#partial = text
    else {
      this.#partial = ''
      this.#begin(text)
    }
    return at + text.length - before
  }

  #begin(text: string): void {
    const first = text.indexOf('\r')
    const line = requestLine(text.slice(0, first))
    const fields = line && this.#fields(text, first + 2, text.length - 2)
    const modern = line?.version === '1.1'
    const length = fields && bodyLengthOf(fields.headers, modern)
    if (!line || !fields || length === null) {
      this.#problem = 'not_http'
      return
    }
    const { method, target, version } = line
    const { headers, hosts, lines } = fields
    // Begun before `head` is called: the sink reads `done`.
    this.#body.begin(length ?? 0)
    this.#state = 'body'
    const connection = headers('connection')
    const expect = modern ? headers('expect') : undefined
    this.#sink.head({
      method,
      target,
      version,
      headers,
      hosts,
      lines,
      expects: expect === undefined ? 'nothing' : expect.toLowerCase() === '100-continue' ? 'continue' : 'other',
      keeps: connection === undefined ? modern : !CLOSE.test(connection) && (modern || KEEP.test(connection)),
      upgrade:
        modern && this.#body.done && connection !== undefined && UPGRADE.test(connection)
          ? headers('upgrade')
          : undefined,
    })
  }

  /** The header lines from `at` to `end`, each with its CR LF; null: a malformed line or a repeated length. */
  #fields(text: string, at: number, end: number): HeaderFields | null {
    const shape = this.#shape
    const ends = shape && endsIn(text, at, end, shape)
    if (shape && ends) return fieldsOf(text, at, shape, ends)
    const fields = fieldsIn(text, at, end)
    if (fields?.shape) this.#shape = fields.shape
    return fields
  }
}

/** The methods of RFC 9110, RFC 5789 and the QUERY draft, without CONNECT: there are no tunnels. */
const REQUEST =
  /^(GET|POST|HEAD|OPTIONS|DELETE|PUT|PATCH|TRACE|QUERY) (\/[\x21-\x7e]*|\*|[A-Za-z]+:\/\/[A-Za-z0-9.:-]+(?:\/[\x21-\x7e]*)?) HTTP\/(1\.[01])$/
/** A text that may be the beginning of a request line. */
const BEGINS = /^[A-Z]{1,7}(?:$| )/
/** Invalid anywhere in a header block: control characters, and line ends other than CR LF. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern finds them
const INVALID = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r[^\n]|(?<!\r)\n/g
/** A complete header block without `INVALID`; half the time of the other test. */
const VALID = /^(?:[\t\x20-\x7e\x80-\xff]*\r\n)+$/
const CLOSE = /(?:^|,)[ \t]*close[ \t]*(?:,|$)/i
const KEEP = /(?:^|,)[ \t]*keep-alive[ \t]*(?:,|$)/i
const UPGRADE = /(?:^|,)[ \t]*upgrade[ \t]*(?:,|$)/i
const CHUNK_RULES = {
  /** Extensions are validated (RFC 9112, section 7.1.1), but not read. */
  sizeLine:
    /^([0-9a-fA-F]{1,8})(?:;[!#$%&'*+\-.^_`|~0-9A-Za-z]+(?:=(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+|"[\t !\x23-\x5b\x5d-\x7e]*"))?)*\r\n$/,
  /** Trailers that another parser could read as framing are refused. */
  trailer: /^(?!(?:content-length|transfer-encoding|host):)[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*\r\n$/i,
}

const BODY_PROBLEMS: Readonly<Record<BodyProblem, RequestProblem>> = {
  'size-line': 'not_http',
  'long-size-line': 'long_extension',
  'chunk-end': 'not_http',
  trailer: 'not_http',
  'long-trailers': 'long_head',
}

type HeaderFields = {
  readonly headers: HeaderLookup
  readonly hosts: readonly string[]
  readonly lines: number
  readonly shape?: HeaderShape | undefined
}

/** The header names of a block in their order, the same for all requests of a client. Values are read on demand. */
type HeaderShape = {
  /** The names as written, each with its colon. */
  readonly starts: readonly string[]
  /** The index of each name in lower case; names are unique. */
  readonly places: ReadonlyMap<string, number>
}

/** Where each line ends in a block of this shape; null: the block has another shape. */
const endsIn = (text: string, at: number, end: number, { starts }: HeaderShape): number[] | null => {
  const ends: number[] = []
  for (const start of starts) {
    if (!text.startsWith(start, at)) return null
    const next = text.indexOf('\r', at)
    ends.push(next)
    at = next + 2
  }
  return at === end ? ends : null
}

const fieldsOf = (
  text: string,
  from: number,
  { starts, places }: HeaderShape,
  ends: readonly number[],
): HeaderFields => {
  const headers: HeaderLookup = (name) => {
    const place = places.get(name)
    if (place === undefined) return undefined
    const begin = place === 0 ? from : (ends[place - 1] ?? 0) + 2
    return valueIn(text, begin + (starts[place]?.length ?? 0), ends[place] ?? 0)
  }
  const host = headers('host')
  return { headers, hosts: host === undefined ? [] : [host], lines: starts.length }
}

/** Parses a block of any shape. */
const fieldsIn = (text: string, at: number, end: number): HeaderFields | null => {
  const values = new Map<string, string>()
  const hosts: string[] = []
  const written: string[] = []
  while (at < end) {
    const next = text.indexOf('\r', at)
    const colon = text.indexOf(':', at)
    // A folded line, or a line without a colon.
    if (colon === -1 || colon > next) return null
    const as = text.slice(at, colon)
    const name = nameOf(as)
    if (name === undefined) return null
    written.push(as)
    const value = valueIn(text, colon + 1, next)
    if (name === 'host') hosts.push(value)
    const known = values.get(name)
    if (known === undefined) values.set(name, value)
    else if (name === 'content-length' || name === 'transfer-encoding') return null
    else if (!SINGLE.has(name)) values.set(name, `${known}${name === 'cookie' ? '; ' : ', '}${value}`)
    at = next + 2
  }
  const shape = values.size === written.length ? shapeOf(written, [...values.keys()]) : undefined
  return { headers: (name) => values.get(name), hosts, lines: written.length, shape }
}

/** Shared by all connections. */
const shapes = new Map<string, HeaderShape>()
const MAX_SHAPES = 256
const LONGEST_SHAPE = 1_024

const shapeOf = (written: readonly string[], names: readonly string[]): HeaderShape | undefined => {
  const key = written.join(':')
  const known = shapes.get(key)
  if (known || key.length > LONGEST_SHAPE) return known
  const shape = {
    starts: written.map((name) => `${copied(name)}:`),
    places: new Map(names.map((name, place) => [copied(name), place])),
  }
  // Arbitrary names empty the table; the shapes of other clients return with their next request.
  if (shapes.size >= MAX_SHAPES) shapes.clear()
  shapes.set(copied(key), shape)
  return shape
}

/** Parsed request lines; cached where the target has no query. */
type RequestLine = Pick<IncomingHead, 'method' | 'target' | 'version'>
const requestLines = new Map<string, RequestLine>()
const MAX_REQUEST_LINES = 256
const LONGEST_REQUEST_LINE = 128

const requestLine = (written: string): RequestLine | null => {
  const known = requestLines.get(written)
  if (known) return known
  const found = REQUEST.exec(written)
  if (!found) return null
  const [, method = '', target = '', version = ''] = found
  const line = { method, target, version }
  // Queries may contain secrets, and are rarely repeated.
  if (written.length <= LONGEST_REQUEST_LINE && !target.includes('?')) {
    if (requestLines.size >= MAX_REQUEST_LINES) requestLines.clear()
    requestLines.set(copied(written), { method: copied(method), target: copied(target), version: copied(version) })
  }
  return line
}

/** Headers that are not lists: the first line counts, as with `node:http`. */
const SINGLE = new Set(
  'age authorization content-type etag expires from host if-modified-since if-unmodified-since last-modified location max-forwards proxy-authorization referer retry-after server user-agent'.split(
    ' ',
  ),
)

/** Names in lower case by the name as written; each is validated once. */
const names = new Map<string, string>()
const MAX_NAMES = 256
const LONGEST_NAME = 40

const nameOf = (written: string): string | undefined => {
  const known = names.get(written)
  if (known !== undefined) return known
  if (!NAME.test(written)) return undefined
  const name = written.toLowerCase()
  if (names.size < MAX_NAMES && written.length <= LONGEST_NAME) names.set(copied(written), copied(name))
  return name
}
