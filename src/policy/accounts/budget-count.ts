/** The number of budgets that count one request. Each one has a counter that the request reserves and settles. */
import { ANONYMOUS, type Budget, type Client, type Directory } from '../../core/accounts.ts'
import { type BudgetScope, budgetScope, countsClient } from './budget-scope.ts'
import { clientOf } from './client.ts'
import { countsTarget } from './key-access.ts'

/** The most budgets that may count one request. */
export const MAX_BUDGETS = 16

/** Budgets that all count the same requests of a client. */
export type BudgetOverlap = { readonly client: Client; readonly budgets: readonly Budget[] }

/**
 * Finds more than `MAX_BUDGETS` budgets that count the same request. Models and providers are checked with names made from
 * the budgets' own globs, so budgets for different models are not added up.
 */
export const budgetOverlap = ({ teams, keys, budgets }: Directory): BudgetOverlap | undefined => {
  if (budgets.size <= MAX_BUDGETS) return undefined
  const scopes = [...budgets.values()].map(budgetScope)
  const checked = new Set<string>()
  const clients = [...keys.values()].flatMap((key) => {
    const team = teams.get(key.team)
    return team && key.status !== 'revoked' ? [clientOf(key, team)] : []
  })
  for (const client of [ANONYMOUS, ...clients]) {
    const own = scopes.filter(({ budget }) => countsClient(budget, client))
    if (own.length <= MAX_BUDGETS) continue
    const set = own.map(({ budget }) => budget.id).join()
    if (checked.has(set)) continue
    checked.add(set)
    const found = overlapOf(own)
    if (found) return { client, budgets: found }
  }
  return undefined
}

const overlapOf = (scopes: readonly BudgetScope[]): readonly Budget[] | undefined => {
  const models = examplesOf(scopes.map(({ budget }) => budget.appliesTo.models))
  const providers = examplesOf(scopes.map(({ budget }) => budget.appliesTo.providers))
  for (const model of models)
    for (const provider of providers) {
      const target = { requested: model, provider, model: model.slice(model.indexOf('/') + 1) }
      const counting = scopes.filter((scope) => countsTarget(scope, target))
      if (counting.length > MAX_BUDGETS) return counting.map(({ budget }) => budget)
    }
  return undefined
}

/** Names that match the globs, and one that matches only `*`. */
const examplesOf = (lists: readonly (readonly string[] | null)[]): ReadonlySet<string> =>
  new Set([
    'x',
    ...lists
      .flatMap((list) => list ?? [])
      .filter((glob) => !glob.startsWith('!'))
      .flatMap((glob) => [glob.replaceAll('*', ''), glob.replaceAll('*', 'x')]),
  ])
