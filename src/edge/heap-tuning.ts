/**
 * How large V8's young generation may grow. Left alone it doubles until it has 128 MB, since whatever an open stream keeps
 * outlives a collection; that is 8 KB resident for each of ten thousand idle streams. With half of that nothing becomes
 * dearer. With a quarter collections cost bursts 15 % and large requests 1 to 4 %, so that is for where many are open:
 * what they keep is copied just as often in a larger one.
 *
 * By a flag it can only be limited before V8 starts, which is not ours; but V8 asks for the factor it grows by each time.
 */
import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8'

/** Bytes, of both halves together: as a rule, and where many requests are under way. */
export const YOUNG_GENERATION_LIMIT = { few: 64 * 1024 * 1024, many: 32 * 1024 * 1024 } as const

/** So many requests at once are streams that mostly wait. */
const MANY = 500

/** ms between two looks: under full load it takes longer to double. */
const EVERY = 100

/** Sees to it for as long as the process lives. What grew during a turn of the loop longer than that is not taken back. */
export const limitYoungGeneration = (underWay: () => number): void => {
  let grows = true
  const look = () => {
    const young = getHeapSpaceStatistics().find((space) => space.space_name === 'new_space')
    // It shrinks when little is allocated, and may then grow again.
    const may =
      (young?.space_size ?? 0) < (underWay() < MANY ? YOUNG_GENERATION_LIMIT.few : YOUNG_GENERATION_LIMIT.many)
    if (may === grows) return
    grows = may
    setFlagsFromString(may ? '--semi-space-growth-factor=2' : '--semi-space-growth-factor=1')
  }
  setInterval(look, EVERY).unref()
}
