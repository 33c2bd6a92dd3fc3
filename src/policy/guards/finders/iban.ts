/** Finds numbers of bank accounts. */
import { besideLetters, type FoundSpan, matchesFrom, openTail, type Search } from './finder.ts'

const IBAN_HEAD = besideLetters(/(?<![\p{L}\p{N}])[a-z]{2}\d{2}(?=[ \u00a0-]?[a-z0-9])/giu)
/** Characters of a number by country, of the registry of ISO 13616. */
const LENGTHS: ReadonlyMap<string, number> = new Map(
  [
    'AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29 ES24',
    'FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32',
    'LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24',
    'RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30',
  ].flatMap((line) => line.split(' ').map((entry) => [entry.slice(0, 2), Number(entry.slice(2))] as const)),
)

/** Numbers with the length of their country that pass the check of ISO 13616 (modulo 97). */
export const ibans: Search = {
  find: (text, from = 0) => ibansIn(text, from),
  open: (text, from) => {
    for (const { index } of matchesFrom(text, IBAN_HEAD, Math.max(from, text.length - LONGEST)))
      if (ibanEnd(text, index) === OPEN) return index
    return openHead(text, from)
  },
}

/** Characters of the longest number with a space after each. */
const LONGEST = 68
const openHead = openTail(
  besideLetters(/(?<![\p{L}\p{N}])[a-z](?:[a-z]\d{0,2})?$|(?<![\p{L}\p{N}])[a-z]{2}\d{2}[ \u00a0]$/iu),
  5,
)

const ibansIn = (text: string, from: number): readonly FoundSpan[] => {
  const spans: FoundSpan[] = []
  let before = from
  for (const { index } of matchesFrom(text, IBAN_HEAD, from)) {
    if (index < before) continue
    const end = ibanEnd(text, index)
    if (end <= 0) continue
    spans.push({ start: index, end, kind: 'iban' })
    before = end
  }
  return spans
}

/** More text may complete a number. */
const OPEN = -1

/** The end of the valid account number at a position; 0: none; `OPEN`. */
const ibanEnd = (text: string, start: number): number => {
  const length = LENGTHS.get(text.slice(start, start + 2).toUpperCase()) ?? 0
  let chars = ''
  for (let at = start; at < text.length && chars.length < length; at++) {
    const char = text[at] ?? ''
    if (/[ \u00a0-]/.test(char)) {
      if (/[ \u00a0-]/.test(text[at + 1] ?? '')) return 0
      continue
    }
    if (!/[A-Za-z0-9]/.test(char)) return 0
    chars += char
    if (chars.length === length) return !/[A-Za-z0-9]/.test(text[at + 1] ?? '') && passesMod97(chars) ? at + 1 : 0
  }
  return length === 0 ? 0 : OPEN
}

const passesMod97 = (iban: string): boolean => {
  let rest = 0
  for (const char of iban.slice(4) + iban.slice(0, 4)) {
    const value = Number.parseInt(char, 36)
    rest = (rest * (value > 9 ? 100 : 10) + value) % 97
  }
  return rest === 1
}
