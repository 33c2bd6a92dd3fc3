/**
 * Runs the routing code in a simulated world and checks every invariant after every event.
 *
 *   npm run sim                                  2,000 seeds
 *   npm run sim -- --seeds 100000 --jobs 2       100,000 seeds in two processes
 *   npm run sim -- --seeds 5000 --from 100000    5,000 seeds from 100,000
 *   SIM_SEED=17 npm run sim                      one seed, with every event
 *
 * Exits with 1 if an invariant broke, a seed was not repeatable, or a required situation did not occur.
 */
import { spawn } from 'node:child_process'
import { parseArgs } from 'node:util'
import { emptyTally, missing, SOMETIMES, sum, type Tally, uneven } from './coverage.ts'
import { INVARIANTS, ruleOf } from './invariants.ts'
import { lastOf, runSeeds } from './many.ts'
import { simulate } from './run.ts'

/** With fewer seeds a rare situation may be missing by chance. */
const ENOUGH = 20_000

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '2000' },
    from: { type: 'string', default: '0' },
    jobs: { type: 'string', default: '1' },
    part: { type: 'boolean', default: false },
    coverage: { type: 'boolean', default: false },
  },
})
const [seeds, from, jobs] = [values.seeds, values.from, values.jobs].map((text) => {
  const figure = Number(text)
  if (!Number.isSafeInteger(figure) || figure < 0) throw new Error(`${text} is not a non-negative integer`)
  return figure
}) as [number, number, number] // Three values are mapped.
const print = (line = '') => process.stdout.write(`${line}\n`)

const replay = async (seed: number): Promise<void> => {
  const { breach, hash, requests, attempts } = await simulate(seed, { trace: print })
  const again = await simulate(seed)
  print(`\nseed ${seed}: ${requests} requests, ${attempts} attempts, trace ${hash.toString(16)}`)
  if (again.hash !== hash) print(`a second run produced a different trace: ${again.hash.toString(16)}`)
  if (breach)
    print(`invariant ${breach.invariant} at ${breach.at.toFixed(1)} ms: ${ruleOf(breach.invariant)}\n  ${breach.what}`)
  process.exitCode = breach || again.hash !== hash ? 1 : 0
}

/** Runs some of the seeds in a child process, which prints its tally. */
const inProcess = (first: number, n: number): Promise<Tally> =>
  new Promise((resolve, reject) => {
    const child = spawn(
      process.execPath,
      // Most objects live for one event: a larger young generation saves a tenth of the time.
      ['--max-semi-space-size=64', import.meta.filename, '--part', '--seeds', String(n), '--from', String(first)],
      {
        stdio: ['ignore', 'pipe', 'inherit'],
      },
    )
    let text = ''
    child.stdout.setEncoding('utf8').on('data', (piece: string) => {
      text += piece
    })
    child.on('error', reject)
    child.on('close', (code) => {
      if (code !== 0) return reject(new Error(`a child process exited with ${code}`))
      // Written by this program.
      resolve(JSON.parse(text) as Tally)
    })
  })

const report = async (tally: Tally, seconds: number): Promise<void> => {
  const rate = tally.seeds / seconds
  const perProcessor = tally.seeds / tally.busy
  print(
    `${tally.seeds} seeds in ${seconds.toFixed(1)} s: ${rate.toFixed(0)} per second, ${perProcessor.toFixed(0)} per processor second`,
  )
  print(
    `estimate for a million seeds: ${(1e6 / rate / 60).toFixed(0)} min, ${(1e6 / perProcessor / 60).toFixed(0)} min of processor time`,
  )
  print(`${tally.requests} requests, ${tally.attempts} attempts, ${tally.events} events`)
  const absent = missing(tally)
  print(`${SOMETIMES.length - absent.length} of ${SOMETIMES.length} required situations occurred`)
  if (values.coverage)
    for (const [what, times] of Object.entries(tally.seen).sort())
      print(`  ${what.padEnd(44)} ${String(times).padStart(8)} seeds`)
  for (const what of absent) print(`  missing: ${what}`)
  for (const what of uneven(tally)) print(`invariant 20: ${what}`)
  for (const [number, row] of Object.entries(INVARIANTS))
    if ('unchecked' in row) print(`invariant ${number} is not checked: ${row.unchecked}`)
  for (const { seed, breach } of tally.failed.slice(0, 10)) {
    print(`\nseed ${seed} breaks invariant ${breach.invariant}: ${ruleOf(breach.invariant)}\n  ${breach.what}`)
    for (const line of await lastOf(seed, 15)) print(`  ${line.slice(0, 200)}`)
    print(`  SIM_SEED=${seed} npm run sim`)
  }
  if (tally.failed.length > 10) print(`\n… and ${tally.failed.length - 10} more`)
  const bad = tally.failed.length > 0 || uneven(tally).length > 0 || (tally.seeds >= ENOUGH && absent.length > 0)
  print(bad ? '\nfailed' : '\nall checked invariants held')
  process.exitCode = bad ? 1 : 0
}

const replayedSeed = process.env.SIM_SEED
if (replayedSeed !== undefined && replayedSeed !== '') await replay(Number(replayedSeed))
else if (values.part) process.stdout.write(JSON.stringify(await runSeeds(from, seeds)))
else {
  const started = performance.now()
  const share = Math.ceil(seeds / Math.max(1, jobs))
  const parts = Array.from({ length: Math.max(1, jobs) }, (_, at) => ({
    first: from + at * share,
    n: Math.max(0, Math.min(share, seeds - at * share)),
  }))
  const tallies =
    jobs > 1 ? await Promise.all(parts.map(({ first, n }) => inProcess(first, n))) : [await runSeeds(from, seeds)]
  await report(sum([emptyTally(), ...tallies]), (performance.now() - started) / 1_000)
}
