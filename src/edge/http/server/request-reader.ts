/**
 * Reads HTTP/1.1 requests strictly (RFC 9112): whatever two readers could understand differently is refused. Bytes in,
 * calls out; it knows no socket. One request at a time: it stops behind each, and what follows is given to it again.
 */
import type { HeaderLookup } from '../../../core/headers.ts'
import { copied, LENGTH, NAME, valueIn } from '../../net/header-line.ts'
import type { HttpExchange, Problem, RequestHead } from './http-server.ts'

/** A head, and what it means for the connection. */
export type ReadHead = RequestHead & {
  readonly expects: HttpExchange['expects']
  /** Another request may follow on the connection. */
  readonly keeps: boolean
  /** The protocol it asks to change to. */
  readonly upgrade: string | undefined
}

export type RequestSink = {
  head(head: ReadHead): void
  /** The parts of one read together, in the buffer that was given. */
  bytes(part: Buffer): void
  /** The request is complete. */
  end(): void
}

/** Empty lines before a request; bytes of the line that begins a chunk, extensions included, and of all trailers. */
const MOST = { blanks: 4, line: 1024, trailers: 16 * 1024 }

const CR = 13
const LF = 10
const END = Buffer.from('\r\n\r\n')

/** Where in a request the reader is. `start`: nothing has come. `data`: in a body of a stated length or in a chunk, whose rest is `left`. */
type At = 'start' | 'blank' | 'head' | 'data' | 'chunk-size' | 'chunk-end' | 'trailer' | 'done'

export class RequestReader {
  readonly #sink: RequestSink
  readonly #mostHead: number
  #at: At = 'start'
  #chunked = false
  #left = 0
  /** What has come of a head, a chunk's first line or a trailer. */
  #held = ''
  #trailed = 0
  #blanks = 0
  #problem: Problem | null = null
  /** Of the last head. */
  #shape: Shape | null = null

  /** `mostHead`: bytes of a head. */
  constructor(sink: RequestSink, mostHead: number) {
    this.#sink = sink
    this.#mostHead = mostHead
  }

  /** A byte of a request has come. */
  get begun(): boolean {
    return this.#at !== 'start'
  }

  /** The request is complete, and nothing more is read before `again`. */
  get done(): boolean {
    return this.#at === 'done'
  }

  /** Why it reads no further, ever. */
  get problem(): Problem | null {
    return this.#problem
  }

  /** Ready for the next request. */
  again(): void {
    this.#at = 'start'
    this.#chunked = false
    this.#left = 0
    this.#held = ''
    this.#trailed = 0
    this.#blanks = 0
  }

  /** Reads on from `at`, and answers how far: to the end of the buffer, of the request, or to a fault. `buffer` is used to work in. */
  push(buffer: Buffer, at: number): number {
    /** Payload found in this read lies together from `from` to `to`. */
    let from = 0
    let to = 0
    while (at < buffer.length && this.#at !== 'done' && !this.#problem)
      switch (this.#at) {
        case 'start': {
          // RFC 9112, section 2.2: empty lines before a request are ignored; a few are.
          if (buffer[at] === CR) {
            at++
            this.#at = 'blank'
          } else this.#at = 'head'
          break
        }
        case 'blank': {
          if (buffer[at++] !== LF || ++this.#blanks > MOST.blanks) this.#problem = 'not_http'
          this.#at = 'start'
          break
        }
        case 'head':
          at = this.#head(buffer, at)
          break
        case 'data': {
          const end = Math.min(buffer.length, at + this.#left)
          if (to === from) {
            from = at
            to = end
          } else {
            buffer.copyWithin(to, at, end)
            to += end - at
          }
          this.#left -= end - at
          at = end
          if (this.#left === 0) this.#at = this.#chunked ? 'chunk-end' : 'done'
          break
        }
        case 'chunk-size': {
          const end = buffer.indexOf(LF, at)
          const next = end === -1 ? buffer.length : end + 1
          const line = this.#held + buffer.toString('latin1', at, Math.min(next, at + MOST.line + 1))
          at = next
          if (line.length > MOST.line) this.#problem = 'long_extension'
          else if (end === -1) this.#held = line
          else {
            this.#held = ''
            const size = CHUNK.exec(line)?.[1]
            if (size === undefined) this.#problem = 'not_http'
            this.#left = Number.parseInt(size ?? '0', 16)
            this.#at = this.#left === 0 ? 'trailer' : 'data'
          }
          break
        }
        case 'chunk-end': {
          // `left` counts down from 0: first CR, then LF.
          if (buffer[at] !== (this.#left === 0 ? CR : LF)) this.#problem = 'not_http'
          at++
          this.#left--
          if (this.#left === -2) this.#at = 'chunk-size'
          break
        }
        case 'trailer': {
          const end = buffer.indexOf(LF, at)
          const next = end === -1 ? buffer.length : end + 1
          this.#trailed += next - at
          if (this.#trailed > MOST.trailers) this.#problem = 'long_head'
          else {
            const line = this.#held + buffer.toString('latin1', at, next)
            this.#held = end === -1 ? line : ''
            if (line === '\r\n') this.#at = 'done'
            else if (end !== -1 && !TRAILER.test(line)) this.#problem = 'not_http'
          }
          at = next
          break
        }
        default:
          throw new Error(`unknown place ${JSON.stringify(this.#at satisfies never)}`)
      }
    // What came before a fault is not worth anything without the rest.
    if (this.#problem) return at
    if (to > from) this.#sink.bytes(buffer.subarray(from, to))
    if (this.#at === 'done') this.#sink.end()
    return at
  }

  /** Reads on in the head from `at`; answers where in the buffer what follows it begins. */
  #head(buffer: Buffer, at: number): number {
    const before = this.#held.length
    const most = Math.min(buffer.length, at + this.#mostHead + 1 - before)
    // A head that comes at once is looked for among the bytes, so that no more of them than it has are made a text.
    const whole = before === 0 ? buffer.indexOf(END, at) : -1
    const come = this.#held + buffer.toString('latin1', at, whole === -1 ? most : whole + END.length)
    const end = whole === -1 ? come.indexOf('\r\n\r\n', Math.max(0, before - 3)) : whole - at
    const text = end === -1 ? come : come.slice(0, end + END.length)
    // A line that ends otherwise would be waited for until the head is too long.
    AMISS.lastIndex = Math.max(0, before - 1)
    if ((end === -1 ? AMISS.test(text) : !WHOLE.test(text)) || !BEGINS.test(text)) {
      this.#problem = 'not_http'
      return most
    }
    if (text.length > this.#mostHead) {
      this.#problem = 'long_head'
      return most
    }
    if (end === -1) {
      this.#held = text
      return most
    }
    this.#held = ''
    this.#begin(text, end)
    return at + end + END.length - before
  }

  #begin(text: string, end: number): void {
    const first = text.indexOf('\r')
    const line = requestLine(text.slice(0, first))
    const fields = line && this.#fields(text, first + 2, end + 2)
    if (!line || !fields) {
      this.#problem = 'not_http'
      return
    }
    const { method, target, version } = line
    const { headers, hosts, lines } = fields
    const length = headers('content-length')
    const coding = headers('transfer-encoding')
    const modern = version === '1.1'
    if (
      (length !== undefined && (coding !== undefined || !LENGTH.test(length))) ||
      (coding !== undefined && (coding.toLowerCase() !== 'chunked' || !modern))
    ) {
      this.#problem = 'not_http'
      return
    }
    this.#chunked = coding !== undefined
    this.#left = Number(length ?? 0)
    // Known before it is told: who is told asks whether all has come.
    this.#at = this.#chunked ? 'chunk-size' : this.#left === 0 ? 'done' : 'data'
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
        modern && this.#at === 'done' && connection !== undefined && UPGRADE.test(connection)
          ? headers('upgrade')
          : undefined,
    })
  }

  /** The header lines from `at` to `end`, each with its CR LF; null: one is none, or a length is said twice. */
  #fields(text: string, at: number, end: number): Fields | null {
    const shape = this.#shape
    const ends = shape && endsIn(text, at, end, shape)
    if (shape && ends) return fieldsOf(text, at, shape, ends)
    const fields = fieldsIn(text, at, end)
    if (fields?.shape) this.#shape = fields.shape
    return fields
  }
}

/** What RFC 9110, 5789 and the draft of QUERY define, without CONNECT: nobody gets a tunnel here. */
const REQUEST =
  /^(GET|POST|HEAD|OPTIONS|DELETE|PUT|PATCH|TRACE|QUERY) (\/[\x21-\x7e]*|\*|[A-Za-z]+:\/\/[A-Za-z0-9.:-]+(?:\/[\x21-\x7e]*)?) HTTP\/(1\.[01])$/
/** What has come so far can still become one. */
const BEGINS = /^[A-Z]{1,7}(?:$| )/
/** What a head may not have anywhere: control characters, and ends of lines that are not CR LF. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
const AMISS = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r[^\n]|(?<!\r)\n/g
/** A head without any of that. The same of one that is all there, in half the time. */
const WHOLE = /^(?:[\t\x20-\x7e\x80-\xff]*\r\n)+$/
const CLOSE = /(?:^|,)[ \t]*close[ \t]*(?:,|$)/i
const KEEP = /(?:^|,)[ \t]*keep-alive[ \t]*(?:,|$)/i
const UPGRADE = /(?:^|,)[ \t]*upgrade[ \t]*(?:,|$)/i
/** A size of up to eight hexadecimal digits, and extensions (RFC 9112, section 7.1.1), which are not read. */
const CHUNK =
  /^([0-9a-fA-F]{1,8})(?:;[!#$%&'*+\-.^_`|~0-9A-Za-z]+(?:=(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+|"[\t !\x23-\x5b\x5d-\x7e]*"))?)*\r\n$/
/** What might be taken for the framing of another request is none. */
const TRAILER =
  /^(?!(?:content-length|transfer-encoding|host):)[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*\r\n$/i

type Fields = {
  readonly headers: HeaderLookup
  readonly hosts: readonly string[]
  readonly lines: number
  readonly shape?: Shape | undefined
}

/**
 * The names of a head's lines in their order, which all heads of a client have in common. What they said is not kept: it
 * is read where it is asked for.
 */
type Shape = {
  /** As they were written, each with its colon. */
  readonly starts: readonly string[]
  /** Where each is, in lower case; none comes twice. */
  readonly places: ReadonlyMap<string, number>
}

/** Where each line ends in a head of this shape; null: it has another. */
const endsIn = (text: string, at: number, end: number, { starts }: Shape): number[] | null => {
  const ends: number[] = []
  for (const start of starts) {
    if (!text.startsWith(start, at)) return null
    const next = text.indexOf('\r', at)
    ends.push(next)
    at = next + 2
  }
  return at === end ? ends : null
}

const fieldsOf = (text: string, from: number, { starts, places }: Shape, ends: readonly number[]): Fields => {
  const headers: HeaderLookup = (name) => {
    const place = places.get(name)
    if (place === undefined) return undefined
    const begin = place === 0 ? from : (ends[place - 1] ?? 0) + 2
    return valueIn(text, begin + (starts[place]?.length ?? 0), ends[place] ?? 0)
  }
  const host = headers('host')
  return { headers, hosts: host === undefined ? [] : [host], lines: starts.length }
}

/** The same of any head. */
const fieldsIn = (text: string, at: number, end: number): Fields | null => {
  const values = new Map<string, string>()
  const hosts: string[] = []
  const written: string[] = []
  while (at < end) {
    const next = text.indexOf('\r', at)
    const colon = text.indexOf(':', at)
    // A folded line, a blank before the colon.
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

/** Shared by all connections whose heads have it. */
const shapes = new Map<string, Shape>()
const MOST_SHAPES = 256
const LONGEST_SHAPE = 1_024

const shapeOf = (written: readonly string[], names: readonly string[]): Shape | undefined => {
  const key = written.join(':')
  const known = shapes.get(key)
  if (known || key.length > LONGEST_SHAPE) return known
  const shape = {
    starts: written.map((name) => `${copied(name)}:`),
    places: new Map(names.map((name, place) => [copied(name), place])),
  }
  // Who fills it with nonsense has it emptied, and the others are known again with their next request.
  if (shapes.size >= MOST_SHAPES) shapes.clear()
  shapes.set(copied(key), shape)
  return shape
}

/** The first line of a head, looked at once where it says no more than a path. */
type RequestLine = Pick<RequestHead, 'method' | 'target' | 'version'>
const requestLines = new Map<string, RequestLine>()
const MOST_REQUEST_LINES = 256
const LONGEST_REQUEST_LINE = 128

const requestLine = (written: string): RequestLine | null => {
  const known = requestLines.get(written)
  if (known) return known
  const found = REQUEST.exec(written)
  if (!found) return null
  const [, method = '', target = '', version = ''] = found
  const line = { method, target, version }
  // What stands in a query may be meant for nobody else.
  if (written.length <= LONGEST_REQUEST_LINE && !target.includes('?')) {
    if (requestLines.size >= MOST_REQUEST_LINES) requestLines.clear()
    requestLines.set(copied(written), { method: copied(method), target: copied(target), version: copied(version) })
  }
  return line
}

/** Of these the first line counts, as with `node:http`: they are no lists. */
const SINGLE = new Set(
  'age authorization content-type etag expires from host if-modified-since if-unmodified-since last-modified location max-forwards proxy-authorization referer retry-after server user-agent'.split(
    ' ',
  ),
)

/** Clients send the same few names over and over: each is looked at and made small once. */
const names = new Map<string, string>()
const MOST_NAMES = 256
const LONGEST_NAME = 40

const nameOf = (written: string): string | undefined => {
  const known = names.get(written)
  if (known !== undefined) return known
  if (!NAME.test(written)) return undefined
  const name = written.toLowerCase()
  if (names.size < MOST_NAMES && written.length <= LONGEST_NAME) names.set(copied(written), copied(name))
  return name
}
