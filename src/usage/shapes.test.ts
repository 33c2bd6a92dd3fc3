/** Shapes of requests in the journal and in the database. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { closers, given, OWN, storeAll } from '../../test/support/bookkeeping.ts'
import { onEachEngine } from '../../test/support/ledger-engines.ts'
import { NOON } from '../../test/support/ledger-records.ts'
import type { ShapeNoted } from '../core/journal.ts'
import { decodeLine, encodeShape } from './journal/journal-record.ts'
import { UsageReader } from './reading/usage-reader.ts'

const DAY = 86_400_000
const LIMITS = { keepDays: 1_000, keepHours: 1_000, maxMegabytes: 1_000 }
const noted = (more: Partial<ShapeNoted> = {}): ShapeNoted => ({
  ...{ type: 'shape', at: NOON, route: 'fast', access: '', provider: 'openai', shape: '1:chat:0:0:0:0:1024:0:1' },
  ...{ weight: 1, ...more },
})

test('shapes: a record is read as it was written', () => {
  for (const one of [noted(), noted({ provider: null, access: '{"lists":[],"require":"region=eu"}', weight: 50 })])
    assert.deepEqual(decodeLine(encodeShape(one).slice(0, -1)), one)
  assert.equal(decodeLine('["h",1,"fast","",null,7,1]'), undefined)
})

onEachEngine((engine) => {
  test('shapes: weights of a day are added up, read for a range, and deleted after 30 days', async () => {
    const { open, write, options, reading } = given(engine)
    const bookkeeper = open()
    write(OWN, [noted(), noted({ provider: null }), noted({ weight: 50 }), noted({ route: 'slow' })])
    await storeAll(bookkeeper)
    write(OWN, [noted({ weight: 7 }), noted({ at: NOON - 40 * DAY, weight: 1_000 })])
    await storeAll(bookkeeper)
    const { folder, database, timezone } = options
    const reader = new UsageReader({
      ...{ folder, database, timezone, keepHours: () => 1_000, date: Date.now, flush: async () => null },
      names: { key: () => null, team: () => null },
    })
    closers.push(() => reader.close())
    const found = await reader.drillShapes({ from: NOON - 7 * DAY, to: NOON })
    assert.ok(found.ok, JSON.stringify(found))
    const { access, shape } = noted()
    assert.deepEqual(found.value, [
      { route: 'fast', access, shape, weight: 59 },
      { route: 'slow', access, shape, weight: 1 },
    ])
    await bookkeeper.sweep(LIMITS, NOON)
    const rows = reading((all) => all('SELECT provider, weight FROM shape_day ORDER BY route, provider'))
    assert.deepEqual(rows, [
      { provider: '', weight: 1 },
      { provider: 'openai', weight: 58 },
      { provider: 'openai', weight: 1 },
    ])
  })

  test('shapes: beyond the 200 most frequent ones of a route they are others, by class of clients', async () => {
    const { open, write, options } = given(engine)
    const bookkeeper = open()
    const shapes = Array.from({ length: 220 }, (_, at) => `1:chat:0:0:0:0:1024:0:${at.toString(16)}`)
    const access = '{"lists":[],"require":"region=eu"}'
    write(
      OWN,
      shapes.map((shape, at) => noted({ shape, weight: 1_000 - at, ...(at % 2 === 1 && { access }) })),
    )
    await storeAll(bookkeeper)
    const { folder, database, timezone } = options
    const reader = new UsageReader({
      ...{ folder, database, timezone, keepHours: () => 1_000, date: Date.now, flush: async () => null },
      names: { key: () => null, team: () => null },
    })
    closers.push(() => reader.close())
    const found = await reader.drillShapes({ from: NOON - 7 * DAY, to: NOON })
    assert.ok(found.ok, JSON.stringify(found))
    const others = found.value.filter(({ shape }) => shape === 'other')
    assert.deepEqual([found.value.length, others.map((one) => one.access).sort()], [202, ['', access]])
    const weights = (all: readonly { readonly weight: number }[]) => all.reduce((sum, { weight }) => sum + weight, 0)
    assert.equal(weights(others), 20 * 1_000 - (200 * 20 + 190))
    assert.equal(weights(found.value), 220 * 1_000 - (219 * 220) / 2)
  })
})
