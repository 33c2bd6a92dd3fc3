/**
 * Tables of the ledger, in `usage.db` or in Postgres. Times are ms since 1970, amounts whole nano-dollars, texts without a
 * value null. Sums (`usage_hour`, `usage_day`, `budget_sum`) contain what a node has counted. In Postgres, where several
 * gateways are nodes, names of processes and of segments begin with that of their node (`node-name.ts`).
 */

import type { BudgetCharge } from '../../core/journal.ts'
import { type Migration, migrationOf, type SchemaVersions } from '../../storage/sql/migrate.ts'
import type { SharedSchema } from '../../storage/sql/postgres/shared-schema.ts'
import { USAGE_FILE } from '../journal/file.ts'

export type UsageTables = {
  readonly request: RequestRow
  readonly attempt: AttemptRow
  readonly usage_hour: Omit<RollupRow<number>, 'period'> & { readonly hour: number }
  readonly usage_day: Omit<RollupRow<string>, 'period'> & { readonly day: string }
  readonly budget_sum: BudgetSumRow
  readonly adjustment: AdjustmentRow
  readonly journal: JournalRow
  readonly facet: FacetRow
  readonly incident: IncidentRow
}

export type RequestRow = {
  /** The gateway's own ID, which no other request has. */
  readonly id: string
  /** The ID that the client gave the request (`x-request-id`), which others may have too. */
  readonly client_request_id: string | null
  /** Number of the call (`callNumber`). */
  readonly call: number
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
  readonly outcome: string
  readonly status: number
  readonly code: string | null
  readonly message: string | null
  readonly attempts: number
  readonly trail: string | null
  /** JSON of a `RoutingDecision`, at most 8 KB. */
  readonly decision: string | null
  readonly cache: string
  readonly first_content_ms: number | null
  readonly total_ms: number | null
  readonly overhead_us: number | null
  readonly input: number | null
  readonly output: number | null
  readonly cache_read: number | null
  readonly cache_write: number | null
  readonly reasoning: number | null
  readonly cost: number | null
  readonly saved: number
  readonly usage_source: string | null
  readonly trace: string | null
  readonly node: string
}

export type AttemptRow = {
  /** ID of the request, and number of the call. */
  readonly request: string
  readonly call: number
  readonly n: number
  readonly started: number
  readonly ended: number | null
  readonly key: string | null
  readonly team: string | null
  readonly provider: string
  readonly model: string
  readonly credential: string
  readonly hedge: number
  /** `open` until its end is known. */
  readonly outcome: string
  readonly kind: string | null
  readonly status: number | null
  readonly message: string | null
  readonly first_content_ms: number | null
  readonly input: number | null
  readonly output: number | null
  readonly cache_read: number | null
  readonly cache_write: number | null
  readonly cache_write_1h: number | null
  readonly reasoning: number | null
  readonly audio_input: number | null
  readonly audio_output: number | null
  readonly reserved: number
  readonly cost: number | null
  readonly usage_source: string
  readonly price_source: string
  readonly price_version: string | null
  /** JSON of `OpenedColumn` until the request is complete, from which a restarted bookkeeper continues. */
  readonly opened: string | null
}

/** A list that has every name; the type of another one states which it lacks. */
type EveryName<Name, List extends readonly Name[]> = [Exclude<Name, List[number]>] extends [never]
  ? List
  : { readonly lacks: Exclude<Name, List[number]> }

/** The columns of a row in this order. Does not compile without all of them. */
export const columnsOf =
  <Row>() =>
  <const List extends readonly (keyof Row)[]>(columns: List & EveryName<keyof Row, List>): readonly (keyof Row)[] =>
    columns

/** Columns of the table `request`, in the order of exports. */
export const REQUEST_COLUMNS = columnsOf<RequestRow>()([
  'id',
  'call',
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
  'outcome',
  'status',
  'code',
  'message',
  'attempts',
  'trail',
  'decision',
  'cache',
  'first_content_ms',
  'total_ms',
  'overhead_us',
  'input',
  'output',
  'cache_read',
  'cache_write',
  'reasoning',
  'usage_source',
  'cost',
  'saved',
  'trace',
  'node',
  'client_request_id',
])

/** Columns of the table `attempt` but `opened`, in the order of exports. */
export const ATTEMPT_COLUMNS = columnsOf<Omit<AttemptRow, 'opened'>>()([
  'request',
  'call',
  'n',
  'started',
  'ended',
  'key',
  'team',
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
  'price_source',
  'price_version',
])

/** What budgets are charged for a row of `attempt a`: `chargedCost` in SQL. */
export const CHARGED = 'coalesce(a.cost, a.reserved)'

/** What the end of an attempt is counted by. */
export type OpenedColumn = {
  /** The process that made the attempt, and the number of the call in it. */
  readonly process: string
  readonly call: number
  readonly key: string | null
  readonly team: string | null
  readonly style: string
  readonly tag: string | null
  readonly route: string | null
  readonly client: string | null
  readonly charges: readonly BudgetCharge[]
  /** Absent: the attempt was stored by an earlier version. */
  readonly clientRequestId?: string | null
  /** The time of receipt of the request, after its end. */
  readonly ended: number | null
}

/** Empty texts stand for no value. `outcome` is that of an attempt or of a request, which are counted separately. */
export type RollupKey = {
  readonly node: string
  readonly team: string
  readonly key: string
  readonly provider: string
  readonly model: string
  readonly style: string
  readonly tag: string
  readonly route: string
  readonly client: string
  readonly outcome: string
}

/** `period`: the start of a UTC hour, or a date in the zone of daily sums. */
export type RollupRow<Period> = RollupKey & {
  readonly period: Period
  readonly requests: number
  readonly attempts: number
  readonly input: number
  readonly output: number
  readonly cache_read: number
  readonly cache_write: number
  readonly reasoning: number
  readonly cost: number
  readonly saved: number
  /** Attempts whose usage is estimated, and attempts without a price. */
  readonly estimated: number
  readonly unpriced: number
  readonly first_content_sum: number
  readonly first_content_count: number
  readonly total_sum: number
}

/** The counts of a row without any. */
export const NO_COUNTS: Omit<RollupRow<never>, 'period' | keyof RollupKey> = {
  requests: 0,
  attempts: 0,
  input: 0,
  output: 0,
  cache_read: 0,
  cache_write: 0,
  reasoning: 0,
  cost: 0,
  saved: 0,
  estimated: 0,
  unpriced: 0,
  first_content_sum: 0,
  first_content_count: 0,
  total_sum: 0,
}

export type BudgetSumRow = {
  readonly counter: string
  readonly period_start: number
  readonly node: string
  /** The process that has spent it, whose own counters contain it too. Empty: processes that have ended. */
  readonly process: string
  readonly spent: number
}

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

/** A value that filter menus show. */
export type FacetRow = { readonly name: string; readonly value: string; readonly last_seen: number }

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

const ROLLUP_KEY = 'node, team, key, provider, model, style, tag'
const ROLLUP = `node TEXT NOT NULL, team TEXT NOT NULL, key TEXT NOT NULL, provider TEXT NOT NULL, model TEXT NOT NULL,
  style TEXT NOT NULL, tag TEXT NOT NULL, route TEXT NOT NULL, client TEXT NOT NULL, outcome TEXT NOT NULL,
  requests INTEGER NOT NULL, attempts INTEGER NOT NULL, input INTEGER NOT NULL, output INTEGER NOT NULL,
  cache_read INTEGER NOT NULL, cache_write INTEGER NOT NULL, reasoning INTEGER NOT NULL, cost INTEGER NOT NULL,
  saved INTEGER NOT NULL, estimated INTEGER NOT NULL, unpriced INTEGER NOT NULL,
  first_content_sum INTEGER NOT NULL, first_content_count INTEGER NOT NULL, total_sum INTEGER NOT NULL`

const USAGE_HOUR = `CREATE TABLE usage_hour (hour INTEGER NOT NULL, ${ROLLUP},
    PRIMARY KEY (hour, ${ROLLUP_KEY}, route, client, outcome)) WITHOUT ROWID`
const USAGE_DAY = `CREATE TABLE usage_day (day TEXT NOT NULL, ${ROLLUP},
    PRIMARY KEY (day, ${ROLLUP_KEY}, route, client, outcome)) WITHOUT ROWID`
const BUDGET_SUM = `CREATE TABLE budget_sum (counter TEXT NOT NULL, period_start INTEGER NOT NULL, node TEXT NOT NULL,
    process TEXT NOT NULL, spent INTEGER NOT NULL, PRIMARY KEY (counter, period_start, node, process)) WITHOUT ROWID`

const FIRST = [
  `CREATE TABLE request (
    id TEXT NOT NULL, call INTEGER NOT NULL, received INTEGER NOT NULL, ended INTEGER, style TEXT NOT NULL, stream INTEGER NOT NULL,
    asked TEXT NOT NULL, route TEXT, provider TEXT, model TEXT,
    key TEXT, team TEXT, person TEXT, end_user TEXT, client TEXT, tags TEXT,
    outcome TEXT NOT NULL, status INTEGER NOT NULL, code TEXT, message TEXT, attempts INTEGER NOT NULL, trail TEXT, decision TEXT, cache TEXT NOT NULL,
    first_content_ms INTEGER, total_ms INTEGER, overhead_us INTEGER,
    input INTEGER, output INTEGER, cache_read INTEGER, cache_write INTEGER, reasoning INTEGER,
    cost INTEGER, saved INTEGER NOT NULL DEFAULT 0, usage_source TEXT, trace TEXT, node TEXT NOT NULL,
    PRIMARY KEY (received, id)) WITHOUT ROWID`,
  'CREATE INDEX request_id ON request (id)',
  'CREATE INDEX request_key ON request (key, received)',
  `CREATE TABLE attempt (
    request TEXT NOT NULL, call INTEGER NOT NULL, n INTEGER NOT NULL, started INTEGER NOT NULL, ended INTEGER,
    key TEXT, team TEXT, provider TEXT NOT NULL, model TEXT NOT NULL, credential TEXT NOT NULL, hedge INTEGER NOT NULL DEFAULT 0,
    outcome TEXT NOT NULL, kind TEXT, status INTEGER, message TEXT, first_content_ms INTEGER,
    input INTEGER, output INTEGER, cache_read INTEGER, cache_write INTEGER, cache_write_1h INTEGER, reasoning INTEGER,
    audio_input INTEGER, audio_output INTEGER,
    reserved INTEGER NOT NULL, cost INTEGER, usage_source TEXT NOT NULL, price_source TEXT NOT NULL, price_version TEXT,
    opened TEXT,
    PRIMARY KEY (started, request, n)) WITHOUT ROWID`,
  'CREATE INDEX attempt_request ON attempt (request)',
  'CREATE INDEX attempt_unfinished ON attempt (started) WHERE opened IS NOT NULL',
  USAGE_HOUR,
  USAGE_DAY,
  BUDGET_SUM,
  `CREATE TABLE adjustment (id TEXT PRIMARY KEY, at INTEGER NOT NULL, budget TEXT, counter TEXT,
    period_start INTEGER, key TEXT, amount INTEGER NOT NULL,
    reason TEXT NOT NULL, actor TEXT NOT NULL) WITHOUT ROWID`,
  `CREATE TABLE journal (segment TEXT PRIMARY KEY, position INTEGER NOT NULL, malformed INTEGER NOT NULL) WITHOUT ROWID`,
  `CREATE TABLE facet (name TEXT NOT NULL, value TEXT NOT NULL, last_seen INTEGER NOT NULL,
    PRIMARY KEY (name, value)) WITHOUT ROWID`,
]

/** Before, clients gave requests the IDs under which they are stored. */
const CLIENT_REQUEST_ID = [
  'ALTER TABLE request ADD COLUMN client_request_id TEXT',
  'CREATE INDEX request_client_id ON request (client_request_id, received) WHERE client_request_id IS NOT NULL',
]

const INCIDENT = [
  `CREATE TABLE incident (id TEXT PRIMARY KEY, began INTEGER NOT NULL, ended INTEGER, ended_by TEXT, node TEXT NOT NULL,
    process TEXT NOT NULL, details TEXT NOT NULL) WITHOUT ROWID`,
  'CREATE INDEX incident_began ON incident (began)',
]

/** The second version adds a table in Postgres, so that both have the same numbers. */
const NOTHING = migrationOf([])

/** Raw SQL: kysely's schema builder has no `WITHOUT ROWID`. */
const MIGRATIONS: readonly Migration[] = [
  migrationOf(FIRST),
  NOTHING,
  migrationOf(CLIENT_REQUEST_ID),
  migrationOf(INCIDENT),
]

/**
 * The gateways that store usage, and when they have done so last, by the clock of the database. `since`: when it was opened
 * last.
 */
const GATEWAY = `CREATE TABLE gateway (node TEXT PRIMARY KEY, since INTEGER NOT NULL, seen INTEGER NOT NULL)`

const SHARED_MIGRATIONS: readonly Migration[] = [
  migrationOf(FIRST),
  migrationOf([GATEWAY]),
  migrationOf(CLIENT_REQUEST_ID),
  migrationOf(INCIDENT),
]

export const USAGE_SCHEMA: SchemaVersions = { file: USAGE_FILE, migrations: MIGRATIONS, oldestReader: 1, read: 4 }
export const SHARED_USAGE: SharedSchema = {
  name: 'headgate_usage',
  versions: { file: USAGE_FILE, migrations: SHARED_MIGRATIONS, oldestReader: 2, read: 4 },
}
