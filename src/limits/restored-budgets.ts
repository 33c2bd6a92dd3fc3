/**
 * Counts what was spent of a budget before its counters were created in this process: at the start, when it is added again,
 * or when its period is what it was before. Otherwise a restart or a reload would renew the budget. Until then a hard budget
 * is not used, unless the configuration allows that (`budget.whenUnknown`).
 */
import type { Budget } from '../core/accounts.ts'
import type { Nano } from '../core/money.ts'
import type { World } from '../core/world.ts'
import type { Accounts } from '../gateway/accounts/accounts.ts'
import type { BudgetCell, CounterUse, UnrestoredCounters } from '../gateway/accounts/budget-counters.ts'
import { periodAt } from '../policy/accounts/period.ts'
import type { LedgerProblem } from '../usage/bookkeeper/ledger-problems.ts'
import type { UsageLedger } from '../usage/bookkeeper/usage-ledger.ts'
import { LedgerRetry } from './ledger-retry.ts'

export type RestoredBudgetsOptions = {
  readonly accounts: Pick<Accounts, 'unrestored' | 'usesOf' | 'restore'>
  readonly ledger: Pick<UsageLedger, 'spentSince'>
  /** Whether usage is recorded. */
  readonly isRecorded: () => boolean
  /** ms since 1970. */
  readonly date: () => number
  readonly later: World['later']
  /** The ledger cannot be read: earlier usage of these budgets is not known until it can. */
  readonly onProblem: (reason: string, budgets: readonly Budget[]) => void
  /** After a problem: earlier usage counts. */
  readonly onRestored: () => void
}

/** For the log. */
export const EARLIER_USAGE_COUNTS = 'Earlier usage counts in budgets again.'

/** The reason for `/health` while the ledger is read. */
export const READING = 'earlier usage is being read'

/** What the current periods of budgets have spent (`spentSince`). `now`: ms since 1970. */
export const spentOf = (
  ledger: RestoredBudgetsOptions['ledger'],
  budgets: readonly Budget[],
  now: number,
): ReturnType<UsageLedger['spentSince']> => {
  const periods = budgets.map((budget) => ({ budget, start: periodAt(budget, now).start }))
  return ledger.spentSince(
    Math.min(...periods.map(({ start }) => start)),
    periods.filter(({ budget }) => budget.countFrom === 'period'),
  )
}

export class RestoredBudgets {
  readonly #options: RestoredBudgetsOptions
  readonly #retry: LedgerRetry
  /** ms since 1970. */
  readonly #started: number
  #isRecorded = false
  /** What counters had used when usage began to be recorded: the ledger does not contain it. */
  #unrecorded: ReadonlyMap<BudgetCell, Nano> = new Map()
  /** ms since 1970 from which budgets have counters without earlier usage; null: none. */
  #unknownSince: number | null = null
  #last: Promise<void> = Promise.resolve()

  constructor(options: RestoredBudgetsOptions) {
    this.#options = options
    const { later, onProblem } = options
    this.#retry = new LedgerRetry({ later, onProblem, again: () => void this.#restore() })
    this.#started = options.date()
  }

  /** Why earlier usage does not count, or null. */
  get problem(): string | null {
    return this.#retry.problem
  }

  /** The same, with the time since when, also while earlier usage is read. */
  unknown(): LedgerProblem | null {
    return this.#unknownSince === null ? null : { reason: this.#retry.problem ?? READING, since: this.#unknownSince }
  }

  /**
   * The budgets may have changed, or usage is recorded now. Resolves when those that have appeared are restored. After a
   * problem it resolves at once, and they are restored with the others.
   */
  changed(): Promise<void> {
    this.#followRecording()
    this.#restoreNew()
    if (this.#isRecorded && this.#retry.problem === null) this.#last = this.#last.then(() => this.#restore())
    return this.#retry.problem === null ? this.#last : Promise.resolve()
  }

  /** Earlier usage of new budgets is being read: they are known when it resolves. Null: nothing is read. */
  reading(): Promise<void> | null {
    return this.#isRecorded && this.#retry.problem === null && this.#options.accounts.unrestored().length > 0
      ? this.changed()
      : null
  }

  #followRecording(): void {
    const { accounts, isRecorded } = this.#options
    const wasRecorded = this.#isRecorded
    this.#isRecorded = isRecorded()
    if (wasRecorded || !this.#isRecorded) return
    const uses = accounts.unrestored().flatMap((counters) => accounts.usesOf(counters))
    this.#unrecorded = new Map(uses.map(({ cell, used }) => [cell, used]))
  }

  /**
   * Counters that have all that this process has spent of a budget lack what was spent earlier. Others lack what other
   * counters have spent too: what they spend themselves while the ledger is read may count twice, until the process ends.
   */
  async #restore(): Promise<void> {
    const { accounts, ledger, date } = this.#options
    this.#restoreNew()
    const earlier = accounts
      .unrestored()
      .map((counters) => ({ counters, recorded: counters.isComplete ? [] : this.#recordedUses(counters) }))
    if (earlier.length === 0) return this.#onRead()
    this.#unknownSince ??= date()
    const budgets = earlier.map(({ counters }) => counters.budget)
    const sums = await spentOf(ledger, budgets, date())
    if (sums === null) return
    if (typeof sums === 'string') return this.#retry.failed(sums, budgets)
    const earlierSums = sums.map((sum) => ({ ...sum, spent: sum.earlier }))
    for (const { counters, recorded } of earlier)
      accounts.restore(counters, counters.isComplete ? earlierSums : sums, recorded)
    this.#onRead()
  }

  /** This process has counted all that counts of a budget that is newer than itself. */
  #restoreNew(): void {
    const { accounts } = this.#options
    for (const counters of accounts.unrestored()) {
      const { budget, isChanged } = counters
      if (!isChanged && budget.countFrom === 'creation' && budget.createdAt >= this.#started)
        accounts.restore(counters, [], [])
    }
  }

  #recordedUses(counters: UnrestoredCounters): readonly CounterUse[] {
    const uses = this.#options.accounts.usesOf(counters)
    return uses.map(({ cell, used }) => ({ cell, used: used - (this.#unrecorded.get(cell) ?? 0) }))
  }

  #onRead(): void {
    this.#unknownSince = null
    if (!this.#retry.solved()) return
    this.#options.onRestored()
    // Budgets may have appeared while the ledger was read.
    void this.changed()
  }
}
