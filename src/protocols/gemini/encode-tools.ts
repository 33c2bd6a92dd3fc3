/** Tools and tool choice. */
import type { ChatRequest, Tool, ToolChoice } from '../../core/chat.ts'
import { isObject, type Json, type JsonObject } from '../../core/json.ts'
import type { Losses } from '../shared/losses.ts'
import { allowedTools, type DeclareFunction, toolsAsFunctions } from '../shared/setting-encoders.ts'
import { allowsStrict } from '../shared/strict-schema.ts'
import { toolName } from './ids.ts'

/** The `tools` and `toolConfig` of a request. */
export type GeminiTools = { readonly tools: readonly JsonObject[]; readonly config?: JsonObject }

/** Encodes the tools the model may call. */
export const encodeTools = ({ tools, settings }: ChatRequest, losses: Losses): GeminiTools => {
  const { toolChoice, parallelToolCalls } = settings
  const choice = toolChoice?.value
  // `allowedFunctionNames` requires a call, so for an optional call only the allowed tools are sent.
  const offered = choice?.kind === 'allowed' && choice.mode === 'auto' ? allowedTools(tools, choice) : tools
  const functions = toolsAsFunctions(offered, declareFunction, losses)
  const strict = offered.some(isStrict)
  // Without a choice and without strict tools the default applies.
  const config = choice || strict ? encodeChoice(choice ?? { kind: 'auto' }, strict) : undefined
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

/** Whether a tool must enforce its schema. Other formats do not enforce open objects either. */
const isStrict = (tool: Tool): boolean =>
  tool.kind === 'function' && tool.strict === true && hasArguments(tool.parameters) && allowsStrict(tool.parameters)

/** Required calls always follow their schemas; for optional calls the mode `VALIDATED` enforces them, for all tools. */
const encodeChoice = (choice: ToolChoice, strict: boolean): JsonObject => {
  const optional = { mode: strict ? 'VALIDATED' : 'AUTO' }
  switch (choice.kind) {
    case 'auto':
      return optional
    case 'none':
      return { mode: 'NONE' }
    case 'required':
      return { mode: 'ANY' }
    case 'tool':
      return { mode: 'ANY', allowedFunctionNames: [toolName(choice.name)] }
    case 'allowed':
      return choice.mode === 'required' ? { mode: 'ANY', allowedFunctionNames: choice.names.map(toolName) } : optional
    default:
      throw new Error(`unknown choice ${JSON.stringify(choice satisfies never)}`)
  }
}

/** A function without arguments has no schema: older models reject an empty one. */
const hasArguments = (parameters: Json | undefined): parameters is JsonObject =>
  isObject(parameters) && Object.keys(parameters).length > 0

const declareFunction: DeclareFunction = ({ name, description }, parameters) => ({
  name: toolName(name),
  ...(description !== undefined && { description }),
  ...(hasArguments(parameters) && { parametersJsonSchema: parameters }),
})
