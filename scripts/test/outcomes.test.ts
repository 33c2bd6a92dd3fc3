/** Both ways to run files, with files that pass, fail, skip, or do not load. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { Outcome } from './outcomes.ts'

const FILES = {
  'good.test.mjs': `import { describe, test } from 'node:test'
    describe('a suite', () => { test('passes', () => {}); test('is skipped', { skip: 'for a reason' }, () => {}) })`,
  'absent.test.mjs': `import { describe, test } from 'node:test'
    describe('a suite', { skip: 'no server' }, () => { test('one', () => {}); test('two', () => {}) })`,
  'bad.test.mjs': `import { test } from 'node:test'
    test('fails', () => { throw new Error('one is not two') })`,
  'broken.test.mjs': `throw new Error('at import')`,
  'hook.test.mjs': `import { after, describe, test } from 'node:test'
    describe('with a hook', () => { after(() => { throw new Error('after all') }); test('passes', () => {}) })`,
  'exit.test.mjs': `import { test } from 'node:test'
    test('ends the process', () => process.exit(0))`,
}

describe('outcomes', () => {
  let folder: string
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'headgate-outcomes-'))
    for (const [name, text] of Object.entries(FILES)) writeFileSync(join(folder, name), text)
  })
  after(() => rmSync(folder, { recursive: true }))

  /** Runs in a child process, because Node's runner does not run within a test. */
  const outcomes = (call: string, files: readonly (keyof typeof FILES)[]): readonly string[] => {
    const module = join(import.meta.dirname, 'outcomes.ts')
    const code = `import { relative } from 'node:path'
      import { runApart, runTogether } from ${JSON.stringify(module)}
      const files = ${JSON.stringify(files.map((file) => join(folder, file)))}.map((file) =>
        relative(${JSON.stringify(join(import.meta.dirname, '..', '..'))}, file))
      const all = []
      await ${call}
      process.stdout.write(JSON.stringify(all))`
    const { NODE_TEST_CONTEXT: _, ...env } = process.env
    const driver = join(folder, 'driver.mjs')
    writeFileSync(driver, code)
    const text = execFileSync(process.execPath, [driver], {
      env,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
      timeout: 60_000,
    })
    // Written by the code above.
    const all = JSON.parse(text) as readonly Outcome[]
    return all
      .map((outcome) => {
        const file = basename(outcome.file)
        if (outcome.kind === 'file') return `${file} ended`
        const detail = outcome.kind === 'failed' ? outcome.error : outcome.kind === 'skipped' ? outcome.reason : ''
        return `${file} ${outcome.kind} ${outcome.name}: ${detail.split('\n')[0]}`
      })
      .sort()
  }

  const expected = [
    'bad.test.mjs ended',
    'bad.test.mjs failed fails: Error: one is not two',
    'good.test.mjs ended',
    'good.test.mjs passed passes: ',
    'good.test.mjs skipped is skipped: for a reason',
  ]
  const runs = [
    ['apart', 'runApart(files, 2, (outcome) => all.push(outcome))', 'test failed'],
    ['together', 'runTogether(files, (outcome) => all.push(outcome))', 'Error: at import'],
  ] as const
  for (const [name, call, broken] of runs)
    test(`files run ${name} report every test once, and load errors`, () => {
      assert.deepEqual(outcomes(call, ['good.test.mjs', 'broken.test.mjs', 'bad.test.mjs']), [
        ...expected.slice(0, 2),
        'broken.test.mjs ended',
        `broken.test.mjs failed the file itself: ${broken}`,
        ...expected.slice(2),
      ])
    })

  for (const [name, call] of runs)
    test(`a failed hook after the tests of a suite is a failure: ${name}`, () => {
      const all = outcomes(call, ['hook.test.mjs'])
      assert.ok(all.includes('hook.test.mjs passed passes: '), all.join('\n'))
      assert.ok(
        all.some((line) => /^hook\.test\.mjs failed with a hook: .*after all/.test(line)),
        all.join('\n'),
      )
    })

  for (const [name, call] of runs)
    test(`a suite that is skipped as a whole is reported: ${name}`, () => {
      assert.deepEqual(outcomes(call, ['absent.test.mjs']), [
        'absent.test.mjs ended',
        'absent.test.mjs skipped a suite: no server',
      ])
    })

  test('a process that ends before its tests is a failure', () => {
    const all = outcomes('runTogether(files, (outcome) => all.push(outcome))', ['good.test.mjs', 'exit.test.mjs'])
    assert.ok(
      all.some((line) => /failed the process of 2 files: it ended with code 0 before/.test(line)),
      all.join('\n'),
    )
  })
})
