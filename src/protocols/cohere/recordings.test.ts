/**
 * What only Cohere has: the plan before its calls, thoughts, the sources of each citation; errors. On the project's own
 * exchanges, and on recordings where they are present. Everything else: test/conformance.
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

/** The older version of the API has another address and another shape; nobody is spoken to in it. */
const isOlder = ({ request, response, chunks }: Recording): boolean =>
  Object.hasOwn(object(request) ?? {}, 'message') ||
  Object.hasOwn(object(response) ?? {}, 'generation_id') ||
  chunks?.some((chunk) => chunk.includes('"event_type"')) === true

// ── What was said, read without the codec ────────────────────────────────────────────────────────────────────────

type Said = {
  thoughts: string
  plan: string
  /** Of the text: the words, and where they are from. */
  cited: Json[]
}

const citedIn = (citation: Json): Json[] =>
  list(object(citation)?.sources).map((source) => [object(citation)?.text ?? null, object(source)?.id ?? null])

const saidIn = (body: JsonObject): Said => {
  const message = object(body.message) ?? {}
  return {
    thoughts: list(message.content)
      .map((one) => text(object(one)?.thinking) ?? '')
      .join(''),
    plan: text(message.tool_plan) ?? '',
    cited: list(message.citations).flatMap(citedIn),
  }
}

const saidInStream = (events: readonly JsonObject[]): Said => {
  const said: Said = { thoughts: '', plan: '', cited: [] }
  for (const { type, delta } of events) {
    const message = object(object(delta)?.message)
    said.thoughts += text(object(message?.content)?.thinking) ?? ''
    said.plan += text(message?.tool_plan) ?? ''
    if (type === 'citation-start') said.cited.push(...citedIn(message?.citations ?? null))
  }
  return said
}

const check = (events: readonly ChatEvent[], said: Said): void => {
  const { blocks } = fold(events)
  const thoughts = (planned: boolean) =>
    blocks
      .filter((block) => block.type === 'reasoning' && (block.signature?.value === 'tool_plan') === planned)
      .map((block) => block.text)
      .join('')
  assert.equal(thoughts(false), said.thoughts)
  assert.equal(thoughts(true), said.plan)
  const citations = blocks.flatMap((block) => (block.citations ?? []).map((one) => ({ ...one, of: block.text })))
  assert.deepEqual(
    citations.map(({ raw, start, end, of }) => [
      of.slice(start, end),
      object(list(object(raw)?.sources)[0])?.id ?? null,
    ]),
    said.cited,
  )
}

// ── To clients and back ──────────────────────────────────────────────────────────────────────────────────────────

const context = (): AnswerContext => answerContext({ id: sequentialIds(), requestId: 'req_x' })

/** A client's next question, after an answer it kept as it was told. */
const AGAIN: { readonly [style in keyof typeof sharedProtocols]: (whole: JsonObject) => JsonObject } = {
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
}

/** Whoever keeps what it was told sends the plan back to where it came from, and the thoughts. */
const replay = (style: keyof typeof sharedProtocols, whole: JsonObject, said: Said): void => {
  const request = sharedProtocols[style].decodeRequest(AGAIN[style](whole))
  assert.ok(request.ok, style)
  const { body, losses } = cohere.encodeRequest(request.value, { model: 'command-a-reasoning-08-2025' })
  assert.deepEqual(
    losses.filter(({ path: at }) => !/\.(refusal|annotations|citations)$/.test(at)),
    [],
    style,
  )
  const sent = object(list(body.messages)[1]) ?? {}
  assert.equal(sent.tool_plan ?? '', said.plan, style)
  const kept = list(sent.content).map((one) => text(object(one)?.thinking) ?? '')
  assert.equal(kept.join(''), said.thoughts, style)
}

// ── The sweep ────────────────────────────────────────────────────────────────────────────────────────────────────

requireRecordings()

describe('answers of v2/chat', () => {
  let seen = 0
  for (const recording of recordings) {
    const { id, status, response, chunks } = recording
    if (status !== 200 || isOlder(recording)) continue
    seen++
    test(id, () => {
      const frames = run(
        sseFrames(),
        (chunks ?? []).map((chunk) => `${chunk}\n\n`),
      )
      const wire = frames.flatMap(({ data }) => (data === '[DONE]' ? [] : [JSON.parse(data)]))
      const said = chunks ? saidInStream(wire) : saidIn(object(response) ?? {})
      const events = chunks ? run(cohere.decodeStream(), frames) : cohere.decodeAnswer(response)
      check(events, said)
      for (const { name, encodeAnswer } of Object.values(sharedProtocols))
        replay(name, encodeAnswer(fold(events), context()), said)
    })
  }
  test('there are enough of them', () => assert.ok(seen >= (recordingsPresent ? 40 : 30), String(seen)))
})

/** What each status is read as. */
const KINDS: { readonly [status: number]: readonly string[] } = {
  400: ['context_length', 'invalid_request'],
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
  test('there are some', () => assert.ok(seen >= 3, String(seen)))
})
