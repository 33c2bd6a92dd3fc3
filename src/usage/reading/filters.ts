/** Conditions of queries, for kysely. */
import { type Expression, type ExpressionBuilder, type SqlBool, sql } from 'kysely'
import { columnMark } from '../../core/guard-verdict.ts'
import { DEMO } from '../../core/provider.ts'
import type { RequestRow, UsageTables } from '../columns/usage-schema.ts'
import { type RequestFilter, type ResultName, ROW_DIMENSIONS, type UsageFilter } from './queries.ts'

/** `AND`s conditions; those that are undefined do not apply. */
type Condition = Expression<SqlBool> | undefined

/** No row: Postgres refuses `IN ()`. */
const NONE = sql<SqlBool>`1 = 0`

const FILTERED_COLUMNS = [
  'team',
  'key',
  'provider',
  'model',
  'asked',
  'route',
  'style',
  'end_user',
  'session',
  'agent',
  'client',
  'outcome',
  'code',
  'cache',
] as const satisfies readonly (keyof RequestRow & keyof RequestFilter)[]

const SEARCHED = [
  'id',
  'client_request_id',
  'asked',
  'provider',
  'model',
  'code',
  'message',
  'trail',
  'end_user',
] as const satisfies readonly (keyof RequestRow)[]

type Requests = ExpressionBuilder<UsageTables, 'request'>

/** The requests of a filter. */
export const requestCondition =
  (filter: RequestFilter) =>
  (eb: Requests): Expression<SqlBool> => {
    const { any_model, own_id, request_id, status, result, tag, guard, fell_back, demo, min_ms, min_cost, q } = filter
    const conditions: readonly Condition[] = [
      ...FILTERED_COLUMNS.map((column) => anyOf(eb, column, filter[column])),
      own_id && (own_id.length === 0 ? NONE : eb('id', 'in', own_id)),
      request_id && eb.or([eb('id', 'in', request_id), eb('client_request_id', 'in', request_id)]),
      any_model && eb.or([eb('asked', 'in', any_model), eb('model', 'in', any_model)]),
      status && eb.or(status.map((one) => statusIs(eb, one))),
      result && eb.or(result.map((one) => RESULT[one])),
      tag && eb.or(tag.map(hasTag)),
      guard && eb.or(guard.map(hasGuard)),
      fell_back === undefined ? undefined : fell_back ? FELL_BACK : eb.not(FELL_BACK),
      demo === false ? NOT_DEMO : undefined,
      min_ms === undefined ? undefined : eb('total_ms', '>=', min_ms),
      min_cost === undefined ? undefined : eb('cost', '>=', min_cost),
      q === undefined ? undefined : eb.or([...SEARCHED.map((column) => contains(column, q)), failedWith(q)]),
    ]
    return eb.and(conditions.filter((condition) => condition !== undefined))
  }

const anyOf = (eb: Requests, column: (typeof FILTERED_COLUMNS)[number], values?: readonly string[]): Condition => {
  if (!values) return undefined
  if (values.length === 0) return NONE
  const isOne = eb(column, 'in', values)
  return values.includes('') ? eb.or([isOne, eb(column, 'is', null)]) : isOne
}

const statusIs = (eb: Requests, status: string): Expression<SqlBool> => {
  if (!status.endsWith('xx')) return eb('status', '=', Number(status))
  const first = Number(status[0]) * 100
  return eb.and([eb('status', '>=', first), eb('status', '<', first + 100)])
}

const NOT_DEMO = sql<SqlBool>`coalesce(provider, '') <> ${sql.lit(DEMO)}`
const IS_CACHED = sql<SqlBool>`cache IN ('hit', 'shared')`
/** An attempt failed. Several attempts alone may be those of a hedge. */
const HAS_FAILED = sql<SqlBool>`(attempts > 1 AND failed_attempts > 0)`
/** Answered after an attempt that failed. */
export const FELL_BACK = sql<SqlBool>`(outcome = 'answered' AND NOT ${IS_CACHED} AND ${HAS_FAILED})`
/** Refused with a status of 5xx: the gateway had no answer. */
export const FAILED = "(outcome = 'refused' AND status >= 500)"
const RESULT: { readonly [result in ResultName]: Expression<SqlBool> } = {
  answered: sql`(outcome = 'answered' AND NOT ${IS_CACHED} AND NOT ${HAS_FAILED})`,
  fell_back: FELL_BACK,
  cached: sql`(outcome = 'answered' AND ${IS_CACHED})`,
  refused: sql`(outcome = 'refused' AND status < 500)`,
  failed: sql.raw(FAILED),
  broke_off: sql`outcome = 'interrupted'`,
  client_left: sql`outcome = 'client_gone'`,
  unknown: sql`outcome = 'unknown'`,
}

/** The tags are JSON of texts alone: a pair is there as it is written, and nothing else can look like it. */
const hasTag = (tag: string): Expression<SqlBool> => {
  const colon = tag.indexOf(':')
  const pair = [tag.slice(0, colon), tag.slice(colon + 1)].map((text) => JSON.stringify(text)).join(':')
  // A function that both databases have, and that distinguishes cases.
  return sql<SqlBool>`(tags IS NOT NULL AND replace(tags, ${pair}, '') <> tags)`
}

/** A guard has a verdict: its name is after a comma and before a slash, which names have encoded. */
const hasGuard = (name: string): Expression<SqlBool> =>
  sql<SqlBool>`(guards IS NOT NULL AND replace(',' || guards, ${columnMark(name)}, '') <> ',' || guards)`

/** Letters of ASCII are equal in both cases. SQLite's `LIKE` ignores the case, that of Postgres does not. */
const contains = (column: string, text: string): Expression<SqlBool> => {
  const pattern = text.replace(/[A-Z]/g, (letter) => letter.toLowerCase()).replace(/[\\%_]/g, '\\$&')
  return sql<SqlBool>`lower(${sql.ref(column)}) LIKE ${`%${pattern}%`} ESCAPE '\\'`
}

/** The text is in the error of an attempt or in its kind. */
const failedWith = (text: string): Expression<SqlBool> =>
  sql<SqlBool>`(attempts > 0 AND ${contains('attempt_list', text)} AND EXISTS (SELECT 1 FROM attempt
    WHERE attempt.received = request.received AND attempt.request = request.id AND attempt.kind IS NOT NULL
      AND (${contains('attempt.message', text)} OR ${contains('attempt.kind', text)})))`

/** The sums of a filter. They have an empty text where there is no value. */
export const usageCondition = (filter: UsageFilter): Expression<SqlBool> => {
  const conditions = ROW_DIMENSIONS.flatMap((name) => {
    const values = filter[name]
    if (!values) return []
    return [values.length === 0 ? NONE : sql<SqlBool>`${sql.ref(name)} IN (${sql.join(values)})`]
  })
  if (filter.demo === false) conditions.push(NOT_DEMO)
  return conditions.length === 0 ? sql<SqlBool>`1 = 1` : sql<SqlBool>`(${sql.join(conditions, sql` AND `)})`
}
