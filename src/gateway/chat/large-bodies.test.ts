import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chatAnswer, gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import type { ScriptedCall } from '../../../test/support/still-world.ts'
import type { ClientProtocolName } from '../../core/chat.ts'
import { PIECE } from '../../core/steps.ts'

const messages = Array.from({ length: 400 }, (_, at) => ({
  role: at % 2 === 0 ? 'user' : 'assistant',
  content: `${at} "é😀" ${'x'.repeat(1_000)}`,
}))
const large = { model: 'm', max_tokens: 100, messages }
const claude = (id = 'claude') => instance(id, ['k1'], { speaks: [{ protocol: 'anthropic-messages' }] })
const answers = (asked: ScriptedCall) =>
  asked.url.includes('claude')
    ? respondWith.json(
        asked,
        200,
        JSON.stringify({
          id: 'msg_1',
          type: 'message',
          role: 'assistant',
          model: 'm',
          content: [{ type: 'text', text: 'Hello' }],
          stop_reason: 'end_turn',
          usage: { input_tokens: 1, output_tokens: 1 },
        }),
      )
    : respondWith.json(asked, 200, chatAnswer.whole('Hello'))

/** The texts of messages in a body of any format, in order. */
const textsIn = (body: string): string[] => {
  const found: string[] = []
  JSON.parse(body, (name, value) => {
    if ((name === 'content' || name === 'text') && typeof value === 'string') found.push(value)
    return value
  })
  return found
}

const ways: readonly (readonly [from: ClientProtocolName, to: string])[] = [
  ['openai-chat', 'claude'],
  ['openai-chat', 'a'],
  ['anthropic-messages', 'claude'],
  ['anthropic-messages', 'a'],
]
for (const [from, to] of ways)
  test(`large body: a ${from} request reaches ${to} complete, as text and as bytes`, async () => {
    const it = gatewayHarness([to === 'claude' ? claude() : instance('a')], answers)
    const reply = it.send({ ...large, model: to === 'claude' ? 'claude/m' : 'a/m' }, from)
    await it.world.advance(1_000)
    assert.equal(reply.status, 200)
    const [call] = it.world.calls
    assert.ok((call?.body?.length ?? 0) > PIECE)
    assert.deepEqual(
      textsIn(call?.body ?? ''),
      messages.map(({ content }) => content),
    )
  })

test('large body: a client that disconnects during encoding starts no attempt and frees its permit', async () => {
  const askedFor = async (leaves: number) => {
    const it = gatewayHarness([claude()], answers)
    let turns = 0
    const { turn } = it.world
    Object.assign(it.world, {
      turn: (run: () => void) => {
        if (++turns === leaves) reply.disconnect()
        turn(run)
      },
    })
    const reply = it.send({ ...large, model: 'claude/m' })
    await it.world.advance(1_000)
    const [target] = it.gateway.config().instances
    const [key] = target?.keys ?? []
    assert.ok(target && key)
    return { turns, calls: it.world.calls.length, held: it.gateway.health.load.inFlight(target, key) }
  }
  const whole = await askedFor(Number.POSITIVE_INFINITY)
  assert.equal(whole.calls, 1)
  // The last turns of the event loop are those of the encoder.
  const { calls, held } = await askedFor(whole.turns - 1)
  assert.deepEqual({ calls, held }, { calls: 0, held: 0 })
})

test('large body: each unfit target is prepared in its own turn of the event loop', async () => {
  const unfit = ['claude', 'claude2', 'claude3', 'claude4']
  const it = gatewayHarness([...unfit.map((id) => claude(id)), instance('a')], answers, {
    routes: { r: [...unfit.map((id) => `${id}/m`), 'a/m'] },
  })
  let turns = 0
  const { turn } = it.world
  Object.assign(it.world, {
    turn: (run: () => void) => {
      turns++
      turn(run)
    },
  })
  const audio = { modalities: ['text', 'audio'], audio: { voice: 'alloy', format: 'wav' } }
  it.send({ ...large, ...audio, model: 'a/m' })
  await it.world.advance(1_000)
  const alone = turns
  turns = 0
  it.send({ ...large, ...audio, model: 'r' })
  await it.world.advance(1_000)
  assert.deepEqual(
    it.world.calls.map(({ url }) => new URL(url).host),
    ['a.test', 'a.test'],
  )
  assert.ok(turns >= alone + unfit.length, `${turns} turns, ${alone} where one target is left`)
})
