/** Access by API key. */

import { SHORTEST_TOKEN } from '../config/admin-token.ts'
import { type Client, DEFAULT_TEAM, type Directory } from '../core/accounts.ts'
import { bad, type Failure, fail, good, type Outcome } from '../core/failure.ts'
import type { HeaderLookup } from '../core/headers.ts'
import type { Settings } from '../core/settings.ts'
import type { RefusedOwner } from '../gateway/accounts/refused-calls.ts'
import { isSafeHost } from '../policy/access.ts'
import { isCurrent, keyState } from '../policy/accounts/client.ts'
import { clientAddress, proxyRanges } from '../policy/accounts/client-address.ts'
import type { IpRange } from '../policy/accounts/ip-range.ts'
import { allowsAddress, type KeyAccessRules, keyAccessRules } from '../policy/accounts/key-access.ts'
import { addressGroup } from '../policy/health/shed.ts'
import { personRefusal } from '../policy/sign-in/person-refusal.ts'
import type { AdminToken } from '../records/store/record-operations.ts'
import { CREDENTIALS, credentialsOf } from './client-formats.ts'
import { FailedAttempts } from './failed-attempts.ts'
import { isMistyped, KeyIndex, type KnownKey, type LastCredential, saltedDigest } from './key-index.ts'
import { KeyLookUps } from './key-look-ups.ts'
import { isLocal, type RequestOrigin } from './local-request.ts'
import { maskPath } from './mask-path.ts'
import type { ApiRoute } from './routes.ts'
import type { SignedTokens } from './signed-tokens.ts'

/** The keys of headgate.yaml and of the database. */
export type KeySource = {
  /** Another object after each change. */
  readonly directory: () => Directory
  readonly tokens: () => readonly AdminToken[]
  /** A credential was named at some time of this installation. */
  readonly isNamed: () => boolean
  /** The database could not be found, opened or read: its keys are unknown. */
  readonly isUnavailable: () => boolean
  /** Reads what others have stored, for a credential that is not known. Resolves with whether that was possible. Absent: there are no others. */
  readonly lookUp?: () => Promise<boolean>
  /** Signed tokens of clients. Absent or null: none is accepted. */
  readonly signed?: () => SignedTokens | null
  /** A key was used, at most once an hour. `now`: ms since 1970. */
  readonly used: (key: string, now: number) => void
}

const NO_DIRECTORY: Directory = { teams: new Map(), keys: new Map(), budgets: new Map(), prices: [], routes: new Map() }
const NO_TOKENS: readonly AdminToken[] = []
const NO_KEYS: KeySource = {
  directory: () => NO_DIRECTORY,
  tokens: () => NO_TOKENS,
  isNamed: () => false,
  isUnavailable: () => false,
  used() {},
}

/** Whether model calls need a key: with `auto`, unless no credential was ever named. */
export const isKeyRequired = (
  { auth }: Settings,
  { isNamed, isUnavailable }: Pick<KeySource, 'isNamed' | 'isUnavailable'>,
): boolean => {
  if (auth.required !== 'auto') return auth.required
  return isNamed() || auth.keys.length > 0 || isUnavailable()
}

/** A request to authenticate. */
export type AccessRequest = RequestOrigin & {
  readonly route: ApiRoute
  /** Of its connection. */
  readonly lastCredential?: LastCredential
}

type CurrentKeys = {
  readonly settings: Settings
  readonly directory: Directory
  readonly tokens: readonly AdminToken[]
  readonly index: KeyIndex
  readonly proxies: readonly IpRange[]
}

const HOUR = 3_600_000

/** The credential is not known so far: `lookUp` has the answer. */
export const NOT_LOOKED_UP = fail('unauthenticated', 'The API key has not been looked up.')

/** `now`: ms since 1970. */
type AccessOptions = { readonly now?: () => number; readonly production?: boolean }

/** Checks presented keys. The digests are computed once for each change of the keys. */
export class AccessRules {
  readonly #source: KeySource
  readonly #now: () => number
  readonly #production: boolean
  #current: CurrentKeys | null = null
  /** The failures at each address. The admin API counts in the same place. */
  readonly failed: FailedAttempts
  /** The address rules of each client that has any. */
  readonly #addresses = new WeakMap<Client, Pick<KeyAccessRules, 'ips'>>()
  /** The hour of the last use of each key. */
  readonly #used = new Map<string, number>()
  readonly #lookUps: KeyLookUps

  /** `production`: requests of this machine need credentials too. */
  constructor(source: KeySource = NO_KEYS, { now = Date.now, production = false }: AccessOptions = {}) {
    this.#source = source
    this.#now = now
    this.#production = production
    this.failed = new FailedAttempts(now)
    this.#lookUps = new KeyLookUps(now)
  }

  /** Whether model calls need a key. */
  isKeyRequired(settings: Settings): boolean {
    return isKeyRequired(settings, this.#source)
  }

  /** The client that has access to the route; anonymous where no client key is needed. A failure may be `NOT_LOOKED_UP`. */
  check(settings: Settings, request: AccessRequest): Outcome<Client> {
    const { access } = request.route
    const current = this.#currentFor(settings)
    const { index } = current
    if (access === 'open') return good(index.anonymous)
    if (access === 'operator') return this.#checkOperator(current, request)
    const isRequired = this.isKeyRequired(settings)
    const signed = this.#source.signed?.() ?? null
    if (!isRequired && index.isEmpty && !signed) return this.#admitUnkeyed(current, request)
    const { presented, known, digest } = credentialIn(index, request.headers, {
      last: request.lastCredential,
      hasTokens: signed !== null,
    })
    if (!isRequired && presented === undefined) return this.#admitUnkeyed(current, request)
    if (presented === undefined) return bad(this.#unkeyed(access))
    const limited = known && this.#limitRight(current, request, presented)
    if (limited) return bad(limited)
    if (known?.kind === 'key') return this.#checkKey(current, known, request)
    if (known?.kind === 'static') return this.#admit(current, known.client, request)
    if (signed && digest !== undefined) {
      const found = signed.find(digest) ?? bad(NOT_LOOKED_UP)
      return found.ok ? this.#admit(current, found.value, request) : found
    }
    // Clients of an open gateway often send a placeholder.
    if (!isRequired && !isOfGateway(presented)) return this.#admitUnkeyed(current, request)
    return this.#refuseUnknown(current, request, { presented, known })
  }

  /** The same, after `NOT_LOOKED_UP`: a key that was stored a moment ago must not be refused. */
  async lookUp(settings: Settings, request: AccessRequest): Promise<Outcome<Client>> {
    const token = request.route.access === 'client' ? this.#tokenOf(settings, request.headers) : null
    if (token) {
      const verified = await token.signed.verify(token.presented, token.digest)
      return verified.ok ? this.#lookedUp(settings, request) : verified
    }
    const isRead = await this.#source.lookUp?.()
    const { presented } = credentialIn(this.#currentFor(settings).index, request.headers)
    if (isRead && presented !== undefined) this.#lookUps.notFound(presented)
    return this.#lookedUp(settings, request)
  }

  #lookedUp(settings: Settings, request: AccessRequest): Outcome<Client> {
    const found = this.check(settings, request)
    return !found.ok && found.failure === NOT_LOOKED_UP ? bad(UNAVAILABLE) : found
  }

  /** The signed token of a request whose credentials are no known key. */
  #tokenOf(settings: Settings, headers: HeaderLookup) {
    const signed = this.#source.signed?.()
    if (!signed) return null
    const { presented, known, digest } = credentialIn(this.#currentFor(settings).index, headers, { hasTokens: true })
    return known || presented === undefined || digest === undefined ? null : { signed, presented, digest }
  }

  /** Pages with the figures of all teams: without credentials where no other client can reach them, otherwise for all teams. */
  #checkOperator(current: CurrentKeys, request: AccessRequest): Outcome<Client> {
    const { index, settings, directory } = current
    const isClosed = this.#production && (!index.isEmpty || this.isKeyRequired(settings))
    if (!isClosed && isLocal(request)) return good(index.anonymous)
    const { presented, known } = credentialIn(index, request.headers)
    if (presented === undefined) return bad(fail('unauthenticated', keyProblem('operator', presented)))
    const limited = known && this.#limitRight(current, request, presented)
    if (limited) return bad(limited)
    if (known?.kind === 'key') return this.#checkKey(current, known, request)
    if (known?.kind === 'static') {
      if (this.#source.isUnavailable()) return bad(UNAVAILABLE)
      return isOnlyDefaultTeam(directory) ? this.#admit(current, known.client, request) : bad(NOT_OPERATOR)
    }
    if (known && this.#isOperator(known))
      return known.kind === 'operator' || isForAllTeams(known.token) ? good(index.anonymous) : bad(NOT_ALL_TEAMS)
    return this.#refuseUnknown(current, request, { presented, known })
  }

  /** Whether this is the key of a client. */
  isClientKey(settings: Settings, presented: string): boolean {
    const kind = this.#currentFor(settings).index.find(presented)?.kind
    return kind === 'static' || kind === 'key'
  }

  /** The client key that a refused request presented, and why it may not be used; null: none that is known. */
  ownerOf(settings: Settings, headers: HeaderLookup): RefusedOwner | null {
    const { known } = credentialIn(this.#currentFor(settings).index, headers)
    const token = known ? null : this.#tokenOf(settings, headers)
    const signed = token?.signed.find(token.digest)
    if (signed?.ok) return { key: signed.value.id, team: signed.value.team.id, why: null }
    if (known?.kind === 'static') return { key: known.client.id, team: known.client.team.id, why: null }
    if (known?.kind !== 'key') return null
    const { key, secret, team } = known
    const now = this.#now()
    const state = isCurrent(secret, now) ? keyState(key, team, now) : 'rotated'
    return { key: key.id, team: team.id, why: state === 'active' ? null : NOT_USABLE[state] }
  }

  /** The address of the client: behind trusted proxies the one that they state. */
  addressOf(settings: Settings, request: Pick<AccessRequest, 'address' | 'headers'>): string {
    // On a socket for both families, IPv4 addresses are mapped.
    const address = addressOf(this.#currentFor(settings), request)
    return address.startsWith('::ffff:') ? address.replace(/^::ffff:(?=\d+\.)/, '') : address
  }

  /** The path for errors and the log, with keys masked. `known`: the path has a route. */
  shownPath(settings: Settings, path: string, known: boolean): string {
    const { index } = this.#currentFor(settings)
    return maskPath(path, { has: (text) => index.find(text) !== undefined, slashes: index.slashes }, known)
  }

  #checkKey(
    current: CurrentKeys,
    { key, secret, team }: KnownKey & { kind: 'key' },
    request: AccessRequest,
  ): Outcome<Client> {
    const now = this.#now()
    const state = isCurrent(secret, now) ? keyState(key, team, now) : 'expired'
    if (state !== 'active' && state !== 'team_blocked') return bad(this.#refuse(current, request))
    if (request.route.access === 'operator') return bad(NOT_OPERATOR)
    if (state === 'team_blocked') return bad(TEAM_BLOCKED)
    const hour = now - (now % HOUR)
    if (this.#used.get(key.id) !== hour) {
      this.#used.set(key.id, hour)
      this.#source.used(key.id, now)
    }
    return this.#admit(current, current.index.clientOf(key, team), request)
  }

  #isOperator(known: KnownKey): known is KnownKey & { kind: 'operator' | 'token' } {
    if (known.kind !== 'token') return known.kind === 'operator'
    const { status, expiresAt } = known.token
    return status === 'active' && (expiresAt === null || expiresAt > this.#now())
  }

  #admit(current: CurrentKeys, client: Client, request: AccessRequest): Outcome<Client> {
    const team = current.directory.teams.get(client.team.id)
    if (team && team.status !== 'active') return bad(client.person ? personRefusal(TEAM_BLOCKED) : TEAM_BLOCKED)
    if (client.access.every(({ ips }) => ips === null)) return good(client)
    const rules = this.#addresses.get(client) ?? keyAccessRules(client.access)
    this.#addresses.set(client, rules)
    return allowsAddress(rules, addressOf(current, request)) ? good(client) : bad(ADDRESS_NOT_ALLOWED)
  }

  /**
   * A request without a key. An attacker's DNS can resolve any name to this machine (DNS rebinding), and a browser's GET to
   * its own origin has no `Origin`; so reads need a name that cannot be rebound.
   */
  #admitUnkeyed(current: CurrentKeys, request: AccessRequest): Outcome<Client> {
    const [host = ''] = request.hosts
    if (request.route.method === 'GET' && !isSafeHost(host, current.settings.hosts)) return bad(UNKNOWN_HOST)
    return this.#admit(current, current.index.anonymous, request)
  }

  /** A request without a key, where one is needed. */
  #unkeyed(access: ApiRoute['access']): Failure {
    return this.#source.isUnavailable() ? UNAVAILABLE : fail('unauthenticated', keyProblem(access, undefined))
  }

  #refuseUnknown(
    current: CurrentKeys,
    request: AccessRequest,
    { presented, known }: { readonly presented: string; readonly known: KnownKey | undefined },
  ): Outcome<Client> {
    if (known === undefined && this.#source.lookUp && this.#lookUps.isDue(presented)) return bad(NOT_LOOKED_UP)
    const refused = this.#refuse(current, request)
    const mayBeStored =
      this.#source.isUnavailable() && !isMistyped(presented) && known?.kind !== 'key' && known?.kind !== 'token'
    // Short guesses are limited while keys cannot be read, too; a stored key is long.
    const isGuess = presented.length < SHORTEST_TOKEN && refused.kind === 'too_many_attempts'
    return bad(mayBeStored && !isGuess ? UNAVAILABLE : refused)
  }

  /** Why a known key is not even checked now; null: it is. Costs nothing for a key that cannot be guessed. */
  #limitRight(current: CurrentKeys, request: AccessRequest, presented: string): Failure | null {
    if (presented.length >= SHORTEST_TOKEN) return null
    const wait = this.failed.waitForRight(addressGroup(addressOf(current, request)), presented)
    return wait > 0 ? fail('too_many_attempts', TOO_MANY_FAILURES, { retryAfter: wait }) : null
  }

  /** The same failure for unknown, blocked, revoked and expired keys, so that it reveals nothing about former keys. */
  #refuse(current: CurrentKeys, request: AccessRequest): Failure {
    const { route } = request
    const { presented } = credentialIn(current.index, request.headers)
    const network = addressGroup(addressOf(current, request))
    const wait = this.failed.waitFor(network)
    if (wait > 0) return fail('too_many_attempts', TOO_MANY_FAILURES, { retryAfter: wait })
    this.failed.add(network, credentialsOf(request.headers).length)
    return fail('unauthenticated', keyProblem(route.access, presented))
  }

  #currentFor(settings: Settings): CurrentKeys {
    const directory = this.#source.directory()
    const tokens = this.#source.tokens()
    const last = this.#current
    if (last && last.settings === settings && last.directory === directory && last.tokens === tokens) return last
    const isUpdated = last?.settings.auth === settings.auth && last.index.update(directory, tokens)
    const index = isUpdated ? last.index : new KeyIndex({ auth: settings.auth, directory, tokens })
    this.#current = { settings, directory, tokens, index, proxies: proxyRanges(settings.trustedProxies) }
    return this.#current
  }
}

/** The header that a refusal for a missing or wrong key has. */
export const challengeFor = ({ kind }: Failure): Readonly<Record<string, string>> =>
  kind === 'unauthenticated' ? { 'www-authenticate': 'Bearer' } : {}

/** Whether a text has the form of a key or token of this gateway. */
const isOfGateway = (presented: string): boolean => /^hg[ka]_/.test(presented)

/** `digest`: of a signed token. */
type Credential = { readonly presented: string | undefined; readonly known?: KnownKey; readonly digest?: string }

/** `last`: of the connection. `hasTokens`: signed tokens are accepted. */
type CredentialOptions = { readonly last?: LastCredential | undefined; readonly hasTokens?: boolean }

/**
 * The credential that decides: the first known one, revoked ones included, so that a second credential does not replace
 * a key that was taken away. If none is known, a signed token, or one with the form of our keys, which the error then describes.
 */
const credentialIn = (
  index: KeyIndex,
  headers: HeaderLookup,
  { last, hasTokens = false }: CredentialOptions = {},
): Credential => {
  let likely: string | undefined
  let token: Credential | undefined
  for (const read of CREDENTIALS) {
    const presented = read(headers)
    if (presented === '') continue
    // A token is long, so its digest costs less than a comparison with the last one.
    const digest = hasTokens && isTokenText(presented) ? saltedDigest(presented) : undefined
    const known = digest === undefined ? index.find(presented, last) : index.findByDigest(digest, presented)
    if (known) return { presented, known }
    if (digest !== undefined) token ??= { presented, digest }
    if (likely === undefined || (isOfGateway(presented) && !isOfGateway(likely))) likely = presented
  }
  return token ?? { presented: likely }
}

/** Whether a credential begins as a signed token does: `{"` in base64url. */
const isTokenText = (presented: string): boolean => presented.startsWith('eyJ') && presented.includes('.')

const addressOf = (
  { proxies }: Pick<CurrentKeys, 'proxies'>,
  { address, headers }: Pick<AccessRequest, 'address' | 'headers'>,
): string => clientAddress(address, headers('x-forwarded-for'), proxies)

/** Why a key may not be used, for the operator. The client receives the same message for all but a blocked team. */
const NOT_USABLE: { readonly [state in Exclude<ReturnType<typeof keyState>, 'active'> | 'rotated']: string } = {
  blocked: 'The key is blocked.',
  revoked: 'The key was revoked.',
  expired: 'The key has expired.',
  rotated: 'The key was rotated, and its former secret is no longer valid.',
  team_blocked: 'The team is blocked.',
}

const UNAVAILABLE = fail(
  'keys_unavailable',
  'The client keys of this gateway cannot be read at present. Try again later; its log and /health have the reason.',
  { retryAfter: 2_000 },
)
const TEAM_BLOCKED = fail('team_blocked', 'The team of this API key is blocked. Contact the operator of the gateway.')
const ADDRESS_NOT_ALLOWED = fail(
  'address_not_allowed',
  'This API key may not be used from this address. Use an allowed address, or contact the operator of the gateway.',
)
const NOT_OPERATOR = fail(
  'forbidden',
  'This page has the figures of all teams: it requires the admin token (auth.admin, AUTH_ADMIN) or an admin token for all teams, not the key of a client.',
)
const NOT_ALL_TEAMS = fail(
  'forbidden',
  'This page has the figures of all teams, and this token has no role for all teams. The admin API (/admin/api/v1) returns those of its own teams.',
)
const UNKNOWN_HOST = fail(
  'host',
  'The gateway requires no client key, so it accepts reads only under a loopback name, an IP address or a listed host name. Add the name to `hosts` (HOSTS), or set client keys (AUTH_KEYS).',
)
const TOO_MANY_FAILURES =
  'Too many requests with a wrong API key were sent from this address. Correct the key, or wait.'

/** The same message for a wrong key and a revoked one, so that a response reveals nothing about former keys. */
const keyProblem = (access: ApiRoute['access'], presented: string | undefined): string => {
  if (presented !== undefined && isMistyped(presented))
    return 'The API key is incomplete or mistyped: its checksum is wrong. Copy the whole key again.'
  const missing = presented === undefined
  if (access === 'client')
    return missing
      ? 'No API key was sent. Send a client key of this gateway as `Authorization: Bearer KEY` or `x-api-key: KEY`.'
      : 'Unknown API key. Send a client key of this gateway (auth.keys, AUTH_KEYS); the keys of providers are not accepted here.'
  return missing
    ? 'No API key was sent. This page requires the admin token (auth.admin, AUTH_ADMIN) or an admin token for all teams as `Authorization: Bearer TOKEN`; without one, it is shown outside production, on the machine of the gateway, to requests that come without a proxy.'
    : 'Unknown API key. This page requires the admin token (auth.admin, AUTH_ADMIN) or an admin token for all teams.'
}

/** Whether the only clients are those of the default team: those of `auth.keys`, and its keys. */
const isOnlyDefaultTeam = ({ teams }: Directory): boolean => teams.values().every(({ id }) => id === DEFAULT_TEAM.id)

const isForAllTeams = ({ bindings }: AdminToken): boolean => bindings.some(({ team }) => team === null)
