import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { isPartOfPage } from '../pages/conformance.ts'
import { ALONE, divide, isolationOf, LANES, longestFirst } from './lanes.ts'

const root = join(import.meta.dirname, '..', '..')
const files = globSync(
  ['{src,packages,suite}/**/*.test.ts', 'test/**/*.test.ts', 'scripts/**/*.test.ts', 'tools/*/**/*.test.ts'],
  {
    cwd: root,
  },
)

for (const [name, { has }] of Object.entries(LANES))
  test(`lanes: ${name} has files, and npm runs it`, () => {
    assert.ok(files.some(has))
    const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
    if (name === 'quick') assert.match(scripts.test, /scripts\/test\.ts$/)
    else assert.ok(scripts[`test:${name}`].endsWith(`scripts/test.ts --lane=${name}`))
  })

test('lanes: all has every file; quick starts one process at most', () => {
  assert.ok(files.every(LANES.all.has))
  assert.deepEqual(
    files.filter((file) => LANES.quick.has(file) && file.startsWith('test/e2e/')),
    ['test/e2e/quick.test.ts'],
  )
})

test('lanes: conformance has every file that docs/conformance.md is made from', () => {
  assert.deepEqual(
    files.filter(isPartOfPage).filter((file) => !LANES.conformance.has(file)),
    [],
  )
})

const isolations = [
  ['src/policy/health/breaker.test.ts', 'shared'],
  ['src/server/server-limits.test.ts', 'process'],
  ['tools/sim/sim.test.ts', 'process'],
  ['test/e2e/errors.test.ts', 'process'],
  ['test/e2e/timers.test.ts', 'alone'],
  ['src/runtime/heap-tuning.test.ts', 'alone'],
  ['test/security/regexes.test.ts', 'alone'],
] as const
for (const [file, isolation] of isolations)
  test(`lanes: ${file} runs ${isolation}`, () => assert.equal(isolationOf(file), isolation))

for (const prefix of ALONE)
  test(`lanes: a file begins with ${prefix}`, () => assert.ok(files.some((file) => file.startsWith(prefix))))

test('lanes: files start longest first; equal ones by name', () => {
  assert.deepEqual(longestFirst(['a', 'b', 'c', 'd'], { c: 9, b: 2 }), ['c', 'b', 'a', 'd'])
})

test('lanes: parts have about as much to do, and every file once', () => {
  assert.deepEqual(divide(['a', 'b', 'c', 'd'], 2, { a: 3, b: 2, c: 2, d: 3 }), [
    ['a', 'b'],
    ['d', 'c'],
  ])
  assert.deepEqual(divide(['a'], 2, {}), [['a']])
  assert.deepEqual(divide([], 2, {}), [])
})
