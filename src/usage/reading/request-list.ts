/** Requests with their attempts: a page, one by ID, and what filter menus show. */
import { sql } from 'kysely'
import { timeOfRequestId } from '../../core/request-time.ts'
import type { RequestRow } from '../columns/usage-schema.ts'
import { encodeCursor } from './cursor.ts'
import { requestCondition } from './filters.ts'
import type { LedgerReads } from './ledger-source.ts'
import { bucketsOf, bucketWidth, countOutcomes, outcomesOf } from './outcome-counts.ts'
import type {
  CursorValues,
  Facets,
  FacetsQuery,
  FoundRequest,
  OutcomeHistogram,
  RequestEntry,
  RequestQuery,
  RequestSort,
  RequestsPage,
  RequestsQuery,
} from './queries.ts'
import { isoTime, requestEntry } from './request-shape.ts'

/** Requests that are counted exactly. */
const COUNTED = 10_000
/** Requests with the same ID of the client in a result. */
const SAME_ID = 20
/**
 * ms around the time in an ID in which its request was received: the body may have come later, and clocks are set. Values of
 * a facet for several teams.
 */
const AROUND = { before: 60_000, after: 900_000 }
const FACET_VALUES = 1_000

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
  const data: RequestEntry[] = page.map((row) => requestEntry(row))
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
  const around = rangeOfId(id)
  const found = newest.where('id', '=', id)
  const row =
    (around &&
      (await found.where('received', '>=', around.from).where('received', '<', around.to).executeTakeFirst())) ??
    (await newest.where('client_request_id', '=', id).executeTakeFirst()) ??
    (await found.executeTakeFirst())
  if (!row) return null
  const entry = requestEntry(row, key === null)
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

/** When the request of an ID of the gateway was received; null: the ID has no time. */
const rangeOfId = (id: string): { readonly from: number; readonly to: number } | null => {
  const at = timeOfRequestId(id)
  return at === null ? null : { from: at - AROUND.before, to: at + AROUND.after }
}

/** The requests that this reader may see. */
const readable = ({ db }: LedgerReads, { key, team }: RequestQuery) => {
  let rows = db.selectFrom('request')
  if (key !== null) rows = key === '' ? rows.where('key', 'is', null) : rows.where('key', '=', key)
  return team ? rows.where('team', 'in', team) : rows
}

/** What filter menus show: of all requests, or of those of some teams. */
export const facetsOf = async ({ db }: LedgerReads, { team }: FacetsQuery): Promise<Facets> => {
  const facets: { [name: string]: string[] } = {}
  const add = (name: string, value: string) => {
    facets[name] ??= []
    facets[name].push(value)
  }
  if (!team) {
    const rows = await db
      .selectFrom('facet')
      .select(['name', 'value'])
      .where('team', '=', '')
      .orderBy('name')
      .orderBy('last_seen', 'desc')
      .execute()
    for (const { name, value } of rows) add(name, value)
    return { ...facets, object: 'facets' }
  }
  const rows = await db
    .selectFrom('facet')
    .select(['name', 'value'])
    .where('team', 'in', team)
    .orderBy('name')
    .orderBy('last_seen', 'desc')
    .execute()
  for (const { name, value } of rows) {
    const known = facets[name]
    if (!known?.includes(value) && (known?.length ?? 0) < FACET_VALUES) add(name, value)
  }
  return { ...facets, object: 'facets' }
}

const matching = ({ db }: LedgerReads, { from, to, filter }: Pick<RequestsQuery, 'from' | 'to' | 'filter'>) =>
  db.selectFrom('request').where('received', '>=', from).where('received', '<', to).where(requestCondition(filter))

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
