import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ChatEvent, fold } from '../../core/chat.ts'
import { run } from '../../core/stage.ts'
import { sseFrames } from '../framing/sse.ts'
import { decodeStream } from './decode-stream.ts'

const chunk = (delta: object, finish_reason: string | null = null, more: object = {}) =>
  `data: ${JSON.stringify({ id: 'c', model: 'm', choices: [{ index: 0, delta, finish_reason }], ...more })}\n\n`
const usage = `data: ${JSON.stringify({ choices: [], usage: { prompt_tokens: 7, completion_tokens: 2, total_tokens: 9 } })}\n\n`
const call = (fn: object) => chunk({ tool_calls: [{ index: 0, ...fn }] })
const DONE = 'data: [DONE]\n\n'

const read = (wire: string): readonly ChatEvent[] => {
  const decoder = decodeStream()
  return [...run(sseFrames(), [wire]).flatMap((frame) => decoder.push(frame)), ...decoder.end()]
}

/** The blocks of an answer and its end. */
const summarize = (wire: string): string => {
  const { blocks, finish, failure } = fold(read(wire))
  return [
    ...blocks.map(({ type, text }) => `${type}(${text})`),
    failure?.kind ?? `${finish?.kind} ${finish?.raw}`,
  ].join(' ')
}

const cases: readonly (readonly [name: string, wire: string, expected: string])[] = [
  [
    'stop in each chunk',
    chunk({ content: 'a' }, 'stop') + chunk({ content: 'b' }, 'stop') + DONE,
    'text(ab) stop stop',
  ],
  [
    'stop in each chunk, without [DONE]',
    chunk({ content: 'a' }, 'stop') + chunk({ content: 'b' }, 'stop'),
    'text(ab) stop stop',
  ],
  [
    'stop before the content',
    chunk({ content: '' }, 'stop') + chunk({ content: 'b' }) + chunk({}, 'length'),
    'text(b) length length',
  ],
  ['stop with the last content, then usage', chunk({ content: 'a' }, 'stop') + usage, 'text(a) stop stop'],
  [
    'stop in a chunk after which the answer is cut',
    chunk({ content: 'a' }, 'stop') + chunk({ content: 'b' }),
    'text(ab) truncated',
  ],
  ['an empty answer', chunk({ content: '' }, 'stop') + DONE, 'stop stop'],
  [
    'content after the end',
    chunk({ content: 'a' }) + chunk({}, 'stop') + chunk({ content: 'b' }) + DONE,
    'text(a) stop stop',
  ],
  ['[DONE] without a reason', chunk({ content: 'a' }) + DONE, 'text(a) stop null'],
  [
    '[DONE] without a reason, within a call',
    call({ id: 'c1', function: { name: 'f', arguments: '{"path":"/et' } }) + DONE,
    'tool-call({"path":"/et) truncated',
  ],
  [
    '[DONE] without a reason, after a call',
    call({ id: 'c1', function: { name: 'f', arguments: '{"a":1}' } }) + DONE,
    'tool-call({"a":1}) tool-calls null',
  ],
  [
    '[DONE] without a reason, after a call without arguments',
    call({ id: 'c1', function: { name: 'f', arguments: '' } }) + DONE,
    'tool-call() tool-calls null',
  ],
]
for (const [name, wire, expected] of cases) test(`chat stream: ${name}`, () => assert.equal(summarize(wire), expected))
