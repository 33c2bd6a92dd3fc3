/**
 * Cases specific to Gemini and Vertex: signatures, which return on the same parts; token counts; errors. Uses the project's
 * exchanges, and recordings if present. Other cases: test/conformance.
 */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { assistantMessage, chatRequest, contentOf } from '../../../test/support/builders.ts'
import { evidenceOf } from '../../../test/support/exchanges.ts'
import { recordingsPresent, requireRecordings } from '../../../test/support/recordings.ts'
import { problemsIfPresent } from '../../../test/support/schemas.ts'
import { type ChatEvent, fold } from '../../core/chat.ts'
import { isObject, type Json, type JsonObject, list, object } from '../../core/json.ts'
import { run } from '../../core/stage.ts'
import { retryAfter } from '../../policy/retry/retry-after.ts'
import { sseFrames } from '../framing/sse.ts'
import { gemini } from './index.ts'

const recordings = evidenceOf('gemini')

/** Recordings edited by hand, whose counts do not add up to the total. */
const UNEVEN = new Set([
  'gemini-gemini-generate-text-with-a-prompt-with-no-thinking-bud-ff2a91a3',
  'gemini-gemini-generate-text-with-a-prompt-with-thinking-budget-c7a0463c',
  'gemini-gemini-media-detection-2-bf2a915f',
])

/** Checks that every signature of a call or text is decoded, and that the counts add up to the total. */
const check = (id: string, events: readonly ChatEvent[], responses: readonly JsonObject[]): void => {
  const { blocks, usage } = fold(events)
  const parts = responses.flatMap(({ candidates }) =>
    list(object(object(list(candidates)[0])?.content)?.parts).filter(isObject),
  )
  const signed = parts.filter((part) => part.thoughtSignature && (part.functionCall || part.text !== undefined))
  assert.deepEqual(
    blocks.flatMap(({ signature }) => signature?.value ?? []),
    signed.map(({ thoughtSignature }) => String(thoughtSignature)),
  )
  const calls = blocks.filter((block) => block.type === 'tool-call')
  for (const { signature } of blocks)
    if (signature?.id !== undefined) assert.ok(calls.some((call) => call.id === signature.id))
  const total = object(usage?.raw)?.totalTokenCount
  if (usage && typeof total === 'number' && total > 0)
    assert.equal(usage.input + usage.output === total, !UNEVEN.has(id), `${usage.input} ${usage.output} ${total}`)
}

/** Checks that a client that returns the answer unchanged returns every signature on the same part. */
const checkReplay = (events: readonly ChatEvent[], responses: readonly JsonObject[]): void => {
  const answer = fold(events)
  if (answer.failure || answer.blocks.length === 0 || answer.blocks.some(({ type }) => type === 'foreign')) return
  const request = chatRequest({ messages: [assistantMessage(...contentOf(answer))] })
  const { body } = gemini.encodeRequest(request, { model: 'gemini-2.5-flash' })
  const signed = (parts: readonly Json[]) =>
    parts.flatMap((raw) => {
      const part = object(raw) ?? {}
      const call = object(part.functionCall)
      return part.thoughtSignature && (call || part.text) ? [[call?.name ?? 'text', part.thoughtSignature]] : []
    })
  const sent = signed(list(body.contents).flatMap((turn) => list(object(turn)?.parts)))
  const received = responses.flatMap((response) =>
    list(response.candidates).flatMap((candidate) => signed(list(object(object(candidate)?.content)?.parts))),
  )
  for (const entry of received) assert.ok(sent.some((other) => JSON.stringify(other) === JSON.stringify(entry)))
  assert.equal(problemsIfPresent('gemini', 'GenerateContentRequest', body), undefined)
}

// ── All exchanges ────────────────────────────────────────────────────────────────────────────────────────────────────

requireRecordings()

describe('answers of generateContent', () => {
  let seen = 0
  for (const { id, status, response, chunks } of recordings) {
    if (status !== 200) continue
    seen++
    test(id, () => {
      const frames = run(
        sseFrames(),
        (chunks ?? []).map((chunk) => `${chunk}\n\n`),
      )
      const answer: Json = chunks ? frames.map(({ data }) => JSON.parse(data)) : response
      const responses = (Array.isArray(answer) ? answer : [answer]).filter(isObject)
      const events = chunks ? run(gemini.decodeStream(), frames) : gemini.decodeAnswer(response)
      check(id, events, responses)
      checkReplay(events, responses)
    })
  }
  test('the number of exchanges is as expected', () => assert.ok(seen > (recordingsPresent ? 290 : 30), String(seen)))
})

const ERRORS: { readonly [status: number]: readonly string[] } = {
  400: ['auth', 'context_length', 'incompatible'],
  403: ['permission'],
  404: ['model_missing'],
  429: ['rate_limited'],
  503: ['overloaded'],
}

describe('errors of generateContent', () => {
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
      // The OpenAI-compatible endpoint returns the same error in a list.
      assert.deepEqual(
        gemini.decodeFailure(status, [response], () => undefined),
        failure,
      )
    })
  }
  test('the number of errors is as expected', () => assert.ok(seen > (recordingsPresent ? 10 : 5), String(seen)))
})
