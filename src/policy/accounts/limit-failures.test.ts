import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { testBudget } from '../../../test/support/accounts.ts'
import type { Budget, PeriodName } from '../../core/accounts.ts'
import type { Failure } from '../../core/failure.ts'
import {
  budgetFailure,
  budgetUnavailable,
  limitFailure,
  overrunFailure,
  ownersFailure,
  type RefusingBudget,
  unpricedFailure,
} from './limit-failures.ts'
import { END_OF_TIME } from './period.ts'

const END = Date.UTC(2026, 11, 1)
const counter = (budget: Budget, more: Partial<RefusingBudget> = {}): RefusingBudget => ({
  id: budget.id,
  lease: null,
  mode: 'hard',
  granted: 1_000,
  used: 900,
  held: 0,
  isKnown: true,
  budget,
  periodEnd: END,
  ...more,
})
const facts = ({ kind, message, limit, retryAfter }: Failure) => ({ kind, message, limit, retryAfter })

test('a budget refuses with its spender, its period, and the day on which it begins again', () => {
  assert.deepEqual(facts(budgetFailure(counter(testBudget(1_000)))), {
    kind: 'budget_exceeded',
    message:
      'The budget of this request for the month has too little left for this request, unless its max_tokens is smaller; it begins again on 2026-12-01.',
    limit: 'budget; id=bud_test; resets=2026-12-01',
    retryAfter: undefined,
  })
  const used = budgetFailure(counter(testBudget(1_000), { used: 1_000 }), true)
  assert.match(used.message, /is used up; it begins again/)
  assert.equal(used.limit, 'budget; id=bud_test; resets=2026-12-01; degraded')
  assert.match(overrunFailure(counter(testBudget(1_000))).message, /has too little left for the rest of this answer;/)
})

test('the day is that of the zone of the budget, and a budget without periods has none', () => {
  const kiritimati = counter(testBudget(1_000, { timezone: 'Pacific/Kiritimati' }), { periodEnd: END - 14 * 3_600_000 })
  assert.match(budgetFailure(kiritimati).message, /on 2026-12-01\.$/)
  const total = budgetFailure(counter(testBudget(1_000, { period: 'total' }), { periodEnd: END_OF_TIME, used: 1_000 }))
  assert.deepEqual([total.message, total.limit], ['The budget of this request is used up.', 'budget; id=bud_test'])
})

describe('the message names', () => {
  const SPENDERS: readonly (readonly [Budget['per'], string])[] = [
    ['all', 'this request'],
    ['team', 'this team'],
    ['key', 'this key'],
    ['user', 'this user'],
    ['end_user', 'this end user'],
  ]
  const PERIODS: readonly PeriodName[] = ['hour', 'day', 'week', 'month', 'quarter', 'year']
  for (const [per, name] of SPENDERS)
    test(name, () =>
      assert.ok(
        budgetFailure(counter(testBudget(1, { per }))).message.startsWith(`The budget of ${name} for the month `),
      ),
    )
  for (const period of PERIODS)
    test(`the ${period}`, () =>
      assert.match(budgetFailure(counter(testBudget(1, { period }))).message, RegExp(` for the ${period} `)))
})

test('a budget that cannot be checked: retried if its figures are missing, not if there are too many users', () => {
  const unknown = budgetUnavailable(testBudget(1))
  assert.deepEqual(
    [unknown.kind, unknown.limit, unknown.retryAfter],
    ['budget_unavailable', 'budget; id=bud_test; degraded', 1_000],
  )
  assert.match(unknown.message, /Try again later/)
  const many = ownersFailure(testBudget(1))
  assert.deepEqual([many.kind, many.limit, many.retryAfter], ['budget_exceeded', 'budget; id=bud_test', undefined])
  assert.match(many.message, /too many end users\. Name one that is known\./)
})

test('an unknown price: the provider is named where none of its prices is known', () => {
  const refused = unpricedFailure('mine', { unknownPrice: 'refuse' })
  assert.deepEqual([refused.kind, refused.limit], ['budget_exceeded', 'budget; unpriced'])
  assert.match(
    refused.message,
    /^The price of this model is unknown, and a hard budget applies\. .*budget\.unknownPrice: allow/,
  )
  const dearest = unpricedFailure('mine', { unknownPrice: 'dearest' })
  assert.match(dearest.message, /unknown, as are all prices of the provider "mine", and/)
})

test('limits state when to retry', () => {
  const failures = [
    limitFailure({ why: 'concurrent', id: 'key_a' }),
    limitFailure({ why: 'requests', id: 'key_a', retryAfter: 250, degraded: true }),
    limitFailure({ why: 'tokens', id: 'team_a', retryAfter: Number.POSITIVE_INFINITY }),
  ]
  assert.deepEqual(failures.map(facts), [
    {
      kind: 'client_limit',
      message: 'Too many requests of this key or team are in progress. Retry when one has ended.',
      limit: 'concurrent; id=key_a',
      retryAfter: 1_000,
    },
    {
      kind: 'client_limit',
      message: 'This key or team has reached its limit of requests per minute.',
      limit: 'requests; id=key_a; degraded',
      retryAfter: 250,
    },
    {
      kind: 'client_limit',
      message: 'This key or team may not use any tokens.',
      limit: 'tokens; id=team_a',
      retryAfter: 86_400_000,
    },
  ])
})
