import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FreshReads } from './fresh-reads.ts'

const given = () => {
  let now = 0
  const timers: { readonly at: number; readonly run: () => void }[] = []
  const reads: ((isRead: boolean) => void)[] = []
  const fresh = new FreshReads({
    read: () => new Promise((resolve) => reads.push(resolve)),
    now: () => now,
    after: (ms, run) => timers.push({ at: now + ms, run }),
  })
  const settle = () => new Promise(setImmediate)
  const pass = async (ms: number) => {
    now += ms
    for (const timer of timers.filter(({ at }) => at <= now)) timer.run()
    await settle()
  }
  return { fresh, reads, settle, pass }
}

test('fresh reads: those who wait share a read that begins after them', async () => {
  const { fresh, reads, settle, pass } = given()
  const first = fresh.read()
  await settle()
  assert.equal(reads.length, 1)
  const others = Array.from({ length: 50 }, () => fresh.read())
  await settle()
  assert.equal(reads.length, 1)
  reads[0]?.(true)
  assert.equal(await first, true)
  await pass(100)
  assert.equal(reads.length, 2)
  reads[1]?.(true)
  assert.deepEqual(new Set(await Promise.all(others)), new Set([true]))
})

test('fresh reads: at most ten a second, however many calls there are', async () => {
  const { fresh, reads, settle, pass } = given()
  for (let ms = 0; ms < 1_000; ms += 10) {
    void fresh.read()
    await settle()
    reads.at(-1)?.(true)
    await pass(10)
  }
  assert.ok(reads.length <= 11, String(reads.length))
})

test('fresh reads: without an answer those who wait are released, and too many are refused at once', async () => {
  const { fresh, settle, pass, reads } = given()
  const all = Array.from({ length: 1_001 }, () => fresh.read())
  assert.equal(await all.at(-1), false)
  await settle()
  await pass(2_000)
  assert.deepEqual(new Set(await Promise.all(all)), new Set([false]))
  // The next one is tried again.
  const next = fresh.read()
  await pass(100)
  reads.at(-1)?.(true)
  assert.equal(await next, true)
})
