/** What an upstream reports of its usage is not trusted: what cannot be right is unknown, which is estimated and never free. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ChatEvent, fold, type Usage } from '../../src/core/chat.ts'
import type { Json, JsonObject } from '../../src/core/json.ts'
import { MAX_COST } from '../../src/core/money.ts'
import { type ChargedEnd, chargedUsage } from '../../src/policy/accounts/charge.ts'
import { costOf } from '../../src/policy/accounts/cost.ts'
import { decodeAnswer as ofMessages } from '../../src/protocols/anthropic-messages/decode-answer.ts'
import { decodeAnswer as ofConverse } from '../../src/protocols/bedrock-converse/decode-answer.ts'
import { decodeAnswer as ofCohere } from '../../src/protocols/cohere/decode-answer.ts'
import { decodeAnswer as ofGemini } from '../../src/protocols/gemini/decode-answer.ts'
import { decodeAnswer as ofOllama } from '../../src/protocols/ollama/decode-answer.ts'
import { decodeAnswer as ofChat } from '../../src/protocols/openai-chat/decode-answer.ts'
import { decodeAnswer as ofResponses } from '../../src/protocols/openai-responses/decode-answer.ts'
import { LISTED } from '../../src/usage/columns/usage-schema.ts'
import { decodeLine, RecordEncoder } from '../../src/usage/journal/journal-record.ts'
import { closedRecord, endedRecord, openedRecord } from '../support/ledger-records.ts'

const TEXT = 'word '.repeat(500)
const ESTIMATE = { input: 70, output: 600 }

const content = [{ type: 'text', text: TEXT }]
const formats: readonly (readonly [
  name: string,
  decode: (usage: JsonObject) => readonly ChatEvent[],
  input: string,
  output: string,
])[] = [
  [
    'chat',
    (usage) => ofChat({ choices: [{ message: { content: TEXT }, finish_reason: 'stop' }], usage }),
    'prompt_tokens',
    'completion_tokens',
  ],
  [
    'responses',
    (usage) =>
      ofResponses({
        status: 'completed',
        output: [{ type: 'message', role: 'assistant', content: [{ type: 'output_text', text: TEXT }] }],
        usage,
      }),
    'input_tokens',
    'output_tokens',
  ],
  [
    'messages',
    (usage) => ofMessages({ type: 'message', role: 'assistant', content, stop_reason: 'end_turn', usage }),
    'input_tokens',
    'output_tokens',
  ],
  [
    'gemini',
    (usageMetadata) =>
      ofGemini({ candidates: [{ content: { parts: [{ text: TEXT }] }, finishReason: 'STOP' }], usageMetadata }),
    'promptTokenCount',
    'candidatesTokenCount',
  ],
  [
    'converse',
    (usage) => ofConverse({ output: { message: { content: [{ text: TEXT }] } }, stopReason: 'end_turn', usage }),
    'inputTokens',
    'outputTokens',
  ],
  [
    'cohere',
    (tokens) => ofCohere({ message: { content }, finish_reason: 'COMPLETE', usage: { tokens } }),
    'input_tokens',
    'output_tokens',
  ],
  [
    'ollama',
    (usage) => ofOllama({ message: { role: 'assistant', content: TEXT }, done: true, done_reason: 'stop', ...usage }),
    'prompt_eval_count',
    'eval_count',
  ],
]

const ABSURD: readonly (Json | undefined)[] = [
  ...[undefined, null, -5, -1, '500', '', 1e308, 1e15, 2 ** 32 - 5, 2 ** 53, 0.5, true, [], {}, [500], { count: 500 }],
]

const chargedFor = (usage: Usage | undefined, end: ChargedEnd = 'answered') =>
  chargedUsage(end, {
    reported: usage,
    estimatedInput: () => ESTIMATE.input,
    estimatedOutput: () => ESTIMATE.output,
    textLength: () => TEXT.length,
    owedOutput: () => 0,
  })

for (const [name, decode, input, output] of formats) {
  test(`usage that cannot be right: ${name} with an absurd output is estimated`, () => {
    for (const value of ABSURD)
      for (const end of ['answered', 'interrupted'] as const) {
        const usage = { [input]: 10, ...(value !== undefined && { [output]: value }) }
        const charged = chargedFor(fold(decode(usage)).usage, end)
        const about = `${JSON.stringify(usage)} ${end}`
        assert.equal(charged.source, 'estimated', about)
        assert.ok(charged.usage.output >= ESTIMATE.output, `${about}: ${charged.usage.output}`)
        assert.equal(charged.usage.input, 10, about)
      }
  })

  test(`usage that cannot be right: ${name} with an absurd input is estimated`, () => {
    for (const value of [...ABSURD, 0]) {
      const usage = { ...(value !== undefined && { [input]: value }), [output]: 500 }
      const charged = chargedFor(fold(decode(usage)).usage)
      assert.equal(charged.source, 'estimated', JSON.stringify(usage))
      assert.ok(charged.usage.input >= ESTIMATE.input, JSON.stringify(usage))
      assert.equal(charged.usage.output, 500, JSON.stringify(usage))
    }
  })
}

/** Parts that the total of their side excludes. */
for (const [name, part] of [
  ['messages', 'cache_read_input_tokens'],
  ['messages', 'cache_creation_input_tokens'],
  ['messages', 'cache_creation'],
  ['converse', 'cacheReadInputTokens'],
  ['converse', 'cacheWriteInputTokens'],
  ['gemini', 'toolUsePromptTokenCount'],
  ['gemini', 'thoughtsTokenCount'],
] as const)
  test(`usage that cannot be right: ${name} with an absurd part (${part}) is estimated`, () => {
    const [, decode, input, output] = formats.find(([format]) => format === name) ?? assert.fail(name)
    const charged = (value: Json | undefined) => {
      const usage = { [input]: 10, [output]: 500, ...(value !== undefined && { [part]: value }) }
      return chargedFor(fold(decode(usage)).usage)
    }
    for (const value of [-5, '500', '', 1e308, 2 ** 32 - 5, 0.5, true, [500]]) {
      const wrong =
        part === 'cache_creation' ? { ephemeral_5m_input_tokens: 7, ephemeral_1h_input_tokens: value } : value
      const { source, usage } = charged(wrong)
      assert.equal(source, 'estimated', JSON.stringify(value))
      if (part === 'thoughtsTokenCount') assert.ok(usage.output >= ESTIMATE.output, String(usage.output))
      else assert.ok(usage.input >= ESTIMATE.input, String(usage.input))
    }
    for (const value of [undefined, null, 0]) assert.equal(charged(value).source, 'exact', String(value))
  })

test('amounts beyond a journal line: a cost of more than a million dollars is unknown, and its line can be read', () => {
  const prices = { input: 1e15, output: 1e15 }
  const usage = { input: 3, output: 1 }
  for (const cost of [
    costOf({ usage, catalogue: { prices, version: 'cat' } }),
    costOf({ usage, override: { prices, version: 'ovr' } }),
    costOf({ usage: { ...usage, reportedCost: 4e15 } }),
    costOf({ usage: { ...usage, reportedCost: 1e308 } }),
  ])
    assert.deepEqual([cost.nano, cost.source], [null, 'none'])
  // The upstream's own figure is not believed, so the price list applies.
  const listed = costOf({
    usage: { ...usage, reportedCost: 2e15 },
    catalogue: { prices: { input: 2, output: 3 }, version: 'cat' },
  })
  assert.deepEqual([listed.nano, listed.source], [9, 'catalogue'])
  for (const amount of [
    MAX_COST,
    MAX_COST + 1,
    4e15,
    2 ** 53,
    1e308,
    Number.POSITIVE_INFINITY,
    Number.NaN,
    0.5,
    -(2 ** 60),
  ]) {
    const encoder = new RecordEncoder()
    assert.equal(decodeLine(encoder.open(openedRecord(1, { reserved: amount })).trimEnd())?.type, 'opened')
    encoder.close(closedRecord(1, { cost: amount }))
    const ended = decodeLine(encoder.end(endedRecord(1)).trimEnd())
    const stored = ended?.type === 'ended' ? ended.attempts[0]?.[LISTED.indexOf('cost')] : undefined
    assert.equal(stored, amount === MAX_COST ? MAX_COST : null, `${amount}`)
  }
})
