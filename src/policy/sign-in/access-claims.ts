/** The claims of access tokens that the gateway issues to people. They are the gateway's own: `iss` is its public address. */
import { isList, type JsonObject, number, text } from '../../core/json.ts'
import type { SignedIn, SignInSettings } from '../../core/sign-in.ts'
import { ACCESS_LIFE } from './device.ts'

const AUDIENCE = 'headgate'
/** Groups in a token: a header block has 16 KiB. */
const MAX_GROUPS = 50

/** A person of a token. `signIn`: the ID of the sign-in that gave it. `until`: ms since 1970. */
export type TokenPerson = Pick<SignedIn, 'provider' | 'email' | 'name' | 'groups'> & {
  readonly id: string
  readonly signIn: string
  readonly until: number
}

/** The claims of a new token. `now`: ms since 1970. */
export const accessClaims = (
  { publicUrl, teams, roles }: Pick<SignInSettings, 'publicUrl' | 'teams' | 'roles'>,
  { id, signIn, provider, email, name, groups }: Omit<TokenPerson, 'until'>,
  now: number,
): JsonObject => {
  // Those that a rule names come first, so that the paying team never depends on the number of groups.
  const named = new Set([...teams, ...roles].map(({ group }) => group))
  const ordered = [...groups.filter((one) => named.has(one)), ...groups.filter((one) => !named.has(one))]
  const kept = Math.max(MAX_GROUPS, groups.filter((one) => named.has(one)).length)
  const issued = Math.floor(now / 1_000)
  return {
    iss: publicUrl,
    aud: AUDIENCE,
    sub: id,
    sid: signIn,
    idp: provider,
    ...(email !== null && { email }),
    ...(name !== null && { name }),
    groups: ordered.slice(0, kept),
    iat: issued,
    exp: issued + ACCESS_LIFE / 1_000,
  }
}

/** The person of claims whose signature is valid, or the check that fails. */
export const readAccessClaims = (claims: JsonObject, issuer: string, now: number): TokenPerson | string => {
  if (claims.iss !== issuer) return 'iss'
  if (claims.aud !== AUDIENCE) return 'aud'
  const until = (number(claims.exp) ?? 0) * 1_000
  if (now >= until) return 'exp'
  const [id, signIn, provider] = [text(claims.sub), text(claims.sid), text(claims.idp)]
  if (!id || !signIn || !provider || !isList(claims.groups)) return 'form'
  const groups = claims.groups.flatMap((one) => text(one) ?? [])
  return { id, signIn, provider, email: text(claims.email) ?? null, name: text(claims.name) ?? null, groups, until }
}
