/**
 * How long an upstream asks us to wait, from all the places where upstreams say it. Everything here reads text of
 * unknown origin: lengths are bounded before anything looks at them, and no pattern can go back over what it has read.
 */

import type { HeaderLookup } from '../../core/headers.ts'
import { isList, isObject, type Json, number, object, text } from '../../core/json.ts'
import { LIMIT_HEADERS, type LimitHeaders } from './limit-headers.ts'

const HOUR = 3_600_000
/** No honest value is longer. */
const MAX_LENGTH = 64

/** Ms to wait, between 0 and an hour. Undefined: nothing was said, or nothing that makes sense. `dateMs` is now, since 1970. */
export const retryAfter = (headers: HeaderLookup, body: Json | undefined, dateMs: number): number | undefined => {
  const found =
    fromRetryAfter(headers, dateMs) ?? fromLimits(headers, dateMs) ?? fromDetails(body) ?? fromMetadata(body, dateMs)
  return found === undefined ? undefined : Math.min(found, HOUR)
}

/** The plain header. Azure sends `retry-after-ms: 0` beside `retry-after: 1`, so a zero gives way to what the other says. */
const fromRetryAfter = (headers: HeaderLookup, dateMs: number): number | undefined => {
  const exact = decimal(headers('retry-after-ms')) ?? decimal(headers('x-ms-retry-after-ms'))
  if (exact !== undefined && exact > 0) return exact
  const value = short(headers('retry-after'))
  const seconds = decimal(value)
  if (seconds !== undefined) return seconds * 1_000
  if (value !== undefined) return until(httpDate(value) ?? internetDate(value), dateMs) ?? parseDuration(value) ?? exact
  return exact
}

/** A limit is the reason only if nothing of it remains. Where several are exhausted, all of them have to pass. */
const fromLimits = (headers: HeaderLookup, dateMs: number): number | undefined => {
  let longest: number | undefined
  for (const row of LIMIT_HEADERS) {
    const left = headers(row.left)
    if (left !== undefined && decimal(left) !== 0) continue
    const wait = resetIn(row, headers, dateMs)
    // A moment that has passed says nothing.
    if (wait !== undefined && wait >= 0) longest = Math.max(wait, longest ?? 0)
  }
  return longest
}

/**
 * Ms from now until this limit is whole again, below 0 if it has been; undefined: not said. Azure's bare figures have been
 * of seconds and of milliseconds (recordings: `reset-requests` 1 with 50 and 500 with 120 requests in 60 s); no limit takes
 * longer than its window, so a larger figure than that is of milliseconds.
 */
export const resetIn = ({ reset, period }: LimitHeaders, headers: HeaderLookup, dateMs: number): number | undefined => {
  const said = headers(reset)
  if (said === undefined) return undefined
  const seconds = period === '' ? undefined : decimal(headers(period))
  const figure = decimal(said)
  if (seconds !== undefined && figure !== undefined && figure > seconds && figure < MIN_TIMESTAMP) return figure
  return msUntil(said, dateMs)
}

/** Google's `RetryInfo` among `error.details`. Its OpenAI-compatible endpoint puts the error into a list. */
const fromDetails = (body: Json | undefined): number | undefined => {
  for (const detail of details(body)) {
    const delay = object(detail)?.retryDelay
    const said = text(delay)
    if (said !== undefined) {
      const wait = parseDuration(said)
      if (wait !== undefined) return wait
    }
    const seconds = number(object(delay)?.seconds)
    if (seconds !== undefined && seconds >= 0)
      return seconds * 1_000 + Math.max(0, number(object(delay)?.nanos) ?? 0) / 1e6
  }
  return undefined
}

/** OpenRouter quotes the headers of the limit in `error.metadata.headers`. */
const fromMetadata = (body: Json | undefined, dateMs: number): number | undefined => {
  const quoted = object(object(errorOf(body)?.metadata)?.headers)
  if (!quoted) return undefined
  const byName = new Map<string, string>()
  for (const [name, value] of Object.entries(quoted).slice(0, MAX_ENTRIES))
    if (name.length <= MAX_LENGTH && (typeof value === 'string' || typeof value === 'number'))
      byName.set(name.toLowerCase(), String(value))
  const lookup: HeaderLookup = (name) => byName.get(name)
  return fromRetryAfter(lookup, dateMs) ?? fromLimits(lookup, dateMs)
}

const MAX_ENTRIES = 32

const errorOf = (body: Json | undefined) => {
  const outer = object(isList(body) ? body[0] : body)
  return object(outer?.error) ?? outer
}

const details = (body: Json | undefined): readonly Json[] => {
  const found = errorOf(body)?.details
  return isList(found) ? found.slice(0, MAX_ENTRIES).filter(isObject) : []
}

/** A smaller figure (s) is a duration, not a moment: in seconds since 1970 it is the year 2001. */
const MIN_TIMESTAMP = 1e9

/** A duration, a number of seconds, an RFC 3339 time, or seconds or milliseconds since 1970: ms from now, below 0 if it has passed. */
const msUntil = (value: string, dateMs: number): number | undefined => {
  const figure = decimal(value)
  if (figure === undefined) return parseDuration(value) ?? since(internetDate(value), dateMs)
  if (figure < MIN_TIMESTAMP) return figure * 1_000
  return since(figure < 1e11 ? figure * 1_000 : figure, dateMs)
}

const since = (at: number | undefined, dateMs: number): number | undefined =>
  at === undefined || Number.isNaN(at) ? undefined : at - dateMs

/** A moment that has passed says nothing. */
const until = (at: number | undefined, dateMs: number): number | undefined => {
  const wait = since(at, dateMs)
  return wait === undefined || wait < 0 ? undefined : wait
}

const short = (value: string | undefined): string | undefined => {
  const trimmed = value === undefined || value.length > MAX_LENGTH ? undefined : value.trim()
  return trimmed === '' ? undefined : trimmed
}

const DECIMAL = /^[0-9]+(\.[0-9]+)?$/
const decimal = (value: string | undefined): number | undefined => {
  const figure = short(value)
  return figure !== undefined && DECIMAL.test(figure) ? Number(figure) : undefined
}

/** RFC 9110, section 5.6.7: the usual form, and the two older ones. The last of them does not say that it is in UTC. */
const httpDate = (value: string): number | undefined => {
  if (!/^(mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6},? /i.test(value)) return undefined
  if (/ (gmt|utc)$/i.test(value)) return Date.parse(value)
  return / [0-9]{4}$/.test(value) ? Date.parse(`${value} GMT`) : undefined
}

const internetDate = (value: string): number | undefined => {
  const stamp = short(value)
  return stamp !== undefined && /^[0-9]{4}-[0-9]{2}-[0-9]{2}t[0-9:.]+(z|[+-][0-9]{2}:[0-9]{2})$/i.test(stamp)
    ? Date.parse(stamp.toUpperCase())
    : undefined
}

const UNITS: ReadonlyMap<string, number> = new Map([
  ['ns', 1e-6],
  ['us', 1e-3],
  ['µs', 1e-3],
  ['ms', 1],
  ['s', 1_000],
  ['m', 60_000],
  ['h', HOUR],
  ['d', 24 * HOUR],
])

/** `6m0s`, `12ms`, `34.07s`, `1h2m3.5s` in ms. A number without a unit is not a duration. */
export const parseDuration = (value: string): number | undefined => {
  const source = short(value)
  if (source === undefined) return undefined
  let total = 0
  let at = 0
  while (at < source.length) {
    const start = at
    while (isFigure(source.charCodeAt(at))) at++
    const figure = decimal(source.slice(start, at))
    const unitStart = at
    while (at < source.length && !isFigure(source.charCodeAt(at))) at++
    const unit = UNITS.get(source.slice(unitStart, at))
    if (figure === undefined || unit === undefined) return undefined
    total += figure * unit
  }
  return total
}

const isFigure = (code: number): boolean => (code >= 48 && code <= 57) || code === 46
