/** The client that a token and its team make. */
import type { Client, Team } from '../../core/accounts.ts'
import type { TokenIdentity } from '../../core/token-rule.ts'
import { clientOf } from '../accounts/client.ts'

/** `id`: `jwt_` and 12 letters. `owner`: a longer digest of the same, so that no other subject can be made to own its responses. */
export type SubjectIds = { readonly id: string; readonly owner: string }

/**
 * A subject is one of an issuer and of the claim that names it: another rule for the issuer may use a claim whose values its clients
 * choose. Issuers and names of claims have no spaces.
 */
export const subjectKey = ({ rule, subject }: Pick<TokenIdentity, 'rule' | 'subject'>): string =>
  `${rule.keys.issuer} ${rule.subject} ${subject}`

/** The parts of a `subjectKey`. */
export const parseSubjectKey = (
  key: string,
): { readonly issuer: string; readonly claim: string; readonly subject: string } => {
  const [issuer = '', claim = '', ...rest] = key.split(' ')
  return { issuer, claim, subject: rest.join(' ') }
}

/** As the client of a key that the subject names. */
export const tokenClient = (
  { rule, subject, user, tags }: TokenIdentity,
  { id, owner }: SubjectIds,
  team: Team,
): Client => {
  const { access, limits, dataPolicy: require, defaultRoute, cache, logBodies, requireSession } = rule
  const key = { id, name: subject, access, limits, require, defaultRoute, cache, logBodies, requireSession, tags }
  const client = clientOf(key, team)
  return { ...client, owner, user: rule.user === null ? client.user : user }
}
