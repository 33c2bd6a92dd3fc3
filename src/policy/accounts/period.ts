/**
 * Calendar periods of budgets in an IANA time zone. A day may have 23 or 25 hours. Periods of a zone follow each other
 * without gap or overlap. Computed when a period begins, not per request: a call takes 10 to 100 µs.
 */
import type { Budget, PeriodName } from '../../core/accounts.ts'

/** A period in ms since 1970: from `start`, up to but without `end`. */
export type Period = { readonly start: number; readonly end: number }

/** Which period; see `Budget`. */
export type PeriodRule = Pick<Budget, 'period' | 'timezone' | 'startDay'>

const HOUR = 3_600_000
const DAY = 24 * HOUR
const QUARTER_HOUR = HOUR / 4
/** The last instant of a `Date`. The period `total` ends there. */
export const END_OF_TIME = 8_640_000_000_000_000

/**
 * The period that contains `at` (ms since 1970). A day begins at the first instant with its date: at 01:00 if midnight is
 * skipped, at the first of two midnights. Throws a RangeError if the time zone is unknown; see `isTimezone`.
 */
export const periodAt = ({ period, timezone, startDay }: PeriodRule, at: number): Period => {
  if (period === 'total') return { start: 0, end: END_OF_TIME }
  const offset = offsetsOf(timezone)
  if (period === 'hour') return hourAt(offset, at)
  const calendar = { period, startDay }
  const startOf = (n: number) => startOfDay(offset, firstDay(calendar, n))
  let n = numberOf(calendar, Math.floor((at + offset(at)) / DAY))
  // Where a midnight occurs twice, the hour before it repeats the previous date but belongs to the period that has begun.
  while (startOf(n + 1) <= at) n++
  return { start: startOf(n), end: startOf(n + 1) }
}

/** A date as `2026-12-01` in a time zone. `at`: ms since 1970. */
export const dayIn = (timezone: string, at: number): string =>
  new Intl.DateTimeFormat('sv-SE', { timeZone: timezone, year: 'numeric', month: '2-digit', day: '2-digit' }).format(at)

/**
 * Whether a text names a time zone that this runtime knows. It also accepts offsets such as +01:00, which are refused: they
 * have no daylight saving time.
 */
export const isTimezone = (name: string): boolean => {
  if (!/^[A-Z]/i.test(name)) return false
  try {
    offsetsOf(name)
    return true
  } catch {
    return false
  }
}

/** The problem of a period rule as configured, or null. */
export const periodProblem = ({ period, timezone, startDay }: PeriodRule): string | null => {
  if (!isTimezone(timezone)) return `"${timezone}" is not a known time zone. Write an IANA name, such as Europe/Berlin.`
  const last = period === 'week' ? 7 : period === 'month' ? 28 : 1
  if (Number.isInteger(startDay) && startDay >= 1 && startDay <= last) return null
  return last === 1
    ? `\`startDay\` has no effect on the period ${period}. Remove it.`
    : `\`startDay\` ${startDay} is not a whole number from 1 to ${last}. Choose the day on which a ${period} begins.`
}

// ── Days since 1970 and numbered periods ────────────────────────────────────────────────────────────────────────

/** 1 January 1970 was a Thursday, the fourth day of the week. */
const FIRST_WEEKDAY = 4
const MONTHS: { readonly [period in 'month' | 'quarter' | 'year']: number } = { month: 1, quarter: 3, year: 12 }

/** A period of whole days. */
type DayRule = { readonly period: Exclude<PeriodName, 'hour' | 'total'>; readonly startDay: number }

/** The consecutive number of the period with this day; days are counted from 1970. */
const numberOf = ({ period, startDay }: DayRule, day: number): number => {
  if (period === 'day') return day
  if (period === 'week') return Math.floor((day + FIRST_WEEKDAY - startDay) / 7)
  const date = new Date(day * DAY)
  const month = date.getUTCFullYear() * 12 + date.getUTCMonth()
  const begun = period !== 'month' || date.getUTCDate() >= startDay
  return Math.floor((begun ? month : month - 1) / MONTHS[period])
}

/** The first day of a numbered period. */
const firstDay = ({ period, startDay }: DayRule, n: number): number => {
  if (period === 'day') return n
  if (period === 'week') return n * 7 - FIRST_WEEKDAY + startDay
  return Date.UTC(0, n * MONTHS[period] - MONTHS_TO_1900, period === 'month' ? startDay : 1) / DAY
}

/** `Date.UTC` reads the year 0 as 1900. */
const MONTHS_TO_1900 = 1900 * 12

// ── Time zones ──────────────────────────────────────────────────────────────────────────────────────────────────

/** The zone's distance from UTC at an instant; positive east of Greenwich. All in ms. */
type Offsets = (at: number) => number

/** The first instant of a date. `day`: days since 1970. */
const startOfDay = (offset: Offsets, day: number): number => {
  const midnight = day * DAY
  const before = offset(midnight - DAY)
  const after = offset(midnight + DAY)
  if (offset(midnight - before) === before) return midnight - before
  if (offset(midnight - after) === after) return midnight - after
  // The clock skips midnight: the date begins at the transition.
  let [early, late] = [midnight - Math.max(before, after), midnight - Math.min(before, after)]
  while (late - early > 1) {
    const middle = Math.floor((early + late) / 2)
    if (offset(middle) === before) early = middle
    else late = middle
  }
  return late
}

/**
 * The hour between two instants at which the clock shows a full hour. An hour in which the clock moves by half an hour
 * (Lord Howe Island) has 90 minutes. Every zone has had offsets of whole quarter hours since 1972.
 */
const hourAt = (offset: Offsets, at: number): Period => {
  const isFull = (instant: number) => (instant + offset(instant)) % HOUR === 0
  let start = Math.floor(at / QUARTER_HOUR) * QUARTER_HOUR
  let end = start + QUARTER_HOUR
  for (let steps = 0; steps < MAX_QUARTERS && !isFull(start); steps++) start -= QUARTER_HOUR
  for (let steps = 0; steps < MAX_QUARTERS && !isFull(end); steps++) end += QUARTER_HOUR
  return { start, end }
}

/** Two hours: more than any hour has. */
const MAX_QUARTERS = 8

const offsetsOf = (timezone: string): Offsets => {
  const known = offsetsByZone.get(timezone)
  if (known) return known
  const format = new Intl.DateTimeFormat('en-US', { timeZone: timezone, timeZoneName: 'longOffset' })
  const offset: Offsets = (at) => parseOffset(format.format(at))
  offsetsByZone.set(timezone, offset)
  return offset
}
/** Formatters by zone: creating one takes 50 µs. Bounded by the number of zones. */
const offsetsByZone = new Map<string, Offsets>()

/** Reads the end of `11/1/2026, GMT-05:30`; `GMT` alone is 0. */
const parseOffset = (text: string): number => {
  const [, sign, hours, minutes, seconds] = /GMT([+-])([0-9]{2}):([0-9]{2})(?::([0-9]{2}))?$/.exec(text) ?? []
  if (sign === undefined) return 0
  const ms = Number(hours) * HOUR + Number(minutes) * 60_000 + Number(seconds ?? 0) * 1_000
  return sign === '-' ? -ms : ms
}
