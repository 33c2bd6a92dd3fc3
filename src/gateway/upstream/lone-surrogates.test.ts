import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openaiEmbeddingsCall } from '../../../test/support/embeddings-call.ts'
import { CapturedReply, chatAnswer, gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import type { ScriptedCall } from '../../../test/support/still-world.ts'
import { ANONYMOUS } from '../../core/accounts.ts'
import type { ClientProtocolName, UpstreamProtocolName } from '../../core/chat.ts'
import { serveEmbeddings } from '../handlers/embeddings.ts'
import { createResponse } from '../responses/create-response.ts'

/** Parses as strictly as the servers of Anthropic, DeepSeek and Cerebras do. Their words, from public reports. */
const REFUSALS: Readonly<Record<string, string>> = {
  'anthropic-messages':
    '{"type":"error","error":{"type":"invalid_request_error","message":"The request body is not valid JSON: no low surrogate in string: line 1 column 120 (char 119)"}}',
  'openai-chat':
    '{"error":{"message":"Failed to parse the request body as JSON: messages[319].content: lone leading surrogate in hex escape","type":"invalid_request_error"}}',
  'openai-responses': '{"message":": Invalid JSON: lone leading surrogate in hex escape","code":"wrong_api_format"}',
  gemini: '{"error":{"code":400,"message":"Invalid JSON payload received.","status":"INVALID_ARGUMENT"}}',
}

const ANSWERS: Readonly<Record<string, string>> = {
  'openai-chat': chatAnswer.whole('ok'),
  'anthropic-messages':
    '{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":1}}',
  'openai-responses':
    '{"id":"resp_1","object":"response","created_at":1,"status":"completed","model":"m","output":[{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"ok","annotations":[]}]}],"usage":{"input_tokens":3,"output_tokens":1,"total_tokens":4}}',
  gemini:
    '{"candidates":[{"content":{"role":"model","parts":[{"text":"ok"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":1,"totalTokenCount":4}}',
}

/** Whether a JSON text has an escape that is half of a pair, in strings and in strings that are JSON. */
const hasHalf = (value: unknown): boolean => {
  if (typeof value === 'string') {
    if (!value.isWellFormed()) return true
    try {
      return value.startsWith('{') && hasHalf(JSON.parse(value))
    } catch {
      return false
    }
  }
  if (typeof value !== 'object' || value === null) return false
  return Object.entries(value).some(([name, inner]) => !name.isWellFormed() || hasHalf(inner))
}

const strict = (wire: string) => (asked: ScriptedCall) =>
  hasHalf(JSON.parse(asked.body ?? ''))
    ? respondWith.json(asked, 400, REFUSALS[wire] ?? '')
    : respondWith.json(asked, 200, ANSWERS[wire] ?? '')

const CUT = String.raw`cut \ud83d here, whole \ud83d\ude00`
const TOOL = (schema: string) =>
  `{"type":"object","properties":{"q":{"type":"string","description":"${CUT}"}},"required":["q"]${schema}}`

/** A conversation with a half in the texts, results, arguments and tools, in each style. */
const bodies: Readonly<Record<string, { readonly body: string; readonly paths: readonly string[] }>> = {
  'openai-chat': {
    body: `{"model":"m","max_tokens":50,"messages":[{"role":"system","content":"${CUT}"},{"role":"user","content":[{"type":"text","text":"${CUT}"}]},{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\\"q\\":\\"\\\\ud83d\\"}"}}]},{"role":"tool","tool_call_id":"call_1","content":"${CUT}"}],"tools":[{"type":"function","function":{"name":"f","parameters":${TOOL('')}}}]}`,
    paths: [
      'messages[0].content',
      'messages[1].content[0].text',
      'messages[2].tool_calls[0].function.arguments',
      'messages[3].content',
      'tools[0].function.parameters.properties.q.description',
    ],
  },
  'anthropic-messages': {
    body: `{"model":"m","max_tokens":50,"system":"${CUT}","messages":[{"role":"user","content":"${CUT}"},{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"f","input":{"q\\udc00":"\\uD83D"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"${CUT}"}]}]}],"tools":[{"name":"f","input_schema":${TOOL('')}}]}`,
    paths: [
      'system',
      'messages[0].content',
      'messages[1].content[0].input.q\ufffd',
      'messages[2].content[0].content[0].text',
      'tools[0].input_schema.properties.q.description',
    ],
  },
  'openai-responses': {
    body: `{"model":"m","store":false,"instructions":"${CUT}","input":[{"role":"user","content":"${CUT}"},{"type":"function_call","call_id":"call_1","name":"f","arguments":"{\\"q\\":\\"\\\\ud83d\\"}"},{"type":"function_call_output","call_id":"call_1","output":"${CUT}"}],"tools":[{"type":"function","name":"f","parameters":${TOOL('')}}]}`,
    paths: ['instructions', 'input[0].content', 'input[1].arguments', 'input[2].output'],
  },
  'openai-completions': { body: `{"model":"m","prompt":"${CUT}"}`, paths: ['prompt'] },
}

/** Other characters than ASCII are percent-encoded in a header. */
const printable = (path: string) => path.replace(/[^ -~]/g, encodeURIComponent)

for (const [style, { body, paths }] of Object.entries(bodies))
  for (const wire of Object.keys(ANSWERS))
    test(`lone surrogates: a strict ${wire} server answers a ${style} client`, async () => {
      // The keys of `ANSWERS` and `bodies` are names of protocols.
      const speaks = [{ protocol: wire as UpstreamProtocolName }]
      const { send, world } = gatewayHarness([instance('a', ['k1'], { speaks })], strict(wire))
      const reply = send(body, style as ClientProtocolName)
      await world.advance(0)
      assert.equal(reply.status, 200, reply.text)
      assert.match(world.calls[0]?.body ?? '', /cut \ufffd here, whole (😀|\\ud83d\\ude00)/)
      const dropped = reply.headers['x-headgate-dropped']?.split(', ') ?? []
      for (const path of paths) assert.ok(dropped.includes(printable(path)), `${path} in ${dropped}`)
    })

test('lone surrogates: whole pairs pass byte for byte', async () => {
  const { send, world } = gatewayHarness([instance('a')], strict('openai-chat'))
  const body = String.raw`{"model":"m",  "messages":[{"role":"user","content":"whole \ud83d\ude00, text \\ud83d"}]}`
  const reply = send(body)
  await world.advance(0)
  assert.equal(world.calls[0]?.body, body)
  assert.equal(reply.headers['x-headgate-dropped'], undefined)
})

test('lone surrogates: a body of several pieces is mended too', async () => {
  const { send, world } = gatewayHarness([instance('a')], strict('openai-chat'))
  const long = 'x😀'.repeat(300_000)
  const reply = send(
    String.raw`{"model":"m","seed":12345678901234567890,"messages":[{"role":"user","content":"\ud83d${long}"}]}`,
  )
  await world.advance(0)
  assert.equal(reply.status, 200, reply.text)
  assert.equal(reply.headers['x-headgate-dropped'], 'messages[0].content')
  assert.match(world.calls[0]?.body ?? '', /^\{"model":"m","seed":12345678901234567890,.*\ufffdx😀/)
})

test('lone surrogates: a stored turn with a half can be continued', async () => {
  const speaks = [{ protocol: 'anthropic-messages' as const }]
  const { gateway, store, world } = gatewayHarness([instance('a', ['k1'], { speaks })], strict('anthropic-messages'))
  await store.put({
    id: 'resp_hg1',
    owner: '',
    previous: null,
    status: 'completed',
    created: 1,
    input: String.raw`[{"type":"message","role":"user","content":"\ud83d"}]`,
    response: '{"output":[]}',
    events: null,
    items: [],
    maker: null,
  })
  const reply = new CapturedReply()
  const body = String.raw`{"model":"m","previous_response_id":"resp_hg1","input":"and \ud83d"}`
  const received = { ...REQUEST, path: '/v1/responses', body: { text: body } }
  const done = createResponse(gateway, received, reply)
  await world.advance(0)
  await done
  assert.equal(reply.status, 200, reply.text)
  assert.equal(reply.headers['x-headgate-dropped'], 'input, previous_response_id')
})

const REQUEST = {
  id: 'req_test',
  method: 'POST',
  query: '',
  headers: () => undefined,
  client: ANONYMOUS,
}

test('lone surrogates: embeddings', async () => {
  const more = { embeds: { protocol: 'openai-embeddings', models: ['m'] } } as const
  const { gateway, world } = gatewayHarness([instance('a', ['k1'], more)], (asked) =>
    hasHalf(JSON.parse(asked.body ?? ''))
      ? respondWith.json(asked, 400, REFUSALS['openai-chat'] ?? '')
      : respondWith.json(
          asked,
          200,
          '{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1]},{"object":"embedding","index":1,"embedding":[2]}],"model":"m","usage":{"prompt_tokens":1,"total_tokens":1}}',
        ),
  )
  const reply = new CapturedReply()
  const text = String.raw`{"model":"m","input":["a","\ud83d"],"encoding_format":"float"}`
  const done = serveEmbeddings(
    gateway,
    openaiEmbeddingsCall({ ...REQUEST, path: '/v1/embeddings', body: { text } }, reply),
  )
  await world.advance(0)
  await done
  assert.equal(reply.status, 200, reply.text)
  assert.equal(reply.headers['x-headgate-dropped'], 'input[1]')
})
