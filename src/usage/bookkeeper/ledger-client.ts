/**
 * The bookkeeper for the event loop: it starts the thread that stores the journal, and starts it again if it ends. A slow,
 * full or missing disk blocks nothing but that thread.
 */
import type { CounterSpend } from '../../core/journal.ts'
import type { TelemetryOptions } from '../../observe/otlp/telemetry-options.ts'
import { ThreadClient } from '../../storage/thread/connect-thread.ts'
import type { BookkeeperEvent, BookkeeperOptions } from './bookkeeper.ts'
import type { Adjusted, Adjustment, CountedPeriodOf, LedgerSum, UsageLimits } from './ledger-store.ts'
import type { program } from './ledger-thread.ts'
import { type BookkeeperProgress, NO_PROGRESS } from './progress.ts'

export type LedgerClientOptions = BookkeeperOptions & {
  readonly limits: () => UsageLimits
  /** ms between two looks at the journal. */
  readonly interval: number
  /** Absent or null: no telemetry is exported. */
  readonly telemetry?: TelemetryOptions | null
  readonly report: (event: BookkeeperEvent) => void
  readonly onProgress?: (progress: BookkeeperProgress) => void
}

const PROGRAM = new URL('./ledger-thread.ts', import.meta.url)
/** Memory limits in MB. */
const MEMORY = { maxOldGenerationSizeMb: 512, maxYoungGenerationSizeMb: 16 }
/**
 * All in ms. `query`: for its result. `adjust`: the same, for a request of the admin API. `close`: for the thread to store
 * the rest of the journal; it stores what is left at the next start.
 */
const TIMES = { query: 30_000, adjust: 10_000, close: 5_000 }

export class LedgerClient {
  readonly #options: LedgerClientOptions
  readonly #thread: ThreadClient<typeof program>
  #problem: string | null = null
  #progress = NO_PROGRESS

  constructor(options: LedgerClientOptions) {
    this.#options = options
    this.#thread = new ThreadClient({
      program: PROGRAM,
      memory: MEMORY,
      data: () => {
        const { limits, report, onProgress, ...data } = options
        return { ...data, limits: limits() }
      },
      restart: 'always',
      events: {
        event: (event) => this.#receive(event),
        progress: (progress) => {
          this.#progress = progress
          options.onProgress?.(progress)
        },
      },
      onProblem: (problem) => this.#degrade(problem),
    })
  }

  /** Why the journal cannot be stored, or null. */
  get problem(): string | null {
    return this.#problem
  }

  /** What the current thread has stored, at most 1 s ago. */
  get progress(): BookkeeperProgress {
    return this.#progress
  }

  /** Starts the thread unless it runs. */
  start(): void {
    this.#thread.start()
  }

  /** Stores everything that is in the journal now, within `limit` ms. Returns why it cannot, or null. */
  async flush(limit = TIMES.query): Promise<string | null> {
    const result = await this.#thread.call('flush', null, { limit })
    return 'problem' in result ? result.problem : null
  }

  /**
   * What budget counters have spent in periods that began at `since` (ms since 1970) or later, after the periods of
   * `counted` are counted from the rows that are stored. A text is the problem.
   */
  async sums(since: number, counted: readonly CountedPeriodOf[]): Promise<readonly LedgerSum[] | string> {
    const result = await this.#thread.call('sums', { since, counted }, { limit: TIMES.query })
    return 'value' in result ? result.value : result.problem
  }

  /**
   * Stores an adjustment of a budget or a key, after everything that is in the journal. A reset computes its amount. A text
   * is the problem; after 10 s the adjustment may still be stored.
   */
  async adjust(adjustment: Adjustment): Promise<Adjusted | string> {
    const result = await this.#thread.call('adjust', adjustment, { limit: TIMES.adjust })
    return 'value' in result ? result.value : result.problem
  }

  /** What an ended process has spent of budget counters; null: unknown. */
  async spentBy(process: string): Promise<readonly CounterSpend[] | null> {
    const result = await this.#thread.call('spent', process, { limit: TIMES.query })
    return 'value' in result ? result.value : null
  }

  /** Sends the current limits to the thread, and applies them. */
  limitsChanged(): void {
    this.#thread.post('limits', this.#options.limits())
  }

  /** Stores the rest of the journal and ends the thread, within 5 s. */
  close(): Promise<void> {
    return this.#thread.close(TIMES.close)
  }

  #receive(event: BookkeeperEvent): void {
    if (event.event === 'degraded') return this.#degrade(event.reason)
    if (event.event === 'ok') {
      if (this.#problem === null) return
      this.#problem = null
    }
    this.#options.report(event)
  }

  #degrade(reason: string): void {
    const isNew = this.#problem === null
    this.#problem = reason
    if (isNew) this.#options.report({ event: 'degraded', reason })
  }
}
