/** End users that an operator has blocked, for one team or for all. Names are those that requests give, exactly. */

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
