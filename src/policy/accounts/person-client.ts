/** The client of a person who signs in: as of a key of the team that pays, without anything of its own. */
import { type Client, FULL_ACCESS, NO_LIMITS, type Team } from '../../core/accounts.ts'
import { NO_REQUIRE } from '../../core/data-policy.ts'
import { clientOf } from './client.ts'

/** `email`: the user of budgets; null: unknown. */
export const personClient = (
  { id, name, email }: { readonly id: string; readonly name: string; readonly email: string | null },
  team: Team,
): Client => {
  const none = { limits: NO_LIMITS, require: NO_REQUIRE, defaultRoute: null, cache: null, logBodies: false, tags: {} }
  return { ...clientOf({ id, name, access: FULL_ACCESS, ...none }, team), user: email }
}
