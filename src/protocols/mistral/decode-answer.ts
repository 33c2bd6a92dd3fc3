/** Undoes in an answer what had to be done to the question, and tells in it what only the question knows. */
import type { ChatEvent, ChatRequest, Message } from '../../core/chat.ts'
import { chain, type Stage } from '../../core/stage.ts'
import { toolRestorer } from '../shared/restore-tool-names.ts'
import { toolName } from '../shared/tool-names.ts'
import { sourcesIn, withSources } from './sources.ts'

const restoreTools = toolRestorer(toolName)

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

/** The beginning of the answer that the client has written itself: its last message, if that is the model's. */
const prefixOf = (messages: readonly Message[]): string => {
  const last = messages.findLast(({ role }) => role !== 'system')
  if (last?.role !== 'assistant' || last.content.some(({ type }) => type === 'tool-call')) return ''
  return last.content.map((part) => (part.type === 'text' || part.type === 'refusal' ? part.text : '')).join('')
}

/**
 * Mistral repeats the prefix it was given at the beginning of the answer (its guide to prefixes cuts it off), others go
 * on where it ended. Text is held back only as long as it may still be the prefix.
 */
const withoutPrefix = (prefix: string): Stage<ChatEvent, ChatEvent> => {
  let held: string | undefined = ''
  /** So much of the prefix has been seen; only what is new is compared, or a long one in small pieces would take its square. */
  let seen = 0
  let inText = false
  const release = (): ChatEvent[] => {
    const rest = held
    held = undefined
    return rest ? [{ type: 'delta', text: rest }] : []
  }
  return {
    push(event) {
      if (held === undefined) return [event]
      if (event.type === 'open') inText = event.block.type === 'text'
      if (inText && event.type === 'close') return [...release(), event]
      if (!inText || event.type !== 'delta') return [event]
      held += event.text
      const wanted = prefix.slice(seen, seen + event.text.length)
      if (!event.text.startsWith(wanted)) return release()
      seen += wanted.length
      if (seen < prefix.length) return []
      held = held.slice(prefix.length)
      return release()
    },
    end: () => [],
  }
}
