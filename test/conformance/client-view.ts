/** Parses what clients of each format receive by the SSE standard, and validates it with the published schemas. */
import type { ClientProtocolName } from '../../src/core/chat.ts'
import { type JsonObject, text } from '../../src/core/json.ts'
import { eventsOf, problemsOf, type SchemaName } from '../support/schemas.ts'
import type { TokenCounts } from './answer-oracle.ts'

/** The schema of a whole answer of each client format. */
export const ANSWER_SCHEMAS = {
  'openai-chat': ['openai:wire', 'CreateChatCompletionResponse'],
  'openai-responses': ['openai:wire', 'Response'],
  'anthropic-messages': ['anthropic:wire', 'BetaMessage'],
  'openai-completions': ['completions', 'Answer'],
  gemini: ['gemini', 'GenerateContentResponse'],
} as const satisfies { readonly [style in ClientProtocolName]: readonly [SchemaName, string] }

/** Validates an event of a stream; returns the problem in one line. */
export const eventProblem = (style: ClientProtocolName, event: JsonObject): string | undefined => {
  if (style === 'openai-completions') return problemsOf('completions', 'Chunk', event)
  if (style === 'gemini') return problemsOf('gemini', 'GenerateContentResponse', event)
  if (style === 'openai-chat') return problemsOf('openai:wire', 'CreateChatCompletionStreamResponse', event)
  const type = text(event.type) ?? ''
  if (style === 'anthropic-messages' && type === 'ping') return undefined
  const schema = style === 'openai-responses' ? 'openai:wire' : 'anthropic:wire'
  const definition = eventsOf(schema, style === 'openai-responses' ? 'Response' : 'Beta').get(type)
  return definition ? problemsOf(schema, definition, event) : `no event ${type}`
}

type SseEvents = { readonly names: readonly string[]; readonly events: readonly JsonObject[] }

/** Parses server-sent events by the standard, without the gateway's own parser. */
export const parseSse = (wire: string): SseEvents => {
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
 * Usage as the messages format expresses it: cached and uncached input apart, and zeros instead of missing counts. Grok
 * on Azure and Mistral reported more cached tokens than input tokens (7 with 161 cached), which parts cannot express.
 */
export const messagesUsage = (usage: TokenCounts | null): TokenCounts => {
  const { input = 0, output = 0, cacheRead = 0, cacheWrite = 0, reasoning = 0 } = usage ?? {}
  return { input: Math.max(input, cacheRead + cacheWrite), output, cacheRead, cacheWrite, reasoning }
}

/** Usage as Gemini's format expresses it: without writes to a cache, and zeros instead of missing counts. */
export const geminiUsage = (usage: TokenCounts | null): TokenCounts => {
  const { input = 0, output = 0, cacheRead = 0, reasoning = 0 } = usage ?? {}
  return { input, output: Math.max(output, reasoning), cacheRead, cacheWrite: 0, reasoning }
}
