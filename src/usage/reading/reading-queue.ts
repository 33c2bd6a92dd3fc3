/**
 * The thread that reads the usage ledger, for the event loop: it starts with the first query and ends when it is idle. Several
 * queries run in it at a time, and those that come then wait. A statement that takes too long is ended with the thread, because
 * SQLite cannot be interrupted otherwise; the other queries run again in a new one.
 */
import { bad, type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import { ThreadClient } from '../../storage/thread/connect-thread.ts'
import type { NamedQuery, ReadingThreadOptions } from './named-query.ts'
import type { program } from './reading-thread.ts'

export type ReadingQueueOptions = Omit<ReadingThreadOptions, 'limit' | 'within'> & {
  readonly keepHours: () => number
  /** ms since 1970. */
  readonly date: () => number
  /** ms per query; by default 5,000. */
  readonly limit?: number
  /** ms after which a query that can be continued is answered with what it has found; by default 1,000. */
  readonly within?: number
  /** ms without queries after which the thread ends; by default a minute. */
  readonly idle?: number
}

const PROGRAM = new URL('./reading-thread.ts', import.meta.url)
/** Memory limits in MB. */
const MEMORY = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 16 }
/** ms per query, per answer of one that can be continued, and until an idle thread ends. */
const TIME = { limit: 5_000, within: 1_000, idle: 60_000 }
/** ms that a query waits for its turn. */
const WAIT = { turn: 10_000, start: 20_000, close: 1_000 }
/** Queries that run, that wait, and threads that were ended and still run the statement that took too long. */
const MOST = { running: 4, waiting: 64, ending: 2 }
/** ms after which a caller may retry. */
const RETRY_AFTER = 2_000

type WaitingQuery = {
  readonly read: NamedQuery
  readonly since: number
  readonly resolve: (result: Outcome<unknown>) => void
  /** Called with the ms that the query took. */
  readonly report: (ms: number) => void
}

export class ReadingQueue {
  readonly #options: ReadingQueueOptions
  readonly #limit: number
  readonly #thread: ThreadClient<typeof program>
  #waiting: WaitingQuery[] = []
  #running = 0
  /** The thread that runs has answered a query, so that its database is open. */
  #hasAnswered = false
  /** Threads that were ended because of a statement. */
  #terminated = 0
  #idle: NodeJS.Timeout | null = null
  #isClosing = false

  constructor(options: ReadingQueueOptions) {
    this.#options = options
    this.#limit = options.limit ?? TIME.limit
    const { folder, database, timezone, within = TIME.within } = options
    this.#thread = new ThreadClient({
      program: PROGRAM,
      data: () => {
        this.#hasAnswered = false
        return { folder, database, timezone, limit: this.#limit, within }
      },
      memory: MEMORY,
      restart: 'when called',
    })
  }

  /** Runs a query when it is its turn. */
  read(read: NamedQuery, report: WaitingQuery['report']): Promise<Outcome<unknown>> {
    if (this.#isClosing) return Promise.resolve(bad(CLOSING))
    if (this.#waiting.length >= MOST.waiting)
      return Promise.resolve(bad(busy(`${MOST.waiting} queries of the usage data are waiting (limit ${MOST.waiting})`)))
    return new Promise((resolve) => {
      this.#waiting.push({ read, since: performance.now(), resolve, report })
      this.#next()
    })
  }

  /** Ends the thread; queries that wait fail. */
  async close(): Promise<void> {
    this.#isClosing = true
    for (const { resolve } of this.#waiting.splice(0)) resolve(bad(CLOSING))
    if (this.#idle) clearTimeout(this.#idle)
    if (this.#running > 0) this.#thread.terminate('the gateway is shutting down')
    await this.#thread.close(WAIT.close)
  }

  #next(): void {
    if (this.#running >= MOST.running || this.#isClosing) return
    const next = this.#waiting.shift()
    if (next) void this.#serve(next)
    else if (this.#running === 0) this.#endWhenIdle()
  }

  async #serve({ read, since, resolve, report }: WaitingQuery): Promise<void> {
    this.#running++
    if (this.#idle) clearTimeout(this.#idle)
    this.#idle = null
    const waited = performance.now() - since
    const failure = waited > WAIT.turn ? busy(`the query waited ${Math.round(waited)} ms for others`) : this.#obstacle()
    resolve(failure ? bad(failure) : await this.#run(read, report))
    this.#running--
    this.#next()
  }

  /** Why the thread cannot run a query, or null. */
  #obstacle(): Failure | null {
    const { isRunning, ending } = this.#thread
    return isRunning || ending < MOST.ending ? null : busy(`${ending} queries that took too long have not ended yet`)
  }

  async #run(read: NamedQuery, report: WaitingQuery['report']): Promise<Outcome<unknown>> {
    const { date, keepHours, database } = this.#options
    const isOpen = this.#thread.isRunning && this.#hasAnswered
    // The thread checks the limit itself between statements; the rest is for a single one and for its start.
    const limit = this.#limit + (isOpen ? 0 : WAIT.start)
    const terminated = this.#terminated
    const result = await this.#thread.call('read', { now: date(), keepHours: keepHours(), read }, { limit })
    if (this.#isClosing) return bad(CLOSING)
    if (!('cause' in result)) this.#hasAnswered = true
    if ('value' in result && 'ms' in result.value) {
      report(result.value.ms)
      return good(result.value.value)
    }
    if ('value' in result) return bad(slow(this.#limit))
    if ('cause' in result && this.#terminated > terminated) {
      // Another query was too slow, and this one was in its thread, or was late because of it.
      const obstacle = this.#obstacle()
      return obstacle ? bad(obstacle) : this.#run(read, report)
    }
    if (!('cause' in result) || result.cause !== 'late') return bad(unavailable(result.problem, database !== null))
    this.#terminated++
    this.#thread.terminate('a query took too long')
    return bad(slow(this.#limit))
  }

  #endWhenIdle(): void {
    this.#idle ??= setTimeout(() => {
      this.#idle = null
      void this.#thread.end(WAIT.close)
    }, this.#options.idle ?? TIME.idle).unref()
  }
}

const CLOSING = fail('shutdown', 'The gateway is shutting down. Retry on another one, or after its start.')

const slow = (limit: number): Failure =>
  fail(
    'deadline',
    `The query of the usage data took longer than ${limit / 1_000} s. Narrow the range (from, to), add filters, or repeat it: a report of usage continues where it was.`,
  )

const busy = (problem: string): Failure =>
  fail('busy', `The usage data cannot be read now: ${problem}. Retry in a few seconds.`, { retryAfter: RETRY_AFTER })

const unavailable = (problem: string, isShared: boolean): Failure =>
  fail(
    'storage',
    `The usage data cannot be read: ${problem}. Check ${isShared ? 'the database (DATABASE_URL)' : 'the data folder of the gateway (DATA_DIR)'}, then retry.`,
    {
      retryAfter: RETRY_AFTER,
    },
  )
