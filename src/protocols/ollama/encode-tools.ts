/** Encodes tools. Ollama has no `tool_choice`: it is approximated by the tools that are sent. */
import type { ChatRequest } from '../../core/chat.ts'
import type { JsonObject } from '../../core/json.ts'
import type { Losses } from '../shared/losses.ts'
import { allowedTools, type DeclareFunction, toolsAsFunctions } from '../shared/setting-encoders.ts'
import { allowsStrict } from '../shared/strict-schema.ts'

/** Encodes the tools of a request and reports choices that cannot be enforced. */
export const encodeTools = ({ tools, settings }: ChatRequest, losses: Losses): readonly JsonObject[] => {
  const { toolChoice, parallelToolCalls } = settings
  const choice = toolChoice?.value
  if (choice?.kind === 'none') {
    // No call allowed: no tool is sent.
    for (const { at } of tools) losses.lose(at)
    return []
  }
  const isRequired =
    choice?.kind === 'required' || choice?.kind === 'tool' || (choice?.kind === 'allowed' && choice.mode === 'required')
  if (toolChoice && isRequired) losses.lose(toolChoice.at)
  const offered =
    choice?.kind === 'tool'
      ? tools.filter((tool) => tool.kind === 'foreign' || tool.name === choice.name)
      : allowedTools(tools, choice)
  const sent = new Set(offered)
  for (const tool of tools) if (!sent.has(tool)) losses.lose(tool.at)
  if (offered.length > 0 && parallelToolCalls?.value === false) losses.lose(parallelToolCalls.at)
  return toolsAsFunctions(offered, declareFunction, losses)
}

const declareFunction: DeclareFunction = (tool, parameters = {}, losses) => {
  const { name, description } = tool
  const strict = tool.kind === 'function' && tool.strict === true
  // Open schemas are never enforced; for schemas that could be, `strict` is lost.
  if (strict && Object.keys(parameters).length > 0 && allowsStrict(parameters)) losses.loseMember(tool, 'strict')
  return {
    type: 'function',
    function: {
      name,
      ...(description !== undefined && { description }),
      // Chat templates expect both members of the schema.
      parameters: { type: 'object', properties: {}, ...parameters },
    },
  }
}
