import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { MAX_NANO } from '../../core/money.ts'
import {
  type AttemptAdmission,
  type BudgetCounter,
  type Charge,
  type Counters,
  type Demand,
  extend,
  type Hold,
  type LimitRefusal,
  type RateCounter,
  release,
  remainingOf,
  reserve,
  type SlotCounter,
  settle,
} from './admission.ts'
import { fullBucket, levelOf } from './token-bucket.ts'

const now = 1_000

const slot = (id: string, limit: number, live = 0): SlotCounter => ({ id, limit, live })
const rate = (id: string, unit: RateCounter['unit'], perMinute: number): RateCounter => ({
  ...{ id, unit, perMinute },
  bucket: fullBucket(perMinute, now),
})
const budget = (id: string, granted: number, more: Partial<BudgetCounter> = {}): BudgetCounter => ({
  ...{ id, mode: 'hard', granted, overdraft: 0, used: 0, held: 0 },
  ...more,
})
const counters = (parts: Partial<Counters>): Counters => ({ slots: [], rates: [], budgets: [], ...parts })
const first = (tokens = 0, cost = 0): Demand => ({ first: true, tokens, cost })
const further = (tokens = 0, cost = 0): Demand => ({ first: false, tokens, cost })

const admitted = (admission: AttemptAdmission) => {
  assert.ok(admission.admitted, JSON.stringify(admission))
  return admission
}

const refusals: readonly (readonly [
  name: string,
  counters: Partial<Counters>,
  demand: Demand,
  refusal: LimitRefusal,
])[] = [
  ['every slot is in use', { slots: [slot('team', 9), slot('key', 2, 2)] }, first(), { why: 'concurrent', id: 'key' }],
  ['no slot is allowed', { slots: [slot('key', 0)] }, first(), { why: 'concurrent', id: 'key' }],
  [
    'the rate of requests is 0',
    { rates: [rate('key', 'requests', 0)] },
    first(),
    { why: 'requests', id: 'key', retryAfter: Number.POSITIVE_INFINITY },
  ],
  [
    'the longest wait counts, whichever rate comes first',
    {
      rates: [
        { ...rate('key', 'requests', 60), bucket: { level: 0, at: now } },
        { ...rate('team', 'tokens', 600), bucket: { level: 0, at: now } },
      ],
    },
    first(100),
    { why: 'tokens', id: 'team', retryAfter: 10_000 },
  ],
  [
    'the longest wait counts, if it comes first',
    {
      rates: [
        { ...rate('team', 'tokens', 600), bucket: { level: 0, at: now } },
        { ...rate('key', 'requests', 60), bucket: { level: 0, at: now } },
      ],
    },
    first(100),
    { why: 'tokens', id: 'team', retryAfter: 10_000 },
  ],
  [
    'a budget is used up',
    { budgets: [budget('a', 1_000), budget('b', 500, { used: 400, held: 50 })] },
    first(0, 51),
    { why: 'budget', id: 'b' },
  ],
  [
    'the overdraft is used up',
    { budgets: [budget('a', 100, { overdraft: 10 })] },
    further(0, 111),
    { why: 'budget', id: 'a' },
  ],
  [
    'a budget was lowered below its use',
    { budgets: [budget('a', 10, { used: 20 })] },
    first(),
    { why: 'budget', id: 'a' },
  ],
  [
    'limits are checked before budgets',
    { slots: [slot('key', 1, 1)], rates: [rate('key', 'requests', 0)], budgets: [budget('a', 0, { used: 1 })] },
    first(),
    { why: 'concurrent', id: 'key' },
  ],
]
for (const [name, parts, demand, refusal] of refusals)
  test(`admission: refuses if ${name}`, () =>
    assert.deepEqual(reserve(counters(parts), demand, now), { admitted: false, refusal }))

const admissions: readonly (readonly [name: string, counters: Partial<Counters>, demand: Demand])[] = [
  ['no limit applies', {}, first(1_000, 1_000)],
  ['the last of a budget is enough', { budgets: [budget('a', 100, { used: 40, held: 10 })] }, first(0, 50)],
  ['the overdraft is enough', { budgets: [budget('a', 100, { overdraft: 10 })] }, first(0, 110)],
  [
    'a further attempt needs no slot and no request',
    { slots: [slot('key', 1, 1)], rates: [rate('key', 'requests', 0)] },
    further(),
  ],
  [
    'nothing is needed from an empty bucket',
    { rates: [{ ...rate('key', 'tokens', 60), bucket: { level: -5, at: now } }] },
    first(),
  ],
]
for (const [name, parts, demand] of admissions)
  test(`admission: admits if ${name}`, () => assert.equal(reserve(counters(parts), demand, now).admitted, true))

test('admission: takes from every counter, settles the difference, and frees the slots at the end', () => {
  const before = counters({
    slots: [slot('team', 10, 3), slot('key', 2)],
    rates: [rate('key', 'requests', 60), rate('key', 'tokens', 6_000)],
    budgets: [budget('a', 1_000), budget('b', 2_000, { mode: 'soft' })],
  })
  const admission = admitted(reserve(before, first(500, 300), now))
  assert.deepEqual(admission.hold, { tokens: 500, cost: 300 })
  const levels = ({ rates }: Counters) => rates.map(({ bucket, perMinute }) => levelOf(bucket, perMinute, now))
  const live = ({ slots }: Counters) => slots.map((one) => one.live)
  const money = ({ budgets }: Counters) => budgets.map(({ used, held }) => [used, held])
  assert.deepEqual(live(admission.counters), [4, 1])
  assert.deepEqual(levels(admission.counters), [59, 5_500])
  assert.deepEqual(money(admission.counters), [
    [0, 300],
    [0, 300],
  ])
  const settled = settle(admission.counters, admission.hold, { tokens: 7_000, cost: 350 }, now)
  assert.deepEqual(levels(settled), [59, -1_000])
  assert.deepEqual(money(settled), [
    [350, 0],
    [350, 0],
  ])
  assert.deepEqual(live(release(settled)), [3, 0])
  // The states that were passed are unchanged.
  assert.deepEqual(money(before), [
    [0, 0],
    [0, 0],
  ])
})

test('admission: an attempt without cost and tokens returns its reservation', () => {
  const before = counters({ rates: [rate('key', 'tokens', 600)], budgets: [budget('a', 100)] })
  const { hold, counters: after } = admitted(reserve(before, first(50, 40), now))
  assert.deepEqual(settle(after, hold, { tokens: 0, cost: 0 }, now), before)
})

test('admission: an unknown cost charges the reservation', () => {
  const { hold, counters: after } = admitted(reserve(counters({ budgets: [budget('a', 100)] }), first(0, 40), now))
  const [settled] = settle(after, hold, { tokens: 0, cost: null }, now).budgets
  assert.deepEqual(settled, budget('a', 100, { used: 40 }))
})

test('admission: a soft budget is counted, reported when exceeded, and never refuses', () => {
  const soft = counters({ budgets: [budget('a', 100, { mode: 'soft' })] })
  const within = admitted(reserve(soft, first(0, 100), now))
  assert.deepEqual(within.exceeded, [])
  const beyond = admitted(reserve(within.counters, first(0, 1), now))
  assert.deepEqual(beyond.exceeded, ['a'])
  assert.equal(beyond.counters.budgets[0]?.held, 101)
})

test('admission: a stream raises its reservation until a hard budget refuses', () => {
  const start = admitted(reserve(counters({ budgets: [budget('a', 100)] }), first(10, 30), now))
  const raised = admitted(extend(start.counters, start.hold, 30))
  assert.deepEqual(raised.hold, { tokens: 10, cost: 60 })
  assert.equal(raised.counters.budgets[0]?.held, 60)
  assert.deepEqual(extend(raised.counters, raised.hold, 60), {
    admitted: false,
    refusal: { why: 'budget', id: 'a' },
  })
  assert.equal(
    remainingOf(settle(raised.counters, raised.hold, { tokens: 10, cost: 70 }, now).budgets[0] ?? budget('', 0)),
    30,
  )
})

test('admission: the remaining amount is never negative', () => {
  assert.equal(remainingOf(budget('a', 100, { used: 60, held: 30 })), 10)
  assert.equal(remainingOf(budget('a', 100, { used: 90, held: 30 })), 0)
})

test('admission: counters stay exact at the limit of an amount', () => {
  const soft = counters({ budgets: [budget('a', 1, { mode: 'soft', used: MAX_NANO })] })
  const { counters: after, hold } = admitted(reserve(soft, first(0, 5), now))
  assert.equal(settle(after, hold, { tokens: 0, cost: 5 }, now).budgets[0]?.used, MAX_NANO)
})

// ── Generated requests ──────────────────────────────────────────────────────────────────────────────────────────

/** One request: attempts with their demand and charge in percent of it, in steps that interleave with other requests. */
type Step = { readonly request: number; readonly tokens: number; readonly cost: number; readonly percent: number }

const steps = (maxPercent: number) =>
  fc.array(
    fc.record<Step>({
      request: fc.nat(5),
      tokens: fc.nat(400),
      cost: fc.nat(300),
      percent: fc.integer({ min: 0, max: maxPercent }),
    }),
    { maxLength: 200, size: 'max' },
  )

const setUp = (overdraft: number): Counters =>
  counters({
    slots: [slot('team', 5), slot('key', 3)],
    rates: [rate('key', 'requests', 50), rate('team', 'tokens', 5_000)],
    budgets: [budget('day', 2_000, { overdraft }), budget('month', 3_000), budget('soft', 100, { mode: 'soft' })],
  })

/** Each step ends the attempt of a request if it has one, else begins an attempt, else ends the request. */
const run = (all: readonly Step[], overdraft: number, check: (counters: Counters) => void) => {
  let state = setUp(overdraft)
  let clock = now
  const open = new Map<number, { hold: Hold; charge: Charge } | null>()
  const total = { charged: 0, admitted: 0, refused: 0 }
  const settleOne = (request: number, { hold, charge }: { hold: Hold; charge: Charge }) => {
    state = settle(state, hold, charge, clock)
    total.charged += charge.cost ?? hold.cost
    open.set(request, null)
  }
  for (const { request, tokens, cost, percent } of all) {
    clock += 500
    const attempt = open.get(request)
    if (attempt) settleOne(request, attempt)
    else if (attempt === null && percent < 30) {
      state = release(state)
      open.delete(request)
    } else {
      const before = structuredClone(state)
      const admission = reserve(state, { first: attempt === undefined, tokens, cost }, clock)
      assert.deepEqual(state, before)
      if (admission.admitted) {
        total.admitted++
        state = admission.counters
        const part = (amount: number) => Math.round((amount * percent) / 100)
        open.set(request, { hold: admission.hold, charge: { tokens: part(tokens), cost: part(cost) } })
      } else total.refused++
    }
    check(state)
  }
  for (const [request, attempt] of open) {
    if (attempt) settleOne(request, attempt)
    state = release(state)
  }
  return { state, total }
}

test('admission: at rest nothing is held and the charges are what was used', () => {
  fc.assert(
    fc.property(steps(150), fc.nat(200), (all, overdraft) => {
      const { state, total } = run(all, overdraft, () => {})
      assert.deepEqual(
        state.budgets.map(({ held, used }) => [held, used]),
        state.budgets.map(() => [0, total.charged]),
      )
      assert.deepEqual(
        state.slots.map(({ live }) => live),
        [0, 0],
      )
    }),
    { numRuns: 200 },
  )
})

test('admission: hard budgets and slots are never exceeded while charges are within reservations', () => {
  let refused = 0
  fc.assert(
    fc.property(steps(100), fc.nat(200), (all, overdraft) => {
      const { total } = run(all, overdraft, ({ budgets, slots }) => {
        for (const { mode, used, held, granted, ...one } of budgets)
          if (mode === 'hard') assert.ok(used + held <= granted + one.overdraft)
        for (const { live, limit } of slots) assert.ok(live >= 0 && live <= limit)
      })
      refused += total.refused
    }),
    { numRuns: 200 },
  )
  assert.ok(refused > 0)
})

test('admission: a hard budget is exceeded at most by what attempts cost beyond their reservations', () => {
  fc.assert(
    fc.property(steps(200), (all) => {
      const excess = all.reduce(
        (sum, { cost, percent }) => sum + Math.max(0, Math.round((cost * percent) / 100) - cost),
        0,
      )
      run(all, 0, ({ budgets }) => {
        for (const { mode, used, held, granted } of budgets)
          if (mode === 'hard') assert.ok(used + held <= granted + excess)
      })
    }),
    { numRuns: 200 },
  )
})
