import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answerContext, chatRequest } from '../../../test/support/builders.ts'
import { type ChatAnswer, type ChatEvent, type ChatRequest, fold } from '../../core/chat.ts'
import type { Json, JsonObject } from '../../core/json.ts'
import { run } from '../../core/stage.ts'
import { toolRestorer } from '../shared/restore-tool-names.ts'
import { decodeAnswer } from './decode-answer.ts'
import { encodeAnswer } from './encode-answer.ts'
import { toolName } from './ids.ts'

const restore = toolRestorer(toolName)

const request = chatRequest({ stream: false })
const context = answerContext({ request, created: 0, model: 'wire-model' })
const message = (content: Json, stop_reason: string | null = 'end_turn', more: JsonObject = {}) => ({
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'claude-3-7',
  content,
  stop_reason,
  stop_sequence: null,
  usage: {
    input_tokens: 5,
    cache_creation_input_tokens: 2,
    cache_read_input_tokens: 3,
    output_tokens: 4,
    output_tokens_details: { thinking_tokens: 1 },
  },
  ...more,
})
const usage = { input: 10, output: 4, cacheRead: 3, cacheWrite: 2, reasoning: 1 }

const answers: readonly [string, JsonObject, ChatAnswer['blocks'], ChatAnswer['finish']][] = [
  ['text', message([{ type: 'text', text: 'Hi' }]), [{ type: 'text', text: 'Hi' }], { kind: 'stop', raw: 'end_turn' }],
  ['nothing', message([]), [], { kind: 'stop', raw: 'end_turn' }],
  [
    'reasoning and calls',
    message(
      [
        { type: 'thinking', thinking: '', signature: 'S+/=' },
        { type: 'redacted_thinking', data: 'D' },
        { type: 'tool_use', id: 'toolu_1', name: 'f', input: {} },
        { type: 'tool_use', id: 'toolu_2', name: 'g', input: { a: [1, 'é'] } },
      ],
      'tool_use',
    ),
    [
      { type: 'reasoning', text: '', signature: { origin: 'anthropic-messages', value: 'S+/=' } },
      { type: 'reasoning', text: '', signature: { origin: 'anthropic-messages', value: 'D', redacted: true } },
      { type: 'tool-call', id: 'toolu_1', name: 'f', text: '{}' },
      { type: 'tool-call', id: 'toolu_2', name: 'g', text: '{"a":[1,"é"]}' },
    ],
    { kind: 'tool-calls', raw: 'tool_use' },
  ],
  [
    'a stop sequence',
    message([{ type: 'text', text: 'x' }], 'stop_sequence', { stop_sequence: 'END' }),
    [{ type: 'text', text: 'x' }],
    { kind: 'stop', raw: 'stop_sequence', stopSequence: 'END' },
  ],
  ['the limit', message([], 'max_tokens'), [], { kind: 'length', raw: 'max_tokens' }],
  [
    "the window's end",
    message([], 'model_context_window_exceeded'),
    [],
    { kind: 'length', raw: 'model_context_window_exceeded' },
  ],
  [
    'a pause',
    message([{ type: 'server_tool_use', id: 's', name: 'web_search', input: {} }], 'pause_turn'),
    [
      {
        type: 'foreign',
        protocol: 'anthropic-messages',
        raw: { type: 'server_tool_use', id: 's', name: 'web_search', input: {} },
        text: '',
      },
    ],
    { kind: 'pause', raw: 'pause_turn' },
  ],
  ['compaction', message([], 'compaction'), [], { kind: 'pause', raw: 'compaction' }],
  ['a refusal', message([], 'refusal'), [], { kind: 'refusal', raw: 'refusal' }],
]
for (const [name, body, blocks, finish] of answers)
  test(`answer: ${name}`, () => {
    const { usage: counted, ...answer } = fold(decodeAnswer(body))
    assert.deepEqual(answer, { id: 'msg_1', model: 'claude-3-7', blocks, finish })
    assert.deepEqual(counted, { ...usage, raw: body.usage })
    assert.deepEqual(encodeAnswer(fold(decodeAnswer(body)), context), body)
  })

test('answer: a refusal with an explanation is a refusal in both directions', () => {
  const stop_details = { type: 'refusal', category: null, explanation: 'Not this.' }
  const answer = fold(decodeAnswer(message([{ type: 'text', text: 'So ' }], 'refusal', { stop_details })))
  assert.deepEqual(
    answer.blocks.map(({ type, text }) => [type, text]),
    [
      ['text', 'So '],
      ['refusal', 'Not this.'],
    ],
  )
  const again = encodeAnswer({ ...answer, finish: { kind: 'stop', raw: 'stop' } }, context)
  assert.equal(again.stop_reason, 'refusal')
  assert.deepEqual(again.content, [
    { type: 'text', text: 'So ' },
    { type: 'text', text: 'Not this.' },
  ])
})

const bad: readonly [string, Json, string][] = [
  ['an error', { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }, 'overloaded'],
  ['no message', { hello: 1 }, 'malformed'],
  ['nothing', null, 'malformed'],
  ['a block without a type', message([{ text: 'x' }]), 'malformed'],
  [
    'call input nested too deeply',
    message([
      { type: 'tool_use', id: 'i', name: 'f', input: JSON.parse(`${'{"a":'.repeat(9_000)}1${'}'.repeat(9_000)}`) },
    ]),
    'malformed',
  ],
]
for (const [name, body, kind] of bad)
  test(`answer, rejected: ${name}`, () => {
    const events = decodeAnswer(body)
    assert.deepEqual(
      events.map((event) => event.type === 'failure' && event.failure.kind),
      [kind],
    )
  })

const foreign: readonly [string, ChatAnswer, JsonObject][] = [
  [
    'an answer in another format',
    {
      id: 'chatcmpl-1',
      blocks: [
        { type: 'reasoning', text: 'Hm' },
        { type: 'text', text: '' },
        { type: 'text', text: 'Hi', citations: [{ url: 'https://x.example', title: 'X' }] },
        { type: 'tool-call', id: 'call 1', name: 'f', text: '{"a":' },
        { type: 'tool-call', id: 'c2', name: 'p', text: 'free', custom: true },
        { type: 'foreign', protocol: 'openai-responses', raw: {}, text: '' },
      ],
      finish: { kind: 'stop', raw: 'stop' },
      usage: { input: 10, output: 4 },
    },
    {
      content: [
        { type: 'thinking', thinking: 'Hm', signature: '' },
        {
          type: 'text',
          text: 'Hi',
          citations: [
            {
              type: 'web_search_result_location',
              url: 'https://x.example',
              title: 'X',
              cited_text: '',
              encrypted_index: '',
            },
          ],
        },
        { type: 'tool_use', id: 'ID', name: 'f', input: { unreadable_arguments: '{"a":' } },
        { type: 'tool_use', id: 'c2', name: 'p', input: { input: 'free' } },
      ],
      stop_reason: 'tool_use',
      usage: { input_tokens: 10, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 4 },
    },
  ],
  [
    'a filtered answer',
    { blocks: [], finish: { kind: 'content-filter', raw: 'content_filter' } },
    { stop_reason: 'refusal' },
  ],
  [
    'an answer at the output limit',
    { blocks: [], finish: { kind: 'length', raw: 'length' } },
    { stop_reason: 'max_tokens' },
  ],
  ['an answer without a finish', { blocks: [] }, { stop_reason: null }],
  [
    'no usage',
    { blocks: [] },
    { usage: { input_tokens: 0, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 0 } },
  ],
]
for (const [name, answer, expected] of foreign)
  test(`encode: ${name}`, () => {
    const body = encodeAnswer(answer, context)
    assert.equal(body.id, 'msg_made')
    assert.equal(body.model, 'wire-model')
    const seen = JSON.parse(JSON.stringify(body).replace(/"call_[a-z0-9]{40}"/, '"ID"'))
    for (const [member, value] of Object.entries(expected)) assert.deepEqual(seen[member], value)
  })

// ── Tool names and free-form input are restored ─────────────────────────────────────────────────────────────────────

const call = (name: string, ...pieces: string[]): ChatEvent[] => [
  { type: 'open', block: { type: 'tool-call', id: 'i', name } },
  ...pieces.map((text): ChatEvent => ({ type: 'delta', text })),
  { type: 'close' },
]
const long = 'a.long name'
const tools: ChatRequest['tools'] = [
  { kind: 'function', at: 't', name: 'f' },
  { kind: 'function', at: 't', name: long },
  { kind: 'custom', at: 't', name: 'patch' },
]
const restored: readonly [string, ChatEvent[], readonly (readonly [string, boolean | undefined, string])[]][] = [
  ['a plain call stays', call('f', '{"input":', '"x"}'), [['f', undefined, '{"input":"x"}']]],
  ["the client's tool name is restored", call(toolName(long), '{}'), [[long, undefined, '{}']]],
  ['free-form input is unwrapped', call('patch', '{"inp', 'ut":"a\\n\\u00e9"}'), [['patch', true, 'a\né']]],
  ['empty free-form input', call('patch', '{"input":""}'), [['patch', true, '']]],
  ['free-form input that is not wrapped', call('patch', '*** Begin'), [['patch', true, '*** Begin']]],
  [
    'two calls',
    [...call('patch', '{"input":"x"}'), ...call('f', '{}')],
    [
      ['patch', true, 'x'],
      ['f', undefined, '{}'],
    ],
  ],
]
for (const [name, events, expected] of restored)
  test(`restore: ${name}`, () => {
    const stage = restore({ ...request, tools })
    assert.ok(stage)
    const { blocks } = fold(run(stage, events))
    assert.deepEqual(
      blocks.map((block) => block.type === 'tool-call' && [block.name, block.custom, block.text]),
      expected,
    )
  })

test('restore: undefined without changed names', () => {
  assert.equal(restore(request), undefined)
  assert.equal(restore({ ...request, tools: tools.slice(0, 1) }), undefined)
})
