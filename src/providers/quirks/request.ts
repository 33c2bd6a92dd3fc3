/** Changes to request bodies that several vendors need, and what they are put together with. */
import { mapped, without } from '../../core/bodies.ts'
import { isObject, type Json, type JsonObject, list, text } from '../../core/json.ts'
import type { Quirks } from '../../core/provider.ts'

/** A change to a request body, as a provider names it. */
export type RequestQuirk = NonNullable<Quirks['requestBody']>

/** Several changes, one after another. */
export const inOrder =
  (...quirks: readonly RequestQuirk[]): RequestQuirk =>
  (body, model, lost, protocol) =>
    quirks.reduce((changed, quirk) => quirk(changed, model, lost, protocol), body)

/** Only for bodies of one format: a vendor that speaks two needs its changes in one. */
export const onlyChat =
  (quirk: RequestQuirk): RequestQuirk =>
  (body, model, lost, protocol) =>
    protocol === 'openai-chat' ? quirk(body, model, lost, protocol) : body

/** Only for bodies of the responses format. */
export const onlyResponses =
  (quirk: RequestQuirk): RequestQuirk =>
  (body, model, lost, protocol) =>
    protocol === 'openai-responses' ? quirk(body, model, lost, protocol) : body

/**
 * The older name of the output limit. `max_tokens` is what every server but OpenAI's own reasoning models has
 * understood from the beginning; a server that does not know `max_completion_tokens` ignores it (the limit is lost
 * without a word) or refuses it: Mistral's schema has only the older one, so have DeepSeek's, Together's,
 * Perplexity's and Cohere's references, and Ollama's compatible endpoint reads only that.
 */
const olderTokenLimit: RequestQuirk = (body) => {
  const limit = body.max_completion_tokens
  if (limit === undefined) return body
  const rest = without(body, 'max_completion_tokens')
  return limit === null ? rest : { ...rest, max_tokens: limit }
}

/**
 * `developer` is OpenAI's newer word for `system`. Servers that fill a chat template know the roles of the template
 * (Qwen's raises an error for any other), and DeepSeek answers 422 (public threads: "unknown variant `developer`").
 */
export const developerAsSystem: RequestQuirk = (body) => {
  const messages = list(body.messages)
  const now = mapped(messages, (message) =>
    isObject(message) && message.role === 'developer' ? { ...message, role: 'system' } : message,
  )
  return now === messages ? body : { ...body, messages: now }
}

/** What servers of chat completions as they were in 2023 need. */
export const olderChat: RequestQuirk = onlyChat(inOrder(olderTokenLimit, developerAsSystem))

/** The same for an unknown server: it may be a relay to OpenAI's newer models, which know the newer limit only. */
export const olderChatUnlessOpenai: RequestQuirk = onlyChat((body, model, lost, protocol) =>
  developerAsSystem(
    COUNTS_HIDDEN.test(bare(model)) ? body : olderTokenLimit(body, model, lost, protocol),
    model,
    lost,
    protocol,
  ),
)

/** Whether a wish says nothing: absent, null, false, or what everybody does anyway. */
const saysNothing = (value: Json | undefined, usual: Json): boolean =>
  value === undefined || value === null || value === usual

/** The o-series, and GPT-5 before 5.1, in all sizes; not the chat and search variants, which sample as usual. */
const ALWAYS_REASONS = /^(?:o[1-9](?:-|$)|gpt-5(?:-(?!chat|search)|$))/
/** GPT-5.1 and later can be told not to reason; the earlier of them do not unless asked. */
const MAY_REASON = /^gpt-(?:5\.[1-9]|[6-9])/
/** Models that count their hidden tokens too, and so know only `max_completion_tokens`. */
const COUNTS_HIDDEN = /^(?:o[1-9](?:-|$)|gpt-(?:5|[6-9]))/

/**
 * OpenAI's models that return sealed reasoning when a request includes `reasoning.encrypted_content`. Those that do not
 * reason, and the chat variants, answer 400 "Encrypted content is not supported with this model." to it
 * (pydantic/pydantic-ai#2865, 2025-09-11; #3326, 2025-11-04). Recorded with 200: o4-mini, gpt-5 to gpt-5.6.
 */
export const sealsReasoning = /(?:^|[/.])(?:o[134](?:-|$)|gpt-(?:5|[6-9])(?![^/]*-(?:chat|search)))/i

const bare = (model: string): string => model.slice(model.lastIndexOf('/') + 1).toLowerCase()

/** Wishes about sampling, with the value that says nothing. */
const SAMPLING: { readonly [member: string]: Json } = {
  temperature: 1,
  top_p: 1,
  presence_penalty: 0,
  frequency_penalty: 0,
  logprobs: false,
  top_logprobs: 0,
}

/**
 * OpenAI's reasoning models answer 400 to the wishes they cannot follow: `max_tokens` (recording
 * openai-chat-chat-bad-request-20cae3bd), `stop` (openai-chat-openai-gpt-5-mini-completions-0e3d59b0,
 * openai-chat-test-llm-call-when-stop-is-unsupported-when-addi-1e62bbf8) and, while they reason, sampling
 * (OpenAI's guide to GPT-5.2: temperature, top_p and logprobs go with effort `none` only). The limit has another
 * name, so nothing is lost; the others are given up and named.
 */
export const reasoningModels: RequestQuirk = (body, model, lost, protocol) => {
  const name = bare(model)
  let changed = body
  if (protocol === 'openai-chat' && COUNTS_HIDDEN.test(name) && body.max_tokens !== undefined) {
    const limit = body.max_completion_tokens ?? body.max_tokens
    changed = { ...without(body, 'max_tokens'), ...(limit !== null && { max_completion_tokens: limit }) }
  }
  const always = ALWAYS_REASONS.test(name)
  if (!always && !(MAY_REASON.test(name) && asksToReason(body))) return changed
  const refused = Object.keys(SAMPLING).filter((member) => !saysNothing(changed[member], SAMPLING[member] ?? null))
  // An empty list of stops is taken (a recorded o3-mini answered 200 to it).
  if (always && protocol === 'openai-chat' && list(changed.stop).length + (text(changed.stop) ?? '').length > 0)
    refused.push('stop')
  for (const member of refused) lost(member)
  return without(changed, ...refused)
}

const asksToReason = (body: JsonObject): boolean => {
  const effort = text(body.reasoning_effort) ?? (isObject(body.reasoning) ? text(body.reasoning.effort) : undefined)
  return effort !== undefined && effort !== 'none'
}
