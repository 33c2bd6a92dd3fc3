/**
 * Adds the members that Open Responses requires and an upstream's response lacks. Open Responses has no optional members;
 * nearly half of the recorded answers lack some, also those of older OpenAI servers.
 */
import { isObject, type Json, type JsonObject, list, number, object } from '../../core/json.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import { echo, echoTool } from './echo-settings.ts'

/** The response with every required member. Existing members stay, except null where null is not allowed. */
export const withRequiredMembers = (response: JsonObject, context: AnswerContext): JsonObject => {
  const defaults: JsonObject = { ...EMPTY_RESPONSE, ...echo(context) }
  const filled: { [name: string]: Json | undefined } = { ...response }
  for (const [name, value] of Object.entries(defaults))
    if (response[name] === undefined || (response[name] === null && value !== null && name !== 'reasoning'))
      filled[name] = value
  if (response.status === 'completed' && !response.completed_at)
    filled.completed_at = Math.max(number(response.created_at) ?? 0, context.created)
  if (isObject(response.text)) filled.text = completeText(response.text, object(defaults.text) ?? {})
  const { reasoning } = response
  if (isObject(reasoning) && (reasoning.effort === undefined || reasoning.summary === undefined))
    filled.reasoning = { effort: null, summary: null, ...reasoning }
  if (isObject(response.usage)) filled.usage = completeUsage(response.usage)
  const tools = list(response.tools)
  if (tools.some(isIncompleteTool)) filled.tools = tools.map((tool) => (isIncompleteTool(tool) ? echoTool(tool) : tool))
  return filled
}

const completeText = (given: JsonObject, defaults: JsonObject): JsonObject => {
  const { verbosity, format, ...rest } = given
  // DeepSeek's servers return `verbosity: null`, which the format does not allow.
  if (isObject(format) && verbosity !== null) return given
  return { ...rest, format: format ?? defaults.format ?? null, ...(typeof verbosity === 'string' && { verbosity }) }
}

/** Defaults of the members that do not repeat the request. */
const EMPTY_RESPONSE: JsonObject = {
  completed_at: null,
  error: null,
  incomplete_details: null,
  output: [],
  usage: null,
}

const isIncompleteTool = (tool: Json): tool is JsonObject =>
  isObject(tool) &&
  tool.type === 'function' &&
  ['description', 'parameters', 'strict'].some((name) => tool[name] === undefined)

/** Usage with all members; the same object if none is missing. */
const completeUsage = (usage: JsonObject): JsonObject => {
  const input = object(usage.input_tokens_details)
  const output = object(usage.output_tokens_details)
  const cached = number(input?.cached_tokens)
  const reasoning = number(output?.reasoning_tokens)
  const total = number(usage.total_tokens)
  if (cached !== undefined && reasoning !== undefined && total !== undefined) return usage
  return {
    ...usage,
    total_tokens: total ?? (number(usage.input_tokens) ?? 0) + (number(usage.output_tokens) ?? 0),
    input_tokens_details: { ...input, cached_tokens: cached ?? 0 },
    output_tokens_details: { ...output, reasoning_tokens: reasoning ?? 0 },
  }
}
