import type { Dial, World } from '../core/world.ts'
import { turn } from './turns.ts'

/** A longer wait fires at once in Node (its timers count in 31 bits); nobody waits 24 days for anything here. */
const LONGEST = 2_147_483_647

/** Time, chance and timers of this machine, and the given way upstream. */
export const realWorld = ({ dial }: { readonly dial: Dial }): World => ({
  now: () => performance.now(),
  date: () => Date.now(),
  random: () => Math.random(),
  later(ms, run) {
    // Node counts its timers in whole ms cut off, so that one may fire almost a ms before `now` says its time has come:
    // who waits for a cool-down to be over would find it still shut.
    const timer = setTimeout(run, Math.min(Math.max(Math.ceil(ms), 0) + 1, LONGEST))
    return () => clearTimeout(timer)
  },
  turn,
  dial,
})
