import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ContextOverflow, type FailureKind, fail, KINDS } from '../../core/failure.ts'
import type { Json } from '../../core/json.ts'
import { RETRY_TRIGGERS } from '../../core/retry-triggers.ts'
import { isRetryableByClient } from '../errors/openai-error.ts'
import { decodeFailure, encodeFailure, errorEvent } from './errors.ts'

const error = (type: string, message: string, more: Json = null) => ({
  type: 'error',
  error: { type, message, ...(more !== null && { details: more }) },
  request_id: 'req_1',
})
const cases: readonly [string, number, Json | undefined, FailureKind][] = [
  ['bad key', 401, error('authentication_error', 'invalid x-api-key'), 'auth'],
  ['no permission', 403, error('permission_error', 'x'), 'permission'],
  ['unknown model', 404, error('not_found_error', 'model: x'), 'model_missing'],
  [
    "the request's fault",
    400,
    error('invalid_request_error', 'messages: at least one message is required'),
    'incompatible',
  ],
  [
    'too long',
    400,
    error('invalid_request_error', 'prompt is too long: 213462 tokens > 200000 maximum'),
    'context_length',
  ],
  [
    'too long with the answer',
    400,
    error('invalid_request_error', 'input length and `max_tokens` exceed context limit: 1 + 2 > 3'),
    'context_length',
  ],
  ['billing', 402, error('billing_error', 'x'), 'quota'],
  ['too large', 413, error('request_too_large', 'Request exceeds the maximum size'), 'too_large_for_target'],
  ['rate', 429, error('rate_limit_error', 'x'), 'rate_limited'],
  // Anthropic's meaning is in the provider's error table; the format only keeps the code.
  ['spend', 429, error('rate_limit_error', 'x', { error_code: 'enforced_spend_limit_reached' }), 'rate_limited'],
  ['an api_error', 500, error('api_error', 'Internal server error'), 'status'],
  ['slow', 504, error('timeout_error', 'x'), 'timeout'],
  ['overloaded', 529, error('overloaded_error', 'Overloaded'), 'overloaded'],
  ['overloaded in a 200', 200, error('overloaded_error', 'Overloaded'), 'overloaded'],
  ['an error body with status 200', 200, error('api_error', 'x'), 'error_in_stream'],
  ['an HTML page', 200, undefined, 'not_json'],
  ['an HTML page of a firewall', 403, undefined, 'not_json'],
  ['an HTML page of a CDN', 529, undefined, 'overloaded'],
  ['a bare message', 500, { message: 'x' }, 'status'],
  ['a bare error', 400, { error: 'x' }, 'incompatible'],
  ['a string', 500, 'x', 'status'],
  ['null', 400, null, 'incompatible'],
]
for (const [name, status, body, kind] of cases)
  test(`decode: ${name}`, () => {
    const failure = decodeFailure(status, body, (header) => (header === 'request-id' ? 'req_header' : undefined))
    assert.equal(failure.kind, kind)
    assert.notEqual(failure.message, '')
    if (status >= 300) assert.equal(failure.status, status)
    if (body !== undefined) assert.match(failure.upstream?.requestId ?? '', /^req_(1|header)$/)
  })

const TYPES = new Set([
  'invalid_request_error',
  'authentication_error',
  'billing_error',
  'permission_error',
  'not_found_error',
  'request_too_large',
  'rate_limit_error',
  'timeout_error',
  'api_error',
  'overloaded_error',
])

// Every failure kind.
for (const kind of Object.keys(KINDS) as FailureKind[])
  test(`encode: ${kind}`, () => {
    const failure = fail(kind, 'What happened.')
    const body = encodeFailure(failure, { requestId: 'req_x' })
    const type = JSON.stringify(body).match(/"error":\{"type":"(\w+)"/)?.[1] ?? ''
    assert.ok(TYPES.has(type), type)
    const message = kind === 'context_length' ? 'prompt is too long: What happened.' : 'What happened.'
    assert.deepEqual(body, { type: 'error', error: { type, message }, request_id: 'req_x' })
    assert.deepEqual(errorEvent(failure, undefined), { type: 'error', error: { type, message } })
    // Clients search the body for retryable types, so a final error must not contain one.
    if (!isRetryableByClient(failure)) assert.doesNotMatch(JSON.stringify(body), RETRY_TRIGGERS)
  })

test('encode: the type is not retryable if no target is available; the headers state whether to retry', () => {
  const failure = fail('no_target', 'No upstream may be tried at the moment.', { retryAfter: 30_000 })
  assert.partialDeepStrictEqual(encodeFailure(failure, { requestId: 'req_x' }), { error: { type: 'api_error' } })
})

const LONG: readonly (readonly [
  what: string,
  message: string,
  overflow: ContextOverflow | undefined,
  shown: string,
])[] = [
  [
    'figures',
    'Prompt too long: 32799 tokens exceeds max context window of 32768 tokens',
    { window: 32768, promptTokens: 32799 },
    'prompt is too long: 32799 tokens > 32768 maximum. Prompt too long: 32799 tokens exceeds max context window of 32768 tokens',
  ],
  ['no figures', 'Prompt exceeds max length', {}, 'prompt is too long: Prompt exceeds max length'],
  [
    'its own words',
    'prompt is too long: 9 tokens > 8 maximum',
    { window: 8, promptTokens: 9 },
    'prompt is too long: 9 tokens > 8 maximum',
  ],
  [
    'a prompt that fits without the requested output',
    'm',
    { window: 32768, promptTokens: 2358, requestedOutput: 32000 },
    'input length and `max_tokens` exceed context limit: 2358 + 32000 > 32768, decrease input length or `max_tokens` and try again',
  ],
]
for (const [what, message, overflow, shown] of LONG)
  test(`encode: a long prompt in the words that clients of this format recognise: ${what}`, () => {
    const failure = fail('context_length', message, overflow && { overflow })
    assert.partialDeepStrictEqual(encodeFailure(failure, { requestId: 'r' }), { error: { message: shown } })
  })
