/** A folder with a real `usage.db`, or a Postgres database, filled by the bookkeeper from journals, and a reader of it. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { JournalRecord } from '../../src/core/journal.ts'
import { Bookkeeper } from '../../src/usage/bookkeeper/bookkeeper.ts'
import { USAGE_FILE } from '../../src/usage/journal/file.ts'
import { encodeRecord } from '../../src/usage/journal/journal-record.ts'
import { processName, segmentFile, thisProcess } from '../../src/usage/journal/segment-files.ts'
import { UsageReader, type UsageReaderOptions } from '../../src/usage/reading/usage-reader.ts'
import { type LedgerEngine, SQLITE, type StoredRow } from './ledger-engines.ts'

export type UsageLedger = AsyncDisposable & {
  readonly folder: string
  readonly reader: UsageReader
  /** Stores records of this process. */
  readonly store: (records: readonly JournalRecord[]) => Promise<void>
  /** Reads with plain SQL, to compare. */
  readonly all: (sql: string) => readonly StoredRow[]
}

export const usageLedger = ({
  now,
  timezone = 'UTC',
  engine = SQLITE,
  ...options
}: {
  readonly now: number
  readonly timezone?: string
  readonly engine?: LedgerEngine
} & Partial<UsageReaderOptions>): UsageLedger => {
  engine.clear()
  const root = mkdtempSync(join(tmpdir(), 'headgate-usage-'))
  const folder = join(root, 'data')
  const journal = join(folder, 'journal')
  mkdirSync(journal, { recursive: true })
  const bookkeeper = new Bookkeeper(
    { folder, journal, database: engine.database(), node: 'n1', timezone, syncs: false, process: thisProcess() },
    () => {},
  )
  const reader = new UsageReader({
    folder,
    database: engine.database(),
    timezone,
    keepHours: () => 90,
    date: () => now,
    flush: async () => null,
    names: { key: (id) => (id === 'key_a' ? 'ci' : null), team: () => null },
    ...options,
  })
  const segment = join(journal, segmentFile(processName(thisProcess()), 1))
  return {
    folder,
    reader,
    async store(records) {
      writeFileSync(segment, records.map(encodeRecord).join(''), { flag: 'a' })
      while (await bookkeeper.step());
      if (bookkeeper.problem !== null) throw new Error(bookkeeper.problem)
    },
    all: (sql) => engine.reading(folder, (all) => all(sql)),
    async [Symbol.asyncDispose]() {
      await reader.close()
      bookkeeper.close()
      rmSync(root, { recursive: true, force: true })
    },
  }
}

/** Requests that are added in one transaction. */
const PART = 1_000_000

/**
 * Adds requests with one attempt each to the database of a folder, with their sums, by plain SQL: 50 teams, 500 keys, 10
 * targets, evenly over the time before `end`. `trail` is the text of that column.
 */
export const fillLedger = (
  folder: string,
  { count, end, days, trail = '' }: { count: number; end: number; days: number; trail?: string },
): void => {
  const database = new DatabaseSync(join(folder, USAGE_FILE))
  const step = Math.floor((days * 86_400_000) / count)
  const timeOf = (x: number) => end - (count - x) * step
  const counts = ['requests', 'attempts', 'input', 'output', 'cost', 'total_sum']
  const added = counts.map((name) => `${name} = ${name} + excluded.${name}`).join(', ')
  const sums = (period: string, from: number, to: number) =>
    ['request', 'attempt'].map((table) => {
      // An attempt begins a millisecond after its request.
      const [time, delay, requests] = table === 'request' ? ['received', 0, 'count(*)'] : ['started', 1, '0']
      const own = (sql: string, other = '0') => (table === 'attempt' ? sql : other)
      return `INSERT INTO usage_${period} SELECT ${period === 'hour' ? `${time} / 3600000 * 3600000` : `date(${time} / 1000, 'unixepoch')`},
        'n1', team, key, provider, model, 'chat', '', model, 'openai-sdk', outcome, ${requests}, ${own('count(*)')}, ${own('sum(input)')}, ${own('sum(output)')},
        0, 0, 0, ${own('sum(cost)')}, 0, 0, 0, 0, 0, ${own('0', 'sum(total_ms)')} FROM ${table} WHERE ${time} >= ${from + delay} AND ${time} < ${to + delay}
        GROUP BY 1, team, key, provider, model, outcome ON CONFLICT DO UPDATE SET ${added}`
    })
  try {
    // A crash of the test needs no intact file.
    database.exec('PRAGMA temp_store = MEMORY; PRAGMA cache_size = -1000000; PRAGMA synchronous = OFF')
    for (let first = 0; first < count; first += PART) {
      const end = Math.min(count, first + PART)
      const rollups = ['hour', 'day'].flatMap((period) => sums(period, timeOf(first), timeOf(end)))
      const facets = ['key', 'team', 'provider', 'model'].map(
        (name) => `INSERT OR REPLACE INTO facet SELECT '${name}', ${name}, max(at) FROM filled GROUP BY 2`,
      )
      database.exec(`BEGIN;
      CREATE TEMP TABLE filled AS WITH RECURSIVE numbers (x) AS (SELECT ${first} UNION ALL SELECT x + 1 FROM numbers LIMIT ${end - first})
        SELECT x, ${timeOf(0)} + x * ${step} AS at, 'req_' || x AS id, 'key_' || (x % 500) AS key,
          'team_' || (x % 50) AS team, 'p' || (x / 500 % 2) AS provider, 'm' || (x / 500 % 5) AS model FROM numbers;
      INSERT INTO request (id, call, received, ended, style, stream, asked, route, provider, model, key, team, client, outcome, status,
          attempts, trail, cache, first_content_ms, total_ms, overhead_us, input, output, cost, node)
        SELECT id, x, at, at + 900, 'chat', 1, model, model, provider, model, key, team, 'openai-sdk',
          iif(x % 40 = 0, 'refused', 'answered'), iif(x % 40 = 0, 503, 200), 1, '${trail}', 'off', 200, x % 2000, 500, 900, 90, 4500, 'n1' FROM filled;
      INSERT INTO attempt (request, call, n, started, ended, key, team, provider, model, credential, outcome, input, output, reserved, cost,
          usage_source, price_source)
        SELECT id, x, 0, at + 1, at + 899, key, team, provider, model, 'a1f3', iif(x % 40 = 0, 'failed', 'ok'), 900, 90, 9000, 4500, 'exact', 'catalogue'
        FROM filled;
      ${[...rollups, ...facets].join(';')}; COMMIT; DROP TABLE filled; PRAGMA wal_checkpoint(TRUNCATE)`)
    }
  } finally {
    database.close()
  }
}
