import assert from 'node:assert/strict'
import { test } from 'node:test'
import { columnVerdicts, type RuleVerdict, summedVerdicts, verdictColumn, verdictHeader } from './guard-verdict.ts'

const verdict = (guard: string, more: Partial<RuleVerdict> = {}): RuleVerdict => ({
  guard,
  phase: 'request',
  action: 'mask',
  counts: { EMAIL: 2 },
  ms: 1,
  ...more,
})
const stored = ({ ms: _, ...rest }: RuleVerdict) => rest

test('verdicts: the column of the ledger has the strictest first, and is read as it was written', () => {
  const all = [
    verdict('log', { action: 'log' }),
    verdict('a, b/c:d=é', { counts: { 'x+y': 1, PHONE: 3 } }),
    verdict('shield', { action: 'error', counts: {}, phase: 'answer' }),
    verdict('no', { action: 'block' }),
  ]
  const column = verdictColumn(all)
  assert.equal(
    column,
    'no/request/block/EMAIL:2,a%2C%20b%2Fc%3Ad%3D%C3%A9/request/mask/x%2By:1+PHONE:3,log/request/log/EMAIL:2,shield/answer/error/',
  )
  const order = [3, 1, 0, 2].map((at) => stored(all[at] as RuleVerdict))
  assert.deepEqual(columnVerdicts(column), { verdicts: order, more: 0 })
  assert.equal(verdictColumn([]), null)
  assert.deepEqual(columnVerdicts(null), { verdicts: [], more: 0 })
})

test('verdicts: a column has at most 500 characters, and counts what it leaves out', () => {
  for (const length of [1, 7, 60, 120, 480, 600]) {
    const all = Array.from({ length: 40 }, (_, at) => verdict(`${'g'.repeat(length)}${at}`))
    const column = verdictColumn(all) ?? ''
    assert.ok(column.length <= 500, `${column.length}`)
    const { verdicts, more } = columnVerdicts(column)
    assert.equal(verdicts.length + more, 40)
  }
})

test('verdicts: an entry that cannot be read is counted', () => {
  assert.deepEqual(columnVerdicts('a/request/mask/X:1,b/later/mask/,c'), {
    verdicts: [stored(verdict('a', { counts: { X: 1 } }))],
    more: 2,
  })
})

test('verdicts: sums and the header', () => {
  const sum = summedVerdicts(verdict('pii'), verdict('pii', { counts: { EMAIL: 1, CARD: 1 } }))
  assert.deepEqual(sum, verdict('pii', { counts: { EMAIL: 3, CARD: 1 }, ms: 2 }))
  assert.equal(verdictHeader([sum, verdict('l', { action: 'log' }), verdict('é')]), 'pii=mask:4, %C3%A9=mask:2')
})
