/** A short soak: five minutes of it where HEADGATE_CI=1, a quarter of a minute otherwise. The hour is `npm run soak`. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { soak } from './soak.ts'

const ci = process.env.HEADGATE_CI === '1'

test('soak: nothing is lost under faults, and nothing grows', { timeout: 600_000 }, async (t) => {
  const summary = await soak({
    minutes: ci ? 5 : 0.25,
    streams: ci ? 100 : 30,
    percent: 5,
    gap: ci ? 100 : 30,
    every: ci ? 5 : 2,
  })
  const { endings, requests, figures, bad, complaints } = summary
  t.diagnostic(JSON.stringify({ requests, endings }))
  for (const [name, { first, last, perTenMinutes }] of Object.entries(figures))
    t.diagnostic(`${name}: ${first} → ${last}, ${Math.round(perTenMinutes)} in ten minutes`)
  assert.deepEqual(bad, [])
  assert.deepEqual(complaints, [])
})
