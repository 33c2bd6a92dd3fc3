/** Why a request was routed and answered as it was, as JSON for its record in the ledger. */
import type { Failure } from '../../core/failure.ts'
import type { RoutingDecision } from '../../core/journal.ts'
import { formatDollars } from '../../core/money.ts'
import type { RecordedSwitch, Switch } from '../../core/switch.ts'
import type { Plan } from '../../core/target.ts'
import type { TraceSummary } from '../../core/trace-summary.ts'

/** The longest lists of a decision. What they omit is counted, or of no interest. */
const MAX_PLANNED = 16
const MAX_DROPPED = 16
const MAX_PATH = 100

type Planned = Pick<RoutingDecision, 'by' | 'plan' | 'more'>

const NOT_PLANNED: Planned = { by: null, plan: [], more: 0 }

const plannedBy = ({ by, candidates }: Plan): Planned => ({
  by,
  plan: candidates.slice(0, MAX_PLANNED).map(({ instance, model }) => `${instance.id}/${model}`),
  more: Math.max(0, candidates.length - MAX_PLANNED),
})

/** Most requests have nothing but their plan, and most plans are those of earlier requests. */
const texts = new WeakMap<Plan, string>()
const textOf = (plan: Plan): string => {
  const known = texts.get(plan)
  if (known !== undefined) return known
  const text = JSON.stringify({ ...plannedBy(plan), skipped: [], dropped: [], limit: null })
  texts.set(plan, text)
  return text
}

/** JSON of the request's `RoutingDecision`; null: there is nothing to state. `plan`: null if the request was refused before. */
export const decisionOf = (plan: Plan | null, summary: TraceSummary): string | null => {
  const { dropped, switched } = summary
  const limit = summary.failure?.limit ?? null
  // Access and compatibility exclude targets from the plan; circuits, limits and budgets exclude them later.
  const skipped = plan && plan.skipped.length > 0 ? [...plan.skipped, ...summary.skipped] : summary.skipped
  if (limit === null && dropped.length === 0 && skipped.length === 0 && !switched) return plan && textOf(plan)
  const decision: RoutingDecision = {
    ...(plan ? plannedBy(plan) : NOT_PLANNED),
    skipped: skipped.slice(0, MAX_PLANNED).map(({ provider, model, key, why }) => ({
      target: `${provider}/${model}`,
      key: key ?? null,
      why,
    })),
    dropped: dropped.slice(0, MAX_DROPPED).map((path) => path.slice(0, MAX_PATH)),
    limit,
    ...(switched && { switch: shownSwitch(switched) }),
  }
  return JSON.stringify(decision)
}

const shownSwitch = ({ nano, ...switched }: Switch): RecordedSwitch => ({
  ...switched,
  cost: nano === null ? null : formatDollars(nano),
})

/** The longest message of a failure in the ledger. */
const MAX_MESSAGE = 500

/** The message of a failure in the ledger. */
export const messageOf = (failure: Failure | undefined): string | null => failure?.message.slice(0, MAX_MESSAGE) ?? null
