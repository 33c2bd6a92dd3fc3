/**
 * Inspects and edits JSON as text, so that unchanged parts stay byte for byte: unknown members, digits of large
 * numbers, escapes and white space.
 */
import { type EncodedText, SplicedText } from './encoded-text.ts'
import type { Json, JsonObject } from './json-value.ts'
import { atOnce, PIECE, type Steps } from './steps.ts'

/** A member of the outermost object: indices of its key, its value and its end. */
export type Span = { readonly key: string; readonly start: number; readonly value: number; readonly end: number }

export type Survey =
  /**
   * `long`: a number may have too many digits for a double (see `parseJson`). `entries`: at least as many as all lists of
   * the text have together.
   */
  | { readonly ok: true; readonly members: readonly Span[]; readonly long: boolean; readonly entries: number }
  | { readonly ok: false; readonly problem: 'too-deep' | 'duplicate' | 'not-finite'; readonly at: string }

/** Members that determine the target or the cost. With a duplicate, policy and upstream could read different values. */
export const NEVER_TWICE = new Set(['model', 'stream'])

/** A double represents every integer of this many digits. */
const EXACT = 15

/**
 * Maximum nesting of clients' JSON. Serialization overflows the stack at a few thousand levels; real requests have far
 * fewer.
 */
export const DEEPEST = 64

const QUOTE = 34
const BACKSLASH = 92

/** Index after the string that begins at `start` (a quote). */
export const stringEnd = (source: string, start: number): number =>
  stringEndWithin(source, start, Number.POSITIVE_INFINITY)

/**
 * Like `stringEnd`, but stops at the first escaped quote after `until` and returns its negative index, from which the
 * search can continue.
 */
export const stringEndWithin = (source: string, start: number, until: number): number => {
  let end = source.indexOf('"', start + 1)
  while (end !== -1) {
    let slashes = 0
    while (source.charCodeAt(end - 1 - slashes) === BACKSLASH) slashes++
    if (slashes % 2 === 0) return end + 1
    if (end >= until) return -end
    end = source.indexOf('"', end + 1)
  }
  return source.length
}

/** The unescaped text of the string from `start` to `end`. */
export const nameAt = (source: string, start: number, end: number): string => {
  const name = source.slice(start + 1, end - 1)
  return name.includes('\\') ? JSON.parse(source.slice(start, end)) : name
}

/** Limits: nesting levels, members of one object, members of all objects, and values. */
type Extent = {
  readonly levels: number
  readonly members: number
  readonly membersInAll: number
  readonly values: number
}
type Excess = 'too-deep' | 'too-many' | 'too-many-in-all' | 'too-scattered'

/**
 * Detects text whose parsing would cost far more than its length: 13 MB with a million names blocked the process for 15
 * s, 15 MB with a million small values for 1 s. One pass without parsing; the text need not be JSON. Null: within the
 * limits.
 */
export const excess = (source: string, most: Extent): Excess | null => atOnce(excessSteps(source, most))

/** `excess` in pieces. */
export function* excessSteps(source: string, most: Extent, piece = PIECE): Steps<Excess | null> {
  const members: number[] = [0]
  let values = 0
  let all = 0
  let pause = piece
  for (let at = 0; at < source.length; at++) {
    if (at >= pause) {
      yield
      pause = at + piece
    }
    const code = source.charCodeAt(at)
    if (code === QUOTE) {
      let end = stringEndWithin(source, at, pause)
      while (end < 0) {
        yield
        pause = piece - end
        end = stringEndWithin(source, -end, pause)
      }
      at = end - 1
    } else if (code === 123 || code === 91) {
      if (members.push(0) > most.levels + 1) return 'too-deep'
    } else if (code === 125 || code === 93) {
      if (members.length > 1) members.pop()
    } else if (code === 58) {
      const last = members.length - 1
      const count = (members[last] ?? 0) + 1
      if (count > most.members) return 'too-many'
      if (++all > most.membersInAll) return 'too-many-in-all'
      members[last] = count
    } else if (code === 44 && ++values > most.values) return 'too-scattered'
  }
  return null
}

/**
 * One pass over the text of an object that `JSON.parse` has accepted. Returns the members of the outermost object, or a
 * problem that `JSON.parse` does not report: nesting that would overflow a stack, a duplicate of a `NEVER_TWICE`
 * member, or a number beyond the range of a double (it would be serialized as null).
 */
export const survey = (source: string, deepest: number): Survey => {
  const members: Span[] = []
  const seen = new Set<string>()
  let depth = 0
  let key = ''
  let start = -1
  let value = -1
  let expectKey = false
  let long = false
  // A list has an entry for its bracket and one for each comma.
  let entries = 0
  const close = (end: number) => {
    if (start === -1) return
    let last = end
    while (isSpace(source.charCodeAt(last - 1))) last--
    members.push({ key, start, value, end: last })
    start = -1
  }
  for (let at = 0; at < source.length; at++) {
    const code = source.charCodeAt(at)
    if (code === QUOTE) {
      const end = stringEnd(source, at)
      if (depth === 1 && expectKey) {
        key = nameAt(source, at, end)
        start = at
        expectKey = false
        if (seen.has(key) && NEVER_TWICE.has(key)) return { ok: false, problem: 'duplicate', at: key }
        seen.add(key)
        value = source.indexOf(':', end) + 1
        while (isSpace(source.charCodeAt(value))) value++
        at = value - 1
      } else at = end - 1
    } else if (code === 123 || code === 91) {
      depth++
      entries++
      if (depth > deepest) return { ok: false, problem: 'too-deep', at: key }
      if (depth === 1) expectKey = code === 123
    } else if (code === 125 || code === 93) {
      if (depth === 1) close(at)
      depth--
    } else if (code === 44) {
      entries++
      if (depth === 1) {
        close(at)
        expectKey = true
      }
    } else if (code === 45 || (code >= 48 && code <= 57)) {
      let end = at + 1
      while (isNumberPart(source.charCodeAt(end))) end++
      if (end - at > 3 && !Number.isFinite(Number(source.slice(at, end))))
        return { ok: false, problem: 'not-finite', at: key }
      long ||= end - at > EXACT
      at = end - 1
    }
  }
  return { ok: true, members, long, entries }
}

export const isSpace = (code: number): boolean => code === 32 || code === 10 || code === 13 || code === 9

/** Digits, sign, point and exponent: enough to find the end of a well-formed number. */
export const isNumberPart = (code: number): boolean =>
  (code >= 48 && code <= 57) || code === 46 || code === 45 || code === 43 || code === 101 || code === 69

/**
 * Serializes the object; only members that differ are written again. `before` is the parsed `source`. Members of
 * `after` are compared by identity, plain values by value. If the source has bytes, those of the longest unchanged member
 * are kept. It is nearly the whole body, whose encoding takes 5 µs per 30 KB of ASCII and 40 to 80 µs of other characters.
 */
export const rewrite = (
  source: EncodedText,
  members: readonly Span[],
  before: JsonObject,
  after: JsonObject,
): EncodedText => {
  if (before === after) return source
  const all = writtenMembers(source.text, members, before, after)
  const longest = source.bytes ? longestKept(all) : null
  if (!source.bytes || !longest?.kept) return { text: `{${all.map(textOf).join(',')}}` }
  const place = all.indexOf(longest)
  const head = all.slice(0, place).map((member) => `${textOf(member)},`)
  const tail = all.slice(place + 1).map((member) => `,${textOf(member)}`)
  const kept = { text: longest.text, bytes: bytesOf(source.text, source.bytes, longest.kept) }
  return new SplicedText(`{${head.join('')}`, kept, `${tail.join('')}}`)
}

const longestKept = (all: readonly WrittenMember[]): WrittenMember | null => {
  let longest: WrittenMember | null = null
  for (const member of all) if (member.kept && member.text.length > (longest?.text.length ?? 0)) longest = member
  return longest
}

/** The bytes of a part of the text. */
const bytesOf = (text: string, bytes: Uint8Array, { start, end }: Span): Uint8Array => {
  if (bytes.length === text.length) return bytes.subarray(start, end)
  const from = utf8.encode(text.slice(0, start)).length
  return bytes.subarray(from, bytes.length - utf8.encode(text.slice(end)).length)
}

const utf8 = new TextEncoder()

/** A member to write: unchanged text (`kept`: its place in the source), or the name with its colon and the value. */
export type WrittenMember = { readonly text: string; readonly value?: Json; readonly kept: Span | null }

/** The members of `after` in the order in which `rewrite` writes them. */
export const writtenMembers = (
  source: string,
  members: readonly Span[],
  before: JsonObject,
  after: JsonObject,
): readonly WrittenMember[] => {
  const all: WrittenMember[] = []
  const written = new Set<string>()
  for (const span of members) {
    // An own property only: a removed member may be named `constructor`.
    const value = Object.hasOwn(after, span.key) ? after[span.key] : undefined
    if (value === undefined) continue
    written.add(span.key)
    if (value === before[span.key]) all.push({ text: source.slice(span.start, span.end), kept: span })
    else all.push({ text: source.slice(span.start, span.value), value, kept: null })
  }
  for (const [key, value] of Object.entries(after))
    if (value !== undefined && !written.has(key)) all.push({ text: `${JSON.stringify(key)}:`, value, kept: null })
  return all
}

const textOf = ({ text, value }: WrittenMember): string => (value === undefined ? text : text + JSON.stringify(value))
