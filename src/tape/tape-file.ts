/**
 * The format of a tape: JSON lines with sorted members. An exchange is `ask`, `answer`, its events and `end`, in adjacent lines; the
 * messages and tools of requests are lines of their own, each once. [0028](../../docs/decisions/0028-cassettes.md) has the reasons.
 */
import { isObject, type Json, type JsonObject, list, number, object, parseObject, text } from '../core/json.ts'
import { canonicalJson } from '../policy/idempotency-key.ts'
import { type AskDigests, digestOf, digestsOf, keyOf, type TapeAsk } from './ask.ts'
import { NORMALISERS, type Normaliser } from './masking.ts'

export const VERSION = 1

/** One event, or a read of a body that has none. `ms`: since the head. */
export type TapeEvent = { readonly ms: number; readonly bytes: Uint8Array }

/** An answer as it arrived. `ms`: from the request to the head. */
export type TapeAnswer = {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly ms: number
  readonly events: readonly TapeEvent[]
}

/** Where a request was sent. `protocol`: null for a JSON call. */
export type TapeTarget = {
  readonly provider: string
  readonly model: string
  readonly protocol: string | null
  readonly stream: boolean
}

/** A request and its answer. */
export type Exchange = {
  readonly key: string
  readonly ask: TapeAsk
  readonly target: TapeTarget
  readonly answer: TapeAnswer
  /** The ID of the test, empty without one. */
  readonly test: string
  /** When it was recorded. */
  readonly at: string
  /** It replaces those before it with its key and test. */
  readonly replaces: boolean
  /** The format of the client, to call again. */
  readonly style: string
}

/** `line`: where its request is in the file, from 1. `digest`: of its lines without `replaces`, so that it is the same after `prune`. */
export type TapedExchange = Exchange & { readonly line: number; readonly digest: string; readonly digests: AskDigests }

export type TapeProblem = { readonly line: number; readonly message: string }

export type ReadTape = {
  readonly normalise: readonly Normaliser[]
  readonly exchanges: readonly TapedExchange[]
  /** Digests of the parts in the file. */
  readonly parts: ReadonlySet<string>
  /** Lines that cannot be used. */
  readonly problems: readonly TapeProblem[]
  /** Its last line has no end, because a write was cut. */
  readonly isCut: boolean
  /** Why the file must not be written; null: it is a tape of this version, or empty. */
  readonly refusal: string | null
}

/** How an exchange is named: by the beginning of its key. */
export const nameOf = ({ key }: Pick<Exchange, 'key'>): string => `tap_${key.slice(0, 10)}`

const lineOf = (value: JsonObject): string => `${canonicalJson(value)}\n`

export const headLine = (normalise: readonly Normaliser[]): string =>
  lineOf({ line: 'tape', version: VERSION, normalise: [...normalise] })

/** The lines of an exchange. `known`: parts that the file has; those that it lacks are added to it. */
export const exchangeLines = (exchange: Exchange, known: Set<string>): string => {
  const { ask, answer, target } = exchange
  let parts = ''
  const refer = (values: readonly Json[]): readonly string[] =>
    values.map((value) => {
      const digest = digestOf(value)
      if (!known.has(digest)) parts += lineOf({ line: 'part', digest, value })
      known.add(digest)
      return digest
    })
  const { messages, tools, ...own } = ask
  const asked: JsonObject = {
    line: 'ask',
    key: exchange.key,
    ...own,
    messages: refer(messages),
    ...(tools.length > 0 && { tools: refer([tools]) }),
    at: exchange.at,
    style: exchange.style,
    sent: { ...target },
    ...(exchange.test !== '' && { test: exchange.test }),
    ...(exchange.replaces && { replaces: true }),
  }
  const lines = [
    asked,
    { line: 'answer', status: answer.status, headers: { ...answer.headers }, ms: answer.ms },
    ...answer.events.map(eventLine),
  ]
  return parts + lines.map(lineOf).join('') + lineOf({ line: 'end', digest: digestOf(lines) })
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** The text of bytes; undefined if they are not one. */
export const textOfBytes = (bytes: Uint8Array): string | undefined => {
  try {
    return utf8.decode(bytes)
  } catch {
    return undefined
  }
}

const eventLine = ({ ms, bytes }: TapeEvent): JsonObject => {
  const written = textOfBytes(bytes)
  if (written !== undefined) return { line: 'event', ms, text: written }
  return { line: 'event', ms, base64: Buffer.from(bytes).toString('base64') }
}

/** Reads a tape. Each line that cannot be used is a problem; the exchanges that depend on it are left out. */
export const readTape = (source: string): ReadTape => {
  const reader = new TapeReader()
  reader.read(source)
  return reader.result()
}

/** Reads a tape in pieces of whole lines. */
export class TapeReader {
  #normalise: readonly Normaliser[] = []
  readonly #parts = new Map<string, Json>()
  readonly #exchanges: TapedExchange[] = []
  readonly #problems: TapeProblem[] = []
  /** The lines of the exchange that has begun. */
  #open: { readonly line: number; readonly lines: JsonObject[] } | null = null
  #hasHead = false
  /** The version of a head that this Headgate cannot read. */
  #otherVersion: string | null = null
  #hasLines = false
  /** Line ends read so far. */
  #ends = 0
  #isCut = false

  read(source: string): void {
    const lines = source.split('\n')
    for (const [at, written] of lines.entries()) {
      const line = written.replace(/\r$/, '')
      if (line.trim() !== '') this.#take(this.#ends + at + 1, line)
    }
    this.#ends += lines.length - 1
    this.#isCut = lines.at(-1) !== ''
    this.#abandon()
  }

  result(): ReadTape {
    const exchanges = withoutReplaced(this.#exchanges)
    const parts = new Set(this.#parts.keys())
    const problems = [...this.#problems]
    return { normalise: this.#normalise, exchanges, parts, problems, isCut: this.#isCut, refusal: this.#refusal() }
  }

  #refusal(): string | null {
    if (this.#otherVersion !== null)
      return `It has version ${this.#otherVersion} of the format; this Headgate writes ${VERSION}.`
    return this.#hasHead || !this.#hasLines ? null : 'It is not a tape: it has no line of the kind tape.'
  }

  #take(at: number, line: string): void {
    if (this.#otherVersion !== null) return
    this.#hasLines = true
    const value = parseObject(line)
    if (!value) return this.#refuse(at, /^(?:<{7}|={7}|>{7})/.test(line) ? 'a conflict of a merge' : 'not JSON, or cut')
    switch (text(value.line)) {
      case 'tape':
        return this.#head(at, value)
      case 'part':
        return this.#part(at, value)
      case 'ask':
        this.#abandon()
        this.#open = { line: at, lines: [value] }
        return
      case 'answer':
      case 'event':
        if (this.#open) this.#open.lines.push(value)
        else this.#problems.push({ line: at, message: 'belongs to no request' })
        return
      case 'end':
        return this.#end(at, value)
      default:
        return this.#refuse(at, 'an unknown kind of line')
    }
  }

  #refuse(at: number, message: string): void {
    this.#problems.push({ line: at, message })
    this.#open = null
  }

  /** The exchange that has begun is not complete. */
  #abandon(): void {
    if (this.#open) this.#problems.push({ line: this.#open.line, message: 'its answer is not complete' })
    this.#open = null
  }

  #head(at: number, { version, normalise }: JsonObject): void {
    if (version !== VERSION) {
      this.#otherVersion = JSON.stringify(version) ?? 'none'
      return this.#refuse(at, `version ${this.#otherVersion}; this Headgate reads ${VERSION}`)
    }
    const names = NORMALISERS.filter((name) => list(normalise).includes(name))
    if (this.#hasHead && names.join() !== this.#normalise.join())
      return this.#refuse(at, 'normalises otherwise than the first line')
    this.#hasHead = true
    this.#normalise = names
  }

  #part(at: number, { digest, value }: JsonObject): void {
    this.#abandon()
    if (value === undefined || text(digest) !== digestOf(value))
      return this.#refuse(at, 'was edited: the digest is that of another part')
    this.#parts.set(digestOf(value), value)
  }

  #end(at: number, { digest }: JsonObject): void {
    const open = this.#open
    this.#open = null
    if (!open) return void this.#problems.push({ line: at, message: 'ends no exchange' })
    const [asked = {}, answered = {}, ...events] = open.lines
    const refuse = (message: string) => void this.#problems.push({ line: open.line, message })
    const own = digestOf(open.lines)
    if (digest !== own) return refuse('was edited: its digest is that of another exchange')
    const ask = this.#askOf(asked)
    if (!ask) return refuse('a part of its request is not in the file')
    if (keyOf(ask) !== asked.key) return refuse('was edited: its key is that of another request')
    const answer = answerOf(answered, events)
    const target = object(asked.sent)
    if (!answer || !target) return refuse('its answer is not complete')
    this.#exchanges.push({
      key: keyOf(ask),
      ask,
      answer,
      target: {
        provider: text(target.provider) ?? '',
        model: text(target.model) ?? '',
        protocol: text(target.protocol) ?? null,
        stream: target.stream === true,
      },
      test: text(asked.test) ?? '',
      at: text(asked.at) ?? '',
      replaces: asked.replaces === true,
      style: text(asked.style) ?? '',
      line: open.line,
      digest: asked.replaces === true ? digestOf([withoutReplaces(asked), answered, ...events]) : own,
      digests: digestsOf(ask),
    })
  }

  /** Null: a part is missing. */
  #askOf({ call, model, messages, tools, settings, target }: JsonObject): TapeAsk | null {
    const read = (digests: Json | undefined) => list(digests).map((digest) => this.#parts.get(String(digest)))
    const [found, sets] = [read(messages), read(tools)]
    if ([...found, ...sets].includes(undefined) || !isObject(settings)) return null
    return {
      call: text(call) ?? '',
      model: text(model) ?? '',
      messages: found.filter((message) => message !== undefined),
      tools: sets.flatMap((set) => list(set)),
      settings,
      ...(typeof target === 'string' && { target }),
    }
  }
}

const answerOf = (answered: JsonObject, lines: readonly JsonObject[]): TapeAnswer | null => {
  const status = number(answered.status)
  const headers = object(answered.headers)
  if (answered.line !== 'answer' || status === undefined || !headers) return null
  const events = lines.map(({ ms, text: written, base64 }) => ({
    ms: number(ms) ?? 0,
    bytes: typeof written === 'string' ? Buffer.from(written) : Buffer.from(text(base64) ?? '', 'base64'),
  }))
  const own = Object.entries(headers).flatMap(([name, value]) =>
    typeof value === 'string' ? [[name, value] as const] : [],
  )
  return { status, headers: Object.fromEntries(own), ms: number(answered.ms) ?? 0, events }
}

const withoutReplaces = ({ replaces: _, ...asked }: JsonObject): JsonObject => asked

const seriesOf = ({ key, test }: Pick<Exchange, 'key' | 'test'>): string => `${key} ${test}`

/** Without those that a later one replaces. */
const withoutReplaced = (exchanges: readonly TapedExchange[]): readonly TapedExchange[] => {
  const first = new Map<string, number>()
  for (const exchange of exchanges) if (exchange.replaces) first.set(seriesOf(exchange), exchange.line)
  return exchanges.filter((exchange) => exchange.line >= (first.get(seriesOf(exchange)) ?? 0))
}
