import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MAX_QUEUED, TurnQueue } from './turn-queue.ts'
import { parseTask } from './web-socket-message.ts'

const given = () => {
  const done: number[] = []
  return { queue: new TurnQueue({ done: (held) => done.push(held) }), done }
}
const task = parseTask('not JSON')
if (!task) throw new Error('a message that is not JSON is a task: it is refused')

test('turn queue: returns the oldest task first', () => {
  const { queue, done } = given()
  queue.push(task, 1)
  queue.push(task, 2)
  assert.deepEqual([queue.shift()?.held, queue.shift()?.held, queue.shift()], [1, 2, undefined])
  assert.deepEqual(done, [])
})

test('turn queue: has room for a number of tasks, and for their size', () => {
  const { queue } = given()
  const large = { ...task, size: 10 }
  queue.push(large, 10)
  assert.deepEqual([queue.hasRoom(large, 19), queue.hasRoom(large, 20)], [false, true])
  queue.shift()
  assert.equal(queue.hasRoom(large, 19), true)
  for (let count = 0; count < MAX_QUEUED; count++) queue.push(task, 0)
  assert.equal(queue.hasRoom(task, 1_000_000), false)
})

test('turn queue: the messages of dropped tasks are no longer counted', () => {
  const { queue, done } = given()
  queue.push({ ...task, size: 10 }, 7)
  queue.push(task, 8)
  queue.clear()
  assert.deepEqual([done, queue.shift()], [[7, 8], undefined])
  assert.equal(queue.hasRoom({ ...task, size: 10 }, 10), true)
})
