import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type FailureKind, KINDS } from '../core/failure.ts'
import { classify, maskSecrets, type Said } from './classify.ts'

const cases: readonly (readonly [kind: FailureKind, status: number, said: Said])[] = [
  // Money.
  ['quota', 429, { type: 'insufficient_quota', code: 'insufficient_quota' }],
  ['quota', 429, { code: 'billing_hard_limit_reached' }],
  ['quota', 402, { message: 'Insufficient Balance', type: 'unknown_error', code: 'invalid_request_error' }],
  ['quota', 402, { code: '402', message: 'Insufficient credits' }],
  ['quota', 402, { type: 'billing_error' }],
  // Keys.
  ['auth', 401, {}],
  ['auth', 401, { type: 'invalid_request_error', code: 'invalid_api_key' }],
  ['auth', 400, { message: 'API key not valid. Please pass a valid API key.', hints: ['API_KEY_INVALID'] }],
  // Quoted from the client: no reason to let a key rest.
  ['invalid_request', 400, { message: 'Invalid role "API key not valid". Use user.' }],
  ['invalid_request', 400, { message: 'Unknown tool "your credit balance is too low".' }],
  ['auth', 403, { hints: ['UnrecognizedClientException'] }],
  ['permission', 403, {}],
  ['permission', 403, { type: 'permission_error' }],
  ['permission', 403, { code: 'unsupported_country_region_territory', type: 'request_forbidden' }],
  // Rate.
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
  // Time.
  ['timeout', 408, {}],
  ['timeout', 499, {}],
  ['timeout', 522, {}],
  ['timeout', 524, {}],
  ['timeout', 504, { type: 'timeout_error' }],
  ['conflict', 409, {}],
  // The model.
  ['model_missing', 404, {}],
  ['model_missing', 404, { code: 'DeploymentNotFound', type: 'invalid_request_error' }],
  ['model_missing', 400, { code: 'model_not_found', param: 'model' }],
  ['model_missing', 404, { type: 'not_found_error' }],
  ['invalid_request', 404, { type: 'invalid_request_error', param: 'previous_response_id' }],
  // Length.
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
  ['invalid_request', 400, { type: 'invalid_request_error', code: 'unsupported_parameter', param: 'max_tokens' }],
  ['invalid_request', 400, {}],
  ['invalid_request', 413, { type: 'request_too_large' }],
  ['invalid_request', 422, { message: 'extra_forbidden' }],
  ['invalid_request', 418, {}],
  ['invalid_request', 200, { type: 'invalid_request_error' }],
  ['invalid_request', 200, { code: '400', message: 'Token limit reached' }],
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
  // What a message says is no evidence where the status or a code knows better.
  ['status', 500, { message: 'credit balance is too low' }],
  ['rate_limited', 429, { message: 'This request would exceed the limit; prompt is too long' }],
]
for (const [kind, status, said] of cases)
  test(`classify: ${status} ${JSON.stringify(said)} is ${kind}`, () => {
    const failure = classify(status, said)
    assert.equal(failure.kind, kind)
    assert.equal(failure.message, said.message ?? failure.message)
    assert.ok(failure.message.length > 10 || said.message)
    if (said.param !== undefined) assert.equal(failure.param, said.param)
  })

test('classify: keeps what the upstream said beside it', () => {
  assert.deepEqual(classify(400, { type: 't', code: 'c', message: 'm', param: 'p', requestId: 'r' }), {
    kind: 'invalid_request',
    message: 'm',
    status: 400,
    upstream: { type: 't', code: 'c', message: 'm', requestId: 'r' },
    param: 'p',
  })
  // A 200 is no status to answer an error with.
  assert.equal(classify(200, { type: 'api_error' }).status, undefined)
  assert.equal(classify(200, { code: '429' }).status, 429)
})

test('classify: total, whatever it is given', () => {
  const word = fc.oneof(fc.string(), fc.constantFrom('__proto__', 'constructor', 'toString', '429', 'invalid_api_key'))
  fc.assert(
    fc.property(
      fc.oneof(fc.integer(), fc.double(), fc.integer({ min: 100, max: 599 })),
      fc.record(
        { type: word, code: word, message: word, param: word, requestId: word, hints: fc.array(word) },
        { requiredKeys: [] },
      ),
      (status, said) => {
        const failure = classify(status, said)
        assert.ok(Object.hasOwn(KINDS, failure.kind))
        assert.ok(failure.message !== '')
      },
    ),
  )
})

const masks: readonly (readonly [text: string, shown: string])[] = [
  ['Incorrect API key provided: sk-abcd1234efgh5678.', 'Incorrect API key provided: ***5678.'],
  [
    'Incorrect API key provided: sk-ab****wxyz. See https://a.example/keys.',
    'Incorrect API key provided: ***wxyz. See https://a.example/keys.',
  ],
  ['Authorization: Bearer abcdefgh12', 'Authorization: Bearer ***gh12'],
  ['https://x.example/v1?key=AIzaSyA1234567890abcdef&alt=sse', 'https://x.example/v1?key=***cdef&alt=sse'],
  ['invalid token "0123456789abcdef0123"', 'invalid token "***0123"'],
  ['eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl', '***dXJl'],
  ['AKIAIOSFODNN7EXAMPLE is unknown', '***MPLE is unknown'],
  ['gsk_abcdefghijklmnop and xai-abcdefghijklmnop', '***mnop and ***mnop'],
  ['x-api-key: 3fa85f6457174562b3fc2c963f66afa6', 'x-api-key: ***afa6'],
  // What is no credential stays readable.
  ['max_tokens provided: 100000000', 'max_tokens provided: 100000000'],
  ['The model `gpt-4o-mini-2024-07-18` does not exist', 'The model `gpt-4o-mini-2024-07-18` does not exist'],
  ['request id req_011CSHoEeqs5C35K2UUqR7Fy', 'request id req_011CSHoEeqs5C35K2UUqR7Fy'],
  ['Invalid token: unexpected', 'Invalid token: unexpected'],
  ['task-based-approach-for-all', 'task-based-approach-for-all'],
]
for (const [text, shown] of masks)
  test(`maskSecrets: ${text}`, () => {
    assert.equal(maskSecrets(text), shown)
    assert.equal(classify(400, { message: text }).upstream?.message, shown)
  })

test('maskSecrets: no key survives, wherever it stands', () => {
  const key = 'sk-proj-Zx9Qw8Er7Ty6Ui5Op4As3Df2Gh1'
  fc.assert(
    fc.property(fc.string(), fc.string(), (before, after) => {
      fc.pre(!/[A-Za-z0-9]$/.test(before))
      assert.ok(!maskSecrets(before + key + after).includes('Zx9Qw8Er7Ty6'))
    }),
  )
})

test('maskSecrets: linear in what it is given', () => {
  const began = performance.now()
  for (const hard of [
    'a'.repeat(1e6),
    'key '.repeat(2e5),
    'sk-'.repeat(3e5),
    `key${' '.repeat(1e6)}`,
    'bearer aaaaaaaa '.repeat(6e4),
  ])
    maskSecrets(`${hard}!`)
  assert.ok(performance.now() - began < 2_000)
})
