import type { Json } from '../../core/json.ts'

/** The most tokens that one answer can plausibly have used: ten times the longest context window. */
const MAX_TOKENS = 100_000_000

/**
 * A token count. Undefined for a value that cannot be one: text, a fraction, a negative number (also one that was written
 * without its sign: 4294967295), more than 100 million. It is then unknown, never 0.
 */
export const tokenCount = (value: Json | undefined): number | undefined =>
  typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= MAX_TOKENS ? value : undefined

/** Whether a value was reported and cannot be a count. A sum with such a part is unknown. */
export const isWrongCount = (value: Json | undefined): boolean =>
  value !== undefined && value !== null && tokenCount(value) === undefined

/** The Unix time in seconds of an ISO 8601 timestamp; undefined if it cannot be parsed. */
export const unixSeconds = (time: Json | undefined): number | undefined => {
  const ms = typeof time === 'string' ? Date.parse(time) : Number.NaN
  return Number.isNaN(ms) ? undefined : Math.floor(ms / 1_000)
}
