/** Locates syntax errors in JSON bodies, for error messages. */
import { LINE_FEED } from './char-codes.ts'
import { stringEnd } from './json-text.ts'

/** 1-based; the column counts UTF-16 code units. */
export type TextPosition = { readonly line: number; readonly column: number }

/** The error, and its index in the text. */
export type JsonMistake = { readonly what: string; readonly at: number }

/**
 * Locates the error for which `JSON.parse` rejected the text. The result quotes at most one character. V8 reports a
 * position for every error except an unexpected token and an unexpected end.
 */
export const mistakeIn = (error: unknown, source: string): JsonMistake => {
  const message = error instanceof Error ? error.message : ''
  if (message.startsWith('Unexpected token')) {
    const at = strayTokenAt(source)
    return { what: `unexpected ${JSON.stringify(characterAt(source, at))}`, at }
  }
  const position = /^(.{1,80}?)(?: in JSON)? at position (\d+)/.exec(message)
  if (position) return { what: lowerFirst(position[1] ?? ''), at: Number(position[2]) }
  return { what: 'it ends before it is complete,', at: source.length }
}

/** Describes the error with line and column. */
export const describeJsonError = (error: unknown, source: string): string => {
  const { what, at } = mistakeIn(error, source)
  return withPosition(what, positionOf(source, at))
}

export const withPosition = (what: string, { line, column }: TextPosition): string =>
  `${what} at line ${line}, column ${column}`

const characterAt = (source: string, at: number): string => String.fromCodePoint(source.codePointAt(at) ?? 0)

const lowerFirst = (text: string): string => text.charAt(0).toLowerCase() + text.slice(1)

const positionOf = (source: string, at: number): TextPosition => {
  let line = 1
  let start = 0
  // A test per code unit is faster than `indexOf` for a body of line feeds.
  for (let next = 0; next < at; next++)
    if (source.charCodeAt(next) === LINE_FEED) {
      line++
      start = next + 1
    }
  return { line, column: at - start + 1 }
}

const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y
const WORDS = ['true', 'false', 'null']
const BLANKS = /[ \t\n\r]+/y

/**
 * Index of the first unexpected token, for which V8 reports no position. One pass without recursion. V8 reports the
 * positions of all other errors.
 */
const strayTokenAt = (source: string): number => {
  let valueDue = true
  let inNewList = false
  let at = 0
  while (at < source.length) {
    const char = source.charAt(at)
    if (char <= ' ') {
      // Skips blanks together: one by one, 20 million blanks (the largest body) took 0.4 s.
      BLANKS.lastIndex = at
      if (!BLANKS.test(source)) return at
      at = BLANKS.lastIndex
      continue
    }
    if (char === ',' || char === ':') {
      if (valueDue) return at
      valueDue = true
      at++
    } else if (char === ']' || char === '}') {
      if (valueDue && !(inNewList && char === ']')) return at
      valueDue = false
      at++
    } else if (char === '[' || char === '{') {
      valueDue = char === '['
      at++
    } else {
      const end = valueEnd(source, at)
      if (end < 0) return -end - 1
      valueDue = false
      at = end
    }
    inNewList = char === '['
  }
  return source.length
}

/** Index after the string, number or word at `at`. Negative (`-bad - 1`) if it is malformed at index `bad`. */
const valueEnd = (source: string, at: number): number => {
  if (source.charAt(at) === '"') return stringEnd(source, at)
  NUMBER.lastIndex = at
  if (NUMBER.test(source)) return NUMBER.lastIndex
  const word = WORDS.find((one) => one.charAt(0) === source.charAt(at)) ?? ''
  let same = 0
  while (same < word.length && source.charAt(at + same) === word.charAt(same)) same++
  return same > 0 && same === word.length ? at + same : -(at + same) - 1
}
