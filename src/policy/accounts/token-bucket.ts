/**
 * A rate limit per minute as a token bucket: its capacity is the limit, and it refills continuously. Pure; the caller
 * stores the state. Times in ms of the monotonic clock.
 */

/** The level of a bucket at a time. Not rounded; negative after a settlement above what was taken. */
export type TokenBucket = { readonly level: number; readonly at: number }

const MINUTE = 60_000

/** A full bucket: the initial state. */
export const fullBucket = (perMinute: number, now: number): TokenBucket => ({ level: perMinute, at: now })

/** The level now: at most the limit, also after the limit was lowered. A clock that goes back refills nothing. */
export const levelOf = ({ level, at }: TokenBucket, perMinute: number, now: number): number =>
  Math.min(perMinute, level + (Math.max(0, now - at) * perMinute) / MINUTE)

/**
 * Whether the bucket has `amount`. An amount above the limit needs a full bucket: it is an estimate, and would otherwise
 * never be admitted. A limit of 0 admits nothing.
 */
export const hasTokens = (bucket: TokenBucket, amount: number, perMinute: number, now: number): boolean =>
  perMinute > 0 && levelOf(bucket, perMinute, now) >= Math.min(amount, perMinute)

/** Takes an amount, whether or not the bucket has it; a negative amount is returned to it. */
export const takeTokens = (bucket: TokenBucket, amount: number, perMinute: number, now: number): TokenBucket => ({
  level: Math.min(perMinute, levelOf(bucket, perMinute, now) - amount),
  at: Math.max(bucket.at, now),
})

/** The bucket after its limit was changed from `before` to `after`: what was taken of it stays taken. */
export const withLimit = (bucket: TokenBucket, before: number, after: number, now: number): TokenBucket => ({
  level: after - (before - levelOf(bucket, before, now)),
  at: now,
})

/** Time until the bucket has `amount`, in whole ms; 0: now. Infinity if the limit is 0. */
export const untilEnough = (bucket: TokenBucket, amount: number, perMinute: number, now: number): number => {
  if (perMinute <= 0) return Number.POSITIVE_INFINITY
  const missing = Math.min(amount, perMinute) - levelOf(bucket, perMinute, now)
  return missing <= 0 ? 0 : Math.ceil((missing * MINUTE) / perMinute)
}
