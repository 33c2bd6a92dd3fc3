/** Claims about the data policy: `team=health: region in eu,local; retention=0`. */
import type { Require } from '../../core/data-policy.ts'
import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import { parseRequire, requireText } from '../accounts/data-policy.ts'

/** Which requests a claim is about: those that match every member; absent: all. */
export type ClaimSelector = {
  /** Name or ID. */
  readonly team?: string
  /** Name or ID. */
  readonly key?: string
  readonly route?: string
  /** The name that a client sends as `model`. */
  readonly model?: string
  readonly style?: string
}

/** Every target that these requests may reach satisfies the condition. */
export type Claim = { readonly selector: ClaimSelector; readonly require: Require }

/** Characters of the longest claim. */
export const MAX_CLAIM = 1_000

const SELECTORS: ReadonlySet<string> = new Set([
  'team',
  'key',
  'route',
  'model',
  'style',
] satisfies (keyof ClaimSelector)[])

const EXAMPLE = 'team=health: region in eu,local; retention=0'

/** Parses a claim. */
export const parseClaim = (text: string): Outcome<Claim> => {
  if (text.length > MAX_CLAIM) return invalid(`it has ${text.length} characters (limit ${MAX_CLAIM})`)
  // Names of models may contain colons: `llama3:8b`.
  const colon = text.lastIndexOf(':')
  if (colon === -1) return invalid('it has no colon between the selector and the conditions')
  const selector = selectorOf(text.slice(0, colon).trim())
  if (typeof selector === 'string') return invalid(selector)
  const conditions = text.slice(colon + 1).replace(/\bregion[ \t]{1,20}in[ \t]{1,20}/gi, 'region=')
  const require = parseRequire(conditions)
  if (!require.ok)
    return invalid(`its conditions ${JSON.stringify(conditions.trim().slice(0, 100))} are not understood`)
  return good({ selector, require: require.value })
}

/** The problem as text, if there is one. */
const selectorOf = (text: string): ClaimSelector | string => {
  if (text === 'all') return {}
  const selector: { -readonly [name in keyof ClaimSelector]: string } = {}
  for (const part of text.split(/[ \t]+/)) {
    const equals = part.indexOf('=')
    const name = part.slice(0, Math.max(0, equals))
    const value = part.slice(equals + 1)
    if (!isSelector(name) || value === '' || selector[name] !== undefined)
      return `${JSON.stringify(part.slice(0, 100))} is no selector; it must be all, or of ${[...SELECTORS].join(', ')} each once`
    selector[name] = value
  }
  return selector
}

const isSelector = (name: string): name is keyof ClaimSelector => SELECTORS.has(name)

const invalid = (problem: string): Outcome<Claim> =>
  bad(fail('invalid_value', `The claim is not valid: ${problem}. Write it as ${EXAMPLE}.`, { param: 'claim' }))

/** A claim in its normal form. */
export const claimText = ({ selector, require }: Claim): string => {
  const parts = Object.entries(selector).map(([name, value]) => `${name}=${value}`)
  return `${parts.length === 0 ? 'all' : parts.join(' ')}: ${requireText(require)}`
}
