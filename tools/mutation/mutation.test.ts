/** One mutant in five of the rules of health and retries; all mutants in `npm run test:long`. `npm run mutation -- --survivors` lists them. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import { isLong } from '../../test/support/lane.ts'

/** Rooms whose mutants take milliseconds each. */
const PART = ['--only', 'policy/health,policy/retry', '--part', '5']

test('mutation: the unit tests of src/policy and of the error classifier detect changes', async (t) => {
  const args = ['--no-warnings', join(import.meta.dirname, 'main.ts'), ...(isLong ? [] : PART)]
  const { code, output } = await new Promise<{ code: number | null; output: string }>((resolve) => {
    const child = execFile(process.execPath, args, (_error, stdout, stderr) =>
      resolve({ code: child.exitCode, output: stdout + stderr }),
    )
  })
  t.diagnostic(output.trimEnd().split('\n').at(-1) ?? '')
  assert.equal(code, 0, output)
})
