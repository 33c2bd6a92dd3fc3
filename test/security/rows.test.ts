import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { ROWS } from './rows.ts'

const root = join(import.meta.dirname, '..', '..')

test('rows: every attack of the checklist is there once', () => {
  const numbers = [...Array.from({ length: 41 }, (_, at) => at + 1), 50, 51, 52, 53, 54]
  assert.deepEqual(
    ROWS.map(({ id }) => id),
    numbers.map((number) => `SEC-${String(number).padStart(2, '0')}`),
  )
})

for (const { id, attack, tests = [], not } of ROWS)
  test(`rows: ${id} ${attack}`, () => {
    assert.ok(tests.length > 0 || (not ?? '').length > 10, 'a test, or the reason why there is none')
    for (const path of tests) {
      assert.ok(existsSync(join(root, path)), path)
      assert.match(readFileSync(join(root, path), 'utf8'), /\b(?:test|onBothServers)\(/)
    }
  })
