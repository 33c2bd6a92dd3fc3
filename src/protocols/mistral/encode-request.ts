/** Encodes requests in Mistral's schema, which rejects unknown members (422 `extra_forbidden`). */
import type { ChatRequest, Effort, Extra, GenerationSettings } from '../../core/chat.ts'
import { isList, isObject, type Json, sourceOf, text } from '../../core/json.ts'
import type { Encoded, EncodeTarget } from '../../core/protocol.ts'
import { encodedElsewhere, lost, newLosses } from '../shared/losses.ts'
import { newRequestDraft, type RequestDraft } from '../shared/request-draft.ts'
import {
  chatResponseFormat,
  conversationMember,
  encodeSettings,
  type SettingEncoders,
  UNSUPPORTED_SETTINGS,
} from '../shared/setting-encoders.ts'
import { asMember, clampSetting, lostWithoutReasoning, wantsReasoning } from '../shared/setting-rows.ts'
import { encodeMessages } from './encode-messages.ts'
import { encodeTools } from './encode-tools.ts'

/** Encodes a request; the result lists the losses. */
export const encodeRequest = (request: ChatRequest, target: EncodeTarget): Encoded => {
  const losses = newLosses()
  const { settings } = request
  const draft = newRequestDraft(losses)
  draft.put('model', target.model, undefined)
  const thinks = ALWAYS_THINKS.test(target.model) || wantsReasoning(settings)
  const messages = encodeMessages(request.messages, { thinks, losses })
  const conversation = conversationMember(request)
  if (messages.length === 0) losses.unfit(conversation)
  draft.put('messages', messages, conversation)
  const { tools, choice } = encodeTools(request, losses)
  if (tools.length > 0) draft.put('tools', tools, 'tools')
  if (choice !== undefined) draft.put('tool_choice', choice, settings.toolChoice?.at ?? 'tool_choice')
  encodeSettings(settings, SETTING_ENCODERS, { ...draft, settings, hasTools: tools.length > 0 })
  for (const extra of request.extras) encodeExtra(extra, draft)
  if (request.stream) draft.put('stream', true, 'stream')
  return { body: draft.body, losses: losses.all(), from: draft.from }
}

/** Models that always reason. */
const ALWAYS_THINKS = /magistral/i

type MistralDraft = RequestDraft & { readonly settings: GenerationSettings; readonly hasTools: boolean }

// ── Settings ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** The schema has only two efforts. */
const EFFORTS: { readonly [effort in Effort]: 'none' | 'high' } = {
  none: 'none',
  minimal: 'none',
  low: 'high',
  medium: 'high',
  high: 'high',
  xhigh: 'high',
  max: 'high',
}

const SETTING_ENCODERS: SettingEncoders<MistralDraft> = {
  maxOutputTokens: ({ value, at }, { put }) => put('max_tokens', Math.max(0, Math.floor(value)), at),
  temperature: clampSetting('temperature', 0, 1.5),
  topP: clampSetting('top_p', 0, 1),
  topK: lost,
  stop: asMember('stop'),
  seed: ({ value, at }, { put, losses }) => {
    const fits = typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
    if (fits && sourceOf(value) === undefined) put('random_seed', value, at)
    else losses.lose(at)
  },
  presencePenalty: clampSetting('presence_penalty', -2, 2),
  frequencyPenalty: clampSetting('frequency_penalty', -2, 2),
  ...UNSUPPORTED_SETTINGS,
  choices: ({ value, at }, { put }) => {
    if (value > 1) put('n', value, at)
  },
  toolChoice: encodedElsewhere,
  // Rejected without tools.
  parallelToolCalls: ({ value, at }, { put, hasTools }) => {
    if (hasTools) put('parallel_tool_calls', value, at)
  },
  format: ({ value, at }, { put, losses }) => {
    if (value.kind === 'schema' && !isObject(value.schema)) losses.unfit(at)
    else put('response_format', chatResponseFormat(value), at)
  },
  effort: ({ value, at }, { put, losses }) => {
    const effort = EFFORTS[value]
    if (effort !== value) losses.lose(at)
    put('reasoning_effort', effort, at)
  },
  thinkingBudget: ({ value, at }, { put, settings, losses }) => {
    if (value > 0) losses.lose(at)
    if (!settings.effort) put('reasoning_effort', value > 0 ? 'high' : 'none', at)
  },
  reasoningSummary: lostWithoutReasoning,
  encryptedReasoning: lost,
  promptCacheKey: asMember('prompt_cache_key'),
  metadata: asMember('metadata'),
}

// ── Mistral's own members ────────────────────────────────────────────────────────────────────────────────────────

/** Mistral's members that clients of other formats may send; each returns the valid value or undefined. */
const EXTRAS: { readonly [name: string]: (value: Json) => Json | undefined } = {
  safe_prompt: (value) => (typeof value === 'boolean' ? value : undefined),
  prompt_mode: (value) => (value === 'reasoning' ? value : undefined),
  random_seed: (value) => (Number.isSafeInteger(value) && Number(value) >= 0 ? value : undefined),
  guardrails: (value) => (isList(value) && value.every(isObject) ? value : undefined),
  prediction: (value) => encodePrediction(value),
}

/** The predicted content must be a string, not parts. */
const encodePrediction = (value: Json): Json | undefined => {
  if (!isObject(value)) return undefined
  const { content } = value
  const texts = isList(content)
    ? content.map((part) => (isObject(part) ? text(part.text) : undefined))
    : [text(content)]
  return texts.every((entry) => entry !== undefined) ? { type: 'content', content: texts.join('') } : undefined
}

const encodeExtra = (extra: Extra, { put, losses }: RequestDraft): void => {
  const { name, value, at } = extra
  const fitting = Object.hasOwn(EXTRAS, name) ? EXTRAS[name]?.(value) : undefined
  if (fitting !== undefined) put(name, fitting, at)
  else losses.loseExtra(extra)
}
