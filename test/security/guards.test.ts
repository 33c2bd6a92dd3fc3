/** A guard sees every request that reaches a model: on every route, in every place of a body. */

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { ANONYMOUS } from '../../src/core/accounts.ts'
import { FINDER_KINDS } from '../../src/core/finder-kinds.ts'
import type { ChooseGuards } from '../../src/core/guard.ts'
import type { IncomingRequest } from '../../src/core/http-exchange.ts'
import type { JsonObject } from '../../src/core/json.ts'
import { RELAYS, type RelayName } from '../../src/core/relay.ts'
import { STYLE_EXAMPLES } from '../../src/core/request-styles.ts'
import { operatorGuards } from '../../src/policy/guards/operator-guards.ts'
import { protocols } from '../../src/protocols/index.ts'
import { handlersFor } from '../../src/server/handlers.ts'
import { handlerOf, ROUTES, type RouteName, type RouteRow } from '../../src/server/routes.ts'
import { EMBEDDINGS_BODIES } from '../support/embeddings-call.ts'
import { CapturedReply, chatAnswer, gatewayHarness, instance, respondWith } from '../support/gateway.ts'
import { NO_RULE } from '../support/guard-rule.ts'
import { rulesOf } from '../support/guarded-gateway.ts'
import { FORBIDDEN, SECRET, withMasking } from '../support/masking-guard.ts'

const rows: Readonly<Record<string, RouteRow>> = ROUTES

/** Every route that calls a model. */
const CALLS = Object.entries(rows).filter(([, { model, method }]) => model && method === 'POST')

/** The smallest body of a route with this text. */
const bodyOf = (route: string, { serves, protocol = 'openai-chat' }: RouteRow, text: string): JsonObject => {
  // A row of the relay has its name.
  if (serves === 'relay')
    return { model: 'm', ...Object.fromEntries(RELAYS[route as RelayName].texts.map((name) => [name, text])) }
  if (Object.hasOwn(EMBEDDINGS_BODIES, route))
    return EMBEDDINGS_BODIES[route as keyof typeof EMBEDDINGS_BODIES]('m', text)
  return STYLE_EXAMPLES[protocols[protocol].style as keyof typeof STYLE_EXAMPLES]({ model: 'm', text }) as JsonObject
}

const given = (guards: ChooseGuards = withMasking()) => {
  const embeds = { protocol: 'openai-embeddings', models: ['m'] } as const
  const relays = Object.fromEntries(Object.keys(RELAYS).map((name) => [name, { models: ['m'] }]))
  const speaks = [
    { protocol: 'openai-chat' },
    { protocol: 'openai-responses' },
    { protocol: 'anthropic-messages' },
    { protocol: 'gemini' },
  ] as const
  const made = gatewayHarness([instance('up', ['k1'], { embeds, relays, speaks })], (call) =>
    respondWith.json(call, 200, chatAnswer.whole('good day')),
  )
  const handlers = handlersFor({
    gateway: { ...made.gateway, guards },
    version: '0',
    started: 0,
    uptime: () => 0,
    keyed: () => true,
    draining: () => false,
    loading: () => false,
    problems: () => [],
    metrics: () => '',
    clientPages: () => Promise.reject(new Error('not used')),
  })
  const send = async (route: string, body: string) => {
    const reply = new CapturedReply()
    const path = rows[route]?.path.replace('{id}', 'm') ?? ''
    const about = { id: 'req_a', method: 'POST', path, query: '', headers: () => undefined, client: ANONYMOUS }
    const received: IncomingRequest = { ...about, body: { text: body } }
    const done = handlerOf(handlers, route as RouteName)(received, reply, '')
    for (let turn = 0; turn < 5; turn++) await made.world.advance(1)
    await done
    return reply
  }
  return { send, calls: made.world.calls }
}

const byRules = operatorGuards({
  rules: () => [
    { ...NO_RULE, name: 'secrets', kinds: ['apiKey'], action: 'block' },
    { ...NO_RULE, name: 'pii', kinds: FINDER_KINDS, action: 'mask' },
  ],
  digest: (text) => createHash('sha256').update(text).digest(),
  fingerprint: (text) => text,
  turn: (run) => run(),
  now: () => 0,
  names: { team: () => true, route: () => true },
})

/** Each with a part that must not leave the gateway. */
const CANARIES = [
  ['ann@example.com', 'ann@'],
  ['pay 4111 1111 1111 1111', '1111'],
  ['to DE89 3704 0044 0532 0130 00', '0532'],
  ['SSN 219-09-9999', '219-09'],
]

for (const [route, row] of CALLS) {
  test(`personal data leaves by the path ${route}`, async () => {
    const { send, calls } = given(byRules)
    await send(route, JSON.stringify(bodyOf(route, row, CANARIES.map(([text]) => text).join('; '))))
    assert.ok(calls.length > 0)
    for (const { body = '' } of calls) {
      assert.match(body, /\[EMAIL_[A-Z2-7]{6}\]/)
      for (const [, canary = ''] of CANARIES) assert.ok(!body.includes(canary), body)
    }
    const refused = given(byRules)
    const reply = await refused.send(route, JSON.stringify(bodyOf(route, row, 'my key is sk-proj-abcdefghijklmnop')))
    assert.ok(reply.status === 400 || reply.headers['x-headgate-estimated'] === 'true', reply.text)
    assert.ok(!reply.text.includes('abcdefgh') && refused.calls.length === 0, reply.text)
  })

  test(`a guard is bypassed: a masked word by the path, ${route}`, async () => {
    const { send, calls } = given()
    await send(route, JSON.stringify(bodyOf(route, row, `My word is ${SECRET}`)))
    assert.ok(calls.length > 0)
    for (const { body = '' } of calls) assert.ok(body.includes('My word is') && !body.includes('ter2'), body)
  })

  test(`a guard is bypassed: a forbidden word by the path, ${route}`, async () => {
    const { send, calls } = given()
    const reply = await send(route, JSON.stringify(bodyOf(route, row, FORBIDDEN)))
    // A count is estimated instead.
    assert.ok(reply.status === 400 || reply.headers['x-headgate-estimated'] === 'true', reply.text)
    assert.equal(calls.length, 0)
  })

  test(`a guard is bypassed: a word that only one of two members with a name has, ${route}`, async () => {
    const { send, calls } = given()
    const body = JSON.stringify(bodyOf(route, row, 'hello'))
    for (const name of ['messages', 'input', 'prompt', 'content', 'contents', 'query'])
      if (body.includes(`"${name}":`)) {
        const twice = body.replace(`"${name}":`, `"${name}":${JSON.stringify(SECRET)},"${name}":`)
        await send(route, twice)
      }
    assert.ok(calls.length > 0)
    for (const { body: sent = '' } of calls) assert.ok(!sent.includes('ter2'), sent)
  })
}

/** A rule of an operator for the word, which answers have too. */
const byWord = rulesOf({ name: 'word', on: ['request', 'answer'], words: [SECRET], action: 'mask' })

/** Places of a request in each format in which a text reaches the model, besides those of the unit tests. */
const PLACES: readonly (readonly [route: string, body: JsonObject])[] = [
  ['chat', { messages: [{ role: 'developer', content: [{ type: 'text', text: SECRET }] }] }],
  ['chat', { messages: [{ role: 'function', name: 'f', content: SECRET }] }],
  [
    'chat',
    {
      messages: [
        { role: 'assistant', content: '', reasoning_content: SECRET },
        { role: 'user', content: 'x' },
      ],
    },
  ],
  [
    'chat',
    {
      messages: [
        { role: 'assistant', refusal: SECRET },
        { role: 'user', content: 'x' },
      ],
    },
  ],
  ['chat', { messages: [{ role: 'user', content: 'x' }], prediction: { type: 'content', content: SECRET } }],
  ['chat', { messages: [{ role: 'user', content: 'x' }], stop: [SECRET] }],
  ['chat', { messages: [{ role: 'user', content: 'x' }], unknown_member: { deep: [{ er: SECRET }] } }],
  ['chat', { messages: [{ role: 'user', content: [{ type: 'text', text: 'x', cache: SECRET }] }] }],
  ['chat', { input: [{ role: 'user', content: [{ type: 'input_text', text: SECRET }] }] }],
  [
    'responses',
    {
      input: [
        { type: 'reasoning', summary: [{ type: 'summary_text', text: SECRET }] },
        { role: 'user', content: 'x' },
      ],
    },
  ],
  [
    'responses',
    {
      input: [
        { type: 'mcp_call', id: 'm', name: 'f', arguments: '{}', output: SECRET, server_label: 's' },
        { role: 'user', content: 'x' },
      ],
    },
  ],
  [
    'responses',
    {
      input: 'x',
      text: { format: { type: 'json_schema', name: 'n', schema: { type: 'object', description: SECRET } } },
    },
  ],
  [
    'messages',
    {
      max_tokens: 9,
      messages: [
        {
          role: 'user',
          content: [{ type: 'search_result', source: SECRET, title: 't', content: [{ type: 'text', text: SECRET }] }],
        },
      ],
    },
  ],
  [
    'messages',
    { max_tokens: 9, messages: [{ role: 'user', content: [{ type: 'text', text: SECRET, signature: 'x' }] }] },
  ],
  ['messages', { max_tokens: 9, system: SECRET, messages: [{ role: 'user', content: 'x' }] }],
  ['completions', { prompt: [SECRET] }],
  ['embeddings', { input: ['x', SECRET] }],
]
for (const [at, [route, body]] of PLACES.entries())
  test(`a guard is bypassed: a masked word by its place, ${route} ${at}`, async () => {
    for (const guards of [withMasking(), byWord]) {
      const { send, calls } = given(guards)
      const reply = await send(route, JSON.stringify({ model: 'm', ...body }))
      assert.ok(calls.length > 0, reply.text)
      for (const { body: sent = '' } of calls) assert.ok(!sent.includes('ter2'), sent)
    }
  })
