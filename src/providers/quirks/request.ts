/** Changes to request bodies, shared by several providers, and functions to combine them. */

import { isObject, type Json, type JsonObject, list, text } from '../../core/json.ts'
import { mapMember, withoutMember } from '../../core/json-edit.ts'
import type { Quirks } from '../../core/provider.ts'

/** A change to a request body, as named in a provider file. */
export type RequestQuirk = NonNullable<Quirks['requestBody']>

/** Applies several changes in sequence. */
export const inOrder =
  (...quirks: readonly RequestQuirk[]): RequestQuirk =>
  (body, model, lost, protocol) =>
    quirks.reduce((changed, quirk) => quirk(changed, model, lost, protocol), body)

/** Limits a change to bodies of one protocol, for vendors that support two. */
export const onlyChat =
  (quirk: RequestQuirk): RequestQuirk =>
  (body, model, lost, protocol) =>
    protocol === 'openai-chat' ? quirk(body, model, lost, protocol) : body

/** Excludes bodies of the responses protocol from a change. */
export const exceptResponses =
  (quirk: RequestQuirk): RequestQuirk =>
  (body, model, lost, protocol) =>
    protocol === 'openai-responses' ? body : quirk(body, model, lost, protocol)

/** Limits a change to bodies of the responses protocol. */
export const onlyResponses =
  (quirk: RequestQuirk): RequestQuirk =>
  (body, model, lost, protocol) =>
    protocol === 'openai-responses' ? quirk(body, model, lost, protocol) : body

/**
 * Uses the older name of the output limit, `max_tokens`, which every server but OpenAI's own reasoning models has always
 * supported. A server that does not know `max_completion_tokens` silently ignores it or refuses it. Mistral's schema and the
 * references of DeepSeek, Together, Perplexity and Cohere have only the older name. Ollama's compatible endpoint reads only
 * the older name.
 */
const olderTokenLimit: RequestQuirk = (body) => {
  const limit = body.max_completion_tokens
  if (limit === undefined) return body
  const rest = withoutMember(body, 'max_completion_tokens')
  return limit === null ? rest : { ...rest, max_tokens: limit }
}

/**
 * Replaces `developer`, OpenAI's newer name of the role, by `system`. Servers with chat templates know the template's roles only
 * (Qwen's raises an error for others), and DeepSeek answers 422 (public threads: "unknown variant `developer`").
 */
export const developerAsSystem =
  (member: 'messages' | 'input'): RequestQuirk =>
  (body) =>
    mapMember(body, member, (item) =>
      isObject(item) && item.role === 'developer' ? { ...item, role: 'system' } : item,
    )

const systemMessages = developerAsSystem('messages')

/** Changes for servers that support chat completions as of 2023. */
export const olderChat: RequestQuirk = onlyChat(inOrder(olderTokenLimit, systemMessages))

/** The same for an unknown server: it may be a relay to newer OpenAI models, which support only the newer limit. */
export const olderChatUnlessOpenai: RequestQuirk = onlyChat((body, model, lost, protocol) =>
  systemMessages(
    COUNTS_HIDDEN.test(bare(model)) ? body : olderTokenLimit(body, model, lost, protocol),
    model,
    lost,
    protocol,
  ),
)

/** Whether a setting has no effect: absent, null, false, or the common default. */
const isNeutral = (value: Json | undefined, usual: Json): boolean =>
  value === undefined || value === null || value === usual

/** The o-series, and GPT-5 before 5.1, in all sizes; not the chat and search variants, which sample as usual. */
const ALWAYS_REASONS = /^(?:o[1-9](?:-|$)|gpt-5(?:-(?!chat|search)|$))/
/** GPT-5.1 and later support effort `none`; the earlier ones of them use it by default. */
const MAY_REASON = /^gpt-(?:5\.[1-9]|[6-9])/
/** Models that count reasoning tokens in the output limit. They support `max_completion_tokens` only. */
const COUNTS_HIDDEN = /^(?:o[1-9](?:-|$)|gpt-(?:5|[6-9]))/

/**
 * OpenAI models that return encrypted reasoning when a request includes `reasoning.encrypted_content`. Models that do not
 * reason, and the chat variants, answer 400 "Encrypted content is not supported with this model."
 * (pydantic/pydantic-ai#2865, 2025-09-11; #3326, 2025-11-04). Recorded with 200: o4-mini, gpt-5 to gpt-5.6.
 */
export const encryptedReasoningModels = /(?:^|[/.])(?:o[134](?:-|$)|gpt-(?:5|[6-9])(?![^/]*-(?:chat|search)))/i

const bare = (model: string): string => model.slice(model.lastIndexOf('/') + 1).toLowerCase()

/** Sampling settings with their neutral values. */
const SAMPLING: { readonly [member: string]: Json } = {
  temperature: 1,
  top_p: 1,
  presence_penalty: 0,
  frequency_penalty: 0,
  logprobs: false,
  top_logprobs: 0,
}

/**
 * Refuses `parallel_tool_calls` in chat completions (github.com/UKGovernmentBEIS/inspect_ai/issues/1460, 2025-03-11;
 * github.com/langchain-ai/langchain/issues/29704).
 */
const O_SERIES = /^o[1-9](?:-|$)/

/**
 * OpenAI's reasoning models answer 400 to unsupported settings: `max_tokens` (recording
 * openai-chat-chat-bad-request-20cae3bd), `stop` (openai-chat-openai-gpt-5-mini-completions-0e3d59b0,
 * openai-chat-test-llm-call-when-stop-is-unsupported-when-addi-1e62bbf8) and, while they reason, sampling
 * (OpenAI's guide to GPT-5.2: temperature, top_p and logprobs only with effort `none`). The limit is renamed, so nothing is
 * lost; the others are removed and reported as dropped. `logit_bias`: github.com/langchain4j/langchain4j/issues/3258, 2025-06-25.
 */
export const reasoningModels: RequestQuirk = (body, model, lost, protocol) => {
  const name = bare(model)
  let changed = body
  if (protocol === 'openai-chat' && COUNTS_HIDDEN.test(name) && body.max_tokens !== undefined) {
    const limit = body.max_completion_tokens ?? body.max_tokens
    changed = { ...withoutMember(body, 'max_tokens'), ...(limit !== null && { max_completion_tokens: limit }) }
  }
  const always = ALWAYS_REASONS.test(name)
  if (!always && !(MAY_REASON.test(name) && asksToReason(body))) return changed
  const refused = Object.keys(SAMPLING).filter((member) => !isNeutral(changed[member], SAMPLING[member] ?? null))
  // An empty list of stop sequences is accepted (a recorded o3-mini answered 200).
  if (always && protocol === 'openai-chat' && list(changed.stop).length + (text(changed.stop) ?? '').length > 0)
    refused.push('stop')
  if (always && isObject(changed.logit_bias) && Object.keys(changed.logit_bias).length > 0) refused.push('logit_bias')
  for (const member of refused) lost(member)
  if (protocol !== 'openai-chat' || !O_SERIES.test(name)) return withoutMember(changed, ...refused)
  // These models make one call at a time, so only the request for it is reported.
  if (changed.parallel_tool_calls === false) lost('parallel_tool_calls')
  return withoutMember(changed, ...refused, 'parallel_tool_calls')
}

const asksToReason = (body: JsonObject): boolean => {
  const effort = text(body.reasoning_effort) ?? (isObject(body.reasoning) ? text(body.reasoning.effort) : undefined)
  return effort !== undefined && effort !== 'none'
}
