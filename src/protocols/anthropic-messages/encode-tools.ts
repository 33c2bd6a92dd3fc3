/** The tools a model may call, and how freely. */
import type { ChatRequest, Setting, Tool, ToolChoice } from '../../core/chat.ts'
import { isList, isObject, type Json, type JsonObject } from '../../core/json.ts'
import { freeInput } from '../arguments.ts'
import type { Losses } from '../losses.ts'
import { carried } from './encode-messages.ts'
import { toolName } from './ids.ts'
import { fitSchema, isClosed } from './schema.ts'

export type EncodedTools = {
  readonly tools: readonly JsonObject[]
  readonly choice?: JsonObject
  /** The model has to call a tool, which cannot be asked for together with thinking. */
  readonly forced: boolean
}

export const encodeTools = ({ tools, settings }: ChatRequest, losses: Losses): EncodedTools => {
  const { toolChoice, parallelToolCalls } = settings
  const encoded = permitted(tools, toolChoice?.value).flatMap((tool) => encodeTool(tool, losses))
  if (encoded.length === 0) {
    // A choice among no tools is refused here. Only a call that had to be made is a loss.
    if (toolChoice && toolChoice.value.kind !== 'auto' && toolChoice.value.kind !== 'none') losses.lose(toolChoice.at)
    return { tools: [], forced: false }
  }
  const choice = encodeChoice(toolChoice, parallelToolCalls?.value === false)
  return { tools: encoded, ...(choice && { choice }), forced: choice?.type === 'any' || choice?.type === 'tool' }
}

/** There is no list of allowed tools here; sending only those says the same. */
const permitted = (tools: readonly Tool[], choice: ToolChoice | undefined): readonly Tool[] => {
  if (choice?.kind !== 'allowed') return tools
  const names = new Set(choice.names)
  return tools.filter((tool) => tool.kind !== 'foreign' && names.has(tool.name))
}

const encodeChoice = (choice: Setting<ToolChoice> | undefined, oneAtATime: boolean): JsonObject | undefined => {
  // Carried by the choice, so there has to be one.
  const single = oneAtATime ? { disable_parallel_tool_use: true } : {}
  if (!choice) return oneAtATime ? { type: 'auto', ...single } : undefined
  const { value } = choice
  switch (value.kind) {
    case 'none':
      return { type: 'none' }
    case 'auto':
      return { type: 'auto', ...single }
    case 'required':
      return { type: 'any', ...single }
    case 'tool':
      return { type: 'tool', name: toolName(value.name), ...single }
    case 'allowed':
      return { type: value.mode === 'required' ? 'any' : 'auto', ...single }
    default:
      throw new Error(`unknown choice ${JSON.stringify(value satisfies never)}`)
  }
}

const encodeTool = (tool: Tool, losses: Losses): JsonObject[] => {
  switch (tool.kind) {
    case 'function':
      return encodeFunction(tool, losses)
    case 'custom':
      return [encodeCustom(tool, losses)]
    case 'foreign':
      if (tool.protocol === 'anthropic-messages') return [tool.raw]
      losses.unfit(tool.at)
      return []
    default:
      throw new Error(`unknown tool ${JSON.stringify(tool satisfies never)}`)
  }
}

const EXTRAS = {
  cache_control: (value: Json) => isObject(value) && value.type === 'ephemeral',
  eager_input_streaming: (value: Json) => typeof value === 'boolean',
  defer_loading: (value: Json) => typeof value === 'boolean',
  allowed_callers: isList,
  input_examples: isList,
}

const encodeFunction = (tool: Tool & { kind: 'function' }, losses: Losses): JsonObject[] => {
  const schema = inputSchema(tool.parameters)
  if (!schema) {
    losses.unfit(tool.at)
    return []
  }
  return [
    {
      name: toolName(tool.name),
      ...(tool.description !== undefined && { description: tool.description }),
      input_schema: schema,
      ...(tool.strict && strictly(tool, schema, losses)),
      ...carried(tool.extras, EXTRAS, losses),
    },
  ]
}

/**
 * An object at the top, and no choice of shapes there: "input_schema does not support oneOf, allOf, or anyOf at the top
 * level". Undefined where that cannot be had without changing what the tool takes.
 */
const inputSchema = (parameters: Json | undefined): JsonObject | undefined => {
  if (parameters === undefined || parameters === null) return { type: 'object', properties: {} }
  if (!isObject(parameters) || parameters.anyOf || parameters.oneOf || parameters.allOf) return undefined
  const { type } = parameters
  const objects = type === undefined || type === 'object' || (isList(type) && type.includes('object'))
  if (!objects || (parameters.properties !== undefined && !isObject(parameters.properties))) return undefined
  return type === 'object' ? parameters : { ...parameters, type: 'object' }
}

/**
 * `strict` holds a model to the schema, here as elsewhere, but the schema may then use fewer words. A schema with open
 * objects was not enforced by the other formats either, so nothing is lost; one with bounds was.
 */
const strictly = (tool: Tool & { kind: 'function' }, schema: JsonObject, losses: Losses): JsonObject => {
  if (!isClosed(schema)) return {}
  const { described, impossible } = fitSchema(schema)
  if (described.length + impossible.length === 0) return { strict: true }
  losses.lose(`${tool.at}.strict`)
  return {}
}

/** Free-form input becomes an object with one text; `restore` takes it out of the answer again. */
const encodeCustom = (tool: Tool & { kind: 'custom' }, losses: Losses): JsonObject => {
  const { at, name, description, format } = tool
  const grammar = isObject(format) && format.type === 'grammar' ? format : undefined
  if (grammar) losses.lose(`${at}.format`)
  return {
    name: toolName(name),
    ...(description !== undefined && { description }),
    input_schema: { ...freeInput(grammar), additionalProperties: false },
  }
}
