import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type CapturedReply, chatAnswer, gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import type { ScriptedCall } from '../../../test/support/still-world.ts'
import { fail } from '../../core/failure.ts'
import { summarize } from '../../core/trace-summary.ts'

const WORDS = Array.from({ length: 400 }, (_, at) => `word${at % 7} `)
/** A tolerance around the estimated tokens of the text. */
const ABOUT = 400 * 1.9
const begun = (asked: ScriptedCall) => {
  asked.head(200, { 'content-type': 'text/event-stream' })
  asked.send(chatAnswer.role() + WORDS.map((content) => chatAnswer.chunk({ content })).join(''))
}
const counted = `data: ${JSON.stringify({ id: 'c', choices: [], usage: { prompt_tokens: 7, completion_tokens: 9 } })}\n\n`
const end = chatAnswer.chunk({}, 'stop')

const cases: readonly (readonly [
  string,
  boolean,
  (asked: ScriptedCall, reply: () => CapturedReply) => void,
  { readonly outcome: string; readonly estimated: boolean },
])[] = [
  [
    'counted',
    true,
    (asked) => {
      begun(asked)
      asked.send(end + counted + chatAnswer.done)
      asked.end()
    },
    { outcome: 'answered', estimated: false },
  ],
  [
    'not counted',
    true,
    (asked) => {
      begun(asked)
      asked.send(end + chatAnswer.done)
      asked.end()
    },
    { outcome: 'answered', estimated: true },
  ],
  [
    'whole, not counted',
    false,
    (asked) => respondWith.json(asked, 200, chatAnswer.whole(WORDS.join(''), { usage: null })),
    { outcome: 'answered', estimated: true },
  ],
  [
    'broken off',
    true,
    (asked) => {
      begun(asked)
      asked.fail(fail('reset', 'reset'))
    },
    { outcome: 'interrupted', estimated: true },
  ],
  [
    'left by its client',
    true,
    (asked, reply) => {
      begun(asked)
      reply().disconnect()
    },
    { outcome: 'client_gone', estimated: true },
  ],
  [
    'left by its client at once',
    true,
    (asked, reply) => {
      begun(asked)
      queueMicrotask(() => reply().disconnect())
    },
    { outcome: 'client_gone', estimated: true },
  ],
]

for (const [name, stream, plays, expected] of cases)
  test(`usage: an answer ${name}`, async () => {
    let reply: CapturedReply | undefined
    const { send, world, events } = gatewayHarness([instance('a')], (asked) =>
      plays(asked, () => reply ?? assert.fail('no reply yet')),
    )
    reply = send({
      model: 'm',
      messages: [{ role: 'user', content: 'hello' }],
      stream,
      stream_options: { include_usage: true },
    })
    await world.advance(3_000)
    const line = events.find(({ event }) => event === 'request')
    assert.ok(line?.event === 'request')
    const { outcome, usage, estimated = false } = summarize(line.trace)
    assert.deepEqual({ outcome, estimated }, expected)
    assert.ok(usage)
    if (!estimated) return assert.deepEqual([usage.input, usage.output], [7, 9])
    assert.ok(usage.input > 3 && usage.input < 20, `${usage.input}`)
    assert.ok(usage.output > ABOUT / 2 && usage.output < ABOUT * 2, `${usage.output}`)
    assert.doesNotMatch(reply.text, /_tokens/, 'the client receives no estimated counts')
  })
