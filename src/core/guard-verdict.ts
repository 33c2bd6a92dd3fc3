/** Verdicts of the rules of an operator, as the trace, headers, the ledger and metrics have them. They quote no text. */

/** Where a rule has found something: in a request, or in an answer. */
export const GUARD_PHASES = ['request', 'answer'] as const
export type GuardPhase = (typeof GUARD_PHASES)[number]

/**
 * What a rule does, the strictest first. `flag`: the call goes on, and headers, ledger and metrics have the verdict; `log`: the
 * same without headers.
 */
export const GUARD_ACTIONS = ['block', 'mask', 'flag', 'log'] as const
export type GuardAction = (typeof GUARD_ACTIONS)[number]

/** `error`: a service has not answered, and the call goes on without it. */
export type VerdictAction = GuardAction | 'error'

/** The verdict of one rule on one phase of a call. */
export type RuleVerdict = {
  /** Name of the rule. */
  readonly guard: string
  readonly phase: GuardPhase
  readonly action: VerdictAction
  /** Number of found texts by label: `{ EMAIL: 2 }`. A label has at most 32 characters. */
  readonly counts: Readonly<Record<string, number>>
  /** Duration of the searches or of the service, in ms. */
  readonly ms: number
}

/** Two verdicts of one rule, phase and action as one. */
export const summedVerdicts = (a: RuleVerdict, b: RuleVerdict): RuleVerdict => {
  const counts: Record<string, number> = { ...a.counts }
  for (const [label, count] of Object.entries(b.counts)) counts[label] = (counts[label] ?? 0) + count
  return { ...a, counts, ms: a.ms + b.ms }
}

/** The verdicts for a response header: `pii=mask:3, shield=flag:1`. */
export const verdictHeader = (verdicts: readonly RuleVerdict[]): string =>
  verdicts
    .filter(({ action }) => action !== 'log')
    .map((one) => `${encodeURIComponent(one.guard)}=${one.action}:${total(one)}`)
    .join(', ')

const total = ({ counts }: RuleVerdict): number => Object.values(counts).reduce((sum, count) => sum + count, 0)
