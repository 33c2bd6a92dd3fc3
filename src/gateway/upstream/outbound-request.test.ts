import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defaultSettings } from '../../../test/support/settings.ts'
import type { JsonObject } from '../../core/json.ts'
import type { Instance, ProtocolSupport, Provider } from '../../core/provider.ts'
import { clientProtocolByStyle } from '../../protocols/index.ts'
import { type Compatibility, prepareRequest } from './outbound-request.ts'
import { parseRequest } from './parse-request.ts'

/** A provider that drops the given paths of its own request format. */
const givesUp = (...paths: readonly string[]): Provider => ({
  name: 'strict',
  title: 'Strict',
  order: 1,
  speaks: [{ protocol: 'anthropic-messages' }],
  auth: 'none',
  quirks: {
    requestBody(body, _model, lost) {
      for (const path of paths) lost(path)
      return body
    },
  },
})

const dropped = (style: string, body: JsonObject, ...paths: readonly string[]): readonly string[] =>
  preparedFor(givesUp(...paths), style, body).dropped

const preparedFor = (provider: Provider, style: string, body: JsonObject) => {
  const protocol = clientProtocolByStyle.get(style)
  assert.ok(protocol)
  const question = parseRequest(
    protocol,
    { body: { text: JSON.stringify(body) }, headers: () => undefined },
    defaultSettings.limit,
  )
  assert.ok(question.ok)
  const instance: Instance = {
    id: 'strict',
    provider,
    baseUrl: 'https://strict.example/v1',
    keys: [{ id: '0000', secret: null, weight: 1 }],
    models: [],
    speaks: provider.speaks,
    variables: {},
  }
  const prepared = prepareRequest(
    question.value,
    { instance, model: 'm', because: 'asked', weight: 1 },
    { maxOutputTokens: 4_096 },
  )
  assert.ok(prepared)
  return prepared
}

const hello = { model: 'any', input: 'hello' }
const format = {
  type: 'json_schema',
  name: 'n',
  schema: { type: 'object', properties: {}, additionalProperties: false },
}
const cases: readonly (readonly [
  name: string,
  style: string,
  body: JsonObject,
  gives: string[],
  expected: string[],
])[] = [
  [
    'by their path, if it is the same',
    'messages',
    { model: 'any', max_tokens: 9, messages: [{ role: 'user', content: 'x' }], top_k: 3 },
    ['top_k'],
    ['top_k'],
  ],
  [
    'by the client’s path of the same name',
    'responses',
    { ...hello, temperature: 1 },
    ['temperature'],
    ['temperature'],
  ],
  [
    'by the client’s path of another name',
    'responses',
    { ...hello, max_output_tokens: 99 },
    ['max_tokens'],
    ['max_output_tokens'],
  ],
  ['inside a list', 'responses', hello, ['messages[0].content'], ['input[0].content']],
  [
    'inside another, each by its path',
    'responses',
    { ...hello, reasoning: { effort: 'low', summary: 'auto' }, text: { format } },
    ['output_config.effort', 'output_config.format.schema', 'thinking.display'],
    ['reasoning.effort', 'text.format.schema', 'reasoning.summary'],
  ],
  ['by the provider’s path, if the client sent none', 'responses', hello, ['speed'], ['speed']],
]
for (const [name, style, body, gives, expected] of cases)
  test(`prepare: dropped parts are listed ${name}`, () => assert.deepEqual(dropped(style, body, ...gives), expected))

// ── Protocol and path ───────────────────────────────────────────────────────────────────────────────────

/** Supports two protocols. The second drops members named `held`. */
const two = (more: Partial<ProtocolSupport> = {}): Provider => ({
  name: 'two',
  title: 'Two',
  order: 1,
  speaks: [{ protocol: 'openai-chat' }, { protocol: 'openai-responses', ...more }],
  auth: 'none',
  quirks: {
    requestBody: (body, _model, lost, protocol) => {
      if (protocol === 'openai-responses' && body.instructions === 'held') lost('instructions', true)
      return body
    },
  },
})
const search = { type: 'web_search' }

const ways: readonly (readonly [
  what: string,
  style: string,
  body: JsonObject,
  more: Partial<ProtocolSupport>,
  path: string,
  fitness: Partial<Compatibility>,
])[] = [
  ['the client’s protocol', 'responses', hello, {}, '/v1/responses', {}],
  [
    'the client’s protocol',
    'chat',
    { model: 'any', messages: [{ role: 'user', content: 'x' }] },
    {},
    '/v1/chat/completions',
    {},
  ],
  [
    'the other protocol, which carries all of it',
    'responses',
    { ...hello, instructions: 'held' },
    {},
    '/v1/chat/completions',
    {},
  ],
  [
    'the other protocol, which carries all but optional parts',
    'responses',
    { ...hello, instructions: 'held', tools: [search] },
    {},
    '/v1/chat/completions',
    { droppable: ['tools[0]'] },
  ],
  ['a provider-specific path at the host', 'responses', hello, { path: '/api/r', atHost: true }, '/api/r', {}],
  [
    'storage is requested where supported',
    'responses',
    { ...hello, previous_response_id: 'resp_1', store: true },
    {},
    '/v1/responses',
    {},
  ],
  [
    'storage is not requested where unsupported',
    'responses',
    { ...hello, store: true },
    { stateless: true },
    '/v1/responses',
    {},
  ],
  [
    'a reference to another provider’s stored response makes it unfit',
    'responses',
    { ...hello, previous_response_id: 'resp_1' },
    { stateless: true },
    '/v1/responses',
    { unfit: ['previous_response_id'] },
  ],
]
for (const [what, style, body, more, path, fitness] of ways)
  test(`prepare: ${what} (${style} to ${path})`, () => {
    const { url, dropped, unfit, droppable, body: sent } = preparedFor(two(more), style, body)
    assert.equal(url, `https://strict.example${path}`)
    assert.deepEqual({ dropped, unfit, droppable }, { dropped: [], unfit: [], droppable: [], ...fitness })
    const { store, previous_response_id } = JSON.parse(sent.text)
    const keeps = more.stateless ? {} : { store: body.store, previous_response_id: body.previous_response_id }
    if (path === '/v1/responses')
      assert.deepEqual({ store, previous_response_id }, { store: undefined, previous_response_id: undefined, ...keeps })
  })

// ── Reasoning of other providers, in the client's protocol ───────────────────────────────────────────────────────

/** Paths in the sent body refer to the list without the omitted entries. */
test('dropped: foreign reasoning in messages, and what is dropped after it, by the client’s own paths', () => {
  const thought = { type: 'thinking', thinking: 'hm', signature: '' }
  const body = {
    model: 'm',
    max_tokens: 5,
    messages: [
      { role: 'user', content: 'hello' },
      { role: 'assistant', content: [thought, { type: 'text', text: 'hi' }] },
      { role: 'user', content: 'again' },
      { role: 'assistant', content: [thought] },
      { role: 'user', content: 'and again' },
    ],
  }
  assert.deepEqual(dropped('messages', body, 'messages[1].content[0]', 'messages[3]'), [
    'messages[1].content[0]',
    'messages[3]',
    'messages[1].content[1]',
    'messages[4]',
  ])
})

test('dropped: foreign reasoning among the items of responses, and what is dropped after it', () => {
  const reasoning = { type: 'reasoning', id: 'rs_hg_1', summary: [{ type: 'summary_text', text: 'hm' }] }
  const said = { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'hi' }] }
  const asked = { role: 'user', content: 'hello' }
  const provider = { ...givesUp('input[3].content'), speaks: [{ protocol: 'openai-responses' }] } as const
  const body = { model: 'm', input: [asked, reasoning, said, asked, reasoning, said] }
  assert.deepEqual(preparedFor(provider, 'responses', body).dropped, ['input[1]', 'input[4]', 'input[5].content'])
})
