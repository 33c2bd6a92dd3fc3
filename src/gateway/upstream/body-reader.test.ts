import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fold } from '../../core/chat.ts'
import type { StreamStep } from '../../core/protocol.ts'
import { run } from '../../core/stage.ts'
import { singleFrames } from '../../protocols/framing/sse.ts'
import { openaiChat } from '../../protocols/openai-chat/index.ts'
import { type AnswerBodyReader, readerFor } from './body-reader.ts'

const whole = JSON.stringify({
  choices: [{ index: 0, message: { role: 'assistant', content: 'héllo' }, finish_reason: 'stop' }],
})
const chunk = (delta: object, reason: string | null = null) =>
  `data: ${JSON.stringify({ id: 'c', choices: [{ index: 0, delta, finish_reason: reason }] })}\n\n`
const said = (content: string) => chunk({ content })
const stream = `${chunk({ role: 'assistant', content: 'hé' })}${chunk({ content: 'llo' }, 'stop')}data: [DONE]\n\n`
const page = '<!doctype html><title>Sign in to the network</title>'

/** [name, status, content type, body, result for a stream request, result otherwise]. A result is a text or a failure kind. */
const cases: readonly (readonly [
  name: string,
  status: number,
  type: string,
  body: string,
  streamed: string,
  asOne: string,
])[] = [
  ['a stream', 200, 'text/event-stream; charset=utf-8', stream, 'héllo', 'héllo'],
  ['an answer', 200, 'application/json', whole, 'héllo', 'héllo'],
  ['an answer after keep-alive whitespace', 200, 'application/json', `\n \n${whole}`, 'héllo', 'héllo'],
  ['a stream with a JSON content type', 200, 'application/json', stream, 'héllo', 'malformed'],
  ['a stream that starts with a comment', 200, 'application/json', `: hi\n\n${stream}`, 'héllo', 'malformed'],
  ['a stream without a content type', 200, '', stream, 'héllo', 'malformed'],
  ['an answer without a content type', 200, '', whole, 'héllo', 'héllo'],
  ['whitespace only', 200, 'application/json', ' \n', 'malformed', 'malformed'],
  ['a truncated answer', 200, 'application/json', whole.slice(0, 40), 'malformed', 'malformed'],
  ['a web page', 200, 'text/html', page, 'not_json', 'not_json'],
  ['a web page with a JSON content type', 200, 'application/json', page, 'not_json', 'not_json'],
  ['a redirect', 302, 'text/html', '', 'redirect', 'redirect'],
  ['an error', 429, 'application/json', '{"error":{"message":"slow down"}}', 'rate_limited', 'rate_limited'],
  ['an error with a stream content type', 503, 'text/event-stream', '{"error":{}}', 'overloaded', 'overloaded'],
]

const reading = (status: number, type: string, stream: boolean): AnswerBodyReader => {
  const headers = (name: string) => (name === 'content-type' && type !== '' ? type : undefined)
  return readerFor({ status, headers }, { protocol: openaiChat, quirks: undefined, translated: null, stream, date: 0 })
}

const read = (status: number, type: string, pieces: readonly Uint8Array[], stream: boolean): string => {
  const reader = reading(status, type, stream)
  const { blocks, failure } = fold(run(reader, pieces).flatMap(({ events }) => events))
  return failure?.kind ?? blocks.map(({ text }) => text).join('')
}

for (const [name, status, type, body, streamed, asOne] of cases)
  test(`reader: ${name}`, () => {
    const bytes = new TextEncoder().encode(body)
    for (const [stream, taken] of [
      [true, streamed],
      [false, asOne],
    ] as const) {
      assert.equal(read(status, type, [bytes], stream), taken)
      for (let cut = 0; cut <= bytes.length; cut++)
        assert.equal(read(status, type, [bytes.subarray(0, cut), bytes.subarray(cut)], stream), taken, `cut at ${cut}`)
    }
  })

// ── Consecutive frames ──────────────────────────────────────────────────────────────────────────────────────────────

/** The first text opens its block; the second only continues it. */
const begun = said('1') + said('2')

/** A stream in two reads, and the steps of the second: the number of frames recognised by their bytes, or one decoded frame. */
const rows: readonly (readonly [name: string, before: string, then: string, steps: readonly (number | 'read')[]])[] = [
  ['one', begun, said('b'), [1]],
  ['several', begun, said('b') + said('c ✓') + said('d\n"e"'), [3]],
  ['after a partial frame', begun + said('b').slice(0, 20), said('b').slice(20) + said('see') + said('d'), ['read', 2]],
  ['before a partial frame', begun, said('b') + said('see') + said('d').slice(0, 20), [2]],
  [
    'with a different frame between',
    begun,
    said('b') + chunk({ tool_calls: [] }) + said('see') + said('d'),
    [1, 'read', 'read', 1],
  ],
  ['the first frames', '', chunk({ role: 'assistant', content: '' }) + begun + said('b'), ['read', 'read', 'read', 1]],
  ['with the end of the stream', begun, `${said('b')}${chunk({}, 'stop')}data: [DONE]\n\n`, [1, 'read', 'read']],
]

/** One step per frame. */
const singleSteps = (step: StreamStep): readonly StreamStep[] => {
  if (!isRepeated(step) || !step.frame) return [step]
  return singleFrames(step.frame).map((frame, at) => ({ frame, events: step.events.slice(at, at + 1) }))
}
const isRepeated = ({ frame }: StreamStep): boolean => frame?.raw instanceof Uint8Array

for (const [name, before, then, steps] of rows)
  test(`reader: consecutive frames: ${name}`, () => {
    const read = (bytesOf: (text: string) => Uint8Array) => {
      const reader = reading(200, 'text/event-stream', true)
      return [before, then].map((text) => reader.push(bytesOf(text)))
    }
    const [, second = []] = read(Buffer.from)
    assert.deepEqual(
      second.map((step) => (isRepeated(step) ? step.events.length : 'read')),
      steps,
    )
    // Equal to decoding each frame alone.
    const slow = read((text) => new TextEncoder().encode(text))
    assert.ok(!slow.flat().some(isRepeated))
    assert.deepEqual(read(Buffer.from).flat().flatMap(singleSteps), slow.flat())
  })

test('reader: without repetition, only a few frames of a read are decoded alone', () => {
  const reader = reading(200, 'text/event-stream', true)
  const all = Array.from({ length: 50 }, (_, at) => chunk({ content: `${at}`, [`m${at}`]: at })).join('')
  const steps = reader.push(Buffer.from(all))
  assert.equal(steps.length, 50)
  assert.deepEqual(steps.map(({ frame }) => frame?.raw).join(''), all)
})

// ── Errors in plain text ────────────────────────────────────────────────────────────────────────────────────────────

const AXUM = 'Failed to deserialize the JSON body into the target type: messages[0].content: invalid type: null'
const REASONS: readonly (readonly [name: string, status: number, type: string, body: string, message: RegExp])[] = [
  ['a refusal of axum', 422, 'text/plain; charset=utf-8', AXUM, /^Failed to deserialize the JSON body/],
  [
    'a refusal of Go',
    400,
    'text/plain; charset=utf-8',
    'no model with this name is loaded\n',
    /^no model with this name is loaded$/,
  ],
  ['an error of Envoy', 503, 'text/plain', 'no healthy upstream', /^no healthy upstream$/],
  ['an unknown path', 404, 'text/plain', '404 page not found', /its base URL is wrong/],
  ['a firewall', 403, 'text/plain', 'error code: 1020', /not JSON/],
  ['a web page', 500, 'text/html', page, /gave no reason/],
  ['a long text', 500, 'text/plain', 'a'.repeat(2_001), /gave no reason/],
]
for (const [name, status, type, body, message] of REASONS)
  test(`reader: the reason of a failure in plain text: ${name}`, () => {
    const reader = reading(status, type, false)
    const { failure } = fold(run(reader, [new TextEncoder().encode(body)]).flatMap(({ events }) => events))
    assert.match(failure?.message ?? '', message)
  })
