/** What holds for leases after any sequence of questions, uses, lost answers, restarts and pauses. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { answered, askOf, freeOf, type HeldLease, newLease } from './held-lease.ts'
import { type LeasedSum, type LeaseKind, lease, newSum } from './lease.ts'

const LIMIT = 100
const MINUTE = 60_000
const NOTHING = { spent: 0, recorded: [], by: 'begin', quiet: 0 } as const

const step = fc.record({
  of: fc.nat(2),
  do: fc.constantFrom('ask', 'ask', 'ask', 'lose', 'hold', 'settle', 'return', 'pass', 'restart'),
  amount: fc.nat(LIMIT),
})

type Step = { readonly of: number; readonly do: string; readonly amount: number }

const given = (kind: LeaseKind) => {
  const counter = newSum('c', 0, NOTHING)
  const processes = [0, 1, 2].map(() => ({ held: newLease('c', kind), boot: 1 }))
  let now = 0
  /** Of a rate: what was used and has not come back. */
  let used = 0
  const run = ({ of, do: what, amount }: Step): void => {
    const one = processes[of]
    assert.ok(one)
    const { held } = one
    const free = Math.max(0, freeOf(held))
    const some = Math.min(amount, free)
    if (what === 'ask' || what === 'lose') {
      const refill = kind === 'rate' ? LIMIT / MINUTE : 0
      const terms = { limit: LIMIT, refill, need: amount % 7 === 0 ? 0 : amount, want: LIMIT, leaves: false }
      const ask = askOf(held, { ...terms, lapse: Number.POSITIVE_INFINITY, life: 1 })
      const recorded = kind === 'budget' ? [{ run: `${of}.${one.boot - 1}`, spent: 0 }] : []
      const seed = { ...NOTHING, recorded }
      const answer = lease(
        counter,
        { process: `${of}`, boot: one.boot, run: `${of}.${one.boot}` },
        { ...ask, seed },
        now,
      )
      if (what === 'ask') answered(held, ask, answer)
    } else if (what === 'hold' && kind !== 'rate') held.held += some
    else if (what === 'hold') {
      held.used += some
      used += some
    } else if (what === 'settle' && kind === 'budget') {
      const settled = Math.min(amount, held.held)
      held.held -= settled
      held.used += settled
      used += settled
    } else if (what === 'return') held.held -= Math.min(amount, held.held)
    else if (what === 'pass') {
      now += amount * 100
      if (kind === 'rate') used = Math.max(0, used - (amount * 100 * LIMIT) / MINUTE)
    } else if (what === 'restart' && kind !== 'rate') {
      // The store does not know what an ended process has used of a rate since its last question.
      one.boot++
      one.held = newLease('c', kind)
    }
  }
  return { counter, processes, run, used: () => used }
}

const heldOf = (held: HeldLease): number => Math.max(0, freeOf(held)) + held.held

const consistent = ({ sum, used, held, entries }: LeasedSum): void => {
  let [granted, reserved] = [used, 0]
  for (const one of entries.values()) {
    granted += one.granted - one.used
    reserved += one.held
  }
  assert.ok(Math.abs(granted - sum) < 1e-6, `${sum} is not ${granted}`)
  assert.equal(held, reserved)
}

for (const kind of ['slots', 'rate'] as const)
  test(`lease: ${kind} of all processes stay within the limit in any sequence`, () => {
    fc.assert(
      fc.property(fc.array(step, { minLength: 20, maxLength: 60 }), (steps) => {
        const { counter, processes, run, used } = given(kind)
        for (const one of steps) {
          run(one)
          consistent(counter)
          const committed = processes.reduce((sum, { held }) => sum + heldOf(held), used())

          assert.ok(committed <= LIMIT + 1e-6, `${committed}`)
        }
      }),
      { numRuns: 400 },
    )
  })

test('lease: a counter of a budget is what it has granted, in any sequence', () => {
  fc.assert(
    fc.property(fc.array(step, { minLength: 20, maxLength: 60 }), (steps) => {
      const { counter, processes, run } = given('budget')
      for (const one of steps) {
        run(one)
        consistent(counter)
        assert.ok(counter.sum <= LIMIT + 1e-6, `${counter.sum}`)
        for (const { held } of processes) assert.ok(heldOf(held) <= LIMIT, `${heldOf(held)}`)
      }
    }),
    { numRuns: 400 },
  )
})
