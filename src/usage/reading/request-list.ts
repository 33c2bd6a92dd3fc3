/** Requests with their attempts: a page, one by ID, and what filter menus show. */
import { sql } from 'kysely'
import type { AttemptRow, RequestRow } from '../columns/usage-schema.ts'
import { encodeCursor } from './cursor.ts'
import { requestCondition } from './filters.ts'
import type { LedgerReads } from './ledger-source.ts'
import { bucketsOf, bucketWidth, countOutcomes, outcomesOf } from './outcome-counts.ts'
import {
  type CursorValues,
  DIMENSIONS,
  type Facets,
  type FacetsQuery,
  type FoundRequest,
  type OutcomeHistogram,
  type RequestEntry,
  type RequestQuery,
  type RequestSort,
  type RequestsPage,
  type RequestsQuery,
} from './queries.ts'
import { isoTime, requestEntry } from './request-shape.ts'

/** Requests that are counted exactly. */
const COUNTED = 10_000
/** Attempts of one request in a result. */
const ATTEMPTS = 64
/** Requests with the same ID of the client in a result. */
const SAME_ID = 20
/** ms before the receipt of a request at which its attempts are looked for: those of equal IDs were moved apart. */
const BEFORE = 1_000
/** Values per facet, and the days of sums from which those of single teams are read. */
const FACETS = { values: 1_000, days: 30 }
const DAY = 86_400_000

export const requestsPage = async (reads: LedgerReads, query: RequestsQuery): Promise<RequestsPage> => {
  const { limit, after, from, to } = query
  const { keys, direction, values } = orderOf(query.sort ?? '-received_at')
  let rows = matching(reads, query)
    .selectAll()
    .orderBy(sql.join(keys.map((key) => sql`${key} ${sql.raw(direction)}`)))
    .limit(limit + 1)
  if (after)
    rows = rows.where(
      sql<boolean>`(${sql.join(keys)}) ${sql.raw(direction === 'desc' ? '<' : '>')} (${sql.join(after)})`,
    )
  const found = await rows.execute()
  const page = found.slice(0, limit)
  const last = page.at(-1)
  const hasMore = found.length > limit && last !== undefined
  const data: RequestEntry[] = []
  for (const row of page) data.push(requestEntry(row, await attemptsOf(reads, row)))
  return {
    object: 'list',
    from: isoTime(from),
    to: isoTime(to),
    data,
    has_more: hasMore,
    next: hasMore ? encodeCursor(values(last)) : null,
    ...(query.count && { count: await countOf(reads, query) }),
    ...(query.histogram !== null && { histogram: await histogramOf(reads, query, query.histogram) }),
  }
}

/** The sort key of requests, which no two have in common, as columns and as the values of a row. */
const orderOf = (sort: RequestSort) => {
  const direction = sort.startsWith('-') ? 'desc' : 'asc'
  const key = [sql`received`, sql`id`]
  const column = sort.replace('-', '')
  if (column !== 'total_ms' && column !== 'first_content_ms' && column !== 'cost')
    return { direction, keys: key, values: (row: RequestRow): CursorValues => [row.received, row.id] }
  const none = direction === 'desc' ? -1 : Number.MAX_SAFE_INTEGER
  return {
    direction,
    keys: [sql`coalesce(${sql.ref(column)}, ${sql.lit(none)})`, ...key],
    values: (row: RequestRow): CursorValues => [row[column] ?? none, row.received, row.id],
  }
}

/** Null if no request has this ID. Of several to which the client gave it, the newest. */
export const oneRequest = async (reads: LedgerReads, query: RequestQuery): Promise<FoundRequest | null> => {
  const { id, key } = query
  const newest = readable(reads, query).selectAll().orderBy('received', 'desc').limit(1)
  const row =
    (await newest.where('id', '=', id).executeTakeFirst()) ??
    (await newest.where('client_request_id', '=', id).executeTakeFirst())
  if (!row) return null
  const entry = requestEntry(row, await attemptsOf(reads, row), key === null)
  return { ...entry, same_client_id: await sameClientId(reads, query, row) }
}

const sameClientId = async (
  reads: LedgerReads,
  query: RequestQuery,
  { id, client_request_id }: RequestRow,
): Promise<FoundRequest['same_client_id']> => {
  if (client_request_id === null) return []
  const rows = await readable(reads, query)
    .select(['id', 'received'])
    .where('client_request_id', '=', client_request_id)
    .where('id', '<>', id)
    .orderBy('received', 'desc')
    .limit(SAME_ID)
    .execute()
  return rows.map((row) => ({ id: row.id, received_at: isoTime(row.received) }))
}

/** The requests that this reader may see. */
const readable = ({ db }: LedgerReads, { key, team }: RequestQuery) => {
  let rows = db.selectFrom('request')
  if (key !== null) rows = key === '' ? rows.where('key', 'is', null) : rows.where('key', '=', key)
  return team ? rows.where('team', 'in', team) : rows
}

/** What filter menus show: of all requests, or of those of some teams. */
export const facetsOf = async ({ db, now }: LedgerReads, { team }: FacetsQuery): Promise<Facets> => {
  const facets: { [name: string]: string[] } = {}
  const add = (name: string, value: string) => {
    facets[name] ??= []
    facets[name].push(value)
  }
  if (!team) {
    const rows = await db
      .selectFrom('facet')
      .select(['name', 'value'])
      .orderBy('name')
      .orderBy('last_seen', 'desc')
      .execute()
    for (const { name, value } of rows) add(name, value)
    return { ...facets, object: 'facets' }
  }
  const since = isoTime(now - FACETS.days * DAY).slice(0, 10)
  const found = new Map(TEAM_FACETS.map((name) => [name, new Set<string>()]))
  for (const row of await ofTeams(db, team, since))
    for (const [name, values] of found) if (row[name] !== '' && values.size < FACETS.values) values.add(row[name])
  for (const [name, values] of found) for (const value of values) add(name, value)
  return { ...facets, object: 'facets' }
}

const TEAM_FACETS = [...DIMENSIONS, 'outcome'] as const

/**
 * The dimensions of the requests of teams since a day. Sums are ordered by day, node and team: the days and their nodes,
 * which are few, are found first, so that the sums of other teams are not read.
 */
const ofTeams = async (db: LedgerReads['db'], teams: readonly string[], since: string) => {
  const columns = sql.join(TEAM_FACETS.map((name) => sql.ref(name)))
  const { rows } = await sql<{ readonly [name in (typeof TEAM_FACETS)[number]]: string }>`
    WITH RECURSIVE
      period (start) AS (
        SELECT min(day) FROM usage_day WHERE day >= ${since}
        UNION ALL SELECT (SELECT min(day) FROM usage_day WHERE day > start) FROM period WHERE start IS NOT NULL),
      place (start, part) AS (
        SELECT start, (SELECT min(node) FROM usage_day WHERE day = start) FROM period WHERE start IS NOT NULL
        UNION ALL
        SELECT start, (SELECT min(node) FROM usage_day WHERE day = start AND node > part) FROM place WHERE part IS NOT NULL)
    SELECT DISTINCT ${columns} FROM place CROSS JOIN usage_day
    WHERE day = start AND node = part AND team IN (${sql.join(teams)}) AND requests > 0`.execute(db)
  return rows
}

const matching = ({ db }: LedgerReads, { from, to, filter }: Pick<RequestsQuery, 'from' | 'to' | 'filter'>) =>
  db.selectFrom('request').where('received', '>=', from).where('received', '<', to).where(requestCondition(filter))

/** By the call and the time as well: before, requests were stored under the IDs of clients, which repeat. */
const attemptsOf = ({ db }: LedgerReads, row: RequestRow): Promise<readonly AttemptRow[]> =>
  db
    .selectFrom('attempt')
    .selectAll()
    .where('request', '=', row.id)
    .where('call', '=', row.call)
    .where('started', '>=', row.received - BEFORE)
    .where('started', '<=', row.ended ?? Number.MAX_SAFE_INTEGER)
    .orderBy('started')
    .orderBy('n')
    .limit(ATTEMPTS)
    .execute()

const countOf = async (reads: LedgerReads, query: RequestsQuery): Promise<{ value: number; exact: boolean }> => {
  reads.checkTime()
  const found = matching(reads, query)
    .select(sql<number>`1`.as('one'))
    .limit(COUNTED + 1)
  const row = await reads.db
    .selectFrom(found.as('found'))
    .select(sql<number>`count(*)`.as('requests'))
    .executeTakeFirst()
  const requests = row?.requests ?? 0
  return { value: Math.min(requests, COUNTED), exact: requests <= COUNTED }
}

const histogramOf = async (reads: LedgerReads, query: RequestsQuery, most: number): Promise<OutcomeHistogram> => {
  const width = bucketWidth(query, most)
  const data: OutcomeHistogram['data'][number][] = []
  for (const bucket of bucketsOf(query, width)) {
    const counts = await countOutcomes(reads, bucket, query, query.filter)
    data.push({ start: isoTime(bucket.from), ...outcomesOf(counts) })
  }
  return { seconds: width / 1_000, data }
}
