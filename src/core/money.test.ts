import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { addNano, formatDollars, MAX_NANO, parseDollars } from './money.ts'

const amounts: readonly (readonly [text: string, nano: number, written: string])[] = [
  ['0', 0, '0.000000000'],
  ['0.0', 0, '0.000000000'],
  ['1', 1_000_000_000, '1.000000000'],
  ['25.5', 25_500_000_000, '25.500000000'],
  ['2500.00', 2_500_000_000_000, '2500.000000000'],
  ['0.000045120', 45_120, '0.000045120'],
  ['0.000000001', 1, '0.000000001'],
  ['007', 7_000_000_000, '7.000000000'],
  [`${'0'.repeat(50)}1.1`, 1_100_000_000, '1.100000000'],
  ['0.1', 100_000_000, '0.100000000'],
  ['9007199', MAX_NANO, '9007199.000000000'],
  ['9007198.999999999', MAX_NANO - 1, '9007198.999999999'],
]
for (const [text, nano, written] of amounts)
  test(`money: ${text} is ${nano} nano-dollars`, () => {
    assert.deepEqual(parseDollars(text), { ok: true, value: nano })
    assert.equal(formatDollars(nano), written)
  })

const refused: readonly (readonly [text: string, message: RegExp])[] = [
  ['', /not an amount/],
  [' 1', /not an amount/],
  ['1 ', /not an amount/],
  ['1\n', /not an amount/],
  ['$5', /"\$5" is not an amount/],
  ['1,000', /not an amount/],
  ['1e3', /not an amount/],
  ['0x10', /not an amount/],
  ['.5', /not an amount/],
  ['5.', /not an amount/],
  ['1.2.3', /not an amount/],
  ['+1', /not an amount/],
  ['--1', /not an amount/],
  ['NaN', /not an amount/],
  ['Infinity', /not an amount/],
  ['١', /not an amount/],
  ['-1', /negative/],
  ['-0.000000001', /negative/],
  ['1.0000000001', /10 decimals \(limit 9/],
  ['0.0000000000', /10 decimals/],
  ['9007199.000000001', /too large \(limit 9007199 dollars\)/],
  ['9007200', /too large/],
  ['99999999999999999999', /too large/],
  ['x'.repeat(1_000), /"x{40}…"/],
]
for (const [text, message] of refused)
  test(`money: refuses ${JSON.stringify(text.slice(0, 20))}`, () => {
    const outcome = parseDollars(text)
    assert.ok(!outcome.ok)
    assert.equal(outcome.failure.kind, 'invalid_value')
    assert.match(outcome.failure.message, message)
  })

test('money: a sign is accepted where credits are allowed', () => {
  assert.deepEqual(parseDollars('-2.5', 'any'), { ok: true, value: -2_500_000_000 })
  assert.deepEqual(parseDollars('-0', 'any'), { ok: true, value: 0 })
  assert.deepEqual(parseDollars('2.5', 'any'), { ok: true, value: 2_500_000_000 })
  assert.equal(parseDollars('-9007200', 'any').ok, false)
  assert.equal(formatDollars(-1), '-0.000000001')
  assert.equal(formatDollars(-2_500_000_000), '-2.500000000')
})

test('money: every amount is parsed back from its text', () => {
  fc.assert(
    fc.property(fc.integer({ min: -MAX_NANO, max: MAX_NANO }), (nano) => {
      assert.deepEqual(parseDollars(formatDollars(nano), 'any'), { ok: true, value: nano })
    }),
  )
})

test('money: sums stay within the limit', () => {
  assert.equal(addNano(1, 2), 3)
  assert.equal(addNano(MAX_NANO, 1), MAX_NANO)
  assert.equal(addNano(-MAX_NANO, -1), -MAX_NANO)
})
