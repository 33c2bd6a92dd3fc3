/** The client that a key and its team make. */
import type { Client, ClientKey, KeySecret, Team } from '../../core/accounts.ts'
import { strictest } from '../../core/loops.ts'
import { combined } from './data-policy.ts'

/** Whether a key may be used. All but `active` and `team_blocked` have the same response: an unknown key. */
export type KeyState = 'active' | 'blocked' | 'revoked' | 'expired' | 'team_blocked'

/** The state of a key. `now`: ms since 1970, because expiry is a date. A key expires at the instant of `expiresAt`. */
export const keyState = (key: ClientKey, team: Team, now: number): KeyState => {
  if (key.status !== 'active') return key.status
  if (key.expiresAt !== null && key.expiresAt <= now) return 'expired'
  return team.status === 'active' ? 'active' : 'team_blocked'
}

/** Whether a secret of a key is valid: while a key is rotated, the previous secret has an end. `now`: ms since 1970. */
export const isCurrent = ({ until }: KeySecret, now: number): boolean => until === null || now < until

/** What a client has of its key, or of what stands in its place. */
type ClientMembers = Pick<
  ClientKey,
  | 'id'
  | 'name'
  | 'access'
  | 'limits'
  | 'require'
  | 'defaultRoute'
  | 'cache'
  | 'logBodies'
  | 'requireSession'
  | 'loops'
  | 'tags'
>

/** The client of a key. Access and limits of the team come first; both apply. */
export const clientOf = (key: ClientMembers, team: Team): Client => {
  const tags = { ...team.tags, ...key.tags }
  const require = combined(team.require, key.require)
  const loops = strictest(team.loops, key.loops)
  return {
    id: key.id,
    owner: key.id,
    name: key.name,
    team: { id: team.id, name: team.name },
    user: Object.hasOwn(tags, USER_TAG) ? (tags[USER_TAG] ?? null) : null,
    access: [team.access, key.access],
    limits: [
      { id: team.id, limits: team.limits },
      { id: key.id, limits: key.limits },
    ],
    tags,
    defaultRoute: key.defaultRoute,
    cache: key.cache ?? team.cache,
    ...(require && { require }),
    ...(key.logBodies && { logBodies: true }),
    ...(key.requireSession && { requireSession: true }),
    ...(loops !== 'off' && { loops }),
  }
}

/** The tag that names the user of a key, for budgets per user. */
const USER_TAG = 'created_for'
