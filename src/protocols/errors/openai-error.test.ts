import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type Failure, type FailureKind, fail, KINDS } from '../../core/failure.ts'
import type { Json, JsonObject } from '../../core/json.ts'
import { object } from '../../core/json.ts'
import { RETRY_TRIGGERS } from '../../core/retry-triggers.ts'
import { decodeOpenaiFailure, encodeOpenaiFailure, isRetryableByClient } from './openai-error.ts'

// The keys of the table are the kinds.
const kinds = Object.keys(KINDS) as FailureKind[]
const attempts = [{ provider: 'openai', model: 'm', key: 'a1f3', status: 503, kind: 'overloaded', ms: 12 }]
const error = (failure: Failure, more = {}): JsonObject =>
  object(encodeOpenaiFailure(failure, { requestId: 'req_abc', attempts, ...more }).error) ?? {}

for (const kind of kinds)
  test(`error body: ${kind}`, () => {
    const failure = fail(kind, 'It did not work.', { param: 'messages[500].content' })
    const row = KINDS[kind]
    const body = error(failure)
    assert.deepEqual(Object.keys(body).slice(0, 5), ['message', 'type', 'code', 'param', 'request_id'])
    assert.equal(body.type, row.type)
    assert.equal(body.code, row.code)
    assert.equal(body.request_id, 'req_abc')
    assert.equal('attempts' in body, isRetryableByClient(failure))
    if (!isRetryableByClient(failure)) {
      assert.doesNotMatch(JSON.stringify(body), RETRY_TRIGGERS)
      assert.equal(body.param, 'messages[].content')
    }
  })

test('error body: the kinds that a client may retry', () => {
  assert.deepEqual(
    kinds.filter((kind) => isRetryableByClient(fail(kind, 'x'))).toSorted(),
    kinds
      .filter((kind) => KINDS[kind].status >= 500 || [408, 409, 429].includes(KINDS[kind].status))
      .filter((kind) => !['quota', 'auth', 'permission', 'unconfigured', 'record_conflict'].includes(kind))
      .toSorted(),
  )
})

test('error body: after content the code is stream_interrupted, except for a shutdown', () => {
  assert.equal(error(fail('reset', 'x'), { interrupted: true }).code, 'stream_interrupted')
  assert.equal(error(fail('shutdown', 'x'), { interrupted: true }).code, 'server_shutdown')
})

const codes: readonly (readonly [kind: FailureKind, theirs: string, shown: string])[] = [
  ['invalid_request', 'unsupported_parameter', 'unsupported_parameter'],
  ['content_policy', 'content_filter', 'content_filter'],
  ['invalid_request', '400', 'invalid_request'],
  ['invalid_request', 'rate_limit_exceeded', 'invalid_request'],
  ['invalid_request', 'x'.repeat(200), 'invalid_request'],
  ['context_length', 'whatever', 'context_length_exceeded'],
  ['model_missing', 'DeploymentNotFound', 'model_not_found'],
  ['rate_limited', 'tokens', 'rate_limited'],
]
for (const [kind, theirs, shown] of codes)
  test(`error body: ${kind} with the upstream’s code ${theirs.slice(0, 30)}`, () => {
    assert.equal(error(fail(kind, 'x', { upstream: { code: theirs } })).code, shown)
  })

const none = () => undefined
const bodies: readonly (readonly [name: string, status: number, body: Json | undefined, expected: Partial<Failure>])[] =
  [
    [
      'OpenAI',
      429,
      { error: { message: 'Rate limit', type: 'tokens', param: null, code: 'rate_limit_exceeded' } },
      { kind: 'rate_limited', message: 'Rate limit' },
    ],
    [
      'vLLM, nested with an integer',
      400,
      { error: { message: 'm', type: 'BadRequestError', param: null, code: 400 } },
      { kind: 'incompatible', message: 'm' },
    ],
    [
      'vLLM, flat',
      400,
      {
        object: 'error',
        message: "This model's maximum context length is 8 tokens",
        type: 'BadRequestError',
        code: 400,
      },
      { kind: 'context_length' },
    ],
    [
      'Gemini, in a list',
      400,
      [
        {
          error: {
            code: 400,
            message: 'API key not valid. Please pass a valid API key.',
            status: 'INVALID_ARGUMENT',
            details: [{ reason: 'API_KEY_INVALID' }],
          },
        },
      ],
      { kind: 'auth' },
    ],
    [
      'Gemini, overloaded',
      503,
      [{ error: { code: 503, message: 'm', status: 'UNAVAILABLE' } }],
      { kind: 'overloaded' },
    ],
    [
      'Gemini, exhausted',
      429,
      [{ error: { code: 429, message: 'm', status: 'RESOURCE_EXHAUSTED' } }],
      { kind: 'rate_limited' },
    ],
    [
      'xAI: error is text',
      400,
      { code: 'Client specified an invalid argument', error: 'Incorrect API key provided: xa***90.' },
      { kind: 'incompatible', message: 'Incorrect API key provided: xa***90.' },
    ],
    [
      'Ollama: error is text',
      404,
      { error: 'model "x" not found' },
      { kind: 'model_missing', message: 'model "x" not found' },
    ],
    ['Mistral, detail', 401, { detail: 'Unauthorized' }, { kind: 'auth', message: 'Unauthorized' }],
    [
      'Mistral, list of details',
      422,
      { detail: [{ loc: ['body', 'seed'], msg: 'Extra inputs are not permitted' }] },
      { kind: 'incompatible', status: 422, message: 'body.seed: Extra inputs are not permitted' },
    ],
    [
      'Mistral, flat',
      429,
      { object: 'error', message: 'Rate limit exceeded', type: 'rate_limited', code: '1300' },
      { kind: 'rate_limited' },
    ],
    [
      'Mistral, flat',
      429,
      { message: 'Requests rate limit exceeded' },
      { kind: 'rate_limited', message: 'Requests rate limit exceeded' },
    ],
    [
      'Azure, filtered',
      400,
      {
        error: {
          message: 'm',
          type: null,
          param: 'prompt',
          code: 'content_filter',
          innererror: { code: 'ResponsibleAIPolicyViolation' },
        },
      },
      { kind: 'content_policy', param: 'prompt' },
    ],
    ['OpenRouter, credits', 402, { error: { message: 'Insufficient credits', code: 402 } }, { kind: 'quota' }],
    [
      "OpenRouter, the provider's error",
      429,
      {
        error: {
          message: 'Provider returned error',
          code: 429,
          metadata: { raw: 'upstream is busy', provider_name: 'x' },
        },
      },
      { kind: 'rate_limited', message: 'upstream is busy' },
    ],
    [
      'OpenRouter, moderation',
      403,
      { error: { message: 'flagged', code: 403, metadata: { reasons: ['violence'], flagged_input: 'x' } } },
      { kind: 'content_policy' },
    ],
    [
      "OpenRouter, the provider's error as JSON text",
      400,
      {
        error: {
          message: 'Provider returned error',
          code: 400,
          metadata: { raw: '{"error":{"message":"prompt is too long: 9 tokens > 8 maximum"}}' },
        },
      },
      { kind: 'context_length', message: 'prompt is too long: 9 tokens > 8 maximum' },
    ],
    [
      "OpenRouter, the provider's error as an object",
      502,
      { error: { message: 'Provider returned error', code: 502, metadata: { raw: { error: { message: 'broke' } } } } },
      { kind: 'status', message: 'broke' },
    ],
    [
      "OpenRouter, a provider's error that is not quite JSON",
      502,
      { error: { message: 'Provider returned error', code: 502, metadata: { raw: '{"error":' } } },
      { kind: 'status', message: '{"error":' },
    ],
    [
      'Cloudflare, a list of errors',
      404,
      { success: false, errors: [{ code: 7003, message: 'Could not route' }] },
      { kind: 'not_there', message: 'Could not route' },
    ],
    ['OpenRouter, within a 200', 200, { error: { message: 'm', code: 502 } }, { kind: 'status', status: 502 }],
    [
      'Groq, in a stream',
      200,
      { error: { message: 'm', type: 'x', status_code: 503 } },
      { kind: 'overloaded', status: 503 },
    ],
    [
      'Cohere',
      404,
      { id: 'x', message: "model 'x' not found" },
      { kind: 'model_missing', message: "model 'x' not found" },
    ],
    ['a string', 500, 'Internal Server Error', { kind: 'status', message: 'Internal Server Error' }],
    ['an HTML page, 502', 502, undefined, { kind: 'status', status: 502 }],
    ['an HTML page, 503', 503, undefined, { kind: 'overloaded' }],
    ['an HTML page, 403', 403, undefined, { kind: 'not_json', status: 403 }],
    ['an HTML page, 200', 200, undefined, { kind: 'not_json' }],
    ['null', 500, null, { kind: 'status' }],
    ['empty', 400, {}, { kind: 'incompatible' }],
    [
      // github.com/ggml-org/llama.cpp/pull/15780.
      'llama.cpp, with figures',
      400,
      {
        error: {
          code: 400,
          message:
            'the request exceeds the available context size. try increasing the context size or enable context shift',
          type: 'exceed_context_size_error',
          n_prompt_tokens: 9100,
          n_ctx: 4096,
        },
      },
      { kind: 'context_length', overflow: { window: 4096, promptTokens: 9100 } },
    ],
    [
      'a message with a key',
      400,
      { error: { message: 'bad key sk-abcdefgh12345678' } },
      { message: 'bad key ***5678' },
    ],
  ]
for (const [name, status, body, expected] of bodies)
  test(`error read: ${name}`, () => {
    const failure = decodeOpenaiFailure(status, body, none)
    assert.deepEqual({ ...failure, ...expected }, failure)
    assert.ok(failure.message !== '')
  })

test('error read: headers', () => {
  const headers = (name: string) =>
    ({ 'x-request-id': 'abc', 'x-amzn-errortype': 'ThrottlingException:http://x' })[name]
  const failure = decodeOpenaiFailure(400, { message: 'slow' }, headers)
  assert.equal(failure.kind, 'rate_limited')
  assert.equal(failure.upstream?.requestId, 'abc')
})

test('error read: any body becomes a failure that can be encoded', () => {
  const shape = fc.oneof(
    fc.jsonValue(),
    fc.record({ error: fc.jsonValue(), detail: fc.jsonValue(), message: fc.jsonValue() }, { requiredKeys: [] }),
    fc.record({
      error: fc.record({
        message: fc.jsonValue(),
        code: fc.jsonValue(),
        metadata: fc.jsonValue(),
        details: fc.jsonValue(),
      }),
    }),
  )
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 700 }), shape, (status, body) => {
      // fast-check types JSON values as unknown.
      const failure = decodeOpenaiFailure(status, body as Json, none)
      assert.ok(Object.hasOwn(KINDS, failure.kind))
      assert.equal(typeof error(failure).message, 'string')
    }),
  )
})
