/**
 * Stores the journals of all processes in `usage.db`. Rows, sums and the position in the journal are one transaction, so
 * each record is counted exactly once. After any error the database is opened again and the state is read from it. One
 * bookkeeper works at a time: it holds a lock, which the operating system releases when its process ends.
 */
import { closeSync, fdatasyncSync, openSync, renameSync, unlinkSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { isBusy, problemOf } from '../sqlite/errors.ts'
import { makeFolder } from '../sqlite/folder.ts'
import { LedgerFold } from './fold.ts'
import { readJournal } from './journal-reader.ts'
import { endedProcesses, type JournalProcess, type JournalSegment, listSegments } from './segment-files.ts'
import { UsageDatabase, type UsageLimits } from './usage-database.ts'
import type { BudgetSumRow, JournalRow } from './usage-schema.ts'

export type BookkeeperOptions = {
  /** Folders of `usage.db` and of the journal. */
  readonly folder: string
  readonly journal: string
  readonly node: string
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
  | { readonly event: 'malformed'; readonly segment: string; readonly lines: number; readonly offset: number }

/** Since the start of the thread. */
export type BookkeeperProgress = {
  /** Records stored. */
  readonly records: number
  /** Records ignored because their attempt is unknown or closed. */
  readonly orphans: number
  /** Age in ms of the last record stored while more are left; 0: everything is stored. */
  readonly lagMs: number
}

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
  #problem: string | null = null
  #isWorking = false
  /** Positions up to which segments were flushed to the disk. */
  readonly #synced = new Map<string, number>()
  #syncAt = 0
  #progress: BookkeeperProgress = { records: 0, orphans: 0, lagMs: 0 }

  constructor(options: BookkeeperOptions, report: (event: BookkeeperEvent) => void) {
    this.#options = options
    this.#report = report
    this.#dayOf = daysIn(options.timezone)
  }

  /** Why the journal cannot be stored, or null. */
  get problem(): string | null {
    return this.#problem
  }

  get progress(): BookkeeperProgress {
    return this.#progress
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
    try {
      return this.#opened?.database.sweep(limits, now) ?? false
    } catch (error) {
      this.#fail(error)
      return false
    }
  }

  /** What budget counters have spent in periods that began at `since` or later. Throws if the database cannot be read. */
  async sums(since: number): Promise<readonly BudgetSumRow[]> {
    return (await this.#open()).database.sums(since)
  }

  close(): void {
    this.#closeDatabase()
    this.#lock?.close()
    this.#lock = null
  }

  // ── The database ───────────────────────────────────────────────────────────────────────────────────────────────

  async #open(): Promise<Opened> {
    if (this.#opened?.database.moved()) this.#closeDatabase()
    if (this.#opened) return this.#opened
    this.#takeLock()
    const { folder, node } = this.#options
    const database = await UsageDatabase.open(folder)
    const fold = new LedgerFold({ node, dayOf: this.#dayOf })
    for (const { row, opened } of database.unfinished()) fold.restore(row, opened)
    const positions = new Map(database.positions().map((row) => [row.segment, row]))
    this.#opened = { database, fold, positions }
    return this.#opened
  }

  /** Two processes share the folder while one replaces the other. */
  #takeLock(): void {
    if (this.#lock) return
    makeFolder(this.#options.folder)
    const lock = new DatabaseSync(join(this.#options.folder, LOCK_FILE))
    try {
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
    if (isNew) this.#report({ event: 'degraded', reason: this.#problem })
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
    if (reads.changed.length > 0 || batch.attempts.size > 0) {
      database.store(batch, reads.changed)
      for (const row of reads.changed) positions.set(row.segment, row)
    }
    for (const event of reads.malformed) this.#report(event)
    const lagMs = reads.hasMore ? Math.max(0, Date.now() - reads.lastAt) : 0
    if (reads.records > 0 || lagMs !== this.#progress.lagMs)
      this.#progress = {
        records: this.#progress.records + reads.records,
        orphans: this.#progress.orphans + fold.orphans - orphans,
        lagMs,
      }
    if (!reads.hasMore) this.#removeStored(segments, ended)
    return reads.hasMore
  }

  #read(segments: readonly JournalSegment[], { fold, positions }: Pick<Opened, 'fold' | 'positions'>): SegmentReads {
    const changed: JournalRow[] = []
    const malformed: BookkeeperEvent[] = []
    let left = BATCH
    let lastAt = 0
    const result = (hasMore: boolean) => ({ changed, malformed, hasMore, records: BATCH - left, lastAt })
    for (const { file, process } of segments) {
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

const QUARTER = 900_000

/** Dates by time. No zone's offset changes within a quarter of an hour. */
const daysIn = (timeZone: string): ((at: number) => string) => {
  // Swedish dates are ISO 8601.
  const format = new Intl.DateTimeFormat('sv-SE', { timeZone, year: 'numeric', month: '2-digit', day: '2-digit' })
  let last = { quarter: Number.NaN, day: '' }
  return (at) => {
    const quarter = Math.floor(at / QUARTER)
    if (quarter !== last.quarter) last = { quarter, day: format.format(quarter * QUARTER) }
    return last.day
  }
}
