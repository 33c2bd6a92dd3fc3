import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { addWait, earn, hedgeAfter, noCredit, type ObservedWait, spend } from './hedge.ts'

/** A history of requests (`.`) and of late ones that want a hedge (`!`): which of those got one. */
const granted = (history: string, percent: number): string => {
  let credit = noCredit
  let out = ''
  for (const one of history) {
    credit = earn(credit, percent)
    if (one !== '!') continue
    const left = spend(credit)
    out += left === null ? '-' : 'h'
    credit = left ?? credit
  }
  return out
}

const cases: readonly (readonly [name: string, history: string, percent: number, granted: string])[] = [
  ['off', '!!!', 0, '---'],
  ['all of them', '!!!', 100, 'hhh'],
  ['every other one', '!!!!', 50, '-h-h'],
  ['the twentieth of 5 %', `${'.'.repeat(19)}!`, 5, 'h'],
  ['not the nineteenth', `${'.'.repeat(18)}!`, 5, '-'],
  ['a refusal costs nothing', '.!!', 34, '-h'],
  ['saved up for ten and no more', `${'.'.repeat(1_000)}${'!'.repeat(12)}`, 5, `${'h'.repeat(10)}--`],
]
for (const [name, history, percent, wanted] of cases)
  test(`hedge: ${name}`, () => assert.equal(granted(history, percent), wanted))

test('hedge: over any history they are no larger a share of requests than paid for, and in any stretch ten more at most', () => {
  fc.assert(
    fc.property(fc.array(fc.boolean(), { maxLength: 400 }), fc.integer({ min: 0, max: 100 }), (late, percent) => {
      let credit = noCredit
      const hedges = late.map((isLate) => {
        credit = earn(credit, percent)
        const left = isLate ? spend(credit) : null
        credit = left ?? credit
        return left !== null
      })
      for (let from = 0; from < hedges.length; from += 7)
        for (let to = from + 1; to <= hedges.length; to += 5) {
          const count = hedges.slice(from, to).filter(Boolean).length
          assert.ok(count <= ((to - from) * percent) / 100 + (from === 0 ? 0 : 10))
        }
    }),
    { numRuns: 200, seed: 11 },
  )
})

const NOW = 1_000_000
const of = (...waits: readonly (readonly [ago: number, ms: number])[]): ObservedWait[] =>
  waits.map(([ago, ms]) => ({ at: NOW - ago, ms }))

const delays: readonly (readonly [name: string, waits: readonly ObservedWait[], after: number])[] = [
  ['nothing known: the least', [], 1_000],
  ['quicker than the least', of([10, 200], [5, 300]), 1_000],
  ['slower than the least', of([10, 4_000]), 4_000],
  ['the 19th of 20', of(...Array.from({ length: 20 }, (_, n) => [n, (20 - n) * 1_000] as const)), 19_000],
  ['what is five minutes old is forgotten', of([300_000, 9_000], [5, 2_000]), 2_000],
  ['what is a little younger is not', of([299_999, 9_000], [5, 2_000]), 9_000],
]
for (const [name, waits, after] of delays)
  test(`hedge: how long is late: ${name}`, () => assert.equal(hedgeAfter(waits, NOW, 1_000), after))

test('hedge: the latest 128 waits of five minutes are remembered', () => {
  let waits: readonly ObservedWait[] = []
  for (let n = 0; n < 500; n++) waits = addWait(waits, n, NOW + n)
  assert.deepEqual(
    [waits.length, waits[0], waits.at(-1)],
    [128, { at: NOW + 372, ms: 372 }, { at: NOW + 499, ms: 499 }],
  )
  assert.deepEqual(addWait(waits, 7, NOW + 400_000), [{ at: NOW + 400_000, ms: 7 }])
})
