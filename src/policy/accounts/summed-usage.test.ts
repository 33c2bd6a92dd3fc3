import assert from 'node:assert/strict'
import { test } from 'node:test'
import { costOf } from './cost.ts'
import { addAnswer } from './summed-usage.ts'

/** Above 200,000 tokens of input all cost twice as much. */
const catalogue = {
  version: 'v1',
  prices: { input: 1_000, output: 2_000, tiers: [{ above: 200_000, input: 2_000, output: 4_000 }] },
}
const answer = (input: number) => ({ input, output: 100, serviceTier: 'batch' })
const sumOf = (inputs: readonly number[]) =>
  inputs
    .map(answer)
    .reduce<ReturnType<typeof addAnswer> | null>(
      (sum, usage) => addAnswer(sum, usage, costOf({ usage, catalogue })),
      null,
    )

test('the cost of several answers is the sum of theirs, each by its own size', () => {
  const sum = sumOf([150_000, 150_000, 250_000])
  assert.ok(sum)
  const each = [150_000, 150_000, 250_000].map((input) => costOf({ usage: answer(input), catalogue }).nano ?? 0)
  assert.deepEqual(costOf({ usage: sum, catalogue }), {
    nano: each.reduce((total, nano) => total + nano, 0),
    source: 'catalogue',
    version: 'v1',
  })
  assert.equal(sum.input, 550_000)
  assert.equal(sum.output, 300)
  assert.notEqual(costOf({ usage: answer(550_000), catalogue }).nano, sum.summed?.nano)
})

test('one answer without a known price makes the sum unknown, whatever comes after it', () => {
  const known = costOf({ usage: answer(10), catalogue })
  const unknown = costOf({ usage: answer(10) })
  const first = addAnswer(addAnswer(null, answer(10), unknown), answer(10), known)
  assert.equal(first.summed, null)
  assert.equal(costOf({ usage: first, catalogue }).nano, null)
})
