/** `basePath`: the path below which the gateway serves all its paths, for proxies that do not remove it. */
import { fail } from '../core/failure.ts'
import { pathOf } from './request-admission.ts'
import { SIGN_IN_PATHS } from './sign-in-paths.ts'

/** The targets that exist without the base path: probes of containers and load balancers do not know it. */
const PROBES = /^\/health(?:\/live|\/ready)?\/?(?:\?|$)/

/** Whether this is the target of a probe. */
export const isProbe = (target: string): boolean => PROBES.test(target)

/**
 * A request target without the base path; null: it is not below it. The caller has checked the target. RFC 8414, section 3.1, writes
 * the path of an issuer after the well-known one, so that address is accepted too.
 */
export const belowBase = (target: string, basePath: string): string | null => {
  if (basePath === '' || target === '*' || isProbe(target)) return target
  if (target === SIGN_IN_PATHS.metadata + basePath) return SIGN_IN_PATHS.metadata
  if (!target.startsWith(basePath)) return null
  const below = target.slice(basePath.length)
  if (below === '' || below.startsWith('?')) return `/${below}`
  // `//x` is another host for some parsers.
  return /^\/(?![/\\])/.test(below) ? below : null
}

/** `shown`: the path as an error may name it. */
export const notBelowBase = (shown: string, basePath: string) =>
  fail('unknown_url', `${shown} does not exist: this gateway serves the paths below ${basePath} (basePath).`)

/** The address of a page relative to the root, which browsers open with and without a slash at its end. */
export const fromRoot = (target: string, page: string): string => {
  const path = pathOf(target)
  return `.${path.endsWith('/') ? '' : path.slice(path.lastIndexOf('/'))}${page}`
}
