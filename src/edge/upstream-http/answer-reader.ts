/**
 * A strict parser for HTTP/1.1 responses (RFC 9112): ambiguous input is rejected. It takes bytes, calls a sink and uses no
 * socket. It works in place: the payloads of all chunks of one read are joined in the caller's buffer and emitted in one
 * call, so that one upstream read becomes one downstream write.
 */
import type { HeaderLookup } from '../../core/headers.ts'
import { LENGTH } from '../net/header-line.ts'
import { answerHead, CONTROL, emptyHeadCache, fieldOf, type HeadCache } from './heads.ts'

/** Receives one parsed response. */
export type AnswerSink = {
  head(status: number, headers: HeaderLookup): void
  /** The chunk is valid during the call only. Returning false requests a pause. */
  bytes(chunk: Uint8Array): boolean
}

/** `more`: incomplete. `full`: incomplete, and the sink requests a pause. `done`: complete. */
export type Progress = 'more' | 'full' | 'done' | AnswerProblem

/**
 * Why a response cannot be read. `not_http`: invalid or ambiguous. `too_long`: a header block or trailers above 16 KiB.
 * `cut`: the connection ended early.
 */
export type AnswerProblem = { readonly problem: 'not_http' | 'too_long' | 'cut'; readonly why: string }

/** Maximum bytes of a header block and of the trailers, and of a chunk's size line with its extensions. */
const LIMITS = { head: 16 * 1024, line: 1024 }

/** Maximum interim (1xx) responses before the final one. */
export const MAX_INTERIM = 8

/** The end of a header block. */
const BLANK_LINE = Buffer.from('\r\n\r\n')

const CR = 13
const LF = 10

/** The parser's state. `data`: in a body of stated length or in a chunk, with `left` bytes to come. */
type ReaderState = 'head' | 'data' | 'chunk-size' | 'chunk-end' | 'trailer' | 'until-close' | 'done'

/** Parses the responses of one connection, one after the other. */
export class HttpAnswerReader {
  #state: ReaderState = 'head'
  #chunked = false
  #left = 0
  /** The incomplete header block, chunk size line or trailer line. */
  #buffered = ''
  #trailerBytes = 0
  #interim = 0
  #reusable = true
  #idleTimeout: number | undefined
  #sink: AnswerSink
  readonly #heads: HeadCache

  constructor(sink: AnswerSink, heads: HeadCache = emptyHeadCache()) {
    this.#sink = sink
    this.#heads = heads
  }

  /** Prepares for the next response of the same connection. */
  reset(sink: AnswerSink): void {
    this.#sink = sink
    this.#state = 'head'
    this.#chunked = false
    this.#left = 0
    this.#buffered = ''
    this.#trailerBytes = 0
    this.#interim = 0
    this.#reusable = true
    this.#idleTimeout = undefined
  }

  /** Whether a byte of a response has been received. */
  get begun(): boolean {
    return this.#state !== 'head' || this.#buffered !== '' || this.#interim > 0
  }

  /** Whether the header block of the final response has been received. */
  get answering(): boolean {
    return this.#state !== 'head'
  }

  /** Whether the connection can be used for another call. */
  get reusable(): boolean {
    return this.#reusable
  }

  /** Seconds the server keeps an idle connection (`keep-alive: timeout=`), if stated. */
  get idleTimeout(): number | undefined {
    return this.#idleTimeout
  }

  /** `push` for the first `length` bytes, with a fast path for a read that is exactly one chunk: nearly every read of a stream. */
  read(buffer: Buffer, length: number): Progress {
    if (this.#state !== 'chunk-size') return this.push(buffer.subarray(0, length))
    // This may read beyond `length`; the check of the sum below then fails.
    const from = this.#plainSize(buffer, 0)
    const to = from + this.#left
    const isOneChunk = from > 0 && to > from && to + 2 === length && buffer[to] === CR && buffer[to + 1] === LF
    this.#state = 'chunk-size'
    if (!isOneChunk) return this.push(buffer.subarray(0, length))
    return this.#sink.bytes(buffer.subarray(from, to)) ? 'more' : 'full'
  }

  /** Parses the next bytes. Overwrites the content of `buffer`. */
  push(buffer: Buffer): Progress {
    let at = 0
    /** The payload of this read is joined in `buffer` from `from` to `to`. */
    let from = 0
    let to = 0
    let problem: AnswerProblem | null = null
    while (at < buffer.length && !problem)
      switch (this.#state) {
        case 'head': {
          const next = this.#head(buffer, at)
          if (typeof next === 'number') at = next
          else problem = next
          break
        }
        case 'until-close':
        case 'data': {
          const end = this.#state === 'data' ? Math.min(buffer.length, at + this.#left) : buffer.length
          if (to === from) {
            from = at
            to = end
          } else {
            buffer.copyWithin(to, at, end)
            to += end - at
          }
          this.#left -= end - at
          at = end
          if (this.#state === 'data' && this.#left === 0) this.#state = this.#chunked ? 'chunk-end' : 'done'
          break
        }
        case 'chunk-size': {
          const plain = this.#plainSize(buffer, at)
          if (plain !== 0) {
            at = plain
            break
          }
          const end = buffer.indexOf(LF, at)
          const line = this.#buffered + buffer.toString('latin1', at, end === -1 ? buffer.length : end + 1)
          if (line.length > LIMITS.line) problem = invalid('a chunk size line is longer than 1 KiB')
          at = end === -1 ? buffer.length : end + 1
          if (end === -1) {
            this.#buffered = line
            break
          }
          this.#buffered = ''
          const size = CHUNK_LINE.exec(line)?.[1]
          if (size === undefined) problem = invalid('a chunk size is not valid')
          this.#left = Number.parseInt(size ?? '0', 16)
          this.#state = this.#left === 0 ? 'trailer' : 'data'
          break
        }
        case 'chunk-end': {
          if (this.#left === 0 && buffer[at] === CR && buffer[at + 1] === LF) {
            at += 2
            this.#state = 'chunk-size'
            break
          }
          // `left` counts down from 0: CR, then LF.
          if (buffer[at] !== (this.#left === 0 ? CR : LF)) problem = invalid('a chunk is longer than its size')
          at++
          this.#left--
          if (this.#left === -2) this.#state = 'chunk-size'
          break
        }
        case 'trailer': {
          const end = buffer.indexOf(LF, at)
          const line = this.#buffered + buffer.toString('latin1', at, end === -1 ? buffer.length : end + 1)
          this.#trailerBytes += (end === -1 ? buffer.length : end + 1) - at
          if (this.#trailerBytes > LIMITS.head) problem = tooLong
          at = end === -1 ? buffer.length : end + 1
          this.#buffered = end === -1 ? line : ''
          if (end === -1) break
          if (line === '\r\n') this.#state = 'done'
          else if (!line.endsWith('\r\n') || !fieldOf(line.slice(0, -2)))
            problem ??= invalid('a trailer field is not valid')
          break
        }
        case 'done': {
          // Bytes after the response belong to no request: the connection must not be reused.
          this.#reusable = false
          at = buffer.length
          break
        }
        default:
          throw new Error(`Unknown reader state ${JSON.stringify(this.#state satisfies never)}`)
      }
    // Payload before a problem is valid.
    const accepts = to === from || this.#sink.bytes(buffer.subarray(from, to))
    if (problem) return problem
    return this.#state === 'done' ? 'done' : accepts ? 'more' : 'full'
  }

  /** Fast path for a complete size line without extensions: its end, or 0 if it is anything else. Creates no string. */
  #plainSize(buffer: Buffer, at: number): number {
    if (this.#buffered !== '') return 0
    let size = 0
    let end = at
    for (let digit = digitOf(buffer[end]); digit !== -1; digit = digitOf(buffer[end])) {
      size = size * 16 + digit
      end++
    }
    // The same limit of digits as `CHUNK_LINE`.
    if (end === at || end - at > 8 || buffer[end] !== CR || buffer[end + 1] !== LF) return 0
    this.#left = size
    this.#state = size === 0 ? 'trailer' : 'data'
    return end + 2
  }

  /** Reports the end of the connection: a problem if the response is incomplete, else null. */
  end(): AnswerProblem | null {
    this.#reusable = false
    if (this.#state === 'until-close' || this.#state === 'done') {
      this.#state = 'done'
      return null
    }
    return { problem: 'cut', why: this.answering ? 'before the end of the response' : 'before a response' }
  }

  /** Parses the header block from `at`. Returns the position after the bytes it has used. */
  #head(buffer: Buffer, at: number): number | AnswerProblem {
    const before = this.#buffered.length
    const blank = before === 0 ? buffer.indexOf(BLANK_LINE, at) : -1
    const most = Math.min(blank === -1 ? buffer.length : blank + BLANK_LINE.length, at + LIMITS.head + 1 - before)
    const text = this.#buffered + buffer.toString('latin1', at, most)
    const end = text.indexOf('\r\n\r\n', Math.max(0, before - 3))
    if (end === -1) {
      if (!'HTTP/1.'.startsWith(text.slice(0, 7))) return invalid('it does not begin with HTTP/1')
      // Otherwise the reader would wait for a CR LF until the block is too long.
      if (BARE_LINE_END.test(text)) return invalid('a header line does not end with CR LF')
      if (text.length > LIMITS.head) return tooLong
      this.#buffered = text
      return most
    }
    this.#buffered = ''
    const problem = this.#beginAnswer(text, end)
    return problem ?? at + end + 4 - before
  }

  /** Applies a complete header block. `end`: the position of its final CR LF CR LF. */
  #beginAnswer(text: string, end: number): AnswerProblem | null {
    const first = text.indexOf('\r\n')
    const line = STATUS_LINE.exec(text.slice(0, first))
    if (!line || CONTROL.test(line[0])) return invalid('its status line is not valid')
    const status = Number(line[2])
    const head = answerHead(this.#heads, text, first + 2, end + 2)
    if (typeof head === 'string') return invalid(head)
    const { values, places } = head
    const headers = (name: string) => {
      const place = places.get(name)
      return place === undefined ? undefined : values[place]
    }
    headers.names = places
    if (status === 101) return invalid('it switches protocols (status 101)')
    if (status < 200)
      return ++this.#interim > MAX_INTERIM ? invalid(`it sends more than ${MAX_INTERIM} interim responses`) : null
    const length = headers('content-length')
    const coding = headers('transfer-encoding')
    if (length !== undefined && (coding !== undefined || !LENGTH.test(length)))
      return invalid('its content-length is not valid')
    if (coding !== undefined && (coding.toLowerCase() !== 'chunked' || line[1] === '0'))
      return invalid('its transfer-encoding is not chunked')
    this.#readPersistence(line[1] === '1', headers)
    if (status === 204 || status === 304) this.#state = 'done'
    else if (coding !== undefined) {
      this.#chunked = true
      this.#state = 'chunk-size'
    } else if (length === undefined) {
      this.#reusable = false
      this.#state = 'until-close'
    } else {
      this.#left = Number(length)
      this.#state = this.#left === 0 ? 'done' : 'data'
    }
    this.#sink.head(status, headers)
    return null
  }

  #readPersistence(isHttp11: boolean, headers: HeaderLookup): void {
    const connection = headers('connection')
    this.#reusable = isHttp11 && (connection === undefined || !/\bclose\b/i.test(connection))
    const keepAlive = headers('keep-alive')
    const seconds = keepAlive === undefined ? undefined : /\btimeout=(\d{1,6})/i.exec(keepAlive)?.[1]
    this.#idleTimeout = seconds === undefined ? undefined : Number(seconds)
  }
}

/** The value of a hexadecimal digit; -1 for any other byte. */
const digitOf = (byte: number | undefined): number => {
  if (byte === undefined || byte < 48) return -1
  if (byte <= 57) return byte - 48
  const letter = byte | 32
  return letter >= 97 && letter <= 102 ? letter - 87 : -1
}

const STATUS_LINE = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: .*)?$/
/** A chunk size of up to eight hexadecimal digits; extensions are ignored. */
const CHUNK_LINE = /^([0-9a-fA-F]{1,8})[ \t]*(?:;[^\r\n]*)?\r\n$/
const BARE_LINE_END = /(?:^|[^\r])\n|\r[^\n]/

const invalid = (why: string): AnswerProblem => ({ problem: 'not_http', why })
const tooLong: AnswerProblem = { problem: 'too_long', why: 'its header block is larger than 16 KiB' }
