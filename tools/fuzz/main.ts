/**
 * Fuzzes every parser: sends random and mutated input, and compares the result with another parser or a rule.
 *
 *   npm run fuzz                                   ten seconds per target
 *   npm run fuzz -- --seconds 60 --only sse,json   these targets, a minute each
 *   npm run fuzz -- --seed 17                      starts with this seed; the default is random
 *
 * A failing input is minimised, printed with its seed and stored in tools/fuzz/corpus, which `npm run test:all` replays.
 */
import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { runTarget, store } from './engine.ts'
import { TARGETS } from './targets.ts'

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '10' },
    only: { type: 'string', default: '' },
    seed: { type: 'string' },
  },
})
const seconds = Number(values.seconds)
const seed = values.seed === undefined ? randomInt(1_000_000_000) : Number(values.seed)
if (!(seconds > 0) || !Number.isSafeInteger(seed)) {
  process.stderr.write('fuzz: --seconds must be a positive number, --seed an integer\n')
  process.exit(2)
}
const words = values.only.split(',').filter((word) => word !== '')
const print = (line: string) => process.stdout.write(`${line}\n`)

let cases = 0
let faults = 0
print(`seed ${seed}, ${seconds} s per target`)
for (const target of TARGETS) {
  if (words.length > 0 && !words.some((word) => target.name.includes(word))) continue
  const { cases: done, fault } = await runTarget(target, { seed, ms: seconds * 1_000 })
  cases += done
  print(`${fault ? '✗' : '✓'} ${target.name.padEnd(26)} ${String(done).padStart(8)} cases   ${target.property}`)
  if (!fault) continue
  faults++
  print(`    seed ${fault.seed}, stored as ${store(target.name, fault.input)}`)
  print(`    ${JSON.stringify(fault.input.toString('latin1')).slice(0, 600)}`)
  print(
    fault.error
      .split('\n')
      .slice(0, 14)
      .map((line) => `    ${line}`)
      .join('\n'),
  )
}
for (const { stop } of TARGETS) await stop?.()
print(`${cases} cases, ${faults} faults`)
process.exit(faults === 0 ? 0 : 1)
