import { isUtf8 } from 'node:buffer'
import type { EncodedText } from '../../../core/encoded-text.ts'
import { bad, type Failure, fail, good, type Outcome } from '../../../core/failure.ts'
import type { HeaderLookup } from '../../../core/headers.ts'
import { inTurns, PIECE } from '../../../core/steps.ts'
import { turn } from '../../process/turns.ts'
import type { BodySink, HttpExchange } from '../server/http-server.ts'
import { dearSteps, exceedsJsonLimits } from './json-limits.ts'

/** What a request's headers say against reading its body as JSON; null: nothing. */
export const bodyProblem = (headers: HeaderLookup, most: number): Failure | null => {
  const type = headers('content-type')
  const encoding = headers('content-encoding')
  const length = headers('content-length')
  // A few hundred bytes can unpack to a hundred million; nobody needs it for a prompt.
  if (encoding !== undefined && encoding.trim().toLowerCase() !== 'identity')
    return fail('media_type', 'The body is compressed. Send it as it is, without Content-Encoding.')
  if (type !== undefined && type !== 'application/json' && !isJson(type)) return fail('media_type', wrongType(type))
  if (length !== undefined && Number(length) > most) return tooLarge(most)
  return null
}

/** curl sends `-d` as a form unless a header says otherwise, which is the usual way to get here. */
const wrongType = (type: string): string => {
  const media = /^[a-z0-9.+-]+\/[a-z0-9.+-]+$/.exec(type.split(';', 1)[0]?.trim().toLowerCase() ?? '')?.[0]
  const found = media === undefined || media.length > 60 ? 'not JSON in UTF-8' : `${media}, not JSON in UTF-8`
  const remedy = "Send the header content-type: application/json (curl: -H 'content-type: application/json')."
  return `The Content-Type is ${found}. ${remedy}`
}

const isJson = (type: string): boolean => {
  const [media = '', ...parameters] = type.toLowerCase().split(';')
  const charset = parameters.map((one) => one.trim()).find((one) => one.startsWith('charset='))
  const named = charset?.slice('charset='.length).replaceAll('"', '')
  return (
    /^application\/(?:[a-z0-9.-]+\+)?json$/.test(media.trim()) &&
    (named === undefined || named === 'utf-8' || named === 'utf8')
  )
}

const tooLarge = (most: number): Failure =>
  fail('body_too_large', `The body is larger than this gateway takes (${inUnits(most)}; limit.body, LIMIT_BODY).`)

const inUnits = (bytes: number): string =>
  bytes % 1_048_576 === 0 ? `${bytes / 1_048_576} MiB` : bytes % 1024 === 0 ? `${bytes / 1024} KiB` : `${bytes} bytes`

/** Who waits for a body. */
export type Waiting = {
  /** Told of each part before it is kept; whoever has no room for it says why. */
  keeps(bytes: number): Failure | null
  /** This or one of the next two, once; of a large body later than its last part, and even if the client left meanwhile. */
  enter(body: EncodedText): void
  unfit(failure: Failure): void
  /** Reading it failed: a bug. */
  broke(error: unknown): void
}

/** Reads a body to its end, counting as it comes. */
export const collect = (exchange: HttpExchange, most: number, waiting: Waiting): void =>
  exchange.take(new Body(exchange, most, waiting))

class Body implements BodySink {
  readonly #exchange: HttpExchange
  readonly #most: number
  readonly #waiting: Waiting
  readonly #parts: Buffer[] = []
  #size = 0

  constructor(exchange: HttpExchange, most: number, waiting: Waiting) {
    this.#exchange = exchange
    this.#most = most
    this.#waiting = waiting
  }

  take(part: Buffer): void {
    this.#size += part.length
    const problem = this.#size > this.#most ? tooLarge(this.#most) : this.#waiting.keeps(part.length)
    if (!problem) {
      this.#parts.push(part)
      return
    }
    this.#exchange.take(null)
    this.#waiting.unfit(problem)
  }

  end(): void {
    if (this.#size > PIECE) return this.#endLarge()
    const [first] = this.#parts
    const whole = this.#parts.length === 1 && first ? first : Buffer.concat(this.#parts, this.#size)
    if (!isUtf8(whole)) return this.#waiting.unfit(NOT_UTF8)
    const bytes = withoutMark(whole)
    const text = bytes.toString('utf8')
    const problem = exceedsJsonLimits(text)
    if (problem) this.#waiting.unfit(problem)
    else this.#waiting.enter({ text, bytes })
  }

  #endLarge(): void {
    const waiting = this.#waiting
    inTurns(readParts(this.#parts.splice(0), this.#size), turn).then(
      (read) => (read.ok ? waiting.enter(read.value) : waiting.unfit(read.failure)),
      (error) => waiting.broke(error),
    )
  }
}

/** The text of these parts, in pieces. */
function* readParts(parts: readonly Buffer[], size: number): Generator<undefined, Outcome<EncodedText>, undefined> {
  const whole = Buffer.allocUnsafeSlow(size)
  let filled = 0
  let pause = PIECE
  for (const part of parts) {
    part.copy(whole, filled)
    filled += part.length
    if (filled < pause) continue
    yield
    pause = filled + PIECE
  }
  const bytes = withoutMark(whole)
  const texts: string[] = []
  for (let at = 0; at < bytes.length; ) {
    const end = betweenCharacters(bytes, Math.min(bytes.length, at + PIECE))
    const piece = bytes.subarray(at, end)
    if (!isUtf8(piece)) return bad(NOT_UTF8)
    texts.push(piece.toString('utf8'))
    at = end
    yield
  }
  const text = texts.join('')
  yield
  const problem = yield* dearSteps(text)
  return problem ? bad(problem) : good({ text, bytes })
}

/** This place, or where the character begins that it is in. A character has up to three bytes behind its first. */
const betweenCharacters = (bytes: Buffer, at: number): number => {
  let place = at
  while (place > at - 3 && place < bytes.length && ((bytes[place] ?? 0) & 0xc0) === 0x80) place--
  return place
}

const NOT_UTF8 = fail('invalid_json', 'The body is not valid UTF-8, as JSON must be.')

/** Some Windows tools put a byte order mark before JSON (RFC 8259, section 8.1: parsers may ignore it). */
const withoutMark = (bytes: Buffer): Buffer =>
  bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? bytes.subarray(3) : bytes
