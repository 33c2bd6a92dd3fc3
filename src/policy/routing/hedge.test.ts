import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { addWait, earn, hedgeAfter, noCredit, type ObservedWait, spend } from './hedge.ts'

/** For a history of requests (`.`) and slow requests (`!`): which slow ones were hedged (`h`) and which not (`-`). */
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
  ['0 %: none', '!!!', 0, '---'],
  ['100 %: every slow request', '!!!', 100, 'hhh'],
  ['50 %: every second one', '!!!!', 50, '-h-h'],
  ['5 %: the 20th request', `${'.'.repeat(19)}!`, 5, 'h'],
  ['5 %: not the 19th', `${'.'.repeat(18)}!`, 5, '-'],
  ['a refused hedge spends no credit', '.!!', 34, '-h'],
  ['credit for at most ten hedges', `${'.'.repeat(1_000)}${'!'.repeat(12)}`, 5, `${'h'.repeat(10)}--`],
]
for (const [name, history, percent, wanted] of cases)
  test(`hedge: ${name}`, () => assert.equal(granted(history, percent), wanted))

test('hedge: in any history at most the configured share, and in any part of it at most ten more', () => {
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
  ['no waits: the minimum', [], 1_000],
  ['waits below the minimum', of([10, 200], [5, 300]), 1_000],
  ['a wait above the minimum', of([10, 4_000]), 4_000],
  [
    'the 95th percentile of 20 waits',
    of(...Array.from({ length: 20 }, (_, n) => [n, (20 - n) * 1_000] as const)),
    19_000,
  ],
  ['a wait of five minutes ago is ignored', of([300_000, 9_000], [5, 2_000]), 2_000],
  ['a slightly later wait counts', of([299_999, 9_000], [5, 2_000]), 9_000],
]
for (const [name, waits, after] of delays)
  test(`hedge: delay: ${name}`, () => assert.equal(hedgeAfter(waits, NOW, 1_000), after))

test('hedge: stores the latest 128 waits of five minutes', () => {
  let waits: readonly ObservedWait[] = []
  for (let n = 0; n < 500; n++) waits = addWait(waits, n, NOW + n)
  assert.deepEqual(
    [waits.length, waits[0], waits.at(-1)],
    [128, { at: NOW + 372, ms: 372 }, { at: NOW + 499, ms: 499 }],
  )
  assert.deepEqual(addWait(waits, 7, NOW + 400_000), [{ at: NOW + 400_000, ms: 7 }])
})
