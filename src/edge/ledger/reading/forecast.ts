/** When a budget counter will be spent, and how much at the end of its period. */
import { sql } from 'kysely'
import { formatDollars, MAX_NANO } from '../../../core/money.ts'
import { allowsName, modelNames, nameRule } from '../../../policy/accounts/key-access.ts'
import type { Forecast, ForecastQuery } from './queries.ts'
import { isoTime } from './request-shape.ts'
import type { LedgerReads } from './usage-file.ts'

const HOUR = 3_600_000
const WEEK = 168
/** Hours that are projected at most: a year. */
const MOST = 366 * 24

export const forecastOf = async (reads: LedgerReads, query: ForecastQuery): Promise<Forecast> => {
  const rate = query.by === 'week' ? await weekRate(reads, query) : periodRate(query)
  if (!rate)
    return {
      object: 'forecast',
      projected: null,
      exhausted_at: query.spent >= query.amount ? isoTime(query.now) : null,
    }
  const { projected, exhaustedAt } = project(query, rate)
  return {
    object: 'forecast',
    projected: projected === null ? null : formatDollars(Math.round(projected)),
    exhausted_at: exhaustedAt === null ? null : isoTime(Math.round(exhaustedAt)),
  }
}

/** What is spent in an hour, in nano-dollars. `hour`: its number since 1970. */
export type HourlyRate = (hour: number) => number

/**
 * Adds the expected amount of each hour from now until the end of the period, or until the budget is spent.
 * `projected`: null without an end.
 */
export const project = (
  { now, period_end, amount, spent }: Pick<ForecastQuery, 'now' | 'period_end' | 'amount' | 'spent'>,
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
const periodRate = ({ now, period_start, spent }: ForecastQuery): HourlyRate | null => {
  const hours = (now - period_start) / HOUR
  return hours <= 0 ? null : () => spent / hours
}

/** The same hour of the last week; the average of the hours with data where they are fewer. Null: there are none. */
const weekRate = async (reads: LedgerReads, query: ForecastQuery): Promise<HourlyRate | null> => {
  const { db } = reads
  const current = Math.floor(query.now / HOUR)
  const first = await db.selectFrom('usage_hour').select(sql<number | null>`min(hour)`.as('hour')).executeTakeFirst()
  if (typeof first?.hour !== 'number') return null
  const since = Math.max(current - WEEK, first.hour / HOUR)
  // Only the current hour has data.
  if (since >= current) return periodRate(query)
  const costs = await hourlyCosts(reads, query, since)
  const sum = [...costs.values()].reduce((total, cost) => total + cost, 0)
  const average = sum / (current - since)
  return (hour) => {
    const weeks = Math.ceil((hour - current + 1) / WEEK)
    const before = hour - weeks * WEEK
    return before < since ? average : (costs.get(before) ?? 0)
  }
}

/** By the number of the hour, without the current one. */
const hourlyCosts = async ({ db }: LedgerReads, query: ForecastQuery, since: number): Promise<Map<number, number>> => {
  const [models, providers] = [nameRule(query.models), nameRule(query.providers)]
  let rows = db
    .selectFrom('usage_hour')
    .where('hour', '>=', since * HOUR)
    .where('hour', '<', Math.floor(query.now / HOUR) * HOUR)
    .groupBy(['hour', 'provider', 'model'])
    .select(['hour', 'provider', 'model', sql<number>`sum(cost)`.as('cost')])
    .having(sql<number>`sum(cost)`, '<>', 0)
  if (query.teams) rows = rows.where('team', 'in', query.teams)
  if (query.keys) rows = rows.where('key', 'in', query.keys)
  if (query.tags) rows = rows.where('tag', 'in', query.tags)
  const costs = new Map<number, number>()
  for (const { hour, provider, model, cost } of await rows.execute()) {
    const names = modelNames({ requested: null, provider, model })
    if (!allowsName(providers, provider) || !allowsName(models, ...names)) continue
    costs.set(hour / HOUR, (costs.get(hour / HOUR) ?? 0) + cost)
  }
  return costs
}
