/**
 * Who may speak to the gateway at all, decided from a request's head before anything else looks at it: so that no web
 * page can spend the operator's money, and no name in a request can be taken for another one further in.
 */
import { type Failure, fail } from '../core/failure.ts'
import type { HeaderLookup } from '../core/protocol.ts'

/** `host`: every Host line as it was sent. `target`: the request target as it was sent. */
export type Head = {
  readonly method: string
  readonly target: string
  readonly host: readonly string[]
  readonly origin?: string | undefined
  readonly secFetchSite?: string | undefined
}

export type Door = {
  /** We listen on a loopback address. */
  readonly loopback: boolean
  readonly port: number
  /** Further names accepted in Host there. */
  readonly hosts: readonly string[]
  /** Web origins that may call. */
  readonly origins: readonly string[]
}

/** Null: it may come in. */
export const mayEnter = (head: Head, door: Door): Failure | null =>
  badTarget(head) ?? badHost(head, door) ?? badOrigin(head, door)

/**
 * Only a path is taken as a target. `//x` and `http://x/` would be another host's to some who read it; that is how a
 * request is checked as one thing and served as another.
 */
const badTarget = ({ target, method }: Head): Failure | null => {
  if (target === '*' && method === 'OPTIONS') return null
  if (target.startsWith('/') && !/^\/[/\\]/.test(target)) return null
  return fail(
    'invalid_request',
    'The request target must be a path with one slash at its beginning, such as /v1/chat/completions.',
  )
}

/** DNS can be made to point any name at this machine; the name a browser puts into Host shows whom it believes to talk to. */
const badHost = ({ host }: Head, { loopback, hosts }: Door): Failure | null => {
  const [only, ...more] = host
  // RFC 9112, section 3.2: more than one Host line is refused.
  if (more.length > 0) return fail('invalid_request', 'The request has more than one Host header; send one.')
  if (!loopback) return null
  if (only === undefined) return fail('invalid_request', 'The request has no Host header; send one.')
  const { name } = authority(only)
  if (isLoopback(name)) return null
  const written = only.toLowerCase()
  if (hosts.some((allowed) => allowed.toLowerCase() === written || bare(allowed) === name)) return null
  return fail(
    'host',
    'The gateway listens on this machine only, and the Host header names another one. Call it as localhost, or add the name to `hosts` in headgate.yaml (HOSTS in the environment).',
  )
}

const badOrigin = (head: Head, door: Door): Failure | null => {
  const { origin, secFetchSite } = head
  if (origin !== undefined ? isOwn(origin, head, door) || isListed(origin, door) : secFetchSite !== 'cross-site')
    return null
  return fail(
    'origin',
    'A web page of another origin made this request. To let it, add its origin to `cors.origins` in headgate.yaml (CORS_ORIGINS in the environment).',
  )
}

/** A page that we served: its origin is what the request calls us by, or us by another name of this machine. */
const isOwn = (origin: string, { host }: Head, { loopback, port }: Door): boolean => {
  const parts = /^(https?):\/\/([^/]+)$/.exec(origin.toLowerCase())
  const [, scheme, rest] = parts ?? []
  if (scheme === undefined || rest === undefined) return false
  const usual = scheme === 'https' ? '443' : '80'
  const theirs = authority(rest)
  const ours = authority(host[0] ?? '')
  const theirPort = theirs.port ?? usual
  if (theirs.name !== '' && theirs.name === ours.name && theirPort === (ours.port ?? usual)) return true
  return loopback && isLoopback(theirs.name) && theirPort === String(port)
}

/** `null` is the origin of every sandboxed frame anywhere: listing it would list everybody. */
const isListed = (origin: string, { origins }: Pick<Door, 'origins'>): boolean =>
  origin !== 'null' && origins.some((listed) => sameOrigin(listed) === sameOrigin(origin))

const sameOrigin = (origin: string): string => origin.toLowerCase().replace(/\/$/, '')

/** A name without a dot at its end, and the port, of `name:port`; an IPv6 address keeps its brackets. */
const authority = (written: string): { readonly name: string; readonly port: string | undefined } => {
  const source = written.length > LONGEST_NAME ? '' : written.trim().toLowerCase()
  const [, name = '', port] = /^(\[[0-9a-f:.]+\]|[a-z0-9_][a-z0-9._-]*)(?::([0-9]{1,5}))?$/.exec(source) ?? []
  return { name: name.endsWith('.') ? name.slice(0, -1) : name, port }
}

/** 253 for a name (RFC 1035), and its port. */
const LONGEST_NAME = 260

const bare = (allowed: string): string | undefined => {
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

/** What a browser is told with an answer: only a listed origin is named, and never all of them. */
export const corsHeaders = (
  origin: string | undefined,
  door: Pick<Door, 'origins'>,
): Readonly<Record<string, string>> => {
  if (door.origins.length === 0) return {}
  if (origin === undefined || !isListed(origin, door)) return { vary: 'origin' }
  return { 'access-control-allow-origin': origin, 'access-control-expose-headers': EXPOSED, vary: 'origin' }
}

/** What a browser is told when it asks beforehand (OPTIONS). Empty but for `vary`: it may not. */
export const preflightHeaders = (
  origin: string | undefined,
  door: Pick<Door, 'origins'>,
): Readonly<Record<string, string>> => {
  const headers = corsHeaders(origin, door)
  if (headers['access-control-allow-origin'] === undefined) return headers
  return {
    ...headers,
    'access-control-allow-methods': 'GET, HEAD, POST, DELETE, OPTIONS',
    // The star is for what SDKs send about themselves; it never covers Authorization (Fetch standard).
    'access-control-allow-headers': 'authorization, *',
    'access-control-max-age': '600',
  }
}

const EXPOSED = [
  'x-request-id',
  'request-id',
  'x-headgate-provider',
  'x-headgate-model',
  'x-headgate-attempts',
  'x-headgate-trail',
  'x-headgate-dropped',
  'x-headgate-estimated',
  'x-headgate-idempotent',
  'x-headgate-coalesced',
  'retry-after',
  'x-should-retry',
].join(', ')

/** The key a client came with: a bearer token, or `x-api-key` as Anthropic's clients send it. */
export const presentedKey = (headers: HeaderLookup): string | undefined => {
  const given = headers('authorization')?.trim()
  const bearer = given !== undefined && /^bearer[ \t]/i.test(given) ? given.slice('bearer '.length).trim() : ''
  if (bearer !== '') return bearer
  const key = headers('x-api-key')?.trim()
  return key === '' ? undefined : key
}
