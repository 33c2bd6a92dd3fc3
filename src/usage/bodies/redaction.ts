/** Finds personal data and secrets in a text. Every search takes time linear in the length of the text. */

/** What is redacted, as named in `bodies.redact`. */
export type RedactedKind = 'email' | 'phone' | 'card' | 'iban' | 'apiKey' | 'pattern'

/** A part of a text, from `start` to before `end`. */
export type FoundSpan = { readonly start: number; readonly end: number; readonly kind: RedactedKind }

/** Finds what must not be stored. Its spans are in order and do not overlap. */
export type Redactor = (text: string) => readonly FoundSpan[]

/** `patterns`: expressions that `linearPattern` accepts. */
export type RedactionOptions = { readonly kinds: readonly string[]; readonly patterns: readonly string[] }

type Search = (text: string) => readonly FoundSpan[]

/** Creates a redactor. */
export const redactor = ({ kinds, patterns }: RedactionOptions): Redactor => {
  const searches: Search[] = SEARCHES.filter(([kind]) => kinds.includes(kind)).map(([, search]) => search)
  for (const pattern of patterns) searches.push(matchesOf('pattern', new RegExp(pattern, 'gu')))
  return (text) => merged(searches.flatMap((search) => search(text)))
}

/** Replaces spans of a text. `name`: the text for a span of this kind. */
export const withoutSpans = (text: string, spans: readonly FoundSpan[]): string => {
  let out = ''
  let from = 0
  for (const { start, end, kind } of spans) {
    out += text.slice(from, start) + markOf(kind)
    from = end
  }
  return from === 0 ? text : out + text.slice(from)
}

/** The text in place of what was removed. */
export const markOf = (kind: RedactedKind): string => `[${kind}]`

const merged = (spans: readonly FoundSpan[]): readonly FoundSpan[] => {
  if (spans.length < 2) return spans
  const out: FoundSpan[] = []
  for (const span of spans.toSorted((a, b) => a.start - b.start || b.end - a.end)) {
    const last = out.at(-1)
    if (last && span.start < last.end) out[out.length - 1] = { ...last, end: Math.max(last.end, span.end) }
    else out.push(span)
  }
  return out
}

const matchesOf =
  (kind: RedactedKind, regex: RegExp): Search =>
  (text) =>
    Array.from(text.matchAll(regex), ({ 0: { length }, index }) => ({
      start: index,
      end: index + length,
      kind,
    })).filter(({ start, end }) => end > start)

// ── E-mail ───────────────────────────────────────────────────────────────────────────────────────────────────────

/** `@`, also percent-encoded and as an escape of JSON within a string. */
const AT = /(?:@|%40|\\u0040)/gi
const LOCAL_CHAR = /[\p{L}\p{N}._%+'&=~-]/u
/** Invisible characters do not hide an address. */
const INVISIBLE = /[\u00ad\u200b-\u200f\u2060\ufeff]/
const DOMAIN = /[\p{L}\p{N}-]{1,63}(?:\.[\p{L}\p{N}-]{1,63}){1,8}/uy
const MAX_LOCAL = 256

const emails: Search = (text) => {
  const spans: FoundSpan[] = []
  let before = 0
  for (const { 0: at, index } of text.matchAll(AT)) {
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

/** With a country code: +49 30 1234567, 0049-30-1234567. */
const INTERNATIONAL = /(?<![\p{L}\p{N}_+])(?:\+|00)[1-9](?:[ ()./\u00a0-]{0,3}\d){6,14}(?!\d)/gu
/** North America: (555) 123-4567. */
const AMERICAN = /(?<![\p{L}\p{N}_.+-])\(?[2-9]\d{2}\)?[ .\u00a0-]{1,2}\d{3}[ .\u00a0-]\d{4}(?![\p{L}\p{N}_])/gu
/** With the prefix 0 of many countries: 030 1234567, 0151/12345678. */
const NATIONAL =
  /(?<![\p{L}\p{N}_.,+-])\(?0[1-9]\d{1,4}\)?[ /\u00a0-]{1,3}\d{3,9}(?:[ \u00a0-]\d{2,5}){0,3}(?![\p{L}\p{N}_])/gu

const phones: Search = (text) => [INTERNATIONAL, AMERICAN, NATIONAL].flatMap((regex) => matchesOf('phone', regex)(text))

// ── Payment card ─────────────────────────────────────────────────────────────────────────────────────────────────

/** Digits, also in groups, but no decimals. */
const DIGITS = /(?<!\d\.)(?<!\d)\d(?:[ \u00a0-]?\d)*/g
const GROUP = /\d+/g
const CARD = { least: 13, most: 19 }

const cards: Search = (text) => {
  const spans: FoundSpan[] = []
  for (const { 0: run, index } of text.matchAll(DIGITS)) {
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

// ── IBAN ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const IBAN_HEAD = /(?<![\p{L}\p{N}])[a-z]{2}\d{2}(?=[ \u00a0-]?[a-z0-9])/giu
const IBAN = { least: 15, most: 34 }

const ibans: Search = (text) => {
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

// ── API keys ─────────────────────────────────────────────────────────────────────────────────────────────────────

const PREFIXED =
  /(?<![A-Za-z0-9])(?:(?:sk|rk|pk|gsk|csk|xai|pplx|nvapi|hf|r8|fw|tgp|ghp|gho|ghs|github_pat|glpat|sess|ya29|hgk|hga|whsec|xox[abprs])[-_.]|AIza|AKIA|ASIA|eyJ)[A-Za-z0-9_\-.*~+/]{8,}/g
const SCHEME = /\b(?:bearer|basic)[\s:='"`\\]{1,8}(?=[A-Za-z0-9_\-.~+/]{8})/gi
const NAMED =
  /(?:key|token|secret|password|passwd|credential|authorization|signature)s?[\s:='"`(\\]{1,8}(?:(?:provided|is|was|of|given|value)[\s:='"`(\\]{1,8})?(?=[A-Za-z0-9_\-.*~+/!@#$%^&]{8})/gi
const VALUE = /[A-Za-z0-9_\-.*~+/!@#$%^&]{8,}/y
const PRIVATE_KEY = /-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----/g
const PRIVATE_KEY_END = /-----END [A-Z ]{0,40}PRIVATE KEY-----/g

const apiKeys: Search = (text) => [
  ...matchesOf('apiKey', PREFIXED)(text),
  ...valuesAfter(text, SCHEME),
  ...valuesAfter(text, NAMED),
  ...privateKeys(text),
]

/** The texts after a name or a scheme that look random. */
const valuesAfter = (text: string, regex: RegExp): readonly FoundSpan[] => {
  const spans: FoundSpan[] = []
  let checked = 0
  for (const { 0: name, index } of text.matchAll(regex)) {
    const start = index + name.length
    if (start < checked) continue
    VALUE.lastIndex = start
    if (!VALUE.test(text)) continue
    checked = VALUE.lastIndex
    if (looksRandom(text.slice(start, checked))) spans.push({ start, end: checked, kind: 'apiKey' })
  }
  return spans
}

/** Whether a text may be a secret rather than words. */
export const looksRandom = (token: string): boolean =>
  (/[0-9]/.test(token) && /[A-Za-z]/.test(token)) || (token.length >= 24 && !/[./]/.test(token))

const privateKeys: Search = (text) => {
  const spans: FoundSpan[] = []
  let before = 0
  for (const { index } of text.matchAll(PRIVATE_KEY)) {
    if (index < before) continue
    PRIVATE_KEY_END.lastIndex = index
    before = PRIVATE_KEY_END.test(text) ? PRIVATE_KEY_END.lastIndex : text.length
    spans.push({ start: index, end: before, kind: 'apiKey' })
  }
  return spans
}

const SEARCHES: readonly (readonly [kind: RedactedKind, search: Search])[] = [
  ['apiKey', apiKeys],
  ['iban', ibans],
  ['card', cards],
  ['email', emails],
  ['phone', phones],
]
