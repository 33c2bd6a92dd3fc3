/**
 * Everything that proves the project, in order: types, lint, unused code, then every test. Ends with one line of counts.
 *
 *   node scripts/test.ts                      all of it
 *   node scripts/test.ts types lint           only these steps
 *   node scripts/test.ts test/e2e             only test files whose path contains this
 *
 * Where the whole conformance suite ran, docs/conformance.md has to say what came of it.
 */
import { spawnSync } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { run } from 'node:test'
import { ROWS } from '../test/conformance/board.ts'
import { isPartOfPage, newRows, PAGE, page, readRows } from './conformance.ts'

const root = join(import.meta.dirname, '..')
const words = process.argv.slice(2)
const counts = { passed: 0, failed: 0, skipped: 0 }
const say = (line: string) => process.stdout.write(`${line}\n`)

const STEPS: { readonly [name: string]: readonly string[] } = {
  types: ['typescript/bin/tsc', '--project', '.'],
  lint: ['@biomejs/biome/bin/biome', 'ci', '--colors=off', '--error-on-warnings', '.'],
  dead: ['knip/bin/knip.js', '--no-progress'],
}

const step = (name: string, [program = '', ...args]: readonly string[]) => {
  const begun = performance.now()
  const result = spawnSync(process.execPath, [join(root, 'node_modules', program), ...args], {
    cwd: root,
    encoding: 'utf8',
  })
  const ok = result.status === 0
  counts[ok ? 'passed' : 'failed']++
  say(`${ok ? '✓' : '✗'} ${name} (${seconds(performance.now() - begun)})`)
  if (!ok) say(`${result.stdout}${result.stderr}`)
}

const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`

const chosenSteps = Object.entries(STEPS).filter(([name]) => words.length === 0 || words.includes(name))
for (const [name, command] of chosenSteps) step(name, command)

const paths = words.filter((word) => !(word in STEPS))
const everyFile = globSync(['src/**/*.test.ts', 'test/**/*.test.ts', 'scripts/**/*.test.ts'], { cwd: root }).sort()
const files = everyFile.filter((file) => words.length === 0 || paths.some((path) => file.includes(path)))

type Shown = { readonly name: string; readonly file?: string | undefined; readonly nesting: number }
const failures: string[] = []

/** Suites are sums of their tests: only what has no tests of its own is counted. */
const test = (files: readonly string[], concurrency: number): Promise<void> =>
  new Promise((resolve) => {
    const stream = run({ files: files.map((file) => join(root, file)), concurrency, timeout: 600_000, cwd: root })
    const place = ({ name, file }: Shown) => `${file?.replace(`${root}/`, '') ?? ''}: ${name}`
    stream.on('test:pass', (event) => {
      if (event.details.type === 'suite') return
      if (event.skip === undefined && event.todo === undefined) counts.passed++
      else {
        counts.skipped++
        say(`- skipped ${place(event)}${typeof event.skip === 'string' ? ` (${event.skip})` : ''}`)
      }
    })
    stream.on('test:fail', (event) => {
      if (event.details.type === 'suite') return
      counts.failed++
      const error = event.details.error
      const cause =
        error.cause instanceof Error ? (error.cause.stack ?? error.cause.message) : String(error.cause ?? error)
      failures.push(`✗ ${place(event)}\n${cause.split('\n').slice(0, 30).join('\n')}\n`)
      say(`✗ ${place(event)}`)
    })
    stream.on('test:stderr', ({ message }) => process.stderr.write(message))
    stream.on('end', () => resolve())
    stream.resume()
  })

/** Whoever names the file for the rows reads them too. */
const rows = process.env[ROWS] === undefined ? newRows() : null
if (rows) process.env[ROWS] = rows.file

/** What the conformance suite found is what its page says. */
const comparePage = (file: string): void => {
  const found = readRows(file)
  if (found.length === 0 || !everyFile.filter(isPartOfPage).every((name) => files.includes(name))) return
  const ok = readFileSync(PAGE, 'utf8') === page(found)
  counts[ok ? 'passed' : 'failed']++
  say(ok ? '✓ docs/conformance.md' : '✗ docs/conformance.md is out of date: `npm run conformance` writes it')
}

/** It starts processes. */
const isAlone = (file: string): boolean => file.startsWith('test/e2e') || file.startsWith('test/security')

if (files.length > 0) {
  const begun = performance.now()
  // Tests of whole processes measure time against limits: they get the machine to themselves.
  await test(
    files.filter((file) => !isAlone(file)),
    2,
  )
  await test(files.filter(isAlone), 1)
  say(`${files.length} test files (${seconds(performance.now() - begun)})`)
}
if (rows) {
  comparePage(rows.file)
  rows.done()
}
for (const failure of failures) say(`\n${failure}`)
say(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`)
process.exit(counts.failed === 0 ? 0 : 1)
