/**
 * What an answer cites. Mistral tells sources by number: the numbers a tool gave them, whose result is an object of
 * numbered sources (`{"0": {"url", "title", …}}`, its guide to citations). The question has those results, so the numbers
 * can be told as the addresses other formats know.
 */
import type { ChatEvent, Message } from '../../core/chat.ts'
import { type JsonObject, list, object, parseObject, text } from '../../core/json.ts'
import type { Stage } from '../../core/stage.ts'

type Source = { readonly url: string; readonly title?: string }

/** The numbered sources tools gave; a later one of the same number hides an earlier. */
export const sourcesIn = (messages: readonly Message[]): ReadonlyMap<number, Source> => {
  const sources = new Map<number, Source>()
  for (const message of messages) {
    if (message.role !== 'tool') continue
    const given = parsed(message.content.map((part) => (part.type === 'text' ? part.text : '')).join(''))
    for (const [name, value] of Object.entries(given ?? {})) {
      const source = object(value)
      const url = text(source?.url)
      const title = text(source?.title)
      if (url && /^[0-9]{1,9}$/.test(name)) sources.set(Number(name), { url, ...(title !== undefined && { title }) })
    }
  }
  return sources
}

/** A tool may give any text; then it numbers nothing. */
const parsed = (result: string): JsonObject | undefined =>
  result.trimStart().startsWith('{') ? parseObject(result) : undefined

/** Tells numbers as the sources they are; a number nobody gave stays what it was. */
export const withSources = (sources: ReadonlyMap<number, Source>): Stage<ChatEvent, ChatEvent> => ({
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
