/** The export of a real ledger: the rows in the bucket are those that the ledger has. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { onEachEngine } from '../../../test/support/ledger-engines.ts'
import { closedRecord, endedRecord, NOON, openedRecord } from '../../../test/support/ledger-records.ts'
import { fakeS3, S3_KEYS } from '../../../test/support/s3.ts'
import { exportSettings } from '../../../test/support/settings.ts'
import { usageLedger } from '../../../test/support/usage-ledger.ts'
import { dialer } from '../../transport/client/dial.ts'
import { signing } from '../../transport/identity/signing.ts'
import { RANGE } from './export-range.ts'
import { encodeState } from './export-state.ts'
import { UsageSink } from './usage-sink.ts'

/** More than a page of the reader has, and two ranges. */
const REQUESTS = 1_300
const EVERY = (2 * RANGE) / REQUESTS

const recordsOf = (call: number) => {
  const at = NOON + Math.floor(call * EVERY)
  return [
    openedRecord(call, { at }),
    closedRecord(call, { at: at + 100 }),
    endedRecord(call, { received: at, at: at + 110 }),
  ]
}

onEachEngine((engine) => {
  test('export: all rows of the ledger are in the bucket once, with the names of their keys', async (context) => {
    const now = NOON + 3 * RANGE + 900_000
    await using ledger = usageLedger({ now, engine })
    await ledger.store(Array.from({ length: REQUESTS }, (_, call) => recordsOf(call)).flat())
    const s3 = await fakeS3()
    const state = encodeState({ position: NOON, holder: '', until: 0, checks: [] })
    s3.objects.set(`${s3.settings.prefix}/state.shared.json`, Buffer.from(state))
    const upstream = dialer()
    const signed = signing({ dial: upstream.dial, environment: async () => S3_KEYS, report: () => {} })
    const exported = new UsageSink({
      world: {
        date: () => now,
        random: () => 1,
        dial: signed.dial,
        later: (ms, run) => {
          const timer = setTimeout(run, ms)
          return () => clearTimeout(timer)
        },
      },
      settings: () => exportSettings(s3.settings),
      ledger: 'shared',
      gateway: 'g1',
      rowsOf: (range) => ledger.reader.export({ ...range, level: 'request', format: 'jsonl', filter: {} }),
      isBehind: () => false,
      report: (problem) => assert.equal(problem, null),
      rowsPerObject: 400,
    })
    context.after(async () => {
      exported.stop()
      signed.close()
      await upstream.close()
      await s3.close()
    })
    const isDone = () => exported.figures().lagMs === 900_000
    for (let waited = 0; !isDone() && waited < 60_000; waited += 5) await sleep(5)
    const rows = s3.rows().map((line) => JSON.parse(line))
    const stored = ledger.all('SELECT id FROM request')
    assert.deepEqual(rows.map(({ id }) => id).toSorted(), stored.map(({ id }) => id).toSorted())
    assert.equal(new Set(rows.map(({ id }) => id)).size, REQUESTS)
    const [{ key, key_name, received_at, cost } = assert.fail()] = rows
    assert.deepEqual([key, key_name, received_at], ['key_a', 'ci', new Date(NOON).toISOString()])
    assert.match(String(cost), /^0\.0000/)
    // 650 rows in each range.
    assert.deepEqual([...s3.objects.keys()].filter((name) => name.endsWith('.gz')).length, 4)
  })
})
