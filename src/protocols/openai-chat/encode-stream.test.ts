import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { ChatCompletionStream } from 'openai/lib/ChatCompletionStream'
import { answerContext, chatRequest } from '../../../test/support/builders.ts'
import { type ChatAnswer, type ChatEvent, fold, unfold } from '../../core/chat.ts'
import { fail } from '../../core/failure.ts'
import { type Json, type JsonObject, object } from '../../core/json.ts'
import type { AnswerContext, StreamStep } from '../../core/protocol.ts'
import { run } from '../../core/stage.ts'
import { sseFrames } from '../framing/sse.ts'
import { openaiChat } from './index.ts'

const context = (more: Partial<AnswerContext> = {}, usage = true): AnswerContext =>
  answerContext({
    request: chatRequest({
      settings: usage ? { streamUsage: { value: true, at: 'stream_options.include_usage' } } : {},
    }),
    created: 7,
    model: 'target',
    requestId: 'req_abc',
    ...more,
  })

const stepsOf = (pieces: Iterable<string>): StreamStep[] => {
  const stage = openaiChat.decodeStream()
  const steps: StreamStep[] = run(sseFrames(), pieces).map((frame) => ({ frame, events: stage.push(frame) }))
  const rest = stage.end()
  return rest.length > 0 ? [...steps, { events: rest }] : steps
}
const decode = (pieces: Iterable<string>): ChatEvent[] => stepsOf(pieces).flatMap(({ events }) => events)

const chunk = (delta: JsonObject | null, finish?: string | null, more: JsonObject = {}): string =>
  `data: ${JSON.stringify({
    id: 'c1',
    object: 'chat.completion.chunk',
    created: 5,
    model: 'm1',
    choices: delta ? [{ index: 0, delta, ...(finish !== undefined && { finish_reason: finish }) }] : [],
    ...more,
  })}\n\n`
const DONE = 'data: [DONE]\n\n'
const call = (
  index: number | undefined,
  id: string | undefined,
  name: string | undefined,
  given: string,
): JsonObject => ({
  tool_calls: [
    {
      ...(index !== undefined && { index }),
      ...(id !== undefined && { id, type: 'function' }),
      function: { ...(name !== undefined && { name }), arguments: given },
    },
  ],
})

/** An answer in a line: blocks as `type:text`, then how it ended. */
const line = (answer: ChatAnswer): string =>
  [
    ...answer.blocks.map((block) => {
      const named = block.type === 'tool-call' ? `${block.id}/${block.name}` : block.type
      return `${named}:${block.text}${block.signature ? `!${block.signature.value}` : ''}${block.citations ? `@${block.citations.map(({ url }) => url)}` : ''}`
    }),
    ...(answer.usage ? [`${answer.usage.input}+${answer.usage.output}`] : []),
    answer.failure ? `failed ${answer.failure.kind}` : `${answer.finish?.kind} ${answer.finish?.raw}`,
  ].join(' | ')

const usage = { usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 } }
const read: readonly (readonly [name: string, wire: string, answer: string])[] = [
  [
    'as OpenAI does',
    chunk({ role: 'assistant', content: '' }, null) +
      chunk({ content: 'a' }, null) +
      chunk({ content: 'b' }, null) +
      chunk({}, 'stop') +
      chunk(null, null, usage) +
      DONE,
    'text:ab | 3+4 | stop stop',
  ],
  [
    'no finish_reason member in ordinary chunks',
    chunk({ content: 'a' }) + chunk({ content: 'b' }, 'stop') + DONE,
    'text:ab | stop stop',
  ],
  ['usage in the last chunk', chunk({ content: 'a' }) + chunk({}, 'length', usage), 'text:a | 3+4 | length length'],
  ['usage of Groq', chunk({ content: 'a' }) + chunk({}, 'stop', { x_groq: usage }), 'text:a | 3+4 | stop stop'],
  ['no [DONE]', chunk({ content: 'a' }, 'stop'), 'text:a | stop stop'],
  ['[DONE] without a reason', chunk({ content: 'a' }) + DONE, 'text:a | stop null'],
  ['[DONE] with a space', `${chunk({ content: 'a' }, 'stop')}data: [DONE] \n\n`, 'text:a | stop stop'],
  [
    'after [DONE] nothing counts',
    `${chunk({ content: 'a' }, 'stop') + DONE + chunk({ content: 'b' })}data: {`,
    'text:a | stop stop',
  ],
  ['cut off', chunk({ content: 'a' }), 'text:a | failed truncated'],
  ['cut off in a line', `${chunk({ content: 'a' })}data: {"cho`, 'text:a | failed truncated'],
  ['nothing at all', '', 'failed truncated'],
  [
    'a line that is not JSON',
    `${chunk({ content: 'a' })}data: {"cho\n\n${chunk({ content: 'b' }, 'stop')}`,
    'text:ab | failed malformed',
  ],
  ['a line that is no object', `data: 5\n\n${chunk({ content: 'b' }, 'stop')}`, 'text:b | failed malformed'],
  [
    'Azure: about the prompt first',
    `data: {"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[]}\n\n${chunk({ content: 'a' }, 'stop')}`,
    'text:a | stop stop',
  ],
  [
    'Azure: a choice without a delta',
    `${chunk({ content: 'a' })}data: {"id":"","choices":[{"index":0,"finish_reason":null,"content_filter_offsets":{}}]}\n\n${chunk({}, 'stop')}`,
    'text:a | stop stop',
  ],
  ['comments between', `: PROCESSING\n\n${chunk({ content: 'a' }, 'stop')}: x\n\n${DONE}`, 'text:a | stop stop'],
  [
    'refused',
    chunk({ refusal: 'I ' }) + chunk({ refusal: 'cannot' }) + chunk({}, 'stop'),
    'refusal:I cannot | refusal stop',
  ],
  ['filtered', chunk({ content: 'a' }) + chunk({}, 'content_filter'), 'text:a | content-filter content_filter'],
  [
    'thoughts first',
    chunk({ reasoning_content: 'h' }) +
      chunk({ reasoning_content: 'm', content: null }) +
      chunk({ content: 'a' }, 'stop'),
    'reasoning:hm | text:a | stop stop',
  ],
  [
    'thoughts by another name',
    chunk({ reasoning: 'hm', content: '' }) + chunk({ content: 'a' }, 'stop'),
    'reasoning:hm | text:a | stop stop',
  ],
  [
    'thoughts with proof',
    chunk({
      reasoning: 'h',
      reasoning_details: [{ type: 'reasoning.text', text: 'h', format: 'anthropic-claude-v1', index: 0 }],
    }) +
      chunk({
        reasoning: 'm',
        reasoning_details: [{ type: 'reasoning.text', text: 'm', format: 'anthropic-claude-v1', index: 0 }],
      }) +
      chunk({
        reasoning_details: [{ type: 'reasoning.text', signature: 'sig', format: 'anthropic-claude-v1', index: 0 }],
      }) +
      chunk({
        reasoning_details: [{ type: 'reasoning.encrypted', data: 'red', format: 'anthropic-claude-v1', index: 1 }],
      }) +
      chunk({ content: 'a' }, 'stop'),
    'reasoning:hm!sig | reasoning:!red | text:a | stop stop',
  ],
  [
    'thoughts in details only',
    chunk({
      reasoning_details: [{ type: 'reasoning.summary', summary: 's', format: 'openai-responses-v1', index: 0 }],
    }) +
      chunk({
        reasoning_details: [
          { type: 'reasoning.encrypted', data: 'enc', id: 'rs', format: 'openai-responses-v1', index: 0 },
        ],
      }) +
      chunk({ content: 'a' }, 'stop'),
    'reasoning:s!enc | text:a | stop stop',
  ],
  [
    'Mistral: lists and strings',
    chunk({ content: [{ type: 'thinking', thinking: [{ type: 'text', text: 'hm' }] }] }) +
      chunk({ content: [{ type: 'text', text: 'a' }] }) +
      chunk({ content: 'b' }, 'stop'),
    'reasoning:hm | text:ab | stop stop',
  ],
  [
    'a call',
    chunk(call(0, 'c', 'f', '')) +
      chunk(call(0, undefined, undefined, '{"a"')) +
      chunk(call(0, undefined, undefined, ':1}')) +
      chunk({}, 'tool_calls'),
    'c/f:{"a":1} | tool-calls tool_calls',
  ],
  [
    'a call and a reason that says stop',
    chunk(call(0, 'c', 'f', '{}')) + chunk({}, 'stop'),
    'c/f:{} | tool-calls stop',
  ],
  ['a call without arguments', chunk(call(0, 'c', 'f', '')) + chunk({}, 'tool_calls'), 'c/f: | tool-calls tool_calls'],
  [
    'words, then calls one after the other',
    chunk({ content: 'a' }) +
      chunk(call(0, 'c', 'f', '')) +
      chunk(call(0, undefined, undefined, '{}')) +
      chunk(call(1, 'd', 'g', '')) +
      chunk(call(1, undefined, undefined, '{"b":2}')) +
      chunk({}, 'tool_calls'),
    'text:a | c/f:{} | d/g:{"b":2} | tool-calls tool_calls',
  ],
  [
    'calls that interleave',
    chunk(call(0, 'c', 'f', '')) +
      chunk(call(1, 'd', 'g', '')) +
      chunk(call(0, undefined, undefined, '{"a":')) +
      chunk(call(1, undefined, undefined, '{"b":')) +
      chunk(call(1, undefined, undefined, '2}')) +
      chunk(call(0, undefined, undefined, '1}')) +
      chunk({}, 'tool_calls'),
    'c/f:{"a":1} | d/g:{"b":2} | tool-calls tool_calls',
  ],
  [
    'three that interleave, the first never whole',
    chunk(call(0, 'c', 'f', '{')) +
      chunk(call(1, 'd', 'g', '{}')) +
      chunk(call(2, 'e', 'h', '{}')) +
      chunk({}, 'tool_calls'),
    'c/f:{ | d/g:{} | e/h:{} | tool-calls tool_calls',
  ],
  [
    'whole calls without index',
    chunk(call(undefined, 'c', 'f', '{}')) + chunk(call(undefined, 'd', 'g', '{}')) + chunk({}, 'tool_calls'),
    'c/f:{} | d/g:{} | tool-calls tool_calls',
  ],
  [
    'whole calls, every index 0',
    chunk(call(0, 'c', 'f', '{"a":1}')) + chunk(call(0, 'd', 'f', '{"a":2}')) + chunk({}, 'stop'),
    'c/f:{"a":1} | d/f:{"a":2} | tool-calls stop',
  ],
  [
    'name and id again in every piece',
    chunk(call(0, 'c', 'f', '{"a"')) +
      chunk(call(0, 'c', 'f', ':1}')) +
      chunk(call(0, 'c', 'f', '')) +
      chunk({}, 'tool_calls'),
    'c/f:{"a":1} | tool-calls tool_calls',
  ],
  [
    'the name comes later',
    chunk(call(0, 'c', '', '')) + chunk(call(0, undefined, 'f', '{}')) + chunk({}, 'tool_calls'),
    'c/f:{} | tool-calls tool_calls',
  ],
  [
    'arguments as an object',
    chunk({ tool_calls: [{ index: 0, id: 'c', function: { name: 'f', arguments: { a: 1 } } }] }) +
      chunk({}, 'tool_calls'),
    'c/f:{"a":1} | tool-calls tool_calls',
  ],
  [
    'a custom call',
    chunk({ tool_calls: [{ index: 0, id: 'c', type: 'custom', custom: { name: 'f', input: 'fr' } }] }) +
      chunk({ tool_calls: [{ index: 0, custom: { input: 'ee' } }] }) +
      chunk({}, 'tool_calls'),
    'c/f:free | tool-calls tool_calls',
  ],
  [
    'words during a call wait',
    chunk(call(0, 'c', 'f', '{')) +
      chunk({ content: 'x' }) +
      chunk(call(0, undefined, undefined, '}')) +
      chunk({ content: 'y' }, 'tool_calls'),
    'c/f:{} | text:xy | tool-calls tool_calls',
  ],
  [
    'a source',
    chunk({ content: 'a' }) +
      chunk({
        annotations: [
          {
            type: 'url_citation',
            url_citation: { url: 'https://x.example', title: 't', start_index: 0, end_index: 1 },
          },
        ],
      }) +
      chunk({}, 'stop'),
    'text:a@https://x.example | stop stop',
  ],
  [
    'OpenRouter: sources before the text',
    chunk({
      content: '',
      annotations: [
        { type: 'url_citation', url_citation: { url: 'https://x.example', title: 't', start_index: 0, end_index: 0 } },
      ],
    }) +
      chunk({ content: 'a' }) +
      chunk({}, 'stop'),
    'text:a@https://x.example | stop stop',
  ],
  [
    'Snowflake: a call that is none, and no sound',
    chunk({ content: 'a', function_call: { name: '', arguments: '' }, audio: { data: '', id: '' } }) +
      chunk({}, 'stop'),
    'text:a | stop stop',
  ],
  [
    'Perplexity: sources beside',
    chunk({ content: 'a' }, null, { citations: ['https://x.example'] }) +
      chunk({}, 'stop', { citations: ['https://x.example'] }),
    'text:a@https://x.example | stop stop',
  ],
  [
    'an error',
    `${chunk({ content: 'a' })}data: {"error":{"message":"m","type":"server_error","code":null}}\n\n`,
    'text:a | failed error_in_stream',
  ],
  [
    'Groq: a named error',
    `event: error\ndata: {"error":{"message":"m","type":"x","status_code":503}}\n\n`,
    'failed overloaded',
  ],
  ['a named error that is text', 'event: error\ndata: broken\n\n', 'failed error_in_stream'],
  [
    'OpenRouter: an error with choices',
    chunk({ content: '' }, 'error', { error: { code: 502, message: 'm' } }),
    'failed status',
  ],
  [
    'OpenRouter: an error in the choice',
    `data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"error","error":{"code":429,"message":"m"}}]}\n\n`,
    'failed rate_limited',
  ],
  ['an end that is an error', chunk({ content: 'a' }) + chunk({}, 'error'), 'text:a | failed error_in_stream'],
  ['a call that is none', chunk({ content: 'a' }) + chunk({}, 'MALFORMED_FUNCTION_CALL'), 'text:a | failed malformed'],
  [
    'a flat error',
    'data: {"object":"error","message":"m","type":"BadRequestError","code":400}\n\n',
    'failed invalid_request',
  ],
  ['error: null is none', chunk({ content: 'a' }, 'stop', { error: null }), 'text:a | stop stop'],
  [
    'two choices, the first is told',
    `data: {"id":"c","choices":[{"index":1,"delta":{"content":"z"}},{"index":0,"delta":{"content":"a"}}]}\n\n${chunk({}, 'stop')}data: {"id":"c","choices":[{"index":1,"delta":{},"finish_reason":"length"}]}\n\n${DONE}`,
    'text:a | stop stop',
  ],
  [
    'two choices, one cut off',
    `data: {"id":"c","choices":[{"index":1,"delta":{"content":"z"}},{"index":0,"delta":{"content":"a"}}]}\n\n${chunk({}, 'stop')}`,
    'text:a | failed truncated',
  ],
  ['foreign reasons', chunk({ content: 'a' }, 'eos'), 'text:a | stop eos'],
  [
    'Gemini by number',
    `data: {"id":"c","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":1}]}\n\n`,
    'text:a | stop 1',
  ],
  [
    'a function in the old way',
    chunk({ function_call: { name: 'f', arguments: '' } }) +
      chunk({ function_call: { arguments: '{}' } }) +
      chunk({}, 'function_call'),
    'call_ige8jzzbbgcp3wxwhpztbzd7/f:{} | tool-calls function_call',
  ],
  [
    'a call without an id',
    chunk(call(0, '', 'f', '{}')) + chunk({}, 'stop'),
    'call_ige8jzzbbgcp3wxwhpztbzd7/f:{} | tool-calls stop',
  ],
  [
    'a whole message for a delta',
    `data: {"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}\n\n`,
    'text:a | stop stop',
  ],
]
for (const [name, wire, expected] of read)
  test(`chat stream read: ${name}`, () => {
    const events = decode([wire])
    const answer = fold(events)
    // A proof of what was folded: nothing was told after its end.
    assert.equal(line(answer), expected)
    assert.deepEqual(decode(wire), events, 'character by character')
    for (let cut = 0; cut <= wire.length; cut += 7)
      assert.deepEqual(decode([wire.slice(0, cut), wire.slice(cut)]), events, `cut at ${cut}`)
  })

test('chat stream read: an event too long is a failure', () => {
  assert.equal(fold(openaiChat.decodeStream().push({ data: '', oversized: true })).failure?.kind, 'too_large')
})

test('chat stream read: media opens a block, so that it counts as content', () => {
  const events = decode([
    chunk({ audio: { id: 'a', data: 'AA' } }) + chunk({ audio: { data: 'BB' } }) + chunk({}, 'stop'),
  ])
  assert.deepEqual(
    events.flatMap((event) => (event.type === 'open' ? [event.block.type] : [])),
    ['foreign'],
  )
})

test('chat stream read: nothing is thrown whatever the chunks hold', () => {
  const names = [
    'id',
    'choices',
    'delta',
    'index',
    'content',
    'tool_calls',
    'function',
    'name',
    'arguments',
    'finish_reason',
    'usage',
    'error',
    'reasoning_details',
    'type',
    'annotations',
    'function_call',
    'custom',
    'logprobs',
  ]
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: 'medium' },
      fc.jsonValue({ maxDepth: 1 }),
      fc.constantFrom(0, 1, 'stop', 'f', '{}', 'reasoning.text'),
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(fc.constantFrom(...names), tie('value'), { maxKeys: 5 }),
    ),
  }))
  fc.assert(
    fc.property(fc.array(value, { maxLength: 5 }), (chunks) => {
      const wire = chunks.map((each) => `data: ${JSON.stringify(each)}\n\n`).join('')
      const steps = stepsOf([wire])
      const events = steps.flatMap(({ events }) => events)
      run(openaiChat.encodeStream(context()), [{ events }])
      run(openaiChat.passing.passStream(context()), steps)
      // Everything in it is JSON.
      for (const each of chunks) openaiChat.encodeAnswer(fold(openaiChat.decodeAnswer(each as Json)), context())
    }),
    { numRuns: 1_000 },
  )
})

// ── Written ──────────────────────────────────────────────────────────────────────────────────────────────────────

const answer: ChatAnswer = {
  id: 'c1',
  model: 'm1',
  created: 5,
  blocks: [
    { type: 'reasoning', text: 'hm', signature: { origin: 'anthropic-messages', value: 'sig' } },
    { type: 'reasoning', text: 'so' },
    {
      type: 'text',
      text: 'a"\u2028é',
      citations: [{ url: 'https://x.example', title: 't' }],
      logprobs: [{ token: 'a' }],
    },
    { type: 'foreign', protocol: 'anthropic-messages', raw: {}, text: '' },
    { type: 'tool-call', id: 'c', name: 'f', text: '' },
    { type: 'tool-call', id: 'd', name: 'g', text: '{"b":2}' },
  ],
  usage: { input: 3, output: 4, cacheRead: 1, reasoning: 2 },
  finish: { kind: 'tool-calls', raw: 'tool_use' },
}
const write = (told: ChatAnswer, given = context()): string[] =>
  run(openaiChat.encodeStream(given), [{ events: unfold(told) }])
const bodies = (frames: readonly string[]): JsonObject[] =>
  frames.filter((frame) => frame !== DONE).map((frame) => JSON.parse(frame.slice(6)))
const deltas = (frames: readonly string[]) => bodies(frames).map(({ choices }) => (choices as JsonObject[])[0]?.delta)

test('chat stream written: role, deltas, reason, usage, [DONE]', () => {
  const frames = write(answer)
  assert.deepEqual(deltas(frames), [
    { role: 'assistant', content: '', refusal: null },
    { reasoning_content: 'hm' },
    {
      reasoning_details: [
        { type: 'reasoning.text', text: 'hm', signature: 'sig', id: 'hg:', format: 'anthropic-claude-v1', index: 0 },
      ],
    },
    { reasoning_content: '\n\nso' },
    { content: 'a"\u2028é' },
    {
      annotations: [
        { type: 'url_citation', url_citation: { url: 'https://x.example', title: 't', start_index: 0, end_index: 4 } },
      ],
    },
    { tool_calls: [{ index: 0, id: 'c', type: 'function', function: { name: 'f', arguments: '' } }] },
    { tool_calls: [{ index: 0, function: { arguments: '{}' } }] },
    { tool_calls: [{ index: 1, id: 'd', type: 'function', function: { name: 'g', arguments: '' } }] },
    { tool_calls: [{ index: 1, function: { arguments: '{"b":2}' } }] },
    {},
    undefined,
  ])
  for (const [index, body] of bodies(frames).entries()) {
    assert.deepEqual([body.id, body.object, body.created, body.model], ['c1', 'chat.completion.chunk', 5, 'm1'])
    assert.ok('usage' in body, `usage in ${index}`)
  }
  assert.deepEqual(bodies(frames).at(-1)?.usage, {
    prompt_tokens: 3,
    completion_tokens: 4,
    total_tokens: 7,
    prompt_tokens_details: { cached_tokens: 1 },
    completion_tokens_details: { reasoning_tokens: 2 },
  })
  assert.equal(frames.at(-1), DONE)
  for (const frame of frames) assert.match(frame, /^data: [^\n]*\n\n$/)
})

test('chat stream written: usage only to who asked', () => {
  const frames = write(answer, context({}, false))
  assert.ok(bodies(frames).every((body) => !('usage' in body)))
  assert.equal(frames.length, write(answer).length - 1)
})

test('chat stream written: ids and times of ours where the upstream gives none', () => {
  const [first] = bodies(write({ blocks: [], finish: { kind: 'stop', raw: null } }))
  assert.deepEqual([first?.id, first?.created, first?.model], ['chatcmpl_made', 7, 'target'])
})

test('chat written: a passage of the client’s own document has no address, and is not told', () => {
  const text = { type: 'text', text: 'a', citations: [{ url: '', title: 'mine' }] } as const
  const told: ChatAnswer = { blocks: [text], finish: { kind: 'stop', raw: null } }
  assert.ok(!write(told).join('').includes('annotations'))
  assert.ok(!JSON.stringify(openaiChat.encodeAnswer(told, context())).includes('annotations'))
})

test('chat answer read: members Snowflake always sends, empty, are no call and no sound', () => {
  const events = openaiChat.decodeAnswer({
    choices: [
      {
        index: 0,
        message: {
          content: '4',
          function_call: { name: '', arguments: '' },
          audio: { data: '', expires_at: 0, id: '' },
        },
        finish_reason: 'stop',
      },
    ],
  })
  assert.equal(line(fold(events)), 'text:4 | stop stop')
})

test('chat stream written: calls in the old way for who asks so', () => {
  const legacy = context({ body: { functions: [{ name: 'f' }] } })
  const frames = write(answer, legacy)
  assert.deepEqual(
    deltas(frames).filter((delta) => JSON.stringify(delta ?? '').includes('call')),
    [{ function_call: { name: 'f', arguments: '' } }, { function_call: { arguments: '{}' } }],
  )
  assert.match(frames.at(-3) ?? '', /"finish_reason":"function_call"/)
  const { choices } = openaiChat.encodeAnswer(answer, legacy)
  const [choice] = choices as JsonObject[]
  assert.deepEqual(object(choice?.message)?.function_call, { name: 'f', arguments: '{}' })
  assert.equal(choice?.finish_reason, 'function_call')
})

const refusals: readonly (readonly [name: string, told: ChatAnswer, refusal: string, reason: string])[] = [
  ['with words', { blocks: [{ type: 'refusal', text: 'no' }], finish: { kind: 'refusal', raw: 'stop' } }, 'no', 'stop'],
  [
    'without words',
    { blocks: [{ type: 'text', text: 'a' }], finish: { kind: 'refusal', raw: 'refusal' } },
    'The model refused to answer.',
    'content_filter',
  ],
]
for (const [name, told, refusal, reason] of refusals)
  test(`chat: a refusal ${name} is one, streamed or not`, () => {
    const streamed = deltas(write(told)).flatMap((delta) => {
      const words = (delta as JsonObject | undefined)?.refusal
      return typeof words === 'string' ? [words] : []
    })
    assert.equal(streamed.join(''), refusal)
    const [choice] = openaiChat.encodeAnswer(told, context()).choices as JsonObject[]
    assert.equal(object(choice?.message)?.refusal, refusal)
    assert.equal(choice?.finish_reason, reason)
    assert.ok(write(told).some((frame) => frame.includes(`"finish_reason":"${reason}"`)))
  })

test('chat stream written: a failure ends it, without [DONE]', () => {
  const failure: ChatEvent = { type: 'failure', failure: fail('reset', 'The connection broke.') }
  const before = run(openaiChat.encodeStream(context()), [{ events: [{ type: 'start' }, failure] }])
  assert.deepEqual(before, [
    'data: {"error":{"message":"The connection broke.","type":"upstream_error","code":"reset","param":null,"request_id":"req_abc"}}\n\n',
  ])
  const events: ChatEvent[] = [
    { type: 'open', block: { type: 'text' } },
    { type: 'delta', text: 'a' },
    failure,
    { type: 'delta', text: 'b' },
  ]
  const after = run(openaiChat.encodeStream(context()), [{ events }])
  assert.match(after.at(-1) ?? '', /"code":"stream_interrupted"/)
  assert.ok(!after.join('').includes('[DONE]'))
  assert.equal(after.length, 3)
})

test('chat stream written: nothing complete is said of an answer without an end', () => {
  const events: ChatEvent[] = [
    { type: 'open', block: { type: 'text' } },
    { type: 'delta', text: 'a' },
  ]
  assert.ok(!run(openaiChat.encodeStream(context()), [{ events }]).join('').includes('[DONE]'))
})

test('chat streams: the sign of life is half an event, which the next one completes', () => {
  for (const writer of [openaiChat.encodeStream(context()), openaiChat.passing.passStream(context())]) {
    const frames = run(sseFrames(), [writer.keepAlive(), writer.keepAlive(), DONE])
    assert.deepEqual(
      frames.map(({ data }) => data),
      ['[DONE]'],
    )
  }
})

// ── Passed on ────────────────────────────────────────────────────────────────────────────────────────────────────

const pass = (wire: string, usage = true): string =>
  run(openaiChat.passing.passStream(context({}, usage)), stepsOf([wire])).join('')
const counted = chunk(null, null, usage)
const a = chunk({ content: 'a', unknown: 1 })
const end = chunk({}, 'stop')
const passed: readonly (readonly [name: string, wire: string, asked: boolean, out: string])[] = [
  ['byte for byte', `: x\n\n${a}${end}${counted}${DONE}`, true, `: x\n\n${a}${end}${counted}${DONE}`],
  ['without usage nobody asked for', a + end + counted + DONE, false, a + end + DONE],
  [
    'usage in a chunk with content stays',
    chunk({ content: 'a' }, 'stop', usage) + DONE,
    false,
    chunk({ content: 'a' }, 'stop', usage) + DONE,
  ],
  ['without ids', `id: 1\n${a}${end}${DONE}`, true, a + end + DONE],
  ['[DONE] added to what is complete', a + end, true, a + end + DONE],
  ['nothing after [DONE]', a + end + DONE + a, true, a + end + DONE],
  ['[DONE] exactly', `${a}${end}data: [DONE] \n\n`, true, a + end + DONE],
  ['[DONE] without a reason', a + DONE, true, a + DONE],
]
for (const [name, wire, asked, out] of passed)
  test(`chat stream passed on: ${name}`, () => {
    assert.equal(pass(wire, asked), out)
  })

const broken: readonly (readonly [name: string, wire: string])[] = [
  ['their error', `${a}data: {"error":{"message":"m","code":"x"}}\n\n${DONE}`],
  ['a named error', `${a}event: error\ndata: {"error":{"message":"m"}}\n\n`],
  ['cut off', a],
  ['not JSON', `${a}data: {"x\n\n${end}${DONE}`],
]
for (const [name, wire] of broken)
  test(`chat stream passed on: ${name} becomes our error`, () => {
    const out = pass(wire)
    assert.ok(out.startsWith(a))
    assert.match(
      out.slice(a.length),
      /^data: \{"error":\{"message":"[^\n]*","code":"stream_interrupted","param":null,"request_id":"req_abc"\}\}\n\n$/,
    )
  })

/** A chunk of OpenRouter, Groq, Cerebras, Ollama: the thoughts as `reasoning`. `before` stands before them in the delta. */
const thinks = (thought: string, before = ''): string =>
  `data: {"id":"c1","big":12345678901234567890,"choices":[{"index":0,"delta":{${before}"reasoning":${thought}},"finish_reason":null}]}\n\n`
const asBoth = (thought: string, before = ''): string => thinks(thought, `${before}"reasoning_content":${thought},`)
const renamed: readonly (readonly [name: string, wire: string, out: string])[] = [
  [
    'byte for byte otherwise',
    thinks('"a \\u00e9\\"\\n"', '"content":"",'),
    asBoth('"a \\u00e9\\"\\n"', '"content":"",'),
  ],
  ['in every chunk', thinks('"a"') + thinks('"b"') + a, asBoth('"a"') + asBoth('"b"') + a],
  ['not where it has that name too', asBoth('"a"'), asBoth('"a"')],
  ['not where there is no text', thinks('""') + thinks('null'), thinks('""') + thinks('null')],
  [
    'not in the words of an answer',
    chunk({ content: '"reasoning":"x"' }) + chunk({ content: 'reasoning' }, null, { kind: 'reasoning' }),
    chunk({ content: '"reasoning":"x"' }) + chunk({ content: 'reasoning' }, null, { kind: 'reasoning' }),
  ],
  [
    'also where the other name is there and empty',
    chunk({ reasoning_content: null, reasoning: 'a' }),
    chunk({ reasoning_content: 'a', reasoning: 'a' }),
  ],
  [
    'in each of several choices',
    chunk(null, null, { choices: [0, 1].map((index) => ({ index, delta: { reasoning: `r${index}` } })) }),
    chunk(null, null, {
      choices: [0, 1].map((index) => ({ index, delta: { reasoning_content: `r${index}`, reasoning: `r${index}` } })),
    }),
  ],
  [
    'in a whole message',
    chunk(null, null, { choices: [{ index: 0, message: { content: 'x', reasoning: 'a' } }] }),
    chunk(null, null, { choices: [{ index: 0, message: { content: 'x', reasoning_content: 'a', reasoning: 'a' } }] }),
  ],
]
for (const [name, wire, out] of renamed)
  test(`chat stream passed on: reasoning is also reasoning_content, ${name}`, () => {
    assert.equal(pass(wire + end + DONE), out + end + DONE)
  })

test('chat stream passed on: an event of several lines stays one event', () => {
  const [frame] = run(sseFrames(), [
    pass(`data: {"choices":[{"index":0,\ndata: "delta":{"reasoning":"a"}}]}\n\n${end}${DONE}`),
  ])
  assert.deepEqual(JSON.parse(frame?.data ?? ''), {
    choices: [{ index: 0, delta: { reasoning_content: 'a', reasoning: 'a' } }],
  })
})

test('chat answer passed on: reasoning is also reasoning_content', () => {
  const { passAnswer } = openaiChat.passing
  const said = (message: string) => `{ "choices":[{"index":0,"message":{${message}}}],"big":12345678901234567890}`
  const unchanged = said('"content":"\\"reasoning\\":\\"x\\""')
  assert.equal(passAnswer?.(unchanged, context()), unchanged)
  assert.equal(
    passAnswer?.(said('"content":"x","reasoning" : "a\\n"'), context()),
    said('"content":"x","reasoning_content":"a\\n","reasoning" : "a\\n"'),
  )
})

for (const [name, choice, written] of [
  ['reasoning', '"message":{"reasoning":"a"}', '"message":{"reasoning_content":"a","reasoning":"a"}'],
  [
    'a filter reason',
    '"finish_reason":"content_filter"',
    '"finish_reason":"content_filter","message":{"role":"assistant","content":"","refusal":null}',
  ],
] as const)
  test(`chat answer passed on: ${name} in the second choice is completed, whether parsed already or not`, () => {
    const { passAnswer } = openaiChat.passing
    const said = (second: string) =>
      `{"choices":[{"index":0,"message":{"content":"x"},"finish_reason":"stop"},{"index":1,${second}}]}`
    const source = said(choice)
    assert.equal(passAnswer?.(source, context()), said(written))
    assert.equal(passAnswer?.(source, context(), JSON.parse(source)), said(written))
  })

// ── The official SDK as judge ────────────────────────────────────────────────────────────────────────────────────

/** What openai-node makes of it, as if it had come over the network. */
const judged = async (frames: readonly string[]) => {
  const lines = frames.filter((frame) => frame !== DONE).map((frame) => `${frame.slice(6).trim()}\n`)
  const stream = new ReadableStream({
    start(controller) {
      for (const each of lines) controller.enqueue(new TextEncoder().encode(each))
      controller.close()
    },
  })
  return ChatCompletionStream.fromReadableStream(stream).finalChatCompletion()
}

test('chat stream written: openai-node takes it', async () => {
  const told = await judged(write(answer))
  assert.equal(told.choices[0]?.message.content, 'a"\u2028é')
  assert.deepEqual(
    told.choices[0]?.message.tool_calls?.map(
      (each) => 'function' in each && [each.id, each.function.name, each.function.arguments],
    ),
    [
      ['c', 'f', '{}'],
      ['d', 'g', '{"b":2}'],
    ],
  )
  assert.equal(told.choices[0]?.finish_reason, 'tool_calls')
  assert.equal(told.usage?.total_tokens, 7)
})

test('chat stream written: openai-node throws at an interruption', async () => {
  const frames = run(openaiChat.encodeStream(context()), [
    {
      events: [
        ...unfold({ ...answer, blocks: answer.blocks.slice(2, 3) }).slice(0, 3),
        { type: 'failure', failure: fail('reset', 'broke') },
      ],
    },
  ])
  await assert.rejects(judged(frames))
})
