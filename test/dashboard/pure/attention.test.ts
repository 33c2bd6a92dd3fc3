import assert from 'node:assert/strict'
import { test } from 'node:test'
import { attentionOf, budgetShare, isForAll, type ListedBudget } from '../../../dashboard/src/attention.ts'
import type { BudgetEnd, EndsById } from '../../../dashboard/src/key-records.ts'
import { outcomeSeries } from '../../../dashboard/src/outcome-series.ts'

const NOW = Date.parse('2026-11-23T12:00:00Z')
const iso = (at: number): string => new Date(at).toISOString()

const budget = (name: string, spent: string, remaining: string | null = '1.00', mode = 'hard'): ListedBudget => ({
  id: `bud_${name}`,
  name,
  amount: '10.00',
  period: 'day',
  status: 'active',
  mode,
  appliesTo: { teams: null, keys: null, tags: {}, models: null, providers: null },
  now: { spent, remaining, period_end: null },
})

/** Ends of budgets at these times, in this order. */
const endsAt = (times: { readonly [budget: string]: string | null }): EndsById =>
  new Map(
    Object.entries(times).map(([id, exhausted_at]) => [
      id,
      // The members that are read.
      { of: 'customer-0001', forecast: { exhausted_at } } as BudgetEnd,
    ]),
  )

const NOTHING = { rows: [], budgets: [], ends: undefined, names: {}, clients: [], problems: [], now: NOW }

const client = (minutes: number) => ({
  family: 'curl',
  requests: 3,
  last: null,
  wrong: {
    id: 'req_1',
    at: iso(NOW - minutes * 60_000),
    method: 'POST',
    path: '/v1/chat/completions',
    version: null,
    model: null,
    outcome: 'refused',
    status: 401,
    problem: { kind: 'wrong_key', code: 'invalid_api_key', message: '', header: 'authorization', last4: '77c0' },
  },
})

test('a budget counts every request if it names none', () => {
  const { appliesTo } = budget('all', '1.00')
  assert.equal(isForAll({ appliesTo }), true)
  assert.equal(isForAll({ appliesTo: { ...appliesTo, keys: ['key_ci'] } }), false)
  assert.equal(isForAll({ appliesTo: { ...appliesTo, tags: { app: 'tests' } } }), false)
})

test('nothing needs attention where all is well', () => {
  assert.deepEqual(attentionOf({ ...NOTHING, budgets: [budget('low', '7.99')] }), [])
})

test('budgets from 80 %, with the time at which they are spent; several counters have no share', () => {
  const budgets = [
    budget('near', '9.50'),
    budget('over', '10.40'),
    budget('per-user', '9.90', null),
    budget('soft', '10.10', '0', 'soft'),
  ]
  assert.deepEqual(budgets.map(budgetShare), [0.95, 1.04, null, 1.01])
  const found = attentionOf({
    ...NOTHING,
    budgets,
    ends: endsAt({ bud_over: null, bud_near: '2026-11-26T14:00:00.000Z', bud_soft: null }),
  })
  assert.deepEqual(
    found.map(({ group, tone, text }) => [group, tone, text]),
    [
      ['spent', 'bad', 'Budget over: 104% spent'],
      ['warnings', 'warn', 'Budget near: 95% spent'],
      ['warnings', 'warn', 'Budget soft: 101% spent'],
    ],
  )
  assert.match(found[1]?.detail ?? '', /^ends about /)
})

test('a budget below 80 % is listed if it ends within a day, the first one first', () => {
  const budgets = [budget('near', '8.50'), budget('fast', '3.00'), budget('later', '7.00'), budget('lasts', '7.90')]
  const ends = endsAt({
    bud_fast: iso(NOW + 3_600_000),
    bud_near: iso(NOW + 7_200_000),
    bud_later: iso(NOW + 90_000_000),
    bud_lasts: null,
  })
  const names = (more: object) => attentionOf({ ...NOTHING, budgets, ...more }).map(({ object }) => object)
  assert.deepEqual(names({ ends }), ['bud_fast', 'bud_near'])
  // Without estimates the fullest are listed.
  assert.deepEqual(names({}), ['bud_near'])
})

test('a budget with a counter for each owner is as full as its fullest one, which is named', () => {
  const owned = (name: string, owners: NonNullable<ListedBudget['owners']>): ListedBudget => ({
    // The sum of all counters.
    ...budget(name, '99.00', null),
    owners,
  })
  const budgets = [
    owned('team', { count: 1, spent: 0, near: 1, fullest: { of: 'team_a', spent: '9.70' } }),
    owned('users', { count: 40, spent: 2, near: 1, fullest: { of: 'customer-0042', spent: '12.00' } }),
    owned('low', { count: 3, spent: 0, near: 0, fullest: { of: 'customer-0001', spent: '7.90' } }),
    owned('unused', { count: 0, spent: 0, near: 0, fullest: null }),
  ]
  assert.deepEqual(budgets.map(budgetShare), [0.97, 1.2, 0.79, null])
  const ends = endsAt({ bud_team: '2026-11-26T14:00:00.000Z', bud_low: '2026-11-23T14:00:00.000Z' })
  const found = attentionOf({ ...NOTHING, budgets, ends, names: { team_a: 'search' } })
  assert.deepEqual(
    found.map(({ group, text, object, show }) => [group, text, object, show]),
    [
      ['spent', 'Budget users: 120% spent by customer-0042', 'bud_users', 'budgets'],
      ['warnings', 'Budget team: 97% spent by search', 'bud_team', 'budgets'],
      ['warnings', 'Budget low: 79% spent by customer-0001', 'bud_low', 'budgets'],
    ],
  )
  assert.equal(found[0]?.detail, '2 more at 80 % or above')
  assert.match(found[1]?.detail ?? '', /^ends about /)
  assert.match(found[2]?.detail ?? '', /^that of customer-0001 ends about /)
})

test('the worst come first; refused clients only for an hour', () => {
  // The members that the list reads.
  const facts = { ...NOTHING, clients: [client(10), client(90)] as never }
  const problems = [{ component: 'store', reason: 'the disk is full', since: iso(NOW - 5_000) }]
  const found = attentionOf({ ...facts, problems })
  assert.deepEqual(
    found.map(({ group, id }) => [group, id]),
    [
      ['outages', 'problem-store'],
      ['clients', 'client-curl'],
    ],
  )
  assert.match(found[1]?.text ?? '', /curl was refused with 401/)
})

test('outcomes: fell back and from cache are parts of answered, and all together are the requests', () => {
  const counts = {
    ...{ answered: 10, refused: 5, interrupted: 1, client_gone: 1, unknown: 1 },
    ...{ failed: 2, fell_back: 3, cached: 2 },
  }
  const series = outcomeSeries([counts, { ...counts, failed: null, fell_back: null, cached: null }])
  const total = (at: number) => series.reduce((sum, { values }) => sum + (values[at] ?? 0), 0)
  assert.deepEqual([total(0), total(1)], [18, 18])
  assert.deepEqual(series.find(({ id }) => id === 'answered')?.values, [5, 10])
  assert.deepEqual(
    ['failed', 'refused', 'left', 'other'].map((name) => series.find(({ id }) => id === name)?.values),
    [
      [3, 1],
      [3, 0],
      [1, 1],
      [1, 6],
    ],
  )
  for (const member of ['tone', 'pattern', 'label'] as const)
    assert.equal(new Set(series.map((one) => one[member])).size, series.length, member)
})
