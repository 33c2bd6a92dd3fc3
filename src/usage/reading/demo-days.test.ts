/** Usage by team and key without the demo: from totals, but for the days on which the demo was used. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { closedRecord, endedRecord, NOON, openedRecord } from '../../../test/support/ledger-records.ts'
import { usageLedger } from '../../../test/support/usage-ledger.ts'
import type { UsageQuery } from './queries.ts'

const DAY = 86_400_000
const QUERY: UsageQuery = {
  from: NOON - 5 * DAY,
  to: NOON + DAY,
  by: ['team'],
  bucket: 'day',
  tz: null,
  filter: { demo: false },
  limit: 100,
  after: null,
}

const request = (call: number, daysAgo: number, provider: string) => {
  const at = NOON - daysAgo * DAY
  return [
    openedRecord(call, { at, provider }),
    closedRecord(call, { at: at + 100, ...(call % 2 === 0 && { outcome: 'failed', kind: 'overloaded' }) }),
    endedRecord(call, { received: at, at: at + 200, provider }),
  ] as const
}

test('demo days: sums by team are read from totals, and from rows on the days of the demo', async () => {
  await using ledger = usageLedger({ now: NOON })
  await ledger.store([
    ...request(1, 4, 'openai'),
    ...request(2, 2, 'openai'),
    ...request(3, 2, 'demo'),
    ...request(4, 1, 'openai'),
  ])
  const read = async (query: Partial<UsageQuery>) => {
    const report = await ledger.reader.usage({ ...QUERY, ...query })
    return report.ok ? report.value : assert.fail(report.failure.message)
  }
  const days = async (query: Partial<UsageQuery> = {}) =>
    (await read(query)).data.map(({ start, requests, attempts, cost }) => [start, requests, attempts, cost])
  const expected = [
    ['2026-11-18', 1, 1, '0.000000070'],
    ['2026-11-20', 1, 1, '0.000000070'],
    ['2026-11-21', 1, 1, '0.000000070'],
  ]
  assert.deepEqual(await days(), expected)
  const whole = await read({ bucket: 'none' })
  assert.deepEqual([whole.data.length, whole.total.requests, whole.total.cost], [1, 3, '0.000000210'])
  // Other days are not read from rows.
  ledger.all(`DELETE FROM request WHERE received < ${NOON - 3 * DAY} RETURNING 1`)
  ledger.all(`DELETE FROM request WHERE received > ${NOON - 1.5 * DAY} RETURNING 1`)
  assert.deepEqual(await days(), expected)
})
