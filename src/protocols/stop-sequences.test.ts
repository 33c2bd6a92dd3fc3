/** The stop sequence that chat servers say they matched, for messages clients. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answerContext } from '../../test/support/builders.ts'
import { fold } from '../core/chat.ts'
import type { JsonObject } from '../core/json.ts'
import { protocols, sharedProtocols } from './index.ts'

/** [server, members of the choice, `stop_reason` and `stop_sequence` of the client] */
const CASES: readonly (readonly [string, JsonObject, string, string | null])[] = [
  ['vLLM, a sequence', { finish_reason: 'stop', stop_reason: '</tool>' }, 'stop_sequence', '</tool>'],
  ['SGLang, a sequence', { finish_reason: 'stop', matched_stop: '\n\nHuman:' }, 'stop_sequence', '\n\nHuman:'],
  [
    'SGLang, a sequence that is a word of the format',
    { finish_reason: 'stop', matched_stop: 'stop' },
    'stop_sequence',
    'stop',
  ],
  ['vLLM, the end of the turn', { finish_reason: 'stop', stop_reason: null }, 'end_turn', null],
  ['vLLM, a token', { finish_reason: 'stop', stop_reason: 151_645 }, 'end_turn', null],
  ['SGLang, a token', { finish_reason: 'stop', matched_stop: 151_336 }, 'end_turn', null],
  ['a proxy with the reason of another format', { finish_reason: 'stop', stop_reason: 'end_turn' }, 'end_turn', null],
  ['the output limit', { finish_reason: 'length', stop_reason: null }, 'max_tokens', null],
]
for (const [server, members, reason, sequence] of CASES)
  test(`stop sequence: ${server}`, () => {
    const body = { id: 'c', choices: [{ index: 0, message: { role: 'assistant', content: 'ok' }, ...members }] }
    const answer = fold(sharedProtocols['openai-chat'].decodeAnswer(body))
    const { stop_reason, stop_sequence } = protocols['anthropic-messages'].encodeAnswer(answer, answerContext())
    assert.deepEqual([stop_reason, stop_sequence], [reason, sequence])

    const decoder = sharedProtocols['openai-chat'].decodeStream()
    const writer = protocols['anthropic-messages'].encodeStream(answerContext())
    const frames = [
      { id: 'c', choices: [{ index: 0, delta: { content: 'ok' }, finish_reason: null }] },
      { id: 'c', choices: [{ index: 0, delta: {}, ...members }] },
    ].map((chunk) => JSON.stringify(chunk))
    const events = [...frames, '[DONE]'].flatMap((data) => decoder.push({ data }))
    const wire = [...writer.push({ events }), ...writer.end()].join('')
    const [, delta = '{}'] = /"message_delta","delta":(\{[^}]*\})/.exec(wire) ?? []
    assert.deepEqual(JSON.parse(delta), { stop_reason: reason, stop_sequence: sequence })
  })
