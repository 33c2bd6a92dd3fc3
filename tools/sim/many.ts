/** Many seeds, one after another. */
import { count, noTally, type Tally } from './coverage.ts'
import { type Mutant, simulate } from './run.ts'

/** Every so many seeds one is run twice: once the same, and once without its jumps of the wall clock. */
const TWICE = 16

export const runSeeds = async (from: number, n: number, mutant: Mutant = {}, every = TWICE): Promise<Tally> => {
  const tally = noTally()
  const begun = process.cpuUsage()
  for (let seed = from; seed < from + n; seed++) {
    const result = await simulate(seed, { mutant })
    count(tally, result)
    if (result.breach || seed % every !== 0) continue
    const again = await simulate(seed, { mutant })
    const steady = await simulate(seed, { steady: true, mutant })
    const differs = (invariant: 23 | 26, what: string) =>
      tally.failed.push({ seed, breach: { invariant, at: 0, what } })
    if (again.hash !== result.hash) differs(26, 'a second run left another trace')
    else if (steady.hash !== result.hash) differs(23, 'without the jumps of its wall clock it leaves another trace')
    // Whoever shares the process gets a turn.
    await new Promise((resolve) => setImmediate(resolve))
  }
  const { user, system } = process.cpuUsage(begun)
  tally.busy = (user + system) / 1e6
  return tally
}

/** The last so many lines of a seed's trace. */
export const lastOf = async (seed: number, n: number): Promise<readonly string[]> => {
  const lines: string[] = []
  await simulate(seed, {
    trace: (line) => {
      lines.push(line)
      if (lines.length > 2 * n) lines.splice(0, n)
    },
  })
  return lines.slice(-n)
}
