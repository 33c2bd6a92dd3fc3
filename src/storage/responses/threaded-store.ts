/**
 * The response store for the event loop. Operations are sent to a thread that owns the database, so that a slow, locked,
 * full or missing disk does not block anything else. Each operation has a time limit, none waits for a store that is away, and the
 * queue is bounded. The thread starts with the first operation.
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
import { ThreadClient } from '../thread/connect-thread.ts'
import type { OnStoreTime } from '../thread/on-store-time.ts'
import { POSTGRES_THREAD } from '../thread/thread-part.ts'
import type { ThreadResult } from '../thread/thread-program.ts'
import { type AddedEvents, type EventsQuery, type Limits, type RunQuestion, sizeOf } from './store-queries.ts'
import type { program } from './store-thread.ts'
import { StoreWatch } from './store-watch.ts'

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
  /** Answers that processes with the same store share. Null: it is away, and no request waits for it. */
  readonly claims: () => AnswerClaims | null
  readonly problem: () => StoreProblem | null
  /** This process ends soon: it takes over nothing more. */
  readonly retire: () => void
  /** Commits queued writes and ends the thread, within 2 s. */
  readonly close: () => Promise<void>
}

/** Time limits in ms: of an operation of a store that answers others, of the end of the thread, and of its start. */
const LIMIT = { operation: 10_000, close: 2_000, start: 10_000 }
/** ms until a release is tried again. */
const RELEASE_AGAIN = 1_000
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

const WITHIN = { limit: LIMIT.operation }
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
    claims: () => (client.isAway ? null : client.claims),
    problem: () => client.problem,
    retire: () => client.retire(),
    close: () => client.close(),
  }
}

class StoreClient {
  readonly #options: StoreOptions
  readonly #thread: ThreadClient<typeof program>
  readonly #watch: StoreWatch
  readonly isShared: boolean
  #isClosing = false
  #sentSettings: StoreSettings | null = null
  /** Why writes have to wait, as last reported by the thread. */
  #waiting: string | null = null
  #problem: StoreProblem | null = null

  constructor(options: StoreOptions) {
    this.#options = options
    const { folder, database = null, onNews, onLost, onTime } = options
    this.isShared = database !== null
    const store = this.isShared ? 'Postgres' : 'the disk'
    this.#watch = new StoreWatch({
      now: () => performance.now(),
      later(ms, run) {
        const timer = setTimeout(run, ms).unref()
        return () => clearTimeout(timer)
      },
      timeout: () => options.settings().responses.timeout,
      probe: (limit) => this.#ready().call('probe', null, { limit }),
      writesWait: () => this.#waiting,
      silent: (ms) => `${store} did not answer within ${ms} ms`,
      changed: (problem) => this.#changed(problem),
    })
    this.#thread = new ThreadClient({
      program: PROGRAM,
      memory: MEMORY,
      shared: this.isShared ? POSTGRES_THREAD : undefined,
      data: () => ({ folder, database, worker: PROCESS, limits: this.#limits() }),
      restart: 'always',
      startLimit: LIMIT.start,
      queue: QUEUE,
      events: {
        waiting: (problem) => {
          this.#waiting = problem
        },
        recreated: () => options.changed({ status: 'recreated' }),
        news: (news) => onNews?.(news),
        lost: (lost) => onLost?.(lost),
      },
      onProblem: (problem) => this.#watch.fail(problem),
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

  get isAway(): boolean {
    return this.#watch.problemOf('write') !== null
  }

  start(): void {
    this.#thread.start()
  }

  async put(response: StoredResponse): Promise<Failure | null> {
    const call = () => this.#ready().call('put', response, { ...WITHIN, weight: sizeOf(response) })
    const isQueued = response.status === 'queued'
    const stored = await (isQueued ? this.#result('stored', call) : this.#sent('stored', call))
    if (stored.ok) return null
    // It is refused: if it is stored nevertheless, it must not be seen in progress for ever.
    if (isQueued && this.#thread.isRunning) void this.#ready().call('delete', nameOf(response), WITHIN)
    return stored.failure
  }

  get(query: ResponseName): Promise<Outcome<StoredResponse | undefined>> {
    return this.#result('read', () => this.#ready().call('get', query, WITHIN))
  }

  findByItem(item: string, owner: string): Promise<Outcome<StoredResponse | undefined>> {
    return this.#result('read', () => this.#ready().call('holding', { item, owner }, WITHIN))
  }

  turns(query: ResponseName): Promise<Outcome<readonly StoredResponse[]>> {
    return this.#result('read', () => this.#ready().call('turns', query, WITHIN))
  }

  delete(query: ResponseName): Promise<Outcome<boolean>> {
    return this.#result('deleted', () => this.#ready().call('delete', query, WITHIN))
  }

  ask(question: RunQuestion): Promise<Outcome<boolean>> {
    return this.#result('stored', () => this.#ready().call('ask', question, WITHIN))
  }

  events(query: EventsQuery): Promise<Outcome<RunEvents>> {
    return this.#result('read', () => this.#ready().call('events', query, WITHIN))
  }

  async addEvents(events: AddedEvents): Promise<Failure | null> {
    const weight = events.lines.length
    const call = () => this.#ready().call('addEvents', events, { ...WITHIN, weight })
    return failureIn(await this.#result('stored', call))
  }

  readonly claims: AnswerClaims = {
    claim: async (name, fingerprint) => {
      const claim = await this.#result('stored', () => this.#ready().call('claim', { name, fingerprint }, WITHIN))
      // It may be claimed late, for a call that is made without it.
      if (!claim.ok && this.#thread.isRunning) void this.claims.release(name)
      return claim
    },
    keep: async (name, answer, ms) => {
      const weight = answer.body.length
      const call = () => this.#ready().call('keep', { name, answer, ms }, { ...WITHIN, weight })
      return failureIn(await this.#sent('stored', () => this.#orRelease(name, call())))
    },
    release: async (name) => {
      const call = () => this.#ready().call('release', name, WITHIN)
      return failureIn(await this.#sent('deleted', () => this.#orRelease(name, call())))
    },
  }

  /** A claim that is neither kept nor released would be held as long as this process lives. */
  async #orRelease<Value>(name: string, called: Promise<ThreadResult<Value>>): Promise<ThreadResult<Value>> {
    const result = await called
    const isRefused = 'cause' in result && result.cause === 'refused'
    if (isRefused && !this.#isClosing) setTimeout(() => void this.claims.release(name), RELEASE_AGAIN).unref()
    return result
  }

  retire(): void {
    this.#thread.post('retire', null)
  }

  async close(): Promise<void> {
    this.#isClosing = true
    this.#watch.close()
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

  /** Something that is of use late too: while the store is away it is sent, and not waited for. */
  #sent<Value>(verb: StoreVerb, call: () => Promise<ThreadResult<Value>>): Promise<Outcome<Value>> {
    if (this.isAway) void call()
    return this.#result(verb, call)
  }

  async #result<Value>(verb: StoreVerb, call: () => Promise<ThreadResult<Value>>): Promise<Outcome<Value>> {
    const result = await this.#watch.run(verb === 'read' ? 'read' : 'write', call)
    return 'value' in result ? good(result.value) : bad(failureOf(verb, result.problem, this.isShared))
  }

  #changed(reason: string | null): void {
    if (this.#isClosing) return
    const isKnown = this.#problem !== null
    this.#problem = reason === null ? null : { reason, since: this.#problem?.since ?? this.#options.date() }
    if (reason === null) this.#options.changed({ status: 'ok' })
    else if (!isKnown) this.#options.changed({ status: 'degraded', reason })
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
