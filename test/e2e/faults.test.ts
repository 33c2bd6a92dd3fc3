/**
 * What goes wrong upstream before the first content, each fault in both styles, streamed and not, with nobody else to
 * turn to, with another key, and with another provider: what the client is told, what was asked of whom, and what the
 * gateway then thinks of its upstreams. Every case has providers of its own, so that none learns from another.
 */
import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { bodyOf, errorOf, piecesOf, refuse, say } from '../support/answers.ts'
import { type Act, type Asked, refusingUrl, type Upstream } from '../support/upstream.ts'
import { type BadAddress, badlySecured, blackHole, resettingUrl, type Secure } from './support/bad-sockets.ts'
import type { Started } from './support/process.ts'
import {
  type Answer,
  ask,
  endedWell,
  type Place,
  type ProviderStatus,
  STYLES,
  type Style,
  saidIn,
  stage,
  statusPage,
} from './support/stage.ts'

/** How far a failure reaches: what of this request is then out of the question. */
type Reach = 'request' | 'endpoint' | 'model' | 'key' | 'deployment'

/** Addresses at which something is wrong before anything is asked. */
type Elsewhere =
  | 'refused'
  | 'reset'
  | 'hole'
  /** A name nobody has; RFC 6761 keeps it that way. */
  | 'nowhere'
  /** TLS: a certificate nobody vouches for, one that is over, one for another host, nothing newer than TLS 1.1, none at all, silence. */
  | 'stranger'
  | 'expired'
  | 'another host'
  | 'old'
  | 'plain'
  | 'silent'

type Fault = {
  readonly name: string
  /** What the upstream does; absent: `at` says where nothing like one is. */
  readonly act?: (asked: Asked) => Act
  readonly at?: Elsewhere
  readonly only?: 'stream' | 'whole'
  /** Only OpenAI's shape of an error can say it. */
  readonly openai?: true
  /** A kind of provider with a dialect of its own; it speaks chat only. */
  readonly kind?: string
  /** The word in the trail. */
  readonly shown: string
  readonly reach: Reach
  /** Failures each attempt adds to the provider's circuits. */
  readonly counts: 0 | 1
  /** What the client is told when nobody else can answer. */
  readonly told: readonly [status: number, code: string]
  readonly retry: boolean
  /** Bounds of `retry-after` (s). */
  readonly wait?: readonly [number, number]
  /** A sole target is asked once more. */
  readonly twice?: true
  /** Where everybody says so, whoever said so first is asked once more. */
  readonly soon?: true
  /** What becomes of the key: one of these. */
  readonly key?: readonly string[]
  readonly model?: 'unavailable'
  /** It looks the same as a kept connection that was closed meanwhile. */
  readonly stale?: true
}

const TEXT = 'Hello over there, whoever you are'
const HTML = { 'content-type': 'text/html; charset=utf-8' }
const SECRETIVE = 'the upstream’s own page'

/** A stream's way to say that something is wrong. */
const streamError = (asked: Asked, type: string, code: string | null = null): string =>
  asked.path.endsWith('/responses')
    ? `event: error\ndata: ${JSON.stringify({ type: 'error', code: code ?? type, message: 'it broke', param: null, sequence_number: 2 })}\n\n`
    : asked.path.endsWith('/messages')
      ? `event: error\ndata: ${JSON.stringify({ type: 'error', error: { type, message: 'it broke' } })}\n\n`
      : `data: ${JSON.stringify({ error: { message: 'it broke', type, code, param: null } })}\n\n`

const begunOf = (asked: Asked): string[] => piecesOf(asked, { text: TEXT }).slice(0, 1)

function* pings(): Generator<string> {
  for (;;) yield ': keep-alive\n\n'
}

const status = (code: number, type = 'server_error', headers: Readonly<Record<string, string>> = {}) => ({
  act: (asked: Asked): Act => refuse(asked, code, { type, message: 'it did not work out' }, headers),
  shown: String(code),
})
const limited = (headers: Readonly<Record<string, string>>) => ({
  ...status(429, 'rate_limit_error', headers),
  reach: 'deployment' as const,
  counts: 0 as const,
  told: [429, 'rate_limited'] as const,
})
const raw = (bytes: string) => ({ act: (): Act => ({ do: 'raw', bytes }) })

const endpoint = { reach: 'endpoint', counts: 1, retry: true } as const
const deployment = { reach: 'deployment', counts: 1, retry: true } as const
const overloaded = { reach: 'model', counts: 1, retry: true, told: [502, 'overloaded'] } as const
const timeout = { ...deployment, told: [504, 'timeout'] } as const
const auth = { counts: 0, retry: false, told: [502, 'upstream_auth'] } as const
const quota = {
  reach: 'key',
  counts: 0,
  retry: false,
  // Until the next live request looks whether there is credit again.
  wait: [890, 900],
  told: [429, 'insufficient_quota'],
  key: ['quota_exhausted'],
} as const
const own = { reach: 'request', counts: 0, retry: false } as const

const FAULTS: readonly Fault[] = [
  // ── The way there ──────────────────────────────────────────────────────────────────────────────────────────────
  { name: 'nobody listens', at: 'refused', shown: 'refused', ...endpoint, told: [502, 'refused'] },
  { name: 'connecting hangs', at: 'hole', shown: 'timeout', ...endpoint, told: [504, 'timeout'] },
  { name: 'a reset on connecting', at: 'reset', shown: 'reset', ...endpoint, told: [502, 'reset'] },
  { name: 'a host name nobody has', at: 'nowhere', shown: 'dns', ...endpoint, told: [502, 'dns'] },
  { name: 'a certificate nobody vouches for', at: 'stranger', shown: 'tls', ...endpoint, told: [502, 'tls'] },
  { name: 'a certificate that is over', at: 'expired', shown: 'tls', ...endpoint, told: [502, 'tls'] },
  { name: 'a certificate for another host', at: 'another host', shown: 'tls', ...endpoint, told: [502, 'tls'] },
  { name: 'nothing newer than TLS 1.1', at: 'old', shown: 'tls', ...endpoint, told: [502, 'tls'] },
  { name: 'HTTP where TLS should be', at: 'plain', shown: 'tls', ...endpoint, told: [502, 'tls'] },
  { name: 'a handshake that hangs', at: 'silent', shown: 'timeout', ...endpoint, told: [504, 'timeout'] },
  {
    name: 'a reset after the request',
    act: () => ({ do: 'reset' }),
    stale: true,
    shown: 'reset',
    ...endpoint,
    told: [502, 'reset'],
  },
  {
    name: 'closed after the request',
    act: () => ({ do: 'close' }),
    stale: true,
    shown: 'reset',
    ...endpoint,
    told: [502, 'reset'],
  },
  { name: 'not HTTP', ...raw('220 mail.example ESMTP\r\n'), shown: 'not_http', ...endpoint, told: [502, 'not_http'] },
  {
    name: 'a head of 17 KiB',
    ...raw(`HTTP/1.1 200 OK\r\nx-long: ${'x'.repeat(17 * 1024)}\r\ncontent-length: 2\r\n\r\n{}`),
    shown: 'not_http',
    ...endpoint,
    told: [502, 'not_http'],
  },
  {
    name: 'interim answers without end',
    ...raw('HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n'.repeat(2_000)),
    shown: 'not_http',
    ...endpoint,
    told: [502, 'not_http'],
  },
  {
    name: '100 Continue, for which nobody waits',
    ...raw('HTTP/1.1 100 Continue\r\n\r\n'.repeat(20)),
    shown: 'not_http',
    ...endpoint,
    told: [502, 'not_http'],
  },
  {
    name: 'broken chunks',
    ...raw('HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n'),
    shown: 'not_http',
    ...endpoint,
    told: [502, 'not_http'],
  },
  {
    name: 'a web page',
    act: () => ({ do: 'answer', headers: HTML, body: `<html>${SECRETIVE}</html>` }),
    shown: 'not_json',
    ...endpoint,
    told: [502, 'not_json'],
  },
  {
    name: 'a firewall’s page',
    act: () => ({ do: 'answer', status: 403, headers: HTML, body: `<html>${SECRETIVE}</html>` }),
    shown: '403',
    ...endpoint,
    told: [502, 'not_json'],
  },

  // ── No answer, half an answer, nonsense ────────────────────────────────────────────────────────────────────────
  { name: 'no head', act: () => ({ do: 'hang' }), shown: 'timeout', ...timeout },
  {
    name: 'a head and then silence (stream)',
    only: 'stream',
    act: () => ({ do: 'stream', pieces: [], ending: 'stall' }),
    shown: 'timeout',
    ...timeout,
  },
  {
    name: 'a head and then silence (whole)',
    only: 'whole',
    ...{
      act: (): Act => ({
        do: 'raw',
        bytes: 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n{"id":',
        ending: 'stall',
      }),
    },
    shown: 'stalled',
    ...timeout,
  },
  {
    name: 'comments only',
    only: 'stream',
    act: () => ({ do: 'stream', pieces: pings(), gap: 50 }),
    shown: 'timeout',
    ...timeout,
  },
  {
    name: 'a body shorter than it says',
    only: 'whole',
    ...raw('HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{"id":'),
    shown: 'truncated',
    ...deployment,
    told: [502, 'truncated'],
  },
  {
    name: 'a body longer than it says',
    only: 'whole',
    act: (asked) => {
      const body = JSON.stringify(bodyOf(asked, { text: TEXT }))
      return {
        do: 'raw',
        bytes: `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length - 20}\r\n\r\n${body}`,
      }
    },
    shown: 'malformed',
    ...deployment,
    told: [502, 'malformed'],
  },
  {
    name: 'a 204',
    act: () => ({ do: 'raw', bytes: 'HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n' }),
    shown: 'malformed',
    ...deployment,
    told: [502, 'malformed'],
  },
  ...(['end', 'close', 'reset'] as const).map(
    (ending): Fault => ({
      name: `a stream cut before content (${ending})`,
      only: 'stream',
      act: (asked) => ({ do: 'stream', pieces: begunOf(asked), gap: 5, ending }),
      shown: 'truncated',
      ...deployment,
      told: [502, 'truncated'],
    }),
  ),
  {
    name: 'a stream without anything',
    only: 'stream',
    act: () => ({ do: 'stream', pieces: [] }),
    shown: 'truncated',
    ...deployment,
    told: [502, 'truncated'],
  },
  { name: 'an empty 200', act: () => ({ do: 'answer' }), shown: 'malformed', ...deployment, told: [502, 'malformed'] },
  {
    name: 'an object without an answer',
    act: () => ({ do: 'answer', body: {} }),
    shown: 'malformed',
    ...deployment,
    told: [502, 'malformed'],
  },
  {
    name: 'half a JSON',
    act: (asked) => ({ do: 'answer', body: JSON.stringify(bodyOf(asked, { text: TEXT })).slice(0, -20) }),
    shown: 'malformed',
    ...deployment,
    told: [502, 'malformed'],
  },
  {
    name: 'a first event that is not JSON',
    only: 'stream',
    act: (asked) => ({ do: 'stream', pieces: ['data: {nonsense\n\n', ...piecesOf(asked, { text: TEXT })] }),
    shown: 'malformed',
    ...deployment,
    told: [502, 'malformed'],
  },
  {
    name: 'gzip that is none',
    act: () => ({ do: 'answer', headers: { 'content-encoding': 'gzip' }, body: '{"plain":true}' }),
    shown: 'malformed',
    ...deployment,
    told: [502, 'malformed'],
  },
  {
    name: 'a redirect',
    act: () => ({ do: 'answer', status: 302, headers: { location: 'http://127.0.0.1:9/' } }),
    shown: 'redirect',
    ...endpoint,
    told: [502, 'redirect'],
  },

  // ── Statuses ───────────────────────────────────────────────────────────────────────────────────────────────────
  { name: '500', ...status(500), ...deployment, twice: true, told: [502, 'status'] },
  { name: '502', ...status(502), ...deployment, twice: true, told: [502, 'status'] },
  { name: '504', ...status(504), ...deployment, twice: true, told: [502, 'status'] },
  {
    name: '502 as a page',
    act: () => ({ do: 'answer', status: 502, headers: HTML, body: `<html>${SECRETIVE}</html>` }),
    shown: '502',
    ...deployment,
    twice: true,
    told: [502, 'status'],
  },
  { name: '503', ...status(503), ...overloaded },
  {
    name: '503 with a wait',
    ...status(503, 'server_error', { 'retry-after': '30' }),
    ...overloaded,
    model: 'unavailable',
  },
  {
    name: '503 with a long wait',
    ...status(503, 'server_error', { 'retry-after': '120' }),
    ...overloaded,
    retry: false,
    model: 'unavailable',
  },
  { name: '529', ...status(529, 'overloaded_error'), ...overloaded },
  { name: '498', ...status(498, 'capacity'), ...overloaded },
  { name: '408', ...status(408, 'timeout'), ...timeout },
  { name: '499', ...status(499, 'CANCELLED'), ...timeout },
  { name: '522', ...status(522), ...timeout },
  { name: '524', ...status(524), ...timeout },
  { name: '409', ...status(409, 'lock'), reach: 'model', counts: 0, retry: true, twice: true, told: [409, 'conflict'] },

  // ── Limits, money, keys ────────────────────────────────────────────────────────────────────────────────────────
  { name: '429 with seconds', ...limited({ 'retry-after': '30' }), retry: true, wait: [29, 30], key: ['rate_limited'] },
  {
    name: '429 with a date',
    ...limited({}),
    act: (asked) =>
      refuse(
        asked,
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
    name: '429 with a short wait',
    ...limited({ 'retry-after-ms': '600' }),
    retry: true,
    twice: true,
    soon: true,
    wait: [1, 1],
    key: ['active', 'rate_limited'],
  },
  {
    name: '429 with a long wait',
    ...limited({ 'retry-after': '300' }),
    retry: false,
    wait: [299, 300],
    key: ['rate_limited'],
  },
  { name: '429 without a hint', ...limited({}), retry: true, wait: [1, 1], key: ['active', 'rate_limited'] },
  {
    name: '429 insufficient_quota',
    openai: true,
    act: (asked) => refuse(asked, 429, { type: 'insufficient_quota', message: 'no more', code: 'insufficient_quota' }),
    shown: '429',
    ...quota,
  },
  { name: '402', ...status(402, 'billing_error'), ...quota },
  {
    name: 'OpenRouter’s 402 with a wait',
    kind: 'openrouter',
    ...status(402, 'payment_required', { 'retry-after': '30' }),
    reach: 'deployment',
    counts: 0,
    told: [429, 'rate_limited'],
    retry: true,
    wait: [29, 30],
    key: ['rate_limited'],
  },
  // Both are quoted in test/conformance/errors.quoted.ts.
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
    shown: '429',
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
    shown: '400',
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
    shown: '400',
    ...auth,
    reach: 'key',
    key: ['suspended'],
  },
  { name: '403 for the model', ...status(403, 'permission_error'), ...auth, reach: 'deployment' },
  {
    name: '404 for the model',
    ...status(404, 'not_found_error'),
    reach: 'model',
    counts: 0,
    retry: false,
    told: [404, 'model_not_found'],
    model: 'unavailable',
  },
  {
    name: '413 for the tokens of a minute',
    openai: true,
    act: (asked) =>
      refuse(asked, 413, {
        type: 'tokens',
        message: 'Request too large for your tokens per minute',
        code: 'rate_limit_exceeded',
      }),
    shown: '413',
    reach: 'model',
    counts: 0,
    retry: true,
    wait: [1, 1],
    told: [429, 'rate_limited'],
  },

  // ── The request’s own fault ────────────────────────────────────────────────────────────────────────────────────
  {
    name: 'too long, by its code',
    openai: true,
    act: (asked) =>
      refuse(asked, 400, { type: 'invalid_request_error', message: 'Too long.', code: 'context_length_exceeded' }),
    shown: '400',
    ...own,
    told: [400, 'context_length_exceeded'],
  },
  {
    name: 'too long, in words',
    act: (asked) =>
      refuse(asked, 400, {
        type: 'invalid_request_error',
        message: 'prompt is too long: 250000 tokens > 200000 maximum',
      }),
    shown: '400',
    ...own,
    told: [400, 'context_length_exceeded'],
  },
  {
    name: 'refused for its content',
    openai: true,
    act: (asked) => refuse(asked, 400, { type: 'invalid_request_error', message: 'Filtered.', code: 'content_filter' }),
    shown: '400',
    ...own,
    told: [400, 'content_filter'],
  },
  {
    name: 'refused for a value',
    openai: true,
    act: (asked) =>
      refuse(asked, 400, { type: 'invalid_request_error', message: 'temperature is too high', code: 'invalid_value' }),
    shown: '400',
    ...own,
    told: [400, 'invalid_value'],
  },
  {
    name: 'a body that is too large there',
    openai: true,
    ...status(413, 'invalid_request_error'),
    ...own,
    told: [413, 'invalid_request'],
  },
  { name: '422', ...status(422, 'invalid_request_error'), ...own, told: [422, 'invalid_request'] },

  // ── Errors behind a 200 ────────────────────────────────────────────────────────────────────────────────────────
  {
    name: 'an error in a 200',
    act: (asked) => ({ do: 'answer', body: errorOf(asked, { type: 'server_error', message: 'oops' }) }),
    shown: 'error_in_stream',
    ...deployment,
    told: [502, 'error_in_stream'],
  },
  {
    name: 'a status in a 200',
    openai: true,
    act: () => ({ do: 'answer', body: { error: { code: 502, message: 'Upstream had an error' } } }),
    shown: '502',
    ...deployment,
    twice: true,
    told: [502, 'status'],
  },
  {
    name: 'an error as the first event',
    only: 'stream',
    act: (asked) => ({ do: 'stream', pieces: [streamError(asked, 'server_error')] }),
    shown: 'error_in_stream',
    ...deployment,
    told: [502, 'error_in_stream'],
  },
  {
    name: 'an error after the beginning',
    only: 'stream',
    act: (asked) => ({
      do: 'stream',
      pieces: [...begunOf(asked), ': ping\n\n', streamError(asked, 'server_error')],
      gap: 5,
    }),
    shown: 'error_in_stream',
    ...deployment,
    told: [502, 'error_in_stream'],
  },
  {
    name: 'no quota, after the beginning',
    only: 'stream',
    openai: true,
    act: (asked) => ({
      do: 'stream',
      pieces: [...begunOf(asked), streamError(asked, 'insufficient_quota', 'insufficient_quota')],
      gap: 5,
    }),
    shown: 'insufficient_quota',
    ...quota,
  },
  {
    name: 'overloaded, after the beginning',
    only: 'stream',
    act: (asked) => ({ do: 'stream', pieces: [...begunOf(asked), streamError(asked, 'overloaded_error')], gap: 5 }),
    shown: 'overloaded',
    ...overloaded,
  },
]

// ── Who there is to turn to ──────────────────────────────────────────────────────────────────────────────────────

type Topology = {
  readonly name: string
  readonly providers: 1 | 2
  readonly keys: 1 | 2
  /** Which attempts meet the fault: all of them, or the first place (provider or key) only. */
  readonly bad: 'all' | 'first'
}

const TOPOLOGIES: readonly Topology[] = [
  { name: 'nobody else', providers: 1, keys: 1, bad: 'all' },
  { name: 'two keys, both so', providers: 1, keys: 2, bad: 'all' },
  { name: 'two keys, one so', providers: 1, keys: 2, bad: 'first' },
  { name: 'two providers, both so', providers: 2, keys: 1, bad: 'all' },
  { name: 'two providers, one so', providers: 2, keys: 1, bad: 'first' },
]

type Case = {
  readonly id: string
  readonly fault: Fault
  readonly style: Style
  readonly stream: boolean
  /** The format the upstreams speak, if not the client's. */
  readonly through: 'chat' | 'messages' | null
}

const casesOf = (topology: Topology): readonly Case[] => {
  const translated = topology.keys === 1 && !(topology.providers === 2 && topology.bad === 'all')
  let number = 0
  return FAULTS.flatMap((fault) =>
    STYLES.flatMap((style) =>
      [false, true].flatMap((stream) =>
        [null, style === 'chat' ? ('messages' as const) : ('chat' as const)].flatMap((through) => {
          if (fault.only && (fault.only === 'stream') !== stream) return []
          if (through && (!translated || fault.kind || fault.at)) return []
          if (through === 'messages' && fault.openai) return []
          return [{ id: `c${number++}`, fault, style, stream, through }]
        }),
      ),
    ),
  )
}

/** How many attempts are made, and how many of them fail. */
const expected = (
  { providers, keys, bad }: Topology,
  { reach, twice, soon }: Fault,
): { attempts: number; failed: number } => {
  const elsewhere = providers === 2 ? reach !== 'request' : keys === 2 && (reach === 'key' || reach === 'deployment')
  if (elsewhere && soon && bad === 'all') return { attempts: 3, failed: 3 }
  if (elsewhere) return { attempts: 2, failed: bad === 'all' ? 2 : 1 }
  // What is wrong with the model there is no other key's to mend: then the same is asked once more.
  const again = twice && providers === 1 && (keys === 1 || reach === 'model')
  return again ? { attempts: 2, failed: 2 } : { attempts: 1, failed: 1 }
}

const SETTINGS = {
  // What is not asked for by a route is not asked at all: the cases stay apart.
  fallback: 'same-model',
  // Far enough apart that a busy machine neither times a sound connection out nor lets a later limit end a wait first.
  circuit: { timeout: 4_000, minRequests: 100, consecutiveFailures: 0 },
  timeout: { connect: 2_500, firstContent: 5_000, idle: 4_000 },
  keepAlive: { interval: 0 },
}

for (const topology of TOPOLOGIES)
  describe(`faults: ${topology.name}`, () => {
    const cases = casesOf(topology)
    const firstKeys = new Map<string, string | undefined>()
    const { keep, ...on } = stage()
    let gateway: Started
    let upstream: Upstream
    let refusing: string
    let resetting: BadAddress
    let hole: BadAddress | null
    let secure: Secure
    let page: ReadonlyMap<string, ProviderStatus>
    let looked = 0

    const script = (asked: Asked): Act => {
      const [, place = ''] = asked.path.split('/')
      const found = cases.find(({ id }) => id === place.slice(0, -1))
      if (found && topology.bad === 'first' && place.endsWith('b')) return say(asked, { text: TEXT })
      if (!found?.fault.act) return { do: 'answer', status: 418, body: { error: { message: `what is ${place}?` } } }
      if (!firstKeys.has(found.id)) firstKeys.set(found.id, asked.key)
      const first = topology.providers === 2 ? place.endsWith('a') : asked.key === firstKeys.get(found.id)
      return topology.bad === 'all' || first ? found.fault.act(asked) : say(asked, { text: TEXT })
    }
    const asksOf = ({ id }: Case) =>
      upstream.seen.filter(({ method, path }) => method === 'POST' && path.split('/')[1]?.slice(0, -1) === id)

    const placeOf = ({ id, fault, through }: Case, letter: 'a' | 'b'): Place => {
      const elsewhere: Record<Elsewhere, string> = {
        refused: refusing,
        reset: resetting.url,
        hole: hole?.url ?? refusing,
        nowhere: 'http://nobody.invalid',
        ...secure.urls,
      }
      const bad = topology.bad === 'all' || letter === 'a'
      const base = fault.at && bad ? elsewhere[fault.at] : upstream.url
      const keys = ['one', 'two'].slice(0, topology.keys).map((which) => `sk-${id}${letter}-${which}-0123456789`)
      return {
        baseUrl: `${base}/${id}${letter}/v1`,
        keys,
        ...(fault.kind ? { kind: fault.kind } : { styles: through ? [through] : ['chat', 'responses'] }),
      }
    }

    before(async () => {
      upstream = await on.upstream(script)
      refusing = await refusingUrl()
      resetting = await resettingUrl()
      keep(() => resetting.close())
      hole = await blackHole()
      keep(() => hole?.close())
      secure = await badlySecured()
      keep(() => secure.close())
      const letters = topology.providers === 2 ? (['a', 'b'] as const) : (['a'] as const)
      const file = {
        providers: Object.fromEntries(
          cases.flatMap((one) => letters.map((letter) => [one.id + letter, placeOf(one, letter)])),
        ),
        routes: Object.fromEntries(
          cases.map(({ id }) => [id, { targets: letters.map((letter) => `${id}${letter}/m`) }]),
        ),
        ...SETTINGS,
      }
      gateway = await on.gateway(file, { NODE_EXTRA_CA_CERTS: secure.trusted })
    })

    const check = (one: Case, answer: Answer) => {
      const { fault, style, stream, id } = one
      const { attempts, failed } = expected(topology, fault)
      const header = (name: string) => answer.headers.get(name)
      assert.equal(header('x-headgate-attempts'), String(attempts), answer.text)
      const trail = (header('x-headgate-trail') ?? '').split(', ')
      const provider = (at: number) => `${id}${at === 1 && topology.providers === 2 ? 'b' : 'a'}`
      assert.deepEqual(
        trail.map((step) => step.replace(/#[0-9a-f]{4,}:/, '#:')),
        Array.from({ length: attempts }, (_, at) => `${provider(at)}#:${at < failed ? fault.shown : '200'}`),
      )
      assert.match(header('x-request-id') ?? '', /^req_[a-z]+$/)
      assert.doesNotMatch(answer.text, new RegExp(SECRETIVE))

      if (failed < attempts) {
        assert.equal(answer.status, 200)
        assert.equal(header('x-headgate-provider'), provider(attempts - 1))
        assert.equal(header('x-headgate-model'), 'm')
        assert.equal(saidIn(style, stream, answer.text), TEXT)
        if (stream) assert.ok(endedWell(style, answer.text), answer.text)
      } else {
        const { error } = answer.json()
        assert.deepEqual([answer.status, error.code], [...fault.told])
        assert.equal(header('x-should-retry'), String(fault.retry))
        assert.equal(error.request_id, header('x-request-id'))
        assert.equal(header('content-type'), 'application/json')
        assert.equal(error.attempts?.length, fault.retry ? attempts : undefined)
        const wait = header('retry-after')
        if (!fault.wait) assert.equal(wait, null)
        else assert.ok(Number(wait) >= fault.wait[0] && Number(wait) <= fault.wait[1], `retry-after: ${wait}`)
      }
    }

    // Cases that wait for a timeout start first and together; each of the others finds a free slot at once.
    const waiting = cases.filter(({ fault }) => fault.told[0] === 504)
    const inOrder = [...waiting, ...cases.filter((one) => !waiting.includes(one))]
    describe('answers', { concurrency: 24 + waiting.length }, () => {
      for (const one of inOrder) {
        const { fault, style, stream, through } = one
        const name = `${fault.name}: ${style}${stream ? ', streamed' : ''}${through ? `, through ${through}` : ''}`
        test(name, { timeout: 40_000 }, async (t) => {
          if (fault.at === 'hole' && !hole) return t.skip('a full queue does not swallow connections on this system')
          check(one, await ask(gateway, style, one.id, stream))
        })
      }
    })

    describe('afterwards', () => {
      before(async () => {
        looked = Date.now()
        page = await statusPage(gateway)
      })
      for (const one of cases) {
        const { fault, id } = one
        const name = `${fault.name}: ${one.style}${one.stream ? ', streamed' : ''}${one.through ? `, through ${one.through}` : ''}`
        test(name, (t) => {
          if (fault.at === 'hole' && !hole) return t.skip('a full queue does not swallow connections on this system')
          const { attempts, failed } = expected(topology, fault)
          const places = topology.providers === 2 ? ['a', 'b'] : ['a']
          const asks = asksOf(one)
          if (!fault.at) {
            // What breaks on a kept connection before a byte of answer is sent again, once, on a connection of its own.
            const resent = asks.filter(
              ({ connection }, at) => at > 0 && fault.stale && connection > (asks[at - 1]?.connection ?? 0),
            )
            assert.ok(resent.length <= failed)
            assert.ok(
              asks.length === attempts || (fault.stale && asks.length <= attempts + resent.length),
              `${asks.length} requests for ${attempts} attempts`,
            )
            const keys = asks.map(({ key }) => key)
            const known = places.flatMap((letter) =>
              ['one', 'two'].map((which) => `sk-${id}${letter}-${which}-0123456789`),
            )
            for (const [at, key] of keys.entries()) {
              assert.ok(known.includes(key ?? ''), 'a key of its own')
              assert.ok(key?.startsWith(`sk-${asks[at]?.path.split('/')[1]}-`), 'and of this provider')
            }
            // Another key, save where only the same target is worth asking again.
            if (topology.keys === 2 && attempts === 2) assert.equal(keys[0] === keys[1], fault.reach === 'model')
            for (const { model } of asks) assert.equal(model, 'm')
          }
          for (const [at, letter] of places.entries()) {
            const status = page.get(id + letter)
            assert.ok(status)
            // Two providers share the failures, one has them all.
            const here = places.length === 2 ? (at < failed ? 1 : 0) : failed
            assert.equal(status.circuit.failures, here * fault.counts, `failures of ${letter}`)
            assert.equal(status.circuit.state, 'closed')
            const total = status.keys.reduce((sum, { requests }) => sum + requests, 0)
            const once = (at < attempts ? 1 : 0) + (at === 0 && attempts === 3 ? 1 : 0)
            assert.equal(total, places.length === 2 ? once : attempts)
            assert.ok(status.keys.every(({ in_flight }) => in_flight === 0))
            const affected = status.keys.filter(({ requests }) => requests > 0)
            if (here > 0 && topology.bad === 'all')
              for (const key of affected) {
                assert.ok((fault.key ?? ['active']).includes(key.status), key.status)
                // As the page was made; the two clocks of a process may differ by a little.
                if (key.status !== 'active') assert.ok(Date.parse(key.until ?? '') > looked - 50)
              }
            if (here > 0 && fault.model) assert.equal(status.models[0]?.status, fault.model)
            assert.equal(status.last_error !== null, here > 0 && fault.reach !== 'request' && fault.told[0] !== 404)
          }
        })
      }

      test('no key is in anything it wrote', async () => {
        await gateway.told()
        assert.doesNotMatch(gateway.output(), /sk-c\d/)
      })
    })
  })

// ── What looks odd and is an answer all the same ─────────────────────────────────────────────────────────────────

const ODD: readonly {
  readonly name: string
  readonly only?: 'stream' | 'whole'
  readonly act: (asked: Asked) => Act
}[] = [
  {
    name: 'compressed although plain text was asked for',
    act: (asked) => ({
      do: 'answer',
      headers: { 'content-encoding': 'gzip', 'content-type': asked.stream ? 'text/event-stream' : 'application/json' },
      body: gzipSync(
        asked.stream ? piecesOf(asked, { text: TEXT }).join('') : JSON.stringify(bodyOf(asked, { text: TEXT })),
      ),
    }),
  },
  { name: 'single bytes', only: 'stream', act: (asked) => say(asked, { text: TEXT }, { slice: 1 }) },
  {
    name: 'lines that end as on Windows',
    only: 'stream',
    act: (asked) => ({
      do: 'stream',
      pieces: piecesOf(asked, { text: TEXT }).map((piece) => piece.replaceAll('\n', '\r\n')),
      slice: 7,
    }),
  },
  {
    name: 'a mark before it, comments between, no space after the colon',
    only: 'stream',
    act: (asked) => ({
      do: 'stream',
      pieces: [
        '\ufeff',
        ...piecesOf(asked, { text: TEXT }).map((piece) => `: hm\n\n${piece.replace('data: ', 'data:')}`),
      ],
    }),
  },
  {
    name: 'a stream without a length that ends with its connection',
    only: 'stream',
    act: (asked) => say(asked, { text: TEXT }, { untilClose: true }),
  },
  {
    name: 'an interim answer first',
    only: 'whole',
    act: (asked) => {
      const body = JSON.stringify(bodyOf(asked, { text: TEXT }))
      const head = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n`
      return { do: 'raw', bytes: `HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n${head}${body}` }
    },
  },
]

describe('faults: none', () => {
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
    upstream = await on.upstream((asked) => {
      const found = cases.find(({ id }) => id === asked.path.split('/')[1])
      if (!found) return { do: 'answer', status: 404 }
      return found.odd.act(asked)
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
      const answer = await ask(gateway, style, `r${id}`, stream)
      assert.equal(answer.status, 200, answer.text)
      assert.equal(saidIn(style, stream, answer.text), TEXT)
      assert.equal(answer.headers.get('content-encoding'), null)
      if (stream) assert.ok(endedWell(style, answer.text), answer.text)
      assert.equal(answer.headers.get('x-headgate-attempts'), '1')
    })
})

// ── An answer with nothing in it ─────────────────────────────────────────────────────────────────────────────────

describe('faults: nothing said', () => {
  const on = stage()
  let gateway: Started
  let upstream: Upstream
  const nothing = (asked: Asked) => say(asked, { text: '', output: 0 })

  before(async () => {
    upstream = await on.upstream((asked) => {
      return asked.path.includes('good') ? say(asked, { text: TEXT }) : nothing(asked)
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
    // Twice nothing is the answer; a third is not asked.
    ['none', '', 2],
  ] as const
  for (const [route, text, attempts] of table)
    for (const style of STYLES)
      for (const stream of [false, true])
        test(`${route}: ${style}${stream ? ', streamed' : ''}`, async () => {
          const answer = await ask(gateway, style, route, stream)
          assert.equal(answer.status, 200, answer.text)
          assert.equal(answer.headers.get('x-headgate-attempts'), String(attempts))
          assert.equal(saidIn(style, stream, answer.text), text)
          if (stream) assert.ok(endedWell(style, answer.text), answer.text)
        })
  test('it is no failure of health', async () => {
    for (const { circuit } of (await statusPage(gateway)).values()) assert.equal(circuit.failures, 0)
  })
})

// ── A first event beyond every measure ───────────────────────────────────────────────────────────────────────────

describe('faults: an event without end', () => {
  const on = stage()
  let gateway: Started
  let upstream: Upstream

  before(async () => {
    function* endless() {
      yield 'data: {"choices":[{"index":0,"delta":{"content":"'
      for (let at = 0; at < 10_000; at++) yield 'x'.repeat(16_384)
    }
    upstream = await on.upstream((asked) => {
      return asked.path.includes('good') ? say(asked, { text: TEXT }) : { do: 'stream', pieces: endless() }
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
      const answer = await ask(gateway, style, 'two', true)
      assert.equal(answer.status, 200, answer.text.slice(0, 500))
      assert.equal(answer.headers.get('x-headgate-provider'), 'good')
      assert.match(answer.headers.get('x-headgate-trail') ?? '', /^first#\w+:response_too_large, good#\w+:200$/)
    })
    test(`${style}: without another target it is an error`, async () => {
      const answer = await ask(gateway, style, 'alone', true)
      assert.equal(answer.status, 502, answer.text.slice(0, 500))
      assert.equal(JSON.parse(answer.text).error.code, 'response_too_large')
      assert.ok(answer.text.length < 2_000)
    })
  }
  test('it is not read to its end', () => {
    for (const { path, sent } of upstream.seen)
      if (!path.includes('good')) assert.ok(sent < 40 * 1024 * 1024, `${path}: ${sent} bytes`)
  })
})
