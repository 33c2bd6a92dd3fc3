/**
 * Reads JSON of many megabytes in bounded pieces. The walk here finds where values begin and end; every piece is read by
 * `JSON.parse`, so V8 alone decides what is JSON.
 */
import { type Json, list, object, parseJson } from './json.ts'
import { mistakeIn, withPosition } from './json-error.ts'
import { isNumberPart, isSpace, NEVER_TWICE, nameAt, type Span, type Survey, stringEndWithin } from './json-text.ts'
import { PIECE } from './steps.ts'

/** `survey`: what `survey` finds in the same text. `error`: what is wrong with it, as `describeJsonError` has it. */
export type LargeJson =
  | { readonly ok: true; readonly value: unknown; readonly survey: Survey }
  | { readonly ok: false; readonly error: string }

/** What `parseJson` and `survey` find in the text. Each step handles about `piece` characters, or copies one string. */
export function* readLarge(source: string, deepest: number, piece = PIECE): Generator<undefined, LargeJson, undefined> {
  const reader = new LargeReader(source, deepest, Math.max(piece, SHORTEST))
  try {
    const value = yield* reader.read()
    return { ok: true, value, survey: reader.survey() }
  } catch (error) {
    if (!(error instanceof Mistake)) throw error
    yield
    return { ok: false, error: yield* describe(source, error, piece) }
  }
}

/** A piece that is not JSON. `before`: a text that leaves a parser in the state in which it reaches `from`. */
class Mistake {
  readonly before: string
  readonly from: number

  constructor(before: string, from: number) {
    this.before = before
    this.from = from
  }
}

/** The first mistake lies in the first piece that cannot be read, so this parses little more than that piece. */
function* describe(source: string, { before, from }: Mistake, piece: number): Generator<undefined, string, undefined> {
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
  /** Of an object: the name of the member that is being read. */
  key: string
  /** It has an element already. */
  filled: boolean
}

class LargeReader {
  readonly #source: string
  readonly #deepest: number
  readonly #piece: number
  readonly #open: LargeContainer[] = []
  #value: Json = null
  #at = 0
  /** Characters handled since the last pause. */
  #spent = 0
  // What `survey` wants to know of the outermost object.
  readonly #members: Span[] = []
  readonly #seen = new Set<string>()
  #problem: Survey | null = null
  #key = ''
  #keyAt = 0
  #valueAt = 0

  constructor(source: string, deepest: number, piece: number) {
    this.#source = source
    this.#deepest = deepest
    this.#piece = piece
  }

  /** `long` asks for a second reading that keeps all digits; here they are kept. */
  survey(): Survey {
    return this.#problem ?? { ok: true, members: this.#members, long: false }
  }

  *read(): Generator<undefined, unknown, undefined> {
    yield* this.#blanks()
    yield* this.#large('')
    for (let top = this.#open.at(-1); top; top = this.#open.at(-1)) yield* this.#elements(top)
    yield* this.#blanks()
    if (this.#at < this.#source.length) throw new Mistake('{}', this.#at)
    return this.#value
  }

  /** Reads on in a container, up to its end or to the beginning of a large container in it. */
  *#elements(top: LargeContainer): Generator<undefined, void, undefined> {
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
      if (isOutermost) this.#meet(first)
      const end = this.#extent(first, isOutermost)
      if (end === -1) {
        yield* this.#pause(this.#piece)
        if (!isList) yield* this.#name(top, comma)
        yield* this.#large(isList ? comma : `${comma}"":`)
        continue
      }
      const text = source.slice(first, end)
      // In brackets of its own a missing element would be an empty container.
      if (text.trim() === '') throw this.#mistake(comma, first)
      const part = this.#parsed(isList ? `[${text}]` : `{${text}}`, comma, first)
      if (Array.isArray(node)) for (const value of list(part)) node.push(value)
      else for (const [key, value] of Object.entries(object(part) ?? {})) define(node, key, value ?? null)
      top.filled = true
      this.#at = end
      if (isOutermost) this.#close(first + text.trimEnd().length)
      yield* this.#pause(end - first)
    }
  }

  /** The name of a large member, up to its value. */
  *#name(top: LargeContainer, comma: string): Generator<undefined, void, undefined> {
    const source = this.#source
    if (source.charCodeAt(this.#at) !== QUOTE) throw this.#mistake(comma, this.#at)
    top.key = yield* this.#string(comma)
    yield* this.#blanks()
    if (source.charCodeAt(this.#at) !== COLON) throw this.#mistake(`${comma}""`, this.#at)
    this.#at++
    yield* this.#blanks()
    if (this.#open.length > 1) return
    this.#key = top.key
    this.#valueAt = this.#at
  }

  /** A value of any size; of a container only its beginning. `before`: what the open container holds before it. */
  *#large(before: string): Generator<undefined, void, undefined> {
    const source = this.#source
    const first = this.#at
    const code = source.charCodeAt(first)
    if (code === QUOTE) return this.#put(yield* this.#string(before))
    if (code === OPEN_BRACKET || code === OPEN_BRACE) {
      this.#at++
      this.#open.push({ node: code === OPEN_BRACKET ? [] : {}, key: '', filled: false })
      if (this.#open.length > this.#deepest) this.#flaw('too-deep')
      return
    }
    let end = first
    while (end < source.length && !ENDS.has(source.charCodeAt(end))) {
      end++
      if (end % this.#piece === 0) yield
    }
    const text = source.slice(first, end)
    const value = this.#parsed(text, before, first)
    if (typeof value === 'number' && !Number.isFinite(value)) this.#flaw('not-finite')
    this.#at = end
    this.#put(value)
  }

  /** A string of any size. It is cut where no escape is cut. */
  *#string(before: string): Generator<undefined, string, undefined> {
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
   * Where the elements from here on end of which a piece consists: at the end of their container, or at a comma. -1: the
   * first of them is too large.
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
      } else if (code === OPEN_BRACE || code === OPEN_BRACKET) {
        depth++
        if (above + depth > this.#deepest) this.#flaw('too-deep')
      } else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) {
        if (depth === 0) return at
        depth--
      } else if (code === COMMA && depth === 0) {
        if (single) return at
        comma = at
      } else if (code === MINUS || (code >= ZERO && code <= NINE)) {
        let end = at + 1
        while (end < until && isNumberPart(source.charCodeAt(end))) end++
        if (end === until && end < source.length) return comma
        if (end - at > 3 && !Number.isFinite(Number(source.slice(at, end)))) this.#flaw('not-finite')
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
      if (this.#open.length === 1) this.#close(this.#at)
    }
    if (top) top.filled = true
  }

  /** A member of the outermost object begins here. Its name may be no string: then reading it fails later on. */
  #meet(at: number): void {
    const end = stringEndWithin(this.#source, at, at + this.#piece)
    let key = ''
    try {
      if (end > 0) key = nameAt(this.#source, at, end)
    } catch {}
    this.#key = key
    this.#keyAt = at
    const colon = end > 0 ? this.#source.indexOf(':', end) + 1 : at
    this.#valueAt = colon
    if (this.#seen.has(key) && NEVER_TWICE.has(key)) this.#flaw('duplicate')
    this.#seen.add(key)
  }

  #close(end: number): void {
    let value = this.#valueAt
    while (isSpace(this.#source.charCodeAt(value))) value++
    this.#members.push({ key: this.#key, start: this.#keyAt, value, end })
  }

  /** Keeps the first problem of the text. */
  #flaw(problem: 'too-deep' | 'duplicate' | 'not-finite'): void {
    this.#problem ??= { ok: false, problem, at: this.#key }
  }

  #parsed(text: string, before: string, from: number): Json {
    try {
      // Parsed JSON is nothing but JSON.
      return parseJson(text) as Json
    } catch {
      throw this.#mistake(before, from)
    }
  }

  /** `before`: what stands between the last element of the innermost container and `from`. */
  #mistake(before: string, from: number): Mistake {
    const around = this.#open.map(({ node, filled }, place) => {
      const isList = Array.isArray(node)
      const begun = isList ? (filled ? '[""' : '[') : filled ? '{"":""' : '{'
      if (place === this.#open.length - 1) return begun
      return `${begun}${filled ? ',' : ''}${isList ? '' : '"":'}`
    })
    return new Mistake(around.join('') + before, from)
  }

  *#blanks(): Generator<undefined, void, undefined> {
    const from = this.#at
    while (isSpace(this.#source.charCodeAt(this.#at))) {
      this.#at++
      if ((this.#at - from) % this.#piece === 0) yield
    }
  }

  *#pause(characters: number): Generator<undefined, void, undefined> {
    this.#spent += characters
    if (this.#spent < this.#piece) return
    this.#spent = 0
    yield
  }
}

/** As JSON.parse does it: `__proto__` is a name like any other, and of two members the last counts. */
const define = (node: { [member: string]: Json }, key: string, value: Json): void => {
  if (key === '__proto__')
    Object.defineProperty(node, key, { value, writable: true, enumerable: true, configurable: true })
  else node[key] = value
}

/** What the inside of a string says; null: an unescaped quote is in it, or it is wrong. */
const textIn = (source: string, from: number, to: number): string | null => {
  try {
    return JSON.parse(`"${source.slice(from, to)}"`)
  } catch {
    return null
  }
}

/** The longest escape, `\uXXXX`. */
const ESCAPE = 6
/** A piece is longer than two escapes, or no place to cut it might be found. */
const SHORTEST = 16

/** The last place up to `to` that is not inside an escape. `from` is none, and at least `SHORTEST` before. */
const uncutEscape = (source: string, from: number, to: number): number => {
  if (to >= source.length) return source.length
  let at = to
  for (let one = to - 1; one >= to - ESCAPE; one--) if (source.charCodeAt(one) === BACKSLASH) at = one
  if (at === to) return to
  while (at > from && source.charCodeAt(at - 1) === BACKSLASH) at--
  if (at > from) return at
  // All backslashes from `from` on: each two are one escape.
  let end = from
  while (end < to && source.charCodeAt(end) === BACKSLASH) end++
  return end - ((end - from) % 2)
}

const LINE_FEED = 10
const QUOTE = 34
const COMMA = 44
const MINUS = 45
const ZERO = 48
const NINE = 57
const COLON = 58
const OPEN_BRACKET = 91
const BACKSLASH = 92
const CLOSE_BRACKET = 93
const OPEN_BRACE = 123
const CLOSE_BRACE = 125
/** What a number or a word ends at. */
const ENDS = new Set([...', \t\r\n[]{}:"'].map((letter) => letter.charCodeAt(0)))
