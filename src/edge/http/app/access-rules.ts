/** Access by API key, and which requests count as local. */
import { isIP } from 'node:net'
import type { Directory, Principal } from '../../../core/accounts.ts'
import { bad, type Failure, fail, good, type Outcome } from '../../../core/failure.ts'
import type { HeaderLookup } from '../../../core/headers.ts'
import type { Settings } from '../../../core/settings.ts'
import { CREDENTIALS } from '../../../policy/access.ts'
import { clientAddress, proxyRanges } from '../../../policy/accounts/client-address.ts'
import type { IpRange } from '../../../policy/accounts/ip-range.ts'
import { allowsAddress, type KeyAccessRules, keyAccessRules } from '../../../policy/accounts/key-access.ts'
import { isCurrent, keyState } from '../../../policy/accounts/principal.ts'
import { addressGroup } from '../../../policy/health/shed.ts'
import type { AdminToken } from '../../control/messages.ts'
import { FailedAttempts } from './failed-attempts.ts'
import { type Client, isMistyped, KeyIndex, type KnownKey } from './key-index.ts'
import { maskPath } from './mask-path.ts'
import type { ApiRoute } from './routes.ts'

/** The keys of headgate.yaml and of the database. */
export type KeySource = {
  /** Another object after each change. */
  readonly directory: () => Directory
  readonly tokens: () => readonly AdminToken[]
  /** There is a database, and it could not be read so far: its keys are unknown. */
  readonly isUnavailable: () => boolean
  /** A key was used, at most once an hour. `now`: ms since 1970. */
  readonly used: (key: string, now: number) => void
}

const NO_DIRECTORY: Directory = { teams: new Map(), keys: new Map(), budgets: new Map(), prices: [] }
const NO_TOKENS: readonly AdminToken[] = []
const NO_KEYS: KeySource = {
  directory: () => NO_DIRECTORY,
  tokens: () => NO_TOKENS,
  isUnavailable: () => false,
  used() {},
}

/** Whether model calls need a key. A key that was revoked or has expired counts: its end must not open the gateway. */
export const isKeyRequired = (
  { auth }: Settings,
  { directory, isUnavailable }: Pick<KeySource, 'directory' | 'isUnavailable'>,
): boolean => {
  if (auth.required !== 'auto') return auth.required
  return auth.keys.length > 0 || directory().keys.size > 0 || isUnavailable()
}

/** A request to authenticate. `address`: the peer of the connection. */
export type AccessRequest = {
  readonly route: ApiRoute
  readonly local: boolean
  readonly address: string
  readonly headers: HeaderLookup
}

type CurrentKeys = {
  readonly settings: Settings
  readonly directory: Directory
  readonly tokens: readonly AdminToken[]
  readonly index: KeyIndex
  readonly proxies: readonly IpRange[]
}

const HOUR = 3_600_000

/** Checks presented keys. The digests are computed once for each change of the keys. */
export class AccessRules {
  readonly #source: KeySource
  readonly #now: () => number
  #current: CurrentKeys | null = null
  readonly #failed: FailedAttempts
  /** The address rules of each client that has any. */
  readonly #addresses = new WeakMap<Principal, Pick<KeyAccessRules, 'ips'>>()
  /** The hour of the last use of each key. */
  readonly #used = new Map<string, number>()

  constructor(source: KeySource = NO_KEYS, now: () => number = Date.now) {
    this.#source = source
    this.#now = now
    this.#failed = new FailedAttempts(now)
  }

  /** Whether model calls need a key. */
  isKeyRequired(settings: Settings): boolean {
    return isKeyRequired(settings, this.#source)
  }

  /** The client that has access to the route; anonymous where no client key is needed. */
  check(settings: Settings, request: AccessRequest): Outcome<Client> {
    const { route, local } = request
    const { access } = route
    const current = this.#currentFor(settings)
    const { index } = current
    if (access === 'open' || (access === 'operator' && local)) return good(index.anonymous)
    const isRequired = access === 'operator' || this.isKeyRequired(settings)
    if (!isRequired && index.isEmpty) return this.#admit(current, index.anonymous, request)
    const { presented, known } = credentialIn(index, request.headers)
    if (!isRequired && presented === undefined) return this.#admit(current, index.anonymous, request)
    if (presented === undefined) return bad(fail('unauthenticated', keyProblem(access, presented)))
    if (known?.kind === 'key') return this.#checkKey(current, known, request)
    if (known?.kind === 'static') return this.#admit(current, known.client, request)
    if (access === 'operator' && known && this.#isOperator(known)) return good(index.anonymous)
    // Clients of an open gateway often send a placeholder.
    if (!isRequired && !isOfGateway(presented)) return this.#admit(current, index.anonymous, request)
    if (!known && this.#source.isUnavailable() && !isMistyped(presented)) return bad(UNAVAILABLE)
    return bad(this.#refuse(current, request))
  }

  /** Whether this is the key of a client. */
  isClientKey(settings: Settings, presented: string): boolean {
    const kind = this.#currentFor(settings).index.find(presented)?.kind
    return kind === 'static' || kind === 'key'
  }

  /** The address of the client: behind trusted proxies the one that they state. */
  addressOf(settings: Settings, request: Pick<AccessRequest, 'address' | 'headers'>): string {
    // On a socket for both families, IPv4 addresses are mapped.
    return addressOf(this.#currentFor(settings), request).replace(/^::ffff:(?=\d+\.)/, '')
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

  #isOperator(known: KnownKey): boolean {
    if (known.kind !== 'token') return known.kind === 'operator'
    const { status, expiresAt } = known.token
    return status === 'active' && (expiresAt === null || expiresAt > this.#now())
  }

  #admit(current: CurrentKeys, client: Client, request: AccessRequest): Outcome<Client> {
    const { principal } = client
    const team = current.directory.teams.get(principal.team.id)
    if (team && team.status !== 'active') return bad(TEAM_BLOCKED)
    if (principal.access.every(({ ips }) => ips === null)) return good(client)
    const rules = this.#addresses.get(principal) ?? keyAccessRules(principal.access)
    this.#addresses.set(principal, rules)
    return allowsAddress(rules, addressOf(current, request)) ? good(client) : bad(ADDRESS_NOT_ALLOWED)
  }

  /** The same failure for unknown, blocked, revoked and expired keys, so that it reveals nothing about former keys. */
  #refuse(current: CurrentKeys, request: AccessRequest): Failure {
    const { route } = request
    const { presented } = credentialIn(current.index, request.headers)
    const network = addressGroup(addressOf(current, request))
    const wait = this.#failed.waitFor(network)
    if (wait > 0) return fail('too_many_attempts', TOO_MANY_FAILURES, { retryAfter: wait })
    this.#failed.add(network)
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

/**
 * The credential that decides: the first known one, revoked ones included, so that a second credential does not replace
 * a key that was taken away. If none is known, one with the form of our keys, which the error then describes.
 */
const credentialIn = (
  index: KeyIndex,
  headers: HeaderLookup,
): { readonly presented: string | undefined; readonly known?: KnownKey } => {
  let likely: string | undefined
  for (const read of CREDENTIALS) {
    const presented = read(headers)
    if (presented === '') continue
    const known = index.find(presented)
    if (known) return { presented, known }
    if (likely === undefined || (isOfGateway(presented) && !isOfGateway(likely))) likely = presented
  }
  return { presented: likely }
}

const addressOf = (
  { proxies }: Pick<CurrentKeys, 'proxies'>,
  { address, headers }: Pick<AccessRequest, 'address' | 'headers'>,
): string => clientAddress(address, headers('x-forwarded-for'), proxies)

const UNAVAILABLE = fail('keys_unavailable', 'The keys of this gateway cannot be read at present. Try again later.', {
  retryAfter: 2_000,
})
const TEAM_BLOCKED = fail('team_blocked', 'The team of this API key is blocked. Contact the operator of the gateway.')
const ADDRESS_NOT_ALLOWED = fail(
  'address_not_allowed',
  'This API key may not be used from this address. Use an allowed address, or contact the operator of the gateway.',
)
const NOT_OPERATOR = fail(
  'forbidden',
  'This page requires the admin token (auth.admin, AUTH_ADMIN), not the key of a client.',
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
    ? 'No API key was sent. From another machine this page requires a client key or the admin token (auth.admin, AUTH_ADMIN) as `Authorization: Bearer KEY`.'
    : 'Unknown API key. This page requires a client key or the admin token (auth.admin, AUTH_ADMIN).'
}

const FORWARDING = ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-real-ip', 'via']

/** Whether a request comes from this machine. A forwarding header means that a local proxy sends it for another client. */
export const isLocal = (loopback: boolean, headers: HeaderLookup): boolean =>
  loopback && FORWARDING.every((name) => headers(name) === undefined)

/** Whether an address or host name is a loopback one; IPv4-mapped IPv6 addresses and brackets included. */
export const isLoopback = (address: string): boolean => {
  const plain = address
    .toLowerCase()
    .replace(/^\[|\]$/g, '')
    .replace(/^::ffff:/, '')
  return plain === 'localhost' || plain === '::1' || (isIP(plain) === 4 && plain.startsWith('127.'))
}
