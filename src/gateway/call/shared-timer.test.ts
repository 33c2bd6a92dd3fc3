import assert from 'node:assert/strict'
import { test } from 'node:test'
import { stillWorld } from '../../../test/support/still-world.ts'
import type { World } from '../../core/world.ts'
import { NEVER, SharedTimer, type TimerClient } from './shared-timer.ts'

class Sleeping implements TimerClient {
  place = -1
  until = NEVER
  readonly #ring: () => void

  constructor(ring: () => void) {
    this.#ring = ring
  }

  onDeadline(): void {
    this.#ring()
  }
}

const ready = (world: World = stillWorld()) => {
  const alarms = new SharedTimer<TimerClient>()
  const rung: (readonly [name: string, at: number])[] = []
  const sleeper = (name: string, ms: number, then: (one: TimerClient) => void = () => {}): TimerClient => {
    const one: TimerClient = new Sleeping(() => {
      rung.push([name, world.now() - 1_000])
      then(one)
    })
    alarms.set(world, one, world.now() + ms)
    return one
  }
  return { alarms, rung, sleeper }
}

test('alarms: each rings in its time, on one timer, and again when it wishes to', async () => {
  const world = stillWorld()
  const { alarms, rung, sleeper } = ready(world)
  sleeper('late', 30)
  const again = sleeper('again', 10, (one) => {
    if (rung.length < 3) alarms.set(world, one, world.now() + 10)
  })
  const gone = sleeper('gone', 20)
  assert.equal(world.timers(), 1)
  alarms.delete(gone)
  await world.pass(100)
  assert.deepEqual(rung, [
    ['again', 10],
    ['again', 20],
    ['late', 30],
    ['again', 30],
  ])
  assert.equal(alarms.delete(again), true)
  assert.equal(alarms.delete(again), false)
  assert.equal(world.timers(), 0)
})

test('alarms: whoever wishes to sleep longer moves no timer and is not rung too early', async () => {
  const world = stillWorld()
  const { rung, sleeper } = ready(world)
  const one = sleeper('one', 10)
  await world.pass(5)
  one.until += 20
  await world.pass(20)
  assert.deepEqual(rung, [])
  await world.pass(5)
  assert.deepEqual(rung, [['one', 30]])
})

test('alarms: what has come while the process stood still is read before a time is held to be over', async () => {
  const still = stillWorld()
  // Every timer is late by half a second.
  const world: World = { ...still, later: (ms, run) => still.later(ms === 0 ? 0 : ms + 500, run) }
  const { rung, sleeper } = ready(world)
  const heard = sleeper('heard', 100)
  sleeper('silent', 100)
  // The system has had this since before the time was over; it is read when the timers of this turn have run.
  still.later(600, () => {
    heard.until += 1_000
  })
  await still.pass(1_000)
  assert.deepEqual(rung, [['silent', 600]])
})

test('alarms: it may stand still again while that is read', async () => {
  const still = stillWorld()
  const world: World = { ...still, later: (ms, run) => still.later(ms + 500, run) }
  const { rung, sleeper } = ready(world)
  sleeper('silent', 100)
  const heard = sleeper('heard', 900)
  // Here since it stood still for the second time.
  still.later(1_101, () => {
    heard.until += 10_000
  })
  await still.pass(2_000)
  assert.deepEqual(rung, [['silent', 1_100]])
})

test('alarms: whoever begins to wait while that is read puts nobody off', async () => {
  const still = stillWorld()
  const world: World = { ...still, later: (ms, run) => still.later(ms === 0 ? 0 : ms + 500, run) }
  const { rung, sleeper } = ready(world)
  sleeper('silent', 100)
  still.later(600, () => sleeper('new', 10_000))
  await still.pass(1_000)
  assert.deepEqual(rung, [['silent', 600]])
})

test('alarms: thousands are asked together, a little late, and not for each of them anew', async () => {
  const world = stillWorld()
  const asked: number[] = []
  const { alarms, rung, sleeper } = ready({
    ...world,
    later: (ms, run) =>
      world.later(ms, () => {
        asked.push(world.now())
        run()
      }),
  })
  for (let at = 0; at < 5_000; at++) sleeper(String(at), 10 + at / 10)
  assert.equal(alarms.size, 5_000)
  await world.pass(1_000)
  assert.equal(rung.length, 5_000)
  assert.ok(asked.length < 20, `asked ${asked.length} times in half a second`)
  for (const [name, at] of rung)
    assert.ok(at >= 10 + Number(name) / 10 && at < 60 + Number(name) / 10, `${name}: ${at}`)
})

test('alarms: bugs in some of thousands do not make the others late', async () => {
  const world = stillWorld()
  const { rung, sleeper } = ready(world)
  for (let at = 0; at < 5_000; at++)
    sleeper(String(at), 10, () => {
      if (at < 20) throw new Error('a bug')
    })
  await world.pass(9)
  let errors = 0
  for (let turn = 0; turn < 30; turn++) await world.pass(1).catch(() => errors++)
  assert.equal(errors, 20)
  assert.equal(rung.length, 5_000)
})
