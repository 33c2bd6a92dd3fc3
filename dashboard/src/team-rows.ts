/** The rows of the page "Teams": each team with its sums, its budget and its trend, and their order. Pure. */

import type { Shown } from '../../src/records/entities/shown.ts'
import type { TEAM } from '../../src/records/entities/team.ts'
import { nanoOf, shareOf } from './format.ts'
import { type BudgetEnd, type EndsById, type OwnBudget, placesOf } from './key-records.ts'
import type { UsageRow, UsageTotals } from './usage-figures.ts'

/** A team as a list has it, with the number of its keys. */
export type ListedTeam = Shown<typeof TEAM> & { readonly keys: number }

export type TeamRow = {
  /** Empty: the requests without a team. */
  readonly id: string
  readonly name: string
  /** Null: the team was deleted, or there is none. */
  readonly team: ListedTeam | null
  /** Null: it has no request in the range. */
  readonly totals: UsageTotals | null
  /** Its cost in the period before; null: it is not known yet. */
  readonly before: string | null
  readonly budget: OwnBudget | null
  /** Of its own budgets the one that ends first. */
  readonly end: BudgetEnd | null
  /** The place of that end among those of all teams. */
  readonly place: number | null
  /** Its cost on each of the last days. */
  readonly days: readonly number[]
}

/** What the rows are made of. `before` and `trend`: null until they are read. */
export type TeamSources = {
  readonly teams: readonly ListedTeam[]
  readonly rows: readonly UsageRow[]
  readonly names: { readonly [id: string]: string }
  readonly before: readonly UsageRow[] | null
  readonly trend: readonly UsageRow[] | null
  /** The days of the trend, as dates. */
  readonly trendDays: readonly string[]
  readonly budgets: ReadonlyMap<string, OwnBudget>
  readonly ends: EndsById
  /** The name of the requests without a team. */
  readonly none: string
}

/** A row for each team, and for each owner of cost that is no team any more. */
export const teamRows = (sources: TeamSources): readonly TeamRow[] => {
  const { teams, rows, names, before, trend, trendDays, budgets, ends, none } = sources
  const places = placesOf(ends)
  const known = new Map(teams.map((team) => [team.id, team]))
  const totals = new Map(rows.map((row) => [row.team ?? '', row]))
  const earlier = new Map((before ?? []).map((row) => [row.team ?? '', row.cost]))
  const days = daysOf(trend ?? [], trendDays)
  return [...new Set([...known.keys(), ...totals.keys()])].map((id) => ({
    id,
    name: known.get(id)?.name ?? (id === '' ? none : (names[id] ?? id)),
    team: known.get(id) ?? null,
    totals: totals.get(id) ?? null,
    before: before && (earlier.get(id) ?? '0'),
    budget: budgets.get(id) ?? null,
    end: ends?.get(id) ?? null,
    place: places.get(id) ?? null,
    days: days.get(id) ?? [],
  }))
}

/** The cost of each team on each day of a report; 0 on days without use. */
const daysOf = (rows: readonly UsageRow[], dates: readonly string[]): ReadonlyMap<string, readonly number[]> => {
  const found = new Map<string, number[]>()
  for (const { team, start = '', cost } of rows) {
    const days = found.get(team ?? '') ?? dates.map(() => 0)
    const at = dates.indexOf(start)
    // Drawn only; printed amounts are exact.
    if (at >= 0) days[at] = Number(cost)
    found.set(team ?? '', days)
  }
  return found
}

/** The share of requests that the gateway failed: with a 5xx status or broken off. Null: it is not known. */
export const failingShare = (totals: UsageTotals | null): number | null =>
  totals === null || totals.requests === 0 || totals.refused === null
    ? null
    : (totals.failed - totals.refused) / totals.requests

/** The share of requests that were refused with a 4xx status, such as by a limit. Null: it is not known. */
export const refusedShare = (totals: UsageTotals | null): number | null =>
  totals === null || totals.requests === 0 || totals.refused === null ? null : totals.refused / totals.requests

/** The change of the cost against the period before: 0.06 is 6 % more. Null: nothing to compare with. */
export const costChange = (cost: string, before: string | null): number | null =>
  before === null || nanoOf(before) <= 0n ? null : shareOf(cost, before) - 1

/** The share of its own budget that a team has spent; null without one. */
export const budgetShare = ({ budget }: TeamRow): number | null => budget && shareOf(budget.spent, budget.budget.amount)

const VALUES: { readonly [by: string]: (row: TeamRow) => number | string | null } = {
  name: ({ name }) => name.toLowerCase(),
  // Amounts of this size keep their order as numbers.
  spend: ({ totals }) => Number(totals?.cost ?? 0),
  budget: budgetShare,
  ends: ({ place }) => place,
  requests: ({ totals }) => totals?.requests ?? 0,
  failing: ({ totals }) => failingShare(totals),
  refused: ({ totals }) => refusedShare(totals),
  keys: ({ team }) => team?.keys ?? null,
  state: ({ team }) => team?.status ?? 'deleted',
}

/** Rows in an order such as `-spend`. Those without a value are last; equal ones are in the order of their names. */
export const sortedTeams = (rows: readonly TeamRow[], by: string): readonly TeamRow[] => {
  const value = VALUES[by.replace(/^-/, '')] ?? VALUES.spend
  const sign = by.startsWith('-') ? -1 : 1
  return rows
    .map((row) => ({ row, key: value?.(row) ?? null }))
    .toSorted(({ row: a, key: one }, { row: b, key: other }) => {
      if (one === null || other === null) return Number(one === null) - Number(other === null) || byName(a, b)
      return one === other ? byName(a, b) : one < other ? -sign : sign
    })
    .map(({ row }) => row)
}

const byName = (a: TeamRow, b: TeamRow): number => (a.name < b.name ? -1 : 1)
