/** Finds personal data, secrets and listed texts. */
import type { FinderKind } from '../../../core/finder-kinds.ts'
import { longestMatch } from '../../../core/linear-pattern.ts'
import { apiKeys } from './api-key.ts'
import { cards } from './card.ts'
import { emails, phones } from './contact.ts'
import { type Finder, type FoundKind, type FoundSpan, matchesOf, type Search, type TextRange } from './finder.ts'
import { ibans } from './iban.ts'
import { insees, nifs, ninos, ssns, steuerIds } from './person-number.ts'
import { wordsOf } from './words.ts'

/** `patterns`: expressions that `patternProblem` accepts. `words`: found as whole words, in upper and lower case. */
export type SearchRules = {
  readonly kinds: readonly FinderKind[]
  readonly patterns: readonly string[]
  readonly words: readonly string[]
}

/** Creates a search for all that the rules name. Its spans are in order and do not overlap. */
export const searchOf = ({ kinds, patterns, words }: SearchRules): Search => {
  const searches = kinds.map((kind) => SEARCHES[kind])
  for (const pattern of patterns) searches.push(patternSearch(pattern))
  if (words.length > 0) searches.push(wordsOf(words))
  return {
    find: (text, from) => merged(searches.flatMap(({ find }) => find(text, from))),
    open: (text, from) => searches.reduce((first, { open }) => Math.min(first, open(text, from)), text.length),
  }
}

/** The same for whole texts. */
export const finderOf = (rules: SearchRules): Finder => searchOf(rules).find

const patternSearch = (pattern: string): Search => {
  const longest = longestMatch(pattern)
  return {
    find: matchesOf('pattern', new RegExp(pattern, 'gu')),
    open: (text, from) => Math.max(from, text.length - longest),
  }
}

const SEARCHES: { readonly [kind in FinderKind]: Search } = {
  apiKey: apiKeys,
  iban: ibans,
  card: cards,
  email: emails,
  phone: phones,
  ssn: ssns,
  nino: ninos,
  nif: nifs,
  steuerid: steuerIds,
  insee: insees,
}

/** The spans in order. Those that overlap become one, of the kind that begins first or, at one position, is longer. */
export const merged = <T extends TextRange & Pick<FoundSpan, 'since'>>(spans: readonly T[]): readonly T[] => {
  if (spans.length < 2) return spans
  const out: T[] = []
  for (const span of spans.toSorted((a, b) => a.start - b.start || b.end - a.end)) {
    const last = out.at(-1)
    if (last && span.start < last.end) {
      const since = Math.min(last.since ?? last.start, span.since ?? span.start)
      const end = Math.max(last.end, span.end)
      out[out.length - 1] = { ...last, end, ...(since < last.start && { since }) }
    } else out.push(span)
  }
  return out
}

/** The text with a mark in place of each span. */
export const withoutSpans = (text: string, spans: readonly FoundSpan[]): string => {
  let out = ''
  let from = 0
  for (const { start, end, kind } of spans) {
    out += text.slice(from, start) + markOf(kind)
    from = end
  }
  return from === 0 ? text : out + text.slice(from)
}

/** The mark in place of a removed text. */
export const markOf = (kind: FoundKind): string => `[${kind}]`
