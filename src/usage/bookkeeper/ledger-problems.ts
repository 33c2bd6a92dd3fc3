/**
 * The state of the ledger: the worst of its parts. One disk may stop both the journal and the database, which is one problem
 * and one report.
 */
import type { BookkeeperEvent } from './bookkeeper.ts'

/** `unwritable`: the journal itself cannot be written. `behind`: records are stored this much later than they are written. */
export type LedgerEvent =
  | BookkeeperEvent
  | { readonly event: 'unwritable'; readonly reason: string }
  | { readonly event: 'behind'; readonly lagMs: number }

/** A problem of the ledger. `since`: ms since 1970. */
export type LedgerProblem = { readonly reason: string; readonly since: number }

/** Problems of the writer of the journal, of the bookkeeper of this process, and of one in another process, which reports its own. */
export type LedgerParts = {
  readonly writer: string | null
  readonly own: string | null
  readonly shared: string | null
  readonly lagMs: number
}

export type LedgerProblemsOptions = {
  readonly date: () => number
  readonly report: (event: LedgerEvent) => void
}

/** ms by which the bookkeeper is behind the journal, and for how long, before that is a problem. */
const BEHIND = { lag: 10_000, for: 10_000 }
const IS_BEHIND = 'usage is stored later than it is recorded; see headgate_ledger_lag_seconds'

export class LedgerProblems {
  readonly #options: LedgerProblemsOptions
  #problem: LedgerProblem | null = null
  /** ms since 1970 from which the bookkeeper is behind; null: it is not. */
  #behindSince: number | null = null
  #reported: LedgerEvent['event'] = 'ok'

  constructor(options: LedgerProblemsOptions) {
    this.#options = options
  }

  /** Why usage cannot be recorded or stored in time, or null. */
  get problem(): LedgerProblem | null {
    const since = this.#behindSince
    if (this.#problem || since === null || this.#options.date() - since < BEHIND.for) return this.#problem
    return { reason: IS_BEHIND, since }
  }

  /** Takes the current state of the parts, and reports the worst if it is another one. */
  follow(parts: LedgerParts): void {
    const now = this.#options.date()
    const reason = parts.writer ?? parts.own ?? parts.shared
    if (reason === null) this.#problem = null
    else if (reason !== this.#problem?.reason) this.#problem = { reason, since: now }
    // What cannot be stored is late: that is no second problem.
    const isLate = reason === null && parts.lagMs >= BEHIND.lag
    this.#behindSince = isLate ? (this.#behindSince ?? now) : null
    const state = this.#worst(parts)
    if (state.event === this.#reported) return
    this.#reported = state.event
    this.#options.report(state)
  }

  #worst({ writer, own, shared, lagMs }: LedgerParts): LedgerEvent {
    if (writer !== null) return { event: 'unwritable', reason: writer }
    if (own !== null) return { event: 'degraded', reason: own }
    return shared === null && this.problem !== null ? { event: 'behind', lagMs } : { event: 'ok' }
  }
}
