/** Time to first content: a moving average to choose candidates by, and quantiles for display. Pure; the caller stores the state. */

/** A peak-sensitive moving average in ms, and when it was last updated, in ms of the monotonic clock. */
export type Ewma = { readonly ms: number; readonly at: number }

/** The time constant in ms: an observation loses two thirds of its weight. Longer than a model call, so that observations overlap. */
const MEMORY = 60_000
/** The expected wait in ms for each request in flight, if there is no observation. */
const UNKNOWN = 1_000

/** Adds an observation in ms. A slower one replaces the average at once, a faster one changes it gradually: it reacts faster to slowness than to recovery. */
export const observe = (ewma: Ewma | undefined, ms: number, now: number): Ewma => {
  if (!ewma) return { ms, at: now }
  const old = decayed(ewma, now)
  if (ms > old) return { ms, at: now }
  const weight = decay(now - ewma.at)
  return { ms: ewma.ms * weight + ms * (1 - weight), at: now }
}

/**
 * The expected wait in ms: the average times the requests in flight, including the new one. Without observations the
 * average decays, so that a slow candidate is tried again. An idle candidate without observations has 0, so it is tried.
 */
export const expectedWait = (ewma: Ewma | undefined, inFlight: number, now: number): number =>
  ewma ? decayed(ewma, now) * (inFlight + 1) : UNKNOWN * inFlight

const decay = (elapsed: number): number => Math.exp(-Math.max(elapsed, 0) / MEMORY)
const decayed = ({ ms, at }: Ewma, now: number): number => ms * decay(now - at)

/** Quantiles by nearest rank, one for each share (0.5: median). Empty if there are no values. */
export const quantiles = (values: readonly number[], shares: readonly number[]): readonly number[] => {
  if (values.length === 0) return []
  const sorted = values.toSorted((a, b) => a - b)
  // The rank is between 1 and the length, so the value exists.
  return shares.map(
    (share) => sorted[Math.min(sorted.length, Math.max(1, Math.ceil(sorted.length * share))) - 1] as number,
  )
}
