/** What clients of each style are told: taken apart by the standard alone, and judged by the published schemas. */
import assert from 'node:assert/strict'
import { type ChatEvent, type ChatRequest, fold } from '../../src/core/chat.ts'
import { type JsonObject, text } from '../../src/core/json.ts'
import type { AnswerContext, Protocol } from '../../src/core/protocol.ts'
import { run } from '../../src/core/stage.ts'
import { sharedProtocols } from '../../src/protocols/index.ts'
import { eventsOf, problemsOf } from '../support/schemas.ts'
import { type Counts, endOf, reading, reasonIn, type Said } from './said.ts'

/** The schema of a whole answer of each style. */
export const WHOLE = {
  'openai-chat': ['openai:wire', 'CreateChatCompletionResponse'],
  'openai-responses': ['openai:wire', 'Response'],
  'anthropic-messages': ['anthropic:wire', 'BetaMessage'],
} as const

/** What is wrong with an event of a stream, in a line. */
export const problemOfEvent = (style: Protocol['name'], event: JsonObject): string | undefined => {
  if (style === 'openai-chat') return problemsOf('openai:wire', 'CreateChatCompletionStreamResponse', event)
  const type = text(event.type) ?? ''
  if (style === 'anthropic-messages' && type === 'ping') return undefined
  const schema = style === 'openai-responses' ? 'openai:wire' : 'anthropic:wire'
  const definition = eventsOf(schema, style === 'openai-responses' ? 'Response' : 'Beta').get(type)
  return definition ? problemsOf(schema, definition, event) : `no event ${type}`
}

type Wire = { readonly names: readonly string[]; readonly events: readonly JsonObject[] }

/** Server-sent events as the standard reads them; nothing of ours. */
export const framesOf = (wire: string): Wire => {
  const names: string[] = []
  const events: JsonObject[] = []
  for (const frame of wire.split(/\r?\n\r?\n/)) {
    const field = (name: string) =>
      frame
        .split(/\r?\n/)
        .flatMap((line) => (line.startsWith(`${name}:`) ? [line.slice(name.length + 1).replace(/^ /, '')] : []))
    const data = field('data').join('\n')
    if (data === '') continue
    names.push(field('event').at(-1) ?? data)
    if (data.trim() !== '[DONE]') events.push(JSON.parse(data))
  }
  return { names, events }
}

/**
 * There the parts of the input are counted apart, and nothing is nothing. Grok on Azure reports more tokens read from a
 * cache than tokens (7 with 161 of them cached), and Mistral has once; parts cannot say that.
 */
export const inMessages = (usage: Counts | null): Counts => {
  const { input = 0, output = 0, cacheRead = 0, cacheWrite = 0, reasoning = 0 } = usage ?? {}
  return { input: Math.max(input, cacheRead + cacheWrite), output, cacheRead, cacheWrite, reasoning }
}

const context = (): AnswerContext => {
  const settings = { streamUsage: { value: true, at: 'stream_options' } }
  const request: ChatRequest = { model: 'm', stream: true, messages: [], tools: [], settings, extras: [] }
  let made = 0
  return { request, body: {}, id: (prefix) => `${prefix}_made${made++}`, created: 1, model: 'm', requestId: 'req_x' }
}

/**
 * An answer of a format no client speaks, told to clients of every style, whole and streamed: valid by the published
 * schemas, in an order the official SDKs take, and saying the same. `said`: what it says, read without a codec.
 */
export const tellClients = (events: readonly ChatEvent[], said: Omit<Said, 'refusal' | 'cited' | 'foreign'>): void => {
  for (const style of Object.values(sharedProtocols)) {
    const own = reading[style.name]
    const whole = style.encodeAnswer(fold(events), context())
    const [schema, definition] = WHOLE[style.name]
    assert.equal(problemsOf(schema, definition, whole), undefined, style.name)
    const stream = framesOf(run(style.encodeStream(context()), [{ events }]).join(''))
    own.order(stream.events, stream.names)
    for (const event of stream.events) assert.equal(problemOfEvent(style.name, event), undefined, style.name)
    const end = endOf({ ...said, refusal: '', cited: [], foreign: [] })
    for (const told of [own.said(whole), own.said(own.assemble(stream.events))]) {
      assert.equal(told.text, said.text, style.name)
      assert.equal(told.reasoning, said.reasoning, style.name)
      assert.deepEqual(told.calls, said.calls, style.name)
      const counts = style.name === 'anthropic-messages' ? inMessages(said.usage) : said.usage
      assert.deepEqual(told.usage, counts, style.name)
      assert.equal(told.reason, reasonIn[style.name](end, false, said.calls.length > 0 ? 'tools' : 'none'), style.name)
    }
  }
}
