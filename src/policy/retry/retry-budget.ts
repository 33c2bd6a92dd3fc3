/**
 * The retry budget of one deployment (provider and model, whatever the key). Second and later attempts of a request
 * there, and hedges against it, are a share of its first tries over ten seconds, with a floor for quiet times. One client
 * may use half of it, so that requests that always fail leave the other clients their share. Failover to another model
 * or provider needs no budget. Pure; the caller stores it.
 */

/** Counts of a quarter of a second, the `n`-th of the clock. Repeats are counted by client. */
type BudgetSlot = { readonly n: number; readonly firsts: number; readonly repeats: ReadonlyMap<string, number> }

/** Bounded by what it grants: it names no more clients than repeats of the last ten seconds. */
export type RetryBudget = { readonly past: readonly BudgetSlot[]; readonly current: BudgetSlot }

const noRepeats: ReadonlyMap<string, number> = new Map()

/** What a deployment begins with. */
export const emptyBudget: RetryBudget = { past: [], current: { n: 0, firsts: 0, repeats: noRepeats } }

/** `percent` of first tries, and `floor` repeats a second at least. */
export type BudgetRules = { readonly percent: number; readonly floor: number }

const SLOT = 250
const SECONDS = 10
/** Slots of the sliding ten seconds, and of the sliding second of the floor. */
const LONG = (SECONDS * 1_000) / SLOT
const SHORT = 1_000 / SLOT

/** Counts a request's first attempt at the deployment. */
export const countFirst = (budget: RetryBudget, now: number): RetryBudget => {
  const { past, current } = roll(budget, now)
  return { past, current: { ...current, firsts: current.firsts + 1 } }
}

/** Requests a further attempt by this client at the deployment, and counts it if allowed. `client`: '' where unknown. */
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

/** Whether one more fits into the share, or, if there were few just now, into share and floor together. */
const hasRoom = (
  { past, current }: RetryBudget,
  repeatsIn: (slot: BudgetSlot) => number,
  { percent, floor }: BudgetRules,
): boolean => {
  let { firsts } = current
  let repeats = repeatsIn(current)
  let lately = repeats
  // What straddles the edge of a span counts as repeats and not as first tries: never more than the rule allows.
  for (const slot of past) {
    const its = repeatsIn(slot)
    if (slot.n > current.n - LONG) firsts += slot.firsts
    repeats += its
    if (slot.n >= current.n - SHORT) lately += its
  }
  const share = (firsts * percent) / 100
  return repeats + 1 <= share || (lately < floor && repeats + 1 <= share + floor * SECONDS)
}

const roll = (budget: RetryBudget, now: number): RetryBudget => {
  const n = Math.floor(now / SLOT)
  if (budget.current.n === n) return budget
  return {
    past: [...budget.past, budget.current].filter((slot) => slot.n >= n - LONG),
    current: { n, firsts: 0, repeats: noRepeats },
  }
}
