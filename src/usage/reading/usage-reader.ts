/**
 * Queries of the usage ledger for the event loop. A thread with a read-only handle runs them one after the other: it starts
 * with the first query and ends when it is idle. A query that takes too long is ended with its thread, because SQLite cannot
 * be interrupted otherwise, and the next one gets a new thread.
 */
import { bad, type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import type { NodeIncident } from '../../core/incident.ts'
import { ThreadClient } from '../../storage/thread/connect-thread.ts'
import { exportText } from './export-text.ts'
import type { NamedQuery, ReadingThreadOptions } from './named-query.ts'
import type {
  Activity,
  ActivityQuery,
  AdjustmentEntry,
  AdjustmentsQuery,
  CursorValues,
  EndUserReport,
  EndUsersQuery,
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
import type { program } from './reading-thread.ts'
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

const PROGRAM = new URL('./reading-thread.ts', import.meta.url)
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

export class UsageReader {
  readonly #options: UsageReaderOptions
  readonly #limit: number
  readonly #thread: ThreadClient<typeof program>
  #waiting: WaitingQuery[] = []
  #isRunning = false
  /** The thread that runs has answered a query, so that its database is open. */
  #hasAnswered = false
  #idle: NodeJS.Timeout | null = null
  #keepHours = 0
  #isClosing = false
  readonly #shared = new SharedAnswers(() => performance.now())

  constructor(options: UsageReaderOptions) {
    this.#options = options
    this.#limit = options.limit ?? TIME.limit
    const { folder, database, timezone } = options
    this.#thread = new ThreadClient({
      program: PROGRAM,
      data: () => {
        this.#hasAnswered = false
        return { folder, database, timezone, keepHours: this.#keepHours, limit: this.#limit }
      },
      memory: MEMORY,
      restart: 'when called',
    })
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

  endUsers(query: EndUsersQuery): Promise<Outcome<EndUserReport>> {
    return this.#readFresh('end_users', query)
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
    if (this.#idle) clearTimeout(this.#idle)
    if (this.#isRunning) this.#thread.terminate('the gateway is shutting down')
    await this.#thread.close(WAIT.close)
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
      void this.#next()
    })
  }

  async #next(): Promise<void> {
    if (this.#isRunning || this.#isClosing) return
    const next = this.#waiting.shift()
    if (!next) return this.#endWhenIdle()
    this.#isRunning = true
    const { read, since, resolve, report } = next
    const waited = performance.now() - since
    const failure = waited > WAIT.turn ? busy(`the query waited ${Math.round(waited)} ms for others`) : this.#prepare()
    resolve(failure ? bad(failure) : await this.#run(read, report))
    this.#isRunning = false
    void this.#next()
  }

  async #run(read: NamedQuery, report: WaitingQuery['report']): Promise<Outcome<unknown>> {
    const isOpen = this.#thread.isRunning && this.#hasAnswered
    // The thread checks the limit itself between statements; the rest is for a single one and for its start.
    const limit = this.#limit + (isOpen ? 0 : WAIT.start)
    const result = await this.#thread.call('read', { now: this.#options.date(), read }, { limit })
    if (this.#isClosing) return bad(CLOSING)
    if (!('cause' in result)) this.#hasAnswered = true
    if ('value' in result && 'ms' in result.value) {
      report(result.value.ms)
      return good(result.value.value)
    }
    const isLate = 'cause' in result && result.cause === 'late'
    if (isLate) this.#thread.terminate('the query took too long')
    if (isLate || 'value' in result) return bad(slow(this.#limit))
    return bad(unavailable(result.problem, this.#options.database !== null))
  }

  // ── The thread ─────────────────────────────────────────────────────────────────────────────────────────────────

  /** Makes the thread ready for a query; the failure is why it cannot run one. */
  #prepare(): Failure | null {
    if (this.#idle) clearTimeout(this.#idle)
    this.#idle = null
    const keepHours = this.#options.keepHours()
    if (keepHours !== this.#keepHours) void this.#thread.end(WAIT.close)
    this.#keepHours = keepHours
    const { isRunning, ending } = this.#thread
    return isRunning || ending < MOST.ending ? null : busy(`${ending} queries that took too long have not ended yet`)
  }

  #endWhenIdle(): void {
    this.#idle ??= setTimeout(() => {
      this.#idle = null
      void this.#thread.end(WAIT.close)
    }, this.#options.idle ?? TIME.idle).unref()
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
