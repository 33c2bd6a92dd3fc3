/** Whether each claim of a configuration holds. */
import type { Steps } from '../../core/steps.ts'
import { claimText, parseClaim } from './claim.ts'
import { type Proof, type ProofInput, proveSteps, wayText } from './prove.ts'

/** Plain JSON data. */
export type ClaimState = {
  /** In its normal form, if it has one. */
  readonly claim: string
  /** `invalid`: it cannot be proved, because it names what does not exist. */
  readonly state: 'holds' | 'fails' | 'invalid'
  /** Why it does not hold, as one line; null: it holds. */
  readonly problem: string | null
  /** Null: it is invalid. */
  readonly proof: Proof | null
}

/** The states of claims, in their order. */
export function* claimStates(input: ProofInput, claims: readonly string[]): Steps<readonly ClaimState[]> {
  const states: ClaimState[] = []
  for (const text of claims) states.push(yield* stateOf(input, text))
  return states
}

function* stateOf(input: ProofInput, text: string): Steps<ClaimState> {
  const parsed = parseClaim(text)
  if (!parsed.ok) return { claim: text, state: 'invalid', problem: parsed.failure.message, proof: null }
  const claim = claimText(parsed.value)
  const proved = yield* proveSteps(input, parsed.value)
  if (!proved.ok) return { claim, state: 'invalid', problem: proved.failure.message, proof: null }
  const [first] = proved.value.counterexamples
  return {
    claim,
    state: proved.value.holds ? 'holds' : 'fails',
    problem: first ? wayText(first) : null,
    proof: proved.value,
  }
}
