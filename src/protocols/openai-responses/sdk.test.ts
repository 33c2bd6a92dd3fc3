/** Checks streams with the official SDK's accumulator, which throws on wrong order, changing ids and items without an end. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import OpenAI from 'openai'
import { answerContext } from '../../../test/support/builders.ts'
import { type ChatEvent, fold } from '../../core/chat.ts'
import { fail } from '../../core/failure.ts'
import type { AnswerContext, StreamWriter } from '../../core/protocol.ts'
import { openaiResponses as codec } from './index.ts'

const context = (): AnswerContext => {
  let made = 0
  return answerContext({
    body: { model: 'm', input: 'hi', stream: true },
    id: (prefix) => `${prefix}_${'abcdefghijklmnop'.charAt(made++)}`,
    created: 1_000,
    model: 'answering',
  })
}

/** A client that receives this text in slices of `slice` characters. */
const clientOf = (wire: string, slice: number, type = 'text/event-stream') =>
  new OpenAI({
    apiKey: 'none',
    baseURL: 'http://127.0.0.1:9/v1',
    maxRetries: 0,
    fetch: async () => {
      const bytes = new TextEncoder().encode(wire)
      const body = new ReadableStream({
        start(controller) {
          for (let at = 0; at < bytes.length; at += slice) controller.enqueue(bytes.slice(at, at + slice))
          controller.close()
        },
      })
      return new Response(body, { headers: { 'content-type': type } })
    },
  })

const block = (kind: 'text' | 'refusal', ...words: string[]): ChatEvent[] => [
  { type: 'open', block: { type: kind } },
  ...words.map((text): ChatEvent => ({ type: 'delta', text })),
  { type: 'close' },
]
const thoughts = (summary: boolean, ...words: string[]): ChatEvent[] => [
  { type: 'open', block: { type: 'reasoning', summary } },
  ...words.map((text): ChatEvent => ({ type: 'delta', text })),
  { type: 'signature', signature: { origin: 'anthropic-messages', value: 'SIG' } },
  { type: 'close' },
]
const call = (id: string, ...words: string[]): ChatEvent[] => [
  { type: 'open', block: { type: 'tool-call', id, name: 'look' } },
  ...words.map((text): ChatEvent => ({ type: 'delta', text })),
  { type: 'close' },
]
const ended = (kind: 'stop' | 'tool-calls' | 'length'): ChatEvent[] => [
  { type: 'usage', usage: { input: 3, output: 4 } },
  { type: 'finish', finish: { kind, raw: kind } },
]

const write = (writer: StreamWriter, events: readonly ChatEvent[]): string =>
  [
    ...events.flatMap((event) => {
      const texts = writer.push({ events: [event] })
      return event.type === 'close' ? [...texts, writer.keepAlive()] : texts
    }),
    ...writer.end(),
  ].join('')

const answers: readonly (readonly [string, readonly ChatEvent[]])[] = [
  ['text', [...block('text', 'Hel', 'lo'), ...ended('stop')]],
  ['two parts of text', [...block('text', 'a'), ...block('text', 'b'), ...ended('stop')]],
  ['an empty text', [...block('text'), ...ended('stop')]],
  ['a refusal', [...block('refusal', 'I ', 'cannot'), ...ended('stop')]],
  ['a summary and text', [...thoughts(true, 'hm', '…'), ...block('text', 'So'), ...ended('stop')]],
  [
    'reasoning, text and two calls',
    [
      ...thoughts(false, 'hm'),
      ...block('text', 'So'),
      ...call('call_1', '{"a"', ':1}'),
      ...call('call_2'),
      ...ended('tool-calls'),
    ],
  ],
  ['encrypted reasoning only', [...thoughts(true), ...call('call_1', '{}'), ...ended('tool-calls')]],
  [
    'a citation',
    [
      { type: 'open', block: { type: 'text' } },
      { type: 'delta', text: 'x' },
      { type: 'citation', citation: { url: 'https://a.example' } },
      { type: 'close' },
      ...ended('stop'),
    ],
  ],
  ['an incomplete answer', [...block('text', 'Hel'), ...ended('length')]],
  ['an empty answer', ended('stop')],
]

for (const [name, events] of answers)
  for (const slice of [1, 50, 100_000])
    test(`openai sdk: ${name}, ${slice} bytes at a time`, async () => {
      const all: ChatEvent[] = [{ type: 'start', id: 'x', model: 'gpt' }, ...events]
      const wire = write(codec.encodeStream(context()), all)
      const stream = clientOf(wire, slice).responses.stream({ model: 'm', input: 'hi' })
      const final = await stream.finalResponse()
      const whole = codec.encodeAnswer(fold(all), context())
      const { output_text, output_parsed: _, ...rest } = JSON.parse(JSON.stringify(final))
      const plain = JSON.parse(
        JSON.stringify(rest, (key, value) => (key === 'parsed' || key === 'parsed_arguments' ? undefined : value)),
      )
      // Keep-alives use no ids, so both come from one writer.
      assert.deepEqual(plain, whole)
      const words = fold(all).blocks.flatMap((one) => (one.type === 'text' ? [one.text] : []))
      assert.equal(output_text, words.join(''))
    })

test('openai sdk: a complete answer', async () => {
  const whole = codec.encodeAnswer(
    fold([...block('text', 'Hello'), ...call('call_1', '{}'), ...ended('stop')]),
    context(),
  )
  const response = await clientOf(JSON.stringify(whole), 100, 'application/json').responses.create({
    model: 'm',
    input: 'hi',
  })
  assert.equal(response.output_text, 'Hello')
  assert.equal(response.usage?.total_tokens, 7)
})

test('openai sdk: a failure during the stream is thrown with its code', async () => {
  const wire = write(codec.encodeStream(context()), [
    { type: 'start' },
    ...block('text', 'Hel').slice(0, 2),
    { type: 'failure', failure: fail('reset', 'The connection broke.') },
  ])
  const stream = clientOf(wire, 100_000).responses.stream({ model: 'm', input: 'hi' })
  await assert.rejects(stream.finalResponse(), (error) => {
    assert.ok(error instanceof OpenAI.APIError)
    assert.deepEqual([error.code, error.type], ['stream_interrupted', 'upstream_error'])
    return true
  })
})
