/** The tools a model may call. How freely cannot be said here: only by what is offered. */
import type { ChatRequest, Tool } from '../../core/chat.ts'
import { isObject, type JsonObject } from '../../core/json.ts'
import { freeInput } from '../arguments.ts'
import { permitted } from '../carry.ts'
import { type Losses, loseAll } from '../losses.ts'
import { allowsStrict } from '../openai-responses/strict.ts'

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
      : permitted(tools, choice)
  const kept = new Set(offered)
  for (const tool of tools) if (!kept.has(tool)) losses.lose(tool.at)
  if (offered.length > 0 && parallelToolCalls?.value === false) losses.lose(parallelToolCalls.at)
  return offered.flatMap((tool) => encodeTool(tool, losses))
}

const encodeTool = (tool: Tool, losses: Losses): JsonObject[] => {
  switch (tool.kind) {
    case 'function':
      return encodeFunction(tool, losses)
    case 'custom':
      return [declared(tool.name, tool.description, freeInput(tool, losses))]
    case 'foreign':
      losses.unfit(tool.at)
      return []
    default:
      throw new Error(`unknown tool ${JSON.stringify(tool satisfies never)}`)
  }
}

const encodeFunction = (tool: Tool & { kind: 'function' }, losses: Losses): JsonObject[] => {
  const { at, name, description, parameters = {}, strict, extras } = tool
  loseAll(extras, losses)
  if (!isObject(parameters)) {
    losses.unfit(at)
    return []
  }
  // Nobody enforces a schema with open objects; one that could be enforced is not, here.
  if (strict === true && Object.keys(parameters).length > 0 && allowsStrict(parameters)) losses.lose(`${at}.strict`)
  return [declared(name, description, parameters)]
}

/** Templates look for both members of the schema. */
const declared = (name: string, description: string | undefined, parameters: JsonObject): JsonObject => ({
  type: 'function',
  function: {
    name,
    ...(description !== undefined && { description }),
    parameters: { type: 'object', properties: {}, ...parameters },
  },
})
