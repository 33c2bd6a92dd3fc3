/** Citations in the answers of each client format: their ranges, titles and losses, streamed and whole. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answerContext } from '../../test/support/builders.ts'
import { type ChatEvent, fold } from '../core/chat.ts'
import { type JsonObject, list, object } from '../core/json.ts'
import type { AnswerContext, ClientProtocol } from '../core/protocol.ts'
import { anthropicMessages } from './anthropic-messages/index.ts'
import { sseFrames } from './framing/sse.ts'
import { protocols } from './index.ts'

const found = (url: string, title: string | null) => ({
  type: 'web_search_result_location',
  cited_text: 'x',
  url,
  title,
  encrypted_index: 'E==',
})
const passage = { type: 'char_location', cited_text: 'x', document_index: 0, start_char_index: 0, end_char_index: 1 }

/** Claude sends `citations_delta` before the text it belongs to (all recordings). */
const stream = (blocks: readonly { readonly text: string; readonly citations?: readonly JsonObject[] }[]) => {
  const decoder = anthropicMessages.decodeStream()
  const events = [
    { type: 'message_start', message: { id: 'msg_1', model: 'claude-sonnet-4-5', content: [], usage: {} } },
    ...blocks.flatMap(({ text, citations = [] }, index) => [
      { type: 'content_block_start', index, content_block: { type: 'text', text: '' } },
      ...citations.map((citation) => ({
        type: 'content_block_delta',
        index,
        delta: { type: 'citations_delta', citation },
      })),
      ...[text.slice(0, 3), text.slice(3)].map((part) => ({
        type: 'content_block_delta',
        index,
        delta: { type: 'text_delta', text: part },
      })),
      { type: 'content_block_stop', index },
    ]),
    { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { input_tokens: 1, output_tokens: 1 } },
    { type: 'message_stop' },
  ]
  return events.flatMap((event) => [...decoder.push({ event: event.type, data: JSON.stringify(event) })])
}

type Read = {
  readonly streamed: readonly JsonObject[]
  readonly whole: readonly JsonObject[]
  readonly lost: readonly string[]
}

/** The annotations or citations of an answer, as a stream and whole. */
const answer = (protocol: ClientProtocol, events: readonly ChatEvent[]): Read => {
  const lost: string[] = []
  const context: AnswerContext = answerContext({ onLoss: (path) => lost.push(path) })
  const writer = protocol.encodeStream(context)
  const wire = [...events.flatMap((event) => [...writer.push({ events: [event] })]), ...writer.end()].join('')
  const frames = [...sseFrames().push(wire)].flatMap(({ data }) =>
    data.startsWith('{') ? [JSON.parse(data) as JsonObject] : [],
  )
  const body = protocol.encodeAnswer(fold(events), context)
  switch (protocol.style) {
    case 'chat': {
      const noted = (choice: unknown, member: string) => list(object(object(choice)?.[member])?.annotations)
      const entries = (all: readonly unknown[]) => all.map((one) => object(object(one)?.url_citation) ?? {})
      return {
        streamed: entries(frames.flatMap(({ choices }) => noted(list(choices)[0], 'delta'))),
        whole: entries(noted(list(body.choices)[0], 'message')),
        lost,
      }
    }
    case 'responses': {
      const partsOf = (output: unknown) =>
        list(object(list(output)[0])?.content).flatMap((part) => list(object(part)?.annotations))
      const done = frames.find(({ type }) => type === 'response.completed')
      assert.deepEqual(
        frames.flatMap(({ type, annotation }) =>
          type === 'response.output_text.annotation.added' ? [annotation] : [],
        ),
        partsOf(object(done?.response)?.output),
      )
      const withoutType = (all: readonly unknown[]) =>
        all.map((one) => {
          const { type: _, ...rest } = object(one) ?? {}
          return rest
        })
      return {
        streamed: withoutType(partsOf(object(done?.response)?.output)),
        whole: withoutType(partsOf(body.output)),
        lost,
      }
    }
    default:
      return {
        streamed: frames.flatMap(({ delta }): JsonObject[] => {
          const citation = object(object(delta)?.citation)
          return citation ? [citation] : []
        }),
        whole: list(body.content).flatMap((block) => list(object(block)?.citations) as JsonObject[]),
        lost,
      }
  }
}

const claude = stream([
  { text: 'See doc' },
  { text: ' found', citations: [found('https://a.example', 'A'), found('https://b.example', 'B')] },
  { text: ' and more.', citations: [found('https://c.example', 'C')] },
])

test('citations before their text cover the text, streamed as whole: chat', () => {
  const { streamed, whole, lost } = answer(protocols['openai-chat'], claude)
  assert.deepEqual(streamed, [
    { url: 'https://a.example', title: 'A', start_index: 7, end_index: 13 },
    { url: 'https://b.example', title: 'B', start_index: 7, end_index: 13 },
    { url: 'https://c.example', title: 'C', start_index: 13, end_index: 23 },
  ])
  assert.deepEqual(streamed, whole)
  assert.deepEqual(lost, [])
})

test('citations before their text cover the text, streamed as whole: responses', () => {
  const { streamed, whole } = answer(protocols['openai-responses'], claude)
  // In this format each text is a part of its own, with its own offsets.
  assert.deepEqual(
    streamed.map(({ url, start_index, end_index }) => [url, start_index, end_index]),
    [
      ['https://a.example', 0, 6],
      ['https://b.example', 0, 6],
      ['https://c.example', 0, 10],
    ],
  )
  assert.deepEqual(streamed, whole)
})

const ranged: readonly ChatEvent[] = [
  { type: 'open', block: { type: 'text' } },
  { type: 'delta', text: 'Found it.' },
  { type: 'citation', citation: { url: 'https://a.example', title: 'A', start: 0, end: 5 } },
  { type: 'citation', citation: { url: 'https://b.example', start: 6 } },
  { type: 'delta', text: ' Yes' },
  { type: 'close' },
  { type: 'finish', finish: { kind: 'stop', raw: null } },
]

test('citations with a range keep it; one without an end covers the rest', () => {
  const chat = answer(protocols['openai-chat'], ranged)
  assert.deepEqual(
    chat.streamed.map(({ start_index, end_index }) => [start_index, end_index]),
    [
      [0, 5],
      [6, 13],
    ],
  )
  assert.deepEqual(chat.streamed, chat.whole)
})

test('a text that ends without its end has its citations', () => {
  const open = ranged.filter(({ type }) => type !== 'close')
  assert.equal(answer(protocols['openai-chat'], open).streamed.length, 2)
  assert.equal(answer(protocols['openai-responses'], open).streamed.length, 2)
})

// The AI SDK refuses the whole answer: `title` of a web search result must be a string.
test('a citation without a title has its URL as title for messages clients', () => {
  const untitled: readonly ChatEvent[] = [
    { type: 'open', block: { type: 'text' } },
    { type: 'delta', text: 'x' },
    { type: 'citation', citation: { url: 'https://a.example' } },
    { type: 'close' },
    { type: 'finish', finish: { kind: 'stop', raw: null } },
  ]
  const { streamed, whole } = answer(protocols['anthropic-messages'], untitled)
  assert.equal(streamed[0]?.title, 'https://a.example')
  assert.deepEqual(streamed, whole)
})

test('a citation of a document is reported where the format has none', () => {
  for (const kind of ['char_location', 'page_location', 'content_block_location']) {
    const events = stream([{ text: 'found', citations: [{ ...passage, type: kind }] }])
    for (const name of ['openai-chat', 'openai-responses', 'openai-completions'] as const) {
      const { lost } = answer(protocols[name], events)
      assert.deepEqual([...new Set(lost)], ['output.citations'], name)
    }
    const { lost, streamed } = answer(protocols['anthropic-messages'], events)
    assert.deepEqual(lost, [])
    assert.equal(streamed[0]?.type, kind)
  }
})

test('a citation with a number instead of a URL is reported to messages clients', () => {
  const numbered: readonly ChatEvent[] = [
    { type: 'open', block: { type: 'text' } },
    { type: 'delta', text: 'x' },
    { type: 'citation', citation: { url: '', raw: { type: 'reference', reference_ids: [1] } } },
    { type: 'close' },
    { type: 'finish', finish: { kind: 'stop', raw: null } },
  ]
  assert.deepEqual([...new Set(answer(protocols['anthropic-messages'], numbered).lost)], ['output.citations'])
})
