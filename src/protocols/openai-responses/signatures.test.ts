/** Reasoning of other formats through clients of the responses API, as these clients send it back. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chatRequest } from '../../../test/support/builders.ts'
import { bodiesOf, responsesContext } from '../../../test/support/responses-stream.ts'
import { type ChatEvent, fold, type ReasoningSignature } from '../../core/chat.ts'
import { type Json, type JsonObject, list, object } from '../../core/json.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import { anthropicMessages } from '../anthropic-messages/index.ts'
import { openaiChat } from '../openai-chat/index.ts'
import { openaiResponses as codec } from './index.ts'
import { isForeignReasoning } from './signatures.ts'

const THOUGHT = 'First: 2 + 2 = 4.\n\n"Then" — ü 😀: done'
const claude = (content: Json, model = 'claude-sonnet-4-5'): readonly ChatEvent[] =>
  anthropicMessages.decodeAnswer({ id: 'msg_1', type: 'message', role: 'assistant', model, content })
const signed: readonly ChatEvent[] = claude([
  { type: 'thinking', thinking: THOUGHT, signature: 'EqoBCkgIARABGAI=' },
  { type: 'tool_use', id: 'toolu_1', name: 'f', input: {} },
])
const asking = (summary: string | undefined): AnswerContext => ({
  ...responsesContext(),
  request: chatRequest({
    settings: summary === undefined ? {} : { reasoningSummary: { value: summary, at: 'reasoning.summary' } },
  }),
})
const outputOf = (events: readonly ChatEvent[], summary?: string): readonly JsonObject[] =>
  list(codec.encodeAnswer(fold(events), asking(summary)).output) as readonly JsonObject[]

/** The messages that Claude receives when a client sends these items back with the result of the call. */
const claudeReceives = (items: readonly JsonObject[]): Json => {
  const result = { type: 'function_call_output', call_id: 'toolu_1', output: '4' }
  const decoded = codec.decodeRequest({ model: 'm', input: [{ role: 'user', content: 'hi' }, ...items, result] })
  assert.ok(decoded.ok)
  return anthropicMessages.encodeRequest(decoded.value, { model: 'claude-sonnet-4-5' }).body.messages ?? null
}

const CLIENTS: { readonly [client: string]: (item: JsonObject) => JsonObject } = {
  'a client that returns the whole item': (item) => item,
  // vercel/ai: `reasoning` items have id, summary and encrypted content.
  'the AI SDK': ({ id, summary, encrypted_content }) => ({
    type: 'reasoning',
    ...(id !== undefined && { id }),
    summary: summary ?? [],
    encrypted_content: encrypted_content ?? null,
  }),
  // openai/codex: no id, and `content` is null unless raw reasoning is enabled.
  Codex: ({ summary, encrypted_content }) => ({
    type: 'reasoning',
    summary: summary ?? [],
    content: null,
    encrypted_content: encrypted_content ?? null,
  }),
  'a client that keeps the encrypted content only': ({ encrypted_content }) => ({
    type: 'reasoning',
    summary: [],
    encrypted_content: encrypted_content ?? null,
  }),
  'a client that trims the summary': ({ encrypted_content }) => ({
    type: 'reasoning',
    summary: [{ type: 'summary_text', text: 'First' }],
    encrypted_content: encrypted_content ?? null,
  }),
}
for (const [client, kept] of Object.entries(CLIENTS))
  for (const summary of [undefined, 'auto'])
    test(`Claude's thinking survives ${client}, with ${summary ?? 'no'} summary`, () => {
      const items = outputOf(signed, summary).map((item) => (item.type === 'reasoning' ? kept(item) : item))
      const [, assistant] = list(claudeReceives(items))
      assert.deepEqual(list(object(assistant)?.content)[0], {
        type: 'thinking',
        thinking: THOUGHT,
        signature: 'EqoBCkgIARABGAI=',
      })
    })

test('a signature without text and a redacted block survive a client that keeps the encrypted content', () => {
  const events = claude([
    { type: 'thinking', thinking: '', signature: 'EqoB=' },
    { type: 'redacted_thinking', data: 'EmwK:7=' },
    { type: 'tool_use', id: 'toolu_1', name: 'f', input: {} },
  ])
  const [, assistant] = list(claudeReceives(outputOf(events)))
  assert.deepEqual(list(object(assistant)?.content).slice(0, 2), [
    { type: 'thinking', thinking: '', signature: 'EqoB=' },
    { type: 'redacted_thinking', data: 'EmwK:7=' },
  ])
})

test('the text of a signature of Bedrock is returned with it', () => {
  const signature: ReasoningSignature = { origin: 'bedrock-converse', value: 'c2ln' }
  const [item = {}] = outputOf([
    { type: 'open', block: { type: 'reasoning' } },
    { type: 'delta', text: THOUGHT },
    { type: 'signature', signature },
    { type: 'close' },
    { type: 'finish', finish: { kind: 'stop', raw: null } },
  ])
  const input = [{ type: 'reasoning', summary: [], encrypted_content: item.encrypted_content ?? null }]
  const decoded = codec.decodeRequest({ model: 'm', input })
  assert.ok(decoded.ok)
  assert.deepEqual(decoded.value.messages[0]?.content, [
    { type: 'reasoning', at: 'input[0]', text: THOUGHT, signature },
  ])
})

test('a text above the limit is not stored with its signature', () => {
  const long = 'x'.repeat(1_048_577)
  const [item = {}] = outputOf(claude([{ type: 'thinking', thinking: long, signature: 'EqoB=' }]))
  assert.equal(item.encrypted_content, 'hg1:anthropic-messages:::0:EqoB=')
})

test('changed lengths and labels are read without an error', () => {
  for (const encrypted of ['hg1:gemini:::99:ab', 'hg1:gemini:::x:ab', 'hg1:none:::0:ab', 'hg1:', 'hg1:gemini::%:0:v']) {
    const input = [{ type: 'reasoning', summary: [], encrypted_content: encrypted }]
    assert.ok(codec.decodeRequest({ model: 'm', input }).ok)
  }
})

// ── Summaries ────────────────────────────────────────────────────────────────────────────────────────────────────────

const raw: readonly ChatEvent[] = [
  { type: 'start', model: 'qwen3-32b' },
  { type: 'open', block: { type: 'reasoning' } },
  { type: 'delta', text: 'hm' },
  { type: 'delta', text: ', so' },
  { type: 'close' },
  { type: 'open', block: { type: 'text' } },
  { type: 'delta', text: 'Hi' },
  { type: 'close' },
  { type: 'finish', finish: { kind: 'stop', raw: 'stop' } },
]

test('the raw reasoning of a chat server is the summary if the client asks for one', () => {
  for (const summary of ['auto', 'concise', 'detailed']) {
    const [item] = outputOf(raw, summary)
    assert.deepEqual(item?.summary, [{ type: 'summary_text', text: 'hm, so' }])
    assert.equal(item?.content, undefined)
  }
  for (const summary of [undefined, 'none']) {
    const [item] = outputOf(raw, summary)
    assert.deepEqual(item?.summary, [])
    assert.deepEqual(item?.content, [{ type: 'reasoning_text', text: 'hm, so' }])
  }
})

test('a streamed summary has the events of a summary', () => {
  const writer = codec.encodeStream(asking('auto'))
  const wire = [...raw.flatMap((event) => writer.push({ events: [event] })), ...writer.end()].join('')
  const events = bodiesOf(wire).map(({ type, delta, text }) => [type, delta ?? text])
  assert.deepEqual(events.slice(3, 8), [
    ['response.reasoning_summary_part.added', undefined],
    ['response.reasoning_summary_text.delta', 'hm'],
    ['response.reasoning_summary_text.delta', ', so'],
    ['response.reasoning_summary_text.done', 'hm, so'],
    ['response.reasoning_summary_part.done', undefined],
  ])
})

test("Claude's thinking is a summary, that of other models at its API is not", () => {
  const thinking = [{ type: 'thinking', thinking: 'hm', signature: 'S' }]
  for (const model of ['claude-sonnet-4-5', 'claude-opus-4-6', 'claude-haiku-4-5-20251001'])
    assert.deepEqual(outputOf(claude(thinking, model))[0]?.summary, [{ type: 'summary_text', text: 'hm' }], model)
  for (const model of ['claude-3-7-sonnet-20250219', 'deepseek-v4', 'MiniMax-M2'])
    assert.deepEqual(outputOf(claude(thinking, model))[0]?.summary, [], model)
})

test('a summary made of raw reasoning returns to a server that reads reasoning', () => {
  const decoded = codec.decodeRequest({ model: 'm', input: outputOf(raw, 'auto') as Json })
  assert.ok(decoded.ok)
  const [part] = decoded.value.messages[0]?.content ?? []
  assert.equal(part?.type === 'reasoning' && part.text, 'hm, so')
  const adapted = codec.passing.adaptRequest(
    { model: 'm', input: outputOf(raw, 'auto') as Json },
    { model: 'm', acceptsReasoning: true },
  )
  assert.deepEqual(object(list(adapted.input)[0])?.content, [{ type: 'reasoning_text', text: 'hm, so' }])
})

// DeepSeek and others refuse a turn with calls whose reasoning is missing; the AI SDK drops items without encrypted content.
test('raw reasoning returns through clients that return only items with encrypted content', () => {
  const settings = {
    encryptedReasoning: { value: true, at: 'include[0]' },
    reasoningSummary: { value: 'auto', at: 's' },
  }
  const context = { ...responsesContext(), request: chatRequest({ settings }) }
  const [item = {}] = list(codec.encodeAnswer(fold(raw), context).output) as readonly JsonObject[]
  for (const [client, kept] of Object.entries(CLIENTS)) {
    const call = { type: 'function_call', call_id: 'call_1', name: 'f', arguments: '{}' }
    const decoded = codec.decodeRequest({ model: 'm', input: [kept(item), call] })
    assert.ok(decoded.ok)
    const { body } = openaiChat.encodeRequest(decoded.value, { model: 'm', acceptsReasoning: true })
    assert.equal(object(list(body.messages)[0])?.reasoning_content, 'hm, so', client)
  }
  assert.ok(isForeignReasoning(item), 'OpenAI is not sent it')
  const [unasked] = outputOf(raw, 'auto')
  assert.equal(unasked?.encrypted_content, undefined)
})
