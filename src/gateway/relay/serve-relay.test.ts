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
import type { Instance, Provider } from '../../core/provider.ts'
import { serveRelay } from './serve-relay.ts'

const MODERATES: Partial<Provider> = { relays: { moderations: { models: ['mod', 'mod-2'] } } }

const first = instance('first', ['k1', 'k2'], MODERATES)
const second = instance('second', ['k1'], MODERATES)
const chatOnly = instance('writer', ['k1'])
const elsewhere = instance('elsewhere', ['k1'], {
  relays: { moderations: { path: '/classify/{model}', models: ['mod'] } },
})

/** With a number that a double cannot represent, which must pass unchanged. */
const BODY = '{"model":"mod", "input":["a text","another"], "mine":12345678901234567890}'

const received = (body: string, more: Partial<IncomingRequest> = {}): IncomingRequest => ({
  id: 'req_test',
  method: 'POST',
  path: '/v1/moderations',
  query: '',
  headers: () => undefined,
  body: { text: body },
  client: ANONYMOUS,
  ...more,
})

type Asking = {
  readonly settings?: SettingsInput
  readonly body?: string | object
  readonly ms?: number
  readonly more?: Partial<IncomingRequest>
}

const asking = async (
  instances: readonly Instance[],
  script: (asked: ScriptedCall) => void,
  { settings = {}, body = BODY, ms = 700_000, more }: Asking = {},
) => {
  const made = gatewayHarness(instances, script, settings)
  const responseWriter = new CapturedReply()
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const done = serveRelay(made.gateway, { name: 'moderations', received: received(text, more), responseWriter })
  await made.world.advance(ms)
  await done
  const trace = made.events.flatMap((item) => (item.event === 'request' ? item.trace : []))
  return { ...made, reply: responseWriter, called: made.world.calls, trace }
}

/** Its spaces and order must reach the client. */
const ANSWER = '{"id": "modr-1", "model": "mod-9", "results": [{"flagged": false}], "n": 1e400}'
const good = (asked: ScriptedCall) => respondWith.json(asked, 200, ANSWER)
const from = (asked: ScriptedCall) => new URL(asked.url).host.split('.')[0]

test('relay: request and answer pass unchanged', async () => {
  const { reply, called, trace } = await asking([first], good)
  assert.equal(reply.status, 200, reply.text)
  assert.equal(reply.text, ANSWER)
  assert.equal(called[0]?.url, 'http://first.test/v1/moderations')
  assert.equal(called[0]?.body, BODY)
  assert.match(called[0]?.headers.authorization ?? '', /^Bearer sk-first-k/)
  assert.equal(reply.headers['content-type'], 'application/json')
  assert.equal(reply.headers['x-headgate-provider'], 'first')
  assert.equal(reply.headers['x-headgate-model'], 'mod')
  assert.equal(reply.headers['x-headgate-attempts'], '1')
  const [start] = trace
  assert.deepEqual(start?.type === 'received' && [start.style, start.model], ['moderations', 'mod'])
})

test('relay: only the name of the model is rewritten', async () => {
  const { called } = await asking([first], good, { body: BODY.replace('"mod"', '"first/mod"') })
  assert.equal(called[0]?.body, BODY.replaceAll(', "', ',"'))
})

test('relay: a provider may have the endpoint at a path of its own', async () => {
  const { called } = await asking([elsewhere], good)
  assert.equal(called[0]?.url, 'http://elsewhere.test/v1/classify/mod')
})

for (const [name, body] of [
  ['absent', '{"input":"a"}'],
  ['null', '{"model":null,"input":"a"}'],
  ['empty', '{"model":"","input":"a"}'],
  ['auto', '{"model":"auto","input":"a"}'],
] as const)
  test(`relay: with the model ${name} the first provider's default is used`, async () => {
    const { reply, called } = await asking([chatOnly, first], good, { body })
    assert.equal(reply.status, 200, reply.text)
    assert.deepEqual(JSON.parse(called[0]?.body ?? ''), { model: 'mod', input: 'a' })
  })

test('relay: failover uses other keys, then other providers of the same model', async () => {
  const { reply, called } = await asking([first, chatOnly, second], (asked) =>
    from(asked) === 'second' ? good(asked) : respondWith.error(asked, 503),
  )
  assert.equal(reply.text, ANSWER)
  assert.equal(reply.headers['x-headgate-provider'], 'second')
  for (const { body } of called) assert.equal(body, BODY)
})

test('relay: a route leads to providers that have the endpoint', async () => {
  const settings = { routes: { safe: ['writer/m', 'second/mod-2'] } }
  const { reply, called } = await asking([first, chatOnly, second], good, {
    settings,
    body: BODY.replace('"mod"', '"safe"'),
  })
  assert.equal(reply.headers['x-headgate-provider'], 'second')
  assert.equal(JSON.parse(called[0]?.body ?? '').model, 'mod-2')
})

const UNREADABLE: readonly (readonly [name: string, answer: (asked: ScriptedCall) => void])[] = [
  ['a list', (asked) => respondWith.json(asked, 200, '[]')],
  ['an error with status 200', (asked) => respondWith.json(asked, 200, '{"error":{"message":"overloaded"}}')],
  ['incomplete JSON', (asked) => respondWith.json(asked, 200, '{"results":[')],
  ['an empty body', (asked) => respondWith.json(asked, 200, '')],
  ['a web page', (asked) => respondWith.raw(asked, 200, { 'content-type': 'text/html' }, '<html>')],
  ['a stream', (asked) => respondWith.stream(asked, 'data: {}\n\n')],
  ['a redirect', (asked) => respondWith.raw(asked, 302, { location: 'http://10.0.0.1/' })],
  [
    'a connection that breaks',
    (asked) => {
      asked.head(200, { 'content-type': 'application/json' })
      asked.send('{"results":[]')
      asked.fail({ kind: 'reset', message: 'reset' })
    },
  ],
  ['silence', () => {}],
]
for (const [name, answer] of UNREADABLE)
  test(`relay: after ${name} the next target is tried`, async () => {
    const { reply } = await asking([first, second], (asked) => (from(asked) === 'first' ? answer(asked) : good(asked)))
    assert.equal(reply.status, 200, reply.text)
    assert.equal(reply.headers['x-headgate-provider'], 'second')
  })

test('relay: tokens that the answer reports are exact', async () => {
  const { trace } = await asking([first], (asked) =>
    respondWith.json(asked, 200, '{"results":[],"usage":{"prompt_tokens":7,"total_tokens":7,"completion_tokens":0}}'),
  )
  const used = trace.find((fact) => fact.type === 'usage')
  assert.equal(used?.type === 'usage' && used.usage.input, 7)
  assert.equal(used?.type === 'usage' && used.estimated, undefined)
})

for (const [name, body, least] of [
  ['a text', { model: 'mod', input: 'one two three four' }, 3],
  ['parts', { model: 'mod', input: [{ type: 'text', text: 'one two three four' }] }, 3],
  ['a text in an unknown place', { model: 'mod', content: 'one two three four' }, 3],
] as const)
  test(`relay: tokens that the answer does not report are estimated: ${name}`, async () => {
    const { trace, reply } = await asking([first], good, { body })
    const used = trace.find((fact) => fact.type === 'usage')
    assert.ok(used?.type === 'usage' && used.estimated && used.usage.input >= least, JSON.stringify(used))
    // Without a price the cost is unknown, not 0.
    assert.equal(reply.headers['x-headgate-cost'], undefined)
  })

for (const [name, body, code, message] of [
  ['no JSON', '{', 'invalid_json', /not valid JSON/],
  ['a model that is no text', '{"model":1,"input":"a"}', 'invalid_value', /model/],
  ['two models', '{"model":"mod","input":"a","model":"gpt"}', 'invalid_value', /more than once/],
] as const)
  test(`relay: ${name} is refused before an attempt`, async () => {
    const { reply, called } = await asking([first], good, { body })
    assert.equal(reply.status, 400)
    assert.equal(reply.json.error.code, code)
    assert.match(reply.json.error.message, message)
    assert.equal(called.length, 0)
  })

test('relay: without a provider that has the endpoint the error names it', async () => {
  const { reply } = await asking([chatOnly], good)
  assert.equal(reply.status, 400)
  assert.match(reply.json.error.message, /^No configured provider supports moderations\. .*providers/)
})

test('relay: the refusal of a provider keeps its status and message', async () => {
  const { reply } = await asking([first], (asked) =>
    respondWith.error(asked, 400, { message: 'input is required', param: 'input' }),
  )
  assert.equal(reply.status, 400)
  assert.match(reply.json.error.message, /input is required/)
})

test('relay: a key with a list of styles needs the name of the endpoint', async () => {
  const only = (style: string) => ({
    ...ANONYMOUS,
    access: [{ models: null, routes: null, providers: null, styles: [style], ips: null }],
  })
  const refused = await asking([first], good, { more: { client: only('chat') } })
  assert.equal(refused.reply.status, 403, refused.reply.text)
  assert.equal(refused.called.length, 0)
  const allowed = await asking([first], good, { more: { client: only('moderations') } })
  assert.equal(allowed.reply.status, 200, allowed.reply.text)
})

test('relay: a client that leaves ends the attempt', async () => {
  const made = gatewayHarness([first], () => {})
  const reply = new CapturedReply()
  const done = serveRelay(made.gateway, { name: 'moderations', received: received(BODY), responseWriter: reply })
  await made.world.advance(10)
  reply.disconnect()
  await made.world.advance(10)
  await done
  assert.equal(made.world.calls[0]?.aborted, true)
  assert.equal(reply.ending, 'cut')
  const [line] = made.events.filter((item) => item.event === 'request')
  const end = line?.trace.at(-1)
  assert.equal(end?.type === 'ended' && end.how, 'client_gone')
})

test('relay: the key is masked in the error of a provider', async () => {
  const { reply } = await asking([instance('first', ['k1'], MODERATES)], (asked) =>
    respondWith.error(asked, 400, { message: 'bad key sk-first-k1' }),
  )
  assert.doesNotMatch(reply.text, /sk-first-k1/)
})
