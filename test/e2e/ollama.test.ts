/** The official SDKs with an upstream that uses Ollama's own format. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { isObject, type JsonObject, list, object, text } from '../../src/core/json.ts'
import { problemsOf } from '../support/schemas.ts'
import type { Act, UpstreamRequest } from '../support/upstream.ts'
import { start } from './support/process.ts'
import { CITIES, DONE, QUESTION, startConversation, WAYS, weather } from './support/speakers.ts'

const MODEL = 'ollama/qwen3:14b'
const THOUGHT = 'I need the weather.'
const PNG = 'iVBORw0KGgo='

// ── An upstream like Ollama ──────────────────────────────────────────────────────────────────────────────────────

const head = { model: 'qwen3:14b', created_at: '2026-11-21T17:58:55.337823Z' }
const COUNTS = { prompt_eval_count: 20, eval_count: 37, total_duration: 23_595_672_042 }

/**
 * The model: returns calls for the weather of two cities, without ids as older servers do. After both results: text that
 * repeats them.
 */
const messagesFor = ({ json }: UpstreamRequest): JsonObject[] => {
  const request = list(json.messages).filter(isObject)
  const results = request.flatMap((message) => (message.role === 'tool' ? [String(message.content)] : []))
  if (json.tools === undefined) return [{ content: 'Hello ' }, { content: 'thère.' }]
  if (results.length > 0) return [{ content: `It is ${results.join(' and ')}.` }]
  return [
    ...THOUGHT.split(/(?<= )/).map((thinking) => ({ content: '', thinking })),
    ...CITIES.map((city) => ({
      content: '',
      tool_calls: [{ function: { name: 'get_weather', arguments: { city } } }],
    })),
  ]
}

const whole = (request: UpstreamRequest): JsonObject => {
  const parts = messagesFor(request)
  const join = (name: string) => parts.map((message) => text(message[name]) ?? '').join('')
  const tool_calls = parts.flatMap((message) => list(message.tool_calls))
  const message = { role: 'assistant', content: join('content'), thinking: join('thinking'), tool_calls }
  return { ...head, message, done: true, done_reason: 'stop', ...COUNTS }
}

const pieces = (request: UpstreamRequest): string[] =>
  [
    ...messagesFor(request).map((message) => ({ ...head, message: { role: 'assistant', ...message }, done: false })),
    { ...head, message: { role: 'assistant', content: '' }, done: true, done_reason: 'stop', ...COUNTS },
  ].map((line) => `${JSON.stringify(line)}\n`)

const LINES = { 'content-type': 'application/x-ndjson' }

const script = (request: UpstreamRequest): Act => {
  if (request.method === 'GET') return { do: 'answer', body: { object: 'list', data: [{ id: 'qwen3:14b' }] } }
  const { model } = request.json
  if (model !== 'qwen3:14b')
    return { do: 'answer', status: 404, body: { error: `model "${model}" not found, try pulling it first` } }
  // Writes of 7 bytes split lines and characters.
  return request.stream
    ? { do: 'stream', headers: LINES, pieces: pieces(request), slice: 7 }
    : { do: 'answer', body: whole(request) }
}

const { upstream, gateway, speak, lastRequest } = await startConversation(script, MODEL, (url) => ({
  // The address as users of the compatible endpoint write it.
  OLLAMA_BASE_URL: `${url}/v1`,
  CIRCUIT_CONSECUTIVE_FAILURES: '1000',
  CIRCUIT_ERROR_THRESHOLD: '100',
}))

/** The messages of an upstream request, each in one line. */
const turns = (): string[] =>
  list(lastRequest().json.messages).map((entry) => {
    const message = object(entry) ?? {}
    const calls = list(message.tool_calls).map((call) => ` ${object(object(object(call)?.function)?.arguments)?.city}`)
    const thinking = message.thinking ? ` (${message.thinking})` : ''
    return `${message.role}${message.tool_name ? ` ${message.tool_name}` : ''}${calls.join('')}${thinking}: ${message.content}`
  })

const post = async (path: string, body: JsonObject) => {
  const response = await fetch(`${gateway.base}/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  return { response, body: JSON.parse(await response.text()) as JsonObject }
}

for (const { style, stream, way } of WAYS)
  describe(`ollama: ${way}`, () => {
    const ask = (prompt: string, tools: boolean, more: JsonObject = {}) => speak[style](prompt, { stream, tools, more })

    test('an answer', async () => {
      const { text, finish, tokens } = await ask(QUESTION, false)
      assert.deepEqual([text, finish, tokens], ['Hello thère.', 'stop', [20, 37]])
      const { path, headers, json } = lastRequest()
      assert.equal(path, '/api/chat')
      assert.equal(headers.authorization, undefined)
      assert.equal(problemsOf('ollama', 'ChatRequest', json), undefined)
      assert.deepEqual([json.model, json.stream, object(json.options)?.temperature], ['qwen3:14b', stream, 0.5])
      assert.deepEqual(turns(), ['system: Be brief.', `user: ${QUESTION}`])
    })

    test('calls and their results: ids are generated, results name their tools, reasoning is sent back', async () => {
      const first = await ask(QUESTION, true)
      assert.deepEqual([first.text, first.reasoning, first.finish], ['', THOUGHT, 'calls'])
      assert.deepEqual(
        first.calls.map(({ name, input }) => ({ name, input })),
        CITIES.map((city) => ({ name: 'get_weather', input: { city } })),
      )
      assert.equal(new Set(first.calls.map(({ id }) => id)).size, 2)
      const done = await first.next(weather, { more: 'And now?' })
      assert.deepEqual([done.text, done.finish], [DONE, 'stop'])
      assert.equal(problemsOf('ollama', 'ChatRequest', lastRequest().json), undefined)
      assert.deepEqual(turns(), [
        'system: Be brief.',
        `user: ${QUESTION}`,
        `assistant Paris Tokyo (${THOUGHT}): `,
        'tool get_weather: wet in Paris',
        'tool get_weather: dry in Tokyo',
        'user: And now?',
      ])
    })

    test('a model without tools: an invalid request, with Ollama’s own message', async () => {
      const words = 'registry.ollama.ai/library/gemma3:4b does not support tools'
      upstream.play(() => ({ do: 'answer', status: 400, body: { error: words } }))
      await assert.rejects(ask(QUESTION, true), /400.*does not support tools/s)
      upstream.play(script)
    })

    if (stream) {
      for (const ending of ['close', 'end'] as const)
        test(`broken in the middle (${ending}), it never looks complete`, async () => {
          upstream.play((request) => {
            const [first = '', second = ''] = pieces(request)
            return { do: 'stream', headers: LINES, pieces: [first, second.slice(0, 40)], ending, gap: 5 }
          })
          await assert.rejects(ask(QUESTION, false), /before the end of the response|ended before it was complete/)
          upstream.play(script)
        })

      test('an error line in the middle', async () => {
        const error = `${JSON.stringify({ error: 'the model runner has unexpectedly stopped' })}\n`
        upstream.play((request) => ({
          do: 'stream',
          headers: LINES,
          pieces: [...pieces(request).slice(0, 1), error],
          gap: 5,
        }))
        await assert.rejects(ask(QUESTION, false), /the model runner has unexpectedly stopped/)
        upstream.play(script)
      })

      test('an error as the first line of a 200', async () => {
        const error = `${JSON.stringify({ error: 'an error was encountered while running the model' })}\n`
        upstream.play(() => ({ do: 'stream', headers: LINES, pieces: [error] }))
        await assert.rejects(ask(QUESTION, false), /502.*an error was encountered while running the model/s)
        upstream.play(script)
      })
    }
  })

test('ollama: an unknown model', async () => {
  const { response, body } = await post('chat/completions', {
    model: 'ollama/nope',
    messages: [{ role: 'user', content: 'hi' }],
  })
  assert.equal(response.status, 404)
  assert.equal(object(body.error)?.code, 'model_not_found')
  assert.match(text(object(body.error)?.message) ?? '', /model "nope" not found, try pulling it first/)
})

const image = (url: string) => ({
  model: MODEL,
  messages: [
    {
      role: 'user',
      content: [
        { type: 'text', text: 'What?' },
        { type: 'image_url', image_url: { url } },
      ],
    },
  ],
})

test('ollama: an image in the request', async () => {
  const { response } = await post('chat/completions', image(`data:image/png;base64,${PNG}`))
  assert.equal(response.status, 200)
  assert.deepEqual(lastRequest().json.messages, [{ role: 'user', content: 'What?', images: [PNG] }])
})

test('ollama: an image URL, which no target supports, is an error', async () => {
  const before = upstream.requests.length
  const { response, body } = await post('chat/completions', image('https://x.example/a.png'))
  assert.deepEqual([response.status, object(body.error)?.code], [400, 'unsupported_parameter'])
  assert.equal(upstream.requests.length, before)
})

test('ollama: reasoning, a schema, and Ollama’s own members', async () => {
  const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
  const { response } = await post('chat/completions', {
    model: MODEL,
    messages: [{ role: 'user', content: 'hi' }],
    reasoning_effort: 'high',
    response_format: { type: 'json_schema', json_schema: { name: 'place', schema } },
    max_completion_tokens: 50,
    keep_alive: '1m',
    options: { num_ctx: 8_192 },
    tools: [{ type: 'function', function: { name: 'f' } }],
    tool_choice: 'required',
  })
  assert.equal(response.headers.get('x-headgate-dropped'), 'tool_choice')
  const { json } = lastRequest()
  assert.deepEqual(
    [json.think, json.format, json.options, json.keep_alive],
    ['high', { ...schema, title: 'place' }, { num_predict: 50, num_ctx: 8_192 }, '1m'],
  )
})

test('ollama: its OpenAI-compatible endpoint, if configured', async () => {
  await using other = await start({ env: { OLLAMA_BASE_URL: upstream.url, OLLAMA_STYLES: 'chat' } })
  upstream.play(() => ({ do: 'answer', body: { object: 'list', data: [] } }))
  await fetch(`${other.base}/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: 'hi' }], max_completion_tokens: 5 }),
  })
  upstream.play(script)
  assert.equal(lastRequest().path, '/v1/chat/completions')
  assert.equal(lastRequest().json.max_tokens, 5)
})
