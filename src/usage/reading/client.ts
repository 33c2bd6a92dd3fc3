/**
 * Queries of the usage ledger for the event loop. A thread with a read-only handle runs them one after the other: it starts
 * with the first query and ends when it is idle. A query that takes too long is ended with its thread, because SQLite cannot
 * be interrupted otherwise, and the next one gets a new thread.
 */
import { bad, type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import type { NodeIncident } from '../../core/incident.ts'
import { type DatabaseThread, startThread, threadEnd } from '../../storage/thread/database-thread.ts'
import { exportText } from './export-text.ts'
import type { FromReadingThread, NamedQuery, ReadingThreadOptions, ToReadingThread } from './messages.ts'
import type {
  Activity,
  ActivityQuery,
  AdjustmentEntry,
  AdjustmentsQuery,
  CursorValues,
  ExportQuery,
  Facets,
  FacetsQuery,
  Forecast,
  ForecastsQuery,
  FoundRequest,
  IncidentsQuery,
  Lanes,
  LanesQuery,
  ListPage,
  NamedId,
  NamedUsageReport,
  OngoingAttempts,
  OngoingQuery,
  ReadName,
  ReadQuery,
  ReadResult,
  RequestEntry,
  RequestQuery,
  RequestsPage,
  RequestsQuery,
  SharedQuery,
  Summary,
  SummaryQuery,
  UsageQuery,
} from './queries.ts'
import { SharedAnswers } from './shared-answers.ts'

export type UsageReaderOptions = Omit<ReadingThreadOptions, 'limit' | 'keepHours'> & {
  readonly keepHours: () => number
  /** ms since 1970. */
  readonly date: () => number
  /** Stores what is in the journal, before queries whose result should contain it. Returns the problem, or null. */
  readonly flush: () => Promise<string | null>
  /** Current names of keys and teams by ID. */
  readonly names: { readonly key: (id: string) => string | null; readonly team: (id: string) => string | null }
  /** ms per query; by default 5,000. */
  readonly limit?: number
  /** ms without queries after which the thread ends; by default a minute. */
  readonly idle?: number
}

/** The text of an export in parts; after a problem `read` fails. */
export type UsageExport = {
  /** The next part; null at the end. */
  readonly read: () => Promise<Outcome<string | null>>
}

const THREAD = new URL('./reading-thread.mjs', import.meta.url)
/** Memory limits in MB. */
const MEMORY = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 16 }
/** ms per query, and until an idle thread ends. */
const TIME = { limit: 5_000, idle: 60_000 }
/** ms that a query waits for its turn, and for the journal to be stored. */
const WAIT = { turn: 10_000, flush: 500, start: 20_000, close: 1_000 }
/** Queries that wait, and threads that were ended and still run the statement that took too long. */
const MOST = { waiting: 64, ending: 2 }
/** ms for which shared answers are used again at most. */
const REUSED = { state: 500, figures: 10_000 }
/** ms by which the end of a range may differ from the time of the query and still be now. */
const NOW = 5_000
/** ms after which a caller may retry. */
const RETRY_AFTER = 2_000

type WaitingQuery = {
  readonly read: NamedQuery
  readonly since: number
  readonly resolve: (result: Outcome<unknown>) => void
  /** Called with the ms that the query took. */
  readonly report: (ms: number) => void
}
type RunningQuery = Pick<WaitingQuery, 'resolve' | 'report'> & {
  readonly number: number
  readonly timer: NodeJS.Timeout
}

export class UsageReader {
  readonly #options: UsageReaderOptions
  readonly #limit: number
  #thread: DatabaseThread | null = null
  /** Whether the thread has answered a query. */
  #isReady = false
  /** Threads that were ended because of a slow query. */
  readonly #ending = new Set<DatabaseThread>()
  #waiting: WaitingQuery[] = []
  #running: RunningQuery | null = null
  #idle: NodeJS.Timeout | null = null
  #keepHours = 0
  #number = 0
  #isClosing = false
  readonly #shared = new SharedAnswers(() => performance.now())

  constructor(options: UsageReaderOptions) {
    this.#options = options
    this.#limit = options.limit ?? TIME.limit
  }

  async usage(query: UsageQuery): Promise<Outcome<NamedUsageReport>> {
    const found = await this.#readFresh('usage', query)
    if (!found.ok) return found
    const names = new Map<string, string>()
    for (const row of found.value.data)
      for (const kind of ['team', 'key'] as const) {
        const id = row[kind]
        const name = typeof id === 'string' ? this.#options.names[kind](id) : null
        if (typeof id === 'string' && name !== null) names.set(id, name)
      }
    return good({ ...found.value, names: Object.fromEntries(names) })
  }

  async requests(query: RequestsQuery): Promise<Outcome<RequestsPage>> {
    const page = query.after === null ? await this.#readShared('requests', query) : await this.#read('requests', query)
    return page.ok ? good(this.#withNames(page.value)) : page
  }

  async request(query: RequestQuery): Promise<Outcome<FoundRequest | null>> {
    const found = await this.#readFresh('request', query)
    return found.ok ? good(found.value && this.#named(found.value)) : found
  }

  facets(query: FacetsQuery): Promise<Outcome<Facets>> {
    return this.#read('facets', query)
  }

  summary(query: SummaryQuery): Promise<Outcome<Summary>> {
    return this.#readShared('summary', query)
  }

  lanes(query: LanesQuery): Promise<Outcome<Lanes>> {
    return this.#readFresh('lanes', query)
  }

  activity(query: ActivityQuery): Promise<Outcome<Activity>> {
    return this.#readShared('activity', query)
  }

  async running(query: OngoingQuery): Promise<Outcome<OngoingAttempts>> {
    const found = await this.#readShared('running', query)
    return found.ok ? good({ ...found.value, data: found.value.data.map((entry) => this.#named(entry)) }) : found
  }

  /** In the order of the budgets. */
  forecasts(query: ForecastsQuery): Promise<Outcome<readonly Forecast[]>> {
    return this.#read('forecasts', query)
  }

  adjustments(query: AdjustmentsQuery): Promise<Outcome<ListPage<AdjustmentEntry>>> {
    return this.#read('adjustments', query)
  }

  /** After those of this gateway that are recorded so far were stored. */
  incidents(query: IncidentsQuery): Promise<Outcome<readonly NodeIncident[]>> {
    return this.#readFresh('incidents', query)
  }

  /** Each part is read when the caller needs it, so that memory stays flat however slowly it is consumed. */
  export(query: Omit<ExportQuery, 'after'>): UsageExport {
    let after: CursorValues | null = null
    let isDone = false
    let isFirst = true
    const read = async (): Promise<Outcome<string | null>> => {
      while (!isDone) {
        const page = await (isFirst
          ? this.#readFresh('export', { ...query, after })
          : this.#read('export', { ...query, after }))
        if (!page.ok) return page
        isFirst = false
        after = page.value.next
        isDone = after === null
        const text = exportText(query.format, page.value, this.#options.names)
        if (text !== '') return good(text)
      }
      return good(null)
    }
    return { read }
  }

  /** Ends the thread; queries that wait fail. */
  async close(): Promise<void> {
    this.#isClosing = true
    for (const { resolve } of this.#waiting.splice(0)) resolve(bad(CLOSING))
    this.#stop(CLOSING)
    await this.#endThread()
  }

  // ── Queries ────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Reads, or returns what a reader of the same question received if the query allows it. */
  #readShared<Name extends ReadName>(
    name: Name,
    query: ReadQuery<Name> & SharedQuery,
  ): Promise<Outcome<ReadResult<Name>>> {
    if (!query.shared) return this.#readFresh(name, query)
    const question = questionOf(name, query, this.#options.date())
    const most = name === 'running' ? REUSED.state : REUSED.figures
    return this.#shared.get(question, most, (report) => this.#readFresh(name, query, report))
  }

  /** Reads after what is in the journal was stored, if that does not take long. */
  async #readFresh<Name extends ReadName>(
    name: Name,
    query: ReadQuery<Name>,
    report?: WaitingQuery['report'],
  ): Promise<Outcome<ReadResult<Name>>> {
    const { promise: late, resolve } = Promise.withResolvers<null>()
    const timer = setTimeout(resolve, WAIT.flush, null)
    await Promise.race([this.#options.flush(), late])
    clearTimeout(timer)
    return this.#read(name, query, report)
  }

  #read<Name extends ReadName>(
    name: Name,
    query: ReadQuery<Name>,
    report: WaitingQuery['report'] = () => {},
  ): Promise<Outcome<ReadResult<Name>>> {
    if (this.#isClosing) return Promise.resolve(bad(CLOSING))
    if (this.#waiting.length >= MOST.waiting)
      return Promise.resolve(bad(busy(`${MOST.waiting} queries of the usage data are waiting (limit ${MOST.waiting})`)))
    return new Promise((resolve) => {
      this.#waiting.push({
        // The name and the query belong together, which the signature ensures.
        read: { name, query } as NamedQuery,
        since: performance.now(),
        // The thread answers with the result of this query.
        resolve: (result) => resolve(result as Outcome<ReadResult<Name>>),
        report,
      })
      this.#next()
    })
  }

  #next(): void {
    if (this.#running || this.#isClosing) return
    const next = this.#waiting.shift()
    if (!next) {
      this.#thread?.unref()
      return this.#endWhenIdle()
    }
    const { read, since, resolve, report } = next
    const waited = performance.now() - since
    const failure = waited > WAIT.turn ? busy(`the query waited ${Math.round(waited)} ms for others`) : this.#start()
    if (failure) {
      resolve(bad(failure))
      return this.#next()
    }
    const number = ++this.#number
    // The thread checks the limit itself between statements; the rest is for a single one and for its start.
    const timer = setTimeout(() => this.#tooSlow(), this.#limit + (this.#isReady ? 0 : WAIT.start))
    timer.unref()
    this.#running = { number, resolve, report, timer }
    // The result is waited for, also by a process that does nothing else.
    this.#thread?.ref()
    this.#post({ do: 'read', number, now: this.#options.date(), read })
  }

  #receive(message: FromReadingThread): void {
    this.#isReady = true
    const running = this.#running
    if (running?.number !== message.number) return
    if ('ms' in message) running.report(message.ms)
    this.#settle(
      'value' in message
        ? good(message.value)
        : bad(message.slow ? slow(this.#limit) : this.#unavailable(message.problem)),
    )
    this.#next()
  }

  #settle(result: Outcome<unknown>): void {
    if (!this.#running) return
    clearTimeout(this.#running.timer)
    this.#running.resolve(result)
    this.#running = null
  }

  #tooSlow(): void {
    this.#stop(slow(this.#limit))
    this.#next()
  }

  /** Ends the thread and the query that it runs. */
  #stop(failure: Failure): void {
    const thread = this.#thread
    if (this.#running && thread) {
      this.#thread = null
      this.#ending.add(thread)
      // Resolved only when the statement has ended.
      void thread.terminate()
    }
    this.#settle(bad(failure))
  }

  // ── The thread ─────────────────────────────────────────────────────────────────────────────────────────────────

  #start(): Failure | null {
    if (this.#idle) clearTimeout(this.#idle)
    this.#idle = null
    const keepHours = this.#options.keepHours()
    if (keepHours !== this.#keepHours) void this.#endThread()
    this.#keepHours = keepHours
    if (this.#thread) return null
    if (this.#ending.size >= MOST.ending)
      return busy(`${this.#ending.size} queries that took too long have not ended yet`)
    const { folder, database, timezone } = this.#options
    const data: ReadingThreadOptions = { folder, database, timezone, keepHours, limit: this.#limit }
    const thread = startThread<FromReadingThread>({
      file: THREAD,
      data,
      memory: MEMORY,
      onMessage: (message) => this.#receive(message),
      onExit: (ended, problem) => this.#lost(ended, problem),
    })
    if (typeof thread === 'string') return this.#unavailable(thread)
    this.#isReady = false
    this.#thread = thread
    return null
  }

  #unavailable(problem: string): Failure {
    return unavailable(problem, this.#options.database !== null)
  }

  #lost(thread: DatabaseThread, problem: string): void {
    this.#ending.delete(thread)
    if (thread !== this.#thread) return
    this.#thread = null
    this.#settle(bad(this.#unavailable(problem)))
    this.#next()
  }

  #endWhenIdle(): void {
    this.#idle ??= setTimeout(() => {
      this.#idle = null
      void this.#endThread()
    }, this.#options.idle ?? TIME.idle).unref()
  }

  async #endThread(): Promise<void> {
    if (this.#idle) clearTimeout(this.#idle)
    this.#idle = null
    const thread = this.#thread
    if (!thread) return
    this.#post({ do: 'close' })
    this.#thread = null
    await threadEnd(thread, WAIT.close)
  }

  #post(message: ToReadingThread): void {
    this.#thread?.postMessage(message)
  }

  // ── Names ──────────────────────────────────────────────────────────────────────────────────────────────────────

  #withNames<Page extends ListPage<RequestEntry>>(page: Page): Page {
    return { ...page, data: page.data.map((entry) => this.#named(entry)) }
  }

  #named<Entry extends Pick<RequestEntry, 'key' | 'team'>>(entry: Entry): Entry {
    const { key, team } = this.#options.names
    const named = (of: NamedId | null, name: (id: string) => string | null) => of && { id: of.id, name: name(of.id) }
    return { ...entry, key: named(entry.key, key), team: named(entry.team, team) }
  }
}

/** All that decides an answer. Ranges of about the same length that end now are the same. */
const questionOf = (name: ReadName, query: ReadQuery, now: number): string => {
  if (!('from' in query) || Math.abs(query.to - now) > NOW) return JSON.stringify([name, query])
  const { from, to, ...rest } = query
  return JSON.stringify([name, rest, Math.round(100 * Math.log(to - from))])
}

const CLOSING = fail('shutdown', 'The gateway is shutting down. Retry on another one, or after its start.')

const slow = (limit: number): Failure =>
  fail(
    'deadline',
    `The query of the usage data took longer than ${limit / 1_000} s. Narrow the range (from, to) or add filters.`,
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
