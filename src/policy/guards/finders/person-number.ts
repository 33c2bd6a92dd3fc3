/** Finds numbers by which states identify persons. All but the first two have check digits, so that few other numbers match. */
import { besideLetters, matchesOf, openTail, type Search } from './finder.ts'

/** USA, social security number, with separators. Areas, groups and serial numbers that are never given out are no match. */
export const ssns: Search = {
  find: matchesOf(
    'ssn',
    besideLetters(/(?<![\p{L}\p{N}_.-])(?!000|666|9)\d{3}([ \u00a0-])(?!00)\d{2}\1(?!0000)\d{4}(?![\p{L}\p{N}_-])/gu),
  ),
  open: openTail(besideLetters(/(?<![\p{L}\p{N}_])\d[\d \u00a0-]{0,13}$/u), 12),
}

/** United Kingdom, national insurance number: prefixes that are given out, and a suffix from A to D. */
export const ninos: Search = {
  find: matchesOf(
    'nino',
    besideLetters(
      /(?<![\p{L}\p{N}_])(?!BG|GB|KN|NK|NT|TN|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z](?:[ \u00a0-]?\d{2}){3}[ \u00a0-]?[A-D](?![\p{L}\p{N}_])/giu,
    ),
  ),
  open: openTail(besideLetters(/(?<![\p{L}\p{N}_])[A-Z]{1,2}(?:[ \u00a0-]?\d){0,6}[ \u00a0-]?[A-D]?$/iu), 16),
}

// ── Spain ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const NIF = besideLetters(
  /(?<![\p{L}\p{N}_])(?:\d{2}[. ]?\d{3}[. ]?\d{3}|[XYZ][ \u00a0-]?\d{7})[ \u00a0-]?[A-HJ-NP-TV-Z](?![\p{L}\p{N}_])/giu,
)
/** The letter for each remainder. */
const NIF_LETTERS = 'TRWAGMYFPDXBNJZSQVHLCKE'

/** Spain, number of a citizen (DNI) or a foreigner (NIE), with its letter. */
export const nifs: Search = {
  find: matchesOf('nif', NIF, (match) => {
    const number = compact(match).replace(/^[XYZ]/, (letter) => `${'XYZ'.indexOf(letter)}`)
    return NIF_LETTERS[Number(number.slice(0, -1)) % NIF_LETTERS.length] === number.slice(-1)
  }),
  open: openTail(besideLetters(/(?<![\p{L}\p{N}_])[XYZ\d][\d. \u00a0-]{0,15}[A-Z]?$/iu), 14),
}

// ── Germany ────────────────────────────────────────────────────────────────────────────────────────────────────────

const STEUER_ID = besideLetters(
  /(?<![\p{L}\p{N}_.,-])[1-9]\d[ \u00a0]?\d{3}[ \u00a0]?\d{3}[ \u00a0]?\d{3}(?![\p{L}\p{N}_-])/gu,
)

/** Germany, tax number of a person: one of its first ten digits occurs two or three times, and the last is a check digit. */
export const steuerIds: Search = {
  find: matchesOf('steuerid', STEUER_ID, (match) => {
    const digits = compact(match)
    const first = [...digits.slice(0, -1)]
    const counts = [...new Set(first)].map((digit) => first.filter((other) => other === digit).length)
    const repeated = counts.filter((count) => count > 1)
    return repeated.length === 1 && (repeated[0] ?? 0) <= 3 && checkDigit(first) === Number(digits.slice(-1))
  }),
  open: openTail(besideLetters(/(?<![\p{L}\p{N}_])[1-9][\d \u00a0]{0,17}$/u), 16),
}

/** ISO/IEC 7064, modulo 11, 10. */
const checkDigit = (digits: readonly string[]): number => {
  let product = 10
  for (const digit of digits) product = (((Number(digit) + product) % 10 || 10) * 2) % 11
  return (11 - product) % 10
}

// ── France ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const INSEE = besideLetters(
  /(?<![\p{L}\p{N}_.,-])[1-478][ \u00a0]?\d{2}[ \u00a0]?(?:0[1-9]|1[0-2]|[2-9]\d)[ \u00a0]?(?:\d{2}|2[AB])[ \u00a0]?\d{3}[ \u00a0]?\d{3}[ \u00a0]?\d{2}(?![\p{L}\p{N}_-])/giu,
)

/** France, number of the social security with its key. The departments of Corsica have letters, which count as 19 and 18. */
export const insees: Search = {
  find: matchesOf('insee', INSEE, (match) => {
    const number = compact(match).replace('2A', '19').replace('2B', '18')
    return 97 - (Number(number.slice(0, 13)) % 97) === Number(number.slice(13))
  }),
  open: openTail(besideLetters(/(?<![\p{L}\p{N}_])[1-478][\d \u00a0]{0,25}(?:2[AB][\d \u00a0]{0,25})?$/iu), 24),
}

const compact = (match: string): string => match.replaceAll(/[^\p{L}\p{N}]/gu, '').toUpperCase()
