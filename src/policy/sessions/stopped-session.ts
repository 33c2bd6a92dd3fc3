/** Sessions that an operator has stopped. */
import { type Failure, fail } from '../../core/failure.ts'

/** `message`: for the client; empty: none. `until`: ms since 1970. */
export type StoppedSession = { readonly message: string; readonly until: number }

/** By ID. */
export type StoppedSessions = ReadonlyMap<string, StoppedSession>

/** Why requests of a session are refused; null: it is not stopped. */
export const stopOf = (stopped: StoppedSessions, session: string, now: number): Failure | null => {
  const found = stopped.get(session)
  if (!found || found.until <= now) return null
  return fail(
    'loop_stopped',
    found.message === ''
      ? 'An operator has stopped this session. Begin another one, or ask the operator of the gateway to resume it.'
      : `An operator has stopped this session: ${found.message}`,
  )
}
