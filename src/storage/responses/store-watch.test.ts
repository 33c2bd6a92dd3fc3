import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ThreadResult } from '../thread/thread-program.ts'
import { type StoreCallKind, StoreWatch } from './store-watch.ts'

type Result = ThreadResult<null>
const ANSWER: Result = { value: null }
const LATE: Result = { problem: 'no result within 1 s', cause: 'late', isReady: true }

/** A store whose calls and probes the test answers, and a clock that the test moves. */
const given = (writesWait: string | null = null) => {
  let now = 0
  let timers: { at: number; run: () => void }[] = []
  const calls: ((result: Result) => void)[] = []
  const probes: ((result: Result) => void)[] = []
  const changes: (string | null)[] = []
  const watch = new StoreWatch({
    now: () => now,
    later(ms, run) {
      const timer = { at: now + ms, run }
      timers.push(timer)
      return () => {
        timers = timers.filter((one) => one !== timer)
      }
    },
    timeout: () => 2_000,
    probe: () => new Promise((resolve) => probes.push(resolve)),
    writesWait: () => writesWait,
    silent: (ms) => `silent for ${ms} ms`,
    changed: (problem) => changes.push(problem),
  })
  const settle = async () => {
    for (let turn = 0; turn < 10; turn++) await null
  }
  return {
    watch,
    calls,
    probes,
    changes,
    /** The result of a call; undefined: it waits. */
    run(kind: StoreCallKind): { result: Result | undefined } {
      const call: { result: Result | undefined } = { result: undefined }
      void watch
        .run<null>(kind, () => new Promise((resolve) => calls.push(resolve)))
        .then((result) => {
          call.result = result
        })
      return call
    },
    async answer(from: ((result: Result) => void)[], result: Result) {
      from.shift()?.(result)
      await settle()
    },
    async pass(ms: number) {
      now += ms
      const due = timers.filter(({ at }) => at <= now)
      timers = timers.filter(({ at }) => at > now)
      for (const { run } of due) run()
      await settle()
    },
    settle,
  }
}

/** It has answered before, and does not any more. */
const silent = async (store: ReturnType<typeof given>) => {
  store.run('write')
  await store.answer(store.calls, ANSWER)
  const waiting = [store.run('read'), store.run('write')] as const
  await store.pass(1_000)
  assert.equal(store.probes.length, 1)
  assert.deepEqual(waiting, [{ result: undefined }, { result: undefined }])
  await store.answer(store.probes, LATE)
  return waiting
}
const problem = (text: string, cause: 'late' | 'refused') => ({ result: { problem: text, cause, isReady: true } })

test('store watch: a store that answers neither calls nor a probe is away: nothing waits for it until it is back', async () => {
  const store = given()
  assert.deepEqual(await silent(store), Array(2).fill(problem('silent for 2000 ms', 'late')))
  const made = store.calls.length
  const refused = [store.run('read'), store.run('write')]
  await store.settle()
  assert.deepEqual(refused, Array(2).fill(problem('silent for 2000 ms', 'refused')))
  assert.equal(store.calls.length, made)
  await store.pass(1_000)
  await store.answer(store.probes, ANSWER)
  assert.deepEqual(store.changes, ['silent for 2000 ms', null])
  store.calls.length = 0
  const read = store.run('read')
  await store.answer(store.calls, ANSWER)
  assert.deepEqual(read, { result: ANSWER })
})

test('store watch: while writes wait for another process, reads are made', async () => {
  const store = given('locked')
  const [read, write] = await silent(store)
  assert.deepEqual([read, write], [{ result: undefined }, problem('locked', 'late')])
  assert.equal(store.watch.problemOf('read'), null)
  assert.equal(store.watch.problemOf('write'), 'locked')
})

test('store watch: a slow store that answers a probe is not away', async () => {
  const store = given()
  store.run('read')
  await store.answer(store.calls, ANSWER)
  const slow = store.run('write')
  for (let second = 0; second < 5; second++) {
    await store.pass(1_000)
    assert.equal(store.probes.length, 1)
    await store.answer(store.probes, ANSWER)
  }
  assert.deepEqual(slow, { result: undefined })
  await store.answer(store.calls, ANSWER)
  assert.deepEqual([slow, store.changes], [{ result: ANSWER }, []])
})

test('store watch: an error is followed by a probe at once, and reads are made while only writes fail', async () => {
  const store = given()
  const failed = store.run('write')
  await store.answer(store.calls, { problem: 'the row is too large' })
  assert.deepEqual(failed, { result: { problem: 'the row is too large' } })
  assert.equal(store.watch.problemOf('write'), null)
  await store.answer(store.probes, { problem: 'read-only' })
  assert.equal(store.watch.problemOf('write'), 'read-only')
  assert.equal(store.watch.problemOf('read'), null)
  await store.pass(1_000)
  await store.answer(store.probes, ANSWER)
  assert.equal(store.watch.problemOf('write'), null)
  assert.deepEqual(store.changes, ['the row is too large', 'read-only', null])
})

test('store watch: a thread that is being loaded is not silent', async () => {
  const store = given()
  const first = store.run('read')
  await store.pass(1_000)
  await store.pass(1_000)
  assert.deepEqual([store.probes.length, first], [0, { result: undefined }])
})
