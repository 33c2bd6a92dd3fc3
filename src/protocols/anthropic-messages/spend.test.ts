import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fail } from '../../core/failure.ts'
import type { SpendStanding } from '../../core/spend-standing.ts'
import { spend } from './spend.ts'

const standing = (more: Partial<SpendStanding> = {}): SpendStanding => ({
  spent: 82,
  amount: 100,
  period: 'day',
  resetsAt: 1_786_147_200_500,
  isShared: false,
  ...more,
})
const short = (headers: Readonly<Record<string, string>> = {}) =>
  Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name.replace('anthropic-ratelimit-unified-', ''), value]),
  )

// The figures of the page `/protocol` of the reference.
test('spend: a notice is due above 75 and 95 %, and never states a whole budget', () => {
  const at = (spent: number) => {
    const {
      'overage-utilization': used,
      'overage-surpassed-threshold': passed,
      status,
    } = short(spend.headers(standing({ spent })))
    return [status, used, passed]
  }
  assert.deepEqual(at(0), ['allowed', '0', undefined])
  assert.deepEqual(at(75), ['allowed', '0.75', undefined])
  assert.deepEqual(at(75.1), ['allowed_warning', '0.75', '0.75'])
  assert.deepEqual(at(95.1), ['allowed_warning', '0.95', '0.95'])
  assert.deepEqual(at(100), ['allowed_warning', '0.99', '0.95'])
  assert.equal(short(spend.headers(standing())).reset, '1786147200')
  assert.equal(short(spend.headers(standing({ resetsAt: null }))).reset, undefined)
})

test('spend: a refusal names the period, when it ends and whether others share it, and no claim', () => {
  const failure = fail('budget_exceeded', 'used up', { spend: standing() })
  const { shown, retryAfter, headers } = spend.refusal(failure, 1_786_147_200_500 - 37_800_000)
  assert.deepEqual(shown, { status: 429, type: 'billing_error' })
  assert.equal(retryAfter, 37_800_000)
  assert.deepEqual(short(headers), {
    status: 'rejected',
    reset: '1786147200',
    'overage-reset': '1786147200',
    'overage-utilization': '1',
    'overage-surpassed-threshold': '1',
    'overage-period': 'daily',
    'overage-disabled-reason': 'org_spend_cap_reached',
  })
  const shared = spend.refusal(
    fail('budget_exceeded', 'x', { spend: standing({ isShared: true, period: 'total', resetsAt: null }) }),
    0,
  )
  assert.equal(shared.retryAfter, undefined)
  assert.deepEqual(short(shared.headers), {
    status: 'rejected',
    'overage-utilization': '1',
    'overage-surpassed-threshold': '1',
    'overage-scope': 'group_pool',
    'overage-disabled-reason': 'org_spend_cap_reached',
  })
})

test('spend: other failures stay as they are', () => {
  for (const kind of ['client_limit', 'budget_unavailable', 'model_not_allowed', 'quota'] as const) {
    const failure = fail(kind, 'x')
    assert.equal(spend.refusal(failure, 0), failure)
  }
})
