import assert from 'node:assert/strict'
import { test } from 'node:test'
import { instance } from '../../../test/support/gateway.ts'
import { type Failure, type FailureKind, fail, KINDS } from '../../core/failure.ts'
import { finalError, retryAdvice, type SkippedReason, statusOf } from './final-error.ts'

const of = (...kinds: FailureKind[]): Failure[] =>
  kinds.map((kind) => fail(kind, `it was ${kind.replaceAll('_', ' ')}`))

const cases: readonly (readonly [string, readonly Failure[], readonly SkippedReason[], number, string])[] = [
  ['one timeout', of('timeout'), [], 504, 'timeout'],
  ['timeouts of every kind', of('timeout', 'no_first_content', 'connect_timeout', 'stalled'), [], 504, 'timeout'],
  ['a timeout and a bad status', of('timeout', 'status'), [], 502, 'status'],
  ['a bad status and a timeout', of('status', 'timeout'), [], 502, 'timeout'],
  ['rate limits', of('rate_limited', 'rate_limited'), [], 429, 'rate_limited'],
  [
    'a rate limit, and a skipped target in cooldown',
    of('rate_limited'),
    [{ why: 'rate_limited', wait: 5_000 }],
    429,
    'rate_limited',
  ],
  ['all in cooldown', [], [{ why: 'rate_limited', wait: 5_000 }], 429, 'rate_limited'],
  ['quota everywhere', of('quota', 'quota'), [], 429, 'insufficient_quota'],
  ['quota exhausted earlier', [], [{ why: 'quota_exhausted', wait: 900_000 }], 429, 'insufficient_quota'],
  ['one without quota, one rate limited', of('quota', 'rate_limited'), [], 429, 'rate_limited'],
  ['a rate limit and a bad status', of('rate_limited', 'status'), [], 502, 'status'],
  ['rejected keys', of('auth', 'auth'), [], 502, 'upstream_auth'],
  ['suspended keys', [], [{ why: 'suspended', wait: 60_000 }], 502, 'upstream_auth'],
  ['open circuits', [], [{ why: 'circuit', wait: 20_000 }], 503, 'no_target_available'],
  [
    'open circuits and rate limits',
    [],
    [
      { why: 'circuit', wait: 20_000 },
      { why: 'rate_limited', wait: 3_000 },
    ],
    503,
    'no_target_available',
  ],
  [
    'no room in a budget, and a suspended key that may be tried again',
    [],
    [
      { why: 'budget', wait: null },
      { why: 'suspended', wait: 60_000 },
    ],
    503,
    'no_target_available',
  ],
  ['an invalid request', of('status', 'invalid_request'), [], 400, 'invalid_request'],
  [
    'an invalid request, reported by one of two concurrent attempts',
    of('invalid_request', 'status'),
    [],
    400,
    'invalid_request',
  ],
  ['a content policy refusal, then a timeout', of('content_policy', 'timeout'), [], 400, 'content_policy_violation'],
  ['a missing model everywhere', of('model_missing', 'model_missing'), [], 404, 'model_not_found'],
  ['a missing model everywhere, found earlier', [], [{ why: 'model_missing', wait: 60_000 }], 404, 'model_not_found'],
  ['a content policy refusal', of('content_policy'), [], 400, 'content_policy_violation'],
  ['all unfit', [], [{ why: 'unfit', paths: ['n'] }], 400, 'unsupported_parameter'],
  ['one unfit, one failed', of('status'), [{ why: 'unfit', paths: ['n'] }], 502, 'status'],
  ['refused by every vendor', of('incompatible', 'incompatible'), [], 400, 'invalid_request'],
  ['refused by one, another unfit', of('incompatible'), [{ why: 'unfit', paths: ['n'] }], 400, 'invalid_request'],
  ['refused by one, another failed', of('status', 'incompatible'), [], 502, 'status'],
  ['refused by one, another timed out', of('incompatible', 'timeout'), [], 504, 'timeout'],
  ['a feature missing at one, another failed', of('incapable', 'status'), [], 502, 'status'],
  [
    'refused by one, another rate limited',
    of('incompatible'),
    [{ why: 'rate_limited', wait: 9_000 }],
    429,
    'rate_limited',
  ],
  [
    'refused by one, another with an open circuit',
    of('incompatible'),
    [{ why: 'circuit', wait: 9_000 }],
    503,
    'no_target_available',
  ],
  ['the deadline passed', of('deadline'), [], 504, 'timeout'],
]

for (const [name, failures, skipped, status, code] of cases)
  test(`final error: ${name}`, () => {
    const failure = finalError(failures, skipped)
    assert.equal(statusOf(failure), status)
    assert.equal(KINDS[failure.kind].code, code)
  })

test('final error: retryAfter is the shortest wait', () => {
  assert.equal(
    finalError([fail('rate_limited', '', { retryAfter: 9_000 })], [{ why: 'rate_limited', wait: 4_000 }]).retryAfter,
    4_000,
  )
})

test('final error: unsupported members are named', () => {
  const failure = finalError([], [{ why: 'unfit', paths: ['tools[1]', 'n'] }])
  assert.equal(failure.param, 'tools[1]')
  assert.match(failure.message, /tools\[1\], n/)
})

const advice: readonly (readonly [string, Failure, number | null, boolean, number | null])[] = [
  ['an invalid request', fail('invalid_request', ''), 0, false, null],
  ['a limit for 3 s', fail('rate_limited', '', { retryAfter: 2_400 }), 0, true, 3],
  ['a limit for an hour', fail('rate_limited', '', { retryAfter: 3_600_000 }), 0, false, 3_600],
  ['a limit for just 60 s', fail('rate_limited', '', { retryAfter: 60_000 }), 0, true, 60],
  ['a limit of unknown length', fail('rate_limited', ''), 0, true, 1],
  ['a limit with a longer cooldown of other requests', fail('rate_limited', '', { retryAfter: 2_400 }), 7_100, true, 8],
  ['a limit of unknown length with an estimated cooldown', fail('rate_limited', ''), 7_121, true, 8],
  ['a limit and an open circuit', fail('rate_limited', '', { retryAfter: 2_400 }), 300_000, false, 300],
  ['quota', fail('quota', ''), 0, false, null],
  ['upstream auth', fail('auth', ''), 0, false, null],
  ['unconfigured', fail('unconfigured', ''), null, false, null],
  ['a bad gateway, a target is available', fail('status', ''), 0, true, null],
  ['a bad gateway, no target for 5 min', fail('status', ''), 300_000, false, null],
  ['a timeout', fail('timeout', ''), 0, true, null],
  ['circuits for 5 s', fail('no_target', '', { retryAfter: 5_000 }), 5_000, true, 5],
  ['circuits for 5.001 s', fail('no_target', '', { retryAfter: 5_001 }), 5_001, false, 6],
  ['circuits for 20 s', fail('no_target', '', { retryAfter: 20_000 }), 20_000, false, 20],
  ['circuits for an unknown time, the next probe in 6 s', fail('no_target', ''), 6_000, false, 6],
  ['circuits that may be probed now', fail('no_target', ''), 0, true, 1],
  ['circuits for 5 min', fail('no_target', '', { retryAfter: 300_000 }), 300_000, false, 300],
  ['too busy', fail('busy', '', { retryAfter: 1_000 }), 0, true, 1],
  ['conflict', fail('conflict', ''), 0, true, null],
]

for (const [name, failure, soonest, retry, after] of advice)
  test(`retry advice: ${name}`, () => {
    assert.deepEqual(retryAdvice(failure, soonest), { retry, after })
  })

test('retry advice: no retry for a wait above 60 s, and none for a 4xx except 408, 409 and 429', () => {
  for (const kind of Object.keys(KINDS) as FailureKind[])
    for (const retryAfter of [undefined, 0, 59_000, 61_000, 4_000_000])
      for (const soonest of [null, 0, 1_000, 70_000]) {
        const failure = fail(kind, '', retryAfter === undefined ? {} : { retryAfter })
        const { retry, after } = retryAdvice(failure, soonest)
        const status = statusOf(failure)
        if (after !== null && after > 60) assert.equal(retry, false, kind)
        if (status < 500 && ![408, 409, 429].includes(status)) assert.equal(retry, false, kind)
      }
})

/** The exact messages. */
const messages: readonly (readonly [Failure[], readonly SkippedReason[], string])[] = [
  [of('quota'), [], 'No key has credit or quota left. Last: it was quota'],
  [[], [{ why: 'quota', wait: null }], 'No key has credit or quota left.'],
  [of('rate_limited'), [], 'Every upstream is at its limit for now. Last: it was rate limited'],
  [[], [{ why: 'token_rate', wait: 1_000 }], 'Every upstream is at its limit for now.'],
  [
    of('rate_limited'),
    [{ why: 'retry_budget', wait: 1_000 }],
    'Every upstream tried is at its limit for now; others were not tried, because the retry budget is used up (retry.budgetPercent). Last: it was rate limited',
  ],
  [of('model_missing'), [], 'No provider has this model. Last: it was model missing'],
  [of('connect_timeout'), [], 'No upstream answered in time. Last: it was connect timeout'],
  [of('status'), [], 'The upstream could not answer. Last: it was status'],
  [of('reset', 'status'), [], 'Two attempts failed. Last: it was status'],
  [of('status', 'context_length'), [], 'it was context length'],
  [[], [{ why: 'model_missing', wait: 1_000 }], 'No provider has this model, according to a check a short while ago.'],
  [
    [],
    [{ why: 'circuit', wait: null }],
    'No upstream may be tried at the moment: circuits are open or cooldowns are active. See /providers/status.',
  ],
  [
    [],
    [
      { why: 'circuit', wait: null },
      { why: 'budget', wait: null },
    ],
    'No upstream may be tried at the moment: circuits are open or cooldowns are active, and a budget has no room for the others. See /providers/status.',
  ],
  [
    [],
    [
      { why: 'unfit', paths: ['n', 'tools', 'n'] },
      { why: 'unfit', paths: [] },
    ],
    'No configured provider supports n, tools. Remove it, or add a provider that uses this API style.',
  ],
]
for (const [failures, skipped, message] of messages)
  test(`final error: the message is “${message}”`, () => assert.equal(finalError(failures, skipped).message, message))

test('final error: the number of attempts is in words, so that it cannot be read as a status', () => {
  const words = ['Two', 'Three', 'Four', 'Five', 'Six', 'Seven', 'Eight', 'Nine', 'Many', 'Many']
  for (const [at, word] of words.entries())
    assert.match(
      finalError(Array(at + 2).fill(fail('status', 'x')), []).message,
      new RegExp(`^${word} attempts failed\\.`),
    )
})

test('final error: a rejected key and one without quota: no retry, as with either alone', () => {
  const inCooldown = [
    { why: 'suspended', wait: 60_000 },
    { why: 'quota_exhausted', wait: 900_000 },
  ]
  const first = finalError(of('auth', 'quota'), [])
  const next = finalError([], inCooldown)
  assert.deepEqual([statusOf(first), retryAdvice(first, 60_000).retry], [502, false])
  assert.deepEqual([statusOf(next), retryAdvice(next, 60_000).retry], [502, false])
  assert.equal(
    next.message,
    'No key of the configured providers is accepted or has quota left at the moment. Check the keys and their accounts.',
  )
  assert.equal(finalError([], [...inCooldown, { why: 'rate_limited', wait: 3_000 }]).kind, 'no_target')
})

for (const why of ['auth', 'permission', 'suspended', 'disabled', 'model_denied'])
  test(`final error: every key is ${why}`, () => {
    const { kind, message, retryAfter } = finalError([], [{ why, wait: 7_000 }])
    assert.deepEqual([kind, retryAfter], ['auth', 7_000])
    assert.equal(message, 'No key of the configured providers is accepted at the moment. Check the keys.')
  })

test('final error: the upstream’s error is kept with its kind', () => {
  const upstream = { code: 'theirs' }
  for (const kind of ['quota', 'rate_limited', 'model_missing'] as const) {
    assert.deepEqual(finalError([fail(kind, 'x', { upstream })], []).upstream, upstream)
    assert.equal('upstream' in finalError([fail(kind, 'x')], []), false)
  }
  assert.equal(finalError(of('model_missing'), []).param, 'model')
  assert.equal(finalError([], [{ why: 'model_missing', wait: 1 }]).param, 'model')
})

test('final error: a missing model among other failures is a bad gateway, marked as mixed', () => {
  assert.deepEqual(
    [finalError(of('timeout', 'model_missing'), []), finalError(of('status', 'status'), [])].map(({ kind, mixed }) => [
      kind,
      mixed === true,
    ]),
    [
      ['status', true],
      ['status', false],
    ],
  )
})

test('final error: a skipped target counts beside a failed attempt only for rate limits and quota', () => {
  // A suspended key is unrelated to the failure of another target.
  assert.equal(finalError(of('status'), [{ why: 'suspended', wait: 1_000 }]).mixed, undefined)
  assert.equal(finalError(of('status'), [{ why: 'rate_limited', wait: 1_000 }]).mixed, true)
  assert.equal(finalError(of('rate_limited'), [{ why: 'circuit', wait: 1_000 }]).kind, 'rate_limited')
  assert.equal(
    finalError(
      [],
      [
        { why: 'unfit', paths: ['n'] },
        { why: 'circuit', wait: 1_000 },
      ],
    ).kind,
    'no_target',
  )
  assert.equal(
    finalError(
      [],
      [
        { why: 'unfit', paths: ['n'] },
        { why: 'suspended', wait: 1_000 },
      ],
    ).kind,
    'auth',
  )
})

test('final error: an unknown wait is omitted, and a negative wait is 0', () => {
  assert.equal('retryAfter' in finalError([], [{ why: 'circuit', wait: null }]), false)
  assert.equal(finalError([], [{ why: 'circuit', wait: -5 }]).retryAfter, 0)
  assert.equal(
    finalError(
      [],
      [
        { why: 'circuit', wait: null },
        { why: 'retry_budget', wait: 3 },
      ],
    ).retryAfter,
    3,
  )
})

const statuses: readonly (readonly [FailureKind, number | undefined, number])[] = [
  ['invalid_request', undefined, 400],
  ['invalid_request', 399, 400],
  ['invalid_request', 400, 400],
  ['invalid_request', 422, 422],
  ['invalid_request', 499, 499],
  ['invalid_request', 500, 400],
  // These concern the gateway's key, not the client's.
  ['invalid_request', 401, 400],
  ['invalid_request', 403, 400],
  ['status', 422, 502],
]
for (const [kind, status, expected] of statuses)
  test(`status: ${kind} with ${status} is ${expected}`, () =>
    assert.equal(statusOf(fail(kind, '', status === undefined ? {} : { status })), expected))

const edges: readonly (readonly [string, Failure, number | null, boolean, number | null])[] = [
  ['an idempotency key in use', fail('idempotency_key_in_use', '', { retryAfter: 1_500 }), 0, true, 2],
  ['a model denied to the key', fail('permission', ''), 0, false, null],
  ['an event that is too large', fail('too_large', ''), 0, false, null],
  ['an event that is too large, after other failures', fail('too_large', '', { mixed: true }), 0, true, null],
  ['a bad gateway with a wait', fail('status', '', { retryAfter: 5_000 }), 0, true, null],
  ['a bad gateway, no target for 60 s', fail('status', ''), 60_000, true, null],
  ['a bad gateway, no target for more than 60 s', fail('status', ''), 60_001, false, null],
  ['a bad gateway, no target at all', fail('status', ''), null, false, null],
  ['an overloaded provider with a wait', fail('overloaded', '', { retryAfter: 20_000 }), 0, true, 20],
  ['an overloaded provider with a long wait', fail('overloaded', '', { retryAfter: 90_000 }), 0, false, 90],
  ['an overloaded provider without a wait', fail('overloaded', ''), 3_000, true, null],
  ['a wait of 0', fail('rate_limited', '', { retryAfter: 0 }), 0, true, 1],
  ['an invalid request with a wait', fail('invalid_request', '', { retryAfter: 5_000 }), 0, false, null],
]
for (const [name, failure, soonest, retry, after] of edges)
  test(`retry advice: ${name}`, () => assert.deepEqual(retryAdvice(failure, soonest), { retry, after }))

test('final error: of ten thousand unsupported members ten are named', () => {
  const paths = Array.from({ length: 10_000 }, (_, at) => `tools[${at}]`)
  const { message, param } = finalError([], [{ why: 'unfit', paths }])
  assert.match(message, /^No configured provider supports tools\[0\], .*, tools\[9\] and more\. Remove it/)
  assert.equal(param, 'tools[0]')
  const ten = finalError([], [{ why: 'unfit', paths: paths.slice(0, 10) }])
  assert.match(ten.message, /tools\[9\]\. Remove/)
})

test('final error: an unfit target is named with its API style and a remedy', () => {
  const speaks = [{ protocol: 'openai-chat' as const }]
  const made = instance('openai', ['k1'], { title: 'OpenAI', speaks: [{ protocol: 'openai-responses' }, ...speaks] })
  const candidate = (model: string) => ({ instance: { ...made, speaks }, model, because: '', weight: 1 })
  const [key] = made.keys
  assert.ok(key)
  const unfit = (model: string) =>
    [{ why: 'unfit', paths: ['tools'], target: { candidate: candidate(model), key } }] as const
  assert.equal(
    finalError([], unfit('gpt-5.6')).message,
    "No configured provider supports tools: openai/gpt-5.6 does not take it in the API style chat. Add another style of OpenAI (responses) to the provider's `styles`, remove the member, or add another provider.",
  )
  // Clients search errors for status codes.
  assert.match(finalError([], unfit('m-503')).message, /^No configured provider supports tools\. Remove it/)
  const both = (model: string) => unfit(model).map((skip) => ({ ...skip, because: 'takes a or b' }))
  assert.equal(
    finalError([], [...unfit('gpt-5.6'), ...both('gpt-5.5')]).message,
    'No configured provider supports tools: openai/gpt-5.5 takes a or b. Leave one out, or add a provider that takes both.',
  )
  assert.match(finalError([], both('m-503')).message, /tools: the model takes a or b\. Leave one out/)
})
