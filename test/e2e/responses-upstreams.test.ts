/**
 * A responses client with vendors that also have a responses API: supported requests pass unchanged, a conversation
 * continues although the vendor stores nothing, and requests the endpoint does not support use another format.
 */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import OpenAI from 'openai'
import { isObject, list, text } from '../../src/core/json.ts'
import { recordingsOf, requireRecordings, skipWithoutRecordings } from '../support/recordings.ts'
import { startUpstream, type Upstream, type UpstreamRequest } from '../support/upstream.ts'
import { type Started, start } from './support/process.ts'

requireRecordings()

/** DeepSeek's own streams: one with a tool call, one that answers its result. */
const recorded = (id: string): readonly string[] => {
  const found = recordingsOf('responses').find((one) =>
    one.id.startsWith(`deepseek-responses-test-deepseek-responses-${id}`),
  )
  assert.ok(found?.chunks)
  return found.chunks.map((chunk) => `${chunk}\n\n`)
}

const hello = {
  id: 'c',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'from chat' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
}
const message = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'm',
  content: [{ type: 'text', text: 'from messages' }],
  stop_reason: 'end_turn',
  stop_sequence: null,
  usage: { input_tokens: 1, output_tokens: 1 },
}

let upstream: Upstream
let gateway: Started
before(async () => {
  upstream = await startUpstream(({ method, path, json }: UpstreamRequest) => {
    if (method === 'GET') return { do: 'answer', body: { data: [] } }
    if (path.endsWith('/chat/completions')) return { do: 'answer', body: hello }
    if (path.endsWith('/messages')) return { do: 'answer', body: message }
    const answered = list(json.input).some((item) => isObject(item) && item.type === 'function_call_output')
    return {
      do: 'stream',
      pieces: recorded(answered ? 'function-tool-stream-2c48e0df' : 'function-tool-stream-174f9e3d'),
    }
  })
  gateway = await start({
    env: {
      DEEPSEEK_API_KEY: 'sk-deepseek',
      DEEPSEEK_BASE_URL: upstream.url,
      MOONSHOT_API_KEY: 'sk-moonshot',
      MOONSHOT_BASE_URL: `${upstream.url}/v1`,
      MOONSHOT_STYLES: 'chat,messages',
    },
  })
})
after(async () => {
  await gateway.stop()
  await upstream.close()
})

const lastRequest = (): UpstreamRequest => {
  const last = upstream.requests.findLast(({ method }) => method === 'POST')
  assert.ok(last)
  return last
}

const tools: OpenAI.Responses.Tool[] = [
  {
    type: 'function',
    name: 'get_temperature',
    strict: false,
    parameters: { type: 'object', properties: { city: { type: 'string' } } },
  },
]

test('responses pass to an upstream without storage; the next turn sends the whole conversation', {
  skip: skipWithoutRecordings,
}, async () => {
  const client = new OpenAI({ baseURL: gateway.base, apiKey: 'any', maxRetries: 0 })
  const model = 'deepseek/deepseek-v4-flash'
  const first = await client.responses
    .stream({ model, tools, input: 'What is the temperature in Tokyo?', store: true })
    .finalResponse()
  assert.equal(lastRequest().path, '/responses')
  assert.equal(lastRequest().json.store, undefined)
  assert.deepEqual(
    first.output.map(({ type }) => type),
    ['reasoning', 'function_call'],
  )
  assert.equal((await client.responses.retrieve(first.id)).id, first.id)
  const call = first.output.find((item) => item.type === 'function_call')
  assert.ok(call)

  const second = await client.responses
    .stream({
      model,
      tools,
      previous_response_id: first.id,
      input: [{ type: 'function_call_output', call_id: call.call_id, output: '21.0' }],
    })
    .finalResponse()
  const { json } = lastRequest()
  assert.equal(json.previous_response_id, undefined)
  assert.deepEqual(
    list(json.input).map((item) => isObject(item) && text(item.type)),
    ['message', 'reasoning', 'function_call', 'function_call_output'],
  )
  assert.match(second.output_text, /21/)
  assert.equal(second.previous_response_id, first.id)
})

test('a request with members that the endpoint ignores uses chat completions', {
  skip: skipWithoutRecordings,
}, async () => {
  const client = new OpenAI({ baseURL: gateway.base, apiKey: 'any', maxRetries: 0 })
  const { data, response } = await client.responses
    .create({ model: 'deepseek/m', input: 'x', tools: [{ type: 'custom', name: 'sql' }] })
    .withResponse()
  assert.equal(lastRequest().path, '/chat/completions')
  assert.equal(data.output_text, 'from chat')
  assert.equal(response.headers.get('x-headgate-dropped'), null)
})

test('a configured format, at the host and not below the base URL', async () => {
  const answer = await fetch(`${gateway.base}/messages`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'moonshot/m', max_tokens: 9, messages: [{ role: 'user', content: 'x' }] }),
  })
  assert.equal(answer.status, 200)
  assert.equal(lastRequest().path, '/anthropic/v1/messages')
  assert.equal(lastRequest().headers.authorization, 'Bearer sk-moonshot')
})
