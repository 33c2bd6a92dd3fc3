/** What a server is asked that knows functions only, and those by OpenAI's rules for names; `restore` undoes it in the answer. */
import type { ChatRequest, Message, Part, Tool, ToolChoice } from '../../core/chat.ts'
import type { Losses } from '../shared/losses.ts'
import { freeInputSchema, wrapInput } from '../shared/tool-arguments.ts'
import { toolName } from '../shared/tool-names.ts'

/**
 * The request with every name as this format takes it. Free-form tools, which OpenAI has and the servers that imitate it
 * mostly refuse (400), become functions with one text where `takesCustom` is false; a grammar is then told, not enforced.
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
          ? { ...message, content: message.content.map((part) => asCall(part, takesCustom)) }
          : message,
    ),
    settings: toolChoice ? { ...settings, toolChoice: { ...toolChoice, value: chosen(toolChoice.value) } } : settings,
  }
}

const asCall = (part: Part, takesCustom: boolean): Part => {
  if (part.type !== 'tool-call') return part
  const { custom, ...call } = part
  const name = toolName(call.name)
  return custom && !takesCustom
    ? { ...call, name, arguments: JSON.stringify(wrapInput(call.arguments)) }
    : { ...part, name }
}

const chosen = (choice: ToolChoice): ToolChoice =>
  choice.kind === 'tool'
    ? { ...choice, name: toolName(choice.name) }
    : choice.kind === 'allowed'
      ? { ...choice, names: choice.names.map(toolName) }
      : choice
