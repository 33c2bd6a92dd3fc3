/**
 * Claude Code's billing line differs in each request: `…; cch=71fe1;`. Anthropic alone receives it
 * (1rgs/claude-code-proxy#99, anthropics/claude-code#68900; Bedrock refuses it: anthropics/claude-code#24168).
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import type { UpstreamProtocolName } from '../../core/chat.ts'
import type { Provider } from '../../core/provider.ts'
import anthropic from '../../providers/anthropic.ts'
import vertex from '../../providers/vertex.ts'

const line = (turn: number) =>
  `x-anthropic-billing-header: cc_version=2.1.117.48${turn}; cc_entrypoint=cli; cch=71fe${turn};`
const AGENT = 'You are a coding agent.'
const hi = { role: 'user', content: 'hi' }

/** Requests whose turns differ in the line only, and the same request without it. */
const shapes: readonly (readonly [name: string, of: (turn: number) => object, without: object])[] = [
  [
    'a block of its own',
    (turn) => ({
      system: [
        { type: 'text', text: line(turn) },
        { type: 'text', text: AGENT, cache_control: { type: 'ephemeral' } },
      ],
      messages: [hi],
    }),
    { system: [{ type: 'text', text: AGENT, cache_control: { type: 'ephemeral' } }], messages: [hi] },
  ],
  ['the only block', (turn) => ({ system: [{ type: 'text', text: line(turn) }], messages: [hi] }), { messages: [hi] }],
  ['a text', (turn) => ({ system: `${line(turn)}\n\n${AGENT}`, messages: [hi] }), { system: AGENT, messages: [hi] }],
  [
    'the first line of a block',
    (turn) => ({ system: [{ type: 'text', text: `${line(turn)}\n${AGENT}` }], messages: [hi] }),
    { system: [{ type: 'text', text: AGENT }], messages: [hi] },
  ],
  [
    'a system message',
    (turn) => ({ messages: [{ role: 'system', content: `${line(turn)}\n${AGENT}` }, hi] }),
    { messages: [{ role: 'system', content: AGENT }, hi] },
  ],
]

const sentBy = async (upstream: UpstreamProtocolName, body: object, more: Partial<Provider> = {}) => {
  const { send, world } = gatewayHarness(
    [instance('a', ['k1', 'k2', 'k3', 'k4', 'k5'], { speaks: [{ protocol: upstream }], ...more })],
    (asked) => respondWith.error(asked, 400),
    { keyStrategy: 'sticky' },
  )
  const reply = send({ model: 'a/claude-m', max_tokens: 9, ...body }, 'anthropic-messages')
  await world.advance(5_000)
  const [call] = world.calls
  assert.ok(call, reply.text)
  const key = call.headers.authorization ?? call.headers['x-api-key']
  return { body: call.body ?? '', key, dropped: reply.headers['x-headgate-dropped'] ?? '' }
}

for (const upstream of ['openai-chat', 'openai-responses', 'gemini', 'bedrock-converse', 'anthropic-messages'] as const)
  for (const [name, of, without] of shapes)
    test(`billing line, ${name}: ${upstream} of another vendor does not receive it`, async () => {
      const plain = await sentBy(upstream, without)
      for (const turn of [1, 2]) {
        const sent = await sentBy(upstream, of(turn))
        assert.equal(sent.body, plain.body)
        // The line is not reported; other members are, by the client's path.
        assert.equal(sent.dropped.replace('system[1].', 'system[0].'), plain.dropped)
      }
      assert.doesNotMatch(plain.body, /billing/)
    })

for (const [name, of] of shapes)
  test(`billing line, ${name}: sticky requests use the same key`, async () => {
    const [first, second, third] = await Promise.all([1, 2, 3].map((turn) => sentBy('openai-chat', of(turn))))
    assert.deepEqual([second?.key, third?.key], [first?.key, first?.key])
  })

test('billing line: Anthropic receives it unchanged, Claude at Vertex does not', async () => {
  for (const [, of] of shapes) {
    const { readsBillingLine } = anthropic
    const own = JSON.parse((await sentBy('anthropic-messages', of(1), { readsBillingLine })).body)
    assert.deepEqual(own, { model: 'claude-m', max_tokens: 9, ...of(1) })
  }
  assert.ok(!('readsBillingLine' in vertex))
})

test('billing line: the same text in a message of the user stays', async () => {
  const { body } = await sentBy('openai-chat', { messages: [{ role: 'user', content: line(1) }] })
  assert.match(body, /x-anthropic-billing-header/)
})
