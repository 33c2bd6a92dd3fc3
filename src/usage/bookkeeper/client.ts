/**
 * The bookkeeper for the event loop: it starts the thread that stores the journal, and starts it again if it ends. A slow,
 * full or missing disk blocks nothing but that thread.
 */
import type { CounterSpend } from '../../core/journal.ts'
import { QueriedThread, type QueryFailure } from '../../storage/thread/queried-thread.ts'
import type { BookkeeperEvent, BookkeeperOptions } from './bookkeeper.ts'
import type { FromLedgerThread, LedgerAnswer, LedgerThreadOptions, ToLedgerThread } from './messages.ts'
import type { CountedPeriodOf } from './period-count.ts'
import { type BookkeeperProgress, NO_PROGRESS } from './progress.ts'
import type { Adjusted, Adjustment, LedgerSum, UsageLimits } from './usage-database.ts'

export type LedgerClientOptions = BookkeeperOptions & {
  readonly limits: () => UsageLimits
  readonly report: (event: BookkeeperEvent) => void
  readonly onProgress?: (progress: BookkeeperProgress) => void
}

const THREAD = new URL('./ledger-thread.mjs', import.meta.url)
/** Memory limits in MB. */
const MEMORY = { maxOldGenerationSizeMb: 512, maxYoungGenerationSizeMb: 16 }
/**
 * All in ms. `query`: for its result. `adjust`: the same, for a request of the admin API. `close`: for the thread to store
 * the rest of the journal; it stores what is left at the next start.
 */
const TIMES = { query: 30_000, adjust: 10_000, close: 5_000 }

export class LedgerClient {
  readonly #options: LedgerClientOptions
  readonly #thread: QueriedThread<ToLedgerThread, FromLedgerThread>
  #problem: string | null = null
  #progress = NO_PROGRESS

  constructor(options: LedgerClientOptions) {
    this.#options = options
    this.#thread = new QueriedThread({
      file: THREAD,
      memory: MEMORY,
      data: () => {
        const { limits, report, onProgress, ...data } = options
        return { ...data, limits: limits() } satisfies LedgerThreadOptions
      },
      onMessage: (message) => this.#receive(message),
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
    const result = await this.#thread.query((number) => ({ do: 'flush', number }), limit)
    return 'problem' in result ? result.problem : null
  }

  /**
   * What budget counters have spent in periods that began at `since` (ms since 1970) or later, after the periods of
   * `counted` are counted from the rows that are stored. A text is the problem.
   */
  async sums(since: number, counted: readonly CountedPeriodOf[]): Promise<readonly LedgerSum[] | string> {
    const result = await this.#thread.query((number) => ({ do: 'sums', number, since, counted }), TIMES.query)
    return valueOr(result, ({ problem }) => problem)
  }

  /**
   * Stores an adjustment of a budget or a key, after everything that is in the journal. A reset computes its amount. A text
   * is the problem; after 10 s the adjustment may still be stored.
   */
  async adjust(adjustment: Adjustment): Promise<Adjusted | string> {
    const result = await this.#thread.query((number) => ({ do: 'adjust', number, adjustment }), TIMES.adjust)
    return valueOr(result, ({ problem }) => problem)
  }

  /** What an ended process has spent of budget counters; null: unknown. */
  async spentBy(process: string): Promise<readonly CounterSpend[] | null> {
    const result = await this.#thread.query((number) => ({ do: 'spent', number, process }), TIMES.query)
    return valueOr(result, () => null)
  }

  /** Sends the current limits to the thread, and applies them. */
  limitsChanged(): void {
    this.#thread.post({ do: 'limits', limits: this.#options.limits() })
  }

  /** Stores the rest of the journal and ends the thread, within 5 s. */
  close(): Promise<void> {
    return this.#thread.close({ do: 'close' }, TIMES.close)
  }

  #receive(message: Exclude<FromLedgerThread, LedgerAnswer>): void {
    if ('progress' in message) {
      this.#progress = message.progress
      this.#options.onProgress?.(message.progress)
      return
    }
    if (message.event === 'degraded') return this.#degrade(message.reason)
    if (message.event === 'ok') {
      if (this.#problem === null) return
      this.#problem = null
    }
    this.#options.report(message)
  }

  #degrade(reason: string): void {
    const isNew = this.#problem === null
    this.#problem = reason
    if (isNew) this.#options.report({ event: 'degraded', reason })
  }
}

/** The value of a result, or what stands for a failure. Only the thread has the other end of the channel. */
const valueOr = <T, Failed>(
  result: LedgerAnswer | QueryFailure,
  failed: (of: { problem: string }) => Failed,
): T | Failed => ('problem' in result ? failed(result) : (result.value as T))
