/** Single sign-on: a browser leaves for an issuer, returns with a code, and has a session of a person. */
import { randomBytes } from 'node:crypto'
import { fail, good, type Outcome } from '../../../core/failure.ts'
import type { ResponseWriter } from '../../../core/http-exchange.ts'
import type { IdentityProvider, SignedIn, SignInSettings } from '../../../core/sign-in.ts'
import type { Dial } from '../../../core/world.ts'
import { addressGroup } from '../../../policy/health/shed.ts'
import { type GroupBinding, payingTeam, rolesOf, type TeamOf } from '../../../policy/sign-in/membership.ts'
import {
  DEVICE_PAGE,
  findPending,
  type PendingSignIn,
  returnPath,
  withPending,
} from '../../../policy/sign-in/pending.ts'
import { retriedCheck } from '../../../policy/sign-in/session-life.ts'
import type { LoginPerson, PersonLogin, RunOperation } from '../../../records/store/record-operations.ts'
import type { AdminRequest } from '../../admin-request.ts'
import { FailedAttempts } from '../../failed-attempts.ts'
import { SIGN_IN_PATHS } from '../../sign-in-paths.ts'
import { type AdminActor, isRole, type RoleBinding } from '../actor.ts'
import { sessionCookie } from '../cookies.ts'
import { SESSION_CONTEXT, type Sessions } from '../sessions.ts'
import { type BackChannelOptions, endByIssuer } from './back-channel.ts'
import { DevicePage } from './device-page.ts'
import { type Identified, identify } from './identity.ts'
import { type IssuerAnswer, IssuerCalls, IssuerUnavailable } from './issuer.ts'
import { PAGE_HEADERS, REFUSALS, type SignInRefusal, signInPage } from './pages.ts'
import { Programs, type ProgramsOptions } from './programs.ts'
import { recheck } from './recheck.ts'
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
  readonly claude: ProgramsOptions['claude']
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
  readonly #programs: Programs
  readonly #devicePage: DevicePage

  constructor(options: SignInOptions) {
    this.#options = options
    this.#issuers = new IssuerCalls(options.dial, options.now)
    this.#failed = new FailedAttempts(options.now)
    const { run, now, report, claude } = options
    this.#programs = new Programs({ claude, issuers: this.#issuers, run, now, report })
    this.#devicePage = new DevicePage({
      run,
      now,
      mayEnter: (settings, person) =>
        this.#bindingsOf(settings, person).length > 0 || this.membershipOf(person).team !== null,
    })
  }

  /** Serves a path of `SIGN_IN_PATHS`. */
  async serve(settings: SignInSettings, request: AdminRequest, reply: ResponseWriter): Promise<void> {
    const { method, path } = request
    const step = { settings, request, reply }
    const wanted = METHODS[path] ?? ['GET']
    if (!wanted.includes(method))
      return request.refuse(fail('method_not_allowed', `This path takes ${wanted.join(' or ')}, not ${method}.`), {
        allow: wanted.join(', '),
      })
    switch (path) {
      case SIGN_IN_PATHS.login:
        return this.#begin(step)
      case SIGN_IN_PATHS.callback:
        return this.#finish(step)
      case SIGN_IN_PATHS.metadata:
        return this.#programs.metadata(step)
      case SIGN_IN_PATHS.deviceAuthorization:
        return this.#programs.begin(step)
      case SIGN_IN_PATHS.token:
        return this.#programs.exchange(step)
      case SIGN_IN_PATHS.revoke:
        return this.#programs.revoke(step)
      case SIGN_IN_PATHS.device:
        return method === 'GET' ? this.#devicePage.show(step) : this.#devicePage.receive(step)
      default: {
        const { run, report } = this.#options
        return endByIssuer(step, { issuers: this.#issuers, failed: this.#failed, run, report })
      }
    }
  }

  /** The actor of a session; null: its issuer is no longer configured. */
  actorOf(person: LoginPerson): AdminActor | null {
    const settings = this.#options.settings()
    if (!settings?.providers.some(({ name }) => name === person.provider)) return null
    const { id, email, name } = person
    return { kind: 'person', id, name: email ?? name ?? id, bindings: this.#bindingsOf(settings, person) }
  }

  /** The person of an access token; null: it is not valid, or its sign-in has ended. */
  personOf(token: string): Promise<Outcome<LoginPerson | null>> {
    const settings = this.#options.settings()
    return settings ? this.#programs.personOf(settings, token) : Promise.resolve(good(null))
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
    const checked = await recheck(this.#issuers, settings, { person, login }, now)
    const problem = (reason: string) => report({ id: null, provider: person.provider, reason })
    if (checked.result === 'ended' || !settings) {
      problem(`a session has ended: ${checked.result === 'ended' ? checked.reason : 'single sign-on is off'}`)
      await run({ do: 'login_end', digest }, SESSION_CONTEXT)
      return false
    }
    if (checked.result === 'kept') {
      await run({ do: 'login_checked', digest, person: checked.person, login: checked.login }, SESSION_CONTEXT)
      return true
    }
    // That is not the fault of the person.
    problem(checked.reason)
    const kept = { ...login, checked: retriedCheck(settings.session, now()) }
    await run({ do: 'login_checked', digest, person: null, login: kept }, SESSION_CONTEXT)
    return true
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
    if (pending.to === DEVICE_PAGE) {
      const login = storedLogin(settings, answer, { begun: at, checked: at })
      const claimed = await this.#devicePage.claim(step, { person: found.person, login })
      if (typeof claimed === 'string')
        return this.#refuse(step, { provider, why: claimed, reason: claimed, person: found.person })
      return redirectTo(step.reply, settings.publicUrl + DEVICE_PAGE, claimed.cookie)
    }
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

/** Of the paths that take another than GET. */
const METHODS: { readonly [path: string]: readonly string[] | undefined } = {
  [SIGN_IN_PATHS.logout]: ['POST'],
  [SIGN_IN_PATHS.deviceAuthorization]: ['POST'],
  [SIGN_IN_PATHS.token]: ['POST'],
  [SIGN_IN_PATHS.revoke]: ['POST'],
  [SIGN_IN_PATHS.device]: ['GET', 'POST'],
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
