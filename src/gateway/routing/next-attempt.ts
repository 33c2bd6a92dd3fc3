/**
 * Prepares the next attempt of a request in three steps: choose a target and reserve for it, encode the request, record the
 * attempt. Each returns the choice or why there is none; a step that does not wait returns no promise.
 */
import type { Candidate } from '../../core/target.ts'
import { lackOf, lackText } from '../../policy/accounts/data-policy.ts'
import { type Eventual, whenKnown } from '../accounts/authority.ts'
import type { AttemptPermit } from '../health/upstream-health.ts'
import type { Compatibility } from '../upstream/outbound-request.ts'
import type { AttemptSpec } from './attempt-spec.ts'
import {
  type Choice,
  type DelayedTarget,
  overBudget,
  type Retried,
  type Selection,
  type Skip,
  type TargetChooser,
  unaffordable,
} from './choose-target.ts'
import type { RouteContext, RoutingDeps } from './route-context.ts'
import type { RoutingProgress } from './routing-progress.ts'
import { SkipNotes } from './skip-notes.ts'

/** The request was cancelled meanwhile, or another attempt at the same model is not possible. The next step shows which. */
const CHOOSE_AGAIN = { kind: 'choose-again' } as const
/** The attempt could not be recorded, so it must not be sent. */
const UNRECORDED = { kind: 'unrecorded' } as const

/** No target may be tried. `skipped`: why each was not. */
type NoTarget = { readonly kind: 'no-target'; readonly skipped: readonly Skip[] }

type Chosen<Ready> = Choice<Ready> | typeof CHOOSE_AGAIN | NoTarget
export type EncodedAttempt<Ready> = Choice<Ready> | typeof CHOOSE_AGAIN
type Recorded<Ready> = EncodedAttempt<Ready> | typeof UNRECORDED

type RequestParts<Ready extends Compatibility> = {
  readonly deps: Pick<RoutingDeps, 'world' | 'emit'>
  readonly context: RouteContext
  readonly spec: AttemptSpec<Ready>
  readonly chooser: TargetChooser<Ready>
  readonly progress: RoutingProgress<Ready>
}

export class NextAttempt<Ready extends Compatibility> implements Retried {
  readonly #parts: RequestParts<Ready>
  readonly #skips: SkipNotes
  readonly #retried: Candidate[] = []
  #hasWaited = false

  constructor(parts: RequestParts<Ready>) {
    this.#parts = parts
    this.#skips = new SkipNotes(parts.context.note)
  }

  // ── Choose ─────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Chooses a target and reserves for it, after a wait if none may be tried now. `isLast`: no other attempt may follow. */
  choose(isLast: boolean): Eventual<Chosen<Ready>> {
    const { spec, chooser, context } = this.#parts
    const preparing = spec.prepareAhead?.(chooser.openTargets())
    if (!preparing) return this.#chooseOnce(isLast)
    return preparing.then(() => (context.stop.reason ? CHOOSE_AGAIN : this.#chooseOnce(isLast)))
  }

  #chooseOnce(isLast: boolean): Eventual<Chosen<Ready>> {
    const { chooser } = this.#parts
    // The last attempt belongs to the other model.
    const again = isLast ? null : chooser.chooseSameModel(this)
    if (again) return this.#sameModel(again)
    const reserving = this.chooseReserved(() => chooser.chooseNow())
    return reserving instanceof Promise
      ? reserving.then((selection) => this.#onSelected(selection))
      : this.#onSelected(reserving)
  }

  #onSelected({ choice, skipped }: Selection<Ready>): Eventual<Chosen<Ready>> {
    this.#skips.add(skipped)
    if (choice) return this.#unlessStopped(choice)
    return this.#parts.context.account.admission.isLimited ? { kind: 'no-target', skipped } : this.#afterWait(skipped)
  }

  /** Chooses a target and reserves for it. Targets that a budget of the client cannot afford are skipped. */
  chooseReserved(choose: () => Selection<Ready>): Eventual<Selection<Ready>> {
    this.#parts.progress.forgetUnaffordable()
    return this.#reserveFirst(choose)
  }

  #reserveFirst(choose: () => Selection<Ready>): Eventual<Selection<Ready>> {
    const { chooser, progress } = this.#parts
    const selection = choose()
    const { choice, skipped } = selection
    if (!choice) return selection
    return whenKnown(chooser.reserve(choice.target), (refusal) => {
      if (refusal === null) return selection
      choice.permit.release()
      if (refusal === 'limit') return { choice: null, skipped }
      progress.unaffordable = [...progress.unaffordable, choice.target.candidate]
      return this.#reserveFirst(choose)
    })
  }

  get all(): number {
    return this.#retried.length
  }

  of(candidate: Candidate): number {
    return this.#retried.filter((one) => one === candidate).length
  }

  /** Waits for another attempt at the same model: once per request, or as often as the target has it. */
  async #sameModel(delayed: DelayedTarget<Ready>): Promise<Chosen<Ready>> {
    const { chooser } = this.#parts
    this.#retried.push(delayed.target.candidate)
    if (!chooser.mayRepeat(delayed.target)) return CHOOSE_AGAIN
    const choice = await this.#admit(delayed, () => chooser.admitAgain(delayed.target))
    return choice ? this.#unlessStopped(choice) : CHOOSE_AGAIN
  }

  /** Waits for a target that may be tried soon, once per request, because no other is left. */
  async #afterWait(skipped: readonly Skip[]): Promise<Chosen<Ready>> {
    const { chooser, context } = this.#parts
    const delayed = this.#hasWaited ? null : chooser.chooseDelayed(skipped)
    if (delayed && !chooser.mayRepeat(delayed.target)) this.#skips.add([overBudget(delayed.target)])
    else if (delayed) {
      this.#hasWaited = true
      const choice = await this.#admit(delayed, () => chooser.admitLastResort(delayed.target))
      if (choice) return this.#unlessStopped(choice)
    }
    return context.stop.reason ? CHOOSE_AGAIN : { kind: 'no-target', skipped }
  }

  /** Waits, then admits the target and reserves for it. Null: it may not be tried after all. */
  async #admit(
    { target, prepared, wait }: DelayedTarget<Ready>,
    admit: () => AttemptPermit | null,
  ): Promise<Choice<Ready> | null> {
    const { deps, context, chooser } = this.#parts
    await context.stop.sleep(deps.world, wait)
    if (context.stop.reason) return null
    const permit = admit()
    if (!permit) return null
    const refusal = await chooser.reserve(target)
    if (refusal === null) return { kind: 'chosen', target, prepared, permit }
    permit.release()
    if (refusal === 'budget') this.#skips.add([unaffordable(target)])
    return null
  }

  // ── Encode and record ──────────────────────────────────────────────────────────────────────────────────────────

  /** Encodes the request for the target; a large one in turns of the event loop. */
  encode(choice: Choice<Ready>): Eventual<EncodedAttempt<Ready>> {
    const encoding = this.#parts.spec.makeReady?.(choice.prepared)
    return encoding ? this.#onEncoded(encoding, choice) : choice
  }

  async #onEncoded(encoding: Promise<void>, choice: Choice<Ready>): Promise<EncodedAttempt<Ready>> {
    try {
      await encoding
    } catch (error) {
      this.discard(choice.permit)
      throw error
    }
    return this.#unlessStopped(choice)
  }

  /** Records the attempt before it is sent. */
  record(choice: Choice<Ready>, hedge: boolean): Eventual<Recorded<Ready>> {
    this.#assertPolicy(choice)
    const recording = this.#parts.context.account.attempts.record(hedge)
    return recording ? recording.then((isRecorded) => this.#onRecorded(isRecorded, choice)) : choice
  }

  /** The plan has only targets that satisfy the data policy. If one does not, a bug has added it: nothing is sent. */
  #assertPolicy({ target: { candidate }, permit }: Choice<Ready>): void {
    const { deps, context } = this.#parts
    const lack = context.plan.require && lackOf(context.plan.require, candidate)
    if (!lack) return
    this.discard(permit)
    const { instance, model } = candidate
    deps.emit({ event: 'policy_breach', id: context.id, provider: instance.id, model, lack: lackText(lack) })
    throw new Error(`data policy: ${instance.id}/${model} was planned and does not satisfy it (${lackText(lack)})`)
  }

  #onRecorded(isRecorded: boolean, choice: Choice<Ready>): Recorded<Ready> {
    if (isRecorded || this.#parts.context.stop.reason) return this.#unlessStopped(choice)
    this.discard(choice.permit)
    return UNRECORDED
  }

  /** The chosen target is not tried. */
  discard(permit: AttemptPermit): void {
    permit.release()
    this.#parts.context.account.attempts.discard()
  }

  #unlessStopped(choice: Choice<Ready>): EncodedAttempt<Ready> {
    if (!this.#parts.context.stop.reason) return choice
    this.discard(choice.permit)
    return CHOOSE_AGAIN
  }
}
