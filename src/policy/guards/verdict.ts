/** The seam for rules that a service answers. They are called after the rules that search here, and receive masked texts. */
import type { Failure } from '../../core/failure.ts'
import type { GuardedCall, GuardRule, RequestText } from '../../core/guard.ts'
import type { GuardPhase, RuleVerdict } from '../../core/guard-verdict.ts'

/**
 * Asks the service of a rule about the texts of a request or an answer. Always resolves: a service that does not answer is a verdict too, with
 * the failure `guard_unavailable` or the action `error`.
 */
export type AskService = (
  texts: readonly RequestText[],
  call: GuardedCall,
  about: { readonly phase: GuardPhase; readonly final: boolean },
) => Promise<ServiceVerdict>

/** Returns the call of the service of a rule; null: the rule has none. */
export type ServiceOf = (rule: GuardRule) => AskService | null

export type ServiceVerdict = {
  /** Null: the service has found nothing. */
  readonly verdict: RuleVerdict | null
  /** Why the request is refused. */
  readonly refuse?: Failure
  /** Parts that are masked, and restored in the answer. */
  readonly spans?: readonly ServiceSpan[]
  /** Other texts, for good. Ignored for a text which has spans. */
  readonly replace?: ReadonlyMap<string, string>
}

/** A part of a text, from `start` to before `end` in UTF-16. `label`: a capital letter, then up to eleven capital letters and digits. */
export type ServiceSpan = {
  /** As the service received it. */
  readonly text: string
  readonly start: number
  readonly end: number
  readonly label: string
}
