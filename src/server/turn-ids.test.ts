import assert from 'node:assert/strict'
import { test } from 'node:test'
import { TurnIds } from './turn-ids.ts'

test('turn IDs: count in letters, as columns of a sheet', () => {
  const ids = new TurnIds('req')
  const made = Array.from({ length: 703 }, () => ids.next())
  assert.deepEqual(
    [1, 2, 26, 27, 52, 53, 702, 703].map((turn) => made[turn - 1]),
    ['req.a', 'req.b', 'req.z', 'req.aa', 'req.az', 'req.ba', 'req.zz', 'req.aaa'],
  )
  assert.equal(new Set(made).size, 703)
  assert.equal(ids.of('own'), 'own.aaa')
})
