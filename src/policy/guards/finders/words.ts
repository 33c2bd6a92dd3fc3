/** Finds listed words and phrases: all of them in one pass, by a tree of their characters. */
import type { FoundSpan, Search } from './finder.ts'

/** A character of a word: what follows it, and whether a word ends with it. */
type Node = { readonly next: Map<string, Node>; isEnd: boolean }

/** Finds words in upper and lower case, but not within other words; of several at one position the longest. */
export const wordsOf = (words: readonly string[]): Search => {
  const root: Node = { next: new Map(), isEnd: false }
  for (const word of words) addWord(root, lowerCase(word))
  const longest = Math.max(...words.map(({ length }) => length))
  const mayBegin = (lower: string, at: number) => root.next.has(lower[at] ?? '') && !isWithinWord(lower, at)
  return {
    find: (text, from = 0) => {
      const lower = lowerCase(text)
      const spans: FoundSpan[] = []
      for (let start = from; start < lower.length; ) {
        const end = mayBegin(lower, start) ? longestEnd(root, lower, start) : 0
        if (end > 0) spans.push({ start, end, kind: 'word' })
        start = Math.max(start + 1, end)
      }
      return spans
    },
    open: (text, from) => {
      const lower = lowerCase(text)
      for (let start = Math.max(from, text.length - longest); start < text.length; start++)
        if (mayBegin(lower, start) && isOpen(root, lower, start)) return start
      return text.length
    },
  }
}

/** Whether the text from a position on is the beginning of a word, or a word which the next character may continue. */
const isOpen = (root: Node, text: string, start: number): boolean => {
  let node: Node | undefined = root
  for (let at = start; node && at < text.length; at++) node = node.next.get(text[at] ?? '')
  return node !== undefined
}

const addWord = (root: Node, word: string): void => {
  let node = root
  for (let at = 0; at < word.length; at++) {
    const char = word[at] ?? ''
    const next = node.next.get(char) ?? { next: new Map(), isEnd: false }
    node.next.set(char, next)
    node = next
  }
  node.isEnd = true
}

/** The end of the longest word at a position; 0: none. */
const longestEnd = (root: Node, text: string, start: number): number => {
  let end = 0
  let node = root.next.get(text[start] ?? '')
  for (let at = start + 1; node; at++) {
    if (node.isEnd && !isWithinWord(text, at)) end = at
    node = node.next.get(text[at] ?? '')
  }
  return end
}

/** Letters and digits of scripts that separate words. */
const WORD_CHAR =
  /[[\p{L}\p{M}\p{N}_]--[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Thai}\p{sc=Laoo}\p{sc=Khmr}\p{sc=Mymr}]]/v

/** Whether a position has parts of one word on both sides. */
const isWithinWord = (text: string, at: number): boolean =>
  WORD_CHAR.test(text[at - 1] ?? '') && WORD_CHAR.test(text[at] ?? '')

/**
 * The text in lower case with a space for each white space, and of the same length, so that positions remain. Sigma has one form,
 * because which of two it has depends on what follows.
 */
const lowerCase = (text: string): string => {
  const lower = text.toLowerCase()
  const same = lower.length === text.length ? lower : Array.from(text, lowerChar).join('')
  return same.replaceAll(/\s/g, ' ').replaceAll('ς', 'σ')
}

const lowerChar = (char: string): string => {
  const lower = char.toLowerCase()
  return lower.length === char.length ? lower : char
}
