import type { ChatEvent, ChatRequest } from '../../core/chat.ts'
import type { Stage } from '../../core/stage.ts'
import { unwrapInput } from './tool-arguments.ts'

/**
 * Undoes in an answer what `encodeRequest` had to do to the tools: shortened names become the client's again, and calls
 * of free-form tools give their text instead of the object it was wrapped in. Undefined when nothing was changed.
 * `toolName` is how the format writes a tool's name.
 */
export const toolRestorer =
  (toolName: (name: string) => string) =>
  (request: ChatRequest): Stage<ChatEvent, ChatEvent> | undefined => {
    const changed = changedTools(request, toolName)
    if (changed.size === 0) return undefined
    /** The pieces of a wrapped input: it can be unwrapped only when it is whole. */
    let held: string[] | undefined
    return {
      push(event) {
        if (event.type === 'open' && event.block.type === 'tool-call') {
          const tool = changed.get(event.block.name)
          if (!tool) return [event]
          // One that came as free text is that already.
          if (tool.custom && !event.block.custom) held = []
          return [{ type: 'open', block: { ...event.block, name: tool.name, ...(tool.custom && { custom: true }) } }]
        }
        if (!held) return [event]
        if (event.type === 'delta') {
          held.push(event.text)
          return []
        }
        if (event.type !== 'close') return [event]
        const text = unwrapInput(held.join(''))
        held = undefined
        return text === '' ? [event] : [{ type: 'delta', text }, event]
      },
      end: () => [],
    }
  }

/** From the names sent upstream back to the tools the client knows; only those whose name or kind had to change. */
const changedTools = (
  request: ChatRequest,
  toolName: (name: string) => string,
): ReadonlyMap<string, { name: string; custom: boolean }> =>
  new Map(
    request.tools.flatMap((tool) =>
      tool.kind !== 'foreign' && (tool.kind === 'custom' || toolName(tool.name) !== tool.name)
        ? [[toolName(tool.name), { name: tool.name, custom: tool.kind === 'custom' }] as const]
        : [],
    ),
  )
