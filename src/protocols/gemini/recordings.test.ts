/** What Gemini and Vertex really said, through the codec, and on to clients of every style. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { recordingsAreHere, recordingsOf, skip } from '../../../test/support/recordings.ts'
import { problemsOf } from '../../../test/support/schemas.ts'
import { type ChatEvent, type ChatRequest, fold } from '../../core/chat.ts'
import { isObject, type Json, type JsonObject, list, object, text } from '../../core/json.ts'
import type { AnswerContext, Frame } from '../../core/protocol.ts'
import { run } from '../../core/stage.ts'
import { retryAfter } from '../../policy/wait.ts'
import { sharedProtocols } from '../index.ts'
import { sseFrames } from '../sse.ts'
import { gemini } from './index.ts'

const recordings = recordingsOf('gemini')

/** Recordings that are no answers, and why. */
const EXCLUDED = new Map([
  ['gemini-gemini-use-cache-with-structured-1', 'an answer of cachedContents'],
  ['gemini-gemini-use-cache-with-text-1', 'an answer of cachedContents'],
])
const excluded = (id: string): string | undefined => [...EXCLUDED].find(([part]) => id.startsWith(part))?.[1]

/** Answers that are failures although their status is 200. */
const FAILS = new Map([['UNEXPECTED_TOOL_CALL', 'malformed']])

// ── A second opinion: what an answer says, read from the wire without the codec ──────────────────────────────────

type Said = {
  text: string
  thoughts: string
  calls: { name: Json; args: Json }[]
  signatures: string[]
  foreign: number
  reason: Json
  usage: { input: number; output: number; reasoning: number; cached: number }
  sources: number
  model: Json
}

const REASONS = ['', 'STOP', 'MAX_TOKENS', 'SAFETY']

const saidIn = (responses: readonly JsonObject[]): Said => {
  const said: Said = {
    text: '',
    thoughts: '',
    calls: [],
    signatures: [],
    foreign: 0,
    reason: null,
    usage: { input: 0, output: 0, reasoning: 0, cached: 0 },
    sources: 0,
    model: null,
  }
  for (const response of responses) {
    said.model ??= response.modelVersion ?? null
    const candidate = object(list(response.candidates)[0]) ?? {}
    for (const part of list(object(candidate.content)?.parts).map((one) => object(one) ?? {})) {
      const words = text(part.text) ?? ''
      const call = object(part.functionCall)
      if (part.thought === true) said.thoughts += words
      else said.text += words
      if (call) said.calls.push({ name: call.name ?? null, args: call.args ?? {} })
      else if (part.text === undefined) said.foreign++
      if (part.thoughtSignature && (call || part.text !== undefined))
        said.signatures.push(String(part.thoughtSignature))
    }
    const { finishReason } = candidate
    if (finishReason !== undefined)
      said.reason = typeof finishReason === 'number' ? (REASONS[finishReason] ?? null) : finishReason
    const usage = object(response.usageMetadata)
    const count = (name: string) => Number(usage?.[name] ?? 0)
    if (usage)
      said.usage = {
        input: count('promptTokenCount') + count('toolUsePromptTokenCount'),
        output: count('candidatesTokenCount') + count('thoughtsTokenCount'),
        reasoning: count('thoughtsTokenCount'),
        cached: count('cachedContentTokenCount'),
      }
    said.sources += list(object(candidate.groundingMetadata)?.groundingChunks).length
  }
  return said
}

const KINDS: { readonly [reason: string]: string } = {
  STOP: 'stop',
  MAX_TOKENS: 'length',
  SAFETY: 'content-filter',
  MODEL_ARMOR: 'content-filter',
}

const check = (id: string, events: readonly ChatEvent[], said: Said): void => {
  const answer = fold(events)
  const failure = FAILS.get(String(said.reason))
  assert.equal(answer.failure?.kind, failure)
  const of = (type: string) => answer.blocks.filter((block) => block.type === type)
  const words = (type: string) =>
    of(type)
      .map((block) => block.text)
      .join('')
  assert.equal(words('text'), said.text)
  assert.equal(words('reasoning'), said.thoughts)
  const calls = answer.blocks.filter((block) => block.type === 'tool-call')
  assert.deepEqual(
    calls.map((block) => ({ name: block.name, args: JSON.parse(block.text) })),
    said.calls,
  )
  assert.equal(new Set(calls.map(({ id }) => id)).size, calls.length)
  assert.equal(of('foreign').length, said.foreign)
  assert.deepEqual(
    answer.blocks.flatMap((block) => block.proof?.value ?? []),
    said.signatures,
  )
  for (const { proof } of answer.blocks)
    if (proof?.id !== undefined) assert.ok(calls.some((call) => call.id === proof.id))
  assert.equal(answer.model ?? null, said.model)
  const { input, output, reasoning = 0, cacheRead = 0, raw } = answer.usage ?? { input: 0, output: 0 }
  assert.deepEqual({ input, output, reasoning, cached: cacheRead }, said.usage)
  const total = object(raw)?.totalTokenCount
  if (typeof total === 'number' && total > 0)
    assert.equal(input + output === total, !UNEVEN.has(id), `${input} ${output} ${total}`)
  if (failure) return
  assert.equal(events.filter(({ type }) => type === 'finish').length, 1)
  const kind = KINDS[String(said.reason)]
  assert.equal(answer.finish?.kind, kind === 'stop' && calls.length > 0 ? 'tool-calls' : kind)
  if (said.sources > 0 && said.text !== '')
    assert.ok(
      of('text').some(({ citations }) => (citations?.length ?? 0) > 0),
      'its sources are lost',
    )
}

/** Fixtures edited by hand, whose counts do not add up. */
const UNEVEN = new Set([
  'gemini-gemini-generate-text-with-a-prompt-with-no-thinking-bud-ff2a91a3',
  'gemini-gemini-generate-text-with-a-prompt-with-thinking-budget-c7a0463c',
  'gemini-gemini-media-detection-2-bf2a915f',
])

// ── To clients ───────────────────────────────────────────────────────────────────────────────────────────────────

const SCHEMAS = {
  'openai-chat': ['openai:wire', 'CreateChatCompletionResponse'],
  'openai-responses': ['openai:wire', 'Response'],
  'anthropic-messages': ['anthropic:wire', 'BetaMessage'],
} as const

const context = (): AnswerContext => {
  const request: ChatRequest = { model: 'm', stream: true, messages: [], tools: [], settings: {}, extras: [] }
  let made = 0
  return { request, body: {}, id: (prefix) => `${prefix}_made${made++}`, created: 1, model: 'm', requestId: 'req_x' }
}

/** Every style of client is told the same answer, whole and streamed, by its published schema. */
const tellClients = (events: readonly ChatEvent[], said: Said): void => {
  if (fold(events).failure) return
  for (const style of Object.values(sharedProtocols)) {
    const [schema, definition] = SCHEMAS[style.name]
    const whole = style.encodeAnswer(fold(events), context())
    assert.equal(problemsOf(schema, definition, whole), undefined, style.name)
    const stream = run(style.encodeStream(context()), [{ events }])
    const again = fold(run(style.decodeStream(), run(sseFrames(), stream)))
    assert.equal(again.failure, undefined)
    for (const told of [again, fold(style.decodeAnswer(whole))]) {
      const texts = told.blocks.flatMap((block) => (block.type === 'text' ? [block.text] : []))
      assert.equal(texts.join(''), said.text, style.name)
      const calls = told.blocks.filter((block) => block.type === 'tool-call')
      assert.deepEqual(
        calls.map((block) => ({ name: block.name, args: JSON.parse(block.text) })),
        said.calls,
      )
    }
  }
}

/** What a client that keeps the whole answer sends back holds every signature on the part it came with. */
const replays = (events: readonly ChatEvent[], responses: readonly JsonObject[]): void => {
  const answer = fold(events)
  if (answer.failure || answer.blocks.length === 0 || answer.blocks.some(({ type }) => type === 'foreign')) return
  const content = answer.blocks.map((block, index) =>
    block.type === 'tool-call'
      ? { type: block.type, at: `c[${index}]`, id: block.id, name: block.name, arguments: block.text }
      : block.type === 'reasoning'
        ? { type: block.type, at: `c[${index}]`, text: block.text, ...(block.proof && { proof: block.proof }) }
        : { type: 'text' as const, at: `c[${index}]`, text: block.text },
  )
  const request: ChatRequest = {
    model: 'm',
    stream: false,
    messages: [{ role: 'assistant', at: 'c', content }],
    tools: [],
    settings: {},
    extras: [],
  }
  const { body } = gemini.encodeRequest(request, { model: 'gemini-2.5-flash' })
  const signed = (parts: readonly Json[]) =>
    parts.flatMap((one) => {
      const part = object(one) ?? {}
      const call = object(part.functionCall)
      return part.thoughtSignature && (call || part.text) ? [[call?.name ?? 'text', part.thoughtSignature]] : []
    })
  const sent = signed(list(body.contents).flatMap((turn) => list(object(turn)?.parts)))
  const got = responses.flatMap((response) =>
    list(response.candidates).flatMap((one) => signed(list(object(object(one)?.content)?.parts))),
  )
  for (const one of got) assert.ok(sent.some((other) => JSON.stringify(other) === JSON.stringify(one)))
  assert.equal(problemsOf('gemini', 'GenerateContentRequest', body), undefined)
}

// ── The sweep ────────────────────────────────────────────────────────────────────────────────────────────────────

recordingsAreHere()

const framesOf = (pieces: readonly string[]): Frame[] => run(sseFrames(), pieces)

describe('recorded answers of generateContent', { skip }, () => {
  let seen = 0
  for (const { id, status, response, chunks } of recordings) {
    if (status !== 200 || chunks || excluded(id)) continue
    seen++
    test(id, () => {
      const responses = (Array.isArray(response) ? response : [response]).filter(isObject)
      const said = saidIn(responses)
      const events = gemini.decodeAnswer(response)
      check(id, events, said)
      tellClients(events, said)
      replays(events, responses)
    })
  }
  test('there are enough of them', () => assert.ok(seen > 200, String(seen)))
})

describe('recorded streams of generateContent', { skip }, () => {
  let seen = 0
  for (const { id, status, chunks } of recordings) {
    if (status !== 200 || !chunks) continue
    seen++
    test(id, () => {
      const source = chunks.map((chunk) => `${chunk}\n\n`)
      const frames = framesOf(source)
      const responses = frames.map(({ data }) => JSON.parse(data))
      const said = saidIn(responses)
      const events = run(gemini.decodeStream(), frames)
      check(id, events, said)
      tellClients(events, said)
      replays(events, responses)
      // One character at a time the events are the same.
      assert.deepEqual(run(gemini.decodeStream(), framesOf([...source.join('')])), events)
      // Cut before its last event it is never taken for complete.
      if (frames.length > 1) {
        const last = frames.findIndex(({ data }) => data.includes('finishReason'))
        const cut = run(gemini.decodeStream(), frames.slice(0, last))
        assert.equal(cut.at(-1)?.type, 'failure')
        assert.ok(cut.every(({ type }) => type !== 'finish'))
      }
    })
  }
  test('there are enough of them', () => assert.ok(seen > 80, String(seen)))
})

const ERRORS: { readonly [status: number]: readonly string[] } = {
  400: ['auth', 'context_length', 'invalid_request'],
  403: ['permission'],
  404: ['model_missing'],
  429: ['rate_limited'],
}

describe('recorded errors of generateContent', { skip }, () => {
  let seen = 0
  for (const { id, status, response } of recordings) {
    if (status === 200 || status === null) continue
    seen++
    test(id, () => {
      const failure = gemini.decodeFailure(status, response, () => undefined)
      assert.ok(ERRORS[status]?.includes(failure.kind), failure.kind)
      const details = JSON.stringify(response)
      assert.equal(failure.kind === 'auth', details.includes('API_KEY_INVALID'))
      assert.equal(failure.kind === 'context_length', details.includes('input token count'))
      if (details.includes('"retryDelay":"34.4s"'))
        assert.equal(
          retryAfter(() => undefined, response, 0),
          34_400,
        )
      // The same, in a list, as its compatible endpoint sends it.
      assert.deepEqual(
        gemini.decodeFailure(status, [response], () => undefined),
        failure,
      )
    })
  }
  test('there are some', () => assert.ok(seen > 10, String(seen)))
})
