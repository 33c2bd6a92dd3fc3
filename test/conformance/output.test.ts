/**
 * Output other than text, reasoning and tool calls: images, audio, executed code, results of hosted tools. Each arrives in
 * the upstream's format, whole and streamed, and is encoded for each client format: it is carried, or reported as lost.
 */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type ChatEvent, fold, type UpstreamProtocolName } from '../../src/core/chat.ts'
import type { JsonObject } from '../../src/core/json.ts'
import { clientProtocolByStyle, upstreamProtocols } from '../../src/protocols/index.ts'
import { answerContext } from '../support/builders.ts'

const PNG = 'iVBORw0KGgoAAAANSUhEUg=='
const IMAGE = /iVBORw0KGgoAAAANSUhEUg/

type Source = {
  readonly name: string
  readonly from: UpstreamProtocolName
  readonly whole: JsonObject
  readonly frames: readonly JsonObject[]
  /** The result for each client format: `carried` matches the encoded answer, `lost` is reported. */
  readonly expected: { readonly [style: string]: { readonly carried?: RegExp; readonly lost?: readonly string[] } }
}

const gemini = (name: string, part: JsonObject, expected: Source['expected']): Source => {
  const response = {
    candidates: [{ content: { role: 'model', parts: [{ text: 'Here.' }, part] }, finishReason: 'STOP', index: 0 }],
    modelVersion: 'gemini-2.5-flash-image',
  }
  return { name: `Gemini, ${name}`, from: 'gemini', whole: response, frames: [response], expected }
}

const responses = (name: string, item: JsonObject, expected: Source['expected']): Source => {
  const response = { id: 'resp_1', object: 'response', status: 'completed', model: 'm', output: [item] }
  return {
    name: `responses, ${name}`,
    from: 'openai-responses',
    whole: response,
    frames: [
      { type: 'response.created', response: { ...response, status: 'in_progress', output: [] } },
      { type: 'response.output_item.added', output_index: 0, item: { ...item, status: 'in_progress', result: null } },
      { type: 'response.output_item.done', output_index: 0, item },
      { type: 'response.completed', response },
    ],
    expected,
  }
}

const chat = (
  name: string,
  message: JsonObject,
  deltas: readonly JsonObject[],
  expected: Source['expected'],
): Source => {
  const chunk = (delta: JsonObject, finish_reason: string | null = null) => ({
    id: 'c',
    object: 'chat.completion.chunk',
    model: 'm',
    choices: [{ index: 0, delta, finish_reason }],
  })
  return {
    name: `chat, ${name}`,
    from: 'openai-chat',
    whole: { id: 'c', model: 'm', choices: [{ index: 0, message, finish_reason: 'stop' }] },
    frames: [chunk({ role: 'assistant', content: '' }), ...deltas.map((delta) => chunk(delta)), chunk({}, 'stop')],
    expected,
  }
}

const messages = (name: string, block: JsonObject, expected: Source['expected']): Source => {
  const head = {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'm',
    usage: { input_tokens: 1, output_tokens: 1 },
  }
  return {
    name: `messages, ${name}`,
    from: 'anthropic-messages',
    whole: { ...head, content: [block, { type: 'text', text: 'Here.' }], stop_reason: 'end_turn' },
    frames: [
      { type: 'message_start', message: { ...head, content: [], stop_reason: null } },
      { type: 'content_block_start', index: 0, content_block: block },
      { type: 'content_block_stop', index: 0 },
      { type: 'content_block_start', index: 1, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text: 'Here.' } },
      { type: 'content_block_stop', index: 1 },
      { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 2 } },
      { type: 'message_stop' },
    ],
    expected,
  }
}

const lost = (...paths: string[]) => ({ lost: paths })
const lostEverywhere = (path: string) => ({
  chat: lost(path),
  responses: lost(path),
  messages: lost(path),
  completions: lost(path),
})
const image = { type: 'image_url', image_url: { url: `data:image/png;base64,${PNG}` } }
const audio = { id: 'audio_1', data: 'UklGRg==', expires_at: 1, transcript: 'Hello there.' }
const imageResult = {
  chat: { carried: /"images":\[\{"type":"image_url","image_url":\{"url":"data:image\/png;base64,iVBORw0KGgo/ },
  responses: { carried: /"type":"image_generation_call","id":"ig_[^"]*","status":"completed","result":"iVBORw0KGgo/ },
  messages: lost('output.image'),
  completions: lost('output.image'),
}

const SOURCES: readonly Source[] = [
  gemini('an image', { inlineData: { mimeType: 'image/png', data: PNG } }, imageResult),
  gemini(
    'an image by reference',
    { fileData: { mimeType: 'image/png', fileUri: 'https://h.example/f' } },
    lostEverywhere('output.image'),
  ),
  gemini(
    'audio',
    { inlineData: { mimeType: 'audio/L16;rate=24000', data: 'AAAA' } },
    {
      ...lostEverywhere('output.audio'),
    },
  ),
  gemini('code', { executableCode: { language: 'PYTHON', code: 'print(1)' } }, lostEverywhere('output.code')),
  gemini(
    'the output of code',
    { codeExecutionResult: { outcome: 'OUTCOME_OK', output: '1' } },
    lostEverywhere('output.code'),
  ),
  responses(
    'an image',
    { type: 'image_generation_call', id: 'ig_1', status: 'completed', result: PNG, output_format: 'png' },
    { ...imageResult, responses: { carried: IMAGE } },
  ),
  responses(
    'code',
    { type: 'code_interpreter_call', id: 'ci_1', status: 'completed', code: 'print(1)', outputs: [] },
    { ...lostEverywhere('output.code'), responses: { carried: /code_interpreter_call/ } },
  ),
  responses(
    'code with an image as its output',
    {
      type: 'code_interpreter_call',
      id: 'ci_1',
      status: 'completed',
      code: 'plot(1)',
      outputs: [{ type: 'image', url: `data:image/png;base64,${PNG}` }],
    },
    {
      ...lostEverywhere('output.code'),
      chat: { ...imageResult.chat, ...lost('output.code') },
      responses: { carried: /code_interpreter_call/ },
    },
  ),
  responses(
    'a search',
    { type: 'web_search_call', id: 'ws_1', status: 'completed' },
    { ...lostEverywhere('output.web_search_call'), responses: { carried: /web_search_call/ } },
  ),
  chat(
    'images',
    { role: 'assistant', content: 'Here.', images: [image, image] },
    [{ content: 'Here.' }, { images: [image] }, { images: [image] }],
    { ...imageResult, chat: { carried: IMAGE } },
  ),
  chat(
    'audio',
    { role: 'assistant', content: null, audio },
    [
      { audio: { id: 'audio_1', transcript: 'Hello ' } },
      { audio: { data: 'UklGRg==' } },
      { audio: { transcript: 'there.' } },
      { audio: { expires_at: 1 } },
    ],
    {
      chat: { carried: /"audio"/ },
      responses: { carried: /"type":"output_text","text":"Hello there\."/, ...lost('output.audio') },
      messages: { carried: /Hello .*there\./, ...lost('output.audio') },
      completions: { carried: /Hello .*there\./, ...lost('output.audio') },
    },
  ),
  messages(
    'a search',
    { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: {} },
    { ...lostEverywhere('output.server_tool_use'), messages: { carried: /server_tool_use/ } },
  ),
  messages(
    'the output of code',
    { type: 'code_execution_tool_result', tool_use_id: 'srvtoolu_1', content: { type: 'code_execution_result' } },
    { ...lostEverywhere('output.code'), messages: { carried: /code_execution_tool_result/ } },
  ),
  messages(
    'a block type that is not valid in a header',
    { type: 'odd\nevent: error', data: 1 },
    { ...lostEverywhere('output.other'), messages: { carried: /odd/ } },
  ),
]

const eventsOf = ({ from, whole, frames }: Source): readonly (readonly [string, readonly ChatEvent[]])[] => {
  const protocol = upstreamProtocols[from]
  const decoder = protocol.decodeStream()
  const streamed = [
    ...frames.flatMap((frame) => decoder.push({ event: String(frame.type ?? ''), data: JSON.stringify(frame) })),
    ...(from === 'openai-chat' ? decoder.push({ data: '[DONE]' }) : []),
    ...decoder.end(),
  ]
  return [
    ['whole', protocol.decodeAnswer(whole)],
    ['streamed', streamed],
  ]
}

describe('output other than text', () => {
  for (const source of SOURCES)
    for (const [mode, events] of eventsOf(source))
      for (const [style, { carried, lost: named = [] }] of Object.entries(source.expected))
        test(`${source.name}, ${mode}, to ${style}`, () => {
          const protocol = clientProtocolByStyle.get(style)
          assert.ok(protocol)
          assert.equal(fold(events).failure, undefined)
          const reported = { whole: new Set<string>(), stream: new Set<string>() }
          const context = answerContext()
          const whole = protocol.encodeAnswer(fold(events), { ...context, onLoss: (path) => reported.whole.add(path) })
          const writer = protocol.encodeStream({ ...context, onLoss: (path) => reported.stream.add(path) })
          const stream = [...writer.push({ events }), ...writer.end()].join('')
          assert.deepEqual([...reported.whole], named)
          assert.deepEqual([...reported.stream], named)
          if (!carried) return
          assert.match(JSON.stringify(whole), carried)
          assert.match(stream.replaceAll(/\n/g, ' '), carried)
        })
})

test('every image of a stream is carried', () => {
  const source = SOURCES.find(({ name }) => name === 'chat, images')
  assert.ok(source)
  for (const [, events] of eventsOf(source)) {
    const answer = clientProtocolByStyle.get('responses')?.encodeAnswer(fold(events), answerContext())
    assert.equal(JSON.stringify(answer).match(/image_generation_call/g)?.length, 2)
    const again = clientProtocolByStyle.get('chat')?.encodeAnswer(fold(events), answerContext())
    assert.equal(JSON.stringify(again).match(/"image_url":/g)?.length, 2)
  }
})
