/** Cookies of sessions. */
import type { HeaderLookup } from '../../core/headers.ts'
import { isLoopbackHost, isLoopbackOrigin } from '../../policy/access.ts'
import { usesHttps } from '../../policy/accounts/client-address.ts'
import { ADMIN_BASE, type AdminRequest } from '../admin-request.ts'

const SECURE_COOKIE = '__Host-headgate'
/** Its name ends with the port: cookies do not distinguish the ports of a host. */
const LOOPBACK_COOKIE = 'headgate-'

type CookieRequest = Pick<AdminRequest, 'headers' | 'hosts' | 'accessPolicy'>

/** The value of a cookie; undefined: the request has none of this name. */
export const cookieValue = (headers: HeaderLookup, name: string): string | undefined => {
  for (const pair of headers('cookie')?.split(';') ?? []) {
    const at = pair.indexOf('=')
    if (at !== -1 && pair.slice(0, at).trim() === name) return pair.slice(at + 1).trim()
  }
  return undefined
}

/**
 * The name and the value of the session's cookie. Browsers send the one with `__Host-` over https only, whatever a proxy states about
 * the request.
 */
export const sessionCookieOf = (
  request: CookieRequest,
): { readonly name: string; readonly value: string } | undefined => {
  for (const name of [SECURE_COOKIE, cookieName(request)]) {
    const value = name === null ? undefined : cookieValue(request.headers, name)
    if (name !== null && value !== undefined) return { name, value }
  }
  return undefined
}

/**
 * `__Host-` binds the cookie to this host and needs https. Without https the browser must be on the machine that it calls: by
 * its own headers, which decide about its own cookie only, since a container sees the address of its bridge. Null: neither.
 */
export const cookieName = ({ headers, hosts, accessPolicy }: CookieRequest): string | null => {
  if (accessPolicy.secure || usesHttps(headers)) return SECURE_COOKIE
  const [host = ''] = hosts
  const origin = headers('origin')
  if (!isLoopbackHost(host) || (origin !== undefined && !isLoopbackOrigin(origin))) return null
  return `${LOOPBACK_COOKIE}${/:([0-9]{1,5})$/.exec(host)?.[1] ?? '80'}`
}

/** The header that sets a session's cookie for a request to the admin API. */
export const cookieWith = (name: string, secret: string): string => `${name}=${secret}; ${attributes(name)}`

/** The header that removes it. */
export const cookieWithout = (name: string | null): string =>
  `${name ?? SECURE_COOKIE}=; Max-Age=0; ${attributes(name ?? SECURE_COOKIE)}`

/** The same at another path than that of the admin API, by the address at which people reach the gateway. */
export const sessionCookie = (publicUrl: string, secret: string): string => {
  const { protocol, port, pathname } = new URL(publicUrl)
  if (protocol === 'https:') return cookieWith(SECURE_COOKIE, secret)
  const name = `${LOOPBACK_COOKIE}${port || '80'}`
  return `${name}=${secret}; Path=${pathname === '/' ? '' : pathname}${ADMIN_BASE}; ${attributes(name)}`
}

/** `__Host-` needs the path `/`. The other cookie would be sent to every local server, so its path is that of its reader. */
const attributes = (name: string): string =>
  name === SECURE_COOKIE ? 'Path=/; HttpOnly; SameSite=Lax; Secure' : 'HttpOnly; SameSite=Lax'
