import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fail } from '../../core/failure.ts'
import type { UpstreamCall, UpstreamListener } from '../../core/world.ts'
import { countingDial } from './held.ts'

const CALL = { method: 'POST', url: 'http://a.test/', headers: {}, connectTimeout: 0 } as const

const MOST = 4_000_000

/** A dial that is played by hand, and the sum it makes. */
const given = (type: string, call: UpstreamCall = CALL) => {
  let held = 0
  let upstream: UpstreamListener | undefined
  const heard: string[] = []
  const dial = countingDial(
    (_, listener) => {
      upstream = listener
      return { abort: () => heard.push('abort'), resume: () => heard.push('resume') }
    },
    (by) => {
      held += by
    },
    () => held <= MOST,
  )
  const ongoing = dial(call, {
    head: (status) => heard.push(`head ${status}`),
    bytes: (chunk) => heard.push(`bytes ${chunk.length}`) > 100,
    end: () => heard.push('end'),
    failed: ({ kind }) => heard.push(`failed ${kind}`),
  })
  assert.ok(upstream)
  upstream.head(200, (name) => (name === 'content-type' ? type : undefined))
  return { upstream, ongoing, heard, held: () => held }
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
