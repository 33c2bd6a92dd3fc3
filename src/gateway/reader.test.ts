import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fold } from '../core/chat.ts'
import { run } from '../core/stage.ts'
import { openaiChat } from '../protocols/openai-chat/index.ts'
import { readerFor } from './reader.ts'

const whole = JSON.stringify({
  choices: [{ index: 0, message: { role: 'assistant', content: 'héllo' }, finish_reason: 'stop' }],
})
const chunk = (delta: object, reason: string | null = null) =>
  `data: ${JSON.stringify({ id: 'c', choices: [{ index: 0, delta, finish_reason: reason }] })}\n\n`
const stream = `${chunk({ role: 'assistant', content: 'hé' })}${chunk({ content: 'llo' }, 'stop')}data: [DONE]\n\n`
const page = '<!doctype html><title>Sign in to the network</title>'

/** What an upstream says under which type and status, and what it is taken for: the text, or the kind of the failure. */
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
  [
    'an answer behind blanks that keep the connection alive',
    200,
    'application/json',
    `\n \n${whole}`,
    'héllo',
    'héllo',
  ],
  ['a stream that calls itself JSON', 200, 'application/json', stream, 'héllo', 'malformed'],
  ['one that begins with a comment', 200, 'application/json', `: hi\n\n${stream}`, 'héllo', 'malformed'],
  ['a stream without a type', 200, '', stream, 'héllo', 'malformed'],
  ['an answer without a type', 200, '', whole, 'héllo', 'héllo'],
  ['blanks and nothing else', 200, 'application/json', ' \n', 'malformed', 'malformed'],
  ['half an answer', 200, 'application/json', whole.slice(0, 40), 'malformed', 'malformed'],
  ['a page', 200, 'text/html', page, 'not_json', 'not_json'],
  ['a page that calls itself JSON', 200, 'application/json', page, 'not_json', 'not_json'],
  ['a redirect', 302, 'text/html', '', 'redirect', 'redirect'],
  ['an error', 429, 'application/json', '{"error":{"message":"slow down"}}', 'rate_limited', 'rate_limited'],
  ['an error under the type of a stream', 503, 'text/event-stream', '{"error":{}}', 'overloaded', 'overloaded'],
]

const read = (status: number, type: string, pieces: readonly Uint8Array[], stream: boolean): string => {
  const headers = (name: string) => (name === 'content-type' && type !== '' ? type : undefined)
  const reader = readerFor(
    { status, headers },
    { protocol: openaiChat, quirks: undefined, translated: null, stream, date: 0 },
  )
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
