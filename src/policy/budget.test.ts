import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type Budget, firstTry, mayRepeat, noTries } from './budget.ts'

const start = 1_000_000

/** So many first tries spread evenly, then as many repeats as are allowed at one moment. */
const allowedAfter = (firsts: number, over: number, at: number, percent: number): number => {
  let budget = noTries
  for (let n = 0; n < firsts; n++) budget = firstTry(budget, start + (n * over) / firsts)
  let allowed = 0
  for (; allowed < 10_000; allowed++) {
    const answer = mayRepeat(budget, start + at, percent)
    budget = answer.state
    if (!answer.allowed) break
  }
  return allowed
}

const cases: readonly [name: string, firsts: number, over: number, at: number, percent: number, allowed: number][] = [
  ['nothing yet: the floor', 0, 1, 0, 20, 3],
  ['few requests: the floor', 10, 1_000, 1_000, 20, 3],
  ['a hundred: a fifth', 100, 5_000, 5_000, 20, 20],
  ['a thousand: a fifth', 1_000, 9_000, 9_000, 20, 200],
  ['half', 100, 5_000, 5_000, 50, 50],
  ['none allowed but the floor', 100, 5_000, 5_000, 0, 3],
  ['everything', 100, 5_000, 5_000, 100, 100],
  ['long ago', 1_000, 1_000, 12_000, 20, 3],
]
for (const [name, firsts, over, at, percent, allowed] of cases)
  test(`budget: ${name}`, () => assert.equal(allowedAfter(firsts, over, at, percent), allowed))

test('budget: the floor is three in any second', () => {
  let budget = noTries
  const granted: number[] = []
  for (let at = 0; at < 10_000; at += 50) {
    const answer = mayRepeat(budget, start + at, 20)
    budget = answer.state
    if (answer.allowed) granted.push(at)
  }
  for (const from of granted) assert.ok(granted.filter((at) => at >= from && at < from + 1_000).length <= 3)
  assert.ok(granted.length >= 20, 'and not much less than that over ten')
})

test('budget: a refusal is not counted', () => {
  let budget = noTries
  for (let n = 0; n < 3; n++) budget = mayRepeat(budget, start, 20).state
  const refused = mayRepeat(budget, start, 20)
  assert.equal(refused.allowed, false)
  assert.deepEqual(refused.state, budget)
})

test('budget: over any history each grant is within the share or the floor, and the state stays small', () => {
  const step = fc.record({ wait: fc.integer({ min: 0, max: 3_000 }), firsts: fc.nat(40), repeats: fc.nat(15) })
  let [byShare, byFloor, refused] = [0, 0, 0]
  fc.assert(
    fc.property(
      fc.array(step, { minLength: 5, maxLength: 40, size: 'max' }),
      fc.constantFrom(0, 20, 50, 100),
      (steps, percent) => {
        let budget: Budget = noTries
        let now = start
        const firsts: number[] = []
        const repeats: number[] = []
        const within = (log: readonly number[], ms: number) => log.filter((at) => at > now - ms).length
        for (const step of steps) {
          now += step.wait
          for (let n = 0; n < step.firsts; n++) {
            budget = firstTry(budget, now)
            firsts.push(now)
          }
          for (let n = 0; n < step.repeats; n++) {
            const answer = mayRepeat(budget, now, percent)
            budget = answer.state
            const floor = within(repeats, 1_000) < 3
            const share = within(repeats, 10_000) + 1 <= (within(firsts, 10_000) * percent) / 100
            if (answer.allowed) {
              assert.ok(floor || share, 'granted against the rule')
              repeats.push(now)
              if (floor) byFloor++
              else byShare++
            } else refused++
          }
          assert.ok(budget.past.length <= 41)
        }
      },
    ),
    { numRuns: 300, seed: 3 },
  )
  assert.ok(byShare > 100 && byFloor > 100 && refused > 100, `${byShare} ${byFloor} ${refused}`)
})
