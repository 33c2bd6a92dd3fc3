/**
 * Queries on two million requests in `npm run test:long`, otherwise on 60,000. Times are reported, not checked: they depend on the machine. `LEDGER_ROWS=30000000`
 * measures the largest ledger that is planned for; its database takes 20 GB in `TMPDIR`.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { UsageQuery } from '../../src/usage/reading/queries.ts'
import { isLong } from '../support/lane.ts'
import { closedRecord, endedRecord, openedRecord } from '../support/ledger-records.ts'
import { fillLedger, readerOf, usageLedger } from '../support/usage-ledger.ts'

const DAY = 86_400_000
const END = Date.UTC(2026, 10, 22)
const COUNT = Number(process.env.LEDGER_ROWS ?? (isLong ? 2_000_000 : 60_000))

test(`ledger: queries on ${COUNT} requests`, { timeout: 600_000 + COUNT / 3 }, async (t) => {
  await using ledger = usageLedger({ now: END })
  await ledger.store([])
  fillLedger(ledger.folder, { count: COUNT, end: END, days: 30 })
  const { reader } = ledger
  // As the gateway has it: an answer that can be continued ends after a second.
  await using parted = readerOf(ledger.folder, { now: END, within: 1_000 })
  const timed = async <T extends { readonly ok: boolean }>(name: string, run: () => Promise<T>): Promise<T> => {
    const times: number[] = []
    const cpu: number[] = []
    const begun = performance.now()
    let result = await run()
    const first = (performance.now() - begun).toFixed(1)
    for (let round = 0; round < 5; round++) {
      const [start, before] = [performance.now(), process.cpuUsage()]
      result = await run()
      const { user, system } = process.cpuUsage(before)
      times.push(performance.now() - start)
      cpu.push((user + system) / 1_000)
    }
    const shown = (values: readonly number[]) =>
      values
        .toSorted((a, b) => a - b)
        .map((value) => value.toFixed(1))
        .join(' ')
    t.diagnostic(`${name}: first ${first}, then ${shown(times)} ms, CPU ${shown(cpu)} ms`)
    assert.ok(result.ok, name)
    return result
  }
  const usage = {
    from: END - 30 * DAY,
    to: END,
    by: ['team'],
    bucket: 'day',
    tz: null,
    filter: {},
    limit: 10_000,
    after: null,
  } as const
  const report = await timed('usage by day and team over 30 days', () => reader.usage(usage))
  assert.ok(report.ok && report.value.total.requests === COUNT && report.value.data.length === 30 * 50)
  await timed('usage by day, team and model over 30 days', () => reader.usage({ ...usage, by: ['team', 'model'] }))
  await timed('usage by key and model over 30 days', () =>
    reader.usage({ ...usage, by: ['key', 'model'], bucket: 'none' }),
  )
  await timed('usage by team over 7 days, not whole ones', () =>
    reader.usage({ ...usage, from: END - 7 * DAY + 1, bucket: 'none' }),
  )
  const zone = { ...usage, tz: 'America/New_York' } as const
  let answers = 0
  const whole = await timed('usage by day and team over 30 days of another zone, in all its answers', async () => {
    for (let after: UsageQuery['after'] = null; ; after = []) {
      const part = await parted.usage({ ...zone, after })
      answers++
      if (!part.ok || part.value.searched_until === null) return part
    }
  })
  assert.ok(whole.ok && whole.value.total.requests === COUNT)
  t.diagnostic(`${answers / 6} answers`)
  await timed('usage by hour and key over a day', () =>
    reader.usage({ ...usage, from: END - DAY, by: ['key'], bucket: 'hour' }),
  )
  const page = { from: END - DAY, to: END, filter: {}, limit: 50, after: null, histogram: null, count: false } as const
  const first = await timed('first page of requests', () => reader.requests(page))
  assert.ok(
    first.ok && first.value.data.length === 50 && first.value.data.every(({ attempts }) => attempts.length === 1),
  )
  await timed('first page with histogram and count', () => reader.requests({ ...page, histogram: 60, count: true }))
  await timed('first page of failures of a key', () =>
    reader.requests({ ...page, filter: { key: ['key_40'], outcome: ['refused'] } }),
  )
  // A search reads every row of its range, two million here; one that takes too long is ended.
  const searched = Math.ceil(30 * Math.min(1, 2_000_000 / COUNT))
  await timed(`first page over ${searched} days by a text that is not found`, () =>
    reader.requests({ ...page, from: END - searched * DAY, filter: { q: 'nowhere' } }),
  )
  await timed('one request', () => reader.request({ id: `req_${COUNT - 5}`, key: null, team: null }))
  const facets = await timed('facets', () => reader.facets({ team: null }))
  assert.ok(facets.ok && facets.value.key?.length === 500)
  await timed('facets of a team', () => reader.facets({ team: ['team_1'] }))
  await timed('summary of an hour', () => reader.summary({ from: END - DAY / 24, to: END, filter: {}, compare: true }))
  await timed('summary of a day', () => reader.summary({ from: END - DAY, to: END, filter: {}, compare: true }))
  await timed('lanes of an hour', () => reader.lanes({ from: END - DAY / 24, to: END, provider: 'p0', cells: 60 }))
  const forecast = {
    by: 'week',
    teams: ['team_1'],
    keys: null,
    models: ['m*'],
    providers: null,
    period_start: END - 21 * DAY,
    period_end: END + 9 * DAY,
    amount: 1e15,
    spent: 1e12,
  } as const
  await timed('forecast', () => reader.forecasts({ now: END, budgets: [forecast] }))
  const budgets = Array.from({ length: 200 }, (_, n) => ({ ...forecast, teams: [`team_${n % 20}`] }))
  await timed('forecasts of 200 budgets', () => reader.forecasts({ now: END, budgets }))
  // The bookkeeper continues to write.
  await ledger.store([openedRecord(1, { at: END }), closedRecord(1), endedRecord(1, { received: END, at: END })])
})
