/**
 * When another provider is asked as well while the first keeps a request waiting: after how long, and how often that may
 * be paid for. Pure; the caller stores it.
 */
import { quantiles } from '../health/latency.ts'

/** What requests have paid in toward hedges, in percent of the price of one. */
export type Credit = number

export const noCredit: Credit = 0

const PRICE = 100
/** Hedges that can be saved up for: how many can come at once when everything has suddenly become slow. */
const MAX_SAVED = 10

/** A request that could be hedged has come: it pays its share, so that hedges are never a larger share of requests than that. */
export const earn = (credit: Credit, percent: number): Credit => Math.min(credit + percent, MAX_SAVED * PRICE)

/** The credit after a hedge has been paid for; null: there is not enough. */
export const spend = (credit: Credit): Credit | null => (credit >= PRICE ? credit - PRICE : null)

/** How long a client was kept waiting for an answer to open, and when (ms of the monotonic clock) that was. */
export type ObservedWait = { readonly at: number; readonly ms: number }

/** Waits longer ago than this (ms) say nothing about now. */
const MEMORY = 300_000
/** The latest of them are enough for a 95th percentile. */
const MAX_WAITS = 128
const SLOW = 0.95

/** The waits with one more. */
export const addWait = (waits: readonly ObservedWait[], ms: number, now: number): readonly ObservedWait[] => [
  ...recent(waits, now).slice(1 - MAX_WAITS),
  { at: now, ms },
]

/** ms after which an attempt is slower than 19 of 20 lately, and `least` has passed. */
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
