/**
 * Changes every line of the deciding code in small ways and looks whether a test notices: what survives is a rule that
 * no test holds.
 *
 *   npm run mutation                             every file of src/policy, and the classifier
 *   npm run mutation -- --only breaker,gate      those whose path has one of these words
 *   npm run mutation -- --survivors              with each survivor, and what was changed
 *   npm run mutation -- --json file.json         the same as data
 *
 * Ends with 1 if a file's score is below 85 %. A mutant that means the same program is a row of EQUIVALENT, with its reason.
 *
 * Not StrykerJS, whose operators these are: with Node's runner it starts a process for each of three thousand mutants,
 * hours where this takes minutes.
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
    survivors: { type: 'boolean', default: false },
    json: { type: 'string' },
    trial: { type: 'boolean', default: false },
  },
})

/** Percent of its mutants that a file's tests have to notice (RELIABILITY 6.3). */
const LEAST = 85
/** ms without a word after which a mutant counts as one that does not end. */
const PATIENCE = 30_000

/** Tests beside those of the file itself that are about it. */
const ALSO: { readonly [file: string]: readonly string[] } = {
  'src/policy/retry/limit-headers.ts': ['src/policy/health/quota.test.ts', 'src/policy/retry/retry-after.test.ts'],
  'src/policy/routing/models.ts': ['src/policy/routing/plan.test.ts'],
  'src/policy/retry/backoff.ts': ['src/policy/health/cooldown.test.ts'],
  'src/protocols/errors/classify.ts': ['src/protocols/errors/openai-error.test.ts'],
}

type Result = {
  readonly file: string
  readonly mutants: number
  readonly killed: number
  /** Of those killed, such that never came to an end. */
  readonly endless: number
  readonly equivalent: number
  readonly survivors: readonly Mutant[]
  /** Percent of those that are not equivalent. */
  readonly score: number
}

const isVerdict = (message: unknown): message is Verdict =>
  typeof message === 'object' && message !== null && 'survived' in message

/** One process tries them one after the other; one that does not end is ended, and another goes on behind it. */
const tryIn = (trial: Trial): Promise<readonly Verdict[]> =>
  new Promise((resolve, reject) => {
    const verdicts: Verdict[] = []
    const child = spawn(process.execPath, ['--no-warnings', import.meta.filename, '--trial'], {
      cwd: root,
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    })
    let problem = ''
    child.stderr?.on('data', (text: Buffer) => {
      problem = (problem + text.toString()).slice(-4_000)
    })
    let timer: NodeJS.Timeout | undefined
    const wait = () => {
      clearTimeout(timer)
      timer = setTimeout(() => child.kill('SIGKILL'), PATIENCE)
    }
    wait()
    child.on('message', (message) => {
      wait()
      if (isVerdict(message)) verdicts.push(message)
    })
    child.on('close', (code) => {
      clearTimeout(timer)
      const next = trial.from + verdicts.length
      if (code === 0 || next >= trial.mutants.length) return resolve(verdicts)
      if (code === 2) return reject(new Error(`${trial.file}: ${problem}`))
      const endless: Verdict = { mutant: next, survived: false, by: '', ms: PATIENCE }
      tryIn({ ...trial, from: next + 1 }).then((rest) => resolve([...verdicts, endless, ...rest]), reject)
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

const judge = async (file: string): Promise<Result> => {
  const typed = readFileSync(join(root, file), 'utf8')
  const mutants = mutantsOf(stripTypeScriptTypes(typed), typed)
  const own = file.replace(/\.ts$/, '.test.ts')
  const tests = [own, ...(ALSO[file] ?? [])].filter((path) => existsSync(join(root, path)))
  const verdicts =
    tests.length === 0
      ? mutants.map((_, mutant): Verdict => ({ mutant, survived: true, by: '', ms: 0 }))
      : await tryIn({ root, file, tests, mutants, from: 0 })
  const alive = verdicts.flatMap(({ mutant, survived }) => (survived ? (mutants[mutant] ?? []) : []))
  const survivors = alive.filter((mutant) => !isEquivalent(file, mutant))
  const counted = mutants.length - (alive.length - survivors.length)
  return {
    file,
    mutants: mutants.length,
    killed: mutants.length - alive.length,
    endless: verdicts.filter(({ survived, by }) => !survived && by === '').length,
    equivalent: alive.length - survivors.length,
    survivors,
    score: counted === 0 ? 100 : (100 * (counted - survivors.length)) / counted,
  }
}

const row = ({ file, mutants, killed, endless, equivalent, survivors, score }: Result): string =>
  `| ${file} | ${mutants} | ${killed} | ${endless} | ${equivalent} | ${survivors.length} | ${score.toFixed(1)} |`

const shown = (text: string): string => text.replaceAll(/\s+/g, ' ').slice(0, 90)

const main = async (): Promise<void> => {
  const words = values.only.split(',').filter((word) => word !== '')
  const files = [
    ...globSync('src/policy/**/*.ts', { cwd: root }).filter((file) => !file.endsWith('.test.ts')),
    'src/protocols/errors/classify.ts',
  ].sort()
  const results: Result[] = []
  const say = (line: string) => process.stdout.write(`${line}\n`)
  say('| file | mutants | killed | of them endless | equivalent | survived | score % |')
  say('|---|---:|---:|---:|---:|---:|---:|')
  for (const file of files) {
    if (words.length > 0 && !words.some((word) => file.includes(word))) continue
    const result = await judge(file)
    results.push(result)
    if (result.mutants > 0) say(row(result))
    if (values.survivors)
      for (const { line, operator, before, after } of result.survivors)
        say(`    ${file}:${line} ${operator}: ${shown(before)}  →  ${shown(after)}`)
  }
  const sum = (of: (result: Result) => number): number => results.reduce((total, result) => total + of(result), 0)
  const counted = sum(({ mutants, equivalent }) => mutants - equivalent)
  const left = sum(({ survivors }) => survivors.length)
  say(
    `| all | ${sum(({ mutants }) => mutants)} | ${sum(({ killed }) => killed)} | ${sum(({ endless }) => endless)} | ${sum(({ equivalent }) => equivalent)} | ${left} | ${((100 * (counted - left)) / Math.max(1, counted)).toFixed(1)} |`,
  )
  if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify(results, null, 2)}\n`)
  const low = results.filter(({ score }) => score < LEAST)
  for (const { file, score } of low) say(`${file}: ${score.toFixed(1)} % is below ${LEAST} %`)
  process.exitCode = low.length === 0 ? 0 : 1
}

if (values.trial)
  process.once('message', (trial) => {
    // What this script itself has sent.
    tryAll(trial as Trial, (verdict) => process.send?.(verdict)).then(
      () => process.exit(0),
      (error: unknown) => {
        process.stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`)
        process.exit(2)
      },
    )
  })
else await main()
