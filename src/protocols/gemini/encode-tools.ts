/** The tools a model may call, and how freely. */
import type { ChatRequest, Tool, ToolChoice } from '../../core/chat.ts'
import { isObject, type Json, type JsonObject } from '../../core/json.ts'
import type { Losses } from '../shared/losses.ts'
import { allowedTools, type DeclareFunction, toolsAsFunctions } from '../shared/setting-encoders.ts'
import { allowsStrict } from '../shared/strict-schema.ts'
import { toolName } from './ids.ts'

export type EncodedTools = { readonly tools: readonly JsonObject[]; readonly config?: JsonObject }

export const encodeTools = ({ tools, settings }: ChatRequest, losses: Losses): EncodedTools => {
  const { toolChoice, parallelToolCalls } = settings
  const choice = toolChoice?.value
  // Names can be allowed only to a call that has to be made.
  const offered = choice?.kind === 'allowed' && choice.mode === 'auto' ? allowedTools(tools, choice) : tools
  const functions = toolsAsFunctions(offered, declared, losses)
  const strict = offered.some(isStrict)
  // Nothing chosen and nothing strict is what goes without saying.
  const config = choice || strict ? configOf(choice ?? { kind: 'auto' }, strict) : undefined
  if (functions.length === 0) {
    if (toolChoice && choice?.kind !== 'auto' && choice?.kind !== 'none') losses.lose(toolChoice.at)
    return { tools: [] }
  }
  if (parallelToolCalls?.value === false && choice?.kind !== 'none') losses.lose(parallelToolCalls.at)
  return {
    tools: [{ functionDeclarations: functions }],
    ...(config && { config: { functionCallingConfig: config } }),
  }
}

/** A schema with open objects is not enforced by the other formats either. */
const isStrict = (tool: Tool): boolean =>
  tool.kind === 'function' && tool.strict === true && hasArguments(tool.parameters) && allowsStrict(tool.parameters)

/** Calls that have to be made are held to their schemas; one that may be made is only if it is asked for, for all of them. */
const configOf = (choice: ToolChoice, strict: boolean): JsonObject => {
  const free = strict ? 'VALIDATED' : 'AUTO'
  switch (choice.kind) {
    case 'auto':
      return { mode: free }
    case 'none':
      return { mode: 'NONE' }
    case 'required':
      return { mode: 'ANY' }
    case 'tool':
      return { mode: 'ANY', allowedFunctionNames: [toolName(choice.name)] }
    case 'allowed':
      return choice.mode === 'required'
        ? { mode: 'ANY', allowedFunctionNames: choice.names.map(toolName) }
        : { mode: free }
    default:
      throw new Error(`unknown choice ${JSON.stringify(choice satisfies never)}`)
  }
}

/** A function without arguments is declared without a schema; an empty one of older kinds is refused. */
const hasArguments = (parameters: Json | undefined): parameters is JsonObject =>
  isObject(parameters) && Object.keys(parameters).length > 0

const declared: DeclareFunction = ({ name, description }, parameters) => ({
  name: toolName(name),
  ...(description !== undefined && { description }),
  ...(hasArguments(parameters) && { parametersJsonSchema: parameters }),
})
