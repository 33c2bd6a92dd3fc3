import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ProtocolName } from '../../core/chat.ts'
import type { Instance, ProtocolSupport, Provider } from '../../core/provider.ts'
import { protocols } from '../../protocols/index.ts'
import { protocolsInOrder, storesAnswersIn } from './choose-protocol.ts'

const instance = (speaks: readonly ProtocolSupport[]): Instance => {
  const provider: Provider = { name: 'p', title: 'p', order: 1, speaks, auth: 'none' }
  return { id: 'p', provider, baseUrl: 'http://p', keys: [], models: [], speaks, variables: {} }
}

const both: readonly ProtocolSupport[] = [{ protocol: 'openai-responses' }, { protocol: 'openai-chat' }]
const byModel: readonly ProtocolSupport[] = [
  { protocol: 'gemini' },
  { protocol: 'anthropic-messages', models: /^claude-/ },
]
const onlySome: readonly ProtocolSupport[] = [{ protocol: 'anthropic-messages', models: /^claude-/ }]

const cases: readonly (readonly [string, readonly ProtocolSupport[], ProtocolName, string, readonly ProtocolName[]])[] =
  [
    ["the client's own first", both, 'openai-chat', 'm', ['openai-chat', 'openai-responses']],
    ["the upstream's order", both, 'anthropic-messages', 'm', ['openai-responses', 'openai-chat']],
    ["the model's protocol, if the client uses another", byModel, 'openai-chat', 'claude-x', ['anthropic-messages']],
    [
      "the model's protocol, if the client uses it too",
      byModel,
      'anthropic-messages',
      'claude-x',
      ['anthropic-messages'],
    ],
    ["a model without the client's protocol", byModel, 'anthropic-messages', 'gemini-x', ['gemini']],
    ['no protocol for the model', onlySome, 'anthropic-messages', 'gemini-x', []],
  ]
for (const [name, speaks, client, model, expected] of cases)
  test(`protocols: ${name}`, () => {
    const chosen = protocolsInOrder(client, instance(speaks), model)
    assert.deepEqual(
      chosen.map(({ protocol }) => protocol),
      expected,
    )
  })

const missingCases: readonly (readonly [
  string,
  readonly ProtocolSupport[],
  readonly ProtocolName[],
  readonly ProtocolName[],
])[] = [
  ['no protocol is missing', both, [], ['openai-chat', 'openai-responses']],
  ['a missing protocol is left out', both, ['openai-chat'], ['openai-responses']],
  [
    'the last remaining protocol is still used',
    both,
    ['openai-chat', 'openai-responses'],
    ['openai-chat', 'openai-responses'],
  ],
  ['a single protocol is still used', [{ protocol: 'openai-chat' }], ['openai-chat'], ['openai-chat']],
]
for (const [name, speaks, missing, expected] of missingCases)
  test(`protocols: ${name}`, () => {
    const chosen = protocolsInOrder('openai-chat', instance(speaks), 'm', new Set(missing))
    assert.deepEqual(
      chosen.map(({ protocol }) => protocol),
      expected,
    )
  })

test("protocols: keeps the provider's order after the client's protocol", () => {
  const only: readonly ProtocolSupport[] = [{ protocol: 'gemini' }]
  assert.deepEqual(protocolsInOrder('openai-chat', instance(only), 'm'), only)
  const three: readonly ProtocolSupport[] = [
    { protocol: 'gemini' },
    { protocol: 'cohere' },
    { protocol: 'openai-chat' },
  ]
  assert.deepEqual(
    protocolsInOrder('openai-chat', instance(three), 'm').map(({ protocol }) => protocol),
    ['openai-chat', 'gemini', 'cohere'],
  )
})

const storage: readonly (readonly [string, readonly ProtocolSupport[], boolean])[] = [
  ['a provider with the responses API', both, true],
  ['a provider without it', [{ protocol: 'openai-chat' }], false],
  [
    'a stateless responses API',
    [{ protocol: 'openai-responses', stateless: true }, { protocol: 'openai-chat' }],
    false,
  ],
]
for (const [name, speaks, stores] of storage)
  test(`protocols: ${name} ${stores ? 'stores' : 'does not store'} responses`, () =>
    assert.equal(storesAnswersIn(protocols['openai-responses'], instance(speaks)), stores))
