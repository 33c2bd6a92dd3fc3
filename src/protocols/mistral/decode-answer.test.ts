import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertReadable } from '../../../test/support/anything.ts'
import { type ChatEvent, fold } from '../../core/chat.ts'
import type { Json, JsonObject } from '../../core/json.ts'
import { run } from '../../core/stage.ts'
import { sse } from '../framing/sse.ts'
import { protocols } from '../index.ts'
import { mistral } from './index.ts'

const whole = (message: JsonObject, reason: Json = 'stop', more: JsonObject = {}): JsonObject => ({
  id: 'c1',
  object: 'chat.completion',
  created: 1,
  model: 'mistral-small-latest',
  choices: [{ index: 0, message: { role: 'assistant', ...message }, finish_reason: reason }],
  usage: { prompt_tokens: 9, completion_tokens: 5, total_tokens: 14 },
  ...more,
})

/** The pieces of a stream, padded as Mistral pads them. */
const wireOf = (deltas: readonly JsonObject[], reason: Json = 'stop', end = 'data: [DONE]\n\n'): string =>
  [...deltas, { content: '' }]
    .map((delta, at, all) => ({
      id: 'c1',
      object: 'chat.completion.chunk',
      created: 1,
      model: 'mistral-small-latest',
      choices: [{ index: 0, delta, finish_reason: at === all.length - 1 ? reason : null }],
      ...(at === all.length - 1 && { usage: { prompt_tokens: 9, completion_tokens: 5, total_tokens: 14 } }),
      p: 'abcdef'.slice(at % 6),
    }))
    .map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`)
    .join('') + end

const read = (text: string, cuts: readonly number[] = []): ChatEvent[] => {
  const bytes = new TextEncoder().encode(text)
  const places = [0, ...cuts, bytes.length]
  const pieces = places.slice(1).map((end, at) => bytes.subarray(places[at], end))
  return run(mistral.decodeStream(), run(sse.frames(1_000_000), pieces))
}

/** An answer in a line: blocks with what they cite, then how it ended. */
const told = (events: readonly ChatEvent[]): string => {
  const { blocks, finish, failure } = fold(events)
  const said = blocks.map((block) => {
    const cited = (block.citations ?? []).map(({ url, raw }) => `<${url || JSON.stringify(raw)}>`).join('')
    return `${block.type}(${block.type === 'tool-call' ? `${block.id} ${block.name} ` : ''}${block.text}${cited})`
  })
  return [...said, failure ? `failure ${failure.kind}` : `${finish?.kind} ${finish?.raw}`].join(' ')
}

const words = (text: string): JsonObject => ({ type: 'text', text })
const thought = (...thinking: Json[]): JsonObject => ({ type: 'thinking', thinking })
const reference = (...ids: number[]): JsonObject => ({ type: 'reference', reference_ids: ids })
const found = { type: 'tool_reference', tool: 'web_search', title: 't', url: 'https://a.example/' }
const call = (id: string, name: string, given: Json, more: JsonObject = {}): JsonObject => ({
  id,
  function: { name, arguments: given },
  ...more,
})

/** What an answer says whole, and in pieces. */
const cases: readonly (readonly [string, JsonObject, readonly JsonObject[], string, string?])[] = [
  [
    'text',
    { content: 'hi' },
    [{ role: 'assistant', content: '' }, { content: 'h' }, { content: 'i' }],
    'text(hi) stop stop',
  ],
  [
    'thoughts in a list, then text as a string',
    { content: [thought(words('hm')), words('hi')] },
    [
      { role: 'assistant', content: '' },
      { content: [thought(words('h'))] },
      { content: [thought(words('m'))] },
      { content: [thought()] },
      { content: 'h' },
      { content: [words('i')] },
    ],
    'reasoning(hm) text(hi) stop stop',
  ],
  [
    'sources by number stand with the text before them',
    { content: [words('a'), reference(1), words('b'), reference(2, 3)] },
    [{ content: [words('a'), reference(1)] }, { content: 'b' }, { content: [reference(2, 3)] }],
    'text(ab<{"type":"reference","reference_ids":[1]}><{"type":"reference","reference_ids":[2,3]}>) stop stop',
  ],
  [
    'sources found while it was thinking are those of the text after it',
    { content: [thought(words('hm'), found), words('hi')] },
    [{ content: [thought(words('hm'), found)] }, { content: 'hi' }],
    'reasoning(hm) text(hi<https://a.example/>) stop stop',
  ],
  [
    'whole calls, without index or type',
    { content: '', tool_calls: [call('abcdefgh1', 'f', '{"a":1}'), call('abcdefgh2', 'g', { b: 2 })] },
    [{ tool_calls: [call('abcdefgh1', 'f', '{"a":1}')] }, { tool_calls: [call('abcdefgh2', 'g', { b: 2 })] }],
    'tool-call(abcdefgh1 f {"a":1}) tool-call(abcdefgh2 g {"b":2}) tool-calls tool_calls',
    'tool_calls',
  ],
  [
    'text and a call',
    { content: 'wait', tool_calls: [call('abcdefgh1', 'f', '{}', { index: 0, type: 'function' })] },
    [{ content: 'wait' }, { tool_calls: [call('abcdefgh1', 'f', '{}', { index: 0, type: 'function' })] }],
    'text(wait) tool-call(abcdefgh1 f {}) tool-calls tool_calls',
    'tool_calls',
  ],
  ['its limit', { content: 'h' }, [{ content: 'h' }], 'text(h) length length', 'length'],
  ["the model's limit", { content: 'h' }, [{ content: 'h' }], 'text(h) length model_length', 'model_length'],
]

for (const [name, message, deltas, expected, reason = 'stop'] of cases)
  test(`mistral: answer: ${name}`, () => {
    assert.equal(told(mistral.decodeAnswer(whole(message, reason))), expected)
    const wire = wireOf(deltas, reason)
    const events = read(wire)
    assert.equal(told(events), expected)
    assert.deepEqual(told(read(wireOf(deltas, reason, ''))), expected, 'without [DONE], as some of its streams end')
    for (let cut = 0; cut <= wire.length; cut++) {
      assert.deepEqual(read(wire, [cut]), events, `cut at ${cut}`)
      const broken = fold(read(wire.slice(0, cut)))
      assert.ok(broken.failure || broken.finish)
    }
    const { input, output } = fold(events).usage ?? {}
    assert.deepEqual([input, output], [9, 5])
  })

test('mistral: an end that is an error', () => {
  assert.equal(told(mistral.decodeAnswer(whole({ content: 'h' }, 'error'))), 'failure error_in_stream')
  assert.equal(told(read(wireOf([{ content: 'h' }], 'error'))), 'text(h) failure error_in_stream')
})

test('mistral: tokens from its cache, by either name', () => {
  const cached = (usage: JsonObject) =>
    fold(
      mistral.decodeAnswer(
        whole({ content: 'h' }, 'stop', { usage: { prompt_tokens: 9, completion_tokens: 5, ...usage } }),
      ),
    ).usage?.cacheRead
  assert.equal(cached({ num_cached_tokens: 4 }), 4)
  assert.equal(cached({ num_cached_tokens: null, prompt_tokens_details: { cached_tokens: 3 } }), 3)
  assert.equal(cached({}), undefined)
})

test('mistral: a source without an address is told to nobody who would make an address of it', () => {
  const events = mistral.decodeAnswer(whole({ content: [words('a'), reference(1)] }))
  for (const style of [protocols['openai-chat'], protocols['openai-responses'], protocols['anthropic-messages']]) {
    const context = {
      request: { model: 'm', stream: false, messages: [], tools: [], settings: {}, extras: [] },
      body: {},
      id: (prefix: string) => `${prefix}_x`,
      created: 1,
      model: 'm',
    }
    const told = JSON.stringify(style.encodeAnswer(fold(events), context))
    assert.ok(told.includes('"a"'))
    assert.ok(!told.includes('url'), told)
    assert.ok(!run(style.encodeStream(context), [{ events }]).join('').includes('"url'), style.name)
  }
})

const errors: readonly (readonly [number, Json, string, string])[] = [
  [401, { detail: 'Unauthorized' }, 'auth', 'Unauthorized'],
  [
    429,
    { object: 'error', message: 'Rate limit exceeded', type: 'rate_limited', param: null, code: '1300' },
    'rate_limited',
    'Rate limit exceeded',
  ],
  [429, { message: 'Requests rate limit exceeded' }, 'rate_limited', 'Requests rate limit exceeded'],
  [
    422,
    { detail: [{ type: 'extra_forbidden', loc: ['body', 'seed'], msg: 'Extra inputs are not permitted' }] },
    'incompatible',
    'body.seed: Extra inputs are not permitted',
  ],
  [
    400,
    {
      object: 'error',
      message: "Unexpected role 'user' after role 'tool'",
      type: 'invalid_request_message_order',
      param: null,
      code: '3230',
    },
    'incompatible',
    "Unexpected role 'user' after role 'tool'",
  ],
]

for (const [status, body, kind, message] of errors)
  test(`mistral: error: ${status} ${message}`, () => {
    const failure = mistral.decodeFailure(status, body, () => undefined)
    assert.deepEqual([failure.kind, failure.message], [kind, message])
    // The same inside a 200, whole or in a stream, is no answer.
    assert.ok(fold(mistral.decodeAnswer(body)).failure)
    assert.ok(fold(read(`data: ${JSON.stringify(body)}\n\n`)).failure)
  })

// ── Anything ─────────────────────────────────────────────────────────────────────────────────────────────────────

const names =
  'choices message delta content type text thinking reference_ids tool_calls function name arguments id index finish_reason usage prompt_tokens num_cached_tokens url p'.split(
    ' ',
  )

test('mistral: whatever an upstream says is events that end, and nothing is thrown', () =>
  assertReadable(mistral, {
    names,
    values: ['stop', 'error', 'thinking', 'reference', 'tool_reference'],
    read: (bodies) => read(bodies.map((body) => `data: ${JSON.stringify(body)}\n\n`).join('')),
  }))
