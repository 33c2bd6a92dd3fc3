/** The tools a model may call, and how freely. */
import type { ChatRequest, Tool, ToolChoice } from '../../core/chat.ts'
import { isObject, type JsonObject } from '../../core/json.ts'
import type { Losses } from '../shared/losses.ts'
import { type DeclareFunction, toolsAsFunctions } from '../shared/setting-encoders.ts'
import { allowsStrict } from '../shared/strict-schema.ts'
import type { Family } from './family.ts'
import { toolName } from './ids.ts'
import { fieldsIn, fitSchema } from './schema.ts'

export type EncodedTools = {
  readonly tools: readonly JsonObject[]
  readonly choice?: 'REQUIRED' | 'NONE'
  readonly strict: boolean
}

export const encodeTools = ({ tools, settings }: ChatRequest, family: Family, losses: Losses): EncodedTools => {
  const { toolChoice, parallelToolCalls } = settings
  const wish = toolChoice?.value
  // Those that may not be called are not sent; one of them nobody could carry is then no matter.
  const allowed = new Set(wish?.kind === 'allowed' ? wish.names : [])
  const offered = tools.filter((tool) => isOffered(tool, wish, allowed, family))
  const kept = new Set(offered)
  for (const tool of tools) if (!kept.has(tool)) losses.lose(tool.at)
  const written = toolsAsFunctions(offered, declared, losses)
  const forced =
    wish?.kind === 'required' || wish?.kind === 'tool' || (wish?.kind === 'allowed' && wish.mode !== 'auto')
  if (toolChoice && forced) {
    if (tools.length === 0) losses.lose(toolChoice.at)
    else if (written.length === 0 || !family.chooses) losses.unfit(toolChoice.at)
  }
  if (written.length === 0) return { tools: [], strict: false }
  if (parallelToolCalls?.value === false && wish?.kind !== 'none') losses.lose(parallelToolCalls.at)
  return {
    tools: written,
    ...(forced && { choice: 'REQUIRED' }),
    ...(wish?.kind === 'none' && { choice: 'NONE' }),
    strict: isStrict(offered, losses),
  }
}

/**
 * There is no way to name a tool here. But a model that has to call one and has only that one can do nothing else, and
 * of a list of allowed ones sending only those says the same.
 */
const isOffered = (
  tool: Tool,
  wish: ToolChoice | undefined,
  allowed: ReadonlySet<string>,
  { chooses }: Family,
): boolean => {
  switch (wish?.kind) {
    case 'tool':
      return tool.kind !== 'foreign' && tool.name === wish.name
    case 'allowed':
      return tool.kind !== 'foreign' && allowed.has(tool.name)
    case 'none':
      return chooses
    default:
      return true
  }
}

/** `parameters` has to be there, if only to say that there are none. */
const declared: DeclareFunction = ({ name, description }, parameters = {}) => ({
  type: 'function',
  function: {
    name: toolName(name),
    ...(description !== undefined && { description }),
    parameters: Object.keys(parameters).length === 0 ? { type: 'object', properties: {} } : parameters,
  },
})

/** "You can define a maximum of 200 fields across all tools" (Structured Outputs, notes on `strict_tools`). */
const MOST_FIELDS = 200

/**
 * `strict_tools` holds all tools to their schemas or none, and every one of them has to be of the kind it can hold. A
 * schema with open objects was not enforced by the other formats either, so nothing is lost with it.
 */
const isStrict = (tools: readonly Tool[], losses: Losses): boolean => {
  const wishing = tools.filter(
    (tool) => tool.kind === 'function' && tool.strict === true && hasArguments(tool) && allowsStrict(tool.parameters),
  )
  if (wishing.length === 0) return false
  const fields = tools.reduce((sum, tool) => sum + (tool.kind === 'function' ? fieldsIn(tool.parameters) : 1), 0)
  if (wishing.length === tools.length && fields <= MOST_FIELDS && tools.every(isEnforceable)) return true
  for (const tool of wishing) losses.loseMember(tool, 'strict')
  return false
}

/** A function without arguments has none that could go wrong. */
const hasArguments = ({ parameters }: Tool & { kind: 'function' }): boolean =>
  isObject(parameters) && isObject(parameters.properties) && Object.keys(parameters.properties).length > 0

const isEnforceable = (tool: Tool): boolean => {
  if (tool.kind !== 'function' || !isObject(tool.parameters)) return false
  const { described, impossible } = fitSchema(tool.parameters)
  return described.length + impossible.length === 0
}
