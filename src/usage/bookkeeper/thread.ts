/** Runs the bookkeeper in a thread: at intervals, on request, and until everything is stored. Loaded by `ledger-thread.mjs`. */
import type { MessagePort } from 'node:worker_threads'
import { problemOf } from '../../storage/sql/sqlite/errors.ts'
import { Bookkeeper } from './bookkeeper.ts'
import type { FromLedgerThread, LedgerQuery, LedgerThreadOptions, ToLedgerThread } from './messages.ts'
import { isSameProgress, NO_PROGRESS } from './progress.ts'
import type { UsageLimits } from './usage-database.ts'

/** ms between two looks at the journal, and after an error. */
const INTERVAL = { usual: 250, failed: 1_000 }
/** ms between reports of progress. */
const PROGRESS = 1_000
/** ms between two batches of a sweep, and between two sweeps. */
const SWEEP = { pause: 20, next: 3_600_000 }

/** Serves the port until the message `close`. */
export const serveLedger = (port: MessagePort, options: LedgerThreadOptions): void => {
  const thread = new LedgerThread(port, options)
  port.on('message', (message: ToLedgerThread) => thread.receive(message))
  thread.run()
}

/** Queries that are answered when the journal is stored. */
type StoredQuery = Extract<LedgerQuery, { readonly do: 'flush' | 'adjust' | 'spent' }>

class LedgerThread {
  readonly #port: MessagePort
  readonly #bookkeeper: Bookkeeper
  #limits: UsageLimits
  #isRunning = false
  #timer: NodeJS.Timeout | undefined
  /** Queries that wait until the journal is stored. */
  #waiting: StoredQuery[] = []
  #sweepAt = 0
  #reported = NO_PROGRESS
  #reportAt = 0
  #isClosing = false

  constructor(port: MessagePort, { limits, ...options }: LedgerThreadOptions) {
    this.#port = port
    this.#limits = limits
    this.#bookkeeper = new Bookkeeper(options, (event) => this.#post(event))
  }

  receive(message: ToLedgerThread): void {
    switch (message.do) {
      case 'flush':
      case 'adjust':
      case 'spent':
        this.#waiting.push(message)
        return this.run()
      case 'sums':
        return void this.#answer(message.number, () => this.#bookkeeper.sums(message.since, message.counted))
      case 'limits':
        this.#limits = message.limits
        this.#sweepAt = 0
        return
      case 'close':
        this.#isClosing = true
        return this.run()
      default:
        throw new Error(`unknown message ${JSON.stringify(message satisfies never)}`)
    }
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
    else for (const query of waiting) await this.#answerStored(query, problem)
    this.#isRunning = false
    if (isClosing && !hasMore) return this.#close()
    // Records and messages that have come meanwhile are served first.
    const isDue = this.#waiting.length > 0 || this.#isClosing || hasMore
    this.#timer = setTimeout(() => this.run(), isDue ? 0 : this.#pause(problem))
  }

  #reportProgress(isDue: boolean): void {
    const now = performance.now()
    if (now < this.#reportAt && !isDue) return
    this.#reportAt = now + PROGRESS
    const progress = this.#bookkeeper.takeProgress()
    if (isSameProgress(progress, this.#reported)) return
    this.#reported = progress
    this.#post({ progress })
  }

  #pause(problem: string | null): number {
    if (problem !== null) return INTERVAL.failed
    const now = Date.now()
    if (now < this.#sweepAt) return INTERVAL.usual
    const hasMore = this.#bookkeeper.sweep(this.#limits, now)
    if (!hasMore) this.#sweepAt = now + SWEEP.next
    return hasMore ? SWEEP.pause : INTERVAL.usual
  }

  /** Answers a query that waited for the journal. `problem`: why the journal is not stored. */
  async #answerStored(query: StoredQuery, problem: string | null): Promise<void> {
    const { number } = query
    if (problem !== null) return this.#post({ number, problem })
    if (query.do === 'flush') return this.#post({ number, value: null })
    await this.#answer(number, async () =>
      query.do === 'spent' ? this.#bookkeeper.spentBy(query.process) : this.#bookkeeper.adjust(query.adjustment),
    )
  }

  async #answer(number: number, read: () => Promise<unknown>): Promise<void> {
    try {
      this.#post({ number, value: await read() })
    } catch (error) {
      this.#post({ number, problem: problemOf(error) })
    }
  }

  #close(): void {
    this.#bookkeeper.close()
    this.#port.close()
  }

  #post(message: FromLedgerThread): void {
    this.#port.postMessage(message)
  }
}
