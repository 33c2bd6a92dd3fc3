/** Failing streams by the rows of the failure table (F41, S05 to S12), and `stream.holdback`. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type CapturedReply, chatAnswer, gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import type { ScriptedCall } from '../../../test/support/still-world.ts'
import { fail } from '../../core/failure.ts'
import { summarize } from '../../core/trace-summary.ts'

const question = (more: object = {}) => ({
  model: 'anything',
  messages: [{ role: 'user', content: 'hello' }],
  stream: true,
  ...more,
})
const host = ({ url }: ScriptedCall) => new URL(url).host.split('.')[0]
const tool = { type: 'function', function: { name: 'f', parameters: { type: 'object' } } }
const schema = { type: 'json_schema', json_schema: { name: 's', schema: { type: 'object' } } }

/** The text of the answer as a chat client assembles it. */
const textOf = ({ text }: CapturedReply): string =>
  [...text.matchAll(/^data: (\{.*\})$/gm)]
    .map(([, json = '{}']) => JSON.parse(json).choices?.[0]?.delta?.content ?? '')
    .join('')

const begun = (asked: ScriptedCall, ...words: readonly string[]) => {
  asked.head(200, { 'content-type': 'text/event-stream' })
  asked.send(chatAnswer.role() + words.map((content) => chatAnswer.chunk({ content })).join(''))
}

// ── `stream.holdback` ─────────────────────────────────────────────────────────────────────────────────

const breaks: readonly (readonly [string, (asked: ScriptedCall) => void])[] = [
  ['a clean end', (asked) => asked.end()],
  ['a reset', (asked) => asked.fail(fail('reset', 'connection reset'))],
  ['an error', (asked) => asked.send('data: {"error":{"message":"no","type":"server_error"}}\n\n')],
]

for (const [name, ends] of breaks)
  for (const at of [0, 499, 501])
    test(`holdback: ${name} after ${at} of 500 ms is ${at < 500 ? 'failed over' : 'reported'}`, async () => {
      const { send, world } = gatewayHarness(
        [instance('a'), instance('b')],
        (asked) => {
          if (host(asked) === 'b') return respondWith.stream(asked, chatAnswer.stream('whole'))
          begun(asked, 'half')
          world.later(at, () => ends(asked))
        },
        { stream: { holdback: 500 } },
      )
      const reply = send(question())
      await world.advance(1_000)
      assert.equal(reply.status, 200)
      if (at < 500) {
        assert.equal(textOf(reply), 'whole')
        assert.equal(reply.headers['x-headgate-provider'], 'b')
        assert.ok(reply.text.endsWith('data: [DONE]\n\n'))
      } else {
        assert.equal(textOf(reply), 'half')
        assert.match(reply.text, /stream_interrupted/)
        assert.equal(world.calls.length, 1)
      }
      assert.equal(world.timers(), 0)
    })

const released: readonly (readonly [string, number, (asked: ScriptedCall) => void])[] = [
  ['its time has passed', 500, () => {}],
  ['it has finished', 0, (asked) => void asked.send(chatAnswer.chunk({}, 'stop') + chatAnswer.done)],
  ['there are 64 KiB of it', 0, (asked) => void asked.send(chatAnswer.chunk({ content: 'x'.repeat(70_000) }))],
]
for (const [name, ms, more] of released)
  test(`holdback: released when ${name}`, async () => {
    const { send, world } = gatewayHarness(
      [instance('a')],
      (asked) => {
        begun(asked, 'first')
        more(asked)
      },
      { stream: { holdback: 500 }, keepAlive: { interval: 0 } },
    )
    const reply = send(question())
    if (ms > 0) {
      await world.advance(ms - 1)
      assert.equal(reply.status, null)
    }
    await world.advance(1)
    assert.match(textOf(reply), /^first/)
    reply.disconnect()
  })

test('holdback: a lifecycle event that repeats a long request does not use the buffer', async () => {
  const { send, world } = gatewayHarness(
    [instance('a', ['k1'], { speaks: [{ protocol: 'openai-responses' }] })],
    (asked) => {
      asked.head(200, { 'content-type': 'text/event-stream' })
      const response = {
        id: 'r',
        object: 'response',
        status: 'in_progress',
        output: [],
        instructions: 'x'.repeat(70_000),
      }
      asked.send(`event: response.created\ndata: ${JSON.stringify({ type: 'response.created', response })}\n\n`)
      const delta = { type: 'response.output_text.delta', item_id: 'i', output_index: 0, content_index: 0, delta: 'hi' }
      asked.send(`event: ${delta.type}\ndata: ${JSON.stringify(delta)}\n\n`)
    },
    { stream: { holdback: 500 } },
  )
  const reply = send({ model: 'x', input: 'hello', stream: true }, 'openai-responses')
  await world.advance(499)
  assert.equal(reply.status, null)
  await world.advance(1)
  assert.match(reply.text, /"delta":"hi"/)
  reply.disconnect()
})

// ── F41: an answer above the size limit ────────────────────────────────────────────────────────────────────────────

const MiB = 1024 * 1024
const huge: readonly (readonly [string, boolean, (asked: ScriptedCall) => void])[] = [
  [
    'a whole answer',
    false,
    (asked) => {
      asked.head(200, { 'content-type': 'application/json' })
      for (let at = 0; at < 33; at++) asked.send(' '.repeat(MiB))
    },
  ],
  [
    'one event of a stream',
    true,
    (asked) => {
      asked.head(200, { 'content-type': 'text/event-stream' })
      asked.send('data: "')
      for (let at = 0; at < 9; at++) asked.send('x'.repeat(MiB))
    },
  ],
  [
    'a stream without content',
    true,
    (asked) => {
      asked.head(200, { 'content-type': 'text/event-stream' })
      for (let at = 0; at < 65; at++) asked.send(`: ${'x'.repeat(MiB)}\n`)
    },
  ],
]
for (const [name, stream, plays] of huge) {
  test(`F41: ${name} above the size limit: the next target is tried`, async () => {
    const { send, world, gateway } = gatewayHarness([instance('a'), instance('b')], (asked) => {
      if (host(asked) === 'a') return plays(asked)
      return stream
        ? respondWith.stream(asked, chatAnswer.stream('whole'))
        : respondWith.json(asked, 200, chatAnswer.whole('whole'))
    })
    const reply = send(question({ stream }))
    await world.advance(0)
    assert.equal(reply.status, 200, reply.text)
    assert.equal(reply.headers['x-headgate-trail'], 'a#k1:response_too_large, b#k1:200')
    assert.equal(world.calls[0]?.aborted, true)
    assert.equal(gateway.health.circuits.counts('a k1 m', gateway.config().settings.circuit).failures, 1)
  })

  test(`F41: ${name} above the size limit, from every target: no retry`, async () => {
    const { send, world } = gatewayHarness([instance('a'), instance('b')], plays)
    const reply = send(question({ stream }))
    await world.advance(0)
    assert.equal(world.calls.length, 2)
    assert.equal(reply.status, 502, reply.text)
    assert.equal(reply.json.error.code, 'response_too_large')
    assert.equal(reply.headers['x-should-retry'], 'false')
  })
}

test('F41: endless blanks without a content type in place of a stream: the next target is tried', async () => {
  const { send, world } = gatewayHarness([instance('a'), instance('b')], (asked) => {
    if (host(asked) === 'b') return respondWith.stream(asked, chatAnswer.stream('whole'))
    asked.head(200, {})
    for (let at = 0; at < 33 && !asked.aborted; at++) asked.send(' '.repeat(MiB))
  })
  const reply = send(question({ stream: true }))
  await world.advance(0)
  assert.equal(reply.headers['x-headgate-trail'], 'a#k1:response_too_large, b#k1:200')
})

test('F41: an oversized error body is classified by its status and failed over', async () => {
  const { send, world } = gatewayHarness([instance('a'), instance('b')], (asked) => {
    if (host(asked) === 'b') return respondWith.stream(asked, chatAnswer.stream('whole'))
    asked.head(503, { 'content-type': 'text/plain' })
    for (let at = 0; at < 3; at++) asked.send('x'.repeat(MiB))
  })
  const reply = send(question())
  await world.advance(0)
  assert.equal(reply.headers['x-headgate-trail'], 'a#k1:503, b#k1:200')
})

// ── S05: one malformed event ──────────────────────────────────────────────────────────────────────────────────────

const malformed: readonly (readonly [string, object, boolean])[] = [
  ['plain text', {}, true],
  ['a plain text format', { response_format: { type: 'text' } }, true],
  ['tools', { tools: [tool] }, false],
  ['structured output', { response_format: schema }, false],
  ['JSON', { response_format: { type: 'json_object' } }, false],
]
for (const [name, more, continues] of malformed)
  test(`S05: a malformed event with ${name} ${continues ? 'is skipped and counted' : 'ends the stream'}`, async () => {
    const { send, world, events } = gatewayHarness([instance('a')], (asked) => {
      begun(asked, 'one')
      asked.send('data: {"broken\n\n')
      asked.send(chatAnswer.chunk({ content: ' two' }) + chatAnswer.chunk({}, 'stop') + chatAnswer.done)
      asked.end()
    })
    const reply = send(question(more))
    await world.advance(0)
    assert.equal(textOf(reply), continues ? 'one two' : 'one')
    assert.equal(/stream_interrupted/.test(reply.text), !continues)
    assert.equal(reply.text.endsWith('data: [DONE]\n\n'), continues)
    const line = events.find(({ event }) => event === 'request')
    assert.ok(line?.event === 'request')
    assert.equal(summarize(line.trace).droppedEvents, continues ? 1 : 0)
  })

// ── S06 to S09: ends that are not failures ─────────────────────────────────────────────────────────────────────────

const call = (text: string) =>
  chatAnswer.chunk({ tool_calls: [{ index: 0, id: 'c', type: 'function', function: { name: 'f', arguments: text } }] })

const ends: readonly (readonly [string, string, RegExp])[] = [
  ['S06: `[DONE]` without a reason', chatAnswer.done, /"content":"hi"\}[^\n]*\n\ndata: \[DONE\]\n\n$/],
  [
    'S07: a reason without `[DONE]`',
    chatAnswer.chunk({}, 'stop'),
    /"finish_reason":"stop"\}\]\}\n\ndata: \[DONE\]\n\n$/,
  ],
  [
    'S08: more behind the end',
    chatAnswer.chunk({}, 'stop') + chatAnswer.done + chatAnswer.chunk({ content: 'late' }) + chatAnswer.done,
    /^(?!.*late)[\s\S]*"finish_reason":"stop"\}\]\}\n\ndata: \[DONE\]\n\n$/,
  ],
  [
    'S08: an error behind the end',
    `${chatAnswer.chunk({}, 'stop')}${chatAnswer.done}data: {"error":{"message":"no"}}\n\n`,
    /"finish_reason":"stop"\}\]\}\n\ndata: \[DONE\]\n\n$/,
  ],
  [
    'S09: arguments that are no JSON',
    call('{"a": nope') + chatAnswer.chunk({}, 'tool_calls') + chatAnswer.done,
    /"arguments":"\{\\"a\\": nope"[\s\S]*"finish_reason":"tool_calls"[\s\S]*data: \[DONE\]\n\n$/,
  ],
]
for (const [name, end, expected] of ends)
  test(`${name}: a success with one end`, async () => {
    const { send, world, gateway } = gatewayHarness([instance('a')], (asked) => {
      begun(asked, 'hi')
      asked.send(end)
      asked.end()
    })
    const reply = send(question({ tools: [tool] }))
    await world.advance(3_000)
    assert.match(reply.text, expected)
    assert.equal(reply.text.split('[DONE]').length, 2)
    assert.equal(reply.ending, 'ended')
    const { failures, successes } = gateway.health.circuits.counts('a k1 m', gateway.config().settings.circuit)
    assert.deepEqual([failures, successes], [0, 1])
  })

test('S08: an upstream that continues after its end is aborted', async () => {
  const { send, world } = gatewayHarness([instance('a')], (asked) => {
    begun(asked, 'hi')
    asked.send(chatAnswer.chunk({}, 'stop') + chatAnswer.done)
  })
  const reply = send(question())
  await world.advance(2_001)
  assert.equal(world.calls[0]?.aborted, true)
  assert.equal(reply.ending, 'ended')
  assert.equal(world.timers(), 0)
})

// ── S10: a stream without an end ──────────────────────────────────────────────────────────────────────────────────

test('S10: a stream above 64 MiB ends with an error', async () => {
  const { send, world, gateway } = gatewayHarness([instance('a'), instance('b')], (asked) => {
    begun(asked, 'hi')
    const piece = chatAnswer.chunk({ content: 'x'.repeat(MiB) })
    for (let at = 0; at < 65; at++) if (!asked.aborted) asked.send(piece)
  })
  const reply = send(question())
  await world.advance(0)
  assert.match(reply.text.slice(-500), /stream_interrupted/)
  assert.ok(reply.text.length < 66 * MiB)
  assert.equal(world.calls.length, 1)
  assert.equal(world.calls[0]?.aborted, true)
  assert.equal(gateway.health.circuits.counts('a k1 m', gateway.config().settings.circuit).failures, 1)
})

// ── S12: a client that reads slowly ───────────────────────────────────────────────────────────────────────────────

test('S12: while a client is slow, no timeout of the upstream runs', async () => {
  let upstream: ScriptedCall | undefined
  const settings = { timeout: { idle: 1_000, contentIdle: 2_000, clientWrite: 100_000, firstContent: 3_000 } }
  const { send, world } = gatewayHarness(
    [instance('a')],
    (asked) => {
      upstream = asked
      begun(asked, 'one')
    },
    settings,
  )
  const reply = send(question())
  await world.advance(0)
  reply.writable = false
  assert.equal(upstream?.send(chatAnswer.chunk({ content: ' two' })), false, 'the upstream is held back')
  await world.advance(50_000)
  assert.equal(reply.ending, null)
  reply.drain()
  assert.equal(upstream?.resumed, 1)
  await world.advance(900)
  assert.equal(reply.ending, null, 'its silence is counted from when the upstream is read again')
  await world.advance(1_100)
  assert.match(reply.text, /stream_interrupted/)
  assert.equal(textOf(reply), 'one two')
})

test('S12: while a client is slow, the timeout for the end of the body does not run either', async () => {
  let upstream: ScriptedCall | undefined
  const { send, world } = gatewayHarness(
    [instance('a')],
    (asked) => {
      upstream = asked
      begun(asked, 'all')
    },
    { keepAlive: { interval: 0 } },
  )
  const reply = send(question({ stream_options: { include_usage: true } }))
  await world.advance(0)
  reply.writable = false
  assert.equal(upstream?.send(chatAnswer.chunk({}, 'stop')), false)
  await world.advance(50_000)
  assert.deepEqual([reply.ending, upstream?.aborted], [null, false])
  reply.drain()
  await world.advance(1_900)
  const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 }
  upstream?.send(`data: ${JSON.stringify({ id: 'chatcmpl-1', choices: [], usage })}\n\n`)
  assert.match(reply.text, /"total_tokens":5/)
  await world.advance(100)
  assert.equal(reply.ending, 'ended')
  assert.ok(reply.text.endsWith(chatAnswer.done))
})

test('S04: a stalled process does not count as silence of the upstream', async () => {
  let upstream: ScriptedCall | undefined
  const { send, world } = gatewayHarness(
    [instance('a')],
    (asked) => {
      upstream = asked
      begun(asked, 'one')
    },
    { keepAlive: { interval: 0 }, timeout: { idle: 1_000 } },
  )
  const { later } = world
  // Every timer is late.
  Object.assign(world, { later: (ms: number, run: () => void) => later(ms + 900, run) })
  const reply = send(question())
  await world.advance(950)
  upstream?.send(chatAnswer.chunk({ content: ' two' }))
  // The rest arrived before the deadline, but is read only after it.
  await world.advance(1_900)
  upstream?.send(chatAnswer.chunk({}, 'stop') + chatAnswer.done)
  upstream?.end()
  await world.advance(5_000)
  assert.equal(textOf(reply), 'one two')
  assert.ok(reply.text.endsWith(chatAnswer.done))
})

test('S12: a client that reads nothing is disconnected; no target is charged', async () => {
  const { send, world, gateway } = gatewayHarness([instance('a')], (asked) => begun(asked, 'one'), {
    timeout: { clientWrite: 5_000, idle: 1_000 },
  })
  const reply = send(question())
  reply.writable = false
  await world.advance(4_999)
  assert.equal(reply.ending, null)
  await world.advance(2)
  assert.equal(reply.ending, 'cut')
  assert.equal(world.calls[0]?.aborted, true)
  assert.equal(gateway.health.circuits.counts('a k1 m', gateway.config().settings.circuit).failures, 0)
  assert.equal(world.timers(), 0)
})

// ── Reasoning under another name ──────────────────────────────────────────────────────────────────────────────────

/** A chunk whose delta has these members, written as OpenRouter writes it. */
const thinking = (members: string): string =>
  `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{${members}},"finish_reason":null}]}\n\n`
const thoughts = ['Let', ' me\\n', ' think', ' é', ' "', ' aloud'].map((word) =>
  JSON.stringify(word.replace('\\n', '\n')),
)
const answerOf = (delta: (thought: string) => string): string =>
  chatAnswer.role() +
  thoughts.map((thought) => thinking(delta(thought))).join('') +
  ['a', 'b', 'c', 'd'].map((content) => chatAnswer.chunk({ content })).join('') +
  chatAnswer.chunk({}, 'stop') +
  chatAnswer.done

for (const size of [Number.POSITIVE_INFINITY, 600, 97, 1])
  test(`reasoning: repeated chunks in reads of ${size} bytes have both names`, async () => {
    const theirs = answerOf((thought) => `"reasoning":${thought}`)
    const { send, world } = gatewayHarness([instance('a')], (asked) => {
      asked.head(200, { 'content-type': 'text/event-stream' })
      const bytes = Buffer.from(theirs).toString('latin1')
      for (let at = 0; at < bytes.length; at += size) asked.sendBytes(Buffer.from(bytes.slice(at, at + size), 'latin1'))
      asked.end()
    })
    const reply = send(question())
    await world.advance(1)
    assert.equal(
      reply.text,
      answerOf((thought) => `"reasoning_content":${thought},"reasoning":${thought}`),
    )
  })

test('reasoning: a whole answer has both names', async () => {
  const message = { role: 'assistant', content: 'x', reasoning: 'hm' }
  const choices = [{ index: 0, message, finish_reason: 'stop' }]
  const { send, world } = gatewayHarness([instance('a')], (asked) =>
    respondWith.json(asked, 200, chatAnswer.whole('', { choices })),
  )
  const reply = send(question({ stream: false }))
  await world.advance(1)
  assert.deepEqual(reply.json.choices[0].message, { ...message, reasoning_content: 'hm' })
})

// ── Numbers of a responses stream ─────────────────────────────────────────────────────────────────────────────────

const WORDS = ['a', ' b', ' é', ' "d"', ' e', ' f', ' g', ' h']
/** `numbers`: of each event, by its place; undefined: none. */
const responsesStream = (numbers: (place: number) => number | undefined): string => {
  const message = { type: 'message', id: 'msg_1', role: 'assistant', status: 'completed' }
  const content = [{ type: 'output_text', text: WORDS.join(''), annotations: [] }]
  const response = { id: 'resp_1', object: 'response', model: 'm', output: [] }
  const events = [
    { type: 'response.created', response: { ...response, status: 'in_progress' } },
    { type: 'response.output_item.added', output_index: 0, item: { ...message, content: [] } },
    ...WORDS.map((delta) => ({
      type: 'response.output_text.delta',
      item_id: 'msg_1',
      output_index: 0,
      content_index: 0,
      delta,
    })),
    { type: 'response.output_item.done', output_index: 0, item: { ...message, content } },
    {
      type: 'response.completed',
      response: { ...response, status: 'completed', output: [{ ...message, content }] },
    },
  ]
  return events
    .map(({ type, ...rest }, place) => {
      const number = numbers(place)
      const numbered = { type, ...(number !== undefined && { sequence_number: number }), ...rest }
      return `event: ${type}\ndata: ${JSON.stringify(numbered)}\n\n`
    })
    .join('')
}

for (const [name, numbers] of [
  ['right', (place) => place],
  ['missing', () => undefined],
  ['gapped', (place) => (place < 6 ? place : place + 1)],
  ['the same', () => 3],
] satisfies (readonly [string, (place: number) => number | undefined])[])
  for (const size of [Number.POSITIVE_INFINITY, 500, 61])
    test(`responses stream: numbers that are ${name}, in reads of ${size} bytes, are passed on from 0 without a gap`, async () => {
      const { send, world } = gatewayHarness(
        [instance('a', ['k1'], { speaks: [{ protocol: 'openai-responses' }] })],
        (asked) => {
          asked.head(200, { 'content-type': 'text/event-stream' })
          const bytes = Buffer.from(responsesStream(numbers))
          for (let at = 0; at < bytes.length; at += size) asked.sendBytes(Buffer.from(bytes.subarray(at, at + size)))
          asked.end()
        },
      )
      const reply = send({ model: 'm', input: 'x', stream: true }, 'openai-responses')
      await world.advance(1)
      const frames = [...reply.text.matchAll(/^data: (\{.*\})$/gm)].map(([, json = '']) => JSON.parse(json))
      assert.deepEqual(
        frames.map(({ sequence_number }) => sequence_number),
        frames.map((_, place) => place),
      )
      assert.equal(frames.length, WORDS.length + 4)
      if (name === 'right') assert.equal(reply.text, `${responsesStream(numbers)}${chatAnswer.done}`)
    })

// ── A finish reason beside the last content ─────────────────────────────────────────────────────────────────────────

const silences: readonly (readonly [string, (asked: ScriptedCall) => void])[] = [
  ['a reset', (asked) => asked.fail(fail('reset', 'connection reset'))],
  ['silence', () => {}],
  ['a clean end', (asked) => asked.end()],
]
for (const [name, ends] of silences)
  test(`stop beside the last content, then ${name}: the answer is complete`, async () => {
    const { send, world } = gatewayHarness([instance('a')], (asked) => {
      begun(asked, 'wh')
      asked.send(chatAnswer.chunk({ content: 'ole' }, 'stop'))
      ends(asked)
    })
    const reply = send(question())
    await world.advance(200_000)
    assert.equal(textOf(reply), 'whole')
    assert.doesNotMatch(reply.text, /stream_interrupted/)
    assert.ok(reply.text.endsWith('data: [DONE]\n\n'), reply.text)
  })
