/** The official SDKs with an upstream that uses Cohere's own format. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { isObject, type Json, type JsonObject, list, object, text } from '../../src/core/json.ts'
import { problemsOf } from '../support/schemas.ts'
import type { Act, UpstreamRequest } from '../support/upstream.ts'
import { post } from './support/process.ts'
import { CITIES, DONE, QUESTION, SYSTEM, startConversation, WAYS, weather } from './support/speakers.ts'
import { eventsIn } from './support/stage.ts'

const KEY = 'co-test-key-0123456789abcdef'
const NAME = 'command-a-plus-05-2026'
const MODEL = `cohere/${NAME}`
const BREAKS = 'cohere/breaks'
const THOUGHT = 'They ask for two.'
const PLAN = 'I will look both up.'
const HELLO = 'Hello there.'

const usage = {
  billed_units: { input_tokens: 5, output_tokens: 2 },
  tokens: { input_tokens: 20, output_tokens: 37, reasoning_tokens: 30 },
  cached_tokens: 4,
}
const call = (city: string, args: string): JsonObject => ({
  id: `get_weather_${city.toLowerCase()}`,
  type: 'function',
  function: { name: 'get_weather', arguments: args },
})

type Answer = { readonly thinking?: string; readonly plan?: string; readonly text?: string; readonly calls?: boolean }

/** The model: returns calls for the weather of two cities. After both results: text that repeats them. */
const answerFor = ({ json }: UpstreamRequest): Answer => {
  const results = list(json.messages).flatMap((message) => {
    const toolMessage = object(message)
    return toolMessage?.role === 'tool' ? [text(toolMessage.content) ?? ''] : []
  })
  if (json.tools === undefined) return { thinking: THOUGHT, text: HELLO }
  return results.length > 0
    ? { text: `It is ${results.join(' and ')}.` }
    : { thinking: THOUGHT, plan: PLAN, calls: true }
}

const reasonOf = ({ calls }: Answer): string => (calls ? 'TOOL_CALL' : 'COMPLETE')
const CITED = { start: 0, end: 5, text: 'Hello', type: 'TEXT_CONTENT' }
const cited = {
  ...CITED,
  sources: [{ type: 'document', id: 'd', document: { title: 'T', url: 'https://t.example/' } }],
}

const whole = (answer: Answer): JsonObject => ({
  id: 'c-1',
  message: {
    role: 'assistant',
    ...(answer.plan !== undefined && { tool_plan: answer.plan }),
    content: [
      ...(answer.thinking === undefined ? [] : [{ type: 'thinking', thinking: answer.thinking }]),
      ...(answer.text === undefined ? [] : [{ type: 'text', text: answer.text }]),
    ],
    ...(answer.calls && { tool_calls: CITIES.map((city) => call(city, JSON.stringify({ city }))) }),
    ...(answer.text === HELLO && { citations: [cited] }),
  },
  finish_reason: reasonOf(answer),
  usage,
})

const halves = (words: string): string[] => [words.slice(0, 4), words.slice(4)]
const event = (type: string, message: JsonObject, index = 0): JsonObject => ({ type, index, delta: { message } })

const streamed = (answer: Answer): string[] => {
  const block = (type: 'text' | 'thinking', words: string | undefined): JsonObject[] =>
    words === undefined
      ? []
      : [
          event('content-start', { content: { type, [type]: '' } }),
          ...halves(words).map((half) => event('content-delta', { content: { [type]: half } })),
          ...(words === HELLO
            ? [event('citation-start', { citations: cited }), { type: 'citation-end', index: 0 }]
            : []),
          { type: 'content-end', index: 0 },
        ]
  const calls = CITIES.flatMap((city, index) => [
    event('tool-call-start', { tool_calls: call(city, '') }, index),
    ...halves(JSON.stringify({ city })).map((half) =>
      event('tool-call-delta', { tool_calls: { function: { arguments: half } } }, index),
    ),
    { type: 'tool-call-end', index },
  ])
  return [
    { id: 'c-1', type: 'message-start', delta: { message: { role: 'assistant', content: [] } } },
    ...block('thinking', answer.thinking),
    ...(answer.plan === undefined
      ? []
      : halves(answer.plan).map((half) => event('tool-plan-delta', { tool_plan: half }))),
    ...block('text', answer.text),
    ...(answer.calls ? calls : []),
    { type: 'message-end', delta: { finish_reason: reasonOf(answer), usage } },
  ].map((one) => `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`)
}

const script = (request: UpstreamRequest): Act => {
  if (request.method === 'GET') return { do: 'answer', body: { models: [] } }
  const answer = answerFor(request)
  if (!request.stream) return { do: 'answer', body: whole(answer) }
  const pieces = streamed(answer)
  // The model `breaks` gets a stream without its end.
  if (request.model === 'breaks') return { do: 'stream', pieces: pieces.slice(0, 4), slice: 7 }
  return { do: 'stream', pieces: [...pieces, 'data: [DONE]\n\n'], slice: 7 }
}

const { gateway, speak, lastRequest } = await startConversation(script, MODEL, (url) => ({
  COHERE_API_KEY: KEY,
  COHERE_BASE_URL: `${url}/v2`,
}))

/** Checks the last upstream request: path, key, and validity by the reference. */
const assertRequest = (stream: boolean): JsonObject => {
  const request = lastRequest()
  assert.equal(request.path, '/v2/chat')
  assert.equal(request.headers.authorization, `Bearer ${KEY}`)
  assert.equal(problemsOf('cohere', 'Request', request.json), undefined)
  assert.equal(request.json.stream, stream)
  assert.equal(request.json.model, NAME)
  return request.json
}

/** The messages of an upstream request, each in one line. */
const turnsIn = (json: JsonObject): Json =>
  list(json.messages)
    .filter(isObject)
    .map(({ role, content, tool_plan, tool_calls }) => {
      const thoughts = list(content).flatMap((block) => text(object(block)?.thinking) ?? [])
      const texts = typeof content === 'string' ? [content] : []
      const planned = tool_plan === undefined ? [] : [`plan ${tool_plan}`]
      const called = list(tool_calls).map((one) => `call ${object(object(one)?.function)?.arguments}`)
      return [role, ...thoughts.map((thought) => `thought ${thought}`), ...planned, ...texts, ...called].join(', ')
    })

const CALLS = 'call {"city":"Paris"}, call {"city":"Tokyo"}'
const RESULTS = ['tool, wet in Paris', 'tool, dry in Tokyo']
const ASKED = [`system, ${SYSTEM}`, `user, ${QUESTION}`]

for (const { style, stream, way } of WAYS)
  describe(`cohere: ${way}`, () => {
    test('an answer', async () => {
      const {
        text,
        reasoning: thoughts,
        finish,
        tokens,
        cached,
        reasoningTokens: thought,
      } = await speak[style](QUESTION, { stream, tools: false })
      assert.deepEqual([text, thoughts, finish], [HELLO, THOUGHT, 'stop'])
      // Messages reports cached tokens separately and reasoning tokens not at all.
      assert.deepEqual([...tokens, cached, thought], style === 'messages' ? [16, 37, 4, undefined] : [20, 37, 4, 30])
      const json = assertRequest(stream)
      assert.deepEqual(turnsIn(json), ASKED)
      assert.deepEqual([json.temperature, json.max_tokens], [0.5, style === 'messages' ? 500 : undefined])
    })

    test('parallel calls and their results: the plan is sent back if the client keeps it', async () => {
      const first = await speak[style](QUESTION, { stream, tools: 'strict' })
      assert.deepEqual([first.text, first.finish], ['', 'calls'])
      assert.equal(assertRequest(stream).strict_tools, true)
      assert.deepEqual(
        first.calls.map(({ id, input }) => [id, input]),
        CITIES.map((city) => [`get_weather_${city.toLowerCase()}`, { city }]),
      )
      const kept = await first.next(weather)
      assert.equal(kept.text, DONE)
      const assistantTurn = `assistant, thought ${THOUGHT}, plan ${PLAN}, ${CALLS}`
      assert.deepEqual(turnsIn(assertRequest(stream)), [...ASKED, assistantTurn, ...RESULTS])

      const again = await first.next(weather, { only: 'calls' })
      assert.equal(again.text, DONE)
      assert.deepEqual(turnsIn(assertRequest(stream)), [...ASKED, `assistant, ${CALLS}`, ...RESULTS])
    })

    if (stream)
      test('a stream without an end event is an error', () =>
        assert.rejects(
          speak[style](QUESTION, { stream, tools: false, more: { model: BREAKS } }),
          /stream_interrupted|ended before it was complete/,
        ))
  })

const chat = (body: JsonObject) =>
  post(`${gateway.base}/chat/completions`, { model: MODEL, messages: [{ role: 'user', content: QUESTION }], ...body })

test('cohere: citations', async () => {
  const url_citation = { url: 'https://t.example/', title: 'T', start_index: 0, end_index: 5 }
  assert.deepEqual((await chat({})).json().choices[0].message.annotations, [{ type: 'url_citation', url_citation }])
})

test('cohere: a stream without an end event has none for the client', async () => {
  const { text } = await chat({ model: BREAKS, stream: true })
  const events = eventsIn(text)
  assert.ok(events.every(({ choices }) => (choices?.[0]?.finish_reason ?? null) === null))
  assert.equal(events.map(({ choices }) => choices?.[0]?.delta.reasoning_content ?? '').join(''), THOUGHT)
  assert.doesNotMatch(text, /\[DONE\]/)
})

test('cohere: unsupported settings are named', async () => {
  const { headers } = await chat({ user: 'ann', top_p: 1, reasoning_effort: 'low' })
  assert.equal(headers.get('x-headgate-dropped'), 'reasoning_effort, top_p, user')
})

test('cohere: no log line contains the key', async () => {
  await gateway.logged()
  assert.ok(!gateway.output().includes(KEY))
})
