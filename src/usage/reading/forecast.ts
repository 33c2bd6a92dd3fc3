/** When a budget counter will be spent, and how much at the end of its period. */
import { sql } from 'kysely'
import { formatDollars, MAX_NANO } from '../../core/money.ts'
import { countsTarget, nameRule } from '../../policy/accounts/key-access.ts'
import type { LedgerReads } from './ledger-source.ts'
import type { Forecast, ForecastQuery, ForecastsQuery } from './queries.ts'
import { isoTime } from './request-shape.ts'
import { HOUR, hoursIn } from './usage-source.ts'

const WEEK = 168
/** Spenders whose budgets are remembered during a query. */
const MOST_KNOWN = 50_000
/** Hours for which the present rate is expected to last. */
const PRESENT = 24
/** The least part of an hour from which a rate is made: one call is none. */
const LEAST_PART = 1 / 6
/** Hours that are projected at most: a year. */
const MOST = 366 * 24

/** A budget with what it counted in each hour of the last week, in nano-dollars by the number of the hour since 1970. */
type Counted = { readonly budget: ForecastQuery; readonly costs: Map<number, number> }

export const forecastsOf = async (
  reads: LedgerReads,
  { now, budgets }: ForecastsQuery,
): Promise<readonly Forecast[]> => {
  const since = budgets.some(({ by }) => by === 'week') ? await firstHour(reads, now) : null
  const counted = budgets.map((budget) => ({ budget, costs: new Map<number, number>() }))
  if (since !== null) {
    const hours = { since, end: Math.floor(now / HOUR) + 1 }
    const weekly = counted.filter(({ budget }) => budget.by === 'week')
    const isOfAll = ({ budget }: Counted) => budget.teams === null && budget.keys === null
    await addCosts(reads, weekly.filter(isOfAll), hours, costsOfModels)
    await addCosts(
      reads,
      weekly.filter((one) => !isOfAll(one)),
      hours,
      costsOfRequests,
    )
  }
  return counted.map(({ budget, costs }) => {
    const isWeekly = budget.by === 'week'
    // Without data there is no rate.
    if (isWeekly && since === null) return forecastOf(budget, now, null)
    const hasWeek = isWeekly && since !== null && since < Math.floor(now / HOUR)
    const usual = hasWeek ? weekRate(costs, since, now) : periodRate(budget, now)
    const basis = hasWeek ? 'week' : 'period'
    return forecastOf(budget, now, usual && { usual, basis, present: presentRate(costs, now) })
  })
}

/** `usual`: what is expected of each hour. `present`: nano-dollars an hour. */
type Rates = { readonly usual: HourlyRate; readonly basis: 'week' | 'period'; readonly present: number }

/** The present rate lasts for a day, unless more is usual: a forecast is never below it, however unusual the day. */
const forecastOf = (budget: ForecastQuery, now: number, rates: Rates | null): Forecast => {
  const isSpent = budget.spent >= budget.amount
  if (!rates) return { object: 'forecast', projected: null, exhausted_at: null, basis: null }
  const { usual, basis, present } = rates
  const until = Math.floor(now / HOUR) + PRESENT
  let isRaised = false
  const { projected, exhaustedAt } = project({ ...budget, now }, (hour) => {
    const expected = usual(hour)
    if (hour > until || present <= expected) return expected
    isRaised = true
    return present
  })
  return {
    object: 'forecast',
    projected: projected === null ? null : formatDollars(Math.round(projected)),
    // When a spent budget was spent is not known.
    exhausted_at: exhaustedAt === null || isSpent ? null : isoTime(Math.round(exhaustedAt)),
    basis: isRaised ? 'present' : basis,
  }
}

/** What is spent now, in nano-dollars an hour: of this hour so far, or with the hour before it, whichever is more. */
const presentRate = (costs: ReadonlyMap<number, number>, now: number): number => {
  const hour = Math.floor(now / HOUR)
  const part = now / HOUR - hour
  const [last, current] = [costs.get(hour - 1) ?? 0, costs.get(hour) ?? 0]
  return Math.max(0, current / Math.max(part, LEAST_PART), (last + current) / (1 + part))
}

/** What is spent in an hour, in nano-dollars. `hour`: its number since 1970. */
export type HourlyRate = (hour: number) => number

/**
 * Adds the expected amount of each hour from now until the end of the period, or until the budget is spent.
 * `projected`: null without an end.
 */
export const project = (
  { now, period_end, amount, spent }: { readonly now: number } & Pick<ForecastQuery, 'period_end' | 'amount' | 'spent'>,
  rate: HourlyRate,
): { readonly projected: number | null; readonly exhaustedAt: number | null } => {
  let total = spent
  let exhaustedAt = spent >= amount ? now : null
  const end = Math.min(period_end ?? Number.POSITIVE_INFINITY, now + MOST * HOUR)
  for (let at = now; at < end; ) {
    const hour = Math.floor(at / HOUR)
    const next = Math.min(end, (hour + 1) * HOUR)
    const expected = (rate(hour) * (next - at)) / HOUR
    if (exhaustedAt === null && total + expected >= amount)
      exhaustedAt = at + ((amount - total) / expected) * (next - at)
    total = Math.min(MAX_NANO, total + expected)
    at = next
  }
  return { projected: period_end === null ? null : total, exhaustedAt }
}

/** The rate of the period so far. Null: it has just begun. */
const periodRate = ({ period_start, spent }: ForecastQuery, now: number): HourlyRate | null => {
  const hours = (now - period_start) / HOUR
  // An adjustment may have made it negative; a rate never is.
  return hours <= 0 ? null : () => Math.max(0, spent) / hours
}

/** The same hour of the last week; the average of the hours since `since` where they are fewer. */
const weekRate = (costs: ReadonlyMap<number, number>, since: number, now: number): HourlyRate => {
  const current = Math.floor(now / HOUR)
  const sum = [...costs].reduce((total, [hour, cost]) => (hour < current ? total + cost : total), 0)
  const average = sum / (current - since)
  return (hour) => {
    const weeks = Math.ceil((hour - current + 1) / WEEK)
    const before = hour - weeks * WEEK
    return before < since ? average : (costs.get(before) ?? 0)
  }
}

/** The number of the first hour with data in the last week. Null: the ledger has no data. */
const firstHour = async ({ db }: LedgerReads, now: number): Promise<number | null> => {
  const first = await db
    .selectFrom('usage_model')
    .select('hour')
    .where('hour', '>', 0)
    .orderBy('day')
    .orderBy('hour')
    .limit(1)
    .executeTakeFirst()
  return first ? Math.max(Math.floor(now / HOUR) - WEEK, first.hour / HOUR) : null
}

/** All values of the lists; null: one of them is not restricted. */
const unionOf = (lists: readonly (readonly string[] | null)[]): readonly string[] | null => {
  const values = new Set<string>()
  for (const one of lists) {
    if (one === null) return null
    for (const value of one) values.add(value)
  }
  return [...values]
}

/** Adds what the budgets count, an hour at a time, so that memory has a bound. */
const addCosts = async (
  reads: LedgerReads,
  counted: readonly Counted[],
  { since, end }: { readonly since: number; readonly end: number },
  read: typeof costsOfModels,
): Promise<void> => {
  if (counted.length === 0) return
  const teams = unionOf(counted.map(({ budget }) => budget.teams))
  const keys = unionOf(counted.map(({ budget }) => budget.keys))
  const selected = counted.map(({ budget, costs }) => ({ counts: selectorOf(budget), costs }))
  /** The budgets that count a spender, who mostly spends in many hours. */
  const known = new Map<string, readonly Map<number, number>[]>()
  const costsOf = (row: Spender) => {
    const name = JSON.stringify([row.team, row.key, row.provider, row.model])
    const found = known.get(name) ?? selected.flatMap(({ counts, costs }) => (counts(row) ? [costs] : []))
    if (known.size < MOST_KNOWN) known.set(name, found)
    return found
  }
  for (let hour = since; hour < end; hour++) {
    await reads.turn()
    for (const row of await read(reads, hour * HOUR, { teams, keys }))
      for (const costs of costsOf(row)) costs.set(hour, (costs.get(hour) ?? 0) + row.cost)
  }
}

type Owners = { readonly teams: readonly string[] | null; readonly keys: readonly string[] | null }

/** What was spent in an hour, from totals. */
const costsOfModels = (
  { db }: LedgerReads,
  hour: number,
  _: Owners,
): Promise<readonly (Spender & { cost: number })[]> =>
  hoursIn(db, { from: hour, to: hour + HOUR })
    .groupBy(['provider', 'model'])
    .select(['provider', 'model', sql<number>`sum(cost)`.as('cost')])
    .select([sql<string>`''`.as('team'), sql<string>`''`.as('key')])
    .execute()

/** What teams and keys have spent in an hour, by the target that answered, from the rows of requests. */
const costsOfRequests: typeof costsOfModels = ({ db }, hour, { teams, keys }) => {
  const text = (name: 'team' | 'key' | 'provider' | 'model') => sql<string>`coalesce(${sql.ref(name)}, '')`.as(name)
  let rows = db
    .selectFrom('request')
    .where('received', '>=', hour)
    .where('received', '<', hour + HOUR)
    .where('cost', '<>', 0)
    .groupBy(['team', 'key', 'provider', 'model'])
    .select([text('team'), text('key'), text('provider'), text('model'), sql<number>`sum(cost)`.as('cost')])
  if (teams) rows = rows.where('team', 'in', teams)
  if (keys) rows = rows.where('key', 'in', keys)
  return rows.execute()
}

type Spender = {
  readonly team: string
  readonly key: string
  readonly provider: string
  readonly model: string
}

/** Whether a budget counts a row of the hourly sums. */
const selectorOf = (budget: ForecastQuery): ((row: Spender) => boolean) => {
  const teams = budget.teams && new Set(budget.teams)
  const keys = budget.keys && new Set(budget.keys)
  const [models, providers] = [nameRule(budget.models), nameRule(budget.providers)]
  const allowed = new Map<string, boolean>()
  const allows = (provider: string, model: string): boolean => {
    const name = `${provider}/${model}`
    const known = allowed.get(name)
    if (known !== undefined) return known
    const is = countsTarget({ models, providers }, { requested: null, provider, model })
    allowed.set(name, is)
    return is
  }
  return ({ team, key, provider, model }) =>
    (!teams || teams.has(team)) && (!keys || keys.has(key)) && allows(provider, model)
}
