import assert from 'node:assert/strict'
import { test } from 'node:test'
import { stillWorld } from '../../../test/support/still-world.ts'
import { testStore } from '../../../test/support/stores.ts'
import { good } from '../../core/failure.ts'
import type { StoredResponse } from '../../core/stored-response.ts'
import { writeFrame } from '../../protocols/framing/sse.ts'
import { BackgroundResponse } from './background-response.ts'
import { FollowedResponse } from './followed-response.ts'
import { applyRunNews } from './run-news.ts'

const event = (sequence_number: number, more: object = {}) => ({ type: 'x', sequence_number, ...more })
const body = (status: string) => ({ object: 'response', id: 'r', status, output: [] })

/** A background response, and a store in which its events arrive. */
const running = () => {
  const added: (readonly [number, string])[] = []
  const job = new BackgroundResponse({
    owner: 'me',
    users: [],
    queued: body('queued'),
    failed: () => body('failed'),
    mayRunAgain: false,
    hasRoom: () => true,
    save: async () => {},
  })
  const state = { fails: false }
  const responses = {
    ...testStore(),
    addEvents: async (_: string, __: string, from: number, lines: string) => {
      if (state.fails) return { kind: 'storage', message: 'no', source: 'gateway' } as never
      added.push([from, lines])
      return null
    },
  }
  const news = (stop: boolean, owner = 'me') => {
    const names = [{ id: 'r', owner }]
    applyRunNews({ jobs: new Map([['r', job]]), responses }, { stop: stop ? names : [], follow: stop ? [] : names })
  }
  const write = (...numbers: number[]) =>
    job.write(numbers.map((number) => writeFrame('x', JSON.stringify(event(number)))).join(''))
  return { job, added, state, news, write }
}
const settled = () => new Promise((resolve) => setImmediate(resolve))

test('news: events that are followed elsewhere are stored once, and again after a failure', async () => {
  const { added, state, news, write } = running()
  news(false)
  assert.deepEqual(added, [])
  write(0, 1)
  news(false)
  news(false)
  await settled()
  assert.deepEqual(added, [[0, `${JSON.stringify(event(0))}\n${JSON.stringify(event(1))}`]])
  write(2)
  state.fails = true
  news(false)
  await settled()
  state.fails = false
  news(false)
  await settled()
  assert.deepEqual(added.slice(1), [[2, JSON.stringify(event(2))]])
})

test('news: a response is stopped for its owner only', async () => {
  const { job, news } = running()
  news(true, 'you')
  await settled()
  assert.equal(job.hasEnded, false)
  news(true)
  await settled()
  assert.equal(job.response.status, 'cancelled')
})

const stored = (events: string | null): StoredResponse => ({
  id: 'r',
  owner: 'me',
  previous: null,
  status: 'failed',
  created: 1,
  input: '[]',
  response: '{}',
  events,
  items: [],
  maker: null,
})

/** A follower of a response whose process stores `lines`, and then ends. */
const followed = (end: StoredResponse | undefined) => {
  const world = stillWorld(() => {})
  const lines: string[] = []
  const state = { isRunning: true, fails: false, asked: 0 }
  const source = new FollowedResponse({
    id: 'r',
    owner: 'me',
    world,
    eventsOf: ({ events }) =>
      (events ?? JSON.stringify(event(0, { last: true })))
        .split('\n')
        .map((data, number) => ({ number, type: 'x', data })),
    responses: {
      ask: async () => good(state.asked++ === 0),
      events: async (_, __, from) =>
        state.fails
          ? ({ ok: false, failure: {} } as never)
          : good({ isRunning: state.isRunning, lines: state.isRunning ? lines.slice(from) : [] }),
      get: async () => good(end),
    },
  })
  let changes = 0
  const stop = source.watch(() => changes++)
  const numbers = () => source.events.map(({ number }) => number)
  return { world, lines, state, source, stop, numbers, changes: () => changes }
}
const line = (number: number) => JSON.stringify(event(number))

test('follow: events come as they are stored, and the rest with the end', async () => {
  const { world, lines, state, source, numbers } = followed(stored([0, 1, 2, 3].map(line).join('\n')))
  await world.settle()
  lines.push(line(0), line(1))
  await world.advance(500)
  assert.deepEqual([numbers(), source.hasEnded], [[0, 1], false])
  state.fails = true
  await world.advance(500)
  state.fails = false
  lines.push(line(2))
  await world.advance(500)
  assert.deepEqual(numbers(), [0, 1, 2])
  state.isRunning = false
  await world.advance(500)
  assert.deepEqual([numbers(), source.hasEnded, state.asked], [[0, 1, 2, 3], true, 1])
})

test('follow: where the process is gone with its events, the last one states the end', async () => {
  const { world, lines, state, source, numbers } = followed(stored(null))
  lines.push(line(0), line(1))
  await world.advance(500)
  state.isRunning = false
  await world.advance(500)
  assert.deepEqual([numbers(), source.hasEnded], [[0, 1, 2], true])
  assert.match(source.events.at(-1)?.data ?? '', /"last":true/)
})

test('follow: a response that was deleted ends, and one that is no longer watched is not read', async () => {
  const deleted = followed(undefined)
  deleted.state.isRunning = false
  await deleted.world.advance(500)
  assert.deepEqual([deleted.numbers(), deleted.source.hasEnded], [[], true])
  const left = followed(undefined)
  await left.world.settle()
  left.stop()
  const before = left.changes()
  await left.world.advance(10_000)
  assert.equal(left.changes(), before)
})

test('follow: a store that keeps failing ends the stream', async () => {
  const { world, state, source } = followed(undefined)
  state.fails = true
  for (let at = 0; at < 121; at++) await world.advance(500)
  assert.equal(source.hasEnded, true)
})
