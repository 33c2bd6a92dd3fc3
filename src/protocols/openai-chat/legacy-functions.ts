/** Adapts tools to servers with functions only and OpenAI's name rules. `restore` reverts it in the answer. */
import type { ChatRequest, Message, Part, Tool, ToolChoice } from '../../core/chat.ts'
import type { Losses } from '../shared/losses.ts'
import { freeInputSchema, wrapInput } from '../shared/tool-arguments.ts'
import { toolName } from '../shared/tool-names.ts'

/**
 * Makes all tool names valid. Without `takesCustom`, free-form tools become functions with one text argument, since most
 * compatible servers reject them (400); a grammar is then only described.
 */
export const withFunctions = (request: ChatRequest, takesCustom: boolean, losses: Losses): ChatRequest => {
  const { tools, messages, settings } = request
  const { toolChoice } = settings
  return {
    ...request,
    tools: tools.map((tool): Tool => {
      if (tool.kind === 'foreign') return tool
      const name = toolName(tool.name)
      if (tool.kind === 'function' || takesCustom) return { ...tool, name }
      const { at, description } = tool
      const parameters = { ...freeInputSchema(tool, losses), additionalProperties: false }
      return { kind: 'function', at, name, ...(description !== undefined && { description }), parameters }
    }),
    messages: messages.map(
      (message): Message =>
        message.role === 'assistant'
          ? { ...message, content: message.content.map((part) => adaptCall(part, takesCustom)) }
          : message,
    ),
    settings: toolChoice
      ? { ...settings, toolChoice: { ...toolChoice, value: withValidNames(toolChoice.value) } }
      : settings,
  }
}

const adaptCall = (part: Part, takesCustom: boolean): Part => {
  if (part.type !== 'tool-call') return part
  const { custom, ...call } = part
  const name = toolName(call.name)
  return custom && !takesCustom
    ? { ...call, name, arguments: JSON.stringify(wrapInput(call.arguments)) }
    : { ...part, name }
}

const withValidNames = (choice: ToolChoice): ToolChoice =>
  choice.kind === 'tool'
    ? { ...choice, name: toolName(choice.name) }
    : choice.kind === 'allowed'
      ? { ...choice, names: choice.names.map(toolName) }
      : choice
