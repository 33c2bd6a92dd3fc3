/**
 * Cases specific to Converse: signatures and redacted reasoning through every API style, errors, and requests to models of
 * every vendor. Uses the project's exchanges, and recordings if present. Other cases: test/conformance.
 */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  answerContext,
  assistantMessage,
  chatRequest,
  contentOf,
  textPart as saying,
  sequentialIds,
  toolMessage,
  userMessage,
} from '../../../test/support/builders.ts'
import { fromChunk } from '../../../test/support/event-stream.ts'
import { evidenceOf } from '../../../test/support/exchanges.ts'
import { recordingsPresent, requireRecordings } from '../../../test/support/recordings.ts'
import { problemsIfPresent } from '../../../test/support/schemas.ts'
import { type ChatEvent, fold } from '../../core/chat.ts'
import { type Json, type JsonObject, list, object, text } from '../../core/json.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import { run } from '../../core/stage.ts'
import { eventFrames } from '../framing/event-stream.ts'
import { sharedProtocols } from '../index.ts'
import { bedrockConverse } from './index.ts'

const recordings = evidenceOf('bedrock-converse')

// ── Independent reading of answers, without the codec ───────────────────────────────────────────────────────────────

type Said = { calls: { id: Json; name: Json; args: Json }[]; proofs: string[]; citations: number }

const saidIn = (answer: JsonObject): Said => {
  const said: Said = { calls: [], proofs: [], citations: 0 }
  for (const one of list(object(object(answer.output)?.message)?.content)) {
    const block = object(one) ?? {}
    const use = object(block.toolUse)
    const thought = object(block.reasoningContent)
    said.citations += list(object(block.citationsContent)?.citations).length
    if (use && use.type !== 'server_tool_use')
      said.calls.push({ id: use.toolUseId ?? null, name: use.name ?? null, args: use.input ?? null })
    const proof = text(object(thought?.reasoningText)?.signature) ?? text(thought?.redactedContent)
    if (proof) said.proofs.push(proof)
  }
  return said
}

const saidInStream = (chunks: readonly string[]): Said => {
  const said: Said = { calls: [], proofs: [], citations: 0 }
  const inputs = new Map<Json, string>()
  const uses: { at: Json; id: Json; name: Json }[] = []
  for (const chunk of chunks) {
    const { contentBlockStart, contentBlockDelta } = JSON.parse(chunk)
    const use = contentBlockStart?.start?.toolUse
    if (use) uses.push({ at: contentBlockStart.contentBlockIndex, id: use.toolUseId, name: use.name })
    const delta = contentBlockDelta?.delta ?? {}
    const at = contentBlockDelta?.contentBlockIndex
    const proof = delta.reasoningContent?.signature ?? delta.reasoningContent?.redactedContent
    if (proof) said.proofs.push(proof)
    if (delta.citation) said.citations++
    if (delta.toolUse) inputs.set(at, (inputs.get(at) ?? '') + delta.toolUse.input)
  }
  said.calls = uses.map(({ at, id, name }) => ({ id, name, args: JSON.parse(inputs.get(at) || '{}') }))
  return said
}

const check = (events: readonly ChatEvent[], said: Said): void => {
  const { blocks } = fold(events)
  assert.deepEqual(
    blocks.flatMap((block) => block.signature?.value ?? []),
    said.proofs,
  )
  const cited = blocks.reduce((sum, { citations = [] }) => sum + citations.length, 0)
  assert.equal(cited, said.citations)
}

// ── To clients and back ──────────────────────────────────────────────────────────────────────────────────────────────

const QUESTION = { role: 'user', content: 'question' }

/** The next request of a client that sends the complete answer back. */
const NEXT: { readonly [style in keyof typeof sharedProtocols]: (whole: JsonObject) => JsonObject } = {
  'openai-chat': ({ choices }) => ({ messages: [QUESTION, object(list(choices)[0])?.message ?? null] }),
  'openai-responses': ({ output }) => ({ input: [QUESTION, ...list(output)] }),
  'anthropic-messages': ({ content }) => ({ messages: [QUESTION, { role: 'assistant', content: content ?? [] }] }),
  gemini: ({ candidates }) => ({
    contents: [{ parts: [{ text: 'question' }] }, object(list(candidates)[0])?.content ?? null],
  }),
}

const context = (): AnswerContext => answerContext({ id: sequentialIds(), requestId: 'req_x' })

/** Signatures pass through every API style and are restored unchanged. */
const travels = (events: readonly ChatEvent[], said: Said): void => {
  for (const style of Object.values(sharedProtocols)) {
    const whole = style.encodeAnswer(fold(events), context())
    const next = style.decodeRequest({ model: 'm', max_tokens: 1, ...NEXT[style.name](whole) })
    assert.ok(next.ok)
    const parts = next.value.messages.flatMap((message) => (message.role === 'assistant' ? message.content : []))
    assert.deepEqual(
      parts.flatMap((part) =>
        part.type === 'reasoning' && part.signature ? [[part.signature.origin, part.signature.value]] : [],
      ),
      said.proofs.map((value) => ['bedrock-converse', value]),
      style.name,
    )
  }
}

/** An answer sent back by a client is encoded unchanged, block by block. */
const replays = (events: readonly ChatEvent[], said: Said): void => {
  const answer = fold(events)
  if (answer.blocks.some(({ type }) => type === 'foreign')) return
  const results = said.calls.map(({ id }) => toolMessage(String(id), 'result'))
  const request = chatRequest({
    messages: [userMessage(saying('question')), assistantMessage(...contentOf(answer)), ...results],
    tools: said.calls.map(({ name }, index) => ({ kind: 'function', at: `t${index}`, name: String(name) })),
  })
  const { body } = bedrockConverse.encodeRequest(request, { model: 'us.anthropic.claude-sonnet-4-5-20250929-v1:0' })
  assert.equal(problemsIfPresent('bedrock', 'ConverseRequest', body), undefined)
  const sent = list(body.messages).flatMap((turn) => list(object(turn)?.content).map((block) => object(block) ?? {}))
  const uses = sent.flatMap(({ toolUse }): JsonObject[] => [object(toolUse)].filter((use) => use !== undefined))
  assert.deepEqual(
    uses.map(({ toolUseId, name, input }) => ({ id: toolUseId, name, args: input })),
    said.calls,
  )
  const given = sent.flatMap(({ toolResult }): JsonObject[] => [object(toolResult)].filter((one) => one !== undefined))
  assert.deepEqual(
    given.map(({ toolUseId }) => toolUseId),
    said.calls.map(({ id }) => id),
  )
  assert.deepEqual(
    sent.flatMap(({ reasoningContent }) => {
      const thought = object(reasoningContent)
      return thought ? [thought.redactedContent ?? object(thought.reasoningText)?.signature] : []
    }),
    said.proofs,
  )
}

// ── The sweep ────────────────────────────────────────────────────────────────────────────────────────────────────────

requireRecordings()

describe('answers of Converse', () => {
  let seen = 0
  for (const { id, status, response, chunks } of recordings) {
    if (status !== 200) continue
    seen++
    test(id, () => {
      const frames = run(eventFrames(10_000_000), (chunks ?? []).flatMap(fromChunk))
      const said = chunks ? saidInStream(chunks) : saidIn(object(response) ?? {})
      const events = chunks ? run(bedrockConverse.decodeStream(), frames) : bedrockConverse.decodeAnswer(response)
      check(events, said)
      travels(events, said)
      replays(events, said)
    })
  }
  test('enough answers were tested', () => assert.ok(seen > (recordingsPresent ? 115 : 30), String(seen)))
})

/** The failure kind of each status. */
const KINDS: { readonly [status: number]: readonly string[] } = {
  400: ['context_length', 'incompatible', 'model_missing'],
  403: ['auth'],
  429: ['rate_limited'],
  503: ['overloaded'],
}

describe('errors of Converse', () => {
  let seen = 0
  for (const { id, status, response, response_headers: headers } of recordings) {
    if (status === 200 || status === null) continue
    seen++
    test(id, () => {
      const failure = bedrockConverse.decodeFailure(status, response, (name) => headers?.[name])
      assert.ok(KINDS[status]?.includes(failure.kind), failure.kind)
      assert.equal(failure.status, status)
      assert.equal(failure.message, object(response)?.message)
    })
  }
  test('enough errors were tested', () => assert.ok(seen >= (recordingsPresent ? 8 : 5), String(seen)))
})

// ── Requests to models of every vendor ────────────────────────────────────────────────────────────────────────────────

const MODELS = [
  'us.anthropic.claude-sonnet-4-5-20250929-v1:0',
  'us.anthropic.claude-sonnet-4-6',
  'anthropic.claude-3-haiku-20240307-v1:0',
  'us.amazon.nova-2-lite-v1:0',
  'openai.gpt-oss-120b-1:0',
  'us.meta.llama4-maverick-17b-instruct-v1:0',
]

describe('requests of other formats, sent to models of every vendor', () => {
  for (const name of ['openai-chat', 'openai-responses', 'anthropic-messages'] as const)
    for (const model of MODELS)
      test(`${name} to ${model}`, () => {
        const from = sharedProtocols[name]
        let fit = 0
        for (const { id, request } of evidenceOf(name)) {
          const asked = from.decodeRequest({ model: 'm', ...object(request) })
          if (!asked.ok) continue
          const { body, losses } = bedrockConverse.encodeRequest(asked.value, { model, outputLimit: 8_192 })
          if (losses.some(({ essential }) => essential)) continue
          fit++
          assert.equal(problemsIfPresent('bedrock', 'ConverseRequest', body), undefined, id)
          for (const [index, turn] of list(body.messages).entries()) {
            assert.equal(object(turn)?.role, index % 2 === 0 ? 'user' : 'assistant', id)
            const blocks = list(object(turn)?.content).map((block) => object(block) ?? {})
            assert.ok(blocks.length > 0, id)
            if (!body.toolConfig) assert.ok(!blocks.some(({ toolUse, toolResult }) => toolUse ?? toolResult), id)
          }
        }
        assert.ok(fit > (recordingsPresent ? 50 : 20), String(fit))
      })
})
