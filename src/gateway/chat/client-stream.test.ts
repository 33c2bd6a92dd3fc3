import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answerContext } from '../../../test/support/builders.ts'
import { openaiChat } from '../../protocols/openai-chat/index.ts'
import { readerFor } from '../upstream/body-reader.ts'
import { wireOf } from './client-stream.ts'

const chunk = (content: string, more: object = {}) =>
  `data: ${JSON.stringify({ id: 'c', choices: [{ index: 0, delta: { content }, finish_reason: null }], ...more })}\n\n`
/** An event with its own usage is decoded individually, and ends the recognition of repeated events. */
const counted = chunk('three', { usage: { prompt_tokens: 1, completion_tokens: 2 } })
const known = chunk('one') + chunk('two ✓')

/** The writes to a client of the same format for the second read of a stream. */
const written = (read: string): readonly (string | Uint8Array)[] => {
  const headers = (name: string) => (name === 'content-type' ? 'text/event-stream' : undefined)
  const dialect = { protocol: openaiChat, quirks: undefined, translated: null, stream: true, date: 0 }
  const reader = readerFor({ status: 200, headers }, dialect)
  const writer = openaiChat.passing.passStream(answerContext())
  wireOf(writer, reader.push(Buffer.from(known)))
  return wireOf(writer, reader.push(Buffer.from(read)))
}

const reads: readonly (readonly [name: string, read: string, pieces: readonly ('text' | 'bytes')[]])[] = [
  ['one event', chunk('one'), ['bytes']],
  ['a few repeated events', known.repeat(5), ['bytes']],
  ['a few repeated events and another', known.repeat(5) + counted, ['text']],
  ['alternating events', (known + counted).repeat(100), ['text']],
  ['many repeated events between others', counted + known.repeat(100) + counted, ['text', 'bytes', 'text']],
]

for (const [name, read, pieces] of reads)
  test(`one upstream read results in few writes: ${name}`, () => {
    const wire = written(read)
    assert.equal(Buffer.concat(wire.map((piece) => Buffer.from(piece))).toString(), read)
    assert.deepEqual(
      wire.map((piece) => (typeof piece === 'string' ? 'text' : 'bytes')),
      pieces,
    )
  })
