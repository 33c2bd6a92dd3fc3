/**
 * SEC-02: an upstream that echoes the gateway's key, in every format, in every place of an error, in every encoding and
 * split anywhere. No output contains more of the key than its ends.
 */
import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import type { Started } from '../e2e/support/process.ts'
import { bodyFor, callsOf, PATHS as STYLE_PATHS, stage } from '../e2e/support/stage.ts'
import { answerWith, errorBody, piecesOf } from '../support/answers.ts'
import { conversePieces, converseStream, isConverse } from '../support/converse.ts'
import { exception } from '../support/event-stream.ts'
import type { Act, Upstream, UpstreamRequest } from '../support/upstream.ts'
import { type Canary, KEY_FORMS } from './support/canaries.ts'
import { FORMAT_NAMES, FORMATS } from './support/formats.ts'
import { type Witness, witness } from './support/witness.ts'

const FORMS = Object.keys(KEY_FORMS) as readonly (keyof typeof KEY_FORMS)[]

/** Ways to quote a key. */
const QUOTES: { readonly [name: string]: (key: string) => string } = {
  plain: (key) => `The key ${key} is not known.`,
  bearer: (key) => `authorization: Bearer ${key}`,
  twice: (key) => `${key}${key}`,
  glued: (key) => `x${key}y`,
  base64: (key) => `Basic ${Buffer.from(key).toString('base64')} was refused`,
  'base64 of the header': (key) => `got ${Buffer.from(`Bearer ${key}`).toString('base64')}`,
  'base64url of the header': (key) => `got ${Buffer.from(`Bearer ${key}`).toString('base64url')}`,
  url: (key) => `GET /v1?key=${encodeURIComponent(key)}&x=1`,
  hex: (key) => `token 0x${Buffer.from(key).toString('hex')}`,
  json: (key) => JSON.stringify({ error: JSON.stringify({ headers: { Authorization: `Bearer ${key}` } }) }),
  'a prefix': (key) => `The key ${key.slice(0, 20)}... is not known.`,
  'a suffix': (key) => `The key ...${key.slice(-16)} is not known.`,
  'a middle part': (key) => `Between ${key.slice(6, 20)} and`,
  'where a message is truncated': (key) => `${'x '.repeat(1_990)} ${key}`,
  'where a log field is truncated': (key) => `${'x '.repeat(1_010)} ${key}`,
  'on several lines': (key) => `\r\nauthorization: ${key}\r\n\u001b[31m${key}\n`,
}

const inMessage = (request: UpstreamRequest, message: string): object =>
  isConverse(request) || request.path.includes('/v2/chat')
    ? { message }
    : request.path.endsWith('/api/chat')
      ? { error: message }
      : errorBody(request, { type: 'invalid_request_error', message, code: 'invalid_value' })

/** Places other than the error message. */
const PLACES: { readonly [name: string]: (request: UpstreamRequest, key: string) => Act } = {
  'every member': (request, key) => ({
    do: 'answer',
    status: 400,
    body: {
      type: 'error',
      error: { message: key, type: key, code: key, param: key, status: key, details: [{ reason: key }] },
      request_id: key,
      requestId: key,
      message: key,
      detail: [{ loc: [key], msg: key }],
    },
    headers: { 'x-amzn-errortype': key, ...(request.number % 2 === 0 && { 'request-id': key }) },
  }),
  'every header': (request, key) => ({
    do: 'answer',
    status: 400,
    body: inMessage(request, 'no'),
    headers: {
      'x-request-id': key,
      'x-echo': key,
      'set-cookie': `k=${key}`,
      'retry-after': key,
      'www-authenticate': `Bearer realm="${key}"`,
      'x-ratelimit-limit-requests': key,
      location: `http://127.0.0.1:9/${key}`,
      'x-headgate-trail': key,
      'content-language': key,
      server: key,
    },
  }),
  'a page': (_asked, key) => ({
    do: 'answer',
    status: 502,
    headers: { 'content-type': 'text/html' },
    body: `<html><h1>Bad Gateway</h1><pre>authorization: Bearer ${key}</pre>`,
  }),
  'an HTML page for an answer': (_asked, key) => ({
    do: 'answer',
    headers: { 'content-type': 'text/html' },
    body: `<html>${key}`,
  }),
  'a text': (_asked, key) => ({
    do: 'answer',
    status: 400,
    headers: { 'content-type': 'text/plain' },
    body: `no ${key}`,
  }),
  'a JSON text': (_asked, key) => ({ do: 'answer', status: 400, body: JSON.stringify(`no ${key}`) }),
  'an error inside an answer': (request, key) => ({ do: 'answer', body: inMessage(request, `no ${key}`) }),
  'a truncated answer': (_asked, key) => ({ do: 'answer', body: `{"error":{"message":"no ${key}` }),
  'a reason phrase': (_asked, key) => ({
    do: 'raw',
    bytes: `HTTP/1.1 400 ${key}\r\ncontent-length: 0\r\n\r\n`,
    ending: 'close',
  }),
  'bytes that are not HTTP': (_asked, key) => ({ do: 'raw', bytes: `${key} ${key}\r\n\r\n`, ending: 'close' }),
  'an encoding': (_asked, key) => ({ do: 'answer', headers: { 'content-encoding': key }, body: '{}' }),
}

/** An error event of the format. */
const errorPiece = (request: UpstreamRequest, message: string): (string | Uint8Array)[] => {
  if (isConverse(request)) return [exception('validationException', { message })]
  const body = inMessage(request, message)
  if (request.path.endsWith('/api/chat')) return [`${JSON.stringify(body)}\n`]
  if (request.path.endsWith('/responses'))
    return [
      `event: error\ndata: ${JSON.stringify({ type: 'error', message, code: 'server_error', param: message })}\n\n`,
      `event: response.failed\ndata: ${JSON.stringify({ type: 'response.failed', response: { id: 'resp_x', status: 'failed', error: { code: 'server_error', message } } })}\n\n`,
    ]
  return [`event: error\ndata: ${JSON.stringify(body)}\n\n`]
}

/** The position of the error in a stream, and the write size. */
const STREAMS = [
  ['first', 0, undefined],
  ['first, byte by byte', 0, 1],
  ['after content', 5, undefined],
  ['after content, byte by byte', 5, 1],
  ['after content, 7 bytes at a time', 5, 7],
] as const

const inStream = (request: UpstreamRequest, key: string, before: number, slice: number | undefined): Act => {
  const delivery = { ...(slice !== undefined && { slice }) }
  const answer = { text: 'Words of an answer that goes on.' }
  const error = errorPiece(request, `authorization: Bearer ${key}, and again ${key}`)
  if (isConverse(request))
    return { ...converseStream([], delivery), pieces: [...conversePieces(answer).slice(0, before), ...error] } as Act
  const pieces = [...piecesOf(request, answer).slice(0, before), ...error]
  const lines = request.path.endsWith('/api/chat') && { headers: { 'content-type': 'application/x-ndjson' } }
  return { do: 'stream', pieces, ...lines, ...delivery }
}

/** Statuses that cause a cooldown or open a circuit: each has a provider of its own. */
const ENDING = [307, 401, 402, 403, 429, 503] as const

/** The first path segment names the provider, so that each has its own key. */
const nameIn = ({ path }: UpstreamRequest): string => path.split('/')[1] ?? ''

describe('echo: an upstream that repeats the key', { concurrency: 4 }, () => {
  const on = stage()
  const canaries: Canary[] = []
  const instances = FORMAT_NAMES.flatMap((format) => FORMS.map((form) => ({ format, form, name: `${format}-${form}` })))
  let upstream: Upstream
  let gateway: Started
  let watch: Witness

  const script = (request: UpstreamRequest): Act => {
    const { key = '', model = '' } = request
    const [kind = '', name = ''] = decodeURIComponent(model).split('~')
    const place = PLACES[name]
    if (kind === 'place' && place) return place(request, key)
    const quote = QUOTES[name]
    if (kind === 'quote' && quote) return { do: 'answer', status: 400, body: inMessage(request, quote(key)) }
    const stream = STREAMS.find(([one]) => one === name)
    if (kind === 'stream' && stream) return inStream(request, key, stream[1], stream[2])
    const status = Number(kind)
    if (status === 307) return { do: 'answer', status, headers: { location: `/?${key}` }, body: key }
    if (status >= 400) return { do: 'answer', status, body: inMessage(request, `no: ${key}`) }
    return answerWith(request, { text: 'fine' })
  }

  before(async () => {
    upstream = await on.upstream(script)
    const key = (form: keyof typeof KEY_FORMS, name: string) => {
      const value = KEY_FORMS[form]()
      canaries.push({ name, value, isKey: true })
      return value
    }
    gateway = await on.gateway(
      {
        fallback: 'none',
        circuit: { whenAllOpen: 'try', errorThreshold: 100, consecutiveFailures: 0, minRequests: 1_000_000 },
        retry: { maxAttempts: 1 },
        providers: Object.fromEntries(
          instances.flatMap(({ format, form, name }) =>
            ['', ...ENDING.map((status) => `-${status}`)].map((end) => {
              const { path, ...place } = FORMATS[format]
              return [
                name + end,
                { ...place, baseUrl: `${upstream.url}/${name}${end}${path}`, keys: [key(form, name + end)] },
              ]
            }),
          ),
        ),
      },
      { LOG_LEVEL: 'debug' },
    )
    watch = witness(gateway)
  })

  const CLIENTS = {
    ...STYLE_PATHS,
    messages: '/v1/messages',
  } as const
  const requestBody = (style: keyof typeof CLIENTS, model: string, stream: boolean) =>
    style === 'messages'
      ? { model, stream, max_tokens: 9, messages: [{ role: 'user', content: 'hello' }] }
      : bodyFor(style, model, stream)

  for (const { format, name } of instances)
    test(`echo: ${name}`, async () => {
      const request = callsOf(upstream).filter((one) => nameIn(one) === name).length
      const models = [
        ...Object.keys(QUOTES).map((quote) => ({ model: `quote~${quote}`, streams: [false] })),
        ...Object.keys(PLACES).map((place) => ({ model: `place~${place}`, streams: [false, true] })),
        ...STREAMS.map(([stream]) => ({ model: `stream~${stream}`, streams: [true] })),
      ]
      const styles = Object.keys(CLIENTS) as (keyof typeof CLIENTS)[]
      let sent = 0
      // Each request in one style, alternating.
      for (const [at, { model, streams }] of models.entries())
        for (const stream of streams)
          for (const style of model.startsWith('stream') ? styles : [styles[at % styles.length] ?? 'chat']) {
            const { status, text } = await watch.post(CLIENTS[style], requestBody(style, `${name}/${model}`, stream))
            sent++
            assert.ok(status >= 400 || /error/.test(text), `${model}: ${status} ${text}`)
          }
      for (const end of ENDING) {
        const { status } = await watch.post(CLIENTS.chat, requestBody('chat', `${name}-${end}/${end}`, false))
        assert.ok(status >= 400, String(end))
      }
      const reached = callsOf(upstream).filter((one) => nameIn(one) === name).length - request
      assert.ok(reached >= sent, `${format}: only ${reached} of ${sent} requests reached the upstream`)
    })

  test('echo: no output contains a part of any key', async () => {
    assert.ok(canaries.length === instances.length * (1 + ENDING.length))
    for (const { key } of callsOf(upstream)) assert.ok(canaries.some(({ value }) => value === key))
    await watch.assertClean(canaries)
  })
})
