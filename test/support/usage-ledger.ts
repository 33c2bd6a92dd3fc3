/** A folder with a real `usage.db`, or a Postgres database, filled by the bookkeeper from journals, and a reader of it. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { JournalRecord } from '../../src/core/journal.ts'
import { Bookkeeper } from '../../src/usage/bookkeeper/bookkeeper.ts'
import { COUNT_COLUMNS, DAY_USAGE_KEY, HOUR_USAGE_KEY } from '../../src/usage/columns/usage-schema.ts'
import { USAGE_FILE } from '../../src/usage/journal/file.ts'
import { RecordEncoder } from '../../src/usage/journal/journal-record.ts'
import { processName, segmentFile, thisProcess } from '../../src/usage/journal/segment-files.ts'
import { UsageReader, type UsageReaderOptions } from '../../src/usage/reading/usage-reader.ts'
import { type LedgerEngine, SQLITE, type StoredRow } from './ledger-engines.ts'
import { journalLines } from './ledger-records.ts'

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
  const ledger = journalStore(folder, { timezone, engine })
  const reader = readerOf(folder, { now, timezone, database: engine.database(), ...options })
  return {
    folder,
    reader,
    store: ledger.store,
    all: (sql) => engine.reading(folder, (all) => all(sql)),
    async [Symbol.asyncDispose]() {
      await reader.close()
      await ledger.close()
      rmSync(root, { recursive: true, force: true })
    },
  }
}

/** Stores records of this process in a data folder by way of a journal. */
export const journalStore = (
  folder: string,
  {
    timezone,
    node = 'n1',
    engine = SQLITE,
  }: { readonly timezone: string; readonly node?: string; readonly engine?: LedgerEngine },
): Pick<UsageLedger, 'store'> & { readonly close: () => Promise<void> } => {
  const journal = join(folder, 'journal')
  mkdirSync(journal, { recursive: true })
  const bookkeeper = new Bookkeeper(
    { folder, journal, database: engine.database(), node, timezone, syncs: false, process: thisProcess() },
    () => {},
  )
  const encoder = new RecordEncoder()
  const segment = join(journal, segmentFile(processName(thisProcess()), 1))
  return {
    async store(records) {
      writeFileSync(segment, journalLines(records, encoder).join(''), { flag: 'a' })
      while (await bookkeeper.step());
      if (bookkeeper.problem !== null) throw new Error(bookkeeper.problem)
    },
    close: async () => void (await bookkeeper.close()),
  }
}

/** A reader of a folder that has been filled. */
export const readerOf = (
  folder: string,
  { now, ...options }: { readonly now: number } & Partial<UsageReaderOptions>,
): UsageReader & AsyncDisposable => {
  const reader = new UsageReader({
    folder,
    database: null,
    timezone: 'UTC',
    keepHours: () => 90,
    date: () => now,
    flush: async () => null,
    names: { key: (id) => (id === 'key_a' ? 'ci' : null), team: () => null },
    // However busy the machine is.
    within: 60_000,
    ...options,
  })
  return Object.assign(reader, { [Symbol.asyncDispose]: () => reader.close() })
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
  const sums = (from: number, to: number) => {
    const totals = [
      [
        'usage_day',
        DAY_USAGE_KEY,
        "date(received / 1000, 'unixepoch'), team, key, '', provider, model, 'chat', model, 'openai-sdk'",
      ],
      ['usage_hour', HOUR_USAGE_KEY, "received / 3600000 * 3600000, provider, model, 'chat', model, 'openai-sdk'"],
    ] as const
    const counted: { readonly [name: string]: string } = {
      requests: 'count(*)',
      refused: "sum(outcome = 'refused')",
      attempts: 'sum(attempts)',
      input: 'sum(input)',
      output: 'sum(output)',
      cost: 'sum(cost)',
      total_sum: 'sum(total_ms)',
    }
    return totals.map(
      ([table, key, values]) => `INSERT INTO ${table} (${[...key, ...COUNT_COLUMNS].join(', ')})
        SELECT ${values}, ${COUNT_COLUMNS.map((name) => counted[name] ?? '0').join(', ')} FROM request
        WHERE received >= ${from} AND received < ${to} GROUP BY ${key.map((_, at) => at + 1).join(', ')}
        ON CONFLICT DO UPDATE SET ${COUNT_COLUMNS.map((name) => `${name} = ${name} + excluded.${name}`).join(', ')}`,
    )
  }
  try {
    // A crash of the test needs no intact file.
    database.exec('PRAGMA temp_store = MEMORY; PRAGMA cache_size = -1000000; PRAGMA synchronous = OFF')
    for (let first = 0; first < count; first += PART) {
      const end = Math.min(count, first + PART)
      const rollups = sums(timeOf(first), timeOf(end))
      database.exec(`BEGIN;
      CREATE TEMP TABLE filled AS WITH RECURSIVE numbers (x) AS (SELECT ${first} UNION ALL SELECT x + 1 FROM numbers LIMIT ${end - first})
        SELECT x, ${timeOf(0)} + x * ${step} AS at, 'req_' || x AS id, 'key_' || (x % 500) AS key,
          'team_' || (x % 50) AS team, 'p' || (x / 500 % 2) AS provider, 'm' || (x / 500 % 5) AS model FROM numbers;
      INSERT INTO request (id, received, ended, style, stream, asked, route, provider, model, key, team, client, outcome, status,
          saved, trail, cache, first_content_ms, total_ms, overhead_us, node, attempts, failed_attempts, input, output, cache_read,
          cache_write, reasoning, usage_source, cost, charged, attempt_list)
        SELECT id, at, at + 900, 'chat', 1, model, model, provider, model, key, team, 'openai-sdk',
          iif(x % 40 = 0, 'refused', 'answered'), iif(x % 40 = 0, 503, 200), 0, '${trail}', 'off', 200, x % 2000, 500, 'n1', 1, x % 40 = 0,
          900, 90, 0, 0, 0, 'exact', 4500, 4500, json_array(json_array(0, at + 1, at + 899, provider, model, 'a1f3', 0,
            iif(x % 40 = 0, 'failed', 'ok'), NULL, 200, NULL, 200, 900, 90, 0, 0, 0, 0, 0, 0, 'exact', 9000, 4500, 4500, 'catalogue', NULL))
        FROM filled;
      ${rollups.join(';')}; COMMIT; DROP TABLE filled; PRAGMA wal_checkpoint(TRUNCATE)`)
    }
  } finally {
    database.close()
  }
}
