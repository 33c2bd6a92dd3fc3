import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Budget } from '../core/accounts.ts'
import { fail } from '../core/failure.ts'
import type { Trace, TraceEvent } from '../core/trace.ts'
import type { BudgetState } from '../gateway/accounts/budget-counters.ts'
import { budgetReadings } from './account-metrics.ts'
import { bookkeeperReadings, ledgerReadings } from './ledger-readings.ts'
import { createMetrics, type MetricsOptions } from './metrics.ts'
import { healthReadings } from './readings.ts'

const metricsWith = (options: Partial<MetricsOptions> = {}) =>
  createMetrics({ version: '1.0.0', started: 0, ...options })
const lines = (page: string, name: string) => page.split('\n').filter((line) => line.startsWith(`${name}{`))

type Ended = Extract<TraceEvent, { type: 'ended' }>
const traceOf = (
  more: { readonly team?: string; readonly client?: string } = {},
  ended: Partial<Ended> = {},
): Trace => [
  { type: 'received', at: 0, date: 0, family: '', id: 'r', style: 'chat', model: 'm', stream: false, ...more },
  { type: 'attempt', at: 1, provider: 'openai', model: 'm', key: 'a1f3' },
  { type: 'committed', at: 2, attempt: 0, status: 200 },
  { type: 'usage', usage: { input: 7, output: 3 } },
  { type: 'ended', at: 3, how: 'answered', status: 200, ...ended },
]

test('account metrics: requests, tokens and the recorded cost of a team', () => {
  const metrics = metricsWith()
  metrics.record({ event: 'request', trace: traceOf({ team: 'search', client: 'key_a' }, { cost: 250_000_000 }) })
  // All attempts failed, and one of them cost something.
  const failed = traceOf({ team: 'search' }, { how: 'refused', status: 504, cost: 50_000_000 })
  metrics.record({ event: 'request', trace: failed.filter(({ type }) => type !== 'usage' && type !== 'committed') })
  metrics.record({ event: 'request', trace: traceOf() })
  const page = metrics.text()
  assert.deepEqual(lines(page, 'headgate_team_requests_total'), [
    'headgate_team_requests_total{team="search",outcome="answered"} 1',
    'headgate_team_requests_total{team="search",outcome="refused"} 1',
    'headgate_team_requests_total{team="default",outcome="answered"} 1',
  ])
  assert.deepEqual(lines(page, 'headgate_team_tokens_total').slice(0, 2), [
    'headgate_team_tokens_total{team="search",type="input"} 7',
    'headgate_team_tokens_total{team="search",type="output"} 3',
  ])
  assert.match(page, /^headgate_team_cost_dollars_total\{team="search"\} 0\.3$/m)
})

test('account metrics: keys have series only where they are configured', () => {
  for (const perKey of [false, true]) {
    const metrics = metricsWith({ perKey: () => perKey })
    metrics.record({ event: 'request', trace: traceOf({ team: 'search', client: 'key_a' }) })
    assert.deepEqual(
      lines(metrics.text(), 'headgate_key_requests_total'),
      perKey ? ['headgate_key_requests_total{team="search",key="key_a",outcome="answered"} 1'] : [],
    )
  }
})

test('account metrics: more teams than there are label values are counted as other', () => {
  const metrics = metricsWith()
  for (let team = 0; team < 1_005; team++)
    metrics.record({ event: 'request', trace: traceOf({ team: `t${team}`, client: 'key_a' }) })
  const series = lines(metrics.text(), 'headgate_team_requests_total')
  assert.equal(series.length, 1_001)
  assert.equal(series.at(-1), 'headgate_team_requests_total{team="other",outcome="answered"} 5')
})

for (const [why, failure] of [
  ['budget', fail('budget_exceeded', 'x', { limit: 'budget; id=bud_a' })],
  ['tokens', fail('client_limit', 'x', { limit: 'tokens; id=key_a' })],
  ['concurrent', fail('client_limit', 'x', { limit: 'concurrent; id=key_a' })],
  ['access', fail('model_not_allowed', 'x')],
] as const)
  test(`account metrics: a refusal by ${why} is counted`, () => {
    const metrics = metricsWith()
    const trace = traceOf({ team: 'search', client: 'key_a' }, { how: 'refused', status: 402, failure })
    metrics.record({ event: 'request', trace })
    assert.deepEqual(lines(metrics.text(), 'headgate_admission_refused_total'), [
      `headgate_admission_refused_total{team="search",why="${why}"} 1`,
    ])
  })

test('account metrics: a request without a valid key is counted, another early refusal is not', () => {
  const metrics = metricsWith()
  metrics.refused(fail('unauthenticated', 'x'))
  metrics.refused(fail('host', 'x'))
  assert.deepEqual(lines(metrics.text(), 'headgate_admission_refused_total'), [
    'headgate_admission_refused_total{team="-",why="auth"} 1',
  ])
})

test('account metrics: estimated and unpriced answers are counted by model', () => {
  const metrics = metricsWith()
  const trace = traceOf().map((event) => (event.type === 'usage' ? { ...event, estimated: true as const } : event))
  metrics.record({ event: 'request', trace })
  const page = metrics.text()
  for (const name of ['headgate_usage_estimated_total', 'headgate_unpriced_total'])
    assert.deepEqual(lines(page, name), [`${name}{provider="openai",model="m"} 1`])
  assert.deepEqual(lines(page, 'headgate_team_cost_dollars_total'), [])
})

test('account metrics: answers whose price is assumed are counted by model', () => {
  const metrics = metricsWith()
  const trace = traceOf().map((event) =>
    event.type === 'ended' ? { ...event, cost: 7, isPriceAssumed: true as const } : event,
  )
  metrics.record({ event: 'request', trace })
  const page = metrics.text()
  assert.deepEqual(lines(page, 'headgate_price_assumed_total'), [
    'headgate_price_assumed_total{provider="openai",model="m"} 1',
  ])
  assert.deepEqual(lines(page, 'headgate_unpriced_total'), [])
})

const budget = (per: Budget['per']): Budget => ({
  id: `bud_${per}`,
  name: `for ${per}`,
  amount: 2_000_000_000,
  period: 'month',
  timezone: 'UTC',
  startDay: 1,
  per,
  appliesTo: { teams: null, keys: null, tags: null, models: null, providers: null },
  mode: 'hard',
  reserve: 'typical',
  onOverrun: 'finish',
  enforcement: 'fast',
  countFrom: 'creation',
  createdAt: 0,
  alerts: [],
  managed: 'file',
})
const stateOf = (per: Budget['per'], owner: string, spent: number): BudgetState => ({
  budget: budget(per),
  owner,
  periodStart: 0,
  periodEnd: 1,
  spent,
  reserved: 500_000_000,
  remaining: 0,
})
const ownersOf = (states: readonly BudgetState[], perKey = false) =>
  budgetReadings(states, perKey)
    .filter(({ name }) => name === 'budget_spent_dollars')
    .map(({ labels, value }) => `${labels.budget} ${labels.of} ${value}`)

test('account metrics: a budget has its amount, what is spent and what is reserved', () => {
  assert.deepEqual(
    budgetReadings([stateOf('all', '', 750_000_000)], false).map(({ name, labels, value }) => [name, labels, value]),
    [
      ['budget_limit_dollars', { budget: 'for all', of: '' }, 2],
      ['budget_spent_dollars', { budget: 'for all', of: '' }, 0.75],
      ['budget_reserved_dollars', { budget: 'for all', of: '' }, 0.5],
    ],
  )
})

test('account metrics: a budget per team has its fullest 20 teams', () => {
  const states = Array.from({ length: 30 }, (_, at) => stateOf('team', `team_${at}`, at * 1_000_000_000))
  const owners = ownersOf(states)
  assert.equal(owners.length, 20)
  assert.equal(owners[0], 'for team team_29 29')
})

test('account metrics: a budget per user shows no name of a user, and one per key only configured ones', () => {
  const states = [stateOf('end_user', 'eve', 1e9), stateOf('end_user', 'bob', 3e9), stateOf('key', 'key_a', 1e9)]
  assert.deepEqual(ownersOf(states), ['for end_user fullest 3', 'for key fullest 1'])
  assert.deepEqual(ownersOf(states, true), ['for end_user fullest 3', 'for key key_a 1'])
})

test('ledger metrics: lag, journal, rows, dropped records, lost bodies and the state of the stores', () => {
  const problems = [{ component: 'ledger', reason: 'the disk is full', since: 0 }] as const
  const telemetry = { traces: { exported: 5, waiting: 6, dropped: { full: 8 } } }
  const progress = { requests: 2, attempts: 3, lagMs: 1_500, journalBytes: 4_096, telemetry }
  const readings = () => [
    ...healthReadings(problems, false),
    ...ledgerReadings({ dropped: 7, lostBodies: 3 }),
    ...bookkeeperReadings(progress),
  ]
  const page = metricsWith({ readings }).text()
  for (const line of [
    'headgate_ledger_lag_seconds 1.5',
    'headgate_ledger_journal_bytes 4096',
    '# TYPE headgate_ledger_rows_total counter',
    'headgate_ledger_rows_total{table="request"} 2',
    'headgate_ledger_rows_total{table="attempt"} 3',
    '# TYPE headgate_ledger_dropped_total counter',
    'headgate_ledger_dropped_total 7',
    '# TYPE headgate_bodies_lost_total counter',
    'headgate_bodies_lost_total 3',
    'headgate_otlp_exported_total{signal="traces"} 5',
    'headgate_otlp_waiting{signal="traces"} 6',
    'headgate_otlp_dropped_total{signal="traces",why="full"} 8',
    'headgate_store_up{store="responses"} 1',
    'headgate_store_up{store="usage"} 0',
  ])
    assert.ok(page.split('\n').includes(line), line)
})
