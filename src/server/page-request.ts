/** The interface between the server and its pages: the dashboard and the documentation, loaded at the first request for them. */
import type { HeaderLookup } from '../core/headers.ts'
import type { LoadedPart } from './admin-request.ts'

/** The path of the dashboard; all its paths begin with it. */
export const DASHBOARD_BASE = '/dashboard'
/** The path of the documentation. */
export const DOCS_BASE = '/docs'

/**
 * The relative address of the gateway's root, seen from a path: `../` from `/dashboard/`. Pages use relative addresses, so
 * that they work below the prefix that a proxy removes.
 */
export const rootFrom = (path: string): string => '../'.repeat(path.split('/').length - 2) || './'

const isBelow = (path: string, base: string): boolean =>
  path.startsWith(base) && (path.length === base.length || path[base.length] === '/')

/** Whether the dashboard serves this path. */
export const isDashboardPath = (path: string): boolean => isBelow(path, DASHBOARD_BASE)

/** Whether the documentation serves this path. Language models look for its lists at the root. */
export const isDocsPath = (path: string): boolean =>
  isBelow(path, DOCS_BASE) || path === '/llms.txt' || path === '/llms-full.txt'

/** Whether this is a browser that opens the address of the gateway. */
export const isNavigation = (method: string, path: string, headers: HeaderLookup): boolean =>
  path === '/' && (method === 'GET' || method === 'HEAD') && headers('sec-fetch-mode') === 'navigate'

/** A request for a page or a file of it. Its head passed the host and origin checks; no credentials are needed. */
export type PageRequest = {
  readonly method: string
  readonly path: string
  readonly headers: HeaderLookup
  /** From this machine, without forwarding headers. */
  readonly local: boolean
}

/** Serves pages. */
export type Pages = LoadedPart<PageRequest>

/** All pages of the gateway. */
export type PageParts = { readonly dashboard: Pages; readonly docs: Pages }
