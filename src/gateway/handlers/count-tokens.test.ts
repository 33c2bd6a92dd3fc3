import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  CapturedReply,
  gatewayHarness,
  instance,
  respondWith,
  type SettingsInput,
} from '../../../test/support/gateway.ts'
import type { ScriptedCall } from '../../../test/support/still-world.ts'
import { ANONYMOUS } from '../../core/accounts.ts'
import type { IncomingRequest } from '../../core/http-exchange.ts'
import type { Provider } from '../../core/provider.ts'
import { anthropicMessages } from '../../protocols/anthropic-messages/index.ts'
import { protocols } from '../../protocols/index.ts'
import { countTokens } from './count-tokens.ts'
import { explain } from './explain.ts'

const MESSAGES: Partial<Provider> = { speaks: [{ protocol: 'anthropic-messages' }], auth: { header: 'x-api-key' } }
const first = instance('first', ['k1', 'k2'], MESSAGES)
const second = instance('second', ['k1'], MESSAGES)
const chatty = instance('chatty')

const QUESTION = {
  model: 'm',
  messages: [{ role: 'user', content: 'How long is this?' }],
  unknown_member: 12345678901234567890n,
}
/** JSON.stringify cannot write numbers this large. */
const BODY = JSON.stringify(QUESTION, (_, value) => (typeof value === 'bigint' ? '#' : value)).replace(
  '"#"',
  '12345678901234567890',
)

const received = (body: string, headers: Readonly<Record<string, string>> = {}, query = ''): IncomingRequest => ({
  id: 'req_test',
  method: 'POST',
  path: '/v1/messages/count_tokens',
  query,
  headers: (name) => headers[name],
  body: { text: body },
  client: ANONYMOUS,
})

const counting = async (
  instances: Parameters<typeof gatewayHarness>[0],
  script: (asked: ScriptedCall) => void,
  {
    settings = {},
    body = BODY,
    headers = {},
    query = '',
  }: { settings?: SettingsInput; body?: string; headers?: Record<string, string>; query?: string } = {},
) => {
  const made = gatewayHarness(instances, script, settings)
  const reply = new CapturedReply()
  const done = countTokens(made.gateway, {
    protocol: anthropicMessages,
    received: received(body, headers, query),
    responseWriter: reply,
  })
  await made.world.advance(100_000)
  await done
  return { ...made, reply, called: made.world.calls }
}

const anthropicError = (asked: ScriptedCall, status: number, type: string, message = 'no') =>
  respondWith.json(asked, status, JSON.stringify({ type: 'error', error: { type, message } }))
const seven = (asked: ScriptedCall) => respondWith.json(asked, 200, '{"input_tokens": 7, "more": 1}')

test('count: the request and the answer pass through unchanged', async () => {
  const { reply, called, events } = await counting([first, chatty], seven, {
    headers: {
      'anthropic-beta': 'a-1,b-2',
      'anthropic-version': '2023-06-01',
      cookie: 'x',
      authorization: 'Bearer mine',
    },
    query: 'beta=true&url=http://evil.example',
  })
  assert.equal(reply.status, 200)
  assert.equal(reply.text, '{"input_tokens": 7, "more": 1}')
  assert.equal(reply.headers['x-headgate-provider'], 'first')
  assert.equal(reply.headers['x-headgate-estimated'], undefined)
  assert.equal(called.length, 1)
  assert.equal(called[0]?.url, 'http://first.test/v1/messages/count_tokens?beta=true')
  assert.equal(called[0]?.body, BODY)
  assert.match(called[0]?.headers['x-api-key'] ?? '', /^sk-first-k/)
  assert.equal(called[0]?.headers['anthropic-beta'], 'a-1,b-2')
  assert.equal(called[0]?.headers['anthropic-version'], '2023-06-01')
  assert.equal(called[0]?.headers.cookie, undefined)
  assert.equal(called[0]?.headers.authorization, undefined)
  assert.ok(events.some((item) => item.event === 'request'))
})

for (const version of ['2023-01-01', 'x', '2023-06-01\tx', ''])
  test(`count: the version ${JSON.stringify(version)} is not forwarded`, async () => {
    const { called } = await counting([first], seven, { headers: { 'anthropic-version': version } })
    assert.notEqual(called[0]?.headers['anthropic-version'], version)
  })

test('count: the only target is counted again after a short rate limit', async () => {
  let calls = 0
  const { reply, called } = await counting([second], (asked) =>
    ++calls > 1 ? seven(asked) : respondWith.json(asked, 429, '{}', { 'retry-after-ms': '300' }),
  )
  assert.deepEqual([reply.status, called.length], [200, 2])
  assert.equal(Number(called[1]?.at) - Number(called[0]?.at), 300)
  assert.equal(reply.headers['x-headgate-estimated'], undefined)
})

const failing: readonly (readonly [string, (asked: ScriptedCall) => void])[] = [
  ['no such path', (asked) => respondWith.raw(asked, 404, { 'content-type': 'text/plain' }, 'Not Found')],
  ['no such method', (asked) => anthropicError(asked, 405, 'invalid_request_error')],
  ['a limit', (asked) => anthropicError(asked, 429, 'rate_limit_error')],
  ['overload', (asked) => anthropicError(asked, 529, 'overloaded_error')],
  ['a refused key', (asked) => anthropicError(asked, 401, 'authentication_error')],
  ['a page', (asked) => respondWith.raw(asked, 200, { 'content-type': 'text/html' }, '<html>')],
  ['something else', (asked) => respondWith.json(asked, 200, '{"tokens":7}')],
  ['an error in a 200', (asked) => anthropicError(asked, 200, 'overloaded_error')],
  ['half an answer', (asked) => respondWith.json(asked, 200, '{"input_tok')],
  ['silence', () => {}],
]
for (const [name, script] of failing) {
  test(`count: ${name}: the next target counts, and health is unchanged`, async () => {
    const { reply, gateway, events } = await counting([first, chatty, second], (asked) =>
      asked.url.includes('second') ? seven(asked) : script(asked),
    )
    assert.equal(reply.status, 200, reply.text)
    assert.equal(reply.json.input_tokens, 7)
    assert.equal(reply.headers['x-headgate-provider'], 'second')
    assert.match(reply.headers['x-headgate-trail'] ?? '', /^first#.*second#k1:200$/)
    const { settings } = gateway.config()
    const candidate = { instance: first, model: 'm', because: '', weight: 1 }
    for (const key of first.keys) assert.equal(gateway.health.peek({ candidate, key }, settings), null)
    assert.deepEqual(
      events.filter(({ event }) => event === 'circuit' || event === 'key'),
      [],
    )
  })
  test(`count: ${name}, everywhere: an estimate, marked as such`, async () => {
    const { reply } = await counting([first], script)
    assert.equal(reply.status, 200, reply.text)
    assert.ok(reply.json.input_tokens > 5 && reply.json.input_tokens < 20, reply.text)
    assert.equal(reply.headers['x-headgate-estimated'], 'true')
    assert.match(reply.headers['x-headgate-trail'] ?? '', /^first#k/)
    assert.equal(reply.headers['x-headgate-provider'], undefined)
  })
}

test('count: no call is made if the first target uses another protocol', async () => {
  const { reply, called } = await counting([chatty, first], seven)
  assert.equal(called.length, 0)
  assert.equal(reply.headers['x-headgate-estimated'], 'true')
  assert.equal(reply.headers['x-headgate-provider'], undefined)
})

test('count: a request that every target refuses is reported, with a quoted key redacted', async () => {
  const { reply, called } = await counting([first, second], (asked) =>
    anthropicError(asked, 400, 'invalid_request_error', `messages.0: wrong, says ${asked.headers['x-api-key']}`),
  )
  assert.equal(called.length, 2)
  assert.equal(reply.status, 400)
  assert.equal(reply.json.error.type, 'invalid_request_error')
  assert.match(reply.json.error.message, /messages\.0: wrong/)
  assert.doesNotMatch(reply.text, /sk-first/)
})

const wrong: readonly (readonly [string, string])[] = [
  ['no JSON', '{'],
  ['no model', '{"messages":[{"role":"user","content":"x"}]}'],
  ['no messages', '{"model":"m"}'],
]
for (const [name, body] of wrong)
  test(`count: ${name}`, async () => {
    const { reply, called } = await counting([first], seven, { body })
    assert.equal(reply.status, 400)
    assert.deepEqual([reply.json.type, reply.json.error.type], ['error', 'invalid_request_error'])
    assert.equal(called.length, 0)
  })

test('count: a client that disconnects aborts the upstream call', async () => {
  const { gateway, world } = gatewayHarness([first], () => {})
  const reply = new CapturedReply()
  const done = countTokens(gateway, { protocol: anthropicMessages, received: received(BODY), responseWriter: reply })
  await world.settle()
  reply.disconnect()
  await done
  assert.equal(world.calls[0]?.aborted, true)
  assert.equal(reply.ending, 'cut')
  assert.equal(world.timers(), 0)
  assert.equal(gateway.activeCalls.size, 0)
})

// ── Recognising the API style, for POST /v1/route ────────────────────────────────────────────────────────────────────

const turn = (content: unknown) => ({ model: 'm', max_tokens: 9, messages: [{ role: 'user', content }] })
const bodies: readonly (readonly [string, object, Parameters<typeof received>[2], string])[] = [
  ['no distinctive member', turn('hello'), '', 'chat'],
  ['by the query', turn('hello'), 'style=messages', 'messages'],
  ['by the query, against the body', { ...turn('hello'), stop_sequences: ['x'] }, 'style=chat', 'chat'],
  ['a system prompt', { ...turn('hello'), system: 'Be brief.' }, '', 'messages'],
  ['stop sequences', { ...turn('hello'), stop_sequences: ['x'] }, '', 'messages'],
  ['a tool', { ...turn('hello'), tools: [{ name: 'f', input_schema: { type: 'object' } }] }, '', 'messages'],
  ['a block', turn([{ type: 'image', source: { type: 'url', url: 'https://x.example' } }]), '', 'messages'],
  ['parts of chat', turn([{ type: 'text', text: 'hello' }]), '', 'chat'],
  ['input', { model: 'm', input: 'hello' }, '', 'responses'],
]
for (const [name, body, query, style] of bodies)
  test(`explain: ${name} is ${style}`, () => {
    const answer = explain(gatewayHarness([chatty], () => {}).gateway, received(JSON.stringify(body), {}, query))
    assert.ok(answer.ok, JSON.stringify(answer))
    assert.equal(answer.value.style, style)
  })

test('explain: recognises Anthropic clients by their header; refuses an unknown style', () => {
  const { gateway } = gatewayHarness([chatty], () => {})
  const body = JSON.stringify(turn('hello'))
  const known = explain(gateway, received(body, { 'anthropic-version': '2023-06-01' }))
  assert.equal(known.ok && known.value.style, 'messages')
  const unknown = explain(gateway, received(body, {}, 'style=converse'))
  assert.equal(unknown.ok ? '' : unknown.failure.param, 'style')
})

// ── Input tokens of responses ────────────────────────────────────────────────────────────────────────────────────────

const RESPONSES: Partial<Provider> = { speaks: [{ protocol: 'openai-responses' }] }
const INPUT = {
  model: 'm',
  input: 'How long is this?',
  instructions: 'Be brief.',
  tools: [{ type: 'function', name: 'f', parameters: { type: 'object', properties: {} } }],
  // Refused by OpenAI's endpoint, which takes no members of the answer.
  max_output_tokens: 100,
  stream: true,
  store: true,
}

const countingInput = async (
  instances: Parameters<typeof gatewayHarness>[0],
  script: (asked: ScriptedCall) => void,
  body: object = INPUT,
) => {
  const made = gatewayHarness(instances, script)
  const reply = new CapturedReply()
  const protocol = protocols['openai-responses']
  const done = countTokens(made.gateway, { protocol, received: received(JSON.stringify(body)), responseWriter: reply })
  await made.world.advance(100_000)
  await done
  return { ...made, reply }
}

test('input tokens: a target of the same style counts, with the members that its endpoint takes', async () => {
  const { reply, world } = await countingInput([instance('first', ['k1'], RESPONSES)], (asked) =>
    respondWith.json(asked, 200, '{"object":"response.input_tokens","input_tokens":27}'),
  )
  assert.equal(reply.text, '{"object":"response.input_tokens","input_tokens":27}')
  assert.equal(world.calls[0]?.url, 'http://first.test/v1/responses/input_tokens')
  const { max_output_tokens: _, stream: __, store: ___, ...accepted } = INPUT
  assert.deepEqual(JSON.parse(world.calls[0]?.body ?? ''), accepted)
})

test('input tokens: estimated without a target of the style, or if it lacks the endpoint', async () => {
  const lacking = [[chatty], [instance('first', ['k1'], RESPONSES)]]
  for (const instances of lacking) {
    const { reply } = await countingInput(instances, (asked) => respondWith.error(asked, 404, { message: 'Not Found' }))
    assert.equal(reply.status, 200, reply.text)
    assert.equal(reply.headers['x-headgate-estimated'], 'true')
    assert.equal(reply.json.object, 'response.input_tokens')
    assert.ok(reply.json.input_tokens > 5)
  }
})

test('input tokens: a body in the shape of chat completions is counted in its own', async () => {
  const body = { model: 'm', messages: [{ role: 'user', content: 'hi' }], max_tokens: 5 }
  const { world } = await countingInput(
    [instance('first', ['k1'], RESPONSES)],
    (asked) => respondWith.json(asked, 200, '{"object":"response.input_tokens","input_tokens":2}'),
    body,
  )
  assert.deepEqual(JSON.parse(world.calls[0]?.body ?? ''), {
    model: 'm',
    input: [{ type: 'message', role: 'user', content: 'hi' }],
  })
})

test('input tokens: an invalid request is refused in the style of its path', async () => {
  const { reply } = await countingInput([chatty], () => {}, { model: 'm' })
  assert.equal(reply.status, 400)
  assert.equal(reply.json.error.param, 'input')
})
