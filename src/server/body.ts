/** Reads request bodies: type and size of each kind, and of JSON its UTF-8 and limits. */
import { isUtf8 } from 'node:buffer'
import type { EncodedText } from '../core/encoded-text.ts'
import { bad, type Failure, fail, good, type Outcome } from '../core/failure.ts'
import type { ReceivedForm } from '../core/form.ts'
import type { HeaderLookup } from '../core/headers.ts'
import type { BodyKind, BodyOf, RequestBody } from '../core/http-exchange.ts'
import { inTurns, PIECE, type Steps } from '../core/steps.ts'
import { boundaryIn } from '../protocols/framing/form-data.ts'
import { turn } from '../runtime/turns.ts'
import { encodingOf, type Inflater, inflater } from '../transport/net/inflate.ts'
import type { BodySink, HttpExchange } from '../transport/server/http-server.ts'
import { type FormListener, FormReader, type FormRules } from './form-body.ts'
import { exceedsJsonLimits, jsonLimitSteps } from './json-limits.ts'

/** A body to read: its kind, and its maximum size in bytes, inflated. */
export type BodyRules<Kind extends BodyKind = BodyKind> = {
  readonly kind: Kind
  readonly maxBytes: number
  /** The setting that states the maximum; absent: `limit.body`. */
  readonly setting?: string
  /** It is not inflated. */
  readonly asSent?: true | undefined
  /** Where a form is kept; absent: in memory. */
  readonly form?: Pick<FormRules, 'maxMemory' | 'store'>
}

/** The failure if the headers exclude such a body; null: they do not. */
export const bodyProblem = (headers: HeaderLookup, rules: BodyRules): Failure | null =>
  rules.asSent
    ? lengthProblem(headers, rules)
    : (typeProblem(headers, rules.kind) ??
      boundaryProblem(headers, rules.kind) ??
      encodingProblem(headers) ??
      lengthProblem(headers, rules))

const boundaryProblem = (headers: HeaderLookup, kind: BodyKind): Failure | null => {
  if (kind !== 'multipart') return null
  const boundary = boundaryIn(headers('content-type') ?? '')
  return boundary.ok ? null : boundary.failure
}

/** Codex compresses its requests. Several encodings of one body have no use but to hide its size. */
const encodingProblem = (headers: HeaderLookup): Failure | null =>
  encodingOf(headers('content-encoding')) === 'unknown'
    ? fail('media_type', 'The Content-Encoding is unknown. Send gzip, deflate, br or zstd, one of them once, or none.')
    : null

/** The failure if the content type is not that of a kind of body; null: it is, or it is not stated. */
export const typeProblem = (headers: HeaderLookup, kind: BodyKind): Failure | null => {
  const type = headers('content-type')
  if (kind === 'json') return type === undefined || type === 'application/json' || isJson(type) ? null : notJson(type)
  return kind !== 'multipart' || (type !== undefined && /^multipart\/form-data\s*;/i.test(type)) ? null : notForm(type)
}

/** Like `bodyProblem` for a body of any type that is not inflated. */
export const sizeProblem = (headers: HeaderLookup, maxBytes: number): Failure | null => {
  if (encodingOf(headers('content-encoding')) !== 'none')
    return fail('media_type', 'The body is compressed. Send it uncompressed, without Content-Encoding.')
  return lengthProblem(headers, { maxBytes })
}

/** The failure if the stated length is above the limit; null: it is not, or none is stated. */
export const lengthProblem = (headers: HeaderLookup, rules: SizeRules): Failure | null => {
  const length = headers('content-length')
  return length !== undefined && Number(length) > rules.maxBytes ? tooLarge(rules) : null
}

type SizeRules = Pick<BodyRules, 'maxBytes' | 'setting'>

/** The usual cause: curl sends `-d` as a form unless a header sets the type. */
const notJson = (type: string): Failure =>
  wrongType(
    type,
    'JSON in UTF-8',
    "the header content-type: application/json (curl: -H 'content-type: application/json')",
  )

const notForm = (type: string | undefined): Failure =>
  wrongType(type, 'multipart/form-data with a boundary', 'a form (curl: -F file=@speech.mp3 -F model=NAME)')

const wrongType = (type: string | undefined, needed: string, remedy: string): Failure => {
  const media = /^[a-z0-9.+-]+\/[a-z0-9.+-]+$/.exec(type?.split(';', 1)[0]?.trim().toLowerCase() ?? '')?.[0]
  const found = media === undefined || media.length > 60 ? `not ${needed}` : `${media}, not ${needed}`
  return fail('media_type', `The Content-Type is ${found}. Send ${remedy}.`)
}

const isJson = (type: string): boolean => {
  const [media = '', ...parameters] = type.toLowerCase().split(';')
  const charset = parameters.map((part) => part.trim()).find((part) => part.startsWith('charset='))
  const named = charset?.slice('charset='.length).replaceAll('"', '')
  return (
    /^application\/(?:[a-z0-9.-]+\+)?json$/.test(media.trim()) &&
    (named === undefined || named === 'utf-8' || named === 'utf8')
  )
}

/** The setting that limits forms, and bodies that are passed on as they arrive. */
export const UPLOAD = 'limit.upload, LIMIT_UPLOAD'

/** The failure of a body that is passed on as it arrives. */
export const tooLargeUpload = (maxBytes: number): Failure => tooLarge({ maxBytes, setting: UPLOAD })

const tooLarge = ({ maxBytes, setting = 'limit.body, LIMIT_BODY' }: SizeRules): Failure =>
  fail('body_too_large', `The body is too large (limit ${inUnits(maxBytes)}; ${setting}).`)

const inUnits = (bytes: number): string =>
  bytes % 1_048_576 === 0 ? `${bytes / 1_048_576} MiB` : bytes % 1024 === 0 ? `${bytes / 1024} KiB` : `${bytes} bytes`

/** Receives a body. Exactly one of `received`, `invalid` and `broke` is called, once; for a large body even after the client left. */
export type BodyListener<Body extends RequestBody = RequestBody> = {
  /** Reserves memory for a part: a failure if none is available. */
  readonly memory: { reserve(bytes: number): Failure | null; release(bytes: number): void }
  received(body: Body): void
  invalid(failure: Failure): void
  /** Reading the body failed: a bug. */
  broke(error: unknown): void
}

/** A body that is being read. `abandon`: its request has ended, and nothing is received. */
export type BodyReading = { abandon(): void }

/** Reads a body to its end, and checks its size as it arrives. */
export const collect = <Kind extends BodyKind>(
  exchange: HttpExchange,
  rules: BodyRules<Kind>,
  listener: BodyListener<BodyOf<Kind>>,
): BodyReading => {
  // The reader passes the body on as the rules name its kind.
  const [all, to] = [rules as BodyRules, listener as BodyListener]
  const reader = rules.kind === 'multipart' ? new FormBody(exchange, all, to) : new BufferedBody(exchange, all, to)
  const encoding = rules.asSent ? 'none' : encodingOf(exchange.headers('content-encoding'))
  const source = typeof encoding === 'string' ? reader : new InflatedBody(encoding.name, reader)
  if (reader instanceof FormBody) reader.source = source
  exchange.pipeBody(source)
  return reader
}

/** Inflates a body as it arrives, so that its size is checked with each part. */
class InflatedBody implements BodySink {
  readonly #reader: BodyReader
  readonly #inflater: Inflater

  constructor(encoding: string, reader: BodyReader) {
    this.#reader = reader
    this.#inflater = inflater(
      encoding,
      Number.POSITIVE_INFINITY,
      {
        bytes: (part) => this.#inflated(part),
        end: () => reader.end(),
        failed: ({ message }) => reader.refuse(fail('invalid_request', message)),
      },
      () => {},
    )
  }

  /** The engine keeps parts that it has not read yet; they are counted with the inflated ones. */
  push(part: Buffer): void {
    if (this.#reader.holds(part)) this.#inflater.push(part)
    else this.#inflater.stop()
  }

  end(): void {
    this.#inflater.end()
  }

  #inflated(part: Uint8Array): boolean {
    this.#reader.push(Buffer.from(part.buffer, part.byteOffset, part.byteLength))
    if (this.#reader.isRefused) this.#inflater.stop()
    return true
  }
}

/** Characters from which on the bytes of an ASCII text are kept, to be sent again. 30 KB are encoded in 5 µs, copied in 0.6. */
const LONG = 4 * 1024

/** Bytes of memory that a part takes at least: a body can come in chunks of one byte. */
const LEAST = 256

/** Checks size and memory of each part. */
abstract class BodyReader implements BodySink, BodyReading {
  protected readonly exchange: HttpExchange
  protected readonly rules: BodyRules
  protected readonly listener: BodyListener
  protected size = 0
  isRefused = false

  constructor(exchange: HttpExchange, rules: BodyRules, listener: BodyListener) {
    this.exchange = exchange
    this.rules = rules
    this.listener = listener
  }

  abstract end(): void

  protected abstract keep(part: Buffer): void

  push(part: Buffer): void {
    this.size += part.length
    if (this.size > this.rules.maxBytes) this.refuse(tooLarge(this.rules))
    else if (this.holds(part)) this.keep(part)
  }

  /** Whether there is memory for a part; without it the body is refused. */
  holds(part: Buffer): boolean {
    const problem = this.listener.memory.reserve(memoryOf(part))
    if (problem) this.refuse(problem)
    return problem === null
  }

  refuse(problem: Failure): void {
    this.isRefused = true
    this.exchange.pipeBody(null)
    this.abandon()
    this.listener.invalid(problem)
  }

  /** Its memory is that of the request. */
  abandon(): void {}
}

const memoryOf = ({ length }: Buffer): number => Math.max(length, LEAST)

/** A form, which is read as it arrives. */
class FormBody extends BodyReader implements FormListener {
  readonly #form: FormReader
  /** Receives the body as it is sent. */
  source: BodySink = this

  constructor(exchange: HttpExchange, rules: BodyRules, listener: BodyListener) {
    super(exchange, rules, listener)
    const boundary = boundaryIn(exchange.headers('content-type') ?? '')
    if (!boundary.ok) throw new Error('`bodyProblem` refuses a form without a boundary')
    this.#form = new FormReader(boundary.value, rules.form ?? IN_MEMORY, this)
  }

  get memory(): BodyListener['memory'] {
    return this.listener.memory
  }

  protected override keep(part: Buffer): void {
    this.#form.push(part, memoryOf(part))
  }

  override end(): void {
    this.#form.end()
  }

  override abandon(): void {
    this.#form.abandon()
  }

  pause(): void {
    this.exchange.holdBody(uncounted)
  }

  resume(): void {
    this.exchange.pipeBody(this.source)
  }

  received(form: ReceivedForm): void {
    this.listener.received(form)
  }
}

const IN_MEMORY = { maxMemory: Number.POSITIVE_INFINITY, store: null }

/** Parts that are held are counted when they are read on: at most one read of a socket. */
const uncounted = (): void => {}

/** A body of another kind, whose parts are kept until its end. */
class BufferedBody extends BodyReader {
  readonly #parts: Buffer[] = []

  protected override keep(part: Buffer): void {
    this.#parts.push(part)
  }

  override end(): void {
    if (this.size > PIECE) return this.#endLarge()
    const [first] = this.#parts
    const whole = this.#parts.length === 1 && first ? first : Buffer.concat(this.#parts, this.size)
    if (this.rules.kind !== 'json') return this.listener.received(whole)
    if (!isUtf8(whole)) return this.listener.invalid(NOT_UTF8)
    const bytes = withoutByteOrderMark(whole)
    const text = bytes.toString('utf8')
    const problem = exceedsJsonLimits(text)
    if (problem) this.listener.invalid(problem)
    // A short ASCII text is encoded as fast as its bytes are copied.
    else this.listener.received(bytes.length === text.length && text.length < LONG ? { text } : { text, bytes })
  }

  #endLarge(): void {
    const { listener } = this
    const parts = joinParts(this.#parts.splice(0), this.size)
    inTurns<Outcome<RequestBody>>(this.rules.kind === 'json' ? readText(parts) : readBytes(parts), turn).then(
      (read) => (read.ok ? listener.received(read.value) : listener.invalid(read.failure)),
      (error) => listener.broke(error),
    )
  }
}

/** The parts in one buffer. Yields between pieces, as the functions below, so that the event loop stays free. */
function* joinParts(parts: readonly Buffer[], size: number): Steps<Buffer> {
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
  return whole
}

function* readBytes(parts: Steps<Buffer>): Steps<Outcome<Uint8Array>> {
  return good(yield* parts)
}

function* readText(parts: Steps<Buffer>): Steps<Outcome<EncodedText>> {
  const bytes = withoutByteOrderMark(yield* parts)
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
  const problem = yield* jsonLimitSteps(text)
  return problem ? bad(problem) : good({ text, bytes })
}

/** The start of the character at this offset; a UTF-8 character has up to three further bytes. */
const betweenCharacters = (bytes: Buffer, at: number): number => {
  let place = at
  while (place > at - 3 && place < bytes.length && ((bytes[place] ?? 0) & 0xc0) === 0x80) place--
  return place
}

const NOT_UTF8 = fail('invalid_json', 'The body is not valid UTF-8, which JSON requires.')

/** Removes a byte order mark, which some Windows tools write (RFC 8259, section 8.1: parsers may ignore it). */
const withoutByteOrderMark = (bytes: Buffer): Buffer =>
  bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? bytes.subarray(3) : bytes
