import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chatAnswer, gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import type { ScriptedCall } from '../../../test/support/still-world.ts'
import type { ClientProtocolName } from '../../core/chat.ts'
import { fail } from '../../core/failure.ts'
import type { Instance } from '../../core/provider.ts'

const aggregating = (id: string, speaks: Instance['speaks'] = [{ protocol: 'openai-chat' }]): Instance => ({
  ...instance(id, ['k1'], { speaks }),
  aggregate: true,
})

const question = (more: object = {}) => ({
  model: 'anything',
  messages: [{ role: 'user', content: 'hello' }],
  max_tokens: 100,
  ...more,
})

const bodyOf = ({ body }: ScriptedCall) => JSON.parse(body ?? '{}')
const host = ({ url }: ScriptedCall) => new URL(url).host.split('.')[0]
const sse = (events: readonly object[]) =>
  events.map((event) => `event: ${(event as { type?: string }).type}\ndata: ${JSON.stringify(event)}\n\n`).join('')
const chunk = (choices: readonly object[], more: object = {}) =>
  `data: ${JSON.stringify({ id: 'c1', object: 'chat.completion.chunk', created: 7, model: 'm-1', system_fingerprint: 'fp', service_tier: 'default', choices, ...more })}\n\n`
const usage = { prompt_tokens: 3, completion_tokens: 9, total_tokens: 12 }

// ── Aggregation ──────────────────────────────────────────────────────────────────────────────────────────

test('aggregate: requests a stream with usage, and keeps the members of the client', async () => {
  const { send, world } = gatewayHarness([aggregating('a')], (asked) =>
    respondWith.stream(asked, chatAnswer.stream('Hel', 'lo')),
  )
  const reply = send('{ "model":"x", "seed":9007199254740993, "messages":[{"role":"user","content":"hi"}] }')
  await world.advance(0)
  const [asked] = world.calls
  assert.ok(asked)
  assert.equal(asked.headers.accept, 'text/event-stream')
  assert.match(asked.body ?? '', /"seed":9007199254740993/)
  assert.equal(bodyOf(asked).stream, true)
  assert.equal(asked.buffered, true)
  assert.deepEqual(bodyOf(asked).stream_options, { include_usage: true })
  assert.equal(reply.headers['content-type'], 'application/json')
  assert.equal(reply.json.choices[0].message.content, 'Hello')
})

test('aggregate: chat keeps all choices, parallel calls, logprobs, refusals and the provider', async () => {
  const logprobs = (token: string) => ({
    content: [{ token, logprob: -1, bytes: null, top_logprobs: [] }],
    refusal: null,
  })
  const call = (index: number, more: object) => ({ tool_calls: [{ index, ...more }] })
  const stream = [
    chunk([
      { index: 0, delta: { role: 'assistant', content: '', refusal: null }, logprobs: null, finish_reason: null },
    ]),
    chunk([{ index: 1, delta: { role: 'assistant', content: 'B' }, logprobs: logprobs('B'), finish_reason: null }]),
    chunk([{ index: 0, delta: { content: 'A' }, logprobs: logprobs('A'), finish_reason: null }]),
    chunk([{ index: 0, delta: { content: 'a' }, logprobs: logprobs('a'), finish_reason: null }]),
    chunk([
      {
        index: 2,
        delta: call(0, { id: 'x', type: 'function', function: { name: 'f', arguments: '' } }),
        finish_reason: null,
      },
    ]),
    chunk([
      {
        index: 2,
        delta: call(1, { id: 'y', type: 'function', function: { name: 'g', arguments: '{"b"' } }),
        finish_reason: null,
      },
    ]),
    chunk([{ index: 2, delta: call(0, { function: { arguments: '{"n":9007199254740993}' } }), finish_reason: null }]),
    chunk([{ index: 2, delta: call(1, { function: { arguments: ':2}' } }), finish_reason: null }]),
    chunk([{ index: 3, delta: { role: 'assistant', content: '', refusal: 'No.' }, finish_reason: null }]),
    chunk([{ index: 1, delta: {}, finish_reason: 'length' }]),
    chunk([{ index: 0, delta: {}, finish_reason: 'stop' }]),
    chunk([{ index: 2, delta: {}, finish_reason: 'tool_calls' }]),
    chunk([{ index: 3, delta: {}, finish_reason: 'stop' }]),
    chunk([], { usage }),
    'data: [DONE]\n\n',
  ].join('')
  const { send, world } = gatewayHarness([aggregating('a')], (asked) => respondWith.stream(asked, stream))
  const reply = send(question({ n: 4, logprobs: true }))
  await world.advance(0)
  const token = (name: string) => ({ token: name, logprob: -1, bytes: null, top_logprobs: [] })
  assert.deepEqual(reply.json, {
    id: 'c1',
    object: 'chat.completion',
    created: 7,
    model: 'm-1',
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: 'Aa', refusal: null },
        logprobs: { content: [token('A'), token('a')], refusal: null },
        finish_reason: 'stop',
      },
      {
        index: 1,
        message: { role: 'assistant', content: 'B', refusal: null },
        logprobs: { content: [token('B')], refusal: null },
        finish_reason: 'length',
      },
      {
        index: 2,
        message: {
          role: 'assistant',
          content: null,
          refusal: null,
          tool_calls: [
            { id: 'x', type: 'function', function: { name: 'f', arguments: '{"n":9007199254740993}' } },
            { id: 'y', type: 'function', function: { name: 'g', arguments: '{"b":2}' } },
          ],
        },
        logprobs: null,
        finish_reason: 'tool_calls',
      },
      {
        index: 3,
        message: { role: 'assistant', content: null, refusal: 'No.' },
        logprobs: null,
        finish_reason: 'stop',
      },
    ],
    system_fingerprint: 'fp',
    service_tier: 'default',
    usage,
  })
})

const message = (content: readonly object[], more: object = {}) => ({
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'claude',
  content,
  stop_reason: null,
  stop_sequence: null,
  usage: { input_tokens: 3, output_tokens: 1, service_tier: 'standard' },
  ...more,
})
const messagesStream = sse([
  { type: 'message_start', message: message([]) },
  { type: 'content_block_start', index: 0, content_block: { type: 'thinking', thinking: '', signature: '' } },
  { type: 'content_block_delta', index: 0, delta: { type: 'thinking_delta', thinking: 'Hm' } },
  { type: 'content_block_delta', index: 0, delta: { type: 'thinking_delta', thinking: '.' } },
  { type: 'content_block_delta', index: 0, delta: { type: 'signature_delta', signature: 'sig' } },
  { type: 'content_block_stop', index: 0 },
  { type: 'ping' },
  { type: 'content_block_start', index: 1, content_block: { type: 'text', text: '' } },
  { type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text: 'Hel' } },
  { type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text: 'lo' } },
  {
    type: 'content_block_delta',
    index: 1,
    delta: { type: 'citations_delta', citation: { type: 'page_location', cited_text: 'x' } },
  },
  { type: 'content_block_stop', index: 1 },
  { type: 'content_block_start', index: 2, content_block: { type: 'tool_use', id: 't1', name: 'f', input: {} } },
  { type: 'content_block_delta', index: 2, delta: { type: 'input_json_delta', partial_json: '{"n":90071' } },
  { type: 'content_block_delta', index: 2, delta: { type: 'input_json_delta', partial_json: '99254740993}' } },
  { type: 'content_block_stop', index: 2 },
  {
    type: 'message_delta',
    delta: { stop_reason: 'tool_use', stop_sequence: null, container: { id: 'c' } },
    usage: { output_tokens: 12 },
    context_management: { applied_edits: [] },
  },
  { type: 'message_stop' },
  { type: 'content_block_start', index: 3, content_block: { type: 'text', text: 'behind the end' } },
])

test('aggregate: messages keep signed reasoning, citations, calls and final members', async () => {
  const { send, world } = gatewayHarness([aggregating('a', [{ protocol: 'anthropic-messages' }])], (asked) =>
    respondWith.stream(asked, messagesStream),
  )
  const reply = send(question(), 'anthropic-messages')
  await world.advance(3_000)
  assert.match(reply.text, /"input":\{"n":9007199254740993\}/)
  assert.deepEqual(reply.json, {
    ...message([
      { type: 'thinking', thinking: 'Hm.', signature: 'sig' },
      { type: 'text', text: 'Hello', citations: [{ type: 'page_location', cited_text: 'x' }] },
      // Not representable as a double; the sent value is above.
      { type: 'tool_use', id: 't1', name: 'f', input: { n: 9007199254740992 } },
    ]),
    stop_reason: 'tool_use',
    container: { id: 'c' },
    context_management: { applied_edits: [] },
    usage: { input_tokens: 3, output_tokens: 12, service_tier: 'standard' },
  })
})

const crossed: readonly (readonly [
  ClientProtocolName,
  Instance['speaks'][number]['protocol'],
  string,
  (json: never) => unknown,
])[] = [
  [
    'openai-chat',
    'anthropic-messages',
    messagesStream,
    (json: {
      choices: { message: { content: string; tool_calls: { function: object }[] }; finish_reason: string }[]
    }) => [
      json.choices[0]?.message.content,
      json.choices[0]?.message.tool_calls[0]?.function,
      json.choices[0]?.finish_reason,
    ],
  ],
]

for (const [client, upstream, stream, look] of crossed)
  test(`aggregate: ${client} from a stream of ${upstream}`, async () => {
    const { send, world } = gatewayHarness([aggregating('a', [{ protocol: upstream }])], (asked) =>
      respondWith.stream(asked, stream),
    )
    const reply = send(question(), client)
    await world.advance(3_000)
    assert.equal(bodyOf(world.calls[0] as ScriptedCall).stream, true)
    // The check expects the client's own format.
    assert.deepEqual(look(reply.json as never), [
      'Hello',
      { name: 'f', arguments: '{"n":9007199254740993}' },
      'tool_calls',
    ])
  })

// ── Failures ────────────────────────────────────────────────────────────────────────────────────────────────

const breaks: readonly (readonly [string, (asked: ScriptedCall) => void, number])[] = [
  ['a clean end', (asked) => asked.end(), 0],
  ['a reset', (asked) => asked.fail(fail('reset', 'connection reset')), 0],
  ['an error', (asked) => asked.send('data: {"error":{"message":"no","type":"server_error"}}\n\n'), 0],
  ['silence', () => {}, 60_001],
]

for (const [name, ends, ms] of breaks)
  test(`aggregate: ${name} after content fails over, and the client receives one complete answer`, async () => {
    const { send, world, gateway } = gatewayHarness([aggregating('a'), aggregating('b')], (asked) => {
      if (host(asked) === 'b') return respondWith.stream(asked, chatAnswer.stream('whole'))
      asked.head(200, { 'content-type': 'text/event-stream' })
      asked.send(chatAnswer.role() + chatAnswer.chunk({ content: 'half' }))
      ends(asked)
    })
    const reply = send(question())
    await world.advance(ms)
    assert.equal(reply.status, 200, reply.text)
    assert.equal(reply.json.choices[0].message.content, 'whole')
    assert.equal(world.calls.length, 2)
    assert.equal(gateway.health.circuits.counts('a k1 m', gateway.config().settings.circuit).failures, 1)
    assert.equal(world.timers(), 0)
  })

test('aggregate: any bytes reset the idle timeout, however long the answer takes', async () => {
  let upstream: ScriptedCall | undefined
  const { send, world } = gatewayHarness(
    [aggregating('a')],
    (asked) => {
      upstream = asked
      asked.head(200, { 'content-type': 'text/event-stream' })
      asked.send(chatAnswer.role())
    },
    { circuit: { timeout: 100 } },
  )
  const reply = send(question())
  for (let at = 0; at < 20; at++) {
    await world.advance(1_000)
    upstream?.send(chatAnswer.chunk({ content: 'x' }))
  }
  assert.equal(reply.status, null)
  upstream?.send(chatAnswer.chunk({}, 'stop') + chatAnswer.done)
  upstream?.end()
  await world.advance(0)
  assert.equal(reply.json.choices[0].message.content, 'x'.repeat(20))
})

test('aggregate: the timeout to the first byte is unchanged', async () => {
  const { send, world } = gatewayHarness(
    [aggregating('a')],
    (asked) => asked.head(200, { 'content-type': 'text/event-stream' }),
    {
      circuit: { timeout: 100 },
    },
  )
  const reply = send(question())
  await world.advance(101)
  assert.equal(reply.status, 504)
})

const whole: readonly (readonly [string, object])[] = [
  [
    'audio, which has another encoding in a stream',
    { modalities: ['text', 'audio'], audio: { format: 'wav', voice: 'x' } },
  ],
]
for (const [name, more] of whole)
  test(`aggregate: not streamed: ${name}`, async () => {
    const { send, world } = gatewayHarness([aggregating('a')], (asked) =>
      respondWith.json(asked, 200, chatAnswer.whole('Hello')),
    )
    const reply = send(question(more))
    await world.advance(0)
    assert.equal(bodyOf(world.calls[0] as ScriptedCall).stream, undefined)
    assert.equal(reply.json.choices[0].message.content, 'Hello')
  })

test('aggregate: a JSON answer to a streaming request passes through unchanged', async () => {
  const { send, world } = gatewayHarness([aggregating('a')], (asked) =>
    respondWith.json(asked, 200, chatAnswer.whole('Hello', { theirs: 1 })),
  )
  const reply = send(question())
  await world.advance(0)
  assert.equal(reply.text, chatAnswer.whole('Hello', { theirs: 1 }))
})

test('aggregate: a client that disconnects aborts the upstream call', async () => {
  const { send, world, gateway } = gatewayHarness([aggregating('a')], (asked) => {
    asked.head(200, { 'content-type': 'text/event-stream' })
    asked.send(chatAnswer.role() + chatAnswer.chunk({ content: 'half' }))
  })
  const reply = send(question())
  await world.advance(10)
  reply.disconnect()
  await world.advance(0)
  assert.equal(world.calls[0]?.aborted, true)
  assert.equal(world.timers(), 0)
  assert.equal(gateway.activeCalls.size, 0)
})
