/**
 * Decides about canaries: who is served by one, and when it advances or stops. Pure.
 *
 * A canary is compared with the other targets of its route after each request, so the test is made thousands of times, and an
 * ordinary one (5 % each time) would stop a canary that is as good as the others. Two things prevent this. The difference that is
 * tolerated (`stop`) is subtracted first: targets that do equally well are far from it. And what exceeds it must be more than
 * `CERTAIN` standard errors, one-sided: by chance 3 in 100,000 single tests at exactly the tolerated difference. Failures are
 * compared as shares (Wald's interval with Agresti and Caffo's correction, since shares near 0 and few requests have too small a
 * variance otherwise); times to first content by the mean of their logarithms, since they are skewed and one slow answer must not
 * decide. A test over seeded runs states what both mean: faults stop in 200 of 200, noise in 0 of 1,000.
 */
import type { CanaryRules, CanaryState } from '../../core/canary.ts'
import type { Candidate, Plan } from '../../core/target.ts'
import { hash } from './order.ts'

/** Requests of a target, or of several. `timed`: those with a time to first content, whose logarithms (of ms) are summed. */
export type ArmCounts = {
  readonly requests: number
  readonly failed: number
  readonly timed: number
  readonly logs: number
  readonly squares: number
}

export const NO_ARM: ArmCounts = { requests: 0, failed: 0, timed: 0, logs: 0, squares: 0 }

/** `firstContent`: ms; null: it had none. */
export const withRequest = (arm: ArmCounts, failed: boolean, firstContent: number | null): ArmCounts => {
  const log = firstContent === null ? 0 : Math.log(Math.max(1, firstContent))
  return {
    requests: arm.requests + 1,
    failed: arm.failed + (failed ? 1 : 0),
    timed: arm.timed + (firstContent === null ? 0 : 1),
    logs: arm.logs + log,
    squares: arm.squares + log * log,
  }
}

/** `inStep`: requests of the canary since its step began. */
export type CanaryCounts = { readonly canary: ArmCounts; readonly others: ArmCounts; readonly inStep: number }

/** The counts of several processes together. */
export const joinedCanary = (all: readonly CanaryCounts[]): CanaryCounts => ({
  canary: joinedArms(all.map(({ canary }) => canary)),
  others: joinedArms(all.map(({ others }) => others)),
  inStep: all.reduce((sum, { inStep }) => sum + inStep, 0),
})

const joinedArms = (all: readonly ArmCounts[]): ArmCounts =>
  all.reduce(
    (a, b) => ({
      requests: a.requests + b.requests,
      failed: a.failed + b.failed,
      timed: a.timed + b.timed,
      logs: a.logs + b.logs,
      squares: a.squares + b.squares,
    }),
    NO_ARM,
  )

/** Requests of a step, and of both sides before they are compared. */
export const LEAST = 50
/** Standard errors. */
const CERTAIN = 4

/** Why the canary does worse than `stop` allows; null: it does not, or that is not certain. */
export const worse = ({ stop }: CanaryRules, { canary, others }: CanaryCounts): string | null => {
  if (stop.errors > 0 && canary.requests >= LEAST && others.requests >= LEAST) {
    const [own, usual] = [canary.failed / canary.requests, others.failed / others.requests]
    if (own - usual - CERTAIN * Math.sqrt(shareVariance(canary) + shareVariance(others)) > stop.errors / 100)
      return `${percent(own)} % of ${canary.requests} requests failed, ${percent(usual)} % of ${others.requests} of the other targets`
  }
  if (stop.firstContent > 0 && canary.timed >= LEAST && others.timed >= LEAST) {
    const slower = canary.logs / canary.timed - others.logs / others.timed
    const error = Math.sqrt(logVariance(canary) + logVariance(others))
    if (slower - CERTAIN * error > Math.log1p(stop.firstContent / 100))
      return `its first content takes ${percent(Math.expm1(slower))} % longer than that of the other targets`
  }
  return null
}

/** Of a share of failures, with one success and one failure added. */
const shareVariance = ({ requests, failed }: ArmCounts): number => {
  const share = (failed + 1) / (requests + 2)
  return (share * (1 - share)) / (requests + 2)
}

/** Of the mean of the logarithms. */
const logVariance = ({ timed, logs, squares }: ArmCounts): number =>
  Math.max(0, squares - (logs * logs) / timed) / (timed - 1) / timed

const percent = (share: number): number => Math.round(1_000 * share) / 10

/** The state that follows; null: it stays. */
export const nextCanary = (
  rules: CanaryRules,
  state: CanaryState,
  counts: CanaryCounts,
  now: number,
): CanaryState | null => {
  if (state.status === 'stopped') return null
  const reason = worse(rules, counts)
  if (reason !== null) return { status: 'stopped', step: state.step, since: now, reason }
  if (state.status === 'paused') return null
  const isOver = now - state.since >= rules.every && counts.inStep >= LEAST && state.step < rules.steps.length - 1
  return isOver ? { status: 'running', step: state.step + 1, since: now, reason: '' } : null
}

/** Percent of the sessions that it serves. Steps of another configuration may be more. */
export const canaryShare = ({ steps }: CanaryRules, { status, step }: CanaryState): number =>
  status === 'stopped' ? 0 : (steps[Math.min(step, steps.length - 1)] ?? 0)

/**
 * Whether a session is served by the canary. The same session is in it at each greater share too, so it changes its target at
 * most once while the canary grows.
 */
export const isDrawn = (session: string, share: number): boolean =>
  hash(session, 0x811c9dc5) / 4_294_967_296 < share / 100

/** The plan to be shown: the canary is first if it serves most sessions, otherwise last. The other targets share the rest. */
export const shownCanary = (plan: Plan, share: number): Plan => {
  const { true: canaries = [], false: others = [] } = Object.groupBy(plan.candidates, ({ isCanary = false }) =>
    isCanary ? 'true' : 'false',
  )
  const [canary] = canaries
  const candidates = share >= 50 ? [...canaries, ...others] : [...others, ...canaries]
  const { odds } = plan
  if (!canary || !odds || others.length === 0) return { ...plan, candidates }
  return { ...plan, candidates, odds: { ...odds, shares: sharesBeside(canary, others, odds.shares, share / 100) } }
}

/** How often each target is first beside a canary with a share of the sessions. */
const sharesBeside = (
  canary: Candidate,
  others: readonly Candidate[],
  shares: ReadonlyMap<Candidate, number>,
  own: number,
): ReadonlyMap<Candidate, number> => {
  const rest = others.reduce((sum, one) => sum + (shares.get(one) ?? 0), 0)
  const found = new Map([[canary, own]])
  for (const [at, one] of others.entries()) {
    const part = rest > 0 ? (shares.get(one) ?? 0) / rest : at === 0 ? 1 : 0
    if (part > 0) found.set(one, (1 - own) * part)
  }
  return found
}

/**
 * The plan of a request: the canary first, or without it. If it is the only candidate, since conditions or access left nothing
 * else, it stays.
 */
export const withCanary = (plan: Plan, drawn: boolean): Plan => {
  const canaries = plan.candidates.filter(({ isCanary }) => isCanary)
  if (canaries.length === 0 || canaries.length === plan.candidates.length) return plan
  const others = plan.candidates.filter(({ isCanary }) => !isCanary)
  if (drawn) return { ...plan, candidates: [...canaries, ...others] }
  const skipped = canaries.map(({ instance, model }) => ({ provider: instance.id, model, why: 'canary: not drawn' }))
  return { ...plan, candidates: others, skipped: [...plan.skipped, ...skipped] }
}
