/**
 * The response headers that report a client's own rate limits, under the names of the API style and as RateLimit
 * (draft-ietf-httpapi-ratelimit-headers-11, 2026-05). Without limits there are none.
 */
import type { RateLimitNames } from '../../core/protocol.ts'
import type { RateCounter } from './attempt-admission.ts'
import { levelOf, untilEnough } from './token-bucket.ts'

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

/** Adds the headers of these limits. Of several limits of one unit, as of team and key, the one with least remaining counts. */
export const addRateLimitHeaders = (
  headers: Record<string, string>,
  rates: readonly RateCounter[],
  names: RateLimitNames,
  clocks: Clocks,
): void => {
  let [policy, state] = ['', '']
  for (const unit of UNITS) {
    const tightest = tightestOf(rates, unit, clocks.now)
    if (!tightest) continue
    const { limit, remaining, resetMs } = tightest
    const name = names[unit]
    headers[name.limit] = String(limit)
    headers[name.remaining] = String(remaining)
    headers[name.reset] = names.resetAs === 'duration' ? duration(resetMs) : rfc3339(clocks.dateMs + resetMs)
    const separator = policy === '' ? '' : ', '
    policy += `${separator}"${unit}";q=${limit};w=${WINDOW_SECONDS}`
    state += `${separator}"${unit}";r=${remaining};t=${seconds(resetMs)}`
  }
  if (policy === '') return
  headers['ratelimit-policy'] = policy
  headers.ratelimit = state
}

const UNITS = ['requests', 'tokens'] as const

const tightestOf = (rates: readonly RateCounter[], unit: RateCounter['unit'], now: number): ReportedLimit | null => {
  let least: ReportedLimit | null = null
  for (const rate of rates) {
    if (rate.unit !== unit) continue
    const reported = reportOf(rate, now)
    if (!least || reported.remaining < least.remaining) least = reported
  }
  return least
}

/** A limit as clients see it. */
export const reportOf = ({ unit, perMinute, bucket }: RateCounter, now: number): ReportedLimit => {
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
