/**
 * Runs the checks and tests of a lane; the last line is their counts.
 *
 *   node scripts/test.ts                      the quick lane (`npm test`)
 *   node scripts/test.ts --lane=all           another lane (`npm run test:all`); test/lanes.ts has them
 *   node scripts/test.ts types lint dead      only these checks
 *   node scripts/test.ts gateway/routing      only test files whose path contains this, of every lane
 *   node scripts/test.ts --lane=all --record  also writes how long each file took to test/times.json
 *   node scripts/test.ts --lane=all --retry   runs files with failed tests once more at the end, each alone; the summary
 *                                             names the tests that passed then: each is a defect
 *
 * After a run of the whole conformance suite, docs/conformance.md must match its results.
 */
import { execFile } from 'node:child_process'
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join, sep } from 'node:path'
import { parseArgs } from 'node:util'
import { ROWS_VARIABLE } from '../test/conformance/tally.ts'
import { LONG_VARIABLE, QUICK_VARIABLE } from '../test/support/lane.ts'
import {
  CONVERSATIONS,
  isPartOfPage,
  newRows,
  ownPart,
  PAGE,
  page,
  readOwnRows,
  readRows,
  withoutConversations,
} from './pages/conformance.ts'
import { endDescendants } from './test/descendants.ts'
import {
  divide,
  type Isolation,
  isolationOf,
  LANES,
  type Lane,
  type LaneName,
  longestFirst,
  type Times,
} from './test/lanes.ts'
import { runApart, runTogether } from './test/outcomes.ts'
import { type Report, startReport } from './test/report.ts'

const root = join(import.meta.dirname, '..')
const TIMES = join(import.meta.dirname, 'test', 'times.json')
const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`

// ── Selection ────────────────────────────────────────────────────────────────────────────────────────────────────

/** Each check runs its commands one after the other. */
const CHECKS: { readonly [name: string]: readonly (readonly string[])[] } = {
  types: ['.', 'dashboard', 'test/dashboard'].map((project) => ['typescript/bin/tsc', '--project', project]),
  lint: [['@biomejs/biome/bin/biome', 'ci', '--colors=off', '--error-on-warnings', '.']],
  dead: [['knip/bin/knip.js', '--no-progress']],
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    lane: { type: 'string' },
    record: { type: 'boolean', default: false },
    retry: { type: 'boolean', default: false },
  },
})
const isLane = (name: string): name is LaneName => Object.hasOwn(LANES, name)
const laneName = values.lane ?? (positionals.length > 0 ? 'all' : 'quick')
if (!isLane(laneName)) {
  process.stderr.write(`Unknown lane "${laneName}". Lanes: ${Object.keys(LANES).join(', ')}.\n`)
  process.exit(1)
}
const lane: Lane = LANES[laneName]
// Test processes inherit them.
if (laneName === 'long') process.env[LONG_VARIABLE] = '1'
if (laneName === 'quick') process.env[QUICK_VARIABLE] = '1'
// Stripping types and compiling is a third to a half of the processor time of a short test file.
process.env.NODE_COMPILE_CACHE ??= join(root, '.cache', 'compile-tests')

const filters = positionals.filter((word) => !(word in CHECKS))
const checks = Object.entries(CHECKS).filter(([name]) =>
  positionals.length === 0 ? lane.checks : positionals.includes(name),
)
const everyFile = globSync(
  ['{src,packages,suite}/**/*.test.ts', 'test/**/*.test.ts', 'scripts/**/*.test.ts', 'tools/*/**/*.test.ts'],
  {
    cwd: root,
  },
)
  .map((file) => file.replaceAll(sep, '/'))
  .sort()
const files = everyFile.filter(
  (file) => lane.has(file) && (positionals.length === 0 || filters.some((filter) => file.includes(filter))),
)

// ── Execution ───────────────────────────────────────────────────────────────────────────────────────────────────

/** Runs a program of a package; `ok`: it ended with 0. */
const runProgram = ([program = '', ...args]: readonly string[]) =>
  new Promise<{ readonly ok: boolean; readonly output: string }>((resolve) => {
    const options = { cwd: root, maxBuffer: Number.POSITIVE_INFINITY }
    execFile(process.execPath, [join(root, 'node_modules', program), ...args], options, (error, stdout, stderr) =>
      resolve({ ok: error === null, output: `${stdout}${stderr}` }),
    )
  })

/** Runs the checks one after the other, beside the tests, most of which wait most of the time. */
const runChecks = async (report: Report): Promise<void> => {
  for (const [name, commands] of checks) {
    const begun = performance.now()
    const failed: string[] = []
    for (const command of commands) {
      const { ok, output } = await runProgram(command)
      if (!ok) failed.push(output)
    }
    report.counts[failed.length === 0 ? 'passed' : 'failed']++
    report.log(`${failed.length === 0 ? '✓' : '✗'} ${name} (${seconds(performance.now() - begun)})`)
    for (const output of failed) report.log(output)
  }
}

/**
 * Files with a process of their own run one more at a time than there are cores, because most of them wait most of the
 * time. Files that compare durations come last, with nothing else running.
 */
const runFiles = async (report: Report, times: Times, checked: Promise<void>): Promise<void> => {
  const cores = Math.max(2, Math.min(8, availableParallelism()))
  const groups: { readonly [isolation in Isolation]: string[] } = { shared: [], process: [], alone: [] }
  for (const file of files) groups[isolationOf(file)].push(file)
  await Promise.all(divide(groups.shared, cores, times).map((part) => runTogether(part, report.emit)))
  if (groups.process.length > 0) await runApart(longestFirst(groups.process, times), cores + 1, report.emit)
  await checked
  if (groups.alone.length > 0) await runApart(longestFirst(groups.alone, times), 1, report.emit)
}

/** Files above which failures are no accident, so that running them again only takes time. */
const MOST_AGAIN = 6

/**
 * Runs files with failed tests once more, with nothing beside them; not pure ones, which give the same result each time, nor
 * those of the conformance page, which would have their rows twice.
 */
const runAgain = async (report: Report): Promise<void> => {
  const again = report
    .failed()
    .filter((file) => files.includes(file) && isolationOf(file) !== 'shared' && !isPartOfPage(file))
  if (again.length > MOST_AGAIN) report.log(`${again.length} files have failed tests: too many to run them again.`)
  if (again.length === 0 || again.length > MOST_AGAIN) return
  report.log(`Running ${again.length === 1 ? 'the file' : `${again.length} files`} with failed tests again.`)
  for (const file of again) report.again(file)
  await runApart(again, 1, report.emit)
  report.settle()
}

/** Compares docs/conformance.md with the results, if the whole conformance suite ran; conversations, if all of them ran. */
const comparePage = (report: Report, file: string): void => {
  if (!everyFile.filter(isPartOfPage).every((name) => files.includes(name))) return
  const found = readRows(file)
  const written = readFileSync(PAGE, 'utf8')
  const same = found.some(({ table }) => table === CONVERSATIONS)
    ? written === page(found)
    : withoutConversations(written) === withoutConversations(page(found))
  // Without the recordings only the part about the project's own exchanges can be generated.
  const ok = found.length > 0 ? same : written.includes(ownPart(readOwnRows(file)))
  report.counts[ok ? 'passed' : 'failed']++
  report.log(ok ? '✓ docs/conformance.md' : '✗ docs/conformance.md is out of date: `npm run conformance` updates it')
}

/** Updates the durations of the files that ran; files below a second are omitted. */
const record = (known: Times, measured: ReadonlyMap<string, number>): void => {
  const all = { ...known, ...Object.fromEntries(measured) }
  const kept = Object.entries(all).filter(([file, time]) => everyFile.includes(file) && Math.round(time) >= 1)
  const lines = kept.sort(([a], [b]) => (a < b ? -1 : 1)).map(([file, time]) => `  "${file}": ${Math.round(time)}`)
  writeFileSync(TIMES, `{\n${lines.join(',\n')}\n}\n`)
}

const begun = performance.now()
const report = startReport(files.length, {
  write: (text) => void process.stdout.write(text),
  isTerminal: process.stdout.isTTY === true,
  now: () => performance.now(),
})
if (filters.length > 0 && files.length === 0) {
  report.counts.failed++
  report.log(
    `✗ No test file of the lane "${laneName}" has ${filters.map((each) => `"${each}"`).join(' or ')} in its path.`,
  )
}
let ending: Promise<never> | null = null
for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)
  process.once(signal, () => {
    report.log(`Interrupted by ${signal}: ending what the tests have started.`)
    ending = endDescendants(process.pid).then(() => process.exit(code))
  })
const checked = runChecks(report)

if (files.length > 0) {
  // Written by this project.
  const times = JSON.parse(readFileSync(TIMES, 'utf8')) as Times
  // A parent process that sets the variable reads the rows itself.
  const rows = process.env[ROWS_VARIABLE] === undefined ? newRows() : null
  if (rows) process.env[ROWS_VARIABLE] = rows.file
  await runFiles(report, times, checked)
  if (values.retry) await runAgain(report)
  report.done()
  report.log(`${files.length} test files (${seconds(performance.now() - begun)})`)
  if (rows) {
    comparePage(report, rows.file)
    rows.done()
  }
  if (values.record) record(times, report.times)
}
await checked
for (const line of report.summary()) report.log(line)
if (laneName === 'quick' && filters.length === 0) {
  report.log('\nThis was the quick lane. The others:')
  for (const [name, { about }] of Object.entries(LANES))
    if (name !== 'quick') report.log(`  npm run ${`test:${name}`.padEnd(18)}${about}`)
  report.log('Each takes parts of paths: npm test -- gateway/routing\n')
}
await ending
const flaky = report.flaky()
if (flaky > 0)
  report.log(`${flaky} flaky: each is a defect of the test or of the gateway, although it passed when repeated`)
const { passed, failed, skipped } = report.counts
report.log(`${passed} passed, ${failed} failed, ${skipped} skipped`)
process.exit(failed === 0 ? 0 : 1)
