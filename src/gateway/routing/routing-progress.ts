/** The progress of routing one request: what was tried, and how it failed. */
import { type Failure, rowOf } from '../../core/failure.ts'
import type { Candidate, Target } from '../../core/target.ts'
import { emptyHistory, type History, recordFailure } from '../../policy/routing/next-target.ts'

const NONE: readonly Candidate[] = []

/** An attempt that has failed. `isFirst`: it was the request's first at this deployment (provider and model). */
type AttemptFailure<Ready> = { readonly target: Target; readonly prepared: Ready; readonly isFirst: boolean }

/**
 * Facts of a failure. `window`: the context window of its model in tokens. `member`: the member of the request that was
 * refused. `isFinal`: no other target may be tried.
 */
type AttemptFailureFacts = {
  readonly window: number | undefined
  readonly member: string | undefined
  readonly isFinal: boolean
}

export class RoutingProgress<Ready> {
  history: History = emptyHistory
  /** Models of providers that were tried. A further attempt there needs the retry budget. */
  readonly tried: Candidate[] = []
  readonly failures: Failure[] = []
  /** Attempts started, including hedges. */
  attempts = 0
  /** Failed attempts that count towards `maxAttempts`. */
  counted = 0
  last: { readonly target: Target; readonly prepared: Ready; readonly failure: Failure } | null = null
  /** Models of providers that a budget of the client could not afford in this step. */
  unaffordable = NONE

  /** An attempt at this candidate begins. Returns whether it is the request's first. */
  tries(candidate: Candidate): boolean {
    if (this.tried.includes(candidate)) return false
    this.tried.push(candidate)
    return true
  }

  failed({ target, prepared, isFirst }: AttemptFailure<Ready>, failure: Failure, facts: AttemptFailureFacts): void {
    // A rejected key is not an error of the request: the attempt does not count, and the next key needs no retry
    // budget. Earlier attempts with other keys still count.
    if (rowOf(failure).excludes !== 'key') this.counted++
    else if (isFirst) this.tried.splice(this.tried.indexOf(target.candidate), 1)
    this.failures.push(failure)
    this.history = recordFailure(this.history, target, failure, facts)
    this.last = { target, prepared, failure }
    if (facts.isFinal) this.history = { ...this.history, final: true }
  }

  /** All targets may be tried again, with a smaller request. */
  restart(): void {
    this.history = emptyHistory
  }

  /** A new step begins: what was too expensive may be affordable now. */
  forgetUnaffordable(): void {
    this.unaffordable = NONE
  }
}
