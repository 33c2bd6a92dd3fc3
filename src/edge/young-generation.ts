/**
 * How large V8's young generation may grow. Left alone it doubles until it has 128 MB, since whatever an open stream keeps
 * outlives a collection; that is 8 KB resident for each of ten thousand idle streams, and a small request costs no less
 * for it: what is saved in collections (4 µs a request instead of 7) is lost on memory that no cache holds.
 *
 * By a flag it can only be limited before V8 starts, which is not ours; but V8 asks for the factor it grows by each time.
 */
import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8'

/** Bytes, of both halves together. */
export const MOST_YOUNG = 32 * 1024 * 1024

/** ms between two looks: under full load it takes longer to double. */
const EVERY = 100

/** Sees to it for as long as the process lives. */
export const keepYoungSmall = (): void => {
  let grows = true
  const look = () => {
    const young = getHeapSpaceStatistics().find((space) => space.space_name === 'new_space')
    // It shrinks when little is allocated, and may then grow again.
    const may = (young?.space_size ?? 0) < MOST_YOUNG
    if (may === grows) return
    grows = may
    setFlagsFromString(`--semi-space-growth-factor=${may ? 2 : 1}`)
  }
  setInterval(look, EVERY).unref()
}
