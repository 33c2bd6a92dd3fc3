/** Requests for several choices (`n`) at providers of other formats. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chatAnswer, gatewayHarness, instance, respondWith } from '../../../test/support/gateway.ts'
import type { ScriptedCall } from '../../../test/support/still-world.ts'
import type { UpstreamProtocolName } from '../../core/chat.ts'
import { type Json, type JsonObject, list, object } from '../../core/json.ts'
import { summarize } from '../../core/trace-summary.ts'
import geminiProvider from '../../providers/gemini.ts'

const hostOf = ({ url }: ScriptedCall) => new URL(url).host.split('.')[0] ?? ''
const bodyOf = ({ body }: ScriptedCall): JsonObject => object(JSON.parse(body ?? '{}')) ?? {}

type Format = UpstreamProtocolName
type Script = (asked: ScriptedCall) => void
type Hosts = { readonly [host: string]: readonly [format: Format, script: Script] }

const ask = async (hosts: Hosts, body: object = {}, settings: object = {}, more: object = {}) => {
  const { send, world, events } = gatewayHarness(
    Object.entries(hosts).map(([id, [protocol]]) => {
      const quirks = protocol === 'gemini' ? { errors: geminiProvider.quirks.errors } : {}
      return { ...instance(id, ['k1'], { speaks: [{ protocol }], supportsPrefill: { protocol }, quirks }), ...more }
    }),
    (asked) => hosts[hostOf(asked)]?.[1](asked),
    { ...settings, strategy: 'priority' },
  )
  const reply = send({ model: 'x', messages: [{ role: 'user', content: 'hi' }], n: 2, ...body })
  await world.advance(100_000)
  await reply.done
  const exchange = events.find((item) => item.event === 'request')
  assert.ok(exchange?.event === 'request')
  return { reply, summary: summarize(exchange.trace), calls: world.calls }
}

const part = (text: string, more: JsonObject = {}): JsonObject => ({ content: { parts: [{ text }] }, ...more })
const usageMetadata = { promptTokenCount: 4, candidatesTokenCount: 9, totalTokenCount: 13 }
const candidates = (...found: readonly JsonObject[]): string =>
  JSON.stringify({ candidates: found, usageMetadata, responseId: 'r1', modelVersion: 'gemini-x' })
const two = candidates(part('a', { finishReason: 'STOP' }), part('b', { finishReason: 'SAFETY', index: 1 }))
const answers = (body: string): Script => {
  return (asked) => respondWith.json(asked, 200, body)
}

const usage = { prompt_tokens: 4, completion_tokens: 9, total_tokens: 13 }
const chunk = (index: number, content: string, end: string | null = null, more: JsonObject = {}): string =>
  `data: ${JSON.stringify({ id: 'c1', model: 'm', created: 5, choices: [{ index, delta: { content }, finish_reason: end }], ...more })}\n\n`
const streams =
  (...pieces: readonly string[]): Script =>
  (asked) =>
    respondWith.stream(asked, pieces.join(''))
const bothWays = streams(chunk(0, 'a'), chunk(1, 'b', 'length'), chunk(0, 'c', 'stop', { usage }), 'data: [DONE]\n\n')

/** The choices of a chat completion or of its chunks: text and reason of each. */
const choicesIn = (text: string): readonly (readonly [text: string, reason: Json])[] => {
  const found = new Map<number, [string, Json]>()
  const bodies = text.startsWith('{') ? [text] : [...text.matchAll(/^data: (\{.*)$/gm)].map(([, json = '']) => json)
  for (const choice of bodies.flatMap((json) => list(object(JSON.parse(json))?.choices))) {
    const { index, delta, message, finish_reason = null } = object(choice) ?? {}
    const [before, reason] = found.get(Number(index)) ?? ['', null]
    found.set(Number(index), [before + (object(delta ?? message)?.content ?? ''), finish_reason ?? reason])
  }
  return [...found].sort(([a], [b]) => a - b).map(([, choice]) => choice)
}

for (const stream of [false, true])
  test(`choices: Gemini receives candidateCount, and answers whole (stream: ${stream})`, async () => {
    const options = stream ? { stream, stream_options: { include_usage: true } } : {}
    const { reply, summary, calls } = await ask({ g: ['gemini', answers(two)] }, options)
    assert.equal(reply.status, 200)
    assert.deepEqual(choicesIn(reply.text), [
      ['a', 'stop'],
      ['b', 'content_filter'],
    ])
    assert.equal(reply.text.includes('[DONE]'), stream)
    assert.equal(reply.text.split('"total_tokens":13').length, 2)
    const [asked] = calls
    assert.ok(asked)
    assert.match(asked.url, /:generateContent$/)
    assert.equal(asked.headers.accept, 'application/json')
    assert.deepEqual(bodyOf(asked).generationConfig, { candidateCount: 2 })
    assert.deepEqual([summary.usage?.input, summary.usage?.output, summary.estimated], [4, 9, undefined])
    assert.equal(reply.headers['x-headgate-trail'], 'g#k1:200')
  })

for (const stream of [false, true])
  test(`choices: Mistral receives n (stream: ${stream})`, async () => {
    const message = (content: string) => ({ role: 'assistant', content })
    const whole = {
      id: 'c1',
      choices: [
        { index: 1, message: message('b'), finish_reason: 'length' },
        { index: 0, message: message('ac'), finish_reason: 'stop' },
      ],
      usage,
    }
    const script = stream ? bothWays : answers(JSON.stringify(whole))
    const { reply, summary, calls } = await ask({ m: ['mistral', script] }, { stream })
    assert.deepEqual(choicesIn(reply.text), [
      ['ac', 'stop'],
      ['b', 'length'],
    ])
    assert.equal(calls[0] && bodyOf(calls[0]).n, 2)
    assert.deepEqual([summary.usage?.input, summary.usage?.output], [4, 9])
  })

for (const [format, script] of [
  ['mistral', bothWays],
  ['gemini', answers(two)],
] as const)
  test(`choices: ${format}, where whole answers are requested as streams`, async () => {
    const { reply, calls } = await ask({ m: [format, script] }, {}, {}, { aggregate: true })
    assert.equal(choicesIn(reply.text).length, 2)
    assert.equal(object(reply.json.usage)?.total_tokens, 13)
    assert.equal(calls[0]?.headers.accept, format === 'mistral' ? 'text/event-stream' : 'application/json')
  })

test('choices: tools keep their names in each choice', async () => {
  const name = `${'long'.repeat(40)} name`
  const call = (asked: ScriptedCall, city: string) => {
    const [tools] = list(bodyOf(asked).tools)
    const [declared] = list(object(tools)?.functionDeclarations)
    return { functionCall: { name: object(declared)?.name ?? '', args: { city } } }
  }
  const script: Script = (asked) => {
    const made = ['Paris', 'Tokyo'].map((city, index) => ({
      content: { parts: [call(asked, city)] },
      finishReason: 'STOP',
      index,
    }))
    respondWith.json(asked, 200, candidates(...made))
  }
  const tools = [{ type: 'function', function: { name, parameters: { type: 'object', properties: {} } } }]
  const { reply } = await ask({ g: ['gemini', script] }, { tools })
  const calls = list(reply.json.choices).map((choice) => {
    const made = object(object(list(object(object(choice)?.message)?.tool_calls)[0])?.function)
    return [object(choice)?.finish_reason, made?.name, made?.arguments]
  })
  assert.deepEqual(calls, [
    ['tool_calls', name, '{"city":"Paris"}'],
    ['tool_calls', name, '{"city":"Tokyo"}'],
  ])
})

// ── Providers without choices, and failures ─────────────────────────────────────────────────────────────────────────

const never: Script = () => assert.fail('asked')
for (const [format, count] of [
  ['gemini', 9],
  ['anthropic-messages', 2],
  ['bedrock-converse', 2],
  ['cohere', 2],
  ['ollama', 2],
  ['openai-responses', 2],
] as const)
  test(`choices: ${format} is unfit for ${count}`, async () => {
    const alone = await ask({ a: [format, never] }, { n: count })
    assert.equal(alone.reply.status, 400)
    const { code, param } = alone.reply.json.error
    assert.deepEqual([code, param], ['unsupported_parameter', 'n'])
    const fit = await ask({ a: [format, never], b: ['openai-chat', answers(chatAnswer.whole('by b'))] }, { n: count })
    assert.match(fit.reply.text, /by b/)
  })

for (const message of [
  'Multiple candidates is not enabled for this model',
  'Multiple candidates is not enabled for models/gemini-2.5-flash-image-preview',
  'Only one candidate can be specified',
  'Unable to submit request because candidateCount must be 1 but the entered value was 2. Update it and try again.',
  'Unable to submit request because it has a candidateCount value of 2 but the supported range is from 1 to 2.',
])
  test(`choices: a model that refuses them leads to the next vendor: ${message}`, async () => {
    const refuses: Script = (asked) => respondWith.error(asked, 400, { code: 400, status: 'INVALID_ARGUMENT', message })
    const { reply } = await ask({ g: ['gemini', refuses], m: ['mistral', bothWays] }, { stream: true })
    assert.equal(reply.headers['x-headgate-trail'], 'g#k1:incompatible, m#k1:200')
    assert.equal(choicesIn(reply.text).length, 2)
    const alone = await ask({ g: ['gemini', refuses] })
    assert.deepEqual([alone.reply.status, alone.reply.json.error.message], [400, message])
  })

const broken: readonly (readonly [string, Format, Script, string])[] = [
  ['fewer candidates', 'gemini', answers(candidates(part('a', { finishReason: 'STOP' }))), 'malformed'],
  [
    'a candidate without an end',
    'gemini',
    answers(candidates(part('a', { finishReason: 'STOP' }), part('b', { index: 1 }))),
    'truncated',
  ],
  [
    'a candidate that cannot be used',
    'gemini',
    answers(candidates(part('a', { finishReason: 'STOP' }), { index: 1, finishReason: 'OTHER' })),
    'error_in_stream',
  ],
  ['nothing', 'mistral', streams('data: [DONE]\n\n'), 'truncated'],
]
for (const [name, format, script, kind] of broken)
  test(`choices: ${name}: the next target answers`, async () => {
    const { reply } = await ask({ a: [format, script], b: ['mistral', bothWays] }, { stream: true })
    assert.equal(reply.headers['x-headgate-trail'], `a#k1:${kind}, b#k1:200`)
    assert.equal(choicesIn(reply.text).length, 2)
  })

const interrupted: readonly (readonly [string, Script, RegExp])[] = [
  ['one choice has not ended', streams(chunk(0, 'a', 'stop'), chunk(1, 'b')), /answer ended before it was complete/],
  ['one choice never began', streams(chunk(0, 'a', 'stop'), 'data: [DONE]\n\n'), /without all requested choices/],
  [
    'an error',
    streams(chunk(0, 'a'), chunk(1, 'b', 'stop'), 'data: {"error":{"message":"no","code":500}}\n\n'),
    /"no"/,
  ],
  [
    'a malformed event',
    streams(chunk(0, 'a'), 'data: {oops\n\n', chunk(0, 'b', 'stop'), chunk(1, 'b', 'stop')),
    /not JSON/,
  ],
]
for (const [name, script, message] of interrupted)
  test(`choices: after content, ${name}: the stream ends in an error, and no other model continues it`, async () => {
    const settings = { stream: { continue: true } }
    const hosts: Hosts = { a: ['mistral', script], b: ['mistral', never] }
    const { reply, summary } = await ask(hosts, { stream: true }, settings)
    assert.equal(reply.status, 200)
    assert.equal(reply.text.split('stream_interrupted').length, 2)
    assert.match(reply.text, message)
    assert.ok(!reply.text.includes('[DONE]'))
    assert.equal(summary.outcome, 'interrupted')
  })

test('choices: a slow provider is not hedged', async () => {
  const slow: Script = (asked) => {
    asked.head(200, { 'content-type': 'text/event-stream' })
  }
  const settings = { hedge: { percent: 100 }, circuit: { timeout: 5_000 } }
  const { calls } = await ask({ a: ['mistral', slow], b: ['mistral', bothWays] }, { stream: true }, settings)
  assert.equal(calls.length, 2)
  assert.ok((calls[1]?.at ?? 0) >= 6_000)
})

test('choices: a chat upstream that answers a streamed request with a whole body', async () => {
  const message = (content: string) => ({ role: 'assistant', content })
  const choices = ['a', 'b'].map((content, index) => ({ index, message: message(content), finish_reason: 'stop' }))
  const { reply } = await ask({ a: ['openai-chat', answers(chatAnswer.whole('', { choices }))] }, { stream: true })
  assert.deepEqual(choicesIn(reply.text), [
    ['a', 'stop'],
    ['b', 'stop'],
  ])
  assert.match(reply.text, /\[DONE\]/)
})
