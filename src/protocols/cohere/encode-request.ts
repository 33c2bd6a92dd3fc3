import type { ChatRequest, Extra, GenerationSettings, OutputFormat, Setting } from '../../core/chat.ts'
import { isList, isObject, type Json, type JsonObject, sourceOf } from '../../core/json.ts'
import type { Encoded, EncodeTarget } from '../../core/protocol.ts'
import { type Losses, newLosses } from '../shared/losses.ts'
import {
  conversationMember,
  encodeSettings,
  REASONING_SETTINGS_ELSEWHERE,
  type SettingEncoders,
  TOOL_SETTINGS_ELSEWHERE,
  UNSUPPORTED_SETTINGS,
  withFormatLabels,
} from '../shared/setting-encoders.ts'
import { encodeConversation } from './encode-messages.ts'
import { decideThinking, isThinking } from './encode-thinking.ts'
import { encodeTools } from './encode-tools.ts'
import { familyOf } from './family.ts'
import { fitSchema } from './schema.ts'

/** A request in this format, and whatever of it could not be carried. */
export const encodeRequest = (request: ChatRequest, target: EncodeTarget): Encoded => {
  const losses = newLosses()
  const family = familyOf(target.model)
  const { settings } = request
  const thinking = decideThinking(request, family, losses)
  const tools = encodeTools(request, family, losses)
  const draft = newDraft(request, target, tools.tools.length > 0, losses)
  const { messages, documents } = encodeConversation(
    request.messages,
    { thinks: thinking.on, formatted: isFormatted(settings) },
    losses,
  )
  const root = conversationMember(request)
  // Without a single turn nothing is asked; the upstream would refuse it.
  if (!messages.some(({ role }) => role !== 'system')) losses.unfit(root)
  draft.put('model', target.model, 'model')
  draft.put('messages', messages, root)
  draft.put('stream', request.stream, 'stream')
  if (documents.length > 0) draft.put('documents', documents, root)
  if (tools.tools.length > 0) draft.put('tools', tools.tools, 'tools')
  if (tools.strict) draft.put('strict_tools', true, 'tools')
  if (tools.choice) draft.put('tool_choice', tools.choice, settings.toolChoice?.at)
  if (thinking.member) draft.put('thinking', thinking.member, thinking.at)
  encodeSettings(settings, SETTING_ENCODERS, draft)
  for (const extra of request.extras) if (!isThinking(extra)) carryExtra(extra, draft)
  return { body: draft.body, losses: losses.all(), from: draft.from }
}

const isFormatted = ({ format }: GenerationSettings): boolean => format !== undefined && format.value.kind !== 'text'

// ── The draft ────────────────────────────────────────────────────────────────────────────────────────────────────

type Draft = {
  readonly target: EncodeTarget
  readonly settings: GenerationSettings
  readonly hasTools: boolean
  readonly losses: Losses
  readonly body: JsonObject
  readonly from: { readonly [member: string]: string }
  put(member: string, value: Json, at: string | undefined): void
}

const newDraft = ({ settings }: ChatRequest, target: EncodeTarget, hasTools: boolean, losses: Losses): Draft => {
  const body: { [member: string]: Json } = {}
  const from: { [member: string]: string } = {}
  return {
    target,
    settings,
    hasTools,
    losses,
    body,
    from,
    put(member, value, at) {
      body[member] = value
      if (at !== undefined) from[member] = at
    },
  }
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

const MOST_STOPS = 5
const MOST_SEED = 2n ** 64n - 1n

const SETTING_ENCODERS: SettingEncoders<Draft> = {
  maxOutputTokens: ({ value, at }, { target, put, losses }) => {
    const fitting = Math.max(1, Math.min(Math.floor(value), target.outputLimit ?? Number.POSITIVE_INFINITY))
    if (fitting !== value) losses.lose(at)
    put('max_tokens', fitting, at)
  },
  temperature: bounded('temperature', 0, 1),
  topP: bounded('p', 0.01, 0.99),
  topK: ({ value, at }, draft) => bounded('k', 0, 500)({ value: Math.floor(value), at }, draft),
  stop: ({ value, at }, { put, losses }) => {
    const sequences = value.filter((sequence) => sequence !== '').slice(0, MOST_STOPS)
    if (sequences.length < value.length) losses.lose(at)
    if (sequences.length > 0) put('stop_sequences', sequences, at)
  },
  seed: ({ value, at }, { put, losses }) => {
    // A seed may be larger than a double holds; it is then kept as it was written.
    const digits = sourceOf(value) ?? String(value)
    if (/^[0-9]{1,20}$/.test(digits) && BigInt(digits) <= MOST_SEED) put('seed', value, at)
    else losses.lose(at)
  },
  presencePenalty: (setting, draft) => {
    // "Cannot specify both frequency_penalty and presence_penalty" (Cohere, errors, 400); of two the other is kept.
    if (setting.value === 0) return
    if ((draft.settings.frequencyPenalty?.value ?? 0) === 0) bounded('presence_penalty', 0, 1)(setting, draft)
    else draft.losses.lose(setting.at)
  },
  frequencyPenalty: (setting, draft) => {
    if (setting.value !== 0) bounded('frequency_penalty', 0, 1)(setting, draft)
  },
  ...UNSUPPORTED_SETTINGS,
  logprobs: ({ value, at }, { put }) => {
    if (value) put('logprobs', true, at)
  },
  // Those of the tokens written, not of others in their place.
  topLogprobs: ({ value, at }, { put, losses }) => {
    if (value <= 0) return
    losses.lose(at)
    put('logprobs', true, at)
  },
  ...TOOL_SETTINGS_ELSEWHERE,
  format: (setting, draft) => carryFormat(setting, draft),
  ...REASONING_SETTINGS_ELSEWHERE,
}

const carryFormat = (format: Setting<OutputFormat>, { put, hasTools, losses }: Draft): void => {
  const { value, at } = format
  switch (value.kind) {
    case 'text':
      return
    case 'json':
      // "Not supported when used in combinations with the `documents` or `tools` parameters". Clients that use it have to
      // say it in the prompt as well, so the wish arrives though its guarantee does not.
      if (hasTools) return losses.lose(at)
      return put('response_format', { type: 'json_object' }, at)
    case 'schema': {
      if (!isObject(value.schema) || hasTools) return losses.unfit(at)
      const { schema, described, impossible } = fitSchema(value.schema)
      if (impossible.length > 0) return losses.unfit(at)
      for (const path of described) losses.loseMember(format, 'schema', path)
      return put('response_format', { type: 'json_object', json_schema: withFormatLabels(schema, value) }, at)
    }
    default:
      throw new Error(`unknown format ${JSON.stringify(value satisfies never)}`)
  }
}

// ── Members nobody else has ──────────────────────────────────────────────────────────────────────────────────────

/** Members of this format that clients of others send through. */
const EXTRAS: { readonly [name: string]: (value: Json) => boolean } = {
  safety_mode: (value) => value === 'CONTEXTUAL' || value === 'STRICT' || value === 'OFF',
  citation_options: isObject,
  documents: (value) => isList(value) && value.every((one) => typeof one === 'string' || isObject(one)),
  stop_sequences: (value) =>
    isList(value) && value.length <= MOST_STOPS && value.every((one) => one && typeof one === 'string'),
  p: (value) => typeof value === 'number' && value >= 0.01 && value <= 0.99,
  k: (value) => Number.isInteger(value) && Number(value) >= 0 && Number(value) <= 500,
}

const carryExtra = (extra: Extra, { put, body, losses }: Draft): void => {
  const { name, value, at } = extra
  if (!Object.hasOwn(EXTRAS, name) || !EXTRAS[name]?.(value)) return losses.loseExtra(extra)
  // Not to be had together; see `formatted`.
  if (name === 'documents' && body.response_format !== undefined) return losses.unfit(at)
  const before = body[name]
  if (before === undefined) put(name, value, at)
  // The client's files are documents already.
  else if (name === 'documents' && isList(before) && isList(value)) put(name, [...before, ...value], at)
  else losses.loseExtra(extra)
}
