import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { parsePlace } from '../../../dashboard/src/address.ts'
import {
  barOf,
  besideOf,
  type ListedAttempt,
  type ListedRequest,
  merged,
  queryOf,
  resultOf,
  type Segment,
  segmentsOf,
  ticksOf,
} from '../../../dashboard/src/request-row.ts'

const NO_USAGE = { input: null, output: null, cache_read: null, cache_write: null, reasoning: null, source: null }
const attempt = (members: Partial<ListedAttempt> = {}): ListedAttempt => ({
  n: 0,
  provider: 'openai',
  model: 'm',
  credential: 'a1f3',
  hedge: false,
  outcome: 'ok',
  kind: null,
  status: 200,
  started_ms: 0,
  first_content_ms: null,
  ended_ms: null,
  ...members,
})
const request = (members: Partial<ListedRequest> = {}): ListedRequest => ({
  id: 'req_a',
  received_at: '2026-11-23T10:00:00.000Z',
  style: 'chat',
  stream: true,
  client: 'openai-sdk',
  asked: 'm',
  provider: 'openai',
  model: 'm',
  key: null,
  team: null,
  outcome: 'answered',
  status: 200,
  code: null,
  cache: 'off',
  first_content_ms: null,
  total_ms: 1_000,
  overhead_us: 500,
  usage: NO_USAGE,
  cost: null,
  attempts: [attempt()],
  ...members,
})
const place = (search: string) => {
  const found = parsePlace('/dashboard/requests', search)
  assert.ok(found)
  return found
}

test('each request has one result, as the API filters it', () => {
  for (const [members, result] of [
    [{}, 'answered'],
    [{ attempts: [attempt({ outcome: 'failed' }), attempt()] }, 'fell_back'],
    [{ attempts: [attempt({ outcome: 'interrupted' }), attempt()] }, 'fell_back'],
    [{ attempts: [attempt({ outcome: 'abandoned' }), attempt({ hedge: true })] }, 'answered'],
    [{ cache: 'hit', attempts: [] }, 'cached'],
    [{ cache: 'shared', attempts: [attempt(), attempt()] }, 'cached'],
    [{ outcome: 'refused', status: 404 }, 'refused'],
    [{ outcome: 'refused', status: 503 }, 'failed'],
    [{ outcome: 'interrupted' }, 'broke_off'],
    [{ outcome: 'client_gone', status: 499 }, 'client_left'],
    [{ outcome: 'something new' }, 'unknown'],
  ] as const)
    assert.equal(resultOf(request(members)), result)
})

describe('the waterfall', () => {
  const fallback = request({
    total_ms: 3_400,
    attempts: [
      attempt({ outcome: 'failed', kind: 'timeout', started_ms: 0, ended_ms: 3_000 }),
      attempt({ provider: 'groq', started_ms: 3_000, first_content_ms: 100, ended_ms: 3_400 }),
    ],
  })

  test('has the phases of each attempt', () => {
    assert.deepEqual(
      segmentsOf(fallback).map(({ kind, from, to }) => [kind, Math.round(from * 3_400), Math.round(to * 3_400)]),
      [
        ['lost', 0, 3_000],
        ['waiting', 3_000, 3_100],
        ['answer', 3_100, 3_400],
      ],
    )
  })

  test('on one line covers nothing twice, whatever the attempts are', () => {
    const ms = fc.integer({ min: -50, max: 5_000 })
    const any = fc.record({
      outcome: fc.constantFrom('ok', 'failed', 'abandoned', 'interrupted'),
      started_ms: ms,
      first_content_ms: fc.option(ms),
      ended_ms: fc.option(ms),
    })
    fc.assert(
      fc.property(fc.array(any, { maxLength: 6 }), fc.option(ms), (attempts, total) => {
        const one = request({ total_ms: total, attempts: attempts.map((members) => attempt(members)) })
        let end = 0
        for (const { from, to } of barOf(one)) {
          assert.ok(from >= end && to > from && to <= 1, `${from} to ${to} after ${end}`)
          end = to
        }
        for (const { from, to } of segmentsOf(one)) assert.ok(from >= 0 && to >= from && to <= 1)
      }),
    )
  })

  test('draws the attempt of a hedge that was not needed beside the other', () => {
    const hedged = request({
      attempts: [
        attempt({ outcome: 'abandoned', started_ms: 0, ended_ms: 700 }),
        attempt({ provider: 'groq', hedge: true, started_ms: 500, first_content_ms: 200, ended_ms: 1_000 }),
      ],
    })
    const kinds = (segments: readonly Segment[]) => segments.map(({ kind, from, to }) => [kind, from, to])
    assert.deepEqual(kinds(besideOf(hedged)), [['beside', 0, 0.7]])
    assert.deepEqual(kinds(barOf(hedged)), [
      ['waiting', 0.5, 0.7],
      ['answer', 0.7, 1],
    ])
  })

  test('has round ticks', () => {
    assert.deepEqual(ticksOf(3_412), [0, 1_000, 2_000, 3_000])
    assert.deepEqual(ticksOf(1), [0, 0.2, 0.4, 0.6, 0.8, 1])
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 10_000_000 }), (span) => {
        const ticks = ticksOf(span)
        assert.ok(ticks.length >= 2 && ticks.length <= 7 && (ticks.at(-1) ?? 0) <= span)
      }),
    )
  })
})

describe('filters', () => {
  test('are parameters of the API', () => {
    assert.deepEqual(queryOf(place('?status=failed,fell_back&http=5xx&cost_over=0.01&colour=red&q=a b')), {
      result: ['failed', 'fell_back'],
      status: ['5xx'],
      min_cost: ['0.01'],
      q: ['a b'],
    })
  })
})

test('a list and its events have each request once, the last received first', () => {
  const [a, b, c] = ['a', 'b', 'c'].map((id, at) => request({ id, received_at: `2026-11-24T03:00:0${at}.000Z` }))
  assert.ok(a && b && c)
  assert.deepEqual(
    merged([c, b], [b, a]).map(({ id }) => id),
    ['c', 'b', 'a'],
  )
  // `a` took longer than `b` and `c`, so that it ended after them.
  assert.deepEqual(
    merged([a], [c, b]).map(({ id }) => id),
    ['c', 'b', 'a'],
  )
})
