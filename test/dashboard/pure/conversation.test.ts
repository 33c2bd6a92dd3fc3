/** Kept bodies as conversations, on the project's exchanges of every format: texts, reasoning and calls are those of the reading. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  type ReadBodies,
  readAnswer,
  readRequest,
  resultsOf,
  type Turn,
  type TurnPart,
} from '../../../dashboard/src/conversation.ts'
import { exchanges } from '../../support/exchanges.ts'

const body = (text: string, truncated = false) => ({ text, truncated })
const turnsOf = (read: ReadBodies): readonly Turn[] => {
  assert.ok('turns' in read, JSON.stringify(read))
  return read.turns
}
const partsOf = (turns: readonly Turn[]): readonly TurnPart[] => turns.flatMap(({ parts }) => parts)
const textsOf = (parts: readonly TurnPart[], kind: 'text' | 'reasoning'): string =>
  parts.flatMap((part) => (part.kind === kind ? [part.text] : [])).join('')

const FORMATS = ['openai-chat', 'openai-responses', 'anthropic-messages', 'gemini']

describe('answers of exchanges', () => {
  for (const { protocol, feature, whole, stream, reading } of exchanges()) {
    if (!FORMATS.includes(protocol) || reading.failure || reading.logprobs) continue
    const forms = [
      ['whole', whole && JSON.stringify(whole.body)],
      ['stream', stream?.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('')],
    ] as const
    for (const [form, text] of forms)
      test(`${protocol} ${feature}, ${form}`, { skip: text === undefined }, () => {
        const read = readAnswer(body(text ?? ''))
        const parts = 'turns' in read ? partsOf(read.turns) : []
        assert.equal(textsOf(parts, 'text'), `${reading.text ?? ''}${reading.refusal ?? ''}`)
        assert.equal(textsOf(parts, 'reasoning'), reading.reasoning ?? '')
        const calls = parts.flatMap((part) => (part.kind === 'call' ? [[part.name, JSON.parse(part.json)]] : []))
        assert.deepEqual(
          calls,
          (reading.calls ?? []).map(({ name, input }) => [name, input]),
        )
      })
  }
})

describe('requests of exchanges', () => {
  for (const { protocol, feature, request } of exchanges()) {
    if (!FORMATS.includes(protocol)) continue
    test(`${protocol} ${feature}`, () => {
      const turns = turnsOf(readRequest(body(JSON.stringify(request))))
      const parts = partsOf(turns)
      assert.deepEqual(
        parts.filter(({ kind }) => kind === 'other'),
        [],
      )
      assert.ok(parts.some(({ kind }) => kind === 'text'))
      if (feature.startsWith('tool-result')) {
        // Each result is beside its call.
        const results = parts.filter(({ kind }) => kind === 'result')
        assert.ok(results.length > 0)
        assert.equal(resultsOf(turns).size, results.length)
      }
      if (feature === 'image') assert.ok(parts.some(({ kind }) => kind === 'media'))
    })
  }
})

test('a medium has its type and size, as the gateway has written it', () => {
  const mark = '[image/png, 48213 bytes, sha256 0123]'
  const cases: readonly unknown[] = [
    { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: mark } }] }] },
    {
      messages: [
        { role: 'user', content: [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: mark } }] },
      ],
    },
    { input: [{ role: 'user', content: [{ type: 'input_image', image_url: mark }] }] },
    { contents: [{ role: 'user', parts: [{ inlineData: { mimeType: 'image/png', data: mark } }] }] },
  ]
  for (const one of cases)
    assert.deepEqual(partsOf(turnsOf(readRequest(body(JSON.stringify(one))))), [
      { kind: 'media', about: 'image/png, 48213 bytes' },
    ])
  const file = { input: [{ role: 'user', content: [{ type: 'input_file', filename: 'a.pdf', file_data: mark }] }] }
  assert.deepEqual(partsOf(turnsOf(readRequest(body(JSON.stringify(file))))), [
    { kind: 'media', about: 'a.pdf: image/png, 48213 bytes' },
  ])
})

test('inputs of embeddings are texts', () => {
  for (const [input, texts] of [
    ['one', ['one']],
    [
      ['one', 'two'],
      ['one', 'two'],
    ],
  ] as const)
    assert.deepEqual(
      turnsOf(readRequest(body(JSON.stringify({ input })))).map(({ parts }) =>
        parts.map((part) => 'text' in part && part.text),
      ),
      texts.map((text) => [text]),
    )
})

test('a body that is no conversation has a reason', () => {
  assert.deepEqual(readRequest(body('{"messages":[{"ro', true)), { problem: 'truncated' })
  assert.deepEqual(readRequest(body('hello')), { problem: 'not_json' })
  assert.deepEqual(readRequest({ text: null, truncated: false }), { problem: 'not_json' })
  assert.deepEqual(readRequest(body('{"documents":["a"]}')), { problem: 'unknown_shape' })
  assert.deepEqual(readAnswer(body('{"error":{"message":"no"}}')), { problem: 'unknown_shape' })
  for (const odd of [
    'null',
    '[]',
    '{"messages":null}',
    '{"messages":[null,1,{"content":{"a":1}}]}',
    '{"choices":[{}]}',
    '{"contents":[{"parts":7}]}',
  ])
    for (const read of [readRequest, readAnswer]) assert.ok(Object.keys(read(body(odd))).length === 1, odd)
})

test('a stream that broke off has what was received', () => {
  const events = [
    { type: 'response.created', response: { output: [] } },
    { type: 'response.output_text.delta', output_index: 0, delta: 'It begins ' },
    { type: 'response.output_text.delta', output_index: 0, delta: 'well' },
  ]
  const text = `${events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('')}data: {"type":"resp`
  assert.equal(textsOf(partsOf(turnsOf(readAnswer(body(text, true)))), 'text'), 'It begins well')
})
