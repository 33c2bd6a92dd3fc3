import type { ChatRequest, OutputFormat, Setting } from '../../core/chat.ts'
import { isList, isObject, sourceOf } from '../../core/json.ts'
import type { Encoded, EncodeTarget } from '../../core/protocol.ts'
import { lostUnlessNeutral, newLosses, SCHEMA_OR_TOOLS } from '../shared/losses.ts'
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
import { clampSetting, ifTrue, outputLimit, stopSequences, topLogprobs } from '../shared/setting-rows.ts'
import { choices } from './choices.ts'
import { encodeConversation } from './encode-messages.ts'
import { decideThinking } from './encode-thinking.ts'
import { encodeTools } from './encode-tools.ts'
import { familyOf, type GeminiModelFamily } from './family.ts'
import { unenforced } from './schema.ts'

/** Encodes a request in this format. The path carries the model and whether the answer is a stream. */
export const encodeRequest = (request: ChatRequest, target: EncodeTarget): Encoded => {
  const losses = newLosses()
  const family = familyOf(target.model)
  const { system, turns } = encodeConversation(request.messages, family, losses)
  const root = conversationMember(request)
  // The upstream would reject a request without turns.
  if (turns.length === 0) losses.unfit(root)
  const tools = encodeTools(request, losses)
  const draft = newRequestDraft(losses)
  draft.put('contents', turns, root)
  const first = request.messages.find(({ role }) => role === 'system')
  if (system.length > 0) draft.put('systemInstruction', { parts: system }, first?.at)
  if (tools.tools.length > 0) draft.put('tools', tools.tools, 'tools')
  if (tools.config) draft.put('toolConfig', tools.config, request.settings.toolChoice?.at)
  const thinking = decideThinking(request.settings, family, losses)
  if (thinking) draft.putIn('generationConfig', 'thinkingConfig', thinking.config, thinking.at)
  encodeSettings(request.settings, SETTING_ENCODERS, {
    target,
    family,
    hasTools: tools.tools.length > 0,
    losses,
    put: (member, value, at) => draft.putIn('generationConfig', member, value, at),
  })
  for (const extra of request.extras) encodeOwnMember(extra, MEMBER_CHECKS, draft)
  return { body: draft.body, losses: losses.all(), from: draft.from }
}

// ── Settings ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** The `generationConfig` under construction. */
type GenerationConfigDraft = Pick<RequestDraft, 'losses' | 'put'> & {
  readonly target: EncodeTarget
  readonly family: GeminiModelFamily
  readonly hasTools: boolean
}

const MAX_STOPS = 5
const INT32 = 2 ** 31

const SETTING_ENCODERS: SettingEncoders<GenerationConfigDraft> = {
  maxOutputTokens: outputLimit('maxOutputTokens'),
  temperature: clampSetting('temperature', 0, 2),
  topP: clampSetting('topP', 0, 1),
  topK: ({ value, at }, { put }) => put('topK', Math.max(1, Math.floor(value)), at),
  stop: stopSequences('stopSequences', MAX_STOPS),
  seed: ({ value, at }, { put, losses }) => {
    const fits = typeof value === 'number' && Number.isInteger(value) && value >= -INT32 && value < INT32
    if (fits && sourceOf(value) === undefined) put('seed', value, at)
    else losses.lose(at)
  },
  // "Penalty is not enabled for this model": every current model (github.com/google-gemini/cookbook/issues/1290, 2026-07;
  // github.com/vercel/ai/issues/8943).
  presencePenalty: lostUnlessNeutral,
  frequencyPenalty: lostUnlessNeutral,
  ...UNSUPPORTED_SETTINGS,
  choices: ({ value, at }, { put, losses }) => {
    if (value > choices.most) losses.unfit(at)
    else if (value > 1) put('candidateCount', value, at)
  },
  logprobs: ifTrue('responseLogprobs'),
  topLogprobs: topLogprobs('responseLogprobs', 'logprobs'),
  ...TOOL_SETTINGS_ELSEWHERE,
  format: (setting, draft) => encodeFormat(setting, draft),
  ...REASONING_SETTINGS_ELSEWHERE,
}

const encodeFormat = (format: Setting<OutputFormat>, draft: GenerationConfigDraft): void => {
  const { value, at } = format
  const { put, losses } = draft
  // Before Gemini 3: "Function calling with a response mime type: 'application/json' is unsupported".
  const unsupported = draft.hasTools && !draft.family.schemaWithTools
  switch (value.kind) {
    case 'text':
      return
    case 'json':
      // JSON mode requires an instruction in the prompt as well, so only the guarantee is lost.
      if (unsupported) return losses.lose(at)
      return put('responseMimeType', 'application/json', at)
    case 'schema':
      if (unsupported) return losses.unfit(at, SCHEMA_OR_TOOLS)
      if (!isObject(value.schema)) return losses.unfit(at)
      for (const path of unenforced(value.schema)) losses.loseMember(format, 'schema', path)
      put('responseMimeType', 'application/json', at)
      return put('responseJsonSchema', withFormatLabels(value.schema, value), at)
    default:
      throw new Error(`unknown format ${JSON.stringify(value satisfies never)}`)
  }
}

/** Gemini's own members, which clients of other formats may send. */
const MEMBER_CHECKS: MemberChecks = {
  safetySettings: isList,
  cachedContent: (value) => typeof value === 'string' && value !== '',
}
