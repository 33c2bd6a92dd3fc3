/**
 * Gives every reader what nobody meant to send, and holds what comes of it against another reader or a rule.
 *
 *   npm run fuzz                                 ten seconds of each target
 *   npm run fuzz -- --seconds 60 --only sse,json these, for a minute each
 *   npm run fuzz -- --seed 17                    from this seed on; without it, another every time
 *
 * What fails is made as small as it can be, shown with its seed and kept in tools/fuzz/corpus, which `npm run test:all` replays.
 */
import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { keep, runTarget } from './engine.ts'
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
  process.stderr.write('fuzz: --seconds is a number of seconds, --seed a whole number\n')
  process.exit(2)
}
const words = values.only.split(',').filter((word) => word !== '')
const say = (line: string) => process.stdout.write(`${line}\n`)

let cases = 0
let faults = 0
say(`seed ${seed}, ${seconds} s a target`)
for (const target of TARGETS) {
  if (words.length > 0 && !words.some((word) => target.name.includes(word))) continue
  const { cases: done, fault } = await runTarget(target, { seed, ms: seconds * 1_000 })
  cases += done
  say(`${fault ? '✗' : '✓'} ${target.name.padEnd(26)} ${String(done).padStart(8)} cases   ${target.holds}`)
  if (!fault) continue
  faults++
  say(`    seed ${fault.seed}, kept as ${keep(target.name, fault.input)}`)
  say(`    ${JSON.stringify(fault.input.toString('latin1')).slice(0, 600)}`)
  say(
    fault.error
      .split('\n')
      .slice(0, 14)
      .map((line) => `    ${line}`)
      .join('\n'),
  )
}
for (const { stop } of TARGETS) await stop?.()
say(`${cases} cases, ${faults} faults`)
process.exit(faults === 0 ? 0 : 1)
