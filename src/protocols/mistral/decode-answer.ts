/** Adapts answers using the request: restores tool names, removes the prefill, resolves citations. */
import type { ChatEvent, ChatRequest, Message } from '../../core/chat.ts'
import { chain, type Stage } from '../../core/stage.ts'
import { toolRestorer } from '../shared/restore-tool-names.ts'
import { toolName } from '../shared/tool-names.ts'
import { sourcesIn, withSources } from './sources.ts'

const restoreTools = toolRestorer(toolName)

/** The stages that adapt the answer to a request; undefined if none is needed. */
export const restore = (request: ChatRequest): Stage<ChatEvent, ChatEvent> | undefined => {
  const tools = restoreTools(request)
  const prefix = prefixOf(request.messages)
  const sources = sourcesIn(request.messages)
  const stages = [
    ...(prefix === '' ? [] : [withoutPrefix(prefix)]),
    ...(sources.size === 0 ? [] : [withSources(sources)]),
    ...(tools ? [tools] : []),
  ]
  const [first, ...rest] = stages
  return first && rest.reduce((before, stage) => chain(before, stage), first)
}

/** The prefill: a final assistant message without calls, as text. */
const prefixOf = (messages: readonly Message[]): string => {
  const last = messages.findLast(({ role }) => role !== 'system')
  if (last?.role !== 'assistant' || last.content.some(({ type }) => type === 'tool-call')) return ''
  return last.content.map((part) => (part.type === 'text' || part.type === 'refusal' ? part.text : '')).join('')
}

/**
 * Removes the prefill from the start of the answer. Mistral repeats it (its guide to prefixes removes it); other providers
 * return only the continuation. Text is buffered only while it may still match the prefix.
 */
const withoutPrefix = (prefix: string): Stage<ChatEvent, ChatEvent> => {
  let buffered: string | undefined = ''
  /** Length of the prefix matched so far. Only new text is compared, so that the cost stays linear. */
  let matched = 0
  let inText = false
  const release = (): ChatEvent[] => {
    const rest = buffered
    buffered = undefined
    return rest ? [{ type: 'delta', text: rest }] : []
  }
  return {
    push(event) {
      if (buffered === undefined) return [event]
      if (event.type === 'open') inText = event.block.type === 'text'
      if (inText && event.type === 'close') return [...release(), event]
      if (!inText || event.type !== 'delta') return [event]
      buffered += event.text
      const expected = prefix.slice(matched, matched + event.text.length)
      if (!event.text.startsWith(expected)) return release()
      matched += expected.length
      if (matched < prefix.length) return []
      buffered = buffered.slice(prefix.length)
      return release()
    },
    end: () => [],
  }
}
