import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '../../../test/support/upstream.ts'
import { type BatchResult, type QueueLimits, SignalQueue } from './signal-queue.ts'

const LIMITS: QueueLimits = { batch: 4, delay: 20, waiting: 10, bytes: 1_000, failures: 2, pause: 100 }
const ACCEPTED: BatchResult = { ok: true, refused: 0, why: null }
const FAILED: BatchResult = { ok: false, reason: 'failed', why: 'down' }

const queueOf = (send: (batch: readonly number[]) => Promise<BatchResult>, limits: Partial<QueueLimits> = {}) =>
  new SignalQueue<number>({ limits: { ...LIMITS, ...limits }, send, date: () => 7 })

const recorded = (result: () => BatchResult = () => ACCEPTED) => {
  const sent: (readonly number[])[] = []
  const send = async (batch: readonly number[]) => {
    sent.push(batch)
    return result()
  }
  return { sent, send }
}

test('signal queue: a full batch is sent at once, and the rest after the delay', async () => {
  const { sent, send } = recorded()
  const queue = queueOf(send)
  for (let item = 0; item < 6; item++) queue.add(item, 1)
  assert.deepEqual(sent, [[0, 1, 2, 3]])
  await until('the rest is sent', () => queue.state().exported === 6)
  assert.deepEqual(sent[1], [4, 5])
  const { waiting, waitingBytes, error, exportedAt } = queue.state()
  assert.deepEqual([waiting, waitingBytes, error, exportedAt], [0, 0, null, 7])
})

test('signal queue: the oldest items are dropped, by number and by bytes', () => {
  const stuck = queueOf(() => new Promise(() => {}))
  for (let item = 0; item < 20; item++) stuck.add(item, 1)
  // Four are on their way.
  assert.deepEqual([stuck.state().waiting, stuck.state().dropped.full], [10, 6])
  stuck.add(20, 995)
  assert.ok(stuck.state().waitingBytes <= 1_000)
  stuck.add(21, 5_000)
  assert.deepEqual([stuck.state().waiting, stuck.state().waitingBytes], [0, 0])
})

test('signal queue: after failures there is a pause, and then it continues', async () => {
  let isDown = true
  const { sent, send } = recorded(() => (isDown ? FAILED : ACCEPTED))
  const queue = queueOf(send)
  for (let item = 0; item < 8; item++) queue.add(item, 1)
  await until('two batches have failed', () => queue.state().dropped.failed === 8)
  for (let item = 8; item < 16; item++) queue.add(item, 1)
  await sleep(40)
  assert.equal(sent.length, 2)
  assert.equal(queue.state().error, 'down')
  isDown = false
  await until('all that waited is sent', () => queue.state().exported === 8)
  assert.equal(queue.state().error, null)
})

test('signal queue: refused items of an accepted batch are counted', async () => {
  const queue = queueOf(async () => ({ ok: true, refused: 3, why: 'some' }))
  for (let item = 0; item < 4; item++) queue.add(item, 1)
  await until('the batch is sent', () => queue.state().exported === 1)
  assert.deepEqual([queue.state().dropped.refused, queue.state().error], [3, 'some'])
})

test('signal queue: it closes in time, and counts what is lost', async () => {
  const { sent, send } = recorded()
  const open = queueOf(send)
  for (let item = 0; item < 3; item++) open.add(item, 1)
  await open.close(1_000)
  assert.deepEqual([sent, open.state().exported], [[[0, 1, 2]], 3])
  open.add(4, 1)
  assert.equal(open.state().dropped.closed, 1)

  const stuck = queueOf(() => new Promise(() => {}))
  for (let item = 0; item < 9; item++) stuck.add(item, 1)
  const since = performance.now()
  await stuck.close(50)
  assert.ok(performance.now() - since < 5_000)
  // Four are on their way, whose fate is not known.
  assert.deepEqual([stuck.state().dropped.closed, stuck.state().waiting], [5, 0])
})
