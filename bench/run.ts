/**
 * Measures the gateway and nginx as a reverse proxy, and writes bench/RESULTS.md: `npm run bench`. Needs Linux with two
 * cores, Go (to build the load rig in bench/rig), nginx and taskset; it reports what is missing.
 *
 *   npm run bench                                   all rows, 5 rounds, less than 25 minutes
 *   npm run bench -- --only chat-1k,stream-20ms     only these rows; the page keeps the others
 *   npm run bench -- --quick                        one round as a check; writes nothing
 *   npm run bench -- --profile                      CPU profiles and flame graphs instead of figures
 *   npm run bench -- --page                         only writes the page, from earlier results
 *   npm run bench -- --main ../other/bin/headgate.mjs    measures another checkout; writes nothing
 *
 * Exits with 1 if a row could not be measured or had a wrong answer. A missed target is not an error.
 */
import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { measure, profile, WORKLOAD_NAMES } from './conduct.ts'
import { ROW_NAMES, type RowName, wrongs } from './figures.ts'
import { flame } from './flame.ts'
import { measured, type ProfileResult, type Result, table, verdicts, withMeasured } from './page.ts'
import { byArea, byFunction, type CpuProfile, fold } from './profile.ts'
import {
  commit,
  countsInstructions,
  MissingRequirement,
  machine,
  prepare,
  ROOT,
  stopAll,
  useProgram,
  versions,
} from './rig.ts'

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    only: { type: 'string' },
    quick: { type: 'boolean', default: false },
    profile: { type: 'boolean', default: false },
    page: { type: 'boolean', default: false },
    main: { type: 'string' },
  },
})

const PAGE = join(ROOT, 'bench', 'RESULTS.md')
const RESULTS = join(ROOT, 'bench', 'results')
const PROFILES = join(ROOT, 'bench', 'profiles')

const print = (line: string): void => void process.stdout.write(`${line}\n`)
const fail = (line: string): never => {
  process.stderr.write(`bench: ${line}\n`)
  process.exit(2)
}

const known = (name: string): RowName =>
  ROW_NAMES.find((row) => row === name) ?? fail(`unknown row ${name}; rows: ${ROW_NAMES.join(', ')}`)
const rows = values.only === undefined ? ROW_NAMES : values.only.split(',').map(known)
const rounds = values.quick ? 1 : Number(values.rounds)
if (!Number.isInteger(rounds) || rounds < 1) fail('--rounds must be a positive integer')
const bench = { rounds, quick: values.quick, print }
/** Results of a quick run or of another checkout are not stored. */
const isStored = !values.quick && values.main === undefined
if (values.main !== undefined) useProgram(join(process.cwd(), values.main))

const command = ['npm run bench', ...(process.argv.length > 2 ? ['--'] : []), ...process.argv.slice(2)].join(' ')
const run = () => ({
  at: `${new Date().toISOString().slice(0, 16)}Z`,
  commit: commit(),
  command,
  machine: machine(),
  versions: versions(),
})

// ── Stored results───────────────────────────────────────────────────────────────────────────────────────────────

/** Writes a line per member and per round, for readable diffs. */
const write = (file: string, value: object): void => {
  const text = (inner: unknown): string =>
    Array.isArray(inner)
      ? `[\n${inner.map((one) => `  ${JSON.stringify(one)}`).join(',\n')}\n ]`
      : JSON.stringify(inner)
  const lines = Object.entries(value).map(([name, inner]) => ` ${JSON.stringify(name)}: ${text(inner)}`)
  writeFileSync(file, `{\n${lines.join(',\n')}\n}\n`)
}

/** Reads files that `write` has written. */
const readAll = <T>(folder: string): readonly T[] =>
  globSync('*.json', { cwd: folder }).map((name) => JSON.parse(readFileSync(join(folder, name), 'utf8')) as T)

const writePage = (): void => {
  const part = measured(readAll<Result>(RESULTS), readAll<ProfileResult>(PROFILES))
  writeFileSync(PAGE, withMeasured(readFileSync(PAGE, 'utf8'), part))
  print('wrote bench/RESULTS.md')
}

// ── Running ──────────────────────────────────────────────────────────────────────────────────────────────────────

const measureRow = async (row: RowName): Promise<boolean> => {
  const outcome = await measure(bench, row)
  const result: Result = { ...run(), row, ...outcome }
  print(`\n${table(result)}\n`)
  if (isStored) write(join(RESULTS, `${row}.json`), result)
  const wrong = wrongs(outcome.rounds)
  if (wrong.length > 0) print(`${row} failed: ${wrong.join('; ')}`)
  return wrong.length === 0
}

const profileRow = async (row: (typeof WORKLOAD_NAMES)[number]): Promise<boolean> => {
  const { text, from, to } = await profile(bench, row)
  // Written by Node.
  const root = fold(JSON.parse(text) as CpuProfile, { from, to })
  const busyMs = Math.round(root.total / 1000)
  const result: ProfileResult = { ...run(), row, busyMs, top: byFunction(root, 10), areas: byArea(root) }
  for (const { name, place, percent } of result.top) print(`  ${percent.toFixed(1).padStart(5)} %  ${name}  ${place}`)
  if (!isStored) return true
  write(join(PROFILES, `${row}.json`), result)
  writeFileSync(join(PROFILES, `${row}.svg`), flame(root, `${row}: ${busyMs} ms CPU time, headgate ${result.commit}`))
  return true
}

const failed: string[] = []
const inOrder = async <T extends string>(names: readonly T[], each: (name: T) => Promise<boolean>): Promise<void> => {
  for (const name of names)
    try {
      if (!(await each(name))) failed.push(name)
    } catch (error) {
      if (error instanceof MissingRequirement) throw error
      failed.push(name)
      print(`${name} could not be measured: ${error instanceof Error ? error.message : error}`)
    } finally {
      await stopAll()
    }
}

for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.once(name, () => void stopAll().finally(() => process.exit(130)))

for (const folder of [RESULTS, PROFILES]) mkdirSync(folder, { recursive: true })
if (!values.page) {
  try {
    prepare()
    const { cpu, cores, kernel } = machine()
    print(`${cpu}, ${cores} cores, Linux ${kernel}; instruction counter ${countsInstructions() ? '' : 'not '}available`)
    if (values.profile)
      await inOrder(
        WORKLOAD_NAMES.filter((name) => rows.includes(name)),
        profileRow,
      )
    else await inOrder(rows, measureRow)
  } catch (error) {
    if (!(error instanceof MissingRequirement)) throw error
    await stopAll()
    fail(error.message)
  }
}
if (isStored) writePage()
const { met, of } = verdicts(readAll<Result>(RESULTS))
print(`${failed.length === 0 ? '' : `failed: ${failed.join(', ')}; `}${met} of ${of} targets met by the stored results`)
process.exit(failed.length === 0 ? 0 : 1)
