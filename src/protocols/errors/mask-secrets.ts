/** Masks keys in error messages received from upstreams and cloud credential services. */

/** Keys with well-known prefixes. */
const PREFIXED =
  /(?<![A-Za-z0-9])(?:(?:sk|rk|pk|gsk|csk|xai|pplx|nvapi|hf|r8|fw|tgp|ghp|gho|ghs|github_pat|glpat|sess|ya29)[-_.]|AIza|AKIA|ASIA|eyJ)[A-Za-z0-9_\-.*~+/]{8,}/g
/** A text that may be a key. The text before it decides whether it is masked. */
const TOKEN = /[A-Za-z0-9_\-.*~+/]{8,}/g
const SCHEME_BEFORE = /(?:bearer|basic)[\s:='"`]{1,8}$/i
const KEY_BEFORE =
  /(?:key|token|secret|password|passwd|credential|authorization|signature)s?[\s:='"`(]{1,8}(?:(?:provided|is|was|of|given|value)[\s:='"`(]{1,8})?$/i

/** Masks the keys in a text: `***` and the last four characters remain. Takes linear time. */
export const maskSecrets = (text: string): string =>
  text.replaceAll(PREFIXED, maskToken).replaceAll(TOKEN, (token, at: number, source: string) => {
    const before = source.slice(Math.max(0, at - 40), at)
    if (SCHEME_BEFORE.test(before)) return maskToken(token)
    return looksRandom(token) && KEY_BEFORE.test(before) ? maskToken(token) : token
  })

const looksRandom = (token: string): boolean =>
  (token.length >= 12 && /[0-9]/.test(token) && /[A-Za-z]/.test(token)) || (token.length >= 24 && !/[./]/.test(token))

const maskToken = (token: string): string => {
  const end = token.endsWith('.') ? '.' : ''
  const bare = end ? token.slice(0, -1) : token
  return `***${bare.slice(-4)}${end}`
}
