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
} from './attempt-admission.ts'
import { fullBucket, levelOf } from './token-bucket.ts'

const now = 1_000

const slot = (id: string, limit: number, live = 0): SlotCounter => ({ id, limit, live, lease: null })
const rate = (id: string, unit: RateCounter['unit'], perMinute: number): RateCounter => ({
  id,
  unit,
  perMinute,
  bucket: fullBucket(perMinute, now),
  lease: null,
})
const budget = (id: string, granted: number, more: Partial<BudgetCounter> = {}): BudgetCounter => ({
  id,
  lease: null,
  mode: 'hard',
  granted,
  used: 0,
  held: 0,
  isKnown: true,
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
  test(`admission: refuses if ${name}, and takes nothing`, () => {
    const state = counters(parts)
    const before = structuredClone(state)
    assert.deepEqual(reserve(state, demand, now), { admitted: false, refusal })
    assert.deepEqual(state, before)
  })

const admissions: readonly (readonly [name: string, counters: Partial<Counters>, demand: Demand])[] = [
  ['no limit applies', {}, first(1_000, 1_000)],
  ['the last of a budget is enough', { budgets: [budget('a', 100, { used: 40, held: 10 })] }, first(0, 50)],
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
  const state = counters({
    slots: [slot('team', 10, 3), slot('key', 2)],
    rates: [rate('key', 'requests', 60), rate('key', 'tokens', 6_000)],
    budgets: [budget('a', 1_000), budget('b', 2_000, { mode: 'soft' })],
  })
  const { hold } = admitted(reserve(state, first(500, 300), now))
  assert.deepEqual(hold, { tokens: 500, cost: 300 })
  const levels = ({ rates }: Counters) => rates.map(({ bucket, perMinute }) => levelOf(bucket, perMinute, now))
  const live = ({ slots }: Counters) => slots.map((one) => one.live)
  const money = ({ budgets }: Counters) => budgets.map(({ used, held }) => [used, held])
  assert.deepEqual(live(state), [4, 1])
  assert.deepEqual(levels(state), [59, 5_500])
  assert.deepEqual(money(state), [
    [0, 300],
    [0, 300],
  ])
  settle(state, hold, { tokens: 7_000, cost: 350 }, now)
  assert.deepEqual(levels(state), [59, -1_000])
  assert.deepEqual(money(state), [
    [350, 0],
    [350, 0],
  ])
  release(state)
  assert.deepEqual(live(state), [3, 0])
})

test('admission: an attempt without cost and tokens returns its reservation', () => {
  const state = counters({ rates: [rate('key', 'tokens', 600)], budgets: [budget('a', 100)] })
  const before = structuredClone(state)
  const { hold } = admitted(reserve(state, first(50, 40), now))
  assert.notDeepEqual(state, before)
  settle(state, hold, { tokens: 0, cost: 0 }, now)
  assert.deepEqual(state, before)
})

test('admission: an unknown cost charges the reservation', () => {
  const state = counters({ budgets: [budget('a', 100)] })
  const { hold } = admitted(reserve(state, first(0, 40), now))
  settle(state, hold, { tokens: 0, cost: null }, now)
  assert.deepEqual(state.budgets, [budget('a', 100, { used: 40 })])
})

test('admission: a soft budget is counted, reported when exceeded, and never refuses', () => {
  const soft = counters({ budgets: [budget('a', 100, { mode: 'soft' })] })
  const within = admitted(reserve(soft, first(0, 100), now))
  assert.deepEqual(within.exceeded, [])
  const beyond = admitted(reserve(soft, first(0, 1), now))
  assert.deepEqual(beyond.exceeded, ['a'])
  assert.equal(soft.budgets[0]?.held, 101)
})

test('admission: a stream raises its reservation until a hard budget refuses', () => {
  const counter = budget('a', 100)
  const state = counters({ budgets: [counter] })
  const start = admitted(reserve(state, first(10, 30), now))
  const raised = admitted(extend(state, start.hold, 30))
  assert.deepEqual(raised.hold, { tokens: 10, cost: 60 })
  assert.equal(counter.held, 60)
  assert.deepEqual(extend(state, raised.hold, 60), { admitted: false, refusal: { why: 'budget', id: 'a' } })
  assert.equal(counter.held, 60)
  settle(state, raised.hold, { tokens: 10, cost: 70 }, now)
  assert.equal(remainingOf(counter), 30)
})

test('admission: the remaining amount is never negative', () => {
  assert.equal(remainingOf(budget('a', 100, { used: 60, held: 30 })), 10)
  assert.equal(remainingOf(budget('a', 100, { used: 90, held: 30 })), 0)
})

test('admission: counters stay exact at the limit of an amount', () => {
  const soft = counters({ budgets: [budget('a', 1, { mode: 'soft', used: MAX_NANO })] })
  const { hold } = admitted(reserve(soft, first(0, 5), now))
  settle(soft, hold, { tokens: 0, cost: 5 }, now)
  assert.equal(soft.budgets[0]?.used, MAX_NANO)
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

const setUp = (): Counters =>
  counters({
    slots: [slot('team', 5), slot('key', 3)],
    rates: [rate('key', 'requests', 50), rate('team', 'tokens', 5_000)],
    budgets: [budget('day', 2_000), budget('month', 3_000), budget('soft', 100, { mode: 'soft' })],
  })

/** Each step ends the attempt of a request if it has one, else begins an attempt, else ends the request. */
const run = (all: readonly Step[], check: (counters: Counters) => void) => {
  const state = setUp()
  let clock = now
  const open = new Map<number, { hold: Hold; charge: Charge } | null>()
  const total = { charged: 0, admitted: 0, refused: 0 }
  const settleOne = (request: number, { hold, charge }: { hold: Hold; charge: Charge }) => {
    settle(state, hold, charge, clock)
    total.charged += charge.cost ?? hold.cost
    open.set(request, null)
  }
  for (const { request, tokens, cost, percent } of all) {
    clock += 500
    const attempt = open.get(request)
    if (attempt) settleOne(request, attempt)
    else if (attempt === null && percent < 30) {
      release(state)
      open.delete(request)
    } else {
      const before = structuredClone(state)
      const admission = reserve(state, { first: attempt === undefined, tokens, cost }, clock)
      if (!admission.admitted) assert.deepEqual(state, before)
      if (admission.admitted) {
        total.admitted++
        const part = (amount: number) => Math.round((amount * percent) / 100)
        open.set(request, { hold: admission.hold, charge: { tokens: part(tokens), cost: part(cost) } })
      } else total.refused++
    }
    check(state)
  }
  for (const [request, attempt] of open) {
    if (attempt) settleOne(request, attempt)
    release(state)
  }
  return { state, total }
}

test('admission: at rest nothing is held and the charges are what was used', () => {
  fc.assert(
    fc.property(steps(150), (all) => {
      const { state, total } = run(all, () => {})
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
    fc.property(steps(100), (all) => {
      const { total } = run(all, ({ budgets, slots }) => {
        for (const { mode, used, held, granted } of budgets) if (mode === 'hard') assert.ok(used + held <= granted)
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
      run(all, ({ budgets }) => {
        for (const { mode, used, held, granted } of budgets)
          if (mode === 'hard') assert.ok(used + held <= granted + excess)
      })
    }),
    { numRuns: 200 },
  )
})
