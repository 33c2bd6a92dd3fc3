/** Rows of an export, oldest first, in pages of bounded size. */
import { sql } from 'kysely'
import { decodeCursor } from './cursor.ts'
import { csvLine, type ExportCell } from './export-text.ts'
import { requestCondition } from './filters.ts'
import type { LedgerReads } from './ledger-source.ts'
import { type CursorValues, DIMENSIONS, type ExportPage, type ExportQuery, type UsageFilter } from './queries.ts'
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
    ...['usage_source', 'cost', 'saved', 'trace', 'node', 'client_request_id'],
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

const requests = async ({ db }: LedgerReads, { from, to, filter, after }: ExportQuery): Promise<ExportRows> => {
  let query = db
    .selectFrom('request')
    .selectAll()
    .where('received', '>=', from)
    .where('received', '<', to)
    .where(requestCondition(filter))
    .orderBy('received')
    .orderBy('id')
    .limit(PAGE)
  if (after) query = query.where(sql<boolean>`(received, id) > (${sql.join(after)})`)
  const found = await query.execute()
  const last = found.at(-1)
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
    last: found.length === PAGE && last ? [last.received, last.id] : null,
  }
}

/** Attempts of complete requests, in the order of those. Of the filter those members apply that attempts have. */
const attempts = async ({ db }: LedgerReads, { from, to, filter, after }: ExportQuery): Promise<ExportRows> => {
  let query = db
    .selectFrom('attempt')
    .selectAll()
    .where('received', '>=', from)
    .where('received', '<', to)
    .orderBy('received')
    .orderBy('request')
    .orderBy('n')
    .limit(PAGE)
  for (const column of ATTEMPT_FILTER) {
    const values = filter[column]
    if (values) query = query.where(column, 'in', values)
  }
  if (after) query = query.where(sql<boolean>`(received, request, n) > (${sql.join(after)})`)
  const found = await query.execute()
  const last = found.at(-1)
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
    last: found.length === PAGE && last ? [last.received, last.request, last.n] : null,
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
