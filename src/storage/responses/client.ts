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
import { type DatabaseThread, startThread, threadEnd } from '../thread/database-thread.ts'
import type { OnStoreTime } from '../thread/on-store-time.ts'
import type { Limits } from './database.ts'
import type { FromThread, Operation, StoreAnswer, StoreRead, StoreWrite, ThreadOptions, ToThread } from './messages.ts'

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
/** Minimum ms between two starts of a thread that has crashed. */
const RESTART = 1_000
/** ms after the start at which an existing database is opened, to delete expired responses. */
const OPENED_AFTER = 1_000
/** Limits of the queue: operations, and characters of responses. */
const QUEUE_LIMIT = { operations: 2_000, characters: 256 * 1_048_576 }
/** ms after which a client may retry a request that needs the store. */
const RETRY_AFTER = 5_000

/** Identifies this process among those that share the folder. A PID alone may repeat, such as 1 in each container. */
const PROCESS = `${process.pid}.${Math.round(performance.timeOrigin)}@${hostname()}`

const THREAD = new URL('./store-thread.mjs', import.meta.url)
/** Memory limits in MB. The events of a background response may have 128 million characters. */
const MEMORY = { maxOldGenerationSizeMb: 1_024, maxYoungGenerationSizeMb: 4 }

type Pending = {
  readonly operation: Operation
  readonly size: number
  /** In ms of the monotonic clock. */
  readonly since: number
  readonly resolve: (answer: StoreAnswer) => void
  timer: NodeJS.Timeout | null
  /** The operation has timed out and was answered; the thread's answer is still pending. */
  expired: boolean
}

export const threadedStore = (options: StoreOptions): ThreadedStore => {
  const client = new StoreClient(options)
  return {
    prepare: () => void client.start(),
    put: (response) => client.put(response),
    get: (id, owner) => client.read<StoredResponse | undefined>({ do: 'get', id, owner }),
    findByItem: (item, owner) => client.read<StoredResponse | undefined>({ do: 'holding', item, owner }),
    turns: (id, owner) => client.read<readonly StoredResponse[]>({ do: 'turns', id, owner }),
    delete: (id, owner) => client.read<boolean>({ do: 'delete', id, owner }),
    problem: () => client.problem,
    close: () => client.close(),
  }
}

class StoreClient {
  readonly #options: StoreOptions
  #thread: DatabaseThread | null = null
  #startedAt = Number.NEGATIVE_INFINITY
  /** Whether the thread has opened the database, or failed to. */
  #ready = false
  #closing = false
  #sentLimits: Limits | null = null
  readonly #pending = new Map<number, Pending>()
  #size = 0
  #number = 0
  /** Why writes have to wait, as last reported by the thread. */
  #waiting: string | undefined
  #problem: StoreProblem | null = null

  constructor(options: StoreOptions) {
    this.#options = options
    const open = () => access(join(options.folder, 'responses.db'), (missing) => !missing && void this.#open())
    setTimeout(open, OPENED_AFTER).unref()
  }

  get problem(): StoreProblem | null {
    return this.#problem
  }

  async put(response: StoredResponse): Promise<Failure | null> {
    const answer = await this.#ask({ do: 'put', response }, sizeOf(response))
    return 'problem' in answer ? failureOf('stored', answer.problem) : null
  }

  /** `T`: the thread's result for this operation. */
  async read<T>(operation: StoreRead | (StoreWrite & { readonly do: 'delete' })): Promise<Outcome<T>> {
    const answer = await this.#ask(operation, 0)
    if ('problem' in answer) return bad(failureOf(operation.do === 'delete' ? 'deleted' : 'read', answer.problem))
    return good(answer.value as T)
  }

  async #open(): Promise<void> {
    if (!this.#thread && !this.#closing) await this.read({ do: 'get', id: '', owner: '' })
  }

  #ask(asked: StoreRead | StoreWrite, size: number): Promise<StoreAnswer> {
    const operation: Operation = { ...asked, number: ++this.#number }
    const refuse = (problem: string): Promise<StoreAnswer> => {
      this.#degrade(problem)
      return Promise.resolve({ number: operation.number, problem })
    }
    if (this.#closing) return Promise.resolve({ number: operation.number, problem: 'the gateway is shutting down' })
    if (this.#pending.size >= QUEUE_LIMIT.operations || this.#size + size > QUEUE_LIMIT.characters)
      return refuse(`the disk is too slow: ${this.#pending.size} operations wait for it`)
    const problem = this.start()
    if (problem !== null) return refuse(problem)
    this.#sendLimits()
    return new Promise((resolve) => {
      const pending: Pending = { operation, size, since: performance.now(), resolve, timer: null, expired: false }
      this.#pending.set(operation.number, pending)
      this.#size += size
      this.#limit(pending)
      this.#post(operation)
    })
  }

  #post(message: ToThread): void {
    this.#thread?.postMessage(message)
  }

  #sendLimits(): void {
    const limits = this.#options.limits()
    if (limits === this.#sentLimits) return
    this.#sentLimits = limits
    this.#post({ do: 'limits', limits: limitsOf(limits) })
  }

  // ── Time limits ────────────────────────────────────────────────────────────────────────────────────────────────

  #limit(pending: Pending): void {
    if (pending.timer) clearTimeout(pending.timer)
    pending.timer = setTimeout(() => {
      // An answer that has arrived while the event loop was busy is read first.
      setImmediate(() => this.#expire(pending))
    }, LIMIT.operation)
  }

  #expire(pending: Pending): void {
    const { operation } = pending
    if (pending.expired || !this.#pending.has(operation.number)) return
    pending.expired = true
    // The start is over, too: the next operations have the time for themselves.
    this.#ready = true
    const problem = this.#waiting ?? `the disk did not answer within ${LIMIT.operation} ms`
    this.#degrade(problem)
    if (!isKept(operation)) this.#post({ do: 'cancel', number: operation.number })
    pending.resolve({ number: operation.number, problem })
  }

  // ── The thread's answers ───────────────────────────────────────────────────────────────────────────────────────

  #receive({ answers, waiting, recreated }: FromThread): void {
    this.#waiting = waiting
    if (recreated) this.#options.changed({ status: 'recreated' })
    for (const answer of answers) this.#settle(answer)
    if (this.#ready) return
    this.#ready = true
    for (const pending of this.#pending.values()) this.#limit(pending)
  }

  #settle(answer: StoreAnswer): void {
    const pending = this.#pending.get(answer.number)
    if (!pending) return
    this.#forget(pending)
    const { operation, since } = pending
    this.#options.onTime?.(operation.do, performance.now() - since)
    if (pending.expired) return
    if ('problem' in answer) this.#degrade(answer.problem)
    pending.resolve(answer)
  }

  #forget(pending: Pending): void {
    this.#pending.delete(pending.operation.number)
    this.#size -= pending.size
    if (pending.timer) clearTimeout(pending.timer)
  }

  // ── The thread ─────────────────────────────────────────────────────────────────────────────────────────────────

  /** Starts the thread unless it runs. Why it cannot, or null. */
  start(): string | null {
    if (this.#thread || this.#closing) return null
    if (performance.now() - this.#startedAt < RESTART) return 'its thread has ended'
    this.#startedAt = performance.now()
    this.#ready = false
    const { folder, limits } = this.#options
    this.#sentLimits = limits()
    const data: ThreadOptions = { folder, worker: PROCESS, limits: limitsOf(this.#sentLimits) }
    const thread = startThread<FromThread>({
      file: THREAD,
      data,
      memory: MEMORY,
      onMessage: (message) => this.#receive(message),
      onExit: (ended, problem) => this.#lost(ended, problem),
    })
    if (typeof thread === 'string') return thread
    this.#thread = thread
    return null
  }

  #lost(thread: DatabaseThread, problem: string): void {
    if (thread !== this.#thread) return
    this.#thread = null
    const left = [...this.#pending.values()]
    for (const pending of left) {
      this.#forget(pending)
      if (!pending.expired) pending.resolve({ number: pending.operation.number, problem })
    }
    if (!this.#closing) this.#degrade(problem)
  }

  async close(): Promise<void> {
    this.#closing = true
    if (!this.#thread) return
    this.#post({ do: 'close' })
    await threadEnd(this.#thread, LIMIT.close)
  }

  // ── Health ─────────────────────────────────────────────────────────────────────────────────────────────────────

  #degrade(reason: string): void {
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
    if (this.#closing) return
    const answer = await this.#ask({ do: 'probe' }, 0)
    if (this.#closing) return
    if ('problem' in answer) return this.#probeLater()
    this.#problem = null
    this.#options.changed({ status: 'ok' })
  }
}

/**
 * A response that is stored late is kept: its client may continue it, and the next answer, which depends on it, may be stored
 * in time. A background response is refused and never runs.
 */
const isKept = (operation: Operation): boolean => operation.do === 'put' && operation.response.status !== 'queued'

const limitsOf = ({ keepDays, maxMegabytes }: Limits): Limits => ({ keepDays, maxMegabytes })

const sizeOf = ({ input, response, events }: StoredResponse): number =>
  input.length + response.length + (events?.length ?? 0)

const failureOf = (verb: 'stored' | 'read' | 'deleted', problem: string): Failure =>
  fail(
    'storage',
    `The response cannot be ${verb}: ${problem}. Check the data folder of the gateway (DATA_DIR), then retry.`,
    { retryAfter: RETRY_AFTER },
  )
