import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Json } from '../../core/json.ts'
import type { LimitHeaders } from './limit-headers.ts'
import { parseDuration, resetIn, retryAfter } from './retry-after.ts'

const NOW = Date.UTC(2026, 10, 21, 12, 0, 0)
const HOUR = 3_600_000

const headersOf = (headers: Record<string, string>) => {
  const byName = new Map(Object.entries(headers))
  return (name: string) => byName.get(name)
}

const headerCases: readonly [string, Record<string, string>, number | undefined][] = [
  ['no headers', {}, undefined],
  ['seconds', { 'retry-after': '20' }, 20_000],
  ['with spaces', { 'retry-after': ' 20 ' }, 20_000],
  ['a fraction', { 'retry-after': '0.5' }, 500],
  ['zero', { 'retry-after': '0' }, 0],
  ['negative', { 'retry-after': '-1' }, undefined],
  ['a day is reduced to an hour', { 'retry-after': '86400' }, HOUR],
  ['a very large number', { 'retry-after': '99999999999999999999' }, HOUR],
  ['an exponent is invalid', { 'retry-after': '1e3' }, undefined],
  ['hexadecimal is invalid', { 'retry-after': '0x10' }, undefined],
  ['Infinity is invalid', { 'retry-after': 'Infinity' }, undefined],
  ['NaN is invalid', { 'retry-after': 'NaN' }, undefined],
  ['empty', { 'retry-after': '' }, undefined],
  ['a word', { 'retry-after': 'soon' }, undefined],
  ['two values', { 'retry-after': '1, 2' }, undefined],
  ['a duration', { 'retry-after': '30s' }, 30_000],
  ['a date', { 'retry-after': 'Sat, 21 Nov 2026 12:00:30 GMT' }, 30_000],
  ['an RFC 850 date', { 'retry-after': 'Saturday, 21-Nov-26 12:00:30 GMT' }, 30_000],
  ['an asctime date, in UTC', { 'retry-after': 'Sat Nov 21 12:00:30 2026' }, 30_000],
  ['the current time', { 'retry-after': 'Sat, 21 Nov 2026 12:00:00 GMT' }, 0],
  ['a date in the past', { 'retry-after': 'Sat, 21 Nov 2026 11:59:30 GMT' }, undefined],
  ['a distant date is reduced to an hour', { 'retry-after': 'Sat, 21 Nov 2037 11:59:30 GMT' }, HOUR],
  ['an invalid day', { 'retry-after': 'Sat, 41 Nov 2026 12:00:30 GMT' }, undefined],
  ['a date without a time zone', { 'retry-after': 'Sat, 21 Nov 2026 12:00:30' }, undefined],
  ['RFC 3339', { 'retry-after': '2026-11-21T12:00:30Z' }, 30_000],
  ['milliseconds', { 'retry-after-ms': '1250.5' }, 1250.5],
  ['milliseconds, Azure’s name', { 'x-ms-retry-after-ms': '700' }, 700],
  ['milliseconds before seconds', { 'retry-after-ms': '1250', 'retry-after': '2' }, 1_250],
  ['zero milliseconds and one second (Azure)', { 'retry-after-ms': '0', 'retry-after': '1' }, 1_000],
  ['only zero milliseconds', { 'retry-after-ms': '0' }, 0],
  ['invalid milliseconds', { 'retry-after-ms': 'x', 'retry-after': '2' }, 2_000],

  ['an exhausted limit', { 'x-ratelimit-remaining-requests': '0', 'x-ratelimit-reset-requests': '6m0s' }, 360_000],
  [
    'a limit that is not exhausted',
    { 'x-ratelimit-remaining-requests': '7', 'x-ratelimit-reset-requests': '6m0s' },
    undefined,
  ],
  ['a reset without a remainder', { 'x-ratelimit-reset-tokens': '12ms' }, 12],
  [
    'one of two limits exhausted',
    {
      'x-ratelimit-remaining-requests': '99',
      'x-ratelimit-reset-requests': '1h',
      'x-ratelimit-remaining-tokens': '0',
      'x-ratelimit-reset-tokens': '7.66s',
    },
    7_660,
  ],
  [
    'both limits exhausted: the later reset',
    {
      'x-ratelimit-remaining-requests': '0',
      'x-ratelimit-reset-requests': '2s',
      'x-ratelimit-remaining-tokens': '0',
      'x-ratelimit-reset-tokens': '1s',
    },
    2_000,
  ],
  ['seconds since 1970', { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(NOW / 1000 + 42) }, 42_000],
  ['milliseconds since 1970', { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(NOW + 42) }, 42],
  ['a reset in the past', { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '1700000000' }, undefined],
  ['plain seconds', { 'x-ratelimit-remaining-tokens': '0', 'x-ratelimit-reset-tokens': '11.38' }, 11_380],
  ['a daily limit', { 'x-ratelimit-remaining-requests-day': '0', 'x-ratelimit-reset-requests-day': '60.5' }, 60_500],
  ['the IETF draft', { 'ratelimit-remaining': '0', 'ratelimit-reset': '50' }, 50_000],
  [
    'Anthropic',
    {
      'anthropic-ratelimit-input-tokens-remaining': '0',
      'anthropic-ratelimit-input-tokens-reset': '2026-11-21T12:00:13Z',
      'anthropic-ratelimit-requests-remaining': '3999',
      'anthropic-ratelimit-requests-reset': '2026-11-21T12:09:00Z',
    },
    13_000,
  ],
  [
    'retry-after before a limit',
    { 'retry-after': '2', 'x-ratelimit-remaining-requests': '0', 'x-ratelimit-reset-requests': '6m0s' },
    2_000,
  ],
  [
    'masked values',
    { 'x-ratelimit-remaining-tokens': 'X-REMAINING', 'x-ratelimit-reset-tokens': 'X-RESET' },
    undefined,
  ],
]
for (const [name, headers, expected] of headerCases)
  test(`retry-after: ${name}`, () => assert.equal(retryAfter(headersOf(headers), undefined, NOW), expected))

const retryInfo = (retryDelay: Json): Json => ({
  error: {
    code: 429,
    status: 'RESOURCE_EXHAUSTED',
    details: [
      { '@type': 'type.googleapis.com/google.rpc.QuotaFailure', violations: [] },
      { '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay },
    ],
  },
})

const bodyCases: readonly [string, Json | undefined, number | undefined][] = [
  ['no body', undefined, undefined],
  ['a text body', 'retry in 5 s', undefined],
  ['null', null, undefined],
  ['RetryInfo', retryInfo('34.4s'), 34_400],
  ['RetryInfo in a list', [retryInfo('48s')], 48_000],
  ['RetryInfo as an object', retryInfo({ seconds: 3, nanos: 500_000_000 }), 3_500],
  ['RetryInfo, no seconds', retryInfo({ seconds: 0 }), 0],
  ['RetryInfo, invalid', retryInfo('later'), undefined],
  ['RetryInfo, negative', retryInfo('-3s'), undefined],
  ['RetryInfo, negative seconds', retryInfo({ seconds: -3 }), undefined],
  ['RetryInfo, too long', retryInfo('86400s'), HOUR],
  ['details that are not a list', { error: { details: { retryDelay: '3s' } } }, undefined],
  ['details of a bare status', { details: [{ retryDelay: '3s' }] }, 3_000],
  ['an empty list', [], undefined],
  ['a number in OpenRouter’s metadata', { error: { metadata: { headers: { 'Retry-After': 7 } } } }, 7_000],
  [
    'metadata headers that are not texts',
    { error: { metadata: { headers: { 'Retry-After': [7], a: null } } } },
    undefined,
  ],
  [
    'headers in OpenRouter’s metadata',
    { error: { metadata: { headers: { 'X-RateLimit-Remaining': '0', 'X-RateLimit-Reset': String(NOW + 9_000) } } } },
    9_000,
  ],
]
/** [source, body, wait in ms] */
const memberCases: readonly [string, Json, number | undefined][] = [
  [
    'Codex, router-for-me/CLIProxyAPI#1666',
    {
      error: {
        type: 'usage_limit_reached',
        message: 'The usage limit has been reached',
        plan_type: 'free',
        resets_at: 1_772_180_859,
        resets_in_seconds: 529_498,
      },
    },
    HOUR,
  ],
  ['a time only', { error: { type: 'usage_limit_reached', resets_at: NOW / 1_000 + 90 } }, 90_000],
  ['a time in the past, and a wait', { error: { resets_at: 1_772_180_859, resets_in_seconds: 40 } }, 40_000],
  [
    'Google without RetryInfo, liuw1535/antigravity2api-nodejs#44',
    {
      error: {
        code: 429,
        status: 'RESOURCE_EXHAUSTED',
        details: [
          {
            '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
            reason: 'QUOTA_EXHAUSTED',
            metadata: { quotaResetDelay: '12m41.300432511s', quotaResetTimeStamp: '2025-12-18T20:18:34Z' },
          },
        ],
      },
    },
    761_300.432511,
  ],
  ['another gateway', { error: { message: 'Rate limited', retry_after: 12.5 } }, 12_500],
  ['beside the error', { error: { message: 'Rate limited' }, retry_after: '30s' }, 30_000],
  ['in its details', { error: { details: { retry_after_seconds: 8 } } }, 8_000],
  ['not a time', { error: { retry_after: true, resets_at: 'soon', reset_at: null } }, undefined],
  ['zero and negative', { error: { retry_after: 0, resets_in_seconds: -5 } }, undefined],
]
for (const [name, body, expected] of memberCases)
  test(`retry-after: in members: ${name}`, () =>
    assert.equal(
      retryAfter(() => undefined, body, NOW),
      expected,
    ))

for (const [name, body, expected] of bodyCases)
  test(`retry-after: in the body: ${name}`, () =>
    assert.equal(
      retryAfter(() => undefined, body, NOW),
      expected,
    ))

test('retry-after: the header wins over the body', () =>
  assert.equal(retryAfter(headersOf({ 'retry-after': '1' }), retryInfo('9s'), NOW), 1_000))

const durations: readonly [string, number | undefined][] = [
  ['6m0s', 360_000],
  ['12ms', 12],
  ['0s', 0],
  ['9s', 9_000],
  ['48.939935699s', 48_939.935699],
  ['34.07s', 34_070],
  ['1h2m3.5s', 3_723_500],
  ['2d', 172_800_000],
  ['250us', 0.25],
  ['250µs', 0.25],
  ['5ns', 0.000005],
  [' 5s ', 5_000],
  ['', undefined],
  ['5', undefined],
  ['s', undefined],
  ['5 s', undefined],
  ['-5s', undefined],
  ['+5s', undefined],
  ['5x', undefined],
  ['5S', undefined],
  ['5s3', undefined],
  ['.5s', undefined],
  ['5.s', undefined],
  ['1.2.3s', undefined],
  ['constructor', undefined],
  ['1constructor', undefined],
  ['1__proto__', undefined],
]
for (const [value, expected] of durations)
  test(`retry-after: duration ${JSON.stringify(value)}`, () => {
    const seen = parseDuration(value)
    if (expected === undefined || seen === undefined) assert.equal(seen, expected)
    else assert.ok(Math.abs(seen - expected) < 1e-9 * Math.max(1, expected), `${seen} is not ${expected}`)
  })

test('retry-after: for any input it is undefined or from 0 to an hour', () => {
  const names = [
    'retry-after',
    'retry-after-ms',
    'x-ratelimit-reset',
    'x-ratelimit-reset-requests',
    'x-ratelimit-remaining-requests',
    'anthropic-ratelimit-tokens-reset',
  ]
  const value = fc.oneof(
    fc.string(),
    fc.double().map(String),
    fc.bigInt().map(String),
    fc.nat(10_000).map(String),
    fc.date({ noInvalidDate: true }).map((date) => date.toUTCString()),
    fc.date({ noInvalidDate: true }).map((date) => date.toISOString()),
    fc.stringMatching(/^[0-9.hmsun]{1,20}$/),
  )
  const body = fc.oneof(
    fc.jsonValue(),
    value.map(retryInfo),
    fc.jsonValue().map((delay) => retryInfo(delay as Json)),
  )
  let found = 0
  fc.assert(
    fc.property(fc.dictionary(fc.constantFrom(...names), value), body, (headers, sent) => {
      const wait = retryAfter(headersOf(headers), sent as Json, NOW)
      if (wait === undefined) return
      found++
      assert.ok(wait >= 0 && wait <= HOUR, `${wait}`)
    }),
    { numRuns: 3_000, seed: 11 },
  )
  assert.ok(found > 300, `only ${found} inputs gave a wait`)
})

test('retry-after: a megabyte of any input is read in less than 0.5 s', () => {
  const long = 1_000_000
  const hostile = [
    'a'.repeat(long),
    '1'.repeat(long),
    `${'1'.repeat(long)}s`,
    '1.'.repeat(long / 2),
    '1h'.repeat(long / 2),
    ' '.repeat(long),
    `Mon, ${' '.repeat(long)}GMT`,
    `2026-11-21T${'1:'.repeat(long / 2)}Z`,
  ]
  const began = process.threadCpuUsage()
  for (const value of hostile) {
    parseDuration(value)
    for (const name of ['retry-after', 'retry-after-ms', 'x-ratelimit-reset'])
      assert.equal(retryAfter(headersOf({ [name]: value }), retryInfo(value), NOW), undefined)
  }
  retryAfter(() => undefined, { error: { details: Array.from({ length: 200_000 }, () => ({ retryDelay: 'x' })) } }, NOW)
  const { user, system } = process.threadCpuUsage(began)
  // Backtracking over a megabyte would take minutes. CPU time of this thread in µs, so that other load does not count.
  assert.ok(user + system < 500_000)
})

const row: LimitHeaders = { left: 'left', whole: 'whole', reset: 'reset', period: 'period' }
const resets: readonly (readonly [string, Record<string, string>, number | undefined, LimitHeaders?])[] = [
  ['no header', {}, undefined],
  ['seconds', { reset: '5' }, 5_000],
  // Azure: `reset` in s or in ms, distinguished by the window.
  ['a number within the window is in seconds', { reset: '60', period: '60' }, 60_000],
  ['a number above the window is in ms', { reset: '61', period: '60' }, 61],
  ['an invalid window', { reset: '61', period: 'x' }, 61_000],
  ['a window and a duration', { reset: '2m0s', period: '60' }, 120_000],
  ['no window header', { reset: '61', '': '60' }, 61_000, { ...row, period: '' }],
  ['a Unix time with a window', { reset: '1795262530', period: '60' }, 1_795_262_530_000 - NOW],
  ['the largest number of seconds', { reset: '999999999' }, 999_999_999_000],
  ['the smallest Unix time', { reset: '1000000000' }, 1e12 - NOW],
  ['the largest Unix time in seconds', { reset: '99999999999' }, 99_999_999_999_000 - NOW],
  ['the smallest Unix time in milliseconds', { reset: '100000000000' }, 1e11 - NOW],
  ['the smallest Unix time with a window', { reset: '1000000000', period: '60' }, 1e12 - NOW],
]
for (const [name, headers, expected, limit = row] of resets)
  test(`reset: ${name}`, () => assert.equal(resetIn(limit, headersOf(headers), NOW), expected))

const dates: readonly (readonly [string, number | undefined])[] = [
  ['Sat, 21 Nov 2026 12:00:30 GMT', 30_000],
  ['Sat, 21 Nov 2026 12:00:30 UTC', 30_000],
  ['x Sat, 21 Nov 2026 12:00:30 GMT', undefined],
  ['Sat, 21 Nov 2026 12:00:30 GMT x', undefined],
  ['21 Nov 2026 12:00:30 GMT', undefined],
  ['2026-11-21T12:00:30+00:00', 30_000],
  ['2026-11-21T13:00:30+01:00', 30_000],
  ['2026-11-21T11:00:30-01:00', 30_000],
  ['2026-11-21t12:00:30z', 30_000],
  ['2026-11-21T12:00:30', undefined],
  ['2026-11-21', undefined],
  ['x2026-11-21T12:00:30Z', undefined],
  ['2026-11-21T12:00:30Zx', undefined],
  ['02026-11-21T12:00:30Z', undefined],
]
for (const [value, expected] of dates)
  test(`retry-after: date ${value}`, () =>
    assert.equal(retryAfter(headersOf({ 'retry-after': value }), undefined, NOW), expected))

test('retry-after: only the first 32 details and metadata headers are read', () => {
  const detail = (at: number): Json => ({
    error: { details: Array.from({ length: 40 }, (_, index) => (index === at ? { retryDelay: '3s' } : {})) },
  })
  const quoted = (at: number): Json => ({
    error: {
      metadata: {
        headers: Object.fromEntries(
          Array.from({ length: 40 }, (_, index) => [index === at ? 'retry-after' : `x-${index}`, '3']),
        ),
      },
    },
  })
  for (const make of [detail, quoted])
    assert.deepEqual(
      [31, 32].map((at) => retryAfter(() => undefined, make(at), NOW)),
      [3_000, undefined],
    )
})

test('retry-after: ignores details that are not objects, and values of more than 64 characters', () => {
  const odd = { error: { details: [null, 'x', 3, [], { retryDelay: '3s' }] } }
  assert.equal(
    retryAfter(() => undefined, odd, NOW),
    3_000,
  )
  for (const [length, expected] of [
    [64, 5_000],
    [65, undefined],
  ] as const) {
    const figure = '5'.padStart(length, '0')
    assert.equal(retryAfter(headersOf({ 'retry-after': figure }), undefined, NOW), expected)
    const quoted = { error: { metadata: { headers: { 'retry-after': figure } } } }
    assert.equal(
      retryAfter(() => undefined, quoted, NOW),
      expected,
    )
  }
})
