/** Rules on answers, on the whole request path without sockets: all styles, whole and streamed, in each format of a provider. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type AnswerContent, piecesOf } from '../../../test/support/answers.ts'
import { CapturedReply, gatewayHarness, instance } from '../../../test/support/gateway.ts'
import {
  answering,
  asked,
  CACHED,
  harness,
  hasTools,
  rulesOf,
  STYLES,
  seen,
  UPSTREAMS,
} from '../../../test/support/guarded-gateway.ts'
import { ANONYMOUS } from '../../core/accounts.ts'
import type { ClientProtocolName } from '../../core/chat.ts'
import type { JsonObject } from '../../core/json.ts'
import { protocols } from '../../protocols/index.ts'
import { serveChat } from '../chat/serve-chat.ts'
import { createResponse } from '../responses/create-response.ts'

const ASK: Readonly<Record<ClientProtocolName, JsonObject>> = {
  'openai-chat': { model: 'm', messages: [{ role: 'user', content: 'to ann@b.example' }] },
  'openai-responses': { model: 'm', store: false, input: 'to ann@b.example' },
  'anthropic-messages': { model: 'm', max_tokens: 9, messages: [{ role: 'user', content: 'to ann@b.example' }] },
  'openai-completions': { model: 'm', prompt: 'to ann@b.example' },
  gemini: { model: 'm', contents: [{ role: 'user', parts: [{ text: 'to ann@b.example' }] }] },
}
const CONTENT: AnswerContent = {
  text: 'Write to bob@c.example, card 4111 1111 1111 1111.',
  tools: [{ id: 'c2', name: 'save', arguments: JSON.stringify({ note: 'keep bob@c.example', count: 2 }) }],
}
const TEXT_ONLY: AnswerContent = { text: CONTENT.text ?? '' }
const MASKED = 'Write to [EMAIL], card [CARD].'
const PII = { name: 'pii', on: ['request', 'answer'], kinds: ['email', 'card'], action: 'mask' } as const

for (const style of STYLES)
  for (const upstream of UPSTREAMS)
    for (const stream of [false, true])
      test(`answers: what is new is masked, ${style} at ${upstream}, ${stream ? 'streamed' : 'whole'}`, async () => {
        const content = hasTools(style) ? CONTENT : TEXT_ONLY
        for (const tools of [false, true]) {
          const { send, events } = harness(answering(content), { upstream, guards: rulesOf({ ...PII, tools }) })
          const reply = await send({ ...ASK[style], stream }, style)
          assert.equal(reply.status, 200, reply.text)
          const note = content.tools && { note: tools ? 'keep [EMAIL]' : 'keep bob@c.example', count: 2 }
          assert.deepEqual(seen(style, reply, stream), { text: MASKED, note })
          const [request] = events.flatMap((event) => (event.event === 'request' ? [event.trace] : []))
          const verdicts = request?.flatMap((event) => (event.type === 'guard' ? [event.verdict] : []))
          assert.deepEqual(
            verdicts?.map(({ phase, action, counts }) => [phase, action, counts]),
            [
              ['request', 'mask', { EMAIL: 1 }],
              ['answer', 'mask', { EMAIL: content.tools ? 2 : 1, CARD: 1 }],
            ],
          )
          // The head of a stream is sent before its text.
          const sum = content.tools ? 3 : 2
          assert.equal(reply.headers['x-headgate-guards'], stream ? 'pii=mask:1' : `pii=mask:1, pii=mask:${sum}`)
        }
      })

test('answers: the mask of the client is restored, and what it stands for is not masked again', async () => {
  const guards = rulesOf(PII)
  const { send } = harness(
    (call) => {
      const mask = /\[EMAIL_\w+\]/.exec(call.body ?? '')?.[0] ?? ''
      answering({ text: `I wrote to ${mask}, not to bob@c.example.` })(call)
    },
    { guards },
  )
  for (const stream of [false, true]) {
    const reply = await send({ ...ASK['openai-chat'], stream }, 'openai-chat')
    assert.equal(seen('openai-chat', reply, stream).text, 'I wrote to ann@b.example, not to [EMAIL].')
  }
})

for (const style of STYLES)
  test(`answers: a stream cut anywhere is masked: ${style}`, async () => {
    const content = { text: 'a bob@c.example b' }
    let cut = 1
    let length = 2
    const upstream = style === 'openai-completions' ? 'openai-chat' : style
    const { send } = harness(
      (call) => {
        length = Buffer.from(piecesOf(asked(call), content).join('')).length
        answering(content, cut)(call)
      },
      { upstream, guards: rulesOf(PII) },
    )
    for (; cut < length; cut += 7)
      assert.equal(seen(style, await send({ ...ASK[style], stream: true }, style), true).text, 'a [EMAIL] b', `${cut}`)
  })

const CARDS = { name: 'cards', on: ['answer'], kinds: ['card'], action: 'block' } as const

for (const style of STYLES)
  for (const stream of [false, true])
    test(`answers: a block ends the answer with an error of the style, and no other target is tried: ${style}, ${stream ? 'streamed' : 'whole'}`, async () => {
      const made = gatewayHarness([instance('a'), instance('b')], (call) => {
        const request = asked(call)
        if (!request.stream) return answering(TEXT_ONLY)(call)
        // The rest of the stream never comes.
        call.head(200, { 'content-type': 'text/event-stream' })
        call.send(
          piecesOf(request, { text: `${TEXT_ONLY.text} And more.` })
            .slice(0, -2)
            .join(''),
        )
      })
      const gateway = { ...made.gateway, guards: rulesOf(CARDS) }
      const reply = new CapturedReply()
      const received = {
        id: 'req_a',
        method: 'POST',
        path: '/v1/x',
        query: 'alt=sse',
        headers: () => undefined,
        client: CACHED,
      }
      const body = { text: JSON.stringify({ ...ASK[style], model: 'anything', stream }) }
      const served =
        style === 'openai-responses'
          ? createResponse(gateway, { ...received, body }, reply)
          : serveChat(gateway, { protocol: protocols[style], received: { ...received, body }, responseWriter: reply })
      for (let turn = 0; turn < 5; turn++) await made.world.advance(1)
      await served
      assert.match(reply.text, /Blocked by the rule \\"cards\\", which found in the answer: card\./)
      assert.ok(!reply.text.includes('4111'), reply.text)
      assert.equal(reply.status, stream ? 200 : 400)
      assert.equal(made.world.calls.length, 1)
      assert.ok(!/"finish_reason":"|"stop_reason":"|response\.completed|message_stop/.test(reply.text), reply.text)
      if (stream) assert.ok(made.world.calls[0]?.aborted)
      assert.equal(gateway.cache.size, 0)
      assert.equal(gateway.activeCalls.size, 0)
      const [trace] = made.events.flatMap((event) => (event.event === 'request' ? [event.trace] : []))
      const usage = trace?.find((event) => event.type === 'usage')
      assert.ok(usage?.type === 'usage' && usage.usage.output > 0, JSON.stringify(trace))
      // The target has answered: it is not charged with a failure.
      assert.ok(!made.events.some(({ event }) => event === 'circuit' || event === 'key'))
    })

for (const [style, members] of [
  ['openai-chat', { logprobs: true }],
  ['openai-completions', { logprobs: 1 }],
  ['openai-responses', { include: ['message.output_text.logprobs'] }],
] as const)
  test(`answers: probabilities of tokens, which have the text, are refused: ${style}`, async () => {
    const { send, world } = harness(answering(TEXT_ONLY), { guards: rulesOf(CARDS) })
    const reply = await send({ ...ASK[style], ...members }, style)
    assert.equal(reply.status, 400, reply.text)
    assert.match(reply.text, /a guard reads the answer/)
    assert.equal(world.calls.length, 0)
    const onRequests = harness(answering(TEXT_ONLY), { guards: rulesOf({ ...CARDS, on: ['request'] }) })
    assert.equal((await onRequests.send({ ...ASK[style], ...members }, style)).status, 200)
  })

for (const stream of [false, true])
  test(`answers: the cache has what the client has seen, ${stream ? 'streamed' : 'whole'}`, async () => {
    const { send, world } = harness(answering(TEXT_ONLY), { guards: rulesOf(PII), client: CACHED })
    for (let turn = 0; turn < 2; turn++) {
      const reply = await send({ ...ASK['openai-chat'], stream }, 'openai-chat')
      assert.equal(seen('openai-chat', reply, stream).text, MASKED)
    }
    assert.equal(world.calls.length, 1)
  })

test('answers: a stored turn and a background response have what the client has seen', async () => {
  const { send, serving, gateway, world, store } = harness(answering(TEXT_ONLY), { guards: rulesOf(PII) })
  const first = await send({ model: 'm', input: 'hello' }, 'openai-responses')
  assert.equal(first.json.output[0].content[0].text, MASKED)
  const stored = store.memory.get(first.json.id, 'me')
  assert.ok(stored?.response.includes(MASKED) && !stored.response.includes('bob@'))
  const second = await send({ model: 'm', previous_response_id: first.json.id, input: 'more' }, 'openai-responses')
  assert.equal(second.status, 200)
  assert.ok(!world.calls[1]?.body?.includes('bob@') && world.calls[1]?.body?.includes(MASKED))
  for (const [rule, status] of [
    [PII, 'completed'],
    [CARDS, 'failed'],
  ] as const) {
    const queued = await serving({ model: 'm', background: true, input: 'hello' }, (received, writer) =>
      createResponse({ ...gateway, guards: rulesOf(rule) }, received, writer),
    )
    await world.advance(1)
    const later = store.memory.get(queued.json.id, 'me')
    assert.equal(later?.status, status, later?.response)
    assert.ok(!later?.response.includes('4111'))
    if (status === 'failed') assert.match(later?.response ?? '', /Blocked by the rule/)
  }
})

test('answers: without a rule on answers they pass unchanged', async () => {
  const { send } = harness(answering(CONTENT), { guards: rulesOf({ ...PII, on: ['request'] }), client: ANONYMOUS })
  const reply = await send({ model: 'm', messages: [{ role: 'user', content: 'hello' }] }, 'openai-chat')
  assert.equal(seen('openai-chat', reply, false).text, CONTENT.text)
})
