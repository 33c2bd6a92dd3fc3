/**
 * The row of starts, as bench/start.ts measures them. A process of its own: it moves itself to the core of the load, and
 * what it has started ends with it.
 */
import { isObject, list, parseJson } from '../src/core/json.ts'
import type { Outcome } from './conduct.ts'
import type { Sample } from './figures.ts'
import { collect } from './rig.ts'
import { measureStarts } from './start.ts'

/** ms for one start of each. */
const LONGEST = 60_000

export const startTimes = async (rounds: number, say: (line: string) => void): Promise<Outcome> => {
  const command = [process.execPath, import.meta.filename, String(rounds)]
  const { said, complaint } = await collect('start', command, (rounds + 2) * LONGEST)
  const starts = said === '' ? [] : list(parseJson(said)).filter(isObject)
  if (starts.length === 0) throw new Error(`bench/start.ts gave no times: ${complaint}`)
  const all = Array.from({ length: rounds }, (_, at) =>
    Object.fromEntries(
      starts.map(({ name, times }): [string, Sample] => {
        const time = list(times)[at]
        const wall = isObject(time) ? Number(time.wall) : Number.NaN
        return [String(name), { numbers: { start: Math.round(wall * 10) / 10 }, errors: {} }]
      }),
    ),
  )
  for (const { name } of starts)
    say(`start: ${name} ${all.map((round) => round[String(name)]?.numbers.start).join(', ')} ms`)
  return { rounds: all, notes: ['wall clock, which a busy machine makes longer and nothing makes shorter'] }
}

if (import.meta.main) process.stdout.write(JSON.stringify(await measureStarts(Number(process.argv[2]), () => {})))
