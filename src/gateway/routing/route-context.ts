/** The inputs of routing one request. */
import type { Client } from '../../core/accounts.ts'
import type { Catalogue, Config } from '../../core/config.ts'
import type { CallBodies } from '../../core/kept-bodies.ts'
import type { ProviderKey } from '../../core/provider.ts'
import type { Candidate, Plan } from '../../core/target.ts'
import type { TraceEvent } from '../../core/trace.ts'
import type { PriceBook } from '../../policy/accounts/price-book.ts'
import type { RequestAccount } from '../accounts/request-account.ts'
import type { CallDeps, RunningCall } from '../call/call-lifecycle.ts'
import type { Cancellation } from '../call/cancellation.ts'
import type { UpstreamHealth } from '../health/upstream-health.ts'
import type { Tape } from '../upstream/tape.ts'

/** The dependencies of calls of providers. */
export type RouterDeps = CallDeps & {
  /** Records calls, or answers them from recordings. Absent: off. */
  readonly tape?: Tape
  readonly health: UpstreamHealth
  readonly catalogue: Catalogue
  /** The current prices. */
  readonly prices: () => PriceBook
}

/** The dependencies of routing. `health` is reduced, so that embeddings and token counts can pass a read-only view. */
export type RoutingDeps = Pick<RouterDeps, 'world' | 'catalogue' | 'emit' | 'activeCalls' | 'tape'> & {
  readonly health: Pick<UpstreamHealth, 'admit' | 'refuses' | 'peek' | 'firstTry' | 'mayRepeat' | 'limits'>
}

/** One request as routing needs it. */
export type RouteContext = {
  readonly id: string
  readonly client: Client
  readonly plan: Plan
  readonly config: Config
  /** The request's deadline in ms of the monotonic clock. */
  readonly deadline: number
  readonly stop: Cancellation
  /** A candidate's keys in order. Later keys are computed when needed. */
  readonly keysOf: (candidate: Candidate) => Iterable<ProviderKey>
  /** Reserves for the attempts. */
  readonly account: RequestAccount
  /** Records the bodies of the attempts. */
  readonly bodies?: CallBodies | null
  /** Adds an event to the request's trace. */
  readonly note: (event: TraceEvent) => void
}

/** A call that is to be routed. */
export type CallToRoute = Pick<RouteContext, 'client' | 'plan' | 'config' | 'keysOf'> & {
  readonly running: Pick<RunningCall, 'cancellation' | 'recorder'>
}

/** The inputs of routing a call, whose deadline has begun. */
export const routeContextOf = ({ client, plan, config, keysOf, running }: CallToRoute): RouteContext => {
  const { cancellation, recorder } = running
  return {
    id: recorder.id,
    client,
    plan,
    config,
    deadline: cancellation.until,
    stop: cancellation,
    keysOf,
    account: recorder.account,
    bodies: recorder.bodies,
    note: (event) => recorder.note(event),
  }
}
