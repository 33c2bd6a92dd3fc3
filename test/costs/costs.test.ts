/**
 * The main thread of a request, as counts with ceilings (`ceilings.json`). A change that needs more raises the ceiling in
 * the same commit and gives the reason there; one that needs less lowers it.
 */
import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import ceilings from './ceilings.json' with { type: 'json' }
import { type Costs, type Measured, measureCosts } from './measure.ts'

/** Node's own allocations differ between its versions. */
const isUsualNode = process.versions.node.startsWith('24.')

describe('costs of a request', { skip: isUsualNode ? false : 'the ceilings are those of Node 24' }, () => {
  let measured: Measured
  before(async () => {
    measured = await measureCosts()
  })

  test('an idle process wakes up a few times a second', () => {
    assert.ok(measured.idle <= ceilings.idle, `${measured.idle} turns of the event loop in a second`)
  })

  for (const [name, ceiling] of Object.entries(ceilings.costs))
    test(`${name}: bytes, promises, timers, system calls and journal of one`, (context) => {
      const costs = measured.costs[name]
      assert.ok(costs, 'it was measured')
      context.diagnostic(JSON.stringify(costs))
      const limits: Costs = ceiling
      // The names of the ceilings.
      for (const of of Object.keys(limits) as (keyof Costs)[]) {
        const [found = 0, limit = 0] = [costs[of], limits[of]]
        assert.ok(found <= limit, `${of}: ${found}, which is above the ceiling of ${limit} in test/costs/ceilings.json`)
      }
    })

  test('each kind has a ceiling', () => {
    assert.deepEqual(Object.keys(measured.costs).toSorted(), Object.keys(ceilings.costs).toSorted())
  })
})
