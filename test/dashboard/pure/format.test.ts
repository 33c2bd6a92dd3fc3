import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { addDollars, bytes, compact, duration, money, percent } from '../../../dashboard/src/format.ts'

test('amounts keep enough digits not to be zero', () => {
  for (const [text, shown] of [
    ['0.000000000', '$0'],
    ['0.000040000', '$0.00004'],
    ['0.000051100', '$0.000051'],
    ['0.012100000', '$0.012'],
    ['0.500000000', '$0.50'],
    ['1.840000000', '$1.84'],
    ['41.200000000', '$41.20'],
    ['0.999999999', '$1.00'],
    ['12.999000000', '$13.00'],
    ['1234.500000000', '$1,234.50'],
    ['-3.100000000', '-$3.10'],
    ['0.000000001', '$0.000000001'],
  ] as const)
    assert.equal(money(text), shown)
})

test('a positive amount is never shown as zero', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 1n, max: 10n ** 15n }), (nano) => {
      const text = `${nano / 1_000_000_000n}.${String(nano % 1_000_000_000n).padStart(9, '0')}`
      assert.match(money(text), /[1-9]/)
    }),
  )
})

test('amounts are added exactly', () => {
  assert.equal(addDollars(['0.100000000', '0.200000000', '-0.000000001']), '0.299999999')
  assert.equal(addDollars([]), '0.000000000')
  assert.equal(addDollars(['-1.500000000', '0.250000000']), '-1.250000000')
})

test('durations, counts, shares and sizes are short', () => {
  assert.deepEqual([0.7, 412, 3_412, 3_399, 2_000, 12_410, 12_000, 61_000, 900_000, 7_200_000].map(duration), [
    '0.7 ms',
    '412 ms',
    '3.41 s',
    '3.40 s',
    '2 s',
    '12.4 s',
    '12 s',
    '1 min 1 s',
    '15 min',
    '2 h',
  ])
  assert.deepEqual([9, 402, 9_600, 38_200, 1_200_000].map(compact), ['9', '402', '9.6k', '38k', '1.2M'])
  assert.deepEqual([0, 0.994, 0.3801, 0.07, 0.9999, 1, 0.0001].map(percent), [
    '0%',
    '99.4%',
    '38.0%',
    '7%',
    '99.9%',
    '100%',
    '< 0.1%',
  ])
  assert.deepEqual([12, 4_120, 412_000, 5_000_000].map(bytes), ['12 B', '4.1 KB', '412 KB', '5 MB'])
})
