import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type CapturedReply,
  chatAnswer,
  gatewayHarness,
  instance,
  respondWith,
  type SettingsInput,
} from '../../../test/support/gateway.ts'
import type { ScriptedCall } from '../../../test/support/still-world.ts'
import type { ClientProtocolName } from '../../core/chat.ts'
import { fail } from '../../core/failure.ts'
import type { Instance, Provider } from '../../core/provider.ts'
import { summarize } from '../../core/trace-summary.ts'

const ON: SettingsInput = { stream: { continue: true } }
const takes: Partial<Provider> = {
  supportsPrefill: { protocol: 'openai-chat', body: (body) => ({ ...body, marked: true }) },
}
const two = (more: Partial<Provider> = takes): readonly Instance[] => [instance('a'), instance('b', ['k1'], more)]

const question = (more: object = {}) => ({
  model: 'anything',
  messages: [{ role: 'user', content: 'hello' }],
  stream: true,
  stream_options: { include_usage: true },
  ...more,
})
const host = ({ url }: ScriptedCall) => new URL(url).host.split('.')[0]
const bodyOf = ({ body }: ScriptedCall) => JSON.parse(body ?? '{}')
const textOf = ({ text }: CapturedReply): string =>
  [...text.matchAll(/^data: (\{.*\})$/gm)]
    .map(([, json = '{}']) => JSON.parse(json).choices?.[0]?.delta?.content ?? '')
    .join('')
const counted = (input: number, output: number) =>
  `data: ${JSON.stringify({ id: 'second', choices: [], usage: { prompt_tokens: input, completion_tokens: output } })}\n\n`

/** The first target sends part of the answer and fails; the second sends the rest. */
const play2 =
  (first: string, rest: string, ends: (asked: ScriptedCall) => void = (asked) => asked.end()) =>
  (asked: ScriptedCall) => {
    asked.head(200, { 'content-type': 'text/event-stream' })
    if (host(asked) === 'a') {
      asked.send(chatAnswer.role() + chatAnswer.chunk({ content: first }))
      return ends(asked)
    }
    asked.send(chatAnswer.role().replaceAll('chatcmpl-1', 'second') + rest)
    asked.end()
  }
const rest = (...words: readonly string[]) =>
  words.map((content) => chatAnswer.chunk({ content })).join('') +
  chatAnswer.chunk({}, 'stop') +
  counted(9, 4) +
  chatAnswer.done

const lineOf = (events: ReturnType<typeof gatewayHarness>['events']) => {
  const line = events.find(({ event }) => event === 'request')
  assert.ok(line?.event === 'request')
  return summarize(line.trace)
}

// ── Joining both parts ──────────────────────────────────────────────────────────────────────────────────────────────────────

test('continue: a second target continues the same stream, and both are recorded', async () => {
  const { send, world, events, gateway } = gatewayHarness(two(), play2('Hello, ', rest('wor', 'ld.')), ON)
  const reply = send(question({ max_tokens: 100 }))
  await world.advance(0)
  assert.equal(textOf(reply), 'Hello, world.')
  assert.equal(reply.ending, 'ended')
  assert.ok(reply.text.endsWith('data: [DONE]\n\n'))
  const chunks = [...reply.text.matchAll(/^data: (\{.*\})$/gm)].map(([, json = '']) => JSON.parse(json))
  assert.deepEqual([...new Set(chunks.map(({ id }) => id))], ['chatcmpl-1'])
  assert.equal(chunks.filter(({ choices }) => choices[0]?.delta?.role).length, 1)
  assert.match(reply.text, /\n: headgate continued provider=b model=m\n/)

  const [first, second] = world.calls
  assert.ok(first && second)
  assert.deepEqual(bodyOf(second).messages.at(-1), { role: 'assistant', content: 'Hello,' })
  assert.equal(bodyOf(second).marked, true)
  assert.equal(bodyOf(first).marked, undefined)
  const left = bodyOf(second).max_completion_tokens ?? bodyOf(second).max_tokens
  assert.ok(left > 90 && left < 100, `${left}`)

  const line = lineOf(events)
  assert.equal(line.outcome, 'answered')
  assert.equal(line.provider, 'b')
  assert.equal(line.trail, 'a#k1:truncated, b#k1:200')
  assert.equal(line.attempts.length, 2)
  assert.equal(line.estimated, true)
  // The first usage is estimated, the second reported. The client and the log receive the sum.
  const usage = chunks.at(-1).usage
  assert.ok(usage.completion_tokens > 4 && usage.completion_tokens < 10, JSON.stringify(usage))
  assert.deepEqual([line.usage?.input, line.usage?.output], [usage.prompt_tokens, usage.completion_tokens])
  const counts = (id: string) => gateway.health.circuits.counts(`${id} k1 m`, gateway.config().settings.circuit)
  assert.deepEqual([counts('a').failures, counts('b').failures, counts('b').successes], [1, 0, 1])
  assert.equal(world.timers(), 0)
})

const seams: readonly (readonly [string, string, readonly string[], string])[] = [
  ['a repeated space', 'one ', [' two'], 'one two'],
  ['a space that is not repeated', 'one ', ['two'], 'one two'],
  ['two line breaks in two chunks', 'one\n\n', ['\n', '\ntwo'], 'one\n\ntwo'],
  ['other white space', 'one ', ['\ntwo'], 'one \ntwo'],
  ['in the middle of a word', 'on', ['e two'], 'one two'],
  ['no more text', 'one', [], 'one'],
]
for (const [name, first, words, whole] of seams)
  test(`continue: joins ${name}`, async () => {
    const { send, world } = gatewayHarness(two(), play2(first, rest(...words)), ON)
    const reply = send(question())
    await world.advance(0)
    assert.equal(textOf(reply), whole)
    assert.ok(reply.text.endsWith('data: [DONE]\n\n'), reply.text)
  })

test('continue: reasoning of the second target is not sent', async () => {
  const thinking = chatAnswer.chunk({ reasoning_content: 'hm' }) + rest(' two')
  const { send, world } = gatewayHarness(two(), play2('one', thinking), ON)
  const reply = send(question())
  await world.advance(0)
  assert.equal(textOf(reply), 'one two')
  assert.doesNotMatch(reply.text, /hm/)
})

const message = (text: string) =>
  [
    {
      type: 'message_start',
      message: {
        id: 'msg_b',
        type: 'message',
        role: 'assistant',
        model: 'c',
        content: [],
        usage: { input_tokens: 9, output_tokens: 1 },
      },
    },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } },
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 4 } },
    { type: 'message_stop' },
  ]
    .map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
    .join('')

const asClient: readonly (readonly [ClientProtocolName, object, RegExp, RegExp])[] = [
  ['openai-chat', {}, /"finish_reason":"stop"[\s\S]*\[DONE\]\n\n$/, /"role":"assistant"/g],
  ['anthropic-messages', { max_tokens: 50 }, /event: message_stop\n[^\n]*\n\n$/, /event: message_start/g],
  [
    'openai-responses',
    { input: 'hello' },
    /event: response\.completed[\s\S]*"text":"one two"[\s\S]*\[DONE\]\n\n$/,
    /event: response\.created/g,
  ],
]
for (const [style, more, end, begin] of asClient)
  test(`continue: ${style} from chat, continued from messages`, async () => {
    const speaks = [{ protocol: 'anthropic-messages' }] as const
    const { send, world } = gatewayHarness(
      two({ speaks, supportsPrefill: { protocol: 'anthropic-messages' } }),
      (asked) => {
        if (host(asked) === 'a') return play2('one', '')(asked)
        respondWith.stream(asked, message(' two'))
      },
      ON,
    )
    const { messages, ...asked } = question()
    const reply = send(
      { ...asked, ...(style === 'openai-responses' ? {} : { messages }), stream_options: undefined, ...more },
      style,
    )
    await world.advance(3_000)
    assert.match(reply.text, end)
    assert.equal(reply.text.match(begin)?.length, 1)
    assert.match(reply.text, /headgate continued provider=b/)
    assert.deepEqual(
      bodyOf(world.calls[1] as ScriptedCall)
        .messages.at(-1)
        .content.at(-1),
      { type: 'text', text: 'one' },
    )
    assert.equal(reply.ending, 'ended')
  })

// ── Answers that are not continued ──────────────────────────────────────────────────────────────────────────────────────────

const tool = { type: 'function', function: { name: 'f', parameters: { type: 'object' } } }
const byPolicy = (asked: ScriptedCall): void =>
  void asked.send(
    'data: {"error":{"message":"no","type":"invalid_request_error","code":"content_policy_violation"}}\n\n',
  )
const not: readonly (readonly [
  string,
  {
    readonly settings?: SettingsInput
    readonly more?: object
    readonly others?: readonly Instance[]
    readonly ends?: (asked: ScriptedCall) => void
    readonly first?: string
  },
])[] = [
  ['the setting off', { settings: {} }],
  ['tools', { more: { tools: [tool] } }],
  ['structured output', { more: { response_format: { type: 'json_object' } } }],
  ['several choices', { more: { n: 2 } }],
  ['logprobs', { more: { logprobs: true } }],
  ['a stop sequence', { more: { stop: ['x'] } }],
  ['a reasoning effort', { more: { reasoning_effort: 'low' } }],
  ['audio output', { more: { modalities: ['text', 'audio'], audio: { voice: 'x', format: 'pcm16' } } }],
  [
    'an image',
    {
      more: {
        messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://x.test/i.png' } }] }],
      },
    },
  ],
  [
    'a prefill from the client',
    {
      more: {
        messages: [
          { role: 'user', content: 'x' },
          { role: 'assistant', content: 'y' },
        ],
      },
    },
  ],
  ['no target with prefill', { others: two({}) }],
  [
    'prefill for other models only',
    { others: two({ supportsPrefill: { protocol: 'openai-chat', models: /^other/ } }) },
  ],
  ['prefill in a protocol that the provider lacks', { others: two({ supportsPrefill: { protocol: 'mistral' } }) }],
  ['prefill only at the failed target', { others: [instance('a', ['k1', 'k2'], takes)] }],
  ['an answer ended by a policy', { ends: byPolicy }],
  ['no attempts left', { settings: { stream: { continue: true }, retry: { maxAttempts: 1 } } }],
  ['half a surrogate pair', { first: 'one \ud83d' }],
  ['no output tokens left', { more: { max_tokens: 1 } }],
]
for (const [name, { settings = ON, more = {}, others = two(), ends, first = 'one' }] of not)
  test(`continue: not with ${name}`, async () => {
    const { send, world } = gatewayHarness(others, play2(first, rest('two'), ends), settings)
    const reply = send(question(more))
    await world.advance(0)
    assert.equal(world.calls.length, 1, world.calls.map(({ url }) => url).join())
    assert.match(reply.text, /"code":"stream_interrupted"/)
    assert.doesNotMatch(reply.text, /\[DONE\]/)
    assert.equal(reply.ending, 'ended')
  })

test('continue: failover to another model needs no retry budget', async () => {
  const { send, world } = gatewayHarness(two(), play2('Hello, ', rest('world.')), {
    ...ON,
    retry: { budgetPercent: 0, budgetFloor: 0 },
  })
  const reply = send(question())
  await world.advance(0)
  assert.equal(textOf(reply), 'Hello, world.')
})

for (const [name, failure, catalogue] of [
  ['has failed the request before', (asked: ScriptedCall) => respondWith.error(asked, 500), () => undefined],
  [
    'has too small a context window',
    (asked: ScriptedCall) => respondWith.error(asked, 400, { code: 'context_length_exceeded' }),
    (provider: string) => ({ contextWindow: provider === 'b' ? 8_000 : 32_000 }),
  ],
] as const)
  test(`continue: not by a target that ${name}`, async () => {
    const { send, world } = gatewayHarness(
      [instance('b', ['k1'], takes), instance('a')],
      (asked) => (host(asked) === 'b' ? failure(asked) : play2('one', '')(asked)),
      ON,
      catalogue,
    )
    const reply = send(question())
    await world.advance(0)
    assert.deepEqual(world.calls.map(host), ['b', 'a'])
    assert.match(reply.text, /stream_interrupted/)
  })

const reasoned = chatAnswer.chunk({ reasoning_content: 'hm' })
for (const [name, before] of [
  ['reasoning', reasoned],
  [
    'citations',
    chatAnswer.chunk({
      content: 'x',
      annotations: [
        { type: 'url_citation', url_citation: { url: 'https://x.test', title: 'x', start_index: 0, end_index: 1 } },
      ],
    }),
  ],
] as const)
  test(`continue: not after ${name}`, async () => {
    const { send, world } = gatewayHarness(
      two(),
      (asked) => {
        asked.head(200, { 'content-type': 'text/event-stream' })
        asked.send(chatAnswer.role() + before + chatAnswer.chunk({ content: 'one' }))
        asked.end()
      },
      ON,
    )
    const reply = send(question())
    await world.advance(0)
    assert.equal(world.calls.length, 1)
    assert.match(reply.text, /stream_interrupted/)
  })

test('continue: not if a hedge rejected the request', async () => {
  const { send, world } = gatewayHarness(
    [instance('a'), instance('b', ['k1'], takes), instance('c', ['k1'], takes)],
    (asked) => {
      if (host(asked) === 'b') return respondWith.error(asked, 400, { code: 'content_policy_violation' })
      // Late, so that a hedge starts; then it begins and fails.
      if (host(asked) === 'a') {
        asked.head(200, { 'content-type': 'text/event-stream' })
        world.later(2_000, () => {
          asked.send(chatAnswer.role() + chatAnswer.chunk({ content: 'one' }))
          asked.fail(fail('reset', 'reset'))
        })
      }
    },
    { stream: { continue: true }, hedge: { percent: 100, delay: 1_000 } },
  )
  const reply = send(question())
  await world.advance(3_000)
  assert.deepEqual(world.calls.map(host), ['a', 'b'])
  assert.match(reply.text, /stream_interrupted/)
})

// ── Failures and cancellation of the second target ─────────────────────────────────────────────────────────────────────

const seconds: readonly (readonly [string, (asked: ScriptedCall) => void, string])[] = [
  ['returns an error', (asked) => respondWith.error(asked, 503), 'a#k1:truncated, b#k1:503'],
  [
    'fails too',
    (asked) => {
      asked.head(200, { 'content-type': 'text/event-stream' })
      asked.send(chatAnswer.role() + chatAnswer.chunk({ content: ' two' }))
      asked.fail(fail('reset', 'reset'))
    },
    'a#k1:truncated, b#k1:truncated',
  ],
]
for (const [name, second, trail] of seconds)
  test(`continue: happens once; then the second target ${name}`, async () => {
    const { send, world, events } = gatewayHarness(
      [...two(), instance('c', ['k1'], takes)],
      (asked) => {
        if (host(asked) === 'a') return play2('one', '')(asked)
        second(asked)
      },
      ON,
    )
    const reply = send(question())
    await world.advance(0)
    assert.equal(world.calls.length, 2)
    assert.match(reply.text, /"code":"stream_interrupted"/)
    assert.equal(reply.ending, 'ended')
    const line = lineOf(events)
    assert.equal(line.outcome, 'interrupted')
    assert.equal(line.trail, trail)
    assert.equal(world.timers(), 0)
  })

const enders: readonly (readonly [string, (reply: CapturedReply, stop: (why: 'shutdown') => void) => void, string])[] =
  [
    ['the client leaves', (reply) => reply.disconnect(), 'client_gone'],
    ['the process ends', (_, stop) => stop('shutdown'), 'interrupted'],
  ]
for (const [name, act, outcome] of enders)
  for (const phase of ['looking', 'going on'] as const)
    test(`continue: ${name} while ${phase}: the second target is aborted at once`, async () => {
      const { send, world, events, gateway } = gatewayHarness(
        two(),
        (asked) => {
          if (host(asked) === 'a') return play2('one', '')(asked)
          asked.head(200, { 'content-type': 'text/event-stream' })
          if (phase === 'going on') asked.send(chatAnswer.role() + chatAnswer.chunk({ content: ' two' }))
        },
        ON,
      )
      const reply = send(question())
      await world.advance(100)
      assert.equal(world.calls.length, 2)
      act(reply, (kind) => {
        for (const stop of gateway.activeCalls) stop.cancel(fail(kind, 'ends'))
      })
      await world.advance(0)
      assert.equal(world.calls[1]?.aborted, true)
      assert.equal(lineOf(events).outcome, outcome)
      assert.notEqual(reply.ending, null)
      assert.equal(world.timers(), 0)
      assert.equal(gateway.activeCalls.size, 0)
    })

for (const phase of ['before the first has broken', 'while looking'] as const)
  test(`continue: no second target answers a client that left ${phase}, with \`usage.drainOnAbort\``, async () => {
    const { send, world, events, gateway } = gatewayHarness(
      two(),
      (asked) => {
        if (host(asked) === 'a') play2('one', '', phase === 'while looking' ? undefined : () => {})(asked)
      },
      { ...ON, usage: { drainOnAbort: true } },
    )
    const reply = send(question())
    await world.advance(100)
    assert.equal(world.calls.length, phase === 'while looking' ? 2 : 1)
    reply.disconnect()
    if (phase !== 'while looking') world.calls[0]?.end()
    await world.advance(0)
    assert.deepEqual(
      world.calls.slice(1).map(({ aborted }) => aborted),
      phase === 'while looking' ? [true] : [],
    )
    assert.equal(lineOf(events).outcome, 'client_gone')
    assert.equal(world.timers(), 0)
    assert.equal(gateway.activeCalls.size, 0)
  })

test('continue: a slow client pauses the second target', async () => {
  const { send, world } = gatewayHarness(
    two(),
    (asked) => {
      if (host(asked) === 'a') return play2('one', '')(asked)
      asked.head(200, { 'content-type': 'text/event-stream' })
      asked.send(chatAnswer.role() + chatAnswer.chunk({ content: ' two' }))
    },
    ON,
  )
  const reply = send(question())
  reply.writable = false
  await world.advance(10)
  assert.equal(world.calls[1]?.send(chatAnswer.chunk({ content: ' three' })), false)
  reply.drain()
  assert.equal(world.calls[1]?.resumed, 1)
  world.calls[1]?.send(chatAnswer.chunk({}, 'stop') + chatAnswer.done)
  world.calls[1]?.end()
  await world.advance(0)
  assert.equal(textOf(reply), 'one two three')
})
