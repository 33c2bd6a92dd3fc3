import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { RateLimitNames } from '../../core/protocol.ts'
import { protocols } from '../../protocols/index.ts'
import type { RateCounter } from './attempt-admission.ts'
import { addRateLimitHeaders, type Clocks } from './rate-limit-headers.ts'

const now = 10_000
const OPENAI = protocols['openai-chat'].rateLimitNames
const ANTHROPIC = protocols['anthropic-messages'].rateLimitNames
const rateLimitHeaders = (rates: readonly RateCounter[], names: RateLimitNames, at: Clocks) => {
  const headers: Record<string, string> = {}
  addRateLimitHeaders(headers, rates, names, at)
  return headers
}
const clocks = { now, dateMs: Date.parse('2026-11-23T09:00:00.250Z') }

const rate = (unit: RateCounter['unit'], perMinute: number, level: number, id = 'key'): RateCounter => ({
  id,
  unit,
  lease: null,
  perMinute,
  bucket: { level, at: now },
})
const both = [rate('requests', 600, 599), rate('tokens', 90_000, 88_000)]
const fields = {
  'ratelimit-policy': '"requests";q=600;w=60, "tokens";q=90000;w=60',
  ratelimit: '"requests";r=599;t=1, "tokens";r=88000;t=2',
}

test('rate limit headers: OpenAI', () =>
  assert.deepEqual(rateLimitHeaders(both, OPENAI, clocks), {
    'x-ratelimit-limit-requests': '600',
    'x-ratelimit-remaining-requests': '599',
    'x-ratelimit-reset-requests': '1s',
    'x-ratelimit-limit-tokens': '90000',
    'x-ratelimit-remaining-tokens': '88000',
    'x-ratelimit-reset-tokens': '2s',
    ...fields,
  }))

test('rate limit headers: Anthropic', () =>
  assert.deepEqual(rateLimitHeaders(both, ANTHROPIC, clocks), {
    'anthropic-ratelimit-requests-limit': '600',
    'anthropic-ratelimit-requests-remaining': '599',
    'anthropic-ratelimit-requests-reset': '2026-11-23T09:00:01Z',
    'anthropic-ratelimit-tokens-limit': '90000',
    'anthropic-ratelimit-tokens-remaining': '88000',
    'anthropic-ratelimit-tokens-reset': '2026-11-23T09:00:02Z',
    ...fields,
  }))

test('rate limit headers: none without limits, and only those of a limited unit', () => {
  assert.deepEqual(rateLimitHeaders([], OPENAI, clocks), {})
  const names = Object.keys(rateLimitHeaders([rate('tokens', 60, 60)], OPENAI, clocks))
  assert.deepEqual(
    names.filter((name) => name.includes('requests')),
    [],
  )
})

const values: readonly (readonly [name: string, rates: readonly RateCounter[], remaining: string, reset: string])[] = [
  ['a full bucket', [rate('requests', 60, 60)], '60', '0s'],
  ['an empty bucket', [rate('requests', 60, 0)], '0', '1m0s'],
  ['a negative bucket', [rate('requests', 60, -300)], '0', '6m0s'],
  ['a bucket far below 0', [rate('requests', 60, -3_605)], '0', '1h1m5s'],
  ['a part of a request', [rate('requests', 60, 59.5)], '59', '1s'],
  ['a level below an integer by rounding', [rate('requests', 60, 58.999_999_999_9)], '59', '2s'],
  ['a limit of 0', [rate('requests', 0, 0)], '0', '24h0m0s'],
  ['a wait of more than a day', [rate('requests', 1, -1e15)], '0', '24h0m0s'],
  ['the tightest of team and key', [rate('requests', 600, 500, 'team'), rate('requests', 60, 50)], '50', '10s'],
  ['the tightest of key and team', [rate('requests', 60, 10), rate('requests', 600, 500, 'team')], '10', '50s'],
  ['the first of two with the same rest', [rate('requests', 60, 50), rate('requests', 600, 50, 'team')], '50', '10s'],
]
for (const [name, rates, remaining, reset] of values)
  test(`rate limit headers: ${name}`, () => {
    const headers = rateLimitHeaders(rates, OPENAI, clocks)
    assert.equal(headers['x-ratelimit-remaining-requests'], remaining)
    assert.equal(headers['x-ratelimit-reset-requests'], reset)
  })

test('rate limit headers: the fields are lists of strings with integers (RFC 9651)', () => {
  const item = '"(?:requests|tokens)";[qr]=[0-9]{1,15};[wt]=[0-9]{1,15}'
  const list = new RegExp(`^${item}(?:, ${item})?$`)
  const limit = fc.integer({ min: 0, max: 1_000_000_000 })
  const level = fc.double({ min: -1e9, max: 1e9, noNaN: true })
  fc.assert(
    fc.property(limit, limit, level, (requests, tokens, at) => {
      const headers = rateLimitHeaders([rate('requests', requests, at), rate('tokens', tokens, at)], OPENAI, clocks)
      assert.match(headers.ratelimit ?? '', list)
      assert.match(headers['ratelimit-policy'] ?? '', list)
    }),
  )
})
