/**
 * Reads HTTP/1.1 answers strictly (RFC 9112): whatever two readers could understand differently is refused. Bytes in,
 * calls out; it knows no socket. It works in the buffer it is given: the payloads of all chunks of one read are moved
 * together in it and told at once, so that one read upstream is one write downstream.
 */
import type { HeaderLookup } from '../../core/headers.ts'
import { LENGTH } from '../net/header-line.ts'
import { answerHead, CONTROL, fieldOf, type Heads, noHeads } from './heads.ts'

export type AnswerSink = {
  head(status: number, headers: HeaderLookup): void
  /** Valid during the call only. Answering false asks for a pause. */
  bytes(chunk: Uint8Array): boolean
}

/** `more`: the answer goes on. `full`: so it does, and the sink asks for a pause. `done`: it is complete. */
export type Progress = 'more' | 'full' | 'done' | AnswerProblem

/** `not_http`: not an answer, or one that can be understood in two ways. `too_long`: a head beyond 16 KiB. `cut`: the connection ended before the answer. */
export type AnswerProblem = { readonly problem: 'not_http' | 'too_long' | 'cut'; readonly why: string }

/** Bytes of a head, and of the trailers; the line that begins a chunk, extensions included. */
const MOST = { head: 16 * 1024, line: 1024 }

/** A server that keeps sending interim answers never gets to the real one. */
export const MOST_INTERIM = 8

/** The end of a head. */
const BLANK = Buffer.from('\r\n\r\n')

const CR = 13
const LF = 10

/** Where in an answer the reader is. `data`: in a body of a stated length or in a chunk, whose rest is `left`. */
type At = 'head' | 'data' | 'chunk-size' | 'chunk-end' | 'trailer' | 'until-close' | 'done'

export class AnswerReader {
  #at: At = 'head'
  #chunked = false
  #left = 0
  /** What has come of a head, a chunk's first line or the trailers. */
  #held = ''
  #trailed = 0
  #interim = 0
  /** The next answer may come on the same connection. */
  #keeps = true
  /** s the server keeps an idle connection, if it says. */
  #idle: number | undefined
  #sink: AnswerSink
  readonly #heads: Heads

  constructor(sink: AnswerSink, heads: Heads = noHeads()) {
    this.#sink = sink
    this.#heads = heads
  }

  /** Ready for the next answer of the same connection. */
  again(sink: AnswerSink): void {
    this.#sink = sink
    this.#at = 'head'
    this.#chunked = false
    this.#left = 0
    this.#held = ''
    this.#trailed = 0
    this.#interim = 0
    this.#keeps = true
    this.#idle = undefined
  }

  /** A byte of an answer has come. */
  get begun(): boolean {
    return this.#at !== 'head' || this.#held !== '' || this.#interim > 0
  }

  /** The head of the answer itself has come. */
  get answering(): boolean {
    return this.#at !== 'head'
  }

  get keeps(): boolean {
    return this.#keeps
  }

  get idle(): number | undefined {
    return this.#idle
  }

  /** `push` of the first `length` bytes. What a read of a stream nearly always is, one chunk and no more, is seen at once. */
  read(buffer: Buffer, length: number): Progress {
    if (this.#at !== 'chunk-size') return this.push(buffer.subarray(0, length))
    // It may read beyond `length`; then the sum is not right.
    const from = this.#plainSize(buffer, 0)
    const to = from + this.#left
    const isOne = from > 0 && to > from && to + 2 === length && buffer[to] === CR && buffer[to + 1] === LF
    this.#at = 'chunk-size'
    if (!isOne) return this.push(buffer.subarray(0, length))
    return this.#sink.bytes(buffer.subarray(from, to)) ? 'more' : 'full'
  }

  /** `buffer` is used to work in: its content is not what it was afterwards. */
  push(buffer: Buffer): Progress {
    let at = 0
    /** Payload found in this read lies together from `from` to `to`. */
    let from = 0
    let to = 0
    let problem: AnswerProblem | null = null
    while (at < buffer.length && !problem)
      switch (this.#at) {
        case 'head': {
          const next = this.#head(buffer, at)
          if (typeof next === 'number') at = next
          else problem = next
          break
        }
        case 'until-close':
        case 'data': {
          const end = this.#at === 'data' ? Math.min(buffer.length, at + this.#left) : buffer.length
          if (to === from) {
            from = at
            to = end
          } else {
            buffer.copyWithin(to, at, end)
            to += end - at
          }
          this.#left -= end - at
          at = end
          if (this.#at === 'data' && this.#left === 0) this.#at = this.#chunked ? 'chunk-end' : 'done'
          break
        }
        case 'chunk-size': {
          const plain = this.#plainSize(buffer, at)
          if (plain !== 0) {
            at = plain
            break
          }
          const end = buffer.indexOf(LF, at)
          const line = this.#held + buffer.toString('latin1', at, end === -1 ? buffer.length : end + 1)
          if (line.length > MOST.line) problem = unclear('the first line of a chunk is longer than anybody needs')
          at = end === -1 ? buffer.length : end + 1
          if (end === -1) {
            this.#held = line
            break
          }
          this.#held = ''
          const size = CHUNK.exec(line)?.[1]
          if (size === undefined) problem = unclear('a chunk has no readable size')
          this.#left = Number.parseInt(size ?? '0', 16)
          this.#at = this.#left === 0 ? 'trailer' : 'data'
          break
        }
        case 'chunk-end': {
          if (this.#left === 0 && buffer[at] === CR && buffer[at + 1] === LF) {
            at += 2
            this.#at = 'chunk-size'
            break
          }
          // `left` counts down from 0: first CR, then LF.
          if (buffer[at] !== (this.#left === 0 ? CR : LF)) problem = unclear('a chunk is not as long as it said')
          at++
          this.#left--
          if (this.#left === -2) this.#at = 'chunk-size'
          break
        }
        case 'trailer': {
          const end = buffer.indexOf(LF, at)
          const line = this.#held + buffer.toString('latin1', at, end === -1 ? buffer.length : end + 1)
          this.#trailed += (end === -1 ? buffer.length : end + 1) - at
          if (this.#trailed > MOST.head) problem = tooLong
          at = end === -1 ? buffer.length : end + 1
          this.#held = end === -1 ? line : ''
          if (end === -1) break
          if (line === '\r\n') this.#at = 'done'
          else if (!line.endsWith('\r\n') || !fieldOf(line.slice(0, -2)))
            problem ??= unclear('a trailer is not readable')
          break
        }
        case 'done': {
          // Whatever stands behind an answer is nobody's, and the connection is not to be trusted.
          this.#keeps = false
          at = buffer.length
          break
        }
        default:
          throw new Error(`unknown place ${JSON.stringify(this.#at satisfies never)}`)
      }
    // What came before a fault was good.
    const room = to === from || this.#sink.bytes(buffer.subarray(from, to))
    if (problem) return problem
    return this.#at === 'done' ? 'done' : room ? 'more' : 'full'
  }

  /** The first line of a chunk that is all there and says no more than a size: where it ends, or 0. No text is made of it. */
  #plainSize(buffer: Buffer, at: number): number {
    if (this.#held !== '') return 0
    let size = 0
    let end = at
    for (let digit = digitOf(buffer[end]); digit !== -1; digit = digitOf(buffer[end])) {
      size = size * 16 + digit
      end++
    }
    // As many digits as the slow reading takes.
    if (end === at || end - at > 8 || buffer[end] !== CR || buffer[end + 1] !== LF) return 0
    this.#left = size
    this.#at = size === 0 ? 'trailer' : 'data'
    return end + 2
  }

  /** The connection has ended: what is then missing, or null. */
  end(): AnswerProblem | null {
    this.#keeps = false
    if (this.#at === 'until-close' || this.#at === 'done') {
      this.#at = 'done'
      return null
    }
    return { problem: 'cut', why: this.answering ? 'in the middle of the answer' : 'without an answer' }
  }

  /** Reads on in the head from `at`; answers where in the buffer what follows it begins. */
  #head(buffer: Buffer, at: number): number | AnswerProblem {
    const before = this.#held.length
    const blank = before === 0 ? buffer.indexOf(BLANK, at) : -1
    const most = Math.min(blank === -1 ? buffer.length : blank + BLANK.length, at + MOST.head + 1 - before)
    const text = this.#held + buffer.toString('latin1', at, most)
    const end = text.indexOf('\r\n\r\n', Math.max(0, before - 3))
    if (end === -1) {
      if (!'HTTP/1.'.startsWith(text.slice(0, 7))) return unclear('it does not begin like one')
      // A line that ends otherwise would be waited for until the head is too long.
      if (BARE.test(text)) return unclear('a line of its head does not end as it should')
      if (text.length > MOST.head) return tooLong
      this.#held = text
      return most
    }
    this.#held = ''
    const problem = this.#begin(text, end)
    return problem ?? at + end + 4 - before
  }

  /** `end`: where the line that ends it begins its own CR LF. */
  #begin(text: string, end: number): AnswerProblem | null {
    const first = text.indexOf('\r\n')
    const line = STATUS.exec(text.slice(0, first))
    if (!line || CONTROL.test(line[0])) return unclear('its first line is not one')
    const status = Number(line[2])
    const head = answerHead(this.#heads, text, first + 2, end + 2)
    if (typeof head === 'string') return unclear(head)
    const { values, places } = head
    const headers = (name: string) => {
      const place = places.get(name)
      return place === undefined ? undefined : values[place]
    }
    headers.names = places
    if (status === 101) return unclear('it changes to another protocol')
    if (status < 200) return ++this.#interim > MOST_INTERIM ? unclear('only interim answers come') : null
    const length = headers('content-length')
    const coding = headers('transfer-encoding')
    if (length !== undefined && (coding !== undefined || !LENGTH.test(length)))
      return unclear('its length is not clear')
    if (coding !== undefined && (coding.toLowerCase() !== 'chunked' || line[1] === '0'))
      return unclear('its transfer coding is not one that is used')
    this.#persist(line[1] === '1', headers)
    if (status === 204 || status === 304) this.#at = 'done'
    else if (coding !== undefined) {
      this.#chunked = true
      this.#at = 'chunk-size'
    } else if (length === undefined) {
      this.#keeps = false
      this.#at = 'until-close'
    } else {
      this.#left = Number(length)
      this.#at = this.#left === 0 ? 'done' : 'data'
    }
    this.#sink.head(status, headers)
    return null
  }

  #persist(modern: boolean, headers: HeaderLookup): void {
    const connection = headers('connection')
    this.#keeps = modern && (connection === undefined || !/\bclose\b/i.test(connection))
    const kept = headers('keep-alive')
    const seconds = kept === undefined ? undefined : /\btimeout=(\d{1,6})/i.exec(kept)?.[1]
    this.#idle = seconds === undefined ? undefined : Number(seconds)
  }
}

/** Of a hexadecimal digit; -1: it is none. */
const digitOf = (byte: number | undefined): number => {
  if (byte === undefined || byte < 48) return -1
  if (byte <= 57) return byte - 48
  const letter = byte | 32
  return letter >= 97 && letter <= 102 ? letter - 87 : -1
}

const STATUS = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: .*)?$/
/** A size of up to eight hexadecimal digits; extensions are not read. */
const CHUNK = /^([0-9a-fA-F]{1,8})[ \t]*(?:;[^\r\n]*)?\r\n$/
const BARE = /(?:^|[^\r])\n|\r[^\n]/

const unclear = (why: string): AnswerProblem => ({ problem: 'not_http', why })
const tooLong: AnswerProblem = { problem: 'too_long', why: 'its head is larger than 16 KiB' }
