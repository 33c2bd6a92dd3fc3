import assert from 'node:assert/strict'
import { test } from 'node:test'
import { heldBytes } from '../runtime/load.ts'
import { unreadAnswers } from './unread-answers.ts'

const setUp = (most: number) => {
  const held = heldBytes()
  const ended: string[] = []
  const unread = unreadAnswers(held, () => most)
  const answer = (name: string) => ({ endUnread: (bytes: number) => void ended.push(`${name} ${bytes}`) })
  return { held, ended, unread, answer }
}

test('unread: bytes are counted until they are read', () => {
  const { held, ended, unread, answer } = setUp(100)
  const one = answer('one')
  unread.set('a', one, 60)
  unread.set('a', one, 40)
  assert.equal(held.bytes(), 40)
  unread.set('a', one, 0)
  unread.set('a', one, 0)
  assert.deepEqual([held.bytes(), ended], [0, []])
})

test('unread: when memory is short the oldest response of the largest client is aborted', () => {
  const { held, ended, unread, answer } = setUp(100)
  unread.set('small', answer('the first of all'), 10)
  unread.set('large', answer('large 1'), 30)
  unread.set('large', answer('large 2'), 30)
  unread.set('other', answer('other 1'), 20)
  assert.deepEqual(ended, [])
  unread.set('other', answer('other 2'), 20)
  assert.deepEqual(ended, ['large 1 30'])
  assert.equal(held.bytes(), 80)
})

test('unread: a response that was read in between counts as new', () => {
  const { ended, unread, answer } = setUp(100)
  const [one, two] = [answer('one'), answer('two')]
  unread.set('a', one, 40)
  unread.set('a', two, 40)
  unread.set('a', one, 0)
  unread.set('a', one, 40)
  unread.makeRoom(30)
  assert.deepEqual(ended, ['two 40'])
})

test('unread: no more memory is freed than is needed', () => {
  const { held, ended, unread, answer } = setUp(100)
  for (const name of ['one', 'two', 'three']) unread.set('a', answer(name), 30)
  unread.makeRoom(10)
  assert.deepEqual(ended, [])
  unread.makeRoom(11)
  assert.deepEqual(ended, ['one 30'])
  unread.makeRoom(60)
  assert.deepEqual([ended, held.bytes()], [['one 30', 'two 30'], 30])
})

test('unread: nothing is aborted if all unread responses would not suffice', () => {
  const { held, ended, unread, answer } = setUp(100)
  held.change(95)
  unread.set('a', answer('one'), 4)
  unread.makeRoom(10)
  assert.deepEqual(ended, [])
})

test('unread: memory is freed at the limit itself, because calls are refused there', () => {
  const { ended, unread, answer } = setUp(100)
  unread.set('a', answer('one'), 50)
  unread.set('b', answer('two'), 50)
  assert.deepEqual(ended, ['one 50'])
})
