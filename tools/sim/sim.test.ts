/** A simulation of the routing code with 2,000 seeds, in `npm run test:long` with 100,000; `npm run sim` runs any number. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isLong } from '../../test/support/lane.ts'
import { missing, uneven } from './coverage.ts'
import { INVARIANTS, ruleOf } from './invariants.ts'
import { lastOf, runSeeds } from './many.ts'
import { MUTANTS } from './mutants.ts'
import { simulate } from './run.ts'
import kept from './seeds.json' with { type: 'json' }

const SEEDS = isLong ? 100_000 : 2_000

const explained = async (seed: number, invariant: keyof typeof INVARIANTS, what: string): Promise<string> =>
  `seed ${seed} breaks invariant ${invariant}: ${ruleOf(invariant)}\n${what}\n${(await lastOf(seed, 20)).join('\n')}\nSIM_SEED=${seed} npm run sim`

test(`sim: every invariant holds over ${SEEDS} seeds, and every required situation occurs`, async () => {
  const tally = await runSeeds(0, SEEDS)
  const [first] = tally.failed
  assert.ok(!first, first && (await explained(first.seed, first.breach.invariant, first.breach.what)))
  assert.deepEqual(uneven(tally), [])
  assert.deepEqual(missing(tally), [])
})

for (const { seed, showed } of kept)
  test(`sim: seed ${seed}, which once showed: ${showed}`, async () => {
    const { breach } = await simulate(seed)
    assert.ok(!breach, breach ? await explained(seed, breach.invariant, breach.what) : '')
  })

/** Maximum seeds until a fault is detected. */
const DETECTED_WITHIN = 200

for (const { name, breaks, mutant } of MUTANTS)
  test(`sim: detects that ${name}`, async () => {
    const found = new Map<number, string>()
    for (let seed = 0; seed < DETECTED_WITHIN && !breaks.some((number) => found.has(number)); seed += 16) {
      const twice = breaks.some((number) => number === 23 || number === 26)
      const { failed } = await runSeeds(seed, 16, mutant, twice ? 1 : 16)
      for (const { breach } of failed) found.set(breach.invariant, breach.what)
    }
    assert.ok(
      breaks.some((number) => found.has(number)),
      `none of ${breaks.join(', ')} broke, but ${JSON.stringify([...found])}`,
    )
  })

test('sim: every checked invariant has a fault that breaks it', () => {
  const broken = new Set(MUTANTS.flatMap(({ breaks }) => breaks))
  const unbroken = Object.entries(INVARIANTS).flatMap(([number, row]) =>
    'check' in row && ![...broken].some((one) => one === Number(number)) ? [Number(number)] : [],
  )
  // Shares are checked over all seeds together.
  assert.deepEqual(unbroken, [20])
})
