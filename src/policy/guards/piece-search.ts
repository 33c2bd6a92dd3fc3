/** Searches a text that arrives in pieces, and releases what more text cannot change. */
import type { FoundSpan, Search } from './finders/finder.ts'

/** A search, and the rule to which its spans belong. */
export type RuleSearch<Rule> = { readonly rule: Rule; readonly search: Search }

/** A span, and the rule that found it. */
export type RuleSpan<Rule> = FoundSpan & { readonly rule: Rule }

/** A part of the text with its spans, whose positions are in it. `received`: its length as it was received. */
export type DecidedPiece<Rule> = {
  readonly text: string
  readonly spans: readonly RuleSpan<Rule>[]
  readonly received: number
}

/** Characters before the text that is searched, which decide whether a word begins there. */
const CONTEXT = 64
/** Characters of an unfinished span from which its middle is dropped, and those that are kept at its beginning and its end. */
const LONG_SPAN = 4_096
const KEPT = 1_024

/**
 * A text in pieces. The released parts have the spans that a search of the whole text finds. A span is never cut: it is released
 * whole, with those that overlap it. Of one that is longer than 4,096 characters the middle is missing.
 */
export class PieceSearch<Rule> {
  readonly #searches: readonly RuleSearch<Rule>[]
  #text = ''
  /** What is before has been released. */
  #from = 0
  /** Characters that were dropped from what is held. */
  #dropped = 0

  constructor(searches: readonly RuleSearch<Rule>[]) {
    this.#searches = searches
  }

  /** Adds a piece, and returns what is decided. */
  push(piece: string): DecidedPiece<Rule> {
    this.#text += piece
    const text = this.#text
    const from = this.#from
    const spans = this.#spans()
    let to = this.#searches.reduce((first, { search }) => Math.min(first, search.open(text, from)), text.length)
    // From the last to the first: each may move the end before others.
    for (const { start, end, since = start } of spans) if (since < to && (end > to || end === text.length)) to = since
    if (to > from && isWithinPair(text, to)) to--
    const released = this.#release(to, spans)
    this.#shorten(spans)
    return released
  }

  /** The rest, as the end of the text. */
  end(): DecidedPiece<Rule> {
    const released = this.#release(this.#text.length, this.#spans())
    this.#text = ''
    this.#from = 0
    return released
  }

  /** The spans in what is held, from the last to the first. */
  #spans(): readonly RuleSpan<Rule>[] {
    return this.#searches
      .flatMap(({ rule, search }) => search.find(this.#text, this.#from).map((span) => ({ ...span, rule })))
      .toSorted((a, b) => b.start - a.start)
  }

  #release(to: number, spans: readonly RuleSpan<Rule>[]): DecidedPiece<Rule> {
    const from = this.#from
    const text = this.#text.slice(from, to)
    const decided = spans
      .filter(({ end }) => end <= to)
      .map((span) => ({ ...span, start: span.start - from, end: span.end - from }))
    const received = text.length + (to > from ? this.#dropped : 0)
    if (to > from) this.#dropped = 0
    const start = Math.max(0, to - CONTEXT)
    this.#text = this.#text.slice(start)
    this.#from = to - start
    return { text, spans: decided.toReversed(), received }
  }

  /** Drops the middle of a span that goes on, which no search needs. */
  #shorten(spans: readonly RuleSpan<Rule>[]): void {
    const held = this.#text.length - this.#from
    if (held <= LONG_SPAN || !spans.some(({ start, end }) => end - start >= held)) return
    const removed = held - 2 * KEPT
    this.#text = this.#text.slice(0, this.#from + KEPT) + this.#text.slice(-KEPT)
    this.#dropped += removed
  }
}

/** Whether a position is between the two units of one character. */
const isWithinPair = (text: string, at: number): boolean =>
  /^[\ud800-\udbff][\udc00-\udfff]/.test(text.slice(at - 1, at + 1))
