/**
 * Exports usage to S3-compatible storage: JSON lines, compressed, in the order of the ledger. Time is divided into ranges. When
 * no more rows are expected in one, its objects are written, and then the position after it. A crash between the two repeats
 * the objects under the same names, so that each row is in the bucket once.
 *
 * Rows that are stored later, such as those of a gateway that was cut off from Postgres, are found a day after: each range is
 * counted once more, and written again if it has more rows.
 *
 * Of several gateways with one ledger, the one in the state exports until its time is over. Two that do so at once write the
 * same objects.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Outcome } from '../../core/failure.ts'
import type { Settings } from '../../core/settings.ts'
import type { World } from '../../core/world.ts'
import { compressedParts, linesIn } from './compressed-parts.ts'
import { type ExportRange, firstRange, objectName, RANGE, rangeFrom } from './export-range.ts'
import { decodeState, type ExportState, encodeState } from './export-state.ts'
import { ObjectStore } from './object-store.ts'

/** The text of the rows of a range, in their order and in parts of whole lines; null: the end. */
export type RangeReader = { readonly read: () => Promise<Outcome<string | null>> }

export type UsageSinkOptions = {
  readonly world: Pick<World, 'date' | 'random' | 'later' | 'dial'>
  readonly settings: () => Pick<Settings, 'export' | 'timeout'>
  /** The name of the ledger among those in one bucket. */
  readonly ledger: string
  /** The name of this gateway. */
  readonly gateway: string
  readonly rowsOf: (range: ExportRange) => RangeReader
  /** Whether this gateway has usage that is not in the ledger yet. */
  readonly isBehind: () => boolean
  readonly report: (problem: string | null) => void
  /** For tests. */
  readonly rowsPerObject?: number
}

export type ExportFigures = {
  /** ms since the end of what is exported; null: not known yet. */
  readonly lagMs: number | null
  readonly rows: number
  readonly objects: number
  readonly failures: number
}

/** ms. */
const TIMES = {
  /** Between two looks at the state. */
  poll: 30_000,
  /** For which others leave the export to the gateway that holds it. */
  lease: 300_000,
  /** After the longest request, for its row to be in the ledger. */
  stored: 60_000,
  /** The longest request, if `timeout.request` has no limit. */
  unlimited: 900_000,
  /** Age of a range when it is counted once more: a gateway that stored nothing for a day is gone. */
  check: 90_000_000,
  /** Pause after a failure: the first, and the longest. */
  retry: [1_000, 300_000],
} as const
/** Rows of an object. A row has at most 10 KB, typically 1 KB before and 0.1 KB after compression. */
const ROWS = 10_000
/** Failures in a row that are a problem. */
const PROBLEM = 3

const STATE_TYPE = 'application/json'
const ROWS_TYPE = 'application/gzip'

/** A step that cannot be done now. Its message is the reason. */
class StepFailed extends Error {}

/** The next range to write. `known`: the rows that its objects have already; -1: it has none. */
type Job = { readonly range: ExportRange; readonly known: number; readonly next: ExportState }

export class UsageSink {
  readonly #options: UsageSinkOptions
  readonly #stopped = new AbortController()
  #position: number | null = null
  #figures = { rows: 0, objects: 0, failures: 0 }
  #failuresInARow = 0
  #problem: { readonly reason: string; readonly since: number } | null = null
  #cancel: () => void = () => {}

  constructor(options: UsageSinkOptions) {
    this.#options = options
    this.#turnAfter(0)
  }

  problem(): { readonly reason: string; readonly since: number } | null {
    return this.#problem
  }

  figures(): ExportFigures {
    const { world } = this.#options
    return { ...this.#figures, lagMs: this.#position === null ? null : Math.max(0, world.date() - this.#position) }
  }

  /** What is being written is repeated after the next start. */
  stop(): void {
    this.#cancel()
    this.#stopped.abort()
  }

  #turnAfter(ms: number): void {
    if (this.#stopped.signal.aborted) return
    this.#cancel = this.#options.world.later(ms, () => void this.#turn())
  }

  async #turn(): Promise<void> {
    try {
      const hasMore = await this.#step()
      this.#failuresInARow = 0
      this.#setProblem(null)
      // Between two ranges of a long backlog.
      if (hasMore) await nextTurn()
      this.#turnAfter(hasMore ? 0 : TIMES.poll)
    } catch (error) {
      if (this.#stopped.signal.aborted) return
      const { world } = this.#options
      this.#figures.failures++
      this.#failuresInARow++
      const reason = error instanceof StepFailed ? error.message : `an internal error occurred (${String(error)})`
      if (this.#failuresInARow >= PROBLEM) this.#setProblem(reason)
      const [first, longest] = TIMES.retry
      const pause = Math.min(longest, first * 2 ** Math.min(20, this.#failuresInARow - 1))
      this.#turnAfter(pause * (0.5 + world.random() / 2))
    }
  }

  #setProblem(reason: string | null): void {
    if (reason === (this.#problem?.reason ?? null)) return
    this.#problem = reason === null ? null : { reason, since: this.#problem?.since ?? this.#options.world.date() }
    this.#options.report(reason)
  }

  /** Exports one range, if one is due and no other gateway does. Returns whether there may be more. */
  async #step(): Promise<boolean> {
    const { s3 } = this.#options.settings().export
    const { bucket } = s3
    if (bucket === undefined) return false
    const { world, gateway } = this.#options
    const store = new ObjectStore({ ...s3, bucket }, { dial: world.dial, signal: this.#stopped.signal })
    const state = await this.#read(store)
    this.#position = state.position
    const now = world.date()
    if (state.holder !== gateway && state.until > now) return false
    const job = this.#jobAt(state, now)
    const needsLease = state.holder !== gateway || state.until < now + TIMES.lease / 2
    if (needsLease) await this.#write(store, { ...state, ...this.#lease() })
    if (!job) return false
    const rows = await this.#export(store, job)
    const next = { ...job.next, ...this.#lease() }
    // A range that was exported long after its end has all its rows.
    const isRecent = job.known < 0 && job.range.to + TIMES.check > now
    await this.#write(store, isRecent ? { ...next, checks: [...next.checks, [job.range.from, rows]] } : next)
    this.#position = next.position
    return true
  }

  #lease(): Pick<ExportState, 'holder' | 'until'> {
    return { holder: this.#options.gateway, until: this.#options.world.date() + TIMES.lease }
  }

  #jobAt(state: ExportState, now: number): Job | null {
    const range = rangeFrom(state.position)
    const { request } = this.#options.settings().timeout
    const settled = range.to + (request || TIMES.unlimited) + TIMES.stored
    if (settled <= now && !this.#options.isBehind()) return { range, known: -1, next: { ...state, position: range.to } }
    const [[from, known] = [now, 0], ...checks] = state.checks
    return from + RANGE + TIMES.check <= now ? { range: rangeFrom(from), known, next: { ...state, checks } } : null
  }

  // ── State ──────────────────────────────────────────────────────────────────────────────────────────────────────────

  get #stateName(): string {
    return `state.${this.#options.ledger}.json`
  }

  async #read(store: ObjectStore): Promise<ExportState> {
    const answer = await store.get(this.#stateName)
    if (!answer.ok) throw new StepFailed(answer.reason)
    if (answer.text === null)
      return { position: firstRange(this.#options.world.date()), holder: '', until: 0, checks: [] }
    const state = decodeState(answer.text)
    if (!state) throw new StepFailed(`the object ${this.#stateName} is not the state of an export of this version`)
    return state
  }

  #write(store: ObjectStore, state: ExportState): Promise<void> {
    return this.#put(store, this.#stateName, Buffer.from(encodeState(state)), STATE_TYPE)
  }

  async #put(store: ObjectStore, name: string, body: Uint8Array, type: string): Promise<void> {
    const answer = await store.put(name, body, type)
    if (!answer.ok) throw new StepFailed(answer.reason)
  }

  // ── Rows ───────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Writes the objects of a range, unless they have all its rows. Returns the number of rows. */
  async #export(store: ObjectStore, { range, known }: Job): Promise<number> {
    if (known >= 0 && (await this.#count(range)) <= known) return known
    const { ledger, rowsPerObject = ROWS } = this.#options
    let rows = 0
    let place = 0
    for await (const part of compressedParts(this.#textsOf(range), rowsPerObject)) {
      await this.#put(store, objectName(range, ledger, place++), part.body, ROWS_TYPE)
      rows += part.rows
      this.#figures.objects++
      this.#figures.rows += part.rows
    }
    return rows
  }

  async #count(range: ExportRange): Promise<number> {
    let rows = 0
    for await (const text of this.#textsOf(range)) rows += linesIn(text)
    return rows
  }

  async *#textsOf(range: ExportRange): AsyncGenerator<string> {
    const reader = this.#options.rowsOf(range)
    for (;;) {
      const page = await reader.read()
      if (this.#stopped.signal.aborted) throw new StepFailed('the gateway is shutting down')
      if (!page.ok) throw new StepFailed(`usage cannot be read: ${page.failure.message}`)
      if (page.value === null) return
      yield page.value
    }
  }
}
