import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AccountReport } from './account-report.ts'
import { AccountValues } from './account-values.ts'

const reading = (written = '') => {
  const report = new AccountReport((path) => ({
    name: 'name',
    value: `at ${path.join('.')}`,
    written,
    filled: false,
  }))
  return { values: new AccountValues(report), report }
}

test('account values: an instant is a date or a time with its offset', () => {
  const { values, report } = reading()
  assert.equal(values.instant(undefined, ['a']), null)
  assert.equal(values.instant('1970-01-02', ['a']), 86_400_000)
  assert.equal(values.instant('1970-01-01T01:00:00+01:00', ['a']), 0)
  assert.equal(report.problems.length, 0)
  for (const wrong of ['tomorrow', '2026-04-31', '2026-13-01', ''])
    assert.equal(values.instant(wrong, ['a', 'b']), null, wrong)
  assert.deepEqual(
    report.problems.map(({ where, what }) => [where, what]),
    Array.from({ length: 4 }, () => ['at a.b', 'a.b']),
  )
})

test('account values: a number is read from its source text, which has all digits', () => {
  const { values, report } = reading('0.000000001')
  assert.equal(values.dollars(1e-9, ['amount']), 1)
  assert.equal(values.dollars('2500.00', ['amount']), 2_500_000_000_000)
  assert.equal(report.problems.length, 0)
  assert.equal(values.dollars('0.0000000001', ['amount']), 0)
  assert.equal(report.problems[0]?.found, '"0.0000000001"')
})

test('account values: a price per million tokens becomes one per token, within the range', () => {
  const { values, report } = reading()
  assert.equal(values.perToken(undefined, ['input']), undefined)
  assert.equal(values.perToken('2.5', ['input']), 2_500)
  assert.equal(values.perToken('0', ['input']), 0)
  assert.equal(report.problems.length, 0)
  values.perToken('-1', ['input'])
  values.perToken('9000000', ['input'])
  assert.equal(report.problems.length, 2)
})
