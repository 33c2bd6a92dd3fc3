/** Queries of the usage ledger for the event loop: with the names of keys and teams, shared where that is allowed. */
import { good, type Outcome } from '../../core/failure.ts'
import type { NodeIncident } from '../../core/incident.ts'
import { exportText, type NamesById } from './export-text.ts'
import type { NamedQuery } from './named-query.ts'
import type {
  Activity,
  ActivityQuery,
  AdjustmentEntry,
  AdjustmentsQuery,
  CursorValues,
  DrillShape,
  DrillShapesQuery,
  EndUserReport,
  EndUsersQuery,
  ExportQuery,
  Facets,
  FacetsQuery,
  Forecast,
  ForecastsQuery,
  FoundRequest,
  GuardHits,
  GuardHitsQuery,
  IncidentsQuery,
  Lanes,
  LanesQuery,
  ListPage,
  NamedId,
  NamedUsageReport,
  NamesUsage,
  NameUsageQuery,
  OngoingAttempts,
  OngoingQuery,
  ReadName,
  ReadQuery,
  ReadResult,
  RequestEntry,
  RequestQuery,
  RequestsPage,
  RequestsQuery,
  RoutesTraffic,
  RouteTrafficQuery,
  SessionQuery,
  SessionsPage,
  SessionsQuery,
  SessionWithAgents,
  SharedQuery,
  Summary,
  SummaryQuery,
  UsageQuery,
} from './queries.ts'
import { ReadingQueue, type ReadingQueueOptions } from './reading-queue.ts'
import { SharedAnswers } from './shared-answers.ts'

export type UsageReaderOptions = ReadingQueueOptions & {
  /** Stores what is in the journal, before queries whose result should contain it. Returns the problem, or null. */
  readonly flush: () => Promise<string | null>
  /** Current names of keys and teams by ID. */
  readonly names: NamesById
}

/** The text of an export in parts; after a problem `read` fails. */
export type UsageExport = {
  /** The next part; null at the end. */
  readonly read: () => Promise<Outcome<string | null>>
}

/** ms that a query waits for the journal to be stored. */
const FLUSH = 500
/** ms for which shared answers are used again at most. */
const REUSED = { state: 500, figures: 10_000 }
/** ms by which the end of a range may differ from the time of the query and still be now. */
const NOW = 5_000

type TimeReport = (ms: number) => void

export class UsageReader {
  readonly #options: UsageReaderOptions
  readonly #queue: ReadingQueue
  readonly #shared = new SharedAnswers(() => performance.now())

  constructor(options: UsageReaderOptions) {
    this.#options = options
    this.#queue = new ReadingQueue(options)
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

  /** A report with the first of its rows, however long it takes to add them up. */
  async wholeUsage(query: UsageQuery): Promise<Outcome<NamedUsageReport>> {
    for (let after = query.after; ; after ??= []) {
      const found = await this.usage({ ...query, after })
      if (!found.ok || found.value.searched_until === null) return found
    }
  }

  async requests(query: RequestsQuery): Promise<Outcome<RequestsPage>> {
    const page = query.after === null ? await this.#readShared('requests', query) : await this.#read('requests', query)
    return page.ok ? good(withNames(page.value, this.#options.names)) : page
  }

  async request(query: RequestQuery): Promise<Outcome<FoundRequest | null>> {
    const found = await this.#readFresh('request', query)
    return found.ok ? good(found.value && named(found.value, this.#options.names)) : found
  }

  facets(query: FacetsQuery): Promise<Outcome<Facets>> {
    return this.#read('facets', query)
  }

  guardHits(query: GuardHitsQuery): Promise<Outcome<GuardHits>> {
    return this.#read('guard_hits', query)
  }

  endUsers(query: EndUsersQuery): Promise<Outcome<EndUserReport>> {
    return this.#readFresh('end_users', query)
  }

  async sessions(query: SessionsQuery): Promise<Outcome<SessionsPage>> {
    const page = await this.#readFresh('sessions', query)
    return page.ok ? good(withNames(page.value, this.#options.names)) : page
  }

  async session(query: SessionQuery): Promise<Outcome<SessionWithAgents | null>> {
    const found = await this.#readFresh('session', query)
    return found.ok ? good(found.value && named(found.value, this.#options.names)) : found
  }

  summary(query: SummaryQuery): Promise<Outcome<Summary>> {
    return this.#readShared('summary', query)
  }

  lanes(query: LanesQuery): Promise<Outcome<Lanes>> {
    return this.#readShared('lanes', query)
  }

  activity(query: ActivityQuery): Promise<Outcome<Activity>> {
    return this.#readShared('activity', query)
  }

  routeTraffic(query: RouteTrafficQuery): Promise<Outcome<RoutesTraffic>> {
    return this.#readShared('route_traffic', query)
  }

  namesUsage(query: NameUsageQuery): Promise<Outcome<NamesUsage>> {
    return this.#readShared('name_usage', query)
  }

  async running(query: OngoingQuery): Promise<Outcome<OngoingAttempts>> {
    const found = await this.#readShared('running', query)
    return found.ok
      ? good({ ...found.value, data: found.value.data.map((entry) => named(entry, this.#options.names)) })
      : found
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

  /** What requests of routes needed, the most frequent first. */
  drillShapes(query: DrillShapesQuery): Promise<Outcome<readonly DrillShape[]>> {
    return this.#readFresh('drill_shapes', query)
  }

  /** Each part is read when the caller needs it, so that memory stays flat however slowly it is consumed. */
  /** `start`: null, or the place behind which it begins, without a head. */
  export(query: Omit<ExportQuery, 'after'>, start: CursorValues | null = null): UsageExport {
    let after = start
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
  close(): Promise<void> {
    return this.#queue.close()
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
    report?: TimeReport,
  ): Promise<Outcome<ReadResult<Name>>> {
    const { promise: late, resolve } = Promise.withResolvers<null>()
    const timer = setTimeout(resolve, FLUSH, null)
    await Promise.race([this.#options.flush(), late])
    clearTimeout(timer)
    return this.#read(name, query, report)
  }

  async #read<Name extends ReadName>(
    name: Name,
    query: ReadQuery<Name>,
    report: TimeReport = () => {},
  ): Promise<Outcome<ReadResult<Name>>> {
    // The name and the query belong together, which the signature ensures, and so does the result.
    const read = { name, query } as NamedQuery
    return (await this.#queue.read(read, report)) as Outcome<ReadResult<Name>>
  }
}

/** With the names of keys and teams. */
const withNames = <Page extends ListPage<Pick<RequestEntry, 'key' | 'team'>>>(page: Page, names: NamesById): Page => ({
  ...page,
  data: page.data.map((entry) => named(entry, names)),
})

const named = <Entry extends Pick<RequestEntry, 'key' | 'team'>>(entry: Entry, { key, team }: NamesById): Entry => {
  const of = (id: NamedId | null, name: (id: string) => string | null) => id && { id: id.id, name: name(id.id) }
  return { ...entry, key: of(entry.key, key), team: of(entry.team, team) }
}

/** All that decides an answer. Ranges of about the same length that end now are the same. */
const questionOf = (name: ReadName, query: ReadQuery, now: number): string => {
  if (!('from' in query) || Math.abs(query.to - now) > NOW) return JSON.stringify([name, query])
  const { from, to, ...rest } = query
  return JSON.stringify([name, rest, Math.round(100 * Math.log(to - from))])
}
