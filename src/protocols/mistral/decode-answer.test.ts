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

/** A stream with these deltas, with the padding member `p` that Mistral adds. */
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

/** Summarises an answer in one line: its blocks with their citations, then its end. */
const summarize = (events: readonly ChatEvent[]): string => {
  const { blocks, finish, failure } = fold(events)
  const summaries = blocks.map((block) => {
    const cited = (block.citations ?? []).map(({ url, raw }) => `<${url || JSON.stringify(raw)}>`).join('')
    return `${block.type}(${block.type === 'tool-call' ? `${block.id} ${block.name} ` : ''}${block.text}${cited})`
  })
  return [...summaries, failure ? `failure ${failure.kind}` : `${finish?.kind} ${finish?.raw}`].join(' ')
}

const textChunk = (text: string): JsonObject => ({ type: 'text', text })
const thinkingChunk = (...thinking: Json[]): JsonObject => ({ type: 'thinking', thinking })
const referenceChunk = (...ids: number[]): JsonObject => ({ type: 'reference', reference_ids: ids })
const found = { type: 'tool_reference', tool: 'web_search', title: 't', url: 'https://a.example/' }
const call = (id: string, name: string, given: Json, more: JsonObject = {}): JsonObject => ({
  id,
  function: { name, arguments: given },
  ...more,
})

/** Answers as a whole message and as the deltas of a stream. */
const cases: readonly (readonly [string, JsonObject, readonly JsonObject[], string, string?])[] = [
  [
    'text',
    { content: 'hi' },
    [{ role: 'assistant', content: '' }, { content: 'h' }, { content: 'i' }],
    'text(hi) stop stop',
  ],
  [
    'thinking in a list, then text as a string',
    { content: [thinkingChunk(textChunk('hm')), textChunk('hi')] },
    [
      { role: 'assistant', content: '' },
      { content: [thinkingChunk(textChunk('h'))] },
      { content: [thinkingChunk(textChunk('m'))] },
      { content: [thinkingChunk()] },
      { content: 'h' },
      { content: [textChunk('i')] },
    ],
    'reasoning(hm) text(hi) stop stop',
  ],
  [
    'references are citations of the text before them',
    { content: [textChunk('a'), referenceChunk(1), textChunk('b'), referenceChunk(2, 3)] },
    [{ content: [textChunk('a'), referenceChunk(1)] }, { content: 'b' }, { content: [referenceChunk(2, 3)] }],
    'text(ab<{"type":"reference","reference_ids":[1]}><{"type":"reference","reference_ids":[2,3]}>) stop stop',
  ],
  [
    'references within thinking are citations of the text after it',
    { content: [thinkingChunk(textChunk('hm'), found), textChunk('hi')] },
    [{ content: [thinkingChunk(textChunk('hm'), found)] }, { content: 'hi' }],
    'reasoning(hm) text(hi<https://a.example/>) stop stop',
  ],
  [
    'calls without index and type',
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
  ['the output limit', { content: 'h' }, [{ content: 'h' }], 'text(h) length length', 'length'],
  [
    'the length limit of the model',
    { content: 'h' },
    [{ content: 'h' }],
    'text(h) length model_length',
    'model_length',
  ],
]

for (const [name, message, deltas, expected, reason = 'stop'] of cases)
  test(`mistral: answer: ${name}`, () => {
    assert.equal(summarize(mistral.decodeAnswer(whole(message, reason))), expected)
    const wire = wireOf(deltas, reason)
    const events = read(wire)
    assert.equal(summarize(events), expected)
    assert.deepEqual(summarize(read(wireOf(deltas, reason, ''))), expected, 'without [DONE], as some streams end')
    for (let cut = 0; cut <= wire.length; cut++) {
      assert.deepEqual(read(wire, [cut]), events, `cut at ${cut}`)
      const truncated = fold(read(wire.slice(0, cut)))
      assert.ok(truncated.failure || truncated.finish)
    }
    const { input, output } = fold(events).usage ?? {}
    assert.deepEqual([input, output], [9, 5])
  })

test('mistral: finish reason error is a failure', () => {
  assert.equal(summarize(mistral.decodeAnswer(whole({ content: 'h' }, 'error'))), 'failure error_in_stream')
  assert.equal(summarize(read(wireOf([{ content: 'h' }], 'error'))), 'text(h) failure error_in_stream')
})

test('mistral: reads cached tokens from either member', () => {
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

test('mistral: citations without a URL are omitted where the client format requires one', () => {
  const events = mistral.decodeAnswer(whole({ content: [textChunk('a'), referenceChunk(1)] }))
  for (const style of [protocols['openai-chat'], protocols['openai-responses'], protocols['anthropic-messages']]) {
    const context = {
      request: { model: 'm', stream: false, messages: [], tools: [], settings: {}, extras: [] },
      body: {},
      id: (prefix: string) => `${prefix}_x`,
      created: 1,
      model: 'm',
    }
    const encoded = JSON.stringify(style.encodeAnswer(fold(events), context))
    assert.ok(encoded.includes('"a"'))
    assert.ok(!encoded.includes('url'), encoded)
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
    // The same body with status 200, complete or in a stream, is also a failure.
    assert.ok(fold(mistral.decodeAnswer(body)).failure)
    assert.ok(fold(read(`data: ${JSON.stringify(body)}\n\n`)).failure)
  })

// ── Random input ───────────────────────────────────────────────────────────────────────────────────────────────────

const names =
  'choices message delta content type text thinking reference_ids tool_calls function name arguments id index finish_reason usage prompt_tokens num_cached_tokens url p'.split(
    ' ',
  )

test('mistral: decodes any answer without throwing, with one end', () =>
  assertReadable(mistral, {
    names,
    values: ['stop', 'error', 'thinking', 'reference', 'tool_reference'],
    read: (bodies) => read(bodies.map((body) => `data: ${JSON.stringify(body)}\n\n`).join('')),
  }))
