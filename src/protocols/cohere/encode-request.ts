import type { ChatRequest, Extra, GenerationSettings, OutputFormat, Setting } from '../../core/chat.ts'
import { isList, isObject, sourceOf } from '../../core/json.ts'
import type { Encoded, EncodeTarget } from '../../core/protocol.ts'
import { newLosses, SCHEMA_OR_TOOLS } from '../shared/losses.ts'
import { encodeOwnMember, type MemberChecks, newRequestDraft, type RequestDraft } from '../shared/request-draft.ts'
import {
  conversationMember,
  encodeSettings,
  REASONING_SETTINGS_ELSEWHERE,
  type SettingEncoders,
  TOOL_SETTINGS_ELSEWHERE,
  UNSUPPORTED_SETTINGS,
  withFormatLabels,
} from '../shared/setting-encoders.ts'
import { clampSetting, ifTrue, outputLimit, stopSequences } from '../shared/setting-rows.ts'
import { encodeConversation } from './encode-messages.ts'
import { decideThinking, isThinking } from './encode-thinking.ts'
import { encodeTools } from './encode-tools.ts'
import { familyOf } from './family.ts'
import { fitSchema } from './schema.ts'

/** Encodes a request in this format; the result lists what could not be carried. */
export const encodeRequest = (request: ChatRequest, target: EncodeTarget): Encoded => {
  const losses = newLosses()
  const family = familyOf(target.model)
  const { settings } = request
  const thinking = decideThinking(request, family, losses)
  const tools = encodeTools(request, family, losses)
  const { messages, documents } = encodeConversation(
    request.messages,
    { thinks: thinking.on, hasOutputFormat: hasOutputFormat(settings) },
    losses,
  )
  const root = conversationMember(request)
  // The upstream would reject a request with system messages only.
  if (!messages.some(({ role }) => role !== 'system')) losses.unfit(root)
  const draft: CohereDraft = { ...newRequestDraft(losses), target, settings, hasTools: tools.tools.length > 0 }
  draft.put('model', target.model, 'model')
  draft.put('messages', messages, root)
  draft.put('stream', request.stream, 'stream')
  if (documents.length > 0) draft.put('documents', documents, root)
  if (tools.tools.length > 0) draft.put('tools', tools.tools, 'tools')
  if (tools.strict) draft.put('strict_tools', true, 'tools')
  if (tools.choice) draft.put('tool_choice', tools.choice, settings.toolChoice?.at)
  if (thinking.member) draft.put('thinking', thinking.member, thinking.at)
  encodeSettings(settings, SETTING_ENCODERS, draft)
  for (const extra of request.extras) if (!isThinking(extra)) encodeExtra(extra, draft)
  return { body: draft.body, losses: losses.all(), from: draft.from }
}

const hasOutputFormat = ({ format }: GenerationSettings): boolean =>
  format !== undefined && format.value.kind !== 'text'

type CohereDraft = RequestDraft & {
  readonly target: EncodeTarget
  readonly settings: GenerationSettings
  readonly hasTools: boolean
}

// ── Settings ─────────────────────────────────────────────────────────────────────────────────────────────────────

const MAX_STOPS = 5
const MAX_SEED = 2n ** 64n - 1n

const SETTING_ENCODERS: SettingEncoders<CohereDraft> = {
  maxOutputTokens: outputLimit('max_tokens'),
  temperature: clampSetting('temperature', 0, 1),
  topP: clampSetting('p', 0.01, 0.99),
  topK: ({ value, at }, draft) => clampSetting('k', 0, 500)({ value: Math.floor(value), at }, draft),
  stop: stopSequences('stop_sequences', MAX_STOPS),
  seed: ({ value, at }, { put, losses }) => {
    // A seed above 2^53 keeps its original digits.
    const digits = sourceOf(value) ?? String(value)
    if (/^[0-9]{1,20}$/.test(digits) && BigInt(digits) <= MAX_SEED) put('seed', value, at)
    else losses.lose(at)
  },
  presencePenalty: (setting, draft) => {
    // "Cannot specify both frequency_penalty and presence_penalty" (Cohere, errors, 400). The frequency penalty wins.
    if (setting.value === 0) return
    if ((draft.settings.frequencyPenalty?.value ?? 0) === 0) clampSetting('presence_penalty', 0, 1)(setting, draft)
    else draft.losses.lose(setting.at)
  },
  frequencyPenalty: (setting, draft) => {
    if (setting.value !== 0) clampSetting('frequency_penalty', 0, 1)(setting, draft)
  },
  ...UNSUPPORTED_SETTINGS,
  logprobs: ifTrue('logprobs'),
  // Cohere returns log probabilities of the generated tokens only, not of alternatives.
  topLogprobs: ({ value, at }, { put, losses }) => {
    if (value <= 0) return
    losses.lose(at)
    put('logprobs', true, at)
  },
  ...TOOL_SETTINGS_ELSEWHERE,
  format: (setting, draft) => encodeFormat(setting, draft),
  ...REASONING_SETTINGS_ELSEWHERE,
}

const encodeFormat = (format: Setting<OutputFormat>, { put, hasTools, losses }: CohereDraft): void => {
  const { value, at } = format
  switch (value.kind) {
    case 'text':
      return
    case 'json':
      // "Not supported when used in combinations with the `documents` or `tools` parameters". JSON mode requires an
      // instruction in the prompt as well, so only the guarantee is lost.
      if (hasTools) return losses.lose(at)
      return put('response_format', { type: 'json_object' }, at)
    case 'schema': {
      if (hasTools) return losses.unfit(at, SCHEMA_OR_TOOLS)
      if (!isObject(value.schema)) return losses.unfit(at)
      const { schema, described, impossible } = fitSchema(value.schema)
      if (impossible.length > 0) return losses.unfit(at)
      for (const path of described) losses.loseMember(format, 'schema', path)
      return put('response_format', { type: 'json_object', json_schema: withFormatLabels(schema, value) }, at)
    }
    default:
      throw new Error(`unknown format ${JSON.stringify(value satisfies never)}`)
  }
}

// ── Cohere's own members ─────────────────────────────────────────────────────────────────────────────────────────

const MEMBER_CHECKS: MemberChecks = {
  safety_mode: (value) => value === 'CONTEXTUAL' || value === 'STRICT' || value === 'OFF',
  citation_options: isObject,
  documents: (value) => isList(value) && value.every((document) => typeof document === 'string' || isObject(document)),
  stop_sequences: (value) =>
    isList(value) && value.length <= MAX_STOPS && value.every((sequence) => sequence && typeof sequence === 'string'),
  p: (value) => typeof value === 'number' && value >= 0.01 && value <= 0.99,
  k: (value) => Number.isInteger(value) && Number(value) >= 0 && Number(value) <= 500,
}

const encodeExtra = (extra: Extra, draft: CohereDraft): void => {
  const { name, value, at } = extra
  const { put, body, losses } = draft
  const existing = body[name]
  if (name !== 'documents') {
    // Canonical settings override Cohere's own members.
    if (existing === undefined) encodeOwnMember(extra, MEMBER_CHECKS, draft)
    else losses.loseExtra(extra)
  } else if (!isList(value) || !MEMBER_CHECKS.documents?.(value)) losses.loseExtra(extra)
  // An output format excludes documents; see `hasOutputFormat` in `encode-messages.ts`.
  else if (body.response_format !== undefined) losses.unfit(at)
  // Text files of the conversation are documents already.
  else put(name, isList(existing) ? [...existing, ...value] : value, at)
}
