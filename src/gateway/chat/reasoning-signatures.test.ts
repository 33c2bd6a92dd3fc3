/**
 * Encrypted reasoning of a responses upstream for chat and messages clients: requested, returned in a form that clients
 * send back, and encoded as the original item in the next turn. OpenAI refuses a reasoning item with
 * `content` (musistudio/claude-code-router#1783) and a call without its reasoning (TanStack/ai#1212).
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CapturedReply, gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import type { ScriptedCall } from '../../../test/support/still-world.ts'
import { ANONYMOUS } from '../../core/accounts.ts'
import type { JsonObject } from '../../core/json.ts'
import type { Gateway } from '../gateway.ts'
import { UpstreamHealth } from '../health/upstream-health.ts'
import { createResponse } from '../responses/create-response.ts'

const SUMMARY = 'The user wants the weather.\n\nSo I call the tool.'
const reasoning = {
  type: 'reasoning',
  id: 'rs_1',
  summary: SUMMARY.split('\n\n').map((text) => ({ type: 'summary_text', text })),
  encrypted_content: 'gAAAAABseal=',
}
const called = { type: 'function_call', id: 'fc_1', call_id: 'call_1', name: 'weather', arguments: '{"city":"Oslo"}' }
const response = (status: string, output: readonly JsonObject[]) => ({
  id: 'resp_1',
  object: 'response',
  created_at: 1,
  status,
  model: 'm',
  output,
  usage: { input_tokens: 3, output_tokens: 2, total_tokens: 5 },
})
const answer = (asked: ScriptedCall, output: readonly JsonObject[]) => {
  if (JSON.parse(asked.body ?? '').stream !== true)
    return respondWith.json(asked, 200, JSON.stringify(response('completed', output)))
  const events: readonly JsonObject[] = [
    { type: 'response.created', response: response('in_progress', []) },
    ...output.flatMap((item, output_index) => [
      { type: 'response.output_item.added', output_index, item: { ...item, summary: [], arguments: '' } },
      { type: 'response.output_item.done', output_index, item },
    ]),
    { type: 'response.completed', response: response('completed', output) },
  ]
  respondWith.stream(asked, events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join(''))
}

const NO_SUMMARY = { ...reasoning, summary: [] }
const question = { role: 'user', content: 'How is the weather?' }
const schema = { type: 'object', properties: { city: { type: 'string' } } }

/** The request of a client, and how it adds an answer to the next turn. */
type Client = {
  readonly first: JsonObject
  readonly message: (reply: CapturedReply, stream: boolean) => JsonObject
  readonly result: JsonObject
}
const framesOf = ({ text }: CapturedReply) =>
  [...text.matchAll(/^data: (\{.*\})$/gm)].map(([, json = '']) => JSON.parse(json))

const CLIENTS: Readonly<Record<'openai-chat' | 'anthropic-messages', Client>> = {
  'openai-chat': {
    first: {
      model: 'a/gpt-5',
      messages: [question],
      tools: [{ type: 'function', function: { name: 'weather', parameters: schema } }],
    },
    message: (reply, stream) => {
      if (!stream) return reply.json.choices[0].message
      const details: JsonObject[] = []
      const calls: { id: string; type: string; function: { name: string; arguments: string } }[] = []
      for (const { choices } of framesOf(reply)) {
        const { delta } = choices[0]
        details.push(...(delta.reasoning_details ?? []))
        for (const { index, ...call } of delta.tool_calls ?? [])
          if (calls[index]) calls[index].function.arguments += call.function.arguments
          else calls[index] = call
      }
      return { role: 'assistant', content: null, reasoning_details: details, tool_calls: calls }
    },
    result: { role: 'tool', tool_call_id: 'call_1', content: 'rain' },
  },
  'anthropic-messages': {
    first: {
      model: 'a/gpt-5',
      max_tokens: 1_000,
      messages: [question],
      tools: [{ name: 'weather', input_schema: schema }],
    },
    message: (reply, stream) => {
      if (!stream) return { role: 'assistant', content: reply.json.content }
      // biome-ignore lint/suspicious/noExplicitAny: blocks of every kind, as an SDK puts them together
      const content: any[] = []
      for (const { type, index, content_block, delta } of framesOf(reply))
        if (type === 'content_block_start') content[index] = { ...content_block }
        else if (delta?.type === 'thinking_delta') content[index].thinking += delta.thinking
        else if (delta?.type === 'signature_delta') content[index].signature = delta.signature
        else if (delta?.type === 'input_json_delta') content[index].input = JSON.parse(delta.partial_json)
      return { role: 'assistant', content }
    },
    result: { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'call_1', content: 'rain' }] },
  },
}

const sealing = (encryptedReasoningModels: RegExp | null = /^gpt-5/) =>
  instance('a', ['k1'], {
    speaks: [{ protocol: 'openai-responses' }],
    ...(encryptedReasoningModels && { encryptsReasoning: encryptedReasoningModels }),
  })

for (const style of ['openai-chat', 'anthropic-messages'] as const)
  for (const stream of [false, true])
    for (const item of [reasoning, NO_SUMMARY])
      test(`encrypted reasoning: ${item === reasoning ? 'with' : 'without'} a summary it returns through ${style} clients, ${stream ? 'streamed' : 'whole'}`, async () => {
        const bodies: JsonObject[] = []
        const { send, world } = gatewayHarness([sealing()], (asked) => {
          bodies.push(JSON.parse(asked.body ?? ''))
          answer(asked, [item, called])
        })
        const { first, message, result } = CLIENTS[style]
        const reply = send({ ...first, stream }, style)
        await world.advance(1)
        assert.equal(reply.status, 200, reply.text)
        assert.deepEqual(bodies[0]?.include, ['reasoning.encrypted_content'])
        assert.equal(bodies[0]?.store, false)

        const next = send({ ...first, messages: [question, message(reply, stream), result], stream }, style)
        await world.advance(1)
        assert.equal(next.status, 200, next.text)
        const { id, ...sent } = item
        const { id: _, ...call } = called
        assert.deepEqual(bodies[1]?.input, [
          { type: 'message', role: 'user', content: question.content },
          { ...sent, summary: item === reasoning ? [{ type: 'summary_text', text: SUMMARY }] : [], id },
          call,
          { type: 'function_call_output', call_id: 'call_1', output: 'rain' },
        ])
        assert.equal(next.headers['x-headgate-dropped'], undefined)
      })

test('encrypted reasoning: not requested if the model or the provider lacks it', async () => {
  const bodies: JsonObject[] = []
  const script = (asked: ScriptedCall) => {
    bodies.push(JSON.parse(asked.body ?? ''))
    answer(asked, [called])
  }
  for (const [named, model] of [
    [sealing(/^o3/), 'a/gpt-4o'],
    [sealing(null), 'a/gpt-5'],
  ] as const) {
    const { send, world } = gatewayHarness([named], script)
    send({ ...CLIENTS['openai-chat'].first, model })
    await world.advance(1)
  }
  assert.deepEqual(
    bodies.map(({ include }) => include),
    [undefined, undefined],
  )
})

test('encrypted reasoning: a responses client requests it itself', async () => {
  const bodies: JsonObject[] = []
  const { send, world } = gatewayHarness([sealing()], (asked) => {
    bodies.push(JSON.parse(asked.body ?? ''))
    answer(asked, [called])
  })
  send({ model: 'a/gpt-5', input: 'x' }, 'openai-responses')
  await world.advance(1)
  assert.equal(bodies[0]?.include, undefined)
})

test('signatures: reasoning that a provider takes out of a translated body has the path of the client', async () => {
  const { default: openai } = await import('../../providers/openai.ts')
  const calls: ScriptedCall[] = []
  const target = instance('a', ['k1'], { ...openai, speaks: [{ protocol: 'openai-responses' }] })
  const { send, world } = gatewayHarness([target], (call) => {
    calls.push(call)
    respondWith.json(call, 200, '{"id":"resp_1","status":"completed","output":[]}')
  })
  // Encrypted by xAI: OpenAI begins its own with `gAAAA`.
  const foreign = { type: 'reasoning.encrypted', data: 'xai-secret', format: 'openai-responses-v1', id: 'hg:rs_1' }
  const reply = send({
    model: 'm',
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'hi' },
      {
        role: 'assistant',
        content: null,
        reasoning_details: [foreign],
        tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'f', arguments: '{}' } }],
      },
      { role: 'tool', tool_call_id: 'call_1', content: '4' },
    ],
  })
  await world.advance(0)
  assert.equal(calls.length, 1)
  assert.ok(!calls[0]?.body?.includes('xai-secret'))
  assert.equal(reply.headers['x-headgate-dropped'], 'messages[2].reasoning_details[0]')
})

// openai/codex#3573, higress-group/higress#3197, BerriAI/litellm#40364: content is encrypted for one resource or account.
for (const style of ['openai-chat', 'anthropic-messages'] as const)
  for (const stream of [false, true])
    test(`encrypted reasoning: another instance is not sent it, through ${style} clients, ${stream ? 'streamed' : 'whole'}`, async () => {
      const bodies: [string, JsonObject][] = []
      const more = { speaks: [{ protocol: 'openai-responses' }], encryptsReasoning: /^gpt-5/ } as const
      const targets = [instance('a', ['k1', 'k2'], more), instance('b', ['k1'], more)]
      const { send, world } = gatewayHarness(targets, (asked) => {
        bodies.push([new URL(asked.url).host, JSON.parse(asked.body ?? '')])
        answer(asked, [reasoning, called])
      })
      const { first, message, result } = CLIENTS[style]
      const reply = send({ ...first, stream }, style)
      await world.advance(1)
      const messages = [question, message(reply, stream), result]
      const other = send({ ...first, model: 'b/gpt-5', messages, stream }, style)
      await world.advance(1)
      assert.equal(other.status, 200, other.text)
      assert.equal(other.headers['x-headgate-attempts'], '1')
      const [host, { input }] = bodies[1] ?? ['', { input: null }]
      assert.equal(host, 'b.test')
      assert.deepEqual(
        (input as JsonObject[]).map(({ type }) => type),
        ['message', 'function_call', 'function_call_output'],
      )
      assert.match(other.headers['x-headgate-dropped'] ?? '', /^messages\[1\]\.(reasoning_details|content)\[0\]/)
      // Its own instance still receives it.
      send({ ...first, messages, stream }, style)
      await world.advance(1)
      const [, own] = bodies[2] ?? ['', { input: [] }]
      assert.equal((own.input as JsonObject[])[1]?.encrypted_content, reasoning.encrypted_content)
    })

/** Two instances whose encrypted reasoning looks alike, a responses client, and the requests that each instance received. */
const responsesClient = () => {
  const bodies: (readonly [host: string, body: JsonObject])[] = []
  const targets = ['a', 'b'].map((name) => instance(name, ['k1'], { speaks: [{ protocol: 'openai-responses' }] }))
  const { gateway, world } = gatewayHarness(targets, (asked) => {
    const { host } = new URL(asked.url)
    bodies.push([host, JSON.parse(asked.body ?? '')])
    answer(asked, [{ ...reasoning, encrypted_content: `gAAAAAB${host}=` }, called])
  })
  const ask = async (body: JsonObject, to: Gateway = gateway): Promise<CapturedReply> => {
    const reply = new CapturedReply()
    const text = JSON.stringify({ include: ['reasoning.encrypted_content'], ...body })
    reply.done = createResponse(
      to,
      {
        id: `req_${bodies.length}`,
        method: 'POST',
        path: '/v1/responses',
        query: '',
        headers: () => undefined,
        body: { text },
        client: ANONYMOUS,
      },
      reply,
    )
    await world.advance(1)
    assert.equal(reply.status, 200, reply.text)
    assert.equal(reply.headers['x-headgate-attempts'], '1')
    return reply
  }
  /** The gateway after a restart: the stored responses remain. */
  const restarted = (): Gateway => ({ ...gateway, health: new UpstreamHealth(world, () => {}) })
  return { ask, restarted, bodies }
}

const answerOf = (reply: CapturedReply, stream: boolean) =>
  stream ? framesOf(reply).find(({ type }) => type === 'response.completed').response : reply.json
const result = { type: 'function_call_output', call_id: 'call_1', output: 'rain' }
const typesIn = (input: unknown) => (input as JsonObject[]).map(({ type }) => type)

// router-for-me/CLIProxyAPI#1793, lidge-jun/opencodex#5583, envoyproxy/ai-gateway#2451: the next turn goes to another backend.
for (const stream of [false, true]) {
  const how = stream ? 'streamed' : 'whole'
  test(`encrypted reasoning: another instance is not sent it in a stored turn, ${how}`, async () => {
    const { ask, restarted, bodies } = responsesClient()
    const { id } = answerOf(await ask({ model: 'a/gpt-5', input: 'hi', stream }), stream)
    const next = { input: [result], previous_response_id: id, stream }
    for (const gateway of [undefined, restarted()]) {
      const other = await ask({ ...next, model: 'b/gpt-5' }, gateway)
      const [host, body] = bodies.at(-1) ?? ['', {}]
      assert.equal(host, 'b.test')
      assert.deepEqual(typesIn(body.input), ['message', 'function_call', 'function_call_output'])
      assert.equal(other.headers['x-headgate-dropped'], 'previous_response_id')
      // Its own instance stores the conversation.
      await ask({ ...next, model: 'a/gpt-5' }, gateway)
      assert.equal(bodies.at(-1)?.[1].previous_response_id, 'resp_1')
    }
  })

  test(`encrypted reasoning: another instance is not sent what a stateless client returns, ${how}`, async () => {
    const { ask, bodies } = responsesClient()
    const stateless = { store: false, stream }
    const { output } = answerOf(await ask({ ...stateless, model: 'a/gpt-5', input: [question] }), stream)
    assert.equal(output[0].encrypted_content, 'gAAAAABa.test=', 'the client receives the bytes of the provider')
    const input = [question, ...output, result]
    const other = await ask({ ...stateless, model: 'b/gpt-5', input })
    assert.deepEqual(bodies.at(-1)?.[1].input, [question, called, result])
    assert.equal(other.headers['x-headgate-dropped'], 'input[1]')
    const own = await ask({ ...stateless, model: 'a/gpt-5', input })
    assert.deepEqual(bodies.at(-1)?.[1].input, input)
    assert.equal(own.headers['x-headgate-dropped'], undefined)
  })
}
