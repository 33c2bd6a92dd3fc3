/** Finds e-mail addresses and phone numbers. */
import { type FoundSpan, matchesFrom, matchesOf, openTail, runStart, type Search } from './finder.ts'

// ── E-mail ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** `@`, also percent-encoded and as an escape of JSON within a string. */
const AT = /(?:@|%40|\\u0040)/gi
const LOCAL_CHAR = /[\p{L}\p{N}._%+'&=~-]/u
/** Invisible characters do not hide an address. */
const INVISIBLE = /[\u00ad\u200b-\u200f\u2060\ufeff]/
const DOMAIN = /[\p{L}\p{N}-]{1,63}(?:\.[\p{L}\p{N}-]{1,63}){1,8}/uy
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
    DOMAIN.lastIndex = after
    if (!DOMAIN.test(text)) continue
    let start = index
    const first = Math.max(before, index - MAX_LOCAL)
    while (start > first && isLocal(text[start - 1] ?? '')) start--
    if (start === index) continue
    before = DOMAIN.lastIndex
    spans.push({ start, end: before, kind: 'email' })
  }
  return spans
}

const isLocal = (char: string): boolean => LOCAL_CHAR.test(char) || INVISIBLE.test(char)

// ── Phone ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** With a country code: +49 30 1234567. */
const INTERNATIONAL = /(?<![\p{L}\p{N}_+])\+[1-9](?:[ ()./\u00a0-]{0,3}\d){6,14}(?!\d)/gu
/** The same with 00. Parts of a UUID may begin so. */
const ZEROS = /(?<![\p{L}\p{N}_+-])00[1-9](?:[ ()./\u00a0-]{0,3}\d){6,14}(?![\p{L}\p{N}_-])/gu
/** North America: (555) 123-4567. */
const AMERICAN = /(?<![\p{L}\p{N}_.+-])\(?[2-9]\d{2}\)?[ .\u00a0-]{1,2}\d{3}[ .\u00a0-]\d{4}(?![\p{L}\p{N}_])/gu
/** With the prefix 0 of many countries: 030 1234567, 0151/12345678. */
const NATIONAL =
  /(?<![\p{L}\p{N}_.,+-])\(?0[1-9]\d{1,4}\)?[ /\u00a0-]{1,3}\d{3,9}(?:[ \u00a0-]\d{2,5}){0,3}(?![\p{L}\p{N}_])/gu

/** Numbers with a country code, and national ones with separators. */
export const phones: Search = {
  find: (text, from) => PHONES.flatMap((find) => find(text, from)),
  open: openTail(/(?<![\p{L}\p{N}_])[+(\d][\d+ ()./\u00a0-]{0,65}$/u, 64),
}

const PHONES = [INTERNATIONAL, ZEROS, AMERICAN, NATIONAL].map((regex) => matchesOf('phone', regex))
