/** The official SDKs with an upstream that uses Gemini's own format. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { isObject, type Json, type JsonObject, list, object } from '../../src/core/json.ts'
import { skipWithoutRecordings } from '../support/recordings.ts'
import { problemsOf } from '../support/schemas.ts'
import type { Act, UpstreamRequest } from '../support/upstream.ts'
import { post } from './support/process.ts'
import { CITIES, DONE, QUESTION, SYSTEM, startConversation, WAYS, weather } from './support/speakers.ts'

const KEY = 'AIza-test-0123456789'
const SIGNATURE = 'CiQBc2lnbmF0dXJlK29mL3RoZStmaXJzdC9jYWxs'
const MODEL = 'gemini/gemini-3-flash-preview'

const usage = { promptTokenCount: 20, candidatesTokenCount: 7, thoughtsTokenCount: 30, totalTokenCount: 57 }
const respond = (parts: readonly JsonObject[], last: boolean): JsonObject => ({
  candidates: [{ content: { role: 'model', parts }, index: 0, ...(last && { finishReason: 'STOP' }) }],
  ...(last && { usageMetadata: usage }),
  modelVersion: 'gemini-3-flash-preview',
  responseId: 'r-1',
})

/** The model: returns calls for the weather of two cities, the first signed. After both results: text that repeats them. */
const partsFor = (request: UpstreamRequest): JsonObject[] => {
  const parts = list(request.json.contents).flatMap((turn) => list(object(turn)?.parts).filter(isObject))
  const results = parts.flatMap(({ functionResponse }) => object(object(functionResponse)?.response)?.output ?? [])
  if (request.json.tools === undefined) return [{ text: 'Hello ' }, { text: 'there.' }]
  if (results.length > 0) return [{ text: `It is ${results.join(' and ')}.` }]
  return [
    { text: 'I need the weather.', thought: true },
    ...CITIES.map((city, at) => ({
      functionCall: { name: 'get_weather', args: { city } },
      ...(at === 0 && { thoughtSignature: SIGNATURE }),
    })),
  ]
}

const script = (request: UpstreamRequest): Act => {
  if (request.method === 'GET') return { do: 'answer', body: { models: [] } }
  const parts = partsFor(request)
  if (!request.stream) return { do: 'answer', body: respond(parts, true) }
  const pieces = [...parts.map((part) => respond([part], false)), respond([{ text: '' }], true)]
  return { do: 'stream', pieces: pieces.map((piece) => `data: ${JSON.stringify(piece)}\r\n\r\n`), slice: 7 }
}

const { gateway, speak, lastRequest } = await startConversation(script, MODEL, (url) => ({
  GEMINI_API_KEY: KEY,
  GEMINI_BASE_URL: `${url}/v1beta`,
}))

/** Checks the last upstream request: path, key, and validity by the published schema. */
const assertRequest = (stream: boolean): JsonObject => {
  const { path, headers, json } = lastRequest()
  const action = stream ? 'streamGenerateContent?alt=sse' : 'generateContent'
  assert.equal(path, `/v1beta/models/gemini-3-flash-preview:${action}`)
  assert.equal(headers['x-goog-api-key'], KEY)
  assert.equal(headers.authorization, undefined)
  if (!skipWithoutRecordings) assert.equal(problemsOf('gemini', 'GenerateContentRequest', json), undefined)
  return json
}

/** The messages of an upstream request, each part in one line. */
const turnsIn = (json: JsonObject): Json =>
  list(json.contents).map((turn) =>
    list(object(turn)?.parts).map((part) => {
      const { text, functionCall, functionResponse, thoughtSignature } = object(part) ?? {}
      const call = object(functionCall)
      const result = object(functionResponse)
      const signed = thoughtSignature === undefined ? '' : ` signed ${thoughtSignature}`
      if (call) return `call ${object(call.args)?.city}${signed}`
      if (result) return `result ${object(result.response)?.output}`
      return `text ${text}${signed}`
    }),
  )

const sentBack = (signed: string) => [
  [`text ${QUESTION}`],
  [`call Paris signed ${signed}`, 'call Tokyo'],
  ['result wet in Paris', 'result dry in Tokyo'],
]

for (const { style, stream, way } of WAYS)
  describe(`gemini: ${way}`, () => {
    test('an answer', async () => {
      const { text, finish, tokens, reasoningTokens: thought } = await speak[style](QUESTION, { stream, tools: false })
      assert.deepEqual([text, finish, tokens], ['Hello there.', 'stop', [20, 37]])
      assert.equal(thought, style === 'messages' ? undefined : 30)
      const { systemInstruction, generationConfig } = assertRequest(stream)
      assert.deepEqual(systemInstruction, { parts: [{ text: SYSTEM }] })
      assert.equal(object(generationConfig)?.temperature, 0.5)
    })

    test('parallel calls and their results: the signature is sent back if the client keeps it', async () => {
      const first = await speak[style](QUESTION, { stream, tools: true })
      assert.deepEqual([first.finish, first.reasoning], ['calls', 'I need the weather.'])
      assert.deepEqual(
        first.calls.map(({ input }) => input),
        CITIES.map((city) => ({ city })),
      )
      assert.equal(new Set(first.calls.map(({ id }) => id)).size, 2)
      // Results in reverse order: the gateway restores the order of the calls.
      const kept = await first.next(weather, { reversed: true })
      assert.equal(kept.text, DONE)
      assert.deepEqual(turnsIn(assertRequest(stream)), sentBack(SIGNATURE))

      // If the client keeps no signature, the gateway sends the dummy that makes the model skip its check.
      const again = await first.next(weather, { only: 'calls' })
      assert.equal(again.text, DONE)
      assert.deepEqual(turnsIn(assertRequest(stream)), sentBack('skip_thought_signature_validator'))
    })
  })

test('gemini: a signature in the form of Gemini’s OpenAI-compatible endpoint', async () => {
  const call = (id: string, city: string, more: object = {}) => ({
    id,
    type: 'function',
    function: { name: 'get_weather', arguments: JSON.stringify({ city }) },
    ...more,
  })
  const extra_content = { google: { thought_signature: SIGNATURE } }
  const messages = [
    { role: 'user', content: QUESTION },
    { role: 'assistant', tool_calls: [call('a', 'Paris', { extra_content }), call('b', 'Tokyo')] },
    ...CITIES.map((city, at) => ({ role: 'tool', tool_call_id: 'ab'[at], content: weather({ input: { city } }) })),
  ]
  const tools = [{ type: 'function', function: { name: 'get_weather' } }]
  assert.equal((await post(`${gateway.base}/chat/completions`, { model: MODEL, messages, tools })).status, 200)
  assert.deepEqual(turnsIn(assertRequest(false)), sentBack(SIGNATURE))
})

test('gemini: no log line contains the key', async () => {
  await gateway.logged()
  assert.ok(!gateway.output().includes(KEY))
})
