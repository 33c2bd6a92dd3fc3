/** Runs the bookkeeper in a thread: at intervals, on request, and until everything is stored. */
import type { TelemetryOptions, TelemetryState } from '../../observe/otlp/telemetry-options.ts'
import type { Emit } from '../../storage/thread/thread-program.ts'
import { Bookkeeper, type BookkeeperEvent, type BookkeeperOptions, type StoredListener } from './bookkeeper.ts'
import type { Adjustment, CountedPeriodOf, UsageLimits } from './ledger-store.ts'
import { type BookkeeperProgress, isSameProgress, NO_PROGRESS } from './progress.ts'

type LedgerThreadOptions = BookkeeperOptions & {
  readonly limits: UsageLimits
  /** ms between two looks at the journal. */
  readonly interval: number
  /** Absent or null: no telemetry is exported, and nothing of it is loaded. */
  readonly telemetry?: TelemetryOptions | null
}

type LedgerEvents = { readonly event: BookkeeperEvent; readonly progress: BookkeeperProgress }

/** The export of telemetry. */
type Exporting = StoredListener & { readonly state: () => TelemetryState; readonly close: () => Promise<void> }

/** ms until the next try after an error. */
const RETRY = 1_000
/** ms between reports of progress. */
const PROGRESS = 1_000
/** ms between two batches of a sweep, and between two sweeps. */
const SWEEP = { pause: 20, next: 3_600_000 }

export const program = async (options: LedgerThreadOptions, emit: Emit<LedgerEvents>) =>
  new LedgerThread(options, emit, options.telemetry ? await exporting(options.telemetry) : null)

const exporting = async (options: TelemetryOptions): Promise<Exporting> => {
  const { Telemetry } = await import('../../observe/otlp/telemetry.ts')
  const telemetry = new Telemetry(options)
  return {
    note: (noted) => telemetry.note(noted),
    stored: (rows) => telemetry.stored(rows),
    state: () => telemetry.state(),
    close: () => telemetry.close(),
  }
}

class LedgerThread {
  readonly #emit: Emit<LedgerEvents>
  readonly #bookkeeper: Bookkeeper
  readonly #telemetry: Exporting | null
  readonly #interval: number
  #limits: UsageLimits
  #isRunning = false
  #timer: NodeJS.Timeout | undefined
  /** Calls that wait until the journal is stored. Their argument is why it cannot be stored, or null. */
  #waiting: ((problem: string | null) => Promise<void>)[] = []
  #sweepAt = 0
  #reported = NO_PROGRESS
  #reportAt = 0
  #isClosing = false
  readonly #closed = Promise.withResolvers<void>()

  readonly methods = {
    /** Stores everything that is in the journal. */
    flush: (_: null) => this.#stored(() => {}),
    /** First counts the periods of these budgets, whose rows must be stored. */
    sums: (from: { readonly since: number; readonly counted: readonly CountedPeriodOf[] }) =>
      this.#bookkeeper.sums(from.since, from.counted),
    /** What an ended process has spent, after everything that is in the journal is stored. */
    spent: (process: string) => this.#stored(() => this.#bookkeeper.spentBy(process)),
    /** Stores an adjustment after everything that is in the journal. */
    adjust: (adjustment: Adjustment) => this.#stored(() => this.#bookkeeper.adjust(adjustment)),
    limits: (limits: UsageLimits): void => {
      this.#limits = limits
      this.#sweepAt = 0
    },
  }

  constructor(
    { limits, interval, telemetry: _, ...options }: LedgerThreadOptions,
    emit: Emit<LedgerEvents>,
    telemetry: Exporting | null,
  ) {
    this.#telemetry = telemetry
    this.#emit = emit
    this.#interval = interval
    this.#limits = limits
    this.#bookkeeper = new Bookkeeper({ ...options, listener: telemetry }, (event) => emit('event', event))
    this.run()
  }

  /** Stores everything that is in the journal. */
  close(): Promise<void> {
    this.#isClosing = true
    this.run()
    return this.#closed.promise
  }

  /** Runs after everything that is in the journal is stored, and before anything else is. */
  #stored<Result>(run: () => Result | Promise<Result>): Promise<Result> {
    const { promise, resolve, reject } = Promise.withResolvers<Result>()
    this.#waiting.push(async (problem) => {
      try {
        if (problem !== null) throw new Error(problem)
        resolve(await run())
      } catch (error) {
        reject(error)
      }
    })
    this.run()
    return promise
  }

  run(): void {
    if (!this.#isRunning) void this.#runOnce()
  }

  async #runOnce(): Promise<void> {
    this.#isRunning = true
    clearTimeout(this.#timer)
    const waiting = this.#waiting
    this.#waiting = []
    const isClosing = this.#isClosing
    const hasMore = await this.#bookkeeper.step()
    const { problem } = this.#bookkeeper
    this.#reportProgress(waiting.length > 0)
    if (hasMore) this.#waiting.unshift(...waiting)
    else for (const serve of waiting) await serve(problem)
    if (isClosing && !hasMore) return this.#close()
    // Records and messages that have come meanwhile are served first.
    const isDue = () => this.#waiting.length > 0 || this.#isClosing || hasMore
    const pause = isDue() ? 0 : await this.#pause(problem)
    this.#isRunning = false
    this.#timer = setTimeout(() => this.run(), isDue() ? 0 : pause)
  }

  #reportProgress(isDue: boolean): void {
    const now = performance.now()
    if (now < this.#reportAt && !isDue) return
    this.#reportAt = now + PROGRESS
    const progress = { ...this.#bookkeeper.takeProgress(), telemetry: this.#telemetry?.state() ?? {} }
    if (isSameProgress(progress, this.#reported)) return
    this.#reported = progress
    this.#emit('progress', progress)
  }

  /** Sweeps if that is due. Returns the ms until the next look at the journal. */
  async #pause(problem: string | null): Promise<number> {
    if (problem !== null) return RETRY
    const now = Date.now()
    if (now < this.#sweepAt) return this.#interval
    const hasMore = await this.#bookkeeper.sweep(this.#limits, now)
    // The limits may have changed meanwhile.
    if (!hasMore && now >= this.#sweepAt) this.#sweepAt = now + SWEEP.next
    return hasMore ? SWEEP.pause : this.#interval
  }

  async #close(): Promise<void> {
    await this.#bookkeeper.close()
    await this.#telemetry?.close()
    this.#closed.resolve()
  }
}
