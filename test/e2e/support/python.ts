/** A Python process that runs every case of a script and tells each result as a line of JSON. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'

const ROOT = join(import.meta.dirname, '..', '..', '..')
const PYTHON = join(ROOT, '.cache', 'python', 'bin', 'python')
const absent = existsSync(PYTHON)
  ? false
  : 'no Python SDK here; .ci/run installs it, or: python3 -m venv .cache/python && .cache/python/bin/pip install -r test/e2e/requirements.txt'

/** For the `skip` of a test: false where the SDKs are, and in CI, where a test without them has to fail. */
export const skipPython = process.env.HEADGATE_CI === '1' ? false : absent

export type Told = { readonly name: string; readonly ok: boolean; readonly error?: string }

/** `given` reaches the script as JSON. Throws if it did not come to its end, which it tells by a last line. */
export const runPython = async (script: string, given: object): Promise<readonly Told[]> => {
  if (absent) assert.fail(absent)
  const { stdout } = await promisify(execFile)(
    PYTHON,
    [join(import.meta.dirname, '..', 'python', script), JSON.stringify(given)],
    { env: { PATH: process.env.PATH ?? '', PYTHONDONTWRITEBYTECODE: '1' }, timeout: 120_000 },
  )
  const told: (Told | { readonly done: true })[] = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  const last = told.at(-1)
  assert.ok(last && 'done' in last, 'the Python process did not come to its end')
  return told.filter((one) => 'name' in one)
}
