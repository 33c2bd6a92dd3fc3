/** What the usage page derives from the sums of the admin API. Pure; amounts stay exact until they are printed or drawn. */
import { type Place, withParam } from './address.ts'
import { addDollars, dollarsOf, nanoOf } from './format.ts'

export type UsageTotals = {
  readonly requests: number
  /** With those refused. */
  readonly failed: number
  /** Of the failed, those with a 4xx status; null: not counted apart in the whole range. */
  readonly refused: number | null
  readonly attempts: number
  readonly input: number
  readonly output: number
  readonly cache_read: number
  readonly cost: string
  readonly saved: string
  /** The part of the cost of attempts that delivered no whole answer. */
  readonly lost: string
  readonly unpriced: number
}

export const USAGE_GROUPS = ['key', 'team', 'model', 'route', 'client', 'provider', 'tag', 'style'] as const
export type UsageGroup = (typeof USAGE_GROUPS)[number]

export type UsageRow = UsageTotals & { readonly start?: string } & {
  readonly [group in UsageGroup]?: string | null
}

/** Requests that failed though they were right, as a share; null: it is unknown, or there were none. */
export const failedShare = ({ requests, failed, refused }: UsageTotals): number | null =>
  requests === 0 || refused === null ? null : (failed - refused) / requests

/** What a value of a group is divided by next. */
const NEXT_GROUP: { readonly [group in UsageGroup]: UsageGroup } = {
  team: 'key',
  key: 'model',
  model: 'key',
  route: 'model',
  client: 'key',
  provider: 'model',
  tag: 'key',
  style: 'model',
}

/** The view of one value of a group: filtered by it, and divided by the next group. */
export const narrowed = (place: Place, group: UsageGroup, id: string): Place =>
  withParam(withParam(place, group, [id]), 'group', groupParam(NEXT_GROUP[group]))

/** The value of `group=`; the first group needs none. */
export const groupParam = (group: UsageGroup): readonly string[] => (group === 'key' ? [] : [group])

/** One value of the group: its sums, and its cost in each bucket. */
export type UsageLine = {
  /** Empty: no value, such as requests without a key. */
  readonly id: string
  readonly totals: UsageTotals
  readonly costs: readonly string[]
}

/** The starts of the buckets, and the lines with a cost for each. */
type UsageLines = { readonly starts: readonly string[]; readonly lines: readonly UsageLine[] }

/** The lines of a report with buckets, the most expensive first. */
export const usageLines = (rows: readonly UsageRow[], group: UsageGroup): UsageLines => {
  const starts = [...new Set(rows.map(({ start }) => start ?? ''))].toSorted()
  const byId = new Map<string, UsageRow[]>()
  for (const row of rows) {
    const id = row[group] ?? ''
    const known = byId.get(id)
    if (known) known.push(row)
    else byId.set(id, [row])
  }
  const lines = [...byId].map(([id, own]): UsageLine => {
    const costs = new Map(own.map(({ start, cost }) => [start ?? '', cost]))
    return { id, totals: added(own), costs: starts.map((start) => costs.get(start) ?? '0') }
  })
  return { starts, lines: lines.toSorted((a, b) => compare(b.totals.cost, a.totals.cost)) }
}

/** Names by ID. A name that several have, such as that of a deleted team, is followed by the ID. */
export const distinctNames = (names: { readonly [id: string]: string }): { readonly [id: string]: string } => {
  const owners = Map.groupBy(Object.values(names), (name) => name)
  return Object.fromEntries(
    Object.entries(names).map(([id, name]) => [id, owners.get(name)?.length === 1 ? name : `${name} (${id})`]),
  )
}

const COLUMNS = [
  ...(['requests', 'failed', 'refused', 'input', 'cache_read', 'output'] as const),
  ...(['cost', 'saved', 'lost', 'unpriced'] as const),
]

/** The lines as rows of a CSV; amounts are exact. */
export const csvRows = (
  group: UsageGroup,
  lines: readonly UsageLine[],
  nameOf: (id: string) => string,
): readonly (readonly (string | number)[])[] => [
  [group, ...COLUMNS],
  ...lines.map(({ id, totals }) => [nameOf(id), ...COLUMNS.map((name) => totals[name] ?? '')]),
]

const compare = (a: string, b: string): number => {
  const difference = nanoOf(a) - nanoOf(b)
  return difference < 0n ? -1 : difference > 0n ? 1 : 0
}

const added = (rows: readonly UsageTotals[]): UsageTotals => {
  const sum = (name: 'requests' | 'failed' | 'attempts' | 'input' | 'output' | 'cache_read' | 'unpriced') =>
    rows.reduce((total, row) => total + row[name], 0)
  const amount = (name: 'cost' | 'saved' | 'lost') => addDollars(rows.map((row) => row[name]))
  return {
    requests: sum('requests'),
    failed: sum('failed'),
    refused: rows.reduce<number | null>(
      (total, { refused }) => (total === null || refused === null ? null : total + refused),
      0,
    ),
    attempts: sum('attempts'),
    input: sum('input'),
    output: sum('output'),
    cache_read: sum('cache_read'),
    unpriced: sum('unpriced'),
    cost: amount('cost'),
    saved: amount('saved'),
    lost: amount('lost'),
  }
}

/** The starts of all buckets of a range, with those that the report has: days or hours without use have none there. */
const everyStart = (
  found: readonly string[],
  step: number,
  { from, to }: { readonly from: number; readonly to: number },
): readonly string[] => {
  const starts = new Set(found)
  for (let at = Math.floor(from / step) * step; at < to; at += step) {
    const iso = new Date(at).toISOString()
    starts.add(step < DAY ? iso : iso.slice(0, 10))
  }
  return [...starts].toSorted()
}

/** Lines with a cost for every start of the range. `step`: ms of a bucket. */
export const withEveryStart = (
  { starts: found, lines }: UsageLines,
  step: number,
  range: { readonly from: number; readonly to: number },
): UsageLines => {
  const starts = everyStart(found, step, range)
  return {
    starts,
    lines: lines.map((line) => {
      const costs = new Map(found.map((start, at) => [start, line.costs[at] ?? '0']))
      return { ...line, costs: starts.map((start) => costs.get(start) ?? '0') }
    }),
  }
}

/** The first lines, and one with the costs of all others; null: there are no others. */
export const withOther = (
  lines: readonly UsageLine[],
  most: number,
): { readonly shown: readonly UsageLine[]; readonly other: UsageLine | null; readonly hidden: number } => {
  if (lines.length <= most) return { shown: lines, other: null, hidden: 0 }
  const hidden = lines.slice(most - 1)
  const costs = (hidden[0]?.costs ?? []).map((_, at) => addDollars(hidden.map((line) => line.costs[at] ?? '0')))
  const other = { id: '', totals: added(hidden.map(({ totals }) => totals)), costs }
  return { shown: lines.slice(0, most - 1), other, hidden: hidden.length }
}

/** The cost of 1,000 requests at this rate; null without requests. */
export const perThousand = ({ cost, requests }: UsageTotals): string | null =>
  requests === 0 ? null : dollarsOf((nanoOf(cost) * 1_000n) / BigInt(requests))

/** The cost of a day, by its date. */
export type DayCost = { readonly day: string; readonly cost: string }

/** What a month will cost, with a range. */
export type MonthForecast = {
  readonly total: string
  readonly low: string
  readonly high: string
  readonly end: string
  /** Whole days that it rests on. */
  readonly days: number
}

/** Days of the same weekday of which the median is taken, and days without which there is no forecast. */
const SAMPLES = 7
const LEAST_DAYS = 3

export const DAY = 86_400_000
const HOUR = 3_600_000
/** ms of the buckets of a report. */
export const BUCKETS = { '5m': 300_000, hour: HOUR, day: DAY } as const

const sorted = (amounts: readonly bigint[]): readonly bigint[] =>
  amounts.toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0))

/** `basis`: the present rate is above what earlier days cost from this time on, or those `days`. */
export type DayForecast = { readonly total: string; readonly basis: 'present' | 'days'; readonly days: number }

/** Times of a forecast in ms since 1970. `recent`: what the last `ms` cost. */
type DayTimes = {
  readonly now: number
  readonly midnight: number
  readonly recent: { readonly cost: string; readonly ms: number }
}

/**
 * The cost of today at its end: what is spent, and the median of what earlier days cost from this time of the day on, but
 * never less than at the present rate. `hours`: the costs of earlier hours. Null with fewer than three earlier days.
 */
export const dayForecast = (
  hours: readonly Pick<UsageRow, 'start' | 'cost'>[],
  spent: string,
  { now, midnight, recent }: DayTimes,
): DayForecast | null => {
  const costs = hours.map(({ start = '', cost }) => ({ at: Date.parse(start), nano: nanoOf(cost) }))
  const first = Math.min(...costs.map(({ at }) => at))
  const rests: bigint[] = []
  // Only days that are known from this time on.
  for (let day = midnight - DAY; now - midnight + day >= first; day -= DAY) {
    const from = now - midnight + day
    rests.push(
      costs.reduce((sum, { at, nano }) => {
        // Of the hour in which it is now, the rest.
        const share = at >= day + DAY ? 0 : Math.max(0, Math.min(1, (at + HOUR - from) / HOUR))
        return sum + (nano * BigInt(Math.round(share * 1_000))) / 1_000n
      }, 0n),
    )
  }
  if (rests.length < LEAST_DAYS) return null
  const usual = quantile(sorted(rests), 0.5)
  const left = BigInt(Math.max(0, Math.round(midnight + DAY - now)))
  const present = recent.ms > 0 ? (nanoOf(recent.cost) * left) / BigInt(Math.round(recent.ms)) : 0n
  const isPresent = present > usual
  return {
    total: dollarsOf(nanoOf(spent) + (isPresent ? present : usual)),
    basis: isPresent ? 'present' : 'days',
    days: rests.length,
  }
}

/** ms of which the present rate is taken, at least. */
const RECENT = HOUR

/** The cost of the last buckets of a series, as many as have an hour. */
export const recentCost = (
  series: readonly { readonly start: string; readonly cost: string }[],
  now: number,
): { readonly cost: string; readonly ms: number } => {
  const past = series.filter(({ start }) => Date.parse(start) < now)
  const found = past.findLastIndex(({ start }) => now - Date.parse(start) >= RECENT)
  const used = past.slice(Math.max(0, found))
  const [first] = used
  return first
    ? { cost: addDollars(used.map(({ cost }) => cost)), ms: Math.max(RECENT, now - Date.parse(first.start)) }
    : { cost: '0', ms: 0 }
}

/** What the rest of a day costs if it is as its beginning. */
const restOfDay = (done: bigint, elapsed: number): bigint => {
  const passed = Math.min(1, Math.max(elapsed, 1 / 24))
  return done > 0n ? (done * BigInt(Math.round((1 - passed) * 1e6))) / BigInt(Math.round(passed * 1e6)) : 0n
}

const quantile = (values: readonly bigint[], share: number): bigint =>
  values[Math.min(values.length - 1, Math.floor(share * values.length))] ?? 0n
const dateOf = (at: number): string => new Date(at).toISOString().slice(0, 10)

/**
 * The cost of the month of `today` (a date): what is spent, and for each day to come the median of the last days of its
 * weekday, with their quartiles as range. The rest of today is at least as its beginning. `elapsed`: the part of today that
 * has passed. Null with fewer than three whole days.
 */
export const monthForecast = (days: readonly DayCost[], today: string, elapsed: number): MonthForecast | null => {
  const whole = days.filter(({ day }) => day < today).toSorted((a, b) => (a.day < b.day ? 1 : -1))
  if (whole.length < LEAST_DAYS) return null
  const month = today.slice(0, 7)
  const spent = days.filter(({ day }) => day.startsWith(month)).map(({ cost }) => nanoOf(cost))
  const start = Date.parse(`${today}T00:00:00Z`)
  const totals = { low: 0n, mid: 0n, high: 0n }
  let end = today
  for (let at = start; dateOf(at).startsWith(month); at += DAY) {
    end = dateOf(at)
    const weekday = new Date(at).getUTCDay()
    const same = whole.filter(({ day }) => new Date(`${day}T00:00:00Z`).getUTCDay() === weekday).slice(0, SAMPLES)
    const used = same.length >= LEAST_DAYS ? same : whole.slice(0, SAMPLES)
    const past = sorted(used.map(({ cost }) => nanoOf(cost)))
    // What today has cost already is counted once.
    const done = at === start ? nanoOf(days.find(({ day }) => day === today)?.cost ?? '0') : 0n
    const least = at === start ? restOfDay(done, elapsed) : 0n
    const more = (share: number) => {
      const rest = quantile(past, share) - done
      return rest > least ? rest : least
    }
    totals.low += more(0.25)
    totals.mid += more(0.5)
    totals.high += more(0.75)
  }
  const sum = spent.reduce((total, one) => total + one, 0n)
  return {
    total: dollarsOf(sum + totals.mid),
    low: dollarsOf(sum + totals.low),
    high: dollarsOf(sum + totals.high),
    end,
    days: whole.length,
  }
}
