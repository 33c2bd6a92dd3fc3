/**
 * What a response of an upstream's own leaves unsaid, as Open Responses wants it said: it knows no optional member, and
 * nearly half of the recorded answers, those of older servers of OpenAI's too, leave some out.
 */
import { isObject, type Json, type JsonObject, list, number, object } from '../../core/json.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import { echo, echoTool } from './echo-settings.ts'

/** The response with every member there is; those it has stay, save null where nothing may be null. */
export const withoutGaps = (response: JsonObject, context: AnswerContext): JsonObject => {
  const asked: JsonObject = { ...NOTHING, ...echo(context) }
  const filled: { [name: string]: Json | undefined } = { ...response }
  for (const [name, value] of Object.entries(asked))
    if (response[name] === undefined || (response[name] === null && value !== null && name !== 'reasoning'))
      filled[name] = value
  if (response.status === 'completed' && !response.completed_at)
    filled.completed_at = Math.max(number(response.created_at) ?? 0, context.created)
  if (isObject(response.text)) filled.text = wholeText(response.text, object(asked.text) ?? {})
  const { reasoning } = response
  if (isObject(reasoning) && (reasoning.effort === undefined || reasoning.summary === undefined))
    filled.reasoning = { effort: null, summary: null, ...reasoning }
  if (isObject(response.usage)) filled.usage = wholeUsage(response.usage)
  const tools = list(response.tools)
  if (tools.some(lacksSomething)) filled.tools = tools.map((tool) => (lacksSomething(tool) ? echoTool(tool) : tool))
  return filled
}

const wholeText = (said: JsonObject, asked: JsonObject): JsonObject => {
  const { verbosity, format, ...rest } = said
  // DeepSeek's servers say null of a verbosity nobody asked for, where there is to be a word or nothing.
  if (isObject(format) && verbosity !== null) return said
  return { ...rest, format: format ?? asked.format ?? null, ...(typeof verbosity === 'string' && { verbosity }) }
}

/** Of what is not a repetition of the question. */
const NOTHING: JsonObject = {
  completed_at: null,
  error: null,
  incomplete_details: null,
  output: [],
  usage: null,
}

const lacksSomething = (tool: Json): tool is JsonObject =>
  isObject(tool) &&
  tool.type === 'function' &&
  ['description', 'parameters', 'strict'].some((name) => tool[name] === undefined)

/** The same record where nothing is missing. */
const wholeUsage = (usage: JsonObject): JsonObject => {
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
