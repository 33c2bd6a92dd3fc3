/** Finds numbers of bank accounts. */
import type { Finder, FoundSpan } from './finder.ts'

const IBAN_HEAD = /(?<![\p{L}\p{N}])[a-z]{2}\d{2}(?=[ \u00a0-]?[a-z0-9])/giu
const IBAN = { least: 15, most: 34 }

/** Numbers that pass the check of ISO 13616 (modulo 97). */
export const ibans: Finder = (text) => {
  const spans: FoundSpan[] = []
  let before = 0
  for (const { index } of text.matchAll(IBAN_HEAD)) {
    if (index < before) continue
    const end = ibanEnd(text, index)
    if (end === 0) continue
    spans.push({ start: index, end, kind: 'iban' })
    before = end
  }
  return spans
}

/** The end of the longest valid account number at a position; 0: none. */
const ibanEnd = (text: string, start: number): number => {
  let chars = ''
  let end = 0
  for (let at = start; at < text.length && chars.length <= IBAN.most; at++) {
    const char = text[at] ?? ''
    if (/[ \u00a0-]/.test(char)) {
      if (/[ \u00a0-]/.test(text[at + 1] ?? '')) break
      continue
    }
    if (!/[A-Za-z0-9]/.test(char)) break
    chars += char
    const isEnd = !/[A-Za-z0-9]/.test(text[at + 1] ?? '')
    if (isEnd && chars.length >= IBAN.least && chars.length <= IBAN.most && passesMod97(chars)) end = at + 1
  }
  return end
}

const passesMod97 = (iban: string): boolean => {
  let rest = 0
  for (const char of iban.slice(4) + iban.slice(0, 4)) {
    const value = Number.parseInt(char, 36)
    rest = (rest * (value > 9 ? 100 : 10) + value) % 97
  }
  return rest === 1
}
