/** The issuer ends sessions (OpenID Connect Back-Channel Logout 1.0). */
import { bad, type Failure, fail, good, type Outcome } from '../../../core/failure.ts'
import { isObject, text } from '../../../core/json.ts'
import type { IdentityProvider } from '../../../core/sign-in.ts'
import { addressGroup } from '../../../policy/health/shed.ts'
import type { RunOperation } from '../../../records/store/record-operations.ts'
import type { FailedAttempts } from '../../failed-attempts.ts'
import { SESSION_CONTEXT } from '../sessions.ts'
import { type Claims, type IssuerCalls, IssuerUnavailable } from './issuer.ts'
import { REFUSALS } from './pages.ts'
import { messageOf, NO_STORE, noteSignIn, type SignInStep } from './steps.ts'

const LOGOUT_EVENT = 'http://schemas.openid.net/event/backchannel-logout'

export type BackChannelOptions = {
  readonly issuers: Pick<IssuerCalls, 'logoutClaims'>
  readonly run: RunOperation
  readonly failed: FailedAttempts
  readonly report: (problem: { readonly id: string | null; readonly provider: string; readonly reason: string }) => void
}

/** Ends the sessions that a logout token names. Answers 400 if it is not valid. */
export const endByIssuer = async (step: SignInStep, options: BackChannelOptions): Promise<void> => {
  const { request, reply } = step
  const network = addressGroup(request.address)
  if (options.failed.waitFor(network) > 0)
    return request.refuse(fail('too_many_attempts', REFUSALS.too_many[1]), NO_STORE)
  const body = await request.readBody('unknown')
  const ended = body.ok
    ? await endSessions(step, new URLSearchParams(body.value).get('logout_token') ?? '', options)
    : body
  if (!ended.ok) {
    if (ended.failure.kind === 'invalid_request') options.failed.add(network)
    return request.refuse(ended.failure, NO_STORE)
  }
  reply.writeHead(200, NO_STORE)
  reply.end()
}

const endSessions = async (
  { settings, request }: SignInStep,
  token: string,
  { issuers, run, report }: BackChannelOptions,
): Promise<Outcome<null>> => {
  const stated = unverifiedIssuer(token)
  let problem = 'a logout token of an unknown issuer'
  // Several clients of one issuer are several providers here.
  for (const provider of settings.providers.filter(({ issuer }) => isSameIssuer(issuer, stated))) {
    const named = await namedSessions(issuers, provider, token)
    if ('failure' in named) return bad(named.failure)
    if ('problem' in named) {
      problem = named.problem
      continue
    }
    const ended = await run({ do: 'login_end_by_issuer', ...named }, SESSION_CONTEXT)
    if (!ended.ok && ended.error.status !== 400) return bad(fail('storage', ended.error.message, { retryAfter: 2_000 }))
    if (!ended.ok) {
      problem = ended.error.message
      continue
    }
    const details = { provider: provider.name, by: 'issuer', sessions: ended.value.ended ?? 0 }
    await noteSignIn(run, request, { action: 'logout', object: named.subject ?? '', name: '', details })
    return good(null)
  }
  report({ id: request.id, provider: '', reason: problem })
  return bad(fail('invalid_request', 'The logout token is not valid.'))
}

type NamedSessions = {
  readonly issuer: string
  readonly subject: string | null
  readonly sid: string | null
  readonly jti: string
}

const namedSessions = async (
  issuers: BackChannelOptions['issuers'],
  provider: IdentityProvider,
  token: string,
): Promise<NamedSessions | { readonly problem: string } | { readonly failure: Failure }> => {
  let claims: Claims
  try {
    claims = await issuers.logoutClaims(provider, token)
  } catch (error) {
    if (!(error instanceof IssuerUnavailable)) return { problem: messageOf(error) }
    return { failure: fail('storage', REFUSALS.unavailable[1], { retryAfter: 2_000 }) }
  }
  const { events, nonce } = claims
  const [issuer, jti] = [text(claims.iss), text(claims.jti)]
  const [subject, sid] = [text(claims.sub) ?? null, text(claims.sid) ?? null]
  if (!isObject(events) || !isObject(events[LOGOUT_EVENT])) return { problem: 'no logout event' }
  // An ID token must not end a session.
  if (nonce !== undefined) return { problem: 'a logout token with a nonce' }
  if (!issuer || !jti || (subject === null && sid === null))
    return { problem: 'neither subject nor session, or no jti' }
  return { issuer, subject, sid, jti }
}

const isSameIssuer = (configured: string, stated: string): boolean =>
  configured.replace(/\/$/, '') === stated.replace(/\/$/, '')

/** Selects the keys with which the token is verified. */
const unverifiedIssuer = (token: string): string => {
  try {
    const claims: unknown = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())
    return isObject(claims) ? (text(claims.iss) ?? '') : ''
  } catch {
    // No JWT: no provider has this issuer.
    return ''
  }
}
