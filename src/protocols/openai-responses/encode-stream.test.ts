import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answerContext, sequentialIds } from '../../../test/support/builders.ts'
import type { ChatEvent } from '../../core/chat.ts'
import { encodeStream } from './encode-stream.ts'

const deltas = (...texts: readonly string[]): readonly ChatEvent[] => texts.map((text) => ({ type: 'delta', text }))
const deltaWithLogprobs = (text: string): ChatEvent => ({
  type: 'delta',
  text,
  logprobs: [{ token: text, logprob: -1 }],
})
const tools = [{ type: 'function', name: 'f', parameters: {} }, { type: 'tool_search' }]

/** Every kind of block, with other events between deltas. */
const events: readonly ChatEvent[] = [
  { type: 'start', id: 'a', model: 'm' },
  { type: 'open', block: { type: 'reasoning', summary: true } },
  ...deltas('I', ' think', ''),
  { type: 'close' },
  { type: 'open', block: { type: 'reasoning' } },
  ...deltas('so', ' it', ' is'),
  { type: 'close' },
  { type: 'open', block: { type: 'text' } },
  ...deltas('It', ' is', '', ' "so"'),
  { type: 'citation', citation: { url: 'https://example.com/' } },
  ...deltas(' it', ' seems'),
  deltaWithLogprobs('.'),
  deltaWithLogprobs('.'),
  ...deltas(' And', ' so', ' on'),
  { type: 'usage', usage: { input: 1, output: 2 } },
  ...deltas('é', '😀'),
  { type: 'close' },
  { type: 'open', block: { type: 'text' } },
  ...deltas('Another', ' text'),
  { type: 'close' },
  { type: 'open', block: { type: 'refusal' } },
  ...deltas('No', ', no'),
  { type: 'close' },
  ...['f', 'tool_search'].flatMap((name): readonly ChatEvent[] => [
    { type: 'open', block: { type: 'tool-call', id: `call_${name}`, name } },
    ...deltas('{"a"', ':', '1}'),
    { type: 'close' },
  ]),
  { type: 'open', block: { type: 'tool-call', id: 'call_c', name: 'c', custom: true } },
  ...deltas('free', ' text'),
  { type: 'close' },
  ...deltas('of nothing', ' at all'),
  { type: 'finish', finish: { kind: 'stop', raw: 'stop' } },
]

const written = (stepsOf: (event: ChatEvent) => readonly ChatEvent[]): string => {
  const writer = encodeStream(answerContext({ body: { tools }, id: sequentialIds() }))
  const out = events.flatMap((event, at) => {
    // A keep-alive after every seventh event.
    const between = at % 7 === 6 ? [writer.keepAlive()] : []
    return [...writer.push({ events: stepsOf(event) }), ...between]
  })
  return [...out, ...writer.end()].join('')
}

test('responses writer: a delta written from the template equals one written in full', () => {
  // A step with two events never uses the template.
  assert.equal(
    written((event) => [event]),
    written((event) => [event, { type: 'ping' }]),
  )
})
