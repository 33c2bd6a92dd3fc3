/** Every operation `/openapi.json` describes, asked by schemathesis in ways nobody thought of: what comes back is what is described. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { start } from './support/process.ts'

const PROGRAM = join(import.meta.dirname, '..', '..', '.cache', 'schemathesis', 'bin', 'schemathesis')
const absent = existsSync(PROGRAM)
  ? false
  : 'no schemathesis here; .ci/run installs it, or: python3 -m venv .cache/schemathesis && .cache/schemathesis/bin/pip install -r test/e2e/requirements.schemathesis.txt'
const skip = process.env.HEADGATE_CI === '1' ? false : absent

/**
 * Left out: that whatever the description allows is accepted, and whatever it does not is refused. It describes the
 * parts of three vendors' formats that every upstream has, on purpose loosely, and the path takes what it does not know:
 * a member of next month's is passed on, and a message without its role is refused by the codec, in words.
 */
const LEFT_OUT = ['positive_data_acceptance', 'negative_data_rejection']

/** Of each operation and phase: some 3,000 requests, half a minute on an idle machine. */
const EXAMPLES = 15
/** ms after which it is ended. */
const PATIENCE = 240_000

const runProgram = (
  args: readonly string[],
  folder: string,
): Promise<{ readonly code: number; readonly out: string }> =>
  new Promise((resolve) => {
    const options = {
      cwd: folder,
      timeout: PATIENCE,
      maxBuffer: 64 * 1024 * 1024,
      env: { PATH: process.env.PATH ?? '' },
    }
    execFile(PROGRAM, args, options, (error, stdout, stderr) =>
      resolve({ code: error ? Number(error.code ?? 1) : 0, out: `${stdout}${stderr}` }),
    )
  })

test('schemathesis: every operation answers as it is described, whatever it is asked', { skip }, async (t) => {
  if (absent) assert.fail(absent)
  await using gateway = await start()
  const folder = mkdtempSync(join(tmpdir(), 'headgate-schemathesis-'))
  try {
    const { code, out } = await runProgram(
      [
        ...['run', `${gateway.url}/openapi.json`, '--url', gateway.url, '--phases', 'examples,coverage,fuzzing'],
        ...['--max-examples', String(EXAMPLES), '--generation-deterministic', '--request-timeout', '10'],
        ...['--exclude-checks', LEFT_OUT.join(','), '--no-color'],
      ],
      folder,
    )
    const [counts = 'no summary'] = /\d+ generated, .*/.exec(out) ?? []
    t.diagnostic(counts)
    assert.equal(code, 0, out.slice(-8_000))
    assert.match(counts, /^[1-9]\d{2,} generated, \d+ passed$/)
    const bugs = (await gateway.told()).filter(({ event, level }) => event === 'error' || level === 'error')
    assert.deepEqual(bugs, [])
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  }
})
