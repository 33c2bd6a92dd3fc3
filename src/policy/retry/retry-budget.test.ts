import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type BudgetRules, countFirst, emptyBudget, type RetryBudget, requestRepeat } from './retry-budget.ts'

const start = 1_000_000

/** `count` first attempts, spread evenly over `over` ms. */
type FirstAttempts = { readonly count: number; readonly over: number }

/** Returns how many repeats are allowed `at` ms after the start. */
const allowedAfter = (firsts: FirstAttempts, at: number, rules: BudgetRules, client = ''): number => {
  let budget = emptyBudget
  for (let n = 0; n < firsts.count; n++) budget = countFirst(budget, start + (n * firsts.over) / firsts.count)
  let allowed = 0
  for (; allowed < 10_000; allowed++) {
    const answer = requestRepeat(budget, start + at, client, rules)
    budget = answer.state
    if (!answer.allowed) break
  }
  return allowed
}

const cases: readonly [name: string, firsts: number, over: number, at: number, percent: number, allowed: number][] = [
  ['no first attempts: the floor', 0, 1, 0, 20, 3],
  ['few requests: the floor', 10, 1_000, 1_000, 20, 3],
  ['20 % of a hundred', 100, 5_000, 5_000, 20, 20],
  ['20 % of a thousand', 1_000, 9_000, 9_000, 20, 200],
  ['50 %', 100, 5_000, 5_000, 50, 50],
  ['0 %: the floor', 100, 5_000, 5_000, 0, 3],
  ['100 %', 100, 5_000, 5_000, 100, 100],
  ['first attempts more than ten seconds ago', 1_000, 1_000, 12_000, 20, 3],
]
for (const [name, count, over, at, percent, allowed] of cases)
  test(`budget: ${name}`, () => assert.equal(allowedAfter({ count, over }, at, { percent, floor: 3 }), allowed))

const floors: readonly (readonly [floor: number, client: string, firsts: number, allowed: number])[] = [
  [0, '', 0, 0],
  [0, '', 100, 20],
  [1, '', 0, 1],
  [10, '', 0, 10],
  [10, '', 10, 10],
  // One client: half of the share, and half of the floor, rounded up.
  [0, 'a', 100, 10],
  [1, 'a', 0, 1],
  [3, 'a', 0, 2],
  [3, 'a', 100, 10],
  [4, 'a', 0, 2],
]
for (const [floor, client, firsts, allowed] of floors)
  test(`budget: a floor of ${floor}, ${firsts} first attempts, ${client === '' ? 'all clients' : 'one client'}`, () =>
    assert.equal(allowedAfter({ count: firsts, over: 5_000 }, 5_000, { percent: 20, floor }, client), allowed))

const rules = { percent: 20, floor: 3 }

/** Requests repeats at one time until one is refused. Returns how many were allowed. */
const drain = (budget: RetryBudget, at: number, client: string): readonly [RetryBudget, number] => {
  for (let granted = 0; ; granted++) {
    const { state, allowed } = requestRepeat(budget, at, client, rules)
    budget = state
    if (!allowed) return [budget, granted]
  }
}

test('budget: one client gets half, and all clients together get the whole', () => {
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

test('budget: the repeats of a client count for ten seconds', () => {
  let budget = emptyBudget
  for (let n = 0; n < 100; n++) budget = countFirst(budget, start)
  budget = drain(budget, start, 'a')[0]
  assert.equal(drain(budget, start + 9_900, 'a')[1], 2, 'its part of the floor, because the last second had no repeats')
  for (let n = 0; n < 100; n++) budget = countFirst(budget, start + 9_900)
  assert.equal(drain(budget, start + 10_500, 'a')[1], 10)
})

test('budget: after a burst the floor adds at most ten seconds of repeats', () => {
  let budget = emptyBudget
  for (let n = 0; n < 1_000; n++) budget = countFirst(budget, start)
  budget = drain(budget, start + 9_000, '')[0]
  // The first attempts no longer count, the 200 repeats still do.
  assert.equal(drain(budget, start + 12_000, '')[1], 0)
  assert.equal(drain(budget, start + 19_500, '')[1], 3)
})

for (const [firsts, later] of [
  [45, 1],
  [50, 0],
] as const)
  test(`budget: a floor of one allows ${later} more after ${firsts / 5} repeats`, () => {
    let budget = emptyBudget
    for (let n = 0; n < firsts; n++) budget = countFirst(budget, start)
    for (let n = 0; n < firsts / 5; n++)
      budget = requestRepeat(budget, start + 9_000, '', { percent: 20, floor: 0 }).state
    assert.equal(requestRepeat(budget, start + 12_000, '', { percent: 20, floor: 1 }).allowed, later === 1)
  })

test('budget: the initial state allows no share', () => {
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
  assert.ok(granted.length >= 20, 'close to 30 in ten seconds')
})

test('budget: a refusal is not counted', () => {
  let budget = emptyBudget
  for (let n = 0; n < 3; n++) budget = requestRepeat(budget, start, '', rules).state
  const refused = requestRepeat(budget, start, '', rules)
  assert.equal(refused.allowed, false)
  assert.deepEqual(refused.state, budget)
})

test('budget: for any history repeats stay within share and floor, also per client, and the state stays small', () => {
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
          /** The exact rule: [within the share, within share and floor]. */
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
              assert.ok(share || small, 'allowed against the rule')
              assert.ok(own.includes(true), 'allowed beyond the half of one client')
              repeats.push({ at: now, client })
              // The bound on retry amplification, at each repeat.
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
          assert.ok(named <= count(11_000), 'at most as many clients as repeats')
        }
      },
    ),
    { numRuns: 300, seed: 3 },
  )
  assert.ok(Math.min(byShare, byFloor, refused, byClient) > 100, `${byShare} ${byFloor} ${refused} ${byClient}`)
})
