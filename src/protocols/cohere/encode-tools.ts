/** Tools and tool choice. */
import type { ChatRequest, Tool, ToolChoice } from '../../core/chat.ts'
import { isObject, type JsonObject } from '../../core/json.ts'
import type { Losses } from '../shared/losses.ts'
import { type DeclareFunction, toolsAsFunctions } from '../shared/setting-encoders.ts'
import { allowsStrict } from '../shared/strict-schema.ts'
import type { CohereModelFamily } from './family.ts'
import { toolName } from './ids.ts'
import { fieldsIn, fitSchema } from './schema.ts'

/** The tool members of a request. */
export type CohereTools = {
  readonly tools: readonly JsonObject[]
  readonly choice?: 'REQUIRED' | 'NONE'
  /** All tools enforce their schemas. */
  readonly strict: boolean
}

/** Encodes the tools the model may call. */
export const encodeTools = (
  { tools, settings }: ChatRequest,
  family: CohereModelFamily,
  losses: Losses,
): CohereTools => {
  const { toolChoice, parallelToolCalls } = settings
  const choice = toolChoice?.value
  // A tool that must not be called is not sent, so it may be one that this format does not support.
  const allowed = new Set(choice?.kind === 'allowed' ? choice.names : [])
  const offered = tools.filter((tool) => isOffered(tool, choice, allowed, family))
  const offeredSet = new Set(offered)
  for (const tool of tools) if (!offeredSet.has(tool)) losses.lose(tool.at)
  const encoded = toolsAsFunctions(offered, declareFunction, losses)
  const forced =
    choice?.kind === 'required' || choice?.kind === 'tool' || (choice?.kind === 'allowed' && choice.mode !== 'auto')
  if (toolChoice && forced) {
    if (tools.length === 0) losses.lose(toolChoice.at)
    else if (encoded.length === 0 || !family.supportsToolChoice) losses.unfit(toolChoice.at)
  }
  if (encoded.length === 0) return { tools: [], strict: false }
  if (parallelToolCalls?.value === false && choice?.kind !== 'none') losses.lose(parallelToolCalls.at)
  return {
    tools: encoded,
    ...(forced && { choice: 'REQUIRED' }),
    ...(choice?.kind === 'none' && { choice: 'NONE' }),
    strict: isStrict(offered, losses),
  }
}

/**
 * Whether a tool is sent. This format cannot choose a tool by name: sending only that tool, or only the allowed ones, has
 * the same effect.
 */
const isOffered = (
  tool: Tool,
  choice: ToolChoice | undefined,
  allowed: ReadonlySet<string>,
  { supportsToolChoice }: CohereModelFamily,
): boolean => {
  switch (choice?.kind) {
    case 'tool':
      return tool.kind !== 'foreign' && tool.name === choice.name
    case 'allowed':
      return tool.kind !== 'foreign' && allowed.has(tool.name)
    case 'none':
      return supportsToolChoice
    default:
      return true
  }
}

/** `parameters` is required, also for a function without arguments. */
const declareFunction: DeclareFunction = ({ name, description }, parameters = {}) => ({
  type: 'function',
  function: {
    name: toolName(name),
    ...(description !== undefined && { description }),
    parameters: Object.keys(parameters).length === 0 ? { type: 'object', properties: {} } : parameters,
  },
})

/** "You can define a maximum of 200 fields across all tools" (Structured Outputs, notes on `strict_tools`). */
const MAX_FIELDS = 200

/**
 * Whether `strict_tools` can be set. It applies to all tools, so every schema must be enforceable. A strict tool with open
 * objects is not enforced by other formats either, so it is no loss.
 */
const isStrict = (tools: readonly Tool[], losses: Losses): boolean => {
  const strictTools = tools.filter(
    (tool) => tool.kind === 'function' && tool.strict === true && hasArguments(tool) && allowsStrict(tool.parameters),
  )
  if (strictTools.length === 0) return false
  const fields = tools.reduce((sum, tool) => sum + (tool.kind === 'function' ? fieldsIn(tool.parameters) : 1), 0)
  if (strictTools.length === tools.length && fields <= MAX_FIELDS && tools.every(isEnforceable)) return true
  for (const tool of strictTools) losses.loseMember(tool, 'strict')
  return false
}

const hasArguments = ({ parameters }: Tool & { kind: 'function' }): boolean =>
  isObject(parameters) && isObject(parameters.properties) && Object.keys(parameters.properties).length > 0

const isEnforceable = (tool: Tool): boolean => {
  if (tool.kind !== 'function' || !isObject(tool.parameters)) return false
  const { described, impossible } = fitSchema(tool.parameters)
  return described.length + impossible.length === 0
}
