import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertReadable } from '../../../test/support/anything.ts'
import { type ChatEvent, fold } from '../../core/chat.ts'
import type { Json, JsonObject } from '../../core/json.ts'
import { run } from '../../core/stage.ts'
import { sseFrames } from '../framing/sse.ts'
import { gemini } from './index.ts'

const answer = (parts: Json, more: JsonObject = {}, rest: JsonObject = {}): JsonObject => ({
  candidates: [{ content: { role: 'model', parts }, finishReason: 'STOP', index: 0, ...more }],
  modelVersion: 'gemini-x',
  responseId: 'r1',
  ...rest,
})

/** Summarises an answer in one line: its blocks, then its end. `!` precedes a signature, `@id` marks one with a call ID. */
const summarize = (events: readonly ChatEvent[]): string => {
  const { blocks, finish, failure } = fold(events)
  const summaries = blocks.map((block) => {
    const signature = block.signature ? `!${block.signature.value}${block.signature.id === undefined ? '' : '@id'}` : ''
    const cited = (block.citations ?? []).map(({ url, start, end }) => `<${url} ${start ?? ''}-${end ?? ''}>`).join('')
    const name = block.type === 'tool-call' ? `${block.name} ` : ''
    return `${block.type}(${name}${block.text}${signature}${cited})`
  })
  return [...summaries, failure ? `failure ${failure.kind}` : `${finish?.kind} ${finish?.raw}`].join(' ')
}

const web = (uri: string) => ({ web: { uri, title: 't' } })

const cases: readonly (readonly [string, Json, string])[] = [
  ['text', answer([{ text: 'hi' }]), 'text(hi) stop STOP'],
  [
    'usage after the last candidate',
    [answer([{ text: 'hi' }]), { usageMetadata: { promptTokenCount: 4 } }],
    'text(hi) stop STOP',
  ],
  ['adjacent texts become one block', answer([{ text: 'a' }, { text: 'b' }]), 'text(ab) stop STOP'],
  [
    'a thought before text',
    answer([{ text: 'hm', thought: true }, { text: 'hi' }]),
    'reasoning(hm) text(hi) stop STOP',
  ],
  ['a signed thought', answer([{ text: 'hm', thought: true, thoughtSignature: 'S' }]), 'reasoning(hm!S) stop STOP'],
  ['a signed text', answer([{ text: 'hi', thoughtSignature: 'S' }]), 'text(hi) reasoning(!S) stop STOP'],
  [
    'a signature alone after a text',
    answer([{ text: 'hi' }, { text: '', thoughtSignature: 'S' }]),
    'text(hi) reasoning(!S) stop STOP',
  ],
  [
    'parallel calls, of which the first is signed',
    answer([
      { functionCall: { name: 'f', args: { a: 1 } }, thoughtSignature: 'S' },
      { functionCall: { name: 'f', args: { a: 1 } } },
    ]),
    'reasoning(!S@id) tool-call(f {"a":1}) tool-call(f {"a":1}) tool-calls STOP',
  ],
  ['a call without arguments', answer([{ functionCall: { name: 'f' } }]), 'tool-call(f {}) tool-calls STOP'],
  ['partial arguments', answer([{ functionCall: { name: 'f', willContinue: true } }]), 'failure malformed'],
  ['the output limit', answer([{ text: 'h' }], { finishReason: 'MAX_TOKENS' }), 'text(h) length MAX_TOKENS'],
  ['a finish reason as a number', answer([{ text: 'h' }], { finishReason: 2 }), 'text(h) length MAX_TOKENS'],
  ['an unknown finish reason', answer([{ text: 'h' }], { finishReason: 'BORED' }), 'text(h) stop BORED'],
  [
    'a finish reason named like a prototype member',
    answer([{ text: 'h' }], { finishReason: 'constructor' }),
    'text(h) stop constructor',
  ],
  ['a filtered answer', answer([], { finishReason: 'SAFETY' }), 'content-filter SAFETY'],
  [
    'a blocked prompt',
    { promptFeedback: { blockReason: 'PROHIBITED_CONTENT' }, usageMetadata: { promptTokenCount: 3 } },
    'content-filter PROHIBITED_CONTENT',
  ],
  ['a malformed call', answer([], { finishReason: 'MALFORMED_FUNCTION_CALL' }), 'failure malformed'],
  ['finish reason OTHER', answer([], { finishReason: 'OTHER' }), 'failure error_in_stream'],
  ['no finish reason', answer([{ text: 'h' }], { finishReason: null }), 'text(h) failure truncated'],
  ['executed code', answer([{ executableCode: { code: 'x' } }, { text: 'hi' }]), 'foreign() text(hi) stop STOP'],
  [
    'grounding with positions in bytes',
    answer([{ text: 'Zürich ist groß.' }], {
      groundingMetadata: {
        groundingChunks: [web('https://a'), web('https://b')],
        groundingSupports: [
          { segment: { startIndex: 0, endIndex: 7, text: 'Zürich' }, groundingChunkIndices: [0] },
          { segment: { startIndex: 90, endIndex: 99 }, groundingChunkIndices: [1] },
        ],
      },
    }),
    'text(Zürich ist groß.<https://a 0-6><https://b ->) stop STOP',
  ],
  [
    'grounding without positions',
    answer([{ text: 'x' }], { groundingMetadata: { groundingChunks: [web('https://a')] } }),
    'text(x<https://a ->) stop STOP',
  ],
  [
    'the candidate with index 0',
    {
      candidates: [
        { index: 1, content: { parts: [{ text: 'b' }] } },
        { index: 0, content: { parts: [{ text: 'a' }] }, finishReason: 'STOP' },
      ],
    },
    'text(a) stop STOP',
  ],
  [
    'a list of responses (without alt=sse)',
    [answer([{ text: 'a' }], { finishReason: null }), answer([{ text: 'b' }])],
    'text(ab) stop STOP',
  ],
  ['an error', { error: { code: 503, status: 'UNAVAILABLE', message: 'no' } }, 'failure overloaded'],
  [
    'an error in a list',
    [{ error: { code: 429, status: 'RESOURCE_EXHAUSTED', message: 'no' } }],
    'failure rate_limited',
  ],
  ['another object', { id: 'x', choices: [] }, 'failure malformed'],
  ['not an object', 'hi', 'failure malformed'],
  ['an empty list', [], 'failure truncated'],
  ['candidates of the wrong type', { candidates: {} }, 'failure malformed'],
  ['a malformed part', answer(['hi']), 'failure malformed'],
]
for (const [name, body, expected] of cases)
  test(`gemini answer: ${name}`, () => assert.equal(summarize(gemini.decodeAnswer(body)), expected))

test('gemini answer: usage counts thoughts as output and tool results as input', () => {
  const usageMetadata = {
    promptTokenCount: 10,
    toolUsePromptTokenCount: 5,
    cachedContentTokenCount: 4,
    candidatesTokenCount: 7,
    thoughtsTokenCount: 20,
    totalTokenCount: 42,
  }
  assert.deepEqual(fold(gemini.decodeAnswer(answer([{ text: 'x' }], {}, { usageMetadata }))).usage, {
    input: 15,
    output: 27,
    cacheRead: 4,
    reasoning: 20,
    raw: usageMetadata,
  })
})

test('gemini answer: the end of the model, if it is stated', () => {
  // `ModelStatus` of @google/genai 3.1.0.
  const startOf = (modelStatus: Json) =>
    gemini.decodeAnswer(answer([{ text: 'x' }], {}, { modelStatus })).find(({ type }) => type === 'start')
  const retirementTime = '2026-12-11T00:00:00Z'
  const at = Date.parse(retirementTime)
  const start = { type: 'start', id: 'r1', model: 'gemini-x' }
  assert.deepEqual(startOf({ modelStage: 'LEGACY', retirementTime }), { ...start, retires: at })
  for (const status of [{ modelStage: 'STABLE' }, { retirementTime: 'soon' }, { retirementTime: 5 }, null, 'x'])
    assert.deepEqual(startOf(status), start)
})

test('gemini answer: log probabilities of tokens', () => {
  const logprobsResult = {
    chosenCandidates: [{ token: 'ü', logProbability: -0.5 }],
    topCandidates: [
      {
        candidates: [
          { token: 'ü', logProbability: -0.5 },
          { token: 'u', logProbability: -2 },
        ],
      },
    ],
  }
  const [block] = fold(gemini.decodeAnswer(answer([{ text: 'ü' }], { logprobsResult }))).blocks
  assert.deepEqual(block?.logprobs, [
    {
      token: 'ü',
      logprob: -0.5,
      bytes: [195, 188],
      top_logprobs: [
        { token: 'ü', logprob: -0.5, bytes: [195, 188] },
        { token: 'u', logprob: -2, bytes: [117] },
      ],
    },
  ])
})

test('gemini answer: derives distinct and repeatable IDs for calls without an ID', () => {
  const call = { functionCall: { name: 'f', args: {} } }
  const ids = () =>
    fold(gemini.decodeAnswer(answer([call, call]))).blocks.map((block) => (block.type === 'tool-call' ? block.id : ''))
  assert.equal(new Set(ids()).size, 2)
  assert.deepEqual(ids(), ids())
  for (const id of ids()) assert.match(id, /^call_[a-z0-9]{24}$/)
})

// ── Streams ──────────────────────────────────────────────────────────────────────────────────────────────────────

const event = (parts: Json, more: JsonObject = {}): string =>
  `data: ${JSON.stringify({ candidates: [{ content: { parts }, index: 0, ...more }], responseId: 'r', usageMetadata: { promptTokenCount: 4, candidatesTokenCount: 1 } })}\r\n\r\n`

const read = (wire: string | readonly string[]): ChatEvent[] =>
  run(gemini.decodeStream(), run(sseFrames(), typeof wire === 'string' ? [wire] : wire))

const streams: readonly (readonly [string, string, string])[] = [
  ['text', event([{ text: 'a' }]) + event([{ text: 'b' }], { finishReason: 'STOP' }), 'text(ab) stop STOP'],
  [
    'thoughts, text, a call and a final signature',
    event([{ text: 'h', thought: true }]) +
      event([{ text: 'm', thought: true }]) +
      event([{ text: 'let me' }]) +
      event([{ functionCall: { name: 'f', args: {} }, thoughtSignature: 'S' }]) +
      event([{ text: '', thoughtSignature: 'T' }], { finishReason: 'STOP' }),
    'reasoning(hm) text(let me) reasoning(!S@id) tool-call(f {}) reasoning(!T) tool-calls STOP',
  ],
  [
    'a last event without content',
    `${event([{ text: 'a' }])}data: {"candidates":[{"finishReason":"STOP"}]}\n\n`,
    'text(a) stop STOP',
  ],
  [
    '[DONE] added by a proxy',
    `${event([{ text: 'a' }], { finishReason: 'STOP' })}data: [DONE]\n\n`,
    'text(a) stop STOP',
  ],
  ['a truncated stream', event([{ text: 'a' }]), 'text(a) failure truncated'],
  ['an empty stream', '', 'failure truncated'],
  [
    'an error after content',
    `${event([{ text: 'a' }])}data: {"error":{"code":500,"message":"no"}}\n\n`,
    'text(a) failure status',
  ],
  ['invalid JSON', 'data: {oops\n\n', 'failure malformed'],
  [
    'content after the end is ignored',
    event([{ text: 'a' }], { finishReason: 'MAX_TOKENS' }) + event([{ text: 'b' }], { finishReason: 'OTHER' }),
    'text(a) length MAX_TOKENS',
  ],
  [
    'STOP in each response (BerriAI/litellm#2195)',
    event([{ text: 'a' }], { finishReason: 'STOP' }) + event([{ text: 'b' }], { finishReason: 'STOP' }),
    'text(ab) stop STOP',
  ],
  [
    'STOP before the content (Chevey339/kelivo#1003)',
    event([], { finishReason: 'STOP' }) + event([{ text: 'b' }], {}) + event([], { finishReason: 'STOP' }),
    'text(b) stop STOP',
  ],
  [
    'STOP after a step of a hosted tool (0xPlaygrounds/rig#2328)',
    event([{ executableCode: { language: 'PYTHON', code: '1' } }], {}) +
      event([{ codeExecutionResult: { outcome: 'OUTCOME_OK', output: '1' } }], { finishReason: 'STOP' }) +
      event([{ text: 'b' }], { finishReason: 'MAX_TOKENS' }),
    'foreign() foreign() text(b) length MAX_TOKENS',
  ],
]
for (const [name, wire, expected] of streams)
  test(`gemini stream: ${name}`, () => {
    const events = read(wire)
    assert.equal(summarize(events), expected)
    assert.deepEqual(read([...wire]), events)
    for (let cut = 0; cut <= wire.length; cut++) {
      assert.deepEqual(read([wire.slice(0, cut), wire.slice(cut)]), events)
      // A truncated stream is either a complete answer or a failure.
      const truncated = fold(read(wire.slice(0, cut)))
      assert.ok(truncated.failure || truncated.finish)
    }
  })

// ── Random input ─────────────────────────────────────────────────────────────────────────────────────────────────────

const names =
  'candidates content parts text thought thoughtSignature functionCall name args finishReason promptFeedback blockReason usageMetadata groundingMetadata groundingChunks groundingSupports web segment error index inlineData logprobsResult chosenCandidates'.split(
    ' ',
  )

test('gemini: decodes any answer without throwing, with one end', () =>
  assertReadable(gemini, {
    names,
    values: ['STOP', 'SAFETY'],
    read: (bodies) => read(bodies.map((body) => `data: ${JSON.stringify(body)}\n\n`)),
  }))
