import type { Dial, World } from '../core/world.ts'
import { turn } from './turns.ts'

/** Node's longest timer (31 bits, 24 days); longer ones would fire at once. */
const MAX_DELAY = 2_147_483_647

/** This machine's clock, randomness and timers, and the given dialer. */
export const realWorld = ({ dial }: { readonly dial: Dial }): World => ({
  now: () => performance.now(),
  date: () => Date.now(),
  random: () => Math.random(),
  later(ms, run) {
    // Node truncates timers to whole ms, so one may fire up to a ms early by `now`. Without the extra ms a retry after a
    // cool-down would find it still in effect.
    const timer = setTimeout(run, Math.min(Math.max(Math.ceil(ms), 0) + 1, MAX_DELAY))
    return () => clearTimeout(timer)
  },
  turn,
  dial,
})
