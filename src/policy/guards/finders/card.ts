/** Finds numbers of payment cards. */
import { type FoundSpan, matchesFrom, openTail, type Search } from './finder.ts'

/** Digits, also in groups, but no decimals and no hexadecimal numbers such as parts of a UUID. */
const DIGITS = /(?<!\d\.)(?<!\d)(?<!(?<!\w)[\da-f]{0,7}[a-f])\d(?:[ \u00a0-]?\d)*(?![\da-f])/gi
const GROUP = /\d+/g
const CARD = { least: 13, most: 19 }

/** Numbers that pass the check of ISO/IEC 7812 (Luhn). */
export const cards: Search = {
  find: (text, from = 0) => cardsIn(text, from),
  open: openTail(/(?<!\d)\d[\d \u00a0-]{0,49}$/, 48),
}

const cardsIn = (text: string, from: number): readonly FoundSpan[] => {
  const spans: FoundSpan[] = []
  for (const { 0: run, index } of matchesFrom(text, DIGITS, from)) {
    if (run.length < CARD.least) continue
    const groups = Array.from(run.matchAll(GROUP), (group) => ({ start: index + group.index, digits: group[0] }))
    for (let first = 0; first < groups.length; ) {
      const count = cardFrom(groups, first)
      const [start, last] = [groups[first], groups[first + count - 1]]
      if (count > 0 && start && last)
        spans.push({ start: start.start, end: last.start + last.digits.length, kind: 'card' })
      first += Math.max(1, count)
    }
  }
  return spans
}

/** The number of groups from `first` on that are a card number; 0: none. */
const cardFrom = (groups: readonly { readonly digits: string }[], first: number): number => {
  const start = groups[first]?.digits ?? ''
  // Numbers of cards begin with 2 to 6, and are printed in groups of four, or four, six and five.
  if (!/^[2-6]/.test(start) || (start.length !== 4 && start.length < CARD.least)) return 0
  let digits = ''
  for (let at = first; at < groups.length && digits.length <= CARD.most; at++) {
    digits += groups[at]?.digits ?? ''
    if (digits.length >= CARD.least && digits.length <= CARD.most && passesLuhn(digits)) return at - first + 1
  }
  return 0
}

const passesLuhn = (digits: string): boolean => {
  let sum = 0
  for (let at = 0; at < digits.length; at++) {
    const digit = Number(digits[digits.length - 1 - at])
    const doubled = at % 2 === 0 ? digit : digit * 2
    sum += doubled > 9 ? doubled - 9 : doubled
  }
  return sum % 10 === 0
}
