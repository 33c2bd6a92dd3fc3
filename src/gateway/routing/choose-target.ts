/** Chooses the next target of a request: the best one that may be tried now, or one after a short wait. */

import type { Settings } from '../../core/settings.ts'
import { type Candidate, namesOf, type Target } from '../../core/target.ts'
import { isRefusal, type SkippedReason } from '../../policy/reply/final-error.ts'
import {
  isSameModel,
  isShortWait,
  isTooSmall,
  remainingTargets,
  sameModelRetry,
  sameTargetRetry,
} from '../../policy/routing/next-target.ts'
import type { Eventual } from '../accounts/authority.ts'
import type { AccountRefusal } from '../accounts/call-admission.ts'
import { type AdmissionMode, type AttemptPermit, PAST_OPEN, type TargetRefusal } from '../health/upstream-health.ts'
import { type Compatibility, dropOptional } from '../upstream/outbound-request.ts'
import type { AttemptSpec } from './attempt-spec.ts'
import type { RouteContext, RoutingDeps } from './route-context.ts'
import type { RoutingProgress } from './routing-progress.ts'

/** A target with the request prepared for it and the permit for one attempt. */
export type Choice<Ready> = {
  readonly kind: 'chosen'
  readonly target: Target
  readonly prepared: Ready
  readonly permit: AttemptPermit
}

/** A skipped target, with the reason. */
export type Skip = SkippedReason & { readonly target: Target }

/** A choice, or why each target was skipped. */
export type Selection<Ready> = {
  readonly choice: Choice<Ready> | null
  readonly skipped: readonly Skip[]
}

/** How often models were tried once more, in all and at a candidate. */
export type Retried = { readonly all: number; readonly of: (candidate: Candidate) => number }

/** A target that may be tried after a wait (ms). */
export type DelayedTarget<Ready> = { readonly target: Target; readonly prepared: Ready; readonly wait: number }

/**
 * Accepted incompatibility. 0: none. 1: features that the model lacks according to the catalogue, which may be wrong.
 * 2: also optional tools that must be dropped.
 */
type Grade = 0 | 1 | 2

/** A selection at one grade. `next`: the lowest grade that would allow another target; null: none. */
type GradedSelection<Ready> = Selection<Ready> & { readonly next: Grade | null }

/** The skip of a target whose retry budget is used up. */
export const overBudget = (target: Target): Skip => ({ why: 'retry_budget', wait: 1_000, target })

/** The skip of a target that a budget of the client cannot afford. */
export const unaffordable = (target: Target): Skip => ({ why: 'budget', wait: null, target })

/** Chooses targets for one request. It reads the progress, which the router updates. */
export class TargetChooser<Ready extends Compatibility> {
  readonly #deps: RoutingDeps
  readonly #context: RouteContext
  readonly #spec: AttemptSpec<Ready>
  readonly #progress: Readonly<RoutingProgress<Ready>>
  readonly #settings: Settings

  constructor(
    deps: RoutingDeps,
    context: RouteContext,
    spec: AttemptSpec<Ready>,
    progress: Readonly<RoutingProgress<Ready>>,
  ) {
    this.#deps = deps
    this.#context = context
    this.#spec = spec
    this.#progress = progress
    this.#settings = context.config.settings
  }

  /** The context window of the model in tokens, if known. */
  windowOf(candidate: Candidate): number | undefined {
    const { health, catalogue } = this.#deps
    return health.limits.windowOf(catalogue, candidate)
  }

  /** One target of each candidate that may be tried now. */
  *openTargets(): Generator<Target, void, undefined> {
    const seen = new Set<Candidate>()
    for (const target of this.#remaining()) {
      if (seen.has(target.candidate) || this.#deps.health.peek(target, this.#settings)) continue
      seen.add(target.candidate)
      yield target
    }
  }

  /** Whether the target is new to this request or within its retry budget, which is then charged. */
  mayRepeat({ candidate }: Target): boolean {
    if (!this.#progress.tried.includes(candidate)) return true
    return this.#deps.health.mayRepeat(candidate, this.#settings, this.#context.client.owner)
  }

  /**
   * The best target that may be tried now. If there is none, accepts less compatible targets; then targets with an open
   * circuit, if the settings allow it.
   */
  chooseNow(): Selection<Ready> {
    const [selection, grade] = lowestGrade((at) => this.#chooseAtGrade(at))
    const { whenAllOpen } = this.#settings.circuit
    const hasOpenCircuit = selection.skipped.some(({ why }) => why === 'circuit')
    if (selection.choice || !hasOpenCircuit || whenAllOpen === 'fail') return selection
    return this.#choose(PAST_OPEN[whenAllOpen], grade)
  }

  /** A target of another provider that may be tried now, for a hedge. */
  chooseHedge(): Selection<Ready> {
    const { tried } = this.#progress
    return this.#choose('normal', 0, ({ candidate }) => !tried.some(({ instance }) => instance === candidate.instance))
  }

  /** The next target while this one is a probe: any other, since only its circuit is open. */
  chooseBesideProbe(probe: Target): Selection<Ready> {
    const { deployment } = namesOf(probe)
    const isOther = (other: Target) => namesOf(other).deployment !== deployment
    return lowestGrade((grade) => this.#choose('normal', grade, isOther))[0]
  }

  /**
   * The target to try again before a target of another model: the one that failed last, or one of the same model whose rate
   * limit ends first. Null: the next target has the same model or is not known, or the failure is not temporary. A target with a number
   * of `retries` of its own is tried so often, whatever follows. `retried`: how often that happened, in all and at a candidate.
   */
  chooseSameModel(retried: Retried): DelayedTarget<Ready> | null {
    const { last, history } = this.#progress
    const { sameModelWait } = this.#settings.retry
    if (!last || history.final || sameModelWait === 0) return null
    const { retries } = last.target.candidate.override ?? {}
    if (retries === undefined ? retried.all > 0 : retried.of(last.target.candidate) >= retries) return null
    const retry = sameModelRetry(last.failure, sameModelWait, this.#deps.world.random)
    if (!retry || (retries === undefined && !hasAnotherModel(this.#available(), last.target.candidate))) return null
    if (last.failure.kind === 'rate_limited')
      return this.#shortestRateLimit(sameModelWait, ({ candidate }) => isSameModel(candidate, last.target.candidate))
    const { health, world } = this.#deps
    if (!isShortWait(retry.wait, this.#context.deadline - world.now(), sameModelWait)) return null
    if (health.peek(last.target, this.#settings)) return null
    return { target: last.target, prepared: last.prepared, wait: retry.wait }
  }

  /** Remaining targets that `chooseNow` would admit first. */
  *#available(): Generator<Target, void, undefined> {
    for (const target of this.#remaining()) {
      if (this.#isWindowTooSmall(target.candidate) || this.#deps.health.refuses(target, this.#settings, 'normal'))
        continue
      const prepared = this.#spec.prepare(target)
      if (prepared && !exceeds(prepared, 1)) yield target
    }
  }

  /** When no target may be tried now: the target worth waiting for. */
  chooseDelayed(skipped: readonly SkippedReason[]): DelayedTarget<Ready> | null {
    const { history, failures } = this.#progress
    if (history.final) return null
    const isLimited = failures.every((failure) => failure.kind === 'rate_limited' || isRefusal(failure))
    return (isLimited ? this.#shortestRateLimit() : null) ?? this.#sameTarget(skipped)
  }

  /** Admits a target after a wait although another one may be tried: only with closed circuits. */
  admitAgain(target: Target): AttemptPermit | null {
    const permit = this.#deps.health.admit(target, this.#settings, 'warm')
    return 'why' in permit ? null : permit
  }

  /** Admits a target after a wait, as the last resort: in its slow start, or past its circuit if the settings allow it. */
  admitLastResort(target: Target): AttemptPermit | null {
    const { health } = this.#deps
    const admitted = health.admit(target, this.#settings, 'warm')
    const isOpen = 'why' in admitted && admitted.why === 'circuit'
    const permit = isOpen
      ? health.admit(target, this.#settings, PAST_OPEN[this.#settings.circuit.whenAllOpen])
      : admitted
    return 'why' in permit ? null : permit
  }

  #remaining(): Generator<Target, void, undefined> {
    return remainingTargets(this.#context.plan, this.#progress.history, this.#context.keysOf)
  }

  /** A target in its slow start gets requests beyond its share only if no other target may be tried. */
  #chooseAtGrade(grade: Grade): GradedSelection<Ready> {
    const selection = this.#choose('normal', grade)
    if (selection.choice || !selection.skipped.some(({ why }) => why === 'warming')) return selection
    return this.#choose('warm', grade)
  }

  #choose(mode: AdmissionMode, grade: Grade, isEligible?: (target: Target) => boolean): GradedSelection<Ready> {
    const { health, world } = this.#deps
    const skipped: Skip[] = []
    /** Refused targets and their indexes in `skipped`. Their requests are prepared only if no target is found. */
    const refused: (readonly [index: number, target: Target])[] = []
    let next: Grade | null = null
    for (const target of this.#remaining()) {
      if (isEligible?.(target) === false) continue
      if (this.#isWindowTooSmall(target.candidate)) {
        skipped.push({ why: 'window', wait: null, target })
        continue
      }
      const refusal = health.refuses(target, this.#settings, mode)
      if (refusal) {
        refused.push([skipped.length, target])
        skipped.push(refusedBy(target, refusal, world.now()))
        continue
      }
      const prepared = this.#spec.prepare(target)
      if (!prepared || exceeds(prepared, grade)) {
        next = lowerGrade(next, prepared)
        skipped.push(unfitBy(target, prepared))
        continue
      }
      const admitted = this.#admit(target, dropOptional(prepared), mode)
      if ('permit' in admitted) return { choice: admitted, skipped, next }
      skipped.push(admitted)
    }
    for (const [index, target] of refused) {
      const prepared = this.#spec.prepare(target)
      if (prepared && !exceeds(prepared, grade)) continue
      next = lowerGrade(next, prepared)
      skipped[index] = unfitBy(target, prepared)
    }
    return { choice: null, skipped, next }
  }

  #isWindowTooSmall(candidate: Candidate): boolean {
    const { history } = this.#progress
    return history.largerThan !== null && isTooSmall(history, this.windowOf(candidate))
  }

  #admit(target: Target, prepared: Ready, mode: AdmissionMode): Choice<Ready> | Skip {
    const { health, world } = this.#deps
    if (this.#progress.unaffordable.includes(target.candidate)) return unaffordable(target)
    const permit = health.admit(target, this.#settings, mode)
    if ('why' in permit) return refusedBy(target, permit, world.now())
    if (!this.mayRepeat(target)) {
      permit.release()
      return overBudget(target)
    }
    return { kind: 'chosen', target, prepared, permit }
  }

  /** Reserves for an attempt at this target. Null: it is reserved. */
  reserve(target: Target): Eventual<AccountRefusal | null> {
    return this.#context.account.admission.reserve(target, this.#modelMaximum(target))
  }

  #modelMaximum({ candidate }: Target): number | undefined {
    const { health, catalogue } = this.#deps
    return health.limits.factsOf(catalogue, candidate)?.maxOutputTokens
  }

  /** ms until a target of the plan may be tried; null: unknown. */
  availableIn(): number | null {
    const { health, world } = this.#deps
    let least: number | null = null
    for (const target of this.#planned()) {
      const refusal = health.peek(target, this.#settings)
      if (!refusal) return 0
      if (refusal.until === null) continue
      const wait = Math.max(0, refusal.until - world.now())
      if (least === null || wait < least) least = wait
    }
    return least
  }

  /** All targets of the plan, in its order. */
  *#planned(): Generator<Target, void, undefined> {
    const { plan, keysOf } = this.#context
    for (const candidate of plan.candidates) for (const key of keysOf(candidate)) yield { candidate, key }
  }

  /** The target whose rate limit ends first, if the upstream reported a time that is soon. `longest`: in ms. */
  #shortestRateLimit(longest?: number, isEligible?: (target: Target) => boolean): DelayedTarget<Ready> | null {
    let first: DelayedTarget<Ready> | null = null
    for (const target of this.#planned()) {
      if (isEligible?.(target) === false) continue
      const wait = this.#limitWait(target, longest)
      if (wait === null || (first && first.wait <= wait)) continue
      const prepared = this.#spec.prepare(target)
      if (prepared && prepared.unfit.length === 0) first = { target, prepared: dropOptional(prepared), wait }
    }
    return first
  }

  /** ms until the target's rate limit ends, if that is worth waiting for. */
  #limitWait(target: Target, longest?: number): number | null {
    const { health, world } = this.#deps
    const refusal = health.peek(target, this.#settings)
    if (refusal?.why !== 'rate_limited' || !refusal.fromUpstream || refusal.until === null) return null
    const wait = refusal.until - world.now()
    return isShortWait(wait, this.#context.deadline - world.now(), longest) ? wait : null
  }

  /** The only target again, if its failure may be temporary and its circuit and key allow it now. */
  #sameTarget(skipped: readonly SkippedReason[]): DelayedTarget<Ready> | null {
    const { last, attempts } = this.#progress
    if (!last || skipped.length > 0 || attempts !== 1 || last.target.candidate.override?.retries === 0) return null
    const { health, world } = this.#deps
    const retry = sameTargetRetry(last.failure, this.#context.deadline - world.now(), world.random)
    if (!retry || health.peek(last.target, this.#settings)) return null
    return { target: last.target, prepared: last.prepared, wait: retry.wait }
  }
}

/** Whether the first of these targets has another model than a candidate. */
const hasAnotherModel = (targets: Iterable<Target>, candidate: Candidate): boolean => {
  for (const next of targets) return !isSameModel(next.candidate, candidate)
  return false
}

/** The selection at the lowest grade that allows a target, and that grade. */
const lowestGrade = <Ready>(
  choose: (grade: Grade) => GradedSelection<Ready>,
): readonly [GradedSelection<Ready>, Grade] => {
  let grade: Grade = 0
  let selection = choose(grade)
  while (!selection.choice && selection.next !== null) {
    grade = selection.next
    selection = choose(grade)
  }
  return [selection, grade]
}

const gradeOf = ({ doubts, droppable }: Compatibility): Grade => (droppable.length > 0 ? 2 : doubts.length > 0 ? 1 : 0)

/** Whether the target needs a higher grade, or is unfit. */
const exceeds = (compatibility: Compatibility, grade: Grade): boolean =>
  compatibility.unfit.length > 0 || gradeOf(compatibility) > grade

/** The lower of two grades. An unfit target has no grade. */
const lowerGrade = (grade: Grade | null, compatibility: Compatibility | null): Grade | null => {
  if (!compatibility || compatibility.unfit.length > 0) return grade
  const other = gradeOf(compatibility)
  return grade === null || other < grade ? other : grade
}

const unfitBy = (target: Target, compatibility: Compatibility | null): Skip => ({
  why: 'unfit',
  paths: compatibility ? incompatiblePaths(compatibility) : ['model'],
  target,
  ...(compatibility?.because !== undefined && { because: compatibility.because }),
})

const incompatiblePaths = ({ unfit, droppable, doubts }: Compatibility): readonly string[] => [
  ...unfit,
  ...droppable,
  ...doubts.map(({ at }) => at),
]

const refusedBy = (target: Target, { why, until }: TargetRefusal, now: number): Skip => ({
  why,
  wait: until === null ? null : until - now,
  target,
})
