/** Clients of Claude at Bedrock and Vertex AI, whose base URL is the gateway. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { EventStreamCodec } from '@smithy/eventstream-codec'
import type { JsonObject } from '../../src/core/json.ts'
import { answerWith, failWith } from '../support/answers.ts'
import { type Script, startUpstream, type Upstream } from '../support/upstream.ts'
import { type Started, start } from './support/process.ts'

const KEY = 'canary-client-key-0123456789'
const DATED = 'claude-sonnet-4-5-20250929'
const PROFILE = `us.anthropic.${DATED}-v1:0`
const BODY = {
  max_tokens: 9,
  messages: [{ role: 'user', content: 'hello' }],
  anthropic_version: 'bedrock-2023-05-31',
  anthropic_beta: ['interleaved-thinking-2025-05-14'],
}

const usual: Script = (request) =>
  request.path.includes('count_tokens')
    ? { do: 'answer', body: { input_tokens: 4_321 } }
    : answerWith(request, { text: 'Hello 🦜.', input: 9, output: 5 })

type Message = { readonly headers: Readonly<Record<string, unknown>>; readonly payload: JsonObject }

const toUtf8 = (bytes: Uint8Array | string): string =>
  typeof bytes === 'string' ? bytes : Buffer.from(bytes).toString()
const codec = new EventStreamCodec(toUtf8, (text) => new TextEncoder().encode(text))

/** The messages of a stream, by the codec of AWS, which checks both checksums. */
const messagesIn = (bytes: Buffer): Message[] => {
  const found: Message[] = []
  for (let at = 0; at < bytes.length; ) {
    const length = bytes.readUInt32BE(at)
    const { headers, body } = codec.decode(bytes.subarray(at, at + length))
    found.push({
      headers: Object.fromEntries(Object.entries(headers).map(([name, { value }]) => [name, value])),
      payload: JSON.parse(toUtf8(body)),
    })
    at += length
  }
  return found
}
const eventIn = ({ payload }: Message) => JSON.parse(Buffer.from(String(payload.bytes), 'base64').toString())

describe('cloud paths', () => {
  let upstream: Upstream
  let gateway: Started
  const env = () => ({
    AUTH_KEYS: KEY,
    ANTHROPIC_API_KEY: 'sk-ant-0123456789',
    ANTHROPIC_BASE_URL: upstream.url,
    ANTHROPIC_MODELS: DATED,
    KEEP_ALIVE_INTERVAL: '300',
    CIRCUIT_MIN_REQUESTS: '100',
  })
  before(async () => {
    upstream = await startUpstream(usual)
    gateway = await start({ env: env() })
  })
  after(async () => {
    await gateway?.stop()
    await upstream?.close()
  })
  const post = (path: string, body: object, headers: Readonly<Record<string, string>> = {}) =>
    fetch(gateway.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${KEY}`, ...headers },
      body: JSON.stringify(body),
    })
  const invoke = (verb: string, body: object = BODY, headers: Readonly<Record<string, string>> = {}) =>
    post(`/model/${encodeURIComponent(PROFILE)}/${verb}`, body, headers)
  const last = () => {
    const request = upstream.requests.at(-1)
    assert.ok(request)
    return request
  }

  for (const below of ['', '/bedrock'])
    test(`bedrock: a whole answer, at ${below || '/'}`, async () => {
      const response = await post(`${below}/model/${encodeURIComponent(PROFILE)}/invoke`, BODY, {
        'anthropic-beta': 'context-1m-2025-08-07',
      })
      const answer = JSON.parse(await response.text())
      assert.equal(response.status, 200)
      assert.deepEqual(answer.content, [{ type: 'text', text: 'Hello 🦜.' }])
      const { path, json, headers } = last()
      assert.equal(path, '/v1/messages')
      assert.deepEqual(json, { model: DATED, max_tokens: 9, messages: BODY.messages })
      assert.equal(headers['anthropic-beta'], 'context-1m-2025-08-07,interleaved-thinking-2025-05-14')
    })

  test("bedrock: a version of Anthropic's API is in the header", async () => {
    await invoke('invoke', { ...BODY, anthropic_version: '2026-10-21' })
    const { headers, json } = last()
    assert.deepEqual([headers['anthropic-version'], json.anthropic_version], ['2026-10-21', undefined])
  })

  test('bedrock: a stream is in chunks with valid checksums', async () => {
    const response = await invoke('invoke-with-response-stream')
    assert.equal(response.headers.get('content-type'), 'application/vnd.amazon.eventstream')
    assert.equal(response.headers.get('x-amzn-bedrock-content-type'), 'application/json')
    const messages = messagesIn(Buffer.from(await response.arrayBuffer()))
    assert.equal(last().json.stream, true)
    for (const { headers } of messages)
      assert.deepEqual(headers, {
        ':event-type': 'chunk',
        ':content-type': 'application/json',
        ':message-type': 'event',
      })
    const events = messages.map(eventIn)
    assert.deepEqual([events[0].type, events.at(-1).type], ['message_start', 'message_stop'])
    assert.equal(events.map(({ delta }) => delta?.text ?? '').join(''), 'Hello 🦜.')
  })

  test('bedrock: while the model is silent, chunks with pings', async () => {
    upstream.play((request) => answerWith(request, { text: 'late' }, { first: 1_500 }))
    try {
      const response = await invoke('invoke-with-response-stream')
      const events = messagesIn(Buffer.from(await response.arrayBuffer())).map(eventIn)
      assert.ok(events.filter(({ type }) => type === 'ping').length >= 2, JSON.stringify(events))
      assert.equal(events.at(-1).type, 'message_stop')
    } finally {
      upstream.play(usual)
    }
  })

  test('bedrock: a broken stream ends with an exception', async () => {
    upstream.play((request) => {
      const act = answerWith(request, { text: 'Hello there, my friend.' })
      return act.do === 'stream' ? { ...act, pieces: [...act.pieces].slice(0, 5), ending: 'reset' } : act
    })
    try {
      const response = await invoke('invoke-with-response-stream')
      const messages = messagesIn(Buffer.from(await response.arrayBuffer()))
      assert.deepEqual(messages.at(-1)?.headers, {
        ':exception-type': 'modelStreamErrorException',
        ':content-type': 'application/json',
        ':message-type': 'exception',
      })
      assert.match(String(messages.at(-1)?.payload.message), /broke off|ended|reset|interrupted/i)
      assert.ok(!messages.slice(0, -1).some((message) => eventIn(message).type === 'message_stop'))
    } finally {
      upstream.play(usual)
    }
  })

  const errors: readonly (readonly [
    what: string,
    send: () => Promise<Response>,
    status: number,
    type: string,
    words: RegExp,
  ])[] = [
    ['a missing key', () => invoke('invoke', BODY, { authorization: '' }), 401, 'UnrecognizedClientException', /key/],
    [
      'a signature of AWS',
      () =>
        invoke('invoke', BODY, {
          authorization: 'AWS4-HMAC-SHA256 Credential=AKIA/20261128/us-east-1/bedrock/aws4_request',
        }),
      401,
      'UnrecognizedClientException',
      /AWS_BEARER_TOKEN_BEDROCK/,
    ],
    ['a body that is no object', () => invoke('invoke', []), 400, 'ValidationException', /not an object/],
    ['no messages', () => invoke('invoke', { max_tokens: 1 }), 400, 'ValidationException', /messages/],
    [
      'a count of Converse',
      () => invoke('count-tokens', { input: { converse: { messages: [] } } }),
      400,
      'ValidationException',
      /invokeModel/,
    ],
    ['Converse', () => invoke('converse', { messages: [] }), 404, 'ResourceNotFoundException', /\/model\/NAME\/invoke/],
  ]
  for (const [what, send, status, type, words] of errors)
    test(`bedrock: ${what} is an error of AWS`, async () => {
      const response = await send()
      const text = await response.text()
      assert.equal(response.status, status, text)
      assert.equal(response.headers.get('x-amzn-errortype'), type)
      const body = JSON.parse(text)
      assert.deepEqual(Object.keys(body), ['message'])
      assert.match(body.message, words)
    })

  test('bedrock: an error of the provider is one of AWS', async () => {
    upstream.play((request) =>
      failWith(request, 400, { type: 'invalid_request_error', message: 'prompt is too long: 3 tokens > 2 maximum' }),
    )
    try {
      for (const verb of ['invoke', 'invoke-with-response-stream']) {
        const response = await invoke(verb)
        assert.equal(response.status, 400)
        assert.equal(response.headers.get('content-type'), 'application/json')
        assert.match(JSON.parse(await response.text()).message, /prompt is too long: 3 tokens > 2 maximum/)
      }
    } finally {
      upstream.play(usual)
    }
  })

  test('bedrock: tokens are counted', async () => {
    const body = Buffer.from(JSON.stringify(BODY)).toString('base64')
    const response = await invoke('count-tokens', { input: { invokeModel: { body } } })
    assert.deepEqual([response.status, JSON.parse(await response.text())], [200, { inputTokens: 4_321 }])
    assert.deepEqual([last().json.model, last().json.messages], [DATED, BODY.messages])
  })

  test('bedrock: inference profiles are the models of the key', async () => {
    const response = await fetch(`${gateway.url}/inference-profiles?type=SYSTEM_DEFINED`, {
      headers: { authorization: `Bearer ${KEY}` },
    })
    const { inferenceProfileSummaries: profiles } = JSON.parse(await response.text())
    assert.ok(
      profiles.some(({ inferenceProfileId: id }: JsonObject) => id === DATED),
      JSON.stringify(profiles),
    )
  })

  for (const below of ['', '/vertex'])
    test(`vertex: a stream and a count, at ${below || '/'}`, async () => {
      const models = `${below}/v1/projects/p-1/locations/global/publishers/anthropic/models`
      const body = { ...BODY, anthropic_version: 'vertex-2023-10-16', stream: true }
      const response = await post(`${models}/claude-sonnet-4-5@20250929:streamRawPredict`, body)
      const wire = await response.text()
      assert.equal(response.status, 200, wire)
      assert.match(response.headers.get('content-type') ?? '', /^text\/event-stream/)
      assert.match(wire, /event: message_stop\n/)
      assert.deepEqual(last().json, { model: DATED, stream: true, max_tokens: 9, messages: BODY.messages })
      const { messages } = BODY
      const counted = await post(`${models}/count-tokens:rawPredict`, { model: 'claude-sonnet-4-5@20250929', messages })
      assert.deepEqual(JSON.parse(await counted.text()), { input_tokens: 4_321 })
      assert.equal(last().json.model, DATED)
      const refused = await post(`${models}/claude-sonnet-4-5@20250929:rawPredict`, { max_tokens: 1 })
      assert.deepEqual([refused.status, JSON.parse(await refused.text()).type], [400, 'error'])
    })

  test('equal bodies for two models are two requests', async () => {
    const key = { 'idempotency-key': 'same-key-0123456789' }
    const first = await post('/model/claude-sonnet-4-5-20250929/invoke', BODY, key)
    const second = await post('/model/anthropic%2Fclaude-other/invoke', BODY, key)
    assert.deepEqual([first.status, second.status], [200, 422], await second.text())
  })

  test('the paths can be switched off', async () => {
    const own = await start({ env: env(), files: { 'headgate.yaml': 'claude: { cloudPaths: false }\n' } })
    try {
      const response = await fetch(`${own.url}/model/m/invoke`, { method: 'POST', body: '{}' })
      assert.equal(response.status, 404)
      assert.equal(response.headers.get('x-amzn-errortype'), null)
    } finally {
      await own.stop()
    }
  })
})
