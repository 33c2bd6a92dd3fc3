/**
 * Names of tools this format does not take are replaced by ones it does, and come back in the answer. Each is a function
 * of the original alone: a call in an earlier turn has the same name as its tool, without any state.
 */
import type { ChatEvent, ChatRequest } from '../../core/chat.ts'
import type { Stage } from '../../core/stage.ts'
import { digest } from '../shared.ts'

const NAME = /^[a-zA-Z0-9_-]{1,64}$/

/** The name as this format takes it: letters, digits, `_` and `-`, at most 64. */
export const toolName = (name: string): string =>
  NAME.test(name) ? name : `${name.replaceAll(/[^a-zA-Z0-9_-]/g, '_').slice(0, 23)}_${digest(name)}`

/** Gives calls in an answer the names the client knows. Undefined when none had to change. */
export const restore = (request: ChatRequest): Stage<ChatEvent, ChatEvent> | undefined => {
  const changed = new Map(
    request.tools.flatMap((tool) =>
      tool.kind !== 'foreign' && toolName(tool.name) !== tool.name ? [[toolName(tool.name), tool.name]] : [],
    ),
  )
  if (changed.size === 0) return undefined
  return {
    push(event) {
      if (event.type !== 'open' || event.block.type !== 'tool-call') return [event]
      const name = changed.get(event.block.name)
      return name === undefined ? [event] : [{ type: 'open', block: { ...event.block, name } }]
    },
    end: () => [],
  }
}
