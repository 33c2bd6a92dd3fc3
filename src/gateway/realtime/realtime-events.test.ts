import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RealtimeEvents, type StatedUsage } from './realtime-events.ts'

/** What is read of these messages. */
const read = (messages: readonly object[], cut = (text: Uint8Array): readonly Uint8Array[] => [text]) => {
  const found: (string | readonly [StatedUsage, string | null])[] = []
  const events = new RealtimeEvents({
    onBegun: () => void found.push('begun'),
    onUsage: (usage, model) => void found.push([usage === 'unknown' || usage === 'none' ? usage : plain(usage), model]),
  })
  for (const message of messages) {
    const parts = cut(Buffer.from(JSON.stringify(message)))
    for (const [at, part] of parts.entries()) events.part(part, at === parts.length - 1)
  }
  return found
}

const plain = ({ raw: _, ...usage }: Exclude<StatedUsage, string>) => usage

const cuts = [
  undefined,
  (all: Uint8Array) => [...all].map((byte) => Uint8Array.of(byte)),
  (all: Uint8Array) => [all.subarray(0, 9), all.subarray(9, 250), all.subarray(250)],
]

const USAGE = {
  total_tokens: 253,
  input_tokens: 132,
  output_tokens: 121,
  input_token_details: {
    text_tokens: 119,
    audio_tokens: 13,
    cached_tokens: 64,
    cached_tokens_details: { text_tokens: 60, audio_tokens: 4 },
  },
  output_token_details: { text_tokens: 30, audio_tokens: 91 },
}
const COUNTED = { input: 132, output: 121, cacheRead: 64, audioInput: 9, audioOutput: 91 }
const output = [{ type: 'message', content: [{ type: 'audio', transcript: 'response.done '.repeat(40) }] }]

const cases = [
  ['a response', [{ type: 'response.created', event_id: 'e', response: {} }], ['begun']],
  ['its usage', [{ type: 'response.done', response: { usage: USAGE, output } }], [[COUNTED, null]]],
  ['an ID first', [{ event_id: 'event_1', type: 'response.done', response: { usage: USAGE } }], [[COUNTED, null]]],
  ['the type last', [{ response: { usage: USAGE, output }, type: 'response.done' }], [[COUNTED, null]]],
  ['without usage', [{ type: 'response.done', response: { status: 'cancelled', usage: null } }], [['unknown', null]]],
  ['a failure', [{ type: 'response.done', response: { status: 'failed', usage: null } }], [['none', null]]],
  [
    'a failure with usage',
    [{ type: 'response.done', response: { status: 'failed', usage: USAGE } }],
    [[COUNTED, null]],
  ],
  [
    'a transcription, by the model of the session',
    [
      { type: 'session.updated', session: { audio: { input: { transcription: { model: 'gpt-4o-transcribe' } } } } },
      {
        type: 'conversation.item.input_audio_transcription.completed',
        usage: { type: 'tokens', input_tokens: 13, output_tokens: 9, input_token_details: { audio_tokens: 13 } },
      },
    ],
    [[{ input: 13, output: 9, audioInput: 13 }, 'gpt-4o-transcribe']],
  ],
  [
    'a transcription by seconds, in a session of the beta',
    [
      { type: 'session.created', session: { input_audio_transcription: { model: 'whisper-1' } } },
      { type: 'conversation.item.input_audio_transcription.completed', usage: { type: 'duration', seconds: 1.5 } },
    ],
    [[{ input: 15, audioInput: 15, output: 0, units: { unit: 'seconds', count: 1.5 } }, 'whisper-1']],
  ],
  [
    'of vLLM',
    [{ type: 'transcription.done', text: 'x', usage: { prompt_tokens: 7, completion_tokens: 3 } }],
    [[{ input: 7, output: 3 }, null]],
  ],
  [
    'others that name it',
    [
      { type: 'response.output_text.delta', delta: '"response.done"' },
      { delta: '"response.done"', type: 'x' },
      { type: 'error' },
    ],
    [],
  ],
] as const

for (const [name, messages, expected] of cases)
  test(`realtime events: ${name}`, () => {
    for (const cut of cuts) assert.deepEqual(read(messages, cut), expected)
  })

test('realtime events: what is not JSON, or no object, is ignored', () => {
  for (const text of [
    '',
    '{',
    '"response.done"',
    '[1]',
    '{"type":"response.done"',
    'null',
    '{"type":"response.created"}x',
  ])
    assert.deepEqual(
      read([], () => [Buffer.from(text)]),
      [],
    )
})
