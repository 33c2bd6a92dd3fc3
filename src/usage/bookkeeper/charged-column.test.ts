import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { chargedCost } from '../../policy/accounts/charge.ts'
import { CHARGED } from '../columns/usage-schema.ts'

test('what budgets are charged for a row is the same in SQL and in memory', () => {
  const database = new DatabaseSync(':memory:')
  const select = database.prepare(`SELECT ${CHARGED} AS charged FROM (SELECT ? AS cost, ? AS reserved) a`)
  for (const cost of [null, 0, 1, 7_000])
    for (const reserved of [0, 5, 7_000, 90_000])
      assert.equal(select.get(cost, reserved)?.charged, chargedCost(cost, reserved), `${cost} of ${reserved}`)
  database.close()
})
