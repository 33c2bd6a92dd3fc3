/** Budgets with what is spent of their counters, read for the pages that show those of teams or keys. */
import { read, readAll, useResource } from './api.ts'
import type { BudgetEnds, BudgetRecord, CountersById, EndsById, Listed, ListedCounter } from './key-records.ts'

/** Budgets that are read, those of them whose counters are, and counters of each. */
const MOST = { budgets: 1_000, withCounters: 10, counters: 200 }

export type ReadBudgets = { readonly data: readonly BudgetRecord[]; readonly counters: CountersById }

/** All budgets; with the counters of those that have one for each team or key. */
export const readBudgets = async (group: 'team' | 'key'): Promise<ReadBudgets> => {
  const { data } = await readAll<BudgetRecord>('/budgets', { sort: 'name' }, MOST.budgets)
  const each = data.filter(({ per }) => per === group).slice(0, MOST.withCounters)
  const counters = await Promise.all(
    each.map(({ id }) => read<Listed<ListedCounter>>(`/budgets/${id}/counters`, { limit: MOST.counters })),
  )
  return { data, counters: Object.fromEntries(each.map(({ id }, at) => [id, counters[at]?.data ?? []])) }
}

const EVERY = 60_000

/** What ends first, by budget or by team, with the names of its owners. The estimates need the ledger, so no list waits for them. */
export const useEnds = (by: 'budget' | 'team'): EndsById => {
  const { value } = useResource(
    `budget ends ${by}`,
    () => read<BudgetEnds>('/budget-ends', { by, limit: MOST.budgets }),
    { every: EVERY },
  )
  return value && new Map(value.data.map((end) => [end[by] ?? '', { ...end, of: value.names[end.of] ?? end.of }]))
}
