import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ProtocolName } from '../../core/chat.ts'
import type { Instance, ProtocolSupport, Provider } from '../../core/provider.ts'
import { protocolsInOrder, supportsStoredResponses } from './choose-protocol.ts'

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
    ["a model's own, though the client speaks another", byModel, 'openai-chat', 'claude-x', ['anthropic-messages']],
    ["a model's own, which is the client's", byModel, 'anthropic-messages', 'claude-x', ['anthropic-messages']],
    ["the others', though the client speaks the model's", byModel, 'anthropic-messages', 'gemini-x', ['gemini']],
    ['none', onlySome, 'anthropic-messages', 'gemini-x', []],
  ]
for (const [name, speaks, client, model, expected] of cases)
  test(`wire: ${name}`, () => {
    const wires = protocolsInOrder(client, instance(speaks), model)
    assert.deepEqual(
      wires.map(({ protocol }) => protocol),
      expected,
    )
  })

const lackings: readonly (readonly [
  string,
  readonly ProtocolSupport[],
  readonly ProtocolName[],
  readonly ProtocolName[],
])[] = [
  ['nothing is lacking', both, [], ['openai-chat', 'openai-responses']],
  ['what is lacking is left out', both, ['openai-chat'], ['openai-responses']],
  [
    'the last remaining protocol is still used',
    both,
    ['openai-chat', 'openai-responses'],
    ['openai-chat', 'openai-responses'],
  ],
  ['the only one too', [{ protocol: 'openai-chat' }], ['openai-chat'], ['openai-chat']],
]
for (const [name, speaks, lacking, expected] of lackings)
  test(`wire: ${name}`, () => {
    const wires = protocolsInOrder('openai-chat', instance(speaks), 'm', new Set(lacking))
    assert.deepEqual(
      wires.map(({ protocol }) => protocol),
      expected,
    )
  })

test('wire: what is spoken there is given as it is, in order', () => {
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

const memories: readonly (readonly [string, readonly ProtocolSupport[], boolean])[] = [
  ['one that speaks responses', both, true],
  ['one that does not', [{ protocol: 'openai-chat' }], false],
  ['one that keeps nothing', [{ protocol: 'openai-responses', stateless: true }, { protocol: 'openai-chat' }], false],
]
for (const [name, speaks, keeps] of memories)
  test(`wire: ${name} ${keeps ? 'remembers' : 'does not remember'} its answers`, () =>
    assert.equal(supportsStoredResponses(instance(speaks)), keeps))
