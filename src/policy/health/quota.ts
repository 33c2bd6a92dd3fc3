/** The remaining rate limits of a key, from response headers. Pure; the caller stores the state. */
import type { HeaderLookup, HeaderNames } from '../../core/headers.ts'
import { memoizeBy } from '../../core/memoize-by.ts'
import { LIMIT_HEADERS, type LimitHeaders } from '../retry/limit-headers.ts'
import { resetIn } from '../retry/retry-after.ts'

/** One limit: the remaining share, from 0 to 1, and when the full limit is available again, in ms of the monotonic clock. */
export type QuotaLimit = { readonly share: number; readonly until: number }

/** All limits that one response reported. */
export type Quota = readonly QuotaLimit[]

/** How long a limit without a reset counts (ms): most limits are per minute. */
const DEFAULT_WINDOW = 60_000
/** Maximum time a limit counts (ms): the next response reports a longer limit again. */
const MAX_WINDOW = 24 * 3_600_000

/** The limits in response headers; undefined: none. `now`: ms of the monotonic clock; `dateMs`: ms since 1970. */
export const quotaIn = (headers: HeaderLookup, now: number, dateMs: number): Quota | undefined => {
  const limits: QuotaLimit[] = []
  for (const row of rowsIn(headers.names)) {
    const left = count(headers(row.left))
    if (left === undefined) continue
    const share = shareOf(left, count(headers(row.whole)))
    if (share === undefined) continue
    const lasts = resetIn(row, headers, dateMs) ?? Math.min(row.window ?? DEFAULT_WINDOW, DEFAULT_WINDOW)
    limits.push({ share, until: now + Math.min(lasts, MAX_WINDOW) })
  }
  return limits.length === 0 ? undefined : limits
}

/** Whether response headers may report a limit. */
export const mayHaveQuota = (headers: HeaderLookup): boolean => rowsIn(headers.names).length > 0

/** The known limits whose headers are present. Cached by the set of header names, because an upstream sends the same names each time. */
const rowsIn = (names: HeaderNames | undefined): readonly LimitHeaders[] => {
  return names ? rowsWith(names) : LIMIT_HEADERS
}
const rowsWith = memoizeBy((names: HeaderNames) => LIMIT_HEADERS.filter(({ left }) => names.has(left)))

/**
 * The limit with the smallest remaining share that has not reset yet; undefined: none. Of several exhausted limits, the one
 * that resets last.
 */
export const scarcestLimit = (quota: Quota, now: number): QuotaLimit | undefined => {
  let scarcest: QuotaLimit | undefined
  for (const limit of quota) {
    if (limit.until <= now) continue
    if (!scarcest || limit.share < scarcest.share || (limit.share === scarcest.share && limit.until > scarcest.until))
      scarcest = limit
  }
  return scarcest
}

/** The remaining share. Some upstreams send 0 of 0 for no limit. Without the total, only a remaining count of 0 is usable. */
const shareOf = (left: number, whole: number | undefined): number | undefined => {
  if (whole === undefined) return left === 0 ? 0 : undefined
  return whole === 0 ? undefined : Math.min(1, left / whole)
}

const count = (value: string | undefined): number | undefined =>
  value !== undefined && /^[0-9]{1,15}$/.test(value) ? Number(value) : undefined
