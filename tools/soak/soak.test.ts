/** A soak run of 15 seconds; of an hour in `npm run test:long`. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isLong } from '../../test/support/lane.ts'
import { soak } from './soak.ts'

const RUN = isLong
  ? { minutes: 60, streams: 200, percent: 5, gap: 100, every: 5 }
  : { minutes: 0.25, streams: 30, percent: 5, gap: 30, every: 2 }

test('soak: under faults no response is lost and no value grows', {
  timeout: 600_000 + RUN.minutes * 90_000,
}, async (t) => {
  const summary = await soak(RUN)
  const { endings, requests, figures, bad, problems } = summary
  t.diagnostic(JSON.stringify({ requests, endings }))
  for (const [name, { first, last, perTenMinutes }] of Object.entries(figures))
    t.diagnostic(`${name}: ${first} → ${last}, ${Math.round(perTenMinutes)} in ten minutes`)
  assert.deepEqual(bad, [])
  assert.deepEqual(problems, [])
})
