/**
 * Requests of a hundred thousand small things, and answers in as many pieces: they take long, but not the square of it,
 * and nothing breaks. Whatever takes the square takes minutes here, so the limit may be generous.
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

const inTime = (what: string, run: () => void): void => {
  const began = performance.now()
  run()
  const took = performance.now() - began
  assert.ok(took < LIMIT, `${what} took ${took.toFixed(0)} ms`)
}

const many = <T>(count: number, make: (at: number) => T): T[] => Array.from({ length: count }, (_, at) => make(at))
const named = (at: number) => ({ type: 'function', function: { name: `f${at}` } })

const requests: readonly (readonly [string, keyof typeof protocols, () => JsonObject])[] = [
  [
    'messages',
    'openai-chat',
    () => ({ messages: many(150_000, (at) => ({ role: at % 2 === 0 ? 'user' : 'assistant', content: 'a' })) }),
  ],
  [
    'parts',
    'openai-chat',
    () => ({ messages: [{ role: 'user', content: many(150_000, () => ({ type: 'text', text: 'a' })) }] }),
  ],
  [
    'tools to choose from',
    'openai-chat',
    () => ({
      messages: [{ role: 'user', content: 'a' }],
      tools: many(100_000, named),
      tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: many(100_000, named) } },
    }),
  ],
  [
    'items',
    'openai-responses',
    () => ({ input: many(150_000, (at) => ({ role: at % 2 === 0 ? 'user' : 'assistant', content: 'a' })) }),
  ],
  [
    'thoughts',
    'openai-responses',
    () => ({
      input: many(100_000, (at) => ({ type: 'reasoning', id: `rs_${at}`, summary: [], encrypted_content: 'x' })),
    }),
  ],
]
/** More than the default limits allow: the cost per entry is measured, not the limits. */
const unlimited = { messages: 1_000_000, parts: 1_000_000, tools: 1_000_000 }

for (const [name, style, make] of requests)
  test(`many: a request of so many ${name} is written in every format`, () => {
    const asked = parseRequest(protocols[style], JSON.stringify({ model: 'm', ...make() }), () => undefined, unlimited)
    assert.ok(asked.ok)
    for (const [format, { encodeRequest }] of Object.entries(upstreamProtocols))
      inTime(format, () => void encodeRequest(asked.value.request, { model: 'm', outputLimit: 1_000 }))
  })

test('many: an answer of so many citations, or a result of so many pieces, is read', () => {
  inTime('citations', () => {
    const reader = new ConverseAnswerReader()
    for (let at = 0; at < 150_000; at++)
      reader.push('contentBlockDelta', { contentBlockIndex: 1, delta: { citation: { title: 'x' } } })
    assert.equal(reader.push('contentBlockStop', { contentBlockIndex: 1 }).length, 150_001)
  })
  const reader = bedrockConverse.decodeStream()
  const push = (event: string, payload: JsonObject) => reader.push({ event, data: JSON.stringify(payload) })
  push('contentBlockStart', { contentBlockIndex: 0, start: { toolResult: {} } })
  push('contentBlockDelta', { contentBlockIndex: 0, delta: { toolResult: many(300_000, () => 1) } })
  const [open] = push('contentBlockStop', { contentBlockIndex: 0 })
  assert.equal(open?.type, 'open')
})

for (const [name, first] of [
  ['one after the other', '{}'],
  ['that wait for the first of them to end', '{'],
  ['that wait for a long one', `{"a":[${'{},'.repeat(300_000)}{}`],
] as const)
  test(`many: so many calls ${name} are read`, () => {
    const piece = (index: number, text: string) => ({
      data: JSON.stringify({
        choices: [
          { index: 0, delta: { tool_calls: [{ index, id: `c${index}`, function: { name: 'f', arguments: text } }] } },
        ],
      }),
    })
    inTime('calls', () => {
      const reader = protocols['openai-chat'].decodeStream()
      const told: ChatEvent[] = [...reader.push(piece(0, first))]
      for (let at = 1; at < 80_000; at++) told.push(...reader.push(piece(at, '{}')))
      for (const event of reader.push({ data: '[DONE]' })) told.push(event)
      assert.equal(told.filter(({ type }) => type === 'open').length, 80_000)
    })
  })

for (const [name, others] of [
  ['that others wait for', [1]],
  ['each with the name of its function', []],
] as const)
  test(`many: arguments in so many pieces ${name} are read`, () => {
    const piece = (index: number, text: string) => ({
      data: JSON.stringify({
        choices: [{ index: 0, delta: { tool_calls: [{ index, function: { name: `f${index}`, arguments: text } }] } }],
      }),
    })
    inTime('pieces', () => {
      const reader = protocols['openai-chat'].decodeStream()
      const told: ChatEvent[] = []
      for (const first of ['{"a":[{}', ...many(150_000, () => ',{}'), ']}']) {
        for (const index of [0, ...others]) for (const event of reader.push(piece(index, first))) told.push(event)
      }
      for (const event of reader.push({ data: '[DONE]' })) told.push(event)
      const calls = others.length + 1
      assert.equal(told.filter(({ type }) => type === 'open').length, calls)
      assert.equal(told.filter(({ type }) => type === 'delta').length, calls * 150_002)
    })
  })

test('many: arguments of so many blanks are read', () => {
  inTime('arguments', () => {
    const reader = new CohereAnswerReader()
    reader.start('x')
    reader.beginCall('a', 'f')
    for (let at = 0; at < 400_000; at++) assert.deepEqual(reader.addArguments(' '), [])
    const [delta] = reader.addArguments('{}')
    assert.deepEqual(delta, { type: 'delta', text: `${' '.repeat(400_000)}{}` })
  })
})

test('many: a prefix that comes back in so many pieces is taken off', () => {
  const prefix = 'abcd'.repeat(150_000)
  // Its other members are none of the restoring's business.
  const request = {
    messages: [{ role: 'assistant', at: '', content: [{ type: 'text', at: '', text: prefix }] }],
    tools: [],
  } as unknown as ChatRequest
  inTime('prefix', () => {
    const stage = mistral.restore?.(request)
    assert.ok(stage)
    const told: ChatEvent[] = [...stage.push({ type: 'open', block: { type: 'text' } })]
    for (let at = 0; at < 150_000; at++) told.push(...stage.push({ type: 'delta', text: 'abcd' }))
    told.push(...stage.push({ type: 'delta', text: 'and on' }))
    assert.deepEqual(told.slice(1), [{ type: 'delta', text: 'and on' }])
  })
})
