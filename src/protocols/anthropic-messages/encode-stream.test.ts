import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answerContext } from '../../../test/support/builders.ts'
import { type ChatEvent, fold } from '../../core/chat.ts'
import { fail } from '../../core/failure.ts'
import type { JsonObject } from '../../core/json.ts'
import type { Frame, StreamStep } from '../../core/protocol.ts'
import { run } from '../../core/stage.ts'
import { sseFrames } from '../framing/sse.ts'
import { decodeStream } from './decode-stream.ts'
import { encodeStream } from './encode-stream.ts'
import { passStream } from './pass-stream.ts'

const event = (data: JsonObject, name: string | null = String(data.type)): string =>
  `${name === null ? '' : `event: ${name}\n`}data: ${JSON.stringify(data)}\n\n`
const start = event({
  type: 'message_start',
  message: {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'claude-3-7',
    content: [],
    usage: { input_tokens: 7, cache_read_input_tokens: 3, output_tokens: 1 },
  },
})
const begin = (index: number, content_block: JsonObject) => event({ type: 'content_block_start', index, content_block })
const delta = (index: number, of: JsonObject) => event({ type: 'content_block_delta', index, delta: of })
const stop = (index: number) => event({ type: 'content_block_stop', index })
const ending = (stop_reason: string | null, more: JsonObject = {}) =>
  event({ type: 'message_delta', delta: { stop_reason, stop_sequence: null, ...more }, usage: { output_tokens: 20 } })
const last = event({ type: 'message_stop' })
const ping = event({ type: 'ping' })
const text = (words: string) => ({ type: 'text_delta', text: words })
const json = (partial_json: string) => ({ type: 'input_json_delta', partial_json })

const started: ChatEvent[] = [
  { type: 'start', id: 'msg_1', model: 'claude-3-7' },
  {
    type: 'usage',
    usage: {
      input: 10,
      output: 1,
      cacheRead: 3,
      raw: { input_tokens: 7, cache_read_input_tokens: 3, output_tokens: 1 },
    },
  },
]
const used: ChatEvent = {
  type: 'usage',
  usage: {
    input: 10,
    output: 20,
    cacheRead: 3,
    raw: { input_tokens: 7, cache_read_input_tokens: 3, output_tokens: 20 },
  },
}
const finish = (kind: 'stop' | 'tool-calls' | 'length' | 'refusal' | 'pause', raw: string | null): ChatEvent => ({
  type: 'finish',
  finish: { kind, raw },
})
const close: ChatEvent = { type: 'close' }
const opened = (type: 'text' | 'reasoning' | 'refusal'): ChatEvent => ({ type: 'open', block: { type } })
const said = (words: string): ChatEvent => ({ type: 'delta', text: words })
const search = { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: {} }

const hi = [begin(0, { type: 'text', text: '' }), delta(0, text('Hi')), delta(0, text(' 😀é')), stop(0)]
const hiEvents = [opened('text'), said('Hi'), said(' 😀é'), close]

const streams: readonly [string, readonly string[], readonly ChatEvent[]][] = [
  [
    'text',
    [start, ping, ...hi, ending('end_turn'), last],
    [...started, { type: 'ping' }, ...hiEvents, used, finish('stop', 'end_turn')],
  ],
  [
    'reasoning, a call, a call without input',
    [
      start,
      begin(0, { type: 'thinking', thinking: '', signature: '' }),
      delta(0, { type: 'thinking_delta', thinking: 'Hm' }),
      delta(0, { type: 'signature_delta', signature: 'S/+=' }),
      stop(0),
      begin(1, { type: 'tool_use', id: 'toolu_1', name: 'f', input: {} }),
      delta(1, json('')),
      delta(1, json('{"a":')),
      delta(1, json('1}')),
      stop(1),
      begin(2, { type: 'tool_use', id: 'toolu_2', name: 'g', input: {} }),
      stop(2),
      ending('tool_use'),
      last,
    ],
    [
      ...started,
      opened('reasoning'),
      said('Hm'),
      { type: 'signature', signature: { origin: 'anthropic-messages', value: 'S/+=' } },
      close,
      { type: 'open', block: { type: 'tool-call', id: 'toolu_1', name: 'f' } },
      said('{"a":'),
      said('1}'),
      close,
      { type: 'open', block: { type: 'tool-call', id: 'toolu_2', name: 'g' } },
      said('{}'),
      close,
      used,
      finish('tool-calls', 'tool_use'),
    ],
  ],
  [
    'a signature without reasoning text, redacted reasoning',
    [
      start,
      begin(0, { type: 'thinking', thinking: '', signature: '' }),
      delta(0, { type: 'signature_delta', signature: 'S' }),
      stop(0),
      begin(1, { type: 'redacted_thinking', data: 'D' }),
      stop(1),
      ...hi,
      ending('end_turn'),
      last,
    ],
    [
      ...started,
      opened('reasoning'),
      { type: 'signature', signature: { origin: 'anthropic-messages', value: 'S' } },
      close,
      opened('reasoning'),
      { type: 'signature', signature: { origin: 'anthropic-messages', value: 'D', redacted: true } },
      close,
      ...hiEvents,
      used,
      finish('stop', 'end_turn'),
    ],
  ],
  [
    'hosted tools become foreign blocks, not calls',
    [
      start,
      begin(0, search),
      delta(0, json('{"query":')),
      delta(0, json('"x"}')),
      stop(0),
      begin(1, { type: 'web_search_tool_result', tool_use_id: 'srvtoolu_1', content: [] }),
      stop(1),
      ...hi,
      ending('end_turn'),
      last,
    ],
    [
      ...started,
      {
        type: 'open',
        block: { type: 'foreign', protocol: 'anthropic-messages', raw: { ...search, input: { query: 'x' } } },
      },
      close,
      {
        type: 'open',
        block: {
          type: 'foreign',
          protocol: 'anthropic-messages',
          raw: { type: 'web_search_tool_result', tool_use_id: 'srvtoolu_1', content: [] },
        },
      },
      close,
      ...hiEvents,
      used,
      finish('stop', 'end_turn'),
    ],
  ],
  [
    'citations',
    [
      start,
      begin(0, { type: 'text', text: '', citations: [] }),
      delta(0, {
        type: 'citations_delta',
        citation: {
          type: 'web_search_result_location',
          url: 'https://x.example',
          title: 'X',
          cited_text: 'x',
          encrypted_index: 'E',
        },
      }),
      delta(0, text('x')),
      stop(0),
      ending('end_turn'),
      last,
    ],
    [
      ...started,
      opened('text'),
      {
        type: 'citation',
        citation: {
          url: 'https://x.example',
          title: 'X',
          raw: {
            type: 'web_search_result_location',
            url: 'https://x.example',
            title: 'X',
            cited_text: 'x',
            encrypted_index: 'E',
          },
        },
      },
      said('x'),
      close,
      used,
      finish('stop', 'end_turn'),
    ],
  ],
  [
    'a refusal with an explanation',
    [
      start,
      event({
        type: 'message_delta',
        delta: {
          stop_reason: 'refusal',
          stop_sequence: null,
          stop_details: { type: 'refusal', explanation: 'Not this.' },
        },
        usage: { output_tokens: 20 },
      }),
      last,
    ],
    [...started, used, opened('refusal'), said('Not this.'), close, finish('refusal', 'refusal')],
  ],
  [
    'events without names',
    [start, ...hi, ending('end_turn'), last].map((frame) => frame.replace(/^event: .*\n/, '')),
    [...started, ...hiEvents, used, finish('stop', 'end_turn')],
  ],
  [
    'events with a name but without a type',
    [start, ...hi, ending('end_turn'), last].map((frame) => frame.replace(/"type":"(message|content)_[a-z_]+",?/, '')),
    [...started, ...hiEvents, used, finish('stop', 'end_turn')],
  ],
  [
    'unknown deltas and unknown events are ignored',
    [
      start,
      event({ type: 'weather', sky: 'blue' }),
      ...hi,
      delta(0, { type: 'smell_delta', smell: 'x' }),
      ending('end_turn'),
      last,
    ],
    [...started, ...hiEvents, used, finish('stop', 'end_turn')],
  ],
  [
    'a delta without content_block_start',
    [start, delta(0, text('Hi')), stop(0), ending('end_turn'), last],
    [...started, opened('text'), said('Hi'), close, used, finish('stop', 'end_turn')],
  ],
  [
    'a block without content_block_stop',
    [
      start,
      begin(0, { type: 'text', text: 'Hi' }),
      begin(1, { type: 'thinking', thinking: 'Hm' }),
      ending('max_tokens'),
      last,
    ],
    [
      ...started,
      opened('text'),
      said('Hi'),
      close,
      opened('reasoning'),
      said('Hm'),
      close,
      used,
      finish('length', 'max_tokens'),
    ],
  ],
  [
    'a stop reason without message_stop',
    [start, ...hi, ending('end_turn')],
    [...started, ...hiEvents, used, finish('stop', 'end_turn')],
  ],
  ['message_stop without a stop reason', [start, ...hi, last], [...started, ...hiEvents, finish('stop', null)]],
  [
    'a call with stop reason end_turn',
    [start, begin(0, { type: 'tool_use', id: '', name: 'f', input: { a: 1 } }), stop(0), ending('end_turn'), last],
    [
      ...started,
      { type: 'open', block: { type: 'tool-call', id: 'call_ID', name: 'f' } },
      said('{"a":1}'),
      close,
      used,
      finish('tool-calls', 'end_turn'),
    ],
  ],
  [
    'later usage replaces earlier usage',
    [
      start,
      ...hi,
      ending(null),
      event({
        type: 'message_delta',
        delta: { stop_reason: 'pause_turn' },
        usage: { input_tokens: 9, cache_read_input_tokens: null, output_tokens: 30 },
      }),
      last,
    ],
    [
      ...started,
      ...hiEvents,
      used,
      {
        type: 'usage',
        usage: {
          input: 12,
          output: 30,
          cacheRead: 3,
          raw: { input_tokens: 9, cache_read_input_tokens: 3, output_tokens: 30 },
        },
      },
      finish('pause', 'pause_turn'),
    ],
  ],
  [
    'nothing after the end',
    [start, ...hi, ending('end_turn'), last, start, ...hi, last],
    [...started, ...hiEvents, used, finish('stop', 'end_turn')],
  ],
]

const failure = (events: readonly ChatEvent[]) =>
  events.flatMap((one) => (one.type === 'failure' ? [one.failure.kind] : []))
const decoded = (pieces: readonly string[]): ChatEvent[] => run(decodeStream(), run(sseFrames(), pieces))
const withoutMadeIds = (events: readonly ChatEvent[]): ChatEvent[] =>
  JSON.parse(JSON.stringify(events).replace(/call_[a-z0-9]{24}/g, 'call_ID'))

for (const [name, pieces, events] of streams)
  test(`decode: ${name}`, () => {
    const whole = pieces.join('')
    assert.deepEqual(withoutMadeIds(decoded([whole])), events)
    assert.deepEqual(withoutMadeIds(decoded([...whole])), events)
    for (let cut = 0; cut <= whole.length; cut++)
      assert.deepEqual(withoutMadeIds(decoded([whole.slice(0, cut), whole.slice(cut)])), events, `cut at ${cut}`)
  })

test('decode: a stream cut anywhere before its end is truncated', () => {
  const whole = [start, ping, ...hi, ending('end_turn'), last].join('')
  const safe = whole.indexOf('event: message_delta')
  const complete = whole.indexOf('event: message_stop')
  for (let length = 0; length < whole.length; length++) {
    const kinds = failure(decoded([whole.slice(0, length)]))
    // After the stop reason only the last event is missing, which adds nothing.
    if (length <= safe) assert.deepEqual(kinds, ['truncated'], `at ${length}`)
    if (length >= complete) assert.deepEqual(kinds, [], `at ${length}`)
  }
})

const broken: readonly [string, readonly string[], string][] = [
  ['not JSON', [start, 'event: content_block_delta\ndata: {"type":\n\n', ...hi], 'malformed'],
  ['not an object', [start, 'data: 7\n\n'], 'malformed'],
  ['message_start without a message', [event({ type: 'message_start' })], 'malformed'],
  ['a block without a type', [start, event({ type: 'content_block_start', index: 0, content_block: {} })], 'malformed'],
  ['call input without a call', [start, delta(0, json('{'))], 'malformed'],
  [
    'a block nested too deeply',
    [start, begin(0, { type: 'x', deep: JSON.parse('['.repeat(500) + ']'.repeat(500)) }), stop(0)],
    'malformed',
  ],
  [
    'overloaded',
    [start, event({ type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }), ...hi],
    'overloaded',
  ],
  [
    'an api_error',
    [start, ...hi, event({ type: 'error', error: { type: 'api_error', message: 'x' } })],
    'error_in_stream',
  ],
  ['a rate limit', [event({ type: 'error', error: { type: 'rate_limit_error', message: 'x' } })], 'rate_limited'],
  ['an error without a name', [event({ error: { message: 'x' } }, null)], 'error_in_stream'],
  ['an empty stream', [], 'truncated'],
  ['only pings and comments', [start, ': x\n\n', ping], 'truncated'],
]
for (const [name, pieces, kind] of broken)
  test(`decode: ${name}`, () => {
    const events = decoded(pieces)
    assert.deepEqual(failure(events), [kind])
    assert.equal(events.at(-1)?.type, 'failure')
  })

test('decode: an event above the size limit', () => {
  const events = run(decodeStream(), [{ data: '', oversized: true }, { data: '{"type":"message_stop"}' }])
  assert.deepEqual(failure(events), ['too_large'])
  assert.equal(events.length, 1)
})

// ── Writing ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const context = answerContext({ created: 0, model: 'wire-model', requestId: 'req_x' })
const written = (events: readonly ChatEvent[]): string[] =>
  run(
    encodeStream(context),
    events.map((one) => ({ events: [one] })),
  )
const withoutRaw = (events: readonly ChatEvent[]) => {
  const { usage, ...answer } = fold(events)
  const { raw: _, ...counts } = usage ?? { raw: null }
  return { ...answer, usage: { cacheRead: 0, cacheWrite: 0, ...counts } }
}

for (const [name, , events] of streams)
  test(`encode and decode: ${name}`, () => {
    const refused = events.some((one) => one.type === 'open' && one.block.type === 'refusal')
    const again = decoded([written(events).join('')])
    const before = withoutRaw(events.filter((one) => one.type !== 'ping'))
    const after = withoutRaw(again)
    // A refusal is written as text with a stop reason, and the raw reason may differ.
    assert.deepEqual(
      after.blocks.filter(({ type }) => type !== 'refusal').map(({ text: words }) => words),
      before.blocks.filter(({ type, text: words }) => type !== 'text' || words !== '').map(({ text: words }) => words),
    )
    if (!refused) assert.deepEqual(after.blocks, before.blocks)
    assert.equal(after.finish?.kind, before.finish?.kind)
    assert.deepEqual({ id: after.id, model: after.model }, { id: before.id, model: before.model })
    assert.deepEqual(after.usage, before.usage)
  })

test('encode: one start, no empty blocks, late usage', () => {
  const pieces = written([
    { type: 'start', id: 'chatcmpl-1', model: 'gpt' },
    opened('text'),
    close,
    opened('reasoning'),
    close,
    opened('text'),
    said(''),
    said('Hi'),
    close,
    finish('stop', 'stop'),
    { type: 'usage', usage: { input: 100, output: 5, cacheRead: 60, cacheWrite: 10, reasoning: 2 } },
  ])
  assert.deepEqual(
    pieces.map((piece) => /^event: (\w+)/.exec(piece)?.[1]),
    [
      'message_start',
      'content_block_start',
      'content_block_delta',
      'content_block_stop',
      'message_delta',
      'message_stop',
    ],
  )
  assert.match(pieces[0] ?? '', /"id":"msg_made".*"model":"gpt"/)
  assert.match(pieces[1] ?? '', /"index":0/)
  assert.match(
    pieces[4] ?? '',
    /"stop_reason":"end_turn".*"usage":\{"input_tokens":30,"cache_creation_input_tokens":10,"cache_read_input_tokens":60,"output_tokens":5,"output_tokens_details":\{"thinking_tokens":2\}\}/,
  )
})

test('encode: fragments of free-form input form one JSON object, also with split surrogate pairs', () => {
  const pieces = ['say "', '\ud83d', '\ude00', '"\n\\']
  const all = written([
    { type: 'open', block: { type: 'tool-call', id: 'c', name: 'f', custom: true } },
    ...pieces.map(said),
    close,
    finish('tool-calls', 'tool_calls'),
  ])
  const input = all.flatMap((piece) => {
    const { delta: grown } = JSON.parse(piece.split('data: ')[1] ?? '')
    return grown?.partial_json ?? []
  })
  assert.deepEqual(JSON.parse(input.join('')), { input: pieces.join('') })
})

test('encode: signatures of other formats are restored from the client', () => {
  const signature = { origin: 'openai-responses', value: 'gAAA=', id: 'rs_1', redacted: true } as const
  const all = written([
    opened('reasoning'),
    said('Hm'),
    { type: 'signature', signature },
    close,
    finish('stop', 'stop'),
  ])
  const grown = all.map((piece) => JSON.parse(piece.split('data: ')[1] ?? '').delta?.signature).find(Boolean)
  assert.notEqual(grown, 'gAAA=')
  assert.match(grown, /gAAA=/)
})

test('encode: nothing follows a failure', () => {
  const failed: ChatEvent = { type: 'failure', failure: fail('truncated', 'It broke off.') }
  const pieces = written([{ type: 'start' }, opened('text'), said('Hi'), failed, said('more'), finish('stop', null)])
  assert.equal(
    pieces.at(-1),
    'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"It broke off."},"request_id":"req_x"}\n\n',
  )
  assert.equal(pieces.filter((piece) => piece.includes('more') || piece.includes('message_stop')).length, 0)
})

test('decode, encode: a citation nested too deep is dropped without a stack overflow', () => {
  const cited = run(decodeStream(), [
    {
      data: `{"type":"content_block_delta","delta":{"type":"citations_delta","citation":{"type":"char_location","x":${'['.repeat(9_000)}${']'.repeat(9_000)}}}}`,
    },
  ])
  assert.equal(cited.length, 1)
  assert.deepEqual(failure(cited), ['truncated'])
  assert.ok(written(cited).length > 0)
})

test('encode: no end event without a finish', () => {
  assert.equal(
    written([{ type: 'start' }, opened('text'), said('Hi')])
      .join('')
      .includes('message_'.concat('stop')),
    false,
  )
})

test('encode: an erroneous finish ends as an error', () => {
  for (const kind of ['error', 'malformed'] as const) {
    const pieces = written([{ type: 'start' }, { type: 'finish', finish: { kind, raw: 'x' } }])
    assert.match(pieces.at(-1) ?? '', /^event: error\n/)
  }
})

test('keep-alive: a ping before and after the start, nothing after the end', () => {
  for (const make of [encodeStream, passStream]) {
    const writer = make(context)
    assert.equal(writer.keepAlive(), 'event: ping\ndata: {"type": "ping"}\n\n')
    const [frame] = run(sseFrames(), [start])
    writer.push({ ...(make === passStream && frame && { frame }), events: [{ type: 'start' }] })
    // The message begins with the first keep-alive, because its usage may follow its start.
    const begun = writer.keepAlive()
    assert.equal(begun.startsWith('event: message_start\n'), make === encodeStream)
    assert.ok(begun.endsWith('event: ping\ndata: {"type": "ping"}\n\n'))
    assert.equal(writer.keepAlive(), 'event: ping\ndata: {"type": "ping"}\n\n')
    writer.push({ events: [{ type: 'failure', failure: fail('reset', 'x') }] })
    assert.equal(writer.keepAlive(), '')
  }
})

// ── Passing on ───────────────────────────────────────────────────────────────────────────────────────────────────────

const passing = (pieces: readonly string[]): StreamStep[] => {
  const decoder = decodeStream()
  const steps = run(sseFrames(), pieces).map((frame: Frame) => ({ frame, events: decoder.push(frame) }))
  return [...steps, { events: decoder.end() }]
}
const passed = (pieces: readonly string[]): string => run(passStream(context), passing(pieces)).join('')

test('pass: byte for byte, unknown events and odd spacing included', () => {
  const odd =
    'event:content_block_delta\r\ndata:{"type": "content_block_delta", "index": 0, "delta": {"type":"text_delta","text":"x", "new": 1}   }\r\n\r\n'
  const whole = [
    start,
    ping,
    ': hm\n\n',
    begin(0, { type: 'text', text: '' }),
    odd,
    stop(0),
    event({ type: 'weather' }),
    ending('end_turn'),
    last,
  ]
  assert.equal(passed(whole), whole.join(''))
})

test('pass: missing event names are added, because the SDKs skip events without one', () => {
  const bare = [start, ...hi, ending('end_turn'), last].map((frame) => frame.replace(/^event: .*\n/, ''))
  assert.equal(passed(bare), [start, ...hi, ending('end_turn'), last].join(''))
})

test('pass: a missing last event is added, and nothing follows it', () => {
  const whole = [start, ...hi, ending('end_turn')]
  assert.equal(passed(whole), [...whole, last].join(''))
  assert.equal(passed([...whole, last, start, ...hi]), [...whole, last].join(''))
})

test('pass: errors are rewritten, truncation ends in an error', () => {
  const theirs = event({
    type: 'error',
    error: { type: 'overloaded_error', message: 'Overloaded' },
    request_id: 'req_theirs',
  })
  for (const pieces of [
    [start, ...hi, theirs, last],
    [start, ...hi],
  ]) {
    const out = passed(pieces)
    assert.ok(out.startsWith([start, ...hi].join('')))
    const error = out.slice([start, ...hi].join('').length)
    assert.match(
      error,
      /^event: error\ndata: \{"type":"error","error":\{"type":"(overloaded|api)_error","message":"[^"]+"\},"request_id":"req_x"\}\n\n$/,
    )
  }
})

test('pass: a complete answer is written as a stream', () => {
  const writer = passStream(context)
  const out = run(writer, [
    { whole: '{}', events: [{ type: 'start', id: 'msg_9' }, ...hiEvents, finish('stop', 'end_turn')] },
  ])
  assert.equal(fold(decoded([out.join('')])).blocks[0]?.text, 'Hi 😀é')
  assert.ok(String(out.at(-1)).includes('message_stop'))
})
