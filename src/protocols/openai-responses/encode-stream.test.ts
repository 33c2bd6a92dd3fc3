import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answerContext, sequentialIds } from '../../../test/support/builders.ts'
import {
  bodiesOf,
  failureEvent,
  framesOf,
  responsesContext,
  startEvent,
  stopEvent,
  textBlock,
  toolCallBlock,
} from '../../../test/support/responses-stream.ts'
import { type ChatEvent, fold } from '../../core/chat.ts'
import { type Json, type JsonObject, object } from '../../core/json.ts'
import type { StreamStep, StreamWriter } from '../../core/protocol.ts'
import { run } from '../../core/stage.ts'
import { encodeStream } from './encode-stream.ts'
import { openaiResponses as codec } from './index.ts'

const whole: readonly ChatEvent[] = [
  { type: 'start', id: 'chatcmpl-1', model: 'gpt', created: 2_000 },
  { type: 'open', block: { type: 'reasoning' } },
  { type: 'delta', text: 'hm' },
  { type: 'signature', signature: { origin: 'anthropic-messages', value: 'SIG' } },
  { type: 'close' },
  { type: 'open', block: { type: 'text' } },
  { type: 'delta', text: 'He' },
  { type: 'delta', text: 'llo' },
  { type: 'citation', citation: { url: 'https://a.example' } },
  { type: 'close' },
  { type: 'open', block: { type: 'tool-call', id: 'call_1', name: 'f' } },
  { type: 'close' },
  { type: 'open', block: { type: 'tool-call', id: 'call_2', name: 'g' } },
  { type: 'delta', text: '{"a":1}' },
  { type: 'close' },
  { type: 'usage', usage: { input: 5, output: 7, reasoning: 2 } },
  { type: 'finish', finish: { kind: 'tool-calls', raw: 'tool_calls' } },
]
const write = (writer: StreamWriter, events: readonly ChatEvent[]): string =>
  run(
    writer,
    events.map((event): StreamStep => ({ events: [event] })),
  ).join('')

test('responses writer: events in the documented order', () => {
  const wire = write(codec.encodeStream(responsesContext()), whole)
  const bodies = bodiesOf(wire)
  assert.deepEqual(
    bodies.map(({ type, output_index }) => (output_index === undefined ? type : `${output_index} ${type}`)),
    [
      'response.created',
      'response.in_progress',
      '0 response.output_item.added',
      '0 response.content_part.added',
      '0 response.reasoning_text.delta',
      '0 response.reasoning_text.done',
      '0 response.content_part.done',
      '0 response.output_item.done',
      '1 response.output_item.added',
      '1 response.content_part.added',
      '1 response.output_text.delta',
      '1 response.output_text.delta',
      '1 response.output_text.annotation.added',
      '1 response.output_text.done',
      '1 response.content_part.done',
      '1 response.output_item.done',
      '2 response.output_item.added',
      '2 response.function_call_arguments.done',
      '2 response.output_item.done',
      '3 response.output_item.added',
      '3 response.function_call_arguments.delta',
      '3 response.function_call_arguments.done',
      '3 response.output_item.done',
      'response.completed',
    ],
  )
  assert.deepEqual(
    bodies.map(({ sequence_number }) => sequence_number),
    bodies.map((_, index) => index),
  )
  assert.ok(wire.endsWith('\n\ndata: [DONE]\n\n'))
  assert.ok(!/^id:/m.test(wire))
  const response = bodies.at(-1)?.response as JsonObject
  assert.deepEqual(response.output, [
    {
      type: 'reasoning',
      id: 'rs_hg_a',
      status: 'completed',
      summary: [],
      content: [{ type: 'reasoning_text', text: 'hm' }],
      encrypted_content: 'hg1:anthropic-messages:::2:hmSIG',
    },
    {
      type: 'message',
      id: 'msg_a',
      status: 'completed',
      role: 'assistant',
      content: [
        {
          type: 'output_text',
          text: 'Hello',
          annotations: [{ type: 'url_citation', url: 'https://a.example', title: '', start_index: 0, end_index: 5 }],
          logprobs: [],
        },
      ],
    },
    { type: 'function_call', id: 'fc_a', status: 'completed', call_id: 'call_1', name: 'f', arguments: '{}' },
    { type: 'function_call', id: 'fc_b', status: 'completed', call_id: 'call_2', name: 'g', arguments: '{"a":1}' },
  ])
  assert.deepEqual(
    codec.encodeAnswer(fold(whole), responsesContext()),
    response,
    'a whole answer is what its stream ends with',
  )
  assert.deepEqual(
    [response.model, response.created_at, response.completed_at, response.store],
    ['gpt', 2_000, 2_000, false],
  )
})

test('responses writer: an answer that a client sends back is decoded unchanged', () => {
  const { output } = codec.encodeAnswer(fold(whole), responsesContext())
  const decoded = codec.decodeRequest({ model: 'm', input: output as Json })
  assert.ok(decoded.ok)
  const parts = decoded.value.messages.flatMap(({ content }) => content)
  assert.deepEqual(parts[0], {
    type: 'reasoning',
    at: 'input[0]',
    text: 'hm',
    signature: { origin: 'anthropic-messages', value: 'SIG' },
  })
  assert.deepEqual(
    parts.slice(1).map((part) => (part.type === 'tool-call' ? part.id : part.type)),
    ['text', 'call_1', 'call_2'],
  )
})

test('responses writer: the request settings are repeated', () => {
  const body = {
    instructions: 'be brief',
    tools: [{ type: 'function', name: 'f' }, { type: 'web_search' }],
    text: { format: { type: 'json_schema', name: 'n', schema: {} }, verbosity: 'low' },
    reasoning: { effort: 'low' },
    metadata: { a: 'b' },
    temperature: 0,
    store: true,
    max_output_tokens: 50,
    parallel_tool_calls: null,
    tool_choice: null,
  }
  const {
    tools,
    text,
    reasoning,
    metadata,
    temperature,
    store,
    max_output_tokens,
    parallel_tool_calls,
    tool_choice,
    instructions,
  } = codec.encodeAnswer(fold([stopEvent]), responsesContext(body))
  assert.deepEqual(
    {
      tools,
      text,
      reasoning,
      metadata,
      temperature,
      store,
      max_output_tokens,
      parallel_tool_calls,
      tool_choice,
      instructions,
    },
    {
      instructions: 'be brief',
      tools: [
        { type: 'function', name: 'f', description: null, parameters: null, strict: true },
        { type: 'web_search' },
      ],
      text: {
        format: { type: 'json_schema', name: 'n', schema: {}, description: null, strict: true },
        verbosity: 'low',
      },
      reasoning: { effort: 'low', summary: null },
      metadata: { a: 'b' },
      temperature: 0,
      store: true,
      max_output_tokens: 50,
      parallel_tool_calls: true,
      tool_choice: 'auto',
    },
  )
})

const finishes: readonly (readonly [string, readonly ChatEvent[], unknown])[] = [
  [
    'length',
    [...textBlock('a'), { type: 'finish', finish: { kind: 'length', raw: 'length' } }],
    ['incomplete', 'max_output_tokens', 'incomplete'],
  ],
  [
    'content filter',
    [...textBlock('a'), { type: 'finish', finish: { kind: 'content-filter', raw: null } }],
    ['incomplete', 'content_filter', 'incomplete'],
  ],
  [
    'a refusal with text',
    [
      { type: 'open', block: { type: 'refusal' } },
      { type: 'delta', text: 'no' },
      { type: 'close' },
      { type: 'finish', finish: { kind: 'refusal', raw: null } },
    ],
    ['completed', undefined, 'completed'],
  ],
  [
    'a refusal without text',
    [{ type: 'finish', finish: { kind: 'refusal', raw: 'refusal' } }],
    ['completed', undefined, 'completed'],
  ],
  [
    'a malformed call',
    [...toolCallBlock('a', '{'), { type: 'finish', finish: { kind: 'malformed', raw: 'MALFORMED' } }],
    ['failed', undefined, 'incomplete'],
  ],
  ['no end', textBlock('a'), ['failed', undefined, 'incomplete']],
]
for (const [name, events, expected] of finishes)
  test(`responses writer: ${name}`, () => {
    const { status, incomplete_details, output } = codec.encodeAnswer(fold(events), responsesContext())
    const last = (output as readonly JsonObject[]).at(-1)
    assert.deepEqual([status, object(incomplete_details)?.reason, last?.status], expected)
  })

test('responses writer: a failure during the stream', () => {
  const wire = write(codec.encodeStream(responsesContext()), [
    startEvent,
    ...textBlock('a').slice(0, 2),
    failureEvent,
    ...textBlock('b'),
    stopEvent,
  ])
  const bodies = bodiesOf(wire)
  const [error, failed] = bodies.slice(-2)
  assert.deepEqual(
    bodies.map(({ sequence_number }) => sequence_number),
    bodies.map((_, index) => index),
  )
  assert.deepEqual(error, {
    type: 'error',
    sequence_number: bodies.length - 2,
    error: {
      type: 'upstream_error',
      code: 'stream_interrupted',
      message: 'The connection broke.',
      param: null,
      request_id: 'req_abc',
    },
  })
  const response = failed?.response as JsonObject
  assert.equal(failed?.type, 'response.failed')
  assert.deepEqual(
    [response.id, response.status, response.error],
    ['resp_1', 'failed', { code: 'server_error', message: 'The connection broke.' }],
  )
  assert.ok(wire.endsWith('data: [DONE]\n\n'))
})

test('responses writer: a failure before any event has a response and its own code', () => {
  const types = bodiesOf(write(codec.encodeStream(responsesContext()), [failureEvent]))
  assert.deepEqual(
    types.map(({ type }) => type),
    ['response.created', 'response.in_progress', 'error', 'response.failed'],
  )
  assert.equal(object(types[2]?.error)?.code, 'reset')
})

test('responses writer: a keep-alive before the answer begins the response', () => {
  const writer = codec.encodeStream(responsesContext())
  assert.equal(writer.begun?.(), null)
  const first = writer.keepAlive() + writer.keepAlive()
  const begun = writer.begun?.()
  assert.ok(begun)
  const next = codec.encodeStream({ ...responsesContext(), begun })
  const rest = [...next.push({ events: [startEvent, ...textBlock('a'), stopEvent] }), ...next.end()].join('')
  const bodies = bodiesOf(first + rest)
  assert.deepEqual(
    bodies.slice(0, 4).map(({ type }) => type),
    ['response.created', 'response.in_progress', 'response.in_progress', 'response.output_item.added'],
  )
  assert.deepEqual(
    bodies.map(({ sequence_number }) => sequence_number),
    bodies.map((_, index) => index),
  )
  assert.equal(object(bodies.at(-1)?.response)?.id, object(bodies[0]?.response)?.id)
})

test('responses writer: keep-alives', () => {
  const writer = codec.encodeStream(responsesContext())
  const first = writer.push({ events: [startEvent] }).join('')
  const alive = writer.keepAlive()
  const rest = [...writer.push({ events: [...textBlock('a'), stopEvent] }), ...writer.end()].join('')
  assert.equal(writer.keepAlive(), '')
  const bodies = bodiesOf(first + alive + rest)
  assert.deepEqual(
    bodies.map(({ sequence_number }) => sequence_number),
    bodies.map((_, index) => index),
  )
  assert.equal(bodies[2]?.type, 'response.in_progress')
  assert.equal(object(bodies[2]?.response)?.id, 'resp_1')
})

test('responses writer: usage after the finish is in the last event', () => {
  const usage: ChatEvent = { type: 'usage', usage: { input: 3, output: 2 } }
  const bodies = bodiesOf(
    write(codec.encodeStream(responsesContext()), [startEvent, ...textBlock('a'), stopEvent, usage]),
  )
  assert.equal(bodies.at(-1)?.type, 'response.completed')
  assert.equal(object(object(bodies.at(-1)?.response)?.usage)?.total_tokens, 5)
})

test('responses writer: a ping does not begin the response', () =>
  assert.deepEqual(codec.encodeStream(responsesContext()).push({ events: [{ type: 'ping' }] }), []))

test('responses writer: the first id is kept', () => {
  const wire = write(codec.encodeStream(responsesContext()), [
    startEvent,
    { type: 'start', id: 'resp_2', model: 'other' },
    stopEvent,
  ])
  const responses = bodiesOf(wire).map(({ response }) => object(response) ?? {})
  assert.deepEqual(new Set(responses.map(({ id, model }) => `${id} ${model}`)), new Set(['resp_1 gpt']))
})

// ── Templates of repeated deltas ─────────────────────────────────────────────────────────────────────────────────

const deltas = (...texts: readonly string[]): readonly ChatEvent[] => texts.map((text) => ({ type: 'delta', text }))
const deltaWithLogprobs = (text: string): ChatEvent => ({
  type: 'delta',
  text,
  logprobs: [{ token: text, logprob: -1 }],
})
const tools = [{ type: 'function', name: 'f', parameters: {} }, { type: 'tool_search' }]

/** Every kind of block, with other events between deltas. */
const events: readonly ChatEvent[] = [
  { type: 'start', id: 'a', model: 'm' },
  { type: 'open', block: { type: 'reasoning', summary: true } },
  ...deltas('I', ' think', ''),
  { type: 'close' },
  { type: 'open', block: { type: 'reasoning' } },
  ...deltas('so', ' it', ' is'),
  { type: 'close' },
  { type: 'open', block: { type: 'text' } },
  ...deltas('It', ' is', '', ' "so"'),
  { type: 'citation', citation: { url: 'https://example.com/' } },
  ...deltas(' it', ' seems'),
  deltaWithLogprobs('.'),
  deltaWithLogprobs('.'),
  ...deltas(' And', ' so', ' on'),
  { type: 'usage', usage: { input: 1, output: 2 } },
  ...deltas('é', '😀'),
  { type: 'close' },
  { type: 'open', block: { type: 'text' } },
  ...deltas('Another', ' text'),
  { type: 'close' },
  { type: 'open', block: { type: 'refusal' } },
  ...deltas('No', ', no'),
  { type: 'close' },
  ...['f', 'tool_search'].flatMap((name): readonly ChatEvent[] => [
    { type: 'open', block: { type: 'tool-call', id: `call_${name}`, name } },
    ...deltas('{"a"', ':', '1}'),
    { type: 'close' },
  ]),
  { type: 'open', block: { type: 'tool-call', id: 'call_c', name: 'c', custom: true } },
  ...deltas('free', ' text'),
  { type: 'close' },
  ...deltas('of nothing', ' at all'),
  { type: 'finish', finish: { kind: 'stop', raw: 'stop' } },
]

const written = (stepsOf: (event: ChatEvent) => readonly ChatEvent[]): string => {
  const writer = encodeStream(answerContext({ body: { tools }, id: sequentialIds() }))
  const out = events.flatMap((event, at) => {
    // A keep-alive after every seventh event.
    const between = at % 7 === 6 ? [writer.keepAlive()] : []
    return [...writer.push({ events: stepsOf(event) }), ...between]
  })
  return [...out, ...writer.end()].join('')
}

test('responses writer: a delta written from the template equals one written in full', () => {
  // A step with two events never uses the template.
  assert.equal(
    written((event) => [event]),
    written((event) => [event, { type: 'ping' }]),
  )
})

test('responses stream: a frame written from a template equals one written in full', () => {
  const words = ['plain', '"quoted" \\ and "delta":""', 'é\u2028\n\u0000 \ud83d', '"sequence_number":0,', '']
  const deltas = words.map((text): ChatEvent => ({ type: 'delta', text }))
  const blocks = [
    { type: 'reasoning' },
    { type: 'reasoning' },
    { type: 'reasoning', summary: true },
    { type: 'text' },
    { type: 'text' },
    { type: 'refusal' },
    { type: 'tool-call', id: 'c"1', name: 'n' },
    { type: 'tool-call', id: 'c3', name: 'n' },
    { type: 'tool-call', id: 'c2', name: 'n', custom: true },
    { type: 'text' },
  ] as const
  const probable: ChatEvent = {
    type: 'delta',
    text: 'so',
    logprobs: [{ token: 'so', logprob: -1, bytes: [], top_logprobs: [] }],
  }
  const events: ChatEvent[] = [
    { type: 'start' },
    ...blocks.flatMap((block): ChatEvent[] => [
      { type: 'open', block },
      ...deltas,
      ...(block.type === 'text' ? [probable] : []),
      ...deltas,
      { type: 'close' },
    ]),
    { type: 'finish', finish: { kind: 'stop', raw: null } },
  ]
  const stream = codec.encodeStream(responsesContext())
  const frames = framesOf([...events.flatMap((event) => stream.push({ events: [event] })), ...stream.end()].join(''))
  let open: unknown
  let place = -1
  let steps = 0
  for (const [index, { event, data }] of frames.slice(0, -1).entries()) {
    const parsed: JsonObject = JSON.parse(data)
    assert.equal(data, JSON.stringify(parsed))
    assert.equal(parsed.type, event)
    assert.equal(parsed.sequence_number, index)
    if (event === 'response.output_item.added') {
      open = object(parsed.item)?.id
      place++
    }
    if (!event?.endsWith('.delta')) continue
    steps++
    assert.equal(parsed.item_id, open)
    assert.equal(parsed.output_index, place)
  }
  const expected = blocks.length * 2 * (words.length - 1) + blocks.filter(({ type }) => type === 'text').length
  assert.equal(steps, expected)
  const text = fold(run(codec.decodeStream(), frames))
  assert.deepEqual(
    text.blocks.map((block) => ('text' in block ? block.text : null)),
    blocks.map(({ type }) => words.join('') + (type === 'text' ? 'so' : '') + words.join('')),
  )
})
