/** Schemathesis generates requests for every operation of `/openapi.json` and checks the responses against it. */
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
  : 'schemathesis is not installed; .ci/run installs it, or: python3 -m venv .cache/schemathesis && .cache/schemathesis/bin/pip install -r test/e2e/requirements.schemathesis.txt'
const skip = process.env.HEADGATE_CI === '1' ? false : absent

/**
 * Not checked: that every request the description permits is accepted, and every other is rejected. The description
 * covers the common parts of three vendors' formats, deliberately loosely. The gateway passes unknown members on, and
 * the codec rejects a message without a role with an error.
 */
const LEFT_OUT = ['positive_data_acceptance', 'negative_data_rejection']

/** Examples for each operation and phase: some 3,000 requests, half a minute on an idle machine. */
const EXAMPLES = 15
/** Timeout in ms. */
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

test('schemathesis: every operation’s responses match its description', { skip }, async (t) => {
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
    const bugs = (await gateway.logged()).filter(({ event, level }) => event === 'error' || level === 'error')
    assert.deepEqual(bugs, [])
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  }
})
