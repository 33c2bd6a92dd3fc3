import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { ErrorTable } from '../../core/error-table.ts'
import { type Failure, type FailureKind, fail, KINDS } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import { applyErrorTable, classify, matchingRow, type UpstreamError } from './classify.ts'

const cases: readonly (readonly [kind: FailureKind, status: number, error: UpstreamError])[] = [
  // Quota.
  ['quota', 429, { type: 'insufficient_quota', code: 'insufficient_quota' }],
  ['quota', 429, { code: 'billing_hard_limit_reached' }],
  ['quota', 402, { message: 'Insufficient Balance', type: 'unknown_error', code: 'invalid_request_error' }],
  ['quota', 402, { code: '402', message: 'Insufficient credits' }],
  ['quota', 402, { type: 'billing_error' }],
  // Keys.
  ['auth', 401, {}],
  ['auth', 401, { type: 'invalid_request_error', code: 'invalid_api_key' }],
  ['auth', 400, { message: 'API key not valid. Please pass a valid API key.', hints: ['API_KEY_INVALID'] }],
  // Text quoted from the client's request is no evidence about the key.
  ['incompatible', 400, { message: 'Invalid role "API key not valid". Use user.' }],
  ['incompatible', 400, { message: 'Unknown tool "your credit balance is too low".' }],
  ['auth', 403, { hints: ['UnrecognizedClientException'] }],
  ['permission', 403, {}],
  ['permission', 403, { type: 'permission_error' }],
  ['permission', 403, { code: 'unsupported_country_region_territory', type: 'request_forbidden' }],
  // Rate limits.
  ['rate_limited', 429, {}],
  ['rate_limited', 429, { type: 'tokens', code: 'rate_limit_exceeded' }],
  ['rate_limited', 429, { type: 'rate_limited', code: '1300' }],
  ['rate_limited', 429, { hints: ['RESOURCE_EXHAUSTED'] }],
  ['rate_limited', 429, { message: 'Too many tokens', hints: ['ThrottlingException'] }],
  ['rate_limited', 200, { type: 'tokens', code: 'rate_limit_exceeded' }],
  ['token_rate', 413, { type: 'tokens', code: 'rate_limit_exceeded' }],
  // Overload.
  ['overloaded', 503, {}],
  ['overloaded', 503, { type: 'server_error' }],
  ['overloaded', 529, { type: 'overloaded_error', message: 'Overloaded' }],
  ['overloaded', 200, { type: 'overloaded_error' }],
  ['overloaded', 503, { hints: ['UNAVAILABLE'] }],
  ['overloaded', 500, { code: 'server_is_overloaded' }],
  ['overloaded', 429, { code: 'slow_down' }],
  ['overloaded', 498, { code: 'capacity_exceeded' }],
  ['overloaded', 424, { hints: ['ModelErrorException'] }],
  ['overloaded', 429, { hints: ['ModelNotReadyException'] }],
  // Timeouts.
  ['timeout', 408, {}],
  ['timeout', 499, {}],
  ['timeout', 522, {}],
  ['timeout', 524, {}],
  ['timeout', 504, { type: 'timeout_error' }],
  ['conflict', 409, {}],
  // The model.
  ['not_there', 404, {}],
  ['model_missing', 404, { param: 'model' }],
  ['model_missing', 404, { code: 'DeploymentNotFound', type: 'invalid_request_error' }],
  ['model_missing', 400, { code: 'model_not_found', param: 'model' }],
  ['not_there', 404, { type: 'not_found_error' }],
  ['model_missing', 404, { type: 'not_found_error', message: 'model: claude-x' }],
  ['incompatible', 404, { type: 'invalid_request_error', param: 'previous_response_id' }],
  // Context length.
  ['context_length', 400, { code: 'context_length_exceeded', param: 'messages' }],
  ['context_length', 400, { message: 'prompt is too long: 210000 tokens > 200000 maximum' }],
  [
    'context_length',
    400,
    { type: 'BadRequestError', code: '400', message: "This model's maximum context length is 32768" },
  ],
  ['context_length', 400, { message: "This endpoint's maximum context length is 200000 tokens." }],
  ['context_length', 400, { message: 'The input token count (9) exceeds the maximum number of tokens allowed (8).' }],
  ['context_length', 400, { message: 'input length and `max_tokens` exceed context limit: 1 + 2 > 2' }],
  ['context_length', 400, { message: 'the request exceeds the available context size' }],
  // Content.
  ['content_policy', 400, { code: 'content_filter' }],
  ['content_policy', 400, { hints: ['ResponsibleAIPolicyViolation'] }],
  ['content_policy', 403, { code: '403', hints: ['content_policy_violation'] }],
  ['content_policy', 200, { code: 'content_filter' }],
  // The request.
  ['incompatible', 400, { type: 'invalid_request_error', code: 'unsupported_parameter', param: 'max_tokens' }],
  ['incompatible', 400, {}],
  ['too_large_for_target', 413, { type: 'request_too_large' }],
  ['too_large_for_target', 413, {}],
  ['too_large_for_target', 413, { message: 'Request Entity Too Large' }],
  ['too_large_for_target', 200, { type: 'request_too_large' }],
  ['incompatible', 422, { message: 'extra_forbidden' }],
  ['incompatible', 418, {}],
  ['incompatible', 200, { type: 'invalid_request_error' }],
  ['incompatible', 200, { code: '400', message: 'Token limit reached' }],
  // The server.
  ['status', 500, {}],
  ['status', 500, { type: 'api_error' }],
  ['status', 502, {}],
  ['status', 504, {}],
  ['status', 599, {}],
  ['status', 200, { code: '502' }],
  ['error_in_stream', 200, { type: 'api_error', message: 'Internal server error' }],
  ['error_in_stream', 200, {}],
  ['redirect', 302, { code: 'invalid_api_key' }],
  // Status and code take precedence over the message.
  ['status', 500, { message: 'credit balance is too low' }],
  ['rate_limited', 429, { message: 'This request would exceed the limit; prompt is too long' }],
]
for (const [kind, status, error] of cases)
  test(`classify: ${status} ${JSON.stringify(error)} is ${kind}`, () => {
    const failure = classify(status, error)
    assert.equal(failure.kind, kind)
    assert.equal(failure.message, error.message ?? failure.message)
    assert.ok(failure.message.length > 10 || error.message)
    if (error.param !== undefined) assert.equal(failure.param, error.param)
  })

test('classify: keeps the upstream’s own error members', () => {
  assert.deepEqual(classify(400, { type: 't', code: 'c', message: 'm', param: 'p', requestId: 'r' }), {
    kind: 'incompatible',
    message: 'm',
    status: 400,
    upstream: { type: 't', code: 'c', message: 'm', requestId: 'r' },
    param: 'p',
  })
  // Status 200 is not kept as the status of an error.
  assert.equal(classify(200, { type: 'api_error' }).status, undefined)
  assert.equal(classify(200, { code: '429' }).status, 429)
})

test('classify: returns a valid kind and a message for any input', () => {
  const word = fc.oneof(fc.string(), fc.constantFrom('__proto__', 'constructor', 'toString', '429', 'invalid_api_key'))
  fc.assert(
    fc.property(
      fc.oneof(fc.integer(), fc.double(), fc.integer({ min: 100, max: 599 })),
      fc.record(
        { type: word, code: word, message: word, param: word, requestId: word, hints: fc.array(word) },
        { requiredKeys: [] },
      ),
      (status, error) => {
        const failure = classify(status, error)
        assert.ok(Object.hasOwn(KINDS, failure.kind))
        assert.ok(failure.message !== '')
      },
    ),
  )
})

/** The exact messages for errors without a message of the upstream. Permanent failures must not read like a reason to retry. */
const defaultMessages: readonly (readonly [status: number, error: UpstreamError, expected: string])[] = [
  [401, {}, "The provider did not accept the gateway's key. Check the key in the gateway's configuration."],
  [403, {}, "The gateway's key may not use this model at this provider."],
  [402, {}, "The gateway's account at this provider has used up its quota."],
  [404, {}, 'The provider does not have this model, or its base URL is wrong.'],
  [400, { code: 'model_not_found' }, 'The provider does not have this model.'],
  [400, { code: 'context_length_exceeded' }, 'The request is longer than the model can read.'],
  [400, { code: 'content_filter' }, 'The provider refused the request because of its content.'],
  [400, {}, 'The provider refused the request and gave no reason.'],
  [429, {}, "The provider's rate limit is reached."],
  [413, { type: 'tokens', code: 'rate_limit_exceeded' }, "The provider's rate limit is reached."],
  [503, {}, 'The provider is overloaded.'],
  [408, {}, 'The provider took too long.'],
  [307, {}, 'The provider answered with a redirect (307), which is never followed. Check its base URL.'],
  [200, {}, 'The provider reported an error inside its answer.'],
  [500, {}, 'The provider answered with status 500 and gave no reason.'],
  [409, {}, 'The provider answered with status 409 and gave no reason.'],
  [200, { code: '409' }, 'The provider answered with status 409 and gave no reason.'],
]
for (const [status, error, expected] of defaultMessages)
  test(`classify: the message of ${status} ${JSON.stringify(error)} without text`, () => {
    assert.equal(classify(status, error).message, expected)
    assert.equal(classify(status, { ...error, message: ' \n ' }).message, expected)
    assert.notEqual(classify(status, { ...error, message: ' because ' }).message, expected)
  })

test('classify: boundaries of the status classes', () => {
  const kinds = (...statuses: readonly number[]) => statuses.map((status) => classify(status, {}).kind)
  assert.deepEqual(kinds(299, 300, 399, 400, 499, 500, 599), [
    'error_in_stream',
    'redirect',
    'redirect',
    'incompatible',
    'timeout',
    'status',
    'status',
  ])
  assert.deepEqual(
    [299, 300].map((status) => classify(status, {}).status),
    [undefined, 300],
  )
  // A code is read as a status only in a 200 response, and only with three digits.
  for (const [code, status] of [
    ['503', 503],
    ['1503', undefined],
    ['5033', undefined],
    ['303', undefined],
    ['603', undefined],
  ] as const)
    assert.equal(classify(200, { code }).status, status, code)
  assert.equal(classify(300, { code: '503' }).kind, 'redirect')
})

test('classify: truncates long texts, and ignores case, separators and suffixes of codes', () => {
  const long = 'x'.repeat(4_001)
  assert.equal(classify(500, { message: long }).message, `${'x'.repeat(4_000)}…`)
  assert.equal(classify(500, { message: long.slice(1) }).message, long.slice(1))
  assert.equal(classify(500, { message: 'x', requestId: long }).upstream?.requestId, `${'x'.repeat(4_000)}…`)
  for (const word of ['THROTTLING_EXCEPTION', 'Throttling-Exception', 'throttling exception', 'Throttling'])
    assert.equal(classify(400, { hints: ['x', word.replaceAll(' ', '')] }).kind, 'rate_limited', word)
  // Only a suffix is removed.
  assert.equal(classify(400, { code: 'exceptionThrottling' }).kind, 'incompatible')
})

const table: ErrorTable = {
  checked: '2026-11-21',
  rows: [
    { when: { status: [418, 419], word: 'teapot' }, kind: 'overloaded', seen: 'here' },
    { when: { header: 'x-busy' }, kind: 'rate_limited', seen: 'here' },
    { when: { status: 200, message: /^cold/ }, kind: 'timeout', seen: 'here' },
  ],
}
const none = () => undefined
const busy = (name: string) => (name === 'x-busy' ? '1' : undefined)

test('dialect: a row of the provider’s table applies if all its conditions match', () => {
  const kindOf = (failure: Failure, headers = none as HeaderLookup) => applyErrorTable(failure, table, headers).kind
  assert.equal(kindOf(classify(418, { code: 'TEA_POT' })), 'overloaded')
  assert.equal(kindOf(classify(419, { type: 'teapot' })), 'overloaded')
  assert.equal(kindOf(classify(417, { code: 'teapot' })), 'incompatible')
  assert.equal(kindOf(classify(418, { code: 'kettle' })), 'incompatible')
  assert.equal(kindOf(classify(500, {}), busy), 'rate_limited')
  assert.equal(kindOf(classify(500, {})), 'status')
  assert.equal(kindOf(classify(200, { message: 'cold start' })), 'timeout')
  assert.equal(kindOf(classify(200, { message: 'a cold start' })), 'error_in_stream')
  assert.equal(matchingRow(table, classify(500, {}), busy), table.rows[1])
})

test('dialect: a failure is unchanged without a table, without a matching row, or without an upstream response', () => {
  const failure = classify(418, { code: 'teapot', message: 'hot' })
  assert.equal(applyErrorTable(failure, undefined, none), failure)
  const other = classify(500, {})
  assert.equal(applyErrorTable(other, table, none), other)
  const broken = fail('reset', 'it broke off')
  assert.equal(applyErrorTable(broken, table, busy), broken)
  assert.equal(matchingRow(table, broken, busy), undefined)
  // The failure has the row's kind already.
  const limited = classify(429, {})
  assert.equal(applyErrorTable(limited, table, busy), limited)
})

test('dialect: a failure without an upstream message gets the message of its new kind', () => {
  assert.equal(applyErrorTable(classify(418, { code: 'teapot', message: 'hot' }), table, none).message, 'hot')
  for (const message of [undefined, ' '])
    assert.equal(
      applyErrorTable(classify(418, { code: 'teapot', ...(message && { message }) }), table, none).message,
      'The provider is overloaded.',
    )
  assert.equal(applyErrorTable(classify(418, { code: 'teapot' }), table, none).status, 418)
  const inside: ErrorTable = { checked: '', rows: [{ when: { word: 'odd' }, kind: 'status', seen: '' }] }
  assert.equal(
    applyErrorTable(classify(200, { code: 'odd' }), inside, none).message,
    'The provider failed and gave no reason.',
  )
  assert.equal(
    applyErrorTable(classify(429, { code: 'odd' }), inside, none).message,
    'The provider answered with status 429 and gave no reason.',
  )
})
