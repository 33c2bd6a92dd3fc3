import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { closedRecord, endedRecord, journalLines, openedRecord } from '../../../test/support/ledger-records.ts'
import { defaultSettings } from '../../../test/support/settings.ts'
import { segmentFile } from '../journal/segment-files.ts'
import type { LedgerEvent } from './ledger-problems.ts'
import { UsageLedger } from './usage-ledger.ts'

/** The ledger of a worker whose journal cannot be written, because a file has the name of its folder. */
const givenUnwritable = (t: TestContext): UsageLedger => {
  const dir = mkdtempSync(join(tmpdir(), 'headgate-usage-ledger-'))
  t.after(() => rmSync(dir, { recursive: true, force: true }))
  writeFileSync(join(dir, 'journal'), '')
  const settings = { ...defaultSettings, data: { ...defaultSettings.data, dir } }
  const ledger = new UsageLedger({
    settings: () => settings,
    worker: {
      number: 1,
      bookkeeper: {
        openLedger() {},
        journalProblem() {},
        flush: async () => null,
        adjust: async () => 'not used',
        telemetry: async () => null,
      },
    },
    date: () => 1_000,
    report() {},
  })
  t.after(() => ledger.close())
  return ledger
}

/** Resolves when the record is in the journal, or in memory because the journal cannot be written. */
const recordOne = (ledger: UsageLedger) =>
  new Promise((resolve) => ledger.openAttempt(openedRecord(1), { onJournaled: resolve }))

test("usage ledger: a bookkeeper that works again does not clear the problem of this worker's journal", async (t) => {
  const ledger = givenUnwritable(t)
  await recordOne(ledger)
  const own = ledger.problem()
  assert.ok(own)
  ledger.sharedState({ problem: 'the disk of usage.db is full', lagMs: 5_000, unknown: null })
  assert.deepEqual(ledger.problem(), own)
  ledger.sharedState({ problem: null, lagMs: 0, unknown: null })
  assert.deepEqual(ledger.problem(), own)
})

test('usage ledger: a problem and the lag of the bookkeeper are shown until it works again', (t) => {
  const ledger = givenUnwritable(t)
  ledger.sharedState({ problem: 'the disk of usage.db is full', lagMs: 5_000, unknown: null })
  assert.deepEqual(ledger.problem(), { reason: 'the disk of usage.db is full', since: 1_000 })
  assert.equal(ledger.state().lagMs, 5_000)
  ledger.sharedState({ problem: null, lagMs: 0, unknown: null })
  assert.equal(ledger.problem(), null)
  assert.equal(ledger.state().lagMs, 0)
})

test('usage ledger: a bookkeeper that stays behind is a problem, reported once, until it has caught up', (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'headgate-usage-ledger-'))
  t.after(() => rmSync(dir, { recursive: true, force: true }))
  const events: LedgerEvent[] = []
  let now = 1_000
  const ledger = new UsageLedger({
    settings: () => ({ ...defaultSettings, data: { ...defaultSettings.data, dir } }),
    date: () => now,
    report: (event) => events.push(event),
  })
  const lag = (lagMs: number) => ledger.sharedState({ problem: null, lagMs, unknown: null })
  lag(9_999)
  lag(600_000)
  now += 9_000
  lag(500_000)
  assert.deepEqual([ledger.problem(), events], [null, []], 'it may catch up after a start')
  now += 1_000
  lag(20_000)
  lag(30_000)
  assert.equal(ledger.problem()?.since, 1_000)
  assert.match(ledger.problem()?.reason ?? '', /stored later/)
  lag(0)
  assert.equal(ledger.problem(), null)
  assert.deepEqual(events, [{ event: 'behind', lagMs: 20_000 }, { event: 'ok' }])
})

test('usage ledger: a disk that stops the journal and the database is one problem, the worst one is reported', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'headgate-usage-ledger-'))
  t.after(() => rmSync(dir, { recursive: true, force: true }))
  const [data, folder] = [join(dir, 'data'), join(dir, 'journal')]
  for (const file of [data, folder]) writeFileSync(file, '')
  const events: LedgerEvent['event'][] = []
  let onEvent = () => {}
  const ledger = new UsageLedger({
    settings: () => ({
      ...defaultSettings,
      data: { ...defaultSettings.data, dir: data },
      ledger: { ...defaultSettings.ledger, folder },
    }),
    date: () => 1_000,
    report: ({ event }) => {
      events.push(event)
      onEvent()
    },
  })
  t.after(() => ledger.close())
  const nextEvent = () => new Promise<void>((resolve) => (onEvent = resolve))
  await recordOne(ledger)
  // The thread has tried it.
  assert.notEqual(await ledger.flush(), null)
  assert.deepEqual(events, ['unwritable'])
  for (const [file, expected] of [
    [folder, 'degraded'],
    [data, 'ok'],
  ] as const) {
    const changed = nextEvent()
    rmSync(file)
    await changed
    assert.equal(events.at(-1), expected)
  }
  assert.equal(ledger.problem(), null)
})

test('usage ledger: the records of a killed process are stored after a start, before a call', async (t) => {
  const given = (hasRecords: boolean) => {
    const dir = mkdtempSync(join(tmpdir(), 'headgate-usage-ledger-'))
    t.after(() => rmSync(dir, { recursive: true, force: true }))
    const journal = join(dir, 'journal')
    const segment = join(journal, segmentFile('a.999999999-0', 1))
    if (hasRecords) {
      mkdirSync(journal)
      writeFileSync(segment, journalLines([openedRecord(1), closedRecord(1), endedRecord(1)]).join(''))
    }
    const settings = { ...defaultSettings, data: { ...defaultSettings.data, dir } }
    const ledger = new UsageLedger({ settings: () => settings, date: () => 1_000, report() {} })
    t.after(() => ledger.close())
    return { dir, segment, ledger }
  }
  const { segment, ledger } = given(true)
  await ledger.openEarlier()
  assert.equal(await ledger.flush(), null)
  assert.equal(ledger.progress().requests, 1)
  assert.ok(!existsSync(segment), 'what is stored is removed')
  const fresh = given(false)
  await fresh.ledger.openEarlier()
  await fresh.ledger.flush()
  assert.ok(!existsSync(join(fresh.dir, 'usage.db')), 'nothing is loaded for nothing')
})
