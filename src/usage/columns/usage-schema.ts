/**
 * Tables of the ledger, in `usage.db` or in Postgres. Times are ms since 1970, amounts whole nano-dollars, texts without a
 * value null. A request is one row with its attempts inside, inserted once when it is complete; the view `attempt` has a row
 * for each attempt. In Postgres, where several gateways are nodes, names of processes and of segments begin with that of
 * their node (`node-name.ts`).
 */
import type { SqlTypes } from '../../storage/sql/column-types.ts'
import type { Migration, SchemaVersions } from '../../storage/sql/migrate.ts'
import type { SharedSchema } from '../../storage/sql/postgres/shared-schema.ts'
import { USAGE_FILE } from '../journal/file.ts'

export type UsageTables = {
  readonly request: RequestRow
  /** A view. */
  readonly attempt: AttemptRow
  readonly open_call: OpenCallRow
  readonly usage_day: DayUsage
  readonly usage_hour: HourUsage
  readonly budget_sum: BudgetSumRow
  readonly process_sum: ProcessSumRow
  readonly adjustment: AdjustmentRow
  readonly journal: JournalRow
  readonly incident: IncidentRow
  readonly session: SessionRow
  readonly shape_day: ShapeDayRow
}

/** What the record of a request's end states. */
export type EndedRow = {
  /** The gateway's own ID, which begins with its time (`request-id.ts`). */
  readonly id: string
  /** The ID that the client gave the request (`x-request-id`), which others may have too. */
  readonly client_request_id: string | null
  readonly received: number
  readonly ended: number | null
  readonly style: string
  readonly stream: number
  readonly asked: string
  readonly route: string | null
  /** The target that answered. */
  readonly provider: string | null
  readonly model: string | null
  readonly key: string | null
  readonly team: string | null
  readonly person: string | null
  readonly end_user: string | null
  /** The kind of client. */
  readonly client: string | null
  /** JSON, at most 1 KB. */
  readonly tags: string | null
  /** The value of the tag by which usage is grouped. */
  readonly tag: string | null
  readonly outcome: string
  readonly status: number
  readonly code: string | null
  readonly message: string | null
  readonly trail: string | null
  /** JSON of a `RoutingDecision`, at most 8 KB. */
  readonly decision: string | null
  readonly cache: string
  readonly first_content_ms: number | null
  readonly total_ms: number | null
  readonly overhead_us: number | null
  readonly saved: number
  /** What was required of its data, at most 100 characters. */
  readonly require: string | null
  /** The ID of its session, and its agent in it. */
  readonly session: string | null
  readonly agent: string | null
  /** Verdicts of guards, at most 500 characters (`verdictColumn`). */
  readonly guards: string | null
  readonly trace: string | null
}

export type RequestRow = EndedRow & {
  readonly node: string
  /** Number of attempts, and of those that failed or were interrupted. */
  readonly attempts: number
  readonly failed_attempts: number
  /** Sums of the attempts. `cost` null: that of an attempt is unknown, and the others cost nothing. */
  readonly input: number
  readonly output: number
  readonly cache_read: number
  readonly cache_write: number
  readonly reasoning: number
  readonly usage_source: string
  readonly cost: number | null
  /** What budgets were charged (`chargedCost`). */
  readonly charged: number
  /** JSON of the attempts, each a list of `LISTED`, in the order of their ends; null: there was none. */
  readonly attempt_list: string | null
}

/** An attempt in `attempt_list`, in this order. */
export type StoredEnd = {
  readonly n: number
  readonly started: number
  readonly ended: number | null
  readonly provider: string
  readonly model: string
  readonly credential: string
  readonly hedge: number
  readonly outcome: string
  readonly kind: string | null
  readonly status: number | null
  readonly message: string | null
  readonly first_content_ms: number | null
  readonly input: number
  readonly output: number
  readonly cache_read: number
  readonly cache_write: number
  readonly cache_write_1h: number
  readonly reasoning: number
  readonly audio_input: number
  readonly audio_output: number
  readonly usage_source: string
  readonly reserved: number
  readonly cost: number | null
  readonly charged: number
  readonly price_source: string
  readonly price_version: string | null
  /** What is billed where tokens are not (`BilledUnits`). Absent from lists that are older, or of attempts without. */
  readonly unit: string | null
  readonly units: number | null
}

/** `request`: the ID of its request, whose columns follow. `alone`: 1 if the row of the request has its figures (`IS_ALONE`). */
export type AttemptRow = StoredEnd & { readonly request: string; readonly alone: number } & Pick<
    EndedRow,
    (typeof OF_REQUEST)[number]
  >

/** Requests whose figures are those of their only attempt, so that the attempt need not be parsed: most. */
export const IS_ALONE =
  "request.attempts = 1 AND request.failed_attempts = 0 AND request.outcome = 'answered' AND request.provider IS NOT NULL"

/** A list that has every name; the type of another one states which it lacks. */
type EveryName<Name, List extends readonly Name[]> = [Exclude<Name, List[number]>] extends [never]
  ? List
  : { readonly lacks: Exclude<Name, List[number]> }

/** The columns of a row in this order. Does not compile without all of them. */
export const columnsOf =
  <Row>() =>
  <const List extends readonly (keyof Row)[]>(columns: List & EveryName<keyof Row, List>): readonly (keyof Row)[] =>
    columns

/** The columns that the record of a request's end states, in its order and that of the table. */
export const ENDED_COLUMNS = columnsOf<EndedRow>()([
  'id',
  'client_request_id',
  'received',
  'ended',
  'style',
  'stream',
  'asked',
  'route',
  'provider',
  'model',
  'key',
  'team',
  'person',
  'end_user',
  'client',
  'tags',
  'tag',
  'outcome',
  'status',
  'code',
  'message',
  'trail',
  'decision',
  'cache',
  'first_content_ms',
  'total_ms',
  'overhead_us',
  'saved',
  'require',
  'session',
  'agent',
  'guards',
  'trace',
])

/** Columns of the table `request`, in its order. */
export const REQUEST_COLUMNS: readonly (keyof RequestRow)[] = [
  ...ENDED_COLUMNS,
  ...columnsOf<Omit<RequestRow, keyof EndedRow>>()([
    'node',
    'attempts',
    'failed_attempts',
    'input',
    'output',
    'cache_read',
    'cache_write',
    'reasoning',
    'usage_source',
    'cost',
    'charged',
    'attempt_list',
  ]),
]

/** The items of an attempt in `attempt_list`. */
export const LISTED = columnsOf<StoredEnd>()([
  'n',
  'started',
  'ended',
  'provider',
  'model',
  'credential',
  'hedge',
  'outcome',
  'kind',
  'status',
  'message',
  'first_content_ms',
  'input',
  'output',
  'cache_read',
  'cache_write',
  'cache_write_1h',
  'reasoning',
  'audio_input',
  'audio_output',
  'usage_source',
  'reserved',
  'cost',
  'charged',
  'price_source',
  'price_version',
  'unit',
  'units',
])

/** A call that is open at the end of a batch, such as a stream: a restarted bookkeeper continues from its records. */
export type OpenCallRow = {
  /** The process, and the number of the call in it. */
  readonly process: string
  readonly call: number
  /** When its first attempt began. */
  readonly started: number
  readonly team: string | null
  /** Number of attempts in progress. */
  readonly running: number
  /** Its records so far, as lines of the journal. */
  readonly records: string
}

/** Counts of requests, and of attempts. Both are counted when the request is complete, at the time of its receipt. */
export type TotalCounts = {
  readonly requests: number
  /** Requests by outcome; the others were answered. */
  readonly refused: number
  readonly interrupted: number
  readonly client_gone: number
  readonly unknown: number
  /** Answered after an attempt that failed, and from a cache. */
  readonly fell_back: number
  readonly cached: number
  readonly saved: number
  readonly first_content_sum: number
  readonly first_content_count: number
  readonly total_sum: number
  readonly attempts: number
  readonly input: number
  readonly output: number
  readonly cache_read: number
  readonly cache_write: number
  readonly reasoning: number
  readonly cost: number
  /** The part of `cost` that attempts without a delivered answer had. */
  readonly lost: number
  /** Attempts whose usage is estimated, and attempts without a price. */
  readonly estimated: number
  readonly unpriced: number
  /** Of the refused requests, those with a 5xx status. */
  readonly server_error: number
}

export const NO_COUNTS: TotalCounts = {
  requests: 0,
  refused: 0,
  interrupted: 0,
  client_gone: 0,
  unknown: 0,
  fell_back: 0,
  cached: 0,
  saved: 0,
  first_content_sum: 0,
  first_content_count: 0,
  total_sum: 0,
  attempts: 0,
  input: 0,
  output: 0,
  cache_read: 0,
  cache_write: 0,
  reasoning: 0,
  cost: 0,
  lost: 0,
  estimated: 0,
  unpriced: 0,
  server_error: 0,
}
// These are the members of the object.
export const COUNT_COLUMNS = Object.keys(NO_COUNTS) as readonly (keyof TotalCounts)[]

/**
 * Usage of a day in the zone of daily sums, by all that reports group by. Empty texts stand for no value; `OTHER` for many. A
 * request is counted in the row of the target that answered, an attempt in that of its own target.
 */
export type DayUsage = TotalCounts & {
  readonly day: string
  readonly team: string
  readonly key: string
  readonly tag: string
  readonly provider: string
  readonly model: string
  readonly style: string
  readonly route: string
  readonly client: string
}
export const DAY_USAGE_KEY = ['day', 'team', 'key', 'tag', 'provider', 'model', 'style', 'route', 'client'] as const

/** Usage of an hour, by what was used, for `usage.keepHours` days. `hour`: the start of the UTC hour. */
export type HourUsage = TotalCounts & {
  readonly hour: number
  readonly provider: string
  readonly model: string
  readonly style: string
  readonly route: string
  readonly client: string
}
export const HOUR_USAGE_KEY = ['hour', 'provider', 'model', 'style', 'route', 'client'] as const

/** The value of keys, tags, models, routes and clients above the number of rows that a day or an hour may have. */
export const OTHER = 'other'

/** What all gateways have spent of a counter in a period. */
export type BudgetSumRow = { readonly counter: string; readonly period_start: number; readonly spent: number }

/** The part of it that a process has spent, whose own counters contain it too. Rows of processes that have ended are deleted. */
export type ProcessSumRow = BudgetSumRow & { readonly process: string }

/** A correction. With a counter, its amount is part of what the counter has spent in that period. */
export type AdjustmentRow = {
  readonly id: string
  readonly at: number
  readonly budget: string | null
  readonly counter: string | null
  readonly period_start: number | null
  readonly key: string | null
  /** Negative for credits and resets. */
  readonly amount: number
  readonly reason: string
  readonly actor: string
}

/** Position up to which a segment is stored. `malformed`: number of its lines that were skipped. */
export type JournalRow = { readonly segment: string; readonly position: number; readonly malformed: number }

/** An outage of providers that one process had. */
export type IncidentRow = {
  readonly id: string
  readonly began: number
  /** Null: it lasts. */
  readonly ended: number | null
  readonly ended_by: string | null
  readonly node: string
  readonly process: string
  /** JSON of the other members of an `Incident`. */
  readonly details: string
}

/** A session. It has the key, team and client of its first request. Times in ms since 1970. */
export type SessionRow = SessionCounts & {
  readonly id: string
  /** As the client names it; null: it is guessed. */
  readonly name: string | null
  readonly key: string | null
  readonly team: string | null
  readonly client: string | null
  /** When its first and its last request were received. */
  readonly first: number
  readonly last: number
  /** The most tokens that a request had as its input, with those of caches. */
  readonly most_input: number
}

/** `failed`: requests that were not answered, save those whose client left. */
export type SessionCounts = Pick<
  TotalCounts,
  'requests' | 'attempts' | 'input' | 'output' | 'cache_read' | 'cache_write' | 'cost'
> & { readonly failed: number }

/** How often requests of a route had a shape on a day, by the provider that answered; empty: none. For the fallback drill. */
export type ShapeDayRow = {
  readonly day: string
  readonly route: string
  /** The class of clients with the same access and data policy (`policy/drill/access-class.ts`). */
  readonly access: string
  readonly provider: string
  readonly shape: string
  readonly weight: number
}
export const SHAPE_DAY_KEY = ['day', 'route', 'access', 'provider', 'shape'] as const

export const SESSION_COUNTS = columnsOf<SessionCounts>()([
  'requests',
  'failed',
  'attempts',
  'input',
  'output',
  'cache_read',
  'cache_write',
  'cost',
])

export const SESSION_COLUMNS: readonly (keyof SessionRow)[] = [
  ...columnsOf<Omit<SessionRow, keyof SessionCounts>>()([
    'id',
    'name',
    'key',
    'team',
    'client',
    'first',
    'last',
    'most_input',
  ]),
  ...SESSION_COUNTS,
]

const greater = (name: string): string =>
  `${name} = CASE WHEN excluded.${name} > session.${name} THEN excluded.${name} ELSE session.${name} END`

/** Adds rows of `SESSION_COLUMNS` to those of the same sessions, in both databases. */
export const ADD_SESSIONS = `ON CONFLICT (id) DO UPDATE SET name = coalesce(session.name, excluded.name),
  first = CASE WHEN excluded.first < session.first THEN excluded.first ELSE session.first END,
  ${greater('last')}, ${greater('most_input')},
  ${SESSION_COUNTS.map((name) => `${name} = session.${name} + excluded.${name}`).join(', ')}`

/** `rest`: how its rows are kept. */
const requestTable = ({ text, integer }: SqlTypes, rest: string): string => `CREATE TABLE request (
    id ${text} NOT NULL, client_request_id ${text}, received ${integer} NOT NULL, ended ${integer}, style ${text} NOT NULL, stream ${integer} NOT NULL,
    asked ${text} NOT NULL, route ${text}, provider ${text}, model ${text},
    key ${text}, team ${text}, person ${text}, end_user ${text}, client ${text}, tags ${text}, tag ${text},
    outcome ${text} NOT NULL, status ${integer} NOT NULL, code ${text}, message ${text}, trail ${text}, decision ${text}, cache ${text} NOT NULL,
    first_content_ms ${integer}, total_ms ${integer}, overhead_us ${integer}, saved ${integer} NOT NULL, require ${text}, session ${text}, agent ${text}, guards ${text}, trace ${text}, node ${text} NOT NULL,
    attempts ${integer} NOT NULL, failed_attempts ${integer} NOT NULL, input ${integer} NOT NULL, output ${integer} NOT NULL,
    cache_read ${integer} NOT NULL, cache_write ${integer} NOT NULL, reasoning ${integer} NOT NULL, usage_source ${text} NOT NULL,
    cost ${integer}, charged ${integer} NOT NULL, attempt_list ${text},
    PRIMARY KEY (received, id)) ${rest}`

/** The counts of the first version. */
const FIRST_COUNTS = COUNT_COLUMNS.slice(0, COUNT_COLUMNS.indexOf('server_error'))

const tablesOf = ({ text, integer, inKey }: SqlTypes): readonly string[] => {
  const counts = FIRST_COUNTS.map((column) => `${column} ${integer} NOT NULL`).join(', ')
  return [
    // Most requests have no ID of the client, and add nothing to it.
    'CREATE INDEX request_client_id ON request (client_request_id, received) WHERE client_request_id IS NOT NULL',
    `CREATE TABLE open_call (process ${text} NOT NULL, call ${integer} NOT NULL, started ${integer} NOT NULL, team ${text},
    running ${integer} NOT NULL, records ${text} NOT NULL, PRIMARY KEY (process, call)) ${inKey}`,
    `CREATE TABLE usage_day (${DAY_USAGE_KEY.map((name) => `${name} ${text} NOT NULL`).join(', ')}, ${counts},
    PRIMARY KEY (${DAY_USAGE_KEY.join(', ')})) ${inKey}`,
    `CREATE TABLE usage_hour (hour ${integer} NOT NULL, provider ${text} NOT NULL, model ${text} NOT NULL,
    style ${text} NOT NULL, route ${text} NOT NULL, client ${text} NOT NULL, ${counts},
    PRIMARY KEY (${HOUR_USAGE_KEY.join(', ')})) ${inKey}`,
    `CREATE TABLE budget_sum (counter ${text} NOT NULL, period_start ${integer} NOT NULL, spent ${integer} NOT NULL,
    PRIMARY KEY (counter, period_start)) ${inKey}`,
    `CREATE TABLE process_sum (process ${text} NOT NULL, counter ${text} NOT NULL, period_start ${integer} NOT NULL,
    spent ${integer} NOT NULL, PRIMARY KEY (process, counter, period_start)) ${inKey}`,
    `CREATE TABLE adjustment (id ${text} PRIMARY KEY, at ${integer} NOT NULL, budget ${text}, counter ${text},
    period_start ${integer}, key ${text}, amount ${integer} NOT NULL,
    reason ${text} NOT NULL, actor ${text} NOT NULL) ${inKey}`,
    `CREATE TABLE journal (segment ${text} PRIMARY KEY, position ${integer} NOT NULL, malformed ${integer} NOT NULL) ${inKey}`,
    `CREATE TABLE incident (id ${text} PRIMARY KEY, began ${integer} NOT NULL, ended ${integer}, ended_by ${text}, node ${text} NOT NULL,
    process ${text} NOT NULL, details ${text} NOT NULL) ${inKey}`,
    'CREATE INDEX incident_began ON incident (began)',
    // Requests without a session add nothing to it.
    'CREATE INDEX request_session ON request (session, received, agent) WHERE session IS NOT NULL',
    `CREATE TABLE session (id ${text} PRIMARY KEY, name ${text}, key ${text}, team ${text}, client ${text},
    first ${integer} NOT NULL, last ${integer} NOT NULL, most_input ${integer} NOT NULL,
    ${SESSION_COUNTS.map((column) => `${column} ${integer} NOT NULL`).join(', ')}) ${inKey}`,
    'CREATE INDEX session_last ON session (last)',
  ]
}

/** Rows of days without a partition of their own (`partitions.ts`). */
const REST = 'CREATE TABLE request_rest PARTITION OF request DEFAULT'

/**
 * The gateways that store usage, and when they have done so last, by the clock of the database. `since`: when it was opened
 * last.
 */
const gatewayTable = ({ text, integer }: SqlTypes): string =>
  `CREATE TABLE gateway (node ${text} PRIMARY KEY, since ${integer} NOT NULL, seen ${integer} NOT NULL)`

const TEXTS: ReadonlySet<keyof StoredEnd> = new Set([
  'provider',
  'model',
  'credential',
  'outcome',
  'kind',
  'message',
  'usage_source',
  'price_source',
  'price_version',
  'unit',
])

const OF_REQUEST = [
  'received',
  'asked',
  'key',
  'team',
  'person',
  'end_user',
  'session',
  'tags',
  'tag',
  'style',
  'route',
  'client',
] as const satisfies readonly (keyof EndedRow)[]

/** The items of the first version. */
const FIRST_LISTED = LISTED.slice(0, LISTED.indexOf('unit'))

/** A row for each attempt of each request. A range of `received` finds them fast. */
const attemptView = (isPostgres: boolean, listed: readonly (keyof StoredEnd)[]): string => {
  const item = (name: keyof StoredEnd, index: number) => {
    const value = `(one.value ->> ${index})`
    return `${isPostgres && !TEXTS.has(name) ? `CAST(${value} AS BIGINT)` : value} AS ${name}`
  }
  const list = isPostgres ? 'jsonb_array_elements(CAST(attempt_list AS jsonb))' : 'json_each(attempt_list)'
  return `CREATE VIEW attempt AS SELECT request.id AS request, ${OF_REQUEST.map((name) => `request.${name} AS ${name}`).join(', ')}, ${listed.map(item).join(', ')},
      CASE WHEN ${IS_ALONE} THEN 1 ELSE 0 END AS alone
    FROM request, ${list} AS one${isPostgres ? ' (value)' : ''} WHERE attempts > 0`
}

/** Version 2: the units of attempts. */
const withUnits =
  (isPostgres: boolean): Migration =>
  () => ['DROP VIEW attempt', attemptView(isPostgres, LISTED)]

/** Version 3: refusals by the gateway apart. Null in rows that were begun before: adding to them leaves it unknown. */
const withServerErrors: Migration = ({ integer }) =>
  ['usage_day', 'usage_hour'].map((table) => `ALTER TABLE ${table} ADD COLUMN server_error ${integer}`)

/** Version 4: the shapes of requests. */
const withShapes: Migration = ({ text, integer, inKey }) => [
  `CREATE TABLE shape_day (${SHAPE_DAY_KEY.map((name) => `${name} ${text} NOT NULL`).join(', ')}, weight ${integer} NOT NULL,
    PRIMARY KEY (${SHAPE_DAY_KEY.join(', ')})) ${inKey}`,
]

/** Reports read the table of version 4. */
const READ = 4

export const USAGE_SCHEMA: SchemaVersions = {
  file: USAGE_FILE,
  migrations: [
    (types) => [requestTable(types, types.inKey), ...tablesOf(types), attemptView(false, FIRST_LISTED)],
    withUnits(false),
    withServerErrors,
    withShapes,
  ],
  oldestReader: 1,
  read: READ,
}

const sharedTables: Migration = (types) => [
  requestTable(types, 'PARTITION BY RANGE (received)'),
  REST,
  ...tablesOf(types),
  gatewayTable(types),
  attemptView(true, FIRST_LISTED),
]
export const SHARED_USAGE: SharedSchema = {
  name: 'headgate_usage',
  versions: {
    file: USAGE_FILE,
    migrations: [sharedTables, withUnits(true), withServerErrors, withShapes],
    oldestReader: 1,
    read: READ,
  },
}
