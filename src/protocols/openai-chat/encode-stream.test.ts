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

/** An answer as one line: blocks as `type:text`, then its finish or failure. */
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
    'a stream of OpenAI',
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
    'input after [DONE] is ignored',
    `${chunk({ content: 'a' }, 'stop') + DONE + chunk({ content: 'b' })}data: {`,
    'text:a | stop stop',
  ],
  ['truncated', chunk({ content: 'a' }), 'text:a | failed truncated'],
  ['truncated inside a line', `${chunk({ content: 'a' })}data: {"cho`, 'text:a | failed truncated'],
  ['an empty stream', '', 'failed truncated'],
  [
    'a line that is not JSON',
    `${chunk({ content: 'a' })}data: {"cho\n\n${chunk({ content: 'b' }, 'stop')}`,
    'text:ab | failed malformed',
  ],
  ['a line that is not an object', `data: 5\n\n${chunk({ content: 'b' }, 'stop')}`, 'text:b | failed malformed'],
  [
    'Azure: a first chunk about the prompt',
    `data: {"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[]}\n\n${chunk({ content: 'a' }, 'stop')}`,
    'text:a | stop stop',
  ],
  [
    'Azure: a choice without a delta',
    `${chunk({ content: 'a' })}data: {"id":"","choices":[{"index":0,"finish_reason":null,"content_filter_offsets":{}}]}\n\n${chunk({}, 'stop')}`,
    'text:a | stop stop',
  ],
  ['comments between chunks', `: PROCESSING\n\n${chunk({ content: 'a' }, 'stop')}: x\n\n${DONE}`, 'text:a | stop stop'],
  [
    'a refusal',
    chunk({ refusal: 'I ' }) + chunk({ refusal: 'cannot' }) + chunk({}, 'stop'),
    'refusal:I cannot | refusal stop',
  ],
  [
    'a filtered answer',
    chunk({ content: 'a' }) + chunk({}, 'content_filter'),
    'text:a | content-filter content_filter',
  ],
  [
    'reasoning before text',
    chunk({ reasoning_content: 'h' }) +
      chunk({ reasoning_content: 'm', content: null }) +
      chunk({ content: 'a' }, 'stop'),
    'reasoning:hm | text:a | stop stop',
  ],
  [
    'reasoning in `reasoning`',
    chunk({ reasoning: 'hm', content: '' }) + chunk({ content: 'a' }, 'stop'),
    'reasoning:hm | text:a | stop stop',
  ],
  [
    'reasoning with a signature',
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
    'reasoning in `reasoning_details` only',
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
  ['a call with finish reason stop', chunk(call(0, 'c', 'f', '{}')) + chunk({}, 'stop'), 'c/f:{} | tool-calls stop'],
  ['a call without arguments', chunk(call(0, 'c', 'f', '')) + chunk({}, 'tool_calls'), 'c/f: | tool-calls tool_calls'],
  [
    'text, then two calls',
    chunk({ content: 'a' }) +
      chunk(call(0, 'c', 'f', '')) +
      chunk(call(0, undefined, undefined, '{}')) +
      chunk(call(1, 'd', 'g', '')) +
      chunk(call(1, undefined, undefined, '{"b":2}')) +
      chunk({}, 'tool_calls'),
    'text:a | c/f:{} | d/g:{"b":2} | tool-calls tool_calls',
  ],
  [
    'interleaved calls',
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
    'three calls, the first one incomplete',
    chunk(call(0, 'c', 'f', '{')) +
      chunk(call(1, 'd', 'g', '{}')) +
      chunk(call(2, 'e', 'h', '{}')) +
      chunk({}, 'tool_calls'),
    'c/f:{ | d/g:{} | e/h:{} | tool-calls tool_calls',
  ],
  [
    'complete calls without index',
    chunk(call(undefined, 'c', 'f', '{}')) + chunk(call(undefined, 'd', 'g', '{}')) + chunk({}, 'tool_calls'),
    'c/f:{} | d/g:{} | tool-calls tool_calls',
  ],
  [
    'complete calls, each with index 0',
    chunk(call(0, 'c', 'f', '{"a":1}')) + chunk(call(0, 'd', 'f', '{"a":2}')) + chunk({}, 'stop'),
    'c/f:{"a":1} | d/f:{"a":2} | tool-calls stop',
  ],
  [
    'name and id repeated in every fragment',
    chunk(call(0, 'c', 'f', '{"a"')) +
      chunk(call(0, 'c', 'f', ':1}')) +
      chunk(call(0, 'c', 'f', '')) +
      chunk({}, 'tool_calls'),
    'c/f:{"a":1} | tool-calls tool_calls',
  ],
  [
    'the name in a later fragment',
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
    'text during a call is emitted after the call',
    chunk(call(0, 'c', 'f', '{')) +
      chunk({ content: 'x' }) +
      chunk(call(0, undefined, undefined, '}')) +
      chunk({ content: 'y' }, 'tool_calls'),
    'c/f:{} | text:xy | tool-calls tool_calls',
  ],
  [
    'a citation',
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
    'OpenRouter: citations before the text',
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
    'Snowflake: empty members for a call and audio are ignored',
    chunk({ content: 'a', function_call: { name: '', arguments: '' }, audio: { data: '', id: '' } }) +
      chunk({}, 'stop'),
    'text:a | stop stop',
  ],
  [
    'Perplexity: citations outside of the choices',
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
    'Groq: an event named error',
    `event: error\ndata: {"error":{"message":"m","type":"x","status_code":503}}\n\n`,
    'failed overloaded',
  ],
  ['an event named error with plain text', 'event: error\ndata: broken\n\n', 'failed error_in_stream'],
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
  ['finish reason error', chunk({ content: 'a' }) + chunk({}, 'error'), 'text:a | failed error_in_stream'],
  [
    'finish reason MALFORMED_FUNCTION_CALL',
    chunk({ content: 'a' }) + chunk({}, 'MALFORMED_FUNCTION_CALL'),
    'text:a | failed malformed',
  ],
  [
    'a flat error',
    'data: {"object":"error","message":"m","type":"BadRequestError","code":400}\n\n',
    'failed incompatible',
  ],
  ['error: null is not an error', chunk({ content: 'a' }, 'stop', { error: null }), 'text:a | stop stop'],
  [
    'two choices, the first is decoded',
    `data: {"id":"c","choices":[{"index":1,"delta":{"content":"z"}},{"index":0,"delta":{"content":"a"}}]}\n\n${chunk({}, 'stop')}data: {"id":"c","choices":[{"index":1,"delta":{},"finish_reason":"length"}]}\n\n${DONE}`,
    'text:a | stop stop',
  ],
  [
    'two choices, one truncated',
    `data: {"id":"c","choices":[{"index":1,"delta":{"content":"z"}},{"index":0,"delta":{"content":"a"}}]}\n\n${chunk({}, 'stop')}`,
    'text:a | failed truncated',
  ],
  ["another vendor's finish reason", chunk({ content: 'a' }, 'eos'), 'text:a | stop eos'],
  [
    'a finish reason of Gemini as a number',
    `data: {"id":"c","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":1}]}\n\n`,
    'text:a | stop 1',
  ],
  [
    'a call in the deprecated function_call',
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
    'a complete message instead of a delta',
    `data: {"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}\n\n`,
    'text:a | stop stop',
  ],
]
for (const [name, wire, expected] of read)
  test(`chat stream read: ${name}`, () => {
    const events = decode([wire])
    const answer = fold(events)
    assert.equal(line(answer), expected)
    assert.deepEqual(decode(wire), events, 'character by character')
    for (let cut = 0; cut <= wire.length; cut += 7)
      assert.deepEqual(decode([wire.slice(0, cut), wire.slice(cut)]), events, `cut at ${cut}`)
  })

test('chat stream read: an event above the size limit is a failure', () => {
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

test('chat stream read: any chunks are decoded without throwing', () => {
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
      // fast-check types JSON values as unknown.
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
const write = (reply: ChatAnswer, given = context()): string[] =>
  run(openaiChat.encodeStream(given), [{ events: unfold(reply) }])
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

test('chat stream written: usage only if requested', () => {
  const frames = write(answer, context({}, false))
  assert.ok(bodies(frames).every((body) => !('usage' in body)))
  assert.equal(frames.length, write(answer).length - 1)
})

test('chat stream written: generated id and time if the upstream has none', () => {
  const [first] = bodies(write({ blocks: [], finish: { kind: 'stop', raw: null } }))
  assert.deepEqual([first?.id, first?.created, first?.model], ['chatcmpl_made', 7, 'target'])
})

test('chat written: a citation without a URL is omitted', () => {
  const text = { type: 'text', text: 'a', citations: [{ url: '', title: 'mine' }] } as const
  const reply: ChatAnswer = { blocks: [text], finish: { kind: 'stop', raw: null } }
  assert.ok(!write(reply).join('').includes('annotations'))
  assert.ok(!JSON.stringify(openaiChat.encodeAnswer(reply, context())).includes('annotations'))
})

test('chat answer read: empty members of Snowflake for a call and audio are ignored', () => {
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

test('chat stream written: calls as function_call if the request has functions', () => {
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

const refusals: readonly (readonly [name: string, reply: ChatAnswer, refusal: string, reason: string])[] = [
  ['with text', { blocks: [{ type: 'refusal', text: 'no' }], finish: { kind: 'refusal', raw: 'stop' } }, 'no', 'stop'],
  [
    'without text',
    { blocks: [{ type: 'text', text: 'a' }], finish: { kind: 'refusal', raw: 'refusal' } },
    'The model refused to answer.',
    'content_filter',
  ],
]
for (const [name, reply, refusal, reason] of refusals)
  test(`chat: a refusal ${name} is encoded as a refusal, streamed or not`, () => {
    const streamed = deltas(write(reply)).flatMap((delta) => {
      const words = (delta as JsonObject | undefined)?.refusal
      return typeof words === 'string' ? [words] : []
    })
    assert.equal(streamed.join(''), refusal)
    const [choice] = openaiChat.encodeAnswer(reply, context()).choices as JsonObject[]
    assert.equal(object(choice?.message)?.refusal, refusal)
    assert.equal(choice?.finish_reason, reason)
    assert.ok(write(reply).some((frame) => frame.includes(`"finish_reason":"${reason}"`)))
  })

test('chat stream written: a failure ends the stream without [DONE]', () => {
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

test('chat stream written: no [DONE] without a finish', () => {
  const events: ChatEvent[] = [
    { type: 'open', block: { type: 'text' } },
    { type: 'delta', text: 'a' },
  ]
  assert.ok(!run(openaiChat.encodeStream(context()), [{ events }]).join('').includes('[DONE]'))
})

test('chat streams: a keep-alive becomes part of the next event', () => {
  for (const writer of [openaiChat.encodeStream(context()), openaiChat.passing.passStream(context())]) {
    const frames = run(sseFrames(), [writer.keepAlive(), writer.keepAlive(), DONE])
    assert.deepEqual(
      frames.map(({ data }) => data),
      ['[DONE]'],
    )
  }
})

// ── Pass-through ──────────────────────────────────────────────────────────────────────────────────────────────────

const pass = (wire: string, usage = true): string =>
  run(openaiChat.passing.passStream(context({}, usage)), stepsOf([wire])).join('')
const counted = chunk(null, null, usage)
const a = chunk({ content: 'a', unknown: 1 })
const end = chunk({}, 'stop')
const passed: readonly (readonly [name: string, wire: string, asked: boolean, out: string])[] = [
  ['bytes are unchanged', `: x\n\n${a}${end}${counted}${DONE}`, true, `: x\n\n${a}${end}${counted}${DONE}`],
  ['usage is removed unless requested', a + end + counted + DONE, false, a + end + DONE],
  [
    'usage in a chunk with content stays',
    chunk({ content: 'a' }, 'stop', usage) + DONE,
    false,
    chunk({ content: 'a' }, 'stop', usage) + DONE,
  ],
  ['id lines are removed', `id: 1\n${a}${end}${DONE}`, true, a + end + DONE],
  ['[DONE] is added to a complete stream', a + end, true, a + end + DONE],
  ['input after [DONE] is dropped', a + end + DONE + a, true, a + end + DONE],
  ['white space after [DONE] is removed', `${a}${end}data: [DONE] \n\n`, true, a + end + DONE],
  ['[DONE] without a reason', a + DONE, true, a + DONE],
]
for (const [name, wire, asked, out] of passed)
  test(`chat stream passed through: ${name}`, () => {
    assert.equal(pass(wire, asked), out)
  })

const broken: readonly (readonly [name: string, wire: string])[] = [
  ["an upstream's error", `${a}data: {"error":{"message":"m","code":"x"}}\n\n${DONE}`],
  ['an event named error', `${a}event: error\ndata: {"error":{"message":"m"}}\n\n`],
  ['a truncated stream', a],
  ['invalid JSON', `${a}data: {"x\n\n${end}${DONE}`],
]
for (const [name, wire] of broken)
  test(`chat stream passed through: ${name} becomes the gateway's error`, () => {
    const out = pass(wire)
    assert.ok(out.startsWith(a))
    assert.match(
      out.slice(a.length),
      /^data: \{"error":\{"message":"[^\n]*","code":"stream_interrupted","param":null,"request_id":"req_abc"\}\}\n\n$/,
    )
  })

/** A chunk with reasoning as `reasoning`, as OpenRouter, Groq, Cerebras and Ollama send it. `before`: the delta's preceding members. */
const thinks = (thought: string, before = ''): string =>
  `data: {"id":"c1","big":12345678901234567890,"choices":[{"index":0,"delta":{${before}"reasoning":${thought}},"finish_reason":null}]}\n\n`
const asBoth = (thought: string, before = ''): string => thinks(thought, `${before}"reasoning_content":${thought},`)
const renamed: readonly (readonly [name: string, wire: string, out: string])[] = [
  [
    'other bytes are unchanged',
    thinks('"a \\u00e9\\"\\n"', '"content":"",'),
    asBoth('"a \\u00e9\\"\\n"', '"content":"",'),
  ],
  ['in every chunk', thinks('"a"') + thinks('"b"') + a, asBoth('"a"') + asBoth('"b"') + a],
  ['not if `reasoning_content` exists', asBoth('"a"'), asBoth('"a"')],
  ['not if the text is empty', thinks('""') + thinks('null'), thinks('""') + thinks('null')],
  [
    'not in the text of an answer',
    chunk({ content: '"reasoning":"x"' }) + chunk({ content: 'reasoning' }, null, { kind: 'reasoning' }),
    chunk({ content: '"reasoning":"x"' }) + chunk({ content: 'reasoning' }, null, { kind: 'reasoning' }),
  ],
  [
    'also if `reasoning_content` is null',
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
    'in a complete message',
    chunk(null, null, { choices: [{ index: 0, message: { content: 'x', reasoning: 'a' } }] }),
    chunk(null, null, { choices: [{ index: 0, message: { content: 'x', reasoning_content: 'a', reasoning: 'a' } }] }),
  ],
]
for (const [name, wire, out] of renamed)
  test(`chat stream passed through: reasoning is also reasoning_content, ${name}`, () => {
    assert.equal(pass(wire + end + DONE), out + end + DONE)
  })

test('chat stream passed through: an event of several lines stays one event', () => {
  const [frame] = run(sseFrames(), [
    pass(`data: {"choices":[{"index":0,\ndata: "delta":{"reasoning":"a"}}]}\n\n${end}${DONE}`),
  ])
  assert.deepEqual(JSON.parse(frame?.data ?? ''), {
    choices: [{ index: 0, delta: { reasoning_content: 'a', reasoning: 'a' } }],
  })
})

test('chat answer passed through: reasoning is also reasoning_content', () => {
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
  test(`chat answer passed through: ${name} in the second choice is completed, whether parsed already or not`, () => {
    const { passAnswer } = openaiChat.passing
    const said = (second: string) =>
      `{"choices":[{"index":0,"message":{"content":"x"},"finish_reason":"stop"},{"index":1,${second}}]}`
    const source = said(choice)
    assert.equal(passAnswer?.(source, context()), said(written))
    assert.equal(passAnswer?.(source, context(), JSON.parse(source)), said(written))
  })

// ── Read by the official SDK ────────────────────────────────────────────────────────────────────────────────────

/** The answer that openai-node reads from the stream. */
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

test('chat stream written: openai-node reads it', async () => {
  const reply = await judged(write(answer))
  assert.equal(reply.choices[0]?.message.content, 'a"\u2028é')
  assert.deepEqual(
    reply.choices[0]?.message.tool_calls?.map(
      (each) => 'function' in each && [each.id, each.function.name, each.function.arguments],
    ),
    [
      ['c', 'f', '{}'],
      ['d', 'g', '{"b":2}'],
    ],
  )
  assert.equal(reply.choices[0]?.finish_reason, 'tool_calls')
  assert.equal(reply.usage?.total_tokens, 7)
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
