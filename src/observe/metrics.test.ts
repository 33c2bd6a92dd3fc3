import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { fail } from '../core/failure.ts'
import type { Trace, TraceEvent } from '../core/trace.ts'
import { createMetrics, type MetricsOptions } from './metrics.ts'
import { createRegistry } from './registry.ts'

const received: TraceEvent = {
  type: 'received',
  at: 0,
  date: 0,
  family: '',
  id: 'req_a',
  style: 'chat',
  model: 'anything',
  stream: true,
}
const answered: Trace = [
  received,
  { type: 'attempt', at: 2, provider: 'openai', model: 'gpt-x', key: 'a1f3' },
  { type: 'failed', at: 52, attempt: 0, failure: fail('status', 'no', { status: 503 }) },
  { type: 'attempt', at: 53, provider: 'groq', model: 'llama', key: '09be' },
  { type: 'committed', at: 96, attempt: 1, status: 200 },
  { type: 'dropped', paths: ['logprobs'] },
  { type: 'guard', verdict: { guard: 'pii', phase: 'answer', action: 'mask', counts: { EMAIL: 2 }, ms: 2 } },
  { type: 'usage', usage: { input: 9, output: 58, cacheRead: 4 } },
  { type: 'ended', at: 412, how: 'answered', status: 200, cost: 250_000_000 },
]

const metricsWith = (options: Partial<MetricsOptions> = {}) =>
  createMetrics({ version: '1.2.3', started: 7, ...options })

/** Checks the format of every line and returns the lines without comments. */
const samples = (page: string): readonly string[] => {
  const name = '[a-zA-Z_:][a-zA-Z0-9_:]*'
  const label = '[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\\\\n]|\\\\[\\\\n"])*"'
  const sample = new RegExp(`^${name}(?:\\{${label}(?:,${label})*\\})? (?:[-+]?[0-9.]+(?:e[-+]?[0-9]+)?|[-+]Inf|NaN)$`)
  assert.ok(page.endsWith('\n'))
  const lines = page.slice(0, -1).split('\n')
  const seen = new Set<string>()
  let current = ''
  for (const line of lines) {
    const type = /^# TYPE (\S+) (counter|gauge|histogram)$/.exec(line)
    if (type?.[1]) {
      assert.ok(!seen.has(type[1]), `${type[1]} twice`)
      seen.add(type[1])
      current = type[1]
    } else if (!line.startsWith('# HELP ')) {
      assert.match(line, sample)
      assert.ok(line.startsWith(current), `${line} belongs to ${current}`)
    }
  }
  const data = lines.filter((line) => !line.startsWith('#'))
  const ids = data.map((line) => line.slice(0, line.lastIndexOf(' ')))
  assert.equal(new Set(ids).size, ids.length, 'a series twice')
  return data
}

test('metrics: a request that was answered after a fallback', () => {
  const metrics = metricsWith()
  metrics.record({ event: 'request', trace: answered })
  metrics.record({
    event: 'fallback',
    id: 'req_a',
    from: 'openai#a1f3/gpt-x',
    to: 'groq#09be/llama',
    kind: 'status',
    detail: 'no',
  })
  const lines = samples(metrics.text())
  const expected = [
    'headgate_requests_total{style="chat",stream="true",outcome="answered",status="200",provider="groq",client="-"} 1',
    'headgate_attempts_total{provider="openai",model="gpt-x",class="status"} 1',
    'headgate_attempts_total{provider="groq",model="llama",class="ok"} 1',
    'headgate_failovers_total{from="openai",to="groq",class="status"} 1',
    'headgate_tokens_total{provider="groq",model="llama",type="input"} 9',
    'headgate_tokens_total{provider="groq",model="llama",type="output"} 58',
    'headgate_tokens_total{provider="groq",model="llama",type="cache_read"} 4',
    'headgate_cost_dollars_total{provider="groq",model="llama"} 0.25',
    'headgate_dropped_total{style="chat"} 1',
    'headgate_guard_verdicts_total{guard="pii",phase="answer",action="mask"} 1',
    'headgate_guard_seconds_sum{guard="pii"} 0.002',
    'headgate_ttft_seconds_bucket{provider="groq",model="llama",le="0.08"} 0',
    'headgate_ttft_seconds_bucket{provider="groq",model="llama",le="0.16"} 1',
    'headgate_ttft_seconds_bucket{provider="groq",model="llama",le="+Inf"} 1',
    'headgate_ttft_seconds_sum{provider="groq",model="llama"} 0.096',
    'headgate_ttft_seconds_count{provider="groq",model="llama"} 1',
    'headgate_gateway_overhead_seconds_sum 0.003',
    'gen_ai_server_request_duration_seconds_sum{gen_ai_operation_name="chat",gen_ai_provider_name="groq",gen_ai_request_model="llama",error_type=""} 0.412',
    'gen_ai_client_token_usage_bucket{gen_ai_operation_name="chat",gen_ai_provider_name="groq",gen_ai_request_model="llama",gen_ai_token_type="output",le="64"} 1',
    'headgate_info{version="1.2.3"} 1',
    'process_start_time_seconds 7',
  ]
  for (const line of expected) assert.ok(lines.includes(line), line)
  assert.ok(lines.some((line) => /^process_resident_memory_bytes [1-9]/.test(line)))
})

const others: readonly (readonly [string, Trace, string])[] = [
  [
    'an interrupted stream',
    [
      received,
      { type: 'attempt', at: 1, provider: 'p', model: 'm', key: 'k' },
      { type: 'committed', at: 2, attempt: 0, status: 200 },
      { type: 'ended', at: 3, how: 'interrupted', status: 200, failure: fail('truncated', 'cut') },
    ],
    'headgate_stream_interrupted_total{provider="p",model="m",reason="truncated"} 1',
  ],
  [
    'an attempt with an interrupted stream is not counted as ok',
    [
      received,
      { type: 'attempt', at: 1, provider: 'p', model: 'm', key: 'k' },
      { type: 'committed', at: 2, attempt: 0, status: 200 },
      { type: 'ended', at: 3, how: 'interrupted', status: 200, failure: fail('truncated', 'cut') },
    ],
    'headgate_attempts_total{provider="p",model="m",class="truncated"} 1',
  ],
  ...[0, 1].map((chosen): readonly [string, Trace, string] => [
    `a hedge, and the ${chosen === 0 ? 'first' : 'second'} was quicker`,
    [
      received,
      { type: 'attempt', at: 1, provider: 'p', model: 'm', key: 'k' },
      { type: 'attempt', at: 1, provider: 'q', model: 'm', key: 'k', hedge: true },
      { type: 'committed', at: 2, attempt: chosen, status: 200 },
      { type: 'abandoned', at: 2, attempt: 1 - chosen },
      { type: 'ended', at: 3, how: 'answered', status: 200 },
    ],
    `headgate_hedges_total{won="${chosen === 1}"} 1`,
  ]),
  [
    'an abandoned attempt',
    [
      received,
      { type: 'attempt', at: 1, provider: 'p', model: 'm', key: 'k' },
      { type: 'abandoned', at: 2, attempt: 0 },
      { type: 'ended', at: 3, how: 'answered', status: 200 },
    ],
    'headgate_attempts_total{provider="p",model="m",class="abandoned"} 1',
  ],
  [
    'a skipped target',
    [
      received,
      { type: 'skipped', targets: [{ provider: 'p', model: 'm', key: 'k', why: 'retry_budget' }], more: 0 },
      { type: 'ended', at: 3, how: 'refused', status: 502, failure: fail('status', '') },
    ],
    'headgate_targets_skipped_total{provider="p",why="retry_budget"} 1',
  ],
  [
    'a client that disconnected while waiting',
    [received, { type: 'ended', at: 3, how: 'client_gone', status: 499 }],
    'headgate_client_aborts_total{phase="waiting"} 1',
  ],
  [
    'too busy',
    [received, { type: 'ended', at: 3, how: 'refused', status: 503, failure: fail('busy', 'full') }],
    'headgate_shed_total{why="overloaded"} 1',
  ],
]
for (const [name, exchange, expected] of others)
  test(`metrics: ${name}`, () => {
    const metrics = metricsWith()
    metrics.record({ event: 'request', trace: exchange })
    assert.ok(samples(metrics.text()).includes(expected))
  })

test('metrics: state changes of circuits and keys, and internal errors', () => {
  const metrics = metricsWith()
  metrics.record({ event: 'circuit', what: 'endpoint', name: 'http://x', from: 'closed', to: 'open', why: 'x' })
  metrics.record({ event: 'key', provider: 'p', key: 'k', from: 'active', to: 'suspended', until: null })
  metrics.record({ event: 'error', error: new Error('x') })
  const lines = samples(metrics.text())
  assert.ok(lines.includes('headgate_breaker_transitions_total{what="endpoint",from="closed",to="open"} 1'))
  assert.ok(lines.includes('headgate_key_transitions_total{provider="p",from="active",to="suspended"} 1'))
  assert.ok(lines.includes('headgate_errors_total 1'))
})

test('metrics: gauges are read at each scrape, and may fail', () => {
  let names = ['a', 'b']
  let broken = false
  const metrics = metricsWith({
    readings: () => {
      if (broken) throw new Error('EMFILE')
      return names.map((provider) => ({ name: 'inflight', help: 'Under way.', labels: { provider }, value: 2 }))
    },
    usage: () => {
      throw Object.assign(new Error('too many open files'), { code: 'EMFILE' })
    },
  })
  const states = () => samples(metrics.text()).filter((line) => line.startsWith('headgate_inflight'))
  assert.deepEqual(states(), ['headgate_inflight{provider="a"} 2', 'headgate_inflight{provider="b"} 2'])
  names = ['b']
  assert.deepEqual(states(), ['headgate_inflight{provider="b"} 2'])
  broken = true
  assert.deepEqual(states(), [])
  assert.doesNotMatch(metrics.text(), /process_resident/)
})

test('metrics: names sent by clients can neither grow nor break the page', () => {
  const metrics = metricsWith()
  for (let count = 0; count < 3000; count++) {
    const model = count === 0 ? 'a"b\\c\nd\u0000e\ud800' : `m${count}`.repeat(60)
    metrics.record({
      event: 'request',
      trace: answered.map((fact) => (fact.type === 'attempt' ? { ...fact, model } : fact)),
    })
  }
  const page = metrics.text()
  const lines = samples(page)
  const of = (start: string) => lines.filter((line) => line.startsWith(start))
  assert.equal(of('headgate_tokens_total{provider="groq"').filter((line) => line.includes('type="input"')).length, 1001)
  assert.ok(lines.includes('headgate_tokens_total{provider="groq",model="other",type="input"} 18000'))
  assert.ok(of('gen_ai_server_request_duration_seconds').length <= 20_000)
  assert.ok(page.isWellFormed())
  assert.ok(lines.every((line) => line.length < 1000))
})

test('metrics: only known models are label values, and stay so after any number of unknown names', () => {
  const known = ['llama', 'gpt-x']
  const metrics = metricsWith({ isKnown: (_provider, model) => known.includes(model) })
  const count = (model: string) =>
    metrics.record({
      event: 'request',
      trace: answered.map((fact) => (fact.type === 'attempt' ? { ...fact, model } : fact)),
    })
  for (let at = 0; at < 3_000; at++) count(`invented-${at}`)
  for (const model of known) count(model)
  const page = metrics.text()
  assert.doesNotMatch(page, /invented/)
  assert.ok(page.length < 50_000, `${page.length} characters`)
  const lines = samples(page)
  const tokens = (model: string) => `headgate_tokens_total{provider="groq",model="${model}",type="input"}`
  assert.ok(lines.includes(`${tokens('other')} 27000`))
  for (const model of known) assert.ok(lines.includes(`${tokens(model)} 9`), model)
})

test('registry: counters never decrease, and histograms accept only finite numbers', () => {
  const registry = createRegistry()
  const counter = registry.counter('c', 'a "help"\nof \\ two lines', ['x'])
  counter.add({ x: 'a' }, 2)
  counter.add({ x: 'a' }, -1)
  counter.add({ x: 'a' }, Number.NaN)
  counter.add({})
  const histogram = registry.histogram('h', 'h', [], [1, 2])
  for (const value of [0.5, 1, 1.5, 2, 3, Number.NaN, Number.POSITIVE_INFINITY]) histogram.record({}, value)
  registry.gauge('g', 'g', []).set({}, Number.POSITIVE_INFINITY)
  assert.equal(
    registry.text(),
    `# HELP c a "help"\\nof \\\\ two lines
# TYPE c counter
c{x="a"} 2
c{x=""} 1
# HELP h h
# TYPE h histogram
h_bucket{le="1"} 2
h_bucket{le="2"} 4
h_bucket{le="+Inf"} 5
h_sum 8
h_count 5
# HELP g g
# TYPE g gauge
g +Inf
`,
  )
})

const held = (): number => {
  setFlagsFromString('--expose-gc')
  const collect: unknown = runInNewContext('gc')
  assert.ok(typeof collect === 'function')
  collect()
  return process.memoryUsage().heapUsed
}
const longText = (n: number): string => JSON.parse(`"${String(n).padStart(20, '0')}${'x'.repeat(1_000_000)}"`)

test('metrics: a long label value, or a slice of a long text, does not stay in memory', () => {
  const counter = createRegistry().counter('named', '', ['model'])
  const before = held()
  for (let n = 0; n < 50; n++) {
    counter.add({ model: longText(n) })
    counter.add({ model: longText(1_000 + n).slice(0, 40) })
  }
  const kept = held() - before
  assert.ok(kept < 20_000_000, `${kept} bytes are kept of 100 values`)
  counter.add({ model: 'short' })
})

test('metrics: nor do the models of requests with long names', () => {
  const metrics = createMetrics({ version: '', started: 0 })
  const before = held()
  for (let n = 0; n < 100; n++) {
    const model = n % 2 === 0 ? longText(n) : longText(n).slice(0, 40)
    metrics.record({
      event: 'request',
      trace: [
        { type: 'received', at: 0, date: 0, family: '', id: 'r', style: 's', model, stream: false },
        { type: 'attempt', at: 1, provider: 'p', model, key: 'k' },
        { type: 'committed', at: 2, attempt: 0, status: 200 },
        { type: 'ended', at: 3, how: 'answered', status: 200 },
      ],
    })
  }
  const kept = held() - before
  assert.ok(kept < 20_000_000, `${kept} bytes are kept of 100 requests`)
  assert.match(metrics.text(), /outcome="answered"/)
})

test('metrics: there are no series without counts', () => {
  const registry = createRegistry()
  registry.counter('c', '', ['x']).add({ x: 'a' }, -1)
  registry.histogram('h', '', ['x'], [1]).record({ x: 'a' }, Number.NaN)
  assert.doesNotMatch(registry.text(), /x="a"/)
  assert.doesNotMatch(createMetrics({ version: '', started: 0 }).text(), /^headgate_gateway_overhead_seconds_count/m)
})
