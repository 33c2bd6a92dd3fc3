/** Encodes requests of Ollama's `/api/chat`. Ollama ignores unknown members, so unsupported ones are reported as lost. */
import type { ChatRequest, Extra, GenerationSettings, Setting } from '../../core/chat.ts'
import { isObject, sourceOf } from '../../core/json.ts'
import type { Encoded, EncodeTarget } from '../../core/protocol.ts'
import { LEVELS } from '../shared/effort.ts'
import { lost, newLosses } from '../shared/losses.ts'
import { encodeOwnMember, type MemberChecks, newRequestDraft, type RequestDraft } from '../shared/request-draft.ts'
import {
  conversationMember,
  encodeSettings,
  type SettingEncoders,
  TOOL_SETTINGS_ELSEWHERE,
  UNSUPPORTED_SETTINGS,
  withFormatLabels,
} from '../shared/setting-encoders.ts'
import { ifTrue, lostWithoutReasoning, topLogprobs } from '../shared/setting-rows.ts'
import { encodeMessages } from './encode-messages.ts'
import { encodeTools } from './encode-tools.ts'

/** Encodes a request; the result lists the losses. */
export const encodeRequest = (request: ChatRequest, target: EncodeTarget): Encoded => {
  const losses = newLosses()
  const draft: OllamaDraft = { ...newRequestDraft(losses), settings: request.settings }
  draft.put('model', target.model, undefined)
  const messages = encodeMessages(request.messages, losses)
  const root = conversationMember(request)
  // Without messages the server only loads the model.
  if (messages.length === 0) losses.unfit(root)
  draft.put('messages', messages, root)
  const tools = encodeTools(request, losses)
  if (tools.length > 0) draft.put('tools', tools, 'tools')
  // Canonical settings override Ollama's own members.
  for (const extra of request.extras) encodeExtra(extra, draft)
  encodeSettings(request.settings, SETTING_ENCODERS, draft)
  // Always written, since Ollama streams by default.
  draft.put('stream', request.stream, 'stream')
  // By default Ollama silently truncates the start of a prompt that is too long (ollama/ollama issue 4967).
  if (draft.body.truncate === undefined) draft.put('truncate', false, undefined)
  return { body: draft.body, losses: losses.all(), from: draft.from }
}

type OllamaDraft = RequestDraft & { readonly settings: GenerationSettings }

// ── Settings ─────────────────────────────────────────────────────────────────────────────────────────────────────

const numberOption =
  (option: string) =>
  ({ value, at }: Setting<number>, { putIn }: RequestDraft): void =>
    putIn('options', option, value, at)

const SETTING_ENCODERS: SettingEncoders<OllamaDraft> = {
  maxOutputTokens: ({ value, at }, { putIn }) => putIn('options', 'num_predict', Math.max(1, Math.floor(value)), at),
  temperature: numberOption('temperature'),
  topP: numberOption('top_p'),
  topK: ({ value, at }, { putIn }) => putIn('options', 'top_k', Math.max(1, Math.floor(value)), at),
  stop: ({ value, at }, { putIn }) => putIn('options', 'stop', value, at),
  seed: ({ value, at }, { putIn, losses }) => {
    const fits = typeof value === 'number' && Number.isSafeInteger(value) && sourceOf(value) === undefined
    if (fits) putIn('options', 'seed', value, at)
    else losses.lose(at)
  },
  presencePenalty: numberOption('presence_penalty'),
  frequencyPenalty: numberOption('frequency_penalty'),
  ...UNSUPPORTED_SETTINGS,
  logprobs: ifTrue('logprobs'),
  topLogprobs: topLogprobs('logprobs', 'top_logprobs'),
  ...TOOL_SETTINGS_ELSEWHERE,
  format: ({ value, at }, { put, losses }) => {
    switch (value.kind) {
      case 'text':
        return
      case 'json':
        return put('format', 'json', at)
      case 'schema':
        return isObject(value.schema) ? put('format', withFormatLabels(value.schema, value), at) : losses.unfit(at)
      default:
        throw new Error(`unknown format ${JSON.stringify(value satisfies never)}`)
    }
  },
  effort: ({ value, at }, { put, losses }) => {
    // Models without levels treat each as `true`.
    const level = value === 'none' ? false : LEVELS[value]
    if (level !== value && value !== 'none') losses.lose(at)
    put('think', level, at)
  },
  thinkingBudget: ({ value, at }, { put, settings, losses }) => {
    if (value > 0) losses.lose(at)
    if (!settings.effort) put('think', value > 0, at)
  },
  reasoningSummary: lostWithoutReasoning,
  encryptedReasoning: lost,
}

// ── Ollama's own members ─────────────────────────────────────────────────────────────────────────────────────────

const MEMBER_CHECKS: MemberChecks = {
  keep_alive: (value) => typeof value === 'string' || typeof value === 'number',
  think: (value) => typeof value === 'boolean' || value === 'low' || value === 'medium' || value === 'high',
  truncate: (value) => typeof value === 'boolean',
  shift: (value) => typeof value === 'boolean',
}

const encodeExtra = (extra: Extra, draft: OllamaDraft): void => {
  const { name, value, at } = extra
  if (name !== 'options' || !isObject(value)) return encodeOwnMember(extra, MEMBER_CHECKS, draft)
  for (const [option, entry] of Object.entries(value))
    if (entry !== undefined && entry !== null) draft.putIn('options', option, entry, `${at}.${option}`)
}
