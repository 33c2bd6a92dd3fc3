/**
 * Resolves citations. Mistral cites sources by the number that a tool result gave them: an object of numbered sources
 * (`{"0": {"url", "title", …}}`, Mistral's guide to citations). The request contains these results, so numbers are replaced
 * by URLs, as other formats have them.
 */
import type { ChatEvent, Message } from '../../core/chat.ts'
import { type JsonObject, list, object, parseObject, text } from '../../core/json.ts'
import type { Stage } from '../../core/stage.ts'

type NumberedSource = { readonly url: string; readonly title?: string }

/** The numbered sources in tool results; a later source replaces an earlier one of the same number. */
export const sourcesIn = (messages: readonly Message[]): ReadonlyMap<number, NumberedSource> => {
  const sources = new Map<number, NumberedSource>()
  for (const message of messages) {
    if (message.role !== 'tool') continue
    const numbered = parseResult(message.content.map((part) => (part.type === 'text' ? part.text : '')).join(''))
    for (const [name, value] of Object.entries(numbered ?? {})) {
      const source = object(value)
      const url = text(source?.url)
      const title = text(source?.title)
      if (url && /^[0-9]{1,9}$/.test(name)) sources.set(Number(name), { url, ...(title !== undefined && { title }) })
    }
  }
  return sources
}

/** Results that are not a JSON object have no numbered sources. */
const parseResult = (result: string): JsonObject | undefined =>
  result.trimStart().startsWith('{') ? parseObject(result) : undefined

/** Replaces source numbers in citations by URLs; unknown numbers stay unchanged. */
export const withSources = (sources: ReadonlyMap<number, NumberedSource>): Stage<ChatEvent, ChatEvent> => ({
  push(event) {
    if (event.type !== 'citation') return [event]
    const { url, raw } = event.citation
    const numbers = url === '' ? list(object(raw)?.reference_ids) : []
    const known = numbers.flatMap((number) => sources.get(Number(number)) ?? [])
    if (known.length === 0) return [event]
    return known.map((source) => ({ type: 'citation', citation: { ...source, ...(raw !== undefined && { raw }) } }))
  },
  end: () => [],
})
