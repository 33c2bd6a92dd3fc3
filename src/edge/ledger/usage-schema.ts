/**
 * Tables of `usage.db`. Times are ms since 1970, amounts whole nano-dollars, texts without a value null. Sums (`usage_hour`,
 * `usage_day`, `budget_sum`) contain what this node has counted.
 */

import { sql } from 'kysely'
import type { Migration } from 'kysely/migration'
import type { BudgetCharge } from './journal-record.ts'

export type UsageTables = {
  readonly request: RequestRow
  readonly attempt: AttemptRow
  readonly usage_hour: Omit<RollupRow<number>, 'period'> & { readonly hour: number }
  readonly usage_day: Omit<RollupRow<string>, 'period'> & { readonly day: string }
  readonly budget_sum: BudgetSumRow
  readonly adjustment: AdjustmentRow
  readonly journal: JournalRow
  readonly facet: FacetRow
}

export type RequestRow = {
  readonly id: string
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
  /** JSON, at most 1 KB. */
  readonly tags: string | null
  readonly outcome: string
  readonly status: number
  readonly code: string | null
  readonly attempts: number
  readonly trail: string | null
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
  /** ID of the request. */
  readonly request: string
  readonly n: number
  readonly started: number
  readonly ended: number | null
  readonly provider: string
  readonly model: string
  readonly credential: string
  readonly hedge: number
  /** `open` until its end is known. */
  readonly outcome: string
  readonly kind: string | null
  readonly status: number | null
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

/** What the end of an attempt is counted by. */
export type OpenedColumn = {
  /** The process that made the attempt, and the number of the call in it. */
  readonly process: string
  readonly call: number
  readonly key: string | null
  readonly team: string | null
  readonly style: string
  readonly tag: string | null
  readonly charges: readonly BudgetCharge[]
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

export type BudgetSumRow = {
  readonly counter: string
  readonly period_start: number
  readonly node: string
  readonly spent: number
  /** Highest threshold, in percent, for which an alert was sent. */
  readonly alerted: number
}

type AdjustmentRow = {
  readonly id: string
  readonly at: number
  readonly budget: string | null
  readonly key: string | null
  readonly amount: number
  readonly reason: string
  readonly actor: string
}

/** Position up to which a segment is stored. `malformed`: number of its lines that were skipped. */
export type JournalRow = { readonly segment: string; readonly position: number; readonly malformed: number }

/** A value that filter menus show. */
export type FacetRow = { readonly name: string; readonly value: string; readonly last_seen: number }

const ROLLUP = `node TEXT NOT NULL, team TEXT NOT NULL, key TEXT NOT NULL, provider TEXT NOT NULL, model TEXT NOT NULL,
  style TEXT NOT NULL, tag TEXT NOT NULL, outcome TEXT NOT NULL,
  requests INTEGER NOT NULL, attempts INTEGER NOT NULL, input INTEGER NOT NULL, output INTEGER NOT NULL,
  cache_read INTEGER NOT NULL, cache_write INTEGER NOT NULL, reasoning INTEGER NOT NULL, cost INTEGER NOT NULL,
  saved INTEGER NOT NULL, estimated INTEGER NOT NULL, unpriced INTEGER NOT NULL,
  first_content_sum INTEGER NOT NULL, first_content_count INTEGER NOT NULL, total_sum INTEGER NOT NULL`

const FIRST = [
  `CREATE TABLE request (
    id TEXT NOT NULL, received INTEGER NOT NULL, ended INTEGER, style TEXT NOT NULL, stream INTEGER NOT NULL,
    asked TEXT NOT NULL, route TEXT, provider TEXT, model TEXT,
    key TEXT, team TEXT, person TEXT, end_user TEXT, tags TEXT,
    outcome TEXT NOT NULL, status INTEGER NOT NULL, code TEXT, attempts INTEGER NOT NULL, trail TEXT, cache TEXT NOT NULL,
    first_content_ms INTEGER, total_ms INTEGER, overhead_us INTEGER,
    input INTEGER, output INTEGER, cache_read INTEGER, cache_write INTEGER, reasoning INTEGER,
    cost INTEGER, saved INTEGER NOT NULL DEFAULT 0, usage_source TEXT, trace TEXT, node TEXT NOT NULL,
    PRIMARY KEY (received, id)) WITHOUT ROWID`,
  'CREATE INDEX request_id ON request (id)',
  'CREATE INDEX request_key ON request (key, received)',
  `CREATE TABLE attempt (
    request TEXT NOT NULL, n INTEGER NOT NULL, started INTEGER NOT NULL, ended INTEGER,
    provider TEXT NOT NULL, model TEXT NOT NULL, credential TEXT NOT NULL, hedge INTEGER NOT NULL DEFAULT 0,
    outcome TEXT NOT NULL, kind TEXT, status INTEGER, first_content_ms INTEGER,
    input INTEGER, output INTEGER, cache_read INTEGER, cache_write INTEGER, cache_write_1h INTEGER, reasoning INTEGER,
    audio_input INTEGER, audio_output INTEGER,
    reserved INTEGER NOT NULL, cost INTEGER, usage_source TEXT NOT NULL, price_source TEXT NOT NULL, price_version TEXT,
    opened TEXT,
    PRIMARY KEY (started, request, n)) WITHOUT ROWID`,
  'CREATE INDEX attempt_request ON attempt (request)',
  'CREATE INDEX attempt_unfinished ON attempt (started) WHERE opened IS NOT NULL',
  `CREATE TABLE usage_hour (hour INTEGER NOT NULL, ${ROLLUP},
    PRIMARY KEY (hour, node, team, key, provider, model, style, tag, outcome)) WITHOUT ROWID`,
  `CREATE TABLE usage_day (day TEXT NOT NULL, ${ROLLUP},
    PRIMARY KEY (day, node, team, key, provider, model, style, tag, outcome)) WITHOUT ROWID`,
  `CREATE TABLE budget_sum (counter TEXT NOT NULL, period_start INTEGER NOT NULL, node TEXT NOT NULL,
    spent INTEGER NOT NULL, alerted INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (counter, period_start, node)) WITHOUT ROWID`,
  `CREATE TABLE adjustment (id TEXT PRIMARY KEY, at INTEGER NOT NULL, budget TEXT, key TEXT, amount INTEGER NOT NULL,
    reason TEXT NOT NULL, actor TEXT NOT NULL) WITHOUT ROWID`,
  `CREATE TABLE journal (segment TEXT PRIMARY KEY, position INTEGER NOT NULL, malformed INTEGER NOT NULL) WITHOUT ROWID`,
  `CREATE TABLE facet (name TEXT NOT NULL, value TEXT NOT NULL, last_seen INTEGER NOT NULL,
    PRIMARY KEY (name, value)) WITHOUT ROWID`,
]

/** Raw SQL: kysely's schema builder has no `WITHOUT ROWID`. */
export const USAGE_MIGRATIONS: readonly Migration[] = [
  {
    async up(db) {
      for (const statement of FIRST) await sql.raw(statement).execute(db)
    },
  },
]
