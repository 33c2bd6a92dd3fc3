import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fail } from '../core/failure.ts'
import type { UpstreamCall, UpstreamListener } from '../core/world.ts'
import { withByteAccounting } from './buffered-bytes.ts'
import { heldBytes } from './load.ts'
import { turn } from './turns.ts'

const CALL = { method: 'POST', url: 'http://a.test/', headers: {}, connectTimeout: 0 } as const

const MAX_HELD = 4_000_000

/** A dialer whose events the test emits, and the bytes that are counted. */
const given = (type: string, call: UpstreamCall = CALL) => {
  const held = heldBytes()
  let upstream: UpstreamListener | undefined
  const events: string[] = []
  const dial = withByteAccounting(
    (_, listener) => {
      upstream = listener
      return { abort: () => events.push('abort'), resume: () => events.push('resume') }
    },
    { held, limit: () => MAX_HELD / 2, turn },
  )
  const ongoing = dial(call, {
    onHeaders: (status) => events.push(`head ${status}`),
    onBody: (chunk) => events.push(`bytes ${chunk.length}`) > 100,
    onEnd: () => events.push('end'),
    onFailure: ({ kind }) => events.push(`failed ${kind}`),
  })
  assert.ok(upstream)
  upstream.onHeaders(200, (name) => (name === 'content-type' ? type : undefined))
  return { upstream, ongoing, events, held: held.bytes }
}

const cases = [
  ['a JSON response', 'application/json', 300],
  ['a response without a content type', '', 300],
  ['server-sent events', 'text/event-stream; charset=utf-8', 0],
  ['NDJSON', 'application/x-ndjson', 0],
  ['an AWS event stream', 'application/vnd.amazon.eventstream', 0],
] as const

for (const [name, type, bytes] of cases)
  for (const ending of ['end', 'failed', 'abort'] as const)
    test(`buffered bytes: ${name}, after ${ending}`, () => {
      const { upstream, ongoing, events, held } = given(type)
      assert.equal(upstream.onBody(new Uint8Array(100)), false, 'the result of the listener is returned')
      upstream.onBody(new Uint8Array(200))
      assert.equal(held(), bytes)
      if (ending === 'end') upstream.onEnd()
      else if (ending === 'failed') upstream.onFailure(fail('reset', 'gone'))
      else ongoing.abort()
      assert.equal(held(), 0)
      ongoing.abort()
      assert.equal(held(), 0, 'subtracted once')
      const last = { end: 'end', failed: 'failed reset', abort: 'abort' }[ending]
      assert.deepEqual(events.slice(0, 4), ['head 200', 'bytes 100', 'bytes 200', last])
    })

test('buffered bytes: a collected stream counts until its end', () => {
  const { upstream, held } = given('text/event-stream', { ...CALL, buffered: true })
  upstream.onBody(new Uint8Array(100))
  upstream.onBody(new Uint8Array(200))
  assert.equal(held(), 300)
  upstream.onEnd()
  assert.equal(held(), 0)
})

test('buffered bytes: far above the limit a large response is aborted once, a small one is not', () => {
  const small = given('application/json')
  const { upstream, events, held } = given('application/json')
  for (let n = 0; n < 4; n++) upstream.onBody(new Uint8Array(1_000_000))
  assert.equal(held(), MAX_HELD)
  upstream.onBody(new Uint8Array(1))
  assert.equal(held(), 0)
  assert.deepEqual(events.slice(-2), ['abort', 'failed busy'])
  upstream.onBody(new Uint8Array(1))
  upstream.onEnd()
  assert.deepEqual([held(), events.length], [0, 7])
  small.upstream.onBody(new Uint8Array(1_000_000))
  assert.deepEqual(small.events, ['head 200', 'bytes 1000000'])
})

const MB = 1_048_576
const LIMIT = 16 * MB

/** Calls under one limit; the test emits their events and runs the turns of the event loop. */
const shared = () => {
  let turns: (() => void)[] = []
  const pieces: (() => void)[] = []
  let now = 0
  const held = heldBytes(() => now)
  const upstreams: UpstreamListener[] = []
  const dial = withByteAccounting(
    (_, listener) => {
      const own = upstreams.push(listener) - 1
      return { abort: () => {}, resume: () => void log.push(`${own} resumes`) }
    },
    {
      held,
      limit: () => LIMIT,
      turn: (run) => void pieces.push(run),
      nextTurn: (run) => void turns.push(run),
    },
  )
  const log: string[] = []
  const call = (client: string) => {
    const number = upstreams.length
    const ongoing = dial(
      { ...CALL, buffered: true, client },
      {
        onHeaders: () => {},
        onBody: () => true,
        onEnd: () => log.push(`${number} ends`),
        onFailure: ({ kind }) => log.push(`${number} ${kind}`),
        onPaused: (stopped) => log.push(`${number} ${stopped ? 'waits' : 'continues'}`),
      },
    )
    const upstream = upstreams[number]
    assert.ok(upstream)
    upstream.onHeaders(200, () => undefined)
    return { ongoing, upstream, read: (bytes: number) => upstream.onBody(new Uint8Array(bytes)) }
  }
  const run = (list: (() => void)[]) => {
    for (const task of list) task()
  }
  return {
    held,
    call,
    taken: () => log.splice(0),
    pass: (ms: number) => {
      now += ms
    },
    nextTurn() {
      const due = turns
      turns = []
      run(due)
    },
    nextPiece: () => run(pieces.splice(0, 1)),
    pieces: () => pieces.length,
  }
}

test('buffered bytes: above its share a client’s later responses wait for its first; other clients’ do not', () => {
  const { call, taken, nextTurn, nextPiece, held } = shared()
  const [first, second, third] = [call('a'), call('a'), call('a')]
  for (const call of [first, second]) {
    assert.equal(call.read(2 * MB), true)
    nextTurn()
  }
  assert.equal(third.read(0.5 * MB), false, 'above a quarter of the limit')
  assert.equal(second.read(1), false)
  assert.equal(first.read(0.25 * MB), true, 'the first is read to its end')
  assert.equal(call('b').read(0.25 * MB), true)
  nextTurn()
  assert.deepEqual(taken(), ['2 waits', '1 waits'])
  first.upstream.onEnd()
  nextTurn()
  assert.deepEqual(taken(), ['0 waits'], 'it counts until its last piece of work has run')
  nextPiece()
  assert.deepEqual(taken(), ['0 ends'])
  nextTurn()
  assert.deepEqual(taken(), ['1 continues', '1 resumes', '2 continues', '2 resumes'])
  assert.equal(held.bytes(), 2.75 * MB + 1)
})

test('buffered bytes: large responses complete one per turn, small ones at once', () => {
  const { call, taken, nextPiece, nextTurn, pieces } = shared()
  const large = [call('a'), call('b'), call('c')]
  for (const { read, upstream } of large) {
    read(0.5 * MB)
    upstream.onEnd()
  }
  taken()
  const small = call('d')
  small.read(1000)
  small.upstream.onEnd()
  assert.deepEqual(taken(), ['3 ends'])
  assert.equal(pieces(), 3)
  nextPiece()
  assert.deepEqual(taken(), ['0 ends'])
  large[1]?.ongoing.abort()
  nextPiece()
  nextPiece()
  nextTurn()
  assert.deepEqual(taken(), ['2 ends'], 'an aborted one does not complete')
})

test('buffered bytes: the bytes read per turn of the event loop are limited', () => {
  const { call, taken, nextTurn } = shared()
  const calls = Array.from({ length: 5 }, (_, at) => call(`client ${at}`))
  const read = calls.map(({ read }) => read(0.75 * MB))
  assert.deepEqual(read, [true, true, false, false, false])
  assert.deepEqual(taken(), ['2 waits', '3 waits', '4 waits'])
  assert.equal(call('other').read(1000), true, 'a small response is always read')
  nextTurn()
  assert.deepEqual(
    taken(),
    ['2', '3', '4'].flatMap((at) => [`${at} continues`, `${at} resumes`]),
  )
})

test('buffered bytes: unread bytes of a client count towards its share only while it reads', () => {
  const { call, taken, nextTurn, held, pass } = shared()
  held.changeUnread('a', 5 * MB, false)
  const first = call('a')
  assert.equal(first.read(0.5 * MB), false)
  taken()
  held.changeUnread('a', -2 * MB, true)
  nextTurn()
  assert.deepEqual(taken(), ['0 continues', '0 resumes'], 'it has read some bytes')
  held.changeUnread('a', 3 * MB, false)
  assert.equal(first.read(1), false)
  taken()
  pass(2_000)
  first.ongoing.resume()
  const other = call('a')
  other.read(0.5 * MB)
  nextTurn()
  assert.deepEqual(taken(), ['0 continues', '0 resumes'], 'it has stopped reading, so its unread bytes do not count')
})

test('buffered bytes: above half of the limit only the first response of all is read', () => {
  const { call, taken, nextTurn } = shared()
  const calls = Array.from({ length: 4 }, (_, at) => call(`client ${at}`))
  for (const { read } of calls) {
    read(2.5 * MB)
    nextTurn()
  }
  taken()
  assert.deepEqual(
    calls.map(({ read }) => read(1)),
    [true, false, false, false],
  )
  calls[0]?.upstream.onFailure(fail('reset', 'gone'))
  taken()
  nextTurn()
  assert.deepEqual(
    taken(),
    ['1', '2', '3'].flatMap((at) => [`${at} continues`, `${at} resumes`]),
  )
})
