/** How soon candidates give their first content: a moving average to choose by, and quantiles to show. Pure; the caller stores what was observed. */

export type Ewma = { readonly ms: number; readonly at: number }

/** Ms in which an old observation loses two thirds of its weight. Longer than a model call, or every call would start anew. */
const MEMORY = 60_000
/** What one request under way is taken to cost where nothing was ever observed. */
const UNKNOWN = 1_000

/** A slower observation counts at once, a quicker one by and by: trouble is believed sooner than recovery. */
export const observe = (ewma: Ewma | undefined, ms: number, now: number): Ewma => {
  if (!ewma) return { ms, at: now }
  const old = faded(ewma, now)
  if (ms > old) return { ms, at: now }
  const weight = decay(now - ewma.at)
  return { ms: ewma.ms * weight + ms * (1 - weight), at: now }
}

/**
 * What choosing it would cost: the average times everybody who would then wait for it. Without news the average fades,
 * so that what was slow once is tried again. Never observed and idle costs nothing: it has to be tried to be known.
 */
export const expectedWait = (ewma: Ewma | undefined, inFlight: number, now: number): number =>
  ewma ? faded(ewma, now) * (inFlight + 1) : UNKNOWN * inFlight

const decay = (elapsed: number): number => Math.exp(-Math.max(elapsed, 0) / MEMORY)
const faded = ({ ms, at }: Ewma, now: number): number => ms * decay(now - at)

/** By nearest rank, one figure for each share (0.5 is the median); empty when there are no values. */
export const quantiles = (values: readonly number[], shares: readonly number[]): readonly number[] => {
  if (values.length === 0) return []
  const sorted = values.toSorted((a, b) => a - b)
  // A rank is between 1 and the length, so there is a value at it.
  return shares.map(
    (share) => sorted[Math.min(sorted.length, Math.max(1, Math.ceil(sorted.length * share))) - 1] as number,
  )
}
