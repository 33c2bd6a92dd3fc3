import assert from 'node:assert/strict'
import { test } from 'node:test'
import { stillWorld } from '../../test/support/still-world.ts'
import { NEVER, SharedTimer, type TimerClient } from './shared-timer.ts'
import type { World } from './world.ts'

class TestClient implements TimerClient {
  place = -1
  until = NEVER
  readonly #onFire: () => void

  constructor(onFire: () => void) {
    this.#onFire = onFire
  }

  onDeadline(): void {
    this.#onFire()
  }
}

const ready = (world: World = stillWorld()) => {
  const timer = new SharedTimer<TimerClient>()
  const fired: (readonly [name: string, at: number])[] = []
  const addClient = (name: string, ms: number, then: (one: TimerClient) => void = () => {}): TimerClient => {
    const one: TimerClient = new TestClient(() => {
      fired.push([name, world.now() - 1_000])
      then(one)
    })
    timer.set(world, one, world.now() + ms)
    return one
  }
  return { timer, fired, addClient }
}

test('shared timer: each deadline fires in time, on one timer, and can be set again', async () => {
  const world = stillWorld()
  const { timer, fired, addClient } = ready(world)
  addClient('late', 30)
  const again = addClient('again', 10, (one) => {
    if (fired.length < 3) timer.set(world, one, world.now() + 10)
  })
  const gone = addClient('gone', 20)
  assert.equal(world.timers(), 1)
  timer.delete(gone)
  await world.advance(100)
  assert.deepEqual(fired, [
    ['again', 10],
    ['again', 20],
    ['late', 30],
    ['again', 30],
  ])
  assert.equal(timer.delete(again), true)
  assert.equal(timer.delete(again), false)
  assert.equal(world.timers(), 0)
})

test('shared timer: postponing a deadline moves no timer and does not fire early', async () => {
  const world = stillWorld()
  const { fired, addClient } = ready(world)
  const one = addClient('one', 10)
  await world.advance(5)
  one.until += 20
  await world.advance(20)
  assert.deepEqual(fired, [])
  await world.advance(5)
  assert.deepEqual(fired, [['one', 30]])
})

test('shared timer: after a stall, pending input is read before deadlines fire', async () => {
  const still = stillWorld()
  // Every timer fires half a second late.
  const world: World = { ...still, later: (ms, run) => still.later(ms === 0 ? 0 : ms + 500, run) }
  const { fired, addClient } = ready(world)
  const heard = addClient('heard', 100)
  addClient('silent', 100)
  // This input arrived before the deadline. It is read after the timers of this turn.
  still.later(600, () => {
    heard.until += 1_000
  })
  await still.advance(1_000)
  assert.deepEqual(fired, [['silent', 600]])
})

test('shared timer: a second stall while pending input is read', async () => {
  const still = stillWorld()
  const world: World = { ...still, later: (ms, run) => still.later(ms + 500, run) }
  const { fired, addClient } = ready(world)
  addClient('silent', 100)
  const heard = addClient('heard', 900)
  // This input arrived during the second stall.
  still.later(1_101, () => {
    heard.until += 10_000
  })
  await still.advance(2_000)
  assert.deepEqual(fired, [['silent', 1_100]])
})

test('shared timer: a deadline set while pending input is read delays no other', async () => {
  const still = stillWorld()
  const world: World = { ...still, later: (ms, run) => still.later(ms === 0 ? 0 : ms + 500, run) }
  const { fired, addClient } = ready(world)
  addClient('silent', 100)
  still.later(600, () => addClient('new', 10_000))
  await still.advance(1_000)
  assert.deepEqual(fired, [['silent', 600]])
})

test('shared timer: thousands of deadlines share a few scans, slightly late', async () => {
  const world = stillWorld()
  const asked: number[] = []
  const { timer, fired, addClient } = ready({
    ...world,
    later: (ms, run) =>
      world.later(ms, () => {
        asked.push(world.now())
        run()
      }),
  })
  for (let at = 0; at < 5_000; at++) addClient(String(at), 10 + at / 10)
  assert.equal(timer.size, 5_000)
  await world.advance(1_000)
  assert.equal(fired.length, 5_000)
  assert.ok(asked.length < 20, `asked ${asked.length} times in half a second`)
  for (const [name, at] of fired)
    assert.ok(at >= 10 + Number(name) / 10 && at < 60 + Number(name) / 10, `${name}: ${at}`)
})

test('shared timer: clients that throw do not delay thousands of others', async () => {
  const world = stillWorld()
  const { fired, addClient } = ready(world)
  for (let at = 0; at < 5_000; at++)
    addClient(String(at), 10, () => {
      if (at < 20) throw new Error('a bug')
    })
  await world.advance(9)
  let errors = 0
  for (let turn = 0; turn < 30; turn++) await world.advance(1).catch(() => errors++)
  assert.equal(errors, 20)
  assert.equal(fired.length, 5_000)
})
