/**
 * How long an upstream requests to wait before a retry, from its headers and its error body. The input is untrusted:
 * lengths are bounded before parsing, and no pattern can backtrack.
 */
import type { HeaderLookup } from '../../core/headers.ts'
import { isList, isObject, type Json, number, object, text } from '../../core/json.ts'
import { LIMIT_HEADERS, type LimitHeaders } from './limit-headers.ts'

const HOUR = 3_600_000
/** Maximum length in characters of a header value; valid values are shorter. */
const MAX_LENGTH = 64

/**
 * The wait in ms, from 0 to one hour; a longer one is reduced. Undefined: absent or invalid. `dateMs`: the current time in
 * ms since 1970. Sources in order: `retry-after`, exhausted rate limits, Google's `RetryInfo`, OpenRouter's metadata, members of
 * the error. `stated-wait.ts` reads the text.
 */
export const retryAfter = (headers: HeaderLookup, body: Json | undefined, dateMs: number): number | undefined => {
  const found =
    fromRetryAfter(headers, dateMs) ??
    fromLimits(headers, dateMs) ??
    fromDetails(body) ??
    fromMetadata(body, dateMs) ??
    fromMembers(body, dateMs)
  return found === undefined ? undefined : Math.min(found, HOUR)
}

/** From `retry-after-ms` or `retry-after`. Azure sends `retry-after-ms: 0` with `retry-after: 1`, so a zero is used last. */
const fromRetryAfter = (headers: HeaderLookup, dateMs: number): number | undefined => {
  const exact = decimal(headers('retry-after-ms')) ?? decimal(headers('x-ms-retry-after-ms'))
  if (exact !== undefined && exact > 0) return exact
  const value = short(headers('retry-after'))
  const seconds = decimal(value)
  if (seconds !== undefined) return seconds * 1_000
  if (value !== undefined) return until(httpDate(value) ?? internetDate(value), dateMs) ?? parseDuration(value) ?? exact
  return exact
}

/** The longest reset of the exhausted limits: a limit with something left is not the reason, and all exhausted ones must reset. */
const fromLimits = (headers: HeaderLookup, dateMs: number): number | undefined => {
  let longest: number | undefined
  for (const row of LIMIT_HEADERS) {
    const left = headers(row.left)
    if (left !== undefined && decimal(left) !== 0) continue
    const wait = resetIn(row, headers, dateMs)
    // A reset in the past is not a wait.
    if (wait !== undefined && wait >= 0) longest = Math.max(wait, longest ?? 0)
  }
  return longest
}

/**
 * The time in ms until a limit resets, negative if in the past; undefined: absent or invalid. Azure has sent bare numbers
 * in seconds and in milliseconds (recordings: `reset-requests` 1 and 500 with a window of 60 s). No reset takes longer
 * than the window, so a number above it is in milliseconds.
 */
export const resetIn = ({ reset, period }: LimitHeaders, headers: HeaderLookup, dateMs: number): number | undefined => {
  const value = headers(reset)
  if (value === undefined) return undefined
  const seconds = period === '' ? undefined : decimal(headers(period))
  const figure = decimal(value)
  if (seconds !== undefined && figure !== undefined && figure > seconds && figure < MIN_TIMESTAMP) return figure
  return msUntil(value, dateMs)
}

/** From Google's `RetryInfo` in `error.details`. Its OpenAI-compatible endpoint wraps the error in a list. */
const fromDetails = (body: Json | undefined): number | undefined => {
  for (const detail of details(body)) {
    const delay = object(detail)?.retryDelay
    const value = text(delay)
    if (value !== undefined) {
      const wait = parseDuration(value)
      if (wait !== undefined) return wait
    }
    const seconds = number(object(delay)?.seconds)
    if (seconds !== undefined && seconds >= 0)
      return seconds * 1_000 + Math.max(0, number(object(delay)?.nanos) ?? 0) / 1e6
  }
  return undefined
}

/** From the rate-limit headers that OpenRouter copies to `error.metadata.headers`. */
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

/**
 * Members in which errors state a wait: a number of seconds, a duration or a time. OpenAI's Codex service
 * (router-for-me/CLIProxyAPI#1666), Google's `ErrorInfo` (liuw1535/antigravity2api-nodejs#44), and other gateways.
 */
const WAITS = [
  'resets_in_seconds',
  'reset_in_seconds',
  'retry_after_seconds',
  'retry_after',
  'retryAfter',
  'quotaResetDelay',
  'resets_at',
  'resets_in',
  'reset_at',
  'resetAt',
  'quotaResetTimeStamp',
] as const

/** From members of the error, of its details or metadata, or beside the error. */
const fromMembers = (body: Json | undefined, dateMs: number): number | undefined => {
  const error = errorOf(body)
  const inner = details(body).flatMap((detail) => [object(detail), object(object(detail)?.metadata)])
  for (const members of [error, object(error?.details), object(error?.metadata), ...inner, object(body)])
    for (const name of members ? WAITS : []) {
      const value = members?.[name]
      const wait = typeof value === 'number' || typeof value === 'string' ? msUntil(String(value), dateMs) : undefined
      if (wait !== undefined && wait > 0) return wait
    }
  return undefined
}

/** How many details and copied headers are read. */
const MAX_ENTRIES = 32

const errorOf = (body: Json | undefined) => {
  const outer = object(isList(body) ? body[0] : body)
  return object(outer?.error) ?? outer
}

const details = (body: Json | undefined): readonly Json[] => {
  const found = errorOf(body)?.details
  return isList(found) ? found.slice(0, MAX_ENTRIES).filter(isObject) : []
}

/** Smaller numbers are durations in seconds; larger ones are Unix times. As a Unix time in seconds this is the year 2001. */
const MIN_TIMESTAMP = 1e9

/** The ms from now for a duration, a number of seconds, an RFC 3339 time or a Unix time in s or ms. Negative: in the past. */
const msUntil = (value: string, dateMs: number): number | undefined => {
  const figure = decimal(value)
  if (figure === undefined) return parseDuration(value) ?? since(internetDate(value), dateMs)
  if (figure < MIN_TIMESTAMP) return figure * 1_000
  return since(figure < 1e11 ? figure * 1_000 : figure, dateMs)
}

const since = (at: number | undefined, dateMs: number): number | undefined =>
  at === undefined || Number.isNaN(at) ? undefined : at - dateMs

/** The ms until a time; undefined if it is in the past. */
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

/** Parses an HTTP date (RFC 9110, section 5.6.7): the usual form and the two obsolete ones. The asctime form has no time zone: UTC. */
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

/** Parses a duration such as `6m0s`, `12ms`, `34.07s` or `1h2m3.5s` to ms. Undefined: malformed, or a number without a unit. */
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
