/** Which amounts will be used up first: of every budget, or of every team. */
import { z } from 'zod'
import type { Budget } from '../../../core/accounts.ts'
import { good } from '../../../core/failure.ts'
import { formatDollars } from '../../../core/money.ts'
import type { BudgetState } from '../../../gateway/accounts/budget-counters.ts'
import { END_OF_TIME, periodAt } from '../../../policy/accounts/period.ts'
import type { Forecast, ForecastQuery } from '../../../usage/reading/queries.ts'
import { BUDGET_ENDS } from '../../answers/budgets.ts'
import type { AdminDeps } from '../deps.ts'
import { row } from '../row.ts'
import { concerns, figuresById, NO_FORECAST, namesOf, visibleCounters } from './budgets.ts'

/** Counters whose end is estimated, and entries of an answer. */
const MOST = { counters: 1_000, entries: 1_000 }

/** A counter of a budget. `owner`: empty, or the team, key or user whose amount it is. */
type CountedAmount = { readonly budget: Budget; readonly owner: string; readonly spent: number }

const shareOf = ({ budget: { amount }, spent }: CountedAmount): number => (amount > 0 ? spent / amount : 1)

/** The counters of a budget that an actor may see. One for all is there before it has counted anything. */
const countersOf = (budget: Budget, states: readonly BudgetState[]): readonly CountedAmount[] =>
  budget.per === 'all'
    ? [{ budget, owner: '', spent: states[0]?.spent ?? 0 }]
    : states.map(({ owner, spent }) => ({ budget, owner, spent }))

/** What the requests of a counter are selected by. Tags and names that requests give are in no sum. */
const queryOf = ({ budget, owner, spent }: CountedAmount, now: number): ForecastQuery => {
  const { per, amount, appliesTo } = budget
  const { teams, keys, tags, models, providers } = appliesTo
  const { start, end } = periodAt(budget, now)
  return {
    by: tags === null && (per === 'all' || per === 'team' || per === 'key') ? 'week' : 'period',
    teams: per === 'team' ? [owner] : teams,
    keys: per === 'key' ? [owner] : keys,
    models,
    providers,
    period_start: start,
    period_end: end === END_OF_TIME ? null : end,
    amount,
    spent,
  }
}

/** The team whose requests a counter counts, all of them and no others; null: there is none. */
const teamOf = ({ budget: { per, appliesTo }, owner }: CountedAmount): string | null => {
  const { teams, keys, tags, models, providers } = appliesTo
  if (keys !== null || tags !== null || models !== null || providers !== null) return null
  if (per === 'team') return owner
  return per === 'all' && teams?.length === 1 ? (teams[0] ?? null) : null
}

type EstimatedEnd = { readonly counter: CountedAmount; readonly forecast: Forecast }

/** Spent ones, then by the time of their end, then those that last until their period ends, and those without an estimate. */
const endOf = ({ counter, forecast: { exhausted_at, basis } }: EstimatedEnd): number => {
  if (shareOf(counter) >= 1) return 0
  if (exhausted_at !== null) return Date.parse(exhausted_at)
  return basis === null ? Number.POSITIVE_INFINITY : Number.MAX_SAFE_INTEGER
}

const compare = (one: EstimatedEnd, other: EstimatedEnd): number => {
  const [a, b] = [endOf(one), endOf(other)]
  return a === b ? shareOf(other.counter) - shareOf(one.counter) : a - b
}

const endings = async (deps: AdminDeps, teams: readonly string[] | null) => {
  const figures = await deps.gateway.accounts.budgetFigures()
  const of = figuresById(figures)
  const now = deps.gateway.world.date()
  const all = [...deps.control.directory().budgets.values()]
    .filter((one) => concerns(deps, one, teams))
    .flatMap((one) => countersOf(one, visibleCounters(deps, of(one.id), one.id, teams)))
    .toSorted((one, other) => shareOf(other) - shareOf(one))
  const counters = all.slice(0, MOST.counters)
  const found = await deps.usage.forecasts({ now, budgets: counters.map((one) => queryOf(one, now)) })
  if (!found.ok) return found
  const forecasts = found.value
  return good({
    data: counters.map((counter, at) => ({ counter, forecast: forecasts[at] ?? NO_FORECAST })).toSorted(compare),
    left_out: all.length - counters.length,
  })
}

const shown = ({ counter, forecast }: EstimatedEnd) => ({
  object: 'budget_end' as const,
  budget: counter.budget.id,
  name: counter.budget.name,
  of: counter.owner,
  team: teamOf(counter),
  amount: formatDollars(counter.budget.amount),
  spent: formatDollars(counter.spent),
  forecast,
})

export const budgetEndRows = [
  row({
    method: 'GET',
    path: '/budget-ends',
    summary: 'List which budgets will be spent first',
    about:
      'One entry for each budget, of a budget with a counter for each owner the one whose amount ends first; or one for each team with a budget of its own. Spent ones are first, then by the expected time, then those that last until their period ends; those without an estimate are last. At most 1,000 counters are estimated, the fullest.',
    role: 'viewer',
    scope: 'team',
    query: z.strictObject({
      by: z.enum(['budget', 'team']).default('budget'),
      limit: z.int().min(1).max(MOST.entries).default(100).describe('Entries of the answer'),
    }),
    answer: BUDGET_ENDS,
    example: {
      query: { by: 'team', limit: '1' },
      answer: {
        object: 'list',
        data: [
          {
            object: 'budget_end',
            budget: 'bud_kdvbwqhzmrtc',
            name: 'each-team',
            of: 'team_kdvbwqhzmrtc',
            team: 'team_kdvbwqhzmrtc',
            amount: '2500.000000000',
            spent: '812.400000000',
            forecast: {
              ...NO_FORECAST,
              projected: '2710.000000000',
              exhausted_at: '2026-11-28T14:00:00.000Z',
              basis: 'week',
              hours: 168,
            },
          },
        ],
        has_more: true,
        next: null,
        names: { team_kdvbwqhzmrtc: 'search' },
        left_out: 0,
      },
    },
    async handle(deps, { query: { by, limit }, teams }) {
      const found = await endings(deps, teams)
      if (!found.ok) return found
      const { data, left_out } = found.value
      const seen = new Set<string>()
      const firsts = data.map(shown).filter((one) => {
        const name = one[by]
        if (name === null || seen.has(name)) return false
        seen.add(name)
        return true
      })
      const listed = firsts.slice(0, limit)
      const names = namesOf(
        deps,
        listed.flatMap(({ of, team }) => [of, team ?? '']),
        teams,
      )
      const has_more = firsts.length > listed.length
      return good({ body: { object: 'list' as const, data: listed, has_more, next: null, names, left_out } })
    },
  }),
]
