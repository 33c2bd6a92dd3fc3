import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fail } from '../../core/failure.ts'
import type { UpstreamCall, UpstreamListener } from '../../core/world.ts'
import { heldBytes } from '../process/load.ts'
import { turn } from '../process/turns.ts'
import { withByteAccounting } from './buffered-bytes.ts'

const CALL = { method: 'POST', url: 'http://a.test/', headers: {}, connectTimeout: 0 } as const

const MOST = 4_000_000

/** A dial that is played by hand, and the sum it makes. */
const given = (type: string, call: UpstreamCall = CALL) => {
  const held = heldBytes()
  let upstream: UpstreamListener | undefined
  const heard: string[] = []
  const dial = withByteAccounting(
    (_, listener) => {
      upstream = listener
      return { abort: () => heard.push('abort'), resume: () => heard.push('resume') }
    },
    { held, most: () => MOST / 2, turn },
  )
  const ongoing = dial(call, {
    head: (status) => heard.push(`head ${status}`),
    bytes: (chunk) => heard.push(`bytes ${chunk.length}`) > 100,
    end: () => heard.push('end'),
    failed: ({ kind }) => heard.push(`failed ${kind}`),
  })
  assert.ok(upstream)
  upstream.head(200, (name) => (name === 'content-type' ? type : undefined))
  return { upstream, ongoing, heard, held: held.bytes }
}

const cases = [
  ['a whole answer', 'application/json', 300],
  ['an answer that does not say what it is', '', 300],
  ['server-sent events', 'text/event-stream; charset=utf-8', 0],
  ['lines', 'application/x-ndjson', 0],
  ['Amazon’s events', 'application/vnd.amazon.eventstream', 0],
] as const

for (const [name, type, bytes] of cases)
  for (const ending of ['end', 'failed', 'abort'] as const)
    test(`held: ${name} that comes to its ${ending}`, () => {
      const { upstream, ongoing, heard, held } = given(type)
      assert.equal(upstream.bytes(new Uint8Array(100)), false, 'the listener’s answer is passed on')
      upstream.bytes(new Uint8Array(200))
      assert.equal(held(), bytes)
      if (ending === 'end') upstream.end()
      else if (ending === 'failed') upstream.failed(fail('reset', 'gone'))
      else ongoing.abort()
      assert.equal(held(), 0)
      ongoing.abort()
      assert.equal(held(), 0, 'given back once')
      const last = { end: 'end', failed: 'failed reset', abort: 'abort' }[ending]
      assert.deepEqual(heard.slice(0, 4), ['head 200', 'bytes 100', 'bytes 200', last])
    })

test('held: a stream that is collected is in memory until it has ended', () => {
  const { upstream, held } = given('text/event-stream', { ...CALL, collected: true })
  upstream.bytes(new Uint8Array(100))
  upstream.bytes(new Uint8Array(200))
  assert.equal(held(), 300)
  upstream.end()
  assert.equal(held(), 0)
})

test('held: where all together is far too much, a large answer is given up, once, and a small one is not', () => {
  const small = given('application/json')
  const { upstream, heard, held } = given('application/json')
  for (let n = 0; n < 4; n++) upstream.bytes(new Uint8Array(1_000_000))
  assert.equal(held(), MOST)
  upstream.bytes(new Uint8Array(1))
  assert.equal(held(), 0)
  assert.deepEqual(heard.slice(-2), ['abort', 'failed busy'])
  upstream.bytes(new Uint8Array(1))
  upstream.end()
  assert.deepEqual([held(), heard.length], [0, 7])
  small.upstream.bytes(new Uint8Array(1_000_000))
  assert.deepEqual(small.heard, ['head 200', 'bytes 1000000'])
})

const MB = 1_048_576
const LIMIT = 16 * MB

/** Calls that are played by hand under one limit, and turns of the event loop that are too. */
const shared = () => {
  let turns: (() => void)[] = []
  const pieces: (() => void)[] = []
  let now = 0
  const held = heldBytes(() => now)
  const played: UpstreamListener[] = []
  const dial = withByteAccounting(
    (_, listener) => {
      const own = played.push(listener) - 1
      return { abort: () => {}, resume: () => void log.push(`${own} reads on`) }
    },
    {
      held,
      most: () => LIMIT,
      turn: (run) => void pieces.push(run),
      nextTurn: (run) => void turns.push(run),
    },
  )
  const log: string[] = []
  const call = (client: string) => {
    const number = played.length
    const ongoing = dial(
      { ...CALL, collected: true, client },
      {
        head: () => {},
        bytes: () => true,
        end: () => log.push(`${number} ends`),
        failed: ({ kind }) => log.push(`${number} ${kind}`),
        waits: (stopped) => log.push(`${number} ${stopped ? 'waits' : 'goes on'}`),
      },
    )
    const upstream = played[number]
    assert.ok(upstream)
    upstream.head(200, () => undefined)
    return { ongoing, upstream, read: (bytes: number) => upstream.bytes(new Uint8Array(bytes)) }
  }
  const run = (list: (() => void)[]) => {
    for (const one of list) one()
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

test('held: beyond its share a client’s later answers wait for its first, and other clients’ do not', () => {
  const { call, taken, nextTurn, nextPiece, held } = shared()
  const [first, second, third] = [call('a'), call('a'), call('a')]
  for (const one of [first, second]) {
    assert.equal(one.read(2 * MB), true)
    nextTurn()
  }
  assert.equal(third.read(0.5 * MB), false, 'beyond a quarter of the limit')
  assert.equal(second.read(1), false)
  assert.equal(first.read(0.25 * MB), true, 'the first is read to its end')
  assert.equal(call('b').read(0.25 * MB), true)
  nextTurn()
  assert.deepEqual(taken(), ['2 waits', '1 waits'])
  first.upstream.end()
  nextTurn()
  assert.deepEqual(taken(), ['0 waits'], 'it takes its memory until its end has had its turn')
  nextPiece()
  assert.deepEqual(taken(), ['0 ends'])
  nextTurn()
  assert.deepEqual(taken(), ['1 goes on', '1 reads on', '2 goes on', '2 reads on'])
  assert.equal(held.bytes(), 2.75 * MB + 1)
})

test('held: large answers that end together are ended one per turn, small ones at once', () => {
  const { call, taken, nextPiece, nextTurn, pieces } = shared()
  const large = [call('a'), call('b'), call('c')]
  for (const { read, upstream } of large) {
    read(0.5 * MB)
    upstream.end()
  }
  taken()
  const small = call('d')
  small.read(1000)
  small.upstream.end()
  assert.deepEqual(taken(), ['3 ends'])
  assert.equal(pieces(), 3)
  nextPiece()
  assert.deepEqual(taken(), ['0 ends'])
  large[1]?.ongoing.abort()
  nextPiece()
  nextPiece()
  nextTurn()
  assert.deepEqual(taken(), ['2 ends'], 'one that was aborted has no end')
})

test('held: in one turn of the event loop a bounded number of bytes is read', () => {
  const { call, taken, nextTurn } = shared()
  const calls = Array.from({ length: 5 }, (_, at) => call(`client ${at}`))
  const read = calls.map(({ read }) => read(0.75 * MB))
  assert.deepEqual(read, [true, true, false, false, false])
  assert.deepEqual(taken(), ['2 waits', '3 waits', '4 waits'])
  assert.equal(call('other').read(1000), true, 'a small answer is always read')
  nextTurn()
  assert.deepEqual(
    taken(),
    ['2', '3', '4'].flatMap((at) => [`${at} goes on`, `${at} reads on`]),
  )
})

test('held: what a client has not read counts towards its share while it reads, and no longer', () => {
  const { call, taken, nextTurn, held, pass } = shared()
  held.changeUnread('a', 5 * MB, false)
  const one = call('a')
  assert.equal(one.read(0.5 * MB), false)
  taken()
  held.changeUnread('a', -2 * MB, true)
  nextTurn()
  assert.deepEqual(taken(), ['0 goes on', '0 reads on'], 'it has read some')
  held.changeUnread('a', 3 * MB, false)
  assert.equal(one.read(1), false)
  taken()
  pass(2_000)
  one.ongoing.resume()
  const other = call('a')
  other.read(0.5 * MB)
  nextTurn()
  assert.deepEqual(taken(), ['0 goes on', '0 reads on'], 'it reads nothing: its oldest unread answers will be ended')
})

test('held: beyond half of the limit only the first of all answers is read', () => {
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
  calls[0]?.upstream.failed(fail('reset', 'gone'))
  taken()
  nextTurn()
  assert.deepEqual(
    taken(),
    ['1', '2', '3'].flatMap((at) => [`${at} goes on`, `${at} reads on`]),
  )
})
