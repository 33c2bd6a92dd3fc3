/** A test whose gateway does not start fails and ends, although its browser has started. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { skipBrowser } from './support/chromium.ts'

const FILE = `
import { after, before, describe, test } from 'node:test'
import { startBrowser } from '${join(import.meta.dirname, 'support', 'chromium.ts')}'
describe('a page', () => {
  let browser
  before(async () => {
    ;[browser] = await Promise.all([startBrowser(), Promise.reject(new Error('no gateway'))])
  })
  after(() => browser?.close())
  test('is never opened', () => {})
})`

test('a browser does not keep a test running whose gateway has not started', { skip: skipBrowser }, (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-failed-start-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  writeFileSync(join(folder, 'page.test.mjs'), FILE)
  const { NODE_TEST_CONTEXT: _runner, ...env } = process.env
  const { signal, stdout, status } = spawnSync(process.execPath, [join(folder, 'page.test.mjs')], {
    env,
    encoding: 'utf8',
    timeout: 120_000,
  })
  assert.deepEqual([signal, status], [null, 1], stdout)
  assert.match(stdout, /no gateway/)
})
