/**
 * The response store for the event loop. Operations are sent to a thread that owns the database, so that a slow, locked,
 * full or missing disk does not block anything else. Each operation has a time limit, and the queue is bounded. The thread
 * starts with the first operation.
 */
import { access } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { bad, type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import type { ResponseStore, StoredResponse } from '../../core/stored-response.ts'
import { ThreadClient, type ThreadResult } from '../thread/connect-thread.ts'
import type { OnStoreTime } from '../thread/on-store-time.ts'
import type { Limits } from './database.ts'
import type { ResponseQuery } from './store-queries.ts'
import type { program } from './store-thread.ts'

export type StoreOptions = {
  readonly folder: string
  readonly limits: () => Limits
  /** ms since 1970. */
  readonly date: () => number
  readonly changed: (change: StoreChange) => void
  readonly onTime?: OnStoreTime
}

/** `recreated`: the files were deleted while in use, and new ones have been created. */
export type StoreChange =
  | { readonly status: 'degraded'; readonly reason: string }
  | { readonly status: 'ok' | 'recreated' }

/** Why responses cannot be stored or read, and since when (ms since 1970). `reason` contains no path. */
export type StoreProblem = { readonly reason: string; readonly since: number }

export type ThreadedStore = ResponseStore & {
  readonly problem: () => StoreProblem | null
  /** Commits queued writes and ends the thread, within 2 s. */
  readonly close: () => Promise<void>
}

/** Time limits in ms of an operation, and of the end of the thread. */
const LIMIT = { operation: 2_000, close: 2_000 }
/** ms between write attempts while the store fails. */
const PROBE = 1_000
/** ms after the start at which an existing database is opened, to delete expired responses. */
const OPENED_AFTER = 1_000
/** Limits of the queue: operations, and characters of responses. */
const QUEUE = {
  calls: 2_000,
  weight: 256 * 1_048_576,
  problem: (calls: number) => `the disk is too slow: ${calls} operations wait for it`,
}
/** ms after which a client may retry a request that needs the store. */
const RETRY_AFTER = 5_000

/** Identifies this process among those that share the folder. A PID alone may repeat, such as 1 in each container. */
const PROCESS = `${process.pid}.${Math.round(performance.timeOrigin)}@${hostname()}`

const PROGRAM = new URL('./store-thread.ts', import.meta.url)
/** Memory limits in MB. The events of a background response may have 128 million characters. */
const MEMORY = { maxOldGenerationSizeMb: 1_024, maxYoungGenerationSizeMb: 4 }

export const threadedStore = (options: StoreOptions): ThreadedStore => {
  const client = new StoreClient(options)
  return {
    prepare: () => client.start(),
    put: (response) => client.put(response),
    get: (id, owner) => client.get({ id, owner }),
    findByItem: (item, owner) => client.findByItem(item, owner),
    turns: (id, owner) => client.turns({ id, owner }),
    delete: (id, owner) => client.delete({ id, owner }),
    problem: () => client.problem,
    close: () => client.close(),
  }
}

const WITHIN = { limit: LIMIT.operation }

class StoreClient {
  readonly #options: StoreOptions
  readonly #thread: ThreadClient<typeof program>
  #isClosing = false
  #sentLimits: Limits | null = null
  /** Why writes have to wait, as last reported by the thread. */
  #waiting: string | null = null
  #problem: StoreProblem | null = null

  constructor(options: StoreOptions) {
    this.#options = options
    const { folder, onTime } = options
    this.#thread = new ThreadClient({
      program: PROGRAM,
      memory: MEMORY,
      data: () => ({ folder, worker: PROCESS, limits: limitsOf(this.#limits()) }),
      restart: 'always',
      startLimit: LIMIT.operation,
      queue: QUEUE,
      events: {
        waiting: (problem) => {
          this.#waiting = problem
        },
        recreated: () => options.changed({ status: 'recreated' }),
      },
      onProblem: (problem) => this.#degrade(problem),
      onTime,
    })
    const open = () => access(join(folder, 'responses.db'), (missing) => !missing && this.#open())
    setTimeout(open, OPENED_AFTER).unref()
  }

  get problem(): StoreProblem | null {
    return this.#problem
  }

  start(): void {
    this.#thread.start()
  }

  async put(response: StoredResponse): Promise<Failure | null> {
    const stored = await this.#result(
      'stored',
      this.#ready().call('put', response, { ...WITHIN, weight: sizeOf(response) }),
    )
    return stored.ok ? null : stored.failure
  }

  get(query: ResponseQuery): Promise<Outcome<StoredResponse | undefined>> {
    return this.#result('read', this.#ready().call('get', query, WITHIN))
  }

  findByItem(item: string, owner: string): Promise<Outcome<StoredResponse | undefined>> {
    return this.#result('read', this.#ready().call('holding', { item, owner }, WITHIN))
  }

  turns(query: ResponseQuery): Promise<Outcome<readonly StoredResponse[]>> {
    return this.#result('read', this.#ready().call('turns', query, WITHIN))
  }

  delete(query: ResponseQuery): Promise<Outcome<boolean>> {
    return this.#result('deleted', this.#ready().call('delete', query, WITHIN))
  }

  async close(): Promise<void> {
    this.#isClosing = true
    await this.#thread.close(LIMIT.close)
  }

  #open(): void {
    if (!this.#thread.isRunning && !this.#isClosing) void this.get({ id: '', owner: '' })
  }

  #limits(): Limits {
    this.#sentLimits = this.#options.limits()
    return this.#sentLimits
  }

  /** The thread, which knows the current limits. */
  #ready(): ThreadClient<typeof program> {
    if (this.#thread.isRunning && this.#options.limits() !== this.#sentLimits)
      this.#thread.post('limits', limitsOf(this.#limits()))
    return this.#thread
  }

  async #result<Value>(verb: StoreVerb, called: Promise<ThreadResult<Value>>): Promise<Outcome<Value>> {
    const result = await called
    if ('value' in result) return good(result.value)
    const isLate = 'cause' in result && result.cause === 'late'
    const problem = isLate ? (this.#waiting ?? `the disk did not answer within ${LIMIT.operation} ms`) : result.problem
    this.#degrade(problem)
    return bad(failureOf(verb, problem))
  }

  // ── Health ─────────────────────────────────────────────────────────────────────────────────────────────────────

  #degrade(reason: string): void {
    if (this.#isClosing) return
    if (this.#problem) {
      this.#problem = { ...this.#problem, reason }
      return
    }
    this.#problem = { reason, since: this.#options.date() }
    this.#options.changed({ status: 'degraded', reason })
    this.#probeLater()
  }

  #probeLater(): void {
    setTimeout(() => void this.#probe(), PROBE).unref()
  }

  async #probe(): Promise<void> {
    if (this.#isClosing) return
    const { ok } = await this.#result('stored', this.#ready().call('probe', null, WITHIN))
    if (this.#isClosing) return
    if (!ok) return this.#probeLater()
    this.#problem = null
    this.#options.changed({ status: 'ok' })
  }
}

type StoreVerb = 'stored' | 'read' | 'deleted'

const limitsOf = ({ keepDays, maxMegabytes }: Limits): Limits => ({ keepDays, maxMegabytes })

const sizeOf = ({ input, response, events }: StoredResponse): number =>
  input.length + response.length + (events?.length ?? 0)

const failureOf = (verb: StoreVerb, problem: string): Failure =>
  fail(
    'storage',
    `The response cannot be ${verb}: ${problem}. Check the data folder of the gateway (DATA_DIR), then retry.`,
    { retryAfter: RETRY_AFTER },
  )
