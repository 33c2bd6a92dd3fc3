/**
 * Upstream faults before the first content. Each fault runs in both styles, whole and streamed, with a sole target,
 * with a second key, and with a second provider. Checked: the client's response, the upstream requests, and the
 * resulting health state. Every case has providers of its own, so cases do not affect each other. Those that end by a timeout run
 * at a gateway of their own: at the others no timeout is shorter than a busy machine needs.
 */
import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { answerBody, answerWith, errorBody, failWith, piecesOf } from '../support/answers.ts'
import { type Act, refusingUrl, type Script, type Upstream, type UpstreamRequest } from '../support/upstream.ts'
import { badlySecured, blackHole, resettingUrl } from './support/bad-sockets.ts'
import type { Started } from './support/process.ts'
import {
  type Answer,
  callsOf,
  type FileInput,
  isComplete,
  type ProviderInput,
  type ProviderStatus,
  STYLES,
  type Stage,
  type Style,
  sendChat,
  stage,
  statusPage,
  textIn,
} from './support/stage.ts'

/** The scope of a failure: the targets that this request must not use again. */
type Reach = 'request' | 'endpoint' | 'model' | 'key' | 'deployment'

/** Addresses that fail before a request is sent. */
type Elsewhere =
  | 'refused'
  | 'reset'
  | 'hole'
  /** A name that does not resolve, reserved by RFC 6761. */
  | 'nowhere'
  /** TLS: an untrusted certificate, an expired one, one for another host, TLS 1.1 only, no TLS, silence. */
  | 'stranger'
  | 'expired'
  | 'another host'
  | 'old'
  | 'plain'
  | 'silent'

type Fault = {
  readonly name: string
  /** The upstream's behaviour. If absent, `at` names the failing address. */
  readonly act?: (request: UpstreamRequest) => Act
  readonly at?: Elsewhere
  readonly only?: 'stream' | 'whole'
  /** Only OpenAI's error shape can express it. */
  readonly openai?: true
  /** A kind of provider with its own error table; it supports chat only. */
  readonly kind?: string
  /** The code in the trail. */
  readonly trailCode: string
  readonly reach: Reach
  /** Failures that each attempt adds to the provider's circuits. */
  readonly counts: 0 | 1
  /** The client's error if every target fails. */
  readonly clientError: readonly [status: number, code: string]
  readonly retry: boolean
  /** Bounds of `retry-after` (s). */
  readonly wait?: readonly [number, number]
  /** A sole target is tried a second time. */
  readonly retriesSole?: true
  /** If all targets fail, the first is tried a second time. */
  readonly retriesFirst?: true
  /** The possible states of the key afterwards. */
  readonly key?: readonly string[]
  readonly model?: 'unavailable'
  /** Not distinguishable from a kept-alive connection that the upstream has closed. */
  readonly mayResend?: true
  /** It is noticed by a timeout. */
  readonly waits?: true
}

const TEXT = 'Hello over there, dear reader'
const HTML = { 'content-type': 'text/html; charset=utf-8' }
const SECRETIVE = 'the upstream’s own page'

/** An error event in a stream. */
const streamError = (request: UpstreamRequest, type: string, code: string | null = null): string =>
  request.path.endsWith('/responses')
    ? `event: error\ndata: ${JSON.stringify({ type: 'error', code: code ?? type, message: 'it broke', param: null, sequence_number: 2 })}\n\n`
    : request.path.endsWith('/messages')
      ? `event: error\ndata: ${JSON.stringify({ type: 'error', error: { type, message: 'it broke' } })}\n\n`
      : `data: ${JSON.stringify({ error: { message: 'it broke', type, code, param: null } })}\n\n`

const begunOf = (request: UpstreamRequest): string[] => piecesOf(request, { text: TEXT }).slice(0, 1)

function* pings(): Generator<string> {
  for (;;) yield ': keep-alive\n\n'
}

const status = (code: number, type = 'server_error', headers: Readonly<Record<string, string>> = {}) => ({
  act: (request: UpstreamRequest): Act => failWith(request, code, { type, message: 'it did not work out' }, headers),
  trailCode: String(code),
})
const limited = (headers: Readonly<Record<string, string>>) => ({
  ...status(429, 'rate_limit_error', headers),
  reach: 'deployment' as const,
  counts: 0 as const,
  clientError: [429, 'rate_limited'] as const,
})
const raw = (bytes: string) => ({ act: (): Act => ({ do: 'raw', bytes }) })

const endpoint = { reach: 'endpoint', counts: 1, retry: true } as const
const deployment = { reach: 'deployment', counts: 1, retry: true } as const
const overloaded = { reach: 'model', counts: 1, retry: true, clientError: [502, 'overloaded'] } as const
const timeout = { ...deployment, clientError: [504, 'timeout'] } as const
const silence = { ...timeout, waits: true } as const
const auth = { counts: 0, retry: false, clientError: [502, 'upstream_auth'] } as const
const quota = {
  reach: 'key',
  counts: 0,
  retry: false,
  // Until the next live request probes whether there is credit again.
  wait: [890, 900],
  clientError: [429, 'insufficient_quota'],
  key: ['quota_exhausted'],
} as const
const own = { reach: 'request', counts: 0, retry: false } as const
/** A refusal by one target: the others are asked, and nothing is charged. */
const refused = { reach: 'model', counts: 0, retry: false } as const

const FAULTS: readonly Fault[] = [
  // ── Connecting ─────────────────────────────────────────────────────────────────────────────────────────────────
  { name: 'connection refused', at: 'refused', trailCode: 'refused', ...endpoint, clientError: [502, 'refused'] },
  {
    name: 'connecting hangs',
    at: 'hole',
    trailCode: 'timeout',
    ...endpoint,
    waits: true,
    clientError: [504, 'timeout'],
  },
  { name: 'a reset on connecting', at: 'reset', trailCode: 'reset', ...endpoint, clientError: [502, 'reset'] },
  { name: 'an unknown host name', at: 'nowhere', trailCode: 'dns', ...endpoint, clientError: [502, 'dns'] },
  { name: 'an untrusted certificate', at: 'stranger', trailCode: 'tls', ...endpoint, clientError: [502, 'tls'] },
  { name: 'an expired certificate', at: 'expired', trailCode: 'tls', ...endpoint, clientError: [502, 'tls'] },
  {
    name: 'a certificate for another host',
    at: 'another host',
    trailCode: 'tls',
    ...endpoint,
    clientError: [502, 'tls'],
  },
  { name: 'TLS 1.1 only', at: 'old', trailCode: 'tls', ...endpoint, clientError: [502, 'tls'] },
  { name: 'plain HTTP instead of TLS', at: 'plain', trailCode: 'tls', ...endpoint, clientError: [502, 'tls'] },
  {
    name: 'a TLS handshake that hangs',
    at: 'silent',
    trailCode: 'timeout',
    ...endpoint,
    waits: true,
    clientError: [504, 'timeout'],
  },
  {
    name: 'a reset after the request',
    act: () => ({ do: 'reset' }),
    mayResend: true,
    trailCode: 'reset',
    ...endpoint,
    clientError: [502, 'reset'],
  },
  {
    name: 'closed after the request',
    act: () => ({ do: 'close' }),
    mayResend: true,
    trailCode: 'reset',
    ...endpoint,
    clientError: [502, 'reset'],
  },
  {
    name: 'not HTTP',
    ...raw('220 mail.example ESMTP\r\n'),
    trailCode: 'not_http',
    ...endpoint,
    clientError: [502, 'not_http'],
  },
  {
    name: 'a header block of 17 KiB',
    ...raw(`HTTP/1.1 200 OK\r\nx-long: ${'x'.repeat(17 * 1024)}\r\ncontent-length: 2\r\n\r\n{}`),
    trailCode: 'not_http',
    ...endpoint,
    clientError: [502, 'not_http'],
  },
  {
    name: 'endless interim responses',
    ...raw('HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n'.repeat(2_000)),
    trailCode: 'not_http',
    ...endpoint,
    clientError: [502, 'not_http'],
  },
  {
    name: 'an unexpected 100 Continue',
    ...raw('HTTP/1.1 100 Continue\r\n\r\n'.repeat(20)),
    trailCode: 'not_http',
    ...endpoint,
    clientError: [502, 'not_http'],
  },
  {
    name: 'invalid chunked encoding',
    ...raw('HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n'),
    trailCode: 'not_http',
    ...endpoint,
    clientError: [502, 'not_http'],
  },
  {
    name: 'an HTML page',
    act: () => ({ do: 'answer', headers: HTML, body: `<html>${SECRETIVE}</html>` }),
    trailCode: 'not_json',
    ...endpoint,
    clientError: [502, 'not_json'],
  },
  {
    name: 'a firewall’s HTML page',
    act: () => ({ do: 'answer', status: 403, headers: HTML, body: `<html>${SECRETIVE}</html>` }),
    trailCode: '403',
    ...endpoint,
    clientError: [502, 'not_json'],
  },

  // ── Incomplete and invalid answers ─────────────────────────────────────────────────────────────────────────────
  { name: 'no header block', act: () => ({ do: 'hang' }), trailCode: 'timeout', ...silence },
  {
    name: 'a header block and then silence (stream)',
    only: 'stream',
    act: () => ({ do: 'stream', pieces: [], ending: 'stall' }),
    trailCode: 'timeout',
    ...silence,
  },
  {
    name: 'a header block and then silence (whole)',
    only: 'whole',
    act: (): Act => ({
      do: 'raw',
      bytes: 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n{"id":',
      ending: 'stall',
    }),
    trailCode: 'stalled',
    ...silence,
  },
  {
    name: 'comments only',
    only: 'stream',
    act: () => ({ do: 'stream', pieces: pings(), gap: 50 }),
    trailCode: 'timeout',
    ...silence,
  },
  {
    name: 'a body shorter than its content-length',
    only: 'whole',
    ...raw('HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{"id":'),
    trailCode: 'truncated',
    ...deployment,
    clientError: [502, 'truncated'],
  },
  {
    name: 'a body longer than its content-length',
    only: 'whole',
    act: (request) => {
      const body = JSON.stringify(answerBody(request, { text: TEXT }))
      return {
        do: 'raw',
        bytes: `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length - 20}\r\n\r\n${body}`,
      }
    },
    trailCode: 'malformed',
    ...deployment,
    clientError: [502, 'malformed'],
  },
  {
    name: 'a 204',
    act: () => ({ do: 'raw', bytes: 'HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n' }),
    trailCode: 'malformed',
    ...deployment,
    clientError: [502, 'malformed'],
  },
  ...(['end', 'close', 'reset'] as const).map(
    (ending): Fault => ({
      name: `a stream cut before content (${ending})`,
      only: 'stream',
      act: (request) => ({ do: 'stream', pieces: begunOf(request), gap: 5, ending }),
      trailCode: 'truncated',
      ...deployment,
      clientError: [502, 'truncated'],
    }),
  ),
  {
    name: 'an empty stream',
    only: 'stream',
    act: () => ({ do: 'stream', pieces: [] }),
    trailCode: 'truncated',
    ...deployment,
    clientError: [502, 'truncated'],
  },
  {
    name: 'an empty 200',
    act: () => ({ do: 'answer' }),
    trailCode: 'malformed',
    ...deployment,
    clientError: [502, 'malformed'],
  },
  {
    name: 'a JSON object without an answer',
    act: () => ({ do: 'answer', body: {} }),
    trailCode: 'malformed',
    ...deployment,
    clientError: [502, 'malformed'],
  },
  {
    name: 'truncated JSON',
    act: (request) => ({ do: 'answer', body: JSON.stringify(answerBody(request, { text: TEXT })).slice(0, -20) }),
    trailCode: 'malformed',
    ...deployment,
    clientError: [502, 'malformed'],
  },
  {
    name: 'a first event that is not JSON',
    only: 'stream',
    act: (request) => ({ do: 'stream', pieces: ['data: {nonsense\n\n', ...piecesOf(request, { text: TEXT })] }),
    trailCode: 'malformed',
    ...deployment,
    clientError: [502, 'malformed'],
  },
  {
    name: 'invalid gzip',
    act: () => ({ do: 'answer', headers: { 'content-encoding': 'gzip' }, body: '{"plain":true}' }),
    trailCode: 'malformed',
    ...deployment,
    clientError: [502, 'malformed'],
  },
  {
    name: 'a redirect',
    act: () => ({ do: 'answer', status: 302, headers: { location: 'http://127.0.0.1:9/' } }),
    trailCode: 'redirect',
    ...endpoint,
    clientError: [502, 'redirect'],
  },

  // ── Error statuses ─────────────────────────────────────────────────────────────────────────────────────────────
  { name: '500', ...status(500), ...deployment, retriesSole: true, clientError: [502, 'status'] },
  { name: '502', ...status(502), ...deployment, retriesSole: true, clientError: [502, 'status'] },
  { name: '504', ...status(504), ...deployment, retriesSole: true, clientError: [502, 'status'] },
  {
    name: '502 with an HTML page',
    act: () => ({ do: 'answer', status: 502, headers: HTML, body: `<html>${SECRETIVE}</html>` }),
    trailCode: '502',
    ...deployment,
    retriesSole: true,
    clientError: [502, 'status'],
  },
  { name: '503', ...status(503), ...overloaded },
  {
    name: '503 with a retry-after',
    ...status(503, 'server_error', { 'retry-after': '30' }),
    ...overloaded,
    wait: [29, 30],
    model: 'unavailable',
  },
  {
    name: '503 with a long retry-after',
    ...status(503, 'server_error', { 'retry-after': '120' }),
    ...overloaded,
    retry: false,
    wait: [119, 120],
    model: 'unavailable',
  },
  { name: '529', ...status(529, 'overloaded_error'), ...overloaded },
  { name: '498', ...status(498, 'capacity'), ...overloaded },
  { name: '408', ...status(408, 'timeout'), ...timeout },
  { name: '499', ...status(499, 'CANCELLED'), ...timeout },
  { name: '522', ...status(522), ...timeout },
  { name: '524', ...status(524), ...timeout },
  {
    name: '409',
    ...status(409, 'lock'),
    reach: 'model',
    counts: 0,
    retry: true,
    retriesSole: true,
    clientError: [409, 'conflict'],
  },

  // ── Rate limits, quota, keys ───────────────────────────────────────────────────────────────────────────────────
  { name: '429 with seconds', ...limited({ 'retry-after': '30' }), retry: true, wait: [29, 30], key: ['rate_limited'] },
  {
    name: '429 with a date',
    ...limited({}),
    act: (request) =>
      failWith(
        request,
        429,
        { type: 'rate_limit_error', message: 'slow down' },
        { 'retry-after': new Date(Date.now() + 40_000).toUTCString() },
      ),
    retry: true,
    wait: [37, 41],
    key: ['rate_limited'],
  },
  {
    name: '429 with milliseconds',
    ...limited({ 'retry-after-ms': '45500' }),
    retry: true,
    wait: [45, 46],
    key: ['rate_limited'],
  },
  {
    name: '429 with a short retry-after',
    ...limited({ 'retry-after-ms': '600' }),
    retry: true,
    retriesSole: true,
    retriesFirst: true,
    wait: [1, 1],
    key: ['active', 'rate_limited'],
  },
  {
    name: '429 with a long retry-after',
    ...limited({ 'retry-after': '300' }),
    retry: false,
    wait: [299, 300],
    key: ['rate_limited'],
  },
  { name: '429 without a hint', ...limited({}), retry: true, wait: [1, 1], key: ['active', 'rate_limited'] },
  {
    name: '429 insufficient_quota',
    openai: true,
    act: (request) =>
      failWith(request, 429, { type: 'insufficient_quota', message: 'no more', code: 'insufficient_quota' }),
    trailCode: '429',
    ...quota,
  },
  { name: '402', ...status(402, 'billing_error'), ...quota },
  {
    name: 'OpenRouter’s 402 with a retry-after',
    kind: 'openrouter',
    ...status(402, 'payment_required', { 'retry-after': '30' }),
    reach: 'deployment',
    counts: 0,
    clientError: [429, 'rate_limited'],
    retry: true,
    wait: [29, 30],
    key: ['rate_limited'],
  },
  // test/conformance/errors.quoted.ts quotes both.
  {
    name: 'Anthropic’s 429 for a spend limit',
    kind: 'anthropic',
    act: () => ({
      do: 'answer',
      status: 429,
      body: {
        type: 'error',
        error: {
          type: 'rate_limit_error',
          message: 'Your organization has reached its monthly spend limit.',
          details: { error_code: 'enforced_spend_limit_reached' },
        },
      },
    }),
    trailCode: '429',
    ...quota,
  },
  {
    name: 'Anthropic’s 400 for a usage limit',
    kind: 'anthropic',
    act: () => ({
      do: 'answer',
      status: 400,
      body: {
        type: 'error',
        error: {
          type: 'invalid_request_error',
          message: 'You have reached your specified workspace API usage limits.',
        },
      },
    }),
    trailCode: '400',
    ...quota,
  },
  { name: '401', ...status(401, 'authentication_error'), ...auth, reach: 'key', key: ['suspended'] },
  {
    name: 'Gemini’s 400 for a bad key',
    kind: 'gemini',
    act: () => ({
      do: 'answer',
      status: 400,
      body: [
        {
          error: {
            code: 400,
            message: 'API key not valid. Please pass a valid API key.',
            status: 'INVALID_ARGUMENT',
            details: [{ '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason: 'API_KEY_INVALID' }],
          },
        },
      ],
    }),
    trailCode: '400',
    ...auth,
    reach: 'key',
    key: ['suspended'],
  },
  { name: '403 for the model', ...status(403, 'permission_error'), ...auth, reach: 'deployment' },
  {
    name: '404 for the model',
    act: (request) => failWith(request, 404, { type: 'not_found_error', message: 'model: m' }),
    trailCode: '404',
    reach: 'model',
    counts: 0,
    retry: false,
    clientError: [404, 'model_not_found'],
    model: 'unavailable',
  },
  {
    name: '413 for tokens per minute',
    openai: true,
    act: (request) =>
      failWith(request, 413, {
        type: 'tokens',
        message: 'Request too large for your tokens per minute',
        code: 'rate_limit_exceeded',
      }),
    trailCode: '413',
    reach: 'model',
    counts: 0,
    retry: true,
    wait: [1, 1],
    clientError: [429, 'rate_limited'],
  },

  // ── Invalid requests ───────────────────────────────────────────────────────────────────────────────────────────
  {
    name: 'too long, by its code',
    openai: true,
    act: (request) =>
      failWith(request, 400, { type: 'invalid_request_error', message: 'Too long.', code: 'context_length_exceeded' }),
    trailCode: '400',
    ...refused,
    clientError: [400, 'context_length_exceeded'],
  },
  {
    name: 'too long, by its message',
    act: (request) =>
      failWith(request, 400, {
        type: 'invalid_request_error',
        message: 'prompt is too long: 250000 tokens > 200000 maximum',
      }),
    trailCode: '400',
    ...refused,
    clientError: [400, 'context_length_exceeded'],
  },
  {
    name: 'rejected for its content',
    openai: true,
    act: (request) =>
      failWith(request, 400, { type: 'invalid_request_error', message: 'Filtered.', code: 'content_filter' }),
    trailCode: '400',
    ...own,
    clientError: [400, 'content_filter'],
  },
  {
    name: 'rejected for a value',
    openai: true,
    act: (request) =>
      failWith(request, 400, {
        type: 'invalid_request_error',
        message: 'temperature is too high',
        code: 'invalid_value',
      }),
    trailCode: 'incompatible',
    ...refused,
    clientError: [400, 'invalid_value'],
  },
  {
    name: 'a body above the upstream’s limit',
    openai: true,
    ...status(413, 'invalid_request_error'),
    ...refused,
    clientError: [413, 'request_too_large'],
  },
  {
    name: '422',
    ...status(422, 'invalid_request_error'),
    trailCode: 'incompatible',
    ...refused,
    clientError: [422, 'invalid_request'],
  },

  // ── Errors in a 200 response ───────────────────────────────────────────────────────────────────────────────────
  {
    name: 'an error in a 200',
    act: (request) => ({ do: 'answer', body: errorBody(request, { type: 'server_error', message: 'oops' }) }),
    trailCode: 'error_in_stream',
    ...deployment,
    clientError: [502, 'error_in_stream'],
  },
  {
    name: 'a status in a 200',
    openai: true,
    act: () => ({ do: 'answer', body: { error: { code: 502, message: 'Upstream had an error' } } }),
    trailCode: '502',
    ...deployment,
    retriesSole: true,
    clientError: [502, 'status'],
  },
  {
    name: 'an error as the first event',
    only: 'stream',
    act: (request) => ({ do: 'stream', pieces: [streamError(request, 'server_error')] }),
    trailCode: 'error_in_stream',
    ...deployment,
    clientError: [502, 'error_in_stream'],
  },
  {
    name: 'an error after the first event',
    only: 'stream',
    act: (request) => ({
      do: 'stream',
      pieces: [...begunOf(request), ': ping\n\n', streamError(request, 'server_error')],
      gap: 5,
    }),
    trailCode: 'error_in_stream',
    ...deployment,
    clientError: [502, 'error_in_stream'],
  },
  {
    name: 'no quota, after the first event',
    only: 'stream',
    openai: true,
    act: (request) => ({
      do: 'stream',
      pieces: [...begunOf(request), streamError(request, 'insufficient_quota', 'insufficient_quota')],
      gap: 5,
    }),
    trailCode: 'insufficient_quota',
    ...quota,
  },
  {
    name: 'overloaded, after the first event',
    only: 'stream',
    act: (request) => ({
      do: 'stream',
      pieces: [...begunOf(request), streamError(request, 'overloaded_error')],
      gap: 5,
    }),
    trailCode: 'overloaded',
    ...overloaded,
  },
]

// ── Topologies ───────────────────────────────────────────────────────────────────────────────────────────────────

type Topology = {
  readonly name: string
  readonly providers: 1 | 2
  readonly keys: 1 | 2
  /** Which attempts meet the fault: all, or only those at the first provider or key. */
  readonly failing: 'all' | 'first'
}

const TOPOLOGIES: readonly Topology[] = [
  { name: 'a sole target', providers: 1, keys: 1, failing: 'all' },
  { name: 'two keys, both failing', providers: 1, keys: 2, failing: 'all' },
  { name: 'two keys, one failing', providers: 1, keys: 2, failing: 'first' },
  { name: 'two providers, both failing', providers: 2, keys: 1, failing: 'all' },
  { name: 'two providers, one failing', providers: 2, keys: 1, failing: 'first' },
]

type Case = {
  readonly id: string
  readonly topology: Topology
  readonly fault: Fault
  readonly style: Style
  readonly stream: boolean
  /** The format of the upstreams, if it differs from the client's. */
  readonly through: 'chat' | 'messages' | null
}

const CASES: readonly Case[] = TOPOLOGIES.flatMap((topology, place) => {
  const translated = topology.keys === 1 && !(topology.providers === 2 && topology.failing === 'all')
  let number = 0
  return FAULTS.flatMap((fault) =>
    STYLES.flatMap((style) =>
      [false, true].flatMap((stream) =>
        [null, style === 'chat' ? ('messages' as const) : ('chat' as const)].flatMap((through) => {
          if (fault.only && (fault.only === 'stream') !== stream) return []
          if (through && (!translated || fault.kind || fault.at)) return []
          if (through === 'messages' && fault.openai) return []
          return [{ id: `c${place}n${number++}`, topology, fault, style, stream, through }]
        }),
      ),
    ),
  )
})

/** The number of attempts, and how many of them fail. */
const expected = (
  { providers, keys, failing }: Topology,
  { reach, retriesSole, retriesFirst }: Fault,
): { attempts: number; failed: number } => {
  const elsewhere = providers === 2 ? reach !== 'request' : keys === 2 && (reach === 'key' || reach === 'deployment')
  if (elsewhere && retriesFirst && failing === 'all') return { attempts: 3, failed: 3 }
  if (elsewhere) return { attempts: 2, failed: failing === 'all' ? 2 : 1 }
  // Another key does not help against a model failure, so the same target is tried again.
  const again = retriesSole && providers === 1 && (keys === 1 || reach === 'model')
  return again ? { attempts: 2, failed: 2 } : { attempts: 1, failed: 1 }
}

const SETTINGS = {
  // Only routed targets are used, so that the cases stay independent.
  fallback: 'same-model',
  circuit: { timeout: 60_000, minRequests: 100, consecutiveFailures: 0 },
  timeout: { connect: 60_000, firstContent: 60_000, idle: 60_000 },
  keepAlive: { interval: 0 },
}
type GatewaySettings = typeof SETTINGS

/** Far enough apart that a busy machine meets no later limit first. */
const SHORT_TIMEOUTS: GatewaySettings = {
  ...SETTINGS,
  circuit: { ...SETTINGS.circuit, timeout: 6_000 },
  timeout: { connect: 4_000, firstContent: 8_000, idle: 6_000 },
}

/** Cases that share a gateway. */
type Group = { readonly name: string; readonly settings: GatewaySettings; readonly cases: readonly Case[] }

const GROUPS: readonly Group[] = [
  ...TOPOLOGIES.map((topology) => ({
    name: topology.name,
    settings: SETTINGS,
    cases: CASES.filter((one) => one.topology === topology && !one.fault.waits),
  })),
  { name: 'timeouts', settings: SHORT_TIMEOUTS, cases: CASES.filter(({ fault }) => fault.waits) },
]

type Letter = 'a' | 'b'
const lettersOf = ({ providers }: Topology): readonly Letter[] => (providers === 2 ? ['a', 'b'] : ['a'])
/** The keys of a provider; the second is configured if the topology has two. */
const keysOf = (place: string) => ['one', 'two'].map((which) => `sk-${place}-${which}-0123456789`)
const titleOf = ({ topology, fault, style, stream, through }: Case) =>
  `${fault.name}, ${topology.name}: ${style}${stream ? ', streamed' : ''}${through ? `, through ${through}` : ''}`

/** The upstream of all cases. The first path segment is the case's ID and the provider's letter. */
const scriptOf = (cases: readonly Case[]): Script => {
  const firstKeys = new Map<string, string | undefined>()
  return (request) => {
    const [, place = ''] = request.path.split('/')
    const found = cases.find(({ id }) => id === place.slice(0, -1))
    if (found?.topology.failing === 'first' && place.endsWith('b')) return answerWith(request, { text: TEXT })
    if (!found?.fault.act) return { do: 'answer', status: 418, body: { error: { message: `unknown path ${place}` } } }
    if (!firstKeys.has(found.id)) firstKeys.set(found.id, request.key)
    const { providers, failing } = found.topology
    const first = providers === 2 ? place.endsWith('a') : request.key === firstKeys.get(found.id)
    return failing === 'all' || first ? found.fault.act(request) : answerWith(request, { text: TEXT })
  }
}

type BadAddresses = {
  readonly urls: Readonly<Record<Elsewhere, string>>
  /** Whether connecting to `hole` hangs on this system. */
  readonly hangs: boolean
  /** A file with the certificates to trust. */
  readonly trusted: string
}

const startBadAddresses = async ({ keep }: Stage): Promise<BadAddresses> => {
  const refused = await refusingUrl()
  const resetting = await resettingUrl()
  keep(() => resetting.close())
  const hole = await blackHole()
  keep(() => hole?.close())
  const secure = await badlySecured()
  keep(() => secure.close())
  return {
    urls: {
      refused,
      reset: resetting.url,
      hole: hole?.url ?? refused,
      nowhere: 'http://unknown.invalid',
      ...secure.urls,
    },
    hangs: hole !== null,
    trusted: secure.trusted,
  }
}

/** The configuration of all cases: providers and a route for each. */
const configurationOf = ({ cases, settings }: Group, upstreamUrl: string, { urls }: BadAddresses): FileInput => {
  const providerOf = ({ id, topology, fault, through }: Case, letter: Letter): ProviderInput => {
    const failing = topology.failing === 'all' || letter === 'a'
    const base = fault.at && failing ? urls[fault.at] : upstreamUrl
    return {
      baseUrl: `${base}/${id}${letter}/v1`,
      keys: keysOf(id + letter).slice(0, topology.keys),
      ...(fault.kind ? { kind: fault.kind } : { styles: through ? [through] : ['chat', 'responses'] }),
    }
  }
  return {
    providers: Object.fromEntries(
      cases.flatMap((one) => lettersOf(one.topology).map((letter) => [one.id + letter, providerOf(one, letter)])),
    ),
    routes: Object.fromEntries(
      cases.map(({ id, topology }) => [id, { targets: lettersOf(topology).map((letter) => `${id}${letter}/m`) }]),
    ),
    ...settings,
  }
}

/** Checks the client's response. */
const checkAnswer = (one: Case, answer: Answer): void => {
  const { topology, fault, style, stream, id } = one
  const { attempts, failed } = expected(topology, fault)
  const header = (name: string) => answer.headers.get(name)
  assert.equal(header('x-headgate-attempts'), String(attempts), answer.text)
  const trail = (header('x-headgate-trail') ?? '').split(', ')
  const provider = (at: number) => `${id}${at === 1 && topology.providers === 2 ? 'b' : 'a'}`
  assert.deepEqual(
    trail.map((step) => step.replace(/#[0-9a-f]{4,}:/, '#:')),
    Array.from({ length: attempts }, (_, at) => `${provider(at)}#:${at < failed ? fault.trailCode : '200'}`),
  )
  assert.match(header('x-request-id') ?? '', /^req_[a-z]+$/)
  assert.doesNotMatch(answer.text, new RegExp(SECRETIVE))

  if (failed < attempts) {
    assert.equal(answer.status, 200)
    assert.equal(header('x-headgate-provider'), provider(attempts - 1))
    assert.equal(header('x-headgate-model'), 'm')
    assert.equal(textIn(style, stream, answer.text), TEXT)
    if (stream) assert.ok(isComplete(style, answer.text), answer.text)
  } else {
    const { error } = answer.json()
    assert.deepEqual([answer.status, error.code], [...fault.clientError])
    assert.equal(header('x-should-retry'), String(fault.retry))
    assert.equal(error.request_id, header('x-request-id'))
    assert.equal(header('content-type'), 'application/json')
    assert.equal(error.attempts?.length, fault.retry ? attempts : undefined)
    const wait = header('retry-after')
    if (!fault.wait) assert.equal(wait, null)
    else assert.ok(Number(wait) >= fault.wait[0] && Number(wait) <= fault.wait[1], `retry-after: ${wait}`)
  }
}

/** Checks the requests that the upstream received. */
const checkRequests = ({ topology, id, fault }: Case, calls: readonly UpstreamRequest[]): void => {
  const { attempts, failed } = expected(topology, fault)
  // A kept connection that breaks before the first byte of an answer is retried once on a new connection.
  const resent = calls.filter(
    ({ connection }, at) => at > 0 && fault.mayResend && connection > (calls[at - 1]?.connection ?? 0),
  )
  assert.ok(resent.length <= failed)
  assert.ok(
    calls.length === attempts || (fault.mayResend && calls.length <= attempts + resent.length),
    `${calls.length} requests for ${attempts} attempts`,
  )
  const keys = calls.map(({ key }) => key)
  const known = lettersOf(topology).flatMap((letter) => keysOf(id + letter))
  for (const [at, key] of keys.entries()) {
    assert.ok(known.includes(key ?? ''), 'a key of its own')
    assert.ok(key?.startsWith(`sk-${calls[at]?.path.split('/')[1]}-`), 'and of this provider')
  }
  // Retries use another key, except after model failures.
  if (topology.keys === 2 && attempts === 2) assert.equal(keys[0] === keys[1], fault.reach === 'model')
  for (const { model } of calls) assert.equal(model, 'm')
}

/** Checks the health state of the case's providers on a status page that was requested at `requestedAt` (ms). */
const checkHealth = (
  { topology, id, fault }: Case,
  page: ReadonlyMap<string, ProviderStatus>,
  requestedAt: number,
): void => {
  const { attempts, failed } = expected(topology, fault)
  const letters = lettersOf(topology)
  for (const [at, letter] of letters.entries()) {
    const status = page.get(id + letter)
    assert.ok(status)
    // Two providers share the failures, a single one has them all.
    const here = letters.length === 2 ? (at < failed ? 1 : 0) : failed
    assert.equal(status.circuit.failures, here * fault.counts, `failures of ${letter}`)
    assert.equal(status.circuit.state, 'closed')
    const total = status.keys.reduce((sum, { requests }) => sum + requests, 0)
    const once = (at < attempts ? 1 : 0) + (at === 0 && attempts === 3 ? 1 : 0)
    assert.equal(total, letters.length === 2 ? once : attempts)
    assert.ok(status.keys.every(({ in_flight }) => in_flight === 0))
    const affected = status.keys.filter(({ requests }) => requests > 0)
    if (here > 0 && topology.failing === 'all')
      for (const key of affected) {
        assert.ok((fault.key ?? ['active']).includes(key.status), key.status)
        // The two clocks of a process may differ slightly.
        if (key.status !== 'active') assert.ok(Date.parse(key.until ?? '') > requestedAt - 50)
      }
    if (here > 0 && fault.model) assert.equal(status.models[0]?.status, fault.model)
    const isRefused = [400, 404, 413, 422].includes(fault.clientError[0])
    assert.equal(status.last_error !== null, here > 0 && !isRefused)
  }
}

for (const group of GROUPS)
  describe(`faults: ${group.name}`, () => {
    const { cases } = group
    const on = stage()
    let gateway: Started
    let upstream: Upstream
    let addresses: BadAddresses

    before(async () => {
      upstream = await on.upstream(scriptOf(cases))
      addresses = await startBadAddresses(on)
      gateway = await on.gateway(configurationOf(group, upstream.url, addresses), {
        NODE_EXTRA_CA_CERTS: addresses.trusted,
      })
    })
    /** The reason to skip a case that this system cannot produce. */
    const skipReason = ({ fault }: Case) =>
      fault.at === 'hole' && !addresses.hangs ? 'on this system connections to a full backlog do not hang' : undefined

    // Those that wait for a timeout do so together.
    describe('answers', { concurrency: group.settings === SHORT_TIMEOUTS ? cases.length : 24 }, () => {
      for (const one of cases)
        test(titleOf(one), { timeout: 120_000 }, async (t) => {
          const reason = skipReason(one)
          if (reason) return t.skip(reason)
          const { style, stream, id } = one
          checkAnswer(one, await sendChat(gateway, { style, model: id, stream }))
        })
    })

    describe('afterwards', () => {
      let page: ReadonlyMap<string, ProviderStatus>
      let requestedAt = 0
      before(async () => {
        requestedAt = Date.now()
        page = await statusPage(gateway)
      })
      for (const one of cases)
        test(titleOf(one), (t) => {
          const reason = skipReason(one)
          if (reason) return t.skip(reason)
          const calls = callsOf(upstream).filter(({ path }) => path.split('/')[1]?.slice(0, -1) === one.id)
          if (!one.fault.at) checkRequests(one, calls)
          checkHealth(one, page, requestedAt)
        })

      test('no output contains a key', async () => {
        await gateway.logged()
        assert.doesNotMatch(gateway.output(), /sk-c\d/)
      })
    })
  })

// ── Unusual but valid answers ────────────────────────────────────────────────────────────────────────────────────

const ODD: readonly {
  readonly name: string
  readonly only?: 'stream' | 'whole'
  readonly act: (request: UpstreamRequest) => Act
}[] = [
  {
    name: 'compressed although identity was requested',
    act: (request) => ({
      do: 'answer',
      headers: {
        'content-encoding': 'gzip',
        'content-type': request.stream ? 'text/event-stream' : 'application/json',
      },
      body: gzipSync(
        request.stream
          ? piecesOf(request, { text: TEXT }).join('')
          : JSON.stringify(answerBody(request, { text: TEXT })),
      ),
    }),
  },
  { name: 'single bytes', only: 'stream', act: (request) => answerWith(request, { text: TEXT }, { slice: 1 }) },
  {
    name: 'CRLF line ends',
    only: 'stream',
    act: (request) => ({
      do: 'stream',
      pieces: piecesOf(request, { text: TEXT }).map((piece) => piece.replaceAll('\n', '\r\n')),
      slice: 7,
    }),
  },
  {
    name: 'a BOM, comments, and no space after the colon',
    only: 'stream',
    act: (request) => ({
      do: 'stream',
      pieces: [
        '\ufeff',
        ...piecesOf(request, { text: TEXT }).map((piece) => `: hm\n\n${piece.replace('data: ', 'data:')}`),
      ],
    }),
  },
  {
    name: 'a stream that ends with its connection',
    only: 'stream',
    act: (request) => answerWith(request, { text: TEXT }, { untilClose: true }),
  },
  {
    name: 'an interim response first',
    only: 'whole',
    act: (request) => {
      const body = JSON.stringify(answerBody(request, { text: TEXT }))
      const head = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n`
      return { do: 'raw', bytes: `HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n${head}${body}` }
    },
  },
]

describe('faults: unusual but valid answers', () => {
  const cases = ODD.flatMap((odd, at) =>
    STYLES.flatMap((style) =>
      [false, true].flatMap((stream) =>
        odd.only && (odd.only === 'stream') !== stream
          ? []
          : [{ id: `o${at}${style}${stream ? 's' : 'w'}`, odd, style, stream }],
      ),
    ),
  )
  const on = stage()
  let gateway: Started
  let upstream: Upstream

  before(async () => {
    upstream = await on.upstream((request) => {
      const found = cases.find(({ id }) => id === request.path.split('/')[1])
      if (!found) return { do: 'answer', status: 404 }
      return found.odd.act(request)
    })
    gateway = await on.gateway({
      ...SETTINGS,
      providers: {
        ...Object.fromEntries(cases.map(({ id }) => [id, { baseUrl: `${upstream.url}/${id}/v1` }])),
      },
      routes: Object.fromEntries(cases.map(({ id }) => [`r${id}`, { targets: [`${id}/m`] }])),
    })
  })
  for (const { id, odd, style, stream } of cases)
    test(`${odd.name}: ${style}${stream ? ', streamed' : ''}`, async () => {
      const answer = await sendChat(gateway, { style, model: `r${id}`, stream })
      assert.equal(answer.status, 200, answer.text)
      assert.equal(textIn(style, stream, answer.text), TEXT)
      assert.equal(answer.headers.get('content-encoding'), null)
      if (stream) assert.ok(isComplete(style, answer.text), answer.text)
      assert.equal(answer.headers.get('x-headgate-attempts'), '1')
    })
})

// ── Empty answers ────────────────────────────────────────────────────────────────────────────────────────────────

describe('faults: an empty answer', () => {
  const on = stage()
  let gateway: Started
  let upstream: Upstream
  const nothing = (request: UpstreamRequest) => answerWith(request, { text: '', output: 0 })

  before(async () => {
    upstream = await on.upstream((request) => {
      return request.path.includes('good') ? answerWith(request, { text: TEXT }) : nothing(request)
    })
    gateway = await on.gateway({
      ...SETTINGS,
      providers: Object.fromEntries(
        ['alone', 'first', 'third', 'fourth', 'fifth', 'good'].map((id) => [
          id,
          { baseUrl: `${upstream.url}/${id}/v1` },
        ]),
      ),
      routes: {
        alone: { targets: ['alone/m'] },
        two: { targets: ['first/m', 'good/m'] },
        none: { targets: ['third/m', 'fourth/m', 'fifth/m'] },
      },
    })
  })
  const table = [
    ['alone', '', 1],
    ['two', TEXT, 2],
    // A second empty answer is final; there is no third attempt.
    ['none', '', 2],
  ] as const
  for (const [route, text, attempts] of table)
    for (const style of STYLES)
      for (const stream of [false, true])
        test(`${route}: ${style}${stream ? ', streamed' : ''}`, async () => {
          const answer = await sendChat(gateway, { style, model: route, stream })
          assert.equal(answer.status, 200, answer.text)
          assert.equal(answer.headers.get('x-headgate-attempts'), String(attempts))
          assert.equal(textIn(style, stream, answer.text), text)
          if (stream) assert.ok(isComplete(style, answer.text), answer.text)
        })
  test('does not count as a failure', async () => {
    for (const { circuit } of (await statusPage(gateway)).values()) assert.equal(circuit.failures, 0)
  })
})

// ── An excessively large first event ─────────────────────────────────────────────────────────────────────────────

describe('faults: an endless event', () => {
  const on = stage()
  let gateway: Started
  let upstream: Upstream

  before(async () => {
    function* endless() {
      yield 'data: {"choices":[{"index":0,"delta":{"content":"'
      for (let at = 0; at < 10_000; at++) yield 'x'.repeat(16_384)
    }
    upstream = await on.upstream((request) => {
      return request.path.includes('good') ? answerWith(request, { text: TEXT }) : { do: 'stream', pieces: endless() }
    })
    gateway = await on.gateway({
      ...SETTINGS,
      providers: Object.fromEntries(
        ['alone', 'first', 'good'].map((id) => [id, { baseUrl: `${upstream.url}/${id}/v1` }]),
      ),
      routes: { alone: { targets: ['alone/m'] }, two: { targets: ['first/m', 'good/m'] } },
    })
  })
  for (const style of STYLES) {
    test(`${style}: the next target answers`, async () => {
      const answer = await sendChat(gateway, { style, model: 'two', stream: true })
      assert.equal(answer.status, 200, answer.text.slice(0, 500))
      assert.equal(answer.headers.get('x-headgate-provider'), 'good')
      assert.match(answer.headers.get('x-headgate-trail') ?? '', /^first#\w+:response_too_large, good#\w+:200$/)
    })
    test(`${style}: without another target the client gets an error`, async () => {
      const answer = await sendChat(gateway, { style, model: 'alone', stream: true })
      assert.equal(answer.status, 502, answer.text.slice(0, 500))
      assert.equal(JSON.parse(answer.text).error.code, 'response_too_large')
      assert.ok(answer.text.length < 2_000)
    })
  }
  test('the event is not read to its end', () => {
    for (const { path, sent } of upstream.requests)
      if (!path.includes('good')) assert.ok(sent < 40 * 1024 * 1024, `${path}: ${sent} bytes`)
  })
})
