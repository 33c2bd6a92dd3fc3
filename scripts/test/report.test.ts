import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startReport } from './report.ts'

const skip = (name: string, reason: string) => ({ kind: 'skipped', file: 'a.test.ts', name, reason }) as const

test('report: skips are one line per reason, most frequent first; a failure prints the command that repeats it', () => {
  let written = ''
  const report = startReport(2, { write: (text) => (written += text), isTerminal: false, now: () => 0 })
  report.emit({ kind: 'passed', file: 'a.test.ts', name: 'one' })
  report.emit(skip('two', 'no curl'))
  for (const name of ['three', 'four']) report.emit(skip(name, 'no recordings'))
  report.emit({ kind: 'failed', file: 'src/b.test.ts', name: 'five', error: 'Error: 1 is not 2\n    at b' })
  report.emit({ kind: 'file', file: 'a.test.ts', seconds: 2 })
  report.done()
  assert.deepEqual(report.counts, { passed: 1, failed: 1, skipped: 3 })
  assert.deepEqual([...report.times], [['a.test.ts', 2]])
  assert.equal(written, '✗ src/b.test.ts: five\n  Error: 1 is not 2\n      at b\n')
  const [failure, ...skips] = report.summary()
  assert.match(failure ?? '', /five\nError: 1 is not 2\n {4}at b\n {2}repeat: npm test -- src\/b\.test\.ts\n/)
  assert.deepEqual(skips, ['- skipped 2 tests: no recordings', '- skipped 1 test: no curl'])
})

const progress = [
  ['a terminal', true, '\r\x1b[2K1 of 3 files, 1 passed, 12 s'],
  ['a log', false, '  1 of 3 files, 1 passed, 12 s\n'],
] as const
for (const [name, isTerminal, line] of progress)
  test(`report: progress on ${name}`, (t) => {
    t.mock.timers.enable({ apis: ['setInterval'] })
    let written = ''
    let now = 5_000
    const report = startReport(3, { write: (text) => (written += text), isTerminal, now: () => now })
    report.emit({ kind: 'passed', file: 'a.test.ts', name: 'one' })
    report.emit({ kind: 'file', file: 'a.test.ts', seconds: 2 })
    now += 12_000
    t.mock.timers.tick(isTerminal ? 250 : 10_000)
    assert.equal(written, line)
    report.done()
  })

test('report: outcomes of a file that runs again count once; a test that failed must pass then', () => {
  const report = startReport(2, { write: () => {}, isTerminal: false, now: () => 0 })
  const failed = (file: string, name: string, isWhole = false) =>
    report.emit({ kind: 'failed', file, name, error: `Error of ${name}`, ...(isWhole && { isWhole }) })
  report.emit({ kind: 'passed', file: 'a.test.ts', name: 'one' })
  report.emit(skip('two', 'no curl'))
  for (const name of ['three', 'four', 'five']) failed('a.test.ts', name)
  failed('b.test.ts', 'a hook', true)
  assert.deepEqual(report.failed(), ['a.test.ts', 'b.test.ts'])
  for (const file of report.failed()) report.again(file)
  assert.deepEqual(report.counts, { passed: 0, failed: 0, skipped: 0 })
  for (const name of ['one', 'three']) report.emit({ kind: 'passed', file: 'a.test.ts', name })
  report.emit(skip('two', 'no curl'))
  failed('a.test.ts', 'four')
  // The fifth test is skipped now, which is no success.
  report.emit(skip('five', 'no curl'))
  report.emit({ kind: 'passed', file: 'b.test.ts', name: 'six' })
  report.settle()
  report.done()
  assert.deepEqual(report.counts, { passed: 3, failed: 2, skipped: 2 })
  assert.deepEqual(report.failed(), ['a.test.ts'])
  assert.equal(report.flaky(), 2)
  assert.deepEqual(report.summary(), [
    '\n✗ a.test.ts: four\nError of four\n  repeat: npm test -- a.test.ts\n',
    '\n✗ a.test.ts: five\nError of five\n  repeat: npm test -- a.test.ts\n',
    ...[
      ['a.test.ts', 'three'],
      ['b.test.ts', 'a hook'],
    ].map(
      ([file, name]) =>
        `\n✗ DEFECT, flaky: failed, and passed when its file ran again alone:\n✗ ${file}: ${name}\n  Error of ${name}\n  repeat: npm test -- ${file}\n`,
    ),
    '- skipped 2 tests: no curl',
  ])
})
