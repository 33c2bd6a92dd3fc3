import type { ChatRequest, Extra, GenerationSettings, OutputFormat, Setting } from '../../core/chat.ts'
import { isList, isObject, type Json, type JsonObject } from '../../core/json.ts'
import type { Encoded, EncodeTarget } from '../../core/protocol.ts'
import { fitSchema } from '../shared/claude-schema.ts'
import { type Losses, lost, lostUnlessNeutral, newLosses } from '../shared/losses.ts'
import {
  conversationMember,
  encodeSettings,
  JSON_INSTRUCTION,
  REASONING_SETTINGS_ELSEWHERE,
  type SettingEncoders,
  TOOL_SETTINGS_ELSEWHERE,
  UNSUPPORTED_SETTINGS,
} from '../shared/setting-encoders.ts'
import { encodeConversation } from './encode-messages.ts'
import { decideThinking, isThinking, type Thinking } from './encode-thinking.ts'
import { encodeTools } from './encode-tools.ts'
import { type Family, familyOf } from './family.ts'

/** A request in this format, and whatever of it could not be carried. Model and streaming are said by the path. */
export const encodeRequest = (request: ChatRequest, target: EncodeTarget): Encoded => {
  const losses = newLosses()
  const family = familyOf(target.model)
  const tools = encodeTools(request, family, losses)
  const { system: said, turns } = encodeConversation(request.messages, { family, inWords: !tools.config }, losses)
  const { format } = request.settings
  const system = format?.value.kind === 'json' ? [...said, { text: JSON_INSTRUCTION }] : said
  const root = conversationMember(request)
  // Without a single turn nothing is asked; the upstream would refuse it.
  if (turns.length === 0) losses.unfit(root)
  const extra = request.extras.find(isThinking)
  const limit = limitOf(request.settings, target)
  const thinking = decideThinking(
    { settings: request.settings, extra, family, forced: tools.forced, limit, turns },
    losses,
  )
  const draft = newDraft({ request, target, family, thinking, losses })
  draft.put('messages', turns, root)
  const first = request.messages.find(({ role }) => role === 'system') ?? format
  if (system.length > 0) draft.put('system', system, first?.at)
  if (tools.config) draft.put('toolConfig', tools.config, 'tools')
  for (const [name, value] of Object.entries(thinking.fields ?? {}))
    if (value !== undefined) draft.pass(name, value, thinking.at)
  encodeSettings(request.settings, SETTING_ENCODERS, draft)
  for (const one of request.extras) if (one !== extra) carryExtra(one, draft)
  return { body: draft.body(), losses: losses.all(), from: draft.from }
}

/** The longest answer there can be, in tokens, where anybody knows. */
const limitOf = ({ maxOutputTokens }: GenerationSettings, { outputLimit }: EncodeTarget): number | undefined => {
  if (!maxOutputTokens) return outputLimit
  return Math.max(1, Math.min(Math.floor(maxOutputTokens.value), outputLimit ?? Number.POSITIVE_INFINITY))
}

// ── The draft ────────────────────────────────────────────────────────────────────────────────────────────────────

type Facts = {
  readonly request: ChatRequest
  readonly target: EncodeTarget
  readonly family: Family
  readonly thinking: Thinking
  readonly losses: Losses
}

type Draft = Facts & {
  readonly from: { readonly [member: string]: string }
  put(member: string, value: Json, at: string | undefined): void
  /** Adds to `inferenceConfig`. */
  infer(member: string, value: Json, at: string): void
  /** Adds to `additionalModelRequestFields`: what the model's maker has and this format has no word for. */
  pass(member: string, value: Json, at: string | undefined): void
  body(): JsonObject
}

const newDraft = (facts: Facts): Draft => {
  const members: { [member: string]: Json } = {}
  const inference: { [member: string]: Json } = {}
  const passed: { [member: string]: Json } = {}
  const from: { [member: string]: string } = {}
  return {
    ...facts,
    from,
    put(member, value, at) {
      members[member] = value
      if (at !== undefined) from[member] = at
    },
    infer(member, value, at) {
      inference[member] = value
      from[`inferenceConfig.${member}`] = at
    },
    pass(member, value, at) {
      passed[member] = value
      if (at !== undefined) from[`additionalModelRequestFields.${member}`] = at
    },
    body: () => ({
      ...members,
      ...(Object.keys(inference).length > 0 && { inferenceConfig: inference }),
      ...(Object.keys(passed).length > 0 && { additionalModelRequestFields: passed }),
    }),
  }
}

// ── The settings ─────────────────────────────────────────────────────────────────────────────────────────────────

const clamped = (value: number): number => Math.min(1, Math.max(0, value))

/** "Array Members: Minimum number of 0 items. Maximum number of 2500 items", of at least one character (its document). */
const MOST_STOPS = 2_500
const TIERS: ReadonlySet<string> = new Set(['priority', 'flex', 'reserved'])
/** What a value of `requestMetadata` may be, and of how many (its document). */
const METADATA = /^[a-zA-Z0-9\s:_@$#=/+,.-]{0,256}$/
const MOST_METADATA = 16

const SETTING_ENCODERS: SettingEncoders<Draft> = {
  // Left out it is the most the model can do (its document on InferenceConfiguration), so none is made up.
  maxOutputTokens: ({ value, at }, { request, target, infer, losses }) => {
    const fitting = limitOf(request.settings, target) ?? value
    if (fitting !== value) losses.lose(at)
    infer('maxTokens', fitting, at)
  },
  temperature: ({ value, at }, { infer, family, thinking, request, losses }) => {
    const fitting = clamped(value)
    if (fitting !== value) losses.lose(at)
    if (family.maker !== 'anthropic') return infer('temperature', fitting, at)
    // One is what goes without saying, and nothing else goes with thinking.
    if (thinking.on && fitting !== 1) return losses.lose(at)
    const { topP } = request.settings
    if (fitting === 1 && topP && topP.value !== 1) return
    infer('temperature', fitting, at)
  },
  topP: ({ value, at }, { infer, family, thinking, request, losses }) => {
    const fitting = clamped(value)
    if (fitting !== value) losses.lose(at)
    if (family.maker !== 'anthropic') return infer('topP', fitting, at)
    if (thinking.on && fitting < 0.95) return losses.lose(at)
    // "`temperature` and `top_p` cannot both be specified for this model". The whole is what goes without saying;
    // otherwise temperature is the one most people mean.
    const { temperature } = request.settings
    if (temperature && fitting === 1) return
    if (temperature && temperature.value !== 1) return losses.lose(at)
    infer('topP', fitting, at)
  },
  topK: ({ value, at }, { pass, family, thinking, losses }) => {
    const wanted = Math.max(0, Math.floor(value))
    if (family.topK === null || (family.maker === 'anthropic' && thinking.on)) losses.lose(at)
    else if (family.topK === 'top_k') pass('top_k', wanted, at)
    else pass('inferenceConfig', { topK: wanted }, at)
  },
  stop: ({ value, at }, { infer, family, losses }) => {
    // Claude: "each stop sequence must contain non-whitespace".
    const fits = (sequence: string) => (family.maker === 'anthropic' ? sequence.trim() : sequence) !== ''
    const sequences = value.filter(fits).slice(0, MOST_STOPS)
    if (sequences.length < value.length) losses.lose(at)
    if (sequences.length > 0) infer('stopSequences', sequences, at)
  },
  seed: lost,
  presencePenalty: lostUnlessNeutral,
  frequencyPenalty: lostUnlessNeutral,
  ...UNSUPPORTED_SETTINGS,
  ...TOOL_SETTINGS_ELSEWHERE,
  format: (setting, draft) => carryFormat(setting, draft),
  ...REASONING_SETTINGS_ELSEWHERE,
  serviceTier: ({ value, at }, { put, losses }) => {
    if (TIERS.has(value)) put('serviceTier', { type: value }, at)
    else if (value !== 'auto' && value !== 'default' && value !== 'standard_only') losses.lose(at)
  },
  metadata: ({ value, at }, { put, losses }) => {
    const kept: { [name: string]: string } = {}
    for (const [name, said] of Object.entries(value)) {
      const fits = typeof said === 'string' && METADATA.test(said) && name !== '' && METADATA.test(name)
      if (fits && Object.keys(kept).length < MOST_METADATA) kept[name] = said
      else losses.lose(at)
    }
    if (Object.keys(kept).length > 0) put('requestMetadata', kept, at)
  },
}

const carryFormat = (format: Setting<OutputFormat>, { put, family, losses }: Draft): void => {
  const { value, at } = format
  switch (value.kind) {
    case 'text':
      return
    case 'json':
      // A line of the system prompt asks for it.
      return
    case 'schema': {
      // It is held to the same part of JSON Schema for every model: an unknown word is a 400.
      const { schema, described, impossible } = fitSchema(value.schema)
      if (!family.schemas || impossible.length > 0 || !isObject(schema)) return losses.unfit(at)
      for (const path of described) losses.loseMember(format, 'schema', path)
      const { name, description } = value
      const jsonSchema = { schema: JSON.stringify(schema), name, ...(description && { description }) }
      // The schema is text inside the body (recording chat-with-schema-with-bedrock-claude-haiku-4-5).
      return put('outputConfig', { textFormat: { type: 'json_schema', structure: { jsonSchema } } }, at)
    }
    default:
      throw new Error(`unknown format ${JSON.stringify(value satisfies never)}`)
  }
}

// ── Members nobody else has ──────────────────────────────────────────────────────────────────────────────────────

/** Members of this format that clients of others send through. */
const EXTRAS: { readonly [name: string]: (value: Json) => boolean } = {
  guardrailConfig: isObject,
  performanceConfig: isObject,
  promptVariables: isObject,
  requestMetadata: isObject,
  additionalModelResponseFieldPaths: isList,
}

const carryExtra = (extra: Extra, { put, pass, losses }: Draft): void => {
  const { name, value, at } = extra
  if (name === 'additionalModelRequestFields' && isObject(value)) {
    for (const [member, one] of Object.entries(value)) if (one !== undefined) pass(member, one, at)
  } else if (Object.hasOwn(EXTRAS, name) && EXTRAS[name]?.(value)) put(name, value, at)
  else losses.loseExtra(extra)
}
