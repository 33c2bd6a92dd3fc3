/**
 * A strict parser for HTTP/1.1 responses (RFC 9112): ambiguous input is rejected. It takes bytes, calls a sink and uses no
 * socket. The payload of one read is emitted in one call, so that one upstream read becomes one downstream write.
 */
import type { HeaderLookup } from '../../core/headers.ts'
import { BodyParser, type BodyProblem, bodyLengthOf } from '../net/body-parser.ts'
import { BLANK_LINE, headerBlock } from '../net/header-line.ts'
import { answerHead, CONTROL, emptyHeadCache, type HeadCache } from './heads.ts'

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

/** Maximum bytes of a header block. */
const MAX_HEAD = 16 * 1024

/** Maximum interim (1xx) responses before the final one. */
export const MAX_INTERIM = 8

/** Parses the responses of one connection, one after the other. */
export class HttpAnswerReader {
  readonly #body = new BodyParser(CHUNK_RULES)
  /** The incomplete header block. */
  #partial = ''
  #answering = false
  #interim = 0
  #reusable = true
  /** The request has the method HEAD, so its response has no body. */
  #isHead = false
  #idleTimeout: number | undefined
  #sink: AnswerSink
  /** The request asks for another protocol. */
  #mayUpgrade = false
  readonly #heads: HeadCache

  constructor(sink: AnswerSink, heads: HeadCache = emptyHeadCache()) {
    this.#sink = sink
    this.#heads = heads
  }

  /** Prepares for the next response of the same connection. `mayUpgrade`: it may change protocols. `isHead`: it has no body. */
  reset(sink: AnswerSink, { mayUpgrade = false, isHead = false } = {}): void {
    this.#sink = sink
    this.#mayUpgrade = mayUpgrade
    this.#isHead = isHead
    this.#partial = ''
    this.#answering = false
    this.#interim = 0
    this.#reusable = true
    this.#idleTimeout = undefined
  }

  /** Whether a byte of a response has been received. */
  get begun(): boolean {
    return this.#answering || this.#partial !== '' || this.#interim > 0
  }

  /** Whether the header block of the final response has been received. */
  get answering(): boolean {
    return this.#answering
  }

  /** Whether the connection can be used for another call. */
  get reusable(): boolean {
    return this.#reusable
  }

  /** Seconds the server keeps an idle connection (`keep-alive: timeout=`), if stated. */
  get idleTimeout(): number | undefined {
    return this.#idleTimeout
  }

  /** Parses the first `length` bytes of `buffer`, whose content it overwrites. */
  read(buffer: Buffer, length = buffer.length): Progress {
    let at = 0
    while (!this.#answering) {
      if (at === length) return 'more'
      const next = this.#head(buffer.subarray(0, length), at)
      if (typeof next !== 'number') return next
      at = next
    }
    // Bytes after the response belong to no request: the connection must not be reused.
    if (this.#body.read(buffer, at, length) < length) this.#reusable = false
    const payload = this.#body.payloadIn(buffer)
    // Payload before a problem is valid.
    const accepts = payload === null || this.#sink.bytes(payload)
    const { problem, done } = this.#body
    if (problem) return BODY_PROBLEMS[problem]
    return done ? 'done' : accepts ? 'more' : 'full'
  }

  /** Reports the end of the connection: a problem if the response is incomplete, else null. */
  end(): AnswerProblem | null {
    this.#reusable = false
    if (this.#answering && this.#body.end()) return null
    return { problem: 'cut', why: this.answering ? 'before the end of the response' : 'before a response' }
  }

  /** Parses the header block from `at`. Returns the position after the bytes it has used. */
  #head(buffer: Buffer, at: number): number | AnswerProblem {
    const before = this.#partial.length
    const text = headerBlock(this.#partial, buffer, at, MAX_HEAD)
    const next = at + text.length - before
    if (text.endsWith(BLANK_LINE)) {
      this.#partial = ''
      return this.#beginAnswer(text) ?? next
    }
    if (!'HTTP/1.'.startsWith(text.slice(0, 7))) return invalid('it does not begin with HTTP/1')
    // Otherwise the reader would wait for a CR LF until the block is too long.
    if (BARE_LINE_END.test(text)) return invalid('a header line does not end with CR LF')
    if (text.length > MAX_HEAD) return tooLong
    this.#partial = text
    return next
  }

  /** Applies a complete header block. */
  #beginAnswer(text: string): AnswerProblem | null {
    const first = text.indexOf('\r\n')
    const line = STATUS_LINE.exec(text.slice(0, first))
    if (!line || CONTROL.test(line[0])) return invalid('its status line is not valid')
    const status = Number(line[2])
    const head = answerHead(this.#heads, text, first + 2, text.length - 2)
    if (typeof head === 'string') return invalid(head)
    const { values, places } = head
    const headers = (name: string) => {
      const place = places.get(name)
      return place === undefined ? undefined : values[place]
    }
    headers.names = places
    if (status === 101 && this.#mayUpgrade) return this.#beginUpgraded(headers)
    if (status === 101) return invalid('it switches protocols (status 101)')
    if (status < 200)
      return ++this.#interim > MAX_INTERIM ? invalid(`it sends more than ${MAX_INTERIM} interim responses`) : null
    const length = bodyLengthOf(headers, line[1] === '1')
    if (length === null) return invalid('its content-length or transfer-encoding is not valid')
    this.#readPersistence(line[1] === '1', headers)
    this.#answering = true
    const hasBody = status !== 204 && status !== 304 && !this.#isHead
    if (hasBody && length === undefined) this.#reusable = false
    this.#body.begin(hasBody ? (length ?? 'until-close') : 0)
    this.#sink.head(status, headers)
    return null
  }

  /** What follows is of the other protocol, until the connection ends. */
  #beginUpgraded(headers: HeaderLookup): null {
    this.#reusable = false
    this.#answering = true
    this.#body.begin('until-close')
    this.#sink.head(101, headers)
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

const STATUS_LINE = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: .*)?$/
/** Extensions of any form and all trailers are accepted; both are ignored. */
const CHUNK_RULES = {
  sizeLine: /^([0-9a-fA-F]{1,8})[ \t]*(?:;[^\r\n]*)?\r\n$/,
  trailer: /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*\r\n$/,
}
const BARE_LINE_END = /(?:^|[^\r])\n|\r[^\n]/

const invalid = (why: string): AnswerProblem => ({ problem: 'not_http', why })
const tooLong: AnswerProblem = { problem: 'too_long', why: 'its header block is larger than 16 KiB' }

const BODY_PROBLEMS: Readonly<Record<BodyProblem, AnswerProblem>> = {
  'size-line': invalid('a chunk size is not valid'),
  'long-size-line': invalid('a chunk size line is longer than 1 KiB'),
  'chunk-end': invalid('a chunk is longer than its size'),
  trailer: invalid('a trailer field is not valid'),
  'long-trailers': tooLong,
}
