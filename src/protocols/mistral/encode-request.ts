/**
 * Requests in Mistral's own schema, which forbids every member it does not name (422 `extra_forbidden`): a row for each
 * setting, and everything else is named as lost.
 */
import type { ChatRequest, Effort, Extra, GenerationSettings, OutputFormat, Setting } from '../../core/chat.ts'
import { isList, isObject, type Json, type JsonObject, sourceOf, text } from '../../core/json.ts'
import type { Encoded, EncodeTarget } from '../../core/protocol.ts'
import { encodedElsewhere, type Losses, lost, newLosses } from '../shared/losses.ts'
import {
  conversationMember,
  encodeSettings,
  type SettingEncoders,
  UNSUPPORTED_SETTINGS,
} from '../shared/setting-encoders.ts'
import { encodeMessages } from './encode-messages.ts'
import { encodeTools } from './encode-tools.ts'

/** A request in this format, and whatever of it could not be carried. */
export const encodeRequest = (request: ChatRequest, target: EncodeTarget): Encoded => {
  const losses = newLosses()
  const { settings } = request
  const members: { [member: string]: Json } = { model: target.model }
  const from: { [member: string]: string } = {}
  const draft: Draft = {
    losses,
    settings,
    hasTools: false,
    put(member, value, at) {
      members[member] = value
      from[member] = at
    },
  }
  const thinks = ALWAYS_THINKS.test(target.model) || wantsThoughts(settings)
  const messages = encodeMessages(request.messages, { thinks, losses })
  const root = conversationMember(request)
  if (messages.length === 0) losses.unfit(root)
  draft.put('messages', messages, root)
  const { tools, choice } = encodeTools(request, losses)
  if (tools.length > 0) draft.put('tools', tools, 'tools')
  if (choice !== undefined) draft.put('tool_choice', choice, settings.toolChoice?.at ?? 'tool_choice')
  encodeSettings(settings, SETTING_ENCODERS, { ...draft, hasTools: tools.length > 0 })
  for (const extra of request.extras) carryExtra(extra, draft)
  if (request.stream) draft.put('stream', true, 'stream')
  return { body: members, losses: losses.all(), from }
}

/** Models that think unasked. */
const ALWAYS_THINKS = /magistral/i

const wantsThoughts = ({ effort, thinkingBudget }: GenerationSettings): boolean =>
  effort ? effort.value !== 'none' : thinkingBudget !== undefined && thinkingBudget.value > 0

type Draft = {
  readonly losses: Losses
  readonly settings: GenerationSettings
  readonly hasTools: boolean
  put(member: string, value: Json, at: string): void
}

// ── The settings ─────────────────────────────────────────────────────────────────────────────────────────────────

/** A number within this format's bounds; one beyond them is brought back, and told. */
const bounded =
  (member: string, least: number, most: number) =>
  ({ value, at }: Setting<number>, { put, losses }: Draft): void => {
    const fitting = Math.min(most, Math.max(least, value))
    if (fitting !== value) losses.lose(at)
    put(member, fitting, at)
  }

/** It thinks or it does not. Beside these two words the schema has none. */
const EFFORTS: { readonly [effort in Effort]: 'none' | 'high' } = {
  none: 'none',
  minimal: 'none',
  low: 'high',
  medium: 'high',
  high: 'high',
  xhigh: 'high',
  max: 'high',
}

const SETTING_ENCODERS: SettingEncoders<Draft> = {
  maxOutputTokens: ({ value, at }, { put }) => put('max_tokens', Math.max(0, Math.floor(value)), at),
  temperature: bounded('temperature', 0, 1.5),
  topP: bounded('top_p', 0, 1),
  topK: lost,
  stop: ({ value, at }, { put }) => put('stop', value, at),
  seed: ({ value, at }, { put, losses }) => {
    const fits = typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
    if (fits && sourceOf(value) === undefined) put('random_seed', value, at)
    else losses.lose(at)
  },
  presencePenalty: bounded('presence_penalty', -2, 2),
  frequencyPenalty: bounded('frequency_penalty', -2, 2),
  ...UNSUPPORTED_SETTINGS,
  choices: ({ value, at }, { put }) => {
    if (value > 1) put('n', value, at)
  },
  toolChoice: encodedElsewhere,
  // It is refused when there are no tools, and says nothing then.
  parallelToolCalls: ({ value, at }, { put, hasTools }) => {
    if (hasTools) put('parallel_tool_calls', value, at)
  },
  format: (setting, draft) => carryFormat(setting, draft),
  effort: ({ value, at }, { put, losses }) => {
    const word = EFFORTS[value]
    if (word !== value) losses.lose(at)
    put('reasoning_effort', word, at)
  },
  thinkingBudget: ({ value, at }, { put, settings, losses }) => {
    if (value > 0) losses.lose(at)
    if (!settings.effort) put('reasoning_effort', value > 0 ? 'high' : 'none', at)
  },
  // Whoever has it think is shown the thoughts.
  reasoningSummary: ({ at }, { settings, losses }) => {
    if (!wantsThoughts(settings)) losses.lose(at)
  },
  encryptedReasoning: lost,
  promptCacheKey: ({ value, at }, { put }) => put('prompt_cache_key', value, at),
  metadata: ({ value, at }, { put }) => put('metadata', value, at),
}

const carryFormat = ({ value, at }: Setting<OutputFormat>, { put, losses }: Draft): void => {
  switch (value.kind) {
    case 'text':
      return put('response_format', { type: 'text' }, at)
    case 'json':
      return put('response_format', { type: 'json_object' }, at)
    case 'schema': {
      const { name, schema, description, strict } = value
      if (!isObject(schema)) return losses.unfit(at)
      const wanted: JsonObject = {
        name: name || 'answer',
        ...(description !== undefined && { description }),
        schema,
        ...(strict !== undefined && { strict }),
      }
      return put('response_format', { type: 'json_schema', json_schema: wanted }, at)
    }
    default:
      throw new Error(`unknown format ${JSON.stringify(value satisfies never)}`)
  }
}

// ── Members nobody else has ──────────────────────────────────────────────────────────────────────────────────────

/** Members of this format that clients of others send through; undefined: not of the shape it has here. */
const EXTRAS: { readonly [name: string]: (value: Json) => Json | undefined } = {
  safe_prompt: (value) => (typeof value === 'boolean' ? value : undefined),
  prompt_mode: (value) => (value === 'reasoning' ? value : undefined),
  random_seed: (value) => (Number.isSafeInteger(value) && Number(value) >= 0 ? value : undefined),
  guardrails: (value) => (isList(value) && value.every(isObject) ? value : undefined),
  prediction: (value) => predicted(value),
}

/** The expected text is a string here, never parts. */
const predicted = (value: Json): Json | undefined => {
  if (!isObject(value)) return undefined
  const { content } = value
  const words = isList(content)
    ? content.map((part) => (isObject(part) ? text(part.text) : undefined))
    : [text(content)]
  return words.every((word) => word !== undefined) ? { type: 'content', content: words.join('') } : undefined
}

const carryExtra = (extra: Extra, { put, losses }: Draft): void => {
  const { name, value, at } = extra
  const fitting = Object.hasOwn(EXTRAS, name) ? EXTRAS[name]?.(value) : undefined
  if (fitting !== undefined) put(name, fitting, at)
  else losses.loseExtra(extra)
}
