/**
 * The official OpenAI and Anthropic SDKs with an upstream that uses Bedrock's Converse format and its binary streams.
 */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import { isObject, type Json, type JsonObject, list, object } from '../../src/core/json.ts'
import { converseStream } from '../support/converse.ts'
import { event, exception } from '../support/event-stream.ts'
import { skipWithoutRecordings } from '../support/recordings.ts'
import { problemsOf } from '../support/schemas.ts'
import type { Act, Script, UpstreamRequest } from '../support/upstream.ts'
import { start } from './support/process.ts'
import { CITIES, DONE, QUESTION, SYSTEM, startConversation, WAYS, weather } from './support/speakers.ts'

const KEY = 'bedrock-api-key-YWJjZGVmZ2hpamtsbW5vcA'
const SIGNATURE = 'EtkBCkgIEBABGAIqQIyk4xd3CqsRUUTwvwG0mlOurutR8EyBalCaLgrV+/=='
const SEALED = 'RXRrRUNrZ0lCeEFCR0FJcVFKVGZxUy9QWXVBRlplT2xzNlI4dUdOMDE0WU4='
const CLAUDE = 'us.anthropic.claude-sonnet-4-5-20250929-v1:0'
const MODEL = `bedrock/${CLAUDE}`

// ── The upstream ─────────────────────────────────────────────────────────────────────────────────────────────────

const usage = {
  inputTokens: 20,
  outputTokens: 37,
  cacheReadInputTokens: 100,
  cacheWriteInputTokens: 0,
  totalTokens: 157,
}

const THOUGHT = { reasoningContent: { reasoningText: { text: 'I need the weather.', signature: SIGNATURE } } }
const SECRET = { reasoningContent: { redactedContent: SEALED } }

const blocksIn = ({ json }: Pick<UpstreamRequest, 'json'>): JsonObject[] =>
  list(json.messages).flatMap((turn) => list(object(turn)?.content).filter(isObject))

/** The model's blocks: reasoning and calls for the weather of two cities. After both results: text that repeats them. */
const blocksFor = (request: UpstreamRequest): JsonObject[] => {
  const results = blocksIn(request).flatMap(({ toolResult }) =>
    list(object(toolResult)?.content).flatMap((one) => object(one)?.text ?? []),
  )
  if (request.json.toolConfig === undefined) return [{ text: 'Hello there, 🦜.' }]
  if (results.length > 0) return [{ text: `It is ${results.join(' and ')}.` }]
  const calls = CITIES.map((city, at) => ({
    toolUse: { toolUseId: `tooluse_${at}-hx_GWRc`, name: 'get_weather', input: { city } },
  }))
  return [THOUGHT, SECRET, { text: 'Let me look.' }, ...calls]
}

const reasonOf = (blocks: readonly JsonObject[]) => (blocks.some(({ toolUse }) => toolUse) ? 'tool_use' : 'end_turn')

/** The events of an answer as ConverseStream sends them: text and input in small pieces, with padding. */
const piecesOf = (blocks: readonly JsonObject[]): Uint8Array[] => [
  event('messageStart', { role: 'assistant', p: 'abcdefgh' }),
  ...blocks.flatMap((block, contentBlockIndex) => {
    const delta = (piece: JsonObject) => event('contentBlockDelta', { contentBlockIndex, delta: piece, p: 'abc' })
    const use = object(block.toolUse)
    const thought = object(block.reasoningContent)
    const reasoning = object(thought?.reasoningText)
    const few = (text: unknown) => String(text).match(/[\s\S]{1,6}/gu) ?? []
    return [
      ...(use
        ? [
            event('contentBlockStart', {
              contentBlockIndex,
              start: { toolUse: { toolUseId: use.toolUseId, name: use.name } },
            }),
            ...few(JSON.stringify(use.input)).map((input) => delta({ toolUse: { input } })),
          ]
        : []),
      ...(reasoning
        ? [
            ...few(reasoning.text).map((text) => delta({ reasoningContent: { text } })),
            delta({ reasoningContent: { signature: reasoning.signature } }),
          ]
        : []),
      ...(thought?.redactedContent ? [delta({ reasoningContent: { redactedContent: thought.redactedContent } })] : []),
      ...(typeof block.text === 'string' ? few(block.text).map((text) => delta({ text })) : []),
      event('contentBlockStop', { contentBlockIndex }),
    ]
  }),
  event('messageStop', { stopReason: reasonOf(blocks) }),
  event('metadata', { usage, metrics: { latencyMs: 3 }, p: 'a' }),
]

const usual: Script = (request): Act => {
  const blocks = blocksFor(request)
  if (request.stream) return converseStream(piecesOf(blocks), { slice: 13 })
  const message = { role: 'assistant', content: blocks }
  return {
    do: 'answer',
    body: { output: { message }, stopReason: reasonOf(blocks), usage, metrics: { latencyMs: 3 } },
  }
}

const { upstream, gateway, speak, lastRequest } = await startConversation(usual, MODEL, (url) => ({
  BEDROCK_API_KEY: KEY,
  BEDROCK_BASE_URL: url,
  BEDROCK_STYLES: 'bedrock',
  CIRCUIT_CONSECUTIVE_FAILURES: '100',
}))
const openai = new OpenAI({ baseURL: gateway.base, apiKey: 'any', maxRetries: 0 })
const anthropic = new Anthropic({ baseURL: gateway.url, apiKey: 'any', maxRetries: 0 })

/** Checks the last upstream request: path, style, key, and validity by the published schema. */
const assertRequest = (stream: boolean): UpstreamRequest => {
  const request = lastRequest()
  const { path, headers, json } = request
  assert.equal(path, `/model/${encodeURIComponent(CLAUDE)}/converse${stream ? '-stream' : ''}`)
  assert.equal(headers.authorization, `Bearer ${KEY}`)
  assert.equal(headers.accept, stream ? 'application/vnd.amazon.eventstream' : 'application/json')
  if (!skipWithoutRecordings) assert.equal(problemsOf('bedrock', 'ConverseRequest', json), undefined)
  return request
}

/** The messages of an upstream request, each block in one line. */
const turnsIn = ({ json }: UpstreamRequest): Json =>
  list(json.messages).map((turn) =>
    list(object(turn)?.content).map((one) => {
      const { text, toolUse, toolResult, reasoningContent } = object(one) ?? {}
      const use = object(toolUse)
      const result = object(toolResult)
      const thought = object(reasoningContent)
      if (use) return `call ${use.toolUseId} ${object(use.input)?.city}`
      if (result) return `result ${result.toolUseId} ${list(result.content).map((each) => object(each)?.text)}`
      if (thought) return `thought ${thought.redactedContent ?? object(thought.reasoningText)?.signature}`
      return `text ${text}`
    }),
  )

const SENT_BACK = [
  [`text ${QUESTION}`],
  [
    `thought ${SIGNATURE}`,
    `thought ${SEALED}`,
    'text Let me look.',
    'call tooluse_0-hx_GWRc Paris',
    'call tooluse_1-hx_GWRc Tokyo',
  ],
  ['result tooluse_0-hx_GWRc wet in Paris', 'result tooluse_1-hx_GWRc dry in Tokyo'],
]

// ── Clients ──────────────────────────────────────────────────────────────────────────────────────────────────────

for (const { style, stream, way } of WAYS)
  describe(`bedrock: ${way}`, () => {
    test('an answer', async () => {
      const { text, finish, tokens, cached } = await speak[style](QUESTION, { stream, tools: false })
      assert.deepEqual([text, finish], ['Hello there, 🦜.', 'stop'])
      // Prompt tokens include cached tokens, except in Messages.
      assert.deepEqual([...tokens, cached], [style === 'messages' ? 20 : 120, 37, 100])
      const { json } = assertRequest(stream)
      assert.deepEqual(json.system, [{ text: SYSTEM }])
      const limit = style === 'messages' ? { maxTokens: 500 } : {}
      assert.deepEqual(json.inferenceConfig, { temperature: 0.5, ...limit })
    })

    test('parallel calls and their results: reasoning is sent back with its signatures', async () => {
      const first = await speak[style](QUESTION, { stream, tools: true })
      assert.deepEqual([first.finish, first.reasoning], ['calls', 'I need the weather.'])
      assert.deepEqual(
        first.calls.map(({ input }) => input),
        CITIES.map((city) => ({ city })),
      )
      const done = await first.next(weather)
      assert.equal(done.text, DONE)
      assert.deepEqual(turnsIn(assertRequest(stream)), SENT_BACK)
    })
  })

test('bedrock: an ARN is one path segment', async () => {
  const arn = 'arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/mi1dadi0g15f'
  const answer = await openai.chat.completions.create({
    model: `bedrock/${arn}`,
    messages: [{ role: 'user', content: 'Hello' }],
  })
  assert.equal(answer.choices[0]?.message.content, 'Hello there, 🦜.')
  assert.equal(lastRequest().path, `/model/${encodeURIComponent(arn)}/converse`)
  assert.equal(lastRequest().model, arn)
})

// ── Failures ─────────────────────────────────────────────────────────────────────────────────────────────────────

const [HELLO] = [[{ text: 'Hello there, my friend.' }]]
const WHOLE = piecesOf(HELLO)
/** The events up to the third piece of text. */
const BEGUN = WHOLE.slice(0, 4)
const damaged = (bytes: Uint8Array): Uint8Array => bytes.map((byte, at) => (at === bytes.length - 30 ? byte ^ 4 : byte))

const breaks: readonly (readonly [name: string, act: () => Act, words: RegExp])[] = [
  ['the connection is cut', () => converseStream(BEGUN, { ending: 'reset' }), /broke off|ended|reset|interrupted/i],
  ['the body ends without a final event', () => converseStream(BEGUN), /ended before it was complete/],
  [
    'an exception',
    () => converseStream([...BEGUN, exception('modelStreamErrorException', { message: 'The model fell over.' })]),
    /The model fell over\./,
  ],
  [
    'a corrupt message',
    () => converseStream([...BEGUN, damaged(WHOLE[4] as Uint8Array), ...WHOLE.slice(5)]),
    /cannot be read/,
  ],
]

describe('bedrock: a broken stream never ends cleanly', () => {
  for (const [name, act, words] of breaks) {
    const broken = async (read: () => Promise<void>): Promise<Error & { code?: unknown; error?: unknown }> => {
      upstream.play(act)
      try {
        await read()
      } catch (error) {
        return error as Error
      } finally {
        upstream.play(usual)
      }
      assert.fail('treated as complete')
    }

    test(`chat: ${name}`, async () => {
      let receivedText = ''
      const error = await broken(async () => {
        const chunks = await openai.chat.completions.create({
          model: MODEL,
          messages: [{ role: 'user', content: 'Hello' }],
          stream: true,
        })
        for await (const chunk of chunks) {
          receivedText += chunk.choices[0]?.delta.content ?? ''
          assert.equal(chunk.choices[0]?.finish_reason ?? null, null)
        }
      })
      assert.equal(receivedText, 'Hello there, my fr')
      assert.equal(error.code, 'stream_interrupted')
      assert.match(error.message, words)
    })

    test(`messages: ${name}`, async () => {
      let receivedText = ''
      const error = await broken(async () => {
        const events = await anthropic.messages.create({
          model: MODEL,
          max_tokens: 100,
          messages: [{ role: 'user', content: 'Hello' }],
          stream: true,
        })
        for await (const one of events) {
          if (one.type === 'content_block_delta' && one.delta.type === 'text_delta') receivedText += one.delta.text
          assert.notEqual(one.type, 'message_stop')
        }
      })
      assert.equal(receivedText, 'Hello there, my fr')
      assert.match(JSON.stringify(error.error), words)
    })
  }

  const early: readonly (readonly [name: string, act: Act, status: number, code: string])[] = [
    [
      'throttled in mid-stream',
      converseStream([exception('throttlingException', { message: 'Too many tokens' })]),
      429,
      'rate_limited',
    ],
    [
      'prompt too long, in mid-stream',
      converseStream([exception('validationException', { message: 'Input is too long for requested model.' })]),
      400,
      'context_length_exceeded',
    ],
    [
      'throttled before the stream',
      {
        do: 'answer',
        status: 429,
        headers: { 'x-amzn-errortype': 'ThrottlingException:http://internal.amazon.com/coral/' },
        body: { message: 'Too many requests' },
      },
      429,
      'rate_limited',
    ],
    ['only a start event', converseStream(WHOLE.slice(0, 1)), 502, 'truncated'],
  ]
  for (const [name, act, status, code] of early)
    test(`before any content: ${name}`, async () => {
      const own = await start({
        env: {
          BEDROCK_API_KEY: KEY,
          BEDROCK_BASE_URL: upstream.url,
          BEDROCK_STYLES: 'bedrock',
          RETRY_MAX_ATTEMPTS: '1',
        },
      })
      upstream.play(() => act)
      try {
        const response = await fetch(`${own.base}/chat/completions`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: 'Hello' }], stream: true }),
        })
        assert.equal(response.status, status)
        assert.equal(object(object((await response.json()) as Json)?.error)?.code, code)
      } finally {
        upstream.play(usual)
        await own.stop()
      }
    })
})

test('bedrock: no log line contains the key', async () => {
  await gateway.logged()
  assert.ok(!gateway.output().includes(KEY))
})
