/**
 * Raises what this gateway has spent in the shared counters to what its ledger says: at the start, when budgets have changed,
 * and every minute. So nothing stays lost when Redis was flushed, or a process was killed.
 */
import type { Budget } from '../core/accounts.ts'
import type { SpentSum } from '../gateway/accounts/budget-counters.ts'
import type { LedgerSum } from '../usage/bookkeeper/ledger-store.ts'
import type { LedgerProblem } from '../usage/bookkeeper/usage-ledger.ts'
import type { NodeSpent } from './counters-thread-messages.ts'
import { READING, type RestoredBudgetsOptions, spentOf } from './restored-budgets.ts'

export type SeededBudgetsOptions = Omit<RestoredBudgetsOptions, 'accounts'> & {
  readonly counters: {
    setBudgets(budgets: readonly Budget[]): void
    raise(sums: readonly SpentSum[]): void
    adopt(sums: readonly NodeSpent[]): void
    setUnread(budgets: readonly string[]): void
    started(): Promise<void>
  }
  readonly budgets: () => readonly Budget[]
}

/** ms until the ledger is read again, usually and after a problem. */
const AGAIN = { usual: 60_000, failed: 1_000 }
/** ms for charges that the ledger has to reach the counters: they would count twice if the ledger were first. */
const DELAY = 1_000

export class SeededBudgets {
  readonly #options: SeededBudgetsOptions
  #problem: string | null = null
  /** ms since 1970. */
  readonly #startedAt: number
  /** Budgets whose earlier usage is counted, by `readAs`. */
  #counted: ReadonlySet<string> = new Set()
  /** ms since 1970 from which budgets lack earlier usage; null: none. */
  #unknownSince: number | null = null
  /** What was spent earlier is counted, or cannot be. */
  #first: Promise<unknown> | null = null
  /** The ledger was read once: before, no charge could count twice. */
  #isRead = false
  #cancelNext: () => void = () => {}
  /** Raised with each correction: sums that were read before do not contain it. */
  #corrections = 0
  #last: Promise<void> = Promise.resolve()

  constructor(options: SeededBudgetsOptions) {
    this.#options = options
    this.#startedAt = options.date()
  }

  /** Why earlier usage may not count, or null. */
  get problem(): string | null {
    return this.#problem
  }

  /** The same, with the time since when, also while earlier usage is read. */
  unknown(): LedgerProblem | null {
    return this.#unknownSince === null ? null : { reason: this.#problem ?? READING, since: this.#unknownSince }
  }

  /** The counters are those of a new thread. */
  restarted(): Promise<void> {
    this.#counted = new Set()
    return this.changed()
  }

  /** A counter is corrected. */
  corrected(): void {
    this.#corrections++
  }

  /** The budgets may have changed. Calls at the start resolve when what was spent earlier is counted, or cannot be. */
  async changed(): Promise<void> {
    const { counters, budgets } = this.#options
    counters.setBudgets(budgets())
    this.#noteUnread()
    const seeding = this.#seed()
    this.#first ??= Promise.all([seeding, counters.started()])
    await this.#first
  }

  #seed(): Promise<void> {
    this.#last = this.#last.then(() => this.#read())
    return this.#last
  }

  async #read(): Promise<void> {
    const { budgets, isRecorded, later } = this.#options
    this.#cancelNext()
    this.#noteUnread()
    const all = budgets()
    const pause = isRecorded() && all.length > 0 ? await this.#raise(all) : AGAIN.usual
    this.#cancelNext = later(pause, () => void this.#seed())
  }

  /** Returns the time until the ledger is read again. */
  async #raise(all: readonly Budget[]): Promise<number> {
    const { counters, ledger, date, later } = this.#options
    const isFirst = !this.#isRead
    this.#isRead = true
    const corrections = this.#corrections
    const sums = await spentOf(ledger, all, date())
    this.#note(typeof sums === 'string' ? sums : null, all)
    if (typeof sums === 'string') return AGAIN.failed
    if (sums === null) return AGAIN.usual
    const raise = () => {
      if (corrections === this.#corrections) counters.raise(partsOf(sums, true))
      const others = partsOf(sums, false)
      if (others.length > 0) counters.adopt(others)
      this.#counted = new Set(all.map(readAs))
      this.#noteUnread()
    }
    if (isFirst) raise()
    else later(DELAY, raise)
    return AGAIN.usual
  }

  /** A budget that is newer than this process has no earlier usage. */
  #noteUnread(): void {
    const { counters, budgets, isRecorded, date } = this.#options
    const lacks = (budget: Budget) =>
      !this.#counted.has(readAs(budget)) && !(budget.countFrom === 'creation' && budget.createdAt >= this.#startedAt)
    const unread = isRecorded() ? budgets().filter(lacks) : []
    this.#unknownSince = unread.length === 0 ? null : (this.#unknownSince ?? date())
    counters.setUnread(unread.map(({ id }) => id))
  }

  #note(problem: string | null, budgets: readonly Budget[]): void {
    const { onProblem, onRestored } = this.#options
    const before = this.#problem
    this.#problem = problem
    if (problem !== null && before === null) onProblem(problem, budgets)
    if (problem === null && before !== null) onRestored()
  }
}

/** Budgets with the same text count the same usage. */
const readAs = ({ id, period, timezone, startDay, per, countFrom }: Budget): string =>
  JSON.stringify([id, period, timezone, startDay, per, countFrom])

/** What this gateway has recorded, or the others that share the ledger. */
const partsOf = (sums: readonly LedgerSum[], isOwn: boolean): readonly NodeSpent[] =>
  sums.flatMap(({ counter, period_start, nodes }) =>
    nodes.filter((part) => part.isOwn === isOwn).map(({ node, spent }) => ({ counter, period_start, node, spent })),
  )
