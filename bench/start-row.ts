/**
 * Measures the row of start times with bench/start.ts, in a separate process: it moves itself to the core of the load, and
 * its children end with it.
 */
import { isObject, list, parseJson } from '../src/core/json.ts'
import type { RowOutcome, Sample } from './figures.ts'
import { collect } from './rig.ts'
import { measureStarts } from './start.ts'

/** Maximum ms for one start of each contestant. */
const TIMEOUT = 60_000

export const startTimes = async (rounds: number, print: (line: string) => void): Promise<RowOutcome> => {
  const command = [process.execPath, import.meta.filename, String(rounds)]
  const { output, problem } = await collect('start', command, (rounds + 2) * TIMEOUT)
  const starts = output === '' ? [] : list(parseJson(output)).filter(isObject)
  if (starts.length === 0) throw new Error(`bench/start.ts gave no times: ${problem}`)
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
    print(`start: ${name} ${all.map((round) => round[String(name)]?.numbers.start).join(', ')} ms`)
  return { rounds: all, notes: ['wall-clock time; other load makes it longer, never shorter'] }
}

if (import.meta.main) process.stdout.write(JSON.stringify(await measureStarts(Number(process.argv[2]), () => {})))
