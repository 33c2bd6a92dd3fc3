import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { PeriodName } from '../../core/accounts.ts'
import { END_OF_TIME, isTimezone, type Period, type PeriodRule, periodAt, periodProblem } from './period.ts'

const HOUR = 3_600_000

const rule = (period: PeriodName, timezone = 'UTC', startDay = 1): PeriodRule => ({ period, timezone, startDay })
const iso = ({ start, end }: Period): readonly [string, string] => [
  new Date(start).toISOString().replace(':00.000Z', 'Z'),
  new Date(end).toISOString().replace(':00.000Z', 'Z'),
]

const cases: readonly (readonly [rule: PeriodRule, at: string, start: string, end: string])[] = [
  [rule('hour'), '2026-11-23T09:59:59.999Z', '2026-11-23T09:00Z', '2026-11-23T10:00Z'],
  [rule('hour', 'Asia/Kathmandu'), '2026-11-23T09:00Z', '2026-11-23T08:15Z', '2026-11-23T09:15Z'],
  [rule('day'), '2026-11-23T00:00Z', '2026-11-23T00:00Z', '2026-11-24T00:00Z'],
  [rule('day', 'America/New_York'), '2026-11-23T04:59Z', '2026-11-22T05:00Z', '2026-11-23T05:00Z'],
  // Days of 23 and 25 hours.
  [rule('day', 'Europe/Berlin'), '2026-03-29T12:00Z', '2026-03-28T23:00Z', '2026-03-29T22:00Z'],
  [rule('day', 'Europe/Berlin'), '2026-10-25T12:00Z', '2026-10-24T22:00Z', '2026-10-25T23:00Z'],
  // An hour of such a day has 60 minutes; the repeated hour is two periods.
  [rule('hour', 'Europe/Berlin'), '2026-10-25T00:30Z', '2026-10-25T00:00Z', '2026-10-25T01:00Z'],
  [rule('hour', 'Europe/Berlin'), '2026-10-25T01:30Z', '2026-10-25T01:00Z', '2026-10-25T02:00Z'],
  [rule('hour', 'Europe/Berlin'), '2026-03-29T01:00Z', '2026-03-29T01:00Z', '2026-03-29T02:00Z'],
  // Lord Howe Island moves its clock by 30 minutes: from 2:00 to 1:30 on 5 April, from 2:00 to 2:30 on 4 October 2026.
  [rule('hour', 'Australia/Lord_Howe'), '2026-04-04T15:10Z', '2026-04-04T14:00Z', '2026-04-04T15:30Z'],
  [rule('hour', 'Australia/Lord_Howe'), '2026-10-03T15:40Z', '2026-10-03T14:30Z', '2026-10-03T16:00Z'],
  // Egypt skips midnight of 24 April 2026: the day begins at 1:00.
  [rule('day', 'Africa/Cairo'), '2026-04-24T12:00Z', '2026-04-23T22:00Z', '2026-04-24T21:00Z'],
  // Havana has midnight of 1 November 2026 twice: the day begins with the first.
  [rule('day', 'America/Havana'), '2026-11-01T12:00Z', '2026-11-01T04:00Z', '2026-11-02T05:00Z'],
  // Newfoundland moved its clock from 00:01 back to 23:01 in 2010: the repeated hour belongs to the new day.
  [rule('day', 'America/St_Johns'), '2010-11-07T03:00Z', '2010-11-07T02:30Z', '2010-11-08T03:30Z'],
  [rule('day', 'America/St_Johns'), '2010-11-07T02:29Z', '2010-11-06T02:30Z', '2010-11-07T02:30Z'],
  // Toronto moved its clock from 23:30 to 0:30 in 1919: the day begins with the transition.
  [rule('day', 'America/Toronto'), '1919-03-31T04:30Z', '1919-03-31T04:30Z', '1919-04-01T04:00Z'],
  [rule('day', 'America/Toronto'), '1919-03-31T04:29Z', '1919-03-30T05:00Z', '1919-03-31T04:30Z'],
  // Monrovia was 44 minutes and 30 seconds behind UTC until 1972.
  [rule('day', 'Africa/Monrovia'), '1971-06-01T12:00Z', '1971-06-01T00:44:30.000Z', '1971-06-02T00:44:30.000Z'],
  // Samoa left out 30 December 2011.
  [rule('day', 'Pacific/Apia'), '2011-12-30T09:59Z', '2011-12-29T10:00Z', '2011-12-30T10:00Z'],
  [rule('day', 'Pacific/Apia'), '2011-12-30T10:00Z', '2011-12-30T10:00Z', '2011-12-31T10:00Z'],
  [rule('week'), '2026-11-23T00:00Z', '2026-11-23T00:00Z', '2026-11-30T00:00Z'],
  [rule('week'), '2026-11-22T23:59Z', '2026-11-16T00:00Z', '2026-11-23T00:00Z'],
  [rule('week', 'UTC', 7), '2026-11-22T00:00Z', '2026-11-22T00:00Z', '2026-11-29T00:00Z'],
  [rule('week', 'UTC', 7), '2026-11-21T00:00Z', '2026-11-15T00:00Z', '2026-11-22T00:00Z'],
  [rule('month'), '2024-02-29T12:00Z', '2024-02-01T00:00Z', '2024-03-01T00:00Z'],
  [rule('month', 'UTC', 28), '2026-02-27T12:00Z', '2026-01-28T00:00Z', '2026-02-28T00:00Z'],
  [rule('month', 'UTC', 15), '2026-01-14T12:00Z', '2025-12-15T00:00Z', '2026-01-15T00:00Z'],
  [rule('month', 'Europe/Berlin'), '2026-03-15T00:00Z', '2026-02-28T23:00Z', '2026-03-31T22:00Z'],
  [rule('quarter', 'Europe/Berlin'), '2026-12-31T22:59Z', '2026-09-30T22:00Z', '2026-12-31T23:00Z'],
  [rule('year', 'Pacific/Kiritimati'), '2026-12-31T10:00Z', '2026-12-31T10:00Z', '2027-12-31T10:00Z'],
]
for (const [{ period, timezone, startDay }, at, start, end] of cases)
  test(`period: ${period} in ${timezone} from day ${startDay} at ${at}`, () =>
    assert.deepEqual(iso(periodAt({ period, timezone, startDay }, Date.parse(at))), [start, end]))

test('period: total has no boundary', () => {
  assert.deepEqual(periodAt(rule('total'), Date.now()), { start: 0, end: END_OF_TIME })
  assert.ok(Number.isSafeInteger(END_OF_TIME) && !Number.isNaN(new Date(END_OF_TIME).getTime()))
})

test('period: a clock that moves by an hour within a period returns to the same period', () => {
  const period = rule('day', 'Europe/Berlin')
  const noon = Date.parse('2026-11-23T11:00Z')
  for (const at of [noon, noon - HOUR, noon + HOUR]) assert.deepEqual(periodAt(period, at), periodAt(period, noon))
})

test('period: at any instant the period contains it and borders on its neighbours', () => {
  const zone = fc.constantFrom(...Intl.supportedValuesOf('timeZone'))
  const period = fc.constantFrom<PeriodName>('hour', 'day', 'week', 'month', 'quarter', 'year')
  const instant = fc.integer({ min: Date.UTC(1980, 0), max: Date.UTC(2060, 0) })
  fc.assert(
    fc.property(zone, period, instant, fc.integer({ min: 1, max: 7 }), (timezone, name, at, startDay) => {
      const of = rule(name, timezone, startDay)
      const { start, end } = periodAt(of, at)
      assert.ok(start <= at && at < end)
      assert.deepEqual(periodAt(of, start), { start, end })
      assert.equal(periodAt(of, start - 1).end, start)
      assert.equal(periodAt(of, end).start, end)
    }),
    { numRuns: 2_000 },
  )
})

const problems: readonly (readonly [rule: PeriodRule, problem: RegExp | null])[] = [
  [rule('day', 'Europe/Berlin'), null],
  [rule('week', 'UTC', 7), null],
  [rule('month', 'UTC', 28), null],
  [rule('day', 'Europe/Atlantis'), /"Europe\/Atlantis" is not a known time zone/],
  [rule('day', ''), /not a known time zone/],
  [rule('week', 'UTC', 8), /`startDay` 8 is not a whole number from 1 to 7/],
  [rule('week', 'UTC', 1.5), /1\.5/],
  [rule('month', 'UTC', 29), /from 1 to 28/],
  [rule('month', 'UTC', 0), /from 1 to 28/],
  [rule('day', 'UTC', 2), /`startDay` has no effect on the period day/],
]
for (const [of, problem] of problems)
  test(`period: the problem of ${of.period} in "${of.timezone}" from day ${of.startDay}`, () => {
    const found = periodProblem(of)
    if (problem === null) assert.equal(found, null)
    else assert.match(found ?? '', problem)
    assert.equal(isTimezone(of.timezone), !/time zone/.test(String(problem)))
  })
