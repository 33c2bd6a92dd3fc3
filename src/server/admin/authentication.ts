/** The actor of a request: by token, by session, or as a request of this machine. */
import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import { accessProblem } from '../../policy/access.ts'
import { keyKindOf } from '../../policy/accounts/client-key.ts'
import { addressGroup } from '../../policy/health/shed.ts'
import type { LoginPerson, PersonLogin } from '../../records/store/record-operations.ts'
import type { AdminRequest } from '../admin-request.ts'
import { credentialsOf } from '../client-formats.ts'
import { FailedAttempts } from '../failed-attempts.ts'
import { isMistyped } from '../key-index.ts'
import { ACCESS_TOKEN } from '../signed-tokens.ts'
import { type AdminActor, BOOTSTRAP, LOCAL } from './actor.ts'
import type { AdminTokens } from './admin-tokens.ts'
import { cookieName, cookieWith, cookieWithout, sessionCookieOf } from './cookies.ts'
import { isEqualSecret, type Session, type Sessions, sealOf } from './sessions.ts'

/** The header that repeats the value of the session on every write. */
export const CSRF_HEADER = 'x-headgate-csrf'

/** An authenticated request. `session`: present if its cookie was used. */
export type Authenticated = {
  readonly actor: AdminActor
  readonly session?: Session
  /** The person of an access token. */
  readonly person?: LoginPerson
}

export type AuthenticationOptions = {
  /** ms since 1970. */
  readonly now: () => number
  readonly production: boolean
  /** The admin tokens of the database. */
  readonly tokens: Pick<AdminTokens, 'actorOf' | 'current'>
  readonly sessions: Pick<Sessions, 'create' | 'find' | 'end' | 'forget' | 'isKnown'>
  /** Single sign-on; absent: there is none, and sessions of people are not valid. */
  readonly signIn?: PersonAccess
  /** Reads tokens that others have stored. */
  readonly lookUp?: () => Promise<boolean>
}

/** What single sign-on knows of the person of a session. */
export type PersonAccess = {
  /** Whether it is configured. */
  readonly isOn: () => boolean
  /** With the roles at present; null: the person has no access. */
  readonly actorOf: (person: LoginPerson) => AdminActor | null
  /** Asks the issuer. Returns whether the session goes on. */
  readonly check: (digest: string, person: LoginPerson, login: PersonLogin) => Promise<boolean>
  /** The person of an access token; null: it is none, or no longer valid. Rejects nothing: a failure is that of the store. */
  readonly personOf: (token: string) => Promise<Outcome<LoginPerson | null>>
  /** The token of `auth.admin` was used, which opens the gateway whatever the issuer states. */
  readonly onBreakGlass: (request: AdminRequest) => void
}

export class Authentication {
  readonly #options: AuthenticationOptions
  readonly #sessions: AuthenticationOptions['sessions']
  /** Cookies without a session: each costs a search in the database. */
  readonly #unknown: FailedAttempts

  constructor(options: AuthenticationOptions) {
    this.#options = options
    this.#sessions = options.sessions
    this.#unknown = new FailedAttempts(options.now)
  }

  /** The actor of a request. Without credentials only a request of this machine has one, and only if no token is configured. */
  async authenticate(request: AdminRequest): Promise<Outcome<Authenticated>> {
    const presented = credentialsOf(request.headers)
    if (presented.length > 0) {
      // Another gateway may have stored a token a moment ago.
      if (presented.some((one) => this.#isUnknownToken(one))) await this.#options.lookUp?.()
      const person = await this.#personOf(presented)
      if (person) return person
      const actor = this.#actorOf(presented, request)
      this.#noteUse(actor, request)
      return actor.ok ? good({ actor: actor.value }) : actor
    }
    const session = await this.#sessionOf(request)
    if (session) return this.#withSession(session, request)
    return this.isOpenTo(request) ? good({ actor: LOCAL }) : bad(MISSING)
  }

  /** Whether a request needs no credentials. */
  isOpenTo({ settings, local, method, path, hosts, headers, accessPolicy }: AdminRequest): boolean {
    if (settings.auth.admin !== undefined || this.#options.production || !local) return false
    if (this.#options.signIn?.isOn()) return false
    // Stricter than for model calls: a foreign name in Host (DNS rebinding) and pages of other origins are refused, whatever
    // address the gateway listens on and whatever pages may call models.
    const strict = { ...accessPolicy, loopback: true, keyed: false, origins: [] }
    const head = {
      method,
      target: path,
      host: hosts,
      origin: headers('origin'),
      secFetchSite: headers('sec-fetch-site'),
    }
    return accessProblem(head, strict) === null
  }

  /** Begins a session for a token. Returns the session and the header that sets its cookie. */
  async begin(
    token: string,
    request: AdminRequest,
  ): Promise<Outcome<Authenticated & { readonly session: Session; readonly cookie: string }>> {
    const name = cookieName(request)
    if (name === null) return bad(NEEDS_TLS)
    const actor = this.#actorOf([token], request)
    if (!actor.ok) return actor
    this.#noteUse(actor, request)
    const { secret, session } = await this.#sessions.create(actor.value, actor.value === BOOTSTRAP ? token : null)
    return good({ actor: actor.value, session, cookie: cookieWith(name, secret) })
  }

  /** Ends the session of a request. Returns the header that removes its cookie. */
  async end(request: AdminRequest): Promise<string> {
    const cookie = sessionCookieOf(request)
    if (cookie) await this.#sessions.end(cookie.value)
    return cookieWithout(cookie?.name ?? cookieName(request))
  }

  /** Null: no credential is an access token. A person has the roles of the moment, and no session that other pages could use. */
  async #personOf(presented: readonly string[]): Promise<Outcome<Authenticated> | null> {
    const { signIn } = this.#options
    const token = presented.find((one) => one.startsWith(ACCESS_TOKEN))
    if (token === undefined || !signIn?.isOn()) return null
    const found = await signIn.personOf(token)
    if (!found.ok) return found
    const actor = found.value && signIn.actorOf(found.value)
    return found.value && actor ? good({ actor, person: found.value }) : bad(SIGNED_OUT)
  }

  #noteUse(actor: Outcome<AdminActor>, request: AdminRequest): void {
    const { signIn } = this.#options
    if (actor.ok && actor.value === BOOTSTRAP && signIn?.isOn()) signIn.onBreakGlass(request)
  }

  /** The session of a request's cookie, unless its token of `auth.admin` has changed since. */
  async #sessionOf(request: AdminRequest): Promise<Session | undefined> {
    const secret = sessionCookieOf(request)?.value
    if (secret === undefined) return undefined
    const { address, settings } = request
    const network = addressGroup(address)
    if (!this.#sessions.isKnown(secret) && this.#unknown.waitFor(network) > 0) return undefined
    const found = await this.#sessions.find(secret)
    if (found === 'unknown') {
      this.#unknown.add(network)
      return undefined
    }
    if (found.session.person) return this.#checked(secret, found.session)
    const { seal } = found.session
    const { admin } = settings.auth
    const isSealed = seal === null || (admin !== undefined && isEqualSecret(sealOf(secret, admin), seal))
    return isSealed ? found.session : undefined
  }

  /** The session of a person, who is checked at the issuer if that is due. */
  async #checked(secret: string, session: Session): Promise<Session | undefined> {
    const { person } = session
    if (!person?.isCheckDue) return session
    const digest = this.#sessions.forget(secret)
    if (!(await this.#options.signIn?.check(digest, person.is, person.login))) return undefined
    const again = await this.#sessions.find(secret)
    return again === 'unknown' ? undefined : again.session
  }

  #withSession(session: Session, { method, headers }: AdminRequest): Outcome<Authenticated> {
    const { csrf, person } = session
    const { tokens, signIn } = this.#options
    const actor = person ? signIn?.actorOf(person.is) : session.actor && tokens.current(session.actor)
    if (!actor) return bad(MISSING)
    const isRead = method === 'GET' || method === 'HEAD'
    return isRead || isEqualSecret(headers(CSRF_HEADER) ?? '', csrf) ? good({ actor, session }) : bad(NO_CSRF)
  }

  #isUnknownToken(presented: string): boolean {
    return keyKindOf(presented) === 'admin' && !isMistyped(presented) && !this.#options.tokens.actorOf(presented)
  }

  /** Several credentials: one may be of a sign-in in front of the gateway. */
  #actorOf(presented: readonly string[], request: AdminRequest): Outcome<AdminActor> {
    const { settings, address, failed } = request
    // Tokens of the database are random: guesses need no limit, and a correct one is never refused.
    for (const key of presented) {
      const actor = this.#options.tokens.actorOf(key)
      if (actor) return good(actor)
    }
    const network = addressGroup(address)
    const { admin } = settings.auth
    const isAdmin = (key: string) => admin !== undefined && isEqualSecret(key, admin)
    const right = presented.find(isAdmin) ?? presented.find((key) => request.isClientKey(key))
    const wait = right === undefined ? failed.waitFor(network) : failed.waitForRight(network, right)
    if (wait > 0) return bad(fail('too_many_attempts', TOO_MANY, { retryAfter: wait }))
    if (right !== undefined) return isAdmin(right) ? good(BOOTSTRAP) : bad(CLIENT_KEY)
    failed.add(network, presented.length)
    return bad(WRONG)
  }
}

const TOKEN_HINT =
  'Send the token of auth.admin (AUTH_ADMIN) or an admin token (hga_…) as `Authorization: Bearer TOKEN`.'
const MISSING = fail(
  'unauthenticated',
  `The admin API needs credentials. ${TOKEN_HINT} Without auth.admin, it also answers requests from this machine that come without a proxy, outside production.`,
)
const SIGNED_OUT = fail(
  'unauthenticated',
  'This sign-in has ended, or the token is not of this gateway. Sign in again: headgate login.',
)
const WRONG = fail('unauthenticated', `Unknown or expired admin token. ${TOKEN_HINT}`)
const CLIENT_KEY = fail('forbidden', `A client key gives no access to the admin API. ${TOKEN_HINT}`)
const NO_CSRF = fail(
  'forbidden',
  `A write with a session needs the header ${CSRF_HEADER} with the value \`csrf\` of GET /admin/api/v1/session.`,
)
const NEEDS_TLS = fail(
  'invalid_request',
  'A session needs https, or a loopback address. Put a TLS proxy in front (it must send X-Forwarded-Proto: https), or send the token with each request.',
)
const TOO_MANY = 'Too many wrong credentials came from this address. Wait, then send a valid token.'
