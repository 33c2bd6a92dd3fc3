/**
 * A rule that decides what a session does when its target fails, and while it is moved. It is compared here and is no part of the
 * gateway: see docs/switching.md.
 */
import { costAt, delayAt, type Sizes, type WarmTarget } from '../../src/policy/switching/cost.ts'

/** `minute`: dollars for a minute; `least`: the advantage in dollars from which it deviates; `horizon`: turns; others in ms. */
export type SwitchRules = {
  readonly wait: number
  readonly minute: number
  readonly least: number
  readonly horizon: number
  readonly maxStay: number
}

const NANO = 1e9

/** Cost and delay as one amount of nano-dollars. An unknown delay is that of the other choices, so it does not count. */
const worth = (choice: WarmTarget, sizes: Sizes, { minute }: SwitchRules, wait: number): number | null => {
  const cost = costAt(choice, sizes)
  return cost === null ? null : cost + (minute * NANO * (wait + (delayAt(choice, sizes) ?? 0))) / 60_000
}

/** A target failed. `ends`: ms until the vendor says that it ends; null: it does not say. `left`: ms that the request has left. */
export type Failed = {
  readonly from: WarmTarget
  /** Another key of the same target; null: there is none that may be used. */
  readonly key: WarmTarget | null
  /** The next target; null: there is none. */
  readonly to: WarmTarget | null
  readonly ends: number | null
  readonly left: number
}

export type FailureAct = 'wait' | 'key' | 'move'

/**
 * What is best after a rate limit or an overload. Only an end that the vendor states is waited for, within `wait` and a quarter of
 * the time left, and only for an advantage of `least`. A price that is unknown moves the session, as without this rule.
 */
export const afterFailure = (failed: Failed, sizes: Sizes, rules: SwitchRules): FailureAct => {
  const { from, key, to, ends, left } = failed
  const usual: FailureAct = key ? 'key' : 'move'
  const usually = key ?? to
  const usualWorth = usually && worth(usually, sizes, rules, 0)
  if (usualWorth === null) return usual
  const acts: (readonly [FailureAct, number | null])[] = [
    ['move', to && worth(to, sizes, rules, 0)],
    ['wait', ends !== null && ends <= Math.min(rules.wait, left / 4) ? worth(from, sizes, rules, ends) : null],
  ]
  let best: readonly [FailureAct, number] = [usual, usualWorth]
  for (const [act, amount] of acts)
    if (amount !== null && usualWorth - amount >= rules.least * NANO && amount < best[1]) best = [act, amount]
  return best[0]
}

/** A session that a failure has moved, while its first target is healthy again. `growth`: tokens that a turn adds. */
export type Moved = {
  readonly from: WarmTarget
  readonly to: WarmTarget
  readonly growth: number
  /** ms since it was moved. */
  readonly since: number
}

/** Whether it stays or returns: returning now, and staying for `horizon` turns, are compared. */
export const whileMoved = ({ from, to, growth, since }: Moved, sizes: Sizes, rules: SwitchRules): 'stay' | 'return' => {
  if (since >= rules.maxStay) return 'return'
  const returning = over(from, { growth, sizes }, rules)
  const staying = over(to, { growth, sizes }, rules)
  if (returning === null || staying === null) return 'return'
  return returning - staying >= rules.least * NANO ? 'stay' : 'return'
}

/** What the turns of the horizon cost at one target: the first as it is, the others with all but the growth in its cache. */
const over = (
  choice: WarmTarget,
  { growth, sizes }: { readonly growth: number; readonly sizes: Sizes },
  rules: SwitchRules,
): number | null => {
  const first = worth(choice, sizes, rules, 0)
  const next = worth({ ...choice, warm: Math.max(choice.warm, sizes.input - growth) }, sizes, rules, 0)
  return first === null || next === null ? null : first + (rules.horizon - 1) * next
}
