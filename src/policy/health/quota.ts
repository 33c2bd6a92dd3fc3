/** What an upstream's headers say is left of a key's limits, and until when that is true. Pure; the caller stores what was heard. */
import type { HeaderLookup, HeaderNames } from '../../core/headers.ts'
import { LIMIT_HEADERS, type LimitHeaders } from '../retry/limit-headers.ts'
import { resetIn } from '../retry/retry-after.ts'

/** One limit, as it was told: the share of it that is left, from 1 to 0. From `until` on (ms of the monotonic clock) it is whole again. */
export type QuotaLimit = { readonly share: number; readonly until: number }

/** Everything an answer said about the limits of its key. */
export type Quota = readonly QuotaLimit[]

/** How long (ms) a limit counts whose reset was not told: most are of a minute. */
const DEFAULT_WINDOW = 60_000
/** No limit is believed for longer (ms); the longest are of a day, and a month's is told again with the next answer. */
const MAX_WINDOW = 24 * 3_600_000

/** Everything these headers say; undefined: nothing. `dateMs`: now, since 1970. */
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

/** Of the many limits there are an upstream tells a few or none, and the same each time. */
const rowsIn = (names: HeaderNames | undefined): readonly LimitHeaders[] => {
  if (!names) return LIMIT_HEADERS
  const before = rowsByNames.get(names)
  if (before) return before
  const rows = LIMIT_HEADERS.filter(({ left }) => names.has(left))
  rowsByNames.set(names, rows)
  return rows
}
const rowsByNames = new WeakMap<HeaderNames, readonly LimitHeaders[]>()

/** The scarcest of the limits that still stand; undefined: none does, as when nothing was said. Nothing left: until all that are used up are whole again. */
export const scarcestLimit = (quota: Quota, now: number): QuotaLimit | undefined => {
  let scarcest: QuotaLimit | undefined
  for (const limit of quota) {
    if (limit.until <= now) continue
    if (!scarcest || limit.share < scarcest.share || (limit.share === scarcest.share && limit.until > scarcest.until))
      scarcest = limit
  }
  return scarcest
}

/** Some say 0 of 0 where there is no limit. Without the whole only "nothing" says something. */
const shareOf = (left: number, whole: number | undefined): number | undefined => {
  if (whole === undefined) return left === 0 ? 0 : undefined
  return whole === 0 ? undefined : Math.min(1, left / whole)
}

const count = (value: string | undefined): number | undefined =>
  value !== undefined && /^[0-9]{1,15}$/.test(value) ? Number(value) : undefined
