/** The paths of single sign-on, which exist only where it is configured. */
import type { HeaderLookup } from '../core/headers.ts'
import type { HttpExchange } from '../transport/server/http-server.ts'
import { ADMIN_BASE } from './admin-request.ts'
import { isDashboardPath, isDocsPath } from './page-request.ts'

export const SIGN_IN_PATHS = {
  /** A browser begins here. */
  login: `${ADMIN_BASE}/login`,
  /** The issuer sends it back here. The reference gateway of Claude Code has the same path. */
  callback: '/oauth/callback',
  /** The issuer ends sessions. */
  logout: '/oauth/backchannel-logout',
  /** What programs need to know (RFC 8414). */
  metadata: '/.well-known/oauth-authorization-server',
  /** A program begins here (RFC 8628). */
  deviceAuthorization: '/oauth/device_authorization',
  /** A program receives its tokens here. */
  token: '/oauth/token',
  /** A program ends its sign-in (RFC 7009). */
  revoke: '/oauth/revoke',
  /** A person confirms the code of a program. */
  device: '/device',
} as const

const PATHS: ReadonlySet<string> = new Set(Object.values(SIGN_IN_PATHS))

/** Whether single sign-on serves this path. */
export const isSignInPath = (path: string): boolean => PATHS.has(path)

/**
 * The site of a request for the access checks. A browser that opens a page by a link of another site, or returns from an issuer, is
 * no request of that site: the redirects of a sign-in count as cross-site (Fetch Metadata). Pages are the same for everyone, and may
 * not be framed.
 */
export const siteOf = (
  { method, headers }: Pick<HttpExchange, 'method' | 'headers'>,
  path: string,
): string | undefined => {
  const site = headers('sec-fetch-site')
  return site === 'cross-site' && isPageNavigation(method, path, headers) ? 'none' : site
}

const isPageNavigation = (method: string, path: string, headers: HeaderLookup): boolean =>
  method === 'GET' &&
  headers('origin') === undefined &&
  headers('sec-fetch-mode') === 'navigate' &&
  headers('sec-fetch-dest') === 'document' &&
  (path === '/' ||
    path === SIGN_IN_PATHS.login ||
    path === SIGN_IN_PATHS.callback ||
    path === SIGN_IN_PATHS.device ||
    isDashboardPath(path) ||
    isDocsPath(path))
