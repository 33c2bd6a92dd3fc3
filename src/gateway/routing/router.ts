/**
 * Tries targets in order until one has produced its first content; that target is then final. `next-target.ts` in policy
 * decides which targets remain, and `choose-target.ts` which may be tried now. One attempt is in flight at a time, or two
 * while a slow one is hedged: the first to open wins, and the other is cancelled.
 */

import { type Failure, fail, rowOf } from '../../core/failure.ts'
import type { Target } from '../../core/target.ts'
import type { GatewayEvent } from '../../core/trace.ts'
import { finalError, type SkippedReason, withBudget } from '../../policy/reply/final-error.ts'
import { withStatedWait } from '../../policy/retry/stated-wait.ts'
import { emptyHistory, recordFailure } from '../../policy/routing/next-target.ts'
import { type Eventual, whenKnown } from '../accounts/authority.ts'
import { Cancellation, DRAIN } from '../call/cancellation.ts'
import type { AttemptPermit } from '../health/upstream-health.ts'
import type { AnswerStream, Attempt, AttemptOutcome } from '../upstream/attempt.ts'
import type { Compatibility, OutboundRequest } from '../upstream/outbound-request.ts'
import type { AttemptSpec } from './attempt-spec.ts'
import { type Choice, type RoutingProgress, type Selection, TargetChooser } from './choose-target.ts'
import { finishProbe } from './finish-probe.ts'
import type { RouteContext, RoutingDeps } from './route-context.ts'
import { SkipNotes } from './skip-notes.ts'
import { Waits } from './waits.ts'

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
): Promise<Routed<Ready> | NotRouted> => new RoutingRun(deps, context, spec).run()

/** An attempt in flight, started at `startedAt` (ms of the monotonic clock) as number `number` of the request, from 0. */
type RunningAttempt<Ready> = Choice<Ready> & {
  readonly attempt: Attempt
  readonly number: number
  readonly startedAt: number
  /** The request's first attempt at this deployment (provider and model). */
  readonly isFirst: boolean
  /** It tests a target whose circuit is open. */
  readonly isProbe: boolean
}

type SettledAttempt<Ready> = { readonly running: RunningAttempt<Ready>; readonly outcome: AttemptOutcome }

/** The outcome of one routing step. */
type Step<Ready extends Compatibility> =
  | { readonly kind: 'continue' }
  | { readonly kind: 'answered'; readonly result: Routed<Ready> }
  | { readonly kind: 'failed'; readonly result: NotRouted }

const CONTINUE = { kind: 'continue' } as const
const NONE: RoutingProgress<never>['unaffordable'] = []

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
  readonly #progress: RoutingProgress<Ready>
  readonly #skips: SkipNotes
  readonly #waits: Waits<Ready>
  /** Attempts that have neither opened nor failed, in the order of their start: one, or two while one is a hedge. */
  readonly #running: RunningAttempt<Ready>[] = []
  /** Failed attempts that count towards `maxAttempts`. */
  #counted = 0
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
    this.#progress = { history: emptyHistory, tried: [], failures: [], attempts: 0, last: null, unaffordable: NONE }
    this.#chooser = new TargetChooser(deps, context, spec, this.#progress)
    this.#skips = new SkipNotes(context.note)
    this.#waits = new Waits({ world: deps.world, stop: context.stop, chooser: this.#chooser, skips: this.#skips })
  }

  async run(): Promise<Routed<Ready> | NotRouted> {
    const refused = this.#context.account.earlyRefusal()
    if (refused) return { ok: false, failure: refused, availableIn: 0 }
    this.#spec.hedging?.started()
    try {
      for (;;) {
        const step = this.#running.length === 0 ? await this.#startNext() : await this.#awaitRunning()
        if (step.kind !== 'continue') return step.result
      }
    } finally {
      for (const running of this.#running) this.#cancel(running)
      if (this.#draining) this.#deps.activeCalls.delete(this.#draining)
    }
  }

  /** Starts an attempt at the next target, or ends the run if there is none. */
  async #startNext(): Promise<Step<Ready>> {
    const { stop } = this.#context
    if (stop.reason) return { kind: 'failed', result: { ok: false, failure: stop.reason, availableIn: 0 } }
    if (this.#counted >= this.#maxAttempts) return this.#giveUp([])
    const preparing = this.#spec.prepareAhead?.(this.#chooser.openTargets())
    if (preparing) {
      await preparing
      if (stop.reason) return CONTINUE
    }
    // The last attempt belongs to the other model.
    const again = this.#maxAttempts - this.#counted > 1 ? this.#waits.sameModel() : null
    const selecting = again ? this.#waits.forSameModel(again) : this.#chooseReserved(() => this.#chooser.chooseNow())
    const { choice: immediate, skipped } = selecting instanceof Promise ? await selecting : selecting
    this.#skips.add(skipped)
    if (!immediate && again) return CONTINUE
    if (!immediate && this.#context.account.isLimited) return this.#giveUp(skipped)
    const choice = immediate ?? (await this.#waits.forTarget(skipped))
    if (stop.reason) {
      if (choice) this.#discard(choice.permit)
      return CONTINUE
    }
    if (!choice) return this.#reduceRequest() ? CONTINUE : this.#giveUp(skipped)
    const encoding = this.#spec.makeReady?.(choice.prepared)
    if (encoding && !(await this.#finishEncoding(encoding, choice.permit))) return CONTINUE
    const recording = this.#context.account.record(false)
    if (recording && !(await this.#isRecorded(recording, choice.permit))) return stop.reason ? CONTINUE : UNRECORDED
    this.#emitFallback(choice.target)
    this.#start(choice, false)
    return CONTINUE
  }

  /** Waits until an attempt has opened or failed, or until the only one is slow and may be hedged. */
  async #awaitRunning(): Promise<Step<Ready>> {
    const settled = await this.#nextSettled()
    if (!settled) {
      await this.#hedge()
      return CONTINUE
    }
    const { running, outcome } = settled
    if (outcome.ok) return { kind: 'answered', result: this.#onOpened(running, outcome.answerStream) }
    const empty = this.#onFailed(running, outcome)
    return empty ? { kind: 'answered', result: empty } : CONTINUE
  }

  // ── Without a target ───────────────────────────────────────────────────────────────────────────────────────────

  async #giveUp(skipped: readonly SkippedReason[]): Promise<Step<Ready>> {
    if (this.#empty) return { kind: 'answered', result: this.#empty }
    const { failures } = this.#progress
    const { account } = this.#context
    const own = failures.length === 0 ? ((await account.ownFailure(skipped)) ?? (await account.lateRefusal())) : null
    if (own) return { kind: 'failed', result: { ok: false, failure: own, availableIn: 0 } }
    const failure = withBudget(finalError(failures, skipped), account.budgetRefusal)
    return { kind: 'failed', result: { ok: false, failure, availableIn: this.#chooser.availableIn() } }
  }

  /** Whether a smaller request can be tried at all targets again. */
  #reduceRequest(): boolean {
    const { last } = this.#progress
    if (this.#empty || !last || !this.#spec.reduceRequest?.(last.failure)) return false
    this.#progress.history = emptyHistory
    return true
  }

  /** Chooses a target and reserves for it. Targets that a budget of the client cannot afford are skipped. */
  #chooseReserved(choose: () => Selection<Ready>): Eventual<Selection<Ready>> {
    this.#progress.unaffordable = NONE
    return this.#reserveFirst(choose)
  }

  #reserveFirst(choose: () => Selection<Ready>): Eventual<Selection<Ready>> {
    const selection = choose()
    const { choice, skipped } = selection
    if (!choice) return selection
    return whenKnown(this.#chooser.reserve(choice.target), (refusal) => {
      if (refusal === null) return selection
      choice.permit.release()
      if (refusal === 'limit') return { choice: null, skipped }
      this.#progress.unaffordable = [...this.#progress.unaffordable, choice.target.candidate]
      return this.#reserveFirst(choose)
    })
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

  /** Waits until a large request is encoded. Releases the permit and returns false if the request was cancelled. */
  async #finishEncoding(encoding: Promise<void>, permit: AttemptPermit): Promise<boolean> {
    try {
      await encoding
    } catch (error) {
      this.#discard(permit)
      throw error
    }
    if (!this.#context.stop.reason) return true
    this.#discard(permit)
    return false
  }

  /** Waits until the attempt is recorded. Returns false if it must not be sent: it cannot be recorded, or was cancelled. */
  async #isRecorded(recording: Promise<boolean>, permit: AttemptPermit): Promise<boolean> {
    if ((await recording) && !this.#context.stop.reason) return true
    this.#discard(permit)
    return false
  }

  /** The chosen target is not tried. */
  #discard(permit: AttemptPermit): void {
    permit.release()
    this.#context.account.discard()
  }

  #start({ target, prepared, permit }: Choice<Ready>, hedge: boolean): void {
    const { health, world } = this.#deps
    const { account, note, stop } = this.#context
    const { tried } = this.#progress
    const { instance, model } = target.candidate
    const isFirst = !tried.includes(target.candidate)
    if (isFirst) {
      health.firstTry(target.candidate)
      tried.push(target.candidate)
    }
    const number = this.#progress.attempts++
    const startedAt = world.now()
    const { dropped } = prepared
    const details = { ...(dropped.length > 0 && { dropped }), ...(hedge && { hedge }) }
    note({ type: 'attempt', at: startedAt, provider: instance.id, model, key: target.key.id, ...details })
    const attempt = this.#spec.begin(target, prepared)
    account.sent(attempt)
    const { isProbe } = permit
    this.#running.push({ target, prepared, permit, attempt, number, startedAt, isFirst, isProbe })
    stop.onCancel((reason) => {
      if (reason.kind === 'client_gone' && this.#readsToEnd) this.#drain(reason)
      else this.#failAll(reason)
    })
  }

  /** Whether an answer is read to its end after its client has left. A hard budget must count what was generated. */
  get #readsToEnd(): boolean {
    const { account, config } = this.#context
    return this.#spec.isWhole === true && (config.settings.usage.drainOnAbort || account.isHard)
  }

  #failAll(reason: Failure): void {
    for (const { attempt } of this.#running) attempt.failWith(reason)
  }

  /** Reads the answer within 30 s, or until the process ends or the key is cut off. No other target is tried. */
  #drain(reason: Failure): void {
    const { activeCalls, world } = this.#deps
    this.#draining = new Cancellation(this.#context.stop.client)
    this.#draining.onCancel(() => this.#failAll(reason))
    this.#context.account.clientLeft()
    activeCalls.startDeadline(world, this.#draining, DRAIN)
  }

  /** Cancels an attempt that lost to another, or whose hedge is no longer needed. Not counted against the target. */
  #cancel({ attempt, permit, number }: RunningAttempt<Ready>): void {
    attempt.abort()
    permit.release()
    this.#context.note({ type: 'abandoned', at: this.#deps.world.now(), attempt: number })
  }

  /** Another attempt has answered, but the circuit needs the outcome of its probe. */
  #leave(probe: RunningAttempt<Ready>): void {
    const { settings } = this.#context.config
    this.#remove(probe)
    this.#context.note({ type: 'abandoned', at: this.#deps.world.now(), attempt: probe.number })
    finishProbe(this.#deps, { ...probe, id: this.#context.id, within: settings.timeout.firstContent })
  }

  /** The next attempt to open or fail. Null: the only attempt is slow. */
  #nextSettled(): Promise<SettledAttempt<Ready> | null> {
    const [first, second] = this.#running
    if (!first) throw new Error('no attempt is running')
    if (second) return Promise.race(this.#running.map(settled))
    const only = settled(first)
    const slowAt = this.#slowAt(first)
    if (slowAt === null) return only
    const { world } = this.#deps
    return new Promise((resolve) => {
      const cancel = world.later(Math.max(0, slowAt - world.now()), () => resolve(null))
      void only.then((result) => {
        cancel()
        resolve(result)
      })
    })
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
    const [slow] = this.#running
    if (slow?.isProbe) this.#probesAlone = true
    else this.#hasHedged = true
    if (!slow || this.#context.stop.reason || this.#counted + this.#running.length >= this.#maxAttempts) return
    let isSettled = false
    void slow.attempt.opened.then(() => {
      isSettled = true
    })
    const { choice } = await this.#chooseReserved(() =>
      slow.isProbe ? this.#chooser.chooseBesideProbe(slow.target) : this.#chooser.chooseHedge(),
    )
    if (!choice) return
    const { permit } = choice
    if (this.#context.stop.reason) return this.#discard(permit)
    if (!slow.isProbe && !this.#spec.hedging?.allowed(slow.target.candidate, this.#context.client))
      return this.#discard(permit)
    const encoding = this.#spec.makeReady?.(choice.prepared)
    if (encoding && !(await this.#finishEncoding(encoding, permit))) return
    const recording = this.#context.account.record(true)
    if (recording && !(await this.#isRecorded(recording, permit))) return
    // The slow attempt may have opened or failed during these waits. After a failure, targets are chosen again.
    if (isSettled) return this.#discard(permit)
    this.#start(choice, true)
    // If this attempt fails first, the next target is tried beside the probe.
    this.#probesAlone = false
  }

  // ── Outcomes ───────────────────────────────────────────────────────────────────────────────────────────────────

  #remove(running: RunningAttempt<Ready>): void {
    this.#running.splice(this.#running.indexOf(running), 1)
  }

  #onOpened(running: RunningAttempt<Ready>, answerStream: AnswerStream): Routed<Ready> {
    const { target, prepared, permit, attempt, number, startedAt } = running
    const { world } = this.#deps
    this.#remove(running)
    permit.commit(attempt.age)
    this.#spec.hedging?.opened(target.candidate, world.now() - startedAt)
    this.#context.note({ type: 'committed', at: world.now(), attempt: number, status: answerStream.status })
    for (const probe of this.#running.filter(({ isProbe }) => isProbe)) this.#leave(probe)
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
    this.#remove(running)
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
    const [other] = this.#running
    if (other && other.number > number) this.#emitFallback(other.target)
    if (this.#progress.history.final) this.#cancelLaterThan(number)
    return null
  }

  #recordFailure({ target, prepared, isFirst }: RunningAttempt<Ready>, failure: Failure): void {
    const progress = this.#progress
    const { candidate } = target
    // A rejected key is not an error of the request: the attempt does not count, and the next key needs no retry
    // budget. Earlier attempts with other keys still count.
    if (rowOf(failure).excludes !== 'key') this.#counted++
    else if (isFirst) progress.tried.splice(progress.tried.indexOf(candidate), 1)
    progress.failures.push(failure)
    if (failure.overflow?.window !== undefined)
      this.#deps.health.limits.learn(candidate, { contextWindow: failure.overflow.window })
    progress.history = recordFailure(progress.history, target, failure, {
      window: this.#chooser.windowOf(candidate),
      member: this.#spec.refusedMember ? this.#spec.refusedMember(target, failure) : failure.param,
    })
    progress.last = { target, prepared, failure }
    if (this.#spec.mayFailOver?.(failure) === false) progress.history = { ...progress.history, final: true }
  }

  /** After a final failure, cancels hedges: another target's answer must not replace a refusal. */
  #cancelLaterThan(number: number): void {
    for (const later of this.#running.filter((running) => running.number > number)) {
      this.#remove(later)
      this.#cancel(later)
    }
  }
}

const settled = async <Ready>(running: RunningAttempt<Ready>): Promise<SettledAttempt<Ready>> => ({
  running,
  outcome: await running.attempt.opened,
})

const nameOf = ({ candidate, key }: Target): string => `${candidate.instance.id}#${key.id}/${candidate.model}`

/** The event that a target replaces one that failed. */
export const fallbackEvent = (
  { id, principal }: Pick<RouteContext, 'id' | 'principal'>,
  from: Target,
  to: Target,
  { kind, message }: Failure,
): GatewayEvent => ({
  event: 'fallback',
  id,
  ...(principal.id !== '' && { client: principal.id }),
  from: nameOf(from),
  to: nameOf(to),
  kind,
  detail: message,
})
