import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { LIMIT_HEADERS } from '../retry/limit-headers.ts'
import { quotaIn, scarcestLimit } from './quota.ts'

const DATE = Date.UTC(2026, 10, 21, 12, 0, 0)
const NOW = 5_000
const MINUTE = 60_000
const DAY = 24 * 60 * MINUTE

type Headers = Readonly<Record<string, string>>

const lookup = (headers: Headers) => (name: string) => headers[name]
/** The remaining share of the scarcest limit, and for how many ms it counts. */
const read = (headers: Headers) => {
  const quota = quotaIn(lookup(headers), NOW, DATE)
  const left = quota && scarcestLimit(quota, NOW)
  return left && [left.share, left.until - NOW]
}

// Headers of real upstreams; a star marks recordings.
const recorded: readonly (readonly [name: string, headers: Headers, left: ReturnType<typeof read>])[] = [
  ['no headers', {}, undefined],
  ['DeepSeek: no limits', { 'x-ds-trace-id': '1', 'content-type': 'application/json' }, undefined],
  [
    'OpenAI*: full again in a moment',
    {
      'x-ratelimit-limit-requests': '5000',
      'x-ratelimit-remaining-requests': '4999',
      'x-ratelimit-reset-requests': '12ms',
      'x-ratelimit-limit-tokens': '2000000',
      'x-ratelimit-remaining-tokens': '2000000',
      'x-ratelimit-reset-tokens': '0s',
    },
    [0.9998, 12],
  ],
  [
    'OpenAI: minutes',
    {
      'x-ratelimit-limit-tokens': '150000',
      'x-ratelimit-remaining-tokens': '15000',
      'x-ratelimit-reset-tokens': '6m0s',
    },
    [0.1, 360_000],
  ],
  [
    'OpenAI*: of the project',
    {
      'x-ratelimit-limit-project-tokens': '100',
      'x-ratelimit-remaining-project-tokens': '25',
      'x-ratelimit-reset-project-tokens': '10ms',
    },
    [0.25, 10],
  ],
  [
    'OpenAI*: images',
    {
      'x-ratelimit-limit-input-images': '50000',
      'x-ratelimit-remaining-input-images': '0',
      'x-ratelimit-reset-input-images': '1.5s',
    },
    [0, 1_500],
  ],
  [
    'Anthropic*: four limits, RFC 3339',
    {
      'anthropic-ratelimit-requests-limit': '4000',
      'anthropic-ratelimit-requests-remaining': '3999',
      'anthropic-ratelimit-requests-reset': '2026-11-21T12:00:01Z',
      'anthropic-ratelimit-tokens-limit': '2400000',
      'anthropic-ratelimit-tokens-remaining': '2400000',
      'anthropic-ratelimit-tokens-reset': '2026-11-21T12:00:00Z',
      'anthropic-ratelimit-input-tokens-limit': '2000000',
      'anthropic-ratelimit-input-tokens-remaining': '500000',
      'anthropic-ratelimit-input-tokens-reset': '2026-11-21T12:00:45Z',
      'anthropic-ratelimit-output-tokens-limit': '400000',
      'anthropic-ratelimit-output-tokens-remaining': '200000',
      'anthropic-ratelimit-output-tokens-reset': '2026-11-21T12:00:30Z',
    },
    [0.25, 45_000],
  ],
  [
    'Groq: requests of a day, tokens of a minute',
    {
      'x-ratelimit-limit-requests': '14400',
      'x-ratelimit-remaining-requests': '14370',
      'x-ratelimit-reset-requests': '2m59.56s',
      'x-ratelimit-limit-tokens': '18000',
      'x-ratelimit-remaining-tokens': '9000',
      'x-ratelimit-reset-tokens': '7.66s',
    },
    [0.5, 7_660],
  ],
  [
    'Cerebras: seconds with a fraction',
    {
      'x-ratelimit-limit-requests-day': '1000',
      'x-ratelimit-remaining-requests-day': '0',
      'x-ratelimit-reset-requests-day': '33011.5',
      'x-ratelimit-limit-tokens-minute': '60000',
      'x-ratelimit-remaining-tokens-minute': '0',
      'x-ratelimit-reset-tokens-minute': '11.5',
    },
    [0, 33_011_500],
  ],
  [
    'Azure*: milliseconds, beside the length of the window',
    {
      'x-ratelimit-limit-requests': '120',
      'x-ratelimit-remaining-requests': '60',
      'x-ratelimit-renewalperiod-requests': '60',
      'x-ratelimit-reset-requests': '500',
    },
    [0.5, 500],
  ],
  [
    'Azure*: seconds, beside the length of the window',
    {
      'x-ratelimit-limit-requests': '50',
      'x-ratelimit-remaining-requests': '49',
      'x-ratelimit-renewalperiod-requests': '60',
      'x-ratelimit-reset-requests': '60',
    },
    [0.98, 60_000],
  ],
  ['Azure*: remaining without a total', { 'x-ratelimit-remaining-requests': '119' }, undefined],
  ['exhausted without a total', { 'x-ratelimit-remaining-requests': '0' }, [0, MINUTE]],
  [
    'Mistral*: no reset, the window in the name',
    {
      'x-ratelimit-limit-req-minute': '100',
      'x-ratelimit-remaining-req-minute': '96',
      'x-ratelimit-limit-req-10-second': '60',
      'x-ratelimit-remaining-req-10-second': '6',
      'x-ratelimit-limit-tokens-month': '200000000000',
      'x-ratelimit-remaining-tokens-month': '199999999990',
      'x-ratelimit-tokens-query-cost': '224',
    },
    [0.1, 10_000],
  ],
  [
    'Mistral*: a monthly limit counts for a minute',
    { 'x-ratelimit-limit-tokens-month': '100', 'x-ratelimit-remaining-tokens-month': '0' },
    [0, MINUTE],
  ],
  [
    'Together*: seconds; what remains of more than the limit',
    { 'x-ratelimit-limit': '10', 'x-ratelimit-remaining': '19', 'x-ratelimit-reset': '2' },
    [1, 2_000],
  ],
  [
    'OpenRouter: milliseconds since 1970',
    {
      'x-ratelimit-limit': '50',
      'x-ratelimit-remaining': '0',
      'x-ratelimit-reset': String(DATE + 7 * 60 * MINUTE),
    },
    [0, 7 * 60 * MINUTE],
  ],
  [
    'seconds since 1970',
    { 'x-ratelimit-limit': '50', 'x-ratelimit-remaining': '5', 'x-ratelimit-reset': String(DATE / 1_000 + 90) },
    [0.1, 90_000],
  ],
  [
    'Fireworks: prompt and generated',
    {
      'x-ratelimit-limit-tokens-prompt': '60000',
      'x-ratelimit-remaining-tokens-prompt': '30000',
      'x-ratelimit-limit-tokens-generated': '6000',
      'x-ratelimit-remaining-tokens-generated': '600',
    },
    [0.1, MINUTE],
  ],
  ['xAI*: no reset', { 'x-ratelimit-limit-requests': '1800', 'x-ratelimit-remaining-requests': '900' }, [0.5, MINUTE]],
  [
    'the draft standard',
    { 'ratelimit-limit': '100', 'ratelimit-remaining': '50', 'ratelimit-reset': '30' },
    [0.5, 30_000],
  ],
  ['a total without a remainder', { 'x-ratelimit-limit-requests': '50' }, undefined],
  [
    'a word instead of a number',
    { 'x-ratelimit-limit-requests': '10', 'x-ratelimit-remaining-requests': 'many' },
    undefined,
  ],
  ['a negative remainder', { 'x-ratelimit-limit-requests': '10', 'x-ratelimit-remaining-requests': '-1' }, undefined],
  [
    'a fractional remainder',
    { 'x-ratelimit-limit-requests': '10', 'x-ratelimit-remaining-requests': '1.5' },
    undefined,
  ],
  ['16 digits', { 'x-ratelimit-limit-tokens': '1', 'x-ratelimit-remaining-tokens': '1'.repeat(16) }, undefined],
  ['15 digits', { 'x-ratelimit-limit-tokens': '2', 'x-ratelimit-remaining-tokens': '1'.repeat(15) }, [1, MINUTE]],
  ['0 of 0 is no limit', { 'x-ratelimit-limit-requests': '0', 'x-ratelimit-remaining-requests': '0' }, undefined],
  [
    'a reset that cannot be read',
    { 'x-ratelimit-limit-tokens': '4', 'x-ratelimit-remaining-tokens': '1', 'x-ratelimit-reset-tokens': 'soon' },
    [0.25, MINUTE],
  ],
  [
    'a reset on no calendar',
    {
      'anthropic-ratelimit-tokens-limit': '4',
      'anthropic-ratelimit-tokens-remaining': '1',
      'anthropic-ratelimit-tokens-reset': '2026-13-41T00:00:00Z',
    },
    [0.25, MINUTE],
  ],
  [
    'a reset that has passed',
    {
      'anthropic-ratelimit-tokens-limit': '4',
      'anthropic-ratelimit-tokens-remaining': '0',
      'anthropic-ratelimit-tokens-reset': '2026-11-21T11:59:59Z',
    },
    undefined,
  ],
  [
    'a reset next week is believed for a day',
    { 'x-ratelimit-limit-tokens': '4', 'x-ratelimit-remaining-tokens': '0', 'x-ratelimit-reset-tokens': '7d' },
    [0, DAY],
  ],
]

for (const [name, headers, left] of recorded) test(`quota: ${name}`, () => assert.deepEqual(read(headers), left))

test('quota: a limit no longer counts after its reset', () => {
  const quota = [
    { share: 0, until: 100 },
    { share: 0, until: 300 },
    { share: 0.5, until: 400 },
  ]
  assert.deepEqual(scarcestLimit(quota, 0), { share: 0, until: 300 })
  assert.deepEqual(scarcestLimit(quota, 299), { share: 0, until: 300 })
  assert.deepEqual(scarcestLimit(quota, 300), { share: 0.5, until: 400 })
  assert.equal(scarcestLimit(quota, 400), undefined)
  assert.equal(scarcestLimit([], 0), undefined)
  // The order of the headers does not matter.
  assert.deepEqual(scarcestLimit(quota.toReversed(), 0), { share: 0, until: 300 })
})

test('quota: a total without a remainder is not a limit', () => {
  assert.equal(quotaIn(lookup({ 'x-ratelimit-limit-requests': '5' }), NOW, DATE), undefined)
})

test('quota: every header of the table is read, and no name occurs twice', () => {
  const names = LIMIT_HEADERS.flatMap(({ left, whole, reset }) => [left, whole, reset])
  assert.equal(new Set(names).size, names.length)
  for (const { left, whole, reset } of LIMIT_HEADERS)
    assert.deepEqual(read({ [left]: '1', [whole]: '4', [reset]: '3s' }), [0.25, 3_000], left)
})

test('quota: any header values give a share from 0 to 1 and an end within a day', () => {
  const names = LIMIT_HEADERS.flatMap(({ left, whole, reset, period }) => [left, whole, reset, period])
  const value = fc.oneof(fc.string(), fc.nat().map(String), fc.constantFrom('0', '6m0s', '1e9', '-1', '9'.repeat(40)))
  fc.assert(
    fc.property(fc.dictionary(fc.constantFrom(...names), value), (headers) => {
      for (const { share, until } of quotaIn(lookup(headers), NOW, DATE) ?? []) {
        assert.ok(share >= 0 && share <= 1, String(share))
        assert.ok(until <= NOW + DAY && !Number.isNaN(until), String(until))
      }
    }),
  )
})
