/** Clients of Google's format over upstreams of three others and of their own: paths, keys, forms of streams, errors, lists. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type JsonObject, list, object } from '../../src/core/json.ts'
import { piecesOf } from '../support/answers.ts'
import { CALLS, type Kinds, PROVIDER_ENV, script, startKinds, TEXT } from './support/three-kinds.ts'

const UPSTREAMS = {
  ...PROVIDER_ENV,
  gemini: (url: string) => ({
    GEMINI_API_KEY: 'AIza-test-0123456789',
    GEMINI_BASE_URL: `${url}/v1beta`,
    GEMINI_MODELS: 'text',
  }),
}
type Kind = keyof typeof UPSTREAMS
const NAMES: { readonly [kind in Kind]: string } = {
  chat: 'chatty',
  responses: 'responder',
  messages: 'anthropic',
  gemini: 'gemini',
}

/** No other text contains it. */
const CANARY = 'hg-canary-7h3k9q2m5x8w'

let kinds: Kinds<Kind>
before(async () => {
  kinds = await startKinds(UPSTREAMS, script, { AUTH_KEYS: CANARY, LOG_LEVEL: 'debug' })
})
after(() => kinds.stop())

const CONTENTS = { contents: [{ role: 'user', parts: [{ text: 'Hello?' }] }] }

const call = (path: string, body: object | null, headers: Readonly<Record<string, string>> = {}) =>
  fetch(kinds.gateway.url + path, {
    method: body === null ? 'GET' : 'POST',
    headers: { 'x-goog-api-key': CANARY, 'content-type': 'application/json', ...headers },
    ...(body !== null && { body: JSON.stringify(body) }),
  })

const jsonOf = async (response: Response): Promise<JsonObject> => {
  assert.match(response.headers.get('content-type') ?? '', /^application\/json/)
  // The gateway answers with an object.
  return (await response.json()) as JsonObject
}

const textIn = (response: unknown): string =>
  partsIn(response)
    .map((part) => object(part)?.text ?? '')
    .join('')
const partsIn = (response: unknown) => list(object(object(list(object(response)?.candidates)[0])?.content)?.parts)

for (const kind of Object.keys(UPSTREAMS) as Kind[])
  describe(`gemini: clients over a ${kind} upstream`, () => {
    const model = (name: string) => encodeURIComponent(`${NAMES[kind]}/${name}`)

    test('a whole answer', async () => {
      const response = await call(`/v1beta/models/${model('text')}:generateContent`, CONTENTS)
      const body = await jsonOf(response)
      assert.equal(response.status, 200, JSON.stringify(body))
      assert.equal(textIn(body), TEXT)
      assert.equal(object(list(body.candidates)[0])?.finishReason, 'STOP')
      const { promptTokenCount, totalTokenCount } = object(body.usageMetadata) ?? {}
      assert.deepEqual([promptTokenCount, totalTokenCount], [21, 28])
      assert.ok(kinds.last(kind).body.includes('Hello?'))
    })

    test('a stream of events', async () => {
      const response = await call(`/v1beta/models/${model('text')}:streamGenerateContent?alt=sse`, CONTENTS)
      assert.match(response.headers.get('content-type') ?? '', /^text\/event-stream/)
      const wire = await response.text()
      const chunks = wire.split(/\r?\n\r?\n/).filter(Boolean)
      for (const chunk of chunks) assert.match(chunk, /^data: \{/)
      const events = chunks.map((chunk) => JSON.parse(chunk.slice(6)))
      assert.equal(events.map(textIn).join(''), TEXT)
      // The bytes of the same format pass as they are.
      if (kind !== 'gemini') for (const event of events) assert.ok(partsIn(event).length > 0)
      assert.equal(events.at(-1).candidates[0].finishReason, 'STOP')
      assert.equal(events.at(-1).usageMetadata.totalTokenCount, 28)
    })

    test('a stream as one list', async () => {
      const response = await call(`/v1/models/${model('text')}:streamGenerateContent`, CONTENTS)
      const events: unknown = await response.json()
      assert.match(response.headers.get('content-type') ?? '', /^application\/json/)
      assert.equal(list(events).map(textIn).join(''), TEXT)
    })

    test('calls and their results', async () => {
      const tools = [
        { functionDeclarations: [{ name: 'get_weather', parameters: { type: 'OBJECT', properties: {} } }] },
      ]
      const response = await call(`/v1beta/models/${model('tools')}:generateContent`, { ...CONTENTS, tools })
      const parts = partsIn(await jsonOf(response))
      const calls = parts.map((part) => object(object(part)?.functionCall) ?? {})
      assert.deepEqual(
        calls.map(({ name, args }) => [name, args]),
        CALLS.map(({ name, arguments: text }) => [name, JSON.parse(text)]),
      )
      const answered = calls.map(({ id, name }) => ({ functionResponse: { id, name, response: { output: 'sunny' } } }))
      const next = await call(`/v1beta/models/${model('text')}:generateContent`, {
        contents: [...CONTENTS.contents, { role: 'model', parts }, { role: 'user', parts: answered }],
        tools,
      })
      assert.equal(next.status, 200, await next.text())
      assert.ok(kinds.last(kind).body.includes('sunny'))
    })

    test('a stream that breaks ends with its error, in an event and by itself', async () => {
      const path = `/v1beta/models/${model('breaks')}:streamGenerateContent`
      const wire = await (await call(`${path}?alt=sse`, CONTENTS)).text()
      const last = wire.split('\n\n').at(-1) ?? ''
      assert.equal(object(JSON.parse(last).error)?.code, 502)
      assert.ok(wire.endsWith(`data: ${last}\n\n${last}`))
      const events: unknown = await (await call(path, CONTENTS)).json()
      assert.equal(object(object(list(events).at(-1))?.error)?.status, 'UNAVAILABLE')
    })

    test('errors have the form of google.rpc', async () => {
      const limited = await call(`/v1beta/models/${model('limited')}:generateContent`, CONTENTS)
      const error = object((await jsonOf(limited)).error) ?? {}
      assert.deepEqual([limited.status, error.code, error.status], [429, 429, 'RESOURCE_EXHAUSTED'])
      assert.ok(list(error.details).some((detail) => object(detail)?.retryDelay === '7s'))
      const bad = await call(`/v1beta/models/${model('bad')}:generateContent`, CONTENTS)
      const refused = object((await jsonOf(bad)).error) ?? {}
      assert.deepEqual([bad.status, refused.status], [400, 'INVALID_ARGUMENT'])
      assert.match(String(refused.message), /temperature is too high/)
    })
  })

describe('gemini: the same format', () => {
  test('the bytes of request and answer pass', async () => {
    const body =
      '{ "contents":[{"role":"user","parts":[{"text":"Hello?","unknown_member":1.50}]}],\n"safetySettings" : [] }'
    const response = await fetch(`${kinds.gateway.url}/v1beta/models/gemini%2Ftext:streamGenerateContent?alt=sse`, {
      method: 'POST',
      headers: { authorization: `Bearer ${CANARY}`, 'content-type': 'application/json' },
      body,
    })
    const wire = await response.text()
    const request = kinds.last('gemini')
    assert.equal(request.body, body)
    assert.equal(request.path, '/v1beta/models/text:streamGenerateContent?alt=sse')
    assert.equal(wire, piecesOf(request, { text: TEXT, input: 21, output: 7 }).join(''))
  })

  test('a signature of another format is not sent to Google', async () => {
    const packed = Buffer.from('headgate.proof.1.{"origin":"anthropic-messages","value":"x"}').toString('base64')
    await call('/v1beta/models/gemini%2Ftext:generateContent', {
      contents: [
        ...CONTENTS.contents,
        { role: 'model', parts: [{ text: 'Yes.', thoughtSignature: packed }] },
        ...CONTENTS.contents,
      ],
    })
    const { body } = kinds.last('gemini')
    assert.ok(body.includes('"Yes."') && !body.includes(packed), body)
  })
})

describe('gemini: paths, keys and lists', () => {
  const CALLED = 'chatty%2Ftext:generateContent'
  for (const prefix of ['/v1', '/v1beta', '/v1alpha', '/v1beta1', ''])
    test(`a call below ${prefix || '/'}`, async () => {
      assert.equal((await call(`${prefix}/models/${CALLED}`, CONTENTS)).status, 200)
      assert.equal((await call(`${prefix}/models/chatty/text:generateContent`, CONTENTS)).status, 200)
    })
  test('a model with a slash, as the AI SDK writes it', async () => {
    assert.equal((await call('/v1beta/chatty/text:generateContent', CONTENTS)).status, 200)
    assert.equal((await call('/v1beta/corpora/text:query', CONTENTS)).status, 404)
  })
  for (const owner of ['/publishers/chatty', '/projects/p-1/locations/us-central1/publishers/chatty'])
    test(`Vertex: ${owner}`, async () => {
      assert.equal((await call(`/v1beta1${owner}/models/text:generateContent`, CONTENTS)).status, 200)
    })

  const KEYS: readonly (readonly [string, string, Readonly<Record<string, string>>])[] = [
    ['x-goog-api-key', '', { 'x-goog-api-key': CANARY }],
    ['a bearer token', '', { authorization: `Bearer ${CANARY}` }],
    ['x-api-key', '', { 'x-api-key': CANARY }],
    ['the query', `?key=${CANARY}`, {}],
    ['the query, beside an empty header', `?alt=json&key=${CANARY}`, { 'x-goog-api-key': '' }],
    ['an access token in the query', `?access_token=${CANARY}`, {}],
  ]
  for (const [name, query, headers] of KEYS)
    test(`the key in ${name}`, async () => {
      const response = await fetch(`${kinds.gateway.url}/v1beta/models/${CALLED}${query}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify(CONTENTS),
      })
      assert.equal(response.status, 200, await response.text())
    })

  test('a wrong key in the query is refused, and no key is in the log', async () => {
    const wrong = 'AIza-canary-000000000000000000000000'
    for (const path of [`/v1beta/models/${CALLED}`, '/v1beta/models', '/v1/models', '/v1beta/nothing']) {
      const response = await fetch(`${kinds.gateway.url}${path}?key=${wrong}`)
      const body = await response.text()
      assert.ok(response.status >= 400, path)
      assert.ok(!body.includes(wrong))
      if (path !== '/v1/models') assert.equal(typeof JSON.parse(body).error.code, 'number')
    }
    await kinds.gateway.logged()
    assert.ok(!kinds.gateway.output().includes(wrong))
    assert.ok(!kinds.gateway.output().includes(CANARY))
    for (const kind of Object.keys(UPSTREAMS) as Kind[])
      for (const { path, headers } of kinds.upstreams[kind].requests)
        assert.ok(!JSON.stringify([path, headers]).includes(CANARY))
  })

  test('a list of models in Google’s shape', async () => {
    for (const path of ['/v1beta/models', '/v1/models', '/v1beta1/publishers/google/models']) {
      const { models } = await jsonOf(await call(path, null))
      const names = list(models).map((model) => object(model)?.name)
      assert.ok(names.includes('models/chatty/text'), `${path}: ${names}`)
    }
    const page = await jsonOf(await call('/v1beta/models?pageSize=1', null))
    assert.deepEqual([list(page.models).length, page.nextPageToken], [1, '1'])
    const one = await jsonOf(await call('/v1beta/models/chatty%2Ftext', null))
    assert.equal(one.name, 'models/chatty/text')
    const none = await call('/v1beta/models/nothing', null)
    assert.deepEqual([none.status, object((await jsonOf(none)).error)?.status], [404, 'NOT_FOUND'])
    const openai = await call('/v1/models', null, { 'x-goog-api-key': '', authorization: `Bearer ${CANARY}` })
    assert.ok(openai.ok)
  })

  test('tokens are counted, or estimated', async () => {
    const response = await call('/v1beta/models/chatty%2Ftext:countTokens', CONTENTS)
    assert.equal(response.headers.get('x-headgate-estimated'), 'true')
    assert.ok(Number((await jsonOf(response)).totalTokens) > 0)
    const whole = await call('/v1beta/models/chatty%2Ftext:countTokens', {
      generateContentRequest: {
        model: 'models/chatty/text',
        ...CONTENTS,
        systemInstruction: { parts: [{ text: 'x' }] },
      },
    })
    assert.equal(whole.status, 200, await whole.text())
  })

  const REFUSED: readonly (readonly [string, string, object, RegExp])[] = [
    ['a mask of fields', `${CALLED}?fields=candidates`, CONTENTS, /fields/],
    ['another form', `${CALLED}?alt=proto`, CONTENTS, /alt/],
    ['both spellings', CALLED, { ...CONTENTS, generationConfig: {}, generation_config: {} }, /both spellings/],
    [
      'a result without a call',
      CALLED,
      { contents: [{ parts: [{ functionResponse: { name: 'x' } }] }] },
      /call before it/,
    ],
    ['data without a type', CALLED, { contents: [{ parts: [{ inlineData: { data: 'AA==' } }] }] }, /mimeType/],
    ['no contents', CALLED, {}, /contents/],
  ]
  for (const [name, path, body, message] of REFUSED)
    test(`refused: ${name}`, async () => {
      const response = await call(`/v1beta/models/${path}`, body)
      const error = object((await jsonOf(response)).error) ?? {}
      assert.deepEqual([response.status, error.status], [400, 'INVALID_ARGUMENT'])
      assert.match(String(error.message), message)
    })

  test('what is not served says so in Google’s form', async () => {
    for (const path of ['/v1beta/interactions', '/v1/interactions', '/v1/files', '/v1/batches/1', '/upload/v1/files']) {
      const response = await call(path, {})
      const error = object((await jsonOf(response)).error) ?? {}
      assert.deepEqual([response.status, error.status], [404, 'NOT_FOUND'], path)
      assert.match(String(error.message), /passThrough/)
    }
    // OpenAI has files at this path.
    const other = await fetch(`${kinds.gateway.url}/v1/files`)
    assert.equal(object((await jsonOf(other)).error)?.code, 'unknown_url')
  })
})
