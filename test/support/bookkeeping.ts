/** Bookkeepers in folders of their own, with journals that a test writes. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import type { JournalRecord } from '../../src/core/journal.ts'
import { Bookkeeper, type BookkeeperEvent, type BookkeeperOptions } from '../../src/usage/bookkeeper/bookkeeper.ts'
import { encodeRecord } from '../../src/usage/journal/journal-record.ts'
import { processName, segmentFile, thisProcess } from '../../src/usage/journal/segment-files.ts'
import type { LedgerEngine } from './ledger-engines.ts'
import { closedRecord, endedRecord, openedRecord } from './ledger-records.ts'

/** Run after all tests, the last one first. */
export const closers: (() => unknown)[] = []
after(async () => {
  for (const close of closers.reverse()) await close()
})

/** The process of a PID that is not running. */
export const ENDED = processName({ start: 1_000, pid: spawnSync(process.execPath, ['--version']).pid, worker: 0 })
/** The current process. */
export const OWN = processName(thisProcess())

/** 1 to `most`. */
export const count = (most: number) => Array.from({ length: most }, (_, index) => index + 1)
/** The records of an answered request. */
export const answered = (call: number): readonly JournalRecord[] => [
  openedRecord(call),
  closedRecord(call),
  endedRecord(call),
]

/** Stores all records of the folder. */
export const storeAll = async (bookkeeper: Bookkeeper) => {
  while (await bookkeeper.step()) assert.equal(bookkeeper.problem, null)
  assert.equal(bookkeeper.problem, null)
}

const SUMS = 'sum(input) input, sum(output) output, sum(cache_read) cached, coalesce(sum(cost), 0) cost'

/** A folder whose journals a bookkeeper stores, and an empty database. */
export const given = (engine: LedgerEngine) => {
  engine.clear()
  return folderOf(engine)
}

/** Another folder, whose usage is stored in the same database if that is shared. */
export const folderOf = (engine: LedgerEngine, changes: Partial<BookkeeperOptions> = {}) => {
  const root = mkdtempSync(join(tmpdir(), 'headgate-ledger-'))
  closers.push(() => rmSync(root, { recursive: true, force: true }))
  const [folder, journal] = [join(root, 'data'), join(root, 'data', 'journal')]
  mkdirSync(journal, { recursive: true })
  const events: BookkeeperEvent[] = []
  const options: BookkeeperOptions = {
    folder,
    journal,
    database: engine.database(),
    node: 'n1',
    timezone: 'Europe/Berlin',
    syncs: true,
    process: thisProcess(),
    ...changes,
  }
  const open = () => {
    const bookkeeper = new Bookkeeper(options, (event) => events.push(event))
    closers.push(() => bookkeeper.close())
    return bookkeeper
  }
  const write = (process: string, records: readonly (JournalRecord | string)[], number = 1) =>
    writeFileSync(
      join(journal, segmentFile(process, number)),
      records.map((record) => (typeof record === 'string' ? record : encodeRecord(record))).join(''),
      { flag: 'a' },
    )
  const reading = <T>(read: Parameters<typeof engine.reading<T>>[1]) => engine.reading(folder, read)
  return { root, folder, journal, options, events, open, write, reading, checkSums: () => checkSums(engine, folder) }
}

/** Checks that every sum equals that of the rows, and that the file is intact. */
export const checkSums = (engine: LedgerEngine, folder: string) =>
  engine.reading(folder, (all) => {
    const attempts = all(`SELECT count(*) attempts, ${SUMS} FROM attempt WHERE outcome <> 'open'`)[0]
    const [requests] = all('SELECT count(*) requests, sum(saved) saved, coalesce(sum(total_ms), 0) total FROM request')
    for (const table of ['usage_hour', 'usage_day']) {
      assert.deepEqual(all(`SELECT sum(attempts) attempts, ${SUMS} FROM ${table}`)[0], attempts, table)
      assert.deepEqual(
        all(`SELECT sum(requests) requests, sum(saved) saved, sum(total_sum) total FROM ${table}`)[0],
        requests,
      )
    }
    assert.equal(all('SELECT sum(cost) cost FROM request')[0]?.cost, attempts?.cost)
    assert.equal(all('SELECT sum(spent) spent FROM budget_sum')[0]?.spent, attempts?.cost)
    if (engine.name === 'SQLite') assert.deepEqual(all('PRAGMA integrity_check'), [{ integrity_check: 'ok' }])
    return { attempts: Number(attempts?.attempts), requests: Number(requests?.requests), cost: Number(attempts?.cost) }
  })
