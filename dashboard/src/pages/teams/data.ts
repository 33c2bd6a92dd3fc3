/** What the pages of teams read. */
import { readAll, useResource } from '../../api.ts'
import { ownBudgets } from '../../key-records.ts'
import { readBudgets, useEnds } from '../../own-budgets.ts'
import { current, currentRange, gatewayNow } from '../../store.ts'
import type { ListedTeam, TeamSources } from '../../team-rows.ts'
import { DAY } from '../../usage-figures.ts'
import { readReport } from '../../usage-report.ts'

/** Teams that are read. */
const MOST = 1_000
const ROWS = 10_000
/** Days of the trend: with all teams, as many rows as a report has. */
export const TREND = 10
const EVERY = 30_000

export const iso = (at: number): string => new Date(at).toISOString()

/** The range of the address, for the key of a resource. */
export const rangeName = (): string => `${current.value.from} ${current.value.to}`

/** The range as parameters of a query. */
export const rangeQuery = () => {
  const { from, to } = currentRange()
  return { from: iso(from), to: iso(to) }
}

/** The period of the same length before. */
export const beforeQuery = () => {
  const { from, to } = currentRange()
  return { from: iso(2 * from - to), to: iso(from) }
}

/** The days of the trend, until today. */
const trendDays = (): readonly string[] =>
  Array.from({ length: TREND }, (_, at) => iso(gatewayNow() - (TREND - 1 - at) * DAY).slice(0, 10))

export const useBudgets = () => useResource('budgets of teams', () => readBudgets('team'), { every: EVERY })

/** All teams with their sums. `null` parts are not read yet. */
export const useTeams = () => {
  const teams = useResource('teams with keys', () => readAll<ListedTeam>('/teams', { sort: 'name' }, MOST), {
    every: EVERY,
  })
  const sums = { by: ['team'], bucket: 'none', limit: ROWS }
  const report = useResource(`teams ${rangeName()}`, () => readReport({ ...rangeQuery(), ...sums }), { every: EVERY })
  const before = useResource(`teams before ${rangeName()}`, () => readReport({ ...beforeQuery(), ...sums }))
  const [first = ''] = trendDays()
  const trend = useResource(`teams trend ${first}`, () =>
    readReport({ from: first, by: ['team'], bucket: 'day', limit: ROWS }),
  )
  const budgets = useBudgets()
  const ends = useEnds('team')
  const reload = () => {
    teams.reload()
    budgets.reload()
  }
  return { teams, report, before, trend, budgets, ends, reload }
}

/** The parts of the rows, once the teams and their sums are read. */
export const sourcesOf = (
  { teams, report, before, trend, budgets, ends }: ReturnType<typeof useTeams>,
  none: string,
): TeamSources | null =>
  teams.value && report.value
    ? {
        teams: teams.value.data,
        rows: report.value.data,
        names: report.value.names,
        before: before.value?.data ?? null,
        trend: trend.value?.data ?? null,
        trendDays: trendDays(),
        budgets: budgets.value ? ownBudgets(budgets.value, 'team') : new Map(),
        ends,
        none,
      }
    : null
