/** Failing streams by the rows of the failure table (F41, S05 to S12), and `stream.holdback`. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bench, type CapturedReply, instance, play, said } from '../../../test/support/gateway.ts'
import type { Asked } from '../../../test/support/still-world.ts'
import { fail } from '../../core/failure.ts'
import { summarize } from '../../core/trace-summary.ts'

const question = (more: object = {}) => ({
  model: 'anything',
  messages: [{ role: 'user', content: 'hello' }],
  stream: true,
  ...more,
})
const host = ({ url }: Asked) => new URL(url).host.split('.')[0]
const tool = { type: 'function', function: { name: 'f', parameters: { type: 'object' } } }
const schema = { type: 'json_schema', json_schema: { name: 's', schema: { type: 'object' } } }

/** The text of the answer as a chat client assembles it. */
const textOf = ({ text }: CapturedReply): string =>
  [...text.matchAll(/^data: (\{.*\})$/gm)]
    .map(([, json = '{}']) => JSON.parse(json).choices?.[0]?.delta?.content ?? '')
    .join('')

const begun = (asked: Asked, ...words: readonly string[]) => {
  asked.head(200, { 'content-type': 'text/event-stream' })
  asked.send(said.role() + words.map((content) => said.chunk({ content })).join(''))
}

// ── `stream.holdback` ─────────────────────────────────────────────────────────────────────────────────

const breaks: readonly (readonly [string, (asked: Asked) => void])[] = [
  ['a clean end', (asked) => asked.end()],
  ['a reset', (asked) => asked.fail(fail('reset', 'connection reset'))],
  ['an error', (asked) => asked.send('data: {"error":{"message":"no","type":"server_error"}}\n\n')],
]

for (const [name, ends] of breaks)
  for (const at of [0, 499, 501])
    test(`holdback: ${name} after ${at} of 500 ms is ${at < 500 ? 'failed over' : 'reported'}`, async () => {
      const { ask, world } = bench(
        [instance('a'), instance('b')],
        (asked) => {
          if (host(asked) === 'b') return play.stream(asked, said.stream('whole'))
          begun(asked, 'half')
          world.later(at, () => ends(asked))
        },
        { stream: { holdback: 500 } },
      )
      const reply = ask(question())
      await world.pass(1_000)
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

const released: readonly (readonly [string, number, (asked: Asked) => void])[] = [
  ['its time has passed', 500, () => {}],
  ['it has finished', 0, (asked) => void asked.send(said.chunk({}, 'stop') + said.done)],
  ['there are 64 KiB of it', 0, (asked) => void asked.send(said.chunk({ content: 'x'.repeat(70_000) }))],
]
for (const [name, ms, more] of released)
  test(`holdback: released when ${name}`, async () => {
    const { ask, world } = bench(
      [instance('a')],
      (asked) => {
        begun(asked, 'first')
        more(asked)
      },
      { stream: { holdback: 500 }, keepAlive: { interval: 0 } },
    )
    const reply = ask(question())
    if (ms > 0) {
      await world.pass(ms - 1)
      assert.equal(reply.status, null)
    }
    await world.pass(1)
    assert.match(textOf(reply), /^first/)
    reply.leave()
  })

test('holdback: a lifecycle event that repeats a long request does not use the buffer', async () => {
  const { ask, world } = bench(
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
  const reply = ask({ model: 'x', input: 'hello', stream: true }, 'openai-responses')
  await world.pass(499)
  assert.equal(reply.status, null)
  await world.pass(1)
  assert.match(reply.text, /"delta":"hi"/)
  reply.leave()
})

// ── F41: an answer above the size limit ────────────────────────────────────────────────────────────────────────────

const MiB = 1024 * 1024
const huge: readonly (readonly [string, boolean, (asked: Asked) => void])[] = [
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
    const { ask, world, gateway } = bench([instance('a'), instance('b')], (asked) => {
      if (host(asked) === 'a') return plays(asked)
      return stream ? play.stream(asked, said.stream('whole')) : play.json(asked, 200, said.chat('whole'))
    })
    const reply = ask(question({ stream }))
    await world.pass(0)
    assert.equal(reply.status, 200, reply.text)
    assert.equal(reply.headers['x-headgate-trail'], 'a#k1:response_too_large, b#k1:200')
    assert.equal(world.calls[0]?.aborted, true)
    assert.equal(gateway.health.counts('a k1 m', gateway.config().settings).failures, 1)
  })

  test(`F41: ${name} above the size limit, from every target: no retry`, async () => {
    const { ask, world } = bench([instance('a'), instance('b')], plays)
    const reply = ask(question({ stream }))
    await world.pass(0)
    assert.equal(world.calls.length, 2)
    assert.equal(reply.status, 502, reply.text)
    assert.equal(reply.json.error.code, 'response_too_large')
    assert.equal(reply.headers['x-should-retry'], 'false')
  })
}

test('F41: endless blanks without a content type in place of a stream: the next target is tried', async () => {
  const { ask, world } = bench([instance('a'), instance('b')], (asked) => {
    if (host(asked) === 'b') return play.stream(asked, said.stream('whole'))
    asked.head(200, {})
    for (let at = 0; at < 33 && !asked.aborted; at++) asked.send(' '.repeat(MiB))
  })
  const reply = ask(question({ stream: true }))
  await world.pass(0)
  assert.equal(reply.headers['x-headgate-trail'], 'a#k1:response_too_large, b#k1:200')
})

test('F41: an oversized error body is classified by its status and failed over', async () => {
  const { ask, world } = bench([instance('a'), instance('b')], (asked) => {
    if (host(asked) === 'b') return play.stream(asked, said.stream('whole'))
    asked.head(503, { 'content-type': 'text/plain' })
    for (let at = 0; at < 3; at++) asked.send('x'.repeat(MiB))
  })
  const reply = ask(question())
  await world.pass(0)
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
    const { ask, world, news } = bench([instance('a')], (asked) => {
      begun(asked, 'one')
      asked.send('data: {"broken\n\n')
      asked.send(said.chunk({ content: ' two' }) + said.chunk({}, 'stop') + said.done)
      asked.end()
    })
    const reply = ask(question(more))
    await world.pass(0)
    assert.equal(textOf(reply), continues ? 'one two' : 'one')
    assert.equal(/stream_interrupted/.test(reply.text), !continues)
    assert.equal(reply.text.endsWith('data: [DONE]\n\n'), continues)
    const line = news.find(({ event }) => event === 'request')
    assert.ok(line?.event === 'request')
    assert.equal(summarize(line.trace).droppedEvents, continues ? 1 : 0)
  })

// ── S06 to S09: ends that are not failures ─────────────────────────────────────────────────────────────────────────

const call = (text: string) =>
  said.chunk({ tool_calls: [{ index: 0, id: 'c', type: 'function', function: { name: 'f', arguments: text } }] })

const ends: readonly (readonly [string, string, RegExp])[] = [
  ['S06: `[DONE]` without a reason', said.done, /"content":"hi"\}[^\n]*\n\ndata: \[DONE\]\n\n$/],
  ['S07: a reason without `[DONE]`', said.chunk({}, 'stop'), /"finish_reason":"stop"\}\]\}\n\ndata: \[DONE\]\n\n$/],
  [
    'S08: more behind the end',
    said.chunk({}, 'stop') + said.done + said.chunk({ content: 'late' }) + said.done,
    /^(?!.*late)[\s\S]*"finish_reason":"stop"\}\]\}\n\ndata: \[DONE\]\n\n$/,
  ],
  [
    'S08: an error behind the end',
    `${said.chunk({}, 'stop')}${said.done}data: {"error":{"message":"no"}}\n\n`,
    /"finish_reason":"stop"\}\]\}\n\ndata: \[DONE\]\n\n$/,
  ],
  [
    'S09: arguments that are no JSON',
    call('{"a": nope') + said.chunk({}, 'tool_calls') + said.done,
    /"arguments":"\{\\"a\\": nope"[\s\S]*"finish_reason":"tool_calls"[\s\S]*data: \[DONE\]\n\n$/,
  ],
]
for (const [name, end, expected] of ends)
  test(`${name}: a success with one end`, async () => {
    const { ask, world, gateway } = bench([instance('a')], (asked) => {
      begun(asked, 'hi')
      asked.send(end)
      asked.end()
    })
    const reply = ask(question({ tools: [tool] }))
    await world.pass(3_000)
    assert.match(reply.text, expected)
    assert.equal(reply.text.split('[DONE]').length, 2)
    assert.equal(reply.over, 'ended')
    const { failures, successes } = gateway.health.counts('a k1 m', gateway.config().settings)
    assert.deepEqual([failures, successes], [0, 1])
  })

test('S08: an upstream that continues after its end is aborted', async () => {
  const { ask, world } = bench([instance('a')], (asked) => {
    begun(asked, 'hi')
    asked.send(said.chunk({}, 'stop') + said.done)
  })
  const reply = ask(question())
  await world.pass(2_001)
  assert.equal(world.calls[0]?.aborted, true)
  assert.equal(reply.over, 'ended')
  assert.equal(world.timers(), 0)
})

// ── S10: a stream without an end ──────────────────────────────────────────────────────────────────────────────────

test('S10: a stream above 64 MiB ends with an error', async () => {
  const { ask, world, gateway } = bench([instance('a'), instance('b')], (asked) => {
    begun(asked, 'hi')
    const piece = said.chunk({ content: 'x'.repeat(MiB) })
    for (let at = 0; at < 65; at++) if (!asked.aborted) asked.send(piece)
  })
  const reply = ask(question())
  await world.pass(0)
  assert.match(reply.text.slice(-500), /stream_interrupted/)
  assert.ok(reply.text.length < 66 * MiB)
  assert.equal(world.calls.length, 1)
  assert.equal(world.calls[0]?.aborted, true)
  assert.equal(gateway.health.counts('a k1 m', gateway.config().settings).failures, 1)
})

// ── S12: a client that reads slowly ───────────────────────────────────────────────────────────────────────────────

test('S12: while a client is slow, no timeout of the upstream runs', async () => {
  let upstream: Asked | undefined
  const settings = { timeout: { idle: 1_000, contentIdle: 2_000, clientWrite: 100_000, firstContent: 3_000 } }
  const { ask, world } = bench(
    [instance('a')],
    (asked) => {
      upstream = asked
      begun(asked, 'one')
    },
    settings,
  )
  const reply = ask(question())
  await world.pass(0)
  reply.room = false
  assert.equal(upstream?.send(said.chunk({ content: ' two' })), false, 'the upstream is held back')
  await world.pass(50_000)
  assert.equal(reply.over, null)
  reply.drain()
  assert.equal(upstream?.resumed, 1)
  await world.pass(900)
  assert.equal(reply.over, null, 'its silence is counted from when the upstream is read again')
  await world.pass(1_100)
  assert.match(reply.text, /stream_interrupted/)
  assert.equal(textOf(reply), 'one two')
})

test('S12: nor the timeout for the end of the body, which may have the token usage', async () => {
  let upstream: Asked | undefined
  const { ask, world } = bench(
    [instance('a')],
    (asked) => {
      upstream = asked
      begun(asked, 'all')
    },
    { keepAlive: { interval: 0 } },
  )
  const reply = ask(question({ stream_options: { include_usage: true } }))
  await world.pass(0)
  reply.room = false
  assert.equal(upstream?.send(said.chunk({}, 'stop')), false)
  await world.pass(50_000)
  assert.deepEqual([reply.over, upstream?.aborted], [null, false])
  reply.drain()
  await world.pass(1_900)
  const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 }
  upstream?.send(`data: ${JSON.stringify({ id: 'chatcmpl-1', choices: [], usage })}\n\n`)
  assert.match(reply.text, /"total_tokens":5/)
  await world.pass(100)
  assert.equal(reply.over, 'ended')
  assert.ok(reply.text.endsWith(said.done))
})

test('S04: a stalled process does not count as silence of the upstream', async () => {
  let upstream: Asked | undefined
  const { ask, world } = bench(
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
  const reply = ask(question())
  await world.pass(950)
  upstream?.send(said.chunk({ content: ' two' }))
  // The rest arrived before the deadline, but is read only after it.
  await world.pass(1_900)
  upstream?.send(said.chunk({}, 'stop') + said.done)
  upstream?.end()
  await world.pass(5_000)
  assert.equal(textOf(reply), 'one two')
  assert.ok(reply.text.endsWith(said.done))
})

test('S12: a client that reads nothing is disconnected; no target is charged', async () => {
  const { ask, world, gateway } = bench([instance('a')], (asked) => begun(asked, 'one'), {
    timeout: { clientWrite: 5_000, idle: 1_000 },
  })
  const reply = ask(question())
  reply.room = false
  await world.pass(4_999)
  assert.equal(reply.over, null)
  await world.pass(2)
  assert.equal(reply.over, 'cut')
  assert.equal(world.calls[0]?.aborted, true)
  assert.equal(gateway.health.counts('a k1 m', gateway.config().settings).failures, 0)
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
  said.role() +
  thoughts.map((thought) => thinking(delta(thought))).join('') +
  ['a', 'b', 'c', 'd'].map((content) => said.chunk({ content })).join('') +
  said.chunk({}, 'stop') +
  said.done

for (const size of [Number.POSITIVE_INFINITY, 600, 97, 1])
  test(`reasoning: repeated chunks in reads of ${size} bytes have both names`, async () => {
    const theirs = answerOf((thought) => `"reasoning":${thought}`)
    const { ask, world } = bench([instance('a')], (asked) => {
      asked.head(200, { 'content-type': 'text/event-stream' })
      const bytes = Buffer.from(theirs).toString('latin1')
      for (let at = 0; at < bytes.length; at += size) asked.sendBytes(Buffer.from(bytes.slice(at, at + size), 'latin1'))
      asked.end()
    })
    const reply = ask(question())
    await world.pass(1)
    assert.equal(
      reply.text,
      answerOf((thought) => `"reasoning_content":${thought},"reasoning":${thought}`),
    )
  })

test('reasoning: a whole answer has both names', async () => {
  const message = { role: 'assistant', content: 'x', reasoning: 'hm' }
  const choices = [{ index: 0, message, finish_reason: 'stop' }]
  const { ask, world } = bench([instance('a')], (asked) => play.json(asked, 200, said.chat('', { choices })))
  const reply = ask(question({ stream: false }))
  await world.pass(1)
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
      const { ask, world } = bench([instance('a', ['k1'], { speaks: [{ protocol: 'openai-responses' }] })], (asked) => {
        asked.head(200, { 'content-type': 'text/event-stream' })
        const bytes = Buffer.from(responsesStream(numbers))
        for (let at = 0; at < bytes.length; at += size) asked.sendBytes(Buffer.from(bytes.subarray(at, at + size)))
        asked.end()
      })
      const reply = ask({ model: 'm', input: 'x', stream: true }, 'openai-responses')
      await world.pass(1)
      const frames = [...reply.text.matchAll(/^data: (\{.*\})$/gm)].map(([, json = '']) => JSON.parse(json))
      assert.deepEqual(
        frames.map(({ sequence_number }) => sequence_number),
        frames.map((_, place) => place),
      )
      assert.equal(frames.length, WORDS.length + 4)
      if (name === 'right') assert.equal(reply.text, `${responsesStream(numbers)}${said.done}`)
    })
