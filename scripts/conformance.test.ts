import assert from 'node:assert/strict'
import { existsSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { ROWS_VARIABLE, Tally } from '../test/conformance/tally.ts'
import { newRows, readRows } from './conformance.ts'

test('conformance: without recordings there are no rows', () => {
  const { file, done } = newRows()
  try {
    assert.deepEqual(readRows(file), [])
    writeFileSync(file, '')
    assert.deepEqual(readRows(file), [])
  } finally {
    done()
  }
})

test('conformance: rows are read in sorted order; an empty tally adds none', () => {
  const { file, done } = newRows()
  const before = process.env[ROWS_VARIABLE]
  process.env[ROWS_VARIABLE] = file
  try {
    new Tally('answers').print()
    assert.equal(existsSync(file), false)
    for (const name of ['two', 'one']) {
      const tally = new Tally('answers')
      tally.checkEach(name, [1], String, () => undefined)
      tally.print()
    }
    assert.deepEqual(
      readRows(file).map((row) => [row.name, row.passed]),
      [
        ['one', 1],
        ['two', 1],
      ],
    )
  } finally {
    if (before === undefined) delete process.env[ROWS_VARIABLE]
    else process.env[ROWS_VARIABLE] = before
    done()
  }
})
