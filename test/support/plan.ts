import { good, type Outcome } from '../../src/core/failure.ts'
import type { Plan } from '../../src/core/target.ts'
import { draft, type Moment, settle, type Wanted } from '../../src/policy/routing/plan.ts'

/** Drafts and settles the plan of one request, without any remembered state. */
export const planOf = (input: Wanted & Moment, drafting = draft): Outcome<Plan> => {
  const made = drafting(input)
  return made.ok ? good(settle(made.value, input)) : made
}
