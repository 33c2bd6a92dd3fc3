import assert from 'node:assert/strict'
import { test } from 'node:test'
import { stillWorld } from '../../../test/support/still-world.ts'
import type { Failure } from '../../core/failure.ts'
import { ActiveCalls, Cancellation } from './cancellation.ts'

/** Starts requests with these limits (ms); returns why each was cancelled. */
const begun = (limits: readonly number[]) => {
  const world = stillWorld()
  const live = new ActiveCalls()
  const stopped: (readonly [number, Failure['kind']])[] = []
  const stops = limits.map((limit) => {
    const stop = new Cancellation()
    live.add(stop)
    live.startDeadline(world, stop, limit)
    stop.onCancel((reason) => stopped.push([limit, reason.kind]))
    return stop
  })
  return { world, live, stops, stopped }
}

test('active calls: each is cancelled at its deadline, by one timer', async () => {
  const { world, stopped } = begun([30, 10, 20, 0, 10])
  assert.equal(world.timers(), 1)
  await world.advance(9)
  assert.equal(stopped.length, 0)
  await world.advance(1)
  assert.deepEqual(stopped, [
    [10, 'deadline'],
    [10, 'deadline'],
  ])
  await world.advance(100)
  assert.deepEqual(
    stopped.map(([limit]) => limit),
    [10, 10, 20, 30],
  )
  assert.equal(world.timers(), 0)
})

test('active calls: a finished call is not cancelled, and the last one removes the timer', async () => {
  const { world, live, stops, stopped } = begun([10, 20])
  const [first, second] = stops
  assert.ok(first && second)
  live.delete(first)
  await world.advance(15)
  assert.equal(stopped.length, 0)
  assert.equal(world.timers(), 1)
  live.delete(second)
  assert.equal(world.timers(), 0)
})

test('active calls: a cancel handler that throws does not stop the others', async () => {
  const { world, stops, stopped } = begun([10, 10, 10, 20])
  stops[1]?.onCancel(() => {
    throw new Error('a bug')
  })
  let errors = 0
  for (let turn = 0; turn < 3; turn++) await world.advance(10).catch(() => errors++)
  assert.equal(errors, 1)
  assert.deepEqual(
    stopped.map(([limit]) => limit),
    [10, 10, 20],
  )
  assert.equal(world.timers(), 0)
})
