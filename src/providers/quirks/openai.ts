/** Combinations of members that OpenAI and Azure OpenAI refuse. */
import type { Accepts } from '../../core/accepts.ts'
import { isObject, type Json, type JsonObject, list, text } from '../../core/json.ts'
import { mapMember, withoutMember } from '../../core/json-edit.ts'
import { flatEffort } from './chat-messages.ts'
import { CHAT_LIMITS, RESPONSES_LIMITS } from './limits.ts'
import { inOrder, onlyChat, onlyResponses, type RequestQuirk, reasoningModels } from './request.ts'

/**
 * Members of its chat completions beyond the common ones. They have no place for reasoning of earlier turns: reports differ on
 * whether it is refused or ignored (github.com/adamrushy/OpenAISwift/issues/99, 2023).
 */
export const CHAT: Accepts = {
  takes: ['store', 'metadata', 'prompt_cache_key', 'service_tier', 'verbosity'],
  reasoning: [],
  limits: CHAT_LIMITS,
  objectParameters: true,
  // "Invalid MIME type. Only image types are supported." (github.com/nraiden/cofounder/issues/72, 2024-11-06).
  imagesOnly: true,
}

export const RESPONSES: Accepts = { limits: RESPONSES_LIMITS, objectParameters: true }

/** Prompt caching with breakpoints: "Supported for gpt-5.6 and later models" (OpenAI's published schema). */
export const BREAKPOINTS = {
  models: /(?:^|\/)gpt-(?:5\.(?:[6-9]|[1-9]\d)|[6-9]|[1-9]\d)/i,
  mark: 'prompt_cache_breakpoint',
} as const

const bare = (model: string): string => model.slice(model.lastIndexOf('/') + 1).toLowerCase()

/** GPT-5.4: refuses an effort together with tools. */
const BY_EFFORT = /^gpt-5\.4(?:-|$)/
/** GPT-5.5 and later reason by default, and refuse tools unless the effort is `none`; chat and search variants do not reason. */
const BY_DEFAULT = /^gpt-(?:5\.(?:[5-9]|[1-9][0-9])|[6-9])(?!.*-(?:chat|search))/

/**
 * Chat completions of these models refuse function tools together with reasoning, and the error recommends responses
 * (github.com/pipecat-ai/pipecat/issues/4043, 2026-03-16; github.com/danny-avila/LibreChat/issues/14355, 2026-07-21, and
 * github.com/jeffdafoe/llm-memory-api/pull/178, 2026-04-29: also without an effort). So this protocol is unfit for them.
 */
const toolsWhileReasoning: RequestQuirk = onlyChat((body, model, lost) => {
  if (list(body.tools).length === 0) return body
  const name = bare(model)
  const effort = text(body.reasoning_effort)
  const reasons = effort === undefined ? BY_DEFAULT.test(name) : effort !== 'none'
  if (reasons && (BY_EFFORT.test(name) || BY_DEFAULT.test(name)))
    lost(effort === undefined ? 'tools' : 'reasoning_effort', true)
  return body
})

/** Models that do not reason, also fine-tuned ones (`ft:gpt-4o-mini:…`) and in Azure's spelling (`gpt-35-turbo`). */
const NEVER_REASONS = /^(?:ft:)?(?:gpt-(?:3|4)|chatgpt-4)/

/** Value of `verbosity` that is the default of every model. */
const USUAL_VERBOSITY = 'medium'

/**
 * Models that do not reason refuse an effort: "Unrecognized request argument supplied: reasoning_effort"
 * (github.com/davidmigloz/langchain_dart/issues/712; Azure: github.com/musistudio/claude-code-router/issues/724), in responses
 * "'reasoning.effort' is not supported with this model" (github.com/RageAgainstThePixel/OpenAI-DotNet/issues/500, 2025-10-24). They
 * have one verbosity (github.com/google-deepmind/concordia/issues/164, 2025-09-19). What they refuse is removed and reported.
 */
export const withoutReasoning: RequestQuirk = (body, model, lost, protocol) => {
  if (!NEVER_REASONS.test(bare(model))) return body
  return protocol === 'openai-responses' ? plainResponses(body, lost) : plainChat(body, lost)
}

type ReportLoss = (path: string) => void

const plainChat = (body: JsonObject, lost: ReportLoss): JsonObject => {
  const { reasoning_effort: effort, verbosity } = body
  if (text(effort) !== undefined && effort !== 'none') lost('reasoning_effort')
  if (text(verbosity) === undefined || verbosity === USUAL_VERBOSITY) return withoutMember(body, 'reasoning_effort')
  lost('verbosity')
  return withoutMember(body, 'reasoning_effort', 'verbosity')
}

const plainResponses = (body: JsonObject, lost: ReportLoss): JsonObject => {
  let plain = body
  const { reasoning, text: format } = body
  const effort = isObject(reasoning) ? text(reasoning.effort) : undefined
  if (isObject(reasoning) && effort !== undefined) {
    if (effort !== 'none') lost('reasoning.effort')
    const rest = withoutMember(reasoning, 'effort')
    plain = Object.keys(rest).length > 0 ? { ...plain, reasoning: rest } : withoutMember(plain, 'reasoning')
  }
  const verbosity = isObject(format) ? text(format.verbosity) : undefined
  if (!isObject(format) || verbosity === undefined || verbosity === USUAL_VERBOSITY) return plain
  lost('text.verbosity')
  return { ...plain, text: withoutMember(format, 'verbosity') }
}

/**
 * "The 'metadata' parameter is only allowed when 'store' is enabled." (github.com/QwenLM/qwen-code/issues/243;
 * github.com/BerriAI/litellm/issues/23108). It labels stored answers only, so it is removed and reported.
 */
const storedMetadata: RequestQuirk = onlyChat((body, _model, lost) => {
  const { metadata, store } = body
  if (metadata === undefined || store === true) return body
  if (isObject(metadata) && Object.keys(metadata).length > 0) lost('metadata')
  return withoutMember(body, 'metadata')
})

/** Prefix of OpenAI's encrypted reasoning: all 104 recordings of OpenAI and Azure have it, none of xAI, Bedrock and DeepSeek. */
const OWN_ENCRYPTION = /^gAAAA/

/** ID prefixes of its items (github.com/jlcodes99/cockpit-tools/issues/2090, 2026-08-26; github.com/openai/codex/issues/33176, 2026-07-14). */
const PREFIXES: { readonly [type: string]: string } = { reasoning: 'rs_', message: 'msg_', function_call: 'fc' }

const isOwn = ({ id, encrypted_content: encrypted, content }: JsonObject): boolean => {
  if (typeof encrypted === 'string' && encrypted !== '') return OWN_ENCRYPTION.test(encrypted)
  // Stored there and looked up by its ID. An item with plain-text reasoning is another vendor's.
  return text(id)?.startsWith('rs_') === true && list(content).length === 0
}

/**
 * Reasoning items of other vendors are refused: with another vendor's encryption (`invalid_encrypted_content`), with plain-text
 * reasoning (github.com/querymt/querymt/issues/976, 2026-09-22), or with another kind of ID. They are removed and reported as
 * dropped. IDs of other foreign items are removed, since nothing is looked up by them.
 */
const ownItemsOnly: RequestQuirk = onlyResponses((body, _model, lost) =>
  mapMember(body, 'input', (item, index) => ownItem(item, (member) => lost(`input[${index}]${member}`))),
)

const ownItem = (item: Json, lost: (member: string) => void): Json | undefined => {
  if (!isObject(item)) return item
  if (item.type === 'reasoning') {
    if (!isOwn(item)) {
      lost('')
      return undefined
    }
    if (list(item.content).length > 0) lost('.content')
  }
  const open = item.type === 'reasoning' && list(item.content).length > 0 ? withoutMember(item, 'content') : item
  const id = text(open.id)
  // An item without a type is a message.
  const type = text(open.type) ?? (typeof open.role === 'string' ? 'message' : '')
  const prefix = Object.hasOwn(PREFIXES, type) ? PREFIXES[type] : undefined
  return id === undefined || prefix === undefined || id.startsWith(prefix) ? open : withoutMember(open, 'id')
}

/** The changes to a request to OpenAI or Azure OpenAI, in their order. */
export const compatibleMembers: RequestQuirk = inOrder(
  onlyChat(flatEffort),
  withoutReasoning,
  reasoningModels,
  toolsWhileReasoning,
  storedMetadata,
  ownItemsOnly,
)
