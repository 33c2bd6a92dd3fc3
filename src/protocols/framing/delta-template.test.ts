import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { JsonObject } from '../../core/json.ts'
import type { Frame } from '../../core/protocol.ts'
import { run } from '../../core/stage.ts'
import { upstreamProtocols } from '../index.ts'
import { DeltaTemplate, type TextOf } from './delta-template.ts'
import { writeFrame } from './sse.ts'

const textOf: TextOf = (event) => (event as JsonObject).text
const learnt = (data: string, text: string): DeltaTemplate => {
  const repetition = new DeltaTemplate(textOf)
  repetition.learn({ data, raw: writeFrame(undefined, data) }, text)
  return repetition
}

const first = '{"id":"a","text":"one","n":1}'
const cases: readonly (readonly [
  name: string,
  learnt: string,
  text: string,
  then: string,
  told: string | undefined,
])[] = [
  ['another text', first, 'one', '{"id":"a","text":"two","n":1}', 'two'],
  ['escapes', first, 'one', '{"id":"a","text":"\\u00e9\\n\\ud83d\\ude00 \\"x\\"","n":1}', 'é\n😀 "x"'],
  ['half a pair', first, 'one', '{"id":"a","text":"\\ud83d","n":1}', '\ud83d'],
  ['an escape that is none', first, 'one', '{"id":"a","text":"\\x","n":1}', undefined],
  ['hex that is none', first, 'one', '{"id":"a","text":"\\u00g9","n":1}', undefined],
  ['a control character', first, 'one', '{"id":"a","text":"a\tb","n":1}', undefined],
  ['a quote', first, 'one', '{"id":"a","text":"a","text":"b","n":1}', undefined],
  ['an escaped end', first, 'one', '{"id":"a","text":"two\\","n":1}', undefined],
  ['no text', first, 'one', '{"id":"a","text":"","n":1}', undefined],
  ['another member', first, 'one', '{"id":"a","text":"two","n":2}', undefined],
  ['another beginning', first, 'one', '{"id":"b","text":"two","n":1}', undefined],
  ['more behind it', first, 'one', '{"id":"a","text":"two","n":1} ', undefined],
  ['too short for both ends', '{"text":"x"}', 'x', '{"text":"}', undefined],
  ['twice in it', '{"id":"one","text":"one"}', 'one', '{"id":"one","text":"two"}', undefined],
  [
    'other escapes than usual, and the usual ones elsewhere',
    '{"id":"one","text":"\\u006fne"}',
    'one',
    '{"id":"two","text":"\\u006fne"}',
    undefined,
  ],
  [
    'the text is what stands between members',
    '{"a":"b","text":"\\u003a"}',
    ':',
    '{"a":"x","text":"\\u003a"}',
    undefined,
  ],
  [
    'inside another text',
    '{"a":"\\"one\\"","text":"\\u006fne"}',
    'one',
    '{"a":"\\"two\\"","text":"\\u006fne"}',
    undefined,
  ],
  ['the mark itself', '{"text":"headgate mark"}', 'headgate mark', '{"text":"x"}', undefined],
  ['given twice, the last counts', '{"text":"one","text":"two"}', 'two', '{"text":"one","text":"three"}', 'three'],
  ['given twice, the first does not', '{"text":"one","text":"two"}', 'one', '{"text":"three","text":"two"}', undefined],
  ['padding', '{"text":"one","obfuscation":"ab"}', 'one', '{"text":"two","obfuscation":"xyz"}', 'two'],
  ['padding before it', '{"obfuscation":"ab","text":"one"}', 'one', '{"obfuscation":"","text":"two"}', 'two'],
  [
    'padding that ends it',
    '{"text":"one","obfuscation":"ab"}',
    'one',
    '{"text":"two","obfuscation":"x","text":"y"}',
    undefined,
  ],
  [
    'padding that is the text',
    '{"obfuscation":"one","text":"\\u006fne"}',
    'one',
    '{"obfuscation":"x","text":"\\u006fne"}',
    undefined,
  ],
  ['a number', '{"sequence_number":9,"text":"one"}', 'one', '{"sequence_number":10,"text":"two"}', 'two'],
  [
    'a number that is none',
    '{"sequence_number":9,"text":"one"}',
    'one',
    '{"sequence_number":01,"text":"two"}',
    undefined,
  ],
  ['a fraction', '{"sequence_number":9,"text":"one"}', 'one', '{"sequence_number":1.5,"text":"two"}', undefined],
  ['no number', '{"sequence_number":9,"text":"one"}', 'one', '{"sequence_number":,"text":"two"}', undefined],
  [
    'a number elsewhere',
    '{"in":{"sequence_number":9},"text":"one"}',
    'one',
    '{"in":{"sequence_number":10},"text":"two"}',
    undefined,
  ],
]

/** What bytes are found to say, as texts, and where that ends. */
const toldIn = (
  repetition: DeltaTemplate,
  wire: string | Buffer,
  from = 0,
): [texts: string[], end: number] | undefined => {
  const bytes = typeof wire === 'string' ? Buffer.from(wire) : wire
  const found = repetition.inBytes(bytes, bytes.toString('latin1'), from)
  if (!found) return undefined
  const texts = found.events.map((event) => (event.type === 'delta' ? event.text : assert.fail(event.type)))
  return [texts, found.end]
}

/** What an event's bytes are found to say has to be what its frame says, however many follow each other. */
const sameInBytes = (repetition: DeltaTemplate, data: string): boolean => {
  const raw = writeFrame(undefined, data)
  // No bytes say half a character, and what a decoder says for those that are none is not told apart from them.
  if (!raw.isWellFormed()) return false
  const told = repetition.textOf({ data, raw })
  const found = toldIn(repetition, raw)
  const twice = toldIn(repetition, `: ${raw}${raw}data: `, 2)
  if (!found) {
    assert.equal(twice, undefined)
    // What is not ASCII may stand where only that is known by its bytes.
    assert.ok(told === undefined || /[^\0-\x7f]/.test(raw), raw)
    return false
  }
  const length = Buffer.byteLength(raw)
  assert.deepEqual(found, [[told], length])
  assert.deepEqual(twice, [[told, told], 2 + 2 * length])
  return true
}

for (const [name, data, text, then, told] of cases)
  test(`repetition: ${name}`, () => {
    const repetition = learnt(data, text)
    assert.equal(repetition.textOf({ data: then, raw: writeFrame(undefined, then) }), told)
    assert.equal(sameInBytes(repetition, then), told !== undefined)
  })

test('repetition: of bytes those that are such events, and no more', () => {
  const repetition = new DeltaTemplate(textOf)
  const frame = { event: 'x', data: first, raw: writeFrame('x', first) }
  repetition.learn(frame, 'one')
  const two = writeFrame('x', '{"id":"a","text":"zwö 😀","n":1}')
  const end = Buffer.byteLength(two)
  assert.deepEqual(toldIn(repetition, two), [['zwö 😀'], end])
  const three = writeFrame('x', '{"id":"a","text":"\\n\\u00e9 and more than twelve","n":1}')
  assert.deepEqual(toldIn(repetition, two + three + two), [
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
    assert.equal(toldIn(repetition, other), undefined, other)
    assert.deepEqual(toldIn(repetition, two + other), [['zwö 😀'], end], other)
  }
  // What is no UTF-8 does not go on as it came; the sign for that, said by somebody else, does.
  const sign = writeFrame('x', '{"id":"a","text":"a\ufffd","n":1}')
  assert.deepEqual(toldIn(repetition, sign), [['a\ufffd'], Buffer.byteLength(sign)])
  const both = Buffer.from(writeFrame('x', '{"id":"a","text":"\xef\xbf\xbda\xe2","n":1}'), 'latin1')
  assert.equal(toldIn(repetition, both), undefined)
  const broken = Buffer.from(writeFrame('x', '{"id":"a","text":"a\xe2","n":1}'), 'latin1')
  assert.equal(toldIn(repetition, broken), undefined)
  assert.deepEqual(toldIn(repetition, Buffer.concat([Buffer.from(two), broken])), [['zwö 😀'], end])
  for (const raw of [undefined, `event:x\ndata: ${first}\n\n`, `: c\n${writeFrame('x', first)}`]) {
    repetition.learn({ event: 'x', data: first, ...(raw && { raw }) }, 'one')
    assert.equal(toldIn(repetition, two), undefined, raw)
  }
  repetition.learn(frame, 'one')
  repetition.forget()
  assert.equal(toldIn(repetition, two), undefined)
})

test('repetition: of bytes nothing is told where what stands around the text, or the padding, is no ASCII', () => {
  const data = '{"id":"ä","text":"one"}'
  const wide = new DeltaTemplate(textOf)
  wide.learn({ data, raw: writeFrame(undefined, data) }, 'one')
  const then = '{"id":"ä","text":"two"}'
  assert.equal(wide.textOf({ data: then, raw: writeFrame(undefined, then) }), 'two')
  assert.equal(toldIn(wide, writeFrame(undefined, then)), undefined)
  const padded = learnt('{"text":"one","obfuscation":"ab"}', 'one')
  const broken = writeFrame(undefined, '{"text":"two","obfuscation":"a\xe2"}')
  assert.equal(toldIn(padded, Buffer.from(broken, 'latin1')), undefined)
})

test('repetition: of another event nothing is known', () => {
  const repetition = new DeltaTemplate(textOf)
  const then = { data: '{"id":"a","text":"two","n":1}' }
  assert.equal(repetition.textOf(then), undefined)
  repetition.learn({ event: 'x', data: first }, 'one')
  assert.equal(repetition.textOf(then), undefined)
  assert.equal(repetition.textOf({ ...then, event: 'x' }), 'two')
  repetition.forget()
  assert.equal(repetition.textOf({ ...then, event: 'x' }), undefined)
})

/** Repeatable chance. */
const chance = (seed: number) => () => {
  seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0
  return seed / 4_294_967_296
}

const PIECES = ['"', '\\', '\\"', '\\u00e9', '\\u', '\n', '}', ',"text":"', 'é', '😀', '', 'word', '1', ':', '","', ' ']

test('repetition: what is told is what reading tells, whatever is changed', () => {
  const random = chance(6)
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T
  let told = 0
  let toldInBytes = 0
  for (let round = 0; round < 20_000; round++) {
    const said = Array.from({ length: 1 + Math.floor(random() * 3) }, () => pick(PIECES)).join('')
    const before: JsonObject = {
      ...(random() < 0.5 && { sequence_number: Math.floor(random() * 20) }),
      ...(random() < 0.5 && { id: pick(PIECES) }),
      text: said,
      ...(random() < 0.5 && { obfuscation: pick(PIECES) }),
    }
    const data = JSON.stringify(before)
    const repetition = learnt(data, said)
    let then = data
    for (let changes = 1 + Math.floor(random() * 3); changes > 0; changes--) {
      const at = Math.floor(random() * then.length)
      then = then.slice(0, at) + pick(PIECES) + then.slice(at + Math.floor(random() * 4))
    }
    for (const source of [then, JSON.stringify({ ...before, text: pick(PIECES) + pick(PIECES) })]) {
      const text = repetition.textOf({ data: source, raw: writeFrame(undefined, source) })
      const inBytes = sameInBytes(repetition, source)
      if (text === undefined) continue
      told++
      if (inBytes) toldInBytes++
      const { obfuscation, sequence_number } = JSON.parse(source)
      const expected = {
        ...before,
        text,
        ...('obfuscation' in before && { obfuscation }),
        ...('sequence_number' in before && { sequence_number }),
      }
      assert.deepEqual(JSON.parse(source), expected, `${data} then ${source}`)
    }
  }
  assert.ok(told > 5_000, `only ${told} were told`)
  assert.ok(toldInBytes > 1_000, `only ${toldInBytes} were told of their bytes`)
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
    'chat: thoughts, text, calls and text in turn',
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
    'messages: thoughts, text, a call and its input',
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

const said = (type: string, more: object, at: number): Frame => ({
  event: `response.${type}`,
  data: JSON.stringify({ type: `response.${type}`, sequence_number: at, ...more }),
})
const steps = (type: string, more: object, ...deltas: readonly string[]): readonly Frame[] =>
  deltas.map((delta, at) => said(type, { ...more, delta, obfuscation: 'x'.repeat(at) }, 8 + at))

const responses: (typeof streams)[number] = [
  'responses: thoughts, summaries, texts, a call, and what only the end of an item tells',
  'openai-responses',
  [
    said('created', { response: { id: 'r', status: 'in_progress' } }, 0),
    said('output_item.added', { output_index: 0, item: { type: 'reasoning', id: 'rs' } }, 1),
    ...steps('reasoning_summary_text.delta', { output_index: 0, summary_index: 0 }, 'one', ' two', ' three'),
    ...steps('reasoning_summary_text.delta', { output_index: 0, summary_index: 1 }, 'four', ' five', ' six'),
    ...steps('reasoning_text.delta', { output_index: 0, content_index: 0 }, 'I', ' think', ' "so"'),
    said('output_item.done', { output_index: 0, item: { type: 'reasoning', id: 'rs' } }, 2),
    said('output_item.added', { output_index: 1, item: { type: 'message', id: 'm' } }, 3),
    ...steps('output_text.delta', { output_index: 1, content_index: 0, logprobs: [] }, 'So', ' it', '', ' is', ' so'),
    said('output_text.done', { output_index: 1, content_index: 0, text: 'So it is so, and more' }, 4),
    ...steps('output_text.delta', { output_index: 1, content_index: 1 }, 'a', 'bc', 'def'),
    said('output_item.done', { output_index: 1, item: { type: 'message', id: 'm', content: [] } }, 5),
    said('output_item.added', { output_index: 2, item: { type: 'function_call', call_id: 'c', name: 'f' } }, 6),
    ...steps('function_call_arguments.delta', { output_index: 2 }, '{"a"', ':', '1'),
    ...steps('output_text.delta', { output_index: 3, content_index: 0 }, 'it', ' waits', ' here'),
    said('function_call_arguments.done', { output_index: 2, arguments: '{"a":1}' }, 7),
    said('output_item.done', { output_index: 2, item: { type: 'function_call', call_id: 'c', name: 'f' } }, 8),
    ...steps('output_text.delta', { output_index: 3, content_index: 0 }, 'and', ' goes', ' on'),
    said('completed', { response: { id: 'r', status: 'completed', output: [] } }, 9),
  ],
]

for (const [name, protocol, frames] of [...streams, responses])
  test(`repetition: read from the one before or in full, the same is told: ${name}`, () => {
    // White space behind it, of another length each time, is no other event and has to be read in full.
    const inFull = frames.map((frame, at) =>
      frame.data.startsWith('{') ? { ...frame, data: frame.data + ' '.repeat(1 + (at % 3)) } : frame,
    )
    const { decodeStream } = upstreamProtocols[protocol]
    assert.deepEqual(run(decodeStream(), frames), run(decodeStream(), inFull))
  })
