/**
 * An answer blocked by the provider's content filter: a refusal in every client style, with empty content. Azure
 * sends it as a choice with its reason alone, without `message` or `delta`, or with a message without `content`
 * (microsoft/semantic-kernel#5240, zhayujie/CowAgent#1539).
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type CapturedReply, chatAnswer, gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import type { ClientProtocolName } from '../../core/chat.ts'

const RESULTS = { violence: { filtered: true, severity: 'medium' } }
const filtered = (more: object = {}, reason = 'content_filter') =>
  chatAnswer.whole('', {
    choices: [{ index: 0, ...more, finish_reason: reason, logprobs: null, content_filter_results: RESULTS }],
  })
const stream = (more: object) =>
  `${chatAnswer.role()}data: ${JSON.stringify({
    id: 'chatcmpl-1',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'm',
    choices: [{ index: 0, ...more, finish_reason: 'content_filter', content_filter_results: RESULTS }],
  })}\n\n${chatAnswer.done}`

const BODIES: Readonly<Record<Exclude<ClientProtocolName, 'openai-completions'>, object>> = {
  'openai-chat': { model: 'm', messages: [{ role: 'user', content: 'x' }] },
  'openai-responses': { model: 'm', input: 'x' },
  'anthropic-messages': { model: 'm', max_tokens: 9, messages: [{ role: 'user', content: 'x' }] },
  gemini: { model: 'm', contents: [{ role: 'user', parts: [{ text: 'x' }] }] },
}
type Style = keyof typeof BODIES

const WHOLE: readonly (readonly [name: string, answer: string])[] = [
  ['without a message', filtered()],
  ['without content', filtered({ message: { role: 'assistant' } })],
  ['with a null message', filtered({ message: null })],
  ["under Gemini's name", filtered({}, 'SAFETY')],
]
const isRefusal: Readonly<Record<Style, (reply: CapturedReply) => void>> = {
  'openai-chat': ({ json }) => {
    const [choice] = json.choices
    assert.deepEqual(choice.message, { role: 'assistant', content: '', refusal: null })
    assert.match(choice.finish_reason, /^(?:content_filter|SAFETY)$/)
    assert.deepEqual(choice.content_filter_results, RESULTS)
  },
  'openai-responses': ({ json }) => {
    assert.equal(json.status, 'incomplete')
    assert.deepEqual(json.incomplete_details, { reason: 'content_filter' })
    assert.deepEqual(json.output, [])
  },
  'anthropic-messages': ({ json }) => {
    assert.equal(json.stop_reason, 'refusal')
    assert.deepEqual(json.content, [])
  },
  gemini: ({ json }) => {
    const [candidate] = json.candidates ?? []
    // Where the reason is one of Gemini's, it is that of a candidate.
    if (candidate) assert.deepEqual(candidate.content.parts, [{ text: '' }])
    assert.equal(candidate?.finishReason ?? json.promptFeedback.blockReason, 'SAFETY')
  },
}

for (const style of Object.keys(BODIES) as Style[]) {
  for (const [name, answer] of WHOLE)
    test(`filtered: a whole answer ${name} is a refusal to ${style} clients, and no failure`, async () => {
      const { send, world, events } = gatewayHarness([instance('a')], (asked) => respondWith.json(asked, 200, answer))
      // More than enough to open a circuit.
      for (let n = 0; n < 7; n++) {
        const reply = send(BODIES[style], style)
        await world.advance(1)
        assert.equal(reply.status, 200, reply.text)
        isRefusal[style](reply)
      }
      assert.equal(world.calls.length, 7)
      assert.deepEqual(
        events.filter(({ event }) => event === 'circuit'),
        [],
      )
    })

  for (const [name, more] of [
    ['without a delta', {}],
    ['with a null delta', { delta: null }],
    ['with an empty delta', { delta: {} }],
  ] as const)
    test(`filtered: a stream that ends ${name} is a refusal to ${style} clients`, async () => {
      const { send, world } = gatewayHarness([instance('a')], (asked) => respondWith.stream(asked, stream(more)))
      const reply = send({ ...BODIES[style], stream: true }, style)
      await world.advance(1)
      assert.equal(reply.status, 200, reply.text)
      const frames = [...reply.text.matchAll(/^data: (\{.*\})$/gm)].map(([, json = '']) => JSON.parse(json))
      if (style === 'openai-chat') {
        const last = frames.at(-1).choices[0]
        assert.equal(last.finish_reason, 'content_filter')
        assert.deepEqual(last.delta, {})
        assert.ok(reply.text.endsWith(chatAnswer.done))
      } else if (style === 'openai-responses') {
        assert.equal(frames.at(-1).type, 'response.incomplete')
        assert.deepEqual(frames.at(-1).response.incomplete_details, { reason: 'content_filter' })
      } else if (style === 'gemini') assert.deepEqual(frames.at(-1).promptFeedback, { blockReason: 'SAFETY' })
      else assert.equal(frames.find(({ type }) => type === 'message_delta').delta.stop_reason, 'refusal')
    })
}

test('filtered: a choice without a message and with another finish reason is malformed', async () => {
  const { send, world } = gatewayHarness([instance('a')], (asked) => respondWith.json(asked, 200, filtered({}, 'stop')))
  const reply = send(BODIES['openai-chat'])
  await world.advance(10_000)
  assert.equal(reply.status, 502)
  assert.equal(reply.json.error.code, 'malformed')
})
