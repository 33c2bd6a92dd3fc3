/**
 * Hedging: a second attempt starts while the first is slow. When it starts, and a budget that limits hedges to a share of
 * requests. Pure; the caller stores the state.
 */
import { quantiles } from '../health/latency.ts'

/** Credit for hedges, in percent of one hedge: each request adds some, a hedge spends 100. */
export type Credit = number

/** The initial credit. */
export const noCredit: Credit = 0

const PRICE = 100
/** Maximum credit, in hedges: the burst that is possible when all upstreams suddenly become slow. */
const MAX_SAVED = 10

/** Adds the credit of one request that could be hedged. `percent`: the maximum share of hedges among such requests. */
export const earn = (credit: Credit, percent: number): Credit => Math.min(credit + percent, MAX_SAVED * PRICE)

/** The credit after a hedge; null: not enough credit. */
export const spend = (credit: Credit): Credit | null => (credit >= PRICE ? credit - PRICE : null)

/** How long a request waited for its first content, in ms, and when it was observed, in ms of the monotonic clock. */
export type ObservedWait = { readonly at: number; readonly ms: number }

/** Older waits are ignored (ms). */
const MEMORY = 300_000
/** How many waits are stored: enough for a 95th percentile. */
const MAX_WAITS = 128
const SLOW = 0.95

/** Adds a wait and removes old ones: at most 128 of the last five minutes remain. */
export const addWait = (waits: readonly ObservedWait[], ms: number, now: number): readonly ObservedWait[] => [
  ...recent(waits, now).slice(1 - MAX_WAITS),
  { at: now, ms },
]

/** The delay of a hedge in ms: the 95th percentile of recent waits, at least `least`. */
export const hedgeAfter = (waits: readonly ObservedWait[], now: number, least: number): number =>
  Math.max(
    least,
    ...quantiles(
      recent(waits, now).map(({ ms }) => ms),
      [SLOW],
    ),
  )

const recent = (waits: readonly ObservedWait[], now: number): readonly ObservedWait[] =>
  waits.filter(({ at }) => now - at < MEMORY)
