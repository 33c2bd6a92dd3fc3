import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answering } from '../../../test/support/asked.ts'
import { openaiChat } from '../../protocols/openai-chat/index.ts'
import { readerFor } from '../upstream/answer-reader.ts'
import { wireOf } from './client-stream.ts'

const chunk = (content: string, more: object = {}) =>
  `data: ${JSON.stringify({ id: 'c', choices: [{ index: 0, delta: { content }, finish_reason: null }], ...more })}\n\n`
/** Events of which each has a count of its own are read one by one, and behind each the next has to be learnt anew. */
const counted = chunk('three', { usage: { prompt_tokens: 1, completion_tokens: 2 } })
const known = chunk('one') + chunk('two ✓')

/** What a client of the same format is written of a stream's second read. */
const written = (read: string): readonly (string | Uint8Array)[] => {
  const headers = (name: string) => (name === 'content-type' ? 'text/event-stream' : undefined)
  const dialect = { protocol: openaiChat, quirks: undefined, translated: null, stream: true, date: 0 }
  const reader = readerFor({ status: 200, headers }, dialect)
  const writer = openaiChat.passing.passStream(answering())
  wireOf(writer, reader.push(Buffer.from(known)))
  return wireOf(writer, reader.push(Buffer.from(read)))
}

const reads: readonly (readonly [name: string, read: string, pieces: readonly ('text' | 'bytes')[]])[] = [
  ['one event', chunk('one'), ['bytes']],
  ['a few alike', known.repeat(5), ['bytes']],
  ['a few alike and another', known.repeat(5) + counted, ['text']],
  ['now and then another', (known + counted).repeat(100), ['text']],
  ['many alike between others', counted + known.repeat(100) + counted, ['text', 'bytes', 'text']],
]

for (const [name, read, pieces] of reads)
  test(`what one read brings leaves in few writes: ${name}`, () => {
    const wire = written(read)
    assert.equal(Buffer.concat(wire.map((piece) => Buffer.from(piece))).toString(), read)
    assert.deepEqual(
      wire.map((piece) => (typeof piece === 'string' ? 'text' : 'bytes')),
      pieces,
    )
  })
