/** Several choices (`n`) with the official OpenAI SDK, over upstreams that use Gemini's and Mistral's formats. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import OpenAI from 'openai'
import { type JsonObject, object } from '../../src/core/json.ts'
import { skipWithoutRecordings } from '../support/recordings.ts'
import { problemsOf } from '../support/schemas.ts'
import { type Act, startUpstream, type Upstream, type UpstreamRequest } from '../support/upstream.ts'
import { type Started, start } from './support/process.ts'
import { callsOf } from './support/stage.ts'

const TEXTS = ['Hello there.', 'Grüß Gott 👋', 'Good day.']

// ── Two upstreams, by path; the model name selects their answer ──────────────────────────────────────────────────

const countOf = ({ json }: UpstreamRequest): number =>
  Number(json.n ?? object(json.generationConfig)?.candidateCount ?? 1)
const textAt = (index: number): string => TEXTS[index] ?? `text ${index}`

const gemini = (request: UpstreamRequest): Act => {
  if (countOf(request) > 1 && request.path.includes('stream')) return refusal
  if (request.path.includes('gemini-3')) return refusal
  const candidates = Array.from({ length: countOf(request) }, (_, index) => {
    const isBlocked = request.path.includes('blocked') && index === 1
    const place = index === 0 ? {} : { index }
    return isBlocked
      ? { finishReason: 'SAFETY', ...place }
      : { content: { role: 'model', parts: [{ text: textAt(index) }] }, finishReason: 'STOP', ...place }
  })
  const given = request.path.includes('fewer') ? candidates.slice(0, 1) : candidates
  const usageMetadata = { promptTokenCount: 4, candidatesTokenCount: 12, totalTokenCount: 16 }
  return { do: 'answer', body: { candidates: given, usageMetadata, responseId: 'r-1', modelVersion: 'gemini-x' } }
}
const refusal: Act = {
  do: 'answer',
  status: 400,
  body: {
    error: { code: 400, message: 'Multiple candidates is not enabled for this model', status: 'INVALID_ARGUMENT' },
  },
}

const head = { id: 'c0ffee', created: 1_787_150_114, model: 'mistral-x' }
const usage = { prompt_tokens: 4, completion_tokens: 12, total_tokens: 16 }
const mistral = (request: UpstreamRequest): Act => {
  const count = countOf(request)
  const indices = Array.from({ length: count }, (_, index) => index)
  if (!request.stream) {
    const choices = indices.map((index) => ({
      index,
      message: { role: 'assistant', content: textAt(index), tool_calls: null },
      finish_reason: 'stop',
    }))
    return { do: 'answer', body: { ...head, object: 'chat.completion', choices, usage } }
  }
  const chunk = (index: number, delta: JsonObject, finish_reason: string | null, more: JsonObject = {}) =>
    `data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', choices: [{ index, delta, finish_reason }], ...more })}\n\n`
  // The choices alternate, word by word.
  const words = indices.flatMap((index) =>
    textAt(index)
      .split(/(?<= )/)
      .map((content, at) => ({ index, content, at })),
  )
  const pieces = [
    ...indices.map((index) => chunk(index, { role: 'assistant', content: '' }, null)),
    ...words.toSorted((a, b) => a.at - b.at).map(({ index, content }) => chunk(index, { content }, null)),
  ]
  const ends = indices.map((index) => chunk(index, { content: '' }, 'stop', index === count - 1 ? { usage } : {}))
  if (request.model === 'cut') return { do: 'stream', pieces: [...pieces, ...ends.slice(0, 1)], ending: 'close' }
  if (request.model === 'broken')
    return { do: 'stream', pieces: [...pieces, ...ends.slice(0, 1), 'data: {"error":{"message":"no","code":500}}\n\n'] }
  return { do: 'stream', pieces: [...pieces, ...ends, 'data: [DONE]\n\n'], slice: 7 }
}

let upstream: Upstream
let gateway: Started
let client: OpenAI
/** A gateway with Gemini only. */
let alone: Started
before(async () => {
  upstream = await startUpstream((request) => {
    if (request.method === 'GET') return { do: 'answer', body: { models: [], data: [] } }
    return request.path.startsWith('/v1beta') ? gemini(request) : mistral(request)
  })
  const env = { GEMINI_API_KEY: 'AIza-test-0123456789', GEMINI_BASE_URL: `${upstream.url}/v1beta` }
  const more = { MISTRAL_API_KEY: 'mistral-test-0123456789', MISTRAL_BASE_URL: `${upstream.url}/v1` }
  gateway = await start({ env: { ...env, ...more } })
  alone = await start({ env })
  client = new OpenAI({ baseURL: gateway.base, apiKey: 'any', maxRetries: 0 })
})
after(async () => {
  await gateway?.stop()
  await alone?.stop()
  await upstream?.close()
})

type Wishes = { readonly stream: boolean; readonly at?: Started; readonly id?: string }
const ask = async (model: string, n: number, { stream, at, id }: Wishes): Promise<OpenAI.Chat.ChatCompletion> => {
  const { chat } = client.withOptions({ baseURL: (at ?? gateway).base, defaultHeaders: { 'x-request-id': id ?? null } })
  const body = { model, n, messages: [{ role: 'user' as const, content: 'hello' }] }
  if (!stream) return chat.completions.create(body)
  return chat.completions.stream({ ...body, stream_options: { include_usage: true } }).finalChatCompletion()
}

const lastBody = (format: 'gemini' | 'mistral'): JsonObject => {
  const json = callsOf(upstream).at(-1)?.json ?? {}
  const name = format === 'gemini' ? 'GenerateContentRequest' : 'ChatCompletionRequest'
  if (!skipWithoutRecordings) assert.equal(problemsOf(format, name, json), undefined)
  return json
}

for (const stream of [false, true])
  describe(`choices, ${stream ? 'streamed' : 'whole'}`, () => {
    for (const format of ['gemini', 'mistral'] as const)
      test(`three choices from ${format}`, async () => {
        const id = `test-${format}-${stream}`
        const answer = await ask(`${format}/${format}-2.5`, 3, { stream, id })
        assert.deepEqual(
          answer.choices.map(({ index, message, finish_reason }) => [index, message.content, finish_reason]),
          TEXTS.map((text, index) => [index, text, 'stop']),
        )
        assert.equal(answer.id, format === 'gemini' ? 'r-1' : 'c0ffee')
        const { prompt_tokens, completion_tokens, total_tokens } = answer.usage ?? {}
        assert.deepEqual([prompt_tokens, completion_tokens, total_tokens], [4, 12, 16])
        const body = lastBody(format)
        assert.equal(format === 'gemini' ? object(body.generationConfig)?.candidateCount : body.n, 3)
        const line = await gateway.line((one) => one.event === 'request' && one.id === id)
        assert.deepEqual([line.input_tokens, line.output_tokens], [4, 12])
      })

    test('one choice is blocked by a safety filter', async () => {
      const { choices } = await ask('gemini/blocked', 2, { stream })
      assert.deepEqual(
        choices.map(({ message, finish_reason }) => [message.content, finish_reason]),
        [
          [TEXTS[0], 'stop'],
          ['', 'content_filter'],
        ],
      )
    })

    test('a model that rejects several choices', async () => {
      const failed = ask('gemini/gemini-3', 2, { stream, at: alone })
      await assert.rejects(failed, (error) => {
        assert.ok(error instanceof OpenAI.BadRequestError)
        assert.match(error.message, /Multiple candidates is not enabled/)
        return true
      })
    })

    test('another provider answers if a model rejects several choices or returns fewer', async () => {
      for (const model of ['gemini/gemini-3', 'gemini/fewer']) {
        const { choices } = await ask(model, 2, { stream })
        assert.deepEqual(
          choices.map(({ message }) => message.content),
          TEXTS.slice(0, 2),
        )
        assert.equal(lastBody('mistral').n, 2)
      }
    })

    test('more choices than a format supports', async () => {
      await assert.rejects(ask('gemini/gemini-2.5', 9, { stream, at: alone }), (error) => {
        assert.ok(error instanceof OpenAI.BadRequestError)
        assert.deepEqual([error.code, error.param], ['unsupported_parameter', 'n'])
        return true
      })
    })

    test('fewer choices than requested are an error', async () => {
      await assert.rejects(ask('gemini/fewer', 2, { stream, at: alone }), /1 of the 2 requested choices/)
    })
  })

for (const model of ['cut', 'broken'])
  test(`choices: a stream that is ${model} after content fails in the client`, async () => {
    await assert.rejects(ask(`mistral/${model}`, 2, { stream: true }), OpenAI.APIError)
  })
