/**
 * Queries of the usage ledger and their results, all plain JSON. Times of queries are ms since 1970, ranges are half open;
 * results have the shapes of the admin API: ISO 8601 times and decimal amounts in US dollars.
 */
import type { StoredVerdict } from '../../core/guard-verdict.ts'
import type { NodeIncident } from '../../core/incident.ts'
import type { RoutingDecision } from '../../core/journal.ts'
import type { ShapeDayRow } from '../columns/usage-schema.ts'

export type TimeRange = { readonly from: number; readonly to: number }

/**
 * `shared`: the answer may be one that another reader of the same question received, and a range that ends now may differ by
 * 1 % of its length.
 */
export type SharedQuery = { readonly shared?: boolean }

/** What usage can be grouped by. `tag`: the value of the tag in `usage.rollupTag`; `client`: its kind. */
export const DIMENSIONS = ['team', 'key', 'model', 'provider', 'tag', 'style', 'route', 'client'] as const
/** With those that no sums are kept of: usage by these is added up from the rows of requests. */
export const ROW_DIMENSIONS = [...DIMENSIONS, 'session'] as const
export type Dimension = (typeof ROW_DIMENSIONS)[number]

/** For each dimension any of these values. An empty text matches requests without a value. */
export type UsageFilter = { readonly [name in Dimension]?: readonly string[] } & {
  /** False: without the requests of the built-in demo. */
  readonly demo?: boolean
}

/** Values of an opaque cursor: those of the last row's sort key. */
export type CursorValues = readonly (string | number)[]

/** The range grows to whole hours or days. `tz`: zone of days; null: that of `usage.timezone`. */
export type UsageQuery = TimeRange & {
  readonly by: readonly Dimension[]
  /** `5m`: from the rows of requests, as far as they are kept. */
  readonly bucket: '5m' | 'hour' | 'day' | 'none'
  readonly tz: string | null
  readonly filter: UsageFilter
  readonly limit: number
  readonly after: CursorValues | null
  /** The groups that cost most, without further pages, of exactly the range. Absent: all, in the order of the dimensions. */
  readonly sort?: '-cost' | undefined
}

/** What became of a request, for people; each request has exactly one of these. `refused`: with a 4xx status. */
export const RESULTS = [
  'answered',
  'fell_back',
  'cached',
  'refused',
  'failed',
  'broke_off',
  'client_left',
  'unknown',
] as const
export type ResultName = (typeof RESULTS)[number]

/** Any of the values of each member. */
export type RequestFilter = {
  readonly team?: readonly string[]
  readonly key?: readonly string[]
  readonly provider?: readonly string[]
  readonly model?: readonly string[]
  readonly asked?: readonly string[]
  /** The model that was named or that answered. */
  readonly any_model?: readonly string[]
  readonly route?: readonly string[]
  readonly style?: readonly string[]
  /** IDs of the gateway alone. */
  readonly own_id?: readonly string[]
  /** IDs of the gateway, or those that clients gave. */
  readonly request_id?: readonly string[]
  readonly end_user?: readonly string[]
  /** IDs of sessions. */
  readonly session?: readonly string[]
  readonly agent?: readonly string[]
  /** Names of guards that found something. */
  readonly guard?: readonly string[]
  readonly client?: readonly string[]
  readonly outcome?: readonly string[]
  readonly code?: readonly string[]
  readonly cache?: readonly string[]
  /** A status, or a class: `404`, `5xx`. */
  readonly status?: readonly string[]
  readonly result?: readonly ResultName[]
  /** `name:value`. */
  readonly tag?: readonly string[]
  /** Whether it was answered after an attempt that failed. */
  readonly fell_back?: boolean
  /** False: without the requests of the built-in demo. */
  readonly demo?: boolean
  readonly min_ms?: number
  /** Nano-dollars. */
  readonly min_cost?: number
  /** Text in the ID, the model names, the error's code and message or the trail, in any case. */
  readonly q?: string
}

/** What requests can be sorted by, `-` is descending. Those without a value are last. */
export const REQUEST_SORTS = [
  '-received_at',
  'received_at',
  '-first_content_ms',
  'first_content_ms',
  '-total_ms',
  'total_ms',
  '-cost',
  'cost',
] as const
export type RequestSort = (typeof REQUEST_SORTS)[number]

/** By default newest first. `histogram`: the most buckets of a histogram; null: none. */
export type RequestsQuery = SharedQuery &
  TimeRange & {
    readonly filter: RequestFilter
    readonly sort?: RequestSort
    readonly limit: number
    readonly after: CursorValues | null
    readonly histogram: number | null
    readonly count: boolean
    /** Only requests whose bodies are kept. */
    readonly bodies?: 'kept'
  }

/**
 * `id`: the ID of the gateway, or the one that the client gave. `key`: the ID of a client's key, whose requests alone are found, without what only operators may see. Empty: requests
 * without a key.
 */
export type RequestQuery = { readonly id: string; readonly key: string | null; readonly team: readonly string[] | null }

export type FacetsQuery = { readonly team: readonly string[] | null }

/** What sessions can be sorted by, the largest or newest first. */
export const SESSION_SORTS = ['-last_at', '-cost', '-requests', '-failed', '-most_input'] as const
export type SessionSort = (typeof SESSION_SORTS)[number]

/** Sessions whose last request was in the range. */
export type SessionsQuery = TimeRange & {
  readonly filter: {
    readonly team?: readonly string[]
    readonly key?: readonly string[]
    readonly client?: readonly string[]
    readonly name?: readonly string[]
  }
  readonly sort: SessionSort
  readonly limit: number
  readonly after: CursorValues | null
}

/** `team`: of these teams; null: of all. */
export type SessionQuery = { readonly id: string; readonly team: readonly string[] | null }

/** The most expensive end users. */
export type EndUsersQuery = TimeRange & {
  readonly filter: Pick<UsageFilter, 'team' | 'key'>
  readonly limit: number
}

/** `compare`: the range before, of the same length, is summarised too. */
export type SummaryQuery = SharedQuery & TimeRange & { readonly filter: RequestFilter; readonly compare: boolean }

/** Attempts at a provider, by credential and model. `cells`: the most cells of a lane. */
export type LanesQuery = SharedQuery & TimeRange & { readonly provider: string; readonly cells: number }

/** Attempts at all providers. `cells`: the most cells of a provider. */
/** `own`: names of routes that each team has for itself. Requests for them are counted by team. */
export type RouteTrafficQuery = SharedQuery &
  TimeRange & { readonly filter: { readonly team?: readonly string[] }; readonly own: readonly string[] }

/** As `RouteTrafficQuery`. */
export type NameUsageQuery = RouteTrafficQuery

export type ActivityQuery = SharedQuery & TimeRange & { readonly cells: number }

/** Attempts in progress. `teams`: of these teams; null: of all. */
export type OngoingQuery = SharedQuery & { readonly teams: readonly string[] | null }

/**
 * When a budget counter will be spent. The lists are those of the budget's selector, limited to the counter's owner; `null`:
 * all. `by: 'period'`: the selector cannot be evaluated on sums, and the rate of the period so far continues.
 */
export type ForecastQuery = {
  readonly by: 'week' | 'period'
  readonly teams: readonly string[] | null
  readonly keys: readonly string[] | null
  /** Globs, as in `Access`. */
  readonly models: readonly string[] | null
  readonly providers: readonly string[] | null
  readonly period_start: number
  /** Null: the period has no end. */
  readonly period_end: number | null
  /** Nano-dollars. */
  readonly amount: number
  readonly spent: number
}

/** Budgets at the same time; their sums are read once. */
export type ForecastsQuery = { readonly now: number; readonly budgets: readonly ForecastQuery[] }

/** Oldest first. The filter of `day` has the members of `UsageFilter`. */
export type ExportQuery = TimeRange & {
  readonly level: 'request' | 'attempt' | 'day'
  readonly format: 'csv' | 'jsonl'
  readonly filter: RequestFilter
  /** Only requests whose bodies are kept. */
  readonly bodies?: 'kept'
  readonly after: CursorValues | null
}

/** Newest first. `reason`: its beginning. */
/** Incidents that lasted in the range. */
export type IncidentsQuery = TimeRange

export type AdjustmentsQuery = TimeRange & {
  readonly budget: readonly string[] | null
  readonly reason: string | null
  readonly limit: number
  readonly after: CursorValues | null
}

// ── Results ──────────────────────────────────────────────────────────────────────────────────────────────────────────

export type ListPage<T> = {
  readonly object: 'list'
  readonly data: readonly T[]
  readonly has_more: boolean
  /** Cursor of the next page. */
  readonly next: string | null
}

/**
 * Sums. `failed`: requests that were not answered, except those whose client disconnected. `refused`: of these, those with a
 * 4xx status; null: it was not counted in the whole range.
 */
export type UsageSums = {
  readonly requests: number
  readonly failed: number
  readonly refused: number | null
  readonly attempts: number
  readonly input: number
  readonly output: number
  readonly cache_read: number
  readonly cache_write: number
  readonly reasoning: number
  readonly cost: string
  readonly saved: string
  /** The part of `cost` that attempts without a delivered answer had. */
  readonly lost: string
  /** Attempts whose usage is estimated, and attempts without a price. */
  readonly estimated: number
  readonly unpriced: number
  /** Averages in ms; null: no request has one. */
  readonly first_content_ms: number | null
  readonly total_ms: number | null
}

/** `start`: a date or the start of an hour; absent without buckets. */
export type UsageEntry = { readonly start?: string } & { readonly [name in Dimension]?: string | null } & UsageSums

/**
 * `from` and `to`: the range that is summed. A report whose time is over has no rows yet: its total is of what it has added up,
 * and `next` continues it.
 */
export type UsageReport = ListPage<UsageEntry> &
  Searched & {
    readonly from: string
    readonly to: string
    readonly total: UsageSums
  }

/** `names`: of the teams and keys in `data`, by ID; deleted ones included. */
export type NamedUsageReport = UsageReport & { readonly names: { readonly [id: string]: string } }

/**
 * `last_at`: when the last request was received. `from`: where reading began. `is_complete`: there was room for all requests of
 * the range.
 */
export type EndUserReport = ListPage<
  Pick<UsageSums, 'requests' | 'failed' | 'input' | 'output' | 'cost'> & {
    readonly end_user: string
    readonly last_at: string
  }
> & { readonly from: string; readonly to: string; readonly is_complete: boolean }

export type AttemptEntry = {
  readonly n: number
  readonly provider: string
  readonly model: string
  readonly credential?: string
  readonly hedge: boolean
  readonly outcome: string
  readonly kind: string | null
  readonly status: number | null
  /** Message of the failure. */
  readonly message: string | null
  /** ms after the request was received; `first_content_ms` after the start of the attempt. */
  readonly started_ms: number
  readonly first_content_ms: number | null
  readonly ended_ms: number | null
  readonly reserved: string
  readonly cost: string | null
  readonly usage: TokenCounts & {
    readonly cache_write_1h: number | null
    readonly audio_input: number | null
    readonly audio_output: number | null
    readonly unit: string | null
    readonly units: number | null
  }
  readonly price: { readonly source: string; readonly version: string | null }
}

export type TokenCounts = {
  readonly input: number | null
  readonly output: number | null
  readonly cache_read: number | null
  readonly cache_write: number | null
  readonly reasoning: number | null
  readonly source: string | null
}

/** `name`: null unless the reader has names. */
export type NamedId = { readonly id: string; readonly name: string | null }

export type RequestEntry = {
  readonly object: 'request'
  readonly id: string
  /** The ID that the client gave it, which others may have too; null: none. */
  readonly client_request_id: string | null
  readonly received_at: string
  readonly ended_at: string | null
  readonly style: string
  readonly stream: boolean
  readonly asked: string
  readonly route: string | null
  readonly provider: string | null
  readonly model: string | null
  readonly key: NamedId | null
  readonly team: NamedId | null
  readonly end_user: string | null
  /** The kind of client: `claude-code`, `openai-sdk`, `other`. */
  readonly client: string | null
  readonly tags: { readonly [name: string]: string }
  readonly outcome: string
  readonly status: number
  readonly code: string | null
  /** Message of the failure. */
  readonly message: string | null
  readonly trail: string | null
  readonly cache: string
  readonly first_content_ms: number | null
  readonly total_ms: number | null
  readonly overhead_us: number | null
  readonly usage: TokenCounts
  readonly cost: string | null
  readonly saved: string
  readonly require: string | null
  /** The ID of its session, and its agent in it; null: none, and the main one. */
  readonly session: string | null
  readonly agent: string | null
  /** `more`: number of verdicts that the row has no place for. */
  readonly guards: readonly StoredVerdict[]
  readonly more_guards: number
  readonly trace: string | null
  readonly node?: string
  /** Null: nothing was planned and nothing failed. */
  readonly decision: RoutingDecision | null
  /** Whether this gateway has kept its bodies; absent: unknown. */
  readonly bodies?: boolean
  readonly attempts: readonly AttemptEntry[]
}

/** A session. It has the key, team and client of its first request. */
export type SessionEntry = {
  readonly object: 'session'
  readonly id: string
  /** As the client names it; null: it is guessed. */
  readonly name: string | null
  readonly state: 'active' | 'ended'
  readonly key: NamedId | null
  readonly team: NamedId | null
  readonly client: string | null
  readonly started_at: string
  readonly last_at: string
  readonly requests: number
  readonly failed: number
  readonly attempts: number
  /** Agents with requests that are kept, the main one included. */
  readonly agents: number
  readonly input: number
  readonly output: number
  readonly cache_read: number
  readonly cache_write: number
  readonly most_input: number
  readonly cost: string
}

/** `searched_until`: earlier sessions are not in the list. */
export type SessionsPage = ListPage<SessionEntry> & Searched & { readonly from: string; readonly to: string }

/** What an agent of a session has used, by its requests that are kept. `agent`: null: the main one. */
export type AgentEntry = {
  readonly agent: string | null
  readonly requests: number
  readonly input: number
  readonly output: number
  readonly cost: string
  readonly started_at: string
  readonly last_at: string
}

/** `by_agent`: the most expensive first, at most 100. */
export type SessionWithAgents = SessionEntry & { readonly by_agent: readonly AgentEntry[] }

/** One request. `same_client_id`: others to which the client gave the same ID, the newest first, at most 20. */
export type FoundRequest = RequestEntry & {
  /** What its limit names; added by the admin API. */
  readonly limited_by?: { readonly id: string; readonly name: string } | null
  /** Its trace in the viewer of `otel.traceUrl`; added by the admin API. */
  readonly trace_url?: string | null
  readonly same_client_id: readonly { readonly id: string; readonly received_at: string }[]
}

/**
 * Requests by outcome. `failed` is the part of `refused` with a 5xx status; null: it was not counted in the whole range.
 * `fell_back` and `cached` are parts of `answered`.
 */
export type OutcomeCounts = {
  readonly answered: number
  readonly refused: number
  readonly interrupted: number
  readonly client_gone: number
  readonly unknown: number
  readonly failed: number | null
  readonly fell_back: number | null
  readonly cached: number | null
}

/**
 * Until when (ISO 8601) the range was searched: a query whose time is over is answered with what it has found. Null: the whole
 * range.
 */
type Searched = { readonly searched_until: string | null }

/** Buckets of `seconds`; those without requests are included. */
export type OutcomeHistogram = Searched & {
  readonly seconds: number
  readonly data: readonly ({ readonly start: string } & OutcomeCounts)[]
}

/**
 * A page whose time is over has the rows that were found until then, and `next` continues the search. `count.exact` is false
 * above the limit up to which requests are counted.
 */
export type RequestsPage = ListPage<RequestEntry> &
  Searched & {
    readonly from: string
    readonly to: string
    readonly count?: { readonly value: number; readonly exact: boolean }
    readonly histogram?: OutcomeHistogram
  }

export type Facets = { readonly object: 'facets' } & { readonly [name: string]: readonly string[] | 'facets' }

export type SummaryFigures = {
  readonly requests: number
  readonly per_minute: number
  /** 0 to 1: of those that the gateway could answer, without refused ones (4xx) and those whose client left; null: unknown, or none. */
  readonly answered_share: number | null
  readonly outcomes: OutcomeCounts
  readonly p50_ms: number | null
  readonly p95_ms: number | null
  readonly first_content_p50_ms: number | null
  readonly first_content_p95_ms: number | null
  readonly overhead_p95_us: number | null
  readonly cost: string
  readonly saved: string
}

/** Latencies are those of at most 400 requests per point. */
export type Summary = Searched & {
  readonly object: 'summary'
  readonly from: string
  readonly to: string
  readonly seconds: number
  readonly figures: SummaryFigures
  readonly before: SummaryFigures | null
  readonly series: readonly ({ readonly start: string } & SummaryFigures)[]
}

export type Lane = {
  readonly credential: string
  readonly model: string
  /** Cells without attempts are left out. `limited`: rate limits and quotas. */
  readonly cells: readonly LaneCell[]
}
export type LaneCell = {
  readonly start: string
  readonly attempts: number
  readonly failed: number
  readonly limited: number
  readonly open: number
  /** The slowest, in ms. */
  readonly slowest_ms: number | null
}

/** `failures`: the newest, at most 200. */
export type Lanes = Searched & {
  readonly object: 'lanes'
  readonly provider: string
  readonly from: string
  readonly to: string
  readonly seconds: number
  readonly data: readonly Lane[]
  readonly failures: readonly {
    readonly at: string
    readonly request: string
    readonly credential: string
    readonly model: string
    readonly kind: string | null
    readonly status: number | null
  }[]
}

/** Attempts at a provider in a cell. `failed`: what circuits count, and broken streams. `limited`: rate limits and quotas. */
export type ActivityCell = {
  readonly start: string
  readonly attempts: number
  readonly failed: number
  readonly limited: number
  /** The slowest, in ms. */
  readonly slowest_ms: number | null
}
export type ProviderActivity = {
  readonly provider: string
  readonly attempts: number
  readonly failed: number
  readonly limited: number
  /** Of the newest completed attempts, at most 1,000. */
  readonly p50_ms: number | null
  readonly p95_ms: number | null
  readonly first_content_p50_ms: number | null
  /** All completed attempts by duration; the last bar has no upper bound. */
  readonly histogram: readonly { readonly most_ms: number | null; readonly attempts: number }[]
  readonly errors: readonly {
    readonly kind: string
    readonly status: number | null
    readonly count: number
    readonly last_at: string
  }[]
  /** Cells without attempts are left out. */
  readonly cells: readonly ActivityCell[]
}
export type Activity = Searched & {
  readonly object: 'activity'
  readonly from: string
  readonly to: string
  readonly seconds: number
  readonly data: readonly ProviderActivity[]
}

/** Attempts of the requests for a route at one target. `failed`, `limited`: as in `ActivityCell`. `answered`: those that succeeded. */
export type TargetTraffic = {
  readonly provider: string
  readonly model: string
  readonly attempts: number
  readonly answered: number
  readonly failed: number
  readonly limited: number
  readonly first_content_p50_ms: number | null
}
/** `team`: the ID, for a name of `own`. `failed`: with a 5xx status, or a broken stream. */
export type RouteTraffic = {
  readonly route: string
  readonly team: string | null
  readonly requests: number
  readonly answered: number
  readonly cached: number
  readonly refused: number
  readonly failed: number
  /** With the most attempts first. */
  readonly targets: readonly TargetTraffic[]
}
/** The routes with the most requests first. */
export type RoutesTraffic = Searched & {
  readonly from: string
  readonly to: string
  readonly data: readonly RouteTraffic[]
}

/**
 * Requests for a name that one target answered, with what they used; `provider` null: none did. `route` null: the model `asked` was named
 * directly. `team`: the ID, for a name of `own`. `cost`: in nano-dollars, without the requests in `unpriced`.
 */
export type NameUsage = {
  readonly route: string | null
  readonly team: string | null
  readonly asked: string | null
  readonly style: string
  readonly provider: string | null
  readonly model: string | null
  readonly requests: number
  readonly unpriced: number
  readonly cost: number
  readonly input: number
  readonly output: number
  readonly cache_read: number
  readonly cache_write: number
  readonly reasoning: number
}
/** The most requests first. `since`: of the first of them; null: there is none. */
export type NamesUsage = Searched & {
  readonly from: string
  readonly to: string
  readonly since: string | null
  readonly data: readonly NameUsage[]
  readonly has_more: boolean
}

/** An attempt in progress. */
export type OngoingAttempt = {
  /** The ID of its request. */
  readonly request: string
  readonly n: number
  readonly started_at: string
  readonly provider: string
  readonly model: string
  readonly credential: string
  readonly key: NamedId | null
  readonly team: NamedId | null
}
/** `total`: requests with an attempt in progress, also those that are not listed. */
export type OngoingAttempts = ListPage<OngoingAttempt> & { readonly total: number }

/**
 * `projected`: what the counter will have spent at the end of the period; null: it has none, or there is no data.
 * `exhausted_at`: null also if it is spent already. `spent_since`: the hour in which it was; null: unknown. `basis`: on what it
 * rests; null: there is no data. `hours`: those with data, of the basis `week`.
 */
export type Forecast = {
  readonly object: 'forecast'
  readonly projected: string | null
  readonly exhausted_at: string | null
  readonly spent_since: string | null
  readonly basis: 'present' | 'week' | 'period' | null
  readonly hours: number | null
}

/** `of`: the counter of a budget; null: the adjustment has none. */
export type AdjustmentEntry = {
  readonly id: string
  readonly object: 'adjustment'
  readonly at: string
  readonly budget: string | null
  readonly of: string | null
  readonly key: string | null
  readonly amount: string
  readonly reason: string
  readonly actor: string
}

/** `next`: the cursor of the next page; null: this is the last one. */
/** `columns`: of the lines; only the first page has them. */
export type ExportPage = {
  readonly columns: readonly string[] | null
  readonly lines: readonly ExportLine[]
  readonly next: CursorValues | null
}

/** A line without its end and the columns of names, which the reader adds. */
export type ExportLine = { readonly text: string; readonly team: string | null; readonly key: string | null }

// ── Guards ───────────────────────────────────────────────────────────────────────────────────────────────────────────

export type GuardHitsQuery = TimeRange

/** `requests`: with such a verdict. `found`: texts in them. */
export type GuardHit = Pick<StoredVerdict, 'guard' | 'phase' | 'action'> & {
  readonly requests: number
  readonly found: number
}
export type GuardHits = Searched & { readonly data: readonly GuardHit[] }

// ── Drill ────────────────────────────────────────────────────────────────────────────────────────────────────────────

export type DrillShapesQuery = TimeRange

/** How many requests of a route had a shape, by class of clients. `weight`: an estimate from a sample. */
export type DrillShape = Pick<ShapeDayRow, 'route' | 'access' | 'shape' | 'weight'>

// ── All queries ──────────────────────────────────────────────────────────────────────────────────────────────────────

type Reads = {
  readonly usage: readonly [UsageQuery, UsageReport]
  readonly requests: readonly [RequestsQuery, RequestsPage]
  readonly request: readonly [RequestQuery, FoundRequest | null]
  readonly facets: readonly [FacetsQuery, Facets]
  readonly guard_hits: readonly [GuardHitsQuery, GuardHits]
  readonly end_users: readonly [EndUsersQuery, EndUserReport]
  readonly sessions: readonly [SessionsQuery, SessionsPage]
  readonly session: readonly [SessionQuery, SessionWithAgents | null]
  readonly summary: readonly [SummaryQuery, Summary]
  readonly lanes: readonly [LanesQuery, Lanes]
  readonly activity: readonly [ActivityQuery, Activity]
  readonly route_traffic: readonly [RouteTrafficQuery, RoutesTraffic]
  readonly name_usage: readonly [NameUsageQuery, NamesUsage]
  readonly running: readonly [OngoingQuery, OngoingAttempts]
  readonly forecasts: readonly [ForecastsQuery, readonly Forecast[]]
  readonly export: readonly [ExportQuery, ExportPage]
  readonly adjustments: readonly [AdjustmentsQuery, ListPage<AdjustmentEntry>]
  readonly incidents: readonly [IncidentsQuery, readonly NodeIncident[]]
  readonly drill_shapes: readonly [DrillShapesQuery, readonly DrillShape[]]
}
export type ReadName = keyof Reads
export type ReadQuery<Name extends ReadName = ReadName> = Reads[Name][0]
export type ReadResult<Name extends ReadName = ReadName> = Reads[Name][1]
