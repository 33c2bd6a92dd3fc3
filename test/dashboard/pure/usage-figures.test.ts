/** What the usage page and the overview derive from sums of the ledger. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { addDollars, csvOf, dollarsOf, nanoOf } from '../../../dashboard/src/format.ts'
import {
  BUCKETS,
  csvRows,
  DAY,
  dayForecast,
  distinctNames,
  failedShare,
  monthForecast,
  narrowed,
  perThousand,
  recentCost,
  type UsageRow,
  usageLines,
  withEveryStart,
  withOther,
} from '../../../dashboard/src/usage-figures.ts'

const row = (members: Partial<UsageRow>): UsageRow => ({
  requests: 1,
  failed: 0,
  refused: 0,
  attempts: 1,
  input: 10,
  output: 5,
  cache_read: 0,
  unpriced: 0,
  cost: '1.000000000',
  saved: '0.000000000',
  lost: '0.000000000',
  ...members,
})
const nano = fc.bigInt({ min: 0n, max: 10n ** 15n }).map(dollarsOf)

test('lines have their sums and a cost for each bucket, the most expensive first', () => {
  const { starts, lines } = usageLines(
    [
      row({ start: '2026-11-02', key: 'a', cost: '0.100000001' }),
      row({ start: '2026-11-01', key: 'a', cost: '0.200000002', failed: 1 }),
      row({ start: '2026-11-02', key: 'b', cost: '9.000000000' }),
      row({ start: '2026-11-02', key: null, cost: '0.000000001' }),
    ],
    'key',
  )
  assert.deepEqual(starts, ['2026-11-01', '2026-11-02'])
  assert.deepEqual(
    lines.map(({ id, totals, costs }) => [id, totals.cost, totals.requests, totals.failed, costs]),
    [
      ['b', '9.000000000', 1, 0, ['0', '9.000000000']],
      ['a', '0.300000003', 2, 1, ['0.200000002', '0.100000001']],
      ['', '0.000000001', 1, 0, ['0', '0.000000001']],
    ],
  )
})

test('the line of all others keeps the sum exact', () => {
  const costs = fc.array(nano, { minLength: 1, maxLength: 20 })
  fc.assert(
    fc.property(costs, fc.integer({ min: 2, max: 8 }), (amounts, most) => {
      const { lines } = usageLines(
        amounts.map((cost, at) => row({ start: '2026-11-01', model: `m${at}`, cost })),
        'model',
      )
      const { shown, other, hidden } = withOther(lines, most)
      assert.equal(shown.length + hidden, lines.length)
      assert.ok(shown.length + Number(other !== null) <= most)
      const sum = [...shown, ...(other ? [other] : [])].map(({ totals }) => totals.cost)
      assert.equal(addDollars(sum), addDollars(amounts))
    }),
  )
})

test('a chart has the buckets without use too', () => {
  const from = Date.parse('2026-11-01T10:30:00Z')
  const { starts, lines } = withEveryStart(
    usageLines([row({ start: '2026-11-02', key: 'a', cost: '2' })], 'key'),
    BUCKETS.day,
    { from, to: from + 2 * DAY },
  )
  assert.deepEqual(starts, ['2026-11-01', '2026-11-02', '2026-11-03'])
  assert.deepEqual(lines[0]?.costs, ['0', '2', '0'])
  assert.deepEqual(withEveryStart({ starts: [], lines: [] }, BUCKETS.hour, { from, to: from + 3_600_000 }).starts, [
    '2026-11-01T10:00:00.000Z',
    '2026-11-01T11:00:00.000Z',
  ])
  assert.equal(
    withEveryStart({ starts: [], lines: [] }, BUCKETS['5m'], { from, to: from + 3_600_000 }).starts.length,
    12,
  )
})

test('requests that were refused are no failures; where they were not counted, the share is unknown', () => {
  assert.equal(failedShare(row({ requests: 10, failed: 4, refused: 3 })), 0.1)
  assert.equal(failedShare(row({ requests: 10, failed: 4, refused: null })), null)
  assert.equal(failedShare(row({ requests: 0 })), null)
  const { lines } = usageLines([row({ key: 'a', refused: 1 }), row({ key: 'a', refused: null })], 'key')
  assert.equal(lines[0]?.totals.refused, null)
})

test('a value narrows the page to it, divided by the next group', () => {
  const place = {
    page: 'usage',
    id: null,
    from: 'yesterday',
    to: 'today',
    params: { group: ['team'], model: ['m'] },
  } as const
  assert.deepEqual(narrowed(place, 'team', 'team_a'), { ...place, params: { model: ['m'], team: ['team_a'] } })
  assert.deepEqual(narrowed(place, 'key', 'key_a').params, { model: ['m'], key: ['key_a'], group: ['model'] })
})

test('the rate of 1,000 requests is exact, and unknown without requests', () => {
  assert.equal(perThousand(row({ cost: '0.000000003', requests: 2 })), '0.000001500')
  assert.equal(perThousand(row({ requests: 0 })), null)
})

test('the table as CSV has exact amounts, and no cell that a spreadsheet would run', () => {
  const { lines } = usageLines([row({ key: 'k', start: 'x', cost: '0.123456789' })], 'key')
  assert.deepEqual(csvOf(csvRows('key', lines, () => '=1+1 "x"')).split('\n'), [
    '"key","requests","failed","refused","input","cache_read","output","cost","saved","lost","unpriced"',
    '"\'=1+1 ""x""",1,0,0,10,0,5,"0.123456789","0.000000000","0.000000000",0',
  ])
})

describe('the forecast of a month', () => {
  const day = (date: string, cost: string) => ({ day: date, cost })

  test('adds the median of the last days of each weekday', () => {
    const past = Array.from({ length: 49 }, (_, n) =>
      day(new Date(Date.parse('2026-10-12') + n * DAY).toISOString().slice(0, 10), '2.000000000'),
    )
    const known = past.filter(({ day: date }) => date < '2026-11-29')
    assert.deepEqual(monthForecast([...known, day('2026-11-29', '0.500000000')], '2026-11-29', 1), {
      total: '60.000000000',
      low: '60.000000000',
      high: '60.000000000',
      end: '2026-11-30',
      days: known.length,
    })
  })

  test('is unknown with fewer than three whole days', () => {
    assert.equal(
      monthForecast([day('2026-11-01', '1'), day('2026-11-02', '1'), day('2026-11-03', '1')], '2026-11-03', 1),
      null,
    )
  })

  test('is at least what is spent, and its range is around it', () => {
    const costs = fc.array(nano, { minLength: 4, maxLength: 40 })
    fc.assert(
      fc.property(costs, (amounts) => {
        const days = amounts.map((cost, n) =>
          day(new Date(Date.parse('2026-11-20') - n * DAY).toISOString().slice(0, 10), cost),
        )
        const found = monthForecast(days, '2026-11-20', 1) ?? assert.fail()
        const spent = addDollars(days.filter((one) => one.day >= '2026-11-01').map(({ cost }) => cost))
        const [low, total, high] = [found.low, found.total, found.high].map(nanoOf)
        assert.ok(low !== undefined && total !== undefined && high !== undefined)
        assert.ok(nanoOf(spent) <= low && low <= total && total <= high)
      }),
    )
  })
})

test('names that several IDs have are followed by the ID', () => {
  const names = { team_a: 'search', team_b: 'search', team_c: 'ads' }
  assert.deepEqual(distinctNames(names), { team_a: 'search (team_a)', team_b: 'search (team_b)', team_c: 'ads' })
})

describe('the forecast of a day', () => {
  const NOTHING = { cost: '0', ms: 0 }
  const midnight = Date.parse('2026-11-23T00:00:00Z')
  const hour = (at: number, cost: string) => ({ start: new Date(midnight + at * 3_600_000).toISOString(), cost })
  const days = (count: number, costs: readonly string[]) =>
    Array.from({ length: count }, (_, n) =>
      [9, 12, 20].map((at, of) => hour(at - 24 * (n + 1), costs[of] ?? '0')),
    ).flat()

  test('adds what earlier days cost from this time on', () => {
    const now = midnight + 12.25 * 3_600_000
    // Of the hour from 12:00, three quarters are to come.
    assert.equal(
      dayForecast(days(3, ['8', '4', '1']), '5.000000000', { now, midnight, recent: NOTHING })?.total,
      '9.000000000',
    )
    assert.equal(
      dayForecast(days(3, ['8', '4', '1']), '5', { now: midnight + DAY - 1, midnight, recent: NOTHING })?.total,
      '5.000000000',
    )
  })

  test('takes the median of the days', () => {
    const now = midnight + 12 * 3_600_000
    const hours = [hour(12 - 24, '1'), hour(12 - 48, '100'), hour(12 - 72, '2'), hour(0 - 72, '0')]
    assert.equal(dayForecast(hours, '0', { now, midnight, recent: NOTHING })?.total, '2.000000000')
  })

  test('is never below the present rate, and says so', () => {
    const now = midnight + 18 * 3_600_000
    const past = days(3, ['8', '4', '1'])
    // A dollar a minute since a quarter of an hour: at least that until midnight.
    const recent = { cost: '15.000000000', ms: 3_600_000 }
    assert.deepEqual(dayForecast(past, '20', { now, midnight, recent }), {
      total: '110.000000000',
      basis: 'present',
      days: 3,
    })
    assert.deepEqual(dayForecast(past, '20', { now, midnight, recent: { cost: '0.100000000', ms: 3_600_000 } }), {
      total: '21.000000000',
      basis: 'days',
      days: 3,
    })
    const series = [0, 30, 60, 90].map((minutes) => ({
      start: new Date(now - (100 - minutes) * 60_000).toISOString(),
      cost: '1.000000000',
    }))
    // Buckets from 70, 40 and 10 minutes ago.
    assert.deepEqual(recentCost(series, now), { cost: '3.000000000', ms: 70 * 60_000 })
    assert.deepEqual(recentCost([], now), NOTHING)
  })

  test('the rest of today is at least as its beginning in the forecast of a month', () => {
    const known = ['2026-11-24', '2026-11-25', '2026-11-26', '2026-11-27'].map((day) => ({ day, cost: '2.000000000' }))
    const today = { day: '2026-11-30', cost: '30.000000000' }
    assert.equal(monthForecast([...known, today], '2026-11-30', 0.5)?.total, '68.000000000')
    assert.equal(monthForecast([...known, today], '2026-11-30', 1)?.total, '38.000000000')
  })

  test('is unknown with fewer than three days, and without any', () => {
    const now = midnight + 12 * 3_600_000
    assert.equal(dayForecast(days(2, ['1', '1', '1']), '1', { now, midnight, recent: NOTHING }), null)
    assert.equal(dayForecast([], '1', { now, midnight, recent: NOTHING }), null)
  })
})
