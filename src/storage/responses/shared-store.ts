/**
 * The store of responses in Postgres, which several gateways share: answers, responses that run in the background, and answers
 * for an `Idempotency-Key`. Part of the store's thread, which shares its connections.
 */
import type { AnswerClaim } from '../../core/shared-answer.ts'
import type { StoredResponse } from '../../core/stored-response.ts'
import { SHARED_CONNECTIONS } from '../sql/postgres/connections.ts'
import { PostgresPool } from '../sql/postgres/pool.ts'
import { openShared } from '../sql/postgres/shared-schema.ts'
import type { SharedDatabase } from '../sql/shared-database.ts'
import type { Emit, ThreadCall } from '../thread/thread-program.ts'
import { isUnfinished } from './database.ts'
import { PutQueue } from './put-queue.ts'
import { ResponseRows } from './response-rows.ts'
import { SharedClaims } from './shared-claims.ts'
import { SharedProcesses } from './shared-processes.ts'
import { SHARED_RESPONSES } from './shared-schema.ts'
import type { ClaimQuery, KeptQuery, Limits, StoreEvents, StoreMethods, StoreThreadOptions } from './store-queries.ts'

/** ms between two beats, between two looks for processes that are gone, and while nothing was asked for so long. */
const TIMES = { beat: 1_000, look: 5_000, idle: 60_000 }
/** One gateway a minute deletes what has expired. */
const TAKE_SWEEP = "UPDATE sweep SET at = now() WHERE at < now() - interval '55 seconds'"

type SharedStoreOptions = StoreThreadOptions & { readonly database: SharedDatabase }

export class SharedStore {
  readonly #database: SharedDatabase
  readonly #emit: Emit<StoreEvents>
  readonly #pool: PostgresPool
  readonly #responses: ResponseRows
  readonly #claims: SharedClaims
  readonly #processes: SharedProcesses
  /** The tables are there; null: they are looked for with the next call. */
  #ready: Promise<void> | null = null
  readonly #puts = new PutQueue((responses) => this.#run(() => this.#transact(responses)))
  /** Names of claims whose release has failed. */
  readonly #unreleased = new Set<string>()
  #beating: NodeJS.Timeout | null = null
  #looking: NodeJS.Timeout | undefined
  /** When something was asked, in ms of the monotonic clock. */
  #usedAt = performance.now()
  #isClosing = false
  /** The next look is far. */
  #isIdle = false

  readonly methods: StoreMethods = {
    get: (query) => this.#run(() => this.#responses.get(query)),
    turns: (query) => this.#run(() => this.#responses.turns(query)),
    holding: (query) => this.#run(() => this.#responses.holding(query)),
    put: (response) => this.#puts.put(response),
    delete: (query) => this.#run(() => this.#responses.delete(query)),
    ask: ({ asked, ...name }) => this.#run(() => this.#responses.ask(name, asked)),
    events: (query) => this.#run(() => this.#responses.events(query)),
    addEvents: (events) => this.#run(() => this.#responses.addEvents(events)).then(nothing),
    claim: (query, call) => this.#claim(query, call),
    keep: (kept) => this.#run(() => this.#keep(kept)),
    release: (name) => this.#run(() => this.#release(name)),
    probe: () => this.#run(() => this.#pool.query('UPDATE sweep SET at = at WHERE false')).then(nothing),
    limits: (limits) => this.#limit(limits),
    retire: () => {
      this.#processes.isRetired = true
    },
  }

  constructor(options: SharedStoreOptions, emit: Emit<StoreEvents>) {
    this.#database = options.database
    this.#emit = emit
    this.#pool = new PostgresPool({
      url: options.database.url,
      schema: SHARED_RESPONSES.name,
      ...SHARED_CONNECTIONS,
    })
    this.#responses = new ResponseRows(this.#pool, options)
    this.#claims = new SharedClaims(this.#pool, options)
    this.#processes = new SharedProcesses(this.#pool, options.worker)
    this.#lookAfter(TIMES.look)
  }

  /** Writes what was received, and ends what is in progress. */
  async close(): Promise<void> {
    this.#isClosing = true
    clearTimeout(this.#looking)
    if (this.#beating) clearTimeout(this.#beating)
    await this.#processes.leave().catch(() => {})
    await this.#pool.close()
  }

  async #run<Value>(run: () => Promise<Value>): Promise<Value> {
    this.#usedAt = performance.now()
    if (this.#isIdle && !this.#isClosing) this.#lookAfter(TIMES.look)
    await this.open()
    return await run()
  }

  /** Connects, and creates the tables unless they are there. */
  open(): Promise<void> {
    const ready = this.#ready ?? this.#prepare()
    this.#ready = ready
    ready.catch(() => {
      this.#ready = null
    })
    return ready
  }

  async #prepare(): Promise<void> {
    const pool = await openShared(this.#database, { ...SHARED_RESPONSES, mayCreate: true }, SHARED_CONNECTIONS)
    await pool.close()
  }

  #limit(limits: Limits): void {
    this.#responses.limits = limits
    this.#claims.limits = limits
  }

  // ── Writes ─────────────────────────────────────────────────────────────────────────────────────────────────────

  async #transact(responses: readonly StoredResponse[]): Promise<void> {
    const runs = responses.filter(({ isRun }) => isRun)
    await this.#pool.transaction((tx) =>
      Promise.all([
        ...(runs.length > 0 ? [this.#processes.beatIn(tx)] : []),
        ...responses.map((response) => this.#responses.put(tx, response)),
      ]),
    )
    for (const run of runs)
      if (isUnfinished(run.status)) this.#processes.started(run)
      else this.#processes.ended(run)
    this.#beatLater()
  }

  // ── Answers for an Idempotency-Key ─────────────────────────────────────────────────────────────────────────────

  async #claim(query: ClaimQuery, call: ThreadCall): Promise<AnswerClaim> {
    const { name } = query
    let isLate = false
    call.onCancel = () => {
      isLate = true
    }
    const claim = await this.#run(() =>
      this.#pool.transaction(async (tx) => {
        const [, found] = await Promise.all([this.#processes.beatIn(tx), this.#claims.claim(tx, query)])
        return found
      }),
    )
    if (claim.state === 'claimed') {
      this.#processes.claimed(name)
      // The call was made without it.
      if (isLate) this.#unreleased.add(name)
      else this.#unreleased.delete(name)
    }
    this.#beatLater()
    return claim
  }

  async #keep(kept: KeptQuery): Promise<null> {
    try {
      await this.#claims.keep(kept)
      this.#processes.released(kept.name)
    } catch (error) {
      this.#unreleased.add(kept.name)
      throw error
    }
    return null
  }

  /** What cannot be released now is released with a later beat: this process goes on beating until then. */
  async #release(name: string): Promise<null> {
    this.#unreleased.add(name)
    await this.#claims.release(name)
    this.#unreleased.delete(name)
    this.#processes.released(name)
    return null
  }

  // ── Beats, and what ends ───────────────────────────────────────────────────────────────────────────────────────

  #beatLater(): void {
    if (this.#beating || this.#isClosing || !this.#processes.isBusy) return
    this.#beating = setTimeout(() => void this.#beat(), TIMES.beat)
  }

  async #beat(): Promise<void> {
    try {
      const news = await this.#processes.beat()
      if (news.stop.length + news.follow.length > 0) this.#emit('news', news)
      for (const name of this.#unreleased) await this.#release(name)
    } catch {
      // Postgres is away, which calls report. The others see no beat either, or count this process as gone.
    }
    this.#beating = null
    this.#beatLater()
  }

  async #look(): Promise<void> {
    this.#isIdle = false
    try {
      await this.open()
      await this.#processes.endGone(performance.now())
      const lost = await this.#processes.take()
      if (lost.length > 0) this.#emit('lost', lost)
      this.#beatLater()
      if ((await this.#pool.query(TAKE_SWEEP)).changes > 0) await this.#sweep()
    } catch {
      // As above.
    }
    if (this.#isClosing) return
    const isIdle = !this.#processes.isBusy && performance.now() - this.#usedAt > TIMES.idle
    this.#lookAfter(isIdle ? TIMES.idle : TIMES.look)
  }

  #lookAfter(ms: number): void {
    clearTimeout(this.#looking)
    this.#isIdle = ms > TIMES.look
    this.#looking = setTimeout(() => void this.#look(), ms)
  }

  async #sweep(): Promise<void> {
    await this.#claims.sweep()
    while (!this.#isClosing && (await this.#responses.sweep()));
    await this.#responses.makeRoom()
  }
}

const nothing = (): null => null
