/** The official OpenAI and Anthropic SDKs, as they are, over an upstream that speaks Cohere's own format. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import { isObject, type Json, type JsonObject, list, object, text } from '../../src/core/json.ts'
import { problemsOf } from '../support/schemas.ts'
import { type Act, type Asked, startUpstream, type Upstream } from '../support/upstream.ts'
import { type Started, start } from './support/process.ts'

const KEY = 'co-test-key-0123456789abcdef'
const NAME = 'command-a-plus-05-2026'
const MODEL = `cohere/${NAME}`
const CITIES = ['Paris', 'Tokyo']
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

type Saying = { readonly thinking?: string; readonly plan?: string; readonly text?: string; readonly calls?: boolean }

/** Calls for the weather of two cities; says what it was told once it has their results. */
const sayingFor = ({ json }: Asked): Saying => {
  const results = list(json.messages).flatMap((message) => {
    const told = object(message)
    return told?.role === 'tool' ? [text(told.content) ?? ''] : []
  })
  if (json.tools === undefined) return { thinking: THOUGHT, text: HELLO }
  return results.length > 0
    ? { text: `It is ${results.join(' and ')}.` }
    : { thinking: THOUGHT, plan: PLAN, calls: true }
}

const reasonOf = ({ calls }: Saying): string => (calls ? 'TOOL_CALL' : 'COMPLETE')
const CITED = { start: 0, end: 5, text: 'Hello', type: 'TEXT_CONTENT' }
const cited = {
  ...CITED,
  sources: [{ type: 'document', id: 'd', document: { title: 'T', url: 'https://t.example/' } }],
}

const whole = (saying: Saying): JsonObject => ({
  id: 'c-1',
  message: {
    role: 'assistant',
    ...(saying.plan !== undefined && { tool_plan: saying.plan }),
    content: [
      ...(saying.thinking === undefined ? [] : [{ type: 'thinking', thinking: saying.thinking }]),
      ...(saying.text === undefined ? [] : [{ type: 'text', text: saying.text }]),
    ],
    ...(saying.calls && { tool_calls: CITIES.map((city) => call(city, JSON.stringify({ city }))) }),
    ...(saying.text === HELLO && { citations: [cited] }),
  },
  finish_reason: reasonOf(saying),
  usage,
})

const halves = (words: string): string[] => [words.slice(0, 4), words.slice(4)]
const event = (type: string, message: JsonObject, index = 0): JsonObject => ({ type, index, delta: { message } })

const streamed = (saying: Saying): string[] => {
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
    ...block('thinking', saying.thinking),
    ...(saying.plan === undefined
      ? []
      : halves(saying.plan).map((half) => event('tool-plan-delta', { tool_plan: half }))),
    ...block('text', saying.text),
    ...(saying.calls ? calls : []),
    { type: 'message-end', delta: { finish_reason: reasonOf(saying), usage } },
  ].map((one) => `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`)
}

const script = (asked: Asked): Act => {
  if (asked.method === 'GET') return { do: 'answer', body: { models: [] } }
  const saying = sayingFor(asked)
  if (!asked.stream) return { do: 'answer', body: whole(saying) }
  const pieces = streamed(saying)
  // Whoever asks for a break gets the stream without its end.
  if (asked.model === 'breaks') return { do: 'stream', pieces: pieces.slice(0, 4), slice: 7 }
  return { do: 'stream', pieces: [...pieces, 'data: [DONE]\n\n'], slice: 7 }
}

let upstream: Upstream
let gateway: Started
let client: OpenAI
let anthropic: Anthropic
before(async () => {
  upstream = await startUpstream(script)
  gateway = await start({ env: { COHERE_API_KEY: KEY, COHERE_BASE_URL: `${upstream.url}/v2` } })
  client = new OpenAI({ baseURL: gateway.base, apiKey: 'any', maxRetries: 0 })
  anthropic = new Anthropic({ baseURL: gateway.url, apiKey: 'any', maxRetries: 0 })
})
after(async () => {
  await gateway.stop()
  await upstream.close()
})

/** What the upstream was asked last: where, with which key, valid by the reference. */
const assertAsked = (stream: boolean): JsonObject => {
  const asked = upstream.seen.findLast(({ method }) => method === 'POST')
  assert.ok(asked)
  assert.equal(asked.path, '/v2/chat')
  assert.equal(asked.headers.authorization, `Bearer ${KEY}`)
  assert.equal(problemsOf('cohere', 'Request', asked.json), undefined)
  assert.equal(asked.json.stream, stream)
  assert.equal(asked.json.model, NAME)
  return asked.json
}

/** The conversation the upstream was sent, in a line each. */
const turnsIn = (json: JsonObject): Json =>
  list(json.messages)
    .filter(isObject)
    .map(({ role, content, tool_plan, tool_calls }) => {
      const thoughts = list(content).flatMap((block) => text(object(block)?.thinking) ?? [])
      const said = typeof content === 'string' ? [content] : []
      const planned = tool_plan === undefined ? [] : [`plan ${tool_plan}`]
      const called = list(tool_calls).map((one) => `call ${object(object(one)?.function)?.arguments}`)
      return [role, ...thoughts.map((thought) => `thought ${thought}`), ...planned, ...said, ...called].join(', ')
    })

const PARAMETERS = {
  type: 'object' as const,
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
}
const QUESTION = 'What is the weather in Paris and in Tokyo?'
const weatherOf = (city: string) => (city === 'Paris' ? 'wet in Paris' : 'dry in Tokyo')
const DONE = 'It is wet in Paris and dry in Tokyo.'
const CALLS = 'call {"city":"Paris"}, call {"city":"Tokyo"}'
const RESULTS = ['tool, wet in Paris', 'tool, dry in Tokyo']
const ASKED = `user, ${QUESTION}`
const KEPT = [ASKED, `assistant, thought ${THOUGHT}, plan ${PLAN}, ${CALLS}`, ...RESULTS]
const TOLD = [20, 37, 30, 4]

describe('cohere: chat completions', () => {
  const tools: OpenAI.Chat.ChatCompletionFunctionTool[] = [
    { type: 'function', function: { name: 'get_weather', parameters: PARAMETERS, strict: true } },
  ]
  const question: OpenAI.Chat.ChatCompletionMessageParam = { role: 'user', content: QUESTION }
  type Message = OpenAI.Chat.ChatCompletionMessage & { reasoning_content?: string; reasoning_details?: unknown[] }

  /** Asks, and puts a stream together as a client does that keeps what it is given. */
  const ask = async (messages: OpenAI.Chat.ChatCompletionMessageParam[], stream: boolean, withTools = true) => {
    const asked = { model: MODEL, messages, ...(withTools && { tools }), temperature: 0.5 }
    if (!stream) {
      const answer = await client.chat.completions.create(asked)
      const [choice] = answer.choices
      assert.ok(choice)
      return { message: choice.message as Message, finish: choice.finish_reason, usage: answer.usage }
    }
    const details: unknown[] = []
    let thoughts = ''
    const runner = client.chat.completions.stream({ ...asked, stream_options: { include_usage: true } })
    for await (const chunk of runner) {
      const delta = chunk.choices[0]?.delta as { reasoning_details?: unknown[]; reasoning_content?: string } | undefined
      details.push(...(delta?.reasoning_details ?? []))
      thoughts += delta?.reasoning_content ?? ''
    }
    const answer = await runner.finalChatCompletion()
    const [choice] = answer.choices
    assert.ok(choice)
    const message: Message = { ...choice.message, reasoning_content: thoughts, reasoning_details: details }
    return { message, finish: choice.finish_reason, usage: answer.usage }
  }

  for (const stream of [false, true]) {
    const how = stream ? 'streamed' : 'whole'
    test(`an answer, ${how}`, async () => {
      const answer = await ask([{ role: 'system', content: 'Brief.' }, question], stream, false)
      assert.equal(answer.message.content, HELLO)
      assert.equal(answer.message.reasoning_content, THOUGHT)
      assert.equal(answer.finish, 'stop')
      if (!stream)
        assert.deepEqual(answer.message.annotations, [
          {
            type: 'url_citation',
            url_citation: { url: 'https://t.example/', title: 'T', start_index: 0, end_index: 5 },
          },
        ])
      const { usage: told } = answer
      assert.deepEqual(
        [
          told?.prompt_tokens,
          told?.completion_tokens,
          told?.completion_tokens_details?.reasoning_tokens,
          told?.prompt_tokens_details?.cached_tokens,
        ],
        TOLD,
      )
      const json = assertAsked(stream)
      assert.deepEqual(turnsIn(json), ['system, Brief.', ASKED])
      assert.equal(json.temperature, 0.5)
    })

    test(`parallel calls and their results, ${how}: the plan comes back`, async () => {
      const { message, finish } = await ask([question], stream)
      assert.equal(finish, 'tool_calls')
      assert.equal(message.content ?? '', '')
      assert.equal(assertAsked(stream).strict_tools, true)
      const calls = (message.tool_calls ?? []).flatMap((one) => (one.type === 'function' ? [one] : []))
      assert.deepEqual(
        calls.map((one) => [one.id, JSON.parse(one.function.arguments)]),
        CITIES.map((city) => [`get_weather_${city.toLowerCase()}`, { city }]),
      )
      const results = calls.map(
        (one): OpenAI.Chat.ChatCompletionToolMessageParam => ({
          role: 'tool',
          tool_call_id: one.id,
          content: weatherOf(JSON.parse(one.function.arguments).city),
        }),
      )
      const kept = await ask([question, message, ...results], stream)
      assert.equal(kept.message.content, DONE)
      assert.deepEqual(turnsIn(assertAsked(stream)), KEPT)

      // A client that keeps only what OpenAI has.
      const plain = { role: 'assistant' as const, content: null, tool_calls: calls }
      const again = await ask([question, plain, ...results], stream)
      assert.equal(again.message.content, DONE)
      assert.deepEqual(turnsIn(assertAsked(stream)), [ASKED, `assistant, ${CALLS}`, ...RESULTS])
    })
  }

  test('a stream without its end is no answer', async () => {
    const asked = { model: 'cohere/breaks', messages: [question], stream: true as const }
    const heard: string[] = []
    await assert.rejects(async () => {
      for await (const chunk of await client.chat.completions.create(asked)) {
        assert.equal(chunk.choices[0]?.finish_reason ?? null, null)
        const delta = chunk.choices[0]?.delta as { reasoning_content?: string } | undefined
        if (delta?.reasoning_content) heard.push(delta.reasoning_content)
      }
    }, /stream_interrupted|broke off/)
    assert.equal(heard.join(''), THOUGHT)
  })

  test('what it has no place for is named', async () => {
    const { response } = await client.chat.completions
      .create({ model: MODEL, messages: [question], user: 'ann', top_p: 1, reasoning_effort: 'low' })
      .withResponse()
    assert.equal(response.headers.get('x-headgate-dropped'), 'reasoning_effort, top_p, user')
  })
})

describe('cohere: responses', () => {
  const tools: OpenAI.Responses.FunctionTool[] = [
    { type: 'function', name: 'get_weather', parameters: PARAMETERS, strict: true },
  ]
  const ask = async (input: OpenAI.Responses.ResponseInput, stream: boolean, withTools = true) => {
    const asked = { model: MODEL, input, ...(withTools && { tools }), instructions: 'Brief.', store: false }
    return stream ? await client.responses.stream(asked).finalResponse() : await client.responses.create(asked)
  }
  for (const stream of [false, true]) {
    const how = stream ? 'streamed' : 'whole'
    test(`an answer, ${how}`, async () => {
      const answer = await ask([{ role: 'user', content: QUESTION }], stream, false)
      assert.equal(answer.output_text, HELLO)
      assert.equal(answer.status, 'completed')
      const { usage: told } = answer
      assert.deepEqual(
        [
          told?.input_tokens,
          told?.output_tokens,
          told?.output_tokens_details.reasoning_tokens,
          told?.input_tokens_details.cached_tokens,
        ],
        TOLD,
      )
      assert.deepEqual(turnsIn(assertAsked(stream)), ['system, Brief.', ASKED])
    })

    test(`parallel calls and their results, ${how}: the plan comes back with the items`, async () => {
      const question = { role: 'user' as const, content: QUESTION }
      const answer = await ask([question], stream)
      const calls = answer.output.flatMap((item) => (item.type === 'function_call' ? [item] : []))
      const results = calls.map((one) => ({
        type: 'function_call_output' as const,
        call_id: one.call_id,
        output: weatherOf(JSON.parse(one.arguments).city),
      }))
      const done = await ask([question, ...(answer.output as OpenAI.Responses.ResponseInput), ...results], stream)
      assert.equal(done.output_text, DONE)
      assert.deepEqual(turnsIn(assertAsked(stream)), ['system, Brief.', ...KEPT])
    })
  }
})

describe('cohere: messages', () => {
  const tools: Anthropic.Tool[] = [{ name: 'get_weather', input_schema: PARAMETERS }]
  const ask = async (messages: Anthropic.MessageParam[], stream: boolean, withTools = true) => {
    const asked = { model: MODEL, max_tokens: 900, messages, ...(withTools && { tools }) }
    return stream ? await anthropic.messages.stream(asked).finalMessage() : await anthropic.messages.create(asked)
  }
  const question: Anthropic.MessageParam = { role: 'user', content: QUESTION }
  for (const stream of [false, true]) {
    const how = stream ? 'streamed' : 'whole'
    test(`an answer, ${how}`, async () => {
      const answer = await ask([question], stream, false)
      assert.deepEqual(
        answer.content.map((block) => (block.type === 'text' ? block.text : block.type)),
        ['thinking', HELLO],
      )
      assert.equal(answer.stop_reason, 'end_turn')
      assert.deepEqual(
        [answer.usage.input_tokens, answer.usage.cache_read_input_tokens, answer.usage.output_tokens],
        [16, 4, 37],
      )
      assert.equal(assertAsked(stream).max_tokens, 900)
    })

    test(`parallel calls and their results, ${how}: the plan comes back`, async () => {
      const answer = await ask([question], stream)
      assert.equal(answer.stop_reason, 'tool_use')
      const results = answer.content.flatMap((block): Anthropic.ToolResultBlockParam[] => {
        if (block.type !== 'tool_use') return []
        const { city } = block.input as { city: string }
        return [{ type: 'tool_result', tool_use_id: block.id, content: weatherOf(city) }]
      })
      const done = await ask(
        [question, { role: 'assistant', content: answer.content }, { role: 'user', content: results }],
        stream,
      )
      assert.equal(done.content.map((block) => (block.type === 'text' ? block.text : '')).join(''), DONE)
      assert.deepEqual(turnsIn(assertAsked(stream)), KEPT)
    })
  }
})

test('cohere: the key is in no log', () => assert.ok(!gateway.output().includes(KEY)))
