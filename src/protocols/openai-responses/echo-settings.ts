import { isObject, type Json, type JsonObject, list, number, object, text } from '../../core/json.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import { openaiTier } from '../shared/service-tiers.ts'

/**
 * The members of a response that repeat the request. Open Responses requires all of them in every answer, most of them not
 * null; members missing in the request get their defaults.
 */
export const echo = ({ body, storage }: AnswerContext): JsonObject => {
  const reasoning = object(body.reasoning)
  const format = object(object(body.text)?.format)
  const verbosity = text(object(body.text)?.verbosity)
  const tier = openaiTier(text(body.service_tier))
  return {
    previous_response_id: storage ? storage.previous : (text(body.previous_response_id) ?? null),
    instructions: text(body.instructions) ?? null,
    tools: list(body.tools).filter(isObject).map(echoTool),
    tool_choice: body.tool_choice ?? 'auto',
    truncation: body.truncation === 'auto' ? 'auto' : 'disabled',
    parallel_tool_calls: body.parallel_tool_calls !== false,
    text: { format: format ? echoFormat(format) : { type: 'text' }, ...(verbosity !== undefined && { verbosity }) },
    top_p: number(body.top_p) ?? 1,
    presence_penalty: number(body.presence_penalty) ?? 0,
    frequency_penalty: number(body.frequency_penalty) ?? 0,
    top_logprobs: number(body.top_logprobs) ?? 0,
    temperature: number(body.temperature) ?? 1,
    reasoning: { effort: text(reasoning?.effort) ?? null, summary: text(reasoning?.summary) ?? null },
    max_output_tokens: number(body.max_output_tokens) ?? null,
    max_tool_calls: number(body.max_tool_calls) ?? null,
    // Without storage in the gateway, the upstream may store the response if the client requested it.
    store: storage ? storage.store : body.store === true,
    background: storage?.background ?? false,
    // The upstream decides about `auto`; the tier that it used replaces this one.
    service_tier: tier === undefined || tier === 'auto' ? 'default' : tier,
    metadata: object(body.metadata) ?? {},
    safety_identifier: text(body.safety_identifier) ?? null,
    prompt_cache_key: text(body.prompt_cache_key) ?? null,
  }
}

/** A tool as repeated in a response, where a function has every member. */
export const echoTool = (tool: JsonObject): JsonObject =>
  tool.type === 'function'
    ? {
        ...tool,
        description: tool.description ?? null,
        parameters: tool.parameters ?? null,
        strict: tool.strict ?? true,
      }
    : tool

const echoFormat = (format: JsonObject): Json =>
  format.type === 'json_schema'
    ? { ...format, description: format.description ?? null, strict: format.strict ?? true }
    : format
