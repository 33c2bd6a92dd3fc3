/** The official OpenAI SDK, as it is, over an upstream that speaks Gemini's own format. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import OpenAI from 'openai'
import { isObject, type Json, type JsonObject, list, object } from '../../src/core/json.ts'
import { skip } from '../support/recordings.ts'
import { problemsOf } from '../support/schemas.ts'
import { type Act, type Asked, startUpstream, type Upstream } from '../support/upstream.ts'
import { type Started, start } from './support/process.ts'

const KEY = 'AIza-test-0123456789'
const SIGNATURE = 'CiQBc2lnbmF0dXJlK29mL3RoZStmaXJzdC9jYWxs'
const MODEL = 'gemini/gemini-3-flash-preview'
const CITIES = ['Paris', 'Tokyo']

const usage = { promptTokenCount: 20, candidatesTokenCount: 7, thoughtsTokenCount: 30, totalTokenCount: 57 }
const respond = (parts: readonly JsonObject[], last: boolean): JsonObject => ({
  candidates: [{ content: { role: 'model', parts }, index: 0, ...(last && { finishReason: 'STOP' }) }],
  ...(last && { usageMetadata: usage }),
  modelVersion: 'gemini-3-flash-preview',
  responseId: 'r-1',
})

/** Calls for the weather of two cities, signing the first; says what it was told once it has their results. */
const partsFor = (asked: Asked): JsonObject[] => {
  const parts = list(asked.json.contents).flatMap((turn) => list(object(turn)?.parts).filter(isObject))
  const results = parts.flatMap(({ functionResponse }) => object(object(functionResponse)?.response)?.output ?? [])
  if (asked.json.tools === undefined) return [{ text: 'Hello ' }, { text: 'there.' }]
  if (results.length > 0) return [{ text: `It is ${results.join(' and ')}.` }]
  return [
    { text: 'I need the weather.', thought: true },
    ...CITIES.map((city, at) => ({
      functionCall: { name: 'get_weather', args: { city } },
      ...(at === 0 && { thoughtSignature: SIGNATURE }),
    })),
  ]
}

const script = (asked: Asked): Act => {
  if (asked.method === 'GET') return { do: 'answer', body: { models: [] } }
  const parts = partsFor(asked)
  if (!asked.stream) return { do: 'answer', body: respond(parts, true) }
  const pieces = [...parts.map((part) => respond([part], false)), respond([{ text: '' }], true)]
  return { do: 'stream', pieces: pieces.map((piece) => `data: ${JSON.stringify(piece)}\r\n\r\n`), slice: 7 }
}

let upstream: Upstream
let gateway: Started
let client: OpenAI
before(async () => {
  upstream = await startUpstream(script)
  gateway = await start({ env: { GEMINI_API_KEY: KEY, GEMINI_BASE_URL: `${upstream.url}/v1beta` } })
  client = new OpenAI({ baseURL: gateway.base, apiKey: 'any', maxRetries: 0 })
})
after(async () => {
  await gateway.stop()
  await upstream.close()
})

const lastAsked = (): Asked => {
  const asked = upstream.seen.findLast(({ method }) => method === 'POST')
  assert.ok(asked)
  return asked
}

/** What the upstream was asked last: where, with which key, valid by the published schema. */
const assertAsked = (stream: boolean): JsonObject => {
  const { path, headers, json } = lastAsked()
  const action = stream ? 'streamGenerateContent?alt=sse' : 'generateContent'
  assert.equal(path, `/v1beta/models/gemini-3-flash-preview:${action}`)
  assert.equal(headers['x-goog-api-key'], KEY)
  assert.equal(headers.authorization, undefined)
  if (!skip) assert.equal(problemsOf('gemini', 'GenerateContentRequest', json), undefined)
  return json
}

/** The turns the upstream was sent, each part by what it is. */
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

const PARAMETERS = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
const QUESTION = 'What is the weather in Paris and in Tokyo?'
const weatherOf = (city: string) => (city === 'Paris' ? 'wet in Paris' : 'dry in Tokyo')
const DONE = 'It is wet in Paris and dry in Tokyo.'
const sentBack = (signed: string) => [
  [`text ${QUESTION}`],
  [`call Paris signed ${signed}`, 'call Tokyo'],
  ['result wet in Paris', 'result dry in Tokyo'],
]

describe('gemini: chat completions', () => {
  const tools: OpenAI.Chat.ChatCompletionFunctionTool[] = [
    { type: 'function', function: { name: 'get_weather', parameters: PARAMETERS } },
  ]
  const question: OpenAI.Chat.ChatCompletionMessageParam = { role: 'user', content: QUESTION }
  type Message = OpenAI.Chat.ChatCompletionMessage & { reasoning_content?: string; reasoning_details?: unknown[] }

  /** Asks, and puts a stream together as a client does that keeps what it is given. */
  const ask = async (messages: OpenAI.Chat.ChatCompletionMessageParam[], stream: boolean, withTools = true) => {
    const asked = { model: MODEL, messages, ...(withTools && { tools }), temperature: 0.5 }
    if (!stream) {
      const whole = await client.chat.completions.create(asked)
      const [choice] = whole.choices
      assert.ok(choice)
      return { message: choice.message as Message, finish: choice.finish_reason, usage: whole.usage }
    }
    const details: unknown[] = []
    let thoughts = ''
    const runner = client.chat.completions.stream({ ...asked, stream_options: { include_usage: true } })
    for await (const chunk of runner) {
      const delta = chunk.choices[0]?.delta as { reasoning_details?: unknown[]; reasoning_content?: string } | undefined
      details.push(...(delta?.reasoning_details ?? []))
      thoughts += delta?.reasoning_content ?? ''
    }
    const whole = await runner.finalChatCompletion()
    const [choice] = whole.choices
    assert.ok(choice)
    const message: Message = { ...choice.message, reasoning_content: thoughts, reasoning_details: details }
    return { message, finish: choice.finish_reason, usage: whole.usage }
  }

  for (const stream of [false, true]) {
    const how = stream ? 'streamed' : 'whole'
    test(`an answer, ${how}`, async () => {
      const {
        message,
        finish,
        usage: told,
      } = await ask([{ role: 'system', content: 'Brief.' }, question], stream, false)
      assert.equal(message.content, 'Hello there.')
      assert.equal(finish, 'stop')
      assert.deepEqual(
        [
          told?.prompt_tokens,
          told?.completion_tokens,
          told?.completion_tokens_details?.reasoning_tokens,
          told?.total_tokens,
        ],
        [20, 37, 30, 57],
      )
      const json = assertAsked(stream)
      assert.deepEqual(json.systemInstruction, { parts: [{ text: 'Brief.' }] })
      assert.equal(object(json.generationConfig)?.temperature, 0.5)
    })

    test(`parallel calls and their results, ${how}: the signature comes back if the client keeps it`, async () => {
      const { message, finish } = await ask([question], stream)
      assert.equal(finish, 'tool_calls')
      assert.equal(message.reasoning_content, 'I need the weather.')
      const calls = (message.tool_calls ?? []).flatMap((call) => (call.type === 'function' ? [call] : []))
      assert.deepEqual(
        calls.map((call) => JSON.parse(call.function.arguments)),
        CITIES.map((city) => ({ city })),
      )
      assert.equal(new Set(calls.map(({ id }) => id)).size, 2)
      const results = calls.map((call): OpenAI.Chat.ChatCompletionToolMessageParam => {
        const { city } = JSON.parse(call.function.arguments)
        return { role: 'tool', tool_call_id: call.id, content: weatherOf(city) }
      })
      // In the other order: the gateway puts them into that of the calls.
      const kept = await ask([question, message, ...results.toReversed()], stream)
      assert.equal(kept.message.content, DONE)
      assert.deepEqual(turnsIn(assertAsked(stream)), sentBack(SIGNATURE))

      // A client that keeps only what OpenAI has: the model is asked not to insist.
      const plain = { role: 'assistant' as const, content: null, tool_calls: calls }
      const again = await ask([question, plain, ...results], stream)
      assert.equal(again.message.content, DONE)
      assert.deepEqual(turnsIn(assertAsked(stream)), sentBack('skip_thought_signature_validator'))
    })
  }

  test('a signature kept the way of Gemini’s compatible endpoint', async () => {
    const call = (id: string, city: string, more: object = {}) => ({
      id,
      type: 'function' as const,
      function: { name: 'get_weather', arguments: JSON.stringify({ city }) },
      ...more,
    })
    const extra_content = { google: { thought_signature: SIGNATURE } }
    const calls = [call('a', 'Paris', { extra_content }), call('b', 'Tokyo')]
    const results = CITIES.map((city, at) => ({
      role: 'tool' as const,
      tool_call_id: at === 0 ? 'a' : 'b',
      content: weatherOf(city),
    }))
    await ask([question, { role: 'assistant', tool_calls: calls }, ...results], false)
    assert.deepEqual(turnsIn(assertAsked(false)), sentBack(SIGNATURE))
  })
})

describe('gemini: responses', () => {
  const tools: OpenAI.Responses.FunctionTool[] = [
    { type: 'function', name: 'get_weather', parameters: PARAMETERS, strict: false },
  ]
  const ask = async (input: OpenAI.Responses.ResponseInput, stream: boolean, withTools = true) => {
    const asked = { model: MODEL, input, ...(withTools && { tools }), instructions: 'Brief.', store: false }
    return stream ? await client.responses.stream(asked).finalResponse() : await client.responses.create(asked)
  }
  for (const stream of [false, true]) {
    const how = stream ? 'streamed' : 'whole'
    test(`an answer, ${how}`, async () => {
      const answer = await ask([{ role: 'user', content: QUESTION }], stream, false)
      assert.equal(answer.output_text, 'Hello there.')
      assert.equal(answer.status, 'completed')
      assert.deepEqual(
        [answer.usage?.input_tokens, answer.usage?.output_tokens, answer.usage?.output_tokens_details.reasoning_tokens],
        [20, 37, 30],
      )
      assert.deepEqual(assertAsked(stream).systemInstruction, { parts: [{ text: 'Brief.' }] })
    })

    test(`parallel calls and their results, ${how}: the signature comes back with the items`, async () => {
      const question = { role: 'user' as const, content: QUESTION }
      const answer = await ask([question], stream)
      const calls = answer.output.flatMap((item) => (item.type === 'function_call' ? [item] : []))
      assert.deepEqual(
        calls.map((call) => JSON.parse(call.arguments)),
        CITIES.map((city) => ({ city })),
      )
      const results = calls.map((call) => ({
        type: 'function_call_output' as const,
        call_id: call.call_id,
        output: weatherOf(JSON.parse(call.arguments).city),
      }))
      const done = await ask([question, ...(answer.output as OpenAI.Responses.ResponseInput), ...results], stream)
      assert.equal(done.output_text, DONE)
      assert.deepEqual(turnsIn(assertAsked(stream)), sentBack(SIGNATURE))
    })
  }
})

test('gemini: the key is in no log', () => assert.ok(!gateway.output().includes(KEY)))
