/** Whether an operator has blocked the end user of a request, or of what was stored for one. */
import type { Client } from '../../core/accounts.ts'
import { type Failure, fail } from '../../core/failure.ts'
import { isBlockedUser } from '../../policy/accounts/blocked-users.ts'
import type { AccountsState } from './accounts-state.ts'

/** Why a client receives nothing for an end user with these names; null: none of them is blocked for its team. */
export const blockOf = (
  { blockedUsers, world }: Pick<AccountsState, 'blockedUsers' | 'world'>,
  { team }: Pick<Client, 'team'>,
  users: readonly string[],
): Failure | null => {
  const blocked = users.length === 0 ? null : (blockedUsers?.() ?? null)
  return blocked && isBlockedUser(blocked, { team: team.id, users, now: world.date() }) ? USER_BLOCKED : null
}

const USER_BLOCKED = fail(
  'end_user_blocked',
  'The end user of this request is blocked. Contact the operator of the gateway.',
)
