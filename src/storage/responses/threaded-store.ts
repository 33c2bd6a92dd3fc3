/**
 * The response store for the event loop. Operations are sent to a thread that owns the database, so that a slow, locked,
 * full or missing disk does not block anything else. Each operation has a time limit, and the queue is bounded. The thread
 * starts with the first operation.
 */
import { access } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { bad, type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import type { Settings } from '../../core/settings.ts'
import type { AnswerClaims } from '../../core/shared-answer.ts'
import type {
  LostRun,
  ResponseName,
  ResponseStore,
  RunEvents,
  RunNews,
  StoredResponse,
} from '../../core/stored-response.ts'
import type { SharedDatabase } from '../sql/shared-database.ts'
import { ThreadClient, type ThreadResult } from '../thread/connect-thread.ts'
import type { OnStoreTime } from '../thread/on-store-time.ts'
import { POSTGRES_THREAD } from '../thread/thread-part.ts'
import { type AddedEvents, type EventsQuery, type Limits, type RunQuestion, sizeOf } from './store-queries.ts'
import type { program } from './store-thread.ts'

type StoreSettings = Pick<Settings, 'responses' | 'idempotency'>

export type StoreOptions = {
  readonly folder: string
  /** Null: a file in the folder. */
  readonly database?: SharedDatabase | null
  /** Other processes ask for something of what this one runs. */
  readonly onNews?: (news: RunNews) => void
  /** This process is to run responses that others have left behind. */
  readonly onLost?: (lost: readonly LostRun[]) => void
  readonly settings: () => StoreSettings
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
  /** Answers that processes with the same store share. Null: it has failed for so long that no request waits for it. */
  readonly claims: () => AnswerClaims | null
  readonly problem: () => StoreProblem | null
  /** This process ends soon: it takes over nothing more. */
  readonly retire: () => void
  /** Commits queued writes and ends the thread, within 2 s. */
  readonly close: () => Promise<void>
}

/** Time limits in ms of an operation on the disk and in Postgres, of the end of the thread, and of its start with Postgres. */
const LIMIT = { operation: 2_000, shared: 5_000, close: 2_000, start: 10_000 }
/** ms of problems after which idempotency keys are no longer looked up. */
const FAILED_AFTER = 3_000
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
    handsOver: client.isShared,
    prepare: () => client.start(),
    put: (response) => client.put(response),
    get: (id, owner) => client.get({ id, owner }),
    findByItem: (item, owner) => client.findByItem(item, owner),
    turns: (id, owner) => client.turns({ id, owner }),
    delete: (id, owner) => client.delete({ id, owner }),
    ask: (id, owner, asked) => client.ask({ id, owner, asked }),
    events: (id, owner, from) => client.events({ id, owner, from }),
    addEvents: (id, owner, from, lines) => client.addEvents({ id, owner, from, lines }),
    claims: () => (client.hasFailed ? null : client.claims),
    problem: () => client.problem,
    retire: () => client.retire(),
    close: () => client.close(),
  }
}

class StoreClient {
  readonly #options: StoreOptions
  readonly #thread: ThreadClient<typeof program>
  readonly isShared: boolean
  /** The limit of an operation. */
  readonly #within: { readonly limit: number }
  #isClosing = false
  #sentSettings: StoreSettings | null = null
  /** Why writes have to wait, as last reported by the thread. */
  #waiting: string | null = null
  #problem: StoreProblem | null = null

  constructor(options: StoreOptions) {
    this.#options = options
    const { folder, database = null, onNews, onLost, onTime } = options
    this.isShared = database !== null
    this.#within = { limit: this.isShared ? LIMIT.shared : LIMIT.operation }
    this.#thread = new ThreadClient({
      program: PROGRAM,
      memory: MEMORY,
      shared: this.isShared ? POSTGRES_THREAD : undefined,
      data: () => ({ folder, database, worker: PROCESS, limits: this.#limits() }),
      restart: 'always',
      startLimit: this.isShared ? LIMIT.start : LIMIT.operation,
      queue: QUEUE,
      events: {
        waiting: (problem) => {
          this.#waiting = problem
        },
        recreated: () => options.changed({ status: 'recreated' }),
        news: (news) => onNews?.(news),
        lost: (lost) => onLost?.(lost),
      },
      onProblem: (problem) => this.#degrade(problem),
      onTime,
    })
    const open = () =>
      access(join(folder, 'responses.db'), (missing) => {
        if (!missing && !this.#thread.isRunning && !this.#isClosing) void this.get({ id: '', owner: '' })
      })
    if (this.isShared) setImmediate(() => this.start())
    else setTimeout(open, OPENED_AFTER).unref()
  }

  get problem(): StoreProblem | null {
    return this.#problem
  }

  /** For longer than one slow operation. */
  get hasFailed(): boolean {
    return this.#problem !== null && this.#options.date() - this.#problem.since > FAILED_AFTER
  }

  start(): void {
    this.#thread.start()
  }

  async put(response: StoredResponse): Promise<Failure | null> {
    const stored = await this.#result(
      'stored',
      this.#ready().call('put', response, { ...this.#within, weight: sizeOf(response) }),
    )
    if (stored.ok) return null
    // It is refused: if it is stored nevertheless, it must not be seen in progress for ever.
    if (response.status === 'queued' && this.#thread.isRunning)
      void this.#ready().call('delete', nameOf(response), this.#within)
    return stored.failure
  }

  get(query: ResponseName): Promise<Outcome<StoredResponse | undefined>> {
    return this.#result('read', this.#ready().call('get', query, this.#within))
  }

  findByItem(item: string, owner: string): Promise<Outcome<StoredResponse | undefined>> {
    return this.#result('read', this.#ready().call('holding', { item, owner }, this.#within))
  }

  turns(query: ResponseName): Promise<Outcome<readonly StoredResponse[]>> {
    return this.#result('read', this.#ready().call('turns', query, this.#within))
  }

  delete(query: ResponseName): Promise<Outcome<boolean>> {
    return this.#result('deleted', this.#ready().call('delete', query, this.#within))
  }

  ask(question: RunQuestion): Promise<Outcome<boolean>> {
    return this.#result('stored', this.#ready().call('ask', question, this.#within))
  }

  events(query: EventsQuery): Promise<Outcome<RunEvents>> {
    return this.#result('read', this.#ready().call('events', query, this.#within))
  }

  async addEvents(events: AddedEvents): Promise<Failure | null> {
    const weight = events.lines.length
    return failureIn(await this.#result('stored', this.#ready().call('addEvents', events, { ...this.#within, weight })))
  }

  readonly claims: AnswerClaims = {
    claim: async (name, fingerprint) => {
      const claim = await this.#result('stored', this.#ready().call('claim', { name, fingerprint }, this.#within))
      // It may be claimed late, for a call that is made without it.
      if (!claim.ok && this.#thread.isRunning) void this.claims.release(name)
      return claim
    },
    keep: async (name, answer, ms) => {
      const weight = answer.body.length
      const called = this.#ready().call('keep', { name, answer, ms }, { ...this.#within, weight })
      const kept = await this.#result('stored', this.#orRelease(name, called))
      return failureIn(kept)
    },
    release: async (name) =>
      failureIn(
        await this.#result('deleted', this.#orRelease(name, this.#ready().call('release', name, this.#within))),
      ),
  }

  /** A claim that is neither kept nor released would be held as long as this process lives. */
  async #orRelease<Value>(name: string, called: Promise<ThreadResult<Value>>): Promise<ThreadResult<Value>> {
    const result = await called
    const isRefused = 'cause' in result && result.cause === 'refused'
    if (isRefused && !this.#isClosing) setTimeout(() => void this.claims.release(name), PROBE).unref()
    return result
  }

  retire(): void {
    this.#thread.post('retire', null)
  }

  async close(): Promise<void> {
    this.#isClosing = true
    await this.#thread.close(LIMIT.close)
  }

  #limits(): Limits {
    const settings = this.#options.settings()
    this.#sentSettings = settings
    const { responses, idempotency } = settings
    return {
      keepDays: responses.keepDays,
      maxMegabytes: responses.maxMegabytes,
      answerMegabytes: idempotency.maxMegabytes,
    }
  }

  /** The thread, which knows the current limits. */
  #ready(): ThreadClient<typeof program> {
    if (this.#thread.isRunning && this.#options.settings() !== this.#sentSettings)
      this.#thread.post('limits', this.#limits())
    return this.#thread
  }

  async #result<Value>(verb: StoreVerb, called: Promise<ThreadResult<Value>>): Promise<Outcome<Value>> {
    const result = await called
    if ('value' in result) return good(result.value)
    const isLate = 'cause' in result && result.cause === 'late'
    const store = this.isShared ? 'Postgres' : 'the disk'
    const problem = isLate
      ? (this.#waiting ?? `${store} did not answer within ${this.#within.limit} ms`)
      : result.problem
    this.#degrade(problem)
    return bad(failureOf(verb, problem, this.isShared))
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
    const { ok } = await this.#result('stored', this.#ready().call('probe', null, this.#within))
    if (this.#isClosing) return
    if (!ok) return this.#probeLater()
    this.#problem = null
    this.#options.changed({ status: 'ok' })
  }
}

type StoreVerb = 'stored' | 'read' | 'deleted'

const nameOf = ({ id, owner }: StoredResponse): ResponseName => ({ id, owner })

const failureIn = (outcome: Outcome<unknown>): Failure | null => (outcome.ok ? null : outcome.failure)

const failureOf = (verb: StoreVerb, problem: string, isShared: boolean): Failure =>
  fail(
    'storage',
    `The response cannot be ${verb}: ${problem}. ${isShared ? 'Check the database of the gateway (DATABASE_URL)' : 'Check the data folder of the gateway (DATA_DIR)'}, then retry.`,
    { retryAfter: RETRY_AFTER },
  )
