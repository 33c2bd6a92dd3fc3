/** Periods in every zone, against an implementation that knows only the local clock. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { PeriodName } from '../../core/accounts.ts'
import { type PeriodRule, periodAt } from './period.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR

const rule = (period: PeriodName, timezone: string, startDay = 1): PeriodRule => ({ period, timezone, startDay })

/** A span of time in which a zone has one offset. */
type Segment = { readonly from: number; readonly offset: number }

const FROM = Date.UTC(2023, 11, 1)
const TO = Date.UTC(2031, 1, 1)
/** Transitions are searched at this distance; the shortest time between two is the month of Ramadan. */
const SEARCH_STEP = 5 * DAY

/** All offsets of a zone, from the fields of its local clock. The implementation reads the name of the offset instead. */
const segmentsOf = (timezone: string): readonly Segment[] => {
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone: timezone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  })
  const offsetAt = (at: number) => {
    const [month = 0, day = 0, year = 0, hour = 0, minute = 0, second = 0] = format
      .format(at)
      .split(/[^0-9]+/)
      .map(Number)
    return Date.UTC(year, month - 1, day, hour, minute, second) - at
  }
  const segments: Segment[] = [{ from: FROM, offset: offsetAt(FROM) }]
  for (let at = FROM + SEARCH_STEP; at < TO; at += SEARCH_STEP) {
    const last = segments.at(-1)?.offset
    const offset = offsetAt(at)
    if (offset === last) continue
    let [early, late] = [at - SEARCH_STEP, at]
    while (late - early > 1_000) {
      const middle = Math.floor((early + late) / 2_000) * 1_000
      if (offsetAt(middle) === last) early = middle
      else late = middle
    }
    segments.push({ from: late, offset })
  }
  return segments
}

/** The first instant at which a zone's clock shows this date and time, or a later one if it is skipped. */
const firstInstant = (segments: readonly Segment[], local: number): number => {
  for (const [at, { from, offset }] of segments.entries()) {
    const instant = Math.max(from, local - offset)
    if (instant < (segments[at + 1]?.from ?? Number.POSITIVE_INFINITY)) return instant
  }
  throw new Error('no segment')
}

/** Checks that these instants are consecutive boundaries: by the period at each, and by the one a ms earlier. */
const checkBoundaries = (of: PeriodRule, boundaries: readonly number[]) => {
  for (const [at, start] of boundaries.slice(0, -1).entries()) {
    const expected = { start, end: boundaries[at + 1] ?? 0 }
    assert.deepEqual(
      periodAt(of, start),
      expected,
      `${of.period} in ${of.timezone} at ${new Date(start).toISOString()}`,
    )
    assert.deepEqual(periodAt(of, expected.end - 1), expected, `${of.period} in ${of.timezone}, end`)
  }
}

const monthStarts = Array.from({ length: 7 * 12 + 1 }, (_, month) => Date.UTC(2024, month, 1))
const midMonths = Array.from({ length: 7 * 12 + 1 }, (_, month) => Date.UTC(2024, month, 15))

test('period: every boundary from 2024 to 2030 in every zone equals a search over the local clock', () => {
  let transitions = 0
  for (const timezone of Intl.supportedValuesOf('timeZone')) {
    const segments = segmentsOf(timezone)
    const starts = monthStarts.map((local) => firstInstant(segments, local))
    checkBoundaries(rule('month', timezone), starts)
    const every = (months: number) => starts.filter((_, month) => month % months === 0)
    checkBoundaries(rule('quarter', timezone), every(3))
    checkBoundaries(rule('year', timezone), every(12))
    if (segments.length > 1)
      checkBoundaries(
        rule('month', timezone, 15),
        midMonths.map((local) => firstInstant(segments, local)),
      )
    for (const { from, offset } of segments.slice(1)) {
      transitions++
      const midnight = Math.floor((from + offset) / DAY) * DAY
      const days = [-2, -1, 0, 1, 2, 3].map((day) => firstInstant(segments, midnight + day * DAY))
      checkBoundaries(rule('day', timezone), days)
      // 5 January 1970 was a Monday.
      const monday = Math.floor((midnight - 4 * DAY) / (7 * DAY)) * 7 * DAY + 4 * DAY
      for (const startDay of [1, 7])
        checkBoundaries(
          rule('week', timezone, startDay),
          [-1, 0, 1, 2].map((week) => firstInstant(segments, monday + (week * 7 + startDay - 1) * DAY)),
        )
      checkHours(timezone, segments, from)
    }
  }
  assert.ok(transitions > 1_000, `${transitions} transitions`)
})

/** The full hours that the local clock shows around a transition, found minute by minute. */
const checkHours = (timezone: string, segments: readonly Segment[], transition: number) => {
  const full: number[] = []
  for (let at = transition - 3 * HOUR; at <= transition + 3 * HOUR; at += 60_000) {
    const offset = segments.findLast(({ from }) => from <= at)?.offset ?? 0
    if ((at + offset) % HOUR === 0) full.push(at)
  }
  checkBoundaries(rule('hour', timezone), full)
}
