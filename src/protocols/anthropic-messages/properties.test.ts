/** Random input: nothing throws, and the output is valid for the published schema. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { anyArguments, anyRequest, lookalikes } from '../../../test/support/anything.ts'
import { answerContext } from '../../../test/support/builders.ts'
import { assertEventOrder } from '../../../test/support/event-order.ts'
import { problemsIfPresent, requireSchemas } from '../../../test/support/schemas.ts'
import { type AnswerBlock, type ChatAnswer, fold, unfold } from '../../core/chat.ts'
import type { JsonObject } from '../../core/json.ts'
import { run } from '../../core/stage.ts'
import { sseFrames } from '../framing/sse.ts'
import { anthropicMessages as protocol } from './index.ts'

const RUNS = { numRuns: 400 }
const context = answerContext({ created: 0, model: 'wire-model' })
/** Objects in the shape of this format with random members. */
const WORDS = [
  'type',
  'role',
  'content',
  'text',
  'thinking',
  'signature',
  'source',
  'data',
  'tool_use',
  'tool_result',
  'tool_use_id',
  'id',
  'name',
  'input',
  'image',
  'document',
  'base64',
  'url',
  'user',
  'assistant',
  'system',
  'messages',
  'model',
  'max_tokens',
  'tools',
  'tool_choice',
  'auto',
  'citations',
  'message',
  'message_start',
  'message_delta',
  'message_stop',
  'content_block',
  'content_block_start',
  'content_block_delta',
  'content_block_stop',
  'delta',
  'text_delta',
  'input_json_delta',
  'thinking_delta',
  'signature_delta',
  'citations_delta',
  'partial_json',
  'usage',
  'input_tokens',
  'output_tokens',
  'stop_reason',
  'end_turn',
  'error',
  'index',
]
const lookalike = lookalikes(WORDS)
const { word, anything, objects } = lookalike

test('any value is decoded without throwing', () =>
  fc.assert(
    fc.property(anything, objects, fc.integer({ min: 200, max: 599 }), (value, object, status) => {
      protocol.decodeRequest(object)
      protocol.decodeRequest({ ...object, model: 'm', max_tokens: 1, messages: [value, object] })
      protocol.passing.adaptRequest(
        { ...object, messages: [object, { role: 'assistant', content: value }] },
        { model: 'm' },
      )
      protocol.decodeAnswer(value)
      const events = protocol.decodeAnswer({ type: 'message', content: [object], usage: value })
      protocol.encodeAnswer(fold(events), context)
      protocol.decodeFailure(status, value, () => undefined)
    }),
    RUNS,
  ))

test('any stream is decoded without throwing and has one end', () =>
  fc.assert(
    fc.property(
      fc.array(
        fc.tuple(
          word,
          fc.oneof(
            objects.map((one) => JSON.stringify(one)),
            fc.string(),
          ),
        ),
      ),
      (frames) => {
        const events = run(
          protocol.decodeStream(),
          frames.map(([event, data]) => ({ event, data: data.replace(/\n/g, ' ') })),
        )
        assertEventOrder(events, false)
        for (const piece of run(protocol.encodeStream(context), [{ events }]))
          assert.match(piece, /^event: \w+\ndata: [^\n]+\n\n$/)
      },
    ),
    RUNS,
  ))

// ── Answers ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const words = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 })
const name = fc.stringMatching(/^[a-zA-Z0-9_-]{1,20}$/)
const block: fc.Arbitrary<AnswerBlock> = fc.oneof(
  words.map((text) => ({ type: 'text', text }) as const),
  fc
    .tuple(fc.string(), words)
    .map(([text, value]) => ({ type: 'reasoning', text, signature: { origin: 'anthropic-messages', value } }) as const),
  words.map(
    (value) =>
      ({ type: 'reasoning', text: '', signature: { origin: 'anthropic-messages', value, redacted: true } }) as const,
  ),
  fc
    .tuple(name, name, anyArguments)
    .map(([id, called, text]) => ({ type: 'tool-call', id, name: called, text }) as const),
)
const answer: fc.Arbitrary<ChatAnswer> = fc
  .tuple(
    fc.array(block, { maxLength: 5 }),
    fc.nat(1_000),
    fc.nat(1_000),
    fc.nat(100),
    fc.nat(100),
    fc.constantFrom('length', 'pause', 'refusal', 'stop'),
  )
  .map(([blocks, input, output, cacheRead, cacheWrite, kind]) => ({
    id: 'msg_1',
    model: 'claude-3-7',
    blocks,
    usage: { input: input + cacheRead + cacheWrite, output, cacheRead, cacheWrite },
    finish: {
      kind: kind === 'stop' && blocks.some(({ type }) => type === 'tool-call') ? 'tool-calls' : kind,
      raw: null,
    } as const,
  }))

/** Events without raw reasons, and call arguments as values. */
const meaning = ({ blocks, usage, finish, ...head }: ChatAnswer) => {
  const { raw: _, ...counts } = usage ?? { raw: null }
  return {
    ...head,
    blocks: blocks.map((one) => (one.type === 'tool-call' ? { ...one, text: JSON.parse(one.text) } : one)),
    usage: counts,
    finish: finish?.kind,
  }
}

test('an answer encoded and decoded is unchanged, complete or streamed', () =>
  fc.assert(
    fc.property(answer, (before) => {
      assert.deepEqual(meaning(fold(protocol.decodeAnswer(protocol.encodeAnswer(before, context)))), meaning(before))
      const pieces = run(protocol.encodeStream(context), [{ events: unfold(before) }])
      const events = run(protocol.decodeStream(), run(sseFrames(), [pieces.join('')]))
      assert.deepEqual(meaning(fold(events)), meaning(before))
    }),
    RUNS,
  ))

// ── Requests ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const requests = anyRequest({ ...lookalike, origin: 'anthropic-messages', beside: ['other'] })

requireSchemas()

test('any request is encoded as valid for the published schema', () => {
  let fit = 0
  fc.assert(
    fc.property(
      requests,
      fc.option(fc.integer({ min: 1, max: 64_000 }), { nil: undefined }),
      (request, outputLimit) => {
        const { body, losses } = protocol.encodeRequest(request, {
          model: 'claude-3-7',
          ...(outputLimit !== undefined && { outputLimit }),
        })
        const turns = body.messages as { role: string; content: JsonObject[] }[]
        for (const [index, { role, content: blocks }] of turns.entries()) {
          assert.equal(role, index % 2 === 0 ? 'user' : 'assistant')
          assert.ok(blocks.length > 0)
          const lastResult = blocks.findLastIndex(({ type }) => type === 'tool_result')
          assert.ok(blocks.slice(0, lastResult + 1).every(({ type }) => type === 'tool_result'))
        }
        const thinking = body.thinking as JsonObject | undefined
        if (thinking && thinking.type !== 'disabled') {
          assert.ok(body.temperature === undefined || body.temperature === 1)
          assert.ok(!['any', 'tool'].includes(String((body.tool_choice as JsonObject | undefined)?.type)))
          if (thinking.type === 'enabled') assert.ok(Number(thinking.budget_tokens) < Number(body.max_tokens))
        }
        if (losses.some(({ essential }) => essential)) return
        fit++
        const problem = problemsIfPresent('anthropic', 'BetaCreateMessageParams', JSON.parse(JSON.stringify(body)))
        assert.equal(problem, undefined, JSON.stringify(body))
      },
    ),
    { numRuns: 1_500 },
  )
  assert.ok(fit > 50, `only ${fit} were fit`)
})
