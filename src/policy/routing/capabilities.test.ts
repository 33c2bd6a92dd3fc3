import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ChatRequest, Part } from '../../core/chat.ts'
import type { ModelFacts } from '../../core/config.ts'
import { doubts } from './capabilities.ts'

const requestWith = (more: Partial<ChatRequest> = {}, ...parts: readonly Part[]): ChatRequest => ({
  model: 'm',
  stream: false,
  messages: [{ role: 'user', at: 'messages[0]', content: [{ type: 'text', at: 'messages[0]', text: 'hi' }, ...parts] }],
  tools: [],
  settings: {},
  extras: [],
  ...more,
})

const tool = { kind: 'function', at: 'tools[0]', name: 'f' } as const
const image = {
  type: 'image',
  at: 'messages[0].content[1]',
  source: { kind: 'url', url: 'https://x.example/a.png' },
} as const
const schema = { format: { at: 'response_format', value: { kind: 'schema', name: 's', schema: {} } } } as const
const long = requestWith({
  messages: [
    { role: 'user', at: 'messages[0]', content: [{ type: 'text', at: 'messages[0]', text: 'wörd '.repeat(20_000) }] },
  ],
})

const cases: readonly (readonly [string, ChatRequest, ModelFacts | undefined, readonly string[]])[] = [
  ['an unknown model', requestWith({ tools: [tool] }, image), undefined, []],
  ['a model with known prices only', requestWith({ tools: [tool] }, image), { prices: { input: 1 } }, []],
  ['text needs no capability', requestWith(), { capabilities: [] }, []],
  ['missing tools', requestWith({ tools: [tool, tool] }), { capabilities: ['vision'] }, ['tools[0] tools']],
  ['supported tools', requestWith({ tools: [tool] }), { capabilities: ['tools'] }, []],
  [
    'a missing image capability',
    requestWith({}, image),
    { capabilities: ['tools'] },
    ['messages[0].content[1] vision'],
  ],
  [
    'audio, a file and two images: one doubt each, with the first path',
    requestWith(
      {},
      { type: 'audio', at: 'a', data: 'AAAA', format: 'wav' },
      { type: 'file', at: 'f', source: { kind: 'data', mediaType: 'application/pdf', data: 'AAAA' } },
      { ...image, at: 'i' },
      { ...image, at: 'j' },
    ),
    { capabilities: ['tools'] },
    ['a audio_input', 'f file_input', 'i vision'],
  ],
  [
    'a missing structured output',
    requestWith({ settings: schema }),
    { capabilities: ['tools'] },
    ['response_format structured_output'],
  ],
  [
    'max_tokens above the model’s limit',
    requestWith({ settings: { maxOutputTokens: { at: 'max_tokens', value: 9_000 } } }),
    { maxOutputTokens: 8_192 },
    ['max_tokens max_output_tokens'],
  ],
  [
    'max_tokens at the model’s limit',
    requestWith({ settings: { maxOutputTokens: { at: 'max_tokens', value: 8_192 } } }),
    { maxOutputTokens: 8_192 },
    [],
  ],
  ['a request longer than the context window', long, { contextWindow: 4_096 }, ['messages[0] context_window']],
  ['a request within the context window', long, { contextWindow: 1_000_000 }, []],
]

for (const [name, request, facts, expected] of cases)
  test(`doubts: ${name}`, () =>
    assert.deepEqual(
      doubts(request, facts, JSON.stringify(request).length).map(({ at, lacks }) => `${at} ${lacks}`),
      expected,
    ))
