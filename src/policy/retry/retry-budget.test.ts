import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { countFirst, emptyBudget, type RetryBudget, requestRepeat } from './retry-budget.ts'

const start = 1_000_000

/** So many first tries spread evenly, then as many repeats as are allowed at one moment. */
const allowedAfter = (firsts: number, over: number, at: number, percent: number, floor = 3, client = ''): number => {
  let budget = emptyBudget
  for (let n = 0; n < firsts; n++) budget = countFirst(budget, start + (n * over) / firsts)
  let allowed = 0
  for (; allowed < 10_000; allowed++) {
    const answer = requestRepeat(budget, start + at, client, { percent, floor })
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

const floors: readonly (readonly [floor: number, client: string, firsts: number, allowed: number])[] = [
  [0, '', 0, 0],
  [0, '', 100, 20],
  [1, '', 0, 1],
  [10, '', 0, 10],
  [10, '', 10, 10],
  // One of several clients: half, and half of the floor, rounded up.
  [0, 'a', 100, 10],
  [1, 'a', 0, 1],
  [3, 'a', 0, 2],
  [3, 'a', 100, 10],
  [4, 'a', 0, 2],
]
for (const [floor, client, firsts, allowed] of floors)
  test(`budget: a floor of ${floor}, ${firsts} first tries, ${client === '' ? 'everybody' : 'one client'}`, () =>
    assert.equal(allowedAfter(firsts, 5_000, 5_000, 20, floor, client), allowed))

const rules = { percent: 20, floor: 3 }

/** So many repeats granted one after another at this moment. */
const drain = (budget: RetryBudget, at: number, client: string): readonly [RetryBudget, number] => {
  for (let granted = 0; ; granted++) {
    const { state, allowed } = requestRepeat(budget, at, client, rules)
    budget = state
    if (!allowed) return [budget, granted]
  }
}

test('budget: one client leaves the others their half, and together they have no more than all', () => {
  let budget = emptyBudget
  for (let n = 0; n < 100; n++) budget = countFirst(budget, start)
  const granted: number[] = []
  for (const client of ['a', 'a', 'b', 'c']) {
    const [state, count] = drain(budget, start, client)
    budget = state
    granted.push(count)
  }
  assert.deepEqual(granted, [10, 0, 10, 0])
})

test('budget: what a client has taken is its own for ten seconds', () => {
  let budget = emptyBudget
  for (let n = 0; n < 100; n++) budget = countFirst(budget, start)
  budget = drain(budget, start, 'a')[0]
  assert.equal(drain(budget, start + 9_900, 'a')[1], 2, 'its part of the floor, for nothing was repeated lately')
  for (let n = 0; n < 100; n++) budget = countFirst(budget, start + 9_900)
  assert.equal(drain(budget, start + 10_500, 'a')[1], 10)
})

test('budget: after a burst the floor adds no more than ten seconds of it', () => {
  let budget = emptyBudget
  for (let n = 0; n < 1_000; n++) budget = countFirst(budget, start)
  budget = drain(budget, start + 9_000, '')[0]
  // The first tries are forgotten, the 200 repeats are not.
  assert.equal(drain(budget, start + 12_000, '')[1], 0)
  assert.equal(drain(budget, start + 19_500, '')[1], 3)
})

for (const [firsts, later] of [
  [45, 1],
  [50, 0],
] as const)
  test(`budget: a floor of one adds ${later} to the ${firsts / 5} repeats that are remembered`, () => {
    let budget = emptyBudget
    for (let n = 0; n < firsts; n++) budget = countFirst(budget, start)
    for (let n = 0; n < firsts / 5; n++)
      budget = requestRepeat(budget, start + 9_000, '', { percent: 20, floor: 0 }).state
    assert.equal(requestRepeat(budget, start + 12_000, '', { percent: 20, floor: 1 }).allowed, later === 1)
  })

test('budget: begins with nothing', () => {
  assert.equal(requestRepeat(emptyBudget, 0, '', { percent: 100, floor: 0 }).allowed, false)
})

test('budget: the floor is three in any second', () => {
  let budget = emptyBudget
  const granted: number[] = []
  for (let at = 0; at < 10_000; at += 50) {
    const answer = requestRepeat(budget, start + at, '', rules)
    budget = answer.state
    if (answer.allowed) granted.push(at)
  }
  for (const from of granted) assert.ok(granted.filter((at) => at >= from && at < from + 1_000).length <= 3)
  assert.ok(granted.length >= 20, 'and not much less than that over ten')
})

test('budget: a refusal is not counted', () => {
  let budget = emptyBudget
  for (let n = 0; n < 3; n++) budget = requestRepeat(budget, start, '', rules).state
  const refused = requestRepeat(budget, start, '', rules)
  assert.equal(refused.allowed, false)
  assert.deepEqual(refused.state, budget)
})

test('budget: over any history repeats are a share of first tries and the floor, each client’s too, and the state stays small', () => {
  const step = fc.record({
    wait: fc.integer({ min: 0, max: 3_000 }),
    firsts: fc.nat(40),
    repeats: fc.nat(15),
    client: fc.constantFrom('', 'a', 'b'),
  })
  let [byShare, byFloor, refused, byClient] = [0, 0, 0, 0]
  fc.assert(
    fc.property(
      fc.array(step, { minLength: 5, maxLength: 40, size: 'max' }),
      fc.constantFrom(0, 20, 50, 100),
      fc.constantFrom(0, 1, 3, 8),
      (steps, percent, floor) => {
        let budget: RetryBudget = emptyBudget
        let now = start
        const firsts: number[] = []
        const repeats: { readonly at: number; readonly client: string }[] = []
        const count = (ms: number, client?: string) =>
          repeats.filter((one) => one.at > now - ms && (client === undefined || one.client === client)).length
        for (const step of steps) {
          now += step.wait
          for (let n = 0; n < step.firsts; n++) {
            budget = countFirst(budget, now)
            firsts.push(now)
          }
          const room = (part: number) => (firsts.filter((at) => at > now - 10_000).length * percent * part) / 100
          /** The rule, exactly: [within the share, within share and floor]. */
          const holds = (part: number, least: number, client?: string) => {
            const after = count(10_000, client) + 1
            return [after <= room(part), count(1_000, client) < least && after <= room(part) + least * 10] as const
          }
          for (let n = 0; n < step.repeats; n++) {
            const { client } = step
            const answer = requestRepeat(budget, now, client, { percent, floor })
            budget = answer.state
            const [share, small] = holds(1, floor)
            const own = client === '' ? [true] : holds(0.5, Math.ceil(floor / 2), client)
            if (answer.allowed) {
              assert.ok(share || small, 'granted against the rule')
              assert.ok(own.includes(true), 'granted to a client that has had its half')
              repeats.push({ at: now, client })
              // The bound on amplification, as the last ten seconds are at each repeat.
              assert.ok(count(10_000) <= room(1) + floor * 10)
              if (share) byShare++
              else byFloor++
            } else {
              refused++
              if ((share || small) && !own.includes(true)) byClient++
            }
          }
          assert.ok(budget.past.length <= 41)
          const named = [...budget.past, budget.current].reduce((sum, slot) => sum + slot.repeats.size, 0)
          assert.ok(named <= count(11_000), 'no more names than repeats')
        }
      },
    ),
    { numRuns: 300, seed: 3 },
  )
  assert.ok(Math.min(byShare, byFloor, refused, byClient) > 100, `${byShare} ${byFloor} ${refused} ${byClient}`)
})
