/** Where reports of usage come from: totals of days, and rows where those do not suffice, a part at a time. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEachEngine } from '../../../test/support/ledger-engines.ts'
import { closedRecord, endedRecord, NOON, openedRecord } from '../../../test/support/ledger-records.ts'
import { type UsageLedger, usageLedger } from '../../../test/support/usage-ledger.ts'
import { decodeCursor } from './cursor.ts'
import type { UsageQuery, UsageReport } from './queries.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR
/** The start of the day before. */
const MIDNIGHT = Date.UTC(2026, 10, 21)
const QUERY: UsageQuery = {
  from: NOON - 5 * DAY,
  to: NOON + DAY,
  by: ['team'],
  bucket: 'day',
  tz: null,
  filter: {},
  limit: 100,
  after: null,
}

const request = (call: number, at: number, of: { provider?: string; team?: string; model?: string } = {}) =>
  [
    openedRecord(call, { at, ...of }),
    closedRecord(call, { at: at + 100 }),
    endedRecord(call, { received: at, at: at + 200, ...of }),
  ] as const

const reportOf = async (ledger: UsageLedger, query: Partial<UsageQuery>): Promise<UsageReport> => {
  const report = await ledger.reader.usage({ ...QUERY, ...query })
  return report.ok ? report.value : assert.fail(report.failure.message)
}

test('usage report: days by any dimensions, without the demo, need no rows', async () => {
  await using ledger = usageLedger({ now: NOON })
  await ledger.store([
    ...request(1, NOON - 4 * DAY),
    ...request(2, NOON - 2 * DAY, { team: 'team_b', model: 'gpt-5' }),
    ...request(3, NOON - 2 * DAY, { provider: 'demo' }),
  ])
  ledger.all('DELETE FROM request RETURNING 1')
  const report = await reportOf(ledger, { by: ['team', 'model', 'client'], filter: { demo: false } })
  assert.deepEqual(
    report.data.map(({ start, team, model, client, requests, cost }) => [start, team, model, client, requests, cost]),
    [
      ['2026-11-18', 'team_a', 'gpt-5-mini', 'openai-sdk', 1, '0.000000070'],
      ['2026-11-20', 'team_b', 'gpt-5', 'openai-sdk', 1, '0.000000070'],
    ],
  )
  assert.deepEqual([report.total.requests, report.searched_until], [2, null])
})

test('usage report: a range without buckets has whole days from totals, and the rest from rows', async () => {
  await using ledger = usageLedger({ now: NOON + DAY })
  // Each third hour: from 01:00 three days ago on.
  const times = Array.from({ length: 24 }, (_, at) => MIDNIGHT - 2 * DAY + HOUR + at * 3 * HOUR)
  await ledger.store(times.flatMap((at, call) => request(call, at)))
  const counted = async (from: number, to: number) => {
    const { total, data, from: stated, to: end } = await reportOf(ledger, { from, to, bucket: 'none' })
    assert.equal(data[0]?.requests ?? 0, total.requests)
    return [total.requests, Date.parse(stated), Date.parse(end)]
  }
  const between = (from: number, to: number) => times.filter((at) => at >= from && at < to).length
  for (const [from, to] of [
    [MIDNIGHT - 2 * DAY + 5 * HOUR, MIDNIGHT + 5 * HOUR],
    [MIDNIGHT - DAY + 5 * HOUR, MIDNIGHT + 5 * HOUR],
    [MIDNIGHT - DAY, MIDNIGHT + 5 * HOUR],
    [MIDNIGHT - 2 * DAY + 5 * HOUR, MIDNIGHT],
    [MIDNIGHT + 5 * HOUR, MIDNIGHT + 9 * HOUR],
    [MIDNIGHT - 2 * DAY + 5 * HOUR, NOON + 2 * DAY],
  ] as const)
    assert.deepEqual(await counted(from, to), [between(from, to), from, to], new Date(from).toISOString())
  // Rows that are deleted: the first day is counted as a whole, which the report states.
  ledger.all(`DELETE FROM request WHERE received < ${MIDNIGHT - DAY} RETURNING 1`)
  const first = MIDNIGHT - 2 * DAY
  assert.deepEqual(await counted(first + 5 * HOUR, MIDNIGHT + 5 * HOUR), [
    between(first, MIDNIGHT + 5 * HOUR),
    first,
    MIDNIGHT + 5 * HOUR,
  ])
})

test('usage report: one whose time is over has its total so far, and its cursor continues to all rows', async () => {
  const records = Array.from({ length: 48 }, (_, hour) =>
    request(hour, NOON - hour * HOUR, { team: `team_${hour % 3}` }),
  ).flat()
  await using slow = usageLedger({ now: NOON, within: 0 })
  await using fast = usageLedger({ now: NOON })
  await slow.store(records)
  await fast.store(records)
  for (const query of [
    { bucket: 'hour', by: ['team', 'key'] },
    { bucket: 'day', tz: 'America/New_York' },
    { bucket: 'none', from: NOON - 30 * HOUR, by: ['team'] },
    { bucket: 'none', from: NOON - 30 * HOUR, by: [], filter: { key: ['key_a'] } },
  ] as const) {
    const expected = await reportOf(fast, query)
    const rows: unknown[] = []
    let parts = 0
    let after = null as UsageQuery['after']
    let total: UsageReport['total'] | null = null
    do {
      // Two readers of a report add it up together.
      const asked: Partial<UsageQuery> = { ...query, after, limit: 7 }
      const [report]: readonly UsageReport[] = await Promise.all([reportOf(slow, asked), reportOf(slow, asked)])
      assert.ok(report)
      assert.equal(report.has_more, report.next !== null)
      if (report.searched_until !== null) {
        parts++
        assert.deepEqual(report.data, [])
        assert.ok(report.total.requests <= expected.total.requests)
      }
      rows.push(...report.data)
      total = report.total
      after = report.next === null ? null : (decodeCursor(report.next) ?? assert.fail())
    } while (after !== null)
    assert.ok(parts > 0, 'it was continued')
    assert.deepEqual([rows, total], [expected.data, expected.total])
  }
})

test('usage report: one for other parts of the gateway is read to its end', async () => {
  await using ledger = usageLedger({ now: NOON, within: 0 })
  await ledger.store(Array.from({ length: 30 }, (_, hour) => request(hour, NOON - hour * HOUR)).flat())
  const found = await ledger.reader.wholeUsage({ ...QUERY, tz: 'Asia/Tokyo' })
  assert.deepEqual(found.ok && [found.value.total.requests, found.value.searched_until], [30, null])
})

test('usage report: the first page of a report that was answered reads what was stored since', async () => {
  await using ledger = usageLedger({ now: NOON })
  const query = { bucket: 'hour', by: ['key'], limit: 1 } as const
  await ledger.store([...request(1, NOON - 2 * HOUR), ...request(2, NOON - HOUR)])
  const first = await reportOf(ledger, query)
  assert.deepEqual([first.total.requests, first.has_more], [2, true])
  await ledger.store(request(3, NOON - HOUR))
  const next = await reportOf(ledger, { ...query, after: decodeCursor(first.next ?? '') ?? [] })
  assert.deepEqual([next.total.requests, next.data[0]?.requests, next.has_more], [2, 1, false])
  assert.equal((await reportOf(ledger, query)).total.requests, 3)
})

onEachEngine((engine) => {
  test('usage: the groups that cost most, of exactly the range', async () => {
    await using ledger = usageLedger({ engine, now: NOON })
    const spent = (call: number, team: string, cost: number, at: number) => [
      openedRecord(call, { team, at }),
      closedRecord(call, { cost, at }),
      endedRecord(call, { team, received: at, at: at + 100 }),
    ]
    const minute = 60_000
    await ledger.store([
      ...spent(1, 'team_a', 100, NOON - 5 * minute),
      ...spent(2, 'team_b', 300, NOON - 10 * minute),
      ...spent(3, 'team_c', 200, NOON - 14 * minute),
      ...spent(4, 'team_a', 900, NOON - 16 * minute),
      ...spent(5, 'team_c', 50, NOON - 20 * minute),
    ])
    const dollars = (nano: number) => `0.${String(nano).padStart(9, '0')}`
    const top = async (query: Partial<UsageQuery>) => {
      const all = { by: ['team'], bucket: 'none', sort: '-cost', limit: 2, ...query } as const
      const { data, total, has_more } = await reportOf(ledger, all)
      return [data.map(({ team, cost }) => [team, cost]), total.cost, has_more]
    }
    const now = { from: NOON - 15 * minute, to: NOON }
    assert.deepEqual(await top(now), [
      [
        ['team_b', dollars(300)],
        ['team_c', dollars(200)],
      ],
      dollars(600),
      false,
    ])
    const before = { from: NOON - 30 * minute, to: NOON - 15 * minute, filter: { team: ['team_b', 'team_c'] } }
    assert.deepEqual(await top(before), [[['team_c', dollars(50)]], dollars(50), false])
  })

  test('usage: buckets of five minutes', async () => {
    await using ledger = usageLedger({ engine, now: NOON })
    const minute = 60_000
    await ledger.store([1, 2, 3, 7, 14].flatMap((minutes, call) => request(call, NOON - minutes * minute)))
    const { data, total } = await reportOf(ledger, { from: NOON - 15 * minute, to: NOON, bucket: '5m' })
    assert.deepEqual(
      data.map(({ start = '', requests }) => [(Date.parse(start) - NOON) / minute, requests]),
      [
        [-15, 1],
        [-10, 1],
        [-5, 3],
      ],
    )
    assert.equal(total.requests, 5)
  })
})
