import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answerContext } from '../../../test/support/builders.ts'
import { type ChatEvent, fold } from '../../core/chat.ts'
import { fail } from '../../core/failure.ts'
import type { JsonObject } from '../../core/json.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import { run } from '../../core/stage.ts'
import { decodeRequest } from './decode-request.ts'
import { encodeAnswer } from './encode-answer.ts'
import { encodeStream } from './encode-stream.ts'

const contextFor = (more: JsonObject = {}): AnswerContext => {
  const body = { model: 'm', prompt: 'One, two,', ...more }
  const request = decodeRequest(body)
  assert.ok(request.ok)
  return answerContext({ request: request.value, body, created: 7, requestId: 'req_x' })
}

const text = (...words: readonly string[]): ChatEvent[] => [
  { type: 'open', block: { type: 'text' } },
  ...words.map((word): ChatEvent => ({ type: 'delta', text: word })),
  { type: 'close' },
]
const thought: ChatEvent[] = [
  { type: 'open', block: { type: 'reasoning' } },
  { type: 'delta', text: 'They count.' },
  { type: 'close' },
]
const usage: ChatEvent = { type: 'usage', usage: { input: 3, output: 5, reasoning: 2 } }
const end = (kind: 'stop' | 'length' | 'refusal' | 'content-filter' | 'tool-calls' = 'stop'): ChatEvent => ({
  type: 'finish',
  finish: { kind, raw: null },
})
const start: ChatEvent = { type: 'start', id: 'cmpl-1', model: 'real', created: 9 }
const scored = (token: string, logprob: number): ChatEvent => ({
  type: 'delta',
  text: token,
  logprobs: [{ token, logprob, bytes: null, top_logprobs: [{ token: ' x', logprob: -3, bytes: null }] }],
})

const cases: readonly (readonly [
  string,
  JsonObject,
  readonly ChatEvent[],
  { text: string; reason: string; logprobs?: object },
])[] = [
  ['text', {}, [start, ...text(' three', ', four'), usage, end()], { text: ' three, four', reason: 'stop' }],
  ['the output limit', {}, [start, ...text(' three'), end('length')], { text: ' three', reason: 'length' }],
  ['reasoning is omitted', {}, [start, ...thought, ...text(' three'), end()], { text: ' three', reason: 'stop' }],
  [
    'echo: the prompt precedes the text',
    { echo: true },
    [start, ...text(' three'), end()],
    { text: 'One, two, three', reason: 'stop' },
  ],
  [
    'echo: the prompt without text',
    { echo: true, prompt: ['A'] },
    [start, end('length')],
    { text: 'A', reason: 'length' },
  ],
  [
    'a refusal',
    {},
    [
      start,
      { type: 'open', block: { type: 'refusal' } },
      { type: 'delta', text: 'I will not.' },
      { type: 'close' },
      end('refusal'),
    ],
    { text: 'I will not.', reason: 'content_filter' },
  ],
  ['a filtered answer', {}, [start, end('content-filter')], { text: '', reason: 'content_filter' }],
  [
    'log probabilities',
    { logprobs: 1 },
    [
      start,
      { type: 'open', block: { type: 'text' } },
      scored(' three', -0.5),
      scored('!', -1),
      { type: 'close' },
      end(),
    ],
    {
      text: ' three!',
      reason: 'stop',
      logprobs: {
        tokens: [' three', '!'],
        token_logprobs: [-0.5, -1],
        top_logprobs: [{ ' x': -3 }, { ' x': -3 }],
        text_offset: [0, 6],
      },
    },
  ],
]

/** The answer that a client collects from a stream, in the form of a complete answer. */
const collect = (frames: readonly string[]) => {
  const chunks = frames.filter((frame) => frame !== 'data: [DONE]\n\n').map((frame) => JSON.parse(frame.slice(6)))
  const choices = chunks.flatMap((chunk) => chunk.choices)
  const logprobs = choices.map(({ logprobs }) => logprobs).filter((one) => one !== null)
  const column = (name: string) => logprobs.flatMap((one) => one[name])
  return {
    ids: new Set(chunks.map(({ id, object, model, created }) => JSON.stringify({ id, object, model, created }))),
    text: choices.map((choice) => choice.text).join(''),
    reason: choices.map((choice) => choice.finish_reason).filter((reason) => reason !== null),
    logprobs:
      logprobs.length === 0
        ? null
        : Object.fromEntries(
            ['tokens', 'token_logprobs', 'top_logprobs', 'text_offset'].map((one) => [one, column(one)]),
          ),
    usage: chunks.at(-1)?.usage ?? null,
  }
}

for (const [name, parameters, events, expected] of cases)
  test(`completions answer: ${name}, complete and streamed`, () => {
    const whole = encodeAnswer(fold(events), contextFor(parameters))
    assert.deepEqual(whole, {
      id: 'cmpl-1',
      object: 'text_completion',
      created: 9,
      model: 'real',
      choices: [{ text: expected.text, index: 0, logprobs: expected.logprobs ?? null, finish_reason: expected.reason }],
      ...(events.includes(usage) && { usage: whole.usage }),
    })
    const context = contextFor({ ...parameters, stream: true, stream_options: { include_usage: true } })
    const frames = run(
      encodeStream(context),
      events.map((event) => ({ events: [event] })),
    )
    assert.equal(frames.at(-1), 'data: [DONE]\n\n')
    const collected = collect(frames)
    assert.equal(collected.ids.size, 1)
    assert.deepEqual(
      { text: collected.text, reason: collected.reason, logprobs: collected.logprobs },
      { text: expected.text, reason: [expected.reason], logprobs: expected.logprobs ?? null },
    )
    if (events.includes(usage))
      assert.deepEqual(
        [collected.usage.prompt_tokens, collected.usage.completion_tokens, collected.usage.total_tokens],
        [3, 5, 8],
      )
  })

test('completions stream: sends usage only if requested', () => {
  const frames = run(encodeStream(contextFor({ stream: true })), [{ events: [start, ...text('x'), usage, end()] }])
  assert.ok(frames.every((frame) => !frame.includes('usage')))
  assert.equal(frames.length, 3)
})

test('completions stream: sends no end for an answer without an end', () => {
  const frames = run(encodeStream(contextFor({ stream: true })), [{ events: [start, ...text('x')] }])
  assert.ok(!frames.includes('data: [DONE]\n\n'))
})

for (const [name, before, code] of [
  ['before any text', [start], 'status'],
  ['in the middle', [start, ...text('x')], 'stream_interrupted'],
] as const)
  test(`completions stream: a failure ${name}`, () => {
    const failure = fail('status', 'it broke')
    const steps = [{ events: [...before, { type: 'failure', failure } as const] }, { events: [end()] }]
    const frames = run(encodeStream(contextFor({ stream: true, echo: true })), steps)
    assert.deepEqual(JSON.parse(frames.at(-1)?.slice(6) ?? '').error.code, code)
    assert.ok(!frames.includes('data: [DONE]\n\n'))
  })
