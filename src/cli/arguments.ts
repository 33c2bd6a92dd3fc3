/** Values of options: numbers, lists, tags and times. Invalid ones are usage errors. */
import { Option } from 'commander'
import type { Json, JsonObject } from '../core/json.ts'
import { daysIn } from '../usage/bookkeeper/zone-days.ts'
import { CliError, EXIT } from './cli.ts'

/** An option whose value is one of these: others are refused, and shells complete it. */
export const choice = (flags: string, about: string, values: readonly string[]): Option =>
  new Option(flags, about).choices(values)

const usage = (message: string): never => {
  throw new CliError(EXIT.usage, message)
}

/** A whole number from 0. `unlimited` is null. */
export const wholeNumber = (option: string, value: string | undefined): number | null | undefined => {
  if (value === undefined) return undefined
  if (value === 'unlimited') return null
  return /^[0-9]{1,10}$/.test(value) ? Number(value) : usage(`${option} needs a whole number or "unlimited".`)
}

/** A comma list. `any` is null: no restriction. An empty text is an empty list: nothing. */
export const globList = (value: string | undefined): readonly string[] | null | undefined => {
  if (value === undefined) return undefined
  if (value === 'any') return null
  return value
    .split(',')
    .map((one) => one.trim())
    .filter((one) => one !== '')
}

/** Collects repeated options. */
export const repeated = (value: string, before: readonly string[] = []): readonly string[] => [...before, value]

/** `name=value`, repeated. */
export const tagsOf = (values: readonly string[] = []): Readonly<Record<string, string>> =>
  Object.fromEntries(
    values.map((value) => {
      const at = value.indexOf('=')
      return at > 0
        ? [value.slice(0, at), value.slice(at + 1)]
        : usage('--tag needs name=value, such as --tag app=search.')
    }),
  )

const UNITS: { readonly [unit: string]: number } = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
}
const DURATION = /^([0-9]{1,6})(ms|[smhdw])$/

/** A duration such as `500ms`, `30m`, `24h` or `7d` in ms; undefined: it is not one. */
export const durationMs = (value: string): number | undefined => {
  const [, count, unit = ''] = DURATION.exec(value) ?? []
  const size = UNITS[unit]
  return count === undefined || size === undefined ? undefined : Number(count) * size
}

const DAY = 86_400_000

/** The date that a word names, as of today; undefined: it names none. All are beginnings. */
const dateOf = (words: string, today: Date): Date | undefined => {
  const [year, month, day] = [today.getUTCFullYear(), today.getUTCMonth(), today.getUTCDate()]
  const at = (ofYear: number, ofMonth: number, ofDay: number) => new Date(Date.UTC(ofYear, ofMonth, ofDay))
  const monday = day - ((today.getUTCDay() + 6) % 7)
  switch (
    words
      .trim()
      .toLowerCase()
      .replace(/[\s_-]{1,5}/g, ' ')
  ) {
    case 'today':
      return at(year, month, day)
    case 'yesterday':
      return at(year, month, day - 1)
    case 'tomorrow':
      return at(year, month, day + 1)
    case 'this week':
      return at(year, month, monday)
    case 'last week':
      return at(year, month, monday - 7)
    case 'this month':
      return at(year, month, 1)
    case 'last month':
      return at(year, month - 1, 1)
    case 'this year':
      return at(year, 0, 1)
    case 'last year':
      return at(year - 1, 0, 1)
    default:
      return undefined
  }
}

/** Midnight of a date in a zone, in ms since 1970; in the night in which clocks change, the first moment of that date. */
const midnight = (date: Date, zone: string): number => {
  const dayOf = daysIn(zone)
  const wanted = date.toISOString().slice(0, 10)
  // Offsets are whole quarters of an hour, at most 14 hours.
  let at = date.getTime() - 15 * 3_600_000
  while (dayOf(at) < wanted && at < date.getTime() + 2 * DAY) at += 900_000
  return at
}

/**
 * A time in UTC as ISO 8601: of ISO 8601, of a date or a word for one such as `yesterday` or `this month` (its beginning in
 * `zone`), or of a duration from now (`sign` 1) or before now (-1).
 */
export const timeOf = (option: string, value: string, sign: 1 | -1, zone = 'UTC'): string => {
  const duration = durationMs(value)
  if (duration !== undefined) return new Date(Date.now() + sign * duration).toISOString()
  const isDate = /^\d{4}-\d{2}-\d{2}$/.test(value)
  const today = new Date(`${dayIn(zone)}T00:00:00Z`)
  const date = isDate ? new Date(`${value}T00:00:00Z`) : dateOf(value, today)
  if (date !== undefined && Number.isFinite(date.getTime())) return new Date(midnight(date, zone)).toISOString()
  const time = /^\d{4}-\d{2}-\d{2}[T ]/.test(value) ? Date.parse(value) : Number.NaN
  return Number.isFinite(time)
    ? new Date(time).toISOString()
    : usage(`${option} needs a time such as 2026-12-31, yesterday or "this month", or a duration such as 24h or 7d.`)
}

/** The present date in a zone. Throws `CliError` for an unknown zone. */
const dayIn = (zone: string): string => {
  try {
    return daysIn(zone)(Date.now())
  } catch {
    return usage(`--tz needs the name of a time zone such as Europe/Berlin, not "${zone}".`)
  }
}

/** The members that have a value. */
export const given = (values: { readonly [name: string]: Json | undefined }): JsonObject =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined))

/** A word as a shell reads it. */
export const shellWord = (word: string): string =>
  /^[A-Za-z0-9._@+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
