/**
 * Reads the body of an HTTP/1.1 message (RFC 9112, sections 6 and 7). The server and the HTTP client share it. It works in
 * place: the payloads of all chunks of one read are joined in the caller's buffer.
 */

import type { HeaderLookup } from '../../core/headers.ts'

/** How a body ends: after so many bytes, after its last chunk, or with the connection. */
export type BodyLength = number | 'chunked' | 'until-close'

/** A length in bytes; a double holds 15 digits exactly. */
const LENGTH = /^\d{1,15}$/

/** The length of the body that follows these headers; undefined if they state none, null if it is invalid or ambiguous. */
export const bodyLengthOf = (headers: HeaderLookup, isHttp11: boolean): BodyLength | undefined | null => {
  const length = headers('content-length')
  const coding = headers('transfer-encoding')
  if (coding !== undefined)
    return length === undefined && isHttp11 && coding.toLowerCase() === 'chunked' ? 'chunked' : null
  if (length === undefined) return undefined
  return LENGTH.test(length) ? Number(length) : null
}

/** What a reader accepts around chunks. Both patterns match a whole line with its CR LF. */
export type ChunkRules = {
  /** A chunk-size line; its first group is the size, of up to eight hexadecimal digits. */
  readonly sizeLine: RegExp
  readonly trailer: RegExp
}

/** Why a body cannot be read. */
export type BodyProblem = 'size-line' | 'long-size-line' | 'chunk-end' | 'trailer' | 'long-trailers'

/** Maximum bytes of a chunk-size line with its extensions, and of all trailers. */
const MAX = { sizeLine: 1024, trailers: 16 * 1024 }

const MAX_SIZE_DIGITS = 8
const CR = 13
const LF = 10

/** `data`: in a body of known length or in a chunk, with `#left` bytes to come. */
type BodyState = 'data' | 'chunk-size' | 'chunk-cr' | 'chunk-lf' | 'trailer' | 'until-close' | 'done'

/** Reads the bodies of one connection, one after the other. */
export class BodyParser {
  readonly #rules: ChunkRules
  #state: BodyState = 'done'
  #chunked = false
  #left = 0
  /** The incomplete chunk-size or trailer line. */
  #partial = ''
  /** Bytes of the current chunk-size line, or of all trailers. */
  #lineBytes = 0
  /** The reader is in a permanent error state and reads nothing further. */
  problem: BodyProblem | null = null
  #from = 0
  #to = 0

  constructor(rules: ChunkRules) {
    this.#rules = rules
  }

  get done(): boolean {
    return this.#state === 'done'
  }

  /** Begins the next body. */
  begin(length: BodyLength): void {
    this.#chunked = length === 'chunked'
    this.#left = typeof length === 'number' ? length : 0
    this.#state =
      length === 'chunked' ? 'chunk-size' : length === 'until-close' ? length : length === 0 ? 'done' : 'data'
    this.#partial = ''
    this.#lineBytes = 0
  }

  /** Reads `buffer` from `at` until `end`, the end of the body or a problem; returns where. */
  read(buffer: Buffer, at: number, end: number): number {
    this.#from = 0
    this.#to = 0
    while (at < end && !this.problem)
      switch (this.#state) {
        case 'chunk-size':
          at = this.#plainSize(buffer, at, end) || this.#line(buffer, at, end)
          break
        case 'data': {
          const to = Math.min(end, at + this.#left)
          this.#left -= to - at
          this.#append(buffer, at, to)
          at = to
          if (this.#left === 0) this.#state = this.#chunked ? 'chunk-cr' : 'done'
          break
        }
        case 'chunk-cr':
          if (buffer[at++] !== CR) this.problem = 'chunk-end'
          this.#state = 'chunk-lf'
          break
        case 'chunk-lf':
          if (buffer[at++] !== LF) this.problem = 'chunk-end'
          this.#state = 'chunk-size'
          break
        case 'trailer':
          at = this.#line(buffer, at, end)
          break
        case 'until-close':
          this.#append(buffer, at, end)
          at = end
          break
        case 'done':
          return at
        default:
          throw new Error(`Unknown body state ${JSON.stringify(this.#state satisfies never)}`)
      }
    return at
  }

  /** The payload of the last `read` of this buffer; null if it had none. */
  payloadIn(buffer: Buffer): Buffer | null {
    return this.#to > this.#from ? buffer.subarray(this.#from, this.#to) : null
  }

  /** The connection has ended; returns whether the body is complete. */
  end(): boolean {
    if (this.#state === 'until-close') this.#state = 'done'
    return this.done
  }

  #append(buffer: Buffer, from: number, to: number): void {
    if (this.#to === 0) {
      this.#from = from
      this.#to = to
    } else {
      buffer.copyWithin(this.#to, from, to)
      this.#to += to - from
    }
  }

  /** Fast path for a complete size line without extensions: its end, or 0 if it is anything else. Creates no string. */
  #plainSize(buffer: Buffer, at: number, end: number): number {
    if (this.#partial !== '') return 0
    let size = 0
    let next = at
    for (; next < end; next++) {
      const digit = digitOf(buffer[next] ?? 0)
      if (digit === -1) break
      size = size * 16 + digit
    }
    const isPlain = next > at && next - at <= MAX_SIZE_DIGITS && next + 2 <= end
    if (!isPlain || buffer[next] !== CR || buffer[next + 1] !== LF) return 0
    this.#beginChunk(size)
    return next + 2
  }

  /** Reads a chunk-size or trailer line, or its beginning; returns its end. */
  #line(buffer: Buffer, at: number, end: number): number {
    const isSize = this.#state === 'chunk-size'
    const lf = buffer.indexOf(LF, at)
    // Bytes from `end` on are not part of the message.
    const isWhole = lf !== -1 && lf < end
    const next = isWhole ? lf + 1 : end
    this.#lineBytes += next - at
    if (this.#lineBytes > (isSize ? MAX.sizeLine : MAX.trailers)) {
      this.problem = isSize ? 'long-size-line' : 'long-trailers'
      return next
    }
    const line = this.#partial + buffer.toString('latin1', at, next)
    this.#partial = isWhole ? '' : line
    if (!isWhole) return next
    const { sizeLine, trailer } = this.#rules
    if (isSize) {
      const size = sizeLine.exec(line)?.[1]
      if (size === undefined) this.problem = 'size-line'
      else this.#beginChunk(Number.parseInt(size, 16))
    } else if (line === '\r\n') this.#state = 'done'
    else if (!trailer.test(line)) this.problem = 'trailer'
    return next
  }

  /** A size of 0 ends the data. */
  #beginChunk(size: number): void {
    this.#left = size
    this.#state = size === 0 ? 'trailer' : 'data'
    this.#lineBytes = 0
  }
}

/** The value of a hexadecimal digit; -1 for any other byte. */
const digitOf = (byte: number): number => {
  if (byte < 48) return -1
  if (byte <= 57) return byte - 48
  const letter = byte | 32
  return letter >= 97 && letter <= 102 ? letter - 87 : -1
}
