import assert from 'node:assert/strict'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { ROWS_VARIABLE, Tally } from '../../test/conformance/tally.ts'
import { newRows, PAGE, page, readRows, withoutConversations } from './conformance.ts'

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

test('conformance: the page begins with what the results mean', () => {
  const row = { passed: 0, failed: 0, excluded: {}, noted: {} }
  const text = page([
    {
      ...row,
      table: 'requests',
      name: 'chat request → gemini',
      passed: 199,
      excluded: { 'unfit for gemini: n': 1, 'invalid here and upstream': 5 },
    },
    { ...row, table: 'requests', name: 'chat request → messages', passed: 3, excluded: { 'unfit for messages: n': 1 } },
    { ...row, table: 'requests', name: 'messages request → gemini', passed: 2 },
    {
      ...row,
      table: 'conversations',
      name: 'groq ← chat',
      passed: 8,
      excluded: { repeated: 1, 'failed over': 2, refused: 1 },
    },
  ])
  const [title, ...parts] = [...text.matchAll(/^## (.+)$/gm)].map(([, heading]) => heading)
  assert.deepEqual([title, parts[0]], ['In short', 'Conversations across vendors'])
  assert.match(
    text,
    /\| client \| to gemini \| to messages \|\n.*\n\| chat \| 99 % \| 75 % \|\n\| messages \| 100 % \| {2}\|/,
  )
  assert.match(
    text,
    /of 12 turns after the first, the vendor that was wanted answered\n {2}9, another one 2, and .* error in 1\./,
  )
})

test('conformance: the page without conversations keeps every other part', () => {
  const text = readFileSync(PAGE, 'utf8')
  const parts = (of: string) => [...of.matchAll(/^## (.+)$/gm)].map(([, heading]) => heading)
  assert.deepEqual(
    parts(withoutConversations(text)),
    parts(text).filter((heading) => heading !== 'Conversations across vendors'),
  )
  assert.match(withoutConversations(text), /\n\n\[Requests\]/)
  assert.doesNotMatch(withoutConversations(text), /vendor that was wanted|simulated vendors/)
})
