import { withoutBillingLines } from '../../core/billing-line.ts'
import type { ChatRequest, Extra, GenerationSettings, OutputFormat, Setting } from '../../core/chat.ts'
import { isList, isObject, type Json, type JsonObject } from '../../core/json.ts'
import type { Encoded, EncodeTarget } from '../../core/protocol.ts'
import { thinksByBudgetOnly } from '../shared/claude.ts'
import { fitSchema } from '../shared/claude-schema.ts'
import { lost, lostUnlessNeutral, newLosses } from '../shared/losses.ts'
import { encodeOwnMember, type MemberChecks, newRequestDraft, type RequestDraft } from '../shared/request-draft.ts'
import {
  conversationMember,
  encodeSettings,
  JSON_INSTRUCTION,
  REASONING_SETTINGS_ELSEWHERE,
  type SettingEncoders,
  TOOL_SETTINGS_ELSEWHERE,
  UNSUPPORTED_SETTINGS,
  withFormatLabels,
} from '../shared/setting-encoders.ts'
import { encodeConversation } from './encode-messages.ts'
import { decideThinking, isThinking, type MessagesThinking } from './encode-thinking.ts'
import { encodeTools } from './encode-tools.ts'

/**
 * The output limit in tokens if neither the client nor the catalogue has one. This format requires a limit, and every model
 * since Claude 3.5 supports this one.
 */
export const DEFAULT_MAX_TOKENS = 8_192

/** Encodes a request in this format. */
export const encodeRequest = (request: ChatRequest, target: EncodeTarget): Encoded => {
  const losses = newLosses()
  const root = conversationMember(request)
  const { system: messagesSystem, turns } = encodeConversation(request.messages, losses)
  const { format } = request.settings
  const system =
    format?.value.kind === 'json' ? [...messagesSystem, { type: 'text', text: JSON_INSTRUCTION }] : messagesSystem
  // The upstream would reject a request without turns.
  if (turns.length === 0) losses.unfit(root)
  const tools = encodeTools(request, losses)
  const maxTokens = outputLimitOf(request.settings, target)
  const thinking = decideThinking(
    {
      settings: request.settings,
      extra: request.extras.find(isThinking),
      maxTokens,
      byBudget: thinksByBudgetOnly(target.model),
      forced: tools.forced,
      turns,
    },
    losses,
  )
  const draft = newMessagesDraft({ request, thinking, maxTokens }, newRequestDraft(losses))
  draft.put('model', target.model, 'model')
  draft.put('max_tokens', maxTokens, request.settings.maxOutputTokens?.at)
  if (system.length > 0) draft.put('system', systemOf(system), (request.messages.find(isSystem) ?? format)?.at)
  draft.put('messages', turns, root)
  if (tools.tools.length > 0) draft.put('tools', tools.tools, 'tools')
  if (tools.choice) {
    const { toolChoice, parallelToolCalls } = request.settings
    draft.put('tool_choice', tools.choice, (toolChoice ?? parallelToolCalls)?.at)
    if (parallelToolCalls) draft.setFrom('tool_choice.disable_parallel_tool_use', parallelToolCalls.at)
  }
  if (thinking.member) draft.put('thinking', thinking.member, thinking.at)
  const { reasoningSummary } = request.settings
  if (thinking.member?.display !== undefined && reasoningSummary) draft.setFrom('thinking.display', reasoningSummary.at)
  if (thinking.effort) draft.config({ effort: thinking.effort }, request.settings.effort?.at)
  encodeSettings(request.settings, SETTING_ENCODERS, draft)
  for (const extra of request.extras) encodeExtra(extra, draft)
  if (request.stream) draft.put('stream', true, 'stream')
  const body = target.readsBillingLine ? draft.body : withoutBillingLines(draft.body)
  return { body, losses: losses.all(), from: draft.from }
}

const isSystem = ({ role }: { readonly role: string }): boolean => role === 'system'

/** A string for a single plain text, otherwise blocks. */
const systemOf = (blocks: readonly JsonObject[]): Json => {
  const [only] = blocks
  return blocks.length === 1 && only && Object.keys(only).length === 2 ? (only.text ?? null) : blocks
}

const outputLimitOf = (
  { maxOutputTokens, thinkingBudget }: GenerationSettings,
  { outputLimit }: EncodeTarget,
): number => {
  const most = outputLimit ?? Number.POSITIVE_INFINITY
  if (maxOutputTokens) return Math.max(1, Math.min(Math.floor(maxOutputTokens.value), most))
  // Thinking counts as output, so the budget is added.
  return outputLimit ?? DEFAULT_MAX_TOKENS + Math.max(0, thinkingBudget?.value ?? 0)
}

// ── The draft ────────────────────────────────────────────────────────────────────────────────────────────────────────

type MessagesDraftInput = {
  readonly request: ChatRequest
  readonly thinking: MessagesThinking
  readonly maxTokens: number
}

type MessagesDraft = MessagesDraftInput &
  RequestDraft & {
    /** Adds to `output_config`. */
    config(members: JsonObject, at: string | undefined): void
  }

const newMessagesDraft = (input: MessagesDraftInput, draft: RequestDraft): MessagesDraft => ({
  ...input,
  ...draft,
  config(members, at) {
    // The object as a whole has a path as well as its members.
    if (at !== undefined) draft.setFrom('output_config', at)
    for (const [name, value] of Object.entries(members))
      if (value !== undefined) draft.putIn('output_config', name, value, at)
  },
})

// ── The settings ─────────────────────────────────────────────────────────────────────────────────────────────────────

const SETTING_ENCODERS: SettingEncoders<MessagesDraft> = {
  maxOutputTokens: ({ value, at }, { maxTokens, losses }) => {
    if (value !== maxTokens) losses.lose(at)
  },
  temperature: ({ value, at }, { put, thinking, request, losses }) => {
    const clamped = Math.min(1, Math.max(0, value))
    if (clamped !== value) losses.lose(at)
    // With thinking only the default of 1 is allowed.
    if (thinking.on && clamped !== 1) return losses.lose(at)
    if (clamped === 1 && request.settings.topP && request.settings.topP.value !== 1) return
    put('temperature', clamped, at)
  },
  topP: ({ value, at }, { put, thinking, request, losses }) => {
    const clamped = Math.min(1, Math.max(0, value))
    if (clamped !== value) losses.lose(at)
    const { temperature } = request.settings
    if (thinking.on && clamped < 0.95) return losses.lose(at)
    // Newer models reject `temperature` and `top_p` together. If neither has its default of 1, `top_p` is dropped.
    if (temperature && clamped === 1) return
    if (temperature && temperature.value !== 1) return losses.lose(at)
    put('top_p', clamped, at)
  },
  topK: ({ value, at }, { put, thinking, losses }) => {
    if (thinking.on) losses.lose(at)
    else put('top_k', Math.max(0, Math.floor(value)), at)
  },
  stop: ({ value, at }, { put, losses }) => {
    // Anthropic: "each stop sequence must contain non-whitespace".
    const sequences = value.filter((sequence) => sequence.trim() !== '')
    if (sequences.length < value.length) losses.lose(at)
    if (sequences.length > 0) put('stop_sequences', sequences, at)
  },
  seed: lost,
  presencePenalty: lostUnlessNeutral,
  frequencyPenalty: lostUnlessNeutral,
  ...UNSUPPORTED_SETTINGS,
  ...TOOL_SETTINGS_ELSEWHERE,
  format: (setting, draft) => encodeFormat(setting, draft),
  ...REASONING_SETTINGS_ELSEWHERE,
  user: ({ value, at }, { put, losses }) => {
    // Anthropic rejects email addresses and ids above 512 characters.
    if (value === '' || value.length > 512 || value.includes('@')) return losses.lose(at)
    put('metadata', { user_id: value }, at)
  },
  serviceTier: ({ value, at }, { put, losses }) => {
    const tier = TIERS.get(value)
    if (tier) put('service_tier', tier, at)
    else losses.lose(at)
  },
}

const TIERS: ReadonlyMap<string, string> = new Map([
  ['auto', 'auto'],
  ['default', 'standard_only'],
  ['standard_only', 'standard_only'],
])

const encodeFormat = (format: Setting<OutputFormat>, { config, losses }: MessagesDraft): void => {
  const { value, at } = format
  switch (value.kind) {
    case 'text':
      return
    case 'json':
      // `encodeRequest` adds an instruction to the system prompt.
      return
    case 'schema': {
      const { schema, described, impossible } = fitSchema(value.schema)
      if (impossible.length > 0 || !isObject(schema)) return losses.unfit(at)
      for (const path of described) losses.loseMember(format, 'schema', path)
      config({ format: { type: 'json_schema', schema: withFormatLabels(schema, value) } }, at)
      return
    }
    default:
      throw new Error(`unknown format ${JSON.stringify(value satisfies never)}`)
  }
}

// ── Members of this format only ──────────────────────────────────────────────────────────────────────────────────────

/** Checks of members without a field in `ChatRequest`, also sent by clients of other formats. */
const MEMBER_CHECKS: MemberChecks = {
  cache_control: isObject,
  container: (value) => isObject(value) || typeof value === 'string',
  context_management: isObject,
  inference_geo: (value) => typeof value === 'string',
  mcp_servers: isList,
  speed: (value) => typeof value === 'string',
  user_profile_id: (value) => typeof value === 'string',
}

const encodeExtra = (extra: Extra, draft: MessagesDraft): void => {
  const { name, value, at } = extra
  if (isThinking(extra)) return
  if (name === 'task_budget' && at === 'output_config.task_budget') draft.config({ task_budget: value }, at)
  else encodeOwnMember(extra, MEMBER_CHECKS, draft)
}
