import type { ChatRequest, Extra, OutputFormat, Setting } from '../../core/chat.ts'
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
import { choices } from './choices.ts'
import { encodeConversation } from './encode-messages.ts'
import { decideThinking } from './encode-thinking.ts'
import { encodeTools } from './encode-tools.ts'
import { type Family, familyOf } from './family.ts'
import { unenforced } from './schema.ts'

/** A request in this format, and whatever of it could not be carried. Model and streaming are said by the path. */
export const encodeRequest = (request: ChatRequest, target: EncodeTarget): Encoded => {
  const losses = newLosses()
  const family = familyOf(target.model)
  const { system, turns } = encodeConversation(request.messages, family, losses)
  const root = conversationMember(request)
  // Without a single turn nothing is asked; the upstream would refuse it.
  if (turns.length === 0) losses.unfit(root)
  const tools = encodeTools(request, losses)
  const draft = newDraft(target, family, tools.tools.length > 0, losses)
  draft.put('contents', turns, root)
  const first = request.messages.find(({ role }) => role === 'system')
  if (system.length > 0) draft.put('systemInstruction', { parts: system }, first?.at)
  if (tools.tools.length > 0) draft.put('tools', tools.tools, 'tools')
  if (tools.config) draft.put('toolConfig', tools.config, request.settings.toolChoice?.at)
  const thinking = decideThinking(request.settings, family, losses)
  if (thinking) draft.generate('thinkingConfig', thinking.config, thinking.at)
  encodeSettings(request.settings, SETTING_ENCODERS, draft)
  for (const extra of request.extras) carryExtra(extra, draft)
  return { body: draft.body(), losses: losses.all(), from: draft.from }
}

// ── The draft ────────────────────────────────────────────────────────────────────────────────────────────────────

type Draft = {
  readonly target: EncodeTarget
  readonly family: Family
  readonly hasTools: boolean
  readonly losses: Losses
  readonly from: { readonly [member: string]: string }
  put(member: string, value: Json, at: string | undefined): void
  /** Adds to `generationConfig`. */
  generate(member: string, value: Json, at: string): void
  body(): JsonObject
}

const newDraft = (target: EncodeTarget, family: Family, hasTools: boolean, losses: Losses): Draft => {
  const members: { [member: string]: Json } = {}
  const config: { [member: string]: Json } = {}
  const from: { [member: string]: string } = {}
  return {
    target,
    family,
    hasTools,
    losses,
    from,
    put(member, value, at) {
      members[member] = value
      if (at !== undefined) from[member] = at
    },
    generate(member, value, at) {
      config[member] = value
      from[`generationConfig.${member}`] = at
    },
    body: () => ({ ...members, ...(Object.keys(config).length > 0 && { generationConfig: config }) }),
  }
}

// ── The settings ─────────────────────────────────────────────────────────────────────────────────────────────────

/** A number within this format's bounds; one beyond them is brought back, and told. */
const bounded =
  (member: string, least: number, most: number) =>
  ({ value, at }: Setting<number>, { generate, losses }: Draft): void => {
    const fitting = Math.min(most, Math.max(least, value))
    if (fitting !== value) losses.lose(at)
    generate(member, fitting, at)
  }

const MOST_STOPS = 5
const INT32 = 2 ** 31

const SETTING_ENCODERS: SettingEncoders<Draft> = {
  maxOutputTokens: ({ value, at }, { target, generate, losses }) => {
    const fitting = Math.max(1, Math.min(Math.floor(value), target.outputLimit ?? Number.POSITIVE_INFINITY))
    if (fitting !== value) losses.lose(at)
    generate('maxOutputTokens', fitting, at)
  },
  temperature: bounded('temperature', 0, 2),
  topP: bounded('topP', 0, 1),
  topK: ({ value, at }, { generate }) => generate('topK', Math.max(1, Math.floor(value)), at),
  stop: ({ value, at }, { generate, losses }) => {
    const sequences = value.filter((sequence) => sequence !== '').slice(0, MOST_STOPS)
    if (sequences.length < value.length) losses.lose(at)
    if (sequences.length > 0) generate('stopSequences', sequences, at)
  },
  seed: ({ value, at }, { generate, losses }) => {
    const fits = typeof value === 'number' && Number.isInteger(value) && value >= -INT32 && value < INT32
    if (fits && sourceOf(value) === undefined) generate('seed', value, at)
    else losses.lose(at)
  },
  presencePenalty: bounded('presencePenalty', -2, 1.999),
  frequencyPenalty: bounded('frequencyPenalty', -2, 1.999),
  ...UNSUPPORTED_SETTINGS,
  choices: ({ value, at }, { generate, losses }) => {
    if (value > choices.most) losses.unfit(at)
    else if (value > 1) generate('candidateCount', value, at)
  },
  logprobs: ({ value, at }, { generate }) => {
    if (value) generate('responseLogprobs', true, at)
  },
  topLogprobs: ({ value, at }, { generate, losses }) => {
    if (value <= 0) return
    if (value > 20) losses.lose(at)
    generate('responseLogprobs', true, at)
    generate('logprobs', Math.min(20, Math.floor(value)), at)
  },
  ...TOOL_SETTINGS_ELSEWHERE,
  format: (setting, draft) => carryFormat(setting, draft),
  ...REASONING_SETTINGS_ELSEWHERE,
}

const carryFormat = (format: Setting<OutputFormat>, { generate, hasTools, family, losses }: Draft): void => {
  const { value, at } = format
  switch (value.kind) {
    case 'text':
      return
    case 'json':
      // "Function calling with a response mime type: 'application/json' is unsupported", say models before the third
      // generation. Clients that use it also have to say it in the prompt, so the wish arrives though its guarantee does not.
      if (hasTools && !family.third) return losses.lose(at)
      return generate('responseMimeType', 'application/json', at)
    case 'schema': {
      if (!isObject(value.schema) || (hasTools && !family.third)) return losses.unfit(at)
      for (const path of unenforced(value.schema)) losses.loseMember(format, 'schema', path)
      generate('responseMimeType', 'application/json', at)
      generate('responseJsonSchema', withFormatLabels(value.schema, value), at)
      return
    }
    default:
      throw new Error(`unknown format ${JSON.stringify(value satisfies never)}`)
  }
}

// ── Members nobody else has ──────────────────────────────────────────────────────────────────────────────────────

/** Members of this format that clients of others send through. */
const EXTRAS: { readonly [name: string]: (value: Json) => boolean } = {
  safetySettings: isList,
  cachedContent: (value) => typeof value === 'string' && value !== '',
}

const carryExtra = (extra: Extra, { put, losses }: Draft): void => {
  const { name, value, at } = extra
  if (Object.hasOwn(EXTRAS, name) && EXTRAS[name]?.(value)) put(name, value, at)
  else losses.loseExtra(extra)
}
