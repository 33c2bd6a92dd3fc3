/**
 * Writes the usage journal of one process. The operating system keeps what `write` has taken, so a record survives the end
 * of the process by any signal. Records of attempts are written before the attempt is sent; those of one turn of the event
 * loop share a write.
 */
import { closeSync, fdatasyncSync, fstatSync, openSync, unlinkSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import type {
  AttemptClosed,
  AttemptOpened,
  IncidentNoted,
  Journal,
  JournalListener,
  JournalResult,
  RequestEnded,
} from '../../core/journal.ts'
import { makeFolder } from '../../storage/files/folder.ts'
import { problemOf } from '../../storage/sql/sqlite/sqlite-problem.ts'
import { encodeRecord } from './journal-record.ts'
import { journalSize, segmentFile } from './segment-files.ts'

export type JournalOptions = {
  /** Created with the first record. */
  readonly folder: string
  /** Name of the process (`processName`). */
  readonly process: string
  /**
   * When records reach the disk. `dispatch`: before the attempt is sent. `interval`: the bookkeeper flushes them each
   * second. `never`: when the operating system does.
   */
  readonly sync: 'interval' | 'dispatch' | 'never'
  /** `serve`: records wait in memory, and those of requests beyond `MEMORY` are dropped. `refuse`: attempts are refused. */
  readonly whenUnwritable: 'serve' | 'refuse'
  /** Maximum size of the segments of all processes. */
  readonly spoolBytes: number
  readonly changed: (change: JournalChange) => void
  readonly segmentBytes?: number
}

/** `reason` contains no path. */
export type JournalChange = { readonly status: 'degraded'; readonly reason: string } | { readonly status: 'ok' }

const SEGMENT = 64 * 1_048_576
/** Records of attempts that are written at once, without waiting for the end of the turn. */
const GROUP = 64
/** When buffered records of ends are written: characters, ms. */
const DEFERRED = { characters: 65_536, ms: 50 }
/** Records that wait in memory while the journal cannot be written. Those of requests already recorded may exceed it. */
const MEMORY = 10_000
/** ms between attempts to write while it fails. */
const RETRY = 1_000
/** ms between checks whether the open segment was deleted. */
const CHECK = 1_000
const NEWLINE = 10

/** How many lines are in the file completely, and how many of them are so safe that an attempt may rely on them. */
type Appended = { readonly written: number; readonly safe: number }
const NOTHING: Appended = { written: 0, safe: 0 }

type OpenSegment = { readonly fd: number; readonly path: string; size: number }

export class JournalWriter implements Journal {
  readonly #options: JournalOptions
  readonly #segmentBytes: number
  #segment: OpenSegment | null = null
  #number = 0
  #checkAt = 0
  /** Lines that could not be written, oldest first. */
  #backlog: string[] = []
  /** Ends of attempts and requests: nothing waits for them. */
  #deferred: string[] = []
  #deferredCharacters = 0
  #opened: string[] = []
  /**
   * Requests that have made an attempt: whether their records are kept. The costs of requests and attempts would differ if
   * some records of a request were dropped.
   */
  readonly #kept = new Map<number, boolean>()
  #listeners: JournalListener[] = []
  /** Results of attempts whose listeners are not called yet. */
  #results: { readonly listener: JournalListener; readonly result: JournalResult }[] = []
  #isScheduled = false
  #timer: NodeJS.Timeout | null = null
  #problem: string | null = null
  #retryAt = 0
  #closed = false
  /** Reused for each write. */
  readonly #buffer = Buffer.allocUnsafe(4 * DEFERRED.characters)
  /** Records dropped because the journal could not be written. */
  dropped = 0

  constructor(options: JournalOptions) {
    this.#options = options
    // A quarter, so that stored segments are deleted before the limit is reached.
    this.#segmentBytes = options.segmentBytes ?? Math.min(SEGMENT, options.spoolBytes / 4)
  }

  /** Why records cannot be written, or null. */
  get problem(): string | null {
    return this.#problem
  }

  /** Queues the record. The listener is called when it is written. */
  openAttempt(record: AttemptOpened, listener: JournalListener): void {
    const isKept = this.#isKept(record.call)
    this.#kept.set(record.call, isKept)
    if (isKept) {
      this.#opened.push(encodeRecord(record))
      this.#listeners.push(listener)
      if (this.#opened.length >= GROUP) this.#write()
    } else {
      // Listeners are called in order.
      this.#write()
      const result = this.#options.whenUnwritable === 'serve' ? 'accepted' : 'refused'
      if (result === 'accepted') this.dropped++
      this.#results.push({ listener, result })
    }
    this.#schedule()
  }

  /** Buffers the record until the next attempt, for at most 50 ms. */
  append(record: AttemptClosed | RequestEnded | IncidentNoted): void {
    const isKept = record.type === 'incident' ? this.#hasRoom() : this.#isKept(record.call)
    if (record.type === 'request_ended') this.#kept.delete(record.call)
    if (!isKept) {
      this.dropped++
      return
    }
    const line = encodeRecord(record)
    this.#deferred.push(line)
    this.#deferredCharacters += line.length
    if (this.#deferredCharacters >= DEFERRED.characters) this.#write()
    else this.#writeLater(DEFERRED.ms)
  }

  /** Writes what waits for other records. */
  flush(): void {
    if (!this.#closed) this.#write()
  }

  /** Writes everything and closes the file. What cannot be written is dropped and counted. */
  close(): void {
    if (this.#closed) return
    this.#retryAt = 0
    this.#write()
    this.#closed = true
    if (this.#timer) clearTimeout(this.#timer)
    this.#timer = null
    this.dropped += this.#backlog.length
    this.#backlog = []
    this.#closeSegment()
  }

  #isKept(call: number): boolean {
    return this.#kept.get(call) ?? this.#hasRoom()
  }

  #hasRoom(): boolean {
    const opened = this.#options.whenUnwritable === 'serve' ? this.#opened.length : 0
    return this.#backlog.length + this.#deferred.length + opened < MEMORY
  }

  // ── Groups ─────────────────────────────────────────────────────────────────────────────────────────────────────

  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    setImmediate(() => {
      this.#isScheduled = false
      this.#write()
      this.#report()
    })
  }

  #writeLater(ms: number): void {
    if (this.#timer || this.#closed) return
    this.#timer = setTimeout(() => {
      this.#timer = null
      this.#write()
    }, ms).unref()
  }

  #report(): void {
    const results = this.#results
    this.#results = []
    for (const { listener, result } of results) listener.onJournaled(result)
  }

  #write(): void {
    const [deferred, opened, listeners] = [this.#deferred, this.#opened, this.#listeners]
    const lines = deferred.length === 0 ? opened : [...deferred, ...opened]
    if (lines.length === 0 && this.#backlog.length === 0) return
    this.#deferred = []
    this.#deferredCharacters = 0
    this.#opened = []
    this.#listeners = []
    const appended = this.#writeAfterBacklog(lines)
    const { written } = appended
    const isServing = this.#options.whenUnwritable === 'serve'
    for (const [index, listener] of listeners.entries())
      this.#results.push({ listener, result: isServing ? 'accepted' : resultAt(deferred.length + index, appended) })
    // Those of refused attempts are not kept.
    const keptUntil = isServing ? lines.length : Math.max(written, deferred.length)
    if (this.#closed) this.dropped += keptUntil - written
    else for (let at = written; at < keptUntil; at++) this.#backlog.push(lines[at] ?? '')
    if (this.#backlog.length > 0) this.#writeLater(RETRY)
  }

  #writeAfterBacklog(lines: readonly string[]): Appended {
    const now = performance.now()
    if (this.#closed || (this.#problem !== null && now < this.#retryAt)) return NOTHING
    const backlog = this.#backlog
    if (backlog.length === 0) return this.#append(lines, now)
    const { written, safe } = this.#append([...backlog, ...lines], now)
    this.#backlog = backlog.slice(written)
    return { written: Math.max(0, written - backlog.length), safe: Math.max(0, safe - backlog.length) }
  }

  // ── The file ───────────────────────────────────────────────────────────────────────────────────────────────────

  #append(lines: readonly string[], now: number): Appended {
    let done = 0
    let bytes: Buffer = this.#buffer
    try {
      bytes = this.#bytesOf(lines)
      const segment = this.#openSegment(now)
      while (done < bytes.length) {
        const count = writeSync(segment.fd, bytes, done, bytes.length - done)
        done += count
        segment.size += count
      }
      if (this.#options.sync === 'dispatch') fdatasyncSync(segment.fd)
      if (this.#problem !== null) this.#recover()
      return { written: lines.length, safe: lines.length }
    } catch (error) {
      // Nothing may follow a torn line, and another error than a full disk may concern this file only.
      if ((done > 0 && bytes[done - 1] !== NEWLINE) || !isDiskFull(error)) this.#closeSegment()
      this.#fail(problemOf(error), now)
      const written = countLines(bytes.subarray(0, done))
      return { written, safe: this.#options.sync === 'dispatch' ? 0 : written }
    }
  }

  #bytesOf(lines: readonly string[]): Buffer {
    const text = lines.length === 1 ? (lines[0] ?? '') : lines.join('')
    // A UTF-16 unit takes at most three bytes.
    if (text.length * 3 > this.#buffer.length) return Buffer.from(text)
    return this.#buffer.subarray(0, this.#buffer.write(text))
  }

  #openSegment(now: number): OpenSegment {
    const segment = this.#segment
    if (segment && segment.size < this.#segmentBytes && !this.#isDeleted(segment, now)) return segment
    this.#closeSegment()
    const { folder, process, spoolBytes } = this.#options
    makeFolder(folder)
    const size = journalSize(folder)
    if (size + this.#segmentBytes > spoolBytes)
      throw new Error(`the journal has ${size} bytes that are not stored yet (limit ${spoolBytes} bytes)`)
    const path = join(folder, segmentFile(process, this.#number + 1))
    const fd = openSync(path, 'ax', 0o600)
    this.#number++
    this.#checkAt = now + CHECK
    this.#segment = { fd, path, size: 0 }
    return this.#segment
  }

  /** A deleted file accepts writes and loses them. */
  #isDeleted({ fd }: OpenSegment, now: number): boolean {
    if (now < this.#checkAt) return false
    this.#checkAt = now + CHECK
    return fstatSync(fd).nlink === 0
  }

  #closeSegment(): void {
    const segment = this.#segment
    this.#segment = null
    if (!segment) return
    try {
      closeSync(segment.fd)
      if (segment.size === 0) unlinkSync(segment.path)
    } catch {
      // The disk has failed, or the file was deleted.
    }
  }

  // ── Health ─────────────────────────────────────────────────────────────────────────────────────────────────────

  #fail(reason: string, now: number): void {
    this.#retryAt = now + RETRY
    const isNew = this.#problem === null
    this.#problem = reason
    if (isNew) this.#options.changed({ status: 'degraded', reason })
  }

  #recover(): void {
    this.#problem = null
    this.#options.changed({ status: 'ok' })
  }
}

const isDiskFull = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && (error.code === 'ENOSPC' || error.code === 'EDQUOT')

const resultAt = (line: number, { written, safe }: Appended): JournalResult => {
  if (line < safe) return 'accepted'
  return line < written ? 'unsynced' : 'refused'
}

const countLines = (bytes: Buffer): number => {
  let count = 0
  for (let at = bytes.indexOf(NEWLINE); at !== -1; at = bytes.indexOf(NEWLINE, at + 1)) count++
  return count
}
