import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answering, numbered } from '../../../test/support/asked.ts'
import type { ChatEvent } from '../../core/chat.ts'
import { encodeStream } from './encode-stream.ts'

const said = (...texts: readonly string[]): readonly ChatEvent[] => texts.map((text) => ({ type: 'delta', text }))
const likely = (text: string): ChatEvent => ({ type: 'delta', text, logprobs: [{ token: text, logprob: -1 }] })
const tools = [{ type: 'function', name: 'f', parameters: {} }, { type: 'tool_search' }]

/** One of each block, and what else may come between two steps. */
const events: readonly ChatEvent[] = [
  { type: 'start', id: 'a', model: 'm' },
  { type: 'open', block: { type: 'reasoning', summary: true } },
  ...said('I', ' think', ''),
  { type: 'close' },
  { type: 'open', block: { type: 'reasoning' } },
  ...said('so', ' it', ' is'),
  { type: 'close' },
  { type: 'open', block: { type: 'text' } },
  ...said('It', ' is', '', ' "so"'),
  { type: 'citation', citation: { url: 'https://example.com/' } },
  ...said(' it', ' seems'),
  likely('.'),
  likely('.'),
  ...said(' And', ' so', ' on'),
  { type: 'usage', usage: { input: 1, output: 2 } },
  ...said('é', '😀'),
  { type: 'close' },
  { type: 'open', block: { type: 'text' } },
  ...said('Another', ' text'),
  { type: 'close' },
  { type: 'open', block: { type: 'refusal' } },
  ...said('No', ', no'),
  { type: 'close' },
  ...['f', 'tool_search'].flatMap((name): readonly ChatEvent[] => [
    { type: 'open', block: { type: 'tool-call', id: `call_${name}`, name } },
    ...said('{"a"', ':', '1}'),
    { type: 'close' },
  ]),
  { type: 'open', block: { type: 'tool-call', id: 'call_c', name: 'c', custom: true } },
  ...said('free', ' text'),
  { type: 'close' },
  ...said('of nothing', ' at all'),
  { type: 'finish', finish: { kind: 'stop', raw: 'stop' } },
]

const written = (stepsOf: (event: ChatEvent) => readonly ChatEvent[]): string => {
  const writer = encodeStream(answering({ body: { tools }, id: numbered() }))
  const out = events.flatMap((event, at) => {
    // A sign of life between any two.
    const between = at % 7 === 6 ? [writer.keepAlive()] : []
    return [...writer.push({ events: stepsOf(event) }), ...between]
  })
  return [...out, ...writer.end()].join('')
}

test('steps: one that goes on is written as any other', () => {
  // A step of two events is never taken for one that goes on.
  assert.equal(
    written((event) => [event]),
    written((event) => [event, { type: 'ping' }]),
  )
})
