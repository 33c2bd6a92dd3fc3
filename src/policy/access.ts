/**
 * Access checks on a request's head, before it is routed: the request target, `Host` (DNS rebinding) and `Origin`
 * (requests of foreign web pages). Also CORS headers and the client key.
 */
import { type Failure, fail } from '../core/failure.ts'
import type { HeaderLookup } from '../core/headers.ts'

/** The parts of a request's head that decide about access. `host`: every Host line. `target`: as received, not normalised. */
export type RequestHead = {
  readonly method: string
  readonly target: string
  readonly host: readonly string[]
  readonly origin?: string | undefined
  readonly secFetchSite?: string | undefined
}

/** The settings that decide about access. */
export type AccessPolicy = {
  /** The gateway listens on a loopback address. */
  readonly loopback: boolean
  /** The port takes TLS; absent: it does not. */
  readonly secure?: boolean
  /** Model calls require a client key. */
  readonly keyed: boolean
  readonly port: number
  /** Host names that belong to this gateway. On a loopback address, no other name is accepted in Host. */
  readonly hosts: readonly string[]
  /** Web origins that may call. */
  readonly origins: readonly string[]
  /** The response headers that pages of these origins may read: see `exposedHeaders`. */
  readonly exposed: string
}

/** Checks the request target, `Host` and `Origin`. Returns the failure to respond with, or null if access is allowed. */
export const accessProblem = (head: RequestHead, policy: AccessPolicy): Failure | null =>
  badTarget(head) ?? badHost(head, policy) ?? badOrigin(head, policy)

/**
 * Accepts only a path as request target. Some URL parsers read `//x` and `http://x/` as another host, so that a request
 * could pass a check as one URL and be served as another.
 */
const badTarget = ({ target, method }: RequestHead): Failure | null => {
  if (target === '*' && method === 'OPTIONS') return null
  if (target.startsWith('/') && !/^\/[/\\]/.test(target)) return null
  return fail(
    'invalid_request',
    'The request target must be a path with one slash at its beginning, such as /v1/chat/completions.',
  )
}

/** Prevents DNS rebinding: an attacker's DNS can resolve any name to this machine, but `Host` contains the name that the browser used. */
const badHost = ({ host }: RequestHead, { loopback, hosts }: AccessPolicy): Failure | null => {
  const [only, ...more] = host
  // RFC 9112, section 3.2: a server refuses a request with several Host lines.
  if (more.length > 0) return fail('invalid_request', 'The request has more than one Host header; send one.')
  if (!loopback) return null
  if (only === undefined) return fail('invalid_request', 'The request has no Host header; send one.')
  if (isLoopbackHost(only) || isListedHost(only, hosts)) return null
  return fail(
    'host',
    'The gateway listens on this machine only, and the Host header names another one. Call it as localhost, or add the name to `hosts` in headgate.yaml (HOSTS in the environment).',
  )
}

/** Whether `hosts` contains this host, as `name:port` or as a name without a port. */
const isListedHost = (written: string, hosts: AccessPolicy['hosts']): boolean =>
  hosts.some(
    (listed) => listed.toLowerCase() === written.toLowerCase() || nameWithoutPort(listed) === authority(written).name,
  )

/**
 * Refuses requests of web pages from other origins. A browser sends `Sec-Fetch-Site: cross-site` only when the page is
 * not ours, so that header overrides an `Origin` that looks like ours (Fetch Metadata, W3C).
 */
const badOrigin = (head: RequestHead, policy: AccessPolicy): Failure | null => {
  const { origin, secFetchSite } = head
  const crossSite = secFetchSite === 'cross-site'
  if (origin === undefined) return crossSite ? OTHER_ORIGIN : null
  if (isListed(origin, policy)) return null
  if (crossSite || !isOwn(origin, head, policy)) return OTHER_ORIGIN
  return isTrustedHost(origin, head, policy) ? null : UNKNOWN_HOST
}

const OTHER_ORIGIN = fail(
  'origin',
  'A web page of another origin made this request. To let it, add its origin to `cors.origins` in headgate.yaml (CORS_ORIGINS in the environment).',
)
const UNKNOWN_HOST = fail(
  'origin',
  'The gateway requires no client key, so it accepts web pages only from a loopback name, an IP address or a listed host name. Add the name to `hosts` (HOSTS), add the page to `cors.origins` (CORS_ORIGINS), or set client keys (AUTH_KEYS).',
)

/** Whether this gateway served the page: its origin is the request's Host, or a loopback name with the gateway's port. */
const isOwn = (origin: string, { host }: RequestHead, { loopback, port }: AccessPolicy): boolean => {
  const page = originAuthority(origin)
  if (page === null) return false
  const requested = authority(host[0] ?? '')
  if (page.name !== '' && page.name === requested.name && page.port === (requested.port ?? page.defaultPort))
    return true
  return loopback && isLoopback(page.name) && page.port === String(port)
}

/**
 * Without client keys, a host name alone does not prove that a page is ours: an attacker's DNS can resolve any name to
 * this machine (DNS rebinding). An IP address or a loopback name cannot be rebound.
 */
const isTrustedHost = (origin: string, { host }: RequestHead, { keyed, hosts }: AccessPolicy): boolean => {
  if (keyed) return true
  const { name } = originAuthority(origin) ?? { name: '' }
  return isFixed(name) || isListedHost(host[0] ?? '', hosts)
}

/** Whether a `Host` names this gateway whatever a DNS server returns: a loopback name, an IP address or a listed name. */
export const isSafeHost = (written: string, hosts: AccessPolicy['hosts']): boolean =>
  isFixed(authority(written).name) || isListedHost(written, hosts)

/** Whether a `Host`, with or without a port, is a loopback name or address. */
export const isLoopbackHost = (written: string): boolean => {
  const known = loopbackHosts.get(written)
  if (known !== undefined) return known
  const isOne = isLoopback(authority(written).name)
  if (written.length > MAX_AUTHORITY) return isOne
  if (loopbackHosts.size >= MAX_HOSTS) loopbackHosts.clear()
  loopbackHosts.set(written, isOne)
  return isOne
}
/** Every request has a Host, nearly always one of few. */
const loopbackHosts = new Map<string, boolean>()
const MAX_HOSTS = 256

/** Whether an origin is of a page at a loopback name or address. */
export const isLoopbackOrigin = (origin: string): boolean => isLoopback(originAuthority(origin)?.name ?? '')

const isFixed = (name: string): boolean => isLoopback(name) || isIpAddress(name)

const isIpAddress = (name: string): boolean => /^(?:[0-9]{1,3}\.){3}[0-9]{1,3}$/.test(name) || name.startsWith('[')

/** Host name and port of an `http` or `https` origin; null: not such an origin. */
const originAuthority = (
  origin: string,
): { readonly name: string; readonly port: string; readonly defaultPort: string } | null => {
  const [, scheme, rest] = /^(https?):\/\/([^/]+)$/.exec(origin.toLowerCase()) ?? []
  if (scheme === undefined || rest === undefined) return null
  const defaultPort = scheme === 'https' ? '443' : '80'
  const { name, port } = authority(rest)
  return { name, port: port ?? defaultPort, defaultPort }
}

/** Whether the operator listed this origin. `null` never counts: it is the origin of every sandboxed frame of any site. */
const isListed = (origin: string, { origins }: Pick<AccessPolicy, 'origins'>): boolean =>
  origin !== 'null' && origins.some((listed) => sameOrigin(listed) === sameOrigin(origin))

const sameOrigin = (origin: string): string => origin.toLowerCase().replace(/\/$/, '')

/** Parses `name:port`: the name in lower case without a trailing dot (`''`: malformed), and the port. IPv6 addresses keep their brackets. */
const authority = (written: string): { readonly name: string; readonly port: string | undefined } => {
  const source = written.length > MAX_AUTHORITY ? '' : written.trim().toLowerCase()
  const [, name = '', port] = /^(\[[0-9a-f:.]+\]|[a-z0-9_][a-z0-9._-]*)(?::([0-9]{1,5}))?$/.exec(source) ?? []
  return { name: name.endsWith('.') ? name.slice(0, -1) : name, port }
}

/** Maximum length in characters: 253 for the name (RFC 1035), and the port. */
const MAX_AUTHORITY = 260

const nameWithoutPort = (allowed: string): string | undefined => {
  const { name, port } = authority(allowed)
  return port === undefined && name !== '' ? name : undefined
}

const isLoopback = (name: string): boolean =>
  name === 'localhost' ||
  name.endsWith('.localhost') ||
  /^127\.(?:[0-9]{1,3}\.){2}[0-9]{1,3}$/.test(name) ||
  name === '[::1]' ||
  name === '[0:0:0:0:0:0:0:1]' ||
  /^\[::ffff:(?:127\.(?:[0-9]{1,3}\.){2}[0-9]{1,3}|7f[0-9a-f]{2}:[0-9a-f]{1,4})\]$/.test(name)

/** The CORS headers of a response. Only a listed origin is allowed, and never `*` (Fetch standard, CORS protocol). */
export const corsHeaders = (
  origin: string | undefined,
  policy: Pick<AccessPolicy, 'origins' | 'exposed'>,
): Readonly<Record<string, string>> => {
  if (policy.origins.length === 0) return {}
  if (origin === undefined || !isListed(origin, policy)) return { vary: 'origin' }
  return { 'access-control-allow-origin': origin, 'access-control-expose-headers': policy.exposed, vary: 'origin' }
}

/** The headers of a response to a CORS preflight request (OPTIONS). For an origin that is not listed: at most `vary`. */
export const preflightHeaders = (
  origin: string | undefined,
  policy: Pick<AccessPolicy, 'origins' | 'exposed'>,
): Readonly<Record<string, string>> => {
  const headers = corsHeaders(origin, policy)
  if (headers['access-control-allow-origin'] === undefined) return headers
  return {
    ...headers,
    'access-control-allow-methods': 'GET, HEAD, POST, PATCH, DELETE, OPTIONS',
    // `*` allows the headers with which SDKs describe themselves. It does not include Authorization (Fetch standard).
    'access-control-allow-headers': 'authorization, *',
    'access-control-max-age': '600',
  }
}

/** The value of `access-control-expose-headers`. `ofFormats`: headers that only clients of one format look for. */
export const exposedHeaders = (ofFormats: readonly string[]): string => [...EXPOSED, ...new Set(ofFormats)].join(', ')

const EXPOSED = [
  'x-request-id',
  'x-headgate-provider',
  'x-headgate-model',
  'x-headgate-attempts',
  'x-headgate-trail',
  'x-headgate-dropped',
  'x-headgate-estimated',
  'x-headgate-idempotent',
  'x-headgate-coalesced',
  'x-headgate-cost',
  'x-headgate-usage',
  'x-headgate-limit',
  'x-headgate-warning',
  'x-headgate-cache',
  'x-headgate-guards',
  'x-headgate-loop',
  'x-headgate-successor',
  'x-headgate-switch',
  'sunset',
  'deprecation',
  'age',
  'retry-after',
  'retry-after-ms',
  'x-should-retry',
  'ratelimit',
  'ratelimit-policy',
]

const bearerToken = (headers: HeaderLookup): string => {
  const given = headers('authorization')?.trim()
  return given !== undefined && /^bearer[ \t]/i.test(given) ? given.slice('bearer '.length).trim() : ''
}

/** Reads one credential of a request; empty if there is none. */
export type CredentialReader = (headers: HeaderLookup) => string

/**
 * Readers of the credentials of a request: a bearer token, then the bare keys in these headers. A request has several if the
 * client is signed in to another service: Claude Code sends its own token as `Authorization` beside a configured `x-api-key`.
 */
export const credentialReaders = (keyHeaders: readonly string[]): readonly CredentialReader[] => [
  bearerToken,
  ...keyHeaders.map(
    (name): CredentialReader =>
      (headers) =>
        headers(name)?.trim() ?? '',
  ),
]

/** All credentials of a request, each once. */
export const presentedKeys = (headers: HeaderLookup, readers: readonly CredentialReader[]): readonly string[] => [
  ...new Set(readers.map((read) => read(headers)).filter((key) => key !== '')),
]
