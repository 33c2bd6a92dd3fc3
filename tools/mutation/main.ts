/**
 * Mutation testing of the policy code: applies small changes and checks that a test fails. A surviving mutant is a rule
 * without a test.
 *
 *   npm run mutation                             every file of src/policy, and the error classifier
 *   npm run mutation -- --only breaker,retry     files whose path contains one of these words
 *   npm run mutation -- --part 10                one mutant in ten of each file
 *   npm run mutation -- --survivors              lists each surviving mutant
 *   npm run mutation -- --json file.json         also writes the results as JSON
 *
 * Exits with 1 if a file scores below 85 %; with --part, if all of them together do. Mutants with the same behaviour as the original are rows of EQUIVALENT.
 *
 * The operators are those of StrykerJS. With Node's test runner StrykerJS starts a process for each of three thousand
 * mutants, which takes hours instead of minutes.
 */
import { spawn } from 'node:child_process'
import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { EQUIVALENT } from './equivalent.ts'
import { type Mutant, mutantsOf } from './mutants.ts'
import { type Trial, tryAll, type Verdict } from './trial.ts'

const root = join(import.meta.dirname, '..', '..')
const { values } = parseArgs({
  options: {
    only: { type: 'string', default: '' },
    part: { type: 'string', default: '1' },
    survivors: { type: 'boolean', default: false },
    json: { type: 'string' },
    trial: { type: 'boolean', default: false },
  },
})

/** One mutant in this many is tried. */
const PART = Math.max(1, Number(values.part) || 1)
/** Minimum score of a file, in percent. */
const MIN_SCORE = 85
/** ms without a result after which a mutant counts as an endless loop. */
const TIMEOUT = 30_000

/** Further test files of a source file. */
const FURTHER_TESTS: { readonly [file: string]: readonly string[] } = {
  'src/policy/accounts/cost.ts': ['src/policy/accounts/vendor-costs.test.ts', 'src/policy/accounts/price-book.test.ts'],
  'src/policy/accounts/directory.ts': ['src/policy/accounts/budget-count.test.ts'],
  'src/policy/accounts/estimate.ts': ['src/gateway/accounts/accounts.test.ts'],
  'src/policy/accounts/key-access.ts': [
    'src/policy/accounts/budget-scope.test.ts',
    'src/gateway/routing/planner.test.ts',
  ],
  'src/policy/accounts/period.ts': ['src/policy/accounts/period-zones.test.ts'],
  'src/policy/accounts/price-book.ts': [
    'src/policy/accounts/vendor-costs.test.ts',
    'src/policy/accounts/dearest-prices.test.ts',
    'src/gateway/accounts/asked-service.test.ts',
  ],
  'src/policy/retry/stated-wait.ts': ['src/gateway/routing/router.retry-after.test.ts'],
  'src/policy/routing/plan-ability.ts': ['src/policy/routing/plan-embeddings.test.ts'],
  'src/policy/retry/limit-headers.ts': ['src/policy/health/quota.test.ts', 'src/policy/retry/retry-after.test.ts'],
  'src/policy/routing/models.ts': ['src/policy/routing/plan.test.ts', 'src/gateway/routing/planner.test.ts'],
  'src/policy/retry/backoff.ts': ['src/policy/health/cooldown.test.ts'],
  'src/protocols/errors/classify.ts': [
    'src/protocols/errors/mask-secrets.test.ts',
    'src/protocols/errors/openai-error.test.ts',
  ],
}

type Result = {
  readonly file: string
  readonly mutants: number
  readonly killed: number
  /** Killed because they never ended. */
  readonly endless: number
  readonly equivalent: number
  readonly survivors: readonly Mutant[]
  /** Percent of the mutants that are not equivalent. */
  readonly score: number
}

const isVerdict = (message: unknown): message is Verdict =>
  typeof message === 'object' && message !== null && 'survived' in message

/** Tries the mutants in a child process. If one does not end, the process is killed and another continues with the next. */
const runTrial = (trial: Trial): Promise<readonly Verdict[]> =>
  new Promise((resolve, reject) => {
    const verdicts: Verdict[] = []
    const child = spawn(process.execPath, ['--no-warnings', import.meta.filename, '--trial'], {
      cwd: root,
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    })
    let stderr = ''
    child.stderr?.on('data', (text: Buffer) => {
      stderr = (stderr + text.toString()).slice(-4_000)
    })
    let timer: NodeJS.Timeout | undefined
    const restartTimer = () => {
      clearTimeout(timer)
      timer = setTimeout(() => child.kill('SIGKILL'), TIMEOUT)
    }
    restartTimer()
    child.on('message', (message) => {
      restartTimer()
      if (isVerdict(message)) verdicts.push(message)
    })
    child.on('close', (code) => {
      clearTimeout(timer)
      const next = trial.from + verdicts.length
      if (code === 0 || next >= trial.mutants.length) return resolve(verdicts)
      if (code === 2) return reject(new Error(`${trial.file}: ${stderr}`))
      const endless: Verdict = { mutant: next, survived: false, by: '', ms: TIMEOUT }
      runTrial({ ...trial, from: next + 1 }).then((rest) => resolve([...verdicts, endless, ...rest]), reject)
    })
    child.send(trial)
  })

const isEquivalent = (file: string, mutant: Mutant): boolean =>
  EQUIVALENT.some(
    (row) =>
      row.file === file &&
      row.before === mutant.before &&
      (row.after === undefined || row.after === mutant.after) &&
      (row.line === undefined || lineOf(file, mutant.line).includes(row.line)),
  )

const lineOf = (file: string, line: number): string =>
  readFileSync(join(root, file), 'utf8').split('\n')[line - 1] ?? ''

const scoreOf = async (file: string): Promise<Result> => {
  const typed = readFileSync(join(root, file), 'utf8')
  const mutants = mutantsOf(stripTypeScriptTypes(typed), typed).filter((_, at) => at % PART === 0)
  const own = file.replace(/\.ts$/, '.test.ts')
  const tests = [own, ...(FURTHER_TESTS[file] ?? [])].filter((path) => existsSync(join(root, path)))
  const verdicts =
    tests.length === 0
      ? mutants.map((_, mutant): Verdict => ({ mutant, survived: true, by: '', ms: 0 }))
      : await runTrial({ root, file, tests, mutants, from: 0 })
  const undetected = verdicts.flatMap(({ mutant, survived }) => (survived ? (mutants[mutant] ?? []) : []))
  const survivors = undetected.filter((mutant) => !isEquivalent(file, mutant))
  const counted = mutants.length - (undetected.length - survivors.length)
  return {
    file,
    mutants: mutants.length,
    killed: mutants.length - undetected.length,
    endless: verdicts.filter(({ survived, by }) => !survived && by === '').length,
    equivalent: undetected.length - survivors.length,
    survivors,
    score: counted === 0 ? 100 : (100 * (counted - survivors.length)) / counted,
  }
}

const row = ({ file, mutants, killed, endless, equivalent, survivors, score }: Result): string =>
  `| ${file} | ${mutants} | ${killed} | ${endless} | ${equivalent} | ${survivors.length} | ${score.toFixed(1)} |`

const shorten = (text: string): string => text.replaceAll(/\s+/g, ' ').slice(0, 90)

const main = async (): Promise<void> => {
  const words = values.only.split(',').filter((word) => word !== '')
  const files = [
    ...globSync('src/policy/**/*.ts', { cwd: root }).filter((file) => !file.endsWith('.test.ts')),
    'src/protocols/errors/classify.ts',
    'src/protocols/errors/mask-secrets.ts',
  ].sort()
  const results: Result[] = []
  const print = (line: string) => process.stdout.write(`${line}\n`)
  print('| file | mutants | killed | of these endless | equivalent | survived | score % |')
  print('|---|---:|---:|---:|---:|---:|---:|')
  for (const file of files) {
    if (words.length > 0 && !words.some((word) => file.includes(word))) continue
    const result = await scoreOf(file)
    results.push(result)
    if (result.mutants > 0) print(row(result))
    if (values.survivors)
      for (const { line, operator, before, after } of result.survivors)
        print(`    ${file}:${line} ${operator}: ${shorten(before)}  →  ${shorten(after)}`)
  }
  const sum = (of: (result: Result) => number): number => results.reduce((total, result) => total + of(result), 0)
  const counted = sum(({ mutants, equivalent }) => mutants - equivalent)
  const left = sum(({ survivors }) => survivors.length)
  print(
    `| all | ${sum(({ mutants }) => mutants)} | ${sum(({ killed }) => killed)} | ${sum(({ endless }) => endless)} | ${sum(({ equivalent }) => equivalent)} | ${left} | ${((100 * (counted - left)) / Math.max(1, counted)).toFixed(1)} |`,
  )
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(results, null, 2)}\n`)
  const together = { file: 'all files', score: (100 * (counted - left)) / Math.max(1, counted) }
  const low = (PART > 1 ? [together] : results).filter(({ score }) => score < MIN_SCORE)
  for (const { file, score } of low) print(`${file}: ${score.toFixed(1)} % is below ${MIN_SCORE} %`)
  process.exitCode = low.length === 0 ? 0 : 1
}

if (values.trial)
  process.once('message', (trial) => {
    // Sent by `runTrial`.
    tryAll(trial as Trial, (verdict) => process.send?.(verdict)).then(
      () => process.exit(0),
      (error: unknown) => {
        process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`)
        process.exit(2)
      },
    )
  })
else await main()
