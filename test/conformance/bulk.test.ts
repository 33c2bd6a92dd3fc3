/**
 * Requests with 100,000 small entries, and answers in as many pieces, take linear time. Quadratic time would be minutes
 * here, so the time limit is generous.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ChatEvent, ChatRequest } from '../../src/core/chat.ts'
import type { JsonObject } from '../../src/core/json.ts'
import { parseRequest } from '../../src/gateway/upstream/parse-request.ts'
import { ConverseAnswerReader } from '../../src/protocols/bedrock-converse/answer-reader.ts'
import { bedrockConverse } from '../../src/protocols/bedrock-converse/index.ts'
import { CohereAnswerReader } from '../../src/protocols/cohere/answer-reader.ts'
import { protocols, upstreamProtocols } from '../../src/protocols/index.ts'
import { mistral } from '../../src/protocols/mistral/index.ts'

/** ms. */
const LIMIT = 15_000

const assertInTime = (what: string, run: () => void): void => {
  const began = performance.now()
  run()
  const took = performance.now() - began
  assert.ok(took < LIMIT, `${what} took ${took.toFixed(0)} ms`)
}

const repeat = <T>(count: number, make: (at: number) => T): T[] => Array.from({ length: count }, (_, at) => make(at))
const namedTool = (at: number) => ({ type: 'function', function: { name: `f${at}` } })

const requests: readonly (readonly [string, keyof typeof protocols, () => JsonObject])[] = [
  [
    'messages',
    'openai-chat',
    () => ({ messages: repeat(150_000, (at) => ({ role: at % 2 === 0 ? 'user' : 'assistant', content: 'a' })) }),
  ],
  [
    'parts',
    'openai-chat',
    () => ({ messages: [{ role: 'user', content: repeat(150_000, () => ({ type: 'text', text: 'a' })) }] }),
  ],
  [
    'allowed tools',
    'openai-chat',
    () => ({
      messages: [{ role: 'user', content: 'a' }],
      tools: repeat(100_000, namedTool),
      tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: repeat(100_000, namedTool) } },
    }),
  ],
  [
    'items',
    'openai-responses',
    () => ({ input: repeat(150_000, (at) => ({ role: at % 2 === 0 ? 'user' : 'assistant', content: 'a' })) }),
  ],
  [
    'reasoning items',
    'openai-responses',
    () => ({
      input: repeat(100_000, (at) => ({ type: 'reasoning', id: `rs_${at}`, summary: [], encrypted_content: 'x' })),
    }),
  ],
]
/** More than the default limits allow: the cost per entry is measured, not the limits. */
const unlimited = { messages: 1_000_000, parts: 1_000_000, tools: 1_000_000 }

for (const [name, style, make] of requests)
  test(`bulk: a request with very many ${name} is encoded in every format`, () => {
    const request = parseRequest(
      protocols[style],
      { body: { text: JSON.stringify({ model: 'm', ...make() }) }, headers: () => undefined },
      unlimited,
    )
    assert.ok(request.ok)
    for (const [format, { encodeRequest }] of Object.entries(upstreamProtocols))
      assertInTime(format, () => void encodeRequest(request.value.request, { model: 'm', outputLimit: 1_000 }))
  })

test('bulk: an answer with very many citations or result parts is decoded', () => {
  assertInTime('citations', () => {
    const reader = new ConverseAnswerReader()
    for (let at = 0; at < 150_000; at++)
      reader.push('contentBlockDelta', { contentBlockIndex: 1, delta: { citation: { title: 'x' } } })
    assert.equal(reader.push('contentBlockStop', { contentBlockIndex: 1 }).length, 150_001)
  })
  const reader = bedrockConverse.decodeStream()
  const push = (event: string, payload: JsonObject) => reader.push({ event, data: JSON.stringify(payload) })
  push('contentBlockStart', { contentBlockIndex: 0, start: { toolResult: {} } })
  push('contentBlockDelta', { contentBlockIndex: 0, delta: { toolResult: repeat(300_000, () => 1) } })
  const [open] = push('contentBlockStop', { contentBlockIndex: 0 })
  assert.equal(open?.type, 'open')
})

for (const [name, first] of [
  ['in sequence', '{}'],
  ['after an unfinished first call', '{'],
  ['after a long first call', `{"a":[${'{},'.repeat(300_000)}{}`],
] as const)
  test(`bulk: very many calls ${name} are decoded`, () => {
    const piece = (index: number, text: string) => ({
      data: JSON.stringify({
        choices: [
          { index: 0, delta: { tool_calls: [{ index, id: `c${index}`, function: { name: 'f', arguments: text } }] } },
        ],
      }),
    })
    assertInTime('calls', () => {
      const reader = protocols['openai-chat'].decodeStream()
      const events: ChatEvent[] = [...reader.push(piece(0, first))]
      for (let at = 1; at < 80_000; at++) events.push(...reader.push(piece(at, '{}')))
      const end = { choices: [{ index: 0, delta: {}, finish_reason: 'tool_calls' }] }
      for (const event of reader.push({ data: JSON.stringify(end) })) events.push(event)
      assert.equal(events.filter(({ type }) => type === 'open').length, 80_000)
    })
  })

for (const [name, others] of [
  ['of two interleaved calls', [1]],
  ['with the function name in each', []],
] as const)
  test(`bulk: arguments in very many pieces ${name} are decoded`, () => {
    const piece = (index: number, text: string) => ({
      data: JSON.stringify({
        choices: [{ index: 0, delta: { tool_calls: [{ index, function: { name: `f${index}`, arguments: text } }] } }],
      }),
    })
    assertInTime('pieces', () => {
      const reader = protocols['openai-chat'].decodeStream()
      const events: ChatEvent[] = []
      for (const first of ['{"a":[{}', ...repeat(150_000, () => ',{}'), ']}']) {
        for (const index of [0, ...others]) for (const event of reader.push(piece(index, first))) events.push(event)
      }
      for (const event of reader.push({ data: '[DONE]' })) events.push(event)
      const calls = others.length + 1
      assert.equal(events.filter(({ type }) => type === 'open').length, calls)
      assert.equal(events.filter(({ type }) => type === 'delta').length, calls * 150_002)
    })
  })

test('bulk: arguments of very many spaces are decoded', () => {
  assertInTime('arguments', () => {
    const reader = new CohereAnswerReader()
    reader.start('x')
    reader.beginCall('a', 'f')
    for (let at = 0; at < 400_000; at++) assert.deepEqual(reader.addArguments(' '), [])
    const [delta] = reader.addArguments('{}')
    assert.deepEqual(delta, { type: 'delta', text: `${' '.repeat(400_000)}{}` })
  })
})

test('bulk: a prefill that the answer repeats in very many pieces is removed', () => {
  const prefix = 'abcd'.repeat(150_000)
  // `restore` reads only messages and tools.
  const request = {
    messages: [{ role: 'assistant', at: '', content: [{ type: 'text', at: '', text: prefix }] }],
    tools: [],
  } as unknown as ChatRequest
  assertInTime('prefix', () => {
    const stage = mistral.restore?.(request)
    assert.ok(stage)
    const events: ChatEvent[] = [...stage.push({ type: 'open', block: { type: 'text' } })]
    for (let at = 0; at < 150_000; at++) events.push(...stage.push({ type: 'delta', text: 'abcd' }))
    events.push(...stage.push({ type: 'delta', text: 'and on' }))
    assert.deepEqual(events.slice(1), [{ type: 'delta', text: 'and on' }])
  })
})
