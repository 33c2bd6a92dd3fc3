/**
 * Classification of upstream errors. Each row of each error table is checked against the evidence it cites, decoded as the
 * gateway decodes it. Every recorded error is classified by a row, or has a reason for the classification by status.
 */

import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { loadProviders } from '../../src/config/catalogue/load-providers.ts'
import { fold } from '../../src/core/chat.ts'
import type { ErrorRow, ErrorTable } from '../../src/core/error-table.ts'
import { type Failure, type FailureKind, KINDS } from '../../src/core/failure.ts'
import { isObject, type Json, type JsonObject, list, object } from '../../src/core/json.ts'
import type { UpstreamProtocol } from '../../src/core/protocol.ts'
import type { Provider } from '../../src/core/provider.ts'
import { run } from '../../src/core/stage.ts'
import { readerFor } from '../../src/gateway/upstream/body-reader.ts'
import { matchingRow } from '../../src/protocols/errors/classify.ts'
import { COMMON_ERRORS } from '../../src/protocols/errors/common-errors.ts'
import { upstreamProtocols } from '../../src/protocols/index.ts'
import { assertLinear } from '../support/growth.ts'
import {
  allRecordings,
  type Recording,
  readWire,
  requireRecordings,
  skipWithoutRecordings,
} from '../support/recordings.ts'
import { OVERFLOWS, QUOTED, REFUSALS } from './errors.quoted.ts'

const providers = await loadProviders()

// ── Decoding an error ────────────────────────────────────────────────────────────────────────────────────────────

/** An error of an upstream. An undefined `body` is an HTML page. */
export type ErrorResponse = {
  readonly status: number
  readonly body: Json | undefined
  readonly headers?: { readonly [name: string]: string } | null
  /** Events of a stream, instead of the body. */
  readonly chunks?: readonly string[]
}

const headersOf =
  ({ headers }: ErrorResponse) =>
  (name: string) =>
    headers?.[name]

const failureOf = (
  error: ErrorResponse,
  protocol: UpstreamProtocol,
  quirks: Provider['quirks'],
): Failure | undefined => {
  const { status, body, chunks } = error
  const type = chunks ? 'text/event-stream' : body === undefined ? 'text/html' : 'application/json'
  const text = chunks ? `${chunks.join('\n\n')}\n\n` : body === undefined ? '<html>' : JSON.stringify(body)
  const headers = (name: string) => headersOf(error)(name) ?? (name === 'content-type' ? type : undefined)
  const reader = readerFor(
    { status, headers },
    { protocol, quirks, translated: null, stream: chunks !== undefined, date: 0 },
  )
  return fold(run(reader, [new TextEncoder().encode(text)]).flatMap(({ events }) => events)).failure
}

/** Provider names of recordings that differ from ours. */
const PROVIDER_NAMES: { readonly [provider: string]: string } = { azure: 'azure-openai' }
const providerOf = (name: string): Provider | undefined => providers.get(PROVIDER_NAMES[name] ?? name)

/** The format of an API's errors. */
const protocolOf = (api: string): UpstreamProtocol =>
  Object.values(upstreamProtocols).find(({ style }) => style === api.replace(/-count-tokens$/, '')) ??
  upstreamProtocols['openai-chat']

const tableOf = (name: string): ErrorTable | undefined => providerOf(name)?.quirks?.errors

// ── Evidence ─────────────────────────────────────────────────────────────────────────────────────────────────────

type Evidence = ErrorResponse & { readonly protocol: UpstreamProtocol }

const recordings: ReadonlyMap<string, Recording> = new Map(allRecordings().map((one) => [one.id, one]))
const reported: ReadonlyMap<string, JsonObject> = new Map(
  list(readWire('errors.reported.json')?.items).flatMap((item) => (isObject(item) ? [[String(item.id), item]] : [])),
)

const fromRecording = ({ status, response, response_headers, chunks }: Recording): ErrorResponse => ({
  status: status ?? 200,
  body: response,
  headers: response_headers,
  ...(chunks && { chunks }),
})

const fromReport = ({ status, body, stream_event, headers }: JsonObject): ErrorResponse => ({
  status: Number(status),
  body: body ?? null,
  // Headers in the file are strings.
  headers: (object(headers) ?? {}) as { readonly [name: string]: string },
  ...(stream_event === true && { chunks: [`event: error\ndata: ${JSON.stringify(body)}`] }),
})

/** Whether evidence is a page or thread, not the id of a recording or report. */
const isUrl = (seen: string): boolean => seen.includes('/')

const evidenceFor = (seen: string, usual: UpstreamProtocol): readonly Evidence[] => {
  const recording = recordings.get(seen)
  if (recording) return [{ ...fromRecording(recording), protocol: protocolOf(recording.api) }]
  const report = reported.get(seen)
  if (report) return [{ ...fromReport(report), protocol: protocolOf(String(report.api)) }]
  return (QUOTED[seen] ?? []).map((error) => ({ ...error, protocol: error.api ? protocolOf(error.api) : usual }))
}

// ── Every row ────────────────────────────────────────────────────────────────────────────────────────────────────

const TABLES: readonly (readonly [name: string, table: ErrorTable, provider: Provider | undefined])[] = [
  ['common', COMMON_ERRORS, undefined],
  ...[...providers.values()].flatMap((provider) =>
    provider.quirks?.errors ? [[provider.name, provider.quirks.errors, provider] as const] : [],
  ),
]

requireRecordings()

const describeRow = ({ when, kind }: ErrorRow): string =>
  [when.status, when.word, when.message instanceof RegExp ? when.message : undefined, when.header, 'is', kind]
    .filter((sign) => sign !== undefined)
    .join(' ')

for (const [name, table, provider] of TABLES)
  describe(`errors of ${name}`, () => {
    const usual = upstreamProtocols[provider?.speaks[0]?.protocol ?? 'openai-chat']
    for (const row of table.rows)
      test(describeRow(row), { skip: isUrl(row.seen) ? false : skipWithoutRecordings }, () => {
        const evidence = evidenceFor(row.seen, usual)
        assert.ok(evidence.length > 0, `no evidence ${row.seen}: quote the body in errors.quoted.ts`)
        const matching = evidence.filter((error) => {
          const failure = failureOf(error, error.protocol, provider?.quirks)
          if (!failure || matchingRow(table, failure, headersOf(error)) !== row) return false
          assert.equal(failure.kind, row.kind)
          return true
        })
        assert.ok(matching.length > 0, `this row matches no body of ${row.seen}`)
      })

    test('each row has a condition and a date, and rests no key because of a client’s text', () => {
      assert.match(table.checked, /^20[0-9]{2}-[01][0-9]-[0-3][0-9]$/)
      for (const row of table.rows) {
        const { status, word, message, header } = row.when
        assert.ok([status, word, message, header].some((sign) => sign !== undefined))
        if (isUrl(row.seen)) assert.match(row.seen, / \(20[0-9]{2}-[01][0-9]-[0-3][0-9]\)$/, row.seen)
        if (!message) continue
        const { key } = KINDS[row.kind] as { readonly key?: string }
        if (key !== undefined && word === undefined) assert.ok(message instanceof RegExp, describeRow(row))
        if (!(message instanceof RegExp)) continue
        assert.equal(message.flags.replace('i', ''), '', 'a stateful pattern')
        if (key !== undefined && word === undefined) assert.match(message.source, /^\^/, describeRow(row))
      }
    })

    test('no pattern backtracks', () => {
      for (const hard of ['a', 'your team ', 'consumer ', 'account ', 'input token count ', ' '])
        assertLinear(hard, 8_000, (size) => {
          for (const { when } of table.rows) when.message?.test(hard.repeat(size / hard.length))
        })
    })
  })

test('every quoted body matches a row that cites it', () => {
  const cited = new Set(TABLES.flatMap(([, table]) => table.rows.map(({ seen }) => seen)))
  for (const [seen, bodies] of Object.entries(QUOTED)) {
    assert.ok(cited.has(seen), `no row cites ${seen}`)
    for (const error of bodies)
      assert.ok(
        TABLES.some(([, table, provider]) => {
          const usual = upstreamProtocols[provider?.speaks[0]?.protocol ?? 'openai-chat']
          const failure = failureOf(error, error.api ? protocolOf(error.api) : usual, provider?.quirks)
          return failure && matchingRow(table, failure, headersOf(error))?.seen === seen
        }),
        `${seen} has a body that matches no row: ${JSON.stringify(error.body)}`,
      )
  }
})

for (const [kind, quoted] of [
  ['incompatible', REFUSALS],
  ['context_length', OVERFLOWS],
] as const)
  for (const [seen, bodies] of Object.entries(quoted))
    test(`${kind}, without a row: ${seen}`, () => {
      for (const error of bodies) {
        const failure = failureOf(
          error,
          error.api ? protocolOf(error.api) : upstreamProtocols['openai-chat'],
          undefined,
        )
        assert.equal(failure?.kind, kind, JSON.stringify(error.body))
      }
    })

// ── Single cases ─────────────────────────────────────────────────────────────────────────────────────────────────

type Case = readonly [line: string, provider: string, status: number, body: Json | undefined, kind: FailureKind]

const anthropicError = (type: string, message = 'x'): Json => ({
  type: 'error',
  error: { type, message },
  request_id: 'req_1',
})
const openaiError = (message: string, more: JsonObject = {}): Json => ({
  error: { message, type: null, param: null, ...more },
})

/** Errors without a row of their own, and errors that a row must not match. */
const CASES: readonly Case[] = [
  // Anthropic.
  ['the request', 'anthropic', 400, anthropicError('invalid_request_error', 'messages: required'), 'incompatible'],
  [
    'a quoted prompt',
    'anthropic',
    400,
    anthropicError('invalid_request_error', 'x: "Your credit balance is too low"'),
    'incompatible',
  ],
  [
    'workspace limit',
    'anthropic',
    400,
    anthropicError('invalid_request_error', 'You have reached your specified workspace API usage limits.'),
    'quota',
  ],
  ['key', 'anthropic', 401, anthropicError('authentication_error'), 'auth'],
  ['billing', 'anthropic', 402, anthropicError('billing_error'), 'quota'],
  ['permission', 'anthropic', 403, anthropicError('permission_error'), 'permission'],
  ['model', 'anthropic', 404, anthropicError('not_found_error', 'model: claude-x'), 'model_missing'],
  ['32 MB limit of the proxy', 'anthropic', 413, anthropicError('request_too_large'), 'too_large_for_target'],
  ['rate', 'anthropic', 429, anthropicError('rate_limit_error'), 'rate_limited'],
  ['server error', 'anthropic', 500, anthropicError('api_error'), 'status'],
  ['timeout', 'anthropic', 504, anthropicError('timeout_error'), 'timeout'],
  ['overloaded', 'anthropic', 529, anthropicError('overloaded_error', 'Overloaded'), 'overloaded'],
  [
    'error in a list',
    'gemini',
    400,
    [{ error: { code: 400, message: 'Invalid value', status: 'INVALID_ARGUMENT' } }],
    'incompatible',
  ],
  // Gemini.
  [
    'key, without a reason',
    'gemini',
    400,
    [{ error: { code: 400, message: 'API key not valid. Please pass a valid API key.', status: 'INVALID_ARGUMENT' } }],
    'auth',
  ],
  [
    'one model denied',
    'gemini',
    403,
    { error: { code: 403, message: 'x', status: 'PERMISSION_DENIED' } },
    'permission',
  ],
  // Azure.
  [
    'filter',
    'azure-openai',
    400,
    openaiError('x', { code: 'content_filter', innererror: { code: 'ResponsibleAIPolicyViolation' } }),
    'content_policy',
  ],
  [
    'filter, by the inner error',
    'azure-openai',
    400,
    openaiError('x', { innererror: { code: 'ResponsibleAIPolicyViolation' } }),
    'content_policy',
  ],
  ['deployment', 'azure-openai', 404, openaiError('x', { code: 'DeploymentNotFound' }), 'model_missing'],
  ['status as code', 'azure-openai', 401, openaiError('x', { code: '401' }), 'auth'],
  // Mistral, Cohere.
  ['detail as text', 'mistral', 401, { detail: 'Unauthorized' }, 'auth'],
  [
    'detail as a list',
    'mistral',
    422,
    { detail: [{ type: 'extra_forbidden', loc: ['body', 'seed'], msg: 'Extra inputs are not permitted' }] },
    'incompatible',
  ],
  [
    'capacity',
    'mistral',
    429,
    {
      object: 'error',
      message: 'Service tier capacity exceeded for this model.',
      type: 'invalid_request_error',
      code: null,
    },
    'overloaded',
  ],
  [
    'rate',
    'mistral',
    429,
    { object: 'error', message: 'Rate limit exceeded', type: 'rate_limited', code: '1300' },
    'rate_limited',
  ],
  [
    'too long',
    'cohere',
    400,
    { id: 'x', message: 'too many tokens: size limit exceeded by 25836 tokens.' },
    'context_length',
  ],
  // Groq.
  [
    'tokens per minute',
    'groq',
    413,
    openaiError('Request too large for model', { type: 'tokens', code: 'rate_limit_exceeded' }),
    'token_rate',
  ],
  ['flex', 'groq', 498, openaiError('x', { code: 'capacity_exceeded' }), 'overloaded'],
  // OpenAI.
  ['quota', 'openai', 429, openaiError('x', { type: 'insufficient_quota', code: 'insufficient_quota' }), 'quota'],
  ['billing', 'openai', 400, openaiError('x', { code: 'billing_hard_limit_reached' }), 'quota'],
  [
    'tokens',
    'openai',
    429,
    openaiError('Rate limit reached', { type: 'tokens', code: 'rate_limit_exceeded' }),
    'rate_limited',
  ],
  [
    'unsupported parameter',
    'openai',
    400,
    openaiError('x', { type: 'invalid_request_error', code: 'unsupported_parameter' }),
    'incompatible',
  ],
  [
    'model, responses',
    'openai',
    400,
    openaiError('x', { type: 'invalid_request_error', code: 'model_not_found' }),
    'model_missing',
  ],
  ['country', 'openai', 403, openaiError('x', { code: 'unsupported_country_region_territory' }), 'permission'],
  // xAI.
  ['the request', 'xai', 400, { code: 'x', error: 'Invalid arguments passed to the model.' }, 'incompatible'],
  ['bare text', 'xai', 429, 'Too many tokens for team TEAM', 'rate_limited'],
  ['no access', 'xai', 403, { code: 'x', error: 'No.' }, 'permission'],
  // OpenRouter.
  ['credits', 'openrouter', 402, openaiError('Insufficient credits', { code: 402 }), 'quota'],
  [
    'credits, by the limit source',
    'openrouter',
    402,
    openaiError('x', { code: 402, metadata: { limit_source: 'openrouter_credits' } }),
    'quota',
  ],
  [
    'moderation',
    'openrouter',
    403,
    openaiError('x', { code: 403, metadata: { reasons: ['violence'], flagged_input: 'y' } }),
    'content_policy',
  ],
  ['no permission', 'openrouter', 403, openaiError('x', { code: 403 }), 'permission'],
  [
    'in a 200',
    'openrouter',
    200,
    openaiError('Provider returned error', { code: 502, metadata: { raw: 'broke' } }),
    'status',
  ],
  [
    'context length, in a 200',
    'openrouter',
    200,
    openaiError('Provider returned error', {
      code: 400,
      metadata: { raw: '{"error":{"message":"This model\'s maximum context length is 8 tokens"}}' },
    }),
    'context_length',
  ],
  // DeepSeek, Together, vLLM, Ollama.
  ['balance', 'deepseek', 402, openaiError('Insufficient Balance', { code: 'invalid_request_error' }), 'quota'],
  ['overloaded', 'deepseek', 503, openaiError('x'), 'overloaded'],
  ['error with an id', 'together', 401, { id: 'x', error: { message: 'x', code: 'invalid_api_key' } }, 'auth'],
  ['integer code', 'vllm', 400, { object: 'error', message: 'x', type: 'BadRequestError', code: 400 }, 'incompatible'],
  ['error as text', 'ollama', 404, { error: 'model "x" not found' }, 'model_missing'],
  // Any provider.
  ['a firewall’s page', 'openai', 403, undefined, 'not_json'],
  ['a proxy’s page', 'openai', 502, undefined, 'status'],
  ['a CDN’s page', 'openai', 524, undefined, 'timeout'],
  ['unknown 4xx', 'openai', 418, {}, 'incompatible'],
  ['unknown 5xx', 'openai', 599, {}, 'status'],
]

for (const [line, name, status, body, kind] of CASES)
  test(`error: ${name}: ${line} (${status}) is ${kind}`, () => {
    const provider = providers.get(name)
    const failure = failureOf(
      { status, body },
      upstreamProtocols[provider?.speaks[0]?.protocol ?? 'openai-chat'],
      provider?.quirks,
    )
    assert.equal(failure?.kind, kind)
    if (status >= 300) assert.equal(failure?.status, status)
  })

test('errors: a failure has the retry delay of Google’s body', { skip: skipWithoutRecordings }, () => {
  const [error] = evidenceFor('gemini-gemini-google-429-retry-info-bc2baa96', upstreamProtocols.gemini)
  assert.ok(error)
  assert.equal(failureOf(error, error.protocol, providers.get('gemini')?.quirks)?.retryAfter, 34_400)
})

test('errors: a body of unexpected shape is classified without the provider’s table', () => {
  const odd = { toString: 1 }
  const bodies: readonly (Json | undefined)[] = [
    ...[undefined, null, '', 'x', 7, [], [null], {}],
    ...[{ error: null }, { error: 'x' }, { error: [] }, { errors: [] }, { errors: 'x' }, { detail: 'x' }],
    { error: { message: 5, code: {}, metadata: [], details: 'x' } },
    { error: { message: odd, code: odd, innererror: { code: odd }, metadata: { raw: odd, limit_source: odd } } },
  ]
  const protocol = upstreamProtocols['openai-chat']
  for (const [name, { quirks }] of providers)
    for (const status of [400, 401, 403, 404, 500])
      for (const body of bodies)
        assert.equal(
          failureOf({ status, body }, protocol, quirks)?.kind,
          failureOf({ status, body }, protocol, undefined)?.kind,
          `${name} ${status} ${JSON.stringify(body)}`,
        )
})

test('errors: the message of a provider behind OpenRouter is kept, with its key redacted', () => {
  const body = openaiError('Provider returned error', {
    code: 429,
    metadata: { raw: 'busy, key sk-abcdEFGH12345678zzzz, come back' },
  })
  const failure = failureOf(
    { status: 429, body },
    upstreamProtocols['openai-chat'],
    providers.get('openrouter')?.quirks,
  )
  assert.equal(failure?.message, 'busy, key ***zzzz, come back')
})

test('errors: a failure without an upstream message has the message of its kind', () => {
  const error = { status: 400, body: openaiError('', { code: 'blocked_api_access' }) }
  const failure = failureOf(error, upstreamProtocols['openai-chat'], providers.get('groq')?.quirks)
  assert.equal(failure?.kind, 'quota')
  assert.match(failure?.message ?? '', /quota/)
})

test('errors: no row matches a truncated stream', () => {
  const everything: ErrorTable = { checked: '2026-11-21', rows: [{ when: { status: 200 }, kind: 'quota', seen: '' }] }
  const error = { status: 200, body: null, chunks: ['data: {"choices":[]}'] }
  assert.equal(failureOf(error, upstreamProtocols['openai-chat'], { errors: everything })?.kind, 'truncated')
})

// ── Every recorded error ─────────────────────────────────────────────────────────────────────────────────────────

/** A cheap test for recordings that may have a failure. */
const mayFail = ({ status, response, chunks }: Recording): boolean =>
  (status ?? 200) >= 400 ||
  (isObject(response) && Boolean(response.error)) ||
  (chunks ?? []).some((chunk) => typeof chunk === 'string' && /"error": ?\{|event: error|response\.failed/.test(chunk))

/** Recordings with a known kind, by provider. */
const KNOWN_RECORDINGS: readonly (readonly [provider: string, id: string, kind: FailureKind])[] = [
  ['groq', 'groq-chat-test-tool-use-failed-error-61297c48', 'malformed'],
  ['groq', 'groq-chat-test-tool-use-failed-error-streaming-with-text-564fca61', 'malformed'],
  ['groq', 'groq-chat-test-model-name-suggestion-groq-03b155a0', 'model_missing'],
  ['groq', 'groq-chat-413-19', 'token_rate'],
  ['gemini', 'gemini-gemini-chat-error-handling-with-gemini-gemini-2-5-flash-f0deb6d7', 'auth'],
  ['gemini', 'gemini-gemini-testgoogleaierrorhandling-4089cece', 'auth'],
  ['gemini', 'vertex-gemini-chat-real-error-scenarios-vertexai-gemini-2-5-fl-a4fc5d9c', 'context_length'],
  ['gemini', 'gemini-chat-400-7', 'incompatible'],
  ['deepseek', 'deepseek-chat-chat-real-error-scenarios-deepseek-deepseek-chat-1f945b02', 'context_length'],
  ['deepseek', 'deepseek-chat-402-24', 'quota'],
  ['openrouter', 'openrouter-chat-chat-real-error-scenarios-openrouter-claude-haik-794b3aea', 'context_length'],
  ['openrouter', 'openrouter-chat-test-openrouter-errors-raised-6942a2d2', 'rate_limited'],
  ['openrouter', 'openrouter-chat-402-22', 'quota'],
  ['openrouter', 'openrouter-chat-402-23', 'quota'],
  ['azure-openai', 'azure-chat-test-chat-reasoning-1b5ad5b7', 'model_missing'],
  ['azure-openai', 'azure-chat-test-prompt-content-filtering-with-events-with-n-98ddde0e', 'content_policy'],
  ['azure-openai', 'azure-chat-400-14', 'content_policy'],
  ['cohere', 'cohere-cohere-chat-real-error-scenarios-cohere-command-a-03-20-e1954076', 'context_length'],
  ['anthropic', 'anthropic-messages-400-3', 'quota'],
  ['anthropic', 'anthropic-messages-400-4', 'incompatible'],
  ['anthropic', 'anthropic-messages-429-5', 'rate_limited'],
  ['anthropic', 'anthropic-messages-529-0', 'overloaded'],
  ['anthropic', 'anthropic-messages-200-1', 'overloaded'],
  ['mistral', 'mistral-mistral-429-16', 'rate_limited'],
  ['mistral', 'mistral-mistral-429-17', 'overloaded'],
  ['vllm', 'vllm-chat-400-25', 'context_length'],
  ['vllm', 'vllm-chat-400-26', 'context_length'],
  ['openai', 'openai-chat-429-12', 'quota'],
  ['openai', 'openai-responses-openai-error-1-chunks-501de15e', 'quota'],
  ['openai', 'openai-responses-stream-rate-limited-1-ea567320', 'token_rate'],
  ['xai', 'xai-chat-429-27', 'rate_limited'],
]

for (const [name, id, kind] of KNOWN_RECORDINGS)
  test(`error: ${name}: ${id} is ${kind}`, { skip: skipWithoutRecordings }, () => {
    const [error] = evidenceFor(id, upstreamProtocols['openai-chat'])
    assert.ok(error)
    assert.equal(failureOf(error, error.protocol, providers.get(name)?.quirks)?.kind, kind)
  })

/** Errors that match no row and are classified by their status, with the reason. */
const STATUS_ONLY: { readonly [id: string]: string } = {
  'bedrock-bedrock-invoke-200-21': 'an event of an API that the gateway does not use',
  'openai-responses-stream-unknown-error-responses-1-50adcd5e': 'an invented code: an error in a stream',
}

type Counts = { readonly [provider: string]: { readonly [kind in FailureKind]?: number } }

/** The number of recorded and reported errors of each provider by kind. */
const COUNTS: Counts = {
  anthropic: {
    auth: 4,
    context_length: 1,
    error_in_stream: 1,
    incompatible: 1,
    model_missing: 4,
    overloaded: 2,
    quota: 1,
    rate_limited: 1,
  },
  azure: { auth: 2, content_policy: 2, model_missing: 1, not_there: 3, status: 1 },
  bedrock: {
    auth: 2,
    error_in_stream: 1,
    incapable: 2,
    incompatible: 3,
    model_missing: 3,
    permission: 3,
    rate_limited: 1,
  },
  cohere: { context_length: 1, model_missing: 2 },
  deepseek: { context_length: 1, incompatible: 1, quota: 1 },
  gemini: { auth: 3, incompatible: 1, model_missing: 5, overloaded: 1, rate_limited: 3 },
  groq: { malformed: 2, model_missing: 2, token_rate: 1 },
  mistral: { auth: 1, overloaded: 1, rate_limited: 2 },
  ollama: { auth: 1 },
  openai: {
    auth: 8,
    context_length: 2,
    error_in_stream: 2,
    incompatible: 19,
    model_missing: 8,
    quota: 2,
    rate_limited: 2,
    status: 1,
    token_rate: 1,
  },
  openrouter: { context_length: 1, incompatible: 1, quota: 2, rate_limited: 1 },
  perplexity: { auth: 1 },
  together: { auth: 1 },
  vertex: { context_length: 1, incompatible: 2, model_missing: 1 },
  vllm: { context_length: 2 },
  xai: { rate_limited: 1 },
}

test('every recorded and every reported error is classified by a row', { skip: skipWithoutRecordings }, (t) => {
  const all = [
    ...[...recordings.values()].filter(mayFail).map((one) => ({ ...one, error: fromRecording(one) })),
    ...[...reported].map(([id, one]) => ({
      id,
      provider: String(one.provider),
      api: String(one.api),
      error: fromReport(one),
    })),
  ]
  const counts: { [provider: string]: { [kind: string]: number } } = {}
  const unknown: string[] = []
  for (const { id, provider, api, error } of all) {
    const failure = failureOf(error, protocolOf(api), providerOf(provider)?.quirks)
    assert.ok(failure, `${id} has no failure`)
    const kinds = counts[provider] ?? {}
    counts[provider] = { ...kinds, [failure.kind]: (kinds[failure.kind] ?? 0) + 1 }
    const own = tableOf(provider)
    const byRow = [own, COMMON_ERRORS].some((table) => table && matchingRow(table, failure, headersOf(error)))
    // A refusal needs no row.
    if (!byRow && failure.kind !== 'incompatible') unknown.push(id)
  }
  for (const [provider, kinds] of Object.entries(counts)) t.diagnostic(`${provider}: ${JSON.stringify(kinds)}`)
  assert.deepEqual(counts, COUNTS)
  assert.deepEqual(unknown.sort(), Object.keys(STATUS_ONLY).sort())
})
