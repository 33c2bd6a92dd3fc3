/**
 * How much repeating one provider has to bear: second and later attempts at it are a share of its first tries over ten
 * seconds, with a floor for quiet times. Going on to another provider is never asked here. Pure; the caller stores it.
 */

/** Counts of a quarter of a second, the `n`-th of the clock. */
type Slot = { readonly n: number; readonly firsts: number; readonly repeats: number }

export type Budget = { readonly past: readonly Slot[]; readonly current: Slot }

/** What a provider begins with. */
export const noTries: Budget = { past: [], current: { n: 0, firsts: 0, repeats: 0 } }

const SLOT = 250
/** Slots of the sliding ten seconds, and of the sliding second of the floor. */
const LONG = 10_000 / SLOT
const SHORT = 1_000 / SLOT
/** Repeats that are always allowed in a second. */
const FLOOR = 3

/** Counts a request's first attempt at the provider. */
export const firstTry = (budget: Budget, now: number): Budget => {
  const { past, current } = roll(budget, now)
  return { past, current: { ...current, firsts: current.firsts + 1 } }
}

/** Asks for a further attempt of the same request at the provider, and counts it if it is allowed. */
export const mayRepeat = (
  budget: Budget,
  now: number,
  percent: number,
): { readonly state: Budget; readonly allowed: boolean } => {
  const state = roll(budget, now)
  const { past, current } = state
  let { firsts, repeats, repeats: lately } = current
  // What straddles the edge of a span counts as repeats and not as first tries: never more than the rule allows.
  for (const slot of past) {
    if (slot.n > current.n - LONG) firsts += slot.firsts
    repeats += slot.repeats
    if (slot.n >= current.n - SHORT) lately += slot.repeats
  }
  const allowed = lately < FLOOR || repeats + 1 <= (firsts * percent) / 100
  return { state: allowed ? { past, current: { ...current, repeats: current.repeats + 1 } } : state, allowed }
}

const roll = (budget: Budget, now: number): Budget => {
  const n = Math.floor(now / SLOT)
  if (budget.current.n === n) return budget
  return {
    past: [...budget.past, budget.current].filter((slot) => slot.n >= n - LONG),
    current: { n, firsts: 0, repeats: 0 },
  }
}
