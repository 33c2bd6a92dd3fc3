/**
 * Parses JSON of many megabytes in bounded pieces. This code finds the boundaries of values; `JSON.parse` parses every
 * piece, so V8 alone defines valid JSON.
 */
import {
  BACKSLASH,
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COLON,
  COMMA,
  isClosing,
  isDigit,
  isOpening,
  LINE_FEED,
  MINUS,
  OPEN_BRACKET,
  QUOTE,
} from './char-codes.ts'
import { type Json, list, object, parseJson } from './json.ts'
import { mistakeIn, withPosition } from './json-error.ts'
import { isNumberPart, isSpace, NEVER_TWICE, nameAt, type Span, type Survey, stringEndWithin } from './json-text.ts'
import { PIECE, type Steps } from './steps.ts'

/** `survey`: the result of `survey` for the same text. `error`: the result of `describeJsonError`. */
export type LargeJson =
  | { readonly ok: true; readonly value: unknown; readonly survey: Survey }
  | { readonly ok: false; readonly error: string }

/** Does the work of `parseJson` and `survey`. Each step handles about `piece` characters, or copies one string. */
export function* readLarge(source: string, deepest: number, piece = PIECE): Steps<LargeJson> {
  const reader = new LargeReader(source, deepest, Math.max(piece, SHORTEST))
  try {
    const value = yield* reader.read()
    return { ok: true, value, survey: reader.members.result() }
  } catch (error) {
    if (!(error instanceof Mistake)) throw error
    yield
    return { ok: false, error: yield* describe(source, error, piece) }
  }
}

/**
 * A piece that is not JSON. `before`: a short text that brings a parser into the same state as the text up to `from`.
 */
class Mistake {
  readonly before: string
  readonly from: number

  constructor(before: string, from: number) {
    this.before = before
    this.from = from
  }
}

/** Describes the first error. It is in the first unreadable piece, so little more than that piece is parsed. */
function* describe(source: string, { before, from }: Mistake, piece: number): Steps<string> {
  const rest = before + source.slice(from)
  let found = { what: 'it cannot be read', at: before.length }
  try {
    JSON.parse(rest)
  } catch (error) {
    found = mistakeIn(error, rest)
  }
  yield
  const at = Math.max(0, found.at - before.length) + from
  let [line, start] = [1, 0]
  for (let next = 0; next < at; next++) {
    if (next % piece === piece - 1) yield
    if (source.charCodeAt(next) === LINE_FEED) {
      line++
      start = next + 1
    }
  }
  return withPosition(found.what, { line, column: at - start + 1 })
}

/** A container that is too large for one piece. */
type LargeContainer = {
  readonly node: Json[] | { [member: string]: Json }
  /** In an object: the name of the current member. */
  key: string
  /** It has at least one element. */
  filled: boolean
}

/** Collects the facts of `survey` while a text is read: about the members of the outermost object. */
class MemberSurvey {
  readonly #source: string
  readonly #members: Span[] = []
  readonly #seen = new Set<string>()
  #problem: Survey | null = null
  #key = ''
  #keyAt = 0
  #valueAt = 0

  constructor(source: string) {
    this.#source = source
  }

  /**
   * `long` is false because the digits are already kept; true would request a second pass that keeps them. The entries are
   * not counted.
   */
  result(): Survey {
    return this.#problem ?? { ok: true, members: this.#members, long: false, entries: Number.POSITIVE_INFINITY }
  }

  /**
   * Records the beginning of a member of the outermost object. If its name is not a string, a later step reports the
   * error. `until`: where its name ends at the latest.
   */
  begin(at: number, until: number): void {
    const end = stringEndWithin(this.#source, at, until)
    let key = ''
    try {
      if (end > 0) key = nameAt(this.#source, at, end)
    } catch {}
    this.#key = key
    this.#keyAt = at
    const colon = end > 0 ? this.#source.indexOf(':', end) + 1 : at
    this.#valueAt = colon
    if (this.#seen.has(key) && NEVER_TWICE.has(key)) this.flaw('duplicate')
    this.#seen.add(key)
  }

  /** Records the name and the value of a member that is read in pieces. */
  beginValue(key: string, at: number): void {
    this.#key = key
    this.#valueAt = at
  }

  end(end: number): void {
    let value = this.#valueAt
    while (isSpace(this.#source.charCodeAt(value))) value++
    this.#members.push({ key: this.#key, start: this.#keyAt, value, end })
  }

  /** Keeps the first problem of the text. */
  flaw(problem: 'too-deep' | 'duplicate' | 'not-finite'): void {
    this.#problem ??= { ok: false, problem, at: this.#key }
  }
}

class LargeReader {
  readonly #source: string
  readonly members: MemberSurvey
  readonly #deepest: number
  readonly #piece: number
  readonly #open: LargeContainer[] = []
  #value: Json = null
  #at = 0
  /** Characters handled since the last pause. */
  #spent = 0

  constructor(source: string, deepest: number, piece: number) {
    this.#source = source
    this.members = new MemberSurvey(source)
    this.#deepest = deepest
    this.#piece = piece
  }

  *read(): Steps<unknown> {
    yield* this.#blanks()
    yield* this.#large('')
    for (let top = this.#open.at(-1); top; top = this.#open.at(-1)) yield* this.#elements(top)
    yield* this.#blanks()
    if (this.#at < this.#source.length) throw new Mistake('{}', this.#at)
    return this.#value
  }

  /** Parses elements of a container until its end or the beginning of a large nested container. */
  *#elements(top: LargeContainer): Steps<void> {
    const source = this.#source
    const { node } = top
    const isList = Array.isArray(node)
    const depth = this.#open.length
    const isOutermost = depth === 1 && !isList
    while (this.#open.length === depth) {
      yield* this.#blanks()
      const code = source.charCodeAt(this.#at)
      if (code === (isList ? CLOSE_BRACKET : CLOSE_BRACE)) {
        this.#at++
        this.#open.pop()
        return this.#put(node)
      }
      if (top.filled) {
        if (code !== COMMA) throw this.#mistake('', this.#at)
        this.#at++
        yield* this.#blanks()
      }
      const comma = top.filled ? ',' : ''
      const first = this.#at
      if (isOutermost) this.members.begin(first, first + this.#piece)
      const end = this.#extent(first, isOutermost)
      if (end === -1) {
        yield* this.#pause(this.#piece)
        if (!isList) yield* this.#name(top, comma)
        yield* this.#large(isList ? comma : `${comma}"":`)
        continue
      }
      const text = source.slice(first, end)
      // The brackets added below would turn a missing element into an empty container.
      if (text.trim() === '') throw this.#mistake(comma, first)
      const part = this.#parsed(isList ? `[${text}]` : `{${text}}`, comma, first)
      if (Array.isArray(node)) for (const value of list(part)) node.push(value)
      else for (const [key, value] of Object.entries(object(part) ?? {})) define(node, key, value ?? null)
      top.filled = true
      this.#at = end
      if (isOutermost) this.members.end(first + text.trimEnd().length)
      yield* this.#pause(end - first)
    }
  }

  /** Parses the name of a large member, up to its value. */
  *#name(top: LargeContainer, comma: string): Steps<void> {
    const source = this.#source
    if (source.charCodeAt(this.#at) !== QUOTE) throw this.#mistake(comma, this.#at)
    top.key = yield* this.#string(comma)
    yield* this.#blanks()
    if (source.charCodeAt(this.#at) !== COLON) throw this.#mistake(`${comma}""`, this.#at)
    this.#at++
    yield* this.#blanks()
    if (this.#open.length > 1) return
    this.members.beginValue(top.key, this.#at)
  }

  /** Parses a value of any size; of a container only its beginning. `before`: see `Mistake`. */
  *#large(before: string): Steps<void> {
    const source = this.#source
    const first = this.#at
    const code = source.charCodeAt(first)
    if (code === QUOTE) return this.#put(yield* this.#string(before))
    if (isOpening(code)) {
      this.#at++
      this.#open.push({ node: code === OPEN_BRACKET ? [] : {}, key: '', filled: false })
      if (this.#open.length > this.#deepest) this.members.flaw('too-deep')
      return
    }
    let end = first
    while (end < source.length && !ENDS.has(source.charCodeAt(end))) {
      end++
      if (end % this.#piece === 0) yield
    }
    const text = source.slice(first, end)
    const value = this.#parsed(text, before, first)
    if (typeof value === 'number' && !Number.isFinite(value)) this.members.flaw('not-finite')
    this.#at = end
    this.#put(value)
  }

  /** Parses a string of any size in pieces, never split inside an escape. */
  *#string(before: string): Steps<string> {
    const source = this.#source
    const parts: string[] = []
    for (let from = this.#at + 1; ; ) {
      const cut = uncutEscape(source, from, from + this.#piece)
      yield* this.#pause(cut - from)
      const part = textIn(source, from, cut)
      if (part === null) {
        const end = stringEndWithin(source, from - 1, cut)
        const last =
          end > 0 && end <= cut && source.charCodeAt(end - 1) === QUOTE ? textIn(source, from, end - 1) : null
        if (last === null) throw this.#mistake(`${before}"`, from)
        parts.push(last)
        this.#at = end
        return parts.join('')
      }
      parts.push(part)
      from = cut
      if (from >= source.length) throw this.#mistake(`${before}"`, source.length)
    }
  }

  /**
   * End of the elements that fit into one piece: the end of their container, or a comma. -1: the first element is too
   * large.
   */
  #extent(first: number, single: boolean): number {
    const source = this.#source
    const until = Math.min(source.length, first + this.#piece)
    const above = this.#open.length
    let depth = 0
    let comma = -1
    for (let at = first; at < until; at++) {
      const code = source.charCodeAt(at)
      if (code === QUOTE) {
        const end = stringEndWithin(source, at, until)
        if (end < 0 || end > until) return comma
        at = end - 1
      } else if (isOpening(code)) {
        depth++
        if (above + depth > this.#deepest) this.members.flaw('too-deep')
      } else if (isClosing(code)) {
        if (depth === 0) return at
        depth--
      } else if (code === COMMA && depth === 0) {
        if (single) return at
        comma = at
      } else if (code === MINUS || isDigit(code)) {
        let end = at + 1
        while (end < until && isNumberPart(source.charCodeAt(end))) end++
        if (end === until && end < source.length) return comma
        if (end - at > 3 && !Number.isFinite(Number(source.slice(at, end)))) this.members.flaw('not-finite')
        at = end - 1
      }
    }
    return until === source.length ? until : comma
  }

  #put(value: Json): void {
    const top = this.#open.at(-1)
    if (!top) this.#value = value
    else if (Array.isArray(top.node)) top.node.push(value)
    else {
      define(top.node, top.key, value)
      if (this.#open.length === 1) this.members.end(this.#at)
    }
    if (top) top.filled = true
  }

  #parsed(text: string, before: string, from: number): Json {
    try {
      // `JSON.parse` returns nothing but JSON values.
      return parseJson(text) as Json
    } catch {
      throw this.#mistake(before, from)
    }
  }

  /** `before`: a text for the part between the last element of the innermost container and `from`. */
  #mistake(before: string, from: number): Mistake {
    const around = this.#open.map(({ node, filled }, place) => {
      const isList = Array.isArray(node)
      const begun = isList ? (filled ? '[""' : '[') : filled ? '{"":""' : '{'
      if (place === this.#open.length - 1) return begun
      return `${begun}${filled ? ',' : ''}${isList ? '' : '"":'}`
    })
    return new Mistake(around.join('') + before, from)
  }

  *#blanks(): Steps<void> {
    const from = this.#at
    while (isSpace(this.#source.charCodeAt(this.#at))) {
      this.#at++
      if ((this.#at - from) % this.#piece === 0) yield
    }
  }

  *#pause(characters: number): Steps<void> {
    this.#spent += characters
    if (this.#spent < this.#piece) return
    this.#spent = 0
    yield
  }
}

/** Like `JSON.parse`: `__proto__` is an ordinary name, and the last duplicate counts. */
const define = (node: { [member: string]: Json }, key: string, value: Json): void => {
  if (key === '__proto__')
    Object.defineProperty(node, key, { value, writable: true, enumerable: true, configurable: true })
  else node[key] = value
}

/** Unescapes a part of a string; null: it contains an unescaped quote or is invalid. */
const textIn = (source: string, from: number, to: number): string | null => {
  try {
    return JSON.parse(`"${source.slice(from, to)}"`)
  } catch {
    return null
  }
}

/** Length of the longest escape, `\uXXXX`. */
const ESCAPE = 6
/** Minimum piece size. A piece must be longer than two escapes, or there may be no position to split it. */
const SHORTEST = 16

/**
 * The last position up to `to` that is not inside an escape. `from` is such a position, at least `SHORTEST` before
 * `to`.
 */
const uncutEscape = (source: string, from: number, to: number): number => {
  if (to >= source.length) return source.length
  let at = to
  for (let one = to - 1; one >= to - ESCAPE; one--) if (source.charCodeAt(one) === BACKSLASH) at = one
  if (at === to) return to
  while (at > from && source.charCodeAt(at - 1) === BACKSLASH) at--
  if (at > from) return at
  // Only backslashes from `from` on: each pair is one escape.
  let end = from
  while (end < to && source.charCodeAt(end) === BACKSLASH) end++
  return end - ((end - from) % 2)
}

/** Characters that end a number or a literal. */
const ENDS = new Set([...', \t\r\n[]{}:"'].map((letter) => letter.charCodeAt(0)))
