/**
 * Tries targets in order until one has produced its first content; that target is then final. `next-target.ts` in policy
 * decides which targets remain, and `choose-target.ts` which may be tried now. One attempt is in flight at a time, or two
 * while a slow one is hedged: the first to open wins, and the other is cancelled.
 */

import { type Failure, fail } from '../../core/failure.ts'
import type { Target } from '../../core/target.ts'
import type { GatewayEvent, TraceEvent } from '../../core/trace.ts'
import { finalError, type SkippedReason, withBudget } from '../../policy/reply/final-error.ts'
import { withStatedWait } from '../../policy/retry/stated-wait.ts'
import { type Eventual, whenKnown } from '../accounts/authority.ts'
import { Cancellation, DRAIN } from '../call/cancellation.ts'
import type { AttemptPermit } from '../health/upstream-health.ts'
import type { AnswerStream, AttemptOutcome } from '../upstream/attempt.ts'
import type { Compatibility, OutboundRequest } from '../upstream/outbound-request.ts'
import type { AttemptSpec } from './attempt-spec.ts'
import { type Choice, TargetChooser } from './choose-target.ts'
import { finishProbe } from './finish-probe.ts'
import { type EncodedAttempt, NextAttempt } from './next-attempt.ts'
import type { RouteContext, RoutingDeps } from './route-context.ts'
import { RoutingProgress } from './routing-progress.ts'
import { type RunningAttempt, RunningAttempts, type SettledAttempt } from './running-attempts.ts'

/** A request that a target has begun to answer. `prepared`: the request sent to the target. */
export type Routed<Ready extends Compatibility = OutboundRequest> = {
  readonly ok: true
  readonly target: Target
  readonly prepared: Ready
  readonly answerStream: AnswerStream
  readonly permit: AttemptPermit
}
/** A request that no target answered. `availableIn`: ms until a target may be tried again; null: unknown. */
export type NotRouted = { readonly ok: false; readonly failure: Failure; readonly availableIn: number | null }

/** Routes a request. Resolves when a target's answer has opened, or when no target is left. */
export const route = <Ready extends Compatibility>(
  deps: RoutingDeps,
  context: RouteContext,
  spec: AttemptSpec<Ready>,
): Promise<Routed<Ready> | NotRouted> => {
  const { unmet } = context.plan
  if (unmet) context.note({ type: 'skipped', targets: unmet, more: 0 })
  return new RoutingRun(deps, context, spec).run()
}

/** The outcome of one routing step. */
type Step<Ready extends Compatibility> =
  | { readonly kind: 'continue' }
  | { readonly kind: 'answered'; readonly result: Routed<Ready> }
  | { readonly kind: 'failed'; readonly result: NotRouted }

const CONTINUE = { kind: 'continue' } as const

/** The attempt could not be recorded before it was sent. */
const UNRECORDED = {
  kind: 'failed',
  result: {
    ok: false,
    failure: fail('storage', 'The usage of this request cannot be recorded at the moment. Retry later.', {
      retryAfter: 2_000,
    }),
    availableIn: 0,
  },
} as const

/** ms after which the next target is tried beside a probe, so that its client does not wait for a target that is down. */
const SLOW_PROBE = 1_000

/** The routing of one request. */
class RoutingRun<Ready extends Compatibility> {
  readonly #deps: RoutingDeps
  readonly #context: RouteContext
  readonly #spec: AttemptSpec<Ready>
  readonly #chooser: TargetChooser<Ready>
  readonly #progress = new RoutingProgress<Ready>()
  readonly #next: NextAttempt<Ready>
  readonly #running: RunningAttempts<Ready>
  #hasHedged = false
  /** No other target can be tried beside a probe. */
  #probesAlone = false
  /** The client has left, and the answer is read to its end. */
  #draining: Cancellation | null = null
  /** The first empty answer. It is delivered if no target returns another. */
  #empty: Routed<Ready> | null = null

  constructor(deps: RoutingDeps, context: RouteContext, spec: AttemptSpec<Ready>) {
    this.#deps = deps
    this.#context = context
    this.#spec = spec
    const progress = this.#progress
    const chooser = new TargetChooser(deps, context, spec, progress)
    this.#chooser = chooser
    this.#next = new NextAttempt({ deps, context, spec, chooser, progress })
    this.#running = new RunningAttempts(deps.world, context.note)
  }

  async run(): Promise<Routed<Ready> | NotRouted> {
    const refused = this.#context.account.admission.earlyRefusal()
    if (refused) return { ok: false, failure: refused, availableIn: 0 }
    this.#spec.hedging?.started()
    try {
      for (;;) {
        const stepping = this.#running.size === 0 ? this.#startNext() : this.#awaitRunning()
        const step = stepping instanceof Promise ? await stepping : stepping
        if (step.kind !== 'continue') return step.result
      }
    } finally {
      this.#running.cancelAll()
      if (this.#draining) this.#deps.activeCalls.delete(this.#draining)
    }
  }

  /** Starts an attempt at the next target, or ends the run if there is none. */
  #startNext(): Eventual<Step<Ready>> {
    const { stop } = this.#context
    if (stop.reason) return { kind: 'failed', result: { ok: false, failure: stop.reason, availableIn: 0 } }
    const left = this.#maxAttempts - this.#progress.counted
    if (left <= 0) return this.#giveUp([])
    return whenKnown(this.#next.choose(left === 1), (chosen) => {
      if (chosen.kind === 'choose-again') return CONTINUE
      if (chosen.kind === 'no-target') return this.#reduceRequest() ? CONTINUE : this.#giveUp(chosen.skipped)
      return whenKnown(this.#next.encode(chosen), (encoded) => this.#recordAndStart(encoded))
    })
  }

  #recordAndStart(encoded: EncodedAttempt<Ready>): Eventual<Step<Ready>> {
    if (encoded.kind !== 'chosen') return CONTINUE
    return whenKnown(this.#next.record(encoded, false), (recorded) => {
      if (recorded.kind !== 'chosen') return recorded.kind === 'unrecorded' ? UNRECORDED : CONTINUE
      this.#emitFallback(recorded.target)
      this.#start(recorded, false)
      return CONTINUE
    })
  }

  /** Waits until an attempt has opened or failed, or until the only one is slow and may be hedged. */
  #awaitRunning(): Promise<Step<Ready>> {
    const { first, size } = this.#running
    const slowAt = first ? this.#slowAt(first) : null
    // The usual case: one attempt that is not hedged.
    if (first && size === 1 && slowAt === null)
      return first.attempt.opened.then((outcome) => this.#onSettled({ running: first, outcome }))
    const settling = this.#running.nextSettled(slowAt)
    return settling.then((settled) => (settled ? this.#onSettled(settled) : this.#hedge().then(() => CONTINUE)))
  }

  #onSettled({ running, outcome }: SettledAttempt<Ready>): Step<Ready> {
    if (outcome.ok) return { kind: 'answered', result: this.#onOpened(running, outcome.answerStream) }
    const empty = this.#onFailed(running, outcome)
    return empty ? { kind: 'answered', result: empty } : CONTINUE
  }

  // ── Without a target ───────────────────────────────────────────────────────────────────────────────────────────

  async #giveUp(skipped: readonly SkippedReason[]): Promise<Step<Ready>> {
    if (this.#empty) return { kind: 'answered', result: this.#empty }
    const { failures } = this.#progress
    const { admission } = this.#context.account
    const own = failures.length === 0 ? (admission.ownFailure(skipped) ?? (await admission.refusal())) : null
    if (own) return { kind: 'failed', result: { ok: false, failure: own, availableIn: 0 } }
    const failure = withBudget(finalError(failures, skipped), admission.budgetRefusal)
    return { kind: 'failed', result: { ok: false, failure, availableIn: this.#chooser.availableIn() } }
  }

  /** Whether a smaller request can be tried at all targets again. */
  #reduceRequest(): boolean {
    const { last } = this.#progress
    if (this.#empty || this.#context.account.admission.isLimited) return false
    if (!last || !this.#spec.reduceRequest?.(last.failure)) return false
    this.#progress.restart()
    return true
  }

  // ── Running attempts ───────────────────────────────────────────────────────────────────────────────────────────

  get #maxAttempts(): number {
    return this.#context.config.settings.retry.maxAttempts
  }

  /** Reports that a target replaces the one that failed last. */
  #emitFallback(to: Target): void {
    const { last } = this.#progress
    if (last) this.#deps.emit(fallbackEvent(this.#context, last.target, to, last.failure))
  }

  #start({ target, prepared, permit }: Choice<Ready>, hedge: boolean): void {
    const { health, world } = this.#deps
    const { account, note, stop } = this.#context
    const isFirst = this.#progress.tries(target.candidate)
    if (isFirst) health.firstTry(target.candidate)
    const number = this.#progress.attempts++
    const startedAt = world.now()
    note(attemptEvent(startedAt, target, { dropped: prepared.dropped, hedge }))
    const attempt = this.#spec.begin(target, prepared, account.attempts.traceHeaders())
    account.attempts.sent(attempt)
    this.#running.add({ target, prepared, permit, attempt, number, startedAt, isFirst, isProbe: permit.isProbe })
    stop.onCancel((reason) => {
      if (reason.kind === 'client_gone' && this.#readsToEnd) this.#drain(reason)
      else this.#running.failAll(reason)
    })
  }

  /** Whether an answer is read to its end after its client has left. A hard budget must count what was generated. */
  get #readsToEnd(): boolean {
    const { account, config } = this.#context
    return this.#spec.isWhole === true && (config.settings.usage.drainOnAbort || account.attempts.isHard)
  }

  /** Reads the answer within 30 s, or until the process ends or the key is cut off. No other target is tried. */
  #drain(reason: Failure): void {
    const { activeCalls, world } = this.#deps
    this.#draining = new Cancellation(this.#context.stop.client)
    this.#draining.onCancel(() => this.#running.failAll(reason))
    this.#context.account.attempts.isLeft = true
    activeCalls.startDeadline(world, this.#draining, DRAIN)
  }

  /** Another attempt has answered, but the circuit needs the outcome of its probe. */
  #leave(probe: RunningAttempt<Ready>): void {
    const { settings } = this.#context.config
    this.#running.remove(probe)
    this.#context.note({ type: 'abandoned', at: this.#deps.world.now(), attempt: probe.number })
    finishProbe(this.#deps, { ...probe, id: this.#context.id, within: settings.timeout.firstContent })
  }

  /** When the only attempt is slow and may be hedged, in ms of the monotonic clock; null: never. */
  #slowAt({ target, startedAt, isProbe }: RunningAttempt<Ready>): number | null {
    if (isProbe) return this.#spec.hedgesProbes && !this.#probesAlone ? startedAt + SLOW_PROBE : null
    const { hedging } = this.#spec
    return hedging && !this.#hasHedged ? startedAt + hedging.after(target.candidate) : null
  }

  /**
   * Starts a second attempt: beside a probe at any other target, otherwise at another provider, if that is within budget, and
   * once per request.
   */
  async #hedge(): Promise<void> {
    const slow = this.#running.first
    if (slow?.isProbe) this.#probesAlone = true
    else this.#hasHedged = true
    if (!slow || this.#context.stop.reason || this.#progress.counted + this.#running.size >= this.#maxAttempts) return
    let isSettled = false
    void slow.attempt.opened.then(() => {
      isSettled = true
    })
    const { choice } = await this.#next.chooseReserved(() =>
      slow.isProbe ? this.#chooser.chooseBesideProbe(slow.target) : this.#chooser.chooseHedge(),
    )
    if (!choice) return
    const mayStart = () =>
      slow.isProbe || this.#spec.hedging?.allowed(slow.target.candidate, this.#context.client.owner)
    if (this.#context.stop.reason || !mayStart()) return this.#next.discard(choice.permit)
    const encoded = await this.#next.encode(choice)
    if (encoded.kind !== 'chosen') return
    const recorded = await this.#next.record(encoded, true)
    if (recorded.kind !== 'chosen') return
    // The slow attempt may have opened or failed during these waits. After a failure, targets are chosen again.
    if (isSettled) return this.#next.discard(recorded.permit)
    this.#start(recorded, true)
    // If this attempt fails first, the next target is tried beside the probe.
    this.#probesAlone = false
  }

  // ── Outcomes ───────────────────────────────────────────────────────────────────────────────────────────────────

  #onOpened(running: RunningAttempt<Ready>, answerStream: AnswerStream): Routed<Ready> {
    const { target, prepared, permit, attempt, number, startedAt } = running
    const { world } = this.#deps
    this.#running.remove(running)
    permit.commit(attempt.age)
    this.#spec.hedging?.opened(target.candidate, world.now() - startedAt)
    this.#context.note({ type: 'committed', at: world.now(), attempt: number, status: answerStream.status })
    if (this.#running.size > 0) for (const probe of this.#running.probes()) this.#leave(probe)
    return { ok: true, target, prepared, answerStream, permit }
  }

  /** Records a failed attempt. Returns an answer only if this is the second empty one. */
  #onFailed(
    running: RunningAttempt<Ready>,
    { failure: reported, answerStream }: Extract<AttemptOutcome, { readonly ok: false }>,
  ): Routed<Ready> | null {
    const { target, prepared, permit, number } = running
    const failure = withStatedWait(reported, () => this.#spec.sentText(prepared), {
      now: this.#deps.world.date(),
      offset: target.candidate.instance.provider.timeOffset,
    })
    const { note, stop } = this.#context
    const retriesSameTarget = this.#spec.retrySameTarget?.(target, failure)
    this.#running.remove(running)
    // The request is changed and sent to the same target again, so the target is not charged.
    if (retriesSameTarget) permit.release()
    else permit.failed(failure, this.#context.id)
    note({ type: 'failed', at: this.#deps.world.now(), attempt: number, failure })
    if (retriesSameTarget || stop.reason) return null
    if (answerStream) {
      const answer: Routed<Ready> = { ok: true, target, prepared, answerStream, permit }
      if (this.#empty) return answer
      this.#empty = answer
    }
    this.#recordFailure(running, failure)
    const other = this.#running.first
    if (other && other.number > number) this.#emitFallback(other.target)
    if (this.#progress.history.final) this.#running.cancelLaterThan(number)
    return null
  }

  #recordFailure(running: RunningAttempt<Ready>, failure: Failure): void {
    const { target } = running
    const { limits } = this.#deps.health
    if (failure.overflow?.window !== undefined)
      limits.learn(target.candidate, { contextWindow: failure.overflow.window })
    this.#progress.failed(running, failure, {
      window: this.#chooser.windowOf(target.candidate),
      member: this.#spec.refusedMember ? this.#spec.refusedMember(target, failure) : failure.param,
      isFinal: this.#spec.mayFailOver?.(failure) === false,
    })
  }
}

/** The event that an attempt begins. */
const attemptEvent = (
  at: number,
  { candidate: { instance, model }, key }: Target,
  { dropped, hedge }: { readonly dropped: readonly string[]; readonly hedge: boolean },
): TraceEvent => {
  const event = { type: 'attempt', at, provider: instance.id, model, key: key.id } as const
  if (dropped.length === 0 && !hedge) return event
  return { ...event, ...(dropped.length > 0 && { dropped }), ...(hedge && { hedge }) }
}

const nameOf = ({ candidate, key }: Target): string => `${candidate.instance.id}#${key.id}/${candidate.model}`

/** The event that a target replaces one that failed. */
export const fallbackEvent = (
  { id, client }: Pick<RouteContext, 'id' | 'client'>,
  from: Target,
  to: Target,
  { kind, message }: Failure,
): GatewayEvent => ({
  event: 'fallback',
  id,
  ...(client.id !== '' && { client: client.id }),
  from: nameOf(from),
  to: nameOf(to),
  kind,
  detail: message,
})
