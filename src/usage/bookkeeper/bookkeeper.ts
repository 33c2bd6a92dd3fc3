/**
 * Stores the journals of a gateway's processes in `usage.db` or in Postgres. Rows, sums and the position in the journal are
 * one transaction, so each record is counted exactly once. After any error the database is opened again and the state is read
 * from it. One bookkeeper works at a time: it holds a lock, which the operating system releases when its process ends.
 */

import { chmodSync, closeSync, existsSync, fdatasyncSync, openSync, renameSync, statSync, unlinkSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { CounterSpend } from '../../core/journal.ts'
import { makeFolder } from '../../storage/files/folder.ts'
import { hasTable } from '../../storage/sql/migrate.ts'
import type { SharedDatabase } from '../../storage/sql/shared-database.ts'
import { isBusy, problemOf } from '../../storage/sql/sqlite/sqlite-problem.ts'
import type { JournalRow } from '../columns/usage-schema.ts'
import { USAGE_FILE } from '../journal/file.ts'
import { readJournal } from '../journal/journal-reader.ts'
import type { MalformedSegment } from '../journal/malformed-segment.ts'
import { callOffset, nodeName } from '../journal/node-name.ts'
import {
  endedProcesses,
  FIRST_SEGMENT,
  isWorker,
  type JournalProcess,
  type JournalSegment,
  journalSize,
  listSegments,
} from '../journal/segment-files.ts'
import { type LedgerBatch, LedgerFold } from './fold.ts'
import type { CountedPeriodOf } from './period-count.ts'
import { type BookkeeperProgress, NO_PROGRESS } from './progress.ts'
import {
  type Adjusted,
  type Adjustment,
  type LedgerSum,
  type UnfinishedAttempts,
  UsageDatabase,
  type UsageLimits,
} from './usage-database.ts'
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

/** What changed, for the log. `reason` contains no path. */
export type BookkeeperEvent =
  | { readonly event: 'degraded'; readonly reason: string }
  /** The journal is stored: after the start, and after a problem. */
  | { readonly event: 'ok' }
  /** Malformed lines were skipped; the segment is kept as `<segment>.broken`. */
  | ({ readonly event: 'malformed'; readonly offset: number } & MalformedSegment)

/** Records per transaction. */
const BATCH = 500
/** ms between flushes of journals to the disk. */
const SYNC = 1_000
const LOCK_FILE = 'bookkeeper.lock'

type Opened = {
  readonly database: UsageDatabase
  readonly fold: LedgerFold
  readonly positions: Map<string, JournalRow>
}

export class Bookkeeper {
  readonly #options: BookkeeperOptions
  readonly #report: (event: BookkeeperEvent) => void
  readonly #dayOf: (at: number) => string
  #lock: DatabaseSync | null = null
  #opened: Opened | null = null
  /** Queries may come while the database is opened, which takes several turns of the event loop. */
  #opening: Promise<Opened> | null = null
  #problem: string | null = null
  #isWorking = false
  /** Positions up to which segments were flushed to the disk. */
  readonly #synced = new Map<string, number>()
  #syncAt = 0
  #progress = NO_PROGRESS
  /** Positions up to which segments are stored, also while the database is closed. */
  #positions: ReadonlyMap<string, JournalRow> = new Map()
  /** When everything in the journal was stored last, in ms since 1970. */
  #storedAt = Date.now()

  constructor(options: BookkeeperOptions, report: (event: BookkeeperEvent) => void) {
    this.#options = options
    this.#report = report
    this.#dayOf = daysIn(options.timezone)
  }

  /** Why the journal cannot be stored, or null. */
  get problem(): string | null {
    return this.#problem
  }

  /** The current progress, with the transactions since the last call. Does not throw. */
  takeProgress(): BookkeeperProgress {
    const { commits } = this.#progress
    this.#progress = { ...this.#progress, commits: [] }
    try {
      return { ...this.#progress, commits, journalBytes: journalSize(this.#options.journal) }
    } catch {
      // The folder cannot be read, which is the problem.
      return { ...this.#progress, commits }
    }
  }

  /** Stores the next batch. Returns whether more is left. Does not throw. */
  async step(): Promise<boolean> {
    try {
      const hasMore = this.#store(await this.#open())
      this.#syncJournals()
      if (!this.#isWorking) this.#report({ event: 'ok' })
      this.#isWorking = true
      this.#problem = null
      return hasMore
    } catch (error) {
      this.#fail(error)
      return false
    }
  }

  /** Deletes a batch of old rows. Returns whether more may be left. Does not throw. */
  sweep(limits: UsageLimits, now: number): boolean {
    const { database } = this.#opened ?? {}
    if (!database) return false
    try {
      const isClosing = database.closeGone((node, unfinished) => this.#completed(node, unfinished))
      return database.sweep(limits, now) || isClosing
    } catch (error) {
      this.#fail(error)
      return false
    }
  }

  /**
   * What budget counters have spent in periods that began at `since` or later, after the periods of `counted` are counted.
   * Throws if the database cannot be read or written.
   */
  async sums(since: number, counted: readonly CountedPeriodOf[]): Promise<readonly LedgerSum[]> {
    return (await this.#open()).database.sums(since, counted, Date.now())
  }

  /** Stores an adjustment. Throws if the database cannot be written. */
  async adjust(adjustment: Adjustment): Promise<Adjusted> {
    return (await this.#open()).database.adjust(adjustment)
  }

  /** What an ended process has spent of budget counters; null: unknown, because the database was opened meanwhile. */
  spentBy(process: string): readonly CounterSpend[] | null {
    return this.#opened?.fold.spentBy(process) ?? null
  }

  close(): void {
    this.#closeDatabase()
    this.#lock?.close()
    this.#lock = null
  }

  // ── The database ───────────────────────────────────────────────────────────────────────────────────────────────

  async #open(): Promise<Opened> {
    if (this.#opened?.database.isStale()) this.#closeDatabase()
    if (this.#opened) return this.#opened
    this.#opening ??= this.#openDatabase().finally(() => {
      this.#opening = null
    })
    return this.#opening
  }

  async #openDatabase(): Promise<Opened> {
    this.#takeLock()
    const { folder, database: shared, process } = this.#options
    const node = this.#options.node ?? nodeName(folder)
    const database = await UsageDatabase.open(folder, shared, { node, process })
    try {
      const { positions, unfinished } = database.begin(() => positionsInFile(folder))
      const found = new Map(positions.map((row) => [row.segment, row]))
      this.#opened = { database, fold: this.#foldOf(node, unfinished), positions: found }
      this.#positions = found
      return this.#opened
    } catch (error) {
      database.close()
      throw error
    }
  }

  #foldOf(node: string, unfinished: UnfinishedAttempts): LedgerFold {
    const isShared = this.#options.database !== null
    const fold = new LedgerFold({ node, dayOf: this.#dayOf, callOffset: isShared ? callOffset(node) : 0 })
    for (const { row, opened } of unfinished) fold.restore(row, opened)
    return fold
  }

  /** Completes the requests of a gateway that is gone, at the reservations of attempts whose end is unknown. */
  #completed(node: string, unfinished: UnfinishedAttempts): LedgerBatch {
    const fold = this.#foldOf(node, unfinished)
    for (const process of fold.processes()) fold.endProcess(process)
    return fold.take()
  }

  /** Two processes share the folder while one replaces the other. */
  #takeLock(): void {
    if (this.#lock) return
    makeFolder(this.#options.folder)
    const path = join(this.#options.folder, LOCK_FILE)
    const lock = new DatabaseSync(path)
    try {
      chmodSync(path, 0o600)
      lock.exec('PRAGMA busy_timeout = 0; BEGIN IMMEDIATE')
      this.#lock = lock
    } catch (error) {
      lock.close()
      throw isBusy(error) ? new Error('another process stores the usage of this folder') : error
    }
  }

  #fail(error: unknown): void {
    this.#closeDatabase()
    const isNew = this.#problem === null
    this.#problem = problemOf(error)
    this.#isWorking = false
    this.#progress = { ...this.#progress, lagMs: this.#lagOfFailed() }
    if (isNew) this.#report({ event: 'degraded', reason: this.#problem })
  }

  /** The age of the oldest record is not known: it was written after the last time that everything was stored. */
  #lagOfFailed(): number {
    const now = Date.now()
    if (!this.#hasUnstored()) this.#storedAt = now
    return Math.max(0, now - this.#storedAt)
  }

  #hasUnstored(): boolean {
    const { journal } = this.#options
    try {
      return listSegments(journal).some(({ file }) => {
        const size = statSync(join(journal, file), { throwIfNoEntry: false })?.size ?? 0
        return size > (this.#positions.get(file)?.position ?? 0)
      })
    } catch {
      return true
    }
  }

  #closeDatabase(): void {
    try {
      this.#opened?.database.close()
    } catch {
      // Already broken, which is why it is closed.
    }
    this.#opened = null
  }

  // ── Batches ────────────────────────────────────────────────────────────────────────────────────────────────────

  #store({ database, fold, positions }: Opened): boolean {
    // Before the segments are read: what an ended process has written is then read completely.
    const segments = listSegments(this.#options.journal)
    const processes = new Set([...fold.processes(), ...segments.map(({ process }) => process)])
    const ended = endedProcesses(processes, this.#options.process)
    const orphans = fold.orphans
    const reads = this.#read(segments, { fold, positions })
    if (!reads.hasMore) for (const process of ended) fold.endProcess(process)
    const batch = fold.take()
    const added = [...batch.attempts].filter(({ stored }) => !stored).length
    if (reads.changed.length > 0 || batch.attempts.size > 0 || batch.ended.length > 0) {
      const since = performance.now()
      database.store(batch, reads.changed)
      this.#progress = { ...this.#progress, commits: [...this.#progress.commits, performance.now() - since] }
      for (const row of reads.changed) positions.set(row.segment, row)
    }
    for (const event of reads.malformed) this.#report(event)
    const now = Date.now()
    this.#progress = {
      ...this.#progress,
      records: this.#progress.records + reads.records,
      orphans: this.#progress.orphans + fold.orphans - orphans,
      requests: this.#progress.requests + batch.requests.length,
      attempts: this.#progress.attempts + added,
      lagMs: reads.hasMore ? Math.max(0, now - reads.lastAt) : 0,
    }
    if (!reads.hasMore) this.#storedAt = now
    if (!reads.hasMore) this.#removeStored(segments, ended)
    return reads.hasMore
  }

  #read(segments: readonly JournalSegment[], { fold, positions }: Pick<Opened, 'fold' | 'positions'>): SegmentReads {
    const changed: JournalRow[] = []
    const malformed: BookkeeperEvent[] = []
    let left = BATCH
    let lastAt = 0
    const result = (hasMore: boolean) => ({ changed, malformed, hasMore, records: BATCH - left, lastAt })
    for (const { file, process, number } of segments) {
      // Workers share budgets, so what a worker has spent must be known when it ends.
      if (number === FIRST_SEGMENT && !positions.has(file) && isWorker(process)) fold.countSpending(process)
      const before = positions.get(file) ?? { segment: file, position: 0, malformed: 0 }
      const read = readJournal(join(this.#options.journal, file), before.position, left)
      for (const record of read.records) fold.add(record, process)
      left -= read.records.length
      lastAt = read.records.at(-1)?.at ?? lastAt
      const [offset] = read.malformed
      const lines = read.malformed.length
      if (offset !== undefined) malformed.push({ event: 'malformed', segment: file, lines, offset })
      if (read.position > before.position)
        changed.push({ segment: file, position: read.position, malformed: before.malformed + lines })
      if (read.more) return result(true)
    }
    return result(false)
  }

  /** Removes segments that are stored and not written any more: their process has ended, or writes the next one. */
  #removeStored(segments: readonly JournalSegment[], ended: ReadonlySet<string>): void {
    const done = segments.filter(({ process }, index) => ended.has(process) || segments[index + 1]?.process === process)
    const { database, positions } = this.#opened ?? {}
    if (!database || !positions) return
    // A segment may be deleted only when the disk has what was stored of it.
    if (done.length > 0) database.checkpoint()
    for (const { file } of done) {
      const path = join(this.#options.journal, file)
      if ((positions.get(file)?.malformed ?? 0) > 0) renameSync(path, `${path}.broken`)
      else unlinkSync(path)
      this.#synced.delete(file)
    }
    const names = new Set(segments.map(({ file }) => file))
    const gone = [...positions.keys()].filter((file) => !names.has(file) || done.some((one) => one.file === file))
    for (const file of gone) {
      database.removePosition(file)
      positions.delete(file)
    }
  }

  /** Flushes journals that have grown to the disk. */
  #syncJournals(): void {
    const now = performance.now()
    if (!this.#options.syncs || now < this.#syncAt || !this.#opened) return
    this.#syncAt = now + SYNC
    for (const { segment, position } of this.#opened.positions.values()) {
      if (position === this.#synced.get(segment)) continue
      const fd = openSync(join(this.#options.journal, segment), 'r+')
      try {
        fdatasyncSync(fd)
      } finally {
        closeSync(fd)
      }
      this.#synced.set(segment, position)
    }
  }
}

type SegmentReads = {
  readonly changed: readonly JournalRow[]
  readonly malformed: readonly BookkeeperEvent[]
  readonly hasMore: boolean
  readonly records: number
  /** Time of the last record. */
  readonly lastAt: number
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
