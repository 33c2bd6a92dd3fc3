/** What the accounts of all calls share. */
import type { Sampling } from '../../core/call-span.ts'
import type { Journal } from '../../core/journal.ts'
import type { SharedTimer, TimerClient } from '../../core/shared-timer.ts'
import type { World } from '../../core/world.ts'
import type { BlockedUsers } from '../../policy/accounts/blocked-users.ts'
import type { PriceBook } from '../../policy/accounts/price-book.ts'
import type { StoppedSessions } from '../../policy/sessions/stopped-session.ts'
import type { AnswerHistory } from './answer-history.ts'
import type { Authority } from './authority.ts'
import type { BudgetCounters } from './budget-counters.ts'
import type { LimitCounters } from './limit-counters.ts'
import type { SessionIds } from './session-ids.ts'
import type { ShapeSamples } from './shape-samples.ts'

/** Settings of accounts. */
export type AccountRules = {
  /** Output tokens that a budget reserves at most. */
  readonly maxOutput: number
  /** Whether a model without a known price may be called where a hard budget applies. */
  readonly unknownPrice: 'dearest' | 'refuse' | 'allow'
  /** Whether a hard budget is used before what was spent of it earlier is counted. */
  readonly whenUnknown: 'refuse' | 'serve'
  /** The tag by whose values totals are kept. */
  readonly rollupTag?: string | undefined
  /** Whether the end user is recorded. */
  readonly endUser: boolean
  /** Whether requests that name no session belong to one by the beginning of their conversation. */
  readonly guessSessions: boolean
  /** Absent or null: no telemetry is exported. */
  readonly telemetry?: TelemetryRules | null | undefined
}

/** `traces`: they are exported. `propagate`: the providers that receive the trace context; true: all. */
export type TelemetryRules = {
  readonly traces: boolean
  readonly sampling: Sampling
  readonly propagate: true | readonly string[]
}

/** The prices of attempts. */
export type AttemptPrices = Pick<PriceBook, 'costOfAttempt' | 'reservation' | 'isFree'>

export type AccountsState = {
  readonly world: World
  readonly prices: () => AttemptPrices
  /** Null: usage is not recorded. */
  readonly journal: () => Journal | null
  readonly rules: () => AccountRules
  /** The end users that an operator has blocked; absent or null: none. */
  readonly blockedUsers?: (() => BlockedUsers | null) | undefined
  readonly sessions: SessionIds
  /** The sessions that an operator has stopped; absent or null: none. */
  readonly stoppedSessions?: (() => StoppedSessions | null) | undefined
  readonly limits: LimitCounters
  readonly budgets: BudgetCounters
  readonly history: AnswerHistory
  /** Decides about limits and budgets. */
  readonly authority: Authority
  /** Streams whose reservation may have to be extended. */
  readonly streams: SharedTimer<TimerClient>
  readonly shapes: ShapeSamples
}
