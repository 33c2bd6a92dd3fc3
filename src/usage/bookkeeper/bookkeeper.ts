/**
 * Stores the journals of a gateway's processes in a `LedgerStore`. Rows, sums and the position in the journal are one
 * transaction, so each record is counted exactly once. After any error the database is opened again and the state is read
 * from it. One bookkeeper works at a time: it holds a lock, which the operating system releases when its process ends.
 */

import { chmodSync, existsSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { CounterSpend, SpanNoted } from '../../core/journal.ts'
import { makeFolder } from '../../storage/files/folder.ts'
import { hasTable } from '../../storage/sql/migrate.ts'
import type { SharedDatabase } from '../../storage/sql/shared-database.ts'
import { isBusy, problemOf } from '../../storage/sql/sqlite/sqlite-problem.ts'
import type { JournalRow, OpenCallRow } from '../columns/usage-schema.ts'
import { USAGE_FILE } from '../journal/file.ts'
import type { RecordValues } from '../journal/journal-record.ts'
import type { MalformedSegment } from '../journal/malformed-segment.ts'
import { nodeName } from '../journal/node-name.ts'
import { endedProcesses, type JournalProcess, type JournalSegment } from '../journal/segment-files.ts'
import { type LedgerBatch, LedgerFold } from './fold.ts'
import { JournalFolder, type SegmentReads } from './journal-folder.ts'
import type {
  Adjusted,
  Adjustment,
  CompleteGone,
  CountedPeriodOf,
  LedgerStore,
  LedgerSum,
  LedgerWriter,
  UsageLimits,
} from './ledger-store.ts'
import { type BookkeeperProgress, NO_PROGRESS } from './progress.ts'
import { SqliteLedger } from './sqlite-ledger.ts'
import { daysIn } from './zone-days.ts'

export type BookkeeperOptions = {
  /** The data folder, with `usage.db`, and the folder of the journal. */
  readonly folder: string
  readonly journal: string
  /** Null: usage is stored in `usage.db`. */
  readonly database: SharedDatabase | null
  /** The name of this gateway; null: the one that is kept in the data folder. */
  readonly node: string | null
  /** IANA zone of daily sums. */
  readonly timezone: string
  /** Whether journals are flushed to the disk each second. */
  readonly syncs: boolean
  readonly process: JournalProcess
}

/** Receives what is stored. Absent or null: nothing does. */
type WithListener = { readonly listener?: StoredListener | null }

/** What changed, for the log. `reason` contains no path. */
export type BookkeeperEvent =
  | { readonly event: 'degraded'; readonly reason: string }
  /** The journal is stored: after the start, and after a problem. */
  | { readonly event: 'ok' }
  /** Malformed lines were skipped; the segment is kept as `<segment>.broken`. */
  | ({ readonly event: 'malformed'; readonly offset: number } & MalformedSegment)

/** Receives what is stored, once. Its functions do not throw. */
export type StoredListener = {
  /** What spans of a request state that is not complete yet; twice if it is read again after a problem. */
  readonly note: (noted: SpanNoted) => void
  /** Complete requests, in the order of `REQUEST_COLUMNS`. */
  readonly stored: (rows: readonly RecordValues[]) => void
}

const LOCK_FILE = 'bookkeeper.lock'

type Opened = {
  readonly store: LedgerStore
  readonly fold: LedgerFold
  readonly positions: Map<string, JournalRow>
  /** Complete requests of the next transaction, for the listener. */
  readonly rows: RecordValues[]
}

export class Bookkeeper {
  readonly #options: BookkeeperOptions & WithListener
  readonly #report: (event: BookkeeperEvent) => void
  readonly #dayOf: (at: number) => string
  readonly #journal: JournalFolder
  #lock: DatabaseSync | null = null
  #opened: Opened | null = null
  /** Queries may come while the database is opened, which takes several turns of the event loop. */
  #opening: Promise<Opened> | null = null
  #problem: string | null = null
  #isWorking = false
  #progress: BookkeeperProgress & { readonly commits: number[] } = { ...NO_PROGRESS, commits: [] }
  /** Positions up to which segments are stored, also while the database is closed. */
  #positions: ReadonlyMap<string, JournalRow> = new Map()
  /** When everything in the journal was stored last, in ms since 1970. */
  #storedAt = Date.now()

  constructor(options: BookkeeperOptions & WithListener, report: (event: BookkeeperEvent) => void) {
    this.#options = options
    this.#report = report
    this.#dayOf = daysIn(options.timezone)
    this.#journal = new JournalFolder(options.journal, options.syncs)
  }

  /** Why the journal cannot be stored, or null. */
  get problem(): string | null {
    return this.#problem
  }

  /** The current progress, with the transactions since the last call. Does not throw. */
  takeProgress(): BookkeeperProgress {
    const { commits } = this.#progress
    this.#progress = { ...this.#progress, commits: [] }
    return { ...this.#progress, commits, journalBytes: this.#journal.size() ?? this.#progress.journalBytes }
  }

  /** Stores the next batch. Returns whether more is left. Does not throw. */
  async step(): Promise<boolean> {
    try {
      const opened = await this.#open()
      const hasMore = await this.#storeNext(opened)
      this.#journal.sync(opened.positions)
      if (!this.#isWorking) this.#report({ event: 'ok' })
      this.#isWorking = true
      this.#problem = null
      return hasMore
    } catch (error) {
      await this.#fail(error)
      return false
    }
  }

  /** Deletes a batch of old rows. Returns whether more may be left. Does not throw. */
  async sweep(limits: UsageLimits, now: number): Promise<boolean> {
    const { store } = this.#opened ?? {}
    if (!store) return false
    try {
      const isClosing = await store.closeGone((gone, rows) => this.#completed(gone, rows))
      return (await store.sweep(limits, now)) || isClosing
    } catch (error) {
      await this.#fail(error)
      return false
    }
  }

  /**
   * What budget counters have spent in periods that began at `since` or later, after the periods of `counted` are counted.
   * Throws if the database cannot be read or written.
   */
  async sums(since: number, counted: readonly CountedPeriodOf[]): Promise<readonly LedgerSum[]> {
    return (await this.#open()).store.sums(since, counted, Date.now())
  }

  /** Stores an adjustment. Throws if the database cannot be written. */
  async adjust(adjustment: Adjustment): Promise<Adjusted> {
    return (await this.#open()).store.adjust(adjustment)
  }

  /** What an ended process has spent of budget counters. Throws if the database cannot be read. */
  async spentBy(process: string): Promise<readonly CounterSpend[]> {
    return (await this.#open()).store.spentBy(process)
  }

  async close(): Promise<void> {
    await this.#closeStore()
    this.#lock?.close()
    this.#lock = null
  }

  // ── The database ───────────────────────────────────────────────────────────────────────────────────────────────

  async #open(): Promise<Opened> {
    if (this.#opened?.store.isStale()) await this.#closeStore()
    if (this.#opened) return this.#opened
    this.#opening ??= this.#openStore().finally(() => {
      this.#opening = null
    })
    return this.#opening
  }

  async #openStore(): Promise<Opened> {
    const { folder, database: shared, process } = this.#options
    this.#lock ??= lockFolder(folder)
    const node = this.#options.node ?? nodeName(folder)
    const store = await openLedger(folder, shared, { node, process })
    try {
      const { positions, open } = await store.begin(() => positionsInFile(folder))
      const found = new Map(positions.map((row) => [row.segment, row]))
      const rows: RecordValues[] = []
      const fold = this.#foldOf(node, open, (row) => {
        store.addRow(row)
        if (this.#options.listener) rows.push(row)
      })
      this.#opened = { store, fold, positions: found, rows }
      this.#positions = found
      return this.#opened
    } catch (error) {
      await store.close()
      throw error
    }
  }

  #foldOf(node: string, open: readonly OpenCallRow[], addRow: (row: RecordValues) => void): LedgerFold {
    const { listener } = this.#options
    const addSpan = listener ? { addSpan: listener.note } : {}
    const fold = new LedgerFold({ node, dayOf: this.#dayOf, addRow, ...addSpan })
    for (const call of open) fold.restore(call)
    return fold
  }

  /** Completes the requests of a gateway that is gone, at the reservations of attempts whose end is unknown. */
  #completed({ node, open }: Parameters<CompleteGone>[0], rows: RecordValues[]): LedgerBatch {
    const fold = this.#foldOf(node, open, (row) => rows.push(row))
    for (const process of fold.processes()) fold.endProcess(process)
    return fold.take()
  }

  async #fail(error: unknown): Promise<void> {
    const isNew = this.#problem === null
    const now = Date.now()
    // The age of the oldest record is not known: it was written after the last time that everything was stored.
    if (!this.#journal.hasUnstored(this.#positions)) this.#storedAt = now
    this.#problem = problemOf(error)
    this.#isWorking = false
    this.#progress = { ...this.#progress, lagMs: Math.max(0, now - this.#storedAt) }
    if (isNew) this.#report({ event: 'degraded', reason: this.#problem })
    await this.#closeStore()
  }

  async #closeStore(): Promise<void> {
    const { store } = this.#opened ?? {}
    this.#opened = null
    try {
      await store?.close()
    } catch {
      // Already broken, which is why it is closed.
    }
  }

  // ── Batches ────────────────────────────────────────────────────────────────────────────────────────────────────

  async #storeNext({ store, fold, positions, rows }: Opened): Promise<boolean> {
    // Before the segments are read: what an ended process has written is then read completely.
    const segments = this.#journal.segments()
    const processes = new Set([...fold.processes(), ...segments.map(({ process }) => process)])
    const ended = endedProcesses(processes, this.#options.process)
    const orphans = fold.orphans
    const reads = this.#journal.read(segments, positions, (line, process) => fold.add(line, process))
    if (!reads.hasMore) for (const process of ended) fold.endProcess(process)
    const batch = fold.take()
    if (reads.changed.length > 0 || batch.counts.requests > 0 || batch.ended.length > 0) {
      const since = performance.now()
      await store.store(batch, reads.changed)
      this.#progress.commits.push(performance.now() - since)
      for (const row of reads.changed) positions.set(row.segment, row)
    }
    if (rows.length > 0) this.#options.listener?.stored(rows.splice(0))
    for (const one of reads.malformed) this.#report({ event: 'malformed', ...one })
    this.#noteStored(reads, batch, fold.orphans - orphans)
    if (!reads.hasMore) await this.#removeStored({ store, positions }, segments, ended)
    return reads.hasMore
  }

  #noteStored(reads: SegmentReads, batch: LedgerBatch, orphans: number): void {
    const now = Date.now()
    if (!reads.hasMore) this.#storedAt = now
    this.#progress = {
      ...this.#progress,
      records: this.#progress.records + reads.records,
      orphans: this.#progress.orphans + orphans,
      requests: this.#progress.requests + batch.counts.requests,
      attempts: this.#progress.attempts + batch.counts.attempts,
      lagMs: reads.hasMore ? Math.max(0, now - reads.lastAt) : 0,
    }
  }

  /** Removes segments that are stored and not written any more: their process has ended, or writes the next one. */
  async #removeStored(
    { store, positions }: Pick<Opened, 'store' | 'positions'>,
    segments: readonly JournalSegment[],
    ended: ReadonlySet<string>,
  ): Promise<void> {
    const done = segments.filter(({ process }, index) => ended.has(process) || segments[index + 1]?.process === process)
    // A segment may be deleted only when the disk has what was stored of it.
    if (done.length > 0) await store.checkpoint()
    for (const { file } of done) this.#journal.remove(file, (positions.get(file)?.malformed ?? 0) > 0)
    const names = new Set(segments.map(({ file }) => file))
    const gone = [...positions.keys()].filter((file) => !names.has(file) || done.some((one) => one.file === file))
    for (const file of gone) {
      await store.removePosition(file)
      positions.delete(file)
    }
  }
}

/** Two processes share the folder while one replaces the other. */
const lockFolder = (folder: string): DatabaseSync => {
  makeFolder(folder)
  const path = join(folder, LOCK_FILE)
  const lock = new DatabaseSync(path)
  try {
    chmodSync(path, 0o600)
    lock.exec('PRAGMA busy_timeout = 0; BEGIN IMMEDIATE')
    return lock
  } catch (error) {
    lock.close()
    throw isBusy(error) ? new Error('another process stores the usage of this folder') : error
  }
}

/** Loads the client of Postgres only where it is used. */
const openLedger = async (
  folder: string,
  shared: SharedDatabase | null,
  writer: LedgerWriter,
): Promise<LedgerStore> => {
  if (!shared) return SqliteLedger.open(folder, writer)
  const { PostgresLedger } = await import('./postgres-ledger.ts')
  return PostgresLedger.open(shared, writer)
}

/**
 * Positions up to which `usage.db` contains the segments of a journal. Records that are stored there are not stored again in
 * a shared database.
 */
const positionsInFile = (folder: string): readonly JournalRow[] => {
  const path = join(folder, USAGE_FILE)
  if (!existsSync(path)) return []
  const database = new DatabaseSync(path, { readOnly: true })
  try {
    if (!hasTable(database, 'journal')) return []
    const rows = database.prepare('SELECT segment, position, malformed FROM journal').all()
    // Only the ledger writes the table.
    return rows as JournalRow[]
  } finally {
    database.close()
  }
}
