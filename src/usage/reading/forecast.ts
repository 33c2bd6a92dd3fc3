/**
 * When a budget counter will be spent, and how much at the end of its period. All is read from totals, but for the present: what
 * teams and keys spend in an hour is their part of the day, by the hours of the same model.
 */
import { sql } from 'kysely'
import { formatDollars, MAX_NANO } from '../../core/money.ts'
import { countsTarget, nameRule } from '../../policy/accounts/key-access.ts'
import { daysIn } from '../bookkeeper/zone-days.ts'
import { slicesOf } from '../columns/time-slices.ts'
import { dayAfter, dayStarts, HOUR } from './days.ts'
import type { LedgerReads } from './ledger-source.ts'
import type { Forecast, ForecastQuery, ForecastsQuery, TimeRange } from './queries.ts'
import { isoTime } from './request-shape.ts'
import { hoursIn } from './usage-source.ts'

const WEEK = 168
/** Spenders whose budgets are remembered during a query. */
const MOST_KNOWN = 50_000
/** Hours for which the present rate is expected to last. */
const PRESENT = 24
/** The least part of an hour from which a rate is made: one call is none. */
const LEAST_PART = 1 / 6
/** Hours that are projected at most: a year. */
const MOST = 366 * 24

/**
 * A budget with what it counted in each hour of the last week, in nano-dollars by the number of the hour since 1970, its present
 * rate in nano-dollars an hour, and since when it is spent, in ms since 1970; null: it is not, or that is not known.
 */
type Counted = {
  readonly budget: ForecastQuery
  readonly costs: Map<number, number>
  present: number
  spentSince: number | null
}

const isSpent = ({ budget: { spent, amount } }: Pick<Counted, 'budget'>): boolean => spent >= amount

export const forecastsOf = async (
  reads: LedgerReads,
  { now, budgets }: ForecastsQuery,
): Promise<readonly Forecast[]> => {
  const since = budgets.some(({ by }) => by === 'week') ? await firstHour(reads, now) : null
  const counted = budgets.map((budget): Counted => ({ budget, costs: new Map(), present: 0, spentSince: null }))
  if (since !== null) {
    const weekly = counted.filter(({ budget }) => budget.by === 'week')
    const isOfAll = ({ budget }: Counted) => budget.teams === null && budget.keys === null
    await addWeek(reads, { all: weekly.filter(isOfAll), some: weekly.filter((one) => !isOfAll(one)) }, since, now)
  }
  return counted.map((one) => {
    const { budget, costs, present } = one
    const isWeekly = budget.by === 'week'
    // Without data there is no rate.
    if (isWeekly && since === null) return forecastOf(one, now, null)
    const hasWeek = isWeekly && since !== null && since < Math.floor(now / HOUR)
    const usual = hasWeek ? weekRate(costs, since, now) : periodRate(budget, now)
    const hours = hasWeek ? Math.floor(now / HOUR) - since : null
    return forecastOf(one, now, usual && { usual, basis: hasWeek ? 'week' : 'period', present, hours })
  })
}

/** `usual`: what is expected of each hour. `present`: nano-dollars an hour. `hours`: those of the week with data. */
type Rates = {
  readonly usual: HourlyRate
  readonly basis: 'week' | 'period'
  readonly present: number
  readonly hours: number | null
}

/** The present rate lasts for a day, unless more is usual: a forecast is never below it, however unusual the day. */
const forecastOf = (counted: Counted, now: number, rates: Rates | null): Forecast => {
  const { budget, spentSince } = counted
  const none = { projected: null, exhausted_at: null, spent_since: null, basis: null, hours: null }
  if (!rates) return { object: 'forecast', ...none }
  const { usual, basis, present, hours } = rates
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
    exhausted_at: exhaustedAt === null || isSpent(counted) ? null : isoTime(Math.round(exhaustedAt)),
    spent_since: spentSince === null ? null : isoTime(spentSince),
    basis: isRaised ? 'present' : basis,
    hours: isRaised ? null : hours,
  }
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
  const first = await db.selectFrom('usage_hour').select('hour').orderBy('hour').limit(1).executeTakeFirst()
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

/** `all`: of all teams and keys; `some`: of some. */
type CountedBudgets = { readonly all: readonly Counted[]; readonly some: readonly Counted[] }

/** Adds what the budgets count, a day at a time, so that memory has a bound. */
const addWeek = async (
  reads: LedgerReads,
  { all, some }: CountedBudgets,
  since: number,
  now: number,
): Promise<void> => {
  const dayOf = daysIn(reads.timezone)
  const startOfDay = dayStarts(dayOf)
  const owners = ownersOf(some)
  const [ofAll, ofSome] = [spendersOf(all), spendersOf(some)]
  for (let start = startOfDay(since * HOUR), end = start; start <= now; start = end) {
    end = dayAfter(startOfDay, start)
    await reads.turn()
    const hours = await hoursOf(reads, { from: Math.ceil(start / HOUR) * HOUR, to: end })
    for (const row of hours) if (row.hour >= since) for (const one of ofAll(row)) addCost(one.costs, row.hour, row.cost)
    if (some.length === 0) continue
    const spent = new Map<Counted, Map<string, number>>()
    for (const row of await spentOn(reads, dayOf(start), owners))
      for (const one of ofSome(row)) {
        const targets = spent.get(one) ?? new Map<string, number>()
        spent.set(one, targets)
        addCost(targets, targetOf(row), row.cost)
      }
    const shares = sharesOf(hours)
    for (const [{ costs }, targets] of spent)
      for (const [target, cost] of targets)
        for (const [hour, share] of shares(target)) if (hour >= since) addCost(costs, hour, cost * share)
  }
  for (const one of all) {
    const hour = Math.floor(now / HOUR)
    one.present = presentRate([one.costs.get(hour) ?? 0, one.costs.get(hour - 1) ?? 0], now, now)
    one.spentSince = spentSince(one.budget, one.costs, hour, since)
  }
  await addPresent(reads, some, owners, now)
  await addSpentSince(reads, some.filter(isSpent), since, now)
}

/** The beginning of the hour in which a budget was spent: without it and the hours after it something was left. */
const spentSince = (
  { spent, amount, period_start }: ForecastQuery,
  costs: ReadonlyMap<number, number>,
  last: number,
  first: number,
): number | null => {
  let before = spent
  for (let hour = last; before >= amount && hour >= Math.max(first, period_start / HOUR); hour--) {
    before -= costs.get(hour) ?? 0
    if (before < amount) return hour * HOUR
  }
  return null
}

/** Since when budgets of some teams or keys are spent, from rows, the newest first, until the time for that is over. */
const addSpentSince = async (
  reads: LedgerReads,
  spent: readonly Counted[],
  since: number,
  now: number,
): Promise<void> => {
  if (spent.length === 0) return
  const [counts, owners] = [spendersOf(spent), ownersOf(spent)]
  const from = Math.max(since * HOUR, Math.min(...spent.map(({ budget }) => budget.period_start)))
  const costs = new Map(spent.map((one) => [one, new Map<number, number>()]))
  for await (const part of slicesOf(reads, { from, to: Math.ceil(now) + 1 }, 'newest first')) {
    for (const row of await spentIn(reads, part, owners))
      for (const one of counts(row)) addCost(costs.get(one) ?? new Map(), row.hour, row.cost)
    for (const one of spent)
      one.spentSince = spentSince(one.budget, costs.get(one) ?? new Map(), Math.floor(now / HOUR), part.from / HOUR)
    if (reads.isOver('list') || spent.every((one) => one.spentSince !== null)) return
  }
}

/**
 * The present rate of budgets of some teams or keys, from the rows of this hour and of the hour before. The newest come first, until
 * the time for that is over.
 */
const addPresent = async (reads: LedgerReads, some: readonly Counted[], owners: Owners, now: number): Promise<void> => {
  if (some.length === 0) return
  const current = Math.floor(now / HOUR)
  const counts = spendersOf(some)
  const spent = new Map<Counted, [number, number]>()
  let read = now
  for await (const part of slicesOf(reads, { from: (current - 1) * HOUR, to: Math.ceil(now) + 1 }, 'newest first')) {
    for (const row of await spentIn(reads, part, owners))
      for (const one of counts(row)) {
        const [now, before] = spent.get(one) ?? [0, 0]
        spent.set(one, row.hour >= current ? [now + row.cost, before] : [now, before + row.cost])
      }
    read = part.from
    if (reads.isOver('list')) break
  }
  for (const [one, costs] of spent) one.present = presentRate(costs, now, now - read)
}

/**
 * What is spent now, in nano-dollars an hour: of this hour so far, or with the hour before it, whichever is more. `costs`: of both;
 * `read`: the ms before now that were added up.
 */
const presentRate = ([current, before]: readonly [number, number], now: number, read: number): number => {
  const part = now / HOUR - Math.floor(now / HOUR)
  const rateOf = (cost: number, hours: number) => cost / Math.max(Math.min(hours, read / HOUR), LEAST_PART)
  return Math.max(0, rateOf(current, part), rateOf(current + before, 1 + part))
}

const addCost = <Name>(costs: Map<Name, number>, name: Name, cost: number): void => {
  costs.set(name, (costs.get(name) ?? 0) + cost)
}

/** The budgets that count a spender, who mostly spends in many hours. Of many budgets few are for a key or a team. */
const spendersOf = (counted: readonly Counted[]): ((row: Spender) => readonly Counted[]) => {
  const selected = counted.flatMap((one) => {
    const { keys, teams } = one.budget
    const owners = keys?.map((id) => `key ${id}`) ?? teams?.map((id) => `team ${id}`) ?? ['']
    const counts = selectorOf(one.budget)
    return [...new Set(owners)].map((owner) => ({ owner, one, counts }))
  })
  const byOwner = Map.groupBy(selected, ({ owner }) => owner)
  const known = new Map<string, readonly Counted[]>()
  return (row) => {
    const name = JSON.stringify([row.team, row.key, row.provider, row.model])
    const near = [`key ${row.key}`, `team ${row.team}`, ''].flatMap((owner) => byOwner.get(owner) ?? [])
    const found = known.get(name) ?? near.flatMap(({ one, counts }) => (counts(row) ? [one] : []))
    if (known.size < MOST_KNOWN) known.set(name, found)
    return found
  }
}

// ── Totals and rows ──────────────────────────────────────────────────────────────────────────────────────────────────

type Owners = { readonly teams: readonly string[] | null; readonly keys: readonly string[] | null }

const ownersOf = (counted: readonly Counted[]): Owners => ({
  teams: unionOf(counted.map(({ budget }) => budget.teams)),
  keys: unionOf(counted.map(({ budget }) => budget.keys)),
})

type HourSpent = Spender & { readonly cost: number /** Its number since 1970. */; readonly hour: number }

/** What targets have cost by hour. */
const hoursOf = async ({ db }: LedgerReads, range: TimeRange): Promise<readonly HourSpent[]> => {
  const rows = await hoursIn(db, range)
    .groupBy(['hour', 'provider', 'model'])
    .select(['hour', 'provider', 'model', sql<number>`sum(cost)`.as('cost')])
    .execute()
  return rows.map((row) => ({ ...row, hour: row.hour / HOUR, team: '', key: '' }))
}

/** What teams and keys have spent on a day. */
const spentOn = ({ db }: LedgerReads, day: string, { teams, keys }: Owners) => {
  let rows = db
    .selectFrom('usage_day')
    .where('day', '=', day)
    .where('cost', '<>', 0)
    .groupBy(['team', 'key', 'provider', 'model'])
    .select(['team', 'key', 'provider', 'model', sql<number>`sum(cost)`.as('cost')])
  if (teams) rows = rows.where('team', 'in', teams)
  if (keys) rows = rows.where('key', 'in', keys)
  return rows.execute()
}

/** A bound number would make it a fraction. */
const HOUR_OF_ROWS = sql<number>`received / ${sql.lit(HOUR)}`

/** What they have spent in a part of a time, by the target that answered. */
const spentIn = async ({ db }: LedgerReads, { from, to }: TimeRange, { teams, keys }: Owners) => {
  const text = (name: 'team' | 'key' | 'provider' | 'model') => sql<string>`coalesce(${sql.ref(name)}, '')`.as(name)
  let rows = db
    .selectFrom('request')
    .where('received', '>=', from)
    .where('received', '<', to)
    .where('cost', '<>', 0)
    .groupBy([HOUR_OF_ROWS, 'team', 'key', 'provider', 'model'])
    .select([HOUR_OF_ROWS.as('hour'), sql<number>`sum(cost)`.as('cost')])
    .select([text('team'), text('key'), text('provider'), text('model')])
  if (teams) rows = rows.where('team', 'in', teams)
  if (keys) rows = rows.where('key', 'in', keys)
  return rows.execute()
}

const targetOf = ({ provider, model }: Spender): string => JSON.stringify([provider, model])

/** The parts of what a target cost on a day that its hours have; of all targets if that one has none. */
const sharesOf = (hours: readonly HourSpent[]): ((target: string) => ReadonlyMap<number, number>) => {
  const all = new Map<number, number>()
  const byTarget = new Map<string, Map<number, number>>()
  for (const row of hours) {
    const target = byTarget.get(targetOf(row)) ?? new Map<number, number>()
    byTarget.set(targetOf(row), target)
    addCost(target, row.hour, row.cost)
    addCost(all, row.hour, row.cost)
  }
  const shares = (costs: Map<number, number>): ReadonlyMap<number, number> => {
    const sum = [...costs.values()].reduce((total, cost) => total + cost, 0)
    return new Map(sum > 0 ? [...costs].map(([hour, cost]) => [hour, cost / sum]) : [])
  }
  const known = new Map<string, ReadonlyMap<number, number>>()
  const ofAll = shares(all)
  return (target) => {
    const found = known.get(target) ?? shares(byTarget.get(target) ?? new Map())
    known.set(target, found)
    return found.size > 0 ? found : ofAll
  }
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
