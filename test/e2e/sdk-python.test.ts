/** The official OpenAI SDK for Python, as it is. One Python process runs every case and tells each result as a line. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { CALLS, CITY, KINDS, startThreeKinds, TEXT } from './support/three-kinds.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const PYTHON = join(ROOT, '.cache', 'python', 'bin', 'python')
const absent = existsSync(PYTHON)
  ? false
  : 'no Python SDK here; .ci/run installs it, or: python3 -m venv .cache/python && .cache/python/bin/pip install -r test/e2e/requirements.txt'

type Told = { name: string; ok: boolean; error?: string } | { done: true; version: string }

test('sdk-python: every case', { skip: process.env.HEADGATE_CI === '1' ? false : absent }, async (t) => {
  if (absent) assert.fail(absent)
  const kinds = await startThreeKinds()
  t.after(() => kinds.stop())
  const given = { base: kinds.gateway.base, kinds: Object.values(KINDS), text: TEXT, calls: CALLS, city: CITY }
  const { stdout } = await promisify(execFile)(
    PYTHON,
    [join(import.meta.dirname, 'python', 'sdk.py'), JSON.stringify(given)],
    { env: { PATH: process.env.PATH ?? '', PYTHONDONTWRITEBYTECODE: '1' }, timeout: 120_000 },
  )
  const told: Told[] = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  const last = told.at(-1)
  assert.ok(last && 'done' in last, 'the Python process did not come to its end')
  const wanted = /openai==(.+)/.exec(readFileSync(join(import.meta.dirname, 'requirements.txt'), 'utf8'))
  assert.equal(last.version, wanted?.[1]?.trim())
  for (const one of told) if ('name' in one) await t.test(`sdk-python: ${one.name}`, () => assert.ok(one.ok, one.error))
  assert.ok(told.length > 40, `${told.length} lines`)
})
