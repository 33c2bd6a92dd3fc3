/** Bookkeepers in folders of their own, with journals that a test writes. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import type { JournalRecord } from '../../src/core/journal.ts'
import { Bookkeeper, type BookkeeperEvent, type BookkeeperOptions } from '../../src/usage/bookkeeper/bookkeeper.ts'
import { RecordEncoder } from '../../src/usage/journal/journal-record.ts'
import { processName, segmentFile, thisProcess } from '../../src/usage/journal/segment-files.ts'
import type { LedgerEngine } from './ledger-engines.ts'
import { closedRecord, endedRecord, journalLines, openedRecord } from './ledger-records.ts'

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

const SUMS = ['input', 'output', 'cache_read', 'reasoning', 'cost']
  .map((name) => `coalesce(sum(${name}), 0) ${name}`)
  .join(', ')

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
  const encoders = new Map<string, RecordEncoder>()
  /** Records of a process, and texts as they are. */
  const write = (process: string, records: readonly (JournalRecord | string)[], number = 1) => {
    const encoder = encoders.get(process) ?? new RecordEncoder()
    encoders.set(process, encoder)
    const parts: (string | JournalRecord[])[] = []
    for (const record of records) {
      const last = parts.at(-1)
      if (typeof record === 'string') parts.push(record)
      else if (Array.isArray(last)) last.push(record)
      else parts.push([record])
    }
    const texts = parts.map((part) => (typeof part === 'string' ? part : journalLines(part, encoder).join('')))
    writeFileSync(join(journal, segmentFile(process, number)), texts.join(''), { flag: 'a' })
  }
  const reading = <T>(read: Parameters<typeof engine.reading<T>>[1]) => engine.reading(folder, read)
  return { root, folder, journal, options, events, open, write, reading, checkSums: () => checkSums(engine, folder) }
}

/** Checks that every sum equals that of the rows, and that the file is intact. */
export const checkSums = (engine: LedgerEngine, folder: string) =>
  engine.reading(folder, (all) => {
    const attempts = all(`SELECT count(*) attempts, ${SUMS} FROM attempt`)[0]
    const [requests] = all(
      'SELECT count(*) requests, coalesce(sum(saved), 0) saved, coalesce(sum(total_ms), 0) total FROM request',
    )
    assert.deepEqual(all(`SELECT coalesce(sum(attempts), 0) attempts, ${SUMS} FROM request`)[0], attempts, 'requests')
    for (const table of ['usage_day', 'usage_hour']) {
      assert.deepEqual(all(`SELECT coalesce(sum(attempts), 0) attempts, ${SUMS} FROM ${table}`)[0], attempts, table)
      assert.deepEqual(
        all(
          `SELECT coalesce(sum(requests), 0) requests, coalesce(sum(saved), 0) saved, coalesce(sum(total_sum), 0) total FROM ${table}`,
        )[0],
        requests,
      )
    }
    assert.equal(all('SELECT coalesce(sum(spent), 0) spent FROM budget_sum')[0]?.spent, attempts?.cost)
    if (engine.name === 'SQLite') assert.deepEqual(all('PRAGMA integrity_check'), [{ integrity_check: 'ok' }])
    return { attempts: Number(attempts?.attempts), requests: Number(requests?.requests), cost: Number(attempts?.cost) }
  })
