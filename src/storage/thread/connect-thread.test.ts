import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { type CallOptions, ThreadClient, type ThreadOptions } from './connect-thread.ts'
import type { Emit } from './thread-program.ts'

/** The program of these threads, as a text. */
const CODE = `
  export const program = ({ start, isSlow, isMute }, emit) => {
    const until = isSlow ? performance.now() + 200 : 0
    while (performance.now() < until);
    emit('started', start)
    let held = []
    return {
      held,
      methods: {
        double: (number) => 2 * number,
        measure: (buffer) => buffer.byteLength,
        fail: () => { throw new Error('no such number') },
        hold: (number, call) => new Promise((resolve) => {
          held.push(() => resolve(number))
          if (number === 7) call.onCancel = () => resolve(emit('cancelled', number))
        }),
        release: () => { for (const answer of held.splice(0)) answer() },
        crash: () => { setImmediate(() => { throw new Error('broken') }) },
      },
      close() { if (isMute) return new Promise(() => setInterval(() => {}, 1_000)); for (const answer of this.held) answer() },
    }
  }`

type Data = { readonly start: number; readonly isSlow: boolean; readonly isMute: boolean }
type Program = (
  data: Data,
  emit: Emit<{ started: number; cancelled: number }>,
) => {
  readonly methods: {
    readonly double: (number: number) => number
    readonly measure: (buffer: ArrayBuffer) => number
    readonly fail: (_: null) => number
    readonly hold: (number: number) => Promise<number>
    readonly release: (_: null) => void
    readonly crash: (_: null) => void
  }
}

const closers: (() => unknown)[] = []
after(async () => {
  for (const close of closers.reverse()) await close()
})

const WITHIN = { limit: 30_000 }
const until = async (is: () => boolean, what: string) => {
  for (const end = performance.now() + 120_000; !is(); await sleep(5)) assert.ok(performance.now() < end, what)
}

let count = 0

for (const isShared of [false, true])
  describe(isShared ? 'a thread that programs share' : 'a thread', () => {
    const given = (more: Partial<ThreadOptions<Program>> & Partial<Data> = {}) => {
      const events: string[] = []
      const problems: string[] = []
      const times: string[] = []
      let starts = 0
      count++
      const thread = new ThreadClient<Program>({
        program: new URL(`data:text/javascript,${encodeURIComponent(CODE)}`),
        memory: { maxOldGenerationSizeMb: 32 },
        restart: 'always',
        shared: isShared ? `thread ${count}` : undefined,
        data: () => ({ start: ++starts, isSlow: more.isSlow ?? false, isMute: more.isMute ?? false }),
        events: {
          started: (number) => events.push(`started ${number}`),
          cancelled: (number) => events.push(`cancelled ${number}`),
        },
        onProblem: (problem) => problems.push(problem),
        onTime: (method) => times.push(method),
        ...more,
      })
      closers.push(() => thread.close(1_000))
      const double = (number: number) => thread.call('double', number, WITHIN)
      const hold = (number: number, options: CallOptions = WITHIN) => thread.call('hold', number, options)
      return { thread, double, hold, events, problems, times }
    }
    test('the first call starts it, and each one gets its own value', async () => {
      const { thread, double, events, times } = given()
      assert.equal(thread.isRunning, false)
      assert.deepEqual(await Promise.all([double(1), double(2), double(3)]), [
        { number: 1, value: 2 },
        { number: 2, value: 4 },
        { number: 3, value: 6 },
      ])
      assert.deepEqual(events, ['started 1'])
      assert.deepEqual(times, ['double', 'double', 'double'])
    })

    test('an exception of a method is the problem of its call only', async () => {
      const { thread, double, problems } = given()
      const results = await Promise.all([thread.call('fail', null, WITHIN), double(1)])
      assert.deepEqual(results, [
        { number: 1, problem: 'no such number' },
        { number: 2, value: 2 },
      ])
      assert.deepEqual(problems, [])
    })

    test('buffers are moved, not copied', async () => {
      const { thread } = given()
      const buffer = new ArrayBuffer(100)
      const result = await thread.call('measure', buffer, { ...WITHIN, moved: [buffer] })
      assert.ok('value' in result && result.value === 100)
      assert.equal(buffer.byteLength, 0)
    })

    test('a call without an answer fails after its limit and is cancelled, and its answer is ignored', async () => {
      const { thread, double, hold, events, times } = given()
      await double(1)
      const late = { problem: 'no result within 0.05 s', cause: 'late', isReady: true }
      assert.deepEqual(await Promise.all([hold(7, { limit: 50 }), hold(1, { limit: 50 })]), [late, late])
      await until(() => events.includes('cancelled 7'), 'it is cancelled')
      assert.deepEqual(times, ['double', 'hold'])
      thread.post('release', null)
      assert.ok('value' in (await double(2)))
      assert.deepEqual(times, ['double', 'hold', 'hold', 'double'])
    })

    test('calls beyond the queue are refused, and those that are late count until they are answered', async () => {
      const queue = { calls: 2, weight: 10, problem: (calls: number) => `${calls} calls wait` }
      const { thread, double, hold } = given({ queue })
      const full = { problem: '1 calls wait', cause: 'refused', isReady: true }
      await double(1)
      assert.ok('cause' in (await hold(1, { limit: 1, weight: 6 })))
      assert.deepEqual(await hold(2, { limit: 1, weight: 6 }), full)
      assert.ok('cause' in (await hold(2, { limit: 1, weight: 4 })))
      assert.deepEqual(await double(2), { ...full, problem: '2 calls wait' })
      thread.post('release', null)
      for (let result = await double(3); !('value' in result); result = await double(3)) await sleep(5)
    })

    test('the time of its start is part of the limits, or has one of its own', async () => {
      const slow = { isSlow: true }
      assert.deepEqual(await given(slow).thread.call('double', 1, { limit: 1 }), {
        problem: 'no result within 0.001 s',
        cause: 'late',
        isReady: false,
      })
      // The rest of the limit is for the call: the start takes 200 ms at least.
      const { hold } = given({ ...slow, startLimit: 30_000 })
      assert.deepEqual(await hold(1, { limit: 20 }), {
        problem: 'no result within 0.02 s',
        cause: 'late',
        isReady: true,
      })
    })

    test('it is started again a second after its end, not before', async () => {
      const { thread, double, hold, events, problems } = given()
      await double(1)
      const waiting = hold(1)
      thread.post('crash', null)
      const result = await waiting
      assert.deepEqual(result, { problem: 'its thread has ended: broken', cause: 'ended', isReady: true })
      assert.deepEqual(await double(1), { ...result, cause: 'refused' })
      assert.deepEqual(problems, ['its thread has ended: broken'])
      await until(() => events.length === 2, 'it is started again')
      assert.deepEqual(events, ['started 1', 'started 2'])
      assert.ok('value' in (await double(1)))
    })

    test('terminated, or ended when idle, it is started again by the next call', async () => {
      const { thread, double, hold, events, problems } = given({ restart: 'when called' })
      await double(1)
      const waiting = hold(1)
      thread.terminate('too slow')
      assert.equal(thread.ending, 1)
      assert.deepEqual(await waiting, { problem: 'too slow', cause: 'ended', isReady: true })
      assert.ok('value' in (await double(2)))
      await thread.end(30_000)
      assert.equal(thread.isRunning, false)
      assert.ok('value' in (await double(3)))
      assert.deepEqual(events, ['started 1', 'started 2', 'started 3'])
      await until(() => thread.ending === 0, 'the terminated one has ended')
      assert.deepEqual(problems, [])
    })

    test('close answers the calls that it completes, and refuses those after it', async () => {
      const { thread, double, hold, problems } = given()
      await double(1)
      const waiting = hold(1)
      const closed = thread.close(30_000)
      assert.deepEqual(await waiting, { number: 2, value: 1 })
      await closed
      assert.deepEqual(await double(1), { problem: 'the gateway is shutting down', cause: 'refused', isReady: true })
      assert.deepEqual(problems, [])
    })

    test('close waits no longer than its limit, and fails the calls without an answer', async () => {
      const { thread, double, hold, problems } = given({ isMute: true })
      await double(1)
      const waiting = hold(1)
      await thread.close(1)
      assert.deepEqual(await waiting, { problem: 'the gateway is shutting down', cause: 'ended', isReady: true })
      await until(() => !thread.isRunning, 'it has ended')
      assert.deepEqual(problems, [])
    })
  })

describe('programs that share a thread', () => {
  const both = () => {
    const name = `shared ${++count}`
    return [0, 1].map((start) => {
      const events: number[] = []
      const thread = new ThreadClient<Program>({
        program: new URL(`data:text/javascript,${encodeURIComponent(CODE)}`),
        memory: { maxOldGenerationSizeMb: 32 },
        restart: 'always',
        shared: name,
        data: () => ({ start, isSlow: false, isMute: false }),
        events: { started: (number) => events.push(number), cancelled() {} },
      })
      closers.push(() => thread.close(1_000))
      return { thread, events, double: (number: number) => thread.call('double', number, WITHIN) }
    })
  }

  test('each answers its own calls, and goes on when the other one ends', async () => {
    const [a, b] = both()
    assert.ok(a && b)
    const results = await Promise.all([a.double(1), b.double(2)])
    assert.deepEqual(
      results.map((result) => 'value' in result && result.value),
      [2, 4],
    )
    assert.deepEqual([a.events, b.events], [[0], [1]])
    await a.thread.close(30_000)
    assert.ok('value' in (await b.double(3)))
    await b.thread.end(30_000)
    // Another thread.
    assert.ok('value' in (await b.double(4)))
    assert.deepEqual(b.events, [1, 1])
  })

  test('an error that ends the thread ends both, and both start again', async () => {
    const [a, b] = both()
    assert.ok(a && b)
    await Promise.all([a.double(1), b.double(2)])
    const held = b.thread.call('hold', 1, WITHIN)
    a.thread.post('crash', null)
    const lost = await held
    assert.ok('problem' in lost)
    assert.match(lost.problem, /^its thread has ended: broken$/)
    await until(() => a.events.length === 2 && b.events.length === 2, 'both have started again')
    assert.ok('value' in (await b.double(3)))
  })
})
