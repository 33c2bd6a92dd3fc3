import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { pageSource } from './source.ts'

test('page source: a package whose files fail shows the reason, and is tried again', async () => {
  const home = mkdtempSync(join(tmpdir(), 'headgate-package-'))
  let now = 0
  const outcomes = ['its thread cannot start: <denied>', { ready: true }]
  const source = pageSource<{ readonly ready: boolean }>({
    production: true,
    now: () => now,
    // A package has no program that builds.
    plan: { program: join(home, 'build.ts'), needs: home, sources: [], cache: home },
    packaged: async () => outcomes.shift() ?? assert.fail('the attempt is kept'),
    texts: { title: 'The documentation', command: 'npm run build:docs', style: '/small.css' },
    read: () => assert.fail('a package has no builds'),
  })
  try {
    const asked = { local: false, keep: false }
    const failed = await source(asked)
    assert.ok(typeof failed === 'string')
    assert.match(failed, /its thread cannot start: &#60;denied&#62;/)
    assert.doesNotMatch(failed, /npm run/)
    now = 29_999
    assert.equal(await source(asked), failed)
    now = 30_000
    assert.deepEqual(await source(asked), { ready: true })
    assert.deepEqual(await source(asked), { ready: true })
  } finally {
    rmSync(home, { recursive: true, force: true })
  }
})
