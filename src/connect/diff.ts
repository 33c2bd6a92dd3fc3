/** The difference between two texts by lines, with secrets masked. */
import { signedLines } from '../core/difference.ts'

/** A value after a name that suggests a secret, and the common forms of keys. */
const SECRET_VALUE =
  /((?<![\w-])(?=[\w-]*?(?:key|token|secret|password|authorization|credential))[\w-]+["']?\s*[:=]\s*)("(?:[^"\\]|\\.)*"|'[^']*'|[^\s,}'"]+)/gi
const SECRET_FORM = /\b(?:sk|pk|gsk|hgk|hga|xai)[-_][-_A-Za-z0-9]{12,}|\bBearer\s+[^"'\s]+/g

/** A placeholder, or a short number such as a limit of tokens. */
const isHarmless = (value: string): boolean => /^(?:["']?(?:Bearer )?any["']?|[0-9]{1,9})$/.test(value)

/** A name that only contains such a word is often one of a choice: `"tokenSource": "manual"`. */
const isChoice = (name: string, value: string): boolean =>
  /^["']?[A-Za-z]{1,16}["']?$/.test(value) &&
  !/(?:key|token|secret|password|authorization|credential)s?["']?\s*[:=]\s*$/i.test(name)

/** Masks values that may be secrets. `known`: secrets that are masked wherever they are. */
export const maskLine = (line: string, known: readonly string[]): string =>
  known
    .reduce((text, secret) => text.replaceAll(secret, '[redacted]'), line)
    .replace(SECRET_VALUE, (whole, name: string, value: string) =>
      isHarmless(value) || isChoice(name, value) ? whole : `${name}[redacted]`,
    )
    .replace(SECRET_FORM, (whole) => (isHarmless(whole) ? whole : '[redacted]'))

/** The changed lines with a sign, and two lines of context. Empty if the lines are equal. */
export const diffLines = (before: string, after: string, secrets: readonly string[]): readonly string[] =>
  signedLines(before, after).map((line) => maskLine(line, secrets))
