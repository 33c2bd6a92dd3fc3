/** A short soak run: five minutes with HEADGATE_CI=1, otherwise 15 seconds. `npm run soak` runs an hour. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { soak } from './soak.ts'

const ci = process.env.HEADGATE_CI === '1'

test('soak: under faults no response is lost and no value grows', { timeout: 600_000 }, async (t) => {
  const summary = await soak({
    minutes: ci ? 5 : 0.25,
    streams: ci ? 100 : 30,
    percent: 5,
    gap: ci ? 100 : 30,
    every: ci ? 5 : 2,
  })
  const { endings, requests, figures, bad, problems } = summary
  t.diagnostic(JSON.stringify({ requests, endings }))
  for (const [name, { first, last, perTenMinutes }] of Object.entries(figures))
    t.diagnostic(`${name}: ${first} → ${last}, ${Math.round(perTenMinutes)} in ten minutes`)
  assert.deepEqual(bad, [])
  assert.deepEqual(problems, [])
})
