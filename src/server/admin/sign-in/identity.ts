/** From the answer of an issuer to a person with groups. */
import { text } from '../../../core/json.ts'
import type { IdentityProvider, SignedIn } from '../../../core/sign-in.ts'
import { groupsIn, hasAllowedDomain, shownClaim } from '../../../policy/sign-in/claims.ts'
import { type Claims, type IssuerAnswer, type IssuerCalls, SignInRefused } from './issuer.ts'
import type { SignInRefusal } from './pages.ts'

/** Characters of a subject; OpenID Connect Core allows 255. */
const MAX_SUBJECT = 255

export type Identified =
  | { readonly ok: true; readonly person: SignedIn; readonly sid: string | null }
  | { readonly ok: false; readonly why: SignInRefusal }

const no = (why: SignInRefusal): Identified => ({ ok: false, why })

/**
 * Reads a person. Groups and e-mail address are in the ID token, or else at userinfo; the access token is never read. `before`: the
 * person as known, for a refresh without an ID token.
 */
export const identify = async (
  issuers: Pick<IssuerCalls, 'userInfo'>,
  provider: IdentityProvider,
  { claims: stated, accessToken }: Pick<IssuerAnswer, 'claims' | 'accessToken'>,
  before?: SignedIn,
): Promise<Identified> => {
  const claims: Claims = stated ?? (before ? { iss: before.issuer, sub: before.subject } : {})
  const [issuer, subject] = [text(claims.iss), text(claims.sub)]
  if (!issuer || !subject || subject.length > MAX_SUBJECT) throw new SignInRefused('the ID token has no subject', null)
  if (before && (issuer !== before.issuer || subject !== before.subject))
    throw new SignInRefused('the ID token of the refresh is of another subject', null)
  const own = groupsIn(claims, provider.groups)
  const info =
    own === 'absent' || claims.email === undefined ? await issuers.userInfo(provider, accessToken, subject) : null
  const found = own === 'absent' && info ? groupsIn(info, provider.groups) : own
  if (found === 'overage') return no('too_many_groups')
  if (found === 'invalid') return no('groups')
  // An address and whether it is verified must come from one place.
  const profile = claims.email !== undefined ? claims : (info ?? claims)
  if ((stated || info) && !hasAllowedDomain(profile, provider)) return no('domain')
  const isSilent = stated === null && found === 'absent'
  return {
    ok: true,
    sid: text(claims.sid) ?? null,
    person: {
      issuer,
      subject,
      provider: provider.name,
      email: shownClaim(profile, 'email') ?? before?.email ?? null,
      name: shownClaim(claims, 'name') ?? shownClaim(profile, 'name') ?? before?.name ?? null,
      groups: found === 'absent' ? (isSilent ? (before?.groups ?? []) : []) : found.groups,
    },
  }
}
