/** What is wrong with a configuration: one line each, where, what was found, what is allowed. */

export type Problem = {
  /** `headgate.yaml:3:12` or a variable's name. */
  readonly where: string
  /** The setting, where the place does not name it already: `circuit.timeout`. */
  readonly what?: string
  /** Never a secret's value. */
  readonly found: string
  readonly allowed: string
}

/** One line for a person. */
export const problemLine = ({ where, what, found, allowed }: Problem): string =>
  `${where}: ${what ? `${what}: ` : ''}found ${found}; allowed: ${allowed}`

const LONGEST = 60
// What would break a line or reorder it on a terminal: control characters, separators, direction marks.
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu

/** A value as a message may show it: quoted, on one line, cut. */
export const quote = (value: string): string => {
  const printable = value.replace(UNPRINTABLE, '\u{fffd}')
  const cut = printable.length > LONGEST ? `${printable.slice(0, LONGEST)}…` : printable
  return `"${cut}"`
}

const SECRET_NAME = /KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH/
// Forms in which vendors hand out keys: enough to keep one that was put into the wrong place out of a message.
const SECRET_FORM =
  /\b(?:sk|pk|rk|gsk|csk|xai|nvapi|pplx|hf|fw|r8|tgp|AIza|AKIA|ASIA|gh[pousr]|glpat|eyJ)[-_A-Za-z0-9./+]{12,}|\bBearer\s+\S+/g
const SHORTEST = 8

/** Makes the function that takes every value of the environment that looks like a secret, and `more`, out of a text; `harmless` names hold none. */
export const maskerFor = (
  env: Readonly<Record<string, string | undefined>>,
  more: Iterable<string> = [],
  harmless: ReadonlySet<string> = new Set(),
): ((text: string) => string) => {
  const secrets = new Set<string>()
  const add = (value: string) => {
    const bare = value.trim()
    if (bare.length >= SHORTEST) secrets.add(bare)
  }
  for (const [name, value] of Object.entries(env))
    if (value && SECRET_NAME.test(name) && !harmless.has(name)) {
      add(value)
      for (const one of value.split(',')) add(one)
    }
  for (const value of more) add(value)
  // The longest first: a secret that contains another one must not leave its rest behind.
  const ordered = [...secrets].sort((a, b) => b.length - a.length)
  return (text) => {
    let masked = text
    for (const secret of ordered) {
      masked = masked.replaceAll(secret, '[redacted]')
      // As `quote` cuts long values, the beginning of a long secret is looked for too.
      if (secret.length > LONGEST) masked = masked.replaceAll(secret.slice(0, LONGEST), '[redacted]')
    }
    return masked.replace(SECRET_FORM, '[redacted]')
  }
}
