import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answerContext } from '../../../test/support/builders.ts'
import type { Json, JsonObject } from '../../core/json.ts'
import { openaiChat } from './index.ts'
import { withBothNames } from './reasoning-aliases.ts'

/** Reasoning as servers of chat completions write it, and the `reasoning_content` that clients receive. */
const MESSAGES: readonly (readonly [string, JsonObject, string | undefined])[] = [
  // openrouter-chat-test-openrouter-web-search: gpt-5.2 writes no `reasoning`.
  [
    'a summary of OpenRouter',
    {
      reasoning_details: [
        { type: 'reasoning.summary', summary: '**Checking**', format: 'openai-responses-v1', index: 0 },
        { type: 'reasoning.encrypted', data: 'gAAAA', format: 'openai-responses-v1', index: 0, id: 'rs_1' },
      ],
    },
    '**Checking**',
  ],
  // Snowflake Cortex: the text and the signature of Claude.
  [
    'a text of Snowflake',
    { reasoning_details: [{ type: 'reasoning.text', text: 'Let me see.', signature: 'EqoB' }] },
    'Let me see.',
  ],
  [
    'two blocks',
    {
      reasoning_details: [
        { type: 'reasoning.text', text: 'One.', index: 0, signature: 'A' },
        { type: 'reasoning.text', text: 'Two.', index: 1, signature: 'B' },
      ],
    },
    'One.\n\nTwo.',
  ],
  [
    'an empty reasoning beside details',
    { reasoning: '', reasoning_details: [{ type: 'reasoning.text', text: 'x' }] },
    'x',
  ],
  [
    'a null reasoning_content',
    { reasoning_content: null, reasoning_details: [{ type: 'reasoning.text', text: 'x' }] },
    'x',
  ],
  ['both members', { reasoning: 'r', reasoning_details: [{ type: 'reasoning.text', text: 'r' }] }, 'r'],
  ['encrypted details only', { reasoning_details: [{ type: 'reasoning.encrypted', data: 'gAAAA' }] }, undefined],
  ['details of an unknown kind', { reasoning_details: [{ type: 'reasoning.other', text: 'x' }, 7] }, undefined],
  ['its own member', { reasoning_content: 'own', reasoning_details: [{ type: 'reasoning.text', text: 'x' }] }, 'own'],
]
for (const [name, members, expected] of MESSAGES)
  for (const place of ['message', 'delta'])
    test(`reasoning_content is written from ${name}, in a ${place}`, () => {
      const message: JsonObject = { role: 'assistant', content: 'Hi "reasoning"', ...members }
      const body = { id: 'c', choices: [{ index: 0, [place]: message }] }
      const source = JSON.stringify(body)
      const adapted = JSON.parse(withBothNames(source)) as { choices: { [place: string]: JsonObject }[] }
      const written = adapted.choices[0]?.[place]
      assert.equal(written?.reasoning_content ?? undefined, expected)
      const { reasoning_content: _, ...rest } = written ?? {}
      const { reasoning_content: __, ...before } = message
      assert.deepEqual(rest, before, 'all other members stay')
      if (place === 'message')
        assert.deepEqual(JSON.parse(openaiChat.passing.passAnswer?.(source, answerContext()) ?? ''), adapted)
    })

test('a chunk without reasoning is not parsed', () => {
  const source = '{"choices":[{"delta":{"content":"x"}}]  }'
  assert.equal(withBothNames(source), source)
})

test('a stream of details has reasoning_content in each delta', () => {
  const chunk = (delta: Json) => JSON.stringify({ id: 'c', choices: [{ index: 0, delta, finish_reason: null }] })
  const writer = openaiChat.passing.passStream(answerContext())
  const decoder = openaiChat.decodeStream()
  const wire = [
    chunk({ reasoning_details: [{ type: 'reasoning.summary', summary: 'One ', index: 0 }] }),
    chunk({ reasoning_details: [{ type: 'reasoning.summary', summary: 'two', index: 0 }] }),
    chunk({ content: 'Hi' }),
  ]
    .flatMap((data) => {
      const frame = { data, raw: `data: ${data}\n\n` }
      return writer.push({ frame, events: decoder.push(frame) })
    })
    .join('')
  assert.deepEqual(
    [...wire.matchAll(/"reasoning_content":"([^"]*)"/g)].map(([, value]) => value),
    ['One ', 'two'],
  )
})
