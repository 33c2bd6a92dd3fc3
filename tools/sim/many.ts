/** Runs many seeds one after the other. */
import { count, emptyTally, type Tally } from './coverage.ts'
import { type Mutant, simulate } from './run.ts'

/** One seed in this many is repeated: once unchanged, and once without jumps of the wall clock. */
const REPEAT_EVERY = 16

export const runSeeds = async (from: number, n: number, mutant: Mutant = {}, every = REPEAT_EVERY): Promise<Tally> => {
  const tally = emptyTally()
  const started = process.cpuUsage()
  for (let seed = from; seed < from + n; seed++) {
    const result = await simulate(seed, { mutant })
    count(tally, result)
    if (result.breach || seed % every !== 0) continue
    const again = await simulate(seed, { mutant })
    const steady = await simulate(seed, { steady: true, mutant })
    const differs = (invariant: 23 | 26, what: string) =>
      tally.failed.push({ seed, breach: { invariant, at: 0, what } })
    if (again.hash !== result.hash) differs(26, 'a second run produced a different trace')
    else if (steady.hash !== result.hash) differs(23, 'without jumps of the wall clock the trace differs')
    // Yields to other tasks of the process.
    await new Promise((resolve) => setImmediate(resolve))
  }
  const { user, system } = process.cpuUsage(started)
  tally.busy = (user + system) / 1e6
  return tally
}

/** The last `n` lines of a seed's trace. */
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
