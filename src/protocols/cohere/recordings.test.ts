/**
 * Cases specific to Cohere: plans, thinking, sources of citations, errors. Uses the project's exchanges, and recordings if
 * present. Other cases: test/conformance.
 */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { answerContext, sequentialIds } from '../../../test/support/builders.ts'
import { evidenceOf } from '../../../test/support/exchanges.ts'
import { type Recording, recordingsPresent, requireRecordings } from '../../../test/support/recordings.ts'
import { type ChatEvent, fold } from '../../core/chat.ts'
import { type Json, type JsonObject, list, object, text } from '../../core/json.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import { run } from '../../core/stage.ts'
import { sseFrames } from '../framing/sse.ts'
import { sharedProtocols } from '../index.ts'
import { cohere } from './index.ts'

const recordings = evidenceOf('cohere')

/** API version 1 has another path and another shape, and is not supported. */
const isVersion1 = ({ request, response, chunks }: Recording): boolean =>
  Object.hasOwn(object(request) ?? {}, 'message') ||
  Object.hasOwn(object(response) ?? {}, 'generation_id') ||
  chunks?.some((chunk) => chunk.includes('"event_type"')) === true

// ── The expected content, read without the codec ───────────────────────────────────────────────────────────────────

type ExpectedAnswer = {
  thinking: string
  plan: string
  /** Cited text and source ID of each citation. */
  citations: Json[]
}

const citationsIn = (citation: Json): Json[] =>
  list(object(citation)?.sources).map((source) => [object(citation)?.text ?? null, object(source)?.id ?? null])

const expectedIn = (body: JsonObject): ExpectedAnswer => {
  const message = object(body.message) ?? {}
  return {
    thinking: list(message.content)
      .map((one) => text(object(one)?.thinking) ?? '')
      .join(''),
    plan: text(message.tool_plan) ?? '',
    citations: list(message.citations).flatMap(citationsIn),
  }
}

const expectedInStream = (events: readonly JsonObject[]): ExpectedAnswer => {
  const expected: ExpectedAnswer = { thinking: '', plan: '', citations: [] }
  for (const { type, delta } of events) {
    const message = object(object(delta)?.message)
    expected.thinking += text(object(message?.content)?.thinking) ?? ''
    expected.plan += text(message?.tool_plan) ?? ''
    if (type === 'citation-start') expected.citations.push(...citationsIn(message?.citations ?? null))
  }
  return expected
}

const check = (events: readonly ChatEvent[], expected: ExpectedAnswer): void => {
  const { blocks } = fold(events)
  const reasoning = (isPlan: boolean) =>
    blocks
      .filter((block) => block.type === 'reasoning' && (block.signature?.value === 'tool_plan') === isPlan)
      .map((block) => block.text)
      .join('')
  assert.equal(reasoning(false), expected.thinking)
  assert.equal(reasoning(true), expected.plan)
  const citations = blocks.flatMap((block) => (block.citations ?? []).map((one) => ({ ...one, of: block.text })))
  assert.deepEqual(
    citations.map(({ raw, start, end, of }) => [
      of.slice(start, end),
      object(list(object(raw)?.sources)[0])?.id ?? null,
    ]),
    expected.citations,
  )
}

// ── To clients and back ──────────────────────────────────────────────────────────────────────────────────────────

const context = (): AnswerContext => answerContext({ id: sequentialIds(), requestId: 'req_x' })

/** The next request of a client that returns the answer unchanged. */
const NEXT_REQUESTS: { readonly [style in keyof typeof sharedProtocols]: (whole: JsonObject) => JsonObject } = {
  'openai-chat': ({ choices }) => ({
    model: 'm',
    messages: [{ role: 'user', content: 'q' }, object(list(choices)[0])?.message ?? null],
  }),
  'openai-responses': ({ output }) => ({ model: 'm', input: [{ role: 'user', content: 'q' }, ...list(output)] }),
  'anthropic-messages': ({ content }) => ({
    model: 'm',
    max_tokens: 9,
    messages: [
      { role: 'user', content: 'q' },
      { role: 'assistant', content: content ?? null },
    ],
  }),
  gemini: ({ candidates }) => ({
    model: 'm',
    contents: [{ parts: [{ text: 'q' }] }, object(list(candidates)[0])?.content ?? null],
  }),
}

/** A client that returns the answer unchanged returns the plan as `tool_plan`, and the thinking. */
const replay = (style: keyof typeof sharedProtocols, whole: JsonObject, expected: ExpectedAnswer): void => {
  const request = sharedProtocols[style].decodeRequest(NEXT_REQUESTS[style](whole))
  assert.ok(request.ok, style)
  const { body, losses } = cohere.encodeRequest(request.value, { model: 'command-a-reasoning-08-2025' })
  assert.deepEqual(
    losses.filter(({ path }) => !/\.(refusal|annotations|citations)$/.test(path)),
    [],
    style,
  )
  const sent = object(list(body.messages)[1]) ?? {}
  assert.equal(sent.tool_plan ?? '', expected.plan, style)
  const kept = list(sent.content).map((one) => text(object(one)?.thinking) ?? '')
  assert.equal(kept.join(''), expected.thinking, style)
}

// ── All exchanges ────────────────────────────────────────────────────────────────────────────────────────────────

requireRecordings()

describe('answers of v2/chat', () => {
  let seen = 0
  for (const recording of recordings) {
    const { id, status, response, chunks } = recording
    if (status !== 200 || isVersion1(recording)) continue
    seen++
    test(id, () => {
      const frames = run(
        sseFrames(),
        (chunks ?? []).map((chunk) => `${chunk}\n\n`),
      )
      const wire = frames.flatMap(({ data }) => (data === '[DONE]' ? [] : [JSON.parse(data)]))
      const expected = chunks ? expectedInStream(wire) : expectedIn(object(response) ?? {})
      const events = chunks ? run(cohere.decodeStream(), frames) : cohere.decodeAnswer(response)
      check(events, expected)
      for (const { name, encodeAnswer } of Object.values(sharedProtocols))
        replay(name, encodeAnswer(fold(events), context()), expected)
    })
  }
  test('the number of exchanges is as expected', () => assert.ok(seen >= (recordingsPresent ? 40 : 30), String(seen)))
})

/** The expected failure kinds of each status. */
const KINDS: { readonly [status: number]: readonly string[] } = {
  400: ['context_length', 'incompatible'],
  401: ['auth'],
  404: ['model_missing'],
  429: ['rate_limited'],
  503: ['overloaded'],
}

describe('errors of v2/chat', () => {
  let seen = 0
  for (const { id, status, response } of recordings) {
    if (status === 200 || status === null) continue
    seen++
    test(id, () => {
      const failure = cohere.decodeFailure(status, response, () => undefined)
      assert.ok(KINDS[status]?.includes(failure.kind), failure.kind)
      assert.equal(failure.upstream?.message, object(response)?.message)
      assert.equal(failure.upstream?.requestId, object(response)?.id)
    })
  }
  test('the number of errors is as expected', () => assert.ok(seen >= 3, String(seen)))
})
