/** What the values of an answer of Redis mean for a claim. */
import { type Demand, type LimitRefusal, refusalOf } from '../policy/accounts/attempt-admission.ts'
import type { CounterValues } from './counter-messages.ts'
import type { ClaimedCounters } from './own-counters.ts'

/** `exceeded`: IDs of soft budgets. */
export type Verdict = { readonly refusal: LimitRefusal | null; readonly exceeded: readonly string[] }

/** `isGranted`: as Redis has decided with the same values. */
export const verdictOf = (
  { slots, rates, budgets }: ClaimedCounters,
  demand: Demand,
  values: CounterValues,
  isGranted: boolean,
): Verdict => {
  const counted = budgets.flatMap((counter, at) => {
    const [used = 0, held = 0] = values.budgets[at] ?? []
    return counter
      ? [{ id: counter.id, mode: counter.budget.mode, granted: counter.budget.amount, used, held, isKnown: true }]
      : []
  })
  if (isGranted) {
    const exceeded = counted.filter(({ mode, granted, used, held }) => mode === 'soft' && used + held > granted)
    return { refusal: null, exceeded: exceeded.map(({ id }) => id) }
  }
  const counters = {
    slots: slots.map(({ id, limit }, at) => ({ id, limit, live: values.slots[at] ?? 0 })),
    rates: rates.map(({ id, unit, perMinute }, at) => ({
      id,
      unit,
      perMinute,
      bucket: { level: values.rates[at] ?? 0, at: 0 },
    })),
    budgets: counted,
  }
  return { refusal: refusalOf(counters, demand, 0), exceeded: [] }
}
