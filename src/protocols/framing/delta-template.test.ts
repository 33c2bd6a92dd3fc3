import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { JsonObject } from '../../core/json.ts'
import type { Frame } from '../../core/protocol.ts'
import { run } from '../../core/stage.ts'
import { readStream } from '../../gateway/upstream/read-stream.ts'
import { upstreamProtocols } from '../index.ts'
import { DeltaTemplate, type TextOf } from './delta-template.ts'
import { writeFrame } from './sse.ts'

const textOf: TextOf = (event) => (event as JsonObject).text
const learned = (data: string, text: string): DeltaTemplate => {
  const template = new DeltaTemplate(textOf)
  template.learn({ data, raw: writeFrame(undefined, data) }, text)
  return template
}

const first = '{"id":"a","text":"one","n":1}'
const cases: readonly (readonly [
  name: string,
  learned: string,
  text: string,
  then: string,
  expected: string | undefined,
])[] = [
  ['another text', first, 'one', '{"id":"a","text":"two","n":1}', 'two'],
  ['escapes', first, 'one', '{"id":"a","text":"\\u00e9\\n\\ud83d\\ude00 \\"x\\"","n":1}', 'é\n😀 "x"'],
  ['an unpaired surrogate', first, 'one', '{"id":"a","text":"\\ud83d","n":1}', '\ud83d'],
  ['an invalid escape', first, 'one', '{"id":"a","text":"\\x","n":1}', undefined],
  ['invalid hex digits', first, 'one', '{"id":"a","text":"\\u00g9","n":1}', undefined],
  ['a control character', first, 'one', '{"id":"a","text":"a\tb","n":1}', undefined],
  ['an unescaped quote', first, 'one', '{"id":"a","text":"a","text":"b","n":1}', undefined],
  ['an escaped closing quote', first, 'one', '{"id":"a","text":"two\\","n":1}', undefined],
  ['an empty text', first, 'one', '{"id":"a","text":"","n":1}', undefined],
  ['another member', first, 'one', '{"id":"a","text":"two","n":2}', undefined],
  ['another beginning', first, 'one', '{"id":"b","text":"two","n":1}', undefined],
  ['trailing whitespace', first, 'one', '{"id":"a","text":"two","n":1} ', undefined],
  ['shorter than prefix and suffix', '{"text":"x"}', 'x', '{"text":"}', undefined],
  ['the text occurs twice', '{"id":"one","text":"one"}', 'one', '{"id":"one","text":"two"}', undefined],
  [
    'the text with unusual escapes, and with usual ones in another member',
    '{"id":"one","text":"\\u006fne"}',
    'one',
    '{"id":"two","text":"\\u006fne"}',
    undefined,
  ],
  ['the text equals a separator of JSON', '{"a":"b","text":"\\u003a"}', ':', '{"a":"x","text":"\\u003a"}', undefined],
  [
    'the text inside another text',
    '{"a":"\\"one\\"","text":"\\u006fne"}',
    'one',
    '{"a":"\\"two\\"","text":"\\u006fne"}',
    undefined,
  ],
  ['the internal marker as text', '{"text":"headgate mark"}', 'headgate mark', '{"text":"x"}', undefined],
  ['a duplicate member, the last one', '{"text":"one","text":"two"}', 'two', '{"text":"one","text":"three"}', 'three'],
  [
    'a duplicate member, the first one',
    '{"text":"one","text":"two"}',
    'one',
    '{"text":"three","text":"two"}',
    undefined,
  ],
  ['padding', '{"text":"one","obfuscation":"ab"}', 'one', '{"text":"two","obfuscation":"xyz"}', 'two'],
  ['padding before the text', '{"obfuscation":"ab","text":"one"}', 'one', '{"obfuscation":"","text":"two"}', 'two'],
  [
    'padding with another member after it',
    '{"text":"one","obfuscation":"ab"}',
    'one',
    '{"text":"two","obfuscation":"x","text":"y"}',
    undefined,
  ],
  [
    'padding equal to the text',
    '{"obfuscation":"one","text":"\\u006fne"}',
    'one',
    '{"obfuscation":"x","text":"\\u006fne"}',
    undefined,
  ],
  ['a sequence number', '{"sequence_number":9,"text":"one"}', 'one', '{"sequence_number":10,"text":"two"}', 'two'],
  ['a malformed number', '{"sequence_number":9,"text":"one"}', 'one', '{"sequence_number":01,"text":"two"}', undefined],
  ['a fraction', '{"sequence_number":9,"text":"one"}', 'one', '{"sequence_number":1.5,"text":"two"}', undefined],
  ['a missing number', '{"sequence_number":9,"text":"one"}', 'one', '{"sequence_number":,"text":"two"}', undefined],
  [
    'a sequence number in a nested object',
    '{"in":{"sequence_number":9},"text":"one"}',
    'one',
    '{"in":{"sequence_number":10},"text":"two"}',
    undefined,
  ],
]

/** The texts decoded from bytes, and where the last event ends. */
const textsIn = (
  template: DeltaTemplate,
  wire: string | Buffer,
  from = 0,
): [texts: string[], end: number] | undefined => {
  const bytes = typeof wire === 'string' ? Buffer.from(wire) : wire
  const found = template.inBytes(bytes, bytes.toString('latin1'), from)
  if (!found) return undefined
  const texts = found.events.map((event) => (event.type === 'delta' ? event.text : assert.fail(event.type)))
  return [texts, found.end]
}

/** Checks that the bytes of an event, once and twice in a row, give the same text as its frame. Returns whether they were recognised. */
const sameInBytes = (template: DeltaTemplate, data: string): boolean => {
  const raw = writeFrame(undefined, data)
  // Unpaired surrogates have no UTF-8 encoding, and a decoder replaces invalid bytes, so there is nothing to compare.
  if (!raw.isWellFormed()) return false
  const text = template.textOf({ data, raw })
  const found = textsIn(template, raw)
  const twice = textsIn(template, `: ${raw}${raw}data: `, 2)
  if (!found) {
    assert.equal(twice, undefined)
    // Bytes outside ASCII may occur where only ASCII is recognised.
    assert.ok(text === undefined || /[^\0-\x7f]/.test(raw), raw)
    return false
  }
  const length = Buffer.byteLength(raw)
  assert.deepEqual(found, [[text], length])
  assert.deepEqual(twice, [[text, text], 2 + 2 * length])
  return true
}

for (const [name, data, text, then, expected] of cases)
  test(`delta template: ${name}`, () => {
    const template = learned(data, text)
    assert.equal(template.textOf({ data: then, raw: writeFrame(undefined, then) }), expected)
    assert.equal(sameInBytes(template, then), expected !== undefined)
  })

test('delta template: inBytes recognises consecutive repeated events only', () => {
  const template = new DeltaTemplate(textOf)
  const frame = { event: 'x', data: first, raw: writeFrame('x', first) }
  template.learn(frame, 'one')
  const two = writeFrame('x', '{"id":"a","text":"zwö 😀","n":1}')
  const end = Buffer.byteLength(two)
  assert.deepEqual(textsIn(template, two), [['zwö 😀'], end])
  const three = writeFrame('x', '{"id":"a","text":"\\n\\u00e9 and more than twelve","n":1}')
  assert.deepEqual(textsIn(template, two + three + two), [
    ['zwö 😀', '\né and more than twelve', 'zwö 😀'],
    2 * end + three.length,
  ])
  const others = [
    `\n${two}`,
    two.slice(0, -1),
    two.replaceAll('\n', '\r\n'),
    writeFrame('y', two),
    two.replace('event: x\n', ''),
    ': ping\n',
    '',
  ]
  for (const other of others) {
    assert.equal(textsIn(template, other), undefined, other)
    assert.deepEqual(textsIn(template, two + other), [['zwö 😀'], end], other)
  }
  // Invalid UTF-8 is not passed through; an encoded replacement character is.
  const sign = writeFrame('x', '{"id":"a","text":"a\ufffd","n":1}')
  assert.deepEqual(textsIn(template, sign), [['a\ufffd'], Buffer.byteLength(sign)])
  const both = Buffer.from(writeFrame('x', '{"id":"a","text":"\xef\xbf\xbda\xe2","n":1}'), 'latin1')
  assert.equal(textsIn(template, both), undefined)
  const broken = Buffer.from(writeFrame('x', '{"id":"a","text":"a\xe2","n":1}'), 'latin1')
  assert.equal(textsIn(template, broken), undefined)
  assert.deepEqual(textsIn(template, Buffer.concat([Buffer.from(two), broken])), [['zwö 😀'], end])
  for (const raw of [undefined, `event:x\ndata: ${first}\n\n`, `: c\n${writeFrame('x', first)}`]) {
    template.learn({ event: 'x', data: first, ...(raw && { raw }) }, 'one')
    assert.equal(textsIn(template, two), undefined, raw)
  }
  template.learn(frame, 'one')
  template.forget()
  assert.equal(textsIn(template, two), undefined)
})

test('delta template: inBytes recognises nothing if the template or the padding is not ASCII', () => {
  const data = '{"id":"ä","text":"one"}'
  const wide = new DeltaTemplate(textOf)
  wide.learn({ data, raw: writeFrame(undefined, data) }, 'one')
  const then = '{"id":"ä","text":"two"}'
  assert.equal(wide.textOf({ data: then, raw: writeFrame(undefined, then) }), 'two')
  assert.equal(textsIn(wide, writeFrame(undefined, then)), undefined)
  const padded = learned('{"text":"one","obfuscation":"ab"}', 'one')
  const broken = writeFrame(undefined, '{"text":"two","obfuscation":"a\xe2"}')
  assert.equal(textsIn(padded, Buffer.from(broken, 'latin1')), undefined)
})

test('delta template: an event with another name is not recognised', () => {
  const template = new DeltaTemplate(textOf)
  const then = { data: '{"id":"a","text":"two","n":1}' }
  assert.equal(template.textOf(then), undefined)
  template.learn({ event: 'x', data: first }, 'one')
  assert.equal(template.textOf(then), undefined)
  assert.equal(template.textOf({ ...then, event: 'x' }), 'two')
  template.forget()
  assert.equal(template.textOf({ ...then, event: 'x' }), undefined)
})

/** A seeded random generator. */
const seeded = (seed: number) => () => {
  seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0
  return seed / 4_294_967_296
}

const PIECES = ['"', '\\', '\\"', '\\u00e9', '\\u', '\n', '}', ',"text":"', 'é', '😀', '', 'word', '1', ':', '","', ' ']

test('delta template: a recognised text equals the parsed text, for random changes', () => {
  const random = seeded(6)
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T
  let recognised = 0
  let recognisedInBytes = 0
  for (let round = 0; round < 20_000; round++) {
    const text = Array.from({ length: 1 + Math.floor(random() * 3) }, () => pick(PIECES)).join('')
    const before: JsonObject = {
      ...(random() < 0.5 && { sequence_number: Math.floor(random() * 20) }),
      ...(random() < 0.5 && { id: pick(PIECES) }),
      text,
      ...(random() < 0.5 && { obfuscation: pick(PIECES) }),
    }
    const data = JSON.stringify(before)
    const template = learned(data, text)
    let then = data
    for (let changes = 1 + Math.floor(random() * 3); changes > 0; changes--) {
      const at = Math.floor(random() * then.length)
      then = then.slice(0, at) + pick(PIECES) + then.slice(at + Math.floor(random() * 4))
    }
    for (const source of [then, JSON.stringify({ ...before, text: pick(PIECES) + pick(PIECES) })]) {
      const found = template.textOf({ data: source, raw: writeFrame(undefined, source) })
      const inBytes = sameInBytes(template, source)
      if (found === undefined) continue
      recognised++
      if (inBytes) recognisedInBytes++
      const { obfuscation, sequence_number } = JSON.parse(source)
      const expected = {
        ...before,
        text: found,
        ...('obfuscation' in before && { obfuscation }),
        ...('sequence_number' in before && { sequence_number }),
      }
      assert.deepEqual(JSON.parse(source), expected, `${data} then ${source}`)
    }
  }
  assert.ok(recognised > 5_000, `only ${recognised} were recognised`)
  assert.ok(recognisedInBytes > 1_000, `only ${recognisedInBytes} were recognised in bytes`)
})

const chat = (delta: object, more: object = {}): Frame => ({
  data: JSON.stringify({ id: 'c', choices: [{ index: 0, delta, finish_reason: null }], usage: null, ...more }),
})
const step = (delta: object): Frame => ({
  event: 'content_block_delta',
  data: JSON.stringify({ type: 'content_block_delta', index: 0, delta }),
})
const begun = (block: object): Frame => ({
  event: 'content_block_start',
  data: JSON.stringify({ type: 'content_block_start', index: 0, content_block: block }),
})
const stopped: Frame = { event: 'content_block_stop', data: '{"type":"content_block_stop","index":0}' }

const streams: readonly (readonly [string, keyof typeof upstreamProtocols, readonly Frame[]])[] = [
  [
    'chat: reasoning, text and tool calls in turn',
    'openai-chat',
    [
      ...['I', ' think', ' so'].map((reasoning_content) => chat({ reasoning_content })),
      ...['So', ' it', '', ' is', ' "is"'].map((content) => chat({ content })),
      ...['{"a"', ':', '1}'].map((piece) =>
        chat({ tool_calls: [{ index: 0, id: 'x', function: { name: 'f', arguments: piece } }] }),
      ),
      ...['and', ' more', ' of it'].map((content) => chat({ content }, { obfuscation: content })),
      ...[1, 2, 3].map((count) =>
        chat({ content: `n${count}` }, { usage: { prompt_tokens: 1, completion_tokens: count } }),
      ),
      ...['a', 'b'].map((content) => chat({ content, tool_calls: [{ index: 1, function: { arguments: 'x' } }] })),
      { data: JSON.stringify({ id: 'c', choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }) },
      { data: '[DONE]' },
    ],
  ],
  [
    'messages: reasoning, text, a tool call and its input',
    'anthropic-messages',
    [
      { event: 'message_start', data: '{"type":"message_start","message":{"id":"m","content":[]}}' },
      begun({ type: 'thinking', thinking: '' }),
      ...['I', ' think', ''].map((thinking) => step({ type: 'thinking_delta', thinking })),
      ...['s1', 's2'].map((signature) => step({ type: 'signature_delta', signature })),
      stopped,
      begun({ type: 'text', text: '' }),
      ...['So', ' it', ' is'].map((text) => step({ type: 'text_delta', text })),
      stopped,
      begun({ type: 'tool_use', id: 't', name: 'f', input: {} }),
      ...['{"a"', ':', '1}'].map((partial_json) => step({ type: 'input_json_delta', partial_json })),
      stopped,
      begun({ type: 'server_tool_use', id: 't', name: 'f', input: {} }),
      ...['{"a"', ':', '1}'].map((partial_json) => step({ type: 'input_json_delta', partial_json })),
      stopped,
      { event: 'message_delta', data: '{"type":"message_delta","delta":{"stop_reason":"end_turn"}}' },
      { event: 'message_stop', data: '{"type":"message_stop"}' },
    ],
  ],
]

const responseEvent = (type: string, more: object, at: number): Frame => ({
  event: `response.${type}`,
  data: JSON.stringify({ type: `response.${type}`, sequence_number: at, ...more }),
})
const steps = (type: string, more: object, ...deltas: readonly string[]): readonly Frame[] =>
  deltas.map((delta, at) => responseEvent(type, { ...more, delta, obfuscation: 'x'.repeat(at) }, 8 + at))

const responses: (typeof streams)[number] = [
  'responses: reasoning, summaries, texts, a tool call, and values in the final event of an item',
  'openai-responses',
  [
    responseEvent('created', { response: { id: 'r', status: 'in_progress' } }, 0),
    responseEvent('output_item.added', { output_index: 0, item: { type: 'reasoning', id: 'rs' } }, 1),
    ...steps('reasoning_summary_text.delta', { output_index: 0, summary_index: 0 }, 'one', ' two', ' three'),
    ...steps('reasoning_summary_text.delta', { output_index: 0, summary_index: 1 }, 'four', ' five', ' six'),
    ...steps('reasoning_text.delta', { output_index: 0, content_index: 0 }, 'I', ' think', ' "so"'),
    responseEvent('output_item.done', { output_index: 0, item: { type: 'reasoning', id: 'rs' } }, 2),
    responseEvent('output_item.added', { output_index: 1, item: { type: 'message', id: 'm' } }, 3),
    ...steps('output_text.delta', { output_index: 1, content_index: 0, logprobs: [] }, 'So', ' it', '', ' is', ' so'),
    responseEvent('output_text.done', { output_index: 1, content_index: 0, text: 'So it is so, and more' }, 4),
    ...steps('output_text.delta', { output_index: 1, content_index: 1 }, 'a', 'bc', 'def'),
    responseEvent('output_item.done', { output_index: 1, item: { type: 'message', id: 'm', content: [] } }, 5),
    responseEvent(
      'output_item.added',
      { output_index: 2, item: { type: 'function_call', call_id: 'c', name: 'f' } },
      6,
    ),
    ...steps('function_call_arguments.delta', { output_index: 2 }, '{"a"', ':', '1'),
    ...steps('output_text.delta', { output_index: 3, content_index: 0 }, 'it', ' waits', ' here'),
    responseEvent('function_call_arguments.done', { output_index: 2, arguments: '{"a":1}' }, 7),
    responseEvent('output_item.done', { output_index: 2, item: { type: 'function_call', call_id: 'c', name: 'f' } }, 8),
    ...steps('output_text.delta', { output_index: 3, content_index: 0 }, 'and', ' goes', ' on'),
    responseEvent('completed', { response: { id: 'r', status: 'completed', output: [] } }, 9),
  ],
]

for (const [name, protocol, frames] of [...streams, responses])
  test(`delta template: recognised and fully parsed events decode to the same: ${name}`, () => {
    // Trailing whitespace of different lengths prevents recognition, so that each event is parsed in full.
    const inFull = frames.map((frame, at) =>
      frame.data.startsWith('{') ? { ...frame, data: frame.data + ' '.repeat(1 + (at % 3)) } : frame,
    )
    const format = upstreamProtocols[protocol]
    const events = (wire: readonly Frame[], bytesOf: (text: string) => Uint8Array) =>
      run(readStream(format, 1_048_576), [
        bytesOf(wire.map(({ event, data }) => writeFrame(event, data)).join('')),
      ]).flatMap((step) => step.events)
    const decoded = run(format.decodeStream(), inFull)
    assert.deepEqual(events(inFull, Buffer.from), decoded)
    assert.deepEqual(events(frames, Buffer.from), decoded)
    // Other arrays have no fast conversion, so frames are recognised after they have been split.
    assert.deepEqual(
      events(frames, (text) => new TextEncoder().encode(text)),
      decoded,
    )
  })
