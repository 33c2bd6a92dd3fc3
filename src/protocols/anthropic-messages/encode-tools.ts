/** Tools and tool choice. */
import type { ChatRequest, Setting, Tool, ToolChoice } from '../../core/chat.ts'
import { isList, isObject, type Json, type JsonObject } from '../../core/json.ts'
import { fitSchema, hasTopLevelUnion, isClosed, objectSchema } from '../shared/claude-schema.ts'
import type { Losses } from '../shared/losses.ts'
import { allowedTools } from '../shared/setting-encoders.ts'
import { freeInputSchema } from '../shared/tool-arguments.ts'
import { knownExtras } from './encode-messages.ts'
import { toolName } from './ids.ts'

/** The `tools` and `tool_choice` of a request. */
export type MessagesTools = {
  readonly tools: readonly JsonObject[]
  readonly choice?: JsonObject
  /** The model must call a tool, which excludes thinking. */
  readonly forced: boolean
}

/** Encodes the tools the model may call. */
export const encodeTools = ({ tools, settings }: ChatRequest, losses: Losses): MessagesTools => {
  const { toolChoice, parallelToolCalls } = settings
  const encoded = allowedTools(tools, toolChoice?.value).flatMap((tool) => encodeTool(tool, losses))
  if (encoded.length === 0) {
    // Anthropic rejects a tool choice without tools. It is a loss only if a call was required.
    if (toolChoice && toolChoice.value.kind !== 'auto' && toolChoice.value.kind !== 'none') losses.lose(toolChoice.at)
    return { tools: [], forced: false }
  }
  const choice = encodeChoice(toolChoice, parallelToolCalls?.value === false)
  return { tools: encoded, ...(choice && { choice }), forced: choice?.type === 'any' || choice?.type === 'tool' }
}

const encodeChoice = (choice: Setting<ToolChoice> | undefined, isSerial: boolean): JsonObject | undefined => {
  // This member is part of `tool_choice`, so a choice is written even if the client sent none.
  const single = isSerial ? { disable_parallel_tool_use: true } : {}
  if (!choice) return isSerial ? { type: 'auto', ...single } : undefined
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
  const schema = hasTopLevelUnion(tool.parameters) ? undefined : objectSchema(tool.parameters)
  if (!schema) {
    losses.unfit(tool.at)
    return []
  }
  return [
    {
      name: toolName(tool.name),
      ...(tool.description !== undefined && { description: tool.description }),
      input_schema: schema,
      ...(tool.strict && strictMember(tool, schema, losses)),
      ...knownExtras(tool.extras, EXTRAS, losses),
    },
  ]
}

/**
 * `strict` enforces the schema, but supports fewer keywords here than elsewhere. No format enforces a schema with open
 * objects, so dropping `strict` there is no loss; for unsupported keywords it is a loss.
 */
const strictMember = (tool: Tool & { kind: 'function' }, schema: JsonObject, losses: Losses): JsonObject => {
  if (!isClosed(schema)) return {}
  const { described, impossible } = fitSchema(schema)
  if (described.length + impossible.length === 0) return { strict: true }
  losses.loseMember(tool, 'strict')
  return {}
}

const encodeCustom = (tool: Tool & { kind: 'custom' }, losses: Losses): JsonObject => ({
  name: toolName(tool.name),
  ...(tool.description !== undefined && { description: tool.description }),
  input_schema: { ...freeInputSchema(tool, losses), additionalProperties: false },
})
