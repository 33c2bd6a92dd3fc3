/** The official OpenAI SDK for Node, with every pair of its two styles and the three upstream formats. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import OpenAI from 'openai'
import { zodResponseFormat, zodTextFormat } from 'openai/helpers/zod'
import { z } from 'zod'
import { isObject, type Json, type JsonObject, list } from '../../src/core/json.ts'
import { until } from '../support/upstream.ts'
import { start } from './support/process.ts'
import { CALLS, CITY, KINDS, type Kind, startThreeKinds, TEXT, type ThreeKinds } from './support/three-kinds.ts'

let kinds: ThreeKinds
let client: OpenAI
before(async () => {
  kinds = await startThreeKinds()
  client = new OpenAI({ baseURL: kinds.gateway.base, apiKey: 'any', maxRetries: 0 })
})
after(() => kinds.stop())

const ALL = Object.keys(KINDS) as Kind[]
const modelOf = (kind: Kind, model: string) => `${KINDS[kind]}/${model}`

const PARAMETERS = {
  type: 'object',
  properties: { city: { type: 'string' }, days: { type: 'integer' } },
  required: ['city', 'days'],
  additionalProperties: false,
}
const CHAT_TOOLS: OpenAI.Chat.ChatCompletionFunctionTool[] = [
  { type: 'function', function: { name: 'get_weather', description: 'The weather.', parameters: PARAMETERS } },
]
const RESPONSE_TOOLS: OpenAI.Responses.FunctionTool[] = [
  { type: 'function', name: 'get_weather', description: 'The weather.', parameters: PARAMETERS, strict: false },
]
const City = z.object({ city: z.string(), people: z.number(), rivers: z.array(z.string()) })

const QUESTION: OpenAI.Chat.ChatCompletionMessageParam[] = [
  { role: 'system', content: 'Be brief.' },
  { role: 'user', content: 'What is the weather in Paris and in Tokyo?' },
]

/** The upstream formats serialise arguments differently, so values are compared. */
const callsOf = (calls: readonly { id: string; name: string; arguments: string }[]) =>
  calls.map((call) => ({ ...call, arguments: JSON.parse(call.arguments) }))
const EXPECTED_CALLS = callsOf(CALLS)

const chatCalls = (calls: OpenAI.Chat.ChatCompletionMessageToolCall[] | undefined) =>
  callsOf(
    (calls ?? []).map((call) => {
      assert.equal(call.type, 'function')
      return { id: call.id, name: call.function.name, arguments: call.function.arguments }
    }),
  )
const responseCalls = (output: readonly OpenAI.Responses.ResponseOutputItem[]) =>
  callsOf(
    output
      .filter((item) => item.type === 'function_call')
      .map((item) => ({ id: item.call_id, name: item.name, arguments: item.arguments })),
  )

/** The results in an upstream request, by the id of their call, in any format. */
const resultsIn = (kind: Kind, body: JsonObject): Record<string, unknown> => {
  const objects = (value: Json | undefined) => list(value).filter(isObject)
  const entries =
    kind === 'messages'
      ? objects(body.messages)
          .flatMap(({ content }) => objects(content))
          .filter(({ type }) => type === 'tool_result')
      : objects(kind === 'chat' ? body.messages : body.input).filter(
          ({ role, type }) => role === 'tool' || type === 'function_call_output',
        )
  return Object.fromEntries(
    entries.map((entry) => {
      const content = entry.content ?? entry.output
      const text = Array.isArray(content) ? objects(content)[0]?.text : content
      return [String(entry.tool_use_id ?? entry.tool_call_id ?? entry.call_id), text]
    }),
  )
}

for (const kind of ALL)
  describe(`sdk-node: chat completions over a ${kind} upstream`, () => {
    test('an answer', async () => {
      const { data, response, request_id } = await client.chat.completions
        .create({ model: modelOf(kind, 'text'), messages: QUESTION, temperature: 0.3, max_completion_tokens: 99 })
        .withResponse()
      assert.equal(data.object, 'chat.completion')
      assert.equal(data.model, 'text')
      assert.equal(data.choices.length, 1)
      const [choice] = data.choices
      assert.equal(choice?.message.content, TEXT)
      assert.equal(choice?.message.role, 'assistant')
      assert.equal(choice?.finish_reason, 'stop')
      assert.deepEqual(
        [data.usage?.prompt_tokens, data.usage?.completion_tokens, data.usage?.total_tokens],
        [21, 7, 28],
      )
      assert.match(request_id ?? '', /^req_[a-z]+$/)
      assert.equal(response.headers.get('x-headgate-provider'), KINDS[kind])
      assert.equal(response.headers.get('x-headgate-model'), 'text')
      assert.equal(response.headers.get('x-headgate-attempts'), '1')
      const { json } = kinds.last(kind)
      assert.equal(json.temperature, 0.3)
      assert.equal(json.max_completion_tokens ?? json.max_output_tokens ?? json.max_tokens, 99)
    })

    for (const wanted of [true, false])
      test(`a stream, ${wanted ? 'with' : 'without'} usage`, async () => {
        const stream = await client.chat.completions.create({
          model: modelOf(kind, 'text'),
          messages: QUESTION,
          stream: true,
          ...(wanted && { stream_options: { include_usage: true } }),
        })
        let content = ''
        const finishes: string[] = []
        const usages: number[] = []
        const ids = new Set<string>()
        for await (const chunk of stream) {
          assert.equal(chunk.object, 'chat.completion.chunk')
          ids.add(chunk.id)
          content += chunk.choices[0]?.delta.content ?? ''
          if (chunk.choices[0]?.finish_reason) finishes.push(chunk.choices[0].finish_reason)
          if (chunk.usage) usages.push(chunk.usage.prompt_tokens, chunk.usage.completion_tokens)
        }
        assert.equal(content, TEXT)
        assert.deepEqual(finishes, ['stop'])
        assert.deepEqual(usages, wanted ? [21, 7] : [])
        assert.equal(ids.size, 1)
      })

    test('parallel tool calls, and their results in the next turn', async () => {
      const parameters = { model: modelOf(kind, 'both'), messages: QUESTION, tools: CHAT_TOOLS }
      const first = await client.chat.completions.create({ ...parameters, parallel_tool_calls: true })
      const message = first.choices[0]?.message
      assert.equal(first.choices[0]?.finish_reason, 'tool_calls')
      assert.equal(message?.content, 'Let me look.')
      assert.deepEqual(chatCalls(message?.tool_calls), EXPECTED_CALLS)
      assert.ok(message)
      const results = (message.tool_calls ?? []).map(({ id }) => ({
        role: 'tool' as const,
        tool_call_id: id,
        content: `weather of ${id}`,
      }))
      const second = await client.chat.completions.create({
        model: modelOf(kind, 'text'),
        messages: [...QUESTION, message, ...results],
        tools: CHAT_TOOLS,
      })
      assert.equal(second.choices[0]?.message.content, TEXT)
      assert.deepEqual(resultsIn(kind, kinds.last(kind).json), {
        call_paris: 'weather of call_paris',
        call_tokyo: 'weather of call_tokyo',
      })
    })

    test('the stream helper with parallel tool calls', async () => {
      const stream = client.chat.completions.stream({
        model: modelOf(kind, 'both'),
        messages: QUESTION,
        tools: CHAT_TOOLS,
      })
      const done: unknown[] = []
      stream.on('tool_calls.function.arguments.done', (event) => done.push(JSON.parse(event.arguments)))
      const final = await stream.finalChatCompletion()
      assert.deepEqual(chatCalls(final.choices[0]?.message.tool_calls), EXPECTED_CALLS)
      assert.deepEqual(
        done,
        EXPECTED_CALLS.map((call) => call.arguments),
      )
      assert.equal(final.choices[0]?.message.content, 'Let me look.')
      assert.equal(final.choices[0]?.finish_reason, 'tool_calls')
    })

    test('structured output, parsed by the SDK', async () => {
      const body = {
        model: modelOf(kind, 'json'),
        messages: QUESTION,
        response_format: zodResponseFormat(City, 'city'),
      }
      const whole = await client.chat.completions.parse(body)
      assert.deepEqual(whole.choices[0]?.message.parsed, CITY)
      const streamed = await client.chat.completions.stream(body).finalChatCompletion()
      assert.deepEqual(streamed.choices[0]?.message.parsed, CITY)
      const { json } = kinds.last(kind)
      assert.match(JSON.stringify(json), /"json_schema"/)
      assert.match(JSON.stringify(json), /"rivers"/)
    })

    test('an answer truncated at its token limit', async () => {
      const body = { model: modelOf(kind, 'cut'), messages: QUESTION, max_completion_tokens: 16 }
      const whole = await client.chat.completions.create(body)
      assert.equal(whole.choices[0]?.finish_reason, 'length')
      const streamed = await client.chat.completions
        .stream(body)
        .finalChatCompletion()
        .catch((error) => error)
      assert.equal(streamed instanceof Error ? streamed.name : streamed.choices[0]?.finish_reason, 'length')
    })
  })

for (const kind of ALL)
  describe(`sdk-node: responses over a ${kind} upstream`, () => {
    test('an answer', async () => {
      const answer = await client.responses.create({
        model: modelOf(kind, 'text'),
        instructions: 'Be brief.',
        input: 'Hello?',
        temperature: 0.3,
        max_output_tokens: 99,
      })
      assert.equal(answer.object, 'response')
      assert.equal(answer.status, 'completed')
      assert.equal(answer.output_text, TEXT)
      assert.equal(answer.model, 'text')
      assert.equal(answer.error, null)
      assert.deepEqual(
        [answer.usage?.input_tokens, answer.usage?.output_tokens, answer.usage?.total_tokens],
        [21, 7, 28],
      )
      assert.match(answer._request_id ?? '', /^req_[a-z]+$/)
      assert.match(JSON.stringify(kinds.last(kind).json), /Be brief\./)
    })

    test('a stream: named events, numbered without a gap, consistent with the final response', async () => {
      const stream = await client.responses.create({ model: modelOf(kind, 'text'), input: 'Hello?', stream: true })
      const events: OpenAI.Responses.ResponseStreamEvent[] = []
      for await (const event of stream) events.push(event)
      assert.deepEqual(
        events.map(({ sequence_number }) => sequence_number),
        events.map((_, at) => at),
      )
      const deltas = events.flatMap((event) => (event.type === 'response.output_text.delta' ? [event.delta] : []))
      assert.equal(deltas.join(''), TEXT)
      assert.ok(deltas.length > 1)
      assert.equal(events[0]?.type, 'response.created')
      const last = events.at(-1)
      assert.ok(last?.type === 'response.completed')
      assert.equal(last.response.status, 'completed')
      assert.deepEqual([last.response.usage?.input_tokens, last.response.usage?.output_tokens], [21, 7])
    })

    test('the stream helper with text', async () => {
      const final = await client.responses
        .stream({ model: modelOf(kind, 'text'), input: [{ role: 'user', content: 'Hello?' }] })
        .finalResponse()
      assert.equal(final.output_text, TEXT)
    })

    test('parallel tool calls, whole and streamed, and their results in the next turn', async () => {
      const body = { model: modelOf(kind, 'both'), input: 'The weather?', tools: RESPONSE_TOOLS }
      const whole = await client.responses.create(body)
      assert.equal(whole.status, 'completed')
      assert.equal(whole.output_text, 'Let me look.')
      assert.deepEqual(responseCalls(whole.output), EXPECTED_CALLS)
      const streamed = await client.responses.stream(body).finalResponse()
      assert.equal(streamed.output_text, 'Let me look.')
      assert.deepEqual(responseCalls(streamed.output), EXPECTED_CALLS)

      const results = CALLS.map(({ id }) => ({
        type: 'function_call_output' as const,
        call_id: id,
        output: `weather of ${id}`,
      }))
      const second = await client.responses.create({
        model: modelOf(kind, 'text'),
        input: [
          { role: 'user', content: 'The weather?' },
          ...(streamed.output as OpenAI.Responses.ResponseInputItem[]),
          ...results,
        ],
        tools: RESPONSE_TOOLS,
      })
      assert.equal(second.output_text, TEXT)
      assert.deepEqual(resultsIn(kind, kinds.last(kind).json), {
        call_paris: 'weather of call_paris',
        call_tokyo: 'weather of call_tokyo',
      })
    })

    test('structured output, parsed by the SDK', async () => {
      const body = { model: modelOf(kind, 'json'), input: 'Paris?', text: { format: zodTextFormat(City, 'city') } }
      const whole = await client.responses.parse(body)
      assert.deepEqual(whole.output_parsed, CITY)
      const streamed = await client.responses.stream(body).finalResponse()
      assert.deepEqual(streamed.output_parsed, CITY)
    })

    test('an answer truncated at its token limit', async () => {
      const body = { model: modelOf(kind, 'cut'), input: 'Go on.', max_output_tokens: 16 }
      const whole = await client.responses.create(body)
      assert.deepEqual([whole.status, whole.incomplete_details], ['incomplete', { reason: 'max_output_tokens' }])
      const streamed = await client.responses.stream(body).finalResponse()
      assert.deepEqual([streamed.status, streamed.output_text], ['incomplete', 'It goes on and'])
    })
  })

/** The error that a call throws. */
const thrownBy = async (run: () => PromiseLike<unknown>): Promise<unknown> => {
  try {
    await run()
  } catch (error) {
    return error
  }
  assert.fail('no error was thrown')
}

/** One call in each style, whole and streamed, read to its end. */
const STYLES = {
  'chat, whole': (client: OpenAI, model: string) => client.chat.completions.create({ model, messages: QUESTION }),
  'chat, streamed': async (client: OpenAI, model: string) => {
    for await (const _ of await client.chat.completions.create({ model, messages: QUESTION, stream: true }));
  },
  'responses, whole': (client: OpenAI, model: string) => client.responses.create({ model, input: 'x' }),
  'responses, streamed': async (client: OpenAI, model: string) => {
    for await (const _ of await client.responses.create({ model, input: 'x', stream: true }));
  },
} as const

for (const kind of ALL)
  for (const [style, call] of Object.entries(STYLES))
    describe(`sdk-node: errors of a ${kind} upstream, ${style}`, () => {
      test("an invalid request is a BadRequestError with the upstream's message", async () => {
        const error = await thrownBy(() => call(client, modelOf(kind, 'bad')))
        assert.ok(error instanceof OpenAI.BadRequestError, String(error))
        assert.equal(error.status, 400)
        assert.equal(error.type, 'invalid_request_error')
        assert.match(error.message, /The temperature is too high for this\./)
        assert.match(error.requestID ?? '', /^req_[a-z]+$/)
        assert.equal(error.headers?.get('x-should-retry'), 'false')
      })

      test('a rate limit is a RateLimitError with a retry time', async () => {
        const error = await thrownBy(() => call(client, modelOf(kind, 'limited')))
        assert.ok(error instanceof OpenAI.RateLimitError, String(error))
        assert.equal(error.code, 'rate_limited')
        assert.equal(error.type, 'rate_limit_error')
        const wait = Number(error.headers?.get('retry-after'))
        assert.ok(wait >= 1 && wait <= 7, `retry-after ${wait}`)
        assert.equal(error.headers?.get('x-should-retry'), 'true')
      })

      test('a stream that breaks off upstream throws, after the text that had arrived', async () => {
        if (!style.endsWith('streamed')) {
          const error = await thrownBy(() => call(client, modelOf(kind, 'breaks')))
          assert.ok(error instanceof OpenAI.InternalServerError, String(error))
          assert.equal(error.code, 'truncated')
          return
        }
        let content = ''
        const error = await thrownBy(async () => {
          const model = modelOf(kind, 'breaks')
          if (style.startsWith('chat'))
            for await (const chunk of await client.chat.completions.create({ model, messages: QUESTION, stream: true }))
              content += chunk.choices[0]?.delta.content ?? ''
          else
            for await (const event of await client.responses.create({ model, input: 'x', stream: true }))
              if (event.type === 'response.output_text.delta') content += event.delta
        })
        assert.ok(error instanceof OpenAI.APIError, String(error))
        assert.equal(error.code, 'stream_interrupted')
        assert.ok(content !== '' && TEXT.repeat(3).startsWith(content), content)
      })
    })

describe('sdk-node: retries of the SDK', () => {
  test('retries follow x-should-retry', async () => {
    const patient = new OpenAI({ baseURL: kinds.gateway.base, apiKey: 'any', maxRetries: 1 })
    const down = await thrownBy(() => patient.chat.completions.create({ model: 'chatty/down', messages: QUESTION }))
    assert.ok(down instanceof OpenAI.InternalServerError, String(down))
    assert.equal(down.headers?.get('x-should-retry'), 'true')
    const requests = () =>
      kinds.gateway.lines().filter(({ event, model }) => event === 'request' && model === 'chatty/down')
    await until('the SDK has sent two requests', () => requests().length === 2)

    const long = await thrownBy(() =>
      patient.chat.completions.create({ model: 'chatty/limited-for-long', messages: QUESTION }),
    )
    assert.ok(long instanceof OpenAI.RateLimitError, String(long))
    assert.equal(long.headers?.get('x-should-retry'), 'false')
    assert.ok(Number(long.headers?.get('retry-after')) > 60)
    assert.equal(kinds.calls('chat', 'limited-for-long'), 1)

    const bad = await thrownBy(() => patient.responses.create({ model: 'chatty/bad', input: 'x', top_logprobs: 0 }))
    assert.ok(bad instanceof OpenAI.BadRequestError, String(bad))
  })

  test('an unknown path is a NotFoundError', async () => {
    const error = await thrownBy(() => client.post('/chat/completion', { body: {} }))
    assert.ok(error instanceof OpenAI.NotFoundError, String(error))
    assert.match(error.message, /\/chat\/completions/)
  })

  test('a missing member is a BadRequestError that names it', async () => {
    // The SDK's types forbid this, but JavaScript programs do it.
    const body = { messages: QUESTION } as unknown as OpenAI.Chat.ChatCompletionCreateParamsNonStreaming
    const error = await thrownBy(() => client.chat.completions.create(body))
    assert.ok(error instanceof OpenAI.BadRequestError, String(error))
    assert.deepEqual([error.code, error.param], ['missing_required_parameter', 'model'])
  })

  test('a wrong key is an AuthenticationError; the right one works and is not forwarded', async () => {
    await using locked = await start({
      env: {
        AUTH_KEYS: 'client-key-one,client-key-two',
        CHATTY_API_KEY: 'sk-chatty-0000000000',
        CHATTY_BASE_URL: `${kinds.upstreams.chat.url}/v1`,
        CHATTY_MODELS: 'text',
      },
    })
    const ask = (apiKey: string) =>
      new OpenAI({ baseURL: locked.base, apiKey, maxRetries: 2 }).chat.completions.create({
        model: 'chatty/text',
        messages: QUESTION,
      })
    const error = await thrownBy(() => ask('client-key-three'))
    assert.ok(error instanceof OpenAI.AuthenticationError, String(error))
    assert.equal(error.code, 'invalid_api_key')
    assert.equal((await ask('client-key-two')).choices[0]?.message.content, TEXT)
    assert.equal(kinds.last('chat').key, 'sk-chatty-0000000000')
    assert.doesNotMatch(JSON.stringify(kinds.last('chat').headers), /client-key/)
  })

  // Last in this gateway: its upstream key is disabled afterwards.
  for (const kind of ALL)
    test(`a key that the ${kind} upstream rejects is not the client's error, and is not retried`, async () => {
      const patient = new OpenAI({ baseURL: kinds.gateway.base, apiKey: 'any', maxRetries: 2 })
      const error = await thrownBy(() =>
        patient.chat.completions.create({ model: modelOf(kind, 'locked'), messages: QUESTION }),
      )
      assert.ok(error instanceof OpenAI.InternalServerError, String(error))
      assert.equal(error.status, 502)
      assert.equal(error.code, 'upstream_auth')
      assert.equal(error.headers?.get('x-should-retry'), 'false')
      assert.equal(kinds.calls(kind, 'locked'), 1)
    })
})

test('sdk-node: models are listed, and each can be retrieved, with and without a slash', async () => {
  const models = (await client.models.list()).data
  const ids = models.map(({ id }) => id)
  for (const id of ['text', 'chatty/text', 'responder/text', 'anthropic/text']) assert.ok(ids.includes(id), id)
  for (const one of models) {
    assert.equal(one.object, 'model')
    assert.deepEqual(await client.models.retrieve(one.id), one)
  }
  assert.ok(ids.includes('chatty/org/deep'), ids.join(', '))
  const error = await thrownBy(() => client.models.retrieve('chatty/nowhere/at-all'))
  assert.ok(error instanceof OpenAI.NotFoundError, String(error))
})
