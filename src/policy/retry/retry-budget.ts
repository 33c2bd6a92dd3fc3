/**
 * The retry budget of one model at one provider, for all its keys. Retries and hedges are limited to a share of first
 * attempts over ten seconds, plus a minimum rate. One client may use half of the budget, so that its failing requests do
 * not use up the other clients' share. Failover to another model or provider needs no budget. Pure; the caller stores it.
 */

/** Counts of 250 ms. `n`: start time divided by 250 ms. `repeats`: retries and hedges by client. */
type BudgetSlot = { readonly n: number; readonly firsts: number; readonly repeats: ReadonlyMap<string, number> }

/** The state of a budget. Its size is bounded: it contains at most as many clients as repeats of the last ten seconds. */
export type RetryBudget = { readonly past: readonly BudgetSlot[]; readonly current: BudgetSlot }

const noRepeats: ReadonlyMap<string, number> = new Map()

/** The initial state. */
export const emptyBudget: RetryBudget = { past: [], current: { n: 0, firsts: 0, repeats: noRepeats } }

/** Repeats are limited to `percent` of first attempts, but `floor` repeats a second are always allowed. */
export type BudgetRules = { readonly percent: number; readonly floor: number }

const SLOT = 250
const SECONDS = 10
/** Slots of the sliding ten seconds, and of the sliding second of the floor. */
const LONG = (SECONDS * 1_000) / SLOT
const SHORT = 1_000 / SLOT

/** Counts the first attempt of a request. `now`: ms of the monotonic clock. */
export const countFirst = (budget: RetryBudget, now: number): RetryBudget => {
  const { past, current } = roll(budget, now)
  return { past, current: { ...current, firsts: current.firsts + 1 } }
}

/** Whether a retry or hedge is allowed; counts it if so. `client`: '' if unknown, then only the whole budget limits it. */
export const requestRepeat = (
  budget: RetryBudget,
  now: number,
  client: string,
  rules: BudgetRules,
): { readonly state: RetryBudget; readonly allowed: boolean } => {
  const state = roll(budget, now)
  const { past, current } = state
  const half: BudgetRules = { percent: rules.percent / 2, floor: Math.ceil(rules.floor / 2) }
  const allowed =
    hasRoom(state, totalOf, rules) && (client === '' || hasRoom(state, ({ repeats }) => repeats.get(client) ?? 0, half))
  if (!allowed) return { state, allowed }
  const repeats = new Map(current.repeats).set(client, (current.repeats.get(client) ?? 0) + 1)
  return { state: { past, current: { ...current, repeats } }, allowed }
}

const totalOf = ({ repeats }: BudgetSlot): number => {
  let total = 0
  for (const count of repeats.values()) total += count
  return total
}

/** Whether one more repeat is within the share, or within share and floor while the last second had fewer than `floor`. */
const hasRoom = (
  { past, current }: RetryBudget,
  repeatsIn: (slot: BudgetSlot) => number,
  { percent, floor }: BudgetRules,
): boolean => {
  let { firsts } = current
  let repeats = repeatsIn(current)
  let lastSecond = repeats
  // The slot at the edge of a span counts for repeats but not for first attempts, so that the limit is never exceeded.
  for (const slot of past) {
    const its = repeatsIn(slot)
    if (slot.n > current.n - LONG) firsts += slot.firsts
    repeats += its
    if (slot.n >= current.n - SHORT) lastSecond += its
  }
  const share = (firsts * percent) / 100
  return repeats + 1 <= share || (lastSecond < floor && repeats + 1 <= share + floor * SECONDS)
}

const roll = (budget: RetryBudget, now: number): RetryBudget => {
  const n = Math.floor(now / SLOT)
  if (budget.current.n === n) return budget
  return {
    past: [...budget.past, budget.current].filter((slot) => slot.n >= n - LONG),
    current: { n, firsts: 0, repeats: noRepeats },
  }
}
