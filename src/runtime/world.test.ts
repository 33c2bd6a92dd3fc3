import assert from 'node:assert/strict'
import { test } from 'node:test'
import { realWorld } from './world.ts'

const world = realWorld({ dial: () => ({ abort() {}, resume() {} }) })

test('world: a timer fires once, and not after it is cancelled', async () => {
  const fired: string[] = []
  world.later(5, () => fired.push('kept'))
  world.later(5, () => fired.push('cancelled'))()
  await new Promise((resolve) => setTimeout(resolve, 30))
  assert.deepEqual(fired, ['kept'])
})

for (const ms of [2 ** 31, 1e12, Number.POSITIVE_INFINITY])
  test(`world: a wait of ${ms} ms does not fire at once`, async () => {
    let fired = false
    const cancel = world.later(ms, () => {
      fired = true
    })
    await new Promise((resolve) => setTimeout(resolve, 20))
    cancel()
    assert.equal(fired, false)
  })

test('world: no timer fires before its time by the same clock', async () => {
  const waits = Array.from({ length: 400 }, (_, at) => 5 + at / 8)
  const early: number[] = []
  await Promise.all(
    waits.map(async (ms) => {
      // Start at different fractions of a ms.
      await new Promise((resolve) => setTimeout(resolve, ms % 7))
      const begun = world.now()
      await new Promise<void>((resolve) => void world.later(ms, resolve))
      if (world.now() - begun < ms) early.push(ms)
    }),
  )
  assert.deepEqual(early, [])
})

test('world: time advances, and random numbers are in range', () => {
  const before = world.now()
  assert.ok(world.now() >= before)
  assert.ok(Math.abs(world.date() - Date.now()) < 1_000)
  const random = world.random()
  assert.ok(random >= 0 && random < 1)
})
