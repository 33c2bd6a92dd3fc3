/** Endpoints that are relayed, with the official SDK. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, test } from 'node:test'
import OpenAI, { toFile } from 'openai'
import { type Act, startUpstream, type Upstream, type UpstreamRequest } from '../support/upstream.ts'
import { type Started, start } from './support/process.ts'
import { skipPython, testPython } from './support/python.ts'

const results = [{ flagged: true, categories: { violence: true }, category_scores: { violence: 0.9 } }]

const script = ({ method, path, key, json }: UpstreamRequest): Act => {
  if (method === 'GET') return { do: 'answer', status: 404, body: {} }
  if (key === 'sk-limited-0123456789')
    return { do: 'answer', status: 429, headers: { 'retry-after': '30' }, body: { error: { message: 'slow down' } } }
  if (path === '/v1/moderations') return { do: 'answer', body: { id: 'modr-1', model: json.model ?? null, results } }
  return { do: 'answer', status: 404, body: { error: { message: `no ${path}` } } }
}

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')
/** Every byte, many times: not a text in any encoding. */
const FILE = Buffer.alloc(5_000_000, Buffer.from(Array.from({ length: 251 }, (_, byte) => 255 - byte)))
const SPEECH = FILE.subarray(0, 300_000)

const PICTURE = FILE.subarray(0, 3_000).toString('base64')

/** An upstream for files, which reads forms by its own parser. */
const audio = { requests: 0, server: undefined as Server | undefined }
const startAudio = async (): Promise<string> => {
  const server = createServer(async (request, response) => {
    if (request.method === 'GET') {
      response.writeHead(404).end()
      return
    }
    audio.requests++
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const type = request.headers['content-type'] ?? ''
    const body = new Response(Buffer.concat(chunks), { headers: { 'content-type': type } })
    if (request.url === '/v1/audio/speech') {
      response.writeHead(200, { 'content-type': 'audio/wav' })
      response.write(SPEECH.subarray(0, 1_000))
      setImmediate(() => response.end(SPEECH.subarray(1_000)))
      return
    }
    if (request.url === '/v1/rerank') {
      const { query, documents } = (await body.json()) as { query: string; documents: string[] }
      const results = documents.map((text, index) => ({ index, relevance_score: text === query ? 1 : 0 }))
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ id: 'r', results, meta: { billed_units: { search_units: 1 } } }))
      return
    }
    if (request.url === '/v1/images/generations') {
      const { stream, n = 1 } = (await body.json()) as { stream?: boolean; n?: number }
      response.writeHead(200, { 'content-type': stream ? 'text/event-stream' : 'application/json' })
      if (!stream)
        response.end(JSON.stringify({ created: 1, data: Array.from({ length: n }, () => ({ b64_json: PICTURE })) }))
      for (const type of ['partial_image', 'completed'])
        if (stream)
          response.write(`data: ${JSON.stringify({ type: `image_generation.${type}`, b64_json: PICTURE })}\n\n`)
      response.end()
      return
    }
    const form = await body.formData()
    if (request.url?.startsWith('/v1/images/')) {
      const images = [...form.getAll('image'), ...form.getAll('image[]')]
      const sums = await Promise.all(
        images.map(async (one) => sha256(new Uint8Array(await (one as File).arrayBuffer()))),
      )
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(
        JSON.stringify({ created: 1, data: sums.map((b64_json) => ({ b64_json })), model: form.get('model') }),
      )
      return
    }
    const file = form.get('file')
    assert.ok(file instanceof File)
    const text = `${form.get('model')} ${sha256(new Uint8Array(await file.arrayBuffer()))}`
    const asText = form.get('response_format') === 'text'
    response.writeHead(200, { 'content-type': asText ? 'text/plain' : 'application/json' })
    response.end(asText ? text : JSON.stringify({ text, usage: { type: 'duration', seconds: 3 } }))
  })
  audio.server = server
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
}

let upstream: Upstream
let gateway: Started
let client: OpenAI
before(async () => {
  upstream = await startUpstream(script)
  gateway = await start({
    env: {
      PROVIDERS: 'openai,anthropic,voice',
      VOICE_API_KEY: 'sk-voice-0123456789',
      VOICE_BASE_URL: await startAudio(),
      VOICE_MODELS: 'hear,speak,draw,rank',
      OPENAI_API_KEY: 'sk-limited-0123456789,sk-openai-0123456789',
      OPENAI_BASE_URL: `${upstream.url}/v1`,
      ANTHROPIC_API_KEY: 'sk-ant-0123456789',
      ANTHROPIC_BASE_URL: upstream.url,
      KEY_STRATEGY: 'round-robin',
    },
  })
  client = new OpenAI({ baseURL: gateway.base, apiKey: 'any', maxRetries: 0 })
})
after(async () => {
  await gateway?.stop()
  await upstream?.close()
  audio.server?.close()
})

test('relay: moderations of the SDK, without a model, and by the other key after a limit', async () => {
  const trails: string[] = []
  for (const input of ['I will hurt you', 'hello']) {
    const { data, response } = await client.moderations.create({ input }).withResponse()
    assert.equal(data.model, 'omni-moderation-latest')
    assert.equal(data.results[0]?.flagged, true)
    assert.equal(response.headers.get('x-headgate-provider'), 'openai')
    trails.push(response.headers.get('x-headgate-trail') ?? '')
  }
  assert.match(trails.join(' '), /:429, openai#[0-9a-f]+:200/)
})

test('relay: the SDK uploads a file, and the upstream receives its bytes and its own model', async () => {
  const file = await toFile(FILE, 'speech.wav', { type: 'audio/wav' })
  const { data, response } = await client.audio.transcriptions.create({ file, model: 'voice/hear' }).withResponse()
  assert.equal(data.text, `hear ${sha256(FILE)}`)
  assert.equal(response.headers.get('x-headgate-model'), 'hear')
  // Its price is unknown, which is not free.
  assert.equal(response.headers.get('x-headgate-cost'), null)
  const text = await client.audio.transcriptions.create({ file, model: 'voice/hear', response_format: 'text' })
  assert.equal(String(text), `hear ${sha256(FILE)}`)
})

test('relay: speech is streamed to the SDK', async () => {
  const response = await client.audio.speech.create({ model: 'speak', input: 'hello', voice: 'alloy' })
  assert.equal(response.headers.get('content-type'), 'audio/wav')
  assert.equal(sha256(new Uint8Array(await response.arrayBuffer())), sha256(SPEECH))
})

test('relay: an idempotency key repeats files, although each retry of a form has another boundary', async () => {
  const before = audio.requests
  const upload = async () => {
    const form = new FormData()
    form.set('model', 'hear')
    form.set('file', new File([FILE.subarray(0, 10_000)], 'a.wav'))
    const sent = { method: 'POST', body: form, headers: { 'idempotency-key': 'form-1' } }
    return fetch(`${gateway.base}/audio/transcriptions`, sent)
  }
  const [one, two] = [await upload(), await upload()]
  assert.equal(await one.text(), await two.text())
  assert.equal(two.headers.get('x-headgate-idempotent'), 'stored')
  const speak = () =>
    fetch(`${gateway.base}/audio/speech`, {
      method: 'POST',
      body: JSON.stringify({ model: 'speak', input: 'hello', voice: 'alloy' }),
      headers: { 'content-type': 'application/json', 'idempotency-key': 'speech-1' },
    })
  for (const response of [await speak(), await speak()])
    assert.equal(sha256(new Uint8Array(await response.arrayBuffer())), sha256(SPEECH))
  assert.equal(audio.requests, before + 2)
})

test('relay: a body of another type is refused with the option of curl', async () => {
  const post = (type: string) =>
    fetch(`${gateway.base}/audio/transcriptions`, { method: 'POST', body: '{}', headers: { 'content-type': type } })
  for (const type of ['application/json', 'multipart/mixed; boundary=a']) {
    const response = await post(type)
    assert.equal(response.status, 415)
    assert.match(await response.text(), /-F file=@/)
  }
})

test('relay: images of the SDK, whole, as events, and from several files', async () => {
  const whole = await client.images.generate({ model: 'draw', prompt: 'a cat', n: 2 })
  assert.deepEqual(
    whole.data?.map((one) => one.b64_json),
    [PICTURE, PICTURE],
  )
  const types: string[] = []
  for await (const event of await client.images.generate({ model: 'draw', prompt: 'a cat', stream: true })) {
    assert.equal(event.b64_json, PICTURE)
    types.push(event.type)
  }
  assert.deepEqual(types, ['image_generation.partial_image', 'image_generation.completed'])
  const [one, two] = [FILE.subarray(0, 70_000), FILE.subarray(7)]
  const image = await Promise.all([toFile(one, 'a.png'), toFile(two, 'b.png')])
  const edited = await client.images.edit({ model: 'draw', prompt: 'a hat', image })
  assert.deepEqual(
    edited.data?.map((made) => made.b64_json),
    [sha256(one), sha256(two)],
  )
  const varied = await client.images.createVariation({ model: 'draw', image: await toFile(one, 'a.png') })
  assert.deepEqual(
    varied.data?.map((made) => made.b64_json),
    [sha256(one)],
  )
})

test('relay: rerank at the paths of its clients', async () => {
  const { url } = gateway
  for (const path of ['/v1/rerank', '/v2/rerank', '/rerank']) {
    const response = await fetch(`${url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: 'Bearer any' },
      body: JSON.stringify({ model: 'rank', query: 'a', documents: ['b', 'a'], top_n: 2 }),
    })
    const body = (await response.json()) as { results: { index: number; relevance_score: number }[] }
    assert.deepEqual(
      body.results.map((result) => result.relevance_score),
      [0, 1],
      path,
    )
  }
})

test('relay: the SDK for Python', { skip: skipPython() }, (t) =>
  testPython(t, {
    script: 'relay.py',
    given: {
      base: gateway.base,
      file: FILE.subarray(0, 60_000).toString('base64'),
      picture: PICTURE,
      speech: sha256(SPEECH),
    },
    cases: 6,
  }),
)

test('image edits: JSON too, and each kind of body at a provider that reads it', async () => {
  const painter = await startUpstream(({ method }) =>
    method === 'GET'
      ? { do: 'answer', status: 404, body: {} }
      : { do: 'answer', body: { created: 1, data: [{ b64_json: PICTURE }] } },
  )
  const [xai, openai] = ['xai/grok-imagine-image', 'openai/gpt-image-1-mini']
  const file = `routes: { edit: { targets: [${xai}, ${openai}] } }`
  const painting = await start({
    env: {
      PROVIDERS: 'xai,openai',
      XAI_API_KEY: 'xai-0123456789',
      XAI_BASE_URL: `${painter.url}/v1`,
      OPENAI_API_KEY: 'sk-openai-0123456789',
      OPENAI_BASE_URL: `${painter.url}/v1`,
    },
    files: { 'headgate.yaml': file },
  })
  try {
    const image = { url: `data:image/png;base64,${PICTURE}`, type: 'image_url' }
    const asJson = (model: string, type = 'application/json') =>
      fetch(`${painting.base}/images/edits`, {
        method: 'POST',
        headers: { 'content-type': type },
        body: JSON.stringify({ model, prompt: 'a hat', image }),
      })
    const asForm = (model: string) => {
      const form = new FormData()
      form.set('image', new File(['picture'], 'a.png'))
      form.set('prompt', 'a hat')
      form.set('model', model)
      return fetch(`${painting.base}/images/edits`, { method: 'POST', body: form })
    }
    for (const model of [xai, openai, 'edit']) {
      const answer = await asJson(model)
      assert.equal(answer.status, 200, await answer.text())
      const sent = painter.requests.at(-1)
      assert.equal(sent?.path, '/v1/images/edits')
      const own = model === openai ? 'gpt-image-1-mini' : 'grok-imagine-image'
      assert.deepEqual(sent?.json, { model: own, prompt: 'a hat', image })
    }
    const { length } = painter.requests
    const refused = await asForm(xai)
    assert.equal(refused.status, 400)
    assert.match(await refused.text(), /content-type/)
    assert.equal(painter.requests.length, length)
    for (const model of [openai, 'edit'])
      assert.equal((await asForm(model)).headers.get('x-headgate-provider'), 'openai')
    assert.equal((await asJson(openai, 'text/plain')).status, 415)
    const broken = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"model":' }
    assert.equal((await fetch(`${painting.base}/images/edits`, broken)).status, 400)
    assert.equal((await fetch(`${painting.base}/images/variations`, { ...broken, body: '{}' })).status, 415)
  } finally {
    await painting.stop()
    await painter.close()
  }
})
