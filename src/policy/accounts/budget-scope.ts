/** Which budgets count an attempt, and which counter of each. */
import type { Budget, Principal } from '../../core/accounts.ts'
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

/** What budgets count by: a client, or what the ledger has of it. */
export type CountedClient = Pick<Principal, 'id' | 'user' | 'tags'> & { readonly team: Pick<Principal['team'], 'id'> }

/** Whether a budget counts this principal, at the targets that its models and providers allow (`countsTarget`). */
export const countsPrincipal = ({ appliesTo }: Pick<Budget, 'appliesTo'>, principal: CountedClient): boolean =>
  (appliesTo.teams?.includes(principal.team.id) ?? true) &&
  (appliesTo.keys?.includes(principal.id) ?? true) &&
  Object.entries(appliesTo.tags ?? {}).every(
    ([name, value]) => Object.hasOwn(principal.tags, name) && principal.tags[name] === value,
  )

/**
 * The part of a budget that counts separately: the ID of the team or key, or the name of the user. Empty: one counter for
 * all. Requests without a user share one counter, so that a missing name does not bypass the budget.
 */
export const counterOwner = (
  { per }: Pick<Budget, 'per'>,
  principal: CountedClient,
  endUser: string | null,
): string => {
  switch (per) {
    case 'all':
      return ''
    case 'team':
      return principal.team.id
    case 'key':
      return principal.id
    case 'user':
      return principal.user ?? ''
    case 'end_user':
      return endUser ?? ''
    default:
      throw new Error(`unknown owner ${JSON.stringify(per satisfies never)}`)
  }
}
