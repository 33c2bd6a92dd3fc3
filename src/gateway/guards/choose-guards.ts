/** Chooses the guards of one call. */
import type { ChooseGuards, ChosenGuard } from '../../core/guard.ts'
import type { IncomingRequest, RequestBody } from '../../core/http-exchange.ts'
import type { Plan } from '../../core/target.ts'
import type { Recorder } from '../call/recorder.ts'

/** A call of a client. `style`: its kind, as in the log. */
type GuardableCall = {
  readonly received: IncomingRequest<RequestBody>
  readonly plan: Plan
  readonly style: string
  /** Receives the verdicts. */
  readonly recorder: Pick<Recorder, 'judged'>
}

/** The guards of a call, in order. */
export const guardsFor = (
  { guards }: { readonly guards?: ChooseGuards },
  { received, plan, style, recorder }: GuardableCall,
): readonly ChosenGuard[] => {
  const { id, client, headers } = received
  return guards?.({ id, client, style, plan, headers, note: (verdict) => recorder.judged(verdict) }) ?? NO_GUARDS
}

const NO_GUARDS: readonly ChosenGuard[] = []

/** The revisions of all guards, in order. */
export const revisionsOf = (guards: readonly ChosenGuard[]): readonly string[] =>
  guards.length === 0 ? NO_REVISIONS : guards.map(({ revision }) => revision)

const NO_REVISIONS: readonly string[] = []
