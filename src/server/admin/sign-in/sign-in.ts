/** Single sign-on: a browser leaves for an issuer, returns with a code, and has a session of a person. */
import { randomBytes } from 'node:crypto'
import { fail } from '../../../core/failure.ts'
import type { ResponseWriter } from '../../../core/http-exchange.ts'
import type { IdentityProvider, SignedIn, SignInSettings } from '../../../core/sign-in.ts'
import type { Dial } from '../../../core/world.ts'
import { addressGroup } from '../../../policy/health/shed.ts'
import { type GroupBinding, payingTeam, rolesOf, type TeamOf } from '../../../policy/sign-in/membership.ts'
import { findPending, type PendingSignIn, returnPath, withPending } from '../../../policy/sign-in/pending.ts'
import { retriedCheck } from '../../../policy/sign-in/session-life.ts'
import type { LoginPerson, PersonLogin, RunOperation } from '../../../records/store/record-operations.ts'
import type { AdminRequest } from '../../admin-request.ts'
import { FailedAttempts } from '../../failed-attempts.ts'
import { SIGN_IN_PATHS } from '../../sign-in-paths.ts'
import { type AdminActor, isRole, type RoleBinding } from '../actor.ts'
import { sessionCookie } from '../cookies.ts'
import { SESSION_CONTEXT, type Sessions } from '../sessions.ts'
import { type BackChannelOptions, endByIssuer } from './back-channel.ts'
import { type Identified, identify } from './identity.ts'
import { type IssuerAnswer, IssuerCalls, IssuerUnavailable, SignInRefused } from './issuer.ts'
import { PAGE_HEADERS, REFUSALS, type SignInRefusal, signInPage } from './pages.ts'
import { unseal } from './sealing.ts'
import {
  callbackOf,
  messageOf,
  NO_STORE,
  noteSignIn,
  pendingCookie,
  pendingOf,
  SIGN_IN_TIME,
  type SignInStep,
  signInUrl,
  storedLogin,
} from './steps.ts'

export type SignInOptions = {
  /** Null: it is not configured. */
  readonly settings: () => SignInSettings | null
  readonly sessions: Pick<Sessions, 'createForPerson'>
  readonly run: RunOperation
  /** The ID of a team by its name or ID. */
  readonly teamOf: TeamOf
  readonly dial: Dial
  /** ms since 1970. */
  readonly now: () => number
  /** For the log: why a sign-in failed, with the issuer's own code. */
  readonly report: BackChannelOptions['report']
}

/** `reason`: for the log. `person`: known before the refusal. */
type Refused = {
  readonly provider: IdentityProvider | null
  readonly why: SignInRefusal
  readonly reason: string
  readonly person?: SignedIn
}

export class SignIn {
  readonly #options: SignInOptions
  readonly #issuers: IssuerCalls
  readonly #failed: FailedAttempts

  constructor(options: SignInOptions) {
    this.#options = options
    this.#issuers = new IssuerCalls(options.dial, options.now)
    this.#failed = new FailedAttempts(options.now)
  }

  /** Serves a path of `SIGN_IN_PATHS`. */
  async serve(settings: SignInSettings, request: AdminRequest, reply: ResponseWriter): Promise<void> {
    const { method, path } = request
    const step = { settings, request, reply }
    const wanted = path === SIGN_IN_PATHS.logout ? 'POST' : 'GET'
    if (method !== wanted)
      return request.refuse(fail('method_not_allowed', `This path takes ${wanted}, not ${method}.`), { allow: wanted })
    if (path === SIGN_IN_PATHS.login) return this.#begin(step)
    if (path === SIGN_IN_PATHS.callback) return this.#finish(step)
    const { run, report } = this.#options
    return endByIssuer(step, { issuers: this.#issuers, failed: this.#failed, run, report })
  }

  /** The actor of a session; null: its issuer is no longer configured. */
  actorOf(person: LoginPerson): AdminActor | null {
    const settings = this.#options.settings()
    if (!settings?.providers.some(({ name }) => name === person.provider)) return null
    const { id, email, name } = person
    return { kind: 'person', id, name: email ?? name ?? id, bindings: this.#bindingsOf(settings, person) }
  }

  /** The roles of a person by groups, and the ID of the team that pays for model calls. */
  membershipOf(person: Pick<SignedIn, 'provider' | 'groups'>): {
    readonly roles: readonly GroupBinding[]
    readonly team: string | null
  } {
    const settings = this.#options.settings()
    if (!settings) return { roles: [], team: null }
    const { teamOf } = this.#options
    return {
      roles: rolesOf(settings.roles, person, teamOf),
      team: payingTeam(settings.teams, person, teamOf) ?? null,
    }
  }

  /** Checks at the issuer whether a person still has access. Returns whether the session goes on. */
  async check(digest: string, person: LoginPerson, login: PersonLogin): Promise<boolean> {
    const { run, now, report } = this.#options
    const settings = this.#options.settings()
    const provider = settings?.providers.find(({ name }) => name === person.provider)
    if (!settings || !provider) return false
    const problem = (reason: string) => report({ id: null, provider: provider.name, reason })
    const end = async (reason: string) => {
      problem(`a session has ended: ${reason}`)
      await run({ do: 'login_end', digest }, SESSION_CONTEXT)
      return false
    }
    const token = login.refreshToken && unseal(settings.secrets, 'token', login.refreshToken)
    if (!token) return end('the refresh token cannot be decrypted with sso.secret')
    try {
      const answer = await this.#issuers.refresh(provider, token)
      const found = await identify(this.#issuers, provider, answer, person)
      if (!found.ok) return end(found.why)
      const tokens = { ...answer, refreshToken: answer.refreshToken ?? token }
      const next = storedLogin(settings, tokens, { begun: login.begun, checked: now() })
      const kept = { ...next, idToken: next.idToken ?? login.idToken }
      await run({ do: 'login_checked', digest, person: found.person, login: kept }, SESSION_CONTEXT)
      return true
    } catch (error) {
      const isRefused = error instanceof SignInRefused && (error.code === 'invalid_grant' || error.code === null)
      if (isRefused) return end(error.message)
      // The issuer is away, or does not know the gateway: that is not the fault of the person.
      problem(messageOf(error))
      const kept = { ...login, checked: retriedCheck(settings.session, now()) }
      await run({ do: 'login_checked', digest, person: null, login: kept }, SESSION_CONTEXT)
      return true
    }
  }

  /** The address at which a person ends the session at the issuer; null: there is none. */
  async endSession(person: LoginPerson, login: PersonLogin): Promise<string | null> {
    const settings = this.#options.settings()
    const provider = settings?.providers.find(({ name }) => name === person.provider)
    if (!settings || !provider) return null
    const idToken = login.idToken && unseal(settings.secrets, 'token', login.idToken)
    try {
      return await this.#issuers.endSessionUrl(provider, idToken, `${settings.publicUrl}/dashboard/`)
    } catch (error) {
      this.#options.report({ id: null, provider: provider.name, reason: messageOf(error) })
      return null
    }
  }

  #bindingsOf(settings: SignInSettings, person: LoginPerson): readonly RoleBinding[] {
    const byGroups = rolesOf(settings.roles, person, this.#options.teamOf).map(({ role, team }) => ({ role, team }))
    const added = person.bindings.flatMap(({ role, team }) => (isRole(role) ? [{ role, team }] : []))
    return [...byGroups, ...added]
  }

  async #begin(step: SignInStep): Promise<void> {
    const { settings, request, reply } = step
    const query = new URLSearchParams(request.query)
    // Cookies are of one host. Behind a proxy that replaces Host there is one redirect at most.
    const host = new URL(settings.publicUrl).host
    if (request.hosts[0]?.toLowerCase() !== host && !query.has('at')) {
      query.set('at', host)
      return redirectTo(reply, `${settings.publicUrl}${SIGN_IN_PATHS.login}?${query}`)
    }
    const to = returnPath(query.get('return'))
    const wanted = query.get('provider')
    const [only, another] = settings.providers
    if (wanted === null && another) return showChoice(step, to)
    const provider = wanted === null ? only : settings.providers.find(({ name }) => name === wanted)
    if (!provider) return showRefusal(step, 'unknown_provider')
    const expected = { state: randomText(), nonce: randomText(), verifier: randomText() }
    try {
      const address = await this.#issuers.authorizationUrl(provider, callbackOf(settings), expected)
      const now = this.#options.now()
      const one = { ...expected, provider: provider.name, to, until: now + SIGN_IN_TIME }
      redirectTo(reply, address, pendingCookie(settings, withPending(pendingOf(step), one, now)))
    } catch (error) {
      const why = error instanceof IssuerUnavailable ? 'unavailable' : 'misconfigured'
      await this.#refuse(step, { provider, why, reason: messageOf(error) })
    }
  }

  async #finish(step: SignInStep): Promise<void> {
    const { settings, request } = step
    if (this.#failed.waitFor(addressGroup(request.address)) > 0) return showRefusal(step, 'too_many')
    const state = new URLSearchParams(request.query).get('state') ?? ''
    const pending = findPending(pendingOf(step), state, this.#options.now())
    const provider = settings.providers.find(({ name }) => name === pending?.provider)
    if (!pending || !provider)
      return this.#refuse(step, { provider: null, why: 'not_begun', reason: 'no begun sign-in has this state' })
    const result = await this.#answerOf(step, provider, pending)
    if ('why' in result) return this.#refuse(step, { provider, ...result })
    const { answer, found } = result
    if (!found.ok) return this.#refuse(step, { provider, why: found.why, reason: found.why })
    const { sessions, now, run } = this.#options
    const at = now()
    const begun = await sessions.createForPerson(
      { person: found.person, sid: found.sid, login: storedLogin(settings, answer, { begun: at, checked: at }) },
      // Roles may be given by hand to a person, who is known after the first sign-in.
      (person) => this.#bindingsOf(settings, person).length > 0,
      settings.session,
    )
    if (!begun.ok) return this.#refuse(step, { provider, why: begun.why, reason: begun.why, person: found.person })
    const { id, email } = begun.person
    const details = { provider: provider.name }
    await noteSignIn(run, request, { action: 'login', object: id, name: email ?? id, details })
    redirectTo(step.reply, `${settings.publicUrl}${pending.to}`, sessionCookie(settings.publicUrl, begun.secret))
  }

  async #answerOf(
    { settings, request }: SignInStep,
    provider: IdentityProvider,
    pending: PendingSignIn,
  ): Promise<
    | { readonly answer: IssuerAnswer; readonly found: Identified }
    | { readonly why: SignInRefusal; readonly reason: string }
  > {
    const { query } = request
    try {
      const answer = await this.#issuers.exchange(provider, new URL(`${callbackOf(settings)}?${query}`), pending)
      return { answer, found: await identify(this.#issuers, provider, answer) }
    } catch (error) {
      const reason = messageOf(error)
      if (error instanceof IssuerUnavailable) return { why: 'unavailable', reason }
      return { why: new URLSearchParams(query).has('error') ? 'denied' : 'invalid', reason }
    }
  }

  async #refuse(step: SignInStep, { provider, why, reason, person }: Refused): Promise<void> {
    const { request } = step
    const name = provider?.name ?? ''
    this.#options.report({ id: request.id, provider: name, reason })
    if (REFUSALS[why][0] < 500) {
      this.#failed.add(addressGroup(request.address))
      const details = { why, provider: name, subject: person?.subject ?? null }
      const entry = { action: 'login.refused', object: '', name: person?.email ?? '', details } as const
      await noteSignIn(this.#options.run, request, entry)
    }
    showRefusal(step, why)
  }
}

const randomText = (): string => randomBytes(32).toString('base64url')

const redirectTo = (reply: ResponseWriter, location: string, cookie?: string): void => {
  reply.writeHead(302, { location, ...(cookie !== undefined && { 'set-cookie': cookie }), ...NO_STORE })
  reply.end()
}

const showChoice = ({ settings, request, reply }: SignInStep, to: string): void => {
  const links = settings.providers.map(({ name }) => ({ href: signInUrl(settings, name, to), text: name }))
  reply.writeHead(200, PAGE_HEADERS)
  reply.end(signInPage('Sign in', 'Choose an account.', { links, requestId: request.id }))
}

const showRefusal = ({ settings, request, reply }: SignInStep, why: SignInRefusal): void => {
  const [status, sentence] = REFUSALS[why]
  const links = [{ href: `${settings.publicUrl}/dashboard/`, text: 'Go to the dashboard' }]
  reply.writeHead(status, { ...PAGE_HEADERS, ...(status >= 429 && { 'retry-after': '60' }) })
  reply.end(signInPage('You are not signed in', sentence, { links, requestId: request.id }))
}
