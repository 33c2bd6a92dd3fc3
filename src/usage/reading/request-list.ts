/** Requests with their attempts: a page, one by ID, and what filter menus show. */
import { sql } from 'kysely'
import { timeOfRequestId } from '../../core/request-time.ts'
import { slicesOf } from '../columns/time-slices.ts'
import { OTHER, type RequestRow } from '../columns/usage-schema.ts'
import { encodeCursor } from './cursor.ts'
import { DAY } from './days.ts'
import { requestCondition } from './filters.ts'
import type { LedgerReads } from './ledger-source.ts'
import { bucketsOf, bucketWidth, countOutcomes, outcomesOf } from './outcome-counts.ts'
import {
  type CursorValues,
  DIMENSIONS,
  type Dimension,
  type Facets,
  type FacetsQuery,
  type FoundRequest,
  type OutcomeHistogram,
  type RequestEntry,
  type RequestQuery,
  type RequestsPage,
  type RequestsQuery,
  type TimeRange,
} from './queries.ts'
import { isoTime, requestEntry } from './request-shape.ts'
import { readNewest } from './slices.ts'

/** Requests that are counted exactly. */
const COUNTED = 10_000
/** Requests with the same ID of the client in a result. */
const SAME_ID = 20
/** ms around the time in an ID in which its request was received: the body may have come later, and clocks are set. */
const AROUND = { before: 60_000, after: 900_000 }
/** The most values of a facet, and days with usage that are searched for them. */
const FACETS = { values: 1_000, days: 31 }

export const requestsPage = async (reads: LedgerReads, query: RequestsQuery): Promise<RequestsPage> => {
  const { from, to, sort = '-received_at', filter } = query
  const column = sort.replace('-', '')
  const named = filter.request_id ? await rangeOfIds(reads, query, filter.request_id) : query
  const found = isSortedBy(column)
    ? await pageByValue(reads, { ...query, ...named }, column)
    : await pageByTime(reads, { ...query, ...named })
  const data: RequestEntry[] = found.rows.map((row) => requestEntry(row))
  return {
    object: 'list',
    from: isoTime(from),
    to: isoTime(to),
    data,
    has_more: found.next !== null,
    next: found.next && encodeCursor(found.next),
    searched_until: found.searchedUntil === null ? null : isoTime(found.searchedUntil),
    ...(query.count && { count: await countOf(reads, { ...query, ...named }) }),
    ...(query.histogram !== null && { histogram: await histogramOf(reads, query, query.histogram) }),
  }
}

/** `searchedUntil`: ms since 1970, if the time was over before the end of the range. */
type FoundPage = {
  readonly rows: readonly RequestRow[]
  readonly next: CursorValues | null
  readonly searchedUntil: number | null
}

/** A page of the list in the order of time. It ends with its last row, or where the search was when the time was over. */
const pageByTime = async (reads: LedgerReads, query: RequestsQuery): Promise<FoundPage> => {
  const { limit, after, filter } = query
  const isNewest = query.sort !== 'received_at'
  const direction = isNewest ? 'newest first' : 'oldest first'
  const order = isNewest ? 'desc' : 'asc'
  const range = rangeAfter(query, isNewest)
  const isFiltered = Object.values(filter).some((value) => value !== undefined)
  const rows: RequestRow[] = []
  // The limit alone ends a statement without a filter soon.
  for await (const slice of isFiltered ? slicesOf(reads, range, direction) : [range]) {
    let found = matching(reads, { ...slice, filter })
      .selectAll()
      .orderBy('received', order)
      .orderBy('id', order)
      .limit(limit + 1 - rows.length)
    if (after) found = found.where(sql<boolean>`(received, id) ${sql.raw(isNewest ? '<' : '>')} (${sql.join(after)})`)
    rows.push(...(await found.execute()))
    const last = rows[limit - 1]
    if (rows.length > limit && last)
      return { rows: rows.slice(0, limit), next: [last.received, last.id], searchedUntil: null }
    const until = isNewest ? slice.from : slice.to
    const isWhole = until === (isNewest ? range.from : range.to)
    // No ID is empty, so the next page begins with the first request beyond this time.
    if (!isWhole && reads.isOver('list')) return { rows, next: [until, ''], searchedUntil: until }
  }
  return { rows, next: null, searchedUntil: null }
}

/** What is left of the range after the row of a cursor, which begins with its time: earlier pages are not read again. */
const rangeAfter = ({ from, to, after }: RequestsQuery, isNewest: boolean): TimeRange => {
  const [received] = after ?? []
  if (typeof received !== 'number') return { from, to }
  return isNewest ? { from, to: Math.min(to, received + 1) } : { from: Math.max(from, received), to }
}

const SORTED_BY = ['total_ms', 'first_content_ms', 'cost'] as const
type SortedBy = (typeof SORTED_BY)[number]
const isSortedBy = (column: string): column is SortedBy => SORTED_BY.some((name) => name === column)

/** What decides the order of a list that is sorted by a value; no two requests have it in common. */
type SortKey = { readonly value: number; readonly received: number; readonly id: string }

/**
 * A page of the list sorted by a value: of the newest part of the range that could be searched in the time. Its cursor contains
 * the beginning of that part, so that the next page is of the same part.
 */
const pageByValue = async (reads: LedgerReads, query: RequestsQuery, column: SortedBy): Promise<FoundPage> => {
  const { limit, filter, sort = '', to } = query
  const isDescending = sort.startsWith('-')
  const [value, received, id, searched = null] = query.after ?? []
  const order = isDescending ? 'desc' : 'asc'
  const none = isDescending ? -1 : Number.MAX_SAFE_INTEGER
  const keys = sql`coalesce(${sql.ref(column)}, ${sql.lit(none)}), received, id`
  const compare = (one: SortKey, other: SortKey) => {
    const least = one.value - other.value || one.received - other.received || (one.id < other.id ? -1 : 1)
    return isDescending ? -least : least
  }
  const from = searched === null ? query.from : Math.max(query.from, Number(searched))
  let searchedUntil = searched === null ? null : Number(searched)
  let best: SortKey[] = []
  for await (const slice of slicesOf(reads, { from, to }, 'newest first')) {
    let found = matching(reads, { ...slice, filter })
      .select(sql<number>`coalesce(${sql.ref(column)}, ${sql.lit(none)})`.as('value'))
      // Whole rows would be sorted with them.
      .select(['received', 'id'])
      .orderBy('value', order)
      .orderBy('received', order)
      .orderBy('id', order)
      .limit(limit + 1)
    if (value !== undefined)
      found = found.where(
        sql<boolean>`(${keys}) ${sql.raw(isDescending ? '<' : '>')} (${sql.join([value, received, id])})`,
      )
    best = [...best, ...(await found.execute())].sort(compare).slice(0, limit + 1)
    if (searched === null && slice.from > from && reads.isOver('list')) {
      searchedUntil = slice.from
      break
    }
  }
  const page = best.slice(0, limit)
  const last = page.at(-1)
  const hasMore = best.length > limit && last !== undefined
  const part = searchedUntil === null ? [] : [searchedUntil]
  return {
    rows: (await rowsOf(reads, page)).sort((one, other) =>
      compare({ ...one, value: one[column] ?? none }, { ...other, value: other[column] ?? none }),
    ),
    next: hasMore ? [last.value, last.received, last.id, ...part] : null,
    searchedUntil,
  }
}

/** The rows of primary keys, in any order. */
const rowsOf = async ({ db }: LedgerReads, keys: readonly SortKey[]): Promise<RequestRow[]> => {
  if (keys.length === 0) return []
  const times = keys.map(({ received }) => received)
  // Postgres finds the days by these alone.
  const [first, last] = [Math.min(...times), Math.max(...times)]
  const values = sql.join(keys.map(({ received, id }) => sql`(${sql.lit(received)}, ${id})`))
  // A cross join is read in this order by SQLite, which would read the whole table first otherwise.
  const found = sql<RequestRow>`WITH listed (received, id) AS (VALUES ${values})
    SELECT request.* FROM listed CROSS JOIN request WHERE request.received = listed.received AND request.id = listed.id
      AND request.received >= ${first} AND request.received <= ${last}`
  return [...(await found.execute(db)).rows]
}

/** Where requests with these IDs can be: around the times in them, and at those to which clients gave them. */
const rangeOfIds = async (reads: LedgerReads, { from, to }: TimeRange, ids: readonly string[]): Promise<TimeRange> => {
  const ranges = ids.map(rangeOfId)
  const given = await reads.db
    .selectFrom('request')
    .select([sql<number | null>`min(received)`.as('first'), sql<number | null>`max(received)`.as('last')])
    .where('client_request_id', 'in', ids)
    .where('received', '>=', from)
    .where('received', '<', to)
    .executeTakeFirst()
  const { first = null, last = null } = given ?? {}
  // An ID without a time is one that a client gave, or none of this gateway.
  const times = [
    ...ranges.flatMap((range) => (range ? [range.from, range.to] : [])),
    ...(first === null || last === null ? [] : [first, last + 1]),
  ]
  const isKnown = ranges.every((range) => range !== null) || (first !== null && ids.length === 1)
  if (!isKnown) return { from, to }
  return { from: Math.max(from, Math.min(...times)), to: Math.min(to, Math.max(...times)) }
}

/**
 * Null if no request has this ID. Of several to which the client gave it, the newest. An ID of the gateway that states no time,
 * or another one, is looked for among the newest requests, as many as can be searched in the time.
 */
export const oneRequest = async (reads: LedgerReads, query: RequestQuery): Promise<FoundRequest | null> => {
  const { id, key } = query
  const newest = readable(reads, query).selectAll().orderBy('received', 'desc').limit(1)
  const within = ({ from, to }: TimeRange) =>
    newest.where('id', '=', id).where('received', '>=', from).where('received', '<', to).executeTakeFirst()
  const around = rangeOfId(id)
  let row =
    (around && (await within(around))) ?? (await newest.where('client_request_id', '=', id).executeTakeFirst()) ?? null
  if (!row) {
    const { first = null } =
      (await reads.db.selectFrom('request').select(sql<number | null>`min(received)`.as('first')).executeTakeFirst()) ??
      {}
    const all = { from: first ?? reads.now, to: reads.now + DAY }
    for await (const slice of slicesOf(reads, all, 'newest first')) {
      row = (await within(slice)) ?? null
      if (row || reads.isOver('list')) break
    }
  }
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

/** What filter menus show, of the newest days with usage: of all requests, or of those of some teams. What was used last is first. */
export const facetsOf = async (reads: LedgerReads, { team }: FacetsQuery): Promise<Facets> => {
  const found = new Map<Dimension, Set<string>>()
  const rows = reads.db.selectFrom('usage_day')
  let last = await rows.select(({ fn }) => fn.max('day').as('day')).executeTakeFirst()
  for (let days = 0; last?.day && days < FACETS.days && !(days > 0 && reads.isOver('list')); days++) {
    const { day } = last
    const used = rows.where('day', '=', day)
    for (const name of DIMENSIONS) {
      const values = team ? used.where('team', 'in', team) : used
      const sorted = values.select(name).distinct().where(name, '<>', '').orderBy(name).limit(FACETS.values)
      const known = found.get(name) ?? new Set()
      // Names above the number of rows that a day may have are `OTHER`, which is also a kind of client.
      for (const row of await sorted.execute())
        if (known.size < FACETS.values && (row[name] !== OTHER || name === 'client')) known.add(row[name])
      if (known.size > 0) found.set(name, known)
    }
    await reads.turn()
    last = await rows
      .select(({ fn }) => fn.max('day').as('day'))
      .where('day', '<', day)
      .executeTakeFirst()
  }
  return { ...Object.fromEntries([...found].map(([name, values]) => [name, [...values]])), object: 'facets' }
}

const matching = ({ db }: LedgerReads, { from, to, filter }: Pick<RequestsQuery, 'from' | 'to' | 'filter'>) =>
  db.selectFrom('request').where('received', '>=', from).where('received', '<', to).where(requestCondition(filter))

/** Up to `COUNTED`, of as many as can be searched in the time. */
const countOf = async (reads: LedgerReads, query: RequestsQuery): Promise<{ value: number; exact: boolean }> => {
  let value = 0
  for await (const slice of slicesOf(reads, query, 'newest first')) {
    const found = matching(reads, { ...slice, filter: query.filter })
      .select(sql<number>`1`.as('one'))
      .limit(COUNTED + 1 - value)
    const row = await reads.db
      .selectFrom(found.as('found'))
      .select(sql<number>`count(*)`.as('requests'))
      .executeTakeFirst()
    value += row?.requests ?? 0
    if (value > COUNTED) return { value: COUNTED, exact: false }
    if (slice.from > query.from && reads.isOver('count')) return { value, exact: false }
  }
  return { value, exact: true }
}

const histogramOf = async (reads: LedgerReads, query: RequestsQuery, most: number): Promise<OutcomeHistogram> => {
  const width = bucketWidth(query, most)
  const { buckets, searchedUntil } = await readNewest(reads, bucketsOf(query, width), (bucket) =>
    countOutcomes(reads, bucket, query, query.filter),
  )
  return {
    seconds: width / 1_000,
    searched_until: searchedUntil === null ? null : isoTime(searchedUntil),
    data: buckets.map(({ range, value }) => ({ start: isoTime(range.from), ...outcomesOf(value) })),
  }
}
