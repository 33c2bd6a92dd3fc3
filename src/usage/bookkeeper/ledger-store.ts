/** A database that contains the ledger. Functions throw the error of the database or of the file system. */

import type { Budget } from '../../core/accounts.ts'
import type { CounterSpend } from '../../core/journal.ts'
import type { RecordedPart } from '../../policy/accounts/lease.ts'
import type { AdjustmentRow, JournalRow, OpenCallRow } from '../columns/usage-schema.ts'
import type { RecordValues } from '../journal/journal-record.ts'
import type { JournalProcess } from '../journal/segment-files.ts'
import type { LedgerBatch } from './fold.ts'

export type LedgerStore = {
  /** The database must be opened again: its path leads to another file, or the connection is lost. */
  isStale(): boolean
  /**
   * What a bookkeeper of this gateway continues from. It waits for the transaction of an earlier connection, whose commit may
   * still be on its way. `earlier`: the positions of a gateway that has not stored anything in a shared database.
   */
  begin(earlier: () => readonly JournalRow[]): Promise<StoredState>
  /** A complete request of the next batch, in the order of `REQUEST_COLUMNS`. After an error the store must be closed. */
  addRow(row: RecordValues): void
  /** Stores a batch, the rows that were added, and the positions that it was read up to, in one transaction. */
  store(batch: LedgerBatch, positions: readonly JournalRow[]): Promise<void>
  /** What each budget counter has spent in periods that began at `since` or later, after `counted` are counted at `at`. */
  sums(since: number, counted: readonly CountedPeriodOf[], at: number): Promise<readonly LedgerSum[]>
  /**
   * Stores an adjustment and adds it to what its counter has spent; one with a known ID is not stored again. The amount
   * `reset` is minus what the counter has spent in the period.
   */
  adjust(adjustment: Adjustment): Promise<Adjusted>
  /** Deletes a batch of old rows and returns free space to the file system. Returns whether more may be left. */
  sweep(limits: UsageLimits, now: number): Promise<boolean>
  /**
   * Completes the requests of a gateway that has stored nothing for a day. Returns whether there was one.
   */
  closeGone(complete: CompleteGone): Promise<boolean>
  /** What a process has spent of budget counters. */
  spentBy(process: string): Promise<readonly CounterSpend[]>
  /** Waits until the disk has what was stored, so that stored segments can be deleted. */
  checkpoint(): Promise<void>
  removePosition(segment: string): Promise<void>
  close(): Promise<void>
}

/** Adds the requests of a gateway that is gone to `rows`, and returns what they add to sums. */
export type CompleteGone = (
  gone: { readonly node: string; readonly open: readonly OpenCallRow[] },
  rows: RecordValues[],
) => LedgerBatch

/** A budget, and the start of the period that is counted (ms since 1970). */
export type CountedPeriodOf = { readonly budget: Budget; readonly start: number }

/** Retention. `keepDays`: rows of requests; `keepHours`: days after which the hours of totals are summed up. */
export type UsageLimits = { readonly keepDays: number; readonly keepHours: number; readonly maxMegabytes: number }

/** An adjustment to be stored. `reset`: minus what the counter has spent. `process`: whose counters are changed by it. */
export type Adjustment = Omit<AdjustmentRow, 'amount'> & {
  readonly amount: number | 'reset'
  readonly process: string
}

/** A stored adjustment: its amount in nano-dollars. `isNew`: false if its ID was stored before. */
export type Adjusted = { readonly amount: number; readonly isNew: boolean }

/**
 * What a budget counter has spent in a period, at all gateways. `earlier`: the part that no counter of the running processes
 * of this gateway contains.
 */
export type LedgerSum = {
  readonly counter: string
  readonly period_start: number
  readonly spent: number
  readonly earlier: number
  /** The parts of processes, of which some may have ended, by their names in the database (`StoredNames`). */
  readonly recorded: readonly RecordedPart[]
}

/** What rows of this process are marked with. */
export type LedgerWriter = { readonly node: string; readonly process: JournalProcess }

/** What a bookkeeper continues from. */
export type StoredState = { readonly positions: readonly JournalRow[]; readonly open: readonly OpenCallRow[] }
