/** Tools and tool choice. */
import type { ChatRequest, Tool, ToolChoice } from '../../core/chat.ts'
import type { JsonObject } from '../../core/json.ts'
import { fitSchema, hasTopLevelUnion, isClosed, objectSchema } from '../shared/claude-schema.ts'
import type { Losses } from '../shared/losses.ts'
import { freeInputSchema } from '../shared/tool-arguments.ts'
import { cachePoints } from './encode-messages.ts'
import type { ConverseModelFamily } from './family.ts'
import { toolName } from './ids.ts'

/** The `toolConfig` of a request. */
export type ConverseTools = {
  /** Absent: no tool may be called, and none was. */
  readonly config?: JsonObject
  /** The model must call a tool, which excludes thinking. */
  readonly forced: boolean
}

/** Encodes the tools the model may call. If there are none, declares those of the history. */
export const encodeTools = (request: ChatRequest, family: ConverseModelFamily, losses: Losses): ConverseTools => {
  const { tools, settings } = request
  const { toolChoice, parallelToolCalls } = settings
  const choice = toolChoice?.value
  // This format has no choice "none", so the tools are omitted.
  if (choice?.kind === 'none') {
    for (const { at } of tools) losses.lose(at)
    return { ...calledTools(request), forced: false }
  }
  const encoded = allowedTools(tools, choice, family).flatMap((tool) => encodeTool(tool, family, losses))
  if (!encoded.some(({ cachePoint }) => cachePoint === undefined)) {
    if (toolChoice && choice?.kind !== 'auto') losses.lose(toolChoice.at)
    return { ...calledTools(request), forced: false }
  }
  if (parallelToolCalls?.value === false) losses.lose(parallelToolCalls.at)
  const encodedChoice = choice && encodeChoice(choice, family)
  return {
    config: { tools: encoded, ...(encodedChoice && { toolChoice: encodedChoice }) },
    forced: encodedChoice?.any !== undefined || encodedChoice?.tool !== undefined,
  }
}

/**
 * The tools that the history calls, with open schemas. Bedrock rejects calls and results in a request without tools ("The
 * toolConfig field must be defined when using toolUse and toolResult content blocks", github.com/pydantic/pydantic-ai/pull/5929).
 * Results as text would put the output of a tool into the user's mouth.
 */
const calledTools = ({ messages }: ChatRequest): Pick<ConverseTools, 'config'> => {
  const names = new Set(
    messages.flatMap(({ content }) =>
      content.flatMap((part) => (part.type === 'tool-call' ? [toolName(part.name)] : [])),
    ),
  )
  // A result without its call, which the client has cut off.
  if (names.size === 0 && messages.some(({ role }) => role === 'tool')) names.add('tool')
  const tools = [...names].map((name) => ({
    toolSpec: { name, description: NOT_AVAILABLE, inputSchema: { json: { type: 'object' } } },
  }))
  return tools.length > 0 ? { config: { tools } } : {}
}

const NOT_AVAILABLE = 'No longer available. Do not call this tool.'

/**
 * Whether the model supports the choice of one tool: "Only supported by Anthropic Claude 3 and Amazon Nova models" (API
 * reference, ToolChoice). Other models get this tool only, and must call a tool.
 */
const supportsNamedChoice = ({ maker }: ConverseModelFamily): boolean =>
  maker === 'anthropic' || maker === 'amazon' || maker === 'unknown'

/** This format has no list of allowed tools, so only the allowed ones are sent. */
const allowedTools = (
  tools: readonly Tool[],
  choice: ToolChoice | undefined,
  family: ConverseModelFamily,
): readonly Tool[] => {
  const named = choice?.kind === 'tool' && !supportsNamedChoice(family) ? [choice.name] : undefined
  const allowed = choice?.kind === 'allowed' ? choice.names : named
  if (!allowed) return tools
  const names = new Set(allowed)
  return tools.filter((tool) => tool.kind !== 'foreign' && names.has(tool.name))
}

const encodeChoice = (choice: ToolChoice, family: ConverseModelFamily): JsonObject => {
  switch (choice.kind) {
    case 'auto':
    case 'none':
      return { auto: {} }
    case 'required':
      return { any: {} }
    case 'tool':
      return supportsNamedChoice(family) ? { tool: { name: toolName(choice.name) } } : { any: {} }
    case 'allowed':
      return choice.mode === 'required' ? { any: {} } : { auto: {} }
    default:
      throw new Error(`unknown choice ${JSON.stringify(choice satisfies never)}`)
  }
}

const encodeTool = (tool: Tool, family: ConverseModelFamily, losses: Losses): JsonObject[] => {
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

const encodeFunction = (
  tool: Tool & { kind: 'function' },
  family: ConverseModelFamily,
  losses: Losses,
): JsonObject[] => {
  // Claude rejects a union at the top level. All models: "The value at
  // toolConfig.tools.0.toolSpec.inputSchema.json.type must be one of the following: object".
  const fits = family.maker !== 'anthropic' || !hasTopLevelUnion(tool.parameters)
  const schema = fits ? objectSchema(tool.parameters) : undefined
  if (!schema) {
    losses.unfit(tool.at)
    return []
  }
  const spec = {
    name: toolName(tool.name),
    ...descriptionMember(tool.description),
    inputSchema: { json: schema },
    ...(tool.strict && strictMember(tool, { schema, family, losses })),
  }
  return [{ toolSpec: spec }, ...cachePoints(tool.extras, { family, losses }, 'tools')]
}

/** Blank descriptions are rejected. */
const descriptionMember = (description: string | undefined): JsonObject =>
  description === undefined || description.trim() === '' ? {} : { description }

/**
 * `strict`, if model and schema support it (recording test-bedrock-mixed-strict-tool-run). No format enforces a schema with
 * open objects, so dropping `strict` there is no loss; with a closed schema it is a loss.
 */
const strictMember = (
  tool: Tool & { kind: 'function' },
  {
    schema,
    family,
    losses,
  }: { readonly schema: JsonObject; readonly family: ConverseModelFamily; readonly losses: Losses },
): JsonObject => {
  if (!isClosed(schema)) return {}
  const { described, impossible } = fitSchema(schema)
  if (family.schemas && family.maker !== 'unknown' && described.length + impossible.length === 0)
    return { strict: true }
  losses.loseMember(tool, 'strict')
  return {}
}

const encodeCustom = (tool: Tool & { kind: 'custom' }, losses: Losses): JsonObject => ({
  toolSpec: {
    name: toolName(tool.name),
    ...descriptionMember(tool.description),
    inputSchema: { json: freeInputSchema(tool, losses) },
  },
})
