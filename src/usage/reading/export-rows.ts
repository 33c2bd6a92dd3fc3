/** Rows of an export, oldest first, in pages of bounded size. */
import { sql } from 'kysely'
import { slicesOf } from '../columns/time-slices.ts'
import { decodeCursor } from './cursor.ts'
import { csvLine, type ExportCell } from './export-text.ts'
import { requestCondition } from './filters.ts'
import type { LedgerReads } from './ledger-source.ts'
import {
  type CursorValues,
  DIMENSIONS,
  type ExportPage,
  type ExportQuery,
  type TimeRange,
  type UsageFilter,
} from './queries.ts'
import { dollars, isoTime } from './request-shape.ts'
import { usageReport } from './usage-report.ts'

/** Rows per page. A row has at most 10 KB. */
const PAGE = 500

type ExportRow = { readonly [column: string]: ExportCell }
type ExportRows = { readonly rows: readonly ExportRow[]; readonly last: CursorValues | null }

export const exportPage = async (reads: LedgerReads, query: ExportQuery): Promise<ExportPage> => {
  const { rows, last } = await pageOf(reads, query)
  const textOf = query.format === 'csv' ? (row: ExportRow) => csvLine(Object.values(row)) : JSON.stringify
  const lines = rows.map((row) => ({ text: textOf(row), team: idIn(row.team), key: idIn(row.key) }))
  return { columns: query.after === null ? COLUMNS[query.level] : null, lines, next: last }
}

const idIn = (cell: ExportCell | undefined): string | null => (typeof cell === 'string' ? cell : null)

const pageOf = (reads: LedgerReads, query: ExportQuery): Promise<ExportRows> => {
  switch (query.level) {
    case 'request':
      return requests(reads, query)
    case 'attempt':
      return attempts(reads, query)
    case 'day':
      return days(reads, query)
    default:
      throw new Error(`unknown level ${JSON.stringify(query.level satisfies never)}`)
  }
}

// ── Rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Times are exported as ISO 8601, and named like those of the admin API. */
const exported = (column: string): string => (TIMES.has(column) ? `${column}_at` : column)
const TIMES: ReadonlySet<string> = new Set(['received', 'started', 'ended'])

const COLUMNS = {
  request: [
    ...['id', 'received', 'ended', 'style', 'stream', 'asked', 'route', 'provider', 'model', 'key', 'team', 'person'],
    ...['end_user', 'client', 'tags', 'outcome', 'status', 'code', 'message', 'attempts', 'trail', 'decision', 'cache'],
    ...['first_content_ms', 'total_ms', 'overhead_us', 'input', 'output', 'cache_read', 'cache_write', 'reasoning'],
    ...['usage_source', 'cost', 'saved', 'require', 'session', 'agent', 'guards', 'trace', 'node', 'client_request_id'],
  ].map(exported),
  attempt: [
    ...[
      'request',
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
    ],
    ...['status', 'message', 'first_content_ms', 'input', 'output', 'cache_read', 'cache_write', 'cache_write_1h'],
    ...[
      'reasoning',
      'audio_input',
      'audio_output',
      'usage_source',
      'reserved',
      'cost',
      'price_source',
      'price_version',
      'unit',
      'units',
    ],
  ].map(exported),
  day: [
    'day',
    'team',
    'key',
    'model',
    'provider',
    'tag',
    'style',
    'route',
    'client',
    'requests',
    'failed',
    'attempts',
    'input',
    'output',
    'cache_read',
    'cache_write',
    'reasoning',
    'cost',
    'saved',
    'estimated',
    'unpriced',
    'first_content_ms',
    'total_ms',
  ],
} as const

/** The members of an object in the order of the columns. */
const inOrder = (columns: readonly string[], values: ExportRow): ExportRow =>
  Object.fromEntries(columns.map((column) => [column, values[column] ?? null]))

/** Reads a page of rows in parts of the range, the oldest first. It ends with its last row, or when its time is over. */
const pageInParts = async <Row>(
  reads: LedgerReads,
  { from, to, after }: ExportQuery,
  read: (part: TimeRange, limit: number) => Promise<readonly Row[]>,
  keyOf: (row: Row) => CursorValues,
): Promise<{ readonly found: readonly Row[]; readonly last: CursorValues | null }> => {
  const [received] = after ?? []
  const range = { from: typeof received === 'number' ? Math.max(from, received) : from, to }
  const found: Row[] = []
  for await (const part of slicesOf(reads, range, 'oldest first')) {
    found.push(...(await read(part, PAGE - found.length)))
    const last = found.at(-1)
    if (found.length === PAGE && last) return { found, last: keyOf(last) }
    // No ID is empty, so the next page begins with the first request of this time.
    if (part.to < to && reads.isOver('list')) return { found, last: [part.to, ''] }
  }
  return { found, last: null }
}

const requests = async (reads: LedgerReads, query: ExportQuery): Promise<ExportRows> => {
  const { filter, after } = query
  const read = (part: TimeRange, limit: number) => {
    let rows = reads.db
      .selectFrom('request')
      .selectAll()
      .where('received', '>=', part.from)
      .where('received', '<', part.to)
      .where(requestCondition(filter))
      .orderBy('received')
      .orderBy('id')
      .limit(limit)
    if (after) rows = rows.where(sql<boolean>`(received, id) > (${sql.join(after)})`)
    return rows.execute()
  }
  const { found, last } = await pageInParts(reads, query, read, ({ received, id }) => [received, id])
  return {
    rows: found.map((row) =>
      inOrder(COLUMNS.request, {
        ...row,
        received_at: isoTime(row.received),
        ended_at: row.ended === null ? null : isoTime(row.ended),
        cost: dollars(row.cost),
        saved: dollars(row.saved),
      }),
    ),
    last,
  }
}

/** Attempts of complete requests, in the order of those. Of the filter those members apply that attempts have. */
const attempts = async (reads: LedgerReads, query: ExportQuery): Promise<ExportRows> => {
  const { filter, after } = query
  const read = (part: TimeRange, limit: number) => {
    let rows = reads.db
      .selectFrom('attempt')
      .selectAll()
      .where('received', '>=', part.from)
      .where('received', '<', part.to)
      .orderBy('received')
      .orderBy('request')
      .orderBy('n')
      .limit(limit)
    for (const column of ATTEMPT_FILTER) {
      const values = filter[column]
      if (values) rows = rows.where(column, 'in', values)
    }
    // A cursor without a number is that of a time.
    const key = after?.length === 2 ? sql`received, request` : sql`received, request, n`
    if (after) rows = rows.where(sql<boolean>`(${key}) > (${sql.join(after)})`)
    return rows.execute()
  }
  const { found, last } = await pageInParts(reads, query, read, ({ received, request, n }) => [received, request, n])
  return {
    rows: found.map((row) =>
      inOrder(COLUMNS.attempt, {
        ...row,
        started_at: isoTime(row.started),
        ended_at: row.ended === null ? null : isoTime(row.ended),
        reserved: dollars(row.reserved),
        cost: dollars(row.cost),
      }),
    ),
    last,
  }
}

/** Members of the filter that attempts have. */
export const ATTEMPT_FILTER = ['team', 'key', 'provider', 'model', 'outcome'] as const

const days = async (reads: LedgerReads, { from, to, filter, after }: ExportQuery): Promise<ExportRows> => {
  const report = await usageReport(reads, {
    from,
    to,
    by: DIMENSIONS,
    bucket: 'day',
    tz: null,
    filter: filter satisfies UsageFilter,
    limit: PAGE,
    after,
  })
  return {
    rows: report.data.map(({ start, ...row }) => inOrder(COLUMNS.day, { ...row, day: start ?? null })),
    last: report.next === null ? null : (decodeCursor(report.next) ?? null),
  }
}
