/** The actor of a request: by token, by session, or as a request of this machine. */
import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import { accessProblem, isLoopbackHost, isLoopbackOrigin } from '../../policy/access.ts'
import { usesHttps } from '../../policy/accounts/client-address.ts'
import { keyKindOf } from '../../policy/accounts/client-key.ts'
import { addressGroup } from '../../policy/health/shed.ts'
import type { RunOperation } from '../../records/store/record-operations.ts'
import type { AdminRequest } from '../admin-request.ts'
import { credentialsOf } from '../client-formats.ts'
import { FailedAttempts } from '../failed-attempts.ts'
import { isMistyped } from '../key-index.ts'
import { type AdminActor, BOOTSTRAP, LOCAL } from './actor.ts'
import type { AdminTokens } from './admin-tokens.ts'
import { isEqualSecret, type Session, Sessions, sealOf } from './sessions.ts'

/** The header that repeats the value of the session on every write. */
export const CSRF_HEADER = 'x-headgate-csrf'
const SECURE_COOKIE = '__Host-headgate'
/** Its name ends with the port: cookies do not distinguish the ports of a host. */
const LOOPBACK_COOKIE = 'headgate-'

/** An authenticated request. `session`: present if its cookie was used. */
export type Authenticated = { readonly actor: AdminActor; readonly session?: Session }

export type AuthenticationOptions = {
  /** ms since 1970. */
  readonly now: () => number
  readonly production: boolean
  /** The admin tokens of the database. */
  readonly tokens: Pick<AdminTokens, 'actorOf' | 'current'>
  /** Stores the sessions. */
  readonly run: RunOperation
  /** Whether there is a database in which sessions may be. */
  readonly isStored: () => boolean
  /** Reads tokens that others have stored. */
  readonly lookUp?: () => Promise<boolean>
}

export class Authentication {
  readonly #options: AuthenticationOptions
  readonly #sessions: Sessions
  /** Cookies without a session: each costs a search in the database. */
  readonly #unknown: FailedAttempts

  constructor(options: AuthenticationOptions) {
    this.#options = options
    this.#sessions = new Sessions(options)
    this.#unknown = new FailedAttempts(options.now)
  }

  /** The actor of a request. Without credentials only a request of this machine has one, and only if no token is configured. */
  async authenticate(request: AdminRequest): Promise<Outcome<Authenticated>> {
    const presented = credentialsOf(request.headers)
    if (presented.length > 0) {
      // Another gateway may have stored a token a moment ago.
      if (presented.some((one) => this.#isUnknownToken(one))) await this.#options.lookUp?.()
      const actor = this.#actorOf(presented, request)
      return actor.ok ? good({ actor: actor.value }) : actor
    }
    const session = await this.#sessionOf(request)
    if (session) return this.#withSession(session, request)
    return this.isOpenTo(request) ? good({ actor: LOCAL }) : bad(MISSING)
  }

  /** Whether a request needs no credentials. */
  isOpenTo({ settings, local, method, path, hosts, headers, accessPolicy }: AdminRequest): boolean {
    if (settings.auth.admin !== undefined || this.#options.production || !local) return false
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
    const { secret, session } = await this.#sessions.create(actor.value, actor.value === BOOTSTRAP ? token : null)
    return good({ actor: actor.value, session, cookie: `${name}=${secret}; ${attributes(name)}` })
  }

  /** Ends the session of a request. Returns the header that removes its cookie. */
  async end(request: AdminRequest): Promise<string> {
    const secret = cookieOf(request)
    if (secret !== undefined) await this.#sessions.end(secret)
    const name = cookieName(request) ?? SECURE_COOKIE
    return `${name}=; Max-Age=0; ${attributes(name)}`
  }

  /** The session of a request's cookie, unless its token of `auth.admin` has changed since. */
  async #sessionOf(request: AdminRequest): Promise<Session | undefined> {
    const secret = cookieOf(request)
    if (secret === undefined) return undefined
    const { address, settings } = request
    const network = addressGroup(address)
    if (!this.#sessions.isKnown(secret) && this.#unknown.waitFor(network) > 0) return undefined
    const found = await this.#sessions.find(secret)
    if (found === 'unknown') {
      this.#unknown.add(network)
      return undefined
    }
    const { seal } = found.session
    const { admin } = settings.auth
    const isSealed = seal === null || (admin !== undefined && isEqualSecret(sealOf(secret, admin), seal))
    return isSealed ? found.session : undefined
  }

  #withSession(session: Session, { method, headers }: AdminRequest): Outcome<Authenticated> {
    const { csrf } = session
    const actor = this.#options.tokens.current(session.actor)
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

/** The value of the session's cookie. */
const cookieOf = (request: AdminRequest): string | undefined => {
  const name = cookieName(request)
  const cookies = request.headers('cookie')
  if (name === null || cookies === undefined) return undefined
  for (const pair of cookies.split(';')) {
    const at = pair.indexOf('=')
    if (at !== -1 && pair.slice(0, at).trim() === name) return pair.slice(at + 1).trim()
  }
  return undefined
}

/**
 * `__Host-` binds the cookie to this host and needs https. Without https the browser must be on the machine that it calls: by
 * its own headers, which decide about its own cookie only, since a container sees the address of its bridge. Null: neither.
 */
const cookieName = ({ headers, hosts }: AdminRequest): string | null => {
  if (usesHttps(headers)) return SECURE_COOKIE
  const [host = ''] = hosts
  const origin = headers('origin')
  if (!isLoopbackHost(host) || (origin !== undefined && !isLoopbackOrigin(origin))) return null
  return `${LOOPBACK_COOKIE}${/:([0-9]{1,5})$/.exec(host)?.[1] ?? '80'}`
}

/** `__Host-` needs the path `/`. The other cookie would be sent to every local server, so its path is that of its reader. */
const attributes = (name: string): string =>
  name === SECURE_COOKIE ? 'Path=/; HttpOnly; SameSite=Lax; Secure' : 'HttpOnly; SameSite=Lax'
