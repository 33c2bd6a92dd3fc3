/** The waits of one request for a target: one for another attempt at the same model, and one when no other target is left. */
import type { Target } from '../../core/target.ts'
import type { World } from '../../core/world.ts'
import type { SkippedReason } from '../../policy/reply/final-error.ts'
import type { Cancellation } from '../call/cancellation.ts'
import type { AttemptPermit } from '../health/upstream-health.ts'
import type { Compatibility } from '../upstream/outbound-request.ts'
import {
  type Choice,
  type DelayedTarget,
  overBudget,
  type Selection,
  type TargetChooser,
  unaffordable,
} from './choose-target.ts'
import type { SkipNotes } from './skip-notes.ts'

/** What a wait needs. */
type WaitParts<Ready extends Compatibility> = {
  readonly world: World
  readonly stop: Cancellation
  readonly chooser: TargetChooser<Ready>
  readonly skips: SkipNotes
}

/** Waits for targets, each kind once per request. */
export class Waits<Ready extends Compatibility> {
  readonly #parts: WaitParts<Ready>
  #hasRetriedModel = false
  #hasWaited = false

  constructor(parts: WaitParts<Ready>) {
    this.#parts = parts
  }

  /** The target to wait for before another model is tried; null: none. */
  sameModel(): DelayedTarget<Ready> | null {
    return this.#hasRetriedModel ? null : this.#parts.chooser.chooseSameModel()
  }

  /** Waits for another attempt at the same model. No choice: it may not be made. */
  async forSameModel(delayed: DelayedTarget<Ready>): Promise<Selection<Ready>> {
    const { chooser } = this.#parts
    this.#hasRetriedModel = true
    const may = chooser.mayRepeat(delayed.target)
    return { choice: may ? await this.#admit(delayed, (target) => chooser.admitAgain(target)) : null, skipped: [] }
  }

  /** Waits for a target that may be tried soon, if no other is left. Null: there is none. */
  async forTarget(skipped: readonly SkippedReason[]): Promise<Choice<Ready> | null> {
    const { chooser, skips } = this.#parts
    const delayed = this.#hasWaited ? null : chooser.chooseDelayed(skipped)
    if (!delayed) return null
    if (!chooser.mayRepeat(delayed.target)) {
      skips.add([overBudget(delayed.target)])
      return null
    }
    this.#hasWaited = true
    return this.#admit(delayed, (target) => chooser.admitLastResort(target))
  }

  /** Waits, then admits the target and reserves for it. Null: it may not be tried after all. */
  async #admit(
    { target, prepared, wait }: DelayedTarget<Ready>,
    admit: (target: Target) => AttemptPermit | null,
  ): Promise<Choice<Ready> | null> {
    const { world, stop, chooser, skips } = this.#parts
    await stop.sleep(world, wait)
    if (stop.reason) return null
    const permit = admit(target)
    if (!permit) return null
    const refusal = await chooser.reserve(target)
    if (refusal === null) return { target, prepared, permit }
    permit.release()
    if (refusal === 'budget') skips.add([unaffordable(target)])
    return null
  }
}
