/** Complexity as a ratio of work: a limit in milliseconds fails on a busy machine, and passes on a fast one. */
import assert from 'node:assert/strict'

/** How many times longer the second input is. */
const LONGER = 8
/** Linear growth is eightfold, quadratic sixty-four-fold; the rest is for caches and garbage collection. */
const MOST = 3 * LONGER
/** ms of processor time below which growth is not significant. */
const NOTHING = 40
const RUNS = 3

/** Processor time of this thread (ms), so that waiting for a processor is not counted. */
export const workOf = (run: () => void): number => {
  const before = process.threadCpuUsage()
  run()
  const { user, system } = process.threadCpuUsage(before)
  return (user + system) / 1_000
}

/** Fails if `run` takes more than linear work for inputs of `size` and an eighth of it; each time with fewer disturbances. */
export const assertLinear = (what: string, size: number, run: (size: number) => void): void => {
  let [long, short] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]
  for (let at = 0; at < RUNS; at++) {
    long = Math.min(
      long,
      workOf(() => run(size)),
    )
    if (long < NOTHING) return
    short = Math.min(
      short,
      workOf(() => run(Math.ceil(size / LONGER))),
    )
    if (long / Math.max(short, 0.05) < MOST) return
  }
  assert.fail(`${what}: ${short.toFixed(1)} ms, then ${long.toFixed(1)} ms for ${LONGER} times as much`)
}
