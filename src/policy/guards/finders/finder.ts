/** A search for one kind of text. Every search takes time linear in the length of the text. */
import type { FinderKind } from '../../../core/finder-kinds.ts'

/** The kind of a found text. `pattern` and `word`: what an operator has listed. */
export type FoundKind = FinderKind | 'pattern' | 'word'

/** A part of a text, from `start` to before `end`. */
export type TextRange = { readonly start: number; readonly end: number }

export type FoundSpan = TextRange & { readonly kind: FoundKind }

/** Returns the spans in a text. */
export type Finder = (text: string) => readonly FoundSpan[]

/** Finds the matches of an expression with the flag `g`. `isValid`: a rule that an expression cannot state, such as a check digit. */
export const matchesOf =
  (kind: FoundKind, regex: RegExp, isValid: (match: string) => boolean = () => true): Finder =>
  (text) =>
    Array.from(text.matchAll(regex), ({ 0: match, index }) => ({ match, index })).flatMap(({ match, index }) =>
      match.length > 0 && isValid(match) ? [{ start: index, end: index + match.length, kind }] : [],
    )
