/** The official SDKs with an upstream that validates as strictly as Mistral's API. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { isObject, type Json, type JsonObject, list, object, text } from '../../src/core/json.ts'
import { skipWithoutRecordings } from '../support/recordings.ts'
import { problemsOf } from '../support/schemas.ts'
import type { Act, UpstreamRequest } from '../support/upstream.ts'
import { CITIES, DONE, QUESTION, startConversation, WAYS, weather } from './support/speakers.ts'

const KEY = 'mistral-test-0123456789'
const MODEL = 'mistral/magistral-medium-latest'
const IDS = ['aB3dE6gH9', 'zY8xW5vU2']
const THOUGHT = 'I need the weather.'

// ── An upstream with Mistral's validation ───────────────────────────────────────────────────────────────────────────

/** Which roles may follow which (error code 3230). */
const FOLLOWS: { readonly [role: string]: readonly string[] } = {
  '': ['system', 'user'],
  system: ['system', 'user', 'assistant'],
  user: ['system', 'user', 'assistant'],
  assistant: ['assistant', 'user', 'tool'],
  tool: ['assistant', 'tool'],
}

const refusal = (json: JsonObject): JsonObject | undefined => {
  const wrong = skipWithoutRecordings ? undefined : problemsOf('mistral', 'ChatCompletionRequest', json)
  if (wrong) return { detail: [{ type: 'extra_forbidden', loc: ['body'], msg: wrong }] }
  const messages = list(json.messages).filter(isObject)
  let before = ''
  for (const message of messages) {
    const role = text(message.role) ?? ''
    if (!FOLLOWS[before]?.includes(role)) return flat('3230', `Unexpected role '${role}' after role '${before}'`)
    before = role
    for (const id of [message.tool_call_id, ...list(message.tool_calls).map((call) => object(call)?.id)])
      if (id !== undefined && !/^[a-zA-Z0-9]{9}$/.test(String(id)))
        return flat('3280', `Tool call id was ${id} but must be a-z, A-Z, 0-9, with a length of 9.`)
  }
  const last = messages.at(-1)
  return last?.role === 'user' || last?.role === 'tool' || last?.prefix === true
    ? undefined
    : flat('3230', 'Expected last role User or Tool (or Assistant with prefix True) for serving')
}

const flat = (code: string, message: string): JsonObject => ({
  object: 'error',
  message,
  type: 'invalid_request_message_order',
  param: null,
  code,
})

/**
 * The answer as stream deltas: content alternates between list and string, and calls are complete and without an index.
 */
const deltasFor = ({ json }: UpstreamRequest): { readonly deltas: readonly JsonObject[]; readonly reason: string } => {
  const messages = list(json.messages).filter(isObject)
  const results = messages.flatMap((message) => (message.role === 'tool' ? [String(message.content)] : []))
  const last = messages.at(-1)
  if (last?.prefix === true) return { deltas: [{ content: String(last.content) }, { content: 'wet.' }], reason: 'stop' }
  if (json.tools === undefined) return { deltas: [{ content: 'Hello ' }, { content: 'there.' }], reason: 'stop' }
  if (results.length > 0) return { deltas: [{ content: `It is ${results.join(' and ')}.` }], reason: 'stop' }
  const calls = CITIES.map((city, at) => ({
    id: IDS[at] ?? '',
    function: { name: 'get_weather', arguments: JSON.stringify({ city }) },
  }))
  const thinking = [...THOUGHT.split(/(?<= )/)].map((piece) => ({
    content: [{ type: 'thinking', thinking: [{ type: 'text', text: piece }] }],
  }))
  return {
    deltas: [
      ...thinking,
      { content: [{ type: 'thinking', thinking: [] }] },
      { content: 'Let me look.' },
      { tool_calls: calls },
    ],
    reason: 'tool_calls',
  }
}

const head = { id: 'c0ffee', created: 1_787_150_114, model: 'magistral-medium-latest' }
const usage = {
  prompt_tokens: 20,
  total_tokens: 57,
  completion_tokens: 37,
  prompt_tokens_details: { cached_tokens: 5 },
}

const pieces = (request: UpstreamRequest): string[] => {
  const { deltas, reason } = deltasFor(request)
  const chunks = [{ role: 'assistant', content: '' }, ...deltas, { content: '' }]
  return [
    ...chunks.map((delta, at): JsonObject => {
      const last = at === chunks.length - 1
      const choice = { index: 0, delta, finish_reason: last ? reason : null }
      return {
        ...head,
        object: 'chat.completion.chunk',
        choices: [choice],
        ...(last && { usage }),
        p: 'abcdefghij'.slice(at),
      }
    }),
  ].map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`)
}

/** The same deltas as one message, with reasoning and text in one list. */
const whole = (request: UpstreamRequest): JsonObject => {
  const { deltas, reason } = deltasFor(request)
  const content = deltas.flatMap(({ content }): readonly Json[] =>
    typeof content === 'string' ? [{ type: 'text', text: content }] : list(content),
  )
  const tool_calls = deltas.flatMap((delta) => list(delta.tool_calls))
  const message = { role: 'assistant', content, tool_calls: tool_calls.length > 0 ? tool_calls : null }
  return { ...head, object: 'chat.completion', choices: [{ index: 0, message, finish_reason: reason }], usage }
}

const script = (request: UpstreamRequest): Act => {
  if (request.method === 'GET') return { do: 'answer', body: { data: [] } }
  const refused = refusal(request.json)
  if (refused) return { do: 'answer', status: 'detail' in refused ? 422 : 400, body: refused }
  if (!request.stream) return { do: 'answer', body: whole(request) }
  return { do: 'stream', pieces: [...pieces(request), 'data: [DONE]\n\n'], slice: 11 }
}

const { upstream, gateway, speak, lastRequest } = await startConversation(script, MODEL, (url) => ({
  MISTRAL_API_KEY: KEY,
  MISTRAL_BASE_URL: `${url}/v1`,
  CIRCUIT_CONSECUTIVE_FAILURES: '1000',
  CIRCUIT_ERROR_THRESHOLD: '100',
}))

/** The messages of an upstream request, each in one line. */
const turns = (): string[] =>
  list(lastRequest().json.messages).map((entry) => {
    const message = object(entry) ?? {}
    const words =
      text(message.content) ??
      list(message.content)
        .map((chunk) => JSON.stringify(chunk))
        .join('')
    const calls = list(message.tool_calls).map((call) => ` ${object(call)?.id}`)
    return `${message.role}${message.tool_call_id ? ` ${message.tool_call_id}` : ''}${calls.join('')}: ${words}`
  })

const THINKING = `{"type":"thinking","thinking":[{"type":"text","text":"${THOUGHT}"}]}`

for (const { style, stream, way } of WAYS)
  describe(`mistral: ${way}`, () => {
    const ask = (prompt: string, tools: boolean, more: JsonObject = {}) => speak[style](prompt, { stream, tools, more })

    test('an answer', async () => {
      const { text, finish, tokens } = await ask(QUESTION, false)
      assert.deepEqual([text, finish], ['Hello there.', 'stop'])
      // Messages reports cached tokens separately.
      assert.deepEqual(tokens, style === 'messages' ? [15, 37] : [20, 37])
      const { path, headers, json } = lastRequest()
      assert.equal(path, '/v1/chat/completions')
      assert.equal(headers.authorization, `Bearer ${KEY}`)
      assert.deepEqual([json.model, json.temperature], ['magistral-medium-latest', 0.5])
      assert.equal(json.stream_options, undefined)
      assert.deepEqual(turns(), ['system: Be brief.', `user: ${QUESTION}`])
    })

    test('parallel calls and their results: its own ids, and its reasoning sent back', async () => {
      const first = await ask(QUESTION, true)
      assert.deepEqual([first.text, first.reasoning, first.finish], ['Let me look.', THOUGHT, 'calls'])
      assert.deepEqual(
        first.calls,
        CITIES.map((city, at) => ({ id: IDS[at], name: 'get_weather', input: { city } })),
      )
      const done = await first.next(weather)
      assert.deepEqual([done.text, done.finish], [DONE, 'stop'])
      assert.deepEqual(turns(), [
        'system: Be brief.',
        `user: ${QUESTION}`,
        `assistant ${IDS.join(' ')}: ${THINKING}{"type":"text","text":"Let me look."}`,
        `tool ${IDS[0]}: wet in Paris`,
        `tool ${IDS[1]}: dry in Tokyo`,
      ])
      // A user message directly after a result is accepted.
      const more = await first.next(weather, { more: 'And now?' })
      assert.equal(more.text, DONE)
      assert.deepEqual(turns().slice(-2), ['assistant: OK.', 'user: And now?'])
    })

    test('a rejection is an invalid request, with Mistral’s own message', async () => {
      upstream.play(() => ({ do: 'answer', status: 422, body: { detail: [{ loc: ['body', 'tools'], msg: 'No.' }] } }))
      await assert.rejects(ask(QUESTION, false), /422.*body\.tools: No\./s)
      upstream.play(script)
    })

    test('an unsupported setting is named', async () => {
      const path = { chat: 'chat/completions', responses: 'responses', messages: 'messages' }[style]
      const body = {
        model: MODEL,
        stream,
        ...(style === 'responses' ? { input: 'hi' } : { messages: [{ role: 'user', content: 'hi' }] }),
        ...(style === 'chat' ? { logit_bias: { 5: 1 } } : {}),
        ...(style === 'responses' ? { top_logprobs: 2 } : {}),
        ...(style === 'messages' ? { max_tokens: 9, top_k: 3 } : {}),
      }
      const response = await fetch(`${gateway.base}/${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      })
      await response.text()
      assert.equal(response.status, 200)
      const named = { chat: 'logit_bias', responses: 'top_logprobs', messages: 'top_k' }[style]
      assert.equal(response.headers.get('x-headgate-dropped'), named)
    })

    if (stream) {
      for (const ending of ['close', 'end'] as const)
        test(`broken in the middle (${ending}), it never looks complete`, async () => {
          upstream.play((request) => ({ do: 'stream', pieces: pieces(request).slice(0, 2), ending, gap: 5 }))
          await assert.rejects(
            ask(QUESTION, false),
            /before the end of the response|answer ended before it was complete/,
          )
          upstream.play(script)
        })

      test('an error in the middle', async () => {
        const error = `data: ${JSON.stringify(flat('3900', 'The model went away.'))}\n\n`
        upstream.play((request) => ({ do: 'stream', pieces: [...pieces(request).slice(0, 2), error], gap: 5 }))
        await assert.rejects(ask(QUESTION, false), /The model went away\./)
        upstream.play(script)
      })
    }
  })

test('mistral: a prefilled answer from a Messages client', async () => {
  const response = await fetch(`${gateway.base}/messages`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      model: MODEL,
      max_tokens: 9,
      messages: [
        { role: 'user', content: 'How is the weather?' },
        { role: 'assistant', content: 'It is ' },
      ],
    }),
  })
  const body: JsonObject = JSON.parse(await response.text())
  assert.deepEqual(
    list(body.content).map((block) => object(block)?.text),
    ['wet.'],
  )
  assert.equal(object(list(lastRequest().json.messages).at(-1))?.prefix, true)
})

test('mistral: no log line contains the key', async () => {
  await gateway.logged()
  assert.ok(!gateway.output().includes(KEY))
})
