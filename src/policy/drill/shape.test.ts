import assert from 'node:assert/strict'
import test from 'node:test'
import fc from 'fast-check'
import { anyRequest, lookalikes } from '../../../test/support/anything.ts'
import type { ChatRequest } from '../../core/chat.ts'
import type { JsonObject } from '../../core/json.ts'
import type { RequestStyle } from '../../core/request-styles.ts'
import { clientProtocolByStyle } from '../../protocols/index.ts'
import { FEATURES, type Feature } from './features.ts'
import { AMOUNTS, isWithin, OTHER, parseShape, type Shape, shapeOf, shapeText, tokenStep } from './shape.ts'

const decoded = (style: RequestStyle, body: JsonObject): ChatRequest => {
  const outcome = clientProtocolByStyle.get(style)?.decodeRequest(body)
  assert.ok(outcome?.ok, JSON.stringify(outcome))
  return outcome.value
}

const shapeOfChat = (more: JsonObject): Shape =>
  shapeOf(decoded('chat', { model: 'm', messages: [{ role: 'user', content: 'hello' }], ...more }), 'chat')

const called = (type: string, parameters: JsonObject, more: JsonObject = {}) => ({
  type,
  function: { name: 'f', parameters, ...more },
})

test('shapes: the order of the vocabulary is stored, so it only grows', () => {
  assert.equal(new Set(FEATURES).size, FEATURES.length)
  const pinned: readonly (readonly [number, Feature])[] = [
    [0, 'stream'],
    [14, 'format.strict'],
    [19, 'image.data'],
    [34, 'audio.wav'],
    [44, 'schema.$ref'],
    [68, 'tool.$ref'],
    [92, 'hosted.web_search'],
    [108, 'set.temperature'],
    [129, 'extra.thinking'],
    [152, 'beta.computer-use'],
    [170, 'beta.skills'],
    [171, 'strict.$ref'],
  ]
  for (const [place, feature] of pinned) assert.equal(FEATURES[place], feature)
})

const CASES: readonly (readonly [string, JsonObject, Partial<Shape> & { readonly features: readonly Feature[] }])[] = [
  ['a text', {}, { features: [], tools: 0, input: 1_024, output: 0 }],
  ['a stream with an output limit', { stream: true, max_tokens: 5_000 }, { features: ['stream'], output: 8_192 }],
  [
    'a strict tool whose properties have names of keywords',
    {
      tools: [
        called(
          'function',
          {
            type: 'object',
            properties: { pattern: { type: 'string', minLength: 1 }, enum: { type: ['string', 'null'] } },
          },
          { strict: true },
        ),
      ],
      tool_choice: 'required',
      parallel_tool_calls: false,
    },
    {
      features: ['parallel.off', 'tool.strict', 'choice.required', 'strict.minLength', 'strict.type[]'],
      tools: 1,
      depth: 2,
    },
  ],
  [
    'a schema of the answer',
    {
      response_format: {
        type: 'json_schema',
        json_schema: {
          name: 'n',
          strict: true,
          schema: { type: 'object', properties: { a: { pattern: '^x', enum: [{ not: 1 }] } } },
        },
      },
    },
    { features: ['format.schema', 'format.strict', 'schema.enum', 'schema.pattern'], depth: 2 },
  ],
  [
    'a picture, a document and sound',
    {
      messages: [
        {
          role: 'user',
          content: [
            { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } },
            { type: 'image_url', image_url: { url: 'https://pictures.example/one.png' } },
            { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBERi0=' } },
            { type: 'input_audio', input_audio: { data: 'UklGRg==', format: 'wav' } },
          ],
        },
      ],
    },
    {
      features: ['image.data', 'image.url', 'image.png', 'file.data', 'file.pdf', 'audio.wav'],
      media: 8,
      input: 8_192,
    },
  ],
  [
    'a finished call, a system message in the middle and a prefill',
    {
      messages: [
        { role: 'user', content: 'hello' },
        { role: 'assistant', tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }] },
        { role: 'tool', tool_call_id: 'c', content: 'done' },
        { role: 'system', content: 'be short' },
        { role: 'assistant', content: 'Well' },
      ],
    },
    { features: ['prefill', 'system.middle', 'history.calls', 'history.results'] },
  ],
  [
    'settings and members by name, others by number',
    { temperature: 0.5, reasoning_effort: 'high', suffix: 'u', my_member: 1 },
    { features: ['effort.high', 'set.temperature', 'extra.suffix'], others: 1 },
  ],
]

for (const [name, body, expected] of CASES)
  test(`shapes: ${name}`, () => {
    const shape = shapeOfChat(body)
    assert.deepEqual({ ...shape, ...expected }, shape)
    assert.deepEqual(parseShape(shapeText(shape)), shape)
  })

test('shapes: messages have cache marks, betas and tools that the provider runs', () => {
  const request = decoded('messages', {
    model: 'm',
    max_tokens: 100,
    system: [{ type: 'text', text: 's', cache_control: { type: 'ephemeral' } }],
    messages: [{ role: 'user', content: 'hello' }],
    tools: [{ type: 'web_search_20250305', name: 'web_search' }],
  })
  const shape = shapeOf(request, 'messages', ['context-1m-2025-08-07', 'unknown-2026-01-01'])
  assert.deepEqual(shape.features, ['cache.marks', 'hosted.web_search', 'beta.context-1m'])
  assert.equal(shape.others, 1)
})

test('shapes: of any request the text is in the vocabulary, at most 400 bytes, and is parsed to the same shape', () => {
  const words = ['tools', 'pattern', 'properties', 'thinking']
  const requests = anyRequest({ ...lookalikes(words), origin: 'openai-chat', beside: ['cache_control', 'foo'] })
  fc.assert(
    fc.property(requests, fc.array(fc.string()), (request, betas) => {
      const shape = shapeOf(request, 'chat', betas)
      const text = shapeText(shape)
      assert.ok(Buffer.byteLength(text) <= 400)
      assert.match(text, /^1:chat(?::\d+){6}:[0-9a-f]+$/)
      assert.deepEqual(parseShape(text), shape)
      assert.ok(isWithin(shape, shape))
    }),
    { numRuns: 500 },
  )
})

test('shapes: no text, name or address of a request enters one, from 25 places', () => {
  const canary = 'CANARY7f3a'
  const c = (place: number) => `${canary}${place}`
  const body = {
    model: c(1),
    user: c(2),
    metadata: { [c(3)]: c(4) },
    stop: [c(5)],
    safety_identifier: c(6),
    [c(7)]: { [c(8)]: c(9) },
    response_format: {
      type: 'json_schema',
      json_schema: {
        name: c(10),
        description: c(11),
        schema: { type: 'object', [c(12)]: 1, properties: { [c(13)]: { enum: [c(14)], pattern: c(15) } } },
      },
    },
    tools: [
      called(
        'function',
        { type: 'object', properties: { [c(16)]: { description: c(17) } } },
        { name: c(18), description: c(19) },
      ),
    ],
    messages: [
      { role: 'system', content: c(20), name: c(21) },
      { role: 'user', content: [{ type: 'image_url', image_url: { url: `https://${c(22)}.example/` } }] },
      { role: 'assistant', tool_calls: [{ id: c(23), type: 'function', function: { name: c(24), arguments: c(25) } }] },
      { role: 'tool', tool_call_id: c(23), content: c(26) },
    ],
  }
  const shape = shapeOf(decoded('chat', body), 'chat', [c(27)])
  assert.ok(!JSON.stringify(shape).includes(canary))
  assert.ok(!shapeText(shape).includes(canary))
  assert.ok(shape.features.includes('schema.pattern'))
})

test('shapes: malformed texts, those of a later version and `other` are no shapes', () => {
  const text = shapeText(shapeOfChat({ stream: true }))
  const wrong = [
    '',
    OTHER,
    `${text}\n`,
    text.replace(/^1/, '2'),
    text.replace('chat', 'speech'),
    text.replace(':1024:', ':1000:'),
  ]
  for (const one of [...wrong, `${text}0`.replace(/:1?0$/, `:${'f'.repeat(60)}`)])
    assert.equal(parseShape(one), undefined, one)
})

test('shapes: an accepted shape implies smaller ones, but not another choice of tool, effort or prefill', () => {
  const tools = [called('function', { type: 'object', properties: { a: { pattern: '^x' } } })]
  const whole = shapeOfChat({ tools, stream: true })
  assert.ok(isWithin(shapeOfChat({ tools }), whole))
  assert.ok(isWithin(shapeOfChat({}), whole))
  assert.ok(!isWithin(whole, shapeOfChat({ tools })))
  assert.ok(!isWithin(shapeOfChat({ tools }), shapeOfChat({ tools, tool_choice: 'required' })))
  assert.ok(!isWithin(shapeOfChat({ max_tokens: 5_000 }), shapeOfChat({ max_tokens: 1_000 })))
  assert.ok(!isWithin({ ...shapeOfChat({}), style: 'embeddings' }, whole))
})

test('shapes: amounts are in steps', () => {
  assert.deepEqual([0, 1_024, 1_025, 131_073, 1e12].map(tokenStep), [1_024, 1_024, 2_048, 262_144, 2 ** 24])
  const many = Array.from({ length: 200 }, () => called('function', { type: 'object', properties: {} }))
  assert.equal(shapeOfChat({ tools: many }).tools, 129)
  let deep: JsonObject = { type: 'string' }
  for (let level = 0; level < 40; level++) deep = { type: 'object', properties: { a: deep } }
  assert.equal(shapeOfChat({ tools: [called('function', deep)] }).depth, 12)
  assert.deepEqual(Object.keys(shapeOfChat({})).toSorted(), [...AMOUNTS, 'features', 'style'].toSorted())
})
