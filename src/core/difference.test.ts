import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { aroundChanges, type DifferencePart, difference, signedLines, wordDifference } from './difference.ts'

const without = (parts: readonly DifferencePart[], kind: string) =>
  parts.filter(({ is }) => is !== kind).map(({ text }) => text)

test('a difference contains both lists', () => {
  const entries = fc.array(fc.constantFrom('a', 'b', 'c', ''), { maxLength: 30 })
  fc.assert(
    fc.property(entries, entries, (one, other) => {
      const parts = difference(one, other)
      assert.deepEqual(without(parts, 'added'), one)
      assert.deepEqual(without(parts, 'removed'), other)
    }),
  )
})

test('one entry that was added in the middle is the only change', () => {
  const before = Array.from({ length: 20 }, (_, at) => `line ${at}`)
  const parts = difference(before, before.toSpliced(10, 0, 'new'))
  assert.deepEqual(
    parts.filter(({ is }) => is !== 'same'),
    [{ is: 'added', text: 'new' }],
  )
})

test('beyond the limit the middle is replaced as a whole, and its ends stay', () => {
  const middle = (name: string) => Array.from({ length: 2_001 }, (_, at) => `${name} ${at}`)
  const parts = difference(['first', ...middle('old'), 'last'], ['first', ...middle('new'), 'last'])
  assert.deepEqual(
    ['same', 'removed', 'added'].map((kind) => parts.filter(({ is }) => is === kind).length),
    [2, 2_001, 2_001],
  )
})

test('words: white space is kept, and neighbours are one part', () => {
  const text = fc.array(fc.constantFrom('a', 'b', ' ', '\n'), { maxLength: 30 }).map((parts) => parts.join(''))
  fc.assert(
    fc.property(text, text, (one, other) => {
      const parts = wordDifference(one, other)
      assert.equal(without(parts, 'added').join(''), one)
      assert.equal(without(parts, 'removed').join(''), other)
    }),
  )
  assert.deepEqual(wordDifference('a b c', 'a x c'), [
    { is: 'same', text: 'a ' },
    { is: 'removed', text: 'b' },
    { is: 'added', text: 'x' },
    { is: 'same', text: ' c' },
  ])
})

test('only parts near a change are shown', () => {
  const before = Array.from({ length: 20 }, (_, at) => `line ${at}`)
  const parts = aroundChanges(difference(before, before.with(10, 'other')), 1)
  assert.deepEqual(
    parts.map((part) => part && `${part.is} ${part.text}`),
    [null, 'same line 9', 'removed line 10', 'added other', 'same line 11', null],
  )
})

test('each line has its sign; equal texts have none', () => {
  assert.deepEqual(signedLines('one\ntwo\r\nthree\n', 'one\n2\nthree'), ['  one', '- two', '+ 2', '  three'])
  assert.deepEqual(signedLines('', 'a\n'), ['+ a'])
  assert.deepEqual(signedLines('a\n', 'a'), [])
})
