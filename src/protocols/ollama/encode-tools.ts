/** The tools a model may call. How freely cannot be said here: only by what is offered. */
import type { ChatRequest } from '../../core/chat.ts'
import type { JsonObject } from '../../core/json.ts'
import type { Losses } from '../shared/losses.ts'
import { allowedTools, type DeclareFunction, toolsAsFunctions } from '../shared/setting-encoders.ts'
import { allowsStrict } from '../shared/strict-schema.ts'

export const encodeTools = ({ tools, settings }: ChatRequest, losses: Losses): readonly JsonObject[] => {
  const { toolChoice, parallelToolCalls } = settings
  const choice = toolChoice?.value
  if (choice?.kind === 'none') {
    // Who may call nothing is offered nothing.
    for (const { at } of tools) losses.lose(at)
    return []
  }
  const must =
    choice?.kind === 'required' || choice?.kind === 'tool' || (choice?.kind === 'allowed' && choice.mode === 'required')
  if (toolChoice && must) losses.lose(toolChoice.at)
  const offered =
    choice?.kind === 'tool'
      ? tools.filter((tool) => tool.kind === 'foreign' || tool.name === choice.name)
      : allowedTools(tools, choice)
  const kept = new Set(offered)
  for (const tool of tools) if (!kept.has(tool)) losses.lose(tool.at)
  if (offered.length > 0 && parallelToolCalls?.value === false) losses.lose(parallelToolCalls.at)
  return toolsAsFunctions(offered, declared, losses)
}

const declared: DeclareFunction = (tool, parameters = {}, losses) => {
  const { name, description } = tool
  const strict = tool.kind === 'function' && tool.strict === true
  // Nobody enforces a schema with open objects; one that could be enforced is not, here.
  if (strict && Object.keys(parameters).length > 0 && allowsStrict(parameters)) losses.loseMember(tool, 'strict')
  return {
    type: 'function',
    function: {
      name,
      ...(description !== undefined && { description }),
      // Templates look for both members of the schema.
      parameters: { type: 'object', properties: {}, ...parameters },
    },
  }
}
