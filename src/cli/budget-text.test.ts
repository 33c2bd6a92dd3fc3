import assert from 'node:assert/strict'
import { test } from 'node:test'
import { basisText } from './budget-text.ts'

test('budgets: a forecast states on how many hours or days it rests', () => {
  const week = (hours: number | null) => basisText({ basis: 'week', hours })
  assert.equal(week(1), 'as in the last hour')
  assert.equal(week(47), 'as in the last 47 hours')
  assert.equal(week(48), 'as in the last 2 days')
  assert.equal(week(168), 'as in the last 7 days')
  assert.equal(week(null), 'as in the last week')
  assert.equal(basisText({ basis: 'present', hours: null }), 'at the present rate')
  assert.equal(basisText({ basis: 'period', hours: null }), 'as in this period')
  assert.equal(basisText({ basis: null, hours: null }), null)
})
