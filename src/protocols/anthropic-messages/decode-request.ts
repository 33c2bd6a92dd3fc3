import type {
  ChatRequest,
  Effort,
  Extra,
  GenerationSettings,
  OutputFormat,
  Setting,
  Tool,
  ToolChoice,
} from '../../core/chat.ts'
import { bad, good, type Outcome } from '../../core/failure.ts'
import { isList, isObject, type Json, type JsonObject } from '../../core/json.ts'
import { decodeMessage, decodeSystem } from '../client-parts/message-blocks.ts'
import { isStrict } from '../shared/claude-schema.ts'
import { DEFAULT_EFFORT } from '../shared/effort.ts'
import { isFreeChoice, isHostedTool } from '../shared/hosted-tools.ts'
import { type Problems, type RequestFields, requestedModel, requestFields } from '../shared/request-fields.ts'
import { presentSettings, settingAt } from '../shared/setting-decoders.ts'
import { DEFAULT_FORMAT_NAME } from '../shared/setting-encoders.ts'

/**
 * Members whose loss changes the meaning of the request: tools, files, the regions that may process data, and checks of the answer.
 * Claude Code sends `safeguards` in its auto mode; after a 400 that names it, it makes these checks itself.
 */
const ESSENTIAL = new Set(['mcp_servers', 'container', 'inference_geo', 'safeguards'])

/** Decodes a messages request. The failure names the path of the first problem. */
export const decodeRequest = (body: JsonObject): Outcome<ChatRequest> => {
  const problems: Problems = {}
  const fields = requestFields(body, '', problems)
  const model = requestedModel(fields)
  if (!fields.has('max_tokens')) fields.missing('max_tokens', 'the longest answer in tokens')
  const list = fields.list('messages')
  if (!list) fields.missing('messages', 'a list of messages')
  else if (list.length === 0) fields.invalid('messages', 'a list with at least one message')
  const system = decodeSystem(fields, problems)
  const answered = (list ?? []).findLastIndex((message) => isObject(message) && message.role === 'assistant')
  const messages = (list ?? []).flatMap((message, index) => decodeMessage(message, index, { problems, answered }))
  const isFree = isFreeChoice(fields.any('tool_choice'))
  const tools = (fields.list('tools') ?? [])
    .flatMap((tool, index) => decodeTool(tool, `tools[${index}]`, problems))
    .map((tool) => (isFree ? markSpare(tool) : tool))
  const { settings, extras } = decodeSettings(fields)
  const stream = fields.flag('stream') ?? false
  // Must be the last read: it returns the members not read before.
  const rest = fields
    .unread((name) => ESSENTIAL.has(name))
    .filter(isEffective)
    .map((extra): Extra => (isFree && extra.name === 'mcp_servers' ? { ...extra, optional: true } : extra))
  if (problems.first) return bad(problems.first)
  return good({
    model,
    stream,
    messages: [...system, ...messages],
    tools,
    settings,
    extras: [...extras, ...rest],
    ...(problems.reshaped && { reshaped: true }),
  })
}

/** Marks a hosted tool as optional. */
const markSpare = (tool: Tool): Tool =>
  tool.kind === 'foreign' && isHostedTool(tool.raw) ? { ...tool, optional: true } : tool

/** An empty list (`mcp_servers: []`) has no effect. */
const isEffective = ({ value }: Extra): boolean => !isList(value) || value.length > 0

const decodeSettings = (fields: RequestFields): { settings: GenerationSettings; extras: readonly Extra[] } => {
  const metadata = fields.fields('metadata')
  const choice = fields.fields('tool_choice')
  const config = fields.fields('output_config')
  const thinking = decodeThinking(fields)
  const effort = config?.string('effort')
  const unknown: Extra[] = []
  if (effort !== undefined && effort !== DEFAULT_EFFORT && !isEffort(effort))
    unknown.push({ at: 'output_config.effort', name: 'effort', value: effort, essential: false })
  const toolChoice = choice && decodeToolChoice(choice)
  if (choice && !toolChoice)
    unknown.push({
      at: 'tool_choice',
      name: 'tool_choice',
      value: fields.object('tool_choice') ?? null,
      essential: true,
    })
  const format = decodeFormat(config, 'format') ?? decodeFormat(fields, 'output_format')
  const isSerial = choice?.flag('disable_parallel_tool_use')
  const sequences = fields.list('stop_sequences') ?? []
  const stop = sequences.filter((sequence) => typeof sequence === 'string')
  if (stop.length < sequences.length) fields.invalid('stop_sequences', 'a list of strings')
  const tier = fields.string('service_tier')
  const settings = presentSettings({
    maxOutputTokens: settingAt('max_tokens', fields.number('max_tokens', { least: 0, whole: true })),
    temperature: settingAt('temperature', fields.number('temperature', { least: 0, most: 1 })),
    topP: settingAt('top_p', fields.number('top_p', { least: 0, most: 1 })),
    topK: settingAt('top_k', fields.number('top_k', { least: 0, whole: true })),
    stop: settingAt('stop_sequences', stop.length > 0 ? stop : undefined),
    user: settingAt('metadata.user_id', metadata?.string('user_id')),
    toolChoice: settingAt('tool_choice', toolChoice),
    parallelToolCalls: settingAt(
      'tool_choice.disable_parallel_tool_use',
      isSerial === undefined ? undefined : !isSerial,
    ),
    effort: settingAt('output_config.effort', effort !== undefined && isEffort(effort) ? effort : undefined),
    format,
    // Other formats call the standard capacity `default`.
    serviceTier: settingAt('service_tier', tier === 'standard_only' ? 'default' : tier),
    ...thinking.settings,
  })
  const rest = [metadata, choice, config].flatMap((inner) => inner?.unread() ?? [])
  return { settings, extras: [...thinking.extras, ...unknown, ...rest] }
}

/** Includes efforts that only other formats have, as clients send them here too. */
const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const satisfies Effort[]
const isEffort = (name: string): name is Effort => EFFORTS.some((effort) => effort === name)

/** A budget becomes a setting. `adaptive` has no setting and becomes an extra: reasoning models think by default. */
const decodeThinking = (fields: RequestFields): { settings: GenerationSettings; extras: readonly Extra[] } => {
  const raw = fields.object('thinking')
  const thinking = fields.fields('thinking')
  if (!raw || !thinking) return { settings: {}, extras: [] }
  const type = thinking.string('type')
  const budget = thinking.number('budget_tokens', { least: 1, whole: true })
  const display = thinking.string('display')
  const reasoningSummary = settingAt('thinking.display', display === 'summarized' ? 'auto' : undefined)
  const asExtra = (at: string): Extra => ({ at, name: 'thinking', value: raw, essential: false })
  switch (type) {
    case 'disabled':
      return { settings: { thinkingBudget: { value: 0, at: 'thinking' } }, extras: thinking.unread() }
    case 'enabled':
      if (budget === undefined) thinking.missing('budget_tokens', 'the number of tokens to think with')
      return {
        settings: presentSettings({
          thinkingBudget: settingAt('thinking.budget_tokens', budget),
          reasoningSummary,
        }),
        extras: [...(display === 'omitted' ? [asExtra('thinking.display')] : []), ...thinking.unread()],
      }
    case 'adaptive':
      return {
        settings: presentSettings({ reasoningSummary }),
        extras: [asExtra('thinking'), ...thinking.unread()],
      }
    case undefined:
      if (!thinking.has('type')) thinking.missing('type', 'enabled, adaptive or disabled')
      return { settings: {}, extras: [] }
    default:
      return { settings: {}, extras: [asExtra('thinking'), ...thinking.unread()] }
  }
}

const decodeFormat = (fields: RequestFields | undefined, name: string): Setting<OutputFormat> | undefined => {
  const format = fields?.fields(name)
  if (!format) return undefined
  const type = format.string('type')
  if (type !== 'json_schema') format.invalid('type', 'json_schema')
  const schema = format.object('schema')
  if (!schema) format.missing('schema', 'a JSON Schema')
  if (!schema) return undefined
  const title = typeof schema.title === 'string' ? schema.title.replace(/[^a-zA-Z0-9_-]/g, '_').slice(0, 64) : ''
  return {
    at: format.at,
    // This format always enforces the schema. Elsewhere `strict` also makes every member required.
    value: { kind: 'schema', name: title || DEFAULT_FORMAT_NAME, schema, ...(isStrict(schema) && { strict: true }) },
  }
}

const decodeToolChoice = (choice: RequestFields): ToolChoice | undefined => {
  switch (choice.string('type')) {
    case 'auto':
      return { kind: 'auto' }
    case 'any':
      return { kind: 'required' }
    case 'none':
      return { kind: 'none' }
    case 'tool': {
      const name = choice.string('name')
      if (!name) choice.missing('name', 'the name of a tool')
      return { kind: 'tool', name: name ?? '' }
    }
    case undefined:
      if (!choice.has('type')) choice.missing('type', 'auto, any, tool or none')
      return undefined
    default:
      return undefined
  }
}

/** Marks `allowed_callers` as essential if the model may not call the tool directly. */
const isEssentialToolMember = (name: string, value: Json): boolean =>
  name === 'allowed_callers' && isList(value) && !value.includes('direct')

/** The kind of a tool and the object with its members: the OpenAI formats have functions, chat completions nest them. */
const toolShape = (tool: RequestFields, value: Json, problems: Problems) => {
  const type = tool.string('type')
  if (type !== 'function' || !isObject(value)) return { type, fields: tool }
  problems.reshaped = true
  return { type: 'custom', fields: (isObject(value.function) && tool.fields('function')) || tool }
}

const decodeTool = (tool: Json, at: string, problems: Problems): Tool[] => {
  const outer = requestFields(isObject(tool) ? tool : {}, at, problems)
  const { type, fields } = toolShape(outer, tool, problems)
  // Tools of other types are specific to Anthropic: hosted tools, and tools that only its models are trained on.
  if (isObject(tool) && type !== undefined && type !== 'custom')
    return [{ kind: 'foreign', at, protocol: 'anthropic-messages', raw: tool }]
  const name = fields.string('name')
  if (!name) fields.missing('name', 'the name of the tool')
  const description = fields.string('description')
  const parameters = fields.object('input_schema') ?? fields.object('parameters')
  if (!parameters) fields.missing('input_schema', 'a JSON Schema')
  const strict = fields.flag('strict') ?? false
  const extras = fields.unread(isEssentialToolMember)
  return [
    {
      kind: 'function',
      at,
      name: name ?? '',
      ...(description !== undefined && { description }),
      ...(parameters && { parameters }),
      strict,
      ...(extras.length > 0 && { extras }),
    },
  ]
}
