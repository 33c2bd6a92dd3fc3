/** The rest of a probe after another attempt has answered its request: its circuit still learns the outcome. */
import { Cancellation } from '../call/cancellation.ts'
import type { AttemptPermit } from '../health/upstream-health.ts'
import type { Attempt } from '../upstream/attempt.ts'
import type { RoutingDeps } from './route-context.ts'

/** ms for which a probe continues if the time to first content has no limit. */
const LONGEST = 120_000

/** A probe without a client. `id`: the ID of its request. `within`: its time limit in ms; 0: the default. */
type LeftProbe = {
  readonly attempt: Attempt
  readonly permit: AttemptPermit
  readonly id: string
  readonly within: number
}

/**
 * Waits for the first content of a probe, records the outcome, and cancels the call. A probe without an outcome in time has
 * no verdict, and the next request probes again.
 */
export const finishProbe = (
  { world, activeCalls }: Pick<RoutingDeps, 'world' | 'activeCalls'>,
  { attempt, permit, id, within }: LeftProbe,
): void => {
  const cancellation = new Cancellation()
  cancellation.onCancel(() => {
    activeCalls.delete(cancellation)
    attempt.abort()
    permit.release()
  })
  activeCalls.startDeadline(world, cancellation, within || LONGEST)
  void attempt.opened.then((outcome) => {
    activeCalls.delete(cancellation)
    attempt.abort()
    if (outcome.ok) permit.commit(attempt.age)
    else permit.failed(outcome.failure, id)
    permit.release()
  })
  attempt.openAtFirstContent()
}
