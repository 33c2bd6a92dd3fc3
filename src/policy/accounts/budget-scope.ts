/** Which budgets count an attempt, and which counter of each. */
import type { Budget, Client } from '../../core/accounts.ts'
import { type NameRule, nameRule } from './key-access.ts'

/** A budget with its globs prepared, once when it is loaded. */
export type BudgetScope = {
  readonly budget: Budget
  readonly models: readonly NameRule[]
  readonly providers: readonly NameRule[]
}

/** Prepares a budget. */
export const budgetScope = (budget: Budget): BudgetScope => ({
  budget,
  models: nameRule(budget.appliesTo.models),
  providers: nameRule(budget.appliesTo.providers),
})

/** Owners of counters that requests name. `session`: its ID; null: the request names none. */
export type NamedOwners = { readonly endUser: string | null; readonly session: string | null }

/** What budgets count by: a client, or what the ledger has of it. */
export type CountedClient = Pick<Client, 'id' | 'user' | 'tags'> & { readonly team: Pick<Client['team'], 'id'> }

/** Whether a budget counts this client, at the targets that its models and providers allow (`countsTarget`). */
export const countsClient = ({ appliesTo }: Pick<Budget, 'appliesTo'>, client: CountedClient): boolean =>
  (appliesTo.teams?.includes(client.team.id) ?? true) &&
  (appliesTo.keys?.includes(client.id) ?? true) &&
  Object.entries(appliesTo.tags ?? {}).every(
    ([name, value]) => Object.hasOwn(client.tags, name) && client.tags[name] === value,
  )

/**
 * The part of a budget that counts separately: the ID of the team or key, or the name of the user. Empty: one counter for
 * all. Requests without a user share one counter, so that a missing name does not bypass the budget. Null: the budget does not count
 * it, because it names no session (a key may require one).
 */
export const counterOwner = (
  { per }: Pick<Budget, 'per'>,
  client: CountedClient,
  { endUser, session }: NamedOwners,
): string | null => {
  switch (per) {
    case 'all':
      return ''
    case 'team':
      return client.team.id
    case 'key':
      return client.id
    case 'user':
      return client.user ?? ''
    case 'end_user':
      return endUser ?? ''
    case 'session':
      return session
    default:
      throw new Error(`unknown owner ${JSON.stringify(per satisfies never)}`)
  }
}
