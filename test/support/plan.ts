import { good, type Outcome } from '../../src/core/failure.ts'
import type { Plan } from '../../src/core/target.ts'
import { draftPlan, type OrderingInput, orderedPlan, type PlanInput } from '../../src/policy/routing/plan.ts'

/** Drafts and settles the plan of one request, without any remembered state. */
export const planOf = (input: PlanInput & OrderingInput, drafting = draftPlan): Outcome<Plan> => {
  const made = drafting(input)
  return made.ok ? good(orderedPlan(made.value, input)) : made
}
