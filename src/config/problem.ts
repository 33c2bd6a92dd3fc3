import type { Env } from './env.ts'

/** Problems of a configuration, one line each: location, value found, values allowed. */

/** A value and its source: a variable's name, or a location such as `headgate.yaml:3:12`. */
export type Sourced<T> = { readonly value: T; readonly from: string }

export type Problem = {
  /** A location such as `headgate.yaml:3:12`, or a variable's name. */
  readonly where: string
  /** The setting, such as `circuit.timeout`, unless `where` names it. */
  readonly what?: string
  /** Never contains a secret. */
  readonly found: string
  readonly allowed: string
}

/** The problem as one line of text. */
export const problemLine = ({ where, what, found, allowed }: Problem): string =>
  `${where}: ${what ? `${what}: ` : ''}found ${found}; allowed: ${allowed}`

const MAX_LENGTH = 60
// Characters that break or reorder a line on a terminal: control characters, separators, direction marks.
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu

/** A value for a message: quoted, on one line, truncated. */
export const quote = (value: string): string => {
  const printable = value.replace(UNPRINTABLE, '\u{fffd}')
  const cut = printable.length > MAX_LENGTH ? `${printable.slice(0, MAX_LENGTH)}…` : printable
  return `"${cut}"`
}

const SECRET_NAME = /KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH/
// Common formats of vendors' keys, to mask a key that was put in the wrong place.
const SECRET_FORM =
  /\b(?:sk|pk|rk|gsk|csk|xai|nvapi|pplx|hf|fw|r8|tgp|AIza|AKIA|ASIA|gh[pousr]|glpat|eyJ)[-_A-Za-z0-9./+]{12,}|\bBearer\s+\S+/g
const MIN_SECRET = 8

/** Returns a function that masks secrets in a text: environment variables with secret-like names, except `harmless` ones, and `more`. */
export const maskerFor = (
  env: Env,
  more: Iterable<string> = [],
  harmless: ReadonlySet<string> = new Set(),
): ((text: string) => string) => {
  const secrets = new Set<string>()
  const add = (value: string) => {
    const bare = value.trim()
    if (bare.length >= MIN_SECRET) secrets.add(bare)
  }
  for (const [name, value] of Object.entries(env))
    if (value && SECRET_NAME.test(name) && !harmless.has(name)) {
      add(value)
      for (const one of value.split(',')) add(one)
    }
  for (const value of more) add(value)
  // Longest first, so that a secret containing another one is masked completely.
  const ordered = [...secrets].sort((a, b) => b.length - a.length)
  return (text) => {
    let masked = text
    for (const secret of ordered) {
      masked = masked.replaceAll(secret, '[redacted]')
      // `quote` truncates long values, so the beginning of a long secret is masked too.
      if (secret.length > MAX_LENGTH) masked = masked.replaceAll(secret.slice(0, MAX_LENGTH), '[redacted]')
    }
    return masked.replace(SECRET_FORM, '[redacted]')
  }
}

/** A message of a rule as the parts of a problem: its last sentence is the remedy. */
export const partsOf = (message: string): Pick<Problem, 'found' | 'allowed'> => {
  const [, found = message, remedy = ''] = /^(.*?)\.? ([A-Z][^.]*(?:\.\S[^.]*)*)\.$/s.exec(message) ?? []
  return { found: lowerFirst(found), allowed: lowerFirst(remedy) }
}

const lowerFirst = (text: string): string => text.slice(0, 1).toLowerCase() + text.slice(1)
