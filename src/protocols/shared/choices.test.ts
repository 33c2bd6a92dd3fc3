/** Answers with several choices: split, decoded one by one, merged, and encoded as chat completions. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertReadable } from '../../../test/support/anything.ts'
import { assertEventOrder } from '../../../test/support/event-order.ts'
import { type ChatEvent, type ChatRequest, fold } from '../../core/chat.ts'
import { fail } from '../../core/failure.ts'
import { type Json, type JsonObject, list, number, object } from '../../core/json.ts'
import type { AnswerContext, StreamStep, UpstreamProtocol } from '../../core/protocol.ts'
import { sse } from '../framing/sse.ts'
import { gemini } from '../gemini/index.ts'
import { mistral } from '../mistral/index.ts'
import { openaiChat } from '../openai-chat/index.ts'
import { ChoicesDecoder, choicesOf, decodeChoices, splitList } from './choices.ts'

const request = (count: number, more: JsonObject = {}): ChatRequest => {
  const body = { model: 'm', messages: [{ role: 'user', content: 'hi' }], n: count, ...more }
  const decoded = openaiChat.decodeRequest(body)
  return decoded.ok ? decoded.value : assert.fail(decoded.failure.message)
}

const context = (count: number, more: JsonObject = {}): AnswerContext => {
  let made = 0
  return {
    request: request(count, more),
    body: {},
    id: (prefix) => `${prefix}_${made++}`,
    created: 7,
    model: 'asked',
  }
}

const asIs = (_index: number, events: readonly ChatEvent[]) => events
const several = (format: UpstreamProtocol, count: number, passes = false) => ({
  format,
  split: format.choices?.split ?? assert.fail('one choice only'),
  count,
  passes,
})

// ── Splitting ──────────────────────────────────────────────────────────────────────────────────────────────────────

const splits: readonly (readonly [string, Json, Json])[] = [
  [
    'by index',
    [
      { index: 1, a: 1 },
      { index: 0, a: 2 },
    ],
    { 1: [{ index: 0, a: 1 }], 0: [{ index: 0, a: 2 }] },
  ],
  [
    'the first entry has no index',
    [{ a: 1 }, { index: 1, a: 2 }],
    { 0: [{ index: 0, a: 1 }], 1: [{ index: 0, a: 2 }] },
  ],
  ['the entry without an index is last', [{ index: 1 }, { a: 1 }], { 0: [{ index: 0, a: 1 }], 1: [{ index: 0 }] }],
  ['no entry has an index', [{ a: 1 }, { a: 2 }], { 0: [{ index: 0, a: 1 }], 1: [{ index: 0, a: 2 }] }],
  [
    'two entries with one index',
    [
      { index: 1, a: 1 },
      { index: 1, a: 2 },
    ],
    {
      1: [
        { index: 0, a: 1 },
        { index: 0, a: 2 },
      ],
    },
  ],
  ['an entry that is not an object', ['x'], { 0: ['x'] }],
  ['an empty list', [], {}],
  ['a string instead of a list', 'x', {}],
]
for (const [name, entries, expected] of splits)
  test(`choices: split, ${name}`, () => {
    const parts = splitList('choices')({ id: 'x', choices: entries })
    assert.deepEqual(Object.fromEntries([...parts].map(([index, part]) => [index, object(part)?.choices])), expected)
    for (const part of parts.values()) assert.equal(object(part)?.id, 'x')
  })

// ── Non-streaming answers ───────────────────────────────────────────────────────────────────────────────────────────

const candidate = (text: string, more: JsonObject = {}): JsonObject => ({
  content: { role: 'model', parts: [{ text }] },
  finishReason: 'STOP',
  ...more,
})
const geminiUsage = { promptTokenCount: 4, candidatesTokenCount: 9, totalTokenCount: 13 }
const responded = (candidates: Json, more: JsonObject = {}): JsonObject => ({
  candidates,
  usageMetadata: geminiUsage,
  modelVersion: 'gemini-x',
  responseId: 'r1',
  ...more,
})
const message = (index: number, content: string, more: JsonObject = {}): JsonObject => ({
  index,
  message: { role: 'assistant', content },
  finish_reason: 'stop',
  ...more,
})
const completed = (choices: Json): JsonObject => ({
  id: 'c1',
  object: 'chat.completion',
  created: 5,
  model: 'mistral-x',
  choices,
  usage: { prompt_tokens: 4, completion_tokens: 9, total_tokens: 13 },
})

/** A step as one line: the blocks of each choice, then usage and the finish or failure of the answer. */
const outline = ({ events, choices = [] }: StreamStep): string => {
  const { finish, failure, usage } = fold(events)
  const each = choices.map(({ index, events: own }) => {
    const { blocks, finish: end } = fold(own)
    return `${index}:${blocks.map(({ text }) => text).join('|')} ${end?.kind}`
  })
  return [...each, usage ? `${usage.input}+${usage.output}` : '-', failure ? failure.kind : String(finish?.kind)].join(
    ', ',
  )
}

const wholes: readonly (readonly [string, UpstreamProtocol, number, Json, string])[] = [
  [
    'two candidates',
    gemini,
    2,
    responded([candidate('a'), candidate('b', { index: 1 })]),
    '0:a stop, 1:b stop, 4+9, stop',
  ],
  [
    'one candidate is blocked',
    gemini,
    2,
    responded([candidate('a'), { finishReason: 'SAFETY', index: 1 }]),
    '0:a stop, 1: content-filter, 4+9, content-filter',
  ],
  [
    'the prompt is blocked',
    gemini,
    2,
    { promptFeedback: { blockReason: 'SAFETY' }, usageMetadata: geminiUsage },
    '0: content-filter, 1: content-filter, 4+9, content-filter',
  ],
  ['a candidate is missing', gemini, 3, responded([candidate('a'), candidate('b', { index: 1 })]), '-, malformed'],
  [
    'one candidate has no finish reason',
    gemini,
    2,
    responded([candidate('a'), candidate('b', { index: 1, finishReason: null })]),
    '4+9, truncated',
  ],
  [
    'one candidate is a malformed call',
    gemini,
    2,
    responded([candidate('a'), { index: 1, finishReason: 'MALFORMED_FUNCTION_CALL' }]),
    '4+9, malformed',
  ],
  ['an error', gemini, 2, { error: { code: 503, status: 'UNAVAILABLE', message: 'no' } }, '-, overloaded'],
  [
    'a list of responses',
    gemini,
    2,
    [
      responded([candidate('a', { finishReason: null }), candidate('b', { index: 1 })]),
      responded([candidate('c')]),
      { usageMetadata: geminiUsage },
    ],
    '0:ac stop, 1:b stop, 4+9, stop',
  ],
  [
    'one candidate more than requested',
    gemini,
    1,
    responded([candidate('a'), candidate('b', { index: 1 })]),
    '0:a stop, 4+9, stop',
  ],
  [
    'choices in another order',
    mistral,
    3,
    completed([message(2, 'c'), message(0, 'a', { finish_reason: 'length' }), message(1, 'b')]),
    '0:a length, 1:b stop, 2:c stop, 4+9, length',
  ],
  ['no choices', mistral, 2, completed([]), '-, malformed'],
  [
    'a message of the wrong type',
    mistral,
    2,
    completed([message(0, 'a'), { index: 1, message: 'b' }]),
    '4+9, malformed',
  ],
]
for (const [name, format, count, body, expected] of wholes)
  test(`choices: non-streaming, ${format.name}, ${name}`, () =>
    assert.equal(outline(decodeChoices(body, several(format, count), asIs)), expected))

test('choices: fewer choices than requested are accepted if client and provider use the same format', () => {
  const read = (choices: Json) => outline(decodeChoices(completed(choices), several(openaiChat, 3, true), asIs))
  assert.equal(read([message(0, 'a'), message(1, 'b')]), '0:a stop, 1:b stop, 4+9, stop')
  assert.equal(read([message(7, 'a')]), '0:a stop, 4+9, stop')
})

test('choices: encoded as one chat completion', () => {
  const step = decodeChoices(
    responded([candidate('a'), { finishReason: 'SAFETY', index: 1 }]),
    several(gemini, 2),
    asIs,
  )
  const shared = fold(step.events)
  const answers = (step.choices ?? []).map(({ events }) => ({ ...shared, ...fold(events) }))
  const written = openaiChat.encodeChoices?.whole(answers, context(2))
  assert.deepEqual(written, {
    id: 'r1',
    object: 'chat.completion',
    created: 7,
    model: 'gemini-x',
    choices: [
      { index: 0, message: { role: 'assistant', content: 'a', refusal: null }, logprobs: null, finish_reason: 'stop' },
      {
        index: 1,
        message: { role: 'assistant', content: '', refusal: null },
        logprobs: null,
        finish_reason: 'content_filter',
      },
    ],
    usage: object(written)?.usage,
  })
  assert.equal(number(object(object(written)?.usage)?.total_tokens), 13)
})

// ── Streams ──────────────────────────────────────────────────────────────────────────────────────────────────────

const wired = (...chunks: readonly Json[]): string =>
  chunks.map((chunk) => `data: ${typeof chunk === 'string' ? chunk : JSON.stringify(chunk)}\n\n`).join('')
const delta = (index: number, content: string, end: string | null = null): JsonObject => ({
  index,
  delta: { content },
  finish_reason: end,
})
const chunk = (choices: Json, more: JsonObject = {}): JsonObject => ({
  id: 'c1',
  object: 'chat.completion.chunk',
  created: 5,
  model: 'mistral-x',
  choices,
  ...more,
})
const usage = { prompt_tokens: 4, completion_tokens: 9, total_tokens: 13 }
const piece = (...candidates: readonly JsonObject[]): JsonObject => responded(candidates)
const part = (text: string, more: JsonObject = {}) => candidate(text, { finishReason: null, ...more })

const streams: readonly (readonly [string, UpstreamProtocol, number, string, string])[] = [
  [
    'alternating choices',
    mistral,
    2,
    wired(
      chunk([delta(0, '')]),
      chunk([delta(0, 'a')]),
      chunk([delta(1, 'ü')]),
      chunk([delta(0, 'c', 'stop')]),
      chunk([delta(1, 'd', 'length')], { usage }),
      '[DONE]',
    ),
    '0:ac stop, 1:üd length, 4+9, length',
  ],
  [
    'several choices in one chunk, usage in a separate one',
    mistral,
    2,
    wired(chunk([delta(1, 'b', 'stop'), delta(0, 'a', 'stop')]), chunk([], { usage }), '[DONE]'),
    '0:a stop, 1:b stop, 4+9, stop',
  ],
  [
    'one choice without a finish',
    mistral,
    2,
    wired(chunk([delta(0, 'a', 'stop'), delta(1, 'b')])),
    '0:a undefined, 1:b undefined, -, truncated',
  ],
  [
    'one choice without any event',
    mistral,
    2,
    wired(chunk([delta(0, 'a', 'stop')]), '[DONE]'),
    '0:a undefined, -, truncated',
  ],
  [
    'an error after content',
    mistral,
    2,
    wired(chunk([delta(0, 'a', 'stop'), delta(1, 'b')]), { error: { message: 'no', code: 503, type: 'overloaded' } }),
    '0:a undefined, 1:b undefined, -, overloaded',
  ],
  [
    'invalid JSON',
    mistral,
    2,
    wired(chunk([delta(0, 'a'), delta(1, 'b')]), '{oops'),
    '0:a undefined, 1:b undefined, -, malformed',
  ],
  [
    'alternating candidates, the first without an index',
    gemini,
    2,
    wired(piece(part('a')), piece(part('b', { index: 1 })), piece(candidate('c')), piece(candidate('d', { index: 1 }))),
    '0:ac stop, 1:bd stop, 4+9, stop',
  ],
  [
    'one candidate is blocked',
    gemini,
    2,
    wired(
      piece(part('a'), part('b', { index: 1 })),
      piece({ index: 1, finishReason: 'SAFETY' }),
      piece(candidate('c')),
    ),
    '0:ac stop, 1:b content-filter, 4+9, content-filter',
  ],
  [
    'the prompt is blocked',
    gemini,
    2,
    wired({ promptFeedback: { blockReason: 'SAFETY' } }),
    '0: content-filter, 1: content-filter, -, content-filter',
  ],
  ['a candidate is missing', gemini, 2, wired(piece(candidate('a'))), '0:a undefined, 4+9, truncated'],
]

/** The steps of a stream. */
const readAll = (format: UpstreamProtocol, count: number, wire: readonly Uint8Array[]): readonly StreamStep[] => {
  const frames = sse.frames(1_000_000)
  const decoder = new ChoicesDecoder(several(format, count), asIs)
  const steps = wire.flatMap((bytes) => frames.push(bytes)).map((frame) => decoder.push(frame))
  return [...steps, ...frames.end().map((frame) => decoder.push(frame)), decoder.end()]
}
const joined = (steps: readonly StreamStep[]): StreamStep => {
  const found = new Map<number, ChatEvent[]>()
  for (const { index, events } of steps.flatMap(({ choices = [] }) => choices))
    found.set(index, [...(found.get(index) ?? []), ...events])
  return {
    events: steps.flatMap(({ events }) => events),
    choices: [...found].sort(([a], [b]) => a - b).map(([index, events]) => ({ index, events })),
  }
}
const written = (count: number, steps: readonly StreamStep[], more: JsonObject = {}): string => {
  const writer = openaiChat.encodeChoices?.stream(context(count, more)) ?? assert.fail()
  return [...steps.flatMap((step) => writer.push(step)), ...writer.end()].join('')
}

const bytesOf = (wire: string): Uint8Array => new TextEncoder().encode(wire)

for (const [name, format, count, wire, expected] of streams)
  test(`choices: stream, ${format.name}, ${name}, cut at every position`, () => {
    const bytes = bytesOf(wire)
    const whole = readAll(format, count, [bytes])
    const out = written(count, whole)
    assert.equal(outline(joined(whole)), expected)
    const single = Array.from(bytes, (_, at) => bytes.subarray(at, at + 1))
    assert.equal(written(count, readAll(format, count, single)), out)
    for (let cut = 0; cut <= bytes.length; cut++) {
      assert.equal(written(count, readAll(format, count, [bytes.subarray(0, cut), bytes.subarray(cut)])), out)
      // A truncated stream has a failure, unless every choice has finished.
      const broken = readAll(format, count, [bytes.subarray(0, cut)])
      const { failure, finish } = fold(joined(broken).events)
      assert.notEqual(failure === undefined, finish === undefined)
      const text = written(count, broken)
      assert.equal(text.includes('[DONE]'), failure === undefined)
      if (!failure) assert.equal(count, reasonsIn(text).length)
    }
  })

const chunksIn = (text: string): readonly JsonObject[] =>
  [...text.matchAll(/^data: (\{.*)$/gm)].map(([, json = '']) => object(JSON.parse(json)) ?? {})
const reasonsIn = (text: string): readonly Json[] =>
  chunksIn(text)
    .flatMap(({ choices }) => list(choices))
    .flatMap((choice) => object(choice)?.finish_reason ?? [])

test('choices: a stream has one id, a role and a finish for each choice, one usage and one [DONE]', () => {
  const wire = wired(
    { ...chunk([delta(0, 'a')]), id: '' },
    chunk([delta(1, 'b', 'stop')]),
    chunk([delta(0, 'c', 'stop')], { usage }),
    '[DONE]',
  )
  const steps = readAll(mistral, 2, [bytesOf(wire)])
  const text = written(2, steps, { stream_options: { include_usage: true }, stream: true })
  const chunks = chunksIn(text)
  assert.deepEqual(
    [...new Set(chunks.map(({ id, created, model }) => `${id} ${created} ${model}`))],
    ['chatcmpl_0 5 mistral-x'],
  )
  const choices = chunks.flatMap((one) => list(one.choices)).map((one) => object(one) ?? {})
  const lines = choices.map(({ index, delta: said, finish_reason }) =>
    [index, object(said)?.role ?? object(said)?.content, finish_reason].join(' '),
  )
  // A reason beside content is the end only if nothing follows it.
  assert.deepEqual(lines, ['0 assistant ', '0 a ', '1 assistant ', '1 b ', '0 c ', '0  stop', '1  stop'])
  assert.deepEqual(
    chunks.filter(({ usage: counted }) => counted).map(({ choices: none, usage: counted }) => [none, counted]),
    [[[], object(chunks.at(-1)?.usage)]],
  )
  assert.equal(text.split('[DONE]').length, 2)
  // Usage was not requested.
  assert.ok(!written(2, steps).includes('usage'))
})

test('choices: one failure ends a stream, without [DONE]', () => {
  const writer = openaiChat.encodeChoices?.stream(context(2)) ?? assert.fail()
  const decoder = new ChoicesDecoder(several(mistral, 2), asIs)
  const push = (data: Json) =>
    writer.push(decoder.push({ data: typeof data === 'string' ? data : JSON.stringify(data) }))
  push(chunk([delta(0, 'a'), delta(1, 'b', 'stop')]))
  const last = push({ error: { message: 'no', type: 'x', code: 500 } })
  assert.match(last.join(''), /stream_interrupted/)
  assert.deepEqual([...push(chunk([delta(0, 'c', 'stop')])), ...push('[DONE]'), ...writer.end()], [])
})

test('choices: a request without `n` has one choice', () => assert.equal(choicesOf(request(1)), 1))

test('choices: no [DONE] without a finish, and no output after a failure', () => {
  const writer = () => openaiChat.encodeChoices?.stream(context(2)) ?? assert.fail()
  const end: ChatEvent = { type: 'finish', finish: { kind: 'stop', raw: 'stop' } }
  const first: StreamStep = { events: [], choices: [{ index: 0, events: [end] }] }
  const unfinished = writer()
  assert.match(unfinished.push(first).join(''), /"finish_reason":"stop"/)
  assert.deepEqual(unfinished.end(), [])
  const failed = writer()
  failed.push({ events: [{ type: 'failure', failure: fail('truncated', 'cut') }] })
  assert.deepEqual([...failed.push(first), ...failed.push({ events: [end] }), ...failed.end()], [])
})

// ── Random input ─────────────────────────────────────────────────────────────────────────────────────────────────

test('choices: choices with an index out of range are ignored', () => {
  for (const index of [-1, 0.5, 7, 2 ** 53]) {
    const body = completed([message(0, 'a'), message(1, 'b'), message(index, 'c')])
    assert.equal(outline(decodeChoices(body, several(mistral, 2), asIs)), '0:a stop, 1:b stop, 4+9, stop')
    const missing = completed([message(0, 'a'), message(index, 'c')])
    assert.equal(outline(decodeChoices(missing, several(mistral, 2), asIs)), '-, malformed')
  }
})

test('choices: an event nested too deeply is a failure', () => {
  const deep = `{"choices":[{"index":0,"delta":{"x":${'['.repeat(20_000)}${']'.repeat(20_000)}}}]}`
  const step = new ChoicesDecoder(several(mistral, 2), asIs).push({ data: deep })
  assert.equal(outline(step), '-, malformed')
})

const NAMES =
  'choices candidates index message delta content role finish_reason finishReason parts text functionCall name args tool_calls function arguments id usage usageMetadata promptFeedback blockReason error code'.split(
    ' ',
  )

/** Checks that the events of each choice are in order and that the answer ends once. */
const assertOrderly = (steps: readonly StreamStep[]): void => {
  const { events, choices = [] } = joined(steps)
  const failures = events.filter(({ type }) => type === 'failure')
  const finishes = events.filter(({ type }) => type === 'finish')
  assert.equal(failures.length + finishes.length, 1)
  for (const { index, events: own } of choices) {
    assert.ok(index === 0 || index === 1)
    assertEventOrder([...own, ...failures], false)
  }
}

test('choices: input after the finish of all choices adds no second end', () => {
  const blocked = JSON.stringify({ promptFeedback: { blockReason: 'stop' } })
  assertOrderly(readAll(gemini, 2, [bytesOf(wired(blocked, '[]'))]))
})

for (const format of [gemini, mistral])
  test(`choices: ${format.name}, any input is decoded without throwing and ends once`, () =>
    assertReadable(
      {
        ...format,
        lenientEvents: true,
        decodeAnswer: (body) => {
          const step = decodeChoices(body, several(format, 2), asIs)
          assertOrderly([step])
          return [{ type: 'finish', finish: { kind: 'stop', raw: null } }]
        },
      },
      {
        names: NAMES,
        values: ['STOP', 'SAFETY', 'stop', 'length'],
        read: (bodies) => {
          assertOrderly(readAll(format, 2, [bytesOf(wired(...bodies.map((body) => JSON.stringify(body))))]))
          return [{ type: 'finish', finish: { kind: 'stop', raw: null } }]
        },
      },
    ))
