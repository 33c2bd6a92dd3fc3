/** Checks the output with the official SDK, whose stream reader throws on wrong order. No network. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import Anthropic from '@anthropic-ai/sdk'
import { answerContext } from '../../../test/support/builders.ts'
import { type ChatEvent, fold } from '../../core/chat.ts'
import { fail } from '../../core/failure.ts'
import { run } from '../../core/stage.ts'
import { decodeAnswer } from './decode-answer.ts'
import { encodeAnswer } from './encode-answer.ts'
import { encodeStream } from './encode-stream.ts'
import { encodeFailure } from './errors.ts'

const context = answerContext({ created: 0, model: 'wire-model', requestId: 'req_x' })
const events: readonly ChatEvent[] = [
  { type: 'start', id: 'chatcmpl-1', model: 'gpt' },
  { type: 'ping' },
  { type: 'open', block: { type: 'reasoning' } },
  { type: 'delta', text: 'Let me ' },
  { type: 'delta', text: 'think.' },
  { type: 'signature', signature: { origin: 'anthropic-messages', value: 'EqRk+/==' } },
  { type: 'close' },
  { type: 'open', block: { type: 'text' } },
  { type: 'delta', text: 'Two ' },
  { type: 'delta', text: 'calls 😀.' },
  { type: 'citation', citation: { url: 'https://x.example', title: 'X' } },
  { type: 'close' },
  { type: 'open', block: { type: 'tool-call', id: 'call_1', name: 'weather' } },
  { type: 'delta', text: '{"city":' },
  { type: 'delta', text: '"Paris"}' },
  { type: 'close' },
  { type: 'open', block: { type: 'tool-call', id: 'call_2', name: 'now' } },
  { type: 'delta', text: '{}' },
  { type: 'close' },
  { type: 'usage', usage: { input: 12, output: 34, cacheRead: 2 } },
  { type: 'finish', finish: { kind: 'tool-calls', raw: 'tool_calls' } },
]

const client = (answer: Response) =>
  new Anthropic({ apiKey: 'none', baseURL: 'http://127.0.0.1:9', maxRetries: 0, fetch: async () => answer })
const question = { model: 'm', max_tokens: 99, messages: [{ role: 'user' as const, content: 'Hi' }] }
const streamed = (pieces: readonly string[]): Response => {
  const body = new ReadableStream({
    start(controller) {
      for (const piece of pieces) controller.enqueue(new TextEncoder().encode(piece))
      controller.close()
    },
  })
  return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
}
const write = (list: readonly ChatEvent[]): string[] =>
  run(
    encodeStream(context),
    list.map((event) => ({ events: [event] })),
  )

const summaryOf = (content: Anthropic.Message['content']) =>
  content.map((block) =>
    block.type === 'text'
      ? block.text
      : block.type === 'thinking'
        ? [block.thinking, block.signature]
        : block.type === 'tool_use'
          ? [block.id, block.name, block.input]
          : block.type,
  )
const EXPECTED = [
  ['Let me think.', 'EqRk+/=='],
  'Two calls 😀.',
  ['call_1', 'weather', { city: 'Paris' }],
  ['call_2', 'now', {}],
]

test('the SDK reads a complete stream', async () => {
  const stream = client(streamed(write(events))).messages.stream(question)
  const seen: string[] = []
  stream.on('text', (text) => seen.push(text))
  const message = await stream.finalMessage()
  assert.deepEqual(seen, ['Two ', 'calls 😀.'])
  assert.deepEqual(summaryOf(message.content), EXPECTED)
  assert.equal(message.stop_reason, 'tool_use')
  assert.equal(message.usage.input_tokens, 10)
  assert.equal(message.usage.cache_read_input_tokens, 2)
  assert.equal(message.usage.output_tokens, 34)
})

test('the SDK reads a complete answer', async () => {
  const body = encodeAnswer(fold(events), context)
  const message = await client(Response.json(body)).messages.create(question)
  assert.deepEqual(summaryOf(message.content), EXPECTED)
  assert.equal(message.stop_reason, 'tool_use')
  assert.deepEqual(
    fold(decodeAnswer(body)).blocks.map(({ text }) => text),
    fold(events).blocks.map(({ text }) => text),
  )
})

test('the SDK throws on an error in a stream', async () => {
  const broken = [...events.slice(0, 5), { type: 'failure', failure: fail('truncated', 'It broke off.') } as const]
  await assert.rejects(
    client(streamed(write(broken)))
      .messages.stream(question)
      .finalMessage(),
    (error) => error instanceof Anthropic.APIError && error.message.includes('It broke off.'),
  )
})

test('the SDK reads an error', async () => {
  const body = encodeFailure(fail('unauthenticated', 'No key.'), { requestId: 'req_x' })
  await assert.rejects(
    client(Response.json(body, { status: 401 })).messages.create(question),
    (error) => error instanceof Anthropic.AuthenticationError && error.message.includes('No key.'),
  )
})
