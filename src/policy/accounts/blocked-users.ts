/** End users: their names in requests, and those that an operator has blocked for one team or for all. Names are compared exactly. */

import { claudeUser } from '../../core/claude-user.ts'
import { type JsonObject, object, text } from '../../core/json.ts'

/** `until`: ms since 1970. */
export type BlockedUser = { readonly team: string | null; readonly user: string; readonly until: number | null }

/** By `blockedUserId`, the end of each block. */
export type BlockedUsers = ReadonlyMap<string, number>

/** The ID of a block. IDs of teams have no spaces. `team` null: all teams. */
export const blockedUserId = ({ team, user }: Pick<BlockedUser, 'team' | 'user'>): string => `${team ?? ''} ${user}`

export const parseBlockedUser = (id: string): Pick<BlockedUser, 'team' | 'user'> => {
  const space = id.indexOf(' ')
  return { team: space > 0 ? id.slice(0, space) : null, user: id.slice(space + 1) }
}

/** Whether one of these names is blocked for the team, or for all. */
export const isBlockedUser = (
  blocked: BlockedUsers,
  { team, users, now }: { readonly team: string; readonly users: readonly string[]; readonly now: number },
): boolean =>
  users.some((user) =>
    [team, null].some((one) => now < (blocked.get(blockedUserId({ team: one, user })) ?? Number.NEGATIVE_INFINITY)),
  )

/** Characters of an end user's name. */
const MAX_NAME = 256

/**
 * The names of the end user, as OpenAI's and Anthropic's requests give them: the first one counts in budgets. Claude Code adds its
 * session to the name, which is left out: otherwise each session would be another end user, with a budget of its own.
 */
export const namedUsers = ({ user, safety_identifier, metadata }: JsonObject): readonly string[] => {
  const names = [text(safety_identifier), text(user), personIn(text(object(metadata)?.user_id))]
  if (names.every((name) => name === undefined)) return NO_USERS
  return names.flatMap((name) => (name ? [name.slice(0, MAX_NAME)] : []))
}

const personIn = (id: string | undefined): string | undefined => {
  const named = id === undefined ? undefined : claudeUser(id)
  return named ? named.user : id
}

const NO_USERS: readonly string[] = []
