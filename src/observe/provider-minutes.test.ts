import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fail } from '../core/failure.ts'
import type { Trace } from '../core/trace.ts'
import { summarize } from '../core/trace-summary.ts'
import { ProviderMinutes } from './provider-minutes.ts'

const MINUTE = 60_000

const traceOf = (...events: Trace): Trace => [
  { type: 'received', at: 0, date: 0, family: '', id: 'r', style: 'chat', model: 'm', stream: false },
  ...events,
  { type: 'ended', at: 500, how: 'answered', status: 200 },
]
const attempt = (provider: string) => ({ type: 'attempt', at: 0, provider, model: 'm', key: 'k' }) as const
const skippedBy = (why: string) =>
  ({ type: 'skipped', targets: [{ provider: 'c', model: 'm', key: 'k', why }], more: 0 }) as const

test('failures, limits and skips of each provider are counted apart', () => {
  const minutes = new ProviderMinutes(() => 100 * MINUTE + 5)
  minutes.record(
    summarize(
      traceOf(
        attempt('a'),
        { type: 'failed', at: 10, attempt: 0, failure: fail('timeout', 'x') },
        attempt('a'),
        { type: 'failed', at: 20, attempt: 1, failure: fail('rate_limited', 'x') },
        attempt('b'),
        { type: 'committed', at: 320, attempt: 2, status: 200 },
        skippedBy('circuit'),
        skippedBy('unfit'),
      ),
    ),
  )
  const last = (provider: string) => minutes.of(provider).at(-1)
  const start = 100 * MINUTE
  assert.deepEqual(last('a'), { start, attempts: 2, failed: 1, limited: 1, skipped: 0, slowest_ms: null })
  assert.deepEqual(last('b'), { start, attempts: 1, failed: 0, limited: 0, skipped: 0, slowest_ms: 320 })
  assert.deepEqual(last('c'), { start, attempts: 0, failed: 0, limited: 0, skipped: 1, slowest_ms: null })
})

test('there are always 60 minutes, and older ones are dropped', () => {
  let now = 0
  const minutes = new ProviderMinutes(() => now)
  for (; now < 200 * MINUTE; now += 2 * MINUTE)
    minutes.record(summarize(traceOf(attempt('a'), { type: 'committed', at: 1, attempt: 0, status: 200 })))
  const cells = minutes.of('a')
  assert.equal(cells.length, 60)
  assert.deepEqual([cells[0]?.start, cells.at(-1)?.start], [141 * MINUTE, 200 * MINUTE])
  assert.equal(
    cells.reduce((sum, { attempts }) => sum + attempts, 0),
    29,
  )
  assert.equal(minutes.of('unknown').length, 60)
})
