/**
 * The response headers that report a client's own rate limits, in three forms: OpenAI's, Anthropic's, and RateLimit
 * (draft-ietf-httpapi-ratelimit-headers-11, 2026-05). Without limits there are none.
 */
import type { RateCounter } from './admission.ts'
import { levelOf, untilEnough } from './token-bucket.ts'

/** Whose names are used beside the RateLimit fields: those of the API style of the request. */
export type RateLimitNames = 'openai' | 'anthropic'

/** The two clocks: ms of the monotonic clock, and ms since 1970. */
export type Clocks = { readonly now: number; readonly dateMs: number }

/** One limit as reported. `resetMs`: until it is full again, at most a day. */
type ReportedLimit = {
  readonly unit: RateCounter['unit']
  readonly limit: number
  readonly remaining: number
  readonly resetMs: number
}

const WINDOW_SECONDS = 60
/** The longest time reported (ms), also for a limit of 0, which is never available. */
const MAX_RESET = 24 * 3_600_000

/** The headers for these limits. Of several limits of one unit, as of team and key, the one with least remaining counts. */
export const rateLimitHeaders = (
  rates: readonly RateCounter[],
  names: RateLimitNames,
  clocks: Clocks,
): Readonly<Record<string, string>> => {
  const limits = UNITS.flatMap((unit) => tightest(rates, unit, clocks.now))
  if (limits.length === 0) return {}
  const headers: Record<string, string> = {}
  for (const { unit, limit, remaining, resetMs } of limits) {
    const [name, reset] =
      names === 'openai'
        ? [(member: string) => `x-ratelimit-${member}-${unit}`, duration(resetMs)]
        : [(member: string) => `anthropic-ratelimit-${unit}-${member}`, rfc3339(clocks.dateMs + resetMs)]
    headers[name('limit')] = String(limit)
    headers[name('remaining')] = String(remaining)
    headers[name('reset')] = reset
  }
  headers['ratelimit-policy'] = limits.map(({ unit, limit }) => `"${unit}";q=${limit};w=${WINDOW_SECONDS}`).join(', ')
  headers.ratelimit = limits
    .map(({ unit, remaining, resetMs }) => `"${unit}";r=${remaining};t=${seconds(resetMs)}`)
    .join(', ')
  return headers
}

const UNITS = ['requests', 'tokens'] as const

const tightest = (rates: readonly RateCounter[], unit: RateCounter['unit'], now: number): readonly ReportedLimit[] => {
  let least: ReportedLimit | undefined
  for (const rate of rates) {
    if (rate.unit !== unit) continue
    const reported = reportOf(rate, now)
    if (!least || reported.remaining < least.remaining) least = reported
  }
  return least ? [least] : []
}

const reportOf = ({ unit, perMinute, bucket }: RateCounter, now: number): ReportedLimit => {
  const wait = untilEnough(bucket, perMinute, perMinute, now)
  return {
    unit,
    limit: perMinute,
    // A level is a sum of fractions: 598.9999999 is 599.
    remaining: Math.max(0, Math.floor(levelOf(bucket, perMinute, now) + 1e-6)),
    resetMs: Math.min(wait, MAX_RESET),
  }
}

const seconds = (ms: number): number => Math.ceil(ms / 1_000)

/** A duration in OpenAI's form: `0s`, `1s`, `6m0s`, `1h0m0s`. Rounded up to seconds. */
const duration = (ms: number): string => {
  const all = seconds(ms)
  const [hours, minutes] = [Math.floor(all / 3_600), Math.floor(all / 60) % 60]
  return `${hours > 0 ? `${hours}h` : ''}${all >= 60 ? `${minutes}m` : ''}${all % 60}s`
}

/** A time as Anthropic writes it: `2026-11-23T09:00:01Z`. Rounded up to seconds. */
const rfc3339 = (dateMs: number): string => new Date(seconds(dateMs) * 1_000).toISOString().replace('.000Z', 'Z')
