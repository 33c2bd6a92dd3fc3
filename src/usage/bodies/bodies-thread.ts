/** Redacts and stores the bodies of calls in a thread. */
import { finderOf } from '../../policy/guards/finders/find-texts.ts'
import type { Finder } from '../../policy/guards/finders/finder.ts'
import { BodiesDatabase, type StoredCall } from './bodies-database.ts'
import type {
  BodiesQuery,
  BodiesRules,
  BodiesThreadOptions,
  MarkedQuery,
  RawCall,
  TextQuery,
} from './recorded-calls.ts'
import { storedBody, storedHeaders, storedResponse } from './stored-body.ts'

/** ms between two batches of a sweep, and between two sweeps. */
const SWEEP = { pause: 20, next: 3_600_000 }
/** ms of a search, for which calls wait to be stored. */
const SEARCH = 100
/** Calls stored in one transaction. */
const BATCH = 50

export const program = (options: BodiesThreadOptions) => new BodiesThread(options)

/** A call to store, or a query. `done`: what is left of it, once the calls of its batch are stored. */
type Waiting = {
  readonly call?: RawCall
  readonly done: (database: BodiesDatabase) => void
  readonly reject: (error: unknown) => void
}

class BodiesThread {
  readonly #folder: string
  #rules: BodiesRules
  #redact: Finder
  #database: BodiesDatabase | null = null
  #waiting: Waiting[] = []
  #isRunning = false
  readonly #closed = Promise.withResolvers<void>()
  #isClosing = false
  #sweepAt = 0
  #timer: NodeJS.Timeout | undefined

  readonly methods = {
    put: (call: RawCall) => this.#wait(() => null, call),
    read: (query: BodiesQuery) => this.#wait((database) => database.find(query)),
    kept: (query: MarkedQuery) => this.#wait((database) => database.kept(query)),
    search: (query: TextQuery) =>
      this.#wait((database) => {
        const end = performance.now() + SEARCH
        return database.search(query, () => performance.now() > end)
      }),
    /** Applies changed rules. */
    rules: (rules: BodiesRules): void => {
      this.#rules = rules
      this.#redact = finderOfRules(rules)
      this.#sweepAt = 0
      this.#schedule()
    },
  }

  constructor({ folder, rules }: BodiesThreadOptions) {
    this.#folder = folder
    this.#rules = rules
    this.#redact = finderOfRules(rules)
    this.#schedule()
  }

  /** Stores the rest. */
  close(): Promise<void> {
    this.#isClosing = true
    this.#schedule()
    return this.#closed.promise
  }

  #wait<Result>(read: (database: BodiesDatabase) => Result, call?: RawCall): Promise<Result> {
    const { promise, resolve, reject } = Promise.withResolvers<Result>()
    this.#waiting.push({ ...(call && { call }), done: (database) => resolve(read(database)), reject })
    this.#schedule()
    return promise
  }

  #schedule(ms = 0): void {
    if (this.#isRunning) return
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => void this.#run(), ms)
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    const batch = this.#waiting.splice(0, BATCH)
    try {
      await this.#serve(batch)
    } catch (error) {
      for (const { reject } of batch) reject(error)
      this.#close()
    }
    this.#isRunning = false
    if (this.#waiting.length > 0) return this.#schedule()
    if (this.#isClosing) return this.#end()
    this.#schedule(this.#sweep())
  }

  async #serve(batch: readonly Waiting[]): Promise<void> {
    if (this.#database?.moved()) this.#close()
    this.#database ??= await BodiesDatabase.open(this.#folder)
    const database = this.#database
    const calls = batch.flatMap(({ call }) => (call ? [this.#stored(call)] : []))
    if (calls.length > 0) database.store(calls)
    for (const { done } of batch) done(database)
    if (calls.length > 0 && database.isFull(this.#rules)) this.#sweepAt = 0
  }

  #stored({ id, received, team, key, path, headers, request, response, attempts }: RawCall): StoredCall {
    const redact = this.#redact
    const secrets = attempts.flatMap(({ secret }) => secret ?? [])
    return {
      id,
      received,
      team,
      key,
      bodies: {
        path,
        headers: storedHeaders(headers, redact),
        request: storedBody(request, redact),
        response: response && storedResponse(response, redact, secrets),
        attempts: attempts.map(({ secret, ...attempt }) => ({
          ...attempt,
          sent: storedHeaders(attempt.sent, redact, secrets),
          received: storedHeaders(attempt.received, redact, secrets),
          request: storedBody(attempt.request, redact, secret),
          answer: storedBody(attempt.answer, redact, secret),
        })),
      },
    }
  }

  /** Returns the ms until the next run. */
  #sweep(): number {
    const now = Date.now()
    if (now < this.#sweepAt) return this.#sweepAt - now
    try {
      if (this.#database?.sweep(this.#rules, now)) return SWEEP.pause
    } catch {
      // Another process may hold the lock. The next sweep deletes the rest.
      this.#close()
    }
    this.#sweepAt = now + SWEEP.next
    return SWEEP.next
  }

  #end(): void {
    clearTimeout(this.#timer)
    this.#close()
    this.#closed.resolve()
  }

  #close(): void {
    this.#database?.close()
    this.#database = null
  }
}

const finderOfRules = ({ redact, patterns, words }: BodiesRules): Finder => finderOf({ kinds: redact, patterns, words })
