/** The routing core over a simulated world; `npm run sim` runs as many seeds more as one likes. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { missing, uneven } from './coverage.ts'
import { INVARIANTS, sentence } from './invariants.ts'
import { lastOf, runSeeds } from './many.ts'
import { MUTANTS } from './mutants.ts'
import { simulate } from './run.ts'
import kept from './seeds.json' with { type: 'json' }

const SEEDS = 2_000

const explained = async (seed: number, invariant: keyof typeof INVARIANTS, what: string): Promise<string> =>
  `seed ${seed} breaks invariant ${invariant}: ${sentence(invariant)}\n${what}\n${(await lastOf(seed, 20)).join('\n')}\nSIM_SEED=${seed} npm run sim`

test(`sim: every invariant holds over ${SEEDS} seeds, which see everything there is to be seen`, async () => {
  const tally = await runSeeds(0, SEEDS)
  const [first] = tally.failed
  assert.ok(!first, first && (await explained(first.seed, first.breach.invariant, first.breach.what)))
  assert.deepEqual(uneven(tally), [])
  assert.deepEqual(missing(tally), [])
})

for (const { seed, showed } of kept)
  test(`sim: seed ${seed}, which once showed that ${showed}`, async () => {
    const { breach } = await simulate(seed)
    assert.ok(!breach, breach ? await explained(seed, breach.invariant, breach.what) : '')
  })

/** Seeds within which a fault has to be noticed. */
const SOON = 200

for (const { name, breaks, mutant } of MUTANTS)
  test(`sim: it is noticed when ${name}`, async () => {
    const found = new Map<number, string>()
    for (let seed = 0; seed < SOON && !breaks.some((number) => found.has(number)); seed += 16) {
      const twice = breaks.some((number) => number === 23 || number === 26)
      const { failed } = await runSeeds(seed, 16, mutant, twice ? 1 : 16)
      for (const { breach } of failed) found.set(breach.invariant, breach.what)
    }
    assert.ok(
      breaks.some((number) => found.has(number)),
      `none of ${breaks.join(', ')} broke, but ${JSON.stringify([...found])}`,
    )
  })

test('sim: every invariant that can be looked at has a fault that breaks it, or says why not', () => {
  const broken = new Set(MUTANTS.flatMap(({ breaks }) => breaks))
  const unbroken = Object.entries(INVARIANTS).flatMap(([number, row]) =>
    'how' in row && ![...broken].some((one) => one === Number(number)) ? [Number(number)] : [],
  )
  // Shares are looked at over all seeds together.
  assert.deepEqual(unbroken, [20])
})
