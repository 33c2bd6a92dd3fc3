import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inTurns, ownTurn, type Steps } from '../core/steps.ts'
import { pieceQueue, turn } from './turns.ts'

/** Numbers the turns of the event loop until stopped. */
const countTurns = () => {
  let number = 0
  let stopped = false
  const next = () => {
    number++
    if (!stopped) setImmediate(next)
  }
  setImmediate(next)
  return {
    now: () => number,
    stop: () => {
      stopped = true
    },
  }
}

test('turns: two pieces never share a turn of the event loop', async () => {
  const turns = countTurns()
  const at: number[] = []
  const order: string[] = []
  const work = function* (name: string): Steps<string> {
    for (let piece = 0; piece < 5; piece++) {
      at.push(turns.now())
      order.push(name)
      yield
    }
    at.push(turns.now())
    return name
  }
  const names = ['a', 'b', 'c']
  const done = await Promise.all(
    names.map((name): Promise<string> => inTurns(work(name) satisfies Steps<string>, turn)),
  )
  turns.stop()
  assert.deepEqual(done, names)
  assert.equal(new Set(at).size, 18)
  // The requests progress in turn; none waits until another has finished.
  assert.deepEqual(order.slice(0, 6), ['a', 'b', 'c', 'a', 'b', 'c'])
})

test('turns: ownTurn resolves in a turn of its own', async () => {
  const turns = countTurns()
  const at: number[] = []
  await Promise.all(
    [1, 2, 3, 4].map(async () => {
      await ownTurn(turn)
      at.push(turns.now())
    }),
  )
  turns.stop()
  assert.equal(new Set(at).size, 4)
})

test('turns: an error of one piece rejects its own promise and delays no other', async () => {
  const bad = function* (): Steps<number> {
    yield
    throw new Error('broken')
  }
  const good = function* (): Steps<number> {
    yield
    yield
    return 7
  }
  const [first, second] = await Promise.allSettled([inTurns(bad(), turn), inTurns(good(), turn)])
  assert.equal(first.status, 'rejected')
  assert.deepEqual(second, { status: 'fulfilled', value: 7 })
})

/** Timers that are moved by hand. */
const given = () => {
  let now = 0
  let soon: (() => void)[] = []
  const later: { readonly ms: number; readonly run: () => void }[] = []
  const seen: string[] = []
  const queue = pieceQueue({
    now: () => now,
    soon: (run) => void soon.push(run),
    later: (ms, run) => void later.push({ ms, run }),
  })
  return {
    seen,
    queue,
    pauses: () => later.map(({ ms }) => ms),
    takes: (name: string, ms: number) => () => {
      now += ms
      seen.push(name)
    },
    nextTurn() {
      const due = soon
      soon = []
      for (const run of due) run()
    },
    wake() {
      for (const { run } of later.splice(0)) run()
    },
  }
}

test('turns: after a piece the loop is free for half as long as it took, 50 ms at most', () => {
  const { queue, seen, pauses, takes, nextTurn, wake } = given()
  queue(takes('one', 40))
  queue(takes('two', 200))
  queue(takes('three', 1))
  queue(takes('four', 1))
  assert.deepEqual(seen, [], 'none runs at once')
  nextTurn()
  assert.deepEqual(seen, ['one'])
  nextTurn()
  assert.deepEqual([seen, pauses()], [['one'], [20]])
  wake()
  nextTurn()
  assert.deepEqual([seen, pauses()], [['one', 'two'], [50]])
  wake()
  assert.deepEqual(seen, ['one', 'two', 'three'])
  nextTurn()
  assert.deepEqual([seen, pauses()], [['one', 'two', 'three', 'four'], []], 'bounded pieces have no pause')
})

test('turns: pieces that continue earlier work precede those that begin', () => {
  const { queue, seen, takes, nextTurn } = given()
  queue(takes('one', 0))
  queue(takes('two', 0))
  nextTurn()
  queue(takes('one continues', 0), true)
  nextTurn()
  nextTurn()
  assert.deepEqual(seen, ['one', 'one continues', 'two'])
})
