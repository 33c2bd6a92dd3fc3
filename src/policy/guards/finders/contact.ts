/** Finds e-mail addresses and phone numbers. */
import {
  BESIDE,
  besideLetters,
  type FoundSpan,
  matchesFrom,
  matchesOf,
  openTail,
  runStart,
  type Search,
} from './finder.ts'

// ── E-mail ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** `@`, also percent-encoded and as an escape of JSON within a string. */
const AT = /(?:@|%40|\\u0040)/gi
const LOCAL_CHAR = /[\p{L}\p{N}._%+'&=~-]/u
/** Invisible characters do not hide an address. */
const INVISIBLE = /[\u00ad\u200b-\u200f\u2060\ufeff]/
const DOMAIN = /[\p{L}\p{N}-]{1,63}(?:\.[\p{L}\p{N}-]{1,63}){1,8}/uy
/** The last label of a domain, which is no version: `name@1.0.0`. */
const TOP = /\.[^.]*\p{L}[^.]*$/u
const MAX_LOCAL = 256
/** All of the above. Some letters are two units. */
const EMAIL_CHAR = /[\p{L}\p{N}\p{Cs}._%+'&=~@\\\u00ad\u200b-\u200f\u2060\ufeff-]/u
/** Characters of the longest address with its encoded `@`. */
const LONGEST_EMAIL = MAX_LOCAL + 6 + 8 + 2 * 64 * 9

/** Also such as are encoded, or have invisible characters in them. */
export const emails: Search = {
  find: (text, from = 0) => emailsIn(text, from),
  open: (text, from) => runStart(text, EMAIL_CHAR, Math.max(from, text.length - LONGEST_EMAIL)),
}

const emailsIn = (text: string, from: number): readonly FoundSpan[] => {
  const spans: FoundSpan[] = []
  let before = from
  for (const { 0: at, index } of matchesFrom(text, AT, from)) {
    let after = index + at.length
    while (after < index + at.length + 8 && INVISIBLE.test(text[after] ?? '')) after++
    const end = domainEnd(text, after)
    if (end === after) continue
    let start = index
    const first = Math.max(before, index - MAX_LOCAL)
    const isOther = BESIDE.test(text[index - 1] ?? '')
    while (start > first && isLocal(text[start - 1] ?? '') && (isOther || !BESIDE.test(text[start - 1] ?? ''))) start--
    if (start === index) continue
    before = end
    spans.push({ start, end, kind: 'email' })
  }
  return spans
}

/** The end of the domain that begins at a position; the position: there is none. Beside a domain of Latin letters a sentence goes on. */
const domainEnd = (text: string, start: number): number => {
  DOMAIN.lastIndex = start
  const [match = ''] = DOMAIN.exec(text) ?? []
  const other = match.search(BESIDE)
  const domain = other > 0 ? match.slice(0, other) : match
  return TOP.test(domain) ? start + domain.length : start
}

const isLocal = (char: string): boolean => LOCAL_CHAR.test(char) || INVISIBLE.test(char)

// ── Phone ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** With a country code: +49 30 1234567. */
const INTERNATIONAL = besideLetters(/(?<![\p{L}\p{N}_+])\+[1-9](?:[ ()./\u00a0-]{0,3}\d){6,14}(?!\d)/gu)
/** The same with 00. Parts of a UUID may begin so. */
const ZEROS = besideLetters(/(?<![\p{L}\p{N}_+-])00[1-9](?:[ ()./\u00a0-]{0,3}\d){6,14}(?![\p{L}\p{N}_-])/gu)
/** North America: (555) 123-4567. */
const AMERICAN = besideLetters(
  /(?<![\p{L}\p{N}_.+-])\(?[2-9]\d{2}\)?[ .\u00a0-]{1,2}\d{3}[ .\u00a0-]\d{4}(?![\p{L}\p{N}_])/gu,
)
/**
 * In the groups of France, Japan and Korea, the Netherlands, New Zealand, Brazil, Russia: 01 23 45 67 89, 03-1234-5678, 06-12345678,
 * 09 123 4567, (11) 91234-5678, 8 (495) 123-45-67.
 */
const GROUPED = besideLetters(
  /(?<![\p{L}\p{N}_.,+-])(?:0[1-9](?:[ .\u00a0-]\d{2}){4}|0[1-9]-\d{4}-\d{4}|06[ -]\d{8}|0[1-9] \d{3} \d{4}|\(\d{2}\) ?\d{4,5}-\d{4}|8 ?\(\d{3}\) ?\d{3}-\d{2}-\d{2})(?![\p{L}\p{N}_-])/gu,
)
/** With the prefix 0 of many countries: 030 1234567, 0151/12345678. */
const NATIONAL = besideLetters(
  /(?<![\p{L}\p{N}_.,+-])\(?0[1-9]\d{1,4}\)?[ /\u00a0-]{1,3}\d{3,9}(?:[ \u00a0-]\d{2,5}){0,3}(?![\p{L}\p{N}_])/gu,
)

/** Numbers with a country code, and national ones with separators. */
export const phones: Search = {
  find: (text, from) => PHONES.flatMap((find) => find(text, from)),
  open: openTail(besideLetters(/(?<![\p{L}\p{N}_])[+(\d][\d+ ()./\u00a0-]{0,65}$/u), 64),
}

const PHONES = [INTERNATIONAL, ZEROS, AMERICAN, GROUPED, NATIONAL].map((regex) => matchesOf('phone', regex))
