/** Vertex compared with recordings: paths, bodies and error kinds. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readWire, recordingsOf, skipWithoutRecordings } from '../../test/support/recordings.ts'
import { defaultSettings } from '../../test/support/settings.ts'
import { isObject, type Json, type JsonObject, text } from '../core/json.ts'
import type { ClientProtocol } from '../core/protocol.ts'
import type { Instance } from '../core/provider.ts'
import { readerFor } from '../gateway/upstream/body-reader.ts'
import type { OutboundRequest } from '../gateway/upstream/outbound-request.ts'
import { prepareRequest } from '../gateway/upstream/outbound-request.ts'
import { parseRequest } from '../gateway/upstream/parse-request.ts'
import { anthropicMessages } from '../protocols/anthropic-messages/index.ts'
import { upstreamProtocols } from '../protocols/index.ts'
import { openaiChat } from '../protocols/openai-chat/index.ts'
import vertex from './vertex.ts'

const instance = (baseUrl: string): Instance => ({
  id: 'vertex',
  provider: vertex,
  baseUrl,
  keys: [{ id: '0000', secret: null, weight: 1 }],
  models: [],
  speaks: vertex.speaks,
  variables: {},
})

/** The request sent to Vertex for this body. */
const sent = (
  body: JsonObject,
  {
    client = openaiChat,
    baseUrl = 'https://vertex.example/v1',
    query = '',
  }: { client?: ClientProtocol; baseUrl?: string; query?: string } = {},
): OutboundRequest => {
  const asked = parseRequest(
    client,
    { body: { text: JSON.stringify(body) }, headers: () => undefined },
    defaultSettings.limit,
  )
  if (!asked.ok) return assert.fail(asked.failure.message)
  const model = text(body.model) ?? ''
  const candidate = { instance: instance(baseUrl), model, because: '', weight: 1 }
  return prepareRequest({ ...asked.value, query }, candidate, undefined) ?? assert.fail('nothing prepared')
}

const pathOf = ({ url }: OutboundRequest): string => url.slice(new URL(url).origin.length)
const bodyOf = ({ body }: OutboundRequest): Json => JSON.parse(body.text)

/** Recorded paths by their parts, without the version and a number format that some clients request. */
const RECORDED =
  /^\/v1(?:beta1)?(?:\/projects\/[^/]+\/locations\/([^/]+))?(\/publishers\/[a-z]+\/models\/([^:]+):[A-Za-z]+(?:\?alt=sse)?)(?:\?%24alt=.*)?$/

const recorded = (api: 'gemini' | 'messages') =>
  recordingsOf(api)
    .filter(({ provider }) => provider === 'vertex')
    .map((recording) => {
      const path = text(readWire(`recordings/${recording.id}.json`)?.path) ?? ''
      const [, location, tail = '', model = ''] = RECORDED.exec(path) ?? assert.fail(`a path of another form: ${path}`)
      const place = location?.startsWith('<') ? 'global' : location
      return { ...recording, place, tail, model }
    })

test('vertex: calls have the recorded paths', { skip: skipWithoutRecordings }, () => {
  let seen = 0
  for (const { id, place, tail, model } of recorded('gemini')) {
    const baseUrl = place === undefined ? vertex.keyAddress : vertex.address({ PROJECT: 'p', LOCATION: place })
    assert.ok(baseUrl)
    const stream = tail.includes('stream')
    const prepared = sent({ model, stream, messages: [{ role: 'user', content: 'hello' }] }, { baseUrl })
    const project = place === undefined ? '' : `/projects/p/locations/${place}`
    assert.equal(pathOf(prepared), `/v1${project}${tail}`, id)
    assert.equal(prepared.protocol.name, 'gemini')
    seen++
  }
  assert.ok(seen > 70, `${seen} seen`)
})

test("vertex: Claude's recorded requests are reproduced", { skip: skipWithoutRecordings }, () => {
  let seen = 0
  for (const { id, tail, model, request } of recorded('messages')) {
    assert.ok(isObject(request))
    const { anthropic_version: _, ...rest } = request
    const prepared = sent({ model, ...rest }, { client: anthropicMessages, query: 'beta=true' })
    assert.equal(pathOf(prepared), `/v1${tail}`, id)
    assert.deepEqual(bodyOf(prepared), request, id)
    seen++
  }
  assert.equal(seen, 4)
})

const kinds: { readonly [id: string]: string } = {
  'vertex-gemini-chat-real-error-scenarios-vertexai-gemini-2-5-fl-a4fc5d9c': 'context_length',
  'vertex-gemini-test-generate-content-invalid-temperature-c2c0d7e4': 'incompatible',
  'vertex-gemini-test-generate-content-missing-model-15f35567': 'model_missing',
  'vertex-gemini-test-multimodal-tool-return-matrix-tool-return-c-0020aeb5': 'incompatible',
}

/** The failure kind of an answer. */
const kindOf = (status: number, body: Json, protocol: 'gemini' | 'anthropic-messages' = 'gemini'): string => {
  const reader = readerFor(
    { status, headers: (name) => (name === 'content-type' ? 'application/json' : undefined) },
    { protocol: upstreamProtocols[protocol], quirks: vertex.quirks, translated: null, stream: false, date: 0 },
  )
  const steps = [...reader.push(Buffer.from(JSON.stringify(body))), ...reader.end()]
  const failure = steps.flatMap(({ events }) => events).find((event) => event.type === 'failure')
  return failure?.type === 'failure' ? failure.failure.kind : 'none'
}

test('vertex: recorded errors have the expected kind', { skip: skipWithoutRecordings }, () => {
  const seen = recorded('gemini').flatMap(({ id, status, response }) =>
    (status ?? 200) >= 400 ? [[id, kindOf(status ?? 0, response)]] : [],
  )
  assert.deepEqual(Object.fromEntries(seen), kinds)
})

/** Errors in the format of google.rpc; a stream's errors are in an array. */
const rpc = (code: number, status: string, message: string): JsonObject => ({ error: { code, status, message } })
const errors = [
  ['an invalid token', 401, rpc(401, 'UNAUTHENTICATED', 'Request had invalid authentication.'), 'auth'],
  ['a project without the API', 403, rpc(403, 'PERMISSION_DENIED', 'Vertex AI API has not been used.'), 'permission'],
  ['no quota', 429, rpc(429, 'RESOURCE_EXHAUSTED', 'Resource exhausted. Please try again later.'), 'rate_limited'],
  ['in an array', 429, [rpc(429, 'RESOURCE_EXHAUSTED', 'Resource exhausted.')], 'rate_limited'],
  ['no capacity', 503, rpc(503, 'UNAVAILABLE', 'The service is currently unavailable.'), 'overloaded'],
] as const
for (const [what, status, body, kind] of errors)
  for (const protocol of ['gemini', 'anthropic-messages'] as const)
    test(`vertex: ${what} is ${kind}, by ${protocol}`, () => assert.equal(kindOf(status, body, protocol), kind))

const hello = [{ role: 'user', content: 'hello' }] as const
const paths = [
  ['gemini-2.5-flash', '/v1/publishers/google/models/gemini-2.5-flash:generateContent'],
  ['google/gemini-2.5-flash', '/v1/publishers/google/models/gemini-2.5-flash:generateContent'],
  ['claude-sonnet-4-5@20250929', '/v1/publishers/anthropic/models/claude-sonnet-4-5@20250929:rawPredict'],
  ['anthropic/claude-sonnet-4-5', '/v1/publishers/anthropic/models/claude-sonnet-4-5:rawPredict'],
  ['../x', '/v1/publishers/google/models/..%2Fx:generateContent'],
] as const
for (const [model, path] of paths)
  test(`vertex: the path of ${model} is ${path}`, () => assert.equal(pathOf(sent({ model, messages: hello })), path))

test("vertex: Anthropic's quirks apply to Claude models here too, by the model's name", () => {
  const prepared = sent({ model: 'claude-opus-4-8@20260416', temperature: 0.2, messages: hello })
  assert.deepEqual(prepared.dropped, ['temperature'])
  const body = bodyOf(prepared)
  assert.ok(isObject(body))
  assert.equal(body.anthropic_version, 'vertex-2023-10-16')
  assert.equal('model' in body, false)
  assert.ok(typeof body.max_tokens === 'number')
})
