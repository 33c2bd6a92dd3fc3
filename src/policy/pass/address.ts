/**
 * The address of a passed call. A path is refused before anything in it is decoded if two readers of it could disagree, since one of
 * them is the provider, which has the key (GHSA of many proxies: BerriAI/litellm#26467, Portkey-AI/gateway#1718).
 */

import { bad, type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import type { Instance } from '../../core/provider.ts'
import { withoutSlashes } from '../../core/trailing-slashes.ts'
import { trimmedQuery } from './query.ts'

/** `path`: as sent, below the name of the instance. */
export type PassAddress = { readonly url: string; readonly path: string }

/** Escapes of characters that delimit paths, of controls, and of bytes that are no ASCII. `%2F`: see `encodedSlashes`. */
const REFUSED = /%(?:2e|5c|25|3b|3f|23|[01][0-9a-f]|7f|[89a-f][0-9a-f])/i
const NO_ESCAPE = /%(?![0-9a-f]{2})/i

/** What is wrong with a path; null: nothing. Names the rule, not the path, which may have a secret. */
const problemIn = (path: string, encodedSlashes: boolean): string | null => {
  if (!path.startsWith('/')) return 'it does not begin with a slash'
  if (/[^\x21-\x7e]/.test(path)) return 'it has a space, a control character or one outside ASCII'
  if (path.includes('\\')) return 'it has a backslash'
  if (path.includes('//')) return 'it has an empty segment'
  if (path.includes(';')) return 'it has a semicolon'
  if (/[#?]/.test(path)) return 'it has a fragment'
  if (NO_ESCAPE.test(path)) return 'it has a % without two hexadecimal digits'
  if (REFUSED.test(path)) return 'it has an escaped character that delimits paths'
  if (!encodedSlashes && /%2f/i.test(path)) return 'it has an escaped slash'
  if (path.split('/').some((segment) => segment === '.' || segment === '..')) return 'it has a dot segment'
  return null
}

const invalid = (why: string): Failure =>
  fail('invalid_path', `The path cannot be passed on: ${why}. Send it as the API of the provider states it.`)

/** The paths at its origin below which an instance may be called, without a slash at the end. */
export const rootsOf = ({ baseUrl, provider }: Pick<Instance, 'baseUrl' | 'provider'>): readonly string[] => {
  const { pathname } = new URL(baseUrl)
  return [pathname === '/' ? '' : withoutSlashes(pathname), ...(provider.passThrough?.roots ?? [])]
}

const isBelow = (path: string, root: string): boolean => path === root || path.startsWith(`${root}/`)

/** The address at the provider of a path and a query as they were sent. */
export const passAddress = (
  instance: Pick<Instance, 'baseUrl' | 'provider'>,
  { path, query }: { readonly path: string; readonly query: string },
): Outcome<PassAddress> => {
  const problem = problemIn(path, instance.provider.passThrough?.encodedSlashes === true)
  if (problem !== null) return bad(invalid(problem))
  if (/[^\x21-\x7e]|#/.test(query)) return bad(invalid('its query has a space, a control character or a fragment'))
  const roots = rootsOf(instance)
  if (!roots.some((root) => isBelow(path, root)))
    return bad(invalid(`the paths of this provider begin with ${roots.map((root) => root || '/').join(' or ')}`))
  const { origin } = new URL(instance.baseUrl)
  const kept = trimmedQuery(query)
  const url = origin + path + (kept === '' ? '' : `?${kept}`)
  // The second belt: the parser that the connection uses must read what was checked.
  const built = URL.canParse(url) ? new URL(url) : null
  if (built?.origin !== origin || built.pathname !== path || built.hash !== '' || built.username !== '')
    return bad(invalid('it is read differently by parsers of URLs'))
  return good({ url, path })
}

/**
 * The path and query at the provider to which a header of its answer leads; null: to another place. `to`: the value, absolute or
 * relative to the address of the call.
 */
export const ownLocation = (
  instance: Pick<Instance, 'baseUrl' | 'provider'>,
  { to, from }: { readonly to: string; readonly from: string },
): string | null => {
  if (!URL.canParse(to, from)) return null
  const { origin, pathname, search, hash } = new URL(to, from)
  if (origin !== new URL(instance.baseUrl).origin) return null
  const query = trimmedQuery(search.slice(1))
  const address = passAddress(instance, { path: pathname, query })
  return address.ok ? pathname + (query === '' ? '' : `?${query}`) + hash : null
}
