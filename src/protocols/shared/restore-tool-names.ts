import type { ChatEvent, ChatRequest } from '../../core/chat.ts'
import type { Stage } from '../../core/stage.ts'
import { unwrapInput } from './tool-arguments.ts'

/**
 * Reverts in an answer the changes that `encodeRequest` made to tools: restores shortened names and unwraps free-form
 * input. Undefined if no tool was changed. `toolName` converts a tool's name to the format's rules.
 */
export const toolRestorer =
  (toolName: (name: string) => string, { supportsCustomTools = false } = {}) =>
  (request: ChatRequest): Stage<ChatEvent, ChatEvent> | undefined => {
    const changed = changedTools(request, toolName, supportsCustomTools)
    if (changed.size === 0) return undefined
    /** Buffered fragments of a wrapped input, which can be unwrapped only when complete. */
    let buffered: string[] | undefined
    return {
      push(event) {
        if (event.type === 'open' && event.block.type === 'tool-call') {
          const tool = changed.get(event.block.name)
          if (!tool) return [event]
          // A call that arrived as free text needs no unwrapping.
          if (tool.custom && !event.block.custom) buffered = []
          return [{ type: 'open', block: { ...event.block, name: tool.name, ...(tool.custom && { custom: true }) } }]
        }
        if (!buffered) return [event]
        if (event.type === 'delta') {
          buffered.push(event.text)
          return []
        }
        if (event.type !== 'close') return [event]
        const text = unwrapInput(buffered.join(''))
        buffered = undefined
        return text === '' ? [event] : [{ type: 'delta', text }, event]
      },
      end: () => [],
    }
  }

/** The client's tools by the name sent upstream; only tools whose name or kind changed. */
const changedTools = (
  request: ChatRequest,
  toolName: (name: string) => string,
  supportsCustomTools: boolean,
): ReadonlyMap<string, { name: string; custom: boolean }> =>
  new Map(
    request.tools.flatMap((tool) => {
      if (tool.kind === 'foreign') return []
      const name = toolName(tool.name)
      const custom = tool.kind === 'custom' && !supportsCustomTools
      return custom || name !== tool.name ? [[name, { name: tool.name, custom }] as const] : []
    }),
  )
