/** Reads the claims of an ID token or of userinfo. */
import { isList, isObject, text } from '../../core/json.ts'
import type { IdentityProvider } from '../../core/sign-in.ts'

/** Groups of a person, and characters of one; more are refused. */
const MAX = { groups: 1_000, group: 256, text: 320 }

export type FoundGroups =
  | { readonly groups: readonly string[] }
  /** `absent`: no such claim. `overage`: too many for the token (Entra above 200). `invalid`: no list of names. */
  | 'absent'
  | 'overage'
  | 'invalid'

/** The value at a name, or at a JSON pointer (RFC 6901), which begins with `/`. Names may contain dots and slashes. */
export const claimAt = (claims: unknown, path: string): unknown => {
  const steps = path.startsWith('/')
    ? path
        .slice(1)
        .split('/')
        .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'))
    : [path]
  let value = claims
  for (const step of steps) {
    if (!isObject(value) || !Object.hasOwn(value, step)) return undefined
    value = value[step]
  }
  return value
}

/**
 * The groups in claims. Entra leaves them out above its limit and names another place (Microsoft, "Configure group claims",
 * 2026-08): a person with fewer groups than in truth would have other rights, so that is no empty list.
 */
export const groupsIn = (claims: unknown, path: string): FoundGroups => {
  const value = claimAt(claims, path)
  if (value === undefined || value === null) return isOverage(claims, path) ? 'overage' : 'absent'
  const groups = isList(value) ? value : [value]
  if (groups.length > MAX.groups) return 'invalid'
  const names = groups.flatMap((one) => text(one) ?? [])
  if (names.length < groups.length || names.some((name) => name.length > MAX.group)) return 'invalid'
  return { groups: [...new Set(names)].filter((name) => name !== '') }
}

const isOverage = (claims: unknown, path: string): boolean => {
  if (!isObject(claims)) return false
  const hasGroups = claims.hasgroups
  const named = claims._claim_names
  return hasGroups === true || hasGroups === 'true' || (isObject(named) && Object.hasOwn(named, path))
}

/** A text for display and the ledger: without control characters, bounded. Null: there is none. */
export const shownClaim = (claims: unknown, name: string): string | null => {
  const value = text(claimAt(claims, name))
    ?.replaceAll(/\p{Cc}/gu, '')
    .trim()
  return value === undefined || value === '' ? null : value.slice(0, MAX.text)
}

/** Whether the e-mail address of claims is verified and has an allowed domain; true where none is required. */
export const hasAllowedDomain = (claims: unknown, { domains }: Pick<IdentityProvider, 'domains'>): boolean => {
  if (domains.length === 0) return true
  const email = shownClaim(claims, 'email')
  // Some issuers send the boolean as text.
  const verified = claimAt(claims, 'email_verified')
  if (email === null || (verified !== true && verified !== 'true')) return false
  const domain = email.slice(email.lastIndexOf('@') + 1).toLowerCase()
  return email.includes('@') && domains.some((allowed) => allowed.toLowerCase() === domain)
}
