/** Who may use a pass-through. It is off twice: the instance needs it, and the team and the key. */

import type { Access, Client } from '../../core/accounts.ts'
import type { Config } from '../../core/config.ts'
import { type Failure, fail } from '../../core/failure.ts'
import { memoizeBy } from '../../core/memoize-by.ts'
import { memoizeLast } from '../../core/memoize-last.ts'
import { type HttpMethod, PASS } from '../../core/pass-through.ts'
import type { Instance } from '../../core/provider.ts'
import { withoutSlashes } from '../../core/trailing-slashes.ts'
import { allowsName, restrictionsOf } from '../accounts/key-access.ts'
import { styleNotAllowed } from '../routing/allowed-plan.ts'
import { matchesPath, type PathGlob, parsePathGlob } from './path-globs.ts'

/** An entry of `access.passThrough`: `openai`, or with a path and all below it `gemini:/v1beta/files`. */
type Grant = { readonly instance: string; readonly globs: readonly PathGlob[] | null }

const parseGrant = (text: string): Grant => {
  const colon = text.indexOf(':')
  if (colon === -1) return { instance: text.toLowerCase(), globs: null }
  const path = withoutSlashes(text.slice(colon + 1))
  return {
    instance: text.slice(0, colon).toLowerCase(),
    globs: [path, `${path}/**`].map(parsePathGlob),
  }
}

const grantsOf = memoizeBy(({ passThrough }: Access): readonly Grant[] => (passThrough ?? []).map(parseGrant))

const globsOf = memoizeBy((paths: readonly string[]): readonly PathGlob[] => paths.map(parsePathGlob))

/** Whether the first segment of a path is an instance with a pass-through. */
export const hasPassThrough = (config: Config, path: string): boolean => {
  const ids = passInstances(config)
  return ids.size > 0 && ids.has(path.slice(1, Math.max(1, path.indexOf('/', 1))))
}

const passInstances = memoizeLast(
  ({ instances }: Config): ReadonlySet<string> =>
    new Set(instances.flatMap(({ id, passThrough }) => (passThrough ? [id] : []))),
)

/** A call of an instance. `path`: as sent, below the name of the instance. */
export type AskedPass = {
  readonly instance: Instance
  readonly method: string
  readonly path: string
  readonly client: Pick<Client, 'access' | 'id'>
}

const denied = (message: string): Failure => fail('pass_through_denied', message)

/** Why the call may not be made, or null. */
export const passRefusal = ({ instance, method, path, client }: AskedPass): Failure | null => {
  const { id, passThrough } = instance
  if (!passThrough) return denied(`The pass-through of ${id} is off (providers.${id}.passThrough).`)
  const isGranted = (access: Access) =>
    grantsOf(access).some(
      (grant) => grant.instance === id && (grant.globs === null || grant.globs.some((glob) => matchesPath(glob, path))),
    )
  if (client.access.length === 0 || !client.access.every(isGranted))
    return denied(`This key may not pass calls to ${id} here: its team and the key both need access.passThrough.`)
  const rules = restrictionsOf(client)
  if (rules && !allowsName(rules.styles, PASS)) return styleNotAllowed(PASS)
  if (rules && !allowsName(rules.providers, id)) return denied(`This key may not use the provider ${id}.`)
  if (!globsOf(passThrough.paths).some((glob) => matchesPath(glob, path)))
    return denied(`The pass-through of ${id} does not include this path (providers.${id}.passThrough.paths).`)
  // The cast: a method of another name is not in the list.
  return passThrough.methods.includes(method as HttpMethod)
    ? null
    : fail('method_not_allowed', `The pass-through of ${id} takes ${passThrough.methods.join(', ')}, not ${method}.`)
}
