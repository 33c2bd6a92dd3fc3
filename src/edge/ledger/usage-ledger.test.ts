import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { openedRecord } from '../../../test/support/ledger-records.ts'
import { defaultSettings } from '../../../test/support/settings.ts'
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
      bookkeeper: { openLedger() {}, flush: async () => null, adjust: async () => 'not used' },
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
