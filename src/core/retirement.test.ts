import assert from 'node:assert/strict'
import { test } from 'node:test'
import { retirementTime } from './retirement.ts'

const cases: readonly (readonly [string, string | null])[] = [
  // OpenAI's `shutdown_date`: the API reference has this example.
  ['2019-12-27', '2019-12-27T00:00:00.000Z'],
  ['2028-02-29', '2028-02-29T00:00:00.000Z'],
  ['2026-12-11T00:00:00Z', '2026-12-11T00:00:00.000Z'],
  ['2026-12-11T09:00:00-08:00', '2026-12-11T17:00:00.000Z'],
  ['2026-12-11T00:30+05:30', '2026-12-10T19:00:00.000Z'],
  ['2026-12-11T00:00:00.123456789Z', '2026-12-11T00:00:00.123Z'],
  // The time zone of the machine would decide.
  ['2026-12-11T09:00:00', null],
  ['2026-02-30', null],
  ['2026-02-29T09:00:00-08:00', null],
  ['2026-12-11T25:00:00Z', null],
  ['2026-13-01', null],
  ['11 Dec 2026', null],
  ['2026-12', null],
  ['', null],
  ['sometime in 2026', null],
]
for (const [written, time] of cases)
  test(`retirement: the time of "${written}"`, () => {
    const at = retirementTime(written)
    assert.equal(at === null ? null : new Date(at).toISOString(), time)
  })
