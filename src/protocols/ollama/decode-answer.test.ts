import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertReadable } from '../../../test/support/anything.ts'
import { type ChatEvent, fold } from '../../core/chat.ts'
import type { Json, JsonObject } from '../../core/json.ts'
import { run } from '../../core/stage.ts'
import { ndjson } from '../framing/ndjson.ts'
import { ollama } from './index.ts'

const AT = '2025-06-09T17:58:55.337823Z'
const line = (message: JsonObject, more: JsonObject = {}): JsonObject => ({
  model: 'qwen3',
  created_at: AT,
  message: { role: 'assistant', content: '', ...message },
  done: false,
  ...more,
})
const done = (more: JsonObject = {}, message: JsonObject = {}): JsonObject =>
  line(message, { done: true, done_reason: 'stop', prompt_eval_count: 9, eval_count: 5, ...more })
const called = (name: string, given: Json, more: JsonObject = {}) => ({ ...more, function: { name, arguments: given } })

/** Summarises an answer in one line: its blocks, then its end. */
const summarize = (events: readonly ChatEvent[]): string => {
  const { blocks, finish, failure } = fold(events)
  const summaries = blocks.map(
    (block) => `${block.type}(${block.type === 'tool-call' ? `${block.name} ` : ''}${block.text})`,
  )
  return [...summaries, failure ? `failure ${failure.kind}` : `${finish?.kind} ${finish?.raw}`].join(' ')
}

const MAX_LINE = 100_000
const read = (text: string, cuts: readonly number[] = []): ChatEvent[] => {
  const bytes = new TextEncoder().encode(text)
  const places = [0, ...cuts, bytes.length]
  const pieces = places.slice(1).map((end, at) => bytes.subarray(places[at], end))
  return run(ollama.decodeStream(), run(ndjson.frames(MAX_LINE), pieces))
}
const wireOf = (lines: readonly Json[]): string => lines.map((line) => `${JSON.stringify(line)}\n`).join('')

const whole: readonly (readonly [string, Json, string])[] = [
  ['text', done({}, { content: 'hi' }), 'text(hi) stop stop'],
  ['thinking and text', done({}, { thinking: 'hm', content: 'hi' }), 'reasoning(hm) text(hi) stop stop'],
  [
    'calls with the reason stop',
    done({}, { tool_calls: [called('f', { a: 1 }), called('g', null)] }),
    'tool-call(f {"a":1}) tool-call(g {}) tool-calls stop',
  ],
  ['arguments as text', done({}, { tool_calls: [called('f', '{"a":1}')] }), 'tool-call(f {"a":1}) tool-calls stop'],
  ['the output limit', done({ done_reason: 'length' }, { content: 'h' }), 'text(h) length length'],
  [
    'the output limit with a call',
    done({ done_reason: 'length' }, { tool_calls: [called('f', {})] }),
    'tool-call(f {}) length length',
  ],
  ['the reason load', done({ done_reason: 'load' }), 'stop load'],
  ['no reason (older servers)', { ...done({}, { content: 'h' }), done_reason: '' }, 'text(h) stop null'],
  ['an image', done({}, { content: 'h', images: ['AA=='] }), 'text(h) foreign() stop stop'],
  ['an unfinished answer', line({ content: 'h' }), 'text(h) failure truncated'],
  ['an error', { error: 'model "x" not found' }, 'failure error_in_stream'],
  ['a call without a name', done({}, { tool_calls: [{ function: {} }] }), 'failure malformed'],
  ['no message', { model: 'x' }, 'failure malformed'],
  ['another format', { choices: [{ message: { content: 'x' } }] }, 'failure malformed'],
  ['not an object', 'x', 'failure malformed'],
  ['a list', [], 'failure malformed'],
]

for (const [name, body, expected] of whole)
  test(`ollama: non-streaming answer: ${name}`, () => assert.equal(summarize(ollama.decodeAnswer(body)), expected))

const streams: readonly (readonly [string, string, string])[] = [
  ['text', wireOf([line({ content: 'a' }), line({ content: 'b' }), done()]), 'text(ab) stop stop'],
  [
    'thinking, text and a call',
    wireOf([
      line({ thinking: 'h' }),
      line({ thinking: 'm' }),
      line({ content: 'ü' }),
      line({ tool_calls: [called('f', { a: 'ß' })] }),
      line({ tool_calls: [called('f', { a: 'ß' }, { id: 'call_1' })] }),
      done(),
    ]),
    'reasoning(hm) text(ü) tool-call(f {"a":"ß"}) tool-call(f {"a":"ß"}) tool-calls stop',
  ],
  ['crlf', wireOf([line({ content: 'a' }), done()]).replaceAll('\n', '\r\n'), 'text(a) stop stop'],
  ['the last line has text', wireOf([line({ content: 'a' }), done({}, { content: 'b' })]), 'text(ab) stop stop'],
  [
    'an error after text',
    wireOf([line({ content: 'a' }), { error: 'the model runner has unexpectedly stopped' }]),
    'text(a) failure error_in_stream',
  ],
  [
    'an error with its status',
    wireOf([line({ content: 'a' }), { error: 'busy', status: 503 }]),
    'text(a) failure overloaded',
  ],
  [
    'lines after an error are ignored',
    wireOf([{ error: 'x' }, line({ content: 'a' }), done()]),
    'failure error_in_stream',
  ],
  [
    'lines after the end are ignored',
    wireOf([line({ content: 'a' }), done(), line({ content: 'b' })]),
    'text(a) stop stop',
  ],
  ['a truncated stream', wireOf([line({ content: 'a' })]), 'text(a) failure truncated'],
  ['a truncated line', `${wireOf([line({ content: 'a' })])}{"model":"qw`, 'text(a) failure truncated'],
  ['an empty stream', '', 'failure truncated'],
  ['not JSON', `${wireOf([line({ content: 'a' })])}<html>\n`, 'text(a) failure malformed'],
  ['a line above the size limit', `{"x":"${'y'.repeat(MAX_LINE)}"}\n`, 'failure too_large'],
]

for (const [name, wire, expected] of streams)
  test(`ollama: stream: ${name}`, () => {
    const events = read(wire)
    assert.equal(summarize(events), expected)
    const size = new TextEncoder().encode(wire).length
    if (size > 10_000) return
    for (let cut = 0; cut <= size; cut++) {
      assert.deepEqual(read(wire, [cut]), events, `cut at ${cut}`)
      // A truncated stream is either a complete answer or a failure.
      const truncated = fold(
        run(ollama.decodeStream(), run(ndjson.frames(MAX_LINE), [new TextEncoder().encode(wire).subarray(0, cut)])),
      )
      assert.ok(truncated.failure || truncated.finish)
    }
  })

test('ollama: decodes model, creation time and usage', () => {
  const answer = fold(ollama.decodeAnswer(done({ prompt_eval_cached_count: 4, eval_duration: 7 }, { content: 'hi' })))
  assert.deepEqual([answer.model, answer.created], ['qwen3', 1_749_491_935])
  const raw = { prompt_eval_count: 9, eval_count: 5, prompt_eval_cached_count: 4, eval_duration: 7 }
  assert.deepEqual(answer.usage, { input: 9, output: 5, cacheRead: 4, raw })
})

test('ollama: a fully cached prompt has no token count on older servers', () => {
  const { prompt_eval_count: _, ...body } = done({}, { content: 'hi' })
  assert.deepEqual(fold(ollama.decodeAnswer(body)).usage, {
    input: 0,
    output: 5,
    unknown: 'input',
    raw: { eval_count: 5 },
  })
  const { eval_count: __, ...none } = body
  assert.equal(fold(ollama.decodeAnswer(none)).usage, undefined)
})

test('ollama: keeps call IDs, and derives distinct and repeatable ones if they are missing', () => {
  const calls = [called('f', {}), called('f', {}), called('f', {}, { id: 'call_theirs' })]
  const idsIn = (body: Json) =>
    fold(ollama.decodeAnswer(body)).blocks.flatMap((block) => (block.type === 'tool-call' ? [block.id] : []))
  const ids = idsIn(done({}, { tool_calls: calls }))
  assert.equal(new Set(ids).size, 3)
  assert.equal(ids[2], 'call_theirs')
  assert.deepEqual(idsIn(done({}, { tool_calls: calls })), ids)
  const later = idsIn(done({ created_at: '2025-06-09T17:58:56Z' }, { tool_calls: calls }))
  assert.ok(later.slice(0, 2).every((id) => !ids.includes(id)))
})

test('ollama: decodes log probabilities with their text', () => {
  const logprobs = [{ token: 'hi', logprob: -0.1, bytes: [104, 105], top_logprobs: [] }]
  const [block] = fold(ollama.decodeAnswer({ ...done({}, { content: 'hi' }), logprobs })).blocks
  assert.deepEqual(block?.logprobs, logprobs)
})

const errors: readonly (readonly [number, Json, string])[] = [
  [404, { error: 'model "nope" not found, try pulling it first' }, 'model_missing'],
  [401, { error: 'unauthorized' }, 'auth'],
  [400, { error: 'json: cannot unmarshal string into Go struct field' }, 'incompatible'],
  [500, { error: 'llama runner process has terminated: exit status 2' }, 'status'],
  [503, { error: 'server busy, please try again. maximum pending requests exceeded' }, 'overloaded'],
]

for (const [status, body, kind] of errors)
  test(`ollama: error: ${status} ${JSON.stringify(body)}`, () => {
    const failure = ollama.decodeFailure(status, body, () => undefined)
    assert.equal(failure.kind, kind)
    assert.equal(failure.message, (body as { error: string }).error)
  })

// ── Random input ───────────────────────────────────────────────────────────────────────────────────────────────────

const names =
  'message content thinking tool_calls function name arguments id done done_reason error status images logprobs eval_count prompt_eval_count created_at model'.split(
    ' ',
  )

test('ollama: decodes any answer without throwing, with one end', () =>
  assertReadable(ollama, {
    names,
    values: ['stop', 'length'],
    read: (bodies) => {
      const events = read(wireOf(bodies))
      const last = events.at(-1)?.type
      assert.ok(last === 'finish' || last === 'failure', 'an event follows the end')
      return events
    },
  }))
