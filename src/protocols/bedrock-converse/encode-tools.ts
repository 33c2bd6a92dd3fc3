/** The tools a model may call, and how freely. */
import type { ChatRequest, Tool, ToolChoice } from '../../core/chat.ts'
import type { JsonObject } from '../../core/json.ts'
import { fitSchema, hasTopLevelUnion, isClosed, objectSchema } from '../shared/claude-schema.ts'
import type { Losses } from '../shared/losses.ts'
import { freeInputSchema } from '../shared/tool-arguments.ts'
import { points } from './encode-messages.ts'
import type { Family } from './family.ts'
import { toolName } from './ids.ts'

export type EncodedTools = {
  /** `toolConfig`; absent: no tool may be called. */
  readonly config?: JsonObject
  /** The model has to call a tool, which cannot be asked for together with thinking. */
  readonly forced: boolean
}

export const encodeTools = ({ tools, settings }: ChatRequest, family: Family, losses: Losses): EncodedTools => {
  const { toolChoice, parallelToolCalls } = settings
  const choice = toolChoice?.value
  // There is no word for "none" here; without tools none can be called.
  if (choice?.kind === 'none') {
    for (const { at } of tools) losses.lose(at)
    return { forced: false }
  }
  const encoded = permitted(tools, choice, family).flatMap((tool) => encodeTool(tool, family, losses))
  if (!encoded.some(({ cachePoint }) => cachePoint === undefined)) {
    if (toolChoice && choice?.kind !== 'auto') losses.lose(toolChoice.at)
    return { forced: false }
  }
  if (parallelToolCalls?.value === false) losses.lose(parallelToolCalls.at)
  const word = choice && choiceOf(choice, family)
  return {
    config: { tools: encoded, ...(word && { toolChoice: word }) },
    forced: word?.any !== undefined || word?.tool !== undefined,
  }
}

/**
 * "Only supported by Anthropic Claude 3 and Amazon Nova models" (its document on ToolChoice). For the others, having to
 * call a tool and being offered only this one says the same.
 */
const namesOne = ({ maker }: Family): boolean => maker === 'anthropic' || maker === 'amazon' || maker === 'unknown'

/** There is no list of allowed tools here either; sending only those says the same. */
const permitted = (tools: readonly Tool[], choice: ToolChoice | undefined, family: Family): readonly Tool[] => {
  const only = choice?.kind === 'tool' && !namesOne(family) ? [choice.name] : undefined
  const allowed = choice?.kind === 'allowed' ? choice.names : only
  if (!allowed) return tools
  const names = new Set(allowed)
  return tools.filter((tool) => tool.kind !== 'foreign' && names.has(tool.name))
}

const choiceOf = (choice: ToolChoice, family: Family): JsonObject => {
  switch (choice.kind) {
    case 'auto':
    case 'none':
      return { auto: {} }
    case 'required':
      return { any: {} }
    case 'tool':
      return namesOne(family) ? { tool: { name: toolName(choice.name) } } : { any: {} }
    case 'allowed':
      return choice.mode === 'required' ? { any: {} } : { auto: {} }
    default:
      throw new Error(`unknown choice ${JSON.stringify(choice satisfies never)}`)
  }
}

const encodeTool = (tool: Tool, family: Family, losses: Losses): JsonObject[] => {
  switch (tool.kind) {
    case 'function':
      return encodeFunction(tool, family, losses)
    case 'custom':
      return [encodeCustom(tool, losses)]
    case 'foreign':
      if (tool.protocol === 'bedrock-converse') return [tool.raw]
      losses.unfit(tool.at)
      return []
    default:
      throw new Error(`unknown tool ${JSON.stringify(tool satisfies never)}`)
  }
}

const encodeFunction = (tool: Tool & { kind: 'function' }, family: Family, losses: Losses): JsonObject[] => {
  // Claude takes no choice of shapes at the top, here as at its maker's. For all of them: "The value at
  // toolConfig.tools.0.toolSpec.inputSchema.json.type must be one of the following: object".
  const fits = family.maker !== 'anthropic' || !hasTopLevelUnion(tool.parameters)
  const schema = fits ? objectSchema(tool.parameters) : undefined
  if (!schema) {
    losses.unfit(tool.at)
    return []
  }
  const spec = {
    name: toolName(tool.name),
    ...described(tool.description),
    inputSchema: { json: schema },
    ...(tool.strict && strictly(tool, schema, family, losses)),
  }
  return [{ toolSpec: spec }, ...points(tool.extras, { family, losses }, 'tools')]
}

/** A description without words is refused. */
const described = (description: string | undefined): JsonObject =>
  description === undefined || description.trim() === '' ? {} : { description }

/**
 * `strict` holds a model to the schema, where model and schema allow it (recording test-bedrock-mixed-strict-tool-run). A
 * schema with open objects was not enforced by the other formats either, so nothing is lost; a closed one was.
 */
const strictly = (
  tool: Tool & { kind: 'function' },
  schema: JsonObject,
  family: Family,
  losses: Losses,
): JsonObject => {
  if (!isClosed(schema)) return {}
  const { described: loose, impossible } = fitSchema(schema)
  if (family.schemas && family.maker !== 'unknown' && loose.length + impossible.length === 0) return { strict: true }
  losses.loseMember(tool, 'strict')
  return {}
}

const encodeCustom = (tool: Tool & { kind: 'custom' }, losses: Losses): JsonObject => ({
  toolSpec: {
    name: toolName(tool.name),
    ...described(tool.description),
    inputSchema: { json: freeInputSchema(tool, losses) },
  },
})
