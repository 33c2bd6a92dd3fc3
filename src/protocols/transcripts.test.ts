/** Answers with a text and the transcript of audio, for clients of formats without audio. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answerContext } from '../../test/support/builders.ts'
import { fold } from '../core/chat.ts'
import type { JsonObject } from '../core/json.ts'
import { protocols, sharedProtocols } from './index.ts'

test('a transcript of the same words as the text is written once', () => {
  const audio = { id: 'audio_1', data: 'AAAA', transcript: 'Hello there.' }
  const body = (content: string | null) => ({
    id: 'c',
    choices: [{ index: 0, message: { role: 'assistant', content, audio }, finish_reason: 'stop' }],
  })
  for (const [content, texts] of [
    ['Hello there.', ['Hello there.']],
    ['Hello there.\n', ['Hello there.\n']],
    [null, ['Hello there.']],
    ['Another', ['Another', 'Hello there.']],
  ] as const) {
    const answer = fold(sharedProtocols['openai-chat'].decodeAnswer(body(content)))
    const { content: blocks } = protocols['anthropic-messages'].encodeAnswer(answer, answerContext())
    assert.deepEqual(
      (blocks as { text: string }[]).map(({ text }) => text),
      texts,
    )
    const chat = protocols['openai-chat'].encodeAnswer(answer, answerContext())
    assert.deepEqual((chat.choices as { message: { audio: unknown } }[])[0]?.message.audio, audio)
  }
})

// ── Streams ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const said = (transcript: string): JsonObject => ({ audio: { id: 'audio_1', data: 'AAAA', transcript } })

/** The deltas of a stream, and the texts that a client receives as one. */
const STREAMS: readonly (readonly [name: string, deltas: readonly JsonObject[], expected: string])[] = [
  ['in one delta', [{ content: 'Hello there.', ...said('Hello there.') }], 'Hello there.'],
  ['the text first', [{ content: 'Hello' }, { content: ' there.' }, said('Hel'), said('lo there.')], 'Hello there.'],
  [
    'side by side',
    [
      { content: 'Hello', ...said('Hel') },
      { content: ' there.', ...said('lo there.') },
    ],
    'Hello there.',
  ],
  ['the transcript first', [said('Hello'), said(' there.'), { content: 'Hello there.' }], 'Hello there.'],
  ['a transcript only', [said('Hello'), said(' there.')], 'Hello there.'],
  ['a text only', [{ content: 'Hello' }, { content: ' there.' }], 'Hello there.'],
  ['other words', [{ content: 'Another' }, said('Hello'), said(' there.')], 'AnotherHello there.'],
]
const chunks = (deltas: readonly JsonObject[]): readonly JsonObject[] => [
  ...deltas.map((delta) => ({ id: 'c', choices: [{ index: 0, delta, finish_reason: null }] })),
  { id: 'c', choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
]
/** The text of a stream, as clients of the format read it. */
const TEXT_IN = {
  'anthropic-messages': /"text_delta","text":("(?:[^"\\]|\\.)*")/g,
  'openai-responses': /"response\.output_text\.delta".*?"delta":("(?:[^"\\]|\\.)*")/g,
  'openai-completions': /"text":("(?:[^"\\]|\\.)*")/g,
}
for (const [format, pattern] of Object.entries(TEXT_IN))
  for (const [name, deltas, expected] of STREAMS)
    test(`transcript in a stream for ${format}: ${name}`, () => {
      const decoder = sharedProtocols['openai-chat'].decodeStream()
      const writer = protocols[format as keyof typeof TEXT_IN].encodeStream(answerContext())
      const frames = [...chunks(deltas).map((chunk) => JSON.stringify(chunk)), '[DONE]']
      const written = frames.flatMap((data) => [...writer.push({ events: decoder.push({ data }) })])
      const wire = [...written, ...writer.end()].join('')
      assert.equal([...wire.matchAll(pattern)].map(([, text = '""']) => JSON.parse(text)).join(''), expected, wire)
      if (format === 'openai-responses') {
        const [, completed = ''] = /event: response\.completed\ndata: (.*)/.exec(wire) ?? []
        const { output } = JSON.parse(completed).response
        const texts = output.flatMap(({ content = [] }: { content: { text: string }[] }) => content)
        assert.equal(texts.map(({ text }: { text: string }) => text).join(''), expected)
      }
    })
