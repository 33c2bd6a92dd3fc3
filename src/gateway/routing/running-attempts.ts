/** The attempts of one request that have neither opened nor failed: one, or two while one is a hedge. */
import type { Failure } from '../../core/failure.ts'
import type { TraceEvent } from '../../core/trace.ts'
import type { World } from '../../core/world.ts'
import type { Attempt, AttemptOutcome } from '../upstream/attempt.ts'
import type { Choice } from './choose-target.ts'

/** An attempt in flight, started at `startedAt` (ms of the monotonic clock) as number `number` of the request, from 0. */
export type RunningAttempt<Ready> = Omit<Choice<Ready>, 'kind'> & {
  readonly attempt: Attempt
  readonly number: number
  readonly startedAt: number
  /** The request's first attempt at this deployment (provider and model). */
  readonly isFirst: boolean
  /** It tests a target whose circuit is open. */
  readonly isProbe: boolean
}

export type SettledAttempt<Ready> = { readonly running: RunningAttempt<Ready>; readonly outcome: AttemptOutcome }

export class RunningAttempts<Ready> {
  readonly #world: World
  readonly #note: (event: TraceEvent) => void
  /** In the order of their start. */
  readonly #list: RunningAttempt<Ready>[] = []

  constructor(world: World, note: (event: TraceEvent) => void) {
    this.#world = world
    this.#note = note
  }

  get size(): number {
    return this.#list.length
  }

  get first(): RunningAttempt<Ready> | undefined {
    return this.#list[0]
  }

  add(running: RunningAttempt<Ready>): void {
    this.#list.push(running)
  }

  remove(running: RunningAttempt<Ready>): void {
    this.#list.splice(this.#list.indexOf(running), 1)
  }

  /** Probes, which continue after another attempt has answered. */
  probes(): readonly RunningAttempt<Ready>[] {
    return this.#list.filter(({ isProbe }) => isProbe)
  }

  /** The next attempt to open or fail. Null: there is one attempt, and it has done neither at `slowAt`; null: no limit. */
  nextSettled(slowAt: number | null): Promise<SettledAttempt<Ready> | null> {
    const [first, second] = this.#list
    if (!first) throw new Error('no attempt is running')
    if (second) return Promise.race(this.#list.map(settled))
    const only = settled(first)
    if (slowAt === null) return only
    return new Promise((resolve) => {
      const cancel = this.#world.later(Math.max(0, slowAt - this.#world.now()), () => resolve(null))
      void only.then((result) => {
        cancel()
        resolve(result)
      })
    })
  }

  /** Ends all with this failure. */
  failAll(reason: Failure): void {
    for (const { attempt } of this.#list) attempt.failWith(reason)
  }

  /** Cancels all: they lost to another attempt, or are no longer needed. Not counted against their targets. */
  cancelAll(): void {
    for (const running of this.#list) this.#cancel(running)
  }

  /** After a final failure, cancels hedges: another target's answer must not replace a refusal. */
  cancelLaterThan(number: number): void {
    for (const later of this.#list.filter((running) => running.number > number)) {
      this.remove(later)
      this.#cancel(later)
    }
  }

  #cancel({ attempt, permit, number }: RunningAttempt<Ready>): void {
    attempt.abort()
    permit.release()
    this.#note({ type: 'abandoned', at: this.#world.now(), attempt: number })
  }
}

const settled = <Ready>(running: RunningAttempt<Ready>): Promise<SettledAttempt<Ready>> =>
  running.attempt.opened.then((outcome) => ({ running, outcome }))
