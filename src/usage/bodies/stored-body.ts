/** Turns the bytes of a body into what may be stored: texts redacted, media replaced by type, length and hash. */
import { createHash } from 'node:crypto'
import { looksRandom } from '../../policy/guards/finders/api-key.ts'
import { markOf, merged, withoutSpans } from '../../policy/guards/finders/find-texts.ts'
import type { Finder, FoundSpan } from '../../policy/guards/finders/finder.ts'
import type { KeptHeaders } from './kept-headers.ts'
import type { KeptResponse, RawBody, StoredBody } from './recorded-calls.ts'

/** Characters at the end of a truncated text that are dropped: a secret may have been cut there. */
const UNSURE_END = 256
/** Length of a secret that is removed wherever it occurs. Shorter ones are placeholders. */
const MIN_SECRET = 5

/** `secret`: the credential of the attempt, which an upstream may quote. */
export const storedBody = ({ bytes, length }: RawBody, redact: Finder, secret: string | null = null): StoredBody => {
  const truncated = length > bytes.length
  let text: string
  try {
    // A character that was cut at the end is no error.
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: truncated })
  } catch {
    const sha256 = truncated ? {} : { sha256: sha256Of(bytes) }
    return { text: null, bytes: length, truncated, redacted: 0, media: 1, ...sha256 }
  }
  const isSecret = secret !== null && secret.length >= MIN_SECRET
  const parts = isSecret ? text.split(secret) : [text]
  const result = new BodyText(parts.join(markOf('apiKey')), redact).result()
  const redacted = result.redacted + parts.length - 1
  const kept = truncated ? result.text.slice(0, -UNSURE_END) : result.text
  return { text: kept, bytes: length, truncated, redacted, media: result.media }
}

/** `secrets`: the credentials of attempts, which an upstream may quote. */
export const storedHeaders = (headers: KeptHeaders, redact: Finder, secrets: readonly string[] = []): KeptHeaders =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, cleanText(value, redact, secrets)]))

/** Names of events are what an upstream sent. */
export const storedResponse = (
  { status, headers, events }: KeptResponse,
  redact: Finder,
  secrets: readonly string[],
): KeptResponse => ({
  status,
  headers: storedHeaders(headers, redact, secrets),
  events: events && { ...events, types: events.types.map((type) => cleanText(type, redact, secrets)) },
})

const cleanText = (text: string, redact: Finder, secrets: readonly string[]): string => {
  let clean = text
  for (const secret of secrets) if (secret.length >= MIN_SECRET) clean = clean.replaceAll(secret, markOf('apiKey'))
  return withoutSpans(clean, redact(clean))
}

const sha256Of = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

/** A part of the text: a string of JSON, or what is between strings. `to`: its end. */
type BodyPart = {
  readonly start: number
  readonly end: number
  /** The decoded value of a string; of other parts the text. */
  readonly value: string
  readonly kind: 'string' | 'name' | 'gap' | 'plain'
  /** The last name before a string. */
  readonly name: string
  /** Which strings of a stream belong together; '': none. */
  readonly group: string
  /** The string was cut by the end of the text. */
  readonly cut: boolean
}

const STREAM_LINE = /^\s{0,8}(?:data|event|id|retry)?:/
const JSON_START = /^\s*[[{]/
const LETTER_OR_DIGIT = /[\p{L}\p{N}]/u
const INDEXES = /"\w{0,20}index"\s{0,3}:\s{0,3}\d{1,6}/g

/** The text of one body. */
class BodyText {
  readonly #text: string
  readonly #redact: Finder
  readonly #parts: BodyPart[] = []
  #redacted = 0
  #media = 0

  constructor(text: string, redact: Finder) {
    this.#text = text
    this.#redact = redact
    const isStream = STREAM_LINE.test(text)
    const isJson = !isStream && JSON_START.test(text)
    if (!isStream && !isJson) {
      this.#add('plain', 0, text.length, text)
      return
    }
    // Strings of JSON contain no line break.
    const isLines = isStream || (isJson && /[}\]]\r?\n\s{0,8}\{/.test(text))
    for (let at = 0; at < text.length; ) {
      const newline = text.indexOf('\n', at)
      const end = newline < 0 ? text.length : newline + 1
      const colon = isStream && text.startsWith('data:', at) ? at + 5 : at
      if (isJson || (colon > at && JSON_START.test(text.slice(colon, colon + 64)))) this.#scan(at, end, isLines)
      else this.#addPlain(at, end)
      at = end
    }
  }

  result(): { readonly text: string; readonly redacted: number; readonly media: number } {
    const joined = this.#joinedSpans()
    let out = ''
    for (const [index, part] of this.#parts.entries()) out += this.#write(part, joined.get(index) ?? [])
    return { text: out, redacted: this.#redacted, media: this.#media }
  }

  #add(kind: BodyPart['kind'], start: number, end: number, value: string): void {
    if (end > start) this.#parts.push({ kind, start, end, value, name: '', group: '', cut: false })
  }

  /** Lines that are not JSON are one part. */
  #addPlain(start: number, end: number): void {
    const last = this.#parts.at(-1)
    const from = last?.kind === 'plain' ? last.start : start
    if (from < start) this.#parts.pop()
    this.#add('plain', from, end, this.#text.slice(from, end))
  }

  /** Splits a line into strings and what is between them. */
  #scan(from: number, to: number, isLines: boolean): void {
    const text = this.#text
    const indexes = isLines ? (text.slice(from, to).match(INDEXES)?.join() ?? '') : ''
    let name = ''
    let at = from
    for (;;) {
      const quote = text.indexOf('"', at)
      if (quote < 0 || quote >= to) break
      this.#add('gap', at, quote, text.slice(at, quote))
      const close = closingQuote(text, quote, to)
      const end = close < 0 ? to : close + 1
      const value = decoded(text.slice(quote + 1, close < 0 ? to : close))
      const isName = close >= 0 && nextSign(text, end, to) === ':'
      if (isName) name = value
      const group = isLines && !isName ? `${name} ${indexes}` : ''
      this.#parts.push({ kind: isName ? 'name' : 'string', start: quote, end, value, name, group, cut: close < 0 })
      at = end
    }
    this.#add('gap', at, to, text.slice(at, to))
  }

  /** What is found only where the strings of several events are read as one text, by the index of the part. */
  #joinedSpans(): ReadonlyMap<number, readonly FoundSpan[]> {
    const groups = new Map<string, number[]>()
    for (const [index, { group }] of this.#parts.entries()) {
      if (group === '') continue
      const members = groups.get(group)
      if (members) members.push(index)
      else groups.set(group, [index])
    }
    const found = new Map<number, FoundSpan[]>()
    for (const members of groups.values()) if (members.length > 1) this.#joinGroup(members, found)
    return found
  }

  #joinGroup(members: readonly number[], found: Map<number, FoundSpan[]>): void {
    const values = members.map((index) => this.#parts[index]?.value ?? '')
    const spans = this.#redact(values.join(''))
    let next = 0
    let offset = 0
    for (const [order, value] of values.entries()) {
      const end = offset + value.length
      for (; next < spans.length; next++) {
        const span = spans[next]
        if (!span || span.start >= end) break
        const local = {
          ...span,
          start: Math.max(0, span.start - offset),
          end: Math.min(value.length, span.end - offset),
        }
        const index = members[order] ?? 0
        found.set(index, [...(found.get(index) ?? []), local])
        if (span.end > end) break
      }
      offset = end
    }
  }

  #write(part: BodyPart, joined: readonly FoundSpan[]): string {
    const raw = this.#text.slice(part.start, part.end)
    if (part.kind === 'name') return raw
    const { value, kind } = part
    if (kind === 'gap' && !LETTER_OR_DIGIT.test(value)) return raw
    if (kind === 'string') {
      const media = mediaOf(part)
      if (media !== null) {
        this.#media++
        return quoted(media, part)
      }
      if (isSecretMember(part)) {
        this.#redacted++
        return quoted(markOf('apiKey'), part)
      }
    }
    const spans = joined.length > 0 ? merged([...joined, ...this.#redact(value)]) : this.#redact(value)
    if (spans.length === 0) return raw
    this.#redacted += spans.length
    const clean = withoutSpans(value, spans)
    if (kind === 'string') return quoted(clean, part)
    // A number, or a text that is not JSON.
    return kind === 'gap' && clean.trim() !== '' ? gapWithout(value, spans) : clean
  }
}

const gapWithout = (value: string, spans: readonly FoundSpan[]): string => {
  let out = ''
  let from = 0
  for (const { start, end, kind } of spans) {
    out += value.slice(from, start) + JSON.stringify(markOf(kind))
    from = end
  }
  return out + value.slice(from)
}

const quoted = (value: string, { cut }: BodyPart): string =>
  cut ? JSON.stringify(value).slice(0, -1) : JSON.stringify(value)

/** The position of the quote that ends a string; -1: it has no end. */
const closingQuote = (text: string, open: number, to: number): number => {
  for (let at = open + 1; ; ) {
    const quote = text.indexOf('"', at)
    if (quote < 0 || quote >= to) return -1
    let slashes = 0
    while (text[quote - 1 - slashes] === '\\' && quote - 1 - slashes > open) slashes++
    if (slashes % 2 === 0) return quote
    at = quote + 1
  }
}

const nextSign = (text: string, from: number, to: number): string => {
  let at = from
  while (at < to && (text[at] === ' ' || text[at] === '\t' || text[at] === '\r')) at++
  return at < to ? (text[at] ?? '') : ''
}

/** The value of a string of JSON. One that is not valid, or cut, is taken as it is. */
const decoded = (inner: string): string => {
  if (!inner.includes('\\')) return inner
  for (let cut = 0; cut <= 6; cut++)
    try {
      return JSON.parse(`"${inner.slice(0, inner.length - cut)}"`)
    } catch {
      // An escape may be cut.
    }
  return inner
}

// ── Media and members with secrets ───────────────────────────────────────────────────────────────────────────────

/** Length from which on a text in base64 is media. */
const LARGE = 1_024
const BASE64 = /^[A-Za-z0-9+/_-]+={0,2}$/
const DATA_URL = /^data:([\w.+-]{1,60}\/[\w.+-]{1,60})?[^,]{0,100},/
/** Opaque texts that a conversation needs. */
const OPAQUE = /signature|encrypted/i

const MAGIC: readonly (readonly [start: string, type: string])[] = [
  ['iVBORw0KGgo', 'image/png'],
  ['/9j/', 'image/jpeg'],
  ['R0lGOD', 'image/gif'],
  ['UklGR', 'image/webp or audio/wav'],
  ['JVBERi0', 'application/pdf'],
  ['SUQz', 'audio/mpeg'],
  ['T2dnUw', 'audio/ogg'],
]

/** The text in place of media; null: the string is no media. */
const mediaOf = ({ value, name, cut }: BodyPart): string | null => {
  const url = value.startsWith('data:') ? DATA_URL.exec(value) : null
  const data = url ? value.slice(url[0].length) : value
  if (!url && (data.length < LARGE || OPAQUE.test(name) || !BASE64.test(data))) return null
  const type = url?.[1] ?? MAGIC.find(([start]) => data.startsWith(start))?.[1] ?? 'base64'
  if (cut) return `[${type}, truncated]`
  const bytes = Buffer.from(data, 'base64')
  return `[${type}, ${bytes.length} bytes, sha256 ${sha256Of(bytes)}]`
}

const SECRET_NAME = /key|token|secret|password|passwd|credential|authorization/i

const isSecretMember = ({ name, value }: BodyPart): boolean =>
  SECRET_NAME.test(name) && value.length >= 12 && !/\s/.test(value) && looksRandom(value)
