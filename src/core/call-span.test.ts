import assert from 'node:assert/strict'
import { test } from 'node:test'
import { attemptSpanId, callSpan, type TraceSampler, traceHeader, traceState } from './call-span.ts'

const ON = { sampler: 'always_on', ratio: 1 } as const
const [TRACE, SPAN] = ['4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7']
const PARENT = `00-${TRACE}-${SPAN}-01`

test('call span: the caller is its parent', () => {
  const span = callSpan('req_a', PARENT, ON, 'vendor=1')
  assert.deepEqual([span.traceId, span.parentId, span.state], [TRACE, SPAN, 'vendor=1'])
  assert.match(span.spanId, /^[0-9a-f]{16}$/)
  assert.notEqual(span.spanId, SPAN)
  assert.equal(traceHeader(span, span.spanId), `00-${TRACE}-${span.spanId}-01`)
})

for (const [name, trace] of [
  ['none', null],
  ['version ff', `ff-${TRACE}-${SPAN}-01`],
  ['a trace of zeros', `00-${'0'.repeat(32)}-${SPAN}-01`],
  ['a span of zeros', `00-${TRACE}-${'0'.repeat(16)}-01`],
] as const)
  test(`call span: a new trace for ${name}`, () => {
    const span = callSpan('req_a', trace, ON, 'vendor=1')
    assert.deepEqual([span.parentId, span.state], [null, null])
    assert.match(span.traceId, /^(?!4bf9)[0-9a-f]{32}$/)
    assert.deepEqual(callSpan('req_a', trace, ON), span)
  })

test('call span: IDs of similar requests and of their attempts differ', () => {
  const found = new Set<string>()
  const ones = new Array<number>(64).fill(0)
  const count = 50_000
  for (let number = 0; number < count; number++) {
    const id = `req_fvdqxb${number.toString(26).padStart(14, '-')}`
    const { traceId, spanId } = callSpan(id, null, ON)
    for (const one of [traceId, spanId, attemptSpanId(id, 0), attemptSpanId(id, 1)]) found.add(one)
    const bits = BigInt(`0x${traceId.slice(16)}`)
      .toString(2)
      .padStart(64, '0')
    for (const [at, bit] of [...bits].entries()) if (bit === '1') ones[at] = (ones[at] ?? 0) + 1
  }
  assert.equal(found.size, 4 * count)
  // Samplers read bits of the trace ID as a random number: 50 % ± 5 standard deviations.
  for (const one of ones) assert.ok(Math.abs(one - count / 2) < 560, `${one} of ${count}`)
})

const cases: readonly (readonly [TraceSampler, { root: boolean; on: boolean; off: boolean }])[] = [
  ['always_on', { root: true, on: true, off: true }],
  ['always_off', { root: false, on: false, off: false }],
  ['parentbased_always_on', { root: true, on: true, off: false }],
  ['parentbased_always_off', { root: false, on: true, off: false }],
]
for (const [sampler, { root, on, off }] of cases)
  test(`call span: ${sampler}`, () => {
    const sampled = (trace: string | null) => callSpan('req_a', trace, { sampler, ratio: 1 }).isSampled
    const found = [sampled(null), sampled(PARENT), sampled(PARENT.replace(/1$/, '0'))]
    assert.deepEqual(found, [root, on, off])
  })

test('call span: a ratio of traces, and of those with a caller as it decided', () => {
  const share = (sampler: TraceSampler, ratio: number) =>
    Array.from({ length: 20_000 }, (_, number) => callSpan(`req_${number}`, null, { sampler, ratio })).filter(
      ({ isSampled }) => isSampled,
    ).length / 20_000
  for (const sampler of ['traceidratio', 'parentbased_traceidratio'] as const) {
    assert.ok(Math.abs(share(sampler, 0.1) - 0.1) < 0.01)
    assert.deepEqual([share(sampler, 0), share(sampler, 1)], [0, 1])
  }
  assert.equal(callSpan('req_a', PARENT, { sampler: 'parentbased_traceidratio', ratio: 0 }).isSampled, true)
  assert.equal(callSpan('req_a', PARENT, { sampler: 'traceidratio', ratio: 0 }).isSampled, false)
})

test('call span: trace state is bounded', () => {
  assert.equal(traceState('a=1,b=2'), 'a=1,b=2')
  for (const value of [undefined, '', 'a=\u00e9', 'a=1\n', 'x'.repeat(513), Array(33).fill('a=1').join()])
    assert.equal(traceState(value), null)
})
