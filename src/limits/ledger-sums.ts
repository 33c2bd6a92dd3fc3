/**
 * What the ledger says was spent of budgets: shared counters begin from it, at the start and when their store was emptied.
 * It is read again only if the store may have lost something since.
 */
import type { Budget } from '../core/accounts.ts'
import { budgetCharge } from '../core/journal.ts'
import { within } from '../core/within.ts'
import type { RecordedPart } from '../policy/accounts/lease.ts'
import type { LedgerProblem } from '../usage/bookkeeper/ledger-problems.ts'
import type { LedgerSum } from '../usage/bookkeeper/ledger-store.ts'
import { LedgerRetry } from './ledger-retry.ts'
import { READING, type RestoredBudgetsOptions, spentOf } from './restored-budgets.ts'

export type LedgerSumsOptions = Omit<RestoredBudgetsOptions, 'accounts'> & {
  readonly budgets: () => readonly Budget[]
}

/** ms for which sums are good enough for reports. */
const RECENT = 10_000
/** ms that such a read is waited for: the sums of before are used if the ledger does not answer. */
const READ_WAIT = 1_000

export class LedgerSums {
  readonly #options: LedgerSumsOptions
  readonly #retry: LedgerRetry
  #sums: ReadonlyMap<string, LedgerSum> | null = null
  /** The store was not emptied since the sums were read; empty: not known. */
  #epoch = ''
  /** Budgets whose earlier usage is read. */
  #read: ReadonlySet<string> = new Set()
  /** ms since 1970. */
  #readAt = 0
  #reading: Promise<void> | null = null
  #next: Promise<void> | null = null
  #unknownSince: number | null = null

  constructor(options: LedgerSumsOptions) {
    this.#options = options
    const { later, onProblem } = options
    this.#retry = new LedgerRetry({ later, onProblem, again: () => void this.#again() })
  }

  /** Whether usage is recorded. */
  get isRecorded(): boolean {
    return this.#options.isRecorded()
  }

  /** Why earlier usage is not known, or null. */
  get problem(): string | null {
    return this.#retry.problem
  }

  /** The same, with the time since when, also while it is read. */
  unknown(): LedgerProblem | null {
    return this.#unknownSince === null ? null : { reason: this.#retry.problem ?? READING, since: this.#unknownSince }
  }

  /** The budgets may have changed. Resolves when their earlier usage is known, or cannot be. */
  async changed(): Promise<void> {
    if (this.#lacks()) await this.#again()
  }

  /**
   * Resolves when the sums contain all that this gateway had recorded before the call (`isFresh`), or all that an emptied store
   * has lost. Returns why they are not known, or null.
   */
  async known(epoch: string, isFresh: boolean): Promise<string | null> {
    if (!this.#options.isRecorded()) return null
    if (!isFresh && this.#sums && this.#epoch === epoch && !this.#lacks()) return null
    await this.#again()
    if (this.#retry.problem === null) this.#epoch = epoch
    return this.#retry.problem
  }

  /** Reads again what other gateways may have spent since, but not often, and does not wait long for it. */
  async recent(): Promise<void> {
    const { isRecorded, date, later } = this.#options
    const isRecent = this.#sums !== null && date() - this.#readAt <= RECENT
    if (!isRecorded() || isRecent || this.#retry.problem !== null) return
    await within(later, READ_WAIT, this.#again())
  }

  /** What was spent of a counter; null: not known. */
  spent(charge: string): number | null {
    if (!this.#options.isRecorded()) return 0
    return this.#sums ? (this.#sums.get(charge)?.spent ?? 0) : null
  }

  /** The parts of processes in it. */
  recorded(charge: string): readonly RecordedPart[] {
    return this.#sums?.get(charge)?.recorded ?? []
  }

  /** All counters of which something was spent. */
  charges(): readonly string[] {
    return [...(this.#sums?.keys() ?? [])]
  }

  #lacks(): boolean {
    const { budgets, isRecorded, date } = this.#options
    const isLacking = isRecorded() && budgets().some((budget) => !this.#read.has(readAs(budget)))
    this.#unknownSince = isLacking ? (this.#unknownSince ?? date()) : null
    return isLacking
  }

  /** A read that begins after the call. Calls while one runs share the next. */
  #again(): Promise<void> {
    if (!this.#reading) {
      this.#reading = this.#readNow().finally(() => {
        this.#reading = null
      })
      return this.#reading
    }
    this.#next ??= this.#reading.then(() => {
      this.#next = null
      return this.#again()
    })
    return this.#next
  }

  async #readNow(): Promise<void> {
    const { budgets, ledger, date, isRecorded } = this.#options
    const all = budgets()
    if (!isRecorded() || all.length === 0) {
      this.#sums ??= new Map()
      return
    }
    const sums = await spentOf(ledger, all, date())
    if (sums === null) return
    if (typeof sums === 'string') return this.#retry.failed(sums, all)
    this.#readAt = date()
    this.#sums = new Map(sums.map((sum) => [budgetCharge(sum.counter, sum.period_start), sum]))
    this.#read = new Set(all.map(readAs))
    this.#lacks()
    if (this.#retry.solved()) this.#options.onRestored()
  }
}

/** Budgets with the same text count the same usage. */
const readAs = ({ id, period, timezone, startDay, per, countFrom }: Budget): string =>
  JSON.stringify([id, period, timezone, startDay, per, countFrom])
