/** Finds API keys, tokens, passwords and private keys. */
import { type Finder, type FoundSpan, matchesFrom, matchesOf, openTail, runStart, type Search } from './finder.ts'

/** Prefixes that no word has, and those that also begin names, whose keys are long and have digits: as in the rules of gitleaks. */
const PREFIXED =
  /(?<![A-Za-z0-9])(?:(?:(?:sk|rk|pk|gsk|csk|xai|pplx|nvapi|hf|r8|fw|tgp|ghp|gho|ghs|github_pat|glpat|sess|ya29|hgk|hga|whsec|xox[abprs])[-_.]|AIza|AKIA|ASIA|eyJ)[A-Za-z0-9_\-.*~+/]{8,}|(?:gh[ru]_|gl[a-z]{2,5}-|xapp-|npm_|pypi-AgEIcHlwaS5vcmc|SG\.|do[por]_v1_|shp(?:at|ca|pa|ss)_|hv[sbr]\.|dckr_[op]at_|lin_api_|ntn_|figd_|glsa_|sntry[su]_|PMAK-|ATATT3|dapi(?=[\da-f]{20})|AGE-SECRET-KEY-1)(?=[A-Za-z0-9_\-.=]{0,32}\d)[A-Za-z0-9_\-.=]{20,})/g
const SCHEME = /\b(?:bearer|basic)[\s:='"`\\]{1,8}(?=[A-Za-z0-9_\-.~+/]{8})/gi
/** A name with a bracket and no quotation mark is a call in a program. */
const NAMED =
  /(?:key|token|secret|password|passwd|credential|authorization|signature)s?(?!\([^'"`])[\s:='"`(\\]{1,8}(?:(?:provided|is|was|of|given|value)[\s:='"`(\\]{1,8})?(?=[A-Za-z0-9_\-.*~+/!@#$%^&]{8})/gi
const VALUE = /[A-Za-z0-9_\-.*~+/!@#$%^&]{8,}/y
const PRIVATE_KEY = /-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----/g
const PRIVATE_KEY_END = /-----END [A-Z ]{0,40}PRIVATE KEY-----/g

/** Known prefixes, values after a scheme or a name such as `key=`, and private keys in PEM. */
export const apiKeys: Search = {
  find: (text, from = 0) => [
    ...matchesOf('apiKey', PREFIXED)(text, from),
    ...valuesAfter(text, SCHEME, from),
    ...valuesAfter(text, NAMED, from),
    ...privateKeys(text, from),
  ],
  open: (text, from) =>
    Math.min(
      Math.max(runStart(text, PREFIXED_CHAR, from), text.length - LONGEST_PREFIX),
      openName(text, from),
      openPrivateKey(text, from),
    ),
}

/** The texts after a name or a scheme that look random. */
const valuesAfter = (text: string, regex: RegExp, from: number): readonly FoundSpan[] => {
  const spans: FoundSpan[] = []
  let checked = from
  for (const { 0: name, index } of matchesFrom(text, regex, from)) {
    const start = index + name.length
    if (start < checked) continue
    VALUE.lastIndex = start
    if (!VALUE.test(text)) continue
    checked = VALUE.lastIndex
    if (looksRandom(text.slice(start, checked))) spans.push({ start, end: checked, kind: 'apiKey', since: index })
  }
  return spans
}

/** Whether a text may be a secret rather than words. */
export const looksRandom = (token: string): boolean =>
  (/[0-9]/.test(token) && /[A-Za-z]/.test(token)) || (token.length >= 24 && !/[./]/.test(token))

const privateKeys: Finder = (text, from = 0) => {
  const spans: FoundSpan[] = []
  let before = from
  for (const { index } of matchesFrom(text, PRIVATE_KEY, from)) {
    if (index < before) continue
    PRIVATE_KEY_END.lastIndex = index
    before = PRIVATE_KEY_END.test(text) ? PRIVATE_KEY_END.lastIndex : text.length
    spans.push({ start: index, end: before, kind: 'apiKey' })
  }
  return spans
}

// ── A text of which more may follow ────────────────────────────────────────────────────────────────────────────────

const PREFIXED_CHAR = /[A-Za-z0-9_\-.*~+/=]/
/** Characters of the longest prefix, of the shortest value, and of the one before. */
const LONGEST_PREFIX = 41
const VALUE_CHAR = /[A-Za-z0-9_\-.*~+/!@#$%^&]/
const GAP_CHAR = /[\s:='"`(\\]/
const LONGEST_GAP = 8
const NAME_END = /(?:key|token|secret|password|passwd|credential|authorization|signature|bearer|basic)s?$/i
const WORD_END = /(?:provided|is|was|of|given|value)$/i
const LONGEST_NAME = 14

const openPrivateKey = openTail(/-{1,5}$|-----B[A-Z -]{0,75}$/, 82)

/** Where a name begins whose value is not complete: a name, a gap, perhaps a word and a gap, and the value so far. */
const openName = (text: string, from: number): number => {
  let start = runStart(text, VALUE_CHAR, from)
  // The last word may be a name, or its beginning.
  const open = Math.max(start, text.length - LONGEST_NAME)
  for (let words = 0; words < 2; words++) {
    const gap = runStart(text, GAP_CHAR, Math.max(from, start - LONGEST_GAP), start)
    if (gap === start) return open
    const before = text.slice(Math.max(from, gap - LONGEST_NAME), gap)
    const name = NAME_END.exec(before)
    if (name) return Math.min(open, gap - before.length + name.index)
    const word = WORD_END.exec(before)
    if (!word) return open
    start = gap - before.length + word.index
  }
  return open
}
