/** Runs the bookkeeper in a thread: at intervals, on request, and until everything is stored. Loaded by `ledger-thread.mjs`. */
import type { MessagePort } from 'node:worker_threads'
import { problemOf } from '../sqlite/errors.ts'
import { Bookkeeper, type BookkeeperProgress } from './bookkeeper.ts'
import type { FromLedgerThread, LedgerThreadOptions, ToLedgerThread } from './messages.ts'
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

class LedgerThread {
  readonly #port: MessagePort
  readonly #bookkeeper: Bookkeeper
  #limits: UsageLimits
  #isRunning = false
  #timer: NodeJS.Timeout | undefined
  /** Queries that wait until the journal is stored. */
  #flushes: number[] = []
  #sweepAt = 0
  #reported: BookkeeperProgress | null = null
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
        this.#flushes.push(message.number)
        return this.run()
      case 'sums':
        return void this.#sums(message.number, message.since)
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
    const flushes = this.#flushes
    this.#flushes = []
    const isClosing = this.#isClosing
    const hasMore = await this.#bookkeeper.step()
    const { problem } = this.#bookkeeper
    this.#reportProgress(flushes.length > 0)
    if (hasMore) this.#flushes.unshift(...flushes)
    else for (const number of flushes) this.#post(problem === null ? { number, value: null } : { number, problem })
    this.#isRunning = false
    if (isClosing && !hasMore) return this.#close()
    // Records and messages that have come meanwhile are served first.
    const isDue = this.#flushes.length > 0 || this.#isClosing || hasMore
    this.#timer = setTimeout(() => this.run(), isDue ? 0 : this.#pause(problem))
  }

  #reportProgress(isDue: boolean): void {
    const { progress } = this.#bookkeeper
    const now = performance.now()
    if (progress === this.#reported || (now < this.#reportAt && !isDue)) return
    this.#reported = progress
    this.#reportAt = now + PROGRESS
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

  async #sums(number: number, since: number): Promise<void> {
    try {
      this.#post({ number, value: await this.#bookkeeper.sums(since) })
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
