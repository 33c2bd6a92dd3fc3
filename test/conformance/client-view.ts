/** What clients of each style are told: taken apart by the standard alone, and judged by the published schemas. */
import type { ClientProtocolName } from '../../src/core/chat.ts'
import { type JsonObject, text } from '../../src/core/json.ts'
import { eventsOf, problemsOf, type SchemaName } from '../support/schemas.ts'
import type { Counts } from './answer-oracle.ts'

/** The schema of a whole answer of each style. */
export const WHOLE = {
  'openai-chat': ['openai:wire', 'CreateChatCompletionResponse'],
  'openai-responses': ['openai:wire', 'Response'],
  'anthropic-messages': ['anthropic:wire', 'BetaMessage'],
  'openai-completions': ['completions', 'Answer'],
} as const satisfies { readonly [style in ClientProtocolName]: readonly [SchemaName, string] }

/** What is wrong with an event of a stream, in a line. */
export const problemOfEvent = (style: ClientProtocolName, event: JsonObject): string | undefined => {
  if (style === 'openai-completions') return problemsOf('completions', 'Chunk', event)
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
