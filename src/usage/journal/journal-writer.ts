/**
 * Writes the usage journal of one process. The operating system keeps what `write` has taken, so a record survives the end
 * of the process by any signal. Records of attempts are written before the attempt is sent; those of one turn of the event
 * loop share a write.
 */
import type {
  AttemptOpened,
  IncidentNoted,
  Journal,
  JournalListener,
  JournalRecord,
  JournalResult,
  RequestEnded,
  ShapeNoted,
  SpanNoted,
} from '../../core/journal.ts'
import { encodeIncident, encodeShape, encodeSpan, RecordEncoder } from './journal-record.ts'
import { type Appended, SegmentWriter, type SegmentWriterOptions } from './segment-writer.ts'

export type JournalOptions = Pick<SegmentWriterOptions, 'folder' | 'process' | 'spoolBytes'> & {
  /**
   * When records reach the disk. `dispatch`: before the attempt is sent. `interval`: the bookkeeper flushes them each
   * second. `never`: when the operating system does.
   */
  readonly sync: 'interval' | 'dispatch' | 'never'
  /** `serve`: records wait in memory, and those of requests beyond `MEMORY` are dropped. `refuse`: attempts are refused. */
  readonly whenUnwritable: 'serve' | 'refuse'
  readonly changed: (change: JournalChange) => void
  readonly segmentBytes?: number
}

/** `reason` contains no path. */
export type JournalChange = { readonly status: 'degraded'; readonly reason: string } | { readonly status: 'ok' }

const SEGMENT = 64 * 1_048_576
/** Records of attempts that are written at once, without waiting for the end of the turn. */
const GROUP = 64
/** When records of ends are written: characters, ms. */
const DEFERRED = { characters: 65_536, ms: 50 }
/** Records that wait in memory while the journal cannot be written. Those of requests already recorded may exceed it. */
const MEMORY = 10_000
/** ms between attempts to write while it fails. */
const RETRY = 1_000

const NOTHING: Appended = { written: 0, safe: 0, problem: null }

/** A line of an attempt that begins, and who waits for it. */
type WaitingAttempt = { readonly line: string; readonly record: AttemptOpened; readonly listener: JournalListener }

export class JournalWriter implements Journal {
  readonly #options: JournalOptions
  readonly #segments: SegmentWriter
  readonly #encoder = new RecordEncoder()
  /** Lines that could not be written, oldest first. */
  #backlog: string[] = []
  /** Ends of requests: nothing waits for them. */
  #deferred: string[] = []
  #deferredCharacters = 0
  #opened: WaitingAttempt[] = []
  /**
   * Requests with an attempt whose record was dropped. The costs of requests and attempts would differ if only some records
   * of a request were.
   */
  readonly #dropping = new Set<number>()
  /** Results of attempts whose listeners are not called yet. */
  #results: { readonly listener: JournalListener; readonly result: JournalResult }[] = []
  #isScheduled = false
  #timer: NodeJS.Timeout | null = null
  #problem: string | null = null
  #retryAt = 0
  #closed = false
  /** Records dropped because the journal could not be written. */
  dropped = 0

  constructor(options: JournalOptions) {
    this.#options = options
    const { folder, process, spoolBytes, sync } = options
    // A quarter, so that stored segments are deleted before the limit is reached.
    const segmentBytes = options.segmentBytes ?? Math.min(SEGMENT, spoolBytes / 4)
    this.#segments = new SegmentWriter({ folder, process, spoolBytes, segmentBytes, syncs: sync === 'dispatch' })
  }

  /** Why records cannot be written, or null. */
  get problem(): string | null {
    return this.#problem
  }

  /** Queues the record. The listener is called when it is written. */
  openAttempt(record: AttemptOpened, listener: JournalListener): void {
    if (this.#isKept(record.call)) {
      this.#opened.push({ line: this.#encoder.open(record), record, listener })
      if (this.#opened.length >= GROUP) this.#write()
    } else {
      this.#dropping.add(record.call)
      // Listeners are called in order.
      this.#write()
      const result = this.#options.whenUnwritable === 'serve' ? 'accepted' : 'refused'
      if (result === 'accepted') this.dropped++
      this.#results.push({ listener, result })
    }
    this.#schedule()
  }

  /** Holds the end of an attempt until its request ends, and buffers others until the next attempt, for at most 50 ms. */
  append(record: Exclude<JournalRecord, AttemptOpened>): void {
    // Spans are not worth the memory in which usage waits.
    if (record.type === 'span' && (this.#problem !== null || !this.#hasRoom())) return
    const isKept = 'call' in record ? this.#isKept(record.call) : this.#hasRoom()
    if (record.type === 'request_ended') this.#dropping.delete(record.call)
    if (!isKept) {
      this.dropped++
      return
    }
    if (record.type === 'attempt_closed') {
      if (this.#encoder.close(record)) this.#writeLater(DEFERRED.ms)
      return
    }
    const line = lineOf(record, this.#encoder)
    this.#deferred.push(line)
    this.#deferredCharacters += line.length
    if (this.#deferredCharacters >= DEFERRED.characters) this.#write()
    else this.#writeLater(DEFERRED.ms)
  }

  /** Writes what waits for other records. */
  flush(): void {
    if (!this.#closed) this.#writeAll()
  }

  /** Writes everything and closes the file. What cannot be written is dropped and counted. */
  close(): void {
    if (this.#closed) return
    this.#retryAt = 0
    this.#writeAll()
    this.#closed = true
    if (this.#timer) clearTimeout(this.#timer)
    this.#timer = null
    this.dropped += this.#backlog.length
    this.#backlog = []
    this.#segments.close()
  }

  #isKept(call: number): boolean {
    return this.#encoder.knows(call) || (!this.#dropping.has(call) && this.#hasRoom())
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
      this.#writeAll()
    }, ms).unref()
  }

  #report(): void {
    const results = this.#results
    this.#results = []
    for (const { listener, result } of results) listener.onJournaled(result)
  }

  /** With the ends of attempts whose requests go on. */
  #writeAll(): void {
    this.#deferred.push(...this.#encoder.takeHeld())
    this.#write()
  }

  #write(): void {
    const [deferred, opened] = [this.#deferred, this.#opened]
    if (deferred.length === 0 && opened.length === 0 && this.#backlog.length === 0) return
    this.#deferred = []
    this.#deferredCharacters = 0
    this.#opened = []
    const lines = deferred
    const ends = deferred.length
    for (const { line } of opened) lines.push(line)
    const appended = this.#writeAfterBacklog(lines)
    const { written } = appended
    const isServing = this.#options.whenUnwritable === 'serve'
    for (const [index, { listener, record }] of opened.entries()) {
      const result = isServing ? 'accepted' : resultAt(ends + index, appended)
      if (result === 'refused') this.#encoder.forget(record)
      this.#results.push({ listener, result })
    }
    // Those of refused attempts are not kept.
    const keptUntil = isServing ? lines.length : Math.max(written, ends)
    if (this.#closed) this.dropped += keptUntil - written
    else for (let at = written; at < keptUntil; at++) this.#backlog.push(lines[at] ?? '')
    if (this.#backlog.length > 0) this.#writeLater(RETRY)
  }

  #writeAfterBacklog(lines: readonly string[]): Appended {
    const now = performance.now()
    if (this.#closed || (this.#problem !== null && now < this.#retryAt)) return NOTHING
    const backlog = this.#backlog
    const appended = this.#segments.append(backlog.length === 0 ? lines : [...backlog, ...lines], now)
    this.#note(appended.problem, now)
    if (backlog.length === 0) return appended
    const { written, safe } = appended
    this.#backlog = backlog.slice(written)
    return { ...appended, written: Math.max(0, written - backlog.length), safe: Math.max(0, safe - backlog.length) }
  }

  #note(problem: string | null, now: number): void {
    const before = this.#problem
    this.#problem = problem
    if (problem !== null) this.#retryAt = now + RETRY
    if (problem !== null && before === null) this.#options.changed({ status: 'degraded', reason: problem })
    if (problem === null && before !== null) this.#options.changed({ status: 'ok' })
  }
}

const lineOf = (record: RequestEnded | IncidentNoted | SpanNoted | ShapeNoted, encoder: RecordEncoder): string => {
  if (record.type === 'request_ended') return encoder.end(record)
  if (record.type === 'shape') return encodeShape(record)
  return record.type === 'span' ? encodeSpan(record) : encodeIncident(record)
}

const resultAt = (line: number, { written, safe }: Appended): JournalResult => {
  if (line < safe) return 'accepted'
  return line < written ? 'unsynced' : 'refused'
}
