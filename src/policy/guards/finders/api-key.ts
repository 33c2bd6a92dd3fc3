/** Finds API keys, tokens, passwords and private keys. */
import { type Finder, type FoundSpan, matchesOf } from './finder.ts'

const PREFIXED =
  /(?<![A-Za-z0-9])(?:(?:sk|rk|pk|gsk|csk|xai|pplx|nvapi|hf|r8|fw|tgp|ghp|gho|ghs|github_pat|glpat|sess|ya29|hgk|hga|whsec|xox[abprs])[-_.]|AIza|AKIA|ASIA|eyJ)[A-Za-z0-9_\-.*~+/]{8,}/g
const SCHEME = /\b(?:bearer|basic)[\s:='"`\\]{1,8}(?=[A-Za-z0-9_\-.~+/]{8})/gi
/** A name with a bracket and no quotation mark is a call in a program. */
const NAMED =
  /(?:key|token|secret|password|passwd|credential|authorization|signature)s?(?!\([^'"`])[\s:='"`(\\]{1,8}(?:(?:provided|is|was|of|given|value)[\s:='"`(\\]{1,8})?(?=[A-Za-z0-9_\-.*~+/!@#$%^&]{8})/gi
const VALUE = /[A-Za-z0-9_\-.*~+/!@#$%^&]{8,}/y
const PRIVATE_KEY = /-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----/g
const PRIVATE_KEY_END = /-----END [A-Z ]{0,40}PRIVATE KEY-----/g

/** Known prefixes, values after a scheme or a name such as `key=`, and private keys in PEM. */
export const apiKeys: Finder = (text) => [
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

const privateKeys: Finder = (text) => {
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
