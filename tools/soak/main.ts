/**
 * Runs streams under faults for hours. Exits with 1 if a response is lost or a sampled value grows.
 *
 *   npm run soak -- --minutes 60 --streams 200 --out soak.json
 *
 * Further options: `--percent 5` of each fault, `--gap 100` ms between events, `--every 10` s between samples.
 */
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { soak } from './soak.ts'

const text = { type: 'string' } as const
const { values } = parseArgs({
  options: {
    minutes: { ...text, default: '60' },
    streams: { ...text, default: '200' },
    percent: { ...text, default: '5' },
    gap: { ...text, default: '100' },
    every: { ...text, default: '10' },
    out: text,
  },
})
const number = (name: 'minutes' | 'streams' | 'percent' | 'gap' | 'every'): number => {
  const value = Number(values[name])
  if (value > 0) return value
  process.stderr.write(`--${name} must be a positive number\n`)
  process.exit(2)
}

const summary = await soak({
  minutes: number('minutes'),
  streams: number('streams'),
  percent: number('percent'),
  gap: number('gap'),
  every: number('every'),
  print: (line) => process.stdout.write(`${line}\n`),
})
const json = JSON.stringify(summary, null, 2)
if (values.out !== undefined) writeFileSync(values.out, `${json}\n`)
process.stdout.write(`${json}\n`)
process.exit(summary.problems.length === 0 ? 0 : 1)
