import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  correctedInput,
  estimateOutput,
  INITIAL_RATIO,
  MAX_OUTPUT,
  type OutputBounds,
  OutputLengths,
  tokensOfBytes,
  updateRatio,
} from './estimate.ts'

test('estimate: three bytes are a token, rounded up', () => {
  for (const [bytes, tokens] of [
    [0, 0],
    [1, 1],
    [3, 1],
    [4, 2],
    [3_000_001, 1_000_001],
  ] as const)
    assert.equal(tokensOfBytes(bytes), tokens)
})

test('estimate: the input ratio approaches the counted one and stays within 0.5 and 2', () => {
  let ratio = INITIAL_RATIO
  for (let n = 0; n < 100; n++) ratio = updateRatio(ratio, 1_300, 1_000)
  assert.ok(Math.abs(ratio - 1.3) < 0.001, String(ratio))
  assert.equal(correctedInput(1_000, 1.25), 1_250)
  assert.equal(correctedInput(3, 0.5), 2)
  for (let n = 0; n < 1_000; n++) ratio = updateRatio(ratio, 1_000_000, 1)
  assert.ok(ratio <= 2 && ratio > 1.99)
  for (let n = 0; n < 1_000; n++) ratio = updateRatio(ratio, 1, 1_000_000)
  assert.ok(ratio >= 0.5 && ratio < 0.51)
})

test('estimate: one answer changes the ratio by at most a tenth of the range', () => {
  assert.equal(updateRatio(1, 1_000_000, 1), 1.1)
  assert.equal(updateRatio(1, 1, 1_000_000), 0.95)
})

for (const [counted, estimated] of [
  [0, 100],
  [100, 0],
  [-5, 100],
  [Number.NaN, 100],
  [Number.POSITIVE_INFINITY, 100],
  [100, Number.NaN],
] as const)
  test(`estimate: ${counted} counted of ${estimated} estimated tokens leave the ratio as it is`, () =>
    assert.equal(updateRatio(1.5, counted, estimated), 1.5))

test('estimate: the usual output is unknown below 16 answers', () => {
  const lengths = new OutputLengths()
  for (let n = 1; n <= 15; n++) lengths.add(n)
  assert.equal(lengths.usual, undefined)
  lengths.add(16)
  assert.equal(lengths.usual, 16)
})

test('estimate: invalid output counts are ignored', () => {
  const lengths = new OutputLengths()
  for (let n = 0; n < 16; n++) {
    lengths.add(5)
    for (const invalid of [-1, Number.NaN, Number.POSITIVE_INFINITY]) lengths.add(invalid)
  }
  assert.equal(lengths.usual, 5)
})

test('estimate: the usual output is the 95th percentile of the last 256 answers', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(50), { minLength: 16, maxLength: 700, size: 'max' }), (answers) => {
      const lengths = new OutputLengths()
      for (const tokens of answers) lengths.add(tokens)
      const last = answers.slice(-256).sort((a, b) => a - b)
      assert.equal(lengths.usual, last[Math.ceil(last.length * 0.95) - 1])
    }),
  )
})

const cases: readonly (readonly [bounds: OutputBounds, typical: number, max: number])[] = [
  [{}, 1_024, MAX_OUTPUT],
  [{ requested: 100 }, 100, 100],
  [{ requested: 200_000 }, 1_024, MAX_OUTPUT],
  [{ modelMaximum: 512 }, 512, 512],
  [{ modelMaximum: 128_000 }, 1_024, MAX_OUTPUT],
  [{ requested: 4_000, modelMaximum: 2_000 }, 1_024, 2_000],
  [{ usual: 300 }, 300, MAX_OUTPUT],
  [{ usual: 5_000, requested: 8_000 }, 5_000, 8_000],
  [{ usual: 5_000, requested: 800 }, 800, 800],
  [{ usual: 0 }, 0, MAX_OUTPUT],
  [{ requested: 100, choices: 3 }, 300, 300],
  [{ requested: 10.5 }, 11, 11],
  [{ choices: 2 }, 2_048, 2 * MAX_OUTPUT],
  [{ choices: 0 }, 1_024, MAX_OUTPUT],
  // An invalid bound does not reduce the estimate.
  [{ requested: 0 }, 1_024, MAX_OUTPUT],
  [{ requested: -1, modelMaximum: 0 }, 1_024, MAX_OUTPUT],
]
for (const [bounds, typical, max] of cases)
  test(`estimate: the output for ${JSON.stringify(bounds)}`, () => {
    assert.equal(estimateOutput(bounds, 'typical'), typical)
    assert.equal(estimateOutput(bounds, 'max'), max)
  })

test('estimate: the longest reservation is configurable', () =>
  assert.equal(estimateOutput({ modelMaximum: 100_000 }, 'max', 4_096), 4_096))
