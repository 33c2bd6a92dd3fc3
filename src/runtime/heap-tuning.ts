/**
 * Limits V8's young generation. By default it grows to 128 MB, since objects of open streams survive a collection: an idle
 * stream then takes 33 KB resident instead of 14 (4,000 streams, bench/RESULTS.md). Half of it costs nothing. A quarter
 * makes bursts 15 % slower, so it is used only while many requests are in flight. `HEAP_TUNING=off` disables it.
 *
 * The flag for the size only works before V8 starts. The growth factor is read for each growth, so it is changed instead.
 */
import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8'

/** Maximum bytes of both semi-spaces: with few requests in flight, and with many. */
export const YOUNG_GENERATION_LIMIT = { few: 64 * 1024 * 1024, many: 32 * 1024 * 1024 } as const

/** Requests in flight from which the lower limit applies. */
const MANY = 500

/** ms between checks; doubling takes longer than that, even under full load. */
const CHECK_INTERVAL = 100

/** Starts the checks, which run until the process ends. Growth within one long event loop turn is not reverted. */
export const limitYoungGeneration = (inFlight: () => number): void => {
  let grows = true
  const check = () => {
    const young = getHeapSpaceStatistics().find((space) => space.space_name === 'new_space')
    // V8 shrinks it while little is allocated; then it may grow again.
    const may =
      (young?.space_size ?? 0) < (inFlight() < MANY ? YOUNG_GENERATION_LIMIT.few : YOUNG_GENERATION_LIMIT.many)
    if (may === grows) return
    grows = may
    setFlagsFromString(may ? '--semi-space-growth-factor=2' : '--semi-space-growth-factor=1')
  }
  setInterval(check, CHECK_INTERVAL).unref()
}
