/**
 * The bookkeeper for the event loop: it starts the thread that stores the journal, and starts it again if it ends. A slow,
 * full or missing disk blocks nothing but that thread.
 */
import { getCompileCacheDir } from 'node:module'
import type { Worker } from 'node:worker_threads'
import { problemOf } from '../sqlite/errors.ts'
import type { BookkeeperEvent, BookkeeperOptions, BookkeeperProgress } from './bookkeeper.ts'
import type { FromLedgerThread, LedgerAnswer, LedgerQuery, LedgerThreadOptions, ToLedgerThread } from './messages.ts'
import type { UsageLimits } from './usage-database.ts'
import type { BudgetSumRow } from './usage-schema.ts'

export type LedgerClientOptions = BookkeeperOptions & {
  readonly limits: () => UsageLimits
  readonly report: (event: BookkeeperEvent) => void
}

const THREAD = new URL('./ledger-thread.mjs', import.meta.url)
/** Memory limits in MB. */
const MEMORY = { maxOldGenerationSizeMb: 512, maxYoungGenerationSizeMb: 16 }
/** ms until a thread that has ended is started again. */
const RESTART = 1_000
/** ms for the thread to store the rest of the journal. It stores what is left at the next start. */
const CLOSE = 5_000

type LedgerResult = { readonly value: unknown } | { readonly problem: string }

export class LedgerClient {
  readonly #options: LedgerClientOptions
  #worker: Worker | null = null
  #restart: NodeJS.Timeout | null = null
  #isClosing = false
  #number = 0
  readonly #pending = new Map<number, (result: LedgerResult) => void>()
  #problem: string | null = null
  #progress: BookkeeperProgress = { records: 0, orphans: 0, lagMs: 0 }

  constructor(options: LedgerClientOptions) {
    this.#options = options
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
    if (this.#worker || this.#isClosing) return
    if (this.#restart) clearTimeout(this.#restart)
    this.#restart = null
    const { limits, report, ...options } = this.#options
    const workerData: LedgerThreadOptions & { readonly compileCache: string | undefined } = {
      ...options,
      limits: limits(),
      compileCache: getCompileCacheDir(),
    }
    try {
      // Loaded only with a ledger. The thread gets no environment variables, which may contain keys.
      const { Worker } = process.getBuiltinModule('node:worker_threads')
      const worker = new Worker(THREAD, { workerData, env: {}, execArgv: [], resourceLimits: MEMORY })
      worker.on('message', (message: FromLedgerThread) => this.#receive(message))
      let problem = 'its thread has ended'
      worker.on('error', (error) => {
        problem = `its thread has ended: ${problemOf(error)}`
      })
      worker.on('exit', () => this.#lost(worker, problem))
      worker.unref()
      this.#worker = worker
    } catch (error) {
      // Node's permission model allows threads only with --allow-worker.
      this.#degrade(`its thread cannot start: ${problemOf(error)}`)
    }
  }

  /** Stores everything that is in the journal now. Returns why it cannot, or null. */
  async flush(): Promise<string | null> {
    const result = await this.#query({ do: 'flush', number: ++this.#number })
    return 'problem' in result ? result.problem : null
  }

  /** What budget counters have spent in periods that began at `since` (ms since 1970) or later; a text is the problem. */
  async sums(since: number): Promise<readonly BudgetSumRow[] | string> {
    const result = await this.#query({ do: 'sums', number: ++this.#number, since })
    return 'problem' in result ? result.problem : (result.value as readonly BudgetSumRow[])
  }

  /** Sends the current limits to the thread, and applies them. */
  limitsChanged(): void {
    this.#post({ do: 'limits', limits: this.#options.limits() })
  }

  /** Stores the rest of the journal and ends the thread, within 5 s. */
  async close(): Promise<void> {
    this.#isClosing = true
    if (this.#restart) clearTimeout(this.#restart)
    const worker = this.#worker
    if (!worker) return
    const exited = new Promise<void>((resolve) => worker.once('exit', () => resolve()))
    this.#post({ do: 'close' })
    const { promise: late, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, CLOSE)
    await Promise.race([exited, late])
    clearTimeout(timer)
    await worker.terminate()
  }

  #query(query: LedgerQuery): Promise<LedgerResult> {
    this.start()
    if (!this.#worker) return Promise.resolve({ problem: this.#problem ?? 'the gateway is shutting down' })
    const { promise, resolve } = Promise.withResolvers<LedgerResult>()
    this.#pending.set(query.number, resolve)
    this.#post(query)
    return promise
  }

  #post(message: ToLedgerThread): void {
    this.#worker?.postMessage(message)
  }

  #receive(message: FromLedgerThread): void {
    if ('number' in message) return this.#settle(message)
    if ('progress' in message) {
      this.#progress = message.progress
      return
    }
    if (message.event === 'degraded') return this.#degrade(message.reason)
    if (message.event === 'ok') {
      if (this.#problem === null) return
      this.#problem = null
    }
    this.#options.report(message)
  }

  #settle(answer: LedgerAnswer): void {
    this.#pending.get(answer.number)?.(answer)
    this.#pending.delete(answer.number)
  }

  #lost(worker: Worker, problem: string): void {
    if (worker !== this.#worker) return
    this.#worker = null
    for (const resolve of this.#pending.values()) resolve({ problem })
    this.#pending.clear()
    if (this.#isClosing) return
    this.#degrade(problem)
    this.#restart = setTimeout(() => this.start(), RESTART).unref()
  }

  #degrade(reason: string): void {
    const isNew = this.#problem === null
    this.#problem = reason
    if (isNew) this.#options.report({ event: 'degraded', reason })
  }
}
