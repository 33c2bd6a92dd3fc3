import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fail } from './failure.ts'
import type { SkippedTarget } from './skipped-target.ts'
import type { Trace, TraceEvent } from './trace.ts'
import { attemptsOf, summarize, trail } from './trace-summary.ts'

const received: TraceEvent = {
  type: 'received',
  at: 100,
  date: 0,
  family: '',
  id: 'req_abc',
  style: 'chat',
  model: 'fast',
  stream: true,
}
const attempt = (at: number, provider: string, key: string): TraceEvent => ({
  type: 'attempt',
  at,
  provider,
  model: `${provider}-model`,
  key,
})

const trails: readonly (readonly [string, Trace, string])[] = [
  ['nothing tried', [received], ''],
  [
    'status, timeout, success',
    [
      received,
      attempt(101, 'openai', 'a1f3'),
      { type: 'failed', at: 110, attempt: 0, failure: fail('status', 'bad', { status: 503 }) },
      attempt(111, 'groq', '09be'),
      { type: 'failed', at: 400, attempt: 1, failure: fail('timeout', 'slow') },
      attempt(401, 'anthropic', '77c0'),
      { type: 'committed', at: 450, attempt: 2, status: 200 },
    ],
    'openai#a1f3:503, groq#09be:timeout, anthropic#77c0:200',
  ],
  [
    'a rate limit is shown by its status',
    [
      received,
      attempt(1, 'a', '0001'),
      { type: 'failed', at: 2, attempt: 0, failure: fail('rate_limited', '', { status: 429 }) },
    ],
    'a#0001:429',
  ],
  [
    'an error in a 200 response is shown by its kind',
    [
      received,
      attempt(1, 'a', '0001'),
      { type: 'failed', at: 2, attempt: 0, failure: fail('error_in_stream', '', { status: 200 }) },
    ],
    'a#0001:error_in_stream',
  ],
  [
    'every timeout is a timeout',
    [received, attempt(1, 'a', '1'), { type: 'failed', at: 2, attempt: 0, failure: fail('connect_timeout', '') }],
    'a#1:timeout',
  ],
  ['still under way', [received, attempt(1, 'a', '1')], 'a#1:pending'],
  [
    'the client left during an attempt',
    [received, attempt(1, 'a', '1'), { type: 'ended', at: 5, how: 'client_gone', status: 499 }],
    'a#1:client_gone',
  ],
  [
    'broken after its first content',
    [
      received,
      attempt(1, 'a', '1'),
      { type: 'committed', at: 2, attempt: 0, status: 200 },
      { type: 'ended', at: 9, how: 'interrupted', status: 200, failure: fail('truncated', 'cut') },
    ],
    'a#1:truncated',
  ],
  [
    'another attempt was selected',
    [
      received,
      attempt(1, 'a', '1'),
      { type: 'attempt', at: 5, provider: 'b', model: 'b-model', key: '2', hedge: true },
      { type: 'committed', at: 9, attempt: 1, status: 200 },
      { type: 'abandoned', at: 9, attempt: 0 },
    ],
    'a#1:abandoned, b#2:200',
  ],
]
for (const [name, events, expected] of trails) test(`trail: ${name}`, () => assert.equal(trail(events), expected))

const whole: Trace = [
  received,
  attempt(103, 'openai', 'a1f3'),
  { type: 'failed', at: 153, attempt: 0, failure: fail('status', 'bad', { status: 500 }) },
  attempt(155, 'groq', '09be'),
  { type: 'committed', at: 196, attempt: 1, status: 200 },
  { type: 'dropped', paths: ['logprobs'] },
  { type: 'dropped', paths: ['tools[2]'] },
  { type: 'usage', usage: { input: 1, output: 1 } },
  { type: 'usage', usage: { input: 9, output: 58, cacheRead: 4 } },
  { type: 'ended', at: 512, how: 'answered', status: 200 },
]

test('summarize: reports target, times and usage of an answer', () => {
  const summary = summarize(whole)
  assert.deepEqual(
    { ...summary, attempts: summary.attempts.length },
    {
      id: 'req_abc',
      style: 'chat',
      model: 'fast',
      stream: true,
      client: undefined,
      team: undefined,
      provider: 'groq',
      upstreamModel: 'groq-model',
      key: '09be',
      status: 200,
      outcome: 'answered',
      attempts: 2,
      committed: true,
      firstContentMs: 96,
      totalMs: 412,
      overheadMs: 5,
      ownId: 'req_abc',
      usage: { input: 9, output: 58, cacheRead: 4 },
      estimated: undefined,
      cost: undefined,
      isPriceAssumed: undefined,
      failure: undefined,
      dropped: ['logprobs', 'tools[2]'],
      droppedEvents: 0,
      hedge: undefined,
      skipped: [],
      moreSkipped: 0,
      shared: undefined,
      cache: undefined,
      saved: undefined,
      switched: undefined,
      verdicts: [],
      trail: 'openai#a1f3:500, groq#09be:200',
    },
  )
})

test('attemptsOf: returns one entry per attempt', () => {
  assert.deepEqual(attemptsOf(whole), [
    { provider: 'openai', model: 'openai-model', key: 'a1f3', status: 500, kind: 'status', ms: 50 },
    { provider: 'groq', model: 'groq-model', key: '09be', status: 200, kind: 'ok', ms: 41 },
  ])
  assert.deepEqual(
    attemptsOf([received, attempt(1, 'a', '1'), { type: 'ended', at: 5, how: 'client_gone', status: 499 }]),
    [{ provider: 'a', model: 'a-model', key: '1', status: null, kind: 'client_gone', ms: 4 }],
  )
})

const two: Trace = [
  received,
  attempt(101, 'a', '1'),
  { type: 'attempt', at: 150, provider: 'b', model: 'b-model', key: '2', hedge: true },
]
const end: TraceEvent = { type: 'ended', at: 300, how: 'answered', status: 200 }
const [chose, left] = [
  (number: number): TraceEvent => ({ type: 'committed', at: 200, attempt: number, status: 200 }),
  (number: number): TraceEvent => ({ type: 'abandoned', at: 200, attempt: number }),
]
const failed = (at: number, number: number): TraceEvent => ({
  type: 'failed',
  at,
  attempt: number,
  failure: fail('status', ''),
})

const hedges: readonly (readonly [string, Trace, string | undefined, overhead: number])[] = [
  ['none', whole, undefined, 5],
  ['the hedge won', [...two, chose(1), left(0), end], 'won', 1],
  ['the first attempt won', [...two, chose(0), left(1), end], 'lost', 1],
  ['the second failed', [...two, failed(160, 1), chose(0), end], 'lost', 1],
  ['the first failed, and the second answered', [...two, failed(160, 0), chose(1), end], 'won', 1],
  // 20 ms pass between the end of both attempts and the start of the next.
  ['both failed', [...two, failed(160, 1), failed(180, 0), attempt(200, 'c', '3'), chose(2), end], 'lost', 21],
  [
    'both failed, the other way round',
    [...two, failed(160, 0), failed(180, 1), attempt(200, 'c', '3'), chose(2), end],
    'lost',
    21,
  ],
  ['still in flight', [...two, end], 'lost', 1],
]
for (const [name, trace, hedge, overhead] of hedges)
  test(`summarize: a hedge: ${name}`, () => {
    const summary = summarize(trace)
    assert.equal(summary.hedge, hedge)
    // Time with two attempts in flight is counted once.
    assert.equal(summary.overheadMs, overhead)
  })

test('attemptsOf: an abandoned attempt lasts until it was cancelled', () => {
  const [first, second] = attemptsOf([...two, chose(1), left(0), end])
  assert.deepEqual([first?.kind, first?.status, first?.ms], ['abandoned', null, 99])
  assert.deepEqual([second?.kind, second?.status, second?.ms], ['ok', 200, 50])
})

test('summarize: lists skipped targets in the trail in order, not as attempts', () => {
  const skip = (provider: string, why: string): SkippedTarget => ({ provider, model: 'm', key: 'k1', why })
  const [received, ...rest] = whole
  assert.ok(received)
  const trace: Trace = [
    received,
    { type: 'skipped', targets: [skip('mistral', 'circuit'), skip('cohere', 'unfit')], more: 37 },
    ...rest,
    { type: 'skipped', targets: [skip('groq', 'retry_budget')], more: 0 },
  ]
  const summary = summarize(trace)
  const expected =
    'mistral#k1:circuit, cohere#k1:unfit, +37 skipped, openai#a1f3:500, groq#09be:200, groq#k1:retry_budget'
  assert.equal(summary.trail, expected)
  assert.equal(trail(trace), expected)
  assert.deepEqual(
    summary.skipped.map(({ why }) => why),
    ['circuit', 'unfit', 'retry_budget'],
  )
  assert.equal(summary.moreSkipped, 37)
  assert.equal(summary.attempts.length, 2)
  assert.deepEqual(attemptsOf(trace), attemptsOf(whole))
})

test('summarize: accepts every prefix of a trace', () => {
  for (let length = 0; length <= whole.length; length++) {
    const summary = summarize(whole.slice(0, length))
    assert.ok(summary.totalMs >= 0 && summary.overheadMs >= 0)
    assert.equal(summary.outcome, length === whole.length ? 'answered' : 'open')
  }
})
