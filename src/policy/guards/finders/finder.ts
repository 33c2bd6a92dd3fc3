/** A search for one kind of text. Every search takes time linear in the length of the text. */
import type { FinderKind } from '../../../core/finder-kinds.ts'

/** The kind of a found text. `pattern` and `word`: what an operator has listed; `media`: an image, a recording or a file. */
export type FoundKind = FinderKind | 'pattern' | 'word' | 'media'

/** A part of a text, from `start` to before `end`. */
export type TextRange = { readonly start: number; readonly end: number }

/** `since`: where the text begins that makes it one, such as `password: `; absent: `start`. */
export type FoundSpan = TextRange & { readonly kind: FoundKind; readonly since?: number }

/** Returns the spans in a text, from a position on. The text before it decides only whether a word begins there. */
export type Finder = (text: string, from?: number) => readonly FoundSpan[]

/** A search that also reads a text of which more may follow. */
export type Search = {
  readonly find: Finder
  /**
   * The position, `from` at least, from which on a span may begin that the text so far does not decide; the length of the text: none.
   * A found span that ends with the text may become longer, which is not stated here.
   */
  readonly open: (text: string, from: number) => number
}

/** Finds the matches of an expression with the flag `g`. `isValid`: a rule that an expression cannot state, such as a check digit. */
export const matchesOf =
  (kind: FoundKind, regex: RegExp, isValid: (match: string) => boolean = () => true): Finder =>
  (text, from = 0) =>
    Array.from(matchesFrom(text, regex, from), ({ 0: match, index }) => ({ match, index })).flatMap(
      ({ match, index }) =>
        match.length > 0 && isValid(match) ? [{ start: index, end: index + match.length, kind }] : [],
    )

/** The matches of an expression with the flag `g` that begin at a position or after it. */
export const matchesFrom = (text: string, regex: RegExp, from: number): Iterable<RegExpExecArray> => {
  regex.lastIndex = from
  return text.matchAll(regex)
}

/** The first position in the last `most` characters from which an expression that ends with `$` matches. */
export const openTail =
  (regex: RegExp, most: number): Search['open'] =>
  (text, from) => {
    // Two characters more, which decide whether a word begins.
    const start = Math.max(0, text.length - most - 2)
    const at = text.slice(start).search(regex)
    return at === -1 ? text.length : Math.max(from, start + at)
  }

/** The beginning of the run of such characters with which the text ends; not before `from`. */
export const runStart = (text: string, char: RegExp, from: number, end = text.length): number => {
  let start = end
  while (start > from && char.test(text[start - 1] ?? '')) start--
  return start
}

/** A letter of a script that is written without spaces, or that adds endings to a number. */
export const BESIDE =
  /[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Hangul}\p{scx=Thai}\p{scx=Lao}\p{scx=Khmer}\p{scx=Myanmar}]/u

/** The expression, which also matches directly beside such letters. Its classes of letters before and after begin with `\p{L}`. */
export const besideLetters = (regex: RegExp): RegExp =>
  new RegExp(regex.source.replace(/\(\?(?:<!|!)(?=\[\\p\{L\})/g, `$&(?!${BESIDE.source})`), regex.flags)
