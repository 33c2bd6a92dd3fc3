import type { Json } from '../../core/json.ts'

/** A token count; undefined if invalid. Limited to 2^43 so that sums stay exact. */
export const tokenCount = (value: Json | undefined): number | undefined => {
  if (typeof value !== 'number' || !(value >= 0 && value <= Number.MAX_SAFE_INTEGER / 1_024)) return undefined
  return Math.floor(value)
}

/** The Unix time in seconds of an ISO 8601 timestamp; undefined if it cannot be parsed. */
export const unixSeconds = (time: Json | undefined): number | undefined => {
  const ms = typeof time === 'string' ? Date.parse(time) : Number.NaN
  return Number.isNaN(ms) ? undefined : Math.floor(ms / 1_000)
}
