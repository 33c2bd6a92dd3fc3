/**
 * Runs a Python process that executes every case of a script and prints each result as a line of JSON
 * (python/cases.py).
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { promisify } from 'node:util'

const ROOT = join(import.meta.dirname, '..', '..', '..')

/** Environments below `.cache`; `.ci/run` creates each from its requirements. */
const REQUIREMENTS = { python: 'requirements.txt', llamaindex: 'requirements.llamaindex.txt' } as const
export type Environment = keyof typeof REQUIREMENTS

const programIn = (environment: Environment) => join(ROOT, '.cache', environment, 'bin', 'python')
const requirementsOf = (environment: Environment) => join('test', 'e2e', REQUIREMENTS[environment])

const absent = (environment: Environment): string | false => {
  const folder = `.cache/${environment}`
  return existsSync(programIn(environment))
    ? false
    : `not installed; .ci/run installs it, or: python3 -m venv ${folder} && ${folder}/bin/pip install -r ${requirementsOf(environment)}`
}

/** For the `skip` of a test: false where the environment exists, and in CI, where a missing one must fail. */
export const skipPython = (environment: Environment = 'python'): string | false =>
  process.env.HEADGATE_CI === '1' ? false : absent(environment)

type Line =
  | { readonly name: string; readonly ok: boolean; readonly error?: string }
  | { readonly done: true; readonly version: string }

type Script = {
  readonly script: string
  /** Passed to the script as JSON. */
  readonly given: object
  readonly environment?: Environment
  /** The package under test; its version must match the requirements. */
  readonly about?: string
  readonly env?: Readonly<Record<string, string>>
  /** The number of cases. */
  readonly cases: number
}

/** Runs every case as a subtest. Fails if the script does not print its last line. */
export const testPython = async (
  t: TestContext,
  { script, given, environment = 'python', about = 'openai', env = {}, cases }: Script,
): Promise<void> => {
  const missing = absent(environment)
  if (missing) assert.fail(missing)
  const { stdout } = await promisify(execFile)(
    programIn(environment),
    [join(import.meta.dirname, '..', 'python', script), JSON.stringify(given)],
    { env: { PATH: process.env.PATH ?? '', PYTHONDONTWRITEBYTECODE: '1', ...env }, timeout: 120_000 },
  )
  const results: Line[] = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  const last = results.pop()
  assert.ok(last && 'done' in last, 'the Python process did not finish')
  const wanted = readFileSync(join(ROOT, requirementsOf(environment)), 'utf8').split('\n')
  assert.ok(wanted.includes(`${about}==${last.version}`), `${about} ${last.version} is not the required version`)
  for (const one of results) if ('name' in one) await t.test(`python: ${one.name}`, () => assert.ok(one.ok, one.error))
  assert.equal(results.length, cases)
}
