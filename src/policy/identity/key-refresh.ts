/** When the keys of an issuer are fetched. There is no timer: tokens that are verified cause it. Times in ms since 1970. */

/** Bounds of the time for which a key set counts as new, and the time if its response states none. */
const FRESH = { least: 5 * 60_000, most: 24 * 3_600_000, usual: 10 * 60_000 }
/** ms for which the last set is used if no other can be fetched. */
export const USABLE = 24 * 3_600_000
/** ms after a failed fetch until the next one: with a set in use, and without one. */
const PAUSE = { withSet: 30_000, withoutSet: 2_000 }
/** ms between two fetches for unknown key IDs. Requests without a valid signature cause them. */
const UNKNOWN_PAUSE = 30_000
/** The part of its time after which a set is fetched again while it is used. */
const EARLY = 0.8

/** Absent members: never. */
export type FetchTimes = {
  readonly fetched?: number
  /** ms for which the set counts as new. */
  readonly fresh?: number
  readonly failed?: number
  /** The last fetch for an unknown key ID. Others do not count: keys may change right after them. */
  readonly forced?: number
}

/** `now`: use the set. `behind`: use it and fetch another. `first`: wait for the fetch. `never`: there is none. */
export type FetchStep = 'now' | 'behind' | 'first' | 'never'

/** What to do for a token. After a failed fetch of `first`, the set is used while `isUsable`. */
export const fetchStep = (times: FetchTimes, now: number): FetchStep => {
  const { fetched, fresh = FRESH.usual, failed } = times
  const isPaused = (pause: number) => failed !== undefined && now >= failed && now - failed < pause
  if (fetched === undefined || !isUsable(times, now)) return isPaused(PAUSE.withoutSet) ? 'never' : 'first'
  const age = now - fetched
  if (age < fresh * EARLY || isPaused(PAUSE.withSet)) return 'now'
  // An issuer that has not answered may be frozen: no request waits for it while there is a set.
  return age < fresh || (failed !== undefined && failed >= fetched) ? 'behind' : 'first'
}

/** Whether a set may be used. A clock that was set back makes a set new. */
export const isUsable = ({ fetched }: FetchTimes, now: number): boolean =>
  fetched !== undefined && now - fetched < USABLE

/** Whether an unknown key ID may cause a fetch now. */
export const mayForce = ({ forced }: FetchTimes, now: number): boolean =>
  forced === undefined || now < forced || now - forced >= UNKNOWN_PAUSE

/** The time for which a set counts as new, by the header `cache-control` of its response. */
export const freshFor = (cacheControl: string | undefined): number => {
  const seconds = /(?:^|[\s,])max-age\s{0,9}=\s{0,9}"?(\d{1,9})/i.exec(cacheControl ?? '')?.[1]
  if (seconds === undefined) return FRESH.usual
  return Math.min(FRESH.most, Math.max(FRESH.least, Number(seconds) * 1_000))
}
